//! The coding agent by the real binary, against a scripted model over real HTTP: real files, real
//! commands, the real confinement.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::{Chat, Model, Place, call, calls, text};
use serde_json::{Value, json};

/// A request with everything that differs from run to run masked.
fn masked(request: &Value, place: &Place) -> String {
    let mut text = serde_json::to_string_pretty(request).unwrap();
    text = text.replace(place.root().to_str().unwrap(), "FOLDER");
    let mut out = String::new();
    let mut rest = text.as_str();
    // Times of files.
    while let Some(at) = rest.find("mtime\\\":") {
        let (before, after) = rest.split_at(at + "mtime\\\":".len());
        out.push_str(before);
        out.push_str("TIME");
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out.push_str(rest);
    // What is known of the machine.
    if let Some(at) = out.find("- this conversation began: ") {
        let ends = ["\\n\\n", "\\n\"", "\","].map(|end| out[at..].find(end));
        let end = ends.into_iter().flatten().min().unwrap_or(0);
        out.replace_range(at..at + end, "- FACTS");
    }
    out
}

fn system(request: &Value) -> String {
    request["messages"][0]["content"].as_str().unwrap().to_owned()
}

/// Forty steps with every tool.
fn forty_steps() -> Vec<Value> {
    let mut all = vec![
        call(
            "TodoWrite",
            json!({ "todos": [
            { "content": "find the bug", "status": "in_progress" },
            { "content": "mend it, 修好", "status": "pending" },
            { "content": "run the tests", "status": "pending" },
        ] }),
        ),
        call("LS", json!({})),
        call("LS", json!({ "path": "src" })),
        call("Glob", json!({ "pattern": "**/*.rs" })),
        call("Grep", json!({ "pattern": "fn add" })),
        calls(&[
            ("Read", json!({ "path": "src/lib.rs" })),
            ("Read", json!({ "path": "src/long.rs", "from": 10, "lines": 5 })),
            ("Grep", json!({ "pattern": "number_\\d+0\\b", "path": "src/long.rs" })),
        ]),
        call(
            "Edit",
            json!({ "path": "src/lib.rs", "old_string": "a + b", "new_string": "a.saturating_add(b)" }),
        ),
        call(
            "MultiEdit",
            json!({ "path": "src/long.rs", "edits": [
            { "old_string": "number_7()", "new_string": "number_seven()" },
            { "old_string": "number_9()", "new_string": "number_nine()" },
        ] }),
        ),
        call("Write", json!({ "path": "tests/add.rs", "content": "#[test]\nfn adds() {}\n" })),
        call(
            "Bash",
            json!({ "command": "seq 1 3000; sleep 0.2; echo 'error: one thing' >&2; exit 3" }),
        ),
        call("Recall", json!({ "id": "o12", "from": 2000, "lines": 3 })),
        call("Bash", json!({ "command": "printf 'Use spaces.\\n' > CODE_LAW.md" })),
    ];
    for number in all.len()..40 {
        all.push(call("Bash", json!({ "command": format!("echo step {number}") })));
    }
    all.push(text("Forty steps are done."));
    all.push(text("And that was the second turn."));
    all
}

#[test]
fn forty_steps_with_every_tool_and_what_the_model_sees_of_them() {
    let place = crate::talk(forty_steps());
    place.write("project/CODE_LAW.md", "Use tabs.\n");
    let long: String =
        (0..800).map(|n| format!("pub fn number_{n}() -> u32 {{ {n} }}\n")).collect();
    place.write("project/src/long.rs", long);
    let said = place.expect(&["exec", "-p", "Mend @src/lib.rs", "--json"], 0);
    let reply: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&reply["text"], &reply["steps"]), (&json!("Forty steps are done."), &json!(41)));
    assert!(place.read("project/src/lib.rs").contains("a.saturating_add(b)"));
    assert!(place.read("project/src/long.rs").contains("number_nine()"));
    place.expect(&["exec", "--continue", "-p", "And now?"], 0);

    let requests = place.model().requests();
    assert_eq!(requests.len(), 42);
    for (number, request) in requests.iter().enumerate() {
        assert_eq!(request["tools"], requests[0]["tools"], "L1 of request {number}");
        let law = if number < 12 { "Use tabs." } else { "Use spaces." };
        let (words, rules) = system(request).split_once("The project's rules").map(owned).unwrap();
        assert_eq!(words, system(&requests[0]).split_once("The project's rules").unwrap().0);
        assert!(rules.contains(law), "L2 of request {number}: {rules}");
        let messages = request["messages"].as_array().unwrap();
        let history = serde_json::to_string(&messages[1..]).unwrap();
        assert!(!history.contains("The project's rules"), "L2 entered the history");
    }
    // Whole in its turn, short in the next.
    let results = |request: &Value| -> Vec<String> {
        let messages = request["messages"].as_array().unwrap().iter();
        let results = messages.filter(|message| message["role"] == "tool");
        results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    };
    let (whole, kept) = (results(&requests[40]), results(&requests[41]));
    assert_eq!((whole.len(), kept.len()), (42, 42));
    assert!(whole[11].contains(" are left out here; Recall o12 from="), "{}", whole[11]);
    assert!(kept[11].len() < whole[11].len() / 4, "{}", kept[11]);
    assert!(kept[11].contains("error: one thing") && kept[11].starts_with("[o12] Bash: "));
    for (whole, kept) in whole.iter().zip(&kept) {
        assert!(kept.len() <= whole.len(), "{kept}");
    }
    // Which stream came first in the file is not said.
    assert!(whole[12].contains("2000\n2001"), "recalled: {}", whole[12]);
    insta::assert_snapshot!("first_request", masked(&requests[0], &place));
    insta::assert_snapshot!("middle_request", masked(&requests[9], &place));
    insta::assert_snapshot!("request_of_the_next_turn", masked(&requests[41], &place));
}

