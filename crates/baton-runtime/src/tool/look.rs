//! LS and Read.

use std::io::{BufRead, BufReader, Read as _};

use baton_core::messages::Language;
use baton_core::observation::shapes::{Kind, Ls, Read};
use baton_core::observation::{Envelope, Status};
use baton_core::text;
use baton_core::turn::Offered;
use serde::Deserialize;
use serde_json::json;

use super::{Done, Refusal, Workshop, offer, refused};
use crate::beneath::Opened;

/// Entries of a folder that are named.
const ENTRIES: usize = 500;
/// Lines of one reading, where nothing else is asked.
const LINES: u64 = 1_000;
/// Bytes of one reading.
const BYTES: usize = 96 << 10;
/// Characters of a line.
const LINE: usize = 2_000;
/// Bytes of a file that are gone through at most.
const FILE: u64 = 256 << 20;

pub(super) fn offers(language: Language) -> Vec<Offered> {
    let ls = json!({
        "path": { "type": "string", "description": language.ls_path() },
    });
    let read = json!({
        "path": { "type": "string" },
        "from": { "type": "integer", "description": language.read_from() },
        "lines": { "type": "integer", "description": language.read_lines() },
    });
    vec![
        offer("LS", language.ls_tool(), ls, &[]),
        offer("Read", language.read_tool(), read, &["path"]),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LsArgs {
    #[serde(default = "here")]
    path: String,
}

pub(super) fn here() -> String {
    ".".to_owned()
}

pub(super) fn ls(shop: &Workshop, args: &LsArgs) -> Done {
    let inside = shop.root.inside(&args.path)?;
    let mut entries = shop.root.entries(&inside)?;
    let count = |wanted: fn(Kind) -> bool| entries.iter().filter(|own| wanted(own.kind)).count();
    let folders = count(|kind| kind == Kind::Folder) as u64;
    let files = count(|kind| kind != Kind::Folder) as u64;
    let truncated = entries.len() > ENTRIES;
    entries.truncate(ENTRIES);
    let status = if truncated { Status::Partial } else { Status::Success };
    Ok(Envelope::new(status, &Ls { path: inside, files, folders, entries, truncated }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArgs {
    #[serde(alias = "file_path", alias = "file")]
    path: String,
    #[serde(default, alias = "offset")]
    from: Option<u64>,
    #[serde(default, alias = "limit")]
    lines: Option<u64>,
}

pub(super) fn read(shop: &Workshop, args: &ReadArgs) -> Done {
    let file = shop.root.inside(&args.path)?;
    let language = shop.language;
    let mut opened = shop.root.read(&file)?;
    check_text(&file, &mut opened, language)?;
    let from = args.from.unwrap_or(1).max(1);
    let wanted = args.lines.unwrap_or(LINES).clamp(1, 10_000);
    let mtime = opened.mtime;
    let lines = Lines::of(opened, from, wanted)
        .map_err(|error| refused("IO", language.at_file(text::shown(&file, 200), error)))?;
    if lines.total < from && from > 1 {
        let message = language.only_lines(text::shown(&file, 200), lines.total);
        return Err(refused("OUT_OF_RANGE", message));
    }
    let note = shop.freshness().read(&file, mtime, language);
    let to = from + lines.count.saturating_sub(1);
    // A range that was asked for is all that was wanted.
    let is_less = to < lines.total && lines.count < args.lines.unwrap_or(u64::MAX);
    let truncated = is_less || lines.is_cut || lines.is_lossy;
    let mut said = Vec::new();
    if is_less {
        said.push(language.continue_from(to + 1));
    }
    if lines.is_cut {
        said.push(language.lines_are_cut(LINE));
    }
    if lines.is_lossy {
        said.push(language.not_utf8('\u{fffd}'));
    }
    let status = if truncated { Status::Partial } else { Status::Success };
    let total = lines.total;
    let data = Read { file, from, to, total, mtime, note, content: lines.content, truncated };
    let mut envelope = Envelope::new(status, &data);
    envelope.text = said.join("; ");
    Ok(envelope)
}

/// What is no text is said, by what it is.
fn check_text(file: &str, opened: &mut Opened, language: Language) -> Result<(), Refusal> {
    use std::io::Seek;
    let mut head = vec![0; 8_192];
    let count = opened.file.read(&mut head).unwrap_or(0);
    head.truncate(count);
    let shown = text::shown(file, 200);
    if let Some(kind) = image(&head) {
        return Err(refused("IMAGE", language.is_image(shown, kind)));
    }
    if head.contains(&0) {
        return Err(refused("BINARY", language.is_binary(shown, opened.size)));
    }
    if opened.size > FILE {
        return Err(refused("TOO_LARGE", language.look_with_grep(shown, opened.size)));
    }
    opened.file.rewind().map_err(|error| refused("IO", language.at_file(shown, error)))
}

fn image(head: &[u8]) -> Option<&'static str> {
    let starts = |magic: &[u8]| head.starts_with(magic);
    match head {
        _ if starts(b"\x89PNG") => Some("PNG"),
        _ if starts(b"\xff\xd8\xff") => Some("JPEG"),
        _ if starts(b"GIF8") => Some("GIF"),
        _ if starts(b"RIFF") && head.get(8..12) == Some(b"WEBP") => Some("WebP"),
        _ if starts(b"BM") && head.get(6..10) == Some(&[0; 4]) => Some("BMP"),
        _ => None,
    }
}

/// The lines of a range, numbered.
struct Lines {
    content: String,
    count: u64,
    total: u64,
    is_cut: bool,
    is_lossy: bool,
}

impl Lines {
    fn of(opened: Opened, from: u64, wanted: u64) -> std::io::Result<Lines> {
        let mut reader = BufReader::new(opened.file.take(FILE));
        let mut lines =
            Lines { content: String::new(), count: 0, total: 0, is_cut: false, is_lossy: false };
        let mut line = Vec::new();
        let mut is_full = false;
        loop {
            if !next_line(&mut reader, &mut line)? {
                return Ok(lines);
            }
            lines.total += 1;
            if lines.total < from || lines.count >= wanted || is_full {
                continue;
            }
            let whole = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line));
            let whole = whole.strip_suffix('\r').unwrap_or(&whole);
            let shown = text::cut(whole, LINE);
            if lines.count > 0 && lines.content.len() + shown.len() > BYTES {
                is_full = true;
                continue;
            }
            lines.is_lossy |= std::str::from_utf8(&line).is_err();
            lines.is_cut |= shown.len() < whole.len();
            if lines.count > 0 {
                lines.content.push('\n');
            }
            lines.content.push_str(&format!("{}\t{shown}", lines.total));
            lines.count += 1;
        }
    }
}

/// The next line, of which no more is kept than is shown; false at the end.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    const KEPT: usize = 4 * (LINE + 1);
    line.clear();
    let (mut is_any, mut is_cut) = (false, false);
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        is_any = true;
        let end = memchr::memchr(b'\n', buffer);
        let length = end.map_or(buffer.len(), |at| at + 1);
        let room = KEPT.saturating_sub(line.len()).min(length);
        line.extend_from_slice(&buffer[..room]);
        is_cut |= room < length;
        reader.consume(length);
        if end.is_some() {
            break;
        }
    }
    // Half of a character is none.
    if let Err(error) = std::str::from_utf8(line)
        && is_cut
        && error.error_len().is_none()
    {
        line.truncate(error.valid_up_to());
    }
    Ok(is_any)
}
