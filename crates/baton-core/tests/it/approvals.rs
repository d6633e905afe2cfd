//! Nothing is executed before a person approved exactly what is there, and what comes of samples
//! decides who is next.

use baton_core::config::Config;
use baton_core::event::{Evaluation, Event, FilesSeen, FoundProblem, Limits, SeenFile, Spent};
use baton_core::id::Tokens;
use baton_core::messages::Language;
use baton_core::policy::EvaluationRules;
use baton_core::workflow::{Do, Phase, Verdict, verdict};
use proptest::prelude::*;

use crate::common::pack;
use crate::workflows::Run;

const PLAN: &str = "# Plan\n\n## Milestone M1: Leave\n\n### M1-T1: Design\n- status: TODO\n";

pub(crate) fn seen(digest: &str) -> Event {
    let file = SeenFile {
        path: "scenarios/leave/BusinessRules.md".to_owned(),
        bytes: 12,
        digest: digest.to_owned(),
    };
    let seen = FilesSeen { digest: digest.to_owned(), files: vec![file], missing: Vec::new() };
    Event::FilesSeen(Box::new(seen))
}

pub(crate) fn answered(run: &Run<'_>, option: &str, comment: &str) -> Event {
    let Do::Wait { asked_seq, .. } = run.next() else { panic!("nobody asks: {:?}", run.next()) };
    Event::Answered {
        asked_seq,
        option_id: option.to_owned(),
        comment: comment.to_owned(),
        entry: None,
    }
}

pub(crate) fn evaluation(number: u32, passed: u64, critical: u64) -> Evaluation {
    let problem = FoundProblem {
        problem_id: "L1P_001".to_owned(),
        is_critical: critical > 0,
        title: "the balance".to_owned(),
        affected: critical,
    };
    Evaluation {
        number,
        folder: format!("scenarios/leave/execution_outputs/iteration_{number}"),
        total: 27,
        passed,
        failed: 27 - passed,
        errors: 0,
        critical,
        problems: vec![problem],
        tools: "t".to_owned(),
        checkers: "c".to_owned(),
        spent: Spent { milliseconds: 5, tokens: None, cached: None, cost: Some(0) },
    }
}

/// A run in which the designer has passed and the executing agent is decided.
fn until_execute<'a>(pack: &'a baton_core::pack::Pack, config: &'a Config) -> Run<'a> {
    let mut run = Run::new(pack, config);
    run.decides("INIT", "");
    run.reports("PASS", "none");
    run.decides("EXECUTE", "");
    assert!(matches!(run.next(), Do::LookAtFiles { .. }), "{:?}", run.next());
    run
}

#[test]
fn nothing_is_executed_before_a_person_approved() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_execute(&pack, &config);
    run.take(seen("one"));
    run.settle();
    assert_eq!(run.due(), "wait: Approve the design?");
    run.take(answered(&run, "approve", ""));
    run.settle();
    // The files are looked at once more: the answer is for what they were.
    assert!(matches!(run.next(), Do::LookAtFiles { .. }));
    run.take(seen("one"));
    assert_eq!(run.due(), "EXECUTE");
}

#[test]
fn a_design_that_changed_after_the_answer_asks_again() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_execute(&pack, &config);
    run.take(seen("one"));
    run.settle();
    run.take(answered(&run, "approve", ""));
    run.take(seen("two"));
    run.settle();
    assert_eq!(run.due(), "wait: Approve the design?");
    let asked = run.seen.iter().filter(|event| matches!(event, Event::Asked { .. })).count();
    assert_eq!(asked, 2);
}

#[test]
fn an_approval_does_not_outlive_an_interruption() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_execute(&pack, &config);
    run.take(seen("one"));
    run.settle();
    run.take(answered(&run, "approve", ""));
    run.take(seen("one"));
    assert_eq!(run.due(), "EXECUTE");
    run.take(Event::Resumed {
        limits: baton_core::event::Limits::of(50, 60),
        setup: None,
        adopted_rules: None,
        project: None,
        outputs: Vec::new(),
    });
    assert!(matches!(run.next(), Do::LookAtFiles { .. }), "it is looked at again");
    run.take(seen("two"));
    run.settle();
    assert_eq!(run.due(), "wait: Approve the design?");
}

