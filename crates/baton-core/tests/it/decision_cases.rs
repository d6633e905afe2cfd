//! Decisions of MAIN, good and bad: `tests/cases/decision/`. Each case promises in its name what
//! holds, and says what is read from the answer or the exact words of every refusal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use baton_core::decision::{self, Decision, Moment, Next, PlanChange};
use baton_core::id::AgentName;
use baton_core::problem::Problem;
use baton_core::text;

use crate::cases::{self, Case};
use crate::common;
use crate::corpus;

/// Every code that `decision::read` can answer with, those of the JSON and of the statements
/// among them.
const CODES: [&str; 22] = [
    "document-size",
    "json-syntax",
    "json-trailing",
    "json-depth",
    "json-escape",
    "json-number",
    "json-duplicate-key",
    "key-missing",
    "key-unknown",
    "value-type",
    "statement-none",
    "statement-unknown",
    "statement-malformed",
    "statement-too-many",
    "decision-type",
    "decision-unknown-agent",
    "decision-no-question",
    "decision-question",
    "decision-override",
    "decision-options",
    "decision-two-tasks",
    "decision-empty",
];

/// The agents of each pack; they are the same in all its languages.
static AGENTS: LazyLock<BTreeMap<&str, Vec<AgentName>>> = LazyLock::new(|| {
    let names = |pack| common::pack(pack, crate::LANGUAGES[0]).manifest.agent_names();
    crate::PACKS.into_iter().map(|pack| (pack, names(pack))).collect()
});

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| cases::all("decision", "answer"));

fn read(case: &Case) -> Result<Decision, Vec<Problem>> {
    let [pack, language, more @ ..] = &case.settings[..] else {
        panic!("{}: pack, language", case.name);
    };
    assert!(crate::LANGUAGES.contains(&language.as_str()), "{}: {language}", case.name);
    // Answers end without a line end, so the last one of the block is none of theirs.
    let input = case.input.strip_suffix(b"\n").unwrap_or(&case.input);
    let mut answer = String::from_utf8(input.to_vec()).unwrap();
    let mut moment = Moment::Ordinary;
    for word in more {
        match word.as_str() {
            "finish-check" => moment = Moment::FinishCheck,
            "made" => answer = made(&case.name),
            "escaped" => {}
            word => panic!("{}: what is {word}?", case.name),
        }
    }
    decision::read(&answer, &AGENTS[pack.as_str()], moment)
}

