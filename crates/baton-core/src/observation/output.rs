//! What a command said, in few lines: the lines that tell of faults with the details below them,
//! totals, warnings, places in files, and the last lines; in their order, with their numbers. It
//! reads what compilers and test programs of many languages print, and trusts none of them: an
//! output that it does not understand keeps its first and last lines.

use std::collections::BTreeSet;

use super::cut;
use super::shorten::{LINE, cut_line};
use crate::fact;
use crate::id::ObservationId;
use crate::messages::Language;
use crate::text;

/// The most lines of a summary; an output that is no longer stays.
const MOST: usize = 30;
/// The last ones, which stay whatever they say.
const LAST: usize = 10;
const FIRST: usize = 3;
const TOTALS: usize = 5;
/// Lines of an error output.
const TAIL: usize = 20;
/// Of those before them, the ones that tell of faults.
const EARLIER: usize = 10;
/// A fault's details stand in the few lines below it.
const DETAILS: usize = 4;
const REACH: usize = 8;

/// What a line tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fault,
    Warning,
    /// A file and a line.
    Place,
    /// Belongs to a fault above it: `left: 1`, `Expected: 2`.
    Detail,
    Plain,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    kind: Kind,
    /// `12 passed; 3 failed` is a fault, too.
    is_total: bool,
}

/// The output, shortened, and what was left out of it. `cut`: the result, if lines are left out of it
/// already.
pub(super) fn summary(
    raw: &str,
    cut: Option<ObservationId>,
    language: Language,
) -> (String, Option<String>) {
    let plain = text::stripped(raw);
    let lines: Vec<&str> = plain.lines().collect();
    if lines.len() <= MOST {
        return cut_all(&lines, &plain, language);
    }
    let looks: Vec<Look> = lines.iter().map(|line| look(line)).collect();
    let mut choice = Choice { lines: &lines, looks: &looks, chosen: BTreeSet::new(), most: MOST };
    choice.last();
    choice.totals();
    choice.faults();
    choice.all_of(Kind::Warning);
    choice.all_of(Kind::Place);
    for at in 0..FIRST {
        choice.add(at);
    }
    let faults = choice.left(Kind::Fault);
    let kept = choice.chosen;
    // The numbers of the whole output, also where the model saw only a part of it.
    let numbers = cut::numbers(&lines, cut);
    let total = numbers.last().map_or(0, |(_, last)| *last);
    let mut out = format!("[{total} lines");
    if faults > 0 {
        out.push_str(&format!("; {faults} more with errors are not shown"));
    }
    out.push(']');
    for at in &kept {
        out.push('\n');
        out.push_str(&with_number(numbers[*at].0, lines[*at]));
    }
    (out, Some(language.more_lines(total.saturating_sub(kept.len() as u64))))
}

/// The first and the last line, totals and the first faults; in their order, with their numbers.
pub(super) fn telling(raw: &str, cut: Option<ObservationId>, is_numbered: bool) -> Vec<String> {
    const FEW: usize = 5;
    /// One line in four stays.
    const PART: usize = 4;
    let lines: Vec<&str> = raw.split('\n').collect();
    let looks: Vec<Look> = lines.iter().map(|line| look(line)).collect();
    let most = FEW.min(lines.len() / PART);
    let mut choice = Choice { lines: &lines, looks: &looks, chosen: BTreeSet::new(), most };
    let mut filled = (0..lines.len()).filter(|at| !text::is_blank(lines[*at]));
    choice.chosen.extend(filled.next());
    choice.chosen.extend(filled.next_back());
    choice.totals();
    choice.faults();
    if is_numbered {
        return choice.chosen.iter().map(|at| cut_line(lines[*at], LINE)).collect();
    }
    let numbers = cut::numbers(&lines, cut);
    choice.chosen.iter().map(|at| with_number(numbers[*at].0, lines[*at])).collect()
}

/// The last total (`true`), else the last line.
pub(super) fn outcome(raw: &str) -> Option<(&str, bool)> {
    let mut filled = raw.lines().rev().filter(|line| !text::is_blank(line));
    let last = filled.clone().next().map(|line| (line, false));
    filled.find(|line| look(line).is_total).map(|line| (line, true)).or(last)
}

/// A line with its number before it, as far as it does not begin with that number itself.
fn with_number(number: u64, line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let shown = cut_line(line, LINE);
    match fact::numbered(line) {
        Some((own, _)) if own.trim().parse() == Ok(number) => shown,
        _ => format!("{number}\t{shown}"),
    }
}

/// The last lines of an error output, shortened, and what was left out of it.
pub(super) fn tail(raw: &str, language: Language) -> (String, Option<String>) {
    let plain = text::stripped(raw);
    let lines: Vec<&str> = plain.lines().collect();
    if lines.len() <= TAIL {
        return cut_all(&lines, &plain, language);
    }
    let gone = lines.len() - TAIL;
    let kept: Vec<String> = lines[gone..].iter().map(|line| cut_line(line, LINE)).collect();
    (kept.join("\n"), Some(language.more_lines_before(gone)))
}

