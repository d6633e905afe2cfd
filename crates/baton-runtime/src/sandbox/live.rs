//! A program that stays alive and answers line after line: a question is one line of its standard
//! input, the answer one line of its standard output. No question is waited for beyond its limit,
//! neither while it is written nor while it is answered, and no more of an answer is held than its
//! asker allows. There is no thread of its own: what comes is taken as it is asked for.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio, read, writev};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{
    How, Interrupt, LOOK, Last, Program, Refused, Started, as_allowed, cannot, gone_within,
    started, timespec,
};

/// Bytes of the standard error that are kept, from its end.
const STDERR: usize = 8 << 10;
/// Characters of it that are shown.
const SHOWN: usize = 400;
/// Bytes that are taken at a time.
const PIECE: usize = 64 << 10;
/// How long a program that has closed a pipe gets to end by itself.
const CLOSING: Duration = Duration::from_secs(2);
/// How long a launcher gets to come to the program.
const BEGIN: Duration = Duration::from_secs(10);

/// Why there is no answer. The program was ended, and answers no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It took longer than its limit: to read the question, or to answer it.
    TimedOut,
    /// It ended without an answer; `stderr` is the end of what it said there.
    Ended { how: How, stderr: String },
    /// The answer is longer than allowed.
    TooLong,
    /// Somebody asked to stop at once.
    Interrupted,
    /// It does not keep to questions and answers, or never ran.
    Broken(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::TimedOut => write!(out, "it did not answer in time"),
            Fault::Ended { how, stderr } => {
                match how {
                    How::Exit(code) => {
                        write!(out, "it ended without an answer, exit status {code}")?;
                    }
                    How::Signal(signal) => write!(out, "it was ended by signal {signal}")?,
                    How::TimedOut | How::Interrupted => write!(out, "it was ended")?,
                }
                // A line for people: the last words say most.
                let said = stderr.trim();
                let from = said.char_indices().rev().nth(SHOWN - 1).map_or(0, |(at, _)| at);
                match &said[from..] {
                    "" => Ok(()),
                    end => write!(out, "; it said: {}{end}", if from > 0 { "..." } else { "" }),
                }
            }
            Fault::TooLong => write!(out, "its answer is longer than allowed"),
            Fault::Interrupted => write!(out, "interrupted"),
            Fault::Broken(why) => write!(out, "{why}"),
        }
    }
}

/// Why an exchange stops.
enum Stop {
    TimedOut,
    TooLong,
    Interrupted,
    /// Nothing can come any more.
    Ended,
    Broken(&'static str),
}

/// See above. One that is let go ends with all that it has started.
#[derive(Debug)]
pub struct Live {
    started: Started,
    program: Program,
    /// Of the process that we started.
    handle: OwnedFd,
    stdin: OwnedFd,
    stdout: OwnedFd,
    /// `None`: the program has closed it.
    stderr: Option<OwnedFd>,
    /// The end of what came from there.
    said: VecDeque<u8>,
    /// What is read comes in here first.
    piece: Vec<u8>,
    /// Whether more came than the last answer.
    has_more: bool,
    over: Option<Fault>,
}

impl Live {
    /// Starts it, confined as any other program; its input, limit and copy mean nothing here. It lives
    /// no longer than the thread that starts it.
    pub fn start(program: &Program) -> Result<Live, String> {
        as_allowed(program, Live::begun)
    }

