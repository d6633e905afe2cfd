//! The checker of requests: each rule of the format by its text, and generated conversations.

use std::borrow::Cow;

use baton_core::fold::Settings;
use baton_core::id::ObservationId;
use baton_core::lab::truth::{self, SentResult, Verdict};
use baton_core::message::{Message, Part, Role, ToolCall};
use baton_core::messages::Language;
use baton_core::observation::{self, Envelope, Status, plain};
use baton_core::thread::compact;
use baton_core::thread::{Item, Results, Seen, Thread};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Judges a request in which the first result is sent as it was returned.
fn verdict_after(first: &str, sent: &str, returned: &str) -> Verdict {
    let results = [(1, first, first), (2, sent, returned)];
    verdicts(&results).pop().unwrap()
}

/// Judges results: number, as sent, as returned.
fn verdicts(results: &[(u32, &str, &str)]) -> Vec<Verdict> {
    let request: Vec<SentResult<'_>> =
        results.iter().map(|(id, text, _)| SentResult { id: ObservationId(*id), text }).collect();
    let returned = |id: ObservationId| {
        let own = results.iter().find(|(number, ..)| *number == id.0);
        own.map(|(.., text)| Cow::Borrowed(*text))
    };
    truth::judge(&request, returned).into_iter().map(|(_, verdict)| verdict).collect()
}

/// Lines with the numbers from this one on: `1\tline 1`.
fn numbered(from: u32, texts: &[&str]) -> String {
    let line = |(number, text): (u32, &&str)| format!("{number}\t{text}");
    (from..).zip(texts).map(line).collect::<Vec<_>>().join("\n")
}

fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::False(falsehood) => &falsehood.reason,
        _ => "",
    }
}

const FIVE: [&str; 5] = ["fn a() {", "    one();", "    two();", "    three();", "}"];

#[test]
fn a_result_as_it_was_returned_is_whole() {
    for text in
        ["", "\n", "one line", "[folded o2: it looks so]", "[lines 1-2: same as o1 lines 1-2]"]
    {
        assert_eq!(verdict_after("x", text, text), Verdict::Whole, "{text}");
    }
}

#[test]
fn any_other_text_is_false_and_the_place_is_told() {
    for (sent, returned, line, quote) in [
        ("a\nB\nc", "a\nb\nc", 2, "B"),
        ("a\nb\nc\nd", "a\nb\nc", 4, "d"),
        ("a\nb", "a\nb\nc", 2, "c"),
        ("a\nb", "a\nb\n", 2, ""),
        ("", "a", 1, ""),
        ("[120-187 as in o1]", "120\tx", 1, "[120-187 as in o1]"),
        ("[13 lines as above]\nz", "a\nz", 1, "[13 lines as above]"),
        ("a\n[... 900 chars omitted ...]\nb", "a\nx\nb", 2, "[... 900 chars omitted ...]"),
    ] {
        let Verdict::False(falsehood) = verdict_after("120\tx", sent, returned) else {
            panic!("{sent:?} passes for {returned:?}");
        };
        assert_eq!((falsehood.line, falsehood.quote.as_str()), (line, quote), "{sent:?}");
    }
    let long = "x".repeat(500);
    let Verdict::False(falsehood) = verdict_after("", &long, "y") else { panic!("it passes") };
    assert_eq!(falsehood.quote.chars().count(), truth::QUOTE);
    assert_eq!(truth::quote(&"\t".repeat(100)).chars().count(), truth::QUOTE);
    assert_eq!(truth::quote(&"x".repeat(120)), "x".repeat(120));
}

#[test]
fn a_result_that_no_tool_returned_is_false() {
    let request = [SentResult { id: ObservationId(7), text: "x" }];
    let verdicts = truth::judge(&request, |_| None);
    assert_eq!(verdicts[0].0, ObservationId(7));
    assert_eq!(reason(&verdicts[0].1), "no tool returned o7");
}

