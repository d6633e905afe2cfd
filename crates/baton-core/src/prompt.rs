//! What a stage is told. Goes in: the blackboard's files, as the runtime read them. Comes out: a
//! list of sections in an order that runs from what never changes to what changes each time, each
//! with its source, size and reason; the text is made from that list alone. What does not fit steps
//! down in the open, or stops the run with all sizes; a verdict is never guessed.

mod check_section;
mod run_section;
mod section;

use schemars::JsonSchema;
use serde::Serialize;

use crate::config::Config;
use crate::id::{AgentName, FINISH_CHECK, FINISH_REVIEW, Iteration, MAIN, Tokens};
use crate::messages::Language;
use crate::pack::Pack;
use crate::plan::Plan;
use crate::policy::{Outcome, ReportRules, Subloop};
use crate::summary::{Level, Summary};
use crate::tokens;
use crate::window::{Ask, Last, Log, RunTask, Window};

pub(crate) use run_section::OLDER_REPORTS;
pub use section::Section;
pub(crate) use section::report_name;

/// A file of the blackboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injected {
    /// From the blackboard's root.
    pub path: String,
    pub text: String,
}

/// A report that lies in the blackboard.
#[derive(Debug, Clone, PartialEq)]
pub struct Filed {
    pub agent: AgentName,
    pub path: String,
    pub summary: Summary,
    pub whole: Whole,
}

impl Filed {
    /// True if the report says that something is left to do.
    pub fn is_open(&self, rules: &ReportRules) -> bool {
        let outcome = self.summary.verdict.as_deref().and_then(|word| rules.outcome(word));
        matches!(outcome, Some(Outcome::Fail | Outcome::Blocked))
    }
}

/// The text of a report's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whole {
    Text(String),
    /// Nobody needs it.
    NotRead,
    /// It is there and cannot be read; what is known of it is its last summary.
    Unreadable(String),
}

/// Everything a prompt may be made of, except the history.
#[derive(Debug)]
pub struct Material<'a> {
    pub pack: &'a Pack,
    pub config: &'a Config,
    /// The one that the prompt is for.
    pub iteration: Iteration,
    /// Of the model that gets the prompt, where it is known.
    pub context_window: Option<Tokens>,
    pub policy_path: String,
    pub history_path: String,
    /// The file that has the whole task.
    pub task_path: String,
    pub global_context: Option<Injected>,
    pub plan: Option<Injected>,
    pub work_order: Option<Injected>,
    /// What another agent handed over, and what of its files is worth reading.
    pub handoff: Vec<Injected>,
    /// Notes of agents about the project, for the agents that follow.
    pub notes: Option<Injected>,
    /// The blackboard's folder as seen from the project: paths of prompts begin with it where the
    /// reader has tools.
    pub board_folder: String,
    pub run: RunFacts,
    pub acceptance_scope: Option<Injected>,
    /// The newest first; several of one agent where earlier ones are wanted.
    pub reports: Vec<Filed>,
}

/// Reports of the run in the archive that newer ones of the same agent have replaced.
#[derive(Debug, Clone, Default)]
pub struct OlderReports {
    pub count: u64,
    /// The paths of the last ones.
    pub last: Vec<String>,
}

/// Facts of a run that are not in the files of its blackboard. Empty without a run.
#[derive(Debug, Clone, Default)]
pub struct RunFacts {
    /// The first iteration of the run: reports of earlier ones are not shown.
    pub first_iteration: Option<Iteration>,
    /// Tools, limits and gates, a fact per line.
    pub machine: Vec<String>,
    /// The project's files, without what git ignores.
    pub project_files: Vec<String>,
    /// Files that each stage of the run changed.
    pub changed: Vec<StageChange>,
    /// A hint how to see the changes.
    pub compare: Option<String>,
    pub older_reports: OlderReports,
    /// MAIN's order of this iteration and whom it was given to, for the agents of a sub-loop.
    pub main_order: Option<(AgentName, String)>,
    /// Agents whose newest report did not pass, but whose findings were settled since.
    pub settled: Vec<AgentName>,
    /// For each task that reports were about, their newest verdicts, and what is open of it.
    pub verdicts: Vec<String>,
    /// A diff of the project since the agent's own last report of this run.
    pub since_own: Option<String>,
}

