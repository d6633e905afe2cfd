//! A domain: its agents, prompts and policy. Goes in: the files of a pack's folder, by path.
//! Comes out: a checked `Pack` in one language, or every problem with file and place. Prompts are
//! checked against the policy: an example that the parsers refuse would teach agents to fail.

mod prompt;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::id::{AgentName, FINISH_REVIEW, MAIN, RESERVED, SUMMARY, SYSTEM};
use crate::messages::Language;
use crate::plan::Plan;
use crate::policy::{self, Policy};
use crate::problem::{Problem, nearest};
use crate::text;

pub use prompt::check as check_prompt;

pub const MANIFEST: &str = "pack.toml";
const POLICY: &str = "policy.json";

/// The files of a pack: path in the folder, with `/`, to text.
pub type Files = BTreeMap<String, String>;

/// `pack.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Lower case letters, digits and `-`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Each has a folder of its own: `en`, `zh`, …
    pub languages: Vec<String>,
    /// All-capital words of the prompts that are no agents, verdicts or statuses.
    #[serde(default)]
    pub words: Vec<String>,
    pub agents: Vec<Agent>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    pub name: AgentName,
    /// One line for people.
    pub role: String,
    /// It may change the project's files, so a pass before it no longer counts.
    pub writes: bool,
    /// How it keeps within its window, unless `[agents.NAME] profile` says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// A pack in one language, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Pack {
    pub manifest: Manifest,
    pub language: String,
    pub policy: Policy,
    /// By agent; MAIN, FINISH_REVIEW, SUMMARY and, where the pack has it, SYSTEM among them.
    pub prompts: BTreeMap<AgentName, String>,
    /// What `init` writes for a person to fill.
    pub global_context: String,
    pub dev_plan: String,
}

impl Manifest {
    pub fn read(files: &Files) -> Result<Manifest, Vec<Problem>> {
        let Some(source) = files.get(MANIFEST) else {
            let message = format!("there is no `{MANIFEST}` in the folder");
            return Err(vec![Problem::new("pack-no-manifest", message)]);
        };
        let document = Document::toml(source).map_err(|problem| vec![problem.in_file(MANIFEST)])?;
        let document = document.named(MANIFEST);
        let manifest: Manifest = document.read().map_err(|problem| vec![problem])?;
        let problems = manifest.problems(&document);
        if problems.is_empty() { Ok(manifest) } else { Err(problems) }
    }

    pub fn agent_names(&self) -> Vec<AgentName> {
        self.agents.iter().map(|agent| agent.name.clone()).collect()
    }

    /// Everybody who has a prompt, or may have one.
    pub fn prompt_names(&self) -> Vec<AgentName> {
        let others = [MAIN, FINISH_REVIEW, SUMMARY, SYSTEM];
        let others = others.map(|name| AgentName::new(name).expect("a valid name"));
        self.agent_names().into_iter().chain(others).collect()
    }

    fn problems(&self, document: &Document) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut fail = |path: &str, message: String| {
            problems.push(
                document
                    .locate_at(Problem::new("pack-manifest", format!("{path}: {message}")), path),
            );
        };
        if !is_slug(&self.name) {
            fail("name", "lower case letters, digits and `-` only".into());
        }
        let is_line = |text: &str| {
            !text::is_blank(text) && !text.chars().any(|c| c.is_control() || text::is_invisible(c))
        };
        if !is_line(&self.title) {
            fail("title", "one line of plain text is needed".into());
        }
        if self.words.len() > 200 {
            fail("words", "more than 200 words are no exceptions any more".into());
        }
        if self.languages.is_empty() {
            fail("languages", "at least one language is needed".into());
        }
        for (index, language) in self.languages.iter().enumerate() {
            if !is_slug(language) || self.languages[..index].contains(language) {
                fail(&format!("languages.{index}"), "a short name such as `en`, once".into());
            }
        }
        if self.agents.is_empty() {
            fail("agents", "at least one agent is needed".into());
        }
        for (index, agent) in self.agents.iter().enumerate() {
            let path = format!("agents.{index}.name");
            if !is_line(&agent.role) {
                fail(&format!("agents.{index}.role"), "one line of plain text is needed".into());
            }
            if RESERVED.contains(&agent.name.as_str()) {
                fail(&path, format!("`{}` is a word of the workflow", agent.name));
            }
            if self.agents[..index].iter().any(|other| other.name == agent.name) {
                fail(&path, format!("`{}` stands here twice", agent.name));
            }
        }
        problems
    }
}

impl Pack {
    /// The language of what Baton says around the pack's own prompts.
    pub fn words(&self) -> Language {
        Language::of(&self.language)
    }

    /// The beginning of the built-in agent's system prompt as this agent: who works here, and how.
    pub fn conduct(&self, agent: &AgentName) -> String {
        let own = self.prompts.iter().find(|(name, _)| **name == *SYSTEM);
        match own {
            Some((_, text)) => text.trim_end().replace("{agent}", agent.as_str()),
            None => self.words().default_conduct(agent),
        }
    }

