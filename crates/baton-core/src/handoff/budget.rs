//! A package within its budget: what does not fit goes into files beside it, and the package carries
//! its start and its path.

use serde_json::Value;

use super::package::{ExecuteToInit, FailedSample, InitToExecute, Package};
use super::{BESIDE, FAILURE_INDEX};
use crate::id::Tokens;
use crate::problem::Problem;
use crate::text;
use crate::tokens;

pub const INIT_TO_EXECUTE: Tokens = Tokens(300);
pub const EXECUTE_TO_INIT: Tokens = Tokens(5_000);

/// No entry of an index is shorter than this, so no more can fit.
const LEAST_ENTRY_TOKENS: u64 = 40;
/// How many entries of an index are worth a look.
pub const MOST_ENTRIES: usize = (EXECUTE_TO_INIT.0 / LEAST_ENTRY_TOKENS) as usize;
/// A reason that is longer is a text of its own.
const REASON_CHARS: usize = 600;

/// A package that fits, and the files that it then needs.
#[derive(Debug, PartialEq)]
pub struct Fitted {
    pub package: Package,
    /// Paths as the package counts them (from the root, or from `execution_output_dir`) and texts.
    pub files: Vec<(String, String)>,
    pub tokens: Tokens,
}

pub fn of(package: &Package) -> Tokens {
    match package {
        Package::InitToExecute(_) => INIT_TO_EXECUTE,
        Package::ExecuteToInit(_) => EXECUTE_TO_INIT,
    }
}

/// Whether a package that somebody else wrote is within its budget, counted as we would write it.
pub fn check(package: &Package) -> Result<Tokens, Problem> {
    let tokens = tokens::count(&package.text());
    if tokens <= of(package) {
        return Ok(tokens);
    }
    Err(over(package, tokens))
}

fn over(package: &Package, tokens: Tokens) -> Problem {
    let largest = match serde_json::to_value(package) {
        Ok(Value::Object(fields)) => fields
            .iter()
            .map(|(name, value)| (tokens::count(&value.to_string()).0, name.clone()))
            .max(),
        _ => None,
    };
    let (size, name) = largest.unwrap_or_default();
    let message = format!(
        "the package has {} tokens; the largest field is `{}` with {size}",
        tokens.0,
        text::shown(&name, 60)
    );
    Problem::new("handoff-budget", message).expected(format!(
        "at most {}; what is longer goes into a file, and the package carries its start and path",
        of(package).0
    ))
}

/// Brings a package within its budget. `affected` tells how many samples the problem of a sample
/// touches: of an index that is too long, the most important ones stay.
pub fn fitted(package: Package, affected: &dyn Fn(&str) -> usize) -> Result<Fitted, Problem> {
    match package {
        Package::InitToExecute(package) => to_execute(package),
        Package::ExecuteToInit(mut package) => {
            let mut index = std::mem::take(&mut package.failure_samples_index);
            index.sort_by(|a, b| {
                let key =
                    |own: &FailedSample| (own.priority, usize::MAX - affected(&own.sample_id));
                key(a).cmp(&key(b)).then_with(|| a.sample_id.cmp(&b.sample_id))
            });
            let whole = || index.iter().map(line).collect();
            to_init(package, &index, index.len() as u64, &whole)
        }
    }
}

/// An entry as it stands in `failure_index.jsonl`.
pub fn line(sample: &FailedSample) -> String {
    let mut line = serde_json::to_string(sample).unwrap_or_default();
    line.push('\n');
    line
}

/// `first` are the most important of `total` samples, in their order; `whole` makes the text of all.
pub(super) fn to_init(
    mut package: ExecuteToInit,
    first: &[FailedSample],
    total: u64,
    whole: &dyn Fn() -> String,
) -> Result<Fitted, Problem> {
    let mut files = Vec::new();
    if package.trigger_reason.chars().count() > REASON_CHARS
        && package.trigger_reason_path.is_none()
    {
        let start = text::cut(&package.trigger_reason, REASON_CHARS).into_owned();
        let path = format!("{BESIDE}/trigger_reason.md");
        files.push((path.clone(), std::mem::replace(&mut package.trigger_reason, start)));
        package.trigger_reason_path = Some(path);
    }
    let budget = EXECUTE_TO_INIT.0;
    let attempt = |count: usize| {
        let mut package = package.clone();
        package.failure_samples_index = first[..count].to_vec();
        if (count as u64) < total {
            package.failure_samples_total = Some(total);
            package.failure_index_path = Some(FAILURE_INDEX.to_owned());
        }
        let package = Package::ExecuteToInit(package);
        let tokens = tokens::count(&package.text());
        (package, tokens)
    };
    // Entries are counted one by one first: the whole is then counted once or twice, not fifty times.
    let mut room = budget.saturating_sub(attempt(0).1.0);
    let mut count = 0;
    for sample in first.iter().take(MOST_ENTRIES) {
        let size = tokens::count(&line(sample)).0;
        if size > room {
            break;
        }
        room -= size;
        count += 1;
    }
    loop {
        let (package, tokens) = attempt(count);
        if tokens.0 <= budget {
            if (count as u64) < total {
                files.push((FAILURE_INDEX.to_owned(), whole()));
            }
            return Ok(Fitted { package, files, tokens });
        }
        if count == 0 {
            return Err(over(&package, tokens));
        }
        count -= 1;
    }
}

