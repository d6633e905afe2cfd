//! Repositories and blackboards inside the project. Git and its like run programs that a repository's
//! own settings name, as soon as the user, a prompt or an editor looks at it; Baton works by the prompts
//! and rules of the blackboard that it finds. So those that are there are read-only for commands of
//! agents, and one that a command made is moved aside: renamed where it is, so that nothing finds it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::board;
use crate::load::{self, Environment};
use crate::sandbox::{Protected, StandIn};
use crate::{store, view};

/// Names by which version control finds the repository of a folder.
const NAMES: [&str; 5] = [".git", ".hg", ".jj", ".bzr", "_darcs"];
/// Names of what makes a folder a repository, whatever its own name.
pub(crate) const PARTS: [&str; 4] = ["HEAD", "commondir", "objects", "refs"];
/// Added to the name of what is moved aside.
const ASIDE: &str = "-moved-aside";
/// Below the folder for Baton's state: what was there before a command that may still be running.
const FOLDER: &str = "repositories";
const MOST_KNOWN: u64 = 16 << 20;
/// Folders that are looked at, and how deep.
const MOST_FOLDERS: usize = 500_000;
const DEEPEST: usize = 200;
/// Longer than the tick of any kernel.
const TICKS: Duration = Duration::from_millis(30);
/// Repositories inside of repositories that were moved aside.
const ROUNDS: usize = 64;

/// True if version control finds a repository by this name.
pub fn is_repository_name(name: &OsStr) -> bool {
    NAMES.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Begin the lines for the user.
const MOVED: &str = "moved aside, since git would run what they name";
const MOVED_BOARD: &str = "moved aside, since agents do not make blackboards";

const TOO_LARGE: &str = "repositories that agents make are not found everywhere: the project has more than 500,000 folders, folders that are nested more than 200 deep, or folders that cannot be read";

/// What was renamed: from, to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    pub from: PathBuf,
    pub to: PathBuf,
    /// False for a repository.
    pub is_board: bool,
}

/// True if a folder was not there when an agent began to work in a project above it, and that work is
/// not over. `state`: the folder of Baton's own state.
pub(crate) fn is_new_in_work(board: &Path, state: Option<&Path>) -> bool {
    let Some(state) = state else { return false };
    let real = |path: &Path| fs::canonicalize(path).ok();
    let (Some(parent), Some(name)) = (board.parent().and_then(real), board.file_name()) else {
        return false;
    };
    let path = parent.join(name);
    parent.ancestors().any(|project| {
        let known = read_known(&list_file(state, project));
        known.is_some_and(|known| known.get(&path).copied() != identity(&path))
    })
}

/// The file in which the list of a project is kept while an agent works there.
fn list_file(state: &Path, project: &Path) -> PathBuf {
    let name = blake3::hash(project.as_os_str().as_bytes()).to_hex()[..16].to_owned();
    state.join(FOLDER).join(name)
}

fn identity(path: &Path) -> Option<Identity> {
    let own = fs::symlink_metadata(path).ok()?;
    Some((own.dev(), own.ino()))
}

fn read_known(file: &Path) -> Option<BTreeMap<PathBuf, Identity>> {
    let bytes = load::bytes(file, MOST_KNOWN).ok()?;
    let entries = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let read = |entry: &[u8]| {
        let mut parts = entry.splitn(3, |byte| *byte == b' ');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
        let identity = (number()?, number()?);
        Some((PathBuf::from(OsString::from_vec(parts.next()?.to_vec())), identity))
    };
    entries.map(read).collect()
}

/// A project whose repositories are looked after.
#[derive(Debug, Clone)]
pub struct Ground {
    project: PathBuf,
    /// Not looked at: agents cannot write there.
    board: PathBuf,
    /// See [`FOLDER`].
    file: Option<PathBuf>,
    /// The folder of Baton's own state.
    state: Option<PathBuf>,
}

impl Ground {
    pub fn new(project: &Path, board: &Path, environment: &Environment) -> Ground {
        Ground::within(project, board, environment.state_folder().as_deref())
    }

