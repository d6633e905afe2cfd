//! A blackboard on disk: finding it, opening it as it is, making a new one. Opening never writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use baton_core::config::Config;
use baton_core::document::{Document, Value};
use baton_core::id::{AgentName, Iteration, RESERVED};
use baton_core::pack::{self, Agent, Files, Manifest, Pack};
use baton_core::policy::{self, Outcome, Policy};
use baton_core::problem::Problem;
use baton_core::{plan, report, text};

use crate::load::{self, Environment};
use crate::{builtin, store};

/// The folder that `init` makes.
pub const FOLDER: &str = ".baton";
/// A folder of the same layout that other tools make; opened in place.
pub const FOREIGN_FOLDER: &str = "orchestrator";

const POLICY_FILE: &str = "memory/verification_policy.json";
const PROMPTS: &str = "memory/prompts";
const CONFIG_FILE: &str = "baton.toml";
/// Before the names of the pack's files, where the blackboard's own could be meant.
const PACK_LABEL: &str = "the pack's ";
/// Where a pack that is not built in is kept.
const PACK_FOLDER: &str = "pack";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no blackboard at {}: it has no `memory` folder", .0.display())]
    NotABoard(PathBuf),
    #[error("{} is already a blackboard (`baton pack use` switches its pack)", .0.display())]
    Exists(PathBuf),
    #[error(
        "there is no pack `{name}`; built in are {known}; a folder with a `pack.toml` is a pack too"
    )]
    NoPack { name: String, known: String },
    /// The pack, the policy or the configuration is wrong; each problem names its file.
    #[error("the blackboard's configuration is wrong")]
    Invalid(Vec<Problem>),
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// What is wrong in the blackboard's texts, when that is the error.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Error::Invalid(problems) | Error::Load(load::Error::Invalid(problems)) => problems,
            _ => &[],
        }
    }
}

/// An opened blackboard.
#[derive(Debug)]
pub struct Board {
    pub root: PathBuf,
    pub config: Config,
    /// The pack with the blackboard's own policy and prompts laid over it.
    pub pack: Pack,
    /// Whether the blackboard tells its pack itself; if not, its agents come from its prompts.
    pub is_own: bool,
    pub warnings: Vec<Problem>,
}

/// The blackboard that `start` or one of its parents holds.
pub fn find(start: &Path) -> Option<PathBuf> {
    start.ancestors().find_map(|folder| {
        [FOLDER, FOREIGN_FOLDER]
            .into_iter()
            .map(|name| folder.join(name))
            .find(|path| is_board(path))
    })
}

/// The blackboard that a file of a blackboard lies in.
pub fn enclosing(file: &Path) -> Option<PathBuf> {
    let file = fs::canonicalize(file).ok()?;
    file.ancestors().skip(1).take(4).find(|folder| is_board(folder)).map(Path::to_owned)
}

fn is_board(path: &Path) -> bool {
    let memory = path.join("memory");
    ["dev_plan.md", "project_history.md", "verification_policy.json", "prompts"]
        .into_iter()
        .any(|name| memory.join(name).exists())
}

impl Board {
    pub fn open(root: &Path, environment: &Environment) -> Result<Board, Error> {
        if !is_board(root) {
            return Err(Error::NotABoard(root.to_owned()));
        }
        let config_file = root.join(CONFIG_FILE);
        let (config, mut warnings) = load::config(environment, Some(&config_file))?;
        let own_policy = own_policy(root)?;
        let own_prompts = own_prompts(root)?;
        let is_own = config_file.exists() && config.pack.is_some();
        let (files, language) = if is_own {
            let name = config.pack.as_deref().unwrap_or(builtin::DEFAULT_PACK);
            let language =
                config.lang.clone().unwrap_or_else(|| builtin::DEFAULT_LANGUAGE.to_owned());
            (pack_files(name, Some(root))?, language)
        } else {
            let choice = guess(&own_prompts, own_policy.as_ref());
            let message = format!(
                "the blackboard names no pack: what it leaves open comes from {}",
                choice.source
            );
            warnings.push(Problem::warning("board-pack-guessed", message));
            (choice.files, choice.language)
        };
        let pack = laid_over(&files, &language, own_policy, own_prompts, is_own)
            .map_err(Error::Invalid)?;
        Ok(Board { root: root.to_owned(), config, pack, is_own, warnings })
    }

