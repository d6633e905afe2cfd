//! `baton debug compress|mentions`: pieces of the agent, alone.

use std::path::{Path, PathBuf};

use baton_core::id::ObservationId;
use baton_core::mention::{self, Target};
use baton_core::observation::{self, Envelope};
use baton_core::text;
use baton_runtime::load;
use serde_json::json;

use super::{Outcome, Place};
use crate::reply::{Failure, PROTOCOL, Reply, USAGE};

pub(super) fn compress(tool: &str, id: ObservationId) -> Outcome {
    let source = load::text(Path::new("-"), observation::BOUNDS.bytes as u64)
        .map_err(|error| Failure::unreadable("envelope", error))?;
    let envelope = Envelope::read(&source).map_err(|problem| {
        Failure::problems(PROTOCOL, "envelope", vec![problem], Some(&source)).hint(
            "an envelope is {\"status\": \"success|partial|error\", \"data\": {…}}; \
             `baton debug compress --help` shows it whole",
        )
    })?;
    let stub = observation::compress(tool, &envelope, id);
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
