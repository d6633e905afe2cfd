//! Judging what a model said: an answer of MAIN against the rules and the plan, a report against
//! the policy. Nothing is guessed; what is refused says exactly why.

use super::{Rules, State};
use crate::decision::{self, Decision, Moment, Next, PlanChange};
use crate::event::{Decided, DecidedBy, Event, ReportFacts};
use crate::id::AgentName;
use crate::messages::Language;
use crate::plan::{Applied, Finality, Plan, Task};
use crate::policy::{Needed, Outcome, Policy, ReportRules, UNKNOWN_CLASS};
use crate::problem::{Problem, list_in};
use crate::report::{self, Expected, Report};
use crate::text;

/// Judges MAIN's answer. `plan` is the current text of the plan; `has` tells whether the project has
/// a file, of those that `files_named` finds.
pub fn judge_decision(
    state: &State,
    rules: &Rules<'_>,
    answer: &str,
    check: bool,
    plan: &str,
    has: &dyn Fn(&str) -> bool,
) -> Event {
    let language = rules.pack.words();
    let refused =
        |problems: &[Problem]| Event::DecisionRefused { problem: explained(problems, language) };
    let moment = if check { Moment::FinishCheck } else { Moment::Ordinary };
    let agents = rules.pack.manifest.agent_names();
    if let Some(Ok(_)) = decision::reads(answer) {
        let problem =
            Problem::localized("reads-limit", |language| language.reads_limit(super::MOST_READS));
        return refused(&[problem.expecting(Language::reads_decision)]);
    }
    let decision = match decision::read(answer, &agents, moment) {
        Ok(decision) => decision,
        Err(problems) => return refused(&problems),
    };
    let applied = match follows_rules(state, rules, &decision, plan, has) {
        Ok(applied) => applied,
        Err(Breach::Routing(problem)) => return refused(&[*problem]),
        Err(Breach::Plan(problems)) => return refused(&decision::located(answer, problems)),
    };
    let new = applied.as_ref().map(|applied| applied.plan.text().to_owned());
    let after = new.as_deref().unwrap_or(plan);
    let open = match (check, &decision.next) {
        (true, Next::Finish) => open_points(state, rules, after, decision.overrules_review),
        _ => Vec::new(),
    };
    let decided = Decided {
        by: DecidedBy::Main,
        answer: String::new(),
        plan_before: plan_hash(plan),
        plan_after: plan_hash(after),
        plan_summary: summary_of(applied.as_ref(), rules),
        plan_changes: applied.as_ref().map_or(0, |applied| applied.changes.len()),
        open,
        decision: Some(Box::new(decision)),
    };
    Event::Decided(Box::new(decided))
}

/// What a decision did to the plan, for the history.
pub(super) fn summary_of(applied: Option<&Applied>, rules: &Rules<'_>) -> String {
    applied.map_or(String::new(), |applied| applied.summary(rules.pack.words()))
}

/// What a decision breaks.
pub(super) enum Breach {
    /// Who is next.
    Routing(Box<Problem>),
    /// Its change of the plan.
    Plan(Vec<Problem>),
}

/// The rules of the policy for a decision of MAIN or of a rule: who may be next, and what may become
/// of the plan. Returns the plan after it.
pub(super) fn follows_rules(
    state: &State,
    rules: &Rules<'_>,
    decision: &Decision,
    plan: &str,
    has: &dyn Fn(&str) -> bool,
) -> Result<Option<Applied>, Breach> {
    let routing_problem = |problem: Problem| Breach::Routing(Box::new(problem));
    let newest =
        |agent: &AgentName| state.reports.newest.get(agent).and_then(|(_, facts)| facts.outcome);
    let routing = &rules.pack.policy.routing;
    let last = state.reports.last_reporter.as_ref();
    decision::check_routing(&decision.next, routing, last, newest).map_err(routing_problem)?;
    let problem = not_due(state, &decision.next).or_else(|| stale(state, rules, &decision.next));
    if let Some(problem) = problem {
        return Err(routing_problem(problem));
    }
    let applied = planned(state, rules, decision, plan, has).map_err(Breach::Plan)?;
    let after = applied.as_ref().map_or(plan, |applied| applied.plan.text());
    if let Some(problem) = not_proved(state, rules, &decision.next, after) {
        return Err(routing_problem(problem));
    }
    proved_before_work(state, rules, decision, after).map_err(routing_problem)?;
    Ok(applied)
}

