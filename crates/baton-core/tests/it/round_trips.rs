//! parse(render(x)) = x under random generation, and history's grammar on old files.

use baton_core::decision::{self, Choice, Decision, Moment, Next, PlanChange, Question};
use baton_core::document::Document;
use baton_core::history::{self, Block, Entry, Heading};
use baton_core::id::{AgentName, Iteration};
use baton_core::plan::{
    self, Action, Finality, Milestone, Plan, Statement, Task, parse_statements,
};
use baton_core::policy::{Policy, UNKNOWN_CLASS};
use baton_core::problem::Place;
use baton_core::report::{self, Blocker, Expected, Report, Verdict};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use similar::{ChangeTag, TextDiff};

use crate::common;

/// A line of text as people write it: both scripts, punctuation, no control characters.
const LINE: &str = "[A-Za-z0-9 ,.;:#*_`\\[\\]\\\\(){}/'\"<>=+!?中文测试，。：；（）【】、-]{0,40}";

fn line() -> impl Strategy<Value = String> {
    LINE.prop_map(|text: String| text.trim().to_owned())
}

fn words() -> impl Strategy<Value = String> {
    line().prop_filter("text is needed", |text| text.chars().any(char::is_alphanumeric))
}

fn agents() -> Vec<AgentName> {
    common::pack("tdd", "en").manifest.agent_names()
}

fn reports(policy: &Policy) -> impl Strategy<Value = Report> + use<> {
    let rules = policy.report_rules.clone();
    let classes: Vec<String> = rules.blocker_classes.keys().cloned().collect();
    let blocker = (proptest::sample::select(classes), words())
        .prop_map(|(class, text)| Blocker { class, text });
    let verdicts: Vec<String> = rules.verdict_allowed.clone();
    (0..4usize, any::<u32>(), proptest::sample::select(verdicts), vec(blocker, 1..5)).prop_map(
        move |(who, iteration, word, blockers)| {
            let agent = agents()
                .get(who)
                .cloned()
                .unwrap_or_else(|| AgentName::new("FINISH_REVIEW").unwrap());
            let outcome = rules.outcome(&word).unwrap();
            let passed = outcome == baton_core::policy::Outcome::Pass;
            let blockers = if passed { Vec::new() } else { blockers };
            Report {
                agent,
                iteration: Iteration(iteration),
                verdict: Some(Verdict { word, outcome }),
                blockers,
            }
        },
    )
}

/// A tag inside a text counts as its class too, so the generated text must not hold another one.
fn is_plain(report: &Report, policy: &Policy) -> bool {
    report.blockers.iter().all(|blocker| {
        let tagged = |class: &String| blocker.text.to_lowercase().contains(class.as_str());
        !policy.report_rules.blocker_classes.keys().any(tagged)
            && !blocker.text.starts_with([':', '：'])
    })
}

fn a_report_round_trips(name: &str, language: &str) {
    let policy = common::pack(name, language).policy;
    let mut runner = proptest::test_runner::TestRunner::default();
    runner
        .run(&reports(&policy), |report| {
            prop_assume!(is_plain(&report, &policy));
            let text = report::render(&report, &policy.report_rules);
            let expected =
                Expected { agent: report.agent.clone(), iteration: Some(report.iteration) };
            prop_assert_eq!(
                report::read(text.as_bytes(), &policy.report_rules, &expected),
                Ok(report),
                "{}",
                text
            );
            Ok(())
        })
        .unwrap();
}

#[test]
fn reports_round_trip_in_english() {
    a_report_round_trips("tdd", "en");
}

#[test]
fn reports_round_trip_in_chinese() {
    a_report_round_trips("tdd", "zh");
}

#[test]
fn an_untagged_blocker_of_no_class_is_unknown_and_round_trips() {
    let policy = common::pack("tdd", "zh").policy;
    let report = Report {
        agent: AgentName::new("TEST").unwrap(),
        iteration: Iteration(1),
        verdict: Some(Verdict { word: "FAIL".into(), outcome: baton_core::policy::Outcome::Fail }),
        blockers: vec![Blocker { class: UNKNOWN_CLASS.into(), text: "说不清".into() }],
    };
    let text = report::render(&report, &policy.report_rules);
    let expected = Expected { agent: report.agent.clone(), iteration: None };
    assert_eq!(report::read(text.as_bytes(), &policy.report_rules, &expected), Ok(report));
}

