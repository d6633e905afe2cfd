//! A folder of its own, and the binary in it: without anything of the person who runs the tests.

use std::borrow::BorrowMut;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::model::Model;

/// The key of the scripted model, which must turn up nowhere else.
pub const KEY: &str = "sk-canary-0123456789abcdef";

/// A folder that goes with the test. The home of whatever runs is `home` in it, or beside it where the
/// folder itself is the project.
#[derive(Debug)]
pub struct Place {
    _folder: TempDir,
    root: PathBuf,
    program: PathBuf,
    at: &'static str,
    names: &'static str,
    model: Option<Model>,
}

/// The end of a command, and its words.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub out: String,
    pub errors: String,
}

impl Answer {
    /// Everything that was printed.
    pub fn said(&self) -> String {
        format!("{}{}", self.out, self.errors)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}", self.said()))
    }

    /// Everything that was printed, if it ended with this code.
    pub fn expect(&self, args: &[&str], code: i32) -> String {
        assert_eq!(self.code, code, "{args:?}: {}", self.said());
        self.said()
    }
}

/// A program in a folder, with this home and no other variable of the person who runs the tests.
pub fn scrubbed(program: impl AsRef<Path>, folder: &Path, home: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(folder).stdin(Stdio::null()).env_clear().env("HOME", home);
    // Where coverage is measured, the binary says there what it ran.
    for name in ["PATH", "LLVM_PROFILE_FILE"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command
}

/// Runs it to its end.
pub fn answer(command: impl BorrowMut<Command>) -> Answer {
    answer_to(command, b"")
}

/// The same, on this input.
pub fn answer_to(mut command: impl BorrowMut<Command>, input: &[u8]) -> Answer {
    let command = command.borrow_mut();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        // A command that fails early does not read its input.
        let _ = stdin.write_all(input);
    }
    let output = child.wait_with_output().unwrap();
    Answer {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Place {
    /// An empty folder, in which this program runs.
    pub fn new(program: impl Into<PathBuf>) -> Place {
        let folder = TempDir::new().unwrap();
        let root = folder.path().canonicalize().unwrap().join("place");
        fs::create_dir(&root).unwrap();
        Place { _folder: folder, root, program: program.into(), at: "", names: "", model: None }
    }

    /// The program runs in this folder of it.
    pub fn at(self, at: &'static str) -> Place {
        fs::create_dir_all(self.root().join(at)).unwrap();
        Place { at, ..self }
    }

    /// Names of files are meant below this folder of it.
    pub fn names(self, names: &'static str) -> Place {
        Place { names, ..self }
    }

    /// A model that `command` names, and its key.
    pub fn with_model(self, model: Model) -> Place {
        Place { model: Some(model), ..self }
    }

    pub fn model(&self) -> &Model {
        self.model.as_ref().unwrap()
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(self.names).join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn git(&self, args: &[&str]) {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]).args(args);
        let output = command.current_dir(self.root().join(self.at)).output();
        assert!(output.unwrap().status.success(), "{args:?}");
    }

    /// With the model, if there is one.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.plain(args);
        if let Some(model) = &self.model {
            command.args(["--provider", "openai-chat", "--model", "scripted"]);
            command.args(["--base-url", &model.url]);
        }
        command
    }

    /// Without any flag but these.
    pub fn plain(&self, args: &[&str]) -> Command {
        let folder = self.root().join(self.at);
        let home = if self.at.is_empty() {
            self.root().with_file_name("home")
        } else {
            self.root().join("home")
        };
        let mut command = scrubbed(&self.program, &folder, &home);
        command.args(args);
        if self.model.is_some() {
            command.env("OPENAI_API_KEY", KEY);
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Answer {
        answer(self.command(args))
    }

    /// Runs and expects this exit code; everything that was printed.
    pub fn expect(&self, args: &[&str], code: i32) -> String {
        self.run(args).expect(args, code)
    }
}
