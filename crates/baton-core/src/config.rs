//! Configuration as data: every key that a file, a variable or a flag may set, with its default.
//! Goes in: documents laid over one another by the runtime. Comes out: a `Config` in range.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::id::AgentName;
use crate::message::Wire;
use crate::problem::Problem;
use crate::profile::Profile;
use crate::thread::Results;
use crate::turn::Protocol;

/// `baton.toml`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The pack's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack: Option<String>,
    /// One of the pack's languages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
    pub features: Features,
    pub report: Correction,
    pub decision: Correction,
    pub context: Context,
    pub limits: Limits,
    /// By agent name; MAIN and FINISH_REVIEW too.
    pub agents: IndexMap<AgentName, AgentConfig>,
    /// How agents keep within their windows, by name.
    pub profiles: IndexMap<String, Profile>,
    /// How scenarios are evaluated.
    pub scenario: ScenarioConfig,
    /// Programs that can run a stage, by name.
    pub executors: IndexMap<String, ExecutorConfig>,
    /// Where models are called. Only in the user's own file: a project must not choose who gets
    /// the key.
    pub provider: ProviderConfig,
    /// By model name. Only in the user's own file: prices carry budgets.
    pub models: IndexMap<String, ModelConfig>,
    /// Only in the user's own file: a project must not loosen what confines its agents.
    pub agent: AgentSettings,
    /// Only in the user's own file, and in no variable: it is the person's word.
    pub approval: ApprovalSettings,
}

/// Sections that a project's own file may not have.
pub const USER_ONLY: [&str; 4] = ["provider", "models", "agent", APPROVAL];
/// The section that no variable may set either.
pub const APPROVAL: &str = "approval";

/// Approvals that a user gives in advance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalSettings {
    /// True if `--yes` approves files that the user has not read.
    pub by_yes: bool,
}

/// How the built-in agent works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentSettings {
    /// How the model says what it wants done: native, json or react.
    pub protocol: Protocol,
    /// Calls of the model in one turn.
    pub steps: u32,
    /// Whether its commands have the network.
    pub network: bool,
    /// Whether its commands may commit: what they do in `.git` is taken over once it is checked.
    pub commits: bool,
    /// Variables that its commands see, beside the usual ones.
    pub env: Vec<String>,
    /// Paths that its commands and gates may read beside the project and the toolchains: absolute, or
    /// below home (`~/x`).
    pub read: Vec<String>,
    /// The form in which the model gets results: `plain` text, or the `json` envelope.
    pub results: Results,
}

impl Default for AgentSettings {
    fn default() -> AgentSettings {
        AgentSettings {
            protocol: Protocol::Native,
            steps: 200,
            network: false,
            commits: false,
            env: Vec::new(),
            read: Vec::new(),
            results: Results::Plain,
        }
    }
}

/// How scenarios are evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioConfig {
    /// The model that is evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The model that judges, attributes and plays users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Samples at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
}

/// Which provider, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Wire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A shell command whose output is the key, where the environment has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_command: Option<String>,
    /// Whether a key may go over `http://` to another machine, where everybody on the way reads it.
    pub key_over_http: bool,
}

/// A program that takes a prompt and leaves a last message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutorConfig {
    /// The program and its arguments. `{prompt}` is the prompt, `{prompt_file}` a file with it,
    /// `{answer_file}` a file for the last message. Without any, the prompt goes to its standard
    /// input.
    pub command: Vec<String>,
    /// Variables that it gets beside the usual ones.
    #[serde(default)]
    pub env: Vec<String>,
}

/// What a person knows better than the list: tokens, and dollars for a million of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

/// What can be switched off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Features {
    pub subloop: bool,
    pub levels: bool,
    pub milestones: bool,
    pub summary_cache: bool,
    pub folding: bool,
    /// The policy decides who follows a pass (`routing.after_pass`), without asking MAIN.
    pub routing: bool,
}

impl Default for Features {
    fn default() -> Features {
        Features {
            subloop: true,
            levels: true,
            milestones: true,
            summary_cache: true,
            folding: true,
            routing: true,
        }
    }
}

