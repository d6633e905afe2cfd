//! A stage: it is started, and ends with an answer, an error or without any sign.

use super::refused::{add_refused, refused_of};
use super::{Attempt, Job, Phase, RefusedAnswer, Rules, State, Transition, agent};
use crate::event::{ExitCondition, Spent, StageEnded, StageId, StageResult, StageStarted, Stop};
use crate::id::{FINISH_CHECK, MAIN};
use crate::messages::Language;

impl State {
    pub(super) fn on_stage_started(
        &mut self,
        from: Phase,
        started: &StageStarted,
        at: &Transition<'_>,
    ) -> Option<Phase> {
        if started.stage != self.stage_of(&from)? {
            return None;
        }
        // Version 0.1 counted attempts differently after a refusal or a stop.
        self.attempt = started.attempt;
        let (stage, attempt) = (started.stage.clone(), started.attempt);
        let tokens = started.ledger.as_ref().map_or(0, |ledger| ledger.tokens);
        self.files.board.extend(started.board.clone());
        self.files.board.retain(|_, digest| !digest.is_empty());
        self.look_at_start(started, is_new(refused_of(&from)), at.rules.pack.words());
        Some(Phase::Running { stage, attempt, tokens, from: Box::new(from) })
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "no other phase begins a stage")]
    fn stage_of(&self, phase: &Phase) -> Option<StageId> {
        match phase {
            Phase::Decide { check, .. } => {
                Some(self.stage(&agent(if *check { FINISH_CHECK } else { MAIN }), None))
            }
            Phase::Work { job } => Some(self.stage(&job.agent, job.subloop)),
            _ => None,
        }
    }

    /// Its answer is lost; its prompt was paid for.
    pub(super) fn on_stage_lost(
        &mut self,
        phase: Phase,
        lost: &StageId,
        dead: Attempt,
    ) -> Option<Phase> {
        let Phase::Running { stage, attempt, tokens, from } = phase else { return None };
        if (lost, dead) != (&stage, attempt) {
            return None;
        }
        let totals = &mut self.budget.totals;
        totals.tokens = totals.tokens.saturating_add(tokens);
        totals.lost += 1;
        self.attempt = Attempt(attempt.0.saturating_add(1));
        self.acceptance.approvals.is_seen = false;
        Some(*from)
    }

    pub(super) fn on_stage_ended(
        &mut self,
        phase: Phase,
        ended: &StageEnded,
        at: &Transition<'_>,
    ) -> Option<Phase> {
        let Phase::Running { stage, attempt, from, .. } = phase else { return None };
        // A late answer of a dead attempt is never taken for a live one.
        if (&ended.stage, ended.attempt) != (&stage, attempt) {
            return None;
        }
        match *from {
            Phase::Decide { check, tries, refused } => {
                self.count_stage(ended, &refused, &at.rules);
                self.budget.totals.main_calls += u32::from(is_new(&refused));
                self.look_after(ended, at);
                Some(self.after_main(check, tries, refused, ended, at.rules.pack.words()))
            }
            Phase::Work { job } => {
                self.count_stage(ended, &job.refused, &at.rules);
                self.remember_changes(ended, is_new(&job.refused), at);
                self.look_after(ended, at);
                Some(self.after_agent(job, ended, at.rules.pack.words()))
            }
            Phase::JudgeDecision { .. }
            | Phase::JudgeReport { .. }
            | Phase::Running { .. }
            | Phase::Gates { .. }
            | Phase::Settle { .. }
            | Phase::Record
            | Phase::Ask { .. }
            | Phase::Waiting { .. }
            | Phase::Ended => None,
        }
    }

    /// What is known of the files after any stage.
    fn look_after(&mut self, ended: &StageEnded, at: &Transition<'_>) {
        self.acceptance.approvals.is_seen = false;
        if at.rules.writes(&ended.stage.name) {
            self.reports.wrote.insert(ended.stage.name.clone(), at.seq);
        }
        let language = at.rules.pack.words();
        self.current.notes.extend(ended.unexpected_line_in(language));
        self.look(ended.project.as_deref(), language);
    }

    /// What the stage took. A correction continues a stage that is counted already.
    fn count_stage(&mut self, ended: &StageEnded, refused: &[RefusedAnswer], rules: &Rules<'_>) {
        let stage = &ended.stage;
        let is_new = u32::from(is_new(refused));
        let is_tester = rules.subloop().is_some_and(|subloop| subloop.tester == stage.name);
        self.add(&ended.spent);
        let totals = &mut self.budget.totals;
        totals.stages += is_new;
        if stage.subloop.is_some() {
            totals.main_calls_saved += is_new;
            totals.subloop_milliseconds += ended.spent.milliseconds;
        } else if is_tester {
            totals.tester_runs += is_new;
        }
    }

    fn after_main(
        &mut self,
        check: bool,
        tries: u32,
        mut refused: Vec<RefusedAnswer>,
        ended: &StageEnded,
        language: Language,
    ) -> Phase {
        match &ended.result {
            StageResult::Answer(answer) => {
                return Phase::JudgeDecision { check, tries, refused, answer: answer.clone() };
            }
            StageResult::Trespassed(files) => {
                add_refused(&mut refused, self.trespassed(ended, files, language));
            }
            StageResult::Failed(why) | StageResult::TimedOut(why) | StageResult::Unusable(why) => {
                self.stopped =
                    Some(Stop::Executor(format!("{}: {why}", ended.stage.text(language))));
                self.attempt = Attempt(self.attempt.0.saturating_add(1));
            }
        }
        Phase::Decide { check, tries, refused }
    }

    fn after_agent(&mut self, mut job: Job, ended: &StageEnded, language: Language) -> Phase {
        match &ended.result {
            StageResult::Answer(report) => Phase::JudgeReport { job, report: report.clone() },
            StageResult::Trespassed(files) => {
                add_refused(&mut job.refused, self.trespassed(ended, files, language));
                Phase::Work { job }
            }
            // The same attempt: what it did so far is in its transcript, and it continues there.
            StageResult::Unusable(why) => {
                self.stopped =
                    Some(Stop::Executor(format!("{}: {why}", ended.stage.text(language))));
                Phase::Work { job }
            }
            StageResult::Failed(why) => self.fail(job, why, ExitCondition::ExecutorError),
            StageResult::TimedOut(why) => self.fail(job, why, ExitCondition::Timeout),
        }
    }

    /// The run stops, and whoever is asked next is shown why.
    fn trespassed(
        &mut self,
        ended: &StageEnded,
        files: &[String],
        language: Language,
    ) -> RefusedAnswer {
        let problem =
            language.changed_others_files(ended.stage.text(language), language.list(files));
        self.stopped = Some(Stop::Protocol(problem.clone()));
        RefusedAnswer { problem, ..RefusedAnswer::default() }
    }

    /// An executor's error is shown to MAIN; a sub-loop ends with it.
    fn fail(&mut self, job: Job, why: &str, condition: ExitCondition) -> Phase {
        self.attempt = Attempt(1);
        self.current.failure = Some(format!("{}: {why}", job.agent));
        match &mut self.current.subloop {
            Some(sub) if job.subloop.is_some() => {
                sub.broken_by = Some(condition);
                Phase::Settle { job }
            }
            _ => Phase::Record,
        }
    }

    /// The project after an agent's stage. A state does not grow with its run: the last stages, some
    /// files of each.
    fn remember_changes(&mut self, ended: &StageEnded, is_new: bool, at: &Transition<'_>) {
        const STAGES: usize = 20;
        const FILES: usize = 40;
        self.current.project.clone_from(&ended.snapshot);
        self.look_at_end(ended, is_new, at.seq, at.rules.writes(&ended.stage.name));
        if ended.changed.is_empty() {
            return;
        }
        let mut files: Vec<String> = ended.changed.iter().take(FILES).cloned().collect();
        let more = ended.changed.len().saturating_sub(FILES);
        files.extend((more > 0).then(|| format!("and {more} more")));
        let all = &mut self.files.stage_changes;
        all.push((ended.stage.to_string(), files));
        let over = all.len().saturating_sub(STAGES);
        all.drain(..over);
    }

    /// Adds what a stage or an evaluation took.
    pub(super) fn add(&mut self, spent: &Spent) {
        let totals = &mut self.budget.totals;
        totals.milliseconds = totals.milliseconds.saturating_add(spent.milliseconds);
        match spent.tokens {
            Some(tokens) => totals.tokens = totals.tokens.saturating_add(tokens.0),
            None => totals.uncounted += 1,
        }
        totals.cached = totals.cached.saturating_add(spent.cached.map_or(0, |cached| cached.0));
        match spent.cost {
            Some(cost) => totals.cost = totals.cost.saturating_add(cost),
            None => totals.unknown_costs += 1,
        }
    }
}

/// True if a stage is more than the correction of a refused answer.
fn is_new(refused: &[RefusedAnswer]) -> bool {
    refused.iter().all(|refused| refused.answer.is_empty())
}
