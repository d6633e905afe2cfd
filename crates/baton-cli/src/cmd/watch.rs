//! `baton status|log|diff|undo|gc|trust`

use std::io::Write;
use std::time::Duration;

use baton_core::event::{Event, Record};
use baton_core::workflow::State;
use baton_core::{text, view};
use baton_runtime::board::Board;
use baton_runtime::lock::Lock;
use baton_runtime::model::catalogue::Cost;
use baton_runtime::snapshot::Snapshots;
use baton_runtime::store::Disk;
use baton_runtime::{drive, journal, transcript};
use serde_json::json;

use super::run::failed;
use super::{Outcome, Place};
use crate::args::LogArgs;
use crate::reply::{Failure, HELD, INTERNAL, Reply, USAGE, table};

pub(super) fn status(place: &Place) -> Outcome {
    let board = place.board()?;
    let Some(run) = drive::last_run(&board).map_err(failed)? else {
        let text = "no run yet; `baton run \"task\"` begins one\n";
        return Ok(Reply::new(text, json!({ "ok": true, "run": null })));
    };
    let state = match drive::look(&board, &run) {
        Err(error @ drive::Error::RulesUnfit { .. }) => {
            let is_over = drive::is_over(&board, &run).map_err(failed)?;
            let stands = if is_over { "over" } else { "not finished" };
            let text = format!("run     {run}\nstands  {stands}; no figures: {error}\n");
            return Ok(Reply::new(text, json!({ "ok": true, "run": run, "stands": stands })));
        }
        other => other.map_err(failed)?,
    };
    let all = records(&board, &run)?;
    let prompts: Vec<u64> = all.iter().filter_map(main_prompt).collect();
    let largest = prompts.iter().copied().max().unwrap_or(0);
    let alarms = view::alarms(&state.totals, largest, view::cache_figures(&all));
    let standing = match Lock::holder(&drive::lock_path(&board)) {
        Some(holder) => format!("goes on in {holder}"),
        None => view::standing(&state),
    };
    let mut rows = vec![
        vec!["run".to_owned(), format!("{run}: {}", text::shown(state.task.trim(), 120))],
        vec!["stands".to_owned(), standing.clone()],
    ];
    rows.extend(figures(&state));
    let mean = prompts.iter().sum::<u64>() / prompts.len().max(1) as u64;
    rows.push(vec![
        "MAIN's prompt".to_owned(),
        format!("{mean} bytes in the mean, {largest} at most"),
    ]);
    let cache = view::cache_figures(&all);
    rows.push(vec![
        "summaries".to_owned(),
        format!("{} from the cache, {} made", cache.hits, cache.extracted),
    ]);
    let mut out = table(&rows);
    for alarm in &alarms {
        let kind = if alarm.is_warning { "warning" } else { "info" };
        out.push_str(&format!("{kind}: {}\n", alarm.text));
    }
    let alarm = |alarm: &view::Alarm| json!({ "warning": alarm.is_warning, "text": alarm.text });
    let alarms: Vec<_> = alarms.iter().map(alarm).collect();
    let json = json!({ "ok": true, "run": run, "stands": standing, "iteration": state.iteration, "totals": state.totals, "limits": state.limits, "stopped": state.stopped, "alarms": alarms });
    Ok(Reply::new(out, json))
}

/// Bytes of a prompt of MAIN.
fn main_prompt(record: &Record) -> Option<u64> {
    match &record.event {
        Event::StageStarted(started) if started.stage.name == baton_core::id::MAIN => {
            started.ledger.as_ref()?["bytes"].as_u64()
        }
        _ => None,
    }
}

fn figures(state: &State) -> Vec<Vec<String>> {
    let totals = &state.totals;
    let seconds = |milliseconds: u64| format!("{:.1} s", milliseconds as f64 / 1e3);
    let known = if totals.unknown_costs > 0 { "at least " } else { "" };
    let counted = if totals.uncounted > 0 { " counted" } else { "" };
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    vec![
        row(
            "iteration",
            format!(
                "{} ({} of {} used)",
                state.iteration, totals.iterations, state.limits.iterations
            ),
        ),
        row(
            "stages",
            format!(
                "{} ({} decisions of MAIN, {} corrections)",
                totals.stages, totals.main_calls, totals.corrections
            ),
        ),
        row("time", seconds(totals.milliseconds)),
        row("tokens", format!("{}{counted} ({} from a cache)", totals.tokens, totals.cached)),
        row("cost", format!("{known}{}", Cost(totals.cost))),
        row(
            "sub-loops",
            format!(
                "{} entered in {} runs of the tester, {} repaired, {}, {} decisions saved",
                totals.subloops,
                totals.tester_runs,
                totals.subloops_passed,
                seconds(totals.subloop_milliseconds),
                totals.main_calls_saved
            ),
        ),
        row(
            "overturned",
            format!("{} passes, {} finishes", totals.passes_overturned, totals.finishes_overturned),
        ),
    ]
}

