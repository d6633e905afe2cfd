//! Decisions of MAIN, good and bad. Each case promises in its name what holds; the table says
//! whether the decision is accepted or with which codes it is refused, the snapshot holds what was
//! read from it or the exact words of every refusal.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use baton_core::decision::{self, Decision, Moment, Next, PlanChange};
use baton_core::id::AgentName;
use baton_core::problem::Problem;
use baton_core::text;

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    board: Board,
    moment: Moment,
    text: Text,
    /// The codes of the problems, in any order; none: the decision is accepted.
    codes: &'static [&'static str],
}

/// Whose agents may be next.
#[derive(Clone, Copy)]
struct Board {
    pack: &'static str,
    language: &'static str,
}

#[derive(Clone, Copy)]
enum Text {
    Written(&'static str),
    Made(fn() -> String),
}

const EN: Board = Board { pack: "tdd", language: "en" };
const ZH: Board = Board { pack: "tdd", language: "zh" };
const NOVEL: Board = Board { pack: "novel", language: "en" };
const NOVEL_ZH: Board = Board { pack: "novel", language: "zh" };
const ANALYSIS: Board = Board { pack: "analysis", language: "en" };
const ANALYSIS_ZH: Board = Board { pack: "analysis", language: "zh" };

const fn good(name: &'static str, board: Board, text: &'static str) -> Case {
    bad(name, board, text, &[])
}

const fn bad(
    name: &'static str,
    board: Board,
    text: &'static str,
    codes: &'static [&'static str],
) -> Case {
    Case { name, board, moment: Moment::Ordinary, text: Text::Written(text), codes }
}

impl Case {
    const fn in_finish_check(self) -> Case {
        Case { moment: Moment::FinishCheck, ..self }
    }

    const fn made(self, make: fn() -> String) -> Case {
        Case { text: Text::Made(make), ..self }
    }

    fn read(&self) -> Result<Decision, Vec<Problem>> {
        let text = match self.text {
            Text::Written(text) => text.to_owned(),
            Text::Made(make) => make(),
        };
        decision::read(&text, &AGENTS[self.board.pack], self.moment)
    }
}

// Whole decisions as the prompts ask for them.
const WHOLE: &[Case] = &[
    good(
        "four-keys-are-enough",
        EN,
        r#"{"next_agent":"TEST","reason":"M1-T1 needs coverage",
            "dev_plan":"update M1-T1 status to IN_PROGRESS","finish_review_override":null}"#,
    ),
    good(
        "keys-in-any-order-and-white-space-around",
        EN,
        "\r\n\t { \"finish_review_override\" : null , \"dev_plan\" : null ,\n\
         \"reason\" : \"r\" , \"next_agent\" : \"DEV\" }\n\n",
    ),
    good(
        "review-may-be-next",
        EN,
        r#"{"next_agent":"REVIEW","reason":"M1 is done","dev_plan":null,
            "finish_review_override":null}"#,
    ),
    good(
        "agent-of-novel-may-be-next",
        NOVEL,
        r#"{"next_agent":"POLISH","reason":"M2-T3 reads stilted","dev_plan":null,
            "finish_review_override":null}"#,
    ),
    good(
        "agent-of-analysis-may-be-next",
        ANALYSIS,
        r#"{"next_agent":"VERIFY","reason":"C1 to C4 are written","dev_plan":null,
            "finish_review_override":null}"#,
    ),
    good(
        "finish-may-be-next",
        EN,
        r#"{"next_agent":"FINISH","reason":"all tasks are VERIFIED","dev_plan":null,
            "finish_review_override":null}"#,
    ),
    good(
        "optional-keys-may-be-null",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":null,"finish_review_override":null,
            "task":null,"question":null}"#,
    ),
    good(
        "task-is-the-work-order",
        EN,
        r#"{"next_agent":"DEV","reason":"M1-T2 fails","dev_plan":null,
            "finish_review_override":null,
            "task":"M1-T2: make sub_underflow_is_an_error pass.\nDo not touch the tests."}"#,
    ),
    good(
        "zh-whole-decision-as-the-prompt-asks-for-it",
        ZH,
        r#"{"next_agent":"DEV","reason":"M1-T2：子循环结束时仍失败；换做法，相减之前先检查。",
            "dev_plan":"update M1-T2 status to IN_PROGRESS\nset M1-T2 evidence: 第 9 轮，TEST FAIL",
            "finish_review_override":null,
            "task":"M1-T2：让 sub_underflow_is_an_error 通过。\n不要改测试和 add()。"}"#,
    ),
    good(
        "zh-novel-decision",
        NOVEL_ZH,
        r#"{"next_agent":"DRAFT","reason":"第 3 章有情节漏洞","dev_plan":null,
            "finish_review_override":null,"task":"M2-T3：周屿到第 7 章才读到信，改写第 88 行。"}"#,
    ),
    good(
        "zh-analysis-decision",
        ANALYSIS_ZH,
        r#"{"next_agent":"COLLECT","reason":"C4 证据不足","dev_plan":null,
            "finish_review_override":null,"task":"M1-T4：为 C4 找到第二个独立来源。"}"#,
    ),
    good(
        "escapes-and-surrogate-pairs-are-read",
        EN,
        r#"{"next_agent":"DEV","reason":"\u4fee\u590d \ud83d\ude00 \"add\" \/ \\ \t.",
            "dev_plan":null,"finish_review_override":null}"#,
    ),
    good(
        "escaped-key-is-the-same-key",
        EN,
        r#"{"next_\u0061gent":"DEV","reason":"r","dev_plan":null,"finish_review_override":null}"#,
    ),
    good(
        "byte-order-mark-before-the-object",
        EN,
        "\u{feff}{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}",
    ),
    good("reason-of-800-kb", EN, "").made(|| with_reason(&"because ".repeat(100_000))),
    bad("document-over-1-mib-is-refused-by-its-size", EN, "", &["document-size"])
        .made(|| with_reason(&"x".repeat(1 << 20))),
];

