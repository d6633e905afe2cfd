//! Sandboxes that are made before they are needed.

use std::fs;
use std::process::{Command, Stdio};

use baton_runtime::sandbox::{self, Confine, How, Interrupt, Program, Spare};

use crate::files::prepared;
use crate::ground::{Ground, alive, run, spare_for, tree, until};

/// The launchers that a process of ours started and that are still there.
fn launchers(starter: u32) -> Vec<String> {
    alive(&format!("baton-sandbox {starter} "))
}

/// Comes back when the last process of the only spare is there, which is started when all else is
/// done.
fn until_made(starter: u32) {
    until("it is not made", || launchers(starter).len() >= 3);
}

fn made(program: &Program) -> Spare {
    let spare = spare_for(program);
    until_made(std::process::id());
    spare
}

type Change = fn(&Ground);

pub(crate) fn used() {
    let changes: [(&str, Change); 10] = [
        ("nothing", |_| {}),
        ("a file is written", |ground| ground.write("project/src/new.rs", "")),
        ("a folder is made", |ground| fs::create_dir(ground.path("project/new")).unwrap()),
        ("git works", |ground| {
            let line = "git add -A src && git -c user.name=a -c user.email=a@b commit -qm x";
            ground.shell(line, Confine::Off);
        }),
        ("a setting is changed where it is", |ground| {
            ground.write("project/.git/config", "[user]\nname = me\n");
        }),
        ("settings that git wrote", |ground| {
            drop(ground.shell("git config user.name me", Confine::Off));
        }),
        ("hooks", |ground| replaced(ground, ".git/hooks")),
        ("another command ran", |ground| drop(ground.shell("mkdir other", ground.confine()))),
        ("a key", |ground| ground.write("home/.docker/config.json", "sesame")),
        ("a key that was replaced", |ground| {
            ground.write("home/new", "sesame");
            fs::rename(ground.path("home/new"), ground.path("home/.netrc")).unwrap();
        }),
    ];
    for (name, change) in changes {
        let ground = prepared(true);
        let line = "echo x > begun; cat ~/.netrc ~/.docker/config.json; exit 0";
        let program = ground.program(&["sh", "-c", line], ground.confine());
        let spare = made(&program);
        change(&ground);
        let ran = spare.run(&program, &Interrupt::default());
        let ran = ran.unwrap_or_else(|| panic!("{name}")).unwrap();
        assert_eq!((ran.how, ran.stdout.text().as_str()), (How::Exit(0), ""), "{name}");
        assert_eq!(ground.read("project/begun"), "x\n", "{name}");
        assert_eq!(launchers(std::process::id()), [""; 0], "{name}");
    }
}

/// Moves a path away and puts a copy in its place, as a program does that never leaves half a file.
fn replaced(ground: &Ground, name: &str) {
    let path = ground.path(&format!("project/{name}"));
    let line = format!("cp -r {0} {0}.new && mv {0} ../elsewhere && mv {0}.new {0}", name);
    assert!(path.exists());
    ground.shell(&line, Confine::Off);
}

pub(crate) fn thrown_away() {
    let changes: [(&str, Change); 6] = [
        ("the repository", |ground| replaced(ground, ".git")),
        ("the blackboard", |ground| replaced(ground, ".baton")),
        ("a stand-in", |ground| {
            let path = ground.path("project/.baton");
            fs::remove_dir(&path).unwrap();
            fs::create_dir(&path).unwrap();
        }),
        ("a stand-in that became a link", |ground| {
            fs::remove_dir(ground.path("project/.baton")).unwrap();
            let path = ground.path("project/.baton");
            std::os::unix::fs::symlink(ground.path("elsewhere"), path).unwrap();
        }),
        ("the temporary folder", |ground| {
            fs::rename(ground.path("temporary"), ground.path("temporary.old")).unwrap();
            fs::create_dir(ground.path("temporary")).unwrap();
        }),
        ("the project", |ground| {
            fs::rename(ground.path("project"), ground.path("project.old")).unwrap();
            let line = "cp -r ../project.old/. .";
            fs::create_dir(ground.path("project")).unwrap();
            ground.shell(line, Confine::Off);
        }),
    ];
    for (name, change) in changes {
        let ground = prepared(true);
        ground.write("home/.netrc", "sesame");
        if name.starts_with("a stand-in") {
            fs::remove_dir_all(ground.path("project/.baton")).unwrap();
        }
        let line = "echo x >> begun; echo x >> .git/config; echo x > .git/hooks/x; echo x > .baton/x; \
            cat ~/.docker/config.json ~/.netrc; exit 0";
        let program = ground.program(&["sh", "-c", line], ground.confine());
        let spare = made(&program);
        change(&ground);
        assert!(spare.run(&program, &Interrupt::default()).is_none(), "{name}: it was used");
        assert!(!ground.path("project/begun").exists(), "{name}: the program was started");
        assert_eq!(launchers(std::process::id()), [""; 0], "{name}");
        // The control: one that is made now does what the other would not have done.
        if name != "a stand-in that became a link" {
            let before = tree(&ground.path("project/.git"));
            let ran = run(&program);
            assert_eq!(ground.read("project/begun"), "x\n", "{name}: {}", ran.stderr.text());
            assert!(!ran.stdout.text().contains("sesame"), "{name}");
            assert!(!ground.path("project/.baton/x").exists(), "{name}");
            assert_eq!(before, tree(&ground.path("project/.git")), "{name}");
        }
    }
    mounted();
    println!("  {} changes after which it is not used", changes.len());
    other_programs();
}

