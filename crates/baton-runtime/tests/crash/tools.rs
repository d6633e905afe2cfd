//! Each tool of the built-in agent, cut off before its intent is written, between intent and act, and
//! between act and result: an act whose result nobody knows is UNKNOWN and never runs again by itself.
//! The model never repeats a step here, so that a second act can only be Baton's own.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use baton_core::turn::Room;
use baton_runtime::executor::Builtin;
use serde_json::{Value, json};

use crate::agent::with;
use crate::reference::{FAILED, FINISHED};
use crate::sweep::{child, command, each, fresh};
use baton_testkit::{Model, call, text};

/// Every act leaves a line where no fault reaches, or another file in the place of the old one.
fn steps() -> Vec<(&'static str, Value)> {
    vec![
        ("Read", json!({ "path": "lib.rs" })),
        ("Write", json!({ "path": "written.rs", "content": "// written\n" })),
        (
            "Edit",
            json!({ "path": "lib.rs", "old_string": "fn add() {}", "new_string": "fn add() { /* 改 */ }" }),
        ),
        (
            "MultiEdit",
            json!({ "path": "many.rs", "edits": [{ "old_string": "one", "new_string": "1" }, { "old_string": "two", "new_string": "2" }] }),
        ),
        ("Bash", json!({ "command": BASH })),
        ("LS", json!({ "path": "." })),
        ("Glob", json!({ "pattern": "*.rs" })),
        ("Grep", json!({ "pattern": "add" })),
        ("TodoWrite", json!({ "todos": [{ "content": "the rest", "status": "pending" }] })),
        ("Recall", json!({ "id": "o1" })),
    ]
}

/// Where the plan wants it, it waits in its middle.
const BASH: &str = "echo began >> ../counter; \
    if [ -e ../plan ]; then rm ../plan; sleep 1000; fi; echo ended >> ../counter";

/// The tools that change something, and the file that each replaces.
const ACTS: [(&str, &str); 4] =
    [("Write", "written.rs"), ("Edit", "lib.rs"), ("MultiEdit", "many.rs"), ("Bash", "")];

pub(crate) fn executor(folder: &Path) -> Builtin {
    let log = folder.join("requests");
    let model = Model::answering(move |_, asked| {
        let mut file = fs::File::options().create(true).append(true).open(&log).unwrap();
        writeln!(file, "{}", asked.body["messages"]).unwrap();
        let messages = asked.body["messages"].as_array().unwrap();
        let results = messages.iter().filter(|message| message["role"] == "tool").count();
        match steps().into_iter().nth(results) {
            Some((tool, arguments)) => call(tool, arguments),
            None => text("iteration: 1\nverdict: PASS\nblockers: none\n\nM1-T1\n"),
        }
    });
    with(model, Room::default())
}

fn prepare() -> tempfile::TempDir {
    let folder = fresh();
    fs::write(folder.path().join("project/many.rs"), "// one two\n").unwrap();
    fs::write(folder.path().join("counter"), "").unwrap();
    folder
}

/// What the act of a tool has done by now: it differs after each act.
fn effect(folder: &Path, tool: &str) -> String {
    match ACTS.into_iter().find(|(own, _)| *own == tool) {
        None => String::new(),
        Some((_, "")) => fs::read_to_string(folder.join("counter")).unwrap(),
        // A tool replaces a file by another one.
        Some((_, file)) => {
            let found = fs::metadata(folder.join("project").join(file));
            found.map_or_else(|_| "none".to_owned(), |own| own.ino().to_string())
        }
    }
}

/// The results as the model saw them last.
fn last_results(folder: &Path) -> Vec<String> {
    let log = fs::read_to_string(folder.join("requests")).unwrap();
    let last: Vec<Value> = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let results = last.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].to_string()).collect()
}

