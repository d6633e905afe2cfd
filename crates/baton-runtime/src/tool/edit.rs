//! Edit, MultiEdit and Write. A file that somebody else changed since it was read is not touched.

use std::io::Read as _;
use std::time::Duration;

use baton_core::id::Mtime;
use baton_core::messages::Language;
use baton_core::observation::shapes::{Edit, Write};
use baton_core::observation::{Envelope, Status};
use baton_core::text;
use baton_core::turn::Offered;
use serde::Deserialize;
use serde_json::json;
use similar::{ChangeTag, TextDiff};

use super::{Done, Refusal, Workshop, offer, refused};

/// A larger file is not edited.
const FILE: u64 = 16 << 20;
/// Edits of one call.
const EDITS: usize = 500;
/// How long differences are looked for; then what is found so far must do.
const LOOK: Duration = Duration::from_millis(500);
/// Places that an error names.
const NAMED: usize = 5;
/// Changed places that the result names.
const RANGES: usize = 200;
/// Lines of a new file that the result shows.
const HEAD: usize = 20;
/// Bytes of a difference that the result shows.
const DIFF: usize = 24 << 10;

pub(super) fn offers(language: Language) -> Vec<Offered> {
    let old = json!({ "type": "string", "description": language.edit_old() });
    let (new, all) = (json!({ "type": "string" }), json!({ "type": "boolean" }));
    let one = json!({
        "path": { "type": "string" },
        "old_string": old,
        "new_string": new,
        "replace_all": all,
    });
    let several = json!({
        "path": { "type": "string" },
        "edits": { "type": "array", "items": {
            "type": "object",
            "properties": { "old_string": old, "new_string": new, "replace_all": all },
            "required": ["old_string", "new_string"],
            "additionalProperties": false,
        } },
    });
    let whole = json!({ "path": { "type": "string" }, "content": { "type": "string" } });
    vec![
        offer("Edit", language.edit_tool(), one, &["path", "old_string", "new_string"]),
        offer("MultiEdit", language.multi_edit_tool(), several, &["path", "edits"]),
        offer("Write", language.write_tool(), whole, &["path", "content"]),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EditArgs {
    #[serde(alias = "file_path", alias = "file")]
    path: String,
    #[serde(alias = "old")]
    old_string: String,
    #[serde(alias = "new")]
    new_string: String,
    #[serde(default, alias = "all")]
    replace_all: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replacement {
    #[serde(alias = "old")]
    old_string: String,
    #[serde(alias = "new")]
    new_string: String,
    #[serde(default, alias = "all")]
    replace_all: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MultiEditArgs {
    #[serde(alias = "file_path", alias = "file")]
    path: String,
    edits: Vec<Replacement>,
}

pub(super) fn edit(shop: &Workshop, args: EditArgs) -> Done {
    let EditArgs { path, old_string, new_string, replace_all } = args;
    apply(shop, &path, &[Replacement { old_string, new_string, replace_all }])
}

pub(super) fn multi_edit(shop: &Workshop, args: &MultiEditArgs) -> Done {
    match args.edits.len() {
        0 => Err(refused("NOTHING_TO_DO", shop.language.no_edits())),
        1..=EDITS => apply(shop, &args.path, &args.edits),
        _ => Err(refused("TOO_MANY", shop.language.too_many_edits(EDITS))),
    }
}

fn apply(shop: &Workshop, path: &str, edits: &[Replacement]) -> Done {
    let language = shop.language;
    let (file, before, mtime) = current(shop, path)?;
    if shop.freshness().changed_since_read(&file, mtime) {
        return Err(changed_since(&file, shop.language));
    }
    let mut after = before.clone();
    for (index, edit) in edits.iter().enumerate() {
        after = match replaced(&after, edit, language) {
            Ok(after) => after,
            Err((code, why)) => {
                let why = match edits.len() {
                    1 => why,
                    _ => language.edit_number(index + 1, why),
                };
                return Err(refused(code, language.at_file(text::shown(&file, 200), why)));
            }
        };
    }
    if after == before {
        return Err(refused("NOTHING_TO_DO", language.edit_changes_nothing()));
    }
    let mtime = shop.root.write(&file, after.as_bytes())?;
    shop.freshness().own_edit(&file, mtime);
    let (mut ranges, mut sizes, diff) = difference(&before, &after);
    let (shown, _) = super::head(&diff, DIFF);
    ranges.truncate(RANGES);
    sizes.truncate(RANGES);
    let data = Edit { file, ranges, sizes, diff: shown.to_owned(), applied: true };
    Ok(Envelope::new(Status::Success, &data))
}

/// A file as it is now.
fn current(shop: &Workshop, path: &str) -> Result<(String, String, Mtime), Refusal> {
    let file = shop.root.inside(path)?;
    shop.check_writable(&file)?;
    let mut opened = shop.root.read(&file)?;
    let (shown, language) = (text::shown(&file, 200), shop.language);
    if opened.size > FILE {
        return Err(refused("TOO_LARGE", language.has_bytes(shown, opened.size)));
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    (&mut opened.file)
        .take(FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refused("IO", language.at_file(&shown, error)))?;
    if bytes.len() as u64 > FILE {
        return Err(refused("TOO_LARGE", language.has_more_bytes(shown, FILE)));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok((file, text, opened.mtime)),
        Err(_) => Err(refused("NOT_TEXT", language.not_edited(shown))),
    }
}

fn changed_since(file: &str, language: Language) -> Refusal {
    refused("CHANGED", language.changed_since_read(text::shown(file, 200)))
}

fn replaced(
    before: &str,
    edit: &Replacement,
    language: Language,
) -> Result<String, (&'static str, String)> {
    let (old, new) = (edit.old_string.as_str(), edit.new_string.as_str());
    if old.is_empty() {
        return Err(("NOT_FOUND", language.old_is_empty()));
    }
    // A model writes line feeds; the file may have carriage returns.
    let (with_old, with_new) = (old.replace('\n', "\r\n"), new.replace('\n', "\r\n"));
    let (old, new) = match before.contains(old) || !before.contains("\r\n") {
        true => (old, new),
        false => (with_old.as_str(), with_new.as_str()),
    };
    let count = before.matches(old).count();
    let grown = new.len().saturating_sub(old.len()).saturating_mul(count);
    if before.len().saturating_add(grown) as u64 > FILE {
        return Err(("TOO_LARGE", language.file_would_be_too_large(FILE)));
    }
    match count {
        0 => Err(("NOT_FOUND", language.old_not_found(near(before, old, language)))),
        1 => Ok(before.replacen(old, new, 1)),
        _ if edit.replace_all => Ok(before.replace(old, new)),
        count => {
            let line = |at: usize| before[..at].matches('\n').count() + 1;
            let lines = before.match_indices(old).take(NAMED).map(|(at, _)| line(at).to_string());
            let lines = language.list(&lines.collect::<Vec<_>>());
            let lines = if count > NAMED { language.lines_and_more(lines) } else { lines };
            Err(("NOT_UNIQUE", language.old_not_unique(count, lines)))
        }
    }
}

/// Where the text is but for its blanks.
fn near(before: &str, old: &str, language: Language) -> String {
    let Some(first) = old.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return String::new();
    };
    let place = before.lines().position(|line| line.trim() == first);
    match place {
        Some(index) => language.near_line(index + 1),
        None => language.read_file_again(),
    }
}

/// The changed lines, as the file is now, how many went and came, and the difference for reading.
fn difference(before: &str, after: &str) -> (Vec<[u64; 2]>, Vec<[u64; 2]>, String) {
    let diff = TextDiff::configure().timeout(LOOK).diff_lines(before, after);
    let (mut ranges, mut sizes): (Vec<[u64; 2]>, Vec<[u64; 2]>) = (Vec::new(), Vec::new());
    for group in diff.grouped_ops(0) {
        let lines = group.iter().flat_map(|op| diff.iter_changes(op));
        let mut numbers = lines
            .filter(|change| change.tag() == ChangeTag::Insert)
            .filter_map(|change| change.new_index())
            .map(|index| index as u64 + 1);
        let start = group.first().map_or(0, |op| op.new_range().start as u64);
        let sum = |range: fn(&similar::DiffOp) -> std::ops::Range<usize>| {
            let is_change = |op: &&similar::DiffOp| op.tag() != similar::DiffTag::Equal;
            group.iter().filter(is_change).map(|op| range(op).len() as u64).sum::<u64>()
        };
        sizes.push([sum(similar::DiffOp::old_range), sum(similar::DiffOp::new_range)]);
        match numbers.next() {
            Some(first) => ranges.push([first, numbers.last().unwrap_or(first)]),
            // Lines went: the line before them, 0 at the beginning.
            None => ranges.push([start, start]),
        }
    }
    (ranges, sizes, diff.unified_diff().context_radius(2).to_string())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteArgs {
    #[serde(alias = "file_path", alias = "file")]
    path: String,
    content: String,
}

pub(super) fn write(shop: &Workshop, args: &WriteArgs) -> Done {
    let file = shop.root.inside(&args.path)?;
    shop.check_writable(&file)?;
    if args.content.len() as u64 > FILE {
        return Err(refused("TOO_LARGE", shop.language.content_too_large(FILE)));
    }
    let created = match shop.root.read(&file) {
        Ok(opened) => {
            let freshness = shop.freshness();
            if !freshness.is_known(&file) {
                let shown = text::shown(&file, 200);
                return Err(refused("NOT_READ", shop.language.read_before_write(shown)));
            }
            if freshness.changed_since_read(&file, opened.mtime) {
                return Err(changed_since(&file, shop.language));
            }
            false
        }
        Err(crate::beneath::Error::Missing(_)) => true,
        Err(error) => return Err(error.into()),
    };
    let mtime = shop.root.write(&file, args.content.as_bytes())?;
    shop.freshness().own_edit(&file, mtime);
    let (lines, bytes) = (args.content.lines().count() as u64, args.content.len() as u64);
    let head: Vec<_> = args.content.lines().take(HEAD).map(|line| text::cut(line, 300)).collect();
    let head = head.join("\n");
    let moved = shop.shell.look_after_file(&file, shop.language)?;
    let written = Write { file, created, lines, bytes, mtime, head };
    Ok(Envelope { text: moved, ..Envelope::new(Status::Success, &written) })
}
