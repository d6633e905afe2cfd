//! An iteration's `failure_summary.json` and `layer1_problems_report.json` → the package that goes
//! back. What can be counted is counted here; what an agent wrote is checked against it. No file of a
//! sample is needed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PROBLEMS_REPORT;
use super::budget::{self, Fitted};
use super::folder::safe_path;
use super::package::{
    Artifacts, ExecuteToInit, Extra, FailedSample, InitToExecute, IterationSummary,
    MOST_SUGGESTIONS, Package, Priority, ToExecute, ToInit, Version, bounded,
};
use crate::id::Timestamp;
use crate::problem::Problem;
use crate::text;

/// Of a suggestion the package holds so much; the report has all of it.
const SUGGESTION_CHARS: usize = 300;

/// `failure_summary.json`: every failed sample in a few words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureSummary {
    pub total_samples: u64,
    pub failed_samples: u64,
    /// [default: all others; given where some could not be evaluated]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_samples: Option<u64>,
    /// Samples that could not be evaluated: they neither passed nor failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_samples: Option<u64>,
    /// Passed of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_quality: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_iterations: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer2_iterations: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer3_iterations: Option<u32>,
    /// Why the work goes back [default: made of the figures].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluation_errors: Vec<EvaluationError>,
    pub failures: Vec<Failure>,
}

/// A sample that could not be evaluated, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluationError {
    pub sample_id: String,
    pub code: String,
    pub message: String,
}

/// A failed sample. Paths that are not given are those of the layout: `samples/<id>.json`,
/// `execution_traces/<id>_trace.json` and so on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    pub sample_id: String,
    pub failure_type: String,
    pub conversation_turns: u32,
    pub checkers_failed: Vec<String>,
    /// [default: by the severest problem that the sample belongs to]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribution_path: Option<String>,
}

/// `layer1_problems_report.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemsReport {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    pub total_samples: u64,
    pub failed_samples: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_rate: Option<f64>,
    pub layer1_problems: Vec<DesignProblem>,
    #[serde(default)]
    pub modification_priority: Vec<Modification>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DesignProblem {
    pub problem_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem_type: Option<String>,
    pub severity: Severity,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub affected_samples: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affected_count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_case_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_fix: Option<SuggestedFix>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuggestedFix {
    pub target: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    pub modification: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Modification {
    /// 1 comes first.
    pub priority: u32,
    pub problem_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_improvement: Option<String>,
}

/// The severest comes first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Critical,
    High,
    Medium,
    Low,
}

impl ProblemsReport {
    /// By `modification_priority`; what it does not name comes after, severest first.
    pub fn ordered(&self) -> Vec<&DesignProblem> {
        let ranks: BTreeMap<&str, u32> = self
            .modification_priority
            .iter()
            .map(|own| (own.problem_id.as_str(), own.priority))
            .collect();
        let mut problems: Vec<&DesignProblem> = self.layer1_problems.iter().collect();
        problems.sort_by_key(|own| {
            let rank = ranks.get(own.problem_id.as_str()).copied().unwrap_or(u32::MAX);
            (rank, own.severity, usize::MAX - own.affected_samples.len())
        });
        problems
    }

    /// The most important fixes, in a line each.
    fn suggestions(&self) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for problem in self.ordered() {
            let line = match &problem.suggested_fix {
                Some(fix) => format!("{}: {}", fix.target, fix.modification),
                None => problem.title.clone(),
            };
            let line = text::cut(line.trim(), SUGGESTION_CHARS).into_owned();
            // Two problems with one fix still are two problems.
            out.push(if out.contains(&line) {
                format!("{line} ({})", problem.title)
            } else {
                line
            });
            if out.len() == MOST_SUGGESTIONS {
                break;
            }
        }
        out
    }
}

/// What is known of a failed sample from the problems that name it.
#[derive(Debug, Clone, Copy)]
struct Weight {
    severity: Option<Severity>,
    /// By the most widespread of its problems.
    affected: usize,
}

impl Weight {
    fn priority(self) -> Priority {
        match self.severity {
            Some(Severity::Critical | Severity::High) => Priority::High,
            Some(Severity::Medium) => Priority::Medium,
            Some(Severity::Low) | None => Priority::Low,
        }
    }
}

