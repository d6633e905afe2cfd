//! Gates on disk: running one as a run would, finding the commands that a project's tests have, and
//! changing the list in a blackboard's policy.

mod surroundings;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use baton_core::event::{Event, Record};
use baton_core::gate::{self, Detected, Ending, Judged, Project};
use baton_core::id::Iteration;
use baton_core::policy::Gate;

use crate::board::{self, Board, POLICY_FILE};
use crate::load::{self, Environment};
use crate::sandbox::{self, How, Interrupt, Program};
use crate::store;
use crate::view::View;
use surroundings::Surroundings;

/// The folder of a blackboard that keeps what gates printed.
pub const LOGS: &str = "gates";
/// Bytes that are kept of an output: half of them from its beginning, half from its end.
const KEPT: usize = 16 << 20;
/// Last lines, and bytes of them, that go to the journal, to reports and to the screen.
const LINES: usize = 60;
const BYTES: usize = 16 << 10;

/// The number of outputs that a journal names for this iteration.
pub(crate) fn kept_in(records: &[Record], iteration: Iteration) -> u32 {
    let start = format!("/{iteration}_");
    let is_kept = |record: &&Record| match &record.event {
        Event::GateEnded { log: Some(log), .. } => log.contains(&start),
        _ => false,
    };
    u32::try_from(records.iter().filter(is_kept).count()).unwrap_or(u32::MAX)
}

/// The surroundings of a gate.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub project: &'a Path,
    pub board: &'a Path,
    pub environment: &'a Environment,
    /// Marks all processes that it starts, so that they can be found again.
    pub mark: &'a str,
    pub confined: bool,
    /// The view of the project that it runs in; what it writes there is thrown away.
    pub view: &'a View,
}

/// The result of running a gate.
#[derive(Debug, Clone)]
pub struct Ran {
    pub judged: Judged,
    /// The first line tells how it ended; the last lines of its output follow.
    pub output: String,
    /// Everything that it printed.
    pub whole: String,
    pub time: Duration,
}

/// Runs a gate by the shell in its view of the project, confined like a command of an agent.
pub fn run(gate: &Gate, place: &Place<'_>, interrupt: &Interrupt) -> Ran {
    let unusable = |why: String| {
        let judged = Judged { passed: false, reason: why.clone(), is_unusable: true };
        Ran { judged, output: why.clone(), whole: why, time: Duration::ZERO }
    };
    let surroundings = match Surroundings::of(gate, place) {
        Ok(surroundings) => surroundings,
        Err(why) => return unusable(why),
    };
    // One stream: what it printed stays in its order.
    let command = format!("exec 2>&1; {}", gate.run);
    let program = Program {
        argv: ["sh", "-c", &command].map(OsString::from).to_vec(),
        folder: place.project.to_owned(),
        environment: surroundings.environment,
        input: Vec::new(),
        limit: Duration::from_secs(u64::from(gate.timeout)),
        mark: place.mark.to_owned(),
        most: KEPT,
        copy: None,
        confine: surroundings.confine,
        within: None,
    };
    let ran = match sandbox::run(&place.view.around(program), interrupt) {
        Ok(ran) => ran,
        Err(why) => return unusable(why),
    };
    let ending = match ran.how {
        How::Exit(code) => Ending::Exit(code),
        How::Signal(signal) => Ending::Signal(signal),
        How::TimedOut => Ending::TimedOut(gate.timeout),
        How::Interrupted => Ending::Interrupted,
    };
    // The shell itself may say something before the streams are one.
    let parts = [ran.stdout.text(), ran.stderr.text()];
    let whole: String = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let judged = gate::judge(&gate.run, ending, &whole);
    let output = format!("{}\n{}", judged.reason, last_lines(&whole)).trim_end().to_owned();
    Ran { judged, output, whole, time: ran.time }
}

fn last_lines(text: &str) -> &str {
    let text = text.trim_end();
    let line = text.rmatch_indices('\n').nth(LINES - 1).map_or(0, |(at, _)| at + 1);
    let byte = text.ceil_char_boundary(text.len().saturating_sub(BYTES));
    &text[line.max(byte)..]
}

/// The commands that would run a project's tests. Nothing of the project is executed.
pub fn detect(project: &Path, environment: &Environment) -> Detected {
    gate::detect(&Files { root: project, environment })
}

/// A project's files, and the programs around it.
struct Files<'a> {
    root: &'a Path,
    environment: &'a Environment,
}

/// Names that are read of one folder.
const NAMES: usize = 2_000;

impl Files<'_> {
    fn names(&self, folder: &str, is_folder: bool) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let named = entries.take(NAMES).filter(|entry| {
            entry
                .file_type()
                .is_ok_and(|kind| if is_folder { kind.is_dir() } else { kind.is_file() })
        });
        let mut names: Vec<String> =
            named.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// True if an installation below this folder has a module.
    fn is_installed(prefix: &Path, module: &str) -> bool {
        let versions = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
        let mut versions = versions.take(NAMES).map(|entry| entry.path());
        versions.any(|lib| {
            let folders = ["site-packages", "dist-packages"].map(|name| lib.join(name));
            folders.iter().any(|folder| folder.join(module).join("__init__.py").is_file())
        })
    }
}

impl Project for Files<'_> {
    fn text(&self, path: &str) -> Option<String> {
        load::text(&self.root.join(path), load::SMALL).ok()
    }

    fn is_file(&self, path: &str) -> bool {
        self.root.join(path).is_file()
    }

    fn files(&self, folder: &str) -> Vec<String> {
        self.names(folder, false)
    }

    fn folders(&self) -> Vec<String> {
        self.names("", true)
    }

    fn has_program(&self, name: &str) -> bool {
        self.environment.program(name).is_some()
    }

    fn has_module(&self, interpreter: &str, module: &str) -> bool {
        let path = match interpreter.contains('/') {
            true => Some(self.root.join(interpreter)),
            false => self.environment.program(interpreter),
        };
        let Some(path) = path else { return false };
        // Told by files alone: no interpreter is started for a look.
        let prefix = |path: &Path| path.parent().and_then(Path::parent).map(Path::to_owned);
        let own = prefix(&path);
        if own.as_ref().is_some_and(|own| own.join("pyvenv.cfg").is_file()) {
            return own.is_some_and(|own| Files::is_installed(&own, module));
        }
        let real = std::fs::canonicalize(&path).ok().and_then(|real| prefix(&real));
        let users = self.environment.path("HOME").map(|home| home.join(".local"));
        let all = [own, real, users].into_iter().flatten();
        // A module with a program of its name puts it beside the interpreter.
        let program = path.parent().map(|folder| folder.join(module));
        program.is_some_and(|program| program.is_file())
            || all.into_iter().any(|prefix| Files::is_installed(&prefix, module))
    }
}

/// Writes another list of gates into a blackboard's policy; everything else keeps its text. The
/// blackboard must not be in use.
pub fn set(board: &Board, gates: &[Gate]) -> Result<(), board::Error> {
    let path = board.root.join(POLICY_FILE);
    let source = match load::text(&path, load::SMALL) {
        Err(load::Error::Missing(_)) => String::new(),
        other => other?,
    };
    let text = gate::with_gates(&source, gates)
        .map_err(|problem| board::Error::Invalid(vec![problem.in_file(POLICY_FILE)]))?;
    Ok(store::write_new(&path, text.as_bytes())?)
}
