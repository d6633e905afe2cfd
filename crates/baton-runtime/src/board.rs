//! A blackboard on disk: finding it, opening it as it is, making a new one. Opening never writes.

mod find;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use baton_core::config::Config;
use baton_core::document::{Document, Value};
use baton_core::id::{AgentName, Iteration, RESERVED};
use baton_core::pack::{self, Agent, Files, Manifest, Pack};
use baton_core::policy::{self, Outcome, Policy};
use baton_core::problem::{Problem, Severity, list};
use baton_core::{plan, report, text};

use crate::load::{self, Environment};
use crate::{builtin, packs, store};

pub(crate) use find::{
    FILES as MEMORY_FILES, is_board, is_made_by_us, is_name, is_unfinished, prompts,
};
pub use find::{find, named, named_file};

/// The folder that `init` makes.
pub const FOLDER: &str = ".baton";
/// A folder of the same layout that other tools make; opened in place.
pub const FOREIGN_FOLDER: &str = "orchestrator";

pub(crate) const POLICY_FILE: &str = "memory/verification_policy.json";
pub(crate) const PLAN_FILE: &str = "memory/dev_plan.md";
pub(crate) const HISTORY_FILE: &str = "memory/project_history.md";
pub(crate) const NOTES_FILE: &str = "memory/notes.md";
/// The task of the newest run, word for word.
pub(crate) const TASK_FILE: &str = "memory/task.md";
pub(crate) const PROMPTS: &str = "memory/prompts";
pub const CONFIG_FILE: &str = "baton.toml";
/// Where a pack that came from a folder is kept.
pub(crate) const PACK_FOLDER: &str = "pack";
/// Before the names of the pack's files, where the blackboard's own could be meant.
const PACK_LABEL: &str = "the pack's ";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no blackboard at {}: it has no `memory` folder with a plan, a history, a policy or prompts", .0.display())]
    NotABoard(PathBuf),
    #[error("{} is a link: it could lead anywhere, and a blackboard has none", .0.display())]
    Link(PathBuf),
    #[error("{} is a link to {}: a blackboard is a folder of its project, not a link", path.display(), to.display())]
    LinkedBoard { path: PathBuf, to: PathBuf },
    #[error("{} appeared while an agent worked in this project: it is not used", .0.display())]
    Planted(PathBuf),
    #[error("{} is already a blackboard (`baton pack use` switches its pack)", .0.display())]
    Exists(PathBuf),
    #[error("{} exists and is not a blackboard: it has no `memory` folder with a plan, a history, a policy or prompts", .0.display())]
    Occupied(PathBuf),
    #[error("{} is there already and is not an empty folder: nothing was written", .0.display())]
    NotEmpty(PathBuf),
    #[error("there is no `pack.toml` in {}, so it is not a pack", .0.display())]
    NoManifest(PathBuf),
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
    /// Whose prompts stand in the blackboard; the others are the pack's.
    own_prompts: BTreeSet<AgentName>,
}

/// Why no blackboard can be in this folder: agents and their sandbox need a project that is not the
/// whole machine and does not contain the home folder.
pub fn unsuitable(project: &Path, environment: &Environment) -> Option<String> {
    let real = fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
    let shown = real.display();
    if real.parent().is_none() {
        return Some(format!("{shown} is the root of the file system, not a project"));
    }
    let home = environment.path("HOME").and_then(|home| fs::canonicalize(home).ok());
    match home {
        Some(home) if home == real => Some(format!("{shown} is your home folder, not a project")),
        Some(home) if home.starts_with(&real) => {
            Some(format!("{shown} contains your home folder, {}", home.display()))
        }
        _ => None,
    }
}

/// The blackboard that a file of a blackboard lies in.
pub fn enclosing(file: &Path) -> Option<PathBuf> {
    let file = fs::canonicalize(file).ok()?;
    file.ancestors().skip(1).take(4).find(|folder| is_board(folder)).map(Path::to_owned)
}

/// What is written through a link is somebody else's file, and what is read through it goes to a
/// model.
fn link_in(folder: &Path, depth: usize) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_symlink() {
            return Some(entry.path());
        }
        // Of these there are thousands; they are written by names that nobody foresees.
        let is_content = entry.file_name() == "objects";
        if kind.is_dir()
            && depth > 1
            && !is_content
            && let Some(link) = link_in(&entry.path(), depth - 1)
        {
            return Some(link);
        }
    }
    None
}

