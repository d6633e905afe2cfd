//! The demo's model: answers that were written in advance. It goes by what Baton says of each call
//! (stage and iteration) and by how far the conversation is.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::cmd::scripted::{self, Asked, Says};

/// What each stage answers: by iteration and stage, one list a conversation.
type Replies = BTreeMap<String, Vec<Vec<Value>>>;

/// Serves the replies; the address to call.
pub(super) fn serve(replies: &str) -> Result<String, String> {
    let replies: Replies = serde_json::from_str(replies).map_err(|error| error.to_string())?;
    let begun = Mutex::new(BTreeMap::new());
    scripted::serve(move |asked| said(asked, &replies, &begun))
}

fn said(
    asked: &Asked,
    replies: &Replies,
    begun: &Mutex<BTreeMap<String, usize>>,
) -> Result<Says, String> {
    let header = |name: &str| asked.header(name).unwrap_or_default().to_uppercase();
    let name = format!("{}-{}", header("x-baton-iteration"), header("x-baton-stage"));
    let step = asked.step();
    let conversation = {
        let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        let count = begun.entry(name.clone()).or_insert(0);
        *count += usize::from(step == 0);
        count.saturating_sub(1)
    };
    let reply = replies.get(&name).and_then(|all| all.get(conversation)?.get(step));
    let reply = reply.ok_or_else(|| format!("nobody wrote an answer for {name}"))?;
    Ok(match reply["tool"].as_str() {
        Some(tool) => Says::Call { tool: tool.to_owned(), arguments: reply["arguments"].clone() },
        None => {
            let lines = reply["text"].as_array().into_iter().flatten().filter_map(Value::as_str);
            Says::Text(lines.collect::<Vec<_>>().join("\n"))
        }
    })
}
