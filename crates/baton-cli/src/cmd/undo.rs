//! `baton undo`: the project as it was before an iteration of a run, or before a turn of exec or chat.

use std::collections::BTreeSet;
use std::path::PathBuf;

use baton_core::event::{Event, Record};
use baton_core::id::Timestamp;
use baton_core::text;
use baton_runtime::board::Board;
use baton_runtime::lock::Lock;
use baton_runtime::snapshot::{self, Snapshots};
use baton_runtime::store::Disk;
use baton_runtime::turns::{self, Turns};
use baton_runtime::{drive, git, walk};
use serde_json::json;

use super::watch::{records, run_named, span};
use super::{Outcome, Place};
use crate::args::UndoArgs;
use crate::reply::{Failure, HELD, INTERNAL, Reply, USAGE, counted};

/// A snapshot that is wanted back, and those that it is one of.
struct Wanted {
    snapshots: Snapshots,
    id: String,
    /// Which one it is, for the user.
    when: String,
    /// Printed after it.
    more: Vec<String>,
}

pub(super) fn undo(place: &Place, args: &UndoArgs) -> Outcome {
    let board = place.board_path()?.map(|path| place.opened(&path)).transpose()?;
    if let Some(board) = &board
        && let Some(holder) = Lock::holder(&drive::lock_path(board))
    {
        let failure = Failure::new(HELD, format!("the run is still running in {holder}"));
        return Err(failure.hint("`baton stop` first"));
    }
    let mut wanted = match (&args.snapshot, args.iteration) {
        (Some(id), _) => of_name(place, board.as_ref(), id)?,
        (None, Some(iteration)) => {
            of_iteration(place, board.as_ref().ok_or_else(|| place.no_board())?, iteration)?
        }
        (None, None) => of_turn(place, board.as_ref(), args.turns)?,
    };
    match args.dry_run {
        true => listed(&mut wanted),
        false => done(&mut wanted),
    }
}

fn failed(error: snapshot::Error) -> Failure {
    Failure::new(INTERNAL, error.to_string())
}

fn of_run(place: &Place, board: &Board) -> Snapshots {
    let project = drive::project_of(&board.root);
    let mut snapshots = Snapshots::new(&project, &board.root, Disk::default());
    snapshots = snapshots.with_git(&place.environment);
    if let Ok(Some(run)) = drive::last_run(board)
        && let Ok(state) = drive::look(board, &run)
    {
        snapshots.named_outputs = state.origin.outputs;
    }
    snapshots
}

/// The turns of `exec` and `chat` in the project that the user is in.
fn turns_here(place: &Place, board: Option<&Board>) -> Option<Turns> {
    let folder = std::fs::canonicalize(&place.folder).ok()?;
    let project = git::top(&folder).unwrap_or(folder);
    let kept = turns::folder_of(&project, &place.environment)?;
    let root: Option<PathBuf> = board.map(|board| board.root.clone());
    Some(Turns::new(&project, root.as_deref(), &kept, &place.environment))
}

fn of_name(place: &Place, board: Option<&Board>, id: &str) -> Result<Wanted, Failure> {
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_hexdigit()) {
        let message = format!("`{}` is not the name of a snapshot", text::shown(id, 40));
        return Err(Failure::new(USAGE, message).hint("it has 32 hexadecimal digits"));
    }
    let own = turns_here(place, board).map(|turns| turns.snapshots());
    let all = board.map(|board| of_run(place, board)).into_iter().chain(own);
    let mut all: Vec<Snapshots> = all.collect();
    let found = all.iter().position(|own| own.manifest(id).is_ok()).unwrap_or(0);
    if all.is_empty() {
        return Err(place.no_board());
    }
    let when = format!("in snapshot {id}");
    let snapshots = all.swap_remove(found);
    Ok(Wanted { snapshots, id: id.to_owned(), when, more: Vec::new() })
}

fn of_iteration(place: &Place, board: &Board, iteration: u32) -> Result<Wanted, Failure> {
    let run = run_named(board, None)?;
    let Some((id, _)) = span(&records(board, &run)?, Some(iteration)) else {
        let message = format!("no stage of iteration {iteration} could write");
        return Err(Failure::new(USAGE, message).hint("`baton log` shows the iterations"));
    };
    let when = format!("before iteration {iteration}");
    Ok(Wanted { snapshots: of_run(place, board), id, when, more: Vec::new() })
}

