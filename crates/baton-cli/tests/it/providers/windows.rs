//! The window that a model has, and what happens when a request does not fit into it.

use serde_json::{Value, json};

use super::rules::Provider;
use super::server::{Asked, Said, Server};
use super::{configure, expect, project_with};

const BETA: &str = "context-1m-2025-08-07";

/// Sixteen tokens where others count one, so that a small conversation fills a large window.
fn dense(asked: &Asked) -> usize {
    asked.tokens() * 16
}

fn too_long(tokens: usize, window: usize) -> Said {
    Said::Refused(400, format!("prompt is too long: {tokens} tokens > {window} maximum"))
}

const KEYS: [&str; 5] = [
    "generated_components",
    "evaluation_progress",
    "identified_issues",
    "pending_work",
    "key_paths",
];

fn is_summary(asked: &Asked) -> bool {
    asked.last_words().contains("Your window is nearly full")
}

/// DEV works for this number of steps, each with a result of about 2 KB; then it reports.
fn working(asked: &Asked, steps: usize) -> Said {
    let decision = json!({
        "next_agent": "DEV", "reason": "so", "dev_plan": null,
        "finish_review_override": null, "task": "work", "question": null,
    });
    if asked.stage() == "MAIN" {
        return Said::Text(decision.to_string());
    }
    if is_summary(asked) {
        let keys = KEYS.iter().map(|key| ((*key).to_owned(), json!("SUMMED UP")));
        return Said::Text(Value::Object(keys.collect()).to_string());
    }
    let text = asked.body["messages"].to_string();
    let done = (0..steps).rev().find(|step| text.contains(&format!("step-{step}-")));
    match done.map_or(0, |step| step + 1) {
        step if step < steps => {
            let first = 100_000 + 1_000 * step;
            let command = format!("echo step-{step}-; seq {first} {}", first + 280);
            Said::Call("Bash", json!({ "command": command }))
        }
        _ => Said::Text("iteration: 1\nverdict: PASS\nblockers: none\n".to_owned()),
    }
}

fn run(server: &Server, config: &str) -> String {
    let place = project_with("tdd");
    let config =
        format!("[features]\nfolding = false\n[agents.DEV]\nprofile = \"execute\"\n{config}");
    configure(&place, &config);
    let run = ["run", "work", "--max-iterations", "1", "--no-sandbox"];
    let variables =
        [("ANTHROPIC_API_KEY", "sk-canary-0123456789"), ("ANTHROPIC_BASE_URL", &server.url)];
    expect(&place, &run, &variables, 4)
}

fn dev(server: &Server) -> Vec<Asked> {
    server.asked().into_iter().filter(|own| own.stage() == "DEV").collect()
}

#[test]
fn the_long_window_is_used_with_its_header_where_the_model_has_it() {
    let server = Server::start(Provider::Anthropic, |asked| {
        let window = if asked.header("anthropic-beta") == Some(BETA) { 1_000_000 } else { 200_000 };
        match dense(asked) > window {
            true => too_long(dense(asked), window),
            false => working(asked, 45),
        }
    });
    let said = run(&server, "");
    let dev = dev(&server);
    assert!(dev.iter().all(|own| own.header("anthropic-beta") == Some(BETA) && own.status == 200));
    assert!(dev.iter().any(|own| dense(own) > 250_000), "{said}");
    assert!(!dev.iter().any(is_summary), "nothing had to leave: {said}");
    let main = server.asked().into_iter().find(|own| own.stage() == "MAIN").unwrap();
    assert_eq!(main.header("anthropic-beta"), None, "a window of its own needs no header");
}

#[test]
fn a_model_without_the_long_window_is_compacted_within_its_own() {
    const WINDOW: usize = 20_000;
    let server = Server::start(Provider::Anthropic, |asked| match asked.tokens() > WINDOW {
        true => too_long(asked.tokens(), WINDOW),
        false => working(asked, 45),
    });
    let config = format!(
        "model = \"claude-haiku-4-5\"\n[models.claude-haiku-4-5]\ncontext_window = {WINDOW}\n"
    );
    let said = run(&server, &config);
    let dev = dev(&server);
    assert!(dev.iter().all(|own| own.header("anthropic-beta").is_none() && own.status == 200));
    assert!(dev.iter().any(is_summary), "{said}");
    let largest = dev.iter().filter(|own| !is_summary(own)).map(Asked::tokens).max().unwrap();
    assert!((13_000..15_500).contains(&largest), "compacted at 0.7 of the window: {largest}");
}

#[test]
fn a_header_that_a_host_does_not_know_is_left_out_and_reported() {
    let server = Server::start(Provider::Anthropic, |asked| match asked.header("anthropic-beta") {
        Some(name) => Said::Refused(400, format!("unsupported beta header(s): {name}")),
        None => working(asked, 2),
    });
    let said = run(&server, "");
    assert_eq!(said.matches("does not offer its longer window here").count(), 1, "{said}");
    let statuses: Vec<u16> = dev(&server).iter().map(|own| own.status).collect();
    assert_eq!(statuses, [400, 200, 200, 200]);
}

#[test]
fn a_summary_is_asked_from_a_part_that_fits_when_the_conversation_was_too_long() {
    const WINDOW: usize = 15_000;
    let server = Server::start(Provider::Anthropic, |asked| match asked.tokens() > WINDOW {
        true => too_long(asked.tokens(), WINDOW),
        false => working(asked, 45),
    });
    let said = run(&server, "");
    let dev = dev(&server);
    assert!(dev.iter().any(|own| own.status == 400), "it was too long: {said}");
    let summaries: Vec<&Asked> = dev.iter().filter(|own| is_summary(own)).collect();
    assert!(!summaries.is_empty(), "{said}");
    assert!(summaries.iter().all(|own| own.tokens() <= WINDOW && own.status == 200), "{said}");
    let first = summaries[0].body["messages"].to_string();
    assert!(first.contains("earlier steps are left out here"), "the oldest part is left out");
    assert!(!said.contains("Summary generation"), "{said}");
    let at = dev.iter().position(is_summary).unwrap();
    let next = dev[at + 1].body["messages"].to_string();
    assert!(next.contains("SUMMED UP"), "what was summed up is used: {next}");
    assert!(said.contains("[1] DEV: PASS"), "{said}");
}
