//! Project notes: kept once, withdrawn, the user's lines untouched, the same when made twice.

use baton_core::id::{AgentName, Iteration};
use baton_core::messages::Language;
use baton_core::{notes, tokens};
use proptest::prelude::*;

fn merged(file: &str, new: &[&str]) -> Option<String> {
    let new: Vec<String> = new.iter().map(|note| (*note).to_owned()).collect();
    notes::merged(Language::English, file, &new, &AgentName::new("TEST").unwrap(), Iteration(3))
}

#[test]
fn a_note_is_withdrawn_however_it_is_quoted() {
    let file = merged("", &["run `make check` first", "数据库在 db/ 目录"]).unwrap();
    for quoted in [
        "no longer true: run `make check` first",
        "No longer true: run `make check` first (TEST, iteration 3)",
        "`no longer true: run `make check` first.`",
        "no longer true：run `make check` first",
    ] {
        let left = merged(&file, &[quoted]).unwrap_or_else(|| panic!("{quoted}"));
        assert!(!left.contains("make check") && left.contains("数据库"), "{quoted}: {left}");
    }
    for note in ["`make check` needs docker", "端口：8080", "use `make`"] {
        let file = merged("", &[note]).unwrap();
        let left = merged(&file, &[&format!("no longer true: {note}"), "b"]).unwrap();
        assert!(!left.contains(note) && left.contains("- b ("), "{left}");
    }
    let left = merged(&file, &["no longer true: 数据库在 db/ 目录。"]).unwrap();
    assert!(!left.contains("数据库"), "{left}");
    assert_eq!(merged(&file, &["no longer true: something that no note says"]), None);
}

#[test]
fn notes_of_both_languages_are_withdrawn_in_either() {
    let tester = AgentName::new("TEST").unwrap();
    let merged = |words: Language, file: &str, note: &str| {
        notes::merged(words, file, &[note.to_owned()], &tester, Iteration(3)).unwrap()
    };
    let file = merged(Language::Chinese, "", "数据库在 db/ 目录");
    assert_eq!(file, "# 项目笔记\n\n- 数据库在 db/ 目录（TEST，第 3 轮）\n");
    let both = merged(Language::English, &file, "use make");
    for wrong in [
        "已不成立：数据库在 db/ 目录",
        "已不成立：数据库在 db/ 目录（TEST，第 3 轮）",
        "no longer true: 数据库在 db/ 目录。",
    ] {
        let left = merged(Language::Chinese, &both, wrong);
        assert_eq!(left, "# 项目笔记\n\n- use make (TEST, iteration 3)\n", "{wrong}");
    }
}

#[test]
fn a_long_note_is_withdrawn_too() {
    let long = "a".repeat(480);
    let file = merged("", &[&long]).unwrap();
    let left = merged(&file, &[&format!("no longer true: {long}"), "b"]).unwrap();
    assert!(!left.contains("aaaa") && left.contains("- b ("), "{left}");
}

#[test]
fn a_note_that_its_own_report_withdraws_is_not_kept() {
    let file = merged("", &["x"]).unwrap();
    let once = merged(&file, &["x", "no longer true: x", "y"]).unwrap();
    assert!(!once.contains("- x (") && once.contains("- y ("), "{once}");
    assert_eq!(merged(&once, &["x", "no longer true: x", "y"]), None);
}

proptest! {
    /// After a crash the notes of the last report are kept again.
    #[test]
    fn the_notes_of_a_report_give_the_same_file_when_they_are_kept_twice(
        own in 0_usize..2_100,
        old in prop::collection::vec("[a-d]{1,3}|no longer true: [a-d]|[a-d ]{200,500}", 0..12),
        new in prop::collection::vec("[a-d]{1,3}|no longer true: [a-d]|[a-d ]{200,500}", 0..14),
    ) {
        let file = format!("# Project notes\n\n- {}\n", "word ".repeat(own));
        let old: Vec<&str> = old.iter().map(String::as_str).collect();
        let new: Vec<&str> = new.iter().map(String::as_str).collect();
        let file = merged(&file, &old).unwrap_or(file);
        let once = merged(&file, &new).unwrap_or_else(|| file.clone());
        prop_assert!(once.contains(&"word ".repeat(own).trim_end().to_owned()));
        prop_assert_eq!(merged(&once, &new), None);
    }
}

#[test]
fn the_beginning_of_a_text_shows_a_part_of_a_line_that_is_too_long() {
    let json = "{\"key\": \"value 值\"}, ".repeat(4_000);
    let text = format!("Fix this:\n{json}\nand this\n");
    let shown = tokens::beginning(&text, 500);
    assert!(shown.starts_with("Fix this:\n{\"key\"") && tokens::count(shown).0 <= 600);
    // Otherwise lines are whole.
    let lines: String = (0..1_000).map(|n| format!("line {n}\n")).collect();
    assert!(tokens::beginning(&lines, 100).ends_with('\n'));
    assert_eq!(tokens::beginning("short", 100), "short");
    assert!(tokens::beginning(&"字".repeat(10_000), 10).chars().count() > 5);
}
