//! Ignore rules, read and matched as git does. Nothing is compiled: a file of rules costs its own
//! size in memory, and each comparison counts its steps.

/// A larger file of rules, or one with more or longer rules, counts as one without rules.
pub(super) const MOST_BYTES: u64 = 256 << 10;
const MOST_RULES: usize = 5_000;
const MOST_LENGTH: usize = 1_024;
/// Of `*`, `?` and `[` in one rule.
const MOST_WILDCARDS: usize = 32;

/// The rules of one file.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    /// Takes back what an earlier rule ignores.
    is_negated: bool,
    only_folders: bool,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    /// Of a file or folder anywhere below.
    Name(Vec<u8>),
    Ending(Vec<u8>),
    Pattern(Vec<u8>),
    /// Counted from the folder of the rules.
    Path(Vec<Segment>),
}

#[derive(Debug)]
enum Segment {
    /// `**`: any number of folders.
    Any,
    Plain(Vec<u8>),
    Pattern(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No rule says anything.
    Open,
    Ignored,
    /// A rule takes it back.
    Kept,
}

/// A path, counted from the folder of the rules: folders above the walk, folders of the walk, a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub above: &'a [Vec<u8>],
    pub folders: &'a [Vec<u8>],
    pub name: &'a [u8],
}

impl Place<'_> {
    fn len(&self) -> usize {
        self.above.len() + self.folders.len() + 1
    }

    fn part(&self, index: usize) -> &[u8] {
        let folder = self.above.get(index);
        let folder = folder.or_else(|| self.folders.get(index - self.above.len()));
        folder.map_or(self.name, Vec::as_slice)
    }
}

impl Rules {
    /// `Err`: why they do not count.
    pub(super) fn read(text: &[u8]) -> Result<Rules, &'static str> {
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        let mut rules = Vec::new();
        for line in text.split(|byte| *byte == b'\n') {
            let line = trimmed(line.strip_suffix(b"\r").unwrap_or(line));
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            if rules.len() == MOST_RULES {
                return Err("more than 5,000 rules");
            }
            if line.len() > MOST_LENGTH {
                return Err("a rule longer than 1,024 bytes");
            }
            if line.iter().filter(|byte| b"*?[".contains(byte)).count() > MOST_WILDCARDS {
                return Err("a rule with more than 32 wildcards");
            }
            rules.extend(Rule::read(line));
        }
        Ok(Rules(rules))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last rule that fits decides.
    pub(super) fn verdict(&self, place: &Place<'_>, is_folder: bool, steps: &mut u64) -> Verdict {
        for rule in self.0.iter().rev() {
            *steps += 1;
            if rule.only_folders && !is_folder || !rule.shape.fits(place, steps) {
                continue;
            }
            return if rule.is_negated { Verdict::Kept } else { Verdict::Ignored };
        }
        Verdict::Open
    }
}

/// Without the spaces at its end that are not escaped.
fn trimmed(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < line.len() {
        let own = line[at];
        at += if own == b'\\' { 2 } else { 1 };
        if own != b' ' {
            end = at.min(line.len());
        }
    }
    &line[..end]
}

fn is_plain(text: &[u8]) -> bool {
    !text.iter().any(|byte| b"*?[\\".contains(byte))
}

impl Rule {
    fn read(line: &[u8]) -> Option<Rule> {
        let (is_negated, line) = match line.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (only_folders, line) = match line.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        if line.is_empty() {
            return None;
        }
        let shape = if line.contains(&b'/') {
            Shape::Path(segments(line.strip_prefix(b"/").unwrap_or(line)))
        } else if is_plain(line) {
            Shape::Name(line.to_vec())
        } else if let Some(ending) = line.strip_prefix(b"*").filter(|rest| is_plain(rest)) {
            Shape::Ending(ending.to_vec())
        } else {
            Shape::Pattern(line.to_vec())
        };
        Some(Rule { is_negated, only_folders, shape })
    }
}

