//! The only place that starts a process: in a group of its own, with an environment that is named
//! variable by variable, bounded in time and output, and confined as far as its starter says. When
//! it ends, nothing that it started lives on.

mod confine;
mod ending;
mod enter;
mod filter;
mod groups;
mod home;
mod launch;
mod live;
mod mounts;
mod output;
mod space;
mod spare;
mod watch;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::PipeReader;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    waitid,
};

use confine::{Orders, Raw, Report, Sheet, StandIns};
use ending::{end_all, gone_within, wait_for_end};
use output::Streams;

pub use confine::{Closed, Confine, Feature, Limits, Protected, StandIn};
pub use ending::end_left_behind;
pub use groups::{Bounds, Group, remove_groups};
pub use home::{Put, Sight, repository_settings, sight};
pub use live::{Fault, Live};
pub use output::{COPY, Kept, SHORT};
pub use space::{Layer, ViewSpace, Within};
pub use spare::Spare;

/// The variable by which a process that left its group is found again.
const MARK: &str = "BATON_PROCESS";
/// How often a person's wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A temporary folder for commands. It goes with this value, whatever programs made of the rights in it.
#[derive(Debug)]
pub struct Temporary {
    folder: tempfile::TempDir,
    /// Locked while it is in use.
    _lock: Option<std::fs::File>,
}

/// How the names of temporary folders begin. Not with a dot: tests of file patterns see them.
const TEMPORARY: &str = "baton-";
/// A folder of a process that was killed is removed when it is older.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// A new one. Those of processes that were killed are removed.
pub fn temporary() -> std::io::Result<Temporary> {
    remove_left_behind();
    let folder = tempfile::Builder::new().prefix(TEMPORARY).tempdir()?;
    let lock = std::fs::File::open(folder.path()).ok().filter(|file| file.try_lock().is_ok());
    Ok(Temporary { folder, _lock: lock })
}

fn remove_left_behind() {
    use std::os::unix::fs::MetadataExt;
    let own_user = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY));
        let is_named = random.is_some_and(|own| own.len() == 6 && !own.contains('-'));
        let Some(own) = entry.metadata().ok().filter(|own| is_named && own.is_dir()) else {
            continue;
        };
        let age = own.modified().ok().and_then(|time| time.elapsed().ok());
        let is_old = age.is_some_and(|age| age > LEFT_BEHIND);
        let is_free = || {
            let file = std::fs::File::open(entry.path());
            file.map_or(true, |file| file.try_lock().is_ok())
        };
        if own.uid() == own_user && is_old && is_free() {
            crate::view::remove_folder(&entry.path());
        }
    }
}

impl Temporary {
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        crate::view::remove_folder(self.folder.path());
    }
}

/// A program to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments; nothing is interpreted by a shell.
    pub argv: Vec<OsString>,
    pub folder: PathBuf,
    /// All that it gets to see.
    pub environment: BTreeMap<OsString, OsString>,
    pub input: Vec<u8>,
    pub limit: Duration,
    /// Begins the mark of everything that it starts, so that a later process of ours finds it.
    pub mark: String,
    /// Bytes of output that are kept, of each stream: half of them from the beginning, half from
    /// the end.
    pub most: usize,
    /// A file for the whole output, both streams in the order they came, up to [`COPY`]. It is made
    /// when they are longer than `most`.
    pub copy: Option<PathBuf>,
    pub confine: Confine,
    /// The view that it sees the project in, instead of the project itself.
    pub within: Option<Within>,
}

/// What a program did.
#[derive(Debug, Clone)]
pub struct Ran {
    pub how: How,
    pub stdout: Kept,
    pub stderr: Kept,
    /// Bytes of the output that did not come into the copy.
    pub uncopied: u64,
    /// Why it was ended, where it used too much of something.
    pub note: Option<String>,
    /// What the launcher found on its way.
    found: Option<(bool, i32)>,
    pub time: Duration,
}

