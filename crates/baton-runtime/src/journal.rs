//! The journal of a run: one append-only log, a record a line, checksummed, synced before its effect
//! can be seen. A long one goes on in a new segment that begins with a checkpoint; older segments
//! are then only checksummed.
//!
//! A torn last line (`frame`) is cut off and reported; damage anywhere else stops with the number of
//! the record.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use baton_core::event::{Event, Record};
use baton_core::id::Timestamp;
use baton_core::workflow::State;
use serde::{Deserialize, Serialize};

use crate::frame::{self, Frames};
use crate::load;
use crate::store::{self, Disk};

const SEGMENT_BYTES: u64 = 1 << 20;
/// A segment holds at most one iteration more than that; this is a guard against a wrong file.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the journal {} is damaged at record {record}: {why}", path.display())]
    Damaged { path: PathBuf, record: u64, why: String },
    #[error("there is no journal at {}", .0.display())]
    Missing(PathBuf),
    #[error("there is a journal at {} already", .0.display())]
    Exists(PathBuf),
    #[error(
        "the journal is of version {found}, this program knows {} to {known}",
        baton_core::event::OLDEST_VERSION
    )]
    Version { found: u32, known: u32 },
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// What a line holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Checkpoint { checkpoint: Box<Checkpoint> },
    Record(Box<Record>),
}

#[derive(Debug, Serialize, Deserialize)]
struct Checkpoint {
    state: State,
    /// What `RunStarted` said, for those who need the rules that the run began with.
    start: Box<baton_core::event::RunStarted>,
    /// Lengths and checksums of the segments before this one.
    before: Vec<(u64, u32)>,
}

/// A journal that is open for writing.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    disk: Disk,
    file: File,
    segment: usize,
    length: u64,
    next_seq: u64,
    before: Vec<(u64, u32)>,
    start: Option<Box<baton_core::event::RunStarted>>,
    /// A segment that is larger is closed at the end of its iteration.
    segment_bytes: u64,
}

/// What an existing journal holds.
#[derive(Debug)]
pub struct Opened {
    pub journal: Journal,
    /// The state of the last checkpoint, where there is one.
    pub state: Option<State>,
    pub start: Box<baton_core::event::RunStarted>,
    /// The records behind it.
    pub records: Vec<Record>,
    /// The bytes of a torn record that were cut off.
    pub torn: usize,
}

fn segment_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("{number:06}.log"))
}

fn encoded(path: &Path, line: &Line) -> Result<Vec<u8>, store::Error> {
    Ok(frame::framed(store::json(path, line)?.as_bytes()))
}

impl Journal {
    /// Begins the journal of a new run.
    pub fn create(folder: &Path, disk: Disk) -> Result<Journal, Error> {
        // What agents said is nobody else's business.
        disk.make_private(folder)?;
        let path = segment_path(folder, 1);
        if path.symlink_metadata().is_ok_and(|metadata| metadata.len() > 0) {
            return Err(Error::Exists(folder.to_owned()));
        }
        disk.write_here(&path, b"")?;
        let file = open_for_append(&path)?;
        let folder = folder.to_owned();
        Ok(Journal {
            folder,
            disk,
            file,
            segment: 1,
            length: 0,
            next_seq: 1,
            before: Vec::new(),
            start: None,
            segment_bytes: SEGMENT_BYTES,
        })
    }

    /// Opens a journal to go on with it. What was torn is cut off.
    pub fn open(folder: &Path, disk: Disk) -> Result<Opened, Error> {
        let read = read(folder, Depth::Last)?;
        let path = segment_path(folder, read.segment);
        let file = open_for_append(&path)?;
        if read.torn > 0 {
            disk.cut(&file, &path, read.length)?;
        }
        let state = read.state;
        let next_seq = read.next_seq;
        // A checkpoint is written with the rules that the run has by then.
        let mut start = read.start.clone();
        read.records.iter().for_each(|record| start.adopt(&record.event));
        let journal = Journal {
            folder: folder.to_owned(),
            disk,
            file,
            segment: read.segment,
            length: read.length,
            next_seq,
            before: read.before,
            start: Some(start),
            segment_bytes: SEGMENT_BYTES,
        };
        Ok(Opened { journal, state, start: read.start, records: read.records, torn: read.torn })
    }

    /// The record that an event becomes if it is written next.
    pub fn next(&self, time: Timestamp, event: Event) -> Record {
        Record { seq: self.next_seq, time, event }
    }

