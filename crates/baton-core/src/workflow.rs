//! The workflow: a closed state machine that knows no domain. `State::apply` folds what happened,
//! `State::next` says what to do now; neither does anything itself. One iteration, top to bottom:
//!
//! 1. MAIN is asked (`Decide`); its answer is judged and becomes `Decided`.
//! 2. The agent works (`Work`); its report is judged and accepted.
//! 3. A pass is confirmed by its gates (`Gates`), and where the policy says so by samples (`Evaluate`).
//! 4. The sub-loop runs, if it is due (`Settle` → fixer → tester → …).
//! 5. The entry goes to the history (`Record`), and the next iteration begins.
//!
//! Where a person must approve something before an agent works (`approval`), it is looked at first.
//! FINISH takes the same way through FINISH_REVIEW, the gates and a second decision.

#![warn(clippy::wildcard_enum_match_arm)]

mod adopt;
mod approval;
mod effect;
mod entry;
mod evaluation;
mod judge;
mod limits;
mod passes;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::decision::{self, Moment, Next, Question};
use crate::event::{
    Asker, Decided, Evaluation, Event, ExitCondition, Limits, Record, ReportFacts, RunSetup,
    RunStarted, Spent, StageEnded, StageId, StageResult, StageStarted, Stop, SubloopEnd,
};
use crate::gate;
use crate::id::{
    AgentName, Attempt, FINISH, FINISH_CHECK, FINISH_REVIEW, Iteration, MAIN, RunId, Timestamp,
};
use crate::machine::Machine;
use crate::pack::Pack;
use crate::policy::{Approval, Gate, Outcome};
use crate::prompt::{Correction, ReadFile};
use crate::report::ArchiveName;
use crate::text;

pub use approval::{APPROVE, Approvals, CHANGE, CHANGED, DesignAnswer, MOST_COMMENT};
pub use effect::{Effect, PlanEdit, SubloopState};
pub use entry::{goal_entry, work_order};
pub use evaluation::{Returned, Verdict, verdict};
pub use judge::{
    explained, facts_of, judge_decision, judge_report, least_coverage, open_points, plan_hash,
};
pub use passes::{Passes, Reference};

/// What a run goes by; it does not change while the run does.
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

    fn gates(&self, on: &str) -> Vec<&'a Gate> {
        self.pack.policy.gates.iter().filter(|gate| gate.is_on(on)).collect()
    }
}

/// A run, as far as it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub run: RunId,
    pub task: String,
    /// The first iteration of the run; unknown in checkpoints of version 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_iteration: Option<Iteration>,
    pub iteration: Iteration,
    pub phase: Phase,
    pub current: Current,
    /// The newest accepted report of each agent, with the number of its event.
    pub newest: BTreeMap<AgentName, (u64, ReportFacts)>,
    /// Whose report came last.
    pub last_reporter: Option<AgentName>,
    /// The last stage of each agent that writes, by the number of its end.
    pub wrote: BTreeMap<AgentName, u64>,
    /// Tasks that the tester named, and those it named in a report that passed.
    pub tested: BTreeSet<String>,
    pub passed: BTreeSet<String>,
    /// Digests of the blackboard's files as the last stage found them.
    #[serde(default)]
    pub board: BTreeMap<String, String>,
    /// Files that the last stages changed, for the last decision.
    pub stage_changes: Vec<(String, Vec<String>)>,
    pub finish_attempts: u32,
    /// Of the agent whose passes are milestones.
    pub pass_seen: bool,
    pub last_outcome: Option<Outcome>,
    pub stuck: limits::Stuck,
    pub limits: Limits,
    pub totals: Totals,
    /// Tries of the stage in hand, the interrupted ones too.
    pub attempt: Attempt,
    pub stopped: Option<Stop>,
    pub last_seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub approvals: Approvals,
    /// Of the design as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluations: Vec<Evaluation>,
    /// Tokens and nano-dollars of the evaluation in hand that are in the totals already.
    #[serde(default, skip_serializing_if = "is_default")]
    pub evaluation_counted: (u64, u64),
    /// Why the design is to be changed; holds until its agent has reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
    /// Who must be next, and why: code decided it, or the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub must_next: Option<(AgentName, String)>,
    /// The executors and models; unknown in journals of version 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Box<RunSetup>>,
    /// The machine when the run began; unknown in runs of version 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Box<Machine>>,
    /// The hash of the plan as the last decision left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<String>,
    /// The gates that ran in this run, each with its last result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate_results: Vec<GateRun>,
    /// The project when passes were given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub passes: Passes,
    /// Files of the project that the output of the run's processes went to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub outputs: BTreeSet<String>,
    /// The override of the last FINISH_CHECK, with its reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<String>,
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

/// What most runs have nothing of is not written down.
fn is_default<T: Default + PartialEq>(own: &T) -> bool {
    *own == T::default()
}

/// Sums of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    pub iterations: u32,
    pub milliseconds: u64,
    pub tokens: u64,
    pub cached: u64,
    pub cost: u64,
    /// Stages whose tokens or cost nobody counted: the sums are then lower bounds.
    pub uncounted: u32,
    pub unknown_costs: u32,
    pub stages: u32,
    pub main_calls: u32,
    pub tester_runs: u32,
    pub subloops: u32,
    pub subloops_passed: u32,
    pub subloop_milliseconds: u64,
    /// Agents' stages inside sub-loops: decisions that MAIN did not have to make.
    pub main_calls_saved: u32,
    pub finishes: u32,
    pub finishes_overturned: u32,
    pub passes_overturned: u32,
    pub corrections: u32,
    /// Stages whose result nobody knows.
    pub lost: u32,
}

