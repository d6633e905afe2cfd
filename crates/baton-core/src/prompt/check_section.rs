//! Sections of FINISH_CHECK alone: what code knows before the last decision.

use serde_json::Value;

use super::section::Section;
use super::{FinishFacts, GateResult, Injected, stage_in};
use crate::messages::Language;
use crate::plan::Plan;
use crate::policy::{PlanRules, Policy};
use crate::problem::Problem;
use crate::text;

/// The plan's file and what it says.
type PlanRead<'a> = (&'a Injected, Result<Plan, Vec<Problem>>);

impl Section {
    pub(super) fn plan_counts(
        words: Language,
        plan: Option<&PlanRead<'_>>,
        rules: &PlanRules,
    ) -> Section {
        let body = match plan {
            Some((_, Ok(plan))) => {
                let counts = plan.status_counts(rules).into_iter().filter(|(_, count)| *count > 0);
                let counts: Vec<String> =
                    counts.map(|(status, count)| format!("{status} {count}")).collect();
                words.plan_counts(plan.tasks.len(), words.list(&counts))
            }
            Some((_, Err(_))) => words.unreadable_plan(),
            None => words.no_plan(),
        };
        let (title, why) = (words.title_plan_counts(), "how far the plan is");
        let section = Section::plain("plan status counts", &title, &body, why);
        match plan {
            Some((file, _)) => section.from(&file.path),
            None => section,
        }
    }

    /// Names and numbers of what the final check must cover.
    pub(super) fn scope(words: Language, file: &Injected) -> Section {
        let lines: Vec<String> = match serde_json::from_str::<Value>(&file.text) {
            Ok(Value::Object(map)) => {
                let all =
                    map.iter().map(|(key, value)| format!("{key}: {}", outline(words, value)));
                all.take(20).collect()
            }
            Ok(other) => vec![outline(words, &other)],
            Err(error) => vec![words.scope_not_json(&error, error.line(), error.column())],
        };
        let title = words.with_brackets(words.title_scope(), words.summary_of(&file.path));
        let why = "what the last look covers";
        Section::fenced(words, "acceptance scope", &title, &lines.join("\n"), why).from(&file.path)
    }

    pub(super) fn stage_changes(words: Language, facts: &FinishFacts) -> Section {
        let (name, title) = ("stage changes", words.title_stage_changes());
        let why = "files that each stage changed";
        let Some(changes) = &facts.stage_changes else {
            return Section::plain(name, &title, &words.changes_unknown(), why);
        };
        let lines = changes.iter().map(|change| {
            let files: Vec<String> =
                change.files.iter().map(|file| super::file_in(words, file)).collect();
            let files =
                if files.is_empty() { words.no_changed_files() } else { words.list(&files) };
            words.after_colon(stage_in(words, &change.stage), files)
        });
        let lines: Vec<String> = lines.collect();
        let body = if lines.is_empty() { words.changes_none() } else { lines.join("\n") };
        Section::fenced(words, name, &title, &body, why)
    }

    pub(super) fn readiness(
        words: Language,
        plan: Option<&PlanRead<'_>>,
        policy: &Policy,
        facts: &FinishFacts,
    ) -> Section {
        let mut lines = vec![plan_line(words, plan, &policy.plan)];
        match &facts.gates {
            None => lines.push(words.gates_not_run()),
            Some(gates) if gates.is_empty() && policy.gates.is_empty() => {
                lines.push(words.gates_none_set());
            }
            Some(gates) if gates.is_empty() => lines.push(words.gates_none()),
            Some(gates) => lines.extend(gates.iter().map(|gate| gate_lines(words, gate))),
        }
        if !facts.open.is_empty() {
            lines.push(words.finish_would_be_refused(words.clauses(&facts.open)));
        }
        let (title, why) = (words.title_readiness(), "what code checked itself");
        Section::fenced(words, "readiness", &title, &lines.join("\n"), why)
    }
}

fn plan_line(words: Language, plan: Option<&PlanRead<'_>>, rules: &PlanRules) -> String {
    match plan {
        Some((_, Ok(plan))) if plan.is_ready(rules) => words.plan_ready(),
        Some((_, Ok(plan))) => {
            let open = plan.tasks.iter().filter(|task| task.status != rules.final_status);
            let open: Vec<String> =
                open.take(30).map(|task| format!("{} {}", task.id, task.status)).collect();
            let open = if open.is_empty() { words.plan_has_no_task() } else { words.list(&open) };
            words.plan_not_ready(open)
        }
        Some((_, Err(_))) | None => words.plan_not_ready(words.plan_not_read()),
    }
}

/// The result of a gate, and the end of what it printed where it failed.
fn gate_lines(words: Language, gate: &GateResult) -> String {
    let of = stage_in(words, &gate.of);
    match gate.passed {
        true => words.gate_of_run_passed(&gate.command, of),
        false => {
            format!("{}\n{}", words.gate_of_run_failed(&gate.command, of), gate.output.trim_end())
        }
    }
}

fn outline(words: Language, value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let named = items.iter().filter_map(|item| {
                item.as_str().or_else(|| item.get("id").or_else(|| item.get("name"))?.as_str())
            });
            let named: Vec<String> = named.take(10).map(|name| text::shown(name, 60)).collect();
            let named = match named.is_empty() {
                true => String::new(),
                false => words.scope_named(words.clauses(&named)),
            };
            words.scope_items(items.len(), named)
        }
        Value::Object(map) => words.scope_keys(map.len()),
        other => text::shown(&other.to_string(), 120),
    }
}
