//! What a sample leaves: its trace, its evaluation, and for a failure what it is put down to. There
//! are no times in them: two runs of the same give the same bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::Usage;

/// `execution_traces/<id>_trace.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    pub sample_id: String,
    pub conversation_history: Vec<Spoken>,
    pub tool_calls: Vec<Call>,
    /// Only where it changed.
    pub states: Vec<StateAt>,
    /// Why the conversation ended before it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    pub usage: Usage,
}

/// A message; a turn begins with what the user says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spoken {
    pub turn: u32,
    pub role: Speaker,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A text; of a tool, any JSON.
    pub content: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<Asked>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

impl Spoken {
    pub(super) fn text(turn: u32, role: Speaker, content: impl Into<String>) -> Spoken {
        Spoken {
            turn,
            role,
            tool_call_id: None,
            name: None,
            content: Value::from(content.into()),
            tool_calls: Vec::new(),
            is_error: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    User,
    Assistant,
    Tool,
    /// What Baton told the target: that its answer could not be understood.
    Harness,
}

/// A call as the target made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    pub id: String,
    pub name: String,
    pub arguments: Map<String, Value>,
}

/// A call and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    pub turn: u32,
    pub name: String,
    pub arguments: Map<String, Value>,
    pub result: Value,
    pub is_error: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateAt {
    pub turn: u32,
    /// The tool that changed it, or `start`.
    pub after: String,
    pub state: Map<String, Value>,
}

/// `evaluation_results/<id>_eval.json`: that it is there says that the sample is finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evaluation {
    pub sample_id: String,
    pub status: Status,
    pub conversation_turns: u32,
    pub checkers: Vec<Checked>,
    pub checkers_failed: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
    /// What a model took that played the user or judged by a rubric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Passed,
    Failed,
    /// It could not be evaluated; that says nothing about the target.
    Error,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    pub name: String,
    pub passed: bool,
    pub reason: String,
    /// Where it can be seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<u32>,
}

/// Why a sample could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    pub code: String,
    pub message: String,
}

impl Fault {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault { code: code.into(), message: message.into() }
    }
}

impl Evaluation {
    pub fn of_checkers(sample: &str, turns: u32, checkers: Vec<Checked>) -> Evaluation {
        let failed = checkers.iter().filter(|own| !own.passed).map(|own| own.name.clone());
        let checkers_failed: Vec<String> = failed.collect();
        let status = if checkers_failed.is_empty() { Status::Passed } else { Status::Failed };
        Evaluation {
            sample_id: sample.to_owned(),
            status,
            conversation_turns: turns,
            checkers,
            checkers_failed,
            error: None,
            judge_usage: None,
        }
    }

    pub fn of_fault(sample: &str, turns: u32, fault: Fault) -> Evaluation {
        Evaluation {
            sample_id: sample.to_owned(),
            status: Status::Error,
            conversation_turns: turns,
            checkers: Vec::new(),
            checkers_failed: Vec::new(),
            error: Some(fault),
            judge_usage: None,
        }
    }
}

/// `attribution_analysis/<id>_attribution.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    pub sample_id: String,
    /// 1 design, 2 tools, 3 checkers, 4 samples; absent where nobody could say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<u8>,
    pub failure_type: String,
    pub cause: String,
    pub evidence: String,
    pub suggestion: String,
    /// What the model took that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// `evaluation.json`: what an iteration evaluates, written before anything else of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    pub scenario: String,
    pub iteration: u32,
    pub hashes: Hashes,
    pub target_model: String,
    pub total_samples: u64,
    /// Where only some of the samples were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
}

/// Of the files that an evaluation depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hashes {
    pub design: String,
    pub tools: String,
    pub checkers: String,
    pub samples: String,
}

/// What differs where another model is to go on.
pub const TARGET_MODEL: &str = "the target's model";

impl Head {
    /// What differs, in words.
    pub fn changes(&self, now: &Head) -> Vec<&'static str> {
        let (old, new) = (&self.hashes, &now.hashes);
        let all = [
            (old.design != new.design, "the design"),
            (old.tools != new.tools, "the tools"),
            (old.checkers != new.checkers, "the checkers"),
            (old.samples != new.samples, "the samples"),
            (self.target_model != now.target_model, TARGET_MODEL),
            (self.only != now.only, "which samples are asked for"),
        ];
        all.into_iter().filter_map(|(differs, what)| differs.then_some(what)).collect()
    }
}

/// A document as it is written: two spaces, a line feed at the end.
pub fn written<T: Serialize>(document: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