fn segments(path: &[u8]) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let is_any = part.len() > 1 && part.iter().all(|byte| *byte == b'*');
        // An escaped slash is one, too.
        let escapes = part.iter().rev().take_while(|byte| **byte == b'\\').count();
        let is_escaped = escapes % 2 == 1 && parts.peek().is_some();
        let part = if is_escaped { &part[..part.len() - 1] } else { part };
        match part {
            _ if is_any && matches!(segments.last(), Some(Segment::Any)) => {}
            _ if is_any => segments.push(Segment::Any),
            _ if is_plain(part) => segments.push(Segment::Plain(part.to_vec())),
            _ => segments.push(Segment::Pattern(part.to_vec())),
        }
    }
    // `a/**` is everything in `a`, and not `a` itself.
    if matches!(segments.last(), Some(Segment::Any)) {
        segments.push(Segment::Pattern(b"*".to_vec()));
    }
    segments
}

impl Shape {
    fn fits(&self, place: &Place<'_>, steps: &mut u64) -> bool {
        match self {
            Shape::Name(name) => place.name == name,
            Shape::Ending(ending) => place.name.ends_with(ending),
            Shape::Pattern(pattern) => pattern_fits(pattern, place.name, steps),
            Shape::Path(segments) => path_fits(segments, place, steps),
        }
    }
}

impl Segment {
    fn fits(&self, part: &[u8], steps: &mut u64) -> bool {
        match self {
            Segment::Any => true,
            Segment::Plain(name) => part == name,
            Segment::Pattern(pattern) => pattern_fits(pattern, part, steps),
        }
    }
}

/// Only the last `**` is ever tried again: an earlier one could not do better.
fn path_fits(segments: &[Segment], place: &Place<'_>, steps: &mut u64) -> bool {
    let (mut segment, mut part) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    loop {
        *steps += 1;
        match segments.get(segment) {
            Some(Segment::Any) => {
                segment += 1;
                again = Some((segment, part));
                continue;
            }
            None if part == place.len() => return true,
            Some(own) if part < place.len() && own.fits(place.part(part), steps) => {
                (segment, part) = (segment + 1, part + 1);
                continue;
            }
            _ => {}
        }
        match again {
            Some((after, from)) if from < place.len() => {
                again = Some((after, from + 1));
                (segment, part) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// A name against a pattern with `*`, `?`, `[…]` and `\`. As above, only the last `*` is tried again.
fn pattern_fits(pattern: &[u8], name: &[u8], steps: &mut u64) -> bool {
    let (mut at, mut byte) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    loop {
        *steps += 1;
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            again = Some((at, byte));
            continue;
        }
        let Some(&own) = name.get(byte) else { return at == pattern.len() };
        if let Some(length) = one_fits(&pattern[at..], own, steps) {
            (at, byte) = (at + length, byte + 1);
            continue;
        }
        let Some((after, from)) = again else { return false };
        again = Some((after, from + 1));
        (at, byte) = (after, from + 1);
    }
}

/// The length of the pattern's next element, where it stands for this byte.
fn one_fits(pattern: &[u8], byte: u8, steps: &mut u64) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'\\' => (*pattern.get(1)? == byte).then_some(2),
        b'[' => {
            let (length, fits) = class_fits(pattern, byte)?;
            *steps += length as u64;
            fits.then_some(length)
        }
        own => (own == byte).then_some(1),
    }
}

/// The length of `[…]`, and whether the byte is one of it. `None`: it is not closed.
fn class_fits(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    let is_negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if is_negated { 2 } else { 1 };
    let mut at = start;
    let mut fits = false;
    loop {
        match *pattern.get(at)? {
            b']' if at > start => return Some((at + 1, fits != is_negated)),
            b'[' if pattern.get(at + 1) == Some(&b':') => {
                let rest = &pattern[at + 2..];
                let end = rest.windows(2).position(|own| own == b":]")?;
                fits |= is_of_kind(&rest[..end], byte)?;
                at += end + 4;
                continue;
            }
            _ => {}
        }
        let (low, next) = literal(pattern, at)?;
        let is_range = pattern.get(next) == Some(&b'-')
            && pattern.get(next + 1).is_some_and(|own| *own != b']');
        let (high, next) = if is_range { literal(pattern, next + 1)? } else { (low, next) };
        fits |= (low..=high).contains(&byte);
        at = next;
    }
}

/// A byte of a class, and where the next one is.
fn literal(pattern: &[u8], at: usize) -> Option<(u8, usize)> {
    match *pattern.get(at)? {
        b'\\' => Some((*pattern.get(at + 1)?, at + 2)),
        own => Some((own, at + 1)),
    }
}

fn is_of_kind(name: &[u8], byte: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}
