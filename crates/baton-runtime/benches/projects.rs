//! The cost of looking at a project of 10,000 files that did not change: a snapshot, and the search
//! for new repositories. `cargo bench -p baton-runtime --bench projects` prints it; nothing is
//! asserted.
#![expect(clippy::disallowed_methods, reason = "a benchmark writes a project")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use baton_runtime::repositories::Ground;
use baton_runtime::snapshot::Snapshots;
use baton_runtime::store::Disk;

const FILES: usize = 10_000;
const FOLDERS: usize = 500;
const TIMES: usize = 30;

fn project(root: &Path) {
    for number in 0..FILES {
        let folder = number % FOLDERS;
        let folder = root.join(format!("src/part{}/module{folder}", folder / 25));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("file{number}.rs")), format!("// {number}\n")).unwrap();
    }
    let rules = "target/\n*.log\n/dist\nnode_modules/\n*.pyc\n__pycache__/\n.env\n!keep.env\n";
    fs::write(root.join(".gitignore"), rules).unwrap();
    fs::create_dir_all(root.join(".baton")).unwrap();
}

fn timed(what: &str, mut run: impl FnMut()) {
    let mut times: Vec<Duration> = (0..TIMES)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{what:<48}{:>8.1} ms, best {:.1} ms", ms(times[TIMES / 2]), ms(times[0]));
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    project(&root);
    // Files that were changed in the last seconds are read again.
    std::thread::sleep(Duration::from_secs(4));
    let board = root.join(".baton");
    let mut snapshots = Snapshots::new(&root, &board, Disk::default());
    let start = Instant::now();
    snapshots.take().unwrap();
    println!("{FILES} files in {FOLDERS} folders, the first snapshot: {:?}", start.elapsed());
    timed("an unchanged snapshot", || drop(snapshots.take().unwrap()));
    timed("the same, in a new process", || {
        let mut snapshots = Snapshots::new(&root, &board, Disk::default());
        snapshots.take().unwrap();
    });
    let ground = Ground::within(&root, &board, Some(&folder.path().join("state")));
    let mut repositories = ground.open().unwrap();
    timed("the search for new repositories", || drop(repositories.move_new_aside().unwrap()));
}
