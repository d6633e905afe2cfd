//! Repositories that a command of an agent makes or changes inside the project. What they name must not
//! run when the user, a prompt or an editor looks at the project later.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use baton_testkit::{Model, Place, call, decision, report, text};
use serde_json::json;

use super::{answering, as_anybody, tree};

/// Makes a repository in `sub` whose settings run a command when somebody looks at it.
const MAKE: &str = "mkdir -p sub && git init -q sub && echo x > sub/x && git -C sub add x && \
    git -C sub -c user.name=a -c user.email=a@b commit -qm x && \
    git -C sub config core.fsmonitor 'touch ../../ran; touch ../../../ran; touch ../ran; false'";

/// Ways to bring one in, and the folders that the user looks at later.
const WAYS: [(&str, &str); 12] = [
    ("", "sub"),
    ("git add sub", "."),
    ("echo /sub/ > .gitignore", "sub"),
    ("mkdir -p a/b/c && mv sub a/b/c/", "a/b/c/sub"),
    ("mv sub $TMPDIR/sub && ln -s ../vendored-git new && mv $TMPDIR/sub again", "again"),
    ("mv sub/.git sub/store && echo 'gitdir: store' > sub/.git", "sub"),
    (
        "mv sub/.git bare && rm -r sub && git -C bare config core.bare false && git -C bare config core.worktree ..",
        "bare",
    ),
    ("mv sub/.git sub/.git-moved-aside && cp -r sub/.git-moved-aside sub/.git", "sub"),
    ("cp -r sub/.git nested && mv nested sub/.git/ && mkdir other && mv sub/.git other/", "other"),
    ("mv sub submodule.new && rmdir submodule && mv submodule.new submodule", "."),
    (
        "mv sub $TMPDIR/s; ln -s $TMPDIR/s/.git . ; mkdir l; cp -r $TMPDIR/s/.git l/store; ln -s store l/.git",
        "l",
    ),
    ("mv sub .hidden && chmod 500 .hidden", ".hidden"),
];

/// A repository with a commit and a submodule that is not checked out.
fn project(place: &Place) {
    place.git(&["init", "-q"]);
    place.git(&["add", "."]);
    let blob = "160000,0123456789012345678901234567890123456789,submodule";
    place.git(&["update-index", "--add", "--cacheinfo", blob]);
    fs::create_dir(place.path("project/submodule")).unwrap();
    place.git(&["commit", "-q", "-m", "one"]);
}

/// What a prompt and an editor do in a folder.
fn looked_at(folder: &Path) {
    for args in [&["status", "--short"][..], &["diff"], &["log", "-1"], &["stash", "list"]] {
        let mut command = Command::new("git");
        let output = command.args(args).current_dir(folder).output();
        output.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    }
}

fn ran(place: &Place) -> Vec<PathBuf> {
    let at = ["ran", "project/ran", "project/a/ran", "project/a/b/ran", "project/a/b/c/ran"];
    at.iter().map(|name| place.path(name)).filter(|path| path.exists()).collect()
}

fn bash(command: &str) -> serde_json::Value {
    call("Bash", json!({ "command": command }))
}

#[test]
fn a_repository_that_a_command_makes_runs_nothing_when_it_is_looked_at() {
    for (more, folder) in WAYS {
        let line = format!("{MAKE}; {more}");
        // The control: without the sandbox it works, or the attack says nothing.
        for flags in [&["--no-sandbox"][..], &[]] {
            let place = answering(vec![bash(&line), text("done")]);
            project(&place);
            let said = place
                .expect(&[&["exec", "--prompt", "go", "--approve", "auto"], flags].concat(), 0);
            looked_at(&place.path("project"));
            looked_at(&place.path("project").join(folder));
            let is_control = !flags.is_empty();
            assert_eq!(!ran(&place).is_empty(), is_control, "{more}: {said}");
            if !is_control {
                let told = place.model().requests().pop().unwrap()["messages"].to_string();
                assert!(told.contains("moved aside: "), "{more}: {told}");
                assert!(said.contains("moved aside, since git would run"), "{more}: {said}");
            }
        }
    }
}

