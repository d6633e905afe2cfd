//! The update statements of a plan, one a line or split by `;`.

use crate::messages::Language;
use crate::problem::{Place, Problem, nearest};
use crate::text;

use super::{is_milestone_id, is_task_id};

/// More is a rewrite, and a rewrite is a replacement.
const MAX_STATEMENTS: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Where it stands in the text of the statements.
    pub place: Place,
    pub action: Action,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `update <ID> status to <STATUS>`
    Update { id: String, status: String },
    /// `add <ID>: <title> under <MILESTONE>`; without `under`, the milestone that the id begins with.
    AddTask { id: String, title: String, milestone: String },
    /// `add <ID>: <title>` with the id of a milestone.
    AddMilestone { id: String, title: String },
    /// `set <ID> evidence: <text>`, `set <ID> acceptance: <text>`
    Set { id: String, field: &'static str, value: String },
}

/// The fields that `set` may set.
const SETTABLE: [&str; 2] = ["evidence", "acceptance"];

impl std::fmt::Display for Action {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::Update { id, status } => write!(out, "update {id} status to {status}"),
            Action::AddTask { id, title, milestone } => {
                write!(out, "add {id}: {title} under {milestone}")
            }
            Action::AddMilestone { id, title } => write!(out, "add {id}: {title}"),
            Action::Set { id, field, value } => write!(out, "set {id} {field}: {value}"),
        }
    }
}

/// Reads statements; ids and statuses are looked up later, when they meet a plan.
pub fn parse_statements(source: &str) -> Result<Vec<Statement>, Vec<Problem>> {
    let mut statements = Vec::new();
    let mut problems = Vec::new();
    for line in text::lines(source) {
        for (at, part) in split(line.text) {
            let column = line.text[..at].chars().count() + 1;
            let place =
                Place { line: line.number, column: u32::try_from(column).unwrap_or(u32::MAX) };
            match action(part) {
                Ok(action) => statements.push(Statement { place, action }),
                Err(problem) => problems.push(problem.at(place).found(part)),
            }
            if statements.len() + problems.len() > MAX_STATEMENTS {
                let problem = Problem::localized("statement-too-many", |language| {
                    language.statements_too_many(MAX_STATEMENTS)
                });
                return Err(vec![problem.at(place).expecting(Language::replacement_instead)]);
            }
        }
    }
    if statements.is_empty() && problems.is_empty() {
        let problem = Problem::localized("statement-none", Language::statement_missing);
        problems.push(problem.expecting(Language::statement_forms));
    }
    if problems.is_empty() { Ok(statements) } else { Err(problems) }
}

/// The statements of a line with their offsets. `set` takes the rest of its line.
fn split(line: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < line.len() {
        let start = at + (line[at..].len() - line[at..].trim_start().len());
        let rest = &line[start..];
        let takes_rest = rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("set"))
            && rest[3..].chars().next().is_none_or(char::is_whitespace);
        let length =
            if takes_rest { rest.len() } else { rest.find([';', '；']).unwrap_or(rest.len()) };
        let part = rest[..length].trim_end();
        if !part.is_empty() {
            parts.push((start, part));
        }
        at = start + length + rest[length..].chars().next().map_or(1, char::len_utf8);
    }
    parts
}

fn action(statement: &str) -> Result<Action, Problem> {
    let result = if let Some(rest) = keyword(statement, "update") {
        update(rest)
    } else if let Some(rest) = keyword(statement, "add") {
        add(rest)
    } else if let Some(rest) = keyword(statement, "set") {
        set(rest)
    } else {
        let mut problem = Problem::localized("statement-unknown", |language| {
            language.statement_unknown(text::shown(statement, 60))
        })
        .expecting(Language::statement_forms);
        let first = statement.split_whitespace().next().unwrap_or_default();
        problem.did_you_mean = nearest(first, &["update", "add", "set"]).map(str::to_owned);
        return Err(problem);
    };
    result.map_err(|malformed| {
        let mut problem = Problem::localized("statement-malformed", |language| {
            language.statement_malformed(text::shown(statement, 60), (malformed.why)(language))
        })
        .expecting(malformed.form);
        problem.did_you_mean = malformed.nearest;
        problem
    })
}

