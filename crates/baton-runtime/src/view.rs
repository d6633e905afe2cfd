//! Views: the project as a stage sees it that may not change it, and a gate. What is written to a view
//! goes to a folder of its own, which is removed with it; the project itself stays as it is. A stage
//! that was interrupted finds its view again.
//!
//! A view is an overlay of two lower folders: a copy of the project's files, which no edit of the user
//! can change while the view is in use, and under it the project, for all that only it has (files that
//! git ignores, git's own folder). Where the machine gives no overlay, a copy of everything is used.

mod copy;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::load::{self, Environment};
use crate::sandbox::{self, Confine, Layer, Program, ViewSpace, Within};
use crate::store;

/// Below the folder for Baton's state: a folder for each blackboard.
const FOLDER: &str = "views";
/// The copy of the project's files, and what was known of each file when it was copied.
const BASE: &str = "base";
const KNOWN: &str = "base.json";
/// The blackboard that the views belong to: they are removed when it is gone.
const OWNER: &str = "owner";
/// Held while the copy of the files, or a view, is in use.
const LOCK: &str = "lock";
/// A larger file is not copied: it is seen as it is.
const MOST_BYTES: u64 = 64 << 20;
const MOST_KNOWN: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
#[error("cannot make a view of the project: {what}: {source}")]
pub struct Error {
    what: String,
    source: io::Error,
}

fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let what = format!("{what} {}", path.display());
    move |source| Error { what, source }
}

/// The views of one blackboard's project.
#[derive(Debug, Clone)]
pub struct Views {
    project: PathBuf,
    board: PathBuf,
    folder: PathBuf,
    /// The folder of all blackboards.
    all: PathBuf,
}

impl Views {
    /// `mark` names the blackboard.
    pub fn new(project: &Path, board: &Path, mark: &str, environment: &Environment) -> Views {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let project = real(project);
        let state = environment.state_folder().unwrap_or_else(temporary);
        // Layers of an overlay must not hold each other.
        let state = match state.starts_with(&project) || real(&state).starts_with(&project) {
            true => temporary(),
            false => state,
        };
        let all = state.join(FOLDER);
        Views { board: real(board), folder: all.join(mark), all, project }
    }

    /// A new view, whatever a process that is gone left under this name.
    pub fn open_new(&self, name: &str, names: Option<&[String]>) -> Result<View, Error> {
        copy::remove(&self.folder.join(name));
        self.open(name, names)
    }

    /// The view of this name, which a process that is gone may have left. `names`: the project's
    /// files, from its root; without them no copy is made of them, for a view that is used at once.
    pub fn open(&self, name: &str, names: Option<&[String]>) -> Result<View, Error> {
        self.prepare()?;
        let folder = self.folder.join(name);
        private_folder(&folder)?;
        let is_left = folder.join("upper").exists() || folder.join("copy").exists();
        let Some(in_use) = lock(&folder) else {
            return Err(failed("use", &folder)(io::Error::other("another process uses it")));
        };
        let base_lock = names.and_then(|_| lock(&self.folder));
        // Somebody else uses the files now: this view gets a copy of its own.
        let own = if base_lock.is_some() { &self.folder } else { &folder };
        if let Some(names) = names.filter(|_| !(is_left && own.join(BASE).exists())) {
            Base { project: &self.project, folder: own }.update(names)?;
        }
        let base = names.map(|_| own.join(BASE));
        let overlaid = match folder.join("copy").exists() {
            true => Err("an earlier try had none".to_owned()),
            false => self.overlaid(&folder, base),
        };
        let made = overlaid.or_else(|why| self.copied(&folder, why));
        let (space, notice) = made
            .map_err(|why| Error { what: "its files".to_owned(), source: io::Error::other(why) })?;
        let (seen, reached) = match &space {
            Some(space) => (self.project.clone(), space.path(&self.project)),
            None => (folder.join("copy"), folder.join("copy")),
        };
        let locks = (in_use, base_lock);
        Ok(View { seen, reached, space, folder, notice, _locks: locks })
    }

    /// Removes every view that nobody uses, but the one of this name.
    pub fn sweep(&self, except: &str) {
        for entry in entries(&self.folder) {
            let name = entry.file_name();
            let is_kept = [BASE, KNOWN, OWNER, LOCK, except].iter().any(|own| name == *own);
            if !is_kept && lock(&entry.path()).is_some() {
                copy::remove(&entry.path());
            }
        }
    }

    /// Removes the views of blackboards that are gone. One that is used is not gone: it may only be
    /// out of sight here, on a disk that another mount namespace sees.
    pub fn sweep_abandoned(&self) {
        for entry in entries(&self.all) {
            let folder = entry.path();
            let owner = load::text(&folder.join(OWNER), load::SMALL).ok();
            let is_gone = owner.is_some_and(|owner| !Path::new(&owner).exists());
            if is_gone && !is_used(&folder) {
                copy::remove(&folder);
            }
        }
    }

