//! What history keeps of a tool result: each row of the table around its limits, and what holds for
//! every result whatever its shape.

use baton_core::id::{Mtime, ObservationId};
use baton_core::messages::Language;
use baton_core::observation::shapes::{
    Bash, Edit, Entry, Glob, Grep, Kind, Ls, Match, Read, Recall, Todo, TodoStatus, TodoWrite,
    Write,
};
use baton_core::observation::{Compressed, Envelope, Status, compress, kept, whole};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const ID: ObservationId = ObservationId(17);

const TOOLS: [&str; 11] = [
    "LS",
    "Glob",
    "Grep",
    "Read",
    "Edit",
    "MultiEdit",
    "Write",
    "Bash",
    "TodoWrite",
    "Recall",
    "mcp__other",
];

/// As a tool gives it: with what is dropped from history.
fn envelope(data: &impl serde::Serialize) -> Envelope {
    let mut envelope = Envelope::new(Status::Success, data);
    envelope.text = "What happened, for reading at a glance, in one or two sentences.".to_owned();
    envelope.stats.insert("milliseconds".to_owned(), json!(12));
    envelope.context.insert("cwd".to_owned(), json!("."));
    envelope
}

fn stub(tool: &str, data: &impl serde::Serialize) -> Compressed {
    checked(tool, &envelope(data))
}

/// The promises that hold for every result.
fn checked(tool: &str, envelope: &Envelope) -> Compressed {
    let stub = compress(tool, envelope, ID, Language::English);
    let text = kept(&stub);
    assert!(text.len() <= whole(envelope).len(), "{tool}: longer: {text}");
    assert_eq!((stub.status, &stub.error), (envelope.status, &envelope.error), "{tool}");
    assert_eq!(stub.observation, ID, "{tool}");
    for (key, flag) in envelope.data.iter().filter(|(_, value)| value.is_boolean()) {
        assert_eq!(stub.data.get(key), Some(flag), "{tool}: the flag {key}");
    }
    let parsed: Value = serde_json::from_str(&text).unwrap();
    for gone in ["text", "stats", "context"] {
        assert_eq!(parsed.get(gone), None, "{tool}");
    }
    let again = Envelope::read(&text).unwrap();
    assert_eq!(
        compress(tool, &again, ObservationId(99), Language::English),
        stub,
        "{tool}: compressed again"
    );
    if let Some(omitted) = &stub.omitted {
        assert!(omitted.ends_with("; Recall o17 has it whole"), "{tool}: {omitted}");
        assert!(omitted.chars().count() <= 800, "{tool}: {omitted}");
    }
    stub
}

/// For the fuzz targets: whether it was an envelope.
pub(crate) fn survives(text: &str) -> bool {
    let Ok(envelope) = Envelope::read(text) else { return false };
    // What claims to be a stub keeps its own id.
    let envelope = Envelope { stub_of: None, omitted: None, ..envelope };
    for tool in TOOLS {
        checked(tool, &envelope);
    }
    true
}

