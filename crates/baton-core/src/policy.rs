//! The rules of a domain, as data: which words are verdicts, which lines are key lines, which
//! statuses a plan has, who may follow whom. Goes in: `verification_policy.json`, laid over the
//! pack's. Comes out: a `Policy` that every other module can trust without looking again.

mod defaults;
mod older;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::id::{AgentName, FINISH, FINISH_REVIEW};
use crate::messages::Language;
use crate::problem::{Problem, list};
use crate::text;

pub use defaults::completed;

/// The prefix of the one key line that every report has.
pub const ITERATION_PREFIX: &str = "iteration:";
/// The class of a blocker that no tag and no word list names.
pub const UNKNOWN_CLASS: &str = "unknown";

/// The code of a rule that asks an agent for a verdict which it does not give.
const NO_VERDICT: &str = "policy-no-verdict";

/// Objects inside of the sections whose keys are fields, and not a map's entries.
const NESTED: [&str; 3] = ["milestones.texts", "context.orders", "approval.texts"];

/// Whether the object at this path merges field by field when a policy is laid over another: a field
/// that is left out, also one that an older version did not know, comes from below. A map such as
/// `report_rules.blocker_classes` is one value: an entry that was deleted must not come back.
pub fn merges(path: &str) -> bool {
    !path.contains('.') || NESTED.contains(&path)
}

/// The whole of `verification_policy.json`. Keys that are not required here are added by `completed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = ["report_rules", "plan"]))]
pub struct Policy {
    /// For editors; not read.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    pub report_rules: ReportRules,
    pub plan: PlanRules,
    #[serde(default)]
    pub routing: Routing,
    pub finish_rules: FinishRules,
    pub milestones: MilestoneRules,
    pub context: ContextRules,
    /// The name is that of older policies.
    #[serde(rename = "tdd_rules", default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofRules>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subloop: Option<Subloop>,
    #[serde(default)]
    pub gates: Vec<Gate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<EvaluationRules>,
    pub escalation: Escalation,
}

/// What a report must say, and in which words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = ["verdict_pass", "verdict_fail"]))]
pub struct ReportRules {
    /// Agents whose reports follow all the rules; the others need only their iteration. Missing: all
    /// agents.
    pub apply_to: Vec<AgentName>,
    /// Missing: true.
    pub require_verdict: bool,
    /// Missing: `verdict:`.
    pub verdict_prefix: String,
    /// An earlier prefix, read where a report does not have the verdict under the one of today.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_verdict_prefix: Option<String>,
    /// Missing: all words of `verdict_pass`, `verdict_fail` and `verdict_blocked`.
    pub verdict_allowed: Vec<String>,
    /// The verdict that says that the work is good, of any script.
    pub verdict_pass: Words,
    /// The verdict that says that it is not.
    pub verdict_fail: Words,
    /// The verdict of an agent that could not do its work.
    #[serde(default)]
    pub verdict_blocked: Words,
    /// Missing: `blockers:`.
    pub blocker_prefix: String,
    /// The word after the blocker prefix when there is none. Missing: `none`.
    pub blocker_clear_value: Words,
    /// The prefix of the line that names the tasks which a report is about. Without it a report is
    /// about the tasks that it names anywhere and that its work order names, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_prefix: Option<String>,
    /// Class (letters of any script, digits, `_`) to the words that show it, tried in this order.
    #[serde(default)]
    pub blocker_classes: IndexMap<String, Vec<String>>,
}

/// One word or several; written as a string when it is one.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema)]
#[schemars(with = "OneOrMany")]
pub struct Words(pub Vec<String>);

#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "the shape of `Words`, for the schema alone")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Serialize for Words {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [only] => serializer.serialize_str(only),
            words => words.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Words, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> serde::de::Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a string or a list of strings")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Words, E> {
        Ok(Words(vec![word.to_owned()]))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Words, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = items.next_element()? {
            words.push(word);
        }
        Ok(Words(words))
    }
}

impl Words {
    pub fn contains(&self, word: &str) -> bool {
        self.0.iter().any(|own| own == word)
    }

    pub fn first(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }
}

/// What a verdict means to the workflow, whatever its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Pass,
    Fail,
    Blocked,
}

impl ReportRules {
    /// Whether all the rules hold for this agent.
    pub fn applies_to(&self, agent: &str) -> bool {
        agent == FINISH_REVIEW || self.apply_to.iter().any(|own| own == agent)
    }

    pub fn outcome(&self, word: &str) -> Option<Outcome> {
        [
            (&self.verdict_pass, Outcome::Pass),
            (&self.verdict_fail, Outcome::Fail),
            (&self.verdict_blocked, Outcome::Blocked),
        ]
        .into_iter()
        .find(|(words, _)| words.contains(word))
        .map(|(_, outcome)| outcome)
    }