/// Who the prompt is for.
#[derive(Debug, Clone, Copy)]
pub enum Stage<'a> {
    Main,
    /// An agent of the pack, or FINISH_REVIEW.
    Agent(&'a AgentName),
    /// The two of the sub-loop.
    Fixer(&'a Subloop),
    Tester(&'a Subloop),
    FinishCheck(&'a FinishFacts),
}

/// What code knows before the last decision.
#[derive(Debug, Clone, Default)]
pub struct FinishFacts {
    /// Files that each stage changed. None: nobody watched.
    pub stage_changes: Option<Vec<StageChange>>,
    /// None: no gate was run.
    pub gates: Option<Vec<GateResult>>,
    /// Conditions for FINISH that do not hold, whatever the final review says.
    pub open: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct StageChange {
    /// The agent and its iteration.
    pub stage: String,
    pub files: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct GateResult {
    pub command: String,
    /// The agent whose pass it confirms, and the iteration.
    pub of: String,
    pub passed: bool,
    /// The end of what it printed.
    pub output: String,
}

/// A prompt, made of its sections alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    pub stage: String,
    pub iteration: Iteration,
    pub limit: Tokens,
    pub sections: Vec<Section>,
    /// What had to step down, in order.
    pub steps: Vec<String>,
    /// Of MAIN's prompt.
    pub window: Option<Window>,
}

/// An answer that did not settle its stage, and what the message that follows it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    /// The number of such answers of the stage up to this one.
    pub number: u32,
    /// Empty where there was no answer to refuse.
    pub answer: String,
    about: About,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum About {
    /// The policy's order to an agent whose answer was refused, and the reason.
    Refusal { order: String, problem: String },
    /// The files that MAIN asked for.
    Files(FilesRead),
}

impl Correction {
    /// `order`: what the policy says to an agent whose answer was refused.
    pub fn new(number: u32, answer: &str, order: &str, problem: &str) -> Correction {
        let about = About::Refusal { order: order.to_owned(), problem: problem.to_owned() };
        Correction { number, answer: answer.to_owned(), about }
    }

    pub fn files_read(number: u32, answer: &str, files: &FilesRead) -> Correction {
        Correction { number, answer: answer.to_owned(), about: About::Files(files.clone()) }
    }

    /// False where files were asked for, and the message brings them.
    pub fn is_refusal(&self) -> bool {
        matches!(self.about, About::Refusal { .. })
    }

    pub fn message(&self, words: Language) -> String {
        match &self.about {
            About::Refusal { order, problem } => {
                Section::correction(words, order, problem).text().trim_end().to_owned()
            }
            About::Files(files) => files.message(words),
        }
    }

    /// The answer, for whoever does not remember it.
    pub fn refused_answer(&self, words: Language) -> String {
        match self.answer.is_empty() {
            true => String::new(),
            false => Section::last_answer(words, &self.answer, self.is_refusal()).text().to_owned(),
        }
    }

    pub fn tokens(&self, words: Language) -> Tokens {
        Tokens(tokens::count(&self.answer).0 + tokens::count(&self.message(words)).0)
    }
}

/// A file that MAIN asked to read, as far as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadFile {
    pub path: String,
    /// Its text, or its beginning; empty where it could not be read.
    pub text: String,
    /// Lines that are not shown, or why nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ReadFile {
    /// A file with as much of it as may be shown.
    pub fn of(words: Language, path: &str, text: &str, most: Tokens) -> ReadFile {
        let shown = tokens::beginning(text, most.0);
        let (all, here) = (text.lines().count(), shown.lines().count());
        let problem = (shown.len() < text.len()).then(|| words.lines_read(here, all));
        ReadFile { path: path.to_owned(), text: shown.to_owned(), problem }
    }

    pub fn unread(path: &str, why: &str) -> ReadFile {
        ReadFile { path: path.to_owned(), text: String::new(), problem: Some(why.to_owned()) }
    }
}

/// The files of one request of MAIN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesRead {
    files: Vec<ReadFile>,
    /// The number of times that MAIN may still ask.
    left: u32,
}

pub fn files_read(files: &[ReadFile], left: u32) -> FilesRead {
    FilesRead { files: files.to_vec(), left }
}

impl FilesRead {
    /// The message that brings the files. Their text is fenced: it is data, like every report.
    pub fn message(&self, words: Language) -> String {
        let files = self.files.iter();
        let mut out: String =
            files.map(|file| Section::read_file(words, file).text().to_owned()).collect();
        out.push_str(&match self.left {
            0 => words.decide_now(),
            _ => words.decide_or_ask(),
        });
        out
    }
}

/// A stage as it names itself (`A, iteration 3, sub-iteration 1`), in the language of the prompt.
/// States keep these names as texts.
fn stage_in(words: Language, name: &str) -> String {
    let in_words = || {
        let mut parts = name.split(", ");
        let (agent, iteration) = (parts.next()?, parts.next()?.strip_prefix("iteration ")?);
        let stage = words.iteration_of(agent, iteration);
        Some(match parts.next() {
            Some(part) => words.subloop_of(stage, part.strip_prefix("sub-iteration ")?),
            None => stage,
        })
    };
    in_words().unwrap_or_else(|| name.to_owned())
}

/// A name in a stage's list of files, which ends with `and 5 more` where it is long.
fn file_in(words: Language, name: &str) -> String {
    let count = || name.strip_prefix("and ")?.strip_suffix(" more")?.parse::<usize>().ok();
    count().map_or_else(|| name.to_owned(), |count| words.and_more_listed(count))
}

impl Prompt {
    pub fn text(&self) -> String {
        self.sections.iter().map(Section::text).collect()
    }

    pub fn tokens(&self) -> Tokens {
        Tokens(self.sections.iter().map(|section| section.tokens.0).sum())
    }

    pub fn ledger(&self, previous: Option<&Prompt>) -> Ledger {
        let text = self.text();
        Ledger {
            stage: self.stage.clone(),
            iteration: self.iteration,
            limit: self.limit,
            tokens: self.tokens(),
            bytes: text.len(),
            sections: self.sections.clone(),
            steps: self.steps.clone(),
            shared_prefix: previous.map(|previous| shared_prefix(&previous.text(), &text)),
        }
    }
}

/// The account of a prompt, for the journal and for people.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ledger {
    pub stage: String,
    pub iteration: Iteration,
    pub limit: Tokens,
    pub tokens: Tokens,
    pub bytes: usize,
    pub sections: Vec<Section>,
    pub steps: Vec<String>,
    /// Tokens that the previous prompt of the stage began with as well.
    pub shared_prefix: Option<Tokens>,
}

/// How many tokens two prompts begin with in common.
pub fn shared_prefix(one: &str, other: &str) -> Tokens {
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    tokens::count(&one[..one.floor_char_boundary(same)])
}

/// A prompt that does not fit in any way that is allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct TooLarge {
    pub prompt: Box<Prompt>,
}

