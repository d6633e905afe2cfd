//! How many samples a second, and how much memory at which number of them: an instant scripted target
//! over loopback HTTP in a process of its own, two tool calls a sample, one declarative checker, real
//! files. Prints, asserts nothing.
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::disallowed_methods, reason = "it writes files and starts processes")]
#![expect(clippy::print_stdout, reason = "what was measured")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use baton_core::id::{Timestamp, Tokens};
use baton_core::message::Wire;
use baton_core::turn::Protocol;
use baton_runtime::evaluate::{Ask, Target, evaluate};
use baton_runtime::load::Environment;
use baton_runtime::model::{Client, Endpoint, Limits};
use baton_runtime::sandbox::{self, Interrupt};
use baton_runtime::store::{Disk, Fault};
use serde_json::json;

const TOOL: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    state = asked["state"]
    if asked["tool"] == "create":
        state["applications"].append(asked["arguments"])
        out = {"result": {"id": "A1"}, "state": state}
    else:
        state["balance"] -= asked["arguments"]["days"]
        out = {"result": {"balance": state["balance"]}, "state": state}
    sys.stdout.write(json.dumps(out) + "\n")
    sys.stdout.flush()
"#;

fn scenario(root: &Path, samples: usize, stays: bool) {
    let folder = root.join("scenarios/bench");
    fs::create_dir_all(folder.join("samples")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("unified_scenario_design.yaml", "name: bench\n");
    write("BusinessRules.md", "# Rules\nCreate the application, then deduct the balance.\n");
    write("format_specifications.json", "{}\n");
    write("tool.py", TOOL);
    let tool = |name: &str| {
        json!({
            "name": name, "description": name, "command": ["python3", "tool.py"], "stays": stays,
            "parameters": {"type": "object", "properties": {"days": {"type": "number"}}, "required": ["days"]},
        })
    };
    write("tools.json", &json!({ "tools": [tool("create"), tool("deduct")] }).to_string());
    let checkers = json!({"checkers": [{"name": "deducted", "assert": [
        {"equals": {"path": "/balance", "value": "{after}", "tolerance": 0.01}},
        {"count": {"path": "/applications", "is": 1}},
        {"called_before": {"first": "create", "then": "deduct"}}]}]});
    write("checkers.json", &checkers.to_string());
    for number in 0..samples {
        let sample = json!({
            "sample_id": format!("S_{number:06}"), "title": "three days",
            "user": {"turns": ["I want three days off."]},
            "initial_state": {"balance": 10.0, "applications": []},
            "values": {"after": 7.0}, "checkers": ["deducted"],
        });
        write(&format!("samples/S_{number:06}.json"), &sample.to_string());
    }
}

/// Answers at once: two calls first, then a word.
fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("http://{}/v1", listener.local_addr().unwrap());
    std::io::stdout().flush().unwrap();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let listener = listener.try_clone().unwrap();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let _ = stream.set_nodelay(true);
                    while answer(&stream).is_some() {}
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|own| own.join().unwrap());
}

fn answer(mut stream: &TcpStream) -> Option<()> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    let body = loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|own| own == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
        if bytes.len() >= end + 4 + length.trim().parse::<usize>().ok()? {
            break String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
        }
    };
    let (delta, finish) = if body.contains("\"role\":\"tool\"") {
        ("{\"role\":\"assistant\",\"content\":\"Done.\"}".to_owned(), "stop")
    } else {
        let call = |at: usize, name: &str| {
            json!({"index": at, "id": format!("c{at}"), "type": "function",
                "function": {"name": name, "arguments": "{\"days\":3}"}})
        };
        let calls = json!([call(0, "create"), call(1, "deduct")]);
        (
            json!({"role": "assistant", "content": null, "tool_calls": calls}).to_string(),
            "tool_calls",
        )
    };
    let body = format!(
        "data: {{\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\ndata: {{\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{finish}\"}}],\"usage\":{{\"prompt_tokens\":100,\"completion_tokens\":10,\"total_tokens\":110}}}}\n\ndata: [DONE]\n\n"
    );
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(reply.as_bytes()).ok()
}

fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.trim_start_matches("VmHWM:").trim().to_owned()
}

/// One evaluation, in a process of its own, so that its memory is its own.
fn evaluation(root: &Path, url: &str, jobs: usize) {
    let limits = Limits { concurrent: 256, ..Limits::default() };
    let endpoint = Endpoint::new(Wire::Chat, Some(url.parse().expect("an address")), None);
    let target = Target {
        client: Client::new(endpoint, limits).unwrap(),
        model: "m".to_owned(),
        max_output: Tokens(1_000),
        protocol: Protocol::Native,
        temperature: None,
        price: None,
    };
    let disk = Disk::with_fault(Fault::None);
    let start = Instant::now();
    let done = evaluate(&Ask {
        root,
        scenario: "scenarios/bench",
        number: None,
        target: &target,
        judge: &target,
        jobs,
        only: &[],
        new: false,
        retry_errors: false,
        attribution: false,
        confined: true,
        environment: &Environment::of_this_process(),
        now: Timestamp(0),
        deadline: None,
        tokens: None,
        cost: None,
        counted: (0, 0),
        interrupt: &Interrupt::default(),
        disk: &disk,
        progress: &|_| {},
    })
    .unwrap();
    let time = start.elapsed().as_secs_f64();
    assert_eq!((done.passed, done.errors), (done.total, 0), "{done:?}");
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = done.total as f64 / time;
    println!(
        "{:>6} samples  {rate:>7.0} a second  {time:>6.2} s  peak {}  (sync {:.2} s, other changes of the disk {:.2} s)",
        done.total,
        peak(),
        disk.sync_time().as_secs_f64(),
        disk.change_time().as_secs_f64(),
    );
}

fn main() {
    sandbox::launch_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("serve") => return serve(),
        Some("evaluate") => {
            return evaluation(Path::new(&args[1]), &args[2], args[3].parse().unwrap());
        }
        _ => {}
    }
    let own = std::env::current_exe().unwrap();
    let mut server = Command::new(&own).arg("serve").stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let jobs = std::env::var("BATON_BENCH_JOBS").unwrap_or_else(|_| "4".to_owned());
    let most: usize = std::env::var("BATON_BENCH_SAMPLES")
        .ok()
        .and_then(|own| own.parse().ok())
        .unwrap_or(10_000);
    for (what, stays, sizes) in [
        ("tools that stay alive", true, vec![10, 1_000, 10_000]),
        ("a process a call", false, vec![10, 200]),
    ] {
        println!("{what}, {jobs} at once");
        for size in sizes.into_iter().filter(|own| *own <= most) {
            let folder = tempfile::tempdir().unwrap();
            scenario(folder.path(), size, stays);
            let status = Command::new(&own)
                .args(["evaluate", folder.path().to_str().unwrap(), url.trim(), &jobs])
                .status()
                .unwrap();
            assert!(status.success());
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
