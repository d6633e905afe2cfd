//! The table of messages: each language speaks for itself.

use baton_core::messages::{self, Entry, Language};
use baton_core::problem::Problem;

/// A text without its arguments and without code marks, in which key words are the same in every
/// language.
pub(crate) fn prose(text: &str) -> String {
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
const SHARED: [&str; 18] = [
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
    "UTF",
    "MiB",
];

/// The English words of a text outside of code marks, except those of both languages.
pub(crate) fn english_words(text: &str) -> Vec<String> {
    let prose = prose(text);
    let words = prose.split(|c: char| !c.is_ascii_alphabetic() && c != '_');
    let is_english = |word: &&str| word.len() > 1 && !SHARED.contains(word);
    words.filter(is_english).map(str::to_owned).collect()
}

#[test]
fn no_message_holds_words_of_the_other_language() {
    let is_foreign = |entry: &&Entry| {
        let is_chinese = |c: char| ('\u{3000}'..='\u{9fff}').contains(&c) || c == '：';
        prose(entry.english).chars().any(is_chinese) || !english_words(entry.chinese).is_empty()
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

#[test]
fn a_problem_that_is_not_translated_is_told_in_english_within_the_words_of_the_language() {
    let problem = Problem::new("x", "the disk is full").expected("a file").in_file("a.md");
    assert_eq!(problem.text(Language::Chinese), "a.md：the disk is full；要求：a file");
    assert_eq!(problem.to_string(), "a.md: the disk is full; expected a file");
}
