//! Reports, good and bad. Each case promises in its name what holds; the table says whether the
//! report is accepted or with which codes it is refused, the snapshot holds what was read from it
//! or the exact words of every refusal.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use baton_core::id::{AgentName, Iteration};
use baton_core::policy::ReportRules;
use baton_core::report::{self, Expected, Report};
use baton_core::text;

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    board: Board,
    agent: &'static str,
    /// The iteration that the report should be of; `None`: any.
    iteration: Option<u32>,
    text: Text,
    /// The codes of the problems, in order; none: the report is accepted.
    codes: &'static [&'static str],
}

/// Whose rules hold.
#[derive(Clone, Copy)]
struct Board {
    pack: &'static str,
    language: &'static str,
    edit: Edit,
}

/// What a person changed in the pack's policy.
#[derive(Clone, Copy)]
enum Edit {
    Nothing,
    ReviewOutsideApplyTo,
    VerdictNotRequired,
}

#[derive(Clone, Copy)]
enum Text {
    Written(&'static [u8]),
    Made(fn() -> Vec<u8>),
}

const EN: Board = Board { pack: "tdd", language: "en", edit: Edit::Nothing };
const ZH: Board = Board { pack: "tdd", language: "zh", edit: Edit::Nothing };
const NOVEL: Board = Board { pack: "novel", language: "en", edit: Edit::Nothing };
const NOVEL_ZH: Board = Board { pack: "novel", language: "zh", edit: Edit::Nothing };
const ANALYSIS: Board = Board { pack: "analysis", language: "en", edit: Edit::Nothing };
const ANALYSIS_ZH: Board = Board { pack: "analysis", language: "zh", edit: Edit::Nothing };
const EN_REVIEW_FREE: Board = Board { edit: Edit::ReviewOutsideApplyTo, ..EN };
const ZH_REVIEW_FREE: Board = Board { edit: Edit::ReviewOutsideApplyTo, ..ZH };
const EN_NO_VERDICT: Board = Board { edit: Edit::VerdictNotRequired, ..EN };
const ZH_NO_VERDICT: Board = Board { edit: Edit::VerdictNotRequired, ..ZH };

const fn good(name: &'static str, board: Board, agent: &'static str, text: &'static str) -> Case {
    bad(name, board, agent, text, &[])
}

const fn bad(
    name: &'static str,
    board: Board,
    agent: &'static str,
    text: &'static str,
    codes: &'static [&'static str],
) -> Case {
    let text = Text::Written(text.as_bytes());
    Case { name, board, agent, iteration: Some(7), text, codes }
}

impl Case {
    const fn of(self, iteration: Option<u32>) -> Case {
        Case { iteration, ..self }
    }

    const fn bytes(self, bytes: &'static [u8]) -> Case {
        Case { text: Text::Written(bytes), ..self }
    }

    const fn made(self, make: fn() -> Vec<u8>) -> Case {
        Case { text: Text::Made(make), ..self }
    }

    fn read(&self) -> Result<Report, Vec<baton_core::problem::Problem>> {
        let bytes = match self.text {
            Text::Written(bytes) => bytes.to_vec(),
            Text::Made(make) => make(),
        };
        let agent = AgentName::new(self.agent).unwrap();
        let expected = Expected { agent, iteration: self.iteration.map(Iteration) };
        report::read(&bytes, &self.board.rules(), &expected)
    }
}

impl Board {
    fn rules(self) -> ReportRules {
        let mut rules = RULES[&(self.pack, self.language)].clone();
        match self.edit {
            Edit::Nothing => {}
            Edit::ReviewOutsideApplyTo => rules.apply_to.retain(|agent| *agent != "REVIEW"),
            Edit::VerdictNotRequired => rules.require_verdict = false,
        }
        rules
    }
}

// Every verdict of every pack.
const VERDICTS: &[Case] = &[
    good("pass-with-the-clear-value", EN, "TEST", "iteration: 7\nverdict: PASS\nblockers: none\n"),
    good(
        "fail-with-a-blocker-on-the-line",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: [impl] src/lib.rs:42 overflow in add()\n",
    ),
    good(
        "blocked-with-a-blocker",
        EN,
        "DEV",
        "iteration: 7\nverdict: BLOCKED\nblockers: [env] linker cc not found\n",
    ),
    good("zh-pass-with-the-clear-value", ZH, "TEST", "iteration: 7\n结论：PASS\n阻塞：无\n"),
    good(
        "zh-fail-with-a-blocker-on-the-line",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：[impl] src/lib.rs:42 add() 溢出时直接 panic\n",
    ),
    good(
        "zh-blocked-with-a-blocker",
        ZH,
        "REVIEW",
        "iteration: 7\n结论：BLOCKED\n阻塞：[spec] M1-T1 的验收标准没有写明下界\n",
    ),
    good(
        "novel-approved",
        NOVEL,
        "CRITIQUE",
        "iteration: 7\nverdict: APPROVED\nblockers: none\nfiles read: chapters/03.md\n",
    ),
    good(
        "novel-needs-revision-with-its-own-classes",
        NOVEL,
        "CRITIQUE",
        "iteration: 7\n\
         verdict: NEEDS_REVISION\n\
         blockers:\n\
         - [plot] chapters/03.md:88 he quotes a letter that he reads only in chapter 7\n\
         - [prose] chapters/03.md:140 six lines of dialogue with the same rhythm\n",
    ),
    good(
        "novel-blocked",
        NOVEL,
        "DRAFT",
        "iteration: 7\nverdict: BLOCKED\nblockers: [spec] the brief is unclear about the ending\n",
    ),
    good(
        "novel-zh-approved",
        NOVEL_ZH,
        "POLISH",
        "iteration: 7\n结论：APPROVED\n阻塞：无\n修改文件：chapters/03.md\n",
    ),
    good(
        "novel-zh-needs-revision",
        NOVEL_ZH,
        "CRITIQUE",
        "iteration: 7\n\
         结论：NEEDS_REVISION\n\
         阻塞：\n\
         - [plot] chapters/03.md:88 “正如她信里写的”：周屿到第 7 章才读到信\n\
         - chapters/03.md:140-162 连续六句对白句式相同\n",
    ),
    good(
        "novel-zh-blocked",
        NOVEL_ZH,
        "OUTLINE",
        "iteration: 7\n结论：BLOCKED\n阻塞：创作要求没有规定结局，需要用户决定\n",
    ),
    good(
        "analysis-valid",
        ANALYSIS,
        "VERIFY",
        "iteration: 7\nverdict: VALID\nblockers: none\nclaims checked: C1, C2\n",
    ),
    good(
        "analysis-invalid",
        ANALYSIS,
        "ANALYZE",
        "iteration: 7\nverdict: INVALID\nblockers: claim C2 contradicts table 3\n",
    ),
    good(
        "analysis-insufficient-evidence-is-its-blocked",
        ANALYSIS,
        "CONCLUDE",
        "iteration: 7\n\
         verdict: INSUFFICIENT_EVIDENCE\n\
         blockers: claim C4 rests on a single source\n",
    ),
    good("analysis-zh-valid", ANALYSIS_ZH, "COLLECT", "iteration: 7\n结论：VALID\n阻塞：无\n"),
    good(
        "analysis-zh-invalid",
        ANALYSIS_ZH,
        "VERIFY",
        "iteration: 7\n结论：INVALID\n阻塞：论断 C2 与表 3 相互矛盾\n",
    ),
    good(
        "analysis-zh-insufficient-evidence",
        ANALYSIS_ZH,
        "CONCLUDE",
        "iteration: 7\n结论：INSUFFICIENT_EVIDENCE\n阻塞：[evidence] C4 只有一篇博客可查\n",
    ),
    bad(
        "verdict-of-another-pack-is-refused",
        NOVEL,
        "CRITIQUE",
        "iteration: 7\nverdict: PASS\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "analysis-verdict-in-words-is-refused",
        ANALYSIS,
        "VERIFY",
        "iteration: 7\nverdict: INSUFFICIENT EVIDENCE\nblockers: no source for C4\n",
        &["verdict-unknown"],
    ),
    bad(
        "zh-pack-does-not-read-english-key-lines",
        ZH,
        "TEST",
        "iteration: 7\nverdict: PASS\nblockers: none\n",
        &["verdict-missing", "blockers-missing"],
    ),
    bad(
        "english-pack-does-not-read-zh-key-lines",
        EN,
        "TEST",
        "iteration: 7\n结论：PASS\n阻塞：无\n",
        &["verdict-missing", "blockers-missing"],
    ),
];

