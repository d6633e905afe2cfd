//! What MAIN decides. Goes in: its answer, whole and untrusted. Comes out: a `Decision`, or every
//! problem with its place. One JSON object and nothing around it; nothing is guessed.

use serde::{Deserialize, Serialize};

use crate::document::{Document, Node, Value};
use crate::id::{AgentName, FINISH, FINISH_CHECK, USER};
use crate::messages::{Language, LocalizedText};
use crate::plan::{Statement, parse_statements};
use crate::policy::{Needed, Outcome, Routing};
use crate::problem::{Problem, list_in};
use crate::text;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    pub next: Next,
    pub reason: String,
    #[serde(default, skip_serializing_if = "PlanChange::is_none")]
    pub plan: PlanChange,
    /// FINISH_REVIEW's verdict is overruled; possible only in FINISH_CHECK.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overrules_review: bool,
    /// The work order, where MAIN wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// A line for history, from the flat form of older blackboards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    Agent(AgentName),
    User(Question),
    Finish,
}

impl Next {
    pub fn word(&self) -> &str {
        match self {
            Next::Agent(agent) => agent.as_str(),
            Next::User(_) => USER,
            Next::Finish => FINISH,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "WrittenChange", try_from = "WrittenChange")]
pub enum PlanChange {
    #[default]
    None,
    /// The statements and the text they came from.
    Update(Vec<Statement>, String),
    Replace(String),
}

/// A change of the plan in a journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenChange {
    None,
    /// The text of the statements.
    Update(String),
    Replace(String),
}

impl PlanChange {
    fn is_none(&self) -> bool {
        matches!(self, PlanChange::None)
    }
}

impl From<PlanChange> for WrittenChange {
    fn from(change: PlanChange) -> WrittenChange {
        match change {
            PlanChange::None => WrittenChange::None,
            PlanChange::Update(_, text) => WrittenChange::Update(text),
            PlanChange::Replace(text) => WrittenChange::Replace(text),
        }
    }
}

impl TryFrom<WrittenChange> for PlanChange {
    type Error = String;

    fn try_from(change: WrittenChange) -> Result<PlanChange, String> {
        match change {
            WrittenChange::None => Ok(PlanChange::None),
            WrittenChange::Update(text) => match parse_statements(&text) {
                Ok(statements) => Ok(PlanChange::Update(statements, text)),
                Err(_) => Err("these are not statements of a plan".to_owned()),
            },
            WrittenChange::Replace(text) => Ok(PlanChange::Replace(text)),
        }
    }
}

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    pub title: String,
    pub text: String,
    /// 2 to 4.
    pub options: Vec<Choice>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub recommended_option_id: Option<String>,
}

impl Question {
    /// The option that a person means: by its id, or by its number, from 1.
    pub fn choice(&self, word: &str) -> Option<&Choice> {
        let by_id = self.options.iter().find(|option| option.option_id == word);
        by_id.or_else(|| {
            let number = word.parse::<usize>().ok()?;
            self.options.get(number.checked_sub(1)?)
        })
    }

    pub fn is_recommended(&self, option: &Choice) -> bool {
        self.recommended_option_id.as_ref() == Some(&option.option_id)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    pub option_id: String,
    pub description: String,
}

/// Where MAIN stands when it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Ordinary,
    FinishCheck,
}

/// The four keys of an ordinary decision and its two optional ones.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    next_agent: String,
    reason: String,
    #[serde(deserialize_with = "Option::deserialize")]
    dev_plan: Option<DevPlan>,
    #[serde(deserialize_with = "Option::deserialize")]
    finish_review_override: Option<String>,
    #[serde(default)]
    task: Option<String>,
    #[serde(default)]
    question: Option<Question>,
    /// Always null here: a request for files is not a decision.
    #[serde(default, rename = "reads")]
    _reads: Option<Vec<String>>,
}

#[derive(Debug)]
enum DevPlan {
    Update(String),
    Replace(Replacement),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replacement {
    replace: String,
}

impl<'de> Deserialize<'de> for DevPlan {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<DevPlan, D::Error> {
        deserializer.deserialize_any(DevPlanVisitor)
    }
}

struct DevPlanVisitor;

impl<'de> serde::de::Visitor<'de> for DevPlanVisitor {
    type Value = DevPlan;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&Language::English.dev_plan_forms())
    }

    fn visit_str<E: serde::de::Error>(self, statements: &str) -> Result<DevPlan, E> {
        Ok(DevPlan::Update(statements.to_owned()))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<DevPlan, A::Error> {
        Replacement::deserialize(serde::de::value::MapAccessDeserializer::new(map))
            .map(DevPlan::Replace)
    }
}

