//! Recording and replaying: the same requests, the same answers, no secrets, no guesses.

use baton_core::message::{Message, Wire};
use baton_runtime::model::cassette::Tape;
use baton_runtime::model::{Kind, Limits, Mode, Secret};

use baton_testkit::{Server, Step, ok, reply};

use super::fixtures::{self, CASES, Case};
use super::{KEY, call, client, limits, request};

#[tokio::test]
async fn fifty_calls_replay_with_the_same_requests_and_answers() {
    for wire in Wire::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        let scripts =
            (0..50).map(|n| ok(&fixtures::stream(wire, CASES[n % CASES.len()]))).collect();
        let server = Server::start(scripts);
        let requests: Vec<_> = (0..50)
            .map(|n| {
                let mut request = request();
                request.messages = vec![Message::user(format!("问题 {n}; my key is {KEY}"))];
                request
            })
            .collect();
        let recording = client(wire, &server.url, limits()).with_tape(Tape::record(&path).unwrap());
        let mut answers = Vec::new();
        for request in &requests {
            answers.push(call(&recording, request, Mode::Stream).await.0.unwrap());
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(KEY), "the key is on the tape");
        let playing =
            client(wire, "http://127.0.0.1:1", limits()).with_tape(Tape::play(&path).unwrap());
        for (request, answer) in requests.iter().zip(&answers) {
            assert_eq!(&call(&playing, request, Mode::Stream).await.0.unwrap(), answer);
        }
        let sent: Vec<String> = server
            .asked()
            .iter()
            .map(|received| {
                String::from_utf8(received.bytes.clone()).unwrap().replace(KEY, "[key]")
            })
            .collect();
        let recorded: Vec<String> = text
            .lines()
            .skip(1)
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["request"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        assert_eq!(sent, recorded, "byte for byte");
        let spent = call(&playing, &requests[0], Mode::Stream).await.0.unwrap_err();
        assert!(spent.to_string().contains("played to its end"), "{spent}");
    }
}

#[tokio::test]
async fn another_request_fails_with_a_readable_difference() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let server = Server::start(vec![ok(&fixtures::stream(Wire::Chat, Case::Text))]);
    let recording =
        client(Wire::Chat, &server.url, limits()).with_tape(Tape::record(&path).unwrap());
    call(&recording, &request(), Mode::Stream).await.0.unwrap();
    let playing = client(Wire::Chat, &server.url, limits()).with_tape(Tape::play(&path).unwrap());
    let mut other = request();
    other.messages = vec![Message::user("Look at src/main.rs")];
    let error = call(&playing, &other, Mode::Stream).await.0.unwrap_err();
    assert_eq!(error.kind, Kind::NotRecorded);
    insta::assert_snapshot!(error.message, @"
    this call (+) was not recorded; the next recorded one (-, call 1 of 1) differs in message 2 (user), content, line 1:
    -    1 | Look at src/lib.rs
    +    1 | Look at src/main.rs
    ");
    assert_eq!(server.asked().len(), 1, "a replay calls nobody");
    assert!(Tape::record(&path).is_err(), "a recording is not written over");
}

#[tokio::test]
async fn faults_are_recorded_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let half = fixtures::stream(Wire::Anthropic, Case::ToolCall);
    let cut = reply(200, "", &half.as_bytes()[..half.len() / 2]);
    let scripts = vec![
        vec![Step::Send(reply(500, "retry-after-ms: 1\r\n", b"{}"))],
        vec![Step::Send(cut)],
        ok(&half),
    ];
    let server = Server::start(scripts);
    let patient = Limits { retries: 2, ..limits() };
    let recording =
        client(Wire::Anthropic, &server.url, patient).with_tape(Tape::record(&path).unwrap());
    let first = call(&recording, &request(), Mode::Stream).await.0.unwrap();
    let playing = client(Wire::Anthropic, "http://127.0.0.1:1", patient)
        .with_tape(Tape::play(&path).unwrap());
    assert_eq!(call(&playing, &request(), Mode::Stream).await.0.unwrap(), first);
}

