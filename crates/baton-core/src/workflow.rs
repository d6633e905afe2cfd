//! The workflow: a closed state machine that knows no domain. `State::next` says what to do now,
//! `State::after` takes over what happened; neither does anything itself. One iteration, with the
//! module that holds each step:
//!
//! 1. A rule decides where the policy fixes who follows (`succession`); otherwise MAIN is asked
//!    (`decide`).
//! 2. The agent works (`stage`), and its report is judged (`judge`, `report`).
//! 3. Gates confirm a pass: commands, and samples where the policy says so (`gates`).
//! 4. The sub-loop runs, if it is due, and the entry goes to the history (`iteration`, `entry`).
//!
//! If a user must approve something before an agent works (`approval`), it is looked at first.
//! FINISH takes the same way through FINISH_REVIEW, its gates and a second decision. A transition is
//! called `on_` and the name of its event; it checks that the event fits before it changes anything.

#![warn(clippy::wildcard_enum_match_arm)]

mod approval;
mod decide;
mod effect;
mod entry;
mod evaluation;
mod gates;
mod iteration;
mod judge;
mod limits;
mod next;
mod passes;
mod question;
mod refused;
mod report;
mod resume;
mod stage;
mod succession;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::decision::Question;
use crate::event::{
    Asker, Decided, Evaluation, Event, ExitCondition, Record, ReportFacts, RunSetup, RunStarted,
    StageId, Stop, SubloopEnd,
};
use crate::id::{AgentName, Attempt, Iteration, RunId, Timestamp};
use crate::machine::Machine;
use crate::pack::Pack;
use crate::policy::Outcome;
use crate::report::ArchiveName;

pub use approval::{APPROVE, ApprovalAnswer, Approvals, CHANGE, MOST_COMMENT};
pub use effect::{Effect, PlanEdit, SubloopState};
pub use entry::{goal_entry, work_order};
pub use evaluation::{Returned, Verdict, verdict};
pub use gates::{GateOutcome, GateProgress, GateRun, GatesOf, gate_failure};
pub use judge::{
    explained, facts_of, files_named, judge_decision, judge_report, least_percent, open_points,
    plan_hash,
};
pub use limits::{Budget, Totals};
pub use next::Do;
pub use passes::{Passes, Reference};
pub use refused::{MOST_READS, RefusedAnswer};
pub use succession::decide_by_rule;
pub use tasks::{Finding, TaskRecord, TaskVerdict};

/// The rules of a run. They change only where a run adopts others when it is resumed.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    pub pack: &'a Pack,
    pub config: &'a Config,
}

impl<'a> Rules<'a> {
    fn subloop(&self) -> Option<&'a crate::policy::Subloop> {
        let is_on = self.config.features.subloop;
        self.pack.policy.subloop.as_ref().filter(|_| is_on)
    }

    fn writes(&self, agent: &AgentName) -> bool {
        self.pack.manifest.agents.iter().any(|own| own.name == *agent && own.writes)
    }
}

/// The state of a run. Its parts are flat in a checkpoint, as they were in version 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    #[serde(flatten)]
    pub origin: Origin,
    pub iteration: Iteration,
    pub phase: Phase,
    pub current: Current,
    /// The attempt of the current stage; interrupted ones count.
    pub attempt: Attempt,
    pub stopped: Option<Stop>,
    pub last_seq: u64,
    #[serde(flatten)]
    pub reports: Reports,
    #[serde(flatten)]
    pub budget: Budget,
    #[serde(flatten)]
    pub files: KnownFiles,
    #[serde(flatten)]
    pub acceptance: Acceptance,
}

/// The beginning of a run. The setup is that of its newest process, the outputs are of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    pub run: RunId,
    pub task: String,
    /// The first iteration of the run; unknown in checkpoints of version 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_iteration: Option<Iteration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The executors and models; unknown in journals of version 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Box<RunSetup>>,
    /// The machine when the run began; unknown in runs of version 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Box<Machine>>,
    /// Files of the project that the output of the run's processes went to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub outputs: BTreeSet<String>,
}

/// The reports of a run, and what confirms them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reports {
    /// The newest accepted report of each agent, with the number of its event; 0 in an earlier run.
    pub newest: BTreeMap<AgentName, (u64, ReportFacts)>,
    /// The agent whose report came last.
    pub last_reporter: Option<AgentName>,
    /// The last stage of each agent that writes, by the number of its end.
    pub wrote: BTreeMap<AgentName, u64>,
    /// Tasks that the tester named, and those that it named in a report that passed.
    pub tested: BTreeSet<String>,
    pub passed: BTreeSet<String>,
    /// True if the agent whose passes are milestones has passed; and its last outcome.
    pub pass_seen: bool,
    pub last_outcome: Option<Outcome>,
    /// The gates that ran in this run, each with its last result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate_results: Vec<GateRun>,
    /// The project when passes were given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub passes: Passes,
    /// The override of the last FINISH_CHECK, with its reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<String>,
    /// The newest report of each agent in the archive, of this run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub archived: BTreeMap<AgentName, ArchiveName>,
    /// The last reports that newer ones of the same agent replaced, and the number of all of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replaced: (u64, Vec<ArchiveName>),
    /// What reports of this run say about each task.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, TaskRecord>,
    /// Blockers of this run's reports that are not settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The number of the user's last answer; 0 if there was none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub answered: u64,
    /// The agent whose pass ended the last iteration, if nothing happened in it that MAIN must see
    /// first: a question, a failure, a sub-loop, an attempt to finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_last: Option<AgentName>,
}

