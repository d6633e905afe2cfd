//! Recorded sessions from files and folders, replayed on all cores. One thread reads, the others
//! replay one session at a time each: memory holds a few sessions, however many there are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use baton_core::lab::account::{self, Truth};
use baton_core::lab::import::{self, Imported};
use baton_core::lab::need::Prepared;
use baton_core::lab::policy::Name;
use baton_core::lab::replay::Sums;
use baton_core::lab::session::Session;
use baton_core::problem::Problem;

use crate::load::{self, Stream};

/// A file that unpacks to more is not read to its end.
pub const FILE_BYTES: u64 = 2 << 30;
/// Of one session: it is held in memory whole.
pub const SESSION_BYTES: u64 = 256 << 20;
/// Folders in folders.
const DEPTH: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Load(#[from] load::Error),
    /// A file that was named is no recording.
    #[error("{} is not a recorded session", path.display())]
    NotASession { path: PathBuf, problem: Problem },
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    pub policies: Vec<Name>,
    /// Each stretch between compactions by itself.
    pub segments: bool,
    /// Only sessions that were compacted.
    pub compacted: bool,
    pub min_calls: usize,
}

/// What could not be read of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Damage {
    pub file: PathBuf,
    pub lines: usize,
    pub first: Problem,
}

#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// In the order that was asked for.
    pub sums: Vec<Sums>,
    /// The same; the first places are those of the first file and session, whichever core was faster.
    pub truths: Vec<Truth>,
    /// Files that hold sessions.
    pub files: usize,
    /// Files of folders that hold none.
    pub passed_over: usize,
    /// Sessions, or stretches, that `Ask` left out.
    pub left_out: usize,
    pub damaged: Vec<Damage>,
}

/// A file that may hold sessions.
struct Recording {
    path: PathBuf,
    /// It was named itself, and must be one.
    is_named: bool,
}

/// Text that one worker imports and replays.
struct Job {
    file: usize,
    text: Vec<u8>,
    /// Of a line that is a whole session; otherwise it is the whole file.
    line: Option<usize>,
}

/// What came of a job, or of a file.
#[derive(Default)]
struct Done {
    file: usize,
    /// The number of a session that is a line by itself.
    line: usize,
    sums: Vec<Sums>,
    truths: Vec<Truth>,
    sessions: usize,
    left_out: usize,
    damaged: usize,
    first_damaged: Option<Problem>,
    is_passed_over: bool,
    fatal: Option<Error>,
}

/// Replays everything under these paths. `progress` is called now and then from this thread.
pub fn measure(
    paths: &[PathBuf],
    ask: &Ask,
    mut progress: impl FnMut(&Measured),
) -> Result<Measured, Error> {
    let recordings = find(paths)?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = AtomicBool::new(false);
    let (jobs, work) = sync_channel::<Job>(workers);
    let work = Mutex::new(work);
    let (results, done) = sync_channel::<Done>(workers * 4);
    std::thread::scope(|scope| {
        let (recordings, stop, work) = (&recordings, &stop, &work);
        let reading = results.clone();
        scope.spawn(move || read_all(recordings, &jobs, &reading, stop));
        for _ in 0..workers {
            let results = results.clone();
            scope.spawn(move || {
                while let Some(job) = next(work) {
                    if stop.load(Ordering::Relaxed) {
                        continue;
                    }
                    // Nobody listens any more only when everything was told to stop; until then
                    // the reader must find somebody who takes its jobs.
                    let _ = results.send(replayed(&job, &recordings[job.file], ask));
                }
            });
        }
        drop(results);
        let collected = collect(&done, recordings, ask, &mut progress);
        stop.store(true, Ordering::Relaxed);
        // Whoever still wants to tell something must not wait for us.
        drop(done);
        collected
    })
}

