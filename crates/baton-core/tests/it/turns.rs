//! The agent's loop: protocols, limits, what the model sees, and that a conversation read back from
//! its steps is the same.

use baton_core::id::{ObservationId, Tokens};
use baton_core::message::{self, Answer, BrokenCall, Part, Request, Stop, Tool, ToolCall, Usage};
use baton_core::observation::{Envelope, Status};
use baton_core::turn::{
    Conversation, Do, Ending, Layers, Limits, MALFORMED, Observed, Offered, Protocol, REPEATED,
    Room, Step,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn offered() -> Vec<Offered> {
    let tool = |name: &str, only_reads: bool| Offered {
        tool: Tool {
            name: name.to_owned(),
            description: format!("{name} does it."),
            schema: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
        },
        only_reads,
    };
    vec![tool("Read", true), tool("Grep", true), tool("Bash", false), tool("TodoWrite", true)]
}

fn conversation(protocol: Protocol) -> Conversation {
    Conversation::new(protocol, offered(), Limits { steps: 50, tokens: None }, Room::default())
}

fn layers() -> Layers {
    Layers {
        facts: String::new(),
        model: "m".to_owned(),
        max_output: Tokens(100),
        cache_key: "k".to_owned(),
        system: "You are careful.".to_owned(),
        rules: String::new(),
    }
}

fn answer(parts: Vec<Part>, stop: Stop) -> Step {
    let (id, model) = ("a".to_owned(), "m".to_owned());
    let usage = Usage { input: Some(Tokens(10)), output: Some(Tokens(1)), ..Usage::default() };
    let answer = Answer { id, model, parts, broken_calls: Vec::new(), stop, usage };
    Step::Answered { answer: Box::new(answer) }
}

fn says(text: &str) -> Step {
    answer(vec![Part::Text { text: text.to_owned() }], Stop::End)
}

fn part(id: &str, name: &str) -> Part {
    let arguments = json!({ "path": "a" }).as_object().unwrap().clone();
    Part::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments })
}

fn asked(text: &str) -> Step {
    Step::Asked { text: text.to_owned(), at: None }
}

fn observed(id: u32, call: &str, tool: &str, data: Value) -> Step {
    let envelope = Envelope::new(Status::Success, &data);
    let (call, tool) = (call.to_owned(), tool.to_owned());
    let id = ObservationId(id);
    Step::Observed(Box::new(Observed { id, call, tool, envelope, is_malformed: false }))
}

fn apply(conversation: &mut Conversation, steps: &[Step]) {
    for step in steps {
        conversation.apply(step).unwrap();
    }
}

