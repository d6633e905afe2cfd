//! Secrets: in the environment, in files of the user, in what a provider says. None of them reaches a
//! command, a transcript, a journal, a cassette, an output file, the blackboard or the screen.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use baton_testkit::{KEY, Place, Script, Server, Step, call, text};
use serde_json::json;

use super::{answering, at_once, said};

const VARIABLES: [&str; 16] = [
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "NPM_TOKEN",
    "CARGO_REGISTRY_TOKEN",
    "DATABASE_URL",
    "PGPASSWORD",
    "SSH_AUTH_SOCK",
    "KUBECONFIG",
    "HTTP_PROXY_AUTH",
    "VAULT_ADDR",
    "SLACK_WEBHOOK",
    "MY_PASSWORD",
];

const FILES: [&str; 16] = [
    ".ssh/id_rsa",
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".azure/token",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".kube/config",
    ".gnupg/private",
    ".docker/config.json",
    ".config/gh/hosts.yml",
    ".config/gcloud/key.json",
    ".config/baton/notes",
    ".git-credentials",
    ".bash_history",
    ".codex/auth.json",
];

fn in_variable(name: &str) -> String {
    format!("CANARY-SECRET-{}-0123456789", name.to_lowercase().replace('_', "-"))
}

fn in_file(name: &str) -> String {
    format!("CANARY-SECRET-file-{}-0123456789", name.replace(['/', '.'], "-"))
}

fn with_secrets(command: &mut Command) -> &mut Command {
    command.envs(VARIABLES.map(|name| (name, in_variable(name))))
}

/// All that a command could do to find one, and enough of it that the output gets a file of its own.
const SEARCH: &str = "env; set; cat /proc/*/environ /proc/*/cmdline; cat ~/.ssh/* ~/.aws/* ~/.azure/* ~/.netrc ~/.npmrc ~/.pypirc ~/.kube/* ~/.gnupg/* ~/.docker/* ~/.config/*/* ~/.git-credentials ~/.bash_history ~/.codex/*; grep -rs CANARY ~ ..; seq 1 20000; true";

/// Every file that holds a secret, but for those where it is at home.
fn leaks(place: &Place) -> Vec<PathBuf> {
    let own: Vec<PathBuf> = FILES.iter().map(|name| place.path("home").join(name)).collect();
    let all = super::tree(&place.path(""), &own);
    let holds = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.contains("CANARY-SECRET") || text.contains(KEY)
    };
    all.into_iter().filter(|(_, (_, bytes))| holds(bytes)).map(|(path, _)| path).collect()
}

fn prepared(place: &Place) {
    for name in FILES {
        place.write(&format!("home/{name}"), in_file(name));
    }
}

fn assert_silent(place: &Place, name: &str, told: &str) {
    assert!(!told.contains("CANARY-SECRET") && !told.contains(KEY), "{name}: {told}");
    assert_eq!(leaks(place), Vec::<PathBuf>::new(), "{name}");
    for request in place.model().requests() {
        let sent = request.to_string();
        assert!(!sent.contains("CANARY-SECRET") && !sent.contains(KEY), "{name}: {sent}");
    }
}

/// Those of Baton's files that anybody but their owner could read.
fn readable(place: &Place, folders: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for folder in folders {
        let root = place.path(folder);
        assert!(root.exists(), "{folder}");
        for (path, (mode, _)) in super::tree(&root, &[]) {
            if mode & 0o077 != 0 {
                found.push(format!("{:o} {}", mode & 0o7777, path.display()));
            }
        }
    }
    found
}

#[test]
fn a_conversation_keeps_no_secret() {
    let place = answering(vec![
        call("Bash", json!({ "command": SEARCH })),
        call("Recall", json!({ "id": "o1" })),
        call("Read", json!({ "path": "/proc/self/environ" })),
        text("Done."),
    ]);
    prepared(&place);
    let tape = place.path("tape");
    let mut command = place.command(&["exec", "-p", "Go.", "--record", tape.to_str().unwrap()]);
    let output = with_secrets(&mut command).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_silent(&place, "exec", &said(&output));
    let bash = &place.envelopes()[0];
    assert_eq!(bash["data"]["truncated"], true, "there is an output file: {bash}");
    assert!(bash["data"]["stdout"].as_str().unwrap().contains("PATH="), "{bash}");
    assert_eq!(readable(&place, &["home/.local/state/baton", "tape"]), Vec::<String>::new());
}

#[test]
fn a_run_keeps_no_secret() {
    let plan = "## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n";
    let decision = json!({ "next_agent": "DEV", "reason": "M1-T1 is next", "dev_plan": { "replace": plan }, "finish_review_override": null, "task": "M1-T1" });
    let report = "iteration: 1\nverdict: PASS\nblockers: none\n\nM1-T1\n";
    let place = answering(vec![
        text(&decision.to_string()),
        call("Bash", json!({ "command": SEARCH })),
        text(report),
        text("nonsense"),
    ]);
    prepared(&place);
    let tape = place.path("tape");
    let mut command = place.command(&["run", "Go.", "--record", tape.to_str().unwrap()]);
    let output = with_secrets(&mut command).output().unwrap();
    assert!(said(&output).contains("DEV"), "{}", said(&output));
    assert!(place.model().requests().len() >= 4, "{}", said(&output));
    assert_silent(&place, "run", &said(&output));
    let found = super::tree(&place.path("project/.baton"), &[]);
    let kept = |part: &str| found.keys().any(|path| path.to_string_lossy().contains(part));
    assert!(kept("steps.log") && kept("000001.log") && kept("snapshots"), "{:?}", found.keys());
    let board = place.path("project/.baton");
    let all: Vec<String> = fs::read_dir(&board)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| ["runs", "journal", "transcripts", "snapshots"].contains(&name.as_str()))
        .map(|name| format!("project/.baton/{name}"))
        .chain(["tape".to_owned()])
        .collect();
    assert!(all.len() >= 4, "{all:?}");
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(readable(&place, &all), Vec::<String>::new());
}

