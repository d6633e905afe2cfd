//! The short form of a report, for prompts and listings. Goes in: a report and the policy's labels.
//! Comes out: what could be found, and the names of what could not. Nothing here fails: a report that
//! says nothing gives its first lines. The whole report is read, as validation reads it: a verdict far
//! down is not missing.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentName, Iteration, Timestamp};
use crate::messages::Language;
use crate::policy::{ITERATION_PREFIX, Policy, ReportRules};
use crate::report::{self, Glance};
use crate::text::{self, Fence};

/// The longest line of a summary, in characters.
pub const LINE: usize = 500;
/// No blocker is cut; this only keeps a whole file out of a prompt.
const BLOCKER: usize = 8_000;
/// Characters of the evidence. MAIN decides by it: cut to 200, the deciding half was often missing.
pub const EVIDENCE: usize = 480;
/// What stands in for a report that says nothing.
const HEAD_LINES: usize = 9;
/// A list that is longer is cut, said with its number.
const MOST_ITEMS: usize = 100;
/// Characters of a project note, also of one that quotes another to withdraw it.
const NOTE: usize = 600;

/// How much of a report a prompt carries.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(into = "u8", try_from = "u8")]
#[schemars(with = "u8")]
pub enum Level {
    /// 1: verdict and blockers, under 10 lines.
    Summary,
    /// 2: key changes, evidence and the agent's own fields too, under 50 lines.
    Evidence,
    /// 3: the file.
    Whole,
}

impl From<Level> for u8 {
    fn from(level: Level) -> u8 {
        match level {
            Level::Summary => 1,
            Level::Evidence => 2,
            Level::Whole => 3,
        }
    }
}

impl TryFrom<u8> for Level {
    type Error = String;

    fn try_from(number: u8) -> Result<Level, String> {
        match number {
            1 => Ok(Level::Summary),
            2 => Ok(Level::Evidence),
            3 => Ok(Level::Whole),
            _ => Err(format!("{number} is not a level (1 summary, 2 with evidence, 3 whole)")),
        }
    }
}

/// The facts of a report in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    pub iteration: Option<Iteration>,
    pub agent: AgentName,
    pub verdict: Option<String>,
    /// Each with its class tag, where it has a class.
    pub blockers: Vec<String>,
    pub key_changes: Vec<String>,
    pub evidence: String,
    /// Of the file.
    pub timestamp: Option<Timestamp>,
    /// What is special to the agent, by the policy's names.
    pub fields: IndexMap<String, String>,
    /// Observations of the agent besides its order.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Facts about the project for the agents that come after it.
    #[serde(default)]
    pub project_notes: Vec<String>,
    /// The names of what was not found.
    pub missing: Vec<String>,
    /// The report's first lines, where nothing at all was found.
    pub head: Vec<String>,
}

impl Summary {
    /// From a report, whatever it is.
    pub fn of(
        bytes: &[u8],
        agent: &AgentName,
        policy: &Policy,
        timestamp: Option<Timestamp>,
    ) -> Summary {
        let source = String::from_utf8_lossy(bytes);
        let mut scan = Scan::new(agent, policy);
        let mut fence = Fence::default();
        for line in text::lines(text::without_fence(&source)) {
            if !fence.covers(line) {
                scan.line(line.text);
            }
        }
        let glance = report::glance(&source, &policy.report_rules, agent);
        let mut summary = scan.summary(agent, glance, timestamp);
        if summary.says_nothing() {
            let lines = text::lines(&source).take(HEAD_LINES);
            summary.head = lines.map(|line| clean(line.text, LINE)).collect();
        }
        summary
    }

    fn says_nothing(&self) -> bool {
        self.iteration.is_none()
            && self.verdict.is_none()
            && self.blockers.is_empty()
            && self.key_changes.is_empty()
            && self.fields.is_empty()
    }

    /// Whether the extraction counts as failed: not even the verdict that the policy asks for.
    pub fn is_failure(&self) -> bool {
        !self.head.is_empty() || self.missing.iter().any(|name| name == "verdict")
    }

