//! Packages: read strictly, kept whole, within their budgets; readings within theirs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use baton_core::handoff::budget::{self, Fitted};
use baton_core::handoff::folder::{self, Base, Found, Look};
use baton_core::handoff::make::{self, Ask, FailureSummary, ProblemsReport};
use baton_core::handoff::package::{self, Package};
use baton_core::handoff::reading::{self, Files, What};
use baton_core::handoff::{FOLDERS, read_long};
use baton_core::id::{Timestamp, Tokens};
use baton_core::messages::Language;
use baton_core::tokens;
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp(1_767_540_600);

fn to_execute() -> Value {
    json!({
        "version": "2.0",
        "handoff_type": "init_to_execute",
        "timestamp": "2026-01-04T10:30:00",
        "user_requirement": "生成请假申请场景的评测样本",
        "design_artifacts": {
            "unified_scenario_design_path": "scenarios/leave_application/unified_scenario_design.yaml",
            "business_rules_path": "scenarios/leave_application/BusinessRules.md",
            "format_specifications_path": "scenarios/leave_application/format_specifications.json"
        }
    })
}

fn entry(id: &str, priority: &str) -> Value {
    json!({
        "sample_id": id,
        "sample_path": format!("samples/{id}.json"),
        "trace_path": format!("execution_traces/{id}_trace.json"),
        "evaluation_path": format!("evaluation_results/{id}_eval.json"),
        "attribution_path": format!("attribution_analysis/{id}_attribution.json"),
        "failure_type": "Layer1_BusinessRule",
        "conversation_turns": 8,
        "checkers_failed": ["leave_balance_deducted"],
        "priority": priority
    })
}

fn to_init() -> Value {
    json!({
        "version": "2.0",
        "handoff_type": "execute_to_init",
        "timestamp": "2026-01-04T15:30:00.123456+08:00",
        "execution_output_dir": "scenarios/leave_application/execution_outputs/iteration_12",
        "trigger_reason": "Critical problems touch 35% of the failures, over the limit of 30%",
        "iteration_summary": {
            "total_iterations": 12, "final_quality": 0.33, "layer2_iterations": 3,
            "layer3_iterations": 8, "total_samples": 27, "failed_samples": 18, "seconds": 71.5
        },
        "failure_samples_index": [entry("BS_MT_001", "high"), entry("BS_MT_003", "low")],
        "layer1_problems_report_path": "layer1_problems_report.json",
        "modification_suggestions_summary": [
            "在BusinessRules明确添加：创建请假申请后必须调用update_employee_leave_balance扣减余额",
            "Let leave_balance_deducted tolerate 0.01 days",
            "Say how a leave across two years is counted"
        ]
    })
}

fn read(value: &Value) -> Package {
    package::read(&value.to_string()).unwrap().package
}

