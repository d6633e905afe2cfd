//! Judging what a model said: an answer of MAIN against the rules and the plan, a report against
//! the policy. Nothing is guessed; what is refused says exactly why.

use super::{GateOutcome, Rules, State};
use crate::decision::{self, Decision, Moment, Next, PlanChange};
use crate::event::{Decided, DecidedBy, Event, ReportFacts};
use crate::id::AgentName;
use crate::plan::{Applied, Finality, Plan, Task};
use crate::policy::{Outcome, Policy, ReportRules, UNKNOWN_CLASS};
use crate::problem::{Problem, list};
use crate::report::{self, Expected, Report};
use crate::text;

/// Judges MAIN's answer. `plan` is the current text of the plan.
pub fn judge_decision(
    state: &State,
    rules: &Rules<'_>,
    answer: &str,
    check: bool,
    plan: &str,
) -> Event {
    let refused = |problems: &[Problem]| Event::DecisionRefused { problem: explained(problems) };
    let moment = if check { Moment::FinishCheck } else { Moment::Ordinary };
    let agents = rules.pack.manifest.agent_names();
    if let Some(Ok(_)) = decision::reads(answer) {
        let message =
            format!("files were read {} times for this decision already", super::MOST_READS);
        return refused(&[Problem::new("reads-limit", message).expected("a decision")]);
    }
    let decision = match decision::read(answer, &agents, moment) {
        Ok(decision) => decision,
        Err(problems) => return refused(&problems),
    };
    let newest =
        |agent: &AgentName| state.reports.newest.get(agent).and_then(|(_, facts)| facts.outcome);
    let routing = &rules.pack.policy.routing;
    if let Err(problem) = decision::check_routing(
        &decision.next,
        routing,
        state.reports.last_reporter.as_ref(),
        newest,
    ) {
        return refused(&[problem]);
    }
    let problem = not_due(state, &decision.next).or_else(|| stale(state, rules, &decision.next));
    if let Some(problem) = problem {
        return refused(&[problem]);
    }
    let applied = match planned(state, rules, &decision, plan) {
        Ok(applied) => applied,
        Err(problems) => return refused(&decision::located(answer, problems)),
    };
    let new = applied.as_ref().map(|applied| applied.plan.text().to_owned());
    let after = new.as_deref().unwrap_or(plan);
    if let Err(problem) = proved_before_work(state, rules, &decision, after) {
        return refused(&[problem]);
    }
    let open = match (check, &decision.next) {
        (true, Next::Finish) => open_points(state, rules, after, decision.overrules_review),
        _ => Vec::new(),
    };
    let decided = Decided {
        by: DecidedBy::Main,
        answer: String::new(),
        plan_before: plan_hash(plan),
        plan_after: plan_hash(after),
        plan_summary: applied.as_ref().map_or(String::new(), Applied::summary),
        plan_changes: applied.as_ref().map_or(0, |applied| applied.changes.len()),
        open,
        decision: Some(Box::new(decision)),
    };
    Event::Decided(Box::new(decided))
}

/// Where code or the person said who is next, nobody else is.
fn not_due(state: &State, next: &Next) -> Option<Problem> {
    let (due, why) = state.acceptance.must_next.as_ref()?;
    let is_due = matches!(next, Next::User(_)) || matches!(next, Next::Agent(own) if own == due);
    let message = format!("`{}` may not be next: {}", next.word(), text::cut(why, 500));
    let expected = format!("one of {}", list(&[due.as_str(), crate::id::USER]));
    (!is_due).then(|| Problem::new("routing-due", message).found(next.word()).expected(expected))
}

/// A pass that an agent needs before it runs is over when what was judged has changed. Where the user
/// approves the files as they are, that approval decides.
fn stale(state: &State, rules: &Rules<'_>, next: &Next) -> Option<Problem> {
    let Next::Agent(agent) = next else { return None };
    if rules.pack.policy.approval.as_ref().is_some_and(|approval| approval.before == *agent) {
        return None;
    }
    let needed = rules.pack.policy.routing.needs_pass.get(agent)?;
    let (needed, why) =
        needed.iter().find_map(|own| Some((own, state.stale_pass(agent, own, rules)?)))?;
    Some(Problem::new("routing-stale-pass", why).one_of(agent.as_str(), &[needed.as_str()]))
}