// The iteration line: whole, own, once.
const ITERATIONS: &[Case] = &[
    bad("iteration-missing", EN, "TEST", "verdict: PASS\nblockers: none\n", &["iteration-missing"]),
    bad("zh-iteration-missing", ZH, "TEST", "结论：PASS\n阻塞：无\n", &["iteration-missing"]),
    bad(
        "iteration-missing-outside-of-a-run",
        EN,
        "TEST",
        "verdict: PASS\nblockers: none\n",
        &["iteration-missing"],
    )
    .of(None),
    bad(
        "iteration-of-an-earlier-report-is-foreign",
        EN,
        "TEST",
        "iteration: 6\nverdict: PASS\nblockers: none\n",
        &["iteration-foreign"],
    ),
    bad(
        "zh-iteration-of-a-later-report-is-foreign",
        ZH,
        "DEV",
        "iteration: 70\n结论：PASS\n阻塞：无\n",
        &["iteration-foreign"],
    ),
    good(
        "any-iteration-will-do-outside-of-a-run",
        EN,
        "TEST",
        "iteration: 4294967295\nverdict: PASS\nblockers: none\n",
    )
    .of(None),
    bad(
        "iteration-of-a-total-is-malformed",
        EN,
        "TEST",
        "iteration: 7/50\nverdict: PASS\nblockers: none\n",
        &["iteration-malformed"],
    ),
    bad(
        "iteration-with-an-exponent-is-malformed",
        EN,
        "TEST",
        "iteration: 1e999\nverdict: PASS\nblockers: none\n",
        &["iteration-malformed"],
    ),
    bad(
        "negative-iteration-is-malformed",
        EN,
        "TEST",
        "iteration: -1\nverdict: PASS\nblockers: none\n",
        &["iteration-malformed"],
    ),
    bad(
        "iteration-with-a-fraction-is-malformed",
        EN,
        "TEST",
        "iteration: 7.0\nverdict: PASS\nblockers: none\n",
        &["iteration-malformed"],
    ),
    bad(
        "iteration-with-a-remark-is-malformed",
        EN,
        "TEST",
        "iteration: 7 (second try)\nverdict: PASS\nblockers: none\n",
        &["iteration-malformed"],
    ),
    bad(
        "full-width-iteration-is-malformed",
        EN,
        "TEST",
        "iteration: ７\nverdict: PASS\nblockers: none\n",
        &["iteration-malformed"],
    ),
    bad(
        "zh-full-width-iteration-is-malformed",
        ZH,
        "TEST",
        "iteration：７\n结论：PASS\n阻塞：无\n",
        &["iteration-malformed"],
    ),
    bad(
        "zh-iteration-in-words-is-malformed",
        ZH,
        "TEST",
        "iteration: 第 7 轮\n结论：PASS\n阻塞：无\n",
        &["iteration-malformed"],
    ),
    bad(
        "empty-iteration-is-malformed",
        EN,
        "TEST",
        "iteration:\nverdict: PASS\nblockers: none\n",
        &["iteration-malformed"],
    ),
    bad(
        "huge-iteration-is-malformed",
        EN,
        "TEST",
        "iteration: 99999999999999999999999999999999999999999999999999\n\
         verdict: PASS\n\
         blockers: none\n",
        &["iteration-malformed"],
    ),
    good(
        "iteration-twice-with-one-number-is-accepted",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\nblockers: none\n\niteration: 7\n",
    ),
    bad(
        "iteration-twice-with-two-numbers-is-refused",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\nblockers: none\n\niteration: 6\n",
        &["iteration-twice"],
    ),
    good(
        "zh-iteration-as-an-item-is-text-if-there-is-a-bare-line",
        ZH,
        "TEST",
        "iteration: 7\n结论：PASS\n阻塞：无\n\n上一轮：\n- iteration: 6\n",
    ),
    good("zh-iteration-with-a-wide-colon", ZH, "TEST", "iteration：7\n结论：PASS\n阻塞：无\n"),
    good(
        "iteration-in-bold-and-in-backticks-counts",
        EN,
        "TEST",
        "**iteration:** `7`\nverdict: PASS\nblockers: none\n",
    ),
    bad(
        "iteration-in-capitals-is-a-near-miss",
        EN,
        "TEST",
        "Iteration: 7\nverdict: PASS\nblockers: none\n",
        &["iteration-missing"],
    ),
];

