//! Packages on disk: read and checked against the files that they name, made from an iteration's
//! folder, written after what they need. Whether a path leads out is the kernel's answer.

use std::io;
use std::path::{Path, PathBuf};

use baton_core::handoff::budget::{self, Fitted};
use baton_core::handoff::folder::{self, Base, Found, Look};
use baton_core::handoff::make::{self, FailureSummary, ProblemsReport};
use baton_core::handoff::package::{self, Package, Read};
use baton_core::handoff::reading::{self, Files, Reading};
use baton_core::handoff::{FAILURE_SUMMARY, MAX_INDEX_BYTES, MAX_SUMMARY_BYTES, PROBLEMS_REPORT};
use baton_core::id::{Timestamp, Tokens};
use baton_core::messages::Language;
use baton_core::problem::Problem;
use serde::de::DeserializeOwned;

use crate::beneath::{self, Root};
use crate::{load, store};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("cannot open the folder {}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("{} does not lie in the root {}", path.display(), root.display())]
    Elsewhere { path: PathBuf, root: PathBuf },
    /// What is there is wrong; the text that the problems are about, where it is one.
    #[error("{}", problems.first().map_or_else(String::new, ToString::to_string))]
    Invalid { problems: Vec<Problem>, text: Option<String> },
}

/// The folders that the paths of a package are counted from.
#[derive(Debug)]
pub struct Ground {
    root: Root,
    output: Option<Root>,
}

impl Ground {
    pub fn open(root: &Path) -> Result<Ground, Error> {
        let failed = |source| Error::Folder { path: root.to_owned(), source };
        Ok(Ground { root: Root::open(root, &[]).map_err(failed)?, output: None })
    }

    /// Also the folder of the iteration, where it is one beneath the root.
    fn with_output(mut self, path: &str) -> Ground {
        let is_inside = self.root.look(path).is_ok();
        let opened =
            is_inside.then(|| Root::open(&self.root.path().join(path), &[]).ok()).flatten();
        self.output = opened.filter(|own| own.path().starts_with(self.root.path()));
        self
    }

    fn base(&self, base: Base) -> Option<&Root> {
        match base {
            Base::Root => Some(&self.root),
            Base::Output => self.output.as_ref(),
        }
    }

    fn open_file(&self, base: Base, path: &str) -> Option<beneath::Opened> {
        self.base(base)?.read(path).ok()
    }

    fn document<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let Some(opened) = self.open_file(Base::Output, name) else {
            return Err(load::Error::Missing(PathBuf::from(name)).into());
        };
        let path = Path::new(name);
        let text = load::utf8(load::opened(opened.file, path, MAX_SUMMARY_BYTES)?, path)?;
        baton_core::handoff::read_long(&text).map_err(|problem| {
            let source = (text.len() < 1 << 20).then_some(text);
            Error::Invalid { problems: vec![problem.in_file(name)], text: source }
        })
    }
}

impl Look for Ground {
    fn look(&self, base: Base, path: &str) -> Found {
        let Some(root) = self.base(base) else { return Found::Missing };
        match root.read(path) {
            Ok(opened) => Found::File { bytes: opened.size },
            Err(beneath::Error::Kind { what: beneath::Wrong::Folder, .. }) => Found::Folder,
            Err(beneath::Error::Missing(_)) => Found::Missing,
            Err(beneath::Error::Outside(_)) => Found::Outside,
            Err(other) => Found::Unreadable(other.to_string()),
        }
    }
}

impl Files for Ground {
    fn size(&self, base: Base, path: &str) -> Option<u64> {
        self.open_file(base, path).map(|opened| opened.size)
    }

    fn text(&self, base: Base, path: &str, limit: u64) -> Option<String> {
        load::start_of(self.open_file(base, path)?.file, limit).ok()
    }
}

/// A package that was read, with everything that is wrong with what it names.
#[derive(Debug)]
pub struct Checked {
    pub package: Package,
    pub tokens: Tokens,
    pub warnings: Vec<Problem>,
    ground: Ground,
}

impl Checked {
    pub fn reading(&self, words: Language, budget: Tokens) -> Reading {
        reading::build(words, &self.package, budget, &self.ground)
    }
}

/// Reads a package alone, without a look at what it names.
pub fn read(file: &Path) -> Result<Read, Error> {
    let limit = baton_core::document::MAX_BYTES as u64;
    let text = load::text(file, limit)?;
    package::read(&text).map_err(|problems| Error::Invalid { problems, text: Some(text) })
}

/// Reads a package and looks at everything that it names. All problems come back.
pub fn check(file: &Path, root: &Path) -> Result<Checked, Error> {
    let limit = baton_core::document::MAX_BYTES as u64;
    let text = load::text(file, limit)?;
    let invalid = |problems| Error::Invalid { problems, text: Some(text.clone()) };
    let read = package::read(&text).map_err(invalid)?;
    let ground = Ground::open(root)?;
    let ground = match &read.package {
        Package::ExecuteToInit(own) => ground.with_output(&own.execution_output_dir),
        Package::InitToExecute(_) => ground,
    };
    let mut wrong = disk_problems(&read, &ground);
    let tokens = match budget::check(&read.package) {
        Ok(tokens) => tokens,
        Err(problem) => {
            wrong.push(problem);
            Tokens(0)
        }
    };
    if !wrong.is_empty() {
        return Err(invalid(package::bounded(wrong)));
    }
    Ok(Checked { package: read.package, tokens, warnings: read.warnings, ground })
}

