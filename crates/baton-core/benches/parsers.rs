//! How long each parser takes on a text and on one ten times as large. `cargo bench -p baton-core`
//! prints a table; the last column is the ratio, 10 for a linear parser. Nothing is asserted.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock and the packs")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

#[path = "../tests/it/common.rs"]
mod common;

use std::time::{Duration, Instant};

use baton_core::decision::{self, Moment};
use baton_core::pack::Pack;
use baton_core::plan::{Plan, parse_statements};
use baton_core::report::{self, Expected};
use baton_core::{history, tokens};

fn best_of<T>(mut run: impl FnMut() -> T) -> Duration {
    (0..9)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(run());
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn row(name: &str, sizes: [usize; 2], text: impl Fn(usize) -> String, run: impl Fn(&str)) {
    let [small, large] = sizes.map(|size| {
        let text = text(size);
        (text.len(), best_of(|| run(&text)))
    });
    let ratio = large.1.as_secs_f64() / small.1.as_secs_f64();
    let rate = large.0 as f64 / large.1.as_secs_f64() / 1e6;
    println!(
        "{name:<34} {:>9} B {:>9.3} ms   {:>9} B {:>9.3} ms   {rate:>8.0} MB/s   {ratio:>5.1}x for {:.1}x",
        small.0,
        small.1.as_secs_f64() * 1e3,
        large.0,
        large.1.as_secs_f64() * 1e3,
        large.0 as f64 / small.0 as f64,
    );
}

fn filled(head: &str, part: &str, size: usize) -> String {
    format!("{head}{}", part.repeat(size / part.len()))
}

/// A tenth of the limit, and the limit.
const LIMIT: [usize; 2] = [400_000, 4_000_000];

fn reports(pack: &Pack) {
    let expected = Expected { agent: pack.manifest.agent_names()[0].clone(), iteration: None };
    let rules = &pack.policy.report_rules;
    let read = |text: &str| drop(report::read(text.as_bytes(), rules, &expected));
    let head = "iteration: 7\n结论：FAIL\n阻塞：\n- [impl] a\n- b\n\n";
    let bare = "iteration: 7\n结论：FAIL\n阻塞：";
    row(
        "report, prose",
        LIMIT,
        |size| filled(head, "A line of a report, as agents write it.\n", size),
        read,
    );
    row("report, one line", LIMIT, |size| filled(head, "a", size), read);
    row("report, empty lines", LIMIT, |size| filled(head, "\n", size), read);
    row("report, lines like key lines", LIMIT, |size| filled(head, "i\nv\n结\n", size), read);
    row(
        "report, a thousand long blockers",
        LIMIT,
        |size| filled(bare, &format!("\n- {}", "no ".repeat(size / 3_000)), size),
        read,
    );
    row("report, a blocker of brackets", LIMIT, |size| filled(bare, "[x", size), read);
}

fn plans(pack: &Pack) {
    let rules = &pack.policy.plan;
    let read = |text: &str| drop(Plan::read(text, rules));
    let task = |n| format!("### M1-T{n:05}: a task\n- status: TODO\n- evidence: nothing\n");
    row("plan, tasks", [40_000, 400_000], |size| (0..size / 57).map(task).collect(), read);
    row("plan, prose", LIMIT, |size| filled("", "A line that a person wrote.\n", size), read);
    let statement = "update M1-T1 status to DONE\n";
    row(
        "statements",
        [500, 5_000],
        |size| filled("", statement, size),
        |text| drop(parse_statements(text)),
    );
}

fn decisions(pack: &Pack) {
    let agents = pack.manifest.agent_names();
    let read = |text: &str| drop(decision::read(text, &agents, Moment::Ordinary));
    let long_reason = |size: usize| {
        let reason = "a reason\\n".repeat(size / 10);
        format!(
            "{{\"next_agent\":\"TEST\",\"reason\":\"{reason}\",\"dev_plan\":null,\"finish_review_override\":null}}"
        )
    };
    row("decision, a long reason", [100_000, 1_000_000], long_reason, read);
    let many_keys = |size: usize| {
        let keys: Vec<String> = (0..size / 12).map(|n| format!("\"k{n:06}\":0")).collect();
        format!("{{{}}}", keys.join(","))
    };
    row("decision, many unknown keys", [100_000, 1_000_000], many_keys, read);
}

fn others() {
    let sizes = [1_000_000, 10_000_000];
    let entry = |n| {
        format!(
            "## Iteration {n}: x\nnext_agent: TEST\nreason: because of something\ndev_plan: M1-T1 TODO→DONE\n\n"
        )
    };
    row(
        "history",
        sizes,
        |size| (0..size / 100).map(entry).collect(),
        |text| drop(history::read(text)),
    );
    let count = |text: &str| {
        std::hint::black_box(tokens::count(text));
    };
    row("tokens, code", sizes, |size| filled("", "let x = foo_bar(42); // 注释\n", size), count);
    row("tokens, one run of letters", sizes, |size| filled("", "a", size), count);
}

/// How far the cheap estimate is from the exact count, before any correction.
fn estimates() {
    let prompts = |language: &str| -> String {
        ["tdd", "novel", "analysis"]
            .iter()
            .flat_map(|name| common::pack(name, language).prompts.into_values())
            .collect()
    };
    let code = include_str!("../src/report.rs").to_owned() + include_str!("../src/policy.rs");
    for (name, text) in [
        ("English prompts", prompts("en")),
        ("Chinese prompts", prompts("zh")),
        ("Rust code", code),
    ] {
        let (exact, estimate) = (tokens::count(&text).0, tokens::raw_estimate(&text).0);
        let wide = text.chars().filter(|c| !c.is_ascii()).count();
        println!(
            "{name:<34} {:>9} B, {wide} wide characters: {exact} tokens, estimated {estimate} ({:.2}x)",
            text.len(),
            estimate as f64 / exact as f64
        );
    }
}

fn main() {
    estimates();
    let pack = common::pack("tdd", "zh");
    reports(&pack);
    plans(&pack);
    decisions(&pack);
    others();
}
