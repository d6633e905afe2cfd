//! The plan: Markdown that people and MAIN write and that code can count. Goes in: its text and
//! the policy's statuses. Comes out: milestones and tasks; and, for an update, a new text in which
//! only the lines that had to change did. A failed update changes nothing.

mod edit;
mod statement;

use schemars::JsonSchema;
use serde::Serialize;

use crate::messages::Language;
use crate::policy::PlanRules;
use crate::problem::{Place, Problem};
use crate::text::{self, Fence, Line};

pub use edit::{Applied, Change, Finality};
pub use statement::{Action, Statement, parse_statements};

pub const MAX_BYTES: u64 = 4 << 20;
/// More is not a plan; the bound keeps a hostile file's index small.
pub const MAX_TASKS: usize = 10_000;
const MAX_FIELDS: usize = 1_000;

/// A plan and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    text: String,
    pub milestones: Vec<Milestone>,
    pub tasks: Vec<Task>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Milestone {
    pub id: String,
    pub title: String,
    #[serde(skip)]
    block: Lines,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Task {
    pub id: String,
    pub title: String,
    /// The milestone that it stands under.
    pub milestone: Option<String>,
    /// The last of its status lines, in the policy's word.
    pub status: String,
    /// All its fields, as written, the status lines among them.
    pub fields: Vec<Field>,
    #[serde(skip)]
    block: Lines,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Field {
    pub name: String,
    /// Lines that go on with it are joined by `\n`, without their indentation.
    pub value: String,
    #[serde(skip)]
    lines: Lines,
    /// Of the value, in its first line.
    #[serde(skip)]
    column: u32,
}

/// Line numbers, from 1, `first..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lines {
    first: u32,
    end: u32,
}

/// The name of the field that holds a task's status.
const STATUS: &str = "status";

impl Plan {
    pub fn read(source: &str, rules: &PlanRules) -> Result<Plan, Vec<Problem>> {
        if source.len() as u64 > MAX_BYTES {
            return Err(vec![Problem::localized("plan-size", |language| {
                language.plan_too_large(source.len(), MAX_BYTES)
            })]);
        }
        let mut reader = Reader::default();
        for line in text::lines(source) {
            reader.line(line)?;
        }
        reader.finish(source, rules)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn task(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }

    /// Whether there is a task and every task has the final status.
    pub fn is_ready(&self, rules: &PlanRules) -> bool {
        !self.tasks.is_empty() && self.tasks.iter().all(|task| task.status == rules.final_status)
    }

    /// How many tasks have each status, in the policy's order.
    pub fn status_counts<'a>(&self, rules: &'a PlanRules) -> Vec<(&'a str, usize)> {
        let count = |status: &str| self.tasks.iter().filter(|task| task.status == status).count();
        rules.statuses.iter().map(|status| (status.as_str(), count(status))).collect()
    }

    /// What reads strangely but stops nothing.
    pub fn warnings(&self) -> Vec<Problem> {
        let mut warnings = Vec::new();
        if self.tasks.is_empty() {
            warnings.push(Problem::warning("plan-empty", "the plan has no task yet"));
        }
        let mut fence = Fence::default();
        for line in text::lines(&self.text) {
            let level = line.text.bytes().take_while(|b| *b == b'#').count();
            if !fence.covers(line) && matches!(level, 1 | 2) && looks_like_task(&line.text[level..])
            {
                let message =
                    format!("`{}` reads like a task but is not one", text::shown(line.text, 60));
                let problem = Problem::warning("plan-task-level", message);
                let place = Place { line: line.number, column: 1 };
                warnings.push(problem.at(place).found(line.text).expected("`### <ID>: <title>`"));
            }
        }
        warnings
    }
}

impl Task {
    /// The value of its last field of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.last_field(name).map(|field| field.value.as_str())
    }

    fn last_field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().rev().find(|field| field.name.eq_ignore_ascii_case(name))
    }
}

