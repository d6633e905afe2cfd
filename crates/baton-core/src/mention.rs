//! Files that the user mentions: `@src/lib.rs`, `@笔记.md:10-20`, `@"my notes.md"`. Goes in: the
//! message and a way to ask what a path leads to. Comes out: the message with one reminder for each
//! file, never the file's content, and notices for the user about mentions that are not files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use crate::text;

/// Files that are named, and notices; the rest is counted.
pub const MOST: usize = 5;

/// No file system has longer paths, so nothing longer is looked at.
const LONGEST: usize = 4_096;

/// Shorter forms of one name that are tried: a message must not cost a look at the disk for each of
/// its characters.
const SHORTER: usize = 128;

/// The end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    File,
    Folder,
    /// Nothing, or something outside of the project.
    Missing,
}

/// The files that a message mentions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Mentions {
    /// In order, each once, as they were written.
    pub paths: Vec<String>,
    /// Beyond the first five.
    pub more: usize,
    /// The first and the last line of each range, by path.
    pub lines: BTreeMap<String, Vec<[u64; 2]>>,
    /// For the user: mentions that are not files.
    pub notices: Vec<String>,
}

/// Finds what a message mentions. `look` gets a relative path that does not lead out of the project
/// by its words; a link that leads out is for it to find.
pub fn find(message: &str, mut look: impl FnMut(&str) -> Target) -> Mentions {
    let mut search = Search { look: &mut look, looked: BTreeMap::new() };
    let mut found = Mentions::default();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut unresolved = BTreeSet::new();
    for candidate in candidates(message) {
        let Some((path, range)) = search.file(&candidate) else {
            if let Some((path, target)) = search.unresolved(&candidate)
                && unresolved.insert(path)
            {
                found.report(path, target, unresolved.len());
            }
            continue;
        };
        // `./a` and `a` are one file.
        let Some(plain) = inside(path) else { continue };
        let is_new = !known.contains_key(&plain);
        let written = known.entry(plain).or_insert_with(|| path.to_owned());
        found.add(written, is_new, range);
    }
    if unresolved.len() > MOST {
        let more = unresolved.len() - MOST;
        found.notices.push(format!("(and {more} more mentions that are not files…)"));
    }
    found
}

impl Mentions {
    fn add(&mut self, path: &str, is_new: bool, range: Option<[u64; 2]>) {
        match is_new {
            true if self.paths.len() < MOST => self.paths.push(path.to_owned()),
            true => self.more += 1,
            false => {}
        }
        let Some(range) = range.filter(|_| self.paths.iter().any(|own| own == path)) else {
            return;
        };
        let ranges = self.lines.entry(path.to_owned()).or_default();
        if ranges.len() < MOST && !ranges.contains(&range) {
            ranges.push(range);
        }
    }

    fn report(&mut self, path: &str, target: Target, number: usize) {
        if number > MOST {
            return;
        }
        let why = match target {
            Target::Folder => "a folder; only files are read at a mention",
            Target::File | Target::Missing => "there is no such file in the project",
        };
        self.notices.push(format!("@{}: {why}", text::shown(&written(path), 200)));
    }

    /// One block for each file, then how many are not named.
    pub fn blocks(&self) -> String {
        let mut out = String::new();
        for path in &self.paths {
            // Writing to a String cannot fail.
            let _ = write!(
                out,
                "<system-reminder>\n\
                 The user mentioned @{}.\n\
                 You MUST read this file with the Read tool before answering.{}\n\
                 </system-reminder>\n",
                written(path),
                self.lines.get(path).map_or(String::new(), |ranges| meant(ranges))
            );
        }
        if self.more > 0 {
            let _ = writeln!(out, "(and {} more…)", self.more);
        }
        out
    }

    /// The message with its blocks after it, an empty line between; without mentions as it was.
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

/// The sentence about the ranges of a file.
fn meant(ranges: &[[u64; 2]]) -> String {
    let shown = ranges.iter().map(|[first, last]| match first == last {
        true => format!("line {first}"),
        false => format!("lines {first}-{last}"),
    });
    format!(" The user means {}.", shown.collect::<Vec<_>>().join(" and "))
}

/// The text after an `@`, as far as it may be a name.
#[derive(Debug)]
struct Candidate<'a> {
    name: &'a str,
    is_quoted: bool,
    range: Option<[u64; 2]>,
    /// `@route("/")`: a decorator of a program, not a file.
    is_called: bool,
}

/// Every name after an `@`, in order, whatever it leads to.
fn candidates(message: &str) -> impl Iterator<Item = Candidate<'_>> {
    memchr::memchr_iter(b'@', message.as_bytes()).filter_map(|at| {
        // `name@host` is an address. Scripts that are written without spaces have no addresses.
        if message[..at].ends_with(|c: char| c.is_ascii_alphanumeric()) {
            return None;
        }
        let rest = &message[at + 1..];
        let (name, after, is_quoted) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let name = quoted_name(quoted)?;
                (name, &quoted[name.len() + 1..], true)
            }
            None => {
                let end = bare_length(rest)?;
                // The end of a sentence, not of a name.
                (rest[..end].trim_end_matches('.'), &rest[end..], false)
            }
        };
        let (range, is_called) = (range(after), after.starts_with('('));
        (!name.is_empty()).then_some(Candidate { name, is_quoted, range, is_called })
    })
}

/// Up to the closing quote. A name that cannot be seen whole is no name to remind of.
fn quoted_name(quoted: &str) -> Option<&str> {
    let stops = |c: char| c == '"' || c.is_control() || text::is_invisible(c);
    let (end, stop) = quoted.char_indices().take(LONGEST).find(|(_, c)| stops(*c))?;
    (stop == '"').then(|| &quoted[..end])
}

