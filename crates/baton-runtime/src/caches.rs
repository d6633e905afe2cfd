//! Caches that gates and commands of agents write: private ones for each project, since the user's own
//! are read-only for them. What builds can make again is kept there; what was downloaded is read where
//! the user has it. Gates never read what agents wrote.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::load::{self, Environment};
use crate::{drive, store, view};

/// Who writes a cache. Each has its own, so that what an agent wrote misleads no one who judges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    Gates,
    /// Agents that may write the project.
    Agents,
    /// Agents that work on a view of it, or may only read it.
    Reviewers,
}

const WRITERS: [Writer; 3] = [Writer::Gates, Writer::Agents, Writer::Reviewers];

impl Writer {
    fn folder(self) -> &'static str {
        match self {
            Writer::Gates => "gates",
            Writer::Agents => "agents",
            Writer::Reviewers => "reviewers",
        }
    }
}

/// Variables by which programs find their caches, and the folders that the private cache has for them.
const PRIVATE: [(&str, &str); 6] = [
    ("XDG_CACHE_HOME", "xdg"),
    ("GOCACHE", "go-build"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("ZIG_GLOBAL_CACHE_DIR", "zig"),
    ("CCACHE_DIR", "ccache"),
];
/// The same for programs that can only add to their caches with the network, and otherwise need what
/// the user has downloaded.
const PRIVATE_WITH_NETWORK: [(&str, &str); 2] =
    [("npm_config_cache", "npm"), ("YARN_CACHE_FOLDER", "yarn")];
/// What lies in the user's cache and cannot be made again without the network: the variable that names
/// it, and where it is by default in the user's cache.
const DOWNLOADED: [(&str, &str); 7] = [
    ("COREPACK_HOME", "node/corepack"),
    ("DENO_DIR", "deno"),
    ("POETRY_CACHE_DIR", "pypoetry"),
    ("PRE_COMMIT_HOME", "pre-commit"),
    ("PLAYWRIGHT_BROWSERS_PATH", "ms-playwright"),
    ("PUPPETEER_CACHE_DIR", "puppeteer"),
    ("CYPRESS_CACHE_FOLDER", "Cypress"),
];
/// The same below the home folder.
const DOWNLOADED_AT_HOME: [(&str, &str); 1] = [("BUN_INSTALL_CACHE_DIR", ".bun/install/cache")];
/// In the folder of a cache: the project that it belongs to.
const OWNER: &str = "owner";

/// The user's own cache.
fn users(environment: &Environment) -> Option<PathBuf> {
    let user = environment.path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    user.or_else(|| Some(environment.path("HOME")?.join(".cache")))
}

/// The folder of all caches of one writer.
fn all(writer: Writer, environment: &Environment) -> PathBuf {
    let folder = users(environment).map_or_else(view::temporary, |folder| folder.join("baton"));
    folder.join(writer.folder())
}

/// The folder of a project's cache. It need not exist.
fn of(writer: Writer, project: &Path, environment: &Environment) -> PathBuf {
    all(writer, environment).join(drive::mark_of(project))
}

/// Makes the cache of a project; the folder that may be written.
pub(crate) fn open(
    writer: Writer,
    project: &Path,
    environment: &Environment,
) -> Result<PathBuf, String> {
    let folder = of(writer, project, environment);
    let files = folder.join("files");
    let failed = |why: String| {
        format!("cannot make a cache for the {} of {}: {why}", writer.folder(), project.display())
    };
    for folder in [&folder, &files] {
        view::private_folder(folder).map_err(|error| failed(error.to_string()))?;
    }
    let owner = folder.join(OWNER);
    if !owner.exists() {
        let text = project.to_string_lossy();
        store::write(&owner, text.as_bytes()).map_err(|error| failed(error.to_string()))?;
    }
    Ok(files)
}

/// The variables by which programs use a cache. `files`: see [`open`].
pub(crate) fn variables(
    files: &Path,
    environment: &Environment,
    network: bool,
) -> Vec<(OsString, OsString)> {
    let with_network = PRIVATE_WITH_NETWORK.into_iter().filter(|_| network);
    let private = PRIVATE.into_iter().chain(with_network);
    let mut found: Vec<(OsString, OsString)> =
        private.map(|(name, folder)| (name.into(), files.join(folder).into())).collect();
    let at = |root: Option<PathBuf>, all: &[(&str, &str)]| {
        let Some(root) = root else { return Vec::new() };
        let place = |(name, folder): &(&str, &str)| {
            let path = environment.path(name).unwrap_or_else(|| root.join(folder));
            path.is_dir().then(|| (OsString::from(name), path.into_os_string()))
        };
        all.iter().filter_map(place).collect()
    };
    found.extend(at(users(environment), &DOWNLOADED));
    found.extend(at(environment.path("HOME"), &DOWNLOADED_AT_HOME));
    found
}

/// Removes the caches of projects that are gone.
pub(crate) fn sweep(environment: &Environment) {
    for entry in WRITERS.iter().flat_map(|writer| fs::read_dir(all(*writer, environment))).flatten()
    {
        let Ok(entry) = entry else { continue };
        let owner = load::text(&entry.path().join(OWNER), load::SMALL).ok();
        if owner.is_some_and(|owner| !Path::new(&owner).exists()) {
            view::remove_folder(&entry.path());
        }
    }
}

/// True if a project has a cache.
pub fn is_there(project: &Path, environment: &Environment) -> bool {
    WRITERS.iter().any(|writer| of(*writer, project, environment).exists())
}

/// Removes the caches of a project.
pub fn remove(project: &Path, environment: &Environment) {
    for writer in WRITERS {
        view::remove_folder(&of(writer, project, environment));
    }
}
