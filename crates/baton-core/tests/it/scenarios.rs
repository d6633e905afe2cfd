//! Scenarios: what their files may say, how a conversation goes, what assertions mean, what is counted.

use std::collections::BTreeSet;

use baton_core::handoff::make::{self, Severity};
use baton_core::id::{Timestamp, Tokens};
use baton_core::message::{self, Answer, Part, Stop, ToolCall, Usage};
use baton_core::scenario::check::{self, Scene, is_same};
use baton_core::scenario::count::{self, Tally};
use baton_core::scenario::judge;
use baton_core::scenario::parts::{self, Said, Sample};
use baton_core::scenario::result::{Attribution, Call, Evaluation, Fault, Hashes, Speaker, Status};
use baton_core::scenario::talk::{Next, Stage, Step, Talk, Voice};
use baton_core::turn::Protocol;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

const TOOLS: &str = r#"{"tools":[
  {"name":"get","description":"reads","parameters":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]},"command":["python3","t.py"],"stays":true},
  {"name":"set","description":"writes","parameters":{"type":"object","properties":{"days":{"type":"number"}}},"command":["python3","t.py"]}]}"#;

#[test]
fn a_manifest_of_tools_says_what_is_wrong_with_it() {
    let tools = parts::tools(TOOLS).unwrap();
    assert_eq!(tools.len(), 2);
    assert!(tools[0].program.stays && !tools[1].program.stays);
    assert_eq!(tools[1].program.timeout, 10);
    for (wrong, code) in [
        (
            r#"{"tools":[{"name":"a b","description":"","parameters":{},"command":["x"]}]}"#,
            "tool-name",
        ),
        (
            r#"{"tools":[{"name":"Finish","description":"","parameters":{},"command":["x"]}]}"#,
            "tool-name",
        ),
        (
            r#"{"tools":[{"name":"a","description":"","parameters":{},"command":[]}]}"#,
            "command-empty",
        ),
        (
            r#"{"tools":[{"name":"a","description":"","parameters":{},"command":["x"],"timeout":0}]}"#,
            "command-timeout",
        ),
        (
            r#"{"tools":[{"name":"a","description":"","parameters":{"type":"array"},"command":["x"]}]}"#,
            "tool-parameters",
        ),
        (
            r#"{"tools":[{"name":"a","description":"","parameters":{},"comand":["x"]}]}"#,
            "key-unknown",
        ),
        (
            r#"{"tools":[{"name":"a","description":"","parameters":{},"command":["x"]},{"name":"a","description":"","parameters":{},"command":["x"]}]}"#,
            "tool-duplicate",
        ),
        ("{", "json-syntax"),
    ] {
        let problems = parts::tools(wrong).unwrap_err();
        if code != "json-syntax" {
            assert_eq!(problems[0].code, code, "{wrong}: {problems:?}");
        }
        assert!(problems[0].place.is_some(), "{problems:?}");
    }
}

