//! The project's files, for the agent's tools. Every path is resolved by the kernel beneath the root
//! (openat2): neither `..` nor a link leads out, also not one that is swapped while we look. What is
//! written appears whole, under its name or not at all.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use baton_core::id::Mtime;
use baton_core::mention::Target;
use baton_core::messages::Language;
use baton_core::observation::shapes::{Entry, Kind};
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::board;
use crate::load;
use crate::repositories::is_repository_name;
use crate::walk::{self, Above};

/// A folder that nothing leads out of.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    path: PathBuf,
    /// Folders and files in it that are never written, by their whole paths.
    protected: Vec<PathBuf>,
}

#[derive(Debug)]
pub enum Error {
    Outside(String),
    Missing(String),
    Kind { path: String, what: Wrong },
    Protected(String),
    Repository(String),
    Board(String),
    ReadOnly { path: String, mode: u32 },
    Io { path: String, source: io::Error },
}

/// What a path leads to, where that is not what is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// The path has a NUL in it.
    Nul,
    Folder,
    NotFolder,
    NotFile,
    Neither,
    Link,
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.message(Language::English))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Error {
    pub fn message(&self, language: Language) -> String {
        match self {
            Error::Outside(path) => language.path_outside(path),
            Error::Missing(path) => language.path_missing(path),
            Error::Kind { path, what } => match what {
                Wrong::Nul => language.path_has_nul(path),
                Wrong::Folder => language.path_is_folder(path),
                Wrong::NotFolder => language.path_not_folder(path),
                Wrong::NotFile => language.path_not_file(path),
                Wrong::Neither => language.path_is_neither(path),
                Wrong::Link => language.path_is_link(path),
            },
            Error::Protected(path) => language.path_protected(path),
            Error::Repository(path) => language.path_in_repository(path),
            Error::Board(path) => language.path_in_board(path),
            Error::ReadOnly { path, mode } => language.path_read_only(path, format!("{mode:o}")),
            Error::Io { path, source } => language.at_file(path, source),
        }
    }

    /// For the model, in the envelope.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Outside(_) => "OUTSIDE",
            Error::Missing(_) => "NOT_FOUND",
            Error::Kind { .. } => "WRONG_KIND",
            Error::Protected(_) | Error::Repository(_) | Error::Board(_) => "PROTECTED",
            Error::ReadOnly { .. } => "READ_ONLY",
            Error::Io { .. } => "IO",
        }
    }
}

/// A file that was opened, with what is known of it.
#[derive(Debug)]
pub struct Opened {
    pub file: File,
    pub size: u64,
    pub mtime: Mtime,
    pub mode: u32,
}

pub(crate) fn mtime_of(metadata: &std::fs::Metadata) -> Mtime {
    let nanoseconds =
        i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    Mtime(u64::try_from(nanoseconds).unwrap_or(0))
}

impl Root {
    /// `protected` are whole paths; they need not exist.
    pub fn open(path: &Path, protected: &[PathBuf]) -> io::Result<Root> {
        let path = std::fs::canonicalize(path)?;
        Root::reached(&path.clone(), path, protected)
    }

