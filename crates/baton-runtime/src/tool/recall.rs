//! Recall: an earlier result, whole, by the id that its stub carries, or what the user said.

use std::io::Read as _;
use std::path::PathBuf;

use baton_core::fact;
use baton_core::id::{Mtime, ObservationId};
use baton_core::messages::Language;
use baton_core::observation::shapes::Recall;
use baton_core::observation::{Envelope, Status, cut, plain};
use baton_core::text;
use baton_core::turn::Offered;
use serde::Deserialize;
use serde_json::json;

use super::{Done, Refusal, Workshop, refused};
use crate::load;

/// Bytes of a file that is compared with what was read.
const MOST: u64 = 16 << 20;
/// Bytes of a page.
const BYTES: usize = 16 << 10;

/// Where earlier results are kept.
pub trait Archive: Sync {
    /// The tool and its result.
    fn observation(&self, id: ObservationId) -> Option<(String, Envelope)>;

    /// A message of the user, by its number.
    fn message(&self, number: u32) -> Option<String>;

    /// The file for what does not fit into a result.
    fn output_file(&self, id: ObservationId) -> PathBuf;
}

pub(super) fn offer(language: Language) -> Offered {
    let properties = json!({
        "id": { "type": "string", "description": language.recall_id() },
        "from": {
            "type": "integer",
            "description": language.recall_from(),
        },
        "lines": { "type": "integer", "description": language.recall_lines() },
    });
    super::offer("Recall", language.recall_tool(), properties, &["id"])
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

/// An earlier result.
struct Earlier {
    of: String,
    file: Option<String>,
    text: String,
    /// The file is not as it was then.
    is_past: bool,
}

pub(super) fn recall(shop: &Workshop, archive: &dyn Archive, args: &Args) -> Done {
    let name = args.id.trim();
    let number = name.strip_prefix('u').and_then(|number| number.parse().ok());
    let earlier = match number.and_then(|number| archive.message(number)) {
        Some(text) => {
            let of = shop.language.user_said();
            Earlier { of, file: None, text, is_past: false }
        }
        None => result(shop, archive, name)?,
    };
    page(name, earlier, args, shop.language)
}

fn result(shop: &Workshop, archive: &dyn Archive, name: &str) -> Result<Earlier, Refusal> {
    let id = ObservationId::new(name).map_err(|why| refused("BAD_ID", why))?;
    let Some((tool, envelope)) = archive.observation(id) else {
        return Err(refused("NOT_FOUND", shop.language.no_result(id)));
    };
    let plain = plain::plain(&tool, &envelope, shop.language);
    let text = match load::bytes(&archive.output_file(id), crate::sandbox::COPY) {
        Ok(bytes) => text::stripped(&String::from_utf8_lossy(&bytes)).trim_end().to_owned(),
        Err(_) => whole(&tool, &envelope, plain.body),
    };
    let file = envelope.data.get("file").and_then(|file| file.as_str());
    let file = file.filter(|_| ["Read", "Recall"].contains(&tool.as_str())).map(str::to_owned);
    let is_past = file.as_deref().is_some_and(|file| is_past(shop, file, &envelope));
    Ok(Earlier { of: plain.title, file, text, is_past })
}

/// True if a file was touched since it was read, and these lines of it are not as they were.
fn is_past(shop: &Workshop, file: &str, envelope: &Envelope) -> bool {
    let then = envelope.data.get("mtime").cloned();
    let then = then.and_then(|mtime| serde_json::from_value::<Mtime>(mtime).ok());
    let Some(then) = then else { return false };
    let Ok(mut now) = shop.root.read(file) else { return true };
    if now.mtime == then {
        return false;
    }
    let shown = envelope.data.get("content").and_then(|content| content.as_str());
    let mut content = String::new();
    if now.size > MOST || now.file.read_to_string(&mut content).is_err() {
        return true;
    }
    let lines: Vec<&str> = content.lines().collect();
    let is_same = |line: &str| {
        let (number, text) = fact::numbered(line)?;
        let at = number.parse::<usize>().ok()?.checked_sub(1)?;
        (*lines.get(at)? == text.trim_end_matches('\r')).then_some(())
    };
    !shown.unwrap_or_default().lines().all(|line| is_same(line).is_some())
}

/// The whole difference of an edit; else what was shown.
fn whole(tool: &str, envelope: &Envelope, body: String) -> String {
    let diff = envelope.data.get("diff").and_then(|diff| diff.as_str());
    match diff.filter(|_| ["Edit", "MultiEdit"].contains(&tool)) {
        Some(diff) => diff.trim_end().to_owned(),
        None => body,
    }
}

fn page(name: &str, earlier: Earlier, args: &Args, language: Language) -> Done {
    let lines: Vec<&str> = earlier.text.lines().collect();
    let numbers = cut::numbers(&lines, None);
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
        return Err(refused("EMPTY", language.only_first_line(name, earlier.of)));
    };
    let (first, total) = (first.0, last.1);
    let from = args.from.unwrap_or(first);
    let wanted = args.lines.unwrap_or(u64::MAX);
    let start = numbers.iter().position(|(_, last)| *last >= from);
    let Some(start) = start.filter(|_| from >= first && wanted > 0) else {
        return Err(refused("OUT_OF_RANGE", language.has_lines(name, first, total)));
    };
    let end = from.saturating_add(wanted);
    let mut bytes = 0;
    let fits = |(at, _): &(usize, &(u64, u64))| {
        bytes += lines[*at].len() + 1;
        bytes <= BYTES || *at == start
    };
    let asked = numbers.iter().enumerate().skip(start).take_while(|(_, (own, _))| *own < end);
    let shown: Vec<(usize, &(u64, u64))> = asked.take_while(fits).collect();
    let to = shown.last().map_or(from, |(_, (_, last))| *last);
    let content: Vec<&str> = shown.iter().map(|(at, _)| lines[*at]).collect();
    let truncated = to < total && to.saturating_add(1) < end;
    let status = if truncated { Status::Partial } else { Status::Success };
    let Earlier { of, file, is_past, .. } = earlier;
    let content = content.join("\n");
    let from = numbers[start].0;
    let id = name.to_owned();
    let data = Recall { id, of, file, from, to, total, content, truncated, is_past };
    let mut envelope = Envelope::new(status, &data);
    let mut said = Vec::new();
    if is_past {
        said.push(language.file_is_past());
    }
    if truncated {
        said.push(language.continue_from(to + 1));
    }
    envelope.text = said.join("; ");
    Ok(envelope)
}
