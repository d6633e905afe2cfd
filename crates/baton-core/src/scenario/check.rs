//! Assertions on the final state and on the calls of a conversation. Goes in: what a checker asserts,
//! the sample's values. Comes out: a verdict whose reason a person understands, or that the checker
//! itself is wrong for this sample.

use serde_json::{Map, Value};

use super::parts::{Assertion, Called, Count, Equals};
use super::result::{Call, Checked, Fault};
use crate::text;

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    pub values: &'a Map<String, Value>,
    pub state: &'a Value,
    pub calls: &'a [Call],
    /// How many there were.
    pub turns: u32,
}

/// An assertion that does not hold: why, and where that can be seen.
struct Broken {
    why: String,
    turns: Vec<u32>,
}

/// All assertions must hold. `Err`: one of them cannot be asked of this sample.
pub fn run(name: &str, assertions: &[Assertion], scene: &Scene<'_>) -> Result<Checked, Fault> {
    let mut broken = Vec::new();
    for own in assertions {
        broken.extend(
            one(own, scene).map_err(|why| {
                Fault::new("checker-value", format!("the checker `{name}`: {why}"))
            })?,
        );
    }
    let passed = broken.is_empty();
    let mut turns: Vec<u32> = broken.iter().flat_map(|own: &Broken| own.turns.clone()).collect();
    turns.sort_unstable();
    turns.dedup();
    let reason = match passed {
        true => match assertions.len() {
            1 => "the assertion holds".to_owned(),
            count => format!("all {count} assertions hold"),
        },
        false => broken.iter().map(|own| own.why.as_str()).collect::<Vec<_>>().join("; "),
    };
    Ok(Checked { name: name.to_owned(), passed, reason, turns })
}

fn one(own: &Assertion, scene: &Scene<'_>) -> Result<Option<Broken>, String> {
    let last = || vec![scene.turns];
    if let Some(own) = &own.equals {
        return equals(own, scene);
    }
    if let Some(own) = &own.exists {
        let path = pointer(&own.path, scene.values)?;
        let is_there = scene.state.pointer(&path).is_some();
        let why = format!("expected something at {}, found nothing", shown_path(&path));
        return Ok((!is_there).then(|| Broken { why, turns: last() }));
    }
    if let Some(own) = &own.absent {
        let path = pointer(&own.path, scene.values)?;
        return Ok(scene.state.pointer(&path).map(|found| Broken {
            why: format!("expected nothing at {}, found {}", shown_path(&path), shown(found)),
            turns: last(),
        }));
    }
    if let Some(own) = &own.count {
        return count(own, scene);
    }
    if let Some(own) = &own.called {
        return called(own, scene);
    }
    if let Some(own) = &own.not_called {
        let tool = filled(&own.tool, scene.values)?;
        let wanted = arguments(own.arguments.as_ref(), scene)?;
        let found: Vec<&Call> = matching(&tool, wanted.as_ref(), scene);
        let with = with(wanted.as_ref());
        return Ok((!found.is_empty()).then(|| Broken {
            why: format!("expected no call of `{tool}`{with}, found {}", found.len()),
            turns: found.iter().map(|call| call.turn).collect(),
        }));
    }
    match &own.called_before {
        Some(own) => before(&own.first, &own.then, scene),
        None => Err("an assertion says nothing".to_owned()),
    }
}

fn equals(own: &Equals, scene: &Scene<'_>) -> Result<Option<Broken>, String> {
    let path = pointer(&own.path, scene.values)?;
    let wanted = typed(&own.value, scene.values)?;
    let near = match own.tolerance > 0.0 {
        true => format!(" (within {})", own.tolerance),
        false => String::new(),
    };
    let broken = |found: String| Broken {
        why: format!("expected {}{near}, found {found} at {}", shown(&wanted), shown_path(&path)),
        turns: vec![scene.turns],
    };
    Ok(match scene.state.pointer(&path) {
        Some(found) if is_same(found, &wanted, own.tolerance) => None,
        Some(found) => Some(broken(shown(found))),
        None => Some(broken("nothing".to_owned())),
    })
}

