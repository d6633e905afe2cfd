//! Who may write what on the blackboard is code, not custom. Before a stage its files are looked at,
//! after it they are looked at again: what an agent changed is restored and named. What changed
//! between two stages was a person's doing, and is adopted.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::load;
use crate::store::{self, Disk};
use crate::summaries::ARCHIVE;

/// Folders of the blackboard whose files agents must leave alone, and how deep they are looked at.
const FOLDERS: [(&str, usize); 5] =
    [("memory", 3), ("workspace", 3), ("reports", 1), ("state", 1), ("pack", 4)];
const FILES: [&str; 1] = ["baton.toml"];
/// Larger ones are not ours.
const MAX_BYTES: u64 = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("cannot look at {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The live files of a blackboard, as they were at the last look.
#[derive(Debug, Default)]
pub struct Guard {
    root: PathBuf,
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    look: Look,
    bytes: Vec<u8>,
    digest: blake3::Hasher,
}

impl Seen {
    fn new(look: Look, bytes: Vec<u8>) -> Seen {
        let mut digest = blake3::Hasher::new();
        digest.update(&bytes);
        Seen { look, bytes, digest }
    }
}

/// What a look tells without reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Look {
    fn at(path: &Path) -> io::Result<Look> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Look {
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

impl Guard {
    pub fn new(root: &Path) -> Guard {
        Guard { root: root.to_owned(), seen: BTreeMap::new() }
    }

    /// Looks at everything; the names of what changed since the last look.
    pub fn look(&mut self) -> Result<Vec<String>, Error> {
        let changes = self.changes()?;
        let mut names = Vec::new();
        for (name, now) in changes {
            match now {
                Some(seen) => {
                    self.seen.insert(name.clone(), seen);
                }
                None => drop(self.seen.remove(&name)),
            }
            names.push(name);
        }
        Ok(names)
    }

    /// Looks again and restores what is not as it was; the names of it.
    pub fn restore(&mut self, disk: &Disk) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for (name, now) in self.changes()? {
            let path = self.root.join(&name);
            match (self.seen.get(&name), now) {
                (Some(seen), _) => {
                    // A link or a file where a folder must be would lead elsewhere: it goes first.
                    self.clear_way(&name, disk)?;
                    if fs::symlink_metadata(&path).is_ok_and(|now| !now.is_file()) {
                        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
                    }
                    disk.write_here(&path, &seen.bytes)?;
                }
                (None, Some(_)) if path.symlink_metadata().is_ok_and(|now| now.is_dir()) => {
                    let removed = fs::remove_dir_all(&path);
                    removed.map_err(|source| Error::Io { path: path.clone(), source })?;
                }
                (None, Some(_)) => disk.remove(&path)?,
                (None, None) => {}
            }
            if let (Some(seen), Ok(look)) = (self.seen.get_mut(&name), Look::at(&path)) {
                seen.look = look;
            }
            names.push(name);
        }
        Ok(names)
    }

    fn clear_way(&self, name: &str, disk: &Disk) -> Result<(), Error> {
        let mut path = self.root.clone();
        for part in Path::new(name).parent().into_iter().flat_map(Path::components) {
            path.push(part);
            if fs::symlink_metadata(&path).is_ok_and(|now| !now.is_dir()) {
                disk.remove(&path)?;
            }
        }
        Ok(())
    }

    /// What differs from digests that were taken earlier: the new ones, empty for what is gone.
    pub fn differing(&self, earlier: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let now = self.seen.iter().filter_map(|(name, seen)| {
            let digest = seen.digest.finalize().to_hex()[..16].to_owned();
            (earlier.get(name) != Some(&digest)).then(|| (name.clone(), digest))
        });
        let gone = earlier.keys().filter(|name| !self.seen.contains_key(*name));
        now.chain(gone.map(|name| (name.clone(), String::new()))).collect()
    }

    /// Baton itself wrote or removed this file.
    pub fn own(&mut self, name: &str) -> Result<(), Error> {
        let path = self.root.join(name);
        match Look::at(&path) {
            Ok(look) => {
                let bytes = load::bytes(&path, MAX_BYTES)?;
                self.seen.insert(name.to_owned(), Seen::new(look, bytes));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => drop(self.seen.remove(name)),
            Err(source) => return Err(Error::Io { path, source }),
        }
        Ok(())
    }

    /// Baton itself put this behind what the file had up to `at`; nothing is read again.
    pub fn appended(&mut self, name: &str, at: u64, text: &[u8]) -> Result<(), Error> {
        let path = self.root.join(name);
        let look = Look::at(&path).map_err(|source| Error::Io { path, source })?;
        match self.seen.get_mut(name) {
            Some(seen) if seen.bytes.len() as u64 == at => {
                seen.bytes.extend_from_slice(text);
                seen.digest.update(text);
                seen.look = look;
                Ok(())
            }
            _ => self.own(name),
        }
    }

    /// What is not as it was: a new content, or `None` where it is gone.
    fn changes(&self) -> Result<Vec<(String, Option<Seen>)>, Error> {
        let mut changes = Vec::new();
        let names = self.names()?;
        for name in &names {
            let path = self.root.join(name);
            let look = match Look::at(&path) {
                Ok(look) => look,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(Error::Io { path, source }),
            };
            let old = self.seen.get(name);
            if old.is_some_and(|old| old.look == look) {
                continue;
            }
            // A link is not followed: what it points to is not the blackboard's.
            let bytes = match fs::symlink_metadata(&path).is_ok_and(|now| now.is_file()) {
                true => load::bytes(&path, MAX_BYTES)?,
                false => Vec::new(),
            };
            let is_file = fs::symlink_metadata(&path).is_ok_and(|now| now.is_file());
            if old.is_none_or(|old| old.bytes != bytes || !is_file) {
                changes.push((name.clone(), Some(Seen::new(look, bytes))));
            }
        }
        let gone = self.seen.keys().filter(|name| !names.contains(*name));
        changes.extend(gone.map(|name| (name.clone(), None)));
        Ok(changes)
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = FILES
            .iter()
            .filter(|name| self.root.join(name).symlink_metadata().is_ok())
            .map(|name| (*name).to_owned())
            .collect();
        for (folder, depth) in FOLDERS {
            self.walk(folder, depth, &mut names)?;
        }
        names.sort();
        Ok(names)
    }

    fn walk(&self, folder: &str, depth: usize, names: &mut Vec<String>) -> Result<(), Error> {
        let path = self.root.join(folder);
        // A link is not followed: what it leads to is not the blackboard's.
        if fs::symlink_metadata(&path).is_ok_and(|now| !now.is_dir()) {
            names.push(folder.to_owned());
            return Ok(());
        }
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(Error::Io { path, source }),
        };
        for entry in entries {
            let entry = entry.map_err(|source| Error::Io { path: path.clone(), source })?;
            let kind =
                entry.file_type().map_err(|source| Error::Io { path: path.clone(), source })?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let inside = format!("{folder}/{name}");
            if kind.is_dir() && depth > 1 {
                self.walk(&inside, depth - 1, names)?;
            } else if !(is_ours(&name) || kind.is_dir() && inside == ARCHIVE) {
                names.push(inside);
            }
        }
        Ok(())
    }
}

/// Locks, and hidden files: ours of a write that a crash cut off, or an editor's.
fn is_ours(name: &str) -> bool {
    name.ends_with(".lock") || name.starts_with('.')
}
