//! A person with the coding agent: a small project, its conversations, and a chat at a pseudo
//! terminal.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::model::Model;
use crate::place::Place;

impl Place {
    /// A small project in git, and the model that is asked.
    pub fn of_agent(program: impl Into<PathBuf>, model: Model) -> Place {
        let place = Place::new(program).at("project").with_model(model);
        fs::create_dir_all(place.path("home/.cache")).unwrap();
        place.write("project/src/lib.rs", "pub fn add(a: u8, b: u8) -> u8 {\n    a + b\n}\n");
        place.git(&["init", "-q"]);
        place
    }

    /// The transcript of the last conversation.
    pub fn transcript(&self) -> PathBuf {
        let folder = self.path("home/.local/state/baton/conversations");
        let project = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let last = fs::read_dir(project).unwrap().map(|entry| entry.unwrap().path()).max();
        last.unwrap().join("steps.log")
    }

    /// Its steps, as JSON.
    pub fn steps(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.transcript()).unwrap();
        log.lines().skip(1).map(|line| serde_json::from_str(&line[18..]).unwrap()).collect()
    }

    /// The answers of the tools, in order.
    pub fn envelopes(&self) -> Vec<Value> {
        let steps = self.steps();
        let observed = steps.into_iter().filter(|step| step["step"] == "observed");
        observed.map(|step| step["envelope"].clone()).collect()
    }
}

/// A chat at a pseudo terminal.
#[derive(Debug)]
pub struct Chat {
    terminal: fs::File,
    pub child: std::process::Child,
    seen: String,
}

impl Chat {
    pub fn begin(place: &Place) -> Chat {
        Chat::begin_with(place, &["chat"])
    }

    pub fn begin_with(place: &Place, args: &[&str]) -> Chat {
        Chat::begin_after(place, args, "")
    }

    /// At a terminal where this was typed before the program began.
    pub fn begin_after(place: &Place, args: &[&str], typed: &str) -> Chat {
        Chat::of(place.command(args), typed)
    }

    /// The same for a command that asks no model.
    pub fn begin_plain_after(place: &Place, args: &[&str], typed: &str) -> Chat {
        Chat::of(place.plain(args), typed)
    }

    fn of(mut command: std::process::Command, typed: &str) -> Chat {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        // No other test's process may hold it open.
        let how = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = openpt(how).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let other =
            fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let before = terminal.try_clone().unwrap();
        rustix::io::write(&before, typed.as_bytes()).unwrap();
        // The terminal echoes what it has taken.
        let mut echo = vec![0; typed.len() + typed.matches('\n').count()];
        fs::File::from(before).read_exact(&mut echo).unwrap();
        command.env("TERM", "xterm").stdin(other.try_clone().unwrap());
        command.stdout(other.try_clone().unwrap()).stderr(other);
        let child = command.spawn().unwrap();
        rustix::io::ioctl_fionbio(&terminal, true).unwrap();
        Chat { terminal: terminal.into(), child, seen: String::new() }
    }

    pub fn write(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until this was seen, since the last such wait; everything that was seen since then.
    pub fn expect(&mut self, what: &str) -> String {
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
        self.seen.drain(..end).collect()
    }
}
