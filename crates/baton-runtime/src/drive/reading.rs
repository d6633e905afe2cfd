//! Files of the blackboard that MAIN asks to read. The path comes from a model: it is resolved beneath
//! the blackboard by the kernel, and only a regular file of a bounded size is read.

use std::path::Path;

use baton_core::messages::Language;

use crate::beneath::{self, Root};
use crate::load;

/// Tokens of one file that are shown.
pub(super) const MOST_TOKENS: u64 = 8_000;
const MOST_BYTES: u64 = 4 << 20;

/// The text of a file, or why it cannot be shown. A link may not lead out of its folder.
pub(super) fn text(words: Language, board: &Path, path: &str) -> Result<String, String> {
    let missing = || words.read_missing();
    let (folder, inside) = path.split_once('/').ok_or_else(missing)?;
    let root = Root::open(&board.join(folder), &[]).map_err(|_| missing())?;
    let opened = root.read(inside).map_err(|error| match error {
        beneath::Error::Missing(_) => missing(),
        other => words.read_failed(other),
    })?;
    let bytes = load::opened(opened.file, Path::new(path), MOST_BYTES);
    let bytes = bytes.map_err(|error| words.read_failed(error))?;
    String::from_utf8(bytes).map_err(|_| words.read_not_text())
}
