//! What a tool answers, and what history keeps of it. Goes in: an envelope, ours or a stranger's.
//! Comes out: the text that the model sees during the turn (`sent`), and the stub that a finished
//! turn leaves in history (`compress`, `kept`). `plain` writes either as text, `cut` cuts a text by
//! lines, `shapes` holds what our own tools put into `data`; the compression works on any shape, since what comes back from disk may be older than the code.
//!
//! The rule, in this order:
//! 1. An envelope that carries an observation id is a stub already and stays as it is.
//! 2. Otherwise `data` is shortened by the tool's row of the table (`shorten`); status, error and
//!    every flag stay; `text`, `stats` and `context` go; the id is added, and what was left out.
//! 3. Should that be longer than `whole` (what was left out can be shorter than saying so), `data`
//!    stays whole instead. The id is always there: it takes less room than the keys that went.

pub mod cut;
mod output;
pub mod plain;
pub mod shapes;
mod shorten;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::{Bounds, Document};
use crate::id::ObservationId;
use crate::messages::Language;
use crate::problem::Problem;

/// An envelope that is larger was not made by a tool of ours, which bound their output.
pub const BOUNDS: Bounds = Bounds { bytes: 16 << 20, keys: usize::MAX, values: 1 << 20 };

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Success,
    /// Some of what was asked for.
    Partial,
    Error,
}

/// What went wrong, for the model: kept whole, whatever else it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    pub code: String,
    pub message: String,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    pub status: Status,
    #[serde(default, deserialize_with = "or_default")]
    pub data: Map<String, Value>,
    /// For reading at a glance; says nothing that `data` does not.
    #[serde(default, deserialize_with = "or_default")]
    pub text: String,
    #[serde(default, deserialize_with = "or_default")]
    pub stats: Map<String, Value>,
    #[serde(default, deserialize_with = "or_default")]
    pub context: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
    /// Only on one that was read back from history: it is that stub.
    #[serde(default, rename = "observation", skip_serializing_if = "Option::is_none")]
    pub stub_of: Option<ObservationId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<String>,
}

/// A key that is null says as much as one that is absent.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Envelope {
    /// Untrusted JSON, strictly; keys that nobody knows are passed over.
    pub fn read(text: &str) -> Result<Envelope, Problem> {
        Document::json_within(text, BOUNDS)?.read()
    }

    /// With one of the `shapes` as its data.
    pub fn new(status: Status, data: &impl Serialize) -> Envelope {
        let data = match serde_json::to_value(data).expect("a result holds only plain data") {
            Value::Object(data) => data,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        Envelope {
            status,
            data,
            text: String::new(),
            stats: Map::new(),
            context: Map::new(),
            error: None,
            stub_of: None,
            omitted: None,
        }
    }

    pub fn failed(code: impl Into<String>, message: impl Into<String>) -> Envelope {
        let error = Fault { code: code.into(), message: message.into(), more: Map::new() };
        Envelope { error: Some(error), ..Envelope::new(Status::Error, &Map::new()) }
    }
}

/// What history keeps. The order of the fields is the order in the text.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Compressed {
    pub status: Status,
    pub data: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
    pub observation: ObservationId,
    /// What was left out of `data`, and how to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted: Option<String>,
}

impl From<Compressed> for Envelope {
    fn from(stub: Compressed) -> Envelope {
        let Compressed { status, data, error, observation, omitted } = stub;
        let (stats, context) = (Map::new(), Map::new());
        let (text, stub_of) = (String::new(), Some(observation));
        Envelope { status, data, text, stats, context, error, stub_of, omitted }
    }
}

/// The few lines of a command's output that tell most, with their numbers. `cut`: the result, if lines
/// are left out of it already. `is_numbered`: the lines have their numbers.
pub fn telling(output: &str, cut: Option<ObservationId>, is_numbered: bool) -> Vec<String> {
    output::telling(output, cut, is_numbered)
}

/// The line that tells what a command came to: the last total (`true`), else its last line.
pub fn outcome(output: &str) -> Option<(&str, bool)> {
    output::outcome(output)
}

/// The stub of a tool result.
pub fn compress(
    tool: &str,
    envelope: &Envelope,
    id: ObservationId,
    language: Language,
) -> Compressed {
    let stub = |data, observation, omitted| Compressed {
        status: envelope.status,
        data,
        error: envelope.error.clone(),
        observation,
        omitted,
    };
    if let Some(own) = envelope.stub_of {
        return stub(envelope.data.clone(), own, envelope.omitted.clone());
    }
    let (data, omitted) = shorten::data(tool, &envelope.data, id, language);
    let short = stub(data, id, omitted);
    if kept(&short).len() <= whole(envelope).len() {
        return short;
    }
    stub(envelope.data.clone(), id, None)
}

/// Every key of it.
pub fn whole(envelope: &Envelope) -> String {
    compact(envelope)
}

/// As the model sees it during the turn: all of it, its id, and no key that says nothing. What the
/// table leaves alone is the same bytes in history, so that the end of a turn does not change it.
pub fn sent(envelope: &Envelope, id: ObservationId) -> String {
    #[derive(Serialize)]
    struct Sent<'a> {
        status: Status,
        data: &'a Map<String, Value>,
        #[serde(skip_serializing_if = "str::is_empty")]
        text: &'a str,
        #[serde(skip_serializing_if = "Map::is_empty")]
        stats: &'a Map<String, Value>,
        #[serde(skip_serializing_if = "Map::is_empty")]
        context: &'a Map<String, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Fault>,
        observation: ObservationId,
        #[serde(skip_serializing_if = "Option::is_none")]
        omitted: Option<&'a str>,
    }
    let Envelope { status, data, text, stats, context, error, stub_of, omitted } = envelope;
    compact(&Sent {
        status: *status,
        data,
        text,
        stats,
        context,
        error: error.as_ref(),
        observation: stub_of.unwrap_or(id),
        omitted: omitted.as_deref(),
    })
}

/// As history holds it.
pub fn kept(stub: &Compressed) -> String {
    compact(stub)
}

/// JSON in one line, the keys in the order of the type or, in `data`, as the tool gave them.
fn compact(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("an envelope holds only plain data")
}
