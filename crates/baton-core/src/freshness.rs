//! Which files were changed behind the agent's back. Goes in: each reading and each edit of our own
//! with the file's time. Comes out: the note that a second reading carries, and whether an edit must
//! be refused. Lives in memory only: after a restart every file counts as never read.

use std::collections::BTreeMap;

use crate::id::Mtime;
use crate::messages::Language;
use crate::text;

/// The time of each file as the agent last saw or made it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Freshness {
    seen: BTreeMap<String, Mtime>,
    /// The times of files that a command of the agent changed, and that it was told of.
    by_command: BTreeMap<String, Mtime>,
}

impl Freshness {
    /// The file was read now. A note, where somebody else changed it since the last time.
    pub fn read(&mut self, file: &str, mtime: Mtime, language: Language) -> Option<String> {
        let before = self.seen.insert(file.to_owned(), mtime);
        // Older than before is a change too: a file may be put back.
        let is_told = self.by_command.get(file) == Some(&mtime);
        before
            .filter(|before| *before != mtime && !is_told)
            .map(|_| language.modified_externally(text::shown(file, 4_096)))
    }

    /// A command of the agent changed the file; it has this time now. What is in it the agent has yet
    /// to read.
    pub fn command_changed(&mut self, file: &str, mtime: Mtime) {
        self.by_command.insert(file.to_owned(), mtime);
    }

    /// We changed the file; it has this time now.
    pub fn own_edit(&mut self, file: &str, mtime: Mtime) {
        self.seen.insert(file.to_owned(), mtime);
    }

    /// The file has another time and the same content: the agent knows it as well as before.
    pub fn touched(&mut self, file: &str, before: Mtime, now: Mtime) {
        if let Some(seen) = self.seen.get_mut(file).filter(|seen| **seen == before) {
            *seen = now;
        }
    }

    /// We removed the file, or no longer answer for it.
    pub fn forget(&mut self, file: &str) {
        self.seen.remove(file);
    }

    /// Whether the agent knows any state of the file.
    pub fn is_known(&self, file: &str) -> bool {
        self.seen.contains_key(file)
    }

    /// Whether the file is no longer what the agent saw. One that it never saw cannot have changed
    /// since: whether that may be edited is another question (`is_known`).
    pub fn changed_since_read(&self, file: &str, mtime: Mtime) -> bool {
        self.seen.get(file).is_some_and(|seen| *seen != mtime)
    }
}