#[test]
fn what_a_command_changed_is_told_by_what_is_in_the_files() {
    let commands = [
        (
            "echo 'a = 2' > a.py; echo new > b.py; rm c.py",
            "it changed a.py; created b.py; deleted c.py",
        ),
        // The same content again, with another time.
        ("cp a.py t; rm a.py; mv t a.py; touch src/lib.rs", "exit 0, no output"),
        ("mkdir -p __pycache__; echo x > __pycache__/a.pyc", "exit 0, no output"),
        (
            "echo y > __pycache__/b.pyc; echo 3 > b.py",
            "it changed b.py; touched 1 file of caches or builds",
        ),
    ];
    let bash = |command: &str| call("Bash", json!({ "command": command }));
    let mut answers = vec![call("Read", json!({ "path": "src/lib.rs" }))];
    answers.extend(commands.iter().map(|(command, _)| bash(command)));
    answers.push(call("Recall", json!({ "id": "o1" })));
    answers.push(call(
        "Edit",
        json!({ "path": "src/lib.rs", "old_string": "a + b", "new_string": "b + a" }),
    ));
    answers.push(text("Done."));
    let place = crate::talk(answers);
    place.write("project/a.py", "a = 1\n");
    place.write("project/c.py", "c = 1\n");
    place.expect(&["exec", "-p", "Go."], 0);
    let last = place.model().requests().pop().unwrap();
    let results = last["messages"].as_array().unwrap().iter().filter(|own| own["role"] == "tool");
    let results: Vec<&str> = results.map(|own| own["content"].as_str().unwrap()).collect();
    for ((_, expected), result) in commands.iter().zip(&results[1..]) {
        assert!(result.lines().next().unwrap().ends_with(expected), "{expected}: {result}");
    }
    // It was touched, and is still the file that was read.
    assert!(!results[5].contains("changed since"), "{}", results[5]);
    assert!(results[6].starts_with("[o7] Edit src/lib.rs: changed lines: 2"), "{}", results[6]);
}