fn strings(stub: &Compressed, key: &str) -> Vec<String> {
    let items = stub.data[key].as_array().unwrap();
    items.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn lines(stub: &Compressed, key: &str) -> Vec<String> {
    // What is empty is not there.
    let text = stub.data.get(key).map_or("", |value| value.as_str().unwrap());
    text.lines().map(str::to_owned).collect()
}

fn omitted(stub: &Compressed) -> &str {
    stub.omitted.as_deref().unwrap_or_default().trim_end_matches("; Recall o17 has it whole")
}

fn numbered(count: usize, line: &str) -> String {
    (1..=count).map(|n| format!("{n:>6}\t{line} {n}\n")).collect()
}

fn ls(count: u64) -> Ls {
    let entry =
        |n| Entry { name: format!("文件{n:03}.rs"), kind: Kind::File, size: Some(1_000 + n) };
    let entries = (0..count).map(entry).collect();
    Ls { path: "src".to_owned(), files: count, folders: 0, entries, truncated: false }
}

#[test]
fn ls_keeps_the_folder_the_counts_and_ten_entries() {
    for (count, kept, said) in [
        (0, 0, ""),
        (9, 9, ""),
        (10, 10, ""),
        (11, 10, "entries: and 1 more"),
        (500, 10, "entries: and 490 more"),
    ] {
        let stub = stub("LS", &ls(count));
        assert_eq!(stub.data["entries"].as_array().unwrap().len(), kept, "{count}");
        assert_eq!((&stub.data["path"], &stub.data["files"]), (&json!("src"), &json!(count)));
        assert_eq!(omitted(&stub), said, "{count}");
    }
    insta::assert_snapshot!(kept(&stub("LS", &ls(12))));
}

#[test]
fn glob_keeps_the_pattern_the_hits_and_ten_paths() {
    for (count, kept, said) in [
        (0, 0, ""),
        (9, 9, ""),
        (10, 10, ""),
        (11, 10, "paths: and 1 more"),
        (99, 10, "paths: and 89 more"),
    ] {
        let paths: Vec<String> = (0..count).map(|n| format!("src/模块/{n}.rs")).collect();
        let data = Glob {
            pattern: "**/*.rs".to_owned(),
            path: None,
            hits: count,
            paths,
            truncated: count > 50,
        };
        let stub = stub("Glob", &data);
        assert_eq!(strings(&stub, "paths").len(), kept, "{count}");
        assert_eq!((&stub.data["pattern"], &stub.data["hits"]), (&json!("**/*.rs"), &json!(count)));
        assert_eq!(omitted(&stub), said, "{count}");
    }
}

fn grep(count: u64) -> Grep {
    let matches = (0..count)
        .map(|n| Match {
            file: format!("src/{}.rs", n % 7),
            line: n,
            text: "let 溢出 = 1;".to_owned(),
        })
        .collect();
    Grep {
        path: None,
        glob: None,
        pattern: "溢出".to_owned(),
        hits: count,
        files: count.min(7),
        matches,
        truncated: false,
    }
}

#[test]
fn grep_keeps_five_matches_with_file_and_line() {
    for (count, kept, said) in [
        (0, 0, ""),
        (4, 4, ""),
        (5, 5, ""),
        (6, 5, "matches: and 1 more"),
        (100, 5, "matches: and 95 more in 7 files"),
    ] {
        let stub = stub("Grep", &grep(count));
        let matches = stub.data["matches"].as_array().unwrap();
        assert_eq!(matches.len(), kept, "{count}");
        for (n, found) in matches.iter().enumerate() {
            assert_eq!(found["line"], json!(n));
            assert_eq!(found["file"], json!(format!("src/{}.rs", n % 7)));
        }
        assert_eq!((&stub.data["hits"], omitted(&stub)), (&json!(count), said), "{count}");
    }
    let mut long = grep(1);
    long.matches[0].text = "溢".repeat(5_000);
    let stub = stub("Grep", &long);
    let text = stub.data["matches"][0]["text"].as_str().unwrap();
    assert_eq!(text, format!("{}… [+4832 chars]", "溢".repeat(168)));
    assert_eq!(omitted(&stub), "matches: long lines cut");
}

fn read(count: usize, line: &str) -> Read {
    Read {
        file: "src/lib.rs".to_owned(),
        from: 1,
        to: count as u64,
        total: count as u64,
        mtime: Mtime(1_769_820_295_000_000_000),
        note: Some("Note: src/lib.rs was modified externally.".to_owned()),
        content: numbered(count, line),
        truncated: false,
    }
}

#[test]
fn read_keeps_500_lines_the_time_and_the_note() {
    for (count, kept, said) in [
        (0, 0, ""),
        (1, 1, ""),
        (499, 499, ""),
        (500, 500, ""),
        (501, 500, "content: and 1 more lines"),
        (800, 500, "content: and 300 more lines"),
    ] {
        let data = read(count, "let 数 = 1;");
        let stub = stub("Read", &data);
        assert_eq!(lines(&stub, "content").len(), kept, "{count}");
        let whole: Vec<&str> = data.content.lines().take(kept).collect();
        assert_eq!(lines(&stub, "content"), whole, "exactly the first lines, with their numbers");
        assert_eq!(stub.data["mtime"], json!(1_769_820_295_000_000_000_u64));
        assert_eq!(stub.data["note"], json!("Note: src/lib.rs was modified externally."));
        assert_eq!(omitted(&stub), said, "{count}");
    }
    // A file of one endless line, and one whose lines are all too long for history.
    let endless = stub("Read", &read(1, &"x".repeat(1 << 20)));
    let line = lines(&endless, "content").remove(0);
    assert!(line.chars().count() <= 1_000 && line.ends_with(" chars]"), "{line}");
    let wide = stub("Read", &read(500, &"字".repeat(900)));
    let count = lines(&wide, "content").len();
    assert!((100..=115).contains(&count), "100,000 characters: {count} lines");
    assert_eq!(omitted(&wide), format!("content: and {} more lines", 500 - count));
}

/// A unified diff with so many changed and unchanged lines.
fn diff(changed: usize, context: usize) -> String {
    let mut out = "--- a/x.rs\n+++ b/x.rs\n@@ -1,3 +1,4 @@ fn main()\n".to_owned();
    out.extend((0..context).map(|n| format!(" same {n}\n")));
    out.extend((0..changed).map(|n| format!("+new 行 {n}\n")));
    out
}

fn edit(diff: String) -> Edit {
    Edit {
        file: "x.rs".to_owned(),
        ranges: vec![[1, 4], [40, 52]],
        sizes: Vec::new(),
        diff,
        applied: true,
    }
}

#[test]
fn edit_keeps_file_ranges_and_key_lines_or_the_summary_of_a_large_diff() {
    for tool in ["Edit", "MultiEdit"] {
        // Up to 50 lines as it is: 3 of them are its head.
        for changed in [1, 16, 17, 18, 46, 47] {
            let data = edit(diff(changed, 0));
            let stub = stub(tool, &data);
            assert_eq!(stub.data["diff"], json!(data.diff), "{changed}");
            assert_eq!(stub.data["ranges"], json!([[1, 4], [40, 52]]));
            assert_eq!((&stub.data["applied"], &stub.omitted), (&json!(true), &None));
        }
        // More, but few of them changed: those, and the heads of the hunks.
        for (changed, context, count) in [(10, 38, 11), (49, 10, 50)] {
            let stub = stub(tool, &edit(diff(changed, context)));
            let lines = lines(&stub, "diff");
            assert_eq!(lines.len(), count);
            assert!(
                lines[0].starts_with("@@ -1,3") && lines[1..].iter().all(|l| l.starts_with('+'))
            );
            let gone = 3 + changed + context - count;
            assert_eq!(omitted(&stub), format!("diff: and {gone} more lines, unchanged"));
        }
        // Beyond, its summary alone.
        for (changed, context) in [(50, 0), (50, 10), (3_000, 0)] {
            let stub = stub(tool, &edit(diff(changed, context)));
            let said = format!(
                "[{} lines: {changed} added, 0 removed in 1 hunks]\n@@ -1,3 +1,4 @@ fn main()",
                3 + changed + context
            );
            assert_eq!(stub.data["diff"], json!(said));
            assert_eq!(omitted(&stub), "diff: left out");
        }
    }
}

#[test]
fn write_keeps_file_created_and_the_first_lines() {
    let write = |count, line: &str| Write {
        file: "新.rs".to_owned(),
        created: true,
        lines: 9,
        bytes: 9,
        mtime: Mtime(1),
        head: numbered(count, line),
    };
    for (count, kept, said) in [
        (0, 0, ""),
        (19, 19, ""),
        (20, 20, ""),
        (21, 21, ""),
        (50, 50, ""),
        (51, 50, "head: and 1 more lines"),
        (900, 50, "head: and 850 more lines"),
    ] {
        let stub = stub("Write", &write(count, "line"));
        assert_eq!(lines(&stub, "head").len(), kept, "{count}");
        assert_eq!((&stub.data["file"], &stub.data["created"]), (&json!("新.rs"), &json!(true)));
        assert_eq!(omitted(&stub), said, "{count}");
    }
    // Wide lines: fewer of them, but never under 20.
    for (width, kept) in [(90, 39), (190, 20)] {
        let stub = stub("Write", &write(60, &"宽".repeat(width)));
        assert_eq!(lines(&stub, "head").len(), kept, "{width}");
    }
}

fn bash(stdout: &str, stderr: &str) -> Bash {
    let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
    Bash {
        exit: Some(101),
        stdout,
        stderr,
        timed_out: false,
        truncated: false,
        lines: None,
        changed: Vec::new(),
        created: Vec::new(),
        deleted: Vec::new(),
        changed_by_tools: 0,
    }
}

#[test]
fn bash_keeps_the_last_20_lines_of_stderr() {
    for count in [0, 1, 19, 20, 21, 300] {
        let stderr: String = (1..=count).map(|n| format!("说 {n}\n")).collect();
        let stub = stub("Bash", &bash("", &stderr));
        let last: Vec<&str> = stderr.lines().skip(usize::max(count, 20) - 20).collect();
        assert_eq!(lines(&stub, "stderr"), last, "{count}");
        let said = match count {
            0..=20 => String::new(),
            count => format!("stderr: and {} more lines before", count - 20),
        };
        assert_eq!(omitted(&stub), said);
        assert_eq!(stub.data["exit"], json!(101));
        assert_eq!(stub.data.get("stderr_earlier"), None, "nothing in it tells of a fault");
    }
    // The first cause stands far above the end.
    let noise = "   Compiling thiserror v1.0.0\n".repeat(40);
    let stderr = format!(
        "error[E0308]: mismatched types\n  --> src/lib.rs:4:5\n{noise}error: could not compile `x`\n"
    );
    let stub = stub("Bash", &bash("", &stderr));
    assert_eq!(
        lines(&stub, "stderr_earlier"),
        ["error[E0308]: mismatched types", "  --> src/lib.rs:4:5"]
    );
    assert_eq!(lines(&stub, "stderr").last().unwrap(), "error: could not compile `x`");
}

#[test]
fn a_short_output_stays_and_a_long_one_is_counted() {
    for count in [0, 1, 29, 30] {
        let stdout: String = (1..=count).map(|n| format!("line {n}\n")).collect();
        let stub = stub("Bash", &bash(&stdout, ""));
        assert_eq!((&stub.data["stdout"], &stub.omitted), (&json!(stdout), &None), "{count}");
    }
    let stdout: String = (1..=31).map(|n| format!("行 {n}\n")).collect();
    let stub = stub("Bash", &bash(&stdout, ""));
    // Nothing in it means anything to us: the first and the last lines, with their numbers.
    let mut expected = vec!["[31 lines]".to_owned()];
    expected.extend((1..=3).chain(22..=31).map(|n| format!("{n}\t行 {n}")));
    assert_eq!(lines(&stub, "stdout"), expected);
    assert_eq!(omitted(&stub), "stdout: and 18 more lines");
}

/// A real program's output, its telling lines, and noise with the same words around them.
struct Told {
    name: &'static str,
    output: String,
    must: &'static [&'static str],
}

