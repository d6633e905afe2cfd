//! Who may write what on the blackboard is code, not custom. Before a stage its files are looked at,
//! after it they are looked at again: what an agent changed is restored and named. What changed
//! between two stages was a person's doing, and is adopted.

use std::collections::BTreeMap;
use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::load;
use crate::store::{self, Disk};
use crate::summaries::ARCHIVE;

/// Folders of the blackboard whose files agents must leave alone, and how deep they are looked at.
const FOLDERS: [(&str, usize); 5] =
    [("memory", 3), ("workspace", 3), ("reports", 1), ("state", 1), ("pack", 4)];
const FILES: [&str; 1] = ["baton.toml"];
/// Longer than the tick of any kernel.
const TICKS: Duration = Duration::from_millis(30);
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
    /// Folders that were read, as they were then.
    folders: BTreeMap<String, Listed>,
}

/// What a folder held: names, and whether each is a folder. It counts while a look says the same.
#[derive(Debug)]
struct Listed {
    look: Look,
    is_settled: bool,
    entries: Vec<(String, bool)>,
}

/// What the guard knows of a file without asking the disk.
#[derive(Debug)]
pub enum Known<'a> {
    /// A regular file with this content, last changed then: seconds and nanoseconds since 1970.
    File {
        bytes: &'a [u8],
        modified: (i64, i64),
    },
    Missing,
    /// It is not in a folder that is looked at, or no regular file.
    No,
}

#[derive(Debug)]
struct Seen {
    look: Look,
    bytes: Vec<u8>,
    hasher: blake3::Hasher,
    /// Of the bytes: asked for before every stage.
    digest: String,
}

impl Seen {
    fn new(look: Look, bytes: Vec<u8>) -> Seen {
        let (hasher, digest) = (blake3::Hasher::new(), String::new());
        let mut seen = Seen { look, bytes: Vec::new(), hasher, digest };
        seen.hash(&bytes);
        seen.bytes = bytes;
        seen
    }

    /// Goes on with what comes behind its bytes.
    fn hash(&mut self, text: &[u8]) {
        self.hasher.update(text);
        self.digest = self.hasher.finalize().to_hex()[..16].to_owned();
    }
}

