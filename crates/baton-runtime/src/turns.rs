//! Turns of `exec` and `chat`, so that `undo` can bring back what was there before them: the project is
//! kept before the first act of a turn, with the user's own state and not in the project.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::board;
use crate::git;
use crate::load::{self, Environment};
use crate::sandbox::Interrupt;
use crate::snapshot::{self, Snapshots};
use crate::store::{self, Disk, FolderLock};
use crate::walk::Skip;

/// Below the folder for Baton's state: a folder for each project.
const FOLDER: &str = "turns";
const LIST: &str = "turns.json";
const MOST_LIST: u64 = 16 << 20;
/// Turns that are kept. Older ones are removed when there are twice as many.
const MOST_TURNS: usize = 20;
/// New content of one snapshot: more would fill the disk.
const MOST_BYTES: u64 = 2 << 30;
/// Characters of the task that are kept, to name a turn.
const TASK: usize = 80;

/// Where the turns of a project are kept. `None`: the user has no home folder.
pub fn folder_of(project: &Path, environment: &Environment) -> Option<PathBuf> {
    let digest = load::digest(project.as_os_str().as_encoded_bytes());
    Some(environment.state_folder()?.join(FOLDER).join(digest))
}

/// A turn that may have changed the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Seconds since 1970.
    pub at: u64,
    /// The beginning of its task.
    pub task: String,
    /// The snapshot from before its first act.
    pub before: String,
    /// The commit that the project was at then.
    #[serde(default)]
    pub head: Option<String>,
}

/// The turns of one project.
#[derive(Debug)]
pub struct Turns {
    folder: PathBuf,
    /// The project and its blackboard.
    project: PathBuf,
    board: PathBuf,
    environment: Environment,
    snapshots: Option<Snapshots>,
    /// The task of the current turn.
    task: String,
    current: Option<Turn>,
    /// What the user was told of this project already.
    told: BTreeSet<Skip>,
    /// True if the current turn is not covered, and the user knows.
    is_uncovered: bool,
}

/// How a turn begins to act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// With what the user should know.
    Yes(Vec<String>),
    Interrupted,
}

impl Turns {
    /// `folder`: see [`folder_of`].
    pub fn new(
        project: &Path,
        board: Option<&Path>,
        folder: &Path,
        environment: &Environment,
    ) -> Turns {
        Turns {
            folder: folder.to_owned(),
            project: project.to_owned(),
            // Where there is none yet, the user may make one while an agent works.
            board: board.map_or_else(|| project.join(board::FOLDER), Path::to_owned),
            environment: environment.clone(),
            snapshots: None,
            task: String::new(),
            current: None,
            told: BTreeSet::new(),
            is_uncovered: false,
        }
    }

    /// Snapshots of the project that are kept here.
    pub fn snapshots(&self) -> Snapshots {
        Snapshots::new(&self.project, &self.folder, Disk::default())
            .with_git(&self.environment)
            .except(&self.board)
    }

    /// The turns that can be undone, the newest last.
    pub fn list(&self) -> Vec<Turn> {
        let text = load::text(&self.folder.join(LIST), MOST_LIST).ok();
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Another turn begins.
    pub(crate) fn begin(&mut self, task: &str) {
        let line = task.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        self.task = baton_core::text::shown(line.trim(), TASK);
        self.current = None;
        self.is_uncovered = false;
    }

    /// The turn is about to act. Its first act waits until the project is kept.
    pub(crate) fn before_act(&mut self, interrupt: &Interrupt) -> Result<Kept, snapshot::Error> {
        if self.current.is_some() || self.is_uncovered {
            return Ok(Kept::Yes(Vec::new()));
        }
        if let Some(why) = board::unsuitable(&self.project, &self.environment) {
            self.is_uncovered = true;
            return Ok(Kept::Yes(vec![format!("`baton undo` does not cover this turn: {why}")]));
        }
        let mut snapshots = match self.snapshots.take() {
            Some(own) => own,
            None => self.first_snapshots(),
        };
        snapshots = snapshots.interrupted_by(interrupt);
        let list = self.folder.join(LIST);
        Disk::default().make_private(&self.folder)?;
        let lock = FolderLock::of_file(&list)?;
        let taken = snapshots.take();
        let news = snapshots.skipped.news(&mut self.told);
        let before = match taken {
            Ok(before) => before,
            Err(snapshot::Error::Interrupted) => return Ok(Kept::Interrupted),
            Err(snapshot::Error::TooMuch { bytes }) => {
                self.is_uncovered = true;
                let why = format!(
                    "`baton undo` does not cover this turn: the project has more than {} GiB of files that were not kept before",
                    bytes >> 30
                );
                return Ok(Kept::Yes(vec![why]));
            }
            Err(error) => return Err(error),
        };
        let turn =
            Turn { at: crate::drive::now().0, task: self.task.clone(), before, head: self.head() };
        let mut all = self.list();
        all.push(turn.clone());
        if all.len() > 2 * MOST_TURNS {
            all.drain(..all.len() - MOST_TURNS);
            snapshots.prune(&all.iter().map(|turn| turn.before.clone()).collect(), false)?;
        }
        store::write(&list, store::json(&list, &all)?.as_bytes())?;
        drop(lock);
        self.snapshots = Some(snapshots);
        self.current = Some(turn);
        Ok(Kept::Yes(news))
    }

    /// What the current turn changed so far, and the snapshot from before it. `None`: nothing was kept.
    pub(crate) fn changed(&mut self) -> Result<Option<Changed>, snapshot::Error> {
        let (Some(turn), Some(mut snapshots)) = (self.current.clone(), self.snapshots.take())
        else {
            return Ok(None);
        };
        // The user may have stopped the turn; this look is short.
        snapshots = snapshots.interrupted_by(&Interrupt::default());
        let lock = FolderLock::of_file(&self.folder.join(LIST))?;
        let after = snapshots.take();
        drop(lock);
        let names = after.and_then(|after| snapshots.changed(&turn.before, &after));
        self.snapshots = Some(snapshots);
        let files = names?.iter().map(|name| crate::walk::shown(name)).collect();
        let now = self.head();
        let head = (now != turn.head).then_some(now).flatten();
        Ok(Some(Changed { files, before: turn.before, head }))
    }

    /// The commit that the project is at.
    pub fn head(&self) -> Option<String> {
        git::head_of(&git::top(&self.project)?)
    }

    /// They follow the newest snapshot there is: what it covers stays covered.
    fn first_snapshots(&self) -> Snapshots {
        let mut snapshots = self.snapshots().adding_at_most(MOST_BYTES);
        if let Some(last) = self.list().last() {
            // A damaged one must not stop the work: everything is kept anew.
            let _ = snapshots.follow(&last.before);
        }
        snapshots
    }
}

/// What a turn changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub files: Vec<String>,
    /// The snapshot from before its first act.
    pub before: String,
    /// The commit that the project is at now, if it was another one before.
    pub head: Option<String>,
}
