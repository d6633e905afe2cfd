//! Where a run must not go on by itself: budgets, loops, and what only a person can settle.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Rules, State};
use crate::decision::{Choice, Question};
use crate::event::{Limits, Stop};
use crate::messages::Language;
use crate::policy::Outcome;
use crate::text;

/// The option of our own questions that ends the run.
pub(super) const STOP_OPTION: &str = "stop";
const GO_ON: &str = "go_on";

/// The limits of a run, and what counts towards them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    pub limits: Limits,
    pub totals: Totals,
    pub finish_attempts: u32,
    pub stuck: Stuck,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Budget {
        let (totals, stuck) = (Totals::default(), Stuck::default());
        Budget { limits, totals, finish_attempts: 0, stuck }
    }
}

/// Sums of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    pub iterations: u32,
    pub milliseconds: u64,
    pub tokens: u64,
    pub cached: u64,
    pub cost: u64,
    /// Stages whose tokens or cost are unknown: the sums are then lower bounds.
    pub uncounted: u32,
    pub unknown_costs: u32,
    pub stages: u32,
    pub main_calls: u32,
    pub tester_runs: u32,
    pub subloops: u32,
    pub subloops_passed: u32,
    pub subloop_milliseconds: u64,
    /// Agents' stages inside sub-loops: decisions that MAIN did not have to make.
    pub main_calls_saved: u32,
    /// Decisions that the policy made instead of MAIN.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub decided_by_rule: u32,
    pub finishes: u32,
    pub finishes_overturned: u32,
    pub passes_overturned: u32,
    pub corrections: u32,
    /// Stages whose result is unknown.
    pub lost: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Signs that a run is stuck.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stuck {
    /// Iterations running in which this blocker stood.
    pub blockers: BTreeMap<String, u32>,
    pub without_plan_change: u32,
    /// Blockers of the last iteration that only a person can resolve.
    pub for_a_person: Vec<String>,
    /// Of the last iteration: what was asked, and what came of it.
    pub signature: Option<String>,
    pub stop: Option<Stop>,
}

impl Stuck {
    pub(super) fn reset(&mut self) {
        *self = Stuck { signature: self.signature.take(), ..Stuck::default() };
    }
}

impl State {
    /// Before a new iteration.
    pub(super) fn over_limit(&self, language: Language) -> Option<Stop> {
        let most = self.budget.limits.iterations;
        if self.budget.totals.iterations >= most {
            return Some(Stop::Limit(language.iterations_used(most)));
        }
        self.over_budget(language)
    }

    /// What is left of the run's time.
    pub fn seconds_left(&self) -> u64 {
        let used = self.budget.totals.milliseconds / 1_000;
        self.budget.limits.seconds.map_or(u64::MAX, |most| most.saturating_sub(used).max(1))
    }

    /// What a stage may use of tokens: its own budget, or what is left of the run's.
    pub fn tokens_left(&self) -> Option<u64> {
        let left =
            self.budget.limits.tokens.map(|most| most.0.saturating_sub(self.budget.totals.tokens));
        let own = self.budget.limits.stage_tokens.map(|most| most.0);
        left.into_iter().chain(own).min()
    }

    /// The same of cost, in nano-dollars.
    pub fn cost_left(&self) -> Option<u64> {
        let left = self.budget.limits.cost.map(|most| most.saturating_sub(self.budget.totals.cost));
        left.into_iter().chain(self.budget.limits.stage_cost).min()
    }

    /// Before any stage.
    pub(super) fn over_budget(&self, language: Language) -> Option<Stop> {
        self.would_exceed(0, language)
    }

    /// Whether a stage with a prompt of this size may not start.
    pub fn would_exceed(&self, prompt_tokens: u64, language: Language) -> Option<Stop> {
        let (limits, totals) = (&self.budget.limits, &self.budget.totals);
        let stop = |why: String| Some(Stop::Limit(why));
        if let Some(most) = limits.stage_tokens.filter(|most| prompt_tokens > most.0) {
            return stop(language.prompt_over_stage(prompt_tokens, most));
        }
        match limits.seconds {
            Some(most) if totals.milliseconds / 1_000 >= most => {
                return stop(language.second_budget_used(totals.milliseconds / 1_000, most));
            }
            _ => {}
        }
        if let Some(most) = limits.tokens {
            if totals.uncounted > 0 {
                return stop(language.tokens_not_counted(totals.uncounted));
            }
            if totals.tokens >= most.0 {
                return stop(language.token_budget_used(totals.tokens, most.0));
            }
            if totals.tokens.saturating_add(prompt_tokens) > most.0 {
                return stop(language.prompt_over_budget(prompt_tokens, totals.tokens, most));
            }
        }
        if let Some(most) = limits.cost {
            if totals.unknown_costs > 0 {
                return stop(language.costs_unknown(totals.unknown_costs));
            }
            if totals.cost >= most {
                return stop(language.cost_budget_used(totals.cost, most));
            }
        }
        None
    }

