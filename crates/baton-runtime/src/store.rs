//! The only writer of files. Every file is written to a temporary name, synced and renamed, and its
//! folder synced: a crash leaves the old text or the new one, never half of either. Every call that
//! changes the disk passes a fault point, so that a test can stop the world before and after it.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::load;

/// As any program makes a file or a folder; the umask takes away from it.
const NEW_FILE: u32 = 0o666;
const NEW_FOLDER: u32 = 0o777;
/// What is its owner's alone. All that is made in such a folder is so, too.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;

/// The file that changes places with the one that is written.
const SPARE: &str = ".baton-spare";
/// How the names of our temporary files begin.
const TEMPORARY: &str = ".baton-";

/// How the names of folders begin that are not whole yet.
const UNFINISHED: &str = ".baton-new-";
/// The time that another process has to make a folder.
const MAKING: std::time::Duration = std::time::Duration::from_secs(10);

/// From so many new files at once, one sync of the file system costs less than one of each: ten times
/// less at a hundred. It waits for what others have written there, too.
const SYNC_ALL: usize = 16;

/// What a test wants to happen at one of the calls that change the disk.
#[derive(Debug)]
pub struct Faults {
    /// Points passed so far: two for each call, before and after it.
    passed: AtomicU64,
    /// Nanoseconds that were spent waiting for the disk.
    synced: AtomicU64,
    /// And in the other calls that change it.
    changed: AtomicU64,
    /// Syncs so far.
    syncs: AtomicU64,
    plan: Fault,
    /// Is told every change that was made.
    seen: Option<Seen>,
}

