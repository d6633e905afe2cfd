//! Which files of the project a command changed: by what is in them before and after it. A file that
//! was written with the same content, or put back, is not changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use baton_core::id::Mtime;

use super::Workshop;
use crate::beneath::mtime_of;
use crate::drive::outputs;
use crate::sandbox::Interrupt;
use crate::walk::{self, RuleFiles, WasThere};

/// In a larger project nothing is compared.
const MOST: usize = 50_000;
/// Bytes of a file whose content is compared; of a larger one only its time and size.
const FILE: u64 = 256 << 10;
/// Bytes that one listing reads.
const READ: u64 = 16 << 20;

/// A file's inode, its size, and the time of its last change.
type Look = (u64, u64, i64, i64);

/// The contents of files that were looked at, so that a file is read again only when it was touched.
#[derive(Debug, Default)]
pub struct Digests(HashMap<String, (Look, u64)>);

#[derive(Debug, Clone, Copy)]
struct Entry {
    look: Look,
    mtime: Mtime,
    /// A hash of its content, where that was read.
    digest: Option<u64>,
}

impl Entry {
    fn is_same(&self, other: &Entry) -> bool {
        self.look == other.look || self.digest.is_some() && self.digest == other.digest
    }
}

/// The files of a project that git does not ignore, and the rules by which they were found.
pub(super) struct Listing {
    files: BTreeMap<String, Entry>,
    rules: RuleFiles,
}

impl Listing {
    /// `None`: there are too many, or it was interrupted.
    pub(super) fn of(shop: &Workshop, interrupt: &Interrupt) -> Option<Listing> {
        Listing::after(
            shop,
            &Listing { files: BTreeMap::new(), rules: RuleFiles::new() },
            interrupt,
        )
    }

    /// The files now. What was there stays in the list, whatever new rules say.
    fn after(shop: &Workshop, before: &Listing, interrupt: &Interrupt) -> Option<Listing> {
        let mut files = BTreeMap::new();
        let mut digests = shop.digests.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut room = READ;
        let root = shop.root.access();
        let was_there = |name: &str| before.files.contains_key(name);
        let is_first = before.files.is_empty() && before.rules.is_empty();
        let earlier: Option<(&RuleFiles, WasThere<'_>)> =
            (!is_first).then_some((&before.rules, &was_there));
        let walked = super::find::walk(shop, ".", true, earlier, interrupt).ok()?;
        let mut names: BTreeSet<String> =
            walked.files.into_iter().filter(|own| !own.is_link).map(|own| own.name).collect();
        names.extend(before.files.keys().cloned());
        for name in names {
            let Some(path) = walk::path_of(&name).map(|path| root.join(path)) else { continue };
            let Ok(own) = path.symlink_metadata() else { continue };
            if !own.is_file() {
                continue;
            }
            let look = (own.ino(), own.size(), own.ctime(), own.ctime_nsec());
            let known = digests.0.get(&name).filter(|known| known.0 == look).map(|known| known.1);
            let is_small = own.is_file() && own.size() <= FILE.min(room);
            let digest = known.or_else(|| {
                let mut opened = shop.root.read(&name).ok().filter(|_| is_small)?;
                let mut content = Vec::new();
                Read::by_ref(&mut opened.file).take(FILE).read_to_end(&mut content).ok()?;
                room -= own.size();
                let mut hasher = DefaultHasher::new();
                content.hash(&mut hasher);
                Some(hasher.finish())
            });
            if let Some(digest) = digest {
                digests.0.insert(name.clone(), (look, digest));
            }
            files.insert(name, Entry { look, mtime: mtime_of(&own), digest });
            if files.len() > MOST {
                return None;
            }
        }
        Some(Listing { files, rules: walked.rules })
    }

    /// The differences now.
    pub(super) fn changes(self, shop: &Workshop, interrupt: &Interrupt) -> Changes {
        let Some(Listing { files: now, .. }) = Listing::after(shop, &self, interrupt) else {
            return Changes::default();
        };
        let mut changes = Changes::default();
        let is_there = |name: &str| now.contains_key(name);
        let names: BTreeSet<&String> = self.files.keys().chain(now.keys()).collect();
        for name in names {
            match (self.files.get(name), now.get(name)) {
                (Some(before), Some(after)) if before.is_same(after) => {
                    if before.mtime != after.mtime {
                        changes.touched.push((walk::shown(name), before.mtime, after.mtime));
                    }
                }
                _ if outputs::is_made_by_tools(name, is_there) => changes.by_tools += 1,
                (before, after) => {
                    let name = walk::shown(name);
                    changes.all.push(name.clone());
                    match (before, after) {
                        (None, _) => changes.created.push(name),
                        (_, None) => changes.deleted.push(name),
                        _ => {}
                    }
                }
            }
        }
        changes
    }
}

/// The effect of a command on the files of the project.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub all: Vec<String>,
    /// Those of them that were not there before.
    pub created: Vec<String>,
    /// Those of them that are gone.
    pub deleted: Vec<String>,
    /// The number of other files: caches and products of builds and tests.
    pub by_tools: u64,
    /// Files with the same content and another time: before, and now.
    pub touched: Vec<(String, Mtime, Mtime)>,
}
