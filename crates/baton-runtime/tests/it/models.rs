//! Calls of models over real HTTP against a scripted server.

mod caching;
mod cassettes;
mod faults;
mod fixtures;
mod local;
mod places;
mod wires;

use std::time::Duration;

use baton_core::id::Tokens;
use baton_core::message::{Answer, Message, Request, Tool, Wire};
use baton_runtime::model::{Client, Delta, Endpoint, Error, Limits, Mode, Secret, Tags};
use serde_json::json;

const KEY: &str = "sk-canary-0123456789";

fn limits() -> Limits {
    Limits {
        idle: Duration::from_secs(2),
        total: Duration::from_secs(60),
        retries: 0,
        ..Limits::default()
    }
}

fn client(wire: Wire, url: &str, limits: Limits) -> Client {
    Client::new(Endpoint::new(wire, Some(url.parse().unwrap()), Some(Secret::new(KEY))), limits)
        .unwrap()
}

fn request() -> Request {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
    Request {
        model: "model-x".to_owned(),
        max_output: Tokens(1_000),
        temperature: None,
        cache_key: "run-1/TEST".to_owned(),
        tools: vec![Tool {
            name: "Read".to_owned(),
            description: "Reads a file".to_owned(),
            schema,
        }],
        no_calls: false,
        system: vec!["You are careful.".to_owned(), "Project rules.".to_owned()],
        format: None,
        messages: vec![Message::user("Look at src/lib.rs")],
        cached_messages: 0,
        tail: None,
    }
}

fn tags() -> Tags {
    Tags { run: "r-1".to_owned(), stage: "TEST".to_owned(), iteration: 7, attempt: 2 }
}

async fn call(
    client: &Client,
    request: &Request,
    mode: Mode,
) -> (Result<Answer, Error>, Vec<Delta>) {
    let mut heard = Vec::new();
    let answer = client.call(request, mode, &tags(), &mut |delta| heard.push(delta)).await;
    (answer, heard)
}
