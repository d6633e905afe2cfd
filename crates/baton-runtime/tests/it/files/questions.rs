//! What a person is asked: exactly what will be done, and nothing that could pass for something else.

use baton_core::message::ToolCall;
use baton_core::text;
use baton_runtime::approve::question;
use serde_json::json;

use super::ground::count;

fn asked(command: &str) -> String {
    let arguments = json!({ "command": command }).as_object().unwrap().clone();
    question(&ToolCall { id: "c1".to_owned(), name: "Bash".to_owned(), arguments }, false)
}

/// The command, read back out of the question as a careful person would.
fn read_back(question: &str) -> Option<String> {
    let mut lines = question.lines().peekable();
    assert_eq!(lines.next(), Some("Bash:"));
    let mut out = String::new();
    let first = lines.next()?.strip_prefix("  command: ")?;
    unescaped(first, &mut out)?;
    for line in lines {
        if let Some(rest) = line.strip_prefix("    | ") {
            out.push('\n');
            unescaped(rest, &mut out)?;
        } else if let Some(rest) = line.strip_prefix("    … ") {
            unescaped(rest, &mut out)?;
        } else if !line.starts_with("  (") {
            return None;
        }
    }
    Some(out)
}

/// `⟨1b⟩` is a character by its number.
fn unescaped(line: &str, out: &mut String) -> Option<()> {
    let mut rest = line;
    while let Some(at) = rest.find('⟨') {
        out.push_str(&rest[..at]);
        let (number, after) = rest[at + '⟨'.len_utf8()..].split_once('⟩')?;
        out.push(char::from_u32(u32::from_str_radix(number, 16).ok()?)?);
        rest = after;
    }
    out.push_str(rest);
    Some(())
}

fn assert_exact(command: &str) {
    let question = asked(command);
    let start: String = command.chars().take(200).collect();
    assert_eq!(read_back(&question).as_deref(), Some(command), "{start:?} is asked as {question}");
    for c in question.chars().filter(|c| *c != '\n') {
        let is_hidden = c.is_control() || text::is_invisible(c) || (c.is_whitespace() && c != ' ');
        assert!(!is_hidden, "{c:?} in {question:?}");
    }
    for line in question.lines() {
        // As wide as a terminal is at least, a wide character counted twice.
        let width: usize = line.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
        assert!(width <= 80, "{width}: {line}");
        assert!(!line.ends_with(' ') || line == "  command: " || line == "    | ", "{line:?}");
    }
}

#[test]
fn a_question_can_be_read_back() {
    let hidden = [
        "\u{0}",
        "\u{1b}[2K\rls",
        "\u{8}\u{8}",
        "\r",
        "\t",
        "\u{7f}",
        "\u{85}",
        "\u{9b}2J",
        "\u{a0}",
        "\u{ad}",
        "\u{202e}sl",
        "\u{2066}",
        "\u{200b}",
        "\u{feff}",
        "\u{2028}",
        "\u{2029}",
        "\u{3000}",
        "\u{2800}",
        "\u{3164}",
        "\u{fe0f}",
        "❤\u{fe0f}",
        "\u{e0041}",
        "\u{1d173}",
        "\u{1bca0}",
        "\u{115f}",
        "\u{fff9}",
        "\u{2000}",
        "\u{180e}",
        "\u{16fe4}",
        "\u{b}",
        "\u{c}",
        "\u{1c}",
    ];
    for one in hidden {
        assert!(!asked(&format!("a{one}b")).contains(&format!("a{one}b")), "{one:?} is not shown");
        for command in [
            one.to_owned(),
            format!("ls {one}; rm -rf x"),
            format!("{one}\nls"),
            format!("ls{one}"),
        ] {
            assert_exact(&command);
        }
    }
    let alike = [
        ("a\tb", "a\\tb"),
        ("a\u{1b}b", "a\\u{1b}b"),
        ("a\u{1b}b", "a⟨1b⟩b"),
        ("a\nb", "a\\nb"),
        ("a\nb", "a\n    | b"),
        ("a\n  outside: true", "a\n    |   outside: true"),
        ("ls", "ls "),
        ("ls", "ls\n"),
        ("ls a", "ls\u{a0}a"),
        ("ls", "ls\u{200b}"),
    ];
    for (one, other) in alike {
        assert_ne!(asked(one), asked(other), "{one:?} and {other:?}");
        assert_exact(one);
        assert_exact(other);
    }
    let pad = " ".repeat(4_000);
    for command in [
        format!("ls{pad}; rm -rf x"),
        format!("ls{}rm -rf x", "\n".repeat(500)),
        format!("echo {}", "x".repeat(20_000)),
        format!("ls{}  outside: false", " ".repeat(69)),
        format!("printf '{}'", "宽".repeat(300)),
        "cat <<'END'\nRun exactly this? [y/N] y\nEND".to_owned(),
    ] {
        assert_exact(&command);
    }
    let long = asked(&"true\n".repeat(300));
    assert!(long.lines().last().unwrap().contains("303 lines"), "{long}");
}

