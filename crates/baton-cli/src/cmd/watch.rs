//! `baton status|log|diff|gc|trust`

use std::io::Write;
use std::time::Duration;

use baton_core::decision::Question;
use baton_core::event::{Event, Record};
use baton_core::id::MAIN;
use baton_core::messages::Language;
use baton_core::view::RunState;
use baton_core::workflow::{Phase, State, Totals};
use baton_core::{text, view};
use baton_runtime::board::Board;
use baton_runtime::lock::Lock;
use baton_runtime::model::catalogue::Cost;
use baton_runtime::snapshot::Snapshots;
use baton_runtime::store::Disk;
use baton_runtime::{caches, drive, gates, journal, store, transcript, trust};
use serde_json::json;

use super::run::{failed, is_asked};
use super::{Outcome, Place};
use crate::args::{LogArgs, TrustArgs};
use crate::reply::{Failure, HELD, INTERNAL, Reply, USAGE, counted, table};
use crate::terminal;

pub(super) fn status(place: &Place) -> Outcome {
    let board = place.board()?;
    let Some(run) = drive::last_run(&board).map_err(failed)? else {
        return Ok(no_run(board.pack.words()));
    };
    let own = board.pack.words();
    let state = match drive::look(&board, &run) {
        Err(error @ drive::Error::RulesUnfit { .. }) => {
            let last = records(&board, &run)?.pop();
            let (over, word) = match last.map(|last| last.event) {
                Some(Event::Abandoned) => (RunState::Abandoned, "abandoned"),
                Some(Event::Finished { .. }) => (RunState::Finished, "finished"),
                _ => (RunState::Stopped, "not finished"),
            };
            let text =
                format!("run    {run}\nstate  {word}; its figures cannot be shown: {error}\n");
            return Ok(Reply::new(
                text,
                json!({ "ok": true, "run": run, "state": over, "stands": word }),
            ));
        }
        other => other.map_err(failed)?,
    };
    let all = records(&board, &run)?;
    let prompts: Vec<u64> = all.iter().filter_map(main_prompt).collect();
    let largest = prompts.iter().copied().max().unwrap_or(0);
    let cache = view::cache_figures(&all);
    // A repair loop that is under way has not failed.
    let mut totals = state.budget.totals;
    let is_repairing = state.current.subloop.is_some() && state.current.subloop_end.is_none();
    totals.subloops = totals.subloops.saturating_sub(u32::from(is_repairing));
    let alarms = view::alarms(&totals, largest, cache, own);
    let (run_state, standing) = standing(&board, &state, &all);
    let mut rows = vec![
        vec![own.row_run(), format!("{run}: {}", text::shown(state.origin.task.trim(), 120))],
        vec![own.row_state(), standing.clone()],
    ];
    rows.extend(figures(&state, own));
    let void: Vec<String> = (state.reports.passes.void.keys())
        .filter(|_| run_state != RunState::Finished)
        .filter_map(|agent| state.counted_pass(agent, own).err())
        .collect();
    rows.extend(void.iter().map(|why| vec![own.row_void(), text::shown(why, 300)]));
    let overridden = state.reports.overridden.iter();
    rows.extend(overridden.map(|line| vec![own.row_override(), text::shown(line, 300)]));
    let mean = prompts.iter().sum::<u64>() / prompts.len().max(1) as u64;
    if !prompts.is_empty() {
        let value = own.prompt_sizes(kilobytes(mean), kilobytes(largest));
        rows.push(vec![own.row_prompt(), value]);
    }
    if cache.hits + cache.extracted > 0 {
        let mut value = own.summary_figures(cache.hits, cache.extracted);
        if cache.failures > 0 {
            value.push_str(&own.failed_figures(cache.failures));
        }
        rows.push(vec![own.row_summaries(), value]);
    }
    let mut out = table(&rows);
    for alarm in &alarms {
        let line = match alarm.is_warning {
            true => own.warning_line(&alarm.text),
            false => own.info_line(&alarm.text),
        };
        out.push_str(&format!("{line}\n"));
    }
    let question = open_question(&state, &all);
    if let Some((number, question)) = &question {
        out.push_str(&format!("\n{}", asked_text(*number, question, own)));
    }
    let alarm = |alarm: &view::Alarm| json!({ "warning": alarm.is_warning, "text": alarm.text });
    let alarms: Vec<_> = alarms.iter().map(alarm).collect();
    let question = question.map(|(number, question)| asked_json(number, question));
    let stopped = state.stopped.as_ref().filter(|_| run_state != RunState::Abandoned);
    let json = json!({ "ok": true, "run": run, "state": run_state, "stands": standing, "question": question, "iteration": state.iteration, "totals": state.budget.totals, "limits": state.budget.limits, "stopped": stopped, "void_passes": void, "override": state.reports.overridden, "alarms": alarms });
    Ok(Reply::new(out, json))
}

