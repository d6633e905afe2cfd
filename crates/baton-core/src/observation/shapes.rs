//! What our own tools put into `data`. One definition for the tool that fills it in and for the
//! compression that shortens it. Flat: a reader should see at once what a key holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::Mtime;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ls {
    pub path: String,
    /// Both counts are of the whole folder, also where `entries` is not.
    pub files: u64,
    pub folders: u64,
    pub entries: Vec<Entry>,
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub name: String,
    pub kind: Kind,
    /// In bytes, of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    File,
    Folder,
    Link,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Glob {
    pub pattern: String,
    /// The folder, where it is not the whole project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub hits: u64,
    pub paths: Vec<String>,
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grep {
    pub pattern: String,
    /// The file or folder, where it is not the whole project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Only files like these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    pub hits: u64,
    /// In how many files.
    pub files: u64,
    pub matches: Vec<Match>,
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Match {
    pub file: String,
    pub line: u64,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Read {
    pub file: String,
    /// The first and the last line that `content` holds, from 1.
    pub from: u64,
    pub to: u64,
    /// Lines of the file.
    pub total: u64,
    pub mtime: Mtime,
    /// That somebody else changed the file since it was last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Lines, each with its number.
    pub content: String,
    pub truncated: bool,
}

/// Of Edit and of MultiEdit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edit {
    pub file: String,
    /// First and last line of each change, as the file is now.
    pub ranges: Vec<[u64; 2]>,
    /// The number of lines that each change removed and added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<[u64; 2]>,
    /// Unified.
    pub diff: String,
    pub applied: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Write {
    pub file: String,
    /// Otherwise there was one, and it was overwritten.
    pub created: bool,
    pub lines: u64,
    pub bytes: u64,
    pub mtime: Mtime,
    /// The first lines.
    pub head: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bash {
    /// None where a signal or the time limit ended it.
    pub exit: Option<i32>,
    pub stdout: String,
    /// What nearly no result has is not in every one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Lines are left out of `stdout`, which then has both streams in the order in which they came.
    pub truncated: bool,
    /// Lines of the whole output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// Files of the project that are not as they were before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Those of them that were not there before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<String>,
    /// Those of them that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// The number of other files: caches and products of builds and tests.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changed_by_tools: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TodoWrite {
    pub todos: Vec<Todo>,
    /// What is to do now, in a few lines.
    pub recap: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    pub content: String,
    pub status: TodoStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recall {
    pub id: String,
    /// The description of that result.
    pub of: String,
    /// The file, where it was a reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The lines of it that `content` holds, in its own numbers.
    pub from: u64,
    pub to: u64,
    /// Its last line.
    pub total: u64,
    pub content: String,
    pub truncated: bool,
    /// The file was changed since it was read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_past: bool,
}