/// What this machine gives to a closed program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Whether it sees its own processes alone.
    pub own_proc: bool,
    /// Whether Landlock knows all that is asked of it.
    pub whole_landlock: bool,
}

/// What this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// `None`: it is not the machine, but the program that we are.
    pub feature: Option<Feature>,
    pub why: String,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.feature {
            Some(feature) => write!(
                out,
                "no sandbox: this machine does not give {feature} ({}); `--no-sandbox` runs commands without one",
                self.why
            ),
            None => write!(out, "no sandbox: {}", self.why),
        }
    }
}

/// What this machine gives, found out by running a program that does nothing, once.
pub fn available() -> &'static Result<Found, Missing> {
    static FOUND: OnceLock<Result<Found, Missing>> = OnceLock::new();
    FOUND.get_or_init(|| probe(Vec::new()))
}

/// Whether an open program gets namespaces; found out by running one that does nothing.
pub fn has_namespaces() -> bool {
    let program = idle(Confine::Open { protected: Vec::new() });
    let ran = confined(&program, &Interrupt::default());
    ran.is_ok_and(|ran| ran.how == How::Exit(0))
}

/// The same, as if features were missing.
pub fn probe(without: Vec<Feature>) -> Result<Found, Missing> {
    let other = |why: String| Missing { feature: None, why };
    let folder = tempfile::tempdir().map_err(|error| other(error.to_string()))?;
    let closed = Closed {
        writable: Vec::new(),
        protected: Vec::new(),
        sight: Sight::default(),
        temporary: folder.path().to_owned(),
        network: false,
        limits: Limits::default(),
        without,
    };
    let program = idle(Confine::Closed(Box::new(closed)));
    let ran = confined(&program, &Interrupt::default()).map_err(|refused| match refused {
        Refused::Missing(missing) => missing,
        refused => other(refused.said()),
    })?;
    match (ran.how, ran.found) {
        (How::Exit(0), Some((own_proc, landlock))) => {
            Ok(Found { own_proc, whole_landlock: landlock > 1 })
        }
        (how, _) => Err(other(format!("a program that does nothing ended with {how:?}"))),
    }
}

fn idle(confine: Confine) -> Program {
    Program {
        argv: ["sh", "-c", ":"].map(OsString::from).to_vec(),
        folder: PathBuf::from("/"),
        environment: std::env::var_os("PATH")
            .map(|path| ("PATH".into(), path))
            .into_iter()
            .collect(),
        input: Vec::new(),
        limit: Duration::from_secs(10),
        mark: "probe".to_owned(),
        most: 4_096,
        copy: None,
        confine,
        within: None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Exit(i32),
    Signal(i32),
    /// It took longer than its limit and was ended.
    TimedOut,
    /// Somebody asked to stop at once.
    Interrupted,
}

/// A person's wish to stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    pub fn at_once(&self) {
        self.at_once.store(true, Ordering::SeqCst);
    }

    pub fn is_at_once(&self) -> bool {
        self.at_once.load(Ordering::SeqCst)
    }
}

/// Asks a process of ours to stop in good order.
pub fn ask_to_stop(pid: i32) -> Result<(), String> {
    let pid = Pid::from_raw(pid).ok_or("there is no such process")?;
    kill_process(pid, Signal::TERM).map_err(|error| format!("cannot signal it: {error}"))
}

/// Ends a process that does not stop when it is asked to.
pub fn end(pid: i32) -> Result<(), String> {
    let pid = Pid::from_raw(pid).ok_or("there is no such process")?;
    kill_process(pid, Signal::KILL).map_err(|error| format!("cannot end it: {error}"))
}

/// Under which our own program knows that it is to launch another.
const LAUNCHER: &str = "baton-sandbox";
/// Whether this process would know.
static CAN_LAUNCH: AtomicBool = AtomicBool::new(false);
/// Whether this machine was found to have no namespaces.
static NO_NAMESPACES: AtomicBool = AtomicBool::new(false);