/// A blackboard on which nothing ran yet, an older one for instance.
fn no_run(own: Language) -> Reply {
    let text = own.no_run_yet() + "\n";
    Reply::new(text, json!({ "ok": true, "run": null }))
}

/// The state of a run, in one word and in a sentence.
fn standing(board: &Board, state: &State, all: &[Record]) -> (RunState, String) {
    let path = drive::lock_path(board);
    let is_alive = Lock::holder(&path).is_some();
    let holder = Lock::last_holder(&path);
    let pid = holder.as_ref().and_then(|own| own.pid).map(|pid| pid.to_string());
    let since = holder.as_ref().and_then(|own| own.since.as_deref());
    let has_left = drive::has_left(board, state);
    let worker = view::Worker { pid: pid.as_deref(), since, is_alive, has_left };
    let run_state = RunState::of(state, all.last().map(|record| &record.event), &worker);
    (run_state, run_state.sentence(state, &worker, board.pack.words()))
}

/// The question that waits for its answer, with its number in the run, from 1.
pub(super) fn open_question<'a>(state: &'a State, all: &[Record]) -> Option<(usize, &'a Question)> {
    let asked = all.iter().filter(|own| matches!(own.event, Event::Asked { .. })).count();
    match &state.phase {
        Phase::Waiting { question, .. } => Some((asked, question)),
        Phase::Ask { question, .. } => Some((asked + 1, question)),
        _ => None,
    }
}

/// An open question and how to answer it.
pub(super) fn asked_text(number: usize, question: &Question, own: Language) -> String {
    let words: Vec<String> = (1..=question.options.len()).map(|own| own.to_string()).collect();
    let ids: Vec<&str> = question.options.iter().map(|own| own.option_id.as_str()).collect();
    format!(
        "{}\n{}{}\n",
        own.waiting_for_answer(number),
        view::question(question, own),
        own.how_to_answer(words.join("|"), ids.join("|"))
    )
}

fn asked_json(number: usize, question: &Question) -> serde_json::Value {
    let options: Vec<_> = (question.options.iter().enumerate())
        .map(|(index, option)| json!({ "number": index + 1, "option_id": option.option_id, "description": option.description, "recommended": question.is_recommended(option) }))
        .collect();
    json!({ "number": number, "title": question.title, "text": question.text, "options": options, "recommended_option_id": question.recommended_option_id })
}

fn kilobytes(bytes: u64) -> String {
    format!("{:.1} kB", bytes as f64 / 1e3)
}

/// Bytes of a prompt of MAIN.
fn main_prompt(record: &Record) -> Option<u64> {
    match &record.event {
        Event::StageStarted(started) if started.stage.name == baton_core::id::MAIN => {
            started.ledger.as_ref().map(|ledger| ledger.bytes)
        }
        _ => None,
    }
}