// One JSON object, nothing around it.
const JSON: &[Case] = &[
    bad("empty-answer", EN, "", &["json-syntax"]),
    bad("answer-of-white-space-is-empty", EN, " \n\t\r\n", &["json-syntax"]),
    bad("answer-of-a-byte-order-mark-is-empty", ZH, "\u{feff}", &["json-syntax"]),
    bad(
        "text-before-the-object",
        EN,
        "Here is my decision:\n{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}",
        &["json-syntax"],
    ),
    bad(
        "zh-text-before-the-object",
        ZH,
        "我的决定如下：\n{\"next_agent\":\"DEV\",\"reason\":\"修复\",\"dev_plan\":null,\
         \"finish_review_override\":null}",
        &["json-syntax"],
    ),
    bad(
        "text-after-the-object",
        EN,
        "{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}\n\nLet me know if you need more.",
        &["json-trailing"],
    ),
    bad(
        "zh-text-after-the-object",
        ZH,
        "{\"next_agent\":\"DEV\",\"reason\":\"修复\",\"dev_plan\":null,\
         \"finish_review_override\":null}\n以上是我的决定。",
        &["json-trailing"],
    ),
    good(
        "one-code-fence-around-the-object-is-taken-off",
        EN,
        "```json\n{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}\n```\n",
    ),
    bad(
        "text-before-the-fenced-object",
        EN,
        "Here is my decision:\n```json\n{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}\n```\n",
        &["json-syntax"],
    ),
    bad(
        "code-fence-left-behind-the-object",
        EN,
        "{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}\n```\n",
        &["json-trailing"],
    ),
    bad(
        "second-object",
        EN,
        "{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}\n{\"next_agent\":\"TEST\",\"reason\":\"r\"}",
        &["json-trailing"],
    ),
    bad(
        "zero-width-before-the-object-is-shown",
        EN,
        "\u{200b}{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}",
        &["json-syntax"],
    ),
    bad(
        "terminal-escape-after-the-object-is-shown",
        EN,
        "{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}\u{1b}[0m",
        &["json-trailing"],
    ),
    bad(
        "key-twice",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":null,
            "finish_review_override":null,
            "reason":"another"}"#,
        &["json-duplicate-key"],
    ),
    bad(
        "key-twice-in-an-option",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[
              {"option_id":"a","option_id":"b","description":"d"},
              {"option_id":"c","description":"d"}],"recommended_option_id":null}}"#,
        &["json-duplicate-key"],
    ),
    bad("nesting-of-100000-levels", EN, "", &["json-depth"]).made(|| {
        let deep = "[".repeat(100_000);
        format!(r#"{{"next_agent":"DEV","reason":{deep}"#)
    }),
    bad("nesting-of-100000-objects", EN, "", &["json-depth"]).made(|| r#"{"a":"#.repeat(100_000)),
    bad(
        "number-out-of-range",
        EN,
        r#"{"next_agent":"DEV","reason":1e999,"dev_plan":null,"finish_review_override":null}"#,
        &["json-number"],
    ),
    bad(
        "number-with-a-leading-zero",
        EN,
        r#"{"next_agent":"DEV","reason":007,"dev_plan":null,"finish_review_override":null}"#,
        &["json-number"],
    ),
    bad(
        "lone-surrogate",
        EN,
        r#"{"next_agent":"DEV","reason":"\ud83d","dev_plan":null,"finish_review_override":null}"#,
        &["json-escape"],
    ),
    bad(
        "unknown-escape",
        EN,
        r#"{"next_agent":"DEV","reason":"src\lib.rs","dev_plan":null,
            "finish_review_override":null}"#,
        &["json-escape"],
    ),
    bad(
        "trailing-comma",
        EN,
        "{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\n\
         \"finish_review_override\":null,\n}",
        &["json-syntax"],
    ),
    bad(
        "single-quotes",
        EN,
        "{'next_agent':'DEV','reason':'r','dev_plan':null,'finish_review_override':null}",
        &["json-syntax"],
    ),
    bad(
        "zh-wide-quotes",
        ZH,
        "{“next_agent”：“DEV”，“reason”：“修复”，“dev_plan”：null}",
        &["json-syntax"],
    ),
    bad(
        "zh-wide-colon-after-a-key",
        ZH,
        r#"{"next_agent"："DEV","reason":"修复","dev_plan":null,"finish_review_override":null}"#,
        &["json-syntax"],
    ),
    bad(
        "zh-wide-comma-between-keys",
        ZH,
        r#"{"next_agent":"DEV"，"reason":"修复","dev_plan":null,"finish_review_override":null}"#,
        &["json-syntax"],
    ),
    bad(
        "nan-is-no-json",
        EN,
        r#"{"next_agent":"DEV","reason":NaN,"dev_plan":null,"finish_review_override":null}"#,
        &["json-syntax"],
    ),
    bad(
        "python-none-is-no-json",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":None,"finish_review_override":null}"#,
        &["json-syntax"],
    ),
    bad(
        "comment-is-no-json",
        EN,
        "{\"next_agent\":\"DEV\", // the fixer\n\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}",
        &["json-syntax"],
    ),
    bad("string-never-closed", EN, r#"{"next_agent":"DEV","reason":"it is "#, &["json-syntax"]),
    bad(
        "zh-object-cut-off",
        ZH,
        r#"{"next_agent":"DEV","reason":"修复 add()","dev_plan":null"#,
        &["json-syntax"],
    ),
    bad(
        "raw-line-break-in-a-string",
        EN,
        "{\"next_agent\":\"DEV\",\"reason\":\"first\nsecond\",\"dev_plan\":null,\
         \"finish_review_override\":null}",
        &["json-syntax"],
    ),
    bad(
        "zh-raw-tab-in-a-string",
        ZH,
        "{\"next_agent\":\"DEV\",\"reason\":\"修复\tadd()\",\"dev_plan\":null,\
         \"finish_review_override\":null}",
        &["json-syntax"],
    ),
    bad(
        "quotes-in-a-string-without-a-backslash",
        EN,
        r#"{"next_agent":"DEV","reason":"say "no" to it","dev_plan":null,
            "finish_review_override":null}"#,
        &["json-syntax"],
    ),
    bad(
        "comma-missing-between-keys",
        EN,
        r#"{"next_agent":"DEV" "reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["json-syntax"],
    ),
    bad(
        "thoughts-before-the-object",
        EN,
        "<think>TEST failed.</think>{\"next_agent\":\"DEV\",\"reason\":\"r\",\"dev_plan\":null,\
         \"finish_review_override\":null}",
        &["json-syntax"],
    ),
    bad("nul-between-tokens-is-shown", EN, "{\0\"next_agent\":\"DEV\"}", &["json-syntax"]),
    bad(
        "list-at-the-top",
        EN,
        r#"[{"next_agent":"DEV","reason":"r","dev_plan":null,"finish_review_override":null}]"#,
        &["decision-type"],
    ),
    bad("string-at-the-top", EN, r#""DEV""#, &["decision-type"]),
    bad("zh-string-at-the-top", ZH, r#""下一步：DEV""#, &["decision-type"]),
    bad("null-at-the-top", EN, "null", &["decision-type"]),
    bad("number-at-the-top", EN, "7", &["decision-type"]),
    bad("word-at-the-top", EN, "DEV", &["json-syntax"]),
];

// The keys: all four, no others, each of its type.
const KEYS: &[Case] = &[
    bad(
        "object-without-keys",
        EN,
        "{}",
        &["key-missing", "key-missing", "key-missing", "key-missing"],
    ),
    bad(
        "next-agent-missing",
        EN,
        r#"{"reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["key-missing"],
    ),
    bad(
        "reason-missing",
        EN,
        r#"{"next_agent":"DEV","dev_plan":null,"finish_review_override":null}"#,
        &["key-missing"],
    ),
    bad(
        "dev-plan-missing",
        EN,
        r#"{"next_agent":"DEV","reason":"r","finish_review_override":null}"#,
        &["key-missing"],
    ),
    bad(
        "finish-review-override-missing",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":null}"#,
        &["key-missing"],
    ),
    bad(
        "zh-finish-review-override-missing",
        ZH,
        r#"{"next_agent":"DEV","reason":"修复 add()","dev_plan":null,"task":"M1-T1：修复"}"#,
        &["key-missing"],
    ),
    bad(
        "unknown-key-names-the-nearest",
        EN,
        r#"{"next_agnet":"DEV","reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["key-unknown", "key-missing"],
    ),
    bad(
        "unknown-key-in-another-case-names-the-nearest",
        EN,
        r#"{"nextAgent":"DEV","reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["key-unknown", "key-missing"],
    ),
    bad(
        "unknown-key-that-is-near-to-none",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":null,"finish_review_override":null,
            "confidence":0.9}"#,
        &["key-unknown"],
    ),
    bad(
        "zh-key-in-chinese",
        ZH,
        r#"{"next_agent":"DEV","理由":"修复","dev_plan":null,"finish_review_override":null}"#,
        &["key-unknown", "key-missing"],
    ),
    bad(
        "unknown-key-in-the-question",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","choices":[]}}"#,
        &["key-unknown"],
    ),
    bad(
        "unknown-key-in-an-option",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[{"option_id":"a","descripton":"d"}],
            "recommended_option_id":null}}"#,
        &["key-unknown"],
    ),
    bad(
        "next-agent-null",
        EN,
        r#"{"next_agent":null,"reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["value-type"],
    ),
    bad(
        "next-agent-a-list",
        EN,
        r#"{"next_agent":["DEV","TEST"],"reason":"r","dev_plan":null,
            "finish_review_override":null}"#,
        &["value-type"],
    ),
    bad(
        "reason-a-number",
        EN,
        r#"{"next_agent":"DEV","reason":42,"dev_plan":null,"finish_review_override":null}"#,
        &["value-type"],
    ),
    bad(
        "reason-a-fraction",
        EN,
        r#"{"next_agent":"DEV","reason":4.2,"dev_plan":null,"finish_review_override":null}"#,
        &["value-type"],
    ),
    bad(
        "zh-reason-a-list",
        ZH,
        r#"{"next_agent":"DEV","reason":["测试失败","修复"],"dev_plan":null,
            "finish_review_override":null}"#,
        &["value-type"],
    ),
    bad(
        "finish-review-override-a-boolean",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":null,"finish_review_override":false}"#,
        &["value-type"],
    ),
    bad(
        "task-an-object",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":null,"finish_review_override":null,
            "task":{"goal":"fix add()"}}"#,
        &["value-type"],
    ),
    bad(
        "zh-options-an-object",
        ZH,
        r#"{"next_agent":"USER","reason":"受阻","dev_plan":null,"finish_review_override":null,
            "question":{"title":"缺少链接器","text":"怎么办？","options":{"a":"安装"},
            "recommended_option_id":null}}"#,
        &["value-type"],
    ),
    bad(
        "option-id-a-number",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[{"option_id":1,"description":"d"}],
            "recommended_option_id":1}}"#,
        &["value-type"],
    ),
];