    /// The class that the word lists give a blocker, by its beginning.
    pub fn classify(&self, blocker: &str) -> Option<&str> {
        // A blocker says what it is in its first words; a log behind them would only cost time.
        const LOOKED_AT: usize = 500;
        let blocker = blocker[..blocker.floor_char_boundary(LOOKED_AT)].to_lowercase();
        self.blocker_classes
            .iter()
            .find(|(_, words)| words.iter().any(|word| mentions(&blocker, &word.to_lowercase())))
            .map(|(class, _)| class.as_str())
    }
}

/// Whether `word` occurs in `text`, both lower case. ASCII words count only between word borders;
/// scripts without spaces have none.
fn mentions(text: &str, word: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            let open = !is_word(word.chars().next()) || !is_word(text[..at].chars().next_back());
            let behind = text[at + word.len()..].chars().next();
            open && (!is_word(word.chars().next_back()) || !is_word(behind))
        })
}

/// The statuses of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = ["statuses", "verified_by"]))]
pub struct PlanRules {
    /// The statuses of a task, of any script, in order; the first is what a new task gets.
    pub statuses: Vec<String>,
    /// Other words for a status.
    #[serde(default)]
    pub aliases: IndexMap<String, String>,
    /// The status that every task must reach before FINISH. Missing: the last one.
    #[serde(rename = "final")]
    pub final_status: String,
    /// Agents whose pass allows the final status.
    pub verified_by: Vec<AgentName>,
    /// A task gets the final status only if the newest report of a verifier about this very task
    /// passed, and nothing that was found about it is open.
    #[serde(default, skip_serializing_if = "is_false")]
    pub judged_only: bool,
    /// A task whose acceptance names a file of text gets the final status only if the file is there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub files_exist: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl PlanRules {
    /// The status that a word stands for.
    pub fn status<'a>(&'a self, word: &str) -> Option<&'a str> {
        let known = self.statuses.iter().find(|status| *status == word);
        known.or_else(|| self.aliases.get(word)).map(String::as_str)
    }

    pub fn first_status(&self) -> &str {
        self.statuses.first().map_or("", String::as_str)
    }

    /// Every word that may stand for a status.
    pub fn words(&self) -> Vec<&str> {
        self.statuses.iter().chain(self.aliases.keys()).map(String::as_str).collect()
    }
}

/// Who may follow whom.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Routing {
    /// An agent may run only when each of these passed, and what was judged is unchanged.
    pub needs_pass: IndexMap<AgentName, Vec<Needed>>,
    /// Agents that may not run while something that was found about a task is open, unless it is of a
    /// class that they settle themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs_settled: Vec<AgentName>,
    /// For each class of blockers, the agents of which one must have worked on the task with success
    /// before the pass of a verifier settles the finding. Any pass of a verifier settles the others.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub settled_by: IndexMap<String, Vec<AgentName>>,
    /// The agent that follows one that passed, without asking MAIN. The work orders are in
    /// `context.orders.after_pass`.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub after_pass: IndexMap<AgentName, Succession>,
    /// After a failing report of an agent, one of these must be next (or the person).
    pub after_fail: IndexMap<AgentName, Vec<AgentName>>,
    /// The same after a blocked one.
    pub after_blocked: IndexMap<AgentName, Vec<AgentName>>,
}

/// A pass that an agent needs before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Needed {
    /// The newest report of this agent.
    By(AgentName),
    /// The newest report of `agent` about each task that `of` worked on with success, given
    /// after that work.
    Of(JudgedWork),
}

/// The judgement of one agent about the work of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgedWork {
    pub agent: AgentName,
    pub of: AgentName,
}

impl Needed {
    /// The agent whose pass is needed.
    pub fn agent(&self) -> &AgentName {
        match self {
            Needed::By(agent) => agent,
            Needed::Of(work) => &work.agent,
        }
    }

    /// Every agent that it names, each once.
    fn named(&self) -> impl Iterator<Item = &AgentName> {
        let other = Some(self.subject()).filter(|own| *own != self.agent());
        std::iter::once(self.agent()).chain(other)
    }

    /// The agent whose files must be unchanged.
    pub fn subject(&self) -> &AgentName {
        match self {
            Needed::By(agent) => agent,
            Needed::Of(work) => &work.of,
        }
    }
}

/// The agent that follows a pass by rule, and the status of the tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Succession {
    pub next: AgentName,
    /// The status that the tasks of the report get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Only when every task of the plan then has the last status but one, or the final one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub when_all_done: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = []))]
pub struct FinishRules {
    /// The user is asked after this number of refused finishes. Missing: 3.
    pub max_finish_attempts: u32,
    /// Agents whose newest report must be a pass that counts before FINISH is accepted. Missing or
    /// empty: those of `plan.verified_by`.
    #[serde(default)]
    pub passes: Vec<AgentName>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = []))]
pub struct MilestoneRules {
    /// An update of more statuses than this is a milestone. Missing: 5.
    pub plan_changes_over: u32,
    /// The agent whose first pass, and every pass after a fail, is a milestone. Missing: the first of
    /// `plan.verified_by`.
    pub pass_of: AgentName,
    pub texts: MilestoneTexts,
}