    /// Removes every view and the copy of the files, when nothing is open any more.
    pub fn remove_all(&self) {
        self.sweep("");
        let own = [BASE, KNOWN, OWNER, LOCK];
        let mut left = entries(&self.folder).map(|entry| entry.file_name());
        let is_used = left.any(|name| own.iter().all(|own| name != *own));
        if let Some(_lock) = lock(&self.folder).filter(|_| !is_used) {
            copy::remove(&self.folder);
        }
    }

    fn prepare(&self) -> Result<(), Error> {
        private_folder(&self.all)?;
        private_folder(&self.folder)?;
        let owner = self.folder.join(OWNER);
        let text = self.board.to_string_lossy();
        match owner.exists() {
            true => Ok(()),
            false => store::write(&owner, text.as_bytes())
                .map_err(|error| failed("write", &owner)(io::Error::other(error.to_string()))),
        }
    }

    /// `Err`: why this machine gives no overlay.
    fn overlaid(&self, folder: &Path, base: Option<PathBuf>) -> Result<Made, String> {
        let mut layers = Vec::new();
        let mut base = base;
        for (index, at) in self.mounts().into_iter().enumerate() {
            // The copy is of the project itself, which is the first.
            let lower = base.take().into_iter().chain([at.clone()]).collect();
            if !at.is_dir() || at.starts_with(&self.board) {
                layers.push(Layer::Bound { at: at.clone(), from: at, is_read_only: true });
                continue;
            }
            let (upper, work) = match index {
                0 => (folder.join("upper"), folder.join("work")),
                _ => (folder.join(format!("upper-{index}")), folder.join(format!("work-{index}"))),
            };
            for made in [&upper, &work] {
                private_folder(made).map_err(|error| error.to_string())?;
            }
            copy::take_mode(&at, &upper);
            layers.push(Layer::Overlay { at, lower, upper, work });
        }
        self.add_board(&mut layers);
        match ViewSpace::open(&layers) {
            Ok(space) => Ok((Some(space), None)),
            Err(why) => {
                copy::remove(&folder.join("upper"));
                Err(why)
            }
        }
    }

    /// The blackboard is the real one, and cannot be changed.
    fn add_board(&self, layers: &mut Vec<Layer>) {
        if self.board.starts_with(&self.project) && self.board.is_dir() {
            let (at, from) = (self.board.clone(), self.board.clone());
            layers.push(Layer::Bound { at, from, is_read_only: true });
        }
    }

    /// The project and what is mounted below it: an overlay shows these folders empty.
    fn mounts(&self) -> Vec<PathBuf> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut found: Vec<PathBuf> = mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(4))
            .map(unescaped)
            .filter(|path| *path != self.project && path.starts_with(&self.project))
            .filter(|path| path.exists())
            .collect();
        found.push(self.project.clone());
        found.sort();
        found.dedup();
        found
    }

    fn copied(&self, folder: &Path, why: String) -> Result<Made, String> {
        let whole = folder.join("copy");
        let mut bytes = 0;
        if !whole.exists() {
            let part = folder.join("part");
            copy::remove(&part);
            bytes = copy::whole(&self.project, &part, &self.board)
                .and_then(|bytes| fs::rename(&part, &whole).map(|()| bytes))
                .map_err(|error| format!("a copy of the project: {error}"))?;
        }
        let notice = format!(
            "it works on a private copy of the project ({} MiB), since there is no overlay here: {why}",
            bytes >> 20
        );
        let bound = Layer::Bound { at: self.project.clone(), from: whole, is_read_only: false };
        let mut layers = vec![bound];
        let board = self.board.strip_prefix(&self.project).ok();
        if let Some(board) = board.filter(|_| self.board.is_dir()) {
            let _ = fs::create_dir_all(folder.join("copy").join(board));
            self.add_board(&mut layers);
        }
        // Without namespaces the copy is worked in under its own name.
        let space = match sandbox::has_namespaces() {
            true => Some(ViewSpace::open(&layers)?),
            false => None,
        };
        Ok((space, Some(notice)))
    }
}

/// The namespace, where there is one, and something that the user should know.
type Made = (Option<ViewSpace>, Option<String>);

/// Removes a folder, whatever programs made of the rights of what is in it.
pub(crate) fn remove_folder(path: &Path) {
    copy::remove(path);
}

/// A file that is only locked, for its owner alone.
pub(crate) fn lock_file(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(true).write(true).mode(0o600).open(path)
}

