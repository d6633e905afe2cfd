//! JSON and TOML with exact places.

use baton_core::config::Config;
use baton_core::document::{Document, Value};
use baton_core::policy::Policy;
use proptest::prelude::*;

use crate::common;

fn json_error(text: &str) -> String {
    Document::json(text)
        .map(|_| "accepted".to_owned())
        .unwrap_or_else(|problem| problem.to_string())
}

#[test]
fn every_json_fault_has_its_place() {
    let cases = [
        "",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "[1,]",
        "[1 2]",
        "nul",
        "tru",
        "NaN",
        "01",
        "-",
        "1.",
        "1e",
        "1e999",
        "\"abc",
        "\"a\nb\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "{\"a\":1,\n \"a\":2}",
        "{} {}",
        "{} x",
        "\u{feff}{} ",
        "[\"\\ud83d\\ude00\"]",
    ];
    let all: Vec<String> = cases
        .iter()
        .map(|case| format!("{:<24} {}", case.escape_debug().to_string(), json_error(case)))
        .collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn nesting_is_bounded() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Document::json(&deep(64)).is_ok());
    insta::assert_snapshot!(json_error(&deep(66)), @"1:66: the JSON is nested deeper than 64 levels");
    insta::assert_snapshot!(json_error(&deep(100_000)), @"1:66: the JSON is nested deeper than 64 levels");
    assert!(json_error(&" ".repeat(2 << 20)).contains("more than the 1048576 allowed"));
}

proptest! {
    /// Whatever serde_json writes we read as it does; whatever it refuses we refuse.
    #[test]
    fn json_agrees_with_serde_json(text in "[\\[\\]{}\":,0-9a-z\\\\ .eE+-]{0,40}") {
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        let ours = Document::json(&text);
        match (&theirs, &ours) {
            (Ok(theirs), Ok(ours)) => prop_assert!(same(theirs, &ours.root.value), "{text}"),
            // Duplicate keys are the one thing that we alone refuse.
            (Ok(_), Err(problem)) => prop_assert_eq!(problem.code, "json-duplicate-key"),
            (Err(_), Ok(_)) => prop_assert!(false, "only we accept {text}"),
            (Err(_), Err(_)) => {}
        }
    }

    #[test]
    fn json_strings_round_trip(value in any::<String>()) {
        let text = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(Document::json(&text).unwrap().root.value, Value::String(value));
    }
}

fn same(theirs: &serde_json::Value, ours: &Value) -> bool {
    match (theirs, ours) {
        (serde_json::Value::Null, Value::Null) => true,
        (serde_json::Value::Bool(a), Value::Bool(b)) => a == b,
        (serde_json::Value::Number(a), Value::Integer(b)) => {
            a.as_i128() == Some(*b)
                || a.as_f64().is_some_and(|a| (a - *b as f64).abs() <= a.abs() * 1e-15)
        }
        (serde_json::Value::Number(a), Value::Float(b)) => a.as_f64() == Some(*b),
        (serde_json::Value::String(a), Value::String(b)) => a == b,
        (serde_json::Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, &b.value))
        }
        (serde_json::Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && b.iter().all(|(key, b)| a.get(&key.name).is_some_and(|a| same(a, &b.value)))
        }
        _ => false,
    }
}