/// Where the project itself is not under version control, it could become a repository as a whole.
#[test]
fn the_project_folder_does_not_become_a_repository() {
    let line = "git init -q --bare x && mv x/* . && git config -f config core.bare false && \
        git config -f config core.worktree . && git config -f config core.fsmonitor 'touch ran; false'";
    for flags in [&["--no-sandbox"][..], &[]] {
        let place = answering(vec![bash(line), text("done")]);
        fs::remove_dir_all(place.path("project/.git")).unwrap();
        let said =
            place.expect(&[&["exec", "--prompt", "go", "--approve", "auto"], flags].concat(), 0);
        looked_at(&place.path("project"));
        let told = place.model().requests().pop().unwrap()["messages"].to_string();
        assert_eq!(!ran(&place).is_empty(), !flags.is_empty(), "{said}: {told}");
        assert_eq!(place.path("project/HEAD-moved-aside").exists(), flags.is_empty(), "{said}");
    }
}

/// A repository needs no command: it is a few files.
#[test]
fn file_tools_make_and_change_no_repository() {
    let write = |path: &str, text: &str| call("Write", json!({ "path": path, "content": text }));
    let settings = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = \"touch ../ran; false\"\n";
    let place = answering(vec![
        write("made/config", settings),
        write("made/objects/x", ""),
        write("made/refs/x", ""),
        write("made/HEAD", "ref: refs/heads/main\n"),
        write("linked/commondir", "../made\n"),
        write("linked/HEAD", "ref: refs/heads/main\n"),
        write("a/.git", "gitdir: ../made\n"),
        write("a/.HG/hgrc", "[hooks]\nupdate = touch ran\n"),
        write("fixture.git/hooks/pre-commit", "touch ran\n"),
        call("Read", json!({ "path": "fixture.git/config" })),
        call(
            "Edit",
            json!({ "path": "fixture.git/config", "old_string": "bare = true", "new_string": "bare = false" }),
        ),
        call(
            "Edit",
            json!({ "path": "to-fixture/config", "old_string": "bare = true", "new_string": "bare = false" }),
        ),
        write("src/HEAD", "an ordinary file\n"),
        text("done"),
    ]);
    project(&place);
    place.git(&["init", "-q", "--bare", "fixture.git"]);
    std::os::unix::fs::symlink("fixture.git", place.path("project/to-fixture")).unwrap();
    let fixture = place.read("project/fixture.git/config");
    place.expect(&["exec", "--prompt", "go", "--approve", "auto"], 0);
    // The control: what was written would be a repository under its own names.
    for (name, is_control) in [("made", false), ("linked", false), ("made", true)] {
        if is_control {
            let folder = place.path("project/made");
            fs::rename(folder.join("HEAD-moved-aside"), folder.join("HEAD")).unwrap();
        }
        looked_at(&place.path("project").join(name));
        assert_eq!(!ran(&place).is_empty(), is_control, "{name}");
    }
    assert_eq!(place.read("project/fixture.git/config"), fixture);
    assert!(!place.path("project/fixture.git/hooks/pre-commit").exists());
    assert!(!place.path("project/a").exists());
    assert_eq!(place.read("project/src/HEAD"), "an ordinary file\n");
    let told = place.model().requests().pop().unwrap()["messages"].to_string();
    assert_eq!(told.matches("moved aside: ").count(), 2, "{told}");
    assert_eq!(told.matches("is part of a repository").count(), 5, "{told}");
}

#[test]
fn a_repository_that_is_there_cannot_be_changed() {
    let place = answering(vec![
        bash("git -C vendored config core.fsmonitor 'touch ../ran'"),
        bash("echo '[core] fsmonitor = touch ../ran' >> vendored/.git/config"),
        bash("mv vendored/.git vendored/old && cp -r vendored/old vendored/.git"),
        bash("cp -r vendored new && rm -rf vendored && mv new vendored"),
        bash("mv vendored elsewhere && mkdir vendored"),
        bash("echo 'gitdir: ../x' > linked/.git; rm -f linked/.git && git init -q linked"),
        bash("echo changed > vendored/x; git -C vendored status --short"),
        text("done"),
    ]);
    project(&place);
    place.git(&["init", "-q", "vendored"]);
    place.write("project/vendored/x", "x\n");
    place.git(&["-C", "vendored", "add", "x"]);
    place.git(&["-C", "vendored", "commit", "-q", "-m", "one"]);
    place.write("project/linked/.git", "gitdir: ../vendored/.git\n");
    let config = place.read("project/vendored/.git/config");
    place.expect(&["exec", "--prompt", "go", "--approve", "auto"], 0);
    looked_at(&place.path("project/vendored"));
    assert_eq!(ran(&place), Vec::<PathBuf>::new());
    assert_eq!(place.read("project/vendored/.git/config"), config);
    assert_eq!(place.read("project/linked/.git"), "gitdir: ../vendored/.git\n");
    // Its files can be worked on, and git shows what was done.
    assert_eq!(place.read("project/vendored/x"), "changed\n");
    let told = place.model().requests().pop().unwrap()["messages"].to_string();
    assert!(told.contains(" M x"), "{told}");
}

