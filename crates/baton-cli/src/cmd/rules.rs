//! Which rules a file is checked by when it may belong to a blackboard or to none.

use std::path::Path;

use baton_core::id::{AgentName, FINISH_REVIEW};
use baton_core::messages::Language;
use baton_core::pack::{Manifest, Pack};
use baton_core::policy::Policy;
use baton_core::text;
use baton_runtime::board::{self, Board};
use baton_runtime::builtin;

use super::Place;
use crate::reply::{Failure, USAGE};

pub(super) struct Rules {
    pub(super) policy: Policy,
    /// The language of labels that the policy does not give.
    pub(super) words: Language,
    /// Where they come from, for the person.
    pub(super) origin: String,
    pub(super) board: Option<Board>,
}

/// A policy that was named, else the blackboard's, else a built-in pack's: the first that has the
/// agent, in the language whose key lines the text holds.
pub(super) fn resolve(
    place: &Place,
    policy: Option<&Path>,
    file: Option<&Path>,
    agent: Option<&AgentName>,
    content: &str,
) -> Result<Rules, Failure> {
    let board = match policy {
        // A broken blackboard elsewhere must not stop a check by a named policy.
        Some(_) => place.board_of(file).ok().flatten(),
        None => place.board_of(file)?,
    };
    if let Some(path) = policy {
        let (policy, origin) = board::loose_policy(path)?;
        let words = board.as_ref().map(|board| board.pack.words()).unwrap_or_default();
        return Ok(Rules { policy, words, origin, board });
    }
    if let Some(board) = board {
        let origin = format!(
            "{} (pack {}, {})",
            board.root.display(),
            board.pack.manifest.name,
            board.pack.language
        );
        let (policy, words) = (board.pack.policy.clone(), board.pack.words());
        return Ok(Rules { policy, words, origin, board: Some(board) });
    }
    let has_agent = |manifest: &Manifest| match agent {
        Some(agent) if *agent != FINISH_REVIEW => {
            manifest.agents.iter().any(|own| own.name == *agent)
        }
        _ => true,
    };
    let packs = builtin::packs();
    let Some((manifest, files)) = packs.iter().find(|(manifest, _)| has_agent(manifest)) else {
        let known: Vec<AgentName> =
            packs.iter().flat_map(|(manifest, _)| manifest.agent_names()).collect();
        let agent = agent.map_or("", AgentName::as_str);
        let message =
            format!("no built-in pack has an agent `{agent}`, and there is no blackboard here");
        return Err(Failure::new(USAGE, message).hint(format!(
            "give `--policy FILE`, or one of {}",
            baton_core::problem::list(&known)
        )));
    };
    let mut chosen: Option<Pack> = None;
    for language in &manifest.languages {
        let pack = Pack::read(files, language)
            .map_err(|problems| Failure::from(board::Error::Invalid(problems)))?;
        let fits = holds_key_lines(content, &pack.policy);
        if fits || chosen.is_none() {
            chosen = Some(pack);
        }
        if fits {
            break;
        }
    }
    let pack = chosen.ok_or_else(|| Failure::new(USAGE, "the pack has no language"))?;
    let origin = format!("the built-in pack {} ({})", manifest.name, pack.language);
    let words = pack.words();
    Ok(Rules { policy: pack.policy, words, origin, board: None })
}

fn holds_key_lines(content: &str, policy: &Policy) -> bool {
    let prefixes = [&policy.report_rules.verdict_prefix, &policy.report_rules.blocker_prefix];
    text::lines(content)
        .any(|line| prefixes.into_iter().any(|prefix| text::key_line(line.text, prefix).is_some()))
}
