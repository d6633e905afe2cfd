//! A thousand streamed calls at once, against a scripted server in another process: the client's
//! CPU time a call and the growth of its memory. `benches/calls.sh` runs the official Python SDKs
//! on the same calls beside it. Nothing is asserted but that every call completes.
#![expect(clippy::print_stdout, reason = "the figures are the result")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::disallowed_methods, reason = "a benchmark starts its server and reads files")]

#[path = "../tests/it/models/fixtures.rs"]
#[expect(dead_code, reason = "the benchmark needs one case of each wire")]
mod fixtures;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use baton_core::id::Tokens;
use baton_core::message::{Message, Request, Wire};
use baton_runtime::model::{Client, Endpoint, Limits, Mode, Secret, Tags};
use baton_testkit::{Server, Step, reply};

const CALLS: usize = 1_000;

fn request() -> Request {
    Request {
        model: "model-x".to_owned(),
        max_output: Tokens(1_000),
        temperature: None,
        cache_key: "bench".to_owned(),
        tools: Vec::new(),
        no_calls: false,
        system: vec!["You are careful.".to_owned()],
        format: None,
        messages: vec![Message::user("Look at src/lib.rs")],
        cached_messages: 0,
        tail: None,
    }
}

/// User and system time of this process, in milliseconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks * 10.0
}

/// The most memory this process ever held, in megabytes.
fn peak_memory() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

async fn thousand(wire: Wire, url: &str) {
    let limits = Limits { concurrent: CALLS, retries: 2, ..Limits::default() };
    let client = Client::new(
        Endpoint::new(wire, Some(url.parse().unwrap()), Some(Secret::new("sk-bench"))),
        limits,
    )
    .unwrap();
    let (before, memory, start) = (cpu(), peak_memory(), Instant::now());
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let client = client.clone();
        calls.spawn(async move {
            client
                .call(&request(), Mode::Stream, &Tags::default(), &mut |_| {})
                .await
                .map(|answer| answer.text())
        });
    }
    let mut whole = 0;
    while let Some(done) = calls.join_next().await {
        assert_eq!(done.unwrap().unwrap(), "Hello, 世界!");
        whole += 1;
    }
    println!(
        "baton {:<18} {whole} calls {:>8.3} ms CPU a call  {:>6.2} s in all  {:>5.1} MB more memory",
        wire.name(),
        (cpu() - before) / CALLS as f64,
        start.elapsed().as_secs_f64(),
        peak_memory() - memory,
    );
}

/// The server says where it is, one line a wire, and serves until its input closes.
fn serve() {
    let mut servers = Vec::new();
    for wire in Wire::ALL {
        let body = fixtures::stream(wire, fixtures::Case::Text);
        let whole = reply(200, "content-type: text/event-stream\r\n", body.as_bytes());
        let server = Server::start(vec![vec![Step::Send(whole)]]);
        println!("{} {}", wire.name(), server.url);
        servers.push(server);
    }
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if std::env::args().any(|arg| arg == "--serve") {
        return serve();
    }
    let this = std::env::current_exe().unwrap();
    let mut server = Command::new(this)
        .arg("--serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    for wire in Wire::ALL {
        let line = lines.next().unwrap().unwrap();
        runtime.block_on(thousand(wire, line.split_once(' ').unwrap().1));
    }
    drop(server.stdin.take());
    let _ = server.wait();
}
