//! What code counts of an iteration: failures, groups of them, the problems report with its figures,
//! priorities and shares. Nothing here is anybody's opinion.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::{MOST_GROUPS, Reported};
use super::result::{Attribution, Evaluation, Hashes, Status};
use crate::handoff::make::{
    DesignProblem, EvaluationError, Failure, FailureSummary, Modification, ProblemsReport, Severity,
};
use crate::id::Timestamp;
use crate::text;

/// Failures with the same checkers and the same type.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// G1, G2, …
    pub id: String,
    pub checkers: Vec<String>,
    pub failure_type: String,
    pub samples: Vec<String>,
    /// Some of them, none twice.
    pub causes: Vec<String>,
}

/// What is known of an iteration's samples, one by one in the order of their ids.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub total: u64,
    pub passed: u64,
    failures: BTreeMap<String, Failed>,
    errors: BTreeMap<String, EvaluationError>,
}

#[derive(Debug, Clone)]
struct Failed {
    turns: u32,
    checkers: Vec<String>,
    failure_type: String,
    cause: String,
}

/// Of a failure that nobody put down to anything.
pub const UNATTRIBUTED: &str = "Unattributed";
/// The type of a problem that code made of a group.
pub const BY_CODE: &str = "Grouped_Without_Attribution";
/// Of a cause only so much is held.
const CAUSE_CHARS: usize = 240;
const HELD_CAUSES: usize = 4;

impl Tally {
    pub fn add(&mut self, evaluation: &Evaluation) {
        self.total += 1;
        let id = evaluation.sample_id.clone();
        match evaluation.status {
            Status::Passed => self.passed += 1,
            Status::Failed => {
                let own = Failed {
                    turns: evaluation.conversation_turns,
                    checkers: evaluation.checkers_failed.clone(),
                    failure_type: UNATTRIBUTED.to_owned(),
                    cause: String::new(),
                };
                self.failures.insert(id, own);
            }
            Status::Error => {
                let (code, message) = match &evaluation.error {
                    Some(own) => (own.code.clone(), text::shown(&own.message, 400)),
                    None => ("unknown".to_owned(), String::new()),
                };
                self.errors.insert(id.clone(), EvaluationError { sample_id: id, code, message });
            }
        }
    }

    pub fn attribute(&mut self, own: &Attribution) {
        if let Some(failed) = self.failures.get_mut(&own.sample_id) {
            failed.failure_type.clone_from(&own.failure_type);
            failed.cause = text::shown(&own.cause, CAUSE_CHARS);
        }
    }

    pub fn failed(&self) -> u64 {
        self.failures.len() as u64
    }

    pub fn errors(&self) -> u64 {
        self.errors.len() as u64
    }

    pub fn failed_ids(&self) -> impl Iterator<Item = &str> {
        self.failures.keys().map(String::as_str)
    }

    /// The largest first; beyond a number they are put together in the last one.
    pub fn groups(&self) -> Vec<Group> {
        let mut by_key: BTreeMap<(&[String], &str), Group> = BTreeMap::new();
        for (id, own) in &self.failures {
            let key = (own.checkers.as_slice(), own.failure_type.as_str());
            let group = by_key.entry(key).or_insert_with(|| Group {
                id: String::new(),
                checkers: own.checkers.clone(),
                failure_type: own.failure_type.clone(),
                samples: Vec::new(),
                causes: Vec::new(),
            });
            group.samples.push(id.clone());
            let is_new = !own.cause.is_empty() && !group.causes.contains(&own.cause);
            if is_new && group.causes.len() < HELD_CAUSES {
                group.causes.push(own.cause.clone());
            }
        }
        let mut groups: Vec<Group> = by_key.into_values().collect();
        groups.sort_by_key(|own| usize::MAX - own.samples.len());
        if groups.len() > MOST_GROUPS {
            let rest = groups.split_off(MOST_GROUPS - 1);
            let mut samples: Vec<String> = rest.into_iter().flat_map(|own| own.samples).collect();
            samples.sort();
            groups.push(Group {
                id: String::new(),
                checkers: vec!["several".to_owned()],
                failure_type: "several".to_owned(),
                samples,
                causes: Vec::new(),
            });
        }
        for (at, own) in groups.iter_mut().enumerate() {
            own.id = format!("G{}", at + 1);
        }
        groups
    }

    pub fn summary(&self, iterations: &Iterations) -> FailureSummary {
        let failures = self.failures.iter().map(|(id, own)| Failure {
            sample_id: id.clone(),
            failure_type: own.failure_type.clone(),
            conversation_turns: own.turns,
            checkers_failed: own.checkers.clone(),
            priority: None,
            sample_path: None,
            trace_path: None,
            evaluation_path: None,
            attribution_path: None,
        });
        FailureSummary {
            total_samples: self.total,
            failed_samples: self.failed(),
            passed_samples: Some(self.passed),
            error_samples: Some(self.errors()),
            final_quality: Some(share(self.passed, self.total)),
            total_iterations: Some(iterations.total),
            layer2_iterations: Some(iterations.layer2),
            layer3_iterations: Some(iterations.layer3),
            trigger_reason: None,
            evaluation_errors: self.errors.values().cloned().collect(),
            failures: failures.collect(),
        }
    }

