//! Programs that stay alive and answer line after line, well or badly.

use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use baton_runtime::sandbox::{Confine, Fault, How, Interrupt, Live, Program};

use crate::ground::{Ground, PATIENCE, alive, until, word};
use crate::usage::peak;

/// For what never comes.
const LIMIT: Duration = Duration::from_millis(700);
const MOST: usize = 1 << 20;

/// The program itself: says what it was asked.
pub(crate) fn program() {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        if output.write_all(&line).and_then(|()| output.flush()).is_err() {
            return;
        }
        line.clear();
    }
}

fn own(ground: &Ground, confine: Confine) -> Program {
    let own = std::env::current_exe().unwrap();
    ground.program(&[own.to_str().unwrap(), "says-it-again"], confine)
}

fn shell(ground: &Ground, script: &str, confine: Confine) -> Live {
    Live::start(&ground.program(&["sh", "-c", script], confine)).unwrap()
}

fn ask(live: &mut Live, line: &[u8]) -> Result<Vec<u8>, Fault> {
    live.ask(line, PATIENCE, MOST, &Interrupt::default())
}

fn modes(ground: &Ground) -> [(&'static str, Confine); 3] {
    [("closed", ground.confine()), ("open", ground.open()), ("off", Confine::Off)]
}

pub(crate) fn answers() {
    let ground = Ground::new();
    for (mode, confine) in modes(&ground) {
        let mut live = Live::start(&own(&ground, confine.clone())).unwrap();
        for length in [0, 1, 100, 4_095, 4_096, 65_535, 65_536, 1_000_000] {
            let line = vec![b'x'; length];
            assert!(ask(&mut live, &line).as_ref() == Ok(&line), "{mode}: {length}");
        }
        let garbage: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
        assert_eq!(ask(&mut live, &garbage), Ok(garbage.clone()), "{mode}");
        // A question of two lines is not asked, and harms nothing.
        let fault = ask(&mut live, b"a\nb").unwrap_err();
        assert!(fault.to_string().contains("one line"), "{mode}: {fault}");
        assert_eq!(ask(&mut live, b"last"), Ok(b"last".to_vec()), "{mode}");
        live.end();
        // What it said with its last breath counts, and the next question is told how it ended.
        let mut live = shell(&ground, "read a; echo $a; echo gone >&2; exit 3", confine);
        assert_eq!(ask(&mut live, b"one"), Ok(b"one".to_vec()), "{mode}");
        let ended = Err(Fault::Ended { how: How::Exit(3), stderr: "gone\n".to_owned() });
        assert_eq!(ask(&mut live, b"two"), ended, "{mode}");
        assert_eq!(ask(&mut live, b"three"), ended, "{mode}: it is told again");
    }
}

pub(crate) fn faults() {
    let ground = Ground::new();
    let why = Live::start(&ground.program(&[], Confine::Off)).unwrap_err();
    assert!(why.contains("no program"), "{why}");
    let ended = |how, stderr: &str| Fault::Ended { how, stderr: stderr.to_owned() };
    let broken = |why: &str| Fault::Broken(why.to_owned());
    let more = broken("it said more than it was asked");
    // In each, `N` is a time to sleep by which its processes are found.
    let cases: [(&str, &str, Fault); 11] = [
        ("hangs", "sleep N; read a; echo $a", Fault::TimedOut),
        ("hangs in the middle of a line", "read a; printf half; sleep N", Fault::TimedOut),
        ("ends in the middle of a line", "read a; printf half; exit 0", ended(How::Exit(0), "")),
        (
            "crashes in the middle",
            "read a; printf half; echo why >&2; kill -SEGV $$",
            ended(How::Signal(11), "why\n"),
        ),
        ("ends at once", "echo no >&2; exit 4", ended(How::Exit(4), "no\n")),
        ("speaks first", "echo ready; : > spoken; read a; echo $a; sleep N", more.clone()),
        ("answers two lines", "while read a; do printf '1\\n2\\n'; done", more.clone()),
        ("answers a line and a half", "while read a; do printf '1\\n2'; done", more),
        ("answers more than is allowed", "read a; printf 12345; sleep N", Fault::TooLong),
        (
            "floods its errors and hangs",
            "while :; do echo flood >&2; done & sleep N",
            Fault::TimedOut,
        ),
        ("closes its input and hangs", "exec <&-; sleep N", Fault::TimedOut),
    ];
    for (index, (name, script, expected)) in cases.iter().enumerate() {
        for (mode, confine) in modes(&ground) {
            let (word, spoken) = (word(&format!("7441{index}")), ground.path("project/spoken"));
            let mut live = shell(&ground, &script.replace('N', &word), confine);
            if *name == "speaks first" {
                until("it does not speak", || std::fs::remove_file(&spoken).is_ok());
            }
            let limit = if *expected == Fault::TimedOut { LIMIT } else { PATIENCE };
            let start = Instant::now();
            let mut first = live.ask(b"question", limit, 4, &Interrupt::default());
            if first.as_deref() == Ok(b"1") {
                first = live.ask(b"question", limit, 4, &Interrupt::default());
            }
            let fault = first.unwrap_err();
            let is_closed = mode == "off" && name.contains("closes its input");
            if is_closed && fault != Fault::TimedOut {
                assert!(matches!(fault, Fault::Broken(_)), "{name}, {mode}: {fault:?}");
            } else {
                assert_eq!(fault, *expected, "{name}, {mode}");
            }
            assert!(start.elapsed() < PATIENCE, "{name}, {mode}");
            assert_eq!(alive(&word), [""; 0], "{name}, {mode}");
        }
    }
    let mut live = Live::start(&ground.program(&["/no/such"], ground.confine())).unwrap();
    let fault = ask(&mut live, b"").unwrap_err().to_string();
    assert!(fault.starts_with("cannot start `/no/such`"), "{fault}");
    interrupted(&ground);
}

fn interrupted(ground: &Ground) {
    let word = word("7442");
    let mut live = shell(ground, &format!("sleep {word}"), ground.confine());
    let interrupt = Interrupt::default();
    let other = interrupt.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.at_once();
    });
    assert_eq!(live.ask(b"x", PATIENCE, MOST, &interrupt), Err(Fault::Interrupted));
    thread.join().unwrap();
    assert_eq!(alive(&word), [""; 0]);
}

