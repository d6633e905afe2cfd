//! The lab: what each action needed, what each policy shows and costs, and who wrote a recording.
//! The figures of the policies are worked out by hand beside them.

use baton_core::lab::import::{self, Imported};
use baton_core::lab::need::Prepared;
use baton_core::lab::policy::Name;
use baton_core::lab::replay::{self, Count, Form, FormId, Piece, Policy, Sums};
use baton_core::lab::session::{Act, Message, Role, Session};
use proptest::prelude::*;
use serde_json::json;

/// A text with spaces behind it, so that its message has so many tokens: (tokens - 4) * 4 characters.
fn padded(text: &str, tokens: usize) -> String {
    format!("{text:<width$}", width = (tokens - 4) * 4)
}

fn user(text: &str) -> Message {
    Message::new(Role::User, text, Vec::new())
}

fn result(text: &str) -> Message {
    Message::new(Role::Observation, text, Vec::new())
}

/// An answer with one call.
fn call(name: &str, arguments: &str) -> Message {
    Message::new(Role::Assistant, "", vec![Act::new(name, arguments)])
}

fn session(over: u32, messages: Vec<Message>) -> Session {
    Session { id: "s".to_owned(), source: "hand".to_owned(), over, messages }
}

/// Two readings, then an edit that needs what the first told.
///
/// | message | tokens |
/// |---|---|
/// | 0 user | 10 |
/// | 1 `\nRead a`: 7 characters | 5 |
/// | 2 result | 100 |
/// | 3 `\nRead b` | 5 |
/// | 4 result | 200 |
/// | 5 `\nEdit alpha_one`: needs alpha_one of message 2 | 7 |
fn two_readings(over: u32) -> Session {
    let messages = vec![
        user(&padded("go", 10)),
        call("Read", "a"),
        result(&padded("alpha_one", 100)),
        call("Read", "b"),
        result(&padded("beta_two", 200)),
        call("Edit", "alpha_one"),
    ];
    assert_eq!(
        messages.iter().map(|message| message.tokens).collect::<Vec<_>>(),
        [10, 5, 100, 5, 200, 7]
    );
    session(over, messages)
}

fn run(name: &str, session: Session) -> Sums {
    let mut policy = Name::read(name).unwrap().policy();
    replay::run(&Prepared::new(session), policy.as_mut())
}

#[test]
fn each_policy_on_two_readings() {
    // Costs are in twentieths of a token: read 2, written 25, plain 20. With 2000 tokens before
    // every call the calls see, and share with the call before:
    let full = (
        // 0               = 2010: 2010 written for the next            = 50250
        // 0 1 2           = 2115: 2010 read, 105 written   4020 + 2625 =  6645
        // 0 1 2 3 4       = 2320: 2115 read, 205 plain     4230 + 4100 =  8330
        (50_250 + 6_645 + 8_330, 6_445, 4_125, 2_320),
        (1, 0),
    );
    let first_out = (
        // The last call shows 0 1 [14] 3 4 = 2234 and shares 0 1 = 2015:
        //   2010 written                                               = 50250
        //   2010 read, 5 written, 100 plain         4020 + 125 + 2000  =  6145
        //   2015 read, 219 plain                          4030 + 4380  =  8410
        (50_250 + 6_145 + 8_410, 2_010 + 2_115 + 2_234, 4_025, 2_234),
        // Missed: the call once more from the cache, the result of 100, 150 words at five times.
        (0, 2_234 * 2 + 100 * 25 + 150 * 5 * 20),
    );
    let both_out = (
        // 0               = 2010 written                               = 50250
        // 0 1 [14]        = 2029: 2010 read, 19 written     4020 + 475 =  4495
        // 0 1 [14] 3 [14] = 2048: 2029 read, 19 plain       4058 + 380 =  4438
        (50_250 + 4_495 + 4_438, 2_010 + 2_029 + 2_048, 4_039, 2_048),
        (0, 2_048 * 2 + 100 * 25 + 150 * 5 * 20),
    );
    let last = (
        // The last call shows 0 3 4 = 2215 and shares 0 = 2010:
        //   2010 written                                               = 50250
        //   2010 read, 105 plain                          4020 + 2100  =  6120
        //   2010 read, 205 plain                          4020 + 4100  =  8120
        (50_250 + 6_120 + 8_120, 2_010 + 2_115 + 2_215, 4_020, 2_215),
        (0, 2_215 * 2 + 100 * 25 + 150 * 5 * 20),
    );
    for (name, ((cost, tokens, read, peak), (seen, fetching))) in [
        ("full", full),
        ("mask:2", full),
        ("mask:1/1", full),
        ("mask:1", first_out),
        ("mask:0", both_out),
        ("last:3", full),
        ("last:2", full),
        ("last:1", last),
        ("edit:2320/1", full),
        ("edit:2319/1", first_out),
        ("edit:2k/1", first_out),
        ("edit:1/2", full),
        ("edit:1/0", both_out),
    ] {
        let sums = run(name, two_readings(2_000));
        let got = (sums.cost, sums.tokens, sums.read, sums.peak_most);
        assert_eq!(got, (cost, tokens, read, peak), "{name}");
        assert_eq!((sums.facts.seen, sums.fetching), (seen, fetching), "{name}");
        assert_eq!((sums.facts.needed, sums.first.needed, sums.old.needed), (1, 1, 0), "{name}");
        assert_eq!((sums.steps.needed, sums.steps.seen), (1, seen), "{name}");
        assert_eq!((sums.calls, sums.sessions, sums.peaks), (3, 1, peak), "{name}");
    }
}

