//! Gates by the real binary in real small projects: proposed, added, run, shown when they fail; and the
//! folders in which no run may start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::{Model, Place, answer, decision, report, text};
use serde_json::{Value, json};

const POLICY: &str = "project/.baton/memory/verification_policy.json";
const PLAN: &str =
    r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;
const RUN: [&str; 4] = ["run", "Make add() safe", "--executor", "script"];

/// A run in which TEST passes, REVIEW passes and MAIN finishes.
fn tdd() -> Place {
    let place = crate::team("tdd");
    let text = place.read(POLICY).replace("\"min_coverage\": 80", "\"min_coverage\": 0");
    place.write(POLICY, text);
    place.play("1-MAIN", &decision("TEST", PLAN));
    place.play("1-TEST", &report(1, "PASS", "none"));
    place.play("2-MAIN", &decision("REVIEW", "null"));
    place.play("2-REVIEW", &report(2, "PASS", "none"));
    place.play_finish(3);
    place
}

/// Runs in a folder below the place's own, with cargo's homes and toolchain as this machine has them.
fn said(place: &Place, folder: &str, args: &[&str], code: i32) -> String {
    let mut command = place.command(args);
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    for (name, usual) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        command.env(name, std::env::var_os(name).map_or(home.join(usual), PathBuf::from));
    }
    let chosen = "RUSTUP_TOOLCHAIN";
    command.envs(std::env::var_os(chosen).map(|value| (chosen, value)));
    answer(command.current_dir(place.path(folder))).expect(args, code)
}

/// A crate with one test that passes while `add` is right.
fn a_crate(place: &Place, folder: &str) {
    fs::create_dir_all(place.path(&format!("{folder}/src"))).unwrap();
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    place.write(&format!("{folder}/Cargo.toml"), manifest);
    let source = "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n";
    place.write(&format!("{folder}/src/lib.rs"), source);
}

fn gates(place: &Place) -> Value {
    serde_json::from_str::<Value>(&place.read(POLICY)).unwrap()["gates"].clone()
}

#[test]
fn a_command_without_quotes_is_explained() {
    let place = tdd();
    for typed in [&["gate", "add", "pytest", "-q"][..], &["gate", "add", "make", "test"]] {
        let said = place.expect(typed, 2);
        assert!(said.contains("put the whole command in quotes"), "{said}");
        assert!(!said.contains("use '--"), "{said}");
    }
}

