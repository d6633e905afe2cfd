//! `baton exec|chat`: the coding agent for a person.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::config::Config;
use baton_core::event::RunSetup;
use baton_core::turn::{Ending, Limits, Protocol};
use baton_core::{text, tokens};
use baton_runtime::agent::{self, Agent, Heard, Setup};
use baton_runtime::approve::{Approvals, Mode, Person};
use baton_runtime::executor::{Bench, workshop};
use baton_runtime::model::catalogue::Cost;
use baton_runtime::model::{Tags, choose};
use baton_runtime::sandbox::{Interrupt, Temporary};
use baton_runtime::store::Disk;
use baton_runtime::turns::{self, Changed, Turns};
use baton_runtime::{board, git, load};
use serde_json::json;

use super::run::{asked, mind};
use super::{Outcome, Place, setup};
use crate::args::{ApproveArg, ExecArgs, ProtocolArg, TalkArgs};
use crate::reply::{Failure, INTERNAL, LIMIT, PROTOCOL, Reply, USAGE, WAITING};
use crate::terminal;

/// A task that is longer is a file's content: name the file instead.
const MAX_PROMPT: usize = 1 << 20;

pub(super) fn exec(place: &Place, args: &ExecArgs) -> Outcome {
    let prompt = prompt(&args.prompt)?;
    let talk = Talk::new(place, &args.talk)?;
    let mut agent = talk.agent()?;
    let is_quiet = place.json;
    let (prompt, mut notices) = agent.with_mentions(&prompt);
    if !is_quiet {
        tell_all(&notices, false);
    }
    // A turn that was interrupted is over when another begins.
    agent.close("another task came", &mut |heard| tell(&heard, false)).map_err(failed)?;
    agent.ask(&prompt).map_err(failed)?;
    let interrupt = Interrupt::default();
    watch_signals(&Arc::new(Mutex::new(interrupt.clone())))?;
    let ran = agent.run(talk.limit, &interrupt, &mut |heard| match heard {
        Heard::Notice(notice) if is_quiet => notices.push(notice),
        heard if is_quiet => drop(heard),
        heard => tell(&heard, false),
    });
    let ending = match ran {
        Ok(ending) => ending,
        Err(error) => return Err(failed(error)),
    };
    let changed = changed(&mut agent);
    if !is_quiet && let Some(line) = changed.as_ref().and_then(about_changed) {
        tell(&Heard::Said(line), false);
    }
    Ok(reply(&agent, ending, &notices, changed))
}

/// What the turn changed. That it cannot be said must not hide the answer.
fn changed(agent: &mut Agent) -> Option<Changed> {
    agent.changed().unwrap_or_else(|error| {
        tell(&Heard::Said(format!("cannot tell which files were changed: {error}")), false);
        None
    })
}

/// `None`: nothing was changed.
fn about_changed(changed: &Changed) -> Option<String> {
    let count = changed.files.len();
    let first = changed.files.iter().take(3).map(|name| text::shown(name, 100));
    let first = first.collect::<Vec<_>>().join(", ");
    let more = if count > 3 { ", …" } else { "" };
    let were = if count == 1 { "1 file was" } else { &format!("{count} files were") };
    let files = (count > 0).then(|| {
        format!("{were} changed ({first}{more}); `baton undo` brings back what was there before")
    });
    let head = changed.head.as_ref().map(|head| {
        let short: String = head.chars().take(10).collect();
        format!("the last commit is {short} now; `baton undo` leaves commits as they are")
    });
    match (files, head) {
        (Some(files), Some(head)) => Some(format!("{files}\n{head}")),
        (files, head) => files.or(head),
    }
}

