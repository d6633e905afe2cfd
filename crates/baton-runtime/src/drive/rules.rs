//! The rules of a run: what changed of them since it began, and its records folded, each by the rules
//! that the run had when it was written.

use std::collections::BTreeMap;

use baton_core::config::Config;
use baton_core::document::Document;
use baton_core::event::{AdoptedRules, Event, Record, RulesText, RunStarted, Switches};
use baton_core::pack::{self, Agent, Pack};
use baton_core::policy::{self, Policy};
use baton_core::workflow::{Effect, Rules, State};

use super::Error;
use crate::board::{Board, POLICY_FILE, PROMPTS, board_pack_files};
use crate::earlier;

const POLICY: &str = "policy";
const CONFIGURATION: &str = "configuration (";
const PROMPT: &str = "prompt of ";

fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

fn switches_of(config: &Config) -> Switches {
    Switches {
        subloop: config.features.subloop,
        milestones: config.features.milestones,
        report_retries: config.report.retries,
        decision_retries: config.decision.retries,
    }
}

fn switches_text(switches: Switches) -> String {
    let Switches { subloop, milestones, report_retries, decision_retries } = switches;
    format!(
        "subloop {subloop} milestones {milestones} report.retries {report_retries} decision.retries {decision_retries}"
    )
}

/// The switches in the name of a fingerprint, as `switches_text` wrote them.
fn switches_in(fingerprints: &BTreeMap<String, String>) -> Option<Switches> {
    let text = fingerprints.keys().find_map(|name| name.strip_prefix(CONFIGURATION))?;
    let words: Vec<&str> = text.trim_end_matches(')').split(' ').collect();
    let [_, subloop, _, milestones, _, report, _, decision] = words[..] else { return None };
    Some(Switches {
        subloop: subloop.parse().ok()?,
        milestones: milestones.parse().ok()?,
        report_retries: report.parse().ok()?,
        decision_retries: decision.parse().ok()?,
    })
}

/// A digest of each part of a run's rules, to name a change.
pub(super) fn fingerprints(board: &Board) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    all.insert(POLICY.to_owned(), digest(&board.pack.policy.render()));
    let switches = switches_text(switches_of(&board.config));
    all.insert(format!("{CONFIGURATION}{switches})"), digest(&switches));
    for (name, prompt) in &board.pack.prompts {
        all.insert(format!("{PROMPT}{name}"), digest(prompt));
    }
    all
}

/// The rules by which the records of a run are folded.
pub(super) fn text(board: &Board) -> RulesText {
    let mut policy = serde_json::to_value(&board.pack.policy).unwrap_or_default();
    if let (Some(below), Some(sections)) = (pack_policy(board, None), policy.as_object_mut()) {
        // A section that the pack has and the blackboard does not is switched off.
        for key in below.root.keys() {
            sections.entry(&key.name).or_insert(serde_json::Value::Null);
        }
    }
    RulesText { policy, agents: rights_of(board), switches: switches_of(&board.config) }
}

/// The rules of the blackboard, to continue a run with them.
pub(super) fn adopted(board: &Board, changed: Vec<String>) -> AdoptedRules {
    AdoptedRules {
        changed,
        pack: board.pack.manifest.name.clone(),
        language: board.pack.language.clone(),
        fingerprints: fingerprints(board),
        text: text(board),
    }
}

/// The policy of a pack, without what the blackboard lays over it.
fn pack_policy(board: &Board, named: Option<(&str, &str)>) -> Option<Document> {
    let own = (board.pack.manifest.name.as_str(), board.pack.language.as_str());
    let (name, language) = named.unwrap_or(own);
    let files = board_pack_files(name, &board.root).ok()?;
    pack::policy_document(&files, language, "").ok()
}

