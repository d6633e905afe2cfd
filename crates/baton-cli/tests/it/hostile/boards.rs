//! Blackboards that are not what they seem: links to other projects, and folders that an agent makes so
//! that the next run works by its prompts and rules.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use baton_testkit::{Model, Place, calls, text};
use serde_json::{Value, json};

use super::answering;

/// In prompts and plans that must never be used.
const CANARY: &str = "CANARY-BOARD-41d7";

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": command }))
}

fn write(path: &str) -> (&'static str, Value) {
    ("Write", json!({ "path": path, "content": CANARY }))
}

/// Runs a command, with a model where it takes one; its exit code and all that it printed.
fn ran(place: &Place, folder: &Path, args: &[&str]) -> (i32, String) {
    let mut command = match args[0] {
        "run" | "resume" | "answer" | "exec" => place.command(args),
        _ => place.plain(args),
    };
    let output = command.current_dir(folder).output().unwrap();
    (output.status.code().unwrap(), super::said(&output))
}

fn expect(place: &Place, args: &[&str], code: i32) -> String {
    let (found, said) = ran(place, &place.path("project"), args);
    assert_eq!(found, code, "{args:?}: {said}");
    said
}

/// Every command that works with a blackboard.
const COMMANDS: [&[&str]; 33] = [
    &["run", "Make it safe"],
    &["resume"],
    &["answer", "1"],
    &["stop"],
    &["stop", "--abandon"],
    &["status"],
    &["log"],
    &["diff", "1"],
    &["undo", "1"],
    &["gc"],
    &["gate", "list"],
    &["gate", "add", "true"],
    &["gate", "remove", "true"],
    &["gate", "run"],
    &["trust"],
    &["trust", "--list"],
    &["trust", "--revoke"],
    &["init"],
    &["init", "--here"],
    &["exec", "-p", "Look."],
    &["prompt", "main"],
    &["plan", "check"],
    &["plan", "apply"],
    &["history", "show"],
    &["history", "check"],
    &["history", "window"],
    &["report", "check", ".baton/reports/report_test.md"],
    &["report", "summary", ".baton/reports/report_test.md"],
    &["plan", "check", ".baton/memory/dev_plan.md"],
    &["history", "check", ".baton/memory/project_history.md"],
    &["pack", "show"],
    &["pack", "use", "novel"],
    &["doctor"],
];

/// A project with a blackboard beside this one.
fn neighbour(place: &Place, folder: &str) {
    let other = place.path("other");
    fs::create_dir_all(&other).unwrap();
    let mut init = place.plain(&["init", "--no-gates", "--blackboard", folder]);
    assert!(init.current_dir(&other).output().unwrap().status.success());
    let plan = format!("other/{folder}/memory/dev_plan.md");
    place.write(&plan, format!("## Milestone M1: {CANARY}\n\n### M1-T1: x\n- status: TODO\n"));
    place.write(
        &format!("other/{folder}/reports/report_test.md"),
        "iteration: 1\nverdict: PASS\nblockers: none\n",
    );
}

/// Runs every command; each must be refused and leave the neighbour as it is.
fn refused_by_all(place: &Place, more: &[&str], names: &str) {
    let before = super::tree(&place.path("other"), &[]);
    for args in COMMANDS {
        let args: Vec<String> = args.iter().map(|word| word.replace(".baton", names)).collect();
        let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
        // The agent alone takes no blackboard by name.
        if args[0] == "exec" && !more.is_empty() {
            continue;
        }
        args.extend(more);
        let said = expect(place, &args, 2);
        assert!(said.contains("is a link to"), "{args:?}: {said}");
        assert!(!said.contains(CANARY), "{args:?}: {said}");
        assert!(super::tree(&place.path("other"), &[]) == before, "{args:?}: {said}");
    }
    assert_eq!(place.model().requests().len(), 0, "a model was asked");
}