fn prompt(given: &str) -> Result<String, Failure> {
    let prompt = match given {
        "-" => {
            let mut text = Vec::new();
            let limit = MAX_PROMPT as u64 + 1;
            let read = std::io::stdin().lock().take(limit).read_to_end(&mut text);
            read.map_err(|error| Failure::new(INTERNAL, format!("standard input: {error}")))?;
            String::from_utf8(text)
                .map_err(|_| Failure::new(USAGE, "the task on standard input is not UTF-8"))?
        }
        given => given.to_owned(),
    };
    if prompt.trim().is_empty() {
        return Err(Failure::new(USAGE, "what is the task?").hint("baton exec -p \"fix the test\""));
    }
    match prompt.len() > MAX_PROMPT {
        true => Err(Failure::new(USAGE, format!("the task is longer than {MAX_PROMPT} bytes"))
            .hint("put it into a file of the project and name it: @notes.md")),
        false => Ok(prompt),
    }
}

fn reply(
    agent: &Agent,
    ending: Option<Ending>,
    notices: &[String],
    changed: Option<Changed>,
) -> Reply {
    let (code, said) = match ending {
        Some(Ending::Done(text)) => (0, text),
        Some(Ending::Failed(why)) => (PROTOCOL, format!("failed: {why}")),
        Some(Ending::Stopped(why) | Ending::TimedOut(why)) => (LIMIT, format!("stopped: {why}")),
        None => (WAITING, "interrupted; `baton exec --continue -p …` goes on from here".to_owned()),
    };
    let usage = agent.conversation().usage;
    let mut reply = Reply::new(
        format!("{}\n", said.trim_end()),
        json!({
            "ok": code == 0,
            "text": said,
            "steps": agent.conversation().steps(),
            "usage": usage,
            "cost_nano_dollars": agent.cost(),
            "transcript": agent.transcript().to_string_lossy(),
            "notices": notices,
            "changed": changed.as_ref().map(|own| &own.files),
            "snapshot": changed.as_ref().map(|own| &own.before),
            "head": changed.as_ref().and_then(|own| own.head.as_ref()),
        }),
    );
    reply.code = code;
    reply
}

fn failed(error: agent::Error) -> Failure {
    let message = error.to_string();
    match error {
        agent::Error::Misfit(_) | agent::Error::Transcript(_) => {
            Failure::new(INTERNAL, message).hint("without --continue a new conversation begins")
        }
        agent::Error::Project(_) => Failure::new(INTERNAL, message),
        agent::Error::Snapshot(_) => Failure::new(INTERNAL, message)
            .hint("free some space or repair the file; `--read-only` needs no snapshot"),
        agent::Error::Model(_) => Failure::new(INTERNAL, message)
            .hint("what was done so far is kept; --continue begins your next task behind it"),
    }
}

/// What a conversation needs around it.
struct Talk<'a> {
    place: &'a Place,
    args: &'a TalkArgs,
    config: Config,
    root: PathBuf,
    limit: Duration,
    temporary: Temporary,
}