/// A line for each number.
fn each(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|n| line(n) + "\n").collect()
}

fn requests() -> String {
    each(400, |n| format!("12:00:{:02} GET /{n} 200", n % 60))
}

fn names() -> String {
    each(60, |n| format!("    tests::case_{n}"))
}

fn of_rust() -> Vec<Told> {
    let cases = each(200, |n| format!("test error::failed_{n}_panics_on_error ... ok"));
    let build = each(80, |n| format!("   Compiling error-{n} v1.0.0"));
    let after = names();
    vec![
        Told {
            name: "cargo test",
            output: format!(
                "{build}running 201 tests\n{cases}test sum ... FAILED\n\nfailures:\n\n---- sum stdout ----\nthread 'sum' panicked at src/lib.rs:42:9:\nassertion `left == right` failed\n  left: 3\n right: 4\n\n\nfailures:\n    sum\n\ntest result: FAILED. 200 passed; 1 failed; 0 ignored\n{after}"
            ),
            must: &[
                "test sum ... FAILED",
                "panicked at src/lib.rs:42:9",
                "assertion `left == right`",
                "  left: 3",
                " right: 4",
                "test result: FAILED. 200 passed; 1 failed",
            ],
        },
        Told {
            name: "cargo test, all well",
            output: format!(
                "{build}running 200 tests\n{cases}\ntest result: ok. 200 passed; 0 failed; 0 ignored\n{after}"
            ),
            must: &["test result: ok. 200 passed; 0 failed"],
        },
        Told {
            name: "rustc",
            output: format!(
                "{build}error[E0308]: mismatched types\n --> src/lib.rs:4:5\n  |\n4 |     x\n  |     ^ expected `i32`, found `&str`\n\nwarning: unused variable: `y`\n --> src/lib.rs:9:9\n{after}error: could not compile `x` (lib) due to 1 previous error; 1 warning emitted\n"
            ),
            must: &[
                "error[E0308]: mismatched types",
                " --> src/lib.rs:4:5",
                "^ expected `i32`, found `&str`",
                "warning: unused variable",
                "due to 1 previous error",
            ],
        },
    ]
}

