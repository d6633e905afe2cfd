//! The cache of summaries: it saves work, follows every change, and is never believed blindly.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use baton_core::id::AgentName;
use baton_core::summary::Summary;
use baton_runtime::board::Board;
use baton_runtime::summaries::{Counts, Mode, Summaries};

use super::boards::{self, HUNDRED, SMALL};

const CACHE: &str = "cache/report_summaries.json";
const REPORT: &str = "reports/report_test.md";

/// Makes a file older than any doubt about its time.
fn age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn board(folder: &Path) -> Board {
    let board = boards::make(&folder.join("board"), SMALL);
    age(&board.root.join(REPORT), 3_600);
    board
}

fn test() -> AgentName {
    AgentName::new("TEST").unwrap()
}

fn asked(board: &Board, mode: Mode) -> (Summary, Counts) {
    let mut summaries = Summaries::open(&board.root, &board.pack.policy, mode);
    let summary = summaries.get(REPORT, &test(), &board.pack.policy).unwrap();
    summaries.flush().unwrap();
    (summary, summaries.counts)
}

const EXTRACTED: Counts = Counts { hits: 0, extracted: 1, failures: 0 };
const HIT: Counts = Counts { hits: 1, extracted: 0, failures: 0 };

#[test]
fn a_summary_is_made_once_and_then_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let board = board(folder.path());
    let (made, counts) = asked(&board, Mode::ReadWrite);
    assert_eq!(counts, EXTRACTED);
    let (remembered, counts) = asked(&board, Mode::ReadWrite);
    assert_eq!((remembered, counts), (made.clone(), HIT));
    let text = fs::read_to_string(board.root.join(CACHE)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!(value["TEST_8"]["summary"]["verdict"], "FAIL");
    assert_eq!(asked(&board, Mode::Off).1, EXTRACTED, "switched off, nothing is remembered");
    fs::remove_file(board.root.join(CACHE)).unwrap();
    assert_eq!(asked(&board, Mode::ReadOnly).1, EXTRACTED);
    assert!(!board.root.join(CACHE).exists(), "a command that only looks writes nothing");
}

#[test]
fn a_changed_report_is_read_again_and_a_touched_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let board = board(folder.path());
    let path = board.root.join(REPORT);
    asked(&board, Mode::ReadWrite);
    age(&path, 1_800);
    assert_eq!(asked(&board, Mode::ReadWrite).1, HIT, "another time, the same content");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("verdict: FAIL", "verdict: PASS")).unwrap();
    age(&path, 900);
    let (changed, counts) = asked(&board, Mode::ReadWrite);
    assert_eq!((changed.verdict.as_deref(), counts), (Some("PASS"), EXTRACTED));
}

/// Changed twice within one tick of the clock, with the same size: time and size tell nothing.
#[test]
fn a_change_that_the_time_does_not_show_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let board = board(folder.path());
    let path = board.root.join(REPORT);
    let now = SystemTime::now();
    let text = fs::read_to_string(&path).unwrap();
    for (verdict, word) in [("PASS", "FAIL"), ("FAIL", "PASS"), ("PASS", "FAIL")] {
        fs::write(&path, text.replace("verdict: FAIL", &format!("verdict: {verdict}"))).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(now).unwrap();
        let (summary, _) = asked(&board, Mode::ReadWrite);
        assert_eq!(summary.verdict.as_deref(), Some(verdict), "not {word}");
    }
}

#[test]
fn other_rules_make_other_summaries() {
    let folder = tempfile::tempdir().unwrap();
    let mut board = board(folder.path());
    asked(&board, Mode::ReadWrite);
    board.pack.policy.context.key_change_headings = vec!["Output".to_owned()];
    assert_eq!(asked(&board, Mode::ReadWrite).1, EXTRACTED);
    assert_eq!(asked(&board, Mode::ReadWrite).1, HIT);
}