// The verdict: one allowed word, exactly, once, on a key line.
const VERDICT_LINES: &[Case] = &[
    bad("verdict-missing", EN, "TEST", "iteration: 7\nblockers: none\n", &["verdict-missing"]),
    bad("zh-verdict-missing", ZH, "TEST", "iteration: 7\n阻塞：无\n", &["verdict-missing"]),
    bad(
        "verdict-twice-is-refused",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: none\n\nAfter the fix:\n\nverdict: PASS\n",
        &["verdict-twice"],
    ),
    good(
        "zh-verdict-of-each-finding-is-text-if-there-is-a-bare-line",
        ZH,
        "REVIEW",
        "已阅读审阅行为规范\niteration: 7\n\n### 用例 1\n- 结论: 合理\n\n### 用例 2\n- **结论**：存在问题\n  结论：见上\n\n\
         结论：FAIL\n阻塞：用例 2 断言失败\n",
    ),
    good(
        "zh-verdict-twice-with-one-word-is-accepted",
        ZH,
        "REVIEW",
        "iteration: 7\n\n## 测试设计审阅结论\n\n结论：PASS\n\n## 汇总\n\n**结论**：PASS\n阻塞：无\n",
    ),
    good(
        "zh-verdict-as-the-only-item-counts",
        ZH,
        "FINISH_REVIEW",
        "iteration: 7\n- 结论：PASS\n- 阻塞：无\n",
    ),
    bad(
        "zh-two-items-without-a-bare-verdict-are-refused-even-if-both-agree",
        ZH,
        "REVIEW",
        "iteration: 7\n- 结论：PASS\n- 结论：PASS\n阻塞：无\n",
        &["verdict-twice"],
    ),
    good(
        "zh-a-blocker-may-begin-like-a-verdict-where-a-bare-one-follows",
        ZH,
        "REVIEW",
        "iteration: 7\n阻塞：\n- 结论: 写错了 [impl]\n- 第二项\n\n结论：FAIL\n",
    ),
    bad(
        "verdict-passed-is-not-pass",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASSED\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "verdict-in-lower-case-is-not-allowed",
        EN,
        "TEST",
        "iteration: 7\nverdict: pass\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "verdict-with-a-remark-is-not-allowed",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS (42 tests)\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "verdict-left-as-the-choice-is-not-allowed",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS | FAIL | BLOCKED\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "verdict-of-no-known-kind-names-the-allowed-ones",
        EN,
        "TEST",
        "iteration: 7\nverdict: LGTM\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "zh-verdict-with-a-full-stop-is-not-allowed",
        ZH,
        "TEST",
        "iteration: 7\n结论：PASS。\n阻塞：无\n",
        &["verdict-unknown"],
    ),
    bad(
        "zh-verdict-in-chinese-is-not-allowed",
        ZH,
        "TEST",
        "iteration: 7\n结论：通过\n阻塞：无\n",
        &["verdict-unknown"],
    ),
    bad(
        "zh-verdict-in-full-width-letters-is-not-allowed",
        ZH,
        "TEST",
        "iteration: 7\n结论：ＰＡＳＳ\n阻塞：无\n",
        &["verdict-unknown"],
    ),
    bad(
        "verdict-empty",
        EN,
        "TEST",
        "iteration: 7\nverdict:\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "zh-verdict-of-spaces-is-empty",
        ZH,
        "TEST",
        "iteration: 7\n结论：\u{3000}  \n阻塞：无\n",
        &["verdict-unknown"],
    ),
    bad(
        "verdict-on-the-next-line-does-not-count",
        EN,
        "TEST",
        "iteration: 7\nverdict:\nPASS\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "zero-width-behind-the-verdict-is-shown",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\u{200b}\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "nul-in-the-verdict-is-shown",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\0\nblockers: none\n",
        &["verdict-unknown"],
    ),
    good("verdict-in-bold-counts", EN, "TEST", "iteration: 7\nverdict: **PASS**\nblockers: none\n"),
    good(
        "verdict-in-backticks-counts",
        EN,
        "TEST",
        "iteration: 7\nverdict: `PASS`\nblockers: `none`\n",
    ),
    good(
        "zh-verdict-in-bold-backticks-counts",
        ZH,
        "TEST",
        "iteration: 7\n结论：**`PASS`**\n阻塞：**无**\n",
    ),
    good(
        "emphasis-of-the-whole-line-counts",
        EN,
        "TEST",
        "**iteration: 7**\n**verdict: PASS**\n__blockers: none__\n",
    ),
    good(
        "emphasis-closed-before-the-colon-counts",
        EN,
        "TEST",
        "*iteration*: 7\n**verdict**: PASS\n***blockers***: none\n",
    ),
    good(
        "emphasis-closed-behind-the-colon-counts",
        EN,
        "TEST",
        "*iteration:* 7\n**verdict:** PASS\n__blockers:__ none\n",
    ),
    good(
        "emphasis-of-key-and-value-apart-counts",
        EN,
        "TEST",
        "**iteration:** **7**\n**verdict:** **PASS**\n**blockers:** **none**\n",
    ),
    good(
        "zh-emphasis-before-and-behind-the-colon-counts",
        ZH,
        "TEST",
        "**iteration**: 7\n**结论**：PASS\n**阻塞：** 无\n",
    ),
    good(
        "list-marks-before-key-lines-count",
        EN,
        "TEST",
        "- iteration: 7\n* verdict: PASS\n+ blockers: none\n",
    ),
    good(
        "numbers-before-key-lines-count",
        EN,
        "TEST",
        "1. iteration: 7\n2. verdict: PASS\n3) blockers: none\n",
    ),
    good(
        "zh-numbers-and-dots-before-key-lines-count",
        ZH,
        "TEST",
        "1、iteration: 7\n2、**结论**：PASS\n• 阻塞：无\n",
    ),
    good(
        "indented-key-lines-count",
        EN,
        "TEST",
        "    iteration: 7\n\tverdict: PASS\n  blockers: none\n",
    ),
    good(
        "zh-wide-spaces-before-key-lines-count",
        ZH,
        "TEST",
        "\u{3000}\u{3000}iteration: 7\n\u{3000}结论：PASS\n\u{3000}阻塞：\u{3000}无\u{3000}\n",
    ),
    good(
        "no-break-spaces-around-values-count",
        EN,
        "TEST",
        "iteration:\u{a0}7\nverdict:\u{a0}PASS\u{a0}\n\u{a0}blockers:\u{a0}none\n",
    ),
    good(
        "wide-colon-in-an-english-pack-counts",
        EN,
        "TEST",
        "iteration：7\nverdict：FAIL\nblockers：assertion failed in tests/add.rs\n",
    ),
    good(
        "zh-narrow-colon-counts",
        ZH,
        "TEST",
        "iteration: 7\n结论: FAIL\n阻塞: tests/add.rs 断言失败\n",
    ),
];

