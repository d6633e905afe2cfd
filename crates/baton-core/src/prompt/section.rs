//! One piece of a prompt. A file is fenced: its text can neither end the fence nor pose as another
//! section, whatever it holds.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Filed, Injected, ReadFile, Whole};
use crate::id::{AgentName, Tokens};
use crate::messages::Language;
use crate::policy::Policy;
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
    static KEPT: RefCell<BTreeMap<(Language, String), (String, Section)>> = const { RefCell::new(BTreeMap::new()) };
    static KEPT_POLICY: RefCell<Option<(Language, Policy, Section)>> = const { RefCell::new(None) };
}
/// So many of them, then all are forgotten.
const MOST_KEPT: usize = 32;

/// The section that was made of this text under this name in this language, or a new one.
fn kept(words: Language, name: &str, source: &str, make: impl FnOnce() -> Section) -> Section {
    let key = (words, name.to_owned());
    KEPT.with_borrow_mut(|kept| {
        if let Some((own, section)) = kept.get(&key)
            && own == source
        {
            return section.clone();
        }
        let section = make();
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(key, (source.to_owned(), section.clone()));
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
    pub(super) fn fenced(
        words: Language,
        name: &str,
        title: &str,
        body: &str,
        why: &str,
    ) -> Section {
        let body = text::stripped(body.trim_end());
        let (body, is_cut) = without_long_runs(&body);
        let fence = text::fence_for(&body);
        let body = if body.is_empty() { Cow::Owned(words.nothing_in_it()) } else { body };
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
    pub(super) fn plain(name: &str, title: &str, body: &str, why: &str) -> Section {
        Section::new(name, format!("# {title}\n{body}\n\n"), why)
    }

    /// The agent's own prompt: the only file that speaks for Baton, and so stands open.
    pub(super) fn instructions(words: Language, agent: &str, prompt: &str) -> Section {
        kept(words, agent, prompt, || Section::new_instructions(words, agent, prompt))
    }

    fn new_instructions(words: Language, agent: &str, prompt: &str) -> Section {
        let prompt = text::stripped(prompt.trim());
        let mut fence = Fence::default();
        for line in text::lines(&prompt) {
            fence.covers(line);
        }
        // A fence that its writer forgot to close would swallow what follows.
        let end = fence.closing().map_or(String::new(), |closing| format!("\n{closing}"));
        let body = if prompt.is_empty() { Cow::Owned(words.no_prompt()) } else { prompt };
        let section = Section::new("prompt", format!("{body}{end}\n\n"), "what the stage is");
        section.from(&format!("memory/prompts/subagent_prompt_{}.md", agent.to_lowercase()))
    }

    pub(super) fn policy(words: Language, policy: &Policy, path: &str) -> Section {
        KEPT_POLICY.with_borrow_mut(|kept| match kept {
            Some((language, own, section)) if *language == words && own == policy => {
                section.clone().from(path)
            }
            _ => {
                let section = Section::new_policy(words, policy).from(path);
                *kept = Some((words, policy.clone(), section.clone()));
                section
            }
        })
    }

    /// Only what MAIN decides by. The rest of the policy is applied by code.
    fn new_policy(words: Language, policy: &Policy) -> Section {
        let mut value = serde_json::to_value(policy).unwrap_or_default();
        let not_for_main = [
            ("", &["$schema", "context", "milestones", "report_rules"][..]),
            ("plan", &["aliases"]),
            ("subloop", &["timeout", "enter_on"]),
            // The question is the user's to read, the package the agent's.
            ("approval", &["texts", "package"]),
            ("evaluation", &["package"]),
        ];
        for (part, keys) in not_for_main {
            let part = if part.is_empty() { Some(&mut value) } else { value.get_mut(part) };
            without_keys(part, keys);
        }
        for gate in value.get_mut("gates").and_then(Value::as_array_mut).into_iter().flatten() {
            without_keys(Some(gate), &["timeout", "allow"]);
        }
        without_nothing(&mut value);
        let title = words.title_policy();
        let mut section = Section::fenced(words, "policy", &title, &value.to_string(), "the rules");
        section.cut = Some("what code applies by itself".to_owned());
        section
    }

    /// Goal and constraints, as far as the user filled them in.
    pub(super) fn global_context(
        words: Language,
        file: &Injected,
        folder: &str,
    ) -> Option<Section> {
        let text = text::without_empty_parts(&file.text);
        let path = format!("{folder}{}", file.path);
        let make = || {
            let file = Injected { path: file.path.clone(), text: text.clone() };
            let title = words.title_global_context();
            Section::file(words, ("global context", &title), &file, folder, "goal and constraints")
        };
        (!text.is_empty()).then(|| kept(words, &path, &text, make))
    }

    pub(super) fn plan(words: Language, file: &Injected, folder: &str) -> Section {
        let text = text::without_empty_parts(&file.text);
        let text = if text.is_empty() { words.no_plan_task() } else { text };
        let file = Injected { path: file.path.clone(), text };
        Section::file(words, ("plan", &words.title_plan()), &file, folder, "what is to be done")
    }

    /// `folder` goes before the path in the title, for readers with tools.
    pub(super) fn file(
        words: Language,
        (name, title): (&str, &str),
        file: &Injected,
        folder: &str,
        why: &str,
    ) -> Section {
        let title = words.with_brackets(title, format!("{folder}{}", file.path));
        Section::fenced(words, name, &title, &file.text, why).from(&file.path)
    }

    pub(super) fn history(words: Language, window: &Window, path: &str) -> Section {
        let nothing = words.no_iteration_yet();
        let body = if window.text.is_empty() { &nothing } else { &window.text };
        let why = "what was decided, and how it went";
        let mut section = Section::fenced(words, "history", &words.title_history(path), body, why);
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

    /// `title` names the report, `folder` goes before the path.
    pub(super) fn report(
        words: Language,
        policy: &Policy,
        filed: &Filed,
        level: Level,
        (title, folder): (&str, &str),
        why: &str,
    ) -> Section {
        let Filed { agent, path: source, summary, whole } = filed;
        let path = format!("{folder}{source}");
        let short = |level: Level, note: String| {
            let title = words.with_brackets(title, note);
            (title, summary.render(level, policy, words, &path), level, None)
        };
        let (title, body, level, cut) = match (level, whole) {
            (level, Whole::Unreadable(why)) => {
                let (title, body, level, _) =
                    short(level.min(Level::Evidence), words.last_summary_of(&path));
                (title, body, level, Some(format!("cannot be read: {why}")))
            }
            (Level::Whole, Whole::Text(whole)) => {
                (words.with_brackets(title, &path), whole.clone(), level, None)
            }
            (Level::Whole, Whole::NotRead) => short(Level::Evidence, words.summary_of(&path)),
            (level, Whole::Text(_) | Whole::NotRead) => short(level, words.summary_of(&path)),
        };
        let name = report_name(agent.as_str());
        let mut section = Section::fenced(words, &name, &title, &body, why).from(source);
        section.level = Some(level);
        section.cut = cut.or(section.cut);
        section
    }

    pub(super) fn correction(words: Language, order: &str, error: &str) -> Section {
        Section::fenced(words, "correction", order, error, "the last answer was refused")
    }

    pub(super) fn last_answer(words: Language, answer: &str, is_refusal: bool) -> Section {
        let title = match is_refusal {
            true => words.title_refused_answer(),
            false => words.title_asking_answer(),
        };
        Section::fenced(words, "last answer", &title, answer, "the next message is about it")
    }

    pub(super) fn read_file(words: Language, file: &ReadFile) -> Section {
        let title = match &file.problem {
            Some(problem) => words.with_brackets(&file.path, problem),
            None => file.path.clone(),
        };
        Section::fenced(words, "file", &title, &file.text, "MAIN asked for it").from(&file.path)
    }

    pub(super) fn no_report(words: Language, agent: &AgentName) -> Section {
        let name = report_name(agent.as_str());
        let why = "it has not reported";
        Section::plain(&name, &words.title_report(agent), &words.no_report(), why)
    }

    pub(super) fn is_report_of(&self, agent: &AgentName) -> bool {
        self.level.is_some() && self.name == report_name(agent.as_str())
    }
}

pub(crate) fn report_name(agent: &str) -> String {
    format!("report of {agent}")
}

fn without_keys(part: Option<&mut Value>, keys: &[&str]) {
    if let Some(map) = part.and_then(Value::as_object_mut) {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
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