// Who is next, and why.
const NEXT: &[Case] = &[
    bad(
        "next-agent-unknown",
        EN,
        r#"{"next_agent":"DEPLOY","reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "next-agent-in-lower-case",
        EN,
        r#"{"next_agent":"test","reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "next-agent-with-spaces",
        EN,
        r#"{"next_agent":" DEV ","reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "next-agent-empty",
        EN,
        r#"{"next_agent":"","reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "next-agent-with-a-terminal-escape-is-shown",
        EN,
        r#"{"next_agent":"\u001b[31mDEV","reason":"r","dev_plan":null,
            "finish_review_override":null}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "main-cannot-be-next",
        EN,
        r#"{"next_agent":"MAIN","reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "finish-review-is-not-for-main-to-call",
        EN,
        r#"{"next_agent":"FINISH_REVIEW","reason":"r","dev_plan":null,
            "finish_review_override":null}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "agent-of-another-pack",
        NOVEL,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "zh-next-agent-in-chinese",
        ZH,
        r#"{"next_agent":"开发","reason":"修复","dev_plan":null,"finish_review_override":null}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "zh-next-agent-of-analysis-with-a-typing-error",
        ANALYSIS_ZH,
        r#"{"next_agent":"ANALYSE","reason":"C2 与表 3 矛盾","dev_plan":null,
            "finish_review_override":null}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "reason-empty",
        EN,
        r#"{"next_agent":"DEV","reason":"","dev_plan":null,"finish_review_override":null}"#,
        &["decision-empty"],
    ),
    bad(
        "reason-of-spaces-is-empty",
        EN,
        r#"{"next_agent":"DEV","reason":" \t\n","dev_plan":null,"finish_review_override":null}"#,
        &["decision-empty"],
    ),
    bad(
        "zh-reason-of-wide-spaces-is-empty",
        ZH,
        "{\"next_agent\":\"DEV\",\"reason\":\"\u{3000}\u{3000}\",\"dev_plan\":null,\
         \"finish_review_override\":null}",
        &["decision-empty"],
    ),
    bad(
        "task-empty",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":null,"finish_review_override":null,
            "task":""}"#,
        &["decision-empty"],
    ),
    bad(
        "zh-task-of-line-breaks-is-empty",
        ZH,
        r#"{"next_agent":"DEV","reason":"修复","dev_plan":null,"finish_review_override":null,
            "task":"\n\n"}"#,
        &["decision-empty"],
    ),
    bad(
        "every-problem-of-the-values-is-told-at-once",
        EN,
        r#"{"next_agent":"dev","reason":" ","dev_plan":"do it","finish_review_override":"yes",
            "task":""}"#,
        &[
            "decision-unknown-agent",
            "decision-empty",
            "statement-unknown",
            "decision-override",
            "decision-empty",
        ],
    ),
];

