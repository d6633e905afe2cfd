//! The first difference between two requests: the message, the part of it, the line.

use std::fmt::Write;

use serde_json::Value;

/// Lines of context before a difference, and lines of each side.
const BEFORE: usize = 2;
const SIDE: usize = 3;
/// Characters of a line, and those before a difference inside of a longer one.
const WIDTH: usize = 160;
const LEAD: usize = 60;

/// `in message 2 (user), content, line 14:` and both sides of it, `-` for the recorded one.
pub(super) fn shown(recorded: &Value, asked: &Value) -> String {
    let (mut then, mut now) = (Vec::new(), Vec::new());
    leaves(recorded, String::new(), &mut then);
    leaves(asked, String::new(), &mut now);
    let at = then.iter().zip(&now).take_while(|(then, now)| then == now).count();
    match (then.get(at), now.get(at)) {
        (Some((place, then)), Some((other, now))) if place == other => lines(place, then, now),
        (then, now) => {
            let side = |leaf: Option<&(String, String)>| match leaf {
                Some((place, text)) => {
                    format!("{place}: {}", cut(text.lines().next().unwrap_or_default(), 0))
                }
                None => "(nothing more)".to_owned(),
            };
            format!("in what comes next:\n- {}\n+ {}", side(then), side(now))
        }
    }
}

/// Every single value of a request with its place, in order.
fn leaves(value: &Value, place: String, out: &mut Vec<(String, String)>) {
    let inner = |name: &str| match place.as_str() {
        "" => name.to_owned(),
        place => format!("{place}, {name}"),
    };
    match value {
        Value::String(text) => out.push((place, text.clone())),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let word = |key: &str| item[key].as_str().map(|word| format!(" ({word})"));
                let kind = word("role").or_else(|| word("name")).or_else(|| word("type"));
                let number = format!("{}{}", index + 1, kind.unwrap_or_default());
                let place = match place.as_str() {
                    "messages" | "input" => format!("message {number}"),
                    "tools" => format!("tool {number}"),
                    _ => inner(&format!("part {number}")),
                };
                leaves(item, place, out);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                leaves(value, inner(key), out);
            }
        }
        other => out.push((place, other.to_string())),
    }
}

/// The first lines that differ, with those before.
fn lines(place: &str, then: &str, now: &str) -> String {
    let (then, now): (Vec<&str>, Vec<&str>) = (then.lines().collect(), now.lines().collect());
    let at = then.iter().zip(&now).take_while(|(then, now)| then == now).count();
    let mut out = format!("in {place}, line {}:", at + 1);
    let from = at.saturating_sub(BEFORE);
    for (index, line) in then[from..at].iter().enumerate() {
        let _ = write!(out, "\n  {:>4} | {}", from + index + 1, cut(line, 0));
    }
    let column = match (then.get(at), now.get(at)) {
        (Some(then), Some(now)) => {
            then.chars().zip(now.chars()).take_while(|(then, now)| then == now).count()
        }
        _ => 0,
    };
    // Often one line was replaced by another one: what follows is the same again.
    let is_same =
        |own: &usize| then.get(at + own).is_some_and(|line| now.get(at + own) == Some(line));
    let again = (1..SIDE).find(is_same);
    for (mark, side) in [('-', &then), ('+', &now)] {
        if at >= side.len() {
            let _ = write!(out, "\n{mark}      | (ends here)");
        }
        for (index, line) in side.iter().enumerate().skip(at).take(again.unwrap_or(SIDE)) {
            let column = if index == at { column } else { 0 };
            let _ = write!(out, "\n{mark} {:>4} | {}", index + 1, cut(line, column));
        }
    }
    if let Some(line) = again.and_then(|own| then.get(at + own)) {
        let _ = write!(out, "\n  {:>4} | {}", at + again.unwrap_or(0) + 1, cut(line, 0));
    }
    out
}

/// A line, or the part of a long one around this column.
fn cut(line: &str, column: usize) -> String {
    let length = line.chars().count();
    if length <= WIDTH {
        return line.to_owned();
    }
    let from = column.saturating_sub(LEAD).min(length - WIDTH);
    let part: String = line.chars().skip(from).take(WIDTH).collect();
    let (before, after) =
        (if from > 0 { "…" } else { "" }, if from + WIDTH < length { "…" } else { "" });
    format!("{before}{part}{after}")
}