fn records(board: &Board, run: &str) -> Result<Vec<Record>, Failure> {
    journal::records(&drive::journal_folder(board, run)).map_err(|error| failed(error.into()))
}

fn run_named(board: &Board, name: Option<&String>) -> Result<String, Failure> {
    match name {
        Some(name) => {
            let runs = journal::runs(&board.root)
                .map_err(|error| Failure::new(INTERNAL, error.to_string()))?;
            if runs.contains(name) {
                return Ok(name.clone());
            }
            let message = format!("there is no run `{}`", text::shown(name, 40));
            Err(Failure::new(USAGE, message)
                .hint(format!("known are {}", baton_core::problem::list(&runs))))
        }
        None => drive::last_run(board).map_err(failed)?.ok_or_else(|| {
            Failure::new(USAGE, "no run yet").hint("`baton run \"task\"` begins one")
        }),
    }
}

pub(super) fn log(place: &Place, args: &LogArgs) -> Outcome {
    let board = place.board()?;
    let run = run_named(&board, args.run.as_ref())?;
    let mut teller = view::Teller::new(board.pack.manifest.agent_names());
    let mut shown = 0;
    loop {
        let all = records(&board, &run)?;
        let mut out = String::new();
        for record in &all[shown.min(all.len())..] {
            let line = teller.line(record);
            let lines = match args.lines {
                true => view::log_lines(record, teller.iteration()),
                false => line.into_iter().collect(),
            };
            if place.json {
                let record = serde_json::to_string(record).unwrap_or_default();
                out.push_str(&format!("{record}\n"));
                continue;
            }
            for line in lines {
                out.push_str(&format!("{}  {line}\n", record.time));
            }
        }
        shown = all.len();
        // What stopped a run may stand in its state alone.
        let stopped = drive::look(&board, &run).ok().and_then(|state| state.stopped);
        let has_line = all.last().is_some_and(|last| matches!(last.event, Event::Stopped { .. }));
        if let Some(stop) = stopped.as_ref().filter(|_| !has_line && !place.json && !args.lines) {
            out.push_str(&format!("stopped: {}\n", text::shown(stop.why(), 300)));
        }
        let is_over = stopped.is_some()
            || all.last().is_some_and(|last| {
                matches!(
                    last.event,
                    Event::Finished { .. } | Event::Stopped { .. } | Event::Abandoned
                )
            });
        if !args.follow {
            let json = json!({ "ok": true, "run": run, "records": all });
            let text = if place.json { String::new() } else { out };
            return Ok(Reply::new(text, json));
        }
        // Whoever reads may have read enough.
        if write!(std::io::stdout(), "{}", text::escaped(&out)).is_err() || is_over {
            return Ok(Reply::new("", json!({ "ok": true, "run": run })));
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Snapshots before and after the stages of an iteration, or of the run.
fn span(all: &[Record], iteration: Option<u32>) -> Option<(String, Option<String>)> {
    let is_wanted = |own: u32| iteration.is_none_or(|wanted| own == wanted);
    let mut first = None;
    let mut last = None;
    for record in all {
        match &record.event {
            Event::StageStarted(started) if is_wanted(started.stage.iteration.0) => {
                first = first.or_else(|| started.snapshot.clone());
            }
            Event::StageEnded(ended) if is_wanted(ended.stage.iteration.0) => {
                last = ended.snapshot.clone().or(last);
            }
            _ => {}
        }
    }
    first.map(|first| (first, last))
}

pub(super) fn diff(place: &Place, iteration: Option<u32>) -> Outcome {
    let board = place.board()?;
    let run = run_named(&board, None)?;
    let all = records(&board, &run)?;
    let Some((before, Some(after))) = span(&all, iteration) else {
        return Ok(Reply::new(
            "no stage that writes has ended there\n",
            json!({ "ok": true, "files": [] }),
        ));
    };
    let snapshots = Snapshots::new(&drive::project_of(&board.root), &board.root, Disk::default());
    let snapshot_failed =
        |error: baton_runtime::snapshot::Error| Failure::new(INTERNAL, error.to_string());
    let names = snapshots.changed(&before, &after).map_err(snapshot_failed)?;
    let (old, new) = (
        snapshots.manifest(&before).map_err(snapshot_failed)?,
        snapshots.manifest(&after).map_err(snapshot_failed)?,
    );
    let mut out = String::new();
    for name in &names {
        let content =
            |manifest: &baton_runtime::snapshot::Manifest| -> Result<Option<String>, Failure> {
                let Some(entry) = manifest.files.get(name) else { return Ok(None) };
                let bytes = snapshots.content(&entry.hash).map_err(snapshot_failed)?;
                Ok(Some(String::from_utf8(bytes).unwrap_or_else(|_| "(not text)\n".to_owned())))
            };
        let (a, b) = (content(&old)?, content(&new)?);
        let label = |text: &Option<String>, side: &str| {
            if text.is_some() { format!("{side}/{name}") } else { "/dev/null".to_owned() }
        };
        let headers = (label(&a, "a"), label(&b, "b"));
        let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
        let diff = similar::TextDiff::from_lines(&a, &b);
        out.push_str(&diff.unified_diff().header(&headers.0, &headers.1).to_string());
    }
    if out.is_empty() {
        out.push_str("nothing changed\n");
    }
    Ok(Reply::new(out.clone(), json!({ "ok": true, "files": names, "diff": out })))
}

pub(super) fn undo(place: &Place, iteration: Option<u32>, snapshot: Option<&str>) -> Outcome {
    let board = place.board()?;
    let run = run_named(&board, None)?;
    if let Some(holder) = Lock::holder(&drive::lock_path(&board)) {
        return Err(
            Failure::new(HELD, format!("the run goes on in {holder}")).hint("`baton stop` first")
        );
    }
    let (before, what) = match (snapshot, iteration) {
        (Some(id), _) if !id.chars().all(|c| c.is_ascii_hexdigit()) => {
            let message = format!("`{}` is no name of a snapshot", text::shown(id, 40));
            return Err(Failure::new(USAGE, message).hint("32 hexadecimal digits, as Baton said"));
        }
        (Some(id), _) => (id.to_owned(), format!("in snapshot {id}")),
        (None, iteration) => {
            let iteration = iteration.unwrap_or(1);
            let Some((before, _)) = span(&records(&board, &run)?, Some(iteration)) else {
                let message = format!("no stage of iteration {iteration} could write");
                return Err(Failure::new(USAGE, message).hint("`baton log` shows the iterations"));
            };
            (before, format!("before iteration {iteration}"))
        }
    };
    let mut snapshots =
        Snapshots::new(&drive::project_of(&board.root), &board.root, Disk::default());
    let snapshot_failed =
        |error: baton_runtime::snapshot::Error| Failure::new(INTERNAL, error.to_string());
    // A name that is wrong must not cost anything.
    snapshots.manifest(&before).map_err(snapshot_failed)?;
    // What is there now can be had back.
    let kept = snapshots.take().map_err(snapshot_failed)?;
    let files = snapshots.restore(&before).map_err(snapshot_failed)?;
    let text = format!(
        "{} files are as they were {what}; what was there is kept as snapshot {kept} (`baton undo --snapshot {kept}`)\nfiles that git ignores are not covered\n",
        files.len()
    );
    Ok(Reply::new(text, json!({ "ok": true, "files": files, "kept": kept })))
}

/// Snapshots that no run needs any more. A run that is not finished needs all of its own.
pub(super) fn gc(place: &Place, days: u32, is_dry: bool) -> Outcome {
    let board = place.board()?;
    if let Some(holder) = Lock::holder(&drive::lock_path(&board)) {
        return Err(Failure::new(HELD, format!("a run goes on in {holder}")));
    }
    let oldest = drive::now().0.saturating_sub(u64::from(days) * 86_400);
    let runs =
        journal::runs(&board.root).map_err(|error| Failure::new(INTERNAL, error.to_string()))?;
    let mut wanted = std::collections::BTreeSet::new();
    let mut transcripts = (0, 0);
    for run in &runs {
        let all = records(&board, run)?;
        let is_over = all.last().is_some_and(|last| {
            matches!(last.event, Event::Finished { .. } | Event::Abandoned) && last.time.0 < oldest
        });
        if is_over {
            let (count, bytes) = transcript::prune(&board.root, run, is_dry);
            transcripts = (transcripts.0 + count, transcripts.1 + bytes);
            continue;
        }
        wanted.extend(all.iter().filter_map(|record| match &record.event {
            Event::StageStarted(started) => started.snapshot.clone(),
            Event::StageEnded(ended) => ended.snapshot.clone(),
            _ => None,
        }));
    }
    let snapshots = Snapshots::new(&drive::project_of(&board.root), &board.root, Disk::default());
    let pruned = snapshots.prune(&wanted, is_dry);
    let (count, bytes) = pruned.map_err(|error| Failure::new(INTERNAL, error.to_string()))?;
    let would = if is_dry { "would be removed" } else { "removed" };
    let text = format!(
        "{count} snapshots {would}, {:.1} MB; {} are kept\n{} transcripts {would}, {:.1} MB\n",
        bytes as f64 / 1e6,
        wanted.len(),
        transcripts.0,
        transcripts.1 as f64 / 1e6,
    );
    Ok(Reply::new(
        text,
        json!({ "ok": true, "snapshots": count, "bytes": bytes, "kept": wanted.len(), "transcripts": transcripts.0 }),
    ))
}

pub(super) fn trust(place: &Place) -> Outcome {
    let board = place.board()?;
    let commands = baton_runtime::trust::trust(&board, &place.environment)?;
    let list: String = commands.iter().map(|command| format!("  {command}\n")).collect();
    let text = match commands.is_empty() {
        true => "the blackboard's files name no command; there is nothing to agree to\n".to_owned(),
        false => format!("agreed to exactly these, until one of them changes:\n{list}"),
    };
    Ok(Reply::new(text, json!({ "ok": true, "commands": commands })))
}
