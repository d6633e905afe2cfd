//! What happened in a run: the closed list of events that a journal holds. State is what folding
//! them gives, and nothing else is truth. Each event stands in the journal before its effect can be
//! seen; texts that files are made of (answers, reports, entries) are in the event itself, so that a
//! file that was lost with a crash is written again from here.

#![warn(clippy::wildcard_enum_match_arm)]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decision::{self, Decision, Moment, Question};
use crate::id::{AgentName, Attempt, Iteration, RunId, Timestamp, Tokens};
use crate::machine::Machine;
use crate::message::Wire;
use crate::messages::Language;
use crate::policy::Outcome;
use crate::prompt::ReadFile;

/// The version of the events. A journal of a newer one is refused by name.
pub const VERSION: u32 = 2;
/// The oldest version that is read: a decision is then in the answer of its stage.
pub const OLDEST_VERSION: u32 = 1;

/// An event in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// From 1, without a gap. Order is by this number, never by the clock.
    pub seq: u64,
    pub time: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    RunStarted(Box<RunStarted>),
    /// Somebody goes on with a run that had stopped, was parked or had lost its process.
    Resumed {
        limits: Limits,
        /// The executors and models from here on, where they are not as before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        setup: Option<Box<RunSetup>>,
        /// Rules that had changed, and with which the run continues from here on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        adopted_rules: Option<Box<AdoptedRules>>,
        /// The project, where it is not as the run left it. Without it, the next stage looks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<Box<ProjectCheck>>,
        /// Files of the project that this process's own output goes to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outputs: Vec<String>,
    },
    /// The intent: from here on the stage may have had effects.
    StageStarted(Box<StageStarted>),
    /// Its result.
    StageEnded(Box<StageEnded>),
    /// A stage that was started and whose result nobody knows; its files were brought back, or not.
    StageLost {
        stage: StageId,
        attempt: Attempt,
        restored: bool,
        /// Files that changed since a stage that may not write started; they are kept.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<String>,
    },
    DecisionRefused {
        problem: String,
    },
    /// Files of the blackboard that MAIN asked for before it decides.
    FilesRead {
        files: Vec<ReadFile>,
    },
    Decided(Box<Decided>),
    ReportRefused {
        problem: String,
    },
    ReportAccepted(Box<ReportFacts>),
    GateStarted {
        index: usize,
        command: String,
    },
    GateEnded {
        index: usize,
        command: String,
        passed: bool,
        /// The first line tells how it ended; the last lines of its output follow.
        output: String,
        milliseconds: u64,
        /// The file with its whole output, from the project's folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<String>,
    },
    /// The files that a person must agree to were looked at.
    FilesSeen(Box<FilesSeen>),
    /// The samples begin to run, in the folder with this number.
    EvaluationStarted {
        number: u32,
    },
    Evaluated(Box<Evaluation>),
    /// It stopped before its end, and goes on later: what it took until then.
    EvaluationPaused {
        spent: Spent,
    },
    /// The samples could not be run as they are.
    EvaluationRefused {
        why: String,
        #[serde(default)]
        spent: Spent,
    },
    SubloopEntered {
        reason: String,
    },
    SubloopEnded(SubloopEnd),
    /// A person is asked; the run waits.
    Asked {
        question: Question,
        by: Asker,
    },
    /// Single use: bound to the question with this number.
    Answered {
        asked_seq: u64,
        option_id: String,
        comment: String,
        entry: Option<HistoryText>,
    },
    /// The iteration's outcome is known; `entry` goes to the history.
    IterationEnded {
        entry: HistoryText,
    },
    /// A person changed these files of the blackboard between two stages.
    Adopted {
        files: Vec<String>,
    },
    Stopped {
        why: Stop,
    },
    /// A person gave the run up: another may begin.
    Abandoned,
    /// The end of the run; `entry` goes to the history.
    Finished {
        entry: HistoryText,
    },
}

/// A text for the history and where it stands there: a crash in the middle of writing it is mended
/// exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryText {
    /// The file's length before it; filled in by whoever writes the journal.
    pub at: u64,
    pub text: String,
}