#[test]
fn a_reference_stands_for_lines_of_an_earlier_result() {
    let first = numbered(1, &FIVE);
    let shifted = numbered(11, &["// new", FIVE[1], FIVE[2], FIVE[3], "end"]);
    let sent = "11\t// new\n[lines 12-14: same as o1 lines 2-4]\n15\tend";
    assert_eq!(verdict_after(&first, sent, &shifted), Verdict::Whole);
    // The whole of it, and the last line alone.
    let all = numbered(1, &FIVE);
    assert_eq!(verdict_after(&first, "[lines 1-5: same as o1 lines 1-5]", &all), Verdict::Whole);
    let last = format!("{}\n[lines 5-5: same as o1 lines 5-5]", numbered(1, &FIVE[..4]));
    assert_eq!(verdict_after(&first, &last, &all), Verdict::Whole);
}

#[test]
fn a_reference_keeps_the_width_and_the_mark_of_the_numbers() {
    let cases = [
        // The source, what the reference is expected to give as lines 98-100.
        ("    7→a\n    8→b\n    9→c", "   98→a\n   99→b\n  100→c", true),
        ("    7→a\n    8→b\n    9→c", "98→a\n99→b\n100→c", false),
        ("7|a\n8|b\n9|c", "98|a\n99|b\n100|c", true),
        ("7:a\n8:b\n9:c", "98:a\n99:b\n100:c", true),
        ("7:a\n8:b\n9:c", " 98:a\n 99:b\n100:c", false),
        ("7\ta\n8\tb\n9\tc", "98|a\n99|b\n100|c", false),
        (" 7\ta\n 8\tb\n 9\tc", "98\ta\n99\tb\n100\tc", true),
        ("7\ta\r\n8\tb\r\n9\tc\r", "98\ta\r\n99\tb\r\n100\tc\r", true),
        ("7\ta\r\n8\tb\r\n9\tc\r", "98\ta\n99\tb\n100\tc", false),
    ];
    for (first, returned, is_true) in cases {
        let verdict = verdict_after(first, "[lines 98-100: same as o1 lines 7-9]", returned);
        assert_eq!(verdict == Verdict::Whole, is_true, "{first:?} {returned:?}: {verdict:?}");
    }
}

#[test]
fn a_reference_to_what_is_not_there_is_false() {
    let first = numbered(1, &FIVE);
    let all = numbered(1, &FIVE);
    for (sent, expected) in [
        ("[lines 1-5: same as o3 lines 1-5]", "o3 is not whole earlier in this request"),
        ("[lines 1-5: same as o2 lines 1-5]", "o2 is not whole earlier in this request"),
        ("[lines 1-5: same as o1 lines 2-6]", "o1 does not show lines 2-6"),
        ("[lines 1-5: same as o1 lines 1-4]", "its two ranges differ in length"),
        ("[lines 2-5: same as o1 lines 2-5]", "line 2 of the result is another one"),
        ("[lines 1-4: same as o1 lines 1-4]", "this line is missing"),
        ("[lines 5-1: same as o1 lines 5-1]", "the tool did not return this here"),
        ("[lines 01-5: same as o1 lines 1-5]", "the tool did not return this here"),
        (" [lines 1-5: same as o1 lines 1-5]", "the tool did not return this here"),
        ("[lines 1-5: same as o1 lines 1-5].", "the tool did not return this here"),
        (
            "[lines 1-4294967295: same as o1 lines 1-4294967295]",
            "the tool did not return this here",
        ),
    ] {
        assert_eq!(reason(&verdict_after(&first, sent, &all)), expected, "{sent}");
    }
}

#[test]
fn lines_in_another_order_are_not_the_same() {
    let first = numbered(1, &["b", "a", "c", "d"]);
    let returned = numbered(1, &["a", "b", "c", "d"]);
    let verdict = verdict_after(&first, "[lines 1-4: same as o1 lines 1-4]", &returned);
    assert_eq!(reason(&verdict), "line 1 of the result is another one");
}

