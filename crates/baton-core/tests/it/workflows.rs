//! The state machine: what it asks for, what it accepts, and that no sequence of events brings it
//! where it must not be.

use std::collections::BTreeMap;

use baton_core::config::Config;
use baton_core::decision::{Decision, Next, PlanChange};
use baton_core::event::{
    AdoptedRules, Decided, DecidedBy, Evaluation, Event, FilesSeen, HistoryText, Limits,
    ProjectCheck, Record, ReportFacts, RulesText, RunStarted, Spent, StageEnded, StageId,
    StageResult, StageStarted, Stop, Switches,
};
use baton_core::id::{AgentName, Attempt, Iteration, RunId, Timestamp, Tokens};
use baton_core::messages::Language;
use baton_core::pack::Pack;
use baton_core::policy::{EvaluationRules, Gate, Needed, Outcome};
use baton_core::workflow::{
    Do, Effect, Phase, Rules, State, decide_by_rule, goal_entry, judge_decision, judge_report,
};

use crate::common::pack;

pub(crate) const NOW: Timestamp = Timestamp(1_800_000_000);

pub(crate) fn agent(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

/// A run that is driven by hand: every event it takes is what a driver would have journaled.
#[derive(Clone)]
pub(crate) struct Run<'a> {
    pub(crate) state: State,
    rules: Rules<'a>,
    plan: String,
    pub(crate) seen: Vec<Event>,
    /// Files of the project; empty: every file is there.
    pub(crate) files: Vec<String>,
}

fn limits() -> Limits {
    Limits::of(50, 3_600)
}

fn start(limits: Limits) -> RunStarted {
    RunStarted {
        version: 1,
        run: RunId::new("run-1").unwrap(),
        task: "Make it safe".to_owned(),
        pack: "tdd".to_owned(),
        language: "en".to_owned(),
        rules: BTreeMap::new(),
        rules_text: None,
        first_iteration: Iteration(1),
        limits,
        newest: Vec::new(),
        scenario: None,
        setup: None,
        machine: None,
        archived_plan: None,
        outputs: Vec::new(),
        entry: HistoryText::new(goal_entry("Make it safe", NOW)),
    }
}

const PLAN: &str = "## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n";

impl<'a> Run<'a> {
    pub(crate) fn new(pack: &'a Pack, config: &'a Config) -> Run<'a> {
        let state = State::new(&start(limits()), 1);
        let (plan, seen, files) = (PLAN.to_owned(), Vec::new(), Vec::new());
        Run { state, rules: Rules { pack, config }, plan, seen, files }
    }

    pub(crate) fn with_plan(pack: &'a Pack, config: &'a Config, plan: &str) -> Run<'a> {
        Run { plan: plan.to_owned(), ..Run::new(pack, config) }
    }

    /// What a driver does before it asks MAIN.
    pub(crate) fn decided_by_rule(&self) -> Option<Event> {
        decide_by_rule(&self.state, &self.rules, &self.plan, &|file| self.has(file))
    }

    fn has(&self, file: &str) -> bool {
        self.files.is_empty() || self.files.iter().any(|own| own == file)
    }

    pub(crate) fn take(&mut self, event: Event) {
        let record = Record { seq: self.state.last_seq + 1, time: NOW, event: event.clone() };
        let effects = self.state.apply(&record, &self.rules).unwrap_or_else(|why| panic!("{why}"));
        for effect in effects {
            if let Effect::EditPlan(edit) = effect {
                self.plan = edit.applied_to(&self.plan).unwrap().unwrap();
            }
        }
        self.seen.push(event);
    }

    pub(crate) fn next(&self) -> Do {
        self.state.next(&self.rules, NOW)
    }

    /// Everything that code does by itself.
    pub(crate) fn settle(&mut self) {
        loop {
            match self.next() {
                Do::Journal(event) => self.take(event),
                Do::JudgeDecision { answer, check } => {
                    let event = judge_decision(
                        &self.state,
                        &self.rules,
                        &answer,
                        check,
                        &self.plan,
                        &|file| self.has(file),
                    );
                    self.take(event);
                }
                Do::JudgeReport { job, report } => {
                    let event =
                        judge_report(&self.state, &self.rules, &job.agent, &report, &self.plan);
                    self.take(event);
                }
                _ => return,
            }
        }
    }

    /// The stage that is due begins.
    pub(crate) fn start(&mut self) -> (StageId, Attempt) {
        let (stage, attempt) = match self.next() {
            Do::AskMain { stage, attempt, .. } | Do::RunAgent { stage, attempt, .. } => {
                (stage, attempt)
            }
            other => panic!("no stage is due: {other:?}"),
        };
        let started = StageStarted::new(stage.clone(), attempt);
        self.take(Event::StageStarted(Box::new(started)));
        (stage, attempt)
    }

    /// The stage that is due answers this.
    pub(crate) fn answer(&mut self, result: StageResult) {
        let (stage, attempt) = self.start();
        let spent =
            Spent { milliseconds: 5_000, tokens: Some(Tokens(100)), cached: None, cost: Some(7) };
        let ended = StageEnded::new(stage, attempt, result, spent);
        self.take(Event::StageEnded(Box::new(ended)));
        self.settle();
    }

    pub(crate) fn says(&mut self, text: &str) {
        self.answer(StageResult::Answer(text.to_owned()));
    }

    pub(crate) fn decides(&mut self, next: &str, plan: &str) {
        let plan = if plan.is_empty() { "null".to_owned() } else { format!("{plan:?}") };
        self.says(&format!(
            r#"{{"next_agent":"{next}","reason":"because","dev_plan":{plan},"finish_review_override":null,"task":"do it"}}"#
        ));
    }

    pub(crate) fn reports(&mut self, verdict: &str, blockers: &str) {
        let iteration = self.state.iteration;
        self.says(&format!(
            "iteration: {iteration}\nverdict: {verdict}\nblockers: {blockers}\ncoverage: 91%\nM1-T1\n"
        ));
    }

    fn gate(&mut self, passed: bool) {
        let Do::RunGate { index, gate, .. } = self.next() else {
            panic!("no gate is due: {:?}", self.next())
        };
        self.take(Event::GateStarted { index, command: gate.run.clone() });
        let output = if passed { "" } else { "1 test failed" }.to_owned();
        self.take(Event::GateEnded {
            index,
            command: gate.run,
            passed,
            output,
            milliseconds: 1,
            log: None,
        });
        self.settle();
    }

    pub(crate) fn due(&self) -> String {
        match self.next() {
            Do::AskMain { stage, refused, .. } => {
                format!("{}{}", stage.name, if refused.is_empty() { "" } else { " again" })
            }
            Do::RunAgent { stage, job, .. } => {
                let sub = stage.subloop.map_or(String::new(), |number| format!(" sub {number}"));
                format!("{}{sub}{}", stage.name, if job.refused.is_empty() { "" } else { " again" })
            }
            Do::RunGate { gate, .. } => format!("gate {}", gate.run),
            Do::Wait { question, .. } => format!("wait: {}", question.title),
            Do::Recover { stage, .. } => format!("recover {stage}"),
            Do::Halt => match &self.state.stopped {
                Some(stop) => format!("stopped: {}", stop.why()),
                None => "ended".to_owned(),
            },
            other => format!("{other:?}"),
        }
    }

    /// The entries written so far.
    pub(crate) fn history(&self) -> String {
        let entries = self.seen.iter().filter_map(|event| match event {
            Event::IterationEnded { entry } | Event::Finished { entry } => {
                Some(entry.text.as_str())
            }
            _ => None,
        });
        entries.collect()
    }
}

