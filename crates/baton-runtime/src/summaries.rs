//! Summaries of the blackboard's reports, remembered in `cache/report_summaries.json`; if that is
//! another tool's file, in `cache/baton_summaries.json`. An entry
//! counts while the file's time and size are the same, or else its content; one that is damaged is
//! made again. The file stays one JSON object, an entry a line, so that adding entries writes only
//! them: the closing brace is written over.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use baton_core::id::{AgentName, Timestamp};
use baton_core::policy::Policy;
use baton_core::report::{self, ArchiveName};
use baton_core::summary::Summary;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::board::CONFIG_FILE;
use crate::{load, store};

const FILE: &str = "cache/report_summaries.json";
/// On a blackboard that another tool made, which keeps a cache of its own under the other name.
const FILE_BESIDE: &str = "cache/baton_summaries.json";
pub(crate) const ARCHIVE: &str = "reports/archive";
const VERSION: u32 = 5;
/// A hundred thousand entries are far below it.
const MAX_BYTES: u64 = 512 << 20;
/// A file that was changed so shortly before we looked may change again without a new time.
const RACY: u64 = 2_000_000_000;

/// Whether the cache may be used, and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Off,
    /// For commands that must not write.
    ReadOnly,
    ReadWrite,
}

/// How often the cache helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub hits: u64,
    pub extracted: u64,
    /// Reports whose control lines could not be found.
    pub failures: u64,
}

#[derive(Debug)]
pub struct Summaries {
    root: PathBuf,
    /// From the root.
    file: &'static str,
    mode: Mode,
    /// What the entries were made by: other rules, other summaries.
    rules: String,
    /// By path from the blackboard's root.
    entries: HashMap<String, Entry>,
    /// Lines not written yet.
    pending: Vec<String>,
    /// The file cannot be gone on with: it is written anew.
    is_damaged: bool,
    pub counts: Counts,
    /// Reports asked for since this was last taken.
    pub asked: Vec<Asked>,
}

/// A report whose summary was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub agent: AgentName,
    pub is_hit: bool,
    /// Not even its verdict was found.
    pub is_failure: bool,
}

impl Asked {
    fn new(agent: &AgentName, is_hit: bool, summary: &Summary) -> Asked {
        Asked { agent: agent.clone(), is_hit, is_failure: summary.is_failure() }
    }
}

/// What is known of one report.
#[derive(Debug, Clone)]
struct Entry {
    key: String,
    look: Look,
    hash: String,
    check: String,
    /// Read when it is asked for.
    summary: String,
}

/// What a look at a file tells without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    /// Nanoseconds since 1970.
    mtime: u64,
    size: u64,
    /// When we looked.
    seen: u64,
}

impl Look {
    fn at(path: &Path) -> io::Result<Look> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Look::of((metadata.mtime(), metadata.mtime_nsec()), metadata.len()))
    }

    fn of((seconds, nanos): (i64, i64), size: u64) -> Look {
        let mtime = u64::try_from(seconds)
            .unwrap_or(0)
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::try_from(nanos).unwrap_or(0));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seen = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        Look { mtime, size, seen }
    }

    fn is_same(&self, earlier: &Look) -> bool {
        (self.mtime, self.size) == (earlier.mtime, earlier.size) && earlier.is_settled()
    }

    /// Whether a later change must show in the file's time.
    fn is_settled(&self) -> bool {
        self.seen.saturating_sub(self.mtime) > RACY
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp(self.mtime / 1_000_000_000)
    }
}

/// The first line of the file, behind its brace.
#[derive(Debug, Serialize, Deserialize)]
struct Title {
    version: u32,
    rules: String,
}

const TITLE_KEY: &str = "$baton";

/// An entry, as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    path: std::borrow::Cow<'a, str>,
    mtime: u64,
    size: u64,
    seen: u64,
    #[serde(borrow)]
    hash: std::borrow::Cow<'a, str>,
    /// Over everything else: a damaged entry is not believed.
    #[serde(borrow)]
    check: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    summary: &'a RawValue,
}

impl Summaries {
    /// Reads what is remembered. A cache that is damaged or of other rules is as good as none.
    pub fn open(root: &Path, policy: &Policy, mode: Mode) -> Summaries {
        let rules = (&policy.report_rules, &policy.context);
        let rules = digest(&[serde_json::to_string(&rules).unwrap_or_default().as_bytes()]);
        let mut all = Summaries {
            root: root.to_owned(),
            file: file_for(root),
            mode,
            rules,
            entries: HashMap::new(),
            pending: Vec::new(),
            is_damaged: false,
            counts: Counts::default(),
            asked: Vec::new(),
        };
        if mode == Mode::Off {
            return all;
        }
        match load::text(&root.join(all.file), MAX_BYTES) {
            Ok(text) => match read(&text, &all.rules) {
                Some(entries) => all.entries = entries,
                None => all.is_damaged = true,
            },
            Err(_) => all.is_damaged = true,
        }
        all
    }

