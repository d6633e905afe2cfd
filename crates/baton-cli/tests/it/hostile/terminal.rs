//! What reaches the terminal is text: no order to it, nothing that hides or turns other text around.

use std::process::Command;

use baton_core::text;
use baton_testkit::{Chat, call, calls};
use serde_json::{Value, json};

use super::{answering, calling, is_sweep};

const ORDERS: [&str; 25] = [
    "\u{1b}[2J",
    "\u{1b}[31mred",
    "\u{1b}[1A\u{1b}[2K",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]52;c;ZXZpbA==\u{7}",
    "\u{1b}]8;;http://evil\u{1b}\\here\u{1b}]8;;\u{1b}\\",
    "\u{1b}P+q\u{1b}\\",
    "\u{1b}c",
    "\u{1b}(0",
    "\u{9b}2J",
    "\u{9d}0;x\u{9c}",
    "\u{90}x\u{9c}",
    "\r",
    "\u{8}\u{8}\u{8}",
    "\u{7}",
    "\u{b}",
    "\u{7f}",
    "\u{85}",
    "\u{202e}evil\u{202c}",
    "\u{2066}evil\u{2069}",
    "\u{200b}",
    "\u{feff}",
    "\u{2028}",
    "\u{e0041}",
    "\u{1d173}",
];

/// The first character that a terminal could take for an order.
fn order(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let is_order = |c: char| {
        !matches!(c, '\n' | '\t') && (c.is_control() || (text::is_invisible(c) && c != '\u{fe0f}'))
    };
    let at = text.find(is_order)?;
    Some(text[at..].chars().take(40).collect::<String>().escape_debug().to_string())
}

fn assert_plain(name: &str, command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(order(&output.stdout), None, "{name}: stdout");
    assert_eq!(order(&output.stderr), None, "{name}: stderr");
    super::said(&output)
}

/// Calls with orders in every place that is shown.
fn hostile_calls() -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for order in ORDERS {
        all.extend([
            ("Read", json!({ "path": format!("{order}x") })),
            ("LS", json!({ "path": format!("a{order}") })),
            ("Glob", json!({ "pattern": format!("[{order}") })),
            ("Grep", json!({ "pattern": format!("({order}") })),
            ("Write", json!({ "path": format!("../{order}"), "content": order })),
            ("Write", json!({ "path": format!("n{}", order.replace('/', "")), "content": order })),
            ("Edit", json!({ "path": format!("{order}x"), "old_string": order, "new_string": "" })),
            ("Recall", json!({ "id": order })),
        ]);
    }
    all
}

#[test]
fn nothing_that_is_shown_is_an_order() {
    let everything = ORDERS.join(" then ");
    let mut answers: Vec<Value> = hostile_calls().chunks(40).map(calls).collect();
    let prints = ORDERS.iter().map(|order| {
        let octal: String = order.bytes().map(|byte| format!("\\{byte:03o}")).collect();
        ("Bash", json!({ "command": format!("printf '{octal}'; printf '{octal}' >&2; : {order}") }))
    });
    let prints: Vec<(&str, Value)> = prints.collect();
    answers.push(calls(&prints));
    answers.push(json!({ "role": "assistant", "content": everything }));
    for (arguments, what) in [(vec![], "text"), (vec!["--json"], "json")] {
        let place = answering(answers.clone());
        let mut args = arguments;
        args.extend(["exec", "-p", "Go.", "--steps", "100"]);
        let told = assert_plain(what, &mut place.command(&args));
        let end: String = told.chars().take(600).collect();
        assert!(told.contains(" then "), "{what}, not its last words: {end}");
        assert!(told.contains("\\u{1b}") || told.contains("\\u001b"), "{told}");
    }
    // A tool that nobody knows, three times.
    for order in if is_sweep() { &ORDERS[..] } else { &ORDERS[..6] } {
        let place = answering(vec![call(order, json!({ *order: order }))]);
        assert_plain("unknown tool", &mut place.command(&["exec", "-p", "Go."]));
        assert_plain("refusal", &mut place.command(&["exec", "-p", "Go.", "--protocol", "react"]));
    }
}

