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