fn owned((a, b): (&str, &str)) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn layer_one_and_the_first_request_are_small() {
    let place = crate::talk(vec![text("Nothing to do.")]);
    place.expect(&["exec", "-p", "Look."], 0);
    let request = &place.model().requests()[0];
    let count = |text: &str| baton_core::tokens::count(text).0;
    let (tools, words) = (request["tools"].to_string(), system(request));
    let layer = count(&tools) + count(&words);
    assert!(layer < 2_500, "L1 has {layer} tokens");
    assert!(count(&request.to_string()) < 3_500);
    println!("L1 {layer} tokens, of them {} tools", count(&tools));
}

#[test]
fn what_cannot_be_understood_is_told_to_the_model_and_never_run() {
    // Three in a row end the turn.
    let broken = json!({ "role": "assistant", "content": null, "tool_calls": [{ "index": 0, "id": "x1", "type": "function", "function": { "name": "Bash", "arguments": "{\"command\": \"touch canary" } }] });
    let unknown = call("Bish", json!({ "command": "touch canary" }));
    let wrong = call("Bash", json!({ "cmd": "touch canary", "command": 7 }));
    let place = crate::talk(vec![broken, unknown, wrong, text("never asked")]);
    let said = place.expect(&["exec", "-p", "Go."], 3);
    assert!(said.contains("3 actions in a row that could not be understood"), "{said}");
    assert!(!place.path("project/canary").exists());
    let requests = place.model().requests();
    assert_eq!(requests.len(), 3);
    let told = requests[1]["messages"].to_string();
    assert!(told.contains("was not run"), "{told}");
    assert!(requests[2]["messages"].to_string().contains("Did you mean Bash?"));
    // Two, then a right one: the count begins again.
    let wrong = || call("Read", json!({}));
    let right = || call("LS", json!({}));
    let place =
        crate::talk(vec![wrong(), wrong(), right(), wrong(), wrong(), right(), text("done")]);
    place.expect(&["exec", "-p", "Go."], 0);
}

#[test]
fn limits_stop_the_turn_with_exit_4_and_it_goes_on_when_asked() {
    let step = || call("Bash", json!({ "command": "echo again" }));
    let place = crate::talk(vec![step(), step(), step(), text("done")]);
    let said = place.expect(&["exec", "-p", "Go.", "--steps", "3"], 4);
    assert!(said.contains("all 3 steps of the turn are used up"), "{said}");
    assert!(place.expect(&["exec", "-p", "Go on.", "--continue"], 0).contains("done"));
    let place = crate::talk(vec![step(), step(), text("done")]);
    let said = place.expect(&["exec", "-p", "Go.", "--budget-tokens", "100"], 4);
    assert!(said.contains("the budget of 100 tokens would be exceeded"), "{said}");
    assert_eq!(place.model().requests().len(), 0, "what would exceed it does not start");
}

