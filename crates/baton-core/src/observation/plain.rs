//! A result as the model reads it: one header line, then the text itself. Goes in: an envelope. Comes
//! out: plain text, nothing in it escaped or said twice. What our tools answer has a form of its own;
//! anything else is shown key by key.

use serde_json::{Map, Value};

use super::{Envelope, Status};
use crate::id::ObservationId;
use crate::messages::Language;
use crate::messages::results::Thing;
use crate::text;

/// A result in two parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plain {
    /// The description of the result, in one line: `Read src/a.rs: lines 1-40 of 120`.
    pub title: String,
    pub body: String,
}

impl Plain {
    /// The text that is sent.
    pub fn text(&self, id: ObservationId) -> String {
        let Plain { title, body } = self;
        match body.is_empty() {
            true => format!("[{id}] {title}"),
            false => format!("[{id}] {title}\n{body}"),
        }
    }
}

/// Characters of a target in a title.
const TARGET: usize = 200;
/// Changed files or lines that a title names.
const NAMED: usize = 12;

/// A result of this tool.
pub fn plain(tool: &str, envelope: &Envelope, language: Language) -> Plain {
    let data = Data { fields: &envelope.data, language };
    let (target, facts, body) = match tool.to_ascii_lowercase().as_str() {
        "read" => read(data),
        "ls" => listing(data),
        "glob" => glob(data),
        "grep" => grep(data),
        "edit" | "multiedit" => edit(data),
        "write" => written(data),
        "bash" => bash(data),
        // The list is at the end of every request.
        "todowrite" => (String::new(), Vec::new(), Some(String::new())),
        "recall" => recall(data),
        _ => (String::new(), Vec::new(), None),
    };
    let body = body.unwrap_or_else(|| data.text());
    let mut facts = facts;
    if let Some(error) = &envelope.error {
        facts.insert(0, language.result_error(&error.code, &error.message));
    } else if facts.is_empty() {
        facts.push(match envelope.status {
            Status::Error => language.result_failed(),
            Status::Success | Status::Partial => language.result_ok(),
        });
    }
    facts.extend(Some(envelope.text.clone()).filter(|text| !text.is_empty()));
    if envelope.stub_of.is_some() && envelope.omitted.is_some() {
        let not_all = language.not_all();
        facts.iter_mut().for_each(|fact| *fact = fact.replace(&not_all, ""));
        facts.push(language.shortened());
    }
    facts.extend(envelope.omitted.clone());
    let target = if target.is_empty() { target } else { format!(" {target}") };
    let title = format!("{}{target}: {}", text::shown(tool, 40), facts.join("; "));
    Plain { title, body }
}

type Parts = (String, Vec<String>, Option<String>);

/// The data of a result, asked for by name.
#[derive(Clone, Copy)]
struct Data<'a> {
    fields: &'a Map<String, Value>,
    language: Language,
}

