//! Each sync that fails, once: a retry would succeed, and lose what was written. So there is none: the
//! run stops where it is, and goes on from there when a person resumes it.

use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::{self, FULL};
use crate::reference::{FAILED, FINISHED};
use crate::sweep::{check_same, child, each, fresh, is_part, undisturbed};

fn stops(
    stride: usize,
    child: impl Fn(&Path, &str, u64) -> Output + Sync,
    check: impl Fn(&Path, &str) + Sync,
) {
    let folder = fresh();
    let output = child(folder.path(), "syncs", 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(FINISHED), "{said}");
    let synced: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("synced ")).collect();
    let all: Vec<(usize, &str)> = synced.into_iter().enumerate().collect();
    let of = all.len();
    let all = crate::sweep::among(all, stride);
    let stopped = AtomicUsize::new(0);
    each(&all, |(number, path)| {
        let what = format!("sync {number} of {of} fails, of {path}");
        let folder = fresh();
        let output = child(folder.path(), "one-sync", *number as u64);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // The cache and the index only save work: without them the run goes on.
        if !path.contains("/.baton/cache") {
            assert_eq!(output.status.code(), Some(FAILED), "{what}: {said}");
            assert!(said.contains("cannot sync"), "{what}: {said}");
            stopped.fetch_add(1, Ordering::SeqCst);
        }
        check(folder.path(), &what);
    });
    let stopped = stopped.into_inner();
    assert!(stopped > 0 || is_part());
    println!("{} of {of} syncs failed once, {stopped} of them stopped the run", all.len());
}

pub(crate) fn each_sync_that_fails_once_stops_the_run() {
    stops(17, child, |folder, what| {
        let output = child(folder, "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
        check_same(folder, undisturbed(), what);
    });
}

pub(crate) fn each_sync_that_fails_once_stops_an_agent() {
    let agent::Undisturbed { files, .. } = FULL.undisturbed();
    let child = |folder: &Path, fault: &str, number| FULL.child(folder, fault, number);
    stops(29, child, |folder, what| {
        FULL.check(folder, &files, what);
    });
}
