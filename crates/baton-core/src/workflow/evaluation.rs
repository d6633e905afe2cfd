//! What follows from the figures of evaluations: the work is good, is repaired once more, or goes
//! back to the one who designed it. The rules are the policy's; every figure is a count.

use std::collections::BTreeMap;

use super::{Effect, Job, Phase, Rules, State, judge};
use crate::event::Evaluation;
use crate::id::{AgentName, Timestamp};
use crate::policy::EvaluationRules;
use crate::text;

/// Of one design; a run that repairs longer than this goes by the newest.
const MOST: usize = 100;

/// What an evaluation means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Success,
    /// The samples do not pass; the same agent may repair it.
    Again,
    /// Repairing does not help: why.
    Back(Vec<String>),
}

/// The verdict of the last of these, which all evaluated the same design.
pub fn verdict(all: &[Evaluation], rules: &EvaluationRules) -> Verdict {
    let Some(last) = all.last() else { return Verdict::Again };
    if last.total > 0 && last.passed * 100 >= u64::from(rules.success_percent) * last.total {
        return Verdict::Success;
    }
    let mut why = Vec::new();
    if last.critical * 100 > u64::from(rules.critical_percent) * last.failed {
        why.push(format!(
            "critical problems touch {} of {} failed samples ({}%, over {}%)",
            last.critical,
            last.failed,
            percent(last.critical, last.failed),
            rules.critical_percent
        ));
    }
    why.extend(no_gain(all, rules));
    why.extend(same_critical(all, rules));
    for (layer, name, most, repairs) in [
        (2, "tools", rules.layer2_most, repairs(all, |own| &own.tools)),
        (3, "checkers", rules.layer3_most, repairs(all, |own| &own.checkers)),
    ] {
        if repairs > most {
            why.push(format!("the {name} (layer {layer}) were repaired {repairs} times of {most}"));
        }
    }
    if why.is_empty() { Verdict::Again } else { Verdict::Back(why) }
}

fn percent(part: u64, whole: u64) -> u64 {
    (part * 100).checked_div(whole).unwrap_or(0)
}

fn no_gain(all: &[Evaluation], rules: &EvaluationRules) -> Option<String> {
    let within = rules.gain_within as usize;
    let first = all.get(all.len().checked_sub(within)?)?;
    let last = all.last()?;
    // passed/total of the last minus that of the first, without fractions.
    let whole = |number: u64| i128::from(number);
    let gain = whole(last.passed) * whole(first.total) - whole(first.passed) * whole(last.total);
    let least = i128::from(rules.gain_percent) * whole(last.total) * whole(first.total);
    (gain * 100 < least).then(|| {
        format!("repairing gained less than {}% in {within} evaluations", rules.gain_percent)
    })
}

fn same_critical(all: &[Evaluation], rules: &EvaluationRules) -> Option<String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for problem in all.iter().flat_map(|own| &own.problems).filter(|own| own.is_critical) {
        *counts.entry(&problem.problem_id).or_default() += 1;
    }
    let (id, count) = counts.into_iter().find(|(_, count)| *count >= rules.same_critical)?;
    Some(format!("the critical problem {} came {count} times", text::shown(id, 60)))
}

/// How often this was changed from one evaluation to the next.
fn repairs(all: &[Evaluation], of: impl Fn(&Evaluation) -> &String) -> u32 {
    let changed = all.windows(2).filter(|pair| of(&pair[0]) != of(&pair[1])).count();
    u32::try_from(changed).unwrap_or(u32::MAX)
}

impl Evaluation {
    /// As history says it.
    pub fn line(&self) -> String {
        let errors = match self.errors {
            0 => String::new(),
            errors => format!(", {errors} could not be judged"),
        };
        format!(
            "{} of {} samples passed ({}%){errors}; {}",
            self.passed,
            self.total,
            percent(self.passed, self.total),
            self.folder
        )
    }
}

impl State {
    /// A pass that its gates confirmed; where samples confirm it, too, they run now.
    pub(super) fn confirmed(&mut self, job: &Job, rules: &Rules<'_>) -> Phase {
        let evaluation = rules.pack.policy.evaluation.as_ref();
        match evaluation.is_some_and(|own| own.of == job.agent) {
            true => {
                // The agent has just worked: what was approved may be something else by now.
                self.approvals.is_seen = false;
                Phase::Evaluate { job: job.clone(), number: None }
            }
            false => self.stands(job, rules),
        }
    }

    pub(super) fn evaluated(
        &mut self,
        job: &Job,
        evaluation: &Evaluation,
        time: Timestamp,
        rules: &Rules<'_>,
        effects: &mut Vec<Effect>,
    ) -> Option<Phase> {
        let own = rules.pack.policy.evaluation.as_ref()?;
        self.add(&evaluation.spent);
        self.evaluation_counted = (0, 0);
        self.evaluations.push(evaluation.clone());
        let over = self.evaluations.len().saturating_sub(MOST);
        self.evaluations.drain(..over);
        let line = evaluation.line();
        let back = match verdict(&self.evaluations, own) {
            Verdict::Success => None,
            Verdict::Again => Some(Vec::new()),
            Verdict::Back(why) => Some(why),
        };
        let Some(back) = back else {
            self.current.evaluation = Some(line);
            return Some(self.stands(job, rules));
        };
        let why =
            format!("evaluation {}: {line}, {}% wanted", evaluation.number, own.success_percent);
        let problems: Vec<String> = (evaluation.problems.iter())
            .map(|own| format!("{}: {} ({} samples)", own.problem_id, own.title, own.affected))
            .collect();
        effects.push(self.publish_overturned(job, &why, &problems.join("\n"), rules));
        self.overturn(&job.agent, &why, rules);
        if back.is_empty() {
            self.current.evaluation = Some(line);
        } else {
            let why = back.join("; ");
            self.current.evaluation = Some(format!("{line}; back to {}: {why}", own.back_to));
            self.returned = Some(Returned { why: why.clone(), time });
            self.must_next = Some((own.back_to.clone(), why));
        }
        Some(self.stands(job, rules))
    }

    /// The samples could not be run; who made them has to mend it.
    pub(super) fn not_evaluated(
        &mut self,
        job: &Job,
        why: &str,
        rules: &Rules<'_>,
        effects: &mut Vec<Effect>,
    ) -> Phase {
        let why = format!("the evaluation was refused: {}", text::cut(why, 1_000));
        effects.push(self.publish_overturned(job, &why, "", rules));
        self.evaluation_counted = (0, 0);
        self.overturn(&job.agent, &why, rules);
        self.current.evaluation = Some(why);
        self.stands(job, rules)
    }

    /// A pass that does not hold is a failure.
    pub(super) fn overturn(&mut self, agent: &AgentName, why: &str, rules: &Rules<'_>) {
        self.totals.passes_overturned += 1;
        let words = &rules.pack.policy.report_rules;
        let Some((_, facts)) = self.newest.get_mut(agent) else { return };
        judge::overturn(facts, why, words);
        let overturned = facts.clone();
        if let Some(last) = self.current.reports.iter_mut().rfind(|own| own.agent == *agent) {
            *last = overturned;
        }
    }
}

/// The work went back to its designer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Returned {
    pub why: String,
    pub time: Timestamp,
}
