//! A scripted model over real HTTP on loopback: answers in a row, requests kept.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

pub(crate) struct Model {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

/// An answer that calls one tool.
pub(crate) fn call(tool: &str, arguments: Value) -> Value {
    calls(&[(tool, arguments)])
}

pub(crate) fn calls(all: &[(&str, Value)]) -> Value {
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

pub(crate) fn text(said: &str) -> Value {
    json!({ "role": "assistant", "content": said })
}

/// An answer that calls a tool and says something before.
pub(crate) fn saying(said: &str, tool: &str, arguments: Value) -> Value {
    let mut answer = call(tool, arguments);
    answer["content"] = json!(said);
    answer
}

/// No answer: this status, with these words of the provider.
pub(crate) fn refusal(status: u16, message: &str) -> Value {
    json!({ "refusal": status, "error": { "message": message } })
}

/// No answer, ever.
pub(crate) fn silence() -> Value {
    json!({ "silence": true })
}

impl Model {
    /// Each request takes the next answer; the last one serves all that follow.
    pub(crate) fn start(answers: Vec<Value>) -> Model {
        Model::answering(move |index, _| answers.get(index).or(answers.last()).unwrap().clone())
    }

    /// Answers by the request's number and itself.
    pub(crate) fn answering(
        answer: impl Fn(usize, &Asked) -> Value + Send + Sync + 'static,
    ) -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Value>>>::default();
        let (log, answer) = (requests.clone(), Arc::new(answer));
        let calls = Arc::new(AtomicU32::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer, calls) = (log.clone(), answer.clone(), calls.clone());
                std::thread::spawn(move || {
                    while serve(&stream, &log, &calls, answer.as_ref()).is_some() {}
                });
            }
        });
        Model { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }
}

/// A request: its head, in small letters, and its body.
pub(crate) struct Asked {
    head: String,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(own, _)| *own == name).map(|(_, value)| value.trim())
    }
}

fn serve(
    mut stream: &TcpStream,
    log: &Mutex<Vec<Value>>,
    calls: &AtomicU32,
    answer: &(dyn Fn(usize, &Asked) -> Value + Send + Sync),
) -> Option<()> {
    let asked = read(stream)?;
    let (number, mut reply) = {
        let mut log = log.lock().unwrap();
        log.push(asked.body.clone());
        (log.len() - 1, answer(log.len() - 1, &asked))
    };
    if reply["silence"] == true {
        // Until the other side has had enough.
        return read(stream).and(None);
    }
    if let Some(status) = reply["refusal"].as_u64() {
        let body = json!({ "error": reply["error"] }).to_string();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        return stream.write_all(format!("{head}{body}").as_bytes()).ok();
    }
    // What the request counted, where the answer says it.
    let prompt = reply.as_object_mut().and_then(|reply| reply.remove("prompt_tokens"));
    let prompt = prompt.and_then(|tokens| tokens.as_u64()).unwrap_or(1000);
    // A server that counts nothing says nothing of it.
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
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}

fn read(mut stream: &TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        if bytes.len() >= end + 4 + length {
            let body = serde_json::from_slice(&bytes[end + 4..]).ok()?;
            return Some(Asked { head, body });
        }
    }
}