#[test]
fn a_reference_to_a_line_that_is_itself_a_reference_is_false() {
    let text = numbered(1, &FIVE);
    let again = "[lines 1-5: same as o1 lines 1-5]";
    let chained = "[lines 1-5: same as o2 lines 1-5]";
    let found = verdicts(&[(1, &text, &text), (2, again, &text), (3, chained, &text)]);
    assert_eq!(found[..2], [Verdict::Whole, Verdict::Whole]);
    assert_eq!(reason(&found[2]), "o2 does not show lines 1-5");
    // A run that a reference interrupts is broken, too.
    let partly = "1\tfn a() {\n[lines 2-4: same as o1 lines 2-4]\n5\t}";
    let found = verdicts(&[(1, &text, &text), (2, partly, &text), (3, chained, &text)]);
    assert_eq!(reason(&found[2]), "o2 does not show lines 1-5");
    let ends =
        "[lines 1-1: same as o2 lines 1-1]\n2\t    one();\n3\t    two();\n4\t    three();\n5\t}";
    let found = verdicts(&[(1, &text, &text), (2, partly, &text), (3, ends, &text)]);
    assert_eq!(found[2], Verdict::Whole, "what it shows itself may be named");
}

#[test]
fn a_reference_to_a_folded_or_cut_line_is_false() {
    let text = numbered(1, &FIVE);
    let stub = "[folded o1: Read a.rs, success]\n2\t    one();\n3\t    two();";
    let sent = format!("1\t{}\n[lines 2-3: same as o1 lines 2-3]\n4\t    three();\n5\t}}", FIVE[0]);
    let found = verdicts(&[(1, stub, &text), (2, &sent, &text)]);
    assert_eq!(found[0], Verdict::Stub);
    assert_eq!(reason(&found[1]), "o1 is not whole earlier in this request");
    let cut = "1\tfn a() {\n[lines 2-3 are left out here; Recall o1 from=2 lines=2]\n4\t    three();\n5\t}";
    let found = verdicts(&[(1, cut, &text), (2, &sent, &text)]);
    assert_eq!(found[0], Verdict::Cut);
    assert_eq!(reason(&found[1]), "o1 does not show lines 2-3");
    let kept = format!("{}\n[lines 4-5: same as o1 lines 4-5]", numbered(1, &FIVE[..3]));
    let found = verdicts(&[(1, cut, &text), (2, &kept, &text)]);
    assert_eq!(found[1], Verdict::Whole, "the lines that a cut leaves may be named");
}

#[test]
fn a_reference_that_fits_two_places_is_false() {
    let first = "a.rs\n3:x\n4:y\nb.rs\n3:X\n4:y";
    let sent = "[lines 3-4: same as o1 lines 3-4]";
    let verdict = verdict_after(first, sent, "3:x\n4:y");
    assert_eq!(reason(&verdict), "o1 has two places with lines 3-4");
    let verdict = verdict_after(&first.replace('X', "x"), sent, "3:x\n4:y");
    assert_eq!(verdict, Verdict::Whole, "both say the same");
}

#[test]
fn a_cut_names_exactly_what_is_missing() {
    let plain = "one\ntwo\nthree\nfour\nfive\n";
    let own = numbered(118, &FIVE);
    let cases = [
        ("one\n[lines 2-4 are left out here; Recall o2 from=2 lines=3]\nfive\n", plain, ""),
        ("[lines 1-4 are left out here; Recall o2 from=1 lines=4]\nfive\n", plain, ""),
        ("one\n[lines 2-5 are left out here; Recall o2 from=2 lines=4]\n", plain, ""),
        (
            "one\n[lines 2-2 are left out here; Recall o2 from=2 lines=1]\nthree\n[lines 4-4 are left out here; Recall o2 from=4 lines=1]\nfive\n",
            plain,
            "",
        ),
        (
            "118\tfn a() {\n[lines 119-121 are left out here; Recall o2 from=119 lines=3]\n122\t}",
            &own,
            "",
        ),
        // The lines have numbers of their own: counting does not count.
        (
            "118\tfn a() {\n[lines 2-4 are left out here; Recall o2 from=2 lines=3]\n122\t}",
            &own,
            "other lines are missing here",
        ),
        (
            "one\n[lines 3-5 are left out here; Recall o2 from=3 lines=3]\nfive\n",
            plain,
            "other lines are missing here",
        ),
        (
            "one\n[lines 2-9 are left out here; Recall o2 from=2 lines=8]\n",
            plain,
            "other lines are missing here",
        ),
        (
            "one\n[lines 2-4 are left out here; Recall o2 from=2 lines=4]\nfive\n",
            plain,
            "it recalls other lines than it leaves out",
        ),
        (
            "one\n[lines 2-4 are left out here; Recall o2 from=1 lines=3]\nfive\n",
            plain,
            "it recalls other lines than it leaves out",
        ),
        (
            "one\n[lines 2-4 are left out here; Recall o1 from=2 lines=3]\nfive\n",
            plain,
            "this is o2",
        ),
        (
            "one\n[lines 2-3 are left out here; Recall o2 from=2 lines=2]\nfive\n",
            plain,
            "the tool did not return this here",
        ),
        (
            "one\n[lines 2-4 are left out here; Recall o2 from=2 lines=3]\nFIVE\n",
            plain,
            "the tool did not return this here",
        ),
    ];
    for (sent, returned, expected) in cases {
        let verdict = verdict_after("", sent, returned);
        assert_eq!(reason(&verdict), expected, "{sent}");
        assert_eq!(verdict == Verdict::Cut, expected.is_empty(), "{sent}: {verdict:?}");
    }
}

