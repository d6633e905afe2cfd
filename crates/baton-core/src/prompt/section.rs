//! One piece of a prompt. A file is fenced: its text can neither end the fence nor pose as another
//! section, whatever it holds.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Filed, FinishFacts, Injected, ReadFile, Whole};
use crate::id::{AgentName, Tokens};
use crate::plan::Plan;
use crate::policy::{PlanRules, Policy, ReportRules};
use crate::problem::Problem;
use crate::summary::Level;
use crate::text::{self, Fence};
use crate::tokens;
use crate::window::Window;

/// A section with its account.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Section {
    pub name: String,
    /// The file it comes from, from the blackboard's root.
    pub source: Option<String>,
    /// Of a report.
    pub level: Option<Level>,
    pub tokens: Tokens,
    pub bytes: usize,
    /// Why it is in.
    pub why: String,
    /// What is not in of it.
    pub cut: Option<String>,
    #[serde(skip)]
    text: String,
}

thread_local! {
    /// Sections that are the same in every prompt, each with what it was made of.
    static KEPT: RefCell<BTreeMap<String, (String, Section)>> = const { RefCell::new(BTreeMap::new()) };
    static KEPT_POLICY: RefCell<Option<(Policy, Section)>> = const { RefCell::new(None) };
}
/// So many of them, then all are forgotten.
const MOST_KEPT: usize = 32;

/// The section that was made of this text under this name, or a new one.
fn kept(name: &str, source: &str, make: impl FnOnce() -> Section) -> Section {
    KEPT.with_borrow_mut(|kept| {
        if let Some((own, section)) = kept.get(name)
            && own == source
        {
            return section.clone();
        }
        let section = make();
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(name.to_owned(), (source.to_owned(), section.clone()));
        section
    })
}

/// A run of marks that is longer than this is noise, and no fence must be longer than it.
const LONGEST_RUN: usize = 40;

impl Section {
    pub fn text(&self) -> &str {
        &self.text
    }

    /// `text` begins with no space and ends with an empty line: sizes can be added up.
    fn new(name: &str, text: String, why: &str) -> Section {
        Section {
            name: name.to_owned(),
            source: None,
            level: None,
            tokens: tokens::count(&text),
            bytes: text.len(),
            why: why.to_owned(),
            cut: None,
            text,
        }
    }

    /// A text of somebody else's under a title of ours.
    pub(super) fn fenced(name: &str, title: &str, body: &str, why: &str) -> Section {
        let body = text::stripped(body.trim_end());
        let (body, is_cut) = without_long_runs(&body);
        let fence = text::fence_for(&body);
        let body = if body.is_empty() { "(empty)" } else { &body };
        let text = format!("# {}\n{fence}\n{body}\n{fence}\n\n", text::shown(title, 300));
        let mut section = Section::new(name, text, why);
        section.cut = is_cut.then(|| "long runs of marks".to_owned());
        section
    }

    pub(super) fn from(mut self, path: &str) -> Section {
        self.source = Some(path.to_owned());
        self
    }

    /// A text of ours.
    pub(super) fn plain(name: &str, body: &str, why: &str) -> Section {
        Section::new(name, format!("# {}\n{body}\n\n", capital(name)), why)
    }

    /// The agent's own prompt: the only file that speaks for Baton, and so stands open.
    pub(super) fn instructions(agent: &str, prompt: &str) -> Section {
        kept(agent, prompt, || Section::new_instructions(agent, prompt))
    }

    fn new_instructions(agent: &str, prompt: &str) -> Section {
        let prompt = text::stripped(prompt.trim());
        let mut fence = Fence::default();
        for line in text::lines(&prompt) {
            fence.covers(line);
        }
        // A fence that its writer forgot to close would swallow what follows.
        let end = fence.closing().map_or(String::new(), |closing| format!("\n{closing}"));
        let body = if prompt.is_empty() { "(no prompt)" } else { &prompt };
        let section = Section::new("prompt", format!("{body}{end}\n\n"), "what the stage is");
        section.from(&format!("memory/prompts/subagent_prompt_{}.md", agent.to_lowercase()))
    }

    pub(super) fn policy(policy: &Policy, path: &str) -> Section {
        KEPT_POLICY.with_borrow_mut(|kept| match kept {
            Some((own, section)) if own == policy => section.clone().from(path),
            _ => {
                let section = Section::new_policy(policy).from(path);
                *kept = Some((policy.clone(), section.clone()));
                section
            }
        })
    }

    /// Only what MAIN decides by. The rest of the policy is applied by code.
    fn new_policy(policy: &Policy) -> Section {
        let mut value = serde_json::to_value(policy).unwrap_or_default();
        let not_for_main = [
            ("", &["$schema", "context", "milestones", "report_rules"][..]),
            ("plan", &["aliases"]),
            ("subloop", &["timeout", "enter_on"]),
        ];
        for (part, keys) in not_for_main {
            let part = if part.is_empty() { Some(&mut value) } else { value.get_mut(part) };
            if let Some(map) = part.and_then(Value::as_object_mut) {
                map.retain(|key, _| !keys.contains(&key.as_str()));
            }
        }
        without_nothing(&mut value);
        let mut section = Section::fenced("policy", "Policy", &value.to_string(), "the rules");
        section.cut = Some("what code applies by itself".to_owned());
        section
    }

