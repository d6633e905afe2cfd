//! Commits of agents. A command finds a private copy of the project's git folder, without its
//! settings and hooks; the objects are read there and not copied. What the command changed in the
//! copy is taken over after it: checked, all or nothing, and written by Baton. Nothing of the copy
//! is believed: objects are named by their content, everything else is parsed.

mod changes;
mod objects;
mod state;
mod write;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::board;
use crate::load::{self, Environment};
use crate::sandbox::{self, Closed, Interrupt, Layer, ViewSpace, Within};
use crate::view;
use changes::Changes;
use state::State;

/// Below the folder for Baton's state: a folder for each command that runs.
const FOLDER: &str = "commits";
/// The git folder that a copy belongs to.
const OWNER: &str = "owner";
/// What a program that reads the copy may change: see [`Copy`].
const WORK: &str = "work";
/// In a copy: the real objects, read-only.
const OBJECTS: &str = "baton-objects";
const ALTERNATES: &str = "../baton-objects\n";
/// In a copy: what commands cannot change, so that they see that it is not taken over.
const READ_ONLY: [&str; 4] = ["hooks", "info", "modules", "worktrees"];
/// Work of git that goes over several commands keeps more than is taken over.
const UNFINISHED: [&str; 4] = ["rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG"];

/// A repository that commands may commit to.
#[derive(Debug, Clone)]
pub struct Commits {
    project: PathBuf,
    git: PathBuf,
    program: PathBuf,
    /// Where copies are made.
    copies: PathBuf,
    environment: Environment,
}

impl Commits {
    /// `Err`: why commands cannot commit in this project.
    pub fn new(project: &Path, environment: &Environment) -> Result<Commits, String> {
        let project = fs::canonicalize(project).map_err(|error| error.to_string())?;
        let program = environment.program("git").ok_or("git is not installed")?;
        let program = fs::canonicalize(program).map_err(|error| error.to_string())?;
        if program.starts_with(&project) {
            return Err("the project brings its own git program".to_owned());
        }
        let state = environment.state_folder().unwrap_or_else(view::temporary);
        let is_inside = fs::canonicalize(&state).unwrap_or(state.clone()).starts_with(&project);
        let state = if is_inside { view::temporary() } else { state };
        let own = Commits {
            git: project.join(".git"),
            project,
            program,
            copies: state.join(FOLDER),
            environment: environment.clone(),
        };
        own.settings().map(|_| own)
    }

    /// The settings of a copy. `Err`: what keeps this repository from being copied.
    fn settings(&self) -> Result<String, String> {
        let folders = [self.git.clone(), self.git.join("objects"), self.git.join("refs")];
        if let Some(other) = folders.iter().find(|path| !state::is_folder(path)) {
            return Err(format!("{} is not a folder", self.shown(other)));
        }
        let more = ["commondir", "reftable", "lfs", "annex", "objects/info/alternates.lock"];
        let mut named = more.iter().chain(&UNFINISHED).map(|name| self.git.join(name));
        if let Some(path) = named.find(|path| path.symlink_metadata().is_ok()) {
            return Err(format!("the repository has {}", self.shown(&path)));
        }
        let file = self.git.join("config");
        let text = match load::text(&file, load::SMALL) {
            Ok(text) => text,
            Err(load::Error::Missing(_)) => String::new(),
            Err(error) => return Err(error.to_string()),
        };
        let home = self.environment.path("HOME").unwrap_or_default();
        sandbox::repository_settings(&text, &file, &home)
    }

    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.project).unwrap_or(path).display().to_string()
    }

    /// A private copy for one command. `Err`: why there is none.
    pub fn open(&self) -> Result<Copy, String> {
        let settings = self.settings()?;
        let before = State::read(&self.git)?;
        let said = |error: &dyn std::fmt::Display| format!("cannot copy .git: {error}");
        view::private_folder(&self.copies).map_err(|error| said(&error))?;
        let folder = tempfile::Builder::new().prefix("c").tempdir_in(&self.copies);
        let folder = folder.map_err(|error| said(&error))?;
        let lock = view::lock(folder.path()).ok_or_else(|| said(&"its lock is held"))?;
        let owner = self.git.as_os_str().as_encoded_bytes();
        state::put(folder.path(), OWNER, owner).map_err(|error| said(&error))?;
        let copy = folder.path().join(WORK).join("copy");
        self.fill(&copy, &before, &settings).map_err(|error| said(&error))?;
        let space = self.mount(&copy).map_err(|error| said(&error))?;
        let commits = self.clone();
        Ok(Copy { commits, before, settings, space: Some(space), folder, _lock: lock })
    }

    fn fill(&self, copy: &Path, before: &State, settings: &str) -> io::Result<()> {
        let folders = ["refs/heads", "refs/tags", "objects/info", "objects/pack", OBJECTS];
        for name in folders.into_iter().chain(READ_ONLY) {
            fs::create_dir_all(copy.join(name))?;
        }
        before.write(copy)?;
        state::put(copy, "config", settings.as_bytes())?;
        state::put(copy, "objects/info/alternates", ALTERNATES.as_bytes())?;
        for name in ["info/attributes", "shallow"] {
            if let Ok(text) = load::bytes_of_file(&self.git.join(name), load::SMALL) {
                state::put(copy, name, &text)?;
            }
        }
        // The place of the blackboard cannot be changed: `git clean` and `git stash -u` leave it alone.
        let mut exclude =
            load::bytes_of_file(&self.git.join("info/exclude"), load::SMALL).unwrap_or_default();
        exclude.extend_from_slice(format!("\n/{}/\n", board::FOLDER).as_bytes());
        state::put(copy, "info/exclude", &exclude)?;
        Ok(())
    }

    fn mount(&self, copy: &Path) -> Result<ViewSpace, String> {
        let bound = |name: &str, from: PathBuf, is_read_only| Layer::Bound {
            at: self.git.join(name),
            from,
            is_read_only,
        };
        let whole =
            Layer::Bound { at: self.git.clone(), from: copy.to_owned(), is_read_only: false };
        let mut layers = vec![whole, bound(OBJECTS, self.git.join("objects"), true)];
        layers.extend(READ_ONLY.iter().map(|name| bound(name, copy.join(name), true)));
        ViewSpace::open(&layers)
    }

    /// Removes what a process that died has left.
    pub fn sweep(&self) {
        for entry in fs::read_dir(&self.copies).into_iter().flatten().flatten() {
            let folder = entry.path();
            // It is written under the lock: without it the folder is being made.
            let Ok(owner) = load::bytes(&folder.join(OWNER), load::SMALL) else { continue };
            let Some(_lock) = view::lock(&folder) else { continue };
            let git = PathBuf::from(OsString::from_vec(owner));
            if git.is_absolute() && state::is_folder(&git) {
                write::remove_left(&git, &folder);
                view::remove_folder(&objects::incoming(&git, &folder));
            }
            view::remove_folder(&folder);
        }
    }
}