#[test]
fn a_blackboard_that_is_a_link_is_refused_by_every_command() {
    for name in [".baton", "orchestrator"] {
        let place = answering(vec![]);
        neighbour(&place, name);
        // The control: in the neighbour's own folder it is used.
        let other = place.path("other");
        let shown = place.plain(&["plan", "check"]).current_dir(&other).output().unwrap();
        assert!(shown.status.success(), "{}", super::said(&shown));
        symlink(other.join(name), place.path("project").join(name)).unwrap();
        refused_by_all(&place, &[], name);
        // From a folder below it, too.
        fs::create_dir(place.path("project/deep")).unwrap();
        let deep = place.path("project/deep");
        let (_, said) = ran(&place, &deep, &["run", "x"]);
        assert!(said.contains("is a link to"), "{said}");
    }
}

#[test]
fn a_blackboard_that_is_named_through_a_link_of_the_project_is_refused() {
    let place = answering(vec![]);
    neighbour(&place, ".baton");
    symlink("../other", place.path("project/sub")).unwrap();
    symlink("../other/.baton", place.path("project/board")).unwrap();
    let whole = place.path("project/sub/.baton");
    for named in
        ["sub/.baton", "./sub/.baton/", "board", "src/../sub/.baton", whole.to_str().unwrap()]
    {
        refused_by_all(&place, &["--blackboard", named], named);
    }
    // A link above the project is the user's own business.
    symlink(place.path("project"), place.path("shortcut")).unwrap();
    let named = place.path("shortcut/new-board");
    expect(&place, &["init", "--no-gates", "--blackboard", named.to_str().unwrap()], 0);
    expect(&place, &["status", "--blackboard", named.to_str().unwrap()], 0);
}

#[test]
fn an_empty_folder_and_a_dangling_link_get_no_blackboard_through_a_link() {
    for there in [true, false] {
        let place = answering(vec![text("x")]);
        let target = place.path("outside/target");
        if there {
            fs::create_dir(&target).unwrap();
        }
        symlink(&target, place.path("project/.baton")).unwrap();
        for args in [&["init"][..], &["run", "x"], &["exec", "-p", "x"]] {
            let said = expect(&place, args, 2);
            assert!(said.contains("is a link to"), "{args:?}: {said}");
        }
        assert_eq!(target.exists(), there);
        assert!(!there || fs::read_dir(&target).unwrap().next().is_none());
    }
}

/// A whole blackboard of an agent's making, in a folder.
fn planting(folder: &str) -> String {
    format!(
        "mkdir -p {folder}/memory/prompts && echo '{CANARY}' > {folder}/memory/prompts/subagent_prompt_main.md && echo '# {CANARY}' > {folder}/memory/dev_plan.md && echo '{{}}' > {folder}/memory/verification_policy.json; :"
    )
}

/// Commands that try to bring a blackboard into the project, and the folders where one would be found.
fn ways() -> Vec<(String, &'static str)> {
    let plain = [".baton", "orchestrator", "sub/.baton", "sub/orchestrator", "a/b/c/.baton"];
    let at = |name: &'static str| match name.rsplit_once('/') {
        Some((folder, _)) => folder,
        None => "",
    };
    let mut all: Vec<(String, &str)> = plain.map(|name| (planting(name), at(name))).into();
    let x = planting("x");
    for (more, at) in [
        ("mv x orchestrator", ""),
        ("mv x .baton", ""),
        ("mkdir sub; mv x sub/.baton", "sub"),
        ("mkdir -p orchestrator; mv x/memory orchestrator/memory", ""),
        ("ln -s x orchestrator", ""),
        ("mkdir orchestrator; ln -s ../x/memory orchestrator/memory", ""),
        (
            "mkdir -p orchestrator/memory; ln -s ../../x/memory/prompts orchestrator/memory/prompts",
            "",
        ),
        ("mkdir sub; ln -s ../x sub/.baton", "sub"),
        ("mkdir sub; cp -r x sub/orchestrator; chmod -R a-w sub/orchestrator", "sub"),
        ("mkdir -p src/orchestrator; mv x/memory src/orchestrator/", "src"),
        ("mv x .baton-new-x; rmdir .baton; mv .baton-new-x .baton", ""),
    ] {
        all.push((format!("{x}; {more}"), at));
    }
    all
}

