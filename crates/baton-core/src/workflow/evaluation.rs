//! What follows from the figures of evaluations: the work is good, is repaired once more, or goes
//! back to the one who designed it. The rules are the policy's; every figure is a count.

use std::collections::BTreeMap;

use super::State;
use crate::event::Evaluation;
use crate::id::Timestamp;
use crate::messages::Language;
use crate::policy::EvaluationRules;
use crate::text;

/// Evaluations kept per approval; older ones are dropped.
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
pub fn verdict(all: &[Evaluation], rules: &EvaluationRules, language: Language) -> Verdict {
    let Some(last) = all.last() else { return Verdict::Again };
    if last.total > 0 && last.passed * 100 >= u64::from(rules.success_percent) * last.total {
        return Verdict::Success;
    }
    let mut why = Vec::new();
    if last.critical * 100 > u64::from(rules.critical_percent) * last.failed {
        let share = percent(last.critical, last.failed);
        let most = rules.critical_percent;
        why.push(language.critical_problems(last.critical, last.failed, share, most));
    }
    why.extend(no_gain(all, rules, language));
    why.extend(same_critical(all, rules, language));
    let (tools, checkers) = (repairs(all, |own| &own.tools), repairs(all, |own| &own.checkers));
    if tools > rules.layer2_most {
        why.push(language.tools_repaired(tools, rules.layer2_most));
    }
    if checkers > rules.layer3_most {
        why.push(language.checkers_repaired(checkers, rules.layer3_most));
    }
    if why.is_empty() { Verdict::Again } else { Verdict::Back(why) }
}

fn percent(part: u64, whole: u64) -> u64 {
    (part * 100).checked_div(whole).unwrap_or(0)
}

fn no_gain(all: &[Evaluation], rules: &EvaluationRules, language: Language) -> Option<String> {
    let within = rules.gain_within as usize;
    let first = all.get(all.len().checked_sub(within)?)?;
    let last = all.last()?;
    // passed/total of the last minus that of the first, without fractions.
    let whole = |number: u64| i128::from(number);
    let gain = whole(last.passed) * whole(first.total) - whole(first.passed) * whole(last.total);
    let least = i128::from(rules.gain_percent) * whole(last.total) * whole(first.total);
    (gain * 100 < least).then(|| language.little_gain(rules.gain_percent, within))
}

fn same_critical(
    all: &[Evaluation],
    rules: &EvaluationRules,
    language: Language,
) -> Option<String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for problem in all.iter().flat_map(|own| &own.problems).filter(|own| own.is_critical) {
        *counts.entry(&problem.problem_id).or_default() += 1;
    }
    let (id, count) = counts.into_iter().find(|(_, count)| *count >= rules.same_critical)?;
    Some(language.same_critical_problem(text::shown(id, 60), count))
}

/// How often this was changed from one evaluation to the next.
fn repairs(all: &[Evaluation], of: impl Fn(&Evaluation) -> &String) -> u32 {
    let changed = all.windows(2).filter(|pair| of(&pair[0]) != of(&pair[1])).count();
    u32::try_from(changed).unwrap_or(u32::MAX)
}

impl Evaluation {
    /// As history says it.
    pub fn line(&self, language: Language) -> String {
        let errors = match self.errors {
            0 => String::new(),
            errors => language.samples_not_judged(errors),
        };
        let share = percent(self.passed, self.total);
        language.evaluation_line(self.passed, self.total, share, errors, &self.folder)
    }

    /// Its problems, one per line.
    pub(super) fn problem_lines(&self, language: Language) -> String {
        let lines = self.problems.iter();
        let lines =
            lines.map(|own| language.affected_samples(&own.problem_id, &own.title, own.affected));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl State {
    /// Why an evaluation overturns the pass; `None` if it confirms it. Where repairing does not help,
    /// the work goes back to the agent that designed it.
    pub(super) fn take_evaluation(
        &mut self,
        evaluation: &Evaluation,
        rules: &EvaluationRules,
        time: Timestamp,
        language: Language,
    ) -> Option<String> {
        self.acceptance.evaluation_counted = (0, 0);
        self.acceptance.evaluations.push(evaluation.clone());
        let over = self.acceptance.evaluations.len().saturating_sub(MOST);
        self.acceptance.evaluations.drain(..over);
        let line = evaluation.line(language);
        let verdict = verdict(&self.acceptance.evaluations, rules, language);
        if let Verdict::Back(why) = &verdict {
            let why = language.clauses(why);
            self.current.evaluation = Some(language.back_to(&line, &rules.back_to, &why));
            self.acceptance.returned = Some(Returned { why: why.clone(), time });
            self.acceptance.must_next = Some((rules.back_to.clone(), why));
        } else {
            self.current.evaluation = Some(line.clone());
        }
        let wanted = rules.success_percent;
        (verdict != Verdict::Success)
            .then(|| language.evaluation_too_low(evaluation.number, line, wanted))
    }
}

/// The work went back to its designer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Returned {
    pub why: String,
    pub time: Timestamp,
}
