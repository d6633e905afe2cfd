//! Plans: what is read, what an update changes, what is refused.

use baton_core::messages::Language;
use baton_core::plan::{Finality, Plan, parse_statements};
use baton_core::policy::PlanRules;
use baton_core::problem::Problem;
use baton_core::workflow::explained;
use similar::TextDiff;

use crate::common;
use crate::corpus;

fn rules() -> PlanRules {
    common::pack("tdd", "en").policy.plan
}

const PLAN: &str = "\
# Plan

Some words of a person.

## Milestone M1: Parser

### M1-T1: read numbers
- status: DOING
- acceptance:
  - status: 200 is a number too
  - 1e999 is refused
- owner: Ada

### M1-T2: 读取中文
- **status**: TODO

## Milestone M2：Output

### M2-T1: print
#### test phase
- status: DONE
#### dev phase
- status: TODO

Notes at the end.
";

fn read(text: &str) -> Result<Plan, Vec<Problem>> {
    Plan::read(text, &rules())
}

fn shown(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn both_forms_of_status_and_all_fields_are_read() {
    let plan = read(PLAN).unwrap();
    let tasks: Vec<(&str, &str, Option<&str>)> = plan
        .tasks
        .iter()
        .map(|task| (task.id.as_str(), task.status.as_str(), task.milestone.as_deref()))
        .collect();
    assert_eq!(
        tasks,
        [
            ("M1-T1", "IN_PROGRESS", Some("M1")),
            ("M1-T2", "TODO", Some("M1")),
            ("M2-T1", "TODO", Some("M2")),
        ]
    );
    assert_eq!(plan.milestones[1].title, "Output");
    assert_eq!(plan.task("M1-T1").unwrap().field("owner"), Some("Ada"));
    assert_eq!(
        plan.task("M1-T1").unwrap().field("acceptance"),
        Some("\n- status: 200 is a number too\n- 1e999 is refused")
    );
    assert_eq!(plan.status_counts(&rules())[0], ("TODO", 2));
    assert!(plan.warnings().is_empty());
}

/// The lines that an update removed and added, without any context.
fn change(text: &str, statements: &str) -> String {
    let parsed = parse_statements(statements).map_err(|problems| shown(&problems));
    let applied = parsed.and_then(|parsed| {
        read(text)
            .unwrap()
            .updated(&parsed, &rules(), &Finality::Allowed)
            .map_err(|problems| shown(&problems))
    });
    match applied {
        Err(problems) => problems,
        Ok(applied) => {
            let diff = TextDiff::from_lines(text, applied.plan.text());
            let lines = diff.unified_diff().context_radius(0).to_string();
            let lines: Vec<&str> = lines.lines().filter(|line| !line.starts_with("@@")).collect();
            format!("{}\n= {}", lines.join("\n"), applied.summary(Language::English))
        }
    }
}

#[test]
fn an_update_changes_only_the_lines_it_must() {
    insta::assert_snapshot!(change(PLAN, "update M1-T1 status to DONE"), @"
    -- status: DOING
    +- status: DONE
    = M1-T1 IN_PROGRESS→DONE
    ");
    insta::assert_snapshot!(change(PLAN, "update M1-T2 status to DOING; update M2-T1 status to BLOCKED"), @"
    -- **status**: TODO
    +- **status**: IN_PROGRESS
    -- status: TODO
    +- status: BLOCKED
    = M1-T2 TODO→IN_PROGRESS; M2-T1 TODO→BLOCKED
    ");
    insta::assert_snapshot!(change(PLAN, "set M1-T1 acceptance: a; b: c\nset M1-T2 evidence: 中文；证据"), @"
    -- acceptance:
    -  - status: 200 is a number too
    -  - 1e999 is refused
    +- acceptance: a; b: c
    +- evidence: 中文；证据
    = M1-T1 acceptance: a; b: c; M1-T2 evidence: 中文；证据
    ");
    insta::assert_snapshot!(change(PLAN, "set M2-T1 evidence: seen"), @"
    +- evidence: seen
    = M2-T1 evidence: seen
    ");
    insta::assert_snapshot!(change(PLAN, "add M1-T3: works under load"), @"
    +### M1-T3: works under load
    +- status: TODO
    +
    = M1-T3 added
    ");
    insta::assert_snapshot!(change(PLAN, "add X9: odd id under M2\nupdate X9 status to DONE\nset X9 evidence: e"), @"
    +
    +### X9: odd id
    +- status: DONE
    +- evidence: e
    = X9 added; X9 evidence: e
    ");
    insta::assert_snapshot!(change(PLAN, "add M3: Release；add M3-T1: ship"), @"
    +
    +## Milestone M3: Release
    +
    +### M3-T1: ship
    +- status: TODO
    = M3 added; M3-T1 added
    ");
    insta::assert_snapshot!(change(PLAN, "UPDATE M1-T1 Status TO `IN_PROGRESS`"), @"
    -- status: DOING
    +- status: IN_PROGRESS
    =
    ");
}

#[test]
fn a_fence_or_comment_belongs_to_the_field_it_is_indented_under_and_to_no_other() {
    let plan = "### M1-T1: a\n- status: TODO\n- evidence: old\n  ```\n  its own log\n  ```\n```\nsomebody's code\n```\n  more\n<!-- a note -->\n";
    insta::assert_snapshot!(change(plan, "set M1-T1 evidence: new"), @"
    -- evidence: old
    -  ```
    -  its own log
    -  ```
    +- evidence: new
    = M1-T1 evidence: new
    ");
}

#[test]
fn headings_without_a_colon_are_free_text() {
    let plan = read("## Release v1\n### Python3\n### Notes v2\n## Release v1\n## Milestone M1: x\n### M1-T1: y\n- status: TODO\n").unwrap();
    assert_eq!((plan.milestones.len(), plan.tasks.len()), (1, 1));
}

#[test]
fn emphasis_of_the_value_alone_is_replaced_with_it() {
    insta::assert_snapshot!(change("### M1-T1: a\n- status:**TODO**\n", "update M1-T1 status to DONE"), @"
    -- status:**TODO**
    +- status: DONE
    = M1-T1 TODO→DONE
    ");
    insta::assert_snapshot!(change("### M1-T1: a\n- **status:** TODO\n", "update M1-T1 status to DONE"), @"
    -- **status:** TODO
    +- **status:** DONE
    = M1-T1 TODO→DONE
    ");
}

#[test]
fn line_ends_and_a_missing_last_one_are_kept() {
    let crlf = "## Milestone M1: a\r\n### M1-T1: b\r\n- status: TODO";
    let plan = read(crlf).unwrap();
    let update = |statements: &str| {
        plan.updated(&parse_statements(statements).unwrap(), &rules(), &Finality::Allowed)
            .unwrap()
            .plan
            .text()
            .to_owned()
    };
    assert_eq!(
        update("update M1-T1 status to DONE"),
        "## Milestone M1: a\r\n### M1-T1: b\r\n- status: DONE"
    );
    assert_eq!(
        update("set M1-T1 evidence: e"),
        "## Milestone M1: a\r\n### M1-T1: b\r\n- status: TODO\r\n- evidence: e\r\n"
    );
    assert_eq!(
        update("add M1-T2: c"),
        "## Milestone M1: a\r\n### M1-T1: b\r\n- status: TODO\r\n\r\n### M1-T2: c\r\n- status: TODO\r\n"
    );
    let bom = read("\u{feff}### M1-T1: b\n- status：TODO\n").unwrap();
    let updated = bom.updated(
        &parse_statements("update M1-T1 status to DONE").unwrap(),
        &rules(),
        &Finality::Allowed,
    );
    assert_eq!(updated.unwrap().plan.text(), "\u{feff}### M1-T1: b\n- status：DONE\n");
}

const REFUSED_STATEMENTS: [&str; 23] = [
    "update M1-T9 status to DONE",
    "update M1-T1 status to DNOE",
    "update M1-T1 to DONE",
    "update M1-T1 status to DONE now",
    "finish M1-T1",
    "updaet M1-T1 status to DONE",
    "add M1-T4",
    "add M1-T4:",
    "add bad id: x",
    "add Z: x",
    "add M9-T1: x",
    "add M1-T1: again",
    "add M1: again",
    "add M1-T4: x under M8",
    "set M1-T1 status: DONE",
    "set M1-T1 evidnce: x",
    "set M1-T1 evidence:",
    "set M7-T1 evidence: x",
    "",
    " ; ； ",
    "update M1-T1 status to DONE; nonsense",
    "把 M1-T1 改为 DONE",
    "update M1-T1 status to DONE\nupdate M1-T9 status to DONE",
];

#[test]
fn every_refused_statement_is_explained() {
    let all: Vec<String> = REFUSED_STATEMENTS
        .iter()
        .map(|case| {
            format!("{}\n  {}", case.escape_debug(), change(PLAN, case).replace('\n', "\n  "))
        })
        .collect();
    insta::assert_snapshot!(all.join("\n"));
    assert!(parse_statements(&"update M1-T1 status to DONE\n".repeat(201)).is_err());
}

#[test]
fn the_final_status_needs_a_pass() {
    let plan = read(PLAN).unwrap();
    let refused = Finality::Refused("no newest report of `TEST`, `REVIEW` passed".into());
    let statements = parse_statements("update M1-T1 status to VERIFIED").unwrap();
    let problems = plan.updated(&statements, &rules(), &refused).unwrap_err();
    insta::assert_snapshot!(shown(&problems), @"1:1: task `M1-T1` may not become `VERIFIED`: no newest report of `TEST`, `REVIEW` passed");
    assert!(plan.updated(&statements, &rules(), &Finality::Allowed).is_ok());
    let replacement = "### M1-T1: a\n- status: VERIFIED\n";
    assert!(
        plan.replaced(replacement, &rules(), &refused).is_err(),
        "a replacement obeys the same rule"
    );
    assert!(
        plan.replaced("### N1: new\n- status: VERIFIED\n", &rules(), &refused).is_err(),
        "so does a new task"
    );
    let verified = read(replacement).unwrap();
    assert!(
        verified.replaced(replacement, &rules(), &refused).is_ok(),
        "what was final before may stay so"
    );
    assert!(verified.is_ready(&rules()));
    assert!(!read("# nothing\n").unwrap().is_ready(&rules()), "a plan without tasks is not ready");
}

#[test]
fn a_replacement_names_what_it_dropped() {
    let plan = read(PLAN).unwrap();
    let applied = plan
        .replaced(
            "## Milestone M1: Parser\n### M1-T1: x\n- status: DONE\n### M1-T7: y\n- status: TODO\n",
            &rules(),
            &Finality::Allowed,
        )
        .unwrap();
    insta::assert_snapshot!(applied.summary(Language::English), @"M1-T1 IN_PROGRESS→DONE; M1-T7 added; M1-T2 dropped; M2-T1 dropped");
}

const WRONG_PLANS: [&str; 10] = [
    "### M1-T1: a\n",
    "### M1-T1: a\n- status: DNOE\n",
    "### M1-T1: a\n- status:\n",
    "### M1-T1: a\n- status: TODO\n### M1-T1: b\n- status: TODO\n",
    "## Milestone M1: a\n## Milestone M1: b\n",
    "### M1-T1: a\n```\n- status: TODO\n",
    "### M1-T1: a\n```\n- status: TODO\n```\n",
    "<!-- x\n### M1-T1: a\n- status: TODO\n",
    "### M1-T1: 中文\n- 状态: TODO\n",
    "### M1-T1: a\n  - status: 进行中\n",
];

#[test]
fn every_wrong_plan_is_explained() {
    let all: Vec<String> = WRONG_PLANS
        .iter()
        .map(|case| {
            format!(
                "{}\n  {}",
                case.escape_debug(),
                shown(&read(case).unwrap_err()).replace('\n', "\n  ")
            )
        })
        .collect();
    insta::assert_snapshot!(all.join("\n"));
    let too_many = "### A1: x\n".repeat(10_001);
    assert!(shown(&read(&too_many).unwrap_err()).contains("more than 10000 tasks"));
    assert!(shown(&read(&" ".repeat(5 << 20)).unwrap_err()).contains("bytes"));
}

/// The problems of a statement, when it is read or when it meets the plan.
fn refused(statement: &str, finality: &Finality) -> Vec<Problem> {
    let parsed = match parse_statements(statement) {
        Ok(parsed) => parsed,
        Err(problems) => return problems,
    };
    read(PLAN).unwrap().updated(&parsed, &rules(), finality).unwrap_err()
}

#[test]
fn every_problem_of_a_plan_is_in_chinese_for_a_chinese_pack() {
    for statement in REFUSED_STATEMENTS {
        let problems = refused(statement, &Finality::Allowed);
        corpus::check_chinese(&problems, statement, statement);
    }
    let many = ["### A1: x\n".repeat(10_001), "## Milestone M1: x\n".repeat(10_001)];
    for plan in WRONG_PLANS.map(str::to_owned).into_iter().chain(many) {
        corpus::check_chinese(&read(&plan).unwrap_err(), &plan, &plan);
    }
    let too_large = read(&" ".repeat(5 << 20)).unwrap_err();
    corpus::check_chinese(&too_large, "", "a plan of 5 MiB");
}

#[test]
fn refused_statements_in_chinese_name_the_nearest_word() {
    let unproved = Finality::Refused("`TEST` 的最新报告没有通过".to_owned());
    let statements = [
        "update M1-T9 status to DONE",
        "updaet M1-T1 status to DONE",
        "add M1-T1: again",
        "add M1-T4: x under M8",
        "update M1-T1 status to VERIFIED",
    ];
    let shown = statements.map(|own| explained(&refused(own, &unproved), Language::Chinese));
    insta::assert_snapshot!(shown.join("\n"), @"
    第 1 行第 1 列：没有任务 `M1-T9`；要求：`M1-T1`、`M1-T2`、`M2-T1` 之一；是否想写 `M1-T1`？
    第 1 行第 1 列：`updaet M1-T1 status to DONE` 不是语句；要求：`update <ID> status to <STATUS>`、`add <ID>: <title> [under <MILESTONE>]`、`set <ID> evidence: <text>` 或 `set <ID> acceptance: <text>`；是否想写 `update`？
    第 1 行第 1 列：编号 `M1-T1` 已被使用
    第 1 行第 1 列：没有里程碑 `M8`；要求：`M1`、`M2` 之一；是否想写 `M1`？
    第 1 行第 1 列：任务 `M1-T1` 不能设为 `VERIFIED`：`TEST` 的最新报告没有通过
    ");
}

#[test]
fn what_is_only_odd_is_a_warning() {
    let plan = read("## M1-T1: task at the wrong level\n<!-- ### M1-T2: out\n- status: x -->\n### Notes\n### 2026-01-01: log\n").unwrap();
    insta::assert_snapshot!(shown(&plan.warnings()), @"
    warning: the plan has no task yet
    1:1: warning: `## M1-T1: task at the wrong level` reads like a task but is not one; expected `### <ID>: <title>`
    ");
}
