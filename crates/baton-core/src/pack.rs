//! A domain: its agents, prompts and policy. Goes in: the files of a pack's folder, by path.
//! Comes out: a checked `Pack` in one language, or every problem with file and place. Prompts are
//! checked against the policy: an example that the parsers refuse would teach agents to fail.

mod label;
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

pub use label::Label;
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
    /// One line for people, or one for each language: `{ en = "…", zh = "…" }`.
    pub title: Label,
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
    /// One line for people, or one for each language.
    pub role: Label,
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
        let (manifest, problems) = Manifest::read_checked(files)?;
        if problems.is_empty() { Ok(manifest) } else { Err(problems) }
    }

    /// The same, also where some of it is wrong: the other files can still be checked.
    fn read_checked(files: &Files) -> Result<(Manifest, Vec<Problem>), Vec<Problem>> {
        let Some(source) = files.get(MANIFEST) else {
            let message = format!("there is no `{MANIFEST}` in the folder");
            return Err(vec![Problem::new("pack-no-manifest", message)]);
        };
        let document = Document::toml(source).map_err(|problem| vec![problem.in_file(MANIFEST)])?;
        let document = document.named(MANIFEST);
        let manifest: Manifest = document.read_all()?;
        let problems = manifest.problems(&document);
        Ok((manifest, problems))
    }

    /// The same for users of one language: a line that is there for each becomes the one of it.
    #[must_use]
    pub fn spoken(mut self, language: &str) -> Manifest {
        let agents = self.agents.iter_mut().map(|agent| &mut agent.role);
        for label in agents.chain([&mut self.title]) {
            *label = Label::from(label.of(language));
        }
        self
    }

    /// The language for a user who asked for these, the most wanted first: the first that the pack
    /// has, else English, else the pack's first.
    pub fn language_for<'a>(&'a self, wanted: &[&str]) -> Option<&'a str> {
        let own = |wanted: &str| self.languages.iter().find(|own| *own == wanted);
        let found = wanted.iter().find_map(|wanted| own(wanted)).or_else(|| own("en"));
        found.or(self.languages.first()).map(String::as_str)
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

    /// True if it is certain which agents and languages there are.
    fn has_clear_names(&self) -> bool {
        let names: std::collections::BTreeSet<&AgentName> =
            self.agents.iter().map(|agent| &agent.name).collect();
        !self.languages.is_empty()
            && names.len() == self.agents.len()
            && !names.iter().any(|name| RESERVED.contains(&name.as_str()))
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
        if let Some(message) = self.title.problem(&self.languages) {
            fail("title", message);
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
            if let Some(message) = agent.role.problem(&self.languages) {
                fail(&format!("agents.{index}.role"), message);
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
        let (pack, problems) = Pack::read_checked(files, manifest, language);
        match pack {
            Some(pack) if problems.is_empty() => Ok(pack),
            _ => Err(problems),
        }
    }

    /// All problems of the files of one language; with the pack, as far as its policy can be read.
    fn read_checked(
        files: &Files,
        manifest: Manifest,
        language: &str,
    ) -> (Option<Pack>, Vec<Problem>) {
        let agents = manifest.agent_names();
        let mut problems = Vec::new();
        let read = policy_document(files, language, "").and_then(|document| {
            let (policy, mut wrong) = Policy::read_checked(&document)?;
            for problem in agent_problems(&policy, &document, &agents) {
                let is_same =
                    |own: &Problem| own.file == problem.file && own.place == problem.place;
                if !wrong.iter().any(is_same) {
                    wrong.push(problem);
                }
            }
            Ok((policy, wrong))
        });
        let policy = match read {
            Ok((policy, wrong)) => {
                problems.extend(wrong);
                Some(policy)
            }
            Err(wrong) => {
                problems.extend(wrong);
                None
            }
        };
        let prompts = prompts(files, &manifest, language, &mut problems);
        let Some(policy) = policy else { return (None, problems) };
        let template =
            |name: &str| files.get(&format!("{language}/{name}")).cloned().unwrap_or_default();
        let (global_context, dev_plan) = (template("global_context.md"), template("dev_plan.md"));
        if let Err(wrong) = Plan::read(&dev_plan, &policy.plan) {
            let path = format!("{language}/dev_plan.md");
            problems.extend(wrong.into_iter().map(|problem| problem.in_file(&path)));
        }
        let manifest = manifest.spoken(language);
        let language = language.to_owned();
        let pack = Pack { manifest, language, policy, prompts, global_context, dev_plan };
        (Some(pack), problems)
    }

    /// What is wrong or odd in one of the pack's prompts.
    pub fn prompt_problems(&self, name: &AgentName, prompt: &str) -> Vec<Problem> {
        check_prompt(name, prompt, &self.policy, &self.manifest)
    }
}

/// The prompts of a language; one that is missing or empty is a problem.
fn prompts(
    files: &Files,
    manifest: &Manifest,
    language: &str,
    problems: &mut Vec<Problem>,
) -> BTreeMap<AgentName, String> {
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
    prompts
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
    let Some(document) = document else {
        let message = format!("there is neither `{POLICY}` nor `{local}` in the folder");
        return Err(vec![Problem::new("pack-no-policy", message)]);
    };
    let agents = Manifest::read(files).map(|own| own.agent_names()).unwrap_or_default();
    Ok(policy::completed(document, Language::of(language), &agents))
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
    let (manifest, mut problems) = match Manifest::read_checked(files) {
        Ok(read) => read,
        Err(problems) => return problems,
    };
    if !manifest.has_clear_names() {
        // All other files would be called wrong for it.
        return problems;
    }
    for language in &manifest.languages {
        let (pack, wrong) = Pack::read_checked(files, manifest.clone(), language);
        for problem in wrong {
            // The common policy is read once for each language.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        let prompts = pack.iter().flat_map(|pack| pack.prompts.iter().map(move |own| (pack, own)));
        for (pack, (name, prompt)) in prompts {
            let path = prompt_path(language, name);
            let found = pack.prompt_problems(name, prompt);
            problems.extend(found.into_iter().map(|problem| problem.in_file(&path)));
        }
    }
    let known = known_paths(&manifest);
    for path in files.keys().filter(|path| !known.contains(path) && is_relevant(path)) {
        let message =
            format!("`{}` is not a file of a pack and is not read", text::shown(path, 80));
        let mut problem = Problem::warning("pack-unknown-file", message);
        problem.did_you_mean = nearest(path, &known).map(str::to_owned);
        problems.push(problem.in_file(path));
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

/// A manifest with another name, and with only one of its languages where one is given. Everything else
/// stays as it is written.
pub fn with_name(text: &str, name: &str, language: Option<&str>) -> Result<String, Problem> {
    let mut text = text.to_owned();
    let document = Document::toml(&text)?;
    let manifest: Manifest = document.read()?;
    let quoted = |line: &str| serde_json::Value::from(line).to_string();
    let mut edits = vec![("name".to_owned(), quoted(name))];
    if let Some(language) = language {
        edits.push(("languages".to_owned(), format!("[{}]", quoted(language))));
        let roles = manifest.agents.iter().enumerate();
        let labels = roles.map(|(index, agent)| (format!("agents.{index}.role"), &agent.role));
        let labels = labels.chain([("title".to_owned(), &manifest.title)]);
        edits.extend(labels.map(|(path, label)| (path, quoted(label.of(language)))));
    }
    let spans = edits.into_iter().map(|(path, value)| (document.nearest_node(&path).span, value));
    let mut spans: Vec<_> = spans.collect();
    // From the end, so that the places before it stay.
    spans.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, value) in spans {
        text.replace_range(span.start..span.end, &value);
    }
    Ok(text)
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
