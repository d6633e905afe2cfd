//! Programs that use too much.

use std::fs;
use std::time::Instant;

use baton_runtime::sandbox::{COPY, Confine, How, Limits, Program, Ran};

use crate::ground::{Ground, alive, run};

/// The most memory that this process has had since it was last asked, in bytes.
pub(crate) fn peak() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

fn limited(ground: &Ground, argv: &[&str]) -> Program {
    let mut closed = ground.closed();
    closed.limits = Limits { processes: 64, memory: 512 << 20, file: 64 << 20 };
    let mut program = ground.program(argv, Confine::Closed(Box::new(closed)));
    program.most = 100_000;
    program
}

/// What one of these did, while this machine stayed usable and this process small.
fn tried(name: &str, ground: &Ground, argv: &[&str]) -> Ran {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak();
    let start = Instant::now();
    let ran = run(&limited(ground, argv));
    let (took, grown) = (start.elapsed(), peak().saturating_sub(before) >> 20);
    assert!(grown < 100, "{name}: we grew by {grown} MiB");
    // This machine still starts programs.
    ground.shell("echo alive", Confine::Off);
    println!(
        "  {name}: {:?} after {:.1} s, we grew by {grown} MiB{}",
        ran.how,
        took.as_secs_f64(),
        ran.note.as_ref().map_or(String::new(), |note| format!(", {note}")),
    );
    ran
}

pub(crate) fn bounded_floods_and_hogs() {
    crate::limits::in_each_way("floods_and_hogs");
}

pub(crate) fn floods_and_hogs() {
    let ground = Ground::new();
    let shell = |name: &str, line: &str| tried(name, &ground, &["sh", "-c", line]);
    let flood = "echo first; head -c 1000000000 /dev/zero | tr '\\0' x; echo; echo last";
    let ran = shell("a gigabyte", flood);
    let text = ran.stdout.text();
    assert!(ran.how == How::Exit(0) && text.starts_with("first\n") && text.ends_with("last\n"));
    assert!(text.contains("bytes omitted") && text.len() < 101_000);
    let both = "yes out | head -c 200000000 & yes err | head -c 200000000 >&2; wait";
    let ran = shell("both streams", both);
    assert!(ran.stdout.is_cut() && ran.stderr.is_cut());
    let ran = shell("binary", "head -c 100000000 /dev/urandom");
    assert!(ran.stdout.is_cut() && ran.stdout.whole_text().is_err());
    let ran = shell("not UTF-8", "printf 'a\\377\\376b\\n'");
    assert_eq!(ran.stdout.text(), "a\u{fffd}\u{fffd}b\n");
    assert!(ran.stdout.whole_text().is_err());
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let ran = tried("a fork bomb", &ground, &[own, "probe", "bomb"]);
    assert_ne!(ran.how, How::Exit(0));
    assert!(alive("probe bomb").is_empty(), "{:?}", alive("probe bomb"));
    let ran = shell("a fork bomb of the shell", "f() { f | f & }; f; sleep 2; exit 7");
    assert!(ran.how != How::Exit(0) && ran.how != How::TimedOut, "{:?}", ran.how);
    let ran = tried("a bomb of threads", &ground, &[own, "probe", "threads", "1000"]);
    // Refused by the kernel, or ended.
    assert!(matches!(ran.how, How::Exit(1) | How::Signal(_)), "{:?}", ran.how);
    let ran = tried("a memory hog", &ground, &[own, "probe", "hog", "2000"]);
    assert_ne!(ran.how, How::Exit(0));
    let ran = tried("many memory hogs", &ground, &[own, "probe", "hogs", "300", "8"]);
    assert_ne!(ran.how, How::Exit(0));
    let ran = shell("a huge file", "head -c 1000000000 /dev/zero > huge");
    assert!(
        ran.how != How::Exit(0)
            && fs::metadata(ground.path("project/huge")).unwrap().len() <= 64 << 20
    );
    let ran = shell(
        "a huge file in memory",
        "for i in 1 2 3 4 5 6 7 8; do head -c 60000000 /dev/zero > /dev/shm/$i || exit 3; done",
    );
    assert_eq!(ran.how, How::Exit(3));
}

pub(crate) fn copied() {
    let ground = Ground::new();
    let mut program =
        limited(&ground, &["sh", "-c", "echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three"]);
    let copy = ground.path("elsewhere/copy.txt");
    program.copy = Some(copy.clone());
    let ran = run(&program);
    assert_eq!((ran.uncopied, copy.exists()), (0, false), "all of it is in memory");
    program.most = 8;
    let ran = run(&program);
    assert_eq!(
        (ran.uncopied, ground.read("elsewhere/copy.txt").as_str()),
        (0, "one\ntwo\nthree\n")
    );
    let line = "head -c 300000000 /dev/zero; echo last";
    let mut program = limited(&ground, &["sh", "-c", line]);
    program.copy = Some(copy.clone());
    let ran = run(&program);
    let left_out = 300_000_005 - COPY;
    assert_eq!(ran.uncopied, left_out);
    let note = format!("\n[... {left_out} more bytes were left out ...]\n");
    assert_eq!(fs::metadata(&copy).unwrap().len(), COPY + note.len() as u64);
    assert!(fs::read(&copy).unwrap().ends_with(note.as_bytes()));
    let mut program = limited(&ground, &["touch", "ran"]);
    program.copy = Some(ground.path("nowhere/copy.txt"));
    let why = baton_runtime::sandbox::run(&program, &baton_runtime::sandbox::Interrupt::default());
    assert!(why.unwrap_err().contains("cannot keep the output"));
    assert!(!ground.path("project/ran").exists());
}
