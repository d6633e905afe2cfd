//! What to do now, from the state alone.

use super::gates::GateKind;
use super::{Attempt, GateProgress, GatesOf, Job, MOST_READS, Phase, RefusedAnswer, Rules, State};
use super::{agent, refused};
use crate::decision::{self, Question};
use crate::event::{Event, ExitCondition, StageId, SubloopEnd};
use crate::id::{AgentName, FINISH_CHECK, MAIN, Timestamp};
use crate::policy::{Approval, Gate, Outcome};

/// What to do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Do {
    /// Call MAIN, as MAIN or as FINISH_CHECK.
    AskMain {
        stage: StageId,
        attempt: Attempt,
        check: bool,
        refused: Vec<RefusedAnswer>,
    },
    JudgeDecision {
        answer: String,
        check: bool,
    },
    /// MAIN asks for files of the blackboard before it decides.
    ReadFiles {
        paths: Vec<String>,
    },
    RunAgent {
        stage: StageId,
        attempt: Attempt,
        job: Job,
        limit_seconds: u64,
    },
    JudgeReport {
        job: Job,
        report: String,
    },
    /// A stage was started, and its process is gone or was stopped inside of it.
    Recover {
        stage: StageId,
        attempt: Attempt,
        refused: Vec<RefusedAnswer>,
        limit_seconds: u64,
    },
    RunGate {
        index: usize,
        gate: Gate,
        /// It was started before, and its result is not known.
        is_again: bool,
    },
    /// Look at the files that a user must agree to.
    LookAtFiles {
        approval: Approval,
    },
    /// Begin to run samples; find the number of the evaluation.
    StartEvaluation,
    /// Run them, or those that are left.
    Evaluate {
        number: u32,
    },
    /// Code knows what follows: write it down.
    Journal(Event),
    /// Wait for a user.
    Wait {
        question: Question,
        asked_seq: u64,
    },
    /// Nothing more: finished, or stopped.
    Halt,
}

impl State {
    /// What to do now. The same state always gives the same answer.
    pub fn next(&self, rules: &Rules<'_>, now: Timestamp) -> Do {
        if self.stopped.is_some() {
            return Do::Halt;
        }
        match &self.phase {
            Phase::Decide { check, tries, refused } => {
                self.next_decision(*check, *tries, refused, rules)
            }
            Phase::JudgeDecision { answer, check, refused, .. } => match decision::reads(answer) {
                Some(Ok(paths)) if refused::reads_of(refused) < MOST_READS => {
                    Do::ReadFiles { paths }
                }
                _ => Do::JudgeDecision { answer: answer.clone(), check: *check },
            },
            Phase::Work { job } => self.next_work(job, rules),
            Phase::JudgeReport { job, report } => {
                Do::JudgeReport { job: job.clone(), report: report.clone() }
            }
            Phase::Running { stage, attempt, from, .. } => Do::Recover {
                stage: stage.clone(),
                attempt: *attempt,
                refused: refused::refused_of(from).to_vec(),
                limit_seconds: self.limit_of(stage, rules),
            },
            Phase::Gates { of, index, progress } => self.next_gate(of, *index, *progress, rules),
            Phase::Settle { job } => Do::Journal(self.settled(job, rules, now)),
            Phase::Record => Do::Journal(self.recorded(rules, now)),
            Phase::Ask { question, by } => {
                Do::Journal(Event::Asked { question: question.clone(), by: *by })
            }
            Phase::Waiting { question, asked_seq, .. } => {
                Do::Wait { question: question.clone(), asked_seq: *asked_seq }
            }
            Phase::Ended => Do::Halt,
        }
    }

    fn next_decision(
        &self,
        check: bool,
        tries: u32,
        refused: &[RefusedAnswer],
        rules: &Rules<'_>,
    ) -> Do {
        // A correction and the last decision belong to an iteration that has begun.
        let is_new = tries == 1 && refused.is_empty() && !check;
        let language = rules.pack.words();
        let stop = if is_new { self.over_limit(language) } else { self.over_budget(language) };
        if let Some(why) = stop {
            return Do::Journal(Event::Stopped { why });
        }
        let name = if check { FINISH_CHECK } else { MAIN };
        let (stage, attempt) = (self.stage(&agent(name), None), self.attempt);
        Do::AskMain { stage, attempt, check, refused: refused.to_vec() }
    }

