//! `baton handoff check|show|load|make`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use baton_core::handoff::package::{ExecuteToInit, InitToExecute, Package};
use baton_core::handoff::{budget, reading::Reading};
use baton_core::id::Tokens;
use baton_core::messages::Language;
use baton_core::{text, tokens};
use baton_runtime::{drive, handoff};
use serde_json::json;

use super::{Outcome, Place};
use crate::args::{HandoffArgs, HandoffLoadArgs, HandoffMakeArgs};
use crate::reply::{Failure, INTERNAL, PROTOCOL, Reply, USAGE, counted, table};

pub(super) fn check(place: &Place, args: &HandoffArgs) -> Outcome {
    let checked = opened(place, args)?;
    let kind = checked.package.handoff_type();
    let (tokens, most) = (checked.tokens.0, budget::of(&checked.package).0);
    let text = format!(
        "ok: {}: {kind}, {tokens} of {most} tokens, {} there\n",
        args.file.display(),
        counted(checked.package.paths().len(), "file")
    );
    let json = json!({ "ok": true, "handoff_type": kind, "tokens": tokens, "budget": most });
    Ok(Reply::new(text, json).with_warnings(&checked.warnings))
}

pub(super) fn show(args: &HandoffArgs) -> Outcome {
    let name = args.file.display().to_string();
    let read = handoff::read(&args.file).map_err(|error| failure(&name, error))?;
    let tokens = tokens::count(&read.package.text());
    let mut text = match &read.package {
        Package::InitToExecute(own) => shown_to_execute(own),
        Package::ExecuteToInit(own) => shown_to_init(own),
    };
    let most = budget::of(&read.package).0;
    let _ = writeln!(text, "\n{} of {most} tokens", tokens.0);
    let json = json!({ "ok": true, "package": read.package, "tokens": tokens, "budget": most });
    Ok(Reply::new(text, json).with_warnings(&read.warnings))
}

pub(super) fn load(place: &Place, args: &HandoffLoadArgs) -> Outcome {
    let checked = opened(place, &args.package)?;
    let reading = checked.reading(Language::English, Tokens(args.budget));
    let body = reading.text();
    let json = json!({ "ok": true, "ledger": reading, "text": body });
    let mut reply = Reply::new(body, json).with_warnings(&checked.warnings);
    // Beside the text, so that it can be piped into an agent as it is.
    reply.errors.push_str(&ledger(&reading));
    Ok(reply)
}

pub(super) fn make(place: &Place, args: &HandoffMakeArgs) -> Outcome {
    let root = args.root.clone().unwrap_or_else(|| place.folder.clone());
    let name = args.folder.display().to_string();
    let failed = |error| failure(&name, error);
    let made = handoff::make(&args.folder, &root, args.reason.as_deref(), drive::now());
    let made = made.map_err(failed)?;
    let fitted = &made.fitted;
    let file = args.out.clone().unwrap_or_else(|| args.folder.join("execute_to_init.json"));
    let written: Vec<PathBuf> = match args.dry_run {
        true => Vec::new(),
        false => made.write(&file).map_err(failed)?,
    };
    let mut text = String::new();
    if args.dry_run {
        text.push_str(&fitted.package.text());
    }
    for path in &written {
        let _ = writeln!(text, "wrote {}", shown_path(place, path));
    }
    let most = budget::of(&fitted.package).0;
    if let Package::ExecuteToInit(own) = &fitted.package {
        let _ = writeln!(
            text,
            "{} of {most} tokens; {} of {} failed samples in the package, {}",
            fitted.tokens.0,
            own.failure_samples_index.len(),
            own.iteration_summary.failed_samples,
            counted(own.modification_suggestions_summary.len(), "suggestion"),
        );
    }
    let written: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
    let json = json!({
        "ok": true,
        "package": fitted.package,
        "tokens": fitted.tokens,
        "budget": most,
        "written": written,
    });
    Ok(Reply::new(text, json))
}

fn opened(place: &Place, args: &HandoffArgs) -> Result<handoff::Checked, Failure> {
    let name = args.file.display().to_string();
    let root = args.root.as_ref().unwrap_or(&place.folder);
    handoff::check(&args.file, root).map_err(|error| {
        failure(&name, error).hint(format!("paths are counted from {}", root.display()))
    })
}

