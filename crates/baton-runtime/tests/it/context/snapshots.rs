//! An agent damages the user's files: the snapshot taken before restores them byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_runtime::load::Environment;
use baton_runtime::snapshot::Snapshots;
use baton_runtime::store::Disk;
use tempfile::TempDir;

fn project() -> TempDir {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    for (name, text) in [
        ("src/lib.rs", "fn add() {}\n"),
        ("src/deep/er/mod.rs", "// 深\n"),
        (".hidden", "dot\n"),
        (".gitignore", "target/\n*.log\n"),
        ("empty", ""),
        ("名字 with spaces.txt", "内容\n"),
        ("target/built", "ignored\n"),
        ("run.log", "ignored\n"),
        (".git/config", "[core]\n\tfsmonitor = touch canary\n"),
        (".baton/memory/plan.md", "the board\n"),
    ] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::write(root.join("bytes.bin"), (0..=255_u8).collect::<Vec<_>>()).unwrap();
    fs::write(root.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("src/lib.rs", root.join("link")).unwrap();
    std::os::unix::fs::symlink("/nowhere", root.join("dangling")).unwrap();
    folder
}

/// Every file with its kind, mode and content; without the board and git's own.
fn seen(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let inside = path.strip_prefix(root).unwrap().to_owned();
            if inside.starts_with(".baton")
                || inside.starts_with(".git") && inside != Path::new(".gitignore")
            {
                continue;
            }
            if metadata.is_dir() {
                open.push(path);
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.insert(inside, (0, target.to_string_lossy().into_owned().into_bytes()));
            } else {
                found.insert(
                    inside,
                    (metadata.permissions().mode() & 0o777, fs::read(&path).unwrap()),
                );
            }
        }
    }
    found
}

const DAMAGE: [&str; 20] = [
    "rm -rf src",
    "rm -f * .hidden 2>/dev/null; true",
    "echo broken > src/lib.rs",
    ": > src/lib.rs",
    "chmod 000 src/lib.rs; chmod 644 src/lib.rs; chmod 777 empty",
    "chmod -x run.sh",
    "mv src lib",
    "mv src/lib.rs src/main.rs",
    "rm link; ln -s /etc/passwd link",
    "rm link; echo file > link",
    "rm src/lib.rs; ln -s /etc/hostname src/lib.rs",
    "rm -r src/deep; echo file > src/deep",
    "rm empty; mkdir empty; echo inside > empty/inside",
    "rm -r src; ln -s /tmp src",
    "for n in 1 2 3 4 5 6 7 8 9; do echo $n > new$n; done",
    "mkdir -p a/b/c; echo x > a/b/c/d",
    "printf '\\377\\376' > '名字 with spaces.txt'",
    "cp bytes.bin b2; tr a-z A-Z < bytes.bin > b3; mv b3 bytes.bin",
    "rm .gitignore; touch unignored.log",
    "rm dangling; mkdir dangling",
];

fn names_in(mut snapshots: Snapshots) -> Vec<String> {
    snapshots.take().unwrap();
    snapshots.names().to_vec()
}

#[test]
fn twenty_kinds_of_damage_are_undone_byte_for_byte() {
    let outside = fs::read_dir("/tmp")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name() == "lib.rs")
        .count();
    for damage in DAMAGE {
        let folder = project();
        let root = folder.path();
        let before = seen(root);
        let mut snapshots = Snapshots::new(root, &root.join(".baton"), Disk::default());
        let id = snapshots.take().unwrap();
        assert!(
            Command::new("sh").args(["-c", damage]).current_dir(root).status().unwrap().success(),
            "{damage}"
        );
        snapshots.restore(&id).unwrap_or_else(|error| panic!("{damage}: {error}"));
        let after = seen(root);
        for (path, content) in &before {
            // Ignored files are not covered, and that is said; what is left of them is left alone.
            let is_lost = damage.starts_with("rm -f *") && path == Path::new("run.log");
            if !is_lost {
                assert_eq!(after.get(path), Some(content), "{damage}: {}", path.display());
            }
        }
        let extra: Vec<_> = after.keys().filter(|path| !before.contains_key(*path)).collect();
        assert!(
            extra.iter().all(|path| path.extension().is_some_and(|own| own == "log")),
            "{damage}: {extra:?}"
        );
        assert_eq!(snapshots.take().unwrap(), id, "{damage}: it is the same again");
        assert_eq!(
            fs::read_to_string(root.join(".git/config")).unwrap(),
            "[core]\n\tfsmonitor = touch canary\n"
        );
        assert!(!root.join("canary").exists());
    }
    let now = fs::read_dir("/tmp")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name() == "lib.rs")
        .count();
    assert_eq!(now, outside, "nothing was written through a link");
}

