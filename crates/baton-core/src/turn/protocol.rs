//! How an action is written: as the provider's tool calls, as JSON under a schema, or in plain text
//! for models that know neither. Goes in: an answer. Comes out: calls, last words or a complaint;
//! what cannot be understood as a whole is not run at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::document::Strict;
use crate::message::{Answer, Format, Message, Stop, Tool, ToolCall};
use crate::messages::Language;
use crate::text;

/// How the model says what it wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The provider's own tool calls.
    #[default]
    Native,
    /// One JSON object an answer, under a schema.
    Json,
    /// `Thought: … Action: Tool[{…}]`
    React,
}

/// The action that ends a turn, where it is written like the others.
pub const FINISH: &str = "Finish";

/// What an answer asks for.
pub(crate) struct Action {
    /// As it goes back with the next call.
    pub(crate) message: Message,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) last_words: Option<String>,
    /// What the model is told when its action cannot be understood.
    pub(crate) complaint: Option<String>,
}

/// `number`: of the calls so far, to name the next.
pub(crate) fn action(
    protocol: Protocol,
    answer: &Answer,
    number: u32,
    language: Language,
) -> Action {
    match protocol {
        Protocol::Native => native(answer, language),
        Protocol::Json | Protocol::React => {
            let said = answer.text();
            let read = match protocol {
                Protocol::Json => from_json(&said, language),
                Protocol::Native | Protocol::React => from_text(&said, language),
            };
            written(answer, &said, read, number, language)
        }
    }
}

fn native(answer: &Answer, language: Language) -> Action {
    let calls: Vec<ToolCall> = answer.tool_calls().cloned().collect();
    let words = answer.text();
    let complaint = answer.complaint(language);
    let complaint = complaint.or_else(|| match (&answer.stop, calls.is_empty()) {
        (Stop::MaxTokens, true) => Some(language.cut_off()),
        (_, true) if words.trim().is_empty() => Some(language.neither_text_nor_call()),
        _ => None,
    });
    let last_words = (calls.is_empty() && complaint.is_none()).then_some(words);
    Action { message: answer.message(), calls, last_words, complaint }
}

/// A written action: which tool, what with, and where its text ends.
enum Written<'a> {
    Call { name: String, arguments: Map<String, Value>, said: &'a str },
    Finish { answer: String, said: &'a str },
}

fn written(
    answer: &Answer,
    said: &str,
    read: Result<Written<'_>, String>,
    number: u32,
    language: Language,
) -> Action {
    let message = |said: &str| match said.trim().is_empty() {
        true => Message::assistant(language.no_text()),
        false => Message::assistant(said),
    };
    let nothing = |said: &str| Action {
        message: message(said),
        calls: Vec::new(),
        last_words: None,
        complaint: None,
    };
    match read {
        // Half of an action is none.
        _ if answer.stop == Stop::MaxTokens => {
            Action { complaint: Some(language.cut_off_not_run()), ..nothing(said) }
        }
        Ok(Written::Call { name, arguments, said }) => {
            let id = format!("c{}", number + 1);
            Action { calls: vec![ToolCall { id, name, arguments }], ..nothing(said) }
        }
        Ok(Written::Finish { answer, said }) => {
            Action { last_words: Some(answer), ..nothing(said) }
        }
        Err(why) => Action { complaint: Some(language.not_run(why)), ..nothing(said) },
    }
}

fn from_json(said: &str, language: Language) -> Result<Written<'_>, String> {
    let body = unfenced(said);
    let Strict(value) = serde_json::from_str(body)
        .map_err(|error| language.not_one_object(text::shown(&error.to_string(), 120)))?;
    let Some(name) = value.get("tool").and_then(Value::as_str) else {
        return Err(language.no_tool());
    };
    let arguments = match value.get("arguments") {
        Some(Value::Object(arguments)) => arguments.clone(),
        None | Some(Value::Null) => Map::new(),
        Some(_) => return Err(language.arguments_not_object()),
    };
    if name == FINISH {
        let Some(answer) = arguments.get("answer").and_then(Value::as_str) else {
            return Err(language.finish_needs_answer());
        };
        return Ok(Written::Finish { answer: answer.to_owned(), said });
    }
    Ok(Written::Call { name: name.to_owned(), arguments, said })
}

/// Small models like to put a fence around their object.
pub(crate) fn unfenced(said: &str) -> &str {
    let body = said.trim();
    let Some(rest) = body.strip_prefix("```") else { return body };
    let rest = rest.strip_prefix("json").unwrap_or(rest);
    rest.strip_suffix("```").unwrap_or(rest).trim()
}

