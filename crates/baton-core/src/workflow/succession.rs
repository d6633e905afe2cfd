//! Decisions by rule: where the policy fixes who follows a pass (`routing.after_pass`), MAIN is not
//! asked. Such a decision meets every rule that one of MAIN would meet; whatever stands against it is
//! for MAIN to decide. It never finishes a run and never asks the user.

use super::judge::{follows_rules, plan_hash, summary_of};
use super::{Phase, Rules, State};
use crate::decision::{Decision, Next, PlanChange};
use crate::event::{Decided, DecidedBy, Event, ReportFacts, StageId};
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
    let language = rules.pack.words();
    let decision = Decision {
        next: Next::Agent(succession.next.clone()),
        reason: language.decided_by_rule(&facts.agent, facts.iteration, &succession.next),
        plan: change,
        overrules_review: false,
        task: Some(state.order_by_rule(facts, rules, &tasks)?),
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
        // A pass that does not count any more, say because the user edited a file, is for MAIN.
        let facts = self.counted_pass(agent, rules.pack.words()).ok()?;
        (facts.iteration.0 + 1 == self.iteration.0).then_some(facts)
    }

    fn order_by_rule(
        &self,
        facts: &ReportFacts,
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
        // Also its stages inside of the sub-loop, whose names only go on after this one.
        let stage = stage.to_string();
        let mut changes = self.files.stage_changes.iter().rev();
        let files = changes.find(|(own, _)| own.starts_with(&stage));
        let files = files.map(|(_, files)| language.list(files)).filter(|files| !files.is_empty());
        let order = template
            .replace("{agent}", facts.agent.as_str())
            .replace("{tasks}", &lines.join("\n"))
            .replace("{files}", &files.unwrap_or_else(|| none.to_owned()));
        let findings = self.findings_of(tasks, language);
        let parts =
            [Some(order), self.findings_to_judge(&findings, rules), self.order_before(rules)];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n"))
    }

    /// What was found about the tasks and is not settled, for who works on them or judges them.
    fn findings_to_judge(&self, findings: &[String], rules: &Rules<'_>) -> Option<String> {
        let title = rules.pack.words().findings_to_judge();
        (!findings.is_empty()).then(|| format!("{title}\n{}", findings.join("\n")))
    }

    /// The order of MAIN that the work began with: what it asks for holds for what follows, too.
    fn order_before(&self, rules: &Rules<'_>) -> Option<String> {
        let (agent, order) = self.reports.last_order.as_ref()?;
        let lines: Vec<String> = order.lines().map(|line| format!("> {line}")).collect();
        let title = rules.pack.words().order_before(agent);
        Some(format!("{title}\n{}", lines.join("\n")))
    }
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
