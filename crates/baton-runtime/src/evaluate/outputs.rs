//! The folders of iterations: which one goes on, which begins, and what they hold.

use std::path::PathBuf;

use baton_core::document::MAX_BYTES;
use baton_core::handoff::make::{FailureSummary, ProblemsReport};
use baton_core::handoff::{
    FAILURE_SUMMARY, FOLDERS, MAX_SUMMARY_BYTES, PROBLEMS_REPORT, read_long,
};
use baton_core::message::Usage;
use baton_core::scenario::count;
use baton_core::scenario::result::{Head, Status, written};
use baton_core::scenario::{HEAD, OUTPUTS};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ask::Before;
use super::read::{self, Scenario};
use super::{Ask, Error};
use crate::beneath::Root;

/// The start of an iteration's folder.
const NAME: &str = "iteration_";
/// No scenario has more; a folder with a higher number is nobody's.
pub(super) const MOST: u32 = 1_000_000;
/// Most that one of our documents about a sample may have.
pub(super) const MAX_RESULT_BYTES: u64 = 256 << 20;

/// The iteration that is evaluated.
#[derive(Debug)]
pub(super) struct Outputs {
    folder: PathBuf,
    /// From the root.
    pub(super) inside: String,
    pub(super) head: Head,
}

/// An iteration as its files tell it.
#[derive(Debug, Clone)]
pub struct Iteration {
    pub number: u32,
    /// From the root.
    pub inside: String,
    /// Missing where it was interrupted at once.
    pub head: Option<Head>,
    /// There when it is over.
    pub is_over: bool,
}

/// The iterations of a scenario, first to last.
pub fn iterations(root: &Root, scenario: &str) -> Result<Vec<Iteration>, Error> {
    let outputs = format!("{scenario}/{OUTPUTS}");
    let listed = match root.entries(&outputs) {
        Err(crate::beneath::Error::Missing(_)) => return Ok(Vec::new()),
        other => other?,
    };
    let mut all = Vec::new();
    for own in listed {
        let number = own.name.strip_prefix(NAME).and_then(|own| own.parse::<u32>().ok());
        // `iteration_07` or `iteration_+7` is nobody's.
        let is_ours =
            |number: &u32| (1..=MOST).contains(number) && own.name == format!("{NAME}{number}");
        let Some(number) = number.filter(is_ours) else {
            continue;
        };
        let inside = format!("{outputs}/{}", own.name);
        let head = head_of(root, &inside)?;
        let is_over = root.is_file(&format!("{inside}/{FAILURE_SUMMARY}"));
        all.push(Iteration { number, inside, head, is_over });
    }
    all.sort_by_key(|own| own.number);
    Ok(all)
}

/// The head of an iteration, where it has one.
pub fn head_of(root: &Root, inside: &str) -> Result<Option<Head>, Error> {
    document(root, &format!("{inside}/{HEAD}"), MAX_BYTES as u64)
}

/// A document of ours; `None` where there is none.
fn document<T: DeserializeOwned>(root: &Root, path: &str, limit: u64) -> Result<Option<T>, Error> {
    let text = match read::text(root, path, limit) {
        Err(Error::Load(crate::load::Error::Missing(_))) => return Ok(None),
        other => other?,
    };
    read_long(&text).map(Some).map_err(|problem| Error::Invalid {
        file: path.to_owned(),
        problems: vec![problem.in_file(path)],
        text: None,
    })
}

impl Iteration {
    /// Whether it was begun by us, as its number says.
    pub(super) fn is_ours(&self) -> bool {
        self.head.as_ref().is_some_and(|own| own.iteration == self.number)
    }

    pub fn summary(&self, root: &Root) -> Result<Option<FailureSummary>, Error> {
        document(root, &format!("{}/{FAILURE_SUMMARY}", self.inside), MAX_SUMMARY_BYTES)
    }

    pub fn report(&self, root: &Root) -> Result<Option<ProblemsReport>, Error> {
        document(root, &format!("{}/{PROBLEMS_REPORT}", self.inside), MAX_SUMMARY_BYTES)
    }

    /// How many samples are finished.
    pub fn finished(&self, root: &Root) -> u64 {
        let listed = root.entries(&format!("{}/{}", self.inside, FOLDERS[2]));
        let ours = |name: &str| name.ends_with(EVALUATION) && !name.starts_with('.');
        listed.map_or(0, |all| all.iter().filter(|own| ours(&own.name)).count() as u64)
    }
}

/// Goes on only with what it began with.
fn unchanged(number: u32, begun: Option<&Head>, now: &Head) -> Result<u32, Error> {
    let changes = begun.map(|own| own.changes(now)).unwrap_or_default();
    match changes.is_empty() {
        true => Ok(number),
        false => Err(Error::Changed { iteration: number, what: changes.join(" and ") }),
    }
}

pub(super) const EVALUATION: &str = "_eval.json";

/// What a sample leaves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Sample,
    Trace,
    Evaluation,
    Attribution,
}

