//! A sandbox that was made before it is needed: its launcher has done everything but to start the
//! program, and waits for its words. One program runs in it, as in any other; what is made meanwhile
//! is time that nobody waits for.

use std::fs::File;
use std::io::{self, PipeWriter, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::confine::{Orders, Raw};
use super::output::Streams;
use super::{Interrupt, Program, Ran, Refused, Started, followed, start};

/// See above. One that is let go ends with all that it has.
#[derive(Debug)]
pub struct Spare {
    started: Option<Started>,
    /// The way that the words go. The launcher sees its end when we end.
    words: PipeWriter,
    program: Program,
    orders: Orders,
    /// Tells when something was mounted since.
    mounts: File,
}

impl Spare {
    /// For closed programs like this one, whatever their words and limits are. It lives no longer than
    /// the thread that makes it. `None`: there is nothing to be made, or it cannot be; a program that
    /// is started afresh says why.
    pub fn of(program: &Program) -> Option<Spare> {
        let mounts = File::open("/proc/self/mountinfo").ok()?;
        let (mut orders, standing) = Orders::of(program).ok()??;
        // An open one sees what is mounted later, and there is no telling whose a mount is.
        orders.closed.as_ref()?;
        let (read, words) = io::pipe().ok()?;
        // A command may be longer than a pipe; who would read it may be dead.
        rustix::io::ioctl_fionbio(&words, true).ok()?;
        let started = start(program, Some(&mut orders), standing, Some(read)).ok()?;
        let program = program.clone();
        Some(Spare { started: Some(started), words, program, orders, mounts })
    }

    /// Runs the program in it. `None`: it is not the sandbox that the program would get now, and the
    /// program was not started.
    pub fn run(mut self, program: &Program, interrupt: &Interrupt) -> Option<Result<Ran, String>> {
        // What stands in now stays until the program has ended.
        let (orders, _standing) = Orders::of(program).ok()??;
        let is_alike = self.program.environment == program.environment
            && self.program.mark == program.mark
            && self.orders.is_same_sandbox(&orders);
        if !is_alike || has_changed(&self.mounts) {
            return None;
        }
        let copy = Streams::copy_for(program).ok()?;
        let argv: Vec<Raw> = program.argv.iter().map(Raw::of).collect();
        self.words.write_all(&serde_json::to_vec(&argv).ok()?).ok()?;
        let started = self.started.take()?;
        // They are whole with the end of the pipe.
        drop(self);
        match followed(started, program, copy, interrupt) {
            Err(Refused::NotBegun) => None,
            other => Some(other.map_err(Refused::said)),
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(mut started) = self.started.take() {
            started.finish(true);
        }
    }
}

/// Whether anything was mounted or unmounted since this was opened.
fn has_changed(mounts: &File) -> bool {
    let mut look = [PollFd::new(mounts, PollFlags::PRI)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut look, Some(&at_once)).is_ok_and(|count| count > 0)
}
