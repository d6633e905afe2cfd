//! Teams that break the rules of their domain while each report and each decision keeps the form: the
//! rules of source 002, section 7, and what was tried against them. Each of these decisions must be
//! refused by code, whatever MAIN's prompt says.

use baton_core::config::Config;
use baton_core::event::{DecidedBy, Event};
use baton_core::pack::Pack;
use baton_core::plan::Plan;
use baton_core::workflow::{Do, Phase};

use crate::common::pack;
use crate::workflows::Run;

const NOVEL: &str = "## Milestone M1: Outline\n\n### M1-T1: Outline\n- status: IN_PROGRESS\n- acceptance: outline.md has three chapters\n\n## Milestone M2: Chapters\n\n### M2-T1: Chapter 1\n- status: TODO\n- acceptance: chapters/01.md, 400 words\n\n### M2-T2: Chapter 2\n- status: TODO\n- acceptance: chapters/02.md, 400 words\n";
const ANALYSIS: &str = "## Milestone M1: Facts\n\n### M1-T1: When?\n- status: IN_PROGRESS\n\n### M1-T2: Why?\n- status: IN_PROGRESS\n\n## Milestone M2: Answer\n\n### M2-T1: Conclusion\n- status: TODO\n- acceptance: conclusion.md answers\n";

/// A run of a pack with a plan.
struct Team<'a> {
    run: Run<'a>,
    zh: bool,
}

impl<'a> Team<'a> {
    fn new(pack: &'a Pack, config: &'a Config, plan: &str) -> Team<'a> {
        let zh = pack.language == "zh";
        Team { run: Run::with_plan(pack, config, plan), zh }
    }

    /// MAIN sends an agent, which answers at once.
    fn works(&mut self, agent: &str, verdict: &str, tasks: &str, blockers: &str) {
        // A plan that never changes would be a question to the user.
        let note = format!("set M1-T1 evidence: iteration {}", self.run.state.iteration);
        self.run.decides(agent, &note);
        self.reports(verdict, tasks, blockers);
    }

    fn reports(&mut self, verdict: &str, tasks: &str, blockers: &str) {
        let iteration = self.run.state.iteration;
        let (verdict_key, blocker_key, task_key) = match self.zh {
            true => ("判定：", "阻塞：", "任务："),
            false => ("verdict:", "blockers:", "tasks:"),
        };
        let blockers = if blockers.is_empty() { "none" } else { blockers };
        let about = if tasks.is_empty() { String::new() } else { format!("{task_key} {tasks}\n") };
        self.run.says(&format!(
            "iteration: {iteration}\n{verdict_key} {verdict}\n{blocker_key} {blockers}\n{about}"
        ));
    }

    /// The reason why a decision of MAIN is refused.
    #[track_caller]
    fn refused(&mut self, next: &str, plan: &str) -> String {
        let mut tried = self.run.clone();
        tried.decides(next, plan);
        match tried.seen.last() {
            Some(Event::DecisionRefused { problem }) => problem.clone(),
            other => panic!("{next} was not refused: {other:?}"),
        }
    }

    #[track_caller]
    fn accepted(&mut self, next: &str, plan: &str) {
        let mut tried = self.run.clone();
        tried.decides(next, plan);
        let is_refused = matches!(tried.seen.last(), Some(Event::DecisionRefused { .. }));
        assert!(!is_refused, "{next}: {:?}", tried.seen.last());
    }
}

fn asked_each_time() -> Config {
    let mut config = Config::default();
    config.features.routing = false;
    config
}

#[test]
fn no_chapter_is_written_before_a_critique_has_passed_the_outline() {
    let (pack, config) = (pack("novel", "en"), asked_each_time());
    let mut team = Team::new(&pack, &config, NOVEL);
    team.refused("DRAFT", "");
    team.works("OUTLINE", "APPROVED", "M1-T1", "");
    // The writer's own word is not enough.
    let why = team.refused("DRAFT", "");
    assert!(why.contains("`CRITIQUE` has not judged `M1-T1`"), "{why}");
    team.works("CRITIQUE", "NEEDS_REVISION", "M1-T1", "[plot] no ending");
    let why = team.refused("DRAFT", "");
    assert!(why.contains("NEEDS_REVISION"), "{why}");
    // Another outline after the pass has to be judged again.
    team.works("OUTLINE", "APPROVED", "M1-T1", "");
    team.works("CRITIQUE", "APPROVED", "M1-T1", "");
    team.accepted("DRAFT", "");
    team.works("OUTLINE", "APPROVED", "M1-T1", "");
    team.refused("DRAFT", "");
}