/// What a look tells without reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    kind: FileType,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Look {
    fn at(path: &Path) -> io::Result<Look> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Look {
            kind: metadata.file_type(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether a change after `moment` must show in the times. Most kernels count them in ticks, so
    /// one that comes at once after the last need not.
    fn is_settled(&self, moment: SystemTime) -> bool {
        let (seconds, nanos) = self.changed;
        let since = Duration::new(
            u64::try_from(seconds).unwrap_or(u64::MAX),
            u32::try_from(nanos).unwrap_or(u32::MAX),
        );
        let moment = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        moment.checked_sub(since).is_some_and(|age| age > TICKS)
    }
}

impl Guard {
    pub fn new(root: &Path) -> Guard {
        Guard { root: root.to_owned(), ..Guard::default() }
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
            let is_same = earlier.get(name) == Some(&seen.digest);
            (!is_same).then(|| (name.clone(), seen.digest.clone()))
        });
        let gone = earlier.keys().filter(|name| !self.seen.contains_key(*name));
        now.chain(gone.map(|name| (name.clone(), String::new()))).collect()
    }

    /// What the last look saw of a file.
    pub fn known(&self, name: &str) -> Known<'_> {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        match self.seen.get(name) {
            Some(Seen { look, bytes, .. }) if look.kind.is_file() => {
                Known::File { bytes, modified: look.modified }
            }
            None if self.folders.contains_key(folder) => Known::Missing,
            _ => Known::No,
        }
    }

    /// The content of a file, where a look says that it is still what was seen.
    pub fn unchanged(&self, name: &str) -> Option<&[u8]> {
        let seen = self.seen.get(name).filter(|seen| seen.look.kind.is_file())?;
        let now = Look::at(&self.root.join(name)).ok()?;
        (now == seen.look).then_some(&seen.bytes[..])
    }

    /// Baton itself wrote this to the file, which was not read back.
    pub fn wrote(&mut self, name: &str, content: &[u8]) -> Result<(), Error> {
        match Look::at(&self.root.join(name)) {
            Ok(look) if look.kind.is_file() && look.size == content.len() as u64 => {
                self.seen.insert(name.to_owned(), Seen::new(look, content.to_vec()));
                Ok(())
            }
            _ => self.own(name),
        }
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
                seen.hash(text);
                seen.look = look;
                Ok(())
            }
            _ => self.own(name),
        }
    }

    /// What is not as it was: a new content, or `None` where it is gone.
    fn changes(&mut self) -> Result<Vec<(String, Option<Seen>)>, Error> {
        let mut changes = Vec::new();
        let names = self.names()?;
        let mut path = PathBuf::new();
        for name in &names {
            path.clone_from(&self.root);
            path.push(name);
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
            let is_file = look.kind.is_file();
            let bytes = if is_file { load::bytes(&path, MAX_BYTES)? } else { Vec::new() };
            if old.is_none_or(|old| old.bytes != bytes || !is_file) {
                changes.push((name.clone(), Some(Seen::new(look, bytes))));
            }
        }
        let gone = self.seen.keys().filter(|name| names.binary_search(name).is_err());
        changes.extend(gone.map(|name| (name.clone(), None)));
        Ok(changes)
    }

    fn names(&mut self) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = FILES
            .iter()
            .filter(|name| self.root.join(name).symlink_metadata().is_ok())
            .map(|name| (*name).to_owned())
            .collect();
        let mut known = std::mem::take(&mut self.folders);
        for (folder, depth) in FOLDERS {
            self.walk(folder, depth, &mut known, &mut names)?;
        }
        names.sort();
        Ok(names)
    }

    /// Names what is in a folder; it is read again only where it is not what was `known`.
    fn walk(
        &mut self,
        folder: &str,
        depth: usize,
        known: &mut BTreeMap<String, Listed>,
        names: &mut Vec<String>,
    ) -> Result<(), Error> {
        let path = self.root.join(folder);
        // The clock first: what changes after the look is later than it.
        let moment = SystemTime::now();
        let look = match Look::at(&path) {
            Ok(look) => look,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(Error::Io { path, source }),
        };
        // A link is not followed: what it leads to is not the blackboard's.
        if !look.kind.is_dir() {
            names.push(folder.to_owned());
            return Ok(());
        }
        let is_same = |known: &Listed| known.is_settled && known.look == look;
        let listed = match known.remove(folder).filter(is_same) {
            Some(listed) => listed,
            None => Listed { look, is_settled: look.is_settled(moment), entries: entries(&path)? },
        };
        for (name, is_folder) in &listed.entries {
            let inside = format!("{folder}/{name}");
            if *is_folder && depth > 1 {
                self.walk(&inside, depth - 1, known, names)?;
            } else if !(is_ours(name) || *is_folder && inside == ARCHIVE) {
                names.push(inside);
            }
        }
        self.folders.insert(folder.to_owned(), listed);
        Ok(())
    }
}

/// What is in a folder, and whether it is a folder itself.
fn entries(path: &Path) -> Result<Vec<(String, bool)>, Error> {
    let failed = |source| Error::Io { path: path.to_owned(), source };
    let read = match fs::read_dir(path) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed(source)),
    };
    let mut entries = Vec::new();
    for entry in read {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        entries.push((entry.file_name().to_string_lossy().into_owned(), kind.is_dir()));
    }
    Ok(entries)
}

/// Locks, and hidden files: ours of a write that a crash cut off, or an editor's.
fn is_ours(name: &str) -> bool {
    name.ends_with(".lock") || name.starts_with('.')
}
