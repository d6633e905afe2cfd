//! What a command changed in its copy of a git folder, checked: goes in what both folders say, comes
//! out what is to be written, or why nothing of it is.

use std::collections::{BTreeMap, BTreeSet};

use super::state::{State, is_hash};
use crate::git::index::{self, Entry};

/// Bytes of the hash of an object.
const HASH: usize = 20;
const NO_OBJECT: &str = "0000000000000000000000000000000000000000";
/// The mode of a commit of another repository.
const LINK: u32 = 0o160_000;
const FILES: [u32; 3] = [0o100_644, 0o100_755, 0o120_000];
/// The file is to be added later: it has no object yet.
const TO_ADD: u16 = 0x2000;
/// Flags by which git does not look at a file: it is assumed to be unchanged, or not checked out.
const UNSEEN: (u16, u16) = (0x8000, 0x4000);
const STAGE: u16 = 0x3000;
/// Each is written by itself.
const MOST_REFS: usize = 500;
const MOST_NAME: usize = 4_096;
const MOST_LINE: usize = 16 << 10;

/// What an object must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Commit,
    Tree,
    Blob,
    Any,
}

/// What is to be written. `None` for a value: it is removed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) refs: Vec<(String, Option<String>)>,
    pub(super) logs: Vec<(String, Option<Vec<u8>>)>,
    pub(super) marks: Vec<(&'static str, Option<String>)>,
    pub(super) index: Option<Vec<u8>>,
    pub(super) head: Option<String>,
    /// Objects that must exist then.
    pub(super) wanted: BTreeSet<(String, Kind)>,
}

impl Changes {
    pub(super) fn of(before: &State, after: &State) -> Result<Changes, String> {
        let mut own = Changes::default();
        own.add_refs(before, after)?;
        if own.refs.len() > MOST_REFS {
            return Err(format!("more than {MOST_REFS} branches and tags were changed"));
        }
        own.add_head(before, after)?;
        own.add_logs(before, after)?;
        own.add_marks(before, after)?;
        own.add_index(before, after)?;
        Ok(own)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.refs.is_empty()
            && self.logs.is_empty()
            && self.marks.is_empty()
            && self.index.is_none()
            && self.head.is_none()
    }

    /// One line on each branch, tag or stash that changed, for the user.
    pub(super) fn about(&self) -> Vec<String> {
        let short = |hash: &str| hash.chars().take(10).collect::<String>();
        let line = |(name, value): &(String, Option<String>)| {
            let name = name.strip_prefix("refs/").unwrap_or(name);
            let name = shown(name.strip_prefix("heads/").unwrap_or(name));
            match value {
                Some(hash) => format!("{name} is now at {}", short(hash)),
                None => format!("{name} was removed"),
            }
        };
        self.refs.iter().map(line).collect()
    }

    fn want(&mut self, hash: &str, kind: Kind) {
        self.wanted.insert((hash.to_owned(), kind));
    }

    fn add_refs(&mut self, before: &State, after: &State) -> Result<(), String> {
        for (name, value) in difference(&before.refs, &after.refs) {
            let kind = kind_of(name).ok_or_else(|| {
                format!("{}: only branches, tags and the stash are taken over", shown(name))
            })?;
            if let Some(value) = value {
                check_name(name)?;
                if !is_hash(value) {
                    return Err(format!("{} is not the hash of an object", shown(name)));
                }
                let holds = |own: &String| is_folder_of(own, name) || is_folder_of(name, own);
                let mut all = before.refs.keys().chain(after.refs.keys());
                if all.any(holds) {
                    return Err(format!("{}: another ref is in its place", shown(name)));
                }
                self.want(value, kind);
            }
            self.refs.push((name.to_owned(), value.cloned()));
        }
        Ok(())
    }

    fn add_head(&mut self, before: &State, after: &State) -> Result<(), String> {
        if before.head == after.head {
            return Ok(());
        }
        match after.head.strip_prefix("ref: ") {
            Some(name) if name.starts_with("refs/heads/") => check_name(name)?,
            Some(_) => return Err("HEAD does not name a branch".to_owned()),
            None => self.want(&after.head, Kind::Commit),
        }
        self.head = Some(after.head.clone());
        Ok(())
    }

