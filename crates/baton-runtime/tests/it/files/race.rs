//! Somebody swaps a folder for a link that leads out, again and again, while we read and write.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::ground::{CONTENT, Ground, NAME, count, run};

/// Swaps two names until it is told to stop; how often.
fn swapping(a: &Path, b: &Path, stop: &AtomicBool) -> u64 {
    let mut swaps = 0;
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
        swaps += 1;
    }
    swaps
}

/// As others do it: the path is looked at first and opened then.
fn looked_at_then_opened(project: &Path) -> Option<String> {
    let real = fs::canonicalize(project.join("swap/secret.txt")).ok()?;
    real.starts_with(project).then_some(())?;
    let mut said = String::new();
    File::open(project.join("swap/secret.txt")).ok()?.read_to_string(&mut said).ok()?;
    Some(said)
}

/// Ends the swapping, also when a test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nothing_escapes_while_a_folder_is_swapped() {
    let ground = Ground::new();
    ground.write("project/swap/secret.txt", "inside\n");
    symlink("../outside", ground.path("project/swapped")).unwrap();
    ground.write("project/name", "inside\n");
    symlink("../outside/secret.txt", ground.path("project/named")).unwrap();
    let before = ground.others();
    let project = ground.path("project");
    let shop = ground.shop();
    let tries = count(50_000, 1_000_000);
    let (stop, naive) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut good, mut refused) = (0_u64, 0_u64);
    let swaps = std::thread::scope(|scope| {
        let folder =
            scope.spawn(|| swapping(&project.join("swap"), &project.join("swapped"), &stop));
        let stops = Stops(&stop);
        let file = scope.spawn(|| swapping(&project.join("name"), &project.join("named"), &stop));
        for number in 0..tries {
            let said = match number % 100 {
                0 => run(&shop, "Read", json!({ "path": "swap/secret.txt" })),
                1 => run(&shop, "LS", json!({ "path": "swap" })),
                2 => run(&shop, "Grep", json!({ "pattern": "C[A]NARY.*", "path": "swap" })),
                3 => run(&shop, "Glob", json!({ "pattern": "*", "path": "swap" })),
                4 => run(
                    &shop,
                    "Edit",
                    json!({ "path": "swap/secret.txt", "old_string": "C", "new_string": "c" }),
                ),
                5 => run(&shop, "Write", json!({ "path": "swap/by-tool.txt", "content": "x" })),
                6 => format!("{:?}", shop.root.write("name", b"written\n")),
                7..30 => format!("{:?}", shop.root.write("swap/new.txt", b"written\n").is_ok()),
                30..40 => format!("{:?}", shop.root.write("swap/a/b", b"written\n").is_ok()),
                40..60 => {
                    if looked_at_then_opened(&project).is_some_and(|said| said.contains(CONTENT)) {
                        naive.fetch_add(1, Ordering::Relaxed);
                    }
                    String::new()
                }
                _ => match shop.root.read("swap/secret.txt") {
                    Ok(mut opened) => {
                        let mut said = String::new();
                        opened.file.read_to_string(&mut said).unwrap();
                        good += 1;
                        said
                    }
                    Err(_) => {
                        refused += 1;
                        String::new()
                    }
                },
            };
            assert!(!said.contains(CONTENT) && !said.contains(NAME), "try {number}: {said}");
        }
        drop(stops);
        folder.join().unwrap() + file.join().unwrap()
    });
    assert!(ground.others() == before, "something outside was changed");
    assert!(good > 0 && refused > 0, "the race was none: {good} {refused}");
    // The control: in a million tries the other way is fooled.
    let naive = naive.into_inner();
    assert!(naive > 0 || count(0, 1) == 0, "no path that was looked at first led out: no race");
    println!(
        "{tries} tries, {swaps} swaps: {good} read inside, {refused} refused, 0 escaped; looked at and then opened: {naive} of {} escaped",
        tries / 5
    );
}