    /// Goal and constraints, as far as the user filled them in.
    pub(super) fn global_context(file: &Injected, folder: &str) -> Option<Section> {
        let text = text::without_empty_parts(&file.text);
        let path = format!("{folder}{}", file.path);
        let make = || {
            let file = Injected { path: file.path.clone(), text: text.clone() };
            Section::file("global context", &file, folder, "goal and constraints")
        };
        (!text.is_empty()).then(|| kept(&path, &text, make))
    }

    pub(super) fn plan(file: &Injected, folder: &str) -> Section {
        let text = text::without_empty_parts(&file.text);
        let text = if text.is_empty() { "(no task yet)".to_owned() } else { text };
        let file = Injected { path: file.path.clone(), text };
        Section::file("plan", &file, folder, "what is to be done")
    }

    /// `folder` goes before the path in the title, for readers with tools.
    pub(super) fn file(name: &str, file: &Injected, folder: &str, why: &str) -> Section {
        let title = format!("{} ({folder}{})", capital(name), file.path);
        Section::fenced(name, &title, &file.text, why).from(&file.path)
    }

    pub(super) fn history(window: &Window, path: &str) -> Section {
        let title = format!("History: the last iterations and every milestone (whole: {path})");
        let body = if window.text.is_empty() { "(no iteration yet)" } else { &window.text };
        let mut section =
            Section::fenced("history", &title, body, "what was decided, and how it went");
        let parts = [
            ("iterations left out", window.dropped.len()),
            ("milestones shortened", window.shortened.len()),
            ("milestones by heading", window.headings_only.len()),
            ("milestones by number", window.only_named.len()),
            ("entries with cut fields", window.fields_cut.len()),
            ("goal cut", usize::from(window.goal_cut)),
        ];
        let shrunk = parts.iter().filter(|(_, count)| *count > 0);
        let shrunk: Vec<String> = shrunk.map(|(how, count)| format!("{count} {how}")).collect();
        section.cut = (!shrunk.is_empty()).then(|| shrunk.join(", "));
        section.from(path)
    }

    /// `title` goes before the agent's name, `folder` before the path.
    pub(super) fn report(
        filed: &Filed,
        level: Level,
        rules: &ReportRules,
        title: &str,
        folder: &str,
        why: &str,
    ) -> Section {
        let Filed { agent, path: source, summary, whole } = filed;
        let path = format!("{folder}{source}");
        let short = |level: Level| {
            let title = format!("{title} {agent} (summary; whole: {path})");
            (title, summary.render(level, rules, &path), level, None)
        };
        let (title, body, level, cut) = match (level, whole) {
            (level, Whole::Unreadable(why)) => {
                let (_, body, level, _) = short(level.min(Level::Evidence));
                let title = format!("{title} {agent} (unreadable, its last summary; {path})");
                (title, body, level, Some(format!("cannot be read: {why}")))
            }
            (Level::Whole, Whole::Text(whole)) => {
                (format!("{title} {agent} ({path})"), whole.clone(), level, None)
            }
            (Level::Whole, Whole::NotRead) => short(Level::Evidence),
            (level, Whole::Text(_) | Whole::NotRead) => short(level),
        };
        let mut section =
            Section::fenced(&report_name(agent.as_str()), &title, &body, why).from(source);
        section.level = Some(level);
        section.cut = cut.or(section.cut);
        section
    }

    pub(super) fn correction(order: &str, error: &str) -> Section {
        Section::fenced("correction", order, error, "the last answer was refused")
    }

    pub(super) fn last_answer(answer: &str, is_refusal: bool) -> Section {
        let title = match is_refusal {
            true => "Your last answer, which was refused",
            false => "Your last answer, which asked for files",
        };
        Section::fenced("last answer", title, answer, "the next message is about it")
    }

    pub(super) fn read_file(file: &ReadFile) -> Section {
        let title = match &file.problem {
            Some(problem) => format!("{} ({problem})", file.path),
            None => file.path.clone(),
        };
        Section::fenced("file", &title, &file.text, "MAIN asked for it").from(&file.path)
    }

    pub(super) fn no_report(agent: &AgentName) -> Section {
        let text = format!("# Report of {agent}\n(no report)\n\n");
        Section::new(&report_name(agent.as_str()), text, "it has not reported")
    }

    pub(super) fn is_report_of(&self, agent: &AgentName) -> bool {
        self.level.is_some() && self.name == report_name(agent.as_str())
    }