/// Where a run stands.
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
    /// Started, and nothing heard of it yet.
    Running {
        stage: StageId,
        attempt: Attempt,
        /// Of its prompt: the least that it has cost, should it be lost.
        tokens: u64,
        from: Box<Phase>,
    },
    /// Gates confirm a pass, or FINISH.
    Gates {
        of: GatesOf,
        index: usize,
        is_running: bool,
    },
    /// Samples confirm a pass. `number`: of the evaluation, once it has begun.
    Evaluate {
        job: Job,
        number: Option<u32>,
    },
    /// A report stands; sub-loop or the end of the iteration.
    Settle {
        job: Job,
    },
    /// The outcome is known.
    Record,
    /// A person is to be asked.
    Ask {
        question: Question,
        by: Asker,
    },
    /// A person was asked.
    Waiting {
        question: Question,
        by: Asker,
        asked_seq: u64,
    },
    Ended,
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
    /// Reports of it that are archived: the next one has the next number, whatever happened since.
    pub filed: u32,
}

impl Job {
    fn new(agent: &AgentName, subloop: Option<u32>) -> Job {
        Job { agent: agent.clone(), subloop, tries: 1, refused: Vec::new(), filed: 0 }
    }
}

/// An answer that did not settle its stage: it was refused, or it asked for files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedAnswer {
    /// Empty where the stage was refused for what it did, whatever it answered.
    pub answer: String,
    pub problem: String,
    /// The files that it asked for, as they were shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ReadFile>,
}

/// The number of times that MAIN may ask for files before it decides.
pub const MOST_READS: u32 = 2;

impl State {
    /// Tokens of the files that were read for the decision that is being made.
    pub fn tokens_read(&self) -> u64 {
        let Phase::JudgeDecision { refused, .. } = &self.phase else { return 0 };
        let files = refused.iter().flat_map(|own| &own.files);
        files.map(|file| crate::tokens::count(&file.text).0).sum()
    }
}

/// The number of times that files were read for a decision.
fn reads_of(refused: &[RefusedAnswer]) -> u32 {
    u32::try_from(refused.iter().filter(|own| !own.files.is_empty()).count()).unwrap_or(u32::MAX)
}

/// Characters of a refused answer that are shown again; the whole is in the archive or the journal.
const REFUSED_CHARACTERS: usize = 40_000;

impl RefusedAnswer {
    /// `path`: where the whole answer is.
    fn new(answer: &str, problem: &str, path: &str) -> RefusedAnswer {
        let kept = crate::text::cut(answer, REFUSED_CHARACTERS);
        let answer = match answer.chars().count() {
            count if count <= REFUSED_CHARACTERS => answer.to_owned(),
            count => format!(
                "{kept}\n[cut: the first {REFUSED_CHARACTERS} of {count} characters; whole: {path}]"
            ),
        };
        RefusedAnswer { answer, problem: problem.to_owned(), files: Vec::new() }
    }

    /// The next message of the conversation. `None`: only its number counts.
    pub fn correction(
        &self,
        number: u32,
        before: &[RefusedAnswer],
        order: &str,
    ) -> Option<Correction> {
        // Of an older read only the number counts.
        if !self.files.is_empty() && !self.answer.is_empty() {
            let left = MOST_READS.saturating_sub(reads_of(before) + 1);
            let files = crate::prompt::files_read(&self.files, left);
            return Some(Correction::files_read(number, &self.answer, &files));
        }
        let is_shown = !self.problem.is_empty();
        is_shown.then(|| Correction::new(number, &self.answer, order, &self.problem))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatesOf {
    Report(Job),
    Finish,
}

/// What is known of the iteration that goes on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Current {
    pub decided: Option<Decided>,
    /// Accepted in this iteration, in order.
    pub reports: Vec<ReportFacts>,
    pub subloop: Option<Sub>,
    pub subloop_end: Option<SubloopEnd>,
    pub gates: Vec<GateOutcome>,
    /// What the samples said.
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateOutcome {
    pub command: String,
    pub passed: bool,
    pub output: String,
}

impl GateOutcome {
    /// The failure in one line, for blockers, the history and MAIN.
    pub fn failure(&self) -> String {
        gate_failure(&self.command, &self.output)
    }
}

/// A failed gate in one line: the command and how it ended.
pub fn gate_failure(command: &str, output: &str) -> String {
    match text::shown(gate::reason(output), 200) {
        reason if reason.is_empty() => format!("the gate `{command}` failed"),
        reason => format!("the gate `{command}` failed ({reason})"),
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub question: Question,
    pub option_id: String,
    pub comment: String,
}

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
    },
    /// Look at the files that a person must agree to.
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
    /// Wait for a person.
    Wait {
        question: Question,
        asked_seq: u64,
    },
    /// Nothing more: finished, or stopped.
    Halt,
}

impl State {
    pub fn new(start: &RunStarted, seq: u64) -> State {
        let newest: BTreeMap<AgentName, (u64, ReportFacts)> =
            start.newest.iter().map(|facts| (facts.agent.clone(), (0, facts.clone()))).collect();
        State {
            run: start.run.clone(),
            task: start.task.clone(),
            first_iteration: Some(start.first_iteration),
            iteration: start.first_iteration,
            phase: Phase::Decide { check: false, tries: 1, refused: Vec::new() },
            current: Current::default(),
            newest,
            last_reporter: None,
            wrote: BTreeMap::new(),
            tested: BTreeSet::new(),
            passed: BTreeSet::new(),
            board: BTreeMap::new(),
            stage_changes: Vec::new(),
            finish_attempts: 0,
            pass_seen: false,
            last_outcome: None,
            stuck: limits::Stuck::default(),
            limits: start.limits,
            totals: Totals::default(),
            attempt: Attempt(1),
            stopped: None,
            last_seq: seq,
            scenario: start.scenario.clone(),
            approvals: Approvals::default(),
            evaluations: Vec::new(),
            evaluation_counted: (0, 0),
            returned: None,
            must_next: None,
            setup: start.setup.clone(),
            machine: start.machine.clone(),
            plan_hash: None,
            gate_results: Vec::new(),
            passes: Passes::default(),
            outputs: start.outputs.iter().cloned().collect(),
            overridden: None,
        }
    }