/// How milestones read in history. Missing: in the pack's language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = []))]
pub struct MilestoneTexts {
    /// `{choice}` is what the person chose.
    pub user_decision: String,
    /// `{n}` is the number of the attempt.
    pub finish_attempt: String,
    /// `{n}` is the number of changed statuses.
    pub plan_update: String,
    pub first_pass: String,
    pub pass_again: String,
}

/// What prompts carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextRules {
    /// The agents whose reports an agent is shown. Missing: all others.
    #[serde(default)]
    pub relevant_reports: IndexMap<AgentName, Vec<AgentName>>,
    /// Whose reports step down to a summary, in this order, when FINISH_CHECK does not fit. Missing:
    /// all agents.
    #[serde(default)]
    pub finish_ladder: Vec<AgentName>,
    /// Headings of the sections that hold key changes.
    #[serde(default)]
    pub key_change_headings: Vec<String>,
    /// Headings of the section that holds the evidence.
    #[serde(default)]
    pub evidence_headings: Vec<String>,
    /// Headings of the section in which an agent notes what it noticed besides its order.
    #[serde(default = "note_headings")]
    pub note_headings: Vec<String>,
    /// Headings of the section with facts about the project, kept for the agents that follow.
    #[serde(default = "project_note_headings")]
    pub project_note_headings: Vec<String>,
    /// What Baton itself tells agents, in the pack's language.
    #[serde(default)]
    pub orders: Orders,
    /// For each agent, field to the labels (line prefixes or headings) that hold it.
    #[serde(default)]
    pub summary_fields: IndexMap<AgentName, IndexMap<String, Vec<String>>>,
}

fn note_headings() -> Vec<String> {
    ["Notes", "备注"].map(str::to_owned).to_vec()
}

fn project_note_headings() -> Vec<String> {
    ["Project notes", "项目笔记"].map(str::to_owned).to_vec()
}

/// Orders that code gives; `{iteration}` is the number of the iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Orders {
    /// To the fixer of the sub-loop, behind the failing report.
    pub fixer: String,
    /// To the tester of the sub-loop, behind the fixer's report.
    pub tester: String,
    /// To FINISH_REVIEW.
    pub finish_review: String,
    /// To MAIN, at the end of FINISH_CHECK.
    pub finish_check: String,
    /// Before the exact error, to an agent whose answer was refused.
    pub correction: String,
    /// Before the words of a user who wants files changed.
    pub changes: String,
    /// For each agent of `routing.after_pass`, the order to the one that follows it. `{agent}` is who
    /// passed, `{tasks}` the tasks with their acceptance, `{files}` the files that it changed.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub after_pass: IndexMap<AgentName, String>,
}

impl Default for Orders {
    fn default() -> Orders {
        older::orders(Language::English)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProofRules {
    /// No work order to the fixer for a marked task that no report of the tester names.
    #[serde(rename = "test_first")]
    pub before_work: bool,
    /// A marked task is done only after a passing report of the tester names it.
    #[serde(rename = "test_required_gate")]
    pub before_done: bool,
    /// The field of a task that marks it, with the value `true`.
    #[serde(default = "older::task_field", skip_serializing_if = "older::is_task_field")]
    pub task_field: String,
    /// The least percentage that the tester must report.
    #[serde(rename = "min_coverage")]
    pub least_percent: u32,
    /// The field of the tester's report with that percentage, by its name in `summary_fields`.
    #[serde(default = "older::percent_field", skip_serializing_if = "older::is_percent_field")]
    pub percent_field: String,
}

/// The quick repair loop between two agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subloop {
    pub tester: AgentName,
    pub fixer: AgentName,
    /// Blocker classes that the fixer can resolve.
    pub enter_on: Vec<String>,
    pub max: u32,
    /// Seconds for each agent call.
    pub timeout: u32,
}

/// A command that Baton runs itself to confirm a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// An agent of the pack, FINISH, or a list of them.
    pub on: Agents,
    pub run: String,
    /// Seconds.
    #[serde(default = "Gate::default_timeout")]
    pub timeout: u32,
    /// What it may do beyond what a confined command may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allowed>,
}

/// An exception from the confinement of a gate.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Allowed {
    /// TCP and UDP to anywhere.
    Network,
    /// Reading all that the user may read of the home folder, keys included.
    Home,
    /// Everything that the user may do, but for the blackboard and the project, which it sees as
    /// any gate does.
    Everything,
}

impl Allowed {
    /// Its name in the policy and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Allowed::Network => "network",
            Allowed::Home => "home",
            Allowed::Everything => "everything",
        }
    }
}

impl Gate {
    pub const TIMEOUT: u32 = 600;

    fn default_timeout() -> u32 {
        Gate::TIMEOUT
    }

    pub fn allows(&self, what: Allowed) -> bool {
        self.allow.contains(&what)
    }

