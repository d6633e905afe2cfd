//! The table of what history keeps, on any JSON. A field of the kind that a tool's row expects is
//! shortened by that row, whatever its name (lists of LS, lines of Read, a diff of Edit); anything
//! else keeps its head and tail, within a room that all such fields of one result share.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{compact, output};
use crate::id::ObservationId;
use crate::messages::Language;
use crate::text;

/// The longest line of a list, a diff or an output, in characters.
pub(super) const LINE: usize = 200;
/// Lines of source text may be longer: what is cut off cannot be edited.
const SOURCE_LINE: usize = 1_000;
/// 500 lines of ordinary width; a generated file ends earlier.
const SOURCE: usize = 100_000;
/// What the entries of a list may take together; far more than ordinary ones do.
const LIST: usize = 10_000;
/// What a row may take. The largest of our own, Bash, keeps 50 lines.
const ROW: usize = 20_000;
/// Any other field, in characters of JSON: whole up to here.
const WHOLE: usize = 4_000;
/// All such fields together.
const ROOM: usize = 8_000;
/// A value up to here is a name or a number, and stays.
const SHORT: usize = 200;
/// What stays of each end of a long text.
const END: usize = 1_000;
/// Names and values that are no flags; more of them are cut in the middle.
const KEYS: usize = 40;

enum Row {
    /// The first entries.
    First(usize),
    Read,
    Edit,
    Write,
    Bash,
    Recap,
    Other,
}

impl Row {
    /// Names as a model may write them, in any case.
    fn of(tool: &str) -> Row {
        match tool.to_ascii_lowercase().as_str() {
            "ls" | "glob" => Row::First(10),
            "grep" => Row::First(5),
            "read" => Row::Read,
            "edit" | "multiedit" => Row::Edit,
            "write" => Row::Write,
            "bash" => Row::Bash,
            "todowrite" => Row::Recap,
            _ => Row::Other,
        }
    }
}

/// The data that stays, and in words what does not.
pub(super) fn data(
    tool: &str,
    data: &Map<String, Value>,
    id: ObservationId,
    language: Language,
) -> (Map<String, Value>, Option<String>) {
    let mut row = Row::of(tool);
    // Without a recap there is nothing that the row could keep.
    if matches!(row, Row::Recap) && !data.contains_key("recap") {
        row = Row::Other;
    }
    let row_room = if matches!(row, Row::Read) { SOURCE } else { ROW };
    let is_cut = data.get("truncated").and_then(Value::as_bool) == Some(true);
    let cut = is_cut.then_some(id);
    let mut short = Shortener {
        language,
        cut,
        row,
        row_room,
        room: ROOM,
        notes: Vec::new(),
        added: Vec::new(),
    };
    let mut data = short.fields(data);
    for (key, value) in std::mem::take(&mut short.added) {
        data.entry(key).or_insert(value);
    }
    (data, short.omitted(id))
}

struct Shortener {
    language: Language,
    /// The result, if its tool left lines out.
    cut: Option<ObservationId>,
    row: Row,
    /// Left for fields that the row knows, in characters; the last may take more. Our own tools
    /// have one or two such fields.
    row_room: usize,
    /// Left for fields that the row does not know, in characters.
    room: usize,
    notes: Vec<String>,
    /// Fields that the data did not have.
    added: Vec<(String, Value)>,
}

impl Shortener {
    fn fields(&mut self, data: &Map<String, Value>) -> Map<String, Value> {
        let is_named = |key: &str, value: &Value| !value.is_boolean() && key.len() <= LINE;
        let named = data.iter().filter(|(key, value)| is_named(key, value)).count();
        let mut kept = Map::new();
        let (mut at, mut gone) = (0, 0);
        for (key, value) in data {
            if value.is_boolean() {
                kept.insert(key.clone(), value.clone());
                continue;
            }
            let in_reach = is_named(key, value) && {
                at += 1;
                named <= KEYS || at <= KEYS / 2 || at > named - KEYS / 2
            };
            if !in_reach {
                gone += 1;
            } else if let Some(value) = self.field(key, value) {
                kept.insert(key.clone(), value);
            }
        }
        if gone > 0 {
            self.notes.push(self.language.more_keys(gone));
        }
        kept
    }

    fn field(&mut self, key: &str, value: &Value) -> Option<Value> {
        if matches!(self.row, Row::Recap) && key != "recap" {
            self.note(key, self.language.left_out());
            return None;
        }
        if self.row_room == 0 {
            return Some(self.other(key, value));
        }
        let Some(short) = self.by_row(key, value) else { return Some(self.other(key, value)) };
        self.row_room = self.row_room.saturating_sub(measure(&short));
        Some(short)
    }

