//! What goes to a model and comes back, whatever provider speaks: messages, tool calls, usage.
//! Providers differ only in how these are written on the wire (`baton_runtime::model`).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::Strict;
use crate::id::Tokens;
use crate::messages::Language;
use crate::problem::Problem;
use crate::text;

/// The three wire formats.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Wire {
    /// Anthropic Messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    Responses,
    /// OpenAI Chat Completions, and every server that speaks it.
    #[serde(rename = "openai-chat")]
    Chat,
}

impl Wire {
    pub const ALL: [Wire; 3] = [Wire::Anthropic, Wire::Responses, Wire::Chat];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Anthropic => "anthropic",
            Wire::Responses => "openai-responses",
            Wire::Chat => "openai-chat",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
}

impl Role {
    /// Whose turn it is: a user's message is the first.
    fn of_turn(index: usize) -> Role {
        if index.is_multiple_of(2) { Role::User } else { Role::Assistant }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub role: Role,
    pub parts: Vec<Part>,
}

impl Message {
    pub fn user(text: impl Into<String>) -> Message {
        Message { role: Role::User, parts: vec![Part::Text { text: text.into() }] }
    }

    pub fn assistant(text: impl Into<String>) -> Message {
        Message { role: Role::Assistant, parts: vec![Part::Text { text: text.into() }] }
    }
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
    },
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    Thinking(Thinking),
    /// Known so that it can be refused by name: no image is sent to a model yet.
    Image {
        #[serde(default)]
        media_type: String,
    },
}

/// A whole call: its arguments parsed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    pub call_id: String,
    pub content: String,
    pub is_error: bool,
}

/// What a model thought. A provider may need it back, exactly as it was; no other can read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thinking {
    pub wire: Wire,
    /// For people; may be empty.
    pub text: String,
    /// What goes back.
    pub opaque: Value,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Value,
}

/// A schema that the answer must follow, where the provider can constrain it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Format {
    pub name: String,
    pub schema: Value,
}

/// One call of a model. The order of its fields is the order on the wire: what never changes first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    pub model: String,
    pub max_output: Tokens,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub temperature: Option<f64>,
    /// The same for every call of a conversation, so that a provider can find its cache.
    pub cache_key: String,
    pub tools: Vec<Tool>,
    /// The tools cannot be called in this answer. They stay in the request all the same: providers
    /// ask for the tools of earlier calls, and their caches begin with them.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub no_calls: bool,
    /// L1, then L2: each its own block with its own cache breakpoint.
    pub system: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub format: Option<Format>,
    pub messages: Vec<Message>,
    /// How many of the messages the previous call of this conversation had: what it wrote to the
    /// cache ends there. 0 for the first call.
    pub cached_messages: usize,
    /// Stands behind the last message and is not part of it: what the next call will not repeat.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tail: Option<String>,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    End,
    ToolCalls,
    MaxTokens,
    /// With the provider's words, where it has any.
    Refusal(String),
    Other(String),
}

/// Tokens as the provider counted them. What it did not say is unknown, not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Input that was neither read from nor written to a cache.
    pub input: Option<Tokens>,
    pub output: Option<Tokens>,
    pub cache_read: Option<Tokens>,
    pub cache_write: Option<Tokens>,
    /// Part of the output.
    pub reasoning: Option<Tokens>,
}

impl Usage {
    /// Both together; what one of them does not know counts as nothing.
    #[must_use]
    pub fn plus(self, other: Usage) -> Usage {
        let sum = |a: Option<Tokens>, b: Option<Tokens>| match (a, b) {
            (Some(a), Some(b)) => Some(Tokens(a.0.saturating_add(b.0))),
            (only, None) | (None, only) => only,
        };
        Usage {
            input: sum(self.input, other.input),
            output: sum(self.output, other.output),
            cache_read: sum(self.cache_read, other.cache_read),
            cache_write: sum(self.cache_write, other.cache_write),
            reasoning: sum(self.reasoning, other.reasoning),
        }
    }

    /// All tokens, in and out.
    pub fn total(&self) -> u64 {
        let parts = [self.input, self.output, self.cache_read, self.cache_write];
        parts.into_iter().flatten().fold(0, |sum, own| own.0.saturating_add(sum))
    }
}

/// A whole answer. A stream that was cut never becomes one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    pub id: String,
    pub model: String,
    pub parts: Vec<Part>,
    /// Calls that the model made and that cannot be run; they are shown to it, never executed.
    pub broken_calls: Vec<BrokenCall>,
    pub stop: Stop,
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
    pub why: String,
}