/// What an agent that obeys everything does to make a later look at the project run something.
const LATER: [&str; 14] = [
    "git config core.fsmonitor 'touch ran'",
    "git config alias.st '!touch ran'",
    "git config diff.external 'touch ran'",
    "printf '[diff \"x\"]\\n\\ttextconv = touch ran; cat\\n' >> .git/config",
    "for h in post-checkout pre-commit post-index-change reference-transaction; do printf '#!/bin/sh\\ntouch ran\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done",
    "mkdir -p .git/worktrees/x; echo ../.. > .git/worktrees/x/commondir",
    "echo ../x > .git/commondir",
    "mkdir -p .git/objects/info; echo ../../x > .git/objects/info/alternates",
    "echo 'ref: ../../x' > .git/HEAD",
    "mv .git .git-old && git init -q . && git config core.fsmonitor 'touch ran'",
    "mkdir .git2 && cp -r .git/. .git2 && git --git-dir .git2 config core.fsmonitor 'touch ran' && mv .git2 .git/x",
    "rm -rf .git && echo 'gitdir: x' > .git",
    "git update-index --add --cacheinfo 160000,0123456789012345678901234567890123456789,sub",
    "printf '* diff=x filter=x\\n' > .gitattributes; printf '[submodule \"a\"]\\n path = sub\\n url = ./sub\\n update = !touch ran\\n' > .gitmodules",
];

/// The tests of a project that were written to harm, for a gate to run.
fn harmful_tests() -> String {
    let lines = LATER.iter().chain([&MAKE]).map(|line| format!("({line}) 2>/dev/null\n"));
    format!("{}echo 'test result: ok. 1 passed'\n", lines.collect::<String>())
}

#[test]
fn after_a_whole_run_of_agents_that_obey_everything_a_look_at_the_project_runs_nothing() {
    let place = crate::team("tdd");
    place.with_short_rules();
    let config = place.read("project/.baton/baton.toml");
    let agents =
        "\n[agents.DEV]\nexecutor = \"builtin\"\n[agents.REVIEW]\nexecutor = \"builtin\"\n";
    place.write("project/.baton/baton.toml", format!("{config}{agents}"));
    let plan = r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;
    place.play("1-MAIN", &decision("DEV", plan));
    place.play("2-MAIN", &decision("REVIEW", "null"));
    place.play_finish(3);
    place.git(&["init", "-q"]);
    place.write("project/.git/info/exclude", "/.baton/\n");
    place.git(&["add", "."]);
    place.git(&["commit", "-q", "-m", "one"]);
    let obey = || LATER.iter().chain([&MAKE]).map(|line| bash(line));
    let write = |path: &str| call("Write", json!({ "path": path, "content": "touch ran\n" }));
    let mut answers = vec![call("Write", json!({ "path": "test.sh", "content": harmful_tests() }))];
    answers.extend(obey());
    answers.extend([".git/hooks/pre-commit", "sub/.git", "a/.git/config"].map(write));
    answers.push(text(&report(1, "PASS", "none")));
    answers.extend(obey());
    answers.push(text(&report(2, "PASS", "none")));
    let calls = answers.len();
    place.expect(&["trust"], 0);
    place.expect(&["gate", "add", "--no-run", "--on", "REVIEW,FINISH", "sh test.sh"], 0);
    let place = place.with_model(Model::start(answers));
    let before = tree(&place.path("project/.git"), &[place.path("project/.git/index")]);
    let said = place.expect(&["run", "Make add() safe", "--executor", "script"], 0);
    assert_eq!(place.model().requests().len(), calls, "it obeyed: {said}");
    assert!(said.contains("gates passed: sh test.sh"), "{said}");
    assert!(said.contains("moved aside, since git would run"), "{said}");
    let after = tree(&place.path("project/.git"), &[place.path("project/.git/index")]);
    assert_eq!(before, after, "{said}");
    let folders =
        [".", "sub", "src", "sub/.git-moved-aside"].map(|name| place.path("project").join(name));
    folders.iter().filter(|folder| folder.is_dir()).for_each(|folder| looked_at(folder));
    assert_eq!(ran(&place), Vec::<PathBuf>::new(), "{said}");
    // The control: by hand the settings do it. The later words break the repository.
    let mut by_hand = Command::new("sh");
    by_hand
        .args(["-c", &LATER[..5].join("; ")])
        .current_dir(place.path("project"))
        .output()
        .unwrap();
    looked_at(&place.path("project"));
    assert_ne!(ran(&place), Vec::<PathBuf>::new());
}