    /// `state`: the folder of Baton's own state.
    pub fn within(project: &Path, board: &Path, state: Option<&Path>) -> Ground {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let project = real(project);
        let file = state.map(|state| list_file(state, &project));
        Ground { project, board: real(board), file, state: state.map(Path::to_owned) }
    }

    /// True if a process died while an agent worked here.
    pub fn was_left(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.exists())
    }

    /// Looks at the project. Where a process died while an agent worked, what was there before counts,
    /// and everything else is moved aside.
    pub fn open(&self) -> io::Result<Repositories> {
        let in_use = self.file.as_ref().and_then(|file| {
            view::private_folder(file.parent()?).ok()?;
            view::lock_file(&file.with_extension("lock")).ok()
        });
        let is_alone = in_use.as_ref().is_some_and(|lock| lock.try_lock().is_ok());
        let mut own = Repositories {
            ground: self.clone(),
            known: BTreeMap::new(),
            folders: BTreeMap::new(),
            moved: Vec::new(),
            is_whole: true,
            is_told: false,
            closed: BTreeMap::new(),
            opened: Vec::new(),
            stuck: BTreeMap::new(),
            is_alone,
            in_use,
        };
        match own.left_behind() {
            Some(known) => {
                own.known = known;
                own.remove_stand_ins();
                own.move_new_aside()?;
            }
            None => own.accept()?,
        }
        if let Some(lock) = &own.in_use {
            // Others may work here from now on.
            let _ = lock.try_lock_shared();
        }
        match own.known.contains_key(&self.project) {
            // Its settings and hooks would be files like any other.
            true => {
                Err(io::Error::other("the project is a bare repository; use a work tree of it"))
            }
            false => Ok(own),
        }
    }
}

/// The repositories of a project, and the folders as they were at the last look.
#[derive(Debug)]
pub struct Repositories {
    ground: Ground,
    known: BTreeMap<PathBuf, Identity>,
    folders: BTreeMap<PathBuf, Folder>,
    /// Everything that was moved aside so far.
    moved: Vec<Moved>,
    is_whole: bool,
    /// True if the user was told that it is not whole.
    is_told: bool,
    /// Folders that their owner could not look into before the agent's work. They are left as they are.
    closed: BTreeMap<PathBuf, Look>,
    /// Folders that an agent closed and that were opened, until the user is told.
    opened: Vec<PathBuf>,
    /// What could not be moved aside, and why.
    stuck: BTreeMap<PathBuf, String>,
    /// True if no other process worked here when this one began.
    is_alone: bool,
    /// Locked as long as an agent works here.
    in_use: Option<File>,
}

/// Device and inode.
type Identity = (u64, u64);

/// Identity and time of change.
type Look = (Identity, i64, i64);

/// A folder at the last look: its entries count as long as its time of change is the same.
#[derive(Debug, Clone)]
struct Folder {
    look: Look,
    is_settled: bool,
    folders: Vec<OsString>,
    /// Entries by which a repository is found.
    repositories: Vec<OsString>,
    /// Entries that have the name of a blackboard.
    boards: Vec<OsString>,
    /// True if the folder itself is a repository without a work tree.
    is_bare: bool,
}

impl Repositories {
    /// The repositories that are there now are the user's.
    pub fn accept(&mut self) -> io::Result<()> {
        self.known = self.look(false);
        let Some(file) = &self.ground.file else { return Ok(()) };
        let mut bytes = Vec::new();
        let board = &self.ground.board;
        let own = identity(board).map(|own| (board, own));
        let known = self.known.iter().map(|(path, own)| (path, *own));
        for (path, (device, inode)) in known.chain(own) {
            bytes.extend_from_slice(format!("{device} {inode} ").as_bytes());
            bytes.extend_from_slice(path.as_os_str().as_bytes());
            bytes.push(0);
        }
        if let Some(folder) = file.parent() {
            view::private_folder(folder).map_err(|error| io::Error::other(error.to_string()))?;
        }
        store::write(file, &bytes).map_err(|error| io::Error::other(error.to_string()))
    }