fn of_test_programs() -> Vec<Told> {
    let pytest =
        each(150, |n| format!("tests/test_error.py::test_failed_{n} PASSED [ {}%]", n / 2));
    let jest = each(90, |n| format!("    ✓ shows the error {n} (2 ms)"));
    let go = each(90, |n| format!("ok  \texample.com/errors/p{n}\t0.003s"));
    let maven = each(90, |n| format!("Tests run: {n}, Failures: 0, Errors: 0, Skipped: 0"));
    let after = names();
    vec![
        Told {
            name: "maven",
            output: format!("{maven}Tests run: 9, Failures: 1, Errors: 0\n{maven}"),
            must: &["Tests run: 9, Failures: 1, Errors: 0"],
        },
        Told {
            name: "pytest",
            output: format!(
                "{pytest}tests/test_a.py::test_sum FAILED [100%]\n\n=== FAILURES ===\n    def test_sum():\n>       assert add(1, 2) == 4\nE       assert 3 == 4\nE        +  where 3 = add(1, 2)\n\ntests/test_a.py:5: AssertionError\n=== short test summary info ===\nFAILED tests/test_a.py::test_sum - assert 3 == 4\n=== 1 failed, 150 passed in 0.12s ===\n"
            ),
            must: &[
                "test_sum FAILED",
                "E       assert 3 == 4",
                "tests/test_a.py:5: AssertionError",
                "=== 1 failed, 150 passed",
            ],
        },
        Told {
            name: "jest",
            output: format!(
                "{jest}    ✕ adds (3 ms)\n\n  ● math › adds\n\n    expect(received).toBe(expected)\n\n    Expected: 4\n    Received: 3\n\n      at Object.<anonymous> (math.test.js:5:10)\n\nTest Suites: 1 failed, 1 total\nTests:       1 failed, 90 passed, 91 total\n{after}"
            ),
            must: &[
                "✕ adds",
                "● math › adds",
                "Expected: 4",
                "Received: 3",
                "(math.test.js:5:10)",
                "Tests:       1 failed",
            ],
        },
        Told {
            name: "go test",
            output: format!(
                "{go}--- FAIL: TestSum (0.00s)\n    sum_test.go:10: got 3, want 4\nFAIL\nFAIL\texample.com/x\t0.005s\n{go}"
            ),
            must: &["--- FAIL: TestSum", "sum_test.go:10: got 3, want 4", "FAIL\texample.com/x"],
        },
    ]
}

