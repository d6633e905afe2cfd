//! Files that a user must have approved before an agent runs. An answer holds for the content that the
//! files had when the question was asked: they are looked at before the agent begins, and once more
//! before what it made is evaluated.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{Answer, Job, Phase, Rules, State, Transition};
use crate::decision::{Choice, Question};
use crate::event::{Asker, FilesSeen};
use crate::id::{AgentName, Timestamp};
use crate::messages::Language;
use crate::policy::{Approval, SCENARIO};
use crate::text;

/// The option that agrees.
pub const APPROVE: &str = "approve";
/// The option that sends the files back, with a comment.
pub const CHANGE: &str = "change";
/// Characters that a user may write with an answer.
pub const MOST_COMMENT: usize = 8_000;
/// Answers that a run remembers.
const MOST_CHANGES: usize = 50;

/// The user's approvals so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Approvals {
    /// The content that was approved, and when.
    pub approved: Option<(String, Timestamp)>,
    /// The files are what was approved; holds until the next stage ends.
    pub is_seen: bool,
    /// Who waits for the answer, and for which content it will hold.
    pub pending: Option<(Job, String)>,
    /// Every answer so far, the newest last.
    pub answers: Vec<ApprovalAnswer>,
}

/// One round of the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    pub iteration: u32,
    pub time: Timestamp,
    pub choice: String,
    pub comment: String,
}

impl Approval {
    /// The files of a scenario, by name.
    pub fn files_of(&self, scenario: &str) -> IndexMap<String, String> {
        let files = self.files.iter();
        files.map(|(name, file)| (name.clone(), file.replace(SCENARIO, scenario))).collect()
    }

    fn question(&self, seen: &FilesSeen, language: Language) -> Question {
        let files: Vec<String> = (seen.files.iter())
            .map(|file| language.file_to_approve(&file.path, file.bytes, short(&file.digest)))
            .collect();
        let option = |id: &str, description: &str| Choice {
            option_id: id.to_owned(),
            description: description.to_owned(),
        };
        Question {
            title: self.texts.title.clone(),
            text: self.texts.text.replace("{files}", &files.join("\n")),
            options: vec![option(APPROVE, &self.texts.approve), option(CHANGE, &self.texts.change)],
            recommended_option_id: None,
        }
    }
}

fn short(digest: &str) -> &str {
    &digest[..digest.floor_char_boundary(12)]
}

impl State {
    /// Whether the files must be looked at before this work.
    pub(super) fn unseen<'a>(&self, agent: &AgentName, rules: &Rules<'a>) -> Option<&'a Approval> {
        let approval = rules.pack.policy.approval.as_ref();
        approval.filter(|own| own.before == *agent && !self.acceptance.approvals.is_seen)
    }

    /// The files were looked at, before work or before it is evaluated.
    pub(super) fn on_files_seen(
        &mut self,
        phase: Phase,
        seen: &FilesSeen,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let Phase::Work { job } = phase else {
            return self.on_files_seen_at_gate(phase, seen, at);
        };
        let approval = self.unseen(&job.agent, &at.rules)?;
        let language = at.rules.pack.words();
        if !seen.missing.is_empty() {
            let missing = language.list(&seen.missing);
            let why = language.files_not_approved(text::cut(&missing, 500));
            self.current.failure = Some(format!("{}: {why}", job.agent));
            self.acceptance.must_next = Some((approval.changes_to.clone(), why));
            return Some(Phase::Record);
        }
        if self.is_approved(seen) {
            self.acceptance.approvals.is_seen = true;
            return Some(Phase::Work { job });
        }
        self.acceptance.approvals.pending = Some((job, seen.digest.clone()));
        Some(Phase::Ask { question: approval.question(seen, language), by: Asker::Approval })
    }

    /// Whether exactly this was approved.
    pub fn is_approved(&self, seen: &FilesSeen) -> bool {
        let approved = self.acceptance.approvals.approved.as_ref();
        seen.missing.is_empty() && approved.is_some_and(|(digest, _)| *digest == seen.digest)
    }

    pub(super) fn has_pending_approval(&self, rules: &Rules<'_>) -> bool {
        rules.pack.policy.approval.is_some() && self.acceptance.approvals.pending.is_some()
    }

    pub(super) fn on_approval_answered(
        &mut self,
        answer: Answer,
        at: &Transition<'_>,
    ) -> Option<Phase> {
        let time = at.time;
        let approval = at.rules.pack.policy.approval.as_ref()?;
        let (job, digest) = self.acceptance.approvals.pending.take()?;
        let said = ApprovalAnswer {
            iteration: self.iteration.0,
            time,
            choice: answer.option_id.clone(),
            comment: answer.comment.clone(),
        };
        self.acceptance.approvals.answers.push(said);
        let over = self.acceptance.approvals.answers.len().saturating_sub(MOST_CHANGES);
        self.acceptance.approvals.answers.drain(..over);
        let is_approved = answer.option_id == APPROVE;
        if is_approved {
            let was = self.acceptance.approvals.approved.as_ref().map(|(digest, _)| digest);
            if was != Some(&digest) {
                // Figures of other files say nothing about these.
                self.acceptance.evaluations.clear();
            }
            self.acceptance.approvals.approved = Some((digest, time));
        } else {
            // A wish takes back what was approved before.
            self.acceptance.approvals.approved = None;
            let why = at.rules.pack.words().user_wants_changes();
            self.acceptance.must_next = Some((approval.changes_to.clone(), why));
        }
        self.current.answer = Some(answer);
        // Approved or not, what is there now is looked at again before anything runs.
        Some(if is_approved { Phase::Work { job } } else { Phase::Record })
    }

    /// The changes that the user wants, until the agent has reported.
    pub fn wishes(&self, agent: &AgentName, rules: &Rules<'_>) -> Option<&str> {
        let approval = rules.pack.policy.approval.as_ref()?;
        let last = self.acceptance.approvals.answers.last().filter(|own| own.choice == CHANGE)?;
        let is_due = self.acceptance.must_next.as_ref().is_some_and(|(own, _)| own == agent);
        (approval.changes_to == *agent && is_due).then_some(last.comment.as_str())
    }
}
