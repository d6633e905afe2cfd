//! What a run writes while it goes on, under a Chinese pack: open points, questions, refused passes,
//! reasons to stop and the history.

use baton_core::config::Config;
use baton_core::event::{
    Event, FilesSeen, Limits, ProjectCheck, Record, Spent, StageEnded, StageResult,
};
use baton_core::id::Tokens;
use baton_core::pack::Pack;
use baton_core::policy::Gate;
use baton_core::workflow::{Answer, Do, Effect, Phase, Rules, open_points};

use super::{pack, words_of};
use crate::PACKS;
use crate::approvals::{answered, evaluation, seen};
use crate::workflows::{NOW, Run, agent};

const PLAN: &str = "## Milestone M1: 安全\n\n### M1-T1: 加法\n- status: TODO\n";

/// Names that no prompt holds: options of questions, a command, a digest and a unit.
const MORE: [&str; 8] = ["go_on", "stop", "approve", "change", "cargo", "one", "token", "tokens"];

fn start<'a>(pack: &'a Pack, config: &'a Config) -> Run<'a> {
    Run::with_plan(pack, config, PLAN)
}

fn decides(run: &mut Run<'_>, next: &str, plan: &str) {
    let plan = if plan.is_empty() { "null".to_owned() } else { format!("{plan:?}") };
    run.says(&format!(
        r#"{{"next_agent":"{next}","reason":"照计划","dev_plan":{plan},"finish_review_override":null,"task":"做 M1-T1"}}"#
    ));
}

fn reports(run: &mut Run<'_>, verdict: &str, blockers: &str) {
    reports_coverage(run, verdict, blockers, "coverage: 95%\n");
}

fn reports_coverage(run: &mut Run<'_>, verdict: &str, blockers: &str, coverage: &str) {
    let iteration = run.state.iteration;
    run.says(&format!(
        "iteration: {iteration}\n结论：{verdict}\n阻塞：{blockers}\n{coverage}M1-T1\n"
    ));
}

/// The English words of a text, without the keys of its lines and the headings of a history.
#[track_caller]
fn is_chinese_only(what: &str, text: &str) {
    let mut found = Vec::new();
    assert!(!text.trim().is_empty(), "{what} is empty");
    for line in text.lines() {
        let line = line.trim_start().trim_start_matches("- ");
        // Values of other programs: `success=true`.
        if line.starts_with("subloop: ") {
            continue;
        }
        let is_key =
            |key: &str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let value = match line.split_once(": ") {
            Some((key, value)) if is_key(key) => value,
            _ => line,
        };
        let words: Vec<String> =
            words_of(value).into_iter().filter(|word| !MORE.contains(&word.as_str())).collect();
        if !words.is_empty() {
            found.push(format!("{words:?} in: {line}"));
        }
    }
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// The history, the question that is asked and the reason of the stop, where there are such.
#[track_caller]
fn is_chinese_run(run: &Run<'_>) {
    is_chinese_only("history", &run.history());
    if let Do::Wait { question, .. } = run.next() {
        is_chinese_only("title", &question.title);
        is_chinese_only("question", &question.text);
        for option in &question.options {
            is_chinese_only("option", &option.description);
        }
    }
    if let Some(stop) = &run.state.stopped {
        is_chinese_only("stop", stop.why());
    }
    for event in &run.seen {
        if let Event::DecisionRefused { problem } | Event::ReportRefused { problem } = event {
            is_chinese_only("refusal", problem);
        }
    }
}

#[test]
fn open_points_are_chinese() {
    let (pack, config) = (pack("tdd", "zh"), Config::default());
    let rules = Rules { pack: &pack, config: &config };
    let mut run = start(&pack, &config);
    let check = |run: &Run<'_>, plan: &str| {
        let points = open_points(&run.state, &rules, plan, false);
        is_chinese_only("open points", &points.join("\n"));
    };
    for plan in [PLAN, "", "### M1-T1\n- status: 不存在\n"] {
        check(&run, plan);
    }
    decides(&mut run, "TEST", "");
    reports(&mut run, "FAIL", "[test] 缺少用例");
    check(&run, PLAN);
    decides(&mut run, "TEST", "");
    reports(&mut run, "PASS", "无");
    check(&run, PLAN);
    // Files change after the pass, with and without a stage that wrote.
    let files = vec!["src/a.rs".to_owned(), "src/b.rs".to_owned()];
    let mut void = run.clone();
    void.state.reports.passes.void.insert(agent("TEST"), files);
    check(&void, PLAN);
    decides(&mut run, "DEV", "");
    reports(&mut run, "PASS", "无");
    check(&run, PLAN);
    decides(&mut run, "FINISH", "");
    is_chinese_run(&run);
}

