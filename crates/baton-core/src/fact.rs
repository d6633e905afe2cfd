//! What an agent may need again from a text: names of files, identifiers, numbers, hashes, whole
//! lines. Goes in: any text. Comes out: its facts, by shape alone, so that two programs that read
//! the same text agree on them. The folding picks what a stub keeps by them, and the lab measures by
//! them what a policy forgets.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A fact, by the hash of its class and its words: texts are megabytes, and most of their facts are
/// only ever compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fact(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The last part of a path, with an ending that source trees have.
    File,
    /// Six or more characters with a `_` inside, a change of case, or a digit.
    Identifier,
    /// Three to seven digits, not a multiple of ten.
    Number,
    /// Seven to forty hexadecimal digits, known by the first seven.
    Hash,
    /// Sixteen or more characters, without the number that a tool put before it.
    Line,
}

impl Fact {
    pub fn new(class: Class, words: &str) -> Fact {
        // Its keys are fixed: the same words have the same hash in every process.
        let mut hasher = DefaultHasher::new();
        (class, words).hash(&mut hasher);
        Fact(hasher.finish())
    }
}

const ENDINGS: [&str; 41] = [
    "py", "rs", "go", "java", "kt", "ts", "tsx", "js", "jsx", "mjs", "md", "json", "jsonl", "toml",
    "yaml", "yml", "sh", "c", "cc", "cpp", "h", "hpp", "cu", "cuh", "txt", "lock", "cfg", "ini",
    "xml", "gradle", "html", "css", "sql", "rb", "swift", "proto", "mod", "sum", "log", "diff",
    "patch",
];

/// A line shorter than this is told by too many files.
const LINE: usize = 16;

/// Every fact of the text, each once, in the order of their hashes.
pub fn of(text: &str) -> Vec<Fact> {
    let mut facts = Vec::new();
    each_word(text, |class, words| facts.push(Fact::new(class, words)));
    facts.extend(text.split('\n').filter_map(of_line));
    facts.sort_unstable();
    facts.dedup();
    facts
}

/// The facts that are words, in the order of the text, as often as they stand there.
///
/// By bytes: sessions are read by it whole, many times over, and every fact is ASCII.
pub fn each_word<'a>(text: &'a str, mut tell: impl FnMut(Class, &'a str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is_first(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && (is_first(bytes[at]) || is_joint(bytes[at])) {
            at += 1;
        }
        // The end of a sentence, not of a name.
        let mut end = at;
        while is_joint(bytes[end - 1]) {
            end -= 1;
        }
        if is_file(&bytes[start..end]) {
            tell(Class::File, &text[start..end]);
        }
        let mut from = start;
        for to in start..=end {
            if to < end && !is_joint(bytes[to]) {
                continue;
            }
            match class_of(&text[from..to]) {
                Some(Class::Hash) => tell(Class::Hash, &text[from..from + 7]),
                Some(class) => tell(class, &text[from..to]),
                None => {}
            }
            from = to + 1;
        }
    }
}

fn is_first(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// What joins the parts of a name.
fn is_joint(byte: u8) -> bool {
    matches!(byte, b'.' | b'-')
}

fn is_file(token: &[u8]) -> bool {
    let dot = token.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0);
    dot.is_some_and(|dot| ENDINGS.iter().any(|ending| ending.as_bytes() == &token[dot + 1..]))
}

/// Of a word without dots and dashes.
pub fn class_of(word: &str) -> Option<Class> {
    let bytes = word.as_bytes();
    let length = bytes.len();
    if length < 3 {
        return None;
    }
    if bytes.iter().all(u8::is_ascii_digit) {
        return (length <= 7 && bytes[length - 1] != b'0').then_some(Class::Number);
    }
    if is_hash(bytes) {
        return Some(Class::Hash);
    }
    (length >= 6 && is_identifier(bytes)).then_some(Class::Identifier)
}

fn is_hash(bytes: &[u8]) -> bool {
    (7..=40).contains(&bytes.len())
        && bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().any(u8::is_ascii_alphabetic)
}

fn is_identifier(bytes: &[u8]) -> bool {
    let is_letter = |byte: &u8| *byte != b'_';
    let (first, last) = (bytes.iter().position(is_letter), bytes.iter().rposition(is_letter));
    let has_inner = first.zip(last).is_some_and(|(first, last)| bytes[first..last].contains(&b'_'));
    let turns = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    has_inner
        || bytes.windows(2).any(turns)
        || (bytes[0].is_ascii_alphabetic() && bytes.iter().any(u8::is_ascii_digit))
}

/// The line as a fact, if it is long enough to be one.
pub fn of_line(line: &str) -> Option<Fact> {
    let bare = bare(line);
    (bare.len() >= LINE && bare.chars().nth(LINE - 1).is_some())
        .then(|| Fact::new(Class::Line, bare))
}

/// A line without the number that a tool put before it, and without space around it.
pub fn bare(line: &str) -> &str {
    numbered(line).map_or(line, |(_, rest)| rest).trim_matches(is_space)
}

/// The number that a tool put before a line, and what stands behind it.
pub fn numbered(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches(is_space);
    let end = line.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
    let (number, rest) = line.split_at(end);
    Some((number, rest.strip_prefix(['\u{2192}', '\t', ':', '|'])?))
}

/// The separators of ASCII count, as they do elsewhere.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}
