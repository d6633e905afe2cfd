//! The one loop: ask the state what to do, do it, write down what happened, fold it. Every event is
//! on disk before its effect can be seen, and every effect on files can be made again from its event:
//! resuming is this loop, started from disk.

mod files;
mod gate;
pub(crate) mod outputs;
mod passes;
mod prompt;
mod reading;
mod resume;
mod rules;
mod scenario;
mod stage;
mod start;

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use baton_core::event::{Asker, Event, HistoryText, Record, RunSetup, StageId, Stop};
use baton_core::id::{AgentName, Iteration, Timestamp};
use baton_core::machine::Machine;
use baton_core::prompt::Prompt;
use baton_core::workflow::{
    self, Answer, Do, Misfit, Phase, Rules, State, judge_decision, judge_report,
};

use crate::board::Board;
use crate::executor::{self, Executors};
use crate::gather::{For, Gatherer};
use crate::guard::{self, Guard};
use crate::journal::{self, Journal};
use crate::load::{self, Environment};
use crate::lock::{self, Heart, Lock};
use crate::sandbox::Interrupt;
use crate::snapshot::{self, Snapshots};
use crate::store::{self, Disk};
use crate::view::{self, Views};

pub use scenario::{Ask, Evaluator, Refused};
pub use start::{
    abandon, changed_rules, has_left, is_over, journal_folder, last_run, lock_path, look,
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("run {0} is not finished; `baton resume` continues it")]
    Unfinished(String),
    #[error("there is no run to go on with")]
    NothingToResume,
    #[error("run {0} is finished")]
    AlreadyFinished(String),
    #[error("the rules changed since the run began: {changes}")]
    RulesChanged { changes: String },
    /// Also with `--adopt`.
    #[error("the run cannot continue with the changed rules ({changes}): {why}")]
    RulesUnfit { changes: String, why: String },
    #[error("no question is open")]
    NoQuestion,
    #[error("what is to be changed? Nobody can guess it")]
    NoComment,
    #[error("a comment has at most 8,000 characters; put the rest into a file and name it")]
    LongComment,
    #[error("there is no option `{option}`; answer {known}")]
    NoOption { option: String, known: String },
    #[error(
        "{stage} was interrupted, and since then somebody edited files that it may have changed too: {files}"
    )]
    EditedSince { stage: String, files: String },
    #[error(transparent)]
    Misfit(#[from] Misfit),
    #[error(transparent)]
    Lock(#[from] lock::Error),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Guard(#[from] guard::Error),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(transparent)]
    View(#[from] view::Error),
}

/// How a run was left.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    Finished,
    /// A person is asked.
    Waiting,
    Stopped(Stop),
    /// Asked to stop; nothing is open.
    Parked,
}

/// What becomes of files that a person edited after a stage was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edits {
    /// The project stays as it is, with what the stage had done so far.
    Keep,
    /// The project goes back to where it was before the stage; what was there is kept aside.
    Discard,
}

/// A person's wishes while a run goes on.
#[derive(Debug, Clone, Default)]
pub struct Control {
    /// Ends the stage that runs.
    pub interrupt: Interrupt,
    park: Arc<AtomicBool>,
}

impl Control {
    /// Stop as soon as the stage that runs has ended and is written down.
    pub fn park(&self) {
        self.park.store(true, Ordering::SeqCst);
    }

    pub fn is_parked(&self) -> bool {
        self.park.load(Ordering::SeqCst) || self.interrupt.is_at_once()
    }
}

/// What those who watch are told.
#[derive(Debug)]
pub enum Notice<'a> {
    Event(&'a Record, &'a State),
    /// A stage is about to run.
    Begins {
        stage: &'a StageId,
        by: String,
        /// `None`: it continues where it was interrupted.
        prompt: Option<&'a Prompt>,
        /// Its last answer was refused.
        is_correction: bool,
    },
    /// What is heard of it.
    Heard(executor::Told<'a>),
    /// Something that a person should know.
    Said(String),
}