#[test]
fn a_pass_that_does_not_count_is_refused_in_chinese() {
    let (pack, config) = (pack("tdd", "zh"), Config::default());
    for coverage in ["", "coverage: 3%\n"] {
        let mut run = start(&pack, &config);
        decides(&mut run, "TEST", "");
        reports_coverage(&mut run, "PASS", "无", coverage);
        is_chinese_run(&run);
        assert!(run.history().contains("dev_plan: 无\n"), "{}", run.history());
    }
    // Files that changed while an agent ran that may not write.
    let mut run = start(&pack, &config);
    decides(&mut run, "REVIEW", "");
    let report = format!("iteration: {}\n结论：PASS\n阻塞：无\n", run.state.iteration);
    let (stage, attempt) = run.start();
    let project = ProjectCheck {
        snapshot: "1".to_owned(),
        changed: vec!["src/a.rs".to_owned()],
        ..ProjectCheck::default()
    };
    let changed = vec!["src/b.rs".to_owned()];
    let result = StageResult::Answer(report);
    let ended = StageEnded {
        voiding: changed.clone(),
        unexpected: changed,
        project: Some(Box::new(project)),
        ..StageEnded::new(stage, attempt, result, Spent::default())
    };
    run.take(Event::StageEnded(Box::new(ended)));
    run.settle();
    assert!(run.history().contains("src/b.rs"), "{}", run.history());
    is_chinese_run(&run);
}

#[test]
fn a_failed_gate_and_its_report_are_chinese() {
    let config = Config::default();
    for output in ["", "退出码 1"] {
        let mut pack = pack("tdd", "zh");
        pack.policy.gates = vec![Gate {
            on: agent("DEV").into(),
            run: "cargo".to_owned(),
            timeout: 60,
            allow: Vec::new(),
        }];
        let mut run = start(&pack, &config);
        decides(&mut run, "DEV", "");
        reports(&mut run, "PASS", "无");
        let Do::RunGate { index, gate, .. } = run.next() else { panic!("{:?}", run.next()) };
        run.take(Event::GateStarted { index, command: gate.run.clone() });
        let event = Event::GateEnded {
            index,
            command: gate.run,
            passed: false,
            output: output.to_owned(),
            milliseconds: 1,
            log: Some("logs/1.log".to_owned()),
        };
        let record = Record { seq: run.state.last_seq + 1, time: NOW, event: event.clone() };
        let rules = Rules { pack: &pack, config: &config };
        let (_, effects) = run.state.after(&record, &rules).unwrap();
        for effect in effects {
            if let Effect::PublishReport { text, .. } = effect {
                is_chinese_only("report", &text);
            }
        }
        run.take(event);
        run.settle();
        is_chinese_run(&run);
    }
}

#[test]
fn what_baton_asks_by_itself_is_chinese() {
    let (pack, config) = (pack("tdd", "zh"), Config::default());
    let asked = |blockers: &str, changes: bool| {
        let mut run = start(&pack, &config);
        for round in 0..8 {
            if matches!(run.next(), Do::Wait { .. }) {
                break;
            }
            let plan = format!("set M1-T1 evidence: 第 {round} 次");
            decides(&mut run, "TEST", if changes { &plan } else { "" });
            reports(&mut run, "FAIL", &blockers.replace("{n}", &round.to_string()));
        }
        run
    };
    for (blockers, changes) in
        [("[env] 没有权限", true), ("[test] 缺少用例", true), ("[test] 缺少用例 {n}", false)]
    {
        let mut run = asked(blockers, changes);
        let Phase::Waiting { question, .. } = &run.state.phase else { panic!("{blockers}") };
        is_chinese_run(&run);
        let answer = Answer {
            question: question.clone(),
            option_id: "stop".to_owned(),
            comment: String::new(),
        };
        let rules = Rules { pack: &pack, config: &config };
        is_chinese_only("answer", &run.state.answer_entry(&answer, &rules, NOW));
        run.take(answered(&run, "stop", ""));
        is_chinese_run(&run);
    }
    // The same twice in a row.
    let mut run = start(&pack, &config);
    for _ in 0..2 {
        decides(&mut run, "TEST", "");
        reports(&mut run, "FAIL", "[test] 缺少用例");
    }
    assert!(run.state.stopped.is_some());
    is_chinese_run(&run);
}

#[test]
fn an_attempt_to_finish_is_told_in_chinese() {
    let (pack, config) = (pack("tdd", "zh"), Config::default());
    let to_check = |review: &str, plan: &str| {
        let mut run = start(&pack, &config);
        for name in ["TEST", "REVIEW"] {
            decides(&mut run, name, &format!("set M1-T1 evidence: {name}"));
            reports(&mut run, "PASS", "无");
        }
        decides(&mut run, "FINISH", plan);
        reports(&mut run, review, if review == "PASS" { "无" } else { "[impl] 没有做完" });
        run
    };
    let verified = "update M1-T1 status to VERIFIED";
    let ignore = r#"{"next_agent":"FINISH","reason":"它错了","dev_plan":null,"finish_review_override":"ignore"}"#;
    for (review, plan) in [("PASS", verified), ("PASS", ""), ("FAIL", verified)] {
        for next in ["FINISH", "DEV", ignore] {
            let mut run = to_check(review, plan);
            if next == ignore {
                run.says(next);
            } else {
                decides(&mut run, next, "");
            }
            is_chinese_run(&run);
            if let Some(line) = &run.state.reports.overridden {
                is_chinese_only("override", line);
            }
        }
    }
}