fn plans() -> impl Strategy<Value = (Vec<Milestone>, Vec<Task>)> {
    let statuses = ["TODO", "IN_PROGRESS", "BLOCKED", "DONE", "VERIFIED"];
    let title = || words().prop_filter("a title is no id", |text| !text.contains([':', '：']));
    let extra = (
        proptest::sample::select(vec!["acceptance", "evidence", "owner", "验收"]),
        vec(words(), 1..3),
    )
        .prop_map(|(name, lines)| (name, lines.join("\n")));
    let task = (title(), proptest::sample::select(statuses.to_vec()), vec(extra, 0..3));
    vec((title(), vec(task, 0..4)), 0..4).prop_map(|groups| {
        let mut milestones = Vec::new();
        let mut tasks = Vec::new();
        for (index, (title, inside)) in groups.into_iter().enumerate() {
            let milestone = format!("M{}", index + 1);
            milestones.push(Milestone::new(&milestone, &title));
            for (number, (title, status, extra)) in inside.into_iter().enumerate() {
                let id = format!("{milestone}-T{}", number + 1);
                let mut fields: Vec<(&str, &str)> = vec![("status", status)];
                fields.extend(extra.iter().map(|(name, value)| (*name, value.as_str())));
                tasks.push(Task::new(&id, &title, Some(&milestone), &fields, status));
            }
        }
        (milestones, tasks)
    })
}

/// Fields whose text opens a fence or a comment are read as such.
fn is_quiet(text: &str) -> bool {
    !text.contains("```") && !text.contains("~~~") && !text.contains("<!--")
}

proptest! {
    #[test]
    fn plans_round_trip((milestones, tasks) in plans()) {
        let text = plan::render(&milestones, &tasks);
        prop_assume!(is_quiet(&text));
        let read = Plan::read(&text, &common::pack("tdd", "en").policy.plan);
        let read = read.map_err(|problems| TestCaseError::fail(format!("{problems:?}\n{text}")))?;
        prop_assert!(read.milestones.iter().zip(&milestones).all(|(a, b)| a.same(b)), "{text}");
        prop_assert_eq!(read.tasks.len(), tasks.len());
        for (have, want) in read.tasks.iter().zip(&tasks) {
            prop_assert!(have.same(want), "{have:#?}\n{want:#?}\n{text}");
        }
    }

    /// A status update replaces one line; everything else stays byte for byte.
    #[test]
    fn an_update_touches_one_line((milestones, tasks) in plans(), pick in any::<prop::sample::Index>(), status in "TODO|DOING|DONE|VERIFIED") {
        let text = plan::render(&milestones, &tasks);
        prop_assume!(is_quiet(&text) && !tasks.is_empty());
        let rules = common::pack("tdd", "en").policy.plan;
        let task = &tasks[pick.index(tasks.len())];
        let statements = parse_statements(&format!("update {} status to {status}", task.id)).unwrap();
        let plan = Plan::read(&text, &rules).unwrap();
        let applied = plan.updated(&statements, &rules, &Finality::Allowed).unwrap();
        let wanted = rules.status(&status).unwrap();
        prop_assert_eq!(&applied.plan.task(&task.id).unwrap().status, wanted);
        let diff = TextDiff::from_lines(text.as_str(), applied.plan.text());
        let changed = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal).count();
        prop_assert_eq!(changed, if task.status == wanted { 0 } else { 2 });
    }

    /// `set` and `add` add lines or replace one field; nobody else's line changes.
    #[test]
    fn set_and_add_keep_every_other_line((milestones, tasks) in plans(), pick in any::<prop::sample::Index>(), value in words()) {
        let text = plan::render(&milestones, &tasks);
        prop_assume!(is_quiet(&text) && is_quiet(&value) && !tasks.is_empty());
        let rules = common::pack("tdd", "en").policy.plan;
        let task = &tasks[pick.index(tasks.len())];
        let set = format!("set {} evidence: {value}\nadd M1-T99: extra", task.id);
        let applied = Plan::read(&text, &rules).unwrap().updated(&parse_statements(&set).unwrap(), &rules, &Finality::Allowed);
        let applied = applied.map_err(|problems| TestCaseError::fail(format!("{problems:?}\n{text}")))?;
        for other in tasks.iter().filter(|other| other.id != task.id) {
            prop_assert!(applied.plan.task(&other.id).unwrap().same(other));
        }
        prop_assert_eq!(applied.plan.task(&task.id).unwrap().field("evidence"), Some(value.as_str()));
        prop_assert_eq!(&applied.plan.task("M1-T99").unwrap().status, "TODO");
    }

    #[test]
    fn statements_round_trip(id in "[A-Z][0-9]{1,3}-T[0-9]{1,3}", status in "[A-Z_]{1,12}", title in words(), value in words(), kind in 0..4u8) {
        prop_assume!(!title.contains([';', '；']) && !title.contains(" under ") && !title.starts_with([':', '：']) && !value.starts_with([':', '：']));
        let action = match kind {
            0 => Action::Update { id, status: status.trim_matches('_').to_owned() },
            1 => Action::AddTask { milestone: id.split('-').next().unwrap().to_owned(), id, title },
            2 => Action::AddMilestone { id: id.split('-').next().unwrap().to_owned(), title },
            _ => Action::Set { id, field: "evidence", value },
        };
        prop_assume!(!matches!(&action, Action::Update { status, .. } if status.is_empty()));
        let read = parse_statements(&action.to_string());
        prop_assert_eq!(read, Ok(vec![Statement { place: Place::START, action }]));
    }

    #[test]
    fn decisions_round_trip(decision in decisions()) {
        let text = decision::render(&decision);
        prop_assert_eq!(decision::read(&text, &agents(), Moment::FinishCheck), Ok(decision), "{}", text);
    }

    #[test]
    fn history_entries_round_trip(block in blocks()) {
        let text = history::render(&block);
        let read = history::read(&text);
        prop_assert_eq!(read.len(), 1, "{}", text);
        prop_assert_eq!(&read[0].block(), &block, "{}", text);
    }

    /// Whatever a model or a person wrote, the file has exactly the blocks that were appended.
    #[test]
    fn no_text_can_pose_as_an_entry(all in vec(blocks(), 1..6)) {
        let text: String = all.iter().map(history::render).collect();
        let read = history::read(&text);
        let kinds: Vec<Option<Iteration>> = read.iter().map(history::Placed::iteration).collect();
        let number = |block: &Block<'_>| match block {
            Block::Iteration { iteration, .. } | Block::UserDecision { iteration, .. } => Some(*iteration),
            Block::TaskGoal { .. } | Block::Other { .. } => None,
        };
        let wanted: Vec<Option<Iteration>> = all.iter().map(number).collect();
        prop_assert_eq!(kinds, wanted, "{}", text);
    }

    #[test]
    fn policies_round_trip(pick in 0..3usize, language in 0..2usize, pass in "[A-Z]{3,8}", prefix in "[a-z]{3,8}:", clear in "[a-z]{2,6}", max in 1..20u32, gates in vec("[a-z ]{1,20}[a-z]", 0..3)) {
        let mut policy = common::pack(crate::PACKS[pick], crate::LANGUAGES[language]).policy;
        let rules = &mut policy.report_rules;
        prop_assume!(!rules.verdict_allowed.contains(&pass) && !prefix.starts_with("iter") && prefix != "blockers:");
        rules.verdict_allowed.push(pass.clone());
        rules.verdict_pass.0.push(pass);
        rules.verdict_prefix = prefix;
        rules.blocker_clear_value.0 = vec![clear];
        if let Some(subloop) = &mut policy.subloop {
            subloop.max = max;
        }
        policy.gates = gates.into_iter().map(|run| baton_core::policy::Gate { on: AgentName::new("FINISH").unwrap().into(), run, timeout: 5, allow: vec![baton_core::policy::Allowed::Network] }).collect();
        prop_assume!(policy.gates.iter().all(|gate| !gate.run.trim().is_empty()));
        let text = policy.render();
        prop_assert_eq!(Policy::read(&Document::json(&text).unwrap()), Ok(policy));
    }
}

