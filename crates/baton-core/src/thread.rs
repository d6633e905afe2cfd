//! What was said in a conversation, in its order, and the form in which each piece is sent. Goes in:
//! words, answers, results. Comes out: the messages for the model.
//!
//! A result is sent whole while its turn goes on, without the lines that stand in the conversation
//! already; a fold makes a stub of it (`fold`); when its turn is over, the form that history keeps is
//! left; and when the window is nearly full, the oldest part leaves (`compact`), with a summary and
//! what code noted of it (`ledger`) in its place. Whatever changes, what stands before the change
//! keeps its bytes.

pub mod compact;
mod ledger;

use serde_json::Value;

use crate::fact::{self, Class};
use crate::fold::{self, Folded, Kind, Known, Settings, Visible, Weight};
use crate::id::ObservationId;
use crate::message::{Message, Part};
use crate::observation::{self, Envelope, Status};
use crate::text;

pub use ledger::Ledger;

/// A piece of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    User(String),
    Assistant(Message),
    Observation(Box<Seen>),
}

impl Item {
    fn result_id(&self) -> Option<ObservationId> {
        match self {
            Item::Observation(seen) => Some(seen.id),
            Item::User(_) | Item::Assistant(_) => None,
        }
    }
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
    /// Tokens of it, roughly.
    size: usize,
}

/// How a result is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    Whole,
    /// Without the lines that stand elsewhere.
    Trimmed(Box<Envelope>),
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
        let files = files_of(arguments);
        let target = target_of(arguments);
        let form = Form::Whole;
        Seen { id, call, tool, target, files, envelope, text: String::new(), form, size: 0 }
    }

    pub fn is_error(&self) -> bool {
        self.envelope.status == Status::Error
    }

    /// As a reader sees it: lines are lines.
    pub fn readable(&self) -> String {
        match &self.form {
            Form::Whole => readable(&self.envelope),
            Form::Trimmed(short) => readable(short),
            Form::Stub => self.text.clone(),
        }
    }

    /// Sends it in the fullest form that repeats nothing.
    fn unfold(&mut self, visible: &mut Visible) {
        self.form = match visible.trimmed(&self.envelope) {
            Some(short) => Form::Trimmed(Box::new(short)),
            None => Form::Whole,
        };
        let shown = match &self.form {
            Form::Trimmed(short) => short.as_ref(),
            Form::Whole | Form::Stub => &self.envelope,
        };
        visible.add_envelope(shown, self.id);
        self.text = observation::sent(shown, self.id);
        self.size = fold::size(&readable(shown));
    }

    fn folded<'a>(&'a self, whole: &'a str) -> Folded<'a> {
        let status = match self.envelope.status {
            Status::Success => "success",
            Status::Partial => "partial",
            Status::Error => "error",
        };
        Folded { id: self.id, tool: &self.tool, target: &self.target, status, text: whole }
    }

    fn fold(&mut self, known: &mut Known, visible: &mut Visible) {
        let whole = readable(&self.envelope);
        let stub = fold::stub(self.folded(&whole), known, visible);
        if fold::size(&stub) >= fold::size(&whole) {
            return self.unfold(visible);
        }
        visible.add(&stub, Some(self.id));
        self.size = fold::size(&stub);
        (self.text, self.form) = (stub, Form::Stub);
    }

    /// Texts that are longer keep so much of each end.
    fn lose_middles(&mut self, longer: usize, end: usize) {
        for value in self.envelope.data.values_mut() {
            if let Value::String(text) = value
                && text.chars().count() > longer
            {
                *text = text::head_and_tail(text, end);
            }
        }
    }
}

/// A result as a text: lines are lines.
pub fn readable(envelope: &Envelope) -> String {
    let mut out = String::new();
    let mut add = |text: &str| {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(text);
    };
    for value in envelope.data.values() {
        match value {
            Value::String(text) => add(text),
            other => add(&other.to_string()),
        }
    }
    envelope.error.iter().for_each(|error| add(&error.message));
    envelope.omitted.iter().for_each(|omitted| add(omitted));
    out
}

/// A call that names more files names none in particular.
const FILES: usize = 3;