/// The first thing in `main` of every program that confines others: if this process was started to
/// be a launcher, it is one and never returns.
pub fn launch_if_asked() {
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|name| name == LAUNCHER) {
        enter::leave(launch::launch(arguments));
    }
    CAN_LAUNCH.store(true, Ordering::SeqCst);
}

/// Why a program was not started as it should be.
#[derive(Debug)]
enum Refused {
    /// The machine lacks this.
    Missing(Missing),
    /// The launcher ended before it came to the program: it was killed, or would not start it.
    NotBegun,
    Other(String),
}

impl Refused {
    fn said(self) -> String {
        match self {
            Refused::Missing(missing) => missing.to_string(),
            Refused::NotBegun => LOST.to_owned(),
            Refused::Other(why) => why,
        }
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Refused {
        Refused::Other(why)
    }
}

/// Keeps what stands in for protected paths in its place, so that a row of programs does not make
/// and remove it each time.
#[derive(Debug)]
pub struct Held {
    _standing: StandIns,
}

/// See [`Held`].
pub fn hold(closed: &Closed) -> Result<Held, String> {
    StandIns::of(closed).map(|standing| Held { _standing: standing })
}

/// Runs a program to its end, its limit or an interrupt. `Err`: it could not be started.
pub fn run(program: &Program, interrupt: &Interrupt) -> Result<Ran, String> {
    as_allowed(program, |program| confined(program, interrupt))
}

/// Does this with the program; where it is open and this machine has no namespaces, without them.
fn as_allowed<T>(
    program: &Program,
    act: impl Fn(&Program) -> Result<T, Refused>,
) -> Result<T, String> {
    // One that is to see a view must not see the project itself.
    let is_open = matches!(program.confine, Confine::Open { .. }) && program.within.is_none();
    let unconfined = || {
        let program = Program { confine: Confine::Off, ..program.clone() };
        act(&program).map_err(Refused::said)
    };
    if is_open && (!CAN_LAUNCH.load(Ordering::SeqCst) || NO_NAMESPACES.load(Ordering::SeqCst)) {
        return unconfined();
    }
    match act(program) {
        Ok(done) => Ok(done),
        Err(Refused::Missing(_)) if is_open => {
            NO_NAMESPACES.store(true, Ordering::SeqCst);
            unconfined()
        }
        Err(refused) => Err(refused.said()),
    }
}

/// The same in a sandbox that is there already, if it is as the program's would be made now.
pub fn run_in(
    spare: Option<Spare>,
    program: &Program,
    interrupt: &Interrupt,
) -> Result<Ran, String> {
    let ran = spare.and_then(|spare| spare.run(program, interrupt));
    ran.unwrap_or_else(|| run(program, interrupt))
}

fn confined(program: &Program, interrupt: &Interrupt) -> Result<Ran, Refused> {
    let copy = Streams::copy_for(program)?;
    followed(started(program)?, program, copy, interrupt)
}

fn started(program: &Program) -> Result<Started, Refused> {
    match Orders::of(program)? {
        Some((mut orders, standing)) => start(program, Some(&mut orders), standing, None),
        None => start(program, None, StandIns::default(), None),
    }
}

/// A process that was started, and what must stay as long as it lives.
#[derive(Debug)]
struct Started {
    child: Child,
    /// That of a launcher.
    sheet: Option<Sheet>,
    mark: String,
    /// Where a launcher that waits opens the way of the words, as soon as it gets to it.
    _words: Option<PipeReader>,
    _standing: StandIns,
    group: Option<Group>,
    /// What it may use, where that is limited.
    limits: Option<Limits>,
}

/// Why the program that was asked for does not run.
fn cannot(program: &Program, why: &dyn std::fmt::Display) -> Refused {
    let name = program.argv.first().map_or(Path::new(""), Path::new);
    Refused::Other(format!("cannot start `{}`: {why}", name.display()))
}

/// Starts a program, or its launcher where there are orders. One that `waits` reads the program's
/// words there.
fn start(
    program: &Program,
    orders: Option<&mut Orders>,
    standing: StandIns,
    waits: Option<PipeReader>,
) -> Result<Started, Refused> {
    if program.argv.is_empty() {
        return Err("there is no program to start".to_owned().into());
    }
    let limits = orders.as_ref().and_then(|orders| Some(orders.closed.as_ref()?.limits));
    let group = limits.and_then(|limits| {
        Group::of(Bounds { tasks: watch::room(limits.processes), memory: limits.memory })
    });
    let sheet = orders.map(|orders| {
        orders.tasks = group.as_ref().and_then(|group| Some(Raw::of(group.tasks()?)));
        orders.memory = group.as_ref().and_then(|group| Some(Raw::of(group.memory()?)));
        Sheet::with(orders)
    });
    let sheet = sheet.transpose()?;
    let mark = format!("{}-{}-{}", program.mark, std::process::id(), fastrand::u64(..));
    let mut command = command(program, sheet.as_ref())?;
    command.env(MARK, &mark);
    if let Some(words) = &waits {
        command.arg(words.as_raw_fd().to_string());
    }
    let child = command.spawn().map_err(|error| cannot(program, &error))?;
    Ok(Started { child, sheet, mark, _words: waits, _standing: standing, group, limits })
}

/// Goes with a program to its end.
fn followed(
    mut started: Started,
    program: &Program,
    copy: output::Shared,
    interrupt: &Interrupt,
) -> Result<Ran, Refused> {
    let start = Instant::now();
    let streams = match Streams::of(&mut started.child, program, copy) {
        Ok(streams) => streams,
        Err(error) => {
            started.finish(true);
            return Err(cannot(program, &format!("no thread for its output: {error}")));
        }
    };
    let how = wait(&started.child, program.limit, start, interrupt);
    let last = started.finish(how.is_some());
    let output::Said { stdout, stderr, uncopied } = streams.finished();
    let Last { how: own, note, found } = last.of(program)?;
    let how = how.unwrap_or(own);
    Ok(Ran { how, stdout, stderr, uncopied, note, found, time: start.elapsed() })
}

impl Started {
    /// Ends whatever of it `lives`; all its processes are gone when this returns.
    fn finish(&mut self, lives: bool) -> Finished {
        if let Some(group) = self.group.as_ref().filter(|_| lives) {
            group.kill();
        }
        let mut report = self.sheet.as_ref().map(|sheet| ended(&self.child, sheet, lives));
        if report.as_ref().is_none_or(|report| report.first.is_none()) {
            end_all(Pid::from_child(&self.child), &self.mark);
        }
        // The kernel may have ended the launcher itself, before it could say why.
        if let (Some(report), Some(group), Some(limits)) = (&mut report, &self.group, &self.limits)
            && report.too_much.is_none()
            && group.was_over_memory()
        {
            report.too_much = Some(watch::too_much(limits));
        }
        let status = self.child.wait();
        // It is empty now, and may be used again.
        self.group = None;
        Finished { report, status, was_ended: lives }
    }
}

/// What is known of a program that is no more.
struct Finished {
    report: Option<Report>,
    status: std::io::Result<std::process::ExitStatus>,
    was_ended: bool,
}

/// What it came to.
struct Last {
    how: How,
    /// Why it was ended, where it used too much of something.
    note: Option<String>,
    found: Option<(bool, i32)>,
}

impl Finished {
    fn of(self, program: &Program) -> Result<Last, Refused> {
        let Some(report) = self.report else {
            let how = self.status.map_or(How::Signal(0), exit_of);
            return Ok(Last { how, note: None, found: None });
        };
        match report {
            Report { missing: Some((feature, why)), .. } => {
                Err(Refused::Missing(Missing { feature: Some(feature), why }))
            }
            Report { failed: Some(why), .. } => {
                Err(Refused::Other(format!("cannot confine the program: {why}")))
            }
            Report { not_started: Some(why), .. } => Err(cannot(program, &why)),
            Report { has_begun: false, .. } if !self.was_ended => Err(Refused::NotBegun),
            Report { too_much: Some(note), how: None, found, .. } => {
                Ok(Last { how: How::Signal(libc::SIGKILL), note: Some(note), found })
            }
            Report { too_much, how: Some(how), found, .. } => {
                Ok(Last { how, note: too_much, found })
            }
            // Ended from outside before it could say anything.
            _ if self.was_ended => {
                Ok(Last { how: How::Signal(libc::SIGKILL), note: None, found: None })
            }
            _ => Err(Refused::Other(LOST.to_owned())),
        }
    }
}

const LOST: &str = "the launcher of the sandbox ended without a word: it was killed from outside, or /proc is not to be read";

/// The process to start: the program itself, or the launcher that will start it.
fn command(program: &Program, sheet: Option<&Sheet>) -> Result<Command, Refused> {
    let own = OsString::from("/proc/self/exe");
    let name = if sheet.is_some() { &own } else { &program.argv[0] };
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    let mut command = Command::new(name);
    match sheet {
        None => command.args(&program.argv[1..]),
        Some(_) if !CAN_LAUNCH.load(Ordering::SeqCst) => {
            let why = "this program cannot be a launcher".to_owned();
            return Err(Refused::Missing(Missing { feature: None, why }));
        }
        Some(sheet) => command
            .arg0(LAUNCHER)
            .arg(std::process::id().to_string())
            .arg(sheet.number().to_string()),
    };
    command
        .current_dir(&program.folder)
        .env_clear()
        .envs(&program.environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    Ok(command)
}

/// Ends the launcher, unless it ended by itself, and with it the namespace; comes back when nobody is
/// left in it.
fn ended(child: &Child, sheet: &Sheet, lives: bool) -> Report {
    if lives {
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    }
    let report = sheet.report();
    // The first process is gone only when all others are.
    if let Some(first) = report.first.and_then(Pid::from_raw) {
        wait_for_end(first);
    }
    report
}

fn exit_of(status: std::process::ExitStatus) -> How {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => How::Exit(code),
        (None, signal) => How::Signal(signal.unwrap_or(0)),
    }
}

/// `None`: it ended by itself. It is not reaped here: until then its number, which is that of its
/// group, belongs to no other process.
fn wait(child: &Child, limit: Duration, start: Instant, interrupt: &Interrupt) -> Option<How> {
    let pid = Pid::from_child(child);
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok();
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), look) {
            Ok(Some(_)) => return None,
            Err(error) if error != Errno::INTR => return None,
            _ if start.elapsed() >= limit => return Some(How::TimedOut),
            _ if interrupt.is_at_once() => return Some(How::Interrupted),
            _ => {}
        }
        let pause = LOOK.min(limit.saturating_sub(start.elapsed()));
        match &handle {
            Some(handle) => drop(gone_within(handle, pause)),
            // A kernel without such handles.
            None => std::thread::sleep(pause / 10),
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}

