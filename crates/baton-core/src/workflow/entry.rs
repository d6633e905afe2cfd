//! What a run writes for people and for the next prompt: entries of the history, work orders.

use super::{Answer, Rules, State};
use crate::decision::{Decision, Next};
use crate::event::{Event, HistoryText, ReportFacts};
use crate::gate;
use crate::history::{self, Block, Entry, Heading, Milestone};
use crate::id::{AgentName, FINISH, FINISH_CHECK, FINISH_REVIEW, Iteration, Timestamp};
use crate::messages::Language;
use crate::plan::Plan;
use crate::policy::Outcome;
use crate::text;

/// What a field of an entry may hold; the whole stands in the journal and the archive.
const FIELD: usize = 2_000;
/// Blockers are quoted word for word: this only keeps a whole file out of the history.
const BLOCKERS_FIELD: usize = 40_000;
const BLOCKERS: &str = "blockers";

/// The block with which a run begins.
pub fn goal_entry(task: &str, time: Timestamp) -> String {
    let time = Some(time.to_string().into());
    history::render(&Block::TaskGoal { label: "(New Task)".into(), time, text: task.to_owned() })
}

impl State {
    /// The iteration's entry, and the end of the run where it is one.
    pub(super) fn recorded(&self, rules: &Rules<'_>, now: Timestamp) -> Event {
        let entry = HistoryText::new(self.entry(rules, now));
        match self.is_finished() {
            true => Event::Finished { entry },
            false => Event::IterationEnded { entry },
        }
    }

    /// What an answer to a question of our own adds to the history.
    pub fn answer_entry(&self, answer: &Answer, rules: &Rules<'_>, now: Timestamp) -> String {
        // The iteration before: ours are asked between two.
        let iteration = Iteration(self.iteration.0.saturating_sub(1));
        let reason = rules.pack.words().asked_by_baton();
        history::render(&answer_block(answer, &reason, none_of(rules), iteration, now))
    }

    fn entry(&self, rules: &Rules<'_>, now: Timestamp) -> String {
        let (language, none) = (rules.pack.words(), none_of(rules));
        let decision = self.decision();
        let asked_because = match &decision {
            Some(Decision { next: Next::Agent(agent), .. }) => language.files_await_approval(agent),
            Some(decision) => decision.reason.clone(),
            None => String::new(),
        };
        let decided_word = decision.as_ref().map(|decision| decision.next.word().to_owned());
        let mut lines: Vec<(&str, String)> = Vec::new();
        if let Some(decision) = &decision {
            lines.push(("next_agent", decision.next.word().to_owned()));
            lines.push(("reason", decision.reason.clone()));
        }
        let summaries = [&self.current.decided, &self.current.check].into_iter().flatten();
        let plan: Vec<&str> = summaries
            .map(|decided| decided.plan_summary.as_str())
            .filter(|summary| !summary.is_empty())
            .collect();
        let plan = if plan.is_empty() { none.to_owned() } else { language.clauses(&plan) };
        lines.push(("dev_plan", plan));
        lines.extend(self.outcome_lines(language, none));
        lines.extend(self.current.evaluation.iter().map(|said| ("evaluation", said.clone())));
        lines.extend(self.current.failure.iter().map(|why| ("error", why.clone())));
        lines.extend(self.finish_line(language));
        let overridden = self.reports.overridden.iter().filter(|_| self.current.check.is_some());
        lines.extend(overridden.map(|line| ("override", line.clone())));
        let decisions = decision.into_iter().chain(self.check_decision());
        lines.extend(
            decisions.filter_map(|decision| decision.note.clone()).map(|note| ("note", note)),
        );
        lines.extend(self.current.notes.iter().map(|note| ("note", note.clone())));
        let most = |key: &str| if key == BLOCKERS { BLOCKERS_FIELD } else { FIELD };
        let fields =
            lines.iter().map(|(key, value)| Entry::field(key, text::cut(value, most(key))));
        let title =
            history::milestone_title(&self.milestones(rules), &rules.pack.policy.milestones.texts);
        let milestone = title.is_some();
        let title = title.unwrap_or_else(|| self.outcome_title(decided_word, language));
        let heading = Heading { milestone, title: title.into() };
        let mut out = history::render(&Block::Iteration {
            iteration: self.iteration,
            heading,
            lines: fields.collect(),
        });
        if let Some(answer) = &self.current.answer {
            let block = answer_block(answer, &asked_because, none, self.iteration, now);
            out.push_str(&history::render(&block));
        }
        out
    }

