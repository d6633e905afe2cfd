//! Blackboards of any length, as a long run leaves them: deterministic, with real plan, history,
//! reports and archive.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use baton_runtime::board::{Board, NewBoard};
use baton_runtime::load::Environment;

/// How large a blackboard is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) iterations: u32,
    /// Bytes of one history entry, about.
    pub(crate) entry: usize,
    /// Bytes of one report, about.
    pub(crate) report: usize,
    /// Of how many of the last iterations the archive holds the reports.
    pub(crate) archived: u32,
}

pub(crate) const SMALL: Size = Size { iterations: 8, entry: 900, report: 8_000, archived: 8 };
pub(crate) const HUNDRED: Size =
    Size { iterations: 100, entry: 1_000, report: 12_000, archived: 100 };
pub(crate) const THOUSAND: Size =
    Size { iterations: 1_000, entry: 1_000, report: 30_000, archived: 30 };

pub(crate) fn make(root: &Path, size: Size) -> Board {
    NewBoard { root, pack: "tdd", language: "en" }.create().unwrap();
    let memory = root.join("memory");
    fs::write(memory.join("global_context.md"), global_context()).unwrap();
    fs::write(memory.join("dev_plan.md"), plan(size.iterations)).unwrap();
    let mut history = "## Task Goal (New Task) - 2026-01-31T00:44:55\nMake every function of the calculator safe.\n\n".to_owned();
    for number in 1..=size.iterations {
        history.push_str(&entry(number, size.entry));
    }
    fs::write(memory.join("project_history.md"), history).unwrap();
    for (index, agent) in ["test", "dev", "review"].into_iter().enumerate() {
        let last = size.iterations.saturating_sub(index as u32).max(1);
        fs::write(
            root.join(format!("reports/report_{agent}.md")),
            report(agent, last, size.report),
        )
        .unwrap();
        fs::write(
            root.join(format!("workspace/{agent}/current_task.md")),
            format!("iteration: {last}\nDo M1-T{last}.\n"),
        )
        .unwrap();
    }
    for number in size.iterations.saturating_sub(size.archived) + 1..=size.iterations {
        let agent = agent_of(number);
        let text = report(agent, number, size.report);
        fs::write(root.join(format!("reports/archive/{number}_{agent}_a1.md")), text).unwrap();
    }
    open(root)
}

pub(crate) fn open(root: &Path) -> Board {
    Board::open(root, &Environment::of(&[])).unwrap()
}

fn agent_of(number: u32) -> &'static str {
    ["test", "dev", "review"][number as usize % 3]
}

fn global_context() -> String {
    "# Project\n\n## Goal\nEvery arithmetic function reports overflow as an error and never panics.\n\n\
     ## Constraints\nRust 2024, no new dependency, no unsafe code.\n\n\
     ## Build and test\n`cargo test --workspace`, coverage with `cargo llvm-cov`.\n"
        .to_owned()
}

/// One task for ten iterations, as a long run has them.
fn plan(iterations: u32) -> String {
    let mut out = "# Plan\n".to_owned();
    for number in 1..=(iterations / 10).clamp(3, 40) {
        if number % 8 == 1 {
            let _ = writeln!(out, "\n## Milestone M{}: part {}\n", number / 8 + 1, number / 8 + 1);
        }
        let status = if number * 10 < iterations { "VERIFIED" } else { "IN_PROGRESS" };
        let _ = writeln!(
            out,
            "### M{}-T{number}: function {number} reports overflow\n- status: {status}\n- test_required: true\n- acceptance: returns Error::Overflow when the result does not fit\n- evidence: iteration {}, TEST PASS\n",
            number / 8 + 1,
            number * 10
        );
    }
    out
}

/// As a run writes it; every tenth is a milestone.
pub(crate) fn entry(number: u32, bytes: usize) -> String {
    let milestone = if number.is_multiple_of(10) { ": [MILESTONE] TEST PASS again" } else { "" };
    let agent = agent_of(number).to_uppercase();
    let mut out = format!(
        "## Iteration {number}{milestone}\nnext_agent: {agent}\nreason: M1-T{number}: function {number} still panics at its upper limit; the work order names the failing case and the file.\n\
         dev_plan: M1-T{number} TODO→IN_PROGRESS\nblockers: [impl] src/f{number}.rs:{} overflow in f{number}()\n",
        number * 7 % 400
    );
    let note = format!(
        "note: attempt {number} used wrapping arithmetic, which hides the fault; checked_add is the way. "
    );
    while out.len() + note.len() < bytes {
        out.push_str(&note);
        out.push('\n');
    }
    out.push('\n');
    out
}

/// A report with key lines, changes, evidence and the output it quotes.
pub(crate) fn report(agent: &str, iteration: u32, bytes: usize) -> String {
    let mut out = format!(
        "iteration: {iteration}\nverdict: FAIL\nblockers:\n- [impl] src/f{iteration}.rs:42 f{iteration}() panics on overflow; M1-T{iteration} asks for Error::Overflow\n"
    );
    out.push_str(match agent {
        "test" => "test command: cargo test --workspace\nfailed cases: overflow_is_an_error\ncoverage: 83%\n",
        "dev" => "changed files: src/lib.rs, src/error.rs\nself-test: cargo test, exit 101, 41 passed, 1 failed\n",
        _ => "sources: src/lib.rs, tests/add.rs\nchecks: read the diff; ran cargo test --workspace\n",
    });
    let _ = write!(
        out,
        "\n## What changed\n- src/f{iteration}.rs: checked arithmetic\n\n## Evidence\n- cargo test --workspace: exit 101, 1 failed\n\n## Output\n```\n"
    );
    let mut line = 0;
    while out.len() < bytes {
        line += 1;
        let _ = writeln!(
            out,
            "test case_{line}_of_f{iteration} ... ok ({} µs, seed {})",
            line * 37 % 900,
            line * 7919 % 100_003
        );
    }
    out.push_str("```\n");
    out
}