/// What came of a command's work in its copy.
#[derive(Debug)]
pub struct TakenOver {
    /// Something that the model should know.
    pub note: Option<String>,
    /// Branches, tags and stashes that changed, for the user.
    pub changed: Vec<String>,
}

/// A private copy in use. In its folder: `work`, which programs that read the copy may change, and
/// an empty git folder for those that read what was taken from it.
#[derive(Debug)]
pub struct Copy {
    commits: Commits,
    /// The real git folder as it was copied.
    before: State,
    settings: String,
    space: Option<ViewSpace>,
    folder: tempfile::TempDir,
    _lock: File,
}

impl Copy {
    /// The namespace that has the copy in the place of the real folder.
    pub fn within(&self) -> Option<Within> {
        self.space.as_ref().map(ViewSpace::within)
    }

    /// Takes over what the command, which has ended, changed: all of it or nothing. `Err`: why nothing
    /// was taken over.
    pub fn take_over(
        mut self,
        closed: &Closed,
        interrupt: &Interrupt,
    ) -> Result<TakenOver, String> {
        self.space = None;
        let copy = self.folder.path().join(WORK).join("copy");
        let after = State::read(&copy)?;
        let mut more = UNFINISHED.iter().chain(&["lfs", "annex", "commondir"]);
        if let Some(name) = more.find(|name| copy.join(name).symlink_metadata().is_ok()) {
            let hint = match UNFINISHED.contains(name) {
                true => " (an operation must be finished or aborted in the command that begins it)",
                false => "",
            };
            return Err(format!(".git/{name} cannot be taken over{hint}"));
        }
        let changes = Changes::of(&self.before, &after)?;
        let settings = state::bytes(&copy.join("config"), load::SMALL).unwrap_or_default();
        let note = (settings.as_deref() != Some(self.settings.as_bytes())).then(|| {
            "settings of the repository cannot be changed: .git/config is as it was".to_owned()
        });
        if changes.is_empty() {
            return Ok(TakenOver { note, changed: Vec::new() });
        }
        objects::check_folder(&copy)?;
        let incoming = objects::Incoming {
            commits: &self.commits,
            folder: self.folder.path(),
            before: &self.before,
            closed,
            interrupt,
        };
        let incoming = incoming.checked(&changes)?;
        let locks = write::Locks::take(&self.commits.git, self.folder.path(), &changes)?;
        let now = State::read(&self.commits.git)?;
        if !write::is_untouched(&self.before, &now, &changes) {
            return Err("the repository was changed from outside while the command ran".to_owned());
        }
        incoming.keep()?;
        write::write(&self.commits.git, &self.before, &changes)
            .map_err(|error| format!("only a part could be written: {error}"))?;
        drop(locks);
        Ok(TakenOver { note, changed: changes.about() })
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.space = None;
        // Programs may have taken rights away.
        view::remove_folder(self.folder.path());
    }
}