/// Where the package is for, and when.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// From the root.
    pub output_dir: &'a str,
    pub now: Timestamp,
    /// [default: the summary's, or made of the figures]
    pub reason: Option<&'a str>,
}

/// Builds the package. What the two files say of each other must agree.
pub fn package(
    ask: &Ask<'_>,
    summary: &FailureSummary,
    report: &ProblemsReport,
) -> Result<Fitted, Vec<Problem>> {
    let mut wrong = Vec::new();
    let weights = weights(summary, report, &mut wrong);
    for (at, failure) in summary.failures.iter().enumerate() {
        wrong.extend(safe_id(&format!("failures.{at}.sample_id"), &failure.sample_id));
        if wrong.len() > 50 {
            break;
        }
    }
    if !wrong.is_empty() {
        return Err(bounded(wrong));
    }
    let mut order: Vec<&Failure> = summary.failures.iter().collect();
    let weight = |own: &Failure| weights.get(own.sample_id.as_str()).copied();
    let affected = |own: &Failure| weight(own).map_or(0, |own| own.affected);
    let priority = |own: &Failure| {
        let by_problems = || weight(own).map_or(Priority::Low, Weight::priority);
        own.priority.unwrap_or_else(by_problems)
    };
    order.sort_by_cached_key(|own| {
        (priority(own), usize::MAX - affected(own), own.sample_id.as_str())
    });
    let first: Vec<FailedSample> =
        order.iter().take(budget::MOST_ENTRIES).map(|own| own.entry(priority(own))).collect();
    let whole = || {
        let mut text = String::new();
        for own in &order {
            text.push_str(&budget::line(&own.entry(priority(own))));
        }
        text
    };
    let counted = counted(summary);
    let reason =
        ask.reason.or(summary.trigger_reason.as_deref()).filter(|own| !text::is_blank(own));
    let package = ExecuteToInit {
        version: Version::V2,
        handoff_type: ToInit::ExecuteToInit,
        timestamp: ask.now.to_string(),
        metadata: Extra::new(),
        execution_output_dir: ask.output_dir.to_owned(),
        trigger_reason: reason.map_or_else(|| figures(summary, report), str::to_owned),
        trigger_reason_path: None,
        iteration_summary: counted,
        failure_samples_index: Vec::new(),
        failure_samples_total: None,
        failure_index_path: None,
        layer1_problems_report_path: PROBLEMS_REPORT.to_owned(),
        modification_suggestions_summary: report.suggestions(),
        extra: Extra::new(),
    };
    budget::to_init(package, &first, order.len() as u64, &whole).map_err(|problem| vec![problem])
}

impl Failure {
    fn entry(&self, priority: Priority) -> FailedSample {
        let id = &self.sample_id;
        let path = |own: &Option<String>, folder: &str, end: &str| {
            own.clone().unwrap_or_else(|| format!("{folder}/{id}{end}.json"))
        };
        let [samples, traces, evaluations, attributions] = super::FOLDERS;
        FailedSample {
            sample_id: id.clone(),
            sample_path: path(&self.sample_path, samples, ""),
            trace_path: path(&self.trace_path, traces, "_trace"),
            evaluation_path: path(&self.evaluation_path, evaluations, "_eval"),
            attribution_path: path(&self.attribution_path, attributions, "_attribution"),
            failure_type: self.failure_type.clone(),
            conversation_turns: self.conversation_turns,
            checkers_failed: self.checkers_failed.clone(),
            priority,
            extra: Extra::new(),
        }
    }
}

/// What a design hands on: what was asked for, where its files are, and what its person said of it.
pub fn design(
    requirement: &str,
    artifacts: Artifacts,
    iterations: Vec<Extra>,
    now: Timestamp,
) -> Result<Fitted, Problem> {
    let package = InitToExecute {
        version: Version::V2,
        handoff_type: ToExecute::InitToExecute,
        timestamp: now.to_string(),
        metadata: Extra::new(),
        user_requirement: requirement.to_owned(),
        user_requirement_path: None,
        design_artifacts: artifacts,
        design_rationale: None,
        design_rationale_path: None,
        design_iterations: Some(iterations).filter(|all| !all.is_empty()),
        design_iterations_path: None,
        known_constraints: None,
        known_constraints_path: None,
        extra: Extra::new(),
    };
    budget::fitted(Package::InitToExecute(package), &|_| 0)
}

