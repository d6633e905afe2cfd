//! TOML text to the same tree, by the toml crate's spanned parser.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Key, MAX_DEPTH, MAX_KEYS, Node, Span, Value};
use crate::problem::Problem;
use crate::text;

pub(super) fn parse(source: &str) -> Result<Node, (usize, Problem)> {
    let table = DeTable::parse(source).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        (at, Problem::new("toml-syntax", text::shown(error.message(), 200)))
    })?;
    let span = Span { source: 0, start: 0, end: 0 };
    Ok(Node { span, value: object(table.into_inner(), 0)? })
}

fn object(table: DeTable<'_>, depth: usize) -> Result<Value, (usize, Problem)> {
    if table.len() > MAX_KEYS {
        let message = format!("a table has more than {MAX_KEYS} keys");
        return Err((0, Problem::new("toml-too-many-keys", message)));
    }
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let key = Key { span: span(&key), name: key.into_inner().into_owned() };
        entries.push((key, node(value, depth + 1)?));
    }
    // The parser sorts; people expect the order they wrote.
    entries.sort_by_key(|(key, _)| key.span.start);
    Ok(Value::Object(entries))
}

fn node(spanned: Spanned<DeValue<'_>>, depth: usize) -> Result<Node, (usize, Problem)> {
    let span = span(&spanned);
    let wrong = |message: String| Err((span.start, Problem::new("toml-value", message)));
    if depth > MAX_DEPTH {
        return wrong(format!("the TOML is nested deeper than {MAX_DEPTH} levels"));
    }
    let value = match spanned.into_inner() {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Integer(value) => match i128::from_str_radix(value.as_str(), value.radix()) {
            Ok(value) => Value::Integer(value),
            Err(_) => return wrong("the number is out of range".to_owned()),
        },
        DeValue::Float(value) => match value.as_str().parse::<f64>() {
            Ok(value) if value.is_finite() => Value::Float(value),
            _ => return wrong("the number is out of range".to_owned()),
        },
        DeValue::Datetime(_) => {
            return wrong("a date is not used here; a text stands in quotes".to_owned());
        }
        DeValue::Array(items) => Value::Array(
            items.into_iter().map(|item| node(item, depth + 1)).collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => object(table, depth)?,
    };
    Ok(Node { span, value })
}

fn span<T>(spanned: &Spanned<T>) -> Span {
    let range = spanned.span();
    Span { source: 0, start: range.start, end: range.end }
}