/// Files as the run knows them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct KnownFiles {
    /// Digests of the blackboard's files as the last stage found them.
    #[serde(default)]
    pub board: BTreeMap<String, String>,
    /// Files that the last stages changed, for the last decision.
    pub stage_changes: Vec<(String, Vec<String>)>,
    /// The hash of the plan as the last decision left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<String>,
}

/// Work that a user approves and samples evaluate.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Acceptance {
    #[serde(default, skip_serializing_if = "is_default")]
    pub approvals: Approvals,
    /// The evaluations of the currently approved files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluations: Vec<Evaluation>,
    /// Tokens and nano-dollars of the current evaluation that are in the totals already.
    #[serde(default, skip_serializing_if = "is_default")]
    pub evaluation_counted: (u64, u64),
    /// Why the work went back; holds until its agent has reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
    /// The agent that must be next, and why: code or the user decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub must_next: Option<(AgentName, String)>,
}

/// What most runs have nothing of is not written down.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The step that a run has reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// MAIN is to be asked; again, where answers were refused.
    Decide {
        check: bool,
        tries: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<RefusedAnswer>,
    },
    JudgeDecision {
        check: bool,
        tries: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<RefusedAnswer>,
        answer: String,
    },
    /// An agent is to work.
    Work {
        job: Job,
    },
    JudgeReport {
        job: Job,
        report: String,
    },
    /// A stage was started, and its result is not known yet.
    Running {
        stage: StageId,
        attempt: Attempt,
        /// Tokens of its prompt: charged if the stage is lost.
        tokens: u64,
        from: Box<Phase>,
    },
    /// Gates confirm a pass, or FINISH.
    Gates {
        of: GatesOf,
        index: usize,
        progress: GateProgress,
    },
    /// A report counts; the sub-loop or the end of the iteration follows.
    Settle {
        job: Job,
    },
    /// The outcome is known.
    Record,
    /// A user is to be asked.
    Ask {
        question: Question,
        by: Asker,
    },
    /// A user was asked.
    Waiting {
        question: Question,
        by: Asker,
        asked_seq: u64,
    },
    Ended,
}

impl Phase {
    fn decide(check: bool) -> Phase {
        Phase::Decide { check, tries: 1, refused: Vec::new() }
    }

    fn work(agent: &AgentName, subloop: Option<u32>) -> Phase {
        Phase::Work { job: Job::new(agent, subloop) }
    }
}

/// One agent's work inside an iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub agent: AgentName,
    pub subloop: Option<u32>,
    pub tries: u32,
    /// Its refused answers so far: the conversation that a correction continues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedAnswer>,
    /// The number of its reports in the archive: the next one has the next number in any case.
    pub filed: u32,
}

impl Job {
    fn new(agent: &AgentName, subloop: Option<u32>) -> Job {
        Job { agent: agent.clone(), subloop, tries: 1, refused: Vec::new(), filed: 0 }
    }
}

/// The current iteration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Current {
    pub decided: Option<Decided>,
    /// Accepted in this iteration, in order.
    pub reports: Vec<ReportFacts>,
    pub subloop: Option<Sub>,
    pub subloop_end: Option<SubloopEnd>,
    pub gates: Vec<GateOutcome>,
    /// The result of the samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<String>,
    /// FINISH was asked for.
    pub is_finish: bool,
    /// The second decision, of FINISH_CHECK.
    pub check: Option<Decided>,
    pub answer: Option<Answer>,
    pub failure: Option<String>,
    /// The project's files after the last stage.
    pub project: Option<String>,
    /// Changes of the project that no stage is allowed to make, for the history.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sub {
    pub number: u32,
    pub reason: String,
    /// An executor's error ended it.
    pub broken_by: Option<ExitCondition>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub question: Question,
    pub option_id: String,
    pub comment: String,
}

/// An event that is being taken over, with the files that follow from it.
struct Transition<'a> {
    seq: u64,
    time: Timestamp,
    rules: Rules<'a>,
    effects: Vec<Effect>,
}

impl State {
    pub fn new(start: &RunStarted, seq: u64) -> State {
        let known = start.newest.iter().map(|facts| (facts.agent.clone(), (0, facts.clone())));
        State {
            origin: Origin {
                run: start.run.clone(),
                task: start.task.clone(),
                first_iteration: Some(start.first_iteration),
                scenario: start.scenario.clone(),
                setup: start.setup.clone(),
                machine: start.machine.clone(),
                outputs: start.outputs.iter().cloned().collect(),
            },
            iteration: start.first_iteration,
            phase: Phase::decide(false),
            current: Current::default(),
            attempt: Attempt(1),
            stopped: None,
            last_seq: seq,
            reports: Reports { newest: known.collect(), ..Reports::default() },
            budget: Budget::new(start.limits),
            files: KnownFiles::default(),
            acceptance: Acceptance::default(),
        }
    }