    /// The report of an iteration, of problems whose samples are known.
    pub fn report(
        &self,
        iteration: u32,
        now: Timestamp,
        mut problems: Vec<DesignProblem>,
    ) -> ProblemsReport {
        problems.sort_by(|a, b| rank(a).cmp(&rank(b)));
        let order = problems.iter().enumerate().map(|(at, own)| {
            let affected = own.affected_samples.len() as u64;
            let samples = if affected == 1 { "sample" } else { "samples" };
            Modification {
                priority: u32::try_from(at + 1).unwrap_or(u32::MAX),
                problem_id: own.problem_id.clone(),
                impact: Some(format!("solves {affected} failed {samples}")),
                estimated_improvement: Some(percent(affected, self.total)),
            }
        });
        ProblemsReport {
            report_version: Some("1.0".to_owned()),
            generated_at: Some(now.to_string()),
            iteration: Some(iteration),
            total_samples: self.total,
            failed_samples: self.failed(),
            failure_rate: Some(share(self.failed(), self.total)),
            modification_priority: order.collect(),
            layer1_problems: problems,
        }
    }
}

/// The severest first, then the most widespread.
fn rank(own: &DesignProblem) -> (Severity, usize, &str) {
    (own.severity, usize::MAX - own.affected_samples.len(), &own.problem_id)
}

/// `+33%`.
fn percent(part: u64, whole: u64) -> String {
    format!("+{}%", (part * 200 + whole.max(1)) / (2 * whole.max(1)))
}

/// To four places.
#[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 samples")]
pub fn share(part: u64, whole: u64) -> f64 {
    (part as f64 / whole.max(1) as f64 * 10_000.0).round() / 10_000.0
}

/// A model's problems with their groups made samples.
pub fn expanded(reported: Vec<Reported>, groups: &[Group]) -> Vec<DesignProblem> {
    let said = |own: Option<String>| own.filter(|own| !text::is_blank(own));
    let made = reported.into_iter().map(|own| {
        let of_groups = groups
            .iter()
            .filter(|group| own.affected_groups.contains(&group.id))
            .flat_map(|group| group.samples.iter().cloned());
        let all: BTreeSet<String> = of_groups.chain(own.affected_samples.iter().cloned()).collect();
        let affected: Vec<String> = all.into_iter().collect();
        let typical = said(own.typical_case_id).filter(|id| affected.contains(id));
        DesignProblem {
            problem_id: own.problem_id,
            problem_type: said(own.problem_type),
            severity: own.severity,
            title: own.title,
            description: said(own.description),
            affected_count: Some(affected.len()),
            evidence_summary: said(own.evidence_summary),
            typical_case_id: typical.or_else(|| affected.first().cloned()),
            suggested_fix: own.suggested_fix,
            affected_samples: affected,
        }
    });
    made.collect()
}

/// A problem a group, where no model was asked: the severity goes by the share of all samples. An
/// earlier problem with the same title keeps its id.
pub fn by_code(groups: &[Group], total: u64, earlier: &[(String, String)]) -> Vec<DesignProblem> {
    let mut number = 0;
    let mut used: BTreeSet<String> = earlier.iter().map(|(id, _)| id.clone()).collect();
    let mut problems = Vec::new();
    for group in groups {
        let affected = group.samples.len();
        let severity = match share(affected as u64, total) {
            own if own >= 0.3 => Severity::Critical,
            own if own >= 0.15 => Severity::High,
            own if own >= 0.05 => Severity::Medium,
            _ => Severity::Low,
        };
        let title = format!("{} failed ({})", group.checkers.join(", "), group.failure_type);
        let known = earlier.iter().find(|(_, own)| *own == title).map(|(id, _)| id.clone());
        let problem_id = known.unwrap_or_else(|| {
            loop {
                number += 1;
                let id = format!("L1P_{number:03}");
                if used.insert(id.clone()) {
                    return id;
                }
            }
        });
        problems.push(DesignProblem {
            problem_id,
            problem_type: Some(BY_CODE.to_owned()),
            severity,
            title,
            description: None,
            affected_samples: group.samples.clone(),
            affected_count: Some(affected),
            evidence_summary: group.causes.first().cloned(),
            typical_case_id: group.samples.first().cloned(),
            suggested_fix: None,
        });
    }
    problems
}

/// Failed samples that a critical problem touches, of all that failed.
pub fn critical_share(report: &ProblemsReport) -> f64 {
    share(critical(report), report.failed_samples)
}

/// Failed samples that a critical problem touches.
pub fn critical(report: &ProblemsReport) -> u64 {
    let critical: BTreeSet<&str> = (report.layer1_problems.iter())
        .filter(|own| own.severity == Severity::Critical)
        .flat_map(|own| own.affected_samples.iter().map(String::as_str))
        .collect();
    critical.len() as u64
}

/// How often something was repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Iterations {
    pub total: u32,
    /// Iterations whose tools differ from those of the one before.
    pub layer2: u32,
    pub layer3: u32,
}

/// `all`: of each iteration so far, first to last.
pub fn iterations(all: &[Hashes]) -> Iterations {
    let changed = |differs: &dyn Fn(&Hashes, &Hashes) -> bool| {
        let count = all.windows(2).filter(|pair| differs(&pair[0], &pair[1])).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    Iterations {
        total: u32::try_from(all.len()).unwrap_or(u32::MAX),
        layer2: changed(&|old, new| old.tools != new.tools),
        layer3: changed(&|old, new| old.checkers != new.checkers),
    }
}
