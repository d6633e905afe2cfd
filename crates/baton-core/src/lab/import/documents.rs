//! One JSON value is one session: the common form, OpenAI's message lists, SWE-agent, TRAE.

use serde::Deserialize;
use serde_json::Value;

use super::over;
use super::value::{self, act, function_call, list, string, text};
use crate::lab::session::{Act, Message, Role, Session};
use crate::problem::Problem;

/// The common form.
#[derive(Deserialize)]
struct Common {
    #[serde(default)]
    id: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    over: u64,
    msgs: Vec<CommonMessage>,
}

#[derive(Deserialize)]
struct CommonMessage {
    #[serde(rename = "r")]
    role: CommonRole,
    #[serde(rename = "t")]
    text: String,
    #[serde(rename = "a", default)]
    acts: Vec<CommonAct>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum CommonRole {
    Sys,
    User,
    Assistant,
    Obs,
    Summary,
}

#[derive(Deserialize)]
struct CommonAct {
    #[serde(rename = "n")]
    name: String,
    #[serde(rename = "args", default)]
    arguments: String,
    #[serde(default)]
    old: String,
}

pub(super) fn read(source: &str, name: &str) -> Result<Session, Problem> {
    // Most lines are of this form, and read at once into what they become.
    let common = match serde_json::from_str::<Common>(source) {
        Ok(common) => return Ok(from_common(common, name)),
        Err(error) => error,
    };
    let document = value::json(source)?;
    if document.get("msgs").is_some() {
        // A lone surrogate, or a value of a wrong type: the second has no other cure.
        let mended = serde_json::from_value::<Common>(document);
        return mended.map(|mended| from_common(mended, name)).map_err(|_| value::broken(&common));
    }
    let (messages, over, program) = match &document {
        Value::Array(items) if is_message_list(items) => (chat(items), 0, "openai"),
        _ if is_message_list(list(&document, "history")) => {
            (sweagent(list(&document, "history")), 0, "swe-agent")
        }
        _ if document["llm_interactions"].is_array() => {
            let (messages, over) = trae(list(&document, "llm_interactions"));
            (messages, over, "trae")
        }
        _ => {
            let keys = ["fncall_messages", "messages"];
            let lists = keys.map(|key| list(&document, key));
            let Some(items) = lists.into_iter().find(|items| is_message_list(items)) else {
                return Err(Problem::new("session-unknown", "this is not a recorded session")
                    .found(source.lines().next().unwrap_or_default())
                    .expected(super::FORMATS));
            };
            (chat(items), 0, "openai")
        }
    };
    Ok(Session { id: id_of(&document, name), source: program.to_owned(), over, messages })
}

fn id_of(document: &Value, name: &str) -> String {
    let keys = ["id", "session_id", "instance_id"];
    let own = keys.into_iter().map(|key| document.get(key).map(value::flat).unwrap_or_default());
    own.into_iter().find(|id| !id.is_empty()).unwrap_or_else(|| name.to_owned())
}

/// Whether a value is a session by itself, by its keys.
pub(super) fn is_one(value: &Value) -> bool {
    match value {
        Value::Array(items) => is_message_list(items),
        _ => {
            let keys = ["messages", "fncall_messages", "history"];
            value["msgs"].is_array()
                || value["llm_interactions"].is_array()
                || keys.iter().any(|key| is_message_list(list(value, key)))
        }
    }
}

/// Messages have a role, and are not empty.
fn is_message_list(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(|item| item["role"].is_string())
}

fn from_common(common: Common, name: &str) -> Session {
    let messages = common.msgs.into_iter().map(|message| {
        let acts = message.acts.into_iter();
        let acts = acts.map(|act| Act::new(act.name, act.arguments).replacing(act.old)).collect();
        let role = match message.role {
            CommonRole::Sys => Role::System,
            CommonRole::User | CommonRole::Summary => Role::User,
            CommonRole::Assistant => Role::Assistant,
            CommonRole::Obs => Role::Observation,
        };
        let is_summary = matches!(message.role, CommonRole::Summary);
        Message { is_summary, ..Message::new(role, message.text, acts) }
    });
    Session {
        id: if common.id.is_empty() { name.to_owned() } else { common.id },
        source: common.source,
        over: u32::try_from(common.over).unwrap_or(u32::MAX),
        messages: messages.collect(),
    }
}

/// OpenAI's messages, or Anthropic's, whose calls and results are parts of the content.
fn chat(items: &[Value]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let mut is_answered = false;
    for item in items {
        let content = &item["content"];
        match string(item, "role") {
            "system" | "developer" => {
                messages.push(Message::new(Role::System, text(content), Vec::new()));
            }
            "assistant" => {
                messages.push(Message::new(Role::Assistant, text(content), calls_of(item)));
                is_answered = true;
            }
            "exit" => {}
            "user" => {
                let is_result = |part: &&Value| string(part, "type") == "tool_result";
                let parts = content.as_array().map_or(&[][..], Vec::as_slice);
                let results: Vec<&Value> = parts.iter().filter(is_result).collect();
                for result in &results {
                    let told = text(&result["content"]);
                    messages.push(Message::new(Role::Observation, told, Vec::new()));
                }
                if results.is_empty() {
                    // Programs without tool messages answer an action in the user's name.
                    let has_acted = messages.last().is_some_and(|last| !last.acts.is_empty());
                    let role =
                        if is_answered && has_acted { Role::Observation } else { Role::User };
                    messages.push(Message::new(role, text(content), Vec::new()));
                }
            }
            _ => messages.push(Message::new(Role::Observation, text(content), Vec::new())),
        }
    }
    messages
}

fn calls_of(item: &Value) -> Vec<Act> {
    let mut acts: Vec<Act> = list(item, "tool_calls").iter().map(function_call).collect();
    let parts = list(item, "content").iter().filter(|part| string(part, "type") == "tool_use");
    acts.extend(parts.map(|part| act(string(part, "name"), &part["input"])));
    if acts.is_empty() {
        let actions = list(&item["extra"], "actions");
        acts.extend(actions.iter().map(|action| act("bash", action)));
    }
    acts
}

/// An action is a command line, or a list of tool calls in later versions.
fn sweagent(items: &[Value]) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut is_answered = false;
    for item in items {
        let content = text(&item["content"]);
        let role = match string(item, "role") {
            _ if item["is_demo"].as_bool() == Some(true) => Role::System,
            "system" => Role::System,
            "assistant" => Role::Assistant,
            _ if is_answered => Role::Observation,
            _ => Role::User,
        };
        if role != Role::Assistant {
            messages.push(Message::new(role, content, Vec::new()));
            continue;
        }
        is_answered = true;
        let action = string(item, "action");
        let mut acts: Vec<Act> = list(item, "tool_calls").iter().map(function_call).collect();
        if acts.is_empty() && !action.is_empty() {
            let command = action.split_whitespace().next().unwrap_or("none");
            acts.push(Act::new(command, action));
        }
        let thought = match string(item, "thought") {
            "" if action.is_empty() => content.as_str(),
            "" => content.split("```").next().unwrap_or_default(),
            thought => thought,
        };
        messages.push(Message::new(Role::Assistant, thought, acts));
    }
    messages
}