#[test]
fn reading_calls_go_together_and_an_act_waits_for_its_turn() {
    let mut own = conversation(Protocol::Native);
    assert_eq!(own.next(), Do::Wait);
    let calls = vec![part("1", "Read"), part("2", "Grep"), part("3", "Bash"), part("4", "Read")];
    apply(&mut own, &[asked("Go."), answer(calls, Stop::ToolCalls)]);
    let ids = |next: Do| match next {
        Do::Read(calls) => calls.into_iter().map(|call| call.id).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(ids(own.next()), ["1", "2"]);
    // Results may come in any order.
    apply(&mut own, &[observed(2, "2", "Grep", json!({})), observed(1, "1", "Read", json!({}))]);
    assert!(matches!(own.next(), Do::Act(call) if call.id == "3"));
    apply(&mut own, &[Step::Started { call: "3".to_owned() }]);
    // Begun, and nothing heard of it: nobody knows.
    assert!(matches!(own.next(), Do::Settle(call) if call.id == "3"));
    apply(&mut own, &[observed(3, "3", "Bash", json!({}))]);
    assert_eq!(ids(own.next()), ["4"]);
    apply(&mut own, &[observed(4, "4", "Read", json!({}))]);
    assert_eq!(own.next(), Do::CallModel);
    apply(&mut own, &[says("Done.")]);
    assert_eq!(own.next(), Do::End(Ending::Done("Done.".to_owned())));
}

#[test]
fn steps_that_do_not_fit_are_refused_and_change_nothing() {
    let all = [
        asked("Go."),
        says("Done."),
        Step::Started { call: "1".to_owned() },
        observed(1, "1", "Bash", json!({})),
        Step::Stopped { why: "enough".to_owned(), is_late: false },
    ];
    let begun = |steps: &[Step]| {
        let mut own = conversation(Protocol::Native);
        apply(&mut own, steps);
        own
    };
    let act = answer(vec![part("1", "Bash")], Stop::ToolCalls);
    // Where it stands, and which of the steps above fit.
    let states = [
        (begun(&[]), [true, false, false, false, true]),
        (begun(&[asked("x")]), [false, true, false, false, true]),
        (begun(&[asked("x"), act.clone()]), [false, false, true, true, true]),
        (
            begun(&[asked("x"), act.clone(), Step::Started { call: "1".to_owned() }]),
            [false, false, false, true, true],
        ),
        (begun(&[asked("x"), says("y")]), [true, false, false, false, false]),
    ];
    for (number, (state, expected)) in states.iter().enumerate() {
        for (step, fits) in all.iter().zip(expected) {
            let mut own = state.clone();
            assert_eq!(own.apply(step).is_ok(), *fits, "state {number}: {step:?}");
            if !fits {
                assert_eq!((own.next(), own.messages()), (state.next(), state.messages()));
            }
        }
    }
}

#[test]
fn what_can_be_understood_runs_and_what_cannot_does_not() {
    // Said, the call it makes or its last words, or a piece of the complaint.
    let react = [
        ("Thought: x\nAction: Read[{\"path\": \"a]b\"}]", "Read"),
        ("Action: Read[{\"path\": \"多\\n行\"}]\nObservation: {}\nAction: Bash[{}]", "Read"),
        ("Action: Read[\n{\"path\": \"a\"}\n]", "Read"),
        ("  Action:  Grep [ {} ]", "Grep"),
        ("Action: Finish[all [is] done]", "=all [is] done"),
        ("Action: Finish[完成]\nObservation: invented", "=完成"),
        ("Thought: I am done.", "!there is no action"),
        ("The Action: Read[{}] is mine", "!there is no action"),
        ("Action: Read", "!the action has no `[`"),
        ("Action: Read[{\"path\": \"a\"", "!the arguments are not JSON"),
        ("Action: Read[{\"path\": \"a\"}", "!there must be a `]`"),
        ("Action: Read[{\"path\": \"a\", \"path\": \"b\"}]", "!is there twice"),
        ("Action: Read[\"a\"]", "!not a JSON object"),
        ("Action: [{}]", "!is no name of a tool"),
        ("Action: rm -rf[{}]", "!is no name of a tool"),
        ("Action: Finish[never closed", "!no closing"),
        ("", "!there is no action"),
    ];
    let json = [
        (r#"{"thought": "x", "tool": "Read", "arguments": {"path": "a"}}"#, "Read"),
        ("```json\n{\"tool\": \"Grep\", \"arguments\": {}}\n```", "Grep"),
        (r#"{"tool": "Finish", "arguments": {"answer": "完成"}}"#, "=完成"),
        (r#"{"tool": "Finish", "arguments": {}}"#, "!`Finish` needs"),
        (r#"{"tool": "Read", "arguments": {"path": "a""#, "!not one JSON object"),
        (r#"{"tool": "Read", "arguments": "a"}"#, "!not an object"),
        (r#"{"arguments": {}}"#, "!has no `tool`"),
        (r#"{"tool": "Read", "tool": "Bash", "arguments": {}}"#, "!is there twice"),
        (r#"{"tool": "Read", "arguments": {"path": "a", "path": "b"}}"#, "!is there twice"),
        (r#"[1]"#, "!has no `tool`"),
        ("Sure: {}", "!not one JSON object"),
        (r#"{"tool": "Read", "arguments": {}} {"tool": "Bash", "arguments": {}}"#, "!not one JSON"),
    ];
    let both = [(Protocol::React, &react[..]), (Protocol::Json, &json[..])];
    for (protocol, cases) in both {
        for (said, expected) in cases {
            let mut own = conversation(protocol);
            apply(&mut own, &[asked("Go."), says(said)]);
            match (own.next(), expected.split_at(1)) {
                (Do::End(Ending::Done(words)), ("=", wanted)) => {
                    assert_eq!(words, wanted, "{said}");
                }
                (Do::CallModel, ("!", wanted)) => {
                    let told = format!("{:?}", own.messages().last().unwrap());
                    assert!(told.contains(wanted), "{said}: {told}");
                }
                (Do::Read(calls), _) => assert_eq!(calls[0].name, *expected, "{said}"),
                (next, _) => panic!("{said}: {next:?}, not {expected}"),
            }
            if own.next() == Do::CallModel {
                message::check(&request(&own).messages).unwrap();
            }
        }
    }
}

fn request(own: &Conversation) -> Request {
    own.request(&layers())
}

#[test]
fn half_of_an_answer_is_never_an_action() {
    let cut = |text: &str| answer(vec![Part::Text { text: text.to_owned() }], Stop::MaxTokens);
    for (protocol, said) in [
        (Protocol::React, "Action: Bash[{\"path\": \"a\"}]"),
        (Protocol::Json, r#"{"tool": "Bash", "arguments": {"path": "a"}}"#),
        (Protocol::Native, "I was about to"),
    ] {
        let mut own = conversation(protocol);
        apply(&mut own, &[asked("Go."), cut(said)]);
        assert_eq!(own.next(), Do::CallModel, "{protocol:?}");
        assert!(format!("{:?}", own.messages()).contains("cut off"), "{protocol:?}");
    }
}

#[test]
fn malformed_actions_end_the_turn_when_they_are_too_many_in_a_row() {
    let mut own = conversation(Protocol::React);
    apply(&mut own, &[asked("Go.")]);
    for number in 1..=MALFORMED {
        assert_eq!(own.next(), Do::CallModel, "{number}");
        apply(&mut own, &[says("no action")]);
    }
    assert!(matches!(own.next(), Do::End(Ending::Failed(_))));
    // The next turn begins with a clean count.
    apply(&mut own, &[asked("Again."), says("no action")]);
    assert_eq!(own.next(), Do::CallModel);
    let refused = answer(Vec::new(), Stop::Refusal("no".to_owned()));
    apply(&mut own, &[refused]);
    assert!(matches!(own.next(), Do::End(Ending::Failed(why)) if why.contains("refused")));
}

#[test]
fn the_same_call_again_and_again_ends_the_turn() {
    let circle = |last: &str| {
        let mut own = conversation(Protocol::Native);
        apply(&mut own, &[asked("look")]);
        for n in 0..REPEATED {
            assert_eq!(own.next(), Do::CallModel, "{n}");
            let id = format!("c{n}");
            let data = if n + 1 == REPEATED { last } else { "nothing" };
            // A file that is written again and again has another time, and is the same.
            let result = observed(n + 1, &id, "Read", json!({ "content": data, "mtime": n }));
            apply(&mut own, &[answer(vec![part(&id, "Read")], Stop::ToolCalls), result]);
        }
        own
    };
    let Do::End(Ending::Failed(why)) = circle("nothing").next() else { panic!("it goes on") };
    assert!(why.contains("same call 20 times"), "{why}");
    assert_eq!(circle("something").next(), Do::CallModel, "another result is no circle");
    let mut own = circle("nothing");
    apply(&mut own, &[asked("and now?")]);
    assert_eq!(own.next(), Do::CallModel, "a person may go on");
}

#[test]
fn limits_are_looked_at_before_a_call_and_not_behind_it() {
    let limits = Limits { steps: 2, tokens: Some(20) };
    let mut own = Conversation::new(Protocol::Native, offered(), limits, Room::default());
    apply(&mut own, &[asked("Go.")]);
    assert_eq!(own.over_limit(5), None);
    assert!(own.over_limit(20).is_some());
    let read = |id: &str| answer(vec![part(id, "Read")], Stop::ToolCalls);
    apply(&mut own, &[read("1"), observed(1, "1", "Read", json!({}))]);
    assert_eq!(own.next(), Do::CallModel);
    apply(&mut own, &[read("2"), observed(2, "2", "Read", json!({}))]);
    assert!(matches!(own.next(), Do::End(Ending::Stopped(_))));
}

#[test]
fn a_turn_that_was_stopped_leaves_a_list_that_every_provider_takes() {
    let calls = vec![part("1", "Bash"), part("2", "Read")];
    let steps = [
        asked("Go."),
        answer(calls, Stop::ToolCalls),
        Step::Started { call: "1".to_owned() },
        Step::Stopped { why: "a person stopped it".to_owned(), is_late: false },
        asked("Go on."),
    ];
    let mut own = conversation(Protocol::Native);
    apply(&mut own, &steps);
    let messages = request(&own).messages;
    message::check(&messages).unwrap();
    let last = serde_json::to_string(messages.last().unwrap()).unwrap();
    assert_eq!(last.matches("STOPPED").count(), 2, "{last}");
    assert!(last.contains("Go on."), "{last}");
}

#[test]
fn the_recap_stands_behind_everything_and_goes_when_all_is_done() {
    let mut own = conversation(Protocol::Native);
    let todo = |id: u32, recap: &str| {
        let call = format!("t{id}");
        vec![
            answer(vec![part(&call, "TodoWrite")], Stop::ToolCalls),
            observed(id, &call, "TodoWrite", json!({ "todos": [], "recap": recap })),
        ]
    };
    apply(&mut own, &[asked("Go.")]);
    assert_eq!(request(&own).tail, None);
    apply(&mut own, &todo(1, "Todo, 0 of 1 done:\n- it"));
    assert_eq!(request(&own).tail.as_deref(), Some("Todo, 0 of 1 done:\n- it"));
    apply(&mut own, &todo(2, ""));
    assert_eq!(request(&own).tail, None);
}

/// What a model and its tools might do next.
fn any_step(own: &Conversation, choice: u8, number: u32) -> Step {
    let id = |offset: u32| format!("n{number}-{offset}");
    let long = json!({ "stdout": "line\n".repeat(usize::from(choice) * 3), "exit": 0 });
    match own.next() {
        Do::Fold(results) => Step::Folded { results },
        Do::Compact(_) => unreachable!("nothing here is so long"),
        Do::Wait | Do::End(_) => asked(&format!("turn {number}")),
        Do::CallModel => match choice % 6 {
            0 => says("Done."),
            1 => answer(vec![part(&id(0), "Bash")], Stop::ToolCalls),
            2 => answer(vec![part(&id(0), "Read"), part(&id(1), "Grep")], Stop::ToolCalls),
            3 => answer(vec![part(&id(0), "Read"), part(&id(1), "Bash")], Stop::ToolCalls),
            4 => Step::Stopped { why: "enough".to_owned(), is_late: false },
            _ => {
                let step = answer(vec![part(&id(0), "Read")], Stop::ToolCalls);
                let Step::Answered { mut answer } = step else { unreachable!() };
                let (name, arguments) = ("Bash".to_owned(), "{\"pa".to_owned());
                let why = "not JSON".to_owned();
                answer.broken_calls.push(BrokenCall { id: id(1), name, arguments, why });
                Step::Answered { answer }
            }
        },
        Do::Read(calls) => {
            observed(number, &calls[usize::from(choice) % calls.len()].id, "Read", long)
        }
        Do::Act(_) if choice.is_multiple_of(7) => {
            Step::Stopped { why: "enough".to_owned(), is_late: false }
        }
        Do::Act(call) => Step::Started { call: call.id },
        Do::Settle(call) => observed(number, &call.id, "Bash", long),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens: every provider takes the list, what was sent is the beginning of what is
    /// sent next, and a conversation folded from its steps is the same.
    #[test]
    fn any_conversation_can_be_sent_and_read_back(choices in prop::collection::vec(any::<u8>(), 1..60)) {
        let mut own = conversation(Protocol::Native);
        let mut steps = Vec::new();
        let mut before: Option<Request> = None;
        for (number, choice) in choices.iter().enumerate() {
            let step = any_step(&own, *choice, u32::try_from(number).unwrap() + 1);
            let text = serde_json::to_string(&step).unwrap();
            steps.push(serde_json::from_str::<Step>(&text).unwrap());
            own.apply(&step).unwrap();
            if own.next() == Do::CallModel {
                let request = request(&own);
                prop_assert!(message::check(&request.messages).is_ok(), "{:?}", request.messages);
                if let Some(before) = &before {
                    let kept = request.cached_messages;
                    prop_assert!(kept <= before.messages.len() && kept < request.messages.len());
                    prop_assert_eq!(&request.messages[..kept], &before.messages[..kept]);
                    prop_assert_eq!(&request.system, &before.system);
                }
                before = Some(request);
            }
        }
        let mut again = conversation(Protocol::Native);
        for step in &steps {
            again.apply(step).unwrap();
        }
        prop_assert_eq!(again.messages(), own.messages());
        prop_assert_eq!(again.next(), own.next());
    }

    /// No text makes a half action, and none panics.
    #[test]
    fn any_text_is_an_action_or_a_complaint(said in "\\PC{0,80}|(Action: ?)?[A-Za-z]{0,6}\\[?[{}\\[\\]\":a,1\\\\n ]{0,40}") {
        for protocol in [Protocol::React, Protocol::Json, Protocol::Native] {
            let mut own = conversation(protocol);
            apply(&mut own, &[asked("Go."), says(&said)]);
            if let Do::Read(calls) = own.next() {
                prop_assert!(said.contains(calls[0].name.as_str()));
            }
            if own.next() == Do::CallModel {
                prop_assert!(message::check(&request(&own).messages).is_ok());
            }
        }
    }
}

#[test]
fn a_correction_continues_the_turn_and_rewrites_nothing() {
    for protocol in [Protocol::Native, Protocol::Json, Protocol::React] {
        let mut own = conversation(protocol);
        let (call, done) = match protocol {
            Protocol::Native => (answer(vec![part("1", "Bash")], Stop::ToolCalls), says("wrong")),
            Protocol::Json => (
                says(r#"{"thought":"","tool":"Bash","arguments":{"path":"a"}}"#),
                says(r#"{"thought":"","tool":"Finish","arguments":{"answer":"wrong"}}"#),
            ),
            Protocol::React => {
                (says("Action: Bash[{\"path\":\"a\"}]"), says("Action: Finish[wrong]"))
            }
        };
        apply(&mut own, &[asked("Go."), call]);
        let Do::Act(call) = own.next() else { panic!("{protocol:?}: {:?}", own.next()) };
        let started = Step::Started { call: call.id.clone() };
        let data = json!({ "stdout": "a long output\n".repeat(400) });
        apply(&mut own, &[started, observed(1, &call.id, "Bash", data)]);
        let before = request(&own).messages;
        apply(&mut own, &[done]);
        assert_eq!(own.next(), Do::End(Ending::Done("wrong".to_owned())), "{protocol:?}");
        let corrected = Step::Corrected { number: 1, text: "The verdict is missing.".to_owned() };
        apply(&mut own, std::slice::from_ref(&corrected));
        assert_eq!((own.next(), own.corrected()), (Do::CallModel, 1));
        assert_eq!(own.usage, Usage::default(), "only new calls are counted");
        let after = request(&own).messages;
        assert_eq!(after[..before.len()], before, "{protocol:?}");
        assert_eq!(after.len(), before.len() + 2);
        let last = format!("{:?}", after.last());
        assert!(last.contains("The verdict is missing."), "{last}");
        // Inside of a call there is no place for one.
        let mut open = conversation(protocol);
        assert!(open.apply(&corrected).is_err());
    }
}