    /// A folder that this process reaches by another path than the one that the agent knows.
    pub fn reached(by: &Path, path: PathBuf, protected: &[PathBuf]) -> io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(by, flags, Mode::empty())?;
        Ok(Root { fd, path, protected: protected.to_vec() })
    }

    /// The path by which this process reaches the folder, whatever the agent knows it by.
    pub fn access(&self) -> PathBuf {
        use std::os::fd::AsRawFd;
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path as a model gives it, from the root: whole paths into the project are taken, too.
    pub fn inside(&self, given: &str) -> Result<String, Error> {
        let outside = || Error::Outside(baton_core::text::shown(given, 200));
        if given.contains('\0') {
            let path = baton_core::text::shown(given, 200);
            return Err(Error::Kind { path, what: Wrong::Nul });
        }
        let path = Path::new(given.trim());
        let path = match path.is_absolute() {
            true => path.strip_prefix(&self.path).map_err(|_| outside())?,
            false => path,
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => parts.push(name.to_str().ok_or_else(outside)?),
                Component::CurDir => {}
                Component::ParentDir if !parts.is_empty() => drop(parts.pop()),
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(outside());
                }
            }
        }
        Ok(if parts.is_empty() { ".".to_owned() } else { parts.join("/") })
    }

    fn resolve(&self, inside: &str, flags: OFlags) -> Result<OwnedFd, Error> {
        let flags = flags | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // Somebody renames folders while we look: the kernel asks for another try.
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(&self.fd, inside, flags, Mode::empty(), how) {
                Ok(fd) => return Ok(fd),
                Err(Errno::AGAIN | Errno::INTR) if tries < 100 => tries += 1,
                Err(errno) => return Err(failed(inside, errno)),
            }
        }
    }

    /// A file to read; nothing but a regular one.
    pub fn read(&self, inside: &str) -> Result<Opened, Error> {
        // A pipe must not make us wait for somebody to write into it.
        let file = File::from(self.resolve(inside, OFlags::RDONLY | OFlags::NONBLOCK)?);
        let metadata = file.metadata().map_err(|source| io_failed(inside, source))?;
        let wrong = |what| Err(Error::Kind { path: shown(inside), what });
        match metadata.file_type() {
            kind if kind.is_file() => {}
            kind if kind.is_dir() => return wrong(Wrong::Folder),
            _ => return wrong(Wrong::Neither),
        }
        let (size, mtime, mode) = (metadata.len(), mtime_of(&metadata), metadata.mode());
        Ok(Opened { file, size, mtime, mode })
    }

    /// Whether there is such a file.
    pub fn is_file(&self, inside: &str) -> bool {
        self.read(inside).is_ok()
    }

    /// The end of a path that the user mentions.
    pub fn target(&self, given: &str) -> Target {
        match self.inside(given) {
            Ok(inside) if self.is_file(&inside) => Target::File,
            Ok(inside) if self.resolve(&inside, OFlags::PATH | OFlags::DIRECTORY).is_ok() => {
                Target::Folder
            }
            _ => Target::Missing,
        }
    }

    /// A folder to look through.
    pub(crate) fn folder_at(&self, inside: &str) -> Option<OwnedFd> {
        self.resolve(inside, OFlags::RDONLY | OFlags::DIRECTORY).ok()
    }

    /// The rules of the repository at the top for files that nobody else is to see.
    pub(crate) fn exclude(&self) -> Vec<Above> {
        let name = ".git/info/exclude";
        let text = self
            .read(name)
            .ok()
            .and_then(|own| load::opened(own.file, Path::new(name), walk::MOST_RULE_BYTES).ok());
        let above =
            |text| Above { below: PathBuf::new(), name: name.to_owned(), is_weak: true, text };
        text.map(above).into_iter().collect()
    }

    /// Whether a path, as a search found it, is really there and beneath the root.
    pub fn look(&self, inside: &str) -> Result<(), Error> {
        self.resolve(inside, OFlags::PATH).map(drop)
    }

    /// What a folder holds, by name.
    pub fn entries(&self, inside: &str) -> Result<Vec<Entry>, Error> {
        let fd = self.resolve(inside, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        let folder = rustix::fs::Dir::read_from(&fd).map_err(|errno| failed(inside, errno))?;
        for entry in folder {
            let entry = entry.map_err(|errno| failed(inside, errno))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                FileType::Symlink => Kind::Link,
                _ => Kind::Other,
            };
            let size = (kind == Kind::File)
                .then(|| rustix::fs::statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok())
                .flatten()
                .and_then(|stat| u64::try_from(stat.st_size).ok());
            entries.push(Entry { name, kind, size });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Refuses a path that may not be written at all. Asked first: no other reason matters then.
    pub fn check_writable(&self, inside: &str) -> Result<(), Error> {
        refuse_name(Path::new(inside), inside)?;
        let (folder, name) = inside.rsplit_once('/').unwrap_or((".", inside));
        match self.resolve(folder, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(parent) => {
                self.check_free(&parent, name, inside)?;
                check_mode(&parent, name, inside)
            }
            // Folders are checked when they are made.
            Err(Error::Missing(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes a file whole; its folders are made. Whoever reads it sees the old or the new one.
    pub fn write(&self, inside: &str, content: &[u8]) -> Result<Mtime, Error> {
        let (folder, name) = match inside.rsplit_once('/') {
            Some((folder, name)) => (folder, name),
            None => (".", inside),
        };
        if name == "." || name == ".." || name.is_empty() {
            return Err(Error::Kind { path: shown(inside), what: Wrong::Folder });
        }
        let parent = self.folder(folder)?;
        self.check_free(&parent, name, inside)?;
        check_mode(&parent, name, inside)?;
        let old = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let mode = match old.map(|old| (FileType::from_raw_mode(old.st_mode), old.st_mode)) {
            None => Mode::from_raw_mode(0o644),
            Some((FileType::RegularFile, mode)) => Mode::from_raw_mode(mode & 0o777),
            Some((FileType::Symlink, _)) => {
                return Err(Error::Kind { path: shown(inside), what: Wrong::Link });
            }
            Some(_) => return Err(Error::Kind { path: shown(inside), what: Wrong::NotFile }),
        };
        let temporary = format!(".baton-{:016x}", fastrand::u64(..));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&parent, &temporary, flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| failed(inside, errno))?;
        let written = self.fill(fd, content, mode).and_then(|mtime| {
            rustix::fs::renameat(&parent, &temporary, &parent, name)?;
            Ok(mtime)
        });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty());
        }
        written.map_err(|source| io_failed(inside, source))
    }

    fn fill(&self, fd: OwnedFd, content: &[u8], mode: Mode) -> io::Result<Mtime> {
        let mut file = File::from(fd);
        file.write_all(content)?;
        rustix::fs::fchmod(&file, mode)?;
        Ok(mtime_of(&file.metadata()?))
    }

    /// A folder, made where it is missing, step by step beneath the root.
    fn folder(&self, inside: &str) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match self.resolve(inside, flags) {
            Err(Error::Missing(_)) => {}
            other => return other,
        }
        let mut path = String::new();
        for part in inside.split('/') {
            let above = self.resolve(if path.is_empty() { "." } else { &path }, flags)?;
            self.check_free(&above, part, inside)?;
            match rustix::fs::mkdirat(&above, part, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(inside, errno)),
            }
            path = if path.is_empty() { part.to_owned() } else { format!("{path}/{part}") };
        }
        self.resolve(inside, flags)
    }

    /// The place where a name in this folder really is must be nobody else's.
    fn check_free(&self, parent: &OwnedFd, name: &str, inside: &str) -> Result<(), Error> {
        use std::os::fd::AsRawFd;
        let link = format!("/proc/self/fd/{}", parent.as_raw_fd());
        let real = std::fs::read_link(link).map_err(|source| io_failed(inside, source))?;
        let Ok(relative) = real.strip_prefix(&self.path) else {
            return Err(Error::Outside(shown(inside)));
        };
        refuse_name(&relative.join(name), inside)?;
        let lower = |path: &Path| path.to_string_lossy().to_lowercase();
        let target = PathBuf::from(lower(&real.join(name)));
        let is_protected =
            self.protected.iter().any(|own| target.starts_with(PathBuf::from(lower(own))));
        match is_protected {
            true => Err(Error::Protected(shown(inside))),
            false => Ok(()),
        }
    }
}

