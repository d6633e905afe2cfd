//! What snapshots of a run cover: whole runs by the real binary.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::{Place, decision, report};

const RUN: [&str; 4] = ["run", "Make add() safe", "--executor", "script"];
const PLAN: &str =
    r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;

/// DEV works in two iterations; REVIEW passes in the third.
fn team(first: &str, second: &str) -> Place {
    let place = crate::team("tdd");
    place.with_short_rules();
    place.write("project/src/other.rs", "fn other() {}\n");
    place.play("1-MAIN", &decision("DEV", PLAN));
    place.write("play/1-DEV.sh", first);
    place.play("1-DEV", &report(1, "PASS", "none"));
    place.play("2-MAIN", &decision("DEV", "null"));
    place.write("play/2-DEV.sh", second);
    place.play("2-DEV", &report(2, "PASS", "none"));
    place.play("3-MAIN", &decision("REVIEW", "null"));
    place.play("3-REVIEW", &report(3, "PASS", "none"));
    place.play_finish(4);
    place
}

#[test]
fn rules_that_an_agent_plants_hide_nothing_from_diff_and_undo() {
    let place = team(
        "printf '*\\n' > src/.gitignore; printf '*\\n' > .ignore; echo '// one' >> src/lib.rs\n\
         mkdir evil; printf '*\\n' > evil/.gitignore; echo x > evil/payload\n",
        "echo broken > src/lib.rs; rm src/other.rs\n",
    );
    let before = place.read("project/src/lib.rs");
    place.expect(&RUN, 0);
    let first = place.expect(&["diff", "1"], 0);
    for name in ["b/src/.gitignore", "b/.ignore", "b/evil/.gitignore", "b/evil/payload", "// one"] {
        assert!(first.contains(name), "{name}: {first}");
    }
    let second = place.expect(&["diff", "2"], 0);
    assert!(second.contains("+broken") && second.contains("a/src/other.rs"), "{second}");
    assert!(!second.contains("payload"), "{second}");
    place.expect(&["undo", "2"], 0);
    assert_eq!(place.read("project/src/lib.rs"), format!("{before}// one\n"));
    assert_eq!(place.read("project/src/other.rs"), "fn other() {}\n");
    assert!(place.path("project/evil/payload").exists());
    place.expect(&["undo", "1"], 0);
    assert_eq!(place.read("project/src/lib.rs"), before);
    for name in ["src/.gitignore", ".ignore", "evil/.gitignore", "evil/payload"] {
        assert!(!place.path("project").join(name).exists(), "{name}");
    }
}

#[test]
fn names_that_are_not_utf8_are_shown_and_undone() {
    let place = team(
        "printf x > \"$(printf 'new\\351')\"; printf changed > \"$(printf 'caf\\351.txt')\"\n",
        "rm -f caf*.txt\n",
    );
    use std::os::unix::ffi::OsStrExt;
    let name = |bytes: &[u8]| place.path("project").join(std::ffi::OsStr::from_bytes(bytes));
    fs::write(name(b"caf\xe9.txt"), "mine\n").unwrap();
    let said = place.expect(&RUN, 0);
    assert!(!said.contains('\0'), "{said}");
    let first = place.expect(&["diff", "1"], 0);
    assert!(first.contains("b/caf\\xe9.txt") && first.contains("b/new\\xe9"), "{first}");
    assert!(place.expect(&["diff", "2"], 0).contains("a/caf\\xe9.txt"));
    place.expect(&["undo", "1"], 0);
    assert_eq!(fs::read_to_string(name(b"caf\xe9.txt")).unwrap(), "mine\n");
    assert!(!name(b"new\xe9").exists());
}

fn objects(place: &Place) -> usize {
    let folder = place.path("project/.baton/snapshots/objects");
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    folders.map(|own| fs::read_dir(own.path()).map_or(0, Iterator::count)).sum()
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn ctrl_c_twice_leaves_a_snapshot_that_takes_long() {
    const FILES: usize = 8_000;
    let place = team("true\n", "true\n");
    for number in 0..FILES {
        let folder = place.path(&format!("project/data/{}", number % 100));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(number.to_string()), format!("{number}\n")).unwrap();
    }
    let errors = place.path("errors");
    let mut command = place.command(&RUN);
    command.stdout(Stdio::null()).stderr(fs::File::create(&errors).unwrap());
    let mut child = command.spawn().unwrap();
    let interrupt = || {
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    };
    wait_for("the snapshot", || objects(&place) > 20);
    interrupt();
    let said = |path: &Path| {
        let mut text = String::new();
        fs::File::open(path).unwrap().read_to_string(&mut text).unwrap();
        text
    };
    wait_for("a word about the stop", || said(&errors).contains("stop"));
    interrupt();
    assert_eq!(child.wait().unwrap().code(), Some(10), "{}", said(&errors));
    // It did not go on to its end first.
    assert!(objects(&place) < FILES, "{}", objects(&place));
    fs::remove_dir_all(place.path("project/data")).unwrap();
    place.expect(&["resume", "--executor", "script"], 0);
}
