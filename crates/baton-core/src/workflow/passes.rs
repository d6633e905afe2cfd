//! Passes that count. A pass is about the project as it was when it was given: it counts only in its
//! own run, and only while the files that it was given for are unchanged. Files are compared by
//! whoever drives the run; the results arrive here with the events of the stages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Rules, State};
use crate::event::{ProjectCheck, ReportFacts, StageEnded, StageStarted};
use crate::id::AgentName;
use crate::messages::Language;
use crate::policy::Outcome;

/// The snapshots that passes are compared with, and the results of the last comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Passes {
    /// The project at the first look of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// The project at the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// The project after the last stage that may write, and the number of that event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<(u64, String)>,
    /// The last stage of each agent that changed the project, by the number of its end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    writers: BTreeMap<AgentName, u64>,
    /// The project that the newest report of each agent is about.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judged: BTreeMap<AgentName, Reference>,
    /// The project that the current stage's report will be about.
    #[serde(default)]
    current: Reference,
    /// Files that changed while the current stage ran, which may not write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    voiding: Vec<String>,
    /// Agents whose pass no longer counts, with the files that changed after it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub void: BTreeMap<AgentName, Vec<String>>,
    /// Writing agents of whose own files some changed after their pass, with these files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reworked: BTreeMap<AgentName, Vec<String>>,
}

/// The project of a report: before its stage, and at the moment that the report is about. That is the
/// end of a stage that may write, and the start of any other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reference {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl State {
    /// `is_new`: the stage does not correct a refused answer.
    pub(super) fn look_at_start(
        &mut self,
        started: &StageStarted,
        is_new: bool,
        language: Language,
    ) {
        let passes = &mut self.reports.passes;
        if is_new {
            passes.current = Reference { before: started.snapshot.clone(), at: None };
            passes.voiding.clear();
        }
        let check = started.project.as_deref();
        let now = check.map(|check| &check.snapshot).or(started.snapshot.as_ref());
        if passes.first.is_none() {
            passes.first = now.cloned();
        }
        self.look(check, language);
    }

    /// An agent's stage ended.
    pub(super) fn look_at_end(&mut self, ended: &StageEnded, is_new: bool, seq: u64, writes: bool) {
        let passes = &mut self.reports.passes;
        if writes {
            // A correction without changes is about the project that was judged.
            if is_new || !ended.changed.is_empty() {
                passes.current.at.clone_from(&ended.snapshot);
            }
            // Without a snapshot it is not known whether anything changed.
            if ended.snapshot.is_none() || !ended.changed.is_empty() {
                passes.writers.insert(ended.stage.name.clone(), seq);
            }
            if let Some(snapshot) = &ended.snapshot {
                passes.written = Some((seq, snapshot.clone()));
            }
        } else if passes.current.at.is_none() {
            passes.current.at.clone_from(&passes.current.before);
        }
        passes.voiding.extend(ended.voiding.iter().cloned());
        if ended.snapshot.is_some() {
            passes.seen.clone_from(&ended.snapshot);
        }
    }

    /// Takes over a comparison of the project.
    pub(super) fn look(&mut self, check: Option<&ProjectCheck>, language: Language) {
        let Some(check) = check else { return };
        self.reports.passes.seen = Some(check.snapshot.clone());
        self.reports.passes.void.clone_from(&check.void);
        self.reports.passes.reworked.clone_from(&check.reworked);
        self.current.notes.extend(check.line_in(language));
    }

    /// A report was accepted: it is about the project of its stage.
    pub(super) fn judged_project(&mut self, agent: &AgentName) {
        self.reports.passes.void.remove(agent);
        self.reports.passes.reworked.remove(agent);
        self.reports.passes.judged.insert(agent.clone(), self.reports.passes.current.clone());
    }

    /// The reason why a pass of the current stage does not count.
    pub(super) fn unexpected_change(
        &self,
        agent: &AgentName,
        language: Language,
    ) -> Option<String> {
        let files = &self.reports.passes.voiding;
        (!files.is_empty()).then(|| language.changed_during(agent, language.list(files)))
    }

    /// The agents that passed in this run, with the number of the event and the project of the pass.
    pub fn passes_given(&self) -> impl Iterator<Item = (&AgentName, u64, &Reference)> {
        self.reports.newest.iter().filter_map(|(agent, (seq, facts))| {
            let is_pass = *seq > 0 && facts.outcome == Some(Outcome::Pass);
            Some((agent, *seq, self.reports.passes.judged.get(agent)?)).filter(|_| is_pass)
        })
    }

    /// The newest report of an agent if it is a pass that counts; if not, the reason.
    pub fn counted_pass(
        &self,
        agent: &AgentName,
        language: Language,
    ) -> Result<&ReportFacts, String> {
        let Some((seq, facts)) = self.reports.newest.get(agent).filter(|(seq, _)| *seq > 0) else {
            return Err(language.no_report_of(agent));
        };
        let iteration = facts.iteration;
        if facts.outcome != Some(Outcome::Pass) {
            let verdict = facts.verdict.clone().unwrap_or_else(|| language.no_verdict());
            return Err(language.newest_did_not_pass(agent, verdict, iteration));
        }
        let is_compared = self.is_compared(agent);
        let writers = if is_compared { &self.reports.passes.writers } else { &self.reports.wrote };
        let later = writers.iter().filter(|(_, wrote)| **wrote > *seq);
        let later = later.max_by_key(|(_, wrote)| **wrote).map(|(writer, _)| writer);
        let changed = match (self.reports.passes.void.get(agent), later) {
            (Some(files), Some(writer)) => language.wrote_files_after(writer, language.list(files)),
            (Some(files), None) => language.changed_after(language.list(files)),
            (None, Some(writer)) if !is_compared => language.wrote_after(writer),
            (None, _) => return Ok(facts),
        };
        Err(language.passed_but(agent, iteration, changed))
    }

    /// True if the project of the newest report is known; some journals of 0.1 do not have it.
    fn is_compared(&self, agent: &AgentName) -> bool {
        self.reports.passes.judged.get(agent).is_some_and(|reference| reference.at.is_some())
    }

    /// The reason why a pass of `needed` no longer lets `next` run: what was judged has changed. Of an
    /// agent that writes that are the files which it wrote; of any other, all files except those that
    /// `next` wrote itself.
    pub(super) fn stale_pass(
        &self,
        next: &AgentName,
        needed: &AgentName,
        rules: &Rules<'_>,
    ) -> Option<String> {
        let (seq, facts) = self.reports.newest.get(needed).filter(|(seq, _)| *seq > 0)?;
        let language = rules.pack.words();
        let changed = if rules.writes(needed) {
            let files = self.reports.passes.reworked.get(needed)?;
            language.own_files_changed_after(language.list(files))
        } else {
            let is_later = |(own, wrote): &(&AgentName, &u64)| **wrote > *seq && *own != next;
            let (writer, _) = self.reports.passes.writers.iter().find(is_later)?;
            language.wrote_after(writer)
        };
        Some(language.not_after_stale_pass(next, needed, facts.iteration, changed))
    }
}
