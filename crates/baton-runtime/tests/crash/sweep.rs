//! The sweep over fault points, with real processes and real files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use baton_core::event::{Event, Record, StageResult};
use baton_runtime::journal;
use tempfile::TempDir;

use crate::reference::{self, FAILED, FINISHED};

/// The extent of the sweeps, as `BATON_SWEEP` says: unset, a sample that a default run has time for;
/// `all`, everything; `k/n`, the k-th of n parts of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Sample,
    Part { number: usize, of: usize },
}

impl Extent {
    fn parse(word: Option<&str>) -> Option<Extent> {
        let (number, of) = match word {
            None => return Some(Extent::Sample),
            Some("all") => (1, 1),
            Some(word) => {
                let (number, of) = word.split_once('/')?;
                (number.parse().ok()?, of.parse().ok()?)
            }
        };
        (1..=of).contains(&number).then_some(Extent::Part { number, of })
    }

    fn get() -> Extent {
        let word = std::env::var("BATON_SWEEP").ok();
        let extent = Extent::parse(word.as_deref());
        extent.unwrap_or_else(|| panic!("BATON_SWEEP is `all` or `k/n`, not {word:?}"))
    }

    fn of<T>(self, all: impl IntoIterator<Item = T>, stride: usize) -> Vec<T> {
        let (from, step) = match self {
            Extent::Sample => (0, stride),
            Extent::Part { number, of } => (number - 1, of),
        };
        all.into_iter().skip(from).step_by(step).collect()
    }
}

/// Whether every item has its turn, in this call or in those for the other parts.
pub(crate) fn is_whole() -> bool {
    Extent::get() != Extent::Sample
}

/// Whether this is a part of a sweep, which may be too small to meet every case.
pub(crate) fn is_part() -> bool {
    matches!(Extent::get(), Extent::Part { of: 2.., .. })
}

/// The items to look at: every `stride`-th, or all of them, or this part of all.
pub(crate) fn among<T>(all: impl IntoIterator<Item = T>, stride: usize) -> Vec<T> {
    Extent::get().of(all, stride)
}

/// The seeds to try: the first `sample`, or those of `all`, or this part of them.
pub(crate) fn seeds(sample: u64, all: u64) -> Vec<u64> {
    among(0..if is_whole() { all } else { sample }, 1)
}

pub(crate) fn parts_of_a_sweep_are_all_of_it() {
    for of in 1..=12 {
        let part = |number| Extent::Part { number, of }.of(0..100, 9);
        let mut found: Vec<u32> = (1..=of).flat_map(part).collect();
        found.sort_unstable();
        assert_eq!(found, (0..100).collect::<Vec<_>>(), "{of} parts");
    }
    assert_eq!(Extent::Sample.of(0..30, 9), [0, 9, 18, 27]);
    assert_eq!(Extent::parse(Some("all")), Some(Extent::Part { number: 1, of: 1 }));
    assert_eq!(Extent::parse(Some("2/5")), Some(Extent::Part { number: 2, of: 5 }));
    for word in ["", "0/3", "4/3", "1/0", "1", "-1/3", "1/3/5", "ALL"] {
        assert_eq!(Extent::parse(Some(word)), None, "{word}");
    }
}

/// A child process that runs the reference run in a folder.
pub(crate) fn command(folder: &Path, fault: &str, number: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", folder.to_str().unwrap(), fault, &number.to_string()]);
    command
}

pub(crate) fn child(folder: &Path, fault: &str, number: u64) -> Output {
    command(folder, fault, number).output().unwrap()
}

pub(crate) fn fresh() -> TempDir {
    let folder = reference::folder();
    reference::make(folder.path());
    folder
}

/// Does it for each, two at a time.
pub(crate) fn each<T: Sync>(all: &[T], act: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(item) = all.get(next.fetch_add(1, Ordering::SeqCst)) {
                    act(item);
                }
            });
        }
    });
}

