//! Every parser on every kind of hostile text: an answer, no panic, bounded work.

use baton_core::config::Config;
use baton_core::decision::{self, Moment};
use baton_core::document::Document;
use baton_core::pack::{self, Files, Manifest};
use baton_core::plan::{Plan, parse_statements};
use baton_core::policy::Policy;
use baton_core::report::{self, Expected};
use baton_core::{history, mention, text, tokens};

use crate::common;

/// Every parser of the core on one input. Used by the fuzz targets too.
pub(crate) struct Parsers {
    pack: baton_core::pack::Pack,
}

pub(crate) const PARSERS: [&str; 13] = [
    "report",
    "plan",
    "statements",
    "decision",
    "history",
    "policy",
    "manifest",
    "config",
    "prompt",
    "observation",
    "mention",
    "recording",
    "package",
];

impl Parsers {
    pub(crate) fn new() -> Parsers {
        Parsers { pack: common::pack("tdd", "zh") }
    }

    /// Whether the input was accepted.
    pub(crate) fn run(&self, parser: &str, input: &[u8]) -> bool {
        let agents = self.pack.manifest.agent_names();
        let text = String::from_utf8_lossy(input);
        let rules = &self.pack.policy;
        match parser {
            "report" => {
                let expected = Expected { agent: agents[0].clone(), iteration: None };
                report::read(input, &rules.report_rules, &expected).is_ok()
            }
            "plan" => Plan::read(&text, &rules.plan).is_ok(),
            "statements" => parse_statements(&text).is_ok(),
            "decision" => decision::read(&text, &agents, Moment::FinishCheck).is_ok(),
            "history" => {
                let blocks = history::read(&text);
                let problems = history::check(&blocks);
                blocks.len() + problems.len() > 0
            }
            "policy" => Document::json(&text).is_ok_and(|document| Policy::read(&document).is_ok()),
            "manifest" => {
                let files = Files::from([(pack::MANIFEST.to_owned(), text.into_owned())]);
                Manifest::read(&files).is_ok()
            }
            "config" => Document::toml(&text).is_ok_and(|document| Config::read(&document).is_ok()),
            "prompt" => self.pack.prompt_problems(&agents[0], &text).is_empty(),
            "observation" => crate::observations::survives(&text),
            "recording" => crate::lab::survives(&text),
            "package" => baton_core::handoff::package::read(&text).is_ok(),
            "mention" => !mention::find(&text, |_| mention::Target::File).paths.is_empty(),
            other => panic!("no parser {other}"),
        }
    }
}

