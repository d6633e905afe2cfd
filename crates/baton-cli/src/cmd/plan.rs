//! `baton plan check|apply`

use std::path::{Path, PathBuf};

use baton_core::messages::Language;
use baton_core::plan::{self, Finality, Plan, parse_statements};
use baton_runtime::{load, store};
use serde_json::json;
use similar::TextDiff;

use super::rules::{self, Rules};
use super::{Outcome, Place};
use crate::args::{PlanApplyArgs, PlanArgs};
use crate::reply::{Failure, PROTOCOL, Reply, counted, table};

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
    let statements = load::text(Path::new("-"), load::SMALL)
        .map_err(|error| Failure::unreadable("statements", error))?;
    let path = path(place, &args.plan)?;
    // From reading to writing nobody else may change the plan.
    let _lock = store::FolderLock::of_file(&path)?;
    let opened = open(place, &args.plan)?;
    let finality =
        match opened.rules.board.as_ref().filter(|board| place.belongs(&opened.path, board)) {
            Some(board) => board.finality(),
            None => Finality::Refused(
                "the plan lies in no blackboard whose reports could grant it".to_owned(),
            ),
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
        store::write(&opened.path, new.as_bytes())?;
    }
    // A carriage return at a line's end is not worth showing.
    let lines = |text: &str| text.replace("\r\n", "\n");
    let (shown_old, shown_new) = (lines(old), lines(new));
    let diff = TextDiff::from_lines(&shown_old, &shown_new);
    let diff = diff.unified_diff().context_radius(1).header(&opened.name, &opened.name).to_string();
    let summary = if old == new {
        "nothing to change".to_owned()
    } else {
        applied.summary(Language::English)
    };
    let written = if args.dry_run { "would change" } else { "changed" };
    let text = format!("{}{written} {}: {summary}\n", diff, opened.name);
    let json = json!({
        "ok": true,
        "written": !args.dry_run && old != new,
        "changes": applied.changes,
        "added": applied.added,
        "set": applied.set,
        "summary": applied.summary(Language::English),
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

fn path(place: &Place, args: &PlanArgs) -> Result<PathBuf, Failure> {
    match &args.file {
        Some(file) => place.file(file.clone()),
        None => Ok(place.board()?.plan_file()),
    }
}

fn open(place: &Place, args: &PlanArgs) -> Result<Opened, Failure> {
    let path = path(place, args)?;
    let name = path.strip_prefix(&place.folder).unwrap_or(&path).display().to_string();
    let source =
        load::text(&path, plan::MAX_BYTES).map_err(|error| Failure::unreadable(&name, error))?;
    let rules = rules::resolve(place, args.policy.as_deref(), Some(&path), None, &source)?;
    let plan = Plan::read(&source, &rules.policy.plan)
        .map_err(|problems| Failure::problems(PROTOCOL, &name, problems, Some(&source)))?;
    Ok(Opened { path, name, plan, rules })
}
