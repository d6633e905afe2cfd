//! JSON that may be anything: texts out of it, and tool calls.

use serde_json::Value;

use crate::lab::session::Act;
use crate::problem::{Place, Problem};

/// A value takes up to forty times the room of its text. No session has so many.
const MOST_VALUES: usize = 4_000_000;

/// At least as many as the text has values that are members of a list or an object.
fn values(text: &str) -> usize {
    let (mut count, mut is_string, mut is_escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b',' | b'[' | b'{' if !is_string => count += 1,
            _ => {}
        }
    }
    count
}

/// Bounded in depth by the reader itself. Half of a surrogate pair, which programs leave behind that
/// cut a text in its middle, becomes a replacement character.
pub(super) fn json(text: &str) -> Result<Value, Problem> {
    if text.len() > MOST_VALUES && values(text) > MOST_VALUES {
        let message = format!("this holds more than {MOST_VALUES} values");
        return Err(Problem::new("session-size", message));
    }
    serde_json::from_str(text)
        .or_else(|error| match mended(text) {
            Some(text) => serde_json::from_str(&text),
            None => Err(error),
        })
        .map_err(|error| broken(&error))
}

pub(super) fn broken(error: &serde_json::Error) -> Problem {
    let whole = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).max(1);
    let message = error.to_string();
    let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
    Problem::new("session-json", format!("this cannot be read: {what}"))
        .at(Place { line: whole(error.line()), column: whole(error.column()) })
}

/// The text with each lone half of a surrogate pair replaced, if there is one.
pub(super) fn mended(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let unit = |at: usize| {
        let hex = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(hex, 16).ok()
    };
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        let is_high = |unit: u16| (0xD800..0xDC00).contains(&unit);
        let is_low = |unit: u16| (0xDC00..0xE000).contains(&unit);
        at += match unit(at) {
            Some(high) if is_high(high) && unit(at + 6).is_some_and(is_low) => 12,
            Some(half) if is_high(half) || is_low(half) => {
                out.push_str(&text[copied..at]);
                out.push_str("\\ufffd");
                copied = at + 6;
                6
            }
            // Also what stands behind it: `\\u` is no escape of a character.
            _ => 2,
        };
        if at >= bytes.len() {
            break;
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

/// Every value in it, one below the other.
pub(super) fn flat(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => items.iter().map(flat).collect::<Vec<_>>().join("\n"),
        Value::Object(map) => map.values().map(flat).collect::<Vec<_>>().join("\n"),
    }
}

/// The text of a message: a string, or a list of parts.
pub(super) fn text(content: &Value) -> String {
    match content {
        Value::Array(parts) => parts.iter().map(text_of_part).collect::<Vec<_>>().join("\n"),
        other => flat(other),
    }
}

fn text_of_part(part: &Value) -> String {
    match part {
        Value::Object(part) => part.get("text").map(flat).unwrap_or_default(),
        other => flat(other),
    }
}

/// The string under a key; empty where there is none.
pub(super) fn string<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The list under a key; empty where there is none.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A tool call. Arguments may be JSON in a string.
pub(super) fn act(name: &str, arguments: &Value) -> Act {
    let parsed = arguments.as_str().and_then(|text| json(text).ok());
    let arguments = parsed.as_ref().unwrap_or(arguments);
    let old_of = |value: &Value, keys: &[&str]| -> String {
        keys.iter().map(|key| value.get(key).map(flat).unwrap_or_default()).collect()
    };
    let mut old = old_of(arguments, &["old_string", "old_str", "oldText", "old_text"]);
    for edit in list(arguments, "edits").iter().filter(|edit| edit.is_object()) {
        let own = old_of(edit, &["old_string"]);
        old.push('\n');
        old.push_str(&if own.is_empty() { old_of(edit, &["oldText"]) } else { own });
    }
    Act::new(name, flat(arguments)).replacing(old)
}

/// A call as OpenAI writes it.
pub(super) fn function_call(call: &Value) -> Act {
    act(string(&call["function"], "name"), &call["function"]["arguments"])
}

/// The sum of numbers under these keys.
pub(super) fn sum(value: &Value, keys: &[&str]) -> u64 {
    keys.iter().filter_map(|key| value[key].as_u64()).fold(0, u64::saturating_add)
}