    pub fn plan_file(&self) -> PathBuf {
        self.root.join("memory/dev_plan.md")
    }

    pub fn history_file(&self) -> PathBuf {
        self.root.join("memory/project_history.md")
    }

    pub fn report_file(&self, agent: &AgentName) -> PathBuf {
        self.root.join(format!("reports/report_{}.md", agent.file_stem()))
    }

    /// Whether a task may get the final status, as far as the newest reports tell.
    pub fn finality(&self) -> plan::Finality {
        finality(&self.pack, |agent| {
            let bytes = load::bytes(&self.report_file(agent), report::MAX_BYTES).ok()?;
            let expected = report::Expected { agent: agent.clone(), iteration: None };
            let report = report::read(&bytes, &self.pack.policy.report_rules, &expected).ok()?;
            Some((report.iteration, report.verdict.map(|verdict| verdict.outcome)))
        })
    }

    /// What is wrong or odd in the blackboard's prompts. Prompts that another tool's users wrote
    /// were not written for our checks: for them everything is a warning.
    pub fn prompt_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, prompt) in &self.pack.prompts {
            let file = format!("{PROMPTS}/{}", pack::prompt_file(name));
            for mut problem in self.pack.prompt_problems(name, prompt) {
                if !self.is_own {
                    problem.severity = baton_core::problem::Severity::Warning;
                }
                problems.push(problem.in_file(&file));
            }
        }
        problems
    }
}

/// The rule of the final status, over the newest report of each agent.
pub fn finality(
    pack: &Pack,
    newest: impl Fn(&AgentName) -> Option<(Iteration, Option<Outcome>)>,
) -> plan::Finality {
    let verifiers = &pack.policy.plan.verified_by;
    let passes = verifiers.iter().filter_map(|agent| match newest(agent)? {
        (iteration, Some(Outcome::Pass)) => Some((agent, iteration)),
        _ => None,
    });
    let Some((verifier, passed)) = passes.max_by_key(|(_, iteration)| *iteration) else {
        let who = baton_core::problem::list(verifiers);
        return plan::Finality::Refused(format!("no newest report of {who} passed"));
    };
    let writers =
        pack.manifest.agents.iter().filter(|agent| agent.writes && agent.name != *verifier);
    let later = writers.filter_map(|agent| Some((&agent.name, newest(&agent.name)?.0)));
    match later.filter(|(_, iteration)| *iteration > passed).max_by_key(|(_, iteration)| *iteration)
    {
        Some((writer, iteration)) => plan::Finality::Refused(format!(
            "`{verifier}` passed in iteration {passed}, but `{writer}` wrote after it, in iteration {iteration}"
        )),
        None => plan::Finality::Allowed,
    }
}

/// The files of a pack by name (built in, or kept in the blackboard) or by folder.
pub fn pack_files(name: &str, board: Option<&Path>) -> Result<Files, Error> {
    if let Some(files) = builtin::files(name) {
        return Ok(files);
    }
    let kept = board
        .map(|root| root.join(PACK_FOLDER))
        .filter(|folder| folder.join(pack::MANIFEST).exists());
    let folder = kept.unwrap_or_else(|| PathBuf::from(name));
    if !folder.join(pack::MANIFEST).is_file() {
        let known = builtin::names().join(", ");
        return Err(Error::NoPack { name: text::shown(name, 60), known });
    }
    Ok(load::pack_folder(&folder)?)
}

/// A policy file of its own, without a blackboard: the built-in pack that has its agents supplies
/// the rest.
pub fn loose_policy(path: &Path) -> Result<(Policy, String), Error> {
    let name = path.display().to_string();
    let document = json(path, &name)?;
    let choice = guess(&BTreeMap::new(), Some(&document));
    let whole = match pack::policy_document(&choice.files, &choice.language, PACK_LABEL) {
        Ok(below) => below.overlaid(document, policy::MERGE_DEPTH),
        Err(_) => document,
    };
    let policy = Policy::read(&whole).map_err(Error::Invalid)?;
    Ok((policy, format!("{name}, the rest from {}", choice.source)))
}

fn json(path: &Path, name: &str) -> Result<Document, Error> {
    let source = load::text(path, load::SMALL)?;
    let document =
        Document::json(&source).map_err(|problem| Error::Invalid(vec![problem.in_file(name)]))?;
    Ok(document.named(name))
}