/// How often an agent may correct an answer that breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Correction {
    pub retries: u32,
}

impl Default for Correction {
    fn default() -> Correction {
        Correction { retries: 1 }
    }
}

/// What prompts carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Context {
    /// How much of a report MAIN sees: 1 summary, 2 with key evidence, 3 whole.
    pub level: u32,
    /// Iterations of the history window.
    pub history_window: u32,
    pub include_milestones: bool,
    /// Earlier rounds of related reports that an agent sees.
    pub subagent_history: u32,
    /// Tokens of the history window; absent: a quarter of the prompt limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    pub prompt_limit: PromptLimit,
}

impl Default for Context {
    fn default() -> Context {
        Context {
            level: 2,
            history_window: 10,
            include_milestones: true,
            subagent_history: 1,
            max_tokens: None,
            prompt_limit: PromptLimit::default(),
        }
    }
}

/// Tokens of one prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PromptLimit {
    pub main: u64,
    pub agent: u64,
    pub finish_check: u64,
}

impl PromptLimit {
    pub fn smallest(&self) -> u64 {
        self.main.min(self.agent).min(self.finish_check)
    }
}

impl Default for PromptLimit {
    fn default() -> PromptLimit {
        PromptLimit { main: 40_000, agent: 60_000, finish_check: 120_000 }
    }
}

/// Where a run stops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub iterations: u32,
    pub stage_minutes: u32,
    /// Of a run, for all its stages together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars: Option<f64>,
    /// Of one stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_dollars: Option<f64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            iterations: 50,
            stage_minutes: 60,
            minutes: None,
            tokens: None,
            dollars: None,
            stage_tokens: None,
            stage_dollars: None,
        }
    }
}

impl Limits {
    /// A project may lower what its user allows, and never raise it. What was raised, by name.
    pub fn keep_to(&mut self, users: &Limits, projects: &Limits) -> Vec<&'static str> {
        fn keep<T: PartialOrd + Copy>(
            now: &mut Option<T>,
            own: Option<T>,
            other: Option<T>,
        ) -> bool {
            // A variable or a flag is the user's word, too.
            let is_raised = *now == other && own.zip(other).is_some_and(|(own, other)| other > own);
            if is_raised {
                *now = own;
            }
            is_raised
        }
        let keep_number = |now: &mut u32, own: u32, other: u32| {
            let mut value = Some(*now);
            let is_raised = keep(&mut value, Some(own), Some(other));
            *now = value.unwrap_or(own);
            is_raised
        };
        let raised = [
            (
                "iterations",
                keep_number(&mut self.iterations, users.iterations, projects.iterations),
            ),
            (
                "stage_minutes",
                keep_number(&mut self.stage_minutes, users.stage_minutes, projects.stage_minutes),
            ),
            ("minutes", keep(&mut self.minutes, users.minutes, projects.minutes)),
            ("tokens", keep(&mut self.tokens, users.tokens, projects.tokens)),
            ("dollars", keep(&mut self.dollars, users.dollars, projects.dollars)),
            (
                "stage_tokens",
                keep(&mut self.stage_tokens, users.stage_tokens, projects.stage_tokens),
            ),
            (
                "stage_dollars",
                keep(&mut self.stage_dollars, users.stage_dollars, projects.stage_dollars),
            ),
        ];
        raised.into_iter().filter_map(|(name, is_raised)| is_raised.then_some(name)).collect()
    }
}