fn of_others() -> Vec<Told> {
    let log = requests();
    vec![
        Told {
            name: "a Python traceback",
            output: format!(
                "{log}Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    main()\n  File \"a.py\", line 9, in main\nKeyError: '键'\n{log}"
            ),
            must: &["Traceback (most", "File \"a.py\", line 3", "KeyError: '键'"],
        },
        Told {
            name: "gcc",
            output: format!(
                "{log}a.c:5:3: error: expected ';' before 'return'\na.c:9:1: warning: control reaches end\nmake: *** [Makefile:5: all] Error 2\n{log}"
            ),
            must: &["a.c:5:3: error: expected", "a.c:9:1: warning", "Error 2"],
        },
        Told {
            name: "tsc and eslint",
            output: format!(
                "{log}src/a.ts(5,3): error TS2322: Type 'x'\n/p/b.js\n  1:1  warning  Unused  no-unused\n  5:3  error  'x' is not defined  no-undef\n\n✖ 2 problems (1 error, 1 warning)\n{log}"
            ),
            must: &[
                "src/a.ts(5,3): error TS2322",
                "/p/b.js",
                "5:3  error  'x' is not defined",
                "✖ 2 problems",
            ],
        },
        Told {
            name: "npm",
            output: format!(
                "{log}npm ERR! code ELIFECYCLE\nnpm ERR! errno 1\nfound 3 vulnerabilities\n{log}"
            ),
            must: &["npm ERR! code ELIFECYCLE", "found 3 vulnerabilities"],
        },
        Told {
            name: "Chinese",
            output: format!("{log}错误：无法连接数据库\n测试失败：3 项\n警告：内存不足\n{log}"),
            must: &["错误：无法连接数据库", "测试失败：3 项", "警告：内存不足"],
        },
        Told {
            name: "colours and a progress bar",
            output: format!(
                "{log}\u{1b}[31merror\u{1b}[0m: \u{1b}[1mboom\u{1b}[0m\n{}done\n",
                "\u{1b}[2K50%\r".repeat(80)
            ),
            must: &["error: boom", "done"],
        },
    ]
}

fn outputs() -> impl Iterator<Item = Told> {
    [of_rust(), of_test_programs(), of_others()].into_iter().flatten()
}

