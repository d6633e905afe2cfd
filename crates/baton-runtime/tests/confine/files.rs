//! What must not be touched, there or not: tried in every way that we know.

use std::fs;
use std::sync::Arc;

use baton_runtime::sandbox::{Confine, How};

use crate::ground::{Ground, run, tree};

/// Baton's state, and what makes git run something.
const INSIDE: [&str; 23] = [
    ".baton",
    ".baton/baton.toml",
    ".baton/memory/dev_plan.md",
    ".baton/state/run.lock",
    ".baton/journal/run-0001/000001.log",
    ".baton/reports/report.md",
    ".baton/pack/pack.toml",
    ".git/HEAD",
    ".git/index",
    ".git/packed-refs",
    ".git/objects/aa/1",
    ".git/refs/heads/other",
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/hooks/post-checkout",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/info/attributes",
    ".git/info/exclude",
    ".git/modules/sub/config",
    ".git/worktrees/other/commondir",
    ".git/worktrees/other/config.worktree",
];

/// What runs when a person logs in or works.
const OUTSIDE: [&str; 10] = [
    "home/.bashrc",
    "home/.profile",
    "home/.zshrc",
    "home/.gitconfig",
    "home/.vimrc",
    "home/.config/baton/baton.toml",
    "home/.ssh/authorized_keys",
    "home/.local/bin/ls",
    "home/.cargo/config.toml",
    "elsewhere/neighbour.txt",
];

fn targets() -> Vec<String> {
    let inside = INSIDE.iter().map(|name| format!("project/{name}"));
    inside.chain(OUTSIDE.map(str::to_owned)).collect()
}

/// A repository with nothing that is not needed in it, and every target where `there`.
pub(crate) fn prepared(there: bool) -> Ground {
    let ground = Ground::new();
    ground.shell("git init -q . && rm -rf .git/hooks .git/info", Confine::Off);
    ground.write("project/src/lib.rs", "fn add() {}\n");
    if there {
        for name in targets() {
            let is_folder = [".baton", "hooks"].iter().any(|end| name.ends_with(end));
            match name.as_str() {
                _ if is_folder => fs::create_dir_all(ground.path(&name)).unwrap(),
                "project/.git/config" | "project/.git/HEAD" | "project/.git/index" => {}
                "project/.git/commondir" => ground.write(&name, ".\n"),
                "project/.git/packed-refs" => ground.write(&name, "# pack-refs with: \n"),
                "project/.git/refs/heads/other" => ground.write(&name, "ref: refs/heads/main\n"),
                _ => ground.write(&name, "# mine\n"),
            }
        }
    } else {
        fs::remove_file(ground.path("project/.git/config")).unwrap();
        fs::create_dir_all(ground.path("home/.config")).unwrap();
    }
    ground
}

pub(crate) fn protected() {
    let mut tries = 0;
    for there in [true, false] {
        for name in targets() {
            // The attack works where nothing stops it, or it says nothing.
            let ground = prepared(there);
            let path = ground.path(&name);
            let path = path.to_str().unwrap();
            let (_, said) = ground.probe(&["attack", path, "."], Confine::Off);
            assert!(said.contains("succeeded: "), "{name}, there: {there}: {said}");
            let ground = prepared(there);
            let path = ground.path(&name);
            let before = tree(ground.folder.path());
            let words = ["attack", path.to_str().unwrap(), "."];
            let (how, said) = ground.probe(&words, ground.confine());
            assert!(
                how == How::Exit(0) && !said.contains("succeeded"),
                "{name}, there: {there}: {how:?} {said}"
            );
            tries += said.lines().filter(|line| line.starts_with("denied")).count();
            let after = tree(ground.folder.path());
            assert_eq!(before, after, "{name}, there: {there}");
        }
    }
    println!("  {} targets, there and not: {tries} tries, none succeeded", targets().len());
    works(&Ground::new());
}

