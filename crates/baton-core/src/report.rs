//! What an agent answers. Goes in: the report's bytes and the policy's rules. Comes out: the few
//! key lines that control depends on, or every problem with its place. The rest of a report is
//! free text for MAIN and is not looked at here. No default is ever filled in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentName, Attempt, Iteration};
use crate::messages::Language;
use crate::policy::{ITERATION_PREFIX, Outcome, ReportRules, UNKNOWN_CLASS};
use crate::problem::{Place, Problem, list_in, nearest};
use crate::text::{self, Fence, Line};

/// Larger reports are refused by their size alone.
pub const MAX_BYTES: u64 = 4 << 20;
/// A list that is longer than this is a log, not a list of blockers.
pub const MAX_BLOCKERS: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    pub agent: AgentName,
    pub iteration: Iteration,
    /// Absent only where the policy does not ask for one.
    pub verdict: Option<Verdict>,
    pub blockers: Vec<Blocker>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verdict {
    pub word: String,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Blocker {
    /// One of the policy's classes, or `unknown`.
    pub class: String,
    pub text: String,
}

/// Whose report it should be.
#[derive(Debug, Clone)]
pub struct Expected {
    pub agent: AgentName,
    /// `None`: any iteration will do (a check outside of a run).
    pub iteration: Option<Iteration>,
}

/// The name of a report in the archive: `<iteration>_<agent>[_subloop_<k>]_a<attempt>.md`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArchiveName {
    pub iteration: Iteration,
    pub subloop: Option<u32>,
    pub attempt: Attempt,
    pub agent: AgentName,
}

impl TryFrom<String> for ArchiveName {
    type Error = String;

    fn try_from(file: String) -> Result<ArchiveName, String> {
        ArchiveName::parse(&file).ok_or_else(|| format!("`{file}` is not the name of a report"))
    }
}

impl From<ArchiveName> for String {
    fn from(name: ArchiveName) -> String {
        name.file()
    }
}

impl ArchiveName {
    pub fn parse(file: &str) -> Option<ArchiveName> {
        let number = |text: &str| -> Option<u32> {
            let digits = text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty();
            digits.then(|| text.parse().ok()).flatten()
        };
        let (iteration, rest) = file.strip_suffix(".md")?.split_once('_')?;
        let (rest, attempt) = rest.rsplit_once("_a")?;
        let (agent, subloop) = match rest.rsplit_once("_subloop_") {
            Some((agent, subloop)) => (agent, Some(number(subloop)?)),
            None => (rest, None),
        };
        Some(ArchiveName {
            iteration: Iteration(number(iteration)?),
            subloop,
            attempt: Attempt(number(attempt)?),
            agent: AgentName::from_file_stem(agent)?,
        })
    }

    pub fn file(&self) -> String {
        let subloop = self.subloop.map_or(String::new(), |number| format!("_subloop_{number}"));
        format!("{}_{}{subloop}_a{}.md", self.iteration, self.agent.file_stem(), self.attempt)
    }
}

/// Whose report a file is, by its name: `report_<agent>.md`, inside the sub-loop with its number, or
/// as the archive names it.
pub fn agent_of_file(file: &str) -> Option<AgentName> {
    let newest = || {
        let stem = file.strip_prefix("report_")?.strip_suffix(".md")?;
        AgentName::from_file_stem(stem.split_once("_subloop_").map_or(stem, |(stem, _)| stem))
    };
    ArchiveName::parse(file).map(|name| name.agent).or_else(newest)
}

/// The refusal of a file that is too large, made from its size alone.
pub fn too_large(bytes: u64) -> Option<Problem> {
    (bytes > MAX_BYTES).then(|| {
        Problem::localized("report-size", |language| language.report_too_large(bytes, MAX_BYTES))
            .expecting(Language::report_not_log)
    })
}

