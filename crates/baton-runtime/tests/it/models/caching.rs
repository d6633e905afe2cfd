//! The same bytes for the same prefix, and breakpoints that read what the last call wrote.

use baton_core::message::{Message, Part, Role, ToolCall, ToolResult, Wire};
use baton_runtime::model::Mode;
use serde_json::{Map, Value, json};

use super::{client, limits, request};

/// A conversation of 50 calls, each with one step more.
fn calls() -> Vec<baton_core::message::Request> {
    let mut request = request();
    let mut all = Vec::new();
    for step in 0..50 {
        all.push(request.clone());
        request.cached_messages = request.messages.len();
        let arguments: Map<String, Value> =
            [("path".to_owned(), json!(format!("src/{step}.rs")))].into_iter().collect();
        let call = ToolCall { id: format!("call_{step}"), name: "Read".to_owned(), arguments };
        request.messages.push(Message { role: Role::Assistant, parts: vec![Part::ToolCall(call)] });
        let result = ToolResult {
            call_id: format!("call_{step}"),
            content: format!("第 {step} 行\n").repeat(20),
            is_error: false,
        };
        request.messages.push(Message { role: Role::User, parts: vec![Part::ToolResult(result)] });
    }
    all
}

fn without_marks(body: &[u8]) -> String {
    String::from_utf8(body.to_vec())
        .unwrap()
        .replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
}

#[test]
fn each_of_50_calls_begins_with_the_bytes_of_the_one_before() {
    for wire in Wire::ALL {
        let client = client(wire, "http://127.0.0.1:1", limits());
        let bodies: Vec<String> = calls()
            .iter()
            .map(|request| without_marks(&client.body(request, Mode::Stream)))
            .collect();
        for pair in bodies.windows(2) {
            // The last message list closes with `]}`; everything before it must stand again.
            let prefix = pair[0].strip_suffix("]}").unwrap();
            assert!(pair[1].starts_with(prefix), "{wire:?}\n{}\n{}", pair[0], pair[1]);
        }
    }
}

#[test]
fn breakpoints_stand_on_the_layers_and_where_the_last_call_ended() {
    let client = client(Wire::Anthropic, "http://127.0.0.1:1", limits());
    let mut written = None;
    for request in calls() {
        let body: Value = serde_json::from_slice(&client.body(&request, Mode::Stream)).unwrap();
        let marked = |value: &Value| value.get("cache_control").is_some();
        let layers =
            body["system"].as_array().unwrap().iter().filter(|block| marked(block)).count();
        let messages = body["messages"].as_array().unwrap();
        let at: Vec<usize> = messages
            .iter()
            .enumerate()
            .filter(|(_, message)| message["content"].as_array().unwrap().iter().any(marked))
            .map(|(index, _)| index)
            .collect();
        assert_eq!(layers, 2);
        assert!(layers + at.len() <= 4);
        assert_eq!(at.last(), Some(&(messages.len() - 1)), "the end is written");
        if let Some(written) = written {
            assert!(at.contains(&written), "what the last call wrote is read");
        }
        written = at.last().copied();
    }
}