    /// Verdicts, blockers, sub-loop and gates of the iteration.
    fn outcome_lines(&self, language: Language, none: &str) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        for facts in &self.current.reports {
            let overturned = facts.overturned.as_ref();
            let overturned =
                overturned.map_or(String::new(), |why| language.overturned_because(why));
            lines.push(("verdict", verdict_of(facts, language) + &overturned));
        }
        let blockers: Vec<&str> = self
            .current
            .reports
            .last()
            .into_iter()
            .flat_map(|facts| &facts.blockers)
            .map(String::as_str)
            .collect();
        lines.push((
            BLOCKERS,
            if blockers.is_empty() { none.to_owned() } else { language.clauses(&blockers) },
        ));
        if let Some(end) = &self.current.subloop_end {
            let verdict = end.final_test_verdict.as_deref().unwrap_or("none");
            lines.push((
                "subloop",
                format!(
                    "success={} final_test_verdict={verdict} iterations={}",
                    end.success, end.iterations
                ),
            ));
        }
        for gate in &self.current.gates {
            let reason = || text::shown(gate::reason(&gate.output), 200);
            let line = match gate.passed {
                true => language.gate_line_passed(&gate.command),
                false => language.gate_line_failed(reason(), &gate.command),
            };
            lines.push(("gate", line));
        }
        lines
    }

    /// The title of an iteration that is not a milestone: who worked last, and the outcome.
    fn outcome_title(&self, decided: Option<String>, language: Language) -> String {
        // A failure begins with the agent and a colon.
        if let Some((agent, _)) = self.current.failure.as_ref().and_then(|why| why.split_once(':'))
        {
            return language.agent_failed(agent);
        }
        match (self.current.reports.last(), decided) {
            (Some(facts), _) => verdict_of(facts, language),
            (None, Some(next)) => next,
            (None, None) => String::new(),
        }
    }

    fn finish_line(&self, language: Language) -> Option<(&'static str, String)> {
        let check = self.current.check.as_ref()?;
        let decision = self.check_decision()?;
        let how = match &decision.next {
            _ if self.is_finished() => language.finish_accepted(FINISH, &decision.reason),
            Next::Finish => language.finish_has_open_points(
                FINISH,
                language.clauses(&check.open),
                FINISH_CHECK,
                &decision.reason,
            ),
            next @ (Next::Agent(_) | Next::User(_)) => {
                language.finish_check_chose(FINISH, FINISH_CHECK, next.word(), &decision.reason)
            }
        };
        Some(("finish", how))
    }

    /// The override of a FINISH_CHECK decision, if FINISH_REVIEW did not pass.
    pub(super) fn override_of(&self, decision: &Decision, language: Language) -> Option<String> {
        let review = self.current.reports.iter().rfind(|facts| facts.agent == FINISH_REVIEW);
        let is_needed = !review.is_some_and(|facts| facts.outcome == Some(Outcome::Pass));
        let is_used = decision.overrules_review && decision.next == Next::Finish;
        (is_used && is_needed).then(|| {
            let verdict = review.and_then(|facts| facts.verdict.clone());
            let verdict = verdict.unwrap_or_else(|| language.missing_verdict());
            language.review_overridden(FINISH_REVIEW, verdict, &decision.reason)
        })
    }

    /// What makes this iteration a milestone.
    fn milestones(&self, rules: &Rules<'_>) -> Vec<Milestone> {
        let policy = &rules.pack.policy.milestones;
        let mut found = Vec::new();
        if !rules.config.features.milestones {
            return found;
        }
        if let Some(answer) = &self.current.answer {
            found.push(Milestone::UserDecision { choice: answer.option_id.clone() });
        }
        if self.current.is_finish {
            found.push(Milestone::FinishAttempt { number: self.budget.totals.finishes });
        }
        let decided = [&self.current.decided, &self.current.check].into_iter().flatten();
        let changes = decided.map(|decided| decided.plan_changes).max().unwrap_or(0);
        if changes > policy.plan_changes_over as usize {
            found.push(Milestone::PlanUpdate { changes });
        }
        let mut last = self.reports.last_outcome;
        let mut seen = self.reports.pass_seen;
        let mut passed = None;
        for facts in self.current.reports.iter().filter(|facts| facts.agent == policy.pass_of) {
            if facts.outcome == Some(Outcome::Pass) {
                let again = last.is_some_and(|last| last != Outcome::Pass);
                passed = match (seen, again) {
                    (false, _) => Some(Milestone::FirstPass),
                    (true, true) => Some(Milestone::PassAgain),
                    (true, false) => passed,
                };
                seen = true;
            }
            last = facts.outcome;
        }
        found.extend(passed);
        found
    }
}