/// A provider that says the key back to whoever gave it.
fn repeating(status: &'static str, as_stream: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = vec![0; 64 << 10];
            let count = stream.read(&mut bytes).unwrap_or(0);
            let head = String::from_utf8_lossy(&bytes[..count]).into_owned();
            let all = format!(
                "{} {}",
                head.replace(['\r', '\n', '"', '\\'], " "),
                in_variable("GITHUB_TOKEN")
            );
            let all: String = all.chars().take(1_500).collect();
            let body = match as_stream {
                true => format!("data: {{\"error\": {{\"message\": \"bad key: {all}\"}}}}\n\n"),
                false => format!("{{\"error\": {{\"message\": \"bad key: {all}\"}}}}"),
            };
            let kind = if as_stream { "text/event-stream" } else { "application/json" };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}

#[test]
fn what_a_provider_says_of_a_key_is_not_repeated() {
    let replies = [
        ("400 Bad Request", false),
        ("401 Unauthorized", false),
        ("403 Forbidden", false),
        ("200 OK", true),
        ("200 OK", false),
    ];
    let tasks: [&[&str]; 2] = [&["exec", "-p", "Go."], &["run", "Go."]];
    let cases: Vec<_> = replies.iter().flat_map(|reply| tasks.map(|task| (*reply, task))).collect();
    at_once(&cases, |((status, as_stream), task)| {
        let place = answering(vec![text("never")]);
        prepared(&place);
        let (url, tape) = (repeating(status, *as_stream), place.path("tape"));
        let mut command = place.plain(task);
        command.args(["--provider", "openai-chat", "--model", "scripted", "--base-url", &url]);
        command.args(["--record", tape.to_str().unwrap()]);
        let output = with_secrets(&mut command).output().unwrap();
        assert_ne!(output.status.code(), Some(0));
        assert_silent(&place, &format!("{task:?} {status}"), &said(&output));
    });
}

/// Names of headers in which a gateway may send the key back.
const HEADERS: [&str; 8] = [
    "x-forwarded-authorization",
    "authorization",
    "x-api-key",
    "www-authenticate",
    "set-cookie",
    "location",
    "retry-after",
    "server",
];

/// Says the key in every header, also in the one that names the request, and in the body.
fn in_headers(status: u16, name: &str, body: &str) -> Script {
    let names = HEADERS.iter().chain([&name]);
    let lines: String = names.map(|name| format!("{name}: Bearer {KEY}\r\n")).collect();
    let head =
        format!("HTTP/1.1 {status} Status\r\nretry-after-ms: 1\r\nconnection: close\r\n{lines}");
    vec![Step::Send(format!("{head}\r\n{body}").into())]
}

#[test]
fn what_the_headers_of_a_reply_say_of_a_key_is_not_repeated() {
    let refused = format!("{{\"error\": {{\"message\": \"Bearer {KEY} is not known\"}}}}");
    let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [{ "index": 0, "delta": { "content": "Hello." }, "finish_reason": "stop" }] });
    let answer = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let replies: Vec<(u16, &str)> = vec![
        (200, &answer),
        (200, "data: {\"error\":\n\n"),
        (302, ""),
        (400, &refused),
        (401, &refused),
        (403, &refused),
        (404, &refused),
        (429, &refused),
        (500, &refused),
        (503, ""),
    ];
    let tasks: [&[&str]; 3] = [&["exec", "-p", "Go."], &["run", "Go."], &["models", "ping"]];
    let cases: Vec<_> = replies.iter().flat_map(|reply| tasks.map(|task| (*reply, task))).collect();
    at_once(&cases, |((status, body), task)| {
        let name = format!("{task:?} {status} {body:?}");
        let place = answering(vec![text("never")]);
        let header = if task[0] == "run" { "request-id" } else { "x-request-id" };
        let server = Server::start(vec![in_headers(*status, header, body)]);
        let tape = place.path("tape");
        let mut command = place.plain(task);
        command.args(["--provider", "openai-chat", "--model", "scripted"]);
        command.args(["--base-url", &server.url, "--record", tape.to_str().unwrap()]);
        let output = command.output().unwrap();
        let told = said(&output);
        // Twice the same: of `run`, an answer that is not a decision.
        let is_answer = *status == 200 && body.contains("Hello");
        assert_eq!(output.status.success(), is_answer && task[0] != "run", "{name}: {told}");
        assert_silent(&place, &name, &told);
        // The control: the header is read, and named without the key, on screen or in the recording.
        let kept = super::tree(&tape, &[]);
        let kept = kept.values().any(|(_, bytes)| contains(bytes, "Bearer [key]"));
        assert!(kept && (is_answer || told.contains("Bearer [key]")), "{name}: {told}");
        for asked in server.asked() {
            assert_eq!(asked.header("authorization"), Some(&*format!("Bearer {KEY}")), "{name}");
        }
    });
}

fn contains(bytes: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(text)
}