/// Work of others that must have been judged, and findings that must be settled, before an agent runs.
fn not_proved(state: &State, rules: &Rules<'_>, next: &Next, plan: &str) -> Option<Problem> {
    let Next::Agent(agent) = next else { return None };
    let policy = &rules.pack.policy;
    let tasks = Plan::read(plan, &policy.plan).map(|plan| plan.tasks).unwrap_or_default();
    let needed = policy.routing.needs_pass.get(agent).into_iter().flatten();
    let unjudged = needed.filter_map(|needed| match needed {
        Needed::Of(work) => {
            let why = state.unjudged_work(agent, work, &tasks, rules)?;
            let problem = Problem::new("routing-needs-pass", why);
            Some(problem.one_of(agent.as_str(), &[work.agent.as_str()]))
        }
        Needed::By(_) => None,
    });
    let unsettled = || {
        let why = state.unsettled(agent, &tasks, rules)?;
        Some(Problem::new("routing-unsettled", why).found(agent.as_str()))
    };
    unjudged.into_iter().next().or_else(unsettled)
}

/// Where code or the person said who is next, nobody else is.
fn not_due(state: &State, next: &Next) -> Option<Problem> {
    let (due, why) = state.acceptance.must_next.as_ref()?;
    let is_due = matches!(next, Next::User(_)) || matches!(next, Next::Agent(own) if own == due);
    let allowed = [due.as_str(), crate::id::USER];
    (!is_due).then(|| {
        Problem::localized("routing-due", |language| {
            language.next_not_due(next.word(), text::cut(why, 500))
        })
        .found(next.word())
        .expecting(|language| language.one_of(list_in(language, &allowed)))
    })
}

/// A pass that an agent needs before it runs is over when what was judged has changed. Where the user
/// approves the files as they are, that approval decides.
fn stale(state: &State, rules: &Rules<'_>, next: &Next) -> Option<Problem> {
    let Next::Agent(agent) = next else { return None };
    if rules.pack.policy.approval.as_ref().is_some_and(|approval| approval.before == *agent) {
        return None;
    }
    let needed = rules.pack.policy.routing.needs_pass.get(agent)?;
    let (needed, why) = needed
        .iter()
        .find_map(|own| Some((own, state.stale_pass(agent, own.subject(), rules)?)))?;
    Some(Problem::new("routing-stale-pass", why).one_of(agent.as_str(), &[needed.agent().as_str()]))
}

/// The plan after a decision; `None` where it changes nothing.
fn planned(
    state: &State,
    rules: &Rules<'_>,
    decision: &Decision,
    plan: &str,
    has: &dyn Fn(&str) -> bool,
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
    proved_before_final(state, rules, &old, &applied, has)?;
    dropped_openly(state, rules, &applied)?;
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
            let problem = Problem::localized("plan-dropped", |language| {
                language.drop_at_finish(&task.id, &task.status)
            });
            Err(vec![problem.found(&task.id)])
        }
    }
}

/// A task becomes final only if it was judged itself, and if the files that it is to bring are there.
fn proved_before_final(
    state: &State,
    rules: &Rules<'_>,
    old: &[Task],
    applied: &Applied,
    has: &dyn Fn(&str) -> bool,
) -> Result<(), Vec<Problem>> {
    let policy = &rules.pack.policy.plan;
    let language = rules.pack.words();
    let was_final =
        |task: &Task| old.iter().any(|own| own.id == task.id && own.status == policy.final_status);
    for task in applied.plan.tasks.iter().filter(|task| task.status == policy.final_status) {
        if was_final(task) {
            continue;
        }
        let unproved = state.unproved(task, rules).filter(|_| policy.judged_only);
        let missing = files_named(task).into_iter().find(|file| !has(file));
        let missing = missing.filter(|_| policy.files_exist);
        let why = unproved.or_else(|| missing.map(|file| language.file_is_missing(file)));
        if let Some(why) = why {
            let message = language.not_final(&task.id, &policy.final_status, why);
            return Err(vec![Problem::new("plan-final-refused", message).found(&task.id)]);
        }
    }
    Ok(())
}

