//! A run begins; and what can be read of one without continuing it.

use std::path::PathBuf;

use baton_core::event::{Event, HistoryText, Limits, RunStarted, VERSION};
use baton_core::id::{Iteration, RunId};
use baton_core::scenario;
use baton_core::workflow::{self, Phase, State};

use super::{Around, Drive, Error, Notice, files, mark_of, now, outputs, rules};
use crate::board::Board;
use crate::gather::{self, Gatherer};
use crate::guard::Guard;
use crate::journal::{self, Journal};
use crate::load;
use crate::lock::Lock;
use crate::snapshot::Snapshots;
use crate::store::Disk;
use crate::summaries::Mode;
use crate::view::Views;

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

/// Reads a run's state without continuing it.
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
        drive.views.sweep_abandoned();
        crate::caches::sweep(drive.around.environment);
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
                .with_git(around.environment)
                .interrupted_by(&around.control.interrupt);
        snapshots.outputs = outputs::own().into_keys().collect();
        snapshots.named_outputs.clone_from(&state.origin.outputs);
        let mark = mark_of(&around.board.root);
        let views = Views::new(&around.project, &around.board.root, &mark, around.environment);
        Drive {
            around,
            state,
            journal,
            gatherer,
            guard,
            snapshots,
            views,
            snapshot: None,
            _heart: lock.beating(),
            lock,
            subloop_lock: None,
            last_beat: None,
            edits: None,
            said_skipped: std::collections::BTreeSet::new(),
            mark,
            kept_outputs: (Iteration(0), 0),
        }
    }
}

/// The task as the history shows it.
fn goal(task: &str, scenario: Option<&str>) -> String {
    let folder = scenario.map(|name| format!("\n\nscenario: {name} ({}/)", scenario::folder(name)));
    format!("{task}{}", folder.unwrap_or_default())
}

pub(super) fn gatherer(board: &Board) -> Result<Gatherer, Error> {
    let opened = Gatherer::open(board, Mode::ReadWrite).map(|mut gatherer| {
        // Summaries of what is there already; a report that cannot be read is reported where it is used.
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
