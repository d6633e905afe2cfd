//! The files that an event means. Each can be made again: what is there already is left as it is, and
//! what a crash cut off is finished.

use std::collections::BTreeMap;

use baton_core::event::{
    ArchivedPlan, Event, HistoryText, LedgerSection, LedgerSummary, PromptLedger, ReportFacts,
};
use baton_core::id::{AgentName, FINISH_REVIEW, Iteration};
use baton_core::messages::Language;
use baton_core::notes;
use baton_core::prompt::{Correction, Prompt};
use baton_core::report::{self, Expected};
use baton_core::summary::Summary;
use baton_core::workflow::{Effect, PlanEdit, SubloopState, explained, facts_of, plan_hash};
use serde_json::json;

use super::{Drive, Error, Notice};
use crate::board::{Board, HISTORY_FILE, NOTES_FILE, PLAN_FILE, TASK_FILE};
use crate::load;
use crate::store::Disk;
use crate::summaries::Asked;

const SUBLOOP_STATE: &str = "state/subloop_state.json";
const SUBLOOP_LOCK: &str = "state/subloop.lock";
const QUESTION: &str = "state/question.json";
/// How the last process left the blackboard; only to name what changed since.
const LEFT: &str = "cache/left.json";

/// Digests of the blackboard's files when a process left a run in order.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Left {
    pub(super) seq: u64,
    pub(super) board: BTreeMap<String, String>,
}

pub(super) fn leave(board: &Board, left: &Left) {
    // Without it, an edit is adopted all the same, and only not named.
    let path = board.root.join(LEFT);
    let _ = crate::store::json(&path, left)
        .and_then(|text| crate::store::write_new(&path, text.as_bytes()));
}

/// What was left behind the record of this number.
pub(super) fn left(board: &Board, seq: u64) -> Option<Left> {
    let text = load::text(&board.root.join(LEFT), load::SMALL).ok()?;
    serde_json::from_str(&text).ok().filter(|left: &Left| left.seq == seq)
}

/// The account of a prompt for the journal.
pub(super) fn ledger(
    words: Language,
    prompt: &Prompt,
    corrections: &[Correction],
    asked: &[Asked],
) -> PromptLedger {
    let of_prompt = prompt.sections.iter().map(|section| LedgerSection {
        name: section.name.clone(),
        level: section.level.map(u8::from),
        tokens: section.tokens.0,
        cut: section.cut.clone(),
    });
    let of_corrections = corrections.iter().map(|correction| LedgerSection {
        name: "correction".to_owned(),
        level: None,
        tokens: correction.tokens(words).0,
        cut: None,
    });
    let sections: Vec<LedgerSection> = of_prompt.chain(of_corrections).collect();
    let summaries = asked.iter().map(|own| LedgerSummary {
        agent: own.agent.to_string(),
        is_hit: own.is_hit,
        is_failure: own.is_failure,
    });
    PromptLedger {
        tokens: sections.iter().map(|section| section.tokens).sum(),
        bytes: prompt.sections.iter().map(|section| section.bytes as u64).sum(),
        limit: prompt.limit.0,
        sections,
        steps: prompt.steps.clone(),
        summaries: summaries.collect(),
    }
}

/// Nothing of a run that was given up may be taken for the next one's.
pub(super) fn clear_away(board: &Board, disk: &Disk) -> Result<(), Error> {
    for name in [SUBLOOP_STATE, SUBLOOP_LOCK, QUESTION] {
        disk.remove(&board.root.join(name))?;
    }
    if let Some(subloop) = &board.pack.policy.subloop {
        for agent in [&subloop.tester, &subloop.fixer] {
            for number in 1..=subloop.max {
                let name = format!("reports/report_{}_subloop_{number}.md", agent.file_stem());
                if board.root.join(&name).exists() {
                    disk.remove(&board.root.join(&name))?;
                }
            }
        }
    }
    disk.sweep(&board.root, super::start::SWEPT)?;
    Ok(())
}