    fn add_logs(&mut self, before: &State, after: &State) -> Result<(), String> {
        let known: BTreeSet<&[u8]> = before.logs.values().flat_map(|log| log_lines(log)).collect();
        for (name, log) in difference(&before.logs, &after.logs) {
            let is_gone = name != "HEAD" && !after.refs.contains_key(name);
            let Some(log) = log else {
                match is_gone {
                    true => self.logs.push((name.to_owned(), None)),
                    false => return Err(format!("the reflog of {} was removed", shown(name))),
                }
                continue;
            };
            if name != "HEAD" {
                check_name(name)?;
            }
            let old = before.logs.get(name).map_or(&[][..], Vec::as_slice);
            // Only a stash loses entries.
            if name != "refs/stash" && !is_gone && !log.starts_with(old) {
                return Err(format!("the reflog of {} lost entries", shown(name)));
            }
            if !log.is_empty() && !log.ends_with(b"\n") {
                return Err(format!("the reflog of {} is cut off", shown(name)));
            }
            for line in log_lines(log).filter(|line| !known.contains(line)) {
                let hashes = hashes_of(line)
                    .ok_or_else(|| format!("the reflog of {} is damaged", shown(name)))?;
                hashes.into_iter().filter(|hash| *hash != NO_OBJECT).for_each(|hash| {
                    self.want(hash, Kind::Commit);
                });
            }
            self.logs.push((name.to_owned(), Some(log.clone())));
        }
        Ok(())
    }

    fn add_marks(&mut self, before: &State, after: &State) -> Result<(), String> {
        for name in super::state::MARKS {
            let value = after.marks.get(name);
            if before.marks.get(name) == value {
                continue;
            }
            let kind = if name == "AUTO_MERGE" { Kind::Tree } else { Kind::Commit };
            for line in value.iter().flat_map(|value| value.lines()) {
                if !is_hash(line) {
                    return Err(format!("{name} is not the hash of an object"));
                }
                self.want(line, kind);
            }
            self.marks.push((name, value.cloned()));
        }
        Ok(())
    }

    fn add_index(&mut self, before: &State, after: &State) -> Result<(), String> {
        let bytes = |state: &State| state.index.as_ref().map(|(bytes, _)| bytes.clone());
        let (old, Some(mut new)) = (bytes(before), bytes(after)) else {
            return match before.index.is_some() {
                true => Err("the index was removed".to_owned()),
                false => Ok(()),
            };
        };
        if old.as_ref() == Some(&new) {
            return Ok(());
        }
        let old = old.unwrap_or_default();
        let read = |bytes: &[u8]| index::entries(bytes, HASH);
        let (known, _) = read(&old).unwrap_or_default();
        let (entries, end) = read(&new).ok_or("the index is damaged, or is a split one")?;
        check_entries(&entries)?;
        if known.iter().map(key).eq(entries.iter().map(key)) {
            return Ok(());
        }
        let by_name: BTreeMap<(&[u8], u16), &Entry> =
            known.iter().map(|own| (at(own), own)).collect();
        for own in &entries {
            let known = by_name.get(&at(own)).copied();
            self.check_new(own, known)?;
            // Git must look at a file itself before it holds it to be unchanged.
            let stat = own.at..own.at + index::STAT;
            let is_same = known.is_some_and(|known| {
                key(known) == key(own)
                    && old.get(known.at..known.at + index::STAT) == new.get(stat.clone())
            });
            if !is_same && let Some(stat) = new.get_mut(stat) {
                let (times, rest) = stat.split_at_mut(index::MODE);
                times.fill(0);
                rest[4..].fill(0);
            }
        }
        // Extensions are what git would find again by itself, and could be false.
        new.truncate(end);
        let sum = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &new);
        new.extend_from_slice(sum.as_ref());
        self.index = Some(new);
        Ok(())
    }

    fn check_new(&mut self, own: &Entry, known: Option<&Entry>) -> Result<(), String> {
        if known.is_some_and(|known| key(known) == key(own)) {
            return Ok(());
        }
        let name = || shown(&String::from_utf8_lossy(&own.name));
        if own.mode == LINK {
            return Err(format!("the index has a new submodule: {}", name()));
        }
        if !FILES.contains(&own.mode) {
            return Err(format!("the index has a file of an unknown kind: {}", name()));
        }
        let unseen = |own: &Entry| (own.flags.0 & UNSEEN.0, own.flags.1 & UNSEEN.1);
        if unseen(own) != (0, 0) && known.map(unseen) != Some(unseen(own)) {
            return Err(format!("the index hides changes of a file: {}", name()));
        }
        check_path(&own.name).map_err(|why| format!("the index has {why}: {}", name()))?;
        if own.flags.1 & TO_ADD == 0 {
            let hash: String = own.hash.iter().map(|byte| format!("{byte:02x}")).collect();
            self.want(&hash, Kind::Blob);
        }
        Ok(())
    }
}

/// Whether both index files list the same, whenever git looked at the files last.
pub(super) fn is_same_index(a: &State, b: &State) -> bool {
    let entries = |state: &State| {
        let (bytes, _) = state.index.as_ref()?;
        let (entries, _) = index::entries(bytes, HASH)?;
        let keys = entries.iter().map(key);
        Some(
            keys.map(|(name, mode, hash, flags)| (name.to_vec(), mode, hash.to_vec(), flags))
                .collect::<Vec<_>>(),
        )
    };
    let bytes = |state: &State| state.index.as_ref().map(|(bytes, _)| bytes.clone());
    bytes(a) == bytes(b) || entries(a) == entries(b)
}

