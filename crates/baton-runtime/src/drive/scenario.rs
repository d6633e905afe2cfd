//! What a run does where its pack designs and evaluates: it looks at what a person must approve,
//! hands packages from one agent to the other, and has samples run.

use std::path::Path;

use baton_core::event::{Evaluation, EvaluationSetup, Event, FilesSeen, SeenFile, Spent, Stop};
use baton_core::handoff::package::Extra;
use baton_core::id::{AgentName, Tokens};
use baton_core::policy::{Approval, SCENARIO};
use baton_core::prompt::Injected;
use baton_core::workflow::ApprovalAnswer;
use serde_json::json;

use super::{Control, Drive, Error, Notice};
use crate::beneath::Root;
use crate::{handoff, load, store};

/// What a user approves is a text that people read.
const MOST_BYTES: u64 = 4 << 20;
/// What an agent is given of the files of a package; it may read more by itself.
const READING: Tokens = Tokens(40_000);

/// Nobody was asked anything.
const NOTHING: Spent =
    Spent { milliseconds: 0, tokens: Some(Tokens(0)), cached: None, cost: Some(0) };

/// Who runs the samples of a scenario.
pub trait Evaluator {
    /// For the journal: its models, where they can be named again.
    fn setup(&self) -> Option<EvaluationSetup> {
        None
    }

    /// The number that the next evaluation gets.
    fn next_number(&self, scenario: &str) -> Result<u32, Refused>;

    /// Runs what is left of the evaluation with this number; one that is finished is only read. Beside
    /// what came of it, what it took.
    fn evaluate(
        &mut self,
        ask: &Ask<'_>,
        say: &mut dyn FnMut(String),
    ) -> (Result<Evaluation, Refused>, Spent);
}

/// Which samples, and how far they may go.
#[derive(Debug)]
pub struct Ask<'a> {
    pub scenario: &'a str,
    pub number: u32,
    pub disk: &'a store::Disk,
    pub seconds: u64,
    pub tokens: Option<u64>,
    /// Nano-dollars.
    pub cost: Option<u64>,
    /// Tokens and nano-dollars of it that are counted already.
    pub counted: (u64, u64),
    /// A person's wish to stop.
    pub control: &'a Control,
}

/// Why there are no figures.
#[derive(Debug)]
pub enum Refused {
    /// What was made cannot be run: its agent has to mend it.
    Wrong(String),
    /// A person has to change something, then the run goes on here.
    Unusable(String),
    /// A budget is used up.
    Limit(String),
    /// Somebody asked to stop; what is finished stays.
    Stopped,
    Store(store::Error),
}

