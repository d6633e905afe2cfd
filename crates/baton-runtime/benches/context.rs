//! What the context of the stages costs, and how it grows. `cargo bench -p baton-runtime --bench
//! context` prints it; nothing is asserted.
#![expect(clippy::disallowed_methods, reason = "a benchmark writes blackboards")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

#[path = "../tests/it/context/boards.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod boards;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use baton_core::id::AgentName;
use baton_core::prompt::FinishFacts;
use baton_runtime::board::Board;
use baton_runtime::gather::{For, Gatherer};
use baton_runtime::summaries::{Mode, Summaries};

use boards::Size;

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let out = run();
    (out, start.elapsed())
}

fn best<T>(times: usize, mut run: impl FnMut() -> T) -> Duration {
    (0..times).map(|_| timed(|| std::hint::black_box(run())).1).min().unwrap_or_default()
}

fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// Older than any doubt about the time of a file.
fn age(folder: &Path) {
    let time = SystemTime::now() - Duration::from_secs(3_600);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }
    }
}

fn three(board: &Board, mode: Mode) -> Summaries {
    let mut summaries = Summaries::open(&board.root, &board.pack.policy, mode);
    three_of(board, &mut summaries);
    summaries
}

fn three_of(board: &Board, summaries: &mut Summaries) {
    for (agent, file) in [("TEST", "test"), ("DEV", "dev"), ("REVIEW", "review")] {
        let path = format!("reports/report_{file}.md");
        summaries.get(&path, &AgentName::new(agent).unwrap(), &board.pack.policy).unwrap();
    }
}

fn summaries(folder: &Path) {
    let board = boards::make(&folder.join("three"), boards::THOUSAND);
    age(&board.root.join("reports"));
    println!(
        "3 summaries of 30 KB reports, cold             {}",
        ms(best(20, || three(&board, Mode::Off)))
    );
    three(&board, Mode::ReadWrite).flush().unwrap();
    let mut open = three(&board, Mode::ReadOnly);
    println!(
        "3 summaries from the cache                     {}",
        ms(best(20, || three_of(&board, &mut open)))
    );
    println!("\nreports      cold, all extracted      a report      warm start      a report");
    for count in [100_u32, 1_000, 10_000] {
        let size = Size { iterations: count, entry: 200, report: 6_000, archived: count };
        let board = boards::make(&folder.join(count.to_string()), size);
        age(&board.root.join("reports/archive"));
        let refresh = || {
            let mut all = Summaries::open(&board.root, &board.pack.policy, Mode::ReadWrite);
            all.refresh(&board.pack.policy).unwrap();
            all.flush().unwrap();
        };
        let cold = best(3, || {
            let _ = fs::remove_file(board.root.join("cache/report_summaries.json"));
            refresh();
        });
        let warm = best(5, refresh);
        let each =
            |time: Duration| format!("{:.1} µs", time.as_secs_f64() * 1e6 / f64::from(count));
        println!(
            "{count:>7}      {:>19}      {:>8}      {:>10}      {:>8}",
            ms(cold),
            each(cold),
            ms(warm),
            each(warm)
        );
    }
}

fn prompts(folder: &Path) {
    let facts = FinishFacts::default();
    println!(
        "\niterations    history     MAIN from cold    after the first load    one more iteration"
    );
    for count in [100_u32, 1_000, 10_000] {
        let size = Size { iterations: count, entry: 2_000, report: 30_000, archived: 3 };
        let board = boards::make(&folder.join(format!("prompt{count}")), size);
        age(&board.root.join("reports"));
        three(&board, Mode::ReadWrite).flush().unwrap();
        let bytes = fs::metadata(board.history_file()).unwrap().len();
        let cold = best(5, || {
            let mut gatherer = Gatherer::open(&board, Mode::ReadOnly).unwrap();
            gatherer.prompt(&board, &For::Main, None, None, &facts).unwrap()
        });
        let mut gatherer = Gatherer::open(&board, Mode::ReadOnly).unwrap();
        let mut prompt = || gatherer.prompt(&board, &For::Main, None, None, &facts).unwrap();
        prompt();
        let warm = best(20, &mut prompt);
        let more = (1..=20)
            .map(|n| {
                let entry = boards::entry(count + n, 2_000);
                let mut history = File::options().append(true).open(board.history_file()).unwrap();
                history.write_all(entry.as_bytes()).unwrap();
                timed(|| {
                    gatherer.appended(&board, &entry);
                    gatherer.prompt(&board, &For::Main, None, None, &facts).unwrap()
                })
                .1
            })
            .min()
            .unwrap();
        println!(
            "{count:>10}    {:>5.1} MB    {:>14}    {:>20}    {:>18}",
            bytes as f64 / 1e6,
            ms(cold),
            ms(warm),
            ms(more)
        );
    }
}

fn main() {
    let (_, load) = timed(|| baton_core::tokens::count("x"));
    println!("loading the tokenizer, once a process          {}", ms(load));
    let folder = tempfile::tempdir().unwrap();
    summaries(folder.path());
    prompts(folder.path());
}