    /// As text: under 10 lines at level 1, under 50 at level 2, both without the blockers, which are
    /// never cut. `path` is where the whole report is; at level 3 it is all that can be said here.
    pub fn render(&self, level: Level, policy: &Policy, words: Language, path: &str) -> String {
        let rules = &policy.report_rules;
        let lines = match level {
            Level::Whole => vec![path.to_owned()],
            _ if !self.head.is_empty() => self.head_lines(words, path),
            Level::Summary => {
                let mut lines = self.short_lines(rules, words);
                lines.extend(self.missing_line(rules, words));
                lines
            }
            Level::Evidence => self.long_lines(policy, words),
        };
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// The first lines, the path behind the last of them.
    fn head_lines(&self, words: Language, path: &str) -> Vec<String> {
        let mut lines = self.head.clone();
        let place = words.nothing_read(text::cut(path, 150));
        match lines.pop_if(|_| self.head.len() == HEAD_LINES) {
            Some(last) => {
                let room = LINE - place.chars().count() - 1;
                lines.push(format!("{} {place}", text::cut(&last, room)).trim_start().to_owned());
            }
            None => lines.push(place),
        }
        lines
    }

    fn short_lines(&self, rules: &ReportRules, words: Language) -> Vec<String> {
        let not_found = &words.not_found();
        let mut lines = Vec::new();
        let iteration = self.iteration.map(|iteration| iteration.to_string());
        lines.push(keyed(ITERATION_PREFIX, iteration.as_deref().unwrap_or(not_found)));
        if rules.applies_to(self.agent.as_str()) || self.verdict.is_some() {
            lines.push(keyed(&rules.verdict_prefix, self.verdict.as_deref().unwrap_or(not_found)));
            let clear = match self.is_missing("blockers") {
                true => not_found,
                false => rules.blocker_clear_value.first(),
            };
            let inline = if self.blockers.is_empty() { clear } else { "" };
            lines.push(keyed(&rules.blocker_prefix, inline));
            lines.extend(self.blockers.iter().map(|blocker| format!("- {blocker}")));
        }
        lines
    }

    fn long_lines(&self, policy: &Policy, words: Language) -> Vec<String> {
        const FIELDS: usize = 10;
        let (rules, context) = (&policy.report_rules, &policy.context);
        let mut lines = self.short_lines(rules, words);
        if !self.key_changes.is_empty() {
            let headings = &context.key_change_headings;
            lines.push(words.label(heading_or(headings, words.summary_changes())));
            lines.extend(items(words, &self.key_changes, 14));
        }
        if !self.evidence.is_empty() {
            let heading = heading_or(&context.evidence_headings, words.summary_evidence());
            // The line that is shown instead may have a label of its own: `Tasks judged: M1-T1`.
            let has_label = || self.evidence.chars().take(40).any(text::is_colon);
            lines.push(match self.is_missing("evidence") && has_label() {
                true => self.evidence.clone(),
                false => keyed(&words.label(heading), &self.evidence),
            });
        }
        let own = context.summary_fields.get(&self.agent);
        let fields = self.fields.iter().take(FIELDS).map(|(name, value)| {
            let labels = own.and_then(|own| own.get(name)).map_or(&[][..], Vec::as_slice);
            field_line(words, name, labels, value)
        });
        lines.extend(fields);
        if !self.notes.is_empty() {
            lines.push(words.label(words.summary_notes()));
            lines.extend(items(words, &self.notes, 10));
        }
        lines.extend(self.missing_line(rules, words));
        lines
    }

    /// Only what every report must have: not every agent is asked for the rest.
    fn missing_line(&self, rules: &ReportRules, words: Language) -> Option<String> {
        let control = [
            ("iteration", ITERATION_PREFIX),
            ("verdict", &rules.verdict_prefix),
            ("blockers", &rules.blocker_prefix),
        ];
        let missing = control.iter().filter(|(name, _)| self.is_missing(name));
        let names: Vec<&str> = missing.map(|(_, prefix)| without_colon(prefix)).collect();
        let label = words.label(words.not_in_summary());
        (!names.is_empty()).then(|| keyed(&label, &words.list(&names)))
    }

    fn is_missing(&self, name: &str) -> bool {
        self.missing.iter().any(|own| own == name)
    }
}

fn without_colon(label: &str) -> &str {
    label.trim().trim_end_matches(text::is_colon)
}

/// The first of a section's headings, as a label; a report may have found it under another one.
fn heading_or(headings: &[String], other: String) -> String {
    let Some(heading) = headings.first() else { return other };
    let mut letters = without_colon(heading).chars();
    letters.next().map_or(other, |first| first.to_lowercase().chain(letters).collect())
}

/// A field of the agent under the label by which its prompt asks for it.
fn field_line(words: Language, name: &str, labels: &[String], value: &str) -> String {
    match labels.first() {
        // Where a field has several labels, they are part of what was found.
        _ if labels.iter().any(|label| value.starts_with(label.trim())) => {
            text::cut(value, LINE).into_owned()
        }
        Some(label) if label.trim().ends_with(text::is_colon) => keyed(label.trim(), value),
        Some(label) => keyed(&words.label(label.trim()), value),
        None => keyed(&words.label(name), value),
    }
}

fn keyed(prefix: &str, value: &str) -> String {
    let space = if value.is_empty() || prefix.ends_with('：') { "" } else { " " };
    text::cut(&format!("{prefix}{space}{value}"), LINE).into_owned()
}

fn items(words: Language, all: &[String], most: usize) -> Vec<String> {
    let mut lines: Vec<String> = all
        .iter()
        .take(most)
        .map(|item| text::cut(&format!("- {item}"), LINE).into_owned())
        .collect();
    if all.len() > most {
        lines.push(format!("- {}", words.and_more_files(all.len() - most)));
    }
    lines
}

/// One line that is safe in a prompt.
fn clean(raw: &str, max: usize) -> String {
    // The cut comes first, so that a line of megabytes costs no more than another.
    let short = text::cut(raw.trim(), max * 4);
    let plain = text::stripped(&short).replace(['\n', '\t'], " ");
    text::cut(plain.trim(), max).into_owned()
}

/// What a label leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// A line that control depends on: read elsewhere, but it ends a list.
    Control,
    KeyChanges,
    Evidence,
    Notes,
    ProjectNotes,
    Field(usize),
}

