//! The text of a recording → sessions, whichever program wrote it: the format is known by what the
//! text holds, never by the name of its file. Recordings are long, written by strangers and often
//! torn at their end: a line that cannot be read is counted and passed over, a text that is none of
//! the formats is refused with its place.
//!
//! `documents` (one JSON value a session), `claude` and `codex` (an event a line), `own` (Baton's
//! transcripts), `value` (reading JSON that may be anything).

mod claude;
mod codex;
mod documents;
mod own;
mod value;

use serde_json::Value;

use super::session::{Message, Session};
use crate::problem::{Place, Problem};

/// Every format, for people.
pub const FORMATS: &str = "a Baton transcript, a Claude Code or Codex `.jsonl`, an SWE-agent `.traj`, a TRAE `trajectory.json`, a list of OpenAI messages, or lines of `{\"id\", \"over\", \"msgs\"}`";

/// What a text held.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    pub sessions: Vec<Session>,
    /// Lines that could not be read.
    pub damaged: usize,
    /// The first of them, with its place.
    pub first_damaged: Option<Problem>,
}

impl Imported {
    fn damage(&mut self, problem: Problem) {
        self.damaged += 1;
        self.first_damaged.get_or_insert(problem);
    }
}

/// Whether a line is a whole session, so that the lines of its file can be read one by one.
pub fn is_session(line: &str) -> bool {
    self::line(line, "").is_ok()
}

/// One line that is a whole session. `name`: of a session that has none of its own.
pub fn line(line: &str, name: &str) -> Result<Session, Problem> {
    documents::read(line, name)
}

/// Whether a text that begins so may be a recording, by its first character that is no space.
pub fn may_be_session(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let head = head.trim_ascii_start();
    matches!(head.first(), Some(b'{' | b'[')) || own::is_frame(head)
}

/// A whole file.
pub fn file(text: &str, name: &str) -> Result<Imported, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if own::is_frame(text.as_bytes()) {
        return own::read(text, name);
    }
    // A document that spans lines has a first line that is no JSON by itself.
    let mut lines = text.split('\n').filter(|line| !line.trim().is_empty());
    let is_one_line = lines.next().is_some_and(|line| value::json(line).is_ok());
    let is_several = is_one_line && lines.next().is_some();
    if !is_several {
        match documents::read(text, name) {
            Ok(session) => return Ok(Imported { sessions: vec![session], ..Imported::default() }),
            // One event alone, or a text whose first line is torn.
            Err(problem) if may_be_session(text.as_bytes()) => {
                return by_lines(text, name).map_err(|_| problem);
            }
            Err(_) => {}
        }
    }
    by_lines(text, name)
}

/// How the lines of a file are to be taken together.
#[derive(Clone, Copy)]
enum Lines {
    Sessions,
    Claude,
    Codex,
}

fn by_lines(text: &str, name: &str) -> Result<Imported, Problem> {
    let kind = numbered(text).find_map(|(_, line)| kind_of(&value::json(line).ok()?));
    match kind {
        Some(Lines::Sessions) => {
            let mut imported = Imported::default();
            for (number, text) in numbered(text) {
                match line(text, name) {
                    Ok(session) => imported.sessions.push(session),
                    Err(problem) => imported.damage(at_line(problem, number)),
                }
            }
            Ok(imported)
        }
        Some(Lines::Claude) => Ok(events(text, claude::Reader::new(name))),
        Some(Lines::Codex) => Ok(events(text, codex::Reader::new(name))),
        None => Err(Problem::new("session-unknown", "this is not a recorded session")
            .at(Place::START)
            .found(text.lines().next().unwrap_or_default())
            .expected(FORMATS)),
    }
}

fn kind_of(line: &Value) -> Option<Lines> {
    if documents::is_one(line) {
        return Some(Lines::Sessions);
    }
    if codex::is_event(line) {
        return Some(Lines::Codex);
    }
    claude::is_event(line).then_some(Lines::Claude)
}

/// A recording of which each line tells one thing that happened.
trait Events {
    /// `Err`: why the line cannot be read.
    fn event(&mut self, line: &Value) -> Result<(), Problem>;
    fn session(self) -> Session;
}

fn events(text: &str, mut reader: impl Events) -> Imported {
    let mut imported = Imported::default();
    for (number, line) in numbered(text) {
        if let Err(problem) = value::json(line).and_then(|line| reader.event(&line)) {
            imported.damage(at_line(problem, number));
        }
    }
    imported.sessions.push(reader.session());
    imported
}

/// The lines that hold something, with their numbers.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.split('\n').enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| !line.trim().is_empty())
}

/// The problem of a line, at its line of the file.
pub fn at_line(problem: Problem, number: usize) -> Problem {
    let column = problem.place.map_or(1, |place| place.column);
    let line = u32::try_from(number).unwrap_or(u32::MAX);
    problem.at(Place { line, column })
}

/// What the first call had to read beyond the messages that are known: instructions and tools.
fn over(first_call: Option<(usize, u64)>, messages: &[Message]) -> u32 {
    let Some((at, input)) = first_call else { return 0 };
    let known = messages.iter().take(at).map(|message| u64::from(message.tokens)).sum::<u64>();
    u32::try_from(input.saturating_sub(known)).unwrap_or(u32::MAX)
}
