//! What the write guard notices, by what a look tells and without reading everything each time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_runtime::guard::{Guard, Known};
use baton_runtime::store::Disk;

const PLAN: &str = "memory/dev_plan.md";

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    for name in ["memory/prompts", "workspace/one", "reports/archive", "state"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::write(root.join(PLAN), "the plan").unwrap();
    fs::write(root.join("memory/prompts/one.md"), "a prompt").unwrap();
    fs::write(root.join("reports/report_one.md"), "a report").unwrap();
    (folder, root)
}

/// A guard that has looked, at once or after the folders' times have settled.
fn guard(root: &Path, is_settled: bool) -> Guard {
    let mut guard = Guard::new(root);
    guard.look().unwrap();
    if is_settled {
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(guard.look().unwrap(), Vec::<String>::new());
        assert_eq!(guard.look().unwrap(), Vec::<String>::new());
    }
    guard
}

fn read(root: &Path, name: &str) -> Option<String> {
    fs::read_to_string(root.join(name)).ok()
}

#[test]
fn every_kind_of_change_is_noticed_and_undone() {
    type Change = fn(&Path);
    let changes: [(&str, Change, &[&str]); 8] = [
        (
            "a same-size edit whose time is set back",
            |root| {
                let path = root.join(PLAN);
                let time = fs::metadata(&path).unwrap().modified().unwrap();
                fs::write(&path, "THE PLAN").unwrap();
                File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            },
            &[PLAN],
        ),
        (
            "a new file",
            |root| fs::write(root.join("state/new.json"), "{}").unwrap(),
            &["state/new.json"],
        ),
        (
            "a new file in a new folder",
            |root| {
                fs::create_dir(root.join("workspace/two")).unwrap();
                fs::write(root.join("workspace/two/x.md"), "x").unwrap();
            },
            &["workspace/two/x.md"],
        ),
        (
            "a removed file",
            |root| fs::remove_file(root.join("memory/prompts/one.md")).unwrap(),
            &["memory/prompts/one.md"],
        ),
        (
            "a file under another name",
            |root| fs::rename(root.join(PLAN), root.join("memory/moved.md")).unwrap(),
            &[PLAN, "memory/moved.md"],
        ),
        (
            "a folder in place of another",
            |root| {
                fs::rename(root.join("memory/prompts"), root.join("aside")).unwrap();
                fs::create_dir(root.join("memory/prompts")).unwrap();
                fs::write(root.join("memory/prompts/one.md"), "A prompt").unwrap();
            },
            &["memory/prompts/one.md"],
        ),
        (
            "a link in place of a folder",
            |root| {
                fs::rename(root.join("reports"), root.join("aside")).unwrap();
                std::os::unix::fs::symlink(root.join("aside"), root.join("reports")).unwrap();
            },
            &["reports", "reports/report_one.md"],
        ),
        (
            "a link in place of a file",
            |root| {
                fs::rename(root.join(PLAN), root.join("aside")).unwrap();
                std::os::unix::fs::symlink(root.join("aside"), root.join(PLAN)).unwrap();
            },
            &[PLAN],
        ),
    ];
    for (what, change, names) in changes {
        for is_settled in [false, true] {
            let (_folder, root) = folder();
            let mut guard = guard(&root, is_settled);
            change(&root);
            let mut found = guard.restore(&Disk::default()).unwrap();
            found.sort();
            assert_eq!(found, names, "{what}, settled: {is_settled}");
            assert_eq!(read(&root, PLAN).unwrap(), "the plan", "{what}");
            assert_eq!(read(&root, "memory/prompts/one.md").unwrap(), "a prompt", "{what}");
            assert_eq!(read(&root, "reports/report_one.md").unwrap(), "a report", "{what}");
            assert_eq!(read(&root, "state/new.json"), None, "{what}");
            assert!(fs::symlink_metadata(root.join("reports")).unwrap().is_dir(), "{what}");
            assert_eq!(guard.restore(&Disk::default()).unwrap(), Vec::<String>::new(), "{what}");
        }
    }
}

#[test]
fn a_hundred_new_files_one_after_another_are_all_seen() {
    let (_folder, root) = folder();
    let mut guard = guard(&root, false);
    for number in 0..100 {
        let name = format!("workspace/one/{number}.md");
        fs::write(root.join(&name), "x").unwrap();
        assert_eq!(guard.look().unwrap(), std::slice::from_ref(&name));
        fs::remove_file(root.join(&name)).unwrap();
        assert_eq!(guard.look().unwrap(), [name]);
    }
}

#[test]
fn what_baton_wrote_is_known_unread_and_is_what_is_restored() {
    let (_folder, root) = folder();
    let mut guard = guard(&root, true);
    let disk = Disk::default();
    for text in ["a longer plan than before", "short"] {
        disk.replace(&root.join(PLAN), text.as_bytes()).unwrap();
        guard.wrote(PLAN, text.as_bytes()).unwrap();
        assert_eq!(read(&root, PLAN).unwrap(), text);
        assert_eq!(guard.unchanged(PLAN), Some(text.as_bytes()));
        assert!(matches!(guard.known(PLAN), Known::File { bytes, .. } if bytes == text.as_bytes()));
        assert_eq!(guard.restore(&disk).unwrap(), Vec::<String>::new());
    }
    fs::write(root.join(PLAN), "SHORT").unwrap();
    assert_eq!(guard.unchanged(PLAN), None);
    assert_eq!(guard.restore(&disk).unwrap(), [PLAN]);
    assert_eq!(read(&root, PLAN).unwrap(), "short");
}

#[test]
fn what_is_not_known_is_told_from_what_is_missing() {
    let (_folder, root) = folder();
    fs::write(root.join("elsewhere.md"), "not ours").unwrap();
    std::os::unix::fs::symlink(root.join("elsewhere.md"), root.join("memory/linked.md")).unwrap();
    let guard = guard(&root, false);
    assert!(matches!(guard.known("reports/report_two.md"), Known::Missing));
    assert!(matches!(guard.known("memory/linked.md"), Known::No));
    assert!(matches!(guard.known("reports/archive/x.md"), Known::No));
    assert!(matches!(guard.known("workspace/none/x.md"), Known::No));
    assert_eq!(guard.unchanged("memory/linked.md"), None);
}