#[test]
fn a_short_beginning_is_not_cached() {
    // 10 + 115 + 320 tokens, all plain: no two calls share 1024.
    let sums = run("full", two_readings(0));
    assert_eq!((sums.cost, sums.read), ((10 + 115 + 320) * 20, 0));
    // 909 + 115 = 1024 is just enough for the last call; 909 + 10 is not for the one before:
    //   919 plain                                                       = 18380
    //   1024 written for the last                                       = 25600
    //   1024 read, 205 plain                               2048 + 4100  =  6148
    let sums = run("full", two_readings(909));
    assert_eq!((sums.cost, sums.read), (18_380 + 25_600 + 6_148, 1_024));
}

#[test]
fn a_result_that_is_hardly_larger_than_a_stub_stays() {
    let with = |tokens: usize| {
        let told = result(&padded("alpha_one", tokens));
        let messages = vec![call("Read", "a"), told, call("Edit", "alpha_one")];
        run("mask:0", session(0, messages)).facts
    };
    assert_eq!(with(28), Count { needed: 1, seen: 1 });
    assert_eq!(with(29), Count { needed: 1, seen: 0 });
}

#[test]
fn a_batch_takes_results_out_in_steps() {
    // Ten results of 50 tokens, one a call. mask:2/3 takes out once more than 5 would be whole: at 6
    // results all but 2 (4 out), at 10 all but 2 again (8 out).
    let mut messages = Vec::new();
    for number in 0..11 {
        messages.push(call("Read", "a"));
        if number < 10 {
            messages.push(result(&padded("x", 50)));
        }
    }
    let prepared = Prepared::new(session(0, messages));
    let mut policy = Name::read("mask:2/3").unwrap().policy();
    let stubs: Vec<usize> = prepared
        .calls
        .iter()
        .map(|call| {
            let view = policy.view(&prepared, *call);
            view.iter().filter(|piece| matches!(piece, Piece::Formed(..))).count()
        })
        .collect();
    assert_eq!(stubs, [0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 8]);
}

#[test]
fn what_an_action_needs() {
    // (messages before, the action) → (needed, first uses)
    let told = || result("alpha_one");
    let read = || call("Read", "a");
    let cases = [
        ("told by a result", vec![read(), told()], call("Edit", "alpha_one"), (1, 1)),
        ("told by nobody", vec![read()], call("Edit", "alpha_one"), (0, 0)),
        (
            "given by a person",
            vec![user("alpha_one"), read(), told()],
            call("E", "alpha_one"),
            (0, 0),
        ),
        (
            "given by a person later",
            vec![read(), told(), user("alpha_one")],
            call("E", "alpha_one"),
            (0, 0),
        ),
        (
            "given by the instructions",
            vec![Message::new(Role::System, "alpha_one", Vec::new()), read(), told()],
            call("E", "alpha_one"),
            (0, 0),
        ),
        (
            "written by the agent before",
            vec![read(), told(), call("TodoWrite", "alpha_one")],
            call("E", "alpha_one"),
            (1, 0),
        ),
        ("told three times", vec![told(), told(), told()], call("E", "alpha_one"), (1, 1)),
        ("told four times", vec![told(), told(), told(), told()], call("E", "alpha_one"), (0, 0)),
        ("a note", vec![read(), told()], call("TodoWrite", "alpha_one"), (0, 0)),
        ("twice in one action", vec![told()], call("E", "alpha_one alpha_one"), (1, 1)),
        (
            "the old text of an edit, under its numbers",
            vec![result("  7\tlet total = sum(all);")],
            Message::new(
                Role::Assistant,
                "",
                vec![Act::new("Edit", "x").replacing("let total = sum(all);\nshort")],
            ),
            (1, 1),
        ),
        (
            "a line in the arguments is not asked for",
            vec![result("let total = sum(all);")],
            call("Write", "let total = sum(all);"),
            (0, 0),
        ),
    ];
    for (what, mut messages, action, (needed, first)) in cases {
        messages.push(action);
        let sums = run("full", session(0, messages));
        assert_eq!((sums.facts.needed, sums.first.needed), (needed, first), "{what}");
        assert_eq!(sums.facts.seen, needed, "{what}: whoever sees all forgets nothing");
    }
}