/// Names everything of the rules that is not as the run knows it.
pub(super) fn changes(board: &Board, start: &RunStarted) -> Vec<String> {
    let (name, language) = (&board.pack.manifest.name, &board.pack.language);
    if *name != start.pack || *language != start.language {
        let was = format!("{} ({})", start.pack, start.language);
        return vec![format!("the pack (was {was}, is {name} ({language}))")];
    }
    let now = fingerprints(board);
    let is_there = |file: &str| board.root.join(file).is_file();
    let mut changes = Vec::new();
    for (what, known) in start.rules.iter().filter(|(what, known)| now.get(*what) != Some(*known)) {
        if let Some(was) = what.strip_prefix(CONFIGURATION) {
            let is = switches_text(switches_of(&board.config));
            changes.push(format!("the configuration (was {}, is {is})", was.trim_end_matches(')')));
        } else if what == POLICY {
            if !is_same_policy(board, start, known) {
                let own = is_there(POLICY_FILE);
                changes.push(if own { POLICY_FILE } else { "the pack's policy" }.to_owned());
            }
        } else {
            changes.push(changed_prompt(what, now.contains_key(what), &is_there));
        }
    }
    let agents = start.rules_text.as_ref().map(|text| &text.agents);
    if agents.is_some_and(|agents| *agents != rights_of(board)) {
        changes.push("the agents of the pack, or which of them may write".to_owned());
    }
    for what in now.keys().filter(|what| !start.rules.contains_key(*what)) {
        // A prompt that only a newer version of the pack has was not changed by the user.
        let file = prompt_file(what).filter(|file| is_there(file));
        changes.extend(file.map(|file| format!("{file} (new)")));
    }
    changes
}

fn prompt_file(what: &str) -> Option<String> {
    let agent = baton_core::id::AgentName::new(what.strip_prefix(PROMPT)?).ok()?;
    Some(format!("{PROMPTS}/{}", pack::prompt_file(&agent)))
}

fn changed_prompt(what: &str, is_known: bool, is_there: &dyn Fn(&str) -> bool) -> String {
    match prompt_file(what) {
        Some(file) if is_there(&file) => file,
        Some(file) if !is_known => format!("{file} (missing)"),
        _ => format!("the pack's {what}"),
    }
}

/// A policy is the same when it differs only in keys that a later version of the pack added.
fn is_same_policy(board: &Board, start: &RunStarted, known: &str) -> bool {
    let own = &board.pack.policy;
    match &start.rules_text {
        Some(text) => policy_of(board, start, text).is_some_and(|policy| policy == *own),
        None => digest(&earlier::policy_as_0_1(own)) == known,
    }
}

/// The policy that a run had, with what later versions added from the pack.
fn policy_of(board: &Board, start: &RunStarted, text: &RulesText) -> Option<Policy> {
    let own = Document::json(&text.policy.to_string()).ok()?;
    let whole = match pack_policy(board, Some((&start.pack, &start.language))) {
        Some(below) => below.overlaid(own, policy::merges),
        None => own,
    };
    Policy::read(&whole).ok()
}

/// The rules of a time of the run, where they are not the blackboard's.
#[derive(Debug, Clone)]
struct Past {
    pack: Pack,
    config: Config,
}

/// The rules that a record is folded by.
fn rules<'a>(board: &'a Board, past: Option<&'a Past>) -> Rules<'a> {
    match past {
        Some(past) => Rules { pack: &past.pack, config: &past.config },
        None => Rules { pack: &board.pack, config: &board.config },
    }
}

impl Past {
    fn with(board: &Board, policy: Policy, switches: Option<Switches>) -> Past {
        let mut past = Past { pack: board.pack.clone(), config: board.config.clone() };
        past.pack.policy = policy;
        if let Some(switches) = switches {
            past.config.features.subloop = switches.subloop;
            past.config.features.milestones = switches.milestones;
            past.config.report.retries = switches.report_retries;
            past.config.decision.retries = switches.decision_retries;
        }
        past
    }

