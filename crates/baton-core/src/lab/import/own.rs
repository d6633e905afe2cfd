//! Baton's own transcripts: a step a line, each in a frame that tells its length. Steps that a later
//! version wrote are passed over.

use serde_json::Value;

use super::value::{self, act, flat, string};
use super::{Imported, at_line, numbered, over};
use crate::lab::session::{Act, Message, Role, Session};
use crate::message::{Answer, Part};
use crate::problem::Problem;
use crate::turn::{Protocol, Step};

/// `<length> <checksum> `, both of eight digits.
const FRAME: usize = 18;

pub(super) fn is_frame(line: &[u8]) -> bool {
    line.len() > FRAME
        && line[..FRAME].iter().enumerate().all(|(at, byte)| match at {
            8 | 17 => *byte == b' ',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// What a frame holds, if all of it is there.
fn unframed(line: &str) -> Result<&str, Problem> {
    let torn = || Problem::new("session-frame", "this line is not whole");
    let json = line.get(FRAME..).filter(|_| is_frame(line.as_bytes())).ok_or_else(torn)?;
    let length = line.get(..8).and_then(|length| usize::from_str_radix(length, 16).ok());
    (length == Some(json.len())).then_some(json).ok_or_else(torn)
}

pub(super) fn read(text: &str, name: &str) -> Result<Imported, Problem> {
    let mut lines = numbered(text);
    let head = lines.next().and_then(|(_, line)| value::json(unframed(line).ok()?).ok());
    // A run's journal has frames, too.
    let Some(head) = head.filter(|head| head["protocol"].is_string()) else {
        return Err(Problem::new("session-unknown", "this is not a transcript of Baton's agent")
            .expected(super::FORMATS));
    };
    let protocol = serde_json::from_value(head["protocol"].clone()).unwrap_or(Protocol::Native);
    let mut imported = Imported::default();
    let mut session =
        Session { id: name.to_owned(), source: "baton".to_owned(), over: 0, messages: Vec::new() };
    let mut first_call = None;
    for (number, line) in lines {
        match unframed(line).and_then(step) {
            Ok(Some(Step::Answered { answer })) => {
                let usage = &answer.usage;
                let parts = [usage.input, usage.cache_read, usage.cache_write];
                let input = parts.into_iter().flatten().map(|tokens| tokens.0);
                let input = input.fold(0, u64::saturating_add);
                first_call.get_or_insert((session.messages.len(), input));
                session.messages.push(answered(&answer, protocol));
            }
            Ok(Some(step)) => session.messages.extend(told(&step)),
            Ok(None) => {}
            Err(problem) => imported.damage(at_line(problem, number)),
        }
    }
    session.over = over(first_call, &session.messages);
    imported.sessions.push(session);
    Ok(imported)
}

fn step(json: &str) -> Result<Option<Step>, Problem> {
    // Those that tell what the model was sent. How it was shortened then is not asked here.
    const KNOWN: [&str; 5] = ["asked", "answered", "corrected", "observed", "compacted"];
    let value = value::json(json)?;
    match string(&value, "step") {
        known if KNOWN.contains(&known) => {
            serde_json::from_value(value).map(Some).map_err(|error| value::broken(&error))
        }
        "" => Err(Problem::new("session-step", "this is no step").expected("a key `step`")),
        _ => Ok(None),
    }
}

fn told(step: &Step) -> Option<Message> {
    match step {
        Step::Asked { text, .. } | Step::Corrected { text, .. } => {
            Some(Message::new(Role::User, text.as_str(), Vec::new()))
        }
        Step::Observed(observed) => {
            // The model reads JSON, but the facts in it are those of the texts that it holds: in
            // the JSON itself every line break is two characters of the word behind it.
            let envelope = serde_json::to_value(&observed.envelope).unwrap_or_default();
            Some(Message::new(Role::Observation, flat(&envelope), Vec::new()))
        }
        Step::Compacted(compacted) => {
            Some(Message::summary(compacted.summary.clone().unwrap_or_default()))
        }
        _ => None,
    }
}

fn answered(answer: &Answer, protocol: Protocol) -> Message {
    let mut texts = Vec::new();
    let mut acts = Vec::new();
    for part in &answer.parts {
        match part {
            Part::Text { text } => texts.push(text.as_str()),
            Part::ToolCall(call) => {
                acts.push(act(&call.name, &Value::Object(call.arguments.clone())));
            }
            _ => {}
        }
    }
    let text = texts.join("\n");
    acts.extend(written(&text, protocol));
    Message::new(Role::Assistant, text, acts)
}

/// An action that stands in the text of an answer.
fn written(text: &str, protocol: Protocol) -> Option<Act> {
    match protocol {
        Protocol::Native => None,
        Protocol::Json => {
            let (start, end) = (text.find('{')?, text.rfind('}')?);
            let action = value::json(text.get(start..=end)?).ok()?;
            let name = string(&action, "tool");
            (!name.is_empty()).then(|| act(name, &action["arguments"]))
        }
        Protocol::React => {
            let mut at = 0;
            let rest = text.split_inclusive('\n').find_map(|line| {
                at += line.len();
                let inside = line.trim_start().strip_prefix("Action:")?;
                text.get(at - inside.len()..)
            })?;
            let (name, inside) = rest.split_once('[')?;
            let mut values = serde_json::Deserializer::from_str(inside).into_iter::<Value>();
            Some(act(name.trim(), &values.next()?.ok()?))
        }
    }
}