    /// Its exceptions, for the user: ` (allowed: network)`, or nothing.
    pub fn exceptions(&self) -> String {
        let names: Vec<&str> = self.allow.iter().map(|own| own.as_str()).collect();
        match names.is_empty() {
            true => String::new(),
            false => format!(" (allowed: {})", names.join(", ")),
        }
    }

    /// True if it confirms the pass of this agent, or FINISH.
    pub fn is_on(&self, name: &str) -> bool {
        self.on.0.iter().any(|agent| agent == name)
    }
}

/// One agent or several; written as a string when it is one.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema)]
#[schemars(with = "OneOrMany")]
pub struct Agents(pub Vec<AgentName>);

impl std::fmt::Display for Agents {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.0.iter().map(AgentName::as_str).collect();
        out.write_str(&names.join(", "))
    }
}

impl From<AgentName> for Agents {
    fn from(name: AgentName) -> Agents {
        Agents(vec![name])
    }
}

impl Serialize for Agents {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [only] => only.serialize(serializer),
            names => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Agents {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Agents, D::Error> {
        deserializer.deserialize_any(AgentsVisitor)
    }
}

struct AgentsVisitor;

impl<'de> serde::de::Visitor<'de> for AgentsVisitor {
    type Value = Agents;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a string or a list of strings")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Agents, E> {
        AgentName::new(name).map(Agents::from).map_err(E::custom)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Agents, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = items.next_element()? {
            names.push(name);
        }
        Ok(Agents(names))
    }
}

/// Stands for the run's scenario in the paths of a policy.
pub const SCENARIO: &str = "{scenario}";

/// What a person must have agreed to before an agent may run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// Who may not run before.
    pub before: AgentName,
    /// To whom the person's wishes go.
    pub changes_to: AgentName,
    /// Their names in a handoff, and where they are from the project's root; `{scenario}` is the
    /// run's. An answer holds for exactly their content.
    pub files: IndexMap<String, String>,
    /// The file in which the approved files are handed over, from the project's root.
    #[serde(default = "older::approved", skip_serializing_if = "older::is_approved")]
    pub package: String,
    #[serde(default)]
    pub texts: ApprovalTexts,
}

/// The question, in the pack's language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalTexts {
    pub title: String,
    /// `{files}` are the files, with their sizes and digests.
    pub text: String,
    pub approve: String,
    pub change: String,
}

impl Default for ApprovalTexts {
    fn default() -> ApprovalTexts {
        ApprovalTexts {
            title: older::APPROVAL_TITLE.to_owned(),
            text: "Nothing is executed before a person has approved exactly these files:\n{files}"
                .to_owned(),
            approve: "Approve them as they are".to_owned(),
            change: "Change them; write what as a comment".to_owned(),
        }
    }
}

/// Samples that Baton runs itself to confirm a pass, and what follows from their figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluationRules {
    /// Whose pass they confirm.
    pub of: AgentName,
    /// Who gets the work when repairing it does not help.
    pub back_to: AgentName,
    /// The file in which the result is handed back, in the evaluation's folder.
    #[serde(default = "older::returned", skip_serializing_if = "older::is_returned")]
    pub package: String,
    /// Samples that must pass, percent of all.
    #[serde(default = "EvaluationRules::success")]
    pub success_percent: u32,
    /// Back when critical problems touch more of the failed samples than this.
    #[serde(default = "EvaluationRules::critical")]
    pub critical_percent: u32,
    /// Back when the last evaluations gained less than this, …
    #[serde(default = "EvaluationRules::gain")]
    pub gain_percent: u32,
    /// … of which there were so many.
    #[serde(default = "EvaluationRules::within")]
    pub gain_within: u32,
    /// Back when the same critical problem came so often.
    #[serde(default = "EvaluationRules::same")]
    pub same_critical: u32,
    /// Back after more repairs of the tools (layer 2) than this.
    #[serde(default = "EvaluationRules::layer2")]
    pub layer2_most: u32,
    /// And of the checkers (layer 3).
    #[serde(default = "EvaluationRules::layer3")]
    pub layer3_most: u32,
}

impl EvaluationRules {
    fn success() -> u32 {
        85
    }
    fn critical() -> u32 {
        30
    }
    fn gain() -> u32 {
        2
    }
    fn within() -> u32 {
        5
    }
    fn same() -> u32 {
        3
    }
    fn layer2() -> u32 {
        5
    }
    fn layer3() -> u32 {
        10
    }
}

/// When the person is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = []))]
pub struct Escalation {
    /// Iterations running with the same blocker. Missing: 3.
    pub same_blocker: u32,
    /// Iterations without a change of the plan. Missing: 5.
    pub no_plan_change: u32,
    /// Blocker classes that only a person can resolve.
    #[serde(default)]
    pub classes: Vec<String>,
}

