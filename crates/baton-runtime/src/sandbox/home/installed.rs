//! Files with tokens in folders that are shown: the settings of one version of a tool, or of one
//! environment, lie in its own folder.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::{MOST_BYTES, MOST_PROGRAMS, Maker, Put, clean, is_system, known};
use crate::load;

/// Files that are hidden whether or not they exist yet, which every command looks for. After them, only
/// those that exist are.
const MOST_WATCHED: usize = 400;

impl Maker<'_> {
    /// Notes what is installed below the folder of this tool.
    pub(super) fn find_installed(&mut self, tool: &str, folder: &Path) {
        for own in known::INSTALLED.iter().filter(|own| own.folder == tool) {
            for way in own.below {
                let found = expanded(folder, way);
                self.installed.extend(found.into_iter().map(|path| (path, own.hidden)));
            }
        }
    }

    pub(super) fn hide_in_installed(&mut self) {
        let mut seen = BTreeSet::new();
        for (folder, hidden) in std::mem::take(&mut self.installed) {
            let Ok(real) = fs::canonicalize(&folder) else { continue };
            // What is in the project can be read and written there.
            if is_system(&real) || self.needed.iter().any(|own| real.starts_with(own)) {
                continue;
            }
            let is_watched = seen.len() < MOST_WATCHED;
            for name in hidden.iter().copied().flatten() {
                let path = real.join(name);
                // One that is made later is hidden from the next command.
                if (is_watched || path.exists()) && seen.insert(path.clone()) {
                    self.hide(name, path);
                }
            }
        }
    }

    /// A file that the tool would not read if it were empty is found with another text.
    fn hide(&mut self, name: &str, path: PathBuf) {
        let text = match name {
            "conf/settings.xml" => {
                let text = load::text(&path, MOST_BYTES).ok();
                let own = text.and_then(|text| clean::maven(&text));
                own.map_or_else(|| "<settings/>\n".to_owned(), |own| own.text)
            }
            "etc/gemrc" => "--- {}\n".to_owned(),
            "conda-meta/state" => "{}\n".to_owned(),
            _ => return self.sight.covered.push(path),
        };
        // Where a link leads to.
        let path = fs::canonicalize(&path).unwrap_or(path);
        if !is_system(&path) {
            self.sight.put.push((path, Put::Text(text)));
        }
    }
}

/// The folders that a pattern like `versions/*/lib-*` names below a folder.
fn expanded(folder: &Path, way: &str) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for name in way.split('/').filter(|name| !name.is_empty()) {
        let next = |own: PathBuf| match name.strip_suffix('*') {
            Some(start) => below(&own, start),
            None => vec![own.join(name)],
        };
        found = found.into_iter().flat_map(next).take(MOST_PROGRAMS).collect();
    }
    found
}

/// The folders in this one whose names begin so.
fn below(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let begins = |name: &OsStr| name.as_encoded_bytes().starts_with(start.as_bytes());
    let own = entries.filter(|entry| begins(&entry.file_name()));
    let own =
        own.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink()));
    own.take(MOST_PROGRAMS).map(|entry| entry.path()).collect()
}