/// The plan after a decision; `None` where it changes nothing.
fn planned(
    state: &State,
    rules: &Rules<'_>,
    decision: &Decision,
    plan: &str,
) -> Result<Option<Applied>, Vec<Problem>> {
    let policy = &rules.pack.policy;
    let finality = finality(state, rules);
    let old = Plan::read(plan, &policy.plan);
    let applied = match &decision.plan {
        PlanChange::None => return Ok(None),
        PlanChange::Update(statements, _) => {
            old.clone()?.updated(statements, &policy.plan, &finality)?
        }
        // A plan that cannot be read can still be replaced.
        PlanChange::Replace(text) => {
            let empty = Plan::read("", &policy.plan)?;
            old.clone().unwrap_or(empty).replaced(text, &policy.plan, &finality)?
        }
    };
    let old = old.map(|old| old.tasks).unwrap_or_default();
    proved_before_done(state, rules, &old, &applied)?;
    if decision.next == Next::Finish {
        nothing_dropped(&old, &applied, &policy.plan.final_status)?;
    }
    Ok(Some(applied))
}

/// A decision to finish may not remove the tasks that are not done.
fn nothing_dropped(old: &[Task], applied: &Applied, done: &str) -> Result<(), Vec<Problem>> {
    let is_open = |task: &&Task| applied.dropped.contains(&task.id) && task.status != done;
    match old.iter().find(is_open) {
        None => Ok(()),
        Some(task) => {
            let message = format!(
                "a decision to finish may not drop task `{}`, which is `{}`",
                task.id, task.status
            );
            Err(vec![Problem::new("plan-dropped", message).found(&task.id)])
        }
    }
}

/// A marked task is done only after a passing report of the tester named it.
fn proved_before_done(
    state: &State,
    rules: &Rules<'_>,
    old: &[Task],
    applied: &Applied,
) -> Result<(), Vec<Problem>> {
    let policy = &rules.pack.policy;
    let proof = policy.proof.as_ref().filter(|proof| proof.before_done);
    let Some((proof, subloop)) = proof.zip(policy.subloop.as_ref()) else { return Ok(()) };
    // Done is what stands last before the final status, and that one too.
    let end: Vec<&String> = policy.plan.statuses.iter().rev().take(2).collect();
    // Also a task that comes with this status.
    let is_same =
        |task: &Task| old.iter().any(|own| own.id == task.id && own.status == task.status);
    for task in applied.plan.tasks.iter().filter(|task| end.contains(&&task.status)) {
        let needs = task.field(&proof.task_field).is_some_and(is_true);
        if needs && !is_same(task) && !state.reports.passed.contains(&task.id) {
            let message = format!(
                "task `{}` may not become `{}` before a passing report of `{}` names it",
                task.id, task.status, subloop.tester
            );
            return Err(vec![Problem::new("proof-before-done", message).found(&task.id)]);
        }
    }
    Ok(())
}

/// No work order to the fixer for a task that no report of the tester names.
fn proved_before_work(
    state: &State,
    rules: &Rules<'_>,
    decision: &Decision,
    plan: &str,
) -> Result<(), Problem> {
    let policy = &rules.pack.policy;
    let proof = policy.proof.as_ref().filter(|proof| proof.before_work);
    let Some((proof, subloop)) = proof.zip(policy.subloop.as_ref()) else { return Ok(()) };
    let is_fixer = matches!(&decision.next, Next::Agent(agent) if *agent == subloop.fixer);
    let Ok(plan) = Plan::read(plan, &policy.plan) else { return Ok(()) };
    if !is_fixer {
        return Ok(());
    }
    let order = decision.task.as_deref().unwrap_or(&decision.reason);
    let untested = plan.tasks.iter().find(|task| {
        task.field(&proof.task_field).is_some_and(is_true)
            && names(order, &task.id)
            && !state.reports.tested.contains(&task.id)
    });
    match untested {
        None => Ok(()),
        Some(task) => {
            let message = format!(
                "task `{}` may not go to `{}` before a report of `{}` names it",
                task.id, subloop.fixer, subloop.tester
            );
            Err(Problem::new("proof-before-work", message)
                .found(&task.id)
                .expected(format!("`{}` first", subloop.tester)))
        }
    }
}

fn is_true(value: &str) -> bool {
    value.trim().eq_ignore_ascii_case("true")
}

