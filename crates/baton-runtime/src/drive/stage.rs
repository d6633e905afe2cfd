//! One stage: its intent, the call of whoever runs it, and its result; and a stage whose process is gone.

use std::time::Duration;

use baton_core::event::{Event, StageEnded, StageId, StageResult, StageStarted, Stop};
use baton_core::id::{Attempt, FINISH_CHECK, MAIN};
use baton_core::prompt::{Correction, Prompt};
use baton_core::workflow::{self, Job, RefusedAnswer, Rules};

use super::{Drive, Edits, Error, Notice, files, passes};
use crate::executor::{self, Call, Unusable, ViewOrder};
use crate::gather::{self, For};
use crate::sandbox::Interrupt;
use crate::walk;

/// An edit within this time of the last sign of life may still be the stage's.
const UNSURE: Duration = Duration::from_secs(5);

/// A call of a stage, as it was written down.
pub(super) struct Act {
    pub(super) stage: StageId,
    pub(super) attempt: Attempt,
    pub(super) limit_seconds: u64,
    pub(super) writes: bool,
    /// Its refused answers so far, with the messages that follow them.
    pub(super) corrections: Vec<Correction>,
    /// The project before it, where it could be changed.
    pub(super) before: Option<String>,
}

impl Drive<'_> {
    /// The call of a stage, before anything of it has happened.
    pub(super) fn act(
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
    pub(super) fn stage(&mut self, mut act: Act, who: &For) -> Result<(), Error> {
        let adopted = self.guard.look()?;
        if !adopted.is_empty() {
            self.commit(Event::Adopted { files: adopted })?;
        }
        // First: the prompt names the project's files.
        let now = self.snapshots.take()?;
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
        let words = self.around.board.pack.words();
        let more: u64 = act.corrections.iter().map(|own| own.tokens(words).0).sum();
        if let Some(why) = self.state.would_exceed(prompt.tokens().0 + more, words) {
            return self.commit(Event::Stopped { why });
        }
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
            ledger: Some(files::ledger(words, &prompt, &act.corrections, &asked)),
            board: self.guard.differing(&self.state.files.board),
            project,
        };
        if act.stage.subloop.is_some() && self.subloop_lock.is_none() {
            self.lock_subloop()?;
        }
        // A correction finds the view of the answer that was refused.
        self.views.sweep(&view_name(self.state.origin.run.as_str(), &act));
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
                let stage = act.stage.text(self.around.board.pack.words());
                let why = Stop::Executor(format!("{stage}: {why}"));
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
        self.end_stage(act, outcome, trespassed)
    }

    /// Looks at what a stage left in the project, and journals its end.
    fn end_stage(
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
        self.say_skipped();
        let (mut changed, mut unexpected, mut voiding) = (Vec::new(), Vec::new(), Vec::new());
        match before.as_ref().zip(now.as_ref()) {
            Some((before, now)) if writes => {
                let names = self.changed(before, now)?;
                changed = names.iter().map(|name| walk::shown(name)).collect();
            }
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
        let words = self.around.board.pack.words();
        let by = self.around.executors.of(&act.stage).name(words);
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
        let pack = &self.around.board.pack;
        let (agents, conduct) = (pack.manifest.agent_names(), pack.conduct(&act.stage.name));
        let name = view_name(self.state.origin.run.as_str(), act);
        let view = (!act.writes).then_some(ViewOrder {
            views: &self.views,
            name: &name,
            files: self.snapshots.names(),
        });
        let (tokens, cost) = (self.state.tokens_left(), self.state.cost_left());
        let call = Call {
            run: self.state.origin.run.as_str(),
            stage: &act.stage,
            attempt: act.attempt,
            prompt: text,
            corrections: &act.corrections,
            words: self.around.board.pack.words(),
            limit: Duration::from_secs(act.limit_seconds),
            project: &self.around.project,
            board: &self.around.board.root,
            confined: self.around.confined,
            writes: act.writes,
            language: pack.words(),
            conduct: &conduct,
            agents: &agents,
            mark: &self.mark,
            tokens,
            cost,
            disk: &self.around.disk,
            view,
        };
        let executor = self.around.executors.of(&act.stage);
        run(executor, &call, &self.around.control.interrupt, &mut *self.around.watch)
    }

    /// A stage was started by a process that is gone. One whose steps are written down continues from
    /// there. Any other begins its next attempt: if it may write, what it changed is kept aside, and
    /// the project goes back to where it was; after any other stage the project stays as it is.
    pub(super) fn recover(&mut self, act: Act) -> Result<(), Error> {
        if self.continues(&act) {
            // A view that is made now needs the names of the project's files.
            if !act.writes && self.snapshots.names().is_empty() {
                self.snapshots.take()?;
            }
            return self.perform(act, None);
        }
        let Act { stage, attempt, before, writes, .. } = act;
        let mut restored = false;
        let mut changed = Vec::new();
        if let Some(before) = before.as_ref().filter(|_| !writes) {
            // Without the older one nothing is known of what it covered.
            let _ = self.snapshots.follow(before);
            let now = self.snapshots.take()?;
            changed = passes::named(self.noteworthy(before, &now)?);
        }
        if let Some(before) = before.filter(|_| writes) {
            self.snapshots.follow(&before)?;
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
                let own = self.around.board.pack.words();
                let said = own.files_are_back(&stage, files.len(), &kept);
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
            let path = project.join(walk::path_of(name).unwrap_or_default());
            let modified = std::fs::symlink_metadata(path).and_then(|own| own.modified());
            modified.is_ok_and(|modified| modified > beat + UNSURE)
        });
        Ok(changed.iter().map(|name| walk::shown(name)).collect())
    }

    /// What snapshots do not cover; each kind is reported once.
    fn say_skipped(&mut self) {
        for line in self.snapshots.skipped.news(&mut self.said_skipped) {
            (self.around.watch)(Notice::Said(line));
        }
    }

    pub(super) fn work_order(&mut self, job: &Job) -> Result<(), Error> {
        let rules = Rules { pack: &self.around.board.pack, config: &self.around.board.config };
        let plan = self.plan()?;
        let order = workflow::work_order(&self.state, &rules, &job.agent, &plan);
        let name = format!("workspace/{}/current_task.md", job.agent.file_stem());
        self.write(&name, order.as_bytes())
    }
}

/// The name of a stage's view.
fn view_name(run: &str, act: &Act) -> String {
    let Act { stage, attempt, .. } = act;
    let subloop = stage.subloop.map_or(String::new(), |number| format!("-subloop-{number}"));
    format!("{run}-{}-{}{subloop}-a{attempt}", stage.iteration, stage.name)
}

fn is_decision(who: &For) -> bool {
    matches!(who, For::Main | For::FinishCheck)
}
