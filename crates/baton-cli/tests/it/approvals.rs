//! No approval, no execution: a design is approved by a person, for exactly the content that it has.

use std::fs;

use baton_testkit::{Place, decision, report};

const RULES: &str = "project/scenarios/leave/BusinessRules.md";
const RUN: [&str; 6] =
    ["run", "Samples for leave applications", "--scenario", "leave", "--executor", "script"];
const CONFIG: &str = "home/.config/baton/baton.toml";

/// A design is written, then execution is decided.
fn scenario() -> Place {
    let place = crate::team("scenario");
    let plan = r###"{"replace":"## Milestone M1: Leave\n\n### M1-T1: Design\n- status: TODO\n"}"###;
    place.play("1-MAIN", &decision("INIT", plan));
    place.play("1-INIT", &report(1, "PASS", "none"));
    place.write(
        "play/1-INIT.sh",
        "mkdir -p scenarios/leave; cd scenarios/leave; \
         echo 'scenario_name: leave' > unified_scenario_design.yaml; \
         echo '# Rules' > BusinessRules.md; echo '{}' > format_specifications.json; cd ../..\n",
    );
    place.play("2-MAIN", &decision("EXECUTE", "null"));
    place.play("2-EXECUTE", &report(2, "FAIL", "\n- [parts] no tools yet"));
    place
}

fn executed(place: &Place) -> usize {
    place.calls().iter().filter(|call| call.contains("EXECUTE")).count()
}

fn answer(place: &Place, option: &str, comment: &str, code: i32) -> String {
    place.expect(&["answer", option, "--comment", comment, "--executor", "script"], code)
}

#[test]
fn nothing_is_executed_without_a_persons_answer() {
    let place = scenario();
    let said = place.expect(&RUN, 10);
    assert!(said.contains("Approve the design?") && said.contains("BusinessRules.md (8 bytes"));
    assert_eq!(executed(&place), 0);
    // Asking for it again and again changes nothing.
    place.expect(&["resume", "--executor", "script"], 10);
    assert_eq!(executed(&place), 0);
    // No third answer.
    answer(&place, "yes", "", 2);
    assert_eq!(executed(&place), 0);
}

#[test]
fn yes_approves_no_design() {
    let place = scenario();
    place.expect(&[&RUN[..], &["--yes"]].concat(), 10);
    place.expect(&["resume", "--yes", "--executor", "script"], 10);
    // A variable is not the person's own configuration.
    let mut command = place.command(&["resume", "--yes", "--executor", "script"]);
    let output = command.env("BATON_APPROVAL_BY_YES", "true").output().unwrap();
    assert_eq!(output.status.code(), Some(10));
    assert_eq!(executed(&place), 0);
}

#[test]
fn a_project_cannot_say_that_yes_approves() {
    let place = scenario();
    let path = "project/.baton/baton.toml";
    place.write(path, format!("{}\n[approval]\nby_yes = true\n", place.read(path)));
    let said = place.expect(&[&RUN[..], &["--yes"]].concat(), 2);
    assert!(said.contains("`approval` may not be set by a project"), "{said}");
}

#[test]
fn yes_approves_where_the_persons_own_configuration_says_so() {
    let place = scenario();
    place.write(CONFIG, format!("{}\n[approval]\nby_yes = true\n", place.read(CONFIG)));
    // The configuration alone is not an answer either.
    place.expect(&RUN, 10);
    assert_eq!(executed(&place), 0);
    place.expect(&["resume", "--yes", "--executor", "script"], 1);
    assert_eq!(executed(&place), 1, "{:?}", place.calls());
    assert!(place.history().contains("user_comment: answered by --yes"));
}

#[test]
fn an_approved_design_is_handed_over_by_its_paths() {
    let place = scenario();
    place.expect(&RUN, 10);
    answer(&place, "approve", "", 1);
    assert_eq!(executed(&place), 1);
    let prompt = place.read("prompts/2-EXECUTE-1.txt");
    assert!(prompt.contains("\"handoff_type\":\"init_to_execute\""), "{prompt}");
    assert!(prompt.contains("scenarios/leave/BusinessRules.md") && !prompt.contains("# Rules"));
    let file = "scenarios/leave/init_to_execute.json";
    let said = place.expect(&["handoff", "check", file, "--json"], 0);
    let checked: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(checked["tokens"].as_u64().unwrap() < 300, "{checked}");
}

