//! Lists of messages that every provider accepts, and calls that count.

use baton_core::message::{
    Answer, Message, Part, Role, Stop, ToolCall, ToolResult, Usage, check, tool_call,
};
use baton_core::messages::Language;

fn asks(ids: &[&str]) -> Message {
    let call = |id: &&str| {
        Part::ToolCall(ToolCall {
            id: (*id).to_owned(),
            name: "Read".to_owned(),
            arguments: serde_json::Map::new(),
        })
    };
    Message { role: Role::Assistant, parts: ids.iter().map(call).collect() }
}

fn answers(ids: &[&str]) -> Message {
    let result = |id: &&str| {
        Part::ToolResult(ToolResult {
            call_id: (*id).to_owned(),
            content: String::new(),
            is_error: false,
        })
    };
    Message { role: Role::User, parts: ids.iter().map(result).collect() }
}

#[test]
fn a_list_is_right_or_says_why_not() {
    let hello = || Message::user("hello");
    let cases: Vec<(&str, Vec<Message>)> = vec![
        ("empty", vec![]),
        ("a question", vec![hello()]),
        ("an answer", vec![hello(), Message::assistant("hi"), hello()]),
        ("two calls, results in any order", vec![hello(), asks(&["a", "b"]), answers(&["b", "a"])]),
        ("the assistant first", vec![Message::assistant("hi")]),
        ("two of a user", vec![hello(), hello()]),
        ("nothing in it", vec![Message { role: Role::User, parts: vec![] }]),
        ("a result too few", vec![hello(), asks(&["a", "b"]), answers(&["a"])]),
        ("a result too many", vec![hello(), asks(&["a"]), answers(&["a", "c"])]),
        ("a call without a result", vec![hello(), asks(&["a"])]),
        ("one id twice", vec![hello(), asks(&["a", "a"])]),
        ("one id in two messages", vec![hello(), asks(&["a"]), answers(&["a"]), asks(&["a"])]),
        ("the assistant last", vec![hello(), Message::assistant("hi")]),
        ("blank", vec![Message::user(" \n")]),
        (
            "text before a result",
            vec![hello(), asks(&["a"]), {
                let mut both = answers(&["a"]);
                both.parts.insert(0, Part::Text { text: "so".to_owned() });
                both
            }],
        ),
        (
            "an image",
            vec![
                serde_json::from_str(
                    r#"{"role":"user","parts":[{"type":"image","media_type":"image/png","data":"iVBO"}]}"#,
                )
                .unwrap(),
            ],
        ),
        (
            "a result of an assistant",
            vec![hello(), Message { role: Role::Assistant, ..answers(&["a"]) }],
        ),
    ];
    let shown = cases.iter().map(|(name, messages)| match check(messages) {
        Ok(()) => format!("{name}: right"),
        Err(problem) => format!("{name}: {problem}"),
    });
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_call_counts_only_when_it_is_whole() {
    let call = |arguments: &str| tool_call("id".to_owned(), "Read".to_owned(), arguments);
    assert_eq!(call("{\"a\":1}").unwrap().arguments["a"], 1);
    assert!(call("").unwrap().arguments.is_empty(), "no arguments are none");
    for broken in ["{\"a\":", "[1]", "null", "\"x\"", "{}{}", "nonsense"] {
        assert!(call(broken).is_err(), "{broken}");
    }
    assert!(tool_call(String::new(), "Read".to_owned(), "{}").is_err());
    assert!(tool_call("id".to_owned(), String::new(), "{}").is_err());
    let answer = Answer {
        id: "1".to_owned(),
        model: "m".to_owned(),
        parts: vec![
            Part::Text { text: "a".to_owned() },
            Part::ToolCall(call("{}").unwrap()),
            Part::Text { text: "b".to_owned() },
        ],
        broken_calls: Vec::new(),
        stop: Stop::ToolCalls,
        usage: Usage::default(),
    };
    assert_eq!((answer.text().as_str(), answer.tool_calls().count()), ("ab", 1));
    let read: Answer = serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap();
    assert_eq!(read, answer);
}

#[test]
fn a_broken_call_goes_back_as_words() {
    let broken = tool_call("id".to_owned(), "Write".to_owned(), "{\"path\":").unwrap_err();
    let answer = Answer {
        id: "1".to_owned(),
        model: "m".to_owned(),
        parts: Vec::new(),
        broken_calls: vec![broken],
        stop: Stop::ToolCalls,
        usage: Usage::default(),
    };
    let complaint = answer.complaint(Language::English);
    let complaint = complaint.into_iter().map(|text| Part::Text { text });
    let reply = Message { role: Role::User, parts: complaint.collect() };
    let Part::Text { text } = &reply.parts[0] else { panic!("{reply:?}") };
    insta::assert_snapshot!(text, @"Your call of `Write` was not run: the arguments are not JSON: EOF while parsing a value at line 1 column 8. Its arguments as they came: {\"path\":");
    assert_eq!(check(&[Message::user("hello"), answer.message(), reply.clone()]), Ok(()));
}

/// Objects in which a key is there twice, at any depth and however it is written.
const TWICE: [&str; 7] = [
    r#"{"path": "a", "path": "b"}"#,
    r#"{"path": "a", "p\u0061th": "b"}"#,
    r#"{"path": "a", "content": "x", "path": "a"}"#,
    r#"{"edits": [{"old_string": "a", "new_string": "b", "old_string": "c"}]}"#,
    r#"{"x": {"y": {"z": 1, "z": 2}}}"#,
    r#"{"x": [[{"a": null, "a": {}}]]}"#,
    r#"{"": 1, "": 2}"#,
];

#[test]
fn arguments_with_a_key_twice_are_no_call() {
    for arguments in TWICE {
        let why = tool_call("c1".into(), "Write".into(), arguments).unwrap_err().why;
        assert!(why.contains("is there twice at line 1 column"), "{arguments}: {why}");
        // What would run without the check: the last one counts.
        assert!(serde_json::from_str::<serde_json::Value>(arguments).is_ok());
        let told = baton_core::document::Document::json(arguments).unwrap_err();
        assert_eq!(told.code, "json-duplicate-key", "{arguments}");
    }
    let kept =
        r#"{"b": [1, -2, 3.5, 18446744073709551615], "a": {"b": null, "c": true}, "字": "x"}"#;
    let call = tool_call("c1".into(), "Write".into(), kept).unwrap();
    assert_eq!(
        serde_json::Value::from(call.arguments),
        serde_json::from_str::<serde_json::Value>(kept).unwrap()
    );
}
