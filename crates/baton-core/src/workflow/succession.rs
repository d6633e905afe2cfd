//! Decisions by rule: where the policy fixes who follows a pass (`routing.after_pass`), MAIN is not
//! asked. Such a decision meets every rule that one of MAIN would meet; where a rule is
//! against it, MAIN decides. It never finishes a run and never asks the user.

use super::judge::{follows_rules, plan_hash, summary_of};
use super::tasks::TaskOrder;
use super::{Phase, Rules, State};
use crate::decision::{Decision, Next, PlanChange};
use crate::event::{Decided, DecidedBy, Event, ReportFacts, StageId};
use crate::id::AgentName;
use crate::plan::{Applied, Plan, Task, parse_statements};
use crate::policy::Succession;

/// The decision that a rule makes now, if one does. `plan` is the current text of the plan; `has`
/// tells whether the project has a file.
pub fn decide_by_rule(
    state: &State,
    rules: &Rules<'_>,
    plan: &str,
    has: &dyn Fn(&str) -> bool,
) -> Option<Event> {
    let facts = state.plain_pass_before(rules)?;
    let succession = rules.pack.policy.routing.after_pass.get(&facts.agent)?;
    let tasks = tasks_of(facts, rules, plan)?;
    let change = change_for(succession, &tasks);
    let tasks = state.with_findings_for(&succession.next, tasks, rules, plan);
    let language = rules.pack.words();
    let decision = Decision {
        next: Next::Agent(succession.next.clone()),
        reason: language.decided_by_rule(&facts.agent, facts.iteration, &succession.next),
        plan: change,
        overrules_review: false,
        task: Some(state.order_by_rule(facts, &succession.next, rules, &tasks)?),
        note: None,
    };
    let applied = follows_rules(state, rules, &decision, plan, has).ok()?;
    let after = applied.as_ref().map_or(plan, |applied| applied.plan.text());
    if succession.when_all_done && !is_all_done(rules, after) {
        return None;
    }
    Some(Event::Decided(Box::new(Decided {
        by: DecidedBy::Rule,
        answer: String::new(),
        plan_before: plan_hash(plan),
        plan_after: plan_hash(after),
        plan_summary: summary_of(applied.as_ref(), rules),
        plan_changes: applied.as_ref().map_or(0, |applied: &Applied| applied.changes.len()),
        open: Vec::new(),
        decision: Some(Box::new(decision)),
    })))
}

impl State {
    /// The pass that ended the last iteration, if nothing has happened since that MAIN must see first.
    fn plain_pass_before(&self, rules: &Rules<'_>) -> Option<&ReportFacts> {
        let is_new = matches!(
            &self.phase,
            Phase::Decide { check: false, tries: 1, refused } if refused.is_empty()
        );
        if !is_new || !rules.config.features.routing || self.acceptance.must_next.is_some() {
            return None;
        }
        let agent = self.reports.passed_last.as_ref()?;
        // MAIN decides after a pass that no longer counts, say because the user edited a file.
        let facts = self.counted_pass(agent, rules.pack.words()).ok()?;
        (facts.iteration.0 + 1 == self.iteration.0).then_some(facts)
    }

    fn order_by_rule(
        &self,
        facts: &ReportFacts,
        next: &AgentName,
        rules: &Rules<'_>,
        tasks: &[Task],
    ) -> Option<String> {
        let language = rules.pack.words();
        let none = rules.pack.policy.report_rules.blocker_clear_value.first();
        let template = rules.pack.policy.context.orders.after_pass.get(&facts.agent)?;
        let lines: Vec<String> = tasks
            .iter()
            .map(|task| match task.field("acceptance") {
                Some(acceptance) => format!(
                    "- {}: {}\n  {}",
                    task.id,
                    task.title,
                    language.acceptance_of_task(acceptance.replace('\n', " "))
                ),
                None => format!("- {}: {}", task.id, task.title),
            })
            .collect();
        let stage =
            StageId { iteration: facts.iteration, name: facts.agent.clone(), subloop: None };
        // Also its stages inside of the sub-loop, whose names begin with this one.
        let stage = stage.to_string();
        let mut changes = self.files.stage_changes.iter().rev();
        let files = changes.find(|(own, _)| own.starts_with(&stage));
        let files = files.map(|(_, files)| language.list(files)).filter(|files| !files.is_empty());
        let order = template
            .replace("{agent}", facts.agent.as_str())
            .replace("{tasks}", &lines.join("\n"))
            .replace("{files}", &files.unwrap_or_else(|| none.to_owned()));
        let parts =
            [Some(order), self.findings_for_order(next, tasks, rules)].into_iter().flatten();
        let before = self.orders_about(tasks).into_iter().map(|order| order_before(order, rules));
        Some(parts.chain(before).collect::<Vec<_>>().join("\n\n"))
    }

