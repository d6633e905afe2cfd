//! A model that is played by a function: answers in a row, or by what is asked.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::http::{Asked, Script, Server, Step, send};

/// Speaks as an OpenAI-compatible server does, until it is dropped.
#[derive(Debug)]
pub struct Model {
    pub url: String,
    requests: Arc<Mutex<Vec<Value>>>,
    _server: Server,
}

/// An answer that calls one tool.
pub fn call(tool: &str, arguments: Value) -> Value {
    calls(&[(tool, arguments)])
}

pub fn calls(all: &[(&str, Value)]) -> Value {
    let all = all.iter().enumerate().map(|(index, (tool, arguments))| {
        // The server gives it its id.
        json!({
            "index": index,
            "type": "function",
            "function": { "name": tool, "arguments": arguments.to_string() },
        })
    });
    json!({ "role": "assistant", "content": null, "tool_calls": all.collect::<Vec<_>>() })
}

pub fn text(said: &str) -> Value {
    json!({ "role": "assistant", "content": said })
}

/// An answer that calls a tool and says something before.
pub fn saying(said: &str, tool: &str, arguments: Value) -> Value {
    let mut answer = call(tool, arguments);
    answer["content"] = json!(said);
    answer
}

/// No answer: this status, with these words of the provider.
pub fn refusal(status: u16, message: &str) -> Value {
    json!({ "refusal": status, "error": { "message": message } })
}

/// No answer, ever.
pub fn silence() -> Value {
    json!({ "silence": true })
}

impl Model {
    /// Each request takes the next answer; the last one serves all that follow.
    pub fn start(answers: Vec<Value>) -> Model {
        Model::answering(move |index, _| answers.get(index).or(answers.last()).unwrap().clone())
    }

    /// Answers by the request's number and itself, one request after the other.
    pub fn answering(answer: impl Fn(usize, &Asked) -> Value + Send + Sync + 'static) -> Model {
        Model::faulty(move |number, asked| Ok(answer(number, asked)))
    }

    /// The same; instead of an answer there may be a script for the server.
    pub fn faulty(
        answer: impl Fn(usize, &Asked) -> Result<Value, Script> + Send + Sync + 'static,
    ) -> Model {
        let requests = Arc::<Mutex<Vec<Value>>>::default();
        let (log, calls) = (requests.clone(), AtomicU32::new(0));
        let server = Server::answering(move |_, asked| {
            if asked.body.is_null() {
                // No request for an answer, such as the question which models there are.
                return Vec::new();
            }
            let (number, reply) = {
                let mut log = log.lock().unwrap();
                log.push(asked.body.clone());
                (log.len() - 1, answer(log.len() - 1, asked))
            };
            reply.map_or_else(|fault| fault, |reply| script(number, reply, &calls))
        });
        Model { url: format!("{}/v1", server.url), requests, _server: server }
    }

    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }
}

fn script(number: usize, mut reply: Value, calls: &AtomicU32) -> Script {
    if reply["silence"] == true {
        return vec![Step::Hold];
    }
    if let Some(status) = reply["refusal"].as_u64() {
        let error = json!({ "error": reply["error"] }).to_string();
        let status = u16::try_from(status).unwrap();
        return vec![send(status, "application/json", &error), Step::Stay];
    }
    // What the request counted, where the answer says it.
    let prompt = reply.as_object_mut().and_then(|reply| reply.remove("prompt_tokens"));
    let prompt = prompt.and_then(|tokens| tokens.as_u64()).unwrap_or(1000);
    // A server that does not count sends no usage.
    let is_uncounted = reply.as_object_mut().is_some_and(|own| own.remove("uncounted").is_some());
    for call in reply["tool_calls"].as_array_mut().into_iter().flatten() {
        let number = calls.fetch_add(1, Ordering::SeqCst) + 1;
        call["id"] = json!(format!("call_{number}"));
    }
    let finish = if reply["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    let chunk = |choice: Value, usage: Value| json!({ "id": format!("chat_{number}"), "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [choice], "usage": usage });
    let first = chunk(json!({ "index": 0, "delta": reply, "finish_reason": null }), Value::Null);
    let usage = json!({ "prompt_tokens": prompt, "completion_tokens": 20, "total_tokens": prompt + 20, "prompt_tokens_details": { "cached_tokens": prompt / 10 * 9 } });
    let usage = if is_uncounted { Value::Null } else { usage };
    let last = chunk(json!({ "index": 0, "delta": {}, "finish_reason": finish }), usage);
    let body = format!("data: {first}\n\ndata: {last}\n\ndata: [DONE]\n\n");
    vec![send(200, "text/event-stream", &body), Step::Stay]
}
