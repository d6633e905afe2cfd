//! The checker of requests: does a request show what the tools returned? Goes in: the results of a request as they are sent, and what the tools
//! returned. Comes out: for each result, whether it is there whole, cut, as a stub, in its short form,
//! or false, with the place.
//!
//! The text is all that is looked at, by a parser of its own: nothing here is shared with the code
//! that makes the text (`fold`, `thread`, `observation`, `fact`), whose mistakes it would repeat.
//!
//! | form | what has to be true |
//! |---|---|
//! | `[lines A-B: same as oK lines C-D]` | lines C to D are in oK, earlier in this request, one after the other; with the numbers A to B they are what was returned |
//! | `[lines A-B are left out here; Recall oN from=A lines=K]` | exactly these lines are missing here; a header may have more words |
//! | header and `; the file has changed since, …` | the rest as it was returned |
//! | `[folded oN: …` | numbered lines are lines of the result, all other words are in it |
//! | `[oN] …; shortened…` | numbered lines are lines of the result |
//! | anything else | equal to what was returned |

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::id::ObservationId;
use crate::text;

/// The addition that a header may have, in each language.
const STALE: [&str; 2] =
    ["; the file has changed since, these are the old lines", "; 文件后来有改动，以下是旧的行"];

/// The beginning of a stub, before the result's id.
const FOLDED: [&str; 2] = ["[folded", "[已折叠"];

/// What the header of a short form has.
const SHORTENED: [&str; 2] = ["; shortened", "; 已缩短"];

/// The words before the names in a stub.
const NAMES: [&str; 2] = ["names in it, among others: ", "其中的部分名称："];

/// Characters of a quote.
pub const QUOTE: usize = 120;

/// A result as a request has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentResult<'a> {
    pub id: ObservationId,
    pub text: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// With its references expanded, every byte that the tool returned.
    Whole,
    /// Lines are left out, and the text names them.
    Cut,
    /// Folded: what the stub holds is true.
    Stub,
    /// The short form of a finished turn.
    Short,
    False(Falsehood),
}

/// The first place of a result that is not true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Falsehood {
    /// A line of the text that is sent, counted from 1.
    pub line: usize,
    /// That line, at most 120 characters.
    pub quote: String,
    pub reason: String,
}

impl fmt::Display for Falsehood {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {} ({})", self.line, self.quote, self.reason)
    }
}

/// A text in at most 120 characters.
pub fn quote(text: &str) -> String {
    // What cannot be shown takes more characters than it has.
    let shown = text::shown(text, QUOTE);
    match shown.char_indices().nth(QUOTE) {
        Some(_) => shown.chars().take(QUOTE - 1).chain(['…']).collect(),
        None => shown,
    }
}

/// Judges the results of a request, which are given in the order of the request.
pub fn judge<'a, 'r>(
    request: &[SentResult<'a>],
    returned: impl Fn(ObservationId) -> Option<Cow<'r, str>>,
) -> Vec<(ObservationId, Verdict)> {
    let mut reader = Reader::default();
    let verdict = |result: &SentResult<'a>| match returned(result.id) {
        Some(text) => reader.judge(*result, &text),
        None => Verdict::False(Falsehood {
            line: 1,
            quote: quote(result.text),
            reason: format!("no tool returned {}", result.id),
        }),
    };
    request.iter().map(verdict).zip(request).map(|(verdict, own)| (own.id, verdict)).collect()
}

/// Reads the results of one request, one after the other.
#[derive(Debug, Default)]
pub struct Reader<'a> {
    /// Earlier results whose lines a reference may name.
    sources: Vec<Source<'a>>,
}

#[derive(Debug)]
struct Source<'a> {
    result: SentResult<'a>,
    /// Made when the first reference asks for it.
    lines: Option<NumberedLines<'a>>,
}