impl Drive<'_> {
    fn scenario(&self) -> String {
        self.state.origin.scenario.clone().unwrap_or_default()
    }

    pub(super) fn look_at_files(&mut self, approval: &Approval) -> Result<(), Error> {
        let seen = self.seen(approval)?;
        self.commit(Event::FilesSeen(Box::new(seen)))
    }

    fn seen(&self, approval: &Approval) -> Result<FilesSeen, Error> {
        let root = Root::open(&self.around.project, &[])
            .map_err(|source| load::Error::Io { path: self.around.project.clone(), source })?;
        let mut seen = FilesSeen { digest: String::new(), files: Vec::new(), missing: Vec::new() };
        let mut whole = blake3::Hasher::new();
        for path in approval.files_of(&self.scenario()).into_values() {
            let opened = root.read(&path).map_err(|error| error.to_string());
            let bytes = opened.and_then(|opened| {
                load::opened(opened.file, Path::new(&path), MOST_BYTES)
                    .map_err(|error| error.to_string())
            });
            match bytes {
                Ok(bytes) if bytes.is_empty() => seen.missing.push(format!("{path}: it is empty")),
                Ok(bytes) => {
                    let digest = load::digest(&bytes);
                    whole.update(format!("{path}\0{digest}\0").as_bytes());
                    seen.files.push(SeenFile { path, bytes: bytes.len() as u64, digest });
                }
                Err(why) => seen.missing.push(why),
            }
        }
        seen.digest = whole.finalize().to_hex().to_string();
        Ok(seen)
    }

    pub(super) fn start_evaluation(&mut self) -> Result<(), Error> {
        let scenario = self.scenario();
        let number = match &self.around.evaluator {
            Some(evaluator) => evaluator.next_number(&scenario),
            None => Err(nobody()),
        };
        match number {
            Ok(number) => self.commit(Event::EvaluationStarted { number }),
            Err(refused) => self.not_evaluated(refused, NOTHING),
        }
    }

    pub(super) fn evaluate(&mut self, number: u32) -> Result<(), Error> {
        let scenario = self.scenario();
        let control = self.around.control.clone();
        let (disk, seconds) = (self.around.disk.clone(), self.state.seconds_left());
        let ask = Ask {
            scenario: &scenario,
            number,
            disk: &disk,
            seconds,
            tokens: self.state.tokens_left(),
            cost: self.state.cost_left(),
            counted: self.state.acceptance.evaluation_counted,
            control: &control,
        };
        let watch = &mut self.around.watch;
        let (result, spent) = match self.around.evaluator.as_deref_mut() {
            Some(evaluator) => evaluator.evaluate(&ask, &mut |said| watch(Notice::Said(said))),
            None => (Err(nobody()), NOTHING),
        };
        match result {
            Ok(evaluation) if self.is_still_approved()? => {
                self.commit(Event::Evaluated(Box::new(evaluation)))
            }
            Ok(_) => {
                let why = self.around.board.pack.words().approved_files_changed();
                self.commit(Event::EvaluationRefused { why, spent })
            }
            Err(refused) => self.not_evaluated(refused, spent),
        }
    }

    /// True if the files are what was approved also after the evaluation.
    fn is_still_approved(&self) -> Result<bool, Error> {
        let policy = &self.around.board.pack.policy;
        let of = policy.evaluation.as_ref().map(|own| &own.of);
        match policy.approval.clone().filter(|own| of == Some(&own.before)) {
            None => Ok(true),
            Some(approval) => Ok(self.state.is_approved(&self.seen(&approval)?)),
        }
    }

    fn not_evaluated(&mut self, refused: Refused, spent: Spent) -> Result<(), Error> {
        let stopped = match refused {
            Refused::Wrong(why) => return self.commit(Event::EvaluationRefused { why, spent }),
            Refused::Store(error) => return Err(error.into()),
            Refused::Unusable(why) => Some(Stop::Executor(why)),
            Refused::Limit(why) => Some(Stop::Limit(why)),
            // The loop sees that it is to park.
            Refused::Stopped => None,
        };
        self.commit(Event::EvaluationPaused { spent })?;
        match stopped {
            Some(why) => self.commit(Event::Stopped { why }),
            None => Ok(()),
        }
    }

    /// What other agents hand to this one, as files that are written and as it is told.
    pub(super) fn handoffs(&mut self, agent: &AgentName) -> Result<Vec<Injected>, Error> {
        let policy = &self.around.board.pack.policy;
        let approval = policy.approval.clone().filter(|own| own.before == *agent);
        let evaluation = policy.evaluation.clone().filter(|own| own.back_to == *agent);
        let mut handed = Vec::new();
        if let Some(approval) = approval {
            handed.push(self.approved_package(&approval)?);
        }
        if let Some(evaluation) = evaluation {
            handed.extend(self.returned_package(&evaluation.package)?);
        }
        Ok(handed.into_iter().flatten().collect())
    }

    /// The approved files, for the agent that works by them.
    fn approved_package(&mut self, approval: &Approval) -> Result<Option<Injected>, Error> {
        let approved = self.state.acceptance.approvals.approved.clone();
        let Some((_, time)) = approved else { return Ok(None) };
        let scenario = self.scenario();
        let path = approval.package.replace(SCENARIO, &scenario);
        let answers = self.state.acceptance.approvals.answers.iter().map(answered).collect();
        let made = handoff::make_design(
            &self.around.project,
            &self.state.origin.task,
            approval.files_of(&scenario),
            answers,
            time,
        );
        match self.write_package(made, &path)? {
            Some(text) => Ok(Some(Injected { path, text })),
            None => Ok(None),
        }
    }

    /// What the last evaluation found, for the agent that gets the work back: the package, and the
    /// reading of its files.
    fn returned_package(&mut self, name: &str) -> Result<Vec<Option<Injected>>, Error> {
        let (Some(last), Some(returned)) = (
            self.state.acceptance.evaluations.last().cloned(),
            self.state.acceptance.returned.clone(),
        ) else {
            return Ok(Vec::new());
        };
        let folder = self.around.project.join(&last.folder);
        let made = handoff::make(&folder, &self.around.project, Some(&returned.why), returned.time);
        let path = format!("{}/{name}", last.folder);
        let Some(text) = self.write_package(made, &path)? else { return Ok(Vec::new()) };
        let package = Injected { path: path.clone(), text };
        let limit = self.around.board.config.context.prompt_limit.agent;
        let words = self.around.board.pack.words();
        let checked = handoff::check(&self.around.project.join(&path), &self.around.project);
        let reading = checked.ok().map(|checked| {
            let budget = Tokens(READING.0.min(limit / 2));
            Injected {
                path: words.handoff_read(&last.folder),
                text: checked.reading(words, budget).text(),
            }
        });
        Ok(vec![Some(package), reading])
    }

    /// `None`: it could not be made, and that was said. The agent can still read the files.
    fn write_package(
        &mut self,
        made: Result<handoff::Made, handoff::Error>,
        path: &str,
    ) -> Result<Option<String>, Error> {
        let target = self.around.project.join(path);
        if target.is_dir() {
            let said = self.around.board.pack.words().package_is_folder(path);
            (self.around.watch)(Notice::Said(said));
            return Ok(None);
        }
        let written = made.and_then(|made| {
            made.write_by(&self.around.disk, &target)?;
            Ok(made.fitted.package.text())
        });
        match written {
            Ok(text) => Ok(Some(text)),
            Err(handoff::Error::Store(error)) => Err(error.into()),
            Err(error) => {
                let said = self.around.board.pack.words().no_package(path, error);
                (self.around.watch)(Notice::Said(said));
                Ok(None)
            }
        }
    }
}

fn nobody() -> Refused {
    let why = "nothing says which model plays the target of the samples";
    Refused::Unusable(why.to_owned())
}

fn answered(answer: &ApprovalAnswer) -> Extra {
    [
        ("iteration", json!(answer.iteration)),
        ("time", json!(answer.time.to_string())),
        ("choice", json!(answer.choice)),
        ("comment", json!(answer.comment)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
