//! A disk that is really full: the project and its blackboard are on a tmpfs of every size from 64 KiB
//! to one that is large enough. The error says so, what was there before can be read, and after the
//! disk has more room the run comes to the same blackboard.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use baton_runtime::drive;
use tempfile::TempDir;

use crate::agent::{self, FULL};
use crate::reference::{self, FAILED, FINISHED};
use crate::sweep::{self, among, check_same, each, is_part, undisturbed};

const KIB: u64 = 1024;
/// More than any run here takes.
const ROOMY: u64 = 32 * 1024 * KIB;
const HISTORY: &str = ".baton/memory/project_history.md";

/// A mount namespace of one's own, as root or, where that is allowed, as an ordinary user.
fn namespace() -> Option<&'static str> {
    let place = TempDir::new().unwrap();
    ["-m", "-rm"].into_iter().find(|flags| {
        let mut command = Command::new("unshare");
        command.args([flags, "mount", "-t", "tmpfs", "tmpfs"]).arg(place.path());
        command.output().is_ok_and(|output| output.status.success())
    })
}

/// This program again, in a namespace in which it may mount.
fn in_a_namespace(word: &str) {
    let Some(flags) = namespace() else {
        crate::not_run("neither root nor user namespaces: no tmpfs can be mounted");
        return;
    };
    let mut command = Command::new("unshare");
    command.arg(flags).arg(std::env::current_exe().unwrap()).args(["on-a-tmpfs", word]);
    assert!(command.status().unwrap().success(), "see above");
}

pub(crate) fn a_full_tmpfs_stops_and_loses_nothing() {
    in_a_namespace("script");
}

pub(crate) fn a_full_tmpfs_stops_an_agent_and_repeats_nothing() {
    in_a_namespace("agent");
}

/// What the namespace is for.
pub(crate) fn on_a_tmpfs(word: &str) {
    match word {
        "agent" => {
            let agent::Undisturbed { files, .. } = FULL.undisturbed();
            filled(
                &files,
                |folder, fault| FULL.child(folder, fault, 0),
                |folder, what| {
                    FULL.check(folder, &files, what);
                },
            );
        }
        _ => filled(
            &undisturbed().files,
            |folder, fault| sweep::child(folder, fault, 0),
            |folder, what| {
                let output = sweep::child(folder, "none", 0);
                assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
                check_same(folder, undisturbed(), what);
            },
        ),
    }
}

/// A folder whose project is on a disk of its own, as long as this lives.
struct Small {
    folder: TempDir,
}

impl Small {
    fn of(bytes: u64) -> Small {
        let small = Small { folder: reference::folder() };
        fs::create_dir(small.project()).unwrap();
        small.mount(&format!("size={bytes}"));
        small
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn mount(&self, options: &str) {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(self.project());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn grow(&self) {
        self.mount(&format!("remount,size={ROOMY}"));
    }

    fn used(&self) -> u64 {
        let found = rustix::fs::statvfs(self.project()).unwrap();
        (found.f_blocks - found.f_bfree) * found.f_frsize
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.project()).output();
    }
}

#[derive(Debug, Default)]
struct Count {
    without_a_board: u32,
    stopped: u32,
    finished: u32,
}

fn filled(
    expected: &BTreeMap<PathBuf, String>,
    child: impl Fn(&Path, &str) -> Output + Sync,
    check: impl Fn(&Path, &str) + Sync,
) {
    let roomy = Small::of(ROOMY);
    reference::make(roomy.folder.path());
    assert_eq!(child(roomy.folder.path(), "none").status.code(), Some(FINISHED));
    let needed = roomy.used() + 8 * KIB;
    let count = Mutex::new(Count::default());
    let sizes = among((64 * KIB..=needed).step_by(4 * KIB as usize), 13);
    each(&sizes, |size| {
        let what = format!("a disk of {} KiB", size / KIB);
        let disk = Small::of(*size);
        let folder = disk.folder.path();
        if let Err(error) = reference::try_make(folder) {
            assert!(error.contains("No space left on device"), "{what}: {error}");
            let left: Vec<_> = fs::read_dir(disk.project()).unwrap().map(Result::unwrap).collect();
            let is_left = |own: &fs::DirEntry| own.file_name() != "lib.rs";
            assert!(!left.iter().any(is_left), "{what}: {left:?} of a blackboard");
            count.lock().unwrap().without_a_board += 1;
            disk.grow();
            reference::make(folder);
        } else {
            // Once more without room, as a person would try it.
            for _ in 0..2 {
                let output = child(folder, "none");
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{what}: {said}");
                if output.status.code() == Some(FINISHED) {
                    count.lock().unwrap().finished += 1;
                    break;
                }
                assert_eq!(output.status.code(), Some(FAILED), "{what}: {said}");
                assert!(said.contains("No space left on device"), "{what}: {said}");
                can_be_read(folder, expected, &what);
                count.lock().unwrap().stopped += 1;
            }
            disk.grow();
        }
        check(folder, &what);
    });
    let count = count.into_inner().unwrap();
    assert!(is_part() || count.without_a_board > 0 && count.stopped > 4, "{count:?}");
    println!("{} disks of 64 to {} KiB: {count:?}", sizes.len(), needed / KIB);
}

/// What was written before the disk was full is there.
fn can_be_read(folder: &Path, expected: &BTreeMap<PathBuf, String>, what: &str) {
    let board = reference::open(folder);
    if let Some(run) = drive::last_run(&board).unwrap() {
        match drive::look(&board, &run) {
            Ok(_) | Err(drive::Error::NothingToResume) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
    let history = fs::read_to_string(folder.join("project").join(HISTORY)).unwrap_or_default();
    assert!(expected[Path::new(HISTORY)].starts_with(&history), "{what}: {history}");
}