    /// Removes what stood in for protected folders when a process died, where it is still empty and no
    /// other process works here, which could need it.
    fn remove_stand_ins(&self) {
        let git = self.ground.project.join(".git");
        for path in [&git, &self.ground.board] {
            if self.is_alone && !self.known.contains_key(path) {
                let _ = fs::remove_dir(path);
            }
        }
    }

    /// What a process that died had written down.
    fn left_behind(&self) -> Option<BTreeMap<PathBuf, Identity>> {
        read_known(self.ground.file.as_ref()?)
    }

    /// For commands that may write the project: these stay as they are.
    pub fn protected(&self) -> impl Iterator<Item = Protected> + '_ {
        // A link cannot be protected; one that is replaced is moved aside. That at the top is always
        // protected.
        let top = self.ground.project.join(".git");
        let is_own = move |path: &Path| path == top || path == self.ground.board;
        let paths = self.known.keys().filter(move |path| !is_own(path) && !path.is_symlink());
        paths.map(|path| Protected { path: path.clone(), stand_in: StandIn::Folder })
    }

    /// The one that a path, which need not exist, leads into.
    pub(crate) fn holder_of(&self, path: &Path) -> Option<&Path> {
        let mut existing = path.ancestors().filter_map(|own| fs::canonicalize(own).ok());
        let path = existing.next()?;
        self.known.keys().find(|own| path.starts_with(own)).map(PathBuf::as_path)
    }

    /// Moves aside what was not there; what was moved now.
    pub fn move_new_aside(&mut self) -> io::Result<Vec<Moved>> {
        let before = self.moved.len();
        for _ in 0..ROUNDS {
            let opened = self.opened.len();
            let found = self.look(true);
            let state = self.ground.state.as_deref();
            // The user may make a blackboard at the same time.
            let is_users = |path: &Path| {
                path.file_name().is_some_and(board::is_name) && board::is_made_by_us(path, state)
            };
            let is_new = |own: &(&PathBuf, &Identity)| {
                let is_known = self.known.get(own.0) == Some(own.1);
                !is_known && !self.stuck.contains_key(own.0) && !is_users(own.0)
            };
            let new: Vec<PathBuf> =
                found.iter().filter(is_new).map(|(path, _)| path.clone()).collect();
            // In a folder that was opened there may be more than was seen.
            if new.is_empty() && self.opened.len() == opened {
                break;
            }
            for path in new {
                for (from, is_board) in entries_by_which_found(&path) {
                    match moved_aside(&from) {
                        Ok(to) => self.moved.push(Moved { from, to, is_board }),
                        // One that stays must not keep the others where they are.
                        Err(error) => drop(self.stuck.insert(path.clone(), error.to_string())),
                    }
                }
            }
        }
        Ok(self.moved[before..].to_vec())
    }

    /// Everything that was moved aside since this was opened.
    pub fn moved(&self) -> &[Moved] {
        &self.moved
    }

    /// A path for the user and for models.
    pub fn shown(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.ground.project).unwrap_or(path);
        baton_core::text::shown(&inside.to_string_lossy(), 200)
    }

    /// One line on each thing that was moved.
    pub fn told(&self, moved: &[Moved]) -> Vec<String> {
        let line = |own: &Moved| format!("{} → {}", self.shown(&own.from), self.shown(&own.to));
        moved.iter().map(line).collect()
    }

    /// What the user is told about what was moved, and once if the project is too large to be looked
    /// through. `when`: more words on how it came about.
    pub fn notices(&mut self, moved: &[Moved], when: &str) -> Vec<String> {
        let of = |is_board: bool| -> Vec<Moved> {
            moved.iter().filter(|own| own.is_board == is_board).cloned().collect()
        };
        let kinds = [(MOVED, of(false)), (MOVED_BOARD, of(true))];
        let kinds = kinds.into_iter().filter(|(_, moved)| !moved.is_empty());
        let about = |(why, moved): (&str, Vec<Moved>)| {
            format!("{why}{when}: {}", self.told(&moved).join(", "))
        };
        let mut all: Vec<String> = kinds.map(about).collect();
        let opened = std::mem::take(&mut self.opened);
        if !opened.is_empty() {
            let names: Vec<String> = opened.iter().map(|path| self.shown(path)).collect();
            all.push(format!(
                "opened again, since nobody could look into them: {}",
                names.join(", ")
            ));
        }
        all.extend(self.stuck());
        if !self.is_whole && !self.is_told {
            self.is_told = true;
            all.push(TOO_LARGE.to_owned());
        }
        all
    }

    /// One line on each thing that could not be moved aside.
    pub fn stuck(&self) -> Vec<String> {
        let line = |(path, why): (&PathBuf, &String)| {
            let path = self.shown(path);
            format!(
                "{path} was made by an agent and cannot be moved aside ({why}): remove it before you use git or Baton there"
            )
        };
        self.stuck.iter().map(line).collect()
    }

    /// The folder as it is now, opened if an agent closed it and `opens` says so.
    fn looked_at(&mut self, path: &Path, opens: bool) -> io::Result<fs::Metadata> {
        let own = fs::symlink_metadata(path)?;
        let is_own = own.uid() == rustix::process::geteuid().as_raw();
        if !own.is_dir() || !is_own || own.mode() & 0o500 == 0o500 {
            return Ok(own);
        }
        let look = look_of(&own);
        if !opens {
            self.closed.insert(path.to_owned(), look);
        } else if self.closed.get(path) != Some(&look) {
            fs::set_permissions(path, fs::Permissions::from_mode(own.mode() | 0o700))?;
            self.opened.push(path.to_owned());
            return fs::symlink_metadata(path);
        }
        Ok(own)
    }

    /// Every repository that is there now. A folder is read again only where it changed. `opens`: see
    /// [`Repositories::looked_at`].
    fn look(&mut self, opens: bool) -> BTreeMap<PathBuf, Identity> {
        let mut before = std::mem::take(&mut self.folders);
        let mut found = BTreeMap::new();
        let mut left = vec![(self.ground.project.clone(), 0)];
        self.is_whole = true;
        while let Some((path, depth)) = left.pop() {
            // The clock first: what changes after the look is later than it.
            let moment = SystemTime::now();
            let own = match self.looked_at(&path, opens) {
                Ok(own) => own,
                Err(error) => {
                    // A path that is too long, or a folder that may not be entered.
                    self.is_whole &= error.kind() == io::ErrorKind::NotFound;
                    continue;
                }
            };
            if !own.is_dir() || path == self.ground.board {
                continue;
            }
            if depth > DEEPEST || self.folders.len() >= MOST_FOLDERS {
                self.is_whole = false;
                continue;
            }
            let look = look_of(&own);
            let known = before.remove(&path).filter(|own| own.is_settled && own.look == look);
            let folder = known.unwrap_or_else(|| Folder::read(&path, look, moment));
            for name in &folder.repositories {
                let path = path.join(name);
                // Nothing finds an empty one, which may be a stand-in.
                if is_empty_folder(&path) {
                    continue;
                }
                found.extend(identity(&path).map(|own| (path, own)));
            }
            for name in &folder.boards {
                let path = path.join(name);
                if self.ground.is_other_board(&path) {
                    found.extend(identity(&path).map(|own| (path, own)));
                }
            }
            if folder.is_bare {
                found.insert(path.clone(), look.0);
            }
            // Below the top nothing else is found in one.
            if !folder.is_bare || depth == 0 {
                left.extend(folder.folders.iter().map(|name| (path.join(name), depth + 1)));
            }
            self.folders.insert(path, folder);
        }
        found
    }
}

