//! A run remembers the provider, the models and the executors that it began with. By the real
//! binary against scripted models over real HTTP.

use std::fs;

use baton_testkit::{Model, Place, answer, text};
use serde_json::{Value, json};

fn question(title: &str) -> Value {
    let option = |id: &str| json!({ "option_id": id, "description": id });
    let question = json!({ "title": title, "text": "A or B", "options": [option("a"), option("b")], "recommended_option_id": "b" });
    let decision = json!({ "next_agent": "USER", "reason": "which?", "dev_plan": null, "finish_review_override": null, "question": question });
    text(&decision.to_string())
}

fn to_dev() -> Value {
    let plan = "## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n";
    let decision = json!({ "next_agent": "DEV", "reason": "M1-T1 is next", "dev_plan": { "replace": plan }, "finish_review_override": null, "task": "M1-T1" });
    text(&decision.to_string())
}

fn models(model: &Model) -> Vec<String> {
    model.requests().iter().map(|own| own["model"].as_str().unwrap().to_owned()).collect()
}

/// The whole journal of the first run.
fn journal(place: &Place) -> String {
    place.read("project/.baton/journal/run-0001/000001.log")
}

#[test]
fn a_run_continues_without_flags_whatever_the_environment_offers_now() {
    let report = "iteration: 2\nverdict: PASS\nblockers: none\n\nM1-T1\n";
    let place = crate::talk(vec![question("One?"), to_dev(), text(report), question("Two?")]);
    let settings = "home/.config/baton/baton.toml";
    place.write(settings, "[agents.DEV]\nmodel = \"worker\"\n");
    place.expect(&["run", "Go."], 10);
    assert!(!journal(&place).contains("canary"), "a key is in the journal");
    // Another provider, another model, another executor: nothing of it was meant for this run.
    let other = Model::start(vec![text("nonsense")]);
    place.write(settings, "[provider]\nmodel = \"another\"\n[agents.MAIN]\nmodel = \"third\"\n");
    let answer = |args: &[&str], code| {
        let mut command = place.plain(args);
        command.env("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef");
        command.env("ANTHROPIC_BASE_URL", &other.url).env("BATON_MODEL", "fourth");
        answer(command).expect(args, code)
    };
    let printed = answer(&["answer", "1"], 10);
    assert!(printed.contains("[2] DEV: PASS") && printed.contains("Two?"), "{printed}");
    assert!(!printed.contains("this run began with"), "{printed}");
    assert_eq!(models(place.model()), ["scripted", "scripted", "worker", "scripted"]);
    answer(&["resume"], 10);
    assert_eq!(other.requests().len(), 0);
}

#[test]
fn flags_at_resume_win_are_reported_and_are_remembered_from_then_on() {
    let place = crate::talk(vec![question("One?"), question("Two?")]);
    place.expect(&["run", "Go."], 10);
    let args = ["answer", "1", "--model", "second"];
    let printed = answer(place.plain(&args)).expect(&args, 10);
    let change = "this run began with model scripted; continuing with model second\n";
    assert_eq!(printed.matches(change).count(), 1, "{printed}");
    let args = ["answer", "1"];
    let printed = answer(place.plain(&args)).expect(&args, 10);
    assert!(!printed.contains("this run began with"), "{printed}");
    assert_eq!(models(place.model()), ["scripted", "second", "second"]);
    // Another provider does not inherit the server and the model of the first.
    let other = Model::start(vec![question("Three?")]);
    let args = ["answer", "1", "--provider", "openai-responses", "--model", "third"];
    let mut command = place.plain(&args);
    let printed = command.args(["--base-url", &other.url]).output().unwrap();
    let printed = String::from_utf8_lossy(&printed.stderr).into_owned();
    let change = "this run began with provider openai-chat, server";
    assert!(printed.contains(change) && printed.contains("model third"), "{printed}");
    assert_eq!(models(place.model()).len(), 3);
    assert!(!other.requests().is_empty());
}

/// Parks before any model is called.
const PARKED: [&str; 4] = ["run", "Go.", "--stage-tokens", "10"];

#[test]
fn a_key_that_the_remembered_provider_needs_is_named_when_it_is_missing() {
    let place = crate::talk(vec![]);
    for (provider, variable) in
        [("anthropic", "ANTHROPIC_API_KEY"), ("openai-responses", "OPENAI_API_KEY")]
    {
        let flags = ["--provider", provider, "--model", "m"];
        let mut command = place.plain(&[&PARKED[..], &flags].concat());
        command.env(variable, "sk-0123456789abcdef");
        answer(command).expect(&flags, 4);
        let mut command = place.plain(&["resume"]);
        let printed = answer(command.env_remove(variable)).expect(&["resume"], 2);
        let expected = format!("this run calls {provider}, and {variable} is not set");
        assert!(printed.contains(&expected), "{printed}");
        answer(place.plain(&["stop", "--abandon"])).expect(&["stop"], 0);
    }
}

#[test]
fn a_server_or_a_missing_sandbox_of_somebody_elses_journal_is_not_taken_over() {
    let place = crate::talk(vec![]);
    let flags =
        ["--provider", "openai-chat", "--base-url", "https://models.invalid/v1", "--model", "m"];
    let args = [&PARKED[..], &flags, &["--no-sandbox"]].concat();
    answer(place.plain(&args)).expect(&args, 4);
    let resume = |args: &[&str], code| answer(place.plain(args)).expect(args, code);
    // One's own is remembered.
    let printed = resume(&["resume"], 4);
    assert!(!printed.contains("this run began with"), "{printed}");
    // A journal that came with a project was not chosen by this user.
    fs::remove_file(place.path("home/.local/share/baton/setups.json")).unwrap();
    let printed = resume(&["resume"], 2);
    assert!(printed.contains("names the server https://models.invalid/v1"), "{printed}");
    let printed = resume(&["resume", "--base-url", "https://models.invalid/v1"], 4);
    let change = "this run began with no sandbox; continuing with the sandbox";
    assert!(printed.contains(change), "{printed}");
    resume(&["resume"], 4);
    answer(place.plain(&["stop", "--abandon"])).expect(&["stop"], 0);
    // A provider's own server needs no word, a sandbox that is off does.
    let args = [&PARKED[..], &["--provider", "openai-responses", "--model", "m", "--no-sandbox"]];
    let args = args.concat();
    answer(place.plain(&args)).expect(&args, 4);
    fs::remove_file(place.path("home/.local/share/baton/setups.json")).unwrap();
    let printed = resume(&["resume"], 4);
    assert!(printed.contains(change), "{printed}");
}

#[test]
fn a_name_that_only_looks_local_is_another_machine() {
    for url in ["https://localhost.models.invalid/v1", "https://127.models.invalid/v1"] {
        let place = crate::talk(vec![]);
        let flags = ["--provider", "openai-chat", "--base-url", url, "--model", "m"];
        let args = [&PARKED[..], &flags].concat();
        answer(place.plain(&args)).expect(&args, 4);
        fs::remove_file(place.path("home/.local/share/baton/setups.json")).unwrap();
        let args = ["resume"];
        let printed = answer(place.plain(&args)).expect(&args, 2);
        assert!(printed.contains(&format!("names the server {url}")), "{printed}");
    }
}