/// Everything of an entry but what git noted of the file.
fn key(own: &Entry) -> (&[u8], u32, &[u8], (u16, u16)) {
    (&own.name, own.mode, &own.hash, own.flags)
}

fn at(own: &Entry) -> (&[u8], u16) {
    (&own.name, own.flags.0 & STAGE)
}

/// The order that git needs: names, and the stages of a conflict.
fn check_entries(entries: &[Entry]) -> Result<(), String> {
    let is_ordered = entries.windows(2).all(|pair| {
        at(&pair[0]) < at(&pair[1])
            && (pair[0].name != pair[1].name || pair[0].flags.0 & STAGE != 0)
    });
    is_ordered.then_some(()).ok_or_else(|| "the index is not in order".to_owned())
}

/// The path of a file in the index.
fn check_path(name: &[u8]) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > MOST_NAME {
        return Err("an empty name, or one that is too long");
    }
    for part in name.split(|byte| *byte == b'/') {
        let text = String::from_utf8_lossy(part).to_ascii_lowercase();
        // As other systems would read it, too.
        let plain: String = text.chars().filter(|c| !is_ignored(*c)).collect();
        let plain = plain.split([':', '\\']).next().unwrap_or_default();
        let plain = plain.trim_end_matches([' ', '.']);
        if part.is_empty() || part == b"." || part == b".." {
            return Err("a name that leads elsewhere");
        }
        if matches!(plain, ".git" | "git~1") {
            return Err("a name of a git folder");
        }
    }
    Ok(())
}

/// Characters that macOS passes over in names.
fn is_ignored(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// What is different, by name, and the new value.
fn difference<'a, T: PartialEq>(
    before: &'a BTreeMap<String, T>,
    after: &'a BTreeMap<String, T>,
) -> Vec<(&'a str, Option<&'a T>)> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let pairs = names.into_iter().map(|name| (name.as_str(), before.get(name), after.get(name)));
    pairs.filter(|(_, old, new)| old != new).map(|(name, _, new)| (name, new)).collect()
}

/// What a ref that is taken over names.
pub(super) fn kind_of(name: &str) -> Option<Kind> {
    match name {
        "refs/stash" => Some(Kind::Commit),
        _ if name.starts_with("refs/heads/") => Some(Kind::Commit),
        _ if name.starts_with("refs/tags/") => Some(Kind::Any),
        _ => None,
    }
}

fn is_folder_of(folder: &str, name: &str) -> bool {
    name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Git's rules for names of branches, tags and the stash.
fn check_name(name: &str) -> Result<(), String> {
    let is_bad = |c: char| c <= ' ' || c == '\u{7f}' || "~^:?*[\\".contains(c);
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let short = name.splitn(3, '/').nth(2);
    let is_short = short.is_none_or(|short| {
        !short.starts_with('-') && short != "HEAD" && !is_hash(short) && short != "@"
    });
    let is_valid = kind_of(name).is_some()
        && name.len() <= 1_000
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && !name.contains(is_bad)
        && name.split('/').all(is_part)
        && is_short;
    is_valid.then_some(()).ok_or_else(|| format!("{} is not the name of a ref", shown(name)))
}

fn log_lines(log: &[u8]) -> impl Iterator<Item = &[u8]> {
    log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// Both hashes of a line of a reflog. `None`: it is not one.
fn hashes_of(line: &[u8]) -> Option<[&str; 2]> {
    let is_control = |byte: &u8| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f;
    if line.len() > MOST_LINE || line.iter().any(is_control) {
        return None;
    }
    let hash = |at: usize| {
        let text = std::str::from_utf8(line.get(at..at + 40)?).ok()?;
        (is_hash(text) && line.get(at + 40) == Some(&b' ')).then_some(text)
    };
    let hashes = [hash(0)?, hash(41)?];
    let rest = line.get(82..)?;
    let rest = rest.split(|byte| *byte == b'\t').next()?;
    // `Name <mail> seconds +zone`
    let rest = std::str::from_utf8(rest.get(rest.iter().rposition(|byte| *byte == b'>')? + 1..)?);
    let mut words = rest.ok()?.split_whitespace();
    let (time, zone) = (words.next()?, words.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_zone = zone.strip_prefix(['+', '-']).is_some_and(is_number);
    (is_number(time) && is_zone && words.next().is_none()).then_some(hashes)
}

fn shown(text: &str) -> String {
    format!("`{}`", baton_core::text::shown(text, 120))
}
