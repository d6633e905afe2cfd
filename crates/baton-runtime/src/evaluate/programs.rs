//! The programs of a scenario, of one thread: those that stay are kept alive from call to call, and
//! one that had a fault is started anew.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use baton_core::scenario::MAX_LINE_BYTES;
use baton_core::scenario::parts;

use super::{Ask, Error};
use crate::sandbox::{self, Closed, Confine, Fault, How, Interrupt, Live, Program};

const VARIABLES: [&str; 4] = ["PATH", "LANG", "LC_*", "TZ"];
/// Of what a program that stays says, besides its answers.
const KEPT: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Programs {
    live: BTreeMap<Vec<String>, Live>,
    folder: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    closed: Option<Closed>,
    /// Its folder goes with it.
    _temporary: tempfile::TempDir,
}

/// Why a program gave no line.
#[derive(Debug)]
pub(super) enum NoLine {
    /// `timeout`, `ended`, …, and what happened.
    Fault(&'static str, String),
    Interrupted,
}

impl Programs {
    pub(super) fn new(ask: &Ask<'_>, folder: PathBuf) -> Result<Programs, Error> {
        let temporary = tempfile::tempdir()
            .map_err(|error| Error::Sandbox(format!("cannot make a temporary folder: {error}")))?;
        let closed = match ask.confined {
            false => None,
            true => {
                let board = folder.join(".baton");
                let usual = Closed::usual(&folder, &board, temporary.path(), ask.environment);
                let mut closed = usual.map_err(Error::Sandbox)?;
                // The scenario's own programs change the state that they are given, and nothing else.
                closed.writable.clear();
                closed.protected.clear();
                Some(closed)
            }
        };
        let names: Vec<String> = VARIABLES.iter().map(|name| (*name).to_owned()).collect();
        let environment = ask.environment.for_command(&names);
        Ok(Programs { live: BTreeMap::new(), folder, environment, closed, _temporary: temporary })
    }

    fn program(&self, own: &parts::Program, input: Vec<u8>, most: usize) -> Program {
        let confine = match &self.closed {
            Some(closed) => Confine::Closed(Box::new(closed.clone())),
            None => Confine::Off,
        };
        Program {
            argv: own.command.iter().map(OsString::from).collect(),
            folder: self.folder.clone(),
            environment: self.environment.clone(),
            input,
            limit: Duration::from_secs(u64::from(own.timeout)),
            mark: "scenario".to_owned(),
            most,
            copy: None,
            confine,
            within: None,
        }
    }

    /// One line in, one line out.
    pub(super) fn ask(
        &mut self,
        own: &parts::Program,
        line: &[u8],
        interrupt: &Interrupt,
    ) -> Result<Vec<u8>, NoLine> {
        if line.len() > MAX_LINE_BYTES {
            let why = format!("the line for it has more than {MAX_LINE_BYTES} bytes");
            return Err(NoLine::Fault("output", why));
        }
        if !own.stays {
            return self.once(own, line, interrupt);
        }
        let was_there = self.live.contains_key(&own.command);
        match self.ask_live(own, line, interrupt) {
            // Words that came before the question are the fault of one before: the question was not
            // read yet.
            Err(NoLine::Fault("garbage", _)) if was_there => self.ask_live(own, line, interrupt),
            other => other,
        }
    }

    fn ask_live(
        &mut self,
        own: &parts::Program,
        line: &[u8],
        interrupt: &Interrupt,
    ) -> Result<Vec<u8>, NoLine> {
        let mut live = match self.live.remove(&own.command) {
            Some(live) => live,
            None => Live::start(&self.program(own, Vec::new(), KEPT))
                .map_err(|why| NoLine::Fault("start", why))?,
        };
        let limit = Duration::from_secs(u64::from(own.timeout));
        match live.ask(line, limit, MAX_LINE_BYTES, interrupt) {
            Ok(answer) => {
                self.live.insert(own.command.clone(), live);
                Ok(answer)
            }
            Err(fault) => {
                live.end();
                let said = fault.to_string();
                Err(match fault {
                    Fault::Interrupted => NoLine::Interrupted,
                    Fault::TimedOut => NoLine::Fault("timeout", said),
                    Fault::Ended { .. } => NoLine::Fault("ended", said),
                    Fault::TooLong => NoLine::Fault("output", said),
                    Fault::Broken(_) => NoLine::Fault("garbage", said),
                })
            }
        }
    }

    /// A process for this call alone.
    fn once(
        &self,
        own: &parts::Program,
        line: &[u8],
        interrupt: &Interrupt,
    ) -> Result<Vec<u8>, NoLine> {
        let mut input = line.to_vec();
        input.push(b'\n');
        // What is kept is half beginning, half end.
        let program = self.program(own, input, 2 * MAX_LINE_BYTES);
        let ran = sandbox::run(&program, interrupt).map_err(|why| NoLine::Fault("start", why))?;
        let end = || baton_core::text::shown(ran.stderr.end(3).trim(), 400);
        match ran.how {
            How::Interrupted => Err(NoLine::Interrupted),
            How::TimedOut => {
                Err(NoLine::Fault("timeout", format!("it took longer than {} s", own.timeout)))
            }
            How::Exit(0) if ran.stdout.is_cut() => {
                Err(NoLine::Fault("output", "its answer is longer than allowed".to_owned()))
            }
            How::Exit(0) => {
                let said = ran.stdout.whole_text();
                said.map(String::into_bytes).map_err(|why| NoLine::Fault("garbage", why.to_owned()))
            }
            How::Exit(code) => {
                let why = format!("it ended with exit status {code}; it said: {}", end());
                Err(NoLine::Fault("ended", why))
            }
            How::Signal(signal) => {
                let why = format!("it was ended by signal {signal}; it said: {}", end());
                Err(NoLine::Fault("ended", why))
            }
        }
    }
}