/// The bytes of a name without quotes; `None` if it is longer than any.
fn bare_length(rest: &str) -> Option<usize> {
    for (count, (at, c)) in rest.char_indices().enumerate() {
        if !is_bare(c) {
            return Some(at);
        }
        if count == LONGEST {
            return None;
        }
    }
    Some(rest.len())
}

/// A character that a name without quotes may have: of other scripts everything but blanks, marks
/// that cannot be seen, and punctuation.
fn is_bare(c: char) -> bool {
    match c {
        '/' | '.' | '_' | '-' => true,
        _ if c.is_ascii() => c.is_ascii_alphanumeric(),
        // 々, 〆 and 〇 are letters among the punctuation of Chinese and Japanese.
        '\u{3005}'..='\u{3007}' => true,
        '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{bb}' | '\u{bf}' => false,
        '\u{2010}'..='\u{205e}' | '\u{3000}'..='\u{303f}' => false,
        // Full-width and half-width forms, and the vertical ones.
        '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}' => false,
        '\u{ff5b}'..='\u{ff65}' | '\u{fe10}'..='\u{fe1f}' | '\u{fe30}'..='\u{fe6f}' => false,
        _ => !c.is_whitespace() && !c.is_control() && !text::is_invisible(c),
    }
}

/// `:12`, `:12-20`, `#L12` or `#L12-L20` after a name.
fn range(after: &str) -> Option<[u64; 2]> {
    let (rest, needs_mark) = match after.strip_prefix(':') {
        Some(rest) => (rest, false),
        None => (after.strip_prefix('#')?, true),
    };
    if needs_mark && !rest.starts_with('L') {
        return None;
    }
    let (first, rest) = line_number(rest)?;
    let last = rest.strip_prefix(['-', '–']).and_then(line_number);
    let last = last.map_or(first, |(last, _)| last);
    Some([first.min(last), first.max(last)])
}

/// `12` or `L12`: a number of a line, and what follows it.
fn line_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.strip_prefix('L').unwrap_or(text);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number = digits[..end].parse().ok().filter(|number| *number > 0)?;
    Some((number, &digits[end..]))
}

/// Looks at paths, at each once.
struct Search<'m, 'l> {
    look: &'l mut dyn FnMut(&str) -> Target,
    looked: BTreeMap<&'m str, Target>,
}

impl<'m> Search<'m, '_> {
    fn target(&mut self, path: &'m str) -> Target {
        if let Some(target) = self.looked.get(path) {
            return *target;
        }
        let target = if inside(path).is_some() { (self.look)(path) } else { Target::Missing };
        self.looked.insert(path, target);
        target
    }

    /// The longest name that is a file, and its range where it is the whole name.
    fn file(&mut self, candidate: &Candidate<'m>) -> Option<(&'m str, Option<[u64; 2]>)> {
        if self.target(candidate.name) == Target::File {
            return Some((candidate.name, candidate.range));
        }
        let mut shorter = candidate.shorter().into_iter();
        shorter.find(|path| self.target(path) == Target::File).map(|path| (path, None))
    }

    /// The path that the user has to be told about, where the words are one at all.
    fn unresolved(&mut self, candidate: &Candidate<'m>) -> Option<(&'m str, Target)> {
        if candidate.is_called || !candidate.name.contains(char::is_alphanumeric) {
            return None;
        }
        let shorter = candidate.shorter();
        let with_extension = shorter.iter().rev().find(|path| has_extension(path));
        let path = match with_extension {
            Some(path) => path,
            None if has_extension(candidate.name) => candidate.name,
            None => {
                let all = [candidate.name].into_iter().chain(shorter.iter().copied());
                let mut folders = all.filter(|path| self.target(path) == Target::Folder);
                folders.next().unwrap_or(candidate.name)
            }
        };
        let target = self.target(path);
        let is_meant = candidate.is_quoted || self.is_path(path, target);
        is_meant.then_some((path, target))
    }

    /// True if words are a path rather than a handle, a decorator or a package (`@scope/name`).
    fn is_path(&mut self, path: &'m str, target: Target) -> bool {
        let Some((first, rest)) = path.split_once('/') else { return path.contains('.') };
        let is_dotted = path.contains('.') || first.is_empty() || rest.is_empty();
        is_dotted || target == Target::Folder || self.target(first) == Target::Folder
    }
}

impl<'a> Candidate<'a> {
    /// The name without what may be words of another script around it, the longest first. An ASCII
    /// name is never cut: `@a.rs` does not mention `a`.
    fn shorter(&self) -> Vec<&'a str> {
        if self.is_quoted {
            return Vec::new();
        }
        let name = self.name;
        let mut ends = Vec::new();
        let mut before = '@';
        for (at, c) in name.char_indices() {
            if at > 0 && (!c.is_ascii() || !before.is_ascii()) {
                ends.push(name[..at].trim_end_matches('.'));
            }
            before = c;
            if ends.len() == SHORTER {
                break;
            }
        }
        ends.retain(|path| !path.is_empty());
        ends.reverse();
        ends
    }
}

/// True if a path ends like the name of a file: `.py`, `.md`.
fn has_extension(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(_, extension)| {
        !extension.is_empty() && extension.chars().all(|c| c.is_ascii_alphanumeric())
    })
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

/// The mention that a user would write: in quotes, where that is necessary.
fn written(path: &str) -> String {
    let is_plain = path.chars().all(is_bare) && !path.ends_with('.');
    if is_plain { path.to_owned() } else { format!("\"{path}\"") }
}