    fn begun(program: &Program) -> Result<Live, Refused> {
        let mut started = started(program)?;
        let pipes = (|| {
            let handle = pidfd_open(Pid::from_child(&started.child), PidfdFlags::empty())?;
            let (child, none) = (&mut started.child, Errno::BADF);
            let stdin = OwnedFd::from(child.stdin.take().ok_or(none)?);
            let stdout = OwnedFd::from(child.stdout.take().ok_or(none)?);
            let stderr = OwnedFd::from(child.stderr.take().ok_or(none)?);
            for pipe in [&stdin, &stdout, &stderr] {
                ioctl_fionbio(pipe, true)?;
            }
            Ok((handle, stdin, stdout, stderr))
        })();
        let (handle, stdin, stdout, stderr) = match pipes {
            Ok(pipes) => pipes,
            Err(error) => {
                started.finish(true);
                let error: Errno = error;
                return Err(cannot(program, &error));
            }
        };
        let mut live = Live {
            started,
            program: Program { input: Vec::new(), ..program.clone() },
            handle,
            stdin,
            stdout,
            stderr: Some(stderr),
            said: VecDeque::new(),
            piece: vec![0; PIECE],
            has_more: false,
            over: None,
        };
        live.wait_for_launcher()?;
        Ok(live)
    }

    /// A launcher that cannot do its work says so before the first question.
    fn wait_for_launcher(&mut self) -> Result<(), Refused> {
        let Some(sheet) = &self.started.sheet else { return Ok(()) };
        let start = Instant::now();
        while start.elapsed() < BEGIN && !gone_within(&self.handle, Duration::from_millis(1)) {
            if sheet.report().has_begun {
                return Ok(());
            }
        }
        if sheet.report().has_begun {
            return Ok(());
        }
        let lives = !gone_within(&self.handle, Duration::ZERO);
        let finished = self.started.finish(lives);
        self.over = Some(Fault::TimedOut);
        match finished.of(&self.program) {
            Err(refused) => Err(refused),
            Ok(_) => Err(cannot(&self.program, &"the sandbox was not made in time")),
        }
    }

    /// Writes one line and waits for the next one; neither holds its line break. After a fault the
    /// program is no more, and every further question gets the same one.
    pub fn ask(
        &mut self,
        line: &[u8],
        limit: Duration,
        most: usize,
        interrupt: &Interrupt,
    ) -> Result<Vec<u8>, Fault> {
        if let Some(fault) = &self.over {
            return Err(fault.clone());
        }
        if memchr::memchr(b'\n', line).is_some() {
            return Err(Fault::Broken("a question is one line; this one holds several".to_owned()));
        }
        // A limit that no clock reaches is as good as a year.
        let now = Instant::now();
        let until = now.checked_add(limit).unwrap_or(now + Duration::from_secs(365 * 86_400));
        self.exchange(line, until, most, interrupt).map_err(|stop| self.stopped(&stop))
    }

    /// Ends it, and everything that it has started.
    pub fn end(self) {
        drop(self);
    }

    fn exchange(
        &mut self,
        line: &[u8],
        until: Instant,
        most: usize,
        interrupt: &Interrupt,
    ) -> Result<Vec<u8>, Stop> {
        let mut answer = Vec::new();
        let comes = self.take(&mut answer, 0);
        if self.has_more || !matches!(comes, Ok(false) | Err(Stop::Ended)) {
            return Err(Stop::Broken("it said more than it was asked"));
        }
        comes?;
        let mut written = self.put(line, 0)?;
        loop {
            if interrupt.is_at_once() {
                return Err(Stop::Interrupted);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Stop::TimedOut);
            }
            let ready = self.wait(written <= line.len(), left.min(LOOK));
            if ready.stderr {
                self.listen();
            }
            if ready.stdin {
                written = self.put(line, written)?;
            }
            // What it said before it ended counts.
            let before = answer.len();
            if (ready.stdout || ready.gone) && self.take(&mut answer, most)? {
                return match written > line.len() {
                    true => Ok(answer),
                    false => Err(Stop::Broken("it answered before it had read the question")),
                };
            }
            if ready.gone && !ready.stdout && answer.len() == before {
                return Err(Stop::Ended);
            }
        }
    }

