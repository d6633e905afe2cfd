//! What of a text is a fact, and what is none.

use baton_core::fact::{self, Class, Fact};
use proptest::prelude::*;

/// The facts that are words, as `F:lib.rs`.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    fact::each_word(text, |class, words| {
        let letter = match class {
            Class::File => 'F',
            Class::Identifier => 'I',
            Class::Number => 'N',
            Class::Hash => 'H',
            Class::Line => 'L',
        };
        found.push(format!("{letter}:{words}"));
    });
    found
}

#[test]
fn words_by_their_shape() {
    for (text, facts) in [
        // Files: the last part of a path with an ending of source trees.
        ("see src/lib.rs.", vec!["F:lib.rs"]),
        ("lib.rs lib.RS lib.zip .rs rs", vec!["F:lib.rs"]),
        ("a-b_c.d.toml", vec!["F:a-b_c.d.toml"]),
        ("Cargo.lock, go.mod; x.patch", vec!["F:Cargo.lock", "F:go.mod", "F:x.patch"]),
        // A file's parts may be facts of their own.
        ("my_module.py", vec!["F:my_module.py", "I:my_module"]),
        // The dots and dashes behind a word are not part of it.
        ("main.rs... main.rs-", vec!["F:main.rs", "F:main.rs"]),
        // Identifiers: six characters or more, and a sign of having been made.
        ("snake_case", vec!["I:snake_case"]),
        ("_inner", vec![]),
        ("__init__", vec![]),
        ("a_bcde abcd_", vec!["I:a_bcde"]),
        ("a_bcd", vec![]),
        ("camelCase CamelCase ALLCAPS Capital", vec!["I:camelCase", "I:CamelCase"]),
        ("sha256 utf16x u8 v1", vec!["I:sha256", "I:utf16x"]),
        ("2nd_place 3rdone", vec!["I:2nd_place"]),
        ("word another plain", vec![]),
        // Numbers: three to seven digits, not round.
        ("12 123 1234567 12345678", vec!["N:123", "N:1234567"]),
        ("100 4310 8081 007", vec!["N:8081", "N:007"]),
        ("3.14159 127.0.0.1", vec!["N:14159", "N:127"]),
        // Hashes: known by their first seven digits.
        ("deadbee1", vec!["H:deadbee"]),
        ("1f6589ec3a1ee910f9a65cc3ceac60b26677bc0e", vec!["H:1f6589e"]),
        ("deadbeef abcdef1 ABCDEF1", vec!["H:abcdef1", "I:ABCDEF1"]),
        ("1f6589ec3a1ee910f9a65cc3ceac60b26677bc0e1", vec![]),
        // Uuids fall apart at their dashes.
        ("45baaf5f-5862-47e4", vec!["H:45baaf5", "N:5862"]),
        // Words of other scripts are no facts, and end one.
        ("文件lib.rs文件 变量snake_case", vec!["F:lib.rs", "I:snake_case"]),
        ("文_件_名字很长 éa_bcdef", vec!["I:a_bcdef"]),
        ("", vec![]),
        ("... --- ___ _.-", vec![]),
    ] {
        assert_eq!(words(text), facts, "{text}");
    }
}

#[test]
fn lines_without_their_numbers() {
    let line = "let total = sum(all);";
    let own = fact::of_line(line).unwrap();
    assert_eq!(own, Fact::new(Class::Line, line));
    for same in [
        "   let total = sum(all);  ",
        "12\tlet total = sum(all);",
        "    12\u{2192}let total = sum(all);",
        "    12\u{2192}    let total = sum(all);\r",
        "12:let total = sum(all);",
        "12: let total = sum(all);",
        "12|let total = sum(all);",
        "\u{3000}12| let total = sum(all);\u{a0}",
    ] {
        assert_eq!(fact::of_line(same), Some(own), "{same:?}");
    }
    for other in
        ["12 let total = sum(all);", "12-let total = sum(all);", "x12:let total = sum(all);"]
    {
        assert_ne!(fact::of_line(other), Some(own), "{other:?}");
    }
    // Only one number is a tool's.
    assert_ne!(fact::of_line("1:2:let total = sum(all);"), Some(own));
}

#[test]
fn a_line_has_sixteen_characters() {
    assert!(fact::of_line("123456789012345x").is_some());
    assert!(fact::of_line("12345678901234x").is_none());
    // Characters, not bytes; and not the space around them.
    assert!(fact::of_line("一二三四五六七八九十一二三四五").is_none());
    assert!(fact::of_line("一二三四五六七八九十一二三四五六").is_some());
    assert!(fact::of_line("   1234567890      ").is_none());
    assert!(fact::of_line("12:34567890123456").is_none());
}

#[test]
fn a_text_has_each_fact_once() {
    let text = "snake_case snake_case\nlet total = sum(all);\n 7\tlet total = sum(all);\nshort\n";
    let facts = fact::of(text);
    let identifier = Fact::new(Class::Identifier, "snake_case");
    let lines = ["snake_case snake_case", "let total = sum(all);"];
    let mut wanted: Vec<Fact> = lines.map(|line| Fact::new(Class::Line, line)).to_vec();
    wanted.push(identifier);
    wanted.sort();
    assert_eq!(facts, wanted);
    // The class is part of a fact.
    assert_ne!(identifier, Fact::new(Class::File, "snake_case"));
}

#[test]
fn long_texts_are_read_in_linear_time() {
    for piece in ["a", "a.", "_-", "1", "12|", "\u{2192}", "文", "a_b.rs ", "\n", "deadbee1"] {
        let text = piece.repeat(4_000_000 / piece.len());
        assert!(fact::of(&text).len() < 10, "{piece}");
    }
}

proptest! {
    /// Whatever a text holds: an answer, in order, each once; every word stands in the text.
    #[test]
    fn any_text_has_facts_in_order(text in "(?s)([a-z_]{1,8}|[A-Z0-9.-]{1,9}|文|→|\n|\t|.){0,60}") {
        let facts = fact::of(&text);
        prop_assert!(facts.windows(2).all(|pair| pair[0] < pair[1]));
        fact::each_word(&text, |class, words| {
            assert!(text.contains(words));
            assert!(facts.binary_search(&Fact::new(class, words)).is_ok());
        });
        for line in text.split('\n') {
            prop_assert!(fact::of_line(line).is_none_or(|own| facts.binary_search(&own).is_ok()));
        }
    }

    /// A line is the same one under any number that a tool puts before it.
    #[test]
    fn a_line_is_found_under_any_number(
        line in "[a-z(_\\p{Han}].{0,60}",
        number in 0u32..1_000_000,
        indent in " {0,6}",
        mark in "[→\t:|]",
        space in " {0,3}",
    ) {
        let shown = format!("{indent}{number}{mark}{space}{line}");
        prop_assert_eq!(fact::of_line(&shown), fact::of_line(&line));
    }
}
