//! A scenario's files, beneath the root. Samples are looked at once, one by one: what stays is their
//! names, and what is wrong with them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use baton_core::document::Document;
use baton_core::observation::shapes::Kind;
use baton_core::problem::Problem;
use baton_core::scenario::parts::{self, By, Checker, Sample};
use baton_core::scenario::result::{Fault, Hashes};
use baton_core::scenario::talk::Stage;
use baton_core::scenario::{
    CHECKER_FILES, CHECKERS, DESIGN, MAX_MANIFEST_BYTES, MAX_SAMPLE_BYTES, OUTPUTS, SAMPLES,
    TOOL_FILES, TOOLS,
};

use super::{Ask, Error};
use crate::beneath::{self, Root};
use crate::load;

/// A scenario that was read.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) root: Root,
    /// From the root.
    folder: String,
    pub(super) stage: Stage,
    pub(super) rules: String,
    pub(super) checkers: Vec<Checker>,
    pub(super) entries: Vec<Entry>,
    pub(super) hashes: Hashes,
}

/// A sample's file.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: String,
    /// In the folder of samples.
    pub(super) file: String,
    /// Why it cannot be evaluated.
    pub(super) fault: Option<Fault>,
}

impl Scenario {
    pub(super) fn read(ask: &Ask<'_>) -> Result<Scenario, Error> {
        let failed = |source| Error::Folder { path: ask.root.to_owned(), source };
        let root = Root::open(ask.root, &[]).map_err(failed)?;
        let folder = root.inside(ask.scenario)?;
        let text = |name: &str| text(&root, &format!("{folder}/{name}"), MAX_MANIFEST_BYTES);
        let invalid = |name: &str, text: &str, problems: Vec<Problem>| Error::Invalid {
            file: name.to_owned(),
            problems: problems.into_iter().map(|own| own.in_file(name)).collect(),
            text: Some(text.to_owned()),
        };
        let [yaml, rules, format] = DESIGN;
        let design = text(yaml)?;
        let target =
            parts::design(&design).map_err(|problem| invalid(yaml, &design, vec![problem]))?;
        let rules_text = text(rules)?;
        let format_text = text(format)?;
        Document::json(&format_text)
            .and_then(|own| own.read::<serde_json::Map<String, serde_json::Value>>())
            .map_err(|problem| invalid(format, &format_text, vec![problem]))?;
        let tools_text = text(TOOLS)?;
        let tools = parts::tools(&tools_text).map_err(|own| invalid(TOOLS, &tools_text, own))?;
        let checkers_text = text(CHECKERS)?;
        let checkers = parts::checkers(&checkers_text)
            .map_err(|own| invalid(CHECKERS, &checkers_text, own))?;
        let (entries, samples) = entries(&root, &folder, &checkers)?;
        let words = |own: &parts::Program| own.command.clone();
        let tool_words: Vec<String> = tools.iter().flat_map(|own| words(&own.program)).collect();
        let checker_words: Vec<String> = (checkers.iter())
            .filter_map(|own| match &own.by {
                By::Program(program) => Some(words(program)),
                By::Assertions(_) | By::Rubric(_) => None,
            })
            .flatten()
            .collect();
        let made = |name: &str, words: Vec<String>| programs(&root, &folder, name, &words);
        let design_hash = hash(&[&design, &rules_text, &format_text]);
        let hashes = Hashes {
            design: design_hash,
            tools: hash(&[&tools_text, &made(TOOL_FILES, tool_words)]),
            checkers: hash(&[&checkers_text, &made(CHECKER_FILES, checker_words)]),
            samples,
        };
        let key = format!("scenario/{}", load::digest(folder.as_bytes()));
        let stage = Stage::new(ask.target.voice(), &target, &rules_text, tools, key);
        let entries = only(entries, ask.only)?;
        Ok(Scenario { root, folder, stage, rules: rules_text, checkers, entries, hashes })
    }

    /// A path in the scenario's folder, from the root.
    pub(super) fn inside(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// The whole path of the scenario's folder.
    pub(super) fn path(&self) -> PathBuf {
        self.root.path().join(&self.folder)
    }

    pub(super) fn outputs(&self) -> PathBuf {
        self.path().join(OUTPUTS)
    }

    pub(super) fn name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or(&self.folder)
    }

    /// A sample, read when its turn comes.
    pub(super) fn sample(&self, entry: &Entry) -> Result<(String, Sample), Fault> {
        let names: BTreeSet<&str> = self.checkers.iter().map(|own| own.name.as_str()).collect();
        let path = self.inside(&format!("{SAMPLES}/{}", entry.file));
        let (text, sample) = one_sample(&self.root, &path, &names)?;
        match sample.sample_id == entry.id {
            true => Ok((text, sample)),
            false => Err(Fault::new("sample-changed", "the file changed while it was evaluated")),
        }
    }
}

fn only(entries: Vec<Entry>, asked: &[String]) -> Result<Vec<Entry>, Error> {
    if asked.is_empty() {
        return Ok(entries);
    }
    let asked: BTreeSet<&str> = asked.iter().map(String::as_str).collect();
    if let Some(missing) = asked.iter().find(|id| !entries.iter().any(|own| own.id == **id)) {
        return Err(Error::NoSample(baton_core::text::shown(missing, 100)));
    }
    Ok(entries.into_iter().filter(|own| asked.contains(own.id.as_str())).collect())
}