pub fn read(
    bytes: &[u8],
    rules: &ReportRules,
    expected: &Expected,
) -> Result<Report, Vec<Problem>> {
    if let Some(problem) = too_large(bytes.len() as u64) {
        return Err(vec![problem]);
    }
    let source = text::without_fence(utf8(bytes).map_err(|problem| vec![problem])?);
    if text::is_blank(source) {
        let problem = Problem::localized("report-empty", Language::report_is_empty);
        return Err(vec![problem.expecting(|language| language.report_begins(ITERATION_PREFIX))]);
    }
    let all_rules = rules.applies_to(expected.agent.as_str());
    let scan = Scan::of(source, rules, all_rules);
    let mut judge = Judge { rules, scan: &scan, problems: Vec::new() };
    let iteration = judge.iteration(expected.iteration);
    let (verdict, blockers) = if all_rules {
        let verdict = judge.verdict();
        let blockers = judge.blockers();
        judge.agreement(verdict.as_ref(), blockers.as_deref());
        (verdict, blockers.unwrap_or_default())
    } else {
        (None, Vec::new())
    };
    let mut problems = judge.problems;
    match iteration {
        Some(iteration) if problems.is_empty() => {
            Ok(Report { agent: expected.agent.clone(), iteration, verdict, blockers })
        }
        _ => {
            problems.sort_by_key(|problem| problem.place);
            Err(problems)
        }
    }
}

/// What the control lines seem to say, for a summary: the same look as `read`, without its judgement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Glance {
    pub iteration: Option<Iteration>,
    pub verdict: Option<String>,
    /// Each with its class tag; none where the line says that there are none.
    pub blockers: Option<Vec<String>>,
}

/// Looks at the beginning of a report. A line that only comes near to a key line counts where there
/// is no exact one, and never out of a quotation, a table or a fence.
pub fn glance(source: &str, rules: &ReportRules, agent: &AgentName) -> Glance {
    let scan = Scan::of(text::without_fence(source), rules, rules.applies_to(agent.as_str()));
    let value = |index: usize| -> Option<&str> {
        let slot: &Slot<'_> = &scan.slots[index];
        let near = || {
            let (line, is_fenced) = slot.almost.filter(|(_, is_fenced)| !is_fenced)?;
            let is_quoted = is_fenced || line.text.trim_start().starts_with(['>', '|']);
            let (label, value) = line.text.split_once([':', '：', '='])?;
            let letters = |text: &str| -> String {
                text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
            };
            let is_it = letters(label) == letters(scan.prefixes[index]);
            (is_it && !is_quoted).then(|| value.trim_matches(['*', ' ', '\t']))
        };
        // The bare line may come later than what is seen here.
        let is_finding = |found: &Found<'_>| {
            index == VERDICT
                && found.is_item
                && rules.outcome(text::unwrapped(found.value)).is_none()
        };
        let first = slot.first.as_ref().filter(|found| !is_finding(found));
        first.map(|found| found.value).or_else(near)
    };
    let items = || -> Vec<String> {
        scan.items.iter().filter_map(|item| tagged(&item.text, rules)).collect()
    };
    let blockers = match value(BLOCKERS) {
        Some("") if scan.items.is_empty() => None,
        Some("") => Some(items()),
        Some(value) => Some(tagged(value, rules).into_iter().collect()),
        None => None,
    };
    Glance {
        iteration: value(ITERATION)
            .and_then(|word| text::unwrapped(word).parse().ok())
            .map(Iteration),
        verdict: value(VERDICT)
            .map(text::unwrapped)
            .filter(|word| !word.is_empty())
            .map(str::to_owned),
        blockers,
    }
}

/// A blocker with its class before it; `None` for the clear value.
fn tagged(raw: &str, rules: &ReportRules) -> Option<String> {
    let (tag, text) = split_tag(raw, rules);
    if tag.is_none() && rules.blocker_clear_value.contains(text::unwrapped(text)) {
        return None;
    }
    match tag.or_else(|| rules.classify(text)) {
        Some(class) => Some(format!("[{class}] {text}")),
        None => Some(text.to_owned()),
    }
}

/// The shortest text that reads back as this report.
pub fn render(report: &Report, rules: &ReportRules) -> String {
    let mut out = format!("{ITERATION_PREFIX} {}\n", report.iteration);
    if let Some(verdict) = &report.verdict {
        out.push_str(&key(&rules.verdict_prefix, &verdict.word));
    }
    if rules.applies_to(report.agent.as_str()) {
        match &report.blockers[..] {
            [] => out.push_str(&key(&rules.blocker_prefix, rules.blocker_clear_value.first())),
            blockers => {
                out.push_str(&key(&rules.blocker_prefix, ""));
                for blocker in blockers {
                    out.push_str("- ");
                    if blocker.class != UNKNOWN_CLASS {
                        out.push_str(&format!("[{}] ", blocker.class));
                    }
                    out.push_str(&blocker.text);
                    out.push('\n');
                }
            }
        }
    }
    out
}

