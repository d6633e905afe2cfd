//! The evaluation of a scenario: one iteration of it, sample by sample, side by side. What is finished
//! is on disk before it counts, and is never done again; going on after an interruption is the same
//! call once more.

mod ask;
mod blame;
mod for_runs;
mod look;
mod outputs;
mod programs;
mod read;
mod sample;
mod writer;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_core::handoff::make::{ProblemsReport, Severity};
use baton_core::handoff::{FAILURE_SUMMARY, PROBLEMS_REPORT};
use baton_core::id::{Timestamp, Tokens};
use baton_core::problem::Problem;
use baton_core::scenario::count::{self, Tally};
use baton_core::scenario::result::{Hashes, written};
use baton_core::scenario::talk::Voice;
use baton_core::turn::Protocol;

use crate::load::{self, Environment};
use crate::lock::Lock;
use crate::model::{Client, catalogue};
use crate::sandbox::{self, Interrupt};
use crate::store::{self, Disk};
use crate::{beneath, lock};

pub use for_runs::ForRuns;
pub use look::{Case, Outcomes};
pub use outputs::{Iteration, head_of, iterations};

/// Failures to reach a model in a row, after which it is not asked any more.
const OUTAGE: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Beneath(#[from] beneath::Error),
    #[error(transparent)]
    Lock(#[from] lock::Error),
    #[error("cannot open the folder {}: {source}", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    /// A file of the scenario is wrong.
    #[error("{}", problems.first().map_or_else(String::new, ToString::to_string))]
    Invalid { file: String, problems: Vec<Problem>, text: Option<String> },
    #[error("there are no samples in {0}")]
    NoSamples(String),
    #[error("there is no sample `{0}`")]
    NoSample(String),
    #[error("there are too many iterations; the highest is {0}")]
    TooMany(u32),
    /// An iteration was begun with something else.
    #[error("iteration {iteration} cannot go on: since it began, {what} changed")]
    Changed { iteration: u32, what: String },
    #[error("there is no iteration whose errors could be tried again")]
    NothingToRetry,
    /// It stopped in good order; the same call goes on.
    #[error("{why}; {done}")]
    Stopped { stop: Stop, why: String, done: String },
    /// The model's report was wrong twice.
    #[error("the problems report cannot be used: {0}")]
    Protocol(String),
    #[error("the model could not be asked for the problems report: {0}")]
    Model(String),
    #[error("{0}")]
    Sandbox(String),
}

/// Why an evaluation stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Interrupted,
    Deadline,
    Tokens,
    Cost,
    /// A model cannot be reached.
    Outage,
}

/// A model that is called.
#[derive(Debug, Clone)]
pub struct Target {
    pub client: Client,
    pub model: String,
    pub max_output: Tokens,
    pub protocol: Protocol,
    pub temperature: Option<f64>,
    pub price: Option<catalogue::Price>,
}

impl Target {
    fn voice(&self) -> Voice {
        Voice {
            model: self.model.clone(),
            max_output: self.max_output,
            temperature: self.temperature,
            protocol: self.protocol,
        }
    }
}

/// What is to be evaluated, and how.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    pub root: &'a Path,
    /// The scenario's folder, from the root.
    pub scenario: &'a str,
    /// Exactly this iteration: it begins, goes on, or is only read where it is over.
    pub number: Option<u32>,
    pub target: &'a Target,
    /// Plays users, judges by rubrics, attributes failures, writes the problems report.
    pub judge: &'a Target,
    /// Samples at once.
    pub jobs: usize,
    /// Only these samples; none: all.
    pub only: &'a [String],
    /// Begin another iteration even if the last one is not finished.
    pub new: bool,
    /// In the last iteration, the samples that could not be evaluated, once more.
    pub retry_errors: bool,
    /// Whether a model is asked what failures are to be put down to.
    pub attribution: bool,
    /// Whether the scenario's programs are confined; only a person says no.
    pub confined: bool,
    pub environment: &'a Environment,
    pub now: Timestamp,
    /// Time, tokens and cost that this call may take; with `number`, also what earlier calls for the
    /// same iteration took, without what is `counted`.
    pub deadline: Option<Duration>,
    pub tokens: Option<u64>,
    /// Nano-dollars.
    pub cost: Option<u64>,
    /// Tokens and nano-dollars that this iteration took and that somebody has counted already.
    pub counted: (u64, u64),
    pub interrupt: &'a Interrupt,
    pub disk: &'a Disk,
    pub progress: &'a (dyn Fn(&Progress) + Sync),
}

impl std::fmt::Debug for Ask<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Ask({})", self.scenario)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Samples,
    Attribution,
    Report,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub phase: Phase,
    pub iteration: u32,
    pub done: u64,
    pub total: u64,
    /// Of the samples that are done; known while samples run.
    pub failed: u64,
    pub errors: u64,
    /// How many were done when this call began.
    pub before: u64,
}

