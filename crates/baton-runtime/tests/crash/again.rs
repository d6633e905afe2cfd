//! Killed again while it resumes from a kill: every pair of points of a small run, and chains of five
//! in the full one; by the script and with the built-in agent.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::{self, FULL, SMALL};
use crate::reference::FINISHED;
use crate::sweep::{self, check_same, child, chosen, each, fresh, is_part, is_whole, seeds};

/// Kills at each first point, and each such run again at each point that it then passes.
fn pairs(
    points: u64,
    stride: usize,
    child: impl Fn(&Path, &str, u64) -> Output + Sync,
    check: impl Fn(&Path, &str) + Sync,
) -> usize {
    let step = if is_whole() { 1 } else { 19 };
    let count = AtomicUsize::new(0);
    each(&chosen(points, stride), |first| {
        let mut second = first % step;
        loop {
            let folder = fresh();
            let output = child(folder.path(), "kill", *first);
            assert_eq!(output.status.signal(), Some(9), "not killed at {first}: {output:?}");
            let what = format!("killed at {first} of {points}, then at {second}");
            let output = child(folder.path(), "kill", second);
            check(folder.path(), &what);
            if output.status.signal() != Some(9) {
                assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
                break;
            }
            count.fetch_add(1, Ordering::SeqCst);
            second += step;
        }
    });
    count.into_inner()
}

pub(crate) fn killed_at_every_pair_of_points() {
    let expected = sweep::run_undisturbed("small-");
    let script =
        |folder: &Path, fault: &str, number| child(folder, &format!("small-{fault}"), number);
    let count = pairs(expected.points, 43, script, |folder, what| {
        let output = script(folder, "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
        check_same(folder, &expected, what);
    });
    assert!(count > 15 || is_part(), "{count}");
    println!("{count} pairs of {} points: the same board", expected.points);
}

pub(crate) fn killed_at_every_pair_of_points_with_an_agent() {
    let agent::Undisturbed { files, points, .. } = SMALL.undisturbed();
    let agent = |folder: &Path, fault: &str, number| SMALL.child(folder, fault, number);
    let count = pairs(points, 61, agent, |folder, what| {
        SMALL.check(folder, &files, what);
    });
    assert!(count > 15 || is_part(), "{count}");
    println!("{count} pairs of {points} points with the built-in agent: the same board");
}

pub(crate) fn killed_again_and_again_with_an_agent() {
    let agent::Undisturbed { files, points, .. } = FULL.undisturbed();
    let seeds = seeds(12, 1_000);
    each(&seeds, |seed| {
        let mut random = fastrand::Rng::with_seed(*seed);
        let folder = fresh();
        let mut history = vec![random.u64(..points)];
        history.extend(std::iter::repeat_with(|| random.u64(..90)).take(4));
        for point in &history {
            FULL.child(folder.path(), "kill", *point);
        }
        FULL.check(folder.path(), &files, &format!("killed at {history:?}"));
    });
    println!("{} chains of five kills with the built-in agent", seeds.len());
}