#[test]
fn the_lines_that_tell_most_survive_the_noise() {
    let mut shown = String::new();
    for Told { name, output, must } in outputs() {
        let stub = stub("Bash", &bash(&output, ""));
        let text = stub.data["stdout"].as_str().unwrap();
        for line in must {
            assert!(text.contains(line), "{name}: `{line}` is lost:\n{text}");
        }
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() <= 31, "{name}: {} lines", lines.len());
        let numbers: Vec<usize> =
            lines[1..].iter().map(|l| l.split('\t').next().unwrap().parse().unwrap()).collect();
        assert!(
            numbers.is_sorted_by(|a, b| a < b),
            "{name}: in their order, each once: {numbers:?}"
        );
        assert!(!text.contains('\u{1b}'), "{name}");
        shown.push_str(&format!("== {name}\n{text}\n"));
    }
    insta::assert_snapshot!(shown);
}

/// Two hundred passing cases whose names speak of errors must not push anything out.
#[test]
fn names_that_speak_of_errors_are_no_errors() {
    for Told { name, output, .. } in outputs() {
        let stub = stub("Bash", &bash(&output, ""));
        let text = stub.data["stdout"].as_str().unwrap();
        let head = text.lines().next().unwrap();
        assert!(!head.contains("with errors"), "{name}: {head}");
    }
    let many: String = (0..100).map(|n| format!("error: number {n}\n")).collect();
    let stub = stub("Bash", &bash(&many, ""));
    let head = lines(&stub, "stdout").remove(0);
    assert_eq!(head, "[100 lines; 70 more with errors are not shown]");
}

#[test]
fn the_numbers_of_a_summary_are_those_of_the_output() {
    for Told { name, output, .. } in outputs() {
        let plain = baton_core::text::stripped(&output);
        let all: Vec<&str> = plain.lines().collect();
        let stub = stub("Bash", &bash(&output, ""));
        for line in &lines(&stub, "stdout")[1..] {
            let (number, text) = line.split_once('\t').unwrap();
            assert_eq!(all[number.parse::<usize>().unwrap() - 1], text, "{name}");
        }
    }
}

#[test]
fn todos_leave_only_their_recap() {
    let todos =
        (0..30).map(|n| Todo { content: format!("任务 {n}"), status: TodoStatus::Pending });
    let data = TodoWrite { todos: todos.collect(), recap: "[0/30] now: 任务 0".to_owned() };
    let stub = stub("TodoWrite", &data);
    assert_eq!(Value::Object(stub.data.clone()), json!({ "recap": "[0/30] now: 任务 0" }));
    assert_eq!(omitted(&stub), "todos: left out");
    let without = self::stub("TodoWrite", &json!({ "todos": ["a", "b"], "fallback": true }));
    assert_eq!(Value::Object(without.data), json!({ "todos": ["a", "b"], "fallback": true }));
}

#[test]
fn any_other_tool_keeps_head_and_tail() {
    let recall = |content: String| Recall {
        id: "o3".to_owned(),
        of: "Bash: exit 0".to_owned(),
        file: None,
        from: 1,
        to: 9,
        total: 9,
        content,
        truncated: false,
        is_past: false,
    };
    let short = stub("Recall", &recall("字".repeat(3_998)));
    assert_eq!(short.omitted, None, "4,000 characters with its quotes");
    let long = stub("Recall", &recall(format!("头{}尾", "字".repeat(9_998))));
    let content = long.data["content"].as_str().unwrap();
    let expected = format!("头{0}\n[... 8000 chars omitted ...]\n{0}尾", "字".repeat(999));
    assert_eq!(content, expected);
    assert_eq!(omitted(&long), "content: cut in the middle");
    let rows: Vec<Value> = (0..5_000).map(|n| json!({ "row": n, "text": "值" })).collect();
    let table = stub("mcp__sql", &json!({ "rows": rows, "ok": true }));
    let kept = table.data["rows"].as_array().unwrap();
    assert_eq!(kept.len(), 21);
    assert_eq!((&kept[0]["row"], &kept[9]["row"]), (&json!(0), &json!(9)));
    assert_eq!(kept[10], json!("[... 4980 items omitted ...]"));
    assert_eq!((&kept[11]["row"], &kept[20]["row"]), (&json!(4_990), &json!(4_999)));
}

