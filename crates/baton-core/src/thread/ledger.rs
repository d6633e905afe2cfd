//! The fact ledger: what code can tell of a span that leaves the conversation. Goes in: the items.
//! Comes out: files read and changed with their lines as they are now, commands and how they ended,
//! errors of what failed, what the agent defined and decided, and what each result was that Recall
//! brings back. It does not depend on anybody's summary.

use std::fmt::Write as _;

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::{Item, Seen, calls, same};
use crate::fact::{self, Class};
use crate::message::{Message, Part};
use crate::messages::Language;
use crate::observation;
use crate::text;

/// What all spans that left the conversation told, the newest last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    read: IndexMap<String, Vec<(u64, u64)>>,
    changed: IndexMap<String, Change>,
    /// Each command and how it ended, by the command or, for a script, by the result.
    commands: IndexMap<String, String>,
    errors: IndexSet<String>,
    names: IndexSet<String>,
    decisions: IndexSet<String>,
    /// The description of each result, by its id.
    results: IndexMap<String, String>,
}

/// The changes of a file.
#[derive(Debug, Clone, Default, PartialEq)]
struct Change {
    /// By edits, in the numbers that the lines have now.
    lines: Vec<(u64, u64)>,
    /// The changes whose lines are not known.
    how: IndexSet<How>,
}

/// The kind of change that a whole file had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum How {
    Written,
    ByCommand,
    Deleted,
}

/// The most characters of one line of the ledger,
const LINE: usize = 1_600;
/// the line that names the results,
const RESULTS: usize = 3_200;
/// and all of them.
const ALL: usize = 6 * LINE + RESULTS;
/// Entries of a list that are told; the newest.
const ENTRIES: usize = 60;
/// Ranges of lines that are told of one file.
const RANGES: usize = 8;

