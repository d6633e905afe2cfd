//! JSON made shorter step by step, each step with the words for what it left out.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::messages::Language;

/// The longest string and list of each step.
const STEPS: [(usize, usize); 5] = [(2_000, 40), (600, 16), (240, 8), (100, 4), (50, 2)];
/// Turns that stay at the start and at the end, of each step.
const ENDS: [u64; 3] = [4, 2, 1];
/// Deeper than this nothing is told that a reader could use.
const DEEPEST: usize = 16;

/// Ever shorter forms of a document. A conversation first loses its middle, all but `turns`.
pub(super) fn steps(
    words: Language,
    value: &Value,
    turns: Option<&BTreeSet<u64>>,
) -> impl Iterator<Item = (String, String)> {
    let mut forms = Vec::new();
    if let (Some(turns), Value::Object(trace)) = (turns, value) {
        for ends in ENDS {
            let Some((trace, left_out)) = without_middle(words, trace, ends, turns) else { break };
            forms.push((Value::Object(trace), Some(words.reading_middle(left_out))));
        }
    }
    let shortest = forms.last().cloned().unwrap_or_else(|| (value.clone(), None));
    let whole = forms.into_iter().map(|(form, how)| (drawn(&form), how.unwrap_or_default()));
    let whole: Vec<(String, String)> = whole.collect();
    let cut = STEPS.into_iter().map(move |(chars, items)| {
        let (form, how) = &shortest;
        let own = words.reading_shortened(chars, items);
        let how: Vec<&String> = how.iter().chain([&own]).collect();
        (drawn(&Shorter { words, chars, items }.of(form, 0)), words.clauses(&how))
    });
    whole.into_iter().chain(cut)
}

fn drawn(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Shortens a document to the longest text and list that may stay.
struct Shorter {
    words: Language,
    chars: usize,
    items: usize,
}

impl Shorter {
    fn of(&self, value: &Value, depth: usize) -> Value {
        if depth > DEEPEST {
            return Value::from("…");
        }
        let own = |value: &Value| self.of(value, depth + 1);
        match value {
            Value::String(text) => Value::from(self.text(text)),
            Value::Array(list) if list.len() > self.items => {
                let mut out: Vec<Value> = list[..self.items - 1].iter().map(own).collect();
                out.push(Value::from(self.words.left_out_mark(list.len() - self.items)));
                out.extend(list.last().map(own));
                Value::Array(out)
            }
            Value::Array(list) => list.iter().map(own).collect(),
            Value::Object(map) => {
                // Objects with many keys are lists by another name.
                let most = self.items * 4;
                let kept = map.iter().take(most);
                let mut out: Map<String, Value> =
                    kept.map(|(key, value)| (key.clone(), own(value))).collect();
                if map.len() > most {
                    let left = self.words.left_out_keys(map.len() - most);
                    out.insert("…".to_owned(), Value::from(left));
                }
                Value::Object(out)
            }
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        let count = text.chars().count();
        if count <= self.chars {
            return text.to_owned();
        }
        let start: String = text.chars().take(self.chars).collect();
        format!("{start}… {}", self.words.more_characters(count - self.chars))
    }
}

/// The first two thirds and the last third of so many characters.
pub(super) fn ends(words: Language, text: &str, chars: usize) -> String {
    let count = text.chars().count();
    if count <= chars {
        return text.to_owned();
    }
    let border = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
    let (head, tail) = (border(chars * 2 / 3), border(count - chars / 3));
    let mark = words.characters_left_out(count - chars);
    format!("{}\n{mark}\n{}", &text[..head], &text[tail..])
}

/// The turn that each message belongs to: as it says itself, or counted by what the user says.
fn turns_of(messages: &[Value]) -> Vec<u64> {
    let mut turn = 0;
    let numbers = messages.iter().map(|message| {
        let is_user = message.get("role").and_then(Value::as_str) == Some("user");
        let has_roles = message.get("role").is_some();
        match message.get("turn").and_then(Value::as_u64) {
            Some(own) => turn = own,
            None if is_user || !has_roles => turn += 1,
            None => {}
        }
        turn
    });
    numbers.collect()
}

/// A trace without the middle of its conversation, and the number of turns that it lost. None where
/// there is no middle.
fn without_middle(
    words: Language,
    trace: &Map<String, Value>,
    ends: u64,
    failed: &BTreeSet<u64>,
) -> Option<(Map<String, Value>, usize)> {
    let messages = trace.get("conversation_history")?.as_array()?;
    let numbers = turns_of(messages);
    let (first, last) = (*numbers.iter().min()?, *numbers.iter().max()?);
    let own_failures = messages.iter().zip(&numbers).filter(|(message, _)| fails_itself(message));
    let own_failures: BTreeSet<u64> = own_failures.map(|(_, turn)| *turn).collect();
    let is_kept = |turn: u64| {
        turn < first.saturating_add(ends)
            || turn > last.saturating_sub(ends)
            || failed.contains(&turn)
            || own_failures.contains(&turn)
    };
    let left_out: BTreeSet<u64> = numbers.iter().copied().filter(|turn| !is_kept(*turn)).collect();
    if left_out.is_empty() {
        return None;
    }
    let mut out = trace.clone();
    let mut kept = Vec::new();
    let mut gap: Option<(u64, u64)> = None;
    let close = |gap: &mut Option<(u64, u64)>, kept: &mut Vec<Value>| {
        if let Some((from, to)) = gap.take() {
            kept.push(Value::from(words.turns_left_out(from, to)));
        }
    };
    for (message, turn) in messages.iter().zip(&numbers) {
        if is_kept(*turn) {
            close(&mut gap, &mut kept);
            kept.push(message.clone());
        } else {
            gap = Some((gap.map_or(*turn, |(from, _)| from), *turn));
        }
    }
    close(&mut gap, &mut kept);
    out.insert("conversation_history".to_owned(), Value::Array(kept));
    // Calls and states that say their turn go with it.
    for name in ["tool_calls", "states"] {
        if let Some(Value::Array(list)) = out.get_mut(name) {
            list.retain(|item| item.get("turn").and_then(Value::as_u64).is_none_or(is_kept));
        }
    }
    Some((out, left_out.len()))
}

/// A message that holds the names of checkers that failed at it.
fn fails_itself(message: &Value) -> bool {
    message.get("checkers_failed").and_then(Value::as_array).is_some_and(|names| !names.is_empty())
}

/// The turns that an evaluation holds against the sample: of every object with `"passed": false`, its
/// `turn` or `turns`.
pub(super) fn failed_turns(evaluation: &Value) -> BTreeSet<u64> {
    let mut turns = BTreeSet::new();
    let mut open = vec![evaluation];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(list) => open.extend(list),
            Value::Object(map) => {
                if map.get("passed") == Some(&Value::Bool(false)) {
                    turns.extend(map.get("turn").and_then(Value::as_u64));
                    let list = map.get("turns").and_then(Value::as_array);
                    turns.extend(list.into_iter().flatten().filter_map(Value::as_u64));
                }
                open.extend(map.values());
            }
            _ => {}
        }
    }
    turns
}
