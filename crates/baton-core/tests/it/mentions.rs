//! Files that a person mentions, and files that changed behind the agent's back.

use baton_core::freshness::Freshness;
use baton_core::id::Mtime;
use baton_core::mention::{self, MOST, Mentions, Target};
use baton_core::messages::Language;
use proptest::prelude::*;

/// The mentions of a message where these paths are files.
fn find(message: &str, mut is_file: impl FnMut(&str) -> bool) -> Mentions {
    mention::find(message, |path| if is_file(path) { Target::File } else { Target::Missing })
}

fn found(message: &str) -> Vec<String> {
    find(message, |_| true).paths
}

#[test]
fn what_is_a_mention_and_what_is_none() {
    for (message, paths) in [
        ("Why does @src/utils/auth.ts not build?", vec!["src/utils/auth.ts"]),
        ("@a", vec!["a"]),
        ("(@a.rs)", vec!["a.rs"]),
        ("see @a.rs, @b.rs; @c.rs: @d.rs!", vec!["a.rs", "b.rs", "c.rs", "d.rs"]),
        // The end of a sentence is not part of the path.
        ("see @src/lib.rs.", vec!["src/lib.rs"]),
        ("see @src/lib.rs...", vec!["src/lib.rs"]),
        ("see @Makefile. And", vec!["Makefile"]),
        ("@.gitignore and @a-b_c.d", vec![".gitignore", "a-b_c.d"]),
        ("@. @.. @...", vec![]),
        // Not after an ASCII letter or digit; other scripts are written without spaces.
        ("mail me@example.org or 7@a.rs", vec![]),
        ("é@a.rs 看@b.rs ж@c.rs ٣@d.rs", vec!["a.rs", "b.rs", "c.rs", "d.rs"]),
        ("，@a.rs。@b.rs", vec!["a.rs", "b.rs"]),
        ("_@a.rs -@b.rs @@c.rs", vec!["a.rs", "b.rs", "c.rs"]),
        // Names with spaces need quotes; without, the name ends there. Other letters need none.
        ("@\"my notes.md\" and @\"文档/说明.md\"", vec!["my notes.md", "文档/说明.md"]),
        ("@文档.md", vec!["文档.md"]),
        ("@a文", vec!["a文"]),
        ("@文，@档。@一；@二：@三、@四！@五？@六）@七」@八", {
            vec!["文", "档", "一", "二", "三"]
        }),
        ("@cafe\u{301}.md @मूल.md @🎉.md", vec!["cafe\u{301}.md", "मूल.md", "🎉.md"]),
        ("@a\u{3000}b @c\u{a0}d @e\u{202e}f", vec!["a", "c", "e"]),
        ("x@\"a.rs\"", vec![]),
        ("@\"\" @\"never closed\n\"", vec![]),
        ("@\"a\u{202e}b.rs\" @\"a\tb\"", vec![]),
        ("@\"ends with a dot.\"", vec!["ends with a dot."]),
        // Inside the project only.
        ("@/etc/passwd @\"/etc/passwd\" @../x @a/../../x @..", vec![]),
        ("@a/../b.rs @./c.rs", vec!["a/../b.rs", "./c.rs"]),
        // Each once, whatever its spelling.
        ("@a.rs @./a.rs @x/../a.rs @\"a.rs\" @a.rs.", vec!["a.rs"]),
        ("@", vec![]),
        ("", vec![]),
        ("a @ b", vec![]),
    ] {
        assert_eq!(found(message), paths, "{message}");
    }
}

#[test]
fn what_does_not_exist_is_left_alone() {
    let only = |path: &str| path == "b.rs";
    let mentions = find("@a.rs @b.rs @types/node", only);
    assert_eq!((mentions.paths, mentions.more), (vec!["b.rs".to_owned()], 0));
    let none = find("@a.rs\n", |_| false);
    assert_eq!(none.appended("@a.rs\n"), "@a.rs\n");
}

#[test]
fn a_block_has_exactly_these_bytes() {
    let message = "Why does @src/utils/auth.ts fail?";
    assert_eq!(
        find(message, |_| true).appended(message),
        "Why does @src/utils/auth.ts fail?\n\
         \n\
         <system-reminder>\n\
         The user mentioned @src/utils/auth.ts.\n\
         You MUST read this file with the Read tool before answering.\n\
         </system-reminder>\n"
    );
    let quoted = find("@\"a b.md\"", |_| true).blocks();
    assert!(quoted.contains("\nThe user mentioned @\"a b.md\".\n"), "{quoted}");
}

#[test]
fn five_are_named_and_the_rest_is_counted() {
    for (count, named, more) in [(4, 4, None), (5, 5, None), (6, 5, Some(1)), (12, 5, Some(7))] {
        let names: Vec<String> = (0..count).map(|n| format!("@f{n}.rs")).collect();
        // Once more each: they are still the same files.
        let message = format!("{} {}", names.join(" "), names.join(" "));
        let blocks = find(&message, |_| true).blocks();
        assert_eq!(blocks.matches("<system-reminder>\n").count(), named, "{count}");
        assert_eq!(blocks.contains("more…)"), more.is_some(), "{count}");
        if let Some(more) = more {
            let end = format!("</system-reminder>\n(and {more} more…)\n");
            assert!(blocks.ends_with(&end), "{blocks}");
        }
    }
}