fn rules() -> (Pack, Config) {
    (pack("tdd", "en"), Config::default())
}

#[test]
fn a_whole_run_from_a_failing_test_to_finish() {
    let (pack, config) = rules();
    let mut run = Run::new(&pack, &config);
    assert_eq!(run.due(), "MAIN");
    run.decides("TEST", "update M1-T1 status to IN_PROGRESS");
    assert_eq!(run.due(), "TEST");
    run.reports("FAIL", "[impl] overflow in add()");
    assert_eq!(run.due(), "DEV sub 1");
    run.reports("PASS", "none");
    assert_eq!(run.due(), "TEST sub 1");
    run.reports("PASS", "none");
    assert_eq!(run.due(), "MAIN");
    run.decides("REVIEW", "");
    run.reports("PASS", "none");
    run.decides("FINISH", "update M1-T1 status to VERIFIED");
    assert_eq!(run.due(), "FINISH_REVIEW");
    run.reports("PASS", "none");
    assert_eq!(run.due(), "FINISH_CHECK");
    run.decides("FINISH", "");
    assert_eq!(run.due(), "ended");
    assert_eq!(run.state.phase, Phase::Ended);
    insta::assert_snapshot!(run.history());
}

#[test]
fn the_subloop_is_entered_and_left_for_each_reason() {
    let (pack, config) = rules();
    let entered = |verdict: &str, blockers: &str| {
        let mut run = Run::new(&pack, &config);
        run.decides("TEST", "");
        run.reports(verdict, blockers);
        run.due()
    };
    assert_eq!(entered("FAIL", "[impl] overflow"), "DEV sub 1");
    assert_eq!(entered("FAIL", "assertion failed in add()"), "DEV sub 1", "by the word lists");
    for (verdict, blockers) in [
        ("PASS", "none"),
        ("BLOCKED", "[impl] overflow"),
        ("FAIL", "[test] missing"),
        ("FAIL", "odd"),
    ] {
        assert_eq!(entered(verdict, blockers), "MAIN", "{verdict} {blockers}");
    }
    // Passing at the first, second and third, and never.
    for passes_at in 1..=4 {
        let mut run = Run::new(&pack, &config);
        run.decides("TEST", "");
        run.reports("FAIL", "[impl] overflow");
        for number in 1..=3 {
            assert_eq!(run.due(), format!("DEV sub {number}"));
            run.reports("PASS", "none");
            assert_eq!(run.due(), format!("TEST sub {number}"));
            match number == passes_at {
                true => run.reports("PASS", "none"),
                false => run.reports("FAIL", &format!("[impl] overflow {number}")),
            }
            if number == passes_at {
                break;
            }
        }
        assert_eq!(run.due(), "MAIN");
        let (success, count) = (passes_at <= 3, passes_at.min(3));
        let line = format!(
            "subloop: success={success} final_test_verdict={} iterations={count}",
            if success { "PASS" } else { "FAIL" }
        );
        assert!(run.history().contains(&line), "{}", run.history());
    }
    // Timeout, error, and a failure that is not the fixer's.
    for (result, condition) in [
        (StageResult::TimedOut("600 s".to_owned()), "timeout"),
        (StageResult::Failed("exit 1".to_owned()), "executor_error"),
    ] {
        let mut run = Run::new(&pack, &config);
        run.decides("TEST", "");
        run.reports("FAIL", "[impl] overflow");
        run.answer(result);
        assert_eq!(run.due(), "MAIN");
        let end = run.seen.iter().find_map(|event| match event {
            Event::SubloopEnded(end) => Some(serde_json::to_value(end.exit_condition).unwrap()),
            _ => None,
        });
        assert_eq!(end, Some(condition.into()));
    }
    let off = Config {
        features: baton_core::config::Features { subloop: false, ..Default::default() },
        ..Config::default()
    };
    let mut run = Run::new(&pack, &off);
    run.decides("TEST", "");
    run.reports("FAIL", "[impl] overflow");
    assert_eq!(run.due(), "MAIN", "switched off");
}

#[test]
fn a_wrong_answer_is_corrected_once_and_then_stops_the_run() {
    let (pack, config) = rules();
    let mut run = Run::new(&pack, &config);
    run.says("Sure! Here is my decision.");
    assert_eq!(run.due(), "MAIN again");
    run.decides("TEST", "");
    run.says("iteration: 1\nverdict: GREAT\n");
    assert_eq!(run.due(), "TEST again");
    run.says("iteration: 9\nverdict: PASS\nblockers: none\n");
    assert!(run.due().starts_with("stopped: "), "{}", run.due());
    run.take(Event::Resumed {
        limits: limits(),
        setup: None,
        adopted_rules: None,
        project: None,
        outputs: Vec::new(),
    });
    assert_eq!(run.due(), "TEST again", "it may try again, and sees its error");
    run.reports("PASS", "none");
    assert_eq!(run.due(), "MAIN");
    let never =
        Config { report: baton_core::config::Correction { retries: 0 }, ..Config::default() };
    let mut run = Run::new(&pack, &never);
    run.decides("TEST", "");
    run.says("nothing");
    assert!(run.due().starts_with("stopped: "));
}

fn gated(on: &str) -> Pack {
    let mut pack = pack("tdd", "en");
    pack.policy.gates = vec![Gate {
        on: agent(on).into(),
        run: "cargo test".to_owned(),
        timeout: 60,
        allow: Vec::new(),
    }];
    pack
}

#[test]
fn a_pass_with_a_failing_gate_is_overturned() {
    let (pack, config) = (gated("TEST"), Config::default());
    let mut run = Run::new(&pack, &config);
    run.decides("TEST", "");
    run.reports("PASS", "none");
    assert_eq!(run.due(), "gate cargo test");
    run.gate(false);
    let (_, facts) = &run.state.reports.newest["TEST"];
    assert_eq!((facts.outcome, facts.verdict.as_deref()), (Some(Outcome::Fail), Some("FAIL")));
    assert!(
        run.history().contains(
            "verdict: TEST FAIL (overturned: the gate `cargo test` failed (1 test failed))"
        ),
        "{}",
        run.history()
    );
    run.decides("TEST", "");
    run.reports("PASS", "none");
    run.gate(true);
    assert_eq!(run.state.reports.newest["TEST"].1.outcome, Some(Outcome::Pass));
    assert_eq!(run.due(), "MAIN");
}

