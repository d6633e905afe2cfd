//! What is mounted so that a program sees what it should: goes in what is covered and shown, comes out
//! the covers that are needed, each with all that has to be in it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::{Put, Sight, is_coverable, is_system};

/// What is in a folder that covers another, by its path from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sandbox) enum Entry {
    Folder,
    /// An empty file, on which another is mounted.
    File,
    Put(Put),
}

/// See the module. No path lies in a covered folder, unless something is shown between them.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct Layout {
    /// Each with its entries. A file in the place of another has one, without a name.
    pub(in crate::sandbox) folders: BTreeMap<PathBuf, BTreeMap<PathBuf, Entry>>,
    pub(in crate::sandbox) files: Vec<PathBuf>,
    /// What has to be mounted to be seen.
    pub(in crate::sandbox) shown: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    File,
    Shown,
    /// Mounted anyway.
    Open,
    Put,
}

/// `open`: what is seen in any case, because it is mounted on its own.
pub(in crate::sandbox) fn layout(sight: &Sight, open: &[PathBuf]) -> Layout {
    let mut kinds: BTreeMap<PathBuf, Kind> = BTreeMap::new();
    for (path, _) in &sight.put {
        kinds.insert(path.clone(), Kind::Put);
    }
    let mut real_folders = RealFolders::default();
    for path in &sight.covered {
        if let Some((path, kind)) = real_folders.covered(path) {
            kinds.insert(path, kind);
        }
    }
    for path in &sight.shown {
        if fs::symlink_metadata(path).is_ok_and(|own| !own.is_symlink()) {
            kinds.insert(path.clone(), Kind::Shown);
        }
    }
    kinds.extend(open.iter().map(|path| (path.clone(), Kind::Open)));
    let puts: BTreeMap<&Path, &Put> =
        sight.put.iter().map(|(path, put)| (path.as_path(), put)).collect();
    let mut out = Layout::default();
    // What holds the path that is looked at, outermost first: those that make a difference.
    let mut around: Vec<(PathBuf, Kind)> = Vec::new();
    for (path, kind) in kinds {
        while around.last().is_some_and(|(own, _)| !path.starts_with(own)) {
            around.pop();
        }
        let cover =
            around.last().filter(|(_, kind)| *kind == Kind::Folder).map(|(own, _)| own.clone());
        match (kind, &cover) {
            (Kind::Folder, None) if is_empty(&path) => continue,
            (Kind::Folder, None) => drop(out.folders.insert(path.clone(), BTreeMap::new())),
            (Kind::File, None) => out.files.push(path.clone()),
            (Kind::Shown, Some(cover)) => {
                out.enter(cover, &path, point(&path));
                out.shown.push(path.clone());
            }
            (Kind::Open, Some(cover)) => out.enter(cover, &path, point(&path)),
            (Kind::Open, None) => {}
            (Kind::Put, Some(cover)) => {
                if let Some(put) = puts.get(path.as_path()) {
                    out.enter(cover, &path, Entry::Put((*put).clone()));
                }
                continue;
            }
            // A text in the place of a file that is there.
            (Kind::Put, None) if around.last().is_none_or(|(_, kind)| *kind == Kind::Shown) => {
                if let Some(put @ Put::Text(_)) = puts.get(path.as_path())
                    && fs::symlink_metadata(&path).is_ok_and(|own| own.is_file())
                {
                    let whole = BTreeMap::from([(PathBuf::new(), Entry::Put((*put).clone()))]);
                    out.folders.insert(path, whole);
                }
                continue;
            }
            // Seen, or not, with what holds it.
            _ => continue,
        }
        around.push((path, kind));
    }
    out
}

/// The folders that were looked up, each with its path without links. Many covers are in the same few
/// folders, and this is done for each command.
#[derive(Default)]
struct RealFolders<'a>(HashMap<&'a Path, Option<PathBuf>>);

