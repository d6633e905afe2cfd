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
const TITLE: &str = "# Project notes\n\n";

/// The file with the notes of a report, or `None` if there is nothing new in them.
pub fn merged(
    file: &str,
    notes: &[String],
    agent: &AgentName,
    iteration: Iteration,
) -> Option<String> {
    let mut lines: Vec<String> = file
        .lines()
        .filter(|line| text::list_item(line).is_some())
        .map(|line| line.trim_end().to_owned())
        .collect();
    let before = lines.len();
    for note in notes.iter().take(MOST_NOTES) {
        let note = text::shown(note.trim(), NOTE);
        let is_known = lines.iter().any(|line| is_same(line, &note));
        if !note.is_empty() && !is_known {
            lines.push(format!("- {note} ({agent}, iteration {iteration})"));
        }
    }
    if lines.len() == before {
        return None;
    }
    let mut sizes: Vec<u64> = lines.iter().map(|line| tokens::count(line).0 + 1).collect();
    let mut total: u64 = sizes.iter().sum();
    while total > MOST_TOKENS && lines.len() > 1 {
        total -= sizes.remove(0);
        lines.remove(0);
    }
    Some(format!("{TITLE}{}\n", lines.join("\n")))
}

/// True if a line of the file is this note, whichever agent wrote it.
fn is_same(line: &str, note: &str) -> bool {
    let body = text::list_item(line).map_or(line, |(_, body)| body);
    let body = match body.rfind(" (") {
        Some(at) if body.ends_with(')') && body[at..].contains(", iteration ") => &body[..at],
        _ => body,
    };
    let plain = |text: &str| text.trim().trim_end_matches(['.', '。']).to_lowercase();
    plain(body) == plain(note)
}
