//! The semantic history window: the last iterations and every milestone, in order, within a budget
//! of tokens. Goes in: the history's text, as a whole or entry by entry. Comes out: the text that a
//! prompt carries, and what had to be left out for it. A new entry costs one entry, not a parse of
//! the whole file: sizes are counted once for each entry and form.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use crate::history::{self, Block, Kind};
use crate::id::{Iteration, Tokens};
use crate::messages::Language;
use crate::text;
use crate::tokens;

/// These entries are never dropped, only their long fields are cut.
const NEVER_DROPPED: usize = 3;
/// Fields that the compressed form keeps: everything that happened, and what the user chose.
const KEPT_FIELDS: [&str; 14] = [
    "next_agent",
    "reason",
    "dev_plan",
    "verdict",
    BLOCKERS,
    "evaluation",
    "gate",
    "error",
    "subloop",
    "finish",
    "override",
    "note",
    "user_choice",
    "user_comment",
];
/// The field that is never cut: work orders quote it word for word.
const BLOCKERS: &str = "blockers";
/// How a person's answer begins.
const ANSWER: &str = "## User Decision";
/// Characters that a field of the last entries may keep, tried in this order.
const CUTS: [usize; 12] = [4_000, 2_000, 1_000, 500, 250, 120, 60, 30, 15, 8, 4, 1];

/// How many of the last iterations are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Last {
    Exactly(usize),
    /// As many as there is room for. The window begins at the same entry for several iterations
    /// running, so that consecutive prompts share it.
    Between {
        least: usize,
        most: usize,
    },
}

/// What is asked of a history.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    pub last: Last,
    pub max_tokens: Option<Tokens>,
    pub milestones: bool,
    /// Only what was there before this iteration.
    pub before: Option<Iteration>,
    /// True if the text of the task is part of it; otherwise only its heading is.
    pub goal: bool,
    /// The language of the marks for what is not shown.
    pub language: Language,
}

/// The task of the current run and the user's answers in it, word for word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTask {
    pub text: String,
    /// In order.
    pub answers: Vec<Answered>,
    /// The first iteration that can belong to the run.
    pub first_iteration: Iteration,
}

/// A question of the run and the user's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    pub iteration: Iteration,
    pub title: String,
    /// The lines of the block: question, options, choice, comment.
    pub text: String,
}

/// A part of a history that fits.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Window {
    #[serde(skip)]
    pub text: String,
    /// Of the last ones, those that are here.
    pub recent_iterations: Vec<Iteration>,
    /// Every milestone: none is left unnamed, unless their numbers alone are too many.
    pub milestone_iterations: Vec<Iteration>,
    /// Milestones in the compressed form, with their heading alone, by their number alone.
    pub shortened: Vec<Iteration>,
    pub headings_only: Vec<Iteration>,
    pub only_named: Vec<Iteration>,
    /// Of the last ones, those that are not here.
    pub dropped: Vec<Iteration>,
    /// Iterations of the window whose long fields are cut.
    pub fields_cut: Vec<Iteration>,
    pub goal_cut: bool,
    /// Lines.
    pub total_size: usize,
    pub total_tokens: Tokens,
    /// Bytes of the window for one byte of the entries that it stands for.
    pub compression_ratio: f64,
}

/// A history, ready for windows.
#[derive(Debug, Clone, Default)]
pub struct Log {
    text: String,
    items: Vec<Item>,
    /// What the last window showed, and in which form: the next one shows nearly the same.
    shown: BTreeMap<usize, (Form, String)>,
    /// The language of that window, and of what was counted for it.
    language: Language,
}

/// An iteration with the person's answer to it, or a task goal.
#[derive(Debug, Clone)]
struct Item {
    range: Range<usize>,
    /// None for a task goal.
    iteration: Option<Iteration>,
    is_milestone: bool,
    /// A person's answer is part of it.
    has_answer: bool,
    /// Tokens of each form, counted when they are first asked for.
    counted: [Option<u64>; 4],
}

