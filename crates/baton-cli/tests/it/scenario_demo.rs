//! The built-in scenario by the real binary: real HTTP to a target that is played by code, real tools
//! in real sandboxes, real files; and what is shown of them, with all that a hostile file may hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use baton_testkit::{Answer, answer, scrubbed};
use serde_json::{Value, json};
use tempfile::TempDir;

const OUTPUTS: &str = "scenarios/leave_application/execution_outputs";

fn baton(folder: &Path, words: &[&str]) -> Answer {
    answer(scrubbed(crate::BATON, folder, &folder.join("nobody")).args(words))
}

fn good(folder: &Path, words: &[&str]) -> String {
    let answer = baton(folder, words);
    answer.expect(words, 0);
    answer.out
}

fn as_json(folder: &Path, words: &[&str]) -> Value {
    let mut all = words.to_vec();
    all.push("--json");
    // A run tells its events first.
    let said = good(folder, &all);
    let values = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    values.last().unwrap().unwrap()
}

/// What an evaluation left that holds no time.
fn results(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.join(OUTPUTS)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                open.push(path);
            } else if !["layer1_problems_report.json", "execute_to_init.json", ".lock"]
                .contains(&name)
            {
                found.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn the_demo_fails_as_its_rules_let_it_and_passes_when_they_are_repaired() {
    let ground = TempDir::new().unwrap();
    for language in ["en", "zh"] {
        let (one, two) = (format!("{language}-1"), format!("{language}-2"));
        let demo =
            |name: &str| as_json(ground.path(), &["scenario", "demo", name, "--lang", language]);
        let done = demo(&one);
        assert_eq!(done["ok"], true, "{language}");
        let figures = |at: usize, name: &str| done["evaluations"][at][name].clone();
        let counted = |at| (figures(at, "passed_samples"), figures(at, "failed_samples"));
        assert_eq!(counted(0), (json!(9), json!(18)), "{language}");
        assert_eq!(counted(1), (json!(24), json!(3)), "{language}");
        assert_eq!(figures(0, "error_samples"), 0);
        let problems = figures(0, "problems");
        let problems: Vec<(&str, &str, u64)> = (problems.as_array().unwrap().iter())
            .map(|own| {
                let text = |name: &str| own[name].as_str().unwrap();
                (text("problem_id"), text("severity"), own["affected"].as_u64().unwrap())
            })
            .collect();
        let expected = [("L1P_001", "critical", 9), ("L1P_003", "high", 6), ("L1P_002", "high", 3)];
        assert_eq!(problems, expected, "{language}");
        assert_eq!(figures(1, "problems")[0]["problem_id"], "L1P_004", "{language}");
        let fixed = done["changes"]["fixed"].as_array().unwrap().len();
        assert_eq!((fixed, &done["changes"]["unchanged_failed"]), (15, &json!(3)), "{language}");
        went_the_whole_way(&ground.path().join(&one));
        demo(&two);
        let (first, second) =
            (results(&ground.path().join(one)), results(&ground.path().join(two)));
        assert_eq!(first.len(), 187, "{language}");
        assert_eq!(first, second, "{language}: twice the same");
    }
    let again = baton(ground.path(), &["scenario", "demo", "en-1"]);
    assert_eq!(again.code, 2, "a folder that holds something is left alone");
}

/// The person was asked twice, the package went back, and both packages hold.
fn went_the_whole_way(root: &Path) {
    let history = fs::read_to_string(root.join(".baton/memory/project_history.md")).unwrap();
    assert_eq!(history.matches("user_choice: approve").count(), 2, "{history}");
    let went_back = [
        "back to INIT: critical problems touch 9 of 18 failed samples",
        "退回 INIT：18 个未通过的样本中有 9 个涉及严重问题",
    ];
    assert!(went_back.iter().any(|line| history.contains(line)), "{history}");
    for (package, most) in [
        ("scenarios/leave_application/init_to_execute.json".to_owned(), 300),
        (format!("{OUTPUTS}/iteration_1/execute_to_init.json"), 5_000),
    ] {
        let checked = as_json(root, &["handoff", "check", &package]);
        assert!(checked["tokens"].as_u64().unwrap() < most, "{checked}");
    }
}

#[test]
fn a_diff_names_what_changed_and_what_it_could_not_read() {
    let ground = TempDir::new().unwrap();
    good(ground.path(), &["scenario", "demo", "demo"]);
    let root = ground.path().join("demo");
    let diff = ["scenario", "diff", "leave_application", "1", "2"];
    let text = good(&root, &diff);
    assert!(text.contains("15 fixed, 0 broken; unchanged: 9 passed, 3 failed"), "{text}");
    assert!(text.contains("BS_MT_003") && !text.contains("BS_MT_013"), "{text}");
    let back = as_json(&root, &["scenario", "diff", "leave_application", "2", "1"]);
    assert_eq!(back["changes"]["broken"].as_array().unwrap().len(), 15);
    let file = |id: &str| {
        root.join(OUTPUTS).join(format!("iteration_2/evaluation_results/{id}_eval.json"))
    };
    fs::write(file("BS_MT_001"), "{\"sample_id\":").unwrap();
    fs::remove_file(file("BS_MT_002")).unwrap();
    let text = good(&root, &diff);
    assert!(text.contains("iteration 2: BS_MT_001_eval.json cannot be read"), "{text}");
    assert!(text.contains("only in 1") && text.contains("2 gone"), "{text}");
    // One that is not over says so.
    fs::remove_file(root.join(OUTPUTS).join("iteration_2/failure_summary.json")).unwrap();
    assert!(good(&root, &diff).contains("iteration 2 is not over"));
    for words in [["leave_application", "1", "9"], ["nothing", "1", "2"]] {
        let refused = baton(&root, &["scenario", "diff", words[0], words[1], words[2]]);
        assert_eq!(refused.code, 2, "{words:?}");
    }
}

const HOSTILE: &str =
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{202e}\u{1b}[31m&amp;";

#[test]
fn the_page_shows_what_failed_and_nothing_in_it_comes_to_life() {
    let ground = TempDir::new().unwrap();
    good(ground.path(), &["scenario", "demo", "demo"]);
    let root = ground.path().join("demo");
    let page = || {
        let said = good(&root, &["scenario", "report", "--iteration", "1", "--html", "page.html"]);
        assert!(said.contains("page.html"), "{said}");
        fs::read_to_string(root.join("page.html")).unwrap()
    };
    let plain = page();
    for wanted in [
        "33.3%",
        "It is not said when the balance is deducted",
        "expected 7.0, found 6.999999999999997",
        "a checker failed here",
        "Final state",
        "id=\"s-BS_MT_003\"",
        "prefers-color-scheme:dark",
    ] {
        assert!(plain.contains(wanted), "{wanted}");
    }
    assert_eq!(plain.matches("<details class=\"case\"").count(), 18);
    assert_eq!(plain.matches("<details").count(), plain.matches("</details>").count());
    assert_eq!(plain.matches("<div").count(), plain.matches("</div>").count());
    // Every text of every file is somebody else's.
    let folder = root.join(OUTPUTS).join("iteration_1");
    let mut open = vec![folder.clone()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let mut value: Value = serde_json::from_str(&text).unwrap();
        poison(&mut value, "");
        fs::write(&path, value.to_string()).unwrap();
    }
    let page = page();
    assert!(page.matches("&lt;script&gt;").count() > 500);
    for forbidden in ["<script", "<img", "\u{202e}", "\u{1b}", "http-equiv=\"refresh"] {
        assert!(!page.contains(forbidden), "{forbidden:?}");
    }
    assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    // Long ones are cut, and it is said where the whole is.
    let trace = folder.join("execution_traces/BS_MT_001_trace.json");
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&trace).unwrap()).unwrap();
    value["conversation_history"][0]["content"] = "long ".repeat(100_000).into();
    fs::write(&trace, value.to_string()).unwrap();
    fs::write(folder.join("execution_traces/BS_MT_003_trace.json"), "no JSON").unwrap();
    let cut = self::fs::read_to_string({
        good(&root, &["scenario", "report", "--iteration", "1", "--html", "page.html"]);
        root.join("page.html")
    });
    let cut = cut.unwrap();
    assert!(cut.len() < page.len() + 10_000 && cut.contains("more characters in <code>"));
    assert!(cut.contains("BS_MT_001_trace.json") && cut.contains("not shown:"));
}