/// A plan's text from its parts. Reading it back gives the same parts.
pub fn render(milestones: &[Milestone], tasks: &[Task]) -> String {
    fn write_task(out: &mut String, task: &Task) {
        out.push_str(&format!("### {}: {}\n", task.id, task.title));
        for field in &task.fields {
            let value = field.value.replace('\n', "\n  ");
            let space = if value.is_empty() { "" } else { " " };
            out.push_str(&format!("- {}:{space}{value}\n", field.name));
        }
        out.push('\n');
    }
    let mut out = String::new();
    for task in tasks.iter().filter(|task| task.milestone.is_none()) {
        write_task(&mut out, task);
    }
    for milestone in milestones {
        out.push_str(&format!("## Milestone {}: {}\n\n", milestone.id, milestone.title));
        for task in tasks.iter().filter(|task| task.milestone.as_ref() == Some(&milestone.id)) {
            write_task(&mut out, task);
        }
    }
    out
}

impl Milestone {
    pub fn new(id: &str, title: &str) -> Milestone {
        Milestone { id: id.to_owned(), title: title.to_owned(), block: Lines::default() }
    }

    /// The same, whatever lines it stands on.
    pub fn same(&self, other: &Milestone) -> bool {
        (&self.id, &self.title) == (&other.id, &other.title)
    }
}

impl Task {
    pub fn new(
        id: &str,
        title: &str,
        milestone: Option<&str>,
        fields: &[(&str, &str)],
        status: &str,
    ) -> Task {
        let field = |(name, value): &(&str, &str)| Field {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            lines: Lines::default(),
            column: 1,
        };
        Task {
            id: id.to_owned(),
            title: title.to_owned(),
            milestone: milestone.map(str::to_owned),
            status: status.to_owned(),
            fields: fields.iter().map(field).collect(),
            block: Lines::default(),
        }
    }

    /// The same, whatever lines it stands on.
    pub fn same(&self, other: &Task) -> bool {
        let fields = |task: &Task| -> Vec<(String, String)> {
            task.fields.iter().map(|field| (field.name.clone(), field.value.clone())).collect()
        };
        (&self.id, &self.title, &self.milestone, &self.status)
            == (&other.id, &other.title, &other.milestone, &other.status)
            && fields(self) == fields(other)
    }
}