    pub(super) fn plan_counts(
        plan: Option<&(&Injected, Result<Plan, Vec<Problem>>)>,
        rules: &PlanRules,
    ) -> Section {
        let body = match plan {
            Some((_, Ok(plan))) => {
                let counts = plan.status_counts(rules).into_iter().filter(|(_, count)| *count > 0);
                let counts: Vec<String> =
                    counts.map(|(status, count)| format!("{status} {count}")).collect();
                format!("{} tasks: {}", plan.tasks.len(), counts.join(", "))
            }
            Some((_, Err(_))) => "(the plan cannot be read)".to_owned(),
            None => "(there is no plan)".to_owned(),
        };
        let section = Section::plain("plan status counts", &body, "how far the plan is");
        match plan {
            Some((file, _)) => section.from(&file.path),
            None => section,
        }
    }

    /// Names and numbers of what the final check must cover.
    pub(super) fn scope(file: &Injected) -> Section {
        let lines: Vec<String> = match serde_json::from_str::<Value>(&file.text) {
            Ok(Value::Object(map)) => {
                let all = map.iter().map(|(key, value)| format!("{key}: {}", outline(value)));
                all.take(20).collect()
            }
            Ok(Value::Array(items)) => vec![outline(&Value::Array(items))],
            Ok(other) => vec![outline(&other)],
            Err(error) => vec![format!("(it is not JSON: {error})")],
        };
        let title = format!("Acceptance scope (summary; whole: {})", file.path);
        let why = "what the last look covers";
        Section::fenced("acceptance scope", &title, &lines.join("\n"), why).from(&file.path)
    }

    pub(super) fn stage_changes(facts: &FinishFacts) -> Section {
        let name = "stage changes";
        let why = "files that each stage changed";
        let Some(changes) = &facts.stage_changes else {
            return Section::plain(name, "(not known: no run is going on)", why);
        };
        let lines = changes.iter().map(|change| {
            let files =
                if change.files.is_empty() { "none".to_owned() } else { change.files.join(", ") };
            format!("{}: {files}", change.stage)
        });
        let lines: Vec<String> = lines.collect();
        let body = if lines.is_empty() {
            "(no stage changed a file)".to_owned()
        } else {
            lines.join("\n")
        };
        Section::fenced(name, "Stage changes", &body, why)
    }

    pub(super) fn readiness(
        plan: Option<&(&Injected, Result<Plan, Vec<Problem>>)>,
        rules: &PlanRules,
        facts: &FinishFacts,
    ) -> Section {
        let mut lines = vec![match plan {
            Some((_, Ok(plan))) if plan.is_ready(rules) => "plan: ready".to_owned(),
            Some((_, Ok(plan))) => {
                let open = plan.tasks.iter().filter(|task| task.status != rules.final_status);
                let open: Vec<String> =
                    open.take(30).map(|task| format!("{} {}", task.id, task.status)).collect();
                let open =
                    if open.is_empty() { "it has no task".to_owned() } else { open.join(", ") };
                format!("plan: not ready ({open})")
            }
            Some((_, Err(_))) | None => "plan: not ready (it cannot be read)".to_owned(),
        }];
        match &facts.gates {
            None => lines.push("gates: not run".to_owned()),
            Some(gates) if gates.is_empty() => {
                lines.push("gates: none ran in this run".to_owned());
            }
            Some(gates) => lines.extend(gates.iter().map(|gate| {
                let how = if gate.passed { "passed" } else { "FAILED" };
                let output = if gate.passed {
                    String::new()
                } else {
                    format!("\n{}", gate.output.trim_end())
                };
                format!("gate `{}` ({}): {how}{output}", gate.command, gate.of)
            })),
        }
        if !facts.open.is_empty() {
            let open = facts.open.join("; ");
            lines.push(format!(
                "FINISH would be refused as it is now, also with an override: {open}"
            ));
        }
        let body = lines.join("\n");
        Section::fenced("readiness", "Readiness and gates", &body, "what code checked itself")
    }
}

pub(crate) fn report_name(agent: &str) -> String {
    format!("report of {agent}")
}

/// Takes away what says nothing: null, empty lists and maps.
fn without_nothing(value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    map.values_mut().for_each(without_nothing);
    map.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    });
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn outline(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let named = items.iter().filter_map(|item| {
                item.as_str().or_else(|| item.get("id").or_else(|| item.get("name"))?.as_str())
            });
            let named: Vec<String> = named.take(10).map(|name| text::shown(name, 60)).collect();
            let named =
                if named.is_empty() { String::new() } else { format!(" ({})", named.join("; ")) };
            format!("{} items{named}", items.len())
        }
        Value::Object(map) => format!("{} keys", map.len()),
        other => text::shown(&other.to_string(), 120),
    }
}

/// Runs of backticks that would make the fence as long as themselves are cut, and that is said.
fn without_long_runs(body: &str) -> (Cow<'_, str>, bool) {
    if text::longest_run(body) <= LONGEST_RUN {
        return (Cow::Borrowed(body), false);
    }
    let mut out = String::with_capacity(body.len());
    let mut count = 0;
    for c in body.chars() {
        count = if c == '`' { count + 1 } else { 0 };
        match count {
            0..=LONGEST_RUN => out.push(c),
            _ if count == LONGEST_RUN + 1 => out.push('…'),
            _ => {}
        }
    }
    (Cow::Owned(out), true)
}
