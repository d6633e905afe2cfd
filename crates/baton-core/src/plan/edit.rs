//! Changing a plan: statement by statement on a copy, or by a whole new text.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Action, Milestone, Plan, STATUS, Statement, Task};
use crate::messages::Language;
use crate::policy::PlanRules;
use crate::problem::Problem;
use crate::text;

/// Characters of a field's new text that the history shows.
const SHOWN_VALUE: usize = 120;

/// Whether the final status may be set now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finality {
    /// The newest report of an agent in `verified_by` passed, and no agent that writes ran since.
    Allowed,
    /// Why not.
    Refused(String),
}

/// What an update or a replacement did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub plan: Plan,
    /// Statuses that changed, by task.
    pub changes: Vec<Change>,
    pub added: Vec<String>,
    pub dropped: Vec<String>,
    /// Other fields that were set, each with its task and the beginning of its text.
    pub set: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    pub id: String,
    pub from: String,
    pub to: String,
}

impl Applied {
    /// As history says it: `M1-T1 <old>→<new>; M1-T2 added; M1-T1 evidence: <text>`.
    pub fn summary(&self, language: Language) -> String {
        let changes = self
            .changes
            .iter()
            .map(|change| format!("{} {}→{}", change.id, change.from, change.to));
        let mut parts: Vec<String> = changes.collect();
        parts.extend(self.added.iter().map(|id| language.plan_added(id)));
        parts.extend(self.dropped.iter().map(|id| language.plan_dropped(id)));
        parts.extend(self.set.iter().cloned());
        parts.join("; ")
    }
}

impl Plan {
    /// Applies statements in order, all or none.
    pub fn updated(
        &self,
        statements: &[Statement],
        rules: &PlanRules,
        finality: &Finality,
    ) -> Result<Applied, Vec<Problem>> {
        let mut plan = self.clone();
        let mut set = Vec::new();
        for statement in statements {
            let located = |problem: Problem| {
                vec![problem.at(statement.place).found(&statement.action.to_string())]
            };
            let edited = plan.edited(&statement.action, rules).map_err(located)?;
            // Reading the whole again after each statement keeps one grammar: what was written is
            // what will be read. Plans are small and statements few.
            plan = Plan::read(&edited, rules).map_err(|mut problems| {
                let problem = problems.swap_remove(0);
                let message = problem
                    .message
                    .map(|language, message| language.plan_unreadable_after(message));
                located(Problem::new(problem.code, message))
            })?;
            if let Action::Set { id, field, value } = &statement.action {
                let field = format!("{id} {field}: ");
                set.retain(|own: &String| !own.starts_with(&field));
                set.push(format!("{field}{}", text::shown(value, SHOWN_VALUE)));
            }
        }
        self.compared(plan, set, rules, finality).map_err(|problems| {
            let place = |problem: &Problem| {
                let named = |statement: &&Statement| {
                    matches!(&statement.action, Action::Update { id, .. } if Some(id) == problem.found.as_ref())
                };
                statements.iter().rev().find(named).map(|statement| statement.place)
            };
            problems.into_iter().map(|problem| match place(&problem) {
                Some(place) => problem.at(place),
                None => problem,
            }).collect()
        })
    }

    /// Takes a whole new text.
    pub fn replaced(
        &self,
        text: &str,
        rules: &PlanRules,
        finality: &Finality,
    ) -> Result<Applied, Vec<Problem>> {
        self.compared(Plan::read(text, rules)?, Vec::new(), rules, finality)
    }