impl Ledger {
    /// Takes in what leaves the conversation.
    pub fn add(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::User(_) | Item::Note(_) => {}
                Item::Assistant(message) => self.said(message),
                Item::Observation(seen) => self.seen(seen),
            }
        }
    }

    fn said(&mut self, message: &Message) {
        for part in &message.parts {
            if let Part::Text { text } = part {
                for line in text.lines().flat_map(sentences).filter(|own| is_decision(own)) {
                    renew(&mut self.decisions, text::shown(line.trim(), 200));
                }
            }
        }
        // What it wrote is defined now, but for what it only left as it was.
        for call in calls(message).filter(|call| call.name != "Bash") {
            let text = |keys: [&str; 3], of_edit: [&str; 2]| {
                let own = keys.iter().filter_map(|key| call.arguments.get(*key)?.as_str());
                let edits = call.arguments.get("edits").and_then(Value::as_array);
                let edits = edits.into_iter().flatten();
                let edits = edits.filter_map(|edit| edit.get(of_edit[0]).or(edit.get(of_edit[1])));
                own.chain(edits.filter_map(Value::as_str)).collect::<Vec<_>>().join("\n")
            };
            let new = text(["new_string", "new", "content"], ["new_string", "new"]);
            let old = text(["old_string", "old", ""], ["old_string", "old"]);
            let old: IndexSet<&str> = crate::fold::defined(&old).into_iter().collect();
            for name in crate::fold::defined(&new).into_iter().filter(|own| !old.contains(own)) {
                renew(&mut self.names, name.to_owned());
            }
        }
    }

    fn seen(&mut self, seen: &Seen) {
        // What was written is in the file, and what was recalled is there under its first id.
        let is_worth = !["edit", "multiedit", "write", "todowrite", "recall"]
            .contains(&seen.tool.to_ascii_lowercase().as_str());
        if is_worth && !seen.is_error() {
            put(&mut self.results, seen.id.to_string(), text::shown(&seen.described(), 90));
        }
        match seen.tool.to_ascii_lowercase().as_str() {
            "bash" => {
                let command = text::shown(&seen.target, 100);
                // Scripts that are brought along begin alike.
                let key =
                    if command.ends_with('…') { seen.id.to_string() } else { command.clone() };
                put(&mut self.commands, key, format!("`{command}` {}", how_it_ended(seen)));
            }
            "read" if !seen.is_error() => self.was_read(seen),
            _ => {}
        }
        self.was_changed(seen);
        self.failed(seen);
    }

    fn was_read(&mut self, seen: &Seen) {
        let number = |key: &str| seen.envelope.data.get(key).and_then(Value::as_u64);
        let Some(file) = seen.file() else { return };
        let mut lines = self.read.shift_remove(file).unwrap_or_default();
        lines.extend(number("from").zip(number("to")));
        put(&mut self.read, file.to_owned(), merged(lines));
    }

    fn was_changed(&mut self, seen: &Seen) {
        for file in seen.changed() {
            self.results.values_mut().for_each(|what| grow_old(what, file, seen.language));
            let known = self.changed.keys().find(|own| same::is_same(own, file)).cloned();
            let file = known.unwrap_or_else(|| file.to_owned());
            let mut change = self.changed.shift_remove(&file).unwrap_or_default();
            let hunks = hunks(seen);
            match seen.tool.to_ascii_lowercase().as_str() {
                "write" => change = Change { lines: Vec::new(), how: [How::Written].into() },
                "bash" if seen.is_gone(file.as_str()) => {
                    change = Change { lines: Vec::new(), how: [How::Deleted].into() }
                }
                "bash" => drop(change.how.insert(How::ByCommand)),
                _ => change.lines = moved(change.lines, &hunks),
            }
            put(&mut self.changed, file, change);
        }
    }

    /// Errors are those of calls that failed; a word in a file is none.
    fn failed(&mut self, seen: &Seen) {
        if let Some(error) = &seen.envelope.error {
            let target = seen.file().unwrap_or(&seen.target);
            let target = text::shown(target, 60);
            let what = seen.language.failed_call(&error.code, &seen.tool, target);
            renew(&mut self.errors, text::shown(&what, 120));
        }
        let exit = seen.envelope.data.get("exit").and_then(Value::as_i64);
        if exit.is_none_or(|exit| exit == 0) {
            return;
        }
        let body = seen.body();
        fact::each_word(&body, |class, name| {
            let is_error = ["Error", "Exception"].iter().any(|end| name.ends_with(end));
            if class == Class::Identifier && is_error {
                renew(&mut self.errors, format!("{name} ({})", seen.id));
            }
        });
    }

    pub fn is_empty(&self) -> bool {
        *self == Ledger::default()
    }

    /// The text for the model, of about `most` characters: one line for each kind, the newest entries
    /// where not all fit.
    pub fn text(&self, most: usize, language: Language) -> String {
        let part = |line: usize| line.min(line * (most / 64) / (ALL / 64));
        let (lines, ids) = (part(LINE), part(RESULTS));
        let mut out = format!("{}\n", language.ledger_title());
        let with_lines = |file: &String, lines: &[(u64, u64)], how: &IndexSet<How>| {
            with_lines(file, lines, how, language)
        };
        let read = self.read.iter().map(|(file, lines)| with_lines(file, lines, &IndexSet::new()));
        let changed = self.changed.iter().map(|(file, own)| with_lines(file, &own.lines, &own.how));
        let mut line = |name: String, entries: &mut dyn Iterator<Item = String>, between, most| {
            line(&mut out, &name, entries, between, most, language);
        };
        let commands = self.commands.values().cloned();
        let results = self.results.iter().map(|(id, what)| format!("{id} {what}"));
        line(language.facts_files_changed(), &mut { changed }, "; ", lines);
        line(language.files_read(), &mut { read }, "; ", lines);
        line(language.commands(), &mut { commands }, "; ", lines);
        line(language.errors_of_calls(), &mut self.errors.iter().cloned(), "; ", lines);
        line(language.facts_decided(), &mut self.decisions.iter().cloned(), " | ", lines);
        line(language.defined(), &mut self.names.iter().cloned(), " ", lines);
        line(language.results_to_recall(), &mut { results }, " | ", ids);
        out
    }
}

/// A file with the lines that count.
fn with_lines(file: &str, lines: &[(u64, u64)], how: &IndexSet<How>, language: Language) -> String {
    let word = |how: &How| match how {
        How::Written => language.written_whole(),
        How::ByCommand => language.by_a_command(),
        How::Deleted => language.deleted(),
    };
    let mut told: Vec<String> = how.iter().map(word).collect();
    let range = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    told.extend(lines.iter().take(RANGES).map(range));
    if lines.len() > RANGES {
        told.push(language.more_places(lines.len() - RANGES));
    }
    if told.is_empty() { file.to_owned() } else { format!("{file} {}", told.join(",")) }
}

/// `exit 1: 2 failed, 10 passed`.
fn how_it_ended(seen: &Seen) -> String {
    let exit = seen.envelope.data.get("exit").and_then(Value::as_i64);
    let end = match (exit, &seen.envelope.error) {
        (Some(exit), _) => seen.language.exit(exit),
        (None, Some(error)) => text::shown(&error.code, 40),
        (None, None) => seen.language.ended(),
    };
    let stdout = seen.envelope.data.get("stdout").and_then(Value::as_str).unwrap_or_default();
    let whole = if stdout.trim().is_empty() { seen.body() } else { stdout.to_owned() };
    let numbered = seen.numbered(&whole).map(|lines| {
        let text = |line| fact::numbered(line).map_or(line, |(_, text)| text);
        lines.lines().map(text).collect::<Vec<_>>().join("\n")
    });
    match observation::outcome(&numbered.unwrap_or(whole)) {
        Some((line, true)) => seen.language.ended_with(end, text::shown(line.trim(), 100)),
        Some((line, false)) => {
            seen.language.ended_with_last_line(end, text::shown(line.trim(), 100))
        }
        None => end,
    }
}