/// Every file that must come out the same: the blackboard without journal, snapshots, cache and
/// locks; and the project.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
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

/// The run without a fault.
pub(crate) struct Undisturbed {
    pub(crate) files: BTreeMap<PathBuf, String>,
    pub(crate) points: u64,
    pub(crate) records: Vec<Record>,
}

/// `prefix`: of the word that a child is called with.
pub(crate) fn run_undisturbed(prefix: &str) -> Undisturbed {
    let folder = fresh();
    let output = child(folder.path(), &format!("{prefix}count"), 0);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(FINISHED), "{said}");
    let points = said.lines().last().unwrap().parse().unwrap();
    let records = journal::records(&reference::journal_of(folder.path())).unwrap();
    let result = Undisturbed { files: files(folder.path()), points, records };
    check_same(folder.path(), &result, "undisturbed");
    result
}

pub(crate) fn undisturbed() -> &'static Undisturbed {
    static ONCE: OnceLock<Undisturbed> = OnceLock::new();
    ONCE.get_or_init(|| run_undisturbed(""))
}

/// The points to look at.
pub(crate) fn chosen(points: u64, stride: usize) -> Vec<u64> {
    among(0..points, stride)
}

/// How often each stage came to an answer, and each gate to an end.
fn results(records: &[Record]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for record in records {
        let name = match &record.event {
            Event::StageEnded(ended) if matches!(ended.result, StageResult::Answer(_)) => {
                ended.stage.to_string()
            }
            Event::GateEnded { command, passed, .. } => format!("{command}: {passed}"),
            Event::Asked { .. } => "asked".to_owned(),
            Event::Answered { option_id, .. } => format!("answered {option_id}"),
            _ => continue,
        };
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn count(lines: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    lines.for_each(|line| *counts.entry(line).or_default() += 1);
    counts
}

/// The same files; every result once; nothing run that the journal did not announce.
pub(crate) fn check_same(folder: &Path, expected: &Undisturbed, what: &str) {
    let found = files(folder);
    for (path, text) in &expected.files {
        assert_eq!(found.get(path), Some(text), "{what}: {}", path.display());
    }
    let extra: Vec<_> = found.keys().filter(|path| !expected.files.contains_key(*path)).collect();
    assert!(extra.is_empty(), "{what}: {extra:?}");
    let records = journal::records(&reference::journal_of(folder)).unwrap();
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record.seq, index as u64 + 1, "{what}");
    }
    assert_eq!(results(&records), results(&expected.records), "{what}");
    let lines = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        count(text.lines().map(str::to_owned))
    };
    let announced = count(records.iter().filter_map(|record| match &record.event {
        Event::StageStarted(started) => {
            Some(format!("{} attempt {}", started.stage, started.attempt))
        }
        Event::GateStarted { command, .. } => {
            Some(format!("{} began", command.strip_prefix("exec sh ../gate.sh ").unwrap()))
        }
        _ => None,
    }));
    for (line, times) in lines("calls") {
        assert!(announced.get(&line) >= Some(&times), "{what}: {times} times {line}");
    }
    for (line, times) in lines("gates").iter().filter(|(line, _)| line.ends_with("began")) {
        assert!(announced.get(line) >= Some(times), "{what}: {times} times {line}");
    }
}