impl HistoryText {
    pub fn new(text: String) -> HistoryText {
        HistoryText { at: 0, text }
    }
}

impl Decided {
    pub fn next(&self) -> Option<&decision::Next> {
        Some(&self.decision.as_ref()?.next)
    }

    /// The same, with its decision. Version 1 has only MAIN's answer, and most of its records leave
    /// that to the result of the stage. `None`: it is not a decision.
    #[must_use]
    pub fn with_decision(
        &self,
        answer: &str,
        agents: &[AgentName],
        moment: Moment,
    ) -> Option<Decided> {
        let answer = if self.answer.is_empty() { answer } else { &self.answer };
        let decision = match &self.decision {
            Some(decision) => decision.clone(),
            None => Box::new(decision::read(answer, agents, moment).ok()?),
        };
        Some(Decided { decision: Some(decision), answer: String::new(), ..self.clone() })
    }
}

impl Event {
    /// The text that this event adds to the history.
    pub fn history(&self) -> Option<&HistoryText> {
        match self {
            Event::RunStarted(start) => Some(&start.entry),
            Event::IterationEnded { entry } | Event::Finished { entry } => Some(entry),
            Event::Answered { entry, .. } => entry.as_ref(),
            Event::Resumed { .. }
            | Event::StageStarted(_)
            | Event::StageEnded(_)
            | Event::StageLost { .. }
            | Event::DecisionRefused { .. }
            | Event::FilesRead { .. }
            | Event::Decided(_)
            | Event::ReportRefused { .. }
            | Event::ReportAccepted(_)
            | Event::GateStarted { .. }
            | Event::GateEnded { .. }
            | Event::FilesSeen(_)
            | Event::EvaluationStarted { .. }
            | Event::Evaluated(_)
            | Event::EvaluationPaused { .. }
            | Event::EvaluationRefused { .. }
            | Event::SubloopEntered { .. }
            | Event::SubloopEnded(_)
            | Event::Asked { .. }
            | Event::Adopted { .. }
            | Event::Abandoned
            | Event::Stopped { .. } => None,
        }
    }

    fn history_mut(&mut self) -> Option<&mut HistoryText> {
        match self {
            Event::RunStarted(start) => Some(&mut start.entry),
            Event::IterationEnded { entry } | Event::Finished { entry } => Some(entry),
            Event::Answered { entry, .. } => entry.as_mut(),
            Event::Resumed { .. }
            | Event::StageStarted(_)
            | Event::StageEnded(_)
            | Event::StageLost { .. }
            | Event::DecisionRefused { .. }
            | Event::FilesRead { .. }
            | Event::Decided(_)
            | Event::ReportRefused { .. }
            | Event::ReportAccepted(_)
            | Event::GateStarted { .. }
            | Event::GateEnded { .. }
            | Event::FilesSeen(_)
            | Event::EvaluationStarted { .. }
            | Event::Evaluated(_)
            | Event::EvaluationPaused { .. }
            | Event::EvaluationRefused { .. }
            | Event::SubloopEntered { .. }
            | Event::SubloopEnded(_)
            | Event::Asked { .. }
            | Event::Adopted { .. }
            | Event::Abandoned
            | Event::Stopped { .. } => None,
        }
    }

    /// The same, with its text in its place. `is_open`: the last line of the file does not end, and
    /// a heading would become part of it.
    #[must_use]
    pub fn with_history_at(mut self, at: u64, is_open: bool) -> Event {
        let Some(entry) = self.history_mut() else { return self };
        entry.at = at;
        if is_open {
            entry.text.insert_str(0, "\n\n");
        }
        self
    }
}

/// What a run begins with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStarted {
    pub version: u32,
    pub run: RunId,
    pub task: String,
    pub pack: String,
    pub language: String,
    /// Of what the run's rules were made, so that a change can be named.
    pub rules: BTreeMap<String, String>,
    /// The rules that records are folded by. A run of 0.1 has only the fingerprints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules_text: Option<Box<RulesText>>,
    pub first_iteration: Iteration,
    pub limits: Limits,
    /// The newest reports that were there already.
    pub newest: Vec<ReportFacts>,
    /// What the run works on, where its pack knows scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The executors and models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Box<RunSetup>>,
    /// The machine when the run began; unknown in runs of version 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Box<Machine>>,
    /// The plan of an earlier task, put aside when this one began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_plan: Option<ArchivedPlan>,
    /// The `## Task Goal` block.
    pub entry: HistoryText,
    /// Files of the project that the process's own output goes to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
}

