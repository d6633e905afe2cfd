//! The schema of an answer as each provider accepts it. One table says what happens to a keyword on
//! each dialect; what a dialect cannot express is left to the parser of the answer, which checks
//! everything anyway. What was added for a provider is taken out of the answer again.
//!
//! Sources: Anthropic, <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>
//! (JSON Schema limitations); OpenAI,
//! <https://developers.openai.com/api/docs/guides/structured-outputs> (Supported schemas);
//! llama.cpp, <https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md> (JSON Schemas →
//! GBNF, known limitations).

use baton_core::document::Strict;
use serde_json::{Map, Value, json};

/// The rules that a schema has to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `output_config.format` of Anthropic Messages.
    Anthropic,
    /// OpenAI's strict mode.
    OpenAi,
    /// A server that speaks Chat Completions: llama.cpp and others, or a gateway to OpenAI. The rules
    /// of both hold.
    Compatible,
}

/// The treatment of a keyword.
#[derive(Clone, Copy)]
enum Rule {
    Keep,
    /// Kept, and the same rules apply to the schemas inside.
    Inside,
    /// Left out; the model reads it in the description instead.
    Tell,
    Drop,
    /// Kept if its value is like this, otherwise told.
    Only(fn(&Value) -> bool),
    /// Sent under another name, with the same rules inside.
    As(&'static str),
    /// `"const": x` becomes `"enum": [x]`.
    AsEnum,
    /// A schema with this keyword cannot be sent.
    Refuse,
}

use Rule::{As, AsEnum, Drop, Inside, Keep, Only, Refuse, Tell};

/// A keyword and its rule for Anthropic, OpenAI strict and compatible servers.
type Row = (&'static str, Rule, Rule, Rule);

/// A keyword without a row is told where it can be and left out. `required` and
/// `additionalProperties` are set by `object`.
const TABLE: [Row; 29] = [
    // All three document these.
    ("type", Keep, Keep, Keep),
    ("title", Keep, Keep, Keep),
    ("description", Keep, Keep, Keep),
    ("enum", Keep, Keep, Keep),
    ("properties", Inside, Inside, Inside),
    ("items", Inside, Inside, Inside),
    ("anyOf", Inside, Inside, Inside),
    ("$defs", Inside, Inside, Inside),
    ("definitions", Inside, Inside, Inside),
    ("$ref", Keep, Keep, Keep),
    // OpenAI lists `enum` among its types and `const` only among its limits.
    ("const", Keep, AsEnum, Keep),
    // Anthropic's own SDKs send `oneOf` as `anyOf`; llama.cpp treats both alike; OpenAI lists `anyOf`.
    ("oneOf", As("anyOf"), As("anyOf"), As("anyOf")),
    // Anthropic: supported with limits. OpenAI: listed as not supported. llama.cpp: supported.
    ("allOf", Inside, Refuse, Inside),
    // Anthropic: "minItems" 0 and 1 only, no "maxItems". OpenAI: both, but not for fine-tuned models.
    ("minItems", Only(is_at_most_one), Tell, Tell),
    ("maxItems", Tell, Tell, Tell),
    // Anthropic: string constraints are not supported. OpenAI: not listed, refused for fine-tuned models.
    ("minLength", Tell, Tell, Tell),
    ("maxLength", Tell, Tell, Tell),
    // Anthropic: a subset of regular expressions. OpenAI: supported. llama.cpp: from `^` to `$`.
    ("pattern", Tell, Keep, Only(is_anchored)),
    // Both providers list formats; llama.cpp has fewer, and other servers differ.
    ("format", Only(is_listed_format), Only(is_listed_format), Tell),
    // Anthropic: numerical constraints are not supported. OpenAI: not for fine-tuned models.
    // llama.cpp: for integers only.
    ("minimum", Tell, Tell, Tell),
    ("maximum", Tell, Tell, Tell),
    ("exclusiveMinimum", Tell, Tell, Tell),
    ("exclusiveMaximum", Tell, Tell, Tell),
    ("multipleOf", Tell, Tell, Tell),
    // OpenAI refuses a default in strict mode.
    ("default", Tell, Tell, Tell),
    // Not constraints.
    ("$schema", Drop, Drop, Drop),
    ("$id", Drop, Drop, Drop),
    ("$comment", Drop, Drop, Drop),
    ("examples", Drop, Drop, Drop),
];

/// Anthropic, schema complexity limits: optional parameters, and parameters with union types, of all
/// schemas of a request.
const OPTIONAL: usize = 24;
const UNIONS: usize = 16;

/// The one key of the object around an answer whose schema is not an object.
const AROUND: &str = "answer";

fn is_at_most_one(value: &Value) -> bool {
    value.as_u64().is_some_and(|count| count <= 1)
}

fn is_anchored(value: &Value) -> bool {
    value.as_str().is_some_and(|pattern| pattern.starts_with('^') && pattern.ends_with('$'))
}

/// Those that both providers list.
fn is_listed_format(value: &Value) -> bool {
    let listed =
        ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
    value.as_str().is_some_and(|format| listed.contains(&format))
}

/// A schema that can be sent, and what it was made of.
#[derive(Debug)]
pub(super) struct Fitted {
    pub(super) schema: Value,
    /// True where it may be enforced as OpenAI's strict mode does.
    pub(super) strict: bool,
    is_wrapped: bool,
    original: Value,
}

/// The schema as a provider accepts it. `None`: what it says cannot be said in this dialect at all.
pub(super) fn fit(schema: &Value, dialect: Dialect) -> Option<Fitted> {
    let mut fitted = node(schema, dialect)?;
    // Strict mode refuses a union or a list as the outermost schema.
    let is_wrapped = dialect != Dialect::Compatible && fitted["type"] != "object";
    if is_wrapped {
        let names = ["$defs", "definitions"];
        let shared = names.map(|name| {
            (name, fitted.as_object_mut().and_then(|schema| schema.shift_remove(name)))
        });
        fitted = json!({
            "type": "object",
            "properties": { AROUND: fitted },
            "required": [AROUND],
            "additionalProperties": false,
        });
        for (name, shared) in shared {
            if let Some(shared) = shared {
                fitted[name] = shared;
            }
        }
    }
    let (optional, unions) = counts(&fitted);
    if dialect == Dialect::Anthropic && (optional > OPTIONAL || unions > UNIONS) {
        return None;
    }
    let strict = match dialect {
        Dialect::Anthropic | Dialect::OpenAi => true,
        Dialect::Compatible => is_strict(&fitted),
    };
    Some(Fitted { schema: fitted, strict, is_wrapped, original: schema.clone() })
}

/// One schema, with all that is inside it.
fn node(schema: &Value, dialect: Dialect) -> Option<Value> {
    let Value::Object(keywords) = schema else {
        // `true` allows anything: strict modes have no word for it.
        return (dialect == Dialect::Compatible).then(|| schema.clone());
    };
    let mut out = Map::new();
    let mut told = Vec::new();
    for (keyword, value) in keywords {
        let row = TABLE.iter().find(|row| row.0 == keyword);
        let rule = row.map_or(Tell, |row| match dialect {
            Dialect::Anthropic => row.1,
            Dialect::OpenAi => row.2,
            Dialect::Compatible => row.3,
        });
        match rule {
            _ if keyword == "required" || keyword == "additionalProperties" => {}
            Keep => drop(out.insert(keyword.clone(), value.clone())),
            Inside => drop(out.insert(keyword.clone(), inside(keyword, value, dialect)?)),
            As(name) => drop(out.insert(name.to_owned(), inside(name, value, dialect)?)),
            AsEnum => drop(out.insert("enum".to_owned(), json!([value]))),
            Only(fits) if fits(value) => drop(out.insert(keyword.clone(), value.clone())),
            Only(_) | Tell if !value.is_object() && !value.is_array() => {
                told.push(format!("{keyword}: {value}"));
            }
            Only(_) | Tell | Drop => {}
            Refuse => return None,
        }
    }
    if !told.is_empty() {
        let described = out.get("description").and_then(Value::as_str).unwrap_or_default();
        let told = format!("{described} ({})", told.join(", "));
        out.insert("description".to_owned(), json!(told.trim_start()));
    }
    typed(&mut out);
    let says_something = ["type", "enum", "const", "anyOf", "allOf", "$ref"];
    if dialect != Dialect::Compatible && !says_something.iter().any(|name| out.contains_key(*name))
    {
        return None;
    }
    let is_object = out.get("type") == Some(&json!("object")) || out.contains_key("properties");
    if is_object { object(out, keywords, dialect) } else { Some(Value::Object(out)) }
}

/// The schemas that a keyword holds: one, a list of them, or one for each name.
fn inside(keyword: &str, value: &Value, dialect: Dialect) -> Option<Value> {
    match (keyword, value) {
        ("properties" | "$defs" | "definitions", Value::Object(all)) => {
            let all = all.iter().map(|(name, own)| Some((name.clone(), node(own, dialect)?)));
            all.collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        (_, Value::Array(all)) => {
            all.iter().map(|own| node(own, dialect)).collect::<Option<Vec<_>>>().map(Value::Array)
        }
        (_, one) => node(one, dialect),
    }
}

/// Strict modes want a type in addition to the values that are listed.
fn typed(schema: &mut Map<String, Value>) {
    let values = schema.get("enum").and_then(Value::as_array);
    let value = values.and_then(|all| all.first()).or_else(|| schema.get("const"));
    let kind = match value {
        Some(Value::String(_)) => "string",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(number)) if number.is_f64() => "number",
        Some(Value::Number(_)) => "integer",
        _ => return,
    };
    schema.entry("type").or_insert_with(|| json!(kind));
}

/// Every object is closed. OpenAI wants every property in `required`: one that may be left out
/// becomes one that may be null.
fn object(
    mut schema: Map<String, Value>,
    original: &Map<String, Value>,
    dialect: Dialect,
) -> Option<Value> {
    let is_open = match original.get("additionalProperties") {
        None => !schema.contains_key("properties"),
        Some(more) => *more != json!(false),
    };
    if is_open {
        // Whatever keys the model likes: strict modes have no word for it.
        let more = original.get("additionalProperties").cloned();
        return (dialect == Dialect::Compatible).then(|| {
            schema.extend(more.map(|more| ("additionalProperties".to_owned(), more)));
            schema.extend(original.get("required").map(|own| ("required".to_owned(), own.clone())));
            Value::Object(schema)
        });
    }
    let mut required = original.get("required").cloned().unwrap_or_else(|| json!([]));
    if let (Dialect::OpenAi, Some(properties)) =
        (dialect, schema.get_mut("properties").and_then(Value::as_object_mut))
    {
        for (name, own) in properties.iter_mut() {
            if !is_required(original, name) && !allows_null(own) {
                *own = json!({ "anyOf": [{ "type": "null" }, own.take()] });
            }
        }
        required = properties.keys().map(|name| json!(name)).collect();
    }
    schema.insert("required".to_owned(), required);
    schema.insert("additionalProperties".to_owned(), json!(false));
    Some(Value::Object(schema))
}

fn is_required(object: &Map<String, Value>, name: &str) -> bool {
    let required = object.get("required").and_then(Value::as_array);
    required.is_some_and(|all| all.iter().any(|own| own == name))
}

fn allows_null(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(is_null),
        kind => is_null(kind),
    };
    let union = schema["anyOf"].as_array().into_iter().flatten();
    kinds || union.into_iter().any(allows_null)
}

/// Optional parameters and parameters with a union type, as Anthropic counts them.
fn counts(schema: &Value) -> (usize, usize) {
    let mut sums = (0, 0);
    match schema {
        Value::Object(map) => {
            if let Some(properties) = map.get("properties").and_then(Value::as_object) {
                sums.0 += properties.keys().filter(|name| !is_required(map, name)).count();
                let is_union = |own: &&Value| own["anyOf"].is_array() || own["type"].is_array();
                sums.1 += properties.values().filter(is_union).count();
            }
            for own in map.values() {
                let (optional, unions) = counts(own);
                sums = (sums.0 + optional, sums.1 + unions);
            }
        }
        Value::Array(all) => {
            for own in all {
                let (optional, unions) = counts(own);
                sums = (sums.0 + optional, sums.1 + unions);
            }
        }
        _ => {}
    }
    sums
}

/// True if OpenAI's strict mode takes a schema as it is: an object, closed, with every property
/// required, all the way down.
fn is_strict(schema: &Value) -> bool {
    fn is_closed(schema: &Value) -> bool {
        match schema {
            Value::Object(map) => {
                let properties = map.get("properties").and_then(Value::as_object);
                let is_object = properties.is_some() || map.get("type") == Some(&json!("object"));
                let mut names = properties.into_iter().flat_map(|properties| properties.keys());
                let closed = map.get("additionalProperties") == Some(&json!(false));
                let all_required = names.all(|name| is_required(map, name));
                (!is_object || closed && all_required) && map.values().all(is_closed)
            }
            Value::Array(items) => items.iter().all(is_closed),
            _ => true,
        }
    }
    schema["type"] == "object" && schema.get("anyOf").is_none() && is_closed(schema)
}

impl Fitted {
    /// A schema as it was written, not enforced.
    pub(super) fn as_it_is(schema: &Value) -> Fitted {
        Fitted {
            schema: schema.clone(),
            strict: false,
            is_wrapped: false,
            original: schema.clone(),
        }
    }