/// True if a path belongs to version control by its name: in the folder of a repository, at the top or
/// below it, or the file in place of one.
fn is_in_repository(inside: &Path) -> bool {
    inside.components().any(|part| is_repository_name(part.as_os_str()))
}

/// Refuses what belongs to a repository or a blackboard by its name, there or not.
fn refuse_name(path: &Path, inside: &str) -> Result<(), Error> {
    if is_in_repository(path) {
        return Err(Error::Repository(shown(inside)));
    }
    match is_in_board(path) {
        true => Err(Error::Board(shown(inside))),
        false => Ok(()),
    }
}

/// True for everything in a `.baton`, and for the files by which a folder `orchestrator` is one.
fn is_in_board(inside: &Path) -> bool {
    let parts: Vec<&OsStr> = inside.components().map(Component::as_os_str).collect();
    let is =
        |at: usize, name: &str| parts.get(at).is_some_and(|part| part.eq_ignore_ascii_case(name));
    (0..parts.len()).any(|at| {
        let is_memory = is(at, board::FOREIGN_FOLDER) && is(at + 1, "memory");
        is(at, board::FOLDER)
            || is_memory && board::MEMORY_FILES.iter().any(|name| is(at + 2, name))
            || is_memory && is(at + 2, "prompts") && parts.get(at + 3).is_some_and(is_prompt)
    })
}

fn is_prompt(name: &&OsStr) -> bool {
    let name = name.to_string_lossy().to_lowercase();
    baton_core::pack::prompt_agent(&name).is_some()
}

/// Refuses a file that nobody may write by its mode, also where this process could replace it.
fn check_mode(parent: &OwnedFd, name: &str, inside: &str) -> Result<(), Error> {
    let Ok(own) = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(());
    };
    let mode = own.st_mode & 0o7777;
    let may_not = || {
        let may = rustix::fs::accessat(parent, name, Access::WRITE_OK, AtFlags::EACCESS);
        may == Err(Errno::ACCESS)
    };
    let is_file = FileType::from_raw_mode(own.st_mode) == FileType::RegularFile;
    match is_file && (mode & 0o222 == 0 || may_not()) {
        true => Err(Error::ReadOnly { path: shown(inside), mode }),
        false => Ok(()),
    }
}

fn shown(inside: &str) -> String {
    baton_core::text::shown(inside, 200)
}

fn io_failed(inside: &str, source: io::Error) -> Error {
    Error::Io { path: shown(inside), source }
}

fn failed(inside: &str, errno: Errno) -> Error {
    match errno {
        // A link that leads out, or one of /proc.
        Errno::XDEV | Errno::LOOP => Error::Outside(shown(inside)),
        Errno::NOENT => Error::Missing(shown(inside)),
        Errno::NOTDIR => Error::Kind { path: shown(inside), what: Wrong::NotFolder },
        Errno::ISDIR => Error::Kind { path: shown(inside), what: Wrong::Folder },
        other => io_failed(inside, other.into()),
    }
}
