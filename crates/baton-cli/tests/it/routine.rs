//! Routine without MAIN: whole runs of the real binary in which the policy decides who follows a pass.

use baton_testkit::{Place, decision};
use serde_json::Value;

const PLAN: &str = r###"{"replace":"## Milestone M1: Outline\n\n### M1-T1: Outline\n- status: IN_PROGRESS\n- acceptance: outline.md\n\n## Milestone M2: Story\n\n### M2-T1: Chapter 1\n- status: TODO\n- acceptance: chapters/01.md\n"}"###;

fn report(iteration: u32, tasks: &str) -> String {
    format!("iteration: {iteration}\nverdict: APPROVED\nblockers: none\ntasks: {tasks}\n")
}

fn switch(place: &Place, is_on: bool) {
    let file = "project/.baton/baton.toml";
    let settings = place.read(file);
    let settings = settings.split("\n[features]").next().unwrap_or_default();
    place.write(file, format!("{settings}\n[features]\nrouting = {is_on}\n"));
}

/// A story of one chapter. Only iterations 1, 3 and 6 have something to decide.
fn story() -> Place {
    let place = crate::team("novel");
    switch(&place, true);
    place.play("1-MAIN", &decision("OUTLINE", PLAN));
    place.write("play/1-OUTLINE.sh", "echo a plan > outline.md\n");
    place.play("1-OUTLINE", &report(1, "M1-T1"));
    place.play("2-CRITIQUE", &report(2, "M1-T1"));
    place.play("3-MAIN", &decision("DRAFT", "\"update M1-T1 status to POLISHED\""));
    place.write("play/3-DRAFT.sh", "mkdir -p chapters; echo a chapter > chapters/01.md\n");
    place.play("3-DRAFT", &report(3, "M2-T1"));
    place.write("play/4-POLISH.sh", "echo a better chapter > chapters/01.md\n");
    place.play("4-POLISH", &report(4, "M2-T1"));
    place.play("5-CRITIQUE", &report(5, "M2-T1"));
    place.play("6-MAIN", &decision("FINISH", "\"update M2-T1 status to POLISHED\""));
    place.play("6-FINISH_REVIEW", &report(6, "none"));
    place.play("6-FINISH_CHECK", &decision("FINISH", "null"));
    place
}

fn run(place: &Place, code: i32) -> String {
    place.expect(&["run", "Write a story", "--executor", "script"], code)
}

#[test]
fn a_story_needs_main_only_where_something_is_to_decide() {
    let place = story();
    let said = run(&place, 0);
    for line in ["[2] by rule → CRITIQUE", "[4] by rule → POLISH", "[5] by rule → CRITIQUE"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(!said.contains("[2] MAIN works") && !said.contains("[4] MAIN works"), "{said}");
    let history = place.read("project/.baton/memory/project_history.md");
    assert!(history.contains("reason: DRAFT passed in iteration 3, so POLISH follows by rule"));
    assert!(history.contains("dev_plan: M2-T1 TODO→DRAFTED"), "{history}");
    let log = place.expect(&["log"], 0);
    assert!(log.contains("by rule → POLISH"), "{log}");
    let status = place.expect(&["status"], 0);
    assert!(status.contains("3 by rule"), "{status}");
}

#[test]
fn the_agent_that_follows_by_rule_gets_the_tasks_and_the_files() {
    let place = story();
    run(&place, 0);
    let log: Value = serde_json::from_str(&place.expect(&["log", "--json"], 0)).unwrap();
    let is_one = |record: &&Value| {
        record["by"] == "rule" && record.to_string().contains("so POLISH follows")
    };
    let order = log["records"].as_array().unwrap().iter().find(is_one).unwrap().to_string();
    for part in
        ["M2-T1: Chapter 1", "acceptance: chapters/01.md", "Files that it changed: chapters/01.md"]
    {
        assert!(order.contains(part), "{part}: {order}");
    }
}

#[test]
fn switched_off_main_decides_every_time() {
    let place = story();
    switch(&place, false);
    place.play("2-MAIN", &decision("CRITIQUE", "null"));
    place.play("4-MAIN", &decision("POLISH", "null"));
    place.play("5-MAIN", &decision("CRITIQUE", "null"));
    let said = run(&place, 0);
    assert!(!said.contains("by rule"), "{said}");
    assert!(said.contains("[4] MAIN → POLISH"), "{said}");
}

#[test]
fn a_file_that_the_user_edits_in_between_brings_the_decision_back_to_main() {
    let place = story();
    place.play("2-MAIN", &decision("CRITIQUE", "null"));
    let said =
        place.expect(&["run", "Write a story", "--executor", "script", "--max-iterations", "1"], 4);
    assert!(said.contains("[1] OUTLINE"), "{said}");
    place.write("project/outline.md", "another plan\n");
    let said = place.expect(&["resume", "--max-iterations", "2"], 4);
    assert!(said.contains("[2] MAIN → CRITIQUE"), "{said}");
}
