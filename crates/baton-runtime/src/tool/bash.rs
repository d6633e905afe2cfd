//! Bash: a command in the project, confined, bounded in time and output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::id::ObservationId;
use baton_core::messages::Language;
use baton_core::observation::shapes::Bash;
use baton_core::observation::{Envelope, Status, cut};
use baton_core::text;
use baton_core::turn::Offered;
use serde::Deserialize;
use serde_json::{Value, json};

use super::changes::Listing;
use super::{Archive, Done, Refusal, Workshop, refused};
use crate::beneath;
use crate::board;
use crate::commits::{Commits, Copy};
use crate::load;
use crate::repositories::{self, Ground, Moved, Repositories};
use crate::sandbox::{self, Closed, Confine, Held, How, Interrupt, Kept, Program, Spare, Within};

/// Bytes of each stream that the model sees, without terminal escapes.
const OUTPUT: usize = sandbox::SHORT;
/// Bytes of each stream that are kept in memory: most of a colourful output is escapes.
const KEPT: usize = 64 << 10;
/// Characters of a line.
const LINE: usize = 2_000;
/// Changed files that a result names.
const CHANGED: usize = 50;
/// Seconds that a command may take: by default, and at most.
pub const COMMAND_SECONDS: (u64, u64) = (SECONDS, MOST_SECONDS);
const SECONDS: u64 = 120;
const MOST_SECONDS: u64 = 1_800;

/// How commands are run. Nothing of it is the model's to choose.
#[derive(Debug)]
pub struct Shell {
    /// All that a command gets to see of our variables.
    pub environment: BTreeMap<OsString, OsString>,
    /// What a command may touch. `None`: a person switched the confinement off.
    pub closed: Option<Closed>,
    /// Read-only for every command, also outside of the confinement.
    pub protected: Vec<PathBuf>,
    /// By which everything that it starts can be found again.
    pub mark: String,
    /// The view of the project that commands work in.
    pub within: Option<Within>,
    /// The project whose repositories commands may not change or make. `None`: what commands write is
    /// thrown away, or they are not confined.
    pub ground: Option<Ground>,
    /// The repository that commands may commit to, or why they cannot. `None`: the user does not allow
    /// it.
    pub commits: Option<Result<Commits, String>>,
    pub ready: Mutex<Ready>,
}

/// What a turn that runs commands keeps from one to the next.
#[derive(Debug, Default)]
pub struct Ready {
    /// The next command's sandbox.
    spare: Option<Spare>,
    /// What stands in for protected paths.
    held: Option<Held>,
    repositories: Option<Repositories>,
    /// What the user has not been told yet: repositories that were moved aside, changes of `.git` that
    /// were refused.
    notices: Vec<String>,
}

impl Shell {
    fn ready(&self) -> MutexGuard<'_, Ready> {
        // A thread that panicked left at worst a sandbox that is not used.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn begins: what a command of a process that died has left is moved aside.
    pub fn begin(&self) -> Result<(), String> {
        if let Some(Ok(commits)) = &self.commits {
            commits.sweep();
        }
        match self.ground.as_ref().is_some_and(Ground::was_left) {
            true => self.open_repositories(&mut self.ready()),
            false => Ok(()),
        }
    }

    /// The turn is over.
    pub fn release(&self) {
        *self.ready() = Ready::default();
    }

