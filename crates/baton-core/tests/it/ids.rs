//! Names, times, tokens.

use baton_core::id::{AgentName, RunId, Timestamp, Tokens};
use baton_core::problem::{Place, nearest};
use baton_core::tokens::{self, Estimator};
use proptest::prelude::*;

#[test]
fn an_agent_name_is_upper_case_in_text_and_lower_case_in_files() {
    let name = AgentName::new("FINISH_REVIEW").unwrap();
    assert_eq!(name.file_stem(), "finish_review");
    assert_eq!(AgentName::from_file_stem("finish_review"), Some(name));
    for wrong in ["", "test", "1A", "A-B", "Ä", "A/B", "..", &"A".repeat(33)] {
        assert!(AgentName::new(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_run_id_is_safe_in_a_path() {
    assert_eq!(RunId::new("r-20260131-1").unwrap().as_str(), "r-20260131-1");
    for wrong in ["", "../x", "a/b", "a.b", "中", &"a".repeat(65)] {
        assert!(RunId::new(wrong).is_err(), "{wrong}");
    }
    assert!(serde_json::from_str::<RunId>("\"a b\"").is_err());
    assert!(serde_json::from_str::<RunId>("\"a-b\"").is_ok());
}

#[test]
fn a_timestamp_reads_back_as_it_was_written() {
    assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00");
    assert_eq!(Timestamp(1_769_820_295).to_string(), "2026-01-31T00:44:55");
    assert_eq!(Timestamp::parse("2024-02-29T23:59:59").unwrap().to_string(), "2024-02-29T23:59:59");
    for wrong in [
        "2023-02-29T00:00:00",
        "2026-13-01T00:00:00",
        "2026-01-01 00:00:00",
        "",
        "2026-01-01T24:00:00",
        "1969-12-31T00:00:00",
        "中文2026-01-01T00:00:00",
    ] {
        assert_eq!(Timestamp::parse(wrong), None, "{wrong}");
    }
    assert_eq!(Timestamp(u64::MAX).to_string(), Timestamp::MAX.to_string());
}

proptest! {
    #[test]
    fn every_timestamp_round_trips(seconds in 0..=Timestamp::MAX.0) {
        prop_assert_eq!(Timestamp::parse(&Timestamp(seconds).to_string()), Some(Timestamp(seconds)));
    }

    #[test]
    fn any_text_is_no_timestamp_or_a_right_one(text in "[0-9T:-]{0,20}") {
        if let Some(time) = Timestamp::parse(&text) {
            prop_assert_eq!(time.to_string(), text);
        }
    }
}

#[test]
fn a_special_token_in_a_text_counts_as_text() {
    assert!(tokens::count("<|endoftext|>").0 > 1);
}

proptest! {
    /// A second implementation of the same vocabulary must agree.
    #[test]
    fn counts_are_those_of_o200k_base(text in "(?s)[a-zA-Z0-9 \\n\\t{}()_.,;:'\"#/-]{0,200}|.{0,80}|[中文测试，。\\n a-z]{0,80}") {
        let other = bpe_openai::o200k_base().count(&text);
        prop_assert_eq!(tokens::count(&text), Tokens(other as u64), "{}", text);
    }
}

proptest! {
    /// Long texts are counted entry by entry: what stands before a heading must not matter.
    #[test]
    fn counts_of_entries_add_up(ends in proptest::collection::vec("[a-z .,;:/#!{}'\"中。\\t0-9-]{0,6}[ \\t\\r\\n]{0,4}", 1..6)) {
        let entries = ends.iter().map(|end| format!("## Iteration 1\n{}{end}\n", "word 中文, ".repeat(50)));
        let text: String = entries.collect();
        let other = bpe_openai::o200k_base().count(&text);
        prop_assert_eq!(tokens::count(&text), Tokens(other as u64), "{}", text);
    }
}

#[test]
fn every_prompt_counts_the_same_in_both_implementations() {
    for name in crate::PACKS {
        for language in crate::LANGUAGES {
            for (agent, prompt) in crate::common::pack(name, language).prompts {
                let other = bpe_openai::o200k_base().count(&prompt);
                assert_eq!(
                    tokens::count(&prompt),
                    Tokens(other as u64),
                    "{name} {language} {agent}"
                );
            }
        }
    }
}

#[test]
fn a_long_text_counted_in_blocks_is_off_by_at_most_a_few() {
    let line = "let x = foo_bar(42); // 注释\n";
    let one = tokens::count(line).0;
    let lines = (3 << 20) / line.len() as u64;
    let whole = tokens::count(&line.repeat(usize::try_from(lines).unwrap())).0;
    assert!(whole.abs_diff(one * lines) <= lines / 10_000 + 4, "{whole} {}", one * lines);
}

#[test]
fn an_estimate_follows_what_the_provider_counted() {
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(50);
    let mut estimator = Estimator::default();
    let raw = tokens::raw_estimate(&text);
    let exact = tokens::count(&text);
    assert!(
        raw.0.abs_diff(exact.0) * 3 < exact.0,
        "within a third even before correction: {raw} {exact}"
    );
    let real = Tokens(raw.0 * 13 / 10);
    for _ in 0..20 {
        estimator.observe(raw, real);
    }
    assert!(estimator.estimate(&text).0.abs_diff(real.0) <= real.0 / 100 + 1);
    estimator.observe(raw, Tokens(0));
    estimator.observe(Tokens(0), raw);
    estimator.observe(Tokens(1), Tokens(u64::MAX / 2));
    assert!(estimator.factor() <= 4.0, "one absurd count moves it no further than its bound");
}

#[test]
fn the_nearest_word_is_one_a_person_could_have_meant() {
    let words = ["PASS", "FAIL", "BLOCKED"];
    for (typed, meant) in [
        ("PASSED", Some("PASS")),
        ("pass", Some("PASS")),
        ("PSAS", Some("PASS")),
        ("FAILURE", Some("FAIL")),
        ("BLOKED", Some("BLOCKED")),
        ("FIAL", Some("FAIL")),
        ("PASS。", Some("PASS")),
        ("OK", None),
        ("", None),
        ("通过", None),
    ] {
        assert_eq!(nearest(typed, &words), meant, "{typed}");
    }
    assert_eq!(nearest(&"x".repeat(10_000), &words), None);
}

#[test]
fn a_place_counts_characters_and_every_kind_of_line_end() {
    let text = "ab\r\n中文x\ry\n";
    for (offset, line, column) in
        [(0, 1, 1), (2, 1, 3), (4, 2, 1), (7, 2, 2), (10, 2, 3), (12, 3, 1), (99, 4, 1)]
    {
        assert_eq!(Place::of(text, offset), Place { line, column }, "{offset}");
    }
}