#[test]
fn a_snapshot_costs_only_what_changed_and_can_be_pruned() {
    let folder = project();
    let root = folder.path();
    let mut snapshots = Snapshots::new(root, &root.join(".baton"), Disk::default());
    let first = snapshots.take().unwrap();
    fs::write(root.join("src/lib.rs"), "fn add() { 1 }\n").unwrap();
    let second = snapshots.take().unwrap();
    assert_eq!(snapshots.changed(&first, &second).unwrap(), ["src/lib.rs"]);
    let (count, bytes) = snapshots.prune(&[second.clone()].into(), true).unwrap();
    assert_eq!((count, bytes > 0), (1, true));
    snapshots.prune(&[second.clone()].into(), false).unwrap();
    assert!(snapshots.restore(&first).is_err());
    fs::write(root.join("src/lib.rs"), "broken").unwrap();
    snapshots.restore(&second).unwrap();
    assert_eq!(fs::read_to_string(root.join("src/lib.rs")).unwrap(), "fn add() { 1 }\n");
}

fn git(root: &Path, args: &[&str]) {
    let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
    let done = Command::new("git").args(who).args(args).current_dir(root).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn with_git(root: &Path) -> Snapshots {
    let path = std::env::var_os("PATH").unwrap();
    let environment = Environment::of(&[("PATH", path.to_str().unwrap())]);
    Snapshots::new(root, &root.join(".baton"), Disk::default()).with_git(&environment)
}

#[test]
fn restoring_removes_no_file_that_the_older_snapshot_did_not_cover() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    git(root, &["init", "-q"]);
    for (name, text) in [
        (".gitignore", "*.env\n"),
        (".ignore", "data\n"),
        ("a.rs", "1\n"),
        ("local.env", "mine\n"),
        ("data", "mine\n"),
    ] {
        fs::write(root.join(name), text).unwrap();
    }
    git(root, &["add", "a.rs"]);
    let before = with_git(root).take().unwrap();
    // What was only ignored is tracked from here on.
    git(root, &["add", "-f", "local.env"]);
    fs::write(root.join("new.rs"), "2\n").unwrap();
    fs::write(root.join("a.rs"), "3\n").unwrap();
    with_git(root).restore(&before).unwrap();
    assert_eq!(fs::read_to_string(root.join("local.env")).unwrap(), "mine\n");
    assert_eq!(fs::read_to_string(root.join("data")).unwrap(), "mine\n");
    assert_eq!(fs::read_to_string(root.join("a.rs")).unwrap(), "1\n");
    assert!(!root.join("new.rs").exists());
}

#[test]
fn tracked_files_behind_a_link_are_not_the_projects() {
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().join("project");
    fs::create_dir_all(root.join("docs")).unwrap();
    fs::write(root.join("docs/x.md"), "x\n").unwrap();
    git(root, &["init", "-q"]);
    git(root, &["add", "docs/x.md"]);
    fs::rename(root.join("docs"), folder.path().join("shared")).unwrap();
    std::os::unix::fs::symlink("../shared", root.join("docs")).unwrap();
    let mut snapshots = with_git(root);
    snapshots.take().unwrap();
    let names = snapshots.names();
    assert_eq!(names, ["docs"]);
}

#[test]
fn ignore_rules_count_up_to_the_top_of_a_work_tree_that_knows_the_project() {
    let folder = tempfile::tempdir().unwrap();
    let (top, root) = (folder.path().join("repo"), folder.path().join("repo/app"));
    fs::create_dir_all(root.join("dist")).unwrap();
    fs::write(folder.path().join(".gitignore"), "*.rs\n").unwrap();
    fs::write(top.join(".gitignore"), "dist/\n").unwrap();
    for name in ["a.rs", "dist/x.js"] {
        fs::write(root.join(name), "1\n").unwrap();
    }
    git(&top, &["init", "-q"]);
    git(&top, &["add", "app/a.rs"]);
    fs::write(root.join("b.rs"), "2\n").unwrap();
    assert_eq!(names_in(with_git(&root)), ["a.rs", "b.rs"]);
    // A home folder under version control knows nothing of a project in it.
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("project");
    fs::create_dir_all(&project).unwrap();
    git(home.path(), &["init", "-q"]);
    fs::write(home.path().join(".gitignore"), "*\n").unwrap();
    fs::write(project.join("a.rs"), "1\n").unwrap();
    assert_eq!(names_in(with_git(&project)), ["a.rs"]);
}

/// Runs a command of an agent in the project.
fn agent(root: &Path, command: &str) {
    let done = Command::new("sh").args(["-c", command]).current_dir(root).output().unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
}