#[test]
fn a_design_that_changes_while_the_question_is_open_asks_again() {
    let place = scenario();
    place.expect(&RUN, 10);
    place.write(RULES, "# Other rules\n");
    let said = answer(&place, "approve", "", 10);
    assert!(said.contains("Approve the design?") && said.contains("(14 bytes"), "{said}");
    assert_eq!(executed(&place), 0);
    answer(&place, "approve", "", 1);
    assert_eq!(executed(&place), 1);
}

#[test]
fn an_agent_that_changes_the_approved_design_is_not_evaluated() {
    let place = scenario();
    place.play("2-EXECUTE", &report(2, "PASS", "none"));
    place.write("play/2-EXECUTE.sh", "echo 'deduct nothing' >> scenarios/leave/BusinessRules.md\n");
    place.play("3-MAIN", &decision("EXECUTE", "\"add M1-T2: Again under M1\""));
    place.expect(&RUN, 10);
    let said = answer(&place, "approve", "", 10);
    assert!(said.contains("Approve the design?"), "{said}");
    let history = place.history();
    assert!(history.contains("the files are not the ones that the user approved"), "{history}");
    assert!(!place.path("project/scenarios/leave/execution_outputs").exists());
    let published = place.read("project/.baton/reports/report_execute.md");
    assert!(published.contains("verdict: FAIL") && published.contains("overturned"), "{published}");
}

#[test]
fn a_wish_goes_to_the_designer_and_into_the_history_of_the_design() {
    let place = scenario();
    place.play("3-MAIN", &decision("INIT", "\"add M1-T2: Say when under M1\""));
    place.play("3-INIT", &report(3, "PASS", "none"));
    place.write("play/3-INIT.sh", "echo 'deduct at once' >> scenarios/leave/BusinessRules.md\n");
    place.play("4-MAIN", &decision("EXECUTE", "null"));
    place.play("4-EXECUTE", &report(4, "FAIL", "\n- [parts] no tools yet"));
    place.expect(&RUN, 10);
    let said = answer(&place, "change", " ", 2);
    assert!(said.contains("what is to be changed?"), "{said}");
    answer(&place, "change", "say when it is deducted，立即扣减", 10);
    let order = place.read("prompts/3-INIT-1.txt");
    assert!(order.contains("say when it is deducted，立即扣减"), "{order}");
    answer(&place, "approve", "good", 1);
    let text = place.read("project/scenarios/leave/init_to_execute.json");
    let package: serde_json::Value = serde_json::from_str(&text).unwrap();
    let answers = package["design_iterations"].as_array().unwrap();
    let choices: Vec<&str> = answers.iter().map(|own| own["choice"].as_str().unwrap()).collect();
    assert_eq!(choices, ["change", "approve"]);
    assert_eq!(answers[0]["comment"], "say when it is deducted，立即扣减");
}

#[test]
fn a_design_that_leads_out_of_the_project_is_no_design() {
    let place = scenario();
    place.write("secret.md", "# Mine\n");
    place.write(
        "play/1-INIT.sh",
        "mkdir -p scenarios/leave; cd scenarios/leave; \
         echo 'scenario_name: leave' > unified_scenario_design.yaml; \
         ln -s ../../../secret.md BusinessRules.md; echo '{}' > format_specifications.json; cd ../..\n",
    );
    place.play("3-MAIN", &decision("USER", "null"));
    place.expect(&RUN, 3);
    assert_eq!(executed(&place), 0);
    let log = fs::read_to_string(place.path("project/.baton/memory/project_history.md")).unwrap();
    assert!(log.contains("may not run before the user has approved its files"), "{log}");
}

#[test]
fn a_scenario_has_a_plain_name() {
    let place = scenario();
    for name in ["../leave", "a/b", "", "."] {
        let said = place.expect(&["run", "x", "--scenario", name, "--executor", "script"], 2);
        assert!(said.contains("no name of a scenario"), "{said}");
    }
    let said = place.expect(&["run", "x", "--executor", "script"], 2);
    assert!(said.contains("which scenario"), "{said}");
    let tdd = crate::team("tdd");
    let said = tdd.expect(&["run", "x", "--scenario", "a", "--executor", "script"], 2);
    assert!(said.contains("knows no scenarios"), "{said}");
}
