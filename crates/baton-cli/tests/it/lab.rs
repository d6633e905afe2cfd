//! `baton lab` as a person uses it: small recordings in real folders.

use std::fs;
use std::io::Write;

use baton_testkit::{Answer, Place, answer_to};
use serde_json::{Value, json};

fn lab(place: &Place, args: &str) -> Answer {
    lab_on(place, args, b"")
}

fn lab_on(place: &Place, args: &str, input: &[u8]) -> Answer {
    let args: Vec<&str> = ["lab"].into_iter().chain(args.split_whitespace()).collect();
    answer_to(place.plain(&args), input)
}

/// Twelve results of 100 tokens after 2000 of instructions; the last action needs what the first and
/// the last result told.
fn session(id: &str) -> String {
    let mut messages = vec![json!({ "r": "user", "t": "go" })];
    for number in 0..12 {
        let acts = json!([{ "n": "Read", "args": "x" }]);
        messages.push(json!({ "r": "assistant", "t": "", "a": acts }));
        let told = format!("{:<384}", format!("known_fact_{number}"));
        messages.push(json!({ "r": "obs", "t": told }));
    }
    let acts = json!([{ "n": "Edit", "args": "known_fact_0 known_fact_11" }]);
    messages.push(json!({ "r": "assistant", "t": "", "a": acts }));
    format!("{}\n", json!({ "id": id, "source": "hand", "over": 2000, "msgs": messages }))
}

