//! Views: programs change what they see, and the project stays as it is.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use baton_runtime::beneath::Root;
use baton_runtime::load::Environment;
use baton_runtime::sandbox::{Confine, How, Interrupt, Program, Spare};
use baton_runtime::view::{View, Views};

use crate::ground::{Ground, run, tree};

/// A project with everything that a view has to show: files, links, git's folder, ignored files,
/// the blackboard, names with spaces and characters of mount options.
fn project() -> Ground {
    let ground = Ground::new();
    ground.write("project/src/lib.rs", "first\n");
    ground.write("project/a, b:c \\d/空 格.txt", "names\n");
    ground.write("project/run.sh", "#!/bin/sh\necho ran\n");
    fs::set_permissions(ground.path("project/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("src/lib.rs", ground.path("project/link")).unwrap();
    ground.write("project/.git/objects/aa/1", "object");
    ground.write("project/.git/HEAD", "ref: refs/heads/main\n");
    ground.write("project/target/built", "built\n");
    ground.write("project/.baton/memory/notes.md", "notes\n");
    ground
}

const FILES: [&str; 4] = ["src/lib.rs", "a, b:c \\d/空 格.txt", "run.sh", "link"];

fn views(ground: &Ground) -> Views {
    let home = ground.path("home");
    let environment = Environment::of(&[("HOME", home.to_str().unwrap())]);
    Views::new(&ground.path("project"), &ground.path("project/.baton"), "mark", &environment)
}

fn opened(ground: &Ground, name: &str) -> View {
    views(ground).open(name, Some(&FILES.map(str::to_owned))).unwrap()
}

fn closed(ground: &Ground) -> Confine {
    let board = ground.path("project/.baton");
    Confine::Closed(Box::new(ground.closed().in_view(&board)))
}

fn program(ground: &Ground, view: &View, line: &str, confine: Confine) -> Program {
    let program = ground.program(&["sh", "-c", line], confine);
    Program { folder: view.seen().to_owned(), within: view.within(), ..program }
}

fn shell(ground: &Ground, view: &View, line: &str) -> String {
    let ran = run(&program(ground, view, line, closed(ground)));
    let said = format!("{}{}", ran.stdout.text(), ran.stderr.text());
    assert_eq!(ran.how, How::Exit(0), "{line}: {said}");
    said
}

fn root(view: &View) -> Root {
    Root::reached(view.reached(), view.seen().to_owned(), &[]).unwrap()
}

fn read(view: &View, name: &str) -> String {
    fs::read_to_string(root(view).access().join(name)).unwrap()
}

/// Everything that a stage does in a view, seen by commands, spares, file tools and open programs.
pub(crate) fn one_view() {
    let ground = project();
    let before = tree(&ground.path("project"));
    let view = opened(&ground, "one");
    assert_eq!(view.notice(), None, "this machine gives no overlay");
    shell(&ground, &view, "echo more >> src/lib.rs; echo new > new; rm run.sh; mv target built");
    assert_eq!(read(&view, "src/lib.rs"), "first\nmore\n");
    assert_eq!(read(&view, "new"), "new\n");
    assert!(root(&view).read("run.sh").is_err());
    assert_eq!(read(&view, "built/built"), "built\n");
    // A sandbox that is made beforehand sees what is written after it was made.
    let spare = Spare::of(&program(&ground, &view, ":", closed(&ground))).unwrap();
    shell(&ground, &view, "echo later > later");
    let line = program(&ground, &view, "cat later; echo spare > by-spare", closed(&ground));
    let ran = spare.run(&line, &Interrupt::default()).expect("it fits").unwrap();
    assert_eq!((ran.how, ran.stdout.text()), (How::Exit(0), "later\n".to_owned()));
    // An agent program, with the user's own rights.
    let line = program(&ground, &view, "cat by-spare new; echo open > by-open", ground.open());
    let ran = run(&line);
    assert_eq!(ran.stdout.text(), "spare\nnew\n", "{}", ran.stderr.text());
    assert_eq!(shell(&ground, &view, "cat by-open"), "open\n");
    // Git's folder can be destroyed, the blackboard cannot.
    shell(
        &ground,
        &view,
        "rm -rf .git/objects; ! test -e .git/objects/aa; cat .baton/memory/notes.md",
    );
    for confine in [closed(&ground), ground.open()] {
        let ran = run(&program(&ground, &view, "echo x >> .baton/memory/notes.md", confine));
        assert_ne!(ran.how, How::Exit(0));
    }
    assert_eq!(tree(&ground.path("project")), before);
    view.remove();
    assert_eq!(tree(&ground.path("project")), before);
    let left = fs::read_dir(ground.path("home/.local/state/baton/views/mark")).unwrap().flatten();
    let left: Vec<String> = left.map(|own| own.file_name().into_string().unwrap()).collect();
    assert!(!left.contains(&"one".to_owned()), "{left:?}");
}

/// The user edits while a view is in use: the edit stays, and the view does not change.
pub(crate) fn edits() {
    let ground = project();
    let view = opened(&ground, "edits");
    ground.write("project/src/lib.rs", "edited by the user\n");
    fs::remove_file(ground.path("project/run.sh")).unwrap();
    assert_eq!(shell(&ground, &view, "cat src/lib.rs; ./run.sh"), "first\nran\n");
    assert_eq!(read(&view, "src/lib.rs"), "first\n");
    view.remove();
    assert_eq!(ground.read("project/src/lib.rs"), "edited by the user\n");
    // The next view shows the project as it is by then.
    let view = opened(&ground, "next");
    assert_eq!(shell(&ground, &view, "cat src/lib.rs; ls"), {
        "edited by the user\na, b:c \\d\nlink\nsrc\ntarget\n"
    });
    view.remove();
}

/// Times, modes and links are those of the project, so that nothing is built again.
pub(crate) fn same_files() {
    let ground = project();
    let view = opened(&ground, "same");
    let list = |folder: &Path| {
        let own = |name: &&str| {
            let own = fs::symlink_metadata(folder.join(name)).unwrap();
            (own.mode(), own.mtime(), own.mtime_nsec(), own.len(), own.uid(), own.gid())
        };
        FILES.iter().chain(&["target/built", ".git/HEAD"]).map(own).collect::<Vec<_>>()
    };
    assert_eq!(list(&root(&view).access()), list(&ground.path("project")));
    let line = "find . -path ./.baton -prune -o -print | LC_ALL=C sort";
    let inside = shell(&ground, &view, line);
    assert_eq!(inside, ground.shell(line, Confine::Off));
    view.remove();
}

/// A view of a process that is gone is found again, with what was written in it.
pub(crate) fn found_again() {
    let ground = project();
    let view = opened(&ground, "again");
    shell(&ground, &view, "echo kept > kept; rm -r target; mkdir -m 0 shut");
    drop(view);
    let view = opened(&ground, "again");
    assert_eq!(read(&view, "kept"), "kept\n");
    assert!(!root(&view).access().join("target").exists());
    drop(view);
    // Views that are not wanted any more go, also where nobody may read their folders.
    let others = views(&ground);
    others.sweep("another");
    let view = opened(&ground, "again");
    assert!(!root(&view).access().join("kept").exists());
    drop(view);
    others.remove_all();
    let all = ground.path("home/.local/state/baton/views");
    assert_eq!(fs::read_dir(&all).unwrap().count(), 0);
    // So do those of a blackboard that is gone.
    drop(opened(&ground, "again"));
    fs::remove_dir_all(ground.path("project/.baton")).unwrap();
    others.sweep_abandoned();
    assert_eq!(fs::read_dir(&all).unwrap().count(), 0);
}

/// Two processes at the same time: each has its own files.
pub(crate) fn two_views() {
    let ground = project();
    let (one, two) = (opened(&ground, "first"), opened(&ground, "second"));
    shell(&ground, &one, "echo one > src/lib.rs");
    shell(&ground, &two, "cat src/lib.rs; echo two > src/lib.rs");
    assert_eq!((read(&one, "src/lib.rs"), read(&two, "src/lib.rs")), {
        ("one\n".to_owned(), "two\n".to_owned())
    });
    one.remove();
    two.remove();
    assert_eq!(ground.read("project/src/lib.rs"), "first\n");
}

/// Where there is no overlay, a copy takes the place of the project.
pub(crate) fn copied() {
    let ground = project();
    let before = tree(&ground.path("project"));
    for name in ["lower", "upper", "work"] {
        fs::create_dir_all(ground.path("elsewhere").join(name)).unwrap();
    }
    fs::create_dir_all(ground.path("home/.local/state")).unwrap();
    // The state folder is an overlay itself, and no overlay takes another one for its changes.
    let line = "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work,userxattr \
        ../home/.local/state && exec \"$1\" without-an-overlay \"$2\"";
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", line, "sh"]).arg(own).arg(ground.folder.path());
    let output = command.current_dir(ground.path("elsewhere")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(tree(&ground.path("project")), before);
    // Nothing of the copy is left.
    assert!(!ground.path("elsewhere/upper/baton/views/mark/copied").exists());
}

/// The same, as the process for which there is no overlay.
pub(crate) fn without_an_overlay(folder: &str) {
    let ground = Ground::at(Path::new(folder));
    let view = opened(&ground, "copied");
    let notice = view.notice().expect("it is reported");
    assert!(notice.contains("private copy") && notice.contains("overlay"), "{notice}");
    shell(&ground, &view, "./run.sh; echo x > src/lib.rs; rm -rf .git target");
    assert_eq!(read(&view, "src/lib.rs"), "x\n");
    assert_eq!(ground.read("project/src/lib.rs"), "first\n");
    assert_eq!(shell(&ground, &view, "cat .baton/memory/notes.md"), "notes\n");
    // An interrupted stage finds it again.
    drop(view);
    let view = opened(&ground, "copied");
    assert_eq!(read(&view, "src/lib.rs"), "x\n");
    view.remove();
}

/// The whole file system of the view is the usual one but for the project, and no attack leads out.
pub(crate) fn attacks() {
    let ground = project();
    let before = tree(&ground.path("project"));
    let view = opened(&ground, "attacks");
    let project = ground.path("project");
    let project = project.to_str().unwrap();
    for line in [
        format!("umount {project}; umount -l {project}; mount --bind /tmp {project}"),
        "for d in /proc/[0-9]*/root; do echo x > $d/tmp/x; done".to_owned(),
        format!("cd /; mv {project} {project}2; rm -rf {project}/../home"),
        "echo x > ../elsewhere/x; ln -s ../../elsewhere out; echo x > out/x".to_owned(),
        "find / -xdev -name upper -path '*views*' 2>/dev/null | head -1 | xargs -r touch"
            .to_owned(),
        "nsenter -t 1 -m true; unshare -m true; unshare -rm true".to_owned(),
    ] {
        run(&program(&ground, &view, &line, closed(&ground)));
    }
    assert_eq!(fs::read_dir(ground.path("elsewhere")).unwrap().count(), 0);
    assert!(ground.path("home").exists());
    assert_eq!(shell(&ground, &view, "cat src/lib.rs"), "first\n");
    view.remove();
    assert_eq!(tree(&ground.path("project")), before);
}