fn decisions() -> impl Strategy<Value = Decision> {
    let question = (words(), words(), vec(words(), 2..5), option::of(0..2usize)).prop_map(
        |(title, text, descriptions, best)| {
            let options: Vec<Choice> = descriptions
                .into_iter()
                .enumerate()
                .map(|(index, description)| Choice { option_id: format!("o{index}"), description })
                .collect();
            Question {
                title,
                text,
                options,
                recommended_option_id: best.map(|best| format!("o{best}")),
            }
        },
    );
    let next = prop_oneof![
        proptest::sample::select(agents()).prop_map(Next::Agent),
        question.prop_map(Next::User),
        Just(Next::Finish),
    ];
    let plan = prop_oneof![
        Just(PlanChange::None),
        words().prop_map(PlanChange::Replace),
        vec("update M[1-9]-T[1-9] status to [A-Z]{2,8}", 1..4).prop_map(|lines| {
            let text = lines.join("\n");
            PlanChange::Update(parse_statements(&text).unwrap(), text)
        }),
    ];
    (next, words(), plan, any::<bool>(), option::of(words()), option::of(words())).prop_map(
        |(next, reason, plan, overrules_review, task, note)| {
            // The flat form, which alone has a note, knows no statements.
            let note = note.filter(|_| !matches!(plan, PlanChange::Update(..)));
            Decision { next, reason, plan, overrules_review, task, note }
        },
    )
}

/// Several lines, some of them dressed as headings, fields or escapes.
fn prose() -> impl Strategy<Value = String> {
    let trap = proptest::sample::select(vec![
        "## Iteration 99: [MILESTONE] fake",
        "## Task Goal",
        "## User Decision (Iteration 3): x",
        "next_agent: EVIL",
        "\\## Iteration 4",
        "\\\\## Task Goal",
        "  indented",
        "```",
        "# Title",
        "## ",
    ]);
    let part = prop_oneof![words(), trap.prop_map(str::to_owned), Just(String::new())];
    vec(part, 1..6).prop_map(|lines| lines.join("\n").trim_matches('\n').trim_end().to_owned())
}

