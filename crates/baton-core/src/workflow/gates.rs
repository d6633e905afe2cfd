//! Gates confirm a pass, or FINISH: commands first, and then samples where the policy evaluates the
//! agent's work. A gate that fails overturns the pass; the report is published as the failure that it
//! is, with the gate's output as evidence.

use serde::{Deserialize, Serialize};

use super::{Effect, Job, Phase, Rules, State, Transition, judge};
use crate::event::{Evaluation, Event, FilesSeen, Spent};
use crate::gate;
use crate::id::{FINISH, Iteration};
use crate::messages::Language;
use crate::policy::Gate;
use crate::text;

/// The pass that gates confirm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatesOf {
    Report(Job),
    Finish,
}

impl GatesOf {
    /// The word of the policy: the agent, or FINISH.
    fn word(&self) -> &str {
        match self {
            GatesOf::Report(job) => job.agent.as_str(),
            GatesOf::Finish => FINISH,
        }
    }
}

/// How far the current gate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateProgress {
    CommandDue,
    CommandRuns,
    SamplesDue,
    /// In the folder with this number.
    SamplesRun(u32),
}

impl GateProgress {
    pub(super) fn is_of_samples(self) -> bool {
        matches!(self, GateProgress::SamplesDue | GateProgress::SamplesRun(_))
    }
}

/// A gate by the way in which it is run.
#[derive(Debug, Clone, Copy)]
pub(super) enum GateKind<'a> {
    Command(&'a Gate),
    Samples,
}

impl<'a> Rules<'a> {
    /// In the order in which they run.
    pub(super) fn gates(&self, of: &GatesOf) -> Vec<GateKind<'a>> {
        let policy = &self.pack.policy;
        let commands = policy.gates.iter().filter(|gate| gate.is_on(of.word()));
        let evaluation = policy.evaluation.as_ref();
        let samples = evaluation.filter(|own| own.of.as_str() == of.word());
        commands.map(GateKind::Command).chain(samples.map(|_| GateKind::Samples)).collect()
    }
}

/// The last run of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRun {
    /// The agent whose pass it confirms, or FINISH.
    pub of: String,
    pub command: String,
    pub passed: bool,
    pub iteration: Iteration,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateOutcome {
    pub command: String,
    pub passed: bool,
    pub output: String,
}

impl GateOutcome {
    /// The failure in one line, for blockers, the history and MAIN.
    pub fn failure(&self, language: Language) -> String {
        gate_failure(&self.command, &self.output, language)
    }
}

/// A failed gate in one line: the command and how it ended.
pub fn gate_failure(command: &str, output: &str, language: Language) -> String {
    match text::shown(gate::reason(output), 200) {
        reason if reason.is_empty() => language.gate_failed_alone(command),
        reason => language.gate_failed_with(command, reason),
    }
}

/// Also for a gate that was running when its process died: it only confirms, and may run again.
pub(super) fn on_gate_started(phase: Phase, started: usize) -> Option<Phase> {
    let Phase::Gates { of, index, progress } = phase else { return None };
    let is_due = index == started && !progress.is_of_samples();
    is_due.then_some(Phase::Gates { of, index, progress: GateProgress::CommandRuns })
}

pub(super) fn on_evaluation_started(phase: Phase, number: u32) -> Option<Phase> {
    let Phase::Gates { of, index, progress: GateProgress::SamplesDue } = phase else {
        return None;
    };
    Some(Phase::Gates { of, index, progress: GateProgress::SamplesRun(number) })
}

impl State {
    /// The gate with this number, or what follows when all have run.
    pub(super) fn gate_or_end(
        &mut self,
        of: GatesOf,
        index: usize,
        at: &mut Transition<'_>,
    ) -> Phase {
        let progress = match (at.rules.gates(&of).get(index), &of) {
            (None, GatesOf::Report(job)) => return self.after_report(job, at),
            (None, GatesOf::Finish) => return Phase::decide(true),
            (Some(GateKind::Command(_)), _) => GateProgress::CommandDue,
            (Some(GateKind::Samples), _) => {
                // The agent has just worked: what was approved may be something else by now.
                self.acceptance.approvals.is_seen = false;
                GateProgress::SamplesDue
            }
        };
        Phase::Gates { of, index, progress }
    }

