//! The requests of the agent as text that a reader can judge without the code: each tool's results and
//! refusals, each protocol, and a conversation after a fold, at the next turn and after a compaction.
//! The snapshots are in `snapshots/it__seen__*.snap`.

use std::fmt::Write as _;

use baton_testkit::{Model, Place, call, calls, saying, text};
use serde_json::{Value, json};

const RECORD: &str = "## 📌 Archived Session Summary\n*(Contains context from 10:00 to 11:00)*\n\n### 🎯 Objectives & Status\n* **Original Goal**: fix the parser\n\n### 🏗️ Technical Context (Static)\n* **Stack**: Python\n\n### ✅ Completed Milestones (The \"Done\" Pile)\n* [✓] read parser.py - done\n\n### 🧠 Key Insights & Decisions (Persistent Memory)\n* **Decisions**: none\n\n### 📂 File System State (Snapshot)\n* `parser.py`: nothing yet";

/// Fifty long lines, the first in red.
const LONG_OUTPUT: &str = "printf '\\033[31mred\\033[0m\\n'; for i in $(seq 2 50); do printf 'line %s %0240d\\n' $i 0; done";

/// A source file whose lines have their numbers in them.
fn source(name: &str, lines: usize) -> String {
    let line = |at: usize| match at % 10 {
        1 => format!("def {name}_{at}(text, start):"),
        0 => String::new(),
        _ => format!("    value_{at} = scan_{name}(text, start + {at})"),
    };
    (1..=lines).map(|at| line(at) + "\n").collect()
}

fn place(answers: Vec<Value>) -> Place {
    let place = Place::of_agent(crate::BATON, counting(answers));
    place.write("project/parser.py", source("parse", 60));
    place.write("project/lexer.py", source("lex", 60));
    place.write("project/说明.md", "# 说明\n\n第一行 parse_1\n");
    place.write("project/blob.bin", [0_u8, 159, 146, 150]);
    place
}

/// A model that counts its requests as a provider does, and hands over or sums up when it is asked.
fn counting(answers: Vec<Value>) -> Model {
    let at = std::sync::atomic::AtomicUsize::new(0);
    Model::answering(move |_, asked| {
        let body = asked.body.to_string();
        let mut answer = if body.contains("Your window is nearly full") {
            text(
                r#"{"current_state":"parser.py is fixed","findings":"","decisions":"","pending_work":"tests","key_paths":"parser.py"}"#,
            )
        } else if body.contains("You write the archive of a conversation") {
            text(RECORD)
        } else {
            let at = at.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            answers.get(at).or(answers.last()).unwrap().clone()
        };
        if answer["refusal"].is_null() {
            answer["prompt_tokens"] = json!(body.chars().count() / 4);
        }
        answer
    })
}

/// A request as its messages, the tools left out.
fn shown(request: &Value, place: &Place) -> String {
    let mut out = String::new();
    for message in request["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap();
        let words = message["content"].as_str().unwrap_or_default();
        let words = if role == "system" { without_facts(words) } else { words.to_owned() };
        writeln!(out, "<{role}>").unwrap();
        if !words.is_empty() {
            writeln!(out, "{}", words.trim_end()).unwrap();
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let (name, arguments) = (&function["name"], &function["arguments"]);
            writeln!(out, "→ {} {}", name.as_str().unwrap(), arguments.as_str().unwrap()).unwrap();
        }
    }
    out.replace(place.root().to_str().unwrap(), "FOLDER")
}

fn without_facts(words: &str) -> String {
    let Some(at) = words.find("- this conversation began: ") else { return words.to_owned() };
    let end = words[at..].find("\n\n").map_or(words.len(), |end| at + end);
    format!("{}- FACTS OF THE MACHINE{}", &words[..at], &words[end..])
}

/// The messages from the first user on.
fn conversation(request: &Value, place: &Place) -> String {
    let all = shown(request, place);
    all[all.find("<user>").unwrap()..].to_owned()
}

fn read(path: &str) -> Value {
    call("Read", json!({ "path": path }))
}