#[test]
fn a_pass_below_the_minimum_of_coverage_is_none() {
    let (pack, config) = rules();
    for (line, counts) in [
        ("coverage: 80%", true),
        ("coverage: 79.9%", false),
        ("", false),
        ("coverage: unknown", false),
    ] {
        let mut run = Run::new(&pack, &config);
        run.decides("TEST", "");
        run.says(&format!("iteration: 1\nverdict: PASS\nblockers: none\n{line}\n"));
        assert_eq!(run.state.reports.newest["TEST"].1.overturned.is_none(), counts, "{line}");
    }
}

/// Brings a run to FINISH_CHECK.
fn to_check<'a>(pack: &'a Pack, config: &'a Config, review: &str, plan: &str) -> Run<'a> {
    let mut run = Run::new(pack, config);
    run.decides("TEST", "");
    run.reports("PASS", "none");
    run.decides("REVIEW", "");
    run.reports("PASS", "none");
    run.decides("FINISH", plan);
    let blockers = if review == "PASS" { "none" } else { "[impl] it is not done" };
    run.reports(review, blockers);
    run
}

const VERIFIED: &str = "update M1-T1 status to VERIFIED";

#[test]
fn finish_stands_only_if_plan_gates_and_review_agree() {
    let (pack, config) = rules();
    let mut good = to_check(&pack, &config, "PASS", VERIFIED);
    good.decides("FINISH", "");
    assert_eq!(good.due(), "ended");

    let mut unready = to_check(&pack, &config, "PASS", "");
    unready.decides("FINISH", "");
    assert_eq!(unready.due(), "MAIN", "the work goes on");
    assert!(
        unready.history().contains("finish: FINISH refused: not every task is `VERIFIED`: M1-T1")
    );

    let mut failed = to_check(&pack, &config, "FAIL", VERIFIED);
    failed.decides("FINISH", "");
    assert_eq!(failed.due(), "MAIN");
    assert!(failed.history().contains("FINISH_REVIEW says FAIL"));

    let ignore = r#"{"next_agent":"FINISH","reason":"it is wrong","dev_plan":null,"finish_review_override":"ignore"}"#;
    let mut overruled = to_check(&pack, &config, "FAIL", VERIFIED);
    overruled.says(ignore);
    assert_eq!(overruled.due(), "ended");

    let gated = gated("FINISH");
    let mut gate = to_check(&gated, &config, "PASS", VERIFIED);
    assert_eq!(gate.due(), "gate cargo test");
    gate.gate(false);
    gate.says(ignore);
    assert_eq!(gate.due(), "MAIN", "an override does not reach a gate");
    assert!(gate.history().contains("the gate `cargo test` failed"));
}

#[test]
fn finish_check_may_send_somebody_to_work_at_once() {
    let (pack, config) = rules();
    let mut run = to_check(&pack, &config, "FAIL", "");
    run.decides("DEV", "");
    assert_eq!((run.due().as_str(), run.state.iteration), ("DEV", Iteration(4)));
    let line = "finish: FINISH refused: FINISH_CHECK chose DEV: because\n";
    assert!(run.history().contains(line), "{}", run.history());
}

#[test]
fn a_finish_line_always_names_its_reason() {
    let (pack, config) = rules();
    let question = r#"{"next_agent":"USER","reason":"the goal allows both","dev_plan":null,"finish_review_override":null,"question":{"title":"Which way?","text":"A or B","options":[{"option_id":"a","description":"A"},{"option_id":"b","description":"B"}],"recommended_option_id":null}}"#;
    let mut asks = to_check(&pack, &config, "PASS", VERIFIED);
    asks.says(question);
    let line = "finish: FINISH refused: FINISH_CHECK chose USER: the goal allows both\n";
    assert!(asks.history().contains(line), "{}", asks.history());
    let mut done = to_check(&pack, &config, "PASS", VERIFIED);
    done.decides("FINISH", "");
    assert!(done.history().contains("finish: FINISH accepted: because\n"), "{}", done.history());
}

#[test]
fn a_plan_change_of_finish_check_is_in_one_history_entry() {
    let (pack, config) = rules();
    let mut run = to_check(&pack, &config, "FAIL", VERIFIED);
    run.decides("DEV", "update M1-T1 status to IN_PROGRESS");
    run.reports("PASS", "none");
    let history = run.history();
    assert_eq!(history.matches("VERIFIED→IN_PROGRESS").count(), 1, "{history}");
    let entry = history.split("## Iteration 4").nth(1).unwrap();
    assert!(entry.contains("dev_plan: none\n"), "{entry}");
}