    /// What to do now. The same state always gives the same answer.
    pub fn next(&self, rules: &Rules<'_>, now: Timestamp) -> Do {
        if self.stopped.is_some() {
            return Do::Halt;
        }
        match &self.phase {
            Phase::Decide { check, tries, refused } => {
                // A correction and the last decision belong to an iteration that has begun.
                let is_new = *tries == 1 && refused.is_empty() && !check;
                let stop = if is_new { self.over_limit() } else { self.over_budget() };
                if let Some(why) = stop {
                    return Do::Journal(Event::Stopped { why });
                }
                let name = if *check { FINISH_CHECK } else { MAIN };
                let (stage, attempt) = (self.stage(&agent(name), None), self.attempt);
                Do::AskMain { stage, attempt, check: *check, refused: refused.clone() }
            }
            Phase::JudgeDecision { answer, check, refused, .. } => match decision::reads(answer) {
                Some(Ok(paths)) if reads_of(refused) < MOST_READS => Do::ReadFiles { paths },
                _ => Do::JudgeDecision { answer: answer.clone(), check: *check },
            },
            Phase::Work { job } => {
                // Also for work that a carried decision begins.
                if let Some(stop) = self.over_limit() {
                    return Do::Journal(Event::Stopped { why: stop });
                }
                if let Some(approval) = self.unseen(&job.agent, rules) {
                    return Do::LookAtFiles { approval: approval.clone() };
                }
                let stage = self.stage(&job.agent, job.subloop);
                let limit_seconds = self.limit_of(&stage, rules);
                Do::RunAgent { stage, attempt: self.attempt, job: job.clone(), limit_seconds }
            }
            Phase::JudgeReport { job, report } => {
                Do::JudgeReport { job: job.clone(), report: report.clone() }
            }
            Phase::Running { stage, attempt, from, .. } => Do::Recover {
                stage: stage.clone(),
                attempt: *attempt,
                refused: refused_of(from).to_vec(),
                limit_seconds: self.limit_of(stage, rules),
            },
            Phase::Gates { of, index, .. } => self.next_gate(of, *index, rules),
            Phase::Evaluate { job, number } => self.next_evaluation(job, *number, rules),
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

    fn stage(&self, name: &AgentName, subloop: Option<u32>) -> StageId {
        StageId { iteration: self.iteration, name: name.clone(), subloop }
    }

    /// MAIN's order of the current iteration, and the agent that it was given to.
    pub fn main_order(&self) -> Option<(AgentName, String)> {
        let decision = self.decision()?;
        let Next::Agent(agent) = &decision.next else { return None };
        Some((agent.clone(), decision.task.as_ref().unwrap_or(&decision.reason).clone()))
    }

    /// Agents whose newest report did not pass, but after which an agent that verifies the work did:
    /// nothing of it is open. What a verifier found stays open until its own next report.
    pub fn settled_reports(&self, rules: &Rules<'_>) -> Vec<AgentName> {
        let verifiers = &rules.pack.policy.plan.verified_by;
        let last_pass = verifiers
            .iter()
            .filter_map(|agent| self.newest.get(agent))
            .filter(|(_, facts)| facts.outcome == Some(Outcome::Pass))
            .map(|(seq, _)| *seq)
            .max();
        let is_settled = |(agent, (seq, _)): &(&AgentName, &(u64, ReportFacts))| {
            !verifiers.contains(agent) && last_pass.is_some_and(|pass| pass > *seq)
        };
        self.newest.iter().filter(is_settled).map(|(agent, _)| agent.clone()).collect()
    }

    /// Seconds that a stage may take, also one that is continued.
    pub fn limit_of(&self, stage: &StageId, rules: &Rules<'_>) -> u64 {
        let limit = match (stage.subloop, rules.subloop()) {
            (Some(_), Some(subloop)) => u64::from(subloop.timeout),
            _ => self.limits.stage_seconds,
        };
        limit.min(self.seconds_left())
    }

    fn next_gate(&self, of: &GatesOf, index: usize, rules: &Rules<'_>) -> Do {
        if let Some(why) = self.over_budget() {
            return Do::Journal(Event::Stopped { why });
        }
        let gates = match of {
            GatesOf::Report(job) => rules.gates(job.agent.as_str()),
            GatesOf::Finish => rules.gates(FINISH),
        };
        match gates.get(index) {
            Some(gate) => Do::RunGate { index, gate: (*gate).clone() },
            // A gate that the rules had when the run began is gone; the journal says how to go on.
            None => Do::Journal(Event::GateEnded {
                index,
                command: "(a gate that is no longer set)".to_owned(),
                passed: false,
                output: "the policy changed while the run was away".to_owned(),
                milliseconds: 0,
                log: None,
            }),
        }
    }

    fn next_evaluation(&self, job: &Job, number: Option<u32>, rules: &Rules<'_>) -> Do {
        if let Some(why) = self.over_budget() {
            return Do::Journal(Event::Stopped { why });
        }
        match (self.unseen(&job.agent, rules), number) {
            (Some(approval), _) => Do::LookAtFiles { approval: approval.clone() },
            (None, None) => Do::StartEvaluation,
            (None, Some(number)) => Do::Evaluate { number },
        }
    }

    /// The sub-loop begins, ends or is not due; else the iteration is over.
    fn settled(&self, job: &Job, rules: &Rules<'_>, now: Timestamp) -> Event {
        let newest = self.newest.get(&job.agent).map(|(_, facts)| facts);
        match (&self.current.subloop, rules.subloop()) {
            (Some(sub), Some(subloop)) if job.subloop.is_some() => {
                let is_repairable =
                    newest.is_some_and(|facts| repairable(facts, &subloop.enter_on));
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
                    && newest.is_some_and(|facts| repairable(facts, &subloop.enter_on)) =>
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
        let newest = tester.and_then(|tester| self.newest.get(tester));
        SubloopEnd {
            success: exit_condition == ExitCondition::Pass,
            final_test_verdict: newest.and_then(|(_, facts)| facts.verdict.clone()),
            iterations: number,
            exit_condition,
        }
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
        let mut effects: Vec<Effect> =
            record.event.history().cloned().map(Effect::AppendHistory).into_iter().collect();
        let phase = std::mem::replace(&mut next.phase, Phase::Ended);
        next.phase = next.follow(phase, record, rules, &mut effects).ok_or_else(misfit)?;
        next.last_seq = record.seq;
        Ok((next, effects))
    }

    /// FINISH was accepted, the run was interrupted before it ended, and what it was accepted for has
    /// changed: gates run and it is decided again.
    fn checked_again(&mut self, phase: Phase, rules: &Rules<'_>) -> Phase {
        if !(matches!(phase, Phase::Record) && self.is_finished()) {
            return phase;
        }
        // Its change of the plan was made, and stays in the entry of this iteration.
        if let (Some(check), Some(decided)) = (self.current.check.take(), &mut self.current.decided)
        {
            let both = [decided.plan_summary.as_str(), check.plan_summary.as_str()];
            let both: Vec<&str> = both.into_iter().filter(|own| !own.is_empty()).collect();
            decided.plan_summary = both.join("; ");
            decided.plan_changes += check.plan_changes;
        }
        self.current.gates.clear();
        self.finish_gates(rules)
    }

    /// The gates of FINISH, or the decision where there are none.
    fn finish_gates(&self, rules: &Rules<'_>) -> Phase {
        match rules.gates(FINISH).is_empty() {
            true => Phase::Decide { check: true, tries: 1, refused: Vec::new() },
            false => Phase::Gates { of: GatesOf::Finish, index: 0, is_running: false },
        }
    }

    /// Events that may come in any phase, and then those of the phase.
    fn follow(
        &mut self,
        phase: Phase,
        record: &Record,
        rules: &Rules<'_>,
        effects: &mut Vec<Effect>,
    ) -> Option<Phase> {
        match (phase, &record.event) {
            (Phase::Ended, _) => None,
            (phase, Event::Resumed { limits, setup, adopted_rules, project, outputs }) => {
                self.stopped = None;
                let void = self.passes.void.clone();
                self.look(project.as_deref());
                self.outputs.extend(outputs.iter().cloned());
                let phase = match adopted_rules.is_some() || self.passes.void != void {
                    true => self.checked_again(phase, rules),
                    false => phase,
                };
                self.limits = *limits;
                if setup.is_some() {
                    self.setup.clone_from(setup);
                }
                // Nobody knows what happened to the files in between.
                self.approvals.is_seen = false;
                Some(match adopted_rules {
                    Some(_) => self.under_new_rules(resumed(phase), rules),
                    None => resumed(phase),
                })
            }
            (_, Event::Abandoned) => Some(Phase::Ended),
            _ if self.stopped.is_some() => None,
            (phase, Event::Stopped { why }) => {
                self.stopped = Some(why.clone());
                Some(phase)
            }
            (phase, Event::Adopted { .. }) => Some(phase),
            (phase, event) => self.step(phase, event, record, rules, effects),
        }
    }

    /// The transitions proper. `None`: this event cannot happen here.
    fn step(
        &mut self,
        phase: Phase,
        event: &Event,
        record: &Record,
        rules: &Rules<'_>,
        effects: &mut Vec<Effect>,
    ) -> Option<Phase> {
        let seq = record.seq;
        match (phase, event) {
            (Phase::Work { job }, Event::FilesSeen(seen)) => {
                self.seen_before_work(job, seen, rules)
            }
            (phase @ Phase::Evaluate { .. }, event) => {
                self.evaluating(phase, event, record, rules, effects)
            }
            (phase @ Phase::Running { .. }, event) => self.running(phase, event, seq, rules),
            (from @ (Phase::Decide { .. } | Phase::Work { .. }), Event::StageStarted(started)) => {
                self.stage_started(from, started)
            }
            (phase @ (Phase::JudgeDecision { .. } | Phase::JudgeReport { .. }), event) => {
                self.judged(phase, event, seq, rules, effects)
            }
            (phase @ Phase::Gates { .. }, event) => self.gating(phase, event, rules, effects),
            (Phase::Settle { job }, Event::SubloopEntered { reason }) => {
                let fixer = &rules.subloop()?.fixer;
                let is_due = job.subloop.is_none() && self.current.subloop.is_none();
                self.totals.subloops += 1;
                effects.push(Effect::LockSubloop);
                effects.extend(self.subloop_state(1, reason, rules));
                self.current.subloop =
                    Some(Sub { number: 1, reason: reason.clone(), broken_by: None });
                is_due.then(|| Phase::Work { job: Job::new(fixer, Some(1)) })
            }
            (Phase::Settle { .. }, Event::SubloopEnded(end)) => {
                self.current.subloop.as_ref()?;
                self.totals.subloops_passed += u32::from(end.success);
                effects.extend(rules.pack.policy.subloop.as_ref().map(|subloop| {
                    let (tester, fixer) = (subloop.tester.clone(), subloop.fixer.clone());
                    Effect::EndSubloop { tester, fixer, most: subloop.max }
                }));
                self.current.subloop_end = Some(end.clone());
                Some(Phase::Record)
            }
            (Phase::Settle { .. } | Phase::Record, Event::IterationEnded { .. }) => {
                (!self.is_finished()).then(|| self.iteration_ended(rules))
            }
            (Phase::Record, Event::Finished { .. }) if self.is_finished() => {
                self.totals.iterations += 1;
                Some(Phase::Ended)
            }
            (Phase::Ask { question, by }, Event::Asked { .. }) => {
                effects.push(Effect::WriteQuestion {
                    question: question.clone(),
                    by,
                    asked_seq: seq,
                });
                Some(Phase::Waiting { question, by, asked_seq: seq })
            }
            (
                Phase::Waiting { question, by, asked_seq },
                Event::Answered { asked_seq: answered, option_id, comment, .. },
            ) => {
                let is_one = question.options.iter().any(|option| option.option_id == *option_id);
                if asked_seq != *answered || !is_one {
                    return None;
                }
                effects.push(Effect::RemoveQuestion);
                let answer =
                    Answer { question, option_id: option_id.clone(), comment: comment.clone() };
                self.answered(answer, by, record.time, rules)
            }
            _ => None,
        }
    }

    fn stage_started(&mut self, from: Phase, started: &StageStarted) -> Option<Phase> {
        if started.stage != self.stage_of(&from)? {
            return None;
        }
        // Version 0.1 counted attempts differently after a refusal or a stop.
        self.attempt = started.attempt;
        let (stage, attempt) = (started.stage.clone(), started.attempt);
        let tokens = started.ledger.as_ref().map_or(0, |ledger| ledger.tokens);
        self.board.extend(started.board.clone());
        self.board.retain(|_, digest| !digest.is_empty());
        self.look_at_start(started, is_new(&from));
        Some(Phase::Running { stage, attempt, tokens, from: Box::new(from) })
    }

    /// While a stage runs.
    fn running(
        &mut self,
        phase: Phase,
        event: &Event,
        seq: u64,
        rules: &Rules<'_>,
    ) -> Option<Phase> {
        let Phase::Running { stage, attempt, tokens, from } = phase else { return None };
        // A late answer of a dead attempt is never taken for a live one.
        let is_mine = |own: &StageId, number: Attempt| *own == stage && number == attempt;
        if let Event::StageEnded(ended) = event {
            return is_mine(&ended.stage, ended.attempt)
                .then(|| self.stage_ended(*from, ended, seq, rules))?;
        }
        let Event::StageLost { stage: lost, attempt: dead, .. } = event else { return None };
        if !is_mine(lost, *dead) {
            return None;
        }
        // Its answer is lost, its prompt was paid for.
        self.totals.tokens = self.totals.tokens.saturating_add(tokens);
        self.totals.lost += 1;
        self.attempt = Attempt(attempt.0.saturating_add(1));
        self.approvals.is_seen = false;
        Some(*from)
    }

    /// While gates confirm a pass.
    fn gating(
        &mut self,
        phase: Phase,
        event: &Event,
        rules: &Rules<'_>,
        effects: &mut Vec<Effect>,
    ) -> Option<Phase> {
        match (phase, event) {
            // Also of one that was running when its process died: it confirms, and may run again.
            (Phase::Gates { of, index, .. }, Event::GateStarted { index: started, .. }) => {
                (index == *started).then_some(Phase::Gates { of, index, is_running: true })
            }
            (
                Phase::Gates { of, index, .. },
                Event::GateEnded { index: ended, command, passed, output, milliseconds, log },
            ) => {
                if index != *ended {
                    return None;
                }
                let outcome = GateOutcome {
                    command: command.clone(),
                    passed: *passed,
                    output: output.clone(),
                };
                self.totals.milliseconds += milliseconds;
                if let (false, GatesOf::Report(job)) = (*passed, &of) {
                    let why = outcome.failure();
                    let mut failure = self.publish_overturned(job, &why, output, rules);
                    if let (Effect::PublishReport { text, .. }, Some(log)) = (&mut failure, log) {
                        text.push_str(&format!("\nThe whole output of the gate: {log}\n"));
                    }
                    effects.push(failure);
                }
                self.gate_ended(of, index, outcome, rules)
            }
            _ => None,
        }
    }

    /// While samples confirm a pass.
    #[expect(clippy::wildcard_enum_match_arm, reason = "any other event is refused")]
    fn evaluating(
        &mut self,
        phase: Phase,
        event: &Event,
        record: &Record,
        rules: &Rules<'_>,
        effects: &mut Vec<Effect>,
    ) -> Option<Phase> {
        let Phase::Evaluate { job, number } = phase else { return None };
        match event {
            Event::FilesSeen(seen) => {
                self.unseen(&job.agent, rules)?;
                if !self.is_approved(seen) {
                    return Some(self.not_evaluated(&job, approval::CHANGED, rules, effects));
                }
                self.approvals.is_seen = true;
                Some(Phase::Evaluate { job, number })
            }
            Event::EvaluationStarted { number: new } if number.is_none() => {
                Some(Phase::Evaluate { job, number: Some(*new) })
            }
            Event::Evaluated(evaluation) if number == Some(evaluation.number) => {
                self.evaluated(&job, evaluation, record.time, rules, effects)
            }
            Event::EvaluationPaused { spent } => {
                self.add(spent);
                let tokens = spent.tokens.map_or(0, |tokens| tokens.0);
                let (before, cost) = self.evaluation_counted;
                self.evaluation_counted = (before + tokens, cost + spent.cost.unwrap_or(0));
                Some(Phase::Evaluate { job, number })
            }
            Event::EvaluationRefused { why, spent } => {
                self.add(spent);
                Some(self.not_evaluated(&job, why, rules, effects))
            }
            _ => None,
        }
    }

    /// What became of an answer.
    fn judged(
        &mut self,
        phase: Phase,
        event: &Event,
        seq: u64,
        rules: &Rules<'_>,
        effects: &mut Vec<Effect>,
    ) -> Option<Phase> {
        match (phase, event) {
            (
                Phase::JudgeDecision { check, tries, mut refused, answer },
                Event::DecisionRefused { problem },
            ) => {
                add_refused(&mut refused, RefusedAnswer::new(&answer, problem, "the journal"));
                Some(self.corrected(
                    tries,
                    rules.config.decision.retries,
                    problem,
                    Phase::Decide { check, tries: tries + 1, refused },
                ))
            }
            (
                Phase::JudgeDecision { check, tries, mut refused, answer },
                Event::FilesRead { files },
            ) => {
                let is_asked = matches!(decision::reads(&answer), Some(Ok(_)));
                let files = files.clone();
                add_refused(&mut refused, RefusedAnswer { answer, problem: String::new(), files });
                is_asked.then_some(Phase::Decide { check, tries, refused })
            }
            (Phase::JudgeDecision { check, answer, .. }, Event::Decided(decided)) => {
                self.attempt = Attempt(1);
                let moment = if check { Moment::FinishCheck } else { Moment::Ordinary };
                let agents = rules.pack.manifest.agent_names();
                let decided = decided.with_decision(&answer, &agents, moment)?;
                self.decided(check, decided, rules, effects)
            }
            (Phase::JudgeReport { mut job, report }, Event::ReportRefused { problem }) => {
                effects.push(self.archive(&job, &report));
                let tries = job.tries;
                let path = format!("reports/archive/{}", self.archive_name(&job).file());
                add_refused(&mut job.refused, RefusedAnswer::new(&report, problem, &path));
                (job.tries, job.filed) = (tries + 1, job.filed + 1);
                Some(self.corrected(
                    tries,
                    rules.config.report.retries,
                    problem,
                    Phase::Work { job },
                ))
            }
            (Phase::JudgeReport { job, report }, Event::ReportAccepted(facts)) => {
                let is_mine = facts.agent == job.agent && facts.iteration == self.iteration;
                effects.push(self.archive(&job, &report));
                effects.extend(self.publish(&job, &report, facts.overturned.as_deref(), rules));
                self.attempt = Attempt(1);
                if is_mine { self.accepted(&job, facts, seq, rules) } else { None }
            }
            _ => None,
        }
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

    fn stage_ended(
        &mut self,
        from: Phase,
        ended: &StageEnded,
        seq: u64,
        rules: &Rules<'_>,
    ) -> Option<Phase> {
        // A correction continues a stage that is counted already.
        let is_new = is_new(&from);
        self.totals.stages += u32::from(is_new);
        self.add(&ended.spent);
        self.approvals.is_seen = false;
        let is_main = matches!(from, Phase::Decide { .. });
        self.totals.main_calls += u32::from(is_main && is_new);
        let writes = rules.writes(&ended.stage.name);
        if writes {
            self.wrote.insert(ended.stage.name.clone(), seq);
        }
        if let Some(subloop) = rules.subloop() {
            self.totals.tester_runs += u32::from(
                is_new && ended.stage.name == subloop.tester && ended.stage.subloop.is_none(),
            );
        }
        if ended.stage.subloop.is_some() {
            self.totals.main_calls_saved += u32::from(is_new);
            self.totals.subloop_milliseconds += ended.spent.milliseconds;
        }
        if !is_main {
            self.current.project.clone_from(&ended.snapshot);
            self.remember_changes(ended);
            self.look_at_end(ended, is_new, seq, writes);
        }
        self.current.notes.extend(ended.unexpected_line());
        self.look(ended.project.as_deref());
        match (from, &ended.result) {
            (Phase::Decide { check, tries, refused }, StageResult::Answer(answer)) => {
                Some(Phase::JudgeDecision { check, tries, refused, answer: answer.clone() })
            }
            (Phase::Work { job }, StageResult::Answer(report)) => {
                Some(Phase::JudgeReport { job, report: report.clone() })
            }
            (from, StageResult::Trespassed(files)) => {
                let why = format!(
                    "{} changed files of the blackboard that are not its own, and they were restored: {}",
                    ended.stage,
                    files.join(", ")
                );
                self.stopped = Some(Stop::Protocol(why.clone()));
                Some(told(from, RefusedAnswer { problem: why, ..RefusedAnswer::default() }))
            }
            (
                from @ Phase::Decide { .. },
                StageResult::Failed(why) | StageResult::TimedOut(why) | StageResult::Unusable(why),
            ) => {
                self.stopped = Some(Stop::Executor(format!("{}: {why}", ended.stage)));
                self.attempt = Attempt(self.attempt.0.saturating_add(1));
                Some(from)
            }
            // The same attempt: what it did so far is in its transcript, and it continues there.
            (from @ Phase::Work { .. }, StageResult::Unusable(why)) => {
                self.stopped = Some(Stop::Executor(format!("{}: {why}", ended.stage)));
                Some(from)
            }
            (Phase::Work { job }, StageResult::Failed(why)) => {
                Some(self.failed(&job, why, ExitCondition::ExecutorError))
            }
            (Phase::Work { job }, StageResult::TimedOut(why)) => {
                Some(self.failed(&job, why, ExitCondition::Timeout))
            }
            _ => None,
        }
    }

    /// A state does not grow with its run: the last stages, some files of each.
    fn remember_changes(&mut self, ended: &StageEnded) {
        const STAGES: usize = 20;
        const FILES: usize = 40;
        if ended.changed.is_empty() {
            return;
        }
        let mut files: Vec<String> = ended.changed.iter().take(FILES).cloned().collect();
        let more = ended.changed.len().saturating_sub(FILES);
        files.extend((more > 0).then(|| format!("and {more} more")));
        self.stage_changes.push((ended.stage.to_string(), files));
        let over = self.stage_changes.len().saturating_sub(STAGES);
        self.stage_changes.drain(..over);
    }

    /// An executor's error goes to MAIN, who sees it; a sub-loop ends with it.
    fn failed(&mut self, job: &Job, why: &str, condition: ExitCondition) -> Phase {
        self.attempt = Attempt(1);
        self.current.failure = Some(format!("{}: {why}", job.agent));
        match &mut self.current.subloop {
            Some(sub) if job.subloop.is_some() => {
                sub.broken_by = Some(condition);
                Phase::Settle { job: job.clone() }
            }
            _ => Phase::Record,
        }
    }

    /// One more try, with the exact error, or the run stops and reports it.
    fn corrected(&mut self, tries: u32, retries: u32, problem: &str, again: Phase) -> Phase {
        self.totals.corrections += 1;
        if tries > retries {
            self.stopped = Some(Stop::Protocol(problem.to_owned()));
        }
        again
    }

    fn decided(
        &mut self,
        check: bool,
        decided: Decided,
        rules: &Rules<'_>,
        effects: &mut Vec<Effect>,
    ) -> Option<Phase> {
        let decision = decided.decision.as_deref()?;
        let next = decision.next.clone();
        self.plan_hash = Some(decided.plan_after.clone());
        if decided.plan_before != decided.plan_after {
            effects.push(Effect::EditPlan(Box::new(PlanEdit {
                before: decided.plan_before.clone(),
                change: decision.plan.clone(),
                rules: rules.pack.policy.plan.clone(),
            })));
        }
        if check {
            self.overridden = self.override_of(decision);
            self.current.check = Some(decided);
            self.totals.finishes_overturned += u32::from(!self.is_finished());
            return Some(Phase::Record);
        }
        self.current.decided = Some(decided);
        Some(self.begun(&next))
    }

    /// What a decision begins.
    fn begun(&mut self, next: &Next) -> Phase {
        match next {
            Next::Agent(agent) => Phase::Work { job: Job::new(agent, None) },
            Next::User(question) => Phase::Ask { question: question.clone(), by: Asker::Main },
            Next::Finish => {
                self.current.is_finish = true;
                self.finish_attempts += 1;
                self.totals.finishes += 1;
                Phase::Work { job: Job::new(&agent(FINISH_REVIEW), None) }
            }
        }
    }

    fn accepted(
        &mut self,
        job: &Job,
        facts: &ReportFacts,
        seq: u64,
        rules: &Rules<'_>,
    ) -> Option<Phase> {
        let is_tester = rules.subloop().is_some_and(|subloop| subloop.tester == job.agent);
        if is_tester {
            self.tested.extend(facts.tasks.iter().cloned());
        }
        self.totals.passes_overturned += u32::from(facts.overturned.is_some());
        self.newest.insert(facts.agent.clone(), (seq, facts.clone()));
        self.judged_project(&facts.agent);
        self.last_reporter = Some(facts.agent.clone());
        self.current.reports.push(facts.clone());
        let has_gates = !rules.gates(job.agent.as_str()).is_empty();
        if facts.outcome == Some(Outcome::Pass) && has_gates {
            let of = GatesOf::Report(job.clone());
            return Some(Phase::Gates { of, index: 0, is_running: false });
        }
        Some(match facts.outcome {
            Some(Outcome::Pass) => self.confirmed(job, rules),
            _ => self.stands(job, rules),
        })
    }

    /// A report that nothing can overturn any more.
    fn stands(&mut self, job: &Job, rules: &Rules<'_>) -> Phase {
        let facts = self.newest.get(&job.agent).map(|(_, facts)| facts.clone());
        let outcome = facts.as_ref().and_then(|facts| facts.outcome);
        let is_due = self.must_next.as_ref().is_some_and(|(agent, _)| *agent == job.agent);
        if is_due && matches!(outcome, Some(Outcome::Pass) | None) {
            self.must_next = None;
            self.returned = None;
        }
        if rules.subloop().is_some_and(|subloop| subloop.tester == job.agent)
            && outcome == Some(Outcome::Pass)
            && let Some(facts) = &facts
        {
            self.passed.extend(facts.tasks.iter().cloned());
        }
        if job.agent == FINISH_REVIEW {
            return self.finish_gates(rules);
        }
        let Some((number, subloop)) = job.subloop.zip(rules.subloop()) else {
            return Phase::Settle { job: job.clone() };
        };
        if job.agent == subloop.fixer {
            return Phase::Work { job: Job::new(&subloop.tester, Some(number)) };
        }
        let goes_on = number < subloop.max
            && facts.is_some_and(|facts| repairable(&facts, &subloop.enter_on));
        if !goes_on {
            return Phase::Settle { job: job.clone() };
        }
        if let Some(sub) = &mut self.current.subloop {
            sub.number = number + 1;
        }
        Phase::Work { job: Job::new(&subloop.fixer, Some(number + 1)) }
    }

    fn remember_gate(&mut self, of: &GatesOf, outcome: &GateOutcome) {
        let of = match of {
            GatesOf::Report(job) => job.agent.to_string(),
            GatesOf::Finish => FINISH.to_owned(),
        };
        self.gate_results.retain(|run| (&run.of, &run.command) != (&of, &outcome.command));
        let (command, iteration) = (outcome.command.clone(), self.iteration);
        self.gate_results.push(GateRun { of, command, passed: outcome.passed, iteration });
    }

    fn gate_ended(
        &mut self,
        of: GatesOf,
        index: usize,
        outcome: GateOutcome,
        rules: &Rules<'_>,
    ) -> Option<Phase> {
        let passed = outcome.passed;
        self.remember_gate(&of, &outcome);
        self.current.gates.push(outcome.clone());
        match of {
            GatesOf::Finish => {
                let is_last = index + 1 >= rules.gates(FINISH).len();
                Some(match is_last {
                    true => Phase::Decide { check: true, tries: 1, refused: Vec::new() },
                    false => Phase::Gates { of, index: index + 1, is_running: false },
                })
            }
            GatesOf::Report(job) if passed => {
                let is_last = index + 1 >= rules.gates(job.agent.as_str()).len();
                Some(match is_last {
                    true => self.confirmed(&job, rules),
                    false => {
                        let of = GatesOf::Report(job);
                        Phase::Gates { of, index: index + 1, is_running: false }
                    }
                })
            }
            GatesOf::Report(job) => {
                // The command's output is its evidence.
                self.overturn(&job.agent, &outcome.failure(), rules);
                Some(self.stands(&job, rules))
            }
        }
    }

    fn answered(
        &mut self,
        answer: Answer,
        by: Asker,
        time: Timestamp,
        rules: &Rules<'_>,
    ) -> Option<Phase> {
        self.stuck.reset();
        match by {
            Asker::Main => {
                self.current.answer = Some(answer);
                Some(Phase::Record)
            }
            Asker::Approval => self.answered_approval(answer, time, rules),
            Asker::Escalation => {
                if answer.option_id == limits::STOP_OPTION {
                    self.stopped = Some(Stop::Person("the person chose to stop".to_owned()));
                }
                self.finish_attempts = 0;
                // MAIN decides anew, with the answer before it.
                self.current.check = None;
                Some(self.resumed_work())
            }
        }
    }

    /// The next iteration: with the decision that FINISH_CHECK made already, or with a new one.
    fn iteration_ended(&mut self, rules: &Rules<'_>) -> Phase {
        self.count_iteration(rules);
        let carried = std::mem::take(&mut self.current).check;
        self.iteration = Iteration(self.iteration.0.saturating_add(1));
        self.totals.iterations += 1;
        let next = next_of(carried.as_ref());
        self.current.check =
            carried.filter(|_| matches!(next, Some(Next::Agent(_) | Next::User(_))));
        if let Some(stop) = self.stuck.stop.take() {
            self.stopped = Some(stop);
        }
        match self.escalation(rules) {
            Some(question) => Phase::Ask { question, by: Asker::Escalation },
            None => self.carried_work(),
        }
    }

    fn resumed_work(&mut self) -> Phase {
        Phase::Decide { check: false, tries: 1, refused: Vec::new() }
    }

    fn carried_work(&mut self) -> Phase {
        // Its plan change is in the entry of the iteration before.
        let carried = self.current.check.take().map(|decided| Decided {
            plan_summary: String::new(),
            plan_changes: 0,
            ..decided
        });
        let next = next_of(carried.as_ref());
        match next {
            Some(next @ (Next::Agent(_) | Next::User(_))) => {
                self.current.decided = carried;
                self.begun(&next)
            }
            Some(Next::Finish) | None => self.resumed_work(),
        }
    }

    /// Whether FINISH was decided twice and nothing stands against it.
    fn is_finished(&self) -> bool {
        self.current.check.as_ref().is_some_and(|check| {
            let next = check.decision.as_ref().map(|decision| &decision.next);
            check.open.is_empty() && next == Some(&Next::Finish)
        })
    }

    /// What was taken, whoever took it.
    fn add(&mut self, spent: &Spent) {
        let totals = &mut self.totals;
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

    pub fn phase_name(&self) -> &'static str {
        match &self.phase {
            Phase::Decide { .. } => "decide",
            Phase::JudgeDecision { .. } => "judge_decision",
            Phase::Work { .. } => "work",
            Phase::JudgeReport { .. } => "judge_report",
            Phase::Running { .. } => "running",
            Phase::Gates { .. } => "gates",
            Phase::Evaluate { .. } => "evaluate",
            Phase::Settle { .. } => "settle",
            Phase::Record => "record",
            Phase::Ask { .. } => "ask",
            Phase::Waiting { .. } => "waiting",
            Phase::Ended => "ended",
        }
    }
}

/// The agent that the last decision of an iteration names for the next one.
fn next_of(decided: Option<&Decided>) -> Option<Next> {
    Some(decided?.decision.as_ref()?.next.clone())
}

/// After a stop for a wrong answer the same agent has its tries again; its error stays.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other phase has tries")]
fn resumed(phase: Phase) -> Phase {
    match phase {
        Phase::Decide { check, refused, .. } => Phase::Decide { check, tries: 1, refused },
        Phase::Work { job } => Phase::Work { job: Job { tries: 1, ..job } },
        other => other,
    }
}

/// True if a stage is more than the correction of a refused answer.
fn is_new(from: &Phase) -> bool {
    refused_of(from).iter().all(|refused| refused.answer.is_empty())
}

/// The refused answers before the stage that this phase begins.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other phase begins a stage")]
fn refused_of(phase: &Phase) -> &[RefusedAnswer] {
    match phase {
        Phase::Decide { refused, .. } => refused,
        Phase::Work { job } => &job.refused,
        _ => &[],
    }
}

/// One more refusal. Only the last ones are shown again; of those before only their number counts.
fn add_refused(all: &mut Vec<RefusedAnswer>, new: RefusedAnswer) {
    const SHOWN: usize = 4;
    all.push(new);
    let older = all.len().saturating_sub(SHOWN);
    for refused in &mut all[..older] {
        let files = refused.files.iter().map(|file| ReadFile::unread(&file.path, ""));
        *refused = RefusedAnswer { files: files.collect(), ..RefusedAnswer::default() };
    }
}

/// The same, and whoever is asked next is shown this problem.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other phase begins a stage")]
fn told(phase: Phase, new: RefusedAnswer) -> Phase {
    match phase {
        Phase::Decide { check, tries, mut refused } => {
            add_refused(&mut refused, new);
            Phase::Decide { check, tries, refused }
        }
        Phase::Work { mut job } => {
            add_refused(&mut job.refused, new);
            Phase::Work { job }
        }
        other => other,
    }
}

/// A failing report with at least one blocker that the fixer can resolve.
fn repairable(facts: &ReportFacts, classes: &[String]) -> bool {
    facts.outcome == Some(Outcome::Fail)
        && facts.classes.iter().any(|class| classes.contains(class))
}

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