#[test]
fn results_and_refusals_of_every_tool() {
    let edit =
        |old: &str, new: &str| json!({ "path": "parser.py", "old_string": old, "new_string": new });
    let place = place(vec![
        call("LS", json!({})),
        calls(&[
            ("Glob", json!({ "pattern": "*.py" })),
            ("Grep", json!({ "pattern": "def parse_[23]1", "path": "parser.py" })),
            ("Grep", json!({ "pattern": "nothing_like_this" })),
            ("Grep", json!({ "pattern": "value_2[23] " })),
        ]),
        calls(&[
            ("Read", json!({ "path": "parser.py", "from": 1, "lines": 12 })),
            ("Read", json!({ "path": "parser.py", "from": 1, "lines": 20 })),
            ("Read", json!({ "path": "parser.py", "from": 500 })),
            ("Read", json!({ "path": "missing.py" })),
            ("Read", json!({ "path": "blob.bin" })),
            ("Read", json!({ "path": "../secret" })),
            ("Read", json!({ "path": "说明.md" })),
        ]),
        call(
            "Edit",
            edit(
                "    value_12 = scan_parse(text, start + 12)",
                "    value_12 = 0\n    value_13 = 1",
            ),
        ),
        call("Edit", edit("text, start", "text, begin")),
        call("Edit", edit("no such text", "x")),
        call("Edit", json!({ "path": "lexer.py", "old_string": "lex", "new_string": "x" })),
        call(
            "MultiEdit",
            json!({ "path": "parser.py", "edits": [
                { "old_string": "def parse_1(", "new_string": "def first(" },
                { "old_string": "    value_59 = scan_parse(text, start + 59)\n", "new_string": "" },
            ] }),
        ),
        call("Read", json!({ "path": "parser.py", "from": 1, "lines": 20 })),
        call("Write", json!({ "path": "new.py", "content": "a = 1\nb = 2\n" })),
        call("Write", json!({ "path": ".git/config", "content": "x" })),
        call("Bash", json!({ "command": "echo one; echo two >&2; exit 3" })),
        call("Bash", json!({ "command": "true" })),
        call(
            "Bash",
            json!({ "command": "sed -i 's/value_2 /value_two /' lexer.py; echo changed" }),
        ),
        call("Bash", json!({ "command": LONG_OUTPUT })),
        call("Recall", json!({ "id": "o24", "from": 20, "lines": 2 })),
        call("Recall", json!({ "id": "o6", "from": 3, "lines": 2 })),
        call("Recall", json!({ "id": "o99" })),
        call("Recall", json!({ "id": "u1" })),
        call(
            "TodoWrite",
            json!({ "todos": [{ "content": "test it, 测试", "status": "pending" }] }),
        ),
        call("Read", json!({ "lines": 5 })),
        call("Fly", json!({})),
        text("Done."),
    ]);
    place.expect(&["exec", "-p", "Look at @parser.py and @missing.py."], 0);
    let requests = place.model().requests();
    insta::assert_snapshot!("tools", conversation(requests.last().unwrap(), &place));
}