// A line that comes near to a key line does not count, and the refusal shows it.
const NEAR_MISSES: &[Case] = &[
    bad(
        "verdict-as-a-heading-is-a-near-miss",
        EN,
        "TEST",
        "iteration: 7\n## verdict: PASS\nblockers: none\n",
        &["verdict-missing"],
    ),
    bad(
        "zh-verdict-under-a-heading-is-a-near-miss",
        ZH,
        "TEST",
        "iteration: 7\n\n## 结论\nPASS\n\n## 阻塞\n无\n",
        &["verdict-missing", "blockers-missing"],
    ),
    bad(
        "quoted-verdict-is-a-near-miss",
        EN,
        "TEST",
        "iteration: 7\n> verdict: PASS\nblockers: none\n",
        &["verdict-missing"],
    ),
    bad(
        "zh-quoted-verdict-is-a-near-miss",
        ZH,
        "TEST",
        "iteration: 7\n> 结论：PASS\n阻塞：无\n",
        &["verdict-missing"],
    ),
    bad(
        "key-in-the-wrong-case-is-a-near-miss",
        EN,
        "TEST",
        "iteration: 7\nVerdict: PASS\nBLOCKERS: none\n",
        &["verdict-missing", "blockers-missing"],
    ),
    bad(
        "space-before-the-colon-is-a-near-miss",
        EN,
        "TEST",
        "iteration: 7\nverdict : PASS\nblockers: none\n",
        &["verdict-missing"],
    ),
    bad(
        "zh-space-before-the-colon-is-a-near-miss",
        ZH,
        "TEST",
        "iteration: 7\n结论 ：PASS\n阻塞：无\n",
        &["verdict-missing"],
    ),
    bad(
        "key-in-backticks-is-a-near-miss",
        EN,
        "TEST",
        "iteration: 7\n`verdict: PASS`\n`blockers`: none\n",
        &["verdict-missing", "blockers-missing"],
    ),
    bad(
        "equals-sign-instead-of-the-colon-is-a-near-miss",
        EN,
        "TEST",
        "iteration: 7\nverdict = PASS\nblockers: none\n",
        &["verdict-missing"],
    ),
    bad(
        "zero-width-before-the-key-is-a-near-miss",
        EN,
        "TEST",
        "iteration: 7\n\u{200b}verdict: PASS\nblockers: none\n",
        &["verdict-missing"],
    ),
    bad(
        "zh-zero-width-inside-the-key-is-a-near-miss",
        ZH,
        "TEST",
        "iteration: 7\n结\u{200d}论：PASS\n阻塞：无\n",
        &["verdict-missing"],
    ),
    bad(
        "byte-order-mark-inside-the-text-is-a-near-miss",
        EN,
        "TEST",
        "notes\n\u{feff}iteration: 7\nverdict: PASS\nblockers: none\n",
        &["iteration-missing"],
    ),
    bad(
        "key-in-the-middle-of-a-line-does-not-count",
        EN,
        "TEST",
        "iteration: 7, verdict: PASS, blockers: none\n",
        &["verdict-missing", "blockers-missing", "iteration-malformed"],
    ),
    bad(
        "key-in-a-table-is-a-near-miss",
        EN,
        "TEST",
        "iteration: 7\n| verdict: | PASS |\nblockers: none\n",
        &["verdict-missing"],
    ),
    bad(
        "longer-word-is-not-the-key",
        EN,
        "TEST",
        "iteration: 7\nverdicts: PASS\nblockers: none\n",
        &["verdict-missing"],
    ),
];

// Key lines in code fences are somebody's output, not the report's word.
const FENCES: &[Case] = &[
    bad(
        "verdict-in-code-fence-does-not-count",
        EN,
        "TEST",
        "iteration: 7\n```\nverdict: PASS\n```\nblockers: none\n",
        &["verdict-missing"],
    ),
    bad(
        "verdict-in-tilde-fence-does-not-count",
        EN,
        "TEST",
        "iteration: 7\n~~~text\nverdict: PASS\n~~~\nblockers: none\n",
        &["verdict-missing"],
    ),
    bad(
        "zh-verdict-in-code-fence-does-not-count",
        ZH,
        "TEST",
        "iteration: 7\n```text\n结论：PASS\n```\n阻塞：无\n",
        &["verdict-missing"],
    ),
    good(
        "one-fence-around-the-whole-report-is-taken-off",
        EN,
        "TEST",
        "```report\niteration: 7\nverdict: PASS\nblockers: none\n```\n",
    ),
    good(
        "one-fence-around-a-report-with-blocks-of-its-own",
        EN,
        "TEST",
        "```markdown\niteration: 7\nverdict: PASS\nblockers: none\n\n```sh\ncargo test\n```\ndone\n```\n",
    ),
    bad(
        "text-outside-of-the-fence-leaves-it-a-block",
        EN,
        "TEST",
        "Here is my report:\n```\niteration: 7\nverdict: PASS\nblockers: none\n```\n",
        &["iteration-missing", "verdict-missing", "blockers-missing"],
    ),
    bad(
        "two-blocks-are-not-one-fence",
        EN,
        "TEST",
        "```\niteration: 7\nverdict: PASS\nblockers: none\n```\nand\n```\nlog\n```\n",
        &["iteration-missing", "verdict-missing", "blockers-missing"],
    ),
    bad(
        "a-wrong-line-inside-of-the-fence-keeps-its-number",
        EN,
        "TEST",
        "```\niteration: 8\nverdict: PASS\nblockers: none\n```\n",
        &["iteration-foreign"],
    ),
    bad(
        "fence-never-closed-hides-what-follows",
        EN,
        "TEST",
        "iteration: 7\n```\ncargo test\n\nverdict: PASS\nblockers: none\n",
        &["verdict-missing", "blockers-missing"],
    ),
    bad(
        "fence-never-closed-is-named-when-nothing-else-explains",
        EN,
        "TEST",
        "iteration: 7\nblockers: none\n\n~~~\n42 passed\n",
        &["verdict-missing"],
    ),
    bad(
        "zh-fence-never-closed-hides-what-follows",
        ZH,
        "TEST",
        "iteration: 7\n````\n```\n结论：PASS\n```\n阻塞：无\n",
        &["verdict-missing", "blockers-missing"],
    ),
    good(
        "quoted-output-does-not-count-a-second-time",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: wrong result of add()\n\n\
         ```\niteration: 6\nverdict: PASS\nblockers: none\n```\n",
    ),
    good(
        "shorter-fence-inside-a-longer-one-closes-nothing",
        EN,
        "TEST",
        "````md\n```\nverdict: FAIL\n```\nverdict: FAIL\n````\n\
         iteration: 7\nverdict: PASS\nblockers: none\n",
    ),
    good(
        "tildes-do-not-close-backticks",
        EN,
        "TEST",
        "```\n~~~\nverdict: FAIL\n```\niteration: 7\nverdict: PASS\nblockers: none\n",
    ),
    good(
        "fence-with-text-behind-it-closes-nothing",
        EN,
        "TEST",
        "```\n``` verdict\nverdict: FAIL\n```\niteration: 7\nverdict: PASS\nblockers: none\n",
    ),
    good(
        "inline-code-of-three-backticks-opens-no-fence",
        EN,
        "TEST",
        "```cargo test``` was run.\niteration: 7\nverdict: PASS\nblockers: none\n",
    ),
    good(
        "zh-indented-fence-is-a-fence",
        ZH,
        "TEST",
        "iteration: 7\n结论：PASS\n阻塞：无\n\
         - 输出：\n\x20\x20```\n\x20\x20结论：FAIL\n\x20\x20```\n",
    ),
];