fn own_policy(root: &Path) -> Result<Option<Document>, Error> {
    let path = root.join(POLICY_FILE);
    if !path.exists() {
        return Ok(None);
    }
    json(&path, POLICY_FILE).map(Some)
}

fn own_prompts(root: &Path) -> Result<BTreeMap<AgentName, String>, Error> {
    let mut prompts = BTreeMap::new();
    let Ok(entries) = fs::read_dir(root.join(PROMPTS)) else { return Ok(prompts) };
    for entry in entries.flatten() {
        let file = entry.file_name();
        let Some(agent) = file.to_str().and_then(pack::prompt_agent) else { continue };
        prompts.insert(agent, load::text(&entry.path(), load::SMALL)?);
    }
    Ok(prompts)
}

/// The built-in pack and language that fit a blackboard which does not tell.
struct Guess {
    files: Files,
    language: String,
    /// For the person.
    source: String,
}

fn guess(prompts: &BTreeMap<AgentName, String>, own: Option<&Document>) -> Guess {
    let mut agents: Vec<&str> =
        prompts.keys().map(AgentName::as_str).filter(|name| !RESERVED.contains(name)).collect();
    if agents.is_empty()
        && let Some(document) = own
        && let Value::Array(items) = &document.nearest_node("report_rules.apply_to").value
    {
        agents = items
            .iter()
            .filter_map(|item| match &item.value {
                Value::String(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
    }
    let has_all = |manifest: &Manifest| {
        agents.iter().all(|name| manifest.agents.iter().any(|own| own.name == *name))
    };
    let prefix =
        own.map(|document| match &document.nearest_node("report_rules.verdict_prefix").value {
            Value::String(prefix) => prefix.clone(),
            _ => String::new(),
        });
    let is_wide = |text: &str| text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
    let wide = match prefix.as_deref() {
        Some(prefix) if !prefix.is_empty() => is_wide(prefix),
        _ => prompts.values().any(|prompt| is_wide(prompt)),
    };
    let language = if wide { "zh" } else { builtin::DEFAULT_LANGUAGE }.to_owned();
    match builtin::packs().into_iter().find(|(manifest, _)| has_all(manifest)) {
        Some((manifest, files)) => {
            let source =
                format!("the built-in pack {} ({language}), which has its agents", manifest.name);
            Guess { files, language, source }
        }
        None => {
            let names = baton_core::problem::list(&agents);
            let source = format!("nowhere (no built-in pack has all of {names})");
            Guess { files: Files::new(), language, source }
        }
    }
}

/// The pack under the blackboard's own policy and prompts.
fn laid_over(
    files: &Files,
    language: &str,
    own_policy: Option<Document>,
    own_prompts: BTreeMap<AgentName, String>,
    is_own: bool,
) -> Result<Pack, Vec<Problem>> {
    let below = pack::policy_document(files, language, PACK_LABEL).ok();
    let document = match (below, own_policy) {
        (Some(below), Some(own)) => below.overlaid(own, policy::MERGE_DEPTH),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => {
            let message = format!("there is neither a pack nor a `{POLICY_FILE}`");
            return Err(vec![Problem::new("board-no-policy", message)]);
        }
    };
    let policy = Policy::read(&document)?;
    let mut pack = match files.is_empty() {
        false => Pack { policy, ..Pack::read(files, language)? },
        true => nameless_pack(language, policy),
    };
    if is_own {
        // The pack's own rules may name agents that an older blackboard leaves out; here none may.
        let problems = pack::agent_problems(&pack.policy, &document, &pack.manifest.agent_names());
        if !problems.is_empty() {
            return Err(problems);
        }
    } else if !own_prompts.is_empty() {
        pack.manifest.agents = agents_of(&own_prompts, &pack.manifest.agents);
    }
    let names = pack.manifest.prompt_names();
    pack.prompts.retain(|name, _| names.contains(name));
    pack.prompts.extend(own_prompts.into_iter().filter(|(name, _)| names.contains(name)));
    Ok(pack)
}

/// A blackboard whose agents no built-in pack has.
fn nameless_pack(language: &str, policy: Policy) -> Pack {
    let manifest = Manifest {
        name: "own".to_owned(),
        title: "the blackboard's own agents".to_owned(),
        languages: vec![language.to_owned()],
        words: Vec::new(),
        agents: Vec::new(),
    };
    Pack {
        manifest,
        language: language.to_owned(),
        policy,
        prompts: BTreeMap::new(),
        global_context: String::new(),
        dev_plan: String::new(),
    }
}

/// The agents that a blackboard's prompts name, as the pack knows them. One that the pack does not
/// know may write: a pass is then never counted too long.
fn agents_of(prompts: &BTreeMap<AgentName, String>, known: &[Agent]) -> Vec<Agent> {
    let has_prompt = |name: &AgentName| prompts.contains_key(name);
    let is_new = |name: &&AgentName| {
        !RESERVED.contains(&name.as_str()) && !known.iter().any(|agent| agent.name == **name)
    };
    let new = prompts.keys().filter(is_new);
    let new = new.map(|name| Agent { name: name.clone(), role: String::new(), writes: true });
    known.iter().filter(|agent| has_prompt(&agent.name)).cloned().chain(new).collect()
}

/// What `init` was asked for.
#[derive(Debug)]
pub struct NewBoard<'a> {
    pub root: &'a Path,
    /// A built-in pack's name, or a folder.
    pub pack: &'a str,
    pub language: &'a str,
}

impl NewBoard<'_> {
    /// Makes the blackboard, whole or not at all.
    pub fn create(&self) -> Result<Pack, Error> {
        if self.root.exists()
            && fs::read_dir(self.root).map_or(true, |mut entries| entries.next().is_some())
        {
            return Err(Error::Exists(self.root.to_owned()));
        }
        let files = pack_files(self.pack, None)?;
        let pack = Pack::read(&files, self.language).map_err(Error::Invalid)?;
        let mut written: Vec<(PathBuf, Vec<u8>)> = pack_owned(&pack);
        let mut add = |name: &str, text: String| written.push((name.into(), text.into_bytes()));
        add("memory/global_context.md", pack.global_context.clone());
        add("memory/dev_plan.md", pack.dev_plan.clone());
        add("memory/project_history.md", String::new());
        add(CONFIG_FILE, config_text(&pack));
        if builtin::files(&pack.manifest.name).is_none() {
            for (name, text) in &files {
                add(&format!("{PACK_FOLDER}/{name}"), text.clone());
            }
        }
        let agents = pack
            .manifest
            .agents
            .iter()
            .map(|agent| format!("workspace/{}", agent.name.file_stem()));
        let others = ["reports/archive", "cache", "state", "journal", "transcripts", "handoffs"];
        let folders: Vec<PathBuf> =
            agents.chain(others.map(str::to_owned)).map(PathBuf::from).collect();
        store::create_folder(self.root, &written, &folders)?;
        Ok(pack)
    }
}

/// The files of a blackboard that come from its pack: what `pack use` exchanges.
fn pack_owned(pack: &Pack) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = vec![(PathBuf::from(POLICY_FILE), pack.policy.render().into_bytes())];
    for (name, prompt) in &pack.prompts {
        let path = Path::new(PROMPTS).join(pack::prompt_file(name));
        files.push((path, prompt.clone().into_bytes()));
    }
    files
}

