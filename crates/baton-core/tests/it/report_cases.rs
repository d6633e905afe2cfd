//! Reports, good and bad: `tests/cases/report/`. Each case promises in its name what holds, and says
//! what is read from the report or the exact words of every refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use baton_core::id::{AgentName, Iteration};
use baton_core::policy::ReportRules;
use baton_core::problem::Problem;
use baton_core::report::{self, Expected, Report};
use baton_core::text;

use crate::cases::{self, Case};
use crate::common;
use crate::corpus;

/// Every code that `report::read` can answer with.
const CODES: [&str; 18] = [
    "report-size",
    "report-encoding",
    "report-empty",
    "iteration-missing",
    "iteration-twice",
    "iteration-malformed",
    "iteration-foreign",
    "verdict-missing",
    "verdict-twice",
    "verdict-unknown",
    "blockers-missing",
    "blockers-twice",
    "blockers-too-many",
    "blockers-empty",
    "blockers-contradict",
    "blockers-unclear",
    "pass-with-blockers",
    "no-blockers",
];

/// The report rules of each pack in each language.
static RULES: LazyLock<BTreeMap<(&str, &str), ReportRules>> = LazyLock::new(|| {
    let both = crate::PACKS.into_iter().flat_map(|pack| crate::LANGUAGES.map(|own| (pack, own)));
    both.map(|(pack, own)| ((pack, own), common::pack(pack, own).policy.report_rules)).collect()
});

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| cases::all("report", "report"));

/// Pack and language.
fn board(case: &Case) -> (&str, &str) {
    (&case.settings[0], &case.settings[1])
}

fn read(case: &Case) -> Result<Report, Vec<Problem>> {
    read_by(case, board(case))
}

/// Reads the report by the rules of a pack in a language.
fn read_by(case: &Case, board: (&str, &str)) -> Result<Report, Vec<Problem>> {
    let [_, _, agent, iteration, more @ ..] = &case.settings[..] else {
        panic!("{}: pack, language, agent, iteration", case.name);
    };
    let mut rules = RULES[&board].clone();
    let mut input = case.input.clone();
    for word in more {
        match word.as_str() {
            "review-not-in-apply-to" => rules.apply_to.retain(|agent| *agent != "REVIEW"),
            "verdict-not-required" => rules.require_verdict = false,
            "made" => input = made(&case.name),
            "escaped" => {}
            word => panic!("{}: what is {word}?", case.name),
        }
    }
    let iteration = (iteration != "any").then(|| Iteration(iteration.parse().unwrap()));
    let expected = Expected { agent: AgentName::new(agent).unwrap(), iteration };
    report::read(&input, &rules, &expected)
}

/// The reports that are too long to be written out.
fn made(name: &str) -> Vec<u8> {
    match name {
        "a-thousand-blockers-are-read" => blockers(1_000),
        "more-than-a-thousand-blockers-are-a-log" => blockers(1_001),
        "report-of-exactly-4-mib-is-read" => filled(4 << 20),
        "report-over-4-mib-is-refused-by-its-size" => filled((4 << 20) + 1),
        "key-lines-at-the-end-of-several-screens" => {
            let screens: String =
                (1..=400).map(|n| format!("- step {n}: ran case {n}, exit code 0\n")).collect();
            format!("# Report\n\n{screens}\niteration: 7\nverdict: PASS\nblockers: none\n").into()
        }
        "zh-key-lines-at-the-end-of-several-screens" => {
            let screens: String =
                (1..=400).map(|n| format!("第 {n} 步：运行用例 {n}，退出码 0。\n")).collect();
            let end = "iteration: 7\n结论：FAIL\n阻塞：\n- 用例 12 结果不符\n";
            format!("# 报告\n\n{screens}\n{end}").into()
        }
        _ => panic!("{name} has no recipe here"),
    }
}

fn blockers(count: usize) -> Vec<u8> {
    let list: String = (1..=count).map(|n| format!("- case {n} fails\n")).collect();
    format!("iteration: 7\nverdict: FAIL\nblockers:\n{list}").into()
}

/// A good report of exactly this many bytes.
fn filled(bytes: usize) -> Vec<u8> {
    let mut text = b"iteration: 7\nverdict: PASS\nblockers: none\n".to_vec();
    text.resize(bytes, b'.');
    text
}

