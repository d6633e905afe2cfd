//! The built-in files of earlier versions, by their hashes (`earlier.txt`). A blackboard holds copies
//! of the policy and the prompts of the version that made it; a copy that is still what that version
//! wrote is not a change of the user's.

use std::path::{Path, PathBuf};

use baton_core::pack::Pack;

use crate::board::{self, Board, Error};
use crate::{builtin, load};

/// One file per line: version, pack, language, path in the blackboard, BLAKE3 hash.
const TABLE: &str = include_str!("earlier.txt");

/// A file of a blackboard that an earlier version wrote and nobody changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldCopy {
    pub path: PathBuf,
    pub version: &'static str,
}

/// The newest earlier version that wrote this content under this path, in any pack and language.
pub fn version_of(path: &Path, content: &[u8]) -> Option<&'static str> {
    let hash = blake3::hash(content).to_hex();
    let rows = TABLE.lines().rev().map(|line| line.split(' ').collect::<Vec<_>>());
    rows.filter_map(|row| match row[..] {
        [version, _, _, file, known] if known == hash.as_str() => Some((version, file)),
        _ => None,
    })
    .find(|(_, file)| Path::new(file) == path)
    .map(|(version, _)| version)
}

/// The files of a blackboard that are unmodified copies from earlier versions and that this version
/// would write differently.
pub fn old_copies(board: &Board) -> Result<Vec<OldCopy>, Error> {
    let name = &board.pack.manifest.name;
    let Some(files) = builtin::files(name).filter(|_| board.is_own) else { return Ok(Vec::new()) };
    let pack = Pack::read(&files, &board.pack.language).map_err(Error::Invalid)?;
    let current = board::pack_owned(&pack);
    let mut found = Vec::new();
    for path in board::pack_files_on_disk(&board.root)? {
        let content = load::bytes(&board.root.join(&path), load::SMALL)?;
        let is_current = current.iter().any(|(own, text)| *own == path && *text == content);
        if let Some(version) = version_of(&path, &content).filter(|_| !is_current) {
            found.push(OldCopy { path, version });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of this version's built-in files, as the table has them.
    fn rows() -> Vec<String> {
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let mut rows = Vec::new();
        for (manifest, files) in builtin::packs() {
            for language in &manifest.languages {
                let pack = Pack::read(&files, language).expect("a built-in pack is right");
                rows.extend(board::pack_owned(&pack).into_iter().map(|(path, content)| {
                    let (path, hash) = (path.display(), blake3::hash(&content).to_hex());
                    format!("{major}.{minor} {} {language} {path} {hash}", manifest.name)
                }));
            }
        }
        rows.sort();
        rows
    }

    /// To add a version: run this test at its release with `BATON_PRINT_BUILT_INS=1 -- --nocapture`
    /// and append what it prints to the table.
    #[test]
    fn every_version_before_this_one_is_in_the_table() {
        if std::env::var_os("BATON_PRINT_BUILT_INS").is_some() {
            println!("{}", rows().join("\n"));
        }
        let versions = |minor: u32| format!("{}.{minor}", env!("CARGO_PKG_VERSION_MAJOR"));
        let minor: u32 = env!("CARGO_PKG_VERSION_MINOR").parse().expect("a number");
        for version in (1..minor).map(versions) {
            let count = TABLE.lines().filter(|row| row.split(' ').next() == Some(&version)).count();
            assert!(count > 40, "the table has {count} files of {version}");
        }
    }

    #[test]
    fn each_row_of_the_table_is_whole_and_in_order() {
        let mut last = (0, 0);
        for row in TABLE.lines() {
            let parts: Vec<&str> = row.split(' ').collect();
            let [version, _, _, path, hash] = parts[..] else { panic!("{row}") };
            let (major, minor) = version.split_once('.').expect("two numbers");
            let numbers = (major.parse().expect("a number"), minor.parse().expect("a number"));
            assert!(numbers >= last && path.starts_with("memory/") && hash.len() == 64, "{row}");
            last = numbers;
        }
    }
}
