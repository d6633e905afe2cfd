//! Compares the project with the one for which passes were given. A change voids a pass if it is of
//! a file that git tracks, or of another file that belongs to the work; logs, output of this process
//! and generated files never do. Outside git every file that was there belongs to the work.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::event::ProjectCheck;
use baton_core::id::AgentName;
use baton_core::scenario::{self, OUTPUTS};

use super::outputs::{is_data, is_log, is_made_by_tools};
use super::{Drive, Error};
use crate::snapshot::{self, Entry, Manifest};
use crate::walk;

/// Names of files in one event; of more only their number is kept.
const NAMED: usize = 40;

/// Files by which changes are judged; each is looked up once, when it is needed.
struct Known {
    /// Files that git tracks; `None` outside git and before the first file is added.
    tracked: Option<Arc<BTreeSet<String>>>,
    /// The project at the first look of the run.
    first: OnceCell<Option<Manifest>>,
    /// The project after the last stage that may write.
    written: OnceCell<Option<Manifest>>,
}

impl Known {
    fn is_tracked(&self, name: &str) -> bool {
        self.tracked.as_ref().is_some_and(|tracked| tracked.contains(name))
    }

    /// Git tracks only the folder of a submodule.
    fn is_in_submodule(&self, name: &str) -> bool {
        let Some(tracked) = &self.tracked else { return false };
        name.match_indices('/').any(|(at, _)| tracked.contains(&name[..at]))
    }
}