fn packed(text: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

#[test]
fn a_table_and_an_answer() {
    let place = Place::new(crate::BATON);
    place.write("s.jsonl", session("one") + &session("two"));
    let answer = lab(&place, "s.jsonl --policy full,mask:10,mask:10/20");
    assert_eq!((answer.code, answer.errors.as_str()), (0, ""), "{}", answer.out);
    insta::assert_snapshot!(answer.out, @r#"
    2 sessions from 1 file: 26 calls, 4 facts needed by the agent's actions.

    policy      recall  first use  old    steps ok  tokens/call  peak  cached  cost  with fetching
    full        1.000   1.000      1.000  1.000     2634         3264  90.5 %  1.00  1.00
    mask:10     0.500   0.500      0.000  0.000     2614         3092  84.8 %  1.23  1.40
    mask:10/20  1.000   1.000      1.000  1.000     2634         3264  90.5 %  1.00  1.00

    policy      false references  never shown  cut, announced  lost user messages
    full        0                 0            0               0
    mask:10     0                 0            0               0
    mask:10/20  0                 0            0               0

    `mask:10/20` would have cost the same as sending everything; it would have forgotten none of the 4 needed facts.
    "#);
}

#[test]
fn four_policies_without_a_word() {
    let place = Place::new(crate::BATON);
    place.write("s.jsonl", session("one"));
    let json = lab(&place, "s.jsonl --json").json();
    let names: Vec<&str> = json["policies"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|own| own["policy"].as_str())
        .collect();
    assert_eq!(names, ["full", "mask:10", "mask:10/20", "baton"]);
    let answer = lab(&place, "s.jsonl");
    assert!(answer.out.contains("\nBaton would have cost "), "{}", answer.out);
}

#[test]
fn figures_for_programs() {
    let place = Place::new(crate::BATON);
    place.write("s.jsonl", session("one"));
    let json = lab(&place, "s.jsonl --policy mask:10,mask:10 --json").json();
    let policies = json["policies"].as_array().unwrap();
    let names: Vec<&str> = policies.iter().map(|own| own["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["full", "mask:10"], "the base is added, doubles are not");
    for policy in policies {
        let keys: Vec<&str> =
            policy.as_object().unwrap().keys().map(String::as_str).take(12).collect();
        assert_eq!(
            keys,
            [
                "policy",
                "nfr",
                "nfr_first",
                "nfr_old",
                "steps_ok",
                "tokens_per_call",
                "peak",
                "hit_rate",
                "relative_cost",
                "adj",
                "cross",
                "cross_first",
            ]
        );
        assert_eq!(policy["cross"], Value::Null, "nothing was needed across a compaction");
    }
    let (full, masked) = (&policies[0], &policies[1]);
    assert_eq!(
        (&full["nfr"], &full["relative_cost"], &full["adj"]),
        (&json!(1.0), &json!(1.0), &json!(1.0))
    );
    // Of two facts the older is gone; it is eleven results old.
    assert_eq!((&masked["nfr"], &masked["nfr_old"]), (&json!(0.5), &json!(0.0)));
    assert_eq!(
        (&masked["steps_ok"], &masked["needed"], &masked["seen"]),
        (&json!(0.0), &json!(2), &json!(1))
    );
    assert_eq!(
        (&json["sessions"], &json["calls"], &json["damaged"]),
        (&json!(1), &json!(13), &json!([]))
    );
    // Nothing is needed by a session without acts.
    place.write(
        "talk.json",
        r#"[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hi"}]"#,
    );
    let json = lab(&place, "talk.json --policy full --json").json();
    assert_eq!(
        (&json["policies"][0]["nfr"], &json["policies"][0]["adj"]),
        (&Value::Null, &json!(1.0))
    );
}

#[test]
fn folders_packed_files_and_standard_input() {
    let place = Place::new(crate::BATON);
    place.write("all/a/s.jsonl.gz", packed(&(session("one") + &session("two"))));
    place.write("all/b/no-name", session("three"));
    place.write("all/b/notes.md", "# notes");
    place.write("all/package.json", "{\n  \"name\": \"x\"\n}");
    place.write("all/empty", "");
    place.write("all/.git/s.jsonl", session("four"));
    let json = lab(&place, "all --policy full --json").json();
    assert_eq!(
        (&json["sessions"], &json["files"], &json["passed_over"]),
        (&json!(3), &json!(2), &json!(3))
    );
    let json = lab_on(&place, "- --policy full --json", &packed(&session("one"))).json();
    assert_eq!(json["sessions"], 1);
    // Two packed files behind one another are one.
    place.write("two.gz", [packed(&session("one")), packed(&session("two"))].concat());
    assert_eq!(lab(&place, "two.gz --policy full --json").json()["sessions"], 2);
}

#[test]
fn sessions_are_chosen() {
    let place = Place::new(crate::BATON);
    let cut = session("cut").replace(
        "{\"r\":\"obs\",\"t\":\"known_fact_5 ",
        "{\"r\":\"summary\",\"t\":\"so far\"},{\"r\":\"obs\",\"t\":\"known_fact_5 ",
    );
    place.write("s.jsonl", session("whole") + &cut);
    let count = |args: &str| {
        let json = lab(&place, &format!("s.jsonl --policy full --json {args}")).json();
        (
            json["sessions"].as_u64().unwrap_or_default(),
            json["left_out"].as_u64().unwrap_or_default(),
        )
    };
    assert_eq!(count(""), (2, 0));
    assert_eq!(count("--compacted"), (1, 1));
    assert_eq!(count("--segments"), (3, 0));
    assert_eq!(count("--segments --min-calls 7"), (2, 1));
    assert_eq!(count("--segments --compacted"), (2, 1));
    let answer = lab(&place, "s.jsonl --policy full --min-calls 99");
    assert_eq!(answer.code, 2, "{}", answer.out);
    insta::assert_snapshot!(answer.errors, @r#"
    error: 2 sessions found, none with 99 answers or more
      `--min-calls` asks for fewer
    "#);
}

#[test]
fn damaged_lines_are_said_and_stop_nothing() {
    let place = Place::new(crate::BATON);
    let good = session("one");
    place.write("s.jsonl", format!("{good}\n{{\"id\": \"torn\n{good}also this\n"));
    let answer = lab(&place, "s.jsonl --policy full");
    assert_eq!(answer.code, 0);
    insta::assert_snapshot!(answer.errors, @"s.jsonl:3:12: warning: lines that were passed over: 2; the first: this cannot be read: EOF while parsing a string");
    let json = lab(&place, "s.jsonl --policy full --json").json();
    assert_eq!(json["damaged"], json!([{ "file": "s.jsonl", "lines": 2, "first_line": 3 }]));
    assert_eq!(json["sessions"], 2);
    // A packed file that was cut: what came before counts.
    let whole = packed(&good.repeat(300));
    place.write("cut.gz", &whole[..whole.len() / 2]);
    let json = lab(&place, "cut.gz --policy full --json").json();
    assert!(json["sessions"].as_u64().unwrap() > 5, "{json}");
    assert_eq!(json["damaged"][0]["lines"], 1);
}

#[test]
fn what_is_wrong_is_explained() {
    let place = Place::new(crate::BATON);
    place.write("notes.md", "# notes\n");
    place.write("s.jsonl", session("one"));
    place.write("empty/x", "");
    for (args, code) in [
        ("nowhere.jsonl", 2),
        ("notes.md --policy full", 3),
        ("empty --policy full", 2),
        ("s.jsonl --policy full,msk:10", 2),
        ("s.jsonl --policy full --plot picture.png", 2),
        ("s.jsonl --policy full --plot no/such/folder/x.svg", 1),
        ("", 2),
    ] {
        let answer = lab(&place, args);
        assert_eq!(answer.code, code, "{args}: {}", answer.errors);
        assert!(answer.out.is_empty() && !answer.errors.is_empty(), "{args}: {}", answer.out);
    }
    // A wrong file beside a long one: everything ends, and nothing waits for ever.
    place.write("long.jsonl", session("one").repeat(300));
    assert_eq!(lab(&place, "long.jsonl notes.md long.jsonl --policy full").code, 3);
    assert_eq!(lab(&place, "notes.md long.jsonl --policy full").code, 3);
    let explained: String = ["notes.md", "s.jsonl --policy msk:10", "s.jsonl --plot x.png"]
        .map(|args| format!("$ {args}\n{}", lab(&place, &format!("{args} --policy full")).errors))
        .concat();
    insta::assert_snapshot!(explained, @r#"
    $ notes.md
    notes.md:1:1: error: this is not a recorded session
        expected a Baton transcript, a Claude Code or Codex `.jsonl`, an SWE-agent `.traj`, a TRAE `trajectory.json`, a list of OpenAI messages, or lines of `{"id", "over", "msgs"}`
    error: notes.md has 1 problem
      a file that was named must be a recording; in a folder others are passed over
    $ s.jsonl --policy msk:10
    --policy: error: `msk:10` is not a policy
        expected one of `full`, `mask:10`, `mask:10/20`, `last:20`, `edit:100k/3`, `baton`
        did you mean `mask:10`?
    error: --policy has 1 problem
    $ s.jsonl --plot x.png
    --plot: error: this kind of picture is not known
        expected one of `.svg`, `.html`
    error: --plot has 1 problem
    "#);
}

#[test]
fn a_picture_is_drawn() {
    let place = Place::new(crate::BATON);
    place.write("s.jsonl", session("one"));
    let names = "full,mask:10,mask:10/20,mask:9,mask:8,last:10,edit:1/3";
    for (file, start) in [("a.svg", "<svg "), ("a.HTML", "<!doctype html>")] {
        let answer = lab(&place, &format!("s.jsonl --policy {names} --plot {file}"));
        assert_eq!(answer.code, 0, "{}", answer.errors);
        assert!(answer.out.contains(&format!("Drawn into {file}.")), "{}", answer.out);
        let picture = fs::read_to_string(place.root().join(file)).unwrap();
        assert!(picture.starts_with(start) && picture.contains("</svg>"), "{picture}");
        // A name a policy, none on another.
        let mut heights = Vec::new();
        for name in names.split(',') {
            let line = picture.lines().find(|line| line.contains(&format!(">{name}: recall ")));
            let height = line.unwrap().split("y=\"").nth(1).unwrap().split('"').next().unwrap();
            heights.push(height.parse::<f64>().unwrap());
        }
        heights.sort_by(f64::total_cmp);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 19.9), "{heights:?}");
        assert_eq!(picture.matches("<circle").count(), 7);
    }
    // Where nothing was needed there is nothing to draw, and it is said.
    place.write("talk.json", r#"[{"role": "assistant", "content": "hi"}]"#);
    assert_eq!(lab(&place, "talk.json --policy full --plot b.svg").code, 0);
    let picture = fs::read_to_string(place.root().join("b.svg")).unwrap();
    assert!(picture.contains("no action needed a fact"));
}

/// A result is read twice, and the user says something in between that is not in the first words.
fn twice_read() -> String {
    let file: String =
        (1..40).map(|n| format!("{n}\tlet value_{n} = compute_{n}(all);\n")).collect();
    let acts = json!([{ "n": "Read", "args": "a.rs" }]);
    let asks = json!({ "r": "assistant", "t": "", "a": acts });
    let told = json!({ "r": "obs", "t": file });
    let talk = [
        json!({ "r": "user", "t": "go" }),
        asks.clone(),
        told.clone(),
        json!({ "r": "user", "t": "Mind the second part." }),
        asks.clone(),
        told,
        asks,
        json!({ "r": "assistant", "t": "done" }),
    ];
    format!("{}\n", json!({ "id": "twice", "source": "hand", "over": 0, "msgs": talk }))
}

#[test]
fn what_is_false_or_missing_is_counted_with_its_first_place() {
    let place = Place::new(crate::BATON);
    place.write("s.jsonl", session("one") + &twice_read() + &twice_read());
    let answer = lab(&place, "s.jsonl --policy full,mask:0,last:1");
    assert_eq!(answer.code, 0, "{}", answer.errors);
    let from = answer.out.find("policy  false").unwrap();
    let (table, _) = answer.out[from..].split_once("\n\n`mask:0` would").unwrap();
    insta::assert_snapshot!(table, @r"
    policy  false references  never shown  cut, announced  lost user messages
    full    0                 0            0               0
    mask:0  0                 16           0               0
    last:1  0                 0            0               2

    mask:0: first result never shown: session one, call 2: o1: known_fact_0
    last:1: first lost user message: session twice, call 3: Mind the second part.
    ");
    let json = lab(&place, "s.jsonl --policy mask:0,last:1 --json").json();
    let [full, masked, last] = [0, 1, 2].map(|at| &json["policies"][at]);
    assert_eq!((&full["false_references"], &full["never_shown"]), (&json!(0), &json!(0)));
    assert_eq!(full["first_places"]["never_shown"], Value::Null);
    assert_eq!((&masked["never_shown"], &masked["cut_announced"]), (&json!(16), &json!(0)));
    assert_eq!(masked["first_places"]["never_shown"]["session"], "one");
    assert_eq!(last["lost_user_messages"], 2);
    let first = &last["first_places"]["lost_user_messages"];
    assert_eq!(first, &json!({ "session": "twice", "call": 3, "quote": "Mind the second part." }));
}

#[test]
fn a_check_is_about_batons_own_requests() {
    let place = Place::new(crate::BATON);
    place.write("good.jsonl", session("one"));
    let answer = lab(&place, "good.jsonl --policy mask:0,baton --check");
    assert_eq!((answer.code, answer.errors.as_str()), (0, ""), "{}", answer.out);
    let answer = lab(&place, "good.jsonl --policy mask:0 --check");
    assert_eq!(answer.code, 2);
    assert!(answer.errors.contains("`--check` is about the policy `baton`"), "{}", answer.errors);
}

#[test]
fn help_teaches() {
    let answer = lab(&Place::new(crate::BATON), "--help");
    assert_eq!(answer.code, 0);
    for word in
        ["needed-fact recall", "Examples:", "mask:K/B", "edit:T/K", ".traj", "No model is called"]
    {
        assert!(answer.out.contains(word), "{word}: {}", answer.out);
    }
}
