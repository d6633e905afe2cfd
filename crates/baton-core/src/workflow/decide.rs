//! A decision: MAIN is asked until it answers in the form that is asked for, or a rule of the policy
//! decides without it.

use super::refused::{RefusedAnswer, add_refused};
use super::{Attempt, Effect, Phase, PlanEdit, Rules, State, Transition, agent};
use crate::decision::{self, Decision, Moment, Next};
use crate::event::{Asker, Decided, DecidedBy, Stop};
use crate::id::{AgentName, FINISH_REVIEW};
use crate::prompt::ReadFile;

pub(super) fn on_files_read(phase: Phase, files: &[ReadFile]) -> Option<Phase> {
    let Phase::JudgeDecision { check, tries, mut refused, answer } = phase else { return None };
    let is_asked = matches!(decision::reads(&answer), Some(Ok(_)));
    let files = files.to_vec();
    add_refused(&mut refused, RefusedAnswer { answer, problem: String::new(), files });
    is_asked.then_some(Phase::Decide { check, tries, refused })
}

impl State {
    pub(super) fn on_decision_refused(
        &mut self,
        phase: Phase,
        problem: &str,
        at: &Transition<'_>,
    ) -> Option<Phase> {
        let Phase::JudgeDecision { check, tries, mut refused, answer } = phase else { return None };
        let language = at.rules.pack.words();
        let path = language.the_journal();
        add_refused(&mut refused, RefusedAnswer::new(&answer, problem, &path, language));
        self.count_refusal(tries, at.rules.config.decision.retries, problem);
        Some(Phase::Decide { check, tries: tries + 1, refused })
    }

    /// One more try, with the exact error; after the last one the run stops and reports it.
    pub(super) fn count_refusal(&mut self, tries: u32, retries: u32, problem: &str) {
        self.budget.totals.corrections += 1;
        if tries > retries {
            self.stopped = Some(Stop::Protocol(problem.to_owned()));
        }
    }

    pub(super) fn on_decided(
        &mut self,
        phase: Phase,
        decided: &Decided,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let (check, decided) = read_decision(phase, decided, &at.rules)?;
        let decision = decided.decision.clone()?;
        self.attempt = Attempt(1);
        self.budget.totals.decided_by_rule += u32::from(decided.by == DecidedBy::Rule);
        self.files.plan_hash = Some(decided.plan_after.clone());
        if decided.plan_before != decided.plan_after {
            at.effects.push(Effect::EditPlan(Box::new(PlanEdit {
                before: decided.plan_before.clone(),
                change: decision.plan.clone(),
                rules: at.rules.pack.policy.plan.clone(),
            })));
        }
        if check {
            self.reports.overridden = self.override_of(&decision, at.rules.pack.words());
            self.current.check = Some(decided);
            self.budget.totals.finishes_overturned += u32::from(!self.is_finished());
            return Some(Phase::Record);
        }
        self.current.decided = Some(decided);
        Some(self.begin(&decision.next))
    }

    /// The phase that a decision begins.
    fn begin(&mut self, next: &Next) -> Phase {
        match next {
            Next::Agent(agent) => Phase::work(agent, None),
            Next::User(question) => Phase::Ask { question: question.clone(), by: Asker::Main },
            Next::Finish => {
                self.current.is_finish = true;
                self.budget.finish_attempts += 1;
                self.budget.totals.finishes += 1;
                Phase::work(&agent(FINISH_REVIEW), None)
            }
        }
    }

    /// Begins an iteration, with the decision that FINISH_CHECK has made for it, or with a new one.
    pub(super) fn begin_iteration(&mut self) -> Phase {
        // Its change of the plan is in the entry of the iteration before.
        let carried = self.current.check.take().map(|decided| Decided {
            plan_summary: String::new(),
            plan_changes: 0,
            ..decided
        });
        let next = carried.as_ref().and_then(Decided::next).cloned();
        match next {
            Some(next @ (Next::Agent(_) | Next::User(_))) => {
                self.current.decided = carried;
                self.begin(&next)
            }
            Some(Next::Finish) | None => Phase::decide(false),
        }
    }

    /// MAIN's decision of this iteration.
    pub(super) fn decision(&self) -> Option<&Decision> {
        self.current.decided.as_ref()?.decision.as_deref()
    }

    /// MAIN's decision in FINISH_CHECK.
    pub(super) fn check_decision(&self) -> Option<&Decision> {
        let check = self.current.check.as_ref().filter(|_| self.current.is_finish)?;
        check.decision.as_deref()
    }

    /// MAIN's order of the current iteration, and the agent that it was given to.
    pub fn main_order(&self) -> Option<(AgentName, String)> {
        let decision = self.decision()?;
        let Next::Agent(agent) = &decision.next else { return None };
        Some((agent.clone(), decision.task.as_ref().unwrap_or(&decision.reason).clone()))
    }

    /// Tokens of the files that were read for the decision that is being made.
    pub fn tokens_read(&self) -> u64 {
        let Phase::JudgeDecision { refused, .. } = &self.phase else { return 0 };
        let files = refused.iter().flat_map(|own| &own.files);
        files.map(|file| crate::tokens::count(&file.text).0).sum()
    }

    /// A state of a checkpoint of version 1 has decisions as MAIN wrote them: they are read here, once.
    pub fn read_decisions(&mut self, rules: &Rules<'_>) {
        let agents = rules.pack.manifest.agent_names();
        let current = &mut self.current;
        for decided in [&mut current.decided, &mut current.check].into_iter().flatten() {
            // A decision of FINISH_CHECK may have begun the iteration.
            let read = |moment| decided.with_decision("", &agents, moment);
            let read = read(Moment::Ordinary).or_else(|| read(Moment::FinishCheck));
            if let Some(read) = read {
                *decided = read;
            }
        }
    }
}

/// The decision, and whether it is that of FINISH_CHECK. A rule decides only where MAIN has not been
/// asked yet, and never that the run is finished.
fn read_decision(phase: Phase, decided: &Decided, rules: &Rules<'_>) -> Option<(bool, Decided)> {
    match (decided.by, phase) {
        (DecidedBy::Main, Phase::JudgeDecision { check, answer, .. }) => {
            let moment = if check { Moment::FinishCheck } else { Moment::Ordinary };
            let agents = rules.pack.manifest.agent_names();
            Some((check, decided.with_decision(&answer, &agents, moment)?))
        }
        (DecidedBy::Rule, Phase::Decide { check: false, refused, .. }) if refused.is_empty() => {
            let is_work = matches!(decided.next(), Some(Next::Agent(_)));
            is_work.then(|| (false, decided.clone()))
        }
        _ => None,
    }
}
