//! `baton handoff` as a person uses it: the folder of an iteration, made, checked, loaded.

use std::fs;

use baton_testkit::{Answer, Place};
use serde_json::{Value, json};

const FOLDER: &str = "scenarios/leave/execution_outputs/iteration_12";

/// An iteration in which so many samples failed; files of the first ones alone.
fn with_failures(count: usize, with_files: usize) -> Place {
    let place = Place::new(crate::BATON).names(FOLDER);
    let ids: Vec<String> = (0..count).map(|number| format!("BS_MT_{number:06}")).collect();
    let failures: Vec<Value> = ids
        .iter()
        .map(|id| {
            json!({
                "sample_id": id, "failure_type": "Layer1_BusinessRule",
                "conversation_turns": 8, "checkers_failed": ["leave_balance_deducted"],
            })
        })
        .collect();
    let summary = json!({
        "total_samples": count * 3 / 2, "failed_samples": count, "total_iterations": 12,
        "failures": failures,
    });
    place.write("failure_summary.json", summary.to_string());
    let report = json!({
        "total_samples": count * 3 / 2, "failed_samples": count,
        "layer1_problems": [{
            "problem_id": "L1P_001", "severity": "critical", "title": "余额扣减时机未明确",
            "affected_samples": ids, "affected_count": count, "typical_case_id": ids[0],
            "suggested_fix": { "target": "BusinessRules.md", "modification": "deduct at once" },
        }],
    });
    place.write("layer1_problems_report.json", report.to_string());
    for id in &ids[..with_files] {
        place.write(&format!("samples/{id}.json"), "{\"opening\":\"请假三天\"}");
        let trace = json!({ "conversation_history": [{ "role": "user", "content": "hello" }] });
        place.write(&format!("execution_traces/{id}_trace.json"), trace.to_string());
        place.write(&format!("evaluation_results/{id}_eval.json"), "{\"passed\":false}");
        place.write(&format!("attribution_analysis/{id}_attribution.json"), "{\"why\":1}");
    }
    place
}

fn run(place: &Place, args: &[&str]) -> Answer {
    place.run(&[&["handoff"], args].concat())
}

fn package() -> String {
    format!("{FOLDER}/execute_to_init.json")
}

fn make(place: &Place) {
    let made = run(place, &["make", FOLDER]);
    assert_eq!(made.code, 0, "{}", made.errors);
}