#[test]
fn a_pass_of_another_task_is_no_pass_of_the_outline() {
    let (pack, config) = (pack("novel", "en"), asked_each_time());
    let mut team = Team::new(&pack, &config, NOVEL);
    team.works("OUTLINE", "APPROVED", "M1-T1", "");
    team.works("CRITIQUE", "APPROVED", "M2-T1", "");
    let why = team.refused("DRAFT", "");
    assert!(why.contains("`M1-T1`"), "{why}");
    // An outline about no task could never be judged.
    let mut team = Team::new(&pack, &config, NOVEL);
    team.works("OUTLINE", "APPROVED", "none", "");
    team.works("CRITIQUE", "APPROVED", "M1-T1", "");
    let why = team.refused("DRAFT", "");
    assert!(why.contains("names no task"), "{why}");
}

#[test]
fn a_chapter_that_nobody_judged_does_not_become_final() {
    let (pack, config) = (pack("novel", "en"), asked_each_time());
    let mut team = Team::new(&pack, &config, NOVEL);
    team.works("OUTLINE", "APPROVED", "M1-T1", "");
    team.works("CRITIQUE", "APPROVED", "M1-T1", "");
    team.accepted("DRAFT", "update M1-T1 status to POLISHED");
    let why = team.refused("DRAFT", "update M2-T1 status to POLISHED");
    assert!(why.contains("no report of CRITIQUE in this run is about it"), "{why}");
    // Not by a new plan, either.
    let replaced = NOVEL.replace("status: TODO", "status: POLISHED");
    let answer = serde_json::json!({
        "next_agent": "DRAFT", "reason": "done", "task": "go on",
        "dev_plan": {"replace": replaced}, "finish_review_override": null,
    });
    let mut tried = team.run.clone();
    tried.says(&answer.to_string());
    assert!(matches!(tried.seen.last(), Some(Event::DecisionRefused { .. })));
}

#[test]
fn what_a_critique_found_must_be_worked_on_by_who_can_solve_it() {
    let (pack, config) = (pack("novel", "en"), asked_each_time());
    let mut team = Team::new(&pack, &config, NOVEL);
    team.works("OUTLINE", "APPROVED", "M1-T1", "");
    team.works("CRITIQUE", "APPROVED", "M1-T1", "");
    team.works("DRAFT", "APPROVED", "M2-T1", "");
    team.works("CRITIQUE", "NEEDS_REVISION", "M2-T1", "[plot] he cannot know it yet");
    // Polishing solves no fault of the story, and a critique that forgets it does not settle it.
    team.works("POLISH", "APPROVED", "M2-T1", "");
    team.works("CRITIQUE", "APPROVED", "M2-T1", "");
    let why = team.refused("DRAFT", "update M2-T1 status to POLISHED");
    assert!(why.contains("he cannot know it yet") && why.contains("OUTLINE or DRAFT"), "{why}");
    team.works("DRAFT", "APPROVED", "M2-T1", "");
    team.works("CRITIQUE", "APPROVED", "M2-T1", "");
    team.accepted("DRAFT", "update M2-T1 status to POLISHED");
}

#[test]
fn a_task_whose_file_is_missing_does_not_become_final() {
    let (pack, config) = (pack("novel", "en"), asked_each_time());
    let mut team = Team::new(&pack, &config, NOVEL);
    team.run.files = vec!["outline.md".to_owned()];
    team.works("OUTLINE", "APPROVED", "M1-T1", "");
    team.works("CRITIQUE", "APPROVED", "M1-T1、M2-T1", "");
    team.accepted("DRAFT", "update M1-T1 status to POLISHED");
    let why = team.refused("DRAFT", "update M2-T1 status to POLISHED");
    assert!(why.contains("`chapters/01.md`"), "{why}");
}

#[test]
fn a_verifier_must_say_which_tasks_it_judged() {
    let (pack, config) = (pack("analysis", "zh"), asked_each_time());
    let mut team = Team::new(&pack, &config, ANALYSIS);
    team.works("VERIFY", "VALID", "", "");
    let Some(Event::ReportRefused { problem }) = team.run.seen.last() else {
        panic!("{:?}", team.run.seen.last())
    };
    assert!(problem.contains("任务："), "{problem}");
    team.reports("VALID", "M9-T9", "");
    let Some(Event::ReportRefused { problem }) = team.run.seen.last() else {
        panic!("{:?}", team.run.seen.last())
    };
    assert!(problem.contains("M9-T9"), "{problem}");
}

