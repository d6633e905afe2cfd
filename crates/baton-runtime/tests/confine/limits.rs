//! What a program may use, whoever runs it and whatever this machine gives to limit it: with control
//! groups, without them, and where parts of /proc are covered, as in a container.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use baton_runtime::sandbox::{self, Bounds, Confine, Group, How, Interrupt, Limits, Ran};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::ground::{Ground, IN_SPARE, PATIENCE, alive, run, until, word};
use crate::usage::floods_and_hogs;

/// More than this is too much for a test, whoever runs it and whatever the sandbox lets through.
const BOUND: Bounds = Bounds { tasks: 4_000, memory: 6 << 30 };
/// That of a bomb, which is to be ended before.
const LIMIT: Duration = Duration::from_secs(10);
/// How much longer than its limit a program may take.
const LATE: Duration = Duration::from_secs(2);

/// Does this in a process of its own, in each way that a limit can be set on this machine; the
/// process can fill neither the process table nor the memory, should the sandbox let it.
pub(crate) fn in_each_way(test: &str) {
    // With a name that any user can reach.
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir();
    let folder = folder.unwrap();
    let own = folder.path().join("confine");
    fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let spaces = if is_root { "-m" } else { "-Urm" };
    let hidden = "mount -t tmpfs none /sys/fs/cgroup && ";
    // That of another machine, as some containers show.
    let covered = "cp /proc/meminfo /run/ && mount --bind /run/meminfo /proc/meminfo && ";
    let covered = format!("mount -t tmpfs none /run && {covered}");
    let in_space = |line: String| {
        let mut command = Command::new("unshare");
        command.args([spaces, "sh", "-c", &format!("{line} exec \"$@\""), "sh"]).arg(&own);
        command
    };
    let mut ways = vec![
        ("as it is", Command::new(&own)),
        ("without control groups", in_space(hidden.to_owned())),
        ("with a covered /proc", in_space(format!("{hidden}{covered}"))),
    ];
    if is_root {
        let mut command = Command::new(&own);
        command.uid(NOBODY).gid(NOBODY);
        ways.push(("as an ordinary user", command));
    }
    for (name, mut command) in ways {
        println!("  {name}:");
        if name == "with a covered /proc" {
            command.env(ONLY_LOOKS, "1");
        }
        let mode = if IN_SPARE.load(Ordering::SeqCst) { "spare" } else { "fresh" };
        command.args(["limited", test, mode]).current_dir("/").env("HOME", folder.path());
        assert!(succeeds(&mut command), "{name}");
    }
}

const NOBODY: u32 = 65_534;
/// Set for the process that does it, where the kernel bounds nothing.
const ONLY_LOOKS: &str = "BATON_TEST_ONLY_LOOKS";

/// Whether it ends well; it is bounded itself.
fn succeeds(command: &mut Command) -> bool {
    if !rustix::process::geteuid().is_root() {
        // Of all that this user has: what else there is must not count.
        let before = getrlimit(Resource::Nproc);
        let most = threads_of_this_machine() + BOUND.tasks;
        let least = before.maximum.map_or(most, |own| own.min(most));
        setrlimit(Resource::Nproc, Rlimit { current: Some(least), ..before }).unwrap();
        let status = command.status();
        setrlimit(Resource::Nproc, before).unwrap();
        return status.unwrap().success();
    }
    let group = Group::of(BOUND).filter(|group| group.sets().0);
    let group = group.expect("as root these tests need a control group, so that they are safe");
    group.enter().unwrap();
    let status = command.status();
    group.leave().unwrap();
    status.unwrap().success()
}

fn threads_of_this_machine() -> u64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap();
    let of = text.split(' ').nth(3).and_then(|word| word.split_once('/'));
    of.unwrap().1.parse().unwrap()
}

/// The process that does it.
pub(crate) fn limited(test: &str, mode: &str) {
    IN_SPARE.store(mode == "spare", Ordering::SeqCst);
    match test {
        "floods_and_hogs" => floods_and_hogs(),
        "memory" => kinds_of_memory(),
        "shared_once" => counted_once(),
        "fork_bomb" => bombed(),
        "a_thousand" => thousand(),
        "interrupted_forks" => interrupted_while_it_forks(),
        "held-group" => {
            let group = Group::of(BOUND).unwrap();
            println!("{group:?}");
            std::thread::sleep(PATIENCE);
        }
        "a_group" => drop(Group::of(BOUND).unwrap()),
        other => panic!("there is no test `{other}`"),
    }
    sandbox::remove_groups();
}