#[test]
fn wishes_of_the_person_go_back_to_the_designer_word_for_word() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_execute(&pack, &config);
    run.take(seen("one"));
    run.settle();
    run.take(answered(&run, "change", "say when the balance is deducted"));
    run.settle();
    assert!(run.history().contains("user_comment: say when the balance is deducted"));
    // Nobody else may be next.
    run.decides("EXECUTE", "");
    let refused = run.seen.iter().any(|event| {
        matches!(event, Event::DecisionRefused { problem } if problem.contains("the user wants changes"))
    });
    assert!(refused, "{:?}", run.seen.last());
    run.decides("INIT", "");
    let rules = baton_core::workflow::Rules { pack: &pack, config: &config };
    let agent = baton_core::id::AgentName::new("INIT").unwrap();
    let order = baton_core::workflow::work_order(&run.state, &rules, &agent, PLAN);
    assert!(order.contains("wants this changed:\nsay when the balance is deducted"), "{order}");
    run.reports("PASS", "none");
    assert_eq!(run.state.acceptance.must_next, None);
    let order = baton_core::workflow::work_order(&run.state, &rules, &agent, PLAN);
    assert!(!order.contains("wants this changed"), "answered wishes are not repeated");
    assert_eq!(run.state.acceptance.approvals.answers.len(), 1, "the history of changes is kept");
}

#[test]
fn without_the_design_files_nobody_is_asked_and_the_designer_is_next() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_execute(&pack, &config);
    let missing = FilesSeen {
        digest: String::new(),
        files: Vec::new(),
        missing: vec!["BusinessRules.md: this does not exist".to_owned()],
    };
    run.take(Event::FilesSeen(Box::new(missing)));
    run.settle();
    assert_eq!(run.due(), "MAIN");
    assert!(run.history().contains("BusinessRules.md: this does not exist"));
    assert_eq!(
        run.state.acceptance.must_next.as_ref().map(|(agent, _)| agent.as_str()),
        Some("INIT")
    );
}

/// A run in which the executing agent reported a pass, and samples are due.
fn until_evaluation<'a>(pack: &'a baton_core::pack::Pack, config: &'a Config) -> Run<'a> {
    let mut run = until_execute(pack, config);
    run.take(seen("one"));
    run.settle();
    run.take(answered(&run, "approve", ""));
    run.take(seen("one"));
    run.reports("PASS", "none");
    assert!(matches!(run.next(), Do::LookAtFiles { .. }), "{:?}", run.next());
    run
}

#[test]
fn a_pass_that_the_samples_do_not_confirm_is_a_failure() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_evaluation(&pack, &config);
    run.take(seen("one"));
    assert_eq!(run.next(), Do::StartEvaluation);
    run.take(Event::EvaluationStarted { number: 1 });
    assert_eq!(run.next(), Do::Evaluate { number: 1 });
    run.take(Event::Evaluated(Box::new(evaluation(1, 20, 0))));
    run.settle();
    let history = run.history();
    assert!(history.contains("evaluation: 20 of 27 samples passed (74%)"), "{history}");
    assert!(history.contains("EXECUTE FAIL (overturned: evaluation 1"), "{history}");
    assert_eq!(run.state.acceptance.must_next, None, "repairing may still help");
    run.decides("FINISH", "");
    run.settle();
    assert_ne!(run.due(), "ended");
}