// Changes of the plan.
const PLANS: &[Case] = &[
    good(
        "dev-plan-of-several-lines",
        EN,
        r#"{"next_agent":"DEV","reason":"r","finish_review_override":null,
            "dev_plan":"update M1-T1 status to DONE\n\nupdate M1-T2 status to IN_PROGRESS\n"}"#,
    ),
    good(
        "dev-plan-split-by-semicolons",
        EN,
        r#"{"next_agent":"DEV","reason":"r","finish_review_override":null,
            "dev_plan":"update M1-T1 status to DONE; update M1-T2 status to DOING ;"}"#,
    ),
    good(
        "zh-dev-plan-split-by-wide-semicolons",
        ZH,
        r#"{"next_agent":"DEV","reason":"继续","finish_review_override":null,
            "dev_plan":"update M1-T1 status to DONE；add M1-T3：mul() 报告溢出"}"#,
    ),
    good(
        "set-takes-the-rest-of-its-line",
        EN,
        r#"{"next_agent":"DEV","reason":"r","finish_review_override":null,
            "dev_plan":"update M1-T1 status to DONE; set M1-T1 evidence: 42 passed; add x; 91%"}"#,
    ),
    good(
        "zh-set-takes-the-rest-of-its-line",
        ZH,
        r#"{"next_agent":"REVIEW","reason":"测完了","finish_review_override":null,
            "dev_plan":"set M1-T1 evidence：第 7 轮；通过；91%\nupdate M1-T1 status to DONE"}"#,
    ),
    good(
        "set-acceptance",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"set M1-T3 acceptance: mul() returns Error::Overflow: always"}"#,
    ),
    good(
        "add-a-task-under-the-milestone-of-its-id",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"add M1-T3: mul() reports overflow"}"#,
    ),
    good(
        "add-a-task-under-a-named-milestone",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"add BUG-12: look under the hood under M1"}"#,
    ),
    good(
        "add-a-milestone-and-a-task-in-it",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"add M2: command line\nadd M2-T1: calc exits with 1"}"#,
    ),
    good(
        "zh-add-a-milestone-and-a-task-in-it",
        ZH,
        r#"{"next_agent":"TEST","reason":"新里程碑","finish_review_override":null,
            "dev_plan":"add M2：命令行\nadd M2-T1: 溢出时 calc 以 1 退出 under M2"}"#,
    ),
    good(
        "statement-words-in-any-case-and-status-in-backticks",
        EN,
        r#"{"next_agent":"DEV","reason":"r","finish_review_override":null,
            "dev_plan":"Update M1-T1 Status To `DONE`"}"#,
    ),
    good(
        "replace-the-whole-plan",
        EN,
        r##"{"next_agent":"TEST","reason":"no plan yet","finish_review_override":null,
            "dev_plan":{"replace":"# Plan\n### M1-T1: add()\n- status: TODO\n"}}"##,
    ),
    good(
        "zh-replace-the-whole-plan",
        ZH,
        r##"{"next_agent":"TEST","reason":"还没有计划","finish_review_override":null,
            "dev_plan":{"replace":"# 计划\n### M1-T1: 求和\n- status: TODO\n"}}"##,
    ),
    bad(
        "replace-with-an-empty-plan",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":{"replace":" \n"}}"#,
        &["decision-empty"],
    ),
    bad(
        "replace-with-another-key",
        EN,
        r##"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":{"replace":"# Plan\n","why":"new"}}"##,
        &["key-unknown"],
    ),
    bad(
        "zh-replace-under-another-name",
        ZH,
        r##"{"next_agent":"TEST","reason":"新计划","finish_review_override":null,
            "dev_plan":{"plan":"# 计划\n"}}"##,
        &["key-unknown"],
    ),
    bad(
        "dev-plan-a-number",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,"dev_plan":3}"#,
        &["value-type"],
    ),
    bad(
        "dev-plan-a-list-of-statements",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":["update M1-T1 status to DONE","update M1-T2 status to DONE"]}"#,
        &["value-type"],
    ),
    bad(
        "dev-plan-empty-is-no-statement",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,"dev_plan":""}"#,
        &["statement-none"],
    ),
    bad(
        "zh-dev-plan-of-semicolons-is-no-statement",
        ZH,
        r#"{"next_agent":"TEST","reason":"继续","finish_review_override":null,
            "dev_plan":" ；; \n"}"#,
        &["statement-none"],
    ),
    bad(
        "dev-plan-in-prose-is-no-statement",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"mark M1-T1 as done"}"#,
        &["statement-unknown"],
    ),
    bad(
        "zh-dev-plan-in-prose-is-no-statement",
        ZH,
        r#"{"next_agent":"TEST","reason":"继续","finish_review_override":null,
            "dev_plan":"把 M1-T1 标为 DONE"}"#,
        &["statement-unknown"],
    ),
    bad(
        "statement-word-with-a-typing-error-names-the-nearest",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"updat M1-T1 status to DONE"}"#,
        &["statement-unknown"],
    ),
    bad(
        "statement-as-a-list-item-is-no-statement",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"- update M1-T1 status to DONE"}"#,
        &["statement-unknown"],
    ),
    bad(
        "update-without-status",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"update M1-T1"}"#,
        &["statement-malformed"],
    ),
    bad(
        "update-of-no-id",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"update status to DONE"}"#,
        &["statement-malformed"],
    ),
    bad(
        "update-with-words-behind-the-status",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"update M1-T1 status to DONE and VERIFIED"}"#,
        &["statement-malformed"],
    ),
    bad(
        "zh-update-with-a-chinese-to",
        ZH,
        r#"{"next_agent":"TEST","reason":"继续","finish_review_override":null,
            "dev_plan":"update M1-T1 status 为 DONE"}"#,
        &["statement-malformed"],
    ),
    bad(
        "add-without-a-colon",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"add M1-T3 mul() reports overflow"}"#,
        &["statement-malformed"],
    ),
    bad(
        "add-without-a-title",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"add M1-T3:"}"#,
        &["statement-malformed"],
    ),
    bad(
        "add-of-no-id",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"add task: mul() reports overflow"}"#,
        &["statement-malformed"],
    ),
    bad(
        "add-of-an-id-that-does-not-tell-its-milestone",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"add BUG-12: mul() reports overflow"}"#,
        &["statement-malformed"],
    ),
    bad(
        "zh-add-of-a-chinese-id",
        ZH,
        r#"{"next_agent":"TEST","reason":"继续","finish_review_override":null,
            "dev_plan":"add 任务3：mul() 报告溢出 under M1"}"#,
        &["statement-malformed"],
    ),
    bad(
        "set-of-a-field-that-cannot-be-set",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"set M1-T1 status: DONE"}"#,
        &["statement-malformed"],
    ),
    bad(
        "set-with-a-typing-error-names-the-nearest-field",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"set M1-T1 evidance: 42 passed"}"#,
        &["statement-malformed"],
    ),
    bad(
        "zh-set-without-a-value",
        ZH,
        r#"{"next_agent":"TEST","reason":"继续","finish_review_override":null,
            "dev_plan":"update M1-T1 status to DONE\nset M1-T1 evidence："}"#,
        &["statement-malformed"],
    ),
    bad(
        "every-wrong-statement-is-told-with-its-line",
        EN,
        r#"{"next_agent":"TEST","reason":"r","finish_review_override":null,
            "dev_plan":"finish M1-T1\nupdate M1-T1 status to DONE; add M1-T3\r\nset M1-T1: x"}"#,
        &["statement-unknown", "statement-malformed", "statement-malformed"],
    ),
    good("two-hundred-statements", EN, "").made(|| statements(200)),
    bad("more-than-two-hundred-statements-are-a-rewrite", EN, "", &["statement-too-many"])
        .made(|| statements(201)),
];

