//! The two packages as text and as types. Reading is strict about what is known and keeps what is
//! not; every problem names its field.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::folder::{self, Base};
use crate::document::{Document, Node, Value as Tree};
use crate::id::Timestamp;
use crate::messages::Language;
use crate::problem::{self, Problem};
use crate::text;

/// Fields that nobody of us knows, in their order.
pub type Extra = IndexMap<String, Value>;
/// The files of a design: names to paths from the root.
pub type Artifacts = IndexMap<String, String>;

pub const VERSION: &str = "2.0";
pub const INIT_TO_EXECUTE: &str = "init_to_execute";
pub const EXECUTE_TO_INIT: &str = "execute_to_init";
/// More suggestions are a report, not a summary of one.
pub const MOST_SUGGESTIONS: usize = 5;
/// Where there are as many problems, so many suggestions are due.
pub const LEAST_SUGGESTIONS: usize = 3;
/// A person reads no more of them; the rest are counted.
const MOST_PROBLEMS: usize = 50;

const COMMON: [&str; 4] = ["version", "handoff_type", "timestamp", "metadata"];
const TO_EXECUTE: [&str; 9] = [
    "user_requirement",
    "user_requirement_path",
    "design_artifacts",
    "design_rationale",
    "design_rationale_path",
    "design_iterations",
    "design_iterations_path",
    "known_constraints",
    "known_constraints_path",
];
const TO_INIT: [&str; 9] = [
    "execution_output_dir",
    "trigger_reason",
    "trigger_reason_path",
    "iteration_summary",
    "failure_samples_index",
    "failure_samples_total",
    "failure_index_path",
    "layer1_problems_report_path",
    "modification_suggestions_summary",
];
const ARTIFACTS: [&str; 3] =
    ["unified_scenario_design_path", "business_rules_path", "format_specifications_path"];

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Package {
    InitToExecute(InitToExecute),
    ExecuteToInit(ExecuteToInit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Version {
    #[serde(rename = "2.0")]
    V2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToExecute {
    InitToExecute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToInit {
    ExecuteToInit,
}

/// A design, ready to be executed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InitToExecute {
    pub version: Version,
    pub handoff_type: ToExecute,
    /// `2026-01-31T00:44:55`, a fraction and a zone may follow.
    pub timestamp: String,
    #[serde(skip_serializing_if = "IndexMap::is_empty", default)]
    pub metadata: Extra,
    pub user_requirement: String,
    /// The whole of it, where the package holds only its start. From the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_requirement_path: Option<String>,
    /// unified_scenario_design_path, business_rules_path, format_specifications_path: from the root.
    pub design_artifacts: Artifacts,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design_rationale: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design_rationale_path: Option<String>,
    /// What a person wanted changed, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design_iterations: Option<Vec<Extra>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design_iterations_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_constraints: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_constraints_path: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// What an execution found out about its design.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExecuteToInit {
    pub version: Version,
    pub handoff_type: ToInit,
    /// `2026-01-31T00:44:55`, a fraction and a zone may follow.
    pub timestamp: String,
    #[serde(skip_serializing_if = "IndexMap::is_empty", default)]
    pub metadata: Extra,
    /// From the root; all other paths are from here.
    pub execution_output_dir: String,
    pub trigger_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_reason_path: Option<String>,
    pub iteration_summary: IterationSummary,
    pub failure_samples_index: Vec<FailedSample>,
    /// How many there are, where the index holds only the most important ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_samples_total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_index_path: Option<String>,
    pub layer1_problems_report_path: String,
    #[schemars(length(max = 5))]
    pub modification_suggestions_summary: Vec<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IterationSummary {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_iterations: Option<u32>,
    /// Passed of all, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_quality: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer2_iterations: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer3_iterations: Option<u32>,
    pub total_samples: u64,
    pub failed_samples: u64,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One failed sample: where it is and how it failed, not what it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedSample {
    pub sample_id: String,
    pub sample_path: String,
    pub trace_path: String,
    pub evaluation_path: String,
    pub attribution_path: String,
    pub failure_type: String,
    pub conversation_turns: u32,
    pub checkers_failed: Vec<String>,
    pub priority: Priority,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The most important comes first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    High,
    Medium,
    Low,
}

impl FailedSample {
    /// Its paths with the names of their fields.
    pub fn paths(&self) -> [(&'static str, &str); 4] {
        [
            ("sample_path", &self.sample_path),
            ("trace_path", &self.trace_path),
            ("evaluation_path", &self.evaluation_path),
            ("attribution_path", &self.attribution_path),
        ]
    }
}

impl Package {
    pub fn handoff_type(&self) -> &'static str {
        match self {
            Package::InitToExecute(_) => INIT_TO_EXECUTE,
            Package::ExecuteToInit(_) => EXECUTE_TO_INIT,
        }
    }

    /// Every path with the way to its field, and what it is counted from.
    pub fn paths(&self) -> Vec<(String, Base, &str)> {
        let mut out = Vec::new();
        match self {
            Package::InitToExecute(own) => {
                for (name, path) in &own.design_artifacts {
                    out.push((format!("design_artifacts.{name}"), Base::Root, path.as_str()));
                }
                for (field, path) in [
                    ("user_requirement_path", &own.user_requirement_path),
                    ("design_rationale_path", &own.design_rationale_path),
                    ("design_iterations_path", &own.design_iterations_path),
                    ("known_constraints_path", &own.known_constraints_path),
                ] {
                    out.extend(path.as_deref().map(|path| (field.to_owned(), Base::Root, path)));
                }
            }
            Package::ExecuteToInit(own) => {
                let report = own.layer1_problems_report_path.as_str();
                out.push(("layer1_problems_report_path".to_owned(), Base::Output, report));
                for (field, path) in [
                    ("trigger_reason_path", &own.trigger_reason_path),
                    ("failure_index_path", &own.failure_index_path),
                ] {
                    out.extend(path.as_deref().map(|path| (field.to_owned(), Base::Output, path)));
                }
                for (at, sample) in own.failure_samples_index.iter().enumerate() {
                    for (name, path) in sample.paths() {
                        let field = format!("failure_samples_index.{at}.{name}");
                        out.push((field, Base::Output, path));
                    }
                }
            }
        }
        out
    }

    /// As it is written: a field a line, an entry of a list of objects a line, no other space.
    pub fn text(&self) -> String {
        let Ok(Value::Object(fields)) = serde_json::to_value(self) else { return String::new() };
        let mut lines = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            let name = Value::from(name);
            match value {
                Value::Array(items) if items.iter().any(Value::is_object) => {
                    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                    lines.push(format!("{name}:[\n{}\n]", items.join(",\n")));
                }
                value => lines.push(format!("{name}:{value}")),
            }
        }
        format!("{{\n{}\n}}\n", lines.join(",\n"))
    }
}

/// A package, and the text that it was read from, for the places of later problems.
#[derive(Debug)]
pub struct Read {
    pub package: Package,
    pub warnings: Vec<Problem>,
    document: Document,
}

impl Read {
    /// Gives a problem the place of a field such as `failure_samples_index.3.trace_path`.
    pub fn located(&self, field: &str, problem: Problem) -> Problem {
        self.document.locate_at(problem, field)
    }
}

/// Reads a package. All that is wrong with it comes back, not only the first.
pub fn read(source: &str) -> Result<Read, Vec<Problem>> {
    let document = Document::json(source).map_err(|problem| vec![problem])?;
    if !matches!(document.root.value, Tree::Object(_)) {
        let message =
            format!("a package is an object, not {}", document.root.value.kind(Language::English));
        let problem = Problem::new("handoff-shape", message).expected("an object");
        return Err(vec![document.locate(problem, document.root.span)]);
    }
    let mut reader = Reader { document: &document, problems: Vec::new(), known: &[] };
    reader.version();
    let kind = reader.handoff_type();
    let package = match kind {
        Some(INIT_TO_EXECUTE) => reader.design().map(Package::InitToExecute),
        Some(_) => reader.outcome().map(Package::ExecuteToInit),
        None => None,
    };
    if let Some(package) = &package {
        reader.paths(package);
    }
    let warnings = if package.is_some() { reader.misspelled() } else { Vec::new() };
    let problems = bounded(reader.problems);
    match package {
        Some(package) if problems.is_empty() => Ok(Read { package, warnings, document }),
        _ => Err(problems),
    }
}

/// The first ones, and how many more.
pub fn bounded(mut problems: Vec<Problem>) -> Vec<Problem> {
    if problems.len() > MOST_PROBLEMS {
        let more = problems.len() - MOST_PROBLEMS;
        problems.truncate(MOST_PROBLEMS);
        problems.push(Problem::new("handoff-more", format!("and {more} more problems")));
    }
    problems
}

struct Reader<'a> {
    document: &'a Document,
    problems: Vec<Problem>,
    /// The fields of this type of package.
    known: &'static [&'static str],
}

impl Reader<'_> {
    fn wrong(&mut self, field: &str, problem: Problem) {
        self.problems.push(self.document.locate_at(problem, field));
    }

    fn is_known(&self, name: &str) -> bool {
        COMMON.contains(&name) || self.known.contains(&name)
    }

    /// The words of fields that nobody knows.
    fn unknown(&self) -> Vec<&str> {
        let names = self.document.root.keys().map(|key| key.name.as_str());
        names.filter(|name| !self.is_known(name)).collect()
    }

    fn missing(&mut self, name: &str) {
        let mut problem = Problem::new("key-missing", format!("the key `{name}` is missing"));
        // Unknown fields are kept, so a misspelled one is only seen by the gap that it leaves.
        problem.expected = problem::nearest(name, &self.unknown())
            .map(|near| format!("`{name}` instead of `{}`", text::shown(near, 60)).into());
        problem.did_you_mean = problem.expected.is_some().then(|| name.to_owned());
        problem.found = Some(String::new());
        let span = self.document.root.span;
        self.problems.push(self.document.locate(problem, span));
    }

    fn version(&mut self) {
        let Some(node) = self.document.root.get("version") else { return self.missing("version") };
        if !matches!(&node.value, Tree::String(word) if word == VERSION) {
            let message = "version: this is a package of another version";
            let problem = Problem::new("handoff-version", message)
                .expected(format!("\"{VERSION}\", the only version that is read here"));
            self.wrong("version", problem);
        }
    }

    fn handoff_type(&mut self) -> Option<&'static str> {
        let types = [INIT_TO_EXECUTE, EXECUTE_TO_INIT];
        let Some(node) = self.document.root.get("handoff_type") else {
            self.missing("handoff_type");
            return None;
        };
        let word = match &node.value {
            Tree::String(word) => word.as_str(),
            _ => "",
        };
        let known = types.into_iter().find(|own| *own == word);
        if known.is_none() {
            let message = "handoff_type: there is no such type of package";
            self.wrong("handoff_type", Problem::new("handoff-type", message).one_of(word, &types));
        }
        known
    }

    fn node<T: DeserializeOwned>(&mut self, field: &str, node: &Node) -> Option<T> {
        let read = self.document.read_node(node);
        read.map_err(|mut problem| {
            // The reader counts from the node; a person looks from the top.
            let joint =
                if problem.message.starts_with(|c: char| c.is_ascii_digit()) { "." } else { ": " };
            problem.message = format!("{field}{joint}{}", problem.message).into();
            self.problems.push(problem);
        })
        .ok()
    }

    fn optional<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let node = self.document.root.get(name)?;
        match node.value {
            Tree::Null => None,
            _ => self.node(name, node),
        }
    }

    fn required<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        match self.document.root.get(name) {
            Some(node) => self.node(name, node),
            None => {
                self.missing(name);
                None
            }
        }
    }

    /// A text in which there is something to read.
    fn said(&mut self, name: &str) -> Option<String> {
        let said: String = self.required(name)?;
        if text::is_blank(&said) {
            self.wrong(name, Problem::new("handoff-empty", format!("{name} is empty")));
            return None;
        }
        Some(said)
    }

    fn timestamp(&mut self) -> Option<String> {
        let time: String = self.required("timestamp")?;
        if !is_time(&time) {
            let problem = Problem::new("handoff-time", "timestamp: this is not a time")
                .expected("a time such as `2026-01-31T00:44:55`");
            self.wrong("timestamp", problem);
            return None;
        }
        Some(time)
    }

    fn extra(&mut self) -> Extra {
        let document = self.document;
        let Tree::Object(entries) = &document.root.value else { return Extra::new() };
        let mut extra = Extra::new();
        for (key, node) in entries {
            if !self.is_known(&key.name)
                && let Some(value) = self.node(&key.name, node)
            {
                extra.insert(key.name.clone(), value);
            }
        }
        extra
    }

    /// Unknown fields that nearly are optional ones.
    fn misspelled(&self) -> Vec<Problem> {
        let entries = self.document.root.keys().filter(|key| !self.is_known(&key.name));
        let absent: Vec<&str> = (COMMON.iter().chain(self.known))
            .copied()
            .filter(|name| self.document.root.get(name).is_none())
            .collect();
        let near = entries.filter_map(|key| {
            let word = problem::nearest(&key.name, &absent)?;
            let message =
                format!("the key `{}` is not known; it is kept", text::shown(&key.name, 60));
            let mut problem = Problem::warning("key-unknown", message);
            problem.did_you_mean = Some(word.to_owned());
            Some(self.document.locate(problem, key.span))
        });
        near.collect()
    }

    fn design(&mut self) -> Option<InitToExecute> {
        self.known = &TO_EXECUTE;
        let timestamp = self.timestamp();
        let metadata = self.optional("metadata").unwrap_or_default();
        let user_requirement = self.said("user_requirement");
        let design_artifacts: Option<IndexMap<String, String>> = self.required("design_artifacts");
        if let Some(artifacts) = &design_artifacts {
            let names: Vec<&str> = artifacts
                .keys()
                .map(String::as_str)
                .filter(|own| !ARTIFACTS.contains(own))
                .collect();
            for name in ARTIFACTS.iter().filter(|name| !artifacts.contains_key(**name)) {
                let message = format!("design_artifacts: the key `{name}` is missing");
                let mut problem = Problem::new("key-missing", message);
                problem.found = Some(String::new());
                problem.did_you_mean = problem::nearest(name, &names).map(|_| (*name).to_owned());
                self.wrong("design_artifacts", problem);
            }
        }
        let (design_rationale, design_iterations, known_constraints) = (
            self.optional("design_rationale"),
            self.optional("design_iterations"),
            self.optional("known_constraints"),
        );
        let spilled =
            TO_EXECUTE.map(|name| if name.ends_with("_path") { self.optional(name) } else { None });
        let [
            _,
            user_requirement_path,
            _,
            _,
            design_rationale_path,
            _,
            design_iterations_path,
            _,
            known_constraints_path,
        ] = spilled;
        Some(InitToExecute {
            version: Version::V2,
            handoff_type: ToExecute::InitToExecute,
            extra: self.extra(),
            timestamp: timestamp?,
            metadata,
            user_requirement: user_requirement?,
            user_requirement_path,
            design_artifacts: design_artifacts?,
            design_rationale,
            design_rationale_path,
            design_iterations,
            design_iterations_path,
            known_constraints,
            known_constraints_path,
        })
    }

    fn outcome(&mut self) -> Option<ExecuteToInit> {
        self.known = &TO_INIT;
        let timestamp = self.timestamp();
        let metadata = self.optional("metadata").unwrap_or_default();
        let execution_output_dir = self.said("execution_output_dir");
        let trigger_reason = self.said("trigger_reason");
        let trigger_reason_path = self.optional("trigger_reason_path");
        let iteration_summary = self.required("iteration_summary");
        let failure_samples_index = self.index();
        let failure_samples_total = self.optional("failure_samples_total");
        let failure_index_path: Option<String> = self.optional("failure_index_path");
        let layer1_problems_report_path = self.said("layer1_problems_report_path");
        let suggestions = self.required("modification_suggestions_summary");
        let package = ExecuteToInit {
            version: Version::V2,
            handoff_type: ToInit::ExecuteToInit,
            extra: self.extra(),
            timestamp: timestamp?,
            metadata,
            execution_output_dir: execution_output_dir?,
            trigger_reason: trigger_reason?,
            trigger_reason_path,
            iteration_summary: iteration_summary?,
            failure_samples_index: failure_samples_index?,
            failure_samples_total,
            failure_index_path,
            layer1_problems_report_path: layer1_problems_report_path?,
            modification_suggestions_summary: suggestions?,
        };
        self.sums(&package);
        Some(package)
    }

    /// Each entry by itself, so that one that is wrong hides no other.
    fn index(&mut self) -> Option<Vec<FailedSample>> {
        let field = "failure_samples_index";
        let document = self.document;
        let Some(node) = document.root.get(field) else {
            self.missing(field);
            return None;
        };
        let Tree::Array(items) = &node.value else {
            let message =
                format!("{field}: {} does not fit here", node.value.kind(Language::English));
            self.wrong(field, Problem::new("value-type", message).expected("a list"));
            return None;
        };
        let mut first: BTreeMap<String, usize> = BTreeMap::new();
        let mut index = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let way = format!("{field}.{at}");
            let Some(sample) = self.node::<FailedSample>(&way, item) else { continue };
            let place = format!("{way}.sample_id");
            if text::is_blank(&sample.sample_id) {
                self.wrong(&place, Problem::new("handoff-empty", format!("{place} is empty")));
            }
            if let Some(before) = first.insert(sample.sample_id.clone(), at) {
                let message = format!(
                    "{place}: the sample `{}` stands in the index twice, first as entry {before}",
                    text::shown(&sample.sample_id, 60)
                );
                self.wrong(&place, Problem::new("sample-duplicate", message));
            }
            index.push(sample);
        }
        Some(index)
    }

    fn sums(&mut self, package: &ExecuteToInit) {
        let summary = &package.iteration_summary;
        let mut wrong = |field: &str, message: String| {
            self.wrong(field, Problem::new("handoff-sum", format!("{field}: {message}")));
        };
        if summary.failed_samples > summary.total_samples {
            let (failed, total) = (summary.failed_samples, summary.total_samples);
            wrong(
                "iteration_summary.failed_samples",
                format!("{failed} of {total} samples cannot fail"),
            );
        }
        if summary.final_quality.is_some_and(|quality| !(0.0..=1.0).contains(&quality)) {
            wrong("iteration_summary.final_quality", "this is no share from 0 to 1".to_owned());
        }
        let listed = package.failure_samples_index.len() as u64;
        let total = package.failure_samples_total.unwrap_or(listed);
        if total < listed {
            wrong("failure_samples_total", format!("the index alone holds {listed}"));
        } else if total != summary.failed_samples && package.failure_samples_total.is_some() {
            wrong("failure_samples_total", format!("{} samples failed", summary.failed_samples));
        } else if listed > summary.failed_samples {
            let failed = summary.failed_samples;
            wrong(
                "failure_samples_index",
                format!("it holds {listed} entries, {failed} samples failed"),
            );
        }
        if package.failure_samples_total.is_some() != package.failure_index_path.is_some() {
            let message = "`failure_samples_total` and `failure_index_path` go together".to_owned();
            wrong("failure_index_path", message);
        }
        let count = package.modification_suggestions_summary.len();
        if count > MOST_SUGGESTIONS {
            let field = "modification_suggestions_summary";
            let problem =
                Problem::new("handoff-suggestions", format!("{field}: {count} suggestions"))
                    .expected(format!(
                        "{LEAST_SUGGESTIONS} to {MOST_SUGGESTIONS}; the report holds all"
                    ));
            self.wrong(field, problem);
        }
    }

    fn paths(&mut self, package: &Package) {
        if let Package::ExecuteToInit(own) = package
            && let Err(problem) =
                folder::safe_path("execution_output_dir", &own.execution_output_dir)
        {
            self.wrong("execution_output_dir", problem);
        }
        for (field, _, path) in package.paths() {
            if let Err(problem) = folder::safe_path(&field, path) {
                self.wrong(&field, problem);
            }
        }
    }
}

/// Our own form, and what other programs put behind it: a fraction, a zone.
fn is_time(time: &str) -> bool {
    let Some((start, rest)) = time.split_at_checked(19) else { return false };
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() || fraction.len() - zone.len() > 9 {
                return false;
            }
            zone
        }
        None => rest,
    };
    let is_offset = |zone: &str| {
        let bytes = zone.as_bytes();
        bytes.len() == 6
            && matches!(bytes[0], b'+' | b'-')
            && bytes[3] == b':'
            && [1, 2, 4, 5].iter().all(|at| bytes[*at].is_ascii_digit())
    };
    Timestamp::parse(start).is_some() && (rest.is_empty() || rest == "Z" || is_offset(rest))
}