pub(crate) fn a_run_is_the_same_twice() {
    let (first, second) = (undisturbed(), run_undisturbed(""));
    assert_eq!((&first.files, first.points), (&second.files, second.points));
    let (first, points) = (&first.files, first.points);
    assert!(
        first.contains_key(Path::new(".baton/reports/archive/1_test_subloop_2_a1.md")),
        "{:?}",
        first.keys()
    );
    assert!(!first.keys().any(|path| path.to_string_lossy().contains("subloop_state")));
    let history = &first[Path::new(".baton/memory/project_history.md")];
    assert!(
        history.contains("FINISH accepted") && history.contains("## User Decision (Iteration 2)"),
        "{history}"
    );
    assert!(history.contains("so REVIEW follows by rule"), "{history}");
    let results = results(&undisturbed().records);
    assert_eq!(results.get("exec sh ../gate.sh TEST: true"), Some(&2), "{results:?}");
    assert_eq!(results.get("exec sh ../gate.sh FINISH: true"), Some(&1), "{results:?}");
    let trespasses = undisturbed().records.iter().filter(|record| {
        matches!(&record.event, Event::StageEnded(ended)
            if matches!(ended.result, StageResult::Trespassed(_)))
    });
    assert_eq!(trespasses.count(), 1);
    println!("{points} points in the reference run");
}

pub(crate) fn killed_at_every_point() {
    let expected = undisturbed();
    let points = expected.points;
    let all = chosen(points, 9);
    each(&all, |point| {
        let folder = fresh();
        let output = child(folder.path(), "kill", *point);
        assert_eq!(output.status.signal(), Some(9), "not killed at {point}: {output:?}");
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "after {point}: {output:?}");
        check_same(folder.path(), expected, &format!("killed at {point} of {points}"));
    });
    println!("killed {} times, each reached the same board", all.len());
}

pub(crate) fn killed_in_the_middle_of_a_write() {
    let expected = undisturbed();
    let points = expected.points;
    let torn = AtomicU32::new(0);
    // Only a write has a middle; other calls are passed without anything.
    each(&chosen(points, 11), |point| {
        let folder = fresh();
        let output = child(folder.path(), "tear", *point);
        torn.fetch_add(u32::from(output.status.signal() == Some(9)), Ordering::SeqCst);
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "after {point}: {output:?}");
        check_same(folder.path(), expected, &format!("torn at {point} of {points}"));
    });
    let torn = torn.into_inner();
    assert!(torn > 4 || is_part(), "{torn}");
    println!("{torn} writes torn");
}

pub(crate) fn killed_again_while_it_resumes() {
    let expected = undisturbed();
    each(&seeds(24, 1_000), |seed| {
        let mut random = fastrand::Rng::with_seed(*seed);
        let folder = fresh();
        let (first, mut history) = (random.u64(..expected.points), Vec::new());
        child(folder.path(), "kill", first);
        // Again and again, until one comes through.
        for _ in 0..4 {
            let again = random.u64(..60);
            history.push(again);
            child(folder.path(), "kill", again);
        }
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "{first} {history:?}: {output:?}");
        check_same(folder.path(), expected, &format!("killed at {first}, then at {history:?}"));
    });
}

pub(crate) fn a_full_disk_stops_and_loses_nothing() {
    let expected = undisturbed();
    let points = expected.points;
    let stopped = AtomicU32::new(0);
    each(&chosen(points, 29), |point| {
        let folder = fresh();
        let output = child(folder.path(), "full", *point);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // The cache and the index only save work: without them the run goes on.
        if output.status.code() == Some(FAILED) {
            stopped.fetch_add(1, Ordering::SeqCst);
            assert!(said.contains("No space left on device"), "{point}: {said}");
        }
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "after {point}: {said} {output:?}");
        check_same(folder.path(), expected, &format!("no space at {point} of {points}"));
    });
    assert!(stopped.into_inner() > 0 || is_part());
}

pub(crate) fn a_sync_that_fails_stops_the_run() {
    let expected = undisturbed();
    let points = expected.points;
    each(&chosen(points, 41), |point| {
        let folder = fresh();
        let output = child(folder.path(), "sync", *point);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // Near the end there may be no sync left.
        let is_over = output.status.code() == Some(FINISHED);
        assert!(
            is_over && point + 4 > points || said.contains("cannot sync"),
            "{point}: {said} {output:?}"
        );
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "after {point}: {output:?}");
        check_same(folder.path(), expected, &format!("no sync from {point} of {points}"));
    });
}