#[test]
fn the_longest_name_that_is_a_file_is_meant() {
    for (files, message, path) in [
        (&["a.rs"][..], "看@a.rs讲什么", Some("a.rs")),
        (&["a.rs", "a.rs讲"], "看@a.rs讲什么", Some("a.rs讲")),
        (&["文档"], "看@文档讲什么", Some("文档")),
        (&["文档.md"], "@文档.md.", Some("文档.md")),
        (&["a.rs"], "@a.rs.讲", Some("a.rs")),
        (&["a", "src"], "@a.rs @src/x.rs", None),
        (&["a"], "@\"a文\"", None),
    ] {
        let mentions = find(message, |path| files.contains(&path));
        assert_eq!(mentions.paths.first().map(String::as_str), path, "{message}");
    }
}

#[test]
fn a_range_belongs_to_the_name_before_it() {
    for (message, range) in [
        ("@a.rs:497-520", Some([497, 520])),
        ("@a.rs:520-497", Some([497, 520])),
        ("@a.rs:12–20", Some([12, 20])),
        ("@a.rs#L1-5", Some([1, 5])),
        ("@a.rs:12-", Some([12, 12])),
        ("@a.rs:99999999999999999999", None),
        ("@a.rs#12", None),
        ("@a.rs.:12", Some([12, 12])),
        ("@a.rs :12", None),
    ] {
        let mentions = find(message, |_| true);
        assert_eq!(mentions.lines.get("a.rs").map(|own| own[0]), range, "{message}");
    }
    let both = find("@a.rs:1 @./a.rs:2 @a.rs:1", |_| true);
    assert_eq!(both.lines["a.rs"], [[1, 1], [2, 2]]);
}

#[test]
fn only_existing_files_count() {
    let message: String = (0..20).map(|n| format!("@f{n} ")).collect();
    let even = |path: &str| path[1..].parse::<u32>().unwrap() % 2 == 0;
    let mentions = find(&message, even);
    assert_eq!(mentions.paths, ["f0", "f2", "f4", "f6", "f8"]);
    assert_eq!(mentions.more, 5);
}

#[test]
fn a_message_full_of_marks_is_read_in_linear_time() {
    let long = format!("@{}", "文".repeat(2_000));
    for piece in ["@", "@\"", "@a", "@a/../", "@\"x ", "文@", "@./", "文", "@文.", &long] {
        for is_there in [true, false] {
            let message = format!("@{}", piece.repeat(2_000_000 / piece.len()));
            let mut looks = 0;
            let mentions = find(&message, |_| {
                looks += 1;
                is_there
            });
            assert!(mentions.paths.len() <= MOST && mentions.notices.len() <= MOST + 1, "{piece}");
            assert!(looks <= 300, "{piece}: {looks} looks");
        }
    }
}

proptest! {
    /// Whatever a message holds: the message stays, the paths stay inside, nothing comes twice.
    #[test]
    fn any_message_keeps_its_text(message in "(?s)(@|@|\\.\\./|\\./|a|/|\"| |文|\n){0,30}|.{0,60}") {
        let mentions = find(&message, |_| true);
        let whole = mentions.appended(&message);
        prop_assert!(whole.starts_with(&message));
        prop_assert!(mentions.paths.len() <= MOST);
        prop_assert!(mentions.more == 0 || mentions.paths.len() == MOST);
        prop_assert_eq!(whole.matches("You MUST read").count(), mentions.paths.len());
        for path in &mentions.paths {
            prop_assert!(message.contains(path.as_str()));
            prop_assert!(!path.starts_with('/'), "{}", path);
            let mut depth = 0;
            for part in path.split('/') {
                depth += match part { "" | "." => 0, ".." => -1, _ => 1 };
                prop_assert!(depth >= 0, "{} leads out", path);
            }
        }
    }
}

#[test]
fn a_second_reading_notes_what_somebody_else_changed() {
    let mut fresh = Freshness::default();
    assert!(!fresh.is_known("a.rs"));
    assert_eq!(fresh.read("a.rs", Mtime(1), Language::English), None, "the first reading");
    assert_eq!(fresh.read("a.rs", Mtime(1), Language::English), None, "nothing changed");
    assert_eq!(fresh.read("b.rs", Mtime(9), Language::English), None, "another file");
    let note = fresh.read("a.rs", Mtime(2), Language::English);
    assert_eq!(note.as_deref(), Some("Note: a.rs was modified externally."));
    assert_eq!(fresh.read("a.rs", Mtime(2), Language::English), None, "said once");
    assert!(fresh.read("a.rs", Mtime(1), Language::English).is_some(), "put back is a change too");
}

#[test]
fn our_own_edits_are_not_external() {
    let mut fresh = Freshness::default();
    assert!(!fresh.changed_since_read("a.rs", Mtime(1)), "never read");
    fresh.read("a.rs", Mtime(1), Language::English);
    assert!(!fresh.changed_since_read("a.rs", Mtime(1)));
    assert!(fresh.changed_since_read("a.rs", Mtime(2)));
    fresh.own_edit("a.rs", Mtime(2));
    assert!(!fresh.changed_since_read("a.rs", Mtime(2)));
    assert_eq!(fresh.read("a.rs", Mtime(2), Language::English), None);
    // An edit of ours does not hide a later one of somebody else.
    fresh.own_edit("a.rs", Mtime(3));
    assert!(fresh.changed_since_read("a.rs", Mtime(4)));
    assert!(fresh.read("a.rs", Mtime(4), Language::English).is_some());
    fresh.forget("a.rs");
    assert!(!fresh.is_known("a.rs") && !fresh.changed_since_read("a.rs", Mtime(9)));
}
