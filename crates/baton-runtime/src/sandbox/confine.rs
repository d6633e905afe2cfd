//! How far a program is confined, as whoever starts it says: never the program itself, and never a
//! model. Comes out: orders for the launcher, free of questions.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::home::{self, Entry, Layout, Put, Sight};
use super::space::{LayerOrders, Within};
use super::{How, Program};
use crate::load::{self, Environment};

/// How far a program is confined.
#[derive(Debug, Clone, Default)]
pub enum Confine {
    /// A group and a mark: what it starts is ended with it, as far as it can be found.
    #[default]
    Off,
    /// Its processes in a namespace of their own, so that none outlives it, and these paths
    /// read-only. Where the machine does not give that: as `Off`.
    Open { protected: Vec<PathBuf> },
    /// Nothing but what is named. Where the machine does not give that, it is not started.
    Closed(Box<Closed>),
}

/// What a closed program gets.
#[derive(Debug, Clone)]
pub struct Closed {
    /// Folders that it may change; the rest of the file system is read-only.
    pub writable: Vec<PathBuf>,
    /// Paths inside of them that it may not.
    pub protected: Vec<Protected>,
    /// What of home folders and of places with secrets it sees.
    pub sight: Sight,
    /// Its `TMPDIR`, and its `/tmp` where nothing that it needs lies in the real one.
    pub temporary: PathBuf,
    /// TCP and UDP to anywhere, or none at all. Sockets of services of this machine are never
    /// reached.
    pub network: bool,
    pub limits: Limits,
    /// Treated as if this machine did not have them: for tests of what is said then.
    pub without: Vec<Feature>,
}

/// A path that may be neither changed nor made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protected {
    pub path: PathBuf,
    /// What stands there for the time of the program, where nothing does.
    pub stand_in: StandIn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandIn {
    Folder,
    File(&'static str),
}

/// What a closed program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub processes: u64,
    /// Bytes of data of each process, and of all of them together.
    pub memory: u64,
    /// Bytes of each file that it writes.
    pub file: u64,
}

impl Default for Limits {
    /// Enough for a compiler, too little to bring the machine down.
    fn default() -> Limits {
        let memory = machine_memory().unwrap_or(8 << 30) / 4 * 3;
        Limits { processes: 1_024, memory, file: 8 << 30 }
    }
}

fn machine_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// What the confinement is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    UserNamespace,
    MountNamespace,
    PidNamespace,
    NetworkNamespace,
    Landlock,
    Seccomp,
    Overlay,
}

impl std::fmt::Display for Feature {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Feature::UserNamespace => "user namespaces",
            Feature::MountNamespace => "mount namespaces",
            Feature::PidNamespace => "PID namespaces",
            Feature::NetworkNamespace => "network and IPC namespaces",
            Feature::Landlock => "Landlock",
            Feature::Seccomp => "seccomp filters",
            Feature::Overlay => "overlay mounts",
        })
    }
}

impl Closed {
    /// The usual: the project may be changed, but neither the blackboard nor what makes git run
    /// something; keys of the user and of Baton are hidden; no network.
    pub fn usual(
        project: &Path,
        board: &Path,
        temporary: &Path,
        environment: &Environment,
    ) -> Result<Closed, String> {
        if environment.is_home_in(project) {
            return Err(format!(
                "{} holds your home folder, whose start-up files an agent must not write: work in a folder below it",
                project.display()
            ));
        }
        let mut protected = vec![Protected { path: board.to_owned(), stand_in: StandIn::Folder }];
        // A blackboard of another name does not make this place free: it would be found first.
        let own = project.join(crate::board::FOLDER);
        if own != board {
            protected.push(Protected { path: own, stand_in: StandIn::Folder });
        }
        // Also where there is no repository: then none may be planted.
        let git = project.join(".git");
        protected.push(Protected { path: git, stand_in: StandIn::Folder });
        Ok(Closed {
            writable: vec![project.to_owned()],
            protected,
            sight: Sight::of(environment, &[project.to_owned(), board.to_owned()]),
            temporary: temporary.to_owned(),
            network: false,
            limits: Limits::default(),
            without: Vec::new(),
        })
    }
}

impl Closed {
    /// The same in a view of the project: all that is written there is thrown away, so that only the
    /// blackboard needs to be protected.
    #[must_use]
    pub fn in_view(mut self, board: &Path) -> Closed {
        self.protected = vec![Protected { path: board.to_owned(), stand_in: StandIn::Folder }];
        self
    }