    /// Writes an event down. When it returns, the disk has it.
    pub fn append(&mut self, time: Timestamp, event: Event) -> Result<Record, Error> {
        let record = self.next(time, event);
        self.write(&record)?;
        Ok(record)
    }

    /// Writes the next record down. When it returns, the disk has it.
    pub fn write(&mut self, record: &Record) -> Result<(), Error> {
        debug_assert_eq!(record.seq, self.next_seq, "records are written in order");
        let path = segment_path(&self.folder, self.segment);
        let bytes = encoded(&path, &Line::Record(Box::new(record.clone())))?;
        self.disk.append(&mut self.file, &path, &bytes)?;
        self.next_seq += 1;
        self.length += bytes.len() as u64;
        if let Event::RunStarted(start) = &record.event {
            self.start = Some(start.clone());
        }
        if let Some(start) = &mut self.start {
            start.adopt(&record.event);
        }
        Ok(())
    }

    /// At the end of an iteration: a new segment, where this one is long enough.
    pub fn rotate(&mut self, state: &State) -> Result<(), Error> {
        if self.length < self.segment_bytes {
            return Ok(());
        }
        let Some(mut start) = self.start.clone() else { return Ok(()) };
        // Records of this version follow, whichever began the run.
        start.version = baton_core::event::VERSION;
        let path = segment_path(&self.folder, self.segment);
        let bytes = load::bytes(&path, MAX_BYTES)?;
        let mut before = self.before.clone();
        before.push((bytes.len() as u64, crc32fast::hash(&bytes)));
        let checkpoint =
            Box::new(Checkpoint { state: state.clone(), start, before: before.clone() });
        let next = segment_path(&self.folder, self.segment + 1);
        let first = encoded(&next, &Line::Checkpoint { checkpoint })?;
        // It appears whole or not at all.
        self.disk.write(&next, &first)?;
        self.file = open_for_append(&next)?;
        self.segment += 1;
        self.length = first.len() as u64;
        self.before = before;
        Ok(())
    }

    /// Shorter segments, for tests of what a long run does.
    pub(crate) fn set_segment_bytes(&mut self, bytes: u64) {
        self.segment_bytes = bytes;
    }

    pub fn bytes(&self) -> u64 {
        self.before.iter().map(|(length, _)| length).sum::<u64>() + self.length
    }
}

fn open_for_append(path: &Path) -> Result<File, Error> {
    let file = load::open_regular(File::options().append(true), 0, path);
    file.map_err(|source| load::Error::Io { path: path.to_owned(), source }.into())
}

/// Every record of a journal, from its first, for people. Nothing is written.
pub fn records(folder: &Path) -> Result<Vec<Record>, Error> {
    Ok(read(folder, Depth::All)?.records)
}

/// What a journal holds, for those who only look.
#[derive(Debug)]
pub struct Looked {
    pub state: Option<State>,
    pub start: Box<baton_core::event::RunStarted>,
    pub records: Vec<Record>,
}

/// The last checkpoint and what came behind it. Nothing is written.
pub fn look(folder: &Path) -> Result<Looked, Error> {
    let Read { state, start, records, .. } = read(folder, Depth::Last)?;
    Ok(Looked { state, start, records })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The last segment; the others are only checksummed.
    Last,
    All,
}

struct Read {
    segment: usize,
    length: u64,
    next_seq: u64,
    before: Vec<(u64, u32)>,
    state: Option<State>,
    start: Box<baton_core::event::RunStarted>,
    records: Vec<Record>,
    torn: usize,
}

