//! Evaluations as a run asks for them: with a number that stands in its journal, so that after a
//! crash the same one goes on, and one that is over is only read.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_core::event::{Evaluation, EvaluationSetup, FoundProblem, Spent};
use baton_core::handoff::make::Severity;
use baton_core::id::Tokens;
use baton_core::scenario::folder;
use baton_core::scenario::result::TARGET_MODEL;
use baton_core::text;

use super::{
    Ask, Error, Evaluated, Phase, Progress, Stop, Taken, Target, evaluate_counted, iterations,
};
use crate::beneath::Root;
use crate::drive::{self, Evaluator, Refused};
use crate::load::Environment;

/// Problems that a run remembers of an evaluation; the report has all.
const MOST_PROBLEMS: usize = 20;
/// How often a run says how far it is.
const SAID: Duration = Duration::from_secs(5);

/// Who evaluates for a run.
#[derive(Debug)]
pub struct ForRuns {
    /// The project.
    pub root: PathBuf,
    pub target: Target,
    pub judge: Target,
    pub jobs: usize,
    pub confined: bool,
    pub environment: Environment,
}

impl Evaluator for ForRuns {
    fn setup(&self) -> Option<EvaluationSetup> {
        let target = self.target.client.runner(&self.target.model);
        Some(EvaluationSetup { target, judge: self.judge.model.clone() })
    }

    fn next_number(&self, scenario: &str) -> Result<u32, Refused> {
        next_number(&self.root, scenario).map_err(refused)
    }

    fn evaluate(
        &mut self,
        ask: &drive::Ask<'_>,
        say: &mut dyn FnMut(String),
    ) -> (Result<Evaluation, Refused>, Spent) {
        let start = Instant::now();
        let (sender, said) = std::sync::mpsc::channel();
        let own = &*self;
        let done = std::thread::scope(|scope| {
            let work = std::thread::Builder::new()
                .spawn_scoped(scope, move || own.run(ask, &sender))
                .map_err(|error| format!("the evaluation cannot start a thread: {error}"))?;
            // Until the evaluation is over and its end of the channel is gone.
            said.iter().for_each(say);
            work.join().map_err(|_| "the evaluation broke down".to_owned())
        });
        let done = match done {
            Ok(done) => done,
            Err(why) => return (Err(Refused::Unusable(why)), Spent::default()),
        };
        let (done, taken) = done;
        let spent = Spent {
            milliseconds: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            tokens: taken.tokens.map(Tokens),
            cached: None,
            cost: taken.cost,
        };
        (done.map(|done| facts(&done, spent)).map_err(refused), spent)
    }
}

impl ForRuns {
    fn run(
        &self,
        ask: &drive::Ask<'_>,
        sender: &Sender<String>,
    ) -> (Result<Evaluated, Error>, Taken) {
        let last = Mutex::new(Instant::now());
        let progress = |now: &Progress| {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() >= SAID {
                *last = Instant::now();
                let _ = sender.send(progress_line(now));
            }
            if ask.control.is_parked() {
                ask.control.interrupt.at_once();
            }
        };
        evaluate_counted(&Ask {
            root: &self.root,
            scenario: &folder(ask.scenario),
            number: Some(ask.number),
            target: &self.target,
            judge: &self.judge,
            jobs: self.jobs,
            only: &[],
            new: false,
            retry_errors: false,
            attribution: true,
            confined: self.confined,
            environment: &self.environment,
            now: drive::now(),
            deadline: Some(Duration::from_secs(ask.seconds)),
            tokens: ask.tokens,
            cost: ask.cost,
            counted: ask.counted,
            interrupt: &ask.control.interrupt,
            disk: ask.disk,
            progress: &progress,
        })
    }
}

fn next_number(root: &Path, scenario: &str) -> Result<u32, Error> {
    let opened =
        Root::open(root, &[]).map_err(|source| Error::Folder { path: root.to_owned(), source })?;
    let all = iterations(&opened, &folder(scenario))?;
    let last = all.last().map_or(0, |last| last.number);
    if last >= super::outputs::MOST { Err(Error::TooMany(last)) } else { Ok(last + 1) }
}

fn progress_line(now: &Progress) -> String {
    let what = match now.phase {
        Phase::Samples => "samples",
        Phase::Attribution => "attributions",
        Phase::Report => "report",
    };
    format!("evaluation {}: {} of {} {what}", now.iteration, now.done, now.total)
}

fn facts(done: &Evaluated, spent: Spent) -> Evaluation {
    let problems = done.problems.iter().take(MOST_PROBLEMS).map(|own| FoundProblem {
        problem_id: text::cut(&own.problem_id, 60).into_owned(),
        is_critical: own.severity == Severity::Critical,
        title: text::cut(&own.title, 200).into_owned(),
        affected: own.affected as u64,
    });
    Evaluation {
        number: done.iteration,
        folder: done.output_dir.clone(),
        total: done.total,
        passed: done.passed,
        failed: done.failed,
        errors: done.errors,
        critical: done.critical,
        problems: problems.collect(),
        tools: done.hashes.tools.clone(),
        checkers: done.hashes.checkers.clone(),
        spent,
    }
}

/// What is the agent's to mend, what a person's, and what only needs another call.
fn refused(error: Error) -> Refused {
    let why = error.to_string();
    match error {
        Error::Invalid { file, problems, .. } => {
            let lines: Vec<String> = problems.iter().take(10).map(ToString::to_string).collect();
            Refused::Wrong(format!("{file}: {}", lines.join("\n")))
        }
        Error::Load(_)
        | Error::Beneath(_)
        | Error::NoSamples(_)
        | Error::NoSample(_)
        | Error::NothingToRetry
        | Error::TooMany(_) => Refused::Wrong(why),
        // Another model is a person's doing, and not the agent's.
        Error::Changed { what, .. } if what == TARGET_MODEL => Refused::Unusable(why),
        Error::Changed { .. } => Refused::Wrong(why),
        Error::Stopped { stop: Stop::Interrupted, .. } => Refused::Stopped,
        Error::Stopped { stop: Stop::Deadline | Stop::Tokens | Stop::Cost, .. } => {
            Refused::Limit(why)
        }
        Error::Stopped { stop: Stop::Outage, .. }
        | Error::Lock(_)
        | Error::Folder { .. }
        | Error::Protocol(_)
        | Error::Model(_)
        | Error::Sandbox(_) => Refused::Unusable(why),
        Error::Store(error) => Refused::Store(error),
    }
}