    /// Takes an event over; returns the files that follow from it. An event that does not fit changes
    /// nothing.
    pub fn apply(&mut self, record: &Record, rules: &Rules<'_>) -> Result<Vec<Effect>, Misfit> {
        let (next, effects) = self.after(record, rules)?;
        *self = next;
        Ok(effects)
    }

    /// The state after an event, and the files that follow from it.
    pub fn after(
        &self,
        record: &Record,
        rules: &Rules<'_>,
    ) -> Result<(State, Vec<Effect>), Misfit> {
        let misfit = || Misfit {
            seq: record.seq,
            phase: self.phase_name().to_owned(),
            event: format!("{:?}", record.event).chars().take(60).collect(),
        };
        if record.seq != self.last_seq + 1 {
            return Err(misfit());
        }
        let mut next = self.clone();
        let entry = record.event.history().cloned().map(Effect::AppendHistory);
        let mut at = Transition {
            seq: record.seq,
            time: record.time,
            rules: *rules,
            effects: entry.into_iter().collect(),
        };
        let phase = std::mem::replace(&mut next.phase, Phase::Ended);
        next.phase = next.follow(phase, &record.event, &mut at).ok_or_else(misfit)?;
        next.last_seq = record.seq;
        Ok((next, at.effects))
    }

    /// The phase after an event. `None`: this event cannot happen here.
    fn follow(&mut self, phase: Phase, event: &Event, at: &mut Transition<'_>) -> Option<Phase> {
        let goes_on = matches!(event, Event::Resumed { .. } | Event::Abandoned);
        if phase == Phase::Ended || self.stopped.is_some() && !goes_on {
            return None;
        }
        match event {
            // A run begins with it, in `new`.
            Event::RunStarted(_) => None,
            Event::Resumed { .. } => self.on_resumed(phase, event, at),
            Event::Abandoned => Some(Phase::Ended),
            Event::Stopped { why } => {
                self.stopped = Some(why.clone());
                Some(phase)
            }
            Event::Adopted { .. } => Some(phase),
            Event::StageStarted(started) => self.on_stage_started(phase, started, at),
            Event::StageEnded(ended) => self.on_stage_ended(phase, ended, at),
            Event::StageLost { stage, attempt, .. } => self.on_stage_lost(phase, stage, *attempt),
            Event::DecisionRefused { problem } => self.on_decision_refused(phase, problem, at),
            Event::FilesRead { files } => decide::on_files_read(phase, files),
            Event::Decided(decided) => self.on_decided(phase, decided, at),
            Event::ReportRefused { problem } => self.on_report_refused(phase, problem, at),
            Event::ReportAccepted(facts) => self.on_report_accepted(phase, facts, at),
            Event::GateStarted { index, .. } => gates::on_gate_started(phase, *index),
            Event::GateEnded { .. } => self.on_gate_ended(phase, event, at),
            Event::FilesSeen(seen) => self.on_files_seen(phase, seen, at),
            Event::EvaluationStarted { number } => gates::on_evaluation_started(phase, *number),
            Event::Evaluated(evaluation) => self.on_evaluated(phase, evaluation, at),
            Event::EvaluationPaused { spent } => self.on_evaluation_paused(phase, spent),
            Event::EvaluationRefused { why, spent } => {
                self.on_evaluation_refused(phase, why, spent, at)
            }
            Event::SubloopEntered { reason } => self.on_subloop_entered(phase, reason, at),
            Event::SubloopEnded(end) => self.on_subloop_ended(&phase, end, at),
            Event::IterationEnded { .. } => self.on_iteration_ended(&phase, at),
            Event::Finished { .. } => self.on_finished(&phase),
            Event::Asked { .. } => question::on_asked(phase, at),
            Event::Answered { .. } => self.on_answered(phase, event, at),
        }
    }

    pub fn phase_name(&self) -> &'static str {
        match &self.phase {
            Phase::Decide { .. } => "decide",
            Phase::JudgeDecision { .. } => "judge_decision",
            Phase::Work { .. } => "work",
            Phase::JudgeReport { .. } => "judge_report",
            Phase::Running { .. } => "running",
            Phase::Gates { .. } => "gates",
            Phase::Settle { .. } => "settle",
            Phase::Record => "record",
            Phase::Ask { .. } => "ask",
            Phase::Waiting { .. } => "waiting",
            Phase::Ended => "ended",
        }
    }
}

/// A name of the workflow itself.
fn agent(name: &str) -> AgentName {
    AgentName::new(name).expect("a word of the workflow is a valid name")
}

/// An event that cannot follow: the journal, the rules or the program changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    pub seq: u64,
    pub phase: String,
    pub event: String,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "record {} does not fit: in the phase `{}` came `{}`",
            self.seq, self.phase, self.event
        )
    }
}

impl std::error::Error for Misfit {}