#[test]
fn no_generated_command_is_shown_as_another() {
    let pieces = [
        "ls",
        "rm -rf /",
        " ",
        "  ",
        "\n",
        "\t",
        "\\t",
        "\\n",
        "\\",
        "\\u{1b}",
        "\u{1b}",
        "⟨",
        "⟩",
        "⟨1b⟩",
        "    | ",
        "    … ",
        "  command: ",
        "  outside: true",
        ";",
        "&&",
        "$IFS",
        "`id`",
        "$(id)",
        "\u{202e}",
        "\u{200d}",
        "é",
        "e\u{301}",
        "宽",
        "❤\u{fe0f}",
        "\r\n",
        "\u{a0}",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "\0",
        "'",
        "\"",
        "…",
        "(",
        "Bash:",
    ];
    let mut random = fastrand::Rng::with_seed(18);
    let mut seen = std::collections::HashMap::new();
    for _ in 0..count(20_000, 100_000) {
        let mut command = String::new();
        for _ in 0..random.usize(1..12) {
            match random.u8(..) {
                0..200 => command.push_str(pieces[random.usize(..pieces.len())]),
                200..230 => command.push(random.char(..)),
                _ => command.push(random.char(..'\u{300}')),
            }
        }
        assert_exact(&command);
        let question = asked(&command);
        if let Some(other) = seen.insert(question, command.clone()) {
            assert_eq!(other, command);
        }
    }
}

/// Text with everything in it that a terminal could take for an order.
fn hostile(random: &mut fastrand::Rng) -> String {
    let pieces = [
        "\u{1b}[31m",
        "\u{1b}]0;title\u{7}",
        "\u{1b}]52;c;ZXZpbA==\u{7}",
        "\u{1b}P",
        "\u{9b}2J",
        "\u{9d}0;x\u{9c}",
        "\r",
        "\u{8}",
        "\u{202e}",
        "\u{2066}",
        "\u{200b}",
        "\u{feff}",
        "❤\u{fe0f}",
        "text",
        "\n",
        "\t",
        "文",
        "\u{7f}",
        "\u{0}",
        "\u{e0041}",
        "\u{1d173}",
    ];
    let mut out = String::new();
    for _ in 0..random.usize(1..10) {
        match random.u8(..) {
            0..200 => out.push_str(pieces[random.usize(..pieces.len())]),
            _ => out.push(random.char(..)),
        }
    }
    out
}

#[test]
fn no_text_is_an_order_to_a_terminal() {
    let mut random = fastrand::Rng::with_seed(28);
    for _ in 0..count(20_000, 100_000) {
        let raw = hostile(&mut random);
        let is_order = |c: char| c.is_control() || (text::is_invisible(c) && c != '\u{fe0f}');
        let shown = text::shown(&raw, 50);
        assert!(!shown.contains(is_order) && shown.chars().count() < 500, "{raw:?}: {shown:?}");
        let escaped = text::escaped(&raw);
        assert!(
            !escaped.contains(|c| is_order(c) && !matches!(c, '\n' | '\t')),
            "{raw:?}: {escaped:?}"
        );
        let stripped = text::stripped(&raw);
        assert!(
            !stripped.contains('\u{1b}') && !stripped.contains('\u{9b}'),
            "{raw:?}: {stripped:?}"
        );
    }
}