/// Appends the last entry of a run that is over, if its process died before it could.
pub(super) fn complete_history(board: &Board, disk: &Disk, run: &str) -> Result<(), Error> {
    let looked = crate::journal::look(&super::journal_folder(board, run))?;
    let Some(entry) = looked.records.last().and_then(|record| record.event.history()) else {
        return Ok(());
    };
    let path = board.history_file();
    let there = match load::bytes(&path, crate::gather::HISTORY_BYTES) {
        Err(load::Error::Missing(_)) => Vec::new(),
        other => other?,
    };
    // A crash may have left a piece of it at the end.
    let from = usize::try_from(entry.at).unwrap_or(usize::MAX).min(there.len());
    if memchr::memmem::find(&there, entry.text.as_bytes()).is_some() {
        return Ok(());
    }
    let is_piece = is_left_of(entry.text.as_bytes(), &there[from..]);
    let at = if is_piece { from } else { there.len() };
    disk.append_at(&path, at as u64, entry.text.as_bytes())?;
    Ok(())
}

/// The first iteration that no run of the blackboard has begun: a run that was given up has reports
/// in the archive, but no entry in the history. A run without a record has begun none.
pub(super) fn iteration_after(board: &Board, runs: &[String]) -> Result<Iteration, Error> {
    for run in runs.iter().rev() {
        let looked = crate::journal::look(&super::journal_folder(board, run))?;
        if looked.state.is_none() && looked.records.is_empty() {
            continue;
        }
        let begun = looked.records.iter().filter_map(|record| match &record.event {
            Event::StageStarted(started) => Some(started.stage.iteration.0),
            _ => None,
        });
        let of_state = looked.state.as_ref().map_or(0, |state| state.iteration.0);
        let last = begun.max().unwrap_or(0).max(of_state.saturating_sub(1));
        let next = last.saturating_add(1).max(looked.start.first_iteration.0);
        return Ok(Iteration(next));
    }
    Ok(Iteration(1))
}

/// The plan's text; none is an empty one.
pub(super) fn plan(board: &Board) -> Result<String, load::Error> {
    match load::text(&board.plan_file(), baton_core::plan::MAX_BYTES) {
        Err(load::Error::Missing(_)) => Ok(String::new()),
        other => other,
    }
}

/// The plan that an earlier run left, unless it was changed since: a new task begins without it.
pub(super) fn plan_of_an_earlier_task(
    board: &Board,
    runs: &[String],
) -> Result<Option<ArchivedPlan>, Error> {
    let text = plan(board)?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    // A start that was given up before its first decision left the plan of the run before it.
    let left = runs.iter().rev().find_map(|run| Some((run, plan_left_by(board, run)?)));
    let Some((run, hash)) = left else { return Ok(None) };
    Ok((hash == plan_hash(&text)).then(|| ArchivedPlan {
        path: format!("memory/plans/{run}.md"),
        hash,
        new: format!(
            "{}\n\nThe plan of the earlier task: memory/plans/{run}.md\n",
            board.pack.dev_plan.trim_end()
        ),
    }))
}

/// The plan after the last decision of a run, as a hash.
fn plan_left_by(board: &Board, run: &str) -> Option<String> {
    // The plan of a run whose journal cannot be read is kept.
    let looked = crate::journal::look(&super::journal_folder(board, run)).ok()?;
    let decided = looked.records.iter().rev().find_map(|record| match &record.event {
        Event::Decided(decided) => Some(decided.plan_after.clone()),
        _ => None,
    });
    decided.or_else(|| looked.state.and_then(|state| state.files.plan_hash))
}

/// An event with its text at the end of the history.
pub(super) fn placed(board: &Board, event: Event) -> Result<Event, load::Error> {
    let length = history_length(board)?;
    Ok(event.with_history_at(length, load::is_line_open(&board.history_file())))
}

fn history_length(board: &Board) -> Result<u64, load::Error> {
    let path = board.history_file();
    match std::fs::metadata(&path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(load::Error::Io { path, source }),
    }
}

/// What the reports say that were there before the run.
pub(super) fn newest_facts(board: &Board) -> Vec<ReportFacts> {
    let plan = plan(board).unwrap_or_default();
    let agents = board.pack.manifest.agent_names().into_iter().chain(AgentName::new(FINISH_REVIEW));
    let facts = agents.filter_map(|agent| {
        let bytes = load::bytes(&board.report_file(&agent), report::MAX_BYTES).ok()?;
        let expected = Expected { agent, iteration: None };
        let report = report::read(&bytes, &board.pack.policy.report_rules, &expected).ok()?;
        let source = String::from_utf8_lossy(&bytes);
        Some(facts_of(&report, &source, &board.pack.policy, &plan))
    });
    facts.collect()
}

