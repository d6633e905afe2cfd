//! The policy of a blackboard that another tool made. Goes in: its own policy laid over a pack's,
//! and the agents that it has. Comes out: rules that these agents can keep, with one warning about
//! keys that are not known and one about rules that were adapted.

use indexmap::IndexMap;
use serde_json::Value;

use super::{NO_VERDICT, Orders, Policy};
use crate::document::Document;
use crate::id::{AgentName, FINISH_REVIEW};
use crate::messages::Language;
use crate::problem::{Problem, list};
use crate::text;

/// Rules about the content of prompts check nothing: a change in them is not worth a warning.
const CONTEXT: &str = "context.";
const PASSES: &str = "finish_rules.passes";

// What a policy of 0.1 means without the keys that came later. These words are of the packs that it
// had, and nowhere else in the code.
const TASK_FIELD: &str = "test_required";
const PERCENT_FIELD: &str = "coverage";
const HANDED_OVER: &str = "scenarios/{scenario}/init_to_execute.json";
const HANDED_BACK: &str = "execute_to_init.json";
pub(super) const APPROVAL_TITLE: &str = "Approve the design?";

/// The orders of a policy that gives none.
pub(super) fn orders(language: Language) -> Orders {
    Orders {
        fixer: language.order_fixer(),
        tester: language.order_tester(),
        finish_review: language.order_finish_review(),
        finish_check: language.order_finish_check(),
        correction: language.order_correction(),
        changes: language.order_changes(),
        after_pass: IndexMap::new(),
    }
}

pub(super) fn task_field() -> String {
    TASK_FIELD.to_owned()
}

pub(super) fn is_task_field(own: &str) -> bool {
    own == TASK_FIELD
}

pub(super) fn percent_field() -> String {
    PERCENT_FIELD.to_owned()
}

pub(super) fn is_percent_field(own: &str) -> bool {
    own == PERCENT_FIELD
}

pub(super) fn approved() -> String {
    HANDED_OVER.to_owned()
}

pub(super) fn is_approved(own: &str) -> bool {
    own == HANDED_OVER
}

pub(super) fn returned() -> String {
    HANDED_BACK.to_owned()
}

pub(super) fn is_returned(own: &str) -> bool {
    own == HANDED_BACK
}

impl Policy {
    /// The field of a task that marks it for proof, also where the policy asks for none.
    pub fn task_field(&self) -> &str {
        self.proof.as_ref().map_or(TASK_FIELD, |proof| &proof.task_field)
    }

    /// The field of a report with the percentage, also where the policy asks for none.
    pub fn percent_field(&self) -> &str {
        self.proof.as_ref().map_or(PERCENT_FIELD, |proof| &proof.percent_field)
    }
}

impl Policy {
    /// Reads the policy of an older blackboard that has these agents.
    pub fn read_older(
        document: &Document,
        agents: &[AgentName],
    ) -> Result<(Policy, Vec<Problem>), Vec<Problem>> {
        let (policy, mut unknown) = document.read_known::<Policy>();
        let policy = policy.map_err(|problem| vec![problem])?.with_defaults();
        unknown.sort_by_key(|key| key.problem.place);
        let mut warnings = Vec::new();
        if let Some(first) = unknown.first() {
            let paths: Vec<String> =
                unknown.iter().map(|key| format!("`{}`", text::shown(&key.path, 80))).collect();
            let message = format!(
                "keys that Baton does not know are ignored and stay in the file: {}",
                paths.join(", ")
            );
            let mut warning = Problem::warning("policy-unknown-keys", message);
            warning.file.clone_from(&first.problem.file);
            warnings.push(warning);
        }
        let mut adapted = Adapted::new(policy, document, agents);
        warnings.extend(adapted.warning());
        adapted.policy = adapted.policy.with_defaults();
        let problems = adapted.policy.problems(document);
        if problems.is_empty() { Ok((adapted.policy, warnings)) } else { Err(problems) }
    }
}

/// A policy whose rules name only agents that can keep them.
struct Adapted {
    policy: Policy,
    /// Rules as they are now, for the user.
    changed: Vec<String>,
    /// Paths of rules that do not apply.
    dropped: Vec<String>,
}