// FINISH_CHECK, and the override that only it knows.
const FINISH_CHECKS: &[Case] = &[
    good(
        "finish-stands-in-finish-check",
        EN,
        r#"{"next_agent":"FINISH","reason":"FINISH_REVIEW passed","dev_plan":null,
            "finish_review_override":null}"#,
    )
    .in_finish_check(),
    good(
        "override-in-finish-check",
        EN,
        r#"{"next_agent":"FINISH","reason":"P1 is out of scope, see global_context.md",
            "dev_plan":null,"finish_review_override":"ignore"}"#,
    )
    .in_finish_check(),
    good(
        "zh-override-in-finish-check",
        ZH,
        r#"{"next_agent":"FINISH","reason":"P1 在目标之外：global_context.md 第 3 条",
            "dev_plan":null,"finish_review_override":"ignore"}"#,
    )
    .in_finish_check(),
    good(
        "work-goes-on-after-finish-check",
        EN,
        r#"{"next_agent":"DEV","reason":"P0 holds","finish_review_override":null,
            "dev_plan":"update M1-T1 status to IN_PROGRESS"}"#,
    )
    .in_finish_check(),
    good(
        "zh-user-is-asked-in-finish-check",
        ZH,
        r#"{"next_agent":"USER","reason":"范围要人定","dev_plan":null,
            "finish_review_override":null,
            "question":{"title":"范围","text":"是否包括 mul()？","options":[
              {"option_id":"yes","description":"包括"},{"option_id":"no","description":"不包括"}],
            "recommended_option_id":"no"}}"#,
    )
    .in_finish_check(),
    bad(
        "override-outside-of-finish-check",
        EN,
        r#"{"next_agent":"FINISH","reason":"r","dev_plan":null,
            "finish_review_override":"ignore"}"#,
        &["decision-override"],
    ),
    bad(
        "zh-override-outside-of-finish-check",
        ZH,
        r#"{"next_agent":"FINISH","reason":"已完成","dev_plan":null,
            "finish_review_override":"ignore"}"#,
        &["decision-override"],
    ),
    bad(
        "override-with-another-word",
        EN,
        r#"{"next_agent":"FINISH","reason":"r","dev_plan":null,
            "finish_review_override":"accept"}"#,
        &["decision-override"],
    )
    .in_finish_check(),
    bad(
        "override-in-capitals-names-the-nearest",
        EN,
        r#"{"next_agent":"FINISH","reason":"r","dev_plan":null,
            "finish_review_override":"IGNORE"}"#,
        &["decision-override"],
    )
    .in_finish_check(),
    bad(
        "zh-override-in-chinese",
        ZH,
        r#"{"next_agent":"FINISH","reason":"已完成","dev_plan":null,
            "finish_review_override":"忽略"}"#,
        &["decision-override"],
    )
    .in_finish_check(),
    bad(
        "override-empty",
        EN,
        r#"{"next_agent":"FINISH","reason":"r","dev_plan":null,"finish_review_override":""}"#,
        &["decision-override"],
    )
    .in_finish_check(),
    bad(
        "override-without-a-reason",
        EN,
        r#"{"next_agent":"FINISH","reason":"  ","dev_plan":null,
            "finish_review_override":"ignore"}"#,
        &["decision-empty"],
    )
    .in_finish_check(),
];

