//! Documents without measure: nested ten thousand deep, a single line of megabytes. Each ends soon with
//! a word about it.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::text;
use serde_json::{Value, json};

use super::{answering, at_once, said};

const DEEP: usize = 10_000;

fn nested(open: &str, inner: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(DEEP), close.repeat(DEEP))
}

/// Ends by itself, within a bounded time, and not by a signal.
fn bounded(name: &str, command: &mut Command, input: &str) -> Output {
    let start = Instant::now();
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // Who does not read its input to the end is no error.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(start.elapsed() < Duration::from_secs(20), "{name}: {:?}", start.elapsed());
    let told = said(&output);
    let head: String = told.chars().take(300).collect();
    assert!(output.status.code().is_some(), "{name}: it was ended by a signal: {head}");
    assert!(!told.contains("panicked") && !told.contains("overflow"), "{name}: {head}");
    assert!(told.len() < 1 << 20, "{name}: {} bytes", told.len());
    output
}

fn shapes() -> Vec<(&'static str, String)> {
    vec![
        ("lists", nested("[", "", "]")),
        ("objects", nested("{\"a\":", "1", "}")),
        ("open lists", "[".repeat(DEEP * 10)),
        ("mixed", nested("[{\"a\":[", "null", "]}]")),
        ("a long line", format!("\"{}\"", "x".repeat(4 << 20))),
        ("a long number", "1".repeat(1 << 20)),
    ]
}

#[test]
fn arguments_without_measure_are_refused() {
    let mut cases = Vec::new();
    for (name, shape) in shapes() {
        let wrapped = format!("{{\"command\":{shape}}}");
        let function = json!({ "name": "Bash", "arguments": wrapped });
        let call = json!({ "index": 0, "id": "x", "type": "function", "function": function });
        let native = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
        let as_json = format!("{{\"thought\":\"x\",\"tool\":\"Bash\",\"arguments\":{wrapped}}}");
        let react = format!("Thought: x\nAction: Bash[{wrapped}]");
        let end = "{\"tool\":\"Finish\",\"arguments\":{\"answer\":\"x\"}}";
        cases.push((name, "native", vec![native, text("done")]));
        cases.push((name, "json", vec![text(&as_json), text(end)]));
        cases.push((name, "react", vec![text(&react), text("Action: Finish[x]")]));
    }
    at_once(&cases, |(name, protocol, answers)| {
        let place = answering(answers.clone());
        let mut command = place.command(&["exec", "-p", "Go.", "--protocol", protocol]);
        let output = bounded(&format!("{name} by {protocol}"), &mut command, "");
        // What was understood had no effect; what was not, the model was told.
        assert_eq!(output.status.code(), Some(0), "{name} by {protocol}: {}", said(&output));
    });
}

#[test]
fn documents_without_measure_are_refused() {
    let place = answering(vec![text("never")]);
    assert!(place.plain(&["init"]).output().unwrap().status.success());
    for (name, shape) in shapes() {
        let inputs: [(&[&str], String); 5] = [
            (
                &["debug", "compress", "--tool", "Bash"],
                format!("{{\"status\":\"success\",\"data\":{shape}}}"),
            ),
            (&["debug", "compress", "--tool", "Read"], shape.clone()),
            (&["plan", "apply", "-"], format!("{{\"replace\":{shape}}}")),
            (&["report", "check", "-"], format!("iteration: 1\nverdict: {shape}\n")),
            (&["plan", "check", "-"], shape.clone()),
        ];
        for (args, input) in inputs {
            bounded(&format!("{name}: {args:?}"), &mut place.plain(args), &input);
        }
    }
    let configs = [
        format!("a = {}", nested("[", "", "]")),
        format!("a = {}", nested("{a=", "1", "}")),
        format!("{} = 1", vec!["a"; DEEP].join(".")),
        format!("[{}]\n", vec!["a"; DEEP].join(".")),
        "[a]\n".repeat(DEEP),
        format!("pack = \"{}\"", "x".repeat(900_000)),
    ];
    for (number, config) in configs.iter().enumerate() {
        place.write("project/.baton/baton.toml", config);
        let output = bounded(&format!("config {number}"), &mut place.plain(&["status"]), "");
        assert_ne!(output.status.code(), Some(0), "config {number}");
    }
}

/// What a provider sends may be anything.
#[test]
fn answers_without_measure_are_refused() {
    at_once(&shapes(), |(name, shape)| {
        let place = answering(vec![Value::Null]);
        let url =
            sending(format!("data: {{\"choices\":[{{\"delta\":{shape}}}]}}\n\ndata: [DONE]\n\n"));
        let mut command = place.plain(&["exec", "-p", "Go.", "--provider", "openai-chat"]);
        command.args(["--model", "scripted", "--base-url", &url]);
        let output = bounded(name, &mut command, "");
        assert_ne!(output.status.code(), Some(0), "{name}");
    });
}

fn sending(body: String) -> String {
    use std::io::Read;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = vec![0; 64 << 10];
            let _ = stream.read(&mut bytes);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}