#[test]
fn an_unknown_task_in_a_plan_statement_is_named_at_its_place_in_the_decision() {
    let (pack, config) = rules();
    let mut run = Run::new(&pack, &config);
    let answer = |plan: &str| {
        format!(
            "{{\"next_agent\":\"DEV\",\"reason\":\"r\",\n  \"dev_plan\":{plan},\"finish_review_override\":null}}"
        )
    };
    let refusal = |run: &mut Run<'_>, plan: &str| {
        run.says(&answer(plan));
        let Do::AskMain { refused, .. } = run.next() else { panic!("{:?}", run.next()) };
        refused.last().unwrap().problem.clone()
    };
    let said = refusal(&mut run, r#""update M1-T1 status to DONE\nupdate M9-T9 status to DONE""#);
    assert_eq!(said, "2:14: dev_plan, line 2: there is no task `M9-T9`; expected `M1-T1`");
    let mut run = Run::new(&pack, &config);
    run.plan = String::new();
    let said = refusal(&mut run, r#""update M9-T9 status to DONE""#);
    assert_eq!(
        said,
        "2:14: dev_plan, line 1: there is no task `M9-T9`; expected `add M9-T9: <title>` before it, since the plan has no task"
    );
    let mut run = Run::new(&pack, &config);
    let said = refusal(&mut run, r###"{"replace":"## Milestone M1: x\n\n### M1-T1: y\n"}"###);
    assert!(said.starts_with("2:25: dev_plan.replace, line 3: "), "{said}");
}

#[test]
fn a_pass_counts_only_if_nobody_wrote_after_it() {
    let (pack, config) = rules();
    let mut run = Run::new(&pack, &config);
    run.decides("TEST", "");
    run.reports("PASS", "none");
    run.decides("DEV", "");
    run.reports("PASS", "none");
    run.decides("REVIEW", VERIFIED);
    assert_eq!(run.due(), "MAIN again");
    let Do::AskMain { refused, .. } = run.next() else { panic!() };
    assert!(refused[0].problem.contains("`DEV` wrote after it"));
}

/// The last refusal of MAIN's answers.
fn refusal(run: &Run<'_>) -> String {
    let Do::AskMain { refused, .. } = run.next() else { panic!("{:?}", run.next()) };
    refused.last().map_or(String::new(), |refused| refused.problem.clone())
}

#[test]
fn a_pass_that_an_agent_needs_ends_when_what_was_judged_changes() {
    let (mut pack, config) = rules();
    let needs_pass = &mut pack.policy.routing.needs_pass;
    needs_pass.insert(agent("DEV"), vec![Needed::By(agent("REVIEW"))]);
    needs_pass.insert(agent("REVIEW"), vec![Needed::By(agent("TEST"))]);
    let mut run = Run::new(&pack, &config);
    for (number, name) in ["TEST", "REVIEW", "DEV", "DEV", "TEST"].into_iter().enumerate() {
        run.decides(name, &format!("set M1-T1 evidence: {number}"));
        assert_eq!(run.due(), name, "what an agent wrote itself does not keep it from running");
        run.reports("PASS", "none");
    }
    run.decides("DEV", "");
    let why = "`DEV` may not run: `REVIEW` passed in iteration 2, but `TEST` wrote after it";
    assert!(refusal(&run).contains(why), "{}", refusal(&run));
    // The pass of an agent that writes is about its own files.
    let (stage, attempt) = match run.next() {
        Do::AskMain { stage, attempt, .. } => (stage, attempt),
        other => panic!("{other:?}"),
    };
    let check = ProjectCheck {
        snapshot: "s".to_owned(),
        reworked: [(agent("TEST"), vec!["tests/add.rs".to_owned()])].into(),
        ..ProjectCheck::default()
    };
    let started = StageStarted::new(stage.clone(), attempt);
    let started = StageStarted { project: Some(Box::new(check)), ..started };
    run.take(Event::StageStarted(Box::new(started)));
    let answer =
        r#"{"next_agent":"REVIEW","reason":"r","dev_plan":null,"finish_review_override":null}"#;
    let result = StageResult::Answer(answer.to_owned());
    let ended = StageEnded::new(stage, attempt, result, Spent::default());
    run.take(Event::StageEnded(Box::new(ended)));
    let event = judge_decision(&run.state, &run.rules, answer, false, &run.plan, &|_| true);
    let Event::DecisionRefused { problem } = event else { panic!("{event:?}") };
    let why = "`REVIEW` may not run: `TEST` passed in iteration 5, but its files changed after it: tests/add.rs";
    assert!(problem.contains(why), "{problem}");
}

#[test]
fn a_pass_of_an_earlier_run_counts_neither_for_the_final_status_nor_for_finish() {
    let (pack, config) = rules();
    let mut before = Run::new(&pack, &config);
    before.decides("TEST", "");
    before.reports("PASS", "none");
    let newest = before.state.reports.newest.values().map(|(_, facts)| facts.clone()).collect();
    let start = RunStarted { newest, ..start(limits()) };
    let mut run = Run::new(&pack, &config);
    run.state = State::new(&start, 1);
    run.decides("REVIEW", VERIFIED);
    let why = "may not become `VERIFIED`: there is no report of `TEST`, `REVIEW` in this run";
    assert!(refusal(&run).contains(why), "{}", refusal(&run));
}

#[test]
fn tests_come_first_where_the_plan_asks_for_them() {
    let (pack, config) = rules();
    let mut run = Run::new(&pack, &config);
    run.plan = PLAN.replace("- status: TODO", "- status: TODO\n- test_required: true");
    let to_dev =
        r#"{"next_agent":"DEV","reason":"M1-T1","dev_plan":null,"finish_review_override":null}"#;
    run.says(to_dev);
    let Do::AskMain { refused, .. } = run.next() else { panic!() };
    assert!(refused[0].problem.contains("may not go to `DEV` before a report of `TEST` names it"));
    run.decides("TEST", "");
    run.reports("FAIL", "[test] wrong");
    run.says(to_dev);
    assert_eq!(run.due(), "DEV");
    run.reports("PASS", "none");
    run.decides("TEST", "update M1-T1 status to DONE");
    assert_eq!(run.due(), "MAIN again", "done only after a pass that names it");
}

#[test]
fn a_person_is_asked_and_the_answer_is_bound_to_the_question() {
    let (pack, config) = rules();
    let mut run = Run::new(&pack, &config);
    run.says(r#"{"next_agent":"USER","reason":"which?","dev_plan":null,"finish_review_override":null,"question":{"title":"Which way?","text":"A or B","options":[{"option_id":"a","description":"A"},{"option_id":"b","description":"B"}],"recommended_option_id":null}}"#);
    assert_eq!(run.due(), "wait: Which way?");
    let Do::Wait { asked_seq, .. } = run.next() else { panic!() };
    let answer = |asked_seq: u64, option: &str| Event::Answered {
        asked_seq,
        option_id: option.to_owned(),
        comment: "as you like".to_owned(),
        entry: None,
    };
    let refused = |event: Event| {
        let record = Record { seq: run.state.last_seq + 1, time: NOW, event };
        run.state.clone().apply(&record, &run.rules).is_err()
    };
    assert!(refused(answer(asked_seq + 1, "a")), "of another question");
    assert!(refused(answer(asked_seq, "yes")), "no such option");
    run.take(answer(asked_seq, "b"));
    run.settle();
    assert_eq!(run.due(), "MAIN");
    let record = Record { seq: run.state.last_seq + 1, time: NOW, event: answer(asked_seq, "b") };
    assert!(run.state.apply(&record, &run.rules).is_err(), "answered twice");
    insta::assert_snapshot!(run.history());
}

#[test]
fn what_only_a_person_can_settle_is_asked() {
    let (pack, config) = rules();
    let mut env = Run::new(&pack, &config);
    env.decides("TEST", "");
    env.reports("BLOCKED", "[env] no compiler");
    assert_eq!(env.due(), "wait: Only a person can resolve this");

    let mut same = Run::new(&pack, &config);
    for number in 1..=3 {
        same.decides("TEST", &format!("set M1-T1 evidence: try {number}"));
        same.reports("FAIL", "[test] flaky");
    }
    assert_eq!(same.due(), "wait: The same blocker again");

    let mut idle = Run::new(&pack, &config);
    for number in 1..=5 {
        idle.decides("DEV", "");
        idle.reports("FAIL", &format!("[spec] unclear {number}"));
    }
    assert_eq!(idle.due(), "wait: No progress");

    let mut finish = Run::new(&pack, &config);
    for number in 1..=3 {
        finish.decides("FINISH", &format!("set M1-T1 evidence: try {number}"));
        finish.reports("FAIL", &format!("[impl] not done {number}"));
        finish.decides("FINISH", "");
    }
    assert_eq!(finish.due(), "wait: The run cannot be finished");
    let Do::Wait { asked_seq, .. } = finish.next() else { panic!() };
    let stop = Event::Answered {
        asked_seq,
        option_id: "stop".to_owned(),
        comment: String::new(),
        entry: None,
    };
    finish.take(stop);
    assert_eq!(finish.due(), "stopped: the person chose to stop");
}

#[test]
fn the_same_twice_running_is_a_loop() {
    let (pack, config) = rules();
    let mut run = Run::new(&pack, &config);
    for _ in 0..2 {
        run.decides("DEV", "");
        run.reports("FAIL", "[spec] unclear");
    }
    assert!(matches!(run.state.stopped, Some(Stop::Loop(_))), "{}", run.due());
    let mut other = Run::new(&pack, &config);
    for number in 0..2 {
        other.decides("DEV", "");
        other.reports("FAIL", &format!("[spec] unclear {number}"));
    }
    assert_eq!(other.due(), "MAIN", "another blocker is another outcome");
}

#[test]
fn budgets_stop_what_would_exceed_them() {
    let (pack, config) = rules();
    let with = |limits: Limits| {
        let mut run = Run::new(&pack, &config);
        run.state.budget.limits = limits;
        let mut stages = 0;
        while !run.due().starts_with("stopped") && stages < 30 {
            stages += 1;
            match run.due().as_str() {
                "MAIN" => run.decides("TEST", &format!("set M1-T1 evidence: {stages}")),
                _ => run.reports("FAIL", &format!("[test] wrong {stages}")),
            }
        }
        (run.due(), stages)
    };
    let (why, stages) = with(Limits { iterations: 2, ..limits() });
    assert_eq!((why.as_str(), stages), ("stopped: all 2 iterations of the run are used up", 4));
    let (why, stages) = with(Limits { tokens: Some(Tokens(300)), ..limits() });
    assert_eq!((why.as_str(), stages), ("stopped: the budget of tokens is used up: 300 of 300", 3));
    let (why, stages) = with(Limits { cost: Some(20), ..limits() });
    assert_eq!(
        (why.as_str(), stages),
        ("stopped: the budget of nano-dollars is used up: 21 of 20", 3)
    );
    let (why, _) = with(Limits { seconds: Some(9), ..limits() });
    assert_eq!(why, "stopped: the budget of seconds is used up: 10 of 9");
    let run = Run::new(&pack, &config);
    let mut state = run.state.clone();
    state.budget.limits.tokens = Some(Tokens(1_000));
    assert!(
        state.would_exceed(1_001, Language::English).is_some()
            && state.would_exceed(1_000, Language::English).is_none()
    );
    state.budget.totals.unknown_costs = 1;
    state.budget.limits.cost = Some(1_000_000);
    assert!(
        state.would_exceed(0, Language::English).unwrap().why().contains("unknown"),
        "an unknown cost is not zero"
    );
}

/// The stage that is due begins, and ends where an answer is given; nothing is judged.
fn stage(run: &mut Run<'_>, answer: Option<&str>) {
    let (Do::AskMain { stage, attempt, .. } | Do::RunAgent { stage, attempt, .. }) = run.next()
    else {
        panic!("{:?}", run.next());
    };
    let started = StageStarted::new(stage.clone(), attempt);
    run.take(Event::StageStarted(Box::new(started)));
    if let Some(answer) = answer {
        let spent = Spent { milliseconds: 1, tokens: Some(Tokens(1)), cached: None, cost: Some(1) };
        let result = StageResult::Answer(answer.to_owned());
        let ended = StageEnded::new(stage, attempt, result, spent);
        run.take(Event::StageEnded(Box::new(ended)));
    }
}
/// What the last stage said is judged, and nothing more.
fn judged(run: &mut Run<'_>) {
    let event = match run.next() {
        Do::JudgeDecision { answer, check } => {
            judge_decision(&run.state, &run.rules, &answer, check, &run.plan, &|_| true)
        }
        Do::JudgeReport { job, report } => {
            judge_report(&run.state, &run.rules, &job.agent, &report, &run.plan)
        }
        other => panic!("{other:?}"),
    };
    run.take(event);
}

/// A run in each of its phases.
fn in_every_phase<'a>(pack: &'a Pack, config: &'a Config) -> Vec<(&'static str, Run<'a>)> {
    let question = r#"{"next_agent":"USER","reason":"which?","dev_plan":null,"finish_review_override":null,"question":{"title":"Which?","text":"A or B","options":[{"option_id":"go_on","description":"A"},{"option_id":"stop","description":"B"}],"recommended_option_id":null}}"#;
    let decision =
        r#"{"next_agent":"TEST","reason":"r","dev_plan":null,"finish_review_override":null}"#;
    let new = || Run::new(pack, config);
    let mut all = vec![("decide", new())];
    let mut run = new();
    stage(&mut run, None);
    all.push(("running", run));
    let mut run = new();
    stage(&mut run, Some(decision));
    all.push(("judge_decision", run));
    let mut run = new();
    run.decides("TEST", "");
    all.push(("work", run));
    let mut run = new();
    run.decides("TEST", "");
    stage(&mut run, Some("iteration: 1\nverdict: PASS\nblockers: none\n"));
    all.push(("judge_report", run));
    let mut run = new();
    run.decides("TEST", "");
    stage(&mut run, Some("iteration: 1\nverdict: PASS\nblockers: none\ncoverage: 90%\n"));
    judged(&mut run);
    all.push(("gates", run.clone()));
    run.take(Event::GateStarted { index: 0, command: "cargo test".to_owned() });
    all.push(("gates, one runs", run.clone()));
    run.take(gate_ended(0, true));
    all.push(("gates, samples are due", run.clone()));
    run.take(Event::EvaluationStarted { number: 1 });
    all.push(("gates, samples run", run));
    let mut run = new();
    run.decides("TEST", "");
    stage(&mut run, Some("iteration: 1\nverdict: FAIL\nblockers: [impl] x\n"));
    judged(&mut run);
    all.push(("settle", run));
    let mut run = new();
    run.decides("DEV", "");
    let Do::RunAgent { stage: id, attempt, .. } = run.next() else { panic!() };
    let started = StageStarted::new(id.clone(), attempt);
    run.take(Event::StageStarted(Box::new(started)));
    let result = StageResult::Failed("x".to_owned());
    let ended = StageEnded::new(id, attempt, result, Spent::default());
    run.take(Event::StageEnded(Box::new(ended)));
    all.push(("record", run));
    let mut run = new();
    stage(&mut run, Some(question));
    judged(&mut run);
    all.push(("ask", run));
    let mut run = new();
    run.says(question);
    all.push(("waiting", run));
    let mut run = new();
    run.take(Event::Stopped { why: Stop::Person("p".to_owned()) });
    all.push(("decide, stopped", run));
    let mut run = new();
    run.take(Event::Abandoned);
    all.push(("ended", run));
    all
}

/// One event of each kind, as it would fit this run if it fits at all.
fn one_of_each(run: &Run<'_>) -> Vec<(&'static str, Event)> {
    let mut random = Rng(1);
    let name = |event: &Event| -> &'static str {
        let name = serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned();
        Box::leak(name.into_boxed_str())
    };
    let mut found: BTreeMap<&'static str, Event> = BTreeMap::new();
    for _ in 0..4_000 {
        let event = any_event(run, &mut random);
        let record = Record { seq: run.state.last_seq + 1, time: NOW, event: event.clone() };
        let fits = run.state.clone().apply(&record, &run.rules).is_ok();
        if fits || !found.contains_key(name(&event)) {
            found.insert(name(&event), event);
        }
    }
    let question = baton_core::decision::Question {
        title: "t".to_owned(),
        text: "x".to_owned(),
        options: Vec::new(),
        recommended_option_id: None,
    };
    for event in [
        Event::RunStarted(Box::new(start(limits()))),
        Event::Asked { question, by: baton_core::event::Asker::Main },
        Event::SubloopEnded(baton_core::event::SubloopEnd {
            success: false,
            final_test_verdict: None,
            iterations: 1,
            exit_condition: baton_core::event::ExitCondition::Maximum,
        }),
        Event::Abandoned,
    ] {
        found.insert(name(&event), event);
    }
    found.into_iter().collect()
}

/// A command and samples confirm a pass of TEST.
fn gated_and_evaluated() -> Pack {
    let mut pack = gated("TEST");
    let rules = crate::common::pack("scenario", "en").policy.evaluation.expect("it evaluates");
    pack.policy.evaluation =
        Some(EvaluationRules { of: agent("TEST"), back_to: agent("DEV"), ..rules });
    pack
}

#[test]
fn every_state_takes_or_refuses_every_event() {
    let (pack, config) = (gated_and_evaluated(), Config::default());
    let mut table = String::new();
    for (name, run) in in_every_phase(&pack, &config) {
        assert!(name.starts_with(run.state.phase_name()), "{name}: {:?}", run.state.phase);
        let events = one_of_each(&run);
        assert_eq!(events.len(), 26, "every kind of event: {events:?}");
        table.push_str(&format!("{name}\n"));
        let mut refused = Vec::new();
        for (kind, event) in events {
            let mut state = run.state.clone();
            let record = Record { seq: state.last_seq + 1, time: NOW, event };
            match state.apply(&record, &run.rules) {
                Ok(_) => {
                    let stopped = if state.stopped.is_some() { ", stopped" } else { "" };
                    table.push_str(&format!("    {kind} -> {}{stopped}\n", state.phase_name()));
                }
                Err(_) => {
                    assert_eq!(
                        state, run.state,
                        "{name} {kind}: refused, and changed all the same"
                    );
                    refused.push(kind);
                }
            }
        }
        table.push_str(&format!("    refused: {}\n", refused.join(", ")));
    }
    insta::assert_snapshot!(table);
}

/// Every kind of event, for a state to take or refuse.
fn any_event(run: &Run<'_>, random: &mut Rng) -> Event {
    let stage = match run.next() {
        Do::AskMain { stage, .. } | Do::RunAgent { stage, .. } | Do::Recover { stage, .. } => stage,
        Do::JudgeReport { job, .. } => baton_core::event::StageId {
            iteration: run.state.iteration,
            name: job.agent,
            subloop: job.subloop,
        },
        _ => baton_core::event::StageId {
            iteration: run.state.iteration,
            name: agent("MAIN"),
            subloop: None,
        },
    };
    let attempt = if random.one_of(8) == 0 { Attempt(9) } else { run.state.attempt };
    let spent = Spent { milliseconds: 1, tokens: Some(Tokens(10)), cached: None, cost: Some(1) };
    let facts = ReportFacts {
        agent: stage.name.clone(),
        iteration: run.state.iteration,
        verdict: Some("FAIL".to_owned()),
        outcome: Some([Outcome::Pass, Outcome::Fail, Outcome::Blocked][random.one_of(3)]),
        blockers: vec![format!("b{}", random.one_of(4))],
        classes: vec![["impl", "test", "env", "unknown"][random.one_of(4)].to_owned()],
        tasks: Vec::new(),
        about: Vec::new(),
        blocker_tasks: Vec::new(),
        subject: None,
        percent: None,
        overturned: None,
    };
    let next = ["TEST", "DEV", "FINISH", "FINISH", "NOBODY"][random.one_of(5)];
    let by = if random.one_of(4) == 0 { DecidedBy::Rule } else { DecidedBy::Main };
    let decided = Decided {
        by,
        decision: (by == DecidedBy::Rule).then(|| Box::new(decision(Next::Agent(agent("DEV"))))),
        answer: format!(
            r#"{{"next_agent":"{next}","reason":"r","dev_plan":null,"finish_review_override":null,"task":"t{}"}}"#,
            random.one_of(9)
        ),
        plan_before: "a".to_owned(),
        plan_after: format!("{}", random.one_of(3)),
        plan_summary: String::new(),
        plan_changes: 0,
        open: if random.one_of(2) == 0 { vec!["open".to_owned()] } else { Vec::new() },
    };
    let result = match random.one_of(5) {
        0 => StageResult::Failed("x".to_owned()),
        1 => StageResult::TimedOut("x".to_owned()),
        2 => StageResult::Trespassed(vec!["plan".to_owned()]),
        _ => StageResult::Answer("x".to_owned()),
    };
    let kind = random.one_of(22);
    if kind > 10 {
        return any_other_event(run, kind, random);
    }
    match kind {
        0 => Event::StageStarted(Box::new(StageStarted::new(stage, attempt))),
        1 => Event::StageEnded(Box::new(StageEnded::new(stage, attempt, result, spent))),
        2 => Event::StageLost { stage, attempt, restored: true, changed: Vec::new() },
        3 => Event::DecisionRefused { problem: "p".to_owned() },
        4 => Event::Decided(Box::new(decided)),
        5 => Event::ReportRefused { problem: "p".to_owned() },
        6 => Event::ReportAccepted(Box::new(facts)),
        7 => Event::GateStarted { index: gate_index(run), command: "g".to_owned() },
        8 => gate_ended(gate_index(run), random.one_of(2) == 0),
        9 => Event::SubloopEntered { reason: "r".to_owned() },
        _ => Event::IterationEnded { entry: HistoryText::new(String::new()) },
    }
}

fn decision(next: Next) -> Decision {
    Decision {
        next,
        reason: "r".to_owned(),
        plan: PlanChange::None,
        overrules_review: false,
        task: Some("t".to_owned()),
        note: None,
    }
}

/// As a rule of the policy decides.
fn by_rule(next: Next) -> Event {
    Event::Decided(Box::new(Decided {
        by: DecidedBy::Rule,
        decision: Some(Box::new(decision(next))),
        answer: String::new(),
        plan_before: "a".to_owned(),
        plan_after: "a".to_owned(),
        plan_summary: String::new(),
        plan_changes: 0,
        open: Vec::new(),
    }))
}

#[test]
fn a_rule_decides_without_an_answer_of_main() {
    let (pack, config) = (pack("tdd", "en"), Config::default());
    let mut run = Run::new(&pack, &config);
    let calls = run.state.budget.totals.main_calls;
    // As a journal has it.
    let event = by_rule(Next::Agent(agent("TEST")));
    let line = serde_json::to_string(&event).unwrap();
    let event: Event = serde_json::from_str(&line).unwrap();
    let record = Record { seq: run.state.last_seq + 1, time: NOW, event: event.clone() };
    let told = baton_core::view::Teller::new(pack.manifest.agent_names()).line(&record).unwrap();
    assert!(told.contains("by rule → TEST: r"), "{told}");
    run.take(event);
    assert!(matches!(run.next(), Do::RunAgent { job, .. } if job.agent == "TEST"));
    assert_eq!(run.state.budget.totals.main_calls, calls, "MAIN was not asked");
    run.reports("PASS", "none");
    assert!(run.history().contains("next_agent: TEST"), "{}", run.history());
}

#[test]
fn a_rule_never_finishes_a_run_and_never_answers_for_main() {
    let (pack, config) = (pack("tdd", "en"), Config::default());
    let refuses = |run: &Run<'_>, event: Event| {
        let record = Record { seq: run.state.last_seq + 1, time: NOW, event };
        run.state.after(&record, &run.rules).is_err()
    };
    let test = || by_rule(Next::Agent(agent("TEST")));
    let mut run = Run::new(&pack, &config);
    assert!(refuses(&run, by_rule(Next::Finish)), "only MAIN finishes");
    stage(&mut run, None);
    assert!(refuses(&run, test()), "MAIN is being asked");
    let mut run = Run::new(&pack, &config);
    stage(&mut run, Some("not a decision"));
    assert!(refuses(&run, test()), "MAIN has answered");
    judged(&mut run);
    assert!(refuses(&run, test()), "MAIN is to correct its answer");
}