fn key(prefix: &str, value: &str) -> String {
    let space = if value.is_empty() || prefix.ends_with('：') { "" } else { " " };
    format!("{prefix}{space}{value}\n")
}

fn utf8(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (good, bad) = bytes.split_at(error.valid_up_to());
        let good = std::str::from_utf8(good).expect("valid up to here, as the error says");
        let byte = format!("{:#04x}", bad[0]);
        Problem::localized("report-encoding", |language| language.report_not_utf8(&byte))
            .at(Place::of(good, good.len()))
            .expecting(Language::utf8_text)
    })
}

/// A key line that was found.
#[derive(Debug, Clone)]
struct Found<'a> {
    line: u32,
    place: Place,
    value: &'a str,
    /// It is an item of a list: its report has no bare line of this key.
    is_item: bool,
}

/// One of the three key lines, as far as it was seen.
#[derive(Debug, Default)]
struct Slot<'a> {
    first: Option<Found<'a>>,
    second: Option<u32>,
    /// A line that its writer must have meant for it: number, text, whether it is fenced.
    almost: Option<(Line<'a>, bool)>,
}

#[derive(Debug)]
struct Item<'a> {
    place: Place,
    text: std::borrow::Cow<'a, str>,
}

/// What the lines behind the blockers line may still add to it.
#[derive(Debug)]
enum Behind {
    Nothing,
    /// The key line named a blocker itself, or the list was interrupted. Items with a class tag in
    /// the same paragraph would be lost.
    NoList {
        deeper_than: Option<usize>,
        /// Behind an announcement (`two of them:`) items without a tag count as well.
        any: bool,
    },
    /// Items of the list under an empty key line.
    List(List),
}

#[derive(Debug)]
struct List {
    /// Items must stand deeper than this, when the key line is an item itself.
    deeper_than: Option<usize>,
    item_indent: Option<usize>,
    /// The line before was blank.
    after_blank: bool,
}

