//! What a person does with the coding agent: the real binary in a small project, and a chat at a
//! pseudo terminal.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::Model;

/// A small project, a home, and the model that is asked.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) model: Model,
}

impl Place {
    pub(crate) fn new(answers: Vec<Value>) -> Place {
        Place::of(Model::start(answers))
    }

    pub(crate) fn of(model: Model) -> Place {
        let place = Place { folder: TempDir::new().unwrap(), model };
        for folder in ["project/src", "home"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        place.write("project/src/lib.rs", "pub fn add(a: u8, b: u8) -> u8 {\n    a + b\n}\n");
        place.git(&["init", "-q"]);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn git(&self, args: &[&str]) {
        let output = Command::new("git").args(args).current_dir(self.path("project")).output();
        assert!(output.unwrap().status.success(), "{args:?}");
    }

    /// With the scripted model.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.plain(args);
        command.args(["--provider", "openai-chat", "--model", "scripted"]);
        command.args(["--base-url", &self.model.url]);
        command
    }

    pub(crate) fn plain(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(args).current_dir(self.path("project")).stdin(Stdio::null()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.path("home"));
        command.env("OPENAI_API_KEY", "sk-canary-0123456789abcdef");
        command
    }

    /// Runs and expects this exit code; what was printed.
    pub(crate) fn expect(&self, args: &[&str], code: i32) -> String {
        said(&self.command(args).output().unwrap(), args, code)
    }

    /// The transcript of the last conversation.
    pub(crate) fn transcript(&self) -> PathBuf {
        let folder = self.path("home/.local/state/baton/conversations");
        let project = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let last = fs::read_dir(project).unwrap().map(|entry| entry.unwrap().path()).max();
        last.unwrap().join("steps.log")
    }

    /// Its steps, as JSON.
    pub(crate) fn steps(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.transcript()).unwrap();
        log.lines().skip(1).map(|line| serde_json::from_str(&line[18..]).unwrap()).collect()
    }

    /// What the tools answered, in order.
    pub(crate) fn envelopes(&self) -> Vec<Value> {
        let steps = self.steps();
        let observed = steps.into_iter().filter(|step| step["step"] == "observed");
        observed.map(|step| step["envelope"].clone()).collect()
    }
}

pub(crate) fn said(output: &Output, args: &[&str], code: i32) -> String {
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    said
}

/// A chat at a pseudo terminal.
pub(crate) struct Chat {
    terminal: fs::File,
    pub(crate) child: std::process::Child,
    seen: String,
}

impl Chat {
    pub(crate) fn begin(place: &Place) -> Chat {
        Chat::begin_with(place, &["chat"])
    }

    pub(crate) fn begin_with(place: &Place, args: &[&str]) -> Chat {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let other =
            fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut command = place.command(args);
        command.env("TERM", "xterm").stdin(other.try_clone().unwrap());
        command.stdout(other.try_clone().unwrap()).stderr(other);
        let child = command.spawn().unwrap();
        rustix::io::ioctl_fionbio(&terminal, true).unwrap();
        Chat { terminal: terminal.into(), child, seen: String::new() }
    }

    pub(crate) fn write(&mut self, text: &str) {
        use std::io::Write;
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until this was seen, since the last such wait.
    pub(crate) fn expect(&mut self, what: &str) {
        use std::io::Read;
        let start = Instant::now();
        let mut buffer = [0; 4096];
        while !self.seen.contains(what) {
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "{what} did not come: {}",
                self.seen
            );
            match self.terminal.read(&mut buffer) {
                Ok(count) => self.seen.push_str(&String::from_utf8_lossy(&buffer[..count])),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        let end = self.seen.find(what).unwrap() + what.len();
        self.seen.drain(..end);
    }
}
