//! Questions at the terminal. What was typed before a question was shown answers nothing: it is thrown
//! away, and so is all that follows the first line of an answer (a paste of several lines).

use std::io::{IsTerminal, Stdin, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Bytes of an answer that are read.
const LONGEST: usize = 64 << 10;

/// The time between two looks at a request to stop.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// True if the user asked to stop since the current question was shown.
static IS_STOPPED: AtomicBool = AtomicBool::new(false);

/// The user asked to stop: a question that is open has no answer.
pub(crate) fn stop() {
    IS_STOPPED.store(true, Ordering::SeqCst);
}

/// True if there is a user who can be asked: questions are shown on standard error, answers come from
/// standard input.
pub(crate) fn is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Shows a question and reads one line. `None`: there is no answer (end of input, no terminal, or a
/// request to stop).
pub(crate) fn ask(question: &str) -> Option<String> {
    let input = std::io::stdin();
    if !is_there() {
        return None;
    }
    IS_STOPPED.store(false, Ordering::SeqCst);
    // Where this fails, an answer could be older than its question.
    tcflush(&input, QueueSelector::IFlush).ok()?;
    let mut err = std::io::stderr();
    write!(err, "{question}").and_then(|()| err.flush()).ok()?;
    let line = line(&input);
    let _ = tcflush(&input, QueueSelector::IFlush);
    line
}

/// One line, read without a buffer that could keep what comes after it.
fn line(input: &Stdin) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while bytes.len() < LONGEST {
        let mut waiting = [PollFd::new(input, PollFlags::IN)];
        let is_ready = poll(&mut waiting, Some(&LOOK));
        if IS_STOPPED.load(Ordering::SeqCst) {
            return None;
        }
        if !matches!(is_ready, Ok(1..)) {
            continue;
        }
        match rustix::io::read(input, &mut byte) {
            Ok(1) if byte[0] == b'\n' => break,
            Ok(1) => bytes.push(byte[0]),
            Err(rustix::io::Errno::INTR) => {}
            // Half a line before the end of the input is no answer.
            Ok(_) | Err(_) => return None,
        }
    }
    String::from_utf8(bytes).ok()
}

/// True if the answer to a question is a clear yes: anything else is a no.
pub(crate) fn agrees(question: &str) -> bool {
    ask(question).is_some_and(|line| matches!(line.trim(), "y" | "Y" | "yes" | "Yes"))
}

/// Columns of the terminal that shows what happens; those of a usual one where it does not tell.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// A line and its end in less than the width of the terminal: the line is cut, then the end. A wide
/// character takes two columns.
pub(crate) fn fitted(line: &str, end: &str, columns: usize) -> String {
    let room = columns.saturating_sub(1);
    let own = room.saturating_sub(end.width());
    if line.width() <= own {
        return format!("{line}{end}");
    }
    cut(&format!("{}…{end}", cut(line, own.saturating_sub(1))), room)
}

/// The beginning of a text, up to a number of columns.
fn cut(text: &str, columns: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= columns
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_to_the_columns_of_the_terminal() {
        assert_eq!(fitted("[1] DEV works", " … 3 s", 80), "[1] DEV works … 3 s");
        assert_eq!(fitted("[1] DEV works", " … 3 s", 16), "[1] DEV … … 3 s");
        assert_eq!(fitted("[1] 开始工作：脚本", " … 3 秒", 20), "[1] 开始工… … 3 秒");
        for columns in 0..60 {
            for line in ["[12] TEST works: the program", "[12] 开始工作：程序，提示 1200 tokens"]
            {
                let shown = fitted(line, " … 12 秒，已收到 5 字节", columns);
                assert!(shown.width() <= columns.saturating_sub(1), "{columns}: {shown}");
            }
        }
    }
}
