//! What a run costs beside its models, and how that grows. `cargo bench -p baton-runtime --bench
//! runs` prints it; nothing is asserted. `BATON_BENCH_ITERATIONS` for another length.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark writes blackboards and reads a variable"
)]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::event::{Event, Limits, Spent, StageResult};
use baton_core::id::Tokens;
use baton_runtime::board::{Board, NewBoard};
use baton_runtime::drive::{self, Around, Control, Drive, Notice};
use baton_runtime::executor::{Call, Executor, Executors, Hear, Outcome, Unusable};
use baton_runtime::load::Environment;
use baton_runtime::sandbox::Interrupt;
use baton_runtime::store::{Disk, Fault};

/// Answers at once, with a kilobyte more of history each time.
struct Instantly {
    said: Arc<AtomicU64>,
}

impl Executor for Instantly {
    fn name(&self, _: baton_core::messages::Language) -> String {
        "an instant one".to_owned()
    }

    /// Snapshots of the project are measured apart.
    fn can_write(&self) -> bool {
        false
    }

    fn call(&mut self, call: &Call<'_>, _: &Interrupt, _: Hear<'_>) -> Result<Outcome, Unusable> {
        let n = call.stage.iteration;
        let text = match call.stage.name.as_str() {
            "MAIN" => {
                let reason =
                    format!("iteration {n} goes on with the work that the last report named. ")
                        .repeat(12);
                format!(
                    r#"{{"next_agent":"REVIEW","reason":"{reason}","dev_plan":"set M1-T1 evidence: iteration {n}","finish_review_override":null,"task":"M1-T1, step {n}"}}"#
                )
            }
            _ => format!(
                "iteration: {n}\nverdict: FAIL\nblockers: [test] case {n} is missing\n\n## Evidence\n{}",
                "- a line of evidence\n".repeat(40)
            ),
        };
        self.said.fetch_add(text.len() as u64, Ordering::Relaxed);
        let spent =
            Spent { milliseconds: 0, tokens: Some(Tokens(100)), cached: None, cost: Some(1) };
        Ok(Outcome { result: StageResult::Answer(text), spent })
    }
}

fn board(folder: &Path) -> Board {
    let root = folder.join("project/.baton");
    NewBoard { root: &root, pack: "tdd", language: "en" }.create().unwrap();
    fs::write(
        root.join("memory/dev_plan.md"),
        "## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n",
    )
    .unwrap();
    Board::open(&root, &Environment::of(&[])).unwrap()
}

fn limits(iterations: u32) -> Limits {
    Limits::of(iterations, 60)
}

/// The time at the end of an iteration, and how much of it went to the disk.
#[derive(Debug, Clone, Copy)]
struct Times {
    all: Duration,
    /// In fsync and fdatasync.
    syncs: Duration,
    /// In the other calls that change the disk: making, writing, renaming files.
    changes: Duration,
}

/// Runs so many iterations.
fn run(board: &Board, iterations: u32, said: &Arc<AtomicU64>) -> Vec<Times> {
    let environment = Environment::of(&[]);
    let mut executors = Executors::new(Box::new(Instantly { said: said.clone() }));
    let disk = Disk::with_fault(Fault::None);
    let times = Arc::new(Mutex::new(Vec::new()));
    let (start, own, seen) = (Instant::now(), disk.clone(), times.clone());
    let watch = move |notice: Notice<'_>| {
        if let Notice::Event(record, _) = notice
            && matches!(record.event, Event::IterationEnded { .. })
        {
            let (syncs, changes) = (own.sync_time(), own.change_time());
            seen.lock().unwrap().push(Times { all: start.elapsed(), syncs, changes });
        }
    };
    let around = Around {
        board,
        project: board.root.parent().unwrap().to_owned(),
        environment: &environment,
        executors: &mut executors,
        control: Control::default(),
        confined: false,
        disk,
        clock: drive::now,
        watch: Box::new(watch),
        evaluator: None,
        machine: None,
        context_window: &|_| None,
    };
    let mut drive = Drive::start(around, "Make add() safe", limits(iterations)).unwrap();
    drive.run().unwrap();
    drop(drive);
    Arc::try_unwrap(times).unwrap().into_inner().unwrap()
}

fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.metadata().unwrap().len()).sum()
}

fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn growth(iterations: u32) {
    let folder = tempfile::tempdir().unwrap();
    let board = board(folder.path());
    let said = Arc::new(AtomicU64::new(0));
    let times = run(&board, iterations, &said);
    println!("{} iterations in {:.1} s", times.len(), times.last().unwrap().all.as_secs_f64());
    println!(
        "iterations        an iteration   waiting for the disk   beside it   of that, other calls that change the disk   the rest"
    );
    let span = |from: usize, to: usize| {
        let count = u32::try_from(to - from).unwrap();
        let (one, two) = (times[from], times[to]);
        let (all, sync) = (two.all - one.all, two.syncs - one.syncs);
        let change = two.changes - one.changes;
        println!(
            "{from:>6} to {to:>6} {:>14} {:>22} {:>11} {:>43} {:>10}",
            ms(all / count),
            ms(sync / count),
            ms((all - sync) / count),
            ms(change / count),
            ms((all - sync - change) / count),
        );
        (all - sync) / count
    };
    let last = times.len() - 1;
    let first = span(0, 100.min(last));
    if last > 2_000 {
        span(1_000, 1_100);
    }
    let end = span(last.saturating_sub(100), last);
    println!(
        "beside the disk, the last 100 cost {:.2} times the first 100",
        end.as_secs_f64() / first.as_secs_f64()
    );
    let journal = folder_bytes(&drive::journal_folder(&board, "run-0001"));
    let said = said.load(Ordering::Relaxed);
    println!(
        "journal {} bytes, decisions and reports {said} bytes: {:.2} times",
        journal,
        journal as f64 / said as f64
    );
    let start = Instant::now();
    let state = drive::look(&board, "run-0001").unwrap();
    println!("resume of {} iterations: {}", state.iteration, ms(start.elapsed()));
}

/// Many runs in one process, each to its fiftieth iteration. Their folders are for the caller to
/// keep: a file system may look long for a free inode where many files were just removed.
fn at_once(runs: usize) -> Vec<tempfile::TempDir> {
    let folders: Vec<_> = (0..runs).map(|_| tempfile::tempdir().unwrap()).collect();
    let before = memory();
    let threads: Vec<_> = folders
        .iter()
        .map(|folder| {
            let path = folder.path().to_owned();
            std::thread::spawn(move || {
                let board = board(&path);
                run(&board, 50, &Arc::new(AtomicU64::new(0))).len()
            })
        })
        .collect();
    let mut most = 0;
    while threads.iter().any(|thread| !thread.is_finished()) {
        most = most.max(memory());
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .filter(|count| *count == 50)
        .count();
    println!(
        "{ended} of {runs} runs at once came to iteration 50; at most {:.2} MB more memory a run",
        (most - before.min(most)) as f64 / 1e6 / runs as f64
    );
    folders
}

fn main() {
    baton_core::tokens::count("x");
    let asked = std::env::var("BATON_BENCH_ITERATIONS").ok().and_then(|text| text.parse().ok());
    let folders = at_once(200);
    growth(asked.unwrap_or(5_000));
    drop(folders);
}