#[test]
fn too_many_critical_problems_bring_the_work_back_to_the_designer() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_evaluation(&pack, &config);
    run.take(seen("one"));
    run.take(Event::EvaluationStarted { number: 1 });
    run.take(Event::Evaluated(Box::new(evaluation(1, 9, 9))));
    run.settle();
    assert!(
        run.history().contains(
            "back to INIT: critical problems touch 9 of 18 failed samples (50%, over 30%)"
        )
    );
    run.decides("EXECUTE", "");
    assert!(matches!(run.seen.last(), Some(Event::DecisionRefused { .. })));
    run.decides("INIT", "");
    assert_eq!(run.due(), "INIT");
    assert!(run.state.acceptance.returned.is_some(), "its package is still to be handed over");
    run.reports("PASS", "none");
    assert!(run.state.acceptance.returned.is_none() && run.state.acceptance.must_next.is_none());
}

#[test]
fn what_was_evaluated_is_what_was_approved() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_evaluation(&pack, &config);
    run.take(seen("changed by the agent"));
    run.settle();
    assert!(run.history().contains("the files are not the ones that the user approved"));
    assert!(!run.seen.iter().any(|event| matches!(event, Event::EvaluationStarted { .. })));
    assert_eq!(run.due(), "MAIN");
}

#[test]
fn samples_that_cannot_be_run_are_a_failure_of_who_made_them() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_evaluation(&pack, &config);
    run.take(seen("one"));
    run.take(Event::EvaluationRefused {
        why: "tools.json:1:2: a name is missing".to_owned(),
        spent: Spent::default(),
    });
    run.settle();
    assert!(run.history().contains("tools.json:1:2: a name is missing"));
    assert_eq!(run.due(), "MAIN");
}

#[test]
fn what_an_interrupted_evaluation_took_counts_against_every_budget() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_evaluation(&pack, &config);
    run.take(seen("one"));
    run.take(Event::EvaluationStarted { number: 1 });
    let limits = Limits {
        seconds: Some(100),
        tokens: Some(Tokens(10_000)),
        cost: Some(1_000),
        ..Limits::of(50, 60)
    };
    run.take(Event::Resumed {
        limits,
        setup: None,
        adopted_rules: None,
        project: None,
        outputs: Vec::new(),
    });
    run.take(seen("one"));
    let left = |run: &Run<'_>| {
        let state = &run.state;
        (state.seconds_left(), state.tokens_left().unwrap(), state.cost_left().unwrap())
    };
    let paused = |seconds: u64, tokens: u64, cost: u64| Event::EvaluationPaused {
        spent: Spent {
            milliseconds: seconds * 1_000,
            tokens: Some(Tokens(tokens)),
            cached: None,
            cost: Some(cost),
        },
    };
    let before = left(&run);
    run.take(paused(30, 4_000, 300));
    assert_eq!(left(&run), (before.0 - 30, before.1 - 4_000, before.2 - 300));
    assert_eq!(
        run.state.acceptance.evaluation_counted,
        (4_000, 300),
        "so that nobody counts it twice"
    );
    assert_eq!(run.next(), Do::Evaluate { number: 1 }, "it goes on");
    run.take(paused(1, before.1 - 4_000, 0));
    assert!(matches!(run.next(), Do::Journal(Event::Stopped { .. })), "and not beyond the budget");
}

#[test]
fn a_wish_takes_back_an_older_approval() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_execute(&pack, &config);
    run.take(seen("one"));
    run.settle();
    run.take(answered(&run, "approve", ""));
    run.take(seen("two"));
    run.settle();
    run.take(answered(&run, "change", "not so"));
    run.settle();
    run.decides("INIT", "");
    run.reports("PASS", "none");
    run.decides("EXECUTE", "");
    // The old design is back; it was approved once, and then it was not wanted.
    run.take(seen("one"));
    run.settle();
    assert_eq!(run.due(), "wait: Approve the design?");
}

