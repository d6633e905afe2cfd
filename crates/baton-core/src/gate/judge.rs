//! Judging whether a gate confirms a pass. A command that ends with 0 but ran no test confirms nothing; one
//! that could not run at all is told apart from one whose tests fail.

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Exit(i32),
    Signal(i32),
    /// It was ended after this many seconds.
    TimedOut(u32),
    Interrupted,
}

/// The meaning of a gate's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    pub passed: bool,
    /// The end in one line, with the reason why it does not count, without times or other changing parts: a
    /// blocker that comes again must read the same.
    pub reason: String,
    /// No change of the tested code makes it pass: the command itself is wrong here.
    pub is_unusable: bool,
}

/// The reason in a gate's output as the journal keeps it: its first line.
pub fn reason(output: &str) -> &str {
    output.lines().next().unwrap_or_default().trim()
}

/// Judges the end of a gate's command by its output.
pub fn judge(command: &str, ending: Ending, output: &str) -> Judged {
    let failed = |reason: String, is_unusable: bool| Judged { passed: false, reason, is_unusable };
    match ending {
        Ending::TimedOut(seconds) => {
            let reason = format!("did not end within {seconds} s; is it a watcher or a server?");
            failed(reason, true)
        }
        Ending::Interrupted => failed("interrupted".to_owned(), false),
        Ending::Signal(signal) => failed(format!("ended by signal {signal}"), false),
        Ending::Exit(code) => match unusable(code, output) {
            Some(why) => failed(format!("exit {code}: {why}"), true),
            None if ran_no_test(command, code, output) => {
                failed(format!("exit {code}: no test was run"), false)
            }
            None => {
                Judged { passed: code == 0, reason: format!("exit {code}"), is_unusable: false }
            }
        },
    }
}

/// The reason why the command cannot run as it is.
fn unusable(code: i32, output: &str) -> Option<String> {
    if code == 0 {
        return None;
    }
    if output.contains("Error: no test specified") {
        return Some("\"no test specified\", the placeholder of npm".to_owned());
    }
    if code == 127 {
        return Some(match missing_program(output) {
            Some(name) => format!("command not found: {name}"),
            None => "command not found".to_owned(),
        });
    }
    if code == 126 {
        return Some("the program cannot be executed".to_owned());
    }
    let module = ["pytest", "tox", "nox"].into_iter().find(|module| {
        output.contains(&format!("No module named {module}\n"))
            || output.trim_end().ends_with(&format!("No module named {module}"))
    });
    module.map(|module| format!("{module} is not installed for this interpreter"))
}

/// The name in `sh: 1: name: not found` or `bash: name: command not found`.
fn missing_program(output: &str) -> Option<&str> {
    let ends = [": not found", ": command not found", ": No such file or directory"];
    let named = output.lines().rev().find_map(|line| {
        let rest = ends.iter().find_map(|end| line.trim_end().strip_suffix(end))?;
        rest.rsplit(": ").next().map(str::trim)
    });
    named.filter(|name| !name.is_empty() && name.len() <= 100)
}

/// True if a test runner says that it ran nothing. Other output counts as a run.
fn ran_no_test(command: &str, code: i32, output: &str) -> bool {
    let names = |words: &[&str]| words.iter().all(|word| command.contains(word));
    let is_pytest = names(&["pytest"]) || names(&["py.test"]);
    if is_pytest && code == 5 || said_once(output, "no tests ran in", "NO TESTS RAN") {
        return true;
    }
    if code != 0 {
        return output.contains("No tests found, exiting with code 1")
            || output.contains("No test files found, exiting with code 1");
    }
    all_zero(output, |line| line.strip_prefix("Ran ")?.split_once(" test").map(|(n, _)| n))
        || names(&["cargo", "test"])
            && all_zero(output, |line| {
                line.strip_prefix("running ")?.split_once(" test").map(|(n, _)| n)
            })
        || names(&["go", "test"]) && no_go_tests(output)
        || names(&["node", "--test"])
            && all_zero(output, |line| {
                line.trim_start_matches(['#', 'ℹ', ' ']).strip_prefix("tests ")
            })
}

/// True if one of these texts is in the last lines of the output, and no suite passed.
fn said_once(output: &str, one: &str, other: &str) -> bool {
    let last = output.lines().rev().filter(|line| !line.trim().is_empty()).take(3);
    let mut last = last.map(|line| line.contains(one) || line.contains(other));
    last.any(|is_said| is_said) && !output.contains(" passed")
}

/// True if the output has counts of tests, and all of them are 0.
fn all_zero(output: &str, count: impl Fn(&str) -> Option<&str>) -> bool {
    let mut counts = output.lines().filter_map(|line| count(line.trim())).map(str::trim).peekable();
    counts.peek().is_some() && counts.all(|count| count == "0")
}

/// True if each package says that it has no tests.
fn no_go_tests(output: &str) -> bool {
    let is_package =
        |line: &&str| line.starts_with("ok ") || line.starts_with("ok\t") || line.starts_with('?');
    let mut packages = output.lines().filter(is_package).peekable();
    let is_empty =
        |line: &str| line.contains("[no test files]") || line.contains("[no tests to run]");
    packages.peek().is_some() && packages.all(is_empty)
}
