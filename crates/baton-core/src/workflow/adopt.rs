//! A run under rules that changed since it began: whether it can continue with them, and what of the
//! current step begins again.

use super::{GatesOf, Job, Phase, Rules, State};
use crate::event::Asker;
use crate::id::{AgentName, FINISH, FINISH_REVIEW};

impl State {
    /// Why the run cannot continue under these rules. `None`: it can.
    pub fn unfit_for(&self, rules: &Rules<'_>) -> Option<String> {
        let next = self.must_next.as_ref().map(|(agent, _)| agent);
        let next = next.filter(|agent| !is_known(agent, rules));
        let next = next.map(|agent| format!("{agent} must be next and is no longer an agent"));
        unfit(&self.phase, rules).or(next)
    }

    /// Gates begin again: those of the new rules confirm the pass.
    pub(super) fn under_new_rules(&mut self, phase: Phase, rules: &Rules<'_>) -> Phase {
        let Phase::Gates { of, .. } = phase else { return phase };
        self.current.gates.clear();
        match of {
            GatesOf::Report(job) if rules.gates(job.agent.as_str()).is_empty() => {
                self.confirmed(&job, rules)
            }
            GatesOf::Finish if rules.gates(FINISH).is_empty() => {
                Phase::Decide { check: true, tries: 1, refused: Vec::new() }
            }
            of @ (GatesOf::Report(_) | GatesOf::Finish) => {
                Phase::Gates { of, index: 0, is_running: false }
            }
        }
    }
}

fn is_known(agent: &AgentName, rules: &Rules<'_>) -> bool {
    *agent == FINISH_REVIEW || rules.pack.manifest.agents.iter().any(|own| own.name == *agent)
}

fn unfit(phase: &Phase, rules: &Rules<'_>) -> Option<String> {
    let policy = &rules.pack.policy;
    match phase {
        Phase::Running { from, .. } => unfit(from, rules),
        Phase::Evaluate { job, .. } => {
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