#[test]
fn an_overlay_replaces_fields_and_tells_which_file_is_wrong() {
    let below =
        Document::json(r#"{"a":{"x":1,"deep":{"p":1,"q":2}},"b":2}"#).unwrap().named("below.json");
    let top = Document::json(r#"{"a":{"x":5,"deep":{"p":9}}}"#).unwrap().named("top.json");
    let whole = below.overlaid(top, |path| !path.contains('.'));
    assert_eq!(whole.nearest_node("a.x").value, Value::Integer(5));
    assert_eq!(whole.nearest_node("b").value, Value::Integer(2));
    // Two levels: the map inside a section is one value.
    assert!(whole.root.get("a").unwrap().get("deep").unwrap().get("q").is_none());
    assert_eq!(whole.root.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

fn policy_problems(edit: impl Fn(&str) -> String) -> String {
    let text = edit(&common::pack("tdd", "en").policy.render());
    let read = Document::json(&text)
        .map_err(|problem| vec![problem])
        .and_then(|document| Policy::read(&document));
    let problems = read.expect_err("the policy must be refused");
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_wrong_policy_is_explained() {
    let cases: [(&str, &str, &str); 30] = [
        ("unknown key", "\"verdict_allowed\"", "\"verdict_alowed\""),
        ("wrong type", "\"require_verdict\": true", "\"require_verdict\": \"yes\""),
        ("verdict not allowed", "\"verdict_pass\": \"PASS\"", "\"verdict_pass\": \"PASSED\""),
        ("no passing verdict", "\"verdict_pass\": \"PASS\"", "\"verdict_pass\": []"),
        ("verdict twice", "\"verdict_fail\": \"FAIL\"", "\"verdict_fail\": [\"FAIL\", \"PASS\"]"),
        ("verdict without meaning", "\"verdict_blocked\": \"BLOCKED\"", "\"verdict_blocked\": []"),
        ("verdict of a number", "\"verdict_pass\": \"PASS\"", "\"verdict_pass\": 7"),
        ("empty prefix", "\"verdict_prefix\": \"verdict:\"", "\"verdict_prefix\": \" \""),
        ("prefix taken", "\"verdict_prefix\": \"verdict:\"", "\"verdict_prefix\": \"iteration：\""),
        ("prefixes alike", "\"blocker_prefix\": \"blockers:\"", "\"blocker_prefix\": \"verdict\""),
        (
            "clear value of two words",
            "\"blocker_clear_value\": [\n      \"none\",",
            "\"blocker_clear_value\": [\n      \"no blockers\",",
        ),
        ("agent name", "\"tester\": \"TEST\"", "\"tester\": \"tester\""),
        ("class name", "\"impl\": [", "\"Impl\": ["),
        ("reserved class", "\"spec\": [", "\"unknown\": ["),
        ("unknown class", "\"enter_on\": [\n      \"impl\"", "\"enter_on\": [\n      \"imp\""),
        ("final status unknown", "\"final\": \"VERIFIED\"", "\"final\": \"VERIFED\""),
        ("status of two words", "\"TODO\"", "\"TO DO\""),
        ("alias of nothing", "\"DOING\": \"IN_PROGRESS\"", "\"DOING\": \"PROGRESS\""),
        ("alias is a status", "\"DOING\": \"IN_PROGRESS\"", "\"DONE\": \"IN_PROGRESS\""),
        ("alias of nothing written", "\"DOING\": \"IN_PROGRESS\"", "\"\": \"IN_PROGRESS\""),
        ("alias of two words", "\"DOING\": \"IN_PROGRESS\"", "\"A B\": \"IN_PROGRESS\""),
        ("a verifier without a verdict", "\"apply_to\": [\n      \"TEST\",", "\"apply_to\": ["),
        ("fixer is the tester", "\"fixer\": \"DEV\"", "\"fixer\": \"TEST\""),
        ("sub-loop maximum", "\"max\": 3", "\"max\": 0"),
        ("milestone text", "FINISH attempt #{n}", "FINISH attempt"),
        ("milestone text of two lines", "first TEST PASS", "first\\nTEST PASS"),
        ("coverage", "\"min_coverage\": 80", "\"min_coverage\": 101"),
        ("finish attempts", "\"max_finish_attempts\": 3", "\"max_finish_attempts\": -3"),
        (
            "gate without command",
            "\"gates\": []",
            "\"gates\": [{\"on\": \"TEST\", \"run\": \" \", \"timeout\": 0}]",
        ),
        (
            "nobody verifies",
            "\"verified_by\": [\n      \"TEST\",\n      \"REVIEW\"\n    ]",
            "\"verified_by\": []",
        ),
    ];
    let mut all = Vec::new();
    for (name, from, to) in cases {
        let shown = policy_problems(|text| {
            assert!(text.contains(from), "{name}: the policy no longer holds {from}");
            text.replacen(from, to, 1)
        });
        all.push(format!("{name}\n  {}", shown.replace('\n', "\n  ")));
    }
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn every_wrong_configuration_shows_the_line_and_the_nearest_name() {
    let cases = [
        "pakc = \"tdd\"",
        "[context]\nlevle = 2",
        "[context]\nlevel = 4",
        "[context]\nlevel = \"2\"",
        "[features]\nsubloop = 1",
        "[agents.DEV]\nmodle = \"x\"",
        "[agents.dev]\nmodel = \"x\"",
        "context = 1",
        "[context",
        "a = 1\na = 2",
        "[context]\nmax_tokens = 1",
        "[limits]\niterations = -1",
        "[context]\nlevel = 0x2\nhistory_window = 2_000",
        "pack = 99999999999999999999",
        "[context]\nlevel = 1.5",
        "pack = 1979-05-27",
        "pack = inf",
    ];
    let read = |text: &str| match Document::toml(text)
        .map_err(|problem| vec![problem])
        .and_then(|doc| Config::read(&doc))
    {
        Ok(_) => "accepted".to_owned(),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "),
    };
    let all: Vec<String> =
        cases.iter().map(|case| format!("{}\n  {}", case.escape_debug(), read(case))).collect();
    insta::assert_snapshot!(all.join("\n"));
    let good = "pack = \"tdd\"\nlang = \"zh\"\n[features]\nfolding = false\n[context]\nmax_tokens = 9000\n[agents.DEV]\nexecutor = \"codex\"\n";
    let config = Config::read(&Document::toml(good).unwrap()).unwrap();
    assert!(!config.features.folding && config.features.subloop);
    assert_eq!(config.agents["DEV"].executor.as_deref(), Some("codex"));
}

#[test]
fn a_policy_of_the_older_shape_takes_the_rest_from_the_pack() {
    let own = r#"{"report_rules":{"apply_to":["TEST","DEV","REVIEW"],"require_verdict":true,"verdict_prefix":"结论：",
        "verdict_allowed":["PASS","FAIL","BLOCKED"],"blocker_prefix":"阻塞：","blocker_clear_value":"无"},
        "tdd_rules":{"test_first":true,"test_required_gate":true,"min_coverage":70}}"#;
    let below = baton_core::pack::policy_document(&common::pack_files("tdd"), "zh", "").unwrap();
    let whole = below.overlaid(Document::json(own).unwrap(), baton_core::policy::merges);
    let policy = Policy::read(&whole).unwrap();
    assert_eq!(policy.proof.unwrap().least_percent, 70);
    assert_eq!(policy.plan.final_status, "VERIFIED");
}

#[test]
fn a_project_may_lower_its_users_limits_and_never_raise_them() {
    let read = |text: &str| Config::read(&Document::toml(text).unwrap()).unwrap().limits;
    let users = read("[limits]\ndollars = 5.0\ntokens = 1000\nminutes = 60");
    let projects = read("[limits]\ndollars = 50.0\ntokens = 500\nstage_tokens = 9");
    // As the layers give it; the minutes are a flag's.
    let mut now = read("[limits]\ndollars = 50.0\ntokens = 500\nminutes = 90\nstage_tokens = 9");
    assert_eq!(now.keep_to(&users, &projects), ["dollars"]);
    assert_eq!((now.dollars, now.tokens, now.minutes), (Some(5.0), Some(500), Some(90)));
    assert_eq!(now.stage_tokens, Some(9), "where the user said nothing, the project may");
    // Where the user says nothing, the defaults are the user's.
    let projects = read("[limits]\niterations = 1000000\nstage_minutes = 10080");
    let mut now = projects.clone();
    assert_eq!(now.keep_to(&read(""), &projects), ["iterations", "stage_minutes"]);
    assert_eq!((now.iterations, now.stage_minutes), (50, 60));
    let mut now = projects.clone();
    let users = read("[limits]\niterations = 200");
    now.keep_to(&users, &projects);
    assert_eq!((now.iterations, now.stage_minutes), (200, 60));
    let lower = read("[limits]\niterations = 3\nstage_minutes = 5");
    let mut now = lower.clone();
    assert_eq!(now.keep_to(&users, &lower), [""; 0]);
    assert_eq!((now.iterations, now.stage_minutes), (3, 5));
    // A variable or a flag is above both.
    let mut now = read("[limits]\niterations = 500");
    assert_eq!(now.keep_to(&users, &projects), [""; 0]);
    assert_eq!(now.iterations, 500);
}

/// An object of the schema whose keys are fields, by its path; a map has other keys.
fn structs(
    schema: &serde_json::Value,
    node: &serde_json::Value,
    path: &str,
    out: &mut Vec<String>,
) {
    let of = |node: &serde_json::Value| -> serde_json::Value {
        let name = node["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
        name.map_or_else(|| node.clone(), |name| schema["$defs"][name].clone())
    };
    let mut choices = vec![of(node)];
    choices.extend(node["anyOf"].as_array().into_iter().flatten().map(of));
    for fields in choices.iter().filter_map(|node| node["properties"].as_object()) {
        out.push(path.to_owned());
        for (name, node) in fields {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            structs(schema, node, &path, out);
        }
    }
}

#[test]
fn policies_merge_where_the_schema_has_fields_and_not_in_maps() {
    let schema = serde_json::to_value(schemars::schema_for!(Policy)).unwrap();
    let mut merged = Vec::new();
    structs(&schema, &schema, "", &mut merged);
    assert!(merged.contains(&"context.orders".to_owned()), "{merged:?}");
    for path in &merged {
        assert!(baton_core::policy::merges(path), "{path}");
    }
    for map in ["report_rules.blocker_classes", "plan.aliases", "approval.files"] {
        assert!(!baton_core::policy::merges(map) && !merged.contains(&map.to_owned()), "{map}");
    }
}