#[test]
fn a_number_in_the_middle_of_an_output_is_no_line_number() {
    let output = "compiling\n12:30 began\n13:30 ended\ndone";
    let sent =
        "compiling\n[lines 2-2 are left out here; Recall o2 from=2 lines=1]\n13:30 ended\ndone";
    assert_eq!(verdict_after("", sent, output), Verdict::Cut);
}

#[test]
fn an_output_that_the_tool_cut_is_cut_again_in_its_own_numbers() {
    let mark = |first: u32, last: u32| {
        let count = last - first + 1;
        format!("[lines {first}-{last} are left out here; Recall o2 from={first} lines={count}]")
    };
    let output = format!("one\ntwo\n{}\nseven\neight\nnine", mark(3, 6));
    for (sent, expected) in [
        (format!("one\n{}\neight\nnine", mark(2, 7)), ""),
        (format!("one\ntwo\n{}\nseven\n{}\nnine", mark(3, 6), mark(8, 8)), ""),
        (format!("one\ntwo\n{}\neight\nnine", mark(3, 7)), ""),
        (format!("one\n{}\nseven\neight\nnine", mark(2, 5)), "other lines are missing here"),
        (format!("one\n{}\neight\nnine", mark(2, 4)), "other lines are missing here"),
    ] {
        let verdict = verdict_after("", &sent, &output);
        assert_eq!(reason(&verdict), expected, "{sent}");
        assert_eq!(verdict == Verdict::Cut, expected.is_empty(), "{sent}: {verdict:?}");
    }
}

#[test]
fn headers_are_part_of_the_text() {
    let header = "[o2] Read a.rs: lines 1-5 of 5";
    let body = numbered(1, &FIVE);
    let first = format!("[o1] Read a.rs: lines 1-5 of 5\n{body}");
    let returned = format!("{header}\n{body}");
    let whole = format!("{header}\n[lines 1-5: same as o1 lines 1-5]");
    assert_eq!(verdict_after(&first, &whole, &returned), Verdict::Whole);
    let cut = "[lines 2-5 are left out here; Recall o2 from=2 lines=4]";
    for (sent, expected) in [
        (format!("{header}; cut to fit\n1\tfn a() {{\n{cut}"), ""),
        (format!("{header}\n1\tfn a() {{\n{cut}"), ""),
        (format!("[o2] Read b.rs\n1\tfn a() {{\n{cut}"), "the tool did not return this here"),
        (format!("{header}; cut to fit\n{body}"), "another header"),
        (body.clone(), "the tool did not return this here"),
    ] {
        assert_eq!(reason(&verdict_after("", &sent, &returned)), expected, "{sent}");
    }
    // Lines without numbers are counted after the header.
    let returned = "[o2] Bash make: exit 0\none\ntwo\nthree";
    let cut =
        "[o2] Bash make: exit 0; cut\none\n[lines 2-3 are left out here; Recall o2 from=2 lines=2]";
    assert_eq!(verdict_after("", cut, returned), Verdict::Cut);
}