    /// What happened since this was asked last, for the user.
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.ready().notices)
    }

    fn hold(&self) -> Result<(), String> {
        let mut ready = self.ready();
        self.open_repositories(&mut ready)?;
        if let (None, Some(closed)) = (&ready.held, &self.closed) {
            ready.held = Some(sandbox::hold(closed)?);
        }
        Ok(())
    }

    /// Refuses a file tool a path inside a blackboard, or inside a repository that has another name
    /// than `.git`.
    pub(super) fn check_repository(&self, path: &Path) -> Result<(), Refusal> {
        let mut ready = self.ready();
        self.open_repositories(&mut ready).map_err(|why| refused("IO", why))?;
        let Some(own) = &ready.repositories else { return Ok(()) };
        let shown = own.shown(path);
        match own.holder_of(path) {
            None => Ok(()),
            Some(holder) if holder.file_name().is_some_and(board::is_name) => {
                Err(beneath::Error::Board(shown).into())
            }
            Some(_) => Err(beneath::Error::Repository(shown).into()),
        }
    }

    /// The same as after a command, where a file that a file tool made can be a part of a repository.
    pub(super) fn look_after_file(
        &self,
        inside: &str,
        language: Language,
    ) -> Result<String, Refusal> {
        let is_part = |part: &str| repositories::PARTS.contains(&part);
        if !inside.split('/').any(is_part) {
            return Ok(String::new());
        }
        let about = self.look_after(false, language).map_err(|why| refused("IO", why))?;
        Ok(about.join("; "))
    }

    fn open_repositories(&self, ready: &mut Ready) -> Result<(), String> {
        let Some(ground) = self.ground.as_ref().filter(|_| ready.repositories.is_none()) else {
            return Ok(());
        };
        let mut own = ground.open().map_err(|error| cannot_look(&error))?;
        let moved = own.moved().to_vec();
        ready.notices.extend(own.notices(&moved, " (left by an interrupted command)"));
        ready.repositories = Some(own);
        Ok(())
    }

    /// Moves aside the repositories and blackboards that a command made; what the model is told.
    /// `by_user`: the user agreed to the command, so they stay.
    fn look_after(&self, by_user: bool, language: Language) -> Result<Vec<String>, String> {
        let mut ready = self.ready();
        let Some(own) = &mut ready.repositories else { return Ok(Vec::new()) };
        if by_user {
            return own.accept().map(|()| Vec::new()).map_err(|error| cannot_look(&error));
        }
        let moved = own.move_new_aside().map_err(|error| cannot_look(&error))?;
        let mut about = about_moved(own, &moved, language);
        about.extend(own.stuck());
        let notices = own.notices(&moved, "");
        ready.notices.extend(notices);
        Ok(about)
    }

    /// The private copy of `.git` for a command that may commit. `Err`: why it has none.
    fn copy_git(&self, outside: bool, language: Language) -> Result<Option<Copy>, String> {
        match &self.commits {
            Some(commits) if !outside => {
                let copy = commits.as_ref().map_err(Clone::clone).and_then(Commits::open);
                copy.map(Some).map_err(|why| language.commits_do_not_work(why))
            }
            _ => Ok(None),
        }
    }

    /// Takes over what a command did in its copy of `.git`; what the model is told.
    fn take_over(&self, copy: Copy, interrupt: &Interrupt) -> Option<String> {
        let closed = self.closed.as_ref()?;
        match copy.take_over(closed, interrupt) {
            Ok(own) => {
                if !own.changed.is_empty() {
                    let about = own.changed.join(", ");
                    self.ready()
                        .notices
                        .push(format!("in git, without hooks and signatures: {about}"));
                }
                own.note
            }
            Err(why) => {
                let about = format!(
                    "nothing that the command changed in .git was taken over, .git is as it was: {why}"
                );
                self.ready().notices.push(about.clone());
                Some(about)
            }
        }
    }

    fn program(&self, folder: &Path, argv: &[&str], outside: bool) -> Program {
        let confine = match &self.closed {
            Some(closed) if !outside => {
                let mut closed = closed.clone();
                let ready = self.ready();
                closed
                    .protected
                    .extend(ready.repositories.iter().flat_map(Repositories::protected));
                Confine::Closed(Box::new(closed))
            }
            _ => Confine::Open { protected: self.protected.clone() },
        };
        Program {
            argv: argv.iter().map(OsString::from).collect(),
            folder: folder.to_owned(),
            environment: self.environment.clone(),
            input: Vec::new(),
            limit: Duration::from_secs(SECONDS),
            mark: self.mark.clone(),
            most: KEPT,
            copy: None,
            confine,
            within: self.within,
        }
    }
}

