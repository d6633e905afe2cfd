//! Git's index: the names of the files that it tracks. Read without git, which may be missing.

/// Before the hash of an entry: times, numbers, mode, owner, size.
const STAT: usize = 40;
/// The mode of an entry is in its stat.
const MODE: usize = 24;
/// An entry of a sparse index that stands for a whole folder.
const FOLDER: u32 = 0o040_000;
const LONG_NAME: usize = 0xfff;
const HAS_MORE_FLAGS: u16 = 0x4000;

/// The names, as paths from the top of the work tree. `None`: the index is not understood, or it is
/// only a part of another one.
pub(super) fn names(index: &[u8]) -> Option<Vec<Vec<u8>>> {
    // Of SHA-1, and of SHA-256. Each entry says how long its name is, so that the wrong one is found.
    [20, 32].into_iter().find_map(|hash| names_by(index, hash))
}

fn names_by(index: &[u8], hash: usize) -> Option<Vec<Vec<u8>>> {
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(index, 4)?;
    let count = number(index, 8)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut at = 12;
    let mut name = Vec::new();
    for _ in 0..count {
        let start = at;
        let mode = number(index, start + MODE)?;
        at = start + STAT + hash;
        let flags = u16::from_be_bytes(index.get(at..at + 2)?.try_into().ok()?);
        at += if version >= 3 && flags & HAS_MORE_FLAGS != 0 { 4 } else { 2 };
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
        if mode != FOLDER {
            names.push(name.clone());
        }
    }
    is_whole(index, at, hash).then_some(names)
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
