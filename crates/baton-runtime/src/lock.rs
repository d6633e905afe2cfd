//! One writer a run. The lock is the kernel's: it ends with its holder, whatever ended that, so there
//! is no stale one, and a holder that sleeps still holds it.

use std::fs::{File, TryLockError};
use std::io::{Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use crate::load;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the blackboard is held by another process: {by}")]
    Held { by: String },
    #[error("cannot lock {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

/// How often, and after which pause, a lock is asked for again.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(5);
/// How often the name of a new holder is looked for, which writes it after it has the lock.
const LOOKS: u32 = 200;

/// The holder of a lock that is held, for the user.
fn who_holds(path: &Path) -> String {
    for _ in 0..LOOKS {
        let text = load::text(path, 1_000).unwrap_or_default();
        // The rest may be of an earlier holder.
        if let Some(line) = text.lines().next().filter(|line| !line.trim().is_empty()) {
            return baton_core::text::shown(line.trim(), 200);
        }
        std::thread::sleep(PAUSE);
    }
    "unknown".to_owned()
}

/// How often a holder shows that it lives.
pub const BEAT: Duration = Duration::from_secs(2);

/// Beats as long as it is kept.
#[derive(Debug)]
pub struct Heart {
    _alive: mpsc::Sender<()>,
}

/// The holder of a lock, as its file names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub pid: Option<i32>,
    pub since: Option<String>,
}

impl Holder {
    /// `process 12, run run-0001, since 2026-01-31T00:44:55`.
    pub fn read(text: &str) -> Holder {
        let line = text.lines().next().unwrap_or_default();
        let part = |name: &str| line.trim().split(", ").find_map(|part| part.strip_prefix(name));
        Holder {
            pid: part("process ").and_then(|pid| pid.parse().ok()),
            since: part("since ").map(str::to_owned),
        }
    }
}

/// Held as long as it lives.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    /// Its device and number, which stay as long as it is held.
    place: (u64, u64),
}

impl Drop for Lock {
    /// The heart has the same lock in its hand, and may let go of it a moment later.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Takes the lock or says who holds it. `who` is for the next one who asks.
    pub fn take(path: &Path, who: &str) -> Result<Lock, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io)?;
        }
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        let mut file = load::open_regular(&mut options, 0, path).map_err(io)?;
        let mut tries = 0;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                // Whoever only asks for the holder has it for a moment.
                Err(TryLockError::WouldBlock) if tries < TRIES => tries += 1,
                Err(TryLockError::WouldBlock) => return Err(Error::Held { by: who_holds(path) }),
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
            std::thread::sleep(PAUSE);
        }
        let text = format!("process {}, {who}\n", std::process::id());
        // Never empty in between: others read it.
        file.rewind()
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| file.set_len(text.len() as u64))
            .map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        let place = (metadata.dev(), metadata.ino());
        Ok(Lock { file, path: path.to_owned(), place })
    }

    /// Shows that its holder lives, by the time of the lock file: every two seconds, as long as the
    /// answer is kept.
    pub fn beating(&self) -> Option<Heart> {
        let file = self.file.try_clone().ok()?;
        let (sender, receiver) = mpsc::channel::<()>();
        let beating = std::thread::Builder::new().spawn(move || {
            while receiver.recv_timeout(BEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = file.set_modified(SystemTime::now());
            }
        });
        beating.ok()?;
        Some(Heart { _alive: sender })
    }

    /// When the holder of a lock was last alive.
    pub fn last_beat(path: &Path) -> Option<SystemTime> {
        std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
    }

    /// Whether the lock that is held is still the one that others would ask for.
    pub fn is_in_place(&self) -> bool {
        let now = std::fs::metadata(&self.path);
        now.is_ok_and(|now| (now.dev(), now.ino()) == self.place)
    }

    /// The newest holder, alive or not.
    pub fn last_holder(path: &Path) -> Option<Holder> {
        load::text(path, 1_000).ok().map(|text| Holder::read(&text))
    }

    /// Who holds it now, without taking it.
    pub fn holder(path: &Path) -> Option<String> {
        let mut options = File::options();
        let file = load::open_regular(options.read(true).write(true), 0, path).ok()?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Some(who_holds(path)),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }
}