// Blockers: the rest of the line, or the list under it.
const BLOCKER_LISTS: &[Case] = &[
    bad("blockers-missing", EN, "TEST", "iteration: 7\nverdict: PASS\n", &["blockers-missing"]),
    bad("zh-blockers-missing", ZH, "TEST", "iteration: 7\n结论：FAIL\n", &["blockers-missing"]),
    bad(
        "blockers-twice",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: overflow in add()\nblockers: overflow in sub()\n",
        &["blockers-twice"],
    ),
    bad(
        "zh-blockers-twice",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：add() 溢出\n阻塞：无\n",
        &["blockers-twice"],
    ),
    good(
        "zh-blockers-of-each-finding-are-text-if-there-is-a-bare-line",
        ZH,
        "REVIEW",
        "iteration: 7\n- 阻塞：用例 2\n  - 细节\n\n结论：FAIL\n阻塞：\n- 覆盖率不达标\n\n- 阻塞：无\n",
    ),
    good(
        "zh-blockers-twice-with-one-value-are-accepted",
        ZH,
        "REVIEW",
        "iteration: 7\n结论：PASS\n阻塞：无\n\n## 汇总\n阻塞：无\n",
    ),
    bad(
        "blockers-as-two-lists-are-refused",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n- a\n\nblockers:\n- a\n",
        &["blockers-twice"],
    ),
    bad(
        "blockers-line-empty-and-no-list",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n\nSee the log.\n",
        &["blockers-empty"],
    ),
    bad(
        "zh-blockers-line-empty-at-the-end",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：",
        &["blockers-empty"],
    ),
    bad(
        "empty-item-says-nothing",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n- overflow in add()\n-\n",
        &["blockers-empty"],
    ),
    good(
        "blockers-as-a-list",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n\
         - [impl] src/lib.rs:42 overflow in add()\n\
         - [test] no test for sub()\n\
         test command: cargo test\n",
    ),
    good(
        "zh-blockers-as-a-list",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：\n\
         - [impl] src/lib.rs:42 add() 溢出\n\
         - [test] sub() 没有测试\n\
         测试命令：cargo test\n",
    ),
    good(
        "blockers-as-a-star-list",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n* overflow in add()\n* overflow in sub()\n",
    ),
    good(
        "blockers-as-an-ordered-list",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n1. overflow in add()\n2) overflow in sub()\n",
    ),
    good(
        "zh-blockers-as-an-ordered-list",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：\n1、add() 溢出\n2、sub() 溢出\n10. mul() 溢出\n",
    ),
    good(
        "blank-lines-between-blockers",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n\n- overflow in add()\n\n\n- overflow in sub()\n",
    ),
    good(
        "list-ends-at-other-text",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n- overflow in add()\n\n\
         ## What changed\n- tests/add.rs: one test\n",
    ),
    good(
        "list-ends-at-the-next-key-line",
        EN,
        "TEST",
        "blockers:\n- overflow in add()\nverdict: FAIL\n- not a blocker\niteration: 7\n",
    ),
    good(
        "nested-items-belong-to-their-blocker",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n\
         - overflow in add()\n\x20\x20- at i32::MAX\n\x20\x20- at i32::MIN\n\
         - overflow in sub()\n",
    ),
    good(
        "zh-nested-items-belong-to-their-blocker",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：\n\
         - add() 溢出\n\x20\x20- 上界\n\x20\x20- 下界\n\
         - sub() 溢出\n",
    ),
    good(
        "indented-lines-go-on-with-their-blocker",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n\
         - src/lib.rs:42 add() panics\n\x20\x20where the plan asks for Error::Overflow\n",
    ),
    good(
        "indented-list-under-the-line",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n\
         \x20\x20- overflow in add()\n\x20\x20- overflow in sub()\n",
    ),
    good(
        "code-fence-between-blockers-is-skipped",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n- overflow in add()\n\
         \x20\x20```\n\x20\x20- not a blocker\n\x20\x20```\n- overflow in sub()\n",
    ),
    good(
        "list-under-a-key-line-that-is-an-item-stands-deeper",
        EN,
        "TEST",
        "- iteration: 7\n- verdict: FAIL\n- blockers:\n\
         \x20\x20- overflow in add()\n\x20\x20- overflow in sub()\n\
         - test command: cargo test\n",
    ),
    good(
        "zh-list-under-a-key-line-that-is-an-item-stands-deeper",
        ZH,
        "TEST",
        "- iteration: 7\n- **结论**：FAIL\n- **阻塞**：\n\
         \x20\x20- add() 溢出\n\
         - 测试命令：cargo test\n",
    ),
    bad(
        "sibling-items-of-an-empty-blockers-item-are-no-blockers",
        EN,
        "TEST",
        "- iteration: 7\n- verdict: FAIL\n- blockers:\n- test command: cargo test\n",
        &["blockers-empty"],
    ),
    good(
        "colon-and-code-in-a-blocker-are-kept",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: `add(1, 2)`: expected 3, but got **4**\n",
    ),
    good("a-thousand-blockers-are-read", EN, "TEST", "").made(|| blockers(1_000)),
    bad("more-than-a-thousand-blockers-are-a-log", EN, "TEST", "", &["blockers-too-many"])
        .made(|| blockers(1_001)),
];

// The class of a blocker: its tag, else the policy's words, else unknown.
const CLASSES: &[Case] = &[
    good(
        "tags-at-the-start-are-taken-off",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n\
         - [impl] add() is wrong\n\
         - [test] add() is untested\n\
         - [env] no compiler\n\
         - [spec] which bound?\n",
    ),
    good(
        "tag-in-capitals-counts",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: [IMPL] add() is wrong\n",
    ),
    good(
        "spaces-inside-a-tag-and-a-colon-behind-it-are-taken-off",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: [ impl ]: add() is wrong\n",
    ),
    good(
        "zh-wide-brackets-count",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：\n- 【impl】add() 不对\n- 【Test】：sub() 要补用例\n",
    ),
    good(
        "tag-at-the-end-is-taken-off",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: add() is wrong [impl]\n",
    ),
    good(
        "zh-tag-at-the-end-is-taken-off",
        ZH,
        "TEST",
        "iteration: 7\n结论：BLOCKED\n阻塞：缺 C 编译器【env】\n",
    ),
    good(
        "tag-in-the-middle-counts-and-stays",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: src/lib.rs [impl] add() is wrong\n",
    ),
    good(
        "unknown-tag-stays-and-the-class-is-unknown",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: [perf] add() takes a second\n",
    ),
    good(
        "zh-tag-in-chinese-is-no-class",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：【实现】add() 太慢\n",
    ),
    good(
        "class-of-another-pack-is-no-class",
        NOVEL,
        "CRITIQUE",
        "iteration: 7\nverdict: NEEDS_REVISION\nblockers: [impl] chapter 3 is too short\n",
    ),
    good(
        "tag-wins-over-the-words",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: [spec] add() panics, is that wanted?\n",
    ),
    good(
        "first-known-tag-wins",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: [M1-T1] [env] no compiler [impl]\n",
    ),
    good(
        "words-give-the-class-in-any-case",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n\
         - thread main PANICKED at src/lib.rs:42\n\
         - sub() is untested\n\
         - cargo: command not found\n\
         - the bound is not specified\n",
    ),
    good(
        "zh-words-give-the-class",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：\n\
         - src/lib.rs:42 断言失败\n\
         - sub() 覆盖率不足\n\
         - 网络不可用\n\
         - 下界未规定\n",
    ),
    good(
        "words-count-only-between-word-borders",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: the panicky wording of the message\n",
    ),
    good(
        "earlier-class-of-the-policy-wins",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: panic: permission denied\n",
    ),
    good(
        "what-matches-nothing-is-unknown",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: the build is red\n",
    ),
    good(
        "zh-what-matches-nothing-is-unknown",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：构建是红的\n",
    ),
    good(
        "analysis-words-give-its-own-classes",
        ANALYSIS,
        "VERIFY",
        "iteration: 7\nverdict: INVALID\nblockers:\n\
         - C1: circular argument\n\
         - C2: the sample too small, 12 answers\n\
         - table 3 stands behind a paywall\n",
    ),
    bad(
        "tag-without-words-says-nothing",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: [impl]\n",
        &["blockers-empty"],
    ),
    bad(
        "zh-tag-without-words-says-nothing",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：\n- 【impl】：\n",
        &["blockers-empty"],
    ),
];