// Questions to the person.
const QUESTIONS: &[Case] = &[
    good(
        "question-with-two-options",
        EN,
        r#"{"next_agent":"USER","reason":"no linker","finish_review_override":null,
            "dev_plan":"update M1-T2 status to BLOCKED",
            "question":{"title":"No linker","text":"cargo test stops: linker cc not found.",
            "options":[{"option_id":"install","description":"you install a C compiler"},
              {"option_id":"drop","description":"M1-T2 is dropped"}],
            "recommended_option_id":"install"}}"#,
    ),
    good(
        "question-with-four-options-and-none-recommended",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[
              {"option_id":"a","description":"d"},{"option_id":"b","description":"d"},
              {"option_id":"c","description":"d"},{"option_id":"d","description":"d"}],
            "recommended_option_id":null}}"#,
    ),
    good(
        "zh-question-with-three-options",
        ZH,
        r#"{"next_agent":"USER","reason":"M1-T2 受阻：没有安装链接器","finish_review_override":null,
            "dev_plan":"update M1-T2 status to BLOCKED",
            "question":{"title":"缺少链接器","text":"cargo test 中止：linker cc not found。",
            "options":[{"option_id":"安装","description":"由你安装 C 编译器"},
              {"option_id":"放弃","description":"放弃 M1-T2"},
              {"option_id":"推迟","description":"先做 M1-T3"}],
            "recommended_option_id":"安装"}}"#,
    ),
    bad(
        "question-with-one-option",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[
              {"option_id":"a","description":"d"}],"recommended_option_id":null}}"#,
        &["decision-options"],
    ),
    bad(
        "question-with-five-options",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[
              {"option_id":"a","description":"d"},{"option_id":"b","description":"d"},
              {"option_id":"c","description":"d"},{"option_id":"d","description":"d"},
              {"option_id":"e","description":"d"}],"recommended_option_id":null}}"#,
        &["decision-options"],
    ),
    bad(
        "zh-question-without-options",
        ZH,
        r#"{"next_agent":"USER","reason":"受阻","dev_plan":null,"finish_review_override":null,
            "question":{"title":"缺少链接器","text":"怎么办？","options":[],
            "recommended_option_id":null}}"#,
        &["decision-options"],
    ),
    bad(
        "option-id-twice",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[
              {"option_id":"a","description":"d"},{"option_id":"a","description":"e"}],
            "recommended_option_id":"a"}}"#,
        &["decision-options"],
    ),
    bad(
        "option-id-empty",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[
              {"option_id":"","description":"d"},{"option_id":"b","description":"e"}],
            "recommended_option_id":"b"}}"#,
        &["decision-empty"],
    ),
    bad(
        "description-empty",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[
              {"option_id":"a","description":"d"},{"option_id":"b","description":" "}],
            "recommended_option_id":"a"}}"#,
        &["decision-empty"],
    ),
    bad(
        "zh-title-and-text-empty",
        ZH,
        r#"{"next_agent":"USER","reason":"受阻","dev_plan":null,"finish_review_override":null,
            "question":{"title":"","text":"","options":[
              {"option_id":"a","description":"安装"},{"option_id":"b","description":"放弃"}],
            "recommended_option_id":"a"}}"#,
        &["decision-empty", "decision-empty"],
    ),
    bad(
        "recommended-option-unknown-names-the-nearest",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[
              {"option_id":"install","description":"d"},{"option_id":"drop","description":"e"}],
            "recommended_option_id":"Install"}}"#,
        &["decision-options"],
    ),
    bad(
        "zh-recommended-option-by-its-description",
        ZH,
        r#"{"next_agent":"USER","reason":"受阻","dev_plan":null,"finish_review_override":null,
            "question":{"title":"缺少链接器","text":"怎么办？","options":[
              {"option_id":"a","description":"安装"},{"option_id":"b","description":"放弃"}],
            "recommended_option_id":"安装"}}"#,
        &["decision-options"],
    ),
    bad(
        "recommended-option-missing",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[
              {"option_id":"a","description":"d"},{"option_id":"b","description":"e"}]}}"#,
        &["key-missing"],
    ),
    bad(
        "description-missing",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[{"option_id":"a"}],
            "recommended_option_id":null}}"#,
        &["key-missing"],
    ),
    bad(
        "question-without-user",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[
              {"option_id":"a","description":"d"},{"option_id":"b","description":"e"}],
            "recommended_option_id":null}}"#,
        &["decision-question"],
    ),
    bad(
        "zh-question-without-user",
        ZH,
        r#"{"next_agent":"FINISH","reason":"已完成","dev_plan":null,"finish_review_override":null,
            "question":{"title":"缺少链接器","text":"怎么办？","options":[
              {"option_id":"a","description":"安装"},{"option_id":"b","description":"放弃"}],
            "recommended_option_id":null}}"#,
        &["decision-question"],
    ),
    bad(
        "user-without-a-question",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null}"#,
        &["decision-no-question"],
    ),
    bad(
        "zh-user-with-a-null-question",
        ZH,
        r#"{"next_agent":"USER","reason":"受阻","dev_plan":null,"finish_review_override":null,
            "question":null}"#,
        &["decision-no-question"],
    ),
];

