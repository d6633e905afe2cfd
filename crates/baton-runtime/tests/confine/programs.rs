//! What must still work, and what it costs.

use std::time::{Duration, Instant};

use baton_runtime::sandbox::{Confine, Interrupt};

use crate::ground::{Ground, run, spare_for};

/// A /tmp of its own, where nothing that it needs lies in the real one.
pub(crate) fn private_tmp() {
    let ground = Ground::inside(std::path::Path::new("/var/tmp"));
    let outside = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    let line =
        format!("echo x > /tmp/mine && test ! -e /tmp/{name} && echo $TMPDIR && cat /tmp/mine");
    assert_eq!(ground.shell(&line, ground.confine()), "/tmp\nx\n");
    assert_eq!(ground.read("temporary/mine"), "x\n");
    assert!(!std::path::Path::new("/tmp/mine").exists());
    // With its project in there it has to do with a folder.
    let ground = Ground::inside(std::path::Path::new("/tmp"));
    let said =
        ground.shell("echo x > $TMPDIR/mine; echo x > /tmp/mine || echo denied", ground.confine());
    assert!(said.starts_with("denied\n"), "{said}");
    assert_eq!(ground.read("temporary/mine"), "x\n");
}

pub(crate) fn ordinary() {
    let ground = Ground::new();
    let shell = |line: &str| ground.shell(line, ground.confine());
    shell(
        "echo x > /dev/null 2>&1; echo y 2> /dev/null; : < /dev/zero; head -c 3 /dev/urandom > r",
    );
    assert!(shell("ls /proc/self").contains("status"));
    assert!(shell("ls /proc | grep -c '^[0-9]'").trim().parse::<u32>().unwrap() < 10);
    assert!(shell("echo out > /dev/stdout; echo err > /dev/stderr").contains("out\nerr"));
    shell("f=$(mktemp) && echo x > $f && cat $f && rm $f && test -d \"$TMPDIR\"");
    shell("cat <<end > here\ntext\nend\n");
    assert!(shell("id -u").trim().parse::<u32>().unwrap() == rustix::process::geteuid().as_raw());
    shell(
        "git init -q sub 2>&1 && cd sub && echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm x && git gc -q && git fsck",
    );
    assert_eq!(shell("printf a | sed s/a/b/ | tr b c"), "c");
    shell("sh -c 'exit 3' || test $? = 3; (sleep 0.01 &) ; wait; kill -0 $$; nice true");
    if ground.run(&["python3", "-c", ""], Confine::Off).how == baton_runtime::sandbox::How::Exit(0)
    {
        let many = "import multiprocessing as m\nif __name__ == '__main__':\n with m.Pool(3) as p: print(sum(p.map(abs, range(-9, 1))))\n a, b = m.Pipe(); a.send(1); print(b.recv())";
        assert_eq!(ground.run(&["python3", "-c", many], ground.confine()).stdout.text(), "45\n1\n");
        let pty = "import pty, os; a, b = pty.openpty(); os.write(b, b'hi'); print(os.read(a, 2))";
        assert_eq!(ground.run(&["python3", "-c", pty], ground.confine()).stdout.text(), "b'hi'\n");
        let threads = "import threading as t, tempfile as f, asyncio as a\nx=t.Thread(target=print); x.start(); x.join()\nf.NamedTemporaryFile().write(b'x')\nprint(a.run(a.sleep(0.01, 7)))";
        assert_eq!(
            ground.run(&["python3", "-c", threads], ground.confine()).stdout.text(),
            "\n7\n"
        );
        println!("  python3: pools, pipes, terminals, threads");
    }
    ground.write(
        "project/Cargo.toml",
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    );
    ground.write("project/src/main.rs", "fn main() { println!(\"built\"); }\n");
    let mut program = ground.program(&["cargo", "run", "-q", "--offline"], ground.confine());
    let home = std::env::var_os("HOME").unwrap_or_default();
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let folder = std::path::Path::new(&home).join(folder);
        program.environment.entry(name.into()).or_insert(folder.into());
    }
    // Whoever built this test has one; whoever runs it may be somebody else.
    let outside = baton_runtime::sandbox::Program { confine: Confine::Off, ..program.clone() };
    let outside =
        baton_runtime::sandbox::run(&outside, &baton_runtime::sandbox::Interrupt::default());
    if outside.is_ok_and(|ran| ran.stdout.text() == "built\n") {
        std::fs::remove_dir_all(ground.path("project/target")).unwrap();
        let ran = run(&program);
        assert_eq!(ran.stdout.text(), "built\n", "{}", ran.stderr.text());
        println!("  cargo builds offline");
    }
}

/// Prints what a start costs.
pub(crate) fn cost() {
    let ground = Ground::new();
    for name in [".baton", ".git/hooks", ".git/info", ".git/modules", ".git/worktrees"] {
        std::fs::create_dir_all(ground.path("project").join(name)).unwrap();
    }
    ground.write("project/.git/config", "");
    let median = |confine: &dyn Fn() -> Confine| {
        let mut times: Vec<Duration> = (0..41)
            .map(|_| {
                let program = ground.program(&["true"], confine());
                let start = Instant::now();
                run(&program);
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[20].as_secs_f64() * 1e3
    };
    let off = median(&|| Confine::Off);
    let open = median(&|| ground.open());
    let closed = median(&|| ground.confine());
    let program = ground.program(&["true"], ground.confine());
    let mut times: Vec<Duration> = (0..41)
        .map(|_| {
            let spare = spare_for(&program);
            std::thread::sleep(Duration::from_millis(30));
            let start = Instant::now();
            assert!(spare.run(&program, &Interrupt::default()).is_some());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let spare = times[20].as_secs_f64() * 1e3;
    println!(
        "  `true`: {off:.1} ms as it is, {open:.1} ms open, {closed:.1} ms closed, {spare:.1} ms in a spare"
    );
}