/// The plan of an earlier task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedPlan {
    /// Its new path, from the blackboard's root.
    pub path: String,
    /// The hash of its text: a plan with another one is not put aside.
    pub hash: String,
    /// The new, empty plan.
    pub new: String,
}

/// The executors and models of a run: it continues with them without any flag. Keys are never in
/// here.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSetup {
    pub default: Runner,
    /// The agents that are not run as all others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<AgentName, Runner>,
    /// Nothing that stages and gates start is confined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_sandbox: bool,
    /// The models that run samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<EvaluationSetup>,
}

/// The executor of a stage, with its model where it has one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runner {
    pub executor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Wire>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The models of an evaluation, both at the target's provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationSetup {
    pub target: Runner,
    pub judge: String,
}

impl RunSetup {
    /// Every runner of it, the default first.
    pub fn runners(&self) -> impl Iterator<Item = &Runner> {
        let target = self.evaluation.as_ref().map(|own| &own.target);
        std::iter::once(&self.default).chain(self.agents.values()).chain(target)
    }

    /// The differences between two setups, each side in a few words; `None` where there are none.
    pub fn difference(&self, now: &RunSetup) -> Option<(String, String)> {
        let mut parts = Vec::new();
        self.default.differences("", &now.default, &mut parts);
        let names: std::collections::BTreeSet<&AgentName> =
            self.agents.keys().chain(now.agents.keys()).collect();
        for name in names {
            let before = self.agents.get(name).unwrap_or(&self.default);
            let after = now.agents.get(name).unwrap_or(&now.default);
            // An agent that is run as the others changes with them.
            let is_own = self.agents.contains_key(name) && now.agents.contains_key(name);
            if is_own || (before, after) != (&self.default, &now.default) {
                before.differences(&format!("{name} "), after, &mut parts);
            }
        }
        let sandbox = |off: bool| if off { "no sandbox" } else { "the sandbox" }.to_owned();
        if self.no_sandbox != now.no_sandbox {
            parts.push((sandbox(self.no_sandbox), sandbox(now.no_sandbox)));
        }
        if let (Some(before), Some(after)) = (&self.evaluation, &now.evaluation) {
            before.target.differences("target ", &after.target, &mut parts);
            if before.judge != after.judge {
                let judge = |own: &EvaluationSetup| format!("judge {}", own.judge);
                parts.push((judge(before), judge(after)));
            }
        }
        let (before, after): (Vec<String>, Vec<String>) = parts.into_iter().unzip();
        (!before.is_empty()).then(|| (before.join(", "), after.join(", ")))
    }
}

impl Runner {
    /// The coding agent, with a model.
    pub const BUILTIN: &'static str = "builtin";
    /// The same, with recorded answers.
    pub const CASSETTE: &'static str = "cassette";

    fn differences(&self, whose: &str, now: &Runner, parts: &mut Vec<(String, String)>) {
        let wire = |own: &Runner| own.provider.map(|wire| wire.name().to_owned());
        let pairs = [
            ("executor", Some(self.executor.clone()), Some(now.executor.clone())),
            ("provider", wire(self), wire(now)),
            ("server", self.base_url.clone(), now.base_url.clone()),
            ("model", self.model.clone(), now.model.clone()),
        ];
        for (what, before, after) in pairs {
            if before != after {
                let shown = |own: Option<String>| match own {
                    Some(own) => format!("{whose}{what} {own}"),
                    None => format!("{whose}no {what}"),
                };
                parts.push((shown(before), shown(after)));
            }
        }
    }
}