/// Everything that a run needs around it.
pub struct Around<'a> {
    pub board: &'a Board,
    pub project: PathBuf,
    pub environment: &'a Environment,
    pub executors: &'a mut Executors,
    pub control: Control,
    /// Whether what stages and gates start is confined.
    pub confined: bool,
    pub disk: Disk,
    pub clock: fn() -> Timestamp,
    pub watch: Box<dyn FnMut(Notice<'_>) + Send + 'a>,
    /// Runs samples, where the pack asks for it.
    pub evaluator: Option<&'a mut dyn Evaluator>,
    /// The machine, if it was looked at: it is recorded when a new run begins.
    pub machine: Option<Machine>,
    /// Of the model that gets a stage's prompt.
    pub context_window: &'a dyn Fn(&AgentName) -> Option<baton_core::id::Tokens>,
}

impl std::fmt::Debug for Around<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Around({}, {:?})", self.project.display(), self.executors)
    }
}

impl Around<'_> {
    /// For the journal: what runs the stages and the samples.
    fn setup(&self) -> Option<RunSetup> {
        let evaluation = self.evaluator.as_ref().and_then(|own| own.setup());
        let setup = self.executors.setup()?;
        Some(RunSetup { no_sandbox: !self.confined, evaluation, ..setup })
    }
}

/// The time of day.
pub fn now() -> Timestamp {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(time.as_secs())
}

/// A run that goes on.
#[derive(Debug)]
pub struct Drive<'a> {
    around: Around<'a>,
    state: State,
    journal: Journal,
    gatherer: Gatherer,
    guard: Guard,
    snapshots: Snapshots,
    /// The project as agents that may not write, and gates, see it.
    views: Views,
    /// Before the stage that runs.
    snapshot: Option<String>,
    lock: Lock,
    /// Shows others that this run lives, and how long it did.
    _heart: Option<Heart>,
    /// Keeps a second sub-loop out while one runs.
    subloop_lock: Option<Lock>,
    /// When the process that ran before this one was last alive.
    last_beat: Option<SystemTime>,
    edits: Option<Edits>,
    /// What snapshots do not cover: kinds that were reported.
    said_skipped: std::collections::BTreeSet<crate::walk::Skip>,
    /// Of the processes that this blackboard's stages start.
    mark: String,
    /// The iteration of the last gate whose output was kept, and their number in it.
    kept_outputs: (Iteration, u32),
}