fn refused(value: &Value) -> String {
    let problems = package::read(&value.to_string()).unwrap_err();
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn golden_packages_in_two_languages() {
    let mut out = String::new();
    let mut english = to_execute();
    english["user_requirement"] = json!("Make samples that evaluate an application for leave");
    english["design_rationale"] = json!("Balances are deducted when the application is made");
    english["design_iterations"] = json!([{ "comment": "also half days", "approved": false }]);
    english["known_constraints"] = json!(["no weekends"]);
    let mut chinese = to_init();
    chinese["trigger_reason"] = json!("Critical问题占比35%，超过30%阈值，自动修复无效");
    for value in [to_execute(), english, to_init(), chinese] {
        let package = read(&value);
        let text = package.text();
        writeln!(out, "{} tokens\n{text}", tokens::count(&text).0).unwrap();
        assert_eq!(package::read(&text).unwrap().package, package);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(budget::check(&package).is_ok());
    }
    insta::assert_snapshot!(out);
}

#[test]
fn extra_fields_keep_their_order_through_a_round_trip() {
    let mut value = to_init();
    let object = value.as_object_mut().unwrap();
    for (number, name) in ["zeta", "alpha", "审批", "mid"].iter().enumerate() {
        object.insert((*name).to_owned(), json!({ "z": number, "a": [null, 1.5, "x"], "-": {} }));
    }
    object.insert("metadata".to_owned(), json!({ "y": 1, "b": 2 }));
    value["failure_samples_index"][0]["seed"] = json!(7);
    let text = read(&value).text();
    let again: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(again, value);
    let names: Vec<&String> = again.as_object().unwrap().keys().collect();
    assert_eq!(names[names.len() - 4..], ["zeta", "alpha", "审批", "mid"]);
    assert_eq!(again["zeta"].to_string(), r#"{"z":0,"a":[null,1.5,"x"],"-":{}}"#);
    assert_eq!(package::read(&text).unwrap().package.text(), text);
}

/// A change of a good package, by name.
type Case = (&'static str, Value, fn(&mut Value));

#[test]
fn every_bad_package_is_refused_with_its_field() {
    let cases: Vec<Case> = vec![
        ("another version", to_init(), |v| v["version"] = json!("3.0")),
        ("a number for the version", to_init(), |v| v["version"] = json!(2.0)),
        ("another type", to_init(), |v| v["handoff_type"] = json!("execute_to_int")),
        ("no type", to_init(), |v| drop(v.as_object_mut().unwrap().remove("handoff_type"))),
        ("a misspelled field", to_execute(), |v| {
            let own = v.as_object_mut().unwrap().remove("user_requirement").unwrap();
            v["user_requirment"] = own;
        }),
        ("a missing artifact", to_execute(), |v| {
            drop(v["design_artifacts"].as_object_mut().unwrap().remove("business_rules_path"));
        }),
        ("an empty requirement", to_execute(), |v| v["user_requirement"] = json!(" \u{200b}")),
        ("not a time", to_init(), |v| v["timestamp"] = json!("yesterday")),
        ("an absolute path", to_init(), |v| v["execution_output_dir"] = json!("/etc")),
        ("a drive", to_execute(), |v| {
            v["design_artifacts"]["business_rules_path"] = json!("C:/rules.md");
        }),
        ("a home", to_init(), |v| v["layer1_problems_report_path"] = json!("~/x.json")),
        ("upwards", to_init(), |v| {
            v["failure_samples_index"][1]["trace_path"] = json!("samples/../../x.json");
        }),
        ("a backslash", to_init(), |v| {
            v["failure_samples_index"][0]["sample_path"] = json!("samples\\..\\x.json");
        }),
        ("a control character", to_init(), |v| {
            v["layer1_problems_report_path"] = json!("x\u{1b}[31m.json");
        }),
        ("an empty path", to_init(), |v| {
            v["failure_samples_index"][0]["evaluation_path"] = json!("");
        }),
        ("an endless path", to_init(), |v| {
            v["layer1_problems_report_path"] = json!("a/".repeat(600));
        }),
        ("a sample twice", to_init(), |v| {
            v["failure_samples_index"][1]["sample_id"] = json!("BS_MT_001");
        }),
        ("an unknown priority", to_init(), |v| {
            v["failure_samples_index"][1]["priority"] = json!("hihg");
        }),
        ("several at once", to_init(), |v| {
            v["failure_samples_index"][0]["conversation_turns"] = json!("eight");
            drop(v["failure_samples_index"][1].as_object_mut().unwrap().remove("trace_path"));
            v["trigger_reason"] = json!(null);
        }),
        ("an object for the index", to_init(), |v| v["failure_samples_index"] = json!({})),
        ("six suggestions", to_init(), |v| {
            v["modification_suggestions_summary"] = json!(["1", "2", "3", "4", "5", "6"]);
        }),
        ("more failed than there are", to_init(), |v| {
            v["iteration_summary"]["failed_samples"] = json!(28);
        }),
        ("a quality of 67", to_init(), |v| v["iteration_summary"]["final_quality"] = json!(67)),
        ("a total without its index", to_init(), |v| v["failure_samples_total"] = json!(18)),
    ];
    let mut out = String::new();
    for (name, mut value, change) in cases {
        change(&mut value);
        writeln!(out, "# {name}\n{}\n", refused(&value)).unwrap();
    }
    writeln!(out, "# a list\n{}\n", refused(&json!([]))).unwrap();
    writeln!(out, "# nothing\n{}", package::read("").unwrap_err()[0]).unwrap();
    insta::assert_snapshot!(out);
}

#[test]
fn an_optional_field_that_is_misspelled_is_a_warning() {
    let mut value = to_execute();
    value["design_rationle"] = json!("why");
    let read = package::read(&value.to_string()).unwrap();
    assert_eq!(read.warnings.len(), 1);
    assert_eq!(read.warnings[0].did_you_mean.as_deref(), Some("design_rationale"));
}

#[test]
fn a_huge_package_is_refused_and_many_faults_are_counted() {
    let huge = format!("{{\"version\":\"2.0\",\"x\":\"{}\"}}", "y".repeat(2 << 20));
    assert_eq!(package::read(&huge).unwrap_err()[0].code, "document-size");
    let mut value = to_init();
    value["failure_samples_index"] = json!(vec![json!({}); 500]);
    let problems = package::read(&value.to_string()).unwrap_err();
    assert_eq!((problems.len(), problems.last().unwrap().code), (51, "handoff-more"));
}

/// A disk of names and texts; folders are what stands before them.
#[derive(Default)]
struct Disk {
    files: BTreeMap<String, String>,
    outside: Option<&'static str>,
}

impl Look for Disk {
    fn look(&self, base: Base, path: &str) -> Found {
        if base == Base::Root && path.contains("iteration_12") {
            return Found::Folder;
        }
        if self.outside == Some(path) {
            return Found::Outside;
        }
        match self.files.get(path) {
            Some(text) => Found::File { bytes: text.len() as u64 },
            None if self.files.keys().any(|own| own.starts_with(&format!("{path}/"))) => {
                Found::Folder
            }
            None => Found::Missing,
        }
    }
}

impl Files for Disk {
    fn size(&self, _: Base, path: &str) -> Option<u64> {
        self.files.get(path).map(|text| text.len() as u64)
    }

    fn text(&self, _: Base, path: &str, limit: u64) -> Option<String> {
        let text = self.files.get(path)?;
        Some(text[..text.floor_char_boundary(usize::try_from(limit).unwrap())].to_owned())
    }
}

fn summary(count: usize) -> FailureSummary {
    let failures: Vec<Value> = (0..count)
        .map(|number| {
            json!({
                "sample_id": format!("BS_MT_{number:06}"), "failure_type": "Layer1_BusinessRule",
                "conversation_turns": 3 + number % 20, "checkers_failed": ["leave_balance_deducted"],
            })
        })
        .collect();
    let text = json!({
        "total_samples": count + count / 2, "failed_samples": count, "total_iterations": 12,
        "failures": failures
    });
    read_long(&text.to_string()).unwrap()
}

/// Problems over the first half, the third quarter and so on.
fn report(count: usize, problems: usize) -> ProblemsReport {
    let severities = ["critical", "high", "medium", "low"];
    let (mut from, mut list) = (0, Vec::new());
    for number in 0..problems {
        let to = (from + (count - from) / 2).max(from + 1).min(count);
        let affected: Vec<String> = (from..to).map(|own| format!("BS_MT_{own:06}")).collect();
        list.push(json!({
            "problem_id": format!("L1P_{number:03}"), "severity": severities[number % 4],
            "title": format!("第{number}个问题"), "description": "规则没有说明余额何时扣减。".repeat(6),
            "affected_count": affected.len(), "typical_case_id": affected.first(),
            "affected_samples": affected,
            "suggested_fix": { "target": "BusinessRules.md", "modification": format!("say so in rule {number}") },
        }));
        from = to.min(count - 1);
    }
    let text = json!({
        "report_version": "1.0", "total_samples": count + count / 2, "failed_samples": count,
        "layer1_problems": list, "modification_priority": []
    });
    read_long(&text.to_string()).unwrap()
}

fn made(count: usize, problems: usize) -> Fitted {
    let ask = Ask { output_dir: "s/execution_outputs/iteration_12", now: NOW, reason: None };
    make::package(&ask, &summary(count), &report(count, problems)).unwrap()
}

#[test]
fn a_package_fits_whatever_the_number_of_failures() {
    for (count, is_spilled) in [(10, false), (1_000, true), (100_000, true)] {
        let fitted = made(count, 4);
        assert!(fitted.tokens <= budget::EXECUTE_TO_INIT, "{count}: {:?}", fitted.tokens);
        let text = fitted.package.text();
        assert_eq!(tokens::count(&text), fitted.tokens);
        assert_eq!(package::read(&text).unwrap().package, fitted.package);
        let Package::ExecuteToInit(own) = &fitted.package else { panic!() };
        assert_eq!(own.modification_suggestions_summary.len(), 4);
        assert_eq!(own.iteration_summary.failed_samples, count as u64);
        assert_eq!(own.failure_samples_total, is_spilled.then_some(count as u64));
        assert_eq!(fitted.files.len(), usize::from(is_spilled));
        if is_spilled {
            assert!(own.failure_samples_index.len() > 20);
            // The most widespread problem of the highest priority comes first.
            assert_eq!(own.failure_samples_index[0].sample_id, "BS_MT_000000");
            let lines = fitted.files[0].1.lines().map(str::to_owned);
            assert!(folder::check_index(lines, count as u64).is_empty());
        } else {
            assert_eq!(own.failure_samples_index.len(), count);
        }
    }
    for problems in 0..=8 {
        let Package::ExecuteToInit(own) = made(40, problems).package else { panic!() };
        assert_eq!(own.modification_suggestions_summary.len(), problems.min(5));
    }
}

#[test]
fn an_index_of_somebody_else_is_spilled_by_priority_and_spread() {
    let mut value = to_init();
    let index = (0..200).map(|n| entry(&format!("S{n:03}"), ["low", "medium", "high"][n % 3]));
    value["failure_samples_index"] = index.collect();
    value["iteration_summary"]["failed_samples"] = json!(200);
    value["iteration_summary"]["total_samples"] = json!(300);
    let whole = read(&value);
    assert_eq!(budget::check(&whole).unwrap_err().code, "handoff-budget");
    let fitted = budget::fitted(whole, &|id| usize::from(id == "S101") * 9).unwrap();
    let Package::ExecuteToInit(own) = &fitted.package else { panic!() };
    assert_eq!(own.failure_samples_index[0].sample_id, "S101");
    assert_eq!(own.failure_samples_index[1].sample_id, "S002");
    assert_eq!(fitted.files[0].1.lines().count(), 200);
}

#[test]
fn a_long_requirement_leaves_its_start_and_a_path() {
    for long in ["设计一个请假场景，余额必须同步扣减。".repeat(300), "word ".repeat(4_000)]
    {
        let mut value = to_execute();
        value["user_requirement"] = json!(long);
        value["design_iterations"] = json!(vec![json!({ "comment": "again ".repeat(40) }); 30]);
        value["known_constraints"] = json!(["short"]);
        let fitted = budget::fitted(read(&value), &|_| 0).unwrap();
        assert!(fitted.tokens <= budget::INIT_TO_EXECUTE);
        let Package::InitToExecute(own) = &fitted.package else { panic!() };
        assert!(long.starts_with(own.user_requirement.trim_end_matches('…')));
        let path = own.user_requirement_path.as_ref().unwrap();
        assert!(path.starts_with("handoffs/"));
        assert!(fitted.files.iter().any(|(own, text)| own == path && *text == long));
        assert!(own.design_iterations_path.is_some());
        assert_eq!(package::read(&fitted.package.text()).unwrap().package, fitted.package);
        // What fits stays as it is.
        let again = budget::fitted(fitted.package.clone(), &|_| 0).unwrap();
        assert_eq!((again.package, again.files.len()), (fitted.package, 0));
    }
    let mut value = to_execute();
    value["notes"] = json!("x y ".repeat(1_000));
    let problem = budget::fitted(read(&value), &|_| 0).unwrap_err();
    assert!(problem.message.contains("`notes`"), "{problem}");
}

#[test]
fn what_two_files_say_must_agree() {
    let ask = Ask { output_dir: "i", now: NOW, reason: Some("because") };
    let (mut summary, mut report) = (summary(5), report(5, 2));
    summary.failures[1].sample_id = "BS_MT_000000".to_owned();
    summary.failures[2].sample_id = "../x".to_owned();
    summary.failed_samples = 6;
    report.layer1_problems[0].affected_samples.push("BS_MT_999999".to_owned());
    let problems = make::package(&ask, &summary, &report).unwrap_err();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

/// An iteration with long conversations.
fn disk(count: usize, size: usize) -> (Package, Disk) {
    let fitted = made(count, 4);
    let mut files = BTreeMap::new();
    files.insert("failure_summary.json".to_owned(), "{}".to_owned());
    let report = serde_json::to_string_pretty(&report(count, 4)).unwrap();
    files.insert("layer1_problems_report.json".to_owned(), report);
    files.extend(fitted.files);
    let Package::ExecuteToInit(own) = &fitted.package else { panic!() };
    for sample in &own.failure_samples_index {
        let talk: Vec<Value> = (1..=size)
            .flat_map(|turn| {
                let says = |role: &str| json!({ "role": role, "content": format!("{role} 第{turn}轮 ```` {}", "long words ".repeat(size)) });
                [says("user"), says("assistant")]
            })
            .collect();
        let calls: Vec<Value> =
            (1..=size).map(|turn| json!({ "turn": turn, "name": "query" })).collect();
        let trace = json!({ "conversation_history": talk, "tool_calls": calls, "states": [{ "balance": 7 }] });
        let verdict = json!({ "checkers": [{ "name": "leave_balance_deducted", "passed": false, "turn": size / 2 }] });
        files.insert(sample.trace_path.clone(), trace.to_string());
        files.insert(sample.evaluation_path.clone(), verdict.to_string());
        files.insert(sample.sample_path.clone(), json!({ "opening": "请假" }).to_string());
        files.insert(
            sample.attribution_path.clone(),
            json!({ "why": "x".repeat(size * 50) }).to_string(),
        );
    }
    (fitted.package, Disk { files, outside: None })
}

#[test]
fn everything_a_package_names_must_be_there() {
    let (package, mut disk) = disk(10, 3);
    assert_eq!(folder::check(&package, &disk, Some(4)), vec![]);
    let Package::ExecuteToInit(mut own) = package else { panic!() };
    own.modification_suggestions_summary.truncate(2);
    disk.files.remove("samples/BS_MT_000001.json");
    disk.files.insert("execution_traces/BS_MT_000002_trace.json".to_owned(), String::new());
    disk.outside = Some("evaluation_results/BS_MT_000003_eval.json");
    disk.files.retain(|name, _| !name.starts_with(FOLDERS[3]));
    disk.files.insert("failure_summary.json".to_owned(), String::new());
    let mut problems: Vec<String> = folder::check(&Package::ExecuteToInit(own), &disk, Some(4))
        .iter()
        .map(|(_, problem)| problem.to_string())
        .collect();
    // The attributions are all gone.
    problems.retain(|line| !line.contains("attribution_path"));
    insta::assert_snapshot!(problems.join("\n"));
}

#[test]
fn a_long_conversation_keeps_start_end_and_where_it_failed() {
    let (package, disk) = disk(10, 40);
    let reading = reading::build(Language::English, &package, Tokens(12_000), &disk);
    let trace = reading.pieces.iter().find(|piece| piece.what == What::Trace).unwrap();
    for (turn, is_there) in [(1, true), (20, true), (40, true), (10, false), (30, false)] {
        assert_eq!(trace.text.contains(&format!("user 第{turn}轮")), is_there, "{turn}");
    }
    assert!(trace.text.contains("left out …]"));
    assert!(trace.text.contains(&trace.path));
}

#[test]
fn a_reading_is_in_the_language_of_its_reader() {
    let (package, disk) = disk(10, 40);
    for budget in [2_000, 5_000, 12_000] {
        let reading = reading::build(Language::Chinese, &package, Tokens(budget), &disk);
        let text = reading.text();
        assert!(text.contains("问题报告") && text.contains("有删节"), "{text}");
        let foreign = crate::one_language::foreign_words(&text, false);
        assert!(foreign.is_empty(), "{foreign:#?}");
        for mark in ["left out", "more characters"] {
            assert!(!text.contains(mark), "{budget}: {mark}");
        }
    }
}

#[test]
fn a_design_is_read_within_its_budget() {
    let mut files = BTreeMap::new();
    let package = read(&to_execute());
    for (_, _, path) in package.paths() {
        files.insert(path.to_owned(), "# 规则\nA rule with words.\n".repeat(2_000));
    }
    let disk = Disk { files, outside: None };
    for budget in [1_000, 5_000, 200_000] {
        let reading = reading::build(Language::English, &package, Tokens(budget), &disk);
        assert!(tokens::count(&reading.text()).0 <= budget);
        assert_eq!(reading.pieces.len(), 3);
        assert_eq!(reading.pieces.iter().all(|piece| piece.cut.is_none()), budget == 200_000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_reading_stays_within_every_budget(
        budget in 1_000u64..=200_000, count in 1usize..60, size in 1usize..60,
    ) {
        let (package, disk) = disk(count, size);
        let reading = reading::build(Language::English, &package, Tokens(budget), &disk);
        let text = reading.text();
        let real = tokens::count(&text);
        prop_assert!(real.0 <= budget, "{real:?} of {budget}");
        prop_assert_eq!(real, reading.tokens);
        prop_assert_eq!(reading.pieces.first().map(|piece| piece.what), Some(What::ProblemsReport));
        for piece in reading.pieces.iter().filter(|piece| piece.cut.is_some()) {
            let whole = format!("The whole is in `{}`", piece.path);
            prop_assert!(piece.text.contains(&whole), "{}", piece.text);
        }
        prop_assert_eq!(reading, reading::build(Language::English, &package, Tokens(budget), &disk));
    }

    #[test]
    fn hostile_files_stay_within_the_budget(
        budget in 1_000u64..=4_000, junk in "\\PC{0,400}", times in 1usize..200,
    ) {
        let (package, mut disk) = disk(3, 2);
        for text in disk.files.values_mut() {
            *text = junk.repeat(times);
        }
        let reading = reading::build(Language::English, &package, Tokens(budget), &disk);
        prop_assert!(tokens::count(&reading.text()).0 <= budget);
    }

    #[test]
    fn no_text_panics_the_reader(text in "\\PC{0,200}") {
        let _ = package::read(&text);
        let mut value = to_init();
        value["failure_samples_index"][0]["trace_path"] = json!(text);
        let _ = package::read(&value.to_string());
    }
}