/// The form that older blackboards' prompts ask for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flat {
    next_agent: String,
    reason: String,
    #[serde(default)]
    history_append: Option<String>,
    #[serde(default)]
    task: Option<String>,
    #[serde(default)]
    task_body: Option<String>,
    #[serde(default)]
    dev_plan_next: Option<String>,
    #[serde(default)]
    finish_review_override: Option<String>,
    #[serde(default)]
    decision_title: Option<String>,
    #[serde(default)]
    question: Option<String>,
    #[serde(default)]
    options: Option<Vec<Choice>>,
    #[serde(default)]
    recommended_option_id: Option<String>,
}

/// The keys of a decision: what must be there, and what may be.
struct Shape {
    required: &'static [&'static str],
    optional: &'static [&'static str],
}

const NATIVE: Shape = Shape {
    required: &["next_agent", "reason", "dev_plan", "finish_review_override"],
    optional: &["task", "question", "reads"],
};
const FLAT: Shape = Shape {
    required: &["next_agent", "reason"],
    optional: &[
        "history_append",
        "task",
        "task_body",
        "dev_plan_next",
        "finish_review_override",
        "decision_title",
        "question",
        "options",
        "recommended_option_id",
    ],
};
/// Keys that only the flat form has.
const FLAT_ONLY: [&str; 6] = [
    "history_append",
    "task_body",
    "dev_plan_next",
    "decision_title",
    "options",
    "recommended_option_id",
];
/// The key of an override, and the prefix of the line of `history_append` that holds it.
const OVERRIDE: &str = "finish_review_override";

/// Files that MAIN may ask to read at once.
pub const MOST_READS: usize = 4;
/// Folders of the blackboard in which they may be.
pub const READABLE: [&str; 3] = ["reports", "memory", "handoffs"];

/// The paths that MAIN asks to read instead of deciding. `None`: the answer is not such a request;
/// `read` says what it is.
pub fn reads(source: &str) -> Option<Result<Vec<String>, Vec<Problem>>> {
    let document = Document::json(text::without_fence(source)).ok()?;
    let root = &document.root;
    let asked = root.get("reads").filter(|asked| !matches!(asked.value, Value::Null))?;
    let mut problems = Vec::new();
    let is_set = |name: &str| root.get(name).is_some_and(|own| !matches!(own.value, Value::Null));
    for key in root.keys().filter(|key| key.name != "reads" && is_set(&key.name)) {
        let shown = text::shown(&key.name, 60);
        let problem = Problem::localized("reads-alone", |language| language.reads_with(&shown));
        let problem = problem.found(&key.name).expecting(Language::reads_alone);
        problems.push(document.locate(problem, key.span));
    }
    let mut paths = Vec::new();
    let items: &[Node] = if let Value::Array(items) = &asked.value { items } else { &[] };
    if items.is_empty() || items.len() > MOST_READS {
        let problem = Problem::localized("reads-count", Language::reads_count)
            .expecting(Language::reads_example);
        problems.push(document.locate(problem, asked.span));
    }
    for item in items {
        match &item.value {
            Value::String(path) if is_readable(path) => paths.push(path.clone()),
            other => {
                let shown = |language: Language| match other {
                    Value::String(path) => text::shown(path, 100),
                    other => other.kind(language),
                };
                let problem = Problem::localized("reads-path", |language| {
                    language.reads_refused(shown(language))
                });
                let problem = match other {
                    Value::String(path) => problem.found(path),
                    _ => problem,
                };
                let problem = problem.expecting(Language::reads_folders);
                problems.push(document.locate(problem, item.span));
            }
        }
    }
    paths.dedup();
    Some(if problems.is_empty() { Ok(paths) } else { Err(problems) })
}

/// True if MAIN may read this path of the blackboard: relative, plain, in one of its folders.
fn is_readable(path: &str) -> bool {
    let mut parts = path.split('/');
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.len() <= 300
        && !path.contains(['\\', '\0'])
        && parts.next().is_some_and(|first| READABLE.contains(&first))
        && parts.clone().next().is_some()
        && parts.all(is_plain)
}