/// The standard output of a shell command of the user's own, trimmed.
pub fn output_of(command: &str, limit: Duration, most: usize) -> Result<String, String> {
    let program = Program {
        argv: ["sh", "-c", command].map(OsString::from).to_vec(),
        folder: PathBuf::from("."),
        // It is the user's own: a password store needs the user's own variables.
        environment: std::env::vars_os().collect(),
        input: Vec::new(),
        limit,
        mark: "own".to_owned(),
        most: most * 2,
        copy: None,
        // It is the user's own.
        confine: Confine::Off,
        within: None,
    };
    let ran = run(&program, &Interrupt::default())?;
    match ran.how {
        How::Exit(0) => {}
        How::TimedOut => return Err(format!("it took longer than {} s", limit.as_secs_f64())),
        How::Exit(code) => return Err(format!("it failed, exit status: {code}")),
        How::Signal(_) | How::Interrupted => return Err("it was ended by a signal".to_owned()),
    }
    let text = ran.stdout.text();
    if ran.stdout.is_cut() || text.len() > most {
        return Err(format!("its output is longer than {most} bytes"));
    }
    match text.contains('\u{fffd}') {
        true => Err("its output is not text".to_owned()),
        false => Ok(text.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::output_of;
    use std::time::Duration;

    /// For what never ends by itself.
    const SHORT: Duration = Duration::from_millis(500);
    /// Far longer than the rest takes on the busiest machine.
    const LONG: Duration = Duration::from_secs(120);

    /// Processes that sleep as long as this word says, which is of this very process.
    fn sleeping(word: &str) -> usize {
        let survivors = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).replace('\0', " ").contains(word)
        });
        survivors.count()
    }

    #[test]
    fn a_command_says_its_word_or_why_not() {
        assert_eq!(output_of("printf ' sk-1\\n'", LONG, 100), Ok("sk-1".to_owned()));
        assert!(output_of("exit 3", LONG, 100).unwrap_err().contains("failed"));
        let long = output_of("head -c 1000 /dev/zero | tr '\\0' x", LONG, 100);
        assert!(long.unwrap_err().contains("longer than 100"));
        assert!(output_of("printf '\\377'", LONG, 100).unwrap_err().contains("not text"));
    }

    #[test]
    fn a_command_that_hangs_ends_at_its_limit_with_its_children() {
        let word = format!("61.{:08}", std::process::id());
        let error = output_of(&format!("sleep {word} & sleep {word}"), SHORT, 100).unwrap_err();
        assert!(error.contains("longer than 0.5 s"), "{error}");
        assert_eq!(sleeping(&word), 0);
    }

    #[test]
    fn what_leaves_its_group_does_not_survive() {
        let word = format!("62.{:08}", std::process::id());
        let inner = format!("setsid sleep {word} & sleep {word}");
        let command = format!("setsid sh -c '{inner}' >/dev/null 2>&1 & echo done");
        assert_eq!(output_of(&command, LONG, 100), Ok("done".to_owned()));
        assert_eq!(sleeping(&word), 0);
    }

    #[test]
    fn output_counts_although_a_process_out_of_reach_holds_the_pipe() {
        let word = format!("63.{:08}", std::process::id());
        // Without our mark and in another session it is not found; it names itself, so that we can.
        let folder = tempfile::tempdir().unwrap();
        let begun = folder.path().join("begun").display().to_string();
        let inner = format!("sh -c 'echo $$; : > {begun}; exec sleep {word}'");
        let command =
            format!("env -i $(command -v setsid) {inner} & while ! test -e {begun}; do :; done");
        let said = output_of(&command, LONG, 100).unwrap();
        let pid = rustix::process::Pid::from_raw(said.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    #[test]
    fn a_flood_of_output_is_kept_at_both_ends() {
        let program = super::Program {
            argv: [
                "sh",
                "-c",
                "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last",
            ]
            .map(Into::into)
            .to_vec(),
            folder: ".".into(),
            environment: [("PATH".into(), std::env::var_os("PATH").unwrap())].into(),
            input: Vec::new(),
            limit: LONG,
            mark: "test".to_owned(),
            most: 10_000,
            copy: None,
            confine: super::Confine::Off,
            within: None,
        };
        let ran = super::run(&program, &super::Interrupt::default()).unwrap();
        let text = ran.stdout.text();
        assert!(text.starts_with("first\n") && text.ends_with("last\n") && text.len() < 11_000);
        assert!(text.contains("bytes omitted"));
    }
}
