//! The rules of providers for the schema of an answer, as a server of theirs enforces them, from
//! their documentation, without a look at what Baton sends.

use serde_json::{Map, Value, json};

/// A provider whose rules are enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    Anthropic,
    Responses,
    Chat,
    LlamaCpp,
}

impl Provider {
    /// The schema in a request, and whether it is strict.
    pub(crate) fn schema(self, body: &Value) -> Option<(&Value, bool)> {
        let (schema, strict) = match self {
            Provider::Anthropic => (&body["output_config"]["format"]["schema"], true),
            Provider::Responses => {
                let format = &body["text"]["format"];
                (&format["schema"], format["strict"] == true)
            }
            Provider::Chat | Provider::LlamaCpp => {
                let format = &body["response_format"]["json_schema"];
                (&format["schema"], format["strict"] == true)
            }
        };
        (!schema.is_null()).then_some((schema, strict))
    }

    /// The body of the 400 that this request gets, if it gets one.
    pub(crate) fn refusal(self, body: &Value) -> Option<Value> {
        let (schema, strict) = self.schema(body)?;
        let error = |kind: &str, message: String, param: Option<&str>| json!({ "type": "error", "error": { "type": kind, "message": message, "param": param } });
        match self {
            Provider::Anthropic => anthropic(schema).err().map(|why| {
                let message = format!("output_config.format.schema: {why}");
                error("invalid_request_error", message, None)
            }),
            Provider::Responses | Provider::Chat if !strict => None,
            Provider::Responses | Provider::Chat => openai(schema).err().map(|why| {
                let message = format!("Invalid schema for response_format 'decision': {why}.");
                let param =
                    if self == Provider::Chat { "response_format" } else { "text.format.schema" };
                error("invalid_request_error", message, Some(param))
            }),
            Provider::LlamaCpp => llama(schema).err().map(|why| {
                error(
                    "invalid_request_error",
                    format!("JSON schema conversion failed:\n{why}"),
                    None,
                )
            }),
        }
    }
}

type Checked = Result<(), String>;

/// Every schema within this one, itself first.
fn each(schema: &Value, check: &mut dyn FnMut(&Map<String, Value>) -> Checked) -> Checked {
    let map = schema.as_object().ok_or_else(|| format!("{schema} is not a schema"))?;
    check(map)?;
    for name in ["properties", "$defs", "definitions"] {
        for own in map.get(name).and_then(Value::as_object).into_iter().flatten() {
            each(own.1, check)?;
        }
    }
    for name in ["anyOf", "allOf", "oneOf"] {
        for own in map.get(name).and_then(Value::as_array).into_iter().flatten() {
            each(own, check)?;
        }
    }
    map.get("items").map_or(Ok(()), |own| each(own, check))
}

fn kind(schema: &Map<String, Value>) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or("schema")
}

fn is_object(schema: &Map<String, Value>) -> bool {
    kind(schema) == "object" || schema.contains_key("properties")
}

fn only(schema: &Map<String, Value>, known: &[&str], refused: &str) -> Checked {
    match schema.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("For '{}' type, property '{name}' is {refused}", kind(schema))),
        None => Ok(()),
    }
}

fn names(schema: &Map<String, Value>) -> impl Iterator<Item = &String> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys)
}

fn is_required(schema: &Map<String, Value>, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    required.into_iter().any(|own| own == name)
}

const COMMON: [&str; 12] = [
    "type",
    "title",
    "description",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "$ref",
    "$defs",
];

fn anthropic(schema: &Value) -> Checked {
    let (mut optional, mut unions) = (0, 0);
    each(schema, &mut |own| {
        let more = ["allOf", "definitions", "format", "minItems", "default"];
        only(own, &[&COMMON[..], &more].concat(), "not supported")?;
        if own.get("minItems").is_some_and(|count| count.as_u64().is_none_or(|count| count > 1)) {
            return Err("For 'array' type, 'minItems' values other than 0 or 1 are not supported"
                .to_owned());
        }
        if is_object(own) && own.get("additionalProperties") != Some(&json!(false)) {
            return Err(
                "For 'object' type, 'additionalProperties' must be explicitly set to false"
                    .to_owned(),
            );
        }
        optional += names(own).filter(|name| !is_required(own, name)).count();
        unions +=
            usize::from(own.contains_key("anyOf") || own.get("type").is_some_and(Value::is_array));
        Ok(())
    })?;
    match (optional > 24, unions > 16) {
        (true, _) => Err(format!("Schemas contains too many optional parameters ({optional})")),
        (_, true) => {
            Err(format!("Schemas contains too many parameters with union types ({unions})"))
        }
        _ => Ok(()),
    }
}

fn openai(schema: &Value) -> Checked {
    if schema["type"] != "object" || schema.get("anyOf").is_some() {
        return Err(
            "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'".to_owned()
        );
    }
    each(schema, &mut |own| {
        only(own, &[&COMMON[..], &["pattern", "format"]].concat(), "not permitted")?;
        if !["type", "anyOf", "$ref"].iter().any(|name| own.contains_key(*name)) {
            return Err("In context=(), schema must have a 'type' key".to_owned());
        }
        if !is_object(own) {
            return Ok(());
        }
        if own.get("additionalProperties") != Some(&json!(false)) {
            return Err(
                "In context=(), 'additionalProperties' is required to be supplied and to be false"
                    .to_owned(),
            );
        }
        match names(own).find(|name| !is_required(own, name)) {
            Some(name) => Err(format!(
                "In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing '{name}'"
            )),
            None => Ok(()),
        }
    })
}

fn llama(schema: &Value) -> Checked {
    each(schema, &mut |own| {
        if own.contains_key("properties")
            && (own.contains_key("anyOf") || own.contains_key("oneOf"))
        {
            return Err("properties together with anyOf".to_owned());
        }
        let pattern = own.get("pattern").and_then(Value::as_str);
        if pattern.is_some_and(|own| !own.starts_with('^') || !own.ends_with('$')) {
            return Err("Pattern must start with '^' and end with '$'".to_owned());
        }
        Ok(())
    })
}