impl std::fmt::Display for TooLarge {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Prompt { stage, limit, sections, .. } = &*self.prompt;
        let sizes = sections.iter().map(|section| format!("{} {}", section.name, section.tokens));
        let sizes: Vec<String> = sizes.collect();
        write!(
            out,
            "the prompt of {stage} has {} tokens and may have {limit}: {}",
            self.prompt.tokens(),
            sizes.join(", ")
        )
    }
}

impl std::error::Error for TooLarge {}

/// The prompt of a stage.
pub fn build(stage: Stage<'_>, material: &Material<'_>, log: &mut Log) -> Result<Prompt, TooLarge> {
    let task = log.task(Some(material.iteration));
    // MAIN asks Baton to read, by the paths of the blackboard; the others have tools of their own.
    let folder = match stage {
        Stage::Main | Stage::FinishCheck(_) => String::new(),
        Stage::Agent(_) | Stage::Fixer(_) | Stage::Tester(_) => {
            format!("{}/", material.board_folder)
        }
    };
    let draft = Draft { material, task, folder, sections: Vec::new(), steps: Vec::new() };
    match stage {
        Stage::Main => draft.main(log),
        Stage::Agent(agent) => draft.agent(agent),
        Stage::Fixer(Subloop { fixer, tester, .. }) => {
            draft.in_subloop(fixer, tester, &material.pack.policy.context.orders.fixer)
        }
        Stage::Tester(Subloop { fixer, tester, .. }) => {
            draft.in_subloop(tester, fixer, &material.pack.policy.context.orders.tester)
        }
        Stage::FinishCheck(facts) => draft.finish_check(facts),
    }
}