    /// The pack in one of its languages. Warnings do not stop it; `check` lists them.
    pub fn read(files: &Files, language: &str) -> Result<Pack, Vec<Problem>> {
        let manifest = Manifest::read(files)?;
        if !manifest.languages.iter().any(|own| own == language) {
            let message = format!(
                "the pack `{}` has no language `{}`",
                manifest.name,
                text::shown(language, 20)
            );
            return Err(vec![
                Problem::new("pack-no-language", message).one_of(language, &manifest.languages),
            ]);
        }
        let document = policy_document(files, language, "")?;
        let policy = Policy::read(&document)?;
        let mut problems = agent_problems(&policy, &document, &manifest.agent_names());
        let mut prompts = BTreeMap::new();
        for name in manifest.prompt_names() {
            let path = prompt_path(language, &name);
            match files.get(&path) {
                Some(prompt) if !prompt.trim().is_empty() => {
                    prompts.insert(name, prompt.clone());
                }
                None if name == *SYSTEM => {}
                Some(_) => problems
                    .push(Problem::new("pack-empty-prompt", "the prompt is empty").in_file(path)),
                None => {
                    let message = format!("the prompt of `{name}` is missing");
                    problems.push(Problem::new("pack-no-prompt", message).in_file(path));
                }
            }
        }
        let template =
            |name: &str| files.get(&format!("{language}/{name}")).cloned().unwrap_or_default();
        let (global_context, dev_plan) = (template("global_context.md"), template("dev_plan.md"));
        if let Err(wrong) = Plan::read(&dev_plan, &policy.plan) {
            let path = format!("{language}/dev_plan.md");
            problems.extend(wrong.into_iter().map(|problem| problem.in_file(&path)));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let language = language.to_owned();
        Ok(Pack { manifest, language, policy, prompts, global_context, dev_plan })
    }

    /// What is wrong or odd in one of the pack's prompts.
    pub fn prompt_problems(&self, name: &AgentName, prompt: &str) -> Vec<Problem> {
        check_prompt(name, prompt, &self.policy, &self.manifest)
    }
}

/// The pack's policy in one language: the common rules, under the words of the language. A
/// blackboard's own policy is laid over it. `label` goes before the file names in problems.
pub fn policy_document(
    files: &Files,
    language: &str,
    label: &str,
) -> Result<Document, Vec<Problem>> {
    let local = format!("{language}/{POLICY}");
    let mut document: Option<Document> = None;
    for path in [POLICY, &local] {
        let Some(source) = files.get(path) else { continue };
        let name = format!("{label}{path}");
        let layer =
            Document::json(source).map_err(|problem| vec![problem.in_file(&name)])?.named(&name);
        document = Some(match document {
            Some(below) => below.overlaid(layer, policy::merges),
            None => layer,
        });
    }
    document.ok_or_else(|| {
        let message = format!("there is neither `{POLICY}` nor `{local}` in the folder");
        vec![Problem::new("pack-no-policy", message)]
    })
}

/// Agents that a policy names and that the pack does not have.
pub fn agent_problems(policy: &Policy, document: &Document, agents: &[AgentName]) -> Vec<Problem> {
    let known = |path: &str, name: &AgentName| {
        agents.contains(name) || (*name == FINISH_REVIEW && path.starts_with("context."))
    };
    policy
        .agents_named()
        .into_iter()
        .filter(|(path, name)| !known(path, name))
        .map(|(path, name)| {
            let message = format!("{path}: there is no agent `{name}`");
            let problem =
                Problem::new("policy-unknown-agent", message).one_of(name.as_str(), agents);
            document.locate_at(problem, &path)
        })
        .collect()
}

/// Everything that is wrong or odd with a pack, in all its languages.
pub fn check(files: &Files) -> Vec<Problem> {
    let manifest = match Manifest::read(files) {
        Ok(manifest) => manifest,
        Err(problems) => return problems,
    };
    let mut problems = Vec::new();
    for language in &manifest.languages {
        match Pack::read(files, language) {
            Err(wrong) => problems.extend(wrong),
            Ok(pack) => {
                for (name, prompt) in &pack.prompts {
                    let path = prompt_path(language, name);
                    let found = pack.prompt_problems(name, prompt);
                    problems.extend(found.into_iter().map(|problem| problem.in_file(&path)));
                }
            }
        }
    }
    let known = known_paths(&manifest);
    for path in files.keys().filter(|path| !known.contains(path) && is_relevant(path)) {
        let message =
            format!("`{}` is not a file of a pack and is not read", text::shown(path, 80));
        let mut problem = Problem::warning("pack-unknown-file", message);
        problem.did_you_mean = nearest(path, &known).map(str::to_owned);
        problems.push(problem);
    }
    problems
}

fn known_paths(manifest: &Manifest) -> Vec<String> {
    let mut known = vec![MANIFEST.to_owned(), POLICY.to_owned()];
    for language in &manifest.languages {
        known.push(format!("{language}/{POLICY}"));
        known.push(format!("{language}/global_context.md"));
        known.push(format!("{language}/dev_plan.md"));
        known.extend(manifest.prompt_names().iter().map(|name| prompt_path(language, name)));
    }
    known
}

/// A README or a licence beside a pack is nobody's mistake.
fn is_relevant(path: &str) -> bool {
    path.contains('/') || path.ends_with(".json") || path.ends_with(".toml")
}

fn prompt_path(language: &str, name: &AgentName) -> String {
    format!("{language}/prompts/{}", prompt_file(name))
}

/// As in `memory/prompts/` of a blackboard.
pub fn prompt_file(name: &AgentName) -> String {
    format!("subagent_prompt_{}.md", name.file_stem())
}

/// The agent whose prompt a file of `memory/prompts/` is.
pub fn prompt_agent(file: &str) -> Option<AgentName> {
    AgentName::from_file_stem(file.strip_prefix("subagent_prompt_")?.strip_suffix(".md")?)
}

fn is_slug(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
