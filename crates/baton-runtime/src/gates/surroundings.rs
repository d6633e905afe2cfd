//! The confinement of a gate and the variables that it sees. A gate runs what agents wrote, so it may
//! do what their commands may do, and write a cache of its own so that it is as fast as the user's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use baton_core::policy::{Allowed, Gate};
use tempfile::TempDir;

use super::Place;
use crate::executor::{USUAL, open};
use crate::load::{self, Environment};
use crate::sandbox::{self, Closed, Confine};
use crate::{drive, store, view};

/// Variables by which programs find their caches, and the folders that the private cache has for them.
const CACHES: [(&str, &str); 8] = [
    ("XDG_CACHE_HOME", "xdg"),
    ("GOCACHE", "go-build"),
    ("npm_config_cache", "npm"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("CCACHE_DIR", "ccache"),
    ("SCCACHE_DIR", "sccache"),
];
/// Variables that only a gate with the network needs. The address of a proxy may hold a password.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
/// In the folder of a cache: the blackboard that it belongs to.
const OWNER: &str = "owner";

/// See the module.
pub(super) struct Surroundings {
    pub(super) confine: Confine,
    pub(super) environment: BTreeMap<OsString, OsString>,
    /// Its `TMPDIR`.
    _temporary: Option<TempDir>,
}

impl Surroundings {
    pub(super) fn of(gate: &Gate, place: &Place<'_>) -> Result<Surroundings, String> {
        let names: Vec<String> = USUAL.iter().map(|name| (*name).to_owned()).collect();
        let mut environment = place.environment.named(&names);
        if !place.confined || gate.allows(Allowed::Everything) {
            let confine = open(place.confined, place.board);
            return Ok(Surroundings { confine, environment, _temporary: None });
        }
        let cache = cache(place)?;
        let temporary = sandbox::temporary()
            .map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        let (project, board) = (place.project, place.board);
        let closed = Closed::usual(project, board, temporary.path(), place.environment)?;
        let mut closed = closed.in_view(board);
        let (config, _) =
            load::config(place.environment, None).map_err(|error| error.to_string())?;
        closed.sight.add(&config.agent.read, place.environment);
        closed.writable.push(cache.clone());
        closed.network = gate.allows(Allowed::Network);
        if gate.allows(Allowed::Home) {
            closed = closed.with_home(place.environment);
        }
        if !closed.network {
            environment.retain(|name, _| !PROXIES.iter().any(|own| name.eq_ignore_ascii_case(own)));
        }
        environment.extend(CACHES.map(|(name, folder)| (name.into(), cache.join(folder).into())));
        let confine = Confine::Closed(Box::new(closed));
        Ok(Surroundings { confine, environment, _temporary: Some(temporary) })
    }
}

/// The folder of all caches.
fn all(environment: &Environment) -> PathBuf {
    let user = environment.path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let user = user.or_else(|| Some(environment.path("HOME")?.join(".cache")));
    user.map_or_else(view::temporary, |folder| folder.join("baton")).join("gates")
}

/// The folder of the cache that the gates of a blackboard share. It need not exist.
pub fn cache_of(board: &Path, environment: &Environment) -> PathBuf {
    all(environment).join(drive::mark_of(board))
}

fn cache(place: &Place<'_>) -> Result<PathBuf, String> {
    let folder = cache_of(place.board, place.environment);
    let files = folder.join("files");
    let failed = |why: String| format!("cannot make the cache of the gates: {why}");
    for folder in [&folder, &files] {
        view::private_folder(folder).map_err(|error| failed(error.to_string()))?;
    }
    let owner = folder.join(OWNER);
    if !owner.exists() {
        let text = place.board.to_string_lossy();
        store::write(&owner, text.as_bytes()).map_err(|error| failed(error.to_string()))?;
    }
    Ok(files)
}

/// Removes the caches of blackboards that are gone.
pub fn sweep_caches(environment: &Environment) {
    for entry in fs::read_dir(all(environment)).into_iter().flatten().flatten() {
        let owner = load::text(&entry.path().join(OWNER), load::SMALL).ok();
        if owner.is_some_and(|owner| !Path::new(&owner).exists()) {
            view::remove_folder(&entry.path());
        }
    }
}

/// Removes the cache of a blackboard's gates.
pub fn remove_cache(board: &Path, environment: &Environment) {
    view::remove_folder(&cache_of(board, environment));
}
