//! Ends the processes of a program: those of its group, and those that left the group and still
//! carry its mark. A process counts as gone once the kernel has ended it, not when it was signalled.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
    test_kill_process,
};

use super::{MARK, timespec};

/// How long the kernel gets to end processes that it was told to end. A busy machine takes a part of
/// it; all of it is used only where a process cannot end, because it waits for a broken disk.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);
/// How often a process is looked at where the kernel has no handles for processes.
const LOOK: Duration = Duration::from_millis(2);

/// One process. With its handle, no other process that gets the same number later is meant.
struct Process {
    pid: Pid,
    /// `None`: the kernel has no such handles.
    handle: Option<OwnedFd>,
}

impl Process {
    /// `None`: it is gone.
    fn open(pid: Pid) -> Option<Process> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Some(Process { pid, handle: Some(handle) }),
            Err(Errno::SRCH) => None,
            Err(_) => Some(Process { pid, handle: None }),
        }
    }

    fn kill(&self) -> bool {
        match &self.handle {
            Some(handle) => pidfd_send_signal(handle, Signal::KILL).is_ok(),
            None => kill_process(self.pid, Signal::KILL).is_ok(),
        }
    }

    fn is_gone_by(&self, until: Instant) -> bool {
        let left = || until.saturating_duration_since(Instant::now());
        if let Some(handle) = &self.handle {
            return gone_within(handle, left());
        }
        // One that only waits to be reaped has ended.
        while test_kill_process(self.pid).is_ok() && !is_zombie(self.pid) {
            if left().is_zero() {
                return false;
            }
            std::thread::sleep(LOOK.min(left()));
        }
        true
    }
}

/// Whether a process has ended by then.
pub(super) fn gone_within(handle: &OwnedFd, time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timespec(left))) {
            Ok(count) => return count > 0,
            // A signal of ours; the time is not over yet.
            Err(Errno::INTR) if !left.is_zero() => {}
            Err(_) => return false,
        }
    }
}

/// Waits for the end of a process that was told to end.
pub(super) fn wait_for_end(pid: Pid) {
    if let Some(process) = Process::open(pid) {
        process.is_gone_by(Instant::now() + PATIENCE);
    }
}

/// Ends the group and everything that carries the mark; all of them are gone when this returns. The
/// first process of the group must not be reaped before, as its number names the group.
pub(super) fn end_all(group: Pid, mark: &str) {
    let _ = kill_process_group(group, Signal::KILL);
    let wanted = format!("{MARK}={mark}");
    end_matching(|pid| {
        // A process that is about to end has no variables any more, but still its group.
        group_of(pid) == Some(group) || has_variable(pid, |variable| variable == wanted.as_bytes())
    });
}

/// Ends what programs with such a mark have left behind; returns their number once they are gone.
/// Only for the holder of the lock under which they were started.
pub fn end_left_behind(mark: &str) -> usize {
    let wanted = format!("{MARK}={mark}-");
    end_matching(|pid| has_variable(pid, |variable| variable.starts_with(wanted.as_bytes())))
}

fn end_matching(is_meant: impl Fn(Pid) -> bool) -> usize {
    let until = Instant::now() + PATIENCE;
    let mut ended = BTreeSet::new();
    loop {
        // Processes that are forked during one look are found by the next one.
        let mut found = matching(&is_meant);
        // A process of another user cannot be ended, and is not waited for.
        found.retain(Process::kill);
        ended.extend(found.iter().map(|process| process.pid.as_raw_nonzero()));
        let are_gone = found.iter().all(|process| process.is_gone_by(until));
        if found.is_empty() || !are_gone || Instant::now() >= until {
            return ended.len();
        }
    }
}

/// The processes that are meant and still alive, without our own.
fn matching(is_meant: impl Fn(Pid) -> bool) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = rustix::process::getpid();
    let processes = entries.flatten().filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        if pid == own || !is_meant(pid) {
            return None;
        }
        // Looked at once more: the number may have passed on before there was a handle.
        let process = Process::open(pid).filter(|_| is_meant(pid))?;
        (!process.is_gone_by(Instant::now())).then_some(process)
    });
    processes.collect()
}

/// A field of what the kernel says of a process, counted after its name: 1 is the state, 3 the group.
fn stat_field(pid: Pid, field: usize) -> Option<String> {
    let text = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name, in brackets, may hold anything.
    let name_ends = memchr::memrchr(b')', &text)?;
    let rest = std::str::from_utf8(&text[name_ends..]).ok()?;
    rest.split(' ').nth(field).map(str::to_owned)
}

fn is_zombie(pid: Pid) -> bool {
    stat_field(pid, 1).is_some_and(|state| matches!(state.as_str(), "Z" | "X"))
}

/// `None` also for what has no group here, as a thread of the kernel.
fn group_of(pid: Pid) -> Option<Pid> {
    let group = stat_field(pid, 3)?;
    // The kernel writes -1 for a process that has just gone.
    group.parse().ok().filter(|group| *group > 0).and_then(Pid::from_raw)
}

fn has_variable(pid: Pid, is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
    std::fs::read(path).is_ok_and(|all| all.split(|byte| *byte == 0).any(is_wanted))
}