/// Calls that failed for good fail again, in the same words.
#[tokio::test]
async fn a_call_without_an_answer_is_recorded_too() {
    let short = Limits { total: std::time::Duration::from_secs(2), ..limits() };
    let silent = Server::start(vec![vec![
        Step::Send(reply(200, "", b"data: {\"choices\":[]}\n\n")),
        Step::Hold,
    ]]);
    for (url, kind) in [("http://127.0.0.1:1", Kind::Connection), (&silent.url, Kind::Timeout)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        let recording = client(Wire::Chat, url, short).with_tape(Tape::record(&path).unwrap());
        let live = call(&recording, &request(), Mode::Stream).await.0.unwrap_err();
        assert_eq!(live.kind, kind, "{live}");
        let playing =
            client(Wire::Chat, "http://127.0.0.1:2", short).with_tape(Tape::play(&path).unwrap());
        let again = call(&playing, &request(), Mode::Stream).await.0.unwrap_err();
        assert_eq!(again.to_string(), live.to_string());
    }
}

/// In a request of many pages the place is what counts.
#[tokio::test]
async fn a_difference_far_inside_a_long_line_is_shown_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let server = Server::start(vec![ok(&fixtures::stream(Wire::Chat, Case::Text))]);
    let recording =
        client(Wire::Chat, &server.url, limits()).with_tape(Tape::record(&path).unwrap());
    let long =
        |word: &str| format!("first\n{}{word}{}\nlast", "a".repeat(5_000), "b".repeat(5_000));
    let mut request = request();
    request.messages = vec![Message::user(long("then"))];
    call(&recording, &request, Mode::Stream).await.0.unwrap();
    let playing = client(Wire::Chat, &server.url, limits()).with_tape(Tape::play(&path).unwrap());
    request.messages = vec![Message::user(long("now"))];
    let message = call(&playing, &request, Mode::Stream).await.0.unwrap_err().message;
    let lines: Vec<&str> = message.lines().collect();
    assert!(lines[0].ends_with("content, line 2:"), "{message}");
    assert_eq!(lines[1], "     1 | first");
    for (line, mark, word) in
        [(lines[2], "-    2 | …", "athenb"), (lines[3], "+    2 | …", "anowb")]
    {
        assert!(line.starts_with(mark) && line.contains(word), "{message}");
        assert!(line.chars().count() < 200, "{message}");
    }
    assert_eq!(lines[4..], ["     3 | last"]);
}

/// A cassette of version 2 has calls alone.
#[tokio::test]
async fn an_older_cassette_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let server = Server::start(vec![ok(&fixtures::stream(Wire::Chat, Case::Text))]);
    let recording =
        client(Wire::Chat, &server.url, limits()).with_tape(Tape::record(&path).unwrap());
    let answer = call(&recording, &request(), Mode::Stream).await.0.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"cassette\":3}\n"), "{text}");
    std::fs::write(&path, text.replace("{\"cassette\":3}", "{\"cassette\":2}")).unwrap();
    let tape = Tape::play(&path).unwrap();
    assert_eq!(tape.runner().unwrap().provider, Some(Wire::Chat));
    let playing = client(Wire::Chat, "http://127.0.0.1:1", limits()).with_tape(tape);
    assert_eq!(call(&playing, &request(), Mode::Stream).await.0.unwrap(), answer);
}

/// Whatever key the person has, not only this provider's; a key that is a word stays a word.
#[tokio::test]
async fn no_key_of_the_person_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let server = Server::start(vec![ok(&fixtures::stream(Wire::Chat, Case::Text))]);
    let secrets = [Secret::new("ghp_another_0123456789"), Secret::new("file")];
    let recording = client(Wire::Chat, &server.url, limits())
        .with_secrets(&secrets)
        .with_tape(Tape::record(&path).unwrap());
    let mut request = request();
    request.messages = vec![Message::user("a file with ghp_another_0123456789 in it")];
    call(&recording, &request, Mode::Stream).await.0.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("a file with [key] in it"), "{text}");
}

#[test]
fn a_broken_cassette_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    for (text, why) in [
        ("", "1: this is not a cassette"),
        ("{\"cassette\":1}\n", "version 1 of the format"),
        ("{\"cassette\":2}\n{\"wire\":\"chat\"}\n", "2: not a recorded call"),
        ("{\"cassette\":2}\n{\"wire\"", "2: not a recorded call"),
        ("{\"cassette\":2,\"extra\":0}\n", "1: this is not a cassette"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Tape::play(&path).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
