//! Programs that do not want to end.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_runtime::sandbox::{self, Confine, Fault, How, Interrupt, Live};

use crate::ground::{Ground, PATIENCE, alive, run, spare_for, until, word};

/// For what never ends by itself.
const LIMIT: Duration = Duration::from_millis(700);

/// The time that a call may take beyond its limit, or beyond the end of its program.
const GRACE: Duration = Duration::from_secs(2);
/// On a busy machine a call may be late by chance, but not each time.
const TRIES: usize = 5;

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
            let mut late = Vec::new();
            while late.len() < TRIES {
                let took = ends_alone(index, mode, mark);
                let limit = if script.ends_with("echo done") { Duration::ZERO } else { LIMIT };
                if took < limit + GRACE {
                    break;
                }
                late.push(took);
            }
            assert!(late.len() < TRIES, "{name}, {mode}: {late:?}");
            count += 1;
        }
    }
    // The control: without a namespace one of them does survive, and is found by this very look.
    let ground = Ground::new();
    let word = word("7333");
    let inner = format!("sh -c ': > begun; exec sleep {word}'");
    let script = format!(
        "env -i $(command -v setsid) {inner} >/dev/null 2>&1 & \
         while ! test -e begun; do sleep 0.01; done; echo done"
    );
    run(&ground.program(&["sh", "-c", &script], Confine::Off));
    let left = alive(&word);
    assert_eq!(left.len(), 1, "{left:?}");
    let pid = left[0].split(' ').next().unwrap();
    assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
    until("the control does not end", || alive(&word).is_empty());
    println!("  {count} ways not to end, nobody left");
}

/// Runs one of the cases, requires that it was ended and no process is left; the time that the call took.
fn ends_alone(index: usize, mode: &str, mark: &str) -> Duration {
    let (name, script) = CASES[index];
    let ground = Ground::new();
    let word = word(&format!("{mark}{index:02}"));
    let own = std::env::current_exe().unwrap();
    let script = script.replace('N', &word).replace("PROBE", own.to_str().unwrap());
    let mut program = ground.program(&["sh", "-c", &script], confine(mode, &ground));
    let ends = script.ends_with("echo done");
    program.limit = if ends { PATIENCE } else { LIMIT };
    let start = Instant::now();
    let ran = run(&program);
    let took = start.elapsed();
    assert!(took < PATIENCE, "{name}, {mode}: {took:?}");
    let left = alive(&word);
    assert!(left.is_empty(), "{name}, {mode}: {left:?}");
    if ends {
        // One that waited for the background would be ended at its limit.
        assert_eq!(ran.how, How::Exit(0), "{name}, {mode}: {}", ran.stderr.text());
        assert_eq!(ran.stdout.text(), "done\n", "{name}, {mode}");
    } else if name != "kills all it can" {
        assert_eq!(ran.how, How::TimedOut, "{name}, {mode}: {}", ran.stderr.text());
    }
    took
}

/// Processes that hold a lock until they are gone, in the background of a program that ends.
const HOLDERS: [(&str, &str); 3] = [
    ("in the group", "HOLD & WAIT"),
    ("in a session of its own", "setsid HOLD & WAIT"),
    ("below another", "setsid sh -c 'HOLD; :' & WAIT"),
];

fn holder(script: &str, lock: &Path) -> String {
    let own = std::env::current_exe().unwrap();
    let lock = lock.display();
    let hold = format!("{} probe hold {lock} 200 >/dev/null 2>&1 </dev/null", own.display());
    let wait = format!("while ! test -s {lock}.held; do sleep 0.01; done");
    script.replace("HOLD", &hold).replace("WAIT", &wait)
}

/// Whether a process still holds it.
fn is_held(lock: &Path) -> bool {
    fs::File::open(lock).unwrap().try_lock().is_err()
}

