//! The same sweep with the built-in agent in the run: its transcript is on the disk step by step, an
//! interrupted stage goes on from there, and a step of which nobody knows whether it happened is never
//! taken for undone: the agent is told, and looks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use baton_core::config::AgentSettings;
use baton_core::id::{Iteration, Tokens};
use baton_core::message::Wire;
use baton_core::turn::Protocol;
use baton_runtime::agent::Mind;
use baton_runtime::executor::Builtin;
use baton_runtime::load::Environment;
use baton_runtime::model::{Client, Endpoint, Limits};
use serde_json::{Value, json};

use crate::reference::{FINISHED, folder, make};
use crate::sweep::{child, chosen, files};

/// Each of them can be done again without harm, as a careful agent would choose them.
fn steps(iteration: Iteration) -> Vec<(&'static str, Value)> {
    let name = format!("agent-{iteration}.rs");
    vec![
        ("Read", json!({ "path": "lib.rs" })),
        ("Write", json!({ "path": name, "content": "// by the agent\n" })),
        (
            "Bash",
            json!({ "command": format!("grep -q mended {name} || echo '// mended' >> {name}") }),
        ),
        // A command changed it: it is read again before it is edited.
        ("Read", json!({ "path": name })),
        (
            "Edit",
            json!({ "path": name, "old_string": "by the agent", "new_string": "by the careful agent" }),
        ),
        ("Bash", json!({ "command": format!("cat {name}") })),
    ]
}

/// The agent, with a model of its own in this process: it goes on by what it sees was done.
pub(crate) fn executor() -> Builtin {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    let client = Client::new(Endpoint::new(Wire::Chat, Some(&url), None), Limits::default());
    let mind = Mind {
        client: client.unwrap(),
        model: "scripted".to_owned(),
        max_output: Tokens(1_000),
        price: None,
        protocol: Protocol::Native,
    };
    let path = std::env::var("PATH").unwrap();
    let environment = Environment::of(&[("PATH", path.as_str())]);
    Builtin { mind, environment, settings: AgentSettings::default() }
}

fn answer(mut stream: &TcpStream) -> Option<()> {
    let (head, body) = request(stream)?;
    let iteration = head.lines().find_map(|line| line.strip_prefix("x-baton-iteration:"));
    let iteration = Iteration(iteration.unwrap().trim().parse().unwrap());
    let results = body["messages"].as_array().unwrap().iter();
    let results = results.filter(|message| message["role"] == "tool");
    // What is unknown is done again; every step here can be.
    let done = results.filter(|result| !result["content"].to_string().contains("UNKNOWN")).count();
    let number = body["messages"].as_array().unwrap().len();
    let delta = match steps(iteration).get(done) {
        Some((tool, arguments)) => {
            let function = json!({ "name": tool, "arguments": arguments.to_string() });
            json!({ "role": "assistant", "tool_calls": [{ "index": 0, "id": format!("c{number}"), "type": "function", "function": function }] })
        }
        None => {
            let report =
                format!("iteration: {iteration}\nverdict: PASS\nblockers: none\n\nM1-T1\n");
            json!({ "role": "assistant", "content": report })
        }
    };
    let finish = if delta["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    let chunk = |delta: &Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        json!({ "id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice] })
    };
    let (first, last) = (chunk(&delta, Value::Null), chunk(&json!({}), json!(finish)));
    let body = format!("data: {first}\n\ndata: {last}\n\ndata: [DONE]\n\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ";
    stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).ok()
}

fn request(mut stream: &TcpStream) -> Option<(String, Value)> {
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
            return Some((head, serde_json::from_slice(&bytes[end + 4..]).unwrap()));
        }
    }
}

/// Points from the first step of an agent to the end of its stage, in the undisturbed run.
fn undisturbed() -> (BTreeMap<PathBuf, String>, u64) {
    let folder = folder();
    make(folder.path());
    let output = child(folder.path(), "agent-count", 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(FINISHED), "{said}");
    let points = said.lines().last().unwrap().trim().parse().unwrap();
    let transcripts = folder.path().join("project/.baton/transcripts/run-0001");
    assert_eq!(fs::read_dir(transcripts).unwrap().count(), 3, "three stages by the agent");
    let mut found = files(folder.path());
    found.retain(|path, _| !path.starts_with(".baton/transcripts"));
    assert!(found[Path::new("agent-1.rs")].contains("careful agent\n// mended\n"));
    assert!(found[Path::new("agent-3.rs")].contains("careful agent\n// mended\n"));
    (found, points)
}

pub(crate) fn killed_at_every_point_with_an_agent() {
    let (expected, points) = undisturbed();
    let (mut killed, mut unknown, mut went_on) = (0, 0, 0);
    for point in chosen(points, 23) {
        let folder = folder();
        make(folder.path());
        let output = child(folder.path(), "agent-kill", point);
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(9), "not killed at {point}: {output:?}");
        killed += 1;
        let output = child(folder.path(), "agent-none", 0);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(FINISHED), "after {point}: {said}");
        let mut found = files(folder.path());
        found.retain(|path, _| !path.starts_with(".baton/transcripts"));
        for (path, text) in &expected {
            assert_eq!(found.get(path), Some(text), "killed at {point} of {points}: {path:?}");
        }
        assert_eq!(found.len(), expected.len(), "killed at {point} of {points}");
        let (acts, unknowns) = acts(folder.path());
        assert_eq!(acts, 12 + unknowns, "killed at {point}: a step that was known ran again");
        unknown += unknowns;
        went_on += usize::from(!said.contains("StageLost"));
    }
    assert!(unknown > 0, "no kill fell between an act and its record");
    println!(
        "killed at {killed} of {points} points with an agent: the same board; {unknown} acts were unknown, {went_on} went on"
    );
}

/// Acts that were begun, and those whose result nobody knew, in all transcripts.
fn acts(folder: &Path) -> (usize, usize) {
    let transcripts = folder.join("project/.baton/transcripts");
    let mut sums = (0, 0);
    for run in fs::read_dir(transcripts).unwrap().flatten() {
        for stage in fs::read_dir(run.path()).unwrap().flatten() {
            // Killed before its first line was there.
            let steps = fs::read_to_string(stage.path().join("steps.log")).unwrap_or_default();
            sums.0 += steps.matches("\"step\":\"started\"").count();
            sums.1 += steps.matches("\"code\":\"UNKNOWN\"").count();
        }
    }
    sums
}