impl Outputs {
    pub(super) fn open(ask: &Ask<'_>, scenario: &Scenario) -> Result<Outputs, Error> {
        let folder = scenario.inside("");
        let all = iterations(&scenario.root, folder.trim_end_matches('/'))?;
        let mut head = Head {
            scenario: scenario.name().to_owned(),
            iteration: 1,
            hashes: scenario.hashes.clone(),
            target_model: ask.target.model.clone(),
            total_samples: scenario.entries.len() as u64,
            only: ask.only.to_vec(),
        };
        let last = all.last();
        head.iteration = match last {
            _ if ask.number.is_some() => {
                let number = ask.number.unwrap_or_default();
                let own = all.iter().find(|own| own.number == number);
                let begun = own.and_then(|own| own.head.as_ref());
                unchanged(number, begun, &head)?
            }
            None if ask.retry_errors => return Err(Error::NothingToRetry),
            None => 1,
            Some(last) if last.number == MOST => return Err(Error::TooMany(MOST)),
            Some(last) if (last.is_over && !ask.retry_errors) || ask.new => last.number + 1,
            Some(last) => unchanged(last.number, last.head.as_ref(), &head)?,
        };
        let name = format!("{NAME}{}", head.iteration);
        let outputs = Outputs {
            folder: scenario.outputs().join(&name),
            inside: scenario.inside(&format!("{OUTPUTS}/{name}")),
            head,
        };
        outputs.prepare(ask, scenario)?;
        Ok(outputs)
    }

    fn prepare(&self, ask: &Ask<'_>, scenario: &Scenario) -> Result<(), Error> {
        let root = &scenario.root;
        ask.disk.make_folder(&self.folder)?;
        root.look(&self.inside)?;
        ask.disk.sweep(&self.folder, 1)?;
        if head_of(root, &self.inside)?.is_none() {
            ask.disk.write_here(&self.path(HEAD), &written(&self.head))?;
        }
        for name in FOLDERS {
            ask.disk.make_folder(&self.path(name))?;
            root.look(&format!("{}/{name}", self.inside))?;
        }
        if ask.retry_errors {
            // First the mark that all is over, so that a crash leaves an iteration that goes on.
            for name in [FAILURE_SUMMARY, PROBLEMS_REPORT] {
                if root.is_file(&format!("{}/{name}", self.inside)) {
                    ask.disk.remove(&self.path(name))?;
                }
            }
            for entry in &scenario.entries {
                let found = self.evaluation(root, &entry.id);
                if found.is_some_and(|own| own.status == Status::Error) {
                    ask.disk.remove(&self.file(Kind::Evaluation, &entry.id))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn name(kind: Kind, id: &str) -> String {
        let [samples, traces, evaluations, attributions] = FOLDERS;
        match kind {
            Kind::Sample => format!("{samples}/{id}.json"),
            Kind::Trace => format!("{traces}/{id}_trace.json"),
            Kind::Evaluation => format!("{evaluations}/{id}{EVALUATION}"),
            Kind::Attribution => format!("{attributions}/{id}_attribution.json"),
        }
    }

    pub(super) fn file(&self, kind: Kind, id: &str) -> PathBuf {
        self.path(&Outputs::name(kind, id))
    }

    /// What is there of a sample and can be read; damaged is as good as missing.
    pub(super) fn read<T: DeserializeOwned>(&self, root: &Root, kind: Kind, id: &str) -> Option<T> {
        let text = self.text(root, kind, id)?;
        serde_json::from_str(&text).ok()
    }

    pub(super) fn text(&self, root: &Root, kind: Kind, id: &str) -> Option<String> {
        let path = format!("{}/{}", self.inside, Outputs::name(kind, id));
        read::text(root, &path, MAX_RESULT_BYTES).ok()
    }

    pub(super) fn evaluation(
        &self,
        root: &Root,
        id: &str,
    ) -> Option<baton_core::scenario::result::Evaluation> {
        self.read(root, Kind::Evaluation, id)
    }

    /// What the finished samples of this iteration took.
    pub(super) fn spent(&self, root: &Root, entries: &[read::Entry]) -> Before {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Took {
            usage: Option<Usage>,
            judge_usage: Option<Usage>,
        }
        let took = |kind, id: &str| self.read::<Took>(root, kind, id).unwrap_or_default();
        let mut before = Before::default();
        for entry in entries {
            let own = took(Kind::Evaluation, &entry.id).judge_usage.unwrap_or_default();
            let blame = took(Kind::Attribution, &entry.id).usage.unwrap_or_default();
            let target = took(Kind::Trace, &entry.id).usage.unwrap_or_default();
            before.target = before.target.plus(target);
            before.judge = before.judge.plus(own).plus(blame);
        }
        before
    }

    /// This iteration and all before it.
    fn so_far(&self, scenario: &Scenario) -> Result<Vec<Iteration>, Error> {
        let folder = scenario.inside("");
        let mut all = iterations(&scenario.root, folder.trim_end_matches('/'))?;
        all.retain(|own| own.number <= self.head.iteration);
        Ok(all)
    }

    pub(super) fn counted(&self, scenario: &Scenario) -> Result<count::Iterations, Error> {
        let heads = self.so_far(scenario)?.into_iter().filter_map(|own| own.head);
        let hashes: Vec<_> = heads.map(|own| own.hashes).collect();
        Ok(count::iterations(&hashes))
    }

    /// The problems of earlier iterations by id and title, the newest title of each.
    pub(super) fn earlier(&self, scenario: &Scenario) -> Result<Vec<(String, String)>, Error> {
        let mut found: Vec<(String, String)> = Vec::new();
        let mut all = self.so_far(scenario)?;
        all.retain(|own| own.number < self.head.iteration);
        // The last few: what did not come back for so long is another one.
        for own in all.iter().rev().take(10) {
            for problem in
                own.report(&scenario.root)?.into_iter().flat_map(|own| own.layer1_problems)
            {
                if !found.iter().any(|(id, _)| *id == problem.problem_id) {
                    found.push((problem.problem_id, problem.title));
                }
            }
        }
        Ok(found)
    }
}