pub(crate) fn no_process_survives() {
    let cases = [
        ("a child", "sleep N & read a; echo $a; sleep N"),
        ("a session of its own", "setsid sleep N & read a; echo $a; sleep N"),
        ("forks twice", "(setsid sh -c 'setsid sleep N & sleep N' &) ; read a; echo $a; sleep N"),
        ("a real daemon", "PROBE probe daemon N; read a; echo $a; sleep N"),
        ("ignores signals", "trap '' TERM HUP INT QUIT; read a; echo $a; sleep N; sleep N"),
        ("ends and leaves some behind", "setsid sleep N & read a; echo $a"),
    ];
    let exe = std::env::current_exe().unwrap();
    for (index, (name, script)) in cases.iter().enumerate() {
        let ground = Ground::new();
        for (mode, confine) in [("closed", ground.confine()), ("open", ground.open())] {
            for way in ["end", "drop", "fault"] {
                let word = word(&format!("7443{index}"));
                let script = script.replace('N', &word).replace("PROBE", exe.to_str().unwrap());
                let mut live = shell(&ground, &script, confine.clone());
                assert_eq!(ask(&mut live, b"hello"), Ok(b"hello".to_vec()), "{name}, {mode}");
                match way {
                    "end" => live.end(),
                    "drop" => drop(live),
                    _ => drop(live.ask(b"x", LIMIT, MOST, &Interrupt::default()).unwrap_err()),
                }
                assert_eq!(alive(&word), [""; 0], "{name}, {mode}, {way}");
            }
        }
    }
}