/// Rows for the figures of a run; those that are zero are left out.
fn figures(state: &State, own: Language) -> Vec<Vec<String>> {
    let totals = &state.budget.totals;
    let seconds = |milliseconds: u64| own.seconds(format!("{:.1}", milliseconds as f64 / 1e3));
    let count = |count: u32, thing: &str| counted(count as usize, thing);
    let mut rows = Vec::new();
    let mut row = |name: String, is_shown: bool, value: String| {
        if is_shown {
            rows.push(vec![name, value]);
        }
    };
    let (iteration, most) = (state.iteration, state.budget.limits.iterations);
    row(own.row_iteration(), true, own.iteration_used(iteration, totals.iterations, most));
    let decisions = count(totals.main_calls, "decision");
    let mut kinds = vec![own.decisions_of(decisions, totals.main_calls, MAIN)];
    if totals.decided_by_rule > 0 {
        kinds.push(own.decisions_by_rule(totals.decided_by_rule));
    }
    if totals.corrections > 0 {
        kinds.push(own.corrections(count(totals.corrections, "correction"), totals.corrections));
    }
    let stages = format!("{}{}", totals.stages, own.aside(own.list(&kinds)));
    row(own.row_stages(), totals.stages > 0, stages);
    row(own.row_time(), totals.milliseconds > 0, seconds(totals.milliseconds));
    let tokens = match totals.uncounted {
        0 => totals.tokens.to_string(),
        _ => own.counted_tokens(totals.tokens),
    };
    let cached = match totals.cached {
        0 => String::new(),
        cached => own.from_cache(cached),
    };
    row(own.row_tokens(), totals.tokens > 0, format!("{tokens}{cached}"));
    row(own.row_cost(), totals.stages > 0, cost(totals, own));
    let loops = own.subloop_figures(
        totals.subloops,
        count(totals.tester_runs, "run"),
        totals.tester_runs,
        totals.subloops_passed,
        seconds(totals.subloop_milliseconds),
        own.decisions_saved(count(totals.main_calls_saved, "decision"), totals.main_calls_saved),
    );
    row(own.row_subloops(), totals.subloops > 0, loops);
    let (passes, finishes) = (totals.passes_overturned, totals.finishes_overturned);
    let plural = |count: u32, one: &str, more: &str| {
        format!("{count} {}", if count == 1 { one } else { more })
    };
    let overturned = own.overturned_figures(
        plural(passes, "pass", "passes"),
        plural(finishes, "finish", "finishes"),
        passes,
        finishes,
    );
    row(own.row_overturned(), passes + finishes > 0, overturned);
    rows
}

/// The cost of a run, as far as it is known.
pub(super) fn cost(totals: &Totals, own: Language) -> String {
    match totals.unknown_costs {
        0 => Cost(totals.cost).to_string(),
        _ if totals.cost == 0 => own.unknown(),
        unknown => {
            let stages = counted(unknown as usize, "stage");
            own.cost_at_least(Cost(totals.cost), stages, unknown)
        }
    }
}

pub(super) fn records(board: &Board, run: &str) -> Result<Vec<Record>, Failure> {
    journal::records(&drive::journal_folder(board, run)).map_err(|error| failed(error.into()))
}

