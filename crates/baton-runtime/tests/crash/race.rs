//! One writer: races, a holder that sleeps, a lock that lies, a lock that was taken away.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::reference::{FINISHED, HELD};
use crate::sweep::{check_same, child, command, fresh, seeds, undisturbed};

pub(crate) fn of_many_processes_one_writes() {
    let expected = undisturbed();
    let races = seeds(24, 1_000);
    for race in &races {
        let folder = fresh();
        let many = 2 + usize::try_from(race % 7).unwrap();
        let children: Vec<_> = (0..many)
            .map(|_| {
                let path = folder.path().to_owned();
                std::thread::spawn(move || child(&path, "none", 0))
            })
            .collect();
        let outputs: Vec<Output> =
            children.into_iter().map(|child| child.join().unwrap()).collect();
        let with_code = |code| outputs.iter().filter(move |own| own.status.code() == Some(code));
        assert!(with_code(FINISHED).count() >= 1, "{outputs:?}");
        assert_eq!(with_code(FINISHED).count() + with_code(HELD).count(), many, "{outputs:?}");
        for loser in with_code(HELD) {
            let said = String::from_utf8_lossy(&loser.stdout);
            // The holder may not have written its name yet.
            let is_named = said.contains("process ") || said.contains("unknown");
            assert!(said.contains("held by another process") && is_named, "{said}");
        }
        check_same(folder.path(), expected, &format!("{many} at once"));
    }
    println!("{} races", races.len());
}

/// A holder that stands still in the middle of a stage.
struct Sleeper {
    child: Child,
}

impl Sleeper {
    fn of(folder: &Path, stage: &str) -> Sleeper {
        fs::write(folder.join("plan"), format!("stop {stage} after")).unwrap();
        let child = command(folder, "none", 0).stdout(Stdio::piped()).spawn().unwrap();
        let start = Instant::now();
        let stat = format!("/proc/{}/stat", child.id());
        // Its state stands behind its name, which is in brackets.
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            assert!(start.elapsed() < Duration::from_secs(60), "it does not stop in {stage}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Sleeper { child }
    }

    fn woken(self) -> Output {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::CONT).unwrap();
        self.child.wait_with_output().unwrap()
    }
}

const PLACES: [&str; 3] =
    ["TEST, iteration 1", "DEV, iteration 1, sub-iteration 1", "REVIEW, iteration 4"];

pub(crate) fn a_holder_that_sleeps_still_holds() {
    for place in PLACES {
        let folder = fresh();
        let sleeper = Sleeper::of(folder.path(), place);
        let before = everything(folder.path());
        let other = child(folder.path(), "none", 0);
        let said = String::from_utf8_lossy(&other.stdout).into_owned();
        assert_eq!(other.status.code(), Some(HELD), "{place}: {said}");
        let holder = format!("process {}, run run-0001, since ", sleeper.child.id());
        assert!(said.contains(&holder), "{place}: {said}");
        assert_eq!(everything(folder.path()), before, "{place}: the one that lost wrote");
        let output = sleeper.woken();
        assert_eq!(output.status.code(), Some(FINISHED), "{place}: {output:?}");
        check_same(folder.path(), undisturbed(), &format!("slept in {place}"));
    }
}

/// The kernel's lock counts, and not what the file says: a number may be another process's by now.
pub(crate) fn a_stale_lock_file_holds_nobody_up() {
    let texts = [
        format!("process {}, run run-0001, since 2020-01-01 00:00:00\n", std::process::id()),
        "process 1, run run-0001\n".to_owned(),
        String::new(),
        "\u{0}\u{0}\u{0}".to_owned(),
    ];
    for text in texts {
        let folder = fresh();
        let lock = folder.path().join("project/.baton/state/run.lock");
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        fs::write(&lock, &text).unwrap();
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "{text:?}: {output:?}");
        check_same(folder.path(), undisturbed(), &format!("a lock file of {text:?}"));
    }
}

/// Every file, with the journal and the snapshots.
fn everything(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.join("project")];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
            }
        }
    }
    found
}

/// The lock of the run, and that of a sub-loop where one goes on.
fn locks(folder: &Path) -> Vec<PathBuf> {
    let state = fs::read_dir(folder.join("project/.baton/state")).unwrap();
    let paths = state.map(|entry| entry.unwrap().path());
    let locks: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|own| own == "lock")).collect();
    assert!(!locks.is_empty());
    locks
}

pub(crate) fn a_woken_zombie_writes_nothing() {
    for place in PLACES {
        for (way, is_gone_on_with) in
            [("removed", true), ("removed", false), ("replaced", true), ("replaced", false)]
        {
            let what = format!("{way} in {place}, gone on with: {is_gone_on_with}");
            let folder = fresh();
            let sleeper = Sleeper::of(folder.path(), place);
            for lock in locks(folder.path()) {
                fs::remove_file(&lock).unwrap();
                if way == "replaced" {
                    fs::write(&lock, "process 1, run run-0001\n").unwrap();
                }
            }
            if is_gone_on_with {
                let other = child(folder.path(), "none", 0);
                assert_eq!(other.status.code(), Some(FINISHED), "{what}: {other:?}");
            }
            let before = everything(folder.path());
            let output = sleeper.woken();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(HELD), "{what}: {said}");
            assert!(said.contains("removed or replaced under this run"), "{what}: {said}");
            let after = everything(folder.path());
            let changed: Vec<_> = after
                .keys()
                .chain(before.keys())
                .filter(|path| before.get(*path) != after.get(*path))
                .collect();
            assert!(changed.is_empty(), "{what}: the zombie changed {changed:?}");
            if !is_gone_on_with {
                let other = child(folder.path(), "none", 0);
                assert_eq!(other.status.code(), Some(FINISHED), "{what}: {other:?}");
            }
            check_same(folder.path(), undisturbed(), &what);
        }
    }
}
