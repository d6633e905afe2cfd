//! Lines of files that are in the conversation word for word, so that a file that is read again need
//! not be sent again. Goes in: the readings as they are sent, in their order. Comes out: a reading
//! with references in it, `[lines 32-39: same as o1 lines 31-38]`. Each stands for an unbroken run of
//! lines that one earlier reading, still in the same request, shows in the same order. Putting those
//! lines back gives what was read, byte for byte.

use std::hash::{DefaultHasher, Hash, Hasher};

use indexmap::IndexMap;

use crate::fact;
use crate::id::ObservationId;

/// The fewest lines that a reference stands for.
const FEWEST: usize = 4;
/// Fewer characters are not worth one.
const SHORTEST: usize = 100;
/// Places that are looked at for the longest run.
const PLACES: usize = 16;

/// A line with the number that the tool put before it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    number: u64,
    /// With its number, as it stands there.
    whole: Box<str>,
    /// The end of the number.
    end: usize,
}

impl Line {
    fn of(whole: &str) -> Option<Line> {
        let (digits, _) = fact::numbered(whole)?;
        let end = whole.find(digits)? + digits.len();
        Some(Line { number: digits.parse().ok()?, whole: whole.into(), end })
    }

    fn text(&self) -> &str {
        &self.whole[self.end..]
    }

    /// True if this line with the other's number is the other.
    fn gives(&self, other: &Line) -> bool {
        let is_padded = self.whole.starts_with(' ');
        let width = if is_padded { self.end } else { 0 };
        self.text() == other.text()
            && other.whole[..other.end] == format!("{:>width$}", other.number)
    }
}

/// A reading that is in the conversation.
#[derive(Debug, Clone)]
struct Source {
    id: ObservationId,
    lines: Vec<Line>,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Same {
    sources: Vec<Source>,
    /// The beginning of each run of the fewest lines: the reading, and the place in it.
    runs: IndexMap<u64, Vec<(usize, usize)>>,
}

impl Same {
    /// A reading as it is sent.
    pub(super) fn add(&mut self, id: ObservationId, sent: &str) {
        let lines: Vec<Line> = sent.split('\n').filter_map(Line::of).collect();
        let own = self.sources.len();
        for (at, run) in lines.windows(FEWEST).enumerate() {
            self.runs.entry(key(run)).or_default().push((own, at));
        }
        self.sources.push(Source { id, lines });
    }

    /// A reading with references, if there is anything to refer to.
    pub(super) fn referred(&self, text: &str) -> Option<String> {
        let raw: Vec<&str> = text.split('\n').collect();
        let lines: Vec<Option<Line>> = raw.iter().map(|line| Line::of(line)).collect();
        let mut out: Vec<String> = Vec::new();
        let mut is_any = false;
        let mut at = 0;
        while at < raw.len() {
            match self.longest(&lines[at..]) {
                Some((id, first, count)) if is_worth(&raw[at..at + count]) => {
                    let own = lines[at].as_ref().map_or(0, |line| line.number);
                    let last = count as u64 - 1;
                    out.push(format!(
                        "[lines {own}-{}: same as {id} lines {first}-{}]",
                        own + last,
                        first + last
                    ));
                    is_any = true;
                    at += count;
                }
                _ => {
                    out.push(raw[at].to_owned());
                    at += 1;
                }
            }
        }
        is_any.then(|| out.join("\n"))
    }

    /// The longest run that begins here: where it stands, its first line there, and how many.
    fn longest(&self, lines: &[Option<Line>]) -> Option<(ObservationId, u64, usize)> {
        let first: Vec<&Line> = lines.iter().take(FEWEST).map_while(Option::as_ref).collect();
        if first.len() < FEWEST {
            return None;
        }
        let places = self.runs.get(&key_of(first.iter().map(|line| line.text())))?;
        let mut best: Option<(ObservationId, u64, usize)> = None;
        for (source, at) in places.iter().rev().take(PLACES) {
            let source = &self.sources[*source];
            let count = run(&source.lines[*at..], lines);
            if count >= FEWEST && best.is_none_or(|best| count > best.2) {
                best = Some((source.id, source.lines[*at].number, count));
            }
        }
        best
    }
}

/// Lines that are the same from here on, in both without a gap.
fn run(source: &[Line], lines: &[Option<Line>]) -> usize {
    let follows = |lines: &[u64; 2]| lines[0].checked_add(1) == Some(lines[1]);
    let mut last: Option<[u64; 2]> = None;
    let pairs = source.iter().zip(lines).take_while(|(own, line)| {
        let Some(line) = line else { return false };
        let is_next = last
            .is_none_or(|last| follows(&[last[0], own.number]) && follows(&[last[1], line.number]));
        last = Some([own.number, line.number]);
        is_next && own.gives(line)
    });
    pairs.count()
}

fn is_worth(lines: &[&str]) -> bool {
    lines.iter().map(|line| line.len() + 1).sum::<usize>() >= SHORTEST
}

fn key(run: &[Line]) -> u64 {
    key_of(run.iter().map(Line::text))
}

fn key_of<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    texts.for_each(|text| text.hash(&mut hasher));
    hasher.finish()
}

/// One of the two may be only the end of the path.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let ends = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    ends(one, other) || ends(other, one)
}