/// The fields that may leave, as texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Iterations,
    Rationale,
    Constraints,
    Requirement,
}

impl Field {
    fn whole(self, package: &InitToExecute) -> Option<(&'static str, String)> {
        match self {
            Field::Requirement => Some(("user_requirement.md", package.user_requirement.clone())),
            Field::Rationale => Some(("design_rationale.md", package.design_rationale.clone()?)),
            Field::Iterations => {
                let list = package.design_iterations.as_ref()?;
                Some(("design_iterations.json", serde_json::to_string_pretty(list).ok()?))
            }
            Field::Constraints => {
                let list = package.known_constraints.as_ref()?;
                Some(("known_constraints.json", serde_json::to_string_pretty(list).ok()?))
            }
        }
    }

    /// Whether its whole is in a file already.
    fn has_left(self, package: &InitToExecute) -> bool {
        match self {
            Field::Requirement => package.user_requirement_path.is_some(),
            Field::Rationale => package.design_rationale_path.is_some(),
            Field::Iterations => package.design_iterations_path.is_some(),
            Field::Constraints => package.known_constraints_path.is_some(),
        }
    }

    /// Leaves its first characters, or as many first entries as these would hold.
    fn leave(self, package: &mut InitToExecute, chars: usize, path: String) {
        fn first<T: serde::Serialize>(list: &mut Vec<T>, chars: usize) {
            let mut room = chars;
            let size = |item: &T| serde_json::to_string(item).map_or(usize::MAX, |text| text.len());
            let fits = list.iter().take_while(|item| {
                let left = room.checked_sub(size(item));
                room = left.unwrap_or(0);
                left.is_some()
            });
            let count = fits.count();
            list.truncate(count);
        }
        match self {
            Field::Requirement => {
                package.user_requirement =
                    text::cut(&package.user_requirement, chars.max(8)).into_owned();
                package.user_requirement_path = Some(path);
            }
            Field::Rationale => {
                let whole = package.design_rationale.take().unwrap_or_default();
                package.design_rationale = Some(text::cut(&whole, chars.max(8)).into_owned());
                package.design_rationale_path = Some(path);
            }
            Field::Iterations => {
                package.design_iterations.iter_mut().for_each(|list| first(list, chars));
                package.design_iterations_path = Some(path);
            }
            Field::Constraints => {
                package.known_constraints.iter_mut().for_each(|list| first(list, chars));
                package.known_constraints_path = Some(path);
            }
        }
    }
}

fn to_execute(package: InitToExecute) -> Result<Fitted, Problem> {
    /// How much of each field that leaves stays, tried in this order.
    const STARTS: [usize; 6] = [400, 200, 100, 60, 30, 8];
    let whole = Package::InitToExecute(package.clone());
    let tokens = tokens::count(&whole.text());
    if tokens <= INIT_TO_EXECUTE {
        return Ok(Fitted { package: whole, files: Vec::new(), tokens });
    }
    let mut fields: Vec<(u64, Field, &str, String)> =
        [Field::Iterations, Field::Rationale, Field::Constraints, Field::Requirement]
            .into_iter()
            .filter(|field| !field.has_left(&package))
            .filter_map(|field| {
                let (name, text) = field.whole(&package)?;
                Some((tokens::count(&text).0, field, name, text))
            })
            .collect();
    fields.sort_by_key(|(size, field, ..)| (u64::MAX - size, *field));
    // The fewer fields leave, the better; of these, the longer their starts.
    for count in 1..=fields.len() {
        for start in STARTS {
            let mut package = package.clone();
            let mut files = Vec::new();
            for (_, field, name, text) in &fields[..count] {
                // Two packages must not write over each other's texts.
                let hash = blake3::hash(text.as_bytes()).to_hex();
                let path = format!("{BESIDE}/{}_{name}", &hash[..8]);
                field.leave(&mut package, start, path.clone());
                files.push((path, text.clone()));
            }
            let package = Package::InitToExecute(package);
            let tokens = tokens::count(&package.text());
            if tokens <= INIT_TO_EXECUTE {
                return Ok(Fitted { package, files, tokens });
            }
        }
    }
    Err(over(&whole, tokens))
}