fn hostile_inputs() -> Vec<(&'static str, Vec<u8>)> {
    let line = |part: &str, bytes: usize| part.repeat(bytes / part.len()).into_bytes();
    let mut inputs = vec![
        ("empty", Vec::new()),
        ("one newline", b"\n".to_vec()),
        ("10 MB in one line", line("a", 10 << 20)),
        ("3 MB in one line", line("a", 3 << 20)),
        ("3 MB of spaces", line(" ", 3 << 20)),
        ("3 MB of newlines", line("\n", 3 << 20)),
        ("1 MB of lone CR", line("\r", 1 << 20)),
        ("NUL bytes", vec![0; 4096]),
        ("invalid UTF-8", vec![0xff; 4096]),
        ("a byte order mark alone", "\u{feff}".into()),
        ("a byte order mark and text", "\u{feff}iteration: 7\n结论：PASS\n阻塞：无\n".into()),
        ("CRLF", "iteration: 7\r\n结论：PASS\r\n阻塞：无\r\n".into()),
        ("lone CR", "iteration: 7\r结论：PASS\r阻塞：无\r".into()),
        ("bidi", "iteration: 7\n结论：\u{202e}SSAP\u{202c}\n阻塞：无\n".into()),
        ("zero width", "iteration: 7\n结论：PA\u{200b}SS\n阻塞：无\n".into()),
        ("100k-deep JSON lists", line("[", 100_000)),
        ("100k-deep JSON objects", line("{\"a\":", 500_000)),
        ("100k-deep TOML lists", [b"a = ".to_vec(), line("[", 100_000)].concat()),
        ("100k dotted TOML keys", [line("a.", 200_000), b"a = 1".to_vec()].concat()),
        ("duplicate keys", br#"{"next_agent":"TEST","next_agent":"DEV"}"#.to_vec()),
        ("a number too large", br#"{"next_agent":1e999}"#.to_vec()),
        ("a long number", [b"{\"a\":".to_vec(), line("9", 900_000), b"}".to_vec()].concat()),
        ("a lone surrogate", br#"{"next_agent":"\ud800"}"#.to_vec()),
        ("a string never closed", [b"{\"a\":\"".to_vec(), line("\\n", 900_000)].concat()),
        ("many keys", {
            let keys: Vec<String> = (0..60_000).map(|n| format!("\"k{n}\":0")).collect();
            format!("{{{}}}", keys.join(",")).into_bytes()
        }),
        (
            "brackets in a blocker",
            ["iteration: 7\n结论：FAIL\n阻塞：".into(), line("[", 3 << 20)].concat(),
        ),
        (
            "tags in a blocker",
            ["iteration: 7\n结论：FAIL\n阻塞：".into(), line("[x]", 3 << 20)].concat(),
        ),
        ("a fence never closed", [b"```\n".to_vec(), line("x\n", 1 << 20)].concat()),
        ("many fences", line("```\n~~~\n", 1 << 20)),
        ("many emphasis marks", line("**", 1 << 20)),
        ("many blockers", ["阻塞：\n".into(), line("- x\n", 1 << 20)].concat()),
        ("many tasks", line("### A1: x\n", 1 << 20)),
        ("many milestones", line("## Milestone M1: x\n", 1 << 20)),
        (
            "many different milestones",
            (0..60_000).flat_map(|n| format!("## M{n}: x\n").into_bytes()).collect(),
        ),
        (
            "a list of many words",
            format!("{{\"plan\":{{\"statuses\":[{}]}}}}", vec!["\"A\""; 200_000].join(","))
                .into_bytes(),
        ),
        ("key letters", line("i\nv\nb\n结\n阻\n1\n", 3 << 20)),
        (
            "a blocker of many words",
            ["iteration: 7\n结论：FAIL\n阻塞：".into(), line("no ", 3 << 20)].concat(),
        ),
        ("many fields", ["### M1-T1: x\n".into(), line("- status: TODO\n", 1 << 20)].concat()),
        ("a deep field", ["### M1-T1: x\n- a:\n".into(), line("  - b\n", 1 << 20)].concat()),
        ("many statements", line("update M1-T1 status to DONE;", 1 << 20)),
        ("many semicolons", line(";", 1 << 20)),
        ("many iterations", line("## Iteration 1: x\n", 1 << 20)),
        ("many goals", line("## Task Goal - 2026-01-01T00:00:00\n## x\n", 1 << 20)),
        ("many backticks", line("`a:`", 1 << 20)),
        ("an open comment", line("<!-- x\n", 1 << 20)),
        ("wide text", line("阻塞", 3 << 20)),
    ];
    inputs.push(("terminal escapes", b"\x1b[31miteration: 7\x1b[0m\n\x1b]0;x\x07".to_vec()));
    inputs
}

#[test]
fn every_parser_survives_every_hostile_input() {
    let parsers = Parsers::new();
    for (name, input) in hostile_inputs() {
        for parser in PARSERS {
            // No outcome is asserted here; not panicking and coming back is the promise.
            let _ = parsers.run(parser, &input);
            let _ = name;
        }
    }
}

#[test]
fn the_tokenizer_comes_back_from_long_runs() {
    for part in ["a", " ", "\n", "中", "\0"] {
        let text = part.repeat((2 << 20) / part.len());
        assert!(tokens::count(&text).0 > 0);
    }
}

#[test]
fn what_is_shown_never_holds_a_control_or_bidi_character() {
    let raw = "a\x1b[31m\u{202e}b\u{200b}\u{2066}\r\n\t\u{feff}中文";
    let shown = text::shown(raw, 100);
    assert!(shown.chars().all(|c| !c.is_control() && !text::is_invisible(c)), "{shown}");
    insta::assert_snapshot!(shown, @r"a\u{1b}[31m\u{202e}b\u{200b}\u{2066}\r\n\t\u{feff}中文");
    insta::assert_snapshot!(text::shown("中文很长", 2), @"中文…");
    assert_eq!(text::escaped("a\nb\tc\u{1b}d"), "a\nb\tc\\u{1b}d");
}

#[test]
fn text_full_of_unfinished_escapes_is_stripped_in_linear_time() {
    for piece in ["\u{1b}]", "\u{1b}[", "\u{1b}P\u{1b}", "\u{9d}x", "\u{1b}]0;a\n"] {
        let text = piece.repeat(4_000_000 / piece.len());
        let plain = baton_core::text::stripped(&text);
        assert!(plain.chars().all(|c| !c.is_control() || c == '\n'), "{piece:?}");
    }
    assert_eq!(
        baton_core::text::stripped("a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7}b"),
        "alinkb"
    );
    assert_eq!(baton_core::text::stripped("\u{1b}[1;31mred\u{1b}[0m\u{1b}(B\r\nok"), "red\nok");
}