impl<'a> Data<'a> {
    fn str(self, key: &str) -> Option<&'a str> {
        self.fields.get(key)?.as_str()
    }

    fn number(self, key: &str) -> Option<u64> {
        self.fields.get(key)?.as_u64()
    }

    fn is(self, key: &str) -> bool {
        self.fields.get(key).and_then(Value::as_bool) == Some(true)
    }

    fn list(self, key: &str) -> Option<&'a [Value]> {
        Some(self.fields.get(key)?.as_array()?.as_slice())
    }

    /// A short value, as a title has it.
    fn shown(self, key: &str) -> String {
        self.str(key).map_or(String::new(), |own| text::shown(own, TARGET))
    }

    /// All of it: a single text as it is, else key by key.
    fn text(self) -> String {
        if let [only] = self.fields.values().collect::<Vec<_>>().as_slice()
            && let Value::String(text) = only
        {
            return text.clone();
        }
        let mut out = String::new();
        for (key, value) in self.fields {
            match value {
                Value::String(text) if text.contains('\n') => {
                    out.push_str(&format!("{key}:\n{}\n", text.trim_end()));
                }
                Value::String(text) => out.push_str(&format!("{key}: {text}\n")),
                other => out.push_str(&format!("{key}: {other}\n")),
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}

fn read(data: Data<'_>) -> Parts {
    let Some(content) = data.str("content") else { return (data.shown("file"), Vec::new(), None) };
    let mut facts = Vec::new();
    if let (Some(from), Some(to), Some(total)) =
        (data.number("from"), data.number("to"), data.number("total"))
    {
        facts.push(match total {
            0 => data.language.file_is_empty(),
            total => data.language.lines_of_total(from, to, total),
        });
    }
    facts.extend(data.str("note").map(str::to_owned));
    (data.shown("file"), facts, Some(content.to_owned()))
}

fn listing(data: Data<'_>) -> Parts {
    let Some(entries) = data.list("entries") else { return (data.shown("path"), Vec::new(), None) };
    let (folders, files) = (data.number("folders"), data.number("files"));
    let language = data.language;
    let mut facts = vec![language.folders_and_files(
        language.counted(folders.unwrap_or(0), Thing::Folder),
        language.counted(files.unwrap_or(0), Thing::File),
    )];
    let all = folders.unwrap_or(0) + files.unwrap_or(0);
    first_of(data.language, &mut facts, entries.len(), all);
    let line = |entry: &Value| {
        let name = entry["name"].as_str().unwrap_or_default();
        match (entry["kind"].as_str(), entry["size"].as_u64()) {
            (Some("folder"), _) => format!("{name}/"),
            (Some("link"), _) => language.link(name),
            (_, Some(size)) => language.with_size(name, size),
            _ => name.to_owned(),
        }
    };
    let lines: Vec<String> = entries.iter().map(line).collect();
    (data.shown("path"), facts, Some(lines.join("\n")))
}

fn glob(data: Data<'_>) -> Parts {
    let Some(paths) = data.list("paths") else { return (data.shown("pattern"), Vec::new(), None) };
    let hits = data.number("hits").unwrap_or(0);
    let mut facts = vec![data.language.counted(hits, Thing::File)];
    first_of(data.language, &mut facts, paths.len(), hits);
    let lines: Vec<&str> = paths.iter().filter_map(Value::as_str).collect();
    (searched(data), facts, Some(lines.join("\n")))
}

/// The name of a file is shown once, above its lines.
fn grep(data: Data<'_>) -> Parts {
    let Some(matches) = data.list("matches") else {
        return (data.shown("pattern"), Vec::new(), None);
    };
    let hits = data.number("hits").unwrap_or(0);
    let language = data.language;
    let files = language.counted(data.number("files").unwrap_or(0), Thing::File);
    let mut facts = vec![language.matches_in_files(language.counted(hits, Thing::Match), files)];
    first_of(data.language, &mut facts, matches.len(), hits);
    if (matches.len() as u64) < hits {
        facts.push(language.narrower_search());
    }
    let mut body = String::new();
    let mut last = None;
    for own in matches {
        let file = own["file"].as_str().unwrap_or_default();
        if last != Some(file) {
            body.push_str(&format!("{file}\n"));
            last = Some(file);
        }
        let text = own["text"].as_str().unwrap_or_default();
        body.push_str(&format!("{}:{text}\n", own["line"].as_u64().unwrap_or(0)));
    }
    body.truncate(body.trim_end_matches('\n').len());
    (searched(data), facts, Some(body))
}

/// The pattern of a search, and where it looked.
fn searched(data: Data<'_>) -> String {
    let named = |key: &str| Some(data.shown(key)).filter(|own| !own.is_empty());
    let place = named("path").map(|path| data.language.searched_in(path));
    let only = named("glob").map(|glob| data.language.searched_only(glob));
    [Some(data.shown("pattern")), place, only].into_iter().flatten().collect()
}

/// The places and the lines around them. What was written is in the call.
fn edit(data: Data<'_>) -> Parts {
    let Ranges { changed, removed } = ranges(data);
    let is_none = changed.is_empty() && removed.is_empty();
    let Some(diff) = data.str("diff").filter(|_| !is_none) else {
        return (data.shown("file"), Vec::new(), None);
    };
    let mut facts = Vec::new();
    if !changed.is_empty() {
        facts.push(data.language.changed_lines(named(data.language, &changed)));
    }
    if !removed.is_empty() {
        facts.push(named(data.language, &removed));
    }
    (data.shown("file"), facts, Some(around(data.language, diff)))
}

/// The places of an edit, in the numbers that the lines have now.
#[derive(Default)]
struct Ranges {
    /// `12`, `30-31`
    changed: Vec<String>,
    /// `5 lines removed after 40`
    removed: Vec<String>,
}

fn ranges(data: Data<'_>) -> Ranges {
    let sizes = data.list("sizes").unwrap_or_default();
    let mut ranges = Ranges::default();
    for (at, own) in data.list("ranges").unwrap_or_default().iter().enumerate() {
        let of = |pair: Option<&Value>| {
            let pair = pair?;
            Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_u64()?))
        };
        let Some((first, last)) = of(Some(own)) else { continue };
        match of(sizes.get(at)) {
            Some((gone, 0)) => {
                let lines = data.language.counted(gone, Thing::Line);
                ranges.removed.push(match first {
                    0 => data.language.removed_at_beginning(lines),
                    first => data.language.removed_after(lines, first),
                });
            }
            _ if first == last => ranges.changed.push(first.to_string()),
            _ => ranges.changed.push(format!("{first}-{last}")),
        }
    }
    ranges
}