/// Whether Baton uses what the agent made: the text of MAIN's prompt, and what a run sends.
fn is_used(place: &Place, folder: &str) -> bool {
    let folder = place.path("project").join(folder);
    let _ = fs::create_dir_all(&folder);
    let output = place.plain(&["prompt", "main"]).current_dir(folder).output().unwrap();
    super::said(&output).contains(CANARY)
}

#[test]
fn a_blackboard_that_a_command_makes_is_never_used() {
    for (line, folder) in ways() {
        for flags in [&["--no-sandbox"][..], &[]] {
            let place = answering(vec![calls(&[bash(&line)]), text("done")]);
            let said = expect(&place, &[&["exec", "-p", "go"], flags].concat(), 0);
            let is_control = !flags.is_empty();
            // The attack works without the guard; only links and what a `.baton` of folders hides
            // are refused there, too.
            let is_refused_anyway = line.contains("ln -s") || line.contains("rmdir");
            if !(is_control && is_refused_anyway) {
                assert_eq!(is_used(&place, folder), is_control, "{line}: {said}");
            }
            if !is_control {
                let project = place.path("project").join(folder);
                let found = place.plain(&["status"]).current_dir(&project).output().unwrap();
                let found = super::said(&found);
                assert!(found.contains("there is no blackboard"), "{line}: {found}\n{said}");
            }
        }
    }
}

#[test]
fn what_was_moved_aside_is_reported_to_the_user_and_to_the_model() {
    let place = answering(vec![calls(&[bash(&planting("orchestrator"))]), text("done")]);
    let said = expect(&place, &["exec", "-p", "go"], 0);
    assert!(said.contains("moved aside, since agents do not make blackboards"), "{said}");
    assert!(said.contains("orchestrator/memory/dev_plan.md"), "{said}");
    let told = place.model().requests().pop().unwrap()["messages"].to_string();
    assert!(told.contains("agents do not make any"), "{told}");
    assert!(place.path("project/orchestrator/memory/dev_plan.md-moved-aside").exists());
}

#[test]
fn file_tools_make_no_blackboard() {
    let targets = [
        ".baton/memory/dev_plan.md",
        ".baton/x",
        ".Baton/baton.toml",
        "sub/.baton/baton.toml",
        "a/b/.BATON/x",
        "src/../sub/.baton/x",
        "to-sub/.baton/x",
        "orchestrator/memory/dev_plan.md",
        "orchestrator/memory/project_history.md",
        "orchestrator/memory/verification_policy.json",
        "orchestrator/memory/prompts/subagent_prompt_main.md",
        "Orchestrator/Memory/dev_plan.md",
        "src/orchestrator/memory/verification_policy.json",
        "sub/orchestrator/memory/prompts/subagent_prompt_dev.md",
    ];
    for there in [false, true] {
        let place = answering(vec![
            calls(&targets.map(write)),
            calls(&[
                write("src/orchestrator/mod.rs"),
                write("orchestrator/memory/store.py"),
                write("orchestrator/memory/prompts/summarize.md"),
                write("baton/memory/dev_plan.md"),
            ]),
            text("done"),
        ]);
        fs::create_dir_all(place.path("project/sub")).unwrap();
        symlink("sub", place.path("project/to-sub")).unwrap();
        if there {
            for name in targets {
                place.write(&format!("project/{name}"), "mine\n");
            }
        }
        let before: Vec<_> =
            targets.map(|name| fs::read(place.path("project").join(name)).ok()).into();
        let said = expect(&place, &["exec", "-p", "go"], 0);
        let after: Vec<_> =
            targets.map(|name| fs::read(place.path("project").join(name)).ok()).into();
        assert!(before == after, "{there}: {said}");
        let envelopes = place.envelopes();
        for (envelope, target) in envelopes.iter().zip(targets) {
            assert_eq!(envelope["error"]["code"], "PROTECTED", "{target}: {envelope}");
        }
        // A folder that is merely called so is the project's own. In one that is a blackboard nothing
        // can be written, as for commands.
        let others = &envelopes[targets.len()..];
        for (index, envelope) in others.iter().enumerate() {
            match there && index < 3 {
                false => assert_eq!(envelope["status"], "success", "{envelope}"),
                true => {
                    let message = envelope["error"]["message"].as_str().unwrap();
                    assert!(message.contains("belongs to a blackboard"), "{envelope}");
                }
            }
        }
    }
}

