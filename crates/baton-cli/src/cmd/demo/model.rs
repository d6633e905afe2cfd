//! The demo's model: answers that were written in advance, over real HTTP on loopback. It goes by what
//! Baton says of each call (stage and iteration) and by how far the conversation is.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What each stage answers: by iteration and stage, one list a conversation.
type Replies = BTreeMap<String, Vec<Vec<Value>>>;

/// A request is a prompt and some steps; nothing that long comes to the demo.
const MOST: usize = 16 << 20;

/// Serves the replies; the address to call.
pub(super) fn serve(replies: &str) -> Result<String, String> {
    let replies: Replies = serde_json::from_str(replies).map_err(|error| error.to_string())?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let begun = Arc::new(Mutex::new(BTreeMap::new()));
    std::thread::spawn(move || {
        let replies = Arc::new(replies);
        for stream in listener.incoming().flatten() {
            let (replies, begun) = (replies.clone(), begun.clone());
            std::thread::spawn(move || while answer(&stream, &replies, &begun).is_some() {});
        }
    });
    Ok(format!("http://{address}/v1"))
}

/// One request. `None`: the connection is over.
fn answer(
    mut stream: &TcpStream,
    replies: &Replies,
    begun: &Mutex<BTreeMap<String, usize>>,
) -> Option<()> {
    let (head, body) = read(stream)?;
    let header = |name: &str| {
        let line = head.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_uppercase())
    };
    let name = format!("{}-{}", header("x-baton-iteration")?, header("x-baton-stage")?);
    let messages = body["messages"].as_array().into_iter().flatten();
    let step = messages.filter(|message| message["role"] == "assistant").count();
    let conversation = {
        let mut begun = begun.lock().ok()?;
        let count = begun.entry(name.clone()).or_insert(0);
        *count += usize::from(step == 0);
        count.saturating_sub(1)
    };
    let reply = replies.get(&name).and_then(|all| all.get(conversation)?.get(step));
    let (status, body) = match reply {
        Some(reply) => ("200 OK", events(reply, &format!("{name}-{conversation}-{step}"))),
        None => {
            let message = format!("nobody wrote an answer for {name}");
            ("400 Bad Request", json!({ "error": { "message": message } }).to_string())
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}

/// An answer as a stream of events.
fn events(reply: &Value, id: &str) -> String {
    let (delta, finish) = match reply.get("tool") {
        Some(tool) => {
            let function = json!({ "name": tool, "arguments": reply["arguments"].to_string() });
            let call = json!({ "index": 0, "id": format!("call-{id}"), "type": "function", "function": function });
            (json!({ "role": "assistant", "tool_calls": [call] }), "tool_calls")
        }
        None => {
            let lines = reply["text"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let text = lines.collect::<Vec<_>>().join("\n");
            (json!({ "role": "assistant", "content": text }), "stop")
        }
    };
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk = json!({ "id": id, "object": "chat.completion.chunk", "created": 0, "model": "replies", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let first = chunk(delta, Value::Null);
    format!("{first}{}data: [DONE]\n\n", chunk(json!({}), json!(finish)))
}

/// Head, in small letters, and body.
fn read(mut stream: &TcpStream) -> Option<(String, Value)> {
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
            return Some((head, serde_json::from_slice(&bytes[end + 4..]).ok()?));
        }
    }
}
