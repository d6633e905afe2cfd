//! The sweep over fault points, with real processes and real files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use baton_runtime::journal;
use tempfile::TempDir;

use crate::reference::{self, FAILED, FINISHED, HELD};

fn is_whole() -> bool {
    std::env::var("BATON_SWEEP").is_ok_and(|word| word == "all")
}

/// A child process that runs the reference run in a folder.
fn child(folder: &Path, fault: &str, number: u64) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", folder.to_str().unwrap(), fault, &number.to_string()])
        .output()
        .unwrap()
}

fn fresh() -> TempDir {
    let folder = TempDir::new().unwrap();
    reference::make(folder.path());
    folder
}

/// Every file that must come out the same: the blackboard without journal, snapshots, cache and
/// locks; and the project.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.join("project")];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let inside = path.strip_prefix(folder.join("project")).unwrap().to_owned();
            let skipped =
                ["journal", "snapshots", "cache"].map(|name| Path::new(".baton").join(name));
            if skipped.contains(&inside) || path.extension().is_some_and(|own| own == "lock") {
                continue;
            }
            match path.is_dir() {
                true => open.push(path),
                false => drop(found.insert(inside, fs::read_to_string(&path).unwrap())),
            }
        }
    }
    found
}

/// The reference: its files and how many points it passed.
fn undisturbed() -> (BTreeMap<PathBuf, String>, u64) {
    let folder = fresh();
    let output = child(folder.path(), "count", 0);
    assert_eq!(output.status.code(), Some(FINISHED), "{}", String::from_utf8_lossy(&output.stdout));
    let points = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    (files(folder.path()), points)
}

/// The points to look at: all of them, or a part.
fn chosen(points: u64, stride: u64) -> Vec<u64> {
    let stride = if is_whole() { 1 } else { stride };
    (0..points).step_by(usize::try_from(stride).unwrap()).collect()
}

/// The same files, and no step that the journal knows was run twice.
fn check_same(folder: &Path, expected: &BTreeMap<PathBuf, String>, what: &str) {
    let found = files(folder);
    for (path, text) in expected {
        assert_eq!(found.get(path), Some(text), "{what}: {}", path.display());
    }
    let extra: Vec<_> = found.keys().filter(|path| !expected.contains_key(*path)).collect();
    assert!(extra.is_empty(), "{what}: {extra:?}");
    let calls = fs::read_to_string(folder.join("calls")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for call in calls.lines() {
        assert!(seen.insert(call), "{what}: called twice: {call}");
    }
    let records = journal::records(&folder.join("project/.baton/journal/run-0001")).unwrap();
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record.seq, index as u64 + 1, "{what}");
    }
}

pub(crate) fn a_run_is_the_same_twice() {
    let (first, points) = undisturbed();
    let (second, again) = undisturbed();
    assert_eq!((&first, points), (&second, again));
    assert!(
        first.contains_key(Path::new(".baton/reports/archive/1_test_subloop_2_a1.md")),
        "{:?}",
        first.keys()
    );
    assert!(!first.keys().any(|path| path.to_string_lossy().contains("subloop_state")));
    let history = &first[Path::new(".baton/memory/project_history.md")];
    assert!(
        history.contains("FINISH stands") && history.contains("## User Decision (Iteration 2)"),
        "{history}"
    );
    println!("{points} points in the reference run");
}

pub(crate) fn killed_at_every_point() {
    let (expected, points) = undisturbed();
    let (mut killed, mut resumed) = (0, 0);
    for point in chosen(points, 9) {
        let folder = fresh();
        let output = child(folder.path(), "kill", point);
        match output.status.signal() {
            Some(9) => killed += 1,
            _ => panic!("not killed at {point}: {output:?}"),
        }
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "after {point}: {output:?}");
        check_same(folder.path(), &expected, &format!("killed at {point} of {points}"));
        resumed += 1;
    }
    println!("killed {killed} times, {resumed} reached the same board");
}