/// One pass over the lines; memory does not grow with the report, only with its blockers.
struct Scan<'a> {
    rules: &'a ReportRules,
    prefixes: [&'a str; 3],
    /// Their first letters; none for a prefix that is not looked for.
    starts: [[Option<char>; 2]; 3],
    slots: [Slot<'a>; 3],
    /// Which keys have a bare line: their list items are body text.
    has_bare: [bool; 3],
    items: Vec<Item<'a>>,
    too_many_items: bool,
    /// A list of blockers under a line that already names one.
    second_list: Option<Place>,
    behind: Behind,
    fence: Fence,
}

const ITERATION: usize = 0;
const VERDICT: usize = 1;
const BLOCKERS: usize = 2;

impl<'a> Scan<'a> {
    fn new(rules: &'a ReportRules, all_rules: bool) -> Scan<'a> {
        // An empty prefix is never looked for.
        let (verdict, blockers) = match all_rules {
            true => (rules.verdict_prefix.as_str(), rules.blocker_prefix.as_str()),
            false => ("", ""),
        };
        let prefixes = [ITERATION_PREFIX, verdict, blockers];
        Scan {
            rules,
            prefixes,
            starts: prefixes.map(first_letters),
            slots: Default::default(),
            has_bare: [false; 3],
            items: Vec::new(),
            too_many_items: false,
            second_list: None,
            behind: Behind::Nothing,
            fence: Fence::default(),
        }
    }

    fn of(source: &'a str, rules: &'a ReportRules, all_rules: bool) -> Scan<'a> {
        let mut scan = Scan::new(rules, all_rules);
        if all_rules {
            scan.take_older_verdict(source);
        }
        let mut fence = Fence::default();
        for line in text::lines(source).filter(|line| !fence.covers(*line)) {
            let may_be = scan.may_be_key(line.text);
            for index in (0..scan.prefixes.len()).filter(|index| may_be[*index]) {
                scan.has_bare[index] |= text::key_line(line.text, scan.prefixes[index])
                    .is_some_and(|key| is_bare(&key));
            }
        }
        for line in text::lines(source) {
            scan.line(line);
        }
        scan
    }

    /// A report that has the verdict only under the older prefix is read by that one. Next to the
    /// prefix of today, a line with the older one is text like any other.
    fn take_older_verdict(&mut self, source: &str) {
        let Some(older) = self.rules.older_verdict_prefix.as_deref() else { return };
        let has = |prefix: &str| {
            let mut fence = Fence::default();
            text::lines(source)
                .filter(|line| !fence.covers(*line))
                .any(|line| text::key_line(line.text, prefix).is_some())
        };
        if !has(self.prefixes[VERDICT]) && has(older) {
            self.prefixes[VERDICT] = older;
            self.starts = self.prefixes.map(first_letters);
        }
    }

    fn line(&mut self, line: Line<'a>) {
        if line.text.is_empty() {
            return self.blank();
        }
        let fenced = self.fence.covers(line);
        let may_be = self.may_be_key(line.text);
        if !fenced && may_be.contains(&true) && self.key(line, may_be) {
            return;
        }
        if !fenced {
            self.item(line);
        }
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(index, _)| may_be[*index]) {
            let is_open = slot.first.is_none() && slot.almost.is_none();
            if is_open && text::almost_key_line(line.text, self.prefixes[index]) {
                slot.almost = Some((line, fenced));
            }
        }
    }

    /// A cheap look at the first two letters: nearly all lines of a report end here.
    fn may_be_key(&self, line: &str) -> [bool; 3] {
        let found = first_letters(line);
        let is_numbered = found[0].is_some_and(|c| c.is_ascii_digit());
        self.starts.map(|start| start[0].is_some() && (start == found || is_numbered))
    }

    fn blank(&mut self) {
        match &mut self.behind {
            Behind::List(list) => list.after_blank = true,
            Behind::NoList { .. } => self.behind = Behind::Nothing,
            Behind::Nothing => {}
        }
    }

    fn key(&mut self, line: Line<'a>, may_be: [bool; 3]) -> bool {
        for (index, prefix) in
            self.prefixes.into_iter().enumerate().filter(|(index, _)| may_be[*index])
        {
            let Some(key) = text::key_line(line.text, prefix) else { continue };
            if self.has_bare[index] && !is_bare(&key) {
                continue;
            }
            self.behind = Behind::Nothing;
            let slot = &mut self.slots[index];
            match &slot.first {
                // Said twice, and the same both times.
                Some(first) if !first.is_item && is_same(first.value, key.value) => {}
                Some(_) => {
                    slot.second.get_or_insert(line.number);
                    return true;
                }
                None => {
                    let place = place(line, key.value_at);
                    let is_item = !is_bare(&key);
                    slot.first =
                        Some(Found { line: line.number, place, value: key.value, is_item });
                }
            }
            if index == BLOCKERS {
                let deeper_than = key.is_item.then_some(key.indent);
                self.behind = match key.value {
                    "" => Behind::List(List { deeper_than, item_indent: None, after_blank: false }),
                    value => Behind::NoList { deeper_than, any: value.ends_with(text::is_colon) },
                };
            }
            return true;
        }
        false
    }

    fn item(&mut self, line: Line<'a>) {
        if matches!(self.behind, Behind::Nothing) {
            return;
        }
        if line.text.trim().is_empty() {
            return self.blank();
        }
        let item = text::list_item(line.text);
        match &mut self.behind {
            Behind::Nothing => {}
            Behind::NoList { deeper_than, any } => match item {
                Some((indent, _)) if deeper_than.is_some_and(|outer| indent <= outer) => {
                    self.behind = Behind::Nothing;
                }
                Some((_, body)) if *any || split_tag(body, self.rules).0.is_some() => {
                    self.second_list.get_or_insert(place(line, 0));
                    self.behind = Behind::Nothing;
                }
                Some(_) => {}
                None if is_prose(line.text) => *any = false,
                None => self.behind = Behind::Nothing,
            },
            Behind::List(list) => {
                let inside =
                    item.filter(|(indent, _)| list.deeper_than.is_none_or(|outer| *indent > outer));
                let deeper = list.item_indent.is_some_and(|base| text::indent(line.text) > base);
                match (inside, list.item_indent) {
                    (Some((indent, body)), base) if base.is_none_or(|base| indent <= base) => {
                        list.item_indent.get_or_insert(indent);
                        list.after_blank = false;
                        self.add_item(line, body);
                    }
                    // Deeper lines go on with the item they stand under.
                    _ if deeper => {
                        list.after_blank = false;
                        if let Some(last) = self.items.last_mut() {
                            last.text.to_mut().push(' ');
                            last.text.to_mut().push_str(line.text.trim());
                        }
                    }
                    (None, Some(_)) if !list.after_blank && is_prose(line.text) => {
                        let deeper_than = list.deeper_than;
                        self.behind = Behind::NoList { deeper_than, any: false };
                    }
                    _ => self.behind = Behind::Nothing,
                }
            }
        }
    }

    fn add_item(&mut self, line: Line<'a>, body: &'a str) {
        if self.items.len() == MAX_BLOCKERS {
            self.too_many_items = true;
            self.behind = Behind::Nothing;
            return;
        }
        let at = line.text.len() - line.text.trim_start().len();
        self.items.push(Item { place: place(line, at), text: body.into() });
    }
}