const FOR_REFERENCE: &str = "related, for reference";
const OWN_LAST: &str = "its own last one";
const OPEN: &str = "it did not pass";
const ASKED: &str = "what is asked now";

/// A prompt that is being put together.
struct Draft<'a> {
    material: &'a Material<'a>,
    task: Option<RunTask>,
    /// Before every path of the blackboard.
    folder: String,
    sections: Vec<Section>,
    steps: Vec<String>,
}

impl<'a> Draft<'a> {
    fn main(mut self, log: &mut Log) -> Result<Prompt, TooLarge> {
        let context = &self.material.config.context;
        let limit = self.limit(context.prompt_limit.main);
        self.instructions(MAIN);
        self.policy();
        self.task();
        self.global_context();
        self.answers();
        self.plan();
        self.verdicts();
        self.machine();
        self.project_files();
        let changed = &self.material.run.changed;
        self.sections.extend(Section::changed_files(self.words(), changed, None));
        self.older_reports();
        let history = self.sections.len();
        let least = context.history_window as usize;
        let mut ask = Ask {
            last: Last::Between { least, most: least + 5 },
            max_tokens: Some(Tokens(context.max_tokens.unwrap_or(limit.0 / 4))),
            milestones: context.include_milestones && self.material.config.features.milestones,
            before: Some(self.material.iteration),
            // The task has a section of its own.
            goal: false,
            language: self.words(),
        };
        let mut window = log.window(&ask);
        let path = &self.material.history_path;
        self.sections.push(Section::history(self.words(), &window, path));
        let level = self.level(context.level.try_into().ok().and_then(|n: u8| n.try_into().ok()));
        for agent in self.reporters() {
            let newest = self.newest(&agent).next();
            let section = newest.map(|filed| self.report(filed, level, "the newest of this agent"));
            self.sections.extend(section);
        }
        // Evidence while there is room; whoever wants whole reports gets them up to 80%.
        let roomy = if level == Level::Whole { limit.0 * 4 / 5 } else { limit.0 / 2 };
        self.step_down(roomy, Level::Summary, None);
        if self.total() > limit.0 * 4 / 5 && !window.text.is_empty() {
            ask.last = Last::Exactly(3);
            let others = self.total() - self.sections[history].tokens.0;
            let room = (limit.0 * 4 / 5).saturating_sub(others).max(800);
            ask.max_tokens = ask.max_tokens.map(|most| Tokens(most.0.min(room)));
            window = log.window(&ask);
            self.sections[history] = Section::history(self.words(), &window, path);
            self.steps.push("the history window shrank to the last 3 iterations".to_owned());
        }
        let mut prompt = self.finished(MAIN, limit)?;
        prompt.window = Some(window);
        Ok(prompt)
    }

    fn agent(mut self, agent: &AgentName) -> Result<Prompt, TooLarge> {
        let limit = self.limit(self.material.config.context.prompt_limit.agent);
        self.before_reports(agent);
        let is_last_look = *agent == FINISH_REVIEW;
        self.own_report(agent);
        self.related_reports(agent);
        self.open_findings(agent);
        if is_last_look && let Some(scope) = &self.material.acceptance_scope {
            let title = self.words().title_scope();
            let why = "what the last look covers";
            self.file("acceptance scope", &title, scope, &self.folder.clone(), why);
        }
        for file in &self.material.handoff {
            let title = self.words().title_handoff();
            self.file("handoff", &title, file, "", "what another agent handed over");
        }
        self.work_order();
        self.step_down(limit.0 * 4 / 5, Level::Summary, None);
        self.finished(agent.as_str(), limit)
    }

