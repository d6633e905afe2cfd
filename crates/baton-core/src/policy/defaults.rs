//! Usual values of the keys that a policy leaves out, so that a new pack has only what is its own.
//! Goes in: a pack's policy, its language and its agents. Comes out: the same with every key.

use serde_json::{Value, json};

use super::{merges, older};
use crate::document::{Document, Node, Value as Tree};
use crate::id::AgentName;
use crate::messages::Language;

/// The policy with the keys that it leaves out.
pub fn completed(document: Document, language: Language, agents: &[AgentName]) -> Document {
    // What follows from the policy's own words comes first: it is next to them.
    let own = own(&document);
    let usual = usual(language, agents);
    [own, usual].into_iter().fold(document, |document, defaults| {
        match Document::json(&defaults.to_string()) {
            Ok(defaults) => document.completed(defaults, merges),
            Err(_) => document,
        }
    })
}

/// Keys whose values other keys tell.
fn own(document: &Document) -> Value {
    let mut own = json!({});
    let rules = |key: &str| words(document, &format!("report_rules.{key}"));
    let mut allowed = Vec::new();
    for word in ["verdict_pass", "verdict_fail", "verdict_blocked"].into_iter().flat_map(rules) {
        if !allowed.contains(&word) {
            allowed.push(word);
        }
    }
    if !allowed.is_empty() {
        own["report_rules"] = json!({ "verdict_allowed": allowed });
    }
    if let Some(last) = words(document, "plan.statuses").last() {
        own["plan"] = json!({ "final": last });
    }
    if let Some(first) = words(document, "plan.verified_by").first() {
        own["milestones"] = json!({ "pass_of": first });
    }
    own
}

/// Keys that mean the same in most packs.
fn usual(language: Language, agents: &[AgentName]) -> Value {
    let others = |agent: &AgentName| -> Vec<&AgentName> {
        agents.iter().filter(|other| *other != agent).collect()
    };
    let seen: serde_json::Map<String, Value> =
        agents.iter().map(|agent| (agent.to_string(), json!(others(agent)))).collect();
    let mut usual = json!({
        "report_rules": {
            "require_verdict": true,
            "verdict_prefix": "verdict:",
            "blocker_prefix": "blockers:",
            "blocker_clear_value": "none",
        },
        "finish_rules": { "max_finish_attempts": 3 },
        "milestones": {
            "plan_changes_over": 5,
            "texts": {
                "user_decision": language.milestone_user_decision(),
                "finish_attempt": language.milestone_finish_attempt(),
                "plan_update": language.milestone_plan_update(),
                "first_pass": language.milestone_first_pass(),
                "pass_again": language.milestone_pass_again(),
            },
        },
        "context": { "relevant_reports": seen, "finish_ladder": agents, "orders": older::orders(language) },
        "escalation": { "same_blocker": 3, "no_plan_change": 5 },
    });
    if !agents.is_empty() {
        usual["report_rules"]["apply_to"] = json!(agents);
    }
    usual
}

/// The words of a key that takes one or several. `nearest_node` would give the section for a key that
/// is missing.
fn words(document: &Document, path: &str) -> Vec<String> {
    let node = path.split('.').try_fold(&document.root, |node, key| node.get(key));
    let word = |node: &Node| match &node.value {
        Tree::String(word) => Some(word.clone()),
        _ => None,
    };
    match node.map(|node| &node.value) {
        Some(Tree::Array(items)) => items.iter().filter_map(word).collect(),
        Some(_) => node.and_then(word).into_iter().collect(),
        None => Vec::new(),
    }
}
