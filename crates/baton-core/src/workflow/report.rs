//! A report was judged: it is refused and corrected, or accepted. A pass then goes to its gates; any
//! other report counts at once.

use super::refused::add_refused;
use super::{Attempt, GatesOf, Job, Phase, RefusedAnswer, Reports, Rules, State, Transition};
use crate::event::ReportFacts;
use crate::id::{AgentName, FINISH_REVIEW};
use crate::policy::Outcome;
use crate::prompt::OLDER_REPORTS;
use crate::report::ArchiveName;

impl ReportFacts {
    /// True for a failure with at least one blocker that the fixer can resolve.
    pub(super) fn is_repairable(&self, classes: &[String]) -> bool {
        let is_one = |class: &String| classes.contains(class);
        self.outcome == Some(Outcome::Fail) && self.classes.iter().any(is_one)
    }
}

impl Reports {
    /// A state does not grow with its run: of the replaced reports it knows those that are shown.
    fn archive(&mut self, name: ArchiveName) {
        let Some(before) = self.archived.insert(name.agent.clone(), name) else { return };
        let (count, shown) = &mut self.replaced;
        *count += 1;
        let place = shown.partition_point(|own| *own < before);
        shown.insert(place, before);
        let over = shown.len().saturating_sub(OLDER_REPORTS);
        shown.drain(..over);
    }
}

impl State {
    pub(super) fn on_report_refused(
        &mut self,
        phase: Phase,
        problem: &str,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let Phase::JudgeReport { mut job, report } = phase else { return None };
        at.effects.push(self.archive(&job, &report));
        let path = format!("reports/archive/{}", self.archive_name(&job).file());
        add_refused(
            &mut job.refused,
            RefusedAnswer::new(&report, problem, &path, at.rules.pack.words()),
        );
        self.count_refusal(job.tries, at.rules.config.report.retries, problem);
        (job.tries, job.filed) = (job.tries + 1, job.filed + 1);
        Some(Phase::Work { job })
    }

    pub(super) fn on_report_accepted(
        &mut self,
        phase: Phase,
        facts: &ReportFacts,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let Phase::JudgeReport { job, report } = phase else { return None };
        if facts.agent != job.agent || facts.iteration != self.iteration {
            return None;
        }
        at.effects.push(self.archive(&job, &report));
        at.effects.extend(self.publish(&job, &report, facts.overturned.as_deref(), &at.rules));
        self.attempt = Attempt(1);
        if at.rules.subloop().is_some_and(|subloop| subloop.tester == job.agent) {
            self.reports.tested.extend(facts.tasks.iter().cloned());
        }
        self.budget.totals.passes_overturned += u32::from(facts.overturned.is_some());
        self.reports.newest.insert(facts.agent.clone(), (at.seq, facts.clone()));
        self.judged_project(&facts.agent);
        self.reports.last_reporter = Some(facts.agent.clone());
        self.reports.archive(self.archive_name(&job));
        self.current.reports.push(facts.clone());
        Some(match facts.outcome {
            Some(Outcome::Pass) => self.gate_or_end(GatesOf::Report(job), 0, at),
            Some(Outcome::Fail | Outcome::Blocked) | None => self.after_report(&job, at),
        })
    }

    /// The phase after a report that can no longer be overturned.
    pub(super) fn after_report(&mut self, job: &Job, at: &mut Transition<'_>) -> Phase {
        let newest = self.reports.newest.get(&job.agent).cloned();
        if let Some((seq, facts)) = &newest {
            self.record_tasks(facts, *seq, &at.rules);
        }
        let facts = newest.map(|(_, facts)| facts);
        let outcome = facts.as_ref().and_then(|facts| facts.outcome);
        let must_next = self.acceptance.must_next.as_ref();
        let is_due = must_next.is_some_and(|(agent, _)| *agent == job.agent);
        if is_due && matches!(outcome, Some(Outcome::Pass) | None) {
            self.acceptance.must_next = None;
            self.acceptance.returned = None;
        }
        let subloop = at.rules.subloop();
        if subloop.is_some_and(|subloop| subloop.tester == job.agent)
            && outcome == Some(Outcome::Pass)
            && let Some(facts) = &facts
        {
            self.reports.passed.extend(facts.tasks.iter().cloned());
        }
        if job.agent == FINISH_REVIEW {
            return self.gate_or_end(GatesOf::Finish, 0, at);
        }
        let Some((number, subloop)) = job.subloop.zip(subloop) else {
            return Phase::Settle { job: job.clone() };
        };
        if job.agent == subloop.fixer {
            return Phase::work(&subloop.tester, Some(number));
        }
        let is_repairable = facts.is_some_and(|facts| facts.is_repairable(&subloop.enter_on));
        if number >= subloop.max || !is_repairable {
            return Phase::Settle { job: job.clone() };
        }
        if let Some(sub) = &mut self.current.subloop {
            sub.number = number + 1;
        }
        Phase::work(&subloop.fixer, Some(number + 1))
    }

    /// The name that the next report of this job gets in the archive.
    pub fn archive_name(&self, job: &Job) -> ArchiveName {
        ArchiveName {
            iteration: self.iteration,
            subloop: job.subloop,
            attempt: Attempt(job.filed + 1),
            agent: job.agent.clone(),
        }
    }

    /// Agents whose newest report did not pass, but after which an agent that verifies the work did:
    /// nothing of it is open. What a verifier found stays open until its own next report.
    pub fn settled_reports(&self, rules: &Rules<'_>) -> Vec<AgentName> {
        let verifiers = &rules.pack.policy.plan.verified_by;
        let newest = &self.reports.newest;
        let last_pass = verifiers
            .iter()
            .filter_map(|agent| newest.get(agent))
            .filter(|(_, facts)| facts.outcome == Some(Outcome::Pass))
            .map(|(seq, _)| *seq)
            .max();
        let is_settled = |(agent, (seq, _)): &(&AgentName, &(u64, ReportFacts))| {
            !verifiers.contains(agent) && last_pass.is_some_and(|pass| pass > *seq)
        };
        newest.iter().filter(is_settled).map(|(agent, _)| agent.clone()).collect()
    }
}