/// A process that was told to end still has its files, until the kernel has ended it.
pub(crate) fn gone_before_the_return() {
    for (name, script) in HOLDERS {
        for mode in ["closed", "open", "off"] {
            let ground = Ground::new();
            let lock = ground.path("project/lock");
            let confine = confine(mode, &ground);
            let program = ground.program(&["sh", "-c", &holder(script, &lock)], confine.clone());
            assert_eq!(run(&program).how, How::Exit(0), "{name}, {mode}");
            assert!(!is_held(&lock), "{name}, {mode}: it is still there after the call");
            fs::remove_file(ground.path("project/lock.held")).unwrap();
            let line = format!("read a; {}; echo $a; sleep 600", holder(script, &lock));
            let live = &mut Live::start(&ground.program(&["sh", "-c", &line], confine)).unwrap();
            let mut ask = |limit| live.ask(b"x", limit, 8, &Interrupt::default());
            assert_eq!(ask(PATIENCE), Ok(b"x".to_vec()), "{name}, {mode}");
            assert!(is_held(&lock), "{name}, {mode}: the control");
            assert_eq!(ask(LIMIT), Err(Fault::TimedOut), "{name}, {mode}");
            assert!(!is_held(&lock), "{name}, {mode}: it is still there after the question");
        }
    }
}

/// What a killed Baton without a sandbox has left is gone when the next one starts.
pub(crate) fn left_behind() {
    for (name, script) in HOLDERS {
        let (ground, mark) = (Ground::new(), word("confine"));
        let lock = ground.path("project/lock");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "off", &format!("{}; sleep 600", holder(script, &lock)), &mark])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        until("it does not begin", || ground.path("project/lock.held").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_held(&lock), "{name}: the control");
        let count = sandbox::end_left_behind(&mark);
        assert!(!is_held(&lock), "{name}: it is still there");
        // The shell and what it waits with, the holder, and the shell above it in the last case.
        assert!((2..=4).contains(&count), "{name}: {count} counted");
        assert_eq!(sandbox::end_left_behind(&mark), 0, "{name}");
    }
}

fn confine(mode: &str, ground: &Ground) -> Confine {
    match mode {
        "closed" => ground.confine(),
        "off" => Confine::Off,
        _ => ground.open(),
    }
}

/// Runs a program until it is killed.
pub(crate) fn child(words: &[String]) {
    let ground = Ground::new();
    let mut program = ground.program(&["sh", "-c", &words[1]], confine(&words[0], &ground));
    program.mark = words.get(2).cloned().unwrap_or(program.mark);
    if words[0] == "spare" {
        let _unused = spare_for(&ground.program(&["sh"], ground.confine()));
        std::thread::sleep(PATIENCE);
    }
    let _ = sandbox::run(&program, &Interrupt::default());
}

pub(crate) fn killed_with_baton() {
    for (mode, word) in [("closed", word("73341")), ("open", word("73342"))] {
        let script = format!("env -i $(command -v setsid) sleep {word} & sleep {word}");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", mode, &script])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let wanted = format!("sleep {word}");
        let is_sleep = |line: &String| line.split_once(' ').unwrap().1.starts_with(&wanted);
        let sleeping = || alive(&wanted).iter().filter(|line| is_sleep(line)).count();
        until(&format!("{mode}: it did not begin"), || sleeping() == 2);
        child.kill().unwrap();
        child.wait().unwrap();
        until(&format!("{mode}: it lives on"), || alive(&word).is_empty());
    }
}

pub(crate) fn interrupted() {
    let ground = Ground::new();
    let word = word("7335");
    let line = format!("touch begun; sleep {word}");
    let program = ground.program(&["sh", "-c", &line], ground.confine());
    let interrupt = Interrupt::default();
    let other = interrupt.clone();
    let begun = ground.path("project/begun");
    let thread = std::thread::spawn(move || {
        until("it did not begin", || fs::exists(&begun).unwrap());
        other.at_once();
    });
    let ran = sandbox::run(&program, &interrupt).unwrap();
    thread.join().unwrap();
    assert_eq!(ran.how, How::Interrupted);
    assert_eq!(alive(&word), [""; 0]);
}
