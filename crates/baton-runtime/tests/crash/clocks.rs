//! Clocks that are wrong, stand still and jump. Order is by number, never by the clock: nothing but
//! the written times may differ. What is waited for is measured by a clock that nobody sets.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use baton_core::event::StageId;
use baton_core::id::Timestamp;
use baton_runtime::executor::Builtin;
use baton_runtime::journal;
use serde_json::{Value, json};

use crate::agent::with;
use crate::reference::{FINISHED, journal_of};
use crate::sweep::{among, child, each, files, fresh, run_undisturbed, undisturbed};
use baton_core::turn::Room;
use baton_testkit::{Model, call, refusal, text};

const NOON: u64 = 1_800_000_000;
const DAY: u64 = 86_400;
const YEAR: u64 = 365 * DAY;

/// When a clock is set, other than by each look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jump {
    Never,
    InStage,
    InSubloop,
    InRetry,
}

/// The time after so many looks and jumps.
type Clock = fn(look: u64, jumps: u64) -> u64;

const CLOCKS: [(&str, Jump, Clock); 12] = [
    // Before 1970 there is no time: it is taken for 1970.
    ("1969", Jump::Never, |_, _| 0),
    ("into 2038", Jump::Never, |look, _| (1 << 31) - 5 + look),
    ("2200", Jump::Never, |look, _| 7_258_118_400 + look),
    ("into the year 10000", Jump::Never, |look, _| Timestamp::MAX.0 - 5 + look),
    ("stands still", Jump::Never, |_, _| NOON),
    ("runs backwards", Jump::Never, |look, _| NOON - look),
    ("a day forward with each look", Jump::Never, |look, _| NOON + look * DAY),
    ("here and there with each look", Jump::Never, |look, _| {
        [NOON, 5, 1_900_000_000, 0, NOON + 1, 1_700_000_000][look as usize % 6]
    }),
    ("a year back in a stage", Jump::InStage, |look, jumps| NOON + look - jumps * YEAR),
    ("a day forward in a stage", Jump::InStage, |look, jumps| NOON + look + jumps * DAY),
    ("a day forward in a sub-loop", Jump::InSubloop, |look, jumps| NOON + look + jumps * DAY),
    ("a day forward in a wait for a retry", Jump::InRetry, |look, jumps| NOON + look + jumps * DAY),
];

static CLOCK: AtomicUsize = AtomicUsize::new(0);
static LOOKS: AtomicU64 = AtomicU64::new(0);
static JUMPS: AtomicU64 = AtomicU64::new(0);

/// Which clock this process has.
pub(crate) fn set(number: usize) {
    CLOCK.store(number, Ordering::SeqCst);
}

pub(crate) fn now() -> Timestamp {
    let look = LOOKS.fetch_add(1, Ordering::SeqCst);
    let (_, _, clock) = CLOCKS[CLOCK.load(Ordering::SeqCst)];
    Timestamp(clock(look, JUMPS.load(Ordering::SeqCst)))
}

fn jump(when: &[Jump]) {
    let (_, own, _) = CLOCKS[CLOCK.load(Ordering::SeqCst)];
    JUMPS.fetch_add(u64::from(when.contains(&own)), Ordering::SeqCst);
}

pub(crate) fn working(stage: &StageId) {
    match stage.subloop {
        Some(_) => jump(&[Jump::InStage, Jump::InSubloop]),
        None => jump(&[Jump::InStage]),
    }
}

/// The agent that waits: for the provider, for a command that takes its time, and for one that does
/// not end. The clock is set while it does.
pub(crate) fn executor() -> Builtin {
    let model = Model::answering(|number, asked| {
        if number == 0 {
            jump(&[Jump::InStage, Jump::InRetry]);
            return refusal(429, "slow down");
        }
        jump(&[Jump::InStage]);
        let results = results(&asked.body);
        match results.len() {
            0 => call("Bash", json!({ "command": "sleep 1; echo in time", "timeout": 100 })),
            1 => call("Bash", json!({ "command": "sleep 1000", "timeout": 1 })),
            _ if results[0].contains("in time") && results[1].contains("TIMED_OUT") => {
                text("iteration: 1\nverdict: PASS\nblockers: none\n\nM1-T1\n")
            }
            _ => panic!("{results:?}"),
        }
    });
    with(model, Room::default())
}

fn results(request: &Value) -> Vec<String> {
    let all = request["messages"].as_array().unwrap().iter();
    all.filter(|message| message["role"] == "tool").map(|own| own["content"].to_string()).collect()
}

fn without_times(text: &str) -> String {
    let is_time = |word: &str| word.len() == 19 && Timestamp::parse(word).is_some();
    let mask = |word| if is_time(word) { "<time>" } else { word };
    let lines = text.lines().map(|line| line.split(' ').map(mask).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

fn board(files: &BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, String> {
    let own = files.iter().filter(|(path, _)| !path.starts_with(".baton/transcripts"));
    own.map(|(path, text)| (path.clone(), without_times(text))).collect()
}

/// The same board but for its times, its records in the order of their numbers.
fn check(folder: &Path, expected: &BTreeMap<PathBuf, String>, what: &str) {
    assert_eq!(board(&files(folder)), board(expected), "{what}");
    let records = journal::records(&journal_of(folder)).unwrap();
    let numbers: Vec<u64> = records.iter().map(|record| record.seq).collect();
    assert_eq!(numbers, (1..=records.len() as u64).collect::<Vec<_>>(), "{what}");
}

pub(crate) fn a_clock_that_jumps_changes_nothing_but_the_times() {
    let clocks: Vec<usize> = (0..CLOCKS.len()).collect();
    each(&clocks, |number| {
        let (what, ..) = CLOCKS[*number];
        let folder = fresh();
        let output = child(folder.path(), "clock", *number as u64);
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
        check(folder.path(), &undisturbed().files, what);
    });
    println!("{} clocks", CLOCKS.len());
}

/// Killed under one clock, resumed under the next: also when it is earlier than all that is written.
pub(crate) fn a_clock_that_jumps_between_a_kill_and_its_resume_changes_nothing() {
    let clocks = among(0..CLOCKS.len(), 2);
    each(&clocks, |number| {
        let (what, ..) = CLOCKS[*number];
        let folder = fresh();
        let stage = "DEV, iteration 1, sub-iteration 1";
        fs::write(folder.path().join("plan"), format!("kill {stage} after")).unwrap();
        let next = (number + 1) % CLOCKS.len();
        let output = child(folder.path(), "clock", next as u64);
        assert_eq!(output.status.signal(), Some(9), "{what}: {output:?}");
        let output = child(folder.path(), "clock", *number as u64);
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
        check(folder.path(), &undisturbed().files, what);
    });
}

/// Neither the wait for a retry nor the limit of a command or a stage ends early, or never.
pub(crate) fn no_clock_makes_a_timeout_early_or_late() {
    let expected = run_undisturbed("small-patient-").files;
    let clocks = among(0..CLOCKS.len(), 3);
    each(&clocks, |number| {
        let (what, ..) = CLOCKS[*number];
        let folder = fresh();
        let output = child(folder.path(), "small-patient-clock", *number as u64);
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
        check(folder.path(), &expected, what);
    });
    println!("{} clocks while an agent waits", clocks.len());
}