/// Shapes that no row expects: each falls to head and tail, none grows without bound.
#[test]
fn a_strange_shape_is_bounded_for_every_tool() {
    let deep = (0..60).fold(json!("x".repeat(4_500)), |inner, _| json!({ "in": [inner] }));
    let wide: Map<String, Value> =
        (0..400).map(|n| (format!("key{n}"), json!("值".repeat(50)))).collect();
    let names: Map<String, Value> =
        (0..50).map(|n| (format!("{n}{}", "k".repeat(400)), json!(n))).collect();
    let list: Vec<Value> = (0..400).map(|n| json!([n, "y".repeat(500)])).collect();
    for (name, data) in [
        (
            "wrong types",
            json!({ "entries": wide, "paths": "a\n".repeat(4_500), "matches": 7, "diff": list }),
        ),
        (
            "the same under other names",
            json!({ "items": list, "exit_code": 1, "output": "line\n".repeat(4_500) }),
        ),
        (
            "lists of lists",
            json!({ "stdout": list, "stderr": list, "content": list, "recap": list }),
        ),
        ("deep", json!({ "data": deep })),
        ("deep in a list", json!({ "entries": [deep], "recap": deep })),
        ("many keys", Value::Object(wide.clone())),
        ("long keys", Value::Object(names.clone())),
        ("many keys in a field", json!({ "diff": names, "content": wide })),
        (
            "many long texts",
            Value::Object((0..60).map(|n| (format!("k{n}"), json!("长".repeat(5_000)))).collect()),
        ),
    ] {
        for tool in TOOLS {
            let envelope = envelope(&data);
            let stub = checked(tool, &envelope);
            let size = kept(&stub).chars().count();
            let most = if tool == "Read" { 210_000 } else { 50_000 };
            assert!(size <= most, "{tool}, {name}: {size} characters");
            assert!(stub.omitted.is_some(), "{tool}, {name}: what was cut is said");
        }
    }
}

#[test]
fn an_error_stays_whole() {
    let mut envelope = Envelope::failed("NOT_FOUND", "没有这个文件\n".repeat(3_000));
    envelope.error.as_mut().unwrap().more.insert("hint".to_owned(), json!(["a", "b"]));
    for tool in TOOLS {
        assert_eq!(checked(tool, &envelope).error, envelope.error);
    }
    let small = Envelope::failed("TIMEOUT", "took too long");
    assert_eq!(
        kept(&compress("Bash", &small, ID, Language::English)),
        r#"{"status":"error","data":{},"error":{"code":"TIMEOUT","message":"took too long"},"observation":"o17"}"#
    );
}

/// Where saying what was left out takes more room than leaving it in, it stays in.
#[test]
fn what_is_not_worth_cutting_stays() {
    let bare = Envelope::new(Status::Partial, &json!({ "paths": vec!["a"; 11] }));
    let stub = checked("Glob", &bare);
    assert_eq!((strings(&stub, "paths").len(), &stub.omitted), (11, &None));
    let empty = Envelope::new(Status::Success, &json!({}));
    let longest = kept(&compress("LS", &empty, ObservationId(u32::MAX), Language::English));
    assert!(longest.len() <= whole(&empty).len(), "even the longest id fits");
}

#[test]
fn an_envelope_is_read_strictly_and_passes_over_what_it_does_not_know() {
    let read = Envelope::read(
        r#"{"status":"partial","data":null,"text":null,"error":null,"new":{"a":[1]},"stats":{"ms":1}}"#,
    );
    let read = read.unwrap();
    assert_eq!((read.status, read.data.len(), read.error), (Status::Partial, 0, None));
    let mut said = String::new();
    for wrong in [
        "",
        "[]",
        "\"success\"",
        "{}",
        r#"{"status":"sucess"}"#,
        r#"{"status":"success","data":[1]}"#,
        r#"{"status":"success","data":{"a":1,"a":2}}"#,
        r#"{"status":"success","text":7}"#,
        r#"{"status":"error","error":"boom"}"#,
        r#"{"status":"error","error":{"code":"X"}}"#,
        r#"{"status":"error","error":["X","y"]}"#,
        r#"{"status":"success","observation":"17"}"#,
        r#"{"status":"success"} {"#,
        r#"{"status":"success","data":{"a":"\ud800"}}"#,
    ] {
        said.push_str(&format!("{wrong}\n    {}\n", Envelope::read(wrong).unwrap_err()));
    }
    insta::assert_snapshot!(said);
    let deep = format!("{{\"status\":\"success\",\"data\":{}", "{\"a\":".repeat(100_000));
    assert_eq!(Envelope::read(&deep).unwrap_err().code, "json-depth");
    let many = format!("{{\"status\":\"success\",\"data\":{{\"a\":[{}0]}}}}", "0,".repeat(2 << 20));
    assert_eq!(Envelope::read(&many).unwrap_err().code, "json-too-many-values");
    let keys: Vec<String> = (0..5_000).map(|n| format!("\"k{n}\":{n}")).collect();
    let keys = format!("{{\"status\":\"success\",\"data\":{{{}}}}}", keys.join(","));
    assert_eq!(Envelope::read(&keys).unwrap().data.len(), 5_000);
    let large = format!("{{\"status\":\"success\",\"text\":\"{}\"}}", "x".repeat(16 << 20));
    assert_eq!(Envelope::read(&large).unwrap_err().code, "document-size");
}