fn read(folder: &Path, depth: Depth) -> Result<Read, Error> {
    let count = (1..).take_while(|number| segment_path(folder, *number).exists()).count();
    if count == 0 {
        return Err(Error::Missing(folder.to_owned()));
    }
    let last_path = segment_path(folder, count);
    let bytes = load::bytes(&last_path, MAX_BYTES)?;
    let mut lines = Lines::new(&bytes, &last_path, 1);
    let mut read = Read {
        segment: count,
        length: 0,
        next_seq: 1,
        before: Vec::new(),
        state: None,
        start: Box::new(nothing_started()),
        records: Vec::new(),
        torn: 0,
    };
    if count > 1 {
        let damaged =
            |why: &str| Error::Damaged { path: last_path.clone(), record: 0, why: why.to_owned() };
        let first = lines.next()?.ok_or_else(|| damaged("the segment is empty"))?;
        let Line::Checkpoint { checkpoint } = first else {
            return Err(damaged("the segment does not begin with a checkpoint"));
        };
        if !is_known(checkpoint.start.version) {
            let (found, known) = (checkpoint.start.version, baton_core::event::VERSION);
            return Err(Error::Version { found, known });
        }
        read.next_seq = checkpoint.state.last_seq + 1;
        lines.expected = read.next_seq;
        read.start = checkpoint.start;
        read.before = checkpoint.before;
        read.state = Some(checkpoint.state);
        read.records = older(folder, &read.before, depth)?;
    }
    while let Some(line) = lines.next()? {
        let Line::Record(record) = line else {
            return Err(lines.damaged("a checkpoint stands in the middle"));
        };
        if record.seq != lines.expected {
            return Err(lines.damaged(&format!("its number is {}", record.seq)));
        }
        lines.expected += 1;
        read.next_seq = lines.expected;
        if let Event::RunStarted(start) = &record.event {
            if !is_known(start.version) {
                let known = baton_core::event::VERSION;
                return Err(Error::Version { found: start.version, known });
            }
            read.start = start.clone();
        }
        read.records.push(*record);
    }
    read.torn = lines.torn();
    read.length = (bytes.len() - lines.torn()) as u64;
    Ok(read)
}

/// The segments before the last one: each must be what the checkpoint says.
fn older(folder: &Path, before: &[(u64, u32)], depth: Depth) -> Result<Vec<Record>, Error> {
    let mut all = Vec::new();
    let mut expected = 1;
    for (index, (length, sum)) in before.iter().enumerate() {
        let path = segment_path(folder, index + 1);
        let bytes = load::bytes(&path, MAX_BYTES)?;
        let is_right = bytes.len() as u64 == *length && crc32fast::hash(&bytes) == *sum;
        if is_right && depth == Depth::Last {
            continue;
        }
        // Line by line, also to tell which record is wrong.
        let mut lines = Lines::new(&bytes, &path, expected);
        while let Some(line) = lines.next()? {
            if let Line::Record(record) = line {
                lines.expected = record.seq + 1;
                all.push(*record);
            }
        }
        expected = lines.expected;
        if !is_right || lines.torn() > 0 {
            return Err(lines.damaged("the segment is not what its checksum says"));
        }
    }
    Ok(if depth == Depth::All { all } else { Vec::new() })
}

/// The lines of a segment.
struct Lines<'a> {
    frames: Frames<'a>,
    path: &'a Path,
    /// The number of the record that comes next, for messages.
    expected: u64,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8], path: &'a Path, expected: u64) -> Lines<'a> {
        Lines { frames: Frames::new(bytes), path, expected }
    }

    fn damaged(&self, why: &str) -> Error {
        Error::Damaged { path: self.path.to_owned(), record: self.expected, why: why.to_owned() }
    }

    fn torn(&self) -> usize {
        self.frames.torn
    }

    fn next(&mut self) -> Result<Option<Line>, Error> {
        let found = self.frames.line();
        let Some(text) = found.map_err(|why| self.damaged(why))? else { return Ok(None) };
        let line = serde_json::from_str(text);
        line.map(Some).map_err(|error| match version_of(text).filter(|own| !is_known(*own)) {
            Some(found) => Error::Version { found, known: baton_core::event::VERSION },
            None => self.damaged(&format!("it is not an event: {error}")),
        })
    }
}

/// The version that a beginning or a checkpoint names, also of a format that is not known.
fn version_of(line: &str) -> Option<u32> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let version = line.get("version").or_else(|| line.pointer("/checkpoint/start/version"))?;
    version.as_u64()?.try_into().ok()
}

fn is_known(version: u32) -> bool {
    (baton_core::event::OLDEST_VERSION..=baton_core::event::VERSION).contains(&version)
}

fn nothing_started() -> baton_core::event::RunStarted {
    baton_core::event::RunStarted {
        version: baton_core::event::VERSION,
        run: baton_core::id::RunId::new("none").expect("a valid name"),
        task: String::new(),
        pack: String::new(),
        language: String::new(),
        rules: std::collections::BTreeMap::new(),
        rules_text: None,
        first_iteration: baton_core::id::Iteration(1),
        limits: baton_core::event::Limits::of(0, 0),
        newest: Vec::new(),
        scenario: None,
        setup: None,
        machine: None,
        archived_plan: None,
        outputs: Vec::new(),
        entry: baton_core::event::HistoryText::new(String::new()),
    }
}

/// The runs of a blackboard, in the order they were begun.
pub fn runs(board: &Path) -> Result<Vec<String>, io::Error> {
    let folder = board.join("journal");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if segment_path(&entry.path(), 1).exists() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
