//! Two iterations of a scenario, sample by sample: what the later one changed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::result::{Evaluation, Status};

/// What an iteration says of a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    pub status: Status,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checkers_failed: Vec<String>,
    /// Of the error, where it could not be evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl From<&Evaluation> for Outcome {
    fn from(own: &Evaluation) -> Outcome {
        Outcome {
            status: own.status,
            checkers_failed: own.checkers_failed.clone(),
            code: own.error.as_ref().map(|error| error.code.clone()),
        }
    }
}

/// A sample that both have, and that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub sample_id: String,
    pub before: Outcome,
    pub after: Outcome,
}

/// A sample that only one of them has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Single {
    pub sample_id: String,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Every sample stands in exactly one of these lists, or is counted as unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Failed before, passes now.
    pub fixed: Vec<Change>,
    /// Passed before, fails now.
    pub broken: Vec<Change>,
    /// Fails as before, but with other checkers.
    pub otherwise: Vec<Change>,
    /// One of them could not evaluate it, or both could not, for different reasons.
    pub errors: Vec<Change>,
    pub new: Vec<Single>,
    pub gone: Vec<Single>,
    pub unchanged_passed: usize,
    pub unchanged_failed: usize,
    pub unchanged_errors: usize,
}

/// By sample id; `before` and `after` are all samples of each iteration.
pub fn compared(
    before: &BTreeMap<String, Outcome>,
    after: &BTreeMap<String, Outcome>,
) -> Comparison {
    let mut found = Comparison::default();
    for (id, old) in before {
        let sample_id = id.clone();
        let Some(new) = after.get(id) else {
            found.gone.push(Single { sample_id, outcome: old.clone() });
            continue;
        };
        let change = Change { sample_id, before: old.clone(), after: new.clone() };
        match (old.status, new.status) {
            (Status::Passed, Status::Passed) => found.unchanged_passed += 1,
            (Status::Failed, Status::Passed) => found.fixed.push(change),
            (Status::Passed, Status::Failed) => found.broken.push(change),
            (Status::Failed, Status::Failed) => match names(old) == names(new) {
                true => found.unchanged_failed += 1,
                false => found.otherwise.push(change),
            },
            (Status::Error, Status::Error) if old.code == new.code => found.unchanged_errors += 1,
            (Status::Error, _) | (_, Status::Error) => found.errors.push(change),
        }
    }
    let added = after.iter().filter(|(id, _)| !before.contains_key(*id));
    found.new =
        added.map(|(id, own)| Single { sample_id: id.clone(), outcome: own.clone() }).collect();
    found
}

/// The order of checkers means nothing.
fn names(own: &Outcome) -> BTreeSet<&str> {
    own.checkers_failed.iter().map(String::as_str).collect()
}

impl Comparison {
    pub fn is_empty(&self) -> bool {
        let changed = [&self.fixed, &self.broken, &self.otherwise, &self.errors];
        changed.iter().all(|list| list.is_empty()) && self.new.is_empty() && self.gone.is_empty()
    }
}