/// All samples in the order of their names, and the hash over them.
fn entries(root: &Root, folder: &str, checkers: &[Checker]) -> Result<(Vec<Entry>, String), Error> {
    let names: BTreeSet<&str> = checkers.iter().map(|own| own.name.as_str()).collect();
    let samples = format!("{folder}/{SAMPLES}");
    let listed = root.entries(&samples)?;
    let files = listed.into_iter().map(|own| own.name);
    let files = files.filter(|own| own.ends_with(".json") && !own.starts_with('.'));
    let mut entries: Vec<Entry> = Vec::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut broken = Vec::new();
    let mut all = blake3::Hasher::new();
    for file in files {
        all.update(file.as_bytes());
        let found = one_sample(root, &format!("{samples}/{file}"), &names);
        match &found {
            Ok((text, _)) => all.update(blake3::hash(text.as_bytes()).as_bytes()),
            Err(fault) => all.update(fault.message.as_bytes()),
        };
        match found {
            Ok((_, sample)) if taken.insert(sample.sample_id.clone()) => {
                entries.push(Entry { id: sample.sample_id, file, fault: None });
            }
            Ok((_, sample)) => {
                let id = sample.sample_id;
                let why = format!("samples/{file}: another sample has the id `{id}`, too");
                broken.push((file, Fault::new("sample-duplicate", why)));
            }
            Err(fault) => broken.push((file, fault)),
        }
    }
    if entries.is_empty() && broken.is_empty() {
        return Err(Error::NoSamples(samples));
    }
    // What has no id of its own is called by its file, and by no name that a sample has.
    for (file, fault) in broken {
        let stem = file.strip_suffix(".json").unwrap_or(&file);
        let mut id: String = stem
            .chars()
            .map(|c| if c.is_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' })
            .take(60)
            .collect();
        while parts::id_problem(&id).is_some() || !taken.insert(id.clone()) {
            id = format!("x{id}_file");
        }
        entries.push(Entry { id, file, fault: Some(fault) });
    }
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    Ok((entries, all.finalize().to_hex()[..16].to_owned()))
}

fn one_sample(
    root: &Root,
    path: &str,
    checkers: &BTreeSet<&str>,
) -> Result<(String, Sample), Fault> {
    let unreadable =
        |error: &dyn std::fmt::Display| Fault::new("sample-unreadable", error.to_string());
    let source = text(root, path, MAX_SAMPLE_BYTES).map_err(|error| unreadable(&error))?;
    match parts::sample(&source, checkers) {
        Ok(sample) => Ok((source, sample)),
        Err(problems) => {
            let first = problems.into_iter().next();
            let first = first.unwrap_or_else(|| Problem::new("sample-unreadable", "it is wrong"));
            let code = match first.code {
                "checker-unknown" | "sample-id" => first.code,
                _ => "sample-unreadable",
            };
            let file = path.rsplit_once(SAMPLES).map_or(path, |(_, file)| file);
            Err(Fault::new(code, first.in_file(format!("{SAMPLES}{file}")).to_string()))
        }
    }
}

/// A text beneath the root, within a size.
pub(super) fn text(root: &Root, inside: &str, limit: u64) -> Result<String, Error> {
    let opened = match root.read(inside) {
        Err(beneath::Error::Missing(path)) => {
            return Err(load::Error::Missing(PathBuf::from(path)).into());
        }
        other => other?,
    };
    let path = Path::new(inside);
    Ok(load::utf8(load::opened(opened.file, path, limit)?, path)?)
}

/// Digests of the files in a folder and of those that commands name: a program that is repaired is
/// another one, whatever its manifest says. What cannot be read stands for itself.
fn programs(root: &Root, scenario: &str, folder: &str, words: &[String]) -> String {
    const MOST_FILES: usize = 1_000;
    let named = words.iter().filter(|own| root.inside(own).is_ok_and(|inside| inside == **own));
    let mut files: BTreeSet<String> =
        named.map(|own| format!("{scenario}/{own}")).filter(|own| root.is_file(own)).collect();
    let mut open = vec![format!("{scenario}/{folder}")];
    while let Some(inside) = open.pop().filter(|_| files.len() < MOST_FILES) {
        for own in root.entries(&inside).into_iter().flatten().filter(|own| !is_litter(&own.name)) {
            let path = format!("{inside}/{}", own.name);
            match own.kind {
                Kind::Folder => open.push(path),
                _ => drop(files.insert(path)),
            }
        }
    }
    let digests = files.iter().map(|path| {
        let opened = root.read(path).map_err(|error| error.to_string());
        let bytes = opened.and_then(|opened| {
            let read = load::opened(opened.file, Path::new(path), MAX_MANIFEST_BYTES);
            read.map_err(|error| error.to_string())
        });
        let digest = bytes.map_or_else(|why| why, |bytes| load::digest(&bytes));
        format!("{path}\0{digest}\0")
    });
    digests.collect()
}

/// What programs leave behind when they run.
fn is_litter(name: &str) -> bool {
    name.starts_with('.') || name == "__pycache__"
}

fn hash(texts: &[&str]) -> String {
    let mut all = blake3::Hasher::new();
    for text in texts {
        all.update(&(text.len() as u64).to_le_bytes());
        all.update(text.as_bytes());
    }
    all.finalize().to_hex()[..16].to_owned()
}
