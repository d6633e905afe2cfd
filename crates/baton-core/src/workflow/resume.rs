//! A run that is resumed, perhaps under rules that changed since it began: whether it can continue with
//! them, and what of the current step begins again.

use super::{GatesOf, Job, Phase, Rules, State, Transition};
use crate::event::{Asker, Event};
use crate::id::{AgentName, FINISH_REVIEW};

impl State {
    pub(super) fn on_resumed(
        &mut self,
        phase: Phase,
        event: &Event,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let Event::Resumed { limits, setup, adopted_rules, project, outputs } = event else {
            return None;
        };
        self.stopped = None;
        let void = self.reports.passes.void.clone();
        self.look(project.as_deref(), at.rules.pack.words());
        self.origin.outputs.extend(outputs.iter().cloned());
        self.budget.limits = *limits;
        if setup.is_some() {
            self.origin.setup.clone_from(setup);
        }
        // It is not known what happened to the files in between.
        self.acceptance.approvals.is_seen = false;
        let is_changed = adopted_rules.is_some() || self.reports.passes.void != void;
        let phase = if is_changed { self.checked_again(phase, at) } else { phase };
        let phase = with_all_tries(phase);
        Some(if adopted_rules.is_some() { self.under_new_rules(phase, at) } else { phase })
    }

    /// FINISH was accepted, the run was interrupted before it ended, and what it was accepted for has
    /// changed: gates run and it is decided again.
    fn checked_again(&mut self, phase: Phase, at: &mut Transition<'_>) -> Phase {
        if !(phase == Phase::Record && self.is_finished()) {
            return phase;
        }
        // Its change of the plan was made, and stays in the entry of this iteration.
        if let (Some(check), Some(decided)) = (self.current.check.take(), &mut self.current.decided)
        {
            let both = [decided.plan_summary.as_str(), check.plan_summary.as_str()];
            let both: Vec<&str> = both.into_iter().filter(|own| !own.is_empty()).collect();
            decided.plan_summary = at.rules.pack.words().clauses(&both);
            decided.plan_changes += check.plan_changes;
        }
        self.current.gates.clear();
        self.gate_or_end(GatesOf::Finish, 0, at)
    }

    /// Why the run cannot continue under these rules. `None`: it can.
    pub fn unfit_for(&self, rules: &Rules<'_>) -> Option<String> {
        let next = self.acceptance.must_next.as_ref().map(|(agent, _)| agent);
        let next = next.filter(|agent| !is_known(agent, rules));
        let next = next.map(|agent| format!("{agent} must be next and is no longer an agent"));
        unfit(&self.phase, rules).or(next)
    }

    /// Commands begin again: those of the new rules confirm the pass. Samples stay where they are.
    fn under_new_rules(&mut self, phase: Phase, at: &mut Transition<'_>) -> Phase {
        let Phase::Gates { of, progress, .. } = phase else { return phase };
        if progress.is_of_samples() {
            // They are the last gate.
            let index = at.rules.gates(&of).len().saturating_sub(1);
            return Phase::Gates { of, index, progress };
        }
        self.current.gates.clear();
        self.gate_or_end(of, 0, at)
    }
}

/// After a stop for a wrong answer the same agent has its tries again; its error stays.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other phase has tries")]
fn with_all_tries(phase: Phase) -> Phase {
    match phase {
        Phase::Decide { check, refused, .. } => Phase::Decide { check, tries: 1, refused },
        Phase::Work { job } => Phase::Work { job: Job { tries: 1, ..job } },
        other => other,
    }
}

fn is_known(agent: &AgentName, rules: &Rules<'_>) -> bool {
    *agent == FINISH_REVIEW || rules.pack.manifest.agents.iter().any(|own| own.name == *agent)
}

fn unfit(phase: &Phase, rules: &Rules<'_>) -> Option<String> {
    let policy = &rules.pack.policy;
    match phase {
        Phase::Running { from, .. } => unfit(from, rules),
        Phase::Gates { of: GatesOf::Report(job), progress, .. } if progress.is_of_samples() => {
            let is_evaluated = policy.evaluation.as_ref().is_some_and(|own| own.of == job.agent);
            let gone = (!is_evaluated).then(|| {
                format!("an evaluation of {} is running and is no longer in the rules", job.agent)
            });
            unfit_job(job, rules).or(gone)
        }
        Phase::Work { job }
        | Phase::JudgeReport { job, .. }
        | Phase::Settle { job }
        | Phase::Gates { of: GatesOf::Report(job), .. } => unfit_job(job, rules),
        Phase::Ask { by: Asker::Approval, .. } | Phase::Waiting { by: Asker::Approval, .. } => {
            let message = "an approval is asked for and is no longer in the rules";
            policy.approval.is_none().then(|| message.to_owned())
        }
        Phase::Decide { .. }
        | Phase::JudgeDecision { .. }
        | Phase::Gates { of: GatesOf::Finish, .. }
        | Phase::Record
        | Phase::Ask { .. }
        | Phase::Waiting { .. }
        | Phase::Ended => None,
    }
}

fn unfit_job(job: &Job, rules: &Rules<'_>) -> Option<String> {
    if !is_known(&job.agent, rules) {
        return Some(format!("{} is at work and is no longer an agent", job.agent));
    }
    let is_of = |subloop: &crate::policy::Subloop| {
        subloop.tester == job.agent || subloop.fixer == job.agent
    };
    let is_gone = job.subloop.is_some() && !rules.subloop().is_some_and(is_of);
    is_gone.then(|| format!("{} works in a sub-loop that is no longer in the rules", job.agent))
}