impl<'a> Talk<'a> {
    fn new(place: &'a Place, args: &'a TalkArgs) -> Result<Talk<'a>, Failure> {
        // The user's own file alone: what a project's files say is text for the model.
        let (config, _) = load::config(&place.environment, None)?;
        let folder = std::fs::canonicalize(&place.folder)
            .map_err(|error| Failure::new(USAGE, format!("this folder: {error}")))?;
        let root = git::top(&folder).unwrap_or(folder);
        let temporary = baton_runtime::sandbox::temporary().map_err(|error| {
            Failure::new(INTERNAL, format!("cannot make a temporary folder: {error}"))
        })?;
        let limit = Duration::from_secs(u64::from(args.minutes) * 60);
        Ok(Talk { place, args, config, root, limit, temporary })
    }

    fn setup(&self) -> Result<Setup, Failure> {
        let (place, args) = (self.place, self.args);
        let provider = setup::provider(&args.tape, &args.provider)?;
        let choice = choose::choose(&asked(&provider, None), &self.config, &place.environment)
            .map_err(|problem| Failure::new(USAGE, problem.to_string()))?
            .ok_or_else(|| Failure::new(USAGE, "no model is configured").hint(choose::ways()))?;
        let mut mind = mind(&choice, &self.config, &args.tape, "chat")?;
        if let Some(tape) = setup::tape(&args.tape)? {
            let setup = RunSetup { default: mind.runner(), ..RunSetup::default() };
            tape.begin(&self.root, Some(setup)).map_err(|why| Failure::new(INTERNAL, why))?;
        }
        let steps = mind.steps;
        mind.protocol = match args.protocol {
            Some(ProtocolArg::Native) => Protocol::Native,
            Some(ProtocolArg::Json) => Protocol::Json,
            Some(ProtocolArg::React) => Protocol::React,
            None => mind.protocol,
        };
        let board = match board::find(&self.root, &place.environment) {
            // It is moved aside when the turn begins.
            Err(board::Error::Planted(_)) => None,
            found => found?,
        };
        let mode = match args.approve {
            ApproveArg::Ask => Mode::Ask,
            ApproveArg::Auto => Mode::Auto,
            ApproveArg::Never => Mode::Never,
        };
        let person =
            (terminal::is_there() && !place.json).then(|| Arc::new(AtTerminal) as Arc<dyn Person>);
        let bench = Bench {
            project: &self.root,
            board: board.as_deref(),
            confined: !args.no_sandbox,
            writes: !args.read_only,
            commands_write: !args.read_only,
            mark: "talk",
            view: None,
            temporary: self.temporary.path(),
            approvals: Approvals { mode, person },
        };
        let workshop = workshop(&bench, &place.environment, &self.config.agent).map_err(|why| {
            Failure::new(USAGE, why).hint(match args.no_sandbox {
                true => "without --read-only its commands run, and may write the project",
                false => "--no-sandbox runs its commands unconfined, at your own risk",
            })
        })?;
        let folder = place.folder.strip_prefix(&self.root).unwrap_or(Path::new("."));
        let kept = turns::folder_of(&self.root, &place.environment).filter(|_| !args.read_only);
        let turns =
            kept.map(|kept| Turns::new(&self.root, board.as_deref(), &kept, &place.environment));
        // A recording has to be the same on another day and another machine.
        let facts = match mind.client.is_taped() || args.goes_on {
            true => Vec::new(),
            false => {
                let board = board.as_deref().unwrap_or(self.temporary.path());
                let confined = !args.no_sandbox;
                let machine =
                    baton_runtime::machine::look(&self.root, board, &place.environment, confined);
                machine.facts_for_talk(&baton_runtime::drive::now().to_string())
            }
        };
        Ok(Setup {
            mind,
            tags: Tags { stage: "talk".to_owned(), ..Tags::default() },
            cache_key: format!("talk/{}", self.digest()),
            folder: folder.to_string_lossy().into_owned(),
            workshop,
            limits: Limits {
                steps: args.steps.or(steps).unwrap_or(self.config.agent.steps),
                tokens: args.budget_tokens,
            },
            cost_limit: None,
            facts,
            conduct: None,
            turns,
        })
    }

    fn digest(&self) -> String {
        load::digest(self.root.as_os_str().as_encoded_bytes())
    }

    /// Where this project's conversations are: with the user's own state, not in the project.
    fn conversations(&self) -> Result<PathBuf, Failure> {
        let state = self.place.environment.state_folder().ok_or_else(|| {
            Failure::new(USAGE, "there is no place for transcripts: HOME is not set")
        })?;
        Ok(state.join("conversations").join(self.digest()))
    }

    fn agent(&self) -> Result<Agent, Failure> {
        let setup = self.setup()?;
        let all = self.conversations()?;
        if self.args.goes_on {
            let last = last_in(&all).ok_or_else(|| {
                Failure::new(USAGE, "there is no conversation about this project to go on with")
                    .hint("without --continue a new one begins")
            })?;
            return Agent::resume(setup, &last, Disk::default()).map_err(failed);
        }
        let name =
            format!("{:012}-{:04x}", baton_runtime::drive::now().0, std::process::id() & 0xffff);
        Agent::begin(setup, &all.join(name), Disk::default()).map_err(failed)
    }
}