/// Work in the project, and all that only looks at the repository.
fn works(ground: &Ground) {
    let line = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm one";
    ground.write("project/src/lib.rs", "old\n");
    ground.shell(line, Confine::Off);
    let line = "echo '// safe' >> src/lib.rs && mkdir -p a/b && echo x > a/b/c && mv a/b a/d && ln a/d/c a/e \
        && rm src/lib.rs && echo new > src/lib.rs && chmod 600 a/e && git status --short && git diff \
        && git log --format=%s && git show HEAD:src/lib.rs > src/old.rs && git blame HEAD -- src/lib.rs";
    let said = ground.shell(line, ground.confine());
    assert!(said.contains("?? a/") && said.contains("+new") && said.contains("one"), "{said}");
    assert_eq!(ground.read("project/src/lib.rs"), "new\n");
    assert_eq!(ground.read("project/src/old.rs"), "old\n");
    let ran = ground.run(&["git", "stash"], ground.confine());
    assert_ne!(ran.how, How::Exit(0), "{}", ran.stdout.text());
    assert_eq!(ground.read("project/src/lib.rs"), "new\n", "git lost the change");
}

/// They are on disk only while a program needs them, whoever else needs them at the same time.
pub(crate) fn stand_ins() {
    let ground = Arc::new(prepared(false));
    let before = tree(ground.folder.path());
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let ground = Arc::clone(&ground);
            std::thread::spawn(move || {
                let line = format!("sleep 0.{number}; mkdir .git/hooks .baton; echo x > .git/config; sleep 0.2; rmdir .git/hooks; echo x > .git/hooks/x; git status --short >&2");
                let ran = run(&ground.program(&["sh", "-c", &line], ground.confine()));
                assert!(!ran.stderr.text().contains("fatal"), "{}", ran.stderr.text());
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(before, tree(ground.folder.path()));
    // Where there is no repository, none can be planted.
    let ground = Ground::new();
    let line =
        "git init . 2>&1; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; ls -la .git; exit 0";
    let said = ground.shell(line, ground.confine());
    assert!(!ground.path("project/.git").exists(), "{said}");
    // A file that points to one stays what it is.
    ground.write("project/.git", "gitdir: ../elsewhere\n");
    let before = tree(ground.folder.path());
    let path = ground.path("project/.git");
    let (_, said) = ground.probe(&["attack", path.to_str().unwrap(), "."], ground.confine());
    assert!(!said.contains("succeeded"), "{said}");
    assert_eq!(before, tree(ground.folder.path()));
}

pub(crate) fn hidden() {
    let ground = prepared(true);
    let secrets = [
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".gnupg/key",
        ".netrc",
        ".config/baton/baton.toml",
        ".codex/auth.json",
    ];
    for name in secrets {
        ground.write(&format!("home/{name}"), "sesame");
    }
    ground.write("home/.gitconfig", "[user]\nname = visible\n");
    let look = "cat ~/.ssh/* ~/.aws/* ~/.gnupg/* ~/.netrc ~/.config/baton/* ~/.codex/* 2>/dev/null; cat ~/.gitconfig; \
        cat /proc/1/root$HOME/.netrc /proc/*/cwd/../home/.netrc 2>/dev/null; umount ~/.ssh 2>/dev/null && cat ~/.ssh/*; exit 0";
    let said = ground.shell(look, Confine::Off);
    assert!(said.matches("sesame").count() >= 6, "{said}");
    let said = ground.shell(look, ground.confine());
    assert!(!said.contains("sesame") && said.contains("visible"), "{said}");
}

pub(crate) fn open() {
    for there in [".baton", ".baton/memory/dev_plan.md"] {
        let ground = prepared(true);
        let path = ground.path(&format!("project/{there}"));
        let before = tree(&ground.path("project/.baton"));
        let (_, said) = ground.probe(&["attack", path.to_str().unwrap(), "."], ground.open());
        assert!(!said.contains("succeeded"), "{there}: {said}");
        assert_eq!(before, tree(&ground.path("project/.baton")));
        // The mount cannot be taken away either, not even by root.
        let line = "umount .baton; mount -o remount,rw .baton; unshare -Urm umount .baton; \
            unshare -Urm sh -c 'mount -o remount,rw,bind .baton; echo x > .baton/baton.toml'; echo x > .baton/baton.toml; exit 0";
        ground.shell(line, ground.open());
        assert_eq!(before, tree(&ground.path("project/.baton")));
        // All the rest is as without a sandbox.
        ground.shell(
            "echo x > ../home/.bashrc && echo y > /dev/null && ls /proc/self/fd >&2 && rm -r .git",
            ground.open(),
        );
        assert_eq!(ground.read("home/.bashrc"), "x\n");
    }
}