pub(crate) fn killed_in_the_middle_of_a_write() {
    let (expected, points) = undisturbed();
    let mut torn = 0;
    // Only a write has a middle; other calls are passed without anything.
    for point in chosen(points, 7) {
        let folder = fresh();
        let output = child(folder.path(), "tear", point);
        torn += u32::from(output.status.signal() == Some(9));
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "after {point}: {output:?}");
        check_same(folder.path(), &expected, &format!("torn at {point} of {points}"));
    }
    assert!(torn > 5, "{torn}");
    println!("{torn} writes torn");
}

pub(crate) fn killed_again_while_it_resumes() {
    let (expected, points) = undisturbed();
    let pairs = if is_whole() { 1_000 } else { 40 };
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..pairs {
        let folder = fresh();
        let (first, mut history) = (random.u64(..points), Vec::new());
        child(folder.path(), "kill", first);
        // Again and again, until one comes through.
        for _ in 0..4 {
            let again = random.u64(..60);
            history.push(again);
            child(folder.path(), "kill", again);
        }
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "{first} {history:?}: {output:?}");
        check_same(folder.path(), &expected, &format!("killed at {first}, then at {history:?}"));
    }
}

pub(crate) fn a_full_disk_stops_and_loses_nothing() {
    let (expected, points) = undisturbed();
    let mut stopped = 0;
    for point in chosen(points, 17) {
        let folder = fresh();
        let output = child(folder.path(), "full", point);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // The cache and the index only save work: without them the run goes on.
        if output.status.code() == Some(FAILED) {
            stopped += 1;
            assert!(said.contains("No space left on device"), "{point}: {said}");
        }
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "after {point}: {said} {output:?}");
        check_same(folder.path(), &expected, &format!("no space at {point} of {points}"));
    }
    assert!(stopped > 0);
}

pub(crate) fn a_sync_that_fails_stops_the_run() {
    let (expected, points) = undisturbed();
    for point in chosen(points, 23) {
        let folder = fresh();
        let output = child(folder.path(), "sync", point);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // Near the end there may be no sync left.
        let is_over = output.status.code() == Some(FINISHED);
        assert!(
            is_over && point + 4 > points || said.contains("cannot sync"),
            "{point}: {said} {output:?}"
        );
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "after {point}: {output:?}");
        check_same(folder.path(), &expected, &format!("no sync from {point} of {points}"));
    }
}

/// Order is by number, never by the clock: nothing but the written times may differ.
pub(crate) fn a_clock_that_jumps_changes_nothing_but_the_times() {
    let (expected, _) = undisturbed();
    let folder = fresh();
    let output = child(folder.path(), "clock", 0);
    assert_eq!(output.status.code(), Some(FINISHED), "{output:?}");
    let without_times = |text: &str| -> String {
        let is_time =
            |word: &str| word.len() == 19 && baton_core::id::Timestamp::parse(word).is_some();
        text.split(' ')
            .map(|word| if is_time(word.trim_end()) { "<time>" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    };
    let masked = |files: &BTreeMap<PathBuf, String>| -> BTreeMap<PathBuf, String> {
        files
            .iter()
            .map(|(path, text)| {
                let lines: Vec<String> = text.lines().map(without_times).collect();
                (path.clone(), lines.join("\n"))
            })
            .collect()
    };
    assert_eq!(masked(&files(folder.path())), masked(&expected));
}

pub(crate) fn of_many_processes_one_writes() {
    let (expected, _) = undisturbed();
    let races = if is_whole() { 200 } else { 6 };
    for race in 0..races {
        let folder = fresh();
        let many = 2 + race % 7;
        let children: Vec<_> = (0..many)
            .map(|_| {
                let path = folder.path().to_owned();
                std::thread::spawn(move || child(&path, "none", 0))
            })
            .collect();
        let codes: Vec<Option<i32>> =
            children.into_iter().map(|child| child.join().unwrap().status.code()).collect();
        assert!(codes.contains(&Some(FINISHED)), "{codes:?}");
        assert!(codes.iter().all(|code| [Some(FINISHED), Some(HELD)].contains(code)), "{codes:?}");
        check_same(folder.path(), &expected, &format!("{many} at once"));
    }
}