#[test]
fn a_confirmed_pass_may_finish() {
    let (pack, config) = (pack("scenario", "en"), Config::default());
    let mut run = until_evaluation(&pack, &config);
    run.take(seen("one"));
    run.take(Event::EvaluationStarted { number: 1 });
    run.take(Event::Evaluated(Box::new(evaluation(1, 24, 0))));
    run.settle();
    run.decides("FINISH", "update M1-T1 status to VERIFIED");
    assert_eq!(run.due(), "FINISH_REVIEW");
    run.reports("PASS", "none");
    run.decides("FINISH", "");
    assert_eq!(run.state.phase, Phase::Ended);
}

fn rules() -> EvaluationRules {
    pack("scenario", "en").policy.evaluation.unwrap()
}

#[test]
fn the_rules_of_going_back_hold_at_their_edges() {
    let of = |all: &[Evaluation]| verdict(all, &rules(), Language::English);
    assert_eq!(of(&[evaluation(1, 23, 0)]), Verdict::Success, "85.2%");
    assert_eq!(of(&[evaluation(1, 22, 0)]), Verdict::Again, "81.5%");
    // An error is not a pass.
    let errors = Evaluation { errors: 5, failed: 0, ..evaluation(1, 22, 0) };
    assert_eq!(of(&[errors]), Verdict::Again);
    let nothing = Evaluation { total: 0, failed: 0, ..evaluation(1, 0, 0) };
    assert_eq!(of(&[nothing]), Verdict::Again, "no sample is no success");
    // 30% exactly stays, more goes back.
    let share =
        |critical| Evaluation { failed: 10, total: 20, passed: 10, ..evaluation(1, 10, critical) };
    assert_eq!(of(&[share(3)]), Verdict::Again);
    assert!(matches!(of(&[share(4)]), Verdict::Back(why) if why.len() == 1));
    // Five evaluations that gain one sample of 100 in all.
    let slow = |gain: u64| -> Vec<Evaluation> {
        (0..5)
            .map(|n| Evaluation {
                total: 100,
                failed: 50,
                passed: 50 + n * gain / 4,
                ..evaluation(1, 0, 0)
            })
            .collect()
    };
    assert!(matches!(of(&slow(1)), Verdict::Back(why) if why[0].contains("gained less than 2%")));
    assert_eq!(of(&slow(2)), Verdict::Again);
    assert_eq!(of(&slow(1)[..4]), Verdict::Again, "four are not five");
    // The same critical problem three times, of few samples each.
    let critical = |n: u64| share(1 + n % 2);
    assert_eq!(of(&[critical(0), critical(1)]), Verdict::Again);
    let back = of(&[critical(0), critical(1), critical(2)]);
    assert!(matches!(back, Verdict::Back(why) if why[0].contains("L1P_001 came 3 times")));
    // Repairs of the tools, counted by their digests.
    let repaired: Vec<Evaluation> = (0..7u32)
        .map(|n| Evaluation {
            tools: n.to_string(),
            passed: u64::from(n),
            total: 100,
            failed: 90,
            ..evaluation(n, 0, 0)
        })
        .collect();
    assert!(
        matches!(of(&repaired), Verdict::Back(why) if why.iter().any(|own| own.contains("layer 2")))
    );
    assert_eq!(of(&repaired[..6]), Verdict::Again);
}

proptest! {
    #[test]
    fn a_success_is_always_at_least_the_rate_and_never_anything_else(passed in 0u64..200, failed in 0u64..200, errors in 0u64..50) {
        let total = passed + failed + errors;
        let one = Evaluation { total, failed, errors, ..evaluation(1, 0, 0) };
        let one = Evaluation { passed, ..one };
        let is_success = verdict(&[one], &rules(), Language::English) == Verdict::Success;
        prop_assert_eq!(is_success, total > 0 && passed * 100 >= 85 * total);
    }
}

/// What a hostile world may answer next.
#[derive(Debug, Clone, Copy)]
enum Whim {
    First,
    Second,
    Third,
}

fn whims() -> impl Strategy<Value = Vec<Whim>> {
    let whim = prop_oneof![Just(Whim::First), Just(Whim::Second), Just(Whim::Third)];
    proptest::collection::vec(whim, 20..120)
}

