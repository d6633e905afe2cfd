//! Damage to the journal: torn, flipped, lost with the power; and rules that changed under it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_runtime::drive;
use baton_runtime::journal::{self, Error, Journal};
use baton_runtime::store::Disk;
use tempfile::TempDir;

use crate::reference;
use crate::sweep::{among, is_whole, seeds};

/// A finished reference run and the segments of its journal.
fn finished() -> (TempDir, PathBuf, Vec<Vec<u8>>) {
    let folder = reference::folder();
    reference::make(folder.path());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["child", folder.path().to_str().unwrap(), "none", "0"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let journal = reference::journal_of(folder.path());
    let segments: Vec<Vec<u8>> =
        (1..).map_while(|number| fs::read(segment(&journal, number)).ok()).collect();
    assert!(segments.len() > 1, "the journal has one segment only");
    (folder, journal, segments)
}

fn segment(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("{number:06}.log"))
}

/// A journal of these segments, in a folder of its own.
fn with(folder: &Path, segments: &[&[u8]]) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    for (index, bytes) in segments.iter().enumerate() {
        fs::write(segment(folder, index + 1), bytes).unwrap();
    }
}

/// The ends of the records.
fn ends(bytes: &[u8]) -> Vec<usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect()
}

pub(crate) fn a_torn_record_is_cut_and_said() {
    let (_keep, _, segments) = finished();
    let scratch = reference::folder();
    let folder = scratch.path().join("j");
    for count in 1..=segments.len() {
        let mut all: Vec<&[u8]> = segments[..count].iter().map(Vec::as_slice).collect();
        let bytes = &segments[count - 1];
        let ends = ends(bytes);
        for cut in among(0..bytes.len(), 7) {
            all[count - 1] = &bytes[..cut];
            with(&folder, &all);
            // A segment appears with its checkpoint or not at all: one without it is damage.
            if count > 1 && cut < ends[0] {
                let error = Journal::open(&folder, Disk::default()).unwrap_err();
                assert!(matches!(error, Error::Damaged { .. }), "cut at {cut}: {error}");
                continue;
            }
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let last = ends[..whole].last().copied().unwrap_or(0);
            let opened = Journal::open(&folder, Disk::default())
                .unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            let records = whole - usize::from(count > 1);
            assert_eq!((opened.records.len(), opened.torn), (records, cut - last), "cut at {cut}");
            assert_eq!(fs::metadata(segment(&folder, count)).unwrap().len(), last as u64);
        }
    }
}

pub(crate) fn a_flipped_bit_is_found() {
    let (_keep, _, segments) = finished();
    let scratch = reference::folder();
    let folder = scratch.path().join("j");
    let (mut before, mut flips) = (0, 0);
    for (index, bytes) in segments.iter().enumerate() {
        let ends = ends(bytes);
        // In the whole sweep each bit of each byte; else one bit of each byte of the first and the
        // last records.
        let all: Vec<(usize, usize)> = match is_whole() {
            true => among((0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))), 1),
            false => {
                let ends = (0..700).chain(bytes.len() - 700..bytes.len());
                ends.map(|at| (at, at % 8)).collect()
            }
        };
        flips += all.len();
        for (at, bit) in all {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << bit;
            let mut changed: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
            changed[index] = &bad;
            with(&folder, &changed);
            let line = ends.iter().filter(|end| **end <= at).count() as u64;
            let record = before + line + u64::from(index == 0);
            match Journal::open(&folder, Disk::default()) {
                Err(Error::Damaged { record: found, path, .. }) => {
                    assert_eq!(path, segment(&folder, index + 1), "flip at {at}");
                    // A lost line break is seen where it was, or in the line that it joined; a
                    // checkpoint is no record.
                    assert!(
                        found == record || found == record + 1 || index > 0 && line < 2,
                        "flip at {at} of segment {index}: {found}, not {record}"
                    );
                }
                other => panic!(
                    "flip at {at} of {}: {:?}",
                    bytes.len(),
                    other.map(|opened| opened.records.len())
                ),
            }
            let now = fs::read(segment(&folder, index + 1)).unwrap();
            assert_eq!(now, bad, "a damaged journal is not touched");
        }
        before += ends.len() as u64 - u64::from(index > 0);
    }
    println!("  {flips} flipped bits, each found");
}

/// Up to the last sync everything is on the disk; behind it each sector may be new, empty or missing.
pub(crate) fn acknowledged_records_survive() {
    const SECTOR: usize = 512;
    let (_keep, _, segments) = finished();
    let bytes = &segments[0];
    let ends = ends(bytes);
    let scratch = reference::folder();
    let folder = scratch.path().join("j");
    for seed in seeds(1_500, 10_000) {
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
        with(&folder, &[&image]);
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
    let (keep, journal, segments) = finished();
    let half = ends(&segments[0])[5];
    for change in [
        "memory/prompts/subagent_prompt_main.md",
        "memory/prompts/subagent_prompt_test.md",
        "memory/verification_policy.json",
    ] {
        let path = keep.path().join("project/.baton").join(change);
        let old = fs::read_to_string(&path).unwrap();
        with(&journal, &[&segments[0][..half]]);
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
            said.contains("changed since the run began") && said.contains(change),
            "{change}: {said}"
        );
        fs::write(&path, old).unwrap();
    }
    // An unknown version is refused by name, wherever it stands.
    let newer = |line: &str| {
        let json = line[18..].replacen("\"version\":2", "\"version\":9", 1);
        assert_ne!(json, line[18..]);
        let length = format!("{:08x}", json.len());
        let mut sum = crc32fast::Hasher::new();
        sum.update(length.as_bytes());
        sum.update(json.as_bytes());
        format!("{length} {:08x} {json}\n", sum.finalize())
    };
    let first_line =
        |bytes: &[u8]| newer(std::str::from_utf8(bytes).unwrap().lines().next().unwrap());
    let (first, second) = (first_line(&segments[0]), first_line(&segments[1]));
    for changed in [vec![first.as_bytes()], vec![&segments[0], second.as_bytes()]] {
        with(&journal, &changed);
        let error = journal::look(&journal).unwrap_err();
        assert_eq!(error.to_string(), "the journal is of version 9, this program knows 1 to 2");
        let error = Journal::open(&journal, Disk::default()).unwrap_err();
        assert!(matches!(error, Error::Version { found: 9, known: 2 }), "{error}");
    }
    let _ = drive::last_run(&reference::open(keep.path())).unwrap();
}
