//! What a scenario is made of, read from its files: every rule about them is checked here, once.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::MAX_MANIFEST_BYTES;
use crate::document::{Bounds, Document, MAX_KEYS, Strict};
use crate::message::Tool;
use crate::problem::Problem;
use crate::text;

const MOST_TOOLS: usize = 128;
const MOST_CHECKERS: usize = 1_000;
const MOST_SECONDS: u32 = 600;

/// A tool of the target: a program that takes a line of JSON and answers with one.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Map<String, Value>,
    pub program: Program,
}

/// A program of a scenario, started in the scenario's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments; no shell reads them.
    pub command: Vec<String>,
    /// Whether it stays alive and answers line after line; otherwise a process a call.
    pub stays: bool,
    /// Seconds that a call may take.
    pub timeout: u32,
}

fn ten() -> u32 {
    10
}

/// `tools.json`, as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolsFile {
    pub tools: Vec<RawTool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawTool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Map<String, Value>,
    /// The program and its arguments, started in the scenario's folder; no shell reads them.
    pub command: Vec<String>,
    /// Whether the program stays alive and answers line after line.
    #[serde(default)]
    pub stays: bool,
    /// Seconds that a call may take.
    #[serde(default = "ten")]
    pub timeout: u32,
}

/// The tools of `tools.json`; everything that is wrong with it otherwise.
pub fn tools(source: &str) -> Result<Vec<ToolSpec>, Vec<Problem>> {
    let document = manifest(source).map_err(|problem| vec![problem])?;
    let raw: ToolsFile = document.read().map_err(|problem| vec![problem])?;
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    if raw.tools.len() > MOST_TOOLS {
        let message = format!("tools: {} are more than the {MOST_TOOLS} allowed", raw.tools.len());
        wrong.push(Problem::new("tools-many", message));
    }
    for (at, tool) in raw.tools.iter().enumerate() {
        let mut says = |key: &str, problem: Problem| {
            wrong.push(document.locate_at(problem, &format!("tools.{at}{key}")));
        };
        if let Some(problem) = name_problem("tool-name", &tool.name) {
            says(".name", problem);
        } else if !names.insert(tool.name.as_str()) {
            let message = format!("tools.{at}.name: the tool stands there twice");
            says(".name", Problem::new("tool-duplicate", message));
        }
        if tool.parameters.get("type").is_some_and(|kind| kind != "object") {
            let message = format!("tools.{at}.parameters: arguments are always an object");
            let problem = Problem::new("tool-parameters", message);
            says(".parameters", problem.expected("`\"type\": \"object\"`"));
        }
        for (key, problem) in program_problems(&tool.command, tool.timeout) {
            says(key, problem);
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let made = raw.tools.into_iter().map(|raw| ToolSpec {
        name: raw.name,
        description: raw.description,
        parameters: raw.parameters,
        program: Program { command: raw.command, stays: raw.stays, timeout: raw.timeout },
    });
    Ok(made.collect())
}

impl ToolSpec {
    /// As the target's model is told of it.
    pub fn shown(&self) -> Tool {
        let mut schema = self.parameters.clone();
        schema.entry("type").or_insert_with(|| Value::from("object"));
        schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        Tool {
            name: self.name.clone(),
            description: self.description.clone(),
            schema: Value::Object(schema),
        }
    }

    /// What is wrong with arguments, as far as required names and plain types go; the rest is the
    /// tool's own to refuse.
    pub fn refuses(&self, arguments: &Map<String, Value>) -> Option<String> {
        let required = self.parameters.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !arguments.contains_key(name) {
                return Some(format!("the argument `{}` is missing", text::shown(name, 60)));
            }
        }
        let properties = self.parameters.get("properties").and_then(Value::as_object)?;
        for (name, value) in arguments {
            let Some(kind) = properties.get(name).and_then(|own| own.get("type")) else { continue };
            let kinds: Vec<&str> = match kind {
                Value::String(kind) => vec![kind],
                Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
                _ => continue,
            };
            if !kinds.is_empty() && !kinds.iter().any(|kind| is_a(value, kind)) {
                return Some(format!(
                    "the argument `{}` must be {}, not {}",
                    text::shown(name, 60),
                    kinds.join(" or "),
                    text::shown(&value.to_string(), 80)
                ));
            }
        }
        None
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|own| own.fract() == 0.0)
        }
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        // A word that we do not know refuses nothing.
        _ => true,
    }
}

