//! The words that a model reads, and the form that its answers must have, by protocol.

use baton_testkit::{Place, call, text};
use serde_json::{Value, json};

fn system(place: &Place) -> String {
    place.model().requests()[0]["messages"][0]["content"].as_str().unwrap().to_owned()
}

fn finish(protocol: &str) -> Value {
    match protocol {
        "json" => text(r#"{"thought":"so","tool":"Finish","arguments":{"answer":"done"}}"#),
        "react" => text("Thought: so\nAction: Finish[done]"),
        _ => text("done"),
    }
}

fn asked(protocol: &str) -> Place {
    let place = crate::talk(vec![finish(protocol)]);
    place.expect(&["exec", "-p", "Go.", "--protocol", protocol], 0);
    place
}

#[test]
fn the_words_of_a_protocol_do_not_contradict_the_general_words() {
    let native = system(&asked("native"));
    assert!(native.contains("Then answer in plain text without a tool call: what you did"));
    assert!(native.contains("- One answer may have several calls"));
    for protocol in ["json", "react"] {
        let words = system(&asked(protocol));
        for false_here in ["plain text without a tool call", "several calls", "{{"] {
            assert!(!words.contains(false_here), "{protocol}: {words}");
        }
        assert!(words.contains("what you saw that proves it"), "{protocol}: {words}");
        assert!(words.contains("is refused, also as the last answer"), "{protocol}: {words}");
    }
    assert!(!native.contains("{{") && !native.contains("Finish"), "{native}");
}

#[test]
fn react_and_json_show_the_fields_inside_of_lists() {
    for protocol in ["json", "react"] {
        let words = system(&asked(protocol));
        for tool in [
            "TodoWrite(todos: array of {content: string, status: \"pending\"|\"in_progress\"|\"completed\"})",
            "MultiEdit(path: string, edits: array of {old_string: string, new_string: string, replace_all?: boolean})",
            "Read(path: string, from?: integer, lines?: integer)",
        ] {
            assert!(words.contains(tool), "{protocol}, {tool}: {words}");
        }
    }
}

#[test]
fn a_plain_last_answer_in_react_is_refused_with_the_way_to_end() {
    let place = crate::talk(vec![text("All is done."), finish("react")]);
    place.expect(&["exec", "-p", "Go.", "--protocol", "react"], 0);
    let requests = place.model().requests();
    let last = requests[1]["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(last.contains("there is no action"), "{last}");
    assert!(last.contains("To end the turn, write `Action: Finish[your answer]`"), "{last}");
}

/// Every object of a schema that names its properties.
fn objects<'a>(schema: &'a Value, found: &mut Vec<&'a Value>) {
    if schema["type"] == "object" {
        found.push(schema);
    }
    match schema {
        Value::Object(map) => map.values().for_each(|own| objects(own, found)),
        Value::Array(all) => all.iter().for_each(|own| objects(own, found)),
        _ => {}
    }
}

#[test]
fn every_object_of_every_schema_is_closed() {
    let json = asked("json");
    let format = json.model().requests()[0]["response_format"].clone();
    let native = asked("native");
    let tools = native.model().requests()[0]["tools"].clone();
    for (schema, count) in [(format, 24), (tools, 12)] {
        let mut found = Vec::new();
        objects(&schema, &mut found);
        assert_eq!(found.len(), count, "{schema}");
        for object in found {
            assert_eq!(object["additionalProperties"], false, "{object}");
        }
    }
}

#[test]
fn null_for_an_optional_argument_is_the_same_as_leaving_it_out() {
    let edit = json!({ "old_string": "a + b", "new_string": "b + a", "replace_all": null });
    let place = crate::talk(vec![
        call("LS", json!({ "path": null })),
        call("Read", json!({ "path": "src/lib.rs", "from": null, "lines": null })),
        call("Glob", json!({ "pattern": "**/*.rs", "path": null, "hidden": null })),
        call(
            "Grep",
            json!({ "pattern": "add", "path": null, "glob": null, "ignore_case": null, "hidden": null }),
        ),
        call("MultiEdit", json!({ "path": "src/lib.rs", "edits": [edit] })),
        call(
            "Edit",
            json!({ "path": "src/lib.rs", "old_string": "u8 {", "new_string": "u8  {", "replace_all": null }),
        ),
        // Null does not ask to leave the confinement.
        call("Bash", json!({ "command": "echo in", "timeout": null, "outside": null })),
        call("Recall", json!({ "id": "o1", "from": null, "lines": null })),
        // A required argument is still required, and an unknown one still unknown.
        call("Read", json!({ "path": null })),
        call("LS", json!({ "unconfined": null })),
        text("done"),
    ]);
    place.expect(&["exec", "-p", "Go."], 0);
    let codes: Vec<Value> =
        place.envelopes().iter().map(|envelope| envelope["error"]["code"].clone()).collect();
    let mut expected = vec![Value::Null; 8];
    expected.extend([json!("INVALID_ARGUMENTS"), json!("INVALID_ARGUMENTS")]);
    assert_eq!(codes, expected, "{:?}", place.envelopes());
    assert!(place.read("project/src/lib.rs").contains("b + a"));
}
