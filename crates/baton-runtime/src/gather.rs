//! Reads from a blackboard what the prompts of its stages are made of. The history is read once and
//! then entry by entry; of a report only the beginning is read where a summary will do.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use baton_core::config::Config;
use baton_core::id::{AgentName, FINISH_REVIEW, Iteration, Tokens};
use baton_core::prompt::{
    self, Filed, FinishFacts, Injected, Material, Prompt, RunFacts, Stage, TooLarge, Whole,
};
use baton_core::report::{self, ArchiveName};
use baton_core::summary::Summary;
use baton_core::window::Log;

use crate::board::{Board, HISTORY_FILE, NOTES_FILE, PLAN_FILE, POLICY_FILE, TASK_FILE};
use crate::guard::{Guard, Known};
use crate::load;
use crate::summaries::{ARCHIVE, Mode, Summaries};

/// A history grows for years; this is only a guard against a wrong file.
pub const HISTORY_BYTES: u64 = 256 << 20;
const TEXT_BYTES: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no stage `{name}`")]
    NoStage { name: String, known: Vec<String> },
    #[error("the pack has no sub-loop in which `{0}` works")]
    NoSubloop(AgentName),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(transparent)]
    Load(#[from] load::Error),
}

/// Whose prompt is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum For {
    Main,
    Agent(AgentName),
    /// The fixer or the tester inside the sub-loop.
    Subloop(AgentName),
    FinishCheck,
}

/// What a prompt is wanted for.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    pub who: &'a For,
    /// `None`: the next one.
    pub iteration: Option<Iteration>,
    /// The blackboard as it was before that iteration, from the archive; else as it is.
    pub is_past: bool,
    pub context_window: Option<Tokens>,
    pub facts: &'a FinishFacts,
    pub handoff: Vec<Injected>,
    pub run: RunFacts,
    /// Who has just looked at the live files: what it saw is not read again.
    pub seen: Option<&'a Guard>,
}

/// A blackboard as the prompts see it.
#[derive(Debug)]
pub struct Gatherer {
    log: Log,
    history: Option<Look>,
    pub summaries: Summaries,
}

/// The history's length and time when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    size: u64,
    modified: SystemTime,
}

fn look(path: &Path) -> Option<Look> {
    let metadata = fs::metadata(path).ok()?;
    Some(Look { size: metadata.len(), modified: metadata.modified().ok()? })
}

impl Gatherer {
    pub fn open(board: &Board, mode: Mode) -> Result<Gatherer, Error> {
        let mode = if board.config.features.summary_cache { mode } else { Mode::Off };
        let summaries = Summaries::open(&board.root, &board.pack.policy, mode);
        let mut gatherer = Gatherer { log: Log::default(), history: None, summaries };
        gatherer.read_history(board)?;
        Ok(gatherer)
    }

    fn read_history(&mut self, board: &Board) -> Result<(), Error> {
        let path = board.history_file();
        self.history = look(&path);
        self.log = match load::text(&path, HISTORY_BYTES) {
            Ok(text) => Log::new(text),
            Err(load::Error::Missing(_)) => Log::default(),
            Err(error) => return Err(error.into()),
        };
        Ok(())
    }

    /// Goes on with an entry that was just written to the history.
    pub fn appended(&mut self, board: &Board, entry: &str) {
        self.log.append(entry);
        self.history = look(&board.history_file());
    }

    /// The history is read again before the next prompt.
    pub fn forget_history(&mut self) {
        self.history = None;
    }

    /// The iteration that comes next.
    pub fn next_iteration(&self) -> Iteration {
        Iteration(self.log.last_iteration().map_or(1, |last| last.0.saturating_add(1)))
    }

    /// The prompt of a stage, for the next iteration or for an earlier one as far as the archive
    /// still holds what it saw.
    pub fn prompt(
        &mut self,
        board: &Board,
        wanted: &For,
        iteration: Option<Iteration>,
        context_window: Option<Tokens>,
        facts: &FinishFacts,
    ) -> Result<Prompt, Error> {
        let is_past = iteration.is_some();
        let wanted = Wanted {
            who: wanted,
            iteration,
            is_past,
            context_window,
            facts,
            handoff: Vec::new(),
            run: RunFacts::default(),
            seen: None,
        };
        self.prompt_for(board, &wanted)
    }

