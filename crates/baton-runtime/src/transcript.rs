//! The transcript of one agent's conversation: every step, whole, written before the next one begins.
//! An agent that was interrupted goes on from here, and Recall finds earlier results here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use baton_core::id::ObservationId;
use baton_core::messages::Language;
use baton_core::observation::Envelope;
use baton_core::thread::Results;
use baton_core::thread::compact::{self, Strategy};
use baton_core::turn::{Protocol, Step};
use serde::{Deserialize, Serialize};

use crate::frame::{Frames, framed};
use crate::load;
use crate::store::{self, Disk};
use crate::tool::Archive;

const VERSION: u32 = 1;
const STEPS: &str = "steps.log";
/// A guard against a wrong file.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the transcript {} is damaged at step {step}: {why}", path.display())]
    Damaged { path: PathBuf, step: usize, why: String },
    #[error("the transcript is of version {found}, this program knows {VERSION}")]
    Version { found: u32 },
    #[error("cannot use {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// What a conversation began with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    pub version: u32,
    pub protocol: Protocol,
    pub model: String,
    pub project: String,
    pub writes: bool,
    /// How its oldest part leaves, and what stays: what is written down of it counts items, and
    /// would mean others with other figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<(Strategy, usize)>,
    /// Facts about the machine: they are in every request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// The form of its results; in a transcript of 0.1 they are envelopes.
    #[serde(default = "envelopes")]
    pub results: Results,
    /// The language of what code says in it.
    #[serde(default, skip_serializing_if = "is_english")]
    pub language: Language,
    /// Who works here and how, as the pack said when it began; `None`: the coding agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conduct: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_english(language: &Language) -> bool {
    *language == Language::English
}

fn envelopes() -> Results {
    Results::Json
}

impl Head {
    pub fn new(protocol: Protocol, model: &str, project: &Path, writes: bool) -> Head {
        let (model, project) = (model.to_owned(), project.to_string_lossy().into_owned());
        let (facts, results) = (Vec::new(), Results::default());
        let (version, leaving, conduct) = (VERSION, None, None);
        let language = Language::default();
        Head {
            version,
            protocol,
            model,
            project,
            writes,
            leaving,
            facts,
            results,
            language,
            conduct,
        }
    }

    pub fn leaving(mut self, own: &compact::Settings) -> Head {
        self.leaving = Some((own.strategy, own.keep));
        self
    }

    pub fn knowing(mut self, facts: &[String], results: Results) -> Head {
        (self.facts, self.results) = (facts.to_vec(), results);
        self
    }
}

impl Head {
    pub fn speaking(mut self, language: Language, conduct: Option<&str>) -> Head {
        (self.language, self.conduct) = (language, conduct.map(str::to_owned));
        self
    }
}

/// A transcript that is open for writing.
#[derive(Debug)]
pub struct Transcript {
    folder: PathBuf,
    file: File,
    disk: Disk,
    length: u64,
    /// Where each observation stands.
    index: BTreeMap<ObservationId, (u64, usize)>,
    /// The place of each message of the user.
    messages: Vec<(u64, usize)>,
}

/// A transcript that was there.
#[derive(Debug)]
pub struct Opened {
    pub transcript: Transcript,
    pub head: Head,
    pub steps: Vec<Step>,
    /// Bytes of a torn last step that were cut off.
    pub torn: usize,
}

impl Transcript {
    /// Whether a conversation was begun in this folder: something was asked. Nothing is changed.
    pub fn is_begun(folder: &Path) -> bool {
        let bytes = load::bytes(&folder.join(STEPS), MAX_BYTES).unwrap_or_default();
        let mut frames = Frames::new(&bytes);
        let mut is_there = || matches!(frames.line(), Ok(Some(_)));
        is_there() && is_there()
    }

    pub fn create(folder: &Path, head: &Head, disk: Disk) -> Result<Transcript, Error> {
        // What an agent saw is nobody else's business.
        disk.make_private(folder)?;
        let path = folder.join(STEPS);
        let first = framed(store::json(&path, head)?.as_bytes());
        disk.write_here(&path, &first)?;
        let file = open_file(&path)?;
        let length = first.len() as u64;
        let (index, messages) = (BTreeMap::new(), Vec::new());
        Ok(Transcript { folder: folder.to_owned(), file, disk, length, index, messages })
    }