/// A change: its first line now, and how many lines it took away and brought.
#[derive(Debug, Clone, Copy)]
struct Hunk {
    start: u64,
    removed: u64,
    added: u64,
}

fn hunks(seen: &Seen) -> Vec<Hunk> {
    let pairs = |key: &str| -> Vec<(u64, u64)> {
        let list = seen.envelope.data.get(key).and_then(Value::as_array);
        let pair = |own: &Value| Some((own.get(0)?.as_u64()?, own.get(1)?.as_u64()?));
        list.into_iter().flatten().filter_map(pair).collect()
    };
    let (ranges, sizes) = (pairs("ranges"), pairs("sizes"));
    let hunk = |(at, (first, last)): (usize, (u64, u64))| {
        let (removed, added) =
            sizes.get(at).copied().unwrap_or((last - first + 1, last - first + 1));
        Hunk { start: first, removed, added }
    };
    ranges.into_iter().enumerate().filter(|(_, (first, last))| first <= last).map(hunk).collect()
}

/// These lines where they are after the changes, with the lines that were changed.
fn moved(lines: Vec<(u64, u64)>, hunks: &[Hunk]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = lines.into_iter().map(|own| move_range(own, hunks)).collect();
    all.extend(
        hunks.iter().map(|hunk| (hunk.start.max(1), hunk.start.max(1) + hunk.added.max(1) - 1)),
    );
    merged(all)
}

fn move_range((first, last): (u64, u64), hunks: &[Hunk]) -> (u64, u64) {
    let (first, last) = (move_line(first, hunks), move_line(last, hunks));
    (first, last.max(first))
}

fn move_line(line: u64, hunks: &[Hunk]) -> u64 {
    let (mut taken, mut brought) = (0u64, 0u64);
    for hunk in hunks {
        // Where the change began before the changes above it.
        let start = hunk.start.saturating_add(taken).saturating_sub(brought);
        if start.saturating_add(hunk.removed) > line {
            break;
        }
        (taken, brought) = (taken + hunk.removed, brought + hunk.added);
    }
    line.saturating_add(brought).saturating_sub(taken).max(1)
}

/// In their order, what touches joined.
fn merged(mut lines: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    lines.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (first, last) in lines {
        match out.last_mut() {
            Some(own) if first <= own.1.saturating_add(1) => own.1 = own.1.max(last),
            _ => out.push((first, last)),
        }
    }
    out
}

/// The newest that fit, in the order in which they came.
fn line(
    out: &mut String,
    name: &str,
    entries: &mut dyn Iterator<Item = String>,
    between: &str,
    most: usize,
    language: Language,
) {
    let entries: Vec<String> = entries.collect();
    let mut room = most;
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
    let more = if left > 0 { language.earlier_entries(left) } else { String::new() };
    let told: Vec<&str> = newest.into_iter().rev().map(String::as_str).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "- {name}: {more}{}", told.join(between));
}

/// Marks a reading of this file.
fn grow_old(what: &mut String, file: &str, language: Language) {
    let old = format!("; {}", language.old_text());
    let read = what.strip_prefix("Read ").and_then(|rest| rest.split_once(": "));
    if read.is_some_and(|(name, _)| same::is_same(name, file)) && !what.ends_with(&old) {
        what.push_str(&old);
    }
}

/// Far more than is ever told; the rest would only be carried along.
const CARRIED: usize = 4 * ENTRIES;

/// What is told again is newest.
fn renew(entries: &mut IndexSet<String>, entry: String) {
    entries.shift_remove(&entry);
    entries.insert(entry);
    if entries.len() > CARRIED {
        entries.shift_remove_index(0);
    }
}

fn put<T>(entries: &mut IndexMap<String, T>, key: String, value: T) {
    entries.shift_remove(&key);
    entries.insert(key, value);
    if entries.len() > CARRIED {
        entries.shift_remove_index(0);
    }
}

fn sentences(line: &str) -> impl Iterator<Item = &str> {
    line.split_inclusive(['。', '！', '？']).flat_map(|part| part.split_inclusive(". "))
}

/// A sentence in which the agent says that it chose.
fn is_decision(sentence: &str) -> bool {
    const WORDS: [&str; 8] =
        ["decided", "decision", "instead of", "will not", "chose", "决定", "选择", "不再"];
    let lower = sentence.to_lowercase();
    let is_data = sentence.trim_start().starts_with(['{', '[', '"', '|']);
    (8..400).contains(&sentence.len()) && !is_data && WORDS.iter().any(|word| lower.contains(word))
}