impl Board {
    pub fn open(root: &Path, environment: &Environment) -> Result<Board, Error> {
        find::refuse_link(root)?;
        if !is_board(root) {
            return Err(Error::NotABoard(root.to_owned()));
        }
        if let Some(link) = link_in(root, 3) {
            return Err(Error::Link(link));
        }
        let config_file = root.join(CONFIG_FILE);
        let (config, mut warnings) = load::config(environment, Some(&config_file))?;
        let own_policy = own_policy(root)?;
        let prompts = own_prompts(root)?;
        let is_own = config_file.exists() && config.pack.is_some();
        let (files, language) = if is_own {
            let name = config.pack.as_deref().unwrap_or(builtin::DEFAULT_PACK);
            let language =
                config.lang.clone().unwrap_or_else(|| builtin::DEFAULT_LANGUAGE.to_owned());
            (board_pack_files(name, root)?, language)
        } else {
            let choice = guess(&prompts, own_policy.as_ref());
            let message = format!(
                "the blackboard names no pack: what it leaves open comes from {}",
                choice.source
            );
            warnings.push(Problem::warning("board-pack-guessed", message));
            (choice.files, choice.language)
        };
        let own_prompts = prompts.keys().cloned().collect();
        let (pack, adapted) =
            laid_over(&files, &language, own_policy, prompts, is_own).map_err(|mut problems| {
                // Where the rest came from explains why something is missing in it.
                problems.extend(warnings.iter().cloned());
                Error::Invalid(problems)
            })?;
        warnings.extend(adapted);
        if !is_own {
            warnings.extend(open_subloop(root));
        }
        Ok(Board { root: root.to_owned(), config, pack, is_own, warnings, own_prompts })
    }

    pub fn plan_file(&self) -> PathBuf {
        self.root.join(PLAN_FILE)
    }

    pub fn history_file(&self) -> PathBuf {
        self.root.join(HISTORY_FILE)
    }

    pub fn report_file(&self, agent: &AgentName) -> PathBuf {
        self.root.join(format!("reports/report_{}.md", agent.file_stem()))
    }

    /// Whether a task may get the final status, as far as the newest reports tell.
    pub fn finality(&self) -> plan::Finality {
        finality(&self.pack, |agent| {
            let bytes = match load::bytes(&self.report_file(agent), report::MAX_BYTES) {
                Ok(bytes) => bytes,
                Err(load::Error::Missing(_)) => return Newest::None,
                Err(_) => return Newest::Unreadable,
            };
            let expected = report::Expected { agent: agent.clone(), iteration: None };
            match report::read(&bytes, &self.pack.policy.report_rules, &expected) {
                Ok(report) => {
                    Newest::Of(report.iteration, report.verdict.map(|verdict| verdict.outcome))
                }
                Err(_) => Newest::Unreadable,
            }
        })
    }

    /// What is wrong or odd in the blackboard's prompts. Prompts that another tool's users wrote
    /// were not written for our checks: for them everything is a warning.
    pub fn prompt_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, prompt) in &self.pack.prompts {
            let file = match self.own_prompts.contains(name) {
                true => format!("{PROMPTS}/{}", pack::prompt_file(name)),
                false => format!("{PACK_LABEL}{}", pack::prompt_file(name)),
            };
            for mut problem in self.pack.prompt_problems(name, prompt) {
                if !self.is_own {
                    problem.severity = Severity::Warning;
                }
                problems.push(problem.in_file(&file));
            }
        }
        problems
    }
}

/// The newest report of an agent, as far as it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newest {
    None,
    /// It is there, but nobody can say what it says.
    Unreadable,
    Of(Iteration, Option<Outcome>),
}

