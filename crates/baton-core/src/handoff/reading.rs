//! Load on demand: a package, its files and a budget → what to read, in which order, cut how. The
//! problems report comes first, then typical cases by priority; every cut says where the whole is.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::folder::{self, Base};
use super::make::ProblemsReport;
use super::package::{ExecuteToInit, Extra, FailedSample, InitToExecute, Package, Priority};
use super::{FAILURE_SUMMARY, FOLDERS, read_long};
use crate::id::Tokens;
use crate::messages::Language;
use crate::text;
use crate::tokens;

mod shrink;

pub const DEFAULT: Tokens = Tokens(40_000);
/// Below this a piece says too little to be worth its heading.
pub const LEAST: Tokens = Tokens(1_000);
/// More than this of one file no budget can hold.
pub const MAX_FILE_BYTES: u64 = 4 << 20;
/// A case is given at least so much, so that its trace can be followed.
const CASE_TOKENS: u64 = 3_000;
/// With less, a case is left out.
const LEAST_CASE_TOKENS: u64 = 250;
const LEAST_PIECE_TOKENS: u64 = 60;
/// For the line that says what was left out.
const TAIL_TOKENS: u64 = 60;

/// Answers for the disk.
pub trait Files {
    /// None where there is no such file.
    fn size(&self, base: Base, path: &str) -> Option<u64>;
    /// The first `limit` bytes, cut at a character.
    fn text(&self, base: Base, path: &str, limit: u64) -> Option<String>;
}

/// What an agent is given, with its account.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reading {
    pub budget: Tokens,
    pub tokens: Tokens,
    pub pieces: Vec<Piece>,
    /// Failed samples of which nothing was read.
    pub samples_left_out: u64,
    /// Files that are named and could not be read, or for which there was no room at all.
    pub not_read: Vec<String>,
    #[serde(skip)]
    tail: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Piece {
    pub what: What,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_id: Option<String>,
    /// Where the whole is, from the root.
    pub path: String,
    /// Of the whole.
    pub bytes: u64,
    pub tokens: Tokens,
    /// What is not in of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    #[serde(skip)]
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum What {
    ProblemsReport,
    Attribution,
    Evaluation,
    Trace,
    Sample,
    Requirement,
    Design,
    Background,
}

impl What {
    fn title(self, words: Language) -> String {
        match self {
            What::ProblemsReport => words.reading_problems(),
            What::Attribution => words.reading_attribution(),
            What::Evaluation => words.reading_evaluation(),
            What::Trace => words.reading_trace(),
            What::Sample => words.reading_sample(),
            What::Requirement => words.reading_requirement(),
            What::Design => words.reading_design(),
            What::Background => words.reading_background(),
        }
    }
}

impl Reading {
    pub fn text(&self) -> String {
        let mut out: String = self.pieces.iter().map(|piece| piece.text.as_str()).collect();
        out.push_str(&self.tail);
        out
    }
}

/// Builds the reading. Its text never has more than `budget` tokens.
pub fn build(words: Language, package: &Package, budget: Tokens, files: &dyn Files) -> Reading {
    let mut desk = Desk {
        words,
        files,
        left: budget.0,
        folder: None,
        pieces: Vec::new(),
        not_read: Vec::new(),
    };
    let (left_out, tail) = match package {
        Package::InitToExecute(package) => {
            desk.design(package);
            (0, String::new())
        }
        Package::ExecuteToInit(package) => {
            desk.folder = Some(package.execution_output_dir.trim_end_matches('/').to_owned());
            desk.left = desk.left.saturating_sub(TAIL_TOKENS);
            let left_out = desk.failures(package);
            desk.left += TAIL_TOKENS.min(budget.0);
            let tail = desk.tail(package, left_out);
            (left_out, tail)
        }
    };
    let tail_tokens = tokens::count(&tail).0;
    let tokens = desk.pieces.iter().map(|piece| piece.tokens.0).sum::<u64>() + tail_tokens;
    Reading {
        budget,
        tokens: Tokens(tokens),
        pieces: desk.pieces,
        samples_left_out: left_out,
        not_read: desk.not_read,
        tail,
    }
}

/// What a piece is of.
struct Source<'a> {
    what: What,
    base: Base,
    path: &'a str,
    sample_id: Option<&'a str>,
    /// Of a conversation, the turns that must stay.
    turns: Option<&'a BTreeSet<u64>>,
}

struct Desk<'a> {
    words: Language,
    files: &'a dyn Files,
    left: u64,
    folder: Option<String>,
    pieces: Vec<Piece>,
    not_read: Vec<String>,
}

