//! What was said in a conversation, in its order, and the form in which each piece is sent. Goes in:
//! words, answers, results. Comes out: the messages for the model.
//!
//! A result is sent whole during its turn; lines of a file that are in the conversation already are
//! referred to (`same`). Once a request has carried it, a fold may make a stub of it
//! (`fold`), the end of its turn leaves the form that history keeps, and when the window is nearly
//! full, the oldest part leaves (`compact`), with a summary and what code noted of it (`ledger`) in
//! its place. What does not fit before it was seen is cut by lines (`cut`). Whatever changes, what
//! stands before the change keeps its bytes.

pub mod compact;
mod ledger;
mod same;

use serde_json::Value;

use crate::fact::{self, Class};
use crate::fold::{self, Folded, Kind, Known, Of, Settings, Weight};
use crate::id::ObservationId;
use crate::message::{Message, Part};
use crate::messages::Language;
use crate::messages::results::Thing;
use crate::observation::plain::{self, Plain};
use crate::observation::{self, Envelope, Status, cut};
use crate::text;
use same::Same;

pub use ledger::Ledger;

/// A piece of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// The words of a user, or the prompt of a stage.
    User(String),
    /// A message from code to the model: a complaint, a note about a fold, facts of what left.
    Note(String),
    Assistant(Message),
    Observation(Box<Seen>),
}

impl Item {
    fn result_id(&self) -> Option<ObservationId> {
        match self {
            Item::Observation(seen) => Some(seen.id),
            Item::User(_) | Item::Note(_) | Item::Assistant(_) => None,
        }
    }
}

/// The form in which results are sent.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Results {
    /// A line that says what it is, then the text.
    #[default]
    Plain,
    /// The envelope.
    Json,
}

/// A result, and how it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub id: ObservationId,
    pub call: String,
    pub tool: String,
    /// What the tool was called with, in a few words.
    pub target: String,
    /// Files that the call named.
    pub files: Vec<String>,
    /// As the tool gave it or, once its turn is over, as history keeps it.
    pub envelope: Envelope,
    /// As it is sent.
    pub text: String,
    pub form: Form,
    /// The language of what code says about it; its thread's.
    language: Language,
    /// Characters that it may take, where not all of it fits.
    most: Option<usize>,
    /// Tokens of it, roughly.
    size: usize,
}

/// How a result is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Whole,
    /// Whole, with references to lines that are in the conversation already.
    Referred,
    /// Without lines that do not fit, which it names.
    Cut,
    Stub,
}

impl Seen {
    pub fn new(
        id: ObservationId,
        call: String,
        tool: String,
        arguments: &str,
        envelope: Envelope,
    ) -> Seen {
        let (files, target) = (files_of(arguments), target_of(arguments));
        let (text, form) = (String::new(), Form::Whole);
        let language = Language::default();
        let (most, size) = (None, 0);
        Seen { id, call, tool, target, files, envelope, text, form, language, most, size }
    }

    pub fn is_error(&self) -> bool {
        self.envelope.status == Status::Error
    }

