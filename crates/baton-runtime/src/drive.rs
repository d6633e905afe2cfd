//! The one loop: ask the state what to do, do it, write down what happened, fold it. Every event is
//! on disk before its effect can be seen, and every effect on files can be made again from its event:
//! resuming is this loop, started from disk.

mod files;
mod outputs;
mod passes;
mod reading;
mod rules;
mod scenario;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use baton_core::event::{
    AdoptedRules, Asker, Event, HistoryText, Limits, ProjectCheck, Record, RunSetup, RunStarted,
    StageEnded, StageId, StageResult, StageStarted, Stop, VERSION,
};
use baton_core::id::{AgentName, Attempt, FINISH_CHECK, Iteration, MAIN, RunId, Timestamp, Tokens};
use baton_core::machine::{Machine, StageLimits};
use baton_core::prompt::{
    Correction, FinishFacts, GateResult, Prompt, ReadFile, RunFacts, StageChange,
};
use baton_core::workflow::{
    self, Answer, Do, Effect, Job, Misfit, Phase, RefusedAnswer, Rules, State, judge_decision,
    judge_report,
};

use crate::board::Board;
use crate::executor::{self, Call, Executors, Unusable};
use crate::gates;
use crate::gather::{self, For, Gatherer, Wanted};
use crate::guard::{self, Guard};
use crate::journal::{self, Journal};
use crate::load::{self, Environment};
use crate::lock::{self, Heart, Lock};
use crate::sandbox::Interrupt;
use crate::snapshot::{self, Snapshots};
use crate::store::{self, Disk};
use crate::summaries::Mode;

pub use scenario::{Ask, Evaluator, Refused};

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
    is_skipped_said: bool,
    /// Of the processes that this blackboard's stages start.
    mark: String,
    /// The iteration of the last gate whose output was kept, and their number in it.
    kept_outputs: (Iteration, u32),
}

/// An edit within this time of the last sign of life may still be the stage's.
const UNSURE: Duration = Duration::from_secs(5);

/// A call of a stage, as it was written down.
struct Act {
    stage: StageId,
    attempt: Attempt,
    limit_seconds: u64,
    writes: bool,
    /// Its refused answers so far, with the messages that follow them.
    corrections: Vec<Correction>,
    /// The project before it, where it could be changed.
    before: Option<String>,
}

/// How deep the blackboard's folders go.
const SWEPT: usize = 4;

fn lock(board: &Board, run: &str) -> Result<Lock, Error> {
    Ok(Lock::take(&lock_path(board), &format!("run {run}, since {}", now()))?)
}

pub fn lock_path(board: &Board) -> PathBuf {
    board.root.join("state/run.lock")
}

pub fn journal_folder(board: &Board, run: &str) -> PathBuf {
    board.root.join("journal").join(run)
}

/// Whether a run is over, told by its last record: the rules may have changed since.
pub fn is_over(board: &Board, run: &str) -> Result<bool, Error> {
    let looked = journal::look(&journal_folder(board, run))?;
    Ok(match (looked.records.last(), &looked.state) {
        (Some(last), _) => matches!(last.event, Event::Finished { .. } | Event::Abandoned),
        (None, Some(state)) => state.phase == Phase::Ended,
        (None, None) => return Err(Error::NothingToResume),
    })
}

/// Gives the last run up, whatever its rules have become: another can begin.
pub fn abandon(board: &Board, disk: Disk) -> Result<String, Error> {
    let Some(run) = last_run(board)? else { return Err(Error::NothingToResume) };
    let _lock = lock(board, &run)?;
    if is_over(board, &run)? {
        return Err(Error::AlreadyFinished(run));
    }
    let mut opened = Journal::open(&journal_folder(board, &run), disk.clone())?;
    opened.journal.append(now(), Event::Abandoned)?;
    files::clear_away(board, &disk)?;
    Ok(run)
}

/// Reads a run's state without going on with it.
pub fn look(board: &Board, run: &str) -> Result<State, Error> {
    let looked = journal::look(&journal_folder(board, run))?;
    // Its first record never came to the disk: it has not begun.
    if looked.state.is_none() && looked.records.is_empty() {
        return Err(Error::NothingToResume);
    }
    told(&looked).folded(board).map(|(state, _)| state)
}