/// A key line that is neither a list item nor indented under one.
fn is_bare(key: &text::KeyLine<'_>) -> bool {
    !key.is_item && key.indent < 2
}

/// True if two key lines have the same value; an empty one announces a list, and lists are not
/// compared.
fn is_same(one: &str, other: &str) -> bool {
    let other = text::unwrapped(other);
    !other.is_empty() && text::unwrapped(one) == other
}

/// The first two letters or digits, ASCII ones in lower case.
fn first_letters(text: &str) -> [Option<char>; 2] {
    let mut letters = text.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase());
    [letters.next(), letters.next()]
}

/// Neither a heading nor a table, a quotation or a rule.
fn is_prose(line: &str) -> bool {
    let line = line.trim_start();
    let is_rule = line.chars().all(|c| matches!(c, '-' | '*' | '_' | '=') || c.is_whitespace());
    !line.starts_with(['#', '|', '>']) && !is_rule
}

/// The place of a byte of a line.
fn place(line: Line<'_>, at: usize) -> Place {
    let column = line.text[..at.min(line.text.len())].chars().count() + 1;
    Place { line: line.number, column: u32::try_from(column).unwrap_or(u32::MAX) }
}

/// Turns what was found into values or problems.
struct Judge<'a, 'b> {
    rules: &'a ReportRules,
    scan: &'b Scan<'a>,
    problems: Vec<Problem>,
}