#[test]
fn no_conclusion_while_evidence_is_missing() {
    for language in ["en", "zh"] {
        let (pack, config) = (pack("analysis", language), asked_each_time());
        let mut team = Team::new(&pack, &config, ANALYSIS);
        team.works("COLLECT", "VALID", "M1-T1", "");
        team.works("ANALYZE", "VALID", "M1-T1", "");
        team.works("VERIFY", "VALID", "M1-T1", "");
        team.accepted("CONCLUDE", "");
        team.works("COLLECT", "INSUFFICIENT_EVIDENCE", "M1-T2", "[evidence] no log of that day");
        let why = team.refused("CONCLUDE", "");
        assert!(why.contains("no log of that day"), "{why}");
        // The question does not go away with its task, as long as the user has not agreed.
        let without = ANALYSIS.replace("### M1-T2: Why?\n- status: IN_PROGRESS\n\n", "");
        let answer = serde_json::json!({
            "next_agent": "CONCLUDE", "reason": "enough", "task": "conclude",
            "dev_plan": {"replace": without}, "finish_review_override": null,
        });
        let mut tried = team.run.clone();
        tried.says(&answer.to_string());
        assert!(matches!(tried.seen.last(), Some(Event::DecisionRefused { .. })));
        // "It cannot be decided" is an answer, once it is analysed and verified.
        team.works("ANALYZE", "VALID", "M1-T2", "");
        team.works("VERIFY", "VALID", "M1-T2", "");
        team.accepted("CONCLUDE", "");
    }
}

#[test]
fn a_contradiction_goes_back_to_analysis_before_anything_is_concluded() {
    let (pack, config) = (pack("analysis", "en"), asked_each_time());
    let mut team = Team::new(&pack, &config, ANALYSIS);
    team.works("COLLECT", "VALID", "M1-T1, M1-T2", "");
    team.works("ANALYZE", "INVALID", "M1-T1", "[logic] E4 and E7 contradict each other");
    team.refused("CONCLUDE", "");
    // More evidence and a verifier's good will do not resolve it.
    team.works("COLLECT", "VALID", "M1-T1", "");
    team.works("VERIFY", "VALID", "M1-T1, M1-T2", "");
    team.refused("CONCLUDE", "");
    let why = team.refused("ANALYZE", "update M1-T1 status to VERIFIED");
    assert!(why.contains("E4 and E7"), "{why}");
    team.works("ANALYZE", "VALID", "M1-T1, M1-T2", "");
    team.works("VERIFY", "VALID", "M1-T1, M1-T2", "");
    team.accepted("CONCLUDE", "update M1-T1 status to VERIFIED");
}

#[test]
fn work_that_was_never_verified_supports_no_conclusion() {
    let (pack, config) = (pack("analysis", "en"), asked_each_time());
    let mut team = Team::new(&pack, &config, ANALYSIS);
    team.works("COLLECT", "VALID", "M1-T1", "");
    team.works("ANALYZE", "VALID", "M1-T1", "");
    team.refused("CONCLUDE", "");
    team.works("VERIFY", "VALID", "M1-T1", "");
    team.works("COLLECT", "VALID", "M1-T2", "");
    let why = team.refused("CONCLUDE", "");
    assert!(why.contains("`M1-T2`"), "{why}");
}

#[test]
fn a_fault_in_the_text_of_the_conclusion_goes_to_who_wrote_it() {
    let (pack, config) = (pack("analysis", "en"), asked_each_time());
    let mut team = Team::new(&pack, &config, ANALYSIS);
    team.works("COLLECT", "VALID", "M1-T1, M1-T2", "");
    team.works("ANALYZE", "VALID", "M1-T1, M1-T2", "");
    team.works("VERIFY", "VALID", "M1-T1, M1-T2", "");
    team.works("CONCLUDE", "VALID", "M2-T1", "");
    team.works("VERIFY", "INVALID", "M2-T1", "[text] line 12 says too much");
    team.accepted("CONCLUDE", "");
    // A fault of the claims does not.
    let mut other = Team::new(&pack, &config, ANALYSIS);
    other.works("ANALYZE", "VALID", "M1-T1", "");
    other.works("VERIFY", "VALID", "M1-T1", "");
    other.works("CONCLUDE", "VALID", "M2-T1", "");
    other.works("VERIFY", "INVALID", "M2-T1", "[logic] C1 does not follow");
    other.refused("CONCLUDE", "");
}

