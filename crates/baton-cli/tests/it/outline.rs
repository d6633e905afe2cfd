//! `baton debug compact`: what a compaction would do to a conversation, without a model.

use baton_testkit::{Answer, Place, answer_to};
use serde_json::{Value, json};

/// Two turns: twelve readings, then a question about them.
fn conversation() -> Value {
    let file = |step: usize| {
        let line = |number: usize| format!("{number}\t文件 {step}, line {number} of it");
        (1..60).map(line).collect::<Vec<_>>().join("\n")
    };
    let mut messages = vec![
        json!({ "role": "system", "content": "You are an agent." }),
        json!({ "role": "user", "content": "修好 parser.py" }),
    ];
    for step in 0..12 {
        let arguments = json!({ "path": format!("part_{step}.py") }).to_string();
        let call = json!({ "id": format!("c{step}"), "type": "function",
            "function": { "name": "Read", "arguments": arguments } });
        messages.push(json!({ "role": "assistant", "content": "", "tool_calls": [call] }));
        let id = format!("c{step}");
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": file(step) }));
    }
    messages.push(json!({ "role": "assistant", "content": "I have read all of it." }));
    messages.push(json!({ "role": "user", "content": "What is wrong?" }));
    json!(messages)
}

fn compact(arguments: &[&str], input: &str) -> Answer {
    let place = Place::new(crate::BATON);
    let all = [&["debug", "compact"], arguments].concat();
    answer_to(place.command(&all), input.as_bytes())
}

fn shown(arguments: &[&str]) -> Value {
    let all = [arguments, &["--json"]].concat();
    compact(&all, &conversation().to_string()).json()
}

#[test]
fn whole_turns_leave_an_archive_and_the_user_s_words_stay() {
    let outline = shown(&["--strategy", "archive", "--keep", "1"]);
    // One finished turn stays with the current one: nothing is left that could leave.
    assert_eq!(outline["cut"], 0, "{outline}");
    let out = compact(&["--strategy", "handover", "--keep", "3"], &conversation().to_string()).out;
    assert!(out.contains("instructions, left alone: 1 message (1)"), "{out}");
    assert!(out.contains("[u1] 修好 parser.py") && out.contains("o1 Read part_0.py"), "{out}");
}

#[test]
fn every_message_has_a_fate_and_the_cut_is_where_they_begin_to_stay() {
    let outline = shown(&["--strategy", "handover", "--keep", "2"]);
    let fates = outline["fates"].as_array().unwrap();
    let count = conversation().as_array().unwrap().len();
    assert_eq!((fates.len(), &outline["messages"]), (count, &json!(count)));
    let cut = usize::try_from(outline["cut"].as_u64().unwrap()).unwrap();
    assert_eq!(fates[0], "apart");
    assert!(fates[1..cut].iter().all(|fate| fate == "leaves"), "{outline}");
    assert!(fates[cut..].iter().all(|fate| fate != "leaves"), "{outline}");
    let tokens = |key: &str| outline["tokens"][key].as_u64().unwrap();
    assert!(tokens("after") < tokens("before") / 2, "{outline}");
}

#[test]
fn below_the_threshold_nothing_leaves_and_it_says_so() {
    let answer = compact(&["--compact-at", "50000"], &conversation().to_string());
    assert_eq!(answer.code, 0);
    assert!(answer.out.starts_with("Nothing leaves: it has about "), "{}", answer.out);
}

#[test]
fn what_is_no_conversation_is_refused_with_a_way_on() {
    for (input, words) in
        [("[]", "conversation"), ("{\"a\":", "cannot be read"), ("Hello.", "expected")]
    {
        let answer = compact(&[], input);
        assert_eq!(answer.code, 3, "{input}: {}", answer.errors);
        assert!(answer.errors.contains(words), "{input}: {}", answer.errors);
    }
}
