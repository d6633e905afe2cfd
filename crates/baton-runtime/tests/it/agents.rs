//! The real agent programs, against a scripted model on loopback: prompt in, last message out, usage
//! read, nothing left behind. A program that is not installed is said and not looked at;
//! `BATON_TEST_AGENTS` names a folder with them (the CI installs them from the npm registry).

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton_core::event::{StageId, StageResult};
use baton_core::id::{AgentName, Attempt, Iteration};
use baton_runtime::executor::{Agent, Call, Executor, Outcome, Preset};
use baton_runtime::load::Environment;
use baton_runtime::sandbox::Interrupt;
use baton_testkit::{Asked, Server, Step, send};
use serde_json::{Value, json};
use tempfile::TempDir;

const REPORT: &str = "iteration: 7\nverdict: PASS\nblockers: none\n\n第 7 轮通过";
const PROMPT: &str = "Check `add()` and answer with your report. 检查。";

/// A model that says the same to everybody, or nothing at all.
fn serve(is_silent: bool) -> Server {
    Server::answering(move |_, asked| {
        let path = path(asked);
        let (kind, text) = reply(path, &asked.body);
        // Of a page that is only looked for there is no text.
        let text = if asked.head.starts_with("HEAD") { String::new() } else { text };
        let answer = vec![send(200, kind, &text), Step::Stay];
        match is_silent && is_call(path) {
            true => [vec![Step::Wait(Duration::from_secs(60))], answer].concat(),
            false => answer,
        }
    })
}

fn path(asked: &Asked) -> &str {
    asked.path.split('?').next().unwrap_or_default()
}

fn is_call(path: &str) -> bool {
    path.ends_with("/messages") || path.ends_with("/responses")
}

fn reply(path: &str, asked: &Value) -> (&'static str, String) {
    let events = |events: &[Value]| -> String {
        events
            .iter()
            .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
            .collect()
    };
    let is_stream = asked["stream"] == true;
    if path.ends_with("/responses") {
        let item = json!({ "type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": [{ "type": "output_text", "text": REPORT, "annotations": [] }] });
        let usage = json!({ "input_tokens": 1200, "input_tokens_details": { "cached_tokens": 1000 }, "output_tokens": 34, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 1234 });
        let whole = json!({ "id": "resp_1", "object": "response", "status": "completed", "model": asked["model"], "output": [item], "usage": usage });
        return match is_stream {
            true => (
                "text/event-stream",
                events(&[
                    json!({ "type": "response.created", "response": { "id": "resp_1", "status": "in_progress" } }),
                    json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
                    json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
                    json!({ "type": "response.completed", "response": whole }),
                ]),
            ),
            false => ("application/json", whole.to_string()),
        };
    }
    if path.ends_with("/messages") {
        let usage = json!({ "input_tokens": 200, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 1000, "output_tokens": 34 });
        let whole = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "content": [{ "type": "text", "text": REPORT }], "stop_reason": "end_turn", "stop_sequence": null, "usage": usage });
        let mut start = whole.clone();
        start["content"] = json!([]);
        start["stop_reason"] = Value::Null;
        return match is_stream {
            true => (
                "text/event-stream",
                events(&[
                    json!({ "type": "message_start", "message": start }),
                    json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
                    json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": REPORT } }),
                    json!({ "type": "content_block_stop", "index": 0 }),
                    json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn", "stop_sequence": null }, "usage": { "output_tokens": 34 } }),
                    json!({ "type": "message_stop" }),
                ]),
            ),
            false => ("application/json", whole.to_string()),
        };
    }
    if path.ends_with("/count_tokens") {
        return ("application/json", json!({ "input_tokens": 1200 }).to_string());
    }
    ("application/json", json!({ "object": "list", "data": [], "models": [] }).to_string())
}

/// The folder that has this program.
fn folder_of(program: &str) -> Option<PathBuf> {
    let own = std::env::var_os("BATON_TEST_AGENTS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = own
        .into_iter()
        .chain(std::env::split_paths(&path))
        .find(|folder| folder.join(program).exists());
    if found.is_none() {
        println!("{program} is not installed: not looked at");
    }
    found
}

/// Calls a program of this name against the server, with this much time.
fn call(program: &str, server: &Server, limit: Duration) -> Option<(Outcome, TempDir)> {
    let folder = folder_of(program)?;
    let home = TempDir::new().unwrap();
    let project = home.path().join("project");
    fs::create_dir_all(home.path().join(".codex")).unwrap();
    fs::create_dir_all(&project).unwrap();
    let codex = format!(
        "model = \"gpt-5\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
        server.url
    );
    fs::write(home.path().join(".codex/config.toml"), codex).unwrap();
    let path = std::env::join_paths(
        [folder].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    let home_text = home.path().to_str().unwrap();
    let environment = Environment::of(&[
        ("PATH", path.to_str().unwrap()),
        ("HOME", home_text),
        ("CODEX_HOME", &format!("{home_text}/.codex")),
        ("OPENAI_API_KEY", "x"),
        ("ANTHROPIC_BASE_URL", &server.url),
        ("ANTHROPIC_API_KEY", "x"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("ANTHROPIC_MODEL", "claude-sonnet-4-5"),
    ]);
    let mut agent = Agent::new(Preset::built_in(program).unwrap(), &environment);
    let stage =
        StageId { iteration: Iteration(7), name: AgentName::new("TEST").unwrap(), subloop: None };
    let call = Call {
        run: "run-0001",
        stage: &stage,
        attempt: Attempt(1),
        prompt: PROMPT,
        corrections: &[],
        words: baton_core::messages::Language::English,
        limit,
        project: &project,
        board: &project.join(".baton"),
        confined: false,
        writes: true,
        language: Default::default(),
        conduct: "",
        agents: &[],
        mark: "test",
        tokens: None,
        cost: None,
        disk: &Default::default(),
        view: None,
    };
    let outcome = agent.call(&call, &Interrupt::default(), &mut |_| {}).unwrap();
    Some((outcome, home))
}

#[test]
fn the_real_programs_take_a_prompt_and_leave_their_last_message() {
    for program in ["codex", "claude"] {
        let server = serve(false);
        let Some((outcome, _home)) = call(program, &server, Duration::from_secs(90)) else {
            continue;
        };
        assert_eq!(
            outcome.result,
            StageResult::Answer(REPORT.to_owned()),
            "{program}: {outcome:?}"
        );
        let calls = server.asked().into_iter().filter(|asked| is_call(path(asked)));
        let bodies: String = calls.map(|own| String::from_utf8(own.bytes).unwrap()).collect();
        assert!(
            bodies.contains("Check `add()` and answer with your report. 检查。"),
            "{program} did not get the prompt"
        );
        assert!(
            outcome.spent.tokens.is_some_and(|tokens| tokens.0 >= 1_234),
            "{program}: {:?}",
            outcome.spent
        );
        println!("{program}: {:?}", outcome.spent);
    }
}

#[test]
fn a_program_that_hangs_is_ended_with_all_it_started() {
    for program in ["codex", "claude"] {
        let server = serve(true);
        let start = Instant::now();
        let Some((outcome, home)) = call(program, &server, Duration::from_secs(6)) else {
            continue;
        };
        assert!(matches!(outcome.result, StageResult::TimedOut(_)), "{program}: {outcome:?}");
        assert!(start.elapsed() < Duration::from_secs(90), "{program}: {:?}", start.elapsed());
        // Whatever it started had our folder for its home.
        let home = home.path().to_str().unwrap().to_owned();
        let left = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&format!("HOME={home}\0"))
        });
        assert_eq!(left.count(), 0, "{program} left processes behind");
    }
}