/// Repositories and blackboards that an agent program plants, by name. Each of the blackboards says
/// that it was planted.
const PLANTED: [(&str, &str); 4] = [
    ("sub/.git", MAKE),
    ("deep/er/.git", "mkdir -p deep && cp -r sub deep/er"),
    (
        "other/.baton",
        "mkdir -p other/.baton/memory/prompts && echo PLANTED > other/.baton/memory/prompts/subagent_prompt_main.md && echo '# PLANTED' > other/.baton/memory/dev_plan.md && echo '{}' > other/.baton/memory/verification_policy.json",
    ),
    ("more/orchestrator", "mkdir more && cp -r other/.baton more/orchestrator"),
];

#[test]
fn what_an_agent_program_plants_is_moved_aside_and_reported() {
    for flags in [&["--no-sandbox"][..], &[]] {
        let place = crate::team("tdd");
        place.with_short_rules();
        let plan =
            r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;
        place.play("1-MAIN", &decision("DEV", plan));
        place.play("1-DEV", &report(1, "PASS", "none"));
        let lines: Vec<String> =
            PLANTED.map(|(_, line)| format!("({line}) >/dev/null 2>&1\n")).into();
        place.write("play/1-DEV.sh", lines.concat());
        place.play("2-MAIN", &decision("REVIEW", "null"));
        place.play("2-REVIEW", &report(2, "PASS", "none"));
        place.play_finish(3);
        place.git(&["init", "-q"]);
        let run = ["run", "Make add() safe", "--executor", "script"];
        let said = place.expect(&[&run[..], flags].concat(), 0);
        for folder in ["sub", "deep/er"] {
            looked_at(&place.path("project").join(folder));
        }
        let shown = |folder: &str| {
            let mut command = place.plain(&["prompt", "main"]);
            super::said(&command.current_dir(place.path("project").join(folder)).output().unwrap())
        };
        let is_used = ["other", "more"].map(|folder| shown(folder).contains("PLANTED"));
        // The control: without the sandbox git runs it, and the blackboards are used.
        let is_control = !flags.is_empty();
        assert_eq!(!ran(&place).is_empty(), is_control, "{said}");
        assert_eq!(is_used, [is_control; 2], "{said}");
        for (name, _) in PLANTED {
            let is_told = said.contains(name) && said.contains("moved aside");
            assert!(is_control || is_told, "{name}: {said}");
        }
    }
}

#[test]
fn a_repository_is_made_below_the_temporary_folder_as_often_as_a_test_wants() {
    let line = "git init -q $TMPDIR/r && cd $TMPDIR/r && git -c user.name=a -c user.email=a@b \
        commit -q --allow-empty -m x && git log --format=made-%s";
    let place =
        answering(vec![bash(line), bash(&format!("rm -rf $TMPDIR/r; {line}")), text("done")]);
    project(&place);
    place.expect(&["exec", "--prompt", "go", "--approve", "auto"], 0);
    let told = place.model().requests().pop().unwrap()["messages"].to_string();
    assert_eq!(told.matches("made-x").count(), 2, "{told}");
    assert!(!told.contains("moved aside"), "{told}");
}