    /// Whether what was remembered could be used.
    pub fn is_rebuilt(&self) -> bool {
        self.is_damaged
    }

    /// The summary of a report; the path is from the blackboard's root.
    pub fn get(&mut self, path: &str, agent: &AgentName, policy: &Policy) -> io::Result<Summary> {
        let file = self.root.join(path);
        let look = Look::at(&file)?;
        self.found(path, look, agent, policy, || {
            load::bytes(&file, report::MAX_BYTES).map_err(io::Error::other)
        })
    }

    /// As `get`, of a file that was just read and is this, last changed then.
    pub fn of(
        &mut self,
        path: &str,
        bytes: &[u8],
        modified: (i64, i64),
        agent: &AgentName,
        policy: &Policy,
    ) -> io::Result<Summary> {
        let look = Look::of(modified, bytes.len() as u64);
        self.found(path, look, agent, policy, || Ok(bytes.to_vec()))
    }

    fn found(
        &mut self,
        path: &str,
        look: Look,
        agent: &AgentName,
        policy: &Policy,
        whole: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> io::Result<Summary> {
        let known = self.entries.get(path);
        if let Some(entry) = known.filter(|entry| look.is_same(&entry.look))
            && let Some(summary) = entry.read(path, &self.rules)
        {
            self.counts.hits += 1;
            self.asked.push(Asked::new(agent, true, &summary));
            return Ok(summary);
        }
        let bytes = whole()?;
        let hash = digest(&[agent.as_str().as_bytes(), &bytes]);
        if let Some(entry) = known.filter(|entry| entry.hash == hash)
            && let Some(mut summary) = entry.read(path, &self.rules)
        {
            self.counts.hits += 1;
            self.asked.push(Asked::new(agent, true, &summary));
            summary.timestamp = Some(look.timestamp());
            // Written again only where that will save the next look at the content.
            if look.is_settled() {
                let key = entry.key.clone();
                self.remember(path, key, look, hash, &summary);
            }
            return Ok(summary);
        }
        let summary = Summary::of(&bytes, agent, policy, Some(look.timestamp()));
        self.counts.extracted += 1;
        self.asked.push(Asked::new(agent, false, &summary));
        self.counts.failures += u64::from(summary.is_failure());
        let key = key_of(path, &summary);
        self.remember(path, key, look, hash, &summary);
        Ok(summary)
    }

    /// What was last known of a report that cannot be read now.
    pub fn last_known(&self, path: &str) -> Option<Summary> {
        self.entries.get(path)?.read(path, &self.rules)
    }

    /// Looks at every report of the blackboard that has no summary yet. Archived ones that have one
    /// are looked at again when they are used.
    pub fn refresh(&mut self, policy: &Policy) -> io::Result<()> {
        let mut found = Vec::new();
        for (folder, is_archive) in [("reports", false), (ARCHIVE, true)] {
            let entries = match fs::read_dir(self.root.join(folder)) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let name = entry?.file_name();
                let Some(name) = name.to_str() else { continue };
                let agent = report::agent_of_file(name);
                let path = format!("{folder}/{name}");
                let is_known = is_archive && self.entries.contains_key(&path);
                found.extend(agent.filter(|_| !is_known).map(|agent| (path, agent)));
            }
        }
        found.sort();
        for (path, agent) in found {
            // A report that went away meanwhile is nobody's fault.
            match self.get(&path, &agent, policy) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => self.counts.failures += 1,
            }
        }
        Ok(())
    }

    fn remember(&mut self, path: &str, key: String, look: Look, hash: String, summary: &Summary) {
        if self.mode == Mode::Off {
            return;
        }
        let summary = serde_json::to_string(summary).unwrap_or_default();
        let check = check_of(path, &look, &hash, &summary, &self.rules);
        let entry = Entry { key, look, hash, check, summary };
        if self.mode == Mode::ReadWrite {
            self.pending.push(entry.line(path));
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Writes what is new. The cache is no truth: it is not synced, and a failure loses nothing.
    pub fn flush(&mut self) -> Result<(), store::Error> {
        if self.pending.is_empty() || self.mode != Mode::ReadWrite {
            return Ok(());
        }
        let path = self.root.join(self.file);
        let new: String = std::mem::take(&mut self.pending).concat();
        if !self.is_damaged && store::append_before_end(&path, "}\n", &format!("{new}}}\n"))? {
            return Ok(());
        }
        let title = Title { version: VERSION, rules: self.rules.clone() };
        let title = serde_json::to_string(&title).unwrap_or_default();
        let mut text = format!("{{\n\"{TITLE_KEY}\":{title}\n");
        let mut paths: Vec<&String> = self.entries.keys().collect();
        paths.sort();
        for path in paths {
            text.push_str(&self.entries[path].line(path));
        }
        text.push_str("}\n");
        store::write_new(&path, text.as_bytes())?;
        self.is_damaged = false;
        Ok(())
    }
}

impl Entry {
    fn line(&self, path: &str) -> String {
        let raw = RawValue::from_string(self.summary.clone()).unwrap_or_default();
        let line = Line {
            path: path.into(),
            mtime: self.look.mtime,
            size: self.look.size,
            seen: self.look.seen,
            hash: self.hash.as_str().into(),
            check: self.check.as_str().into(),
            summary: &raw,
        };
        format!(",\"{}\":{}\n", self.key, serde_json::to_string(&line).unwrap_or_default())
    }

    /// The summary, if the entry is what was written.
    fn read(&self, path: &str, rules: &str) -> Option<Summary> {
        let check = check_of(path, &self.look, &self.hash, &self.summary, rules);
        (check == self.check).then(|| serde_json::from_str(&self.summary).ok()).flatten()
    }
}

/// The cache's file: another tool's cache is left alone, also where there may be one later.
fn file_for(root: &Path) -> &'static str {
    #[derive(Deserialize)]
    struct Foreign {
        #[serde(rename = "schema_version")]
        _version: serde::de::IgnoredAny,
    }
    let is_foreign = || {
        let text = load::text(&root.join(FILE), MAX_BYTES).ok();
        text.is_some_and(|text| serde_json::from_str::<Foreign>(&text).is_ok())
    };
    let is_older = !root.join(CONFIG_FILE).exists();
    if is_older || is_foreign() { FILE_BESIDE } else { FILE }
}