impl<'a> Reader<'a> {
    /// Judges the next result of the request.
    pub fn judge(&mut self, result: SentResult<'a>, returned: &str) -> Verdict {
        let verdict = self.verdict(result, returned).unwrap_or_else(Verdict::False);
        self.pass(result, &verdict);
        verdict
    }

    /// Goes past the next result, whose verdict is known.
    pub fn pass(&mut self, result: SentResult<'a>, verdict: &Verdict) {
        // A stub shows lines for its own sake: the rest of the result is gone.
        if !matches!(verdict, Verdict::Stub | Verdict::Short) {
            self.sources.push(Source { result, lines: None });
        }
    }

    fn verdict(&mut self, result: SentResult<'a>, returned: &str) -> Result<Verdict, Falsehood> {
        if result.text == returned {
            return Ok(Verdict::Whole);
        }
        let (header, id) = (first_line(result.text), result.id);
        if FOLDED.iter().any(|folded| header.starts_with(&format!("{folded} {id}: "))) {
            check_stub(result.text, returned, id, true)?;
            return Ok(Verdict::Stub);
        }
        let is_short =
            has_header(header, id) && SHORTENED.iter().any(|words| header.contains(words));
        if is_short && header != first_line(returned) {
            check_stub(result.text, returned, id, false)?;
            return Ok(Verdict::Short);
        }
        self.compare(result, returned)
    }

    /// Goes through what is sent and what was returned side by side.
    fn compare(&mut self, result: SentResult<'a>, returned: &str) -> Result<Verdict, Falsehood> {
        let mut rest = Returned::new(returned, result.id);
        let (mut is_cut, mut longer_header) = (false, None);
        for (at, line) in result.text.split('\n').enumerate() {
            let wrong = |reason: String| falsehood(at, line, reason);
            if rest.next_is(line) {
                rest.at += 1;
            } else if at == 0 && rest.header_begins(line) {
                (rest.at, longer_header) = (1, Some(line));
            } else if let Some(reference) = Reference::read(line) {
                self.expand(&reference, &mut rest).map_err(wrong)?;
            } else if let Some(cut) = Cut::read(line) {
                rest.leave_out(&cut).map_err(wrong)?;
                is_cut = true;
            } else {
                return Err(wrong("the tool did not return this here".to_owned()));
            }
        }
        let last = result.text.split('\n').count() - 1;
        if let Some(line) = rest.lines.get(rest.at) {
            return Err(falsehood(last, line, "this line is missing".to_owned()));
        }
        let is_stale = |line: &&str| {
            STALE.iter().any(|stale| line.strip_suffix(stale) == Some(first_line(returned)))
        };
        let longer_header = longer_header.filter(|line| !is_stale(line));
        match (is_cut, longer_header) {
            (true, _) => Ok(Verdict::Cut),
            (false, None) => Ok(Verdict::Whole),
            (false, Some(line)) => Err(falsehood(0, line, "another header".to_owned())),
        }
    }

    /// Compares the lines that a reference stands for with what was returned.
    fn expand(&mut self, reference: &Reference, rest: &mut Returned<'_>) -> Result<(), String> {
        let id = reference.source;
        let source = self.sources.iter_mut().rfind(|own| own.result.id == id);
        let source = source.ok_or_else(|| format!("{id} is not whole earlier in this request"))?;
        let text = source.result.text;
        let lines = source.lines.get_or_insert_with(|| NumberedLines::new(text));
        if reference.own.count() != reference.there.count() {
            return Err("its two ranges differ in length".to_owned());
        }
        let mut line = String::new();
        for (number, from) in (reference.own.first..).zip(lines.run(id, reference.there)?) {
            line.clear();
            from.write_as(number, &mut line);
            if !rest.next_is(&line) {
                return Err(format!("line {number} of the result is another one"));
            }
            rest.at += 1;
        }
        Ok(())
    }
}

fn falsehood(at: usize, line: &str, reason: String) -> Falsehood {
    Falsehood { line: at + 1, quote: quote(line), reason }
}

fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// A line can be the header of this result: `[o12] Read src/a.rs: lines 1-40 of 120`.
fn has_header(line: &str, id: ObservationId) -> bool {
    line.starts_with(&format!("[{id}] "))
}

/// A returned text, and how far it was found in what is sent.
struct Returned<'t> {
    id: ObservationId,
    lines: Vec<&'t str>,
    /// Lines before the first one that has a number: 1 with a header, else 0.
    header: usize,
    /// The next line.
    at: usize,
}

impl<'t> Returned<'t> {
    fn new(text: &'t str, id: ObservationId) -> Returned<'t> {
        let header = usize::from(has_header(first_line(text), id));
        Returned { id, lines: text.split('\n').collect(), header, at: 0 }
    }

    fn next_is(&self, line: &str) -> bool {
        self.lines.get(self.at).is_some_and(|own| *own == line)
    }

    fn header_begins(&self, line: &str) -> bool {
        self.header == 1 && line.starts_with(self.lines[0])
    }

    /// The tool put numbers before its lines. A line that happens to begin with one in the
    /// middle of an output does not make that output numbered.
    fn is_numbered(&self) -> bool {
        self.lines.get(self.header).is_some_and(|line| Numbered::read(line).is_some())
    }

    /// The lines from here on with their numbers, counted from 1. The tool itself may have left lines
    /// out: a mark of its own has the numbers of those.
    fn counted(&self) -> impl Iterator<Item = (usize, (u32, u32))> {
        let mut next = 1_u32;
        let lines = self.lines.iter().enumerate().skip(self.header);
        let counted = lines.map(move |(at, line)| {
            let is_own = |cut: &Cut| cut.of == self.id && cut.lines.first == next;
            let last = Cut::read(line).filter(is_own).map_or(next, |cut| cut.lines.last);
            let first = std::mem::replace(&mut next, last.saturating_add(1));
            (at, (first, last))
        });
        counted.skip_while(|(at, _)| *at < self.at)
    }

    /// The number of entries from here on, a mark counted as one, that are exactly these lines.
    fn place_of(&self, range: Lines) -> Option<usize> {
        let mut lines = self.counted();
        let (start, (first, last)) = lines.next()?;
        let mut end = (start, last);
        while end.1 < range.last {
            let (at, (_, last)) = lines.next()?;
            end = (at, last);
        }
        (first == range.first && end.1 == range.last).then_some(end.0 + 1 - start)
    }

    /// Goes past the lines of a cut.
    fn leave_out(&mut self, cut: &Cut) -> Result<(), String> {
        if cut.of != self.id {
            return Err(format!("this is {}", self.id));
        }
        if (cut.from, cut.count) != (cut.lines.first, cut.lines.count()) {
            return Err("it recalls other lines than it leaves out".to_owned());
        }
        let gone = cut.lines.count() as usize;
        let lines = self.lines.get(self.at..).and_then(|rest| rest.get(..gone));
        let lines = lines.unwrap_or_default();
        let first = lines.first().and_then(|line| Numbered::read(line));
        let is_numbered = is_run(lines.iter().map(|line| Numbered::read(line)));
        if is_numbered && first.is_some_and(|own| own.number == cut.lines.first) {
            self.at += gone;
            return Ok(());
        }
        let has_numbers = is_numbered && self.is_numbered();
        let gone = self.place_of(cut.lines).filter(|_| !has_numbers);
        self.at += gone.ok_or("other lines are missing here")?;
        Ok(())
    }
}

/// Each of these lines has the number after that of the line before.
fn is_run<'t>(lines: impl Iterator<Item = Option<Numbered<'t>>>) -> bool {
    let mut next = None;
    for line in lines {
        match line {
            Some(line) if next.is_none_or(|next| next == line.number) => {
                next = line.number.checked_add(1);
            }
            _ => return false,
        }
    }
    true
}