// The clear value: exact, and alone.
const CLEAR_VALUES: &[Case] = &[
    good(
        "clear-value-as-the-only-item",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\nblockers:\n- none\n",
    ),
    good("zh-clear-value-as-the-only-item", ZH, "TEST", "iteration: 7\n结论：PASS\n阻塞：\n- 无\n"),
    bad(
        "clear-value-in-another-case-is-unclear",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\nblockers: None\n",
        &["blockers-unclear"],
    ),
    bad(
        "clear-value-with-a-full-stop-is-unclear",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: none.\n",
        &["blockers-unclear"],
    ),
    bad(
        "clear-value-in-brackets-as-an-item-is-unclear",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n- (none)\n",
        &["blockers-unclear"],
    ),
    bad(
        "clear-value-with-a-zero-width-inside-is-unclear",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: no\u{200b}ne\n",
        &["blockers-unclear"],
    ),
    bad(
        "zh-clear-value-with-a-full-stop-is-unclear",
        ZH,
        "TEST",
        "iteration: 7\n结论：PASS\n阻塞：无。\n",
        &["blockers-unclear"],
    ),
    bad(
        "zh-clear-value-in-wide-brackets-is-unclear",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：（无）\n",
        &["blockers-unclear"],
    ),
    bad(
        "clear-value-among-blockers-contradicts",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n- overflow in add()\n- none\n",
        &["blockers-contradict"],
    ),
    bad(
        "zh-clear-value-among-blockers-contradicts",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：\n- 无\n- add() 溢出\n",
        &["blockers-contradict"],
    ),
    good(
        "blocker-that-begins-with-the-clear-value-is-a-blocker",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: none of the 12 tests compiles\n",
    ),
    good(
        "zh-blocker-that-begins-with-the-clear-value-is-a-blocker",
        ZH,
        "TEST",
        "iteration: 7\n结论：BLOCKED\n阻塞：无权限写入 target/\n",
    ),
];

// Verdict and blockers must agree.
const AGREEMENT: &[Case] = &[
    bad(
        "pass-with-a-blocker",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\nblockers: overflow in add()\n",
        &["pass-with-blockers"],
    ),
    bad(
        "pass-with-a-list-of-blockers",
        EN,
        "REVIEW",
        "iteration: 7\nverdict: PASS\nblockers:\n- naming of add()\n- a comment is missing\n",
        &["pass-with-blockers"],
    ),
    bad(
        "zh-pass-with-a-blocker",
        ZH,
        "REVIEW",
        "iteration: 7\n结论：PASS\n阻塞：add() 的命名可以更好\n",
        &["pass-with-blockers"],
    ),
    bad(
        "fail-without-a-blocker",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: none\n",
        &["no-blockers"],
    ),
    bad(
        "zh-fail-without-a-blocker",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：无\n",
        &["no-blockers"],
    ),
    bad(
        "blocked-without-a-blocker",
        EN,
        "DEV",
        "iteration: 7\nverdict: BLOCKED\nblockers:\n- none\n",
        &["no-blockers"],
    ),
    bad(
        "novel-approved-with-a-blocker",
        NOVEL,
        "CRITIQUE",
        "iteration: 7\nverdict: APPROVED\nblockers: [prose] a typo in line 12\n",
        &["pass-with-blockers"],
    ),
    bad(
        "analysis-zh-insufficient-evidence-without-a-blocker",
        ANALYSIS_ZH,
        "VERIFY",
        "iteration: 7\n结论：INSUFFICIENT_EVIDENCE\n阻塞：无\n",
        &["no-blockers"],
    ),
    bad(
        "every-problem-is-told-at-once",
        EN,
        "TEST",
        "iteration: 8\nverdict: OK\nblockers: None\n",
        &["iteration-foreign", "verdict-unknown", "blockers-unclear"],
    ),
    bad(
        "zh-every-problem-is-told-at-once",
        ZH,
        "TEST",
        "# 测试报告\n一切正常。\n",
        &["iteration-missing", "verdict-missing", "blockers-missing"],
    ),
];

// Texts that are refused or read as a whole, whatever they say.
const WHOLE_TEXTS: &[Case] = &[
    bad("empty-report", EN, "TEST", "", &["report-empty"]),
    bad("report-of-white-space-is-empty", EN, "TEST", " \t\r\n\u{3000}\n", &["report-empty"]),
    bad("report-of-a-byte-order-mark-is-empty", ZH, "TEST", "\u{feff}", &["report-empty"]),
    bad(
        "report-of-invisible-characters-is-empty",
        EN,
        "TEST",
        "\u{feff}\u{200b}\u{2060}\n",
        &["report-empty"],
    ),
    bad("report-that-is-not-utf8", EN, "TEST", "", &["report-encoding"])
        .bytes(b"iteration: 7\nverdict: PASS\nblockers: caf\xe9\n"),
    bad("zh-report-in-gbk-is-not-utf8", ZH, "TEST", "", &["report-encoding"])
        .bytes(b"iteration: 7\n\xbd\xe1\xc2\xdb\xa3\xbaPASS\n"),
    bad("report-in-utf16-is-not-utf8", EN, "TEST", "", &["report-encoding"])
        .bytes(b"\xff\xfei\0t\0e\0r\0a\0t\0i\0o\0n\0:\0 \x007\0\n\0"),
    bad("zh-report-cut-inside-a-character-is-not-utf8", ZH, "TEST", "", &["report-encoding"])
        .bytes(b"iteration: 7\n\xe7\xbb\x93\xe8\xae\xba\xef\xbc\x9aPASS\n\xe9\x98\xbb\xe5\xa1"),
    good("report-of-exactly-4-mib-is-read", EN, "TEST", "").made(|| filled(4 << 20)),
    bad("report-over-4-mib-is-refused-by-its-size", EN, "TEST", "", &["report-size"])
        .made(|| filled((4 << 20) + 1)),
    good(
        "byte-order-mark-before-the-first-key-line",
        EN,
        "TEST",
        "\u{feff}iteration: 7\nverdict: PASS\nblockers: none\n",
    ),
    good(
        "zh-byte-order-mark-before-the-first-key-line",
        ZH,
        "TEST",
        "\u{feff}结论：PASS\niteration: 7\n阻塞：无\n",
    ),
    good(
        "carriage-return-and-line-feed",
        EN,
        "TEST",
        "iteration: 7\r\nverdict: FAIL\r\nblockers:\r\n- overflow in add()\r\n",
    ),
    good(
        "zh-carriage-return-and-line-feed",
        ZH,
        "TEST",
        "iteration: 7\r\n结论：PASS\r\n阻塞：无\r\n",
    ),
    good(
        "lone-carriage-returns",
        EN,
        "TEST",
        "iteration: 7\rverdict: FAIL\rblockers:\r- overflow in add()\r- overflow in sub()",
    ),
    bad(
        "lines-are-counted-with-every-line-end",
        EN,
        "TEST",
        "a\rb\r\nc\nd\r\n\r\niteration: 7\r\rverdict: PAS\rblockers: none",
        &["verdict-unknown"],
    ),
    good(
        "no-line-end-at-the-end",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: overflow in add()",
    ),
    good(
        "key-lines-in-any-order-between-prose",
        EN,
        "TEST",
        "# Report\n\nTests ran.\nblockers: none\n\nverdict: PASS\nAll is well.\niteration: 7\n",
    ),
    good("key-lines-at-the-end-of-several-screens", EN, "TEST", "").made(|| {
        let screens: String =
            (1..=400).map(|n| format!("- step {n}: ran case {n}, exit code 0\n")).collect();
        format!("# Report\n\n{screens}\niteration: 7\nverdict: PASS\nblockers: none\n").into()
    }),
    good("zh-key-lines-at-the-end-of-several-screens", ZH, "TEST", "").made(|| {
        let screens: String =
            (1..=400).map(|n| format!("第 {n} 步：运行用例 {n}，退出码 0。\n")).collect();
        let end = "iteration: 7\n结论：FAIL\n阻塞：\n- 用例 12 结果不符\n";
        format!("# 报告\n\n{screens}\n{end}").into()
    }),
    good(
        "zh-whole-report-as-the-prompt-asks-for-it",
        ZH,
        "TEST",
        r"iteration: 7
结论：FAIL
阻塞：
- [impl] src/lib.rs:42 add() 溢出时直接 panic；M1-T1 要求返回 Error::Overflow
测试命令：cargo test --workspace
失败用例：add_overflow_is_an_error
coverage: 83%

已测任务：M1-T1

## 改了哪里
- tests/add.rs：新增测试 add_overflow_is_an_error

## 证据
```
test add_overflow_is_an_error ... FAILED
结论：1 failed
```
",
    ),
];