#[test]
fn a_repository_of_a_command_that_was_killed_is_moved_aside_by_the_next_start() {
    let line = format!("{MAKE}; touch ../made 2>/dev/null; echo > made; sleep 600");
    let place = answering(vec![bash(&line), text("done")]);
    project(&place);
    let mut child =
        place.command(&["exec", "--prompt", "go", "--approve", "auto"]).spawn().unwrap();
    let start = Instant::now();
    while !place.path("project/made").exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(place.path("project/sub/.git").exists(), "it had been made");
    let place = place.with_model(Model::start(vec![text("hello")]));
    let said = place.expect(&["exec", "--prompt", "hello"], 0);
    assert!(said.contains("left by an interrupted command"), "{said}");
    looked_at(&place.path("project/sub"));
    assert_eq!(ran(&place), Vec::<PathBuf>::new());
    assert!(place.path("project/sub/.git-moved-aside").exists());
}

/// What stands in for `.git` while a command runs is not taken for a repository of the agent.
#[test]
fn a_project_without_version_control_stays_as_it_is() {
    let place = answering(vec![
        bash("git status; echo > a.txt"),
        bash("ls -A"),
        call("Write", json!({ "path": "b.txt", "content": "b\n" })),
        text("done"),
    ]);
    fs::remove_dir_all(place.path("project/.git")).unwrap();
    let go = ["exec", "--prompt", "go", "--approve", "auto"];
    let said = place.expect(&go, 0);
    assert!(!said.contains("moved aside"), "{said}");
    let left = |place: &Place| -> Vec<String> {
        let entries = fs::read_dir(place.path("project")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with('.')).collect()
    };
    assert_eq!(left(&place), Vec::<String>::new(), "{said}");
    // Nor is what a process that was killed has left.
    let place = answering(vec![bash("echo > began; sleep 60")]);
    fs::remove_dir_all(place.path("project/.git")).unwrap();
    let mut child = place.command(&go).spawn().unwrap();
    let start = std::time::Instant::now();
    while !place.path("project/began").exists() {
        assert!(start.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(place.path("project/.git").exists(), "the control: something was left");
    let place = place.with_model(Model::start(vec![bash("true"), text("done")]));
    let said = place.expect(&go, 0);
    assert!(!said.contains("moved aside"), "{said}");
    assert_eq!(left(&place), Vec::<String>::new(), "{said}");
}

/// Rights that a command takes away keep nothing from being found, moved and told, also for an ordinary
/// user, whom they stop.
#[test]
fn rights_that_are_taken_away_hide_no_repository_and_no_blackboard() {
    let ways = [
        "chmod 0555 y",
        "chmod 1555 y",
        "chmod 0111 y",
        "chmod 0311 y",
        "chmod 0 y",
        "mkdir -p b/.git; cp -r y/.git b; chmod 0555 b; chmod 0111 y",
        "mv y/.git . ; chmod 0555 .",
        "mv y z; mkdir y; mv z y; chmod 0111 y y/z",
    ];
    let make = "mkdir -p y/.git/objects y/.git/refs && echo 'ref: refs/heads/m' > y/.git/HEAD && \
        printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = \"touch %s/ran; false\"\n' $PWD > y/.git/config && \
        mkdir -p orchestrator/memory/prompts && echo CANARY > orchestrator/memory/prompts/subagent_prompt_dev.md";
    for way in ways {
        for closed in ["", "; chmod 0111 orchestrator/memory", "; chmod 0555 orchestrator/memory"] {
            let line = format!("{make}; {way}{closed}; true");
            let place = answering(vec![bash(&line), text("done")]);
            fs::remove_dir_all(place.path("project/.git")).unwrap();
            let go = ["exec", "--prompt", "go", "--approve", "auto"];
            let said = as_anybody(&place, place.command(&go));
            assert!(said.contains("moved aside, since git would run"), "{line}: {said}");
            assert!(said.contains("since agents do not make blackboards"), "{line}: {said}");
            for found in [".git/HEAD", "y/.git", "b/.git", "y/z/.git"] {
                assert!(!place.path("project").join(found).exists(), "{line}: {found}: {said}");
            }
            let prompt = "project/orchestrator/memory/prompts/subagent_prompt_dev.md";
            assert!(!place.path(prompt).exists(), "{line}: {said}");
        }
    }
}