/// The answers that are too long to be written out.
fn made(name: &str) -> String {
    match name {
        "reason-of-800-kb" => with_reason(&"because ".repeat(100_000)),
        "document-over-1-mib-is-refused-by-its-size" => with_reason(&"x".repeat(1 << 20)),
        "nesting-of-100000-levels" => {
            format!(r#"{{"next_agent":"DEV","reason":{}"#, "[".repeat(100_000))
        }
        "nesting-of-100000-objects" => r#"{"a":"#.repeat(100_000),
        "two-hundred-statements" => statements(200),
        "more-than-two-hundred-statements-are-a-rewrite" => statements(201),
        _ => panic!("{name} has no recipe here"),
    }
}

fn with_reason(reason: &str) -> String {
    let (start, end) = (r#"{"next_agent":"DEV","reason":""#, r#"","dev_plan":null,"#);
    format!(r#"{start}{reason}{end}"finish_review_override":null}}"#)
}

fn statements(count: usize) -> String {
    let lines = r"update M1-T1 status to DONE\n".repeat(count);
    format!(
        r#"{{"next_agent":"DEV","reason":"r","dev_plan":"{lines}","finish_review_override":null}}"#
    )
}

/// What was read, one part a line.
fn parts(decision: &Decision) -> Vec<String> {
    let shown = |text: &str| text::shown(text, 160);
    let mut out = vec![format!("ok: {}, {}", decision.next.word(), shown(&decision.reason))];
    match &decision.plan {
        PlanChange::None => {}
        PlanChange::Update(statements, _) => {
            for statement in statements.iter().take(5) {
                let (line, column) = (statement.place.line, statement.place.column);
                out.push(format!("plan {line}:{column}: {}", shown(&statement.action.to_string())));
            }
            if statements.len() > 5 {
                out.push(format!("plan: … {} in all", statements.len()));
            }
        }
        PlanChange::Replace(plan) => out.push(format!("new plan: {}", shown(plan))),
    }
    if decision.overrules_review {
        out.push("overrules FINISH_REVIEW".to_owned());
    }
    out.extend(decision.task.iter().map(|task| format!("task: {}", shown(task))));
    out.extend(decision.note.iter().map(|note| format!("note: {}", shown(note))));
    if let Next::User(question) = &decision.next {
        let mut line = format!("question: {} / {}", shown(&question.title), shown(&question.text));
        for option in &question.options {
            write!(line, " / {}: {}", option.option_id, shown(&option.description)).unwrap();
        }
        let recommended = question.recommended_option_id.as_deref();
        write!(line, " / recommended: {}", recommended.unwrap_or("(null)")).unwrap();
        out.push(line);
    }
    out
}

#[test]
fn every_case_is_read_or_refused_as_it_says() {
    cases::check(&CASES, |case| match read(case) {
        Ok(decision) => parts(&decision),
        Err(problems) => corpus::refusals(&problems),
    });
}

#[test]
fn the_corpus_is_broad_and_every_code_occurs() {
    corpus::check_breadth(&CASES, &CODES, |case| read(case).err().unwrap_or_default());
    assert!(CASES.iter().filter(|case| case.is("finish-check")).count() >= 10);
}

#[test]
fn no_message_holds_a_control_character() {
    corpus::check_messages(&CASES, |case| read(case).err().unwrap_or_default());
}

#[test]
fn every_refusal_is_in_chinese_for_a_chinese_pack() {
    for case in CASES.iter() {
        let problems = read(case).err().unwrap_or_default();
        corpus::check_chinese(&problems, &String::from_utf8_lossy(&case.input), &case.place());
    }
}

#[test]
fn refusals_in_chinese_say_what_is_wrong_where_and_what_is_expected() {
    let names = [
        "zh-text-before-the-object",
        "key-twice",
        "zh-finish-review-override-missing",
        "finish-review-override-a-boolean",
        "override-in-capitals-names-the-nearest",
        "zh-title-and-text-empty",
        "zh-evidence-of-zero-width-space-is-missing",
        "add-without-a-title",
    ];
    let problems = |case: &Case| read(case).err().unwrap_or_default();
    let shown = names.map(|name| corpus::in_chinese(&CASES, name, problems));
    insta::assert_snapshot!(shown.join("\n"), @r#"
    第 1 行第 1 列：JSON 之前有其他内容：`我的决定如下：`；要求：一个 JSON 对象，以 `{` 开头
    第 3 行第 13 列：键 `reason` 重复
    第 1 行第 1 列：缺少键 `finish_review_override`；要求：`next_agent`、`reason`、`dev_plan`、`finish_review_override` 缺一不可
    第 1 行第 75 列：`finish_review_override`：此处不能是布尔值（`true` 或 `false`）；要求：字符串
    第 2 行第 38 列：`finish_review_override` 的值 `IGNORE` 无效；要求：`null` 或 `ignore`；是否想写 `ignore`？
    第 2 行第 33 列：`question.title` 为空；要求：填写内容
    第 2 行第 43 列：`question.text` 为空；要求：填写内容
    第 1 行第 46 列：`dev_plan` 第 1 行：`set M1-T1 evidence: \u{200b}`：缺少内容；要求：`set <ID> evidence: <text>` 或 `set <ID> acceptance: <text>`
    第 2 行第 24 列：`dev_plan` 第 1 行：`add M1-T3:`：缺少标题；要求：`add <ID>: <title> [under <MILESTONE>]`
    "#);
}