impl Workshop {
    /// Makes the sandbox of the next command, while the model thinks. Who has run one runs another.
    pub(crate) fn make_ready(&self) {
        let is_wanted = {
            let ready = self.shell.ready();
            // Commands that may commit get a namespace of their own.
            ready.held.is_some() && ready.spare.is_none() && self.shell.commits.is_none()
        };
        if is_wanted {
            let spare = Spare::of(&self.shell.program(self.root.path(), &["bash"], false));
            self.shell.ready().spare = spare;
        }
    }
}

pub(super) fn offer(
    writes: bool,
    commands_write: bool,
    commits: Option<Option<&str>>,
    language: Language,
) -> Offered {
    let properties = json!({
        "command": { "type": "string" },
        "timeout": { "type": "integer" },
        "outside": { "type": "boolean" },
    });
    let (no_commits, copy) = (language.bash_no_commits(), language.bash_copy());
    let files = match (writes, commands_write) {
        (true, true) => language.bash_writes(match commits {
            None => language.bash_git_closed(no_commits, copy),
            Some(Some(why)) => language.bash_git_refused(no_commits, text::shown(why, 200), copy),
            Some(None) => language.bash_git_open(),
        }),
        (false, true) => language.bash_private_copy(copy),
        (_, false) => language.bash_reads(),
    };
    super::offer("Bash", language.bash_tool(files), properties, &["command"])
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    command: String,
    #[serde(default)]
    timeout: Option<u64>,
    #[serde(default)]
    outside: bool,
    /// What models are used to give; the command says it already.
    #[serde(default, rename = "description")]
    _description: Option<Value>,
}

/// Whether a call asks to leave the confinement.
pub(super) fn leaves(arguments: &serde_json::Map<String, Value>) -> bool {
    arguments.get("outside").is_some_and(|value| !value.is_null() && *value != json!(false))
}

pub(super) fn run(
    shop: &Workshop,
    args: &Args,
    id: ObservationId,
    archive: &dyn Archive,
    interrupt: &Interrupt,
) -> Done {
    let shell = &shop.shell;
    if args.command.trim().is_empty() || args.command.contains('\0') {
        return Err(refused("BAD_COMMAND", shop.language.bad_command()));
    }
    let copy = archive.output_file(id);
    let seconds = args.timeout.unwrap_or(SECONDS).clamp(1, MOST_SECONDS);
    let argv = ["bash", "-c", args.command.as_str()];
    shell.hold().map_err(|why| refused("CANNOT_RUN", why))?;
    let (git, no_git) = match shell.copy_git(args.outside, shop.language) {
        Ok(git) => (git, None),
        Err(why) => (None, Some(why)),
    };
    let mut program = Program {
        limit: Duration::from_secs(seconds),
        copy: Some(copy.clone()),
        ..shell.program(shop.root.path(), &argv, args.outside)
    };
    if let (Some(git), Confine::Closed(closed)) = (&git, &mut program.confine) {
        program.within = git.within();
        closed.protected.retain(|own| own.path != shop.root.path().join(".git"));
    }
    let spare = if args.outside { None } else { shell.ready().spare.take() };
    let before = Listing::of(shop, interrupt);
    let ran =
        sandbox::run_in(spare, &program, interrupt).map_err(|why| refused("CANNOT_RUN", why))?;
    let refused = git.and_then(|git| shell.take_over(git, interrupt));
    let moved = shell.look_after(args.outside, shop.language);
    let mut data = said(&ran, id, &copy);
    let changes = before.map(|before| before.changes(shop, interrupt)).unwrap_or_default();
    for file in &changes.all {
        if let Ok(opened) = shop.root.read(file) {
            shop.freshness().command_changed(file, opened.mtime);
        }
    }
    for (file, before, now) in &changes.touched {
        shop.freshness().touched(file, *before, *now);
    }
    let first = |names: Vec<String>| names.into_iter().take(CHANGED).collect();
    data.created = first(changes.created);
    data.deleted = first(changes.deleted);
    data.changed = first(changes.all);
    data.changed_by_tools = changes.by_tools;
    let mut envelope = Envelope::new(
        match data.exit {
            Some(_) if data.truncated => Status::Partial,
            Some(_) => Status::Success,
            None => Status::Error,
        },
        &data,
    );
    if data.exit.is_none() {
        let (code, message) = how_it_ended(&ran.how, seconds, shop.language);
        envelope.error = Envelope::failed(code, message).error;
    }
    let notes = ran.note.into_iter().chain(no_git).chain(refused).chain(match moved {
        Ok(about) => about,
        Err(why) => vec![why],
    });
    envelope.text = notes.collect::<Vec<String>>().join("; ");
    Ok(envelope)
}

