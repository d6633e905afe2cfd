//! `baton plan check|apply`

use std::path::{Path, PathBuf};

use baton_core::plan::{self, Finality, Plan, parse_statements};
use baton_runtime::{load, store};
use serde_json::json;
use similar::TextDiff;

use super::rules::{self, Rules};
use super::{Outcome, Place};
use crate::args::{PlanApplyArgs, PlanArgs};
use crate::reply::{Failure, PROTOCOL, Reply, USAGE, counted, table};

pub(super) fn check(place: &Place, args: &PlanArgs) -> Outcome {
    let opened = open(place, args)?;
    let rules = &opened.rules.policy.plan;
    let plan = &opened.plan;
    let counts = plan.status_counts(rules);
    let ready = plan.is_ready(rules);
    let mut text = format!(
        "ok: {}: {}, {}, {}\n",
        opened.name,
        counted(plan.milestones.len(), "milestone"),
        counted(plan.tasks.len(), "task"),
        if ready { "ready to finish" } else { "not ready to finish" },
    );
    let rows: Vec<Vec<String>> = plan
        .tasks
        .iter()
        .map(|task| {
            vec![
                format!("  {}", task.id),
                task.status.clone(),
                baton_core::text::shown(&task.title, 80),
            ]
        })
        .collect();
    text.push_str(&table(&rows));
    let json = json!({
        "ok": true,
        "milestones": plan.milestones,
        "tasks": plan.tasks,
        "counts": counts.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "ready": ready,
        "rules": opened.rules.origin,
    });
    let warnings: Vec<_> =
        plan.warnings().into_iter().map(|problem| problem.in_file(&opened.name)).collect();
    Ok(Reply::new(text, json).with_warnings(&warnings))
}

pub(super) fn apply(place: &Place, args: &PlanApplyArgs) -> Outcome {
    let opened = open(place, &args.plan)?;
    let statements = load::text(Path::new("-"), load::SMALL)?;
    let finality = match &opened.rules.board {
        Some(board) => board.finality(),
        None => Finality::Refused("no blackboard here holds a passing report".to_owned()),
    };
    let applied = parse_statements(&statements)
        .and_then(|parsed| opened.plan.updated(&parsed, &opened.rules.policy.plan, &finality))
        .map_err(|problems| {
            Failure::problems(PROTOCOL, "statements", problems, Some(&statements))
                .hint(format!("{} was not changed", opened.name))
        })?;
    let old = opened.plan.text();
    let new = applied.plan.text();
    if !args.dry_run && old != new {
        // Somebody may have saved the file while the statements were being written.
        let now = load::text(&opened.path, plan::MAX_BYTES)?;
        if now != old {
            let message = format!(
                "{} was changed by somebody else meanwhile; nothing was written",
                opened.name
            );
            return Err(Failure::new(USAGE, message).hint("run it again"));
        }
        store::write(&opened.path, new.as_bytes())?;
    }
    let diff = TextDiff::from_lines(old, new);
    let diff = diff.unified_diff().context_radius(1).header(&opened.name, &opened.name).to_string();
    let summary = if old == new { "nothing to change".to_owned() } else { applied.summary() };
    let written = if args.dry_run { "would change" } else { "changed" };
    let text =
        format!("{}{written} {}: {summary}\n", baton_core::text::escaped(&diff), opened.name);
    let json = json!({
        "ok": true,
        "written": !args.dry_run && old != new,
        "changes": applied.changes,
        "added": applied.added,
        "set": applied.set,
        "summary": applied.summary(),
        "diff": diff,
    });
    Ok(Reply::new(text, json))
}

struct Opened {
    path: PathBuf,
    name: String,
    plan: Plan,
    rules: Rules,
}

fn open(place: &Place, args: &PlanArgs) -> Result<Opened, Failure> {
    let path = match &args.file {
        Some(file) => file.clone(),
        None => place.board()?.plan_file(),
    };
    let name = path.strip_prefix(&place.folder).unwrap_or(&path).display().to_string();
    let source = load::text(&path, plan::MAX_BYTES)?;
    let rules = rules::resolve(place, args.policy.as_deref(), Some(&path), None, &source)?;
    let plan = Plan::read(&source, &rules.policy.plan)
        .map_err(|problems| Failure::problems(PROTOCOL, &name, problems, Some(&source)))?;
    Ok(Opened { path, name, plan, rules })
}