fn told(looked: &journal::Looked) -> rules::Told<'_> {
    rules::Told { start: &looked.start, state: looked.state.as_ref(), records: &looked.records }
}

/// A journal that is continued.
struct LoadedRun {
    state: State,
    /// The files of its last record, which may be missing.
    effects: Vec<Effect>,
    /// Changed rules that the run is to adopt.
    adopted: Option<Box<AdoptedRules>>,
}

fn read_journal(board: &Board, opened: &journal::Opened, adopt: bool) -> Result<LoadedRun, Error> {
    let all = rules::Told {
        start: &opened.start,
        state: opened.state.as_ref(),
        records: &opened.records,
    };
    let changes = rules::changes(board, &all.now());
    if !changes.is_empty() && !adopt {
        return Err(Error::RulesChanged { changes: changes.join(", ") });
    }
    let (state, effects) = all.folded(board)?;
    if changes.is_empty() {
        return Ok(LoadedRun { state, effects, adopted: None });
    }
    match state.unfit_for(&Rules { pack: &board.pack, config: &board.config }) {
        Some(why) => Err(Error::RulesUnfit { changes: changes.join(", "), why }),
        None => {
            let adopted = Some(Box::new(rules::adopted(board, changes)));
            Ok(LoadedRun { state, effects, adopted })
        }
    }
}

/// Names of the rules that changed since a run began; none for a run that is over.
pub fn changed_rules(board: &Board, run: &str) -> Result<Vec<String>, Error> {
    if is_over(board, run)? {
        return Ok(Vec::new());
    }
    let looked = journal::look(&journal_folder(board, run))?;
    Ok(rules::changes(board, &told(&looked).now()))
}

/// True if the last process of a run ended in order, with nothing open.
pub fn has_left(board: &Board, state: &State) -> bool {
    files::left(board, state.last_seq).is_some()
}

/// The last run of a blackboard.
pub fn last_run(board: &Board) -> Result<Option<String>, Error> {
    let failed = |source| load::Error::Io { path: board.root.join("journal"), source };
    Ok(journal::runs(&board.root).map_err(failed)?.pop())
}

impl<'a> Drive<'a> {
    /// Begins a new run.
    pub fn start(around: Around<'a>, task: &str, limits: Limits) -> Result<Drive<'a>, Error> {
        Drive::start_on(around, task, None, limits)
    }

    /// The same, on a scenario.
    pub fn start_on(
        around: Around<'a>,
        task: &str,
        scenario: Option<&str>,
        limits: Limits,
    ) -> Result<Drive<'a>, Error> {
        let board = around.board;
        let runs = journal::runs(&board.root)
            .map_err(|source| load::Error::Io { path: board.root.join("journal"), source })?;
        let number = |name: &String| name.strip_prefix("run-")?.parse::<u32>().ok();
        let highest = runs.iter().filter_map(number).max().unwrap_or(0);
        let name = format!("run-{:04}", highest + 1);
        let lock = lock(board, &name)?;
        around.disk.sweep(&board.root, SWEPT)?;
        if let Some(last) = runs.last() {
            match is_over(board, last) {
                // Or its first record never came to the disk: it has not begun. A process that gave a
                // run up may have been killed before it removed the files of that run.
                Ok(true) | Err(Error::NothingToResume) => {
                    files::clear_away(board, &around.disk)?;
                    files::complete_history(board, &around.disk, last)?;
                }
                Ok(false) => return Err(Error::Unfinished(last.clone())),
                Err(error) => return Err(error),
            }
        }
        let gatherer = gatherer(board)?;
        let run = RunId::new(&name).expect("letters, digits and `-`");
        let start = RunStarted {
            version: VERSION,
            run,
            task: task.to_owned(),
            pack: board.pack.manifest.name.clone(),
            language: board.pack.language.clone(),
            rules: rules::fingerprints(board),
            rules_text: Some(Box::new(rules::text(board))),
            first_iteration: gatherer.next_iteration().max(files::iteration_after(board, &runs)?),
            limits,
            newest: files::newest_facts(board),
            scenario: scenario.map(str::to_owned),
            setup: around.setup().map(Box::new),
            machine: around.machine.clone().map(Box::new),
            archived_plan: files::plan_of_an_earlier_task(board, &runs)?,
            entry: HistoryText::new(workflow::goal_entry(&goal(task, scenario), (around.clock)())),
            outputs: outputs::names(&outputs::own(), &around.project),
        };
        let mut journal = Journal::create(&journal_folder(board, &name), around.disk.clone())?;
        let event = Event::RunStarted(Box::new(start.clone()));
        let event = files::placed(board, event)?;
        let record = journal.append((around.clock)(), event)?;
        let state = State::new(&start, record.seq);
        let mut drive = Drive::assembled(around, state, journal, gatherer, lock);
        drive.guard.look()?;
        if let Event::RunStarted(start) = &record.event {
            drive.write_files(start.effects())?;
        }
        (drive.around.watch)(Notice::Event(&record, &drive.state));
        Ok(drive)
    }

