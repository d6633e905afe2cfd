//! What a command answers, for people and for programs, and how problems look on a terminal.

use std::fmt::Write as _;

use baton_core::problem::Problem;
use baton_core::text;
use baton_runtime::{board, load, store};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

pub(crate) const INTERNAL: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const PROTOCOL: u8 = 3;
pub(crate) const LIMIT: u8 = 4;
pub(crate) const HELD: u8 = 5;
pub(crate) const DAMAGED: u8 = 6;
pub(crate) const WAITING: u8 = 10;

#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) code: u8,
    /// For standard output.
    pub(crate) text: String,
    /// For standard error.
    pub(crate) errors: String,
    /// For standard error, also where JSON is printed.
    pub(crate) notes: String,
    pub(crate) json: Value,
}

impl Reply {
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Reply {
        Reply { text: text.into(), json, ..Reply::default() }
    }

    /// Adds problems that stop nothing.
    pub(crate) fn with_warnings(mut self, warnings: &[Problem]) -> Reply {
        for warning in warnings {
            let _ = writeln!(self.errors, "{}", rendered(warning, None));
        }
        if let Value::Object(map) = &mut self.json {
            map.insert("warnings".to_owned(), json!(warnings));
        }
        self
    }
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
    pub(crate) problems: Vec<Problem>,
    /// The text that the problems are about, where it is at hand.
    pub(crate) source: Option<String>,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), problems: Vec::new(), source: None, hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// A file that is part of the protocol (a plan, statements) and cannot be read as such.
    pub(crate) fn unreadable(file: &str, error: load::Error) -> Failure {
        match error {
            load::Error::Invalid(problems) => Failure::problems(PROTOCOL, file, problems, None),
            load::Error::TooLarge { .. } => Failure::new(PROTOCOL, error.to_string()),
            other => other.into(),
        }
    }

    /// Problems of one file.
    pub(crate) fn problems(
        code: u8,
        file: &str,
        problems: Vec<Problem>,
        source: Option<&str>,
    ) -> Failure {
        let problems: Vec<Problem> =
            problems.into_iter().map(|problem| problem.in_file(file)).collect();
        let count = problems.iter().filter(|problem| problem.is_error()).count();
        let things = if count == 1 { "problem" } else { "problems" };
        let mut failure =
            Failure::new(code, format!("{} has {count} {things}", text::shown(file, 200)));
        failure.problems = problems;
        failure.source = source.map(str::to_owned);
        failure
    }

    pub(crate) fn into_reply(self) -> Reply {
        let mut errors = String::new();
        for problem in &self.problems {
            let _ = writeln!(errors, "{}", rendered(problem, self.source.as_deref()));
        }
        let _ = writeln!(errors, "error: {}", self.message);
        if let Some(hint) = &self.hint {
            let _ = writeln!(errors, "  {hint}");
        }
        let json = json!({
            "ok": false,
            "error": self.message,
            "hint": self.hint,
            "problems": self.problems,
        });
        Reply { code: self.code, errors, json, ..Reply::default() }
    }
}

impl From<board::Error> for Failure {
    fn from(error: board::Error) -> Failure {
        let code = if matches!(error, board::Error::Store(_)) { INTERNAL } else { USAGE };
        let mut failure = Failure::new(code, error.to_string());
        failure.hint = match &error {
            board::Error::LinkedBoard { to, .. } => {
                let to = to.display();
                Some(format!("remove the link; `--blackboard {to}` names the folder itself"))
            }
            board::Error::Planted(path) => {
                let path = path.display();
                Some(format!(
                    "look at what is in it, then remove or rename it; if it is yours, name it: `--blackboard {path}`"
                ))
            }
            board::Error::Occupied(path) => {
                Some(format!("rename or remove {}, then `baton init`", path.display()))
            }
            _ => None,
        };
        failure.problems = error.problems().to_vec();
        if !failure.problems.is_empty() {
            let count = text::counted(failure.problems.len(), "problem");
            failure.message = format!("{count} found; nothing was changed");
        }
        failure
    }
}

impl From<load::Error> for Failure {
    fn from(error: load::Error) -> Failure {
        board::Error::from(error).into()
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        board::Error::from(error).into()
    }
}

/// A problem as people read it, with the line it stands in.
pub(crate) fn rendered(problem: &Problem, source: Option<&str>) -> String {
    let mut out = String::new();
    if let Some(file) = &problem.file {
        let _ = write!(out, "{}:", text::shown(file, 200));
    }
    if let Some(place) = problem.place {
        let _ = write!(out, "{}:{}:", place.line, place.column);
    }
    let severity = if problem.is_error() { "error" } else { "warning" };
    let space = if out.is_empty() { "" } else { " " };
    let _ = write!(out, "{space}{severity}: {}", problem.message);
    if let Some(excerpt) = excerpt(problem, source) {
        out.push_str(&excerpt);
    }
    if let Some(expected) = &problem.expected {
        let _ = write!(out, "\n    expected {expected}");
    }
    if let Some(word) = &problem.did_you_mean {
        let _ = write!(out, "\n    did you mean `{word}`?");
    }
    out
}

/// The line with a mark under the place. Columns of the mark are display columns: a wide character
/// takes two.
fn excerpt(problem: &Problem, source: Option<&str>) -> Option<String> {
    const WIDTH: usize = 100;
    let place = problem.place?;
    let line = text::lines(source?).nth(place.line as usize - 1)?;
    let before: String = line.text.chars().take(place.column as usize - 1).collect();
    if before.chars().count() >= WIDTH {
        return None;
    }
    let number = place.line.to_string();
    let shown = text::shown(line.text, WIDTH);
    let indent = " ".repeat(text::shown(&before, WIDTH).width());
    let found = problem.found.as_deref().unwrap_or_default();
    let rest = &line.text[before.len()..];
    let marked = if !found.is_empty() && rest.starts_with(found) { found.width() } else { 1 };
    let mark = "^".repeat(marked.clamp(1, WIDTH));
    let gutter = " ".repeat(number.len());
    Some(format!("\n    {number} | {shown}\n    {gutter} | {indent}{mark}"))
}

/// The same JSON with every character escaped that a terminal could take for an order: outside of
/// strings there are none.
pub(crate) fn plain_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !(c.is_control() || text::is_invisible(c)) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// Rows in columns, the widths counted as the terminal shows them.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.width())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width - cell.width() + 2));
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

pub(crate) use baton_core::text::counted;