#[test]
fn age_and_compactions() {
    // The fact is told first, then `more` other results follow.
    let aged = |more: usize| {
        let mut messages = vec![result("alpha_one")];
        messages.extend((0..more).map(|_| result("x")));
        messages.push(call("E", "alpha_one"));
        run("full", session(0, messages)).old.needed
    };
    assert_eq!((aged(10), aged(11)), (0, 1));

    let compacted = || {
        let summary = Message::summary("beta_two");
        session(
            0,
            vec![
                call("R", "a"),
                result("alpha_one beta_two"),
                summary,
                result("gamma_three"),
                call("E", "alpha_one beta_two gamma_three"),
            ],
        )
    };
    // Whole: the summary is not shown and gives nothing; two facts come from before it.
    let sums = run("full", compacted());
    assert_eq!(sums.facts, Count { needed: 3, seen: 3 });
    assert_eq!((sums.cross, sums.cross_first.needed), (Count { needed: 2, seen: 2 }, 2));
    // Each stretch by itself: the summary opens the second one and gives beta_two.
    assert!(compacted().is_compacted());
    let segments = compacted().segments();
    assert_eq!(segments.iter().map(|part| part.messages.len()).collect::<Vec<_>>(), [2, 3]);
    assert!(segments.iter().all(|part| !part.is_compacted()));
    let sums = run("full", segments[1].clone());
    assert_eq!((sums.facts.needed, sums.cross.needed), (1, 0));
    // A summary at the very beginning makes no empty stretch.
    let opening = session(0, vec![Message::summary("x"), call("R", "a")]);
    assert_eq!(opening.segments().len(), 1);
    assert!(session(0, Vec::new()).segments().is_empty());
}

#[test]
fn results_belong_to_their_acts() {
    let two = vec![Act::new("Read", "a"), Act::new("Grep", "b")];
    let messages = vec![
        user("go"),
        Message::new(Role::Assistant, "", two),
        result("1"),
        result("2"),
        result("3"),
        call("Bash", "c"),
        user("wait"),
        result("4"),
    ];
    let prepared = Prepared::new(session(0, messages));
    let acts: Vec<Option<&str>> =
        (0..9).map(|at| Some(prepared.act_behind(at)?.name.as_str())).collect();
    let (read, grep, bash) = (Some("Read"), Some("Grep"), Some("Bash"));
    assert_eq!(acts, [None, None, read, grep, None, None, None, bash, None]);
}

/// Shows results by its own words, and a text of its own before everything.
#[derive(Debug, Default)]
struct Telling {
    forms: Vec<Form>,
    inserted: Option<&'static str>,
    formed: &'static str,
}

impl Policy for Telling {
    fn view(&mut self, session: &Prepared, call: usize) -> Vec<Piece> {
        let inserted = self.inserted.unwrap_or_default();
        self.forms = vec![Form::of(inserted), Form::with_tokens(20, self.formed)];
        let start = self.inserted.map(|_| Piece::Inserted(FormId(0)));
        let messages = session.messages()[..call].iter().enumerate();
        let pieces = messages.map(|(at, message)| match message.role {
            Role::Observation => Piece::Formed(at, FormId(1)),
            _ => Piece::Whole(at),
        });
        start.into_iter().chain(pieces).collect()
    }

    fn form(&self, id: FormId) -> &Form {
        &self.forms[id.0 as usize]
    }
}

#[test]
fn a_policy_tells_facts_by_forms_of_its_own() {
    for (inserted, formed, seen) in [
        (None, "", 0),
        (None, "has alpha_one", 1),
        (Some("nothing"), "", 0),
        (Some("knows alpha_one"), "", 1),
    ] {
        let mut policy = Telling { inserted, formed, ..Telling::default() };
        let sums = replay::run(&Prepared::new(two_readings(0)), &mut policy);
        assert_eq!(sums.facts, Count { needed: 1, seen }, "{inserted:?} {formed}");
        // 10, then + 5 + 20, then + 5 + 20; before each the inserted text: `nothing` is 1 + 4.
        if inserted == Some("nothing") {
            assert_eq!(sums.tokens, (5 + 10) + (5 + 35) + (5 + 60));
        }
    }
    // A form tells only what its own message told: message 4 cannot tell what message 2 knew.
    #[derive(Debug)]
    struct Wrong(Form);
    impl Policy for Wrong {
        fn view(&mut self, _: &Prepared, call: usize) -> Vec<Piece> {
            (0..call).filter(|at| *at == 4).map(|at| Piece::Formed(at, FormId(0))).collect()
        }
        fn form(&self, _: FormId) -> &Form {
            &self.0
        }
    }
    let sums = replay::run(&Prepared::new(two_readings(0)), &mut Wrong(Form::of("alpha_one")));
    assert_eq!(sums.facts.seen, 0);
}

#[test]
fn figures_are_relative_and_unknown_where_nothing_was_needed() {
    let full = run("full", two_readings(2_000));
    let masked = run("mask:1", two_readings(2_000));
    let figures = masked.figures(&full);
    assert_eq!((figures.nfr, figures.nfr_old, figures.cross), (Some(0.0), None, None));
    assert_eq!(figures.relative_cost, Some(64_805.0 / 65_225.0));
    assert_eq!(figures.adj, Some((64_805.0 + 21_968.0) / 65_225.0));
    assert_eq!(figures.hit_rate, Some(4_025.0 / 6_359.0));
    let mut two = full;
    two.join(&masked);
    assert_eq!((two.sessions, two.calls, two.facts), (2, 6, Count { needed: 2, seen: 1 }));
    assert_eq!((two.peaks, two.peak_most), (2_320 + 2_234, 2_320));
    let nothing = Sums::default().figures(&Sums::default());
    assert_eq!((nothing.nfr, nothing.relative_cost, nothing.peak), (None, None, None));
}

