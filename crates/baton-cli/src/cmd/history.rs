//! `baton history show|check`

use std::path::PathBuf;

use baton_core::history::{self, Kind, Placed};
use baton_runtime::load;
use serde_json::json;

use super::{Outcome, Place};
use crate::args::HistoryShowArgs;
use crate::reply::{Failure, Reply, counted};

/// A history grows for years; this is only a guard against a wrong file.
const MAX_BYTES: u64 = 256 << 20;

pub(super) fn show(place: &Place, args: &HistoryShowArgs) -> Outcome {
    let (_, source) = open(place, args.file.clone())?;
    let blocks = history::read(&source);
    let wanted: Vec<&Placed<'_>> =
        blocks.iter().filter(|placed| !args.milestones || placed.is_milestone()).collect();
    let skipped = wanted.len().saturating_sub(args.last.unwrap_or(usize::MAX));
    let shown = &wanted[skipped..];
    let mut out = String::new();
    for placed in shown {
        out.push_str(placed.source.replace("\r\n", "\n").trim_end());
        out.push_str("\n\n");
    }
    if shown.is_empty() {
        out.push_str("no entries yet\n");
    }
    let entries: Vec<_> =
        shown.iter().filter(|_| place.json).map(|placed| placed.block()).collect();
    Ok(Reply::new(out, json!({ "ok": true, "entries": entries, "skipped": skipped })))
}

pub(super) fn check(place: &Place, file: Option<PathBuf>) -> Outcome {
    let (name, source) = open(place, file)?;
    let blocks = history::read(&source);
    let count = |kind: Kind| blocks.iter().filter(|placed| placed.kind() == kind).count();
    let goals = count(Kind::TaskGoal);
    let iterations = count(Kind::Iteration);
    let decisions = count(Kind::UserDecision);
    let milestones = blocks.iter().filter(|placed| placed.is_milestone()).count();
    let text = format!(
        "ok: {name}: {} ({}), {}, {}\n",
        counted(iterations, "iteration"),
        counted(milestones, "milestone"),
        counted(goals, "task goal"),
        counted(decisions, "user decision"),
    );
    let json = json!({
        "ok": true,
        "iterations": iterations,
        "milestones": milestones,
        "task_goals": goals,
        "user_decisions": decisions,
    });
    let problems: Vec<_> =
        history::check(&blocks).into_iter().map(|problem| problem.in_file(&name)).collect();
    Ok(Reply::new(text, json).with_warnings(&problems))
}

fn open(place: &Place, file: Option<PathBuf>) -> Result<(String, String), Failure> {
    let path = match file {
        Some(file) => file,
        None => place.board()?.history_file(),
    };
    let name = path.strip_prefix(&place.folder).unwrap_or(&path).display().to_string();
    let text = load::text(&path, MAX_BYTES).map_err(|error| Failure::unreadable(&name, error))?;
    Ok((name, text))
}
