//! What an iteration left, for those who look at it later. Nothing is believed because it is ours:
//! names are checked, sizes asked, and what cannot be read is said.

use std::collections::BTreeMap;

use baton_core::handoff::FOLDERS;
use baton_core::scenario::compare::Outcome;
use baton_core::scenario::parts::id_problem;
use baton_core::scenario::result::{Attribution, Evaluation, Trace};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::outputs::{EVALUATION, Iteration, MAX_RESULT_BYTES};
use super::{Error, read};
use crate::beneath::Root;

/// Of a document that is shown on a page.
const MAX_SHOWN_BYTES: u64 = 4 << 20;

/// How each sample came out.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    pub samples: BTreeMap<String, Outcome>,
    /// Files that could not be read.
    pub damaged: Vec<String>,
}

/// What there is of one sample.
#[derive(Debug, Clone, Default)]
pub struct Case {
    pub sample: Option<Value>,
    pub trace: Option<Trace>,
    pub evaluation: Option<Evaluation>,
    pub attribution: Option<Attribution>,
    /// What could not be shown, and why.
    pub missing: Vec<String>,
}

impl Iteration {
    /// Every finished sample.
    pub fn outcomes(&self, root: &Root) -> Result<Outcomes, Error> {
        let folder = format!("{}/{}", self.inside, FOLDERS[2]);
        let mut found = Outcomes::default();
        for own in root.entries(&folder)? {
            let Some(id) = own.name.strip_suffix(EVALUATION).filter(|id| id_problem(id).is_none())
            else {
                continue;
            };
            let text = read::text(root, &format!("{folder}/{}", own.name), MAX_RESULT_BYTES);
            let read: Option<Evaluation> =
                text.ok().and_then(|text| serde_json::from_str(&text).ok());
            match read.filter(|own| own.sample_id == id) {
                Some(read) => drop(found.samples.insert(id.to_owned(), Outcome::from(&read))),
                None => found.damaged.push(own.name),
            }
        }
        Ok(found)
    }

    /// The documents of a sample, as far as they can be shown.
    pub fn case(&self, root: &Root, id: &str) -> Case {
        let mut case = Case::default();
        if id_problem(id).is_some() {
            case.missing.push("this is no name of a sample".to_owned());
            return case;
        }
        let [samples, traces, evaluations, attributions] = FOLDERS;
        case.sample = self.shown(root, &format!("{samples}/{id}.json"), &mut case.missing);
        case.trace = self.shown(root, &format!("{traces}/{id}_trace.json"), &mut case.missing);
        let name = format!("{evaluations}/{id}{EVALUATION}");
        case.evaluation = self.shown(root, &name, &mut case.missing);
        let name = format!("{attributions}/{id}_attribution.json");
        // Nobody was asked, where there is none.
        case.attribution = self.shown(root, &name, &mut Vec::new());
        case
    }

    fn shown<T: DeserializeOwned>(
        &self,
        root: &Root,
        name: &str,
        missing: &mut Vec<String>,
    ) -> Option<T> {
        let path = format!("{}/{name}", self.inside);
        let read = match read::text(root, &path, MAX_SHOWN_BYTES) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        read.map_err(|why| missing.push(format!("{path}: {why}"))).ok()
    }
}