/// Each interaction tells what was new in its request, and the answer.
fn trae(interactions: &[Value]) -> (Vec<Message>, u32) {
    let mut messages = Vec::new();
    let mut first_call = None;
    for interaction in interactions {
        for input in list(interaction, "input_messages") {
            let result = &input["tool_result"];
            if result.as_object().is_some_and(|result| !result.is_empty()) {
                let (told, error) = (value::flat(&result["result"]), value::flat(&result["error"]));
                let told = if error.is_empty() { told } else { format!("{told}\n{error}") };
                messages.push(Message::new(Role::Observation, told, Vec::new()));
                continue;
            }
            let role = match string(input, "role") {
                "system" => Role::System,
                _ if first_call.is_none() => Role::User,
                _ => Role::Observation,
            };
            messages.push(Message::new(role, text(&input["content"]), Vec::new()));
        }
        let response = &interaction["response"];
        let keys = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
        first_call.get_or_insert((messages.len(), value::sum(&response["usage"], &keys)));
        let calls = list(response, "tool_calls").iter();
        let acts = calls.map(|call| act(string(call, "name"), &call["arguments"])).collect();
        messages.push(Message::new(Role::Assistant, text(&response["content"]), acts));
    }
    let over = over(first_call, &messages);
    (messages, over)
}
