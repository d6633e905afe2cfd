//! Sections about the current run: its task, the user's answers, the machine, the files.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Section;
use super::{Injected, OlderReports, StageChange, file_in, stage_in};
use crate::id::AgentName;
use crate::messages::Language;
use crate::text;
use crate::tokens;
use crate::window::Answered;

/// Tokens of the task that are shown; of a longer one its beginning and its path.
const TASK_TOKENS: u64 = 8_000;
/// Tokens of the user's answers, the newest first.
const ANSWER_TOKENS: u64 = 2_000;
/// Tokens of the diff since an agent's own last report.
const DIFF_TOKENS: u64 = 2_000;
/// Lines of the list of project files.
const FILE_LINES: usize = 60;
/// Reports of the archive that are listed by name.
pub(crate) const OLDER_REPORTS: usize = 12;
/// Changed files that are listed by name.
const CHANGED_FILES: usize = 60;

impl Section {
    /// The user's own words. `path`: where all of them are; `most`: tokens that there is room for.
    pub(super) fn task(words: Language, task: &str, path: &str, most: u64) -> Section {
        let shown = tokens::beginning(task, TASK_TOKENS.min(most));
        let title = match shown.len() < task.len() {
            true => words.title_task_beginning(path),
            false => words.title_task(),
        };
        let why = "what the run is for";
        let mut section = Section::fenced(words, "task", &title, shown, why).from(path);
        let left = task.len() - shown.len();
        section.cut = (left > 0).then(|| format!("the last {left} bytes"));
        section
    }

    pub(super) fn answers(words: Language, answers: &[Answered], path: &str) -> Option<Section> {
        let mut shown: Vec<String> = Vec::new();
        let mut used = 0;
        for answer in answers.iter().rev() {
            let title = words.answer_of(answer.iteration, &answer.title);
            let text = format!("{title}\n{}", answer.text.trim());
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
            0 => words.title_answers(),
            _ => words.title_newest_answers(left, path),
        };
        let (body, why) = (shown.join("\n\n"), "the user decided");
        let mut section = Section::fenced(words, "answers", &title, &body, why).from(path);
        section.cut = (left > 0).then(|| format!("{left} earlier answers"));
        Some(section)
    }

    pub(super) fn machine(words: Language, facts: &[String]) -> Option<Section> {
        let lines: Vec<String> = facts.iter().map(|fact| format!("- {fact}")).collect();
        let why = "tools, limits and gates";
        let body = lines.join("\n");
        let title = words.title_machine();
        (!lines.is_empty()).then(|| Section::fenced(words, "machine", &title, &body, why))
    }

    pub(super) fn project_files(words: Language, files: &[String]) -> Option<Section> {
        if files.is_empty() {
            return None;
        }
        let lines = outline(words, files, FILE_LINES);
        let (title, why) = (words.title_project_files(files.len()), "orders name files");
        let mut section = Section::fenced(words, "project files", &title, &lines.join("\n"), why);
        let is_short = lines.len() < files.len();
        section.cut =
            is_short.then(|| "some folders are shown by their number of files".to_owned());
        Some(section)
    }

    pub(super) fn changed_files(
        words: Language,
        changed: &[StageChange],
        compare: Option<&str>,
    ) -> Option<Section> {
        let mut stages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for change in changed {
            for file in &change.files {
                stages.entry(file).or_default().push(stage_in(words, &change.stage));
            }
        }
        if stages.is_empty() {
            return None;
        }
        let mut lines: Vec<String> = stages
            .iter()
            .take(CHANGED_FILES)
            .map(|(file, stages)| words.after_colon(file_in(words, file), words.clauses(stages)))
            .collect();
        let left = stages.len().saturating_sub(CHANGED_FILES);
        lines.extend((left > 0).then(|| words.more_files(left)));
        lines.extend(compare.map(|how| words.in_brackets(how)));
        let (title, why) = (words.title_changed_files(), "what the run did so far");
        Some(Section::fenced(words, "changed files", &title, &lines.join("\n"), why))
    }

    /// Reports that newer ones replaced, for whoever needs more than the newest.
    pub(super) fn older_reports(
        words: Language,
        older: &OlderReports,
        folder: &str,
    ) -> Option<Section> {
        let lines: Vec<String> =
            older.last.iter().map(|path| format!("- {folder}{path}")).collect();
        let title = words.title_earlier_reports();
        let shown = lines.len();
        let title = match older.count > shown as u64 {
            true => words.title_last_of_earlier_reports(title, shown, older.count),
            false => title,
        };
        let why = "each agent's newest report replaced them";
        let body = lines.join("\n");
        let name = "earlier reports";
        (!lines.is_empty()).then(|| Section::fenced(words, name, &title, &body, why))
    }

    /// What changed since the reader's own last report: whoever judges again sees what is new.
    pub(super) fn since_own(words: Language, diff: &str) -> Section {
        let shown = tokens::beginning(diff, DIFF_TOKENS);
        let left = diff.len() - shown.len();
        let title =
            words.title_since_own(if left > 0 { words.its_beginning() } else { String::new() });
        let why = "what is new since the agent's own last report";
        let mut section = Section::fenced(words, "changes since own report", &title, shown, why);
        section.cut = (left > 0).then(|| format!("the last {left} bytes"));
        section
    }

    /// The newest verdicts about each task: a pass of one is not a pass of another.
    pub(super) fn verdicts(words: Language, lines: &[String]) -> Option<Section> {
        let why = "a pass counts for the tasks that it is about";
        let title = words.title_of_verdicts();
        let body = lines.join("\n");
        (!lines.is_empty()).then(|| Section::fenced(words, "verdicts", &title, &body, why))
    }

    pub(super) fn notes(words: Language, file: &Injected, folder: &str) -> Option<Section> {
        let text = text::without_empty_parts(&file.text);
        let path = format!("{folder}{}", file.path);
        let title = words.title_notes(path, words.note_withdrawn());
        let why = "what earlier stages found out";
        let is_there = !text.trim().is_empty();
        is_there.then(|| Section::fenced(words, "notes", &title, &text, why).from(&file.path))
    }

    /// The order that began this iteration, for those who work on what came of it.
    pub(super) fn main_order(words: Language, to: &AgentName, order: &str) -> Section {
        let why = "what the failure is about";
        Section::fenced(words, "order of MAIN", &words.title_main_order(to), order, why)
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
fn outline(words: Language, files: &[String], most: usize) -> Vec<String> {
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
    let mut list = List { words, opened: &opened, most, lines: Vec::new() };
    list.write(&root, "");
    list.lines
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

/// The lines of an outline.
struct List<'a> {
    words: Language,
    /// Folders whose files are named.
    opened: &'a BTreeSet<String>,
    /// Files that are named of one folder.
    most: usize,
    lines: Vec<String>,
}

impl List<'_> {
    fn write(&mut self, folder: &Folder<'_>, path: &str) {
        for (name, inner) in &folder.folders {
            let path = format!("{path}{name}/");
            match self.opened.contains(&path) {
                true => self.write(inner, &path),
                false => self.note(&path, self.words.files(inner.total)),
            }
        }
        let shown = folder.files.iter().take(self.most);
        self.lines.extend(shown.map(|name| format!("{path}{name}")));
        let left = folder.files.len().saturating_sub(self.most);
        if left > 0 {
            self.note(path, self.words.more_files(left));
        }
    }

    /// The end of a path is a `/`: an English bracket goes after a space.
    fn note(&mut self, path: &str, note: String) {
        self.lines.push(self.words.with_brackets(path, note));
    }
}