#[test]
fn a_tool_that_does_not_work_is_not_missing_evidence() {
    let (pack, config) = (pack("analysis", "zh"), asked_each_time());
    let mut team = Team::new(&pack, &config, ANALYSIS);
    team.works("COLLECT", "BLOCKED", "M1-T1", "[env] 没有权限打开存档");
    let Some((_, facts)) = team.run.state.reports.newest.get("COLLECT") else { panic!() };
    assert_eq!(facts.verdict.as_deref(), Some("BLOCKED"));
}

#[test]
fn an_older_report_of_the_analysis_pack_is_still_read() {
    let (pack, config) = (pack("analysis", "zh"), asked_each_time());
    let mut team = Team::new(&pack, &config, ANALYSIS);
    team.run.decides("COLLECT", "");
    let iteration = team.run.state.iteration;
    team.run.says(&format!("iteration: {iteration}\n结论：VALID\n阻塞：无\n任务：M1-T1\n"));
    assert!(team.run.state.reports.newest.contains_key("COLLECT"));
    // Under the key of today the old word is a word like any other.
    team.run.decides("ANALYZE", "");
    let iteration = team.run.state.iteration;
    team.run.says(&format!(
        "iteration: {iteration}\n判定：VALID\n阻塞：无\n任务：M1-T1\n\n结论：证据齐全，可以分析。\n"
    ));
    assert!(team.run.state.reports.newest.contains_key("ANALYZE"));
}

#[test]
fn what_always_follows_is_sent_without_asking_main() {
    let (pack, config) = (pack("novel", "zh"), Config::default());
    let mut run = Run::with_plan(&pack, &config, NOVEL);
    let report = |run: &mut Run<'_>, tasks: &str| {
        let iteration = run.state.iteration;
        run.says(&format!("iteration: {iteration}\n结论：APPROVED\n阻塞：无\n任务：{tasks}\n"));
    };
    run.decides("OUTLINE", "");
    report(&mut run, "M1-T1");
    let by_rule = run.decided_by_rule().expect("a rule decides");
    let Event::Decided(decided) = &by_rule else { panic!("{by_rule:?}") };
    assert_eq!(decided.by, DecidedBy::Rule);
    assert_eq!(decided.plan_summary, "M1-T1 IN_PROGRESS→DRAFTED");
    let decision = decided.decision.as_deref().unwrap();
    assert_eq!(decision.next.word(), "CRITIQUE");
    insta::assert_snapshot!(decision.task.as_deref().unwrap(), @"
    按规则接续：OUTLINE 已写好或修订了大纲，现在由你评判。
    任务：
    - M1-T1: Outline
      验收标准：outline.md has three chapters
    OUTLINE 改动的文件：无
    评判大纲是否达到验收标准，能否据此动笔；不评判章节正文。

    MAIN 在第 1 轮就这些任务给 OUTLINE 的工单。其中对成果的要求在这里同样适用；做法和禁止事项只对 OUTLINE 有效：
    > do it
    ");
    run.take(by_rule);
    report(&mut run, "M1-T1");
    // After the critique there is something to decide.
    assert!(run.decided_by_rule().is_none());
    assert!(matches!(run.next(), Do::AskMain { .. }));
}

#[test]
fn a_rule_skips_no_rule_no_question_and_no_loss() {
    let (pack, config) = (pack("novel", "en"), Config::default());
    let report = |run: &mut Run<'_>, verdict: &str, blockers: &str| {
        let iteration = run.state.iteration;
        run.says(&format!(
            "iteration: {iteration}\nverdict: {verdict}\nblockers: {blockers}\ntasks: M1-T1\n"
        ));
    };
    // A report that did not pass.
    let mut run = Run::with_plan(&pack, &config, NOVEL);
    run.decides("OUTLINE", "");
    report(&mut run, "NEEDS_REVISION", "[plot] half of it is missing");
    assert!(run.decided_by_rule().is_none());
    // A report about no task.
    let mut run = Run::with_plan(&pack, &config, NOVEL);
    run.decides("OUTLINE", "");
    let iteration = run.state.iteration;
    run.says(&format!("iteration: {iteration}\nverdict: APPROVED\nblockers: none\ntasks: none\n"));
    assert!(run.decided_by_rule().is_none());
    // Switched off.
    let off = asked_each_time();
    let mut run = Run::with_plan(&pack, &off, NOVEL);
    run.decides("OUTLINE", "");
    report(&mut run, "APPROVED", "none");
    assert!(run.decided_by_rule().is_none());
    // A limit stops the run before the rule does anything.
    let mut run = Run::with_plan(&pack, &config, NOVEL);
    run.decides("OUTLINE", "");
    report(&mut run, "APPROVED", "none");
    run.state.budget.limits.iterations = run.state.budget.totals.iterations;
    let by_rule = run.decided_by_rule();
    if let Some(event) = by_rule {
        run.take(event);
        assert!(matches!(run.next(), Do::Journal(Event::Stopped { .. })));
    }
    assert!(!matches!(run.state.phase, Phase::Ended));
}