impl Drive<'_> {
    fn known(&mut self) -> Known {
        let tracked = self.snapshots.tracked();
        Known { tracked, first: OnceCell::new(), written: OnceCell::new() }
    }

    /// Compares the project of this snapshot with the last look and with every pass of the run.
    /// `told`: changes that are already known. `None`: no news.
    pub(super) fn project_check(
        &mut self,
        now: &str,
        told: &[String],
    ) -> Result<Option<Box<ProjectCheck>>, Error> {
        let known = self.known();
        let mut changed = match self.state.reports.passes.seen.clone() {
            Some(seen) if seen != now => self.noteworthy(&seen, now)?,
            _ => Vec::new(),
        };
        changed.retain(|file| !told.contains(&walk::shown(file)));
        let passes = &self.state.reports.passes;
        let (mut void, mut reworked) = (BTreeMap::new(), BTreeMap::new());
        for (agent, seq, reference) in self.state.passes_given() {
            let Some(at) = reference.at.as_ref().filter(|at| *at != now) else { continue };
            let files = self.voiding(at, now, Some(seq), &known)?;
            let own = match &reference.before {
                // Without the older snapshot nothing more is known.
                Some(before) => self.changed(before, at).unwrap_or_default(),
                None => Vec::new(),
            };
            let own: Vec<String> =
                files.iter().filter(|file| own.contains(file)).cloned().collect();
            insert(&mut void, agent, files);
            insert(&mut reworked, agent, own);
        }
        let is_news = passes.seen.is_none()
            || !changed.is_empty()
            || (&void, &reworked) != (&passes.void, &passes.reworked);
        let snapshot = now.to_owned();
        let check = ProjectCheck { snapshot, changed: named(changed), void, reworked };
        Ok(is_news.then(|| Box::new(check)))
    }

    /// Files because of which a pass of a stage that may not write does not count.
    pub(super) fn voiding_stage(
        &mut self,
        before: &str,
        after: &str,
    ) -> Result<Vec<String>, Error> {
        if before == after {
            return Ok(Vec::new());
        }
        let known = self.known();
        Ok(named(self.voiding(before, after, None, &known)?))
    }

    /// Files that changed between two snapshots, without the output of this process.
    pub(super) fn changed(&self, before: &str, after: &str) -> Result<Vec<String>, Error> {
        let mut changed = self.snapshots.changed(before, after)?;
        changed.retain(|name| !self.is_own_output(name));
        Ok(changed)
    }

    /// The same without untracked logs and generated files: the changes that the user may want to know of.
    pub(super) fn noteworthy(&mut self, before: &str, after: &str) -> Result<Vec<String>, Error> {
        let known = self.known();
        // Without the older one it is not known what changed.
        let Ok(from) = self.snapshots.manifest(before) else { return Ok(Vec::new()) };
        let to = self.snapshots.manifest(after)?;
        let mut changed = self.changed(before, after)?;
        changed.retain(|name| known.is_tracked(name) || !self.is_noise(name, &from, &to));
        Ok(changed)
    }

    /// The project after the last stage that may write.
    fn written<'k>(&self, known: &'k Known) -> Option<&'k Manifest> {
        let (_, id) = self.state.reports.passes.written.as_ref()?;
        known.written.get_or_init(|| self.snapshots.manifest(id).ok()).as_ref()
    }

    /// The project at the first look of the run.
    fn first<'k>(&self, known: &'k Known) -> Option<&'k Manifest> {
        let id = self.state.reports.passes.first.as_ref()?;
        known.first.get_or_init(|| self.snapshots.manifest(id).ok()).as_ref()
    }

    /// True if a file was there when the run began.
    fn was_first(&self, name: &str, known: &Known) -> bool {
        self.first(known).is_none_or(|first| first.files.contains_key(name))
    }

    /// True if a file was created or changed in this run.
    fn is_of_the_run(&self, name: &str, known: &Known) -> bool {
        match (self.first(known), self.written(known)) {
            (Some(first), Some(written)) => first.files.get(name) != written.files.get(name),
            _ => true,
        }
    }

    /// Files whose change between two snapshots voids a pass. `since`: the number of its event.
    fn voiding(
        &self,
        from: &str,
        to: &str,
        since: Option<u64>,
        known: &Known,
    ) -> Result<Vec<String>, Error> {
        let mut changed = match self.changed(from, to) {
            // Without its snapshot nothing confirms the pass.
            Err(Error::Snapshot(snapshot::Error::Missing(_))) => {
                return Ok(vec!["(its snapshot is missing)".to_owned()]);
            }
            changed => changed?,
        };
        if changed.is_empty() {
            return Ok(changed);
        }
        let (from, to) = (self.snapshots.manifest(from)?, self.snapshots.manifest(to)?);
        let last = self.state.reports.passes.written.as_ref().map(|(seq, _)| *seq);
        let is_later = last.zip(since).is_some_and(|(last, since)| last > since);
        let later = self.written(known).filter(|_| is_later);
        changed.retain(|name| {
            let before = from.files.get(name);
            if known.is_tracked(name) {
                return true;
            }
            if self.is_generated(name, &from) {
                return false;
            }
            // An agent that may write changed it after the pass.
            if later.is_some_and(|after| after.files.get(name) != before) {
                return true;
            }
            if self.is_stream(name, &from, &to) {
                return false;
            }
            if known.is_in_submodule(name) {
                return true;
            }
            match (before, &known.tracked) {
                // A new file of which git does not know is named, and no more.
                (None, _) => false,
                (Some(_), None) => true,
                // A removed file may have been tracked until it was removed.
                (Some(_), Some(_)) => {
                    let is_gone = !to.files.contains_key(name) && self.was_first(name, known);
                    is_gone || self.is_of_the_run(name, known)
                }
            }
        });
        Ok(changed)
    }

    /// True if a change is not part of the work.
    fn is_noise(&self, name: &str, from: &Manifest, to: &Manifest) -> bool {
        self.is_generated(name, from) || self.is_stream(name, from, to)
    }

    /// True for a file that builds and tests generate, or that Baton itself writes in an evaluation.
    fn is_generated(&self, name: &str, from: &Manifest) -> bool {
        // Only a mark that was there when the pass was given: anyone could make one later.
        let is_there = |mark: &str| from.files.contains_key(mark);
        let is_evaluation = self.state.origin.scenario.as_ref().is_some_and(|scenario| {
            name.starts_with(&format!("{}/{OUTPUTS}/", scenario::folder(scenario)))
        });
        is_evaluation || is_made_by_tools(name, is_there)
    }

    /// True for a log, and for data that only got longer.
    fn is_stream(&self, name: &str, from: &Manifest, to: &Manifest) -> bool {
        let has_grown = || match (from.files.get(name), to.files.get(name)) {
            // A new file of data may be a part of the work; one that grows at its end is a stream.
            (None, Some(_)) => !name.ends_with(".json"),
            (Some(before), Some(after)) => self.has_grown(before, after),
            (_, None) => false,
        };
        is_log(name) && (!is_data(name) || has_grown())
    }

    /// True if a file only got longer at its end.
    fn has_grown(&self, before: &Entry, after: &Entry) -> bool {
        let content = |entry: &Entry| self.snapshots.content(&entry.hash).ok();
        match (content(before), content(after)) {
            (Some(before), Some(after)) => after.starts_with(&before),
            // Too large to be kept.
            (None, None) => before.hash.is_empty() && after.hash.is_empty(),
            _ => false,
        }
    }

    fn is_own_output(&self, name: &str) -> bool {
        self.snapshots.is_output(name)
    }
}

fn insert(all: &mut BTreeMap<AgentName, Vec<String>>, agent: &AgentName, files: Vec<String>) {
    if !files.is_empty() {
        all.insert(agent.clone(), named(files));
    }
}

/// The names of files for an event.
pub(super) fn named(mut files: Vec<String>) -> Vec<String> {
    let more = files.len().saturating_sub(NAMED);
    files.truncate(NAMED);
    files.iter_mut().for_each(|name| *name = walk::shown(name));
    files.extend((more > 0).then(|| format!("and {more} more")));
    files
}