impl RunStarted {
    /// The rules that an event brings are those of the run from there on.
    pub fn adopt(&mut self, event: &Event) {
        if let Event::Resumed { adopted_rules: Some(adopted), .. } = event {
            self.pack.clone_from(&adopted.pack);
            self.language.clone_from(&adopted.language);
            self.rules.clone_from(&adopted.fingerprints);
            self.rules_text = Some(Box::new(adopted.text.clone()));
        }
    }
}

/// The part of the rules by which records are folded: a journal is read by the rules of its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesText {
    /// The whole policy; a section that is switched off is null.
    pub policy: serde_json::Value,
    /// The agents, and whether each may write.
    pub agents: BTreeMap<AgentName, bool>,
    pub switches: Switches,
}

/// The part of the configuration that belongs to the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switches {
    pub subloop: bool,
    pub milestones: bool,
    pub report_retries: u32,
    pub decision_retries: u32,
}

/// Changed rules with which a run continues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdoptedRules {
    /// Names of what had changed, for people.
    pub changed: Vec<String>,
    pub pack: String,
    pub language: String,
    pub fingerprints: BTreeMap<String, String>,
    pub text: RulesText,
}

/// A stage in its place.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct StageId {
    pub iteration: Iteration,
    /// An agent, or MAIN, FINISH_REVIEW, FINISH_CHECK.
    pub name: AgentName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subloop: Option<u32>,
}

impl StageId {
    /// The stage by its name, in the language of the run.
    pub fn text(&self, language: Language) -> String {
        let stage = language.iteration_of(&self.name, self.iteration);
        match self.subloop {
            Some(number) => language.subloop_of(stage, number),
            None => stage,
        }
    }
}

impl std::fmt::Display for StageId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}, iteration {}", self.name, self.iteration)?;
        match self.subloop {
            Some(number) => write!(out, ", sub-iteration {number}"),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageStarted {
    pub stage: StageId,
    pub attempt: Attempt,
    /// The project's files before it, where it may write them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The account of its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<PromptLedger>,
    /// Digests of the blackboard's files that are not as the last stage found them; an empty one is
    /// a file that is gone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub board: BTreeMap<String, String>,
    /// The project when the stage started, if there is news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Box<ProjectCheck>>,
}

impl StageStarted {
    /// Without anything that is known of the project and the blackboard.
    pub fn new(stage: StageId, attempt: Attempt) -> StageStarted {
        let board = BTreeMap::new();
        StageStarted { stage, attempt, snapshot: None, ledger: None, board, project: None }
    }
}

/// The project compared with the one for which passes were given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectCheck {
    /// The project at this moment.
    pub snapshot: String,
    /// Files that changed outside the stages since the last look: edits of the user, `baton undo`,
    /// gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Agents whose pass no longer counts, with the files that changed after it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub void: BTreeMap<AgentName, Vec<String>>,
    /// Writing agents of whose own files some changed after their pass, with these files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reworked: BTreeMap<AgentName, Vec<String>>,
}

