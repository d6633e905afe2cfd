//! A provider over real HTTP on loopback: it enforces the rules of the real one and streams what a
//! function answers.

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use baton_testkit::{Script, Step, send};
use serde_json::{Value, json};

use super::rules::Provider;

/// The model's answer.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    Text(String),
    Call(&'static str, Value),
    /// No answer: this status and these words.
    Refused(u16, String),
}

/// One request and the status it got.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    own: baton_testkit::Asked,
    pub(crate) status: u16,
}

impl Deref for Asked {
    type Target = baton_testkit::Asked;

    fn deref(&self) -> &baton_testkit::Asked {
        &self.own
    }
}

impl Asked {
    /// As the server counts them.
    pub(crate) fn tokens(&self) -> usize {
        self.bytes.len() / 4
    }

    pub(crate) fn stage(&self) -> &str {
        self.header("x-baton-stage").unwrap_or_default()
    }

    /// The words of the last message.
    pub(crate) fn last_words(&self) -> String {
        let messages = self.body["messages"].as_array().or_else(|| self.body["input"].as_array());
        messages.and_then(|all| all.last()).map(Value::to_string).unwrap_or_default()
    }
}

pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _own: baton_testkit::Server,
}

impl Server {
    pub(crate) fn start(
        provider: Provider,
        answer: impl Fn(&Asked) -> Said + Send + Sync + 'static,
    ) -> Server {
        Server::listing(provider, &[], answer)
    }

    /// A server that also lists these models.
    pub(crate) fn listing(
        provider: Provider,
        models: &[&str],
        answer: impl Fn(&Asked) -> Said + Send + Sync + 'static,
    ) -> Server {
        let log = Arc::<Mutex<Vec<Asked>>>::default();
        let models: Vec<Value> = models.iter().map(|id| json!({ "id": id })).collect();
        let asked = log.clone();
        let server = baton_testkit::Server::answering(move |_, own| {
            if own.head.starts_with("GET") {
                let status = if models.is_empty() { 404 } else { 200 };
                let list = json!({ "data": models }).to_string();
                return vec![send(status, "application/json", &list), Step::Stay];
            }
            let mut asked = Asked { own: own.clone(), status: 200 };
            let said = match provider.refusal(&asked.body) {
                Some(error) => {
                    Said::Refused(400, error["error"]["message"].as_str().unwrap().to_owned())
                }
                None => answer(&asked),
            };
            if let Said::Refused(status, _) = said {
                asked.status = status;
            }
            let mut log = log.lock().unwrap();
            log.push(asked.clone());
            reply(provider, log.len(), &asked, &said)
        });
        let path = if provider == Provider::Anthropic { "" } else { "/v1" };
        Server { url: format!("{}{path}", server.url), asked, _own: server }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn reply(provider: Provider, number: usize, asked: &Asked, said: &Said) -> Script {
    if let Said::Refused(status, message) = said {
        let kind = "invalid_request_error";
        let error = json!({ "type": "error", "error": { "type": kind, "message": message } });
        return vec![send(*status, "application/json", &error.to_string()), Step::Stay];
    }
    let body = match provider {
        Provider::Anthropic => anthropic(number, said, asked.tokens()),
        Provider::Responses => responses(number, said, asked.tokens()),
        Provider::Chat | Provider::LlamaCpp => chat(number, said, asked.tokens()),
    };
    vec![send(200, "text/event-stream", &body), Step::Stay]
}

fn events(all: &[Value]) -> String {
    all.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn anthropic(number: usize, said: &Said, tokens: usize) -> String {
    let usage = json!({ "input_tokens": tokens, "output_tokens": 0 });
    let (block, delta, stop) = match said {
        Said::Call(name, arguments) => (
            json!({ "type": "tool_use", "id": format!("call_{number}"), "name": name, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": arguments.to_string() }),
            "tool_use",
        ),
        Said::Text(text) => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": text }),
            "end_turn",
        ),
        Said::Refused(..) => return String::new(),
    };
    events(&[
        json!({ "type": "message_start", "message": { "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "served", "content": [], "stop_reason": null, "usage": usage } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": { "output_tokens": 20 } }),
        json!({ "type": "message_stop" }),
    ])
}

fn responses(number: usize, said: &Said, tokens: usize) -> String {
    let item = match said {
        Said::Call(name, arguments) => {
            json!({ "type": "function_call", "call_id": format!("call_{number}"), "name": name, "arguments": arguments.to_string(), "status": "completed" })
        }
        Said::Text(text) => {
            json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] })
        }
        Said::Refused(..) => return String::new(),
    };
    let whole = json!({ "id": format!("resp_{number}"), "model": "served", "status": "completed", "output": [item], "usage": { "input_tokens": tokens, "output_tokens": 20 } });
    events(&[json!({ "type": "response.completed", "response": whole })])
}

fn chat(number: usize, said: &Said, tokens: usize) -> String {
    let (delta, stop) = match said {
        Said::Call(name, arguments) => (
            json!({ "tool_calls": [{ "index": 0, "id": format!("call_{number}"), "type": "function", "function": { "name": name, "arguments": arguments.to_string() } }] }),
            "tool_calls",
        ),
        Said::Text(text) => (json!({ "content": text }), "stop"),
        Said::Refused(..) => return String::new(),
    };
    let chunk = |delta: Value, stop: Value, usage: Value| json!({ "id": format!("chat_{number}"), "object": "chat.completion.chunk", "model": "served", "choices": [{ "index": 0, "delta": delta, "finish_reason": stop }], "usage": usage });
    let usage = json!({ "prompt_tokens": tokens, "completion_tokens": 20 });
    let all =
        events(&[chunk(delta, Value::Null, Value::Null), chunk(json!({}), json!(stop), usage)]);
    format!("{all}data: [DONE]\n\n")
}
