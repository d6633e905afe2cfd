//! `--read-only`: an agent that changes nothing, neither by its file tools nor by commands.

use baton_testkit::{Chat, Place, call, text};
use serde_json::{Value, json};

/// Commands that try to change the project, and one that uses its temporary folder.
fn answers() -> Vec<Value> {
    vec![
        call("Bash", json!({ "command": "rm src/lib.rs" })),
        call("Bash", json!({ "command": "echo x > new" })),
        call("Bash", json!({ "command": "git add -A" })),
        call(
            "Bash",
            json!({ "command": "echo kept > \"$TMPDIR/own\" && cat \"$TMPDIR/own\" src/lib.rs" }),
        ),
        text("done"),
    ]
}

fn assert_unchanged(place: &Place) {
    let envelopes = place.envelopes();
    for envelope in &envelopes[..3] {
        assert_ne!(envelope["data"]["exit"], 0, "{envelope}");
        assert!(envelope["data"]["stderr"].to_string().contains("Read-only"), "{envelope}");
    }
    assert_eq!(envelopes[3]["data"]["exit"], 0, "{}", envelopes[3]);
    let stdout = envelopes[3]["data"]["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("kept\npub fn add"), "{stdout}");
    assert!(place.read("project/src/lib.rs").contains("a + b"));
    assert!(!place.path("project/new").exists());
}

/// The words of a tool, as the model gets them.
fn description(place: &Place, tool: &str) -> Option<String> {
    let request = &place.model().requests()[0];
    let tools = request["tools"].as_array().unwrap().iter();
    let mut found = tools.filter(|own| own["function"]["name"] == tool);
    found.next().map(|own| own["function"]["description"].as_str().unwrap().to_owned())
}

#[test]
fn commands_of_a_read_only_exec_cannot_change_the_project() {
    let place = crate::talk(answers());
    place.expect(&["exec", "-p", "Go.", "--read-only"], 0);
    assert_unchanged(&place);
    let words = description(&place, "Bash").unwrap();
    assert!(words.contains("the project is read-only"), "{words}");
    assert!(!words.contains("may write the project"), "{words}");
    assert_eq!(description(&place, "Write"), None);
    // Without the flag the model reads the opposite.
    let place = crate::talk(vec![text("done")]);
    place.expect(&["exec", "-p", "Go."], 0);
    let words = description(&place, "Bash").unwrap();
    assert!(words.contains("may write the project"), "{words}");
    assert!(!words.contains("read-only"), "{words}");
}

#[test]
fn commands_of_a_read_only_chat_cannot_change_the_project_also_outside_of_the_confinement() {
    let mut all = answers();
    all.insert(4, call("Bash", json!({ "command": "echo x > outside", "outside": true })));
    let place = crate::talk(all);
    let mut chat = Chat::begin_with(&place, &["chat", "--read-only"]);
    chat.expect("›");
    chat.write("go\r");
    chat.expect("[y/N]");
    chat.write("y\r");
    chat.expect("done");
    chat.expect("›");
    chat.write("\u{4}");
    assert!(chat.child.wait().unwrap().success());
    let told = place.model().requests().pop().unwrap()["messages"].to_string();
    assert_eq!(told.matches("Read-only file system").count(), 4, "{told}");
    assert!(place.read("project/src/lib.rs").contains("a + b"));
    for name in ["new", "outside"] {
        assert!(!place.path("project").join(name).exists(), "{name}");
    }
}

#[test]
fn a_read_only_exec_without_the_sandbox_leaves_the_project_read_only() {
    let place = crate::talk(vec![call("Bash", json!({ "command": "rm src/lib.rs" })), text("x")]);
    place.expect(&["exec", "-p", "Go.", "--read-only", "--no-sandbox"], 0);
    assert_ne!(place.envelopes()[0]["data"]["exit"], 0);
    assert!(place.path("project/src/lib.rs").exists());
}

#[test]
fn the_help_of_read_only_tells_what_commands_may_write() {
    let place = crate::talk(Vec::new());
    for verb in ["exec", "chat"] {
        let help = place.expect(&[verb, "--help"], 0);
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("--read-only Change nothing: no edits, and commands"), "{help}");
        assert!(help.contains("may write only $TMPDIR"), "{help}");
    }
}