fn pick<T: Clone>(whim: Whim, all: [T; 3]) -> T {
    all[whim as usize].clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever agents, files and the person do, and however often the run is interrupted: the agent
    /// begins only with the content that was last looked at, and that a person approved.
    #[test]
    fn no_order_of_events_executes_what_nobody_approved(whims in whims()) {
        let (pack, config) = (pack("scenario", "en"), Config::default());
        let mut run = Run::new(&pack, &config);
        let (mut files, mut shown, mut approved, mut seen_last) = ("a", "", Vec::new(), "");
        for whim in whims {
            // The files may change at any time.
            files = pick(whim, [files, files, if files == "a" { "b" } else { "a" }]);
            match run.next() {
                Do::AskMain { check, .. } => match check {
                    true => run.decides("FINISH", ""),
                    false => run.decides(pick(whim, ["EXECUTE", "INIT", "FINISH"]), ""),
                },
                Do::RunAgent { stage, .. } if stage.name.as_str() == "EXECUTE" => {
                    prop_assert!(approved.contains(&seen_last), "{seen_last} was not approved");
                    match whim {
                        Whim::Third => run.take(Event::Resumed { limits: baton_core::event::Limits::of(500, 60), setup: None, adopted_rules: None, project: None, outputs: Vec::new() }),
                        Whim::Second => run.reports("FAIL", "\n- [parts] a tool is wrong"),
                        Whim::First => run.reports("PASS", "none"),
                    }
                    seen_last = "";
                }
                Do::RunAgent { .. } => run.reports(pick(whim, ["PASS", "PASS", "FAIL"]), pick(whim, ["none", "none", "\n- [design] wrong"])),
                Do::LookAtFiles { .. } => {
                    seen_last = files;
                    run.take(seen(files));
                    shown = files;
                    run.settle();
                }
                Do::Wait { question, .. } => {
                    let option = match question.options[0].option_id.as_str() {
                        "approve" => pick(whim, ["approve", "approve", "change"]),
                        _ => "go_on",
                    };
                    if option == "approve" {
                        // An answer replaces the one before.
                        approved = vec![shown];
                    }
                    run.take(answered(&run, option, "so"));
                    run.settle();
                }
                Do::StartEvaluation => {
                    prop_assert!(approved.contains(&seen_last));
                    run.take(Event::EvaluationStarted { number: 1 });
                }
                Do::Evaluate { .. } => {
                    run.take(Event::Evaluated(Box::new(evaluation(1, pick(whim, [24, 20, 9]), pick(whim, [0, 0, 9])))));
                    run.settle();
                }
                Do::Halt => break,
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}

#[test]
fn a_package_is_a_file_inside_the_project() {
    let policy = pack("scenario", "en").policy;
    assert_eq!(
        policy.approval.as_ref().map(|own| own.package.as_str()),
        Some("scenarios/{scenario}/init_to_execute.json"),
        "also where a policy of an older pack says nothing of it"
    );
    let text = policy.render();
    let with = |section: &str, package: &str| {
        let mut policy: serde_json::Value = serde_json::from_str(&text).unwrap();
        policy[section]["package"] = package.into();
        let document = baton_core::document::Document::json(&policy.to_string()).unwrap();
        baton_core::policy::Policy::read(&document)
    };
    assert!(with("approval", "handed/over.json").is_ok());
    assert!(with("evaluation", "back.json").is_ok());
    let wrong = ["", " ", "/etc/motd", "../x.json", "a/../../x", "scenarios/", "./x", "a//b", "."];
    for package in wrong {
        for section in ["approval", "evaluation"] {
            let problems = with(section, package).expect_err(package);
            let at = format!("{section}.package");
            assert!(problems.iter().any(|own| own.to_string().contains(&at)), "{problems:?}");
        }
    }
    assert!(with("evaluation", "a/b.json").is_err(), "its folder is the evaluation's");
}