/// The report as it was read, or why it was refused.
fn found(case: &Case) -> Vec<String> {
    let report = match read(case) {
        Ok(report) => report,
        Err(problems) => return corpus::refusals(&problems),
    };
    let verdict = match &report.verdict {
        Some(verdict) => format!("{} ({:?})", verdict.word, verdict.outcome),
        None => "without a verdict".to_owned(),
    };
    let mut out = vec![format!("ok: {} {verdict}", report.iteration)];
    let shown = report.blockers.iter().take(5);
    out.extend(shown.map(|own| format!("{}: {}", own.class, text::shown(&own.text, 200))));
    if report.blockers.len() > 5 {
        out.push(format!("… {} in all", report.blockers.len()));
    }
    out
}

#[test]
fn every_case_is_read_or_refused_as_it_says() {
    cases::check(&CASES, found);
}

#[test]
fn the_corpus_is_broad_and_every_code_occurs() {
    corpus::check_breadth(&CASES, &CODES, |case| read(case).err().unwrap_or_default());
}

#[test]
fn every_verdict_of_every_pack_is_read() {
    let mut words: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for case in CASES.iter() {
        let verdict = read(case).ok().and_then(|report| report.verdict);
        words.entry(board(case)).or_default().extend(verdict.map(|verdict| verdict.word));
    }
    for (board, rules) in RULES.iter() {
        // A pack without cases of its own has the words of one that has them.
        let known = if board.0 == "scenario" { ("tdd", board.1) } else { *board };
        let allowed = rules.verdict_allowed.iter().cloned().collect();
        assert_eq!(words[&known], allowed, "{board:?}");
    }
}

#[test]
fn control_characters_stay_in_the_value() {
    let text = |name: &str| {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        read(case).unwrap().blockers.remove(0).text
    };
    assert_eq!(text("terminal-escapes-in-a-blocker-are-kept"), "\u{1b}[31merror\u{1b}[0m in add()");
    assert_eq!(text("bidi-controls-in-a-blocker-are-kept"), "file \u{202e}sr.bil\u{202c} is wrong");
}

#[test]
fn no_message_holds_a_control_character() {
    corpus::check_messages(&CASES, |case| read(case).err().unwrap_or_default());
}

#[test]
fn every_refusal_is_in_chinese_for_a_chinese_pack() {
    for case in CASES.iter() {
        // Also by the rules of the Chinese pack, whose key lines an English report does not have.
        for rules in [board(case), (board(case).0, "zh")] {
            let problems = read_by(case, rules).err().unwrap_or_default();
            corpus::check_chinese(&problems, &String::from_utf8_lossy(&case.input), &case.place());
        }
    }
}

#[test]
fn refusals_in_chinese_say_what_is_wrong_where_and_what_is_expected() {
    let names = [
        "zh-verdict-in-code-fence-does-not-count",
        "zh-two-items-without-a-bare-verdict-are-refused-even-if-both-agree",
        "zh-clear-value-among-blockers-contradicts",
        "zh-a-list-announced-on-the-line-is-not-lost",
        "zh-report-in-gbk-is-not-utf8",
        "more-than-a-thousand-blockers-are-a-log",
    ];
    let problems = |case: &Case| read(case).err().unwrap_or_default();
    let shown = names.map(|name| corpus::in_chinese(&CASES, name, problems));
    insta::assert_snapshot!(shown.join("\n"), @"
    第 3 行第 1 列：缺少结论行（`结论：PASS` 写在代码块里）；要求：`结论：` 后写 `PASS`、`FAIL`、`BLOCKED` 之一
    第 3 行第 1 列：此处重复了结论行（首次出现在第 2 行）；要求：只写一次
    第 4 行第 1 列：`无` 与其他阻塞并列；要求：只写 `无`，或只写阻塞
    第 4 行第 1 列：阻塞行已写了 `两个问题：`，此处又列出阻塞；要求：写在行内或写成列表，二选一
    第 2 行第 1 列：报告不是 UTF-8 编码：此处的字节是 `0xbd`；要求：UTF-8 文本
    第 3 行第 10 列：列出的阻塞超过 1000 个；要求：只列起决定作用的阻塞；日志放进代码块
    ");
}