#[test]
fn edits_refuse_what_somebody_else_changed_and_many_are_all_or_nothing() {
    let place = crate::talk(vec![
        call("Write", json!({ "path": "src/lib.rs", "content": "gone" })),
        call("Read", json!({ "path": "src/lib.rs" })),
        call("Bash", json!({ "command": "sleep 0.02; echo '// changed' >> src/lib.rs" })),
        call("Edit", json!({ "path": "src/lib.rs", "old_string": "a + b", "new_string": "a" })),
        call("Write", json!({ "path": "src/lib.rs", "content": "gone" })),
        call("Read", json!({ "path": "src/lib.rs" })),
        call(
            "MultiEdit",
            json!({ "path": "src/lib.rs", "edits": [
            { "old_string": "a + b", "new_string": "b + a" },
            { "old_string": "is not there", "new_string": "" },
        ] }),
        ),
        call("Edit", json!({ "path": "src/lib.rs", "old_string": "u8", "new_string": "u16" })),
        call(
            "Edit",
            json!({ "path": "src/lib.rs", "old_string": "u8", "new_string": "u16", "replace_all": true }),
        ),
        call("Edit", json!({ "path": "src/lib.rs", "old_string": "a + b", "new_string": "b + a" })),
        text("done"),
    ]);
    place.expect(&["exec", "-p", "Go."], 0);
    let codes: Vec<Value> =
        place.envelopes().iter().map(|envelope| envelope["error"]["code"].clone()).collect();
    let expected = [
        json!("NOT_READ"),
        json!(null),
        json!(null),
        json!("CHANGED"),
        json!("CHANGED"),
        json!(null),
        json!("NOT_FOUND"),
        json!("NOT_UNIQUE"),
        json!(null),
        json!(null),
    ];
    assert_eq!(codes, expected);
    // The agent's own command did it, and its result said so.
    assert_eq!(place.envelopes()[5]["data"]["note"], Value::Null);
    assert_eq!(
        place.read("project/src/lib.rs"),
        "pub fn add(a: u16, b: u16) -> u16 {\n    b + a\n}\n// changed\n"
    );
}

#[test]
fn killed_in_the_middle_of_a_command_it_goes_on_and_the_command_is_unknown() {
    // No other process on this machine sleeps as long.
    let sleep = format!("sleep 3141.{:08}", std::process::id());
    let place = crate::talk(vec![
        call("Bash", json!({ "command": format!("echo once >> counter; touch reached; {sleep}") })),
        text("It is unknown."),
    ]);
    let args = ["exec", "-p", "Go."];
    let mut child =
        place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it does not begin", &|| place.path("project/reached").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    until("what it had started lives on", &|| !is_running(&sleep));
    let steps = place.steps();
    assert_eq!(steps.last().unwrap()["step"], "started", "{steps:?}");
    let said = place.expect(&["exec", "--continue", "-p", "What happened?"], 0);
    assert!(said.contains("It is unknown."), "{said}");
    assert_eq!(place.read("project/counter"), "once\n", "it was not run again");
    assert_eq!(place.envelopes()[0]["error"]["code"], "UNKNOWN", "the agent is told");
}