#[test]
fn blackboards_of_the_project_cannot_be_changed_by_commands() {
    let names = ["sub/.baton", "sub/orchestrator", "orchestrator"];
    let lines: Vec<String> = names
        .iter()
        .flat_map(|name| {
            [
                format!("echo {CANARY} >> {name}/memory/dev_plan.md"),
                format!("rm -rf {name}"),
                format!("mv {name} {name}-old; {}", planting(name)),
                format!("mkdir -p {name}/memory/prompts; echo {CANARY} > {name}/memory/prompts/subagent_prompt_main.md"),
            ]
        })
        .chain(["mv sub old; mkdir sub".to_owned()])
        .collect();
    let all: Vec<(&str, Value)> = lines.iter().map(|line| bash(line)).collect();
    let place = answering(vec![calls(&all), text("done")]);
    for name in names {
        place.write(&format!("project/{name}/memory/dev_plan.md"), "# Plan\n");
    }
    let before = names.map(|name| super::tree(&place.path("project").join(name), &[]));
    let said = expect(&place, &["exec", "-p", "go"], 0);
    let after = names.map(|name| super::tree(&place.path("project").join(name), &[]));
    assert!(before == after, "{said}");
}

#[test]
fn a_folder_that_is_called_orchestrator_stays_as_it_is() {
    let line = "mkdir -p src/orchestrator/memory/prompts orchestrator/memory && echo x > src/orchestrator/mod.rs && echo x > src/orchestrator/memory/prompts/summarize.md && echo x > orchestrator/memory/cache.py";
    let place = answering(vec![calls(&[bash(line)]), text("done")]);
    let said = expect(&place, &["exec", "-p", "go"], 0);
    assert!(!said.contains("moved aside"), "{said}");
    for name in [
        "src/orchestrator/mod.rs",
        "src/orchestrator/memory/prompts/summarize.md",
        "orchestrator/memory/cache.py",
    ] {
        assert_eq!(place.read(&format!("project/{name}")), "x\n");
    }
}