    /// Everything that an agent gets whatever it is asked.
    fn before_reports(&mut self, agent: &AgentName) {
        self.instructions(agent.as_str());
        self.machine();
        self.task();
        self.global_context();
        self.answers();
        self.notes();
        self.plan();
        self.verdicts();
        self.changed_files();
        self.older_reports();
    }

    fn own_report(&mut self, agent: &AgentName) {
        let own = self.newest(agent).next();
        let level = self.level(Some(Level::Evidence));
        self.sections.extend(own.map(|filed| self.report(filed, level, OWN_LAST)));
        let since = self.material.run.since_own.as_deref();
        self.sections.extend(since.map(|diff| Section::since_own(self.words(), diff)));
    }

    /// Reports of other agents that did not pass: what the order is about, whole.
    fn open_findings(&mut self, agent: &AgentName) {
        for other in self.reporters().into_iter().filter(|other| other != agent) {
            let open = self.newest(&other).next().filter(|filed| self.is_open(filed));
            self.sections.extend(open.map(|filed| self.report(filed, Level::Whole, OPEN)));
        }
    }

    fn is_open(&self, filed: &Filed) -> bool {
        let is_settled = self.material.run.settled.contains(&filed.agent);
        !is_settled && filed.is_open(&self.material.pack.policy.report_rules)
    }

    fn related_reports(&mut self, agent: &AgentName) {
        let is_last_look = *agent == FINISH_REVIEW;
        let related = match is_last_look {
            true => self.material.pack.manifest.agent_names(),
            false => {
                let rules = &self.material.pack.policy.context.relevant_reports;
                rules.get(agent).cloned().unwrap_or_default()
            }
        };
        let rounds = match is_last_look {
            true => 1,
            false => self.material.config.context.subagent_history as usize,
        };
        let level = self.level(Some(Level::Evidence));
        for other in related.iter().filter(|other| *other != agent) {
            let filed: Vec<&Filed> = self.newest(other).take(rounds).collect();
            // One that did not pass is shown whole, after these.
            let first = usize::from(filed.first().is_some_and(|newest| self.is_open(newest)));
            // Of two rounds the older one first, as they were written.
            for filed in filed[first..].iter().rev() {
                self.sections.push(self.report(filed, level, FOR_REFERENCE));
            }
        }
    }

    /// The other agent's report is whole up to the limit itself.
    fn in_subloop(
        mut self,
        agent: &AgentName,
        other: &AgentName,
        order: &str,
    ) -> Result<Prompt, TooLarge> {
        let limit = self.limit(self.material.config.context.prompt_limit.agent);
        self.before_reports(agent);
        self.own_report(agent);
        if let Some((to, order)) = &self.material.run.main_order {
            self.sections.push(Section::main_order(self.words(), to, order));
        }
        let others = self.sections.len();
        self.sections.push(match self.newest(other).next() {
            Some(filed) => self.report(filed, Level::Whole, "the one to answer"),
            None => Section::no_report(self.words(), other),
        });
        self.order("work order", &self.words().title_work_order(), order);
        self.step_down(limit.0 * 4 / 5, Level::Summary, Some(others));
        self.step_down(limit.0, Level::Evidence, None);
        self.step_down(limit.0, Level::Summary, None);
        self.finished(agent.as_str(), limit)
    }