    fn next_work(&self, job: &Job, rules: &Rules<'_>) -> Do {
        // Also for work that a carried decision begins.
        if let Some(stop) = self.over_limit(rules.pack.words()) {
            return Do::Journal(Event::Stopped { why: stop });
        }
        if let Some(approval) = self.unseen(&job.agent, rules) {
            return Do::LookAtFiles { approval: approval.clone() };
        }
        let stage = self.stage(&job.agent, job.subloop);
        let limit_seconds = self.limit_of(&stage, rules);
        Do::RunAgent { stage, attempt: self.attempt, job: job.clone(), limit_seconds }
    }

    fn next_gate(
        &self,
        of: &GatesOf,
        index: usize,
        progress: GateProgress,
        rules: &Rules<'_>,
    ) -> Do {
        if let Some(why) = self.over_budget(rules.pack.words()) {
            return Do::Journal(Event::Stopped { why });
        }
        let unseen = match of {
            GatesOf::Report(job) => self.unseen(&job.agent, rules),
            GatesOf::Finish => None,
        };
        match (progress, unseen, rules.gates(of).get(index)) {
            (GateProgress::SamplesDue | GateProgress::SamplesRun(_), Some(approval), _) => {
                Do::LookAtFiles { approval: approval.clone() }
            }
            (GateProgress::SamplesDue, None, _) => Do::StartEvaluation,
            (GateProgress::SamplesRun(number), None, _) => Do::Evaluate { number },
            (_, _, Some(GateKind::Command(gate))) => {
                let is_again = progress == GateProgress::CommandRuns;
                Do::RunGate { index, gate: (*gate).clone(), is_again }
            }
            // A gate that the rules had when the run began is gone.
            (_, _, Some(GateKind::Samples) | None) => Do::Journal(Event::GateEnded {
                index,
                command: rules.pack.words().gate_is_gone(),
                passed: false,
                output: rules.pack.words().policy_changed(),
                milliseconds: 0,
                log: None,
            }),
        }
    }

    /// The sub-loop begins, ends or is not due; in the last case the iteration is over.
    fn settled(&self, job: &Job, rules: &Rules<'_>, now: Timestamp) -> Event {
        let newest = self.reports.newest.get(&job.agent).map(|(_, facts)| facts);
        match (&self.current.subloop, rules.subloop()) {
            (Some(sub), Some(subloop)) if job.subloop.is_some() => {
                let is_repairable =
                    newest.is_some_and(|facts| facts.is_repairable(&subloop.enter_on));
                let condition = match newest.and_then(|facts| facts.outcome) {
                    _ if sub.broken_by.is_some() => {
                        sub.broken_by.unwrap_or(ExitCondition::ExecutorError)
                    }
                    Some(Outcome::Pass) => ExitCondition::Pass,
                    _ if !is_repairable => ExitCondition::NotRepairable,
                    _ => ExitCondition::Maximum,
                };
                Event::SubloopEnded(self.subloop_end(sub.number, condition, rules))
            }
            (None, Some(subloop))
                if job.agent == subloop.tester
                    && job.subloop.is_none()
                    && newest.is_some_and(|facts| facts.is_repairable(&subloop.enter_on)) =>
            {
                let blockers = newest.map_or(String::new(), |facts| facts.blockers.join("; "));
                Event::SubloopEntered { reason: crate::text::cut(&blockers, 300).into_owned() }
            }
            _ => self.recorded(rules, now),
        }
    }

    fn subloop_end(
        &self,
        number: u32,
        exit_condition: ExitCondition,
        rules: &Rules<'_>,
    ) -> SubloopEnd {
        let tester = rules.subloop().map(|subloop| &subloop.tester);
        let newest = tester.and_then(|tester| self.reports.newest.get(tester));
        SubloopEnd {
            success: exit_condition == ExitCondition::Pass,
            final_test_verdict: newest.and_then(|(_, facts)| facts.verdict.clone()),
            iterations: number,
            exit_condition,
        }
    }

    pub(super) fn stage(&self, name: &AgentName, subloop: Option<u32>) -> StageId {
        StageId { iteration: self.iteration, name: name.clone(), subloop }
    }

    /// Seconds that a stage may take, also one that is continued.
    pub fn limit_of(&self, stage: &StageId, rules: &Rules<'_>) -> u64 {
        let limit = match (stage.subloop, rules.subloop()) {
            (Some(_), Some(subloop)) => u64::from(subloop.timeout),
            _ => self.budget.limits.stage_seconds,
        };
        limit.min(self.seconds_left())
    }
}