/// What a new ignore rule would hide is shown, brought back and removed.
#[test]
fn an_agents_new_ignore_rules_hide_nothing_from_a_snapshot() {
    let plants = [
        ("src/.gitignore", "printf '*\\n' > src/.gitignore"),
        (".gitignore", "printf '*\\n' > .gitignore"),
        (".gitignore", "printf 'src/\\n*.rs\\nnew*\\n' >> .gitignore"),
        ("src/.ignore", "printf '*\\n' > src/.ignore"),
        ("src/deep/.gitignore", "printf '/er\\n.gitignore\\n' > src/deep/.gitignore"),
        (".git/info/exclude", "mkdir -p .git/info; printf '*\\n' > .git/info/exclude"),
        ("evil/.gitignore", "mkdir evil; printf '*\\n' > evil/.gitignore; echo x > evil/payload"),
    ];
    let work = "echo broken > src/lib.rs; echo x > src/deep/er/new.rs; rm src/deep/er/mod.rs";
    for (plant, command) in plants {
        let folder = project();
        let root = folder.path();
        git(root, &["init", "-q"]);
        let before = seen(root);
        let mut snapshots = with_git(root);
        let id = snapshots.take().unwrap();
        agent(root, &format!("{command}; {work}"));
        let after = snapshots.take().unwrap();
        let changed = snapshots.changed(&id, &after).unwrap();
        let mut wanted = vec!["src/deep/er/mod.rs", "src/deep/er/new.rs", "src/lib.rs"];
        if !plant.starts_with(".git/") {
            wanted.push(plant);
        }
        if plant == "evil/.gitignore" {
            wanted.push("evil/payload");
        }
        wanted.sort_unstable();
        assert_eq!(changed, wanted, "{plant}");
        // The next stage: the rules are there by now, and still hide nothing.
        agent(root, "echo again > src/lib.rs");
        let again = snapshots.take().unwrap();
        assert_eq!(snapshots.changed(&after, &again).unwrap(), ["src/lib.rs"], "{plant}");
        // By another process, as `baton undo` does it.
        let mut undo = with_git(root);
        undo.restore(&id).unwrap();
        assert_eq!(seen(root), before, "{plant}");
        // What was there before can be had back, too.
        let kept = undo.kept().unwrap().to_owned();
        undo.restore(&kept).unwrap();
        assert_eq!(fs::read_to_string(root.join("src/lib.rs")).unwrap(), "again\n", "{plant}");
        assert_eq!(root.join("evil/payload").exists(), plant == "evil/.gitignore");
    }
}

/// Products of a build that a new rule names are not copied by the thousand; what was there stays
/// covered all the same.
#[test]
fn many_files_that_only_a_new_rule_ignores_are_reported_and_not_kept() {
    let folder = project();
    let root = folder.path();
    let mut snapshots = Snapshots::new(root, &root.join(".baton"), Disk::default());
    let id = snapshots.take().unwrap();
    let command = "printf 'node_modules/\\nsrc/\\n' >> .gitignore; mkdir node_modules; \
                   i=0; while [ $i -lt 1500 ]; do echo $i > node_modules/$i; i=$((i+1)); done; \
                   echo broken > src/lib.rs";
    agent(root, command);
    let after = snapshots.take().unwrap();
    assert_eq!(snapshots.changed(&id, &after).unwrap(), [".gitignore", "src/lib.rs"]);
    let lines = snapshots.skipped.lines().join("\n");
    assert!(lines.starts_with("1500 files or more") && lines.contains("node_modules/"), "{lines}");
    snapshots.restore(&id).unwrap();
    assert_eq!(fs::read_to_string(root.join("src/lib.rs")).unwrap(), "fn add() {}\n");
    // Nobody kept them: they stay.
    assert_eq!(fs::read_dir(root.join("node_modules")).unwrap().count(), 1_500);
}

#[test]
fn tracked_files_are_covered_though_a_rule_ignores_them_and_without_git_on_the_path() {
    for (is_linked, version) in [(false, "2"), (false, "4"), (true, "2"), (true, "4")] {
        let folder = project();
        let main = folder.path();
        git(main, &["init", "-q"]);
        git(main, &["config", "index.version", version]);
        fs::write(main.join("keep.log"), "kept\n").unwrap();
        fs::write(main.join("target/tracked"), "kept\n").unwrap();
        git(main, &["add", "-f", "keep.log", "target/tracked", "src", ".gitignore"]);
        git(main, &["commit", "-q", "-m", "x"]);
        let linked = folder.path().join("linked");
        let root = match is_linked {
            true => {
                git(main, &["worktree", "add", "-q", linked.to_str().unwrap()]);
                linked.as_path()
            }
            false => main,
        };
        // No variables at all: no git is found.
        let new = || {
            let board = root.join(".baton");
            Snapshots::new(root, &board, Disk::default()).with_git(&Environment::of(&[]))
        };
        let mut snapshots = new();
        let id = snapshots.take().unwrap();
        let names = snapshots.names();
        for name in ["keep.log", "target/tracked"] {
            assert!(names.iter().any(|own| own == name), "{is_linked} {version}: {names:?}");
        }
        assert!(!names.iter().any(|own| own == "target/built" || own == "run.log"), "{names:?}");
        agent(root, "rm keep.log; echo broken > target/tracked");
        let mut changed = new().restore(&id).unwrap();
        changed.sort();
        assert_eq!(changed, ["keep.log", "target/tracked"]);
        assert_eq!(fs::read_to_string(root.join("keep.log")).unwrap(), "kept\n");
        assert_eq!(fs::read_to_string(root.join("target/tracked")).unwrap(), "kept\n");
    }
}