/// The faults that `tail` cuts off: compilers name the first cause first.
pub(super) fn earlier(raw: &str) -> Option<String> {
    let plain = text::stripped(raw);
    let lines: Vec<&str> = plain.lines().collect();
    let lines = &lines[..lines.len().saturating_sub(TAIL)];
    let looks: Vec<Look> = lines.iter().map(|line| look(line)).collect();
    let mut choice = Choice { lines, looks: &looks, chosen: BTreeSet::new(), most: EARLIER };
    choice.faults();
    let said = |at: &usize| cut_line(lines[*at], LINE);
    let kept: Vec<String> = choice.chosen.iter().map(said).collect();
    (!kept.is_empty()).then(|| kept.join("\n"))
}

/// All lines, the long ones cut.
fn cut_all(lines: &[&str], plain: &str, language: Language) -> (String, Option<String>) {
    let kept: Vec<String> = lines.iter().map(|line| cut_line(line, LINE)).collect();
    match kept == lines {
        true => (plain.to_owned(), None),
        false => (kept.join("\n"), Some(language.long_lines_cut())),
    }
}

/// Which lines stay.
struct Choice<'a> {
    lines: &'a [&'a str],
    looks: &'a [Look],
    chosen: BTreeSet<usize>,
    most: usize,
}

impl Choice<'_> {
    fn add(&mut self, at: usize) {
        if self.chosen.len() < self.most && !text::is_blank(self.lines[at]) {
            self.chosen.insert(at);
        }
    }

    fn last(&mut self) {
        let filled = (0..self.lines.len()).rev().filter(|at| !text::is_blank(self.lines[*at]));
        self.chosen.extend(filled.take(LAST));
    }

    /// The last ones sum up the others.
    fn totals(&mut self) {
        let totals = (0..self.lines.len()).rev().filter(|at| self.looks[*at].is_total);
        for at in totals.take(TOTALS).collect::<Vec<_>>() {
            self.add(at);
        }
    }

    /// From the first on, since later ones often follow from it; each with its details. The same
    /// line again says nothing new.
    fn faults(&mut self) {
        let mut said = BTreeSet::new();
        for at in 0..self.lines.len() {
            if self.looks[at].kind != Kind::Fault || !said.insert(self.lines[at].trim()) {
                continue;
            }
            if let Some(heading) = self.heading(at) {
                self.add(heading);
            }
            self.add(at);
            let below = at + 1..self.lines.len().min(at + 1 + REACH);
            let own = below.take_while(|at| self.looks[*at].kind != Kind::Fault);
            let is_detail = |at: &usize| matches!(self.looks[*at].kind, Kind::Detail | Kind::Place);
            for detail in own.filter(is_detail).take(DETAILS).collect::<Vec<_>>() {
                self.add(detail);
            }
            if self.chosen.len() >= self.most {
                return;
            }
        }
    }

    /// A list such as `  5:3  error  …` stands under the name of its file.
    fn heading(&self, at: usize) -> Option<usize> {
        const REACH_UP: usize = 100;
        let line = self.lines[at];
        let is_entry = line.starts_with(' ')
            && line.trim_start().split(' ').next().is_some_and(|first| {
                first.contains(':') && first.bytes().all(|b| b.is_ascii_digit() || b == b':')
            });
        let is_heading = |at: &usize| {
            let line = self.lines[*at];
            !line.starts_with([' ', '\t']) && !text::is_blank(line)
        };
        let found = (at.saturating_sub(REACH_UP)..at).rev().find(is_heading);
        found.filter(|_| is_entry)
    }

    fn all_of(&mut self, kind: Kind) {
        let mut said = BTreeSet::new();
        for at in 0..self.lines.len() {
            if self.looks[at].kind == kind && said.insert(self.lines[at].trim()) {
                self.add(at);
            }
        }
    }

    /// Different lines of a kind that did not get in.
    fn left(&self, kind: Kind) -> usize {
        let own = |at: &usize| self.looks[*at].kind == kind;
        let all = (0..self.lines.len()).filter(own).map(|at| self.lines[at].trim());
        let shown = self.chosen.iter().map(|at| self.lines[*at].trim());
        all.collect::<BTreeSet<_>>().difference(&shown.collect()).count()
    }
}

fn look(line: &str) -> Look {
    // What a line is shows at its beginning.
    const LOOKED_AT: usize = 400;
    let line = text::cut(line, LOOKED_AT);
    let lower = line.trim().to_lowercase();
    let plain = |kind| Look { kind, is_total: false };
    if lower.is_empty() || is_quiet(&lower) {
        return plain(Kind::Plain);
    }
    // A path or an identifier is one word: `src/error.rs` tells of no fault.
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '\\' | '-');
    let words: Vec<&str> = line
        .split(|c| !is_part(c))
        .map(|word| word.trim_matches(['.', '/', '-']))
        .filter(|word| !word.is_empty())
        .collect();
    let is_total = is_total(&lower, &words);
    // pytest marks the lines that explain with an E.
    if is_fault(&lower, &words) || line.starts_with("E  ") {
        return Look { kind: Kind::Fault, is_total };
    }
    if is_total {
        return Look { kind: Kind::Plain, is_total };
    }
    if counted(&words, |word| is_one_of("warning warnings warn deprecated", word))
        || lower.contains("警告")
    {
        return plain(Kind::Warning);
    }
    if is_detail(&lower) {
        return plain(Kind::Detail);
    }
    plain(if holds_place(&lower) { Kind::Place } else { Kind::Plain })
}

