//! A pipe in the place of a file: whoever opens it to read waits for ever. Nothing that Baton reads
//! keeps it waiting.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::{Place, text};

use super::{answering, is_sweep, said};

/// A command that waits for a pipe never ends; any other ends long before.
const FOR_EVER: Duration = Duration::from_secs(90);

fn ended(what: &str, mut command: Command) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::File::create(folder.path().join(name)).unwrap();
    command.stdin(Stdio::null()).stdout(file("out")).stderr(file("errors"));
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > FOR_EVER {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    Output { status, stdout: read("out"), stderr: read("errors") }
}

/// In the project: what a walk, git and the agent's prompt read.
const PROJECT: [&str; 17] = [
    ".gitignore",
    "src/.gitignore",
    ".ignore",
    "src/.ignore",
    ".gitattributes",
    ".git/info/exclude",
    ".git/index",
    ".git/HEAD",
    ".git/config",
    ".git/packed-refs",
    ".git/commondir",
    "CODE_LAW.md",
    "AGENTS.md",
    "src/lib.rs",
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
];

/// Files of the blackboard of which one of each kind is enough, if not all are wanted.
const BOARD: [&str; 9] = [
    "baton.toml",
    "memory/project_history.md",
    "memory/dev_plan.md",
    "memory/verification_policy.json",
    "prompts/",
    "journal/",
    "snapshots/index.json",
    "run.lock",
    "cache/",
];

const COMMANDS: [&[&str]; 10] = [
    &["status"],
    &["log"],
    &["diff"],
    &["undo"],
    &["resume"],
    &["gate", "list"],
    &["prompt", "main"],
    &["doctor"],
    &["gc", "--dry"],
    &["exec", "-p", "Look at @src/lib.rs and @CODE_LAW.md"],
];

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success(), "{}", path.display());
}

fn with_board() -> Place {
    let place = answering(vec![text("Nothing to do.")]);
    place.write("project/Cargo.toml", "[package]\nname = \"x\"\n");
    assert!(place.plain(&["init"]).output().unwrap().status.success());
    place.expect(&["run", "Make it safe"], 3);
    place
}

fn places(place: &Place) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = PROJECT.iter().map(|name| format!("project/{name}")).collect();
    all.insert("home/.config/baton/baton.toml".to_owned());
    let root = place.path("");
    for (path, (mode, _)) in super::tree(&place.path("project/.baton"), &[]) {
        let inside = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        if mode & 0o170_000 == 0o100_000 {
            all.insert(inside);
        }
    }
    if is_sweep() {
        return all;
    }
    let mut wanted: Vec<&str> = BOARD.to_vec();
    all.retain(|name| match name.strip_prefix("project/.baton/") {
        Some(inside) => {
            let kind = wanted.iter().position(|own| inside.starts_with(own));
            kind.map(|at| wanted.remove(at)).is_some()
        }
        None => true,
    });
    all
}

#[test]
fn a_pipe_in_the_place_of_any_file_keeps_no_command_waiting() {
    let place = with_board();
    let places = places(&place);
    let (mut count, mut runs) = (0, 0);
    for name in &places {
        // What an earlier command did to the blackboard must not matter to the next one.
        let place = with_board();
        pipe(&place.path(name));
        for args in COMMANDS {
            let what = format!("{name}: {args:?}");
            let is_agent = matches!(args[0], "exec" | "resume");
            let command = if is_agent { place.command(args) } else { place.plain(args) };
            let output = ended(&what, command);
            let told = said(&output);
            assert!(output.status.code().is_some(), "{what}: {told}");
            assert!(!told.trim().is_empty() && !told.contains("panicked"), "{what}: {told}");
            count += 1;
        }
        ended(name, place.plain(&["stop", "--abandon"]));
        let output = ended(name, place.command(&["run", "Make it safe"]));
        let told = said(&output);
        // MAIN says nothing of use, where it comes to that.
        assert!(output.status.code().is_some_and(|code| code != 0), "{name}: {told}");
        runs += usize::from(output.status.code() == Some(3));
    }
    println!("{} places, {count} commands, {runs} runs", places.len());
    assert!(runs >= PROJECT.len(), "{runs} runs got to their first stage");
}

#[test]
fn what_a_run_does_not_cover_is_reported_once() {
    let place = with_board();
    place.write("project/sub/a.rs", "1\n");
    pipe(&place.path("project/sub/.gitignore"));
    pipe(&place.path("project/sub/pipe"));
    assert!(place.plain(&["stop", "--abandon"]).output().unwrap().status.success());
    let output = ended("run", place.command(&["run", "Make it safe"]));
    let told = said(&output);
    assert_eq!(
        told.matches("files of ignore rules, not used (not a regular file)").count(),
        1,
        "{told}"
    );
    assert_eq!(told.matches("pipes, sockets or devices, not covered").count(), 1, "{told}");
    assert!(told.contains("sub/.gitignore") && told.contains("sub/pipe"), "{told}");
}