/// Checks that what a stub or a short form shows is in the result.
fn check_stub(
    stub: &str,
    returned: &str,
    id: ObservationId,
    has_words: bool,
) -> Result<(), Falsehood> {
    let target = first_line(stub);
    let numbered = NumberedLines::new(returned);
    let whole = Returned::new(returned, id);
    for (at, line) in stub.split('\n').enumerate().skip(1) {
        if let Some(own) = Numbered::read(line) {
            if !numbered.has(&own) && !whole.has_at(&own) {
                return Err(falsehood(at, line, "this is not a line of the result".to_owned()));
            }
        } else if has_words && line != ".." {
            let names = NAMES.iter().find_map(|words| line.strip_prefix(words));
            let line = names.unwrap_or(line);
            let is_told = |word: &str| returned.contains(word) || target.contains(word);
            if let Some(word) = line.split_whitespace().find(|word| !is_told(word)) {
                let word = text::shown(word, 40);
                return Err(falsehood(at, line, format!("`{word}` is not in the result")));
            }
        }
    }
    Ok(())
}

impl Returned<'_> {
    /// A line without a number of its own is at this place.
    fn has_at(&self, line: &Numbered<'_>) -> bool {
        let is_there = |(at, (first, last)): (usize, (u32, u32))| {
            first == line.number && last == line.number && is_text(line.text, self.lines[at])
        };
        self.counted().any(is_there)
    }
}

/// True if a text that is shown is this one, or its beginning with the number of missing characters:
/// `… [+120 chars]`. Colours of a terminal and a carriage return at the end of a line are not shown.
fn is_text(shown: &str, own: &str) -> bool {
    begins(shown, own) || begins(shown, &without_escapes(own))
}

fn begins(shown: &str, own: &str) -> bool {
    let own = if shown.ends_with('\r') { own } else { own.trim_end_matches('\r') };
    let cut = || {
        let (start, rest) = shown.rsplit_once("… [+")?;
        let missing: usize = rest.strip_suffix(" chars]")?.parse().ok()?;
        Some(own.strip_prefix(start)?.chars().count() == missing)
    };
    shown == own || cut() == Some(true)
}

/// A text without the sequences that set colours.
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';'));
        out.push_str(end.and_then(|end| part[end..].strip_prefix('m')).unwrap_or(part));
    }
    out
}

/// A line with the number that a tool put before it: `  118→text`.
#[derive(Debug, Clone, Copy)]
struct Numbered<'t> {
    /// Spaces and digits together; 0 where there are no spaces.
    width: usize,
    number: u32,
    separator: char,
    text: &'t str,
}

impl<'t> Numbered<'t> {
    fn read(line: &'t str) -> Option<Numbered<'t>> {
        let rest = line.trim_start_matches(' ');
        let spaces = line.len() - rest.len();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, text) = rest.split_at(digits);
        let separator = text.chars().next().filter(|c| matches!(c, '\t' | '→' | ':' | '|'))?;
        let text = &text[separator.len_utf8()..];
        let width = if spaces == 0 { 0 } else { spaces + digits };
        Some(Numbered { width, number: number_of(number)?, separator, text })
    }

    /// Writes the line as it would be with another number.
    fn write_as(&self, number: u32, out: &mut String) {
        let Numbered { width, separator, text, .. } = self;
        // Writing to a String cannot fail.
        let _ = write!(out, "{number:>width$}{separator}{text}");
    }
}

/// `07` is not a number: it could not be printed again.
fn number_of(digits: &str) -> Option<u32> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_plain && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| is_plain)
}

/// The lines of a text by their numbers.
#[derive(Debug)]
struct NumberedLines<'t> {
    lines: Vec<Option<Numbered<'t>>>,
    /// Numbers and the places of their lines, sorted.
    places: Vec<(u32, usize)>,
}

