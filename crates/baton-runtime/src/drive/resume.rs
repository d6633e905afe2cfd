//! A run is continued from what its journal says.

use baton_core::event::{AdoptedRules, Event, Limits, ProjectCheck};
use baton_core::workflow::{Effect, Phase, Rules, State};

use super::start::{SWEPT, gatherer, journal_folder, last_run, lock, lock_path};
use super::{Around, Drive, Error, Notice, files, outputs, rules};
use crate::board::Board;
use crate::gates;
use crate::journal::{self, Journal};
use crate::lock::Lock;

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

impl<'a> Drive<'a> {
    /// Continues the last run, from what its journal says.
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
        let last = opened.records.iter().rev().find_map(|record| match &record.event {
            Event::StageStarted(own) => own.snapshot.clone(),
            Event::StageEnded(own) => own.snapshot.clone(),
            _ => None,
        });
        let gatherer = gatherer(board)?;
        let kept_outputs = (state.iteration, gates::kept_in(&opened.records, state.iteration));
        let mut drive = Drive::assembled(around, state, opened.journal, gatherer, lock);
        drive.snapshot = snapshot.flatten();
        if let Some(last) = last {
            // Where it is missing, the project counts as it is.
            let _ = drive.snapshots.follow(&last);
        }
        drive.kept_outputs = kept_outputs;
        drive.last_beat = last_beat;
        let left = crate::sandbox::end_left_behind(&drive.mark);
        if left > 0 {
            let said = board.pack.words().processes_ended(left);
            (drive.around.watch)(Notice::Said(said));
        }
        drive.views.sweep_abandoned();
        crate::caches::sweep(drive.around.environment);
        drive.guard.look()?;
        if opened.torn > 0 {
            let said = board.pack.words().torn_record(opened.torn);
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
            let said = board.pack.words().other_setup(before, now);
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
}