#[test]
fn a_checker_judges_in_exactly_one_way() {
    let checker = |rest: &str| format!(r#"{{"checkers":[{{"name":"c",{rest}}}]}}"#);
    for good in [
        r#""rubric":"be polite""#,
        r#""command":["x"]"#,
        r#""assert":[{"exists":{"path":"/a"}}]"#,
        r#""assert":[{"count":{"path":"/a","least":1,"most":2}}]"#,
    ] {
        assert!(parts::checkers(&checker(good)).is_ok(), "{good}");
    }
    for (wrong, code) in [
        (r#""description":"none""#, "checker-kind"),
        (r#""rubric":"a","command":["x"]"#, "checker-kind"),
        (r#""rubric":" ""#, "checker-kind"),
        (r#""assert":[]"#, "assertion-empty"),
        (r#""assert":[{}]"#, "assertion-kind"),
        (r#""assert":[{"exists":{"path":"/a"},"absent":{"path":"/a"}}]"#, "assertion-kind"),
        (r#""assert":[{"exists":{"path":"a"}}]"#, "assertion-path"),
        (r#""assert":[{"count":{"path":"/a"}}]"#, "assertion-count"),
        (r#""assert":[{"count":{"path":"/a","is":1,"most":2}}]"#, "assertion-count"),
        (r#""assert":[{"equals":{"path":"/a","value":1,"tolerance":-1}}]"#, "assertion-tolerance"),
        (r#""assert":[{"equal":{"path":"/a","value":1}}]"#, "key-unknown"),
    ] {
        let problems = parts::checkers(&checker(wrong)).unwrap_err();
        assert_eq!(problems[0].code, code, "{wrong}: {problems:?}");
    }
}

fn read(text: &str) -> Result<Sample, String> {
    let names = BTreeSet::from(["c", "d"]);
    parts::sample(text, &names).map_err(|problems| problems[0].code.to_owned())
}

#[test]
fn a_sample_is_refused_with_its_reason() {
    let good = r#"{"sample_id":"S1","user":{"turns":["hi"]},"checkers":["c"],"own":{"kept":1}}"#;
    assert_eq!(read(good).unwrap().sample_id, "S1");
    for (wrong, code) in [
        (r#"{"sample_id":"../x","user":{"turns":["hi"]},"checkers":["c"]}"#, "sample-id"),
        (r#"{"sample_id":".x","user":{"turns":["hi"]},"checkers":["c"]}"#, "sample-id"),
        (r#"{"sample_id":"S","user":{},"checkers":["c"]}"#, "sample-user"),
        (r#"{"sample_id":"S","user":{"turns":[]},"checkers":["c"]}"#, "sample-turns"),
        (r#"{"sample_id":"S","user":{"turns":["hi"," "]},"checkers":["c"]}"#, "sample-turns"),
        (r#"{"sample_id":"S","user":{"turns":["hi"]},"checkers":[]}"#, "sample-checkers"),
        (r#"{"sample_id":"S","user":{"turns":["hi"]},"checkers":["e"]}"#, "checker-unknown"),
        (r#"{"sample_id":"S","user":{"turns":["hi"]},"checkers":["c","c"]}"#, "checker-duplicate"),
        (
            r#"{"sample_id":"S","user":{"turns":["hi"]},"checkers":["c"],"initial_state":[]}"#,
            "value-type",
        ),
    ] {
        assert_eq!(read(wrong), Err(code.to_owned()), "{wrong}");
    }
}

#[test]
fn a_design_gives_the_target_its_instructions_and_a_bomb_is_an_error() {
    let design = "name: leave\ntarget:\n  instructions: Be brief.\n  max_steps: 5\nrules: [a, b]\n";
    let target = parts::design(design).unwrap();
    assert_eq!((target.instructions.as_str(), target.max_steps), ("Be brief.", 5));
    assert_eq!(parts::design("name: x\n").unwrap().max_steps, 30);
    assert!(parts::design("target:\n  max_steps: 0\n").is_err());
    assert!(parts::design("- a\n- b\n").is_err());
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for number in 1..12 {
        let before = vec![format!("*a{}", number - 1); 10].join(", ");
        bomb.push_str(&format!("a{number}: &a{number} [{before}]\n"));
    }
    let problem = parts::design(&bomb).unwrap_err();
    assert_eq!(problem.code, "design-unreadable", "{problem}");
}

fn stage(protocol: Protocol) -> Stage {
    let voice =
        Voice { model: "m".to_owned(), max_output: Tokens(100), temperature: None, protocol };
    let target = parts::Target { instructions: "Be brief.".to_owned(), max_steps: 4 };
    Stage::new(voice, &target, "# Rules", parts::tools(TOOLS).unwrap(), "k".to_owned())
}

fn answer(parts: Vec<Part>) -> Step {
    let stop = match parts.iter().any(|part| matches!(part, Part::ToolCall(_))) {
        true => Stop::ToolCalls,
        false => Stop::End,
    };
    Step::Answered(Box::new(Answer {
        id: String::new(),
        model: String::new(),
        parts,
        broken_calls: Vec::new(),
        stop,
        usage: Usage { input: Some(Tokens(10)), output: Some(Tokens(1)), ..Usage::default() },
    }))
}

fn says(text: &str) -> Step {
    answer(vec![Part::Text { text: text.to_owned() }])
}

fn calls(id: &str, name: &str, arguments: Value) -> Part {
    Part::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: map(arguments) })
}

fn sample(turns: &[&str]) -> Sample {
    let text = json!({"sample_id": "S1", "user": {"turns": turns}, "checkers": ["c"],
        "initial_state": {"balance": 10}});
    read(&text.to_string()).unwrap()
}

#[test]
fn a_conversation_goes_from_the_user_to_the_target_to_the_tools_and_back() {
    let stage = stage(Protocol::Native);
    let mut talk = Talk::begin(&sample(&["three days", "thanks"]));
    let Next::Target(request) = talk.next(&stage) else { panic!() };
    assert_eq!(request.tools.len(), 2);
    assert_eq!(request.system, ["Be brief.\n\n# Rules"]);
    talk.take(
        &stage,
        answer(vec![
            calls("x9", "nothing", json!({})),
            calls("x8", "get", json!({})),
            calls("x7", "set", json!({"days": "three"})),
            calls("x6", "set", json!({"days": 3})),
        ]),
    );
    // An unknown tool, a missing argument and a wrong type are answered without a program.
    let Next::Tool { tool: 1, line } = talk.next(&stage) else { panic!() };
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line, json!({"tool": "set", "arguments": {"days": 3}, "state": {"balance": 10}}));
    let state = Some(map(json!({"balance": 7})));
    talk.take(&stage, Step::Said(Said::Result { result: json!("ok"), state }));
    let Next::Target(request) = talk.next(&stage) else { panic!() };
    message::check(&request.messages).unwrap();
    assert_eq!(request.messages.len(), 3);
    talk.take(&stage, says("done"));
    assert_eq!(talk.turns(), 2);
    talk.take(&stage, says("bye"));
    assert_eq!(talk.next(&stage), Next::Done);
    assert_eq!(talk.ended(), None);
    assert_eq!(Value::Object(talk.state().clone()), json!({"balance": 7}));
    let errors: Vec<bool> = talk.calls().iter().map(|own| own.is_error).collect();
    assert_eq!(errors, [true, true, true, false]);
    let trace = talk.into_trace();
    assert_eq!(trace.states.len(), 2);
    assert_eq!(trace.usage.input, Some(Tokens(30)));
    let asked: Vec<&str> =
        trace.conversation_history[1].tool_calls.iter().map(|own| own.id.as_str()).collect();
    assert_eq!(asked, ["c1", "c2", "c3", "c4"]);
    let answered: Vec<String> =
        trace.conversation_history.iter().filter_map(|own| own.tool_call_id.clone()).collect();
    assert_eq!(answered, ["c1", "c2", "c3", "c4"]);
}

#[test]
fn a_target_that_comes_to_no_end_is_stopped_and_said() {
    let stage = stage(Protocol::Native);
    let mut talk = Talk::begin(&sample(&["go"]));
    for number in 0..4 {
        let Next::Target(_) = talk.next(&stage) else { panic!("{number}") };
        talk.take(&stage, answer(vec![calls(&format!("i{number}"), "get", json!({"id": "E1"}))]));
        talk.take(&stage, Step::Said(Said::Refused("no".to_owned())));
    }
    assert_eq!(talk.next(&stage), Next::Done);
    assert!(talk.ended().unwrap().contains("4 times"));
    let mut talk = Talk::begin(&sample(&["go"]));
    for _ in 0..3 {
        talk.take(&stage, says(" "));
    }
    assert_eq!(talk.next(&stage), Next::Done);
    assert!(talk.ended().unwrap().contains("nobody understands"));
}

#[test]
fn a_target_may_write_its_calls_as_json() {
    let stage = stage(Protocol::Json);
    let mut talk = Talk::begin(&sample(&["three days"]));
    let Next::Target(request) = talk.next(&stage) else { panic!() };
    assert!(request.tools.is_empty() && request.format.is_some());
    assert!(request.system[0].contains("get(id: string)"));
    talk.take(&stage, says(r#"{"thought":"","tool":"get","arguments":{"id":"E1"}}"#));
    let Next::Tool { tool: 0, .. } = talk.next(&stage) else { panic!() };
    talk.take(&stage, Step::Said(Said::Result { result: json!(1), state: None }));
    let Next::Target(request) = talk.next(&stage) else { panic!() };
    message::check(&request.messages).unwrap();
    talk.take(&stage, says(r#"{"thought":"","tool":"Finish","arguments":{"answer":"All done."}}"#));
    assert_eq!(talk.next(&stage), Next::Done);
    let last = talk.history().last().unwrap();
    assert_eq!((last.role, last.content.as_str()), (Speaker::Assistant, Some("All done.")));
}

#[test]
fn a_played_user_speaks_until_it_is_done_or_its_turns_are_over() {
    let text = json!({"sample_id": "S1", "checkers": ["c"], "user": {"simulated": {
        "persona": "p", "goal": "g", "opening": "hello", "most_turns": 2}}});
    let stage = stage(Protocol::Native);
    let mut talk = Talk::begin(&read(&text.to_string()).unwrap());
    talk.take(&stage, says("hi"));
    assert_eq!(talk.next(&stage), Next::User);
    assert!(judge::user(&talk).is_some());
    talk.take(&stage, Step::Spoke(Some("more".to_owned())));
    talk.take(&stage, says("ok"));
    assert_eq!((talk.next(&stage), talk.turns()), (Next::Done, 2));
    assert_eq!(judge::user_said(r#"{"message":"x","done":true}"#), Ok(None));
    assert_eq!(judge::user_said(r#"{"message":"x","done":false}"#), Ok(Some("x".to_owned())));
    assert!(judge::user_said(r#"{"message":" ","done":false}"#).is_err());
}

fn checked(assertion: &Value, state: &Value, made: &[Call]) -> Result<(bool, String), String> {
    let text = json!({"checkers": [{"name": "c", "assert": [assertion]}]}).to_string();
    let checkers = parts::checkers(&text).unwrap();
    let parts::By::Assertions(all) = &checkers[0].by else { panic!() };
    let values = map(json!({"employee": "a/b~c", "after": 7.0, "tool": "get", "list": []}));
    let scene = Scene { values: &values, state, calls: made, turns: 2 };
    check::run("c", all, &scene)
        .map(|own| (own.passed, own.reason))
        .map_err(|fault: Fault| fault.message)
}

fn call(turn: u32, name: &str, arguments: Value, is_error: bool) -> Call {
    Call { turn, name: name.to_owned(), arguments: map(arguments), result: json!(null), is_error }
}

#[test]
fn assertions_say_what_was_expected_and_what_was_found() {
    let state = json!({"employees": {"a/b~c": {"leave_balance": 10.0}}, "applications": [1, 2]});
    let made = [
        call(1, "get", json!({"id": "E1", "deep": {"a": 1, "b": 2}}), false),
        call(1, "set", json!({"days": 3}), true),
        call(2, "set", json!({"days": 2}), false),
    ];
    let path = "/employees/{employee}/leave_balance";
    let all = [
        (
            json!({"equals": {"path": path, "value": "{after}"}}),
            "expected 7.0, found 10.0 at /employees/a~1b~0c/leave_balance",
        ),
        (json!({"equals": {"path": path, "value": 9.995, "tolerance": 0.01}}), ""),
        (json!({"equals": {"path": path, "value": 10}}), ""),
        (
            json!({"equals": {"path": "/none", "value": 1, "tolerance": 0.5}}),
            "expected 1 (within 0.5), found nothing at /none",
        ),
        (json!({"exists": {"path": "/applications/1"}}), ""),
        (
            json!({"exists": {"path": "/applications/2"}}),
            "expected something at /applications/2, found nothing",
        ),
        (
            json!({"absent": {"path": "/applications"}}),
            "expected nothing at /applications, found [1,2]",
        ),
        (json!({"count": {"path": "/applications", "is": 2}}), ""),
        (
            json!({"count": {"path": "/applications", "is": 1}}),
            "expected 1 entries at /applications, found 2",
        ),
        (json!({"count": {"path": "/none", "most": 0}}), ""),
        (
            json!({"count": {"path": path, "least": 1}}),
            "expected at least 1 entries at /employees/a~1b~0c/leave_balance, found 10.0",
        ),
        (json!({"called": {"tool": "{tool}", "arguments": {"deep": {"a": 1}}}}), ""),
        (
            json!({"called": {"tool": "set", "arguments": {"days": 3}}}),
            "expected a call of `set` with {\"days\":3}, found one with {\"days\":2}",
        ),
        (json!({"called": {"tool": "set", "times": 1}}), ""),
        (json!({"called": {"tool": "none"}}), "expected a call of `none`, found none"),
        (json!({"not_called": {"tool": "set"}}), "expected no call of `set`, found 1"),
        (json!({"not_called": {"tool": "set", "arguments": {"days": 9}}}), ""),
        (json!({"called_before": {"first": "get", "then": "set"}}), ""),
        (
            json!({"called_before": {"first": "set", "then": "get"}}),
            "expected `set` before `get`, found it after",
        ),
        (
            json!({"called_before": {"first": "get", "then": "none"}}),
            "expected `none` after `get`, found no call of `none`",
        ),
    ];
    for (assertion, wrong) in all {
        let (passed, reason) = checked(&assertion, &state, &made).unwrap();
        assert_eq!(passed, wrong.is_empty(), "{assertion}: {reason}");
        assert!(passed || reason == wrong, "{assertion}: {reason}");
    }
    // A call that was refused gave nothing: it comes before nothing.
    let mut refused = made.to_vec();
    refused.iter_mut().filter(|own| own.name == "get").for_each(|own| own.is_error = true);
    let before = json!({"called_before": {"first": "get", "then": "set"}});
    let (passed, reason) = checked(&before, &state, &refused).unwrap();
    assert!(!passed && reason.contains("found no call of `get`"), "{reason}");
}

#[test]
fn a_value_that_the_sample_does_not_give_is_no_failure_of_the_target() {
    for assertion in [
        json!({"equals": {"path": "/{missing}", "value": 1}}),
        json!({"equals": {"path": "/a", "value": "{missing}"}}),
        json!({"equals": {"path": "/{list}", "value": 1}}),
        json!({"called": {"tool": "x", "arguments": {"a": ["{missing}"]}}}),
    ] {
        assert!(checked(&assertion, &json!({}), &[]).is_err(), "{assertion}");
    }
    // Braces that are no name are only text.
    let (passed, _) =
        checked(&json!({"equals": {"path": "/a", "value": "{ x }"}}), &json!({"a": "{ x }"}), &[])
            .unwrap();
    assert!(passed);
}

proptest! {
    #[test]
    fn equal_within_a_tolerance_goes_both_ways(a in -1e9..1e9f64, b in -1e9..1e9f64, near in 0.0..1e6f64) {
        let (one, two) = (json!([a, {"x": a}]), json!([b, {"x": b}]));
        prop_assert_eq!(is_same(&one, &two, near), is_same(&two, &one, near));
        prop_assert!(is_same(&one, &one, 0.0));
        if (a - b).abs() > near + near.max(1.0) * 1e-3 + 1e-3 * a.abs().max(b.abs()) {
            prop_assert!(!is_same(&one, &two, near));
        }
    }

    #[test]
    fn any_line_of_a_program_is_an_answer_or_an_error(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parts::tool_said(&line);
        let _ = judge::verdict("c", &String::from_utf8_lossy(&line));
    }

    #[test]
    fn whatever_a_target_does_its_messages_can_be_sent(steps in proptest::collection::vec(0..7u8, 0..30)) {
        let stage = stage(Protocol::Native);
        let mut talk = Talk::begin(&sample(&["a", "b", "c"]));
        for (at, step) in steps.into_iter().enumerate() {
            match talk.next(&stage) {
                Next::Done => break,
                Next::Target(request) => {
                    message::check(&request.messages).unwrap();
                    let id = format!("i{at}");
                    talk.take(&stage, match step {
                        0 => says("fine"),
                        1 => says(""),
                        2 => answer(vec![calls(&id, "get", json!({"id": "x"}))]),
                        3 => answer(vec![calls(&id, "none", json!({}))]),
                        4 => answer(vec![calls(&id, "get", json!({})), calls(&format!("{id}b"), "set", json!({}))]),
                        5 => answer(Vec::new()),
                        _ => answer(vec![Part::Text { text: "and".to_owned() }, calls(&id, "set", json!({"days": 1}))]),
                    });
                }
                Next::Tool { .. } => talk.take(&stage, Step::Said(match step {
                    0..4 => Said::Refused("no".to_owned()),
                    _ => Said::Result { result: json!(at), state: Some(map(json!({"n": at}))) },
                })),
                Next::User => unreachable!(),
            }
        }
        let trace = talk.into_trace();
        let asked: usize = trace.conversation_history.iter().map(|own| own.tool_calls.len()).sum();
        prop_assert!(trace.tool_calls.len() <= asked);
    }
}

fn tally(failed: usize, passed: usize) -> Tally {
    let mut tally = Tally::default();
    for number in 0..failed + passed {
        let id = format!("S{number:05}");
        let holds = number >= failed;
        let own = baton_core::scenario::result::Checked {
            name: format!("c{}", number % 3),
            passed: holds,
            reason: "r".to_owned(),
            turns: Vec::new(),
        };
        let own = Evaluation::of_checkers(&id, 2, vec![own]);
        assert_eq!(own.status == Status::Passed, holds);
        tally.add(&own);
    }
    tally.add(&Evaluation::of_fault("E1", 0, Fault::new("tool-timeout", "slow")));
    tally
}

#[test]
fn what_can_be_counted_is_counted_and_an_error_is_neither_passed_nor_failed() {
    let mut tally = tally(9, 17);
    tally.attribute(&Attribution {
        sample_id: "S00000".to_owned(),
        layer: Some(1),
        failure_type: "Layer1_BusinessRule".to_owned(),
        cause: "unclear".to_owned(),
        evidence: String::new(),
        suggestion: String::new(),
        usage: None,
    });
    let groups = tally.groups();
    assert_eq!(groups.iter().map(|own| own.samples.len()).collect::<Vec<_>>(), [3, 3, 2, 1]);
    let answer = json!({"problems": [
        {"problem_id": "L1P_002", "severity": "high", "title": "b", "affected_groups": ["G2", "G3", "G4"], "affected_samples": []},
        {"problem_id": "L1P_001", "severity": "critical", "title": "a", "affected_groups": ["G1"], "affected_samples": ["S00000"], "typical_case_id": "S00000"}]});
    let problems = judge::reported(&answer.to_string(), &groups).unwrap();
    let report = tally.report(3, Timestamp(0), count::expanded(problems, &groups));
    let order: Vec<_> = report.ordered().into_iter().map(|own| own.problem_id.clone()).collect();
    assert_eq!(order, ["L1P_001", "L1P_002"]);
    assert_eq!(report.modification_priority[0].estimated_improvement.as_deref(), Some("+15%"));
    assert_eq!(report.layer1_problems[0].affected_count, Some(4));
    assert_eq!(report.failure_rate, Some(0.3333));
    assert_eq!(count::critical_share(&report), 0.4444);
    let hashes = |tools: &str, checkers: &str| Hashes {
        design: "d".to_owned(),
        tools: tools.to_owned(),
        checkers: checkers.to_owned(),
        samples: "s".to_owned(),
    };
    let so_far = [hashes("a", "a"), hashes("a", "b"), hashes("b", "c"), hashes("b", "c")];
    let iterations = count::iterations(&so_far);
    assert_eq!((iterations.total, iterations.layer2, iterations.layer3), (4, 1, 2));
    let summary = tally.summary(&iterations);
    assert_eq!((summary.total_samples, summary.failed_samples), (27, 9));
    assert_eq!((summary.passed_samples, summary.error_samples), (Some(17), Some(1)));
    assert_eq!(summary.final_quality, Some(0.6296));
    // And a package can be made of both, with the same quality.
    let ask = make::Ask { output_dir: "scenarios/x", now: Timestamp(0), reason: None };
    let package = make::package(&ask, &summary, &report).unwrap().package;
    let value = serde_json::to_value(&package).unwrap();
    assert_eq!(value["iteration_summary"]["final_quality"], json!(0.6296), "{value}");
}

#[test]
fn a_report_that_names_what_did_not_fail_is_refused_in_words() {
    let groups = tally(4, 2).groups();
    let problem = |rest: Value| {
        let mut own =
            json!({"problem_id": "P1", "severity": "low", "title": "t", "affected_groups": ["G1"]});
        own.as_object_mut().unwrap().extend(map(rest));
        json!({"problems": [own]}).to_string()
    };
    assert!(judge::reported(&problem(json!({})), &groups).is_ok());
    for (rest, wrong) in [
        (json!({"affected_samples": ["S00005"]}), "did not fail"),
        (json!({"typical_case_id": "E1"}), "did not fail"),
        (json!({"affected_groups": ["G9"]}), "no group"),
        (json!({"affected_groups": []}), "neither groups nor samples"),
        (json!({"title": " "}), "title"),
        (json!({"severity": "fatal"}), "is not known here"),
        (json!({"problem_id": "a b"}), "problem_id"),
    ] {
        let why = judge::reported(&problem(rest.clone()), &groups).unwrap_err();
        assert!(why.contains(wrong), "{rest}: {why}");
    }
    assert!(judge::reported(r#"{"problems":[]}"#, &groups).is_err());
    assert!(judge::reported("nonsense", &groups).is_err());
}

#[test]
fn the_question_for_a_report_does_not_grow_with_the_failures() {
    let voice = Voice {
        model: "m".to_owned(),
        max_output: Tokens(1),
        temperature: None,
        protocol: Protocol::Native,
    };
    let size = |failed: usize| {
        let mut tally = tally(failed, 0);
        for number in 0..failed {
            tally.attribute(&Attribution {
                sample_id: format!("S{number:05}"),
                layer: Some(1),
                failure_type: format!("Layer1_T{}", number % 997),
                cause: format!("cause {number} {}", "x".repeat(1_000)),
                evidence: String::new(),
                suggestion: String::new(),
                usage: None,
            });
        }
        let groups = tally.groups();
        assert_eq!(groups.iter().map(|own| own.samples.len()).sum::<usize>(), failed);
        let figures = judge::Figures {
            iteration: 1,
            total: failed as u64,
            failed: failed as u64,
            rules: "r",
            earlier: &[],
        };
        let request = judge::report(&figures, &groups).request(&voice, None);
        baton_core::tokens::count(&serde_json::to_string(&request).unwrap()).0
    };
    let (some, many) = (size(1_000), size(10_000));
    assert!(many < 20_000 && many < some * 2, "{some} {many}");
}

#[test]
fn problems_made_by_code_say_so_and_keep_their_ids() {
    let groups = tally(9, 20).groups();
    let earlier = [
        ("L1P_007".to_owned(), "c1 failed (Unattributed)".to_owned()),
        ("L1P_001".to_owned(), "old".to_owned()),
    ];
    let problems = count::by_code(&groups, 30, &earlier);
    let ids: Vec<&str> = problems.iter().map(|own| own.problem_id.as_str()).collect();
    assert_eq!(ids, ["L1P_002", "L1P_007", "L1P_003"]);
    assert!(problems.iter().all(|own| own.problem_type.as_deref() == Some(count::BY_CODE)));
    assert_eq!(problems[0].severity, Severity::Medium);
}

#[test]
fn an_attribution_must_fit_its_layer() {
    let good = json!({"layer": 2, "failure_type": "Layer2_Tool", "cause": "c", "evidence": "", "suggestion": ""});
    assert!(judge::attributed("S", &good.to_string()).is_ok());
    assert!(judge::attributed("S", &format!("```json\n{good}\n```")).is_ok());
    for (name, value) in [
        ("layer", json!(5)),
        ("failure_type", json!("Layer1_Tool")),
        ("failure_type", json!("Layer2_")),
        ("cause", json!("")),
    ] {
        let mut wrong = good.clone();
        wrong[name] = value;
        assert!(judge::attributed("S", &wrong.to_string()).is_err(), "{wrong}");
    }
}
