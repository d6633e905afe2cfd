//! The commands that would run a project's tests, by its files and by what is installed. The project
//! may be hostile: nothing of it is executed, and no text of it becomes part of a command.

mod node;
mod python;

use std::fmt::Write as _;

use crate::document::{Document, Node};

/// Questions that detection may ask about a project. Paths are relative to its root.
pub trait Project {
    /// The text of a regular file that is not too large.
    fn text(&self, path: &str) -> Option<String>;
    fn is_file(&self, path: &str) -> bool;
    /// Names of the regular files in a folder (`""` is the root).
    fn files(&self, folder: &str) -> Vec<String>;
    /// Names of the folders in the root.
    fn folders(&self) -> Vec<String>;
    /// True if a program of this name is on the PATH.
    fn has_program(&self, name: &str) -> bool;
    /// True if an interpreter of the project or of the PATH has this module.
    fn has_module(&self, interpreter: &str, module: &str) -> bool;
}

/// A command that could be a gate.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Proposal {
    pub command: String,
    /// The file that it comes from.
    pub because: String,
    /// It probably runs the same tests as another proposal.
    pub is_alternative: bool,
}

/// The result of looking at a project.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Detected {
    pub proposals: Vec<Proposal>,
    /// Reasons why something that was found is not proposed.
    pub notes: Vec<String>,
}

impl Detected {
    /// The commands that cover the project: one for each ecosystem.
    pub fn main(&self) -> impl Iterator<Item = &Proposal> {
        self.proposals.iter().filter(|proposal| !proposal.is_alternative)
    }

    fn propose(&mut self, command: impl Into<String>, because: impl Into<String>) {
        let (command, because) = (command.into(), because.into());
        self.proposals.push(Proposal { command, because, is_alternative: false });
    }

    fn alternative(&mut self, command: impl Into<String>, because: impl Into<String>) {
        let (command, because) = (command.into(), because.into());
        self.proposals.push(Proposal { command, because, is_alternative: true });
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// Folders whose tests are not the project's own.
const PASSED_OVER: [&str; 13] = [
    "node_modules",
    "target",
    "vendor",
    "third_party",
    "dist",
    "build",
    "docs",
    "doc",
    "examples",
    "example",
    "venv",
    "env",
    "site-packages",
];
/// Folders that are looked into where the root has nothing to run.
const FOLDERS: usize = 50;

/// Looks at the project's root; where nothing can be run there, at the folders in it.
pub fn detect(project: &dyn Project) -> Detected {
    let found = at_root(project);
    if !found.proposals.is_empty() {
        return found;
    }
    let mut below = Detected { proposals: Vec::new(), notes: found.notes };
    let mut folders = project.folders();
    folders.sort();
    // The name becomes part of the command.
    let is_plain = |name: &String| {
        let mut letters = name.chars();
        name.len() <= 60
            && letters.next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
            && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
            && !PASSED_OVER.contains(&name.as_str())
    };
    for folder in folders.into_iter().filter(is_plain).take(FOLDERS) {
        let inside = at_root(&Folder { project, folder: &folder });
        for proposal in inside.proposals {
            below.proposals.push(Proposal {
                command: format!("cd {folder} && {}", proposal.command),
                because: format!("{folder}/{}", proposal.because),
                ..proposal
            });
        }
        below.notes.extend(inside.notes.into_iter().map(|note| format!("{folder}: {note}")));
    }
    below
}

fn at_root(project: &dyn Project) -> Detected {
    let mut found = Detected::default();
    cargo(project, &mut found);
    python::detect(project, &mut found);
    node::detect(project, &mut found);
    go(project, &mut found);
    targets(project, &mut found);
    found
}

/// A folder of a project, as if it were the project.
struct Folder<'a> {
    project: &'a dyn Project,
    folder: &'a str,
}

impl Folder<'_> {
    fn path(&self, inner: &str) -> String {
        let mut path = self.folder.to_owned();
        if !inner.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(path, "/{inner}");
        }
        path
    }
}