/// The unchanged lines of a unified difference with their numbers, and where the changed ones are.
fn around(language: Language, diff: &str) -> String {
    let mut out = String::new();
    let mut number = 0;
    let mut added: Option<(u64, u64)> = None;
    let mut removed = 0;
    let close = |out: &mut String, added: &mut Option<(u64, u64)>, removed: &mut u64| match (
        added.take(),
        std::mem::take(removed),
    ) {
        (Some((first, last)), _) if first == last => {
            out.push_str(&language.line_as_written(first));
            out.push('\n');
        }
        (Some((first, last)), _) => {
            out.push_str(&language.lines_as_written(first, last));
            out.push('\n');
        }
        (None, 0) => {}
        (None, removed) => {
            out.push_str(&language.removed_here(language.counted(removed, Thing::Line)));
            out.push('\n');
        }
    };
    for line in diff.lines() {
        if let Some(hunk) = line.strip_prefix("@@ ") {
            close(&mut out, &mut added, &mut removed);
            if !out.is_empty() {
                out.push_str("..\n");
            }
            let start = hunk.split_once('+').and_then(|(_, new)| new.split([',', ' ']).next());
            number = start.and_then(|start| start.parse().ok()).unwrap_or(0);
        } else if number == 0 || line.starts_with('\\') {
            // The names of the files, or a word on the last line feed.
        } else if line.starts_with('+') {
            added = Some((added.map_or(number, |(first, _)| first), number));
            number += 1;
        } else if line.starts_with('-') {
            removed += 1;
        } else {
            close(&mut out, &mut added, &mut removed);
            out.push_str(&format!("{number}\t{}\n", line.strip_prefix(' ').unwrap_or(line)));
            number += 1;
        }
    }
    close(&mut out, &mut added, &mut removed);
    out.truncate(out.trim_end_matches('\n').len());
    out
}

fn written(data: Data<'_>) -> Parts {
    let (Some(lines), Some(bytes)) = (data.number("lines"), data.number("bytes")) else {
        return (data.shown("file"), Vec::new(), None);
    };
    let lines = data.language.counted(lines, Thing::Line);
    let facts = vec![if data.is("created") {
        data.language.created(lines, bytes)
    } else {
        data.language.overwritten(lines, bytes)
    }];
    (data.shown("file"), facts, Some(String::new()))
}

fn bash(data: Data<'_>) -> Parts {
    let Some(stdout) = data.str("stdout") else { return (String::new(), Vec::new(), None) };
    let stderr = data.str("stderr").unwrap_or_default();
    let mut facts: Vec<String> = Vec::new();
    let language = data.language;
    let is_silent = stdout.is_empty() && stderr.is_empty();
    let exit = data.fields.get("exit").and_then(Value::as_i64);
    facts.extend(
        exit.map(|code| if is_silent { language.exit_silent(code) } else { language.exit(code) }),
    );
    if let Some(lines) = data.number("lines").filter(|_| data.is("truncated")) {
        facts.push(format!("{}{}", language.lines_of_output(lines), language.not_all()));
    }
    facts.extend(touched(data));
    let mut body = stdout.to_owned();
    let earlier = data.str("stderr_earlier").unwrap_or_default();
    let marks = [(language.stderr_earlier(), earlier), ("--- stderr".to_owned(), stderr)];
    for (mark, text) in marks {
        if !text.is_empty() {
            let feed = if body.is_empty() || body.ends_with('\n') { "" } else { "\n" };
            body.push_str(&format!("{feed}{mark}\n{text}"));
        }
    }
    (String::new(), facts, Some(body))
}

/// The effect of a command on files: `it changed a.py; created b.py; deleted c.py`.
fn touched(data: Data<'_>) -> Option<String> {
    let names = |key: &str| -> Vec<String> {
        let list = data.list(key).unwrap_or_default().iter().filter_map(Value::as_str);
        list.map(|own| text::shown(own, TARGET)).collect()
    };
    let (created, deleted) = (names("created"), names("deleted"));
    let mut changed = names("changed");
    changed.retain(|own| !created.contains(own) && !deleted.contains(own));
    let by_tools = data.number("changed_by_tools").unwrap_or(0);
    let language = data.language;
    let mut told = Vec::new();
    let mut tell = |names: &[String], message: fn(Language, String) -> String| {
        if !names.is_empty() {
            told.push(message(language, named(language, names)));
        }
    };
    tell(&changed, Language::command_changed);
    tell(&created, Language::command_created);
    tell(&deleted, Language::command_deleted);
    if by_tools > 0 && !told.is_empty() {
        told.push(language.command_touched(language.counted(by_tools, Thing::File)));
    }
    (!told.is_empty()).then(|| language.command_did(told.join("; ")))
}

fn recall(data: Data<'_>) -> Parts {
    let Some(content) = data.str("content") else { return (data.shown("id"), Vec::new(), None) };
    let of = data.str("of").or(data.str("tool")).unwrap_or_default();
    let target = format!("{} ({})", data.shown("id"), text::shown(of, TARGET));
    let mut facts = Vec::new();
    if let (Some(from), Some(to)) = (data.number("from"), data.number("to")) {
        facts.push(data.language.line_range(from, to));
    }
    (target, facts, Some(content.to_owned()))
}

/// The first few, and how many more.
fn named(language: Language, all: &[String]) -> String {
    let first = language.list(&all[..all.len().min(NAMED)]);
    match all.len().saturating_sub(NAMED) {
        0 => first,
        more => language.and_more_entries(first, more),
    }
}

fn first_of(language: Language, facts: &mut Vec<String>, shown: usize, all: u64) {
    if (shown as u64) < all {
        facts.push(match shown {
            0 => language.none_shown(),
            shown => language.first_shown(shown),
        });
    }
}