    /// What was found about the tasks, for who can solve it or has to judge whether it is solved.
    fn findings_for_order(
        &self,
        next: &AgentName,
        tasks: &[Task],
        rules: &Rules<'_>,
    ) -> Option<String> {
        let language = rules.pack.words();
        let judges = rules.pack.policy.plan.verified_by.contains(next);
        let (title, findings): (String, Vec<String>) = match judges {
            true => {
                let findings = self.findings_on(tasks).into_iter();
                let lines = findings.map(|finding| finding.line(language));
                (language.findings_to_judge(), lines.collect())
            }
            false => {
                let findings = self.findings_for(next, rules);
                let lines = findings.map(|finding| finding.line(language));
                (language.findings_to_solve(), lines.collect())
            }
        };
        (!findings.is_empty()).then(|| format!("{title}\n{}", findings.join("\n")))
    }

    /// The tasks with those about which something is open that the next agent can solve: an order for a
    /// part of them would leave the rest open.
    fn with_findings_for(
        &self,
        next: &AgentName,
        tasks: Vec<Task>,
        rules: &Rules<'_>,
        plan: &str,
    ) -> Vec<Task> {
        let open: Vec<&String> =
            self.findings_for(next, rules).flat_map(|finding| &finding.tasks).collect();
        let all = Plan::read(plan, &rules.pack.policy.plan).map(|plan| plan.tasks);
        let is_one = |task: &Task| {
            open.contains(&&task.id)
                || self.waits_for(next, task)
                || tasks.iter().any(|own| own.id == task.id)
        };
        let all: Vec<Task> = all.unwrap_or_default().into_iter().filter(is_one).collect();
        if all.is_empty() { tasks } else { all }
    }
}

/// An order of MAIN about the same tasks, quoted: what it asks of the result holds for what follows.
fn order_before(order: &TaskOrder, rules: &Rules<'_>) -> String {
    let TaskOrder { agent, iteration, text } = order;
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
    format!("{}\n{}", rules.pack.words().order_before(agent, iteration), lines.join("\n"))
}

/// The tasks that a report is about, as the plan has them; `None` if it names none.
fn tasks_of(facts: &ReportFacts, rules: &Rules<'_>, plan: &str) -> Option<Vec<Task>> {
    let plan = Plan::read(plan, &rules.pack.policy.plan).ok()?;
    let tasks = plan.tasks.into_iter().filter(|task| facts.about.contains(&task.id));
    let tasks: Vec<Task> = tasks.collect();
    (!tasks.is_empty()).then_some(tasks)
}

fn change_for(succession: &Succession, tasks: &[Task]) -> PlanChange {
    let Some(status) = &succession.status else { return PlanChange::None };
    let others = tasks.iter().filter(|task| task.status != *status);
    let lines: Vec<String> =
        others.map(|task| format!("update {} status to {status}", task.id)).collect();
    let text = lines.join("\n");
    match parse_statements(&text) {
        Ok(statements) if !statements.is_empty() => PlanChange::Update(statements, text),
        _ => PlanChange::None,
    }
}

/// True if every task has one of the last two statuses.
fn is_all_done(rules: &Rules<'_>, plan: &str) -> bool {
    let policy = &rules.pack.policy.plan;
    let done: Vec<&String> = policy.statuses.iter().rev().take(2).collect();
    Plan::read(plan, policy)
        .is_ok_and(|plan| plan.tasks.iter().all(|task| done.contains(&&task.status)))
}
