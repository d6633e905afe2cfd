//! What Baton itself says to models and users, in every language side by side. A text that a prompt
//! or the terminal shows is written here, so that nothing is in one language only: the compiler
//! checks that both texts use the same arguments, and a test that neither holds words of the other.
//!
//! `Language` has one method per message: `language.changed_after(&files)`. Key words of the
//! protocol (agents, verdicts, keys of a decision, names of tools and files) are the same in every
//! language and are passed as arguments or written in code marks.

use serde::{Deserialize, Serialize};

/// The language of a pack's prompts and of what Baton says about a run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    #[default]
    English,
    Chinese,
}

impl Language {
    /// The language of a pack (`en`, `zh`, `zh-tw`). Other languages get English messages.
    pub fn of(code: &str) -> Language {
        match code.split(['-', '_']).next() {
            Some("zh") => Language::Chinese,
            _ => Language::English,
        }
    }

    /// The items of a list in a sentence: `a, b`, or `a、b`.
    pub fn list<S: AsRef<str>>(self, items: &[S]) -> String {
        let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
        match self {
            Language::English => items.join(", "),
            Language::Chinese => items.join("、"),
        }
    }

    /// Longer items in one line: `a; b`, or `a；b`.
    pub fn clauses<S: AsRef<str>>(self, items: &[S]) -> String {
        let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
        match self {
            Language::English => items.join("; "),
            Language::Chinese => items.join("；"),
        }
    }

    /// A number of files.
    pub fn files(self, count: usize) -> String {
        match count {
            1 => self.one_file(),
            _ => self.several_files(count),
        }
    }

    /// Files that are not listed, after those that are.
    pub fn more_files(self, count: usize) -> String {
        match count {
            1 => self.one_more_file(),
            _ => self.several_more_files(count),
        }
    }
}

/// A message as it is written in the table, for the tests of the table.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub english: &'static str,
    pub chinese: &'static str,
}

/// Makes a method of `Language` for each line `name(arguments): "English", "Chinese";`. The texts
/// are format strings that name their arguments: `{files}`. `TABLE` has all of them, for tests.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident ( $($arg:ident),* ) : $english:literal , $chinese:literal ;)*) => {
        impl crate::messages::Language {
            $(
                $(#[$doc])*
                pub fn $name(self $(, $arg: impl std::fmt::Display)*) -> String {
                    match self {
                        crate::messages::Language::English => format!($english),
                        crate::messages::Language::Chinese => format!($chinese),
                    }
                }
            )*
        }

        pub const TABLE: &[crate::messages::Entry] = &[
            $(crate::messages::Entry {
                name: stringify!($name),
                english: $english,
                chinese: $chinese,
            },)*
        ];
    };
}

pub mod agent;
pub mod compaction;
mod localized;
pub mod pack;
pub mod prompt;
pub mod refusals;
pub mod results;
pub mod rules;
pub mod terminal;
pub mod tools;
pub mod workflow;

pub use localized::LocalizedText;

/// Every message of the table.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    let tables = [
        prompt::TABLE,
        rules::TABLE,
        refusals::TABLE,
        agent::TABLE,
        pack::TABLE,
        compaction::TABLE,
        results::TABLE,
        tools::TABLE,
        terminal::TABLE,
        workflow::TABLE,
    ];
    tables.into_iter().flatten()
}