/// How much of an entry is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Whole,
    Short,
    Heading,
    /// Its number alone, at the top of the window.
    Named,
    /// One of so many, where the numbers alone would be too long.
    Counted,
    /// The compressed form, no field longer than this.
    Cut(usize),
}

impl Form {
    fn is_shown(self) -> bool {
        !matches!(self, Form::Named | Form::Counted)
    }
}

impl Log {
    pub fn new(text: String) -> Log {
        let mut log = Log { text, ..Log::default() };
        log.read_from(0);
        log
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Goes on with what was appended to the file.
    pub fn append(&mut self, new: &str) {
        // The last entry may go on, or be followed by the person's answer to it.
        let from = self.items.pop().map_or(0, |last| last.range.start);
        self.shown.remove(&self.items.len());
        self.text.push_str(new);
        self.read_from(from);
    }

    fn read_from(&mut self, from: usize) {
        let mut at = from;
        for placed in history::read(&self.text[from..]) {
            // A mark at the start of the file belongs to no block.
            let skipped = placed.source.as_ptr() as usize - self.text[at..].as_ptr() as usize;
            let start = at + skipped;
            at = start + placed.source.len();
            let iteration = placed.iteration();
            let (is_new, is_milestone) = match placed.kind() {
                Kind::Other => continue,
                Kind::TaskGoal => (true, false),
                Kind::Iteration => (false, placed.is_milestone()),
                Kind::UserDecision => (false, true),
            };
            let has_answer = placed.kind() == Kind::UserDecision;
            // A number that comes again is another entry, unless one of the two is an answer.
            let joins = |last: &&mut Item| {
                let is_answer = |item: &Item| {
                    item.has_answer && self.text[item.range.clone()].starts_with(ANSWER)
                };
                last.iteration == iteration && (has_answer || is_answer(last))
            };
            match self.items.last_mut().filter(|_| !is_new).filter(joins) {
                Some(last) => {
                    last.range.end = at;
                    last.is_milestone |= is_milestone;
                    last.has_answer |= has_answer;
                }
                None => self.items.push(Item {
                    range: start..at,
                    iteration,
                    is_milestone,
                    has_answer,
                    counted: [None; 4],
                }),
            }
        }
    }

    /// The number of the last iteration.
    pub fn last_iteration(&self) -> Option<Iteration> {
        self.items.iter().rev().find_map(|item| item.iteration)
    }

    /// The task of the run that is current before an iteration. `None`: the history has no task.
    pub fn task(&self, before: Option<Iteration>) -> Option<RunTask> {
        let items = &self.items[..self.end(before)];
        let goal = items.iter().rposition(|item| item.iteration.is_none())?;
        let text = match history::read(&self.text[items[goal].range.clone()]).first()?.block() {
            Block::TaskGoal { text, .. } => text.trim_end().to_owned(),
            Block::Iteration { .. } | Block::UserDecision { .. } | Block::Other { .. } => {
                return None;
            }
        };
        let earlier = items[..goal].iter().filter_map(|item| item.iteration).max();
        let first_iteration = Iteration(earlier.map_or(0, |last| last.0).saturating_add(1));
        let answered = items[goal..].iter().filter(|item| item.has_answer);
        let answers = answered.flat_map(|item| self.answers_in(item)).collect();
        Some(RunTask { text, answers, first_iteration })
    }

    fn answers_in(&self, item: &Item) -> Vec<Answered> {
        let blocks = history::read(&self.text[item.range.clone()]);
        let answers = blocks.iter().filter_map(|placed| match placed.block() {
            Block::UserDecision { iteration, title, .. } => Some(Answered {
                iteration,
                title: title.into_owned(),
                text: history::stripped_body(placed),
            }),
            Block::TaskGoal { .. } | Block::Iteration { .. } | Block::Other { .. } => None,
        });
        answers.collect()
    }

    /// How many items stand before an iteration.
    fn end(&self, before: Option<Iteration>) -> usize {
        let Some(before) = before else { return self.items.len() };
        let is_later = |item: &Item| item.iteration.is_some_and(|iteration| iteration >= before);
        // From the end, where it nearly always is; older files repeat their numbers.
        let kept = self.items.iter().rposition(|item| !is_later(item) && item.iteration.is_some());
        let end = kept.map_or(0, |index| index + 1);
        let goals = self.items[end..].iter().take_while(|item| item.iteration.is_none()).count();
        end + goals
    }

    pub fn window(&mut self, ask: &Ask) -> Window {
        self.speak(ask.language);
        let end = self.end(ask.before);
        let parts = Parts::of(&self.items[..end], ask);
        let forms = match ask.max_tokens {
            None => parts.all(&self.items),
            Some(budget) => Fit { log: self, parts: &parts, budget: budget.0 }.forms(),
        };
        self.built(&parts, &forms)
    }

    /// Forgets what was made in another language.
    fn speak(&mut self, language: Language) {
        if language != self.language {
            self.language = language;
            self.shown.clear();
            self.items.iter_mut().for_each(|item| item.counted = [None; 4]);
        }
    }

    fn built(&mut self, parts: &Parts, forms: &BTreeMap<usize, Form>) -> Window {
        let mut total_tokens = 0;
        for (index, form) in forms {
            total_tokens += self.tokens_of(*index, *form);
        }
        // Only milestones are said to be shrunk: other entries are always in their short form.
        let of = |form: Form| -> Vec<Iteration> {
            let chosen =
                forms.iter().filter(|(index, own)| **own == form && parts.is_milestone(**index));
            chosen.filter_map(|(index, _)| self.items[*index].iteration).collect()
        };
        let (named, counted) = (of(Form::Named), of(Form::Counted));
        let mut text = left_out(self.language, &named, &counted);
        total_tokens += line_tokens(self.language, &named, &counted);
        let mut shown = BTreeMap::new();
        for (index, form) in forms.iter().filter(|(_, form)| form.is_shown()) {
            let known = self.shown.remove(index).filter(|(own, _)| own == form);
            let known = known.unwrap_or_else(|| (*form, self.rendered(*index, *form)));
            text.push_str(&known.1);
            shown.insert(*index, known);
        }
        self.shown = shown;
        let iterations = |indices: &[usize]| -> Vec<Iteration> {
            indices.iter().filter_map(|index| self.items[*index].iteration).collect()
        };
        let here: Vec<usize> =
            parts.recent.iter().copied().filter(|index| forms.contains_key(index)).collect();
        let cut = forms.iter().filter(|(_, form)| matches!(form, Form::Cut(_)));
        let cut: Vec<usize> = cut.map(|(index, _)| *index).collect();
        let gone: Vec<usize> =
            parts.recent.iter().copied().filter(|index| !forms.contains_key(index)).collect();
        let whole: usize = parts.everything().map(|index| self.items[index].range.len()).sum();
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let compression_ratio = if whole == 0 { 1.0 } else { text.len() as f64 / whole as f64 };
        Window {
            recent_iterations: iterations(&here),
            milestone_iterations: iterations(&parts.milestones),
            shortened: of(Form::Short),
            headings_only: of(Form::Heading),
            only_named: if named.is_empty() { counted } else { named },
            dropped: iterations(&gone),
            fields_cut: iterations(&cut),
            goal_cut: parts.goal.is_some_and(|goal| cut.contains(&goal)),
            total_size: text.lines().count(),
            total_tokens: Tokens(total_tokens),
            compression_ratio,
            text,
        }
    }

    /// An entry in one of its forms: it begins with `## ` and ends with an empty line, so that the
    /// tokens of a window are the sum of its parts.
    fn rendered(&self, index: usize, form: Form) -> String {
        let item = &self.items[index];
        let source = &self.text[item.range.clone()];
        match form {
            Form::Heading => {
                let mark = match item.iteration {
                    None => self.language.window_task(),
                    Some(_) => self.language.window_left_out(),
                };
                return self.language.with_brackets(heading_of(source), mark) + "\n\n";
            }
            Form::Named => return item.iteration.map_or(String::new(), |own| format!(" {own}")),
            Form::Counted => return String::new(),
            Form::Whole | Form::Short | Form::Cut(_) => {}
        }
        let blocks = history::read(source);
        let shortened = self.language.with_brackets("", self.language.window_shortened());
        // Of a hundred answers to one question the last ones count.
        let first = if matches!(form, Form::Cut(_)) { blocks.len().saturating_sub(3) } else { 0 };
        let (mut whole, mut out) = (String::new(), String::new());
        for placed in &blocks[first..] {
            let heading = heading_of(placed.source);
            let body = history::stripped_body(placed);
            let end = if body.is_empty() { "" } else { "\n" };
            whole.push_str(&format!("{heading}\n{body}{end}\n"));
            match form {
                Form::Cut(most) => out.push_str(&text::cut(&heading, 24.max(most))),
                _ if item.is_milestone => out.push_str(&format!("{heading}{shortened}")),
                _ => out.push_str(&heading),
            }
            out.push('\n');
            push_fields(&mut out, placed, form);
            out.push('\n');
        }
        // Where nothing is lost, nothing is said to be.
        let is_whole = form == Form::Whole || whole == out.replace(&shortened, "");
        if is_whole { whole } else { out }
    }

    fn tokens_of(&mut self, index: usize, form: Form) -> u64 {
        let place = match form {
            Form::Whole => 0,
            Form::Short => 1,
            Form::Heading => 2,
            Form::Named => 3,
            Form::Counted => return 0,
            Form::Cut(_) => return tokens::count(&self.rendered(index, form)).0,
        };
        if let Some(counted) = self.items[index].counted[place] {
            return counted;
        }
        let counted = tokens::count(&self.rendered(index, form)).0;
        self.items[index].counted[place] = Some(counted);
        counted
    }
}

fn heading_of(source: &str) -> String {
    let line = text::lines(source).next().map_or("", |line| line.text);
    text::stripped(line.trim_end()).replace('\n', " ")
}

fn push_fields(out: &mut String, placed: &history::Placed<'_>, form: Form) {
    let most = if let Form::Cut(most) = form { most } else { usize::MAX };
    let block = placed.block();
    if placed.kind() == Kind::TaskGoal {
        // A goal is worth more than a reason.
        let goal = history::stripped_body(placed);
        out.push_str(text::cut(&goal, most.saturating_mul(8)).trim_end());
        out.push('\n');
    }
    let kept = block.fields().filter(|(key, _)| KEPT_FIELDS.contains(key));
    for (key, value) in kept.filter(|(_, value)| !value.trim().is_empty()) {
        let value = text::stripped(value.trim()).replace('\n', "\n  ");
        let most = if key == BLOCKERS { usize::MAX } else { most };
        out.push_str(&format!("{key}: {}\n", text::cut(&value, most)));
    }
}

/// The line that stands for milestones whose entries are left out: by their numbers, or as a count.
fn left_out(words: Language, named: &[Iteration], counted: &[Iteration]) -> String {
    if let (Some(first), Some(last)) = (counted.first(), counted.last()) {
        return words.window_counted(counted.len(), first, last) + "\n\n";
    }
    if named.is_empty() {
        return String::new();
    }
    let numbers: String = named.iter().map(|number| format!(" {number}")).collect();
    let [start, end] = around_numbers(words);
    format!("{start}{numbers}{end}")
}

/// The texts before and after the numbers in that line.
fn around_numbers(words: Language) -> [String; 2] {
    [words.window_named(), words.window_named_end() + "\n\n"]
}

/// The tokens of that line without those of the numbers, which are counted for themselves.
fn line_tokens(words: Language, named: &[Iteration], counted: &[Iteration]) -> u64 {
    match (named.is_empty(), counted.is_empty()) {
        (true, true) => 0,
        (_, false) => tokens::count(&left_out(words, &[], counted)).0,
        (false, true) => around_numbers(words).iter().map(|text| tokens::count(text).0).sum(),
    }
}

/// Which items a window is about, as indices.
struct Parts {
    /// The goal of the run that goes on.
    goal: Option<usize>,
    /// True if its text is wanted.
    goal_text: bool,
    recent: Vec<usize>,
    /// All of them, the recent ones too.
    milestones: Vec<usize>,
    /// The last ones, which stay.
    kept: Vec<usize>,
}

impl Parts {
    fn of(items: &[Item], ask: &Ask) -> Parts {
        let iterations: Vec<usize> =
            (0..items.len()).filter(|index| items[*index].iteration.is_some()).collect();
        let count = iterations.len();
        let start = match ask.last {
            Last::Exactly(last) => count.saturating_sub(last),
            Last::Between { least, most } => {
                let batch = most.saturating_sub(least) + 1;
                count.saturating_sub(most).div_ceil(batch) * batch
            }
        };
        let recent = iterations[start.min(count)..].to_vec();
        let kept = recent[recent.len().saturating_sub(NEVER_DROPPED)..].to_vec();
        let is_milestone = |index: &usize| ask.milestones && items[*index].is_milestone;
        let milestones = iterations.into_iter().filter(is_milestone).collect();
        let goal = items.iter().rposition(|item| item.iteration.is_none());
        Parts { goal, goal_text: ask.goal, recent, milestones, kept }
    }