/// A line prefix or a heading, and what it leads to.
struct Label<'a> {
    text: &'a str,
    slot: Slot,
    /// One of several that lead to the same field: it goes before what it holds.
    is_said: bool,
}

/// What the lines that follow belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Everything up to the next heading.
    Section(Slot),
    /// The items under a key line.
    List(Slot),
}

/// One pass over a report, for what only prompts depend on.
struct Scan<'a> {
    labels: Vec<Label<'a>>,
    headings: Vec<Label<'a>>,
    names: Vec<&'a str>,
    /// Between several values in one line, as the labels' language writes it.
    separator: &'static str,
    applies: bool,
    key_changes: Vec<String>,
    evidence: Vec<String>,
    notes: Vec<String>,
    project_notes: Vec<String>,
    fields: Vec<Vec<String>>,
    open: Option<Open>,
    after_blank: bool,
    /// Where there is no section of evidence, the first sentence will do.
    first_prose: Option<String>,
}

impl<'a> Scan<'a> {
    fn new(agent: &AgentName, policy: &'a Policy) -> Scan<'a> {
        let rules = &policy.report_rules;
        let context = &policy.context;
        let control = |text: &'a str| Label { text, slot: Slot::Control, is_said: false };
        let mut labels = vec![
            control(ITERATION_PREFIX),
            control(&rules.verdict_prefix),
            control(&rules.blocker_prefix),
        ];
        let heading = |slot: Slot| move |text: &'a String| Label { text, slot, is_said: false };
        let mut headings: Vec<Label<'a>> =
            context.key_change_headings.iter().map(heading(Slot::KeyChanges)).collect();
        headings.extend(context.evidence_headings.iter().map(heading(Slot::Evidence)));
        // `Project notes` is also a heading with `notes` in it.
        headings.extend(context.project_note_headings.iter().map(heading(Slot::ProjectNotes)));
        headings.extend(context.note_headings.iter().map(heading(Slot::Notes)));
        let own = context.summary_fields.get(agent);
        let mut names = Vec::new();
        for (index, (name, all)) in own.into_iter().flatten().enumerate() {
            names.push(name.as_str());
            let is_said = all.len() > 1;
            let label = |text: &'a String| Label { text, slot: Slot::Field(index), is_said };
            labels.extend(all.iter().map(label));
            headings.extend(all.iter().map(label));
        }
        Scan {
            labels,
            headings,
            separator: if rules.verdict_prefix.ends_with('：') { "；" } else { "; " },
            applies: rules.applies_to(agent.as_str()),
            key_changes: Vec::new(),
            evidence: Vec::new(),
            notes: Vec::new(),
            project_notes: Vec::new(),
            fields: vec![Vec::new(); names.len()],
            names,
            open: None,
            after_blank: false,
            first_prose: None,
        }
    }

    fn line(&mut self, line: &str) {
        if line.trim().is_empty() {
            self.after_blank = true;
            return;
        }
        let after_blank = std::mem::take(&mut self.after_blank);
        if let Some(heading) = text::heading(line) {
            return self.heading(heading);
        }
        if self.key(line) {
            return;
        }
        let item = text::list_item(line).map(|(_, body)| body);
        match (self.open, item) {
            (Some(Open::Section(slot) | Open::List(slot)), Some(body)) => self.add(slot, body),
            (Some(Open::Section(slot)), None) => self.add(slot, line),
            (Some(Open::List(_)), None) if text::indent(line) > 0 && !after_blank => {}
            (Some(Open::List(_)), None) => self.open = None,
            (None, None) if self.says_more(line) && !self.is_almost_control(line) => {
                self.first_prose = Some(clean(line, EVIDENCE));
            }
            (None, _) => {}
        }
    }

    /// True if a line says more than the first prose so far: a sentence says more than a `label: value`.
    fn says_more(&self, line: &str) -> bool {
        let is_label = |line: &str| {
            let colon = line.find([':', '：']);
            colon.is_some_and(|at| !line[..at].contains(' ') && line[..at].chars().count() < 16)
        };
        self.first_prose.as_ref().is_none_or(|first| is_label(first) && !is_label(line))
    }

    fn is_almost_control(&self, line: &str) -> bool {
        let control = self.labels.iter().filter(|label| label.slot == Slot::Control);
        control.into_iter().any(|label| text::almost_key_line(line, label.text))
    }

    fn heading(&mut self, heading: &str) {
        let heading = heading.to_lowercase();
        let names = |label: &&Label<'_>| {
            let wanted = label.text.trim().trim_end_matches(text::is_colon).to_lowercase();
            !wanted.is_empty() && heading.contains(&wanted)
        };
        let slot = self.headings.iter().find(names).map(|label| label.slot);
        self.open = slot.map(Open::Section);
    }