/// A milestone's id: letters and then digits, as `M1` or `Act2.1`.
pub fn is_milestone_id(word: &str) -> bool {
    let letters = word.bytes().take_while(u8::is_ascii_alphabetic).count();
    let digits = &word[letters..];
    (1..=16).contains(&letters)
        && (1..=16).contains(&digits.len())
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// A task's id: a letter first, a digit somewhere, as `M1-T1`.
pub fn is_task_id(word: &str) -> bool {
    word.len() <= 64
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.bytes().any(|b| b.is_ascii_digit())
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && !word.ends_with(['.', '_', '-'])
}

fn looks_like_task(heading: &str) -> bool {
    heading.split_whitespace().next().is_some_and(|word| {
        let id = word.trim_end_matches(text::is_colon);
        id.len() < word.len() && id.contains('-') && is_task_id(id)
    })
}

/// Splits `[word] ID: title`.
fn heading(line: &str, level: &str, is_id: fn(&str) -> bool) -> Option<(String, String)> {
    let rest = line.strip_prefix(level)?;
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    let mut rest = rest.trim();
    for _ in 0..2 {
        let end = rest.find(|c: char| c.is_whitespace() || text::is_colon(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let behind = behind.trim_start();
        if is_id(word) && behind.starts_with(text::is_colon) {
            let title = behind.trim_start_matches(text::is_colon).trim();
            return Some((word.to_owned(), title.to_owned()));
        }
        if behind.starts_with(text::is_colon) || word.contains(|c: char| c.is_ascii_digit()) {
            return None;
        }
        rest = behind;
    }
    None
}

#[derive(Default)]
struct Reader {
    milestones: Vec<Milestone>,
    /// With the place of each status line that is not known yet.
    tasks: Vec<Task>,
    fence: Fence,
    /// The line that opened an HTML comment we are in.
    comment: Option<u32>,
    last_line: u32,
    /// A task's block is open.
    in_task: bool,
    /// The indentation of the fields in this part of a task, and whether the last line's field may
    /// still go on.
    field: Option<usize>,
    /// The fence or comment we are in stands indented under a field and belongs to it.
    in_field: bool,
}

impl Reader {
    fn line(&mut self, line: Line<'_>) -> Result<(), Vec<Problem>> {
        self.last_line = line.number;
        let was_open = self.fence.opened_at().is_some() || self.comment.is_some();
        if self.fence.covers(line) || self.in_comment(line) {
            self.unread(line, was_open);
            return Ok(());
        }
        let level = line.text.bytes().take_while(|b| *b == b'#').count();
        if level > 0 && line.text[level..].starts_with([' ', '\t']) {
            self.field = None;
            if level <= 3 {
                self.end_task(line.number);
            }
            if level <= 2 {
                self.end_milestone(line.number);
            }
            if let Some((id, title)) = heading(line.text, "##", is_milestone_id) {
                if self.milestones.len() == MAX_TASKS {
                    return Err(too_many(line.number, |language| {
                        language.plan_too_many_milestones(MAX_TASKS)
                    }));
                }
                let block = Lines { first: line.number, end: 0 };
                self.milestones.push(Milestone { id, title, block });
            } else if let Some((id, title)) = heading(line.text, "###", is_task_id) {
                self.task(id, title, line.number)?;
            }
        } else if self.in_task {
            self.field(line);
            if self.tasks.last().is_some_and(|task| task.fields.len() > MAX_FIELDS) {
                return Err(too_many(line.number, |language| {
                    language.plan_too_many_fields(MAX_FIELDS)
                }));
            }
        }
        Ok(())
    }

    /// A line of a fence or a comment: part of the field that it is indented under, or its end.
    fn unread(&mut self, line: Line<'_>, was_open: bool) {
        if !was_open {
            self.in_field =
                self.in_task && self.field.is_some_and(|base| text::indent(line.text) > base);
        }
        match (self.in_field, self.field) {
            (true, Some(base)) => self.go_on(line, base),
            _ => self.field = None,
        }
    }

    fn go_on(&mut self, line: Line<'_>, base: usize) {
        if let Some(field) = self.tasks.last_mut().and_then(|task| task.fields.last_mut()) {
            field.value.push('\n');
            field.value.push_str(dedented(line.text, base + 2));
            field.lines.end = line.number + 1;
        }
    }

    /// Whether the line belongs to a comment that begins a line: `<!--` to `-->`.
    fn in_comment(&mut self, line: Line<'_>) -> bool {
        let opens = self.comment.is_none() && line.text.trim_start().starts_with("<!--");
        if opens {
            self.comment = Some(line.number);
        }
        let inside = self.comment.is_some();
        if inside && line.text.contains("-->") {
            self.comment = None;
        }
        inside
    }

    fn task(&mut self, id: String, title: String, line: u32) -> Result<(), Vec<Problem>> {
        if self.tasks.len() == MAX_TASKS {
            return Err(too_many(line, |language| language.plan_too_many_tasks(MAX_TASKS)));
        }
        let milestone = self.milestones.last().filter(|m| m.block.end == 0).map(|m| m.id.clone());
        let block = Lines { first: line, end: 0 };
        self.tasks.push(Task {
            id,
            title,
            milestone,
            status: String::new(),
            fields: Vec::new(),
            block,
        });
        self.in_task = true;
        Ok(())
    }

    fn field(&mut self, line: Line<'_>) {
        let depth = text::indent(line.text);
        let is_blank = line.text.trim().is_empty();
        if let Some(base) = self.field
            && !is_blank
            && depth > base
        {
            // Blank lines in between belong to the field once it goes on behind them.
            return self.go_on(line, base);
        }
        let Some(task) = self.tasks.last_mut().filter(|_| !is_blank) else { return };
        match field_line(line.text) {
            Some((name, value)) => {
                let lines = Lines { first: line.number, end: line.number + 1 };
                let at = line.text.rfind(&value).unwrap_or(0);
                let column = u32::try_from(line.text[..at].chars().count() + 1).unwrap_or(u32::MAX);
                task.fields.push(Field { name, value, lines, column });
                self.field = Some(depth);
            }
            None => self.field = None,
        }
    }

    fn end_task(&mut self, line: u32) {
        if let Some(task) = self.tasks.last_mut().filter(|_| self.in_task) {
            task.block.end = line;
        }
        self.in_task = false;
    }

    fn end_milestone(&mut self, line: u32) {
        if let Some(milestone) = self.milestones.last_mut().filter(|m| m.block.end == 0) {
            milestone.block.end = line;
        }
    }

    fn finish(mut self, source: &str, rules: &PlanRules) -> Result<Plan, Vec<Problem>> {
        self.end_task(self.last_line + 1);
        self.end_milestone(self.last_line + 1);
        let mut problems = Vec::new();
        let milestones = self.milestones.iter().map(|m| (m.id.as_str(), m.block.first));
        let tasks = self.tasks.iter().map(|t| (t.id.as_str(), t.block.first));
        duplicates(milestones.chain(tasks), &mut problems);
        for task in &mut self.tasks {
            match status_of(task, rules) {
                Ok(status) => task.status = status,
                Err(problem) => problems.push(problem),
            }
        }
        let unclosed = |line, message: fn(Language) -> String| {
            Problem::localized("plan-unclosed", message).at(Place { line, column: 1 })
        };
        problems
            .extend(self.fence.opened_at().map(|line| unclosed(line, Language::plan_fence_open)));
        problems.extend(self.comment.map(|line| unclosed(line, Language::plan_comment_open)));
        if problems.is_empty() {
            Ok(Plan { text: source.to_owned(), milestones: self.milestones, tasks: self.tasks })
        } else {
            problems.sort_by_key(|problem| problem.place);
            problems.truncate(100);
            Err(problems)
        }
    }
}

fn too_many(line: u32, message: impl Fn(Language) -> String) -> Vec<Problem> {
    vec![Problem::localized("plan-too-many", message).at(Place { line, column: 1 })]
}

fn duplicates<'a>(ids: impl Iterator<Item = (&'a str, u32)>, problems: &mut Vec<Problem>) {
    let mut seen = std::collections::BTreeMap::new();
    for (id, line) in ids {
        if let Some(first) = seen.insert(id, line) {
            let problem = Problem::localized("plan-duplicate-id", |language| {
                language.id_taken_in_line(id, first)
            });
            let problem = problem.found(id).at(Place { line, column: 1 });
            problems.push(problem.expecting(Language::id_of_its_own));
        }
    }
}

fn status_of(task: &Task, rules: &PlanRules) -> Result<String, Problem> {
    let statuses = rules.words();
    let Some(field) = task.last_field(STATUS) else {
        let problem =
            Problem::localized("plan-no-status", |language| language.task_without_status(&task.id));
        return Err(problem
            .at(Place { line: task.block.first, column: 1 })
            .found(&task.title)
            .expecting(|language| language.task_status_line(rules.first_status())));
    };
    let word = text::unwrapped(field.value.lines().next().unwrap_or_default());
    rules.status(word).map(str::to_owned).ok_or_else(|| {
        let place = Place { line: field.lines.first, column: field.column };
        let problem = Problem::localized("plan-unknown-status", |language| {
            language.task_status_unknown(text::shown(word, 40), &task.id)
        });
        problem.at(place).found(word).one_of(word, &statuses)
    })
}

/// `- name: value`; a status also without its list mark. Emphasis around the name is not part of it.
fn field_line(line: &str) -> Option<(String, String)> {
    let (is_item, body) = match text::list_item(line) {
        Some((_, body)) => (true, body),
        None => (false, line.trim()),
    };
    let colon = body.find(text::is_colon)?;
    let behind = body[colon..].trim_start_matches(text::is_colon);
    let emphasis: String = body.chars().take_while(|c| matches!(c, '*' | '_')).collect();
    let name = body[..colon].trim_matches(|c| matches!(c, '*' | '_' | '`')).trim();
    let plausible = (1..=32).contains(&name.chars().count())
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' '));
    if !plausible || !(is_item || name.eq_ignore_ascii_case(STATUS)) {
        return None;
    }
    let mut value = behind.trim();
    if !emphasis.is_empty() {
        value = value.strip_prefix(&emphasis).unwrap_or(value).trim();
    }
    Some((name.to_owned(), value.to_owned()))
}

/// Removes up to `depth` characters of indentation.
fn dedented(line: &str, depth: usize) -> &str {
    let cut = line.char_indices().take(depth).take_while(|(_, c)| c.is_whitespace());
    let at = cut.last().map_or(0, |(at, c)| at + c.len_utf8());
    line[at..].trim_end()
}
