//! What is known about each task of the plan: the newest verdict of each agent about it, and what was
//! found about it and is still open. A verdict is about the tasks that its report names as its
//! subject, so that a pass of one task says nothing about another.
//!
//! A finding opens with a report that did not pass. It is settled by the pass of a verifier about the
//! same task; where the policy names who must work on findings of its class (`routing.settled_by`),
//! only after one of these agents worked on the task with success.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Rules, State};
use crate::event::{DecidedBy, ReportFacts};
use crate::id::{AgentName, FINISH_REVIEW, Iteration};
use crate::messages::Language;
use crate::plan::Task;
use crate::policy::{JudgedWork, Outcome, UNKNOWN_CLASS};
use crate::text;

/// Open findings that are kept; the reports have all of them.
const MOST_FINDINGS: usize = 100;
/// Characters of a finding that are kept; the whole is in the report.
const FINDING: usize = 400;
const SUBJECT: usize = 160;
/// Characters of an order that are kept for what follows it.
const KEPT_ORDER: usize = 4_000;

/// Everything that reports of the run said about one task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskRecord {
    /// The newest verdict of each agent.
    pub verdicts: BTreeMap<AgentName, TaskVerdict>,
    /// MAIN's first order about the task, and its last: the criteria of the first hold for what follows
    /// a correction, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<TaskOrder>,
}

/// An order of MAIN on which an agent reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOrder {
    pub agent: AgentName,
    pub iteration: Iteration,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskVerdict {
    pub seq: u64,
    pub iteration: Iteration,
    pub outcome: Outcome,
    pub word: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// A blocker that is not settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The tasks that it is about: work on any of them may be work on it.
    pub tasks: Vec<String>,
    pub agent: AgentName,
    pub iteration: Iteration,
    pub class: String,
    pub text: String,
    /// True if an agent that can settle it has worked on the task since, with success.
    #[serde(default)]
    pub is_worked: bool,
    /// The number of the report's event.
    pub seq: u64,
}

impl State {
    /// Takes over what a report that can no longer be overturned says about its tasks.
    pub(super) fn record_tasks(&mut self, facts: &ReportFacts, seq: u64, rules: &Rules<'_>) {
        let Some(outcome) = facts.outcome.filter(|_| facts.agent != FINISH_REVIEW) else { return };
        let is_mains = self.current.decided.as_ref().is_some_and(|own| own.by == DecidedBy::Main);
        let order = self.main_order().filter(|(agent, _)| is_mains && *agent == facts.agent);
        let order = order.map(|(agent, text)| {
            let text = text::cut(&text, KEPT_ORDER).into_owned();
            TaskOrder { agent, iteration: facts.iteration, text }
        });
        for task in &facts.about {
            let record = self.reports.tasks.entry(task.clone()).or_default();
            if let Some(order) = &order {
                record.orders.truncate(1);
                record.orders.push(order.clone());
            }
            record.take(facts, outcome, seq, rules);
        }
        match outcome {
            Outcome::Pass => self.settle_findings(facts, rules),
            Outcome::Fail | Outcome::Blocked => self.open_findings(facts, seq, rules),
        }
    }

    /// A pass is work on the findings about its tasks, and settles them if a verifier gave it.
    fn settle_findings(&mut self, facts: &ReportFacts, rules: &Rules<'_>) {
        let policy = &rules.pack.policy;
        let is_verifier = policy.plan.verified_by.contains(&facts.agent);
        let is_about = |finding: &Finding| finding.tasks.iter().any(|id| facts.about.contains(id));
        for finding in self.reports.findings.iter_mut().filter(|finding| is_about(finding)) {
            let settlers = policy.routing.settled_by.get(&finding.class);
            finding.is_worked |= settlers.is_some_and(|agents| agents.contains(&facts.agent));
        }
        self.reports.findings.retain(|finding| {
            let needs_work = policy.routing.settled_by.contains_key(&finding.class);
            !(is_verifier && is_about(finding) && (finding.is_worked || !needs_work))
        });
    }

    /// The blockers of a report that did not pass. It repeats what still holds of the agent's older
    /// ones; but a finding that no agent has worked on does not leave with it.
    fn open_findings(&mut self, facts: &ReportFacts, seq: u64, rules: &Rules<'_>) {
        let routing = &rules.pack.policy.routing;
        let findings = &mut self.reports.findings;
        for finding in findings.iter_mut().filter(|finding| finding.agent == facts.agent) {
            if finding.is_worked || !routing.settled_by.contains_key(&finding.class) {
                finding.tasks.retain(|id| !facts.about.contains(id));
            }
        }
        findings.retain(|finding| !finding.tasks.is_empty());
        for (index, (blocker, class)) in facts.blockers.iter().zip(&facts.classes).enumerate() {
            let text = text::cut(blocker, FINDING).into_owned();
            let is_known = |own: &Finding| own.agent == facts.agent && own.text == text;
            if facts.about.is_empty()
                || findings.iter().any(is_known)
                || findings.len() >= MOST_FINDINGS
            {
                continue;
            }
            let tasks = facts.blocker_tasks.get(index).filter(|own| !own.is_empty());
            findings.push(Finding {
                tasks: tasks.unwrap_or(&facts.about).clone(),
                agent: facts.agent.clone(),
                iteration: facts.iteration,
                class: class.clone(),
                text,
                is_worked: false,
                seq,
            });
        }
    }