pub fn read(source: &str, agents: &[AgentName], moment: Moment) -> Result<Decision, Vec<Problem>> {
    if let Some(Err(problems)) = reads(source) {
        return Err(problems);
    }
    let source = text::without_fence(source);
    let document = Document::json(source).map_err(|problem| vec![around(source, problem)])?;
    let root = &document.root;
    if !matches!(root.value, Value::Object(_)) {
        let problem = Problem::localized("decision-type", |language| {
            language.decision_not_object(root.value.kind(language))
        });
        let problem = problem.expecting(Language::one_json_object);
        return Err(vec![document.locate(problem, root.span)]);
    }
    let mut check = Check { document: &document, problems: Vec::new() };
    let is_flat = is_flat(root);
    check.keys(root, if is_flat { &FLAT } else { &NATIVE });
    if !check.problems.is_empty() {
        return Err(check.problems);
    }
    let decision = match is_flat {
        true => document.read().map(|flat| check.flat(flat, agents, moment)),
        false => document.read().map(|written| check.written(written, agents, moment)),
    };
    check.problems.sort_by_key(|problem| problem.place);
    match decision.map_err(|problem| vec![problem])? {
        Some(decision) if check.problems.is_empty() => Ok(decision),
        _ => Err(check.problems),
    }
}

/// As MAIN would write it. A decision with a note can only be written flat.
pub fn render(decision: &Decision) -> String {
    let question = match &decision.next {
        Next::User(question) => Some(question),
        Next::Agent(_) | Next::Finish => None,
    };
    let overruled = decision.overrules_review.then_some("ignore");
    let value = match &decision.note {
        Some(note) => serde_json::json!({
            "next_agent": decision.next.word(),
            "reason": decision.reason,
            "history_append": note,
            "task": decision.task,
            "dev_plan_next": match &decision.plan {
                PlanChange::Replace(text) => Some(text),
                PlanChange::None | PlanChange::Update(..) => None,
            },
            "finish_review_override": overruled,
            "decision_title": question.map(|question| &question.title),
            "question": question.map(|question| &question.text),
            "options": question.map(|question| &question.options),
            "recommended_option_id": question.map(|question| &question.recommended_option_id),
        }),
        None => serde_json::json!({
            "next_agent": decision.next.word(),
            "reason": decision.reason,
            "dev_plan": match &decision.plan {
                PlanChange::None => serde_json::Value::Null,
                PlanChange::Update(_, text) => text.as_str().into(),
                PlanChange::Replace(text) => serde_json::json!({ "replace": text }),
            },
            "finish_review_override": overruled,
            "task": decision.task,
            "question": question,
        }),
    };
    value.to_string()
}

/// The JSON Schema of a decision or of a request to read, for providers that can constrain their
/// output. It is one object with every key, since not every provider takes a choice between two
/// objects; keys that do not apply are null.
pub fn schema(agents: &[AgentName]) -> serde_json::Value {
    let mut next: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
    next.extend([USER, FINISH]);
    let nullable =
        |schema: serde_json::Value| serde_json::json!({ "anyOf": [{ "type": "null" }, schema] });
    let text = || serde_json::json!({ "type": "string" });
    let choice = serde_json::json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["option_id", "description"],
        "properties": { "option_id": text(), "description": text() },
    });
    let question = serde_json::json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["title", "text", "options", "recommended_option_id"],
        "properties": {
            "title": text(),
            "text": text(),
            "options": { "type": "array", "items": choice, "minItems": 2, "maxItems": 4 },
            "recommended_option_id": nullable(text()),
        },
    });
    serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Decision",
        "type": "object",
        "additionalProperties": false,
        "required": [
            "next_agent", "reason", "dev_plan", "finish_review_override", "task", "question", "reads",
        ],
        "properties": {
            "next_agent": nullable(serde_json::json!({ "type": "string", "enum": next })),
            "reason": nullable(serde_json::json!({ "type": "string", "minLength": 1 })),
            "dev_plan": { "anyOf": [
                { "type": "null" },
                { "type": "string", "description": "update statements, one a line" },
                { "type": "object", "additionalProperties": false, "required": ["replace"],
                  "properties": { "replace": { "type": "string", "description": "the whole plan" } } },
            ] },
            "finish_review_override": nullable(serde_json::json!({ "type": "string", "enum": ["ignore"] })),
            "task": nullable(text()),
            "question": nullable(question),
            "reads": nullable(serde_json::json!({
                "type": "array", "items": text(), "minItems": 1, "maxItems": MOST_READS,
                "description": "paths to read before deciding; all other keys are then null",
            })),
        },
    })
}