/// A change of the disk that was made, for a test that asks what of it a power loss may take away.
#[derive(Debug, Clone, Copy)]
pub enum Op<'a> {
    /// A file, empty: a new one, or an old one cut to nothing.
    Create(&'a Path),
    WriteAt(&'a Path, u64, &'a [u8]),
    Append(&'a Path, &'a [u8]),
    Cut(&'a Path, u64),
    Rename(&'a Path, &'a Path),
    Exchange(&'a Path, &'a Path),
    MakeFolder(&'a Path),
    Remove(&'a Path),
    Sync(&'a Path),
    SyncFolder(&'a Path),
    /// What was written to it since its last sync may be lost, also where a later sync succeeds.
    SyncFailed(&'a Path),
}

struct Seen(Box<dyn Fn(Op<'_>) + Send + Sync>);

impl std::fmt::Debug for Seen {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Seen")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Only counts.
    None,
    /// The process dies at this point, as by `kill -9`.
    Kill { at: u64 },
    /// The process dies in the middle of the write that passes this point, half of it done.
    Tear { at: u64 },
    /// The call after this point fails.
    Fail { at: u64, errno: i32 },
    /// Every sync from this point on fails.
    FailSync { at: u64 },
    /// This one of the syncs fails, counted from 0. Those after it do not: a retry would succeed.
    FailOneSync { number: u64 },
}

/// The disk, as Baton writes it.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    faults: Option<Arc<Faults>>,
}

impl Disk {
    /// With a fault in it, for tests of what must be survived.
    pub fn with_fault(plan: Fault) -> Disk {
        Disk::faulty(plan, None)
    }

    /// The same; every change is told to a test.
    pub fn seen_by(plan: Fault, seen: impl Fn(Op<'_>) + Send + Sync + 'static) -> Disk {
        Disk::faulty(plan, Some(Seen(Box::new(seen))))
    }

    fn faulty(plan: Fault, seen: Option<Seen>) -> Disk {
        let [passed, synced, changed, syncs] = std::array::from_fn(|_| AtomicU64::new(0));
        Disk { faults: Some(Arc::new(Faults { passed, synced, changed, syncs, plan, seen })) }
    }

    fn seen(&self, op: Op<'_>) {
        if let Some(Seen(seen)) = self.faults.as_ref().and_then(|faults| faults.seen.as_ref()) {
            seen(op);
        }
    }

    /// `of`: the file that the error names.
    fn synced(
        &self,
        path: &Path,
        of: &Path,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), Error> {
        let synced = self.change(true, sync);
        self.seen(if synced.is_ok() { Op::Sync(path) } else { Op::SyncFailed(path) });
        synced.map_err(failed("sync", of))
    }

    fn sync_file(&self, file: &File, path: &Path) -> Result<(), Error> {
        self.synced(path, path, || file.sync_all())
    }

    fn sync_folder(&self, folder: &Path, of: &Path) -> Result<(), Error> {
        self.change(true, || sync(folder)).map_err(failed("sync", of))?;
        self.seen(Op::SyncFolder(folder));
        Ok(())
    }

    /// How many points were passed.
    pub fn points(&self) -> u64 {
        self.faults.as_ref().map_or(0, |faults| faults.passed.load(Ordering::SeqCst))
    }

    /// A call that changes the disk, between its two points.
    fn change<T>(&self, is_sync: bool, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(faults) = &self.faults else { return call() };
        let point = || {
            let number = faults.passed.fetch_add(1, Ordering::SeqCst);
            match faults.plan {
                Fault::Kill { at } if at == number => {
                    die();
                    Ok(())
                }
                Fault::Fail { at, errno } if at == number => {
                    Err(io::Error::from_raw_os_error(errno))
                }
                Fault::FailSync { at } if is_sync && number >= at => {
                    Err(rustix::io::Errno::IO.into())
                }
                _ => Ok(()),
            }
        };
        point()?;
        if is_sync {
            let number = faults.syncs.fetch_add(1, Ordering::SeqCst);
            if faults.plan == (Fault::FailOneSync { number }) {
                return Err(rustix::io::Errno::IO.into());
            }
        }
        let start = std::time::Instant::now();
        let out = call()?;
        let time = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let spent = if is_sync { &faults.synced } else { &faults.changed };
        spent.fetch_add(time, Ordering::SeqCst);
        point()?;
        Ok(out)
    }

    /// Writes bytes, whole or, where a test wants it so, half of them and no more.
    fn put(
        &self,
        content: &[u8],
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(Fault::Tear { at }) = self.faults.as_ref().map(|faults| faults.plan)
            && self.points() == at
        {
            write(&content[..content.len() / 2])?;
            die();
        }
        self.change(false, || write(content))
    }

    /// How long the disk was waited for, where that is measured.
    pub fn sync_time(&self) -> std::time::Duration {
        let nanos = self.faults.as_ref().map_or(0, |faults| faults.synced.load(Ordering::SeqCst));
        std::time::Duration::from_nanos(nanos)
    }

    /// How long the other calls that change the disk took, where that is measured.
    pub fn change_time(&self) -> std::time::Duration {
        let nanos = self.faults.as_ref().map_or(0, |faults| faults.changed.load(Ordering::SeqCst));
        std::time::Duration::from_nanos(nanos)
    }

    /// Replaces a file's content, or makes the file. A link is followed, permissions are kept.
    pub fn write(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.write_through(path, content, folder_of(path))
    }

    /// As `write`, with the temporary file in a folder of ours: a crash leaves nothing in the other.
    pub fn write_through(
        &self,
        path: &Path,
        content: &[u8],
        temporary: &Path,
    ) -> Result<(), Error> {
        let folder = folder_of(path);
        let mode = if is_private(folder) { PRIVATE_FILE } else { NEW_FILE };
        let mut file = self
            .change(false, || {
                tempfile::Builder::new()
                    .prefix(TEMPORARY)
                    .permissions(fs::Permissions::from_mode(mode))
                    .tempfile_in(temporary)
            })
            .map_err(failed("write", path))?;
        self.seen(Op::Create(file.path()));
        self.put(content, |bytes| file.write_all(bytes)).map_err(failed("write", path))?;
        self.seen(Op::WriteAt(file.path(), 0, content));
        if let Ok(old) = fs::symlink_metadata(path)
            && old.is_file()
        {
            file.as_file().set_permissions(old.permissions()).map_err(failed("write", path))?;
        }
        self.synced(file.path(), path, || file.as_file().sync_all())?;
        let draft = file.path().to_owned();
        self.change(false, || file.persist(path).map_err(|error| error.error))
            .map_err(failed("write", path))?;
        self.seen(Op::Rename(&draft, path));
        self.sync_folder(folder, folder)
    }

    /// Writes many files at once, in folders that are there: all are written, then all synced, then
    /// each gets its name, then each folder is synced once. A crash leaves some of them whole and the
    /// others not at all; a link in the place of one is replaced.
    pub fn write_lot(&self, files: &[(PathBuf, Vec<u8>)]) -> Result<(), Error> {
        let mut drafts = Vec::with_capacity(files.len());
        let mut folders: Vec<(&Path, u32)> = Vec::new();
        for (path, content) in files {
            let folder = folder_of(path);
            let mode = match folders.iter().find(|(own, _)| *own == folder) {
                Some((_, mode)) => *mode,
                None => {
                    let mode = if is_private(folder) { PRIVATE_FILE } else { NEW_FILE };
                    folders.push((folder, mode));
                    mode
                }
            };
            let made = self.change(false, || {
                tempfile::Builder::new()
                    .prefix(TEMPORARY)
                    .permissions(fs::Permissions::from_mode(mode))
                    .tempfile_in(folder)
            });
            let mut file = made.map_err(failed("write", path))?;
            self.seen(Op::Create(file.path()));
            self.put(content, |bytes| file.write_all(bytes)).map_err(failed("write", path))?;
            self.seen(Op::WriteAt(file.path(), 0, content));
            drafts.push((file, path));
        }
        if let [(first, path), .., _] = drafts.as_slice()
            && drafts.len() >= SYNC_ALL
        {
            self.change(true, || rustix::fs::syncfs(first.as_file()).map_err(io::Error::from))
                .map_err(failed("sync", path))?;
            drafts.iter().for_each(|(file, _)| self.seen(Op::Sync(file.path())));
        } else {
            for (file, path) in &drafts {
                self.synced(file.path(), path, || file.as_file().sync_all())?;
            }
        }
        for (file, path) in drafts {
            let draft = file.path().to_owned();
            self.change(false, || file.persist(path).map_err(|error| error.error))
                .map_err(failed("write", path))?;
            self.seen(Op::Rename(&draft, path));
        }
        for (folder, _) in folders {
            self.sync_folder(folder, folder)?;
        }
        Ok(())
    }

    /// As `write`, making the folder where it is missing.
    pub fn write_new(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        self.make_folder(folder_of(path))?;
        self.write(path, content)
    }

    /// As `write`, but a link in its place is replaced and not followed: for files of ours that others
    /// can reach.
    pub fn write_here(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let folder = folder_of(path);
        self.make_folder(folder)?;
        if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            self.change(false, || fs::remove_dir_all(path)).map_err(failed("remove", path))?;
        }
        self.write_through(path, content, folder)
    }

    /// As `write`, for a file that is replaced again and again: the new content goes into a spare file
    /// beside it, and the two change places. Making and removing a file each time costs more than
    /// all the rest. The spare is swept away at the end.
    pub fn replace(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let folder = folder_of(path);
        let old = match fs::symlink_metadata(path) {
            Ok(old) if old.is_file() => old,
            _ => return self.write_here(path, content),
        };
        let spare = folder.join(SPARE);
        // A spare that is a link, or has another name elsewhere, is not ours: writing it would write
        // somebody else's file.
        let is_ours = |metadata: &fs::Metadata| metadata.is_file() && metadata.nlink() == 1;
        let mut there = fs::symlink_metadata(&spare).ok();
        if there.as_ref().is_some_and(|metadata| !is_ours(metadata)) {
            self.change(false, || fs::remove_file(&spare)).map_err(failed("remove", &spare))?;
            self.seen(Op::Remove(&spare));
            there = None;
        }
        let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
        // Not cut first: its room on the disk is used again.
        let mut file = self
            .change(false, || {
                let mut options = File::options();
                options.create(true).truncate(false).write(true).custom_flags(no_follow);
                options.open(&spare)
            })
            .map_err(failed("write", &spare))?;
        if there.is_none() {
            self.seen(Op::Create(&spare));
        }
        self.put(content, |bytes| file.write_all(bytes)).map_err(failed("write", &spare))?;
        self.seen(Op::WriteAt(&spare, 0, content));
        let now = file.metadata().map_err(failed("read", &spare))?;
        if now.len() > content.len() as u64 {
            self.change(false, || file.set_len(content.len() as u64))
                .map_err(failed("write", &spare))?;
            self.seen(Op::Cut(&spare, content.len() as u64));
        }
        if now.permissions() != old.permissions() {
            file.set_permissions(old.permissions()).map_err(failed("write", &spare))?;
        }
        self.sync_file(&file, &spare)?;
        let exchanged = self.change(false, || {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            renameat_with(CWD, &spare, CWD, path, RenameFlags::EXCHANGE).map_err(io::Error::from)
        });
        match exchanged {
            Ok(()) => {
                self.seen(Op::Exchange(&spare, path));
                self.sync_folder(folder, folder)
            }
            // Not every file system can exchange two files.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                ) =>
            {
                self.write_here(path, content)
            }
            Err(error) => Err(failed("write", path)(error)),
        }
    }

    /// Removes what writes that a crash cut off have left in a folder of ours and below it.
    pub fn sweep(&self, folder: &Path, depth: usize) -> Result<(), Error> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        for entry in entries.flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_left = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
            if is_folder && depth > 0 {
                self.sweep(&entry.path(), depth - 1)?;
            } else if is_left && !is_folder {
                self.remove(&entry.path())?;
            }
        }
        Ok(())
    }

    pub fn make_folder(&self, folder: &Path) -> Result<(), Error> {
        if folder.is_dir() {
            return Ok(());
        }
        let above = folder.ancestors().find(|own| own.is_dir());
        let mode = if above.is_some_and(is_private) { PRIVATE_FOLDER } else { NEW_FOLDER };
        self.made(folder, mode)
    }

    /// As `make_folder`, for what is nobody else's to read.
    pub fn make_private(&self, folder: &Path) -> Result<(), Error> {
        if !folder.is_dir() {
            return self.made(folder, PRIVATE_FOLDER);
        }
        match is_private(folder) {
            true => Ok(()),
            false => fs::set_permissions(folder, fs::Permissions::from_mode(PRIVATE_FOLDER))
                .map_err(failed("close", folder)),
        }
    }

    /// One by one: a folder whose parent is not synced is lost with the power, and all in it.
    fn made(&self, folder: &Path, mode: u32) -> Result<(), Error> {
        if folder.is_dir() {
            return Ok(());
        }
        self.made(folder_of(folder), mode)?;
        self.change(false, || fs::DirBuilder::new().recursive(true).mode(mode).create(folder))
            .map_err(failed("create", folder))?;
        self.seen(Op::MakeFolder(folder));
        self.sync_folder(folder_of(folder), folder)
    }

    /// Removes a file; one that is gone already is no error.
    pub fn remove(&self, path: &Path) -> Result<(), Error> {
        let removed = self.change(false, || match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        });
        removed.map_err(failed("remove", path))?;
        self.seen(Op::Remove(path));
        match folder_of(path).exists() {
            true => self.sync_folder(folder_of(path), path),
            // Nothing was there, and nothing needs to last.
            false => Ok(()),
        }
    }

    /// Puts a text behind what a file has up to `at`: nothing else may stand there than a piece of
    /// the same text, from a crash. Returns the file's new length.
    pub fn append_at(&self, path: &Path, at: u64, text: &[u8]) -> Result<u64, Error> {
        let file = self
            .change(false, || {
                let mut options = File::options();
                options.create(true).truncate(false).write(true).read(true);
                load::open_regular(&mut options, 0, path)
            })
            .map_err(failed("open", path))?;
        let length = file.metadata().map_err(failed("read", path))?.len();
        if length > at {
            self.change(false, || file.set_len(at)).map_err(failed("write", path))?;
            self.seen(Op::Cut(path, at));
        }
        self.put(text, |bytes| file.write_all_at(bytes, at)).map_err(failed("write", path))?;
        self.seen(Op::WriteAt(path, at, text));
        self.sync_file(&file, path)?;
        Ok(at + text.len() as u64)
    }

    /// Adds to an open file and waits until the disk has it.
    pub(crate) fn append(&self, file: &mut File, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        self.append_unsynced(file, path, bytes)?;
        self.sync_data(file, path)
    }

    /// Adds to an open file. A crash of ours does not lose it, one of the machine may.
    pub(crate) fn append_unsynced(
        &self,
        file: &mut File,
        path: &Path,
        bytes: &[u8],
    ) -> Result<(), Error> {
        self.put(bytes, |bytes| file.write_all(bytes)).map_err(failed("write", path))?;
        self.seen(Op::Append(path, bytes));
        Ok(())
    }

    pub(crate) fn sync_data(&self, file: &File, path: &Path) -> Result<(), Error> {
        self.synced(path, path, || file.sync_data())
    }

    /// Cuts an open file.
    pub(crate) fn cut(&self, file: &File, path: &Path, length: u64) -> Result<(), Error> {
        self.change(false, || file.set_len(length)).map_err(failed("write", path))?;
        self.seen(Op::Cut(path, length));
        self.sync_file(file, path)
    }
}

/// As by `kill -9`.
fn die() {
    let own = rustix::process::getpid();
    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
}

fn is_private(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o077 == 0)
}

/// Only a folder: to open a pipe would wait for ever.
fn open_folder(folder: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY).open(folder)
}

fn sync(folder: &Path) -> io::Result<()> {
    open_folder(folder).and_then(|folder| folder.sync_all())
}

/// A value as it is written to this file. A failure is never an empty record.
pub fn json(path: &Path, value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(io::Error::other).map_err(failed("encode", path))
}

/// The same over several lines, for people.
pub fn long_json(path: &Path, value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string_pretty(value).map_err(io::Error::other).map_err(failed("encode", path))
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct Error {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error { action, path, source }
}

impl Error {
    /// Whether there was no room.
    pub fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// As `Disk::write`, for what no run depends on.
pub fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    Disk::default().write(path, content)
}

/// Makes a folder with these files and empty folders, all or nothing: it appears under its name
/// only when everything in it is on disk. `ready` is called just before that, with the path of the
/// draft. A folder that is there is replaced if it is empty, or if `may_replace` agrees to what is in it.
pub fn create_folder(
    path: &Path,
    files: &[(PathBuf, Vec<u8>)],
    folders: &[PathBuf],
    ready: impl FnOnce(&Path),
    may_replace: impl Fn(&Path) -> bool,
) -> Result<(), Error> {
    let parent = folder_of(path);
    fs::create_dir_all(parent).map_err(failed("create", parent))?;
    let draft = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempdir_in(parent)
        .map_err(failed("create a folder in", parent))?;
    for folder in folders {
        // The draft is its owner's alone, and so is what is in it.
        let folder = draft.path().join(folder);
        let made = fs::DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(&folder);
        made.map_err(failed("create", &folder))?;
    }
    for (name, content) in files {
        let file = draft.path().join(name);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        let mut opened = File::create(&file).map_err(failed("create", &file))?;
        opened.write_all(content).map_err(failed("write", &file))?;
        opened.sync_all().map_err(failed("sync", &file))?;
    }
    sync_tree(draft.path())?;
    ready(draft.path());
    // Renaming over a folder that holds anything fails: a second init can never mix with a first.
    match fs::rename(draft.path(), path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && may_replace(path) => {
            replace(&draft, path, error, may_replace)?;
        }
        renamed => {
            renamed.map_err(failed("create", path))?;
            // The draft has become the real folder; there is nothing left to remove.
            let _ = draft.keep();
        }
    }
    sync_folder(parent)
}

/// Puts the draft in the place of a folder in which nothing is lost. Both change places at once, so that
/// nobody finds neither of them; what came out goes with the draft.
fn replace(
    draft: &tempfile::TempDir,
    path: &Path,
    occupied: io::Error,
    may_replace: impl Fn(&Path) -> bool,
) -> Result<(), Error> {
    let exchange = || {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, draft.path(), rustix::fs::CWD, path, flags)
    };
    exchange().map_err(|errno| failed("create", path)(errno.into()))?;
    if may_replace(draft.path()) {
        return Ok(());
    }
    // Another process has written there meanwhile.
    exchange().map_err(|errno| failed("create", path)(errno.into()))?;
    Err(failed("create", path)(occupied))
}

/// Lets one process after the other make a folder here, and removes what one that was killed has left.
/// Held as long as the answer is kept; `None`: this file system has no such lock, or another process
/// keeps it.
pub fn alone_in(path: &Path) -> Option<File> {
    let parent = folder_of(path);
    fs::create_dir_all(parent).ok()?;
    let folder = File::open(parent).ok()?;
    let start = std::time::Instant::now();
    while let Err(error) = folder.try_lock() {
        let is_held = matches!(error, fs::TryLockError::WouldBlock);
        if !is_held || start.elapsed() > MAKING {
            return None;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_draft = entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
        if is_draft && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Some(folder)
}

/// As `write`, making the folder where it is missing.
pub fn write_new(path: &Path, content: &[u8]) -> Result<(), Error> {
    Disk::default().write_new(path, content)
}

/// Writes over the end of a file, where it is this one; false, and nothing done, where it is
/// another. Not synced: only for what can be made again.
pub fn append_before_end(path: &Path, end: &str, new: &str) -> Result<bool, Error> {
    let mut file = match load::open_regular(File::options().read(true).write(true), 0, path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("open", path)(error)),
    };
    file.lock().map_err(failed("lock", path))?;
    let length = file.metadata().map_err(failed("read", path))?.len();
    let Some(at) = length.checked_sub(end.len() as u64) else { return Ok(false) };
    let mut found = vec![0; end.len()];
    file.read_exact_at(&mut found, at).map_err(failed("read", path))?;
    if found != end.as_bytes() {
        return Ok(false);
    }
    file.seek(io::SeekFrom::Start(at)).map_err(failed("write", path))?;
    file.write_all(new.as_bytes()).map_err(failed("write", path))?;
    Ok(true)
}

pub fn remove(path: &Path) -> Result<(), Error> {
    fs::remove_file(path).map_err(failed("remove", path))
}

/// Moves a folder of ours to a name that is free, in the same file system.
pub fn move_folder(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
    }
    fs::rename(from, to).map_err(failed("move", from))?;
    sync_folder(to.parent().unwrap_or(Path::new(".")))
}

/// Moves a file of ours into a folder of the same file system.
pub fn move_file(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(failed("move", from))?;
    sync_folder(folder_of(to))
}

/// Keeps other writers of a folder's files out for as long as it lives. The lock is the folder's
/// own: a file that is replaced by a rename cannot hold one.
#[derive(Debug)]
pub struct FolderLock {
    _handle: File,
}

impl FolderLock {
    /// Waits until the folder of this file is free.
    pub fn of_file(file: &Path) -> Result<FolderLock, Error> {
        let folder = folder_of(file);
        let handle = open_folder(folder).map_err(failed("lock", folder))?;
        handle.lock().map_err(failed("lock", folder))?;
        Ok(FolderLock { _handle: handle })
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync_tree(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(failed("read", folder))? {
        let entry = entry.map_err(failed("read", folder))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sync_tree(&entry.path())?;
        }
    }
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> Result<(), Error> {
    sync(folder).map_err(failed("sync", folder))
}
