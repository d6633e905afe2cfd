//! The signals that ask a command to stop, in one place. What happens then is the caller's.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::reply::{Failure, INTERNAL};

/// A request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// Ctrl-C, or `kill`.
    Stop,
    /// The terminal is gone: there will be no second request.
    HangUp,
}

/// Calls `on_request` for every such signal, in a thread of its own. A process that was started to
/// outlive its terminal (`nohup`) is not told that the terminal is gone.
pub(crate) fn watch(mut on_request: impl FnMut(Request) + Send + 'static) -> Result<(), Failure> {
    let wanted = [SIGINT, SIGTERM, SIGHUP];
    let wanted = wanted.into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP));
    let mut signals = signal_hook::iterator::Signals::new(wanted)
        .map_err(|error| Failure::new(INTERNAL, format!("cannot watch for signals: {error}")))?;
    let watching = std::thread::Builder::new().spawn(move || {
        for signal in signals.forever() {
            crate::terminal::stop();
            on_request(if signal == SIGHUP { Request::HangUp } else { Request::Stop });
        }
    });
    watching.map(drop).map_err(|error| Failure::new(INTERNAL, no_thread(&error)))
}

/// True if this process was started with the signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// Why nothing can be done: the limit of processes or of memory is reached.
fn no_thread(error: &std::io::Error) -> String {
    format!(
        "cannot start a thread: {error}\nhint: end other programs, or raise the limit of processes (`ulimit -u`)"
    )
}
