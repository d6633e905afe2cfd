//! `@file` in the user's words: what the model is reminded of, and what the user is told.

use baton_testkit::{Answer, Chat, Place, answer_to, text};
use serde_json::{Value, json};

fn project(names: &[&str]) -> Place {
    let place = Place::new(crate::BATON);
    for name in names {
        place.write(name, "content\n");
    }
    place
}

fn debug(place: &Place, message: &str) -> Answer {
    answer_to(place.command(&["debug", "mentions"]), message.as_bytes())
}

fn debug_json(place: &Place, message: &str) -> Value {
    answer_to(place.command(&["debug", "mentions", "--json"]), message.as_bytes()).json()
}

/// The files that the model is reminded of.
fn reminded(place: &Place, message: &str) -> Vec<String> {
    let out = debug(place, message).out;
    let lines = out.lines().filter_map(|line| line.strip_prefix("The user mentioned @"));
    lines.map(|line| line.trim_end_matches('.').to_owned()).collect()
}

#[test]
fn a_mention_counts_after_any_letter_that_is_not_ascii() {
    let place = project(&["src/a.rs", "src/lib.rs", "说明文档.md", "笔记.md", "文档/说明"]);
    for (message, paths) in [
        ("请看@src/a.rs。", vec!["src/a.rs"]),
        ("看@src/lib.rs 讲什么", vec!["src/lib.rs"]),
        ("ж@src/a.rs é@src/lib.rs", vec!["src/a.rs", "src/lib.rs"]),
        ("mail me@src/a.rs or 7@src/a.rs", vec![]),
    ] {
        assert_eq!(reminded(&place, message), paths, "{message}");
    }
}

#[test]
fn names_of_any_script_need_no_quotes_and_words_behind_them_are_not_swallowed() {
    let place = project(&["src/lib.rs", "说明文档.md", "笔记.md", "文档/说明", "a.rs看"]);
    for (message, paths) in [
        ("@说明文档.md", vec!["说明文档.md"]),
        ("看看@笔记.md，@说明文档.md。还有（@笔记.md）", vec!["笔记.md", "说明文档.md"]),
        ("看@src/lib.rs讲什么", vec!["src/lib.rs"]),
        ("看@说明文档.md讲什么", vec!["说明文档.md"]),
        ("看@文档/说明讲什么", vec!["文档/说明"]),
        // The longest name that is a file.
        ("@a.rs看", vec!["a.rs看"]),
        // An ASCII name is never cut.
        ("@src/lib.rsx", vec![]),
    ] {
        assert_eq!(reminded(&place, message), paths, "{message}");
    }
}

#[test]
fn a_range_is_named_in_the_reminder() {
    let place = project(&["number.py", "a.rs", "my notes.md"]);
    for (message, means) in [
        ("@number.py:497-520", Some("lines 497-520")),
        ("见@number.py:497-520。", Some("lines 497-520")),
        ("@a.rs:12", Some("line 12")),
        ("@a.rs:12:7", Some("line 12")),
        ("@a.rs#L1-L5", Some("lines 1-5")),
        ("@a.rs#L7", Some("line 7")),
        ("@\"my notes.md\":3-4", Some("lines 3-4")),
        ("@a.rs:1-2 and @a.rs#L9", Some("lines 1-2 and line 9")),
        ("@a.rs: why?", None),
        ("@a.rs:0", None),
        ("@a.rs#chapter", None),
    ] {
        let out = debug(&place, message).out;
        assert_eq!(out.matches("<system-reminder>").count(), 1, "{out}");
        let means = means.map(|lines| format!(" The user means {lines}."));
        let line = format!(
            "\nYou MUST read this file with the Read tool before answering.{}\n",
            means.unwrap_or_default()
        );
        assert!(out.contains(&line), "{message}: {out}");
    }
    let json = debug_json(&place, "@a.rs:1-2 @number.py");
    assert_eq!(json["mentions"], json!(["a.rs", "number.py"]));
    assert_eq!(json["lines"], json!({ "a.rs": [[1, 2]] }));
}

#[test]
fn a_path_that_is_missing_or_a_folder_is_left_alone_and_reported_to_the_user() {
    let place = project(&["docs/a.md", "src/lib.rs"]);
    let missing = |name: &str| format!("@{name}: there is no such file in the project");
    let folder = |name: &str| format!("@{name}: a folder; only files are read at a mention");
    for (message, notices) in [
        ("@missing.py", vec![missing("missing.py")]),
        ("看@missing.py讲什么", vec![missing("missing.py")]),
        ("@src/文档.md", vec![missing("src/文档.md")]),
        ("@missing.py:3-4 and @missing.py", vec![missing("missing.py")]),
        ("@\"no notes.md\"", vec![missing("\"no notes.md\"")]),
        ("@src/missing", vec![missing("src/missing")]),
        ("@../x", vec![missing("../x")]),
        ("@docs/", vec![folder("docs/")]),
        ("看@docs/里的文件", vec![folder("docs/")]),
        // A handle, a decorator, a scope of npm.
        ("@alice @property @types @types/node @app.route(\"/\") me@example.org", vec![]),
        ("@src/lib.rs", vec![]),
    ] {
        let json = debug_json(&place, message);
        assert_eq!(json["notices"], json!(notices), "{message}");
        let seen = debug(&place, message);
        for notice in &notices {
            assert!(seen.errors.contains(notice), "{}", seen.errors);
            assert_eq!(seen.out, message, "the message stays as it is");
        }
    }
    let many: String = (0..12).map(|number| format!("@m{number}.rs ")).collect();
    let notices = debug_json(&place, &many)["notices"].clone();
    assert_eq!(notices.as_array().unwrap().len(), 6, "{notices}");
    assert_eq!(notices[5], "(and 7 more mentions that are not files…)");
}

#[test]
fn exec_and_chat_report_a_mention_that_is_not_a_file() {
    let place = crate::talk(vec![text("done"), text("done"), text("seen")]);
    let prompt = "看@missing.py和@src/lib.rs:1-2讲什么";
    let said = place.expect(&["exec", "-p", prompt], 0);
    let notice = "@missing.py: there is no such file in the project";
    assert!(said.contains(&format!("[{notice}]\n")), "{said}");
    let json: Value =
        serde_json::from_str(&place.expect(&["exec", "--json", "-p", prompt], 0)).unwrap();
    assert_eq!(json["notices"], json!([notice]));
    let mut chat = Chat::begin(&place);
    chat.expect("›");
    chat.write("@src/ and @src/lib.rs\r");
    chat.expect("[@src/: a folder; only files are read at a mention]");
    chat.expect("seen");
    chat.expect("›");
    chat.write("\u{4}");
    assert!(chat.child.wait().unwrap().success());
    let requests = place.model().requests();
    let asked = requests[0]["messages"].to_string();
    assert!(asked.contains("The user mentioned @src/lib.rs."), "{asked}");
    assert!(asked.contains("The user means lines 1-2."), "{asked}");
    assert!(!asked.contains("no such file"), "the notice is not for the model: {asked}");
}
