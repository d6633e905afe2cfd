//! Damage to the journal: torn, flipped, lost with the power; and rules that changed under it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_runtime::drive;
use baton_runtime::journal::{self, Error, Journal};
use baton_runtime::store::Disk;
use tempfile::TempDir;

use crate::reference;

/// A finished reference run.
fn finished() -> (TempDir, PathBuf, Vec<u8>) {
    let folder = TempDir::new().unwrap();
    reference::make(folder.path());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["child", folder.path().to_str().unwrap(), "none", "0"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let journal = folder.path().join("project/.baton/journal/run-0001");
    let bytes = fs::read(journal.join("000001.log")).unwrap();
    (folder, journal, bytes)
}

fn is_whole() -> bool {
    std::env::var("BATON_SWEEP").is_ok_and(|word| word == "all")
}

/// A journal of these bytes, in a folder of its own.
fn with(folder: &Path, bytes: &[u8]) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("000001.log"), bytes).unwrap();
}

/// The ends of the records.
fn ends(bytes: &[u8]) -> Vec<usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect()
}

pub(crate) fn a_torn_record_is_cut_and_said() {
    let (_keep, _, bytes) = finished();
    let ends = ends(&bytes);
    let scratch = TempDir::new().unwrap();
    let folder = scratch.path().join("j");
    let step = if is_whole() { 1 } else { 7 };
    for cut in (0..bytes.len()).step_by(step) {
        with(&folder, &bytes[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let last = ends[..whole].last().copied().unwrap_or(0);
        let opened = Journal::open(&folder, Disk::default())
            .unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert_eq!((opened.records.len(), opened.torn), (whole, cut - last), "cut at {cut}");
        assert_eq!(fs::metadata(folder.join("000001.log")).unwrap().len(), last as u64);
    }
}

pub(crate) fn a_flipped_bit_is_found() {
    let (_keep, _, bytes) = finished();
    let ends = ends(&bytes);
    let scratch = TempDir::new().unwrap();
    let folder = scratch.path().join("j");
    // Whole, it is one flip for every byte; else for the first and the last records.
    let all: Vec<usize> = match is_whole() {
        true => (0..bytes.len()).collect(),
        false => (0..1_500).chain(bytes.len() - 1_500..bytes.len()).collect(),
    };
    for at in all {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        with(&folder, &bad);
        let record = ends.iter().filter(|end| **end <= at).count() as u64 + 1;
        match Journal::open(&folder, Disk::default()) {
            Err(Error::Damaged { record: found, .. }) => {
                // A lost line break is seen where it was, or in the line that it joined.
                assert!(
                    found == record || found == record + 1,
                    "flip at {at}: {found}, not {record}"
                );
            }
            other => panic!(
                "flip at {at} of {}: {:?}",
                bytes.len(),
                other.map(|opened| opened.records.len())
            ),
        }
        assert_eq!(
            fs::read(folder.join("000001.log")).unwrap(),
            bad,
            "a damaged journal is not touched"
        );
    }
}

/// Up to the last sync everything is on the disk; behind it each sector may be new, empty or missing.
pub(crate) fn acknowledged_records_survive() {
    const SECTOR: usize = 512;
    let (_keep, _, bytes) = finished();
    let ends = ends(&bytes);
    let scratch = TempDir::new().unwrap();
    let folder = scratch.path().join("j");
    let seeds = if is_whole() { 10_000 } else { 1_500 };
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        // The record that was being written when the power went.
        let writing = random.usize(..ends.len());
        let synced = if writing == 0 { 0 } else { ends[writing - 1] };
        let mut image = bytes[..synced].to_vec();
        let mut at = synced;
        while at < ends[writing] {
            let next = ((at / SECTOR + 1) * SECTOR).min(ends[writing]);
            match random.u8(..3) {
                0 => break,
                1 => image.extend(std::iter::repeat_n(0, next - at)),
                _ => image.extend_from_slice(&bytes[at..next]),
            }
            at = next;
        }
        with(&folder, &image);
        match Journal::open(&folder, Disk::default()) {
            Ok(opened) => assert!(
                opened.records.len() >= writing,
                "seed {seed}: {} of {writing}",
                opened.records.len()
            ),
            // A hole that is shorter than any sector's cannot be told from damage.
            Err(error) => {
                let hole =
                    image[synced..].split(|byte| *byte != 0).map(<[u8]>::len).max().unwrap_or(0);
                assert!(hole < 16, "seed {seed}: {error}");
            }
        }
    }
}

pub(crate) fn changed_rules_are_named() {
    let (keep, journal, bytes) = finished();
    let half = ends(&bytes)[5];
    for (change, named) in [
        ("memory/prompts/subagent_prompt_main.md", "prompt of MAIN"),
        ("memory/prompts/subagent_prompt_test.md", "prompt of TEST"),
        ("memory/verification_policy.json", "policy"),
    ] {
        let path = keep.path().join("project/.baton").join(change);
        let old = fs::read_to_string(&path).unwrap();
        with(&journal, &bytes[..half]);
        let new = match change.ends_with(".json") {
            true => old.replace("\"max_finish_attempts\": 3", "\"max_finish_attempts\": 4"),
            false => format!("{old}\nMore.\n"),
        };
        assert_ne!(new, old);
        fs::write(&path, new).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["child", keep.path().to_str().unwrap(), "none", "0"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.contains("changed since the run began") && said.contains(named),
            "{change}: {said}"
        );
        fs::write(&path, old).unwrap();
    }
    // An unknown version is refused by name.
    let text = String::from_utf8(bytes).unwrap();
    let first = text.lines().next().unwrap();
    let json = first[18..].replace("\"version\":1", "\"version\":9");
    let length = format!("{:08x}", json.len());
    let mut sum = crc32fast::Hasher::new();
    sum.update(length.as_bytes());
    sum.update(json.as_bytes());
    with(&journal, format!("{length} {:08x} {json}\n", sum.finalize()).as_bytes());
    let error = journal::look(&journal).unwrap_err();
    assert_eq!(error.to_string(), "the journal is of version 9, this program knows 1");
    let _ = drive::last_run(&reference::open(keep.path())).unwrap();
}
