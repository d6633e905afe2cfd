//! Git's index: the names of the files that it tracks. Read without git, which may be missing.

/// Before the hash of an entry: times, numbers, mode, owner, size.
pub(crate) const STAT: usize = 40;
/// The mode of an entry is in its stat.
pub(crate) const MODE: usize = 24;
/// An entry of a sparse index that stands for a whole folder.
const FOLDER: u32 = 0o040_000;
const LONG_NAME: usize = 0xfff;
const LONG_NAME_FLAGS: u16 = 0xfff;
const HAS_MORE_FLAGS: u16 = 0x4000;

/// One file in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it begins.
    pub(crate) at: usize,
    pub(crate) mode: u32,
    /// The object, in bytes.
    pub(crate) hash: Vec<u8>,
    /// Flags without the length of the name, and those of version 3.
    pub(crate) flags: (u16, u16),
    pub(crate) name: Vec<u8>,
}

/// The names, as paths from the top of the work tree. `None`: the index is not understood, or it is
/// only a part of another one.
pub(super) fn names(index: &[u8]) -> Option<Vec<Vec<u8>>> {
    // Of SHA-1, and of SHA-256. Each entry says how long its name is, so that the wrong one is found.
    let (entries, _) = [20, 32].into_iter().find_map(|hash| entries(index, hash))?;
    Some(entries.into_iter().filter(|own| own.mode != FOLDER).map(|own| own.name).collect())
}

/// The entries, and where they end. `hash`: the length of one.
pub(crate) fn entries(index: &[u8], hash: usize) -> Option<(Vec<Entry>, usize)> {
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(index, 4)?;
    let count = number(index, 8)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut entries: Vec<Entry> = Vec::new();
    let mut at = 12;
    let mut name = Vec::new();
    for _ in 0..count {
        let start = at;
        let mode = number(index, start + MODE)?;
        at = start + STAT + hash;
        let object = index.get(start + STAT..at)?.to_vec();
        let short = |at: usize| Some(u16::from_be_bytes(index.get(at..at + 2)?.try_into().ok()?));
        let flags = short(at)?;
        let has_more = version >= 3 && flags & HAS_MORE_FLAGS != 0;
        let more = if has_more { short(at + 2)? } else { 0 };
        at += if has_more { 4 } else { 2 };
        if version == 4 {
            let (cut, next) = variable(index, at)?;
            name.truncate(name.len().checked_sub(cut)?);
            at = next;
        } else {
            name.clear();
        }
        let rest = index.get(at..)?;
        let end = memchr::memchr(0, rest)?;
        name.extend_from_slice(&rest[..end]);
        at += end + 1;
        if usize::from(flags) & LONG_NAME != name.len().min(LONG_NAME) {
            return None;
        }
        if version < 4 {
            at = start + (at - start).next_multiple_of(8);
        }
        let flags = (flags & !LONG_NAME_FLAGS, more);
        entries.push(Entry { at: start, mode, hash: object, flags, name: name.clone() });
    }
    is_whole(index, at, hash).then_some((entries, at))
}

/// True unless the extensions say that most entries are in another file.
fn is_whole(index: &[u8], mut at: usize, hash: usize) -> bool {
    let Some(end) = index.len().checked_sub(hash) else { return false };
    while at + 8 <= end {
        let Some(size) = number(index, at + 4) else { return false };
        if &index[at..at + 4] == b"link" {
            return false;
        }
        at += 8 + size as usize;
    }
    at == end
}

fn number(index: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?))
}

/// A number of variable length, and where it ends.
fn variable(index: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *index.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *index.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}
