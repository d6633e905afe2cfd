//! The end of an iteration: the sub-loop, the entry of the history, the next iteration or the end.

use super::{Effect, Phase, State, Sub, Transition};
use crate::decision::Next;
use crate::event::{Asker, Decided, SubloopEnd};
use crate::id::{AgentName, Iteration};
use crate::policy::Outcome;

impl State {
    pub(super) fn on_subloop_entered(
        &mut self,
        phase: Phase,
        reason: &str,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let Phase::Settle { job } = phase else { return None };
        let fixer = &at.rules.subloop()?.fixer;
        if job.subloop.is_some() || self.current.subloop.is_some() {
            return None;
        }
        self.budget.totals.subloops += 1;
        at.effects.push(Effect::LockSubloop);
        at.effects.extend(self.subloop_state(1, reason, &at.rules));
        self.current.subloop = Some(Sub { number: 1, reason: reason.to_owned(), broken_by: None });
        Some(Phase::work(fixer, Some(1)))
    }

    pub(super) fn on_subloop_ended(
        &mut self,
        phase: &Phase,
        end: &SubloopEnd,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        if !matches!(phase, Phase::Settle { .. }) || self.current.subloop.is_none() {
            return None;
        }
        self.budget.totals.subloops_passed += u32::from(end.success);
        at.effects.extend(at.rules.pack.policy.subloop.as_ref().map(|subloop| {
            let (tester, fixer) = (subloop.tester.clone(), subloop.fixer.clone());
            Effect::EndSubloop { tester, fixer, most: subloop.max }
        }));
        self.current.subloop_end = Some(end.clone());
        Some(Phase::Record)
    }

    pub(super) fn on_iteration_ended(
        &mut self,
        phase: &Phase,
        at: &Transition<'_>,
    ) -> Option<Phase> {
        if !matches!(phase, Phase::Settle { .. } | Phase::Record) || self.is_finished() {
            return None;
        }
        self.count_iteration(&at.rules);
        self.reports.passed_last = self.plain_pass();
        let carried = std::mem::take(&mut self.current).check;
        let begins =
            |decided: &Decided| matches!(decided.next(), Some(Next::Agent(_) | Next::User(_)));
        self.current.check = carried.filter(begins);
        self.iteration = Iteration(self.iteration.0.saturating_add(1));
        self.budget.totals.iterations += 1;
        if let Some(stop) = self.budget.stuck.stop.take() {
            self.stopped = Some(stop);
        }
        Some(match self.escalation(&at.rules) {
            Some(question) => Phase::Ask { question, by: Asker::Escalation },
            None => self.begin_iteration(),
        })
    }

    /// The agent that was sent and passed, if that is all that happened in the iteration.
    fn plain_pass(&self) -> Option<AgentName> {
        let current = &self.current;
        let is_eventful = current.is_finish
            || current.answer.is_some()
            || current.failure.is_some()
            || current.evaluation.is_some()
            || current.subloop_end.as_ref().is_some_and(|end| !end.success);
        let last = current.reports.last().filter(|_| !is_eventful)?;
        let sent = match &self.decision()?.next {
            Next::Agent(agent) => agent,
            Next::User(_) | Next::Finish => return None,
        };
        (last.agent == *sent && last.outcome == Some(Outcome::Pass)).then(|| sent.clone())
    }

    pub(super) fn on_finished(&mut self, phase: &Phase) -> Option<Phase> {
        if *phase != Phase::Record || !self.is_finished() {
            return None;
        }
        self.budget.totals.iterations += 1;
        Some(Phase::Ended)
    }

    /// True if FINISH was decided twice and has no open point.
    pub(super) fn is_finished(&self) -> bool {
        let is_accepted =
            |check: &Decided| check.open.is_empty() && check.next() == Some(&Next::Finish);
        self.current.check.as_ref().is_some_and(is_accepted)
    }
}
