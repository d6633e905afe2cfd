//! Which files of the project a command changed: by their times and sizes, before and after it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use super::Workshop;

/// In a larger project nothing is compared.
const MOST: usize = 50_000;

/// How a file looks from outside: its inode, its size, and when it was changed.
type Look = (u64, u64, i64, i64);

/// The files of a project that git does not ignore.
pub(super) struct Listing(BTreeMap<String, Look>);

impl Listing {
    /// `None`: there are too many.
    pub(super) fn of(shop: &Workshop) -> Option<Listing> {
        let mut files = BTreeMap::new();
        for name in super::find::walk(shop, ".", true) {
            let Ok(own) = shop.root.path().join(&name).symlink_metadata() else { continue };
            files.insert(name, (own.ino(), own.size(), own.ctime(), own.ctime_nsec()));
            if files.len() > MOST {
                return None;
            }
        }
        Some(Listing(files))
    }

    /// The files that are new, gone or not as they were.
    pub(super) fn changes(self, shop: &Workshop) -> Vec<String> {
        let Some(Listing(now)) = Listing::of(shop) else { return Vec::new() };
        let gone = self.0.keys().filter(|name| !now.contains_key(*name));
        let new = now.iter().filter(|(name, look)| self.0.get(*name) != Some(look));
        let mut names: Vec<String> = gone.chain(new.map(|(name, _)| name)).cloned().collect();
        names.sort();
        names
    }
}