pub(crate) fn memory() {
    in_each_way("memory");
}

pub(crate) fn shared_once() {
    in_each_way("shared_once");
}

pub(crate) fn fork_bomb() {
    in_each_way("fork_bomb");
}

pub(crate) fn a_thousand() {
    in_each_way("a_thousand");
}

pub(crate) fn interrupted_forks() {
    in_each_way("interrupted_forks");
}

fn probe(ground: &Ground, limits: Limits, limit: Duration, words: &[&str]) -> Ran {
    let own = std::env::current_exe().unwrap();
    let mut argv = vec![own.to_str().unwrap(), "probe"];
    argv.extend(words);
    let mut closed = ground.closed();
    closed.limits = limits;
    let mut program = ground.program(&argv, Confine::Closed(Box::new(closed)));
    program.limit = limit;
    run(&program)
}

fn shown(ran: &Ran) -> String {
    format!(
        "{:?} after {:.1} s, {}, {:?} {}",
        ran.how,
        ran.time.as_secs_f64(),
        ran.note.as_deref().unwrap_or("no note"),
        ran.stdout.text(),
        ran.stderr.text()
    )
}

const KINDS: [&str; 9] = [
    "private",
    "shared",
    "shared-by-many",
    "memfd",
    "memfds",
    "mapped-memfd",
    "hidden-memfd",
    "half-and-half",
    "segment",
];

fn kinds_of_memory() {
    let most = Limits { processes: 64, memory: 300 << 20, file: 4 << 30 };
    for kind in KINDS {
        let ground = Ground::new();
        let enough = ground.path("project/enough");
        let words = ["fill", kind, "600", enough.to_str().unwrap()];
        let ran = probe(&ground, most, PATIENCE, &words);
        println!("    {kind}: {}", shown(&ran));
        assert!(!matches!(ran.how, How::Exit(0) | How::TimedOut), "{kind}: {}", shown(&ran));
        if kind != "private" {
            // That is refused by the kernel, before there is too much.
            let note = ran.note.as_deref().unwrap_or_default();
            assert_eq!(note, "it used more than 300 MiB", "{kind}: {}", shown(&ran));
        }
        // The control: the same, where it is allowed.
        fs::write(&enough, "").unwrap();
        let ran = probe(&ground, Limits { memory: 2 << 30, ..most }, PATIENCE, &words);
        assert_eq!(ran.how, How::Exit(0), "{kind}, the control: {}", shown(&ran));
        assert!(ran.stdout.text().contains("filled") && ran.note.is_none(), "{kind}");
    }
}

/// What processes have in common since they were forked is there once.
fn counted_once() {
    let ground = Ground::new();
    let most = Limits { processes: 64, memory: 500 << 20, file: 4 << 30 };
    let ran = probe(&ground, most, PATIENCE, &["share", "120", "12"]);
    assert_eq!((ran.how, ran.note.as_deref()), (How::Exit(0), None), "{}", shown(&ran));
    println!("    {}", shown(&ran));
}

fn bombed() {
    let before = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    for processes in [64, 1_024] {
        let ground = Ground::new();
        let most = Limits { processes, memory: 3 << 30, file: 1 << 20 };
        let enough = ground.path("project/enough");
        let words = ["bombs", enough.to_str().unwrap()];
        let start = Instant::now();
        // The machine forks while the bomb goes off.
        let other = std::thread::spawn(forks);
        let ran = probe(&ground, most, LIMIT, &words);
        let took = start.elapsed();
        println!("    {processes} processes: {}", shown(&ran));
        other.join().unwrap();
        assert!(took < LIMIT + LATE, "{took:?}");
        assert_eq!(alive("probe bombs"), [""; 0]);
        let note = ran.note.as_deref().unwrap_or_default();
        // Of an ordinary user the kernel refuses more, and where nothing but looks bounds them a bomb of
        // thousands can keep these waiting: then it ends when its time is over.
        let is_root = rustix::process::geteuid().is_root();
        let may_last = !is_root || std::env::var_os(ONLY_LOOKS).is_some();
        let is_refused = may_last && ran.how == How::TimedOut;
        let said = format!("it had more than {processes} processes");
        assert!(note == said || is_refused, "{}", shown(&ran));
        // The control: without its children the same program works.
        fs::write(&enough, "").unwrap();
        let ran = probe(&ground, most, LIMIT, &words);
        assert_eq!((ran.how, ran.note), (How::Exit(0), None));
    }
    // Busy ones that are allowed, and do not end.
    let ground = Ground::new();
    for limit in [1, 5, 25].map(Duration::from_secs) {
        let start = Instant::now();
        let ran = probe(&ground, ground.closed().limits, limit, &["spin", "900"]);
        println!("    900 busy processes: {}", shown(&ran));
        assert_eq!(ran.how, How::TimedOut);
        assert!(start.elapsed() < limit + LATE, "{:?}", start.elapsed());
        assert_eq!(alive("probe spin"), [""; 0]);
        // On a busy machine they are not all made within a short limit.
        let are_all = ran.stdout.text() == "900 processes\n";
        assert!(are_all || limit < Duration::from_secs(25), "{}", shown(&ran));
        if are_all {
            break;
        }
    }
    assert_eq!(fs::read_to_string("/proc/sys/kernel/pid_max").unwrap(), before);
}