/// `checkers.json`, as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckersFile {
    pub checkers: Vec<RawChecker>,
}

/// Exactly one of `assert`, `rubric` and `command`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawChecker {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// All of them must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assert: Option<Vec<Assertion>>,
    /// For a model that judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rubric: Option<String>,
    /// A program that judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    #[serde(default)]
    pub stays: bool,
    #[serde(default = "ten")]
    pub timeout: u32,
}

/// One of these, over the final state or the calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Assertion {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Equals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<At>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<At>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called: Option<Called>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_called: Option<NotCalled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_before: Option<CalledBefore>,
}

impl Assertion {
    fn kinds(&self) -> usize {
        [
            self.equals.is_some(),
            self.exists.is_some(),
            self.absent.is_some(),
            self.count.is_some(),
            self.called.is_some(),
            self.not_called.is_some(),
            self.called_before.is_some(),
        ]
        .into_iter()
        .filter(|is_there| *is_there)
        .count()
    }

    /// The pointer into the state, where it has one.
    fn path(&self) -> Option<&str> {
        let at = self.exists.as_ref().or(self.absent.as_ref()).map(|own| own.path.as_str());
        at.or(self.equals.as_ref().map(|own| own.path.as_str()))
            .or(self.count.as_ref().map(|own| own.path.as_str()))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Equals {
    /// A JSON Pointer; `{name}` becomes the sample's value.
    pub path: String,
    pub value: Value,
    /// Numbers may differ by so much.
    #[serde(default)]
    pub tolerance: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct At {
    pub path: String,
}

/// How many entries a list or an object has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Count {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Called {
    pub tool: String,
    /// What its arguments must hold, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// Exactly so often [default: at least once].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotCalled {
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalledBefore {
    pub first: String,
    pub then: String,
}

/// A checker that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Checker {
    pub name: String,
    pub description: String,
    pub by: By,
}

#[derive(Debug, Clone, PartialEq)]
pub enum By {
    Assertions(Vec<Assertion>),
    Rubric(String),
    Program(Program),
}

/// The checkers of `checkers.json`.
pub fn checkers(source: &str) -> Result<Vec<Checker>, Vec<Problem>> {
    let document = manifest(source).map_err(|problem| vec![problem])?;
    let raw: CheckersFile = document.read().map_err(|problem| vec![problem])?;
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    let mut out = Vec::new();
    if raw.checkers.len() > MOST_CHECKERS {
        let message = format!("checkers: more than the {MOST_CHECKERS} allowed");
        wrong.push(Problem::new("checkers-many", message));
    }
    for (at, own) in raw.checkers.into_iter().enumerate() {
        let mut says = |key: &str, problem: Problem| {
            wrong.push(document.locate_at(problem, &format!("checkers.{at}{key}")));
        };
        if let Some(problem) = name_problem("checker-name", &own.name) {
            says(".name", problem);
        } else if !names.insert(own.name.clone()) {
            let message = format!("checkers.{at}.name: the checker stands there twice");
            says(".name", Problem::new("checker-duplicate", message));
        }
        let by = match (own.assert, own.rubric, own.command) {
            (Some(all), None, None) => {
                for (key, problem) in assertion_problems(&all, at) {
                    says(&key, problem);
                }
                By::Assertions(all)
            }
            (None, Some(rubric), None) if !text::is_blank(&rubric) => By::Rubric(rubric),
            (None, None, Some(command)) => {
                for (key, problem) in program_problems(&command, own.timeout) {
                    says(key, problem);
                }
                By::Program(Program { command, stays: own.stays, timeout: own.timeout })
            }
            _ => {
                let message = format!("checkers.{at}: a checker judges in exactly one way");
                let problem = Problem::new("checker-kind", message);
                says("", problem.expected("one of `assert`, `rubric` and `command`"));
                continue;
            }
        };
        out.push(Checker { name: own.name, description: own.description, by });
    }
    if wrong.is_empty() { Ok(out) } else { Err(wrong) }
}

fn assertion_problems(all: &[Assertion], at: usize) -> Vec<(String, Problem)> {
    let mut wrong = Vec::new();
    if all.is_empty() {
        let message = format!("checkers.{at}.assert: an empty list would always hold");
        wrong.push((".assert".to_owned(), Problem::new("assertion-empty", message)));
    }
    for (index, own) in all.iter().enumerate() {
        let key = format!(".assert.{index}");
        let place = format!("checkers.{at}{key}");
        let mut says = |code, message: String| {
            wrong.push((key.clone(), Problem::new(code, format!("{place}: {message}"))));
        };
        if own.kinds() != 1 {
            says("assertion-kind", "an assertion says exactly one thing".to_owned());
        }
        if let Some(path) = own.path()
            && !path.is_empty()
            && !path.starts_with('/')
        {
            says("assertion-path", "a JSON Pointer begins with `/`".to_owned());
        }
        if own.equals.as_ref().is_some_and(|own| !(0.0..1e300).contains(&own.tolerance)) {
            says("assertion-tolerance", "a tolerance is a number from 0".to_owned());
        }
        if let Some(count) = &own.count {
            let bounds = [count.is, count.least, count.most].into_iter().flatten().count();
            if bounds == 0 || (count.is.is_some() && bounds > 1) {
                says("assertion-count", "it needs `is`, or `least` and/or `most`".to_owned());
            }
        }
    }
    wrong
}

/// One word, as providers take it for a tool.
fn name_problem(code: &'static str, name: &str) -> Option<Problem> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fits = !name.is_empty() && name.len() <= 64 && name.chars().all(is_word);
    (!fits || name == crate::turn::FINISH).then(|| {
        Problem::new(code, "this cannot be a name").found(name).expected(
            "1 to 64 ASCII letters, digits, `_` and `-`, and not the word that ends a conversation",
        )
    })
}

fn program_problems(command: &[String], timeout: u32) -> Vec<(&'static str, Problem)> {
    let mut wrong = Vec::new();
    let is_broken = |own: &String| own.contains('\0');
    if command.first().is_none_or(|own| own.trim().is_empty()) || command.iter().any(is_broken) {
        let problem = Problem::new("command-empty", "there is no program to start");
        wrong.push((".command", problem.expected("a list: the program and its arguments")));
    }
    if !(1..=MOST_SECONDS).contains(&timeout) {
        let message = format!("timeout: {timeout} is not between 1 and {MOST_SECONDS} seconds");
        wrong.push((".timeout", Problem::new("command-timeout", message)));
    }
    wrong
}

fn manifest(source: &str) -> Result<Document, Problem> {
    let bytes = usize::try_from(MAX_MANIFEST_BYTES).unwrap_or(usize::MAX);
    Document::json_within(source, Bounds { bytes, keys: MAX_KEYS, values: bytes })
}

/// A sample, as far as Baton reads it; further fields are kept in its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    pub sample_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    pub user: User,
    #[serde(default)]
    pub initial_state: Map<String, Value>,
    /// What `{name}` stands for in checkers.
    #[serde(default)]
    pub values: Map<String, Value>,
    pub checkers: Vec<String>,
}

/// Exactly one of these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// What the user says, turn after turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<String>>,
    /// A user that a model plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    pub persona: String,
    pub goal: String,
    /// The first words.
    pub opening: String,
    #[serde(default = "six")]
    pub most_turns: u32,
}