#[test]
fn policies_have_names() {
    for name in ["full", "mask:10", "mask:10/20", "last:20", "edit:100k/3", "edit:1500/0", "baton"]
    {
        assert_eq!(Name::read(name).unwrap().to_string(), name);
    }
    assert_eq!(Name::read("mask:10/0").unwrap(), Name::read("mask:10").unwrap());
    assert_eq!(Name::read("edit:2000/1").unwrap().to_string(), "edit:2k/1");
    for (wrong, meant) in [
        ("ful", Some("full")),
        ("Full", Some("full")),
        ("mask:1o", Some("mask:10")),
        ("mask10", Some("mask:10")),
        ("btaon", Some("baton")),
        ("full:1", Some("full")),
        ("mask", Some("mask:10")),
        ("mask:", Some("mask:10")),
        ("mask:-1", None),
        ("mask:1/2/3", None),
        ("mask:99999999999", None),
        ("edit:5000000k/3", None),
        ("last:0", Some("last:20")),
        ("last:+5", None),
        ("", None),
        ("文", None),
    ] {
        let problem = Name::read(wrong).unwrap_err();
        assert_eq!(problem.code, "policy-unknown");
        if meant.is_some() {
            assert_eq!(problem.did_you_mean.as_deref(), meant, "{wrong}");
        }
    }
}

// ---------------------------------------------------------------- importing

fn imported(text: &str) -> Imported {
    import::file(text, "name").unwrap()
}

/// The one session of a text, a line a message: role, tokens, text, acts.
fn shown(text: &str) -> (Session, Vec<String>) {
    let mut found = imported(text);
    assert_eq!((found.sessions.len(), found.damaged), (1, 0), "{:?}", found.first_damaged);
    let session = found.sessions.remove(0);
    let lines = session.messages.iter().map(|message| {
        let mut line = format!("{:?} {:?}", message.role, message.text);
        for act in &message.acts {
            line.push_str(&format!(" {}({:?}", act.name, act.arguments));
            line.push_str(&if act.old.is_empty() {
                ")".into()
            } else {
                format!("; {:?})", act.old)
            });
        }
        if message.is_summary {
            line.push_str(" summary");
        }
        line
    });
    let lines = lines.collect();
    (session, lines)
}