/// How one agent runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Config {
    pub fn read(document: &Document) -> Result<Config, Vec<Problem>> {
        let config: Config = document.read().map_err(|problem| vec![problem])?;
        let context = &config.context;
        let ranges = [
            ("report.retries", u64::from(config.report.retries), 0, 10),
            ("decision.retries", u64::from(config.decision.retries), 0, 10),
            ("context.level", u64::from(context.level), 1, 3),
            ("context.history_window", u64::from(context.history_window), 3, 100),
            ("context.subagent_history", u64::from(context.subagent_history), 0, 2),
            (
                "context.max_tokens",
                context.max_tokens.unwrap_or(MIN_TOKENS),
                MIN_TOKENS,
                MAX_TOKENS,
            ),
            ("context.prompt_limit.main", context.prompt_limit.main, MIN_TOKENS, MAX_TOKENS),
            ("context.prompt_limit.agent", context.prompt_limit.agent, MIN_TOKENS, MAX_TOKENS),
            (
                "context.prompt_limit.finish_check",
                context.prompt_limit.finish_check,
                MIN_TOKENS,
                MAX_TOKENS,
            ),
            ("limits.iterations", u64::from(config.limits.iterations), 1, 1_000_000),
            ("limits.stage_minutes", u64::from(config.limits.stage_minutes), 1, 10_080),
            ("agent.steps", u64::from(config.agent.steps), 1, 10_000),
            ("scenario.jobs", u64::from(config.scenario.jobs.unwrap_or(1)), 1, 256),
        ];
        let problems: Vec<Problem> = ranges
            .into_iter()
            .filter(|(_, value, low, high)| !(low..=high).contains(&value))
            .map(|(path, value, low, high)| {
                let message = format!("{path}: {value} is not between {low} and {high}");
                document.locate_at(Problem::new("config-range", message), path)
            })
            .collect();
        let problems = problems.into_iter().chain(config.profile_problems(document));
        let problems = problems.chain(config.read_problems(document));
        let prices = config.models.iter().flat_map(|(name, model)| {
            let fields = [
                ("input", model.input),
                ("output", model.output),
                ("cache_read", model.cache_read),
                ("cache_write", model.cache_write),
            ];
            fields.map(|(field, dollars)| (name, field, dollars))
        });
        let wrong = prices.filter(|(_, _, dollars)| {
            dollars.is_some_and(|dollars| !(0.0..=100_000.0).contains(&dollars))
        });
        let problems: Vec<Problem> = problems
            .chain(wrong.map(|(name, field, _)| {
                let message = format!(
                    "models.{name}.{field}: a price is 0 to 100,000 dollars a million tokens"
                );
                document.locate_at(Problem::new("config-range", message), "models")
            }))
            .collect();
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    /// Paths that do not say where they are.
    fn read_problems(&self, document: &Document) -> Vec<Problem> {
        let is_path = |own: &&String| **own == "~" || own.starts_with('/') || own.starts_with("~/");
        let wrong = self.agent.read.iter().filter(|own| !is_path(own));
        let problem = |own: &String| {
            let message = format!("agent.read: `{}` is not a path", crate::text::shown(own, 80));
            let problem = Problem::new("config-path", message).expected("`/…` or `~/…`");
            document.locate_at(problem, "agent.read")
        };
        wrong.map(problem).collect()
    }

    /// Figures of profiles with which no conversation could be held.
    fn profile_problems(&self, document: &Document) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, own) in &self.profiles {
            let window = own.context_window.unwrap_or(MAX_TOKENS).clamp(MIN_WINDOW, MAX_TOKENS);
            let keep = own.keep_recent.map(|keep| u64::try_from(keep).unwrap_or(u64::MAX));
            let figures = [
                ("context_window", own.context_window, MIN_WINDOW, MAX_TOKENS),
                ("compact_at", own.compact_at, MIN_WINDOW, window),
                ("keep_recent", keep, 1, 1_000),
                ("steps", own.steps.map(u64::from), 1, 10_000),
            ];
            for (key, value, low, high) in figures {
                if let Some(value) = value.filter(|value| !(low..=high).contains(value)) {
                    let path = format!("profiles.{name}.{key}");
                    let message = format!("{path}: {value} is not between {low} and {high}");
                    let problem = Problem::new("config-range", message);
                    problems.push(document.locate_at(problem, &path));
                }
            }
        }
        problems
    }
}

const MIN_TOKENS: u64 = 500;
/// What stands before every conversation, a summary and one step take about this.
const MIN_WINDOW: u64 = 4_000;
const MAX_TOKENS: u64 = 10_000_000;