impl Drive<'_> {
    /// The plan's text as it is now.
    pub(super) fn plan(&self) -> Result<String, load::Error> {
        let known = self.guard.unchanged(PLAN_FILE);
        let known = known.filter(|bytes| bytes.len() as u64 <= baton_core::plan::MAX_BYTES);
        match known.map(std::str::from_utf8) {
            Some(Ok(text)) => Ok(text.to_owned()),
            _ => plan(self.around.board),
        }
    }

    /// Writes the files that follow from an event.
    pub(super) fn write_files(&mut self, effects: Vec<Effect>) -> Result<(), Error> {
        effects.into_iter().try_for_each(|effect| self.write_one(effect))
    }

    fn write_one(&mut self, effect: Effect) -> Result<(), Error> {
        match effect {
            Effect::AppendHistory(entry) => self.append_history(&entry),
            Effect::WriteTask(text) => self.write(TASK_FILE, text.as_bytes()),
            Effect::ArchivePlan(plan) => self.archive_plan(&plan),
            Effect::EditPlan(edit) => self.edit_plan(&edit),
            Effect::ArchiveReport { path, text } => self.archive_report(&path, &text),
            Effect::PublishReport { path, text } => self.write(&path, text.as_bytes()),
            Effect::KeepNotes { agent, iteration, report } => {
                self.keep_notes(&agent, iteration, &report)
            }
            Effect::WriteQuestion { question, by, asked_seq } => {
                let text = json!({ "question": question, "by": by, "asked_seq": asked_seq });
                self.write(QUESTION, format!("{text:#}\n").as_bytes())
            }
            Effect::RemoveQuestion => self.remove(QUESTION),
            Effect::LockSubloop => self.lock_subloop(),
            Effect::WriteSubloopState(state) => self.write_subloop_state(&state),
            Effect::EndSubloop { tester, fixer, most } => self.end_subloop(&tester, &fixer, most),
        }
    }

    pub(super) fn lock_subloop(&mut self) -> Result<(), Error> {
        let who =
            format!("run {}, iteration {}", self.state.origin.run.as_str(), self.state.iteration);
        let path = self.around.board.root.join(SUBLOOP_LOCK);
        self.subloop_lock = Some(crate::lock::Lock::take(&path, &who)?);
        Ok(())
    }

    fn edit_plan(&mut self, edit: &PlanEdit) -> Result<(), Error> {
        match edit.applied_to(&self.plan()?) {
            Ok(Some(new)) => self.write(PLAN_FILE, new.as_bytes()),
            Ok(None) => Ok(()),
            // It could be applied when it was judged, so another version of Baton judged it.
            Err(problems) => {
                let own = self.around.board.pack.words();
                let said = own.plan_stays(explained(&problems, own));
                (self.around.watch)(Notice::Said(said));
                Ok(())
            }
        }
    }

    /// Puts the plan of an earlier task aside. If the plan is a different one now, this is done
    /// already, or the user has written another one.
    fn archive_plan(&mut self, plan: &ArchivedPlan) -> Result<(), Error> {
        let text = self.plan()?;
        if plan_hash(&text) != plan.hash {
            return Ok(());
        }
        self.write(&plan.path, text.as_bytes())?;
        self.write(PLAN_FILE, plan.new.as_bytes())
    }

    fn keep_notes(
        &mut self,
        agent: &AgentName,
        iteration: Iteration,
        report: &str,
    ) -> Result<(), Error> {
        let (policy, words) = (&self.around.board.pack.policy, self.around.board.pack.words());
        let summary = Summary::of(report.as_bytes(), agent, policy, None);
        let file = load::text(&self.around.board.root.join(NOTES_FILE), load::SMALL);
        let file = match file {
            Ok(file) => file,
            Err(load::Error::Missing(_)) => String::new(),
            // Notes help and decide nothing: a file that cannot be read is the user's to look at.
            Err(_) => return Ok(()),
        };
        match notes::merged(words, &file, &summary.project_notes, agent, iteration) {
            Some(text) => self.write(NOTES_FILE, text.as_bytes()),
            None => Ok(()),
        }
    }

    fn archive_report(&mut self, path: &str, report: &str) -> Result<(), Error> {
        let path = self.around.board.root.join(path);
        if !load::bytes(&path, report::MAX_BYTES * 4).is_ok_and(|own| own == report.as_bytes()) {
            self.around.disk.write_here(&path, report.as_bytes())?;
        }
        Ok(())
    }

    /// For other readers; Baton's own state is the journal.
    fn write_subloop_state(&mut self, state: &SubloopState) -> Result<(), Error> {
        let SubloopState { tester, fixer, iteration, number, reason } = state;
        let report = |agent: &AgentName| {
            let numbered = format!("reports/report_{}_subloop_{number}.md", agent.file_stem());
            let is_there = self.around.board.root.join(&numbered).exists();
            if is_there { numbered } else { format!("reports/report_{}.md", agent.file_stem()) }
        };
        let state = json!({
            "active": true,
            "iteration": iteration,
            "sub_iteration": number,
            "test_report": report(tester),
            "dev_report": report(fixer),
            "entry_reason": reason,
            "exit_condition": null,
        });
        self.write(SUBLOOP_STATE, format!("{state:#}\n").as_bytes())
    }

    /// The last pair becomes the standard report; the temporary files go, the archive stays.
    fn end_subloop(
        &mut self,
        tester: &AgentName,
        fixer: &AgentName,
        most: u32,
    ) -> Result<(), Error> {
        for agent in [tester, fixer] {
            let stem = agent.file_stem();
            let names: Vec<String> = (1..=most)
                .map(|number| format!("reports/report_{stem}_subloop_{number}.md"))
                .filter(|name| self.around.board.root.join(name).exists())
                .collect();
            if let Some(last) = names.last() {
                let text = load::bytes(&self.around.board.root.join(last), report::MAX_BYTES * 2)?;
                self.write(&format!("reports/report_{stem}.md"), &text)?;
            }
            // The last one goes last: a crash in between finds it again.
            for name in names {
                self.remove(&name)?;
            }
        }
        self.remove(SUBLOOP_STATE)?;
        // Nobody may find it unlocked and ours: the name goes first.
        self.around.disk.remove(&self.around.board.root.join(SUBLOOP_LOCK))?;
        self.subloop_lock = None;
        Ok(())
    }

    /// Puts an entry into the history, where it is not there already.
    fn append_history(&mut self, entry: &HistoryText) -> Result<(), Error> {
        let board = self.around.board;
        let path = board.history_file();
        let length = history_length(board)?;
        let text = entry.text.as_bytes();
        let end = entry.at + text.len() as u64;
        let there = match length > entry.at {
            true => {
                let whole = load::bytes(&path, crate::gather::HISTORY_BYTES)?;
                let from = usize::try_from(entry.at).unwrap_or(usize::MAX).min(whole.len());
                whole[from..].to_vec()
            }
            false => Vec::new(),
        };
        if there.starts_with(text) {
            return Ok(());
        }
        // A person may have written above it since.
        if length > end
            && memchr::memmem::find(&load::bytes(&path, crate::gather::HISTORY_BYTES)?, text)
                .is_some()
        {
            return Ok(());
        }
        // What a crash left of it, or nothing; else a person wrote there, and it goes to the end.
        let at = if is_left_of(text, &there) && length >= entry.at { entry.at } else { length };
        let written = self.around.disk.append_at(&path, at, text)?;
        debug_assert!(written == end || at != entry.at);
        match there.is_empty() {
            true => self.gatherer.appended(board, &entry.text),
            // What was read of the history had a piece of the entry in it.
            false => self.gatherer.forget_history(),
        }
        self.guard.appended(HISTORY_FILE, at, text)?;
        Ok(())
    }
}

/// Whether a crash can have left this of a text: its beginning, with zeros where the disk never got it.
fn is_left_of(text: &[u8], there: &[u8]) -> bool {
    let mut pairs = there.iter().zip(text);
    there.len() <= text.len() && pairs.all(|(own, wanted)| own == wanted || *own == 0)
}