fn failure(name: &str, error: handoff::Error) -> Failure {
    match error {
        handoff::Error::Invalid { problems, text } => {
            Failure::problems(PROTOCOL, name, problems, text.as_deref())
        }
        handoff::Error::Load(error) => Failure::unreadable(name, error),
        handoff::Error::Store(error) => Failure::new(INTERNAL, error.to_string()),
        error @ handoff::Error::Folder { .. } => Failure::new(USAGE, error.to_string()),
        error @ handoff::Error::Elsewhere { .. } => {
            Failure::new(USAGE, error.to_string()).hint("say `--root DIR`")
        }
    }
}

fn shown_path(place: &Place, path: &Path) -> String {
    path.strip_prefix(&place.folder).unwrap_or(path).display().to_string()
}

fn shown_to_execute(package: &InitToExecute) -> String {
    let mut out = format!("init_to_execute, {}\n\n", package.timestamp);
    let _ = writeln!(out, "{}", text::shown(&package.user_requirement, 2_000));
    let rows: Vec<Vec<String>> = package
        .design_artifacts
        .iter()
        .map(|(name, path)| vec![format!("  {name}"), path.clone()])
        .collect();
    let _ = write!(out, "\n{}", table(&rows));
    if let Some(rationale) = &package.design_rationale {
        let _ = writeln!(out, "\nwhy: {}", text::shown(rationale, 2_000));
    }
    for constraint in package.known_constraints.iter().flatten() {
        let _ = writeln!(out, "  - {}", text::shown(constraint, 400));
    }
    if let Some(changes) = &package.design_iterations {
        let _ = writeln!(out, "{} of the design", counted(changes.len(), "change"));
    }
    out + &unknown(package.extra.keys())
}

fn shown_to_init(package: &ExecuteToInit) -> String {
    let summary = &package.iteration_summary;
    let mut out = format!("execute_to_init, {}\n\n", package.timestamp);
    let _ = writeln!(out, "{}", text::shown(&package.trigger_reason, 2_000));
    let quality = summary.final_quality.map(|own| format!(", quality {own}")).unwrap_or_default();
    let _ = writeln!(
        out,
        "{} of {} samples failed{quality}\nfolder: {}\nreport: {}\n",
        summary.failed_samples,
        summary.total_samples,
        package.execution_output_dir,
        package.layer1_problems_report_path
    );
    for (number, suggestion) in package.modification_suggestions_summary.iter().enumerate() {
        let _ = writeln!(out, "{}. {}", number + 1, text::shown(suggestion, 400));
    }
    let rows: Vec<Vec<String>> = package
        .failure_samples_index
        .iter()
        .map(|own| {
            vec![
                format!("  {}", text::shown(&own.sample_id, 60)),
                json!(own.priority).as_str().unwrap_or_default().to_owned(),
                counted(own.conversation_turns as usize, "turn"),
                text::shown(&own.failure_type, 40),
                text::shown(&own.checkers_failed.join(", "), 80),
            ]
        })
        .collect();
    let _ = write!(out, "\n{}", table(&rows));
    if let (Some(total), Some(path)) = (package.failure_samples_total, &package.failure_index_path)
    {
        let _ = writeln!(out, "  these and more: all {total} are in {path}");
    }
    out + &unknown(package.extra.keys())
}

fn unknown<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&String> = names.collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("\nalso holds {}\n", baton_core::problem::list(&names)),
    }
}

/// What each piece cost, what was cut of it and where the whole is.
fn ledger(reading: &Reading) -> String {
    let mut rows = vec![vec!["tokens".to_owned(), "piece".to_owned(), "cut".to_owned()]];
    for piece in &reading.pieces {
        let cut = piece.cut.as_deref().unwrap_or("whole");
        rows.push(vec![piece.tokens.0.to_string(), piece.path.clone(), cut.to_owned()]);
    }
    let mut out = table(&rows);
    let _ = writeln!(out, "{} of {} tokens", reading.tokens.0, reading.budget.0);
    if reading.samples_left_out > 0 {
        let _ = writeln!(out, "{} not read", counted_samples(reading.samples_left_out));
    }
    for path in reading.not_read.iter().take(20) {
        let _ = writeln!(out, "not read: {path}");
    }
    out
}

fn counted_samples(count: u64) -> String {
    format!("{count} failed sample{}", if count == 1 { "" } else { "s" })
}