/// The gate that is due, of whatever kind.
fn gate_index(run: &Run<'_>) -> usize {
    match &run.state.phase {
        Phase::Gates { index, .. } => *index,
        _ => 0,
    }
}

fn gate_ended(index: usize, passed: bool) -> Event {
    let (command, output) = ("g".to_owned(), String::new());
    Event::GateEnded { index, command, passed, output, milliseconds: 0, log: None }
}

fn any_other_event(run: &Run<'_>, kind: usize, random: &mut Rng) -> Event {
    match kind {
        11 => Event::Finished { entry: HistoryText::new(String::new()) },
        12 => Event::Answered {
            asked_seq: run.state.last_seq,
            option_id: ["go_on", "stop"][random.one_of(2)].to_owned(),
            comment: String::new(),
            entry: None,
        },
        13 => Event::Adopted { files: Vec::new() },
        14 => Event::Stopped { why: Stop::Person("p".to_owned()) },
        15 => Event::Resumed {
            limits: run.state.budget.limits,
            setup: None,
            adopted_rules: None,
            project: None,
            outputs: Vec::new(),
        },
        16 => Event::FilesRead { files: Vec::new() },
        17 => Event::FilesSeen(Box::new(FilesSeen {
            digest: "d".to_owned(),
            files: Vec::new(),
            missing: Vec::new(),
        })),
        18 => Event::EvaluationStarted { number: 1 },
        19 => Event::Evaluated(Box::new(evaluated(random.one_of(5) as u64))),
        20 => Event::EvaluationPaused { spent: Spent::default() },
        _ => Event::EvaluationRefused { why: "w".to_owned(), spent: Spent::default() },
    }
}

