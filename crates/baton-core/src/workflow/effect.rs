//! The files of the blackboard that follow from an event. `State::apply` returns them, the runtime
//! writes them. Each can be written twice: after a crash those of the last event are written again.

use super::judge::plan_hash;
use super::{Job, Rules, State};
use crate::decision::{PlanChange, Question};
use crate::event::{ArchivedPlan, Asker, HistoryText, RunStarted};
use crate::id::{AgentName, Iteration};
use crate::plan::{Finality, Plan};
use crate::policy::{Outcome, PlanRules, UNKNOWN_CLASS};
use crate::problem::Problem;
use crate::report::{self, Blocker, Report, Verdict};
use crate::text;

/// A change of the blackboard. Paths of reports are relative to its root.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    AppendHistory(HistoryText),
    /// The user's words.
    WriteTask(String),
    /// Puts the plan of an earlier task aside.
    ArchivePlan(ArchivedPlan),
    EditPlan(Box<PlanEdit>),
    /// Every report is kept, accepted or refused.
    ArchiveReport {
        path: String,
        text: String,
    },
    PublishReport {
        path: String,
        text: String,
    },
    /// Keeps the project notes of a report for the agents that follow.
    KeepNotes {
        agent: AgentName,
        iteration: Iteration,
        report: String,
    },
    WriteQuestion {
        question: Question,
        by: Asker,
        asked_seq: u64,
    },
    RemoveQuestion,
    LockSubloop,
    /// The progress of a sub-loop, for other readers.
    WriteSubloopState(SubloopState),
    /// The last pair of reports becomes the standard one; the files of the sub-loop are removed.
    EndSubloop {
        tester: AgentName,
        fixer: AgentName,
        most: u32,
    },
}

/// A sub-loop that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubloopState {
    pub tester: AgentName,
    pub fixer: AgentName,
    pub iteration: Iteration,
    pub number: u32,
    pub reason: String,
}

/// The change of a plan that MAIN decided, for the plan that it knew.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanEdit {
    /// The hash of that plan's text.
    pub before: String,
    pub change: PlanChange,
    pub rules: PlanRules,
}

impl PlanEdit {
    /// The new text. `None` for a plan that is not the one of the decision: it was edited by the user
    /// since, or has been changed already.
    pub fn applied_to(&self, text: &str) -> Result<Option<String>, Vec<Problem>> {
        if plan_hash(text) != self.before {
            return Ok(None);
        }
        // The decision was judged before it was recorded.
        let allowed = &Finality::Allowed;
        let old = Plan::read(text, &self.rules);
        let applied = match &self.change {
            PlanChange::None => return Ok(None),
            PlanChange::Update(statements, _) => old?.updated(statements, &self.rules, allowed)?,
            PlanChange::Replace(new) => match old {
                Ok(old) => old.replaced(new, &self.rules, allowed)?,
                Err(_) => Plan::read("", &self.rules)?.replaced(new, &self.rules, allowed)?,
            },
        };
        Ok(Some(applied.plan.text().to_owned()))
    }
}

impl RunStarted {
    /// The files that a new run begins with.
    pub fn effects(&self) -> Vec<Effect> {
        let task = format!("{}\n", self.task.trim_end());
        let mut effects = vec![Effect::AppendHistory(self.entry.clone()), Effect::WriteTask(task)];
        effects.extend(self.archived_plan.clone().map(Effect::ArchivePlan));
        effects
    }
}

impl State {
    pub(super) fn archive(&self, job: &Job, report: &str) -> Effect {
        let path = format!("reports/archive/{}", self.archive_name(job).file());
        Effect::ArchiveReport { path, text: report.to_owned() }
    }

    /// An accepted report. `overturned`: why its pass does not count.
    pub(super) fn publish(
        &self,
        job: &Job,
        report: &str,
        overturned: Option<&str>,
        rules: &Rules<'_>,
    ) -> Vec<Effect> {
        let published = match overturned {
            Some(why) => self.publish_overturned(job, why, "", rules),
            None => {
                let text = text::without_fence(report).trim_start_matches('\n').to_owned();
                Effect::PublishReport { path: report_path(job), text }
            }
        };
        let agent = job.agent.clone();
        let notes =
            Effect::KeepNotes { agent, iteration: self.iteration, report: report.to_owned() };
        let mut effects = vec![published, notes];
        if let (Some(number), Some(sub)) = (job.subloop, &self.current.subloop) {
            effects.extend(self.subloop_state(number, &sub.reason, rules));
        }
        effects
    }

    /// A pass that does not count is published as the failure that it is. `output`: the evidence.
    pub(super) fn publish_overturned(
        &self,
        job: &Job,
        why: &str,
        output: &str,
        rules: &Rules<'_>,
    ) -> Effect {
        let words = &rules.pack.policy.report_rules;
        let class = words.classify(why).map_or(String::new(), |class| format!("[{class}] "));
        let report = Report {
            agent: job.agent.clone(),
            iteration: self.iteration,
            verdict: Some(Verdict {
                word: words.verdict_fail.first().to_owned(),
                outcome: Outcome::Fail,
            }),
            blockers: vec![Blocker {
                class: UNKNOWN_CLASS.to_owned(),
                text: format!("{class}{}", text::shown(why, 400)),
            }],
        };
        let mut published = report::render(&report, words);
        let path = format!("reports/archive/{}", self.archive_name(job).file());
        published.push_str(&format!(
            "\n{}\n",
            rules.pack.words().verdict_overturned(&job.agent, why, path)
        ));
        if !output.is_empty() {
            let fence = text::fence_for(output);
            published.push_str(&format!("\n{fence}\n{}\n{fence}\n", text::stripped(output)));
        }
        Effect::PublishReport { path: report_path(job), text: published }
    }

    pub(super) fn subloop_state(
        &self,
        number: u32,
        reason: &str,
        rules: &Rules<'_>,
    ) -> Option<Effect> {
        let subloop = rules.pack.policy.subloop.as_ref()?;
        Some(Effect::WriteSubloopState(SubloopState {
            tester: subloop.tester.clone(),
            fixer: subloop.fixer.clone(),
            iteration: self.iteration,
            number,
            reason: reason.to_owned(),
        }))
    }
}

fn report_path(job: &Job) -> String {
    let stem = job.agent.file_stem();
    match job.subloop {
        Some(number) => format!("reports/report_{stem}_subloop_{number}.md"),
        None => format!("reports/report_{stem}.md"),
    }
}