/// Everything because of which FINISH is refused now; empty if it is accepted. `overrules`: the verdict
/// of FINISH_REVIEW is overridden.
pub fn open_points(state: &State, rules: &Rules<'_>, plan: &str, overrules: bool) -> Vec<String> {
    let policy = &rules.pack.policy;
    let mut open = Vec::new();
    match Plan::read(plan, &policy.plan) {
        Ok(plan) if plan.is_ready(&policy.plan) => {}
        Ok(plan) if plan.tasks.is_empty() => open.push("the plan has no task".to_owned()),
        Ok(plan) => {
            let left = plan.tasks.iter().filter(|task| task.status != policy.plan.final_status);
            let left: Vec<&str> = left.map(|task| task.id.as_str()).take(20).collect();
            open.push(format!(
                "not every task is `{}`: {}",
                policy.plan.final_status,
                left.join(", ")
            ));
        }
        Err(_) => open.push("the plan cannot be read".to_owned()),
    }
    let passes = &policy.finish_rules.passes;
    open.extend(passes.iter().filter_map(|agent| state.counted_pass(agent).err()));
    if let Finality::Refused(why) = finality(state, rules)
        && !open.contains(&why)
    {
        open.push(why);
    }
    let failed = state.current.gates.iter().filter(|gate| !gate.passed);
    open.extend(failed.map(GateOutcome::failure));
    open.extend(percent_problem(state, rules));
    let review =
        state.current.reports.iter().rev().find(|facts| facts.agent == crate::id::FINISH_REVIEW);
    let passed = review.is_some_and(|facts| facts.outcome == Some(Outcome::Pass));
    if overrules {
        return open;
    }
    if passed {
        let of_now =
            AgentName::new(crate::id::FINISH_REVIEW).map(|name| state.counted_pass(&name).err());
        open.extend(of_now.ok().flatten());
    } else {
        let verdict = review.and_then(|facts| facts.verdict.as_deref()).unwrap_or("no verdict");
        open.push(format!("{} says {verdict}", crate::id::FINISH_REVIEW));
    }
    open
}

/// The least percentage that the tester must report, and the field that has it. `None`: the policy
/// asks for none, or the run found no tool to measure it when it began, and reported that.
pub fn least_percent<'a>(state: &State, rules: &Rules<'a>) -> Option<(u32, &'a str)> {
    let proof = rules.pack.policy.proof.as_ref()?;
    let machine = state.origin.machine.as_ref();
    let is_measured = machine.is_none_or(|own| own.can_measure(&proof.percent_field));
    let is_asked = proof.least_percent > 0 && is_measured;
    is_asked.then_some((proof.least_percent, proof.percent_field.as_str()))
}

/// The tester's percentage in this run, where the policy asks for one.
fn percent_problem(state: &State, rules: &Rules<'_>) -> Option<String> {
    let (least, field) = least_percent(state, rules)?;
    let tester = &rules.pack.policy.subloop.as_ref()?.tester;
    match state.reports.newest.get(tester).filter(|(seq, _)| *seq > 0) {
        Some((_, newest)) => too_low(newest.percent, least, field),
        None => Some(format!("`{tester}` has not reported {field}; the minimum is {least}%")),
    }
}

fn too_low(percent: Option<u32>, least: u32, field: &str) -> Option<String> {
    match percent {
        Some(percent) if percent >= least => None,
        Some(percent) => Some(format!("{field} is {percent}%, below the minimum of {least}%")),
        None => Some(format!("the {field} line is missing; the minimum is {least}%")),
    }
}

/// The rule of the final status, by the order in which things happened.
fn finality(state: &State, rules: &Rules<'_>) -> Finality {
    let verifiers = &rules.pack.policy.plan.verified_by;
    let newest = verifiers.iter().filter_map(|agent| state.reports.newest.get(agent));
    let newest = newest.filter(|(seq, _)| *seq > 0).max_by_key(|(seq, _)| *seq);
    let Some((_, facts)) = newest else {
        return Finality::Refused(format!("there is no report of {} in this run", list(verifiers)));
    };
    match state.counted_pass(&facts.agent) {
        Ok(_) => Finality::Allowed,
        Err(why) => Finality::Refused(why),
    }
}

