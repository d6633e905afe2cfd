//! Baton's own policy, by Baton's own code: the messages of a recording go through the `thread` that
//! the agent uses. Nobody writes summaries here, so the ledger that code makes stands alone, and what
//! is measured is the least that would be kept.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::need::Prepared;
use super::replay::{Form, FormId, Piece, Policy};
use super::session::{Act, Message, Role};
use crate::fold::Prices;
use crate::id::ObservationId;
use crate::message::{self, Part, ToolCall};
use crate::observation::{Envelope, Status};
use crate::profile::Profile;
use crate::thread::compact::Settings;
use crate::thread::{Form as Shown, Item, Results, Seen, Thread};
use crate::turn::Room;

#[derive(Debug)]
pub(super) struct Own {
    thread: Thread,
    compaction: Settings,
    /// The message that each item of the thread was; none for what compaction put there.
    origins: Vec<Option<usize>>,
    /// The last view: what is left of it is not looked at again.
    pieces: Vec<Piece>,
    archive: Option<Piece>,
    forms: Vec<Form>,
    /// The text of each form.
    texts: Vec<String>,
    /// By message: the form in which it was last shown. What did not change keeps it.
    shown: IndexMap<usize, FormId>,
    /// The next message of the session.
    next: usize,
    results: u32,
}

impl Own {
    pub(super) fn new() -> Own {
        let chat = Profile::named("chat", &IndexMap::new()).unwrap_or_default();
        let Room { folding, compaction, .. } =
            Room::new(chat.settings(None), Prices::default(), true);
        Own {
            thread: Thread::new(folding, None, Results::Plain),
            compaction,
            origins: Vec::new(),
            pieces: Vec::new(),
            archive: None,
            forms: Vec::new(),
            texts: Vec::new(),
            shown: IndexMap::new(),
            next: 0,
            results: 0,
        }
    }

    fn take_in(&mut self, session: &Prepared, at: usize) {
        let message = &session.messages()[at];
        match message.role {
            Role::System | Role::User if begins_turn(session.messages(), at) => {
                let from = self.thread.begin_turn(&message.text, None);
                self.pieces.truncate(from);
            }
            Role::System | Role::User => self.thread.push(Item::User(message.text.clone())),
            Role::Assistant => self.thread.push(answer(at, message)),
            Role::Observation => {
                self.results += 1;
                let id = ObservationId(self.results);
                self.thread.push(result(id, message, session.act_behind(at)));
            }
        }
        self.origins.push(Some(at));
    }

    /// What the agent does before it calls its model.
    fn make_room(&mut self, over: u32) {
        if let Some(results) = self.thread.fold_due() {
            let from = self.thread.fold(&results);
            self.realign(0);
            self.pieces.truncate(from);
        }
        let size = u64::try_from(self.thread.size()).unwrap_or(u64::MAX);
        if size + u64::from(over) < self.compaction.compact_at {
            return;
        }
        // Where nothing can leave, the agent would stop; the recording goes on.
        let Ok(plan) = self.thread.plan_compaction(&self.compaction, u64::from(over), false) else {
            return;
        };
        let why = "There is no summary, keeping recent history only.";
        self.thread.compact(&plan, "", Err(why));
        self.realign(plan.cut);
        self.pieces.clear();
        let archive = self.thread.archive();
        self.archive = (!archive.is_empty()).then(|| Piece::Inserted(self.formed(archive)));
    }

    /// Finds the origins again after items left and notes came or went: notes have none, all others keep
    /// their order.
    fn realign(&mut self, gone: usize) {
        let kept = self.origins.split_off(gone.min(self.origins.len()));
        let mut kept = kept.into_iter().flatten();
        let origin = |item: &Item| match item {
            Item::Note(_) => None,
            Item::User(_) | Item::Assistant(_) | Item::Observation(_) => kept.next(),
        };
        self.origins = self.thread.items().iter().map(origin).collect();
    }

    fn formed(&mut self, text: String) -> FormId {
        self.forms.push(Form::of(&text));
        self.texts.push(text);
        FormId(u32::try_from(self.forms.len() - 1).unwrap_or(u32::MAX))
    }

