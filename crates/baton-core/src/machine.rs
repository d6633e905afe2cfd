//! The tools and limits of the machine that a run works on. They are looked at once, when the run
//! begins, and shown to every agent: no stage has to find out again which tools are installed.

use serde::{Deserialize, Serialize};

use crate::messages::Language;
use crate::policy::{Gate, Policy, ProofRules};
use crate::text;

/// The machine, as a run found it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// Operating system and architecture.
    pub system: String,
    /// Tools for this project that are installed.
    pub tools: Vec<Tool>,
    /// Tools that were looked for and are not installed.
    pub missing: Vec<String>,
    /// Ways to measure the coverage of the tests of the whole project.
    pub coverage: Vec<String>,
    /// The names of the tools that were looked for.
    pub coverage_tools: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<Git>,
}

/// An installed tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    pub name: String,
    /// The first line that it prints about itself.
    pub version: String,
}

/// The work tree when the run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Git {
    /// The commit, where there is one.
    pub head: Option<String>,
    /// Files that were not as committed.
    pub uncommitted: usize,
}

/// The limits of a stage.
#[derive(Debug, Clone, Copy)]
pub struct StageLimits {
    pub stage_seconds: u64,
    /// Time limits of a command: the default and the maximum.
    pub command_seconds: Option<(u64, u64)>,
    pub writes: bool,
    pub network: bool,
    /// True if the policy asks the tester for a figure that tools measure.
    pub asks_measured: bool,
}

/// The figure that tools measure, by its name in a policy.
const MEASURED: &str = "coverage";

/// True if a policy asks the tester for a figure that tools measure.
pub fn is_measured_asked(policy: &Policy) -> bool {
    let is_it = |proof: &ProofRules| proof.least_percent > 0 && proof.percent_field == MEASURED;
    policy.proof.as_ref().is_some_and(is_it)
}

impl Machine {
    /// The facts by which MAIN decides, which has no tools: coverage and gates.
    pub fn facts_for_main(
        &self,
        words: Language,
        gates: &[Gate],
        asks_measured: bool,
    ) -> Vec<String> {
        let coverage = asks_measured.then(|| self.coverage_fact(words));
        coverage.into_iter().chain([gates_fact(words, gates)]).collect()
    }

    /// A fact per line, for the prompts of agents.
    pub fn facts(&self, words: Language, gates: &[Gate], limits: &StageLimits) -> Vec<String> {
        let mut facts = self.tool_facts(words);
        facts.extend(limits.asks_measured.then(|| self.coverage_fact(words)));
        facts.extend(limit_facts(words, limits));
        facts.push(gates_fact(words, gates));
        facts
    }

    /// A fact per line, for an agent that talks with a person.
    pub fn facts_for_talk(&self, now: &str) -> Vec<String> {
        let mut facts = vec![format!("this conversation began: {now} UTC")];
        facts.extend(self.tool_facts(Language::English));
        facts.push("commands run in: bash".to_owned());
        facts.push(match &self.git {
            None => "git: the project is not in a work tree".to_owned(),
            Some(git) => {
                let head = git.head.as_deref().map(|head| head.get(..10).unwrap_or(head));
                let head = head.map_or("no commit yet".to_owned(), |head| format!("commit {head}"));
                let changed = match git.uncommitted {
                    0 => "nothing uncommitted".to_owned(),
                    count => format!("{} not as committed", text::counted(count, "file")),
                };
                format!("git, when the conversation began: {head}, {changed}")
            }
        });
        facts
    }

    fn tool_facts(&self, words: Language) -> Vec<String> {
        let mut facts = Vec::new();
        facts.extend((!self.system.is_empty()).then(|| words.machine_system(&self.system)));
        let tool = |tool: &Tool| match tool.version.is_empty() {
            true => words.machine_tool(&tool.name),
            false => words.machine_tool_version(&tool.name, text::shown(&tool.version, 60)),
        };
        let tools: Vec<String> = self.tools.iter().map(tool).collect();
        if !tools.is_empty() {
            facts.push(words.machine_tools(words.list(&tools)));
        }
        let missing: Vec<String> =
            self.missing.iter().map(|name| words.machine_tool(name)).collect();
        if !missing.is_empty() {
            facts.push(words.machine_missing(words.list(&missing)));
        }
        facts
    }

    /// False for a figure that tools measure, where none of them was found.
    pub fn can_measure(&self, figure: &str) -> bool {
        figure != MEASURED || !self.coverage.is_empty()
    }

    fn coverage_fact(&self, words: Language) -> String {
        let ways: Vec<String> = self.coverage.iter().map(|way| words.machine_tool(way)).collect();
        match ways.is_empty() {
            true => words.machine_no_coverage(),
            false => words.machine_coverage(words.list(&ways)),
        }
    }

    /// A hint how to see the changes of the run.
    pub fn comparison(&self, words: Language) -> Option<String> {
        let git = self.git.as_ref()?;
        let head = git.head.as_deref()?;
        let head = head.get(..10).unwrap_or(head);
        let before = match git.uncommitted {
            0 => String::new(),
            1 => words.one_uncommitted_before(),
            count => words.several_uncommitted_before(count),
        };
        Some(words.compare_with(head, before))
    }
}

fn gates_fact(words: Language, gates: &[Gate]) -> String {
    let all: Vec<String> =
        gates.iter().map(|gate| words.machine_gate(&gate.on, &gate.run)).collect();
    match all.is_empty() {
        true => words.machine_no_gates(),
        false => words.machine_gates(words.clauses(&all)),
    }
}

fn limit_facts(words: Language, limits: &StageLimits) -> [String; 2] {
    let stage = match limits.stage_seconds / 60 {
        0 => words.limit_seconds(limits.stage_seconds),
        minutes => words.minutes(minutes),
    };
    let time = words.machine_time(stage);
    let time = match limits.command_seconds {
        Some((usual, most)) => words.machine_command_time(time, usual, most),
        None => time,
    };
    let place = match limits.writes {
        true => words.machine_writes(),
        false => words.machine_writes_a_copy(),
    };
    let network = if limits.network { String::new() } else { words.machine_no_network() };
    [time, words.machine_files(place, network)]
}