#[test]
fn a_finding_is_shown_until_it_is_settled_also_when_a_newer_report_forgets_it() {
    let (pack, config) = (pack("novel", "en"), asked_each_time());
    let mut team = Team::new(&pack, &config, NOVEL);
    team.works("OUTLINE", "APPROVED", "M1-T1", "");
    team.works("CRITIQUE", "NEEDS_REVISION", "M1-T1", "[plot] the secret is told in chapter 1");
    let shown = |team: &Team<'_>| {
        let plan = Plan::read(NOVEL, &pack.policy.plan).unwrap();
        team.run.state.task_lines(&plan.tasks, pack.words()).join("\n")
    };
    insta::assert_snapshot!(shown(&team), @"
    M1-T1: OUTLINE APPROVED (iteration 1); CRITIQUE NEEDS_REVISION (iteration 2)
    - not settled: 1 of the report of CRITIQUE, iteration 2 (0 worked on since)
    ");
    team.works("POLISH", "APPROVED", "M1-T1", "");
    team.works("CRITIQUE", "NEEDS_REVISION", "M1-T1", "[prose] chapter 2 has no title");
    insta::assert_snapshot!(shown(&team), @"
    M1-T1: OUTLINE APPROVED (iteration 1); POLISH APPROVED (iteration 3); CRITIQUE NEEDS_REVISION (iteration 4)
    - not settled: 1 of the report of CRITIQUE, iteration 4 (0 worked on since)
    - open, M1-T1, CRITIQUE in iteration 2: [plot] the secret is told in chapter 1
    ");
    team.works("OUTLINE", "APPROVED", "M1-T1", "");
    team.works("POLISH", "APPROVED", "M1-T1", "");
    team.works("CRITIQUE", "APPROVED", "M1-T1", "");
    insta::assert_snapshot!(shown(&team), @"M1-T1: OUTLINE APPROVED (iteration 5); POLISH APPROVED (iteration 6); CRITIQUE APPROVED (iteration 7)");
}

#[test]
fn a_finding_belongs_to_the_task_whose_file_it_names() {
    let (pack, config) = (pack("novel", "en"), Config::default());
    let mut team = Team::new(&pack, &config, NOVEL);
    team.works("OUTLINE", "APPROVED", "M1-T1", "");
    team.works("CRITIQUE", "APPROVED", "M1-T1", "");
    team.works("DRAFT", "APPROVED", "M2-T1, M2-T2", "");
    let blockers = "\n- [plot] chapters/02.md:23 he cannot know it\n- [prose] chapters/01.md:5 twice the same word";
    team.works("CRITIQUE", "NEEDS_REVISION", "M2-T1, M2-T2", blockers);
    // The story of one chapter is repaired; what follows by rule also has the prose of the other.
    team.works("DRAFT", "APPROVED", "M2-T2", "");
    let by_rule = team.run.decided_by_rule().expect("a rule decides");
    let Event::Decided(decided) = &by_rule else { panic!("{by_rule:?}") };
    let decision = decided.decision.as_deref().unwrap();
    assert_eq!(decision.next.word(), "POLISH");
    let order = decision.task.as_deref().unwrap();
    assert!(
        order.contains("- M2-T1: Chapter 1") && order.contains("- M2-T2: Chapter 2"),
        "{order}"
    );
    assert!(order.contains("Findings that you can solve"), "{order}");
    assert!(order.contains("twice the same word") && !order.contains("he cannot know"), "{order}");
    team.run.take(by_rule);
    // Both chapters were returned, so both are judged again, also if one of them was enough to polish.
    team.reports("APPROVED", "M2-T1", "");
    let by_rule = team.run.decided_by_rule().expect("a rule decides");
    let Event::Decided(decided) = &by_rule else { panic!("{by_rule:?}") };
    let order = decided.decision.as_deref().unwrap().task.clone().unwrap();
    assert!(
        order.contains("- M2-T1: Chapter 1") && order.contains("- M2-T2: Chapter 2"),
        "{order}"
    );
    team.works("CRITIQUE", "APPROVED", "M2-T1, M2-T2", "");
    team.accepted("DRAFT", "update M2-T1 status to POLISHED; update M2-T2 status to POLISHED");
}