fn six() -> u32 {
    6
}

/// Reads a sample. `checkers`: the names of those that there are.
pub fn sample(source: &str, checkers: &BTreeSet<&str>) -> Result<Sample, Vec<Problem>> {
    let document = Document::json(source).map_err(|problem| vec![problem])?;
    let sample: Sample = document.read().map_err(|problem| vec![problem])?;
    let mut wrong = Vec::new();
    let mut says = |key: &str, problem: Problem| wrong.push(document.locate_at(problem, key));
    if let Some(problem) = id_problem(&sample.sample_id) {
        says("sample_id", problem);
    }
    match (&sample.user.turns, &sample.user.simulated) {
        (Some(turns), None) => {
            if turns.is_empty() || turns.iter().any(|turn| text::is_blank(turn)) {
                let message = "user.turns: there is nothing said, or an empty turn";
                says("user.turns", Problem::new("sample-turns", message));
            }
        }
        (None, Some(own)) => {
            if text::is_blank(&own.opening) || !(1..=100).contains(&own.most_turns) {
                let message = "user.simulated: it needs an opening, and 1 to 100 turns";
                says("user.simulated", Problem::new("sample-user", message));
            }
        }
        _ => {
            let problem = Problem::new("sample-user", "user: one user speaks");
            says("user", problem.expected("one of `turns` and `simulated`"));
        }
    }
    if sample.checkers.is_empty() {
        let message = "checkers: nothing would be checked";
        says("checkers", Problem::new("sample-checkers", message));
    }
    let mut seen = BTreeSet::new();
    for (at, name) in sample.checkers.iter().enumerate() {
        let key = format!("checkers.{at}");
        if !checkers.contains(name.as_str()) {
            let message = format!("{key}: there is no checker `{}`", text::shown(name, 60));
            let all: Vec<&str> = checkers.iter().copied().collect();
            says(&key, Problem::new("checker-unknown", message).one_of(name, &all));
        } else if !seen.insert(name) {
            let message = format!("{key}: the checker stands there twice");
            says(&key, Problem::new("checker-duplicate", message));
        }
    }
    if wrong.is_empty() { Ok(sample) } else { Err(wrong) }
}