#[test]
fn samples_that_are_due_stay_due_under_rules_with_one_more_command() {
    let (before, config) = (gated_and_evaluated(), Config::default());
    let mut run = Run::new(&before, &config);
    run.decides("TEST", "");
    stage(&mut run, Some("iteration: 1\nverdict: PASS\nblockers: none\ncoverage: 90%\n"));
    judged(&mut run);
    run.take(Event::GateStarted { index: 0, command: "cargo test".to_owned() });
    run.take(gate_ended(0, true));
    assert_eq!(run.next(), Do::StartEvaluation);
    let mut after = before.clone();
    after.policy.gates.push(after.policy.gates[0].clone());
    let rules = Rules { pack: &after, config: &config };
    let resumed = Event::Resumed {
        limits: run.state.budget.limits,
        setup: None,
        adopted_rules: Some(Box::new(adopted())),
        project: None,
        outputs: Vec::new(),
    };
    for (number, event) in (1..).zip([resumed, Event::EvaluationStarted { number: 1 }]) {
        let record = Record { seq: run.state.last_seq + 1, time: NOW, event };
        run.state.apply(&record, &rules).unwrap_or_else(|misfit| panic!("{number}: {misfit}"));
    }
    assert_eq!(run.state.next(&rules, NOW), Do::Evaluate { number: 1 });
    assert_eq!(run.state.current.gates.len(), 1, "the history keeps the command that passed");
    // Without samples in the rules the pass must not count unconfirmed.
    after.policy.evaluation = None;
    let why = run.state.unfit_for(&Rules { pack: &after, config: &config });
    assert!(why.is_some_and(|why| why.contains("evaluation")));
}