fn config_text(pack: &Pack) -> String {
    format!(
        "# Configuration of this blackboard; `baton schema config` describes every key.\n\
         pack = \"{}\"\nlang = \"{}\"\n",
        pack.manifest.name, pack.language
    )
}

/// What `pack use` did.
#[derive(Debug)]
pub struct Switched {
    pub pack: Pack,
    /// Files that a person had changed, and where they are kept.
    pub aside: Vec<(PathBuf, PathBuf)>,
}

impl Board {
    /// Exchanges the pack's files. What a person changed is moved aside, never lost; the plan, the
    /// history and the reports stay as they are.
    pub fn use_pack(&self, name: &str, language: &str, label: &str) -> Result<Switched, Error> {
        let files = pack_files(name, None)?;
        let pack = Pack::read(&files, language).map_err(Error::Invalid)?;
        let old = pack_files(&self.pack.manifest.name, Some(&self.root))
            .ok()
            .and_then(|files| Pack::read(&files, &self.pack.language).ok());
        let unchanged: BTreeMap<PathBuf, Vec<u8>> = old.iter().flat_map(pack_owned).collect();
        let mut aside = Vec::new();
        let folder = Path::new("memory/aside").join(label);
        for path in self.pack_files_on_disk() {
            let full = self.root.join(&path);
            let content = load::bytes(&full, load::SMALL)?;
            if unchanged.get(&path) != Some(&content) {
                let kept = folder.join(path.strip_prefix("memory").unwrap_or(&path));
                store::write_new(&self.root.join(&kept), &content)?;
                aside.push((path, kept));
            }
        }
        // Everything worth keeping is on disk twice now; the exchange itself may be interrupted and
        // run again.
        let new = pack_owned(&pack);
        for path in self.pack_files_on_disk() {
            if !new.iter().any(|(own, _)| *own == path) {
                store::remove(&self.root.join(path))?;
            }
        }
        for (path, content) in &new {
            store::write_new(&self.root.join(path), content)?;
        }
        let kept_pack = self.root.join(PACK_FOLDER);
        store::remove_folder(&kept_pack)?;
        if builtin::files(&pack.manifest.name).is_none() {
            let files: Vec<(PathBuf, Vec<u8>)> =
                files.iter().map(|(name, text)| (name.into(), text.clone().into_bytes())).collect();
            store::create_folder(&kept_pack, &files, &[])?;
        }
        self.record_pack(&pack)?;
        Ok(Switched { pack, aside })
    }