fn until(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_blackboard_of_a_command_that_was_killed_is_not_used() {
    for (folder, at) in [("orchestrator", ""), ("sub/.baton", "sub")] {
        let line = format!("{}; echo > made; sleep 600", planting(folder));
        let place = answering(vec![calls(&[bash(&line)]), text("done")]);
        let mut child = place.command(&["exec", "-p", "go"]).spawn().unwrap();
        until(&place.path("project/made"));
        let folder_of = place.path("project").join(at);
        let refused = |when: &str| {
            for args in [&["prompt", "main"][..], &["status"], &["run", "x"], &["gate", "list"]] {
                let (code, said) = ran(&place, &folder_of, args);
                assert_eq!(code, 2, "{when}: {args:?}: {said}");
                assert!(said.contains("appeared while an agent worked"), "{when}: {said}");
            }
        };
        refused("while it works");
        child.kill().unwrap();
        child.wait().unwrap();
        refused("after it was killed");
        // The next turn moves it aside.
        let place = place.with_model(Model::start(vec![text("hello")]));
        let said = expect(&place, &["exec", "-p", "hello"], 0);
        assert!(said.contains("left by an interrupted command"), "{said}");
        assert!(!is_used(&place, at));
    }
}

#[test]
fn a_blackboard_that_the_user_makes_while_an_agent_works_stays() {
    let line = "echo > ../project/made; while [ ! -e go ]; do sleep 0.05; done";
    let place = answering(vec![calls(&[bash(line), bash("true")]), text("done")]);
    fs::create_dir_all(place.path("project/sub")).unwrap();
    let mut child = place.command(&["exec", "-p", "go"]).spawn().unwrap();
    until(&place.path("project/made"));
    for (folder, flags) in
        [("project/sub", &["init", "--no-gates"][..]), ("project", &["init", "--no-gates"])]
    {
        let output = place.plain(flags).current_dir(place.path(folder)).output().unwrap();
        assert!(output.status.success(), "{folder}: {}", super::said(&output));
    }
    place.write("project/go", "");
    assert!(child.wait().unwrap().success());
    for folder in ["project/sub", "project"] {
        let output = place.plain(&["status"]).current_dir(place.path(folder)).output().unwrap();
        assert!(output.status.success(), "{folder}: {}", super::said(&output));
    }
}

/// What a killed process can leave of a blackboard.
#[test]
fn an_unfinished_blackboard_is_none() {
    for folders in [&[""][..], &["memory"], &["memory/prompts", "state", "journal", "cache"]] {
        for args in [&["init", "--no-gates"][..], &["run", "Make it safe"], &["exec", "-p", "x"]] {
            let place = answering(vec![text("x")]);
            for folder in folders {
                fs::create_dir_all(place.path("project/.baton").join(folder)).unwrap();
            }
            if folders.len() > 1 {
                place.write("project/.baton/state/run.lock", "process 1, run run-0001\n");
                place.write("project/.baton/memory/.baton-AbCdEf", "half");
            }
            fs::create_dir_all(place.path("project/.baton-new-killed/memory")).unwrap();
            let status = expect(&place, &["status"], 2);
            assert!(status.contains("there is no blackboard"), "{status}");
            expect(&place, args, if args[0] == "run" { 3 } else { 0 });
            if args[0] != "exec" {
                expect(&place, &["status"], 0);
                assert!(!place.path("project/.baton-new-killed").exists());
                assert!(!place.path("project/.baton/memory/.baton-AbCdEf").exists());
            }
        }
    }
    // What holds files is nobody's to replace.
    let place = answering(vec![text("x")]);
    place.write("project/.baton/journal/run-0001/000001.log", "mine");
    for args in [&["init"][..], &["run", "x"], &["status"]] {
        let said = expect(&place, args, 2);
        assert!(said.contains("no `memory` folder"), "{args:?}: {said}");
    }
    assert_eq!(place.read("project/.baton/journal/run-0001/000001.log"), "mine");
}

#[test]
fn a_write_protected_file_is_refused() {
    let place = answering(vec![
        calls(&[
            ("Write", json!({ "path": "fixed.txt", "content": "x" })),
            ("Edit", json!({ "path": "fixed.txt", "old_string": "mine", "new_string": "x" })),
            (
                "MultiEdit",
                json!({ "path": "fixed.txt", "edits": [{ "old_string": "mine", "new_string": "x" }] }),
            ),
            ("Read", json!({ "path": "free.txt" })),
            ("Write", json!({ "path": "free.txt", "content": "x" })),
        ]),
        text("done"),
    ]);
    use std::os::unix::fs::PermissionsExt;
    for (name, mode) in [("fixed.txt", 0o444), ("free.txt", 0o644)] {
        place.write(&format!("project/{name}"), "mine\n");
        let path = place.path("project").join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    expect(&place, &["exec", "-p", "go"], 0);
    let envelopes = place.envelopes();
    for envelope in &envelopes[..3] {
        assert_eq!(envelope["error"]["code"], "READ_ONLY", "{envelope}");
        assert!(envelope["error"]["message"].as_str().unwrap().contains("mode 444"), "{envelope}");
    }
    assert_eq!(envelopes[4]["status"], "success", "{}", envelopes[4]);
    assert_eq!(place.read("project/fixed.txt"), "mine\n");
    assert_eq!(place.read("project/free.txt"), "x");
}
