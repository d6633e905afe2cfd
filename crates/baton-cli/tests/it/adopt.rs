//! Rules that change while a run is away: commands that read work and mention it, `resume` and
//! `answer` name the change, `resume --adopt` continues with it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use baton_testkit::{Place, decision, report};
use serde_json::{Value, json};

const PLAN: &str =
    r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;
const POLICY: &str = "project/.baton/memory/verification_policy.json";
const PROMPT: &str = "project/.baton/memory/prompts/subagent_prompt_dev.md";
const RUN: [&str; 4] = ["run", "Make add() safe", "--executor", "script"];
const RESUME: [&str; 3] = ["resume", "--executor", "script"];
const ADOPT: [&str; 4] = ["resume", "--adopt", "--executor", "script"];

/// A run that tests, reviews and finishes.
fn tdd() -> Place {
    let place = crate::team("tdd");
    let tested = format!("{}coverage: 90%\n", report(1, "PASS", "none"));
    place.play("1-MAIN", &decision("TEST", PLAN));
    place.play("1-TEST", &tested);
    place.play("2-MAIN", &decision("REVIEW", "null"));
    place.play("2-REVIEW", &report(2, "PASS", "none"));
    place.play_finish(3);
    place
}

/// The same, stopped in its second iteration because MAIN's program fails.
fn stopped() -> Place {
    let place = tdd();
    place.write("play/2-MAIN.sh", "exit 1\n");
    place.expect(&RUN, 1);
    place
}

fn works_again(place: &Place) {
    std::fs::remove_file(place.path("play/2-MAIN.sh")).unwrap();
}

fn edit_policy(place: &Place, edit: impl Fn(&mut Value)) {
    let mut policy: Value = serde_json::from_str(&place.read(POLICY)).unwrap();
    edit(&mut policy);
    place.write(POLICY, format!("{policy:#}\n"));
}

fn edit_prompt(place: &Place) {
    place.write(PROMPT, place.read(PROMPT) + "\nBe brief.\n");
}

const CHANGED: [&str; 2] =
    ["memory/verification_policy.json", "memory/prompts/subagent_prompt_dev.md"];

#[test]
fn commands_that_read_work_under_changed_rules_and_mention_the_change() {
    let place = stopped();
    edit_prompt(&place);
    edit_policy(&place, |policy| policy["tdd_rules"]["min_coverage"] = json!(70));
    for args in [
        &["status"][..],
        &["log"],
        &["diff"],
        &["history", "check"],
        &["history", "show"],
        &["history", "window"],
        &["plan", "check"],
        &["prompt", "main"],
        &["report", "check", ".baton/reports/report_test.md", "--agent", "TEST"],
        &["pack", "check"],
        &["doctor"],
    ] {
        let said = place.expect(args, 0);
        let notes: Vec<&str> = said.lines().filter(|line| line.starts_with("note: ")).collect();
        assert!(notes.len() == 1, "{args:?}: {said}");
        assert!(CHANGED.iter().all(|file| notes[0].contains(file)), "{args:?}: {said}");
    }
    let said = place.expect(&["status"], 0);
    assert!(said.contains("iteration") && said.contains("2 (1 of"), "{said}");
    let json = place.run(&["status", "--json"]).json();
    assert_eq!(json["rules_changed"].as_array().unwrap().len(), 2, "{json}");
}

#[test]
fn resume_names_every_change_and_continues_with_adopt_alone() {
    let place = stopped();
    works_again(&place);
    let calls = place.calls();
    edit_prompt(&place);
    edit_policy(&place, |policy| policy["tdd_rules"]["min_coverage"] = json!(70));
    let said = place.expect(&RESUME, 2);
    assert!(CHANGED.iter().all(|file| said.contains(file)), "{said}");
    assert!(said.contains("`baton resume --adopt`"), "{said}");
    assert_eq!(place.calls(), calls, "nothing was run");
    let said = place.expect(&ADOPT, 0);
    assert!(said.contains("continues with changed rules: "), "{said}");
    assert!(place.expect(&["log"], 0).contains("continues with changed rules: "));
    assert!(!place.expect(&["status"], 0).contains("note: "), "a run that is over has no rules");
}