pub(crate) fn bounded() {
    let ground = Ground::new();
    let measured = |name: &str, script: &str, line: &[u8], limit: Duration| {
        let mut live = shell(&ground, script, ground.confine());
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let (before, start) = (peak(), Instant::now());
        let fault = live.ask(line, limit, MOST, &Interrupt::default()).unwrap_err();
        let (took, grown) = (start.elapsed(), peak().saturating_sub(before) >> 20);
        assert!(took < limit + PATIENCE, "{name}: {took:?}");
        assert!(grown < 20, "{name}: we grew by {grown} MiB");
        let shown: String = fault.to_string().chars().take(60).collect();
        println!("  {name}: {shown} after {:.1} s, we grew by {grown} MiB", took.as_secs_f64());
        fault
    };
    let gigabyte = "head -c 1000000000 /dev/zero | tr '\\0' x";
    let word = word("7444");
    let flood = format!("read a; {gigabyte}; sleep {word}");
    assert_eq!(measured("a gigabyte without a line break", &flood, b"", PATIENCE), Fault::TooLong);
    let errors = format!("read a; {gigabyte} >&2; echo last >&2; exit 5");
    let fault = measured("a gigabyte of errors", &errors, b"", PATIENCE);
    let Fault::Ended { how: How::Exit(5), stderr } = fault else { panic!("{fault:?}") };
    assert!(stderr.len() == 8 << 10 && stderr.ends_with("xlast\n"));
    assert!(Fault::Ended { how: How::Exit(5), stderr }.to_string().len() < 500);
    let ten = vec![b'x'; 10_000_000];
    let fault = measured("does not read", &format!("sleep {word}"), &ten, LIMIT);
    assert_eq!(fault, Fault::TimedOut);
    let early = format!("head -c 10 >/dev/null; echo early; sleep {word}");
    let fault = measured("answers before it has read", &early, &ten, PATIENCE);
    assert!(fault.to_string().contains("before it had read"), "{fault}");
    assert_eq!(alive(&word), [""; 0]);
}

pub(crate) fn confined() {
    let ground = Ground::new();
    ground.write("project/.baton/state", "before");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let script =
        "while read line; do eval \"$line\" >/dev/null 2>&1 && echo done || echo refused; done";
    let questions = [
        format!("echo x > {}", ground.path("elsewhere/new").display()),
        format!("echo x > {}", ground.path("project/.baton/state").display()),
        format!("(exec 3<>/dev/tcp/127.0.0.1/{port})"),
    ];
    let shell = |confine| Live::start(&ground.program(&["bash", "-c", script], confine)).unwrap();
    let (mut outside, mut inside) = (shell(Confine::Off), shell(ground.confine()));
    for question in &questions {
        let (out, own) =
            (ask(&mut outside, question.as_bytes()), ask(&mut inside, question.as_bytes()));
        assert_eq!(out, Ok(b"done".to_vec()), "{question}: the control");
        assert_eq!(own, Ok(b"refused".to_vec()), "{question}");
    }
    assert_eq!(ask(&mut inside, b"echo x > allowed"), Ok(b"done".to_vec()));
    // The machine's faults are told before the first question.
    let mut closed = ground.closed();
    closed.without = vec![baton_runtime::sandbox::Feature::PidNamespace];
    let why = Live::start(&own(&ground, Confine::Closed(Box::new(closed)))).unwrap_err();
    assert!(why.starts_with("no sandbox"), "{why}");
}

/// Prints what a question costs.
pub(crate) fn cost() {
    let ground = Ground::new();
    let start = Instant::now();
    let mut live = Live::start(&own(&ground, ground.confine())).unwrap();
    let begin = start.elapsed();
    for length in [100, 10_000] {
        let line = vec![b'x'; length];
        let (start, count) = (Instant::now(), 2_000);
        for _ in 0..count {
            assert_eq!(ask(&mut live, &line).unwrap().len(), length);
        }
        let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(count);
        println!("  {length} bytes and back: {each:.1} µs, the other's part of it included");
    }
    println!("  a start: {:.1} ms", begin.as_secs_f64() * 1e3);
}