fn disk_problems(read: &Read, ground: &Ground) -> Vec<Problem> {
    let mut wrong = Vec::new();
    let mut count = None;
    if let Package::ExecuteToInit(own) = &read.package
        && ground.output.is_some()
    {
        let path = own.layer1_problems_report_path.as_str();
        match ground.document::<ProblemsReport>(path) {
            Ok(report) => count = Some(report.layer1_problems.len()),
            Err(Error::Invalid { problems, .. }) => wrong.extend(problems),
            // That it is missing is said below.
            Err(Error::Load(load::Error::Missing(_))) => {}
            Err(other) => wrong.push(Problem::new("file-unreadable", other.to_string())),
        }
    }
    let found = folder::check(&read.package, ground, count);
    let is_index_wrong = found.iter().any(|(field, _)| field == "failure_index_path");
    wrong.extend(found.into_iter().map(|(field, problem)| read.located(&field, problem)));
    if let Package::ExecuteToInit(own) = &read.package
        && let (Some(path), Some(total)) = (&own.failure_index_path, own.failure_samples_total)
        && !is_index_wrong
        && let Some(opened) = ground.open_file(Base::Output, path)
    {
        let lines = load::lines_of(opened.file, MAX_INDEX_BYTES);
        let problems = folder::check_index(lines, total).into_iter();
        wrong.extend(problems.map(|problem| read.located("failure_index_path", problem)));
    }
    wrong
}

/// A package that was made, and where it would stand.
#[derive(Debug)]
pub struct Made {
    pub fitted: Fitted,
    /// What the paths of its files are counted from.
    folder: PathBuf,
    ground: Ground,
}

/// Makes the package of an iteration from its summary and its problems. Nothing is written.
pub fn make(
    folder: &Path,
    root: &Path,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<Made, Error> {
    let ground = Ground::open(root)?;
    let failed = |source| Error::Folder { path: folder.to_owned(), source };
    let folder = std::fs::canonicalize(folder).map_err(failed)?;
    let inside = folder.strip_prefix(ground.root.path()).ok().and_then(Path::to_str);
    let Some(inside) = inside else {
        return Err(Error::Elsewhere { path: folder, root: ground.root.path().to_owned() });
    };
    let output_dir = if inside.is_empty() { "." } else { inside };
    let ground = ground.with_output(output_dir);
    let invalid = |problems| Error::Invalid { problems, text: None };
    let missing: Vec<Problem> =
        folder::needed(&ground).into_iter().map(|(_, problem)| problem).collect();
    if !missing.is_empty() {
        return Err(invalid(missing));
    }
    let summary: FailureSummary = ground.document(FAILURE_SUMMARY)?;
    let report: ProblemsReport = ground.document(PROBLEMS_REPORT)?;
    let ask = make::Ask { output_dir, now, reason };
    let fitted = make::package(&ask, &summary, &report).map_err(invalid)?;
    let count = Some(report.layer1_problems.len());
    // What is only written now cannot be there yet.
    let is_ours = |field: &str| matches!(field, "failure_index_path" | "trigger_reason_path");
    let wrong = folder::check(&fitted.package, &ground, count).into_iter();
    let wrong: Vec<Problem> =
        wrong.filter(|(field, _)| !is_ours(field)).map(|(_, problem)| problem).collect();
    match wrong.is_empty() {
        true => Ok(Made { fitted, folder, ground }),
        false => Err(invalid(package::bounded(wrong))),
    }
}

/// Makes the package of an approved design. Nothing is written.
pub fn make_design(
    root: &Path,
    requirement: &str,
    artifacts: package::Artifacts,
    iterations: Vec<package::Extra>,
    now: Timestamp,
) -> Result<Made, Error> {
    let ground = Ground::open(root)?;
    let invalid = |problems| Error::Invalid { problems, text: None };
    let fitted = make::design(requirement, artifacts, iterations, now)
        .map_err(|problem| invalid(vec![problem]))?;
    let is_ours = |field: &str| field.ends_with("_path") && !field.contains('.');
    let wrong = folder::check(&fitted.package, &ground, None).into_iter();
    let wrong: Vec<Problem> =
        wrong.filter(|(field, _)| !is_ours(field)).map(|(_, problem)| problem).collect();
    let folder = ground.root.path().to_owned();
    match wrong.is_empty() {
        true => Ok(Made { fitted, folder, ground }),
        false => Err(invalid(package::bounded(wrong))),
    }
}

impl Made {
    fn base(&self) -> Base {
        match self.fitted.package {
            Package::InitToExecute(_) => Base::Root,
            Package::ExecuteToInit(_) => Base::Output,
        }
    }

    /// Writes the files that the package names, then the package: it never names what is not there.
    pub fn write(&self, file: &Path) -> Result<Vec<PathBuf>, Error> {
        self.write_by(&store::Disk::default(), file)
    }

    pub fn write_by(&self, disk: &store::Disk, file: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut written = Vec::new();
        for (path, text) in &self.fitted.files {
            let parent = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
            if self.ground.look(self.base(), parent) == Found::Outside {
                let message =
                    format!("`{parent}`: a link leads out of the folder; nothing was written");
                let problems = vec![Problem::new("path-outside", message)];
                return Err(Error::Invalid { problems, text: None });
            }
            let whole = self.folder.join(path);
            if let Some(folder) = whole.parent() {
                disk.make_folder(folder)?;
            }
            disk.write_here(&whole, text.as_bytes())?;
            written.push(whole);
        }
        disk.write_here(file, self.fitted.package.text().as_bytes())?;
        written.push(file.to_owned());
        Ok(written)
    }
}