/// Some rules; folding them is not what is tested.
fn adopted() -> AdoptedRules {
    let switches =
        Switches { subloop: true, milestones: true, report_retries: 2, decision_retries: 2 };
    let text = RulesText { policy: serde_json::Value::Null, agents: BTreeMap::new(), switches };
    let (pack, language) = ("tdd".to_owned(), "en".to_owned());
    AdoptedRules { changed: Vec::new(), pack, language, fingerprints: BTreeMap::new(), text }
}

fn evaluated(passed: u64) -> Evaluation {
    Evaluation {
        number: 1,
        folder: "outputs".to_owned(),
        total: 4,
        passed,
        failed: 4 - passed,
        errors: 0,
        critical: 0,
        problems: Vec::new(),
        tools: "t".to_owned(),
        checkers: "c".to_owned(),
        spent: Spent::default(),
    }
}

/// Small and the same everywhere.
struct Rng(u64);

impl Rng {
    fn one_of(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % count as u64) as usize
    }
}

/// A million with `BATON_WALK_EVENTS=1000000`.
#[test]
fn a_random_walk_never_reaches_an_illegal_state() {
    let wanted: u64 =
        std::env::var("BATON_WALK_EVENTS").map_or(60_000, |text| text.parse().unwrap());
    let (pack, config) = (gated_and_evaluated(), Config::default());
    let mut random = Rng(0x2545_f491_4f6c_dd1d);
    let (mut taken, mut refused, mut ended, mut parked) = (0_u64, 0_u64, 0_u64, 0_u64);
    while taken + refused < wanted {
        let mut run = Run::new(&pack, &config);
        run.state.budget.limits = Limits { iterations: 6, tokens: Some(Tokens(400)), ..limits() };
        let mut running = false;
        for _ in 0..400 {
            let before = run.state.clone();
            // Mostly what fits, at times anything at all.
            let seq = run.state.last_seq + 1;
            let event = match run.next() {
                Do::Journal(event) if random.one_of(3) > 0 => event,
                _ if random.one_of(4) == 0 => any_event(&run, &mut random),
                _ => {
                    let mut events = (0..60).map(|_| any_event(&run, &mut random));
                    let fits = |event: &Event| {
                        let record = Record { seq, time: NOW, event: event.clone() };
                        run.state.clone().apply(&record, &run.rules).is_ok()
                    };
                    let Some(event) = events.find(fits) else { continue };
                    event
                }
            };
            // A driver starts a stage only when it is told to: this is where budgets are kept.
            let may_start = matches!(run.next(), Do::AskMain { .. } | Do::RunAgent { .. });
            if matches!(event, Event::StageStarted(_)) && !may_start {
                continue;
            }
            let record = Record { seq, time: NOW, event };
            match run.state.apply(&record, &run.rules) {
                Ok(_) => taken += 1,
                Err(_) => {
                    refused += 1;
                    assert_eq!(run.state, before, "a refused event changed something");
                    continue;
                }
            }
            let is_running = matches!(run.state.phase, Phase::Running { .. });
            let started = matches!(record.event, Event::StageStarted(_));
            assert!(!(running && started), "two stages at once");
            assert_eq!(started, is_running && !running, "{:?}", record.event);
            running = is_running;
            let state = &run.state;
            assert!(state.budget.totals.iterations <= 6, "the budget of iterations");
            // What was under way when the budget ran out is counted, and nothing starts after it.
            assert!(state.budget.totals.tokens <= 410, "{}", state.budget.totals.tokens);
            assert!(state.current.subloop.as_ref().is_none_or(|sub| sub.number <= 3));
            let written = serde_json::to_string(state).unwrap();
            assert_eq!(&serde_json::from_str::<State>(&written).unwrap(), state);
            match run.next() {
                Do::Halt if state.phase == Phase::Ended => {
                    ended += 1;
                    break;
                }
                Do::Wait { .. } => parked += 1,
                _ => {}
            }
        }
    }
    assert!(ended > 3 && parked > 20 && refused > 1_000, "{taken} {refused} {ended} {parked}");
}