    /// Whether the line is one of the key lines.
    fn key(&mut self, line: &str) -> bool {
        // A cheap look first: nearly every line ends here.
        let Some(colon) = line.find([':', '：']) else { return false };
        if line[..colon].chars().count() > 60 {
            return false;
        }
        let found = self.labels.iter().find_map(|label| {
            let key = text::key_line(line, label.text)?;
            Some((label.slot, label.text, label.is_said, key.value))
        });
        let found = found.or_else(|| {
            // `Evidence: …` on a line, where the policy names the heading.
            let value = &line[colon + line[colon..].chars().next().map_or(0, char::len_utf8)..];
            let name = line[..colon].trim_matches(|c: char| !c.is_alphanumeric());
            let headings = self.headings.iter();
            let mut evidence = headings.filter(|label| label.slot == Slot::Evidence);
            let label = evidence.find(|label| label.text.eq_ignore_ascii_case(name))?;
            Some((label.slot, label.text, label.is_said, value.trim_matches(['*', ' ', '\t'])))
        });
        let Some((slot, label, is_said, value)) = found else { return false };
        // A section goes on behind a line that reads like a field.
        let section = self.open.filter(|open| matches!(open, Open::Section(_)));
        self.open = section;
        match (slot, value) {
            // What comes before it (`I have read the rules`) says nothing about the work.
            (Slot::Control, _) if label == ITERATION_PREFIX => self.first_prose = None,
            (Slot::Control, _) => {}
            (slot, "") => self.open = section.or(Some(Open::List(slot))),
            (slot, value) if is_said => self.add(slot, &keyed(label, value)),
            (slot, value) => self.add(slot, value),
        }
        true
    }

    fn add(&mut self, slot: Slot, value: &str) {
        let value = clean(value, if slot == Slot::ProjectNotes { NOTE } else { LINE });
        let list = match slot {
            Slot::KeyChanges => &mut self.key_changes,
            Slot::Evidence => &mut self.evidence,
            Slot::Notes => &mut self.notes,
            Slot::ProjectNotes => &mut self.project_notes,
            Slot::Field(index) => &mut self.fields[index],
            Slot::Control => return,
        };
        if !value.is_empty() && list.len() < MOST_ITEMS {
            list.push(value);
        }
    }

    fn summary(self, agent: &AgentName, glance: Glance, timestamp: Option<Timestamp>) -> Summary {
        let mut missing = Vec::new();
        let mut expect = |name: &str, is_missing: bool| {
            if is_missing {
                missing.push(name.to_owned());
            }
        };
        // Without evidence the first sentence is shown instead, and it is missing all the same.
        let has_evidence = !self.evidence.is_empty();
        let evidence = match has_evidence {
            true => clean(&self.evidence.join(self.separator), EVIDENCE),
            false => self.first_prose.unwrap_or_default(),
        };
        expect("iteration", glance.iteration.is_none());
        expect("verdict", self.applies && glance.verdict.is_none());
        expect("blockers", self.applies && glance.blockers.is_none());
        expect("key_changes", self.key_changes.is_empty());
        expect("evidence", !has_evidence);
        let mut fields = IndexMap::new();
        for (name, values) in self.names.iter().zip(&self.fields) {
            expect(name, values.is_empty());
            if !values.is_empty() {
                fields.insert((*name).to_owned(), clean(&values.join(self.separator), LINE));
            }
        }
        let blockers = glance.blockers.unwrap_or_default();
        Summary {
            iteration: glance.iteration,
            agent: agent.clone(),
            verdict: glance.verdict.map(|verdict| clean(&verdict, 60)),
            blockers: blockers.iter().take(MOST_ITEMS).map(|text| clean(text, BLOCKER)).collect(),
            key_changes: self.key_changes,
            evidence,
            timestamp,
            fields,
            notes: self.notes,
            project_notes: self.project_notes,
            missing,
            head: Vec::new(),
        }
    }
}
