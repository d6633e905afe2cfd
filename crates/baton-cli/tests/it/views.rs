//! Stages that may not write, and gates, work on a view of the project: whole runs by the real binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::{Model, Place, call, decision, report, text};
use serde_json::{Value, json};

const RUN: [&str; 4] = ["run", "Make add() safe", "--executor", "script"];
const PLAN: &str =
    r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;

/// A team that finishes in its second iteration, in a git repository with a commit and a file that
/// git ignores.
fn team() -> Place {
    let place = crate::team("tdd");
    place.with_short_rules();
    place.play("1-MAIN", &decision("REVIEW", PLAN));
    place.play("1-REVIEW", &report(1, "PASS", "none"));
    place.play_finish(2);
    place.write("project/.gitignore", "/target/\n");
    place.write("project/target/built", "built\n");
    place.git(&["init", "-q"]);
    // What Baton itself would add there.
    place.write("project/.git/info/exclude", "/.baton/\n");
    place.git(&["add", "."]);
    place.git(&["commit", "-q", "-m", "one"]);
    place
}

/// Every file and folder of the project but the blackboard, with its content.
fn files(place: &Place) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![place.path("project")];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && entry.file_name() != ".baton" {
                left.push(path.clone());
            }
            // Git keeps times of files there.
            if entry.file_name() != "index" {
                found.insert(path.clone(), fs::read(&path).unwrap_or_default());
            }
        }
    }
    found
}

