//! Lines that know whether they are whole: `<length> <checksum> <json>`. The last line of a file that
//! ends too early was torn by a crash: it was never acknowledged. Anything else that does not add up
//! is damage, and is never skipped.

const HEADER: usize = 18;

/// A line for this JSON.
pub fn framed(json: &[u8]) -> Vec<u8> {
    let length = format!("{:08x}", json.len());
    let mut out = format!("{length} {:08x} ", checksum(length.as_bytes(), json)).into_bytes();
    out.extend_from_slice(json);
    out.push(b'\n');
    out
}

fn checksum(length: &[u8], json: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(length);
    hasher.update(json);
    hasher.finalize()
}

/// The lines of a file.
#[derive(Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
    /// Bytes of a torn last line.
    pub torn: usize,
}

impl<'a> Frames<'a> {
    pub fn new(bytes: &'a [u8]) -> Frames<'a> {
        Frames { rest: bytes, torn: 0 }
    }

    /// The next line's JSON; `None` at the end. `Err`: why it is damaged.
    pub fn line(&mut self) -> Result<Option<&'a str>, &'static str> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let end = memchr::memchr(b'\n', self.rest);
        let line = &self.rest[..end.unwrap_or(self.rest.len())];
        let is_last = end.is_none_or(|end| end + 1 == self.rest.len());
        let json = match header(line) {
            Some((length, sum)) if line.len() == HEADER + length => {
                let json = &line[HEADER..];
                (checksum(&line[..8], json) == sum).then_some(json)
            }
            _ => None,
        };
        match (json, end) {
            (Some(json), Some(end)) => {
                let text = std::str::from_utf8(json).map_err(|_| "it is not UTF-8")?;
                self.rest = &self.rest[end + 1..];
                Ok(Some(text))
            }
            _ if is_last && is_torn(line, end.is_some()) => {
                self.torn = self.rest.len();
                self.rest = &[];
                Ok(None)
            }
            _ => Err("its checksum is wrong"),
        }
    }
}

/// Length and checksum, where the header is one.
fn header(line: &[u8]) -> Option<(usize, u32)> {
    // Exactly as we write it: a letter in capitals is a flipped bit.
    let head = line.get(..HEADER).filter(|head| is_head(head))?;
    let head = std::str::from_utf8(head).ok()?;
    let length = usize::from_str_radix(head.get(..8)?, 16).ok()?;
    Some((length, u32::from_str_radix(head.get(9..17)?, 16).ok()?))
}

/// Whether a last line is the beginning of a record that a crash cut off: too short and without its
/// end, or with holes that a disk leaves where data was not written. A line that is long enough and
/// wrong was changed later.
fn is_torn(line: &[u8], has_end: bool) -> bool {
    const HOLE: [u8; 16] = [0; 16];
    let has_hole = line.windows(HOLE.len()).any(|window| window == HOLE);
    let is_short = match header(line) {
        Some((length, _)) => line.len() <= HEADER + length,
        None => line.len() < HEADER && is_head(line),
    };
    has_hole || (!has_end && is_short)
}

/// Whether this could be the first bytes of a header.
fn is_head(line: &[u8]) -> bool {
    line.iter().enumerate().all(|(at, byte)| match at {
        8 | 17 => *byte == b' ',
        _ => byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase(),
    })
}
