//! Fuzz targets for every parser. Under `cargo test` they run on random bytes and on random
//! pieces of our own grammars (`BATON_FUZZ_ITERATIONS=1000000` for longer); `cargo bolero test
//! fuzz::report` and the like fuzz by coverage.

use crate::hostile::Parsers;

/// Pieces from which near-valid texts grow; plain random bytes hardly ever hold a key line.
const PIECES: [&str; 70] = [
    "iteration: 7",
    "结论：",
    "PASS",
    "FAIL",
    "BLOCKED",
    "阻塞：",
    "无",
    "verdict: ",
    "blockers:",
    "\n",
    "\r",
    "\r\n",
    "- ",
    "* ",
    "1. ",
    "  ",
    "\t",
    "[impl] ",
    "【env】",
    "```",
    "~~~",
    "**",
    "_",
    "`",
    "# ",
    "## ",
    "### ",
    "#### ",
    "Milestone M1: ",
    "M1-T1: ",
    "status: TODO",
    "update M1-T1 status to DONE",
    "; ",
    "add M1-T2: x under M1",
    "set M1-T1 evidence: ",
    "Iteration 5: [MILESTONE] ",
    "Task Goal (New Task) - 2026-01-31T00:44:55",
    "User Decision (Iteration 2): ",
    "{\"next_agent\":\"TEST\",",
    "\"reason\":\"x\",",
    "\"dev_plan\":null,",
    "\"finish_review_override\":null}",
    "[[agents]]\n",
    "name = \"x\"",
    "<!--",
    "-->",
    "\u{feff}",
    "中文 text",
    "{\"status\":\"success\",\"data\":{",
    "\"stdout\":\"",
    "\"entries\":[",
    "\"truncated\":true,",
    "error: x at src/lib.rs:4:5\\n",
    "3 failed, ",
    "\",",
    "1,",
    "]",
    "}",
    "@src/lib.rs",
    "@\"",
    "{\"messages\":[",
    "{\"msgs\":[",
    "{\"role\":\"assistant\",\"content\":\"x\"},",
    "{\"r\":\"obs\",\"t\":\"snake_case",
    "\"}",
    "{\"type\":\"user\",\"message\":{\"content\":\"",
    "00000012 00000000 ",
    "\\ud83d",
    "{\"version\":\"2.0\",\"handoff_type\":\"execute_to_init\",",
    "\"failure_samples_index\":[{\"sample_id\":\"x\",",
];

fn fuzz(parser: &str) {
    let parsers = Parsers::new();
    let asked = std::env::var("BATON_FUZZ_ITERATIONS").ok();
    let iterations = asked.map_or(20_000, |asked| asked.parse().unwrap());
    bolero::check!().with_iterations(iterations).with_max_len(2_048).for_each(|input: &[u8]| {
        parsers.run(parser, input);
        let grown: String =
            input.iter().map(|byte| PIECES[usize::from(*byte) % PIECES.len()]).take(200).collect();
        parsers.run(parser, grown.as_bytes());
    });
}

macro_rules! targets {
    ($($name:ident),*) => { $( #[test] fn $name() { fuzz(stringify!($name)); } )* };
}

targets!(
    report,
    plan,
    statements,
    decision,
    history,
    policy,
    manifest,
    config,
    prompt,
    observation,
    mention,
    recording,
    package
);
