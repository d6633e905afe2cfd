//! Questions at a terminal: only what is typed after a question answers it, and of a paste only the
//! first line.

use baton_testkit::{Chat, Place, calls, text};
use serde_json::{Value, json};

/// What somebody typed who did not know yet what would be asked.
const TYPED: [&str; 8] =
    ["y\n", "yes\n", "Y\nY\nY\n", "\ny\n", "n\ny\n", "1\n", "y", "a\nb\n\n1\ny\nyes\n"];

fn outside(file: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": format!("touch ../{file}"), "outside": true }))
}

#[test]
fn what_was_typed_before_a_command_was_shown_does_not_agree_to_it() {
    for typed in TYPED {
        let place = crate::talk(vec![calls(&[outside("ran")]), text("all done")]);
        let mut exec = Chat::begin_after(&place, &["exec", "-p", "Go."], typed);
        exec.expect("Run exactly this? [y/N] ");
        exec.write("n\n");
        exec.expect("all done");
        assert_eq!(exec.child.wait().unwrap().code(), Some(0));
        assert!(!place.path("ran").exists(), "{typed:?}");
    }
    // The control: typed after the question it agrees.
    let place = crate::talk(vec![calls(&[outside("ran")]), text("all done")]);
    let mut exec = Chat::begin_with(&place, &["exec", "-p", "Go."]);
    exec.expect("Run exactly this? [y/N] ");
    exec.write("y\n");
    exec.expect("all done");
    assert!(place.path("ran").exists());
}

#[test]
fn the_rest_of_a_paste_does_not_answer_the_next_question() {
    for (paste, first) in [("y\ny\ny\n", true), ("n\ny\n", false), ("\ny\nyes\n", false)] {
        let place = crate::talk(vec![
            calls(&[outside("first")]),
            calls(&[outside("second")]),
            text("all done"),
        ]);
        let mut exec = Chat::begin_with(&place, &["exec", "-p", "Go."]);
        exec.expect("Run exactly this? [y/N] ");
        exec.write(paste);
        exec.expect("touch ../second");
        exec.expect("Run exactly this? [y/N] ");
        assert!(!place.path("second").exists());
        exec.write("n\n");
        exec.expect("all done");
        assert_eq!(place.path("first").exists(), first, "{paste:?}");
        assert!(!place.path("second").exists(), "{paste:?}");
    }
}

fn question() -> Value {
    let option = |id: &str| json!({ "option_id": id, "description": id.to_uppercase() });
    let question = json!({ "title": "Which?", "text": "A or B", "options": [option("a"), option("b")], "recommended_option_id": "b" });
    text(&json!({ "next_agent": "USER", "reason": "which?", "dev_plan": null, "finish_review_override": null, "question": question }).to_string())
}

#[test]
fn what_was_typed_before_a_question_of_a_run_does_not_answer_it() {
    for typed in ["1\n", "a\n", "\n", "b now\n", "2\n2\n"] {
        let place = crate::talk(vec![question()]);
        let mut run = Chat::begin_after(&place, &["run", "Go."], typed);
        run.expect("Enter to decide later): ");
        run.write("maybe\n1\n");
        // Not by the second line of the paste, either.
        run.expect("`maybe` is not an option");
        run.expect("Enter to decide later): ");
        run.write("\n");
        run.expect("Waiting for your answer (question 1)");
        assert_eq!(run.child.wait().unwrap().code(), Some(10), "{typed:?}");
        let history = place.read("project/.baton/memory/project_history.md");
        assert!(!history.contains("user_choice"), "{typed:?}: {history}");
    }
}

#[test]
fn what_was_typed_before_trust_and_gates_were_shown_does_not_agree_to_them() {
    let plain = |place: &Place| {
        for name in ["trust.json", "setups.json"] {
            assert!(!place.path("home/.local/share/baton").join(name).exists());
        }
    };
    let place = crate::talk(vec![]);
    assert!(place.plain(&["init", "--no-gates"]).output().unwrap().status.success());
    let file = "project/.baton/memory/verification_policy.json";
    let mut policy: Value = serde_json::from_str(&place.read(file)).unwrap();
    policy["gates"] = json!([{ "on": "FINISH", "run": "touch ../ran" }]);
    place.write(file, policy.to_string());
    let mut trust = Chat::begin_plain_after(&place, &["trust"], "y\nyes\n");
    trust.expect("Agree? [y/N] ");
    trust.write("\n");
    trust.expect("not agreed to:");
    trust.child.wait().unwrap();
    plain(&place);
    let place = crate::talk(vec![]);
    place.write("project/Makefile", "test:\n\ttouch ../ran\n");
    let mut init = Chat::begin_plain_after(&place, &["init"], "y\ny\n");
    init.expect("Run and add now? [y/N] ");
    init.write("\n");
    init.expect("no gate is set");
    init.child.wait().unwrap();
    plain(&place);
}

/// A question that is open does not keep a process that is asked to stop.
#[test]
fn one_request_to_stop_ends_an_open_question_and_nothing_was_agreed_to() {
    use rustix::process::{Pid, Signal, kill_process};
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let place = crate::talk(vec![calls(&[outside("ran")]), text("all done")]);
        let mut exec = Chat::begin_with(&place, &["exec", "-p", "Go."]);
        exec.expect("Run exactly this? [y/N] ");
        kill_process(Pid::from_child(&exec.child), signal).unwrap();
        exec.expect("interrupted");
        assert_eq!(exec.child.wait().unwrap().code(), Some(10));
        assert!(!place.path("ran").exists());
    }
}
