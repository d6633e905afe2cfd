//! Claude Code: an event a line. An answer is written in several lines that share its id; what its
//! helpers did (side chains) is no part of its history; a line may be there twice.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde_json::Value;

use super::value::{act, list, string, sum, text};
use super::{Events, over};
use crate::lab::session::{Act, Message, Role, Session};
use crate::problem::Problem;

/// No more of the first call can be instructions and tools; the rest is a session that went on from
/// another one.
const MOST_OVER: u32 = 40_000;

pub(super) fn is_event(line: &Value) -> bool {
    matches!(string(line, "type"), "user" | "assistant") && line["message"].is_object()
}

#[derive(Default)]
struct Answer {
    texts: Vec<String>,
    acts: Vec<Act>,
    input: u64,
}

enum Row {
    /// By its place among the answers.
    Answer(usize),
    Other(Message),
}

pub(super) struct Reader {
    id: String,
    has_own_id: bool,
    seen: BTreeSet<String>,
    rows: Vec<Row>,
    answers: IndexMap<String, Answer>,
}

impl Reader {
    pub(super) fn new(name: &str) -> Reader {
        Reader {
            id: name.to_owned(),
            has_own_id: false,
            seen: BTreeSet::new(),
            rows: Vec::new(),
            answers: IndexMap::new(),
        }
    }

    fn answer(&mut self, message: &Value) {
        let id = match string(message, "id") {
            // Never the id of another answer.
            "" => format!(" {}", self.rows.len()),
            id => id.to_owned(),
        };
        let entry = self.answers.entry(id);
        let place = entry.index();
        let is_new = matches!(entry, indexmap::map::Entry::Vacant(_));
        let answer = entry.or_default();
        if is_new {
            let keys = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
            answer.input = sum(&message["usage"], &keys);
            self.rows.push(Row::Answer(place));
        }
        match &message["content"] {
            Value::Array(blocks) => {
                for block in blocks {
                    match string(block, "type") {
                        "text" => answer.texts.push(string(block, "text").to_owned()),
                        "tool_use" => {
                            answer.acts.push(act(string(block, "name"), &block["input"]));
                        }
                        _ => {}
                    }
                }
            }
            other => answer.texts.push(text(other)),
        }
    }

    fn user(&mut self, line: &Value) {
        let content = &line["message"]["content"];
        let blocks = list(&line["message"], "content").iter();
        let results: Vec<&Value> =
            blocks.filter(|block| string(block, "type") == "tool_result").collect();
        for result in &results {
            let told = text(&result["content"]);
            self.rows.push(Row::Other(Message::new(Role::Observation, told, Vec::new())));
        }
        if results.is_empty() {
            let is_summary = line["isCompactSummary"].as_bool() == Some(true);
            let message = Message::new(Role::User, text(content), Vec::new());
            self.rows.push(Row::Other(Message { is_summary, ..message }));
        }
    }
}

impl Events for Reader {
    fn event(&mut self, line: &Value) -> Result<(), Problem> {
        if !line.is_object() {
            return Err(Problem::new("session-event", "this is no event").expected("an object"));
        }
        let uuid = string(line, "uuid");
        let is_again = !uuid.is_empty() && !self.seen.insert(uuid.to_owned());
        if is_again || line["isSidechain"].as_bool() == Some(true) {
            return Ok(());
        }
        if !self.has_own_id && !string(line, "sessionId").is_empty() {
            (self.id, self.has_own_id) = (string(line, "sessionId").to_owned(), true);
        }
        match string(line, "type") {
            // What the program says in the model's name was never an answer.
            "assistant" if string(&line["message"], "model") != "<synthetic>" => {
                self.answer(&line["message"]);
            }
            "user" => self.user(line),
            _ => {}
        }
        Ok(())
    }

    fn session(mut self) -> Session {
        let mut first_call = None;
        let mut messages = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            match row {
                Row::Other(message) => messages.push(message),
                Row::Answer(place) => {
                    let Some((_, answer)) = self.answers.get_index_mut(place) else { continue };
                    let answer = std::mem::take(answer);
                    if answer.input > 0 {
                        first_call.get_or_insert((messages.len(), answer.input));
                    }
                    let text = answer.texts.join("\n");
                    messages.push(Message::new(Role::Assistant, text, answer.acts));
                }
            }
        }
        let over = over(first_call, &messages).min(MOST_OVER);
        Session { id: self.id, source: "claude-code".to_owned(), over, messages }
    }
}