impl Policy {
    /// Reads a policy; `document` is the blackboard's own laid over the pack's.
    pub fn read(document: &Document) -> Result<Policy, Vec<Problem>> {
        let (policy, problems) = Policy::read_checked(document)?;
        if problems.is_empty() { Ok(policy) } else { Err(problems) }
    }

    /// As `read`, with the policy also where some of its rules are wrong: a pack's other files can
    /// still be checked against the rest.
    pub(crate) fn read_checked(
        document: &Document,
    ) -> Result<(Policy, Vec<Problem>), Vec<Problem>> {
        let policy = document.read_all::<Policy>()?.with_defaults();
        let problems = policy.problems(document);
        Ok((policy, problems))
    }

    /// Whoever verifies tasks must also have passed before the run may end, unless the policy says
    /// more.
    fn with_defaults(mut self) -> Policy {
        if self.finish_rules.passes.is_empty() {
            self.finish_rules.passes.clone_from(&self.plan.verified_by);
        }
        self
    }

    /// The problems of the rules; `document` is where they were read.
    fn problems(&self, document: &Document) -> Vec<Problem> {
        let mut check = Check { document, problems: Vec::new() };
        check.report_rules(&self.report_rules);
        check.plan(&self.plan);
        check.judges(self);
        check.routing(self);
        check.subloop(self);
        check.milestones(&self.milestones);
        check.limits(self);
        check.approval(self);
        check.problems
    }

    /// As JSON, the way people read it.
    pub fn render(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a policy holds only plain data");
        text.push('\n');
        text
    }

    /// Every agent that the policy names, with the path of the naming.
    pub fn agents_named(&self) -> Vec<(String, &AgentName)> {
        fn all<'a>(path: &str, agents: &'a [AgentName], out: &mut Vec<(String, &'a AgentName)>) {
            out.extend(agents.iter().enumerate().map(|(i, agent)| (format!("{path}.{i}"), agent)));
        }
        let mut out = Vec::new();
        all("report_rules.apply_to", &self.report_rules.apply_to, &mut out);
        all("plan.verified_by", &self.plan.verified_by, &mut out);
        // Those of a policy that names none are the verifiers.
        let passes = self.finish_rules.passes.iter().enumerate();
        let own = passes.filter(|(_, agent)| !self.plan.verified_by.contains(agent));
        out.extend(own.map(|(index, agent)| (format!("finish_rules.passes.{index}"), agent)));
        for (agent, needed) in &self.routing.needs_pass {
            let path = format!("routing.needs_pass.{agent}");
            out.push((path.clone(), agent));
            for (index, needed) in needed.iter().enumerate() {
                out.extend(needed.named().map(|own| (format!("{path}.{index}"), own)));
            }
        }
        all("routing.needs_settled", &self.routing.needs_settled, &mut out);
        for (class, agents) in &self.routing.settled_by {
            all(&format!("routing.settled_by.{class}"), agents, &mut out);
        }
        for (agent, rule) in &self.routing.after_pass {
            out.push((format!("routing.after_pass.{agent}"), agent));
            out.push((format!("routing.after_pass.{agent}.next"), &rule.next));
        }
        out.extend(
            self.context
                .orders
                .after_pass
                .keys()
                .map(|agent| (format!("context.orders.after_pass.{agent}"), agent)),
        );
        for (path, map) in [
            ("routing.after_fail", &self.routing.after_fail),
            ("routing.after_blocked", &self.routing.after_blocked),
            ("context.relevant_reports", &self.context.relevant_reports),
        ] {
            for (agent, others) in map {
                out.push((format!("{path}.{agent}"), agent));
                all(&format!("{path}.{agent}"), others, &mut out);
            }
        }
        out.push(("milestones.pass_of".to_owned(), &self.milestones.pass_of));
        all("context.finish_ladder", &self.context.finish_ladder, &mut out);
        for agent in self.context.summary_fields.keys() {
            out.push((format!("context.summary_fields.{agent}"), agent));
        }
        if let Some(subloop) = &self.subloop {
            out.push(("subloop.tester".to_owned(), &subloop.tester));
            out.push(("subloop.fixer".to_owned(), &subloop.fixer));
        }
        if let Some(approval) = &self.approval {
            out.push(("approval.before".to_owned(), &approval.before));
            out.push(("approval.changes_to".to_owned(), &approval.changes_to));
        }
        if let Some(evaluation) = &self.evaluation {
            out.push(("evaluation.of".to_owned(), &evaluation.of));
            out.push(("evaluation.back_to".to_owned(), &evaluation.back_to));
        }
        for (index, gate) in self.gates.iter().enumerate() {
            let agents = gate.on.0.iter().filter(|agent| **agent != FINISH);
            out.extend(agents.map(|agent| (format!("gates.{index}.on"), agent)));
        }
        out
    }