impl<'a> Judge<'a, '_> {
    fn iteration(&mut self, expected: Option<Iteration>) -> Option<Iteration> {
        let wanted = match expected {
            Some(iteration) => format!("`{ITERATION_PREFIX} {iteration}`"),
            None => format!("`{ITERATION_PREFIX} N`"),
        };
        let found = self.key(ITERATION, true, |_| wanted.clone())?;
        let word = text::unwrapped(found.value);
        let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        let Some(number) = digits.then(|| word.parse().ok()).flatten().map(Iteration) else {
            let shown = text::shown(word, 40);
            let problem = Problem::localized("iteration-malformed", |language| match word {
                "" => language.line_is_empty(language.iteration_line()),
                _ if digits => language.iteration_too_large(&shown),
                _ => language.iteration_not_number(&shown),
            });
            self.problems.push(problem.at(found.place).found(word).expected(wanted));
            return None;
        };
        if let Some(expected) = expected.filter(|expected| *expected != number) {
            let problem = Problem::localized("iteration-foreign", |language| {
                language.iteration_foreign(number, expected)
            });
            self.problems.push(problem.at(found.place).found(word).expected(wanted));
            return None;
        }
        Some(number)
    }

    fn verdict(&mut self) -> Option<Verdict> {
        let allowed = &self.rules.verdict_allowed;
        let wanted = |language: Language| {
            language.verdict_form(&self.rules.verdict_prefix, list_in(language, allowed))
        };
        let found = self.key(VERDICT, self.rules.require_verdict, wanted)?;
        let word = text::unwrapped(found.value);
        match self.rules.outcome(word) {
            Some(outcome) => Some(Verdict { word: word.to_owned(), outcome }),
            None => {
                let problem = Problem::localized("verdict-unknown", |language| match word {
                    "" => language.line_is_empty(language.verdict_line()),
                    word => language.verdict_not_allowed(text::shown(word, 40)),
                });
                self.problems.push(problem.at(found.place).found(word).one_of(word, allowed));
                None
            }
        }
    }

    /// `None` after a problem, so that agreement with the verdict is not judged on half a list.
    fn blockers(&mut self) -> Option<Vec<Blocker>> {
        let clear = self.rules.blocker_clear_value.first();
        let wanted = |language: Language| language.blockers_form(&self.rules.blocker_prefix, clear);
        let found = self.key(BLOCKERS, true, wanted)?;
        if self.scan.too_many_items {
            let problem = Problem::localized("blockers-too-many", |language| {
                language.blockers_too_many(MAX_BLOCKERS)
            });
            self.problems.push(problem.at(found.place).expecting(Language::blockers_that_decide));
            return None;
        }
        if let Some(place) = self.scan.second_list {
            self.problems.push(second_list(found.value).at(place));
            return None;
        }
        let written: Vec<(Place, &str)> = match found.value {
            "" => self.scan.items.iter().map(|item| (item.place, item.text.as_ref())).collect(),
            value => vec![(found.place, value)],
        };
        if written.is_empty() {
            let problem = Problem::localized("blockers-empty", Language::blockers_line_blank);
            let problem = problem.expecting(|language| language.blockers_line_form(clear));
            self.problems.push(problem.at(found.place));
            return None;
        }
        let before = self.problems.len();
        let mut blockers = Vec::new();
        for (place, raw) in &written {
            match self.blocker(raw, *place, written.len()) {
                Some(blocker) => blockers.push(blocker),
                None if self.problems.len() > before => return None,
                None => {}
            }
        }
        Some(blockers)
    }

    /// `None`: the clear value, or a problem.
    fn blocker(&mut self, raw: &str, place: Place, of: usize) -> Option<Blocker> {
        let clear = &self.rules.blocker_clear_value;
        let (tag, text) = split_tag(raw, self.rules);
        let word = text::unwrapped(text);
        if clear.contains(word) && tag.is_none() {
            if of > 1 {
                let problem = Problem::localized("blockers-contradict", |language| {
                    language.clear_among_blockers(word)
                });
                let problem = problem.expecting(|language| language.clear_or_blockers(word));
                self.problems.push(problem.at(place).found(word));
            }
            return None;
        }
        if let Some(meant) = almost_clear(word, &clear.0) {
            let mut problem = Problem::localized("blockers-unclear", |language| {
                language.blocker_almost_clear(text::shown(raw, 40), meant)
            });
            problem.did_you_mean = Some(meant.to_owned());
            let problem = problem.expecting(|language| language.clear_alone(meant));
            self.problems.push(problem.at(place).found(raw));
            return None;
        }
        if !text.contains(char::is_alphanumeric) {
            let problem = Problem::localized("blockers-empty", |language| {
                language.blocker_says_nothing(text::shown(raw, 40))
            });
            let problem = problem.expecting(Language::blocker_in_words);
            self.problems.push(problem.at(place).found(raw));
            return None;
        }
        let class = tag.or_else(|| self.rules.classify(text)).unwrap_or(UNKNOWN_CLASS);
        Some(Blocker { class: class.to_owned(), text: text.to_owned() })
    }

    fn agreement(&mut self, verdict: Option<&Verdict>, blockers: Option<&[Blocker]>) {
        let (Some(verdict), Some(blockers)) = (verdict, blockers) else { return };
        let at = self.scan.slots[BLOCKERS].first.as_ref().map_or(Place::START, |found| found.place);
        let word = &verdict.word;
        let problem = match (verdict.outcome, blockers) {
            (Outcome::Pass, [first, ..]) => {
                let shown = text::shown(&first.text, 60);
                let clear = self.rules.blocker_clear_value.first();
                Problem::localized("pass-with-blockers", |language| match blockers.len() {
                    1 => language.verdict_with_blocker(word, &shown),
                    _ => language.verdict_with_blockers(word, &shown),
                })
                .found(&first.text)
                .expecting(|language| language.clear_or_verdict(clear))
            }
            (Outcome::Fail | Outcome::Blocked, []) => {
                Problem::localized("no-blockers", |language| language.verdict_without_blocker(word))
                    .expecting(Language::blocker_or_verdict)
            }
            _ => return,
        };
        self.problems.push(problem.at(at));
    }

    /// The single occurrence of a key line; anything else is a problem (absence only if required).
    fn key(
        &mut self,
        slot: usize,
        required: bool,
        wanted: impl Fn(Language) -> String,
    ) -> Option<Found<'a>> {
        let codes = [
            ("iteration-missing", "iteration-twice"),
            ("verdict-missing", "verdict-twice"),
            ("blockers-missing", "blockers-twice"),
        ];
        let (missing, twice) = codes[slot];
        let seen = &self.scan.slots[slot];
        let problem = match (&seen.first, seen.second) {
            (Some(found), None) => return Some(found.clone()),
            (Some(found), Some(second)) => Problem::localized(twice, |language| {
                language.line_is_repeated(line_name(slot, language), found.line)
            })
            .at(Place { line: second, column: 1 })
            .expecting(Language::only_once),
            (None, _) if required => self.missing(slot, missing).expecting(wanted),
            (None, _) => return None,
        };
        self.problems.push(problem);
        None
    }

    /// The absence of a key line, with the line that its writer must have meant for it.
    fn missing(&self, slot: usize, code: &'static str) -> Problem {
        let open = self.scan.fence.opened_at();
        let Some((line, fenced)) = self.scan.slots[slot].almost else {
            return Problem::localized(code, |language| match open {
                Some(open) => language.line_missing_after_fence(line_name(slot, language), open),
                None => language.line_is_missing(line_name(slot, language)),
            });
        };
        let shown = text::shown(line.text, 60);
        let open = open.filter(|open| *open < line.number);
        let problem = Problem::localized(code, |language| {
            let name = line_name(slot, language);
            match (fenced, open) {
                (true, Some(open)) => language.line_missing_in_open_fence(name, &shown, open),
                (true, None) => language.line_missing_in_fence(name, &shown),
                (false, _) => language.line_missing_not_key(name, &shown),
            }
        });
        problem.at(place(line, 0)).found(line.text)
    }
}

