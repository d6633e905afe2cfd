//! Recall: an earlier result, whole, by the id that its stub carries.

use std::path::PathBuf;

use baton_core::id::ObservationId;
use baton_core::observation::shapes::Recall;
use baton_core::observation::{self, Envelope, Status};
use baton_core::turn::Offered;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Done, head, refused};
use crate::load;

const LINES: u64 = 400;
const BYTES: usize = 48 << 10;

/// Where earlier results are kept.
pub trait Archive: Sync {
    /// The tool and its result.
    fn observation(&self, id: ObservationId) -> Option<(String, Envelope)>;

    /// The file for what does not fit into a result.
    fn output_file(&self, id: ObservationId) -> PathBuf;
}

pub(super) fn offer() -> Offered {
    let properties = json!({
        "id": { "type": "string" },
        "from": { "type": "integer" },
        "lines": { "type": "integer" },
    });
    let words = "Bring back a shortened earlier result by its observation id, such as o17.";
    super::offer("Recall", words, properties, &["id"])
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    id: String,
    #[serde(default)]
    from: Option<u64>,
    #[serde(default)]
    lines: Option<u64>,
}

pub(super) fn recall(archive: &dyn Archive, args: &Args) -> Done {
    let id = ObservationId::new(args.id.trim()).map_err(|why| refused("BAD_ID", why))?;
    let Some((tool, envelope)) = archive.observation(id) else {
        return Err(refused(
            "NOT_FOUND",
            format!("there is no observation {id} in this conversation"),
        ));
    };
    let text = readable(archive, id, &envelope);
    let total = text.lines().count() as u64;
    let from = args.from.unwrap_or(1).max(1);
    if from > total.max(1) {
        return Err(refused("OUT_OF_RANGE", format!("observation {id} has only {total} lines")));
    }
    let wanted = args.lines.unwrap_or(LINES).clamp(1, 10_000);
    let (skip, take) = (usize::try_from(from - 1), usize::try_from(wanted));
    let lines: Vec<&str> =
        text.lines().skip(skip.unwrap_or(usize::MAX)).take(take.unwrap_or(usize::MAX)).collect();
    let joined = lines.join("\n");
    let (content, _) = head(&joined, BYTES);
    let to = (from - 1) + content.lines().count() as u64;
    let truncated = to < total;
    let status = if truncated { Status::Partial } else { Status::Success };
    let data = Recall { id, tool, from, to, total, content: content.to_owned(), truncated };
    Ok(Envelope::new(status, &data))
}

/// A result as text: its own content where it has one, else the whole of it.
fn readable(archive: &dyn Archive, id: ObservationId, envelope: &Envelope) -> String {
    if let Ok(bytes) = load::bytes(&archive.output_file(id), crate::sandbox::COPY) {
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    let mut out = String::new();
    for (name, value) in &envelope.data {
        match value {
            Value::String(text) if envelope.data.len() == 1 || name == "content" => {
                return text.clone();
            }
            // Lines are lines again.
            Value::String(text) if text.contains('\n') => {
                out.push_str(&format!("{name}:\n{}\n", text.trim_end()));
            }
            other => out.push_str(&format!("{name}: {other}\n")),
        }
    }
    match out.is_empty() {
        true => observation::whole(envelope),
        false => out,
    }
}
