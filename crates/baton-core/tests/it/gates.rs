//! Which commands are proposed for which project, what a command's end means, and how a policy's
//! text changes with its gates.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::gate::{Detected, Ending, Project, detect, judge, reason, with_gates};
use baton_core::id::AgentName;
use baton_core::policy::{Agents, Gate};

/// A project that is a list of files, with programs around it.
#[derive(Default)]
struct Fake {
    files: BTreeMap<String, String>,
    programs: BTreeSet<String>,
    modules: BTreeSet<(String, String)>,
}

impl Fake {
    fn of(files: &[(&str, &str)], programs: &str) -> Fake {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        let programs = programs.split_whitespace().map(str::to_owned).collect();
        Fake { files: files.collect(), programs, modules: BTreeSet::new() }
    }

    fn with(mut self, interpreter: &str, module: &str) -> Fake {
        self.modules.insert((interpreter.to_owned(), module.to_owned()));
        self
    }
}

impl Project for Fake {
    fn text(&self, path: &str) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn is_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let names = self.files.keys().filter_map(|path| path.strip_prefix(&folder));
        names.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }

    fn folders(&self) -> Vec<String> {
        let first = self.files.keys().filter_map(|path| path.split_once('/'));
        first.map(|(folder, _)| folder.to_owned()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn has_program(&self, name: &str) -> bool {
        self.programs.contains(name)
    }

    fn has_module(&self, interpreter: &str, module: &str) -> bool {
        self.modules.contains(&(interpreter.to_owned(), module.to_owned()))
    }
}

fn main_commands(found: &Detected) -> Vec<&str> {
    found.main().map(|own| own.command.as_str()).collect()
}

/// Projects by name, with the commands that cover them.
fn expect(cases: Vec<(&str, Fake, &[&str])>) {
    for (name, project, expected) in cases {
        let found = detect(&project);
        assert_eq!(main_commands(&found), expected, "{name}: {found:?}");
    }
}

#[test]
fn rust_and_python_get_the_command_that_runs_their_tests_once() {
    expect(vec![
        ("a crate", Fake::of(&[("Cargo.toml", "[package]\nname='x'")], "cargo"), &["cargo test"]),
        (
            "a workspace",
            Fake::of(&[("Cargo.toml", "[workspace]\nmembers=['a']")], "cargo"),
            &["cargo test --workspace"],
        ),
        (
            "pytest in the project's own environment",
            Fake::of(
                &[("pyproject.toml", "[tool.pytest.ini_options]"), (".venv/bin/python", "")],
                "python3",
            )
            .with(".venv/bin/python", "pytest"),
            &[".venv/bin/python -m pytest -q"],
        ),
        (
            "pytest of the machine",
            Fake::of(&[("tests/test_a.py", "def test_a(): pass")], "python3")
                .with("python3", "pytest"),
            &["python3 -m pytest -q"],
        ),
        (
            "an environment without pytest does not count",
            Fake::of(&[("conftest.py", ""), ("venv/bin/python", "")], "python3")
                .with("python3", "pytest"),
            &["python3 -m pytest -q"],
        ),
        (
            "uv",
            Fake::of(
                &[
                    ("pyproject.toml", "[dependency-groups]\ndev=['pytest']"),
                    ("uv.lock", ""),
                    ("tests/test_a.py", ""),
                ],
                "uv",
            ),
            &["uv run pytest -q"],
        ),
        (
            "poetry",
            Fake::of(
                &[("pyproject.toml", "[tool.poetry]\n[tool.pytest.ini_options]")],
                "poetry python3",
            ),
            &["poetry run pytest -q"],
        ),
        ("tox", Fake::of(&[("tox.ini", "[tox]\nenvlist=py3")], "tox python3"), &["tox"]),
        ("nox", Fake::of(&[("noxfile.py", "")], "nox"), &["nox"]),
        (
            "unittest",
            Fake::of(
                &[("tests/test_a.py", "import unittest\n"), ("tests/__init__.py", "")],
                "python3",
            ),
            &["python3 -m unittest discover -s tests -t ."],
        ),
    ]);
}

#[test]
fn other_ecosystems_get_the_command_that_runs_their_tests_once() {
    let package = r#"{"scripts":{"test":"jest"}}"#;
    expect(vec![
        (
            "npm",
            Fake::of(&[("package.json", package), ("package-lock.json", "")], "npm"),
            &["npm test"],
        ),
        (
            "pnpm by its lock",
            Fake::of(&[("package.json", package), ("pnpm-lock.yaml", "")], "npm pnpm"),
            &["pnpm test"],
        ),
        (
            "yarn by its lock",
            Fake::of(&[("package.json", package), ("yarn.lock", "")], "npm yarn"),
            &["yarn test"],
        ),
        (
            "the manager that is named",
            Fake::of(
                &[
                    (
                        "package.json",
                        r#"{"packageManager":"pnpm@9.1.0","scripts":{"test":"jest"}}"#,
                    ),
                    ("yarn.lock", ""),
                ],
                "pnpm yarn",
            ),
            &["pnpm test"],
        ),
        ("go", Fake::of(&[("go.mod", "module x")], "go"), &["go test ./..."]),
        (
            "make",
            Fake::of(&[("Makefile", "CC := gcc\nlint test: build\n\techo")], "make"),
            &["make test"],
        ),
        (
            "make check",
            Fake::of(&[("Makefile", "test := 1\ncheck:\n\techo")], "make"),
            &["make check"],
        ),
        (
            "just",
            Fake::of(&[("justfile", "default:\n  echo\n@test flags='':\n  echo")], "just"),
            &["just test"],
        ),
        (
            "several",
            Fake::of(
                &[("Cargo.toml", ""), ("package.json", package), ("go.mod", "")],
                "cargo npm go",
            ),
            &["cargo test", "npm test", "go test ./..."],
        ),
        (
            "folders of a project without tests at its root",
            Fake::of(
                &[("api/go.mod", ""), ("web/package.json", package), ("README.md", "")],
                "npm go",
            ),
            &["cd api && go test ./...", "cd web && npm test"],
        ),
        ("nothing", Fake::of(&[("README.md", "")], "cargo npm go make"), &[]),
    ]);
}

#[test]
fn what_cannot_be_run_is_named_and_not_proposed() {
    for (files, programs, note) in [
        (&[("Cargo.toml", "[package]")][..], "", "no cargo is on the PATH"),
        (&[("go.mod", "")], "", "no go is on the PATH"),
        (&[("pytest.ini", "")], "python3", "pytest was found neither in .venv or venv nor"),
        (&[("tox.ini", "[tox]")], "", "neither tox nor nox"),
        (
            &[(
                "package.json",
                r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#,
            )],
            "npm",
            "placeholder",
        ),
        (
            &[("package.json", r#"{"scripts":{"test":"nodemon --exec jest"}}"#)],
            "npm",
            "would not end",
        ),
        (
            &[("package.json", r#"{"scripts":{"test":"jest"}}"#)],
            "",
            "run by npm, which is not on the PATH",
        ),
        (&[("package.json", "{")], "npm", "cannot be read"),
        (&[("justfile", "test:\n  x")], "", "no just is on the PATH"),
    ] {
        let found = detect(&Fake::of(files, programs));
        assert!(found.proposals.is_empty(), "{found:?}");
        assert!(found.notes.iter().any(|own| own.contains(note)), "{note}: {found:?}");
    }
}

#[test]
fn a_script_that_watches_is_proposed_in_a_form_that_ends() {
    for (script, expected) in [
        ("vitest", Some("npm test -- --run")),
        ("tsc --noEmit && vitest", Some("npm test -- --run")),
        ("vitest run", Some("npm test")),
        ("vitest --run", Some("npm test")),
        ("jest --watch", Some("npm test -- --watch=false")),
        ("jest --watchAll", Some("npm test -- --watchAll=false")),
        ("jest --watchAll=false", Some("npm test")),
        ("react-scripts test", Some("CI=true npm test")),
        ("karma start karma.conf.js", Some("npm test -- --single-run")),
        ("ng test", Some("npm test -- --watch=false")),
        ("mocha -w", Some("npm test -- --watch=false")),
        ("vitest && eslint .", None),
        ("tsc -w", None),
        ("node --test --watch", None),
        ("node --test", Some("npm test")),
        ("./node_modules/.bin/vitest", Some("npm test -- --run")),
    ] {
        let text = serde_json::json!({ "scripts": { "test": script } }).to_string();
        let found = detect(&Fake::of(&[("package.json", &text)], "npm"));
        assert_eq!(main_commands(&found).first().copied(), expected, "{script}");
    }
    let text = r#"{"scripts":{"test":"vitest","test:ci":"vitest run --coverage"}}"#;
    let found = detect(&Fake::of(&[("package.json", text), ("pnpm-lock.yaml", "")], "pnpm"));
    assert_eq!(main_commands(&found), ["pnpm run test:ci"]);
}

#[test]
fn a_target_beside_an_ecosystem_is_an_alternative() {
    let found =
        detect(&Fake::of(&[("Cargo.toml", ""), ("Makefile", "test:\n\tcargo test")], "cargo make"));
    assert_eq!(main_commands(&found), ["cargo test"]);
    let all: Vec<(&str, bool)> =
        found.proposals.iter().map(|own| (own.command.as_str(), own.is_alternative)).collect();
    assert_eq!(all, [("cargo test", false), ("make test", true)]);
}

#[test]
fn no_text_of_a_hostile_project_becomes_part_of_a_command() {
    let evil = "$(touch /tmp/x); `id`";
    let manifest = serde_json::json!({
        "packageManager": format!("npm; {evil}"), "scripts": { "test": evil, evil: evil }
    });
    let files = [
        ("package.json", manifest.to_string()),
        ("Makefile", format!("test {evil}:\n\t{evil}\n")),
        ("Cargo.toml", format!("[package]\nname = '{evil}'\n")),
        ("$(touch x)/go.mod", String::new()),
        ("-rf/go.mod", String::new()),
    ];
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    for files in [&files[..], &files[3..]] {
        let found = detect(&Fake::of(files, "npm make cargo go"));
        for own in &found.proposals {
            assert!(
                ["npm test", "make test", "cargo test"].contains(&own.command.as_str()),
                "{own:?}"
            );
        }
    }
}

/// A command, its end and output; the reason, and whether the command itself is wrong.
type Failing<'a> = (&'a str, Ending, &'a str, &'a str, bool);

fn expect_failure(cases: &[Failing<'_>]) {
    for (command, ending, output, expected, is_unusable) in cases {
        let judged = judge(command, *ending, output);
        assert!(!judged.passed, "{command}: {judged:?}");
        assert_eq!((judged.reason.as_str(), judged.is_unusable), (*expected, *is_unusable));
    }
}

#[test]
fn a_gate_that_ran_no_test_never_counts_as_passed() {
    let cargo = "running 0 tests\n\ntest result: ok. 0 passed\n\nrunning 0 tests\n";
    expect_failure(&[
        (
            "python -m pytest -q",
            Ending::Exit(5),
            "no tests ran in 0.01s\n",
            "exit 5: no test was run",
            false,
        ),
        (
            "make test",
            Ending::Exit(2),
            "no tests ran in 0.01s\nmake: *** [test] Error 5\n",
            "exit 2: no test was run",
            false,
        ),
        (
            "python3 -m unittest discover",
            Ending::Exit(0),
            "\nRan 0 tests in 0.000s\n\nOK\n",
            "exit 0: no test was run",
            false,
        ),
        ("cargo test", Ending::Exit(0), cargo, "exit 0: no test was run", false),
        (
            "go test ./...",
            Ending::Exit(0),
            "?   \texample.com/x\t[no test files]\n",
            "exit 0: no test was run",
            false,
        ),
        ("node --test", Ending::Exit(0), "# tests 0\n# pass 0\n", "exit 0: no test was run", false),
        (
            "npx jest",
            Ending::Exit(1),
            "No tests found, exiting with code 1\n",
            "exit 1: no test was run",
            false,
        ),
    ]);
}

#[test]
fn a_gate_that_cannot_run_or_does_not_end_says_so() {
    expect_failure(&[
        (
            "npm test",
            Ending::Exit(1),
            "Error: no test specified\n",
            "exit 1: \"no test specified\", the placeholder of npm",
            true,
        ),
        (
            "jest",
            Ending::Exit(127),
            "sh: 1: jest: not found\n",
            "exit 127: command not found: jest",
            true,
        ),
        (
            "./run",
            Ending::Exit(126),
            "sh: 1: ./run: Permission denied\n",
            "exit 126: the program cannot be executed",
            true,
        ),
        (
            "python3 -m pytest",
            Ending::Exit(1),
            "/usr/bin/python3: No module named pytest\n",
            "exit 1: pytest is not installed for this interpreter",
            true,
        ),
        (
            "vitest",
            Ending::TimedOut(60),
            "watching",
            "did not end within 60 s; is it a watcher or a server?",
            true,
        ),
        ("x", Ending::Signal(9), "", "ended by signal 9", false),
        ("cargo test", Ending::Exit(101), "running 1 test\n", "exit 101", false),
    ]);
}

#[test]
fn a_gate_that_ran_tests_passes_also_where_one_of_its_suites_is_empty() {
    for (command, output) in [
        (
            "cargo test",
            "running 3 tests\ntest result: ok. 3 passed\n\n   Doc-tests x\n\nrunning 0 tests\n",
        ),
        ("go test ./...", "?   \tx/a\t[no test files]\nok  \tx/b\t0.2s\n"),
        ("python -m pytest -q", "..\n2 passed in 0.01s\n"),
        ("cargo build", "running 0 tests\n"),
        ("./check", ""),
    ] {
        assert!(judge(command, Ending::Exit(0), output).passed, "{command}");
    }
    assert_eq!(reason("exit 5: no test was run\nmore\n"), "exit 5: no test was run");
}

fn gate(on: &[&str], run: &str) -> Gate {
    let on = on.iter().map(|name| AgentName::new(name).unwrap()).collect();
    Gate { on: Agents(on), run: run.to_owned(), timeout: 600, allow: Vec::new() }
}

#[test]
fn a_changed_list_of_gates_leaves_the_rest_of_the_policys_text_alone() {
    let first = gate(&["TEST", "FINISH"], "cargo test");
    let second = gate(&["FINISH"], "echo \"a\\b\"");
    let source = "{\n    \"own\": {\"x\":   1},\n    \"gates\": [],\n    \"last\": [1,2]\n}\n";
    let one = with_gates(source, std::slice::from_ref(&first)).unwrap();
    assert_eq!(
        one,
        "{\n    \"own\": {\"x\":   1},\n    \"gates\": [\n        { \"on\": [\"TEST\", \"FINISH\"], \"run\": \"cargo test\", \"timeout\": 600 }\n    ],\n    \"last\": [1,2]\n}\n"
    );
    let two = with_gates(&one, &[first.clone(), second.clone()]).unwrap();
    assert_eq!(with_gates(&two, std::slice::from_ref(&first)).unwrap(), one);
    assert_eq!(with_gates(&one, &[]).unwrap(), source);
    // A gate that stays keeps its own text.
    let odd = "{\"gates\": [ {\"run\":\"cargo test\",\n\"on\":[\"TEST\",\"FINISH\"]} ]}";
    let with_odd = with_gates(odd, &[first.clone(), second.clone()]).unwrap();
    assert!(
        with_odd.contains("{\"run\":\"cargo test\",\n\"on\":[\"TEST\",\"FINISH\"]}"),
        "{with_odd}"
    );
    // A policy that names none, an empty one, one with other line ends.
    for source in ["{\n  \"report_rules\": {}\n}\n", "{}", "", "{\r\n  \"a\": 1\r\n}\r\n"] {
        let text = with_gates(source, std::slice::from_ref(&second)).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["gates"][0]["run"], "echo \"a\\b\"", "{text}");
        assert_eq!(read["gates"][0]["on"], "FINISH", "{text}");
        assert_eq!(
            text.matches("\r\n").count(),
            if source.contains('\r') { text.lines().count() } else { 0 }
        );
    }
    assert!(with_gates("[]", &[first]).is_err());
    assert!(with_gates("{\"gates\": ", &[]).is_err());
}

#[test]
fn a_gate_confirms_one_pass_or_several() {
    let read = |text: &str| serde_json::from_str::<Gate>(text);
    let one = read(r#"{"on":"TEST","run":"x"}"#).unwrap();
    assert!(one.is_on("TEST") && !one.is_on("FINISH") && one.timeout == 600);
    let two = read(r#"{"on":["TEST","FINISH"],"run":"x","timeout":5}"#).unwrap();
    assert!(two.is_on("TEST") && two.is_on("FINISH"));
    assert_eq!(serde_json::to_value(&one).unwrap()["on"], "TEST");
    assert_eq!(serde_json::to_value(&two).unwrap()["on"], serde_json::json!(["TEST", "FINISH"]));
    assert!(read(r#"{"on":["no name"],"run":"x"}"#).is_err());
}