// Whose report must say what.
const AGENTS: &[Case] = &[
    good("agent-outside-apply-to-needs-only-iteration", EN_REVIEW_FREE, "REVIEW", "iteration: 7\n"),
    good(
        "zh-agent-outside-apply-to-needs-only-iteration",
        ZH_REVIEW_FREE,
        "REVIEW",
        "看过了，没有意见。\niteration: 7\n",
    ),
    good(
        "verdict-of-an-agent-outside-apply-to-is-free-text",
        EN_REVIEW_FREE,
        "REVIEW",
        "iteration: 7\nverdict: fine by me\nverdict: PASS\nblockers:\n",
    ),
    bad(
        "agent-outside-apply-to-still-needs-its-iteration",
        EN_REVIEW_FREE,
        "REVIEW",
        "verdict: PASS\nblockers: none\n",
        &["iteration-missing"],
    ),
    bad(
        "zh-agent-outside-apply-to-with-a-foreign-iteration",
        ZH_REVIEW_FREE,
        "REVIEW",
        "iteration: 5\n没有意见。\n",
        &["iteration-foreign"],
    ),
    bad(
        "agent-inside-apply-to-follows-the-rules",
        EN_REVIEW_FREE,
        "DEV",
        "iteration: 7\n",
        &["verdict-missing", "blockers-missing"],
    ),
    good(
        "finish-review-that-passes",
        EN,
        "FINISH_REVIEW",
        "iteration: 7\nverdict: PASS\nblockers: none\nP0: none\nP1: none\n",
    ),
    bad(
        "finish-review-always-follows-the-rules",
        EN_REVIEW_FREE,
        "FINISH_REVIEW",
        "iteration: 7\nThe work is done.\n",
        &["verdict-missing", "blockers-missing"],
    ),
    bad(
        "zh-finish-review-always-follows-the-rules",
        ZH,
        "FINISH_REVIEW",
        "iteration: 7\n结论：FAIL\n阻塞：无\n",
        &["no-blockers"],
    ),
    good(
        "verdict-not-required-may-be-missing",
        EN_NO_VERDICT,
        "DEV",
        "iteration: 7\nblockers: overflow in add()\n",
    ),
    good(
        "zh-verdict-not-required-may-be-missing",
        ZH_NO_VERDICT,
        "DEV",
        "iteration: 7\n阻塞：无\n",
    ),
    bad(
        "verdict-not-required-must-still-be-an-allowed-one",
        EN_NO_VERDICT,
        "DEV",
        "iteration: 7\nverdict: DONE\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "verdict-not-required-must-still-agree-with-the-blockers",
        ZH_NO_VERDICT,
        "DEV",
        "iteration: 7\n结论：PASS\n阻塞：add() 溢出\n",
        &["pass-with-blockers"],
    ),
    bad(
        "verdict-not-required-leaves-blockers-required",
        EN_NO_VERDICT,
        "DEV",
        "iteration: 7\n",
        &["blockers-missing"],
    ),
];