/// The rule of the final status: the newest report of the verifying agents passed, and no agent
/// that writes reported after it. What cannot be read counts against it.
pub fn finality(pack: &Pack, newest: impl Fn(&AgentName) -> Newest) -> plan::Finality {
    let refused = |why: String| plan::Finality::Refused(why);
    let verifiers = &pack.policy.plan.verified_by;
    let writers = pack.manifest.agents.iter().filter(|agent| agent.writes).map(|agent| &agent.name);
    let mut last: Option<(Iteration, &AgentName, bool)> = None;
    for agent in verifiers.iter().chain(writers.clone()) {
        match newest(agent) {
            Newest::Unreadable => {
                return refused(format!("the newest report of `{agent}` cannot be read"));
            }
            Newest::Of(iteration, outcome) if verifiers.contains(agent) => {
                let passed = outcome == Some(Outcome::Pass);
                // Of two in one iteration, the one that did not pass counts.
                if last.is_none_or(|(old, _, old_passed)| (iteration, !passed) > (old, !old_passed))
                {
                    last = Some((iteration, agent, passed));
                }
            }
            Newest::Of(..) | Newest::None => {}
        }
    }
    let Some((passed_in, verifier, passed)) = last else {
        return refused(format!("there is no report of {}", list(verifiers)));
    };
    if !passed {
        return refused(format!(
            "the newest report of {} did not pass: `{verifier}`, iteration {passed_in}",
            list(verifiers)
        ));
    }
    for writer in writers.filter(|writer| *writer != verifier) {
        if let Newest::Of(wrote_in, _) = newest(writer)
            && wrote_in > passed_in
        {
            return refused(format!(
                "`{verifier}` passed in iteration {passed_in}, but `{writer}` wrote after it, in iteration {wrote_in}"
            ));
        }
    }
    plan::Finality::Allowed
}

/// The files of a pack: built in, or a folder that a person named.
pub fn pack_files(name: &str) -> Result<Files, Error> {
    let folder = Path::new(name);
    match builtin::files(name) {
        Some(files) => Ok(files),
        None if folder.join(pack::MANIFEST).is_file() => Ok(load::pack_folder(folder)?),
        None if folder.is_dir() => Err(Error::NoManifest(folder.to_owned())),
        None => Err(no_pack(name)),
    }
}

/// The files of a blackboard's pack: kept in it, or built in. A name in a project's file never
/// leads to a folder elsewhere.
pub(crate) fn board_pack_files(name: &str, root: &Path) -> Result<Files, Error> {
    let kept = root.join(PACK_FOLDER);
    if kept.join(pack::MANIFEST).is_file() {
        let files = load::pack_folder(&kept)?;
        if Manifest::read(&files).is_ok_and(|manifest| manifest.name == name) {
            return Ok(files);
        }
    }
    builtin::files(name).ok_or_else(|| no_pack(name))
}

/// The files of the pack that an opened blackboard uses, without what it lays over them.
pub fn own_pack_files(board: &Board) -> Result<Files, Error> {
    board_pack_files(&board.pack.manifest.name, &board.root)
}

fn no_pack(name: &str) -> Error {
    Error::NoPack { name: text::shown(name, 60), known: builtin::names().join(", ") }
}

