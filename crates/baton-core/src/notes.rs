//! The project notes: facts that agents found out and that the next ones need not find out again, one
//! line per note with its agent and iteration. Goes in: the file and the notes of a report. Comes out:
//! the new file. Notes are never orders.

use crate::id::{AgentName, Iteration};
use crate::text;
use crate::tokens;

/// The most that the file may take in a prompt; the oldest notes leave first.
pub const MOST_TOKENS: u64 = 2_000;
/// Notes that one report may add.
const MOST_NOTES: usize = 12;
/// Characters of a note.
const NOTE: usize = 500;
/// Before the text of an earlier note that turned out to be wrong.
pub const WITHDRAWN: &str = "no longer true:";
const TITLE: &str = "# Project notes\n\n";

/// The file with the notes of a report, or `None` if there is nothing new in them.
pub fn merged(
    file: &str,
    notes: &[String],
    agent: &AgentName,
    iteration: Iteration,
) -> Option<String> {
    let file = if file.trim().is_empty() { TITLE } else { file };
    // Every line that an agent did not write is the user's, and stays as it is.
    let mut lines: Vec<String> = file.trim_end().lines().map(str::to_owned).collect();
    let mut new: Vec<String> = Vec::new();
    let mut room = MOST_TOKENS;
    let before = lines.len();
    for note in notes.iter().take(MOST_NOTES) {
        let note = text::shown(note.trim(), NOTE);
        if let Some(wrong) = withdrawn(&note) {
            // The user's own lines stay.
            lines.retain(|line| without_author(line).is_none() || !is_same(line, wrong));
            continue;
        }
        let is_known = lines.iter().chain(&new).any(|line| is_same(line, &note));
        let line = format!("- {note} ({agent}, iteration {iteration})");
        let size = tokens::count(&line).0 + 1;
        if !note.is_empty() && !is_known && size <= room {
            room -= size;
            new.push(line);
        }
    }
    if new.is_empty() && lines.len() == before {
        return None;
    }
    // An empty line after the title, where there is no note yet.
    if lines.last().is_some_and(|last| text::heading(last).is_some()) {
        lines.push(String::new());
    }
    lines.extend(new);
    let mut total: u64 = lines.iter().map(|line| tokens::count(line).0 + 1).sum();
    while total > MOST_TOKENS {
        let Some(oldest) = lines.iter().position(|line| without_author(line).is_some()) else {
            break;
        };
        total -= tokens::count(&lines.remove(oldest)).0 + 1;
    }
    Some(format!("{}\n", lines.join("\n")))
}

/// The text of the note that this one withdraws, also if it was copied with its author.
fn withdrawn(note: &str) -> Option<&str> {
    let start = note.get(..WITHDRAWN.len())?;
    let wrong = note[WITHDRAWN.len()..].trim().trim_matches('`').trim();
    start.eq_ignore_ascii_case(WITHDRAWN).then(|| author_at(wrong).map_or(wrong, |at| &wrong[..at]))
}

/// The text of a note that an agent wrote. `None`: another line.
fn without_author(line: &str) -> Option<&str> {
    let (_, body) = text::list_item(line)?;
    author_at(body).map(|at| &body[..at])
}

/// The place of `(AGENT, iteration N)` at the end of a note.
fn author_at(note: &str) -> Option<usize> {
    let at = note.rfind(" (")?;
    (note.ends_with(')') && note[at..].contains(", iteration ")).then_some(at)
}

/// True if a line of the file is this note, whichever agent wrote it.
fn is_same(line: &str, note: &str) -> bool {
    let whole = || text::list_item(line).map_or(line, |(_, body)| body);
    let body = without_author(line).unwrap_or_else(whole);
    let plain = |text: &str| text.trim().trim_end_matches(['.', '。']).to_lowercase();
    plain(body) == plain(note)
}