// Escapes and bidi controls: kept in the value, never raw in a message.
const CONTROLS: &[Case] = &[
    good(
        "terminal-escapes-in-a-blocker-are-kept",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: [impl] \u{1b}[31merror\u{1b}[0m in add()\n",
    ),
    good(
        "bidi-controls-in-a-blocker-are-kept",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: file \u{202e}sr.bil\u{202c} is wrong\n",
    ),
    bad(
        "terminal-escapes-in-a-blocker-are-escaped-in-the-message",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\nblockers: \u{1b}]0;title\u{7}\u{1b}[2Jerror in add()\n",
        &["pass-with-blockers"],
    ),
    bad(
        "zh-bidi-controls-in-a-blocker-are-escaped-in-the-message",
        ZH,
        "TEST",
        "iteration: 7\n结论：PASS\n阻塞：文件\u{202e}名\u{202c}有误\n",
        &["pass-with-blockers"],
    ),
    bad(
        "terminal-escapes-around-the-verdict-are-shown",
        EN,
        "TEST",
        "iteration: 7\nverdict: \u{1b}[32mPASS\u{1b}[0m\nblockers: none\n",
        &["verdict-unknown"],
    ),
    bad(
        "zh-bidi-control-before-the-key-is-a-near-miss",
        ZH,
        "TEST",
        "iteration: 7\n\u{202e}结论：PASS\n阻塞：无\n",
        &["verdict-missing"],
    ),
    bad(
        "long-verdict-is-cut-in-the-message",
        EN,
        "TEST",
        "iteration: 7\n\
         verdict: I believe that all of this is fine and nobody should worry about it at all\n\
         blockers: none\n",
        &["verdict-unknown"],
    ),
];

// Mistakes that were once taken for something else.
const ONCE_ACCEPTED: &[Case] = &[
    bad(
        "a-tagged-list-under-the-clear-value-contradicts-it",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\nblockers: none\n- [impl] add() overflows\n",
        &["blockers-contradict"],
    ),
    bad(
        "zh-a-list-announced-on-the-line-is-not-lost",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：两个问题：\n- [impl] 溢出\n- [test] 缺少测试\n",
        &["blockers-contradict"],
    ),
    good(
        "another-list-behind-a-blank-line-is-not-of-blockers",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\nblockers: none\n\n- [impl] was mended\n",
    ),
    good(
        "other-items-directly-under-the-clear-value-are-free-text",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS\nblockers: none\n- coverage was 91%\n",
    ),
    good(
        "items-beside-a-key-line-that-is-an-item-are-free-text",
        EN,
        "TEST",
        "- iteration: 7\n- verdict: PASS\n- blockers: none\n- coverage was 91%\n",
    ),
    bad(
        "an-item-behind-a-wrapped-line-is-not-lost",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n- first that\ngoes on here\nand here\n- [impl] second\n",
        &["blockers-contradict"],
    ),
    good(
        "a-heading-ends-the-list",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n- [impl] first\n## Notes\n- [test] not a blocker\n",
    ),
    bad(
        "a-dash-is-no-blocker",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: —\n",
        &["blockers-empty"],
    ),
    bad(
        "dots-are-no-blocker",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: ...\n",
        &["blockers-empty"],
    ),
    bad(
        "a-zero-width-space-is-no-blocker",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: \u{200b}\n",
        &["blockers-empty"],
    ),
    bad(
        "the-clear-value-behind-a-tag-is-no-blocker",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers: [impl] none\n",
        &["blockers-unclear"],
    ),
    bad(
        "zh-the-clear-value-behind-a-tag-is-no-blocker",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：【impl】无\n",
        &["blockers-unclear"],
    ),
    good(
        "zh-the-english-clear-value-is-clear-too",
        ZH,
        "TEST",
        "iteration: 7\n结论：PASS\n阻塞：none\n",
    ),
    good(
        "a-fence-behind-a-list-mark-hides-its-lines",
        EN,
        "TEST",
        "- ```\n  verdict: FAIL\n  ```\niteration: 7\nverdict: PASS\nblockers: none\n",
    ),
    good(
        "an-index-or-a-link-is-no-tag",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n- lookup of array[env]\n- [test](tests/a.rs) says so\n",
    ),
    good(
        "a-tag-in-emphasis-is-taken-off",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\nblockers:\n- **[impl]** x of **y**\n- `[test]` z\n",
    ),
    good(
        "emphasis-of-the-value-is-kept",
        EN,
        "TEST",
        "iteration: 7\nverdict: FAIL\n**blockers**: use of **x**\n",
    ),
    good(
        "zh-wide-list-marks-are-marks",
        ZH,
        "TEST",
        "iteration: 7\n结论：FAIL\n阻塞：\n1）[impl] 一\n（2）[test] 二\n· 三\n",
    ),
    bad(
        "zh-a-key-in-brackets-is-a-near-miss",
        ZH,
        "TEST",
        "iteration: 7\n【结论】：PASS\n阻塞：无\n",
        &["verdict-missing"],
    ),
    bad(
        "all-verdicts-at-once-get-no-hint-towards-one",
        EN,
        "TEST",
        "iteration: 7\nverdict: PASS | FAIL | BLOCKED\nblockers: none\n",
        &["verdict-unknown"],
    ),
];

const GROUPS: [&[Case]; 13] = [
    VERDICTS,
    ITERATIONS,
    VERDICT_LINES,
    NEAR_MISSES,
    FENCES,
    BLOCKER_LISTS,
    CLASSES,
    CLEAR_VALUES,
    AGREEMENT,
    WHOLE_TEXTS,
    AGENTS,
    CONTROLS,
    ONCE_ACCEPTED,
];

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

fn cases() -> impl Iterator<Item = &'static Case> {
    GROUPS.into_iter().flatten()
}

fn case(name: &str) -> &'static Case {
    cases().find(|case| case.name == name).unwrap()
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

/// What was read, on one line.
fn summary(report: &Report) -> String {
    let mut out = format!("ok: {}", report.iteration);
    match &report.verdict {
        Some(verdict) => write!(out, " {} ({:?})", verdict.word, verdict.outcome).unwrap(),
        None => out.push_str(" without a verdict"),
    }
    for blocker in report.blockers.iter().take(5) {
        write!(out, " | {}: {}", blocker.class, text::shown(&blocker.text, 200)).unwrap();
    }
    if report.blockers.len() > 5 {
        write!(out, " | … {} in all", report.blockers.len()).unwrap();
    }
    out
}

#[test]
fn every_case_is_accepted_or_refused_as_the_table_says() {
    let mut wrong = Vec::new();
    for case in cases() {
        let codes: Vec<&str> = match case.read() {
            Ok(_) => Vec::new(),
            Err(problems) => problems.iter().map(|problem| problem.code).collect(),
        };
        if codes != case.codes {
            wrong.push(format!("{}: {codes:?} instead of {:?}", case.name, case.codes));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_read_and_the_words_of_every_refusal() {
    let mut out = String::new();
    for case in cases() {
        out.push_str(case.name);
        out.push('\n');
        match case.read() {
            Ok(report) => writeln!(out, "  {}", summary(&report)).unwrap(),
            Err(problems) => {
                for problem in problems {
                    writeln!(out, "  {problem}").unwrap();
                }
            }
        }
    }
    insta::assert_snapshot!("report_cases", out);
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
    let used: BTreeSet<&str> = cases().flat_map(|case| case.codes).copied().collect();
    assert_eq!(used, BTreeSet::from(CODES));
}

#[test]
fn every_verdict_of_every_pack_is_read() {
    let mut read: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for case in cases() {
        let verdict = case.read().ok().and_then(|report| report.verdict);
        let words = read.entry((case.board.pack, case.board.language)).or_default();
        words.extend(verdict.map(|verdict| verdict.word));
    }
    for (board, rules) in RULES.iter() {
        // A pack without cases of its own has the words of one that has them.
        let known = if board.0 == "scenario" { ("tdd", board.1) } else { *board };
        let allowed = rules.verdict_allowed.iter().cloned().collect();
        assert_eq!(read[&known], allowed, "{board:?}");
    }
}

#[test]
fn control_characters_stay_in_the_value_and_out_of_every_message() {
    let text = |name: &str| case(name).read().unwrap().blockers.remove(0).text;
    assert_eq!(text("terminal-escapes-in-a-blocker-are-kept"), "\u{1b}[31merror\u{1b}[0m in add()");
    assert_eq!(text("bidi-controls-in-a-blocker-are-kept"), "file \u{202e}sr.bil\u{202c} is wrong");
    for case in cases() {
        for problem in case.read().err().unwrap_or_default() {
            for shown in [problem.to_string(), problem.found.unwrap_or_default()] {
                let raw = |c: char| c.is_control() || text::is_invisible(c);
                assert!(!shown.contains(raw), "{}: {shown:?}", case.name);
            }
        }
    }
}