fn next(work: &Mutex<Receiver<Job>>) -> Option<Job> {
    work.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn collect(
    done: &Receiver<Done>,
    recordings: &[Recording],
    ask: &Ask,
    progress: &mut impl FnMut(&Measured),
) -> Result<Measured, Error> {
    let mut measured =
        Measured { sums: vec![Sums::default(); ask.policies.len()], ..Measured::default() };
    let mut with_sessions = std::collections::BTreeSet::new();
    let mut damaged: BTreeMap<usize, (usize, Problem)> = BTreeMap::new();
    let mut truths: BTreeMap<(usize, usize), Vec<Truth>> = BTreeMap::new();
    loop {
        let own = match done.recv_timeout(Duration::from_millis(100)) {
            Ok(own) => own,
            Err(RecvTimeoutError::Timeout) => {
                progress(&measured);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if let Some(error) = own.fatal {
            return Err(error);
        }
        for (sums, more) in measured.sums.iter_mut().zip(&own.sums) {
            sums.join(more);
        }
        if !own.truths.is_empty() {
            truths.insert((own.file, own.line), own.truths);
        }
        if own.sessions > 0 {
            with_sessions.insert(own.file);
        }
        measured.files = with_sessions.len();
        measured.left_out += own.left_out;
        measured.passed_over += usize::from(own.is_passed_over);
        if let Some(problem) = own.first_damaged {
            let entry = damaged.entry(own.file).or_insert_with(|| (0, problem.clone()));
            entry.0 += own.damaged;
            if problem.place < entry.1.place {
                entry.1 = problem;
            }
        }
        progress(&measured);
    }
    measured.truths = joined(truths.into_values(), ask.policies.len());
    let damage = |(file, (lines, first)): (usize, (usize, Problem))| {
        let file = recordings[file].path.clone();
        Damage { first: first.in_file(file.display().to_string()), file, lines }
    };
    measured.damaged = damaged.into_iter().map(damage).collect();
    Ok(measured)
}

/// Adds up, for each policy, what each session came to, in the order of the sessions.
fn joined(sessions: impl Iterator<Item = Vec<Truth>>, policies: usize) -> Vec<Truth> {
    let mut all = vec![Truth::default(); policies];
    for session in sessions {
        for (truth, more) in all.iter_mut().zip(session) {
            truth.join(more);
        }
    }
    all
}

/// The files to look at: those that were named, and all in folders that were named. Links in folders
/// are not followed, nor is what git keeps for itself looked at.
fn find(paths: &[PathBuf]) -> Result<Vec<Recording>, Error> {
    let mut found = Vec::new();
    for path in paths {
        let is_input = path == Path::new("-");
        let metadata = fs::metadata(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => load::Error::Missing(path.clone()),
            _ => load::Error::Io { path: path.clone(), source },
        });
        if is_input || !metadata?.is_dir() {
            found.push(Recording { path: path.clone(), is_named: true });
        } else {
            walk(path, 0, &mut found)?;
        }
    }
    Ok(found)
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<Recording>) -> Result<(), Error> {
    let io = |source| load::Error::Io { path: folder.to_owned(), source };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        entries.push((entry.path(), entry.file_type().map_err(io)?));
    }
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    for (path, kind) in entries {
        if kind.is_file() {
            found.push(Recording { path, is_named: false });
        } else if kind.is_dir() && depth < DEPTH && path.file_name().is_some_and(|n| n != ".git") {
            walk(&path, depth + 1, found)?;
        }
    }
    Ok(())
}

fn read_all(
    recordings: &[Recording],
    jobs: &SyncSender<Job>,
    results: &SyncSender<Done>,
    stop: &AtomicBool,
) {
    for (file, recording) in recordings.iter().enumerate() {
        let mut place = (0, false);
        let own = match read_one(file, recording, jobs, stop, &mut place) {
            Ok(own) => own,
            // What was read before it counts.
            Err(error) if place.1 || !recording.is_named => {
                let problem = Problem::new("session-unreadable", error.to_string());
                let first_damaged = Some(import::at_line(problem, place.0 + 1));
                Some(Done { damaged: 1, first_damaged, ..Done::default() })
            }
            Err(error) => Some(Done { fatal: Some(error.into()), ..Done::default() }),
        };
        if own.is_some_and(|own| results.send(Done { file, ..own }).is_err())
            || stop.load(Ordering::Relaxed)
        {
            return;
        }
    }
}

/// Hands out the sessions of a file. `place`: the lines that were read, and whether one was handed
/// out.
fn read_one(
    file: usize,
    recording: &Recording,
    jobs: &SyncSender<Job>,
    stop: &AtomicBool,
    place: &mut (usize, bool),
) -> Result<Option<Done>, load::Error> {
    let mut stream = load::stream(&recording.path, FILE_BYTES)?;
    if !import::may_be_session(stream.head()?) && !recording.is_named {
        return Ok(Some(Done { is_passed_over: true, ..Done::default() }));
    }
    let mut text = Vec::new();
    let mut is_by_line = false;
    while !stop.load(Ordering::Relaxed) {
        let start = text.len();
        let room = SESSION_BYTES.saturating_sub(start as u64);
        let is_more = stream.line(room, &mut text)?;
        if is_more && text[start..].trim_ascii().is_empty() {
            // An empty line counts, however long it is.
            text.truncate(start);
            text.push(b'\n');
            place.0 += 1;
            continue;
        }
        let line = text[start..].trim_ascii();
        if !is_by_line && !import::is_session(&String::from_utf8_lossy(line)) {
            return whole(file, stream, text, jobs, place).map(|()| None);
        }
        if !is_more {
            break;
        }
        is_by_line = true;
        place.0 += 1;
        let own = Job { file, text: line.to_vec(), line: Some(place.0) };
        text.clear();
        place.1 = true;
        if jobs.send(own).is_err() {
            break;
        }
    }
    Ok(None)
}

fn whole(
    file: usize,
    mut stream: Stream,
    mut text: Vec<u8>,
    jobs: &SyncSender<Job>,
    place: &mut (usize, bool),
) -> Result<(), load::Error> {
    stream.rest(SESSION_BYTES.saturating_sub(text.len() as u64), &mut text)?;
    place.1 = true;
    // Nobody listens any more only when everything was told to stop.
    let _ = jobs.send(Job { file, text, line: None });
    Ok(())
}

fn replayed(job: &Job, recording: &Recording, ask: &Ask) -> Done {
    let text = String::from_utf8_lossy(&job.text);
    let name = recording.path.file_name().map_or_else(String::new, |name| {
        let name = name.to_string_lossy();
        name.split('.').next().unwrap_or_default().to_owned()
    });
    let imported = match job.line {
        None => import::file(&text, &name),
        Some(number) => Ok(match import::line(&text, &name) {
            Ok(session) => Imported { sessions: vec![session], ..Imported::default() },
            Err(problem) => Imported {
                damaged: 1,
                first_damaged: Some(import::at_line(problem, number)),
                ..Imported::default()
            },
        }),
    };
    let policies = ask.policies.len();
    let mut done = Done {
        file: job.file,
        line: job.line.unwrap_or(0),
        sums: vec![Sums::default(); policies],
        truths: vec![Truth::default(); policies],
        ..Done::default()
    };
    match imported {
        Ok(imported) => {
            (done.damaged, done.first_damaged) = (imported.damaged, imported.first_damaged);
            done.sessions = imported.sessions.len();
            for session in imported.sessions {
                replay_session(session, ask, &mut done);
            }
        }
        Err(problem) if recording.is_named => {
            let path = recording.path.clone();
            done.fatal = Some(Error::NotASession { path, problem });
        }
        Err(_) => done.is_passed_over = true,
    }
    done
}

fn replay_session(session: Session, ask: &Ask, done: &mut Done) {
    if ask.compacted && !session.is_compacted() {
        done.left_out += 1;
        return;
    }
    let parts = if ask.segments { session.segments() } else { vec![session] };
    for part in parts {
        if part.calls() < ask.min_calls.max(1) {
            done.left_out += 1;
            continue;
        }
        let prepared = Prepared::new(part);
        let all = done.sums.iter_mut().zip(&mut done.truths);
        for (name, (sums, truth)) in ask.policies.iter().zip(all) {
            let (more, found) = account::run(&prepared, name.policy().as_mut());
            sums.join(&more);
            truth.join(found);
        }
    }
}