impl Drop for Repositories {
    /// The agent's work has ended in good order, unless something of it is still in the way.
    fn drop(&mut self) {
        if let Some(file) = self.ground.file.as_ref().filter(|_| self.stuck.is_empty()) {
            let _ = fs::remove_file(file);
        }
    }
}

impl Folder {
    fn read(path: &Path, look: Look, moment: SystemTime) -> Folder {
        let (mut folders, mut repositories, mut boards) = (Vec::new(), Vec::new(), Vec::new());
        let (mut head, mut objects, mut refs, mut common) = (false, false, false, false);
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match name.as_bytes() {
                b"HEAD" => head = !is_folder,
                b"commondir" => common = !is_folder,
                b"objects" => objects = true,
                b"refs" => refs = true,
                _ => {}
            }
            if is_repository_name(&name) {
                repositories.push(name);
                continue;
            }
            if board::is_name(&name) {
                boards.push(name.clone());
            }
            if is_folder {
                folders.push(name);
            }
        }
        let is_bare = head && (common || objects && refs);
        let is_settled = is_settled((look.1, look.2), moment);
        Folder { look, is_settled, folders, repositories, boards, is_bare }
    }
}

impl Ground {
    /// True if this is a blackboard, and not that of this work.
    fn is_other_board(&self, path: &Path) -> bool {
        let is_baton =
            path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(board::FOLDER));
        // Nothing finds an empty `.baton`, which may be a stand-in.
        let is_found = if is_baton { !board::is_unfinished(path) } else { board::is_board(path) };
        is_found && *path != self.board
    }
}