/// This machine starts programs, again and again.
fn forks() {
    for _ in 0..20 {
        // The bomb shares the bound of this test, and may have reached it until it is ended.
        let start = Instant::now();
        let output = loop {
            match Command::new("sh").args(["-c", "echo alive"]).output() {
                Ok(output) if output.status.success() => break output,
                failed => assert!(start.elapsed() < LIMIT + LATE, "{failed:?}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(output.stdout, b"alive\n");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn thousand() {
    let ground = Ground::new();
    let usual = ground.closed().limits;
    let ran = probe(&ground, usual, PATIENCE, &["many", "1000"]);
    assert_eq!((ran.how, ran.note.as_deref()), (How::Exit(0), None), "{}", shown(&ran));
    println!("    {}", shown(&ran));
    // The control: one limit that is lower.
    let lower = Limits { processes: 700, ..usual };
    let ran = probe(&ground, lower, PATIENCE, &["many", "1000", "stay"]);
    assert_ne!(ran.how, How::Exit(0), "{}", shown(&ran));
}

/// Daemons that leave their parents and sessions, and make others, while a person interrupts.
fn interrupted_while_it_forks() {
    let word = word("7336");
    for (mode, is_closed) in [("closed", true), ("open", false)] {
        for pause in [0, 20, 100] {
            let ground = Ground::new();
            let confine = if is_closed { ground.confine() } else { ground.open() };
            let line = format!(
                "touch begun; while :; do (setsid sh -c 'trap \"\" TERM INT HUP; \
                setsid sleep {word} & sleep {word}' >/dev/null 2>&1 &); done"
            );
            let program = ground.program(&["sh", "-c", &line], confine);
            let interrupt = Interrupt::default();
            let (other, begun) = (interrupt.clone(), ground.path("project/begun"));
            let thread = std::thread::spawn(move || {
                until("it did not begin", || fs::exists(&begun).unwrap());
                std::thread::sleep(Duration::from_millis(pause));
                let asked = Instant::now();
                other.at_once();
                asked
            });
            let ran = sandbox::run(&program, &interrupt).unwrap();
            let asked = thread.join().unwrap();
            // Open programs have no limit of processes that could end it before.
            assert_eq!(ran.how, How::Interrupted, "{mode}: {}", shown(&ran));
            assert!(asked.elapsed() < LATE, "{mode}: {:?}", asked.elapsed());
            assert_eq!(alive(&word), [""; 0], "{mode}");
        }
    }
}

/// Only who can make groups leaves any behind.
pub(crate) fn groups_left_behind() {
    let Some(own) = Group::of(BOUND) else { return };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["limited", "held-group", "fresh"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    let left: Vec<&str> = line.split('"').filter(|word| word.starts_with('/')).collect();
    assert!(!left.is_empty(), "{line}");
    let are_there = || left.iter().filter(|path| Path::new(path).exists()).count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(are_there(), left.len());
    // The next one that needs a group removes them, and its own at its end.
    let own_exe = std::env::current_exe().unwrap();
    let status = Command::new(own_exe).args(["limited", "a_group", "fresh"]).status().unwrap();
    assert!(status.success());
    assert_eq!(are_there(), 0, "{left:?}");
    drop(own);
}