    /// The same, seeing all of the user's home folder but what Baton itself keeps there.
    #[must_use]
    pub fn with_home(mut self, environment: &Environment) -> Closed {
        let protected = self.protected.iter().map(|own| own.path.clone());
        let needed: Vec<PathBuf> = self.writable.iter().cloned().chain(protected).collect();
        self.sight = Sight::with_home(environment, &needed);
        self
    }
}

/// A path or a word of any bytes, as text: one character a byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Raw(String);

impl Raw {
    pub(super) fn of(text: impl AsRef<OsStr>) -> Raw {
        Raw(text.as_ref().as_bytes().iter().map(|byte| char::from(*byte)).collect())
    }

    pub(super) fn word(&self) -> OsString {
        OsString::from_vec(self.0.chars().filter_map(|c| u8::try_from(c).ok()).collect())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.word().into()
    }
}

/// What becomes of a path, in the order it is done: those that hold others first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Place {
    /// Its own files, to be changed.
    Writable(Raw),
    /// A mount of its own and nothing else, so that it cannot be renamed.
    Pinned(Raw),
    Protected(Raw),
    /// A file that is found empty.
    Hidden(Raw),
    /// A folder in which nothing else is found, or a file with another text.
    Covered(Raw, Vec<(Raw, Content)>),
    /// Its own files, in a folder that is covered.
    Shown(Raw),
}

/// What is in a folder that covers another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Content {
    Folder,
    Text(String),
    Link(Raw),
}

impl From<Entry> for Content {
    fn from(entry: Entry) -> Content {
        match entry {
            Entry::Folder => Content::Folder,
            Entry::File => Content::Text(String::new()),
            Entry::Put(Put::Text(text)) => Content::Text(text),
            Entry::Put(Put::Link(to)) => Content::Link(Raw::of(to)),
        }
    }
}

impl Place {
    pub(super) fn path(&self) -> PathBuf {
        let (Place::Writable(raw)
        | Place::Pinned(raw)
        | Place::Protected(raw)
        | Place::Hidden(raw)
        | Place::Covered(raw, _)
        | Place::Shown(raw)) = self;
        raw.path()
    }
}

/// All that the launcher needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) argv: Vec<Raw>,
    pub(super) folder: Raw,
    pub(super) places: Vec<Place>,
    pub(super) closed: Option<ClosedOrders>,
    /// The control group that bounds the number of its processes and threads.
    pub(super) tasks: Option<Raw>,
    /// The one that bounds their memory.
    pub(super) memory: Option<Raw>,
    /// The view that it sees the project in.
    pub(super) within: Option<Within>,
    /// No program, but a view that is to be kept.
    pub(super) layers: Vec<LayerOrders>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClosedOrders {
    pub(super) temporary: Raw,
    /// Whether it is also `/tmp`.
    pub(super) is_tmp: bool,
    pub(super) network: bool,
    pub(super) limits: Limits,
    pub(super) without: Vec<Feature>,
}

/// A path as it is on disk, all of it existing and free of links.
fn real(path: &Path, what: &str) -> Result<PathBuf, String> {
    fs::canonicalize(path).map_err(|error| format!("{what} {}: {error}", path.display()))
}

impl Orders {
    /// Stand-ins are on disk as long as the second value lives.
    pub(super) fn of(program: &Program) -> Result<Option<(Orders, StandIns)>, String> {
        if matches!(program.confine, Confine::Off) {
            return Ok(None);
        }
        let mut standing = StandIns::default();
        let folder = real(&program.folder, "the folder to work in")?;
        let (mut places, closed) = match &program.confine {
            Confine::Off => (Vec::new(), None),
            Confine::Open { protected } => {
                let existing = protected.iter().filter_map(|path| fs::canonicalize(path).ok());
                (existing.map(|path| Place::Protected(Raw::of(path))).collect(), None)
            }
            Confine::Closed(closed) => {
                let (places, orders) = closed_orders(program, closed, &folder, &mut standing)?;
                (places, Some(orders))
            }
        };
        places.sort_by_key(|place: &Place| place.path().components().count());
        let argv = program.argv.iter().map(Raw::of).collect();
        let orders = Orders {
            argv,
            folder: Raw::of(folder),
            places,
            closed,
            tasks: None,
            memory: None,
            within: program.within,
            layers: Vec::new(),
        };
        Ok(Some((orders, standing)))
    }