/// What has to be renamed so that nothing finds a repository or a blackboard; true for a blackboard.
fn entries_by_which_found(path: &Path) -> Vec<(PathBuf, bool)> {
    let name = path.file_name().unwrap_or_default();
    if is_repository_name(name) {
        return vec![(path.to_owned(), false)];
    }
    if name.eq_ignore_ascii_case(board::FOLDER) {
        return vec![(path.to_owned(), true)];
    }
    if !(name.eq_ignore_ascii_case(board::FOREIGN_FOLDER) && board::is_board(path)) {
        // A repository without a work tree is found by this file.
        return vec![(path.join("HEAD"), false)];
    }
    // Not the whole folder: it may hold the project's own code. A link is renamed, never what it
    // leads to.
    let memory = path.join("memory");
    let prompts = memory.join("prompts");
    if let Some(link) = [path, &memory, &prompts].into_iter().find(|own| own.is_symlink()) {
        return vec![(link.to_owned(), true)];
    }
    let files = board::MEMORY_FILES.iter().map(|name| memory.join(name));
    let found = files.filter(|file| file.symlink_metadata().is_ok());
    let own = board::prompts(&memory).into_iter().map(|name| prompts.join(name));
    found.chain(own).map(|file| (file, true)).collect()
}

fn is_empty_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|own| own.is_dir())
        && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether a change after `moment` must show in the time of change.
fn is_settled(changed: (i64, i64), moment: SystemTime) -> bool {
    let seconds = u64::try_from(changed.0).unwrap_or(u64::MAX);
    let since = Duration::new(seconds, u32::try_from(changed.1).unwrap_or(0));
    let moment = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    moment.checked_sub(since).is_some_and(|age| age > TICKS)
}

fn look_of(own: &fs::Metadata) -> Look {
    ((own.dev(), own.ino()), own.ctime(), own.ctime_nsec())
}

/// Renames a file or folder where it is, also in a folder that may not be written; its new path.
fn moved_aside(path: &Path) -> io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(path);
    let closed = match renamed(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => fs::metadata(folder)?,
        done => return done,
    };
    fs::set_permissions(folder, fs::Permissions::from_mode(closed.mode() | 0o700))?;
    let done = renamed(path);
    let _ = fs::set_permissions(folder, closed.permissions());
    done
}

fn renamed(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default();
    for number in 1..1_000 {
        let mut new = name.to_owned();
        new.push(ASIDE);
        if number > 1 {
            new.push(format!("-{number}"));
        }
        let to = path.with_file_name(new);
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(rustix::fs::CWD, path, rustix::fs::CWD, &to, flags) {
            Ok(()) => return Ok(to),
            Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::other("there are too many of them"))
}