impl<'t> NumberedLines<'t> {
    fn new(text: &'t str) -> NumberedLines<'t> {
        let lines: Vec<Option<Numbered<'t>>> = text.split('\n').map(Numbered::read).collect();
        let numbers = lines.iter().enumerate();
        let mut places: Vec<(u32, usize)> =
            numbers.filter_map(|(at, line)| Some(((*line)?.number, at))).collect();
        places.sort_unstable();
        NumberedLines { lines, places }
    }

    /// The places of the lines that have this number.
    fn places(&self, number: u32) -> impl Iterator<Item = usize> {
        let from = self.places.partition_point(|(own, _)| *own < number);
        let own = self.places[from..].iter().take_while(move |(own, _)| *own == number);
        own.map(|(_, at)| *at)
    }

    fn has(&self, line: &Numbered<'_>) -> bool {
        let at = |at: usize| self.lines[at].as_ref();
        self.places(line.number).filter_map(at).any(|own| is_text(line.text, own.text))
    }

    /// These lines, one after the other.
    fn run(
        &self,
        id: ObservationId,
        lines: Lines,
    ) -> Result<impl Iterator<Item = &Numbered<'t>>, String> {
        let count = lines.count() as usize;
        let own = |at: usize| self.lines.get(at..)?.get(..count);
        let is_unbroken = |own: &&[Option<Numbered<'t>>]| is_run(own.iter().copied());
        let mut runs = self.places(lines.first).filter_map(own).filter(is_unbroken);
        let Lines { first, last } = lines;
        let found =
            runs.next().ok_or_else(|| format!("{id} does not show lines {first}-{last}"))?;
        // Whoever follows a reference has to find one place.
        if runs.any(|other| !is_same(found, other)) {
            return Err(format!("{id} has two places with lines {first}-{last}"));
        }
        Ok(found.iter().flatten())
    }
}

fn is_same(one: &[Option<Numbered<'_>>], other: &[Option<Numbered<'_>>]) -> bool {
    let mut lines = one.iter().flatten().zip(other.iter().flatten());
    lines.all(|(one, other)| one.text == other.text)
}

/// A range of lines, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lines {
    first: u32,
    last: u32,
}

impl Lines {
    /// `32-39`
    fn read(text: &str) -> Option<Lines> {
        let (first, last) = text.split_once('-')?;
        let lines = Lines { first: number_of(first)?, last: number_of(last)? };
        (lines.first <= lines.last && lines.last < u32::MAX).then_some(lines)
    }

    fn count(self) -> u32 {
        self.last - self.first + 1
    }
}

/// `[lines 32-39: same as o1 lines 31-38]`
struct Reference {
    own: Lines,
    source: ObservationId,
    there: Lines,
}

impl Reference {
    fn read(line: &str) -> Option<Reference> {
        let inner = line.strip_prefix("[lines ")?.strip_suffix(']')?;
        let (own, there) = inner.split_once(": same as ")?;
        let (source, there) = there.split_once(" lines ")?;
        let source = ObservationId::new(source).ok()?;
        Some(Reference { own: Lines::read(own)?, source, there: Lines::read(there)? })
    }
}

/// `[lines 5-9 are left out here; Recall o3 from=5 lines=5]`
struct Cut {
    lines: Lines,
    of: ObservationId,
    from: u32,
    count: u32,
}

impl Cut {
    fn read(line: &str) -> Option<Cut> {
        let inner = line.strip_prefix("[lines ")?.strip_suffix(']')?;
        let (lines, recall) = inner.split_once(" are left out here; Recall ")?;
        let (of, recall) = recall.split_once(" from=")?;
        let (from, count) = recall.split_once(" lines=")?;
        let of = ObservationId::new(of).ok()?;
        Some(Cut {
            lines: Lines::read(lines)?,
            of,
            from: number_of(from)?,
            count: number_of(count)?,
        })
    }
}
