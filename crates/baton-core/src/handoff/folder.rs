//! Whether the paths of a package are what they must be, and whether everything that they name is
//! there. What stands on the disk is asked through `Look`.

use super::package::{self, ExecuteToInit, LEAST_SUGGESTIONS, Package};
use super::{FAILURE_INDEX, FAILURE_SUMMARY, FOLDERS, MAX_INDEX_BYTES, PROBLEMS_REPORT};
use crate::document::NoKeyTwice;
use crate::problem::Problem;
use crate::text;

/// Longer than any that a person could want.
const MAX_PATH_BYTES: usize = 1_024;

/// What a path is counted from, and must stay in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    Root,
    /// The package's `execution_output_dir`.
    Output,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    File {
        bytes: u64,
    },
    Folder,
    Missing,
    /// A link on the way leads out of the base.
    Outside,
    Unreadable(String),
}

/// Answers for the disk.
pub trait Look {
    fn look(&self, base: Base, path: &str) -> Found;
}

/// A relative path that stays where it begins, whatever program reads it.
pub fn safe_path(field: &str, path: &str) -> Result<(), Problem> {
    let wrong = |code, what: &str| Err(Problem::new(code, format!("{field}: {what}")).found(path));
    let bytes = path.as_bytes();
    let has_drive = bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    if path.trim().is_empty() {
        return wrong("path-empty", "the path is empty");
    }
    if path.len() > MAX_PATH_BYTES {
        return wrong("path-long", "the path has more than 1,024 bytes");
    }
    if path.chars().any(|c| c.is_control() || text::is_invisible(c)) {
        return wrong("path-characters", "the path holds characters that nobody sees");
    }
    if path.starts_with(['/', '~']) || has_drive || path.contains("://") {
        return wrong("path-absolute", "the path is not relative");
    }
    if path.contains('\\') {
        return wrong("path-backslash", "the path holds a backslash; folders are parted by `/`");
    }
    if path.split('/').any(|part| part == "..") {
        return wrong("path-parent", "the path leads upwards by `..`");
    }
    if path != path.trim() {
        return wrong("path-characters", "the path begins or ends with a space");
    }
    Ok(())
}

/// Every file that a package names, and what its folder must hold; each problem with its field.
/// `problems` is how many problems the report holds, where it could be read.
pub fn check(
    package: &Package,
    look: &dyn Look,
    problems: Option<usize>,
) -> Vec<(String, Problem)> {
    let mut wrong = Vec::new();
    if let Package::ExecuteToInit(own) = package {
        if let Some(problem) = output_folder(own, look) {
            // Everything else would only say the same once more.
            return vec![("execution_output_dir".to_owned(), problem)];
        }
        wrong.extend(needed(look));
        wrong.extend(too_few(own, problems));
    }
    for (field, base, path) in package.paths() {
        let problem = match look.look(base, path) {
            Found::File { bytes: 0 } => Some(("file-empty", "the file is empty".to_owned())),
            Found::File { bytes } if field == "failure_index_path" && bytes > MAX_INDEX_BYTES => {
                let what =
                    format!("the index has {bytes} bytes, more than the {MAX_INDEX_BYTES} allowed");
                Some(("index-size", what))
            }
            Found::File { .. } => None,
            other => Some(other.problem()),
        };
        if let Some((code, what)) = problem {
            wrong.push((field.clone(), Problem::new(code, format!("{field}: {what}")).found(path)));
        }
    }
    wrong
}

impl Found {
    /// Why it is no file.
    fn problem(&self) -> (&'static str, String) {
        match self {
            Found::File { .. } => ("file-kind", "this is a file".to_owned()),
            Found::Folder => ("file-kind", "this is a folder".to_owned()),
            Found::Missing => ("file-missing", "this does not exist".to_owned()),
            Found::Outside => ("path-outside", "a link leads out of the folder".to_owned()),
            Found::Unreadable(why) => ("file-unreadable", format!("this cannot be read: {why}")),
        }
    }
}

fn output_folder(package: &ExecuteToInit, look: &dyn Look) -> Option<Problem> {
    let path = &package.execution_output_dir;
    let found = look.look(Base::Root, path);
    let (code, what) = match found {
        Found::Folder => return None,
        other => other.problem(),
    };
    let message = format!("execution_output_dir: {what}");
    Some(Problem::new(code, message).found(path).expected("the folder of an iteration"))
}

/// What an iteration leaves must all be there.
pub fn needed(look: &dyn Look) -> Vec<(String, Problem)> {
    let dir = "execution_output_dir";
    let mut wrong = Vec::new();
    let mut say = |name: &str, code, what: &str| {
        let expected = format!(
            "{}, `{FAILURE_SUMMARY}` and `{PROBLEMS_REPORT}` in it",
            crate::problem::list(&FOLDERS)
        );
        let problem = Problem::new(code, format!("{dir}: `{name}`: {what}")).expected(expected);
        wrong.push((dir.to_owned(), problem));
    };
    for name in FOLDERS {
        match look.look(Base::Output, name) {
            Found::Folder => {}
            other => {
                let (code, what) = other.problem();
                say(name, code, &what);
            }
        }
    }
    for name in [FAILURE_SUMMARY, PROBLEMS_REPORT] {
        match look.look(Base::Output, name) {
            Found::File { bytes: 0 } => say(name, "file-empty", "the file is empty"),
            Found::File { .. } => {}
            other => {
                let (code, what) = other.problem();
                say(name, code, &what);
            }
        }
    }
    wrong
}

fn too_few(package: &ExecuteToInit, problems: Option<usize>) -> Option<(String, Problem)> {
    let field = "modification_suggestions_summary";
    let count = package.modification_suggestions_summary.len();
    let due = problems?.min(LEAST_SUGGESTIONS);
    (count < due).then(|| {
        let message =
            format!("{field}: {count} suggestions for {} problems", problems.unwrap_or(0));
        let expected = format!("{due} to {}", package::MOST_SUGGESTIONS);
        (field.to_owned(), Problem::new("handoff-suggestions", message).expected(expected))
    })
}

/// A spilled index line by line: each a sample, none twice, as many as the package says.
pub fn check_index(lines: impl Iterator<Item = String>, total: u64) -> Vec<Problem> {
    let field = "failure_index_path";
    let mut wrong = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut count = 0u64;
    for line in lines.filter(|line| !line.trim().is_empty()) {
        count += 1;
        let read = serde_json::from_str::<NoKeyTwice>(&line)
            .and_then(|_| serde_json::from_str::<package::FailedSample>(&line));
        match read {
            Ok(sample) => {
                for (name, path) in sample.paths() {
                    wrong
                        .extend(safe_path(&format!("{FAILURE_INDEX}:{count}: {name}"), path).err());
                }
                if !seen.insert(blake3::hash(sample.sample_id.as_bytes()).as_bytes()[..16].to_vec())
                {
                    let message = format!("{field}: line {count}: the sample stands there twice");
                    wrong.push(Problem::new("sample-duplicate", message).found(&sample.sample_id));
                }
            }
            Err(error) => {
                let message = format!("{field}: line {count} is no entry of an index: {error}");
                wrong.push(Problem::new("index-line", message).found(&line));
            }
        }
        if wrong.len() > 20 {
            return wrong;
        }
    }
    if count != total {
        let message = format!("{field}: it holds {count} entries, the package says {total}");
        wrong.push(Problem::new("index-count", message));
    }
    wrong
}