    /// Whether both ask for the same sandbox, whatever runs in it.
    pub(super) fn is_same_sandbox(&self, other: &Orders) -> bool {
        let key = |own: &Orders| (own.folder.clone(), own.within);
        key(self) == key(other) && (&self.places, &self.closed) == (&other.places, &other.closed)
    }
}

fn closed_orders(
    program: &Program,
    closed: &Closed,
    folder: &Path,
    standing: &mut StandIns,
) -> Result<(Vec<Place>, ClosedOrders), String> {
    let temporary = real(&closed.temporary, "the temporary folder")?;
    let mut writable = vec![temporary.clone()];
    for path in &closed.writable {
        let path = real(path, "the folder to write in")?;
        if path.parent().is_none() {
            return Err("the whole file system cannot be writable".to_owned());
        }
        writable.push(path);
    }
    let mut places: Vec<Place> = Vec::new();
    let mut pinned: Vec<PathBuf> = Vec::new();
    // A folder that holds a mount can be renamed, and another put in its place; a mount cannot.
    let pins = |path: &Path| -> Vec<PathBuf> {
        let roots = writable.iter().filter(|root| path.starts_with(root));
        let Some(root) = roots.max_by_key(|root| root.components().count()) else {
            return Vec::new();
        };
        let between = path.ancestors().skip(1).take_while(|own| *own != root.as_path());
        between.map(Path::to_owned).collect()
    };
    for own in &closed.protected {
        let Some(path) = standing.ensure(own, &writable)? else { continue };
        pinned.extend(pins(&path));
        places.push(Place::Protected(Raw::of(path)));
    }
    // A program that its starter names is seen; what only has the name of one is not.
    let named = program.argv.first().map(PathBuf::from).filter(|path| home::is_program(path));
    let mut sight = closed.sight.clone();
    sight.shown.extend(named.iter().filter_map(|path| fs::canonicalize(path).ok()));
    let Layout { folders, files, shown } = home::layout(&sight, &writable);
    for path in folders.keys().chain(&files) {
        pinned.extend(pins(path));
    }
    places.extend(files.into_iter().map(|path| Place::Hidden(Raw::of(path))));
    places.extend(shown.into_iter().map(|path| Place::Shown(Raw::of(path))));
    places.extend(folders.into_iter().map(|(path, entries)| {
        let entries = entries.into_iter().map(|(path, own)| (Raw::of(path), own.into()));
        Place::Covered(Raw::of(path), entries.collect())
    }));
    pinned.sort_unstable();
    pinned.dedup();
    pinned.retain(|path| !places.iter().any(|place| place.path() == *path));
    places.extend(pinned.into_iter().map(|path| Place::Pinned(Raw::of(path))));
    // Covering /tmp would cover what lies in it.
    let needed = closed.writable.iter().filter_map(|path| fs::canonicalize(path).ok());
    let mut needed = needed.chain(named).chain([folder.to_owned()]);
    let is_tmp = !needed.any(|path| path.starts_with("/tmp"));
    places.extend(writable.into_iter().map(|path| Place::Writable(Raw::of(path))));
    let orders = ClosedOrders {
        temporary: Raw::of(temporary),
        is_tmp,
        network: closed.network,
        limits: closed.limits,
        without: closed.without.clone(),
    };
    Ok((places, orders))
}

/// How many programs need a stand-in that is on disk now.
static STANDING: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

/// What stands where nothing may be made: an empty folder, or a file that says nothing. Goes with
/// the last program that needs it, if it is still what it was.
#[derive(Debug, Default)]
pub(super) struct StandIns(Vec<(PathBuf, StandIn)>);

impl StandIns {
    /// For all that is protected and is not there.
    pub(super) fn of(closed: &Closed) -> Result<StandIns, String> {
        let mut standing = StandIns::default();
        let writable: Vec<PathBuf> =
            closed.writable.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        for own in &closed.protected {
            standing.ensure(own, &writable)?;
        }
        Ok(standing)
    }