/// The blockers of a list that is not the one under an empty blockers line.
fn second_list(value: &str) -> Problem {
    let problem = Problem::localized("blockers-contradict", |language| match value {
        "" => language.blockers_interrupted(),
        value => language.blockers_line_and_list(text::shown(value, 40)),
    });
    problem.expecting(|language| match value {
        "" => language.blockers_together(),
        _ => language.blockers_line_or_list(),
    })
}

/// The name of a key line in a sentence.
fn line_name(slot: usize, language: Language) -> String {
    match slot {
        ITERATION => language.iteration_line(),
        VERDICT => language.verdict_line(),
        _ => language.blockers_line(),
    }
}

/// A value that somebody must have meant as the clear value: other case, a full stop behind it.
/// Taken for a blocker, it would let a report without any pass as one with some.
fn almost_clear<'a>(word: &str, clear: &'a [String]) -> Option<&'a str> {
    let plain = word.trim_matches(|c: char| !c.is_alphanumeric());
    let meant = clear.iter().find(|clear| clear.to_lowercase() == plain.to_lowercase());
    meant.map(String::as_str).or_else(|| {
        let short =
            word.chars().count() <= 2 * clear.iter().map(|c| c.chars().count()).max().unwrap_or(0);
        (short && word.chars().any(text::is_invisible)).then(|| nearest(word, clear)).flatten()
    })
}

/// Takes `[class]` or `【class】` off a blocker's start or end. In the middle, `array[env]` or a link
/// `[test](a.rs)` is text.
fn split_tag<'r, 't>(raw: &'t str, rules: &'r ReportRules) -> (Option<&'r str>, &'t str) {
    let raw = raw.trim();
    let is_mark = |c: char| matches!(c, '*' | '_' | '`');
    let known = |word: &str| {
        let word = word.trim();
        rules
            .blocker_classes
            .keys()
            .find(|class| class.eq_ignore_ascii_case(word))
            .map(String::as_str)
    };
    let bare = raw.trim_start_matches(is_mark);
    if let Some((word, behind)) =
        bare.strip_prefix(['[', '【']).and_then(|rest| rest.split_once([']', '】']))
        && let Some(class) = known(word)
        && !behind.starts_with('(')
    {
        // Marks that opened before the tag close behind it; `[impl] **x**` keeps its own.
        let opened = &raw[..raw.len() - bare.len()];
        let behind = behind.strip_prefix(opened).unwrap_or(behind);
        return (
            Some(class),
            behind.trim_start_matches(|c: char| c.is_whitespace() || text::is_colon(c)),
        );
    }
    let bare = raw.trim_end_matches(is_mark);
    if let Some((before, word)) =
        bare.strip_suffix([']', '】']).and_then(|rest| rest.rsplit_once(['[', '【']))
        && let Some(class) = known(word)
    {
        let text = before.trim_end_matches(is_mark);
        let is_apart = |c: char| c.is_whitespace() || !c.is_ascii();
        if text.chars().next_back().is_none_or(is_apart) {
            return (Some(class), text.trim_end());
        }
    }
    (None, raw)
}
