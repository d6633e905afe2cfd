//! What a person waits for and what it weighs: start-up, a report of the full size, memory, the
//! binary. `cargo bench -p baton-cli` prints the figures; nothing is asserted.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts processes and writes files")]
#![expect(clippy::print_stdout, reason = "the figures are the result")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// The median of 41 runs, in milliseconds.
fn median(program: &str, args: &[&str], folder: &Path) -> f64 {
    let mut times: Vec<f64> = (0..41)
        .map(|_| {
            let start = Instant::now();
            let mut command = Command::new(program);
            command.args(args).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
            assert!(command.status().unwrap().success(), "{args:?}");
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The smallest address space, in MB, in which the command still succeeds.
fn address_space(args: &[&str], folder: &Path) -> u32 {
    let fits = |megabytes: u32| {
        let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", megabytes * 1024);
        let mut command = Command::new("sh");
        command.args(["-c", &script, BATON]).args(args).current_dir(folder);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    };
    (1..=256).find(|megabytes| fits(*megabytes)).unwrap_or(u32::MAX)
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(Command::new(BATON).arg("init").current_dir(folder).output().unwrap().status.success());
    let prose = "A line of a report, as agents write it, with a number 42 in it.\n".repeat(66_000);
    let report =
        format!("iteration: 7\nverdict: FAIL\nblockers:\n- [impl] x\n\n{}", &prose[..4_194_000]);
    std::fs::write(folder.join("report_test.md"), &report).unwrap();

    let nothing = median("true", &[], folder);
    println!("start of a process that does nothing      {nothing:>7.2} ms");
    for args in
        [&["--version"][..], &["--help"], &["pack", "check"], &["plan", "check"], &["doctor"]]
    {
        let name = format!("baton {}", args.join(" "));
        println!("{name:<41} {:>7.2} ms", median(BATON, args, folder));
    }
    let check = ["report", "check", "report_test.md"];
    println!(
        "report check, {} bytes               {:>7.2} ms",
        report.len(),
        median(BATON, &check, folder)
    );
    println!("report check, address space               {:>7} MB", address_space(&check, folder));
    println!(
        "baton --version, address space            {:>7} MB",
        address_space(&["--version"], folder)
    );
    println!(
        "binary                                    {:>7.2} MB",
        std::fs::metadata(BATON).unwrap().len() as f64 / 1e6
    );
}