#[test]
fn a_stub_shows_only_what_is_in_the_result() {
    let returned = format!("{}\n", numbered(118, &FIVE));
    let target = "[folded o2: Read src/a.rs, success]";
    for (rest, expected) in [
        ("", ""),
        ("\none two src/a.rs", ""),
        ("\none\n..\n119\t    one();\n120\t    two();\n..\n122\t}", ""),
        ("\n119\t one();", "this is not a line of the result"),
        ("\n120\t    one();", "this is not a line of the result"),
        ("\n1\tfn a() {", "this is not a line of the result"),
        ("\none four", "`four` is not in the result"),
    ] {
        let verdict = verdict_after("", &format!("{target}{rest}"), &returned);
        assert_eq!(reason(&verdict), expected, "{rest}");
        assert_eq!(verdict == Verdict::Stub, expected.is_empty(), "{rest}: {verdict:?}");
    }
    let other = verdict_after("", "[folded o1: Read src/a.rs, success]", &returned);
    assert_eq!(reason(&other), "the tool did not return this here", "it is another result's stub");
}

#[test]
fn a_stub_counts_the_lines_of_a_result_without_numbers() {
    for header in ["", "[o2] Bash cat a.rs: exit 0\n"] {
        let returned = format!("{header}{}", FIVE.join("\n"));
        let stub = |line: &str| format!("[folded o2: Bash cat a.rs, success]\n{line}");
        assert_eq!(verdict_after("", &stub("2\t    one();"), &returned), Verdict::Stub);
        assert_ne!(verdict_after("", &stub("3\t    one();"), &returned), Verdict::Stub);
    }
}

#[test]
fn a_short_form_shows_only_lines_of_the_result() {
    let returned = format!("[o2] Read a.rs: lines 1-5 of 5\n{}", numbered(1, &FIVE));
    let header = "[o2] Read a.rs: lines 1-5 of 5; shortened, Recall o2";
    for (rest, expected) in [
        ("", ""),
        ("\n1\tfn a() {\n5\t}", ""),
        ("\n1\tfn a() {\n3 lines more", ""),
        ("\n1\tfn b() {", "this is not a line of the result"),
    ] {
        let verdict = verdict_after("", &format!("{header}{rest}"), &returned);
        assert_eq!(reason(&verdict), expected, "{rest}");
        assert_eq!(verdict == Verdict::Short, expected.is_empty(), "{rest}: {verdict:?}");
    }
    let other = verdict_after("", "[o1] Read a.rs; shortened", &returned);
    assert_eq!(reason(&other), "the tool did not return this here");
}

proptest! {
    /// Whatever part of a second reading is named, the reference is true; with any other number in
    /// it, it is false.
    #[test]
    fn a_broken_reference_is_found(
        source in 1_u32..2_000,
        own in 1_u32..2_000,
        (count, from, length) in (5_usize..40).prop_flat_map(|count| {
            (Just(count), 0..count - 4).prop_flat_map(move |(count, from)| {
                (Just(count), Just(from), 1..=count - from)
            })
        }),
        padded in any::<bool>(),
        shift in 1_u32..5,
    ) {
        let line = |number: u32, at: usize| match padded {
            true => format!("{number:>6}→text of {at}"),
            false => format!("{number}\ttext of {at}"),
        };
        let text = |start: u32| -> Vec<String> {
            (start..).zip(0..count).map(|(number, at)| line(number, at)).collect()
        };
        let (first, second) = (text(source), text(own));
        let lines = |start: u32| {
            let first = start + u32::try_from(from).unwrap();
            (first, first + u32::try_from(length).unwrap() - 1)
        };
        let sent = |(a, b): (u32, u32), (c, d): (u32, u32)| {
            let reference = format!("[lines {a}-{b}: same as o1 lines {c}-{d}]");
            let mut sent = second.clone();
            sent.splice(from..from + length, [reference]);
            sent.join("\n")
        };
        let (first, second_text) = (first.join("\n"), second.join("\n"));
        let (here, there) = (lines(own), lines(source));
        prop_assert_eq!(verdict_after(&first, &sent(here, there), &second_text), Verdict::Whole);
        let later = |(a, b): (u32, u32)| (a + shift, b + shift);
        for broken in [
            sent(later(here), there),
            sent(here, later(there)),
            sent((here.0, here.1 + shift), (there.0, there.1 + shift)),
            sent((here.0, here.1 + shift), there),
        ] {
            let verdict = verdict_after(&first, &broken, &second_text);
            prop_assert!(matches!(verdict, Verdict::False(_)), "{}", broken);
        }
    }
}