    /// Writes what the pipe takes of the line and its end; how much is written then.
    fn put(&self, line: &[u8], written: usize) -> Result<usize, Stop> {
        let rest = [IoSlice::new(line.get(written..).unwrap_or_default()), IoSlice::new(b"\n")];
        match writev(&self.stdin, &rest) {
            Ok(count) => Ok(written + count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(written),
            Err(_) => Err(Stop::Ended),
        }
    }

    /// Takes what has come of a line; whether it is whole now.
    fn take(&mut self, answer: &mut Vec<u8>, most: usize) -> Result<bool, Stop> {
        let count = match read(&self.stdout, &mut self.piece[..]) {
            Ok(0) => return Err(Stop::Ended),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(_) => return Err(Stop::Ended),
        };
        let came = &self.piece[..count];
        let end = memchr::memchr(b'\n', came);
        let own = &came[..end.unwrap_or(count)];
        if answer.len() + own.len() > most {
            return Err(Stop::TooLong);
        }
        answer.extend_from_slice(own);
        self.has_more = end.is_some_and(|end| end + 1 < count);
        Ok(end.is_some())
    }

    /// Takes one piece of its standard error; whether there may be more.
    fn listen(&mut self) -> bool {
        let Some(stderr) = &self.stderr else { return false };
        match read(stderr, &mut self.piece[..]) {
            Ok(0) => self.stderr = None,
            Ok(count) => {
                self.said.extend(&self.piece[count.saturating_sub(STDERR)..count]);
                let over = self.said.len().saturating_sub(STDERR);
                self.said.drain(..over);
                return true;
            }
            Err(Errno::INTR) => return true,
            Err(Errno::AGAIN) => {}
            Err(_) => self.stderr = None,
        }
        false
    }

    fn wait(&self, is_writing: bool, time: Duration) -> Ready {
        let of = |pipe, flags| PollFd::from_borrowed_fd(pipe, flags);
        let mut all = Vec::with_capacity(4);
        all.push(of(self.stdout.as_fd(), PollFlags::IN));
        all.push(of(self.handle.as_fd(), PollFlags::IN));
        all.extend(self.stderr.as_ref().map(|pipe| of(pipe.as_fd(), PollFlags::IN)));
        if is_writing {
            all.push(of(self.stdin.as_fd(), PollFlags::OUT));
        }
        // Interrupted by a signal: nothing is ready yet.
        let count = poll(&mut all, Some(&timespec(time))).unwrap_or(0);
        let is_ready =
            |index: usize| count > 0 && all.get(index).is_some_and(|one| !one.revents().is_empty());
        let errors = usize::from(self.stderr.is_some());
        Ready {
            stdout: is_ready(0),
            gone: is_ready(1),
            stderr: errors == 1 && is_ready(2),
            stdin: is_writing && is_ready(2 + errors),
        }
    }

    fn stopped(&mut self, stop: &Stop) -> Fault {
        // Its pipes are closed a moment before it is gone.
        let is_gone = matches!(stop, Stop::Ended) && gone_within(&self.handle, CLOSING);
        let finished = self.started.finish(!is_gone);
        // Nobody writes any more, so that this has an end; one that somehow still does gets no more
        // than this.
        for _ in 0..64 {
            if !self.listen() {
                break;
            }
        }
        let fault = match stop {
            Stop::TimedOut => Fault::TimedOut,
            Stop::TooLong => Fault::TooLong,
            Stop::Interrupted => Fault::Interrupted,
            Stop::Broken(why) => Fault::Broken((*why).to_owned()),
            Stop::Ended if !is_gone => {
                Fault::Broken("it closed its input or its output, and went on".to_owned())
            }
            Stop::Ended => match finished.of(&self.program) {
                Ok(Last { how, note, .. }) => Fault::Ended { how, stderr: self.last_words(note) },
                Err(refused) => Fault::Broken(refused.said()),
            },
        };
        self.over = Some(fault.clone());
        fault
    }

    fn last_words(&mut self, note: Option<String>) -> String {
        let mut text = String::from_utf8_lossy(self.said.make_contiguous()).into_owned();
        if let Some(note) = note {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&note);
        }
        text
    }
}

/// What can be done without waiting.
struct Ready {
    stdout: bool,
    gone: bool,
    stderr: bool,
    stdin: bool,
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.over.is_none() {
            self.started.finish(true);
        }
    }
}
