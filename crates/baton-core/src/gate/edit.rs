//! Another list of gates in a policy's text: everything else, and each gate that stays, keeps its
//! text.

use crate::document::{Document, Node, Value};
use crate::policy::Gate;
use crate::problem::Problem;

const KEY: &str = "gates";

/// The text of a policy with exactly these gates. An empty text is an empty policy.
pub fn with_gates(source: &str, gates: &[Gate]) -> Result<String, Problem> {
    let source = if source.trim().is_empty() { "{}\n" } else { source };
    let document = Document::json(source)?;
    let Value::Object(entries) = &document.root.value else {
        let problem = Problem::new("policy-invalid", "the policy is not a JSON object");
        return Err(document.locate(problem, document.root.span));
    };
    let end = if source.contains("\r\n") { "\r\n" } else { "\n" };
    let own = entries.iter().find(|(key, _)| key.name == KEY);
    let first = own.or(entries.first()).map(|(key, _)| key.span.start);
    let indent = first.map_or("  ", |at| indent_before(source, at));
    let old = own.map(|(_, node)| texts(&document, source, node)).unwrap_or_default();
    let list = rendered(old, gates, indent, end)?;
    let (from, to, new) = match (own, entries.last()) {
        (Some((_, node)), _) => (node.span.start, node.span.end, list),
        (None, Some((_, last))) => {
            let at = last.span.end;
            (at, at, format!(",{end}{indent}\"{KEY}\": {list}"))
        }
        (None, None) => {
            let span = document.root.span;
            let text = format!("{{{end}{indent}\"{KEY}\": {list}{end}}}");
            (span.start, span.end, text)
        }
    };
    let text = format!("{}{new}{}", &source[..from], &source[to..]);
    // What was written is what will be read.
    let again = Document::json(&text)?;
    let read: Vec<Gate> = again.read_node(again.nearest_node(KEY))?;
    if read == gates {
        return Ok(text);
    }
    Err(Problem::new("policy-invalid", "the gates cannot be written into this policy"))
}

/// The spaces before the key that begins at this byte; none if it shares its line.
fn indent_before(source: &str, at: usize) -> &str {
    let line = source[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = &source[line..at];
    if before.trim().is_empty() { before } else { "" }
}

/// Each gate that is there, with its text.
fn texts<'a>(document: &Document, source: &'a str, list: &Node) -> Vec<(Gate, &'a str)> {
    let Value::Array(items) = &list.value else { return Vec::new() };
    let read = items.iter().filter_map(|item| {
        let gate = document.read_node(item).ok()?;
        Some((gate, source.get(item.span.start..item.span.end)?))
    });
    read.collect()
}

fn rendered(
    mut old: Vec<(Gate, &str)>,
    gates: &[Gate],
    indent: &str,
    end: &str,
) -> Result<String, Problem> {
    if gates.is_empty() {
        return Ok("[]".to_owned());
    }
    let step = if indent.is_empty() { "  " } else { indent };
    let mut items = Vec::new();
    for gate in gates {
        let text = match old.iter().position(|(own, _)| own == gate) {
            Some(at) => old.remove(at).1.to_owned(),
            None => one_line(gate)?,
        };
        items.push(format!("{end}{indent}{step}{text}"));
    }
    Ok(format!("[{}{end}{indent}]", items.join(",")))
}

fn one_line(gate: &Gate) -> Result<String, Problem> {
    let failed = |error: serde_json::Error| Problem::new("policy-invalid", error.to_string());
    let on = serde_json::to_string(&gate.on).map_err(failed)?.replace("\",\"", "\", \"");
    let run = serde_json::to_string(&gate.run).map_err(failed)?;
    let allow = match gate.allow.is_empty() {
        true => String::new(),
        false => {
            let list = serde_json::to_string(&gate.allow).map_err(failed)?;
            format!(", \"allow\": {}", list.replace("\",\"", "\", \""))
        }
    };
    Ok(format!("{{ \"on\": {on}, \"run\": {run}, \"timeout\": {}{allow} }}", gate.timeout))
}
