//! `baton scenario` as a person uses it: the real binary, real tool programs in their sandbox, and a
//! scripted model over real HTTP.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use baton_testkit::{Answer, Asked, Model, Place, answer};
use serde_json::{Value, json};

const TOOL: &str = r#"
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    state, how = asked["state"], asked["arguments"].get("how", "")
    if how == "hang": time.sleep(60)
    if how == "crash": sys.exit("I fall")
    if how == "garbage": print("no json", flush=True); continue
    if how == "flood":
        while True: sys.stdout.write("x" * 1000000)
    if how == "refuse": print(json.dumps({"error": "not today"}), flush=True); continue
    state["balance"] = state.get("balance", 10.0) - 3
    print(json.dumps({"result": {"balance": state["balance"]}, "state": state}), flush=True)
"#;

const CHECKER: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["sample"]["sample_id"] == "S_BADCHECK": sys.exit(1)
    print(json.dumps({"passed": True, "reason": "fine"}), flush=True)
"#;

/// The scenario `leave`, and its model.
struct Leave {
    place: Place,
    /// Stage and first words of the user, of each call.
    log: Arc<Mutex<Vec<(String, String)>>>,
}

impl Deref for Leave {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

/// What the user says is what the target does: `how: hang` calls the tool so.
fn target(asked: &Asked) -> Value {
    let messages = asked.body["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    if last["role"] == "tool" {
        return baton_testkit::text("Done.");
    }
    let said = last["content"].to_string();
    match said.split_once("how:") {
        Some((_, how)) => {
            let how = how.trim_matches(|c: char| !c.is_alphanumeric());
            baton_testkit::call("deduct", json!({ "how": how }))
        }
        None => baton_testkit::text("I do nothing."),
    }
}

fn judged(stage: &str, number: usize, wrong_reports: usize) -> Value {
    let answer = match stage {
        "attribution" => {
            json!({"layer": 1, "failure_type": "Layer1_BusinessRule", "cause": "the rule is unclear", "evidence": "e", "suggestion": "s"})
        }
        "report" => {
            let sample = if number < wrong_reports { "S_PASSES" } else { "S_FAILS" };
            json!({"problems": [{"problem_id": "L1P_001", "problem_type": "BusinessRule_Unclear", "severity": "critical", "title": "Not deducted", "description": "d", "affected_groups": ["G1"], "affected_samples": [sample], "evidence_summary": "e", "typical_case_id": "S_FAILS", "suggested_fix": {"target": "BusinessRules.md", "section": "1", "modification": "Say that it is deducted at once", "rationale": "r"}}]})
        }
        "checker" => json!({"passed": true, "reason": "polite", "turns": [1]}),
        _ => json!({"message": "thanks", "done": true}),
    };
    baton_testkit::text(&answer.to_string())
}

impl Leave {
    /// The first so many reports name a sample that did not fail.
    fn new(wrong_reports: usize) -> Leave {
        let log = Arc::<Mutex<Vec<(String, String)>>>::default();
        let own = log.clone();
        let model = Model::answering(move |_, asked| {
            let stage = asked.header("x-baton-stage").unwrap_or_default().to_owned();
            let mut log = own.lock().unwrap();
            let number = log.iter().filter(|(own, _)| *own == stage).count();
            let messages = asked.body["messages"].as_array().unwrap();
            let user = messages.iter().find(|own| own["role"] == "user").unwrap();
            log.push((stage.clone(), user["content"].to_string()));
            match stage.as_str() {
                "target" => target(asked),
                stage => judged(stage, number, wrong_reports),
            }
        });
        let place = Place::new(crate::BATON).names("scenarios/leave").with_model(model);
        let place = Leave { place, log };
        place.write("unified_scenario_design.yaml", "name: leave\ntarget:\n  max_steps: 6\n");
        place.write("BusinessRules.md", "# Rules\nDeduct three days.\n");
        place.write("format_specifications.json", "{}");
        place.write("tool.py", TOOL);
        place.write("check.py", CHECKER);
        place.write(
            "tools.json",
            json!({"tools": [{"name": "deduct", "description": "deducts",
            "parameters": {"type": "object", "properties": {"how": {"type": "string"}}},
            "command": ["python3", "tool.py"], "stays": true, "timeout": 3}]})
            .to_string(),
        );
        place.write(
            "checkers.json",
            json!({"checkers": [
            {"name": "deducted", "assert": [{"equals": {"path": "/balance", "value": "{after}"}}]},
            {"name": "polite", "rubric": "The assistant is polite."},
            {"name": "own", "command": ["python3", "check.py"], "stays": true}]})
            .to_string(),
        );
        place.sample("S_PASSES", "how: well", &["deducted", "polite", "own"]);
        place.sample("S_FAILS", "please", &["deducted"]);
        place
    }

