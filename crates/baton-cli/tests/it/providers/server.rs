//! A provider over real HTTP on loopback: it enforces the rules of the real one and streams what a
//! function answers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

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
    pub(crate) head: String,
    pub(crate) body: Value,
    bytes: usize,
    pub(crate) status: u16,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|own| own.1.trim())
    }

    /// As the server counts them.
    pub(crate) fn tokens(&self) -> usize {
        self.bytes / 4
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
}

type Answer = dyn Fn(&Asked) -> Said + Send + Sync;

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
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (log, answer) = (asked.clone(), Arc::new(answer));
        let models: Vec<Value> = models.iter().map(|id| json!({ "id": id })).collect();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer, models) = (log.clone(), answer.clone(), models.clone());
                std::thread::spawn(move || {
                    serve(&stream, provider, &models, &log, answer.as_ref())
                });
            }
        });
        let path = if provider == Provider::Anthropic { "" } else { "/v1" };
        Server { url: format!("http://{address}{path}"), asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(
    stream: &TcpStream,
    provider: Provider,
    models: &[Value],
    log: &Mutex<Vec<Asked>>,
    answer: &Answer,
) -> Option<()> {
    let mut asked = read(stream)?;
    if asked.head.starts_with("GET") {
        return match models.is_empty() {
            true => send(stream, 404, "application/json", "{}"),
            false => send(stream, 200, "application/json", &json!({ "data": models }).to_string()),
        };
    }
    let said = match provider.refusal(&asked.body) {
        Some(error) => Said::Refused(400, error["error"]["message"].as_str().unwrap().to_owned()),
        None => answer(&asked),
    };
    asked.status = match &said {
        Said::Refused(status, _) => *status,
        Said::Text(_) | Said::Call(..) => 200,
    };
    let number = {
        let mut log = log.lock().unwrap();
        log.push(asked.clone());
        log.len()
    };
    match said {
        Said::Refused(status, message) => {
            let kind = "invalid_request_error";
            let error = json!({ "type": "error", "error": { "type": kind, "message": message } });
            send(stream, status, "application/json", &error.to_string())
        }
        said => {
            let body = match provider {
                Provider::Anthropic => anthropic(number, &said, asked.tokens()),
                Provider::Responses => responses(number, &said, asked.tokens()),
                Provider::Chat | Provider::LlamaCpp => chat(number, &said, asked.tokens()),
            };
            send(stream, 200, "text/event-stream", &body)
        }
    }
}

fn send(mut stream: &TcpStream, status: u16, kind: &str, body: &str) -> Option<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).ok()
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

fn read(mut stream: &TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|own| own == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = head.lines().filter_map(|line| line.split_once(':'));
        let length = length.into_iter().find(|own| own.0.eq_ignore_ascii_case("content-length"));
        let length: usize = length.and_then(|own| own.1.trim().parse().ok()).unwrap_or(0);
        if bytes.len() >= end + 4 + length {
            let body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default();
            return Some(Asked { head, body, bytes: length, status: 0 });
        }
    }
}