    fn assembled(
        around: Around<'a>,
        state: State,
        journal: Journal,
        gatherer: Gatherer,
        lock: Lock,
    ) -> Drive<'a> {
        let guard = Guard::new(&around.board.root);
        let mut snapshots =
            Snapshots::new(&around.project, &around.board.root, around.disk.clone())
                .with_git(around.environment);
        snapshots.outputs = outputs::own().into_keys().collect();
        snapshots.named_outputs.clone_from(&state.origin.outputs);
        let mark = mark_of(&around.board.root);
        Drive {
            around,
            state,
            journal,
            gatherer,
            guard,
            snapshots,
            snapshot: None,
            _heart: lock.beating(),
            lock,
            subloop_lock: None,
            last_beat: None,
            edits: None,
            is_skipped_said: false,
            mark,
            kept_outputs: (Iteration(0), 0),
        }
    }

    /// Goes on with the last run, from what its journal says.
    pub fn resume(around: Around<'a>, limits: Option<Limits>) -> Result<Drive<'a>, Error> {
        Drive::resume_with(around, limits, false)
    }

    /// The same; with `adopt`, also under rules that changed since.
    pub fn resume_with(
        around: Around<'a>,
        limits: Option<Limits>,
        adopt: bool,
    ) -> Result<Drive<'a>, Error> {
        let board = around.board;
        let Some(run) = last_run(board)? else { return Err(Error::NothingToResume) };
        let last_beat = Lock::last_beat(&lock_path(board));
        let lock = lock(board, &run)?;
        around.disk.sweep(&board.root, SWEPT)?;
        let opened = Journal::open(&journal_folder(board, &run), around.disk.clone())?;
        if opened.state.is_none() && opened.records.is_empty() {
            return Err(Error::NothingToResume);
        }
        let LoadedRun { state, effects, adopted } = read_journal(board, &opened, adopt)?;
        let snapshot = opened.records.iter().rev().find_map(|record| match &record.event {
            Event::StageStarted(started) => Some(started.snapshot.clone()),
            _ => None,
        });
        let gatherer = gatherer(board)?;
        let kept_outputs = (state.iteration, gates::kept_in(&opened.records, state.iteration));
        let mut drive = Drive::assembled(around, state, opened.journal, gatherer, lock);
        drive.snapshot = snapshot.flatten();
        drive.kept_outputs = kept_outputs;
        drive.last_beat = last_beat;
        let left = crate::sandbox::end_left_behind(&drive.mark);
        if left > 0 {
            let said = format!("{left} processes that the interrupted stage had left were ended");
            (drive.around.watch)(Notice::Said(said));
        }
        drive.guard.look()?;
        if opened.torn > 0 {
            let said = format!(
                "a torn record of {} bytes was cut off the journal: it was never acknowledged",
                opened.torn
            );
            (drive.around.watch)(Notice::Said(said));
        }
        drive.write_files(effects)?;
        if drive.state.phase == Phase::Ended {
            return Err(Error::AlreadyFinished(run));
        }
        let left = files::left(board, drive.state.last_seq);
        let limits = limits.unwrap_or(drive.state.budget.limits);
        let setup = drive.around.setup().map(Box::new);
        let change = drive.state.origin.setup.as_ref().zip(setup.as_ref());
        if let Some((before, now)) = change.and_then(|(before, now)| before.difference(now)) {
            let said = format!("this run began with {before}; continuing with {now}");
            (drive.around.watch)(Notice::Said(said));
        }
        let setup = setup.filter(|setup| drive.state.origin.setup.as_ref() != Some(setup));
        let project = drive.look_after_pause()?;
        let outputs = outputs::names(&outputs::own(), &drive.around.project);
        drive.commit(Event::Resumed { limits, setup, adopted_rules: adopted, project, outputs })?;
        drive.adopt_since(left)?;
        Ok(drive)
    }

    /// Compares the project with the one that the last process left: a decision that waits to be
    /// judged must not count passes that are void by now. A stage that was interrupted has its own
    /// comparison, since its changes are not the user's.
    fn look_after_pause(&mut self) -> Result<Option<Box<ProjectCheck>>, Error> {
        let is_running = matches!(self.state.phase, Phase::Running { .. });
        if is_running || self.state.reports.passes.seen.is_none() {
            return Ok(None);
        }
        let now = self.snapshots.take()?;
        self.project_check(&now, &[])
    }

    /// What becomes of a person's edits since a stage was interrupted.
    pub fn set_edits(&mut self, edits: Option<Edits>) {
        self.edits = edits;
    }

    /// Names what of the blackboard is not as the last process left it.
    fn adopt_since(&mut self, left: Option<files::Left>) -> Result<(), Error> {
        let is_lost = matches!(self.state.phase, Phase::Running { .. });
        let before = match left {
            Some(left) => left.board,
            // While a stage runs only its agent, or a person, writes there.
            None if is_lost => self.state.files.board.clone(),
            None => return Ok(()),
        };
        let files: Vec<String> = self.guard.differing(&before).into_keys().collect();
        if files.is_empty() {
            return Ok(());
        }
        self.commit(Event::Adopted { files })
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
                Some(HistoryText::new(self.state.answer_entry(&answer, (self.around.clock)())))
            }
        };
        self.commit(Event::Answered { asked_seq, option_id, comment, entry })
    }

    /// Goes on until the run ends, waits or stops.
    pub fn run(&mut self) -> Result<End, Error> {
        let end = self.until_it_ends()?;
        self.around.disk.sweep(&self.around.board.root, SWEPT)?;
        let board = self.guard.differing(&std::collections::BTreeMap::new());
        files::leave(self.around.board, &files::Left { seq: self.state.last_seq, board });
        Ok(end)
    }

    fn until_it_ends(&mut self) -> Result<End, Error> {
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
                    let event = judge_decision(&self.state, &rules, &answer, check, &plan);
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

    /// The call of a stage, before anything of it has happened.
    fn act(
        &self,
        stage: StageId,
        attempt: Attempt,
        refused: &[RefusedAnswer],
        limit_seconds: u64,
    ) -> Act {
        let writes = self.writes(&stage.name);
        let order = &self.around.board.pack.policy.context.orders.correction;
        let corrections = (1..)
            .zip(refused)
            .enumerate()
            .filter_map(|(at, (number, own))| own.correction(number, &refused[..at], order))
            .collect();
        Act { stage, attempt, limit_seconds, writes, corrections, before: None }
    }

    /// One call of one agent: intent, act, result.
    fn stage(&mut self, mut act: Act, who: &For) -> Result<(), Error> {
        let adopted = self.guard.look()?;
        if !adopted.is_empty() {
            self.commit(Event::Adopted { files: adopted })?;
        }
        let handoff = match who {
            For::Agent(agent) => self.handoffs(agent)?,
            For::Main | For::Subloop(_) | For::FinishCheck => Vec::new(),
        };
        let prompt = match self.prompt(&act.stage, who, handoff) {
            Ok(prompt) => prompt,
            Err(gather::Error::Load(error)) => return Err(error.into()),
            Err(error) => {
                let why = Stop::Limit(error.to_string());
                return self.commit(Event::Stopped { why });
            }
        };
        let more: u64 = act.corrections.iter().map(|own| own.tokens().0).sum();
        if let Some(why) = self.state.would_exceed(prompt.tokens().0 + more) {
            return self.commit(Event::Stopped { why });
        }
        let now = self.snapshots.take()?;
        let project = self.project_check(&now, &[])?;
        // A model that only decides touches nothing: there is nothing to bring back after it.
        let can_write = act.writes || self.around.executors.of(&act.stage).can_write();
        act.before = (can_write || !is_decision(who)).then_some(now);
        self.snapshot.clone_from(&act.before);
        self.say_skipped();
        // Stopped while the prompt or the snapshot was made: the stage has not begun.
        if self.around.control.interrupt.is_at_once() {
            return Ok(());
        }
        let asked = std::mem::take(&mut self.gatherer.summaries.asked);
        let started = StageStarted {
            stage: act.stage.clone(),
            attempt: act.attempt,
            snapshot: act.before.clone(),
            ledger: Some(files::ledger(&prompt, &act.corrections, &asked)),
            board: self.guard.differing(&self.state.files.board),
            project,
        };
        if act.stage.subloop.is_some() && self.subloop_lock.is_none() {
            self.lock_subloop()?;
        }
        self.commit(Event::StageStarted(Box::new(started)))?;
        self.perform(act, Some(&prompt))
    }

    /// Calls whoever runs the stage, and journals the outcome.
    fn perform(&mut self, act: Act, prompt: Option<&Prompt>) -> Result<(), Error> {
        let outcome = self.call(&act, prompt);
        self.fenced()?;
        let trespassed = self.guard.restore(&self.around.disk)?;
        // The stage stays open in the journal: `resume` continues it, or begins its next attempt.
        if self.around.control.interrupt.is_at_once() {
            return Ok(());
        }
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(Unusable(why)) if trespassed.is_empty() && self.continues(&act) => {
                let why = Stop::Executor(format!("{}: {why}", act.stage));
                return self.commit(Event::Stopped { why });
            }
            Err(Unusable(why)) => executor::Outcome {
                result: StageResult::Unusable(why),
                spent: baton_core::event::Spent {
                    tokens: Some(baton_core::id::Tokens(0)),
                    cost: Some(0),
                    ..Default::default()
                },
            },
        };
        self.settle(act, outcome, trespassed)
    }

    /// Looks at what a stage left in the project, and journals its end.
    fn settle(
        &mut self,
        act: Act,
        outcome: executor::Outcome,
        trespassed: Vec<String>,
    ) -> Result<(), Error> {
        let Act { stage, attempt, writes, before, .. } = act;
        let is_decision = matches!(stage.name.as_str(), MAIN | FINISH_CHECK);
        let is_compared = is_decision && self.state.passes_given().next().is_some();
        let now = match before.is_some() || is_compared {
            true => Some(self.snapshots.take()?),
            false => None,
        };
        let (mut changed, mut unexpected, mut voiding) = (Vec::new(), Vec::new(), Vec::new());
        match before.as_ref().zip(now.as_ref()) {
            Some((before, now)) if writes => changed = self.changed(before, now)?,
            // The user may have changed them: they stay as they are, and a pass does not count.
            Some((before, now)) => {
                unexpected = passes::named(self.noteworthy(before, now)?);
                voiding = self.voiding_stage(before, now)?;
            }
            None => {}
        }
        let project = match now.as_ref().filter(|_| is_compared) {
            Some(now) => self.project_check(now, &unexpected)?,
            None => None,
        };
        let snapshot = now.filter(|_| before.is_some());
        let result = if trespassed.is_empty() {
            outcome.result
        } else {
            StageResult::Trespassed(trespassed)
        };
        let spent = outcome.spent;
        self.commit(Event::StageEnded(Box::new(StageEnded {
            stage,
            attempt,
            result,
            spent,
            changed,
            snapshot,
            unexpected,
            voiding,
            project,
        })))
    }

    fn continues(&mut self, act: &Act) -> bool {
        self.with_call(act, "", |executor, call, _, _| executor.continues(call))
    }

    /// Without a prompt, the call continues where it was interrupted.
    fn call(&mut self, act: &Act, prompt: Option<&Prompt>) -> Result<executor::Outcome, Unusable> {
        let text = prompt.map(Prompt::text).unwrap_or_default();
        let by = self.around.executors.of(&act.stage).name();
        let is_correction = !act.corrections.is_empty();
        (self.around.watch)(Notice::Begins { stage: &act.stage, by, prompt, is_correction });
        self.with_call(act, &text, |executor, call, interrupt, watch| {
            executor.call(call, interrupt, &mut |told| watch(Notice::Heard(told)))
        })
    }

    fn with_call<T>(
        &mut self,
        act: &Act,
        text: &str,
        run: impl FnOnce(
            &mut dyn executor::Executor,
            &Call<'_>,
            &Interrupt,
            &mut (dyn FnMut(Notice<'_>) + Send),
        ) -> T,
    ) -> T {
        let agents = self.around.board.pack.manifest.agent_names();
        let (tokens, cost) = (self.state.tokens_left(), self.state.cost_left());
        let call = Call {
            run: self.state.origin.run.as_str(),
            stage: &act.stage,
            attempt: act.attempt,
            prompt: text,
            corrections: &act.corrections,
            limit: Duration::from_secs(act.limit_seconds),
            project: &self.around.project,
            board: &self.around.board.root,
            confined: self.around.confined,
            writes: act.writes,
            agents: &agents,
            mark: &self.mark,
            tokens,
            cost,
            disk: &self.around.disk,
        };
        let executor = self.around.executors.of(&act.stage);
        run(executor, &call, &self.around.control.interrupt, &mut *self.around.watch)
    }

    fn prompt(
        &mut self,
        stage: &StageId,
        who: &For,
        handoff: Vec<baton_core::prompt::Injected>,
    ) -> Result<Prompt, gather::Error> {
        let facts = self.finish_facts();
        let wanted = Wanted {
            who,
            iteration: Some(stage.iteration),
            is_past: false,
            context_window: (self.around.context_window)(&stage.name),
            facts: &facts,
            handoff,
            run: self.run_facts(stage, who)?,
            seen: Some(&self.guard),
        };
        self.gatherer.prompt_for(self.around.board, &wanted)
    }

    /// Facts of the run that are in no file of the blackboard.
    fn run_facts(&mut self, stage: &StageId, who: &For) -> Result<RunFacts, gather::Error> {
        let board = self.around.board;
        let is_main = matches!(who, For::Main);
        let project_files = if is_main { self.snapshots.names() } else { Ok(Vec::new()) };
        let limits = StageLimits {
            stage_seconds: self.state.limit_of(stage, &self.rules()),
            command_seconds: Some(crate::tool::COMMAND_SECONDS),
            writes: self.writes(&stage.name),
            network: board.config.agent.network,
            asks_coverage: board
                .pack
                .policy
                .tdd_rules
                .as_ref()
                .is_some_and(|own| own.min_coverage > 0),
        };
        let machine = self.state.origin.machine.as_deref();
        let gates = &board.pack.policy.gates;
        let facts = machine.map(|machine| match who {
            For::Main | For::FinishCheck => machine.facts_for_main(gates, limits.asks_coverage),
            For::Agent(_) | For::Subloop(_) => machine.facts(gates, &limits),
        });
        let mut facts = facts.unwrap_or_default();
        facts.extend(self.state.reports.gate_results.iter().map(|run| {
            let how = if run.passed { "passed" } else { "failed" };
            format!("gate `{}` {how} after {}, iteration {}", run.command, run.of, run.iteration)
        }));
        let changed = self.state.files.stage_changes.iter().cloned();
        Ok(RunFacts {
            first_iteration: self.state.origin.first_iteration,
            machine: facts,
            project_files: project_files
                .map_err(|error| unreadable(&self.around.project, &error))?,
            changed: changed.map(|(stage, files)| StageChange { stage, files }).collect(),
            compare: machine.and_then(Machine::comparison),
            older_reports: gather::older_reports(&board.root, self.state.origin.first_iteration)?,
            main_order: self.state.main_order(),
            settled: self.state.settled_reports(&self.rules()),
        })
    }

    fn rules(&self) -> Rules<'_> {
        Rules { pack: &self.around.board.pack, config: &self.around.board.config }
    }

    fn writes(&self, agent: &AgentName) -> bool {
        let agents = &self.around.board.pack.manifest.agents;
        agents.iter().any(|own| own.name == *agent && own.writes)
    }

    /// Files of the blackboard for MAIN: each within its share of the room that is left.
    fn read_files(&self, paths: &[String]) -> Vec<ReadFile> {
        let main = AgentName::new(MAIN).expect("a valid name");
        let window = (self.around.context_window)(&main);
        let half = window.map_or(u64::MAX, |window| window.0 / 2);
        let limit = self.around.board.config.context.prompt_limit.main.min(half);
        let mut room = (limit / 2).saturating_sub(self.state.tokens_read());
        let files = paths.iter().map(|path| {
            let file = match reading::text(&self.around.board.root, path) {
                Ok(text) => ReadFile::of(path, &text, Tokens(room.min(reading::MOST_TOKENS))),
                Err(why) => ReadFile::unread(path, &why),
            };
            room = room.saturating_sub(baton_core::tokens::count(&file.text).0);
            file
        });
        files.collect()
    }

    fn finish_facts(&self) -> FinishFacts {
        let changes = self
            .state
            .files
            .stage_changes
            .iter()
            .map(|(stage, files)| StageChange { stage: stage.clone(), files: files.clone() });
        let current = &self.state.current.gates;
        let gates = self.state.reports.gate_results.iter().map(|run| {
            let now = current.iter().rfind(|gate| gate.command == run.command);
            GateResult {
                command: run.command.clone(),
                of: format!("{}, iteration {}", run.of, run.iteration),
                passed: run.passed,
                output: now.map_or(String::new(), |gate| gate.output.clone()),
            }
        });
        FinishFacts { stage_changes: Some(changes.collect()), gates: Some(gates.collect()) }
    }

    /// A stage was started by a process that is gone. One whose steps are written down continues from
    /// there. Any other begins its next attempt: if it may write, what it changed is kept aside, and
    /// the project goes back to where it was; after any other stage the project stays as it is.
    fn recover(&mut self, act: Act) -> Result<(), Error> {
        if self.continues(&act) {
            return self.perform(act, None);
        }
        let Act { stage, attempt, before, writes, .. } = act;
        let mut restored = false;
        let mut changed = Vec::new();
        if let Some(before) = before.as_ref().filter(|_| !writes) {
            let now = self.snapshots.take()?;
            changed = passes::named(self.noteworthy(before, &now)?);
        }
        if let Some(before) = before.filter(|_| writes) {
            let kept = self.snapshots.take()?;
            let edited = self.edited_since(&before, &kept)?;
            let files = match (edited.is_empty(), self.edits) {
                (false, None) => {
                    let files = baton_core::text::shown(&edited.join(", "), 300);
                    return Err(Error::EditedSince { stage: stage.to_string(), files });
                }
                (false, Some(Edits::Keep)) => {
                    return self.commit(Event::StageLost { stage, attempt, restored, changed });
                }
                _ if kept == before => Vec::new(),
                _ => self.snapshots.restore(&before)?,
            };
            restored = true;
            if !files.is_empty() {
                let said = format!(
                    "{stage} was interrupted: {} files are back to what they were before it; what it had changed is kept as snapshot {kept}",
                    files.len()
                );
                (self.around.watch)(Notice::Said(said));
            }
        }
        self.commit(Event::StageLost { stage, attempt, restored, changed })
    }

    /// Files that changed when the process that ran the stage was gone already.
    fn edited_since(&self, before: &str, now: &str) -> Result<Vec<String>, Error> {
        let Some(beat) = self.last_beat else { return Ok(Vec::new()) };
        let mut changed = self.snapshots.changed(before, now)?;
        let project = &self.around.project;
        changed.retain(|name| {
            let modified = std::fs::symlink_metadata(project.join(name)).and_then(|m| m.modified());
            modified.is_ok_and(|modified| modified > beat + UNSURE)
        });
        Ok(changed)
    }

    fn say_skipped(&mut self) {
        let skipped = std::mem::take(&mut self.snapshots.skipped);
        if !skipped.is_empty() && !self.is_skipped_said {
            self.is_skipped_said = true;
            let names = baton_core::text::shown(&skipped.join(", "), 200);
            let said = format!("too large for snapshots, cannot be brought back: {names}");
            (self.around.watch)(Notice::Said(said));
        }
    }

    fn gate(
        &mut self,
        index: usize,
        gate: &baton_core::policy::Gate,
        is_again: bool,
    ) -> Result<(), Error> {
        let command = gate.run.clone();
        if is_again {
            (self.around.watch)(Notice::Said(format!(
                "the gate `{}` was interrupted and its result is unknown: it is run again",
                baton_core::text::shown(&command, 200)
            )));
        }
        self.commit(Event::GateStarted { index, command: command.clone() })?;
        let control = &self.around.control.interrupt;
        let place = gates::Place {
            project: &self.around.project,
            board: &self.around.board.root,
            environment: self.around.environment,
            mark: &self.mark,
            confined: self.around.confined,
        };
        let ran = gates::run(gate, &place, control);
        if control.is_at_once() {
            return Ok(());
        }
        let gates::Ran { judged, output, whole, time } = ran;
        let passed = judged.passed;
        let output = match self.around.executors.gate_output(&command, passed, output.clone()) {
            Ok(output) => output,
            Err(why) => {
                (self.around.watch)(Notice::Said(why));
                output
            }
        };
        let log = self.keep_output(&whole)?;
        let milliseconds = executor::whole_milliseconds(time);
        self.commit(Event::GateEnded { index, command, passed, output, milliseconds, log })
    }

    /// Keeps the whole output of a gate, under a name that no other gate of the journal has; the
    /// file, from the project's folder.
    fn keep_output(&mut self, whole: &str) -> Result<Option<String>, Error> {
        let iteration = self.state.iteration;
        let number = match self.kept_outputs {
            (last, count) if last == iteration => count + 1,
            _ => 1,
        };
        let name = format!("{}/{iteration}_{number}.log", gates::LOGS);
        let board = &self.around.board.root;
        self.around.disk.write_here(&board.join(&name), whole.as_bytes())?;
        self.kept_outputs = (iteration, number);
        let root = std::fs::canonicalize(board).unwrap_or_else(|_| board.clone());
        let folder = root.file_name().and_then(|name| name.to_str());
        Ok(folder.map(|folder| format!("{folder}/{name}")))
    }

    fn work_order(&mut self, job: &Job) -> Result<(), Error> {
        let rules = Rules { pack: &self.around.board.pack, config: &self.around.board.config };
        let plan = self.plan()?;
        let order = workflow::work_order(&self.state, &rules, &job.agent, &plan);
        let name = format!("workspace/{}/current_task.md", job.agent.file_stem());
        self.write(&name, order.as_bytes())
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

fn is_decision(who: &For) -> bool {
    matches!(who, For::Main | For::FinishCheck)
}

/// The task as the history shows it.
fn goal(task: &str, scenario: Option<&str>) -> String {
    let folder = scenario.map(|name| format!("\n\nscenario: {name} (scenarios/{name}/)"));
    format!("{task}{}", folder.unwrap_or_default())
}

fn unreadable(project: &Path, error: &snapshot::Error) -> gather::Error {
    let source = std::io::Error::other(error.to_string());
    gather::Error::Load(load::Error::Io { path: project.to_owned(), source })
}

fn gatherer(board: &Board) -> Result<Gatherer, Error> {
    let opened = Gatherer::open(board, Mode::ReadWrite).map(|mut gatherer| {
        // Summaries of what is there already; a report that cannot be read is said where it is used.
        let _ = gatherer.summaries.refresh(&board.pack.policy);
        gatherer.summaries.asked.clear();
        gatherer
    });
    opened.map_err(|error| match error {
        gather::Error::Load(error) => error.into(),
        other => load::Error::Invalid(vec![baton_core::problem::Problem::new(
            "gather",
            other.to_string(),
        )])
        .into(),
    })
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
    use crate::executor::{Executor, Hear, Outcome};

    struct Silent;

    impl Executor for Silent {
        fn name(&self) -> String {
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
