//! The append-only log of a blackboard. Goes in: the file's text, ours or an older one's. Comes
//! out: its blocks, borrowed from it; and, for a new block, the text to append. Nothing that a
//! model or a person wrote can pose as a heading when it is read back.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use crate::id::Iteration;
use crate::policy::MilestoneTexts;
use crate::problem::{Place, Problem};
use crate::text;

/// One block: a heading and what stands under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Block<'a> {
    /// What the person asked for, at the start of each run.
    TaskGoal { label: Cow<'a, str>, time: Option<Cow<'a, str>>, text: String },
    /// One decision of MAIN and its outcome.
    Iteration { iteration: Iteration, heading: Heading<'a>, lines: Vec<Entry<'a>> },
    /// What a person answered.
    UserDecision {
        iteration: Iteration,
        title: Cow<'a, str>,
        time: Option<Cow<'a, str>>,
        lines: Vec<Entry<'a>>,
    },
    /// Text before the first heading that we know.
    Other { text: String },
}

/// What stands behind an iteration's number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Heading<'a> {
    pub milestone: bool,
    pub title: Cow<'a, str>,
}

/// A line of a block: `key: value`, or text that we keep and do not understand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Entry<'a> {
    Field { key: Cow<'a, str>, value: Cow<'a, str> },
    Text { text: Cow<'a, str> },
}

impl<'a> Entry<'a> {
    pub fn field(key: &'a str, value: impl Into<Cow<'a, str>>) -> Entry<'a> {
        Entry::Field { key: key.into(), value: value.into() }
    }
}

/// A block's place in the file and its heading. The lines under it are read when they are asked
/// for: of ten thousand entries a prompt needs ten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<'a> {
    pub line: u32,
    /// The whole block as it stands in the file.
    pub source: &'a str,
    head: Option<Head<'a>>,
}

/// What a block is, by its heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    TaskGoal,
    Iteration,
    UserDecision,
    Other,
}

const MILESTONE: &str = "[MILESTONE]";

impl Block<'_> {
    /// The first value of a field.
    pub fn field(&self, wanted: &str) -> Option<&str> {
        self.fields().find(|(key, _)| *key == wanted).map(|(_, value)| value)
    }

    /// Every field with its value, in the order of the file; a key may come several times.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines: &[Entry<'_>] = match self {
            Block::Iteration { lines, .. } | Block::UserDecision { lines, .. } => lines,
            Block::TaskGoal { .. } | Block::Other { .. } => &[],
        };
        lines.iter().filter_map(|line| match line {
            Entry::Field { key, value } => Some((key.as_ref(), value.as_ref())),
            Entry::Text { .. } => None,
        })
    }
}

impl<'a> Placed<'a> {
    pub fn iteration(&self) -> Option<Iteration> {
        match &self.head {
            Some(Head::Iteration { iteration, .. } | Head::UserDecision { iteration, .. }) => {
                Some(*iteration)
            }
            Some(Head::TaskGoal { .. }) | None => None,
        }
    }

    pub fn kind(&self) -> Kind {
        match &self.head {
            Some(Head::TaskGoal { .. }) => Kind::TaskGoal,
            Some(Head::Iteration { .. }) => Kind::Iteration,
            Some(Head::UserDecision { .. }) => Kind::UserDecision,
            None => Kind::Other,
        }
    }

    pub fn is_milestone(&self) -> bool {
        matches!(self.head, Some(Head::Iteration { milestone: true, .. }))
    }

    pub fn block(&self) -> Block<'a> {
        let body = after_first_line(self.source);
        match &self.head {
            None => Block::Other { text: self.source.to_owned() },
            Some(Head::TaskGoal { label, time }) => {
                let (label, time) = ((*label).into(), time.map(Cow::Borrowed));
                Block::TaskGoal { label, time, text: unescaped(body) }
            }
            Some(Head::Iteration { iteration, milestone, title }) => {
                let heading = Heading { milestone: *milestone, title: (*title).into() };
                Block::Iteration { iteration: *iteration, heading, lines: entries(body) }
            }
            Some(Head::UserDecision { iteration, title, time }) => {
                let (title, time) = ((*title).into(), time.map(Cow::Borrowed));
                Block::UserDecision { iteration: *iteration, title, time, lines: entries(body) }
            }
        }
    }
}

/// Reads a history, whatever wrote it. Every text is a history; `check` says what is odd about it.
pub fn read(source: &str) -> Vec<Placed<'_>> {
    let mut blocks: Vec<Placed<'_>> = Vec::new();
    for line in text::lines(source) {
        let head = Head::parse(line.text);
        if head.is_none() && !blocks.is_empty() {
            continue;
        }
        // Until the next heading is found, a block goes on to the end of the text.
        if let Some(last) = blocks.last_mut() {
            let start = source.len() - last.source.len();
            last.source = &source[start..line.start];
        }
        blocks.push(Placed { line: line.number, source: &source[line.start..], head });
    }
    let is_empty = |block: &Placed<'_>| block.head.is_none() && block.source.trim().is_empty();
    if blocks.first().is_some_and(is_empty) {
        blocks.remove(0);
    }
    blocks
}

