//! What is wrong with a text, exactly: file, line, column, the text found, what was expected and
//! the nearest right word. Every parser of this crate answers with these and with nothing else.
//! Rendering to a terminal happens in the front end; `text` is the one-line form in a language, and
//! `Display` the English one.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::messages::{Language, LocalizedText};
use crate::text;

/// Where something stands in a text; both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    pub const START: Place = Place { line: 1, column: 1 };

    /// The place of a byte offset. An offset inside a character counts as that character.
    pub fn of(source: &str, offset: usize) -> Place {
        let before = &source.as_bytes()[..offset.min(source.len())];
        // A byte order mark is not a column.
        let bom = if source.starts_with('\u{feff}') {
            '\u{feff}'.len_utf8().min(before.len())
        } else {
            0
        };
        let (mut line, mut line_start) = (1, bom);
        for at in memchr::memchr2_iter(b'\n', b'\r', before) {
            let is_crlf = before[at] == b'\r' && source.as_bytes().get(at + 1) == Some(&b'\n');
            if !is_crlf {
                line += 1;
                line_start = at + 1;
            }
        }
        let is_char_start = |byte: &&u8| (**byte & 0xC0) != 0x80;
        let column = before[line_start..].iter().filter(is_char_start).count() + 1;
        Place { line, column: u32::try_from(column).unwrap_or(u32::MAX) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    /// Worth a person's look; stops nothing.
    Warning,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// A stable name for programs, such as `verdict-unknown`.
    pub code: &'static str,
    pub severity: Severity,
    /// The file, where more than one could be meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// What happened, in one sentence without a full stop.
    #[schemars(with = "String")]
    pub message: LocalizedText,
    /// The text that stands there, escaped and cut for the screen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub expected: Option<LocalizedText>,
    /// The nearest right word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
}

impl Problem {
    /// A problem that is always explained in English, unless the message is a `LocalizedText`.
    pub fn new(code: &'static str, message: impl Into<LocalizedText>) -> Problem {
        Problem {
            code,
            severity: Severity::Error,
            file: None,
            place: None,
            message: message.into(),
            found: None,
            expected: None,
            did_you_mean: None,
        }
    }

    /// A problem that a model can be told of, in the language of its pack.
    pub fn localized(code: &'static str, message: impl Fn(Language) -> String) -> Problem {
        Problem::new(code, LocalizedText::new(message))
    }

    pub fn warning(code: &'static str, message: impl Into<LocalizedText>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::new(code, message) }
    }

    #[must_use]
    pub fn at(mut self, place: Place) -> Problem {
        self.place = Some(place);
        self
    }

    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Problem {
        self.file.get_or_insert_with(|| file.into());
        self
    }

    #[must_use]
    pub fn found(mut self, raw: &str) -> Problem {
        self.found = Some(text::shown(raw, 80));
        self
    }

    #[must_use]
    pub fn expected(mut self, expected: impl Into<LocalizedText>) -> Problem {
        self.expected = Some(expected.into());
        self
    }

    /// As `expected`, in every language.
    #[must_use]
    pub fn expecting(self, expected: impl Fn(Language) -> String) -> Problem {
        self.expected(LocalizedText::new(expected))
    }

    /// `expected` becomes the list, `did_you_mean` the word of it nearest to `word`.
    #[must_use]
    pub fn one_of<S: AsRef<str>>(mut self, word: &str, candidates: &[S]) -> Problem {
        self.did_you_mean = nearest(word, candidates).map(str::to_owned);
        self.expecting(|language| match candidates {
            [] => language.nothing_here(),
            [only] => format!("`{}`", only.as_ref()),
            more => language.one_of(list_in(language, more)),
        })
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl Problem {
    /// The problem in one line.
    pub fn text(&self, language: Language) -> String {
        let mut out = match (&self.file, self.place) {
            (Some(file), Some(at)) => language.problem_in_file_at(file, at.line, at.column),
            (Some(file), None) => language.problem_in_file(file),
            (None, Some(at)) => language.problem_at(at.line, at.column),
            (None, None) => String::new(),
        };
        if self.severity == Severity::Warning {
            out.push_str(&language.problem_warning());
        }
        out.push_str(self.message.text(language));
        if let Some(expected) = &self.expected {
            out.push_str(&language.problem_expected(expected.text(language)));
        }
        if let Some(word) = &self.did_you_mean {
            out.push_str(&language.problem_meant(word));
        }
        out
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text(Language::English))
    }
}

/// `a`, `b`, `c`: at most twelve, the rest counted.
pub fn list<S: AsRef<str>>(words: &[S]) -> String {
    list_in(Language::English, words)
}

/// As `list`, in a language.
pub fn list_in<S: AsRef<str>>(language: Language, words: &[S]) -> String {
    const SHOWN: usize = 12;
    let mut out: Vec<String> = words
        .iter()
        .take(SHOWN)
        .map(|word| format!("`{}`", text::shown(word.as_ref(), 60)))
        .collect();
    if words.len() > SHOWN {
        out.push(language.more_words(words.len() - SHOWN));
    }
    language.list(&out)
}

/// The candidate that a person or a model most likely meant, if one is near enough to say so.
pub fn nearest<'a, S: AsRef<str>>(word: &str, candidates: &'a [S]) -> Option<&'a str> {
    // Longer words are prose, not typing errors; the distance below is quadratic.
    const LONGEST: usize = 64;
    let plain = |text: &str| -> Vec<char> {
        text.chars()
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .take(LONGEST + 1)
            .collect()
    };
    let wanted = plain(word);
    if wanted.is_empty() || wanted.len() > LONGEST {
        return None;
    }
    // `yes | no` or `yes, mostly` is not a misspelling of `yes`.
    let is_several = |text: &str| {
        text.trim().contains(|c: char| c.is_whitespace() || matches!(c, '|' | '/' | ','))
    };
    let score = |candidate: &str| -> Option<usize> {
        if is_several(word) && !is_several(candidate) {
            return None;
        }
        let candidate = plain(candidate);
        if candidate.is_empty() || candidate.len() > LONGEST {
            return None;
        }
        if candidate == wanted {
            return Some(0);
        }
        let (short, long) = if candidate.len() < wanted.len() {
            (&candidate, &wanted)
        } else {
            (&wanted, &candidate)
        };
        let distance = edit_distance(&wanted, &candidate);
        let near =
            distance <= (wanted.len().max(candidate.len()) / 3).max(1) && distance < short.len();
        let continued = short.len() >= 3 && long.starts_with(short);
        (near || continued).then_some(distance)
    };
    candidates
        .iter()
        .map(AsRef::as_ref)
        .filter_map(|candidate| score(candidate).map(|distance| (distance, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours, each counted once.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut two_up = vec![0; b.len() + 1];
    let mut up: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = up[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(up[j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                row[j] = row[j].min(two_up[j - 2] + 1);
            }
        }
        two_up = std::mem::replace(&mut up, row);
    }
    up[b.len()]
}