    /// As the table has it; none, where it has nothing for such a value.
    fn by_row(&mut self, key: &str, value: &Value) -> Option<Value> {
        let short = match (&self.row, value) {
            (Row::First(most), Value::Array(items)) => self.first(key, items, *most, LIST),
            (Row::Read, Value::Array(items)) => self.first(key, items, 500, SOURCE),
            (Row::Edit, Value::Array(items)) => self.first(key, items, 50, LIST),
            (Row::First(most), Value::String(raw)) if is_lines(raw) => {
                self.head(key, raw, Head { least: *most, most: *most, chars: 0, line: LINE })
            }
            (Row::Read, Value::String(raw)) if is_lines(raw) || raw.len() > SOURCE_LINE => {
                let head = Head { least: 1, most: 500, chars: SOURCE, line: SOURCE_LINE };
                self.head(key, raw, head)
            }
            // What is written may itself be a diff; only the field of that name is ours.
            (Row::Write, Value::String(raw)) if key == "diff" => self.diff(key, raw),
            (Row::Edit, Value::String(raw)) if is_diff(key, raw) => self.diff(key, raw),
            (Row::Write, Value::String(raw)) if is_lines(raw) => {
                self.head(key, raw, Head { least: 20, most: 50, chars: 4_000, line: LINE })
            }
            (Row::Bash, Value::String(raw)) if key.contains("err") => self.tail(key, raw),
            (Row::Bash, Value::String(raw)) if key.contains("out") || is_lines(raw) => {
                self.summary(key, raw)
            }
            _ => return None,
        };
        Some(short)
    }

    fn note(&mut self, key: &str, what: impl AsRef<str>) {
        self.notes.push(self.language.key_note(text::shown(key, 40), what.as_ref()));
    }

    fn first(&mut self, key: &str, items: &[Value], most: usize, mut room: usize) -> Value {
        let fits = |item: &Value| {
            let size = measure(item);
            let fits = size <= room;
            room -= size.min(room);
            fits
        };
        let kept: Vec<Value> = items.iter().take(most).map(item).take_while(fits).collect();
        let rest = &items[kept.len()..];
        if !rest.is_empty() {
            let files = rest.iter().filter_map(|item| item.get("file")?.as_str());
            let files = files.collect::<BTreeSet<_>>().len();
            self.note(
                key,
                match files {
                    0 | 1 => self.language.more_entries(rest.len()),
                    files => self.language.more_entries_in_files(rest.len(), files),
                },
            );
        } else if kept[..] != *items {
            self.note(key, self.language.long_lines_cut());
        }
        Value::Array(kept)
    }

    fn head(&mut self, key: &str, raw: &str, head: Head) -> Value {
        let lines: Vec<&str> = raw.lines().collect();
        let mut room = head.chars;
        let mut kept: Vec<String> = Vec::new();
        for line in lines.iter().take(head.most) {
            let line = cut_line(line, head.line);
            let length = line.chars().count() + 1;
            if kept.len() >= head.least && length > room {
                break;
            }
            room = room.saturating_sub(length);
            kept.push(line);
        }
        if kept.len() < lines.len() {
            self.note(key, self.language.more_lines(lines.len() - kept.len()));
        } else if kept.iter().zip(&lines).any(|(kept, line)| kept != line) {
            self.note(key, self.language.long_lines_cut());
        } else {
            return Value::String(raw.to_owned());
        }
        Value::String(kept.join("\n"))
    }

    fn summary(&mut self, key: &str, raw: &str) -> Value {
        let (short, note) = output::summary(raw, self.cut, self.language);
        if let Some(note) = note {
            self.note(key, note);
        }
        Value::String(short)
    }

    /// The end of an error output; of what went before it the lines that tell of faults, in a field
    /// of their own.
    fn tail(&mut self, key: &str, raw: &str) -> Value {
        let (short, note) = output::tail(raw, self.language);
        if let Some(note) = note {
            self.note(key, note);
        }
        if let Some(earlier) = output::earlier(raw) {
            self.added.push((format!("{key}_earlier"), Value::String(earlier)));
        }
        Value::String(short)
    }

    /// Up to 50 lines whole, or the changed lines alone; beyond, how much changed and where.
    fn diff(&mut self, key: &str, raw: &str) -> Value {
        const MOST: usize = 50;
        let lines: Vec<&str> = raw.lines().collect();
        if lines.len() <= MOST {
            return self.head(key, raw, Head { least: MOST, most: MOST, chars: 0, line: LINE });
        }
        let is_header = |line: &str| line.starts_with("+++ ") || line.starts_with("--- ");
        let is_hunk = |line: &str| line.starts_with("@@");
        let is_changed = |line: &str| line.starts_with(['+', '-']) && !is_header(line);
        let is_key = |line: &&&str| is_hunk(line) || is_changed(line);
        let kept: Vec<String> =
            lines.iter().filter(is_key).take(MOST + 1).map(|line| cut_line(line, LINE)).collect();
        if kept.len() <= MOST {
            let unchanged = lines.len() - kept.len();
            self.note(key, self.language.more_lines_unchanged(unchanged));
            return Value::String(kept.join("\n"));
        }
        let count = |mark: char| {
            let changed = lines.iter().filter(|line| is_changed(line) && line.starts_with(mark));
            changed.count()
        };
        let hunks: Vec<&str> = lines.iter().copied().filter(|line| is_hunk(line)).collect();
        let mut summary = format!(
            "[{} lines: {} added, {} removed in {} hunks]",
            lines.len(),
            count('+'),
            count('-'),
            hunks.len()
        );
        for hunk in hunks.iter().take(20) {
            summary.push('\n');
            summary.push_str(&cut_line(hunk, LINE));
        }
        self.note(key, self.language.left_out());
        Value::String(summary)
    }