impl Adapted {
    fn new(policy: Policy, document: &Document, agents: &[AgentName]) -> Adapted {
        let mut adapted = Adapted { policy, changed: Vec::new(), dropped: Vec::new() };
        adapted.verdicts();
        adapted.reporters(agents);
        let before = adapted.policy.clone();
        // One rule may be named by another: what is left over is looked at again.
        for _ in 0..4 {
            let unfit = adapted.unfit(document, agents);
            if unfit.is_empty() {
                break;
            }
            let lists = adapted.without(&unfit);
            adapted.refill(&lists, document);
        }
        adapted.context(&before, agents);
        if before.subloop.is_some() && adapted.policy.subloop.is_none() {
            // They are about its tester and its fixer.
            adapted.dropped.extend(before.proof.map(|_| "tdd_rules".to_owned()));
            adapted.policy.proof = None;
        }
        adapted
    }

    /// A verdict of the pack that the board does not allow is left out; one of the board that the
    /// pack does not know is not a pass.
    fn verdicts(&mut self) {
        let rules = &mut self.policy.report_rules;
        let allowed = &rules.verdict_allowed;
        let mut known = Vec::new();
        for words in [&mut rules.verdict_pass, &mut rules.verdict_fail, &mut rules.verdict_blocked]
        {
            words.0.retain(|word| allowed.contains(word));
            known.extend(words.0.iter().cloned());
        }
        for word in allowed.iter().filter(|word| !known.contains(word)) {
            self.changed.push(format!("the verdict `{}` counts as failed", text::shown(word, 40)));
            rules.verdict_fail.0.push(word.clone());
        }
    }

    /// Agents that give a verdict: if the rules name none of the board's, all of them do.
    fn reporters(&mut self, agents: &[AgentName]) {
        let apply_to = &mut self.policy.report_rules.apply_to;
        apply_to.retain(|name| agents.contains(name) || *name == FINISH_REVIEW);
        if !apply_to.iter().any(|name| agents.contains(name)) {
            *apply_to = agents.to_vec();
            self.changed.push(format!("`report_rules.apply_to` is {}", list(agents)));
        }
    }

    /// Rules that name an agent which the board does not have, or which gives no verdict where one
    /// is asked for.
    fn unfit(&self, document: &Document, agents: &[AgentName]) -> Vec<(String, AgentName)> {
        let named = self.policy.agents_named().into_iter();
        let missing = named.filter(|(_, name)| !agents.contains(name) && **name != FINISH_REVIEW);
        let mut unfit: Vec<(String, AgentName)> =
            missing.map(|(path, name)| (path, name.clone())).collect();
        let problems = self.policy.problems(document).into_iter();
        unfit.extend(problems.filter(|problem| problem.code == NO_VERDICT).filter_map(|problem| {
            let (path, _) = problem.message.split_once(':')?;
            Some((path.to_owned(), AgentName::new(problem.found.as_deref()?).ok()?))
        }));
        unfit.sort();
        unfit.dedup();
        unfit
    }

    /// Takes names out of lists and maps; a section that cannot do without its agent is left out.
    /// Returns the lists that became shorter.
    fn without(&mut self, unfit: &[(String, AgentName)]) -> Vec<String> {
        let Ok(mut whole) = serde_json::to_value(&self.policy) else { return Vec::new() };
        let substitute = self.substitutes().into_iter().next();
        let mut lists: Vec<String> = Vec::new();
        for (path, name) in unfit {
            let (parent, last) = path.rsplit_once('.').unwrap_or(("", path));
            let section = path.split('.').next().unwrap_or(path);
            let is_list = whole.pointer(&pointer(path)).is_some_and(Value::is_array);
            let list_path = if is_list { path.as_str() } else { parent };
            let is_name = |value: &Value| match value {
                // A rule about the work of one agent that another judges.
                Value::Object(rule) => rule.values().any(|own| own == name.as_str()),
                own => own == name.as_str(),
            };
            if last == name.as_str() {
                // The key of a map.
                if let Some(Value::Object(map)) = whole.pointer_mut(&pointer(parent)) {
                    map.remove(last);
                }
                self.drop_rule(path);
            } else if let Some(Value::Array(names)) = whole.pointer_mut(&pointer(list_path)) {
                names.retain(|own| !is_name(own));
                if !lists.iter().any(|own| own == list_path) {
                    lists.push(list_path.to_owned());
                }
            } else if whole.pointer(&pointer(path)).is_none() {
                // It went with what it was part of.
            } else if let Some(Value::Array(elements)) = whole.get_mut(section) {
                // A gate names its agent in a field.
                elements.retain(|element| !element.get(last).is_some_and(is_name));
                self.drop_rule(&format!("{section} of {name}"));
            } else if let Some((map, key)) =
                parent.rsplit_once('.').filter(|(map, _)| map.contains('.'))
                && let Some(Value::Object(map)) = whole.pointer_mut(&pointer(map))
            {
                // One rule of a map names its agent in a field.
                map.remove(key);
                self.drop_rule(parent);
            } else if let Some(less) = without_section(&whole, section) {
                whole = less;
                self.drop_rule(section);
            } else if let Some((field, other)) =
                whole.pointer_mut(&pointer(path)).zip(substitute.as_ref())
            {
                *field = Value::from(other.as_str());
                self.changed.push(format!("`{path}` is {other}"));
            }
        }
        // In a map or a gate, an entry without names would allow no one: it goes.
        lists.retain(|path| {
            let is_empty = whole.pointer(&pointer(path)).is_some_and(|names| names == &EMPTY);
            let inner = path.rsplit_once('.').filter(|(outer, _)| outer.contains('.'));
            let Some((outer, key)) = inner.filter(|_| is_empty) else { return true };
            let section = path.split('.').next().unwrap_or(path);
            if let Some(Value::Array(elements)) = whole.get_mut(section) {
                elements.retain(|element| element.get(key) != Some(&EMPTY));
            } else if let Some(Value::Object(map)) = whole.pointer_mut(&pointer(outer)) {
                map.remove(key);
            }
            self.drop_rule(path);
            false
        });
        if let Ok(policy) = serde_json::from_value(whole) {
            self.policy = policy;
        }
        lists
    }

