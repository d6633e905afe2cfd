//! The tools and limits of the machine that a run works on. They are looked at once, when the run
//! begins, and shown to every agent: no stage has to find out again which tools are installed.

use serde::{Deserialize, Serialize};

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
    pub fn facts_for_main(&self, gates: &[Gate], asks_measured: bool) -> Vec<String> {
        let coverage = asks_measured.then(|| self.coverage_fact());
        coverage.into_iter().chain([gates_fact(gates)]).collect()
    }

    /// A fact per line, for the prompts of agents.
    pub fn facts(&self, gates: &[Gate], limits: &StageLimits) -> Vec<String> {
        let mut facts = self.tool_facts();
        facts.extend(limits.asks_measured.then(|| self.coverage_fact()));
        facts.extend(limit_facts(limits));
        facts.push(gates_fact(gates));
        facts
    }

    /// A fact per line, for an agent that talks with a person.
    pub fn facts_for_talk(&self, now: &str) -> Vec<String> {
        let mut facts = vec![format!("this conversation began: {now} UTC")];
        facts.extend(self.tool_facts());
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

    fn tool_facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        facts.extend((!self.system.is_empty()).then(|| format!("system: {}", self.system)));
        let tools: Vec<String> = self
            .tools
            .iter()
            .map(|tool| match tool.version.is_empty() {
                true => tool.name.clone(),
                false => format!("{} ({})", tool.name, text::shown(&tool.version, 60)),
            })
            .collect();
        if !tools.is_empty() {
            facts.push(format!("found: {}", tools.join(", ")));
        }
        if !self.missing.is_empty() {
            facts.push(format!("looked for and not installed: {}", self.missing.join(", ")));
        }
        facts
    }

    /// False for a figure that tools measure, where none of them was found.
    pub fn can_measure(&self, figure: &str) -> bool {
        figure != MEASURED || !self.coverage.is_empty()
    }

    fn coverage_fact(&self) -> String {
        match self.coverage.is_empty() {
            true => {
                "coverage: no tool that measures it for the whole project was found, so it is not asked for".to_owned()
            },
            false => format!("coverage can be measured with: {}", self.coverage.join(", ")),
        }
    }

    /// A hint how to see the changes of the run.
    pub fn comparison(&self) -> Option<String> {
        let git = self.git.as_ref()?;
        let head = git.head.as_deref()?;
        let head = head.get(..10).unwrap_or(head);
        let before = match git.uncommitted {
            0 => String::new(),
            count => format!(
                "; {} not as committed before the run began",
                text::counted(count, "file") + if count == 1 { " was" } else { " were" }
            ),
        };
        Some(format!(
            "see the changes with `git diff {head} -- FILE`, file by file where they are long; new files are not in it, read them{before}"
        ))
    }
}

fn gates_fact(gates: &[Gate]) -> String {
    let all: Vec<String> =
        gates.iter().map(|gate| format!("after {}: `{}`", gate.on, gate.run)).collect();
    match all.is_empty() {
        true => {
            "gates: none are set; Baton runs no command of its own to confirm a pass".to_owned()
        }
        false => format!("gates, which Baton itself runs to confirm a pass: {}", all.join("; ")),
    }
}

fn limit_facts(limits: &StageLimits) -> Vec<String> {
    let mut facts = Vec::new();
    let minutes = limits.stage_seconds / 60;
    let stage = match minutes {
        0 => format!("{} s", limits.stage_seconds),
        _ => format!("{minutes} min"),
    };
    facts.push(match limits.command_seconds {
        Some((usual, most)) => format!(
            "time: {stage} for your whole work; a command {usual} s, or what its `timeout` says (up to {most} s)"
        ),
        None => format!("time: {stage} for your whole work"),
    });
    let place = match limits.writes {
        true => {
            "commands may write the project (but not the blackboard, and no repository inside it) and `$TMPDIR`"
        }
        false => {
            "you change no file of the project; commands may write a private copy of it, which is thrown away when your work ends, and `$TMPDIR`"
        }
    };
    let network = if limits.network {
        ""
    } else {
        "; commands have no network, but reach servers that they start on localhost"
    };
    facts.push(format!("files: {place}, which is emptied between stages{network}"));
    facts
}
