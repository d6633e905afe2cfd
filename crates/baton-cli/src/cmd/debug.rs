//! `baton debug compress|mentions|compact`: pieces of the agent, alone.

use std::path::{Path, PathBuf};

use baton_core::id::ObservationId;
use baton_core::lab::import;
use baton_core::lab::outline::{self, Fate, Outline};
use baton_core::lab::session::Session;
use baton_core::mention::{self, Target};
use baton_core::messages::Language;
use baton_core::observation::{self, Envelope};
use baton_core::text;
use baton_core::thread::compact::{Settings, Strategy};
use baton_runtime::load;
use serde_json::json;

use super::{Outcome, Place};
use crate::args::DebugCompactArgs;
use crate::reply::{Failure, PROTOCOL, Reply, USAGE, counted};

pub(super) fn compress(tool: &str, id: ObservationId) -> Outcome {
    let source = load::text(Path::new("-"), observation::BOUNDS.bytes as u64)
        .map_err(|error| Failure::unreadable("envelope", error))?;
    let envelope = Envelope::read(&source).map_err(|problem| {
        Failure::problems(PROTOCOL, "envelope", vec![problem], Some(&source)).hint(
            "an envelope is {\"status\": \"success|partial|error\", \"data\": {…}}; \
             `baton debug compress --help` shows it whole",
        )
    })?;
    let stub = observation::compress(tool, &envelope, id, Language::English);
    let kept = observation::kept(&stub);
    let json = json!({
        "ok": true,
        "tool": tool,
        "compressed": stub,
        "bytes": { "whole": observation::whole(&envelope).len(), "kept": kept.len() },
    });
    Ok(Reply::new(printable(&kept) + "\n", json))
}

pub(super) fn mentions(place: &Place, root: Option<PathBuf>) -> Outcome {
    let root = root.unwrap_or_else(|| place.folder.clone());
    // Links are followed here, so that one that leads out of the project is seen.
    let inside =
        std::fs::canonicalize(&root).ok().filter(|root| root.is_dir()).ok_or_else(|| {
            Failure::new(
                USAGE,
                format!("{} is not a folder", text::shown(&root.to_string_lossy(), 200)),
            )
            .hint("`--root DIR` names the project that the paths are relative to")
        })?;
    let message = load::text(Path::new("-"), load::SMALL)
        .map_err(|error| Failure::unreadable("message", error))?;
    let found = mention::find(&message, |path| target(&inside, path));
    let whole = found.appended(&message);
    let notices: String = found.notices.iter().map(|notice| format!("[{notice}]\n")).collect();
    let json = json!({
        "ok": true,
        "mentions": found.paths,
        "more": found.more,
        "lines": found.lines,
        "notices": found.notices,
        "message": whole,
    });
    Ok(Reply { errors: notices, ..Reply::new(whole, json) })
}

/// Bytes of a conversation on standard input.
const CONVERSATION: u64 = 256 << 20;

pub(super) fn compact(args: &DebugCompactArgs) -> Outcome {
    let source = load::text(Path::new("-"), CONVERSATION)
        .map_err(|error| Failure::unreadable("conversation", error))?;
    let session = only_session(&source)?;
    let count = session.messages.len();
    let strategy = match args.strategy.as_str() {
        "archive" => Strategy::Archive,
        _ => Strategy::Handover,
    };
    let settings = Settings {
        strategy,
        compact_at: args.compact_at.unwrap_or(Settings::default().compact_at),
        keep: usize::try_from(args.keep).unwrap_or(usize::MAX),
        keys: Vec::new(),
    };
    if let Some(most) = args.compact_at {
        let size = outline::size(&session);
        if size < most {
            let why = format!("it has about {size} tokens, fewer than {most}");
            let json = json!({ "ok": true, "messages": count, "cut": 0, "plan": null, "why": why });
            return Ok(Reply::new(format!("Nothing leaves: {why}.\n"), json));
        }
    }
    let outline = outline::outline(session, &settings, args.compact_at.is_none());
    let json = json!({
        "ok": true,
        "strategy": strategy,
        "keep": args.keep,
        "messages": count,
        "cut": outline.cut(),
        "fates": outline.fates,
        "ids": outline.ids,
        "plan": outline.plan.as_ref().ok(),
        "why": outline.plan.as_ref().err(),
        "tokens": { "before": outline.before, "after": outline.after },
        "in_place": outline.in_place,
    });
    Ok(Reply::new(drawn(&outline), json))
}

fn only_session(source: &str) -> Result<Session, Failure> {
    let imported = import::file(source, "conversation").map_err(|problem| {
        Failure::problems(PROTOCOL, "conversation", vec![problem], None).hint(
            "a JSON list of messages, or a recording; `baton debug compact --help` shows both",
        )
    })?;
    let mut sessions = imported.sessions.into_iter();
    match (sessions.next(), sessions.next()) {
        (Some(session), None) if !session.messages.is_empty() => Ok(session),
        (Some(_), Some(_)) => Err(Failure::new(PROTOCOL, "these are several conversations")
            .hint("give one of them, for example with `head -n 1`")),
        _ => Err(Failure::new(PROTOCOL, "the conversation has no messages")),
    }
}

fn drawn(outline: &Outline) -> String {
    let Outline { plan, fates, before, after, in_place, .. } = outline;
    let mut out = String::new();
    let named = [
        (Fate::Apart, "instructions, left alone"),
        (Fate::Leaves, "leaves"),
        (Fate::Stub, "becomes a stub"),
        (Fate::Cut, "is cut by lines"),
        (Fate::Stays, "stays"),
    ];
    for (fate, words) in named {
        let own = fates.iter().enumerate().filter(|(_, own)| **own == fate);
        let own: Vec<u64> = own.map(|(at, _)| at as u64 + 1).collect();
        if !own.is_empty() {
            let messages = counted(own.len(), "message");
            out.push_str(&format!("{words}: {messages} ({})\n", text::ranges("", &own)));
        }
    }
    match plan {
        Ok(plan) => plan.said.iter().for_each(|said| out.push_str(&format!("{said}\n"))),
        Err(why) => out.push_str(&format!("No compaction: {why}.\n")),
    }
    out.push_str(&format!("tokens: about {before} before, {after} after, without a summary\n"));
    if !in_place.is_empty() {
        out.push_str(&format!("\nIn place of what leaves:\n{}\n", in_place.trim_end()));
    }
    out
}

fn target(root: &Path, path: &str) -> Target {
    match std::fs::canonicalize(root.join(path)) {
        Ok(path) if !path.starts_with(root) => Target::Missing,
        Ok(path) if path.is_file() => Target::File,
        Ok(path) if path.is_dir() => Target::Folder,
        _ => Target::Missing,
    }
}

/// The same JSON, without characters that the terminal must not see and that would be shown in a
/// form which JSON does not know.
fn printable(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() || text::is_invisible(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}
