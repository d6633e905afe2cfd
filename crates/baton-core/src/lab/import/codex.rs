//! Codex: an event a line, each with a payload; in older versions the payload alone. What the model
//! answered in one call stands in several lines, and ends where a result or a person's words begin.

use serde_json::Value;

use super::value::{act, flat, string, text};
use super::{Events, over};
use crate::lab::session::{Act, Message, Role, Session};
use crate::problem::Problem;

pub(super) fn is_event(line: &Value) -> bool {
    let is_item = |item: &Value| match string(item, "type") {
        "message" => item["role"].is_string(),
        "function_call" | "function_call_output" => item["call_id"].is_string(),
        _ => false,
    };
    let kinds = ["session_meta", "response_item", "turn_context", "event_msg"];
    line["payload"].is_object() && kinds.contains(&string(line, "type")) || is_item(line)
}

pub(super) struct Reader {
    id: String,
    messages: Vec<Message>,
    /// The answer that is being read.
    open: Option<(Vec<String>, Vec<Act>)>,
    first_call: Option<(usize, u64)>,
    answers: usize,
}

impl Reader {
    pub(super) fn new(name: &str) -> Reader {
        Reader {
            id: name.to_owned(),
            messages: Vec::new(),
            open: None,
            first_call: None,
            answers: 0,
        }
    }

    fn answer(&mut self) -> &mut (Vec<String>, Vec<Act>) {
        if self.open.is_none() {
            self.answers += 1;
        }
        self.open.get_or_insert_default()
    }

    fn close(&mut self) {
        if let Some((texts, acts)) = self.open.take() {
            self.messages.push(Message::new(Role::Assistant, texts.join("\n"), acts));
        }
    }

    fn push(&mut self, message: Message) {
        self.close();
        self.messages.push(message);
    }

    fn meta(&mut self, payload: &Value) {
        if !string(payload, "id").is_empty() {
            self.id = string(payload, "id").to_owned();
        }
        let words = [&payload["base_instructions"]["text"], &payload["instructions"]];
        if let Some(words) = words.into_iter().find_map(Value::as_str) {
            self.push(Message::new(Role::System, words, Vec::new()));
        }
    }

    fn item(&mut self, item: &Value) {
        match string(item, "type") {
            "message" => {
                let words = text(&item["content"]);
                match string(item, "role") {
                    "assistant" => self.answer().0.push(words),
                    "user" => self.push(Message::new(Role::User, words, Vec::new())),
                    _ => self.push(Message::new(Role::System, words, Vec::new())),
                }
            }
            "function_call" => {
                let own = act(string(item, "name"), &item["arguments"]);
                self.answer().1.push(own);
            }
            "custom_tool_call" => {
                let own = Act::new(string(item, "name"), flat(&item["input"]));
                self.answer().1.push(own);
            }
            "local_shell_call" => {
                let own = Act::new("shell", flat(&item["action"]["command"]));
                self.answer().1.push(own);
            }
            "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
                self.push(Message::new(Role::Observation, text(&item["output"]), Vec::new()));
            }
            _ => {}
        }
    }

    /// The size of the first call, if it is told before the second.
    fn usage(&mut self, usage: &Value) {
        if let (None, 1, Some(input)) =
            (self.first_call, self.answers, usage["input_tokens"].as_u64())
        {
            let is_answer = |message: &Message| message.role == Role::Assistant;
            let closed = self.messages.iter().position(is_answer);
            self.first_call = Some((closed.unwrap_or(self.messages.len()), input));
        }
    }
}

impl Events for Reader {
    fn event(&mut self, line: &Value) -> Result<(), Problem> {
        if !line.is_object() {
            return Err(Problem::new("session-event", "this is no event").expected("an object"));
        }
        let payload = &line["payload"];
        match string(line, "type") {
            "session_meta" => self.meta(payload),
            "response_item" => self.item(payload),
            "compacted" => self.push(Message::summary(string(payload, "message"))),
            "token_usage_record" => self.usage(&payload["usage"]),
            "event_msg" if string(payload, "type") == "token_count" => {
                self.usage(&payload["info"]["last_token_usage"]);
            }
            _ if payload.is_null() => self.item(line),
            _ => {}
        }
        Ok(())
    }

    fn session(mut self) -> Session {
        self.close();
        let over = over(self.first_call, &self.messages);
        Session { id: self.id, source: "codex".to_owned(), over, messages: self.messages }
    }
}
