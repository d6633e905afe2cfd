//! The table of messages: each language speaks for itself.

use baton_core::messages::{self, Entry, Language};

/// A text without its arguments and without code marks, in which key words are the same in every
/// language.
fn prose(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            continue;
        }
        let mut depth = 0_u32;
        for c in part.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ if depth == 0 => out.push(c),
                _ => {}
            }
        }
        out.push(' ');
    }
    out
}

/// Words that both languages use: names of the workflow, of keys and of tools.
const SHARED: [&str; 16] = [
    "MAIN",
    "FINISH",
    "USER",
    "JSON",
    "Baton",
    "FINISH_CHECK",
    "FINISH_REVIEW",
    "Recall",
    "token",
    "tokens",
    "Bash",
    "PATH",
    "Finish",
    "Thought",
    "Action",
    "NAME",
];

#[test]
fn no_message_holds_words_of_the_other_language() {
    let is_foreign = |entry: &&Entry| {
        let is_chinese = |c: char| ('\u{3000}'..='\u{9fff}').contains(&c) || c == '：';
        let words = prose(entry.chinese);
        let mut words = words
            .split(|c: char| !c.is_ascii_alphabetic() && c != '_')
            .filter(|word| word.len() > 1 && !SHARED.contains(word));
        prose(entry.english).chars().any(is_chinese) || words.next().is_some()
    };
    let foreign: Vec<&Entry> = messages::all().filter(is_foreign).collect();
    assert!(foreign.is_empty(), "{foreign:#?}");
}

#[test]
fn a_language_is_known_by_its_code_and_others_get_english() {
    assert_eq!(Language::of("zh"), Language::Chinese);
    assert_eq!(Language::of("zh-TW"), Language::Chinese);
    assert_eq!(Language::of("en"), Language::English);
    assert_eq!(Language::of("fr"), Language::English);
    assert_eq!(Language::Chinese.list(&["a", "b"]), "a、b");
}