/// A policy file of its own, without a blackboard: the built-in pack that has its agents supplies
/// the rest.
pub fn loose_policy(path: &Path) -> Result<(Policy, String), Error> {
    let name = path.display().to_string();
    let document = json(path, &name)?;
    if let Some(root) = enclosing(path).filter(|root| !root.join(CONFIG_FILE).exists()) {
        let prompts = own_prompts(&root)?;
        let choice = guess(&prompts, Some(&document));
        let (pack, _) = laid_over(&choice.files, &choice.language, Some(document), prompts, false)
            .map_err(Error::Invalid)?;
        return Ok((pack.policy, format!("{name}, the rest from {}", choice.source)));
    }
    let choice = guess(&BTreeMap::new(), Some(&document));
    let whole = match pack::policy_document(&choice.files, &choice.language, PACK_LABEL) {
        Ok(below) => below.overlaid(document, policy::merges),
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
    match json(&root.join(POLICY_FILE), POLICY_FILE) {
        Ok(document) => Ok(Some(document)),
        Err(Error::Load(load::Error::Missing(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

fn own_prompts(root: &Path) -> Result<BTreeMap<AgentName, String>, Error> {
    let mut prompts = BTreeMap::new();
    for path in prompt_files(root)? {
        let agent = path.file_name().and_then(|name| name.to_str()).and_then(pack::prompt_agent);
        if let Some(agent) = agent {
            prompts.insert(agent, load::text(&path, load::SMALL)?);
        }
    }
    Ok(prompts)
}

/// The prompts of a blackboard, by name; only a missing folder has none.
pub(crate) fn prompt_files(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let folder = root.join(PROMPTS);
    let failed = |source: io::Error| load::Error::Io { path: folder.clone(), source };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error).into()),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.and_then(pack::prompt_agent).is_some() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The policy and the prompts that a blackboard holds, by their paths in it.
pub(crate) fn pack_files_on_disk(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = vec![root.join(POLICY_FILE)];
    files.extend(prompt_files(root)?);
    files.retain(|path| path.is_file());
    Ok(files.iter().filter_map(|path| path.strip_prefix(root).ok()).map(Path::to_owned).collect())
}

/// The built-in pack and language that fit a blackboard which does not tell.
struct Guess {
    files: Files,
    language: String,
    /// For the person.
    source: String,
}

/// By the agents that the policy holds to its rules, else by the prompts; the pack that has most
/// of them.
fn guess(prompts: &BTreeMap<AgentName, String>, own: Option<&Document>) -> Guess {
    let node = |path: &str| own.map(|document| &document.nearest_node(path).value);
    let mut agents: Vec<&str> = match node("report_rules.apply_to") {
        Some(Value::Array(items)) => items
            .iter()
            .filter_map(|item| match &item.value {
                Value::String(name) => Some(name.as_str()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    if agents.is_empty() {
        agents = prompts.keys().filter(|name| is_agent(name)).map(AgentName::as_str).collect();
    }
    let shared = |manifest: &Manifest| {
        agents.iter().filter(|name| manifest.agents.iter().any(|own| own.name == **name)).count()
    };
    let is_wide = |text: &str| text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
    let wide = match node("report_rules.verdict_prefix") {
        Some(Value::String(prefix)) if !prefix.is_empty() => is_wide(prefix),
        _ => prompts.values().any(|prompt| is_wide(prompt)),
    };
    let language = if wide { "zh" } else { builtin::DEFAULT_LANGUAGE }.to_owned();
    // Of equals the first wins, which is the default pack.
    let best = builtin::packs().into_iter().rev().max_by_key(|(manifest, _)| shared(manifest));
    let (name, files, is_strange) = match best {
        Some((manifest, files)) => {
            let is_strange = !agents.is_empty() && shared(&manifest) == 0;
            (manifest.name, files, is_strange)
        }
        None => (builtin::DEFAULT_PACK.to_owned(), Files::new(), false),
    };
    let mut source = format!("the built-in pack {name} ({language})");
    if is_strange {
        source.push_str(&format!(", which has none of {}", list(&agents)));
    }
    Guess { files, language, source }
}

/// Whether a prompt's name is an agent's, and not MAIN's or a variant of it (`MAIN_NOVEL`).
fn is_agent(name: &AgentName) -> bool {
    !RESERVED.iter().any(|word| {
        let rest = name.as_str().strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}

/// The pack under the blackboard's own policy and prompts, with warnings about what an older
/// blackboard's policy holds.
fn laid_over(
    files: &Files,
    language: &str,
    own_policy: Option<Document>,
    own_prompts: BTreeMap<AgentName, String>,
    is_own: bool,
) -> Result<(Pack, Vec<Problem>), Vec<Problem>> {
    let below = pack::policy_document(files, language, PACK_LABEL)?;
    let document = match own_policy {
        Some(own) => below.overlaid(own, policy::merges),
        None => below,
    };
    let mut pack = Pack::read(files, language)?;
    let mut warnings = Vec::new();
    if is_own {
        pack.policy = Policy::read(&document)?;
        let problems = pack::agent_problems(&pack.policy, &document, &pack.manifest.agent_names());
        if !problems.is_empty() {
            return Err(problems);
        }
    } else {
        if own_prompts.keys().any(is_agent) {
            pack.manifest.agents = agents_of(&own_prompts, &pack.manifest.agents);
        }
        (pack.policy, warnings) = Policy::read_older(&document, &pack.manifest.agent_names())?;
    }
    let names = pack.manifest.prompt_names();
    pack.prompts.retain(|name, _| names.contains(name));
    pack.prompts.extend(own_prompts.into_iter().filter(|(name, _)| names.contains(name)));
    Ok((pack, warnings))
}

/// A sub-loop that the tool which made an older blackboard left open: its state is in
/// `.codex/subloop_state.json`, in the project or in the blackboard.
fn open_subloop(root: &Path) -> Option<Problem> {
    const STATE: &str = ".codex/subloop_state.json";
    let project = fs::canonicalize(root).ok()?.parent().map(Path::to_owned);
    let files = project.into_iter().chain([root.to_owned()]).map(|folder| folder.join(STATE));
    let states = files.filter_map(|file| load::text(&file, load::SMALL).ok());
    let mut states = states.filter_map(|text| serde_json::from_str(&text).ok());
    let open: serde_json::Value =
        states.find(|state: &serde_json::Value| state["active"] == true)?;
    let number = |name: &str| open[name].as_u64().map_or("unknown".to_owned(), |n| n.to_string());
    let reason = open["entry_reason"].as_str().unwrap_or("no reason given");
    let message = format!(
        "`{STATE}` says that a sub-loop of another tool is active: iteration {}, sub-iteration {} ({}); Baton does not continue it: a run begins with MAIN's decision, and `reports/` has what was reported",
        number("iteration"),
        number("sub_iteration"),
        text::shown(reason, 200)
    );
    Some(Problem::warning("board-subloop-open", message))
}

/// The agents that a blackboard's prompts name, as the pack knows them. One that the pack does not
/// know may write: a pass is then never counted too long.
fn agents_of(prompts: &BTreeMap<AgentName, String>, known: &[Agent]) -> Vec<Agent> {
    let is_new =
        |name: &&AgentName| is_agent(name) && !known.iter().any(|agent| agent.name == **name);
    let new = prompts.keys().filter(is_new);
    let new = new.map(|name| Agent {
        name: name.clone(),
        role: "of this blackboard".into(),
        writes: true,
        profile: None,
    });
    known.iter().filter(|agent| prompts.contains_key(&agent.name)).cloned().chain(new).collect()
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
        self.create_within(None)
    }

    /// The same, remembered in the folder of Baton's own state as made by this user.
    pub fn create_within(&self, state: Option<&Path>) -> Result<Pack, Error> {
        find::refuse_link(self.root)?;
        // Of several processes that find none, one makes it and the others find that one.
        let _alone = store::alone_in(self.root);
        if is_board(self.root) {
            return Err(Error::Exists(self.root.to_owned()));
        }
        if self.root.symlink_metadata().is_ok() && !is_unfinished(self.root) {
            return Err(Error::Occupied(self.root.to_owned()));
        }
        let files = pack_files(self.pack)?;
        let pack = Pack::read(&files, self.language)
            .map_err(|problems| Error::Invalid(packs::located(self.pack, problems)))?;
        let mut written: Vec<(PathBuf, Vec<u8>)> = pack_owned(&pack);
        let mut add = |name: &str, text: String| written.push((name.into(), text.into_bytes()));
        add("memory/global_context.md", pack.global_context.clone());
        add(PLAN_FILE, pack.dev_plan.clone());
        add(HISTORY_FILE, String::new());
        add(CONFIG_FILE, config_text(&pack));
        for (name, text) in kept_files(self.pack, &files) {
            add(&format!("{PACK_FOLDER}/{name}"), text.clone());
        }
        let agents = pack
            .manifest
            .agents
            .iter()
            .map(|agent| format!("workspace/{}", agent.name.file_stem()));
        let others = ["reports/archive", "cache", "state", "journal", "transcripts", "handoffs"];
        let folders: Vec<PathBuf> =
            agents.chain(others.map(str::to_owned)).map(PathBuf::from).collect();
        let remember = |draft: &Path| find::remember(self.root, draft, state);
        store::create_folder(self.root, &written, &folders, remember, is_unfinished)?;
        Ok(pack)
    }
}

/// A pack that came from a folder is kept whole in the blackboard, whatever its name.
pub(crate) fn kept_files<'f>(
    name: &str,
    files: &'f Files,
) -> impl Iterator<Item = (&'f String, &'f String)> {
    let is_kept = builtin::files(name).is_none();
    files.iter().filter(move |_| is_kept)
}

/// The files of a blackboard that come from its pack: what `pack use` exchanges.
pub(crate) fn pack_owned(pack: &Pack) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = vec![(PathBuf::from(POLICY_FILE), pack.policy.render().into_bytes())];
    for (name, prompt) in &pack.prompts {
        let path = Path::new(PROMPTS).join(pack::prompt_file(name));
        files.push((path, prompt.clone().into_bytes()));
    }
    files
}

pub(crate) fn config_text(pack: &Pack) -> String {
    format!(
        "# Configuration of this blackboard; `baton schema config` describes every key.\n\
         pack = \"{}\"\nlang = \"{}\"\n",
        pack.manifest.name, pack.language
    )
}