/// An id names files: it is one part of a path.
fn safe_id(field: &str, id: &str) -> Option<Problem> {
    let problem = safe_path(field, id).err();
    problem.or_else(|| {
        let is_part = !id.contains('/') && id != "." && id.len() <= 200;
        (!is_part).then(|| {
            Problem::new("sample-id", format!("{field}: this cannot be part of a file's name"))
                .found(id)
                .expected("at most 200 bytes without `/`")
        })
    })
}

fn counted(summary: &FailureSummary) -> IterationSummary {
    let others = summary.total_samples.saturating_sub(summary.failed_samples);
    let passed = summary.passed_samples.unwrap_or(others).min(others);
    #[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 samples")]
    let share = passed as f64 / summary.total_samples.max(1) as f64;
    IterationSummary {
        total_iterations: summary.total_iterations,
        final_quality: Some((share * 10_000.0).round() / 10_000.0),
        layer2_iterations: summary.layer2_iterations,
        layer3_iterations: summary.layer3_iterations,
        total_samples: summary.total_samples,
        failed_samples: summary.failed_samples,
        extra: Extra::new(),
    }
}

/// The reason where nobody gave one: how much of the failure is critical.
fn figures(summary: &FailureSummary, report: &ProblemsReport) -> String {
    let critical: std::collections::BTreeSet<&str> = (report.layer1_problems.iter())
        .filter(|own| own.severity == Severity::Critical)
        .flat_map(|own| own.affected_samples.iter().map(String::as_str))
        .collect();
    let failed = summary.failed_samples;
    format!(
        "{failed} of {} samples failed; critical problems touch {} of them ({}%)",
        summary.total_samples,
        critical.len(),
        critical.len() as u64 * 100 / failed.max(1),
    )
}

/// The failed samples with what the problems say of them. A problem that names another sample, or
/// counts otherwise than its list, is one of the protocol.
fn weights<'a>(
    summary: &'a FailureSummary,
    report: &'a ProblemsReport,
    wrong: &mut Vec<Problem>,
) -> BTreeMap<&'a str, Weight> {
    let mut weights: BTreeMap<&str, Weight> = BTreeMap::new();
    let summary_says =
        |code, message: String| Problem::new(code, message).in_file(super::FAILURE_SUMMARY);
    for (at, failure) in summary.failures.iter().enumerate() {
        let none = Weight { severity: None, affected: 0 };
        if weights.insert(&failure.sample_id, none).is_some() && wrong.len() < 60 {
            let message = format!("failures.{at}.sample_id: the sample stands there twice");
            wrong.push(summary_says("sample-duplicate", message).found(&failure.sample_id));
        }
    }
    let listed = summary.failures.len() as u64;
    if listed != summary.failed_samples || summary.failed_samples > summary.total_samples {
        let (failed, total) = (summary.failed_samples, summary.total_samples);
        let message = format!("failed_samples: {failed} of {total}, but `failures` holds {listed}");
        wrong.push(summary_says("handoff-sum", message));
    }
    let says = |code, message: String| Problem::new(code, message).in_file(PROBLEMS_REPORT);
    if (report.failed_samples, report.total_samples)
        != (summary.failed_samples, summary.total_samples)
    {
        let message = format!(
            "failed_samples: {} of {}, but {} says {} of {}",
            report.failed_samples,
            report.total_samples,
            super::FAILURE_SUMMARY,
            summary.failed_samples,
            summary.total_samples
        );
        wrong.push(says("handoff-sum", message));
    }
    for problem in &report.layer1_problems {
        let name = text::shown(&problem.problem_id, 60);
        let affected = problem.affected_samples.len();
        if problem.affected_count.is_some_and(|count| count != affected) {
            let message = format!("{name}: affected_count is not the {affected} samples it names");
            wrong.push(says("handoff-sum", message));
        }
        for sample in problem.affected_samples.iter().chain(&problem.typical_case_id) {
            match weights.get_mut(sample.as_str()) {
                Some(weight) => {
                    let severity = weight.severity.unwrap_or(problem.severity);
                    weight.severity = Some(severity.min(problem.severity));
                    weight.affected = weight.affected.max(affected);
                }
                None if wrong.len() < 60 => {
                    let message = format!("{name}: names a sample that did not fail");
                    wrong.push(says("sample-unknown", message).found(sample));
                }
                None => {}
            }
        }
    }
    weights
}