    fn sample(&self, id: &str, says: &str, checkers: &[&str]) {
        let sample = json!({"sample_id": id, "user": {"turns": [says]}, "checkers": checkers,
            "initial_state": {"balance": 10.0}, "values": {"after": 7.0}, "own_field": "kept"});
        self.write(&format!("samples/{id}.json"), sample.to_string());
    }

    /// Only a run asks the model.
    fn run(&self, args: &[&str]) -> Answer {
        match args.get(1) {
            Some(&"run") => self.place.run(args),
            _ => answer(self.plain(args)),
        }
    }

    fn expect(&self, args: &[&str], code: i32) -> String {
        self.run(args).expect(args, code)
    }

    fn json(&self, args: &[&str]) -> Value {
        let answer = self.run(args);
        answer.expect(args, 0);
        answer.json()
    }

    fn left(&self, iteration: u32, name: &str) -> Value {
        let path = self.path(&format!("execution_outputs/iteration_{iteration}/{name}"));
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn asked(&self, stage: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|(own, _)| own == stage).count()
    }
}

#[test]
fn an_evaluation_says_what_failed_and_why_and_a_package_can_be_made_of_it() {
    let place = Leave::new(0);
    let done = place.json(&["scenario", "run", "leave", "--json"]);
    assert_eq!(
        (&done["passed"], &done["failed"], &done["errors"]),
        (&json!(1), &json!(1), &json!(0)),
        "{done}"
    );
    assert_eq!(done["critical_share"], json!(1.0));
    let evaluation = place.left(1, "evaluation_results/S_FAILS_eval.json");
    assert_eq!(evaluation["checkers"][0]["reason"], "expected 7.0, found 10.0 at /balance");
    let passed = place.left(1, "evaluation_results/S_PASSES_eval.json");
    assert_eq!(passed["checkers"].as_array().unwrap().len(), 3);
    assert_eq!(passed["checkers"][1]["reason"], "polite");
    let trace = place.left(1, "execution_traces/S_PASSES_trace.json");
    assert_eq!(trace["states"][1]["state"]["balance"], json!(7.0));
    assert_eq!(place.left(1, "samples/S_PASSES.json")["own_field"], "kept");
    assert_eq!(place.left(1, "attribution_analysis/S_FAILS_attribution.json")["layer"], 1);
    let report = place.left(1, "layer1_problems_report.json");
    assert_eq!(report["modification_priority"][0]["estimated_improvement"], "+50%");
    let said = place.expect(&["scenario", "report", "leave"], 0);
    assert!(
        said.contains("Not deducted") && said.contains("Say that it is deducted at once"),
        "{said}"
    );
    let said = place.expect(&["scenario", "status"], 0);
    assert!(said.contains("1 of 2 passed (50.0%), 1 failed"), "{said}");
    place.expect(&["handoff", "make", "scenarios/leave/execution_outputs/iteration_1"], 0);
    let package = "scenarios/leave/execution_outputs/iteration_1/execute_to_init.json";
    place.expect(&["handoff", "check", package], 0);
    // Another one is another iteration; the problem keeps its id.
    let again = place.json(&["scenario", "run", "leave", "--json"]);
    assert_eq!(
        (&again["iteration"], &again["problems"][0]["problem_id"]),
        (&json!(2), &json!("L1P_001"))
    );
    let report = place.log.lock().unwrap().iter().rfind(|own| own.0 == "report").unwrap().1.clone();
    assert!(report.contains("L1P_001: Not deducted"), "{report}");
}

#[test]
fn what_goes_wrong_with_one_sample_is_named_and_the_others_go_on() {
    let place = Leave::new(0);
    for how in ["hang", "crash", "garbage", "flood", "refuse"] {
        place.sample(&format!("S_{}", how.to_uppercase()), &format!("how: {how}"), &["deducted"]);
    }
    place.sample("S_BADCHECK", "how: well", &["own"]);
    place.sample("S_NOCHECK", "how: well", &["nobody"]);
    place.write("samples/broken.json", "{");
    place.write("samples/huge.json", " ".repeat(2 << 20));
    let twin = fs::read_to_string(place.path("samples/S_PASSES.json")).unwrap();
    place.write("samples/twin.json", &twin);
    std::os::unix::fs::symlink("/etc/passwd", place.path("samples/out.json")).unwrap();
    let sample = json!({"sample_id": "S_NOVALUE", "user": {"turns": ["how: well"]}, "checkers": ["deducted"]});
    place.write("samples/S_NOVALUE.json", sample.to_string());
    let done =
        place.json(&["scenario", "run", "leave", "--no-attribution", "--json", "--jobs", "3"]);
    let summary = place.left(1, "failure_summary.json");
    let errors: BTreeMap<&str, &str> = (summary["evaluation_errors"].as_array().unwrap().iter())
        .map(|own| (own["sample_id"].as_str().unwrap(), own["code"].as_str().unwrap()))
        .collect();
    let expected = BTreeMap::from([
        ("S_HANG", "tool-timeout"),
        ("S_CRASH", "tool-ended"),
        ("S_GARBAGE", "tool-garbage"),
        ("S_FLOOD", "tool-output"),
        ("S_BADCHECK", "checker-ended"),
        ("S_NOCHECK", "checker-unknown"),
        ("S_NOVALUE", "checker-value"),
        ("broken", "sample-unreadable"),
        ("huge", "sample-unreadable"),
        ("out", "sample-unreadable"),
        ("twin", "sample-duplicate"),
    ]);
    assert_eq!(errors, expected, "{summary}");
    // A tool that refuses is the target's matter.
    assert_eq!((&done["passed"], &done["failed"]), (&json!(1), &json!(2)), "{done}");
    assert_eq!(done["problems"][0]["affected"], 2);
    let report = place.left(1, "layer1_problems_report.json");
    assert_eq!(report["layer1_problems"][0]["problem_type"], "Grouped_Without_Attribution");
    // What could not be evaluated runs again, and nothing else.
    let calls = place.asked("target");
    let again = place.json(&[
        "scenario",
        "run",
        "leave",
        "--no-attribution",
        "--retry-errors",
        "--json",
        "--jobs",
        "4",
    ]);
    assert_eq!((&again["iteration"], &again["redone"]), (&json!(1), &json!(11)), "{again}");
    let samples = place.log.lock().unwrap()[..].iter().skip(calls).cloned().collect::<Vec<_>>();
    assert!(samples.iter().all(|(_, said)| !said.contains("please")), "{samples:?}");
}

#[test]
fn a_report_that_names_a_sample_that_passed_is_corrected_once_and_then_refused() {
    let place = Leave::new(1);
    place.json(&["scenario", "run", "leave", "--json"]);
    assert_eq!(place.asked("report"), 2);
    let place = Leave::new(2);
    let said = place.expect(&["scenario", "run", "leave"], 3);
    assert!(said.contains("names the sample `S_PASSES`, which did not fail"), "{said}");
    let calls = (place.asked("target"), place.asked("attribution"));
    let said = place.expect(&["scenario", "status", "leave"], 0);
    assert!(said.contains("unfinished: 2 of 2 samples"), "{said}");
    // Only the report is asked for again.
    let done = place.json(&["scenario", "run", "leave", "--json"]);
    assert_eq!((&done["iteration"], &done["redone"]), (&json!(1), &json!(0)));
    assert_eq!((place.asked("target"), place.asked("attribution")), calls);
}

#[test]
fn an_unfinished_iteration_with_another_design_is_not_mixed() {
    let place = Leave::new(2);
    place.expect(&["scenario", "run", "leave"], 3);
    place.write("BusinessRules.md", "# Other rules\n");
    place.sample("S_MORE", "please", &["deducted"]);
    let said = place.expect(&["scenario", "run", "leave"], 2);
    assert!(
        said.contains("the design and the samples changed") && said.contains("--new"),
        "{said}"
    );
    let done = place.json(&["scenario", "run", "leave", "--new", "--json"]);
    assert_eq!(done["iteration"], 2);
}

#[test]
fn a_repaired_program_is_a_repair_of_its_layer_and_is_not_mixed() {
    let place = Leave::new(0);
    place.json(&["scenario", "run", "leave", "--json"]);
    place.write("tool.py", format!("{TOOL}# repaired\n"));
    let second = place.json(&["scenario", "run", "leave", "--json"]);
    assert_eq!(
        (&second["layer2_iterations"], &second["layer3_iterations"]),
        (&json!(1), &json!(0))
    );
    place.write("check.py", format!("{CHECKER}# repaired\n"));
    let third = place.json(&["scenario", "run", "leave", "--json"]);
    assert_eq!((&third["layer2_iterations"], &third["layer3_iterations"]), (&json!(1), &json!(1)));
    // What a program leaves behind is no repair.
    place.write("tools/__pycache__/x.pyc", "x");
    let fourth = place.json(&["scenario", "run", "leave", "--json"]);
    assert_eq!(
        (&fourth["layer2_iterations"], &fourth["layer3_iterations"]),
        (&json!(1), &json!(1))
    );
    // An iteration that is not over does not go on with another program.
    fs::remove_file(place.path("execution_outputs/iteration_4/failure_summary.json")).unwrap();
    place.write("tool.py", TOOL);
    let said = place.expect(&["scenario", "run", "leave", "--json"], 2);
    assert!(
        said.contains("iteration 4 cannot go on") && said.contains("the tools changed"),
        "{said}"
    );
}

#[test]
fn what_is_wrong_with_a_scenario_is_said_before_anything_runs() {
    let place = Leave::new(0);
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for number in 1..12 {
        let before = vec![format!("*a{}", number - 1); 10].join(", ");
        bomb.push_str(&format!("a{number}: &a{number} [{before}]\n"));
    }
    let long = format!("{{\"tools\": [], \"x\": \"{}\"}}", "x".repeat(5 << 20));
    for (file, wrong, code) in [
        ("unified_scenario_design.yaml", bomb.as_str(), 3),
        ("format_specifications.json", "[]", 3),
        ("tools.json", r#"{"tools": [{"name": "deduct"}]}"#, 3),
        ("tools.json", long.as_str(), 3),
        ("checkers.json", r#"{"checkers": [{"name": "deducted"}]}"#, 3),
    ] {
        let good = fs::read_to_string(place.path(file)).unwrap();
        place.write(file, wrong);
        let said = place.expect(&["scenario", "run", "leave"], code);
        assert!(said.contains(file), "{said}");
        place.write(file, &good);
    }
    fs::remove_file(place.path("BusinessRules.md")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", place.path("BusinessRules.md")).unwrap();
    place.expect(&["scenario", "run", "leave"], 3);
    place.expect(&["scenario", "run", "../.."], 2);
    place.expect(&["scenario", "run", "nobody"], 2);
    place.expect(&["scenario", "report", "leave"], 2);
    assert_eq!(place.asked("target"), 0);
}

#[test]
fn a_target_that_cannot_be_reached_stops_the_evaluation_and_loses_nothing() {
    // Many, and so few that the evaluation is over before anybody could say that it is an outage.
    for more in [40, 0] {
        let place = Leave::new(0);
        for number in 0..more {
            place.sample(&format!("T_{number:02}"), "how: well", &["deducted"]);
        }
        // Refused at once: no retry helps against a wrong key.
        let args = ["scenario", "run", "leave", "--jobs", "16"];
        let said = answer(place.plain(&args).args(flags(&refusing()))).expect(&args, 4);
        let none = format!("0 of {} samples", more + 2);
        assert!(said.contains("could not be reached") && said.contains(&none), "{said}");
        let done = place.json(&["scenario", "run", "leave", "--no-attribution", "--json"]);
        assert_eq!(
            (&done["iteration"], &done["passed"], &done["errors"]),
            (&json!(1), &json!(more + 1), &json!(0))
        );
    }
}

fn refusing() -> Model {
    Model::answering(|_, _| baton_testkit::refusal(401, "no such key"))
}

/// The flags that name another model than the scenario's own.
fn flags(model: &Model) -> [&str; 6] {
    ["--provider", "openai-chat", "--model", "scripted", "--base-url", &model.url]
}

#[test]
fn a_budget_of_tokens_is_not_kept_by_guessing() {
    let place = Leave::new(0);
    let silent = Model::answering(
        |_, _| json!({ "role": "assistant", "content": "Yes.", "uncounted": true }),
    );
    let run = |budget: &[&str]| {
        let args = ["scenario", "run", "leave", "--jobs", "1", "--no-attribution"];
        let answer = answer(place.plain(&args).args(flags(&silent)).args(budget));
        (answer.code, answer.errors)
    };
    let (code, said) =
        run(&["--budget-tokens", "1000000", "--only", "S_FAILS", "--only", "S_PASSES"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("the server does not count tokens"), "{said}");
    assert_eq!(silent.requests().len(), 1, "nobody is called once that is known");
}

#[test]
fn a_budget_of_tokens_stops_in_good_order() {
    let place = Leave::new(0);
    for number in 0..10 {
        place.sample(&format!("T_{number:02}"), "how: well", &["deducted"]);
    }
    let said =
        place.expect(&["scenario", "run", "leave", "--jobs", "1", "--budget-tokens", "5000"], 4);
    assert!(said.contains("tokens are spent"), "{said}");
    let before = place.asked("target");
    let done = place.json(&["scenario", "run", "leave", "--jobs", "1", "--json"]);
    assert_eq!(done["iteration"], 1);
    assert!(done["redone"].as_u64().unwrap() < 12 && before >= 4, "{done} {before}");
}

#[test]
fn only_some_samples_may_be_asked_for_and_schemas_are_printed() {
    let place = Leave::new(0);
    let done = place.json(&["scenario", "run", "leave", "--only", "S_PASSES", "--json"]);
    assert_eq!((&done["total"], &done["passed"]), (&json!(1), &json!(1)));
    let said = place.expect(&["scenario", "run", "leave", "--only", "S_PASES"], 2);
    assert!(said.contains("S_PASES"), "{said}");
    for name in ["scenario-tools", "scenario-checkers", "scenario-sample"] {
        place.expect(&["schema", name], 0);
    }
}

#[test]
fn ctrl_c_stops_in_good_order_and_the_same_command_goes_on() {
    let place = Leave::new(0);
    // The sample that passes is answered, the other one never.
    let slow = Model::answering(|_, request| {
        match request.body["messages"].to_string().contains("please") {
            true => baton_testkit::silence(),
            false => match request.header("x-baton-stage") {
                Some("target") => target(request),
                stage => judged(stage.unwrap_or_default(), 0, 0),
            },
        }
    });
    let mut command = place.plain(&["scenario", "run", "leave", "--jobs", "2"]);
    let child = command.args(flags(&slow)).stderr(Stdio::piped()).spawn().unwrap();
    let marked = place.path("execution_outputs/iteration_1/evaluation_results/S_PASSES_eval.json");
    while !marked.is_file() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(10), "{said}");
    assert!(said.contains("1 of 2 samples are finished"), "{said}");
    let done = place.json(&["scenario", "run", "leave", "--json"]);
    assert_eq!((&done["iteration"], &done["redone"]), (&json!(1), &json!(1)), "{done}");
    assert_eq!(place.asked("target"), 1);
}

/// A target that writes its calls as JSON, as small local models do.
#[test]
fn a_target_may_speak_the_json_protocol() {
    let place = Leave::new(0);
    let model = Model::answering(|_, request| {
        assert!(request.body["tools"].is_null(), "{}", request.body);
        let messages = request.body["messages"].as_array().unwrap();
        let action = match messages.last().unwrap()["content"].to_string().contains("[tool]") {
            true => json!({"thought": "", "tool": "Finish", "arguments": {"answer": "Done."}}),
            false => json!({"thought": "", "tool": "deduct", "arguments": {"how": "well"}}),
        };
        baton_testkit::text(&action.to_string())
    });
    let args = ["scenario", "run", "leave", "--only", "S_FAILS", "--protocol", "json", "--json"];
    let done = answer(place.plain(&args).args(flags(&model))).json();
    assert_eq!((&done["passed"], &done["total"]), (&json!(1), &json!(1)), "{done}");
    let trace = place.left(1, "execution_traces/S_FAILS_trace.json");
    assert_eq!(trace["tool_calls"][0]["result"]["balance"], json!(7.0));
}