// Conversations.

/// A result as the tool returned it, in the words of a request that has all of it.
fn returned(seen: &Seen, language: Language) -> String {
    plain::plain(&seen.tool, &seen.envelope, language).text(seen.id)
}

/// A step of a generated conversation. Numbers are taken modulo what there is.
#[derive(Debug, Clone)]
enum Action {
    Read {
        file: usize,
        from: usize,
        count: usize,
    },
    Insert {
        file: usize,
        at: usize,
        line: usize,
    },
    Delete {
        file: usize,
        at: usize,
        count: usize,
    },
    /// Lines go to another place of the file.
    Move {
        file: usize,
        at: usize,
        count: usize,
        to: usize,
    },
    Bash(usize),
    Grep(usize),
    Recall(usize),
    Says(usize),
    Turn(usize),
    FoldDue,
    /// Results up to this one become stubs.
    Fold(usize),
    Compact(bool),
}

fn action() -> impl Strategy<Value = Action> {
    let (file, at, count) = (0_usize..3, 0_usize..60, 1_usize..30);
    prop_oneof![
        8 => (file.clone(), at.clone(), count.clone())
            .prop_map(|(file, from, count)| Action::Read { file, from, count }),
        3 => (file.clone(), at.clone(), 0_usize..20)
            .prop_map(|(file, at, line)| Action::Insert { file, at, line }),
        2 => (file.clone(), at.clone(), 1_usize..8)
            .prop_map(|(file, at, count)| Action::Delete { file, at, count }),
        2 => (file, at.clone(), 1_usize..8, at)
            .prop_map(|(file, at, count, to)| Action::Move { file, at, count, to }),
        2 => (0_usize..60).prop_map(Action::Bash),
        2 => (0_usize..20).prop_map(Action::Grep),
        1 => (0_usize..60).prop_map(Action::Recall),
        1 => (0_usize..20).prop_map(Action::Says),
        1 => (0_usize..20).prop_map(Action::Turn),
        2 => Just(Action::FoldDue),
        1 => (0_usize..60).prop_map(Action::Fold),
        1 => any::<bool>().prop_map(Action::Compact),
    ]
}

/// Lines of files: few, so that they repeat, and some that look like something else.
const LINES: [&str; 20] = [
    "fn parse_header(input: &str) -> Option<Header> {",
    "    let value = compute_total(input)?;",
    "    return Err(ParseError::Missing);",
    "}",
    "",
    "    ",
    "// 7\tnumbered in a comment",
    "12\tlooks_numbered()",
    "[lines 1-4: same as o1 lines 1-4]",
    "[lines 2-3 are left out here; Recall o2 from=2 lines=2]",
    "[folded o1: Read src/file_0.rs, success]",
    "[o1] Read src/file_0.rs; shortened",
    "..",
    "    请保留这一行 keep_this_line();",
    "\tlet with_tab = 1;\r",
    "    let widths = [100, 250, 4096];",
    "impl Header for FileHeader {",
    "    fn name(&self) -> &str {",
    "        &self.file_name",
    "    }",
];

struct Player {
    language: Language,
    thread: Thread,
    files: Vec<Vec<&'static str>>,
    /// The results as they were returned, by their numbers.
    whole: Vec<String>,
    /// The text of each, for Recall.
    contents: Vec<String>,
    compaction: compact::Settings,
}

impl Player {
    fn new(words_only: Option<usize>, strategy: compact::Strategy, language: Language) -> Player {
        let folding = Settings { keep: 2, batch: 4, fold_at: 1_500, ..Settings::default() };
        let file = |start: usize| (0..40).map(|at| LINES[(start + at * 7) % LINES.len()]).collect();
        let keys = vec!["state".to_owned()];
        let thread = Thread::new(folding, words_only, Results::Plain);
        let mut thread = thread.speaking(language);
        thread.begin_turn("Fix parse_header in src/file_0.rs.", None);
        Player {
            language,
            thread,
            files: vec![file(0), file(0), file(3)],
            whole: Vec::new(),
            contents: Vec::new(),
            compaction: compact::Settings { strategy, compact_at: 2_000, keep: 2, keys },
        }
    }