impl Desk<'_> {
    fn whole_path(&self, base: Base, path: &str) -> String {
        match (&self.folder, base) {
            (Some(folder), Base::Output) => format!("{folder}/{path}"),
            _ => path.to_owned(),
        }
    }

    fn design(&mut self, package: &InitToExecute) {
        let mut sources = Vec::new();
        let mut add = |what, path: Option<&'_ String>| {
            sources.extend(path.map(|path| (what, path.clone())));
        };
        add(What::Requirement, package.user_requirement_path.as_ref());
        for path in package.design_artifacts.values() {
            add(What::Design, Some(path));
        }
        add(What::Background, package.design_rationale_path.as_ref());
        add(What::Background, package.design_iterations_path.as_ref());
        add(What::Background, package.known_constraints_path.as_ref());
        let count = sources.len() as u64;
        for (at, (what, path)) in sources.iter().enumerate() {
            let room = self.left / (count - at as u64);
            let source =
                Source { what: *what, base: Base::Root, path, sample_id: None, turns: None };
            self.put(&source, room);
        }
    }

    /// How many failed samples nothing was read of.
    fn failures(&mut self, package: &ExecuteToInit) -> u64 {
        let path = package.layer1_problems_report_path.as_str();
        let report = self.files.text(Base::Output, path, MAX_FILE_BYTES);
        let report: Option<ProblemsReport> = report.and_then(|text| read_long(&text).ok());
        // With little room, the report alone is worth more than the start of everything.
        let room = if self.left < 4_000 { self.left * 7 / 10 } else { self.left * 2 / 5 };
        let what = What::ProblemsReport;
        self.put(&Source { what, base: Base::Output, path, sample_id: None, turns: None }, room);
        let cases = cases(package, report.as_ref(), self.files);
        let mut read = 0;
        for (at, case) in cases.iter().enumerate() {
            let waiting = (cases.len() - at) as u64;
            let shares = (self.left / CASE_TOKENS).clamp(1, waiting);
            let room = self.left / shares;
            if room < LEAST_CASE_TOKENS {
                break;
            }
            let before = self.pieces.len();
            self.case(case, room);
            read += u64::from(self.pieces.len() > before);
        }
        let listed = package.failure_samples_index.len() as u64;
        let total = package.failure_samples_total.unwrap_or(listed).max(cases.len() as u64);
        total.saturating_sub(read)
    }

    /// Why it failed, what the checkers said, what happened, what was asked: each within a share, and
    /// the trace, which is read for its own sake, has what the others leave.
    fn case(&mut self, case: &FailedSample, room: u64) {
        let evaluation = self.files.text(Base::Output, &case.evaluation_path, MAX_FILE_BYTES);
        let evaluation = evaluation.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let turns = evaluation.as_ref().map(shrink::failed_turns).unwrap_or_default();
        let source = |what, path| Source {
            what,
            base: Base::Output,
            path,
            sample_id: Some(case.sample_id.as_str()),
            turns: matches!(what, What::Trace).then_some(&turns),
        };
        let first = self.pieces.len();
        let mut left = room;
        let plan = [
            (What::Attribution, case.attribution_path.as_str(), 20),
            (What::Evaluation, case.evaluation_path.as_str(), 15),
            (What::Sample, case.sample_path.as_str(), 15),
            (What::Trace, case.trace_path.as_str(), 100),
        ];
        for (what, path, percent) in plan {
            let share = (room * percent / 100).min(left);
            left -= self.put(&source(what, path), share);
        }
        // The sample was measured before the trace; it is read after it.
        let is_sample = |piece: &Piece| piece.what == What::Sample;
        if let Some(at) = self.pieces[first..].iter().position(is_sample) {
            let sample = self.pieces.remove(first + at);
            self.pieces.push(sample);
        }
    }

    /// Puts a file on the desk, whole or cut to its room. Returns what it took.
    fn put(&mut self, source: &Source<'_>, room: u64) -> u64 {
        let room = room.min(self.left);
        let path = self.whole_path(source.base, source.path);
        let bytes = self.files.size(source.base, source.path);
        let content = match bytes {
            Some(_) if room >= LEAST_PIECE_TOKENS => {
                self.files.text(source.base, source.path, MAX_FILE_BYTES)
            }
            _ => None,
        };
        let piece = bytes.zip(content).and_then(|(bytes, content)| {
            piece(self.words, source, (&path, bytes), &text::stripped(&content), room)
        });
        match piece {
            Some(piece) => {
                let taken = piece.tokens.0;
                self.left = self.left.saturating_sub(taken);
                self.pieces.push(piece);
                taken
            }
            None => {
                self.not_read.push(path);
                0
            }
        }
    }

    fn tail(&self, package: &ExecuteToInit, left_out: u64) -> String {
        if left_out == 0 {
            return String::new();
        }
        let index = package.failure_index_path.as_deref().unwrap_or(FAILURE_SUMMARY);
        let index = self.whole_path(Base::Output, index);
        let title = self.words.reading_not_read();
        let texts =
            [self.words.reading_samples_in(left_out, index), self.words.reading_samples(left_out)];
        let fits = |text: &String| tokens::count(text).0 <= self.left;
        let tails = texts.map(|text| format!("## {title}\n\n{text}\n"));
        tails.into_iter().find(fits).unwrap_or_default()
    }
}