/// Whether the policy lets this agent be next. `newest` is the outcome of the newest report of an
/// agent; `last` is the agent whose report came last.
pub fn check_routing(
    next: &Next,
    routing: &Routing,
    last: Option<&AgentName>,
    newest: impl Fn(&AgentName) -> Option<Outcome>,
) -> Result<(), Problem> {
    let Next::Agent(agent) = next else { return Ok(()) };
    let missing = routing.needs_pass.get(agent).into_iter().flatten().filter_map(|own| match own {
        Needed::By(agent) => Some(agent),
        Needed::Of(_) => None,
    });
    if let Some(needed) = missing.into_iter().find(|needed| newest(needed) != Some(Outcome::Pass)) {
        let problem = Problem::localized("routing-needs-pass", |language| {
            language.routing_needs_pass(agent, needed)
        });
        return Err(problem.one_of(agent.as_str(), &[needed.as_str()]));
    }
    let Some(last) = last else { return Ok(()) };
    let outcome = newest(last);
    let required = match outcome {
        Some(Outcome::Fail) => routing.after_fail.get(last),
        Some(Outcome::Blocked) => routing.after_blocked.get(last),
        Some(Outcome::Pass) | None => return Ok(()),
    };
    match required {
        Some(required) if !required.contains(agent) => {
            let mut words: Vec<&str> = required.iter().map(AgentName::as_str).collect();
            words.push(USER);
            let problem = Problem::localized("routing-after", |language| match outcome {
                Some(Outcome::Blocked) => language.routing_after_block(last, agent),
                _ => language.routing_after_fail(last, agent),
            });
            Err(problem
                .found(agent.as_str())
                .expecting(|language| language.one_of(list_in(language, &words))))
        }
        _ => Ok(()),
    }
}

/// Text before the JSON is the commonest fault of models; say it as such.
fn around(source: &str, problem: Problem) -> Problem {
    let start = source.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    if start.starts_with(['{', '[', '"']) || problem.code != "json-syntax" {
        return problem;
    }
    let mut problem = problem.expecting(Language::one_json_object_first);
    let shown = text::shown(start.lines().next().unwrap_or(start), 40);
    problem.message = LocalizedText::new(|language| match start {
        "" => language.decision_is_empty(),
        fence if fence.starts_with("```") => language.json_fence_before(),
        _ => language.json_text_before(&shown),
    });
    problem
}

/// Problems of a decision's plan change, whose places count inside that text, at the place of the text
/// in the decision.
pub fn located(source: &str, problems: Vec<Problem>) -> Vec<Problem> {
    match Document::json(source) {
        Ok(document) => {
            problems.into_iter().map(|problem| inside_plan(&document, problem)).collect()
        }
        Err(_) => problems,
    }
}

fn inside_plan(document: &Document, mut problem: Problem) -> Problem {
    let plan = document.root.get("dev_plan");
    let path = match plan {
        Some(plan) if plan.get("replace").is_some() => "dev_plan.replace",
        Some(_) => "dev_plan",
        None => "dev_plan_next",
    };
    let place = problem.place.take();
    problem.message = problem.message.map(|language, message| match place {
        Some(place) => language.problem_in_value_line(path, place.line, message),
        None => language.problem_in_value(path, message),
    });
    document.locate_at(problem, path)
}

fn is_flat(root: &Node) -> bool {
    let question_is_text =
        root.get("question").is_some_and(|node| matches!(node.value, Value::String(_)));
    let native = root.get("dev_plan").is_some();
    !native && (question_is_text || root.keys().any(|key| FLAT_ONLY.contains(&key.name.as_str())))
}

/// `history_append` without the heading that the prompts of older blackboards ask for: the entry has
/// its own.
fn without_heading(note: &str) -> &str {
    match note.trim_start().strip_prefix("## Iteration ") {
        Some(rest) => rest.split_once('\n').map_or("", |(_, body)| body),
        None => note,
    }
}