/// An iteration that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// From the root.
    pub output_dir: String,
    pub iteration: u32,
    pub total: u64,
    pub passed: u64,
    pub failed: u64,
    pub errors: u64,
    /// Failed samples that a critical problem touches, of all that failed.
    pub critical_share: f64,
    pub critical: u64,
    /// In the order in which they should be solved.
    pub problems: Vec<Found>,
    pub hashes: Hashes,
    pub iterations: count::Iterations,
    /// Of this call: tokens, as far as they were counted, and nano-dollars where they are known.
    pub tokens: u64,
    pub cost: Option<u64>,
    /// Samples that ran in this call.
    pub redone: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub problem_id: String,
    pub severity: Severity,
    pub title: String,
    pub affected: usize,
}

/// What a call took, whatever came of it. `None`: nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    pub tokens: Option<u64>,
    /// Nano-dollars.
    pub cost: Option<u64>,
}

/// Evaluates one iteration, or goes on with one that was begun.
pub fn evaluate(ask: &Ask<'_>) -> Result<Evaluated, Error> {
    evaluate_counted(ask).0
}

/// The same, and what it took.
pub fn evaluate_counted(ask: &Ask<'_>) -> (Result<Evaluated, Error>, Taken) {
    let end = ask.deadline.and_then(|time| Instant::now().checked_add(time));
    let shared = ask::Shared::new(ask, end);
    let done = within(ask, &shared);
    (done, shared.taken())
}

fn within(ask: &Ask<'_>, shared: &ask::Shared<'_>) -> Result<Evaluated, Error> {
    if ask.confined
        && let Err(missing) = sandbox::available()
    {
        return Err(Error::Sandbox(missing.to_string()));
    }
    let scenario = read::Scenario::read(ask)?;
    ask.disk.make_folder(&scenario.outputs())?;
    scenario.root.look(&scenario.inside(baton_core::scenario::OUTPUTS))?;
    let _lock = Lock::take(&scenario.outputs().join(".lock"), "an evaluation")?;
    let is_over = |own: &Iteration| Some(own.number) == ask.number && own.is_over;
    let over = iterations(&scenario.root, ask.scenario)?.into_iter().find(is_over);
    if over.as_ref().is_some_and(|own| !own.is_ours()) {
        // Nobody but us says that an iteration is over.
        let what = "its head was lost".to_owned();
        return Err(Error::Changed { iteration: ask.number.unwrap_or(0), what });
    }
    let outputs = outputs::Outputs::open(ask, &scenario)?;
    if ask.number.is_some() {
        shared.took_before(ask, &outputs.spent(&scenario.root, &scenario.entries));
    }
    if let Some(done) = over.map(|own| finished(&own, &scenario, &outputs, shared)).transpose()? {
        return Ok(done);
    }
    let mut tally = Tally::default();
    let redone = sample::all(ask, &scenario, &outputs, shared, &mut tally)?;
    blame::all(ask, &scenario, &outputs, shared, &mut tally)?;
    let report = blame::report(ask, &scenario, &outputs, shared, &tally)?;
    let disk = ask.disk;
    disk.write_here(&outputs.path(PROBLEMS_REPORT), &written(&report))?;
    let iterations = outputs.counted(&scenario)?;
    // Written last: it says that the iteration is over.
    disk.write_here(&outputs.path(FAILURE_SUMMARY), &written(&tally.summary(&iterations)))?;
    let spent = shared.spent();
    Ok(Evaluated {
        output_dir: outputs.inside.clone(),
        iteration: outputs.head.iteration,
        total: tally.total,
        passed: tally.passed,
        failed: tally.failed(),
        errors: tally.errors(),
        critical_share: count::critical_share(&report),
        critical: count::critical(&report),
        problems: found(&report),
        hashes: outputs.head.hashes.clone(),
        iterations,
        tokens: shared.tokens(),
        cost: (spent.unknown_costs == 0).then_some(spent.cost.0),
        redone,
    })
}

/// The figures of an iteration that is over.
fn finished(
    own: &Iteration,
    scenario: &read::Scenario,
    outputs: &outputs::Outputs,
    shared: &ask::Shared<'_>,
) -> Result<Evaluated, Error> {
    let missing = || load::Error::Missing(PathBuf::from(&own.inside));
    let summary = own.summary(&scenario.root)?.ok_or_else(missing)?;
    let report = own.report(&scenario.root)?.ok_or_else(missing)?;
    let errors = summary.evaluation_errors.len() as u64;
    let spent = shared.spent();
    Ok(Evaluated {
        output_dir: own.inside.clone(),
        iteration: own.number,
        total: summary.total_samples,
        passed: summary.total_samples.saturating_sub(summary.failed_samples).saturating_sub(errors),
        failed: summary.failed_samples,
        errors,
        critical_share: count::critical_share(&report),
        critical: count::critical(&report),
        problems: found(&report),
        hashes: outputs.head.hashes.clone(),
        iterations: outputs.counted(scenario)?,
        tokens: shared.tokens(),
        cost: (spent.unknown_costs == 0).then_some(spent.cost.0),
        redone: 0,
    })
}

fn found(report: &ProblemsReport) -> Vec<Found> {
    let ordered = report.ordered().into_iter().map(|own| Found {
        problem_id: own.problem_id.clone(),
        severity: own.severity,
        title: own.title.clone(),
        affected: own.affected_samples.len(),
    });
    ordered.collect()
}