fn lines(values: &[serde_json::Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn common() -> serde_json::Value {
    json!({
        "id": "c1", "source": "hand", "over": 300, "usage": [[2, 400, 0]],
        "msgs": [
            { "r": "sys", "t": "be good" },
            { "r": "user", "t": "go" },
            { "r": "assistant", "t": "I look", "a": [{ "n": "Edit", "args": "a.rs\nnew", "old": "old" }] },
            { "r": "obs", "t": "ok" },
            { "r": "summary", "t": "so far" },
            { "r": "assistant", "t": "", "a": [{ "n": "Bash" }] },
        ],
    })
}

#[test]
fn the_common_form() {
    let (session, messages) = shown(&common().to_string());
    assert_eq!((session.id.as_str(), session.source.as_str(), session.over), ("c1", "hand", 300));
    assert_eq!(
        messages,
        [
            r#"System "be good""#,
            r#"User "go""#,
            r#"Assistant "I look" Edit("a.rs\nnew"; "old")"#,
            r#"Observation "ok""#,
            r#"User "so far" summary"#,
            r#"Assistant "" Bash("")"#,
        ]
    );
    // `I look\nEdit a.rs\nnew`: 20 characters.
    assert_eq!(session.messages[2].tokens, 20 / 4 + 4);
    // Two lines are two sessions; over several lines it is one document.
    let two = imported(&lines(&[common(), common()]));
    assert_eq!(two.sessions.len(), 2);
    assert_eq!(imported(&serde_json::to_string_pretty(&common()).unwrap()).sessions.len(), 1);
    assert!(import::is_session(&common().to_string()));
    assert!(!import::is_session("{}") && !import::is_session(""));
}

#[test]
fn a_claude_code_session() {
    let answer = |uuid: &str, id: &str, content: serde_json::Value| {
        json!({
            "type": "assistant", "uuid": uuid, "sessionId": "abc",
            "message": { "id": id, "role": "assistant", "content": content,
                "usage": { "input_tokens": 10, "cache_creation_input_tokens": 90,
                    "cache_read_input_tokens": 900 } },
        })
    };
    let said = |text: &str| json!([{ "type": "text", "text": text }]);
    let used = json!([{ "type": "tool_use", "id": "t", "name": "MultiEdit", "input": {
        "file_path": "a.rs",
        "edits": [{ "old_string": "one", "new_string": "two" }, { "oldText": "three" }],
    } }]);
    let text = lines(&[
        json!({ "type": "queue-operation", "sessionId": "abc", "content": "x" }),
        json!({ "type": "user", "uuid": "1", "message": { "content": "go" } }),
        answer("2", "m1", said("I look")),
        answer("3", "m1", used),
        // The same line again, and a helper's.
        answer("2", "m1", said("I look")),
        json!({ "type": "user", "uuid": "4", "isSidechain": true, "message": { "content": "x" } }),
        json!({ "type": "user", "uuid": "5", "message": { "content": [
            { "type": "tool_result", "content": [{ "type": "text", "text": "ok" }, { "type": "image" }] },
            { "type": "tool_result", "content": "also" },
        ] } }),
        json!({ "type": "assistant", "uuid": "6", "message": { "model": "<synthetic>", "content": "no" } }),
        json!({ "type": "user", "uuid": "7", "isCompactSummary": true, "message": { "content": "so far" } }),
        json!({ "type": "assistant", "uuid": "8", "message": { "content": "plain" } }),
        json!({ "type": "summary", "summary": "a title" }),
    ]);
    let (session, messages) = shown(&text);
    assert_eq!(
        messages,
        [
            r#"User "go""#,
            r#"Assistant "I look" MultiEdit("a.rs\none\ntwo\nthree"; "\none\nthree")"#,
            r#"Observation "ok\n""#,
            r#"Observation "also""#,
            r#"User "so far" summary"#,
            r#"Assistant "plain""#,
        ]
    );
    // 1000 tokens in, of which the one message is 2 / 4 + 4.
    assert_eq!((session.id.as_str(), session.over), ("abc", 1_000 - 4));
}

#[test]
fn a_codex_rollout() {
    let item = |payload: serde_json::Value| json!({ "type": "response_item", "payload": payload });
    let message = |role: &str, text: &str| {
        item(json!({ "type": "message", "role": role, "content": [{ "type": "x", "text": text }] }))
    };
    let usage = |input: u32| {
        json!({ "type": "event_msg", "payload": { "type": "token_count",
            "info": { "last_token_usage": { "input_tokens": input } } } })
    };
    let text = lines(&[
        json!({ "type": "session_meta", "payload": { "id": "r1",
            "base_instructions": { "text": "be good" } } }),
        message("developer", "rules"),
        message("user", "go"),
        json!({ "type": "event_msg", "payload": { "type": "token_count", "info": null } }),
        item(json!({ "type": "reasoning", "encrypted_content": "x" })),
        message("assistant", "I look"),
        item(json!({ "type": "function_call", "name": "shell", "call_id": "1",
            "arguments": "{\"cmd\":[\"ls\",\"-l\"],\"n\":3}" })),
        item(json!({ "type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin" })),
        item(json!({ "type": "function_call_output", "call_id": "1", "output": "files" })),
        item(json!({ "type": "custom_tool_call_output", "output": { "text": "done" } })),
        usage(500),
        usage(900),
        json!({ "type": "compacted", "payload": { "message": "so far" } }),
        item(json!({ "type": "local_shell_call", "action": { "command": ["git", "log"] } })),
    ]);
    let (session, messages) = shown(&text);
    assert_eq!(
        messages,
        [
            r#"System "be good""#,
            r#"System "rules""#,
            r#"User "go""#,
            r#"Assistant "I look" shell("ls\n-l\n3") apply_patch("*** Begin")"#,
            r#"Observation "files""#,
            r#"Observation "done""#,
            r#"User "so far" summary"#,
            r#"Assistant "" shell("git\nlog")"#,
        ]
    );
    // 500 tokens in, of which the messages are 5 + 5 + 4.
    assert_eq!((session.id.as_str(), session.over), ("r1", 500 - 14));
    // The older form: payloads alone.
    let old = lines(&[
        json!({ "id": "r0", "timestamp": "x", "instructions": null }),
        json!({ "type": "message", "role": "user", "content": [{ "text": "go" }] }),
        json!({ "type": "function_call", "name": "shell", "call_id": "1", "arguments": "not json" }),
        json!({ "type": "function_call_output", "call_id": "1", "output": "files" }),
    ]);
    let messages = shown(&old).1;
    assert_eq!(
        messages,
        [r#"User "go""#, r#"Assistant "" shell("not json")"#, r#"Observation "files""#]
    );
}

#[test]
fn an_swe_agent_trajectory() {
    let text = serde_json::to_string_pretty(&json!({
        "environment": "x",
        "trajectory": [],
        "history": [
            { "role": "system", "content": "be good" },
            { "role": "user", "content": "a demonstration", "is_demo": true },
            { "role": "user", "content": "the issue" },
            { "role": "assistant", "content": "I edit\n```\nedit 1:1\n```", "action": "edit 1:1\nx" },
            { "role": "user", "content": [{ "type": "text", "text": "ok" }] },
            { "role": "assistant", "content": "all", "thought": "mine", "tool_calls": [
                { "function": { "name": "edit", "arguments": "{\"old_str\":\"a\",\"new_str\":\"b\"}" } },
            ] },
            { "role": "tool", "content": "ok" },
            { "role": "assistant", "content": "no action" },
        ],
    }))
    .unwrap();
    let (session, messages) = shown(&text);
    assert_eq!(session.source, "swe-agent");
    assert_eq!(
        messages,
        [
            r#"System "be good""#,
            r#"System "a demonstration""#,
            r#"User "the issue""#,
            r#"Assistant "I edit\n" edit("edit 1:1\nx")"#,
            r#"Observation "ok""#,
            r#"Assistant "mine" edit("a\nb"; "a")"#,
            r#"Observation "ok""#,
            r#"Assistant "no action""#,
        ]
    );
}

#[test]
fn a_trae_trajectory() {
    let text = json!({
        "task": "x",
        "llm_interactions": [
            {
                "input_messages": [
                    { "role": "system", "content": "be good" },
                    { "role": "user", "content": "go" },
                ],
                "response": {
                    "content": "I look",
                    "usage": { "input_tokens": 60, "cache_read_input_tokens": 40 },
                    "tool_calls": [{ "name": "bash", "arguments": { "command": "ls" } }],
                },
            },
            {
                "input_messages": [
                    { "role": "user", "content": null,
                        "tool_result": { "result": "files", "error": "a fault" } },
                    { "role": "user", "content": "go on" },
                ],
                "response": { "content": "done", "usage": null, "tool_calls": null },
            },
        ],
    });
    let (session, messages) = shown(&text.to_string());
    assert_eq!(
        messages,
        [
            r#"System "be good""#,
            r#"User "go""#,
            r#"Assistant "I look" bash("ls")"#,
            r#"Observation "files\na fault""#,
            r#"Observation "go on""#,
            r#"Assistant "done""#,
        ]
    );
    assert_eq!((session.source.as_str(), session.over), ("trae", 100 - 5 - 4));
}

#[test]
fn lists_of_messages() {
    let messages = json!([
        { "role": "system", "content": "be good" },
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": null, "tool_calls": [
            { "function": { "name": "bash", "arguments": "{\"command\": \"ls\"}" } },
        ] },
        { "role": "tool", "content": "files" },
        { "role": "assistant", "content": "I run", "extra": { "actions": [{ "command": "pwd" }] } },
        { "role": "user", "content": "/tmp" },
        { "role": "assistant", "content": "done" },
        { "role": "user", "content": "thanks" },
        { "role": "exit", "content": "x" },
    ]);
    let wanted = [
        r#"System "be good""#,
        r#"User "go""#,
        r#"Assistant "" bash("ls")"#,
        r#"Observation "files""#,
        r#"Assistant "I run" bash("pwd")"#,
        r#"Observation "/tmp""#,
        r#"Assistant "done""#,
        r#"User "thanks""#,
    ];
    assert_eq!(shown(&messages.to_string()).1, wanted);
    assert_eq!(shown(&serde_json::to_string_pretty(&messages).unwrap()).1, wanted);
    assert_eq!(shown(&json!({ "messages": messages, "info": 1 }).to_string()).1, wanted);
    assert_eq!(shown(&json!({ "messages": messages }).to_string()).0.id, "name");
    assert_eq!(shown(&json!({ "id": 7, "messages": messages }).to_string()).0.id, "7");
    // Calls and results as parts of the content.
    let parts = json!({ "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "go" }] },
        { "role": "assistant", "content": [
            { "type": "text", "text": "I look" },
            { "type": "tool_use", "name": "Read", "input": { "path": "a.rs" } },
        ] },
        { "role": "user", "content": [{ "type": "tool_result", "content": "fn main" }] },
    ] });
    assert_eq!(
        shown(&parts.to_string()).1,
        [r#"User "go""#, r#"Assistant "I look\n" Read("a.rs")"#, r#"Observation "fn main""#]
    );
}

/// A line as a transcript has it; nobody checks the sum here.
fn framed(value: &serde_json::Value) -> String {
    let json = value.to_string();
    format!("{:08x} 00000000 {json}\n", json.len())
}

fn head(protocol: &str) -> String {
    framed(
        &json!({ "version": 1, "protocol": protocol, "model": "m", "project": "/p", "writes": true }),
    )
}

fn answered(parts: serde_json::Value) -> String {
    framed(&json!({ "step": "answered", "answer": {
        "id": "a", "model": "m", "parts": parts, "broken_calls": [], "stop": "end",
        "usage": { "input": 100, "output": 5, "cache_read": 400, "cache_write": null, "reasoning": null },
    } }))
}

#[test]
fn a_transcript_of_our_own() {
    let asked = framed(&json!({ "step": "asked", "text": "go" }));
    let native = answered(json!([
        { "type": "text", "text": "I look" },
        { "type": "tool_call", "id": "c1", "name": "Edit",
            "arguments": { "path": "a.rs", "old_string": "a", "new_string": "b" } },
    ]));
    let observed = framed(&json!({ "step": "observed", "id": "o1", "call": "c1", "tool": "Edit",
        "envelope": { "status": "success", "data": { "diff": "-a\n+snake_case" } } }));
    let unknown = framed(&json!({ "step": "of a later version", "x": [1] }));
    let started = framed(&json!({ "step": "started", "call": "c1" }));
    let text = [head("native"), asked.clone(), native.clone(), started, unknown, observed].concat();
    let (session, messages) = shown(&text);
    assert_eq!((session.source.as_str(), session.over), ("baton", 500 - 4));
    assert_eq!(messages[..2], [r#"User "go""#, r#"Assistant "I look" Edit("a.rs\na\nb"; "a")"#]);
    assert!(messages[2].contains(r"-a\n+snake_case"), "{}", messages[2]);
    // Where the action is written in the text.
    for (protocol, said) in [
        ("json", r#"{"thought": "x", "tool": "Read", "arguments": {"path": "a.rs"}}"#),
        ("react", "Thought: x\nAction: Read[{\"path\": \"a.rs\"}]\nObservation: made up"),
    ] {
        let answer = answered(json!([{ "type": "text", "text": said }]));
        let session = shown(&format!("{}{asked}{answer}", head(protocol))).0;
        assert_eq!(session.messages[1].acts, [Act::new("Read", "a.rs")], "{protocol}");
    }
    // A compaction of its own is one like any other's.
    let compacted = framed(&json!({ "step": "compacted", "request": "x", "summary": "so far",
        "plan": { "strategy": "archive", "cut": 1, "fold": false, "shorten": false } }));
    let (_, messages) = shown(&[head("native"), asked.clone(), compacted].concat());
    assert_eq!(messages, [r#"User "go""#, r#"User "so far" summary"#]);
    // A run's journal has such lines, too.
    let journal = framed(&json!({ "sequence": 1, "event": "x" }));
    assert_eq!(import::file(&journal, "x").unwrap_err().code, "session-unknown");
    // A torn end is said with its line.
    let torn = format!("{}{asked}{}", head("native"), &native[..60]);
    let found = imported(&torn);
    assert_eq!((found.sessions[0].messages.len(), found.damaged), (1, 1));
    assert_eq!(found.first_damaged.unwrap().place.unwrap().line, 3);
}

#[test]
fn damaged_lines_are_counted() {
    let good = common().to_string();
    for (what, line, column) in [
        ("torn", &good[..good.len() / 2], None),
        ("no JSON", "hello", Some(1)),
        ("another thing", "{\"a\": 1}", None),
        ("a role that nobody knows", r#"{"msgs": [{"r": "robot", "t": ""}]}"#, None),
        ("a text that is none", r#"{"msgs": [{"r": "user", "t": 5}]}"#, None),
        ("a size below nothing", r#"{"over": -1, "msgs": []}"#, None),
        ("messages that are none", r#"{"msgs": 5}"#, None),
    ] {
        let text = format!("{good}\n\n{line}\n{good}\nx\n");
        let found = imported(&text);
        assert_eq!((found.sessions.len(), found.damaged), (2, 2), "{what}");
        let place = found.first_damaged.unwrap().place.unwrap();
        assert_eq!(place.line, 3, "{what}");
        assert!(column.is_none_or(|column| column == place.column), "{what}: {place:?}");
    }
    // The first line may be the damaged one.
    let found = imported(&format!("{}\n{good}\n{good}\n", &good[..50]));
    assert_eq!((found.sessions.len(), found.damaged), (2, 1));
    let event = json!({ "type": "user", "message": { "content": "go" } });
    let found = imported(&format!("{event}\n[1]\n{{\"type\n{event}"));
    assert_eq!((found.sessions[0].messages.len(), found.damaged), (2, 2));
    assert_eq!(found.first_damaged.unwrap().place.unwrap().line, 2);
}

#[test]
fn what_is_no_session_is_refused() {
    for text in [
        "",
        "\n\n",
        "hello\nworld",
        "{}",
        "[]",
        "[1, 2]",
        "null",
        "7",
        "\"x\"",
        "{\"messages\": []}",
        "{\"messages\": [1]}",
        "{\"messages\": {\"role\": \"user\"}}",
        "[{\"no\": 1}]",
        "{\"msgs\": 3}",
        "{\n  \"name\": \"package\"\n}\n",
        "{\"type\": \"user\"}",
    ] {
        assert!(import::file(text, "x").is_err(), "{text}");
    }
    // A document that is broken tells where.
    let problem = import::file("{\n  \"messages\": [\n    nonsense\n", "x").unwrap_err();
    assert_eq!((problem.code, problem.place.unwrap().line), ("session-json", 3));
    let deep = format!("{{\"messages\": {}", "[".repeat(200_000));
    assert!(import::file(&deep, "x").unwrap_err().message.contains("recursion"));
    let many = format!("{{\"messages\": [{}1]}}", "1,".repeat(5_000_000));
    assert_eq!(import::file(&many, "x").unwrap_err().code, "session-size");
    // Commas in a text are no values.
    let text = ",[{\\\"".repeat(1_000_000);
    let long = format!(r#"[{{"role": "assistant", "content": "{text}"}}]"#);
    assert_eq!(imported(&long).sessions[0].calls(), 1);
}

#[test]
fn half_of_a_surrogate_pair_is_replaced() {
    let line = |text: &str| format!(r#"{{"msgs": [{{"r": "user", "t": "{text}"}}]}}"#);
    for (written, read) in [
        (r"a\ud83db", "a\u{fffd}b"),
        (r"a\ud83d", "a\u{fffd}"),
        (r"\ude00\ud83d\ude00", "\u{fffd}\u{1f600}"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
        (r"\\ud83d \ud83d", "\\ud83d \u{fffd}"),
        (r"\u00e9\ud83d文", "é\u{fffd}文"),
    ] {
        assert_eq!(imported(&line(written)).sessions[0].messages[0].text, read, "{written}");
    }
    assert!(import::file(&line(r"\ud83d\u12"), "x").is_err());
}

#[test]
fn recordings_are_told_by_their_beginning() {
    for (head, may_be) in [
        ("{", true),
        (" \n\t[", true),
        ("\u{feff}{", true),
        ("0000001f 00000000 {", true),
        ("", false),
        ("hello", false),
        ("#!/bin/sh", false),
        ("0000001F 00000000 {", false),
    ] {
        assert_eq!(import::may_be_session(head.as_bytes()), may_be, "{head:?}");
    }
}

/// A text through everything; whether it was a recording.
pub(crate) fn survives(text: &str) -> bool {
    let Ok(imported) = import::file(text, "x") else { return false };
    assert_eq!(imported.damaged > 0, imported.first_damaged.is_some());
    for session in imported.sessions.into_iter().flat_map(Session::segments) {
        let prepared = Prepared::new(session);
        let full = replay::run(&prepared, Name::Full.policy().as_mut());
        assert_eq!(full.facts.seen, full.facts.needed);
        for name in ["mask:1", "mask:1/2", "last:1", "edit:1/0", "baton"] {
            let mut policy = Name::read(name).unwrap().policy();
            let sums = replay::run(&prepared, policy.as_mut());
            assert_eq!((sums.calls, sums.facts.needed), (full.calls, full.facts.needed));
            // Only Baton's own adds words to what it shows.
            assert!(name == "baton" || sums.tokens <= full.tokens);
        }
    }
    true
}

/// JSON of any shape, with keys that the formats know.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|own| json!(own)),
        any::<i64>().prop_map(|own| json!(own)),
        "[a-z_0-9文.]{0,12}".prop_map(|own| json!(own)),
        prop::sample::select(vec![
            "user",
            "assistant",
            "tool",
            "message",
            "tool_use",
            "tool_result",
            "text",
            "response_item",
            "function_call",
            "sys",
            "obs",
            "summary",
            "compacted"
        ])
        .prop_map(|own| json!(own)),
    ];
    let key = prop::sample::select(vec![
        "type",
        "role",
        "content",
        "message",
        "messages",
        "msgs",
        "r",
        "t",
        "a",
        "n",
        "args",
        "old",
        "history",
        "llm_interactions",
        "input_messages",
        "response",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "payload",
        "text",
        "input",
        "usage",
        "input_tokens",
        "over",
        "id",
        "edits",
        "old_string",
        "extra",
        "actions",
        "is_demo",
        "action",
        "thought",
        "tool_result",
        "result",
    ]);
    leaf.prop_recursive(5, 60, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::Array),
            prop::collection::vec((key.clone(), inner), 0..8).prop_map(|pairs| {
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    /// Whatever its keys hold: a session or a refusal, never a panic.
    #[test]
    fn any_shape_of_json_is_survived(values in prop::collection::vec(any_json(), 1..6)) {
        survives(&lines(&values));
        survives(&values[0].to_string());
        let wrapped = |key: &str| json!({ key: values }).to_string();
        for key in ["messages", "msgs", "history", "llm_interactions"] {
            survives(&wrapped(key));
        }
        let frames: String = values.iter().map(framed).collect();
        survives(&format!("{}{frames}", head("react")));
    }

    /// A recording that is cut anywhere: what is whole of it is read.
    #[test]
    fn a_cut_recording_is_survived(at in 0usize..400, other in any::<char>()) {
        let whole = lines(&[common(), common()]);
        let at = (0..=at.min(whole.len())).rev().find(|at| whole.is_char_boundary(*at)).unwrap();
        survives(&whole[..at]);
        survives(&format!("{}{other}{}", &whole[..at], &whole[at..]));
    }
}

/// The limit of the measure that docs/lab.md names: recall across compactions is lower for it than
/// the agents saw.
#[test]
fn lines_around_the_hits_of_a_search_count_as_other_lines() {
    let line = "    today := time.Date(2026, 1, 22, 10, 0, 0, 0, time.UTC)";
    let of = |before: &str| baton_core::fact::of_line(&format!("{before}{line}"));
    assert!(of("").is_some());
    for same in ["1084:", "1084\t", "  1084→"] {
        assert_eq!(of(same), of(""), "{same}");
    }
    assert_ne!(of("1084-"), of(""));
}