/// A statement whose first word is right and whose rest is not.
struct Malformed {
    why: fn(Language) -> String,
    form: fn(Language) -> String,
    nearest: Option<String>,
}

fn update(rest: &str) -> Result<Action, Malformed> {
    let malformed = |why| Malformed { why, form: Language::update_form, nearest: None };
    let (id, rest) = word(rest);
    if !is_task_id(id) {
        return Err(malformed(Language::statement_bad_id));
    }
    let status = keyword(rest, "status").and_then(|rest| keyword(rest, "to"));
    match status.map(word) {
        Some(("", _)) => Err(malformed(Language::statement_no_status)),
        Some((status, "")) => {
            Ok(Action::Update { id: id.to_owned(), status: text::unwrapped(status).to_owned() })
        }
        Some(_) => Err(malformed(Language::statement_after_status)),
        None => Err(malformed(Language::statement_no_status_to)),
    }
}

fn add(rest: &str) -> Result<Action, Malformed> {
    let malformed = |why| Malformed { why, form: Language::add_form, nearest: None };
    let Some(colon) = rest.find(text::is_colon) else {
        return Err(malformed(Language::statement_no_colon));
    };
    let id = rest[..colon].trim();
    let title = rest[colon..].trim_start_matches(text::is_colon).trim();
    let (title, under) = match title.rsplit_once(" under ") {
        Some((before, milestone)) if is_milestone_id(milestone.trim()) => {
            (before.trim(), Some(milestone.trim()))
        }
        _ => (title, None),
    };
    if text::is_blank(title) {
        return Err(malformed(Language::statement_no_title));
    }
    let last = title.rsplit_once(" under ").map(|(_, word)| word);
    if under.is_none() && last.is_some_and(|word| word.contains('-') && is_task_id(word)) {
        return Err(malformed(Language::statement_bad_milestone));
    }
    let (id, title) = (id.to_owned(), title.to_owned());
    match under {
        None if is_milestone_id(&id) => Ok(Action::AddMilestone { id, title }),
        _ if !is_task_id(&id) => Err(malformed(Language::statement_bad_id)),
        Some(milestone) => Ok(Action::AddTask { milestone: milestone.to_owned(), id, title }),
        None => match id.split_once('-') {
            Some((milestone, _)) if is_milestone_id(milestone) => {
                Ok(Action::AddTask { milestone: milestone.to_owned(), id, title })
            }
            _ => Err(malformed(Language::statement_no_milestone)),
        },
    }
}

fn set(rest: &str) -> Result<Action, Malformed> {
    let malformed = |why, nearest: Option<&str>| Malformed {
        why,
        form: Language::set_forms,
        nearest: nearest.map(str::to_owned),
    };
    let (id, rest) = word(rest);
    if id.ends_with(text::is_colon) && is_task_id(id.trim_end_matches(text::is_colon)) {
        return Err(malformed(Language::statement_no_field, None));
    }
    if !is_task_id(id) {
        return Err(malformed(Language::statement_bad_id, None));
    }
    let Some(colon) = rest.find(text::is_colon) else {
        return Err(malformed(Language::statement_no_colon, None));
    };
    let name = rest[..colon].trim();
    let value = rest[colon..].trim_start_matches(text::is_colon).trim();
    let Some(field) = SETTABLE.into_iter().find(|field| field.eq_ignore_ascii_case(name)) else {
        return Err(malformed(Language::statement_bad_field, nearest(name, &SETTABLE)));
    };
    if text::is_blank(value) {
        return Err(malformed(Language::statement_no_text, None));
    }
    Ok(Action::Set { id: id.to_owned(), field, value: value.to_owned() })
}

/// What follows a keyword, in any case, that ends at a space or at the end.
fn keyword<'a>(text: &'a str, keyword: &str) -> Option<&'a str> {
    let (first, rest) = word(text);
    first.eq_ignore_ascii_case(keyword).then_some(rest)
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}