    pub fn prompt_for(&mut self, board: &Board, ask: &Wanted<'_>) -> Result<Prompt, Error> {
        if look(&board.history_file()) != self.history {
            self.read_history(board)?;
        }
        let Wanted { who: wanted, iteration, context_window, facts, .. } = *ask;
        let files = Files { board, seen: ask.seen };
        let reports = self.reports(&files, wanted, iteration.filter(|_| ask.is_past))?;
        let agent = match wanted {
            For::Agent(agent) | For::Subloop(agent) => Some(agent),
            For::Main | For::FinishCheck => None,
        };
        let work_order =
            agent.map(|agent| format!("workspace/{}/current_task.md", agent.file_stem()));
        let config: &Config = &board.config;
        let material = Material {
            pack: &board.pack,
            config,
            iteration: iteration.unwrap_or_else(|| self.next_iteration()),
            context_window,
            policy_path: POLICY_FILE.to_owned(),
            history_path: HISTORY_FILE.to_owned(),
            // A run that 0.1 began has only its history.
            task_path: match board.root.join(TASK_FILE).is_file() {
                true => TASK_FILE.to_owned(),
                false => HISTORY_FILE.to_owned(),
            },
            global_context: files.injected("memory/global_context.md")?,
            plan: files.injected(PLAN_FILE)?,
            work_order: work_order.map_or(Ok(None), |path| files.injected(&path))?,
            acceptance_scope: files.injected("memory/acceptance_scope.json")?,
            handoff: ask.handoff.clone(),
            notes: files.injected(NOTES_FILE)?,
            board_folder: folder_name(&board.root),
            run: ask.run.clone(),
            reports,
        };
        let subloop = board.pack.policy.subloop.as_ref();
        let stage = match wanted {
            For::Main => Stage::Main,
            For::Agent(agent) => Stage::Agent(agent),
            For::FinishCheck => Stage::FinishCheck(facts),
            For::Subloop(agent) => match subloop {
                Some(subloop) if subloop.fixer == *agent => Stage::Fixer(subloop),
                Some(subloop) if subloop.tester == *agent => Stage::Tester(subloop),
                _ => return Err(Error::NoSubloop(agent.clone())),
            },
        };
        Ok(prompt::build(stage, &material, &mut self.log)?)
    }

    /// The reports that a prompt may use, the newest first.
    fn reports(
        &mut self,
        files: &Files<'_>,
        wanted: &For,
        iteration: Option<Iteration>,
    ) -> Result<Vec<Filed>, Error> {
        let board = files.board;
        let rounds = (board.config.context.subagent_history as usize).max(1);
        // These stages come behind others of their own iteration.
        let sees_now = match wanted {
            For::Subloop(_) | For::FinishCheck => true,
            For::Agent(agent) => *agent == FINISH_REVIEW,
            For::Main => false,
        };
        let agents = board.pack.manifest.agent_names().into_iter();
        let last_look = AgentName::new(FINISH_REVIEW).ok();
        let archive = match iteration.is_some() || rounds > 1 {
            true => archived(&board.root)?,
            false => BTreeMap::new(),
        };
        let mut all = Vec::new();
        for agent in agents.chain(last_look) {
            let mut found: Vec<Filed> = Vec::new();
            let standard = standard(files, wanted, &agent);
            found.extend(self.filed(files, &standard, &agent, wanted));
            let is_past =
                |own: Iteration| iteration.is_none_or(|now| own < now || sees_now && own == now);
            found.retain(|filed| {
                iteration.is_none() || filed.summary.iteration.is_some_and(is_past)
            });
            let earlier = archive.get(&agent).into_iter().flatten().rev();
            let before = found.first().and_then(|filed| filed.summary.iteration).or(iteration);
            let is_empty = found.is_empty();
            let is_earlier = |own: Iteration| {
                is_past(own) && (is_empty || before.is_none_or(|before| own < before))
            };
            let mut last = None;
            for name in earlier.filter(|name| is_earlier(name.iteration)) {
                if found.len() >= rounds {
                    break;
                }
                // Of several tries in one iteration the last one that was accepted counts.
                let path = format!("{ARCHIVE}/{}", name.file());
                if last != Some(name.iteration) && is_accepted(board, &path, name) {
                    last = Some(name.iteration);
                    found.extend(self.filed(files, &path, &agent, wanted));
                }
            }
            all.extend(found);
        }
        Ok(all)
    }

    fn filed(
        &mut self,
        files: &Files<'_>,
        path: &str,
        agent: &AgentName,
        wanted: &For,
    ) -> Option<Filed> {
        let board = files.board;
        let policy = &board.pack.policy;
        let summary = match files.known(path) {
            Known::File { bytes, modified } => {
                self.summaries.of(path, bytes, modified, agent, policy)
            }
            Known::Missing => return None,
            Known::No => self.summaries.get(path, agent, policy),
        };
        let summary = match summary {
            Ok(summary) => summary,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                let known = self.summaries.last_known(path);
                let note = board.pack.words().unreadable_report();
                let unknown = || Summary::of(note.as_bytes(), agent, &board.pack.policy, None);
                let (agent, path) = (agent.clone(), path.to_owned());
                let whole = Whole::Unreadable(error.to_string());
                return Some(Filed { agent, path, summary: known.unwrap_or_else(unknown), whole });
            }
        };
        let filed =
            Filed { agent: agent.clone(), path: path.to_owned(), summary, whole: Whole::NotRead };
        // Whole reports are read only for those who may see them whole.
        let is_open = matches!(wanted, For::Agent(own) if own != agent)
            && filed.is_open(&policy.report_rules);
        let is_whole = matches!(wanted, For::Subloop(_) | For::FinishCheck)
            || is_open
            || !board.config.features.levels
            || (*wanted == For::Main && board.config.context.level == 3);
        let whole = match is_whole.then(|| files.text(path, report::MAX_BYTES)) {
            Some(Ok(text)) => Whole::Text(text),
            Some(Err(error)) => Whole::Unreadable(error.to_string()),
            None => Whole::NotRead,
        };
        Some(Filed { whole, ..filed })
    }
}