// The flat form of older blackboards.
const FLAT: &[Case] = &[
    good(
        "flat-agent-with-a-note",
        EN,
        r#"{"next_agent":"DEV","reason":"add() overflows","history_append":"TEST found overflow",
            "task":"M1-T1: fix add()"}"#,
    ),
    good(
        "zh-flat-agent-with-a-note",
        ZH,
        r#"{"next_agent":"DEV","reason":"add() 溢出","history_append":"[MILESTONE] 首次测试通过",
            "task":"M1-T1：修复 add()"}"#,
    ),
    good(
        "flat-plan-is-a-replacement",
        EN,
        r##"{"next_agent":"TEST","reason":"no plan yet","task":"M1-T1: test add()",
            "dev_plan_next":"# Plan\n\n## Milestone M1: sums\n"}"##,
    ),
    good(
        "zh-flat-with-every-key",
        ZH,
        r##"{"next_agent":"TEST","reason":"还没有计划","history_append":"开始","task":"M1-T1：测试",
            "dev_plan_next":"# 计划\n","decision_title":null,"question":null,"options":null,
            "recommended_option_id":null}"##,
    ),
    good(
        "flat-finish",
        EN,
        r#"{"next_agent":"FINISH","reason":"all is done","history_append":"finish"}"#,
    ),
    good(
        "flat-finish-with-an-override",
        EN,
        r#"{"next_agent":"FINISH","reason":"P1 is out of scope","history_append":"finish",
            "finish_review_override":"ignore"}"#,
    )
    .in_finish_check(),
    good(
        "zh-flat-override-as-a-line-of-the-note-counts-in-finish-check",
        ZH,
        r###"{"next_agent":"FINISH","reason":"范围外","task":null,"dev_plan_next":null,
            "history_append":"## Iteration 9: FINISH\nnext_agent: FINISH\n- `finish_review_override: ignore`（理由：范围外）"}"###,
    )
    .in_finish_check(),
    good(
        "flat-override-as-a-line-of-the-note-is-a-note-elsewhere",
        EN,
        r#"{"next_agent":"FINISH","reason":"r","history_append":"finish_review_override: ignore"}"#,
    ),
    good(
        "flat-note-that-speaks-of-the-override-does-not-override",
        EN,
        r#"{"next_agent":"FINISH","reason":"r",
            "history_append":"no finish_review_override: ignore\nfinish_review_override: ignored"}"#,
    )
    .in_finish_check(),
    good(
        "zh-flat-task-body-is-the-work-order",
        ZH,
        r#"{"next_agent":"DEV","reason":"下一步","task_body":"实现 M1-T1"}"#,
    ),
    bad(
        "flat-two-different-work-orders-are-refused",
        EN,
        r#"{"next_agent":"DEV","reason":"r","task":"one","task_body":"two"}"#,
        &["decision-two-tasks"],
    ),
    good(
        "flat-empty-note-is-no-note",
        EN,
        r#"{"next_agent":"DEV","reason":"r","history_append":""}"#,
    ),
    good(
        "flat-user",
        EN,
        r#"{"next_agent":"USER","reason":"no linker","history_append":"asked",
            "decision_title":"No linker","question":"What now?",
            "options":[{"option_id":"a","description":"install"},
              {"option_id":"b","description":"drop"}],"recommended_option_id":"a"}"#,
    ),
    good(
        "zh-flat-user-without-a-recommendation",
        ZH,
        r#"{"next_agent":"USER","reason":"受阻","decision_title":"缺少链接器","question":"怎么办？",
            "options":[{"option_id":"a","description":"安装"},
              {"option_id":"b","description":"放弃"}]}"#,
    ),
    bad(
        "flat-with-an-unknown-key",
        EN,
        r#"{"next_agent":"DEV","reason":"r","history_apend":"x","task":"t","dev_plan_next":null}"#,
        &["key-unknown"],
    ),
    bad(
        "flat-mixed-with-dev-plan",
        EN,
        r#"{"next_agent":"DEV","reason":"r","history_append":"x",
            "dev_plan":"update M1-T1 status to DONE","finish_review_override":null}"#,
        &["key-unknown"],
    ),
    bad(
        "zh-flat-mixed-with-dev-plan",
        ZH,
        r#"{"next_agent":"DEV","reason":"修复","dev_plan":null,"finish_review_override":null,
            "dev_plan_next":"计划"}"#,
        &["key-unknown"],
    ),
    bad(
        "flat-reason-missing",
        EN,
        r#"{"next_agent":"DEV","history_append":"x"}"#,
        &["key-missing"],
    ),
    bad(
        "zh-flat-reason-empty",
        ZH,
        r#"{"next_agent":"DEV","reason":"","history_append":"修复"}"#,
        &["decision-empty"],
    ),
    bad(
        "flat-note-a-list",
        EN,
        r#"{"next_agent":"DEV","reason":"r","history_append":["a","b"]}"#,
        &["value-type"],
    ),
    bad(
        "flat-plan-an-object",
        EN,
        r##"{"next_agent":"DEV","reason":"r","dev_plan_next":{"replace":"# Plan"}}"##,
        &["value-type"],
    ),
    bad(
        "flat-plan-empty",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan_next":""}"#,
        &["decision-empty"],
    ),
    bad(
        "flat-agent-unknown",
        EN,
        r#"{"next_agent":"TESTER","reason":"r","history_append":"x"}"#,
        &["decision-unknown-agent"],
    ),
    bad(
        "flat-override-outside-of-finish-check",
        EN,
        r#"{"next_agent":"FINISH","reason":"r","history_append":"x",
            "finish_review_override":"ignore"}"#,
        &["decision-override"],
    ),
    bad(
        "flat-question-without-user",
        EN,
        r#"{"next_agent":"DEV","reason":"r","decision_title":"t","question":"What now?",
            "options":[{"option_id":"a","description":"d"},{"option_id":"b","description":"e"}]}"#,
        &["decision-question"],
    ),
    bad(
        "flat-user-without-a-title",
        EN,
        r#"{"next_agent":"USER","reason":"r","question":"What now?",
            "options":[{"option_id":"a","description":"d"},{"option_id":"b","description":"e"}]}"#,
        &["decision-empty"],
    ),
    bad(
        "zh-flat-user-with-a-bad-recommendation",
        ZH,
        r#"{"next_agent":"USER","reason":"受阻","decision_title":"缺少链接器","question":"怎么办？",
            "options":[{"option_id":"a","description":"安装"},
              {"option_id":"b","description":"放弃"}],
            "recommended_option_id":"c"}"#,
        &["decision-options"],
    ),
    bad(
        "flat-user-with-one-option",
        EN,
        r#"{"next_agent":"USER","reason":"r","decision_title":"t","question":"What now?",
            "options":[{"option_id":"a","description":"d"}]}"#,
        &["decision-options"],
    ),
    bad(
        "neither-form-without-a-key-of-the-flat-one",
        EN,
        r#"{"next_agent":"DEV","reason":"r","task":"t"}"#,
        &["key-missing", "key-missing"],
    ),
];