/// An agent's report. A tester's pass below the least percentage does not count, nor a pass of a
/// stage that may not write if files changed meanwhile.
pub fn judge_report(
    state: &State,
    rules: &Rules<'_>,
    agent: &AgentName,
    source: &str,
    plan: &str,
) -> Event {
    let policy = &rules.pack.policy;
    let expected = Expected { agent: agent.clone(), iteration: Some(state.iteration) };
    let report = match report::read(source.as_bytes(), &policy.report_rules, &expected) {
        Ok(report) => report,
        Err(problems) => return Event::ReportRefused { problem: explained(&problems) },
    };
    if let Some(problem) = too_many_words(&report) {
        return Event::ReportRefused { problem: explained(&[problem]) };
    }
    let mut facts = facts_of(&report, source, policy, plan);
    let tester = policy.subloop.as_ref().map(|subloop| &subloop.tester);
    let passed = facts.outcome == Some(Outcome::Pass);
    let asked = least_percent(state, rules).filter(|_| passed && tester == Some(agent));
    if let Some((least, field)) = asked
        && let Some(why) = too_low(facts.percent, least, field)
    {
        overturn(&mut facts, &why, &policy.report_rules);
    }
    if let Some(why) = state.unexpected_change(agent).filter(|_| passed) {
        overturn(&mut facts, &why, &policy.report_rules);
        // The names of files are not words about the cause.
        facts.classes = vec![UNKNOWN_CLASS.to_owned()];
    }
    Event::ReportAccepted(Box::new(facts))
}

/// Blockers are never cut in a prompt: so long ones are refused while their agent can shorten them.
fn too_many_words(report: &Report) -> Option<Problem> {
    const MOST: usize = 8_000;
    let count: usize = report.blockers.iter().map(|blocker| blocker.text.chars().count()).sum();
    let message = format!("the blockers have {count} characters together");
    let expected = format!("at most {MOST}; details belong into the report's text");
    (count > MOST).then(|| Problem::new("report-blockers-long", message).expected(expected))
}

/// What code keeps of a report that follows the rules.
pub fn facts_of(report: &Report, source: &str, policy: &Policy, plan: &str) -> ReportFacts {
    let tagged = report.blockers.iter().map(|blocker| match blocker.class.as_str() {
        UNKNOWN_CLASS => text::cut(&blocker.text, 4_000).into_owned(),
        class => format!("[{class}] {}", text::cut(&blocker.text, 4_000)),
    });
    let tasks = Plan::read(plan, &policy.plan).map(|plan| plan.tasks).unwrap_or_default();
    let tasks = tasks.into_iter().map(|task| task.id).filter(|id| names(source, id));
    ReportFacts {
        agent: report.agent.clone(),
        iteration: report.iteration,
        verdict: report.verdict.as_ref().map(|verdict| verdict.word.clone()),
        outcome: report.verdict.as_ref().map(|verdict| verdict.outcome),
        blockers: tagged.take(20).collect(),
        classes: report.blockers.iter().map(|blocker| blocker.class.clone()).take(20).collect(),
        tasks: tasks.collect(),
        percent: percent(report, source, policy),
        overturned: None,
    }
}

pub(super) fn overturn(facts: &mut ReportFacts, why: &str, rules: &ReportRules) {
    facts.outcome = Some(Outcome::Fail);
    facts.verdict = Some(rules.verdict_fail.first().to_owned());
    facts.overturned = Some(why.to_owned());
    facts.blockers = vec![why.to_owned()];
    facts.classes = vec![rules.classify(why).unwrap_or(UNKNOWN_CLASS).to_owned()];
}

/// The percentage of a report, by the policy's labels.
fn percent(report: &Report, source: &str, policy: &Policy) -> Option<u32> {
    let labels = policy.context.summary_fields.get(&report.agent)?.get(policy.percent_field())?;
    let mut fence = text::Fence::default();
    let value = text::lines(source).filter(|line| !fence.covers(*line)).find_map(|line| {
        labels.iter().find_map(|label| text::key_line(line.text, label)).map(|key| key.value)
    })?;
    let digits = text::unwrapped(value).split(['%', '.', ' ']).next()?;
    digits.parse().ok().filter(|percent| *percent <= 100)
}

/// Whether a text names a task as a word of its own: `M1-T1` is not named by `M1-T10`.
pub(super) fn names(text: &str, id: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    !id.is_empty()
        && text.match_indices(id).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let behind = text[at + id.len()..].chars().next();
            !is_part(before) && !is_part(behind)
        })
}

/// As the model is told.
pub fn explained(problems: &[Problem]) -> String {
    let lines = problems.iter().take(20).map(ToString::to_string);
    lines.collect::<Vec<_>>().join("\n")
}

/// What a plan is told from another by.
pub fn plan_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}
