//! What `undo` brings back of turns of `exec` and `chat`, by the real binary.

use std::os::unix::fs::PermissionsExt;

use crate::hostile::as_anybody;
use baton_testkit::{Model, Place, answer, call, decision, report, text};
use serde_json::{Value, json};

/// A project with a model that says these things in turn.
fn answering(answers: Vec<Value>) -> Place {
    let place = crate::talk(answers);
    place.write("project/src/lib.rs", "fn one() {}\n");
    place.write("project/notes.txt", "mine\n");
    place
}

fn bash(command: &str) -> Value {
    call("Bash", json!({ "command": command }))
}

fn exec(place: &Place, task: &str) -> String {
    place.expect(&["exec", "--prompt", task, "--approve", "auto"], 0)
}

fn undo(place: &Place, args: &[&str], code: i32) -> String {
    let args = [&["undo"], args].concat();
    answer(place.plain(&args)).expect(&args, code)
}

/// The name of the snapshot that was kept.
fn kept(said: &str) -> String {
    said.split("--snapshot ").nth(1).unwrap()[..32].to_owned()
}

#[test]
fn a_turn_of_exec_is_undone_and_had_back_also_without_a_blackboard() {
    let place = answering(vec![
        bash("echo broken > src/lib.rs; rm notes.txt; echo new > new.txt; chmod +x src/lib.rs"),
        text("done"),
    ]);
    let said = exec(&place, "Break it, please.\nMore words.");
    assert!(said.contains("3 files were changed (new.txt, notes.txt, src/lib.rs)"), "{said}");
    assert!(said.contains("`baton undo`"), "{said}");
    let listed = undo(&place, &["--dry-run"], 0);
    for line in ["would restore notes.txt", "would restore src/lib.rs", "would remove new.txt"] {
        assert!(listed.contains(line), "{listed}");
    }
    assert_eq!(place.read("project/src/lib.rs"), "broken\n", "--dry-run changes nothing");
    let undone = undo(&place, &[], 0);
    assert!(undone.contains("3 files are as they were before the turn of "), "{undone}");
    assert!(undone.contains("\"Break it, please.\""), "{undone}");
    assert_eq!(place.read("project/src/lib.rs"), "fn one() {}\n");
    assert_eq!(place.read("project/notes.txt"), "mine\n");
    assert!(!place.path("project/new.txt").exists());
    undo(&place, &["--snapshot", &kept(&undone)], 0);
    assert_eq!(place.read("project/src/lib.rs"), "broken\n");
    let mode = std::fs::metadata(place.path("project/src/lib.rs")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
}

#[test]
fn several_turns_are_undone_and_one_that_only_reads_is_none() {
    let place = answering(vec![
        call("Write", json!({ "path": "one.txt", "content": "1\n" })),
        text("one"),
        call("Write", json!({ "path": "two.txt", "content": "2\n" })),
        text("two"),
        call("Read", json!({ "path": "src/lib.rs" })),
        text("three"),
    ]);
    for task in ["one", "two", "three"] {
        exec(&place, task);
    }
    let undone = undo(&place, &[], 0);
    assert!(undone.contains("(\"two\")"), "{undone}");
    assert!(place.path("project/one.txt").exists() && !place.path("project/two.txt").exists());
    undo(&place, &["--snapshot", &kept(&undone)], 0);
    undo(&place, &["--turns", "2"], 0);
    assert!(!place.path("project/one.txt").exists());
    let said = undo(&place, &["--turns", "3"], 2);
    assert!(said.contains("only 2 turns"), "{said}");
}

#[test]
fn a_turn_that_was_killed_is_undone_too() {
    let place = answering(vec![bash("echo broken > src/lib.rs; sleep 60")]);
    let mut child =
        place.command(&["exec", "--prompt", "go", "--approve", "auto"]).spawn().unwrap();
    let broken = || place.read("project/src/lib.rs") == "broken\n";
    let start = std::time::Instant::now();
    while !broken() {
        assert!(start.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    undo(&place, &[], 0);
    assert_eq!(place.read("project/src/lib.rs"), "fn one() {}\n");
}

#[test]
fn a_run_that_worked_after_the_turn_is_not_undone_with_it_by_mistake() {
    let place = crate::team("tdd");
    place.with_short_rules();
    let plan = r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;
    place.play("1-MAIN", &decision("DEV", plan));
    place.write("play/1-DEV.sh", "echo '// run' >> src/lib.rs\n");
    place.play("1-DEV", &report(1, "PASS", "none"));
    place.play("2-MAIN", &decision("REVIEW", "null"));
    place.play("2-REVIEW", &report(2, "PASS", "none"));
    place.play_finish(3);
    let before = place.read("project/src/lib.rs");
    let place = place.with_model(Model::start(vec![
        call("Write", json!({ "path": "turn.txt", "content": "1\n" })),
        text("done"),
    ]));
    exec(&place, "write it");
    // Times are whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    answer(place.plain(&["run", "Make add() safe", "--executor", "script"])).expect(&["run"], 0);
    let said = undo(&place, &[], 2);
    assert!(said.contains("worked after the last turn") && said.contains("ITERATION"), "{said}");
    let listed = undo(&place, &["1", "--dry-run"], 0);
    assert!(
        listed.contains("would restore src/lib.rs") && !listed.contains("turn.txt"),
        "{listed}"
    );
    undo(&place, &["--turns", "1"], 0);
    assert!(!place.path("project/turn.txt").exists());
    assert_eq!(place.read("project/src/lib.rs"), before);
    assert!(place.path("project/.baton").exists(), "the blackboard is not part of the project");
}

#[test]
fn where_nothing_can_be_kept_the_user_is_told_and_the_home_folder_is_not_copied() {
    let place = crate::talk(vec![bash("true"), text("done")]).at("home");
    let said = place.expect(&["exec", "--prompt", "go", "--approve", "auto", "--no-sandbox"], 0);
    assert!(said.contains("`baton undo` does not cover this turn") && said.contains("home folder"));
    let said = undo(&place, &[], 2);
    assert!(said.contains("no turn of exec or chat changed this project"), "{said}");
}

const GO: [&str; 5] = ["exec", "--prompt", "go", "--approve", "auto"];

/// Rights that an agent took away keep nothing from coming back, also for an ordinary user.
#[test]
fn what_an_agent_closed_is_opened_and_comes_back() {
    for (way, dry) in [
        ("rm notes.txt src/lib.rs; chmod 0555 src", 2),
        ("rm notes.txt; chmod 0500 .", 1),
        ("rm -rf notes.txt src; chmod 0111 .", 2),
        ("rm src/lib.rs; echo evil > src/evil; chmod 0 src", 2),
        ("mkdir new; echo x > new/x; chmod 0555 new; rm notes.txt", 2),
    ] {
        let place = answering(vec![bash(way), text("done")]);
        let said = as_anybody(&place, place.command(&GO));
        let listed = as_anybody(&place, place.plain(&["undo", "--dry-run"]));
        let lines = listed.lines().filter(|line| line.starts_with("would re")).count();
        assert_eq!(lines, dry, "{way}: {said} {listed}");
        let undone = as_anybody(&place, place.plain(&["undo"]));
        assert_eq!(place.read("project/notes.txt"), "mine\n", "{way}: {undone}");
        assert_eq!(place.read("project/src/lib.rs"), "fn one() {}\n", "{way}: {undone}");
        assert!(!place.path("project/src/evil").exists() && !place.path("project/new/x").exists());
    }
}