fn after_first_line(whole: &str) -> &str {
    let end = text::lines(whole).nth(1).map_or(whole.len(), |line| line.start);
    &whole[end..]
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Head<'a> {
    TaskGoal { label: &'a str, time: Option<&'a str> },
    Iteration { iteration: Iteration, milestone: bool, title: &'a str },
    UserDecision { iteration: Iteration, title: &'a str, time: Option<&'a str> },
}

impl<'a> Head<'a> {
    fn parse(line: &'a str) -> Option<Head<'a>> {
        let rest = line.strip_prefix("## ")?.trim();
        if let Some(rest) = rest.strip_prefix("Task Goal") {
            let (label, time) = split_time(rest.trim());
            return Some(Head::TaskGoal { label, time });
        }
        if let Some(rest) = rest.strip_prefix("Iteration ") {
            let (iteration, rest) = number(rest)?;
            let rest = rest.trim_start_matches(text::is_colon).trim();
            let (milestone, title) = match rest.strip_prefix(MILESTONE) {
                Some(title) => (true, title.trim()),
                None => (false, rest),
            };
            return Some(Head::Iteration { iteration, milestone, title });
        }
        let rest = rest.strip_prefix("User Decision")?.trim_start();
        let (inside, rest) = rest.strip_prefix(['(', '（'])?.split_once([')', '）'])?;
        let (iteration, _) = number(inside.trim().strip_prefix("Iteration")?)?;
        let (title, time) = split_time(rest.trim_start().trim_start_matches(text::is_colon).trim());
        Some(Head::UserDecision { iteration, title, time })
    }
}

/// A leading number; what follows it must not go on with the word.
fn number(text: &str) -> Option<(Iteration, &str)> {
    let text = text.trim_start();
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..end].parse().ok()?;
    let rest = text[end..].trim_start();
    let ends = rest.is_empty() || !rest.starts_with(char::is_alphanumeric);
    ends.then_some((Iteration(number), rest))
}

/// `title - time`: the time is what stands behind the last ` - ` and begins with a year.
fn split_time(text: &str) -> (&str, Option<&str>) {
    let (title, time) = match text.strip_prefix("- ") {
        Some(time) => ("", time),
        None => match text.rsplit_once(" - ") {
            Some((title, time)) => (title, time),
            None => return (text, None),
        },
    };
    let is_time = time.len() >= 10
        && time.bytes().take(4).all(|b| b.is_ascii_digit())
        && time.as_bytes()[4] == b'-';
    if is_time { (title.trim(), Some(time.trim())) } else { (text, None) }
}

fn entries(body: &str) -> Vec<Entry<'_>> {
    let mut out: Vec<Entry<'_>> = Vec::new();
    let mut blank_lines = 0;
    for line in text::lines(body) {
        if line.text.trim().is_empty() {
            blank_lines += 1;
            continue;
        }
        // Indented lines go on with the field above them; blank lines in between are its own.
        if let (Some(Entry::Field { value, .. }), Some(rest)) =
            (out.last_mut(), line.text.strip_prefix("  "))
        {
            let value = value.to_mut();
            value.extend(std::iter::repeat_n('\n', blank_lines + 1));
            value.push_str(rest);
        } else {
            out.push(match field(line.text) {
                Some((key, value)) => Entry::Field { key: key.into(), value: value.into() },
                None => Entry::Text { text: unescaped_line(line.text).into() },
            });
        }
        blank_lines = 0;
    }
    out
}

/// `key: value`, in older files also as a list item.
fn field(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("- ").unwrap_or(line);
    let colon = line.find(text::is_colon)?;
    let key = &line[..colon];
    let plausible = (1..=40).contains(&key.len())
        && key.starts_with(|c: char| c.is_ascii_lowercase())
        && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let value = line[colon..].trim_start_matches(text::is_colon);
    plausible.then(|| (key, value.strip_prefix(' ').unwrap_or(value)))
}

/// The text to append for a block: it begins with `## ` and ends with an empty line.
pub fn render(block: &Block<'_>) -> String {
    let mut out = String::new();
    match block {
        Block::TaskGoal { label, time, text } => {
            out.push_str("## Task Goal");
            for part in [label.as_ref()].into_iter().filter(|label| !label.is_empty()) {
                out.push_str(&format!(" {}", one_line(part)));
            }
            push_time(&mut out, time.as_deref());
            let text = unified(text);
            for line in text.trim_end_matches('\n').split('\n') {
                out.push_str(&escape(line));
                out.push('\n');
            }
        }
        Block::Iteration { iteration, heading, lines } => {
            // Readers of the older form look for the colon.
            out.push_str(&format!("## Iteration {iteration}:"));
            let title = one_line(&heading.title);
            let mark = if heading.milestone { MILESTONE } else { "" };
            for part in [mark, &title].into_iter().filter(|part| !part.is_empty()) {
                out.push_str(&format!(" {part}"));
            }
            out.push('\n');
            push_entries(&mut out, lines, "");
        }
        Block::UserDecision { iteration, title, time, lines } => {
            out.push_str(&format!("## User Decision (Iteration {iteration}): {}", one_line(title)));
            push_time(&mut out, time.as_deref());
            push_entries(&mut out, lines, "- ");
        }
        Block::Other { text } => out.push_str(text),
    }
    out.push('\n');
    out
}

