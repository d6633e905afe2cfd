//! Which folder is a blackboard, and which one may be used. A link is refused: it would move the run to
//! another project. So is a folder that appeared while an agent worked in the project.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use baton_core::pack;

use super::{Error, FOLDER, FOREIGN_FOLDER};
use crate::load::{self, Environment};
use crate::{git, repositories, store};

/// What a blackboard has in `memory`, one of them or more.
pub(crate) const FILES: [&str; 3] =
    ["dev_plan.md", "project_history.md", "verification_policy.json"];
/// Below the folder for Baton's state: a file for each blackboard that this user's Baton made.
const MADE: &str = "boards";
/// What is looked at to find out that a folder holds no files.
const MOST_LEFT: usize = 200;

/// The blackboard of `start` or of the nearest parent that has one. A `.baton` ends the search even
/// if it is damaged: another project's blackboard further up is not what was meant. One in which
/// nothing was written yet is none.
pub fn find(start: &Path, environment: &Environment) -> Result<Option<PathBuf>, Error> {
    for folder in start.ancestors() {
        let own = folder.join(FOLDER);
        let foreign = folder.join(FOREIGN_FOLDER);
        let found = match own.symlink_metadata().is_ok() && !is_unfinished(&own) {
            true => own,
            false if is_board(&foreign) => foreign,
            false => continue,
        };
        refuse_link(&found)?;
        if is_planted(&found, environment) {
            return Err(Error::Planted(found));
        }
        return Ok(Some(found));
    }
    Ok(None)
}

/// A blackboard that the user named, seen from `folder`: neither it nor a folder of the project above
/// it may be a link.
pub fn named(path: &Path, folder: &Path) -> Result<(), Error> {
    let whole = folder.join(path);
    let project = git::top(folder).unwrap_or_else(|| folder.to_owned());
    let project = fs::canonicalize(&project).unwrap_or(project);
    let in_project = |path: &Path| {
        let above = path.parent().and_then(|above| fs::canonicalize(above).ok());
        above.is_some_and(|above| above.starts_with(&project))
    };
    refuse_link(&whole)?;
    let above = whole.ancestors().skip(1);
    above.filter(|own| own.is_symlink() && in_project(own)).try_for_each(refuse_link)
}

/// A file that the user named: the blackboard that it is in must not be reached through a link.
pub fn named_file(path: &Path, folder: &Path) -> Result<(), Error> {
    let whole = folder.join(path);
    let mut boards = whole.ancestors().skip(1).filter(|own| is_board(own));
    boards.try_for_each(|board| named(board, folder))
}

pub(super) fn refuse_link(path: &Path) -> Result<(), Error> {
    match fs::read_link(path) {
        Ok(to) => {
            let to = fs::canonicalize(path).unwrap_or(to);
            Err(Error::LinkedBoard { path: path.to_owned(), to })
        }
        Err(_) => Ok(()),
    }
}

/// True if a blackboard may have this name.
pub(crate) fn is_name(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(FOLDER) || name.eq_ignore_ascii_case(FOREIGN_FOLDER)
}

/// True if a folder has what is read of a blackboard first.
pub(crate) fn is_board(path: &Path) -> bool {
    let memory = path.join("memory");
    FILES.iter().any(|name| memory.join(name).exists()) || !prompts(&memory).is_empty()
}

/// The names of the prompts in a folder `memory`.
pub(crate) fn prompts(memory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(memory.join("prompts")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names
        .filter(|name| name.to_str().is_some_and(|name| pack::prompt_agent(name).is_some()))
        .collect()
}

/// True for a folder with folders in it and no file but locks and temporary ones: what a process that
/// was killed can leave, with nothing in it to lose.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    let mut left = vec![path.to_owned()];
    let mut count = 0;
    while let Some(path) = left.pop() {
        count += 1;
        if !path.symlink_metadata().is_ok_and(|own| own.is_dir()) || count > MOST_LEFT {
            return false;
        }
        let Ok(entries) = fs::read_dir(&path) else { return false };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.as_bytes();
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if !(is_file && (name.ends_with(b".lock") || name.starts_with(b".baton-"))) {
                left.push(entry.path());
            }
        }
    }
    true
}

/// Device, inode, and the time at which it was made, where the file system knows that: numbers of
/// inodes are used again.
fn identity(path: &Path) -> Option<String> {
    let own = fs::symlink_metadata(path).ok()?;
    let made = own.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let made = made.map_or(0, |time| time.as_nanos());
    Some(format!("{} {} {made}", own.dev(), own.ino()))
}

fn made_file(board: &Path, state: &Path) -> Option<PathBuf> {
    let parent = fs::canonicalize(board.parent()?).ok()?;
    let path = parent.join(board.file_name()?);
    let name = blake3::hash(path.as_os_str().as_bytes()).to_hex()[..16].to_owned();
    Some(state.join(MADE).join(name))
}

/// Remembers that this user's Baton makes this blackboard. `draft`: where it is now.
pub(super) fn remember(board: &Path, draft: &Path, state: Option<&Path>) {
    let file = state.and_then(|state| made_file(board, state));
    if let (Some(file), Some(own)) = (file, identity(draft)) {
        // Without it, only a blackboard that is made while an agent works is taken for the agent's.
        let _ = store::write_new(&file, own.as_bytes());
    }
}

/// True if this user's Baton made this blackboard.
pub(crate) fn is_made_by_us(board: &Path, state: Option<&Path>) -> bool {
    let file = state.and_then(|state| made_file(board, state));
    let known = file.and_then(|file| load::text(&file, load::SMALL).ok());
    known.is_some() && known == identity(board)
}

/// True if the folder was not there when an agent began to work in the project, and that work is not
/// over: whether it was interrupted or goes on.
fn is_planted(board: &Path, environment: &Environment) -> bool {
    let state = environment.state_folder();
    repositories::is_new_in_work(board, state.as_deref()) && !is_made_by_us(board, state.as_deref())
}