#[test]
fn names_that_are_not_utf8_are_brought_back_byte_for_byte() {
    use std::os::unix::ffi::OsStrExt;
    let name = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    let names = [
        &b"caf\xe9.txt"[..],
        b"\xff\xfe",
        b"d\xe9p/x",
        // Looks like the escape of another one, and is not.
        b"caf\\xe9.txt",
        b"caf00e9.txt",
        "café.txt".as_bytes(),
        b"new\nline \xc3",
    ];
    let folder = project();
    let root = folder.path();
    git(root, &["init", "-q"]);
    fs::create_dir(root.join(name(b"d\xe9p"))).unwrap();
    for (number, own) in names.iter().enumerate() {
        fs::write(root.join(name(own)), format!("{number}\n")).unwrap();
    }
    std::os::unix::fs::symlink(name(b"\xff\xfe"), root.join(name(b"link\xff"))).unwrap();
    fs::write(root.join(name(b"tracked\xe9.log")), "kept\n").unwrap();
    git(root, &["add", "-A"]);
    git(root, &["add", "-f", "--", ":(glob)tracked*.log"]);
    let before = seen(root);
    let mut snapshots = with_git(root);
    let id = snapshots.take().unwrap();
    agent(
        root,
        "rm -rf caf* d*p link* tracked* new*; for own in *; do :; done; rm -f \"$(printf '\\377\\376')\"",
    );
    fs::write(root.join(name(b"added\xe9")), "x").unwrap();
    fs::write(root.join(name(b"caf\xe9.txt")), "changed").unwrap();
    let after = snapshots.take().unwrap();
    let changed = snapshots.changed(&id, &after).unwrap();
    // The link of the project goes, too.
    assert_eq!(changed.len(), names.len() + 4, "{changed:?}");
    assert_eq!(with_git(root).restore(&id).unwrap().len(), changed.len());
    assert_eq!(seen(root), before);
    assert_eq!(with_git(root).take().unwrap(), id);
}

/// As earlier versions wrote them: the files alone.
#[test]
fn an_older_manifest_is_read_and_restored() {
    let folder = project();
    let root = folder.path();
    let mut snapshots = Snapshots::new(root, &root.join(".baton"), Disk::default());
    let id = snapshots.take().unwrap();
    let store = root.join(".baton/snapshots");
    let text = fs::read_to_string(store.join(format!("{id}.json"))).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let older = value["files"].to_string();
    let older_id = blake3::hash(older.as_bytes()).to_hex()[..32].to_owned();
    fs::write(store.join(format!("{older_id}.json")), &older).unwrap();
    agent(root, "echo broken > src/lib.rs; echo x > new; echo x > new.log");
    let mut changed = snapshots.restore(&older_id).unwrap();
    changed.sort();
    assert_eq!(changed, ["new", "src/lib.rs"]);
    assert!(root.join("new.log").exists());
}

/// What cannot be looked at is not taken for removed, and is brought back where that is possible.
#[test]
fn files_and_folders_that_their_owner_cannot_read_do_not_stop_a_snapshot() {
    let folder = project();
    let root = folder.path();
    let before = seen(root);
    let mut snapshots = Snapshots::new(root, &root.join(".baton"), Disk::default());
    let id = snapshots.take().unwrap();
    agent(
        root,
        "echo broken > src/lib.rs; chmod 000 src empty; mkfifo pipe; rm run.sh; mkfifo run.sh",
    );
    let after = snapshots.take().unwrap();
    let changed = snapshots.changed(&id, &after).unwrap();
    let lines = snapshots.skipped.lines().join("\n");
    assert!(lines.contains("2 pipes") && lines.contains("pipe"), "{lines}");
    assert!(changed.contains(&"run.sh".to_owned()) && changed.contains(&"empty".to_owned()));
    // Root reads everything.
    if !rustix::process::geteuid().is_root() {
        assert!(lines.contains("cannot be read"), "{lines}");
        assert!(!changed.contains(&"src/deep/er/mod.rs".to_owned()), "{changed:?}");
    }
    snapshots.restore(&id).unwrap();
    fs::remove_file(root.join("pipe")).unwrap();
    assert_eq!(seen(root), before);
}