    /// Opens a transcript to go on with it. What was torn is cut off.
    pub fn open(folder: &Path, disk: Disk) -> Result<Opened, Error> {
        let path = folder.join(STEPS);
        let bytes = load::bytes(&path, MAX_BYTES)?;
        let mut frames = Frames::new(&bytes);
        let mut steps = Vec::new();
        let mut index = BTreeMap::new();
        let mut messages = Vec::new();
        let damaged = |step: usize, why: &str| Error::Damaged {
            path: path.clone(),
            step,
            why: why.to_owned(),
        };
        let first = frames.line().map_err(|why| damaged(0, why))?;
        let first = first.ok_or_else(|| damaged(0, "it has no beginning"))?;
        let head: Head =
            serde_json::from_str(first).map_err(|error| damaged(0, &error.to_string()))?;
        if head.version != VERSION {
            return Err(Error::Version { found: head.version });
        }
        let mut at = framed(first.as_bytes()).len() as u64;
        while let Some(text) = frames.line().map_err(|why| damaged(steps.len() + 1, why))? {
            let step: Step = serde_json::from_str(text)
                .map_err(|error| damaged(steps.len() + 1, &error.to_string()))?;
            // The frame's own words, the text and a line feed.
            let length = text.len() + 19;
            if let Step::Observed(observed) = &step {
                index.insert(observed.id, (at, length));
            }
            if is_message(&step) {
                messages.push((at, length));
            }
            at += length as u64;
            steps.push(step);
        }
        let file = open_file(&path)?;
        if frames.torn > 0 {
            disk.cut(&file, &path, at)?;
        }
        let folder = folder.to_owned();
        let transcript = Transcript { folder, file, disk, length: at, index, messages };
        Ok(Opened { transcript, head, steps, torn: frames.torn })
    }

    /// Writes a step down. An act waits until the disk has its intent, and with it everything before;
    /// the rest is on its way. After a crash of the machine the last result may be unknown, and is
    /// then called so.
    pub fn append(&mut self, step: &Step) -> Result<(), Error> {
        let path = self.folder.join(STEPS);
        let bytes = framed(store::json(&path, step)?.as_bytes());
        self.disk.append_unsynced(&mut self.file, &path, &bytes)?;
        if matches!(step, Step::Started { .. }) {
            self.disk.sync_data(&self.file, &path)?;
        }
        if let Step::Observed(observed) = step {
            self.index.insert(observed.id, (self.length, bytes.len()));
        }
        if is_message(step) {
            self.messages.push((self.length, bytes.len()));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Waits until the disk has all of it.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(self.disk.sync_data(&self.file, &self.folder.join(STEPS))?)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Where the transcripts of a run are.
pub fn folder_of(board: &Path, run: &str) -> PathBuf {
    board.join("transcripts").join(run)
}

/// Removes the transcripts of a run; how many, and their bytes. With `is_dry`, only counted.
pub fn prune(board: &Path, run: &str, is_dry: bool) -> (usize, u64) {
    let files = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folder = folder_of(board, run);
    let stages: Vec<PathBuf> = files(&folder).map(|entry| entry.path()).collect();
    let sizes = stages.iter().flat_map(|stage| files(stage));
    let bytes = sizes.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
    // What cannot be removed now is found at the next look.
    if !is_dry && !stages.is_empty() && std::fs::remove_dir_all(&folder).is_err() {
        return (0, 0);
    }
    (stages.len(), bytes)
}

fn open_file(path: &Path) -> Result<File, Error> {
    let file = load::open_regular(File::options().append(true).read(true), 0, path);
    file.map_err(|source| Error::Io { path: path.to_owned(), source })
}

fn is_message(step: &Step) -> bool {
    matches!(step, Step::Asked { .. } | Step::Corrected { .. })
}

impl Transcript {
    fn step_at(&self, (at, length): (u64, usize)) -> Option<Step> {
        let path = self.folder.join(STEPS);
        let mut file = load::open_regular(File::options().read(true), 0, &path).ok()?;
        file.seek(SeekFrom::Start(at)).ok()?;
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes).ok()?;
        let text = Frames::new(&bytes).line().ok()??;
        serde_json::from_str(text).ok()
    }
}

impl Archive for Transcript {
    fn observation(&self, id: ObservationId) -> Option<(String, Envelope)> {
        match self.step_at(*self.index.get(&id)?)? {
            Step::Observed(observed) => Some((observed.tool, observed.envelope)),
            _ => None,
        }
    }

    fn message(&self, number: u32) -> Option<String> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        match self.step_at(*self.messages.get(index)?)? {
            Step::Asked { text, .. } | Step::Corrected { text, .. } => Some(text),
            _ => None,
        }
    }

    fn output_file(&self, id: ObservationId) -> PathBuf {
        self.folder.join(format!("{id}.out"))
    }
}