    /// The lines of a command's output with their numbers, if it has the short form of history that
    /// counts and numbers them.
    fn numbered<'b>(&self, body: &'b str) -> Option<&'b str> {
        self.envelope.stub_of?;
        let (count, lines) = body.split_once('\n')?;
        let (number, rest) = count.strip_prefix('[')?.split_once(" lines")?;
        let is_count = number.parse::<u64>().is_ok() && rest.ends_with(']');
        (is_count && self.is("bash")).then_some(lines)
    }

    fn is(&self, tool: &str) -> bool {
        self.tool.eq_ignore_ascii_case(tool)
    }

    fn plain(&self) -> Plain {
        plain::plain(&self.tool, &self.envelope, self.language)
    }

    /// The whole text of it.
    pub fn body(&self) -> String {
        self.plain().body
    }

    /// Its description in one line, without what its short form leaves out.
    pub fn described(&self) -> String {
        let fact = |words: String| format!("; {words}");
        let title = self.plain().title.replace(&fact(self.language.file_is_past()), "");
        let shortened = fact(self.language.shortened());
        let title = title.split(&shortened).next().unwrap_or_default().to_owned();
        match title.strip_prefix(self.tool.as_str()) {
            Some(rest) if rest.starts_with(':') && !self.target.is_empty() => {
                format!("{} {}{rest}", self.tool, self.target)
            }
            _ => title,
        }
    }

    /// The file that it is about.
    pub fn file(&self) -> Option<&str> {
        let named = self.envelope.data.get("file").and_then(Value::as_str);
        named.or_else(|| self.files.first().map(String::as_str))
    }

    /// True if it shows a file's text.
    fn shows_file(&self) -> bool {
        match self.tool.to_ascii_lowercase().as_str() {
            "read" => true,
            "recall" => self.envelope.data.contains_key("file"),
            "bash" => shows_file(&self.target),
            _ => false,
        }
    }

    /// True if its file had been changed already when it was recalled.
    fn was_past(&self) -> bool {
        self.envelope.data.get("is_past").and_then(Value::as_bool) == Some(true)
    }

    /// True if the tool itself left lines out.
    fn is_truncated(&self) -> bool {
        self.envelope.data.get("truncated").and_then(Value::as_bool) == Some(true)
    }

    /// True if it deleted this file.
    fn is_gone(&self, file: &str) -> bool {
        let deleted = self.envelope.data.get("deleted").and_then(Value::as_array);
        deleted.into_iter().flatten().any(|own| own.as_str() == Some(file))
    }

    /// The files that it changed, as far as it tells.
    pub fn changed(&self) -> Vec<&str> {
        match self.tool.to_ascii_lowercase().as_str() {
            _ if self.is_error() => Vec::new(),
            "edit" | "multiedit" | "write" => self.file().into_iter().collect(),
            "bash" => {
                let changed = self.envelope.data.get("changed").and_then(Value::as_array);
                changed.into_iter().flatten().filter_map(Value::as_str).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Sends it in the fullest form that fits and repeats nothing. `is_past`: the file that it shows
    /// was changed since.
    fn unfold(&mut self, is_past: bool, results: Results, same: &mut Same) {
        let Plain { mut title, mut body } = self.plain();
        if is_past && self.shows_file() && !self.was_past() {
            title.push_str(&format!("; {}", self.language.lines_are_past()));
        }
        self.form = Form::Whole;
        let at_end = self.most.map_or(0, |most| if self.shows_file() { 0 } else { most / 2 });
        if let Some(most) = self.most
            && let Some(cut) = cut::by_lines(self.id, &body, most, at_end, self.is_truncated())
        {
            (self.form, body) = (Form::Cut, cut);
            title.push_str(&format!("; {}", self.language.cut_to_fit()));
        }
        if results == Results::Json && self.form == Form::Whole {
            self.text = observation::sent(&self.envelope, self.id);
            self.size = fold::size(&self.text);
            return;
        }
        if self.is("read")
            && let Some(referred) = same.referred(&body)
        {
            body = referred;
            self.form = if self.form == Form::Cut { Form::Cut } else { Form::Referred };
        }
        self.text = Plain { title, body }.text(self.id);
        self.size = fold::size(&self.text);
        self.stand(same);
    }

    /// Its lines can be referred to from here on.
    fn stand(&self, same: &mut Same) {
        if self.is("read") && self.form != Form::Stub {
            same.add(self.id, &self.text);
        }
    }

    /// The description with the number of lines of the whole output.
    fn title_of_stub(&self, shown: &str) -> String {
        let title = self.described();
        if !self.is("bash") || self.envelope.stub_of.is_some() {
            return title;
        }
        let not_all = self.language.not_all();
        if title.contains(&not_all) {
            return title.replace(&not_all, "");
        }
        let lines = self.language.counted(shown.lines().count() as u64, Thing::Line);
        format!("{title}; {lines}")
    }

    /// `is_past`: the file that it shows was changed since.
    fn stub(&self, is_past: bool, known: &mut Known) -> Option<String> {
        let Plain { body, .. } = self.plain();
        let numbered = self.numbered(&body);
        let shown = numbered.unwrap_or(&body);
        let of = match self.file() {
            // The short form of an output may have parts of lines.
            _ if self.is("bash") && self.envelope.stub_of.is_some() => Of::Other,
            Some(_) if self.shows_file() && (is_past || self.was_past()) => Of::Past,
            Some(file) if self.shows_file() => Of::File(file),
            _ => Of::Other,
        };
        let title = self.title_of_stub(shown);
        let folded = Folded { id: self.id, title: &title, text: shown, of };
        let mut stub = fold::stub(folded, known, self.language);
        if self.is("bash") && of == Of::Other {
            // What a run came to must not have to be asked for again.
            let cut = self.is_truncated().then_some(self.id);
            for line in observation::telling(shown, cut, numbered.is_some()) {
                // Half a line of half a result tells little.
                if self.envelope.stub_of.is_some() && line.ends_with(" chars]") {
                    continue;
                }
                stub.push_str(&format!("\n{line}"));
            }
        }
        // A stub that saves little is worth less than what it stands for.
        (fold::size(&stub) * 10 < fold::size(&body) * WORTH).then_some(stub)
    }
}

/// True if a command only prints a file, as far as its first line tells.
fn shows_file(command: &str) -> bool {
    // What writes or does more than one thing shows something else.
    let is_simple = !command.contains(['>', '<', ';', '&', '|', '`', '…']);
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    let prints = ["cat", "head", "tail", "nl"].contains(&program);
    is_simple && (prints || program == "sed" && words.next() == Some("-n"))
}

/// A call that names more files names none in particular.
const FILES: usize = 3;

/// The files that a text names.
fn files_named(text: &str) -> Vec<String> {
    let mut files = Vec::new();
    fact::each_word(text, |class, name| {
        if class == Class::File {
            files.push(name.to_owned());
        }
    });
    files.sort_unstable();
    files.dedup();
    files
}

/// The files that a call names.
pub fn files_of(arguments: &str) -> Vec<String> {
    let files = files_named(arguments);
    if files.len() > FILES { Vec::new() } else { files }
}

/// The first words of a call.
fn target_of(arguments: &str) -> String {
    let mut lines = arguments.lines().filter(|line| !line.trim().is_empty());
    let first = text::shown(lines.next().unwrap_or_default().trim(), 100);
    // A script that a command brings along.
    match first.contains("<<") && lines.next().is_some() {
        true => format!("{first} …"),
        false => first,
    }
}

/// Arguments as text, a line each.
pub fn flat(arguments: &serde_json::Map<String, Value>) -> String {
    fn add(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => out.push_str(text),
            Value::Array(values) => values.iter().for_each(|value| add_line(value, out)),
            Value::Object(map) => map.values().for_each(|value| add_line(value, out)),
            Value::Null => {}
            other => out.push_str(&other.to_string()),
        }
    }
    fn add_line(value: &Value, out: &mut String) {
        if !out.is_empty() {
            out.push('\n');
        }
        add(value, out);
    }
    let mut out = String::new();
    arguments.values().for_each(|value| add_line(value, &mut out));
    out
}

/// A stub has at most this part of the result, in tenths.
const WORTH: usize = 7;

/// Views of one file that stay whole.
const VIEWS: usize = 2;

/// A conversation as it is sent.
#[derive(Debug, Clone)]
pub struct Thread {
    items: Vec<Item>,
    /// The first item of each turn; the last one goes on.
    turns: Vec<usize>,
    /// When each of them began, where that is known.
    times: Vec<Option<String>>,
    /// What stands for the oldest parts that left, the newest last. Never touched again.
    records: Vec<String>,
    /// The number of records that no longer fit.
    records_gone: usize,
    /// The user's messages that left with the oldest parts, word for word.
    words: Vec<String>,
    /// The facts of what left and is in no record.
    ledger: Ledger,
    /// The last state that the agent handed over to itself, with the words that asked for it.
    state: Option<(String, String)>,
    /// Items at the beginning that stand for what left.
    head: usize,
    /// The words of the turn that goes on, once they left.
    task: Option<String>,
    /// Earlier turns keep only their first and last words, but for so many last steps.
    words_only: Option<usize>,
    same: Same,
    results: Results,
    /// Results that were there at the last fold and not among the newest.
    judged: usize,
    language: Language,
    pub folding: Settings,
}

impl Thread {
    pub fn new(folding: Settings, words_only: Option<usize>, results: Results) -> Thread {
        Thread {
            items: Vec::new(),
            turns: Vec::new(),
            times: Vec::new(),
            records: Vec::new(),
            records_gone: 0,
            words: Vec::new(),
            ledger: Ledger::default(),
            state: None,
            head: 0,
            task: None,
            words_only,
            same: Same::default(),
            results,
            judged: 0,
            language: Language::default(),
            folding,
        }
    }

    /// The same, empty, conversation with code's own words in this language.
    pub fn speaking(mut self, language: Language) -> Thread {
        self.language = language;
        self
    }

    /// The records of the parts that left, the oldest first.
    pub fn records(&self) -> &[String] {
        &self.records
    }

    /// Tokens of all of it, roughly.
    pub fn size(&self) -> usize {
        let archive = self.archive();
        let archive = if archive.is_empty() { 0 } else { fold::size(&archive) };
        archive + self.sizes().iter().sum::<usize>()
    }

    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Tokens of the newest item, roughly.
    pub fn size_of_last(&self) -> u64 {
        let size = self.items.last().map_or(0, size_of);
        u64::try_from(size).unwrap_or(u64::MAX)
    }

    /// Those of the turn that goes on.
    pub fn of_turn(&self) -> &[Item] {
        &self.items[self.turn()..]
    }

    /// The first item of each turn that is still there.
    pub fn turns(&self) -> &[usize] {
        &self.turns
    }

    /// The first item of the turn that goes on.
    pub fn turn(&self) -> usize {
        self.turns.last().copied().unwrap_or(0)
    }

    pub fn push(&mut self, mut item: Item) {
        if let Item::Observation(seen) = &mut item {
            seen.language = self.language;
            seen.unfold(false, self.results, &mut self.same);
        }
        self.items.push(item);
    }

    /// The first item that no request has carried yet.
    fn unseen(&self) -> usize {
        let is_answer = |item: &Item| matches!(item, Item::Assistant(_));
        self.items.iter().rposition(is_answer).unwrap_or(self.items.len())
    }

    /// A new turn: what the last one leaves in history are the short forms of its results, where that
    /// pays, and no thoughts. The first item that changed.
    pub fn begin_turn(&mut self, text: &str, at: Option<&str>) -> usize {
        let thoughts = self.forget_thoughts();
        let from = self.close(thoughts).min(thoughts).min(self.leave_words());
        self.render(from, &[]);
        self.task = None;
        self.turns.push(self.items.len());
        self.times.push(at.map(str::to_owned));
        self.push(Item::User(text.to_owned()));
        from
    }

    /// Thoughts belong to the turn in which they were thought. The first item that changed.
    fn forget_thoughts(&mut self) -> usize {
        let (turn, end) = (self.turn(), self.items.len());
        let mut first = end;
        for (index, item) in self.items.iter_mut().enumerate().skip(turn) {
            if let Item::Assistant(message) = item
                && forget_thoughts(message)
            {
                first = first.min(index);
            }
        }
        first
    }

    /// Leaves the short forms of the results of this turn, from where it pays; after `free` all is
    /// sent anew anyway. The first item that changed.
    fn close(&mut self, free: usize) -> usize {
        let (turn, unseen, end) = (self.turn(), self.unseen(), self.items.len());
        let is_closed = |index: usize| (turn..unseen).contains(&index);
        let items = self.items.iter().enumerate();
        let short = items.map(|(index, item)| is_closed(index).then(|| shorter(item)).flatten());
        let mut short: Vec<Option<(usize, Envelope)>> = short.collect();
        let (mut saved, mut rewritten, mut best, mut from) = (0.0, 0.0, 0.0, end);
        for index in (turn..end).rev() {
            let size = size_of(&self.items[index]);
            let gain = short[index].as_ref().map_or(0, |(now, _)| size.saturating_sub(*now));
            saved += fold::tokens(gain);
            rewritten += fold::tokens(size - gain);
            if index >= free {
                rewritten = 0.0;
            }
            let worth = fold::worth(&self.folding, saved, rewritten);
            if gain > 0 && worth > best {
                (best, from) = (worth, index);
            }
        }
        let mut known = Known::default();
        for (index, item) in self.items.iter_mut().enumerate() {
            match item {
                Item::Observation(seen) if index >= from => {
                    if let Some((_, envelope)) = short[index].take() {
                        leave_names(seen, envelope, &mut known);
                    }
                    known.stays(&seen.body());
                }
                item => tell(&mut known, item),
            }
        }
        from
    }

    /// Turns before the last steps keep their users' words and the last words of the agent, where
    /// that is the way. The first item that changed.
    fn leave_words(&mut self) -> usize {
        let unchanged = self.items.len();
        let Some(steps) = self.words_only else { return unchanged };
        let starts = self.items.iter().enumerate().rev();
        let mut starts = starts.filter(|(_, item)| matches!(item, Item::Assistant(_)));
        let Some((kept, _)) = starts.nth(steps.saturating_sub(1)) else { return unchanged };
        let ends = self.turns.iter().skip(1).copied().chain([self.items.len()]);
        let spans: Vec<(usize, usize)> = self.turns.iter().copied().zip(ends).collect();
        let first = self.turns.first().copied().unwrap_or(0);
        let mut items: Vec<Item> = self.items.drain(..first).collect();
        let mut old: Vec<Option<Item>> = self.items.drain(..).map(Some).collect();
        let mut changed = unchanged;
        let mut turns = Vec::new();
        for (start, end) in spans {
            turns.push(items.len());
            let span = &mut old[start - first..end - first];
            if end > kept {
                items.extend(span.iter_mut().filter_map(Option::take));
                continue;
            }
            // What stands for earlier parts is at the beginning.
            let is_kept =
                |at: usize, item: &Item| start + at < self.head || matches!(item, Item::User(_));
            let said = span.iter().rposition(|item| matches!(item, Some(Item::Assistant(_))));
            let before = items.len();
            for (at, item) in span.iter_mut().enumerate() {
                if item.as_ref().is_some_and(|item| is_kept(at, item)) {
                    items.extend(item.take());
                }
            }
            if let Some(Item::Assistant(message)) = said.and_then(|at| span[at].take()) {
                items.push(Item::Assistant(compact::without_calls(&message, self.language)));
            }
            if items.len() - before < span.len() {
                changed = changed.min(before);
            }
            let gone: Vec<Item> = span.iter_mut().filter_map(Option::take).collect();
            self.ledger.add(&gone);
        }
        (self.items, self.turns) = (items, turns);
        changed
    }

    /// The results that a fold would make stubs of now, if it is time for one.
    pub fn fold_due(&self) -> Option<Vec<ObservationId>> {
        let sizes = self.items.iter().filter_map(|item| match item {
            Item::Observation(seen) if seen.form == Form::Stub => Some(0),
            Item::Observation(seen) => Some(seen.size),
            Item::User(_) | Item::Note(_) | Item::Assistant(_) => None,
        });
        let (count, whole) = sizes.fold((0, 0), |(count, sum), size| (count + 1, sum + size));
        // Most steps end here, before anything is weighed.
        if !fold::is_due(count, whole, self.judged, &self.folding) {
            return None;
        }
        let weights = self.weights();
        let from = fold::plan(&weights, self.judged, &self.folding)?;
        let newest = self.newest();
        let ids = self.items.iter().zip(&weights).enumerate().skip(from);
        let ids = ids.filter(|(index, (_, own))| *index < newest && own.kind == Kind::Result);
        let ids: Vec<_> = ids.filter_map(|(_, (item, _))| item.result_id()).collect();
        (!ids.is_empty()).then_some(ids)
    }

    /// Makes stubs of these results, and says so. The first item that changed.
    pub fn fold(&mut self, ids: &[ObservationId]) -> usize {
        let is_folded = |item: &Item| matches!(item, Item::Observation(seen) if ids.contains(&seen.id) && seen.form != Form::Stub);
        let results = self.items.iter().filter(|item| matches!(item, Item::Observation(_)));
        self.judged = results.count().saturating_sub(self.folding.keep);
        let Some(from) = self.items.iter().position(is_folded) else { return self.items.len() };
        self.render(from, ids);
        let folded = self.items.iter().filter_map(|item| match item {
            Item::Observation(seen) if ids.contains(&seen.id) && seen.form == Form::Stub => {
                Some(seen.id)
            }
            _ => None,
        });
        let ids = id_list(&folded.collect::<Vec<_>>());
        let language = self.language;
        self.announce(language.folded_results() + &language.folded_results_end(ids));
        from
    }

    /// A word of ours, before the words of a turn that has just begun.
    fn announce(&mut self, note: String) {
        match self.items.last() {
            Some(Item::User(_)) => {
                let at = self.items.len() - 1;
                self.items.insert(at, Item::Note(note));
                self.turns.iter_mut().filter(|turn| **turn == at).for_each(|turn| *turn += 1);
            }
            _ => self.push(Item::Note(note)),
        }
    }

    /// The first of the newest results. Those that no request has carried are among them.
    fn newest(&self) -> usize {
        let mut results = self.items.iter().enumerate().rev();
        let mut results = results.by_ref().filter(|(_, item)| matches!(item, Item::Observation(_)));
        let newest = match self.folding.keep.checked_sub(1).and_then(|before| results.nth(before)) {
            Some((index, _)) => index,
            None if self.folding.keep == 0 => self.items.len(),
            None => 0,
        };
        // The steps before this one are what it is about.
        let answers = self.items.iter().enumerate().rev();
        let mut answers = answers.filter(|(_, item)| matches!(item, Item::Assistant(_)));
        let last_steps = answers.nth(1).map_or(0, |(index, _)| index);
        newest.min(self.unseen()).min(last_steps)
    }

    fn weights(&self) -> Vec<Weight> {
        let in_hand = self.in_hand();
        let unseen = self.unseen();
        let kind = |index: usize, item: &Item| match item {
            Item::User(_) | Item::Note(_) | Item::Assistant(_) => Kind::Said,
            Item::Observation(seen) if seen.form == Form::Stub => Kind::Stub,
            Item::Observation(_) if index >= unseen || in_hand.contains(&index) => Kind::InHand,
            Item::Observation(_) => Kind::Result,
        };
        let items = self.items.iter().enumerate().zip(self.sizes());
        items.map(|((index, item), size)| Weight { size, kind: kind(index, item) }).collect()
    }

    /// Tokens of each item as it is sent, roughly.
    fn sizes(&self) -> Vec<usize> {
        self.items.iter().map(size_of).collect()
    }

    /// The newest views of the files that were last spoken of.
    fn in_hand(&self) -> Vec<usize> {
        let mut files: Vec<String> = Vec::new();
        for item in self.items.iter().rev() {
            if files.len() >= self.folding.files {
                break;
            }
            let Item::Assistant(message) = item else { continue };
            for call in calls(message) {
                for file in files_of(&flat(&call.arguments)) {
                    if !files.contains(&file) {
                        files.push(file);
                    }
                }
            }
        }
        files.truncate(self.folding.files);
        let mut room = self.folding.file_tokens;
        let mut found = Vec::new();
        for file in &files {
            // A long file is read in parts.
            let views =
                self.items.iter().enumerate().rev().filter_map(|(index, item)| match item {
                    Item::Observation(seen) if seen.shows_file() && seen.files.contains(file) => {
                        Some((index, seen.size))
                    }
                    _ => None,
                });
            for (index, size) in views.take(VIEWS) {
                if size > room {
                    break;
                }
                room -= size;
                found.push(index);
            }
        }
        found
    }

    /// Every item from this one on, in the form that is right now; these results as stubs.
    fn render(&mut self, from: usize, stubs: &[ObservationId]) {
        let from = from.min(self.items.len());
        let is_stub = |seen: &Seen| seen.form == Form::Stub || stubs.contains(&seen.id);
        let past = self.past();
        let mut made = self.stubs(from, &is_stub, &past);
        self.same = Same::default();
        for (index, item) in self.items.iter_mut().enumerate() {
            let Item::Observation(seen) = item else { continue };
            match made[index].take() {
                _ if index < from => seen.stand(&mut self.same),
                Some(stub) => {
                    seen.size = fold::size(&stub);
                    (seen.text, seen.form) = (stub, Form::Stub);
                    seen.stand(&mut self.same);
                }
                None => seen.unfold(past[index], self.results, &mut self.same),
            }
        }
    }

    /// For each item: true if the file that it is about was changed after it.
    fn past(&self) -> Vec<bool> {
        let mut past = vec![false; self.items.len()];
        let mut changed: Vec<&str> = Vec::new();
        for (index, item) in self.items.iter().enumerate().rev() {
            let Item::Observation(seen) = item else { continue };
            past[index] = seen
                .file()
                .is_some_and(|file| changed.iter().any(|changed| same::is_same(changed, file)));
            changed.extend(seen.changed());
        }
        past
    }

    /// The stubs from this item on. The newest are made first: the newest view of a file is the one
    /// whose lines are wanted.
    fn stubs(
        &self,
        from: usize,
        is_stub: &dyn Fn(&Seen) -> bool,
        past: &[bool],
    ) -> Vec<Option<String>> {
        let mut known = Known::default();
        for (index, item) in self.items.iter().enumerate() {
            match item {
                Item::Assistant(message) => {
                    for text in said(message) {
                        known.stays(&text);
                        known.said(&text, index);
                    }
                }
                Item::Observation(seen) if index >= from && is_stub(seen) => {}
                item => tell(&mut known, item),
            }
        }
        let mut made = vec![None; self.items.len()];
        for (index, item) in self.items.iter().enumerate().skip(from).rev() {
            if let Item::Observation(seen) = item
                && is_stub(seen)
            {
                made[index] = seen.stub(past[index], &mut known);
            }
        }
        made
    }
}

/// A result in the form that history keeps, if that is shorter, and its size then. A reading stays:
/// what it shows is what later edits are made with.
fn shorter(item: &Item) -> Option<(usize, Envelope)> {
    let Item::Observation(seen) = item else { return None };
    if seen.form == Form::Stub || seen.envelope.stub_of.is_some() || seen.is("read") {
        return None;
    }
    let kept = observation::compress(&seen.tool, &seen.envelope, seen.id, seen.language);
    kept.omitted.as_ref()?;
    let kept: Envelope = kept.into();
    let size = fold::size(&plain::plain(&seen.tool, &kept, seen.language).text(seen.id));
    (size < seen.size).then_some((size, kept))
}

/// The short form, with the names that it leaves out and nothing else tells.
fn leave_names(seen: &mut Seen, mut kept: Envelope, known: &mut Known) {
    let short = plain::plain(&seen.tool, &kept, seen.language).body;
    let whole = seen.body();
    let names = fold::names(&whole, &short, known, fold::ALIKE);
    if let Some(omitted) = kept.omitted.as_mut().filter(|_| !names.is_empty()) {
        omitted.push_str(&format!("; {}", seen.language.names_in_it(names.join(" "))));
    }
    (seen.envelope, seen.most) = (kept, None);
}

/// The words that need not be said again because of this item.
fn tell(known: &mut Known, item: &Item) {
    match item {
        Item::User(text) | Item::Note(text) => known.stays(text),
        Item::Assistant(message) => said(message).iter().for_each(|text| known.stays(text)),
        Item::Observation(seen) if seen.form == Form::Stub => known.stays(&seen.text),
        Item::Observation(seen) => known.stays(&seen.body()),
    }
}

/// True if there were any.
fn forget_thoughts(message: &mut Message) -> bool {
    let is_thought = |part: &Part| matches!(part, Part::Thinking(_));
    let is_only = message.parts.iter().all(is_thought);
    let before = message.parts.len();
    if !is_only {
        message.parts.retain(|part| !is_thought(part));
    }
    message.parts.len() < before
}

/// `o1, o3-o9`.
fn id_list(ids: &[ObservationId]) -> String {
    let numbers: Vec<u64> = ids.iter().map(|id| u64::from(id.0)).collect();
    text::ranges("o", &numbers)
}

/// What the model called.
pub fn calls(message: &Message) -> impl Iterator<Item = &crate::message::ToolCall> {
    message.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        Part::Text { .. } | Part::ToolResult(_) | Part::Thinking(_) | Part::Image { .. } => None,
    })
}

/// What the model said, and what it called with.
fn said(message: &Message) -> Vec<String> {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.clone()),
        Part::ToolCall(call) => Some(flat(&call.arguments)),
        Part::ToolResult(_) | Part::Thinking(_) | Part::Image { .. } => None,
    });
    texts.collect()
}

/// Tokens of an item as it is sent, roughly.
fn size_of(item: &Item) -> usize {
    match item {
        Item::User(text) | Item::Note(text) => fold::size(text),
        Item::Assistant(message) => said(message).iter().map(|text| fold::size(text)).sum(),
        Item::Observation(seen) => seen.size,
    }
}
