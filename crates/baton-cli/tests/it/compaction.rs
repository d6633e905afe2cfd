//! A conversation that outgrows its window, by the real binary against a scripted model over real
//! HTTP: what is asked, what is sent afterwards, what is never lost, and what happens when nothing
//! usable comes.

mod archive;
mod by_hand;
mod configuration;
mod failures;
mod handover;
mod limits;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_testkit::{Model, Place, saying};
use serde_json::{Value, json};

/// The words that every request for a handover begins with.
const ASKS_FOR_STATE: &str = "Your window is nearly full";
const ASKS_FOR_RECORD: &str = "You write the archive of a conversation";

/// A model with two scripts: what it does, and what it says when it is asked to sum up. The last
/// answer of each serves all that follow. It counts its requests, as a provider does.
fn model(work: Vec<Value>, summaries: Vec<Value>) -> Model {
    let (worked, summed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Model::answering(move |_, asked| {
        let (script, at) = match is_for_summary(&asked.body) {
            true => (&summaries, summed.fetch_add(1, Ordering::SeqCst)),
            false => (&work, worked.fetch_add(1, Ordering::SeqCst)),
        };
        counted(script.get(at).or(script.last()).unwrap().clone(), &asked.body)
    })
}

/// About as a provider counts.
fn counted(mut answer: Value, request: &Value) -> Value {
    if answer["refusal"].is_null() {
        answer["prompt_tokens"] = json!(size(request));
    }
    answer
}

fn size(request: &Value) -> usize {
    request.to_string().chars().count() / 4
}

fn is_for_summary(request: &Value) -> bool {
    // A person's words may stand right before.
    let last = messages(request).last().unwrap().to_string();
    let is_again = last.contains("Your answer cannot be used: ");
    is_again || last.contains(ASKS_FOR_STATE) || system(request).starts_with(ASKS_FOR_RECORD)
}

fn messages(request: &Value) -> &[Value] {
    request["messages"].as_array().unwrap()
}

fn system(request: &Value) -> &str {
    messages(request)[0]["content"].as_str().unwrap()
}

fn content(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

/// The first request after this one that does not ask for a summary.
fn next_of_work(requests: &[Value], after: usize) -> &Value {
    requests[after + 1..].iter().find(|request| !is_for_summary(request)).unwrap()
}

fn summary_requests(requests: &[Value]) -> Vec<usize> {
    let all = requests.iter().enumerate().filter(|(_, request)| is_for_summary(request));
    all.map(|(index, _)| index).collect()
}

/// A list that every provider takes: the system first, then a user; no two answers in a row; each
/// call with its result right behind, and no result without its call.
fn assert_valid(request: &Value) {
    let mut open: BTreeSet<String> = BTreeSet::new();
    let mut last = "";
    for (index, message) in messages(request).iter().enumerate() {
        let role = message["role"].as_str().unwrap();
        match (index, role) {
            (0, role) => assert_eq!(role, "system"),
            (1, role) => assert_eq!(role, "user", "{request}"),
            (_, "assistant") => {
                assert!(open.is_empty() && last != "assistant", "message {index} of {request}");
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                open.extend(calls.map(|call| call["id"].as_str().unwrap().to_owned()));
            }
            (_, "tool") => {
                let id = message["tool_call_id"].as_str().unwrap();
                assert!(open.remove(id), "message {index} of {request}");
            }
            (_, role) => assert!(role == "user" && open.is_empty(), "message {index} of {request}"),
        }
        last = role;
    }
    assert!(open.is_empty() && last != "assistant", "{request}");
}

/// The profile of `exec` and `chat`; results are not folded, so that sizes are easy to see.
fn configure(place: &Place, profile: &str) {
    let text = format!("[features]\nfolding = false\n\n[profiles.chat]\n{profile}");
    place.write("home/.config/baton/baton.toml", text);
}

/// Files that fill a window: about 1,500 tokens each, no line twice.
fn parts(place: &Place, count: usize) {
    for part in 1..=count {
        let line = |line| {
            format!("{line:03} of part {part}: 第 {part} 部分第 {line} 行, value_{part}_{line}\n")
        };
        let text: String = (1..=120).map(line).collect();
        place.write(&format!("project/part-{part}.txt"), text);
    }
}

/// The model reads a part.
fn reads(part: usize) -> Value {
    let said = match part {
        2 => "We decided to keep u8: 决定保留 u8。".to_owned(),
        part => format!("Now part {part}."),
    };
    saying(&said, "Read", json!({ "path": format!("part-{part}.txt") }))
}