#[test]
fn stages_that_fail_and_budgets_that_end_are_told_in_chinese() {
    let (pack, config) = (pack("tdd", "zh"), Config::default());
    let mut run = start(&pack, &config);
    decides(&mut run, "DEV", "");
    run.answer(StageResult::Failed("断线".to_owned()));
    assert!(run.history().contains("## Iteration 1: DEV 失败\n"), "{}", run.history());
    is_chinese_run(&run);
    for result in [
        StageResult::Trespassed(vec!["memory/x.md".to_owned()]),
        StageResult::Unusable("断线".to_owned()),
    ] {
        for main in [true, false] {
            let mut run = start(&pack, &config);
            if !main {
                decides(&mut run, "DEV", "");
            }
            run.answer(result.clone());
            is_chinese_only("stop", run.state.stopped.as_ref().unwrap().why());
        }
    }
    let limits = Limits::of(50, 3_600);
    for limits in [
        Limits { iterations: 1, ..limits },
        Limits { tokens: Some(Tokens(100)), ..limits },
        Limits { cost: Some(7), ..limits },
        Limits { seconds: Some(5), ..limits },
    ] {
        let mut run = start(&pack, &config);
        run.state.budget.limits = limits;
        for _ in 0..4 {
            match run.due().as_str() {
                "MAIN" => decides(&mut run, "TEST", ""),
                "TEST" => reports(&mut run, "FAIL", "[test] 缺少用例"),
                _ => break,
            }
        }
        let why = run.state.stopped.as_ref().map(|stop| stop.why().to_owned());
        is_chinese_only("limit", &why.unwrap_or_default());
    }
}

#[test]
fn approvals_and_evaluations_are_told_in_chinese() {
    let (pack, config) = (pack("scenario", "zh"), Config::default());
    let until_execute = || {
        let mut run = start(&pack, &config);
        decides(&mut run, "INIT", "");
        reports(&mut run, "PASS", "无");
        decides(&mut run, "EXECUTE", "");
        run
    };
    let mut run = until_execute();
    let missing = vec!["BusinessRules.md: 没有这个文件".to_owned()];
    let files = FilesSeen { digest: String::new(), files: Vec::new(), missing };
    run.take(Event::FilesSeen(Box::new(files)));
    run.settle();
    is_chinese_run(&run);
    decides(&mut run, "EXECUTE", "");
    is_chinese_run(&run);

    let mut run = until_execute();
    run.take(seen("one"));
    run.settle();
    is_chinese_run(&run);
    let mut changes = run.clone();
    changes.take(answered(&run, "change", "写清楚"));
    changes.settle();
    is_chinese_run(&changes);
    decides(&mut changes, "EXECUTE", "");
    is_chinese_run(&changes);
    run.take(answered(&run, "approve", ""));
    run.take(seen("one"));
    reports(&mut run, "PASS", "无");
    let mut other = run.clone();
    other.take(seen("two"));
    other.settle();
    is_chinese_run(&other);
    run.take(seen("one"));
    run.take(Event::EvaluationStarted { number: 1 });
    for (passed, critical, errors) in [(20, 0, 0), (20, 0, 2), (9, 9, 0)] {
        let mut own = evaluation(1, passed, critical);
        own.errors = errors;
        own.problems[0].title = "余额".to_owned();
        let mut after = run.clone();
        after.take(Event::Evaluated(Box::new(own)));
        after.settle();
        is_chinese_run(&after);
    }
}

#[test]
fn reasons_that_overturn_a_pass_have_the_same_class_in_both_languages() {
    use baton_core::messages::Language;
    let all = |own: Language| {
        [
            own.percent_too_low("coverage", 3, 90),
            own.percent_missing("coverage", 90),
            own.gate_failed_alone("make"),
            own.gate_failed_with("make", "exit 1"),
            own.evaluation_refused(own.approved_files_changed()),
            own.evaluation_too_low(1, own.evaluation_line(20, 27, 74, "", "x"), 90),
        ]
    };
    for name in PACKS {
        let classes = |language: &str, own: Language| -> Vec<Option<String>> {
            let policy = pack(name, language).policy;
            let class = |why: &String| policy.report_rules.classify(why).map(str::to_owned);
            all(own).iter().map(class).collect()
        };
        let (en, zh) = (classes("en", Language::English), classes("zh", Language::Chinese));
        assert_eq!(en, zh, "{name}");
    }
}