impl ProjectCheck {
    /// One sentence about changes outside the stages; `None` if there are none.
    pub fn line_in(&self, language: Language) -> Option<String> {
        if self.changed.is_empty() {
            return None;
        }
        let is_hit = |files: &Vec<String>| files.iter().any(|file| self.changed.contains(file));
        let agents: Vec<&str> = self
            .void
            .iter()
            .filter(|(_, files)| is_hit(files))
            .map(|(own, _)| own.as_str())
            .collect();
        let void = match agents[..] {
            [] => String::new(),
            [only] => language.void_pass(only),
            _ => language.void_passes(language.list(&agents)),
        };
        Some(language.changed_outside(self.changed.join(", ")) + &void)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageEnded {
    pub stage: StageId,
    pub attempt: Attempt,
    pub result: StageResult,
    pub spent: Spent,
    /// Files of the project that changed while it ran, if it may write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// The project's files after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Files that changed while a stage ran that may not write; they are kept as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unexpected: Vec<String>,
    /// The part of `unexpected` because of which a pass of this stage does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voiding: Vec<String>,
    /// The project when a stage that decides ended, if there is news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Box<ProjectCheck>>,
}

impl StageEnded {
    /// Without anything that is known of the project.
    pub fn new(stage: StageId, attempt: Attempt, result: StageResult, spent: Spent) -> StageEnded {
        StageEnded {
            stage,
            attempt,
            result,
            spent,
            changed: Vec::new(),
            snapshot: None,
            unexpected: Vec::new(),
            voiding: Vec::new(),
            project: None,
        }
    }

    /// One sentence about changes while a stage ran that may not write.
    pub fn unexpected_line_in(&self, language: Language) -> Option<String> {
        let files = self.unexpected.join(", ");
        (!files.is_empty()).then(|| language.changed_by_reader(&self.stage.name, files))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageResult {
    /// Its last message.
    Answer(String),
    /// It did not come to one.
    Failed(String),
    /// What should run it cannot work at all: a person must change something.
    Unusable(String),
    /// It took longer than it may.
    TimedOut(String),
    /// It changed files of the blackboard that were not its own; they are restored.
    Trespassed(Vec<String>),
}

/// What a stage took. What nobody counted is unknown, and never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    pub milliseconds: u64,
    pub tokens: Option<Tokens>,
    /// Of them, read from a provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<Tokens>,
    /// Nano-dollars.
    pub cost: Option<u64>,
}

/// What a run may take. `None`: as much as it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub iterations: u32,
    pub seconds: Option<u64>,
    pub tokens: Option<Tokens>,
    pub cost: Option<u64>,
    pub stage_seconds: u64,
    /// Of each stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_tokens: Option<Tokens>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_cost: Option<u64>,
}

impl Limits {
    /// So many iterations, so long a stage, and nothing else.
    pub fn of(iterations: u32, stage_seconds: u64) -> Limits {
        Limits {
            iterations,
            seconds: None,
            tokens: None,
            cost: None,
            stage_seconds,
            stage_tokens: None,
            stage_cost: None,
        }
    }
}

/// The account of a prompt, as far as it does not follow from the rules.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptLedger {
    /// With the corrections.
    pub tokens: u64,
    pub bytes: u64,
    pub limit: u64,
    pub sections: Vec<LedgerSection>,
    pub steps: Vec<String>,
    pub summaries: Vec<LedgerSummary>,
}

/// A section of a prompt; in a journal a row, to keep it short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SectionRow", into = "SectionRow")]
pub struct LedgerSection {
    pub name: String,
    /// The level of a report that it shows.
    pub level: Option<u8>,
    pub tokens: u64,
    /// The part that is not in it.
    pub cut: Option<String>,
}

/// A report whose summary a prompt asked for; in a journal a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SummaryRow", into = "SummaryRow")]
pub struct LedgerSummary {
    pub agent: String,
    /// True if the cache had it.
    pub is_hit: bool,
    /// True if the report's verdict was not found.
    pub is_failure: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SectionRow {
    Cut(String, Option<u8>, u64, String),
    Whole(String, Option<u8>, u64),
}

impl From<SectionRow> for LedgerSection {
    fn from(row: SectionRow) -> LedgerSection {
        let (name, level, tokens, cut) = match row {
            SectionRow::Cut(name, level, tokens, cut) => (name, level, tokens, Some(cut)),
            SectionRow::Whole(name, level, tokens) => (name, level, tokens, None),
        };
        LedgerSection { name, level, tokens, cut }
    }
}

impl From<LedgerSection> for SectionRow {
    fn from(section: LedgerSection) -> SectionRow {
        let LedgerSection { name, level, tokens, cut } = section;
        match cut {
            Some(cut) => SectionRow::Cut(name, level, tokens, cut),
            None => SectionRow::Whole(name, level, tokens),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SummaryRow {
    Failed(String, bool, bool),
    Found(String, bool),
}

impl From<SummaryRow> for LedgerSummary {
    fn from(row: SummaryRow) -> LedgerSummary {
        let (agent, is_hit, is_failure) = match row {
            SummaryRow::Failed(agent, is_hit, is_failure) => (agent, is_hit, is_failure),
            SummaryRow::Found(agent, is_hit) => (agent, is_hit, false),
        };
        LedgerSummary { agent, is_hit, is_failure }
    }
}

impl From<LedgerSummary> for SummaryRow {
    fn from(summary: LedgerSummary) -> SummaryRow {
        let LedgerSummary { agent, is_hit, is_failure } = summary;
        match is_failure {
            true => SummaryRow::Failed(agent, is_hit, true),
            false => SummaryRow::Found(agent, is_hit),
        }
    }
}

/// The author of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    #[default]
    Main,
    /// A rule of the policy fixes who follows: MAIN was not asked.
    Rule,
}

impl DecidedBy {
    fn is_main(&self) -> bool {
        *self == DecidedBy::Main
    }
}

/// A decision that holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// Not in version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<Decision>>,
    #[serde(default, skip_serializing_if = "DecidedBy::is_main")]
    pub by: DecidedBy,
    /// As MAIN wrote it, in version 1.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// Hashes of the plan before and after it.
    pub plan_before: String,
    pub plan_after: String,
    /// As history says it.
    pub plan_summary: String,
    /// Statuses that changed.
    pub plan_changes: usize,
    /// In FINISH_CHECK: the reasons why FINISH is refused; none if it is accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
}

/// What code keeps of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportFacts {
    pub agent: AgentName,
    pub iteration: Iteration,
    pub verdict: Option<String>,
    pub outcome: Option<Outcome>,
    /// With their class tags.
    pub blockers: Vec<String>,
    pub classes: Vec<String>,
    /// Tasks of the plan that it names.
    pub tasks: Vec<String>,
    /// Tasks of the plan that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<String>,
    /// For each blocker, the tasks that it names, by their ids or by files of their acceptance. An
    /// empty list: it is about all tasks of the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocker_tasks: Vec<Vec<String>>,
    /// The first of the agent's own summary fields: what was judged or made, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The percentage that the policy asks the tester for.
    #[serde(rename = "coverage")]
    pub percent: Option<u32>,
    /// Why a pass does not count; the outcome is then a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overturned: Option<String>,
}

/// Files as they were when somebody looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSeen {
    /// Of all of them together.
    pub digest: String,
    pub files: Vec<SeenFile>,
    /// Paths at which no file could be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenFile {
    pub path: String,
    pub bytes: u64,
    pub digest: String,
}

/// The figures of one evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    pub number: u32,
    /// Where everything of it lies, from the project's root.
    pub folder: String,
    pub total: u64,
    pub passed: u64,
    pub failed: u64,
    /// Samples that could not be judged.
    pub errors: u64,
    /// Failed samples that a critical problem touches.
    pub critical: u64,
    pub problems: Vec<FoundProblem>,
    /// Digests of what was evaluated: a change of one is a repair of its layer.
    pub tools: String,
    pub checkers: String,
    pub spent: Spent,
}