pub(super) fn run_named(board: &Board, name: Option<&String>) -> Result<String, Failure> {
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
    if args.run.is_none() && drive::last_run(&board).map_err(failed)?.is_none() {
        return Ok(no_run(board.pack.words()));
    }
    let run = run_named(&board, args.run.as_ref())?;
    let own = board.pack.words();
    let mut teller = view::Teller::new(board.pack.manifest.agent_names()).speaking(own);
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
        let is_told = all.last().is_some_and(|last| {
            matches!(last.event, Event::Finished { .. } | Event::Stopped { .. } | Event::Abandoned)
        });
        if let Some(stop) = stopped.as_ref().filter(|_| !is_told && !place.json && !args.lines) {
            out.push_str(&format!("{}\n", own.stopped(text::shown(stop.why(), 300))));
        }
        let is_over = stopped.is_some() || is_told;
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
pub(super) fn span(all: &[Record], iteration: Option<u32>) -> Option<(String, Option<String>)> {
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
    let project = drive::project_of(&board.root);
    let snapshots = Snapshots::new(&project, &board.root, Disk::default());
    let snapshot_failed =
        |error: baton_runtime::snapshot::Error| Failure::new(INTERNAL, error.to_string());
    let (names, mut out) = snapshots.diff(&before, &after).map_err(snapshot_failed)?;
    if out.is_empty() {
        out.push_str("nothing changed\n");
    }
    Ok(Reply::new(out.clone(), json!({ "ok": true, "files": names, "diff": out })))
}

/// Snapshots that no run needs any more. A run that is not finished needs all of its own.
pub(super) fn gc(place: &Place, days: u32, is_dry: bool) -> Outcome {
    let board = place.board()?;
    if let Some(holder) = Lock::holder(&drive::lock_path(&board)) {
        return Err(Failure::new(HELD, format!("a run is running in {holder}")));
    }
    let oldest = drive::now().0.saturating_sub(u64::from(days) * 86_400);
    let runs =
        journal::runs(&board.root).map_err(|error| Failure::new(INTERNAL, error.to_string()))?;
    let mut wanted = std::collections::BTreeSet::new();
    let mut transcripts = (0, 0);
    let mut logs = std::collections::BTreeSet::new();
    for run in &runs {
        let all = records(&board, run)?;
        let is_over = all.last().is_some_and(|last| {
            matches!(last.event, Event::Finished { .. } | Event::Abandoned) && last.time.0 < oldest
        });
        if is_over {
            let (count, bytes) = transcript::prune(&board.root, run, is_dry);
            transcripts = (transcripts.0 + count, transcripts.1 + bytes);
            logs.extend(all.iter().filter_map(gate_log));
            continue;
        }
        for record in &all {
            let (snapshot, project) = match &record.event {
                Event::StageStarted(own) => (&own.snapshot, &own.project),
                Event::StageEnded(own) => (&own.snapshot, &own.project),
                Event::Resumed { project, .. } => (&None, project),
                _ => continue,
            };
            wanted.extend(snapshot.clone());
            wanted.extend(project.as_ref().map(|own| own.snapshot.clone()));
        }
    }
    let project = drive::project_of(&board.root);
    let snapshots = Snapshots::new(&project, &board.root, Disk::default());
    let pruned = snapshots.prune(&wanted, is_dry);
    let (count, bytes) = pruned.map_err(|error| Failure::new(INTERNAL, error.to_string()))?;
    logs.retain(|name| board.root.join(gates::LOGS).join(name).is_file());
    for name in logs.iter().filter(|_| !is_dry) {
        store::remove(&board.root.join(gates::LOGS).join(name))?;
    }
    let has_cache = caches::is_there(&project, &place.environment);
    if !is_dry {
        caches::remove(&project, &place.environment);
    }
    let would = if is_dry { "would be removed" } else { "removed" };
    let mut text = format!(
        "{count} snapshots {would}, {:.1} MB; {} are kept\n{} transcripts {would}, {:.1} MB\n",
        bytes as f64 / 1e6,
        wanted.len(),
        transcripts.0,
        transcripts.1 as f64 / 1e6,
    );
    if !logs.is_empty() {
        text.push_str(&format!("{} of gates {would}\n", counted(logs.len(), "output")));
    }
    if has_cache {
        text.push_str(&format!("the caches of gates and agents {would}\n"));
    }
    Ok(Reply::new(
        text,
        json!({ "ok": true, "snapshots": count, "bytes": bytes, "kept": wanted.len(), "transcripts": transcripts.0, "gate_outputs": logs.len() }),
    ))
}

/// The name of the file that keeps a gate's output. A journal may have come with a project: it names
/// no other file.
fn gate_log(record: &Record) -> Option<String> {
    let Event::GateEnded { log: Some(log), .. } = &record.event else { return None };
    let name = log.rsplit('/').next()?.to_owned();
    let is_plain = |c: char| c.is_ascii_digit() || c == '_';
    name.strip_suffix(".log").is_some_and(|stem| stem.chars().all(is_plain)).then_some(name)
}

pub(super) fn trust(place: &Place, args: &TrustArgs) -> Outcome {
    let board = place.board()?;
    let environment = &place.environment;
    if args.revoke {
        let was = trust::revoke(&board, environment)?;
        let text = match was {
            true => "taken back; `baton trust` agrees again\n",
            false => "you had agreed to nothing here\n",
        };
        return Ok(Reply::new(text, json!({ "ok": true, "revoked": was })));
    }
    let commands = trust::commands(&board)?;
    let list: String = commands.iter().map(|command| format!("  {command}\n")).collect();
    if commands.is_empty() {
        let text = "the blackboard's files name no command; there is nothing to agree to\n";
        return Ok(Reply::new(text, json!({ "ok": true, "commands": commands, "trusted": true })));
    }
    let is_agreed = trust::is_trusted(&board, environment)?;
    if args.list || !is_agreed && is_refused(place, &list) {
        let word = if is_agreed { "agreed" } else { "not agreed" };
        let text = format!("{word} to:\n{list}");
        return Ok(Reply::new(
            text,
            json!({ "ok": true, "commands": commands, "trusted": is_agreed }),
        ));
    }
    trust::trust(&board, environment)?;
    let text = format!("agreed to exactly these, until one of them changes:\n{list}");
    Ok(Reply::new(text, json!({ "ok": true, "commands": commands, "trusted": true })))
}

/// Shows the commands and asks, where there is a terminal.
fn is_refused(place: &Place, list: &str) -> bool {
    let question = format!("The blackboard's files name:\n{}Agree? [y/N] ", text::escaped(list));
    is_asked(place) && !terminal::agrees(&question)
}