/// The files that a call names.
pub fn files_of(arguments: &str) -> Vec<String> {
    let mut files = Vec::new();
    fact::each_word(arguments, |class, name| {
        if class == Class::File {
            files.push(name.to_owned());
        }
    });
    files.sort_unstable();
    files.dedup();
    if files.len() > FILES { Vec::new() } else { files }
}

/// The first words of a call.
fn target_of(arguments: &str) -> String {
    let line = arguments.lines().find(|line| !line.trim().is_empty());
    text::shown(line.unwrap_or_default().trim(), 100)
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

/// A conversation as it is sent.
#[derive(Debug, Clone)]
pub struct Thread {
    items: Vec<Item>,
    /// The first item of each turn; the last one goes on.
    turns: Vec<usize>,
    /// What stands for the oldest parts that left, the newest last. Never touched again.
    archives: Vec<String>,
    /// Of what left and is in no archive.
    ledger: Ledger,
    /// The words of the turn that goes on, once they left.
    task: Option<String>,
    /// Earlier turns keep only their first and last words, but for so many last steps.
    words_only: Option<usize>,
    visible: Visible,
    /// Results that were there at the last fold and not among the newest.
    judged: usize,
    pub folding: Settings,
}

impl Thread {
    pub fn new(folding: Settings, words_only: Option<usize>) -> Thread {
        Thread {
            items: Vec::new(),
            turns: Vec::new(),
            archives: Vec::new(),
            ledger: Ledger::default(),
            task: None,
            words_only,
            visible: Visible::default(),
            judged: 0,
            folding,
        }
    }

    pub fn archives(&self) -> &[String] {
        &self.archives
    }

    /// Tokens of all of it, roughly.
    pub fn size(&self) -> usize {
        let archives: usize = self.archives.iter().map(|text| fold::size(text)).sum();
        archives + self.sizes().iter().sum::<usize>()
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
        match &mut item {
            Item::Observation(seen) => seen.unfold(&mut self.visible),
            other => add(&mut self.visible, other),
        }
        self.items.push(item);
    }

    /// A new turn: what the last one leaves in history are the short forms of its results, and no
    /// thoughts. The first item that changed.
    pub fn begin_turn(&mut self, text: &str) -> usize {
        let from = self.turn();
        let mut known = Known::default();
        for item in &self.items[..from] {
            tell(&mut known, item);
        }
        for item in &mut self.items[from..] {
            match item {
                Item::User(text) => known.stays(text),
                Item::Assistant(message) => {
                    forget_thoughts(message);
                    said(message).iter().for_each(|text| known.stays(text));
                }
                Item::Observation(seen) => close(seen, &mut known),
            }
        }
        let from = from.min(self.leave_words());
        self.render(from, &[]);
        self.task = None;
        self.turns.push(self.items.len());
        self.push(Item::User(text.to_owned()));
        from
    }

    /// Turns before the last steps keep their last user's and assistant's words, where that is the
    /// way. The first item that changed.
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
            let user = span.iter().rposition(|item| matches!(item, Some(Item::User(_))));
            let said = span.iter().rposition(|item| matches!(item, Some(Item::Assistant(_))));
            if span.len() > 2 {
                changed = changed.min(items.len());
            }
            items.extend(user.and_then(|at| span[at].take()));
            if let Some(Item::Assistant(message)) = said.and_then(|at| span[at].take()) {
                items.push(Item::Assistant(compact::without_calls(&message)));
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
            Item::User(_) | Item::Assistant(_) => None,
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
        Some(ids.filter_map(|(_, (item, _))| item.result_id()).collect())
    }

    /// Makes stubs of these results. The first item that changed.
    pub fn fold(&mut self, ids: &[ObservationId]) -> usize {
        let is_folded = |item: &Item| matches!(item, Item::Observation(seen) if ids.contains(&seen.id) && seen.form != Form::Stub);
        let results = self.items.iter().filter(|item| matches!(item, Item::Observation(_)));
        self.judged = results.count().saturating_sub(self.folding.keep);
        let Some(from) = self.items.iter().position(is_folded) else { return self.items.len() };
        self.render(from, ids);
        from
    }

    /// Where the newest results begin.
    fn newest(&self) -> usize {
        let mut results = self.items.iter().enumerate().rev();
        let mut results = results.by_ref().filter(|(_, item)| matches!(item, Item::Observation(_)));
        match self.folding.keep.checked_sub(1).and_then(|before| results.nth(before)) {
            Some((index, _)) => index,
            None if self.folding.keep == 0 => self.items.len(),
            None => 0,
        }
    }

    fn weights(&self) -> Vec<Weight> {
        let in_hand = self.in_hand();
        let kind = |index: usize, item: &Item| match item {
            Item::User(_) | Item::Assistant(_) => Kind::Said,
            Item::Observation(seen) if seen.form == Form::Stub => Kind::Stub,
            Item::Observation(_) if in_hand.contains(&index) => Kind::InHand,
            Item::Observation(_) => Kind::Result,
        };
        let items = self.items.iter().enumerate().zip(self.sizes());
        items.map(|((index, item), size)| Weight { size, kind: kind(index, item) }).collect()
    }

    /// Tokens of each item as it is sent, roughly.
    fn sizes(&self) -> Vec<usize> {
        self.items.iter().map(size_of).collect()
    }

    /// The newest view of each of the files that were last spoken of.
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
            let newest = self.items.iter().enumerate().rev().find_map(|(index, item)| match item {
                Item::Observation(seen) if seen.files.contains(file) => Some((index, seen.size)),
                _ => None,
            });
            if let Some((index, size)) = newest.filter(|(_, size)| *size <= room) {
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
        let mut known = Known::default();
        for (index, item) in self.items.iter().enumerate() {
            match item {
                Item::User(text) => known.stays(text),
                Item::Assistant(message) => {
                    for text in said(message) {
                        known.stays(&text);
                        known.said(&text, index);
                    }
                }
                Item::Observation(seen) if index < from && seen.form == Form::Stub => {
                    known.stays(&seen.text);
                }
                Item::Observation(seen) if is_stub(seen) => {}
                Item::Observation(seen) => known.stays(&readable(&seen.envelope)),
            }
        }
        self.visible = Visible::default();
        let (before, after) = self.items.split_at_mut(from);
        for item in before {
            add(&mut self.visible, item);
        }
        for item in after {
            match item {
                Item::Observation(seen) if is_stub(seen) => {
                    seen.fold(&mut known, &mut self.visible);
                }
                Item::Observation(seen) => seen.unfold(&mut self.visible),
                other => add(&mut self.visible, other),
            }
        }
    }
}

/// What stands in the conversation because of this item.
fn add(visible: &mut Visible, item: &Item) {
    match item {
        Item::User(text) => visible.add(text, None),
        Item::Assistant(message) => {
            said(message).iter().for_each(|text| visible.add(text, None));
        }
        Item::Observation(seen) => match &seen.form {
            Form::Whole => visible.add_envelope(&seen.envelope, seen.id),
            Form::Trimmed(short) => visible.add_envelope(short, seen.id),
            Form::Stub => visible.add(&seen.text, Some(seen.id)),
        },
    }
}

/// The words that need not be said again because of this item.
fn tell(known: &mut Known, item: &Item) {
    match item {
        Item::User(text) => known.stays(text),
        Item::Assistant(message) => said(message).iter().for_each(|text| known.stays(text)),
        Item::Observation(seen) => known.stays(&seen.readable()),
    }
}

/// Thoughts belong to the turn in which they were thought.
fn forget_thoughts(message: &mut Message) {
    let is_thought = |part: &Part| matches!(part, Part::Thinking(_));
    if message.parts.iter().any(|part| !is_thought(part)) {
        message.parts.retain(|part| !is_thought(part));
    }
}

/// The form that history keeps, with the names that it leaves out and nothing else tells.
fn close(seen: &mut Seen, known: &mut Known) {
    let mut kept: Envelope = observation::compress(&seen.tool, &seen.envelope, seen.id).into();
    let short = readable(&kept);
    if let Some(omitted) = &mut kept.omitted
        && seen.envelope.stub_of.is_none()
    {
        let whole = readable(&seen.envelope);
        let names = fold::names(&whole, &short, known);
        if !names.is_empty() {
            omitted.push_str("; in it: ");
            omitted.push_str(&names.join(" "));
        }
    }
    known.stays(&readable(&kept));
    seen.envelope = kept;
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
        Item::User(text) => fold::size(text),
        Item::Assistant(message) => said(message).iter().map(|text| fold::size(text)).sum(),
        Item::Observation(seen) => seen.size,
    }
}