#[test]
fn a_package_is_made_checked_shown_and_loaded() {
    let place = with_failures(18, 18);
    let dry = run(&place, &["make", FOLDER, "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.errors);
    assert!(!place.path("execute_to_init.json").exists());
    make(&place);
    let package = package();
    let checked = run(&place, &["check", &package]);
    assert_eq!((checked.code, checked.errors.as_str()), (0, ""));
    assert!(checked.out.contains("execute_to_init"), "{}", checked.out);
    let shown = run(&place, &["show", &package]);
    assert!(shown.out.contains("18 of 27 samples failed, quality 0.3333"), "{}", shown.out);
    assert!(shown.out.contains("1. BusinessRules.md: deduct at once"), "{}", shown.out);
    let loaded = run(&place, &["load", &package, "--budget", "2000"]);
    assert_eq!(loaded.code, 0, "{}", loaded.errors);
    assert!(loaded.out.starts_with("## Problems report: scenarios/"), "{}", loaded.out);
    assert!(loaded.out.contains("请假三天"), "{}", loaded.out);
    assert!(loaded.errors.contains(" of 2000 tokens"), "{}", loaded.errors);
    let loaded = run(&place, &["load", &package, "--json"]);
    let json: Value = serde_json::from_str(&loaded.out).unwrap();
    assert_eq!(json["ledger"]["budget"], 40_000);
    assert_eq!(json["ledger"]["pieces"][0]["what"], "problems_report");
}

#[test]
fn a_long_index_goes_beside_the_package_and_is_checked_too() {
    let place = with_failures(2_000, 60);
    make(&place);
    let index = fs::read_to_string(place.path("failure_index.jsonl")).unwrap();
    assert_eq!(index.lines().count(), 2_000);
    assert_eq!(run(&place, &["check", &package()]).code, 0);
    let first = index.lines().next().unwrap();
    place.write("failure_index.jsonl", format!("{first}\n{first}\nnothing\n"));
    let checked = run(&place, &["check", &package()]);
    assert_eq!(checked.code, 3);
    for word in ["stands there twice", "no entry of an index", "the package says 2000"] {
        assert!(checked.errors.contains(word), "{}", checked.errors);
    }
    fs::File::create(place.path("failure_index.jsonl")).unwrap().set_len(100 << 20).unwrap();
    let checked = run(&place, &["check", &package()]);
    assert!(checked.errors.contains("the index has 104857600 bytes"), "{}", checked.errors);
}

#[test]
fn links_that_lead_out_and_missing_or_empty_files_are_refused() {
    let place = with_failures(5, 5);
    make(&place);
    fs::write(place.root().join("secret.json"), "{}").unwrap();
    let replaced = |name: &str| {
        fs::remove_file(place.path(name)).unwrap();
        place.path(name)
    };
    // Inside of the root, but outside of the iteration.
    let trace = replaced("execution_traces/BS_MT_000000_trace.json");
    std::os::unix::fs::symlink(place.root().join("secret.json"), trace).unwrap();
    let sample = replaced("samples/BS_MT_000001.json");
    std::os::unix::fs::symlink("../../../../../secret.json", sample).unwrap();
    drop(replaced("evaluation_results/BS_MT_000002_eval.json"));
    place.write("attribution_analysis/BS_MT_000003_attribution.json", "");
    let checked = run(&place, &["check", &package()]);
    assert_eq!(checked.code, 3);
    for line in [
        "failure_samples_index.0.trace_path: a link leads out of the folder",
        "failure_samples_index.1.sample_path: a link leads out of the folder",
        "failure_samples_index.2.evaluation_path: this does not exist",
        "failure_samples_index.3.attribution_path: the file is empty",
    ] {
        assert!(checked.errors.contains(line), "{}", checked.errors);
    }
    assert_eq!(run(&place, &["load", &package()]).code, 3);
    assert_eq!(run(&place, &["make", FOLDER]).code, 3);
    assert_eq!(run(&place, &["check", "nothing.json"]).code, 2);
    // Elsewhere nothing that it names is there.
    let elsewhere = run(&place, &["check", &package(), "--root", FOLDER]);
    assert!(elsewhere.errors.contains("execution_output_dir: this does not exist"));
}

#[test]
fn a_design_is_checked_from_its_root_and_a_huge_package_is_not_read() {
    let place = with_failures(1, 1);
    let package = json!({
        "version": "2.0", "handoff_type": "init_to_execute", "timestamp": "2026-01-04T10:30:00",
        "user_requirement": "生成请假申请场景的评测样本",
        "design_artifacts": {
            "unified_scenario_design_path": "scenarios/leave/design.yaml",
            "business_rules_path": "scenarios/leave/BusinessRules.md",
            "format_specifications_path": "scenarios/leave/format.json",
        },
    });
    let root = place.root();
    fs::write(root.join("design.json"), package.to_string()).unwrap();
    fs::write(root.join("scenarios/leave/design.yaml"), "name: leave\n").unwrap();
    fs::write(root.join("scenarios/leave/BusinessRules.md"), "# Rules\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("scenarios/leave/format.json")).unwrap();
    let checked = run(&place, &["check", "design.json"]);
    assert_eq!(checked.code, 3);
    let line = "design_artifacts.format_specifications_path: a link leads out of the folder";
    assert!(checked.errors.contains(line), "{}", checked.errors);
    fs::remove_file(root.join("scenarios/leave/format.json")).unwrap();
    fs::write(root.join("scenarios/leave/format.json"), "{}").unwrap();
    assert_eq!(run(&place, &["check", "design.json"]).code, 0);
    let loaded = run(&place, &["load", "design.json"]);
    assert!(loaded.out.contains("name: leave"), "{}", loaded.out);
    fs::File::create(root.join("huge.json")).unwrap().set_len(100 << 20).unwrap();
    let huge = run(&place, &["check", "huge.json"]);
    assert_eq!(huge.code, 3);
    assert!(huge.errors.contains("it was not read"), "{}", huge.errors);
}

#[test]
fn a_folder_that_is_not_whole_or_disagrees_makes_no_package() {
    let place = with_failures(3, 3);
    fs::remove_dir_all(place.path("attribution_analysis")).unwrap();
    let made = run(&place, &["make", FOLDER]);
    assert_eq!(made.code, 3);
    assert!(made.errors.contains("`attribution_analysis`: this does not exist"), "{}", made.errors);
    let place = with_failures(3, 3);
    let report = fs::read_to_string(place.path("layer1_problems_report.json")).unwrap();
    place
        .write("layer1_problems_report.json", report.replace("\"BS_MT_000002\"", "\"passed_one\""));
    let made = run(&place, &["make", FOLDER]);
    assert_eq!(made.code, 3);
    assert!(made.errors.contains("names a sample that did not fail"), "{}", made.errors);
    assert!(!place.path("execute_to_init.json").exists());
    assert_eq!(run(&place, &["make", "/"]).code, 2);
}