    fn is_milestone(&self, index: usize) -> bool {
        self.milestones.binary_search(&index).is_ok()
    }

    fn everything(&self) -> impl Iterator<Item = usize> {
        let others = self.recent.iter().filter(|index| !self.is_milestone(**index));
        others.chain(&self.milestones).chain(&self.goal).copied()
    }

    fn best(&self, index: usize, items: &[Item]) -> Form {
        match items[index].iteration {
            None if !self.goal_text => Form::Heading,
            Some(_) if !self.is_milestone(index) => Form::Short,
            _ => Form::Whole,
        }
    }

    /// Everything, each in its best form.
    fn all(&self, items: &[Item]) -> BTreeMap<usize, Form> {
        self.everything().map(|index| (index, self.best(index, items))).collect()
    }
}

/// Finds the forms with which a window fits its budget.
struct Fit<'a> {
    log: &'a mut Log,
    parts: &'a Parts,
    budget: u64,
}

impl Fit<'_> {
    fn forms(&mut self) -> BTreeMap<usize, Form> {
        let (mut forms, used) = self.kept();
        let older: Vec<usize> = self
            .parts
            .milestones
            .iter()
            .copied()
            .filter(|index| !forms.contains_key(index))
            .collect();
        let left = self.budget.saturating_sub(used);
        if self.fits(&older, Form::Whole, left) {
            forms.extend(older.iter().map(|index| (*index, Form::Whole)));
            self.add_ordinary(&mut forms);
        } else if self.fits(&older, Form::Short, left) {
            self.grow(&mut forms, &older, Form::Short, Form::Whole, left);
        } else if self.fits(&older, Form::Heading, left) {
            self.grow(&mut forms, &older, Form::Heading, Form::Short, left);
        } else {
            self.name(&mut forms, &older, left);
        }
        // The mark of a short form may make it longer than the whole one.
        for (index, form) in forms.iter_mut().filter(|(_, form)| **form == Form::Short) {
            let whole = self.log.tokens_of(*index, Form::Whole);
            if self.parts.is_milestone(*index) && whole <= self.log.tokens_of(*index, Form::Short) {
                *form = Form::Whole;
            }
        }
        forms
    }

    /// The last entries and the goal, cut as little as leaves room for the numbers of the rest.
    fn kept(&mut self) -> (BTreeMap<usize, Form>, u64) {
        let kept: Vec<usize> = self.parts.kept.iter().chain(&self.parts.goal).copied().collect();
        let others: Vec<Iteration> = self
            .parts
            .milestones
            .iter()
            .filter(|index| !kept.contains(index))
            .filter_map(|index| self.log.items[*index].iteration)
            .collect();
        let words = self.log.language;
        let numbers = tokens::count(&left_out(words, &others, &[])).0;
        let counted = tokens::count(&left_out(words, &[], &others)).0;
        let rest = if numbers <= self.budget / 3 { numbers } else { counted };
        let steps = [None, Some(Form::Short)].into_iter();
        let mut last = (BTreeMap::new(), 0);
        for step in steps.chain(CUTS.map(|most| Some(Form::Cut(most)))) {
            let best = |index: &usize| self.parts.best(*index, &self.log.items);
            let form = |index: &usize| match best(index) {
                Form::Heading => Form::Heading,
                best => step.unwrap_or(best),
            };
            let forms: BTreeMap<usize, Form> =
                kept.iter().map(|index| (*index, form(index))).collect();
            let mut used: u64 = 0;
            for (index, form) in &forms {
                used = used.saturating_add(self.log.tokens_of(*index, *form));
            }
            last = (forms, used);
            if used.saturating_add(rest) <= self.budget {
                break;
            }
        }
        last
    }

    /// Whether all of them fit in one form; stops counting where they do not.
    fn fits(&mut self, indices: &[usize], form: Form, budget: u64) -> bool {
        let mut used: u64 = 0;
        // The newest first: they are the ones whose sizes will be asked for again.
        indices.iter().rev().all(|index| {
            used += self.log.tokens_of(*index, form);
            used <= budget
        })
    }

    /// The ordinary iterations that still fit, the newest first.
    fn add_ordinary(&mut self, forms: &mut BTreeMap<usize, Form>) {
        let mut used: u64 = 0;
        for (index, form) in forms.iter() {
            used += self.log.tokens_of(*index, *form);
        }
        for index in self.parts.recent.iter().rev() {
            if forms.contains_key(index) {
                continue;
            }
            used += self.log.tokens_of(*index, Form::Short);
            if used > self.budget {
                break;
            }
            forms.insert(*index, Form::Short);
        }
    }

    /// All of them in the small form, and as many of the newest as fit in the large one.
    fn grow(
        &mut self,
        forms: &mut BTreeMap<usize, Form>,
        indices: &[usize],
        small: Form,
        large: Form,
        budget: u64,
    ) {
        let mut used: u64 = 0;
        for index in indices {
            used += self.log.tokens_of(*index, small);
            forms.insert(*index, small);
        }
        for index in indices.iter().rev() {
            used = used - self.log.tokens_of(*index, small) + self.log.tokens_of(*index, large);
            if used > budget {
                break;
            }
            forms.insert(*index, large);
        }
    }

    /// The oldest ones by their numbers, as many of the newest as fit by their headings. Numbers
    /// that would take more than a third of the budget are only counted.
    fn name(&mut self, forms: &mut BTreeMap<usize, Form>, indices: &[usize], budget: u64) {
        let number = |index: &usize| self.log.items[*index].iteration;
        let numbers: Vec<Iteration> = indices.iter().filter_map(number).collect();
        // Tokens of the oldest numbers: none, one, two, …
        let mut named = vec![0];
        for index in indices {
            named.push(named[named.len() - 1] + self.log.tokens_of(*index, Form::Named));
        }
        let words = self.log.language;
        let head = line_tokens(words, &numbers, &[]);
        let is_listed = named[indices.len()] + head <= self.budget / 3;
        let form = if is_listed { Form::Named } else { Form::Counted };
        // Tokens of the newest headings: none, one, two, …, as far as they could fit.
        let mut headings = vec![0];
        for index in indices.iter().rev() {
            let sum = headings[headings.len() - 1] + self.log.tokens_of(*index, Form::Heading);
            if sum > budget {
                break;
            }
            headings.push(sum);
        }
        let fits = |count: &usize| {
            let older = &numbers[..indices.len() - count];
            let line = match is_listed {
                true if older.is_empty() => 0,
                true => head + named[older.len()],
                false => line_tokens(words, &[], older),
            };
            headings[*count] + line <= budget
        };
        let all: Vec<usize> = (0..headings.len()).collect();
        let headings = all.partition_point(fits).saturating_sub(1);
        let (older, newer) = indices.split_at(indices.len() - headings);
        forms.extend(older.iter().map(|index| (*index, form)));
        forms.extend(newer.iter().map(|index| (*index, Form::Heading)));
    }
}