/// A change of the rules, and what names it.
type Change = (&'static str, fn(&Place), &'static [&'static str]);

fn append(place: &Place, file: &str) {
    let file = format!("project/.baton/{file}");
    place.write(&file, place.read(&file) + "\nBe brief.\n");
}

fn replace(place: &Place, file: &str, old: &str, new: &str) {
    let file = format!("project/.baton/{file}");
    let text = place.read(&file);
    assert!(text.contains(old), "{file}: {text}");
    place.write(&file, text.replacen(old, new, 1));
}

fn remove(place: &Place, file: &str) {
    std::fs::remove_file(place.path("project/.baton").join(file)).unwrap();
}

fn switch(place: &Place, line: &str) {
    let file = "project/.baton/baton.toml";
    place.write(file, format!("{}\n{line}\n", place.read(file)));
}

const PACK: &str = "pack/pack.toml";
const AGENTS: &[&str] = &["the agents of the pack, or which of them may write"];
const OWN_POLICY: &[&str] = &["memory/verification_policy.json"];
const SWITCHED: &str = "the configuration (was subloop true milestones true report.retries 1 decision.retries 1, is subloop";

const CHANGES: [Change; 28] = [
    (
        "MAIN's prompt",
        |place| append(place, "memory/prompts/subagent_prompt_main.md"),
        &["memory/prompts/subagent_prompt_main.md"],
    ),
    (
        "TEST's prompt",
        |place| append(place, "memory/prompts/subagent_prompt_test.md"),
        &["memory/prompts/subagent_prompt_test.md"],
    ),
    (
        "DEV's prompt",
        |place| append(place, "memory/prompts/subagent_prompt_dev.md"),
        &["memory/prompts/subagent_prompt_dev.md"],
    ),
    (
        "REVIEW's prompt",
        |place| append(place, "memory/prompts/subagent_prompt_review.md"),
        &["memory/prompts/subagent_prompt_review.md"],
    ),
    (
        "FINISH_REVIEW's prompt",
        |place| append(place, "memory/prompts/subagent_prompt_finish_review.md"),
        &["memory/prompts/subagent_prompt_finish_review.md"],
    ),
    (
        "SUMMARY's prompt",
        |place| append(place, "memory/prompts/subagent_prompt_summary.md"),
        &["memory/prompts/subagent_prompt_summary.md"],
    ),
    (
        "an empty prompt",
        |place| place.write(PROMPT, ""),
        &["memory/prompts/subagent_prompt_dev.md"],
    ),
    (
        "two prompts",
        |place| {
            edit_prompt(place);
            append(place, "memory/prompts/subagent_prompt_test.md");
        },
        &["memory/prompts/subagent_prompt_dev.md", "memory/prompts/subagent_prompt_test.md"],
    ),
    (
        "the pack's prompt",
        |place| {
            remove(place, "memory/prompts/subagent_prompt_dev.md");
            append(place, "pack/en/prompts/subagent_prompt_dev.md");
        },
        &["the pack's prompt of DEV"],
    ),
    (
        "policy: coverage",
        |place| edit_policy(place, |policy| policy["tdd_rules"]["min_coverage"] = json!(70)),
        OWN_POLICY,
    ),
    (
        "policy: finishes",
        |place| {
            edit_policy(place, |policy| policy["finish_rules"]["max_finish_attempts"] = json!(4));
        },
        OWN_POLICY,
    ),
    (
        "policy: passes",
        |place| edit_policy(place, |policy| policy["finish_rules"]["passes"] = json!(["REVIEW"])),
        OWN_POLICY,
    ),
    (
        "policy: gates",
        |place| {
            edit_policy(place, |policy| policy["gates"] = json!([{ "on": "TEST", "run": "true" }]));
        },
        OWN_POLICY,
    ),
    (
        "policy: the sub-loop's maximum",
        |place| edit_policy(place, |policy| policy["subloop"]["max"] = json!(1)),
        OWN_POLICY,
    ),
    (
        "policy: who verifies",
        |place| edit_policy(place, |policy| policy["plan"]["verified_by"] = json!(["REVIEW"])),
        OWN_POLICY,
    ),
    (
        "policy: escalation",
        |place| edit_policy(place, |policy| policy["escalation"]["same_blocker"] = json!(9)),
        OWN_POLICY,
    ),
    (
        "the pack's policy",
        |place| {
            remove(place, "memory/verification_policy.json");
            replace(place, "pack/policy.json", "\"min_coverage\": 80", "\"min_coverage\": 70");
        },
        &["the pack's policy"],
    ),
    (
        "no sub-loop",
        |place| switch(place, "[features]\nsubloop = false"),
        &[SWITCHED, "subloop false milestones true"],
    ),
    (
        "no milestones",
        |place| switch(place, "[features]\nmilestones = false"),
        &[SWITCHED, "is subloop true milestones false"],
    ),
    (
        "retries of reports",
        |place| switch(place, "[report]\nretries = 3"),
        &[SWITCHED, "report.retries 3 decision.retries 1"],
    ),
    (
        "retries of decisions",
        |place| switch(place, "[decision]\nretries = 0"),
        &[SWITCHED, "report.retries 1 decision.retries 0"],
    ),
    (
        "another pack",
        |place| drop(place.expect(&["pack", "use", "novel"], 0)),
        &["the pack (was own (en), is novel (en))"],
    ),
    (
        "another language",
        |place| replace(place, "baton.toml", "lang = \"en\"", "lang = \"zh\""),
        &["the pack (was own (en), is own (zh))"],
    ),
    (
        "the built-in pack",
        |place| replace(place, "baton.toml", "pack = \"own\"", "pack = \"tdd\""),
        &["the pack (was own (en), is tdd (en))"],
    ),
    (
        "another agent",
        |place| {
            switch_pack(
                place,
                "\n[[agents]]\nname = \"EXTRA\"\nrole = \"looks\"\nwrites = false\n",
            );
            place.write(
                "project/.baton/pack/en/prompts/subagent_prompt_extra.md",
                place.read("project/.baton/pack/en/prompts/subagent_prompt_review.md"),
            );
        },
        AGENTS,
    ),
    (
        "an agent that may write no more",
        |place| replace(place, PACK, "writes = true", "writes = false"),
        AGENTS,
    ),
    (
        "an agent that may write now",
        |place| replace(place, PACK, "writes = false", "writes = true"),
        AGENTS,
    ),
    (
        "prompt, policy and switch",
        |place| {
            edit_prompt(place);
            edit_policy(place, |policy| policy["tdd_rules"]["min_coverage"] = json!(70));
            switch(place, "[features]\nsubloop = false");
        },
        &[
            "memory/prompts/subagent_prompt_dev.md",
            "memory/verification_policy.json",
            "is subloop false",
        ],
    ),
];

fn switch_pack(place: &Place, lines: &str) {
    let file = "project/.baton/pack/pack.toml";
    place.write(file, place.read(file) + lines);
}

/// The built-in pack as one of the user's own, which is kept in the blackboard.
fn own_pack(place: &Place) {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packs/tdd");
    let own = place.path("own");
    copied(&built_in, &own);
    let manifest = place.read("own/pack.toml");
    place.write("own/pack.toml", manifest.replace("name = \"tdd\"", "name = \"own\""));
    place.expect(&["init", "--pack", own.to_str().unwrap(), "--no-gates"], 0);
}

fn copied(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let mut command = std::process::Command::new("cp");
    assert!(command.arg("-a").args([from, to]).status().unwrap().success());
}

#[test]
fn each_of_many_changes_is_named_by_resume_and_runs_nothing() {
    let place = Place::of_team(crate::BATON);
    own_pack(&place);
    place.play("1-MAIN", &decision("TEST", PLAN));
    place.play("1-TEST", &format!("{}coverage: 90%\n", report(1, "PASS", "none")));
    place.write("play/2-MAIN.sh", "exit 1\n");
    place.expect(&RUN, 1);
    let calls = place.calls();
    let (board, kept) = (place.path("project/.baton"), place.path("kept"));
    copied(&board, &kept);
    for (name, change, named) in CHANGES {
        change(&place);
        let said = place.expect(&RESUME, 2);
        assert!(said.contains("the rules changed since the run began: "), "{name}: {said}");
        assert!(named.iter().all(|words| said.contains(words)), "{name}: {said}");
        let noted = place.expect(&["status"], 0);
        assert!(named.iter().all(|words| noted.contains(words)), "{name}: {noted}");
        assert_eq!(place.calls(), calls, "{name}: nothing was run");
        copied(&kept, &board);
    }
    // The control: as it was, it continues, and comes to the same error.
    let said = place.expect(&RESUME, 1);
    assert!(place.calls().len() > calls.len(), "{said}");
    println!("{} changes, each named", CHANGES.len());
}

#[test]
fn adopted_rules_are_what_a_later_resume_compares_with() {
    let place = stopped();
    edit_prompt(&place);
    place.expect(&RESUME, 2);
    place.expect(&ADOPT, 1);
    assert!(!place.expect(&["status"], 0).contains("note: "));
    // Changed once more, and back.
    let adopted = place.read(PROMPT);
    edit_prompt(&place);
    place.expect(&RESUME, 2);
    place.write(PROMPT, adopted);
    works_again(&place);
    place.expect(&RESUME, 0);
}

#[test]
fn records_are_folded_by_the_rules_of_their_time() {
    let place = stopped();
    works_again(&place);
    // TEST has passed without this gate; a second change follows after the first was adopted.
    let gate = |command: &str| json!([{ "on": "TEST", "run": command }]);
    edit_policy(&place, |policy| policy["gates"] = gate("false"));
    place.expect(&["trust"], 0);
    place.write("play/2-MAIN.sh", "exit 1\n");
    place.expect(&ADOPT, 1);
    works_again(&place);
    assert!(place.expect(&["status"], 0).contains("2 (1 of"));
    edit_policy(&place, |policy| policy["gates"] = json!([]));
    assert!(place.expect(&["status"], 0).contains("2 (1 of"));
    place.expect(&ADOPT, 0);
}

#[test]
fn a_gate_that_was_removed_while_it_ran_confirms_nothing_any_more() {
    let place = tdd();
    let gate = json!([{ "on": "TEST", "run": "echo begun > ../begun; sleep 60" }]);
    edit_policy(&place, |policy| policy["gates"] = gate.clone());
    place.expect(&["trust"], 0);
    let mut child = place.command(&[&RUN[..], &["--no-sandbox"]].concat());
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !place.path("begun").exists() {
        assert!(start.elapsed() < Duration::from_secs(30), "the gate did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    edit_policy(&place, |policy| policy["gates"] = json!([]));
    place.expect(&["status"], 0);
    place.expect(&ADOPT, 0);
    assert!(!place.history().contains("FAIL"), "{}", place.history());
    assert_eq!(place.calls().iter().filter(|call| call.contains("1-TEST")).count(), 1);
}

#[test]
fn rules_under_which_the_current_step_is_impossible_are_refused_by_name() {
    let place = tdd();
    place.play("1-TEST", "iteration: 1\nverdict: GREAT\nblockers: none\n");
    place.expect(&RUN, 3);
    place.expect(&["pack", "use", "novel"], 0);
    let said = place.expect(&RESUME, 2);
    assert!(said.contains("the pack (was tdd (en), is novel (en))"), "{said}");
    let said = place.expect(&ADOPT, 2);
    assert!(said.contains("TEST is at work and is no longer an agent"), "{said}");
    assert!(said.contains("`baton stop --abandon`"), "{said}");
    assert!(place.expect(&["status"], 0).contains("note: the rules changed"));
    place.expect(&["stop", "--abandon"], 0);
}

#[test]
fn an_answer_waits_until_changed_rules_are_adopted() {
    let place = tdd();
    place.play("2-MAIN", r#"{"next_agent":"USER","reason":"which?","dev_plan":null,"finish_review_override":null,"question":{"title":"Which way?","text":"A or B","options":[{"option_id":"a","description":"A"},{"option_id":"b","description":"B"}],"recommended_option_id":"a"}}"#);
    place.play("3-MAIN", &decision("REVIEW", "null"));
    place.play("3-REVIEW", &report(3, "PASS", "none"));
    place.play_finish(4);
    place.expect(&RUN, 10);
    edit_prompt(&place);
    let answer = ["answer", "a", "--executor", "script"];
    let said = place.expect(&answer, 2);
    assert!(said.contains(CHANGED[1]) && said.contains("`baton resume --adopt`"), "{said}");
    place.expect(&ADOPT, 10);
    place.expect(&answer, 0);
}