/// The word of the policy for a field without content.
fn none_of<'a>(rules: &Rules<'a>) -> &'a str {
    rules.pack.policy.report_rules.blocker_clear_value.first()
}

fn verdict_of(facts: &ReportFacts, language: Language) -> String {
    let verdict = facts.verdict.clone().unwrap_or_else(|| language.without_verdict());
    language.agent_verdict(&facts.agent, verdict)
}

fn answer_block<'a>(
    answer: &'a Answer,
    reason: &'a str,
    none: &'a str,
    iteration: Iteration,
    now: Timestamp,
) -> Block<'a> {
    let options: Vec<String> = answer
        .question
        .options
        .iter()
        .map(|option| format!("{}: {}", option.option_id, option.description))
        .collect();
    Block::UserDecision {
        iteration,
        title: answer.question.title.as_str().into(),
        time: Some(now.to_string().into()),
        lines: vec![
            Entry::field("reason", text::cut(reason, FIELD)),
            Entry::field("question", answer.question.text.as_str()),
            Entry::field("options", options.join("\n")),
            Entry::field("user_choice", answer.option_id.as_str()),
            Entry::field(
                "user_comment",
                if answer.comment.is_empty() { none } else { &answer.comment },
            ),
        ],
    }
}

/// A work order without the first lines that the prompts of older blackboards ask MAIN for: they are
/// written in any case, with the right numbers.
fn without_head(task: &str) -> &str {
    let mut rest = task.trim_start();
    for start in ["# Current Task", "assigned_agent:"] {
        let (first, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if first.starts_with(start) && !text::is_blank(after) {
            rest = after.trim_start_matches(['\r', '\n']);
        }
    }
    rest
}

/// The work order of an agent: MAIN's own words, or its reason with the tasks that it names.
pub fn work_order(state: &State, rules: &Rules<'_>, agent: &AgentName, plan: &str) -> String {
    let iteration = state.iteration;
    // Older readers look for the first two lines.
    let head = format!(
        "# Current Task (Iteration {iteration})\nassigned_agent: {agent}\niteration: {iteration}\n"
    );
    let orders = &rules.pack.policy.context.orders;
    let fill = |order: &str| order.replace("{iteration}", &iteration.to_string());
    if state.current.subloop.is_some() {
        let is_fixer = rules.subloop().is_some_and(|subloop| subloop.fixer == *agent);
        let order = if is_fixer { &orders.fixer } else { &orders.tester };
        return format!("{head}\n{}\n", fill(order));
    }
    if *agent == FINISH_REVIEW {
        return format!("{head}\n{}\n", fill(&orders.finish_review));
    }
    let Some(decision) = state.decision() else { return head };
    let mut out = head;
    if let Some(scenario) = &state.origin.scenario {
        out.push_str(&format!("scenario: {scenario}\n"));
    }
    out.push('\n');
    match &decision.task {
        Some(task) => out.push_str(without_head(task).trim_end()),
        None => {
            out.push_str(decision.reason.trim_end());
            let tasks = Plan::read(plan, &rules.pack.policy.plan).map(|plan| plan.tasks);
            let named = tasks.unwrap_or_default().into_iter();
            for task in named.filter(|task| super::judge::names(&decision.reason, &task.id)) {
                out.push_str(&format!("\n\n### {}: {}", task.id, task.title));
                for field in &task.fields {
                    out.push_str(&format!(
                        "\n- {}: {}",
                        field.name,
                        field.value.replace('\n', "\n  ")
                    ));
                }
            }
        }
    }
    if let Some(wishes) = state.wishes(agent, rules) {
        out.push_str(&format!("\n\n{}\n{}", orders.changes, wishes.trim_end()));
    }
    out.push('\n');
    out
}
