//! The walk through a project: ignore rules as git has them, and trees that somebody made to keep it
//! waiting, or busy for ever.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use baton_runtime::load::Environment;
use baton_runtime::sandbox::Interrupt;
use baton_runtime::snapshot::{Error, Snapshots};
use baton_runtime::store::Disk;
use baton_runtime::{git, walk};

/// Longer than any of these takes on a machine that is busy; a walk that waits for a pipe never ends.
const FOR_EVER: Duration = Duration::from_secs(100);

/// Runs it in a thread of its own, so that one that never ends fails and does not hang.
fn bounded<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(run()));
    receiver.recv_timeout(FOR_EVER).unwrap_or_else(|_| panic!("{what}: it does not end"))
}

fn git(root: &Path, args: &[&str]) -> Vec<u8> {
    let done = Command::new("git").args(args).current_dir(root).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

fn environment() -> Environment {
    Environment::of(&[("PATH", &std::env::var("PATH").unwrap())])
}

fn snapshots(root: &Path) -> Snapshots {
    Snapshots::new(root, &root.join(".baton"), Disk::default()).with_git(&environment())
}

fn write(root: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const NAMES: [&str; 14] = [
    "a", "b", "ab", "abc", "a.log", "b.rs", "foo", "foo bar", "#a", "!b", "x[1]", "*", "ab\\c",
    "名",
];

/// A rule of random pieces.
fn rule(random: &mut fastrand::Rng) -> String {
    const PIECES: [&str; 26] = [
        "a",
        "b",
        "c",
        "*",
        "**",
        "?",
        "/",
        "/",
        ".log",
        "foo",
        "[ab]",
        "[!a]",
        "[a-c]",
        "\\",
        " ",
        "[[:alpha:]]",
        "[]a]",
        "名",
        "#",
        "!",
        "**/",
        "/**",
        "{a,b}",
        "[",
        "x",
        "\\*",
    ];
    let count = random.usize(1..6);
    let negated = if random.u8(..5) == 0 { "!" } else { "" };
    let folder = if random.u8(..4) == 0 { "/" } else { "" };
    let pieces: String = (0..count).map(|_| PIECES[random.usize(..PIECES.len())]).collect();
    format!("{negated}{pieces}{folder}")
}

#[test]
fn ignore_rules_mean_what_they_mean_to_git() {
    let mut random = fastrand::Rng::with_seed(19);
    let mut hidden = 0;
    let rounds = 150;
    for round in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        git(root, &["init", "-q"]);
        for _ in 0..60 {
            let depth = random.usize(1..4);
            let parts: Vec<&str> = (0..depth).map(|_| NAMES[random.usize(..NAMES.len())]).collect();
            let path = root.join(parts.join("/"));
            let _ = fs::create_dir_all(path.parent().unwrap());
            if !path.exists() {
                let _ = fs::write(path, "x");
            }
        }
        let mut rules = |count: usize| -> String {
            (0..count).map(|_| format!("{}\n", rule(&mut random))).collect()
        };
        let mut texts = vec![(".gitignore", rules(6)), (".git/info/exclude", rules(2))];
        texts.extend(["a", "ab", "a/b", "foo"].map(|name| (name, rules(2))));
        for (name, text) in &texts {
            let path = if name.starts_with('.') {
                root.join(name)
            } else {
                root.join(name).join(".gitignore")
            };
            let _ = fs::write(path, text);
        }
        let said = git(root, &["ls-files", "-o", "-z", "--exclude-standard"]);
        let wanted: Vec<String> = said
            .split(|byte| *byte == 0)
            .filter(|own| !own.is_empty())
            .map(walk::name_of)
            .collect();
        let mut wanted: Vec<String> =
            wanted.into_iter().filter(|own| !own.starts_with(".baton")).collect();
        wanted.sort();
        let mut own = snapshots(root);
        own.take().unwrap();
        assert_eq!(own.names(), wanted, "round {round}: {texts:?}");
        hidden += 60 - wanted.len().min(60);
    }
    assert!(hidden > rounds * 5, "the rules ignore something: {hidden}");
}

#[test]
fn the_index_is_read_as_git_reads_it() {
    for version in ["2", "3", "4"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        git(root, &["init", "-q"]);
        git(root, &["config", "index.version", version]);
        for number in 0..300 {
            write(
                root,
                &format!("folder{}/file-{number}-{}", number % 7, "x".repeat(number % 40)),
                "x",
            );
        }
        write(root, "名字/内容", "x");
        fs::write(root.join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
        git(root, &["add", "."]);
        write(root, "later", "x");
        git(root, &["add", "-N", "later"]);
        let said = git(root, &["ls-files", "-z"]);
        let wanted: std::collections::BTreeSet<String> = said
            .split(|byte| *byte == 0)
            .filter(|own| !own.is_empty())
            .map(walk::name_of)
            .collect();
        // Without git on the PATH.
        let found = git::tracked(root, &Environment::of(&[])).unwrap();
        assert_eq!(found, wanted, "version {version}");
        let inside = git::tracked(&root.join("folder3"), &Environment::of(&[])).unwrap();
        assert!(inside.iter().all(|own| own.starts_with("file-")) && inside.len() > 30);
        // Nothing of a damaged one is believed, and nothing panics.
        let index = fs::read(root.join(".git/index")).unwrap();
        for cut in (0..index.len()).step_by(7) {
            fs::write(root.join(".git/index"), &index[..cut]).unwrap();
            assert_eq!(git::tracked(root, &Environment::of(&[])), None, "cut at {cut}");
        }
    }
}

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// In the place of every file that a walk or a question to git's folder reads.
#[test]
fn no_pipe_socket_or_device_keeps_a_snapshot_waiting() {
    let places = [
        ".gitignore",
        "sub/.gitignore",
        "sub/deep/.gitignore",
        ".ignore",
        "sub/.ignore",
        ".rgignore",
        ".gitattributes",
        ".git/info/exclude",
        ".git/index",
        ".git/HEAD",
        ".git/config",
        ".git/commondir",
        ".git/packed-refs",
        ".git/refs/heads/main",
        "plain",
        "sub/名",
    ];
    for place in places {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        git(&root, &["init", "-q", "-b", "main"]);
        write(&root, "sub/deep/a.rs", "1\n");
        git(&root, &["add", "."]);
        let mut before = snapshots(&root);
        let id = before.take().unwrap();
        pipe(&root.join(place));
        let own = root.clone();
        let (names, lines) = bounded(place, move || {
            let mut snapshots = snapshots(&own);
            snapshots.take().unwrap();
            let _ = git::dirty(&own, &environment());
            snapshots.restore(&id).unwrap();
            (snapshots.names().to_vec(), snapshots.skipped.lines().join("\n"))
        });
        assert!(names.contains(&"sub/deep/a.rs".to_owned()), "{place}: {names:?}");
        let is_looked_at = !place.starts_with(".git/") || place == ".git/info/exclude";
        assert_eq!(lines.contains(place), is_looked_at, "{place}: {lines}");
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "a.rs", "1\n");
    let _socket = std::os::unix::net::UnixListener::bind(root.join(".gitignore")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "rules", "*\n");
    fs::create_dir(root.join("sub")).unwrap();
    write(root, "sub/b.rs", "1\n");
    std::os::unix::fs::symlink(outside.path().join("rules"), root.join("sub/.gitignore")).unwrap();
    let mut own = snapshots(root);
    own.take().unwrap();
    assert_eq!(own.names(), ["a.rs", "sub/.gitignore", "sub/b.rs"]);
    assert_eq!(own.skipped.lines().len(), 2, "{:?}", own.skipped.lines());
}

/// Files of rules without measure, and the word in the line about them.
fn bombs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let lines = |count: usize, line: &dyn Fn(usize) -> String| -> Vec<u8> {
        (0..count).map(|own| format!("{}\n", line(own))).collect::<String>().into_bytes()
    };
    vec![
        ("200,000 globs", lines(200_000, &|own| format!("a*b?c{own}[x-z]*")), "256 KiB"),
        ("20 MB of stars", vec![b'*'; 20 << 20], "256 KiB"),
        ("a long line of stars", vec![b'*'; 200 << 10], "1,024 bytes"),
        ("short lines of stars", lines(300, &|_| "*a".repeat(400)), "32 wildcards"),
        ("6,000 rules", lines(6_000, &|own| format!("n{own}")), "5,000 rules"),
        ("folders in any depth", lines(100, &|_| "**/".repeat(300)), "32 wildcards"),
        ("braces", lines(200, &|_| format!("{}{}", "{a,".repeat(200), "}".repeat(200))), ""),
        ("open brackets", lines(500, &|_| "[".repeat(400)), "32 wildcards"),
        ("ranges", lines(4_000, &|_| format!("[{}]*", "a-z".repeat(10))), ""),
        ("backslashes", lines(500, &|_| "\\".repeat(401)), ""),
        ("zeros", vec![0; 200 << 10], "1,024 bytes"),
        ("bytes", (0..=255_u8).cycle().take(200 << 10).collect(), ""),
        ("line ends", vec![b'\n'; 250 << 10], ""),
        ("spaces", lines(200, &|_| format!("a{}", " ".repeat(1_000))), ""),
        ("slow ones", lines(4_000, &|_| format!("{}b", "*a".repeat(15))), ""),
    ]
}

#[test]
fn ignore_files_without_measure_end_soon_and_are_reported() {
    let bombs = bombs();
    println!("{} kinds of files", bombs.len());
    for (what, text, word) in bombs {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        // One in each folder, and names that make a pattern try everything.
        for number in 0..10 {
            write(&root, &format!("sub{number}/.gitignore"), &text);
            for file in 0..30 {
                write(&root, &format!("sub{number}/{}{file}", "a".repeat(200)), "x");
            }
        }
        let start = Instant::now();
        let lines = bounded(what, move || {
            let mut own = snapshots(&root);
            own.take().unwrap();
            // A file of rules that does not count hides nothing.
            if !word.is_empty() {
                assert_eq!(own.names().iter().filter(|own| own.contains("aaa")).count(), 300);
            }
            own.skipped.lines().join("\n")
        });
        println!("{what}: {:?}", start.elapsed());
        assert!(lines.contains(word), "{what}: {lines}");
    }
}

/// Deeper than any path can be opened by its name.
fn deep(root: &Path, folders: usize, name: &str) -> PathBuf {
    let mut at = rustix::fs::open(
        root,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    for _ in 0..folders {
        rustix::fs::mkdirat(&at, name, rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        at = rustix::fs::openat(&at, name, flags, rustix::fs::Mode::empty()).unwrap();
    }
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CREATE;
    rustix::fs::openat(&at, "end", flags, rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
    root.join(name)
}

#[test]
fn folders_without_end_are_reported_and_do_not_stop_a_snapshot() {
    let long = "x".repeat(250);
    for (what, folders, name, word) in [
        ("deep", 5_000, "d", "200 deep"),
        ("a path over the system's limit", 50, long.as_str(), "3500 bytes"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        write(&root, "a.rs", "1\n");
        let mut own = snapshots(&root);
        let id = own.take().unwrap();
        deep(&root, folders, name);
        let at = root.clone();
        let (changed, lines) = bounded(what, move || {
            fs::write(at.join("a.rs"), "2\n").unwrap();
            let mut own = snapshots(&at);
            let changed = own.restore(&id).unwrap();
            (changed, own.skipped.lines().join("\n"))
        });
        assert_eq!(changed, ["a.rs"], "{what}");
        assert!(lines.contains(word), "{what}: {lines}");
        // `remove_dir_all` cannot do it.
        assert!(
            Command::new("rm").args(["-rf", name]).current_dir(&root).status().unwrap().success()
        );
    }
}

#[test]
fn a_walk_ends_when_it_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for number in 0..500 {
        write(root, &format!("f{}/{number}", number % 50), "x");
    }
    let interrupt = Interrupt::default();
    let board = root.join(".baton");
    let new = || Snapshots::new(root, &board, Disk::default()).interrupted_by(&interrupt);
    new().take().unwrap();
    interrupt.at_once();
    assert!(matches!(new().take(), Err(Error::Interrupted)));
    assert!(matches!(new().restore("0"), Err(Error::Missing(_))));
}

#[test]
fn a_name_is_unambiguous() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let count = random.usize(1..12);
        let bytes: Vec<u8> = (0..count).map(|_| random.u8(1..)).collect();
        let name = walk::name_of(&bytes);
        assert_eq!(walk::path_of(&name).unwrap().as_os_str().as_bytes(), bytes, "{name:?}");
    }
    for invalid in ["\0", "a\0", "\0f", "\0zz", "\0\0", "\x0041", "\0é", "a\0c3\0a9"] {
        assert_eq!(walk::path_of(invalid), None, "{invalid:?}");
    }
}