/// `None`: another process uses what is in the folder.
pub(crate) fn lock(folder: &Path) -> Option<File> {
    let file = lock_file(&folder.join(LOCK)).ok()?;
    let how = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&file, how).ok().map(|()| file)
}

/// True if a process uses the copy of a blackboard's files, or one of its views.
fn is_used(folder: &Path) -> bool {
    let views = entries(folder).map(|entry| entry.path());
    let mut places = views.filter(|path| path.join(LOCK).exists()).chain([folder.to_owned()]);
    places.any(|place| lock(&place).is_none())
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// Where Baton keeps what is its own when the user has no home.
pub(crate) fn temporary() -> PathBuf {
    std::env::temp_dir().join(format!("baton-{}", rustix::process::geteuid().as_raw()))
}

/// `\040` is a space in the kernel's list of mounts.
fn unescaped(path: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        let code = (first == b'\\').then(|| more.get(..3)).flatten();
        let code =
            code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        match code {
            Some(byte) => (bytes.push(byte), rest = &more[3..]).1,
            None => (bytes.push(first), rest = more).1,
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

/// Makes a folder that only its owner reads. One that another user made is refused.
pub(crate) fn private_folder(path: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(failed("make", path))?;
    let own = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    match own.is_dir() && own.uid() == rustix::process::geteuid().as_raw() {
        true => Ok(()),
        false => Err(failed("use", path)(io::Error::other("it is not a folder of this user"))),
    }
}

/// A view in use. Its files stay until they are removed by name.
#[derive(Debug)]
pub struct View {
    seen: PathBuf,
    reached: PathBuf,
    space: Option<ViewSpace>,
    folder: PathBuf,
    notice: Option<String>,
    /// Of the view, and of the copy of the files.
    _locks: (File, Option<File>),
}

impl View {
    /// The project's folder, as programs in the view see it.
    pub fn seen(&self) -> &Path {
        &self.seen
    }

    /// The same folder, as this process reaches it.
    pub fn reached(&self) -> &Path {
        &self.reached
    }

    /// For programs that are to be started in it. `None`: they are started in [`View::seen`].
    pub fn within(&self) -> Option<Within> {
        self.space.as_ref().map(ViewSpace::within)
    }

    /// The same program, working in the view.
    pub fn around(&self, program: Program) -> Program {
        let confine = match (program.confine, self.within()) {
            // A view needs namespaces, also where nothing else is confined.
            (Confine::Off, Some(_)) => Confine::Open { protected: Vec::new() },
            (confine, _) => confine,
        };
        Program { folder: self.seen.clone(), within: self.within(), confine, ..program }
    }

    /// Something that the user should know.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Ends it and removes its files.
    pub fn remove(self) {
        let View { space, folder, .. } = self;
        drop(space);
        copy::remove(&folder);
    }
}

/// A file at the time it was copied: inode, size, mode, time of its content, time of its change.
type Look = (u64, u64, u32, (i64, i64), (i64, i64));

fn look_of(own: &fs::Metadata) -> Look {
    let (written, changed) = ((own.mtime(), own.mtime_nsec()), (own.ctime(), own.ctime_nsec()));
    (own.ino(), own.size(), own.mode(), written, changed)
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Known(BTreeMap<String, Look>);

/// The copy of the project's files. Only files that changed are copied again.
struct Base<'a> {
    project: &'a Path,
    folder: &'a Path,
}

impl Base<'_> {
    fn update(&self, names: &[String]) -> Result<(), Error> {
        let (base, known_file) = (self.folder.join(BASE), self.folder.join(KNOWN));
        private_folder(&base)?;
        copy::take_mode(self.project, &base);
        let known = load::text(&known_file, MOST_KNOWN).ok();
        let mut known: Known =
            known.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let mut now = Known::default();
        let mut is_new = false;
        for name in names {
            let Some(inside) = crate::walk::path_of(name) else { continue };
            let from = self.project.join(&inside);
            let Ok(own) = fs::symlink_metadata(&from) else { continue };
            if !(own.is_file() || own.is_symlink()) || own.len() > MOST_BYTES {
                continue;
            }
            let look = look_of(&own);
            let before = known.0.remove(name);
            if before != Some(look) {
                is_new = true;
                copy::one(self.project, &base, &inside, &own).map_err(failed("copy", &from))?;
            }
            now.0.insert(name.clone(), look);
        }
        // Of files that are no longer there, or no longer the project's.
        for name in known.0.keys() {
            is_new = true;
            copy::remove_one(&base, &crate::walk::path_of(name).unwrap_or_default());
        }
        if is_new {
            let text = store::json(&known_file, &now)
                .and_then(|text| store::write_new(&known_file, text.as_bytes()));
            text.map_err(|error| failed("write", &known_file)(io::Error::other(error)))?;
        }
        Ok(())
    }
}