/// Resumes to the end: `unknown` is the only step whose result is not known.
fn check(folder: &Path, unknown: Option<&str>, what: &str) {
    let output = child(folder, "small-tools-none", 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(FINISHED), "{what}: {said}");
    let results = last_results(folder);
    assert_eq!(results.len(), steps().len(), "{what}: {results:?}");
    for ((tool, _), result) in steps().iter().zip(&results) {
        let is_unknown = result.contains("UNKNOWN");
        assert_eq!(is_unknown, unknown == Some(*tool), "{what}, {tool}: {result}");
    }
}

/// For each tool the number of the point at which its intent is on the disk and nothing is done.
fn begun() -> Vec<(String, u64)> {
    let folder = prepare();
    let output = child(folder.path(), "small-tools-tell", 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(FINISHED), "{said}");
    let steps = steps();
    let mut names = steps.iter().map(|(name, _)| *name);
    let heard = said.lines().filter_map(|line| line.strip_prefix("heard ")?.split_once(' '));
    let all: Vec<(String, u64)> = heard
        .filter_map(|(point, words)| {
            let name = words.split(' ').next().unwrap();
            let is_tool = steps.iter().any(|(own, _)| *own == name);
            is_tool.then(|| (name.to_owned(), point.parse().unwrap()))
        })
        .collect();
    assert!(all.iter().all(|(name, _)| names.next() == Some(name.as_str())), "{said}");
    assert_eq!(all.len(), steps.len(), "{said}");
    assert!(last_results(folder.path()).iter().all(|own| !own.contains("error")), "{said}");
    all
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Intent,
    Act,
    Result,
}

pub(crate) fn no_act_of_a_tool_runs_twice() {
    let mut cases = Vec::new();
    for (tool, point) in begun() {
        let is_act = ACTS.iter().any(|(own, _)| *own == tool);
        for fault in ["kill", "full"] {
            // The intent is written and synced: each with a point before and after it. What only
            // reads has none.
            let places: &[(Before, u64)] = match is_act {
                true => &[(Before::Intent, 4), (Before::Act, 1), (Before::Result, 0)],
                false => &[(Before::Result, 0)],
            };
            for (place, back) in places {
                cases.push((tool.clone(), fault, *place, point - back));
            }
        }
    }
    assert_eq!(cases.len(), 4 * 3 * 2 + 6 * 2);
    each(&cases, |(tool, fault, place, point)| {
        let what = format!("{tool}: {fault} {place:?}");
        let folder = prepare();
        let before = effect(folder.path(), tool);
        let output = child(folder.path(), &format!("small-tools-{fault}"), *point);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match *fault {
            "kill" => assert_eq!(output.status.signal(), Some(9), "{what}: {said}"),
            _ => assert_eq!(output.status.code(), Some(FAILED), "{what}: {said}"),
        }
        let is_act = ACTS.iter().any(|(own, _)| own == tool);
        let then = effect(folder.path(), tool);
        let is_done = is_act && *place == Before::Result;
        assert_eq!(then != before, is_done, "{what}: {then} after {before}");
        let is_unknown = is_act && *place != Before::Intent;
        check(folder.path(), is_unknown.then_some(tool.as_str()), &what);
        let after = effect(folder.path(), tool);
        let runs_now = is_act && *place == Before::Intent;
        assert_eq!(after != then, runs_now, "{what}: {after} after {then}");
        if tool == "Bash" {
            let once = if *place == Before::Act { "" } else { "began\nended\n" };
            assert_eq!(after, once, "{what}");
        }
    });
    println!("{} cases", cases.len());
}

pub(crate) fn a_command_that_is_cut_off_in_its_middle_does_not_run_again() {
    let folder = prepare();
    fs::write(folder.path().join("plan"), "").unwrap();
    let mut baton = command(folder.path(), "small-tools-none", 0).spawn().unwrap();
    while effect(folder.path(), "Bash").is_empty() {
        assert_eq!(baton.try_wait().unwrap(), None, "it is over, and has not run its command");
        std::thread::sleep(Duration::from_millis(5));
    }
    baton.kill().unwrap();
    baton.wait().unwrap();
    check(folder.path(), Some("Bash"), "in the middle");
    assert_eq!(effect(folder.path(), "Bash"), "began\n");
}