/// The names of what differs: the contents would fill screens.
fn differing(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<PathBuf> {
    let names = before.keys().chain(after.keys());
    let mut names: Vec<PathBuf> =
        names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect();
    names.sort();
    names.dedup();
    names
}

fn assert_unchanged(place: &Place, before: &BTreeMap<PathBuf, Vec<u8>>, said: &str) {
    assert_eq!(differing(before, &files(place)), Vec::<PathBuf>::new(), "{said}");
}

/// The views of all blackboards that are on disk now.
fn views_of(place: &Place) -> Vec<PathBuf> {
    let all = fs::read_dir(place.path("home/.local/state/baton/views")).into_iter().flatten();
    let boards = all.flatten().flat_map(|board| fs::read_dir(board.path()).unwrap().flatten());
    boards.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[test]
fn a_review_that_destroys_the_project_destroys_its_own_copy_alone() {
    let place = team();
    place.write(
        "play/1-REVIEW.sh",
        "rm -rf .git/objects .git/refs src; echo '*' > .gitignore; echo x > .ignore\n\
         mkdir -p node_modules/.bin; echo x > node_modules/.bin/tool; mkfifo fifo; rm -r target\n\
         git init -q evil; git -C evil config core.fsmonitor 'touch /pwned'; echo x > new\n\
         ls > ../seen\n",
    );
    let before = files(&place);
    let said = place.expect(&RUN, 0);
    assert!(place.read("seen").contains("evil"), "the agent did it: {said}");
    assert_unchanged(&place, &before, &said);
    place.git(&["log", "--oneline"]);
    assert!(!said.contains("changed while"), "{said}");
    assert_eq!(views_of(&place), Vec::<PathBuf>::new());
}

#[test]
fn a_gate_changes_nothing_of_the_project_and_sees_what_is_built_already() {
    let place = team();
    let command = "cat target/built && echo x > src/lib.rs && rm -rf .git && echo y > new";
    place.expect(&["gate", "add", command], 0);
    let before = files(&place);
    let said = place.expect(&RUN, 0);
    assert!(said.contains("gate passed"), "{said}");
    place.expect(&["gate", "run"], 0);
    assert_unchanged(&place, &before, &said);
    assert_eq!(views_of(&place), Vec::<PathBuf>::new());
}

/// A model that plays the built-in REVIEW; the rest of the team is as usual.
fn with_model(place: Place, answers: Vec<Value>) -> Place {
    let policy = "[agents.REVIEW]\nexecutor = \"builtin\"\n";
    let config = place.read("project/.baton/baton.toml");
    place.write("project/.baton/baton.toml", format!("{config}\n{policy}"));
    place.expect(&["trust"], 0);
    place.with_model(Model::start(answers))
}

#[test]
fn what_a_command_of_a_review_writes_its_file_tools_and_its_next_command_see() {
    let place = with_model(
        team(),
        vec![
            call("Bash", json!({ "command": "echo 'by a command' > src/new.rs; rm src/lib.rs" })),
            call("Read", json!({ "path": "src/new.rs" })),
            call("Bash", json!({ "command": "cat src/new.rs && ! test -e src/lib.rs" })),
            call("Grep", json!({ "pattern": "by a comm" })),
            call("Glob", json!({ "pattern": "src/*.rs" })),
            call("LS", json!({ "path": "src" })),
            text(&report(1, "PASS", "none")),
        ],
    );
    let before = files(&place);
    let said = place.expect(&RUN, 0);
    let told = place.model().requests().pop().unwrap()["messages"].to_string();
    assert_eq!(told.matches("by a command").count(), 4, "{told}");
    assert!(told.contains("src/new.rs"), "{told}");
    let tools = place.model().requests()[0]["tools"].to_string();
    assert!(tools.contains("the copy is thrown away when your work ends"), "{tools}");
    assert_unchanged(&place, &before, &said);
}

#[test]
fn a_review_that_was_killed_finds_what_it_had_written() {
    let place = with_model(
        team(),
        vec![
            call("Bash", json!({ "command": "echo kept > kept" })),
            call("Bash", json!({ "command": "touch /dev/shm/x; sleep 600" })),
            call("Bash", json!({ "command": "cat kept" })),
            text(&report(1, "PASS", "none")),
        ],
    );
    let mut child =
        place.command(&RUN).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while place.model().requests().len() < 2 || views_of(&place).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(120), "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!place.path("project/kept").exists());
    place.expect(&["resume", "--executor", "script"], 0);
    let told = place.model().requests().pop().unwrap()["messages"].to_string();
    assert!(told.contains("kept\\n") || told.contains("\\nkept"), "{told}");
    assert!(!place.path("project/kept").exists());
    assert_eq!(views_of(&place), Vec::<PathBuf>::new());
}

#[test]
fn a_run_that_was_killed_in_a_view_leaves_no_process_and_no_mount() {
    let place = team();
    place.write("play/1-REVIEW.sh", "touch ../reached; sleep 600\n");
    let mut child =
        place.command(&RUN).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !place.path("reached").exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let project = place.path("project");
    let sees_it = |pid: &Path| {
        let mounts = fs::read_to_string(pid.join("mountinfo")).unwrap_or_default();
        mounts.contains(project.to_str().unwrap())
    };
    let start = Instant::now();
    loop {
        let mut processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        if !processes.any(|pid| sees_it(&pid)) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "the view is still mounted");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Given up: the next run removes what was left.
    assert!(!views_of(&place).is_empty());
    place.expect(&["stop", "--abandon"], 0);
    fs::remove_file(place.path("play/1-REVIEW.sh")).unwrap();
    for (old, new) in [("1-MAIN", "2-MAIN"), ("1-REVIEW", "2-REVIEW")] {
        let _ = fs::copy(place.path("play").join(old), place.path("play").join(new));
    }
    place.play("2-REVIEW", &report(2, "PASS", "none"));
    place.play_finish(3);
    place.expect(&RUN, 0);
    assert_eq!(views_of(&place), Vec::<PathBuf>::new());
}

#[test]
fn a_pass_is_void_if_the_user_edited_while_it_was_given_and_the_edit_stays() {
    let place = team();
    place.user_runs_during("1-REVIEW", "echo mine >> src/lib.rs");
    let said = place.expect(&[RUN.as_slice(), &["--max-iterations", "1"]].concat(), 4);
    assert!(said.contains("changed while REVIEW, which may not write, ran: src/lib.rs"), "{said}");
    assert!(place.read("project/src/lib.rs").ends_with("mine\n"));
}

#[test]
fn a_mount_below_the_project_is_seen_in_a_view() {
    let place = team();
    fs::create_dir_all(place.path("project/data")).unwrap();
    place.write("elsewhere/of-the-mount", "mounted\n");
    place.write("play/1-REVIEW.sh", "cat data/of-the-mount > ../seen; echo x > data/new\n");
    // In a namespace of the test's own, so that no mount is left.
    let binary = place.command(&RUN);
    let mut command = Command::new("unshare");
    let line = "mount --bind ../elsewhere data && exec \"$@\"";
    command.args(["-rm", "sh", "-c", line, "sh"]).arg(binary.get_program()).args(binary.get_args());
    command.env_clear().envs(binary.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.current_dir(place.path("project")).output().unwrap();
    assert_eq!(place.read("seen"), "mounted\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!place.path("elsewhere/new").exists());
}
