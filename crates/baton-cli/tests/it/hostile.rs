//! The real binary among enemies: a model that obeys everything, a project made to harm, texts that
//! talk to the terminal, inputs without measure. Judged by effects: what was run, read, sent, written.
//! `BATON_SWEEP=all` for the large counts.

mod approvals;
mod boards;
mod commits;
mod depth;
mod injection;
mod pipes;
mod gates;
mod projects;
mod repositories;
mod secrets;
mod surroundings;
mod terminal;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use baton_testkit::{Model, Place, calls, text};
use serde_json::Value;

/// A project, a home, and things around them that are nobody's business.
pub(crate) fn among_others(model: Model) -> Place {
    let place = Place::of_agent(crate::BATON, model);
    fs::create_dir(place.path("outside")).unwrap();
    place
}

pub(crate) fn answering(answers: Vec<Value>) -> Place {
    among_others(Model::start(answers))
}

/// A model that makes these calls, some in each answer, and says that it is done.
pub(crate) fn calling(all: &[(&str, Value)]) -> Place {
    let mut answers: Vec<Value> = all.chunks(25).map(calls).collect();
    answers.push(text("done"));
    answering(answers)
}

/// Everything around the project, and in it what is not the agent's, but for Baton's own state and
/// caches.
pub(crate) fn others(place: &Place) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let own = ["project", "home/.local", "home/.cache/baton", "tape"].map(|name| place.path(name));
    let git = place.path("project/.git");
    let kept = ["hooks", "config", "info", "HEAD"].map(|name| git.join(name));
    let mut all = tree(&place.path(""), &own);
    all.extend(kept.iter().flat_map(|path| tree(path, &[])));
    all
}

/// Every file under a path, but for these: its mode and what it holds.
pub(crate) fn tree(root: &Path, but: &[PathBuf]) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let bytes = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if metadata.is_dir() {
            let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            left.extend(names.filter(|name| !but.contains(name)));
        }
        found.insert(path, (metadata.mode(), bytes));
    }
    found
}

pub(crate) fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

pub(crate) fn is_sweep() -> bool {
    std::env::var("BATON_SWEEP").is_ok_and(|value| value == "all")
}

/// Some cases at a time: most of them wait.
pub(crate) fn at_once<T: Sync>(cases: &[T], run: impl Fn(&T) + Sync) {
    for some in cases.chunks(8) {
        std::thread::scope(|scope| {
            for case in some {
                scope.spawn(|| run(case));
            }
        });
    }
}

/// Runs it as an ordinary user where this is root, whom no rights stop.
pub(crate) fn as_anybody(place: &Place, mut command: Command) -> String {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if rustix::process::geteuid().is_root() {
        let everything =
            Command::new("chown").args(["-R", "65534:65534"]).arg(place.root()).status();
        assert!(everything.unwrap().success());
        let above = place.root().parent().unwrap();
        fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap();
        command.uid(65534).gid(65534);
    }
    baton_testkit::answer(command).expect(&[], 0)
}