    fn drop_rule(&mut self, path: &str) {
        if !path.starts_with(CONTEXT) && !self.dropped.iter().any(|own| own == path) {
            self.dropped.push(path.to_owned());
        }
    }

    /// A list that is empty now and may not be gets everyone who gives a verdict.
    fn refill(&mut self, lists: &[String], document: &Document) {
        let problems = self.policy.problems(document);
        let Ok(mut whole) = serde_json::to_value(&self.policy) else { return };
        let substitutes: Value =
            self.substitutes().iter().map(|name| Value::from(name.as_str())).collect();
        for path in lists {
            let Some(names) = whole.pointer_mut(&pointer(path)) else { continue };
            let is_needed = |problem: &Problem| problem.message.starts_with(&format!("{path}:"));
            if *names == EMPTY && problems.iter().any(is_needed) {
                *names = substitutes.clone();
            }
            let left = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            let left: Vec<&str> = left.collect();
            if left.is_empty() && path == PASSES {
                // Without names it is the same as `plan.verified_by`.
            } else if left.is_empty() {
                self.drop_rule(path);
            } else if !path.starts_with(CONTEXT) {
                self.changed.push(format!("`{path}` is {}", list(&left)));
            }
        }
        if let Ok(policy) = serde_json::from_value(whole) {
            self.policy = policy;
        }
    }

    /// If no agent of the pack is left, each sees the reports of those that give a verdict.
    fn context(&mut self, before: &Policy, agents: &[AgentName]) {
        let substitutes = self.substitutes();
        let context = &mut self.policy.context;
        if context.relevant_reports.is_empty() && !before.context.relevant_reports.is_empty() {
            let others = |agent: &AgentName| -> Vec<AgentName> {
                substitutes.iter().filter(|other| *other != agent).cloned().collect()
            };
            context.relevant_reports =
                agents.iter().map(|agent| (agent.clone(), others(agent))).collect();
        }
        if context.finish_ladder.is_empty() && !before.context.finish_ladder.is_empty() {
            context.finish_ladder = agents.to_vec();
        }
    }

    /// The board's agents that give a verdict.
    fn substitutes(&self) -> Vec<AgentName> {
        let apply_to = self.policy.report_rules.apply_to.iter();
        apply_to.filter(|name| **name != FINISH_REVIEW).cloned().collect()
    }

    fn warning(&self) -> Option<Problem> {
        let mut parts = self.changed.clone();
        if !self.dropped.is_empty() {
            parts.push(format!("not checked: {}", self.dropped.join(", ")));
        }
        let message =
            format!("rules were adapted to the agents of this blackboard: {}", parts.join("; "));
        (!parts.is_empty()).then(|| Problem::warning("policy-adapted", message))
    }
}

const EMPTY: Value = Value::Array(Vec::new());

fn pointer(path: &str) -> String {
    path.split('.').map(|part| format!("/{part}")).collect()
}

/// The policy without one of its sections, where it can do without it.
fn without_section(whole: &Value, section: &str) -> Option<Value> {
    let mut less = whole.clone();
    less.as_object_mut()?.remove(section)?;
    serde_json::from_value::<Policy>(less.clone()).ok().map(|_| less)
}