    fn compared(
        &self,
        new: Plan,
        set: Vec<String>,
        rules: &PlanRules,
        finality: &Finality,
    ) -> Result<Applied, Vec<Problem>> {
        let by_id = |plan: &Plan| -> std::collections::BTreeMap<String, String> {
            plan.tasks.iter().map(|task| (task.id.clone(), task.status.clone())).collect()
        };
        let (old, now) = (by_id(self), by_id(&new));
        let mut changes = Vec::new();
        let known: std::collections::BTreeSet<&str> =
            self.milestones.iter().map(|milestone| milestone.id.as_str()).collect();
        let milestones = new.milestones.iter().map(|milestone| &milestone.id);
        let mut added: Vec<String> =
            milestones.filter(|id| !known.contains(id.as_str())).cloned().collect();
        for task in &new.tasks {
            match old.get(&task.id) {
                Some(from) if *from != task.status => {
                    let (id, from, to) = (task.id.clone(), from.clone(), task.status.clone());
                    changes.push(Change { id, from, to });
                }
                Some(_) => {}
                None => added.push(task.id.clone()),
            }
        }
        if let Finality::Refused(why) = finality {
            let became_final = |task: &&Task| {
                task.status == rules.final_status && old.get(&task.id) != Some(&rules.final_status)
            };
            if let Some(task) = new.tasks.iter().find(became_final) {
                let problem = Problem::localized("plan-final-refused", |language| {
                    language.status_refused(&task.id, &rules.final_status, why)
                });
                return Err(vec![problem.found(&task.id)]);
            }
        }
        let dropped = self
            .tasks
            .iter()
            .map(|task| &task.id)
            .filter(|id| !now.contains_key(*id))
            .cloned()
            .collect();
        Ok(Applied { plan: new, changes, added, dropped, set })
    }

    fn edited(&self, action: &Action, rules: &PlanRules) -> Result<String, Problem> {
        let mut page = Page::new(&self.text);
        match action {
            Action::Update { id, status } => {
                let word = rules.status(status).ok_or_else(|| {
                    let problem = Problem::localized("plan-unknown-status", |language| {
                        language.status_unknown(text::shown(status, 40))
                    });
                    problem.one_of(status, &rules.words())
                })?;
                self.set_field(&mut page, self.known(id)?, STATUS, word);
            }
            Action::Set { id, field, value } => {
                self.set_field(&mut page, self.known(id)?, field, value);
            }
            Action::AddMilestone { id, title } => {
                self.free(id)?;
                let end = page.lines.len();
                page.insert_block(end, &[format!("## Milestone {id}: {title}")]);
            }
            Action::AddTask { id, title, milestone } => {
                self.free(id)?;
                let home = self.milestone(milestone)?;
                let status = format!("- {STATUS}: {}", rules.first_status());
                page.insert_block(
                    home.block.end as usize - 1,
                    &[format!("### {id}: {title}"), status],
                );
            }
        }
        Ok(page.text())
    }

    fn known(&self, id: &str) -> Result<&Task, Problem> {
        self.task(id).ok_or_else(|| {
            let ids: Vec<&str> = self.tasks.iter().map(|task| task.id.as_str()).collect();
            let problem =
                Problem::localized("plan-unknown-id", |language| language.task_missing(id));
            if ids.is_empty() {
                problem.expecting(|language| language.task_added_before(id))
            } else {
                problem.one_of(id, &ids)
            }
        })
    }

    fn milestone(&self, id: &str) -> Result<&Milestone, Problem> {
        self.milestones.iter().find(|milestone| milestone.id == id).ok_or_else(|| {
            let ids: Vec<&str> =
                self.milestones.iter().map(|milestone| milestone.id.as_str()).collect();
            let problem =
                Problem::localized("plan-unknown-id", |language| language.milestone_missing(id));
            if ids.is_empty() {
                problem.expecting(|language| language.milestone_added_before(id))
            } else {
                problem.one_of(id, &ids)
            }
        })
    }

    fn free(&self, id: &str) -> Result<(), Problem> {
        let taken =
            self.task(id).is_some() || self.milestones.iter().any(|milestone| milestone.id == id);
        match taken {
            true => Err(Problem::localized("plan-duplicate-id", |language| language.id_taken(id))),
            false => Ok(()),
        }
    }