    /// The path that is to be protected: this one, or the first above it that does not exist.
    /// `None`: it lies in no writable folder, and is protected as it is.
    fn ensure(&mut self, own: &Protected, writable: &[PathBuf]) -> Result<Option<PathBuf>, String> {
        // The writable folder may have been named through a link.
        let (Some(parent), Some(name)) = (own.path.parent(), own.path.file_name()) else {
            return Ok(None);
        };
        let Ok(parent) = fs::canonicalize(parent) else {
            let up = Protected { path: parent.to_owned(), stand_in: StandIn::Folder };
            return self.ensure(&up, writable);
        };
        let path = parent.join(name);
        if !writable.iter().any(|root| path.starts_with(root) && path != *root) {
            return Ok(None);
        }
        let mut standing = STANDING.lock().unwrap_or_else(PoisonError::into_inner);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => Err(format!(
                "{} is a link, which cannot be protected; put what it points to in its place",
                path.display()
            )),
            Ok(_) => {
                if let Some(count) = standing.get_mut(&path) {
                    *count += 1;
                    self.0.push((path.clone(), own.stand_in));
                }
                Ok(Some(path))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = match own.stand_in {
                    StandIn::Folder => fs::create_dir(&path),
                    StandIn::File(text) => {
                        File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()))
                    }
                };
                match made {
                    // Another process was faster.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        drop(standing);
                        return self.ensure(own, writable);
                    }
                    made => {
                        made.map_err(|error| {
                            format!("cannot protect {}: {error}", path.display())
                        })?;
                    }
                }
                standing.insert(path.clone(), 1);
                self.0.push((path.clone(), own.stand_in));
                Ok(Some(path))
            }
            Err(error) => Err(format!("cannot look at {}: {error}", path.display())),
        }
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        let mut standing = STANDING.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, kind) in self.0.drain(..) {
            let Some(count) = standing.get_mut(&path) else { continue };
            *count -= 1;
            if *count > 0 {
                continue;
            }
            standing.remove(&path);
            let _ = match kind {
                StandIn::Folder => fs::remove_dir(&path),
                StandIn::File(text) => match load::bytes(&path, load::SMALL) {
                    Ok(now) if now == text.as_bytes() => fs::remove_file(&path),
                    _ => Ok(()),
                },
            };
        }
    }
}

/// What the launcher says about itself and the program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Line {
    /// The first process of the namespace, by its number outside.
    First(i32),
    /// What was found on the way.
    Found {
        own_proc: bool,
        landlock: i32,
    },
    Missing(Feature, String),
    /// The program is started now. Without this line it was not.
    Begins,
    /// The confinement could not be made.
    Failed(String),
    /// The program could not be started in it.
    NotStarted(String),
    /// It was ended because it used too much.
    TooMuch(String),
    Exit(i32),
    Signal(i32),
}

/// A piece of memory that carries orders to the launcher and lines back. It has no name, and the
/// program never holds it.
#[derive(Debug)]
pub(super) struct Sheet(File);

impl Sheet {
    pub(super) fn with(orders: &Orders) -> Result<Sheet, String> {
        let make = || -> io::Result<File> {
            let memory = rustix::fs::memfd_create("orders", rustix::fs::MemfdFlags::CLOEXEC)?;
            let mut file = File::from(memory);
            file.write_all(&serde_json::to_vec(orders)?)?;
            Ok(file)
        };
        make().map(Sheet).map_err(|error| format!("cannot write orders: {error}"))
    }

    pub(super) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(super) fn report(&self) -> Report {
        let length = self.0.metadata().map_or(0, |metadata| metadata.len()).min(1 << 20);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let mut report = Report::default();
        if self.0.read_exact_at(&mut bytes, 0).is_ok() {
            for line in bytes.split(|byte| *byte == b'\n') {
                if let Ok(line) = serde_json::from_slice(line) {
                    report.add(line);
                }
            }
        }
        report
    }
}

/// The lines of a launcher, sorted.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) first: Option<i32>,
    pub(super) found: Option<(bool, i32)>,
    pub(super) has_begun: bool,
    pub(super) missing: Option<(Feature, String)>,
    pub(super) failed: Option<String>,
    pub(super) not_started: Option<String>,
    pub(super) too_much: Option<String>,
    pub(super) how: Option<How>,
}

impl Report {
    fn add(&mut self, line: Line) {
        match line {
            Line::First(pid) => self.first = Some(pid),
            Line::Found { own_proc, landlock } => self.found = Some((own_proc, landlock)),
            Line::Begins => self.has_begun = true,
            Line::Missing(feature, why) => self.missing = Some((feature, why)),
            Line::Failed(why) => self.failed = Some(why),
            Line::NotStarted(why) => self.not_started = Some(why),
            Line::TooMuch(what) => self.too_much = Some(what),
            Line::Exit(code) => self.how = Some(How::Exit(code)),
            Line::Signal(signal) => self.how = Some(How::Signal(signal)),
        }
    }
}
