//! Every missing key and every value of the wrong kind at once. serde stops at the first; a schema
//! that serde's types derive tells all of them, each with its place and what to write.

use crate::messages::Language;
use serde_json::Value as Schema;

use super::{Document, Key, Node, Value, de};
use crate::problem::Problem;
use crate::text;

/// No problem of a text is worth more lines than this.
const MOST: usize = 100;

/// The faults in the shape of a document, by the schema of its type.
pub(super) fn problems(document: &Document, schema: &Schema) -> Vec<Problem> {
    let mut shape = Shape { document, whole: schema, problems: Vec::new() };
    shape.look(&document.root, schema, "");
    shape.problems
}

struct Shape<'a> {
    document: &'a Document,
    /// The schema with the definitions that its parts refer to.
    whole: &'a Schema,
    problems: Vec<Problem>,
}

impl<'a> Shape<'a> {
    fn look(&mut self, node: &Node, schema: &'a Schema, path: &str) {
        if self.problems.len() >= MOST {
            return;
        }
        let schemas = self.alternatives(schema);
        let Some(schema) = schemas.iter().copied().find(|schema| fits(node, schema)) else {
            return self.wrong_kind(node, &schemas, path);
        };
        match &node.value {
            Value::Object(entries) => {
                self.missing(node, schema, path);
                for (key, value) in entries {
                    let own = schema["properties"].get(&key.name);
                    match own.or_else(|| schema.get("additionalProperties")) {
                        Some(Schema::Bool(false)) => self.unknown(key, schema, path),
                        Some(own) => self.look(value, own, &joined(path, &key.name)),
                        None => {}
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.look(item, &schema["items"], &joined(path, &index.to_string()));
                }
            }
            _ => {}
        }
    }

    /// The schemas of which a value must fit one, references followed.
    fn alternatives(&self, schema: &'a Schema) -> Vec<&'a Schema> {
        if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            return self.alternatives(&self.whole["$defs"][name]);
        }
        match schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            Some(all) => all.iter().flat_map(|one| self.alternatives(one)).collect(),
            None => vec![schema],
        }
    }

    fn missing(&mut self, node: &Node, schema: &'a Schema, path: &str) {
        for key in schema["required"].as_array().into_iter().flatten().filter_map(Schema::as_str) {
            if node.get(key).is_some() {
                continue;
            }
            let mut problem = Problem::new(de::MISSING_KEY, within(path, de::missing_key(key)));
            // The object that lacks it may be long; its whole text would say nothing.
            problem.found = Some(String::new());
            problem.expected = self.explained(&schema["properties"][key]).map(Into::into);
            self.problems.push(self.document.locate(problem, node.span));
        }
    }

    /// The text to show for a missing key: its kind and its meaning.
    fn explained(&self, schema: &'a Schema) -> Option<String> {
        let kinds = self.kinds(&self.alternatives(schema));
        let meaning = schema["description"].as_str().map(|meaning| {
            let first = meaning.split("\n\n").next().unwrap_or_default();
            first.trim_end_matches('.').replace('\n', " ")
        });
        match (kinds.is_empty(), meaning) {
            (true, meaning) => meaning,
            (false, None) => Some(kinds),
            (false, Some(meaning)) => Some(format!("{kinds} ({meaning})")),
        }
    }

    fn kinds(&self, schemas: &[&'a Schema]) -> String {
        let mut kinds: Vec<String> = Vec::new();
        for schema in schemas {
            for kind in types(schema) {
                let kind = match (kind, schema["items"].is_null()) {
                    ("array", false) => match self.kinds(&self.alternatives(&schema["items"])) {
                        inner if inner == "a string" => "a list of strings".to_owned(),
                        _ => "a list".to_owned(),
                    },
                    (kind, _) => named(kind).to_owned(),
                };
                if kind != "null" && !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
        kinds.join(" or ")
    }

    fn unknown(&mut self, key: &Key, schema: &Schema, path: &str) {
        let known: Vec<&String> =
            schema["properties"].as_object().into_iter().flat_map(|all| all.keys()).collect();
        let message = within(path, de::unknown_key(&key.name));
        let problem = Problem::new(de::UNKNOWN_KEY, message).found(&key.name);
        let problem = problem.one_of(&key.name, &known);
        self.problems.push(self.document.locate(problem, key.span));
    }

    fn wrong_kind(&mut self, node: &Node, schemas: &[&'a Schema], path: &str) {
        let kind = match &node.value {
            Value::Integer(_) => "a whole number".to_owned(),
            Value::Float(_) => "a number with a fraction".to_owned(),
            other => other.kind(Language::English),
        };
        let message = within(path, format!("{kind} does not fit here"));
        let problem = Problem::new("value-type", message).expected(self.kinds(schemas));
        self.problems.push(self.document.locate(problem, node.span));
    }
}

fn types(schema: &Schema) -> Vec<&str> {
    match &schema["type"] {
        Schema::String(kind) => vec![kind.as_str()],
        Schema::Array(kinds) => kinds.iter().filter_map(Schema::as_str).collect(),
        _ => Vec::new(),
    }
}

/// True if a value is of a kind that the schema allows. A schema without a kind allows all.
fn fits(node: &Node, schema: &Schema) -> bool {
    let types = types(schema);
    types.is_empty()
        || types.iter().any(|kind| {
            matches!(
                (*kind, &node.value),
                ("null", Value::Null)
                    | ("boolean", Value::Bool(_))
                    | ("integer", Value::Integer(_))
                    | ("number", Value::Integer(_) | Value::Float(_))
                    | ("string", Value::String(_))
                    | ("array", Value::Array(_))
                    | ("object", Value::Object(_))
            )
        })
}

fn named(kind: &str) -> &str {
    match kind {
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a string",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

/// A message about what is at a path.
fn within(path: &str, message: String) -> String {
    match path.is_empty() {
        true => message,
        false => format!("{}: {message}", text::shown(path, 120)),
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