#[test]
fn names_titles_and_files_are_no_orders_either() {
    let all = ORDERS.join(" ");
    let mut cases: Vec<&str> =
        if is_sweep() { ORDERS.to_vec() } else { vec![ORDERS[0], ORDERS[9]] };
    cases.push(&all);
    for order in cases {
        let place = answering(vec![json!({ "role": "assistant", "content": order })]);
        assert!(place.plain(&["init"]).output().unwrap().status.success());
        let plan = format!(
            "## Milestone M1: {order}\n\n### M1-T1: {order}\n- status: TODO\n- {order}: x\n"
        );
        place.write("project/.baton/memory/dev_plan.md", plan);
        place.write(
            "project/.baton/memory/project_history.md",
            format!("## Iteration 1: {order}\n{order}\n"),
        );
        let name = format!("report{}.md", order.replace('/', ""));
        place.write(&format!("project/{name}"), format!("iteration: {order}\nverdict: {order}\n"));
        let all: [&[&str]; 9] = [
            &["status"],
            &["doctor"],
            &["plan", "check"],
            &["history", "show"],
            &["history", "window"],
            &["report", "check", &name],
            &["report", "check", "--json", &name],
            &["prompt", "MAIN", "--json"],
            &["log"],
        ];
        for args in all {
            assert_plain(&args.join(" "), &mut place.plain(args));
        }
    }
}

#[test]
fn a_run_shows_no_orders() {
    for order in if is_sweep() { &ORDERS[..] } else { &ORDERS[..4] } {
        let plan = format!("## Milestone M1: {order}\n\n### M1-T1: {order}\n- status: TODO\n");
        let decision = json!({ "next_agent": "DEV", "reason": order, "dev_plan": { "replace": plan }, "finish_review_override": null, "task": order });
        let say = |said: String| json!({ "role": "assistant", "content": said });
        let place = answering(vec![
            say(decision.to_string()),
            call("Bash", json!({ "command": format!("true {order}") })),
            say(format!("iteration: 1\nverdict: PASS\nblockers: none\n\n{order}\n")),
            say(format!("nonsense {order}")),
        ]);
        assert_plain("run", &mut place.command(&["run", &format!("Go {order}")]));
        assert_plain("status", &mut place.plain(&["status"]));
        assert_plain("log", &mut place.plain(&["log"]));
        let place = answering(vec![say(format!("nonsense {order}"))]);
        assert_plain("run as JSON", &mut place.command(&["run", "--json", "Go"]));
    }
}

/// At a real terminal, where a person is asked.
#[test]
fn a_question_at_the_terminal_shows_exactly_what_would_run() {
    let commands: Vec<String> = ORDERS
        .iter()
        .flat_map(|order| {
            [format!("touch ../canary {order}; ls"), format!("ls {order}\n  outside: false")]
        })
        .collect();
    let asked: Vec<(&str, Value)> =
        commands.iter().map(|command| ("Bash", json!({ "command": command }))).collect();
    let place = calling(&asked);
    let mut exec = Chat::begin_with(&place, &["exec", "-p", "Go.", "--approve", "ask"]);
    let mut shown = String::new();
    for _ in &commands {
        // What is typed before a question answers nothing.
        shown += &exec.expect("Run exactly this? [y/N] ");
        exec.write("n\n");
    }
    shown += &exec.expect("done");
    assert_eq!(exec.child.wait().unwrap().code(), Some(0));
    // The terminal itself ends a line with both.
    let shown = shown.replace("\r\n", "\n");
    assert_eq!(order(shown.as_bytes()), None, "{shown}");
    assert!(shown.contains("  command: touch ../canary ⟨1b⟩[2J; ls\n"), "{shown}");
    assert!(!shown.lines().any(|line| line.trim_end() == "  outside: false"), "{shown}");
    assert!(!place.path("canary").exists());
}