    /// As a journal tells them. `None`: they are the blackboard's, or can no longer be read.
    fn told(board: &Board, start: &RunStarted, text: &RulesText) -> Option<Past> {
        let policy = policy_of(board, start, text)?;
        let mut past = Past::with(board, policy, Some(text.switches));
        let agents = text.agents.iter().map(|(name, writes)| Agent {
            name: name.clone(),
            role: "".into(),
            writes: *writes,
            profile: None,
        });
        past.pack.manifest.agents = agents.collect();
        Some(past)
    }
}

/// The rules that a run began with, best guess first: a journal of 0.1 has only their fingerprints.
fn beginnings(board: &Board, start: &RunStarted) -> Vec<Option<Past>> {
    if changes(board, start).is_empty() {
        return vec![None];
    }
    if let Some(text) = &start.rules_text {
        return vec![Past::told(board, start, text)];
    }
    let switches = switches_in(&start.rules);
    let packs = pack_policy(board, Some((&start.pack, &start.language)));
    let packs = packs.and_then(|document| Policy::read(&document).ok());
    let is_it = |policy: &Policy| {
        let known = start.rules.get(POLICY);
        known == Some(&digest(&earlier::policy_as_0_1(policy)))
    };
    let own = board.pack.policy.clone();
    let without_gates = Policy { gates: Vec::new(), ..own.clone() };
    let guesses = packs.filter(is_it).into_iter().chain([own, without_gates]);
    guesses.map(|policy| Some(Past::with(board, policy, switches))).collect()
}

/// The content of a journal since its last checkpoint, or from its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    /// As the checkpoint or the first record has it.
    pub(super) start: &'a RunStarted,
    pub(super) state: Option<&'a State>,
    pub(super) records: &'a [Record],
}

impl Told<'_> {
    /// The beginning of the run, with the rules that it has now.
    pub(super) fn now(&self) -> RunStarted {
        let mut start = self.start.clone();
        self.records.iter().for_each(|record| start.adopt(&record.event));
        start
    }

    /// The state after the last record, and the files that follow from that record.
    pub(super) fn folded(&self, board: &Board) -> Result<(State, Vec<Effect>), Error> {
        let mut failed = None;
        for past in beginnings(board, self.start) {
            match self.folded_from(board, past) {
                Ok(folded) => return Ok(folded),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        let error = failed.unwrap_or(Error::NothingToResume);
        let changes = changes(board, &self.now());
        match error {
            Error::Misfit(misfit) if !changes.is_empty() => {
                let why = format!(
                    "its journal does not have the rules that it began with, and cannot be read by the changed ones ({misfit})"
                );
                Err(Error::RulesUnfit { changes: changes.join(", "), why })
            }
            error => Err(error),
        }
    }

    fn folded_from(
        &self,
        board: &Board,
        mut past: Option<Past>,
    ) -> Result<(State, Vec<Effect>), Error> {
        let (mut state, mut effects, rest) = match (self.state, self.records) {
            // The files of everything before a checkpoint are written.
            (Some(state), records) => {
                let mut state = state.clone();
                state.read_decisions(&rules(board, past.as_ref()));
                (state, Vec::new(), records)
            }
            (None, [Record { seq, event: Event::RunStarted(start), .. }, rest @ ..]) => {
                (State::new(start, *seq), start.effects(), rest)
            }
            (None, _) => return Err(Error::NothingToResume),
        };
        let mut start = self.start.clone();
        for record in rest {
            past = after(board, past, &mut start, &record.event);
            effects = state.apply(record, &rules(board, past.as_ref()))?;
        }
        Ok((state, effects))
    }
}

/// The rules from this event on.
fn after(board: &Board, past: Option<Past>, start: &mut RunStarted, event: &Event) -> Option<Past> {
    let Event::Resumed { adopted_rules: Some(adopted), .. } = event else { return past };
    start.adopt(event);
    match changes(board, start).is_empty() {
        true => None,
        false => Past::told(board, start, &adopted.text),
    }
}

/// The agents, and whether each may write.
fn rights_of(board: &Board) -> BTreeMap<baton_core::id::AgentName, bool> {
    let agents = board.pack.manifest.agents.iter();
    agents.map(|agent| (agent.name.clone(), agent.writes)).collect()
}