/// Only root can try.
fn mounted() {
    let ground = prepared(true);
    let program = ground.program(&["sh", "-c", "echo x > begun"], ground.confine());
    let spare = made(&program);
    let at = ground.path("elsewhere");
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&at).output();
    if mount.is_ok_and(|output| output.status.success()) {
        let ran = spare.run(&program, &Interrupt::default());
        assert!(Command::new("umount").arg(&at).status().unwrap().success());
        assert!(ran.is_none() && !ground.path("project/begun").exists());
    }
}

/// It is for programs of its kind alone.
fn other_programs() {
    let ground = prepared(true);
    let program = ground.program(&["sh", "-c", "echo x > begun"], ground.confine());
    let mut network = ground.closed();
    network.network = true;
    let mut variables = program.environment.clone();
    variables.insert("NEW".into(), "x".into());
    // Longer than a pipe holds.
    let long = format!(": {}; echo x > begun", "x".repeat(100_000));
    let long = ["sh".into(), "-c".into(), long.into()].to_vec();
    for (name, other) in [
        ("network", Program { confine: Confine::Closed(Box::new(network)), ..program.clone() }),
        ("open", Program { confine: ground.open(), ..program.clone() }),
        ("off", Program { confine: Confine::Off, ..program.clone() }),
        ("variables", Program { environment: variables, ..program.clone() }),
        ("folder", Program { folder: ground.path("project/src"), ..program.clone() }),
        ("mark", Program { mark: "other".to_owned(), ..program.clone() }),
        ("words", Program { argv: long, ..program.clone() }),
    ] {
        let ran = made(&program).run(&other, &Interrupt::default());
        let begun = ["project/begun", "project/src/begun"].map(|name| ground.path(name));
        match ran {
            // The launcher read the first of them while the last were written.
            Some(ran) if name == "words" => {
                assert_eq!(ran.unwrap().how, How::Exit(0), "{name}");
                fs::remove_file(&begun[0]).unwrap();
            }
            ran => assert!(ran.is_none(), "{name}: it was used"),
        }
        assert!(!begun.iter().any(|path| path.exists()), "{name}: the program was started");
        let ran = sandbox::run_in(Some(made(&program)), &other, &Interrupt::default()).unwrap();
        assert_eq!(ran.how, How::Exit(0), "{name}");
        assert!(begun.iter().any(|path| fs::remove_file(path).is_ok()), "{name}");
    }
    assert!(Spare::of(&Program { confine: ground.open(), ..program.clone() }).is_none());
    // One that was killed meanwhile is no reason not to run.
    let spare = made(&program);
    let pids = launchers(std::process::id());
    assert!(!pids.is_empty());
    for line in &pids {
        // With one of them its children end: some may be gone already.
        let pid = line.split(' ').next().unwrap();
        Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status().unwrap();
    }
    let ran = sandbox::run_in(Some(spare), &program, &Interrupt::default()).unwrap();
    assert_eq!((ran.how, ground.read("project/begun").as_str()), (How::Exit(0), "x\n"));
}

pub(crate) fn unused() {
    let ground = prepared(false);
    let before = tree(ground.folder.path());
    let program = ground.program(&["sh"], ground.confine());
    drop(spare_for(&program));
    drop(made(&program));
    assert_eq!(launchers(std::process::id()), [""; 0]);
    assert_eq!(before, tree(ground.folder.path()));
    // The thread that made it ends.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| made(&program));
        let _spare = thread.join().unwrap();
        until("it outlives its thread", || launchers(std::process::id()).is_empty());
    });
    // Baton is killed.
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "spare", ""])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    until_made(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    until("it outlives Baton", || launchers(child.id()).is_empty());
}

/// The same open files, variables, limits and processes, whether it was made before or not.
pub(crate) fn unseen() {
    let ground = prepared(true);
    let line = "ls /proc/self/fd | wc -l; set -- /proc/[0-9]*; echo $#; env | grep -v BATON_PROCESS | sort; \
        ulimit -a; pwd; grep -E 'Seccomp|NoNewPrivs|Cap|Sig(Blk|Ign)' /proc/self/status; readlink /proc/self/fd/*; \
        cat; cut -d' ' -f4- /proc/self/mountinfo";
    let program = ground.program(&["sh", "-c", line], ground.confine());
    let said = |ran: sandbox::Ran| {
        let text = ran.stdout.text();
        let is_own = |line: &&str| !line.contains("pipe:[") && !line.contains("/proc/");
        text.lines().filter(is_own).map(str::to_owned).collect::<Vec<_>>()
    };
    let fresh = said(sandbox::run(&program, &Interrupt::default()).unwrap());
    let spare = made(&program).run(&program, &Interrupt::default()).unwrap();
    assert_eq!(said(spare.unwrap()), fresh);
    assert!(fresh.len() > 30, "{fresh:?}");
}