/// Lines that name something good and may hold any word in that name.
fn is_quiet(lower: &str) -> bool {
    const BEGIN: [&str; 14] = [
        "ok ",
        "ok\t",
        "✓",
        "✔",
        "√",
        "compiling ",
        "checking ",
        "downloading ",
        "downloaded ",
        "fresh ",
        "running ",
        "installing ",
        "collecting ",
        "--- pass",
    ];
    const COUNTS: [&str; 4] = ["test result:", "tests: ", "test suites:", "tests run"];
    let name = lower.trim_start_matches(|c: char| !c.is_alphanumeric());
    let is_count = name.starts_with(|c: char| c.is_ascii_digit())
        || COUNTS.iter().any(|count| name.starts_with(count));
    let is_good =
        lower.ends_with("... ok") || lower.ends_with(" passed") || lower.contains(" passed [");
    BEGIN.iter().any(|begin| lower.starts_with(begin)) || (is_good && !is_count)
}

fn is_fault(lower: &str, words: &[&str]) -> bool {
    const PHRASES: [&str; 9] = [
        "not found",
        "no such file",
        "not defined",
        "timed out",
        "not ok ",
        "cannot find",
        "错误",
        "失败",
        "异常",
    ];
    const MARKS: [&str; 5] = ["✗", "✘", "✕", "× ", "● "];
    const WORDS: &str = "error errors err fail fails failed failure failures failing panic panicked \
                         exception traceback fatal abort aborted segfault segmentation unresolved \
                         denied killed assertion";
    // `TypeError`, `java.io.IOException`, but not a package such as `thiserror`.
    let is_named =
        |word: &str| ["Error", "Errors", "Exception"].iter().any(|end| word.ends_with(end));
    counted(words, |word| is_named(word) || is_one_of(WORDS, word))
        || PHRASES.iter().any(|phrase| lower.contains(phrase))
        || MARKS.iter().any(|mark| lower.starts_with(mark))
}

/// In any case; the words are split by spaces.
fn is_one_of(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|own| own.eq_ignore_ascii_case(word))
}

/// Whether such a word stands there and is not counted as none: `0 failed`, `errors: 0`.
fn counted(words: &[&str], is_word: impl Fn(&str) -> bool) -> bool {
    let is_none = |at: usize| words.get(at).is_some_and(|word| *word == "0");
    let said_no = |at: usize| is_none(at) || words[at].eq_ignore_ascii_case("no");
    (0..words.len())
        .any(|at| is_word(words[at]) && !is_none(at + 1) && !(at > 0 && said_no(at - 1)))
}

fn is_total(lower: &str, words: &[&str]) -> bool {
    const BEGIN: [&str; 9] = [
        "test result:",
        "tests: ",
        "test suites:",
        "total",
        "summary",
        "ran ",
        "found ",
        "finished",
        "coverage",
    ];
    const THINGS: &str = "passed failed failures errors error warnings warning problems problem tests \
                          skipped passing failing total examples vulnerabilities";
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    BEGIN.iter().any(|begin| lower.starts_with(begin))
        || words.windows(2).any(|pair| is_number(pair[0]) && is_one_of(THINGS, pair[1]))
}

fn is_detail(lower: &str) -> bool {
    const BEGIN: [&str; 14] = [
        "left:",
        "right:",
        "expected",
        "received",
        "actual",
        "got",
        "want",
        "note:",
        "help:",
        "caused by",
        "at ",
        "e  ",
        "> ",
        "^",
    ];
    BEGIN.iter().any(|begin| lower.starts_with(begin)) || lower.contains("^ ")
}

/// `src/lib.rs:4`, `src/a.ts(5,3)`, `File "a.py", line 3`.
fn holds_place(lower: &str) -> bool {
    if lower.starts_with("file \"") && lower.contains("\", line ") {
        return true;
    }
    let bytes = lower.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    memchr::memchr2_iter(b':', b'(', bytes).any(|at| {
        if !is_digit(at + 1) {
            return false;
        }
        // A name with an ending before it: a time of day has none.
        let name = lower[..at].rsplit([' ', '"', '\'', '(', '[', '\t']).next().unwrap_or_default();
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        ending.is_some_and(|ending| {
            (1..=5).contains(&ending.len())
                && ending.bytes().all(|b| b.is_ascii_alphanumeric())
                && ending.starts_with(|c: char| c.is_ascii_alphabetic())
        })
    })
}
