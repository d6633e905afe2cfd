//! Who is asked before an agent acts. The confinement is the boundary; this is for people who want to
//! look at each step, and for commands that must leave the confinement. Nothing is ever taken for a
//! yes but a person's own.

use std::fmt;
use std::sync::Arc;

use baton_core::message::ToolCall;
use baton_core::messages::Language;
use baton_core::text;
use serde_json::Value;

/// When a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Before every act.
    Ask,
    /// Only before what leaves the confinement.
    #[default]
    Auto,
    /// Never: what would have to be asked is refused.
    Never,
}

/// Somebody who can be asked.
pub trait Person: Send + Sync {
    /// Whether exactly this may be done. It is shown as it is, with nothing hidden in it.
    fn agrees(&self, question: &str) -> bool;
}

#[derive(Clone, Default)]
pub struct Approvals {
    pub mode: Mode,
    pub person: Option<Arc<dyn Person>>,
}

impl fmt::Debug for Approvals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Approvals({:?}, {})", self.mode, self.person.is_some())
    }
}

impl Approvals {
    /// `Err`: why it may not be done.
    pub fn check(&self, call: &ToolCall, leaves: bool, language: Language) -> Result<(), String> {
        let must_ask = match self.mode {
            Mode::Ask => true,
            Mode::Auto | Mode::Never => leaves,
        };
        if !must_ask {
            return Ok(());
        }
        match (&self.person, self.mode) {
            (_, Mode::Never) | (None, _) if leaves => Err(language.nobody_to_ask_to_leave()),
            (_, Mode::Never) | (None, _) => Err(language.nobody_to_ask_to_act()),
            (Some(person), _) if person.agrees(&question(call, leaves)) => Ok(()),
            (Some(_), _) => Err(language.person_said_no()),
        }
    }
}

/// Columns of a value's line: what a terminal would wrap could begin like a line of ours.
const WIDTH: usize = 60;
/// A question of more lines says how many there are: its beginning may have left the screen.
const MANY: usize = 20;

/// Exactly what will be done. Different calls give different questions: whatever cannot be seen as
/// itself is written by its number, `⟨1b⟩`, and so is that mark.
pub fn question(call: &ToolCall, leaves: bool) -> String {
    let mut out = match leaves {
        true => format!("{}, OUTSIDE of the confinement:", call.name),
        false => format!("{}:", call.name),
    };
    for (name, value) in &call.arguments {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        out.push_str(&format!("\n  {}: ", text::shown(name, 40)));
        // A line of its own for each line: none can pass for one of ours.
        let lines: Vec<String> = value.split('\n').map(exact_line).collect();
        out.push_str(&lines.join("\n    | "));
    }
    let count = out.lines().count() + 1;
    if count > MANY {
        out.push_str(&format!("\n  ({count} lines with this one)"));
    }
    out
}

fn exact_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut column = 0;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        let is_seen = match c {
            // At the end of a line nobody sees it.
            ' ' => rest.peek().is_some(),
            '⟨' | '⟩' => false,
            c => !(c.is_control() || c.is_whitespace() || text::is_invisible(c)),
        };
        let shown = if is_seen { c.to_string() } else { format!("⟨{:x}⟩", u32::from(c)) };
        let width: usize = shown.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
        if column > 0 && column + width > WIDTH {
            if out.ends_with(' ') {
                out.pop();
                out.push_str("⟨20⟩");
            }
            out.push_str("\n    … ");
            column = 0;
        }
        out.push_str(&shown);
        column += width;
    }
    out
}
