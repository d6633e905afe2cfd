//! A model whose answers are made by a function, over real HTTP on loopback: what Baton sends and
//! reads is what it would send to and read from a provider.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Value, json};

/// A request is a prompt and some steps; nothing that long comes here.
const MOST: usize = 16 << 20;

/// One call of the model.
#[derive(Debug)]
pub(super) struct Asked {
    /// In small letters.
    head: String,
    pub(super) body: Value,
}

impl Asked {
    /// What a header says, in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim())
    }

    pub(super) fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// What the model is asked last.
    pub(super) fn last_words(&self) -> &str {
        let last = self.messages().iter().rfind(|message| message["role"] == "user");
        last.and_then(|message| message["content"].as_str()).unwrap_or_default()
    }

    /// The same for the same step of the same stage, so that two runs leave the same bytes.
    fn id(&self) -> String {
        let header = |name: &str| self.header(name).unwrap_or_default().to_owned();
        format!("{}-{}-{}", header("x-baton-iteration"), header("x-baton-stage"), self.step())
    }

    /// How often the model has answered in this conversation.
    pub(super) fn step(&self) -> usize {
        self.messages().iter().filter(|message| message["role"] == "assistant").count()
    }
}

/// What the model says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Says {
    Text(String),
    Call { tool: String, arguments: Value },
}

/// Serves such a model; the address to call. `Err` of the function: nobody wrote an answer.
pub(super) fn serve(
    answer: impl Fn(&Asked) -> Result<Says, String> + Send + Sync + 'static,
) -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let serving = std::thread::Builder::new().spawn(move || {
        let answer = Arc::new(answer);
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            // Where no thread can be started, whoever asked is told by the end of the connection.
            let _ = std::thread::Builder::new()
                .spawn(move || while one(&stream, &*answer).is_some() {});
        }
    });
    serving.map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(format!("http://{address}/v1"))
}

/// One request. `None`: the connection is over.
fn one(mut stream: &TcpStream, answer: &dyn Fn(&Asked) -> Result<Says, String>) -> Option<()> {
    let asked = read(stream)?;
    let (status, body) = match answer(&asked) {
        Ok(says) => ("200 OK", events(&says, &asked.id())),
        Err(message) => ("400 Bad Request", json!({ "error": { "message": message } }).to_string()),
    };
    // In one piece: a second one would wait until the first is acknowledged.
    let reply = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(reply.as_bytes()).ok()
}

/// An answer as a stream of events.
fn events(says: &Says, id: &str) -> String {
    let (delta, finish) = match says {
        Says::Call { tool, arguments } => {
            let function = json!({ "name": tool, "arguments": arguments.to_string() });
            let call = json!({ "index": 0, "id": format!("call-{id}"), "type": "function", "function": function });
            (json!({ "role": "assistant", "tool_calls": [call] }), "tool_calls")
        }
        Says::Text(text) => (json!({ "role": "assistant", "content": text }), "stop"),
    };
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk = json!({ "id": id, "object": "chat.completion.chunk", "created": 0, "model": "replies", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let first = chunk(delta, Value::Null);
    format!("{first}{}data: [DONE]\n\n", chunk(json!({}), json!(finish)))
}

fn read(mut stream: &TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        if bytes.len() > MOST {
            return None;
        }
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        if bytes.len() >= end + 4 + length {
            return Some(Asked { head, body: serde_json::from_slice(&bytes[end + 4..]).ok()? });
        }
    }
}