impl Answer {
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::ToolCall(_) | Part::ToolResult(_) | Part::Thinking(_) | Part::Image { .. } => {
                None
            }
        });
        texts.collect()
    }

    /// The assistant's message that goes back with the next call. Calls that cannot be run are not
    /// in it, since no provider would accept them again; it is never empty.
    pub fn message(&self) -> Message {
        let mut parts = self.parts.clone();
        if !parts.iter().any(is_sendable) {
            parts.push(Part::Text { text: "(no text)".to_owned() });
        }
        Message { role: Role::Assistant, parts }
    }

    /// What the model is told of its calls that were not run; stands behind the other results.
    pub fn complaint(&self, language: Language) -> Option<String> {
        let lines = self.broken_calls.iter().map(|call| {
            let (name, arguments) =
                (text::shown(&call.name, 80), text::shown(&call.arguments, 400));
            language.call_not_run(name, &call.why, arguments)
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Text { .. } | Part::ToolResult(_) | Part::Thinking(_) | Part::Image { .. } => {
                None
            }
        })
    }
}

/// A call counts only when it is whole: a name, an id of its own, arguments that are an object.
pub fn tool_call(id: String, name: String, arguments: &str) -> Result<ToolCall, BrokenCall> {
    let broken = |why: String| {
        let (id, name) = (id.clone(), name.clone());
        Err(BrokenCall { id, name, arguments: arguments.to_owned(), why })
    };
    if id.is_empty() || name.is_empty() {
        return broken("the call has no id or no name".to_owned());
    }
    // Models write nothing for a tool without arguments.
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    match serde_json::from_str::<Strict>(text).map(|Strict(value)| value) {
        Ok(Value::Object(arguments)) => Ok(ToolCall { id, name, arguments }),
        Ok(_) => broken("the arguments are not a JSON object".to_owned()),
        Err(error) => {
            broken(format!("the arguments are not JSON: {}", text::shown(&error.to_string(), 120)))
        }
    }
}

/// Whether a provider would see anything of it: empty text is dropped, thinking alone refused.
fn is_sendable(part: &Part) -> bool {
    match part {
        Part::Text { text } => !text.trim().is_empty(),
        Part::ToolCall(_) | Part::ToolResult(_) | Part::Image { .. } => true,
        Part::Thinking(_) => false,
    }
}

/// What every provider asks of a list of messages: a user's first and last, roles in turn, every
/// call answered in the next message, results before text, every id used once.
pub fn check(messages: &[Message]) -> Result<(), Problem> {
    if messages.is_empty() {
        return Err(Problem::new("messages-invalid", "there is no message"));
    }
    let mut all = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let found = check_one(message, Role::of_turn(index), &mut all, &mut open);
        found.map_err(|why| Problem::new("messages-invalid", format!("message {index}: {why}")))?;
    }
    match messages.last().is_some_and(|last| last.role == Role::Assistant) {
        true => Err(Problem::new("messages-invalid", "the last message is the assistant's own")),
        false => Ok(()),
    }
}

/// `all`: the ids of every call so far; `open`: those of the message before, still unanswered.
fn check_one<'a>(
    message: &'a Message,
    role: Role,
    all: &mut BTreeSet<&'a str>,
    open: &mut Vec<&'a str>,
) -> Result<(), &'static str> {
    if message.role != role {
        return Err("the roles do not alternate, a user's message first");
    }
    if !message.parts.iter().any(is_sendable) {
        return Err("it is empty");
    }
    let mut answered = Vec::new();
    let mut after_text = false;
    for part in &message.parts {
        match (role, part) {
            (_, Part::Image { .. }) => return Err("images cannot be sent to a model yet"),
            (Role::User, Part::ToolResult(_)) if after_text => {
                return Err("a result stands behind text");
            }
            (Role::User, Part::ToolResult(result)) => answered.push(result.call_id.as_str()),
            (Role::User, Part::Text { .. }) => after_text = true,
            (Role::Assistant, Part::Text { .. } | Part::Thinking(_)) => {}
            (Role::Assistant, Part::ToolCall(call)) if !all.insert(&call.id) => {
                return Err("two calls have the same id");
            }
            (Role::Assistant, Part::ToolCall(call)) => open.push(&call.id),
            (Role::User, Part::ToolCall(_) | Part::Thinking(_))
            | (Role::Assistant, Part::ToolResult(_)) => {
                return Err("a part stands in the wrong role");
            }
        }
    }
    if role == Role::User {
        answered.sort_unstable();
        open.sort_unstable();
        if answered != *open {
            return Err("calls and results do not match");
        }
        open.clear();
    }
    Ok(())
}