    /// The answer as the original schema means it. `None`: it is that already.
    pub(super) fn restored(&self, answer: &str) -> Option<String> {
        let Strict(before) = serde_json::from_str(answer.trim()).ok()?;
        let mut value = before.clone();
        let around = value.as_object().filter(|map| map.len() == 1);
        if self.is_wrapped && around.is_some_and(|map| map.contains_key(AROUND)) {
            value = value[AROUND].take();
        }
        restore(&mut value, &self.original);
        (value != before).then(|| value.to_string())
    }
}

/// Takes out the nulls of properties that may be left out and may not be null.
pub(crate) fn restore(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            let Some(schema) = branch(map, schema) else { return };
            let Some(properties) = schema["properties"].as_object() else { return };
            let original = schema.as_object().cloned().unwrap_or_default();
            map.retain(|name, own| {
                let is_added = |schema: &Value| {
                    own.is_null() && !is_required(&original, name) && !allows_null(schema)
                };
                !properties.get(name).is_some_and(is_added)
            });
            for (name, own) in map.iter_mut() {
                if let Some(schema) = properties.get(name) {
                    restore(own, schema);
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|own| restore(own, &schema["items"])),
        _ => {}
    }
}

/// The schema that an object follows: of a union, the first that has its keys and its constants.
fn branch<'a>(map: &Map<String, Value>, schema: &'a Value) -> Option<&'a Value> {
    let union = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    let Some(union) = union else { return schema["properties"].is_object().then_some(schema) };
    union.iter().filter_map(|own| branch(map, own)).find(|own| {
        map.iter().all(|(name, value)| {
            own["properties"].get(name).is_some_and(|property| {
                property.get("const").is_none_or(|constant| constant == value)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool_call() -> Value {
        let one = |name: &str, arguments: Value| {
            json!({
                "type": "object",
                "properties": { "tool": { "const": name }, "arguments": arguments },
                "required": ["tool", "arguments"],
                "additionalProperties": false,
            })
        };
        let read = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "minLength": 1 },
                "from": { "type": "integer", "minimum": 1, "description": "first line" },
            },
            "required": ["path"],
        });
        let list = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
        json!({ "anyOf": [one("Read", read), one("LS", list)] })
    }

    #[test]
    fn each_dialect_gets_its_own_form_of_one_schema() {
        let shown = [Dialect::Anthropic, Dialect::OpenAi, Dialect::Compatible].map(|dialect| {
            let fitted = fit(&tool_call(), dialect).unwrap();
            format!("{dialect:?}, strict {}: {}", fitted.strict, fitted.schema)
        });
        insta::assert_snapshot!(shown.join("\n"), @r#"
        Anthropic, strict true: {"type":"object","properties":{"answer":{"anyOf":[{"type":"object","properties":{"tool":{"const":"Read","type":"string"},"arguments":{"type":"object","properties":{"path":{"type":"string","description":"(minLength: 1)"},"from":{"type":"integer","description":"first line (minimum: 1)"}},"required":["path"],"additionalProperties":false}},"required":["tool","arguments"],"additionalProperties":false},{"type":"object","properties":{"tool":{"const":"LS","type":"string"},"arguments":{"type":"object","properties":{"path":{"type":"string"}},"required":[],"additionalProperties":false}},"required":["tool","arguments"],"additionalProperties":false}]}},"required":["answer"],"additionalProperties":false}
        OpenAi, strict true: {"type":"object","properties":{"answer":{"anyOf":[{"type":"object","properties":{"tool":{"enum":["Read"],"type":"string"},"arguments":{"type":"object","properties":{"path":{"type":"string","description":"(minLength: 1)"},"from":{"anyOf":[{"type":"null"},{"type":"integer","description":"first line (minimum: 1)"}]}},"required":["path","from"],"additionalProperties":false}},"required":["tool","arguments"],"additionalProperties":false},{"type":"object","properties":{"tool":{"enum":["LS"],"type":"string"},"arguments":{"type":"object","properties":{"path":{"anyOf":[{"type":"null"},{"type":"string"}]}},"required":["path"],"additionalProperties":false}},"required":["tool","arguments"],"additionalProperties":false}]}},"required":["answer"],"additionalProperties":false}
        Compatible, strict false: {"anyOf":[{"type":"object","properties":{"tool":{"const":"Read","type":"string"},"arguments":{"type":"object","properties":{"path":{"type":"string","description":"(minLength: 1)"},"from":{"type":"integer","description":"first line (minimum: 1)"}},"required":["path"],"additionalProperties":false}},"required":["tool","arguments"],"additionalProperties":false},{"type":"object","properties":{"tool":{"const":"LS","type":"string"},"arguments":{"type":"object","properties":{"path":{"type":"string"}},"required":[],"additionalProperties":false}},"required":["tool","arguments"],"additionalProperties":false}]}
        "#);
    }

    #[test]
    fn what_strict_modes_cannot_say_is_not_sent_to_them() {
        let any = json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] });
        let open = json!({ "type": "object", "properties": { "a": { "type": "object" } } });
        let of_any_key = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        for schema in [&any, &open, &of_any_key] {
            for (dialect, is_sent) in
                [(Dialect::Anthropic, false), (Dialect::OpenAi, false), (Dialect::Compatible, true)]
            {
                assert_eq!(fit(schema, dialect).is_some(), is_sent, "{dialect:?} {schema}");
            }
        }
        let all = json!({ "type": "object", "properties": {}, "allOf": [{ "type": "object", "properties": {} }] });
        assert!(fit(&all, Dialect::OpenAi).is_none());
        assert!(fit(&all, Dialect::Anthropic).is_some());
        let many: Map<String, Value> =
            (0..25).map(|number| (format!("p{number}"), json!({ "type": "string" }))).collect();
        let many = json!({ "type": "object", "properties": many });
        assert!(fit(&many, Dialect::Anthropic).is_none(), "more optional parameters than it takes");
        assert!(fit(&many, Dialect::OpenAi).is_some());
    }

    #[test]
    fn what_was_added_for_a_provider_is_taken_out_of_the_answer() {
        let fitted = fit(&tool_call(), Dialect::OpenAi).unwrap();
        let restored = |answer: Value| fitted.restored(&answer.to_string());
        let plain = json!({ "tool": "Read", "arguments": { "path": "a" } });
        let given =
            json!({ "answer": { "tool": "Read", "arguments": { "path": "a", "from": null } } });
        assert_eq!(restored(given), Some(plain.to_string()));
        let bare = json!({ "tool": "LS", "arguments": { "path": null } });
        assert_eq!(restored(bare), Some(json!({ "tool": "LS", "arguments": {} }).to_string()));
        assert_eq!(restored(plain), None, "an answer without additions stays as it is");
        assert_eq!(fitted.restored("not JSON"), None);
        // A null that the schema itself allows is the model's.
        let own =
            json!({ "type": "object", "properties": { "a": { "type": ["string", "null"] } } });
        assert_eq!(fit(&own, Dialect::OpenAi).unwrap().restored("{\"a\":null}"), None);
    }

    #[test]
    fn every_keyword_has_one_row() {
        let mut names: Vec<&str> = TABLE.iter().map(|row| row.0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
    }
}