impl<'a> Drive<'a> {
    /// What becomes of a person's edits since a stage was interrupted.
    pub fn set_edits(&mut self, edits: Option<Edits>) {
        self.edits = edits;
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// Shorter segments of the journal, for tests of what a long run does.
    pub fn set_segment_bytes(&mut self, bytes: u64) {
        self.journal.set_segment_bytes(bytes);
    }

    /// One that slept while its lock was taken away must write nothing more.
    fn fenced(&self) -> Result<(), Error> {
        if self.lock.is_in_place() {
            return Ok(());
        }
        let by = "the lock file was removed or replaced under this run; nothing more is written"
            .to_owned();
        Err(lock::Error::Held { by }.into())
    }

    /// Gives the answer to the open question.
    pub fn answer(&mut self, option: &str, comment: &str) -> Result<(), Error> {
        let Phase::Waiting { question, by, asked_seq } = self.state.phase.clone() else {
            return Err(Error::NoQuestion);
        };
        if !question.options.iter().any(|own| own.option_id == option) {
            let known: Vec<&str> =
                question.options.iter().map(|own| own.option_id.as_str()).collect();
            return Err(Error::NoOption {
                option: baton_core::text::shown(option, 60),
                known: baton_core::problem::list(&known),
            });
        }
        let is_wish = by == Asker::Approval && option == workflow::CHANGE;
        if is_wish && comment.trim().is_empty() {
            return Err(Error::NoComment);
        }
        if comment.chars().count() > workflow::MOST_COMMENT {
            return Err(Error::LongComment);
        }
        let (option_id, comment) = (option.to_owned(), comment.to_owned());
        let answer = Answer { question, option_id: option_id.clone(), comment: comment.clone() };
        let entry = match by {
            // These stand in the entry of the iteration.
            Asker::Main | Asker::Approval => None,
            Asker::Escalation => {
                let rules =
                    Rules { pack: &self.around.board.pack, config: &self.around.board.config };
                let entry = self.state.answer_entry(&answer, &rules, (self.around.clock)());
                Some(HistoryText::new(entry))
            }
        };
        self.commit(Event::Answered { asked_seq, option_id, comment, entry })
    }

    /// Goes on until the run ends, waits or stops.
    pub fn run(&mut self) -> Result<End, Error> {
        let end = match self.run_loop() {
            // What is open is settled at the next start.
            Err(Error::Snapshot(snapshot::Error::Interrupted)) => End::Parked,
            end => end?,
        };
        self.around.disk.sweep(&self.around.board.root, start::SWEPT)?;
        let board = self.guard.differing(&std::collections::BTreeMap::new());
        files::leave(self.around.board, &files::Left { seq: self.state.last_seq, board });
        if end == End::Finished {
            self.views.remove_all();
        }
        Ok(end)
    }

    fn run_loop(&mut self) -> Result<End, Error> {
        loop {
            self.fenced()?;
            let rules = Rules { pack: &self.around.board.pack, config: &self.around.board.config };
            let next = self.state.next(&rules, (self.around.clock)());
            let starts_a_stage = matches!(
                next,
                Do::AskMain { .. }
                    | Do::RunAgent { .. }
                    | Do::Recover { .. }
                    | Do::RunGate { .. }
                    | Do::StartEvaluation
                    | Do::Evaluate { .. }
            );
            let control = &self.around.control;
            // At once means here, wherever the run is: what is open is settled at the next start.
            if control.interrupt.is_at_once() || starts_a_stage && control.is_parked() {
                return Ok(End::Parked);
            }
            match next {
                Do::AskMain { stage, attempt, check, refused } => {
                    if let Some(event) = self.decided_by_rule()? {
                        self.commit(event)?;
                        continue;
                    }
                    let who = if check { For::FinishCheck } else { For::Main };
                    let limit_seconds = self.state.budget.limits.stage_seconds;
                    let act = self.act(stage, attempt, &refused, limit_seconds);
                    self.stage(act, &who)?;
                }
                Do::RunAgent { stage, attempt, job, limit_seconds } => {
                    self.work_order(&job)?;
                    let who = match job.subloop {
                        Some(_) => For::Subloop(job.agent.clone()),
                        None => For::Agent(job.agent.clone()),
                    };
                    let act = self.act(stage, attempt, &job.refused, limit_seconds);
                    self.stage(act, &who)?;
                }
                Do::JudgeDecision { answer, check } => {
                    let plan = self.plan()?;
                    let has = |file: &str| self.has_file(file);
                    let event = judge_decision(&self.state, &rules, &answer, check, &plan, &has);
                    self.commit(event)?;
                }
                Do::ReadFiles { paths } => {
                    let files = self.read_files(&paths);
                    self.commit(Event::FilesRead { files })?;
                }
                Do::JudgeReport { job, report } => {
                    let plan = self.plan()?;
                    let event = judge_report(&self.state, &rules, &job.agent, &report, &plan);
                    self.commit(event)?;
                }
                Do::Recover { stage, attempt, refused, limit_seconds } => {
                    let mut act = self.act(stage, attempt, &refused, limit_seconds);
                    act.before.clone_from(&self.snapshot);
                    self.recover(act)?;
                }
                Do::RunGate { index, gate, is_again } => self.gate(index, &gate, is_again)?,
                Do::LookAtFiles { approval } => self.look_at_files(&approval)?,
                Do::StartEvaluation => self.start_evaluation()?,
                Do::Evaluate { number } => self.evaluate(number)?,
                Do::Journal(event) => self.commit(event)?,
                Do::Wait { .. } => return Ok(End::Waiting),
                Do::Halt => {
                    return Ok(match &self.state.stopped {
                        Some(stop) => End::Stopped(stop.clone()),
                        None => End::Finished,
                    });
                }
            }
        }
    }

    /// The decision of a rule, where MAIN need not be asked.
    fn decided_by_rule(&self) -> Result<Option<Event>, Error> {
        if self.around.board.pack.policy.routing.after_pass.is_empty() {
            return Ok(None);
        }
        let plan = self.plan()?;
        let has = |file: &str| self.has_file(file);
        Ok(workflow::decide_by_rule(&self.state, &self.rules(), &plan, &has))
    }

    /// Whether the project has a file that a task names: at this path, or at one that ends with it.
    fn has_file(&self, file: &str) -> bool {
        let is_inside =
            Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
        let ending = format!("/{file}");
        let is_one = |name: &[u8]| name == file.as_bytes() || name.ends_with(ending.as_bytes());
        self.snapshots.names().iter().any(|name| is_one(name.as_ref()))
            || is_inside && self.around.project.join(file).symlink_metadata().is_ok()
    }

    /// Takes an event over: it must fit, is written down, and its files follow.
    fn commit(&mut self, event: Event) -> Result<(), Error> {
        let event = match event.history().is_some() {
            true => files::placed(self.around.board, event)?,
            false => event,
        };
        self.fenced()?;
        let record = self.journal.next((self.around.clock)(), event);
        let (state, effects) = self.state.after(&record, &self.rules())?;
        self.journal.write(&record)?;
        self.write_files(effects)?;
        self.state = state;
        if matches!(record.event, Event::IterationEnded { .. } | Event::Finished { .. }) {
            self.journal.rotate(&self.state)?;
            // The cache saves work and is no truth: what cannot be written is made again.
            let _ = self.gatherer.summaries.flush();
        }
        (self.around.watch)(Notice::Event(&record, &self.state));
        Ok(())
    }

    fn rules(&self) -> Rules<'_> {
        Rules { pack: &self.around.board.pack, config: &self.around.board.config }
    }

