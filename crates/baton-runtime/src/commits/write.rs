//! Writes checked changes into the real git folder, under git's own locks: logs, refs, marks, index and
//! HEAD in this order. A crash leaves a repository in which some of them are written.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::changes::{Changes, is_same_index, kind_of};
use super::state::{State, is_folder};
use crate::load;
use crate::store::{Disk, Error};

/// The time that another git has to finish.
const WAIT: Duration = Duration::from_secs(3);
const LOCK: &str = ".lock";
/// In the folder of a copy: the locks that may be left.
const LOCKS: &str = "locks";

/// Locks of the real git folder: git writes nothing as long as they are there.
pub(super) struct Locks(Vec<PathBuf>);

impl Locks {
    pub(super) fn take(git: &Path, folder: &Path, changes: &Changes) -> Result<Locks, String> {
        let names = ["index", "HEAD", "packed-refs"].into_iter();
        let refs = changes.refs.iter().map(|(name, _)| name.as_str());
        let paths: Vec<PathBuf> = names
            .chain(refs)
            .map(|name| git.join(format!("{name}{LOCK}")))
            .filter(|path| path.parent().is_some_and(is_folder))
            .collect();
        let list: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let failed = |error: &dyn std::fmt::Display| format!("cannot lock the repository: {error}");
        let text = list.join("\n");
        super::state::put(folder, LOCKS, text.as_bytes()).map_err(|error| failed(&error))?;
        // Each lock has our text from the first moment: one of another git may be empty.
        let draft = draft(git, folder);
        let name = draft.file_name().unwrap_or_default().to_string_lossy();
        super::state::put(git, &name, token(folder).as_bytes()).map_err(|error| failed(&error))?;
        let own = Locks::linked(&draft, paths).map_err(|error| failed(&error));
        let _ = fs::remove_file(&draft);
        own
    }

    fn linked(draft: &Path, paths: Vec<PathBuf>) -> std::io::Result<Locks> {
        let mut own = Locks(Vec::new());
        let start = Instant::now();
        for path in paths {
            while let Err(error) = fs::hard_link(draft, &path) {
                if start.elapsed() > WAIT {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            own.0.push(path);
        }
        Ok(own)
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

fn draft(git: &Path, folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    git.join(format!(".baton-lock-{name}"))
}

fn token(folder: &Path) -> String {
    format!("baton {}\n", folder.file_name().unwrap_or_default().to_string_lossy())
}

/// Removes the locks and drafts of a process that died.
pub(super) fn remove_left(git: &Path, folder: &Path) {
    let Ok(list) = load::text(&folder.join(LOCKS), load::SMALL) else { return };
    let _ = fs::remove_file(draft(git, folder));
    for path in list.lines().map(Path::new).filter(|path| path.starts_with(git)) {
        if load::bytes_of_file(path, 4_096).is_ok_and(|text| text == token(folder).as_bytes()) {
            let _ = fs::remove_file(path);
        }
    }
    // Who has the lock now may be writing drafts.
    if !git.join("index.lock").exists() {
        let _ = Disk::default().sweep(git, 0);
    }
}

/// Whether nobody else has changed what the changes are about.
pub(super) fn is_untouched(before: &State, now: &State, changes: &Changes) -> bool {
    let refs = |state: &State| {
        let own = state.refs.iter().filter(|(name, _)| kind_of(name).is_some());
        own.map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
    };
    before.head == now.head
        && refs(before) == refs(now)
        && before.marks == now.marks
        && changes.logs.iter().all(|(name, _)| before.logs.get(name) == now.logs.get(name))
        && is_same_index(before, now)
}

pub(super) fn write(git: &Path, before: &State, changes: &Changes) -> Result<(), Error> {
    let disk = Disk::default();
    let put = |name: &str, content: &[u8]| {
        let path = git.join(name);
        remove_empty(&path);
        path.parent().map_or(Ok(()), |folder| disk.make_folder(folder))?;
        // A crash leaves nothing among the refs.
        disk.write_through(&path, content, git)
    };
    // The index first: after a kill in between, what was committed is still to be committed.
    if let Some(index) = &changes.index {
        put("index", index)?;
        let time = before.index.as_ref().map(|(_, time)| *time);
        // What git noted of a file counts if it is older than the index.
        if let (Some(time), Ok(file)) = (time, File::options().append(true).open(git.join("index")))
        {
            let _ = file.set_modified(time);
        }
    }
    for (name, log) in &changes.logs {
        if let Some(log) = log {
            put(&format!("logs/{name}"), log)?;
        }
    }
    for (name, value) in &changes.refs {
        if let Some(value) = value {
            put(name, format!("{value}\n").as_bytes())?;
        }
    }
    for (name, value) in &changes.marks {
        match value {
            Some(value) => put(name, format!("{value}\n").as_bytes())?,
            None => disk.remove(&git.join(name))?,
        }
    }
    if let Some(head) = &changes.head {
        put("HEAD", format!("{head}\n").as_bytes())?;
    }
    remove_refs(git, changes, &disk)
}

/// Refs that were removed, and their logs. In this order: HEAD may have named one of them.
fn remove_refs(git: &Path, changes: &Changes, disk: &Disk) -> Result<(), Error> {
    let gone: Vec<&str> = changes
        .refs
        .iter()
        .filter(|(_, own)| own.is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    if gone.is_empty() {
        return Ok(());
    }
    let file = git.join("packed-refs");
    if let Ok(text) = load::text(&file, 64 << 20) {
        let rest = without(&text, &gone);
        if rest != text {
            disk.write_through(&file, rest.as_bytes(), git)?;
        }
    }
    for name in gone {
        disk.remove(&git.join(name))?;
        remove_empty_above(git, &git.join(name));
    }
    for (name, _) in changes.logs.iter().filter(|(_, log)| log.is_none()) {
        let path = git.join("logs").join(name);
        disk.remove(&path)?;
        remove_empty_above(&git.join("logs"), &path);
    }
    Ok(())
}

/// The text of `packed-refs` without some of them, and without what their tags lead to.
fn without(text: &str, gone: &[&str]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_gone = false;
    for line in text.split_inclusive('\n') {
        if !line.starts_with('^') {
            let name = line.trim_end().split_once(' ').map(|(_, name)| name);
            is_gone = name.is_some_and(|name| gone.contains(&name));
        }
        if !is_gone {
            out.push_str(line);
        }
    }
    out
}

/// Empty folders in the place of a file, as refs leave them.
fn remove_empty(path: &Path) {
    if is_folder(path) {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| remove_empty(&entry.path()));
        let _ = fs::remove_dir(path);
    }
}

/// Empty folders that a removed branch leaves: not `refs/heads` itself.
fn remove_empty_above(base: &Path, path: &Path) {
    let above = path.ancestors().skip(1);
    let depth = |path: &Path| path.strip_prefix(base).map_or(0, |own| own.components().count());
    for folder in above.take_while(|own| depth(own) > 2) {
        let _ = fs::remove_dir(folder);
    }
}