    fn finish_check(mut self, facts: &FinishFacts) -> Result<Prompt, TooLarge> {
        let policy = &self.material.pack.policy;
        let limit = self.limit(self.material.config.context.prompt_limit.finish_check);
        self.instructions(MAIN);
        self.policy();
        self.task();
        self.global_context();
        self.answers();
        self.plan();
        self.verdicts();
        for agent in self.reporters() {
            self.sections.push(match self.newest(&agent).next() {
                Some(filed) => self.report(filed, Level::Whole, "whole, for the last decision"),
                None => Section::no_report(self.words(), &agent),
            });
        }
        let plan = self.material.plan.as_ref();
        let read = plan.map(|plan| (plan, Plan::read(&plan.text, &policy.plan)));
        let words = self.words();
        self.sections.push(Section::plan_counts(words, read.as_ref(), &policy.plan));
        if let Some(scope) = &self.material.acceptance_scope {
            self.sections.push(Section::scope(words, scope));
        }
        self.sections.push(Section::stage_changes(words, facts));
        self.sections.push(Section::readiness(words, read.as_ref(), policy, facts));
        self.order("decision", &words.title_decision(), &policy.context.orders.finish_check);
        for agent in &policy.context.finish_ladder {
            if self.total() <= limit.0 {
                break;
            }
            let place = self.sections.iter().position(|section| section.is_report_of(agent));
            if let Some(place) = place.filter(|_| self.material.config.features.levels) {
                self.lower(place, Level::Summary);
            }
        }
        self.finished(FINISH_CHECK, limit)
    }

    fn words(&self) -> Language {
        self.material.pack.words()
    }

    /// Never over half of the model's window.
    fn limit(&self, configured: u64) -> Tokens {
        let half = self.material.context_window.map_or(u64::MAX, |window| window.0 / 2);
        Tokens(configured.min(half))
    }

    /// Switched off, levels leave every report whole.
    fn level(&self, wanted: Option<Level>) -> Level {
        match self.material.config.features.levels {
            true => wanted.unwrap_or(Level::Summary),
            false => Level::Whole,
        }
    }

    fn total(&self) -> u64 {
        self.sections.iter().map(|section| section.tokens.0).sum()
    }

    /// Everybody who reports, in the pack's order.
    fn reporters(&self) -> Vec<AgentName> {
        let last = AgentName::new(FINISH_REVIEW).expect("a valid name");
        self.material.pack.manifest.agent_names().into_iter().chain([last]).collect()
    }

    /// The reports of an agent in this run, the newest first.
    fn newest(&self, agent: &AgentName) -> impl Iterator<Item = &'a Filed> + use<'a> {
        let agent = agent.clone();
        let first = self.material.run.first_iteration;
        let first = first.or(self.task.as_ref().map(|task| task.first_iteration));
        let is_of_run = move |filed: &&Filed| match (filed.summary.iteration, first) {
            (Some(own), Some(first)) => own >= first,
            _ => true,
        };
        let own = self.material.reports.iter().filter(move |filed| filed.agent == agent);
        own.filter(is_of_run)
    }

    fn report(&self, filed: &Filed, level: Level, why: &str) -> Section {
        let (words, agent) = (self.words(), &filed.agent);
        let title = match why {
            FOR_REFERENCE => words.title_related_report(agent),
            OWN_LAST => words.title_own_report(agent),
            OPEN => words.title_open_report(agent),
            _ => words.title_report(agent),
        };
        let policy = &self.material.pack.policy;
        Section::report(words, policy, filed, level, (&title, &self.folder), why)
    }

    /// Lowers reports that stand higher, the largest first, until the prompt has this size.
    fn step_down(&mut self, size: u64, to: Level, except: Option<usize>) {
        let mut tried: Vec<usize> = except.into_iter().collect();
        while self.total() > size && self.material.config.features.levels {
            let higher = self.sections.iter().enumerate().filter(|(index, section)| {
                !tried.contains(index) && section.level.is_some_and(|level| level > to)
            });
            let largest = higher.max_by_key(|(_, section)| section.tokens).map(|(index, _)| index);
            let Some(index) = largest else { break };
            tried.push(index);
            self.lower(index, to);
        }
    }