fn piece(
    words: Language,
    source: &Source<'_>,
    (path, bytes): (&str, u64),
    content: &str,
    room: u64,
) -> Option<Piece> {
    let (what, shown) = (source.what.title(words), text::shown(path, 1_024));
    let title = match source.sample_id {
        Some(id) => words.reading_title_of(what, text::shown(id, 80), shown),
        None => words.reading_title(what, shown),
    };
    let is_json = path.ends_with(".json");
    let drawn = |body: &str, cut: Option<&str>| {
        let fence = text::fence_for(body);
        let kind = if is_json { "json" } else { "" };
        let note = cut.map(|cut| format!("\n{}\n", words.reading_cut(cut, path, bytes)));
        let note = note.unwrap_or_default();
        format!("## {title}\n{note}\n{fence}{kind}\n{}\n{fence}\n\n", body.trim_end())
    };
    let done = |text: String, tokens: Tokens, cut: Option<String>| {
        let sample_id = source.sample_id.map(str::to_owned);
        Piece { what: source.what, sample_id, path: path.to_owned(), bytes, tokens, cut, text }
    };
    let try_with = |body: &str, cut: Option<&str>| {
        // A text that is far too long is not worth counting.
        if tokens::raw_estimate(body).0 > room * 4 {
            return None;
        }
        let text = drawn(body, cut);
        let tokens = tokens::count(&text);
        (tokens.0 <= room).then(|| done(text, tokens, cut.map(str::to_owned)))
    };
    if bytes <= MAX_FILE_BYTES
        && let Some(piece) = try_with(content, None)
    {
        return Some(piece);
    }
    let value = is_json.then(|| serde_json::from_str::<Value>(content).ok()).flatten();
    let mut last = content.to_owned();
    for (body, how) in value.iter().flat_map(|value| shrink::steps(words, value, source.turns)) {
        if let Some(piece) = try_with(&body, Some(&how)) {
            return Some(piece);
        }
        last = body;
    }
    let how = words.reading_ends();
    let mut chars = last.chars().count().min(usize::try_from(room).unwrap_or(usize::MAX) * 6);
    // Each lap takes a quarter away; what is left after thirty is nothing.
    for _ in 0..30 {
        let body = shrink::ends(words, &last, chars);
        if let Some(piece) = try_with(&body, Some(&how)) {
            return Some(piece);
        }
        chars = chars * 3 / 4;
        if chars < 16 {
            break;
        }
    }
    None
}

/// Typical cases in the order of their problems, then the others; by priority.
fn cases(
    package: &ExecuteToInit,
    report: Option<&ProblemsReport>,
    files: &dyn Files,
) -> Vec<FailedSample> {
    let index = &package.failure_samples_index;
    let mut seen = BTreeSet::new();
    let mut out: Vec<FailedSample> = Vec::new();
    let typical = report.map(ProblemsReport::ordered).unwrap_or_default();
    for id in typical.iter().filter_map(|problem| problem.typical_case_id.as_deref()) {
        let listed = index.iter().find(|own| own.sample_id == id).cloned();
        if let Some(case) = listed.or_else(|| by_layout(id, files))
            && seen.insert(case.sample_id.clone())
        {
            out.push(case);
        }
    }
    out.sort_by_key(|case| case.priority);
    let mut others: Vec<&FailedSample> =
        index.iter().filter(|own| !seen.contains(&own.sample_id)).collect();
    others.sort_by_key(|own| own.priority);
    out.extend(others.into_iter().cloned());
    out
}

/// A typical case that the package's part of the index does not hold, where the layout has it.
fn by_layout(id: &str, files: &dyn Files) -> Option<FailedSample> {
    if id.contains('/') || folder::safe_path("typical_case_id", id).is_err() {
        return None;
    }
    let [samples, traces, evaluations, attributions] = FOLDERS;
    let trace_path = format!("{traces}/{id}_trace.json");
    files.size(Base::Output, &trace_path)?;
    Some(FailedSample {
        sample_id: id.to_owned(),
        sample_path: format!("{samples}/{id}.json"),
        trace_path,
        evaluation_path: format!("{evaluations}/{id}_eval.json"),
        attribution_path: format!("{attributions}/{id}_attribution.json"),
        failure_type: String::new(),
        conversation_turns: 0,
        checkers_failed: Vec::new(),
        priority: Priority::High,
        extra: Extra::new(),
    })
}