    /// Takes the iteration that ends into account.
    pub(super) fn count_iteration(&mut self, rules: &Rules<'_>) {
        let milestones = &rules.pack.policy.milestones;
        for facts in &self.current.reports {
            if facts.agent == milestones.pass_of {
                self.reports.pass_seen |= facts.outcome == Some(Outcome::Pass);
                self.reports.last_outcome = facts.outcome;
            }
        }
        let mut blockers = BTreeMap::new();
        let mut for_a_person = Vec::new();
        for facts in self.last_reports() {
            for (blocker, class) in facts.blockers.iter().zip(&facts.classes) {
                let count = self.budget.stuck.blockers.get(blocker).copied().unwrap_or(0) + 1;
                blockers.insert(blocker.clone(), count);
                if rules.pack.policy.escalation.classes.contains(class) {
                    for_a_person.push(blocker.clone());
                }
            }
        }
        let changed = [&self.current.decided, &self.current.check]
            .into_iter()
            .flatten()
            .any(|decided| decided.plan_before != decided.plan_after);
        self.budget.stuck.blockers = blockers;
        self.budget.stuck.for_a_person = for_a_person;
        self.budget.stuck.without_plan_change =
            if changed { 0 } else { self.budget.stuck.without_plan_change + 1 };
        let signature = self.signature();
        // Attempts to finish are counted on their own, and lead to a question.
        let is_same = signature.is_some() && signature == self.budget.stuck.signature;
        if is_same && !self.current.is_finish {
            self.budget.stuck.stop = Some(Stop::Loop(rules.pack.words().same_again()));
        }
        self.budget.stuck.signature = signature;
    }

    /// The last report of each agent in this iteration.
    fn last_reports(&self) -> Vec<&crate::event::ReportFacts> {
        let mut last: BTreeMap<&str, &crate::event::ReportFacts> = BTreeMap::new();
        for facts in &self.current.reports {
            last.insert(facts.agent.as_str(), facts);
        }
        last.into_values().collect()
    }

    /// Equal for two iterations that are the same. A user's answer makes each one different.
    fn signature(&self) -> Option<String> {
        let decided = self.current.decided.as_ref().filter(|_| self.current.answer.is_none())?;
        let decision = decided.decision.as_deref()?;
        let mut parts = vec![
            decision.next.word().to_owned(),
            decision.task.clone().unwrap_or_default(),
            format!("{:?}", decision.plan),
            decided.plan_after.clone(),
            self.current.project.clone().unwrap_or_default(),
            self.current.failure.clone().unwrap_or_default(),
        ];
        for facts in &self.current.reports {
            parts.push(format!("{} {:?} {:?}", facts.agent, facts.verdict, facts.blockers));
        }
        if let Some(check) = &self.current.check {
            parts.push(check.open.join("; "));
        }
        Some(blake3::hash(parts.join("\u{0}").as_bytes()).to_hex().to_string())
    }

    /// What only a person can settle, as a question.
    pub(super) fn escalation(&self, rules: &Rules<'_>) -> Option<Question> {
        let policy = &rules.pack.policy;
        let limits = &policy.escalation;
        let language = rules.pack.words();
        let repeated =
            self.budget.stuck.blockers.iter().find(|(_, count)| **count >= limits.same_blocker);
        let most = policy.finish_rules.max_finish_attempts;
        let (title, text) = if !self.budget.stuck.for_a_person.is_empty() {
            let blockers = language.clauses(&self.budget.stuck.for_a_person);
            (language.title_for_user(), blockers)
        } else if let Some((blocker, count)) = repeated {
            (language.title_same_blocker(), language.same_blocker(count, blocker))
        } else if self.budget.finish_attempts >= most {
            let text = language.finishes_refused(self.budget.finish_attempts);
            (language.title_cannot_finish(), text)
        } else if self.budget.stuck.without_plan_change >= limits.no_plan_change {
            let text = language.plan_unchanged(self.budget.stuck.without_plan_change);
            (language.title_no_progress(), text)
        } else {
            return None;
        };
        let option =
            |id: &str, description: String| Choice { option_id: id.to_owned(), description };
        Some(Question {
            title,
            text: text::cut(&text, 2_000).into_owned(),
            options: vec![
                option(GO_ON, language.option_continue()),
                option(STOP_OPTION, language.option_stop()),
            ],
            recommended_option_id: None,
        })
    }
}