impl<'a> RealFolders<'a> {
    /// The path without links, and what is there.
    fn of(&mut self, path: &'a Path) -> Option<(PathBuf, fs::Metadata)> {
        let found = fs::symlink_metadata(path).ok()?;
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) if !found.is_symlink() => {
                let folder = self.0.entry(folder).or_insert_with(|| fs::canonicalize(folder).ok());
                Some((folder.as_ref()?.join(name), found))
            }
            _ => {
                let real = fs::canonicalize(path).ok()?;
                let found = fs::symlink_metadata(&real).ok()?;
                Some((real, found))
            }
        }
    }

    fn covered(&mut self, path: &'a Path) -> Option<(PathBuf, Kind)> {
        let (real, found) = self.of(path)?;
        if is_system(&real) && found.is_dir() || !is_coverable(&found) {
            return None;
        }
        let kind = if found.is_dir() { Kind::Folder } else { Kind::File };
        Some((real, kind))
    }
}

/// There is nothing to be covered.
fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn point(path: &Path) -> Entry {
    if path.is_dir() { Entry::Folder } else { Entry::File }
}

impl Layout {
    fn enter(&mut self, cover: &Path, path: &Path, entry: Entry) {
        let (Some(entries), Ok(inside)) = (self.folders.get_mut(cover), path.strip_prefix(cover))
        else {
            return;
        };
        for folder in inside.ancestors().skip(1).filter(|own| !own.as_os_str().is_empty()) {
            entries.entry(folder.to_owned()).or_insert(Entry::Folder);
        }
        entries.entry(inside.to_owned()).or_insert(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_makes_a_difference_is_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in [
            "h/me/.ssh",
            "h/me/.cargo/bin",
            "h/me/.cargo/registry",
            "h/me/p/sub/keys",
            "h/other",
            "out/x",
            "empty",
            "tools",
        ] {
            fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("out"), at("h/me/link")).unwrap();
        let texts = ["h/me/.cargo/bin/conf", "tools/conf"];
        for name in ["h/me/p/token", "h/me/p/sub/keys/key", "out/x/y"].iter().chain(&texts) {
            drop(fs::File::create_new(at(name)).unwrap());
        }
        let names = |all: &[&str]| all.iter().map(|name| at(name)).collect::<Vec<_>>();
        let sight = Sight {
            covered: names(&[
                "h",
                "h/me",
                "h/me/.ssh",
                "h/me/p/sub/keys",
                "h/me/p/token",
                "missing",
                "h/other",
                "empty",
            ]),
            shown: names(&[
                "h/me/.cargo/bin",
                "h/me/.cargo/registry",
                "h/me/p/sub",
                "out/x",
                "h/me/gone",
            ]),
            put: vec![
                (at("h/me/.gitconfig"), Put::Text("x".to_owned())),
                (at("h/me/link"), Put::Link(at("out"))),
                (at("out/x/y"), Put::Text("never".to_owned())),
                (at("h/me/.cargo/bin/conf"), Put::Text("x".to_owned())),
                (at("h/me/.cargo/bin/missing"), Put::Text("x".to_owned())),
                (at("tools/conf"), Put::Text("x".to_owned())),
            ],
        };
        let own = layout(&sight, &names(&["h/me/p", "out"]));
        let folders: Vec<&PathBuf> = own.folders.keys().collect();
        let whole = [at("h/me/.cargo/bin/conf"), at("tools/conf")];
        assert_eq!(folders, [&at("h"), &whole[0], &at("h/me/p/sub/keys"), &whole[1]]);
        let text = BTreeMap::from([(PathBuf::new(), Entry::Put(Put::Text("x".to_owned())))]);
        assert!(whole.iter().all(|path| own.folders[path] == text));
        assert_eq!(own.files, [at("h/me/p/token")]);
        assert_eq!(own.shown, [at("h/me/.cargo/bin"), at("h/me/.cargo/registry")]);
        let entries: Vec<String> =
            own.folders[&at("h")].keys().map(|path| path.display().to_string()).collect();
        let expected = [
            "me",
            "me/.cargo",
            "me/.cargo/bin",
            "me/.cargo/registry",
            "me/.gitconfig",
            "me/link",
            "me/p",
        ];
        assert_eq!(entries, expected);
    }
}
