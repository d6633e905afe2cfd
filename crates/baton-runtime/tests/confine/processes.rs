//! Programs that do not want to end.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_runtime::sandbox::{self, Confine, How, Interrupt};

use crate::ground::{Ground, alive, run, spare_for};

const LIMIT: Duration = Duration::from_millis(700);

/// In each, `N` is a time to sleep by which its processes are found.
const CASES: [(&str, &str); 18] = [
    ("hangs", "exec sleep N"),
    ("waits for input", "cat; mkfifo f; cat f; sleep N"),
    ("waits for a terminal", "cat /dev/tty; sleep N"),
    ("holds the pipe in the background", "sleep N & echo done"),
    ("a session of its own", "setsid sleep N & echo done"),
    ("a session, and waits", "setsid -w sleep N"),
    ("forks twice", "(setsid sh -c 'setsid sleep N & sleep N' &) ; echo done"),
    ("without variables", "env -i $(command -v setsid) sleep N & sleep N"),
    (
        "without variables, in the background",
        "env -i $(command -v setsid) sleep N >/dev/null 2>&1 & echo done",
    ),
    ("ignores signals", "trap '' TERM HUP INT QUIT; sleep N; sleep N"),
    ("ignores signals in the background", "(trap '' TERM HUP INT; sleep N; sleep N) & echo done"),
    ("stops itself", "sleep N & kill -STOP $$"),
    ("a group of its own", "set -m; sleep N & sleep N & echo done"),
    ("comes again and again", "while :; do setsid sleep N & sleep 0.05; done"),
    ("floods and hangs", "yes & sleep N"),
    ("closes everything", "exec >/dev/null 2>&1 </dev/null; nohup setsid sleep N & exec sleep N"),
    ("kills all it can", "sleep N & kill -9 -1; kill -9 1; sleep N"),
    ("a real daemon", "PROBE probe daemon N; echo done"),
];

pub(crate) fn no_process_survives() {
    let mut count = 0;
    for (index, (name, script)) in CASES.iter().enumerate() {
        for (mode, mark) in [("closed", "7331"), ("open", "7332")] {
            let ground = Ground::new();
            let word = format!("{mark}.{index}1");
            let own = std::env::current_exe().unwrap();
            let script = script.replace('N', &word).replace("PROBE", own.to_str().unwrap());
            let confine = if mode == "closed" { ground.confine() } else { ground.open() };
            let mut program = ground.program(&["sh", "-c", &script], confine);
            program.limit = LIMIT;
            let start = Instant::now();
            let ran = run(&program);
            let took = start.elapsed();
            assert!(took < LIMIT + Duration::from_secs(2), "{name}, {mode}: {took:?}");
            let left = alive(&word);
            assert!(left.is_empty(), "{name}, {mode}: {left:?}");
            if script.ends_with("echo done") {
                assert_eq!(ran.how, How::Exit(0), "{name}, {mode}: {}", ran.stderr.text());
                assert_eq!(ran.stdout.text(), "done\n", "{name}, {mode}");
                assert!(took < LIMIT, "{name}, {mode}: it waited for the background");
            } else if *name != "kills all it can" {
                assert_eq!(ran.how, How::TimedOut, "{name}, {mode}: {}", ran.stderr.text());
            }
            count += 1;
        }
    }
    // The control: without a namespace one of them does survive, and is found by this very look.
    let ground = Ground::new();
    let script = "env -i $(command -v setsid) sleep 7333.1 >/dev/null 2>&1 & sleep 0.2; echo done";
    let mut program = ground.program(&["sh", "-c", script], Confine::Off);
    program.limit = LIMIT;
    run(&program);
    let left = alive("sleep 7333.1");
    assert_eq!(left.len(), 1, "{left:?}");
    let pid = left[0].split(' ').next().unwrap();
    assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
    println!("  {count} ways not to end, nobody left");
}

/// Runs a program until it is killed.
pub(crate) fn child(words: &[String]) {
    let ground = Ground::new();
    let confine = if words[0] == "closed" { ground.confine() } else { ground.open() };
    let program = ground.program(&["sh", "-c", &words[1]], confine);
    if words[0] == "spare" {
        let _unused = spare_for(&ground.program(&["sh"], ground.confine()));
        std::thread::sleep(Duration::from_secs(60));
    }
    let _ = sandbox::run(&program, &Interrupt::default());
}

pub(crate) fn killed_with_baton() {
    for (mode, word) in [("closed", "7334.1"), ("open", "7334.2")] {
        let script = format!("env -i $(command -v setsid) sleep {word} & sleep {word}");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", mode, &script])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let wanted = format!("sleep {word}");
        let is_sleep = |line: &String| line.split_once(' ').unwrap().1.starts_with(&wanted);
        let sleeping = || alive(&wanted).iter().filter(|line| is_sleep(line)).count();
        let wait = |what: &str, done: &dyn Fn() -> bool| {
            let start = Instant::now();
            while !done() {
                assert!(
                    start.elapsed() < Duration::from_secs(10),
                    "{mode}: {what}: {:?}",
                    alive(word)
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait("it did not begin", &|| sleeping() == 2);
        child.kill().unwrap();
        child.wait().unwrap();
        wait("it lives on", &|| alive(word).is_empty());
    }
}

pub(crate) fn interrupted() {
    let ground = Ground::new();
    let program = ground.program(&["sh", "-c", "touch begun; sleep 7335.1"], ground.confine());
    let interrupt = Interrupt::default();
    let other = interrupt.clone();
    let begun = ground.path("project/begun");
    let thread = std::thread::spawn(move || {
        while !fs::exists(&begun).unwrap() {
            std::thread::sleep(Duration::from_millis(5));
        }
        other.at_once();
    });
    let start = Instant::now();
    let ran = sandbox::run(&program, &interrupt).unwrap();
    thread.join().unwrap();
    assert_eq!(ran.how, How::Interrupted);
    assert!(start.elapsed() < Duration::from_secs(5) && alive("7335.1").is_empty());
}
