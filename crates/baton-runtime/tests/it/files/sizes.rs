//! Inputs without measure: each ends soon, with a result of bounded size.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use baton_runtime::tool::Workshop;
use serde_json::{Value, json};

use super::ground::{Ground, run};

/// Far more than any of them needs, far less than a person waits for a program that hangs.
const PATIENCE: Duration = Duration::from_secs(20);
const LARGEST: usize = 256 << 10;

fn bounded(shop: &Workshop, tool: &str, arguments: Value, expected: &str) {
    let shown: String = arguments.to_string().chars().take(100).collect();
    let start = Instant::now();
    let said = run(shop, tool, arguments);
    let time = start.elapsed();
    assert!(time < PATIENCE, "{tool} {shown}: {time:?}");
    assert!(said.len() < LARGEST, "{tool} {shown}: {} bytes", said.len());
    let head: String = said.chars().take(400).collect();
    assert!(said.contains(expected), "{tool} {shown}: wanted {expected}, got {head}");
}

#[test]
fn patterns_without_measure() {
    let ground = Ground::new();
    ground.write("project/a.txt", "a".repeat(1 << 20));
    ground
        .write("project/lines.txt", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=b\n".repeat(20_000));
    let shop = ground.shop();
    let grep = |pattern: String, expected: &str| {
        bounded(&shop, "Grep", json!({ "pattern": pattern }), expected);
    };
    grep(format!("{}a{}", "(".repeat(900), ")".repeat(900)), "BAD_PATTERN");
    grep("a{1000}{1000}{1000}".to_owned(), "BAD_PATTERN");
    grep("(?:\\pL{500}){50}".to_owned(), "BAD_PATTERN");
    grep("(((a*)*)*)*Q".to_owned(), "\"hits\":0");
    grep("^(a|a|aa)+$".to_owned(), "\"hits\"");
    grep(".*.*.*.*.*.*.*.*=.*.*.*.*Q".to_owned(), "\"hits\":0");
    grep("a?".repeat(400) + &"a".repeat(400), "\"hits\"");
    grep("x|".repeat(990), "\"hits\"");
    grep("(?i)".repeat(480), "\"hits\"");
    grep("a".repeat(1 << 20), "BAD_PATTERN");
    grep("[".repeat(1_000), "BAD_PATTERN");
    grep("\\u{110000}".to_owned(), "BAD_PATTERN");
    grep("(?P<a>".repeat(300), "BAD_PATTERN");
    let glob = |pattern: String, expected: &str| {
        bounded(&shop, "Glob", json!({ "pattern": pattern }), expected);
        bounded(&shop, "Grep", json!({ "pattern": "a", "glob": pattern }), expected);
    };
    glob("**/".repeat(600) + "*", "");
    glob("{a,b}".repeat(390), "");
    glob("{".repeat(1_900), "BAD_PATTERN");
    glob(format!("{}a{}", "{a,".repeat(400), "}".repeat(400)), "");
    glob("*a".repeat(900) + "c", "");
    glob("[a-z]".repeat(390), "");
    glob("?".repeat(1 << 20), "BAD_PATTERN");
}

#[test]
fn edits_without_measure() {
    let ground = Ground::new();
    ground.write("project/a.txt", "a".repeat(8 << 20));
    ground.write("project/lines.txt", "a line of text\n".repeat(200_000));
    let mixed: String =
        (0..120_000).map(|number| format!("line {}\n", number * 7_919 % 1_013)).collect();
    ground.write("project/mixed.txt", mixed);
    ground.write("project/small.txt", "a");
    let shop = ground.shop();
    let edit = |path: &str, old: String, new: String, expected: &str| {
        let arguments =
            json!({ "path": path, "old_string": old, "new_string": new, "replace_all": true });
        bounded(&shop, "Edit", arguments, expected);
    };
    // Eight terabytes.
    edit("a.txt", "a".to_owned(), "b".repeat(1 << 20), "TOO_LARGE");
    edit("lines.txt", "line".to_owned(), "row".to_owned(), "applied");
    edit("mixed.txt", "1".to_owned(), "one\n".to_owned(), "applied");
    edit("mixed.txt", "line".to_owned(), "l\nl".to_owned(), "applied");
    edit("a.txt", "b".repeat(5 << 20), String::new(), "NOT_FOUND");
    edit("small.txt", String::new(), "x".repeat(1 << 20), "NOT_FOUND");
    let doubled = json!({ "old_string": "a", "new_string": "aa", "replace_all": true });
    let edits: Vec<&Value> = std::iter::repeat_n(&doubled, 60).collect();
    bounded(&shop, "MultiEdit", json!({ "path": "small.txt", "edits": edits }), "TOO_LARGE");
    let edits: Vec<&Value> = std::iter::repeat_n(&doubled, 20_000).collect();
    bounded(&shop, "MultiEdit", json!({ "path": "a.txt", "edits": edits }), "TOO_MANY");
    bounded(
        &shop,
        "Write",
        json!({ "path": "new.txt", "content": "y".repeat(20 << 20) }),
        "TOO_LARGE",
    );
    let todos: Vec<Value> =
        (0..10_000).map(|_| json!({ "content": "x", "status": "pending" })).collect();
    bounded(&shop, "TodoWrite", json!({ "todos": todos }), "TOO_MANY");
    let todos = [json!({ "content": "x".repeat(2 << 20), "status": "pending" })];
    bounded(&shop, "TodoWrite", json!({ "todos": todos }), "");
}

#[test]
fn files_without_measure() {
    let ground = Ground::new();
    ground.write("project/one-line.txt", "x".repeat(16 << 20));
    ground.write("project/sparse.txt", "text ".repeat(4_000));
    let sparse = File::options().write(true).open(ground.path("project/sparse.txt")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    ground.write("project/wide.txt", format!("{}\n", "宽".repeat(3_000)).repeat(400));
    for number in 0..5_000 {
        ground.write(&format!("project/many/{}{number}", "n".repeat(100)), "");
    }
    symlink("/dev/zero", ground.path("project/zero")).unwrap();
    let pipe = ground.path("project/pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let shop = ground.shop();
    let read = |arguments: Value, expected: &str| bounded(&shop, "Read", arguments, expected);
    read(json!({ "path": "one-line.txt" }), "\"total\":1");
    read(json!({ "path": "sparse.txt" }), "TOO_LARGE");
    read(json!({ "path": "wide.txt", "lines": u64::MAX }), "\"truncated\":true");
    read(json!({ "path": "wide.txt", "from": u64::MAX, "lines": u64::MAX }), "OUT_OF_RANGE");
    read(json!({ "path": "wide.txt", "from": 400, "lines": u64::MAX }), "\"to\":400");
    read(json!({ "path": "wide.txt", "from": -1 }), "INVALID_ARGUMENTS");
    read(json!({ "path": "zero" }), "OUTSIDE");
    read(json!({ "path": "pipe" }), "WRONG_KIND");
    bounded(&shop, "Grep", json!({ "pattern": "x", "path": "pipe" }), "");
    bounded(&shop, "Grep", json!({ "pattern": "x+", "path": "one-line.txt" }), "\"hits\":1");
    bounded(&shop, "Grep", json!({ "pattern": "text", "path": "sparse.txt" }), "\"hits\":0");
    bounded(&shop, "LS", json!({ "path": "many" }), "\"truncated\":true");
    bounded(&shop, "Glob", json!({ "pattern": "many/*" }), "\"hits\":5000");
    for id in
        ["o0", "o4294967296", "o99999999999999999999999", "17", "", "o-1", &"o".repeat(1 << 20)]
    {
        bounded(&shop, "Recall", json!({ "id": id }), "error");
    }
}

#[test]
fn files_that_grow_while_they_are_read() {
    let ground = Ground::new();
    ground.write("project/log.txt", "a first line\n");
    let shop = ground.shop();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file =
                File::options().append(true).open(ground.path("project/log.txt")).unwrap();
            let piece = "it grows and grows\n".repeat(50_000);
            // No more than a small disk holds.
            for _ in 0..400 {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                file.write_all(piece.as_bytes()).unwrap();
            }
        });
        for _ in 0..5 {
            bounded(&shop, "Read", json!({ "path": "log.txt", "lines": 5 }), "");
            bounded(&shop, "Grep", json!({ "pattern": "nothing", "path": "log.txt" }), "");
            let edit = json!({ "path": "log.txt", "old_string": "first", "new_string": "last" });
            bounded(&shop, "Edit", edit, "");
        }
        stop.store(true, Ordering::Relaxed);
    });
}