    /// Rewrites the task's last field of this name, or adds one behind the fields under its heading.
    fn set_field(&self, page: &mut Page<'_>, task: &Task, name: &str, value: &str) {
        if let Some(field) = task.last_field(name) {
            let at = field.lines.first as usize - 1;
            let line = page.lines[at].trim_end_matches(['\n', '\r']);
            // Byte positions are those of the line as it stands, marks and emphasis kept.
            let colon = line
                .find(text::is_colon)
                .map_or(line.len(), |at| at + line[at..].chars().next().map_or(0, char::len_utf8));
            // Emphasis that opened before the name and is still open closes behind the colon.
            let name_part = line[..colon]
                .trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+' | '•'));
            let opened: String = name_part.chars().take_while(|c| matches!(c, '*' | '_')).collect();
            let emphasis = if line[colon..].starts_with(&opened) { opened.as_str() } else { "" };
            let head = format!("{}{emphasis}", &line[..colon]);
            let space = if head.ends_with('：') { "" } else { " " };
            // What stands indented under a status is not part of it.
            let end = if name == STATUS { at + 1 } else { field.lines.end as usize - 1 };
            page.replace(at, end, &format!("{head}{space}{value}"));
        } else {
            // Before any `#### phase` heading: a field of a phase is not the task's own.
            let block =
                task.block.first as usize..(task.block.end as usize - 1).min(page.lines.len());
            let heading = block
                .clone()
                .find(|index| page.lines[*index].starts_with('#'))
                .unwrap_or(block.end);
            let own =
                task.fields.iter().take_while(|field| (field.lines.first as usize) <= heading);
            let at = own.last().map_or(task.block.first, |field| field.lines.end - 1);
            page.insert(at as usize, &format!("- {name}: {value}"));
        }
    }
}

/// The lines of a text with their terminators, to be edited by index.
struct Page<'a> {
    bom: &'a str,
    lines: Vec<std::borrow::Cow<'a, str>>,
    newline: &'static str,
}

impl<'a> Page<'a> {
    fn new(source: &'a str) -> Page<'a> {
        let starts: Vec<usize> = text::lines(source).map(|line| line.start).collect();
        let ends = starts.iter().skip(1).copied().chain([source.len()]);
        let lines =
            starts.iter().zip(ends).map(|(start, end)| source[*start..end].into()).collect();
        let newline = match source.find(['\n', '\r']) {
            Some(at) if source[at..].starts_with("\r\n") => "\r\n",
            Some(at) if source[at..].starts_with('\r') => "\r",
            _ => "\n",
        };
        Page { bom: &source[..starts.first().copied().unwrap_or(0)], lines, newline }
    }

    fn text(&self) -> String {
        self.bom.to_owned() + &self.lines.concat()
    }

    /// One line in place of lines `from..to`, with the terminator of the last of them.
    fn replace(&mut self, from: usize, to: usize, line: &str) {
        let last = &self.lines[to - 1];
        let terminator = last[last.trim_end_matches(['\n', '\r']).len()..].to_owned();
        self.lines.splice(from..to, [format!("{line}{terminator}").into()]);
    }

    fn insert(&mut self, at: usize, line: &str) {
        self.close_line_before(at);
        self.lines.insert(at, format!("{line}{}", self.newline).into());
    }

    /// A heading with its lines, a blank line before and behind where other text stands there.
    fn insert_block(&mut self, end: usize, block: &[String]) {
        let mut at = end;
        while at > 0 && self.lines[at - 1].trim().is_empty() {
            at -= 1;
        }
        let blank = || self.newline.to_owned().into();
        let mut new: Vec<std::borrow::Cow<'a, str>> = Vec::new();
        if at > 0 {
            new.push(blank());
        }
        new.extend(block.iter().map(|line| format!("{line}{}", self.newline).into()));
        // Blank lines that stood at the end stay behind the block; a neighbour without one gets one.
        if at == end && at < self.lines.len() {
            new.push(blank());
        }
        self.close_line_before(at);
        self.lines.splice(at..at, new);
    }

    /// The last line of a file may lack its terminator.
    fn close_line_before(&mut self, at: usize) {
        if at > 0 && !self.lines[at - 1].ends_with(['\n', '\r']) {
            self.lines[at - 1].to_mut().push_str(self.newline);
        }
    }
}