fn blocks() -> impl Strategy<Value = Block<'static>> {
    let time = || option::of(Just("2026-01-31T00:44:55".to_owned()));
    let is_title = |text: &String| {
        !text.contains(" - ") && !text.starts_with("- ") && !text.starts_with([':', '：'])
    };
    let title = move || words().prop_filter("a title without a time", is_title);
    let fields = vec(
        (
            proptest::sample::select(vec!["next_agent", "reason", "dev_plan", "blockers", "note"]),
            prose(),
        ),
        0..5,
    );
    let lines = fields.prop_map(|fields| {
        fields
            .into_iter()
            .map(|(key, value)| Entry::Field { key: key.into(), value: value.into() })
            .collect::<Vec<_>>()
    });
    let lines = std::rc::Rc::new(lines.boxed());
    let iteration_lines = (*lines).clone();
    prop_oneof![
        (option::of(Just("(New Task)".to_owned())), time(), prose()).prop_map(
            |(label, time, text)| Block::TaskGoal {
                label: label.unwrap_or_default().into(),
                time: time.map(Into::into),
                text
            }
        ),
        (any::<u32>(), any::<bool>(), option::of(title()), iteration_lines).prop_map(
            |(number, milestone, title, lines)| {
                let title = title.unwrap_or_default();
                Block::Iteration {
                    iteration: Iteration(number),
                    heading: Heading { milestone, title: title.into() },
                    lines,
                }
            }
        ),
        (any::<u32>(), title(), time(), (*lines).clone()).prop_map(
            |(number, title, time, lines)| Block::UserDecision {
                iteration: Iteration(number),
                title: title.into(),
                time: time.map(Into::into),
                lines
            }
        ),
    ]
}

const OLD_HISTORY: &str = "\
# Project History

## Task Goal (New Task) - 2026-01-20T10:00:00
实现解析器
支持中文

## Iteration 1:
next_agent: TEST
reason: M1-T1 需要测试覆盖
dev_plan: M1-T1 TODO→IN_PROGRESS
这一行没有键

## Iteration 2: [MILESTONE] 用户决策 - 选择方案A
- next_agent: USER
- reason: 依赖版本无法确定

## User Decision (Iteration 2): 选择方案 - 2026-01-20T11:00:00
- reason: 依赖版本无法确定
- question: 用哪个版本？
- options:
  - A: 新版
  - B: 旧版
- user_choice: A
- user_comment: 尽快

## Iteration 2: [MILESTONE] 首次测试通过
next_agent: DEV
reason: again
## 备注
自由文字

## Task Goal (New Task) - 2026-01-21T09:00:00
第二个任务
## Iteration 1：重新开始
next_agent: REVIEW
reason: 第二轮
";

#[test]
fn an_older_history_is_read_as_it_is() {
    let blocks = history::read(OLD_HISTORY);
    let parsed: Vec<Block<'_>> = blocks.iter().map(history::Placed::block).collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&parsed).unwrap());
    let shown: Vec<String> = history::check(&blocks).iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    26:1: warning: iteration 2 comes after iteration 2
    34:1: warning: iteration 1 comes after iteration 2
    ");
    let whole: String = blocks.iter().map(|placed| placed.source).collect();
    assert_eq!(whole, OLD_HISTORY, "every byte belongs to a block");
}

#[test]
fn milestones_are_named_in_the_packs_language_and_joined() {
    use baton_core::history::{Milestone, milestone_title};
    let all = [
        Milestone::UserDecision { choice: "A".into() },
        Milestone::FinishAttempt { number: 1 },
        Milestone::PlanUpdate { changes: 6 },
        Milestone::FirstPass,
        Milestone::PassAgain,
    ];
    let zh = common::pack("tdd", "zh").policy.milestones.texts;
    insta::assert_snapshot!(milestone_title(&all, &zh).unwrap(), @"用户决策 - A / FINISH 尝试 #1 / 计划重大更新（6 项） / 首次测试通过 / 测试再次通过");
    let en = common::pack("tdd", "en").policy.milestones.texts;
    insta::assert_snapshot!(milestone_title(&all[1..2], &en).unwrap(), @"FINISH attempt #1");
    assert_eq!(milestone_title(&[], &en), None);
}

#[test]
fn what_history_says_of_an_odd_file() {
    let text = "stray\n## Task Goal\n\n## Iteration x\n## Iteration 5: y\nreason: z\n## User Decision (Iteration 5) t\n";
    let shown: Vec<String> =
        history::check(&history::read(text)).iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(shown.join("\n"));
}