fn push_time(out: &mut String, time: Option<&str>) {
    if let Some(time) = time {
        out.push_str(&format!(" - {}", one_line(time)));
    }
    out.push('\n');
}

/// `mark` precedes each field.
fn push_entries(out: &mut String, lines: &[Entry<'_>], mark: &str) {
    for line in lines {
        match line {
            Entry::Field { key, value } => {
                let value = unified(value);
                let value = value.trim_end_matches('\n');
                // Every further line is indented, so none can pose as a field or a heading.
                let indented = value.replace('\n', "\n  ");
                out.push_str(&format!("{mark}{key}: {indented}\n"));
            }
            Entry::Text { text } => {
                out.push_str(&escape(&one_line(text)));
                out.push('\n');
            }
        }
    }
}

fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(['\n', '\r']) {
        text.split(['\n', '\r'])
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
            .into()
    } else {
        text.trim().into()
    }
}

fn unified(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n").into()
    } else {
        text.into()
    }
}

/// The lines under a heading as a prompt carries them: without escapes and invisible marks, and still
/// nothing in them can pose as a heading.
pub fn stripped_body(placed: &Placed<'_>) -> String {
    let body = text::stripped(after_first_line(placed.source)).into_owned();
    let lines = body.trim_end().split('\n').map(escape);
    lines.collect::<Vec<_>>().join("\n")
}

/// A line of free text that begins like one of our headings gets a backslash, as in Markdown.
fn escape(line: &str) -> Cow<'_, str> {
    if line.trim_start_matches('\\').starts_with("## ") {
        format!("\\{line}").into()
    } else {
        line.into()
    }
}

fn unescaped(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    for line in text::lines(body) {
        out.push_str(unescaped_line(line.text));
        out.push('\n');
    }
    out.truncate(out.trim_end_matches('\n').len());
    out
}

fn unescaped_line(line: &str) -> &str {
    match line.strip_prefix('\\') {
        Some(rest) if rest.trim_start_matches('\\').starts_with("## ") => rest,
        _ => line,
    }
}

/// A file of a hundred thousand odd entries is said to be odd a hundred times.
const MOST: usize = 100;

/// What is odd in a history. Older files repeat numbers and hold unknown lines: warnings.
pub fn check(blocks: &[Placed<'_>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut last: Option<Iteration> = None;
    for placed in blocks {
        if problems.len() >= MOST {
            problems
                .push(Problem::warning("history-more", "and so on: only the first ones are shown"));
            break;
        }
        let place = Place { line: placed.line, column: 1 };
        let block = placed.block();
        match &block {
            Block::Other { text } => {
                if text.lines().any(|line| !line.trim().is_empty() && !line.starts_with("# ")) {
                    let message = "text that belongs to no entry";
                    let shown =
                        text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                    problems.push(
                        Problem::warning("history-stray-text", message).at(place).found(shown),
                    );
                }
            }
            Block::TaskGoal { text, .. } if text.trim().is_empty() => {
                problems.push(
                    Problem::warning("history-empty-goal", "a task goal without text").at(place),
                );
            }
            Block::Iteration { iteration, .. } => {
                for key in ["next_agent", "reason"] {
                    if block.field(key).is_none() {
                        let message = format!("iteration {iteration} has no `{key}:` line");
                        problems.push(Problem::warning("history-missing-field", message).at(place));
                    }
                }
                if let Some(last) = last.filter(|last| iteration <= last) {
                    let message = format!("iteration {iteration} comes after iteration {last}");
                    problems.push(Problem::warning("history-order", message).at(place));
                }
                last = Some(*iteration);
            }
            Block::TaskGoal { .. } | Block::UserDecision { .. } => {}
        }
    }
    problems
}

/// What makes an iteration a milestone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Milestone {
    UserDecision { choice: String },
    FinishAttempt { number: u32 },
    PlanUpdate { changes: usize },
    FirstPass,
    PassAgain,
}

/// The heading text of an iteration's milestones, joined by ` / `; `None` when there are none.
pub fn milestone_title(milestones: &[Milestone], texts: &MilestoneTexts) -> Option<String> {
    let parts: Vec<String> = milestones
        .iter()
        .map(|milestone| match milestone {
            Milestone::UserDecision { choice } => texts.user_decision.replace("{choice}", choice),
            Milestone::FinishAttempt { number } => {
                texts.finish_attempt.replace("{n}", &number.to_string())
            }
            Milestone::PlanUpdate { changes } => {
                texts.plan_update.replace("{n}", &changes.to_string())
            }
            Milestone::FirstPass => texts.first_pass.clone(),
            Milestone::PassAgain => texts.pass_again.clone(),
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(" / "))
}