    /// The open findings about a task.
    fn findings_about<'a>(&'a self, task: &'a str) -> impl Iterator<Item = &'a Finding> {
        self.reports.findings.iter().filter(move |finding| finding.is_about(task))
    }

    /// The reason why a task may not get the final status now.
    pub(super) fn unproved(&self, task: &Task, rules: &Rules<'_>) -> Option<String> {
        let language = rules.pack.words();
        let verifiers = &rules.pack.policy.plan.verified_by;
        let record = self.reports.tasks.get(&task.id);
        let verdicts = record.into_iter().flat_map(|record| &record.verdicts);
        let judged = verdicts.filter(|(agent, _)| verifiers.contains(agent));
        let Some((agent, newest)) = judged.max_by_key(|(_, verdict)| verdict.seq) else {
            let verifiers: Vec<&str> = verifiers.iter().map(AgentName::as_str).collect();
            return Some(language.task_not_judged(language.list(&verifiers)));
        };
        if newest.outcome != Outcome::Pass {
            return Some(language.task_did_not_pass(agent, &newest.word, newest.iteration));
        }
        self.findings_about(&task.id).next().map(|open| open.told(rules))
    }

    /// The reason why `next` may not run: a task that `work.of` worked on was not judged since.
    pub(super) fn unjudged_work(
        &self,
        next: &AgentName,
        work: &JudgedWork,
        tasks: &[Task],
        rules: &Rules<'_>,
    ) -> Option<String> {
        let language = rules.pack.words();
        let JudgedWork { agent, of } = work;
        let (seq, newest) = self.reports.newest.get(of)?;
        // What passed in an earlier run was judged there, or not: this run does not know.
        if *seq == 0 {
            return None;
        }
        // Work on no task at all could never be judged.
        if newest.outcome == Some(Outcome::Pass) && newest.about.is_empty() {
            return Some(language.work_names_no_task(next, agent, of));
        }
        tasks.iter().find_map(|task| {
            let verdicts = &self.reports.tasks.get(&task.id)?.verdicts;
            let work = verdicts.get(of).filter(|own| own.outcome == Outcome::Pass)?;
            match verdicts.get(agent).filter(|judged| judged.seq > work.seq) {
                Some(judged) if judged.outcome == Outcome::Pass => None,
                Some(judged) => {
                    Some(language.work_did_not_pass(next, agent, &task.id, &judged.word))
                }
                None => {
                    let iteration = work.iteration;
                    Some(language.work_not_judged(next, agent, &task.id, of, iteration))
                }
            }
        })
    }

    /// The reason why an agent may not run while something that was found about a task is open.
    pub(super) fn unsettled(
        &self,
        next: &AgentName,
        tasks: &[Task],
        rules: &Rules<'_>,
    ) -> Option<String> {
        let routing = &rules.pack.policy.routing;
        if !routing.needs_settled.contains(next) {
            return None;
        }
        let settles = |finding: &Finding| {
            routing.settled_by.get(&finding.class).is_some_and(|agents| agents.contains(next))
        };
        tasks.iter().find_map(|task| {
            let open = self.findings_about(&task.id).find(|finding| !settles(finding))?;
            let language = rules.pack.words();
            Some(language.not_while_open(next, &task.id, open.told(rules)))
        })
    }

    /// The open finding because of which a plan may not drop a task. After an answer of the user that
    /// came later than the finding, it may.
    pub(super) fn undroppable(&self, task: &str, rules: &Rules<'_>) -> Option<String> {
        let answered = self.reports.answered;
        let open = self.findings_about(task).find(|finding| finding.seq > answered)?;
        Some(open.told(rules))
    }

    /// The tasks with their verdicts and open findings, a line each, for prompts.
    pub fn task_lines(&self, tasks: &[Task], language: Language) -> Vec<String> {
        let mut lines = Vec::new();
        for task in tasks {
            let Some(record) = self.reports.tasks.get(&task.id) else { continue };
            let mut verdicts: Vec<(&AgentName, &TaskVerdict)> = record.verdicts.iter().collect();
            verdicts.sort_by_key(|(_, verdict)| verdict.seq);
            let told: Vec<String> = verdicts
                .iter()
                .map(|(agent, verdict)| match &verdict.subject {
                    Some(subject) => language.verdict_with_subject(
                        agent,
                        &verdict.word,
                        verdict.iteration,
                        subject,
                    ),
                    None => language.verdict_in(agent, &verdict.word, verdict.iteration),
                })
                .collect();
            lines.push(format!("{}: {}", task.id, told.join(language.separator())));
        }
        lines.extend(self.findings_of(tasks, language));
        lines
    }