/// The entries of the file's text; None when a line is not one of ours.
fn read(text: &str, rules: &str) -> Option<HashMap<String, Entry>> {
    let mut lines = text.strip_prefix("{\n")?.strip_suffix("}\n")?.split_terminator('\n');
    let title = lines.next()?.strip_prefix(&format!("\"{TITLE_KEY}\":"))?;
    let title: Title = serde_json::from_str(title).ok()?;
    if title.version != VERSION || title.rules != rules {
        return None;
    }
    let mut entries = HashMap::new();
    for line in lines {
        let (key, value) = line.strip_prefix(",\"")?.split_once("\":")?;
        let line: Line<'_> = serde_json::from_str(value).ok()?;
        let look = Look { mtime: line.mtime, size: line.size, seen: line.seen };
        let entry = Entry {
            key: key.to_owned(),
            look,
            hash: line.hash.into_owned(),
            check: line.check.into_owned(),
            summary: line.summary.get().to_owned(),
        };
        entries.insert(line.path.into_owned(), entry);
    }
    Some(entries)
}

/// `TEST_7`; an archived one has its attempt too.
fn key_of(path: &str, summary: &Summary) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    match ArchiveName::parse(name) {
        Some(name) => {
            let subloop = name.subloop.map_or(String::new(), |number| format!("_subloop_{number}"));
            format!("{}_{}{subloop}_a{}", name.agent, name.iteration, name.attempt)
        }
        None => {
            let iteration = summary.iteration.map_or("unknown".to_owned(), |own| own.to_string());
            let subloop = name.strip_suffix(".md").and_then(|stem| stem.split_once("_subloop_"));
            let number = subloop.and_then(|(_, number)| number.parse::<u32>().ok());
            let subloop = number.map_or(String::new(), |number| format!("_subloop_{number}"));
            format!("{}_{iteration}{subloop}", summary.agent)
        }
    }
}

/// The rules are part of it: an entry of other ones is not believed, whatever file it stands in.
fn check_of(path: &str, look: &Look, hash: &str, summary: &str, rules: &str) -> String {
    let numbers = format!("{VERSION} {} {} {}", look.mtime, look.size, look.seen);
    let texts = [path, &numbers, hash, summary, rules].map(str::as_bytes);
    digest(&texts)
}

/// 128 bits of these pieces, each with its length.
fn digest(pieces: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for piece in pieces {
        hasher.update(&(piece.len() as u64).to_le_bytes());
        hasher.update(piece);
    }
    hasher.finalize().to_hex()[..32].to_owned()
}