    fn lower(&mut self, index: usize, to: Level) {
        let Some(path) = self.sections[index].source.clone() else { return };
        let Some(filed) = self.material.reports.iter().find(|filed| filed.path == path) else {
            return;
        };
        let why = self.sections[index].why.clone();
        let before = self.sections[index].tokens;
        let mut lowered = self.report(filed, to, &why);
        // The summary of a report of three lines is longer than the report.
        if lowered.tokens >= before {
            return;
        }
        let step = format!("stepped down to level {}, from {before} tokens", u8::from(to));
        lowered.cut = Some(lowered.cut.map_or(step.clone(), |cut| format!("{cut}; {step}")));
        self.steps.push(format!("{} stepped down to level {}", lowered.name, u8::from(to)));
        self.sections[index] = lowered;
    }

    fn finished(self, stage: &str, limit: Tokens) -> Result<Prompt, TooLarge> {
        let prompt = Prompt {
            stage: stage.to_owned(),
            iteration: self.material.iteration,
            limit,
            sections: self.sections,
            steps: self.steps,
            window: None,
        };
        if prompt.tokens() > limit {
            Err(TooLarge { prompt: Box::new(prompt) })
        } else {
            Ok(prompt)
        }
    }

    fn instructions(&mut self, name: &str) {
        let prompt = self.material.pack.prompts.get(name).map_or("", String::as_str);
        self.sections.push(Section::instructions(self.words(), name, prompt));
    }

    fn policy(&mut self) {
        let policy = &self.material.pack.policy;
        self.sections.push(Section::policy(self.words(), policy, &self.material.policy_path));
    }

    fn task(&mut self) {
        let path = format!("{}{}", self.folder, self.material.task_path);
        let smallest = self.material.config.context.prompt_limit.smallest();
        let most = self.limit(smallest).0 / 4;
        let words = self.words();
        let section = self.task.as_ref().map(|task| Section::task(words, &task.text, &path, most));
        self.sections.extend(section);
    }

    fn answers(&mut self) {
        let path = format!("{}{}", self.folder, self.material.history_path);
        let answers = self.task.as_ref().map(|task| &task.answers[..]).unwrap_or_default();
        self.sections.extend(Section::answers(self.words(), answers, &path));
    }

    fn machine(&mut self) {
        self.sections.extend(Section::machine(self.words(), &self.material.run.machine));
    }

    fn project_files(&mut self) {
        let files = &self.material.run.project_files;
        self.sections.extend(Section::project_files(self.words(), files));
    }

    fn changed_files(&mut self) {
        let RunFacts { changed, compare, .. } = &self.material.run;
        self.sections.extend(Section::changed_files(self.words(), changed, compare.as_deref()));
    }

    fn older_reports(&mut self) {
        let reports = &self.material.run.older_reports;
        self.sections.extend(Section::older_reports(self.words(), reports, &self.folder));
    }

    fn notes(&mut self) {
        let notes = self.material.notes.as_ref();
        let words = self.words();
        self.sections.extend(notes.and_then(|file| Section::notes(words, file, &self.folder)));
    }

    fn global_context(&mut self) {
        let (file, words) = (self.material.global_context.as_ref(), self.words());
        let section = file.and_then(|file| Section::global_context(words, file, &self.folder));
        self.sections.extend(section);
    }

    fn plan(&mut self) {
        let (plan, words) = (self.material.plan.as_ref(), self.words());
        self.sections.extend(plan.map(|file| Section::plan(words, file, &self.folder)));
    }

    fn verdicts(&mut self) {
        let section = Section::verdicts(self.words(), &self.material.run.verdicts);
        self.sections.extend(section);
    }

    fn file(&mut self, name: &str, title: &str, file: &Injected, folder: &str, why: &str) {
        self.sections.push(Section::file(self.words(), (name, title), file, folder, why));
    }

    fn order(&mut self, name: &str, title: &str, order: &str) {
        let order = order.replace("{iteration}", &self.material.iteration.to_string());
        self.sections.push(Section::plain(name, title, order.trim(), ASKED));
    }

    fn work_order(&mut self) {
        let (name, words) = ("work order", self.words());
        let title = words.title_work_order();
        self.sections.push(match &self.material.work_order {
            Some(file) => Section::file(words, (name, &title), file, &self.folder, ASKED),
            None => Section::plain(name, &title, &words.no_work_order(), ASKED),
        });
    }
}