    pub(super) fn on_gate_ended(
        &mut self,
        phase: Phase,
        event: &Event,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let Phase::Gates { of, index, progress } = phase else { return None };
        let Event::GateEnded { index: ended, command, passed, output, milliseconds, log } = event
        else {
            return None;
        };
        if index != *ended || progress.is_of_samples() {
            return None;
        }
        let outcome =
            GateOutcome { command: command.clone(), passed: *passed, output: output.clone() };
        self.budget.totals.milliseconds += milliseconds;
        self.remember_gate(&of, &outcome);
        self.current.gates.push(outcome.clone());
        Some(match of {
            GatesOf::Report(job) if !passed => {
                let language = at.rules.pack.words();
                let log = log.as_ref().map(|log| language.whole_gate_output(log));
                self.overturn_pass(&job, &outcome.failure(language), output, log.as_deref(), at)
            }
            // All gates of FINISH run: MAIN sees every failure at once.
            of @ (GatesOf::Report(_) | GatesOf::Finish) => self.gate_or_end(of, index + 1, at),
        })
    }

    fn remember_gate(&mut self, of: &GatesOf, outcome: &GateOutcome) {
        let of = of.word().to_owned();
        let results = &mut self.reports.gate_results;
        results.retain(|run| (&run.of, &run.command) != (&of, &outcome.command));
        let (command, iteration) = (outcome.command.clone(), self.iteration);
        results.push(GateRun { of, command, passed: outcome.passed, iteration });
    }

    /// The files that a user must have approved were looked at before samples run.
    pub(super) fn on_files_seen_at_gate(
        &mut self,
        phase: Phase,
        seen: &FilesSeen,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let Phase::Gates { of: GatesOf::Report(job), progress, .. } = &phase else { return None };
        if !progress.is_of_samples() {
            return None;
        }
        self.unseen(&job.agent, &at.rules)?;
        if !self.is_approved(seen) {
            let job = job.clone();
            let why = at.rules.pack.words().approved_files_changed();
            return Some(self.overturn_unevaluated(&job, &why, at));
        }
        self.acceptance.approvals.is_seen = true;
        Some(phase)
    }

    pub(super) fn on_evaluated(
        &mut self,
        phase: Phase,
        evaluation: &Evaluation,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let Phase::Gates { of, index, progress: GateProgress::SamplesRun(number) } = phase else {
            return None;
        };
        let rules = at.rules.pack.policy.evaluation.as_ref()?;
        let GatesOf::Report(job) = of else { return None };
        if number != evaluation.number {
            return None;
        }
        self.add(&evaluation.spent);
        let language = at.rules.pack.words();
        Some(match self.take_evaluation(evaluation, rules, at.time, language) {
            None => self.gate_or_end(GatesOf::Report(job), index + 1, at),
            Some(why) => {
                self.overturn_pass(&job, &why, &evaluation.problem_lines(language), None, at)
            }
        })
    }

    /// It continues later.
    pub(super) fn on_evaluation_paused(&mut self, phase: Phase, spent: &Spent) -> Option<Phase> {
        let Phase::Gates { progress, .. } = &phase else { return None };
        if !progress.is_of_samples() {
            return None;
        }
        self.add(spent);
        let tokens = spent.tokens.map_or(0, |tokens| tokens.0);
        let (before, cost) = self.acceptance.evaluation_counted;
        self.acceptance.evaluation_counted = (before + tokens, cost + spent.cost.unwrap_or(0));
        Some(phase)
    }

    /// The samples could not be run: whoever made them has to correct it.
    pub(super) fn on_evaluation_refused(
        &mut self,
        phase: Phase,
        why: &str,
        spent: &Spent,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let Phase::Gates { of: GatesOf::Report(job), progress, .. } = phase else { return None };
        if !progress.is_of_samples() {
            return None;
        }
        self.add(spent);
        Some(self.overturn_unevaluated(&job, why, at))
    }

    fn overturn_unevaluated(&mut self, job: &Job, why: &str, at: &mut Transition<'_>) -> Phase {
        let why = at.rules.pack.words().evaluation_refused(text::cut(why, 1_000));
        self.acceptance.evaluation_counted = (0, 0);
        self.current.evaluation = Some(why.clone());
        self.overturn_pass(job, &why, "", None, at)
    }

    /// A pass that does not hold is a failure. `log`: a line about the whole output.
    fn overturn_pass(
        &mut self,
        job: &Job,
        why: &str,
        output: &str,
        log: Option<&str>,
        at: &mut Transition<'_>,
    ) -> Phase {
        let mut failure = self.publish_overturned(job, why, output, &at.rules);
        if let (Effect::PublishReport { text, .. }, Some(log)) = (&mut failure, log) {
            text.push_str(&format!("\n{log}\n"));
        }
        at.effects.push(failure);
        self.budget.totals.passes_overturned += 1;
        let words = &at.rules.pack.policy.report_rules;
        if let Some((_, facts)) = self.reports.newest.get_mut(&job.agent) {
            judge::overturn(facts, why, words);
            let overturned = facts.clone();
            let reports = &mut self.current.reports;
            if let Some(last) = reports.iter_mut().rfind(|own| own.agent == job.agent) {
                *last = overturned;
            }
        }
        self.after_report(job, at)
    }
}
