//! Requests without what differs between two runs of the same work: times, the project's folder,
//! temporary folders, times of files, the key of a provider's cache. The one place that knows them.

use serde_json::Value;

/// A request as it is compared.
pub(super) fn request(body: &str, roots: &[String]) -> Value {
    match serde_json::from_str::<Value>(body) {
        Ok(value) => masked(value, roots),
        Err(_) => Value::String(text(body, roots)),
    }
}

fn masked(value: Value, roots: &[String]) -> Value {
    match value {
        Value::String(own) => Value::String(text(&own, roots)),
        Value::Array(items) => items.into_iter().map(|own| masked(own, roots)).collect(),
        Value::Object(map) => {
            let entries = map.into_iter().map(|(key, own)| {
                // It names the run, or is made of the project's folder.
                let is_key = key == "prompt_cache_key";
                let own = if is_key { Value::String("<key>".into()) } else { masked(own, roots) };
                (key, own)
            });
            Value::Object(entries.collect())
        }
        other => other,
    }
}

/// A text as it is compared.
pub(super) fn text(own: &str, roots: &[String]) -> String {
    let mut roots: Vec<&String> = roots.iter().filter(|root| root.len() > 1).collect();
    // A folder inside another one goes first.
    roots.sort_by_key(|root| std::cmp::Reverse(root.len()));
    let own = roots.iter().fold(own.to_owned(), |own, root| own.replace(*root, "<project>"));
    let mut out = String::with_capacity(own.len());
    let mut rest = own.as_str();
    while let Some(first) = rest.chars().next() {
        match volatile(rest.as_bytes()) {
            Some((length, mark)) => {
                out.push_str(mark);
                rest = &rest[length..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// The length of what differs from run to run at the beginning of this text, and its mark.
fn volatile(text: &[u8]) -> Option<(usize, &'static str)> {
    const TIME: &[u8] = b"0000-00-00T00:00:00";
    const FOLDER: &[u8] = b".tmp";
    const MTIME: &[u8] = b"\"mtime\":";
    let is_time = || {
        let pairs = TIME.iter().zip(text);
        text.len() >= TIME.len()
            && pairs.into_iter().all(|(form, own)| match form {
                b'0' => own.is_ascii_digit(),
                form => form == own,
            })
    };
    match text.first()? {
        b'0'..=b'9' if is_time() => Some((TIME.len(), "<time>")),
        b'.' if text.starts_with(FOLDER) => {
            let name = text.get(FOLDER.len()..FOLDER.len() + 6)?;
            name.iter().all(u8::is_ascii_alphanumeric).then_some((FOLDER.len() + 6, "<tmp>"))
        }
        b'"' if text.starts_with(MTIME) => {
            let digits = text[MTIME.len()..].iter().take_while(|own| own.is_ascii_digit()).count();
            Some((MTIME.len() + digits, "\"mtime\":0"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_runs_differ_in_is_masked_and_nothing_else() {
        let roots = ["/srv/a".to_owned(), "/srv/a/b".to_owned()];
        for (before, after) in [
            (
                "## Task Goal (New Task) - 2026-01-31T00:44:55\nx",
                "## Task Goal (New Task) - <time>\nx",
            ),
            ("in /srv/a/b/src and /srv/a/src", "in <project>/src and <project>/src"),
            ("/tmp/.tmpAb3dE9/out 时间", "/tmp/<tmp>/out 时间"),
            (r#"{"mtime":1769820295000000000,"x":1}"#, r#"{"mtime":0,"x":1}"#),
            ("2026-01-31 00:44:55, .tmp, 12:00", "2026-01-31 00:44:55, .tmp, 12:00"),
        ] {
            assert_eq!(text(before, &roots), after);
        }
        let body = r#"{"prompt_cache_key":"run-0001/ONE","messages":[{"content":"/srv/a/x"}]}"#;
        let expected = serde_json::json!({ "prompt_cache_key": "<key>", "messages": [{ "content": "<project>/x" }] });
        assert_eq!(request(body, &roots), expected);
    }
}
