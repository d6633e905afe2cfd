//! The real binary among enemies: a model that obeys everything, a project made to harm, texts that
//! talk to the terminal, inputs without measure. Judged by effects: what was run, read, sent, written.
//! `BATON_SWEEP=all` for the large counts.

mod approvals;
mod depth;
mod injection;
mod projects;
mod secrets;
mod terminal;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::scripted::{Model, calls, text};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const KEY: &str = "sk-canary-0123456789abcdef";

/// A project, a home, and things around them that are nobody's business.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) model: Model,
}

impl Place {
    pub(crate) fn new(answers: Vec<Value>) -> Place {
        Place::with(Model::start(answers))
    }

    pub(crate) fn with(model: Model) -> Place {
        let place = Place { folder: TempDir::new().unwrap(), model };
        for folder in ["project/src", "home", "outside"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        place.write("project/src/lib.rs", "pub fn add(a: u8, b: u8) -> u8 {\n    a + b\n}\n");
        place.git(&["init", "-q"]);
        place
    }

    /// A model that makes these calls, some in each answer, and says that it is done.
    pub(crate) fn calling(all: &[(&str, Value)]) -> Place {
        let mut answers: Vec<Value> = all.chunks(25).map(calls).collect();
        answers.push(text("done"));
        Place::new(answers)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn git(&self, args: &[&str]) {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]).args(args);
        let output = command.current_dir(self.path("project")).output();
        assert!(output.unwrap().status.success(), "{args:?}");
    }

    /// Without a model.
    pub(crate) fn bare(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(args).current_dir(self.path("project")).stdin(Stdio::null()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.path("home"));
        command.env("OPENAI_API_KEY", KEY);
        command
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bare(args);
        command.args(["--provider", "openai-chat", "--model", "scripted"]);
        command.args(["--base-url", &self.model.url]);
        command
    }

    pub(crate) fn expect(&self, args: &[&str], code: i32) -> String {
        let output = self.command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        said(&output)
    }

    /// What the tools answered in the last conversation, in order.
    pub(crate) fn envelopes(&self) -> Vec<Value> {
        let folder = self.path("home/.local/state/baton/conversations");
        let project = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let last = fs::read_dir(project).unwrap().map(|entry| entry.unwrap().path()).max();
        let log = fs::read_to_string(last.unwrap().join("steps.log")).unwrap();
        let steps = log.lines().skip(1).map(|line| serde_json::from_str(&line[18..]).unwrap());
        let observed = steps.filter(|step: &Value| step["step"] == "observed");
        observed.map(|step| step["envelope"].clone()).collect()
    }

    /// Everything around the project, and in it what is not the agent's, but for Baton's own state.
    pub(crate) fn others(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let own = [self.path("project"), self.path("home/.local"), self.path("tape")];
        let git = self.path("project/.git");
        let kept = ["hooks", "config", "info", "HEAD"].map(|name| git.join(name));
        let mut all = tree(&self.path(""), &own);
        all.extend(kept.iter().flat_map(|path| tree(path, &[])));
        all
    }
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