    /// The passes that a gate confirms if its user does not name them: that of the tester (else of
    /// the first agent that verifies), and FINISH.
    pub fn usual_gate(&self) -> Agents {
        let tester = self.subloop.as_ref().map(|subloop| &subloop.tester);
        let verifier = tester.or(self.plan.verified_by.first()).cloned();
        let finish = AgentName::new(FINISH).ok();
        Agents(verifier.into_iter().chain(finish).collect())
    }
}

/// A name that a report's tag `[class]` can hold.
fn is_class(name: &str) -> bool {
    let is_part = |c: char| c == '_' || (c.is_alphanumeric() && !c.is_uppercase());
    (1..=32).contains(&name.chars().count()) && name.chars().all(is_part) && name != UNKNOWN_CLASS
}

struct Check<'a> {
    document: &'a Document,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn fail(&mut self, path: &str, message: String) {
        let problem = Problem::new("policy-invalid", format!("{path}: {message}"));
        self.problems.push(self.document.locate_at(problem, path));
    }

    fn fail_one_of<S: AsRef<str>>(&mut self, path: &str, word: &str, what: &str, known: &[S]) {
        let message = format!("{path}: {what} `{}` is not known", text::shown(word, 60));
        let problem = Problem::new("policy-unknown-word", message).one_of(word, known);
        self.problems.push(self.document.locate_at(problem, path));
    }

    fn report_rules(&mut self, rules: &ReportRules) {
        self.words("report_rules.verdict_allowed", &rules.verdict_allowed);
        let kinds = [
            ("verdict_pass", &rules.verdict_pass),
            ("verdict_fail", &rules.verdict_fail),
            ("verdict_blocked", &rules.verdict_blocked),
        ];
        for (name, words) in kinds {
            for word in words.0.iter().filter(|word| !rules.verdict_allowed.contains(word)) {
                let path = format!("report_rules.{name}");
                self.fail_one_of(&path, word, "the verdict", &rules.verdict_allowed);
            }
            if words.0.is_empty() && name != "verdict_blocked" {
                self.fail(&format!("report_rules.{name}"), "at least one verdict is needed".into());
            }
        }
        for word in &rules.verdict_allowed {
            let homes: Vec<&str> = kinds
                .iter()
                .filter(|(_, words)| words.contains(word))
                .map(|(name, _)| *name)
                .collect();
            let shown = text::shown(word, 60);
            match homes[..] {
                [_] => {}
                [] => {
                    let message = format!(
                        "`{shown}` means nothing: name it in verdict_pass, verdict_fail or verdict_blocked"
                    );
                    self.fail("report_rules.verdict_allowed", message);
                }
                _ => {
                    let message =
                        format!("`{shown}` stands in {}: only one may hold it", list(&homes));
                    self.fail("report_rules.verdict_allowed", message);
                }
            }
        }
        self.prefixes(rules);
        self.words("report_rules.blocker_clear_value", &rules.blocker_clear_value.0);
        let words: usize = rules.blocker_classes.values().map(Vec::len).sum();
        if words > 2_000 {
            self.fail(
                "report_rules.blocker_classes",
                format!("{words} words are more than the 2000 allowed"),
            );
        }
        for class in rules.blocker_classes.keys() {
            if !is_class(class) {
                let shown = text::shown(class, 40);
                let message = format!(
                    "`{shown}` is not a class name: letters of any script in lower case, digits and `_`, 1 to 32, and not `{UNKNOWN_CLASS}`"
                );
                self.fail(&format!("report_rules.blocker_classes.{class}"), message);
            }
        }
    }

    fn prefixes(&mut self, rules: &ReportRules) {
        let normal = |prefix: &str| prefix.trim().replace('：', ":");
        let mut seen = vec![("the iteration line", normal(ITERATION_PREFIX))];
        for (path, prefix) in [
            ("report_rules.verdict_prefix", &rules.verdict_prefix),
            ("report_rules.blocker_prefix", &rules.blocker_prefix),
            (
                "report_rules.task_prefix",
                rules.task_prefix.as_ref().unwrap_or(&rules.blocker_prefix),
            ),
        ] {
            if path == "report_rules.task_prefix" && rules.task_prefix.is_none() {
                continue;
            }
            let own = normal(prefix);
            if own.is_empty()
                || own.contains(['\n', '\r'])
                || !own.starts_with(char::is_alphanumeric)
            {
                self.fail(path, "a prefix is a word on one line, such as `verdict:`".into());
                continue;
            }
            if let Some((other, _)) =
                seen.iter().find(|(_, old)| old.starts_with(&own) || own.starts_with(old.as_str()))
            {
                self.fail(path, format!("`{}` cannot be told from {other}", text::shown(&own, 40)));
            }
            seen.push((path, own));
        }
    }

    fn plan(&mut self, rules: &PlanRules) {
        self.words("plan.statuses", &rules.statuses);
        if !rules.statuses.contains(&rules.final_status) {
            self.fail_one_of("plan.final", &rules.final_status, "the status", &rules.statuses);
        }
        let aliases: Vec<String> = rules.aliases.keys().cloned().collect();
        if !aliases.is_empty() {
            self.words("plan.aliases", &aliases);
        }
        for (alias, status) in &rules.aliases {
            let path = format!("plan.aliases.{alias}");
            if !rules.statuses.contains(status) {
                self.fail_one_of(&path, status, "the status", &rules.statuses);
            }
            if rules.statuses.contains(alias) {
                self.fail(&path, format!("`{alias}` is a status itself"));
            }
        }
        if rules.verified_by.is_empty() {
            self.fail("plan.verified_by", "at least one agent must be able to verify".into());
        }
    }

    /// Who is asked for a verdict must be held to give one.
    fn judges(&mut self, policy: &Policy) {
        let mut asked: Vec<(String, &AgentName)> =
            vec![("milestones.pass_of".into(), &policy.milestones.pass_of)];
        asked.extend(
            policy.subloop.iter().map(|subloop| ("subloop.tester".to_owned(), &subloop.tester)),
        );
        let verifiers = policy.plan.verified_by.iter().enumerate();
        asked.extend(verifiers.map(|(index, agent)| (format!("plan.verified_by.{index}"), agent)));
        let passes = policy.finish_rules.passes.iter().enumerate();
        let named = passes.filter(|(_, agent)| !policy.plan.verified_by.contains(agent));
        asked.extend(named.map(|(index, agent)| (format!("finish_rules.passes.{index}"), agent)));
        asked.extend(policy.evaluation.iter().map(|own| ("evaluation.of".to_owned(), &own.of)));
        for (agent, needed) in &policy.routing.needs_pass {
            let named = needed.iter().flat_map(Needed::named);
            asked.extend(named.map(|needed| (format!("routing.needs_pass.{agent}"), needed)));
        }
        let successions = policy.routing.after_pass.keys();
        asked.extend(successions.map(|agent| (format!("routing.after_pass.{agent}"), agent)));
        for (path, agent) in asked {
            if !policy.report_rules.applies_to(agent.as_str()) {
                let message = format!(
                    "{path}: `{agent}` gives no verdict, report_rules.apply_to does not name it"
                );
                let problem = Problem::new(NO_VERDICT, message).found(agent.as_str());
                let problem = problem.one_of(agent.as_str(), &policy.report_rules.apply_to);
                self.problems.push(self.document.locate_at(problem, &path));
            }
        }
    }

    fn routing(&mut self, policy: &Policy) {
        let classes: Vec<&String> = policy.report_rules.blocker_classes.keys().collect();
        for class in policy.routing.settled_by.keys() {
            if !classes.contains(&class) {
                let path = format!("routing.settled_by.{class}");
                self.fail_one_of(&path, class, "the blocker class", &classes);
            }
        }
        for (agent, rule) in &policy.routing.after_pass {
            let path = format!("routing.after_pass.{agent}");
            if let Some(status) = &rule.status {
                let statuses = &policy.plan.statuses;
                if *status == policy.plan.final_status {
                    let message = format!("`{status}` is the final status, which only MAIN sets");
                    self.fail(&format!("{path}.status"), message);
                } else if !statuses.contains(status) {
                    self.fail_one_of(&format!("{path}.status"), status, "the status", statuses);
                }
            }
            let order = policy.context.orders.after_pass.get(agent);
            if order.is_none_or(|order| text::is_blank(order)) {
                let path = "context.orders.after_pass";
                self.fail(path, format!("a work order for what follows `{agent}` is missing"));
            }
            if self.comes_back(policy, agent) {
                let message = "this succession leads back to its beginning".to_owned();
                self.fail(&path, message);
            }
        }
    }

    /// True if rules alone would lead from an agent back to it: MAIN would never be asked.
    fn comes_back(&self, policy: &Policy, first: &AgentName) -> bool {
        let rules = &policy.routing.after_pass;
        let mut next = rules.get(first).map(|rule| &rule.next);
        for _ in 0..rules.len() {
            let Some(agent) = next else { return false };
            if agent == first {
                return true;
            }
            next = rules.get(agent).map(|rule| &rule.next);
        }
        false
    }

    fn subloop(&mut self, policy: &Policy) {
        let classes: Vec<&String> = policy.report_rules.blocker_classes.keys().collect();
        if let Some(subloop) = &policy.subloop {
            if subloop.tester == subloop.fixer {
                self.fail(
                    "subloop.fixer",
                    "the fixer must be another agent than the tester".into(),
                );
            }
            self.known_classes("subloop.enter_on", &subloop.enter_on, &classes);
            self.range("subloop.max", subloop.max, 1, 20);
            self.range("subloop.timeout", subloop.timeout, 1, 86_400);
        }
        self.known_classes("escalation.classes", &policy.escalation.classes, &classes);
    }

    fn known_classes(&mut self, path: &str, used: &[String], classes: &[&String]) {
        for (index, class) in used.iter().enumerate().filter(|(_, class)| !classes.contains(class))
        {
            self.fail_one_of(&format!("{path}.{index}"), class, "the blocker class", classes);
        }
    }

    fn milestones(&mut self, rules: &MilestoneRules) {
        let texts = &rules.texts;
        for (name, text, needs) in [
            ("user_decision", &texts.user_decision, "{choice}"),
            ("finish_attempt", &texts.finish_attempt, "{n}"),
            ("plan_update", &texts.plan_update, "{n}"),
            ("first_pass", &texts.first_pass, ""),
            ("pass_again", &texts.pass_again, ""),
        ] {
            let path = format!("milestones.texts.{name}");
            if text.trim().is_empty() || text.contains(['\n', '\r']) {
                self.fail(&path, "one line of text is needed".into());
            } else if !text.contains(needs) {
                self.fail(&path, format!("`{needs}` is missing in `{}`", text::shown(text, 60)));
            }
        }
    }

    fn limits(&mut self, policy: &Policy) {
        self.range(
            "finish_rules.max_finish_attempts",
            policy.finish_rules.max_finish_attempts,
            1,
            100,
        );
        self.range("escalation.same_blocker", policy.escalation.same_blocker, 2, 1_000);
        self.range("escalation.no_plan_change", policy.escalation.no_plan_change, 1, 1_000);
        if let Some(rules) = &policy.proof {
            self.range("tdd_rules.min_coverage", rules.least_percent, 0, 100);
        }
        for (index, gate) in policy.gates.iter().enumerate() {
            self.range(&format!("gates.{index}.timeout"), gate.timeout, 1, 86_400);
            if gate.run.trim().is_empty() {
                self.fail(&format!("gates.{index}.run"), "a command is needed".into());
            }
            if gate.on.0.is_empty() {
                self.fail(&format!("gates.{index}.on"), "at least one agent is needed".into());
            }
        }
    }

    fn approval(&mut self, policy: &Policy) {
        if let Some(approval) = &policy.approval {
            if approval.files.is_empty() || approval.files.len() > 20 {
                self.fail("approval.files", "1 to 20 files are needed".into());
            }
            for (name, file) in &approval.files {
                self.path(&format!("approval.files.{name}"), file);
            }
            self.path("approval.package", &approval.package);
            for (name, text) in
                [("title", &approval.texts.title), ("approve", &approval.texts.approve)]
            {
                if text.trim().is_empty() {
                    self.fail(&format!("approval.texts.{name}"), "a text is needed".into());
                }
            }
            if approval.before == approval.changes_to {
                let message = "who waits for the approval cannot be who changes the files".into();
                self.fail("approval.changes_to", message);
            }
            if !approval.texts.text.contains("{files}") {
                self.fail("approval.texts.text", "`{files}` is missing".into());
            }
        }
        if let Some(rules) = &policy.evaluation {
            if rules.of == rules.back_to {
                let message = "who is evaluated cannot be who gets the work back".into();
                self.fail("evaluation.back_to", message);
            }
            if rules.package.contains('/') {
                let message = format!("`{}` is not a file name", text::shown(&rules.package, 80));
                self.fail("evaluation.package", message);
            }
            self.path("evaluation.package", &rules.package);
            self.range("evaluation.success_percent", rules.success_percent, 1, 100);
            self.range("evaluation.critical_percent", rules.critical_percent, 0, 100);
            self.range("evaluation.gain_percent", rules.gain_percent, 0, 100);
            self.range("evaluation.gain_within", rules.gain_within, 2, 100);
            self.range("evaluation.same_critical", rules.same_critical, 1, 100);
            self.range("evaluation.layer2_most", rules.layer2_most, 0, 1_000);
            self.range("evaluation.layer3_most", rules.layer3_most, 0, 1_000);
        }
    }

    /// The path of a file from the project's root.
    fn path(&mut self, path: &str, file: &str) {
        let is_name = |part: &str| !part.trim().is_empty() && part != "." && part != "..";
        if !file.split('/').all(is_name) {
            let message = format!("`{}` is not the path of a file", text::shown(file, 80));
            self.fail(path, message);
        }
    }

    fn range(&mut self, path: &str, value: u32, low: u32, high: u32) {
        if !(low..=high).contains(&value) {
            self.fail(path, format!("{value} is not between {low} and {high}"));
        }
    }

    /// A list of single words, none twice.
    fn words(&mut self, path: &str, words: &[String]) {
        if words.is_empty() {
            self.fail(path, "at least one word is needed".into());
        }
        if words.len() > 200 {
            return self.fail(path, format!("{} words are more than the 200 allowed", words.len()));
        }
        for (index, word) in words.iter().enumerate() {
            let path = format!("{path}.{index}");
            if word.is_empty() || word.chars().any(|c| c.is_whitespace() || c.is_control()) {
                self.fail(&path, format!("`{}` is not a single word", text::shown(word, 60)));
            } else if words[..index].contains(word) {
                self.fail(&path, format!("`{}` stands here twice", text::shown(word, 60)));
            }
        }
    }
}