/// Every byte of the cache, damaged: the summary is always the right one.
#[test]
fn a_damaged_cache_is_never_believed() {
    let folder = tempfile::tempdir().unwrap();
    let board = board(folder.path());
    let (right, _) = asked(&board, Mode::ReadWrite);
    let path = board.root.join(CACHE);
    let good = fs::read(&path).unwrap();
    let mut rebuilt = 0;
    for at in 0..good.len() {
        for damage in [0x01_u8, 0x20] {
            let mut bad = good.clone();
            bad[at] ^= damage;
            fs::write(&path, &bad).unwrap();
            let mut summaries = Summaries::open(&board.root, &board.pack.policy, Mode::ReadOnly);
            let found = summaries.get(REPORT, &test(), &board.pack.policy).unwrap();
            assert_eq!(found, right, "byte {at} of {}", good.len());
            rebuilt += usize::from(summaries.counts == EXTRACTED);
        }
    }
    // A flip in the key alone changes nothing that matters.
    assert!(rebuilt > good.len(), "{rebuilt} of {}", good.len() * 2);
    for cut in (0..good.len()).step_by(7) {
        fs::write(&path, &good[..cut]).unwrap();
        assert_eq!(asked(&board, Mode::ReadWrite).0, right, "cut at {cut}");
        assert_eq!(asked(&board, Mode::ReadWrite).1, HIT, "made again after the cut at {cut}");
        fs::write(&path, &good).unwrap();
    }
}

#[test]
fn a_new_entry_does_not_rewrite_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let board = boards::make(&folder.path().join("board"), HUNDRED);
    let policy = &board.pack.policy;
    let mut summaries = Summaries::open(&board.root, policy, Mode::ReadWrite);
    summaries.refresh(policy).unwrap();
    summaries.flush().unwrap();
    assert_eq!(summaries.counts.extracted, 103, "three newest and a hundred archived");
    let before = fs::read(board.root.join(CACHE)).unwrap();
    fs::write(board.root.join("reports/archive/101_test_a1.md"), boards::report("test", 101, 900))
        .unwrap();
    summaries.refresh(policy).unwrap();
    summaries.flush().unwrap();
    let after = fs::read(board.root.join(CACHE)).unwrap();
    let kept = before.len() - "}\n".len();
    assert_eq!(&after[..kept], &before[..kept], "what was there stands");
    assert!(after.len() > before.len());
    assert!(
        serde_json::from_slice::<serde_json::Value>(&after).unwrap()["TEST_101_a1"].is_object()
    );
    let mut warm = Summaries::open(&board.root, policy, Mode::ReadWrite);
    warm.refresh(policy).unwrap();
    assert_eq!(warm.counts.extracted, 0, "a warm start makes none again");
}

#[test]
fn a_report_that_says_nothing_is_counted_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let board = board(folder.path());
    fs::write(board.root.join(REPORT), "all is well\n").unwrap();
    let (summary, counts) = asked(&board, Mode::ReadWrite);
    assert_eq!(counts, Counts { failures: 1, ..EXTRACTED });
    assert_eq!(summary.head, ["all is well"]);
    let mut summaries = Summaries::open(&board.root, &board.pack.policy, Mode::ReadWrite);
    assert!(summaries.get("reports/report_nobody.md", &test(), &board.pack.policy).is_err());
    fs::create_dir(board.root.join("reports/report_odd.md")).unwrap();
    summaries.refresh(&board.pack.policy).unwrap();
}

#[test]
fn a_file_of_the_far_future_is_no_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let board = board(folder.path());
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(20_000_000_000);
    File::options().write(true).open(board.root.join(REPORT)).unwrap().set_modified(time).unwrap();
    for _ in 0..3 {
        assert_eq!(asked(&board, Mode::ReadWrite).0.verdict.as_deref(), Some("FAIL"));
    }
    let lines = fs::read_to_string(board.root.join(CACHE)).unwrap().lines().count();
    assert_eq!(lines, 4, "not a new line at each look");
}
