//! `baton run --record` and `--replay`: a whole run again, in a fresh copy of the project, without a
//! model; and what is shown when it is not the same run.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use baton_testkit::{Asked, Model, Place, answer, call, text};
use serde_json::{Value, json};

const PLAN: &str = "## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n";
/// Prints something else in every run.
const VOLATILE: &str = "pwd; mktemp -u; date +%s%N; echo $$ $RANDOM; echo ok";

fn decision(next: &str, plan: &Value) -> Value {
    let decision = json!({ "next_agent": next, "reason": "M1-T1 is next", "dev_plan": plan, "finish_review_override": null, "task": "M1-T1" });
    text(&decision.to_string())
}

/// DEV runs commands and edits a file, REVIEW reads it.
fn team(asked: &Asked) -> Value {
    let iteration = asked.header("x-baton-iteration").unwrap();
    let messages = asked.body["messages"].as_array().unwrap();
    let step = messages.iter().filter(|own| own["role"] == "assistant").count();
    let report =
        || text(&format!("iteration: {iteration}\nverdict: PASS\nblockers: none\n\nM1-T1\n"));
    match (asked.header("x-baton-stage").unwrap(), iteration, step) {
        ("MAIN", "1", _) => decision("DEV", &json!({ "replace": PLAN })),
        ("MAIN", "2", _) => decision("REVIEW", &Value::Null),
        ("MAIN", _, _) => decision("FINISH", &json!("update M1-T1 status to VERIFIED")),
        ("FINISH_CHECK", _, _) => decision("FINISH", &Value::Null),
        ("DEV", _, 0) => call("Bash", json!({ "command": VOLATILE })),
        ("DEV", _, 1) => call("Read", json!({ "path": "src/lib.rs" })),
        ("DEV", _, 2) => {
            call("Edit", json!({ "path": "src/lib.rs", "old": "{}", "new": "{ /* safe */ }" }))
        }
        ("DEV", _, 3) => call("Bash", json!({ "command": "date +%N > stamp; ls" })),
        ("REVIEW", _, 0) => call("Read", json!({ "path": "src/lib.rs" })),
        _ => report(),
    }
}

/// Three copies of a project, in which commands run by the name of the copy.
fn copies() -> Place {
    let place = Place::new(crate::BATON);
    place.write("first/src/lib.rs", "fn add() {}\n");
    expect(&place, "first", &["init"], 0);
    let policy = "first/.baton/memory/verification_policy.json";
    let mut rules: Value = serde_json::from_str(&place.read(policy)).unwrap();
    rules["tdd_rules"]["min_coverage"] = 0.into();
    rules["finish_rules"]["passes"] = json!(["REVIEW"]);
    rules["gates"] = json!([{ "on": "FINISH", "run": VOLATILE }]);
    place.write(policy, format!("{rules:#}\n"));
    for project in ["second", "third"] {
        copy(&place.path("first"), &place.path(project));
    }
    for project in ["first", "second", "third"] {
        expect(&place, project, &["trust"], 0);
    }
    place
}

fn expect(place: &Place, project: &str, args: &[&str], code: i32) -> String {
    answer(place.plain(args).current_dir(place.path(project))).expect(args, code)
}

/// Records a run in the first project; its cassette.
fn record(place: &Place, more: &[&str]) -> String {
    let model = Model::answering(|_, asked| team(asked));
    let cassette = place.path("calls.jsonl").to_str().unwrap().to_owned();
    let flags = ["--provider", "openai-chat", "--base-url", &model.url, "--model", "scripted"];
    let args = [&["run", "Make it safe", "--record", &cassette][..], &flags, more].concat();
    let said = expect(place, "first", &args, 0);
    assert!(said.contains("finished"), "{said}");
    cassette
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Until the clock shows another second: times in prompts are different ones.
fn another_second() {
    let second = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let start = second();
    while second() == start {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_recorded_run_replays_in_a_copy_of_the_project_without_model_or_flags() {
    let place = copies();
    let settings = place.path("home/.config/baton/baton.toml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    // Two models, one recording.
    fs::write(&settings, "[agents.REVIEW]\nmodel = \"reviewer\"\n").unwrap();
    let cassette = record(&place, &[]);
    fs::write(&settings, "").unwrap();
    another_second();
    let said = expect(&place, "second", &["run", "Make it safe", "--replay", &cassette], 0);
    assert!(said.contains("finished\nfiles changed: src/lib.rs, stamp\n"), "{said}");
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    assert_eq!(read("second/src/lib.rs"), "fn add() { /* safe */ }\n");
    let history = |project: &str| {
        let text = read(&format!("{project}/.baton/memory/project_history.md"));
        text.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(history("first"), history("second"));
    // What a command printed is what it printed then.
    let transcript =
        |project: &str| read(&format!("{project}/.baton/transcripts/run-0001/1-DEV-a1/steps.log"));
    let printed = |project: &str| {
        let steps = transcript(project);
        let line = steps.lines().find(|line| line.contains("\"stdout\"")).unwrap();
        line.split("\"stdout\":").nth(1).unwrap().split("\\nok").next().unwrap().to_owned()
    };
    assert_eq!(printed("first"), printed("second"));
    // A second replay finds the same calls again, a run that replays does not call a model later.
    assert!(expect(&place, "second", &["resume"], 2).contains("is finished"));
}

#[test]
fn a_replay_that_differs_shows_the_message_and_the_line() {
    let place = copies();
    let cassette = record(&place, &[]);
    let said = expect(&place, "second", &["run", "Make it fast", "--replay", &cassette], 1);
    let expected = "(-, call 1 of 12) differs in message 1 (user), content, line ";
    assert!(said.contains(expected), "{said}");
    let lines = |mark: &str| -> Vec<String> {
        let own = said.lines().filter(|line| line.starts_with(mark) && line.contains(" | "));
        own.map(|line| line.split(" | ").nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(
        (lines("- "), lines("+ ")),
        (vec!["Make it safe".to_owned()], vec!["Make it fast".to_owned()])
    );
    assert!(said.contains("| # The task, the user's order\n"), "context: {said}");
    // A run that replays a cassette does not continue with a model that happens to be there.
    let said = expect(&place, "second", &["resume"], 2);
    assert!(said.contains("this run replays a cassette"), "{said}");
    // A file that is not as it was: the result of the tool that read it.
    fs::write(place.path("third/src/lib.rs"), "// new\nfn add() {}\n").unwrap();
    let said = expect(&place, "third", &["run", "Make it safe", "--replay", &cassette], 1);
    assert!(said.contains("(tool), content, line 1:"), "{said}");
    assert!(said.contains("// new"), "{said}");
}

#[test]
fn a_recorded_task_of_the_agent_replays_without_model_or_flags() {
    let place = copies();
    let model = Model::answering(|number, _| match number {
        0 => call("Bash", json!({ "command": VOLATILE })),
        _ => text("done"),
    });
    let cassette = place.path("exec.jsonl").to_str().unwrap().to_owned();
    let flags = ["--provider", "openai-chat", "--base-url", &model.url, "--model", "scripted"];
    let task = ["exec", "-p", "Look."];
    expect(&place, "first", &[&task[..], &flags, &["--record", &cassette]].concat(), 0);
    let said = expect(&place, "second", &[&task[..], &["--replay", &cassette]].concat(), 0);
    assert!(said.contains("done\n"), "{said}");
    assert_eq!(model.requests().len(), 2, "a replay calls no model");
}
