//! Whole runs and the agent against servers that enforce what the real providers do: schemas,
//! windows, keys; by the real binary over real HTTP.

mod choosing;
mod rules;
mod schemas;
mod server;
mod windows;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use rules::Provider;
use server::Server;

/// A small project and a home.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: TempDir::new().unwrap() };
        for folder in ["project/src", "home/.config/baton"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        place.write("project/src/lib.rs", "fn add() {}\n");
        place
    }

    /// With the blackboard of a pack.
    fn with(pack: &str) -> Place {
        let place = Place::new();
        place.expect(&["init", "--pack", pack], &[], 0);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The user's own configuration.
    fn configure(&self, text: &str) {
        self.write("home/.config/baton/baton.toml", text);
    }

    /// Runs with these variables alone and expects this exit code; what was printed.
    fn expect(&self, args: &[&str], variables: &[(&str, &str)], code: i32) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(args).current_dir(self.path("project")).stdin(Stdio::null()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.path("home"));
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        said
    }
}

/// The flags that name a server.
fn flags(provider: Provider, server: &Server) -> [&str; 6] {
    let name = match provider {
        Provider::Anthropic => "anthropic",
        Provider::Responses => "openai-responses",
        Provider::Chat | Provider::LlamaCpp => "openai-chat",
    };
    ["--provider", name, "--base-url", &server.url, "--model", "served"]
}