    /// The open findings about these tasks. What is in the newest report of its agent is only counted:
    /// prompts have that report, with its blockers uncut.
    fn findings_of(&self, tasks: &[Task], language: Language) -> Vec<String> {
        let is_newest = |finding: &Finding| {
            self.reports.newest.get(&finding.agent).is_some_and(|(seq, _)| *seq == finding.seq)
        };
        let all = self.findings_on(tasks);
        let mut counts: BTreeMap<(&AgentName, Iteration), (usize, usize)> = BTreeMap::new();
        for finding in all.iter().filter(|finding| is_newest(finding)) {
            let (count, worked) = counts.entry((&finding.agent, finding.iteration)).or_default();
            *count += 1;
            *worked += usize::from(finding.is_worked);
        }
        let counted = counts.into_iter().map(|((agent, iteration), (count, worked))| {
            format!("- {}", language.findings_in_report(agent, iteration, count, worked))
        });
        let older = all.iter().filter(|finding| !is_newest(finding));
        counted.chain(older.map(|finding| finding.line(language))).collect()
    }

    /// The open findings about any of these tasks, each once.
    pub(super) fn findings_on(&self, tasks: &[Task]) -> Vec<&Finding> {
        let is_one = |finding: &&Finding| tasks.iter().any(|task| finding.is_about(&task.id));
        self.reports.findings.iter().filter(is_one).collect()
    }

    /// True if an agent did not pass a task, and what it found about it has been worked on: a report
    /// about several tasks also returns those in which it found nothing.
    pub(super) fn waits_for(&self, agent: &AgentName, task: &Task) -> bool {
        let verdict = self.reports.tasks.get(&task.id).and_then(|own| own.verdicts.get(agent));
        let is_returned = verdict.is_some_and(|verdict| verdict.outcome != Outcome::Pass);
        is_returned && self.findings_about(&task.id).all(|finding| finding.is_worked)
    }

    /// Open findings on which an agent can work, and on which none has.
    pub(super) fn findings_for<'a>(
        &'a self,
        agent: &'a AgentName,
        rules: &'a Rules<'_>,
    ) -> impl Iterator<Item = &'a Finding> {
        let settled_by = &rules.pack.policy.routing.settled_by;
        self.reports.findings.iter().filter(move |finding| {
            let settlers = settled_by.get(&finding.class);
            !finding.is_worked && settlers.is_some_and(|agents| agents.contains(agent))
        })
    }

    /// The first and the last order of MAIN about these tasks, each once, in their order.
    pub(super) fn orders_about(&self, tasks: &[Task]) -> Vec<&TaskOrder> {
        let records = tasks.iter().filter_map(|task| self.reports.tasks.get(&task.id));
        let mut orders: Vec<&TaskOrder> = records.flat_map(|record| &record.orders).collect();
        orders.sort_by_key(|order| order.iteration);
        orders.dedup();
        orders
    }
}

impl TaskRecord {
    fn take(&mut self, facts: &ReportFacts, outcome: Outcome, seq: u64, rules: &Rules<'_>) {
        // What a verifier judged tells which parts of a task hold; what others made is in their reports.
        let is_verifier = rules.pack.policy.plan.verified_by.contains(&facts.agent);
        let subject = facts.subject.as_ref().filter(|_| is_verifier);
        let subject = subject.map(|own| text::cut(own, SUBJECT).into_owned());
        let word = facts.verdict.clone().unwrap_or_default();
        let verdict = TaskVerdict { seq, iteration: facts.iteration, outcome, word, subject };
        self.verdicts.insert(facts.agent.clone(), verdict);
    }
}

impl Finding {
    fn is_about(&self, task: &str) -> bool {
        self.tasks.iter().any(|own| own == task)
    }

    /// As a line of a list: its tasks, who found it, whether anybody has worked on it.
    pub(super) fn line(&self, language: Language) -> String {
        let Finding { agent, iteration, text, is_worked, tasks, .. } = self;
        let ids = language.list(tasks);
        let line = match is_worked {
            true => language.worked_finding(ids, agent, iteration, text),
            false => language.open_finding(ids, agent, iteration, text),
        };
        format!("- {line}")
    }

    /// The finding, and who has to work on it where the policy says so.
    fn told(&self, rules: &Rules<'_>) -> String {
        let language = rules.pack.words();
        let Finding { agent, iteration, text, class, .. } = self;
        let text = text::shown(text, 200);
        match rules.pack.policy.routing.settled_by.get(class) {
            Some(settlers) if !self.is_worked && class != UNKNOWN_CLASS => {
                let settlers: Vec<&str> = settlers.iter().map(AgentName::as_str).collect();
                let settlers = settlers.join(language.or());
                language.finding_needs_work(agent, iteration, text, settlers)
            }
            _ => language.finding_is_open(agent, iteration, text),
        }
    }
}
