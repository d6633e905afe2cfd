//! A real model, where one is configured: `BATON_TEST_BASE_URL=http://127.0.0.1:8080 cargo test -p
//! baton-runtime --test it models::local -- --nocapture`. Says plainly when there is none.

use std::time::Duration;

use baton_core::id::Tokens;
use baton_core::message::{Format, Message, Wire};
use baton_runtime::model::{Client, Endpoint, Limits, Mode};
use serde_json::{Value, json};

use super::{call, request};

fn server() -> Option<String> {
    let url = std::env::var("BATON_TEST_BASE_URL").ok();
    if url.is_none() {
        println!("BATON_TEST_BASE_URL is not set: no real model was called");
    }
    url
}

fn local(wire: Wire, url: &str) -> Client {
    let limits = Limits { idle: Duration::from_secs(120), ..Limits::default() };
    Client::new(Endpoint::new(wire, Some(url.parse().unwrap()), None), limits).unwrap()
}

#[tokio::test]
async fn a_real_model_answers_counts_and_caches_on_every_wire() {
    let Some(url) = server() else { return };
    for wire in Wire::ALL {
        let mut ask = request();
        ask.tools.clear();
        ask.max_output = Tokens(40);
        ask.temperature = Some(0.0);
        ask.system =
            vec![format!("You are careful. {}", "The project is a parser of numbers. ".repeat(30))];
        ask.messages = vec![Message::user("Say hello in one short sentence.")];
        let first = call(&local(wire, &url), &ask, Mode::Stream).await.0.unwrap();
        let second = call(&local(wire, &url), &ask, Mode::Whole).await.0.unwrap();
        println!("{}: {:?} {:?} then {:?}", wire.name(), first.text(), first.usage, second.usage);
        assert!(!first.text().trim().is_empty());
        assert!(first.usage.output.is_some_and(|tokens| tokens.0 > 0));
        assert!(
            second.usage.cache_read.is_some_and(|tokens| tokens.0 > 100),
            "the second call reads the first one's cache"
        );
    }
}

/// Small models make no native tool calls that can be relied on; a schema makes them.
#[tokio::test]
async fn a_real_model_makes_a_call_under_a_schema() {
    let Some(url) = server() else { return };
    let tool = |name: &str, field: &str| {
        json!({ "type": "object", "additionalProperties": false, "required": ["tool", field],
            "properties": { "tool": { "const": name }, field: { "type": "string" } } })
    };
    let mut ask = request();
    ask.tools.clear();
    ask.max_output = Tokens(80);
    ask.temperature = Some(0.0);
    ask.system =
        vec!["You choose one tool. Read reads a file (path). Grep searches (pattern).".to_owned()];
    ask.messages = vec![Message::user("Open the file src/lib.rs")];
    ask.format = Some(Format {
        name: "call".to_owned(),
        schema: json!({ "anyOf": [tool("Read", "path"), tool("Grep", "pattern")] }),
    });
    let answer = call(&local(Wire::Chat, &url), &ask, Mode::Stream).await.0.unwrap();
    println!("under a schema: {}", answer.text());
    let made: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!((made["tool"].as_str(), made["path"].as_str()), (Some("Read"), Some("src/lib.rs")));
}

/// What its native calls look like; nothing is asked of them but that no half of one comes out.
#[tokio::test]
async fn what_a_real_model_does_with_native_tools_is_seen() {
    let Some(url) = server() else { return };
    let mut ask = request();
    ask.max_output = Tokens(80);
    ask.temperature = Some(0.0);
    let answer = call(&local(Wire::Chat, &url), &ask, Mode::Stream).await.0.unwrap();
    println!(
        "native: {} calls, {} broken, text {:?}",
        answer.tool_calls().count(),
        answer.broken_calls.len(),
        answer.text()
    );
}