    /// An item as it is sent. It is the recorded message only if its text says so, whatever its form
    /// is called.
    fn piece(&mut self, session: &Prepared, index: usize) -> Piece {
        let origin = self.origins.get(index).copied().flatten();
        let text = match (&self.thread.items()[index], origin) {
            (Item::Observation(seen), Some(_)) => match seen.form {
                _ if seen.envelope.stub_of.is_some() => seen.text.clone(),
                Shown::Stub => seen.text.clone(),
                // A recording has no headers.
                Shown::Whole | Shown::Referred | Shown::Cut => {
                    seen.text.split_once('\n').map_or("", |(_, body)| body).to_owned()
                }
            },
            (Item::User(text) | Item::Note(text), _) => text.clone(),
            (Item::Assistant(_), Some(at)) => return Piece::Whole(at),
            (Item::Assistant(_) | Item::Observation(_), None) => String::new(),
        };
        let Some(at) = origin else { return Piece::Inserted(self.formed(text)) };
        if text == session.messages()[at].text {
            return Piece::Whole(at);
        }
        if let Some(id) = self.shown.get(&at).filter(|id| self.texts[id.0 as usize] == text) {
            return Piece::Formed(at, *id);
        }
        let id = self.formed(text);
        self.shown.insert(at, id);
        Piece::Formed(at, id)
    }
}

impl Policy for Own {
    fn view(&mut self, session: &Prepared, call: usize) -> Vec<Piece> {
        while self.next < call {
            if !session.messages()[self.next].is_summary {
                self.take_in(session, self.next);
            }
            self.next += 1;
        }
        self.make_room(session.session.over);
        for index in self.pieces.len()..self.thread.items().len() {
            let piece = self.piece(session, index);
            self.pieces.push(piece);
        }
        self.archive.iter().chain(&self.pieces).copied().collect()
    }

    fn form(&self, id: FormId) -> &Form {
        &self.forms[id.0 as usize]
    }

    fn text(&self, id: FormId) -> Option<&str> {
        self.texts.get(id.0 as usize).map(String::as_str)
    }
}

/// Somebody speaks after the agent had said its last words.
pub(super) fn begins_turn(messages: &[Message], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| messages.get(before));
    before.is_none_or(|own| own.role == Role::Assistant && own.acts.is_empty())
}

pub(super) fn answer(at: usize, message: &Message) -> Item {
    let call = |(index, act): (usize, &Act)| {
        let arguments = Map::from_iter([("arguments".to_owned(), act.arguments.clone().into())]);
        let id = format!("{at}-{index}");
        Part::ToolCall(ToolCall { id, name: act.name.clone(), arguments })
    };
    let text = Part::Text { text: message.text.clone() };
    let parts = std::iter::once(text).chain(message.acts.iter().enumerate().map(call));
    Item::Assistant(message::Message { role: message::Role::Assistant, parts: parts.collect() })
}

pub(super) fn result(id: ObservationId, message: &Message, act: Option<&Act>) -> Item {
    let arguments = act.map_or("", |act| act.arguments.as_str());
    let (tool, field) = tool(act.map_or("", |act| act.name.as_str()), arguments);
    let data = Map::from_iter([(field.to_owned(), Value::from(message.text.as_str()))]);
    let envelope = Envelope::new(Status::Success, &data);
    let seen = Seen::new(id, String::new(), tool.to_owned(), arguments, envelope);
    Item::Observation(Box::new(seen))
}

/// The tool of ours that does what another program's does, and where it puts its text.
fn tool(name: &str, arguments: &str) -> (&'static str, &'static str) {
    let has = |word: &str| arguments.split('\n').any(|line| line == word);
    match name {
        "Read" | "read" | "read_file" => ("Read", "content"),
        "Edit" | "MultiEdit" | "edit" | "apply_patch" => ("Edit", "diff"),
        "Write" | "write" | "write_file" => ("Write", "head"),
        "Grep" | "grep" => ("Grep", "content"),
        "Glob" | "glob" => ("Glob", "content"),
        "LS" | "ls" => ("LS", "content"),
        "Bash" | "bash" | "shell" | "exec" | "local_shell" => ("Bash", "stdout"),
        // One tool for all of it, with a command's name among its arguments.
        "str_replace_based_edit_tool" | "str_replace_editor" if has("view") => ("Read", "content"),
        "str_replace_based_edit_tool" | "str_replace_editor" if has("create") => ("Write", "head"),
        "str_replace_based_edit_tool" | "str_replace_editor" => ("Edit", "diff"),
        _ => ("other", "content"),
    }
}
