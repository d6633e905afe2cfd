//! `baton history show|window|check`

use std::path::PathBuf;

use baton_core::history::{self, Kind, Placed};
use baton_core::id::Tokens;
use baton_core::messages::Language;
use baton_core::window::{Ask, Last, Log};
use baton_runtime::gather::HISTORY_BYTES;
use baton_runtime::load;
use serde_json::json;

use super::{Outcome, Place};
use crate::args::{HistoryShowArgs, HistoryWindowArgs};
use crate::reply::{Failure, LIMIT, Reply, counted};

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

pub(super) fn window(place: &Place, args: &HistoryWindowArgs) -> Outcome {
    let (_, source) = open(place, args.file.clone())?;
    let ask = Ask {
        last: Last::Exactly(args.last),
        max_tokens: args.max_tokens.map(Tokens),
        milestones: !args.no_milestones,
        before: None,
        goal: true,
        language: Language::English,
    };
    let window = Log::new(source).window(&ask);
    let is_over = ask.max_tokens.is_some_and(|most| window.total_tokens > most);
    if let Some(most) = ask.max_tokens.filter(|_| is_over) {
        let message =
            format!("{most} tokens are too few: the smallest window has {}", window.total_tokens);
        return Err(Failure::new(LIMIT, message).hint("raise `--max-tokens`"));
    }
    let text = if window.text.is_empty() { "no iterations yet\n" } else { &window.text };
    let mut json = json!({ "ok": true, "text": window.text });
    if let (Some(map), Ok(serde_json::Value::Object(own))) =
        (json.as_object_mut(), serde_json::to_value(&window))
    {
        map.extend(own);
    }
    Ok(Reply::new(baton_core::text::escaped(text), json))
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
        Some(file) => place.file(file)?,
        None => place.board()?.history_file(),
    };
    let name = path.strip_prefix(&place.folder).unwrap_or(&path).display().to_string();
    let text =
        load::text(&path, HISTORY_BYTES).map_err(|error| Failure::unreadable(&name, error))?;
    Ok((name, text))
}