fn count(own: &Count, scene: &Scene<'_>) -> Result<Option<Broken>, String> {
    let path = pointer(&own.path, scene.values)?;
    let (low, high) = match own.is {
        Some(is) => (is, is),
        None => (own.least.unwrap_or(0), own.most.unwrap_or(u64::MAX)),
    };
    let wanted = match (own.is, own.least, own.most) {
        (Some(is), ..) => is.to_string(),
        (None, Some(least), Some(most)) => format!("{least} to {most}"),
        (None, Some(least), None) => format!("at least {least}"),
        (None, None, most) => format!("at most {}", most.unwrap_or(u64::MAX)),
    };
    let broken = |found: String| {
        let why = format!("expected {wanted} entries at {}, found {found}", shown_path(&path));
        Some(Broken { why, turns: vec![scene.turns] })
    };
    let entries = match scene.state.pointer(&path) {
        Some(Value::Array(list)) => list.len(),
        Some(Value::Object(object)) => object.len(),
        // What is not there holds nothing.
        None => 0,
        Some(other) => return Ok(broken(shown(other))),
    };
    let fits = (low..=high).contains(&(entries as u64));
    Ok(if fits { None } else { broken(entries.to_string()) })
}

fn called(own: &Called, scene: &Scene<'_>) -> Result<Option<Broken>, String> {
    let tool = filled(&own.tool, scene.values)?;
    let wanted = arguments(own.arguments.as_ref(), scene)?;
    let found = matching(&tool, wanted.as_ref(), scene);
    let with = with(wanted.as_ref());
    let holds = match own.times {
        Some(times) => found.len() as u64 == times,
        None => !found.is_empty(),
    };
    if holds {
        return Ok(None);
    }
    let times = own.times.map_or("a call".to_owned(), |times| format!("{times} calls"));
    let others: Vec<&Call> = scene.calls.iter().filter(|call| call.name == tool).collect();
    let found_words = match (found.len(), others.last()) {
        (0, None) => "none".to_owned(),
        (0, Some(call)) => format!("one with {}", shown(&Value::Object(call.arguments.clone()))),
        (count, _) => count.to_string(),
    };
    let seen = if others.is_empty() { vec![scene.turns] } else { turns_of(&others) };
    Ok(Some(Broken {
        why: format!("expected {times} of `{tool}`{with}, found {found_words}"),
        turns: seen,
    }))
}

fn turns_of(calls: &[&Call]) -> Vec<u32> {
    calls.iter().map(|call| call.turn).collect()
}

fn before(first: &str, then: &str, scene: &Scene<'_>) -> Result<Option<Broken>, String> {
    let (first, then) = (filled(first, scene.values)?, filled(then, scene.values)?);
    let at = |name: &str| scene.calls.iter().position(|call| call.name == name && !call.is_error);
    let broken = |why: String, turns: Vec<u32>| Ok(Some(Broken { why, turns }));
    match (at(&first), at(&then)) {
        (Some(a), Some(b)) if a < b => Ok(None),
        (Some(_), Some(b)) => {
            let turns = vec![scene.calls[b].turn];
            broken(format!("expected `{first}` before `{then}`, found it after"), turns)
        }
        (None, _) => broken(
            format!("expected `{first}` before `{then}`, found no call of `{first}`"),
            vec![scene.turns],
        ),
        (_, None) => broken(
            format!("expected `{then}` after `{first}`, found no call of `{then}`"),
            vec![scene.turns],
        ),
    }
}

fn with(wanted: Option<&Map<String, Value>>) -> String {
    wanted.map_or(String::new(), |own| format!(" with {}", shown(&Value::Object(own.clone()))))
}

/// The calls that came through: one that was refused did nothing.
fn matching<'a>(
    tool: &str,
    wanted: Option<&Map<String, Value>>,
    scene: &Scene<'a>,
) -> Vec<&'a Call> {
    let fits = |call: &&Call| {
        let has = |(name, value): (&String, &Value)| {
            call.arguments.get(name).is_some_and(|own| holds(own, value))
        };
        call.name == tool && !call.is_error && wanted.is_none_or(|own| own.iter().all(has))
    };
    scene.calls.iter().filter(fits).collect()
}

/// An object must hold what is wanted of it; all else is the same.
fn holds(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| found.get(name).is_some_and(|own| holds(own, value)))
        }
        _ => is_same(found, wanted, 0.0),
    }
}

