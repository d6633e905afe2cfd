//! Each kind of answer on each wire, streamed and whole, and what goes out for it.

use baton_core::id::Tokens;
use baton_core::message::{Answer, Format, Message, Part, Role, Stop, ToolResult, Wire};
use baton_runtime::model::{Delta, Mode};
use serde_json::json;

use baton_testkit::{Server, ok};

use super::fixtures::{self, CASES, Case};
use super::{call, client, limits, request};

async fn answer(wire: Wire, case: Case, mode: Mode) -> (Answer, Vec<Delta>) {
    let body = match mode {
        Mode::Stream => fixtures::stream(wire, case),
        Mode::Whole => fixtures::whole(wire, case),
    };
    let server = Server::start(vec![ok(&body)]);
    let (answer, heard) = call(&client(wire, &server.url, limits()), &request(), mode).await;
    (answer.unwrap(), heard)
}

#[tokio::test]
async fn a_streamed_answer_is_the_whole_one() {
    for wire in Wire::ALL {
        for case in CASES {
            let (whole, heard) = answer(wire, case, Mode::Whole).await;
            assert_eq!(heard, []);
            let (mut streamed, heard) = answer(wire, case, Mode::Stream).await;
            if case == Case::CutCall && wire == Wire::Anthropic {
                // A cut call is in no whole answer of this provider; streamed, it is said.
                assert_eq!(streamed.broken_calls.len(), 1);
                streamed.broken_calls.clear();
            }
            assert_eq!(streamed, whole, "{wire:?} {case:?}");
            let text: String = heard
                .iter()
                .filter_map(|delta| match delta {
                    Delta::Text(text) => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            assert_eq!(text, whole.text(), "{wire:?} {case:?}");
        }
    }
}

#[tokio::test]
async fn every_wire_says_the_same() {
    for wire in Wire::ALL {
        let (text, _) = answer(wire, Case::Text, Mode::Stream).await;
        assert_eq!((text.text().as_str(), &text.stop), ("Hello, 世界!", &Stop::End), "{wire:?}");
        assert_eq!(text.usage.cache_read, Some(Tokens(4_000)));
        assert_eq!(text.usage.output, Some(Tokens(25)));
        let (input, written) =
            if wire == Wire::Anthropic { (12, Some(Tokens(300))) } else { (312, None) };
        assert_eq!(
            (text.usage.input, text.usage.cache_write),
            (Some(Tokens(input)), written),
            "{wire:?}"
        );

        let (calls, _) = answer(wire, Case::ParallelCalls, Mode::Stream).await;
        assert_eq!(calls.stop, Stop::ToolCalls);
        let made: Vec<_> = calls
            .tool_calls()
            .map(|call| (call.id.as_str(), call.name.as_str(), json!(call.arguments)))
            .collect();
        assert_eq!(
            made,
            [
                ("call_1", "Read", json!({ "path": "a b.rs" })),
                ("call_2", "Grep", json!({ "pattern": "世\"", "max": 5 }))
            ]
        );

        let (structured, _) = answer(wire, Case::Structured, Mode::Stream).await;
        assert_eq!(structured.text(), "{\"next_agent\":\"TEST\"}");

        let (refusal, _) = answer(wire, Case::Refusal, Mode::Stream).await;
        assert!(matches!(refusal.stop, Stop::Refusal(_)), "{wire:?}");

        let (cut, _) = answer(wire, Case::CutCall, Mode::Stream).await;
        assert_eq!(cut.stop, Stop::MaxTokens);
        assert_eq!(cut.tool_calls().count(), 0, "{wire:?}: a call that was cut off came out");
        assert_eq!(cut.broken_calls[0].name, "Write");
    }
}

/// Thoughts go back to the provider that had them, word for word, and to no other.
#[tokio::test]
async fn thinking_goes_back_as_it_came() {
    for wire in [Wire::Anthropic, Wire::Responses] {
        let (thought, _) = answer(wire, Case::Thinking, Mode::Stream).await;
        let mut next = request();
        next.messages.push(Message { role: Role::Assistant, parts: thought.parts.clone() });
        next.messages.push(Message::user("Go on"));
        let sent = String::from_utf8(
            client(wire, "http://127.0.0.1:1", limits()).body(&next, Mode::Whole),
        )
        .unwrap();
        assert!(sent.contains("sealed"), "{sent}");
        assert!(wire != Wire::Anthropic || sent.contains("\"signature\":\"sig+/==\""), "{sent}");
        let other = if wire == Wire::Anthropic { Wire::Responses } else { Wire::Anthropic };
        let sent = String::from_utf8(
            client(other, "http://127.0.0.1:1", limits()).body(&next, Mode::Whole),
        )
        .unwrap();
        assert!(!sent.contains("sealed"), "{sent}");
    }
}

/// Chat servers want thoughts back between a call and its result, in the field they came in; behind
/// a finished answer some refuse them.
#[tokio::test]
async fn chat_thinking_goes_back_with_its_calls_and_not_without() {
    let client = client(Wire::Chat, "http://127.0.0.1:1", limits());
    let (finished, _) = answer(Wire::Chat, Case::Thinking, Mode::Stream).await;
    let thought = finished.parts[0].clone();
    let sent = |parts: Vec<Part>, reply: Message| {
        let mut next = request();
        next.messages.push(Message { role: Role::Assistant, parts });
        next.messages.push(reply);
        String::from_utf8(client.body(&next, Mode::Whole)).unwrap()
    };
    assert!(!sent(finished.parts.clone(), Message::user("Go on")).contains("Greet them."));
    let (calls, _) = answer(Wire::Chat, Case::ToolCall, Mode::Stream).await;
    let parts: Vec<Part> = [thought].into_iter().chain(calls.parts.clone()).collect();
    let body = sent(parts, Message::user("results"));
    assert!(body.contains("\"reasoning_content\":\"Greet them.\""), "{body}");
}

/// OpenAI's own wire makes a schema strict where that can be done; a server that only speaks its
/// protocol gets it as it is, closed. What strict mode has no word for is sent without it.
#[test]
fn a_schema_is_strict_where_it_can_be() {
    let a = || json!({ "a": { "type": "string" } });
    let closed = json!({ "type": "object", "properties": a(), "required": ["a"], "additionalProperties": false });
    let optional = json!({ "type": "object", "properties": a() });
    let open = json!({ "type": "object", "properties": { "a": { "type": "object" } } });
    for (schema, responses, chat) in [
        (closed.clone(), true, true),
        (json!({ "type": "object", "properties": a(), "required": ["a"] }), true, true),
        (optional.clone(), true, false),
        (json!({ "anyOf": [closed, optional] }), true, false),
        (open, false, false),
    ] {
        let mut request = request();
        request.format = Some(Format { name: "f".to_owned(), schema });
        for (wire, strict) in [(Wire::Responses, responses), (Wire::Chat, chat)] {
            let body = client(wire, "http://127.0.0.1:1", limits()).body(&request, Mode::Whole);
            let body = String::from_utf8(body).unwrap();
            assert!(body.contains(&format!("\"strict\":{strict}}}")), "{wire:?} {body}");
        }
    }
}

#[tokio::test]
async fn what_goes_out() {
    for wire in Wire::ALL {
        let (calls, _) = answer(wire, Case::ParallelCalls, Mode::Stream).await;
        let mut next = request();
        next.temperature = Some(0.0);
        next.format = Some(Format {
            name: "decision".to_owned(),
            schema: json!({ "type": "object", "properties": {}, "additionalProperties": false }),
        });
        let results = calls.tool_calls().map(|call| {
            Part::ToolResult(ToolResult {
                call_id: call.id.clone(),
                content: format!("result of {}", call.name),
                is_error: call.name == "Grep",
            })
        });
        let results: Vec<Part> = results.chain([Part::Text { text: "And?".to_owned() }]).collect();
        next.messages.push(Message { role: Role::Assistant, parts: calls.parts.clone() });
        next.messages.push(Message { role: Role::User, parts: results });
        next.cached_messages = 1;
        assert_eq!(baton_core::message::check(&next.messages), Ok(()));
        let server = Server::start(vec![ok(&fixtures::stream(wire, Case::Text))]);
        call(&client(wire, &server.url, limits()), &next, Mode::Stream).await.0.unwrap();
        let sent = server.asked().remove(0);
        let head = |name: &str| sent.header(name).unwrap_or_default().to_owned();
        assert_eq!(
            ["x-baton-run", "x-baton-stage", "x-baton-iteration", "x-baton-attempt"].map(head),
            ["r-1", "TEST", "7", "2"]
        );
        let key = if wire == Wire::Anthropic {
            head("x-api-key")
        } else {
            head("authorization").replace("Bearer ", "")
        };
        assert_eq!(key, super::KEY);
        insta::assert_snapshot!(
            format!("{}", wire.name()),
            format!("{}\n{:#}", sent.path, sent.body)
        );
    }
}