/// The folder of a blackboard, as the project's own tools name it.
fn folder_name(root: &Path) -> String {
    let name = root.file_name().and_then(std::ffi::OsStr::to_str);
    name.unwrap_or(crate::board::FOLDER).to_owned()
}

/// The files of a blackboard: as they were just seen, or from the disk.
struct Files<'a> {
    board: &'a Board,
    seen: Option<&'a Guard>,
}

impl Files<'_> {
    fn known(&self, path: &str) -> Known<'_> {
        self.seen.map_or(Known::No, |guard| guard.known(path))
    }

    fn text(&self, path: &str, limit: u64) -> Result<String, load::Error> {
        let file = || self.board.root.join(path);
        match self.known(path) {
            Known::Missing => Err(load::Error::Missing(file())),
            // What is wrong with the others is said by who reads them.
            Known::File { bytes, .. } if bytes.len() as u64 <= limit => {
                let text = std::str::from_utf8(bytes).map(str::to_owned);
                text.or_else(|_| load::text(&file(), limit))
            }
            Known::File { .. } | Known::No => load::text(&file(), limit),
        }
    }

    fn injected(&self, path: &str) -> Result<Option<Injected>, Error> {
        match self.text(path, TEXT_BYTES) {
            Ok(text) => Ok(Some(Injected { path: path.to_owned(), text })),
            Err(load::Error::Missing(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Where the newest report of an agent is: inside the sub-loop it has a number.
fn standard(files: &Files<'_>, wanted: &For, agent: &AgentName) -> String {
    let stem = agent.file_stem();
    let subloop = files.board.pack.policy.subloop.as_ref();
    let most = match wanted {
        For::Subloop(_) => subloop.map_or(0, |subloop| subloop.max),
        For::Main | For::Agent(_) | For::FinishCheck => 0,
    };
    let numbered = (1..=most).rev().map(|k| format!("reports/report_{stem}_subloop_{k}.md"));
    let found = numbered.into_iter().find(|path| files.board.root.join(path).exists());
    found.unwrap_or_else(|| format!("reports/report_{stem}.md"))
}

/// The archive holds refused reports as well.
fn is_accepted(board: &Board, path: &str, name: &ArchiveName) -> bool {
    let expected = report::Expected { agent: name.agent.clone(), iteration: Some(name.iteration) };
    load::bytes(&board.root.join(path), report::MAX_BYTES)
        .is_ok_and(|bytes| report::read(&bytes, &board.pack.policy.report_rules, &expected).is_ok())
}

/// The archive's reports, by agent, in the order they were written.
fn archived(root: &Path) -> Result<BTreeMap<AgentName, Vec<ArchiveName>>, Error> {
    let folder = root.join(ARCHIVE);
    let failed = |source: io::Error| load::Error::Io { path: folder.clone(), source };
    let mut all: BTreeMap<AgentName, Vec<ArchiveName>> = BTreeMap::new();
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(all),
        Err(error) => return Err(failed(error).into()),
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if let Some(name) = name.to_str().and_then(ArchiveName::parse) {
            all.entry(name.agent.clone()).or_default().push(name);
        }
    }
    all.values_mut().for_each(|names| names.sort());
    Ok(all)
}

/// The stage that a person names.
pub fn stage_named(board: &Board, name: &str, in_subloop: bool) -> Result<For, Error> {
    use baton_core::id::{FINISH_CHECK, MAIN};
    let upper = name.to_ascii_uppercase();
    let mut known: Vec<String> = vec![MAIN.to_owned()];
    known.extend(board.pack.manifest.agents.iter().map(|agent| agent.name.to_string()));
    known.extend([FINISH_REVIEW.to_owned(), FINISH_CHECK.to_owned()]);
    let agent = AgentName::new(&upper).ok().filter(|_| known.contains(&upper));
    match (upper.as_str(), agent) {
        (MAIN, _) => Ok(For::Main),
        (FINISH_CHECK, _) => Ok(For::FinishCheck),
        (_, Some(agent)) if in_subloop => Ok(For::Subloop(agent)),
        (_, Some(agent)) => Ok(For::Agent(agent)),
        (_, None) => Err(Error::NoStage { name: baton_core::text::shown(name, 40), known }),
    }
}