/// True if a line of `history_append` overrides FINISH_REVIEW, as the prompts of older blackboards
/// ask for it: `finish_review_override: ignore`, with the reason after it or on the next lines.
fn overrules_in_note(note: &str) -> bool {
    let prefix = format!("{OVERRIDE}:");
    text::lines(note).any(|line| {
        let bare = line.text.trim_start().trim_start_matches(['`', '-', ' ']);
        let value = text::key_line(bare, &prefix).map(|key| key.value.trim_start_matches('`'));
        value.and_then(|value| value.strip_prefix("ignore")).is_some_and(|rest| {
            !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        })
    })
}

fn question_missing(form: impl Fn(Language) -> String) -> Problem {
    Problem::localized("decision-no-question", |language| language.question_missing(USER))
        .expecting(form)
}

struct Check<'a> {
    document: &'a Document,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn fail(&mut self, path: &str, problem: Problem) {
        self.problems.push(self.document.locate_at(problem, path));
    }

    /// MAIN has one try to correct itself: it is told of every wrong key at once.
    fn keys(&mut self, root: &Node, shape: &Shape) {
        let known: Vec<&str> = shape.required.iter().chain(shape.optional).copied().collect();
        for key in root.keys().filter(|key| !known.contains(&key.name.as_str())).take(20) {
            let shown = text::shown(&key.name, 60);
            let problem =
                Problem::localized("key-unknown", |language| language.key_unknown(&shown));
            let problem = problem.found(&key.name).one_of(&key.name, &known);
            self.problems.push(self.document.locate(problem, key.span));
        }
        for name in shape.required.iter().filter(|name| root.get(name).is_none()) {
            let problem = Problem::localized("key-missing", |language| language.key_missing(name))
                .found("")
                .expecting(|language| language.all_of(list_in(language, shape.required)));
            self.problems.push(self.document.locate(problem, root.span));
        }
    }

    fn written(
        &mut self,
        written: Written,
        agents: &[AgentName],
        moment: Moment,
    ) -> Option<Decision> {
        let plan = self.plan(written.dev_plan);
        let question = written.question.inspect(|question| {
            self.question(question, "question.", ["title", "text"]);
        });
        let next = self.next(&written.next_agent, agents, question);
        let reason = self.filled("reason", written.reason);
        let overrules_review = self.overruling(written.finish_review_override, moment);
        let task = written.task.map(|task| self.filled("task", task));
        Some(Decision { next: next?, reason, plan: plan?, overrules_review, task, note: None })
    }

    fn flat(&mut self, flat: Flat, agents: &[AgentName], moment: Moment) -> Option<Decision> {
        let has_any =
            flat.question.is_some() || flat.options.is_some() || flat.decision_title.is_some();
        let question = match (flat.question, flat.options) {
            (Some(text), Some(options)) => {
                let title = flat.decision_title.unwrap_or_default();
                let recommended_option_id = flat.recommended_option_id;
                let question = Question { title, text, options, recommended_option_id };
                self.question(&question, "", ["decision_title", "question"]);
                Some(question)
            }
            _ if flat.next_agent == USER => {
                self.fail("next_agent", question_missing(Language::question_flat_keys));
                return None;
            }
            _ => None,
        };
        if question.is_none() && has_any {
            self.question_for_nobody("next_agent", &flat.next_agent);
        }
        let next = self.next(&flat.next_agent, agents, question);
        let reason = self.filled("reason", flat.reason);
        let note = flat.history_append.as_deref().map(without_heading);
        let note = note.filter(|note| !note.trim().is_empty()).map(str::to_owned);
        let in_note =
            moment == Moment::FinishCheck && note.as_deref().is_some_and(overrules_in_note);
        let overrules_review = self.overruling(flat.finish_review_override, moment) || in_note;
        let plan = match flat.dev_plan_next {
            Some(text) => PlanChange::Replace(self.filled("dev_plan_next", text)),
            None => PlanChange::None,
        };
        let task = self.work_order(flat.task, flat.task_body);
        Some(Decision { next: next?, reason, plan, overrules_review, task, note })
    }

    /// The work order of the flat form, which has two names for it.
    fn work_order(&mut self, task: Option<String>, body: Option<String>) -> Option<String> {
        if task.is_some() && body.is_some() && task != body {
            let problem = Problem::localized("decision-two-tasks", Language::two_work_orders);
            self.fail("task_body", problem.expecting(Language::one_of_them));
        }
        match (task, body) {
            (Some(task), _) => Some(self.filled("task", task)),
            (None, body) => body.map(|body| self.filled("task_body", body)),
        }
    }

    fn next(
        &mut self,
        word: &str,
        agents: &[AgentName],
        question: Option<Question>,
    ) -> Option<Next> {
        let next = match word {
            USER => match question {
                Some(question) => return Some(Next::User(question)),
                None => {
                    self.fail("next_agent", question_missing(Language::question_form));
                    return None;
                }
            },
            FINISH => Next::Finish,
            word => match agents.iter().find(|agent| *agent == word) {
                Some(agent) => Next::Agent(agent.clone()),
                None => {
                    let mut known: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
                    known.extend([USER, FINISH]);
                    let problem = Problem::localized("decision-unknown-agent", |language| {
                        language.next_agent_unknown(text::shown(word, 40))
                    });
                    self.fail("next_agent", problem.found(word).one_of(word, &known));
                    return None;
                }
            },
        };
        if question.is_some() {
            self.question_for_nobody("question", word);
        }
        Some(next)
    }

    fn question_for_nobody(&mut self, path: &str, next: &str) {
        let problem = Problem::localized("decision-question", |language| {
            language.question_unasked(USER, text::shown(next, 40))
        });
        self.fail(path, problem.expecting(Language::null_value));
    }

    fn plan(&mut self, plan: Option<DevPlan>) -> Option<PlanChange> {
        match plan {
            None => Some(PlanChange::None),
            Some(DevPlan::Replace(Replacement { replace })) => {
                Some(PlanChange::Replace(self.filled("dev_plan.replace", replace)))
            }
            Some(DevPlan::Update(source)) => match parse_statements(&source) {
                Ok(statements) => Some(PlanChange::Update(statements, source)),
                Err(problems) => {
                    let problems = problems.into_iter().map(|mut problem| {
                        if problem.place.is_none() {
                            problem.message = problem
                                .message
                                .map(|language, message| language.no_change_is_null(message));
                        }
                        inside_plan(self.document, problem)
                    });
                    self.problems.extend(problems);
                    None
                }
            },
        }
    }

    fn overruling(&mut self, word: Option<String>, moment: Moment) -> bool {
        const PATH: &str = OVERRIDE;
        match (word.as_deref(), moment) {
            (None, _) => return false,
            (Some("ignore"), Moment::FinishCheck) => return true,
            (Some("ignore"), Moment::Ordinary) => {
                let problem = Problem::localized("decision-override", |language| {
                    language.override_only_in(FINISH_CHECK)
                });
                self.fail(PATH, problem.expecting(Language::null_value));
            }
            (Some(other), _) => {
                let problem = Problem::localized("decision-override", |language| {
                    language.override_unknown(text::shown(other, 40))
                });
                let problem = problem.one_of(other, &["ignore"]);
                self.fail(PATH, problem.expecting(Language::null_or_ignore));
            }
        }
        false
    }

    fn question(&mut self, question: &Question, base: &str, names: [&str; 2]) {
        let path = |name: &str| format!("{base}{name}");
        for (name, value) in names.into_iter().zip([&question.title, &question.text]) {
            self.filled(&path(name), value.clone());
        }
        let count = question.options.len();
        if !(2..=4).contains(&count) {
            let problem =
                Problem::localized("decision-options", |language| language.options_count(count));
            self.fail(&path("options"), problem);
        }
        let mut ids: Vec<&str> = Vec::new();
        for (index, option) in question.options.iter().enumerate() {
            let id_path = path(&format!("options.{index}.option_id"));
            self.filled(&path(&format!("options.{index}.description")), option.description.clone());
            let id = self.filled(&id_path, option.option_id.clone());
            if !id.is_empty() && ids.contains(&id.as_str()) {
                let problem = Problem::localized("decision-options", |language| {
                    language.option_twice(text::shown(&id, 40))
                });
                self.fail(&id_path, problem);
            }
            ids.push(&option.option_id);
        }
        if let Some(id) = question.recommended_option_id.as_deref().filter(|id| !ids.contains(id)) {
            let problem = Problem::localized("decision-options", |language| {
                language.recommended_unknown(text::shown(id, 40))
            });
            self.fail(&path("recommended_option_id"), problem.one_of(id, &ids));
        }
    }

    fn filled(&mut self, path: &str, value: String) -> String {
        if text::is_blank(&value) {
            let problem =
                Problem::localized("decision-empty", |language| language.value_is_empty(path));
            self.fail(path, problem.expecting(Language::some_text));
        }
        value
    }
}