/// Megabytes of output cost no more than reading them.
#[test]
fn a_huge_output_is_summed_up() {
    let stdout = "error: the same again at src/lib.rs:4:5\n".repeat(50_000);
    let stub = stub("Bash", &bash(&stdout, &stdout));
    assert!(kept(&stub).len() < 8_000);
}

#[test]
fn what_the_model_sees_has_every_key_in_order() {
    let envelope = envelope(&json!({ "b": 1, "a": 2 }));
    assert_eq!(
        whole(&envelope),
        r#"{"status":"success","data":{"b":1,"a":2},"text":"What happened, for reading at a glance, in one or two sentences.","stats":{"milliseconds":12},"context":{"cwd":"."}}"#
    );
    assert_eq!(Envelope::read(&whole(&envelope)).unwrap(), envelope);
}

#[test]
fn an_observation_id_has_one_spelling() {
    assert_eq!(ObservationId::new("o17"), Ok(ID));
    assert_eq!(ObservationId::new("o0").unwrap().to_string(), "o0");
    for wrong in ["", "o", "17", "o07", "O1", "o-1", "o+1", "o4294967296", "o1 ", "o１"] {
        assert!(ObservationId::new(wrong).is_err(), "{wrong}");
    }
    assert_eq!(serde_json::to_string(&ID).unwrap(), "\"o17\"");
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "(?s).{0,40}",
        "[a-z中文]{0,12}",
        // Long lines, many lines, and both.
        ("[a中é🎉]{1,3}", 1_usize..3_000).prop_map(|(piece, count)| piece.repeat(count)),
        ("[a中+@ -]{0,9}\n", 1_usize..700).prop_map(|(piece, count)| piece.repeat(count)),
        ("(error: |src/a.rs:4 |ok |@@ -1 |\\+|中){1,4}\n", 1_usize..90)
            .prop_map(|(piece, count)| piece.repeat(count)),
    ]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|number: f64| json!(number)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 14, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..14).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..14)
                .prop_map(|pairs| pairs.into_iter().collect()),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    let known = [
        "entries",
        "paths",
        "matches",
        "content",
        "diff",
        "ranges",
        "head",
        "stdout",
        "stderr",
        "output",
        "exit",
        "recap",
        "todos",
        "truncated",
        "applied",
        "file",
        "path",
        "omitted",
        "observation",
        "stderr_earlier",
    ];
    prop_oneof![4 => prop::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => "(?s).{0,9}"]
}

fn any_envelope() -> impl Strategy<Value = Envelope> {
    let status = prop::sample::select(vec![Status::Success, Status::Partial, Status::Error]);
    let data = prop::collection::vec((key(), json_value()), 0..12);
    let error = prop::option::of((text(), text()));
    (status, data, text(), error).prop_map(|(status, data, text, error)| {
        let data: Map<String, Value> = data.into_iter().collect();
        let error = error.and_then(|(code, message)| Envelope::failed(code, message).error);
        Envelope { status, text, error, ..Envelope::new(status, &data) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Never longer, the same when compressed again, error and flags whole; no panic.
    #[test]
    fn any_result_keeps_the_promises(envelope in any_envelope()) {
        for tool in TOOLS {
            checked(tool, &envelope);
        }
    }

    /// What stays of a text are beginnings of its own lines: nothing is cut inside a character.
    #[test]
    fn what_stays_of_a_text_stood_in_it(raw in text()) {
        for (tool, key) in [("Read", "content"), ("Write", "head"), ("Bash", "stderr")] {
            let stub = stub(tool, &json!({ key: raw }));
            let stripped = baton_core::text::stripped(&raw);
            let source: &str = if tool == "Bash" { &stripped } else { &raw };
            for line in stub.data[key].as_str().unwrap().lines() {
                let own = line.rsplit_once("… [+").map_or(line, |(own, _)| own);
                let own = if line.starts_with("[... ") { "" } else { own };
                prop_assert!(source.contains(own), "{}: {:?}", tool, line);
            }
        }
    }
}