#[test]
fn the_words_and_results_of_each_protocol() {
    for (protocol, answers) in [
        ("native", vec![read("说明.md"), text("Done.")]),
        (
            "json",
            vec![
                text(r#"{"thought":"look","tool":"Read","arguments":{"path":"说明.md"}}"#),
                text("Read it."),
                text(r#"{"thought":"so","tool":"Finish","arguments":{"answer":"Done."}}"#),
            ],
        ),
        (
            "react",
            vec![
                text("Thought: look\nAction: Read[{\"path\":\"说明.md\"}]"),
                text("Read it."),
                text("Thought: so\nAction: Finish[Done.]"),
            ],
        ),
    ] {
        let place = place(answers);
        place.expect(&["exec", "-p", "What is in it?", "--protocol", protocol], 0);
        let requests = place.model().requests();
        insta::assert_snapshot!(
            format!("protocol_{protocol}"),
            shown(requests.last().unwrap(), &place)
        );
    }
}

/// A session that outgrows a small window: readings, an edit, failing tests, a search, a Recall.
fn long_session() -> Vec<Value> {
    let failing = "for i in $(seq 1 60); do echo \"tests/test_parse.py::test_$i PASSED\"; done; echo 'E   AssertionError: parse_21 returned None'; echo 'tests/test_parse.py:12: AssertionError'; echo '1 failed, 60 passed in 0.3s'; exit 1";
    vec![
        read("parser.py"),
        saying("I look at scan_lex and lex_31 in lexer.py.", "Read", json!({ "path": "lexer.py" })),
        call("Bash", json!({ "command": failing })),
        call("Grep", json!({ "pattern": "value_[1-4]", "path": "." })),
        call(
            "Edit",
            json!({ "path": "parser.py", "old_string": "    value_22 = scan_parse(text, start + 22)", "new_string": "    value_22 = scan_parse(text, start)\n    check(value_22)" }),
        ),
        read("missing.py"),
        call("Recall", json!({ "id": "o1", "from": 20, "lines": 5 })),
        saying(
            "Line 33 of lexer.py is where lex_31 goes wrong.",
            "Read",
            json!({ "path": "说明.md" }),
        ),
        call("Bash", json!({ "command": LONG_OUTPUT })),
        call("Bash", json!({ "command": LONG_OUTPUT.replace("50", "49") })),
        call("Bash", json!({ "command": LONG_OUTPUT.replace("50", "48") })),
        text("The parser is fixed. One test fails still."),
    ]
}

fn configured(answers: Vec<Value>, profile: &str) -> Place {
    let place = place(answers);
    place.write("home/.config/baton/baton.toml", format!("[profiles.chat]\n{profile}"));
    place
}

#[test]
fn a_conversation_after_a_fold_and_at_the_next_turn() {
    let answers = [long_session(), vec![text("That is all.")]].concat();
    let place = configured(answers, "compact_at = 10000\n");
    place.expect(&["exec", "-p", "Fix the parser, 修好它."], 0);
    place.expect(&["exec", "-c", "-p", "What did you find?"], 0);
    let requests = place.model().requests();
    let is_folded = |request: &&Value| request.to_string().contains("[folded o");
    let folded = requests.iter().find(is_folded).unwrap();
    insta::assert_snapshot!("after_a_fold", conversation(folded, &place));
    insta::assert_snapshot!("the_next_turn", conversation(requests.last().unwrap(), &place));
}

#[test]
fn a_conversation_after_a_handover_inside_of_a_turn() {
    let place =
        configured(long_session(), "compact_at = 6000\nstrategy = \"handover\"\nkeep_recent = 2\n");
    place.expect(&["exec", "-p", "Fix the parser, 修好它."], 0);
    let requests = place.model().requests();
    let asks = |request: &&Value| request.to_string().contains("Your window is nearly full");
    let asked = requests.iter().position(|request| asks(&request)).unwrap();
    let last = requests[asked]["messages"].as_array().unwrap().last().unwrap();
    insta::assert_snapshot!("handover_request", last["content"].as_str().unwrap());
    insta::assert_snapshot!("after_a_handover", conversation(&requests[asked + 1], &place));
}

#[test]
fn a_conversation_after_an_archive() {
    let turn = |part: usize| {
        let command = format!("seq {part}001 {part}020");
        let said = format!("Part {part} is done. {}", format!("It has {part} rules. ").repeat(200));
        [call("Bash", json!({ "command": command })), text(&said)]
    };
    let answers: Vec<Value> = (1..=9).flat_map(turn).collect();
    let place = configured(answers, "compact_at = 6000\nkeep_recent = 1\n");
    for part in 1..=9 {
        let words = format!("Do part {part}, 第 {part} 部分.");
        let first = ["exec", "-p", &words];
        let next = ["exec", "-c", "-p", &words];
        place.expect(if part == 1 { &first } else { &next }, 0);
    }
    let requests = place.model().requests();
    let asks = |request: &&Value| request.to_string().contains("You write the archive");
    let asked = requests.iter().find(asks).unwrap();
    insta::assert_snapshot!("archive_request", without_known(&shown(asked, &place)));
    let after =
        requests.iter().find(|request| request.to_string().contains("A record of an older part"));
    insta::assert_snapshot!("after_an_archive", shown(after.unwrap(), &place));
}

/// Without the times of the day and what is known of the machine.
fn without_known(text: &str) -> String {
    let (before, rest) = text.split_once("Start Time: ").unwrap();
    let (_, after) = rest.split_once("</known>").unwrap();
    format!("{before}Start Time: …\nCutoff Time: …\nFACTS OF THE MACHINE\n</known>{after}")
}