/// The newest conversation.
fn last_in(folder: &Path) -> Option<PathBuf> {
    let names = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    names.filter(|path| path.is_dir()).max()
}

/// A person at the terminal. Anything but a clear yes is a no.
struct AtTerminal;

impl Person for AtTerminal {
    fn agrees(&self, question: &str) -> bool {
        terminal::agrees(&format!("\n{question}\nRun exactly this? [y/N] "))
    }
}

/// Ctrl-C ends the turn that goes on; a second one leaves.
fn watch_signals(current: &Arc<Mutex<Interrupt>>) -> Result<(), Failure> {
    let current = current.clone();
    crate::signals::watch(move |_| {
        let interrupt = current.lock().map(|own| own.clone()).unwrap_or_default();
        if interrupt.is_at_once() {
            // Every step is recorded before the next: nothing is lost.
            std::process::exit(i32::from(WAITING));
        }
        interrupt.at_once();
    })
}

/// What is seen while the agent works.
fn tell(heard: &Heard<'_>, with_words: bool) {
    let mut err = std::io::stderr();
    let _ = match heard {
        Heard::Piece(piece) if with_words => write!(err, "{}", text::escaped(piece)),
        Heard::Calls(call) => writeln!(err, "· {}", text::escaped(&agent::brief(call))),
        Heard::Notice(why) | Heard::Said(why) => writeln!(err, "[{}]", text::escaped(why)),
        Heard::Result(observed) => match &observed.envelope.error {
            Some(error) => writeln!(err, "  {}: {}", error.code, text::shown(&error.message, 160)),
            None => Ok(()),
        },
        Heard::Piece(_) => Ok(()),
    };
}

fn tell_all(notices: &[String], with_words: bool) {
    for notice in notices {
        tell(&Heard::Said(notice.clone()), with_words);
    }
}

pub(super) fn chat(place: &Place, args: &TalkArgs) -> Outcome {
    if !std::io::stdin().is_terminal() || place.json {
        return Err(Failure::new(USAGE, "chat needs a terminal")
            .hint("for scripts there is `baton exec -p \"…\"`"));
    }
    let talk = Talk::new(place, args)?;
    let mut agent = talk.agent()?;
    let current = Arc::new(Mutex::new(Interrupt::default()));
    watch_signals(&current)?;
    let history = talk.conversations()?.join("lines");
    let mut err = std::io::stderr();
    let _ = writeln!(err, "{}\n/help says what there is", talk.root.display());
    while let Some(line) = line(&history)? {
        match line.strip_prefix('/') {
            Some("exit" | "quit") => break,
            Some(command) if command == "compact" || command.starts_with("compact ") => {
                compact(&mut agent, &current, command["compact".len()..].trim())?;
            }
            Some(command) => {
                let _ = writeln!(err, "{}", text::escaped(&command_reply(&agent, command)));
            }
            None => turn(&talk, &mut agent, &current, &line)?,
        }
    }
    Ok(Reply::new("", json!({ "ok": true, "transcript": agent.transcript().to_string_lossy() })))
}

/// A line of the person's; `None` when there are no more. The editor lives no longer than its line:
/// it takes Ctrl-C for itself, and a turn needs it.
fn line(history: &Path) -> Result<Option<String>, Failure> {
    let failed = |error| Failure::new(INTERNAL, format!("cannot use the terminal: {error}"));
    let mut editor = rustyline::DefaultEditor::new().map_err(failed)?;
    let _ = editor.load_history(history);
    loop {
        let line = match editor.readline("› ") {
            Ok(line) => line.trim().to_owned(),
            Err(rustyline::error::ReadlineError::Interrupted) => continue,
            Err(_) => return Ok(None),
        };
        if !line.is_empty() {
            let _ = editor.add_history_entry(&line);
            let _ = editor.save_history(history);
            return Ok(Some(line));
        }
    }
}