/// What the model is told about repositories and blackboards that its command made.
fn about_moved(own: &Repositories, moved: &[Moved], language: Language) -> Vec<String> {
    let (boards, repositories): (Vec<Moved>, Vec<Moved>) =
        moved.iter().cloned().partition(|own| own.is_board);
    let told = |moved: &[Moved]| {
        let names = text::shown(&own.told(moved).join(", "), 600);
        (!moved.is_empty()).then_some(names)
    };
    let repositories = told(&repositories).map(|names| language.repositories_moved(names));
    let boards = told(&boards).map(|names| language.boards_moved(names));
    repositories.into_iter().chain(boards).collect()
}

fn cannot_look(error: &std::io::Error) -> String {
    format!("cannot look for repositories in the project: {error}")
}

fn how_it_ended(how: &How, seconds: u64, language: Language) -> (&'static str, String) {
    match how {
        How::TimedOut => ("TIMED_OUT", language.timed_out(seconds)),
        How::Interrupted => ("STOPPED", language.stopped_while_running()),
        How::Signal(signal) => ("SIGNAL", language.ended_by_signal(signal)),
        How::Exit(_) => ("EXIT", String::new()),
    }
}

/// The output of the command: both streams, or what fits of them in the order in which they came.
fn said(ran: &sandbox::Ran, id: ObservationId, copy: &Path) -> Bash {
    let shown = |kept: &Kept| text::stripped(&kept.text()).trim_end().to_owned();
    let (stdout, stderr) = (shown(&ran.stdout), shown(&ran.stderr));
    let exit = match ran.how {
        How::Exit(code) => Some(code),
        How::Signal(_) | How::TimedOut | How::Interrupted => None,
    };
    let timed_out = ran.how == How::TimedOut;
    let mut data = Bash {
        exit,
        stdout,
        stderr,
        timed_out,
        truncated: false,
        lines: None,
        changed: Vec::new(),
        created: Vec::new(),
        deleted: Vec::new(),
        changed_by_tools: 0,
    };
    let is_cut = ran.stdout.is_cut() || ran.stderr.is_cut();
    if !is_cut && data.stdout.len() <= OUTPUT && data.stderr.len() <= OUTPUT {
        // All of it stands in the result.
        let _ = std::fs::remove_file(copy);
        return data;
    }
    // The file has the streams together; a Recall counts the same lines.
    if let Ok(bytes) = load::bytes(copy, sandbox::COPY) {
        let whole = text::stripped(&String::from_utf8_lossy(&bytes)).trim_end().to_owned();
        let lines: Vec<String> =
            whole.split('\n').map(|line| text::cut(line, LINE).into_owned()).collect();
        data.lines = Some(lines.len() as u64);
        let whole = lines.join("\n");
        let short = cut::by_lines(id, &whole, OUTPUT, OUTPUT / 2, false);
        data.truncated = short.is_some();
        (data.stdout, data.stderr) = (short.unwrap_or(whole), String::new());
    } else {
        data.truncated = true;
    }
    data
}
