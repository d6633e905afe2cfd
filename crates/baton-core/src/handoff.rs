//! What two agents with very different windows hand to each other: paths and indexes of a few
//! thousand tokens, never the thing itself. `package` (text ↔ the two packages), `folder` (whether
//! everything that a package names is there), `budget` (what does not fit goes into files beside it),
//! `make` (an iteration's summary and problems → a package), `reading` (a package → what to read of
//! its files, in which order, cut how).

pub mod budget;
pub mod folder;
pub mod make;
pub mod package;
pub mod reading;

use serde::de::DeserializeOwned;

use crate::document::{self, Document, NoKeyTwice};
use crate::problem::{Place, Problem};

/// The folders that an iteration leaves.
pub const FOLDERS: [&str; 4] =
    ["samples", "execution_traces", "evaluation_results", "attribution_analysis"];
pub const FAILURE_SUMMARY: &str = "failure_summary.json";
pub const PROBLEMS_REPORT: &str = "layer1_problems_report.json";
/// The whole index, an entry a line, where the package cannot hold it.
pub const FAILURE_INDEX: &str = "failure_index.jsonl";
/// Where texts go that a package cannot hold.
pub const BESIDE: &str = "handoffs";

/// A summary of a hundred thousand failures has 30 MB.
pub const MAX_SUMMARY_BYTES: u64 = 64 << 20;
/// An index of as many has 45 MB.
pub const MAX_INDEX_BYTES: u64 = 64 << 20;

/// A document that may be long: one of an ordinary size is read with exact places and nearest words,
/// a longer one by a reader that makes no tree.
pub fn read_long<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    if text.len() <= document::MAX_BYTES {
        return Document::json(text)?.read();
    }
    let read = serde_json::from_str::<NoKeyTwice>(text).and_then(|_| serde_json::from_str(text));
    read.map_err(|error| {
        let whole = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).max(1);
        let message = error.to_string();
        let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
        Problem::new("document-unreadable", format!("this cannot be read: {what}"))
            .at(Place { line: whole(error.line()), column: whole(error.column()) })
    })
}