fn until(what: &str, done: &dyn Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The sandbox of the next command is made while the model thinks.
#[test]
fn what_waits_for_the_next_command_ends_with_the_agent() {
    let launchers = |pid: u32| running(&format!("baton-sandbox {pid} ")).len();
    let act = || call("Bash", json!({ "command": "echo x >> counter; ls .git" }));
    let place = crate::talk(vec![act(), act(), act(), text("Done.")]);
    let before: Vec<PathBuf> = files(&place.path("project/.git"));
    let mut child = place.command(&["exec", "-p", "Go."]).stderr(Stdio::null()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(launchers(child.id()), 0);
    assert_eq!(place.read("project/counter"), "x\nx\nx\n");
    assert_eq!(files(&place.path("project/.git")), before);
    // Killed while it waits for the model.
    let slow = |index: usize| std::thread::sleep(Duration::from_secs(600 * u64::from(index > 0)));
    let place = Place::of_agent(
        crate::BATON,
        Model::answering(move |index, _| {
            slow(index);
            call("Bash", json!({ "command": "echo x >> counter" }))
        }),
    );
    let mut child = place.command(&["exec", "-p", "Go."]).stderr(Stdio::null()).spawn().unwrap();
    let counter = place.path("project/counter");
    until("nothing waits", &|| counter.exists() && launchers(child.id()) == 3);
    child.kill().unwrap();
    child.wait().unwrap();
    until("it lives on", &|| launchers(child.id()) == 0);
    assert_eq!(fs::read_to_string(counter).unwrap(), "x\n");
}

fn files(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn a_torn_transcript_is_cut_and_said_and_a_damaged_one_is_refused() {
    let place = crate::talk(vec![text("one"), text("two")]);
    place.expect(&["exec", "-p", "Go."], 0);
    let whole = fs::read(place.transcript()).unwrap();
    fs::write(place.transcript(), [&whole[..], b"0000012d 5c2"].concat()).unwrap();
    let said = place.expect(&["exec", "--continue", "-p", "Go on."], 0);
    assert!(said.contains("a torn step of 12 bytes was cut off") && said.contains("two"), "{said}");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fs::write(place.transcript(), flipped).unwrap();
    let said = place.expect(&["exec", "--continue", "-p", "Go on."], 1);
    assert!(said.contains("is damaged at step"), "{said}");
    assert!(said.contains("without --continue a new conversation begins"), "{said}");
}

fn is_running(command: &str) -> bool {
    running(command).iter().any(|line| line == command)
}

/// The command lines that begin so.
fn running(command: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.map(|entry| {
        let own = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&own).replace('\0', " ").trim().to_owned()
    });
    lines.filter(|line| line.starts_with(command)).collect()
}

#[test]
fn the_other_protocols_do_the_same_work() {
    let steps = [
        ("Read", json!({ "path": "src/lib.rs" })),
        ("Edit", json!({ "path": "src/lib.rs", "old_string": "a + b", "new_string": "b + a" })),
        ("Bash", json!({ "command": "grep -c 'b + a' src/lib.rs" })),
    ];
    let json_answers = steps.iter().map(|(tool, arguments)| {
        text(&json!({ "thought": "next", "tool": tool, "arguments": arguments }).to_string())
    });
    let finish =
        json!({ "thought": "done", "tool": "Finish", "arguments": { "answer": "all done" } });
    let json_answers = json_answers.chain([text(&finish.to_string())]).collect();
    let react_answers = steps.iter().map(|(tool, arguments)| {
        text(&format!("Thought: next\nAction: {tool}[{arguments}]\nObservation: invented"))
    });
    let react_answers =
        react_answers.chain([text("Thought: done\nAction: Finish[all [done]]")]).collect();
    for (protocol, answers, last) in
        [("json", json_answers, "all done"), ("react", react_answers, "all [done]")]
    {
        let answers: Vec<Value> = answers;
        let place = crate::talk(answers);
        let said = place.expect(&["exec", "-p", "Go.", "--protocol", protocol], 0);
        assert!(said.starts_with(last), "{said}");
        assert!(place.read("project/src/lib.rs").contains("b + a"), "{protocol}");
        assert_eq!(place.envelopes()[2]["data"]["stdout"], "1", "{protocol}");
        let requests = place.model().requests();
        assert!(requests[0].get("tools").is_none(), "{protocol}");
        assert_eq!(requests[0].get("response_format").is_some(), protocol == "json");
        let messages = requests[1]["messages"].to_string();
        assert!(messages.contains("[tool] [o1] ") && !messages.contains("invented"), "{messages}");
    }
}

#[test]
fn an_act_outside_needs_a_persons_yes() {
    let outside = call("Bash", json!({ "command": "touch ../canary", "outside": true }));
    let inside = call("Bash", json!({ "command": "touch ../canary" }));
    let place = crate::talk(vec![outside, inside, text("done")]);
    place.expect(&["exec", "-p", "Go."], 0);
    let envelopes = place.envelopes();
    assert_eq!(envelopes[0]["error"]["code"], "DENIED", "{envelopes:?}");
    assert!(envelopes[1]["data"]["stderr"].as_str().unwrap().contains("Read-only"));
    assert!(!place.path("canary").exists());
    let place =
        crate::talk(vec![call("Write", json!({ "path": "x", "content": "x" })), text("done")]);
    place.expect(&["exec", "-p", "Go.", "--approve", "ask"], 0);
    assert_eq!(place.envelopes()[0]["error"]["code"], "DENIED");
    assert!(!place.path("project/x").exists());
}

#[test]
fn a_chat_asks_stops_and_goes_on() {
    let place = crate::talk(vec![
        call("Bash", json!({ "command": "touch ../outside\t\u{202e}", "outside": true })),
        call("Bash", json!({ "command": "touch ../agreed", "outside": true })),
        text("Both were \u{1b}[31masked\u{1b}[0m. 好"),
        call("Bash", json!({ "command": "touch begun; sleep 600" })),
        text("It was stopped."),
    ]);
    let mut chat = Chat::begin(&place);
    chat.expect("›");
    chat.write("do it\r");
    // Exactly what will run: nothing in it is hidden.
    chat.expect("OUTSIDE of the confinement");
    chat.expect("touch ../outside⟨9⟩⟨202e⟩");
    chat.expect("[y/N]");
    chat.write("yea\r");
    chat.expect("the person said no");
    chat.expect("touch ../agreed");
    chat.expect("[y/N]");
    chat.write("y\r");
    chat.expect("Both were \\u{1b}[31masked");
    assert!(place.path("agreed").exists() && !place.path("outside\t\u{202e}").exists());
    chat.expect("›");
    chat.write("/context\r");
    chat.expect("L1 tools");
    chat.expect("›");
    chat.write("/nonsense\r");
    chat.expect("there is no command /nonsense");
    chat.expect("›");
    chat.write("and now?\r");
    until("it does not begin", &|| place.path("project/begun").exists());
    let pid = chat.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    chat.expect("[stopped]");
    chat.expect("›");
    chat.write("what was that?\r");
    chat.expect("It was stopped.");
    chat.expect("›");
    chat.write("\u{4}");
    assert!(chat.child.wait().unwrap().success());
    let last = place.model().requests().pop().unwrap();
    assert!(last["messages"].to_string().contains("STOPPED"), "the model is told");
}

#[test]
fn what_is_wrong_is_said_before_anything_begins() {
    let place = crate::talk(vec![text("never")]);
    assert!(place.expect(&["exec", "-p", " "], 2).contains("what is the task?"));
    assert!(place.expect(&["exec", "-p", "x", "--continue"], 2).contains("no conversation"));
    assert!(place.expect(&["chat"], 2).contains("chat needs a terminal"));
    assert_eq!(place.model().requests().len(), 0);
}

#[test]
fn a_wrong_answer_to_a_question_at_the_terminal_is_asked_for_again() {
    let question = |title: &str| {
        let option = |id: &str| json!({ "option_id": id, "description": id.to_uppercase() });
        let question = json!({ "title": title, "text": "A or B", "options": [option("a"), option("b")], "recommended_option_id": "b" });
        text(&json!({ "next_agent": "USER", "reason": "which?", "dev_plan": null, "finish_review_override": null, "question": question }).to_string())
    };
    let place = crate::talk(vec![question("First?"), question("Second?")]);
    let mut run = Chat::begin_with(&place, &["run", "Go."]);
    run.expect("[1] MAIN asks you: First?");
    run.expect("2. b: B (recommended)");
    run.expect("Answer (1-2 or name, optional comment; Enter to decide later):");
    run.write("maybe\n");
    run.expect("`maybe` is not an option; answer 1-2 or `a`, `b`");
    run.expect("Answer (1-2 or name");
    run.write("1 as you like\n");
    run.expect("[1] answered: a");
    run.expect("[2] MAIN asks you: Second?");
    run.expect("Answer (1-2 or name");
    // An empty line leaves it open.
    run.write("\n");
    run.expect("Waiting for your answer (question 2)");
    assert_eq!(run.child.wait().unwrap().code(), Some(10));
    let history = place.read("project/.baton/memory/project_history.md");
    assert!(history.contains("- user_choice: a\n- user_comment: as you like"), "{history}");
}
