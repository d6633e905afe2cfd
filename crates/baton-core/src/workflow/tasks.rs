//! What is known about each task of the plan: the newest verdict of each agent about it, and what was
//! found about it and is still open. A verdict is about the tasks that its report names as its
//! subject, so that a pass of one task says nothing about another.
//!
//! A finding opens with a report that did not pass. It is settled by the pass of a verifier about the
//! same task; where the policy names who must work on findings of its class (`routing.settled_by`),
//! only after one of these agents worked on the task with success.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::judge::names;
use super::{Rules, State};
use crate::event::{DecidedBy, ReportFacts};
use crate::id::{AgentName, FINISH_REVIEW, Iteration};
use crate::messages::Language;
use crate::plan::Task;
use crate::policy::{JudgedWork, Outcome, UNKNOWN_CLASS};
use crate::text;

/// Open findings about one task; more of them are one finding too many to be listed.
const MOST_FINDINGS: usize = 40;
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
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
    pub agent: AgentName,
    pub iteration: Iteration,
    pub class: String,
    pub text: String,
    /// Somebody who can settle it has worked on the task since, with success.
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
            record.take(task, facts, outcome, seq, rules);
        }
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
        let open = record.and_then(|record| record.findings.first())?;
        Some(open.told(rules))
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
            let record = self.reports.tasks.get(&task.id)?;
            let open = record.findings.iter().find(|finding| !settles(finding))?;
            let language = rules.pack.words();
            Some(language.not_while_open(next, &task.id, open.told(rules)))
        })
    }

    /// The open finding because of which a plan may not drop a task. After an answer of the user that
    /// came later than the finding, it may.
    pub(super) fn undroppable(&self, task: &str, rules: &Rules<'_>) -> Option<String> {
        let findings = &self.reports.tasks.get(task)?.findings;
        let answered = self.reports.answered;
        let open = findings.iter().find(|finding| finding.seq > answered)?;
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

    /// The open findings about these tasks, each once. What is in the newest report of its agent is
    /// only counted: prompts have that report, with its blockers uncut.
    pub(super) fn findings_of(&self, tasks: &[Task], language: Language) -> Vec<String> {
        let is_newest = |finding: &Finding| {
            self.reports.newest.get(&finding.agent).is_some_and(|(seq, _)| *seq == finding.seq)
        };
        let all = self.open_findings(tasks);
        let mut counts: BTreeMap<(&AgentName, Iteration), (usize, usize)> = BTreeMap::new();
        for (finding, _) in all.iter().filter(|(finding, _)| is_newest(finding)) {
            let (count, worked) = counts.entry((&finding.agent, finding.iteration)).or_default();
            *count += 1;
            *worked += usize::from(finding.is_worked);
        }
        let counted = counts.into_iter().map(|((agent, iteration), (count, worked))| {
            language.findings_in_report(agent, iteration, count, worked)
        });
        let older = all.iter().filter(|(finding, _)| !is_newest(finding)).map(|(finding, ids)| {
            let Finding { agent, iteration, text, is_worked, .. } = finding;
            let ids = language.list(ids);
            match is_worked {
                true => language.worked_finding(ids, agent, iteration, text),
                false => language.open_finding(ids, agent, iteration, text),
            }
        });
        counted.chain(older).map(|line| format!("- {line}")).collect()
    }

    /// The first and the last order of MAIN about these tasks, each once, in their order.
    pub(super) fn orders_about(&self, tasks: &[Task]) -> Vec<&TaskOrder> {
        let records = tasks.iter().filter_map(|task| self.reports.tasks.get(&task.id));
        let mut orders: Vec<&TaskOrder> = records.flat_map(|record| &record.orders).collect();
        orders.sort_by_key(|order| order.iteration);
        orders.dedup();
        orders
    }

    /// The open findings about these tasks, each with the tasks that it is about.
    fn open_findings<'a>(&'a self, tasks: &'a [Task]) -> Vec<(&'a Finding, Vec<&'a str>)> {
        let mut about: Vec<(&Finding, Vec<&str>)> = Vec::new();
        for task in tasks {
            let record = self.reports.tasks.get(&task.id);
            for finding in record.into_iter().flat_map(|record| &record.findings) {
                let is_same = |own: &&mut (&Finding, Vec<&str>)| {
                    own.0.seq == finding.seq && own.0.text == finding.text
                };
                match about.iter_mut().find(is_same) {
                    Some((_, ids)) => ids.push(&task.id),
                    None => about.push((finding, vec![&task.id])),
                }
            }
        }
        about
    }
}

impl TaskRecord {
    fn take(
        &mut self,
        task: &str,
        facts: &ReportFacts,
        outcome: Outcome,
        seq: u64,
        rules: &Rules<'_>,
    ) {
        let policy = &rules.pack.policy;
        let word = facts.verdict.clone().unwrap_or_default();
        let subject = facts.subject.as_ref().map(|own| text::cut(own, SUBJECT).into_owned());
        let verdict = TaskVerdict { seq, iteration: facts.iteration, outcome, word, subject };
        self.verdicts.insert(facts.agent.clone(), verdict);
        if outcome == Outcome::Pass {
            for finding in &mut self.findings {
                let settlers = policy.routing.settled_by.get(&finding.class);
                finding.is_worked |= settlers.is_some_and(|agents| agents.contains(&facts.agent));
            }
            let is_verifier = policy.plan.verified_by.contains(&facts.agent);
            self.findings.retain(|finding| {
                let needs_work = policy.routing.settled_by.contains_key(&finding.class);
                !is_verifier || needs_work && !finding.is_worked
            });
            return;
        }
        // A newer report says again what still holds of the older one; but what nobody has worked on
        // does not leave with it.
        self.findings.retain(|finding| {
            let needs_work = policy.routing.settled_by.contains_key(&finding.class);
            finding.agent != facts.agent || needs_work && !finding.is_worked
        });
        for (blocker, class) in facts.blockers.iter().zip(&facts.classes) {
            // One that names a task is about that task alone.
            let named = |id: &&String| names(blocker, id);
            if facts.about.iter().any(|id| named(&id)) && !names(blocker, task) {
                continue;
            }
            let text = text::cut(blocker, FINDING).into_owned();
            let is_known =
                self.findings.iter().any(|own| own.agent == facts.agent && own.text == text);
            if is_known || self.findings.len() >= MOST_FINDINGS {
                continue;
            }
            self.findings.push(Finding {
                agent: facts.agent.clone(),
                iteration: facts.iteration,
                class: class.clone(),
                text,
                is_worked: false,
                seq,
            });
        }
    }
}

impl Finding {
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
