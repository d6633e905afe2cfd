//! Where a run must not go on by itself: budgets, loops, and what only a person can settle.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Rules, State};
use crate::decision::{Choice, Question};
use crate::event::Stop;
use crate::policy::Outcome;
use crate::text;

/// The option of our own questions that ends the run.
pub(super) const STOP_OPTION: &str = "stop";
const GO_ON: &str = "go_on";

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
    pub(super) fn over_limit(&self) -> Option<Stop> {
        let most = self.limits.iterations;
        if self.totals.iterations >= most {
            return Some(Stop::Limit(format!("all {most} iterations of the run are used up")));
        }
        self.over_budget()
    }

    /// What is left of the run's time.
    pub fn seconds_left(&self) -> u64 {
        let used = self.totals.milliseconds / 1_000;
        self.limits.seconds.map_or(u64::MAX, |most| most.saturating_sub(used).max(1))
    }

    /// What a stage may use of tokens: its own budget, or what is left of the run's.
    pub fn tokens_left(&self) -> Option<u64> {
        let left = self.limits.tokens.map(|most| most.0.saturating_sub(self.totals.tokens));
        let own = self.limits.stage_tokens.map(|most| most.0);
        left.into_iter().chain(own).min()
    }

    /// The same of cost, in nano-dollars.
    pub fn cost_left(&self) -> Option<u64> {
        let left = self.limits.cost.map(|most| most.saturating_sub(self.totals.cost));
        left.into_iter().chain(self.limits.stage_cost).min()
    }

    /// Before any stage.
    pub(super) fn over_budget(&self) -> Option<Stop> {
        self.would_exceed(0)
    }

    /// Whether a stage with a prompt of this size may not start.
    pub fn would_exceed(&self, prompt_tokens: u64) -> Option<Stop> {
        let (limits, totals) = (&self.limits, &self.totals);
        let over = |what: &str, used: u64, most: u64| {
            Some(Stop::Limit(format!("the budget of {what} is used up: {used} of {most}")))
        };
        if let Some(most) = limits.stage_tokens.filter(|most| prompt_tokens > most.0) {
            let why = format!(
                "a prompt of {prompt_tokens} tokens would exceed the budget of a stage: {most}"
            );
            return Some(Stop::Limit(why));
        }
        match limits.seconds {
            Some(most) if totals.milliseconds / 1_000 >= most => {
                return over("seconds", totals.milliseconds / 1_000, most);
            }
            _ => {}
        }
        if let Some(most) = limits.tokens {
            if totals.uncounted > 0 {
                let count = totals.uncounted;
                let why = format!(
                    "the tokens of {count} stages were not counted, so the budget of tokens cannot be kept"
                );
                return Some(Stop::Limit(why));
            }
            if totals.tokens >= most.0 {
                return over("tokens", totals.tokens, most.0);
            }
            if totals.tokens.saturating_add(prompt_tokens) > most.0 {
                let why = format!(
                    "a prompt of {prompt_tokens} tokens would exceed the budget: {} of {} are used",
                    totals.tokens, most
                );
                return Some(Stop::Limit(why));
            }
        }
        if let Some(most) = limits.cost {
            if totals.unknown_costs > 0 {
                let count = totals.unknown_costs;
                let why = format!(
                    "the cost of {count} stages is unknown, so the budget of cost cannot be kept"
                );
                return Some(Stop::Limit(why));
            }
            if totals.cost >= most {
                return over("nano-dollars", totals.cost, most);
            }
        }
        None
    }

    /// Takes the iteration that ends into account.
    pub(super) fn count_iteration(&mut self, rules: &Rules<'_>) {
        let milestones = &rules.pack.policy.milestones;
        for facts in &self.current.reports {
            if facts.agent == milestones.pass_of {
                self.pass_seen |= facts.outcome == Some(Outcome::Pass);
                self.last_outcome = facts.outcome;
            }
        }
        let mut blockers = BTreeMap::new();
        let mut for_a_person = Vec::new();
        for facts in self.last_reports() {
            for (blocker, class) in facts.blockers.iter().zip(&facts.classes) {
                let count = self.stuck.blockers.get(blocker).copied().unwrap_or(0) + 1;
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
        self.stuck.blockers = blockers;
        self.stuck.for_a_person = for_a_person;
        self.stuck.without_plan_change =
            if changed { 0 } else { self.stuck.without_plan_change + 1 };
        let signature = self.signature();
        // Attempts to finish are counted on their own, and lead to a question.
        let is_same = signature.is_some() && signature == self.stuck.signature;
        if is_same && !self.current.is_finish {
            let why = "the same agent got the same work order with the same plan, and nothing came out differently, twice running";
            self.stuck.stop = Some(Stop::Loop(why.to_owned()));
        }
        self.stuck.signature = signature;
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
        let repeated = self.stuck.blockers.iter().find(|(_, count)| **count >= limits.same_blocker);
        let most = policy.finish_rules.max_finish_attempts;
        let (title, text) = if !self.stuck.for_a_person.is_empty() {
            let blockers = self.stuck.for_a_person.join("; ");
            ("Only a person can resolve this", blockers)
        } else if let Some((blocker, count)) = repeated {
            let text = format!("This blocker has stood in {count} iterations running: {blocker}");
            ("The same blocker again", text)
        } else if self.finish_attempts >= most {
            let text = format!("{} attempts to finish did not stand.", self.finish_attempts);
            ("The run cannot be finished", text)
        } else if self.stuck.without_plan_change >= limits.no_plan_change {
            let text = format!(
                "The plan has not changed in {} iterations.",
                self.stuck.without_plan_change
            );
            ("No progress", text)
        } else {
            return None;
        };
        let option = |id: &str, description: &str| Choice {
            option_id: id.to_owned(),
            description: description.to_owned(),
        };
        Some(Question {
            title: title.to_owned(),
            text: text::cut(&text, 2_000).into_owned(),
            options: vec![
                option(GO_ON, "Go on; what you write as a comment is shown to MAIN"),
                option(STOP_OPTION, "Stop the run here; it can be resumed"),
            ],
            recommended_option_id: None,
        })
    }
}