    fn pack_files_on_disk(&self) -> Vec<PathBuf> {
        let mut files = vec![PathBuf::from(POLICY_FILE)];
        let entries = fs::read_dir(self.root.join(PROMPTS)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut prompts: Vec<String> =
            names.filter(|name| pack::prompt_agent(name).is_some()).collect();
        prompts.sort();
        files.extend(prompts.into_iter().map(|name| Path::new(PROMPTS).join(name)));
        files.retain(|path| self.root.join(path).is_file());
        files
    }

    /// Sets `pack` and `lang` in `baton.toml`, every other line as it is.
    fn record_pack(&self, pack: &Pack) -> Result<(), Error> {
        let path = self.root.join(CONFIG_FILE);
        let old = match path.exists() {
            true => load::text(&path, load::SMALL)?,
            false => return Ok(store::write(&path, config_text(pack).as_bytes())?),
        };
        let is_own_key = |line: &str| {
            line.split_once('=').is_some_and(|(key, _)| matches!(key.trim(), "pack" | "lang"))
        };
        // The two keys stand before the first table, or they would belong to it.
        let top = old.lines().take_while(|line| !line.trim_start().starts_with('[')).count();
        let kept =
            old.lines().enumerate().filter(|(index, line)| *index >= top || !is_own_key(line));
        let mut text = format!("pack = \"{}\"\nlang = \"{}\"\n", pack.manifest.name, pack.language);
        for (_, line) in kept {
            text.push_str(line);
            text.push('\n');
        }
        Ok(store::write(&path, text.as_bytes())?)
    }
}

/// Keeps a blackboard out of git without touching the project's own files: one line in
/// `.git/info/exclude`. `None`: the project is not a git repository.
pub fn exclude_from_git(board: &Path) -> Result<Option<PathBuf>, Error> {
    let Ok(board) = fs::canonicalize(board) else { return Ok(None) };
    let Some((top, git)) =
        board.ancestors().skip(1).find_map(|folder| Some((folder, git_folder(folder)?)))
    else {
        return Ok(None);
    };
    let Some(inside) = board.strip_prefix(top).ok().and_then(Path::to_str) else { return Ok(None) };
    let exclude = git.join("info/exclude");
    store::ensure_line(&exclude, &format!("/{inside}/"))?;
    Ok(Some(exclude))
}

/// The folder that holds `info/exclude`: of the main work tree, also for a linked one.
fn git_folder(top: &Path) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    let folder = match dot_git.is_dir() {
        true => dot_git,
        false => {
            let text = load::text(&dot_git, 4096).ok()?;
            top.join(text.strip_prefix("gitdir:")?.trim())
        }
    };
    let common = match load::text(&folder.join("commondir"), 4096) {
        Ok(text) => folder.join(text.trim()),
        _ => folder,
    };
    // A file that calls itself `.git` may point anywhere; only what git made has these.
    (common.join("HEAD").is_file() && common.join("objects").is_dir()).then_some(common)
}