/// An id names files: letters, digits and a few marks.
pub fn id_problem(id: &str) -> Option<Problem> {
    let fits = !id.is_empty()
        && id.len() <= 100
        && !id.starts_with('.')
        && id.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    (!fits).then(|| {
        Problem::new("sample-id", "sample_id: this cannot be part of a file's name")
            .found(id)
            .expected("at most 100 bytes of letters, digits, `_`, `-` and `.`")
    })
}

/// The design's word about the target; the rest of it is for agents and people.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Target {
    pub instructions: String,
    /// Calls of the model in one sample.
    pub max_steps: u32,
}

impl Default for Target {
    fn default() -> Target {
        Target { instructions: String::new(), max_steps: 30 }
    }
}

#[derive(Deserialize)]
struct Design {
    #[serde(default)]
    target: Option<Target>,
}

/// The `target` of `unified_scenario_design.yaml`.
pub fn design(source: &str) -> Result<Target, Problem> {
    let wrong = |error: &dyn std::fmt::Display| {
        let message = text::shown(&error.to_string(), 300);
        Problem::new("design-unreadable", format!("this YAML cannot be read: {message}"))
    };
    // The whole is read, so that a bomb anywhere in it is found; only then the one map.
    let _: serde_json::Map<String, Value> =
        serde_saphyr::from_str(source).map_err(|error| wrong(&error))?;
    let design: Design = serde_saphyr::from_str(source).map_err(|error| wrong(&error))?;
    let target = design.target.unwrap_or_default();
    match (1..=1_000).contains(&target.max_steps) {
        true => Ok(target),
        false => {
            let message = "target.max_steps: a sample has 1 to 1,000 calls of the model";
            Err(Problem::new("design-steps", message))
        }
    }
}

/// What a tool's program said.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    Result {
        result: Value,
        state: Option<Map<String, Value>>,
    },
    /// The tool refuses; the target sees why.
    Refused(String),
}

/// Reads the line of a tool's program.
pub fn tool_said(line: &[u8]) -> Result<Said, String> {
    let mut object = line_object(line)?;
    if let Some(error) = object.remove("error") {
        return match error {
            Value::String(error) => Ok(Said::Refused(error)),
            _ => Err("`error` is not a text".to_owned()),
        };
    }
    let Some(result) = object.remove("result") else {
        return Err("the line has neither `result` nor `error`".to_owned());
    };
    match object.remove("state") {
        None => Ok(Said::Result { result, state: None }),
        Some(Value::Object(state)) => Ok(Said::Result { result, state: Some(state) }),
        Some(_) => Err("`state` is not an object".to_owned()),
    }
}

/// A line of a program of the scenario: one JSON object.
pub fn line_object(line: &[u8]) -> Result<Map<String, Value>, String> {
    let shown = || text::shown(String::from_utf8_lossy(&line[..line.len().min(400)]).trim(), 120);
    match serde_json::from_slice(line).map(|Strict(value)| value) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(format!("it answered with something else than an object: {}", shown())),
        Err(error) if error.is_data() => Err(format!("its line: {error}: {}", shown())),
        Err(_) => Err(format!("its line is not JSON: {}", shown())),
    }
}
