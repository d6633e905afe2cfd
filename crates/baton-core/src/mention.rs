//! Files that a person mentions: `@src/lib.rs`, `@"my notes.md"`. Goes in: the message and a way to
//! ask whether a file exists. Comes out: the message with one reminder for each file, never the
//! file's content.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use crate::text;

/// So many files are named; the rest is counted.
pub const MOST: usize = 5;

/// The files that a message mentions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Mentions {
    /// In order, each once, as they were written.
    pub paths: Vec<String>,
    /// Beyond the first five.
    pub more: usize,
}

/// What a message mentions. `is_file` gets a relative path that does not lead out of the project
/// by its words; whether a link leads out is for it to see.
pub fn find(message: &str, mut is_file: impl FnMut(&str) -> bool) -> Mentions {
    let mut seen = BTreeSet::new();
    let mut found = Mentions::default();
    for path in candidates(message) {
        // `./a` and `a` are one file.
        let Some(plain) = inside(path) else { continue };
        if !seen.insert(plain) || !is_file(path) {
            continue;
        }
        if found.paths.len() < MOST {
            found.paths.push(path.to_owned());
        } else {
            found.more += 1;
        }
    }
    found
}

impl Mentions {
    /// One block a file, then how many are not named.
    pub fn blocks(&self) -> String {
        let mut out = String::new();
        for path in &self.paths {
            // Writing to a String cannot fail.
            let _ = write!(
                out,
                "<system-reminder>\n\
                 The user mentioned @{}.\n\
                 You MUST read this file with the Read tool before answering.\n\
                 </system-reminder>\n",
                written(path)
            );
        }
        if self.more > 0 {
            let _ = writeln!(out, "(and {} more…)", self.more);
        }
        out
    }

    /// The message with its blocks behind it, an empty line between; without mentions as it was.
    pub fn appended(&self, message: &str) -> String {
        if self.paths.is_empty() {
            return message.to_owned();
        }
        let space = match message {
            _ if message.is_empty() || message.ends_with("\n\n") => "",
            _ if message.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        format!("{message}{space}{}", self.blocks())
    }
}

/// Every path behind an `@`, in order, whatever it leads to.
fn candidates(message: &str) -> impl Iterator<Item = &str> {
    memchr::memchr_iter(b'@', message.as_bytes()).filter_map(|at| {
        // `name@host` is an address. A letter is a letter in every script.
        if message[..at].chars().next_back().is_some_and(char::is_alphanumeric) {
            return None;
        }
        let rest = &message[at + 1..];
        let path = match rest.strip_prefix('"') {
            Some(quoted) => quoted_path(quoted)?,
            None => {
                let end = rest.find(|c| !is_bare(c)).unwrap_or(rest.len());
                // The end of a sentence, not of a name.
                rest[..end].trim_end_matches('.')
            }
        };
        (!path.is_empty()).then_some(path)
    })
}

/// Up to the closing quote. A name that cannot be seen whole is no name to remind of.
fn quoted_path(quoted: &str) -> Option<&str> {
    // No file system has longer paths; a quote that is never closed is not looked for to the end.
    const LONGEST: usize = 4_096;
    let stops = |c: char| c == '"' || c.is_control() || text::is_invisible(c);
    let (end, stop) = quoted.char_indices().take(LONGEST).find(|(_, c)| stops(*c))?;
    (stop == '"').then(|| &quoted[..end])
}

fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-')
}

/// The path without `.`, `..` and doubled `/`, if it stays inside the project.
fn inside(path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// As a person would write it: in quotes, where it has to be.
fn written(path: &str) -> String {
    let is_plain = path.chars().all(is_bare) && !path.ends_with('.');
    if is_plain { path.to_owned() } else { format!("\"{path}\"") }
}