/// `Action: Tool[{json}]`; what a model invents behind it is not taken for a result.
fn from_text(said: &str, language: Language) -> Result<Written<'_>, String> {
    let shape = language.action_shape();
    let Some((start, rest)) = action_line(said) else {
        return Err(language.no_action(shape));
    };
    let Some((name, inside)) = rest.split_once('[') else {
        return Err(language.action_without_bracket(shape));
    };
    let name = name.trim();
    if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return Err(language.no_name_of_a_tool(text::shown(name, 40), shape));
    }
    let body_at = start + (rest.len() - inside.len());
    if name == FINISH {
        // Its text may hold brackets: the last one closes it, before anything invented.
        let end = inside.find("\nObservation:").unwrap_or(inside.len());
        let Some(close) = inside[..end].rfind(']') else {
            return Err(language.finish_not_closed(shape));
        };
        let answer = inside[..close].trim().to_owned();
        return Ok(Written::Finish { answer, said: &said[..body_at + close + 1] });
    }
    let mut values = serde_json::Deserializer::from_str(inside).into_iter::<Strict>();
    let arguments = match values.next() {
        Some(Ok(Strict(Value::Object(arguments)))) => arguments,
        Some(Ok(_)) => return Err(language.arguments_not_json_object(shape)),
        Some(Err(error)) => {
            let error = text::shown(&error.to_string(), 120);
            return Err(language.arguments_not_json(error, shape));
        }
        None => Map::new(),
    };
    let after = &inside[values.byte_offset()..];
    let Some(close) = after.find(']').filter(|close| after[..*close].trim().is_empty()) else {
        return Err(language.action_not_closed(shape));
    };
    let end = body_at + values.byte_offset() + close + 1;
    Ok(Written::Call { name: name.to_owned(), arguments, said: &said[..end] })
}

/// The first `Action:` that begins a line: where what follows it starts, and that.
fn action_line(said: &str) -> Option<(usize, &str)> {
    let mut at = 0;
    for line in said.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        if let Some(rest) = line.trim_start().strip_prefix("Action:") {
            let start = at + indent + (line.trim_start().len() - rest.len());
            return Some((start, &said[start..]));
        }
        at += line.len();
    }
    None
}

/// L1, with the tools in it where the provider does not carry them.
pub(crate) fn system(
    protocol: Protocol,
    words: &str,
    tools: &[Tool],
    language: Language,
) -> String {
    let how = match protocol {
        Protocol::Native => return words.to_owned(),
        Protocol::Json => language.json_protocol(),
        Protocol::React => language.react_protocol(),
    };
    let mut out = format!("{words}\n\n{how}\n\n{}", language.tools_in_text());
    for tool in tools {
        let fields = fields(&tool.schema);
        out.push_str(&format!("\n{}({fields}): {}", tool.name, tool.description));
    }
    out
}

/// The properties of an object, as a model reads them: `path: string, from?: integer`.
fn fields(schema: &Value) -> String {
    let required = schema["required"].as_array();
    let is_required =
        |name: &str| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let shown = properties.map(|(name, own)| {
        format!("{name}{}: {}", if is_required(name) { "" } else { "?" }, kind(own))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The type of a value, in a few words.
fn kind(schema: &Value) -> String {
    let joined = |all: &[Value], shown: fn(&Value) -> String| {
        all.iter().map(shown).collect::<Vec<_>>().join("|")
    };
    let union = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    match (&schema["enum"], union, &schema["type"]) {
        (Value::Array(values), _, _) => joined(values, Value::to_string),
        (_, Some(kinds), _) => joined(kinds, kind),
        (_, _, Value::Array(names)) => {
            joined(names, |name| name.as_str().unwrap_or("any").to_owned())
        }
        (_, _, Value::String(name)) => match name.as_str() {
            "array" if schema["items"].is_object() => {
                format!("array of {}", kind(&schema["items"]))
            }
            "object" if schema["properties"].is_object() => format!("{{{}}}", fields(schema)),
            name => name.to_owned(),
        },
        _ => schema.get("const").map_or("any".to_owned(), Value::to_string),
    }
}

/// The schema that an answer must follow.
pub(crate) fn format(protocol: Protocol, tools: &[Tool]) -> Option<Format> {
    if protocol != Protocol::Json {
        return None;
    }
    let one = |name: &str, arguments: &Value| {
        json!({
            "type": "object",
            "properties": {
                "thought": { "type": "string" },
                "tool": { "const": name },
                "arguments": arguments,
            },
            "required": ["thought", "tool", "arguments"],
            "additionalProperties": false,
        })
    };
    let finish = json!({
        "type": "object",
        "properties": { "answer": { "type": "string" } },
        "required": ["answer"],
        "additionalProperties": false,
    });
    let mut all: Vec<Value> = tools.iter().map(|tool| one(&tool.name, &tool.schema)).collect();
    all.push(one(FINISH, &finish));
    Some(Format { name: "action".to_owned(), schema: json!({ "anyOf": all }) })
}