    /// One call and its result.
    fn result(&mut self, tool: &str, arguments: Value, data: Value, content: &str) {
        let id = ObservationId(u32::try_from(self.whole.len() + 1).unwrap());
        let call = format!("c{}", id.0);
        let Value::Object(map) = arguments.clone() else { panic!("arguments are an object") };
        self.says(vec![Part::ToolCall(ToolCall {
            id: call.clone(),
            name: tool.to_owned(),
            arguments: map,
        })]);
        let words: Vec<String> = match arguments {
            Value::Object(map) => map.values().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let envelope = Envelope::new(Status::Success, &data);
        let seen = Seen::new(id, call, tool.to_owned(), &words.join("\n"), envelope);
        self.whole.push(returned(&seen, self.language));
        self.contents.push(content.to_owned());
        self.thread.push(Item::Observation(Box::new(seen)));
    }

    fn says(&mut self, parts: Vec<Part>) {
        self.thread.push(Item::Assistant(Message { role: Role::Assistant, parts }));
    }

    fn read(&mut self, file: usize, from: usize, count: usize) {
        let lines = &self.files[file];
        let from = from % lines.len().max(1);
        let to = (from + count).min(lines.len());
        let texts = lines[from..to].iter().enumerate();
        let content: Vec<String> =
            texts.map(|(at, line)| format!("{}\t{line}", from + at + 1)).collect();
        let (content, name) = (content.join("\n"), format!("src/file_{file}.rs"));
        let data = json!({ "file": name, "from": from + 1, "to": to, "content": content });
        self.result("Read", json!({ "path": name }), data, &content);
    }

    fn edit(&mut self, file: usize, change: impl FnOnce(&mut Vec<&'static str>)) {
        change(&mut self.files[file]);
        let name = format!("src/file_{file}.rs");
        let diff: String =
            self.files[file].iter().take(6).map(|line| format!("+{line}\n")).collect();
        let data = json!({ "file": name, "diff": diff });
        self.result("Edit", json!({ "path": name }), data, &diff);
    }

    fn bash(&mut self, number: usize) {
        let file = number % self.files.len();
        let output = match number % 3 {
            0 => self.files[file].join("\n"),
            1 => (0..number).map(|at| format!("test case_{at} ... ok\n")).collect(),
            _ => self.files[file].iter().map(|line| format!("-{line}\n+{line} \n")).collect(),
        };
        // As the tool gives it: without escapes, and cut if it is long.
        let output = baton_core::text::stripped(&output).into_owned();
        let id = ObservationId(u32::try_from(self.whole.len() + 1).unwrap());
        let data = match observation::cut::by_lines(id, &output, 800, 400, false) {
            Some(cut) => json!({ "exit": 0, "stdout": cut, "truncated": true }),
            None => json!({ "exit": 0, "stdout": output }),
        };
        self.result("Bash", json!({ "command": format!("run {number}") }), data, &output);
    }

    fn grep(&mut self, line: usize) {
        let mut found = String::new();
        for (file, lines) in self.files.iter().enumerate() {
            for (at, own) in lines.iter().enumerate().filter(|(_, own)| **own == LINES[line]) {
                found.push_str(&format!("src/file_{file}.rs:{}:{own}\n", at + 1));
            }
        }
        let data = json!({ "content": found });
        self.result("Grep", json!({ "pattern": LINES[line] }), data, &found);
    }

    fn recall(&mut self, number: usize) {
        let Some(content) = self.contents.get(number % self.contents.len().max(1)).cloned() else {
            return;
        };
        let data = json!({ "content": content });
        self.result("Recall", json!({ "id": format!("o{}", number + 1) }), data, &content);
    }

    fn compact(&mut self, is_asked: bool) {
        let Ok(plan) = self.thread.plan_compaction(&self.compaction, 0, is_asked) else { return };
        self.thread.compact(&plan, "", Err("There is no summary, keeping recent history only."));
    }

    fn play(&mut self, action: &Action) {
        match *action {
            Action::Read { file, from, count } => self.read(file, from, count),
            Action::Insert { file, at, line } => self.edit(file, |lines| {
                lines.insert(at % (lines.len() + 1), LINES[line]);
            }),
            Action::Delete { file, at, count } => self.edit(file, |lines| {
                let at = at % (lines.len() + 1);
                lines.drain(at..(at + count).min(lines.len()));
            }),
            Action::Move { file, at, count, to } => self.edit(file, |lines| {
                let at = at % (lines.len() + 1);
                let moved: Vec<&str> = lines.drain(at..(at + count).min(lines.len())).collect();
                let to = to % (lines.len() + 1);
                lines.splice(to..to, moved);
            }),
            Action::Bash(number) => self.bash(number),
            Action::Grep(line) => self.grep(line),
            Action::Recall(number) => self.recall(number),
            Action::Says(line) => self.says(vec![Part::Text { text: LINES[line].to_owned() }]),
            Action::Turn(line) => {
                self.says(vec![Part::Text { text: "That is done.".to_owned() }]);
                self.thread.begin_turn(&format!("And now this: {}", LINES[line]), None);
            }
            Action::FoldDue => {
                if let Some(ids) = self.thread.fold_due() {
                    self.thread.fold(&ids);
                }
            }
            Action::Fold(upto) => {
                let upto = u32::try_from(upto % (self.whole.len() + 1)).unwrap();
                self.thread.fold(&(1..=upto).map(ObservationId).collect::<Vec<_>>());
            }
            Action::Compact(is_asked) => self.compact(is_asked),
        }
    }

    /// The results of the next request, each with its text and the verdict on it.
    fn verdicts(&self) -> Vec<(SentResult<'_>, Verdict)> {
        let results = self.thread.items().iter().filter_map(|item| match item {
            Item::Observation(seen) => Some(SentResult { id: seen.id, text: &seen.text }),
            Item::User(_) | Item::Note(_) | Item::Assistant(_) => None,
        });
        let request: Vec<SentResult<'_>> = results.collect();
        let returned = |id: ObservationId| {
            let own = self.whole.get((id.0 as usize).checked_sub(1)?)?;
            Some(Cow::Borrowed(own.as_str()))
        };
        let verdicts = truth::judge(&request, returned);
        request.into_iter().zip(verdicts.into_iter().map(|(_, verdict)| verdict)).collect()
    }

    /// A fault of the next request: something false, or the newest result, which no request
    /// had before, is not in it.
    fn untruth(&self, has_new: bool) -> Option<String> {
        let verdicts = self.verdicts();
        let is_wrong = |(sent, verdict): &&(SentResult<'_>, Verdict)| match verdict {
            Verdict::False(_) => true,
            Verdict::Stub | Verdict::Short => has_new && sent.id.0 as usize == self.whole.len(),
            Verdict::Whole | Verdict::Cut => false,
        };
        if let Some((sent, verdict)) = verdicts.iter().find(is_wrong) {
            return Some(format!("{}: {verdict:?}: {}", sent.id, sent.text));
        }
        let is_newest = |(sent, _): &(SentResult<'_>, _)| sent.id.0 as usize == self.whole.len();
        (has_new && !verdicts.iter().any(is_newest)).then(|| "the newest is missing".to_owned())
    }
}

proptest! {
    /// Whatever is read, changed, folded and compacted: every request is true, and the first that
    /// has a result has all of it or says what it leaves out.
    #[test]
    fn every_request_of_a_conversation_is_true(
        actions in prop::collection::vec(action(), 1..60),
        words_only in prop::option::of(1_usize..4),
        is_archive in any::<bool>(),
        is_chinese in any::<bool>(),
    ) {
        use compact::Strategy::{Archive, Handover};
        let language = if is_chinese { Language::Chinese } else { Language::English };
        let strategy = if is_archive { Archive } else { Handover };
        let mut player = Player::new(words_only, strategy, language);
        for (step, action) in actions.iter().enumerate() {
            let before = player.whole.len();
            player.play(action);
            let untruth = player.untruth(player.whole.len() > before);
            prop_assert_eq!(untruth, None, "after step {}", step);
        }
    }
}