/// One turn of a chat. What went wrong is said, and the chat goes on.
fn turn(
    talk: &Talk<'_>,
    agent: &mut Agent,
    current: &Arc<Mutex<Interrupt>>,
    line: &str,
) -> Result<(), Failure> {
    let interrupt = Interrupt::default();
    if let Ok(mut current) = current.lock() {
        *current = interrupt.clone();
    }
    agent.close("another turn began", &mut |heard| tell(&heard, true)).map_err(failed)?;
    let (line, notices) = agent.with_mentions(line);
    tell_all(&notices, true);
    agent.ask(&line).map_err(failed)?;
    let ran = agent.run(talk.limit, &interrupt, &mut |heard| tell(&heard, true));
    let mut err = std::io::stderr();
    let said = match &ran {
        Ok(Some(Ending::Done(_))) => String::new(),
        Ok(Some(Ending::Failed(why) | Ending::Stopped(why) | Ending::TimedOut(why))) => {
            format!("[{why}]")
        }
        Ok(None) => "[stopped]".to_owned(),
        Err(error) => format!("[{error}]"),
    };
    let _ = writeln!(err, "\n{}", text::escaped(&said));
    if let Some(line) = changed(agent).as_ref().and_then(about_changed) {
        tell(&Heard::Said(line), true);
    }
    if !matches!(ran, Ok(Some(_))) {
        let why = "the person stopped it, or the model could not be reached";
        agent.close(why, &mut |heard| tell(&heard, true)).map_err(failed)?;
    }
    Ok(())
}

/// `/compact [focus]`.
fn compact(agent: &mut Agent, current: &Arc<Mutex<Interrupt>>, focus: &str) -> Result<(), Failure> {
    let interrupt = Interrupt::default();
    if let Ok(mut current) = current.lock() {
        *current = interrupt.clone();
    }
    let focus = Some(focus).filter(|focus| !focus.is_empty());
    let done = agent.compact_now(focus, &interrupt, &mut |heard| tell(&heard, true));
    if let Err(why) = done.map_err(failed)? {
        let _ = writeln!(std::io::stderr(), "[{}]", text::escaped(&why));
    }
    Ok(())
}

fn command_reply(agent: &Agent, command: &str) -> String {
    match command {
        "context" => context(agent),
        "cost" => {
            let usage = agent.conversation().usage;
            let count = |tokens: Option<baton_core::id::Tokens>| {
                tokens.map_or("unknown".to_owned(), |tokens| tokens.to_string())
            };
            let cost = agent.cost().map_or("unknown".to_owned(), |cost| Cost(cost).to_string());
            format!(
                "tokens: {} in, {} from the cache, {} out; cost {cost}",
                count(usage.input),
                count(usage.cache_read),
                count(usage.output)
            )
        }
        "todo" => agent.conversation().recap().unwrap_or("nothing is open").to_owned(),
        "help" => "/context what the model sees, /compact [what matters] makes room, /cost, /todo, /exit; @path names a file; Ctrl-C stops a turn".to_owned(),
        other => format!("there is no command /{}; /help says what there is", text::shown(other, 40)),
    }
}

/// What the next request is made of.
fn context(agent: &Agent) -> String {
    let rows = agent.ledger();
    let all: u64 = rows.iter().map(|(_, bytes)| tokens::count(bytes).0).sum();
    let lines = rows.iter().map(|(name, text)| format!("{:>8}  {name}", tokens::count(text).0));
    format!("  tokens\n{}\n{all:>8}  all", lines.collect::<Vec<_>>().join("\n"))
}