/// A problem that an evaluation found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundProblem {
    pub problem_id: String,
    pub is_critical: bool,
    pub title: String,
    pub affected: u64,
}

/// How a sub-loop ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubloopEnd {
    pub success: bool,
    pub final_test_verdict: Option<String>,
    pub iterations: u32,
    pub exit_condition: ExitCondition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitCondition {
    Pass,
    Maximum,
    Timeout,
    ExecutorError,
    /// What is left is not the fixer's to repair.
    NotRepairable,
}

/// Who asks a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Asker {
    Main,
    /// Code did, because the run is stuck.
    Escalation,
    /// Code did, because nothing may go on without a person's word.
    Approval,
}

/// Why a run stopped without being finished. It can be resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "why")]
pub enum Stop {
    /// An answer broke the protocol and was not corrected.
    Protocol(String),
    /// A budget is used up.
    Limit(String),
    /// The same again, with the same outcome.
    Loop(String),
    /// An executor cannot work at all.
    Executor(String),
    /// A person asked for it.
    Person(String),
}

impl Stop {
    pub fn why(&self) -> &str {
        match self {
            Stop::Protocol(why)
            | Stop::Limit(why)
            | Stop::Loop(why)
            | Stop::Executor(why)
            | Stop::Person(why) => why,
        }
    }
}
