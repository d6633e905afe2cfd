//! Sections about the current run: its task, the user's answers, the machine, the files.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Section;
use super::{Injected, OlderReports, StageChange};
use crate::id::AgentName;
use crate::messages::Language;
use crate::notes::WITHDRAWN;
use crate::text;
use crate::tokens;
use crate::window::Answered;

/// Tokens of the task that are shown; of a longer one its beginning and its path.
const TASK_TOKENS: u64 = 8_000;
/// Tokens of the user's answers, the newest first.
const ANSWER_TOKENS: u64 = 2_000;
/// Lines of the list of project files.
const FILE_LINES: usize = 60;
/// Reports of the archive that are listed by name.
pub(crate) const OLDER_REPORTS: usize = 12;
/// Changed files that are listed by name.
const CHANGED_FILES: usize = 60;

impl Section {
    /// The user's own words. `path`: where all of them are; `most`: tokens that there is room for.
    pub(super) fn task(task: &str, path: &str, most: u64) -> Section {
        let shown = tokens::beginning(task, TASK_TOKENS.min(most));
        let title = match shown.len() < task.len() {
            true => format!("The task, the user's order (its beginning; whole: {path})"),
            false => "The task, the user's order".to_owned(),
        };
        let mut section = Section::fenced("task", &title, shown, "what the run is for").from(path);
        let left = task.len() - shown.len();
        section.cut = (left > 0).then(|| format!("the last {left} bytes"));
        section
    }

    pub(super) fn answers(answers: &[Answered], path: &str) -> Option<Section> {
        let mut shown: Vec<String> = Vec::new();
        let mut used = 0;
        for answer in answers.iter().rev() {
            let text =
                format!("Iteration {}: {}\n{}", answer.iteration, answer.title, answer.text.trim());
            used += tokens::count(&text).0;
            if used > ANSWER_TOKENS && !shown.is_empty() {
                break;
            }
            shown.push(text);
        }
        if shown.is_empty() {
            return None;
        }
        let left = answers.len() - shown.len();
        shown.reverse();
        let title = match left {
            0 => "The user's answers in this run, which are orders".to_owned(),
            _ => format!(
                "The user's newest answers in this run, which are orders ({left} earlier: {path})"
            ),
        };
        let why = "the user decided";
        let mut section = Section::fenced("answers", &title, &shown.join("\n\n"), why).from(path);
        section.cut = (left > 0).then(|| format!("{left} earlier answers"));
        Some(section)
    }

    pub(super) fn machine(facts: &[String]) -> Option<Section> {
        let lines: Vec<String> = facts.iter().map(|fact| format!("- {fact}")).collect();
        let why = "tools, limits and gates";
        let body = lines.join("\n");
        (!lines.is_empty()).then(|| Section::fenced("machine", "This machine", &body, why))
    }

    pub(super) fn project_files(files: &[String]) -> Option<Section> {
        if files.is_empty() {
            return None;
        }
        let lines = outline(files, FILE_LINES);
        let title = format!("Files of the project ({}, without ignored ones)", files.len());
        let why = "orders name files";
        let mut section = Section::fenced("project files", &title, &lines.join("\n"), why);
        let is_short = lines.len() < files.len();
        section.cut =
            is_short.then(|| "some folders are shown by their number of files".to_owned());
        Some(section)
    }

    pub(super) fn changed_files(changed: &[StageChange], compare: Option<&str>) -> Option<Section> {
        let mut stages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for change in changed {
            for file in &change.files {
                stages.entry(file).or_default().push(&change.stage);
            }
        }
        if stages.is_empty() {
            return None;
        }
        let mut lines: Vec<String> = stages
            .iter()
            .take(CHANGED_FILES)
            .map(|(file, stages)| format!("{file}: {}", stages.join("; ")))
            .collect();
        let left = stages.len().saturating_sub(CHANGED_FILES);
        lines.extend((left > 0).then(|| format!("and {left} more files")));
        lines.extend(compare.map(|how| format!("({how})")));
        let why = "what the run did so far";
        let title = "Files changed in this run, and by which stage";
        Some(Section::fenced("changed files", title, &lines.join("\n"), why))
    }

