//! The project notes: facts that agents found out and that the next ones need not find out again, one
//! line per note with its agent and iteration. Goes in: the file and the notes of a report. Comes out:
//! the new file. Notes are never orders.

use crate::id::{AgentName, Iteration};
use crate::messages::Language;
use crate::text;
use crate::tokens;

/// The most that the file may take in a prompt; the oldest notes leave first.
pub const MOST_TOKENS: u64 = 2_000;
/// Notes that one report may add.
const MOST_NOTES: usize = 12;
/// Characters of a note, and of one that withdraws another.
const NOTE: usize = 500;
const WITH_PREFIX: usize = 600;
/// A file may have lines of both languages: it stays when the language of its pack changes.
const LANGUAGES: [Language; 2] = [Language::English, Language::Chinese];

/// The file with the notes of a report, or `None` if there is nothing new in them.
pub fn merged(
    words: Language,
    file: &str,
    notes: &[String],
    agent: &AgentName,
    iteration: Iteration,
) -> Option<String> {
    let title = format!("# {}\n\n", words.notes_title());
    let file = if file.trim().is_empty() { &title } else { file };
    // Every line that an agent did not write is the user's, and stays as it is.
    let mut lines: Vec<String> = file.trim_end().lines().map(str::to_owned).collect();
    let notes = || notes.iter().take(MOST_NOTES).map(|note| text::shown(note.trim(), WITH_PREFIX));
    let wrong: Vec<String> =
        notes().filter_map(|note| withdrawn(&note).map(str::to_owned)).collect();
    let is_wrong = |line: &str| wrong.iter().any(|wrong| is_same(line, wrong));
    lines.retain(|line| without_author(line).is_none() || !is_wrong(line));
    let mut room = MOST_TOKENS.saturating_sub(size_of_others(&lines));
    let mut kept: Vec<String> = Vec::new();
    for note in notes().filter(|note| withdrawn(note).is_none() && !is_wrong(note)) {
        let note = text::shown(&note, NOTE);
        let line = format!("- {}", words.note_line(&note, agent, iteration));
        let size = size_of(&line);
        let is_there = |line: &String| is_same(line, &note);
        let is_users = lines.iter().any(|line| is_there(line) && without_author(line).is_none());
        if note.is_empty() || is_users || kept.iter().any(is_there) || size > room {
            continue;
        }
        room -= size;
        // A note that comes again is as good as new.
        let known = lines.iter().position(is_there).map(|at| lines.remove(at));
        kept.push(known.unwrap_or(line));
    }
    // An empty line after the title, where there is no note yet.
    if !kept.is_empty() && lines.last().is_some_and(|last| text::heading(last).is_some()) {
        lines.push(String::new());
    }
    lines.extend(kept);
    let mut total: u64 = lines.iter().map(|line| size_of(line)).sum();
    while total > MOST_TOKENS {
        let Some(oldest) = lines.iter().position(|line| without_author(line).is_some()) else {
            break;
        };
        total -= size_of(&lines.remove(oldest));
    }
    let new = lines.join("\n");
    (new.trim_end() != file.trim_end()).then(|| format!("{}\n", new.trim_end()))
}

fn size_of(line: &str) -> u64 {
    tokens::count(line).0 + 1
}

/// Tokens of the lines that no agent wrote.
fn size_of_others(lines: &[String]) -> u64 {
    let others = lines.iter().filter(|line| without_author(line).is_none());
    others.map(|line| size_of(line)).sum()
}

/// The text of the note that this one withdraws, also if it was copied with its author.
fn withdrawn(note: &str) -> Option<&str> {
    let note = without_ticks(note);
    let after = |words: Language| {
        let mark = words.note_withdrawn();
        let start = note.get(..mark.len())?;
        start.eq_ignore_ascii_case(&mark).then(|| &note[mark.len()..])
    };
    let rest = LANGUAGES.into_iter().find_map(after)?;
    let wrong = rest.strip_prefix(':').or_else(|| rest.strip_prefix('：'))?.trim();
    Some(&wrong[..author_at(wrong).unwrap_or(wrong.len())])
}

fn without_ticks(text: &str) -> &str {
    text.trim_matches(|c: char| c == '`' || c.is_whitespace())
}

/// The text of a note that an agent wrote. `None`: another line.
fn without_author(line: &str) -> Option<&str> {
    let (_, body) = text::list_item(line)?;
    author_at(body).map(|at| &body[..at])
}

/// The place of `(AGENT, iteration N)` at the end of a note.
fn author_at(note: &str) -> Option<usize> {
    let place = |words: Language| {
        let line = words.note_line("", "\n", "\n");
        let mut marks = line.split('\n');
        let (start, middle, end) = (marks.next()?, marks.next()?, marks.next()?);
        let at = note.rfind(start)?;
        (note.ends_with(end) && note[at..].contains(middle)).then_some(at)
    };
    LANGUAGES.into_iter().find_map(place)
}

/// True if a line of the file is this note, whichever agent wrote it.
fn is_same(line: &str, note: &str) -> bool {
    let whole = || text::list_item(line).map_or(line, |(_, body)| body);
    let body = without_author(line).unwrap_or_else(whole);
    let plain = |text: &str| {
        let text = without_ticks(text).trim_end_matches(['.', '。']);
        without_ticks(text).to_lowercase()
    };
    plain(body) == plain(note)
}