/// With a driver that answers at random but within the protocol, every run comes to an end, a stop
/// or a person.
#[test]
fn every_run_ends_or_parks() {
    let (pack, config) = rules();
    let mut random = Rng(7);
    for _ in 0..300 {
        let mut run = Run::new(&pack, &config);
        run.state.budget.limits = Limits { iterations: 20, ..limits() };
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 400, "it goes on for ever");
            match run.next() {
                Do::AskMain { .. } => {
                    let next = ["TEST", "DEV", "REVIEW", "FINISH"][random.one_of(4)];
                    run.decides(next, &format!("set M1-T1 evidence: {steps}"));
                }
                Do::RunAgent { .. } => match random.one_of(6) {
                    0 => run.reports("PASS", "none"),
                    1 => run.reports("BLOCKED", &format!("[spec] unclear {steps}")),
                    2 => run.answer(StageResult::Failed(format!("exit {steps}"))),
                    3 => run.says("no report"),
                    _ => run.reports("FAIL", &format!("[impl] wrong {steps}")),
                },
                Do::Halt | Do::Wait { .. } => break,
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_stage_that_touched_the_blackboard_is_told_when_it_is_asked_again() {
    let (pack, config) = rules();
    let mut run = Run::new(&pack, &config);
    run.decides("TEST", "");
    let (stage, attempt) = run.start();
    run.take(Event::StageEnded(Box::new(StageEnded::new(
        stage,
        attempt,
        StageResult::Trespassed(vec!["memory/dev_plan.md".to_owned()]),
        Spent::default(),
    ))));
    assert!(run.due().starts_with("stopped: TEST, iteration 1 changed files"), "{}", run.due());
    run.take(Event::Resumed {
        limits: run.state.budget.limits,
        setup: None,
        adopted_rules: None,
        project: None,
        outputs: Vec::new(),
    });
    let Do::RunAgent { job, attempt, .. } = run.next() else { panic!() };
    assert!(job.refused[0].problem.contains("memory/dev_plan.md"));
    assert_eq!(attempt, Attempt(1), "the same conversation continues");
}

#[test]
fn a_stop_inside_a_stage_leaves_the_stage_open() {
    let (pack, config) = rules();
    let mut run = Run::new(&pack, &config);
    run.decides("TEST", "");
    run.start();
    let open = run.next();
    run.take(Event::Stopped { why: Stop::Executor("no key".to_owned()) });
    assert_eq!(run.due(), "stopped: no key");
    run.take(Event::Resumed {
        limits: run.state.budget.limits,
        setup: None,
        adopted_rules: None,
        project: None,
        outputs: Vec::new(),
    });
    assert_eq!(run.next(), open, "it is continued, and not begun again");
}

#[test]
fn a_refusal_is_told_in_the_language_of_the_pack() {
    const READS: &str = r#"{"reads":["reports/report_dev.md"]}"#;
    const VERIFIED: &str = r#"{"next_agent":"TEST","reason":"r","dev_plan":"update M1-T1 status to VERIFIED","finish_review_override":null}"#;
    let told = |language: &str| {
        let (pack, config) = (pack("tdd", language), Config::default());
        let run = Run::new(&pack, &config);
        let answers = [
            judge_decision(&run.state, &run.rules, "DEV", false, PLAN, &|_| true),
            judge_decision(&run.state, &run.rules, READS, false, PLAN, &|_| true),
            judge_decision(&run.state, &run.rules, VERIFIED, false, PLAN, &|_| true),
            judge_report(&run.state, &run.rules, &agent("DEV"), "done", PLAN),
        ];
        let problems = answers.into_iter().map(|event| match event {
            Event::DecisionRefused { problem } | Event::ReportRefused { problem } => problem,
            other => panic!("it is not refused: {other:?}"),
        });
        problems.collect::<Vec<String>>().join("\n")
    };
    insta::assert_snapshot!(told("en"), @"
    1:1: there is text before the JSON: `DEV`; expected one JSON object, `{` first
    files were read 2 times for this decision already; expected a decision
    1:46: dev_plan, line 1: task `M1-T1` may not become `VERIFIED`: there is no report of `TEST`, `REVIEW` in this run
    the iteration line is missing; expected `iteration: 1`
    the verdict line is missing; expected `verdict:` and one of `PASS`, `FAIL`, `BLOCKED`
    the blockers line is missing; expected `blockers:` and `none` or what blocks
    ");
    insta::assert_snapshot!(told("zh"), @"
    第 1 行第 1 列：JSON 之前有其他内容：`DEV`；要求：一个 JSON 对象，以 `{` 开头
    这次决策已经读过 2 次文件；要求：作出决策
    第 1 行第 46 列：`dev_plan` 第 1 行：任务 `M1-T1` 不能设为 `VERIFIED`：本次运行中还没有 `TEST`、`REVIEW` 的报告
    缺少轮次行；要求：`iteration: 1`
    缺少结论行；要求：`结论：` 后写 `PASS`、`FAIL`、`BLOCKED` 之一
    缺少阻塞行；要求：`阻塞：` 后写 `无` 或阻塞
    ");
}