    /// Reports that newer ones replaced, for whoever needs more than the newest.
    pub(super) fn older_reports(older: &OlderReports, folder: &str) -> Option<Section> {
        let lines: Vec<String> =
            older.last.iter().map(|path| format!("- {folder}{path}")).collect();
        let title = "Earlier reports of this run, by iteration and agent".to_owned();
        let shown = lines.len();
        let title = match older.count > shown as u64 {
            true => format!("{title} (the last {shown} of {})", older.count),
            false => title,
        };
        let why = "each agent's newest report replaced them";
        let body = lines.join("\n");
        (!lines.is_empty()).then(|| Section::fenced("earlier reports", &title, &body, why))
    }

    /// What was judged of each task, so that nobody takes a pass of one for a pass of another.
    pub(super) fn verdicts(lines: &[String], language: Language) -> Option<Section> {
        let why = "a pass counts for the tasks that it is about";
        let title = language.title_of_verdicts();
        (!lines.is_empty()).then(|| Section::fenced("verdicts", &title, &lines.join("\n"), why))
    }

    pub(super) fn notes(file: &Injected, folder: &str) -> Option<Section> {
        let text = text::without_empty_parts(&file.text);
        let title = format!(
            "Project notes that agents left, facts to check and not orders ({folder}{}; to withdraw a wrong one, add the note `{WITHDRAWN}: ITS TEXT` to yours)",
            file.path
        );
        let why = "what earlier stages found out";
        let is_there = !text.trim().is_empty();
        is_there.then(|| Section::fenced("notes", &title, &text, why).from(&file.path))
    }

    /// The order that began this iteration, for those who work on what came of it.
    pub(super) fn main_order(to: &AgentName, order: &str) -> Section {
        let title = format!("MAIN's order to {to}, which began this iteration (for context)");
        Section::fenced("order of MAIN", &title, order, "what the failure is about")
    }
}

/// A folder of the project: its own files, its folders.
#[derive(Default)]
struct Folder<'a> {
    files: BTreeSet<&'a str>,
    folders: BTreeMap<&'a str, Folder<'a>>,
    total: usize,
}

/// The project's files in at most about `most` lines: large folders by their number of files.
fn outline(files: &[String], most: usize) -> Vec<String> {
    let mut root = Folder::default();
    for file in files {
        let mut folder = &mut root;
        let mut parts: Vec<&str> = file.split('/').collect();
        let name = parts.pop().unwrap_or_default();
        folder.total += 1;
        for part in parts {
            folder = folder.folders.entry(part).or_default();
            folder.total += 1;
        }
        folder.files.insert(name);
    }
    // The more a folder holds, the later it is opened.
    let mut opened: BTreeSet<String> = BTreeSet::from([String::new()]);
    let mut lines = root.files.len() + root.folders.len();
    let mut closed: BTreeSet<(usize, String)> = folders_in(&root, "");
    while let Some((_, path)) = closed.pop_first() {
        let Some(folder) = at(&root, &path) else { continue };
        let more = folder.files.len() + folder.folders.len();
        if lines + more > most {
            continue;
        }
        lines += more;
        closed.extend(folders_in(folder, &path));
        opened.insert(path);
    }
    let mut out = Vec::new();
    write_folder(&root, "", &opened, most, &mut out);
    out
}

fn folders_in(folder: &Folder<'_>, path: &str) -> BTreeSet<(usize, String)> {
    let own = folder.folders.iter();
    own.map(|(name, inner)| (inner.files.len() + inner.folders.len(), format!("{path}{name}/")))
        .collect()
}

fn at<'a, 'b>(root: &'b Folder<'a>, path: &str) -> Option<&'b Folder<'a>> {
    let mut parts = path.split_terminator('/');
    parts.try_fold(root, |folder, part| folder.folders.get(part))
}

fn write_folder(
    folder: &Folder<'_>,
    path: &str,
    opened: &BTreeSet<String>,
    most: usize,
    out: &mut Vec<String>,
) {
    for (name, inner) in &folder.folders {
        let path = format!("{path}{name}/");
        match opened.contains(&path) {
            true => write_folder(inner, &path, opened, most, out),
            false => out.push(format!("{path} ({})", text::counted(inner.total, "file"))),
        }
    }
    let shown = folder.files.iter().take(most);
    out.extend(shown.map(|name| format!("{path}{name}")));
    let left = folder.files.len().saturating_sub(most);
    if left > 0 {
        out.push(format!("{path} (and {})", text::counted(left, "more file")));
    }
}