#[test]
fn init_proposes_gates_and_adds_them_only_when_it_is_told_to() {
    let place = crate::team("tdd");
    a_crate(&place, "crate");
    let printed = said(&place, "crate", &["init"], 0);
    assert!(printed.contains("baton gate add \"cargo test\""), "{printed}");
    let policy = place.path("crate/.baton/memory/verification_policy.json");
    assert!(fs::read_to_string(&policy).unwrap().contains("\"gates\": []"));
    assert!(!place.path("crate/target").exists(), "nothing was run");
    fs::remove_dir_all(place.path("crate/.baton")).unwrap();
    let printed = said(&place, "crate", &["init", "--no-gates"], 0);
    assert!(!printed.contains("gate"), "{printed}");
    fs::remove_dir_all(place.path("crate/.baton")).unwrap();
    let printed = said(&place, "crate", &["init", "--gates"], 0);
    assert!(
        printed.contains("passed in") && printed.contains("added: `cargo test` on TEST, FINISH")
    );
    let text = fs::read_to_string(&policy).unwrap();
    assert!(text.contains(r#"{ "on": ["TEST", "FINISH"], "run": "cargo test", "timeout": 600 }"#));
    // It ran in the sandbox of gates, and needs no consent: its user asked for it.
    let printed = said(&place, "crate", &["gate", "run"], 0);
    assert!(
        printed.contains("gate 1 passed in") && printed.contains("test adds ... ok"),
        "{printed}"
    );
}

#[test]
fn gate_add_keeps_the_rest_of_the_policy_and_the_user_need_not_agree_again() {
    let place = tdd();
    let before = place.read(POLICY).replacen("{\n", "{\n  \"$schema\":   \"mine\",\n", 1);
    place.write(POLICY, &before);
    let printed = place.expect(&["gate", "add", "grep -q add src/lib.rs", "--timeout", "30"], 0);
    assert!(printed.contains("passed in"), "{printed}");
    let after = place.read(POLICY);
    let from = before.find("\"gates\": []").unwrap();
    assert_eq!(after[..from], before[..from]);
    assert!(after.ends_with(&before[from + "\"gates\": []".len()..]), "{after}");
    place.expect(&["gate", "add", "true", "--on", "finish"], 0);
    let listed: Value =
        serde_json::from_str(&place.expect(&["gate", "list", "--json"], 0)).unwrap();
    assert_eq!(
        listed["gates"][0],
        json!({ "number": 1, "on": ["TEST", "FINISH"], "run": "grep -q add src/lib.rs", "timeout": 30, "allow": [] })
    );
    assert_eq!((&listed["gates"][1]["on"], &listed["trusted"]), (&json!(["FINISH"]), &json!(true)));
    assert!(place.expect(&["gate", "add", "true"], 2).contains("`true` is a gate already"));
    assert!(
        place.expect(&["gate", "add", "x", "--on", "TSET"], 2).contains("did you mean `TEST`?")
    );
    let printed = place.expect(&RUN, 0);
    assert!(
        printed.contains("gates: `grep -q add src/lib.rs` on TEST, FINISH; `true` on FINISH"),
        "{printed}"
    );
    assert!(printed.contains("gates passed: grep -q add src/lib.rs, true"), "{printed}");
    place.expect(&["gate", "remove", "true"], 0);
    place.expect(&["gate", "remove", "1"], 0);
    assert_eq!(place.read(POLICY), before);
    assert!(place.expect(&["gate", "remove", "1"], 2).contains("there is no gate `1`"));
    assert!(place.expect(&["gate", "run"], 2).contains("no gate is set"));
}

#[test]
fn gate_add_agrees_to_nothing_that_was_not_typed() {
    let place = tdd();
    let own = "[executors.evil]\ncommand = [\"sh\", \"-c\", \"touch ../evil\"]\n";
    place.write("project/.baton/baton.toml", format!("pack = \"tdd\"\nlang = \"en\"\n{own}"));
    let printed = place.expect(&["gate", "add", "true"], 0);
    assert!(printed.contains("name other commands that you have not agreed to"), "{printed}");
    assert!(place.expect(&RUN, 2).contains("baton trust"));
    assert!(place.expect(&["gate", "run"], 2).contains("have not agreed to"));
    assert!(place.expect(&["doctor"], 0).contains("have not agreed to"));
    let listed = place.expect(&["trust", "--list"], 0);
    assert!(listed.contains("not agreed to:") && listed.contains("executor evil"), "{listed}");
    assert!(place.expect(&RUN, 2).contains("baton trust"), "looking is not agreeing");
    place.expect(&["trust"], 0);
    place.expect(&["gate", "run"], 0);
    place.expect(&["trust", "--revoke"], 0);
    assert!(place.expect(&RUN, 2).contains("baton trust"));
}

#[test]
fn a_gate_that_cannot_work_is_not_added_and_says_why() {
    let place = tdd();
    let before = place.read(POLICY);
    for (command, more, reason) in [
        ("no-such-program --x", "600", "exit 127: command not found: no-such-program"),
        ("sleep 100", "1", "did not end within 1 s; is it a watcher or a server?"),
        ("echo 'Error: no test specified' && exit 1", "600", "the placeholder of npm"),
    ] {
        let printed = place.expect(&["gate", "add", command, "--timeout", more], 2);
        assert!(printed.contains(reason) && printed.contains("--no-run"), "{printed}");
        assert_eq!(place.read(POLICY), before);
    }
    place.expect(&["gate", "add", "no-such-program --x", "--no-run"], 0);
    let printed = place.expect(&["gate", "run"], 3);
    assert!(
        printed.contains("gate 1 failed in") && printed.contains("command not found"),
        "{printed}"
    );
}

#[test]
fn a_gate_that_fails_now_is_added_and_its_failure_is_shown() {
    let place = tdd();
    let printed = place.expect(&["gate", "add", "echo to out; echo to err >&2; exit 4"], 0);
    assert!(printed.contains("failed in") && printed.contains("exit 4"), "{printed}");
    assert!(
        printed.contains("  | to out\n  | to err\n"),
        "in the order in which it was printed: {printed}"
    );
    assert!(
        printed.contains("it fails now: a pass of TEST, FINISH does not count until it passes"),
        "{printed}"
    );
    assert_eq!(gates(&place)[0]["on"], json!(["TEST", "FINISH"]));
}

/// A virtual environment of the machine's own interpreter, with a module in it.
fn environment(folder: &Path, module: &str, main: &str) {
    let mut made = Command::new("python3");
    made.args(["-m", "venv", "--without-pip", ".venv"]).current_dir(folder);
    assert!(made.status().unwrap().success());
    let lib = fs::read_dir(folder.join(".venv/lib")).unwrap().next().unwrap().unwrap().path();
    let package = lib.join("site-packages").join(module);
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("__init__.py"), "").unwrap();
    fs::write(package.join("__main__.py"), main).unwrap();
}

#[test]
fn python_is_run_by_the_projects_own_environment_and_no_tests_is_no_pass() {
    let place = crate::team("tdd");
    let folder = place.path("py");
    fs::create_dir_all(folder.join("tests")).unwrap();
    fs::write(folder.join("tests/test_a.py"), "def test_a():\n    pass\n").unwrap();
    // It ends as pytest does when it collects nothing.
    environment(&folder, "pytest", "import sys\nprint('no tests ran in 0.01s')\nsys.exit(5)\n");
    let printed = said(&place, "py", &["init"], 0);
    assert!(printed.contains("baton gate add \".venv/bin/python -m pytest -q\""), "{printed}");
    let printed = said(&place, "py", &["gate", "add", ".venv/bin/python -m pytest -q"], 0);
    assert!(printed.contains("exit 5: no test was run"), "{printed}");
    // Without any pytest, and with tests that need none.
    fs::remove_dir_all(folder.join(".venv")).unwrap();
    fs::write(folder.join("tests/test_a.py"), "import unittest\n").unwrap();
    fs::remove_dir_all(folder.join(".baton")).unwrap();
    let mut command = place.command(&["init", "--json"]);
    let bin = place.path("bin");
    fs::create_dir_all(&bin).unwrap();
    symlink("/bin/sh", bin.join("sh")).unwrap();
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let python = String::from_utf8(python.unwrap().stdout).unwrap();
    let script = format!("#!/bin/sh\nexec '{}' -S \"$@\"\n", python.trim());
    fs::write(bin.join("python3"), script).unwrap();
    fs::set_permissions(bin.join("python3"), fs::Permissions::from_mode(0o755)).unwrap();
    let output = command.current_dir(&folder).env("PATH", &bin).output().unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    let proposal = &made["gates"]["proposals"][0]["command"];
    assert_eq!(*proposal, "python3 -m unittest discover -s tests", "{made}");
    let printed = said(&place, "py", &["gate", "add", proposal.as_str().unwrap()], 0);
    assert!(printed.contains("no test was run"), "{printed}");
    // The interpreter on the PATH has pytest: its package, or its program beside it.
    let library = place.path("lib/python3.11/site-packages/pytest");
    fs::create_dir_all(&library).unwrap();
    fs::write(library.join("__init__.py"), "").unwrap();
    let listed = place.command(&["gate", "list"]).current_dir(&folder).env("PATH", &bin).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    assert!(listed.contains("baton gate add \"python3 -m pytest -q\""), "{listed}");
}

#[test]
fn detection_executes_nothing_of_a_hostile_project() {
    let place = crate::team("tdd");
    let folder = place.path("evil");
    let canary = place.path("canary");
    let touch = format!("#!/bin/sh\ntouch '{}'\n", canary.display());
    for file in [
        ".venv/bin/python",
        "venv/bin/python3",
        "bin/python3",
        "bin/python",
        "bin/cargo",
        "bin/npm",
    ] {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &touch).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir_all(folder.join("tests")).unwrap();
    let shell = format!("$(shell touch '{}')\ntest:\n\ttrue\n", canary.display());
    let own = format!("import os\nos.system('touch {}')\n", canary.display());
    for (name, text) in [
        ("Makefile", shell.as_str()),
        ("noxfile.py", &own),
        ("conftest.py", &own),
        ("tests/test_a.py", &own),
        ("setup.py", &own),
        ("sitecustomize.py", &own),
        ("importlib.py", &own),
        ("package.json", r#"{"scripts":{"test":"touch ../canary"}}"#),
        ("Cargo.toml", "[package]\nname = \"x\"\nbuild = \"build.rs\"\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    assert!(Command::new("mkfifo").arg(folder.join("go.mod")).status().unwrap().success());
    let path = format!("bin:{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    for args in [&["init"][..], &["gate", "list"], &["doctor"]] {
        let mut command = place.command(args);
        let output = command.current_dir(&folder).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!canary.exists(), "{args:?} executed something of the project");
    }
}

#[test]
fn a_run_without_a_gate_says_so_at_its_start_and_at_its_end() {
    let place = tdd();
    a_crate(&place, "project");
    let printed = said(&place, "project", &RUN, 0);
    let start = "no gate is set: only the agents' own reports will confirm the result; found: `baton gate add \"cargo test\"`";
    let end = "finished\nfiles changed: none\nno gate is set: nothing but the agents' own reports confirms this result\n";
    assert!(printed.contains(start) && printed.contains(end), "{printed}");
    assert!(
        place
            .expect(&["doctor"], 0)
            .contains("none is set; found: `baton gate add \"cargo test\"`")
    );
}

#[test]
fn an_overturned_pass_is_printed_with_its_reason_and_its_whole_output_is_kept() {
    let place = tdd();
    let gate = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo line $i; done; test -f ../ready";
    place.expect(&["gate", "add", gate], 0);
    place.play("2-MAIN", &decision("TEST", "null"));
    place.write("play/2-MAIN.sh", "touch ../ready\n");
    place.play("2-TEST", &report(2, "PASS", "none"));
    place.play("3-MAIN", &decision("REVIEW", "null"));
    place.play("3-REVIEW", &report(3, "PASS", "none"));
    place.play_finish(4);
    let printed = place.expect(&RUN, 0);
    for shown in [&printed, &place.expect(&["log"], 0)] {
        assert!(shown.contains("[1] TEST: PASS overturned: gate `for i in 1 2 3"), "{shown}");
        assert!(shown.contains("failed (exit 1)\n"), "{shown}");
        assert!(shown.contains("      | line 20\n") && !shown.contains("| line 5\n"), "{shown}");
        assert!(shown.contains("whole output: .baton/gates/1_1.log"), "{shown}");
    }
    let whole = place.read("project/.baton/gates/1_1.log");
    assert!(whole.starts_with("line 1\n") && whole.ends_with("line 20\n"), "{whole}");
    assert!(place.path("project/.baton/gates/4_1.log").exists());
    let archived = fs::read_dir(place.path("project/.baton/reports/archive")).unwrap().count();
    assert!(archived >= 4);
    assert!(place.history().contains("gate: failed (exit 1): for i"), "{}", place.history());
    assert!(place.history().contains("verdict: TEST FAIL (overturned: the gate `for i"));
    assert!(place.expect(&["gc", "--days", "0", "--dry-run"], 0).contains("are kept"));
}

#[test]
fn a_gate_without_tests_does_not_confirm_a_pass() {
    let place = tdd();
    place.expect(&["gate", "add", "echo 'no tests ran in 0.01s'; exit 5 # pytest"], 0);
    place.play("2-MAIN", r#"{"next_agent":"USER","reason":"which?","dev_plan":null,"finish_review_override":null,"question":{"title":"Which way?","text":"A or B","options":[{"option_id":"a","description":"A"},{"option_id":"b","description":"B"}],"recommended_option_id":"a"}}"#);
    let printed = place.expect(&RUN, 10);
    assert!(printed.contains("failed (exit 5: no test was run)"), "{printed}");
    assert!(place.read("project/.baton/reports/report_test.md").contains("no test was run"));
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn gates_change_between_processes_of_a_run_and_resume_adopts_them() {
    let place = tdd();
    place.write("play/1-TEST.sh", "touch ../begun; until [ -f ../go ]; do sleep 0.01; done\n");
    let mut run = place.command(&RUN);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the stage", || place.path("begun").exists());
    let before = place.read(POLICY);
    for args in [&["gate", "add", "true"][..], &["gate", "remove", "1"]] {
        let printed = place.expect(args, 5);
        assert!(printed.contains("a run is using the blackboard"), "{printed}");
    }
    assert_eq!(place.read(POLICY), before);
    place.expect(&["stop"], 0);
    place.write("go", "");
    run.wait().unwrap();
    let printed = place.expect(&["gate", "add", "true"], 0);
    assert!(printed.contains("`baton resume --adopt` continues with them"), "{printed}");
    assert!(place.expect(&["resume"], 2).contains("baton resume --adopt"));
    let printed = place.expect(&["resume", "--adopt"], 0);
    assert!(
        printed.contains("gate passed: true") && printed.contains("gates passed: true"),
        "{printed}"
    );
}

#[test]
fn no_run_starts_in_the_home_folder_or_at_the_root_and_nothing_is_made_there() {
    let place = crate::team("tdd");
    let model = Model::start(vec![text("nonsense")]);
    let server =
        ["--provider", "openai-chat", "--base-url", model.url.as_str(), "--model", "scripted"];
    let home = place.path("home");
    let tree = || {
        let mut names: Vec<_> =
            fs::read_dir(&home).unwrap().map(|own| own.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = tree();
    for (folder, reason) in [
        ("home", "is your home folder, not a project"),
        (".", "contains your home folder"),
        ("/", "is the root of the file system, not a project"),
    ] {
        let run = [&["run", "x"][..], &server].concat();
        for args in [&["init"][..], &["init", "--here"], &run] {
            let mut command = place.command(args);
            let output = command.current_dir(place.path(folder)).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{folder} {args:?}: {said}");
            assert!(said.contains(reason) && said.contains("`cd` into a project"), "{said}");
        }
    }
    assert_eq!(tree(), before);
    assert!(!place.path(".baton").exists() && !Path::new("/.baton").exists());
    assert!(model.requests().is_empty(), "a model was called");
    // One that an earlier version made there is not used for a project below.
    fs::create_dir_all(home.join("below")).unwrap();
    let copy =
        Command::new("cp").args(["-r"]).arg(place.path("project/.baton")).arg(&home).status();
    assert!(copy.unwrap().success());
    let mut command = place.command(&[&["run", "x"][..], &server].concat());
    let output = command.current_dir(home.join("below")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("home/.baton") && said.contains("`baton init --here`"), "{said}");
    assert!(model.requests().is_empty());
}

#[test]
fn a_blackboard_above_is_named_and_never_hidden_by_a_second_one() {
    let place = tdd();
    fs::create_dir_all(place.path("project/src/deep")).unwrap();
    let project = fs::canonicalize(place.path("project")).unwrap().display().to_string();
    let printed = said(&place, "project/src/deep", &["init"], 2);
    assert!(printed.contains(&format!("{project}/.baton is the blackboard")), "{printed}");
    assert!(printed.contains("--here") && !place.path("project/src/deep/.baton").exists());
    place.play("1-MAIN", r#"{"next_agent":"USER","reason":"which?","dev_plan":null,"finish_review_override":null,"question":{"title":"Which way?","text":"A or B","options":[{"option_id":"a","description":"A"},{"option_id":"b","description":"B"}],"recommended_option_id":"a"}}"#);
    let printed = said(&place, "project/src/deep", &RUN, 10);
    assert!(printed.contains(&format!("using the blackboard of {project}")), "{printed}");
    let printed = said(&place, "project/src/deep", &RUN, 2);
    assert!(printed.contains(&format!("run run-0001 of {project} is not finished")), "{printed}");
    said(&place, "project/src/deep", &["init", "--here"], 0);
    assert!(place.path("project/src/deep/.baton").exists());
}

#[test]
fn a_run_that_makes_a_blackboard_says_which_pack_and_language_it_has() {
    let place = crate::team("tdd");
    for (folder, made, more) in [
        ("new", "made .baton: pack tdd (en)", ""),
        ("zh", "已创建 .baton：包 analysis（zh）", "pack = \"analysis\"\nlang = \"zh\"\n"),
    ] {
        fs::create_dir_all(place.path(folder)).unwrap();
        let own = "[executors.script]\ncommand = [\"sh\", \"../agent.sh\"]\n";
        place.write("home/.config/baton/baton.toml", format!("{more}{own}"));
        place.play("1-MAIN", "nonsense");
        let printed = said(&place, folder, &RUN, 3);
        assert!(printed.contains(made), "{printed}");
    }
}

#[test]
fn a_budget_in_dollars_that_cannot_be_kept_is_refused_before_the_first_call() {
    let place = crate::team("tdd");
    // A program that does not say what it costs.
    for flag in ["--budget-dollars", "--stage-dollars"] {
        let printed = place.expect(&[&RUN[..], &[flag, "5"]].concat(), 2);
        assert!(
            printed.contains("what script costs") && printed.contains("--budget-tokens"),
            "{printed}"
        );
    }
    assert!(
        !place.path("calls").exists() && !place.path("project/.baton/journal/run-0001").exists()
    );
    // A run that has such a budget keeps it: `resume` and `answer` refuse a model without a price.
    let option = |id: &str| json!({ "option_id": id, "description": id });
    let question = json!({ "title": "T", "text": "A or B", "options": [option("a"), option("b")], "recommended_option_id": "b" });
    let asks = json!({ "next_agent": "USER", "reason": "which?", "dev_plan": null, "finish_review_override": null, "question": question });
    let model = Model::start(vec![text(&asks.to_string())]);
    let settings = "home/.config/baton/baton.toml";
    place.write(settings, "[models.dear]\ninput = 1.0\noutput = 2.0\n");
    let server = ["--provider", "openai-chat", "--base-url", model.url.as_str(), "--model", "dear"];
    let run = [&["run", "x", "--budget-dollars", "5"][..], &server].concat();
    place.expect(&run, 10);
    let calls = model.requests().len();
    place.write(settings, "");
    for args in [&["resume"][..], &["answer", "1"], &["resume", "--model", "other"]] {
        let printed = place.expect(args, 2);
        assert!(printed.contains("a budget in dollars needs the price of"), "{args:?}: {printed}");
    }
    assert_eq!(model.requests().len(), calls, "a model was called");
}