impl Project for Folder<'_> {
    fn text(&self, path: &str) -> Option<String> {
        self.project.text(&self.path(path))
    }

    fn is_file(&self, path: &str) -> bool {
        self.project.is_file(&self.path(path))
    }

    fn files(&self, folder: &str) -> Vec<String> {
        self.project.files(&self.path(folder))
    }

    fn folders(&self) -> Vec<String> {
        Vec::new()
    }

    fn has_program(&self, name: &str) -> bool {
        self.project.has_program(name)
    }

    fn has_module(&self, interpreter: &str, module: &str) -> bool {
        let is_path = interpreter.contains('/');
        let own = if is_path { self.path(interpreter) } else { interpreter.to_owned() };
        self.project.has_module(&own, module)
    }
}

fn cargo(project: &dyn Project, found: &mut Detected) {
    let Some(text) = project.text("Cargo.toml") else { return };
    let Ok(manifest) = Document::toml(&text) else {
        return found.note("Cargo.toml cannot be read");
    };
    if !project.has_program("cargo") {
        return found.note("Cargo.toml is there, but no cargo is on the PATH");
    }
    match manifest.root.get("workspace") {
        Some(_) => found.propose("cargo test --workspace", "Cargo.toml"),
        None => found.propose("cargo test", "Cargo.toml"),
    }
}

fn go(project: &dyn Project, found: &mut Detected) {
    if !project.is_file("go.mod") {
        return;
    }
    match project.has_program("go") {
        true => found.propose("go test ./...", "go.mod"),
        false => found.note("go.mod is there, but no go is on the PATH"),
    }
}

/// Targets of make and recipes of just that are named test or check. They usually run what was found
/// before.
fn targets(project: &dyn Project, found: &mut Detected) {
    let runners = [
        ("make", ["GNUmakefile", "makefile", "Makefile"], has_target as fn(&str, &str) -> bool),
        ("just", ["justfile", "Justfile", ".justfile"], has_recipe),
    ];
    for (program, files, is_in) in runners {
        let read = files.into_iter().find_map(|file| Some((file, project.text(file)?)));
        let Some((file, text)) = read else { continue };
        let Some(name) = ["test", "check"].into_iter().find(|name| is_in(&text, name)) else {
            continue;
        };
        if !project.has_program(program) {
            found.note(format!("{file} has `{name}`, but no {program} is on the PATH"));
        } else if found.proposals.is_empty() {
            found.propose(format!("{program} {name}"), file);
        } else {
            found.alternative(format!("{program} {name}"), file);
        }
    }
}

/// `test:` or `lint test: build`, not `test := 1`.
fn has_target(makefile: &str, name: &str) -> bool {
    makefile.lines().any(|line| match line.split_once(':') {
        Some((targets, rest)) => {
            !line.starts_with(['\t', ' ', '#', '.'])
                && !rest.trim_start_matches(':').starts_with('=')
                && targets.split_whitespace().any(|target| target == name)
        }
        None => false,
    })
}

/// `test:`, `@test: build` or `test flags='':`; not one that needs a value.
fn has_recipe(justfile: &str, name: &str) -> bool {
    justfile.lines().any(|line| {
        let Some(rest) = line.trim_start_matches('@').strip_prefix(name) else { return false };
        let Some((parameters, after)) = rest.split_once(':') else { return false };
        let is_plain = parameters.is_empty() || parameters.starts_with(' ');
        let mut parameters = parameters.split_whitespace();
        is_plain
            && !after.starts_with('=')
            && parameters.all(|own| own.contains('=') || own.starts_with('*'))
    })
}

/// The value at a path of tables.
fn value<'a>(node: &'a Node, path: &[&str]) -> Option<&'a Node> {
    path.iter().try_fold(node, |node, name| node.get(name))
}
