//! The fact ledger: what code can tell of a span that leaves the conversation. Goes in: the items.
//! Comes out: files read and changed with their lines, commands and how they ended, errors, what was
//! defined, decisions, where the whole results are. It does not depend on anybody's summary.

use std::fmt::Write as _;

use indexmap::IndexMap;
use serde_json::Value;

use super::{Item, Seen, calls, flat, readable};
use crate::fact::{self, Class};
use crate::message::{Message, Part};
use crate::text;

/// What all spans that left the conversation told, the newest last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    /// Ranges of lines, as far as the results told them.
    read: IndexMap<String, Vec<String>>,
    changed: IndexMap<String, Vec<String>>,
    /// What was run, and how it ended.
    commands: IndexMap<String, String>,
    errors: IndexMap<String, ()>,
    names: IndexMap<String, ()>,
    decisions: IndexMap<String, ()>,
    /// The first and the last result that left.
    results: Option<(u32, u32)>,
}

/// What one line of the ledger may take, in characters.
const LINE: usize = 1_600;
/// Entries of a list that are told; the newest.
const ENTRIES: usize = 60;

impl Ledger {
    /// Takes in what leaves the conversation.
    pub fn add(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::User(_) => {}
                Item::Assistant(message) => self.said(message),
                Item::Observation(seen) => self.seen(seen),
            }
        }
    }

    fn said(&mut self, message: &Message) {
        for part in &message.parts {
            if let Part::Text { text } = part {
                for line in text.lines().filter(|line| is_decision(line)) {
                    renew(&mut self.decisions, text::shown(line.trim(), 200), ());
                }
            }
        }
        // What it wrote is defined now.
        for call in calls(message).filter(|call| call.name != "Bash") {
            for name in crate::fold::defined(&flat(&call.arguments)) {
                renew(&mut self.names, name.to_owned(), ());
            }
        }
    }

    fn seen(&mut self, seen: &Seen) {
        let id = seen.id.0;
        let (first, last) = self.results.unwrap_or((id, id));
        self.results = Some((first.min(id), last.max(id)));
        let data = &seen.envelope.data;
        let number = |key: &str| data.get(key).and_then(Value::as_u64);
        let file = data.get("file").and_then(Value::as_str);
        match seen.tool.to_ascii_lowercase().as_str() {
            "bash" => {
                let exit = data.get("exit").and_then(Value::as_i64);
                let end = match (exit, seen.is_error()) {
                    (Some(exit), _) => format!("exit {exit}"),
                    (None, true) => "failed".to_owned(),
                    (None, false) => "ended".to_owned(),
                };
                renew(&mut self.commands, text::shown(&seen.target, 100), end);
            }
            "read" => {
                let file = file.map(str::to_owned).or_else(|| seen.files.first().cloned());
                let range =
                    number("from").zip(number("to")).map(|(from, to)| format!("{from}-{to}"));
                if let Some(file) = file {
                    range_of(&mut self.read, file, range);
                }
            }
            "edit" | "multiedit" | "write" if !seen.is_error() => {
                let file = file.map(str::to_owned).or_else(|| seen.files.first().cloned());
                if let Some(file) = file {
                    let ranges = data.get("ranges").and_then(Value::as_array);
                    let ranges = ranges.into_iter().flatten().map(Value::to_string);
                    let range = ranges.collect::<Vec<_>>().join(" ");
                    range_of(&mut self.changed, file, Some(range).filter(|own| !own.is_empty()));
                }
            }
            _ => {}
        }
        if let Some(error) = &seen.envelope.error {
            renew(&mut self.errors, text::shown(&error.code, 60), ());
        }
        fact::each_word(&readable(&seen.envelope), |class, name| {
            let is_error = ["Error", "Exception", "panic"].iter().any(|word| name.contains(word));
            if class == Class::Identifier && is_error {
                renew(&mut self.errors, name.to_owned(), ());
            }
        });
        for name in crate::fold::defined(&readable(&seen.envelope)) {
            renew(&mut self.names, name.to_owned(), ());
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Ledger::default()
    }

    /// As the model sees it: one line a kind, the newest entries where not all fit.
    pub fn text(&self) -> String {
        let mut out = String::from("Facts, noted by code:\n");
        let ranged = |files: &IndexMap<String, Vec<String>>| {
            let entry = |(file, ranges): (&String, &Vec<String>)| match ranges.is_empty() {
                true => file.clone(),
                false => format!("{file} {}", ranges.join(",")),
            };
            files.iter().map(entry).collect::<Vec<_>>()
        };
        let names = |names: &IndexMap<String, ()>| names.keys().cloned().collect::<Vec<_>>();
        let commands = self.commands.iter().map(|(command, end)| format!("`{command}` {end}"));
        line(&mut out, "changed", &ranged(&self.changed), "; ");
        line(&mut out, "read", &ranged(&self.read), "; ");
        line(&mut out, "ran", &commands.collect::<Vec<_>>(), "; ");
        line(&mut out, "errors seen", &names(&self.errors), " ");
        line(&mut out, "decided", &names(&self.decisions), " | ");
        line(&mut out, "defined", &names(&self.names), " ");
        if let Some((first, last)) = self.results {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "- whole results: Recall brings back o{first} to o{last}");
        }
        out
    }
}

/// The newest that fit, in the order in which they came.
fn line(out: &mut String, name: &str, entries: &[String], between: &str) {
    let mut room = LINE;
    let fits = |entry: &&String| {
        let length = entry.chars().count() + between.len();
        let is_in = length <= room;
        room = room.saturating_sub(length);
        is_in
    };
    let newest: Vec<&String> = entries.iter().rev().take(ENTRIES).take_while(fits).collect();
    if newest.is_empty() {
        return;
    }
    let left = entries.len() - newest.len();
    let more = if left > 0 { format!("({left} earlier) ") } else { String::new() };
    let told: Vec<&str> = newest.into_iter().rev().map(String::as_str).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "- {name}: {more}{}", told.join(between));
}

/// What is told again is newest.
fn renew<T>(entries: &mut IndexMap<String, T>, key: String, value: T) {
    entries.shift_remove(&key);
    entries.insert(key, value);
    // Far more than is ever told; the rest would only be carried along.
    if entries.len() > 4 * ENTRIES {
        entries.shift_remove_index(0);
    }
}

fn range_of(files: &mut IndexMap<String, Vec<String>>, file: String, range: Option<String>) {
    let mut ranges = files.shift_remove(&file).unwrap_or_default();
    ranges.extend(range.filter(|range| !ranges.contains(range)));
    let start = ranges.len().saturating_sub(6);
    files.insert(file, ranges.split_off(start));
    if files.len() > 4 * ENTRIES {
        files.shift_remove_index(0);
    }
}

/// A line in which the agent says that it chose.
fn is_decision(line: &str) -> bool {
    const WORDS: [&str; 8] =
        ["decided", "decision", "instead of", "will not", "chose", "决定", "选择", "不再"];
    let lower = line.to_lowercase();
    (8..400).contains(&line.len()) && WORDS.iter().any(|word| lower.contains(word))
}
