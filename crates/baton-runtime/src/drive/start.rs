//! A run begins, or is read from its journal: to look at it, to give it up, or to continue it.

use std::path::PathBuf;

use baton_core::event::{
    AdoptedRules, Event, HistoryText, Limits, ProjectCheck, RunStarted, VERSION,
};
use baton_core::id::{Iteration, RunId};
use baton_core::scenario;
use baton_core::workflow::{self, Effect, Phase, Rules, State};

use super::{Around, Drive, Error, Notice, files, mark_of, now, outputs, rules};
use crate::board::Board;
use crate::gates;
use crate::gather::{self, Gatherer};
use crate::guard::Guard;
use crate::journal::{self, Journal};
use crate::load;
use crate::lock::Lock;
use crate::snapshot::Snapshots;
use crate::store::Disk;
use crate::summaries::Mode;

/// How deep the blackboard's folders go.
pub(super) const SWEPT: usize = 4;

pub(super) fn lock(board: &Board, run: &str) -> Result<Lock, Error> {
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

pub(super) fn told(looked: &journal::Looked) -> rules::Told<'_> {
    rules::Told { start: &looked.start, state: looked.state.as_ref(), records: &looked.records }
}

/// A journal that is continued.
pub(super) struct LoadedRun {
    state: State,
    /// The files of its last record, which may be missing.
    effects: Vec<Effect>,
    /// Changed rules that the run is to adopt.
    adopted: Option<Box<AdoptedRules>>,
}

pub(super) fn read_journal(
    board: &Board,
    opened: &journal::Opened,
    adopt: bool,
) -> Result<LoadedRun, Error> {
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

    pub(super) fn assembled(
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
    pub(super) fn look_after_pause(&mut self) -> Result<Option<Box<ProjectCheck>>, Error> {
        let is_running = matches!(self.state.phase, Phase::Running { .. });
        if is_running || self.state.reports.passes.seen.is_none() {
            return Ok(None);
        }
        let now = self.snapshots.take()?;
        self.project_check(&now, &[])
    }

    /// Names what of the blackboard is not as the last process left it.
    pub(super) fn adopt_since(&mut self, left: Option<files::Left>) -> Result<(), Error> {
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
}

/// The task as the history shows it.
pub(super) fn goal(task: &str, scenario: Option<&str>) -> String {
    let folder = scenario.map(|name| format!("\n\nscenario: {name} ({}/)", scenario::folder(name)));
    format!("{task}{}", folder.unwrap_or_default())
}

pub(super) fn gatherer(board: &Board) -> Result<Gatherer, Error> {
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