/// What was found about a task does not go away with the task.
fn dropped_openly(state: &State, rules: &Rules<'_>, applied: &Applied) -> Result<(), Vec<Problem>> {
    let is_checked = rules.pack.policy.plan.judged_only;
    for task in applied.dropped.iter().filter(|_| is_checked) {
        if let Some(finding) = state.undroppable(task, rules) {
            let message = rules.pack.words().not_dropped(task, finding);
            return Err(vec![Problem::new("plan-dropped", message).found(task)]);
        }
    }
    Ok(())
}

/// Endings of files that a task of text may have to bring.
const TEXT_FILES: [&str; 14] = [
    "md", "txt", "csv", "tsv", "json", "yaml", "yml", "toml", "html", "xml", "pdf", "docx", "xlsx",
    "py",
];

/// The files that a task's acceptance names: words with a known ending. A name may be
/// between letters without spaces, as in Chinese; then it begins where its first ASCII letter does.
pub fn files_named(task: &Task) -> Vec<String> {
    let Some(acceptance) = task.field("acceptance") else { return Vec::new() };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-');
    let words = acceptance.split(|c: char| !is_part(c));
    let names = words.filter_map(|word| {
        let word = word.trim_matches(['.', '-', '/']);
        let (stem, ending) = word.rsplit_once('.')?;
        let is_file =
            TEXT_FILES.contains(&ending) && stem.contains(|c: char| c.is_ascii_alphanumeric());
        (is_file && !word.contains("//")).then(|| word.trim_start_matches("./").to_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.dedup();
    names
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
            let problem = Problem::localized("proof-before-done", |language| {
                language.done_unproved(&task.id, &task.status, &subloop.tester)
            });
            return Err(vec![problem.found(&task.id)]);
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
            let problem = Problem::localized("proof-before-work", |language| {
                language.work_unproved(&task.id, &subloop.fixer, &subloop.tester)
            });
            Err(problem.found(&task.id).expecting(|language| language.agent_first(&subloop.tester)))
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
    let language = rules.pack.words();
    let mut open = Vec::new();
    match Plan::read(plan, &policy.plan) {
        Ok(plan) if plan.is_ready(&policy.plan) => {}
        Ok(plan) if plan.tasks.is_empty() => open.push(language.no_task_planned()),
        Ok(plan) => {
            let left = plan.tasks.iter().filter(|task| task.status != policy.plan.final_status);
            let left: Vec<&str> = left.map(|task| task.id.as_str()).take(20).collect();
            open.push(language.not_every_task(&policy.plan.final_status, language.list(&left)));
        }
        Err(_) => open.push(language.plan_is_unreadable()),
    }
    let passes = &policy.finish_rules.passes;
    open.extend(passes.iter().filter_map(|agent| state.counted_pass(agent, language).err()));
    if let Finality::Refused(why) = finality(state, rules)
        && !open.contains(&why)
    {
        open.push(why);
    }
    let failed = state.current.gates.iter().filter(|gate| !gate.passed);
    open.extend(failed.map(|gate| gate.failure(language)));
    open.extend(percent_problem(state, rules));
    let review =
        state.current.reports.iter().rev().find(|facts| facts.agent == crate::id::FINISH_REVIEW);
    let passed = review.is_some_and(|facts| facts.outcome == Some(Outcome::Pass));
    if overrules {
        return open;
    }
    if passed {
        let of_now = AgentName::new(crate::id::FINISH_REVIEW)
            .map(|name| state.counted_pass(&name, language).err());
        open.extend(of_now.ok().flatten());
    } else {
        let verdict = review.and_then(|facts| facts.verdict.clone());
        let verdict = verdict.unwrap_or_else(|| language.no_verdict());
        open.push(language.review_says(crate::id::FINISH_REVIEW, verdict));
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
    let language = rules.pack.words();
    match state.reports.newest.get(tester).filter(|(seq, _)| *seq > 0) {
        Some((_, newest)) => too_low(newest.percent, least, field, language),
        None => Some(language.percent_not_reported(tester, field, least)),
    }
}

fn too_low(percent: Option<u32>, least: u32, field: &str, language: Language) -> Option<String> {
    match percent {
        Some(percent) if percent >= least => None,
        Some(percent) => Some(language.percent_too_low(field, percent, least)),
        None => Some(language.percent_missing(field, least)),
    }
}

/// The rule of the final status, by the order in which things happened.
fn finality(state: &State, rules: &Rules<'_>) -> Finality {
    let verifiers = &rules.pack.policy.plan.verified_by;
    let language = rules.pack.words();
    let newest = verifiers.iter().filter_map(|agent| state.reports.newest.get(agent));
    let newest = newest.filter(|(seq, _)| *seq > 0).max_by_key(|(seq, _)| *seq);
    let Some((_, facts)) = newest else {
        return Finality::Refused(language.no_report_in_run(list_in(language, verifiers)));
    };
    match state.counted_pass(&facts.agent, language) {
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
        Err(problems) => {
            return Event::ReportRefused { problem: explained(&problems, rules.pack.words()) };
        }
    };
    if let Some(problem) = too_many_words(&report) {
        return Event::ReportRefused { problem: explained(&[problem], rules.pack.words()) };
    }
    let mut facts = facts_of(&report, source, policy, plan);
    facts.about = match tasks_of(state, rules, &facts, source, plan) {
        Ok(about) => about,
        Err(problem) => {
            return Event::ReportRefused { problem: explained(&[problem], rules.pack.words()) };
        }
    };
    facts.blocker_tasks = tasks_of_blockers(&facts, policy, plan);
    let tester = policy.subloop.as_ref().map(|subloop| &subloop.tester);
    let passed = facts.outcome == Some(Outcome::Pass);
    let asked = least_percent(state, rules).filter(|_| passed && tester == Some(agent));
    if let Some((least, field)) = asked
        && let Some(why) = too_low(facts.percent, least, field, rules.pack.words())
    {
        overturn(&mut facts, &why, &policy.report_rules);
    }
    if let Some(why) = state.unexpected_change(agent, rules.pack.words()).filter(|_| passed) {
        overturn(&mut facts, &why, &policy.report_rules);
        // The names of files are not words about the cause.
        facts.classes = vec![UNKNOWN_CLASS.to_owned()];
    }
    Event::ReportAccepted(Box::new(facts))
}

/// The tasks that a report is about: those of its line for tasks, or else those that both the report
/// and its order name. A verifier must say which tasks it judged where only these become final.
fn tasks_of(
    state: &State,
    rules: &Rules<'_>,
    facts: &ReportFacts,
    source: &str,
    plan: &str,
) -> Result<Vec<String>, Problem> {
    let policy = &rules.pack.policy;
    let language = rules.pack.words();
    let line = policy.report_rules.task_prefix.as_ref().and_then(|prefix| {
        let mut fence = text::Fence::default();
        text::lines(source)
            .filter(|line| !fence.covers(*line))
            .find_map(|line| text::key_line(line.text, prefix).map(|key| key.value))
    });
    let about = match line {
        Some(line) => named_on(line, policy, plan, language)?,
        None => {
            let order = state.main_order().map(|(_, order)| order).unwrap_or_default();
            facts.tasks.iter().filter(|task| names(&order, task)).cloned().collect()
        }
    };
    let must_name = policy.plan.judged_only
        && policy.plan.verified_by.contains(&facts.agent)
        && facts.outcome == Some(Outcome::Pass);
    match &policy.report_rules.task_prefix {
        Some(prefix) if about.is_empty() && must_name => {
            Err(Problem::new("report-no-task", language.tasks_missing(prefix)))
        }
        _ => Ok(about),
    }
}

/// The tasks of each blocker: those whose id it names, or else those whose acceptance names a file that
/// the blocker names, too.
fn tasks_of_blockers(facts: &ReportFacts, policy: &Policy, plan: &str) -> Vec<Vec<String>> {
    if facts.about.len() < 2 || facts.blockers.is_empty() {
        return Vec::new();
    }
    let tasks = Plan::read(plan, &policy.plan).map(|plan| plan.tasks).unwrap_or_default();
    let about: Vec<&Task> = tasks.iter().filter(|task| facts.about.contains(&task.id)).collect();
    let ids = |tasks: Vec<&&Task>| tasks.into_iter().map(|task| task.id.clone()).collect();
    let of = |blocker: &String| -> Vec<String> {
        let named: Vec<&&Task> = about.iter().filter(|task| names(blocker, &task.id)).collect();
        if !named.is_empty() {
            return ids(named);
        }
        let has_file =
            |task: &&&Task| files_named(task).iter().any(|file| blocker.contains(file.as_str()));
        ids(about.iter().filter(has_file).collect())
    };
    facts.blockers.iter().map(of).collect()
}

/// The ids of a line for tasks, each of them in the plan.
fn named_on(
    line: &str,
    policy: &Policy,
    plan: &str,
    language: Language,
) -> Result<Vec<String>, Problem> {
    let tasks = Plan::read(plan, &policy.plan).map(|plan| plan.tasks).unwrap_or_default();
    let known: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    let words =
        line.split(|c: char| c.is_whitespace() || matches!(c, ',' | '，' | '、' | ';' | '；'));
    let mut found: Vec<String> = Vec::new();
    for word in words.map(|word| text::unwrapped(word).trim_matches(['.', '。'])) {
        let is_id = word.chars().any(|c| c.is_ascii_digit()) && word.contains('-');
        if known.contains(&word) {
            found.push(word.to_owned());
        } else if is_id && word.is_ascii() {
            let problem = Problem::new("report-unknown-task", language.task_unknown(word));
            return Err(problem.one_of(word, &known));
        }
    }
    // A title that follows an id is not looked at; an id inside brackets is.
    for id in known {
        if names(line, id) && !found.iter().any(|own| own == id) {
            found.push(id.to_owned());
        }
    }
    Ok(found)
}

/// Blockers are never cut in a prompt: so long ones are refused while their agent can shorten them.
fn too_many_words(report: &Report) -> Option<Problem> {
    const MOST: usize = 8_000;
    let count: usize = report.blockers.iter().map(|blocker| blocker.text.chars().count()).sum();
    (count > MOST).then(|| {
        Problem::localized("report-blockers-long", |language| language.blockers_too_long(count))
            .expecting(|language| language.blockers_shorter(MOST))
    })
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
        about: Vec::new(),
        blocker_tasks: Vec::new(),
        subject: subject(report, source, policy),
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

/// What a report says that it judged or made: the first of the agent's own summary fields.
fn subject(report: &Report, source: &str, policy: &Policy) -> Option<String> {
    let (_, labels) = policy.context.summary_fields.get(&report.agent)?.first()?;
    let mut fence = text::Fence::default();
    let value = text::lines(source).filter(|line| !fence.covers(*line)).find_map(|line| {
        labels.iter().find_map(|label| text::key_line(line.text, label)).map(|key| key.value)
    })?;
    (!value.is_empty()).then(|| text::shown(value, 200))
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

/// The problems as a model reads them, in the language of its pack.
pub fn explained(problems: &[Problem], language: Language) -> String {
    let lines = problems.iter().take(20).map(|problem| problem.text(language));
    lines.collect::<Vec<_>>().join("\n")
}

/// What a plan is told from another by.
pub fn plan_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}