fn of_turn(place: &Place, board: Option<&Board>, count: Option<u32>) -> Result<Wanted, Failure> {
    let turns = turns_here(place, board);
    let all = turns.as_ref().map(Turns::list).unwrap_or_default();
    let count_asked = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
    let (Some(turns), Some(index)) = (turns, all.len().checked_sub(count_asked)) else {
        let message = match all.len() {
            0 => "no turn of exec or chat changed this project".to_owned(),
            known => format!("only {} of exec and chat can be undone", counted(known, "turn")),
        };
        let hint = "`baton undo ITERATION` undoes what a run did: `baton undo 1` all of it";
        return Err(Failure::new(USAGE, message).hint(hint));
    };
    let turn = &all[index];
    if let (None, Some(board)) = (count, board)
        && let Some(run) = run_after(board, turn.at)?
    {
        let message = format!("the run {run} worked after the last turn of exec or chat");
        let hint = "`baton undo ITERATION` undoes what the run did; `--turns 1` undoes both";
        return Err(Failure::new(USAGE, message).hint(hint));
    }
    let when = format!("before the turn of {} (\"{}\")", Timestamp(turn.at), turn.task);
    let mut more = Vec::new();
    if let Some(before) = turn.head.as_ref().filter(|_| turns.head() != turn.head) {
        let short: String = before.chars().take(10).collect();
        more.push(format!("commits stay: the last one was {short} before (`git reset {short}` goes back to it and leaves the files as they are)"));
    }
    if index > 0 && count.is_none() {
        more.push("`baton undo --turns 2` undoes the turn before it, too".to_owned());
    }
    Ok(Wanted { snapshots: turns.snapshots(), id: turn.before.clone(), when, more })
}

/// The last run, if one of its stages ended after this time.
fn run_after(board: &Board, at: u64) -> Result<Option<String>, Failure> {
    let Ok(Some(run)) = drive::last_run(board) else { return Ok(None) };
    let is_later =
        |record: &Record| matches!(record.event, Event::StageEnded(_)) && record.time.0 > at;
    Ok(records(board, &run)?.iter().any(is_later).then_some(run))
}

fn listed(wanted: &mut Wanted) -> Outcome {
    let shown = |names: Vec<String>| -> Vec<String> {
        names.iter().map(|name| walk::shown(name)).collect()
    };
    // Folders that an agent closed are opened for the look, and nothing else is changed.
    let closed = wanted.snapshots.open_folders(&wanted.id).map_err(failed)?;
    let differences = wanted.snapshots.differences(&wanted.id);
    for (folder, rights) in closed.into_iter().rev() {
        let _ = std::fs::set_permissions(folder, rights);
    }
    let (back, gone) = differences.map_err(failed)?;
    let (back, gone) = (shown(back), shown(gone));
    let mut lines: Vec<String> = back.iter().map(|name| format!("would restore {name}")).collect();
    lines.extend(gone.iter().map(|name| format!("would remove {name}")));
    lines.push(match back.len() + gone.len() {
        0 => format!("nothing would change: the project is as it was {}", wanted.when),
        1 => format!("1 file would be as it was {}", wanted.when),
        count => format!("{count} files would be as they were {}", wanted.when),
    });
    let skipped = wanted.snapshots.skipped.news(&mut BTreeSet::new());
    lines.extend(skipped.iter().chain(&wanted.more).cloned());
    let reply = json!({
        "ok": true, "dry_run": true, "restored": back, "removed": gone, "skipped": skipped,
    });
    Ok(Reply::new(format!("{}\n", lines.join("\n")), reply))
}

fn done(wanted: &mut Wanted) -> Outcome {
    let Wanted { snapshots, id, when, more } = wanted;
    // A name that is wrong must not cost anything. What was covered then is covered now.
    snapshots.follow(id).map_err(failed)?;
    snapshots.open_folders(id).map_err(failed)?;
    // What is there now can be had back.
    let mut kept = snapshots.take().map_err(failed)?;
    let mut told = BTreeSet::new();
    let mut skipped = snapshots.skipped.news(&mut told);
    let files = snapshots.restore(id).map_err(failed)?;
    skipped.extend(snapshots.skipped.news(&mut told));
    if let Some(own) = snapshots.kept() {
        own.clone_into(&mut kept);
    }
    let files: Vec<String> = files.iter().map(|name| walk::shown(name)).collect();
    let mut text = format!(
        "{} {when}; what was there is kept as snapshot {kept} (`baton undo --snapshot {kept}`)\nfiles that git ignores and does not track are not covered\n",
        match files.len() {
            1 => "1 file is as it was".to_owned(),
            count => format!("{count} files are as they were"),
        },
    );
    skipped.iter().chain(&*more).for_each(|line| text.push_str(&format!("{line}\n")));
    Ok(Reply::new(text, json!({ "ok": true, "files": files, "kept": kept, "skipped": skipped })))
}