/// The same value; 7 and 7.0 are, and numbers within the tolerance.
pub fn is_same(a: &Value, b: &Value, tolerance: f64) -> bool {
    match (a, b) {
        (Value::Number(one), Value::Number(two)) => {
            if one == two {
                return true;
            }
            let whole = |own: &serde_json::Number| own.is_i64() || own.is_u64();
            if tolerance == 0.0 && whole(one) && whole(two) {
                return false;
            }
            match (one.as_f64(), two.as_f64()) {
                // What a person calls within 0.01 may be a hair more in binary.
                (Some(one), Some(two)) => {
                    let hair = if tolerance > 0.0 { one.abs().max(two.abs()) * 1e-12 } else { 0.0 };
                    (one - two).abs() <= tolerance + hair
                }
                _ => false,
            }
        }
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(a, b)| is_same(a, b, tolerance))
        }
        (Value::Object(one), Value::Object(two)) => {
            let same = |(name, a): (&String, &Value)| {
                two.get(name).is_some_and(|b| is_same(a, b, tolerance))
            };
            one.len() == two.len() && one.iter().all(same)
        }
        _ => a == b,
    }
}

fn arguments(
    own: Option<&Map<String, Value>>,
    scene: &Scene<'_>,
) -> Result<Option<Map<String, Value>>, String> {
    let Some(own) = own else { return Ok(None) };
    let typed = own.iter().map(|(name, value)| Ok((name.clone(), typed(value, scene.values)?)));
    typed.collect::<Result<Map<String, Value>, String>>().map(Some)
}

/// A text that is exactly `{name}` becomes the sample's value, with its type; inside of lists and
/// objects, too.
fn typed(value: &Value, values: &Map<String, Value>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match names_in(text).as_slice() {
            [(0, end, name)] if *end == text.len() => given(name, values)?.clone(),
            _ => value.clone(),
        },
        Value::Array(list) => {
            Value::Array(list.iter().map(|own| typed(own, values)).collect::<Result<_, _>>()?)
        }
        Value::Object(object) => Value::Object(
            object
                .iter()
                .map(|(name, own)| Ok((name.clone(), typed(own, values)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => other.clone(),
    })
}

fn given<'a>(name: &str, values: &'a Map<String, Value>) -> Result<&'a Value, String> {
    values.get(name).ok_or_else(|| {
        format!("the sample gives no value `{}` (values.{0})", text::shown(name, 60))
    })
}

/// `{name}`s in a text: from where to where, and the name.
fn names_in(raw: &str) -> Vec<(usize, usize, &str)> {
    let mut out = Vec::new();
    let mut from = 0;
    while let Some(open) = raw[from..].find('{').map(|at| at + from) {
        let Some(close) = raw[open..].find('}').map(|at| at + open) else { break };
        let name = &raw[open + 1..close];
        let is_name = !name.is_empty()
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if is_name {
            out.push((open, close + 1, name));
            from = close + 1;
        } else {
            from = open + 1;
        }
    }
    out
}

/// A text with its names replaced.
fn filled(raw: &str, values: &Map<String, Value>) -> Result<String, String> {
    replaced(raw, values, str::to_owned)
}

/// A pointer with its names replaced, each as one step of the path.
fn pointer(raw: &str, values: &Map<String, Value>) -> Result<String, String> {
    replaced(raw, values, |own| own.replace('~', "~0").replace('/', "~1"))
}

fn replaced(
    raw: &str,
    values: &Map<String, Value>,
    dress: impl Fn(&str) -> String,
) -> Result<String, String> {
    let mut out = String::new();
    let mut from = 0;
    for (start, end, name) in names_in(raw) {
        out.push_str(&raw[from..start]);
        let value = match given(name, values)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(own) => own.to_string(),
            other => {
                let kind = if other.is_null() { "null" } else { "a list or an object" };
                let name = text::shown(name, 60);
                return Err(format!("values.{name} is {kind} and cannot be part of a path"));
            }
        };
        out.push_str(&dress(&value));
        from = end;
    }
    out.push_str(&raw[from..]);
    Ok(out)
}

fn shown(value: &Value) -> String {
    text::shown(&value.to_string(), 120)
}

fn shown_path(path: &str) -> String {
    if path.is_empty() { "the whole state".to_owned() } else { text::shown(path, 200) }
}