    fn writes(&self, agent: &AgentName) -> bool {
        let agents = &self.around.board.pack.manifest.agents;
        agents.iter().any(|own| own.name == *agent && own.writes)
    }

    /// Writes a file of the blackboard, where it is not this already.
    fn write(&mut self, name: &str, content: &[u8]) -> Result<(), Error> {
        if self.guard.unchanged(name) == Some(content) {
            return Ok(());
        }
        self.around.disk.replace(&self.around.board.root.join(name), content)?;
        Ok(self.guard.wrote(name, content)?)
    }

    fn remove(&mut self, name: &str) -> Result<(), Error> {
        let path = self.around.board.root.join(name);
        if path.symlink_metadata().is_ok() {
            self.around.disk.remove(&path)?;
        }
        Ok(self.guard.own(name)?)
    }
}

/// The mark of every process that the stages of a blackboard start.
pub fn mark_of(board: &Path) -> String {
    let root = std::fs::canonicalize(board).unwrap_or_default();
    blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex()[..16].to_owned()
}

/// Where the project of a blackboard is.
pub fn project_of(board: &Path) -> PathBuf {
    let root = std::fs::canonicalize(board).unwrap_or_else(|_| board.to_owned());
    root.parent().map_or(root.clone(), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::NewBoard;
    use baton_core::event::Limits;
    use baton_core::messages::Language;

    use crate::executor::{Call, Executor, Hear, Outcome, Unusable};

    struct Silent;

    impl Executor for Silent {
        fn name(&self, _: Language) -> String {
            "silent".to_owned()
        }

        fn call(&mut self, _: &Call<'_>, _: &Interrupt, _: Hear<'_>) -> Result<Outcome, Unusable> {
            Err(Unusable("it is not called".to_owned()))
        }
    }

    #[test]
    fn an_event_that_does_not_fit_is_refused_before_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join(".baton");
        NewBoard { root: &root, pack: "tdd", language: "en" }.create().expect("a blackboard");
        let environment = Environment::of(&[]);
        let board = Board::open(&root, &environment).expect("a blackboard");
        let mut executors = Executors::new(Box::new(Silent));
        let around = Around {
            board: &board,
            project: folder.path().to_owned(),
            environment: &environment,
            executors: &mut executors,
            control: Control::default(),
            confined: false,
            disk: Disk::default(),
            clock: now,
            watch: Box::new(|_| {}),
            evaluator: None,
            machine: None,
            context_window: &|_| None,
        };
        let mut drive = Drive::start(around, "a task", Limits::of(5, 60)).expect("a run");
        let records = || journal::records(&root.join("journal/run-0001")).expect("a journal");
        let (written, state) = (records(), drive.state.clone());
        let misfit = Event::SubloopEntered { reason: "out of place".to_owned() };
        let error = drive.commit(misfit).expect_err("it does not fit");
        assert!(matches!(error, Error::Misfit(_)), "{error}");
        assert_eq!((records(), &drive.state), (written, &state));
        // The run is not lost by it.
        drive.commit(Event::Adopted { files: Vec::new() }).expect("it fits");
        assert_eq!(records().len(), 2);
    }
}