    /// Head and tail.
    fn other(&mut self, key: &str, value: &Value) -> Value {
        let size = measure(value);
        if size <= SHORT {
            return value.clone();
        }
        let room = self.room.min(WHOLE);
        if size <= room {
            self.room -= size;
            return value.clone();
        }
        self.note(key, self.language.cut_in_the_middle());
        for ends in [Ends { text: END, items: 10 }, Ends { text: 100, items: 3 }] {
            let short = ends.of(value, 0);
            let size = measure(&short);
            if size <= room {
                self.room -= size;
                return short;
            }
        }
        let short = match value {
            Value::String(raw) => text::head_and_tail(raw, room / 8),
            value => text::head_and_tail(&compact(value), room / 8),
        };
        self.room -= short.chars().count().min(self.room);
        Value::String(short)
    }

    fn omitted(self, id: ObservationId) -> Option<String> {
        const MOST: usize = 8;
        let mut notes = self.notes;
        if notes.is_empty() {
            return None;
        }
        if notes.len() > MOST {
            let more = notes.split_off(MOST).len();
            notes.push(self.language.more_fields(more));
        }
        Some(self.language.recall_has_it(notes.join("; "), id))
    }
}

/// How much of the beginning of a text stays.
struct Head {
    /// Lines that stay however long they are.
    least: usize,
    most: usize,
    /// What the lines beyond the least may take.
    chars: usize,
    line: usize,
}

/// How much stays at each end of what is nested in a field.
#[derive(Clone, Copy)]
struct Ends {
    text: usize,
    items: usize,
}

impl Ends {
    fn of(self, value: &Value, depth: usize) -> Value {
        const DEEPEST: usize = 6;
        match value {
            Value::String(raw) => Value::String(text::head_and_tail(raw, self.text)),
            Value::Array(_) | Value::Object(_) if depth == DEEPEST => {
                Value::String(text::head_and_tail(&compact(value), SHORT / 2))
            }
            Value::Array(items) => {
                let gone = items.len().saturating_sub(2 * self.items);
                let (head, rest) = items.split_at(items.len().min(self.items));
                let mut kept: Vec<Value> = head.iter().map(|v| self.of(v, depth + 1)).collect();
                if gone > 0 {
                    kept.push(Value::String(format!("[... {gone} items omitted ...]")));
                }
                kept.extend(rest[gone..].iter().map(|v| self.of(v, depth + 1)));
                Value::Array(kept)
            }
            Value::Object(map) => {
                let gone = map.len().saturating_sub(2 * self.items);
                let mut kept = Map::new();
                for (at, (key, value)) in map.iter().enumerate() {
                    if gone > 0 && at == self.items {
                        kept.insert(format!("[... {gone} keys omitted ...]"), Value::Null);
                    }
                    if at < self.items || at >= self.items + gone {
                        kept.insert(key.clone(), self.of(value, depth + 1));
                    }
                }
                Value::Object(kept)
            }
            value => value.clone(),
        }
    }
}

/// An entry of a list: as it is, unless a text in it is longer than a line.
fn item(value: &Value) -> Value {
    const MOST: usize = 2_000;
    let short = match value {
        Value::String(raw) => return Value::String(cut_line(raw, LINE)),
        Value::Object(map) => {
            let cut = |(key, value): (&String, &Value)| match value {
                Value::String(raw) => (key.clone(), Value::String(cut_line(raw, LINE))),
                value => (key.clone(), value.clone()),
            };
            Value::Object(map.iter().map(cut).collect())
        }
        value => value.clone(),
    };
    match measure(&short) <= MOST {
        true => short,
        false => Value::String(text::head_and_tail(&compact(value), LINE)),
    }
}

/// In characters of JSON.
fn measure(value: &Value) -> usize {
    compact(value).chars().count()
}

fn is_lines(raw: &str) -> bool {
    raw.contains('\n')
}

fn is_diff(key: &str, raw: &str) -> bool {
    is_lines(raw) && (key == "diff" || raw.starts_with("@@ ") || raw.contains("\n@@ "))
}

/// A line of at most `max` characters; what was cut off is counted, and always longer than saying
/// so.
pub(super) fn cut_line(line: &str, max: usize) -> String {
    const SAID: usize = 32;
    let Some((_, rest)) = split_at_char(line, max).filter(|(_, rest)| !rest.is_empty()) else {
        return line.to_owned();
    };
    let keep = max.saturating_sub(SAID);
    let head = split_at_char(line, keep).map_or("", |(head, _)| head);
    format!("{head}… [+{} chars]", rest.chars().count() + max - keep)
}

/// Behind the first `count` characters, where there are so many.
fn split_at_char(raw: &str, count: usize) -> Option<(&str, &str)> {
    if count == 0 {
        return Some(("", raw));
    }
    let (at, c) = raw.char_indices().nth(count - 1)?;
    Some(raw.split_at(at + c.len_utf8()))
}
