//! What a provider or a network can do to us: no panic, no half of a call, bounded time, an error
//! that names provider, model and request.

use std::time::{Duration, Instant};

use baton_core::message::{Message, Part, Role, ToolResult, Wire};
use baton_runtime::model::{Delta, Kind, Limits, Mode, decode_stream};

use baton_testkit::{Script, Server, Step, ok, reply};

use super::fixtures::{self, CASES, Case};
use super::{KEY, call, client, limits, request};

fn sent(bytes: &[u8]) -> Script {
    vec![Step::Send(bytes.to_vec())]
}

fn error(status: u16, headers: &str, body: &str) -> Script {
    sent(&reply(status, headers, body.as_bytes()))
}

fn streamed(body: &str) -> Script {
    sent(&reply(200, "content-type: text/event-stream\r\n", body.as_bytes()))
}

/// Each fault, with the kind of error it must become.
pub(super) fn faults(wire: Wire) -> Vec<(&'static str, Script, Kind)> {
    let good = fixtures::stream(wire, Case::ParallelCalls);
    let half = &good[..good.floor_char_boundary(good.len() / 2)];
    let head = reply(200, "", b"");
    let chunked = b"HTTP/1.1 200 OK\r\nrequest-id: req_200\r\ntransfer-encoding: chunked\r\n\r\nfff\r\ndata: {".to_vec();
    let too_long = match wire {
        Wire::Anthropic => {
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#
        }
        Wire::Responses => {
            r#"{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}"#
        }
        Wire::Chat => {
            r#"{"error":{"type":"exceed_context_size_error","message":"the request exceeds the available context size"}}"#
        }
    };
    vec![
        ("429", error(429, "", "{}"), Kind::RateLimited),
        ("429 with a pause", error(429, "retry-after: 0\r\n", "{}"), Kind::RateLimited),
        ("500", error(500, "", "oops"), Kind::Provider),
        (
            "529",
            error(529, "", r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#),
            Kind::Provider,
        ),
        (
            "401",
            error(401, "", &format!(r#"{{"error":{{"message":"bad key {KEY}"}}}}"#)),
            Kind::Denied,
        ),
        ("400", error(400, "", r#"{"error":{"message":"unknown model"}}"#), Kind::Rejected),
        ("302 elsewhere", error(302, "location: http://127.0.0.1:1/\r\n", ""), Kind::Rejected),
        ("context too long", error(400, "", too_long), Kind::ContextTooLong),
        ("reset before a reply", vec![Step::Reset], Kind::Connection),
        (
            "reset in the stream",
            [
                sent(&reply(200, "", half.as_bytes())),
                vec![Step::Wait(Duration::from_millis(20)), Step::Reset],
            ]
            .concat(),
            Kind::Connection,
        ),
        ("silence before a reply", vec![Step::Hold], Kind::Timeout),
        (
            "silence in the stream",
            [sent(&reply(200, "", half.as_bytes())), vec![Step::Hold]].concat(),
            Kind::Timeout,
        ),
        ("a truncated chunk", sent(&chunked), Kind::Connection),
        ("no HTTP at all", sent(b"\x00\x01\x02\r\n\r\n"), Kind::Connection),
        ("an empty stream", streamed(""), Kind::Malformed),
        (
            "invalid UTF-8",
            sent(&[head.clone(), b"data: \xff\xfe\n\n".to_vec()].concat()),
            Kind::Malformed,
        ),
        ("broken JSON", streamed("data: {\"a\":\n\n"), Kind::Malformed),
        (
            "an unknown event and no end",
            streamed("event: odd\ndata: {\"type\":\"odd\"}\n\n"),
            Kind::Malformed,
        ),
        ("a call never finished", streamed(half), Kind::Malformed),
        ("no stream but a page", streamed("<html>gateway</html>"), Kind::Malformed),
    ]
}

#[tokio::test]
async fn every_fault_is_a_bounded_error_that_names_its_call() {
    for wire in Wire::ALL {
        for (name, script, kind) in faults(wire) {
            let server = Server::start(vec![script]);
            let start = Instant::now();
            let (answer, _) =
                call(&client(wire, &server.url, limits()), &request(), Mode::Stream).await;
            let error = answer.expect_err(name);
            assert_eq!(error.kind, kind, "{wire:?} {name}: {error}");
            assert!(start.elapsed() < Duration::from_secs(60), "{wire:?} {name}");
            let shown = error.to_string();
            assert!(shown.contains(wire.name()) && shown.contains("model-x"), "{shown}");
            if let Some(status) = error.status {
                assert!(shown.contains(&format!("request req_{status}")), "{shown}");
            }
            assert!(
                !shown.contains(KEY) && !format!("{error:?}").contains(KEY),
                "{name}: the key is in the error"
            );
        }
    }
}

#[tokio::test]
async fn every_stream_cut_at_every_byte_gives_no_half_of_a_call() {
    for wire in Wire::ALL {
        for case in CASES {
            let body = fixtures::stream(wire, case);
            let whole = fixtures::stream(wire, case).len();
            let scripts =
                (0..=whole).map(|end| sent(&reply(200, "", &body.as_bytes()[..end]))).collect();
            let server = Server::start(scripts);
            let client = client(wire, &server.url, limits());
            let mut accepted = Vec::new();
            for end in 0..=whole {
                if let (Ok(answer), _) = call(&client, &request(), Mode::Stream).await {
                    accepted.push((end, answer));
                }
            }
            let (_, last) = accepted.last().expect("the whole stream is an answer").clone();
            for (end, mut answer) in accepted {
                // Behind the answer's own end there is only what a chat server counts.
                answer.usage = last.usage;
                assert_eq!(answer, last, "{wire:?} {case:?} cut at {end} of {whole}");
            }
        }
    }
}

/// Bytes lost, doubled, changed and moved: an answer that comes out has only whole calls.
/// `BATON_FUZZ_ITERATIONS=1000000` for longer.
#[test]
fn no_mangled_stream_panics_or_gives_a_half_of_a_call() {
    let asked = std::env::var("BATON_FUZZ_ITERATIONS").ok();
    let iterations: u64 = asked.map_or(30_000, |asked| asked.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(7);
    let streams: Vec<(Wire, Vec<u8>)> = Wire::ALL
        .into_iter()
        .flat_map(|wire| CASES.map(|case| (wire, fixtures::stream(wire, case).into_bytes())))
        .collect();
    let mut accepted = 0;
    for _ in 0..iterations {
        let (wire, stream) = &streams[random.usize(..streams.len())];
        let mut bytes = stream.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            let end = (at + random.usize(1..60)).min(bytes.len());
            match random.u8(..5) {
                0 => bytes.truncate(at.max(1)),
                1 => drop(bytes.drain(at..end)),
                2 => bytes[at] = random.u8(..),
                3 => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
                _ => bytes[at..end].reverse(),
            }
            if bytes.is_empty() {
                bytes.push(b'\n');
            }
        }
        if let Ok(answer) = decode_stream(*wire, &bytes) {
            accepted += 1;
            let mut ids: Vec<&str> = answer.tool_calls().map(|call| call.id.as_str()).collect();
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count);
            assert!(answer.tool_calls().all(|call| !call.id.is_empty() && !call.name.is_empty()));
        }
    }
    assert!(accepted > 0 && accepted < iterations, "{accepted} of {iterations}");
}

#[tokio::test]
async fn a_fault_that_passes_is_tried_again() {
    for wire in Wire::ALL {
        let good = ok(&fixtures::stream(wire, Case::ToolCall));
        let pause = "retry-after-ms: 5\r\n";
        let scripts = vec![
            error(429, pause, "{}"),
            error(529, pause, "{}"),
            error(503, "retry-after: 0.01\r\n", "{}"),
            good,
        ];
        let server = Server::start(scripts);
        let limits = Limits { retries: 3, ..limits() };
        let (answer, heard) =
            call(&client(wire, &server.url, limits), &request(), Mode::Stream).await;
        assert_eq!(answer.unwrap().tool_calls().count(), 1);
        let waits: Vec<Duration> = heard
            .iter()
            .filter_map(|delta| match delta {
                Delta::Again(again) => Some(again.wait),
                _ => None,
            })
            .collect();
        // The provider's own pauses, and a little more, by chance, that grows.
        for (wait, (asked, most)) in waits.iter().zip([(5, 130), (5, 255), (10, 510)]) {
            let bounds = Duration::from_millis(asked)..=Duration::from_millis(most);
            assert!(bounds.contains(wait), "{wait:?} is not in {bounds:?}");
        }
        assert_eq!(waits.len(), 3);
        let bodies: Vec<Vec<u8>> =
            server.asked().into_iter().map(|received| received.bytes).collect();
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "each try sends the same bytes");
    }
}

#[tokio::test]
async fn tries_are_bounded_and_hopeless_ones_not_repeated() {
    for (script, tries) in [
        (error(500, "retry-after-ms: 1\r\n", "{}"), 3),
        (error(400, "retry-after-ms: 1\r\n", "{}"), 1),
        (error(401, "retry-after-ms: 1\r\n", "{}"), 1),
        (error(413, "retry-after-ms: 1\r\n", "{}"), 1),
        // A provider that wants an hour is not waited for.
        (error(429, "retry-after: 3600\r\n", "{}"), 1),
    ] {
        let server = Server::start(vec![script]);
        let limits = Limits { retries: 2, ..limits() };
        let (answer, _) =
            call(&client(Wire::Chat, &server.url, limits), &request(), Mode::Whole).await;
        assert_eq!(answer.unwrap_err().tries, tries);
        assert_eq!(server.asked().len(), tries as usize);
    }
}

#[tokio::test]
async fn one_byte_at_a_time_is_slow_but_whole_and_ends_at_the_total_limit() {
    let body = reply(200, "", fixtures::stream(Wire::Chat, Case::Text).as_bytes());
    let drip: Script = body
        .iter()
        .flat_map(|byte| [Step::Send(vec![*byte]), Step::Wait(Duration::from_micros(50))])
        .collect();
    let server = Server::start(vec![drip]);
    let (answer, _) =
        call(&client(Wire::Chat, &server.url, limits()), &request(), Mode::Stream).await;
    assert_eq!(answer.unwrap().text(), "Hello, 世界!");
    let endless: Script = std::iter::repeat_n(
        [Step::Send(b": x\n".to_vec()), Step::Wait(Duration::from_millis(50))],
        4_000,
    )
    .flatten()
    .collect();
    let server = Server::start(vec![[sent(&reply(200, "", b"")), endless].concat()]);
    let limits = Limits { total: Duration::from_secs(2), ..limits() };
    let (answer, _) =
        call(&client(Wire::Chat, &server.url, limits), &request(), Mode::Stream).await;
    assert_eq!(answer.unwrap_err().kind, Kind::Timeout);
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection() {
    let server =
        Server::start(vec![[sent(&reply(200, "", b"data: {}\n\n")), vec![Step::Hold]].concat()]);
    let client =
        client(Wire::Chat, &server.url, Limits { idle: Duration::from_secs(60), ..limits() });
    let request = request();
    tokio::select! {
        _ = call(&client, &request, Mode::Stream) => panic!("there is no answer to it"),
        () = until(|| server.asked().len() == 1) => {}
    }
    let closed = until(|| server.left() == 1);
    tokio::time::timeout(Duration::from_secs(60), closed).await.expect("it is still open");
}

/// Streams in which a call looks whole and is not, or looks odd and is.
#[test]
fn a_call_is_whole_only_when_the_provider_says_so() {
    let chat = |finish: &str, arguments: &str| {
        let call = format!(
            r#"{{"index":0,"id":"c","function":{{"name":"Write","arguments":{arguments}}}}}"#
        );
        format!(
            "data: {{\"model\":\"m\",\"choices\":[{{\"delta\":{{\"tool_calls\":[{call}]}},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let calls = |wire, text: &str| {
        decode_stream(wire, text.as_bytes())
            .map(|answer| answer.tool_calls().map(|call| call.arguments.len()).collect::<Vec<_>>())
    };
    // An empty reason in every chunk is no end.
    assert!(calls(Wire::Chat, &chat("\"\"", "\"\"")).is_err());
    for cut in ["\"length\"", "\"content_filter\"", "\"error\""] {
        assert_eq!(calls(Wire::Chat, &chat(cut, "\"\"")), Ok(vec![]), "{cut}");
    }
    assert_eq!(
        calls(Wire::Chat, &chat("\"tool_calls\"", "{\"path\":\"a\"}")),
        Ok(vec![1]),
        "an object is taken as it is"
    );
    assert_eq!(calls(Wire::Chat, &chat("\"tool_calls\"", "[1]")), Ok(vec![]));
    // Closed by the provider, and cut all the same.
    let whole = fixtures::stream(Wire::Anthropic, Case::ToolCall);
    assert_eq!(calls(Wire::Anthropic, &whole), Ok(vec![1]));
    for cut in ["max_tokens", "refusal"] {
        let stream =
            whole.replace("\"stop_reason\":\"tool_use\"", &format!("\"stop_reason\":\"{cut}\""));
        assert_eq!(calls(Wire::Anthropic, &stream), Ok(vec![]), "{cut}");
    }
}

#[tokio::test]
async fn a_connection_left_open_behind_the_answer_delays_nothing() {
    for wire in Wire::ALL {
        let stream = fixtures::stream(wire, Case::ToolCall);
        let server = Server::start(vec![
            [sent(&reply(200, "", stream.as_bytes())), vec![Step::Hold]].concat(),
        ]);
        let (answer, _) =
            call(&client(wire, &server.url, limits()), &request(), Mode::Stream).await;
        assert_eq!(answer.unwrap().tool_calls().count(), 1, "{wire:?}");
    }
}

#[tokio::test]
async fn two_calls_with_one_id_are_not_both_run() {
    let twice = fixtures::whole(Wire::Chat, Case::ParallelCalls).replace("call_2", "call_1");
    let server = Server::start(vec![ok(&twice)]);
    let (answer, _) =
        call(&client(Wire::Chat, &server.url, limits()), &request(), Mode::Whole).await;
    let answer = answer.unwrap();
    assert_eq!(answer.tool_calls().count(), 1);
    assert_eq!(answer.broken_calls[0].why, "another call has the same id");
}

/// Servers that give every parallel call the same place, or none.
#[test]
fn parallel_calls_are_told_apart_by_their_ids() {
    for index in [r#""index":0,"#, ""] {
        let piece = |id: &str, name: &str, arguments: &str| {
            let id = if id.is_empty() { String::new() } else { format!(r#""id":"{id}","#) };
            let call = format!(
                r#"{{{index}{id}"function":{{"name":"{name}","arguments":"{arguments}"}}}}"#
            );
            format!(
                "data: {{\"model\":\"m\",\"choices\":[{{\"delta\":{{\"tool_calls\":[{call}]}}}}]}}\n\n"
            )
        };
        let stream = [
            piece("a", "Read", "{"),
            piece("", "", "}"),
            piece("b", "Grep", "{"),
            piece("b", "", "}"),
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n".to_owned(),
        ];
        let answer = decode_stream(Wire::Chat, stream.concat().as_bytes()).unwrap();
        let calls: Vec<_> =
            answer.tool_calls().map(|call| (call.id.as_str(), call.name.as_str())).collect();
        assert_eq!(calls, [("a", "Read"), ("b", "Grep")], "{index}");
        assert_eq!(answer.broken_calls, []);
    }
}

/// Some servers count their calls from one again in each answer.
#[tokio::test]
async fn an_id_of_an_earlier_turn_is_made_another() {
    let scripts = vec![ok(&fixtures::stream(Wire::Anthropic, Case::ParallelCalls))];
    let server = Server::start(scripts);
    let client = client(Wire::Anthropic, &server.url, limits());
    let mut request = request();
    for _ in 0..3 {
        let answer = call(&client, &request, Mode::Stream).await.0.unwrap();
        let results = answer.tool_calls().map(|call| {
            let (call_id, content) = (call.id.clone(), "done".to_owned());
            Part::ToolResult(ToolResult { call_id, content, is_error: false })
        });
        let parts = results.collect();
        request.messages.push(answer.message());
        request.messages.push(Message { role: Role::User, parts });
    }
    let ids: Vec<&str> = request
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, ["call_1", "call_2", "call_1_2", "call_2_2", "call_1_3", "call_2_3"]);
}

#[tokio::test]
async fn an_error_that_is_only_a_text_is_understood() {
    let body = r#"{"error":"the request exceeds the available context size"}"#;
    let server = Server::start(vec![error(400, "", body)]);
    let answer = call(&client(Wire::Chat, &server.url, limits()), &request(), Mode::Stream).await.0;
    let failed = answer.unwrap_err();
    assert_eq!(failed.kind, Kind::ContextTooLong, "{failed}");
    assert!(failed.message.contains("context size"), "{failed}");
}