// Mistakes that were once taken for something else.
const ONCE_ACCEPTED: &[Case] = &[
    bad(
        "a-list-is-not-a-replacement-of-the-plan",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":["whole plan"],"finish_review_override":null}"#,
        &["value-type"],
    ),
    bad(
        "a-question-written-as-a-list-is-refused",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":["t","x",[["a","d"],["b","e"]],null]}"#,
        &["value-type"],
    ),
    bad(
        "an-option-written-as-a-list-is-refused",
        EN,
        r#"{"next_agent":"USER","reason":"r","dev_plan":null,"finish_review_override":null,
            "question":{"title":"t","text":"x","options":[["a","d"],["b","e"]],"recommended_option_id":null}}"#,
        &["value-type"],
    ),
    bad(
        "flat-question-for-an-agent-is-not-dropped",
        EN,
        r#"{"next_agent":"DEV","reason":"r","question":"What now?"}"#,
        &["decision-question"],
    ),
    bad(
        "zh-flat-options-for-an-agent-are-not-dropped",
        ZH,
        r#"{"next_agent":"DEV","reason":"理由","options":[{"option_id":"A","description":"甲"}]}"#,
        &["decision-question"],
    ),
    bad(
        "flat-user-without-options-names-the-flat-keys",
        EN,
        r#"{"next_agent":"USER","reason":"r","question":"What now?","decision_title":"t"}"#,
        &["decision-no-question"],
    ),
    bad(
        "a-reason-of-zero-width-space-is-empty",
        EN,
        r#"{"next_agent":"DEV","reason":"\u200b","dev_plan":null,"finish_review_override":null}"#,
        &["decision-empty"],
    ),
    bad(
        "zh-evidence-of-zero-width-space-is-missing",
        ZH,
        r#"{"next_agent":"DEV","reason":"理由","dev_plan":"set M1-T1 evidence: \u200b","finish_review_override":null}"#,
        &["statement-malformed"],
    ),
    bad(
        "a-task-cannot-stand-under-a-task",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":"add M1-T2: x under M9-T1","finish_review_override":null}"#,
        &["statement-malformed"],
    ),
    good(
        "a-task-may-have-a-short-id-under-its-milestone",
        EN,
        r#"{"next_agent":"DEV","reason":"r","dev_plan":"add T2: x under M1","finish_review_override":null}"#,
    ),
    bad(
        "a-decision-in-a-list-is-judged-as-a-list",
        EN,
        r#"[{"next_agent":"DEV",}]"#,
        &["json-syntax"],
    ),
    bad("cut-inside-an-escape-ends-too-early", EN, "{\"reason\":\"\\", &["json-syntax"]),
];

const GROUPS: [&[Case]; 9] =
    [WHOLE, JSON, KEYS, NEXT, PLANS, FINISH_CHECKS, QUESTIONS, FLAT, ONCE_ACCEPTED];

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

fn cases() -> impl Iterator<Item = &'static Case> {
    GROUPS.into_iter().flatten()
}

/// The agents of each pack; they are the same in all its languages.
static AGENTS: LazyLock<BTreeMap<&str, Vec<AgentName>>> = LazyLock::new(|| {
    let names = |pack| common::pack(pack, crate::LANGUAGES[0]).manifest.agent_names();
    crate::PACKS.into_iter().map(|pack| (pack, names(pack))).collect()
});

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
fn every_case_is_accepted_or_refused_as_the_table_says() {
    let mut wrong = Vec::new();
    for case in cases() {
        let mut codes: Vec<&str> = match case.read() {
            Ok(_) => Vec::new(),
            Err(problems) => problems.iter().map(|problem| problem.code).collect(),
        };
        let mut wanted = case.codes.to_vec();
        codes.sort_unstable();
        wanted.sort_unstable();
        if codes != wanted {
            wrong.push(format!("{}: {codes:?} instead of {wanted:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_read_and_the_words_of_every_refusal() {
    let mut out = String::new();
    for case in cases() {
        let lines: Vec<String> = match case.read() {
            Ok(decision) => parts(&decision),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        };
        writeln!(out, "{}\n  {}", case.name, lines.join("\n  ")).unwrap();
    }
    insta::assert_snapshot!("decision_cases", out);
}

#[test]
fn the_corpus_is_broad_and_every_code_occurs() {
    let names: BTreeSet<&str> = cases().map(|case| case.name).collect();
    assert_eq!(names.len(), cases().count(), "a name stands twice");
    for name in &names {
        let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(kebab), "{name} is not in kebab case");
    }
    assert!(cases().count() >= 80);
    assert!(cases().filter(|case| case.board.language == "zh").count() >= 25);
    assert!(cases().filter(|case| !case.codes.is_empty()).count() >= 25);
    assert!(cases().filter(|case| case.moment == Moment::FinishCheck).count() >= 10);
    let used: BTreeSet<&str> = cases().flat_map(|case| case.codes).copied().collect();
    assert_eq!(used, BTreeSet::from(CODES));
}

#[test]
fn no_message_holds_a_control_character() {
    for case in cases() {
        for problem in case.read().err().unwrap_or_default() {
            for shown in [problem.to_string(), problem.found.unwrap_or_default()] {
                let raw = |c: char| c.is_control() || text::is_invisible(c);
                assert!(!shown.contains(raw), "{}: {shown:?}", case.name);
            }
        }
    }
}