/// Adds hostile words to every text that no rule of the format is about.
fn poison(value: &mut Value, name: &str) {
    match value {
        Value::String(text) => {
            let is_bound = ["role", "severity", "status", "sample_id", "generated_at", "scenario"];
            if !is_bound.contains(&name) && !name.ends_with("_samples") && !name.ends_with("_id") {
                text.push_str(HOSTILE);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|own| poison(own, name)),
        Value::Object(map) => map.iter_mut().for_each(|(name, own)| poison(own, name)),
        _ => {}
    }
}

#[test]
fn a_page_of_many_failures_shows_the_first_and_says_where_the_others_are() {
    let ground = TempDir::new().unwrap();
    good(ground.path(), &["scenario", "demo", "demo"]);
    let root = ground.path().join("demo");
    let file = root.join(OUTPUTS).join("iteration_1/failure_summary.json");
    let mut summary: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let one = summary["failures"][0].clone();
    let many = (0..10_000).map(|number| {
        let mut own = one.clone();
        own["sample_id"] = format!("S_{number:05}").into();
        own
    });
    summary["failures"].as_array_mut().unwrap().extend(many);
    summary["total_samples"] = json!(10_027);
    summary["failed_samples"] = json!(10_018);
    fs::write(&file, summary.to_string()).unwrap();
    good(&root, &["scenario", "report", "--iteration", "1", "--html", "page.html"]);
    let page = fs::read_to_string(root.join("page.html")).unwrap();
    assert_eq!(page.matches("<details class=\"case\"").count(), 200);
    assert!(page.contains("9818 more failed samples are not shown here"));
    assert!(page.contains("iteration_1/failure_summary.json") && page.len() < 4_000_000);
}
