//! The project's files, tracked or not, kept by their content before and after a stage that may write
//! them. Nothing of git is touched; which files it tracks is asked for without the project's own
//! configuration, which therefore cannot make us start anything. Files that git ignores and does not
//! track are not covered, and this is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::git;
use crate::load::{self, Environment};
use crate::store::{self, Disk};

const FOLDER: &str = "snapshots";
/// A larger file is not kept; it is named.
const MAX_BYTES: u64 = 64 << 20;
const MAX_MANIFEST: u64 = 1 << 30;
/// Folders of version control, whose content is not the project's.
const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".svn", ".jj"];
/// A file changed so shortly before the look may change again without a new time.
const RACY_SECONDS: i64 = 2;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot look at {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the snapshot {0} is not there")]
    Missing(String),
    #[error("the snapshot {id} is damaged: {why}")]
    Damaged { id: String, why: String },
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// `120000` for a link, else the permissions.
    pub mode: u32,
    pub hash: String,
}

/// All files of a project, by path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    pub files: BTreeMap<String, Entry>,
}

const LINK: u32 = 0o120_000;

/// What was known of a file at the last look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    look: (u64, u64, i64, i64, i64, i64),
    entry: Entry,
}

/// The files that a look covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Covers {
    /// Also what git tracks though a rule ignores it, and what only search tools ignore.
    All,
    /// The files that every version of Baton covered.
    OnlyPlain,
}

/// The snapshots of one project.
#[derive(Debug)]
pub struct Snapshots {
    project: PathBuf,
    /// The blackboard, which is not part of the project.
    board: PathBuf,
    disk: Disk,
    known: BTreeMap<String, Known>,
    /// Files that were too large to be kept.
    pub skipped: Vec<String>,
    /// Files that another process is writing for us, by device and inode: never restored.
    pub outputs: BTreeSet<(u64, u64)>,
    /// Files that received the output of this run, by name: never restored.
    pub named_outputs: BTreeSet<String>,
    tracked: Tracked,
    /// The names in the last snapshot.
    names: Vec<String>,
}

/// The files that git tracks; asked for again only when git's index has changed.
#[derive(Debug, Default)]
struct Tracked {
    environment: Option<Environment>,
    index: Option<(u64, u64, i64, i64)>,
    names: Option<Arc<BTreeSet<String>>>,
}

impl Snapshots {
    pub fn new(project: &Path, board: &Path, disk: Disk) -> Snapshots {
        let known = load::text(&board.join(FOLDER).join("index.json"), MAX_MANIFEST).ok();
        let known = known.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Snapshots {
            project: project.to_owned(),
            board: board.to_owned(),
            disk,
            known,
            skipped: Vec::new(),
            outputs: BTreeSet::new(),
            named_outputs: BTreeSet::new(),
            tracked: Tracked::default(),
            names: Vec::new(),
        }
    }

    /// The same; files that git tracks are part of a snapshot though a rule ignores them.
    #[must_use]
    pub fn with_git(mut self, environment: &Environment) -> Snapshots {
        self.tracked.environment = Some(environment.clone());
        self
    }

    /// The files of the project that git tracks. `None` outside git and before the first one.
    pub fn tracked(&mut self) -> Option<Arc<BTreeSet<String>>> {
        let environment = self.tracked.environment.as_ref()?;
        let metadata = fs::metadata(git::index(&self.project)?).ok()?;
        let index = (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        if self.tracked.index != Some(index) {
            self.tracked.names = git::tracked(&self.project, environment).map(Arc::new);
            // Where it could not be listed, the next look asks again.
            self.tracked.index = self.tracked.names.is_some().then_some(index);
        }
        self.tracked.names.clone()
    }

    /// Keeps the project as it is now; its name is made of its content.
    pub fn take(&mut self) -> Result<String, Error> {
        // Whoever may not read a file of the project may not read it here.
        self.disk.make_private(&self.board.join(FOLDER))?;
        let (manifest, looks) = self.look(Covers::All)?;
        let text = store::json(&self.board.join(FOLDER), &manifest.files)?;
        let id = blake3::hash(text.as_bytes()).to_hex()[..32].to_owned();
        let path = self.manifest_path(&id);
        if !path.exists() {
            self.disk.write_new(&path, text.as_bytes())?;
        }
        if self.known != looks {
            self.known = looks;
            let path = self.board.join(FOLDER).join("index.json");
            // It only saves work: it need not be synced, and is read with care.
            store::write_new(&path, store::json(&path, &self.known)?.as_bytes())?;
        }
        self.names = manifest.files.into_keys().collect();
        Ok(id)
    }

    /// The names of the project's files in the last snapshot that was taken.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn manifest_path(&self, id: &str) -> PathBuf {
        self.board.join(FOLDER).join(format!("{id}.json"))
    }

    fn object_path(&self, hash: &str) -> PathBuf {
        self.board.join(FOLDER).join("objects").join(&hash[..2.min(hash.len())]).join(hash)
    }

    /// Every file that is covered, its content kept.
    fn look(&mut self, covers: Covers) -> Result<(Manifest, BTreeMap<String, Known>), Error> {
        let mut manifest = Manifest::default();
        let mut looks = BTreeMap::new();
        self.skipped.clear();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        for path in self.paths(covers)? {
            let Ok(inside) = path.strip_prefix(&self.project) else { continue };
            let Some(name) = inside.to_str().map(str::to_owned) else { continue };
            let io = |source| Error::Io { path: path.clone(), source };
            let metadata = match fs::symlink_metadata(&path) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(io(error)),
            };
            let look = (
                metadata.ino(),
                metadata.len(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            );
            let known = self.known.get(&name).filter(|known| known.look == look);
            let entry = match known {
                Some(known) => known.entry.clone(),
                None if metadata.is_symlink() => {
                    let target = fs::read_link(&path).map_err(io)?;
                    let hash = self.keep(target.as_os_str().as_encoded_bytes())?;
                    Entry { mode: LINK, hash }
                }
                None if metadata.len() > MAX_BYTES => {
                    self.skipped.push(name.clone());
                    manifest.files.insert(name, Entry { mode: 0, hash: String::new() });
                    continue;
                }
                None => {
                    let bytes = load::bytes(&path, MAX_BYTES)?;
                    let hash = self.keep(&bytes)?;
                    Entry { mode: metadata.permissions().mode() & 0o777, hash }
                }
            };
            if now - metadata.ctime() > RACY_SECONDS {
                looks.insert(name.clone(), Known { look, entry: entry.clone() });
            }
            manifest.files.insert(name, entry);
        }
        Ok((manifest, looks))
    }

    /// The files that a snapshot covers.
    fn paths(&mut self, covers: Covers) -> Result<Vec<PathBuf>, Error> {
        let tracked = self.tracked();
        // A project inside a work tree has the ignore rules above it too, unless that work tree does
        // not know it: a home folder under version control ignores all that is not its own.
        let is_above = git::top(&self.project).is_some_and(|top| top != self.project);
        let is_inside = is_above && tracked.is_some();
        let board = fs::canonicalize(&self.board).unwrap_or_else(|_| self.board.clone());
        let real_board = board.clone();
        let walk = ignore::WalkBuilder::new(&self.project)
            .hidden(false)
            .git_global(false)
            // Rules above the top of the work tree are not this project's.
            .require_git(is_inside)
            .parents(is_inside)
            // A file for search tools; git does not follow it.
            .ignore(covers == Covers::OnlyPlain)
            .filter_entry(move |entry| {
                !VERSION_CONTROL.iter().any(|name| entry.file_name() == *name)
                    && (entry.depth() == 0
                        || !entry.file_type().is_some_and(|kind| kind.is_dir())
                        || fs::canonicalize(entry.path()).map_or(true, |path| path != board))
            })
            .build();
        let mut paths = Vec::new();
        for entry in walk {
            let entry = entry.map_err(|error| {
                let source = io::Error::other(error.to_string());
                Error::Io { path: self.project.clone(), source }
            })?;
            if entry.file_type().is_some_and(|kind| kind.is_file() || kind.is_symlink()) {
                paths.push(entry.into_path());
            }
        }
        // Ignored, and added to git all the same.
        let tracked = tracked.filter(|_| covers == Covers::All);
        let tracked = tracked.iter().flat_map(|names| names.iter());
        let inside = tracked.filter(|name| !self.is_behind_link(name));
        paths.extend(inside.map(|name| self.project.join(name)).filter(|path| {
            let is_file = |own: fs::Metadata| own.is_file() || own.is_symlink();
            fs::symlink_metadata(path).is_ok_and(is_file) && !path.starts_with(&real_board)
        }));
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// True if a folder of this path is a link now: the file is somewhere else.
    fn is_behind_link(&self, name: &str) -> bool {
        let mut folders = name.match_indices('/').map(|(at, _)| self.project.join(&name[..at]));
        folders.any(|folder| fs::symlink_metadata(folder).is_ok_and(|own| own.is_symlink()))
    }

    fn keep(&self, bytes: &[u8]) -> Result<String, Error> {
        let hash = blake3::hash(bytes).to_hex().to_string();
        let path = self.object_path(&hash);
        if !path.exists() {
            self.disk.write_new(&path, bytes)?;
        }
        Ok(hash)
    }

    pub fn manifest(&self, id: &str) -> Result<Manifest, Error> {
        let path = self.manifest_path(id);
        if !path.exists() {
            return Err(Error::Missing(id.to_owned()));
        }
        let text = load::text(&path, MAX_MANIFEST)?;
        let damaged = |why: String| Error::Damaged { id: id.to_owned(), why };
        if blake3::hash(text.as_bytes()).to_hex()[..32] != *id {
            return Err(damaged("it is not what its name says".to_owned()));
        }
        let files: BTreeMap<String, Entry> =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let leads_out = |name: &&String| {
            !Path::new(name.as_str())
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_)))
        };
        match files.keys().find(leads_out) {
            Some(name) => Err(damaged(format!(
                "`{}` is no path in the project",
                baton_core::text::shown(name, 80)
            ))),
            None => Ok(Manifest { files }),
        }
    }

    /// The content of a file in a snapshot.
    pub fn content(&self, hash: &str) -> Result<Vec<u8>, Error> {
        let bytes = load::bytes(&self.object_path(hash), MAX_BYTES)?;
        match blake3::hash(&bytes).to_hex().as_str() == hash {
            true => Ok(bytes),
            false => {
                Err(Error::Damaged { id: hash.to_owned(), why: "its content changed".to_owned() })
            }
        }
    }

    /// Brings the project back, byte for byte: files that were changed, removed or added since. The
    /// names of what had to change.
    pub fn restore(&mut self, id: &str) -> Result<Vec<String>, Error> {
        let wanted = self.manifest(id)?;
        // Everything must be there before anything is touched.
        for entry in wanted.files.values().filter(|entry| !entry.hash.is_empty()) {
            self.content(&entry.hash)?;
        }
        let (now, _) = self.look(Covers::All)?;
        let mut changed = Vec::new();
        for (name, entry) in &wanted.files {
            // What was too large to be kept is left as it is.
            if now.files.get(name) != Some(entry) && !entry.hash.is_empty() && !self.is_output(name)
            {
                self.restore_one(name, entry)?;
                changed.push(name.clone());
            }
        }
        // Only now, with the rules of that time in place again: what they ignore is not ours to remove.
        // A file that was there and that the older snapshot did not cover is not new, and one that is
        // too large to be kept could not be had back.
        let (now, _) = self.look(Covers::OnlyPlain)?;
        let is_new = |(name, entry): &(&String, &Entry)| {
            let is_kept = !entry.hash.is_empty() && !self.is_output(name);
            is_kept && !wanted.files.contains_key(*name)
        };
        for (name, _) in now.files.iter().filter(is_new) {
            self.disk.remove(&self.project.join(name))?;
            changed.push(name.clone());
        }
        Ok(changed)
    }

    /// True if a file receives the output of this run.
    pub fn is_output(&self, name: &str) -> bool {
        let metadata = fs::metadata(self.project.join(name));
        self.named_outputs.contains(name)
            || metadata.is_ok_and(|own| self.outputs.contains(&(own.dev(), own.ino())))
    }

    fn restore_one(&self, name: &str, entry: &Entry) -> Result<(), Error> {
        self.clear_way(Path::new(name))?;
        let path = self.project.join(name);
        let io = |source| Error::Io { path: path.clone(), source };
        let bytes = self.content(&entry.hash)?;
        match fs::symlink_metadata(&path).map(|now| now.is_file()) {
            Ok(false) => {
                fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)).map_err(io)?;
            }
            Ok(true) if entry.mode == LINK => self.disk.remove(&path)?,
            Ok(true) | Err(_) => {}
        }
        self.disk.make_folder(path.parent().unwrap_or(&self.project))?;
        if entry.mode == LINK {
            use std::os::unix::ffi::OsStringExt;
            return std::os::unix::fs::symlink(std::ffi::OsString::from_vec(bytes), &path)
                .map_err(io);
        }
        self.disk.write_through(&path, &bytes, &self.board.join(FOLDER))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(entry.mode)).map_err(io)
    }

    /// A link or a file that stands where a folder must be would lead elsewhere: it goes first.
    fn clear_way(&self, inside: &Path) -> Result<(), Error> {
        let mut path = self.project.clone();
        for part in inside.parent().into_iter().flat_map(Path::components) {
            path.push(part);
            match fs::symlink_metadata(&path) {
                Ok(metadata) if !metadata.is_dir() => self.disk.remove(&path)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes every snapshot that is not wanted any more, and the contents that only they had. The
    /// bytes that this frees; with `is_dry`, only counted.
    pub fn prune(&self, wanted: &BTreeSet<String>, is_dry: bool) -> Result<(usize, u64), Error> {
        let folder = self.board.join(FOLDER);
        let mut kept = BTreeSet::new();
        let mut gone = Vec::new();
        for path in files_in(&folder)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(id) = name.strip_suffix(".json").filter(|id| *id != "index") else { continue };
            match wanted.contains(id) {
                true => kept.extend(self.manifest(id)?.files.into_values().map(|entry| entry.hash)),
                false => gone.push(path),
            }
        }
        let snapshots = gone.len();
        for path in folders_in(&folder.join("objects"))? {
            for object in files_in(&path)? {
                let name = object.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if !kept.contains(name) {
                    gone.push(object);
                }
            }
        }
        let mut bytes = 0;
        for path in gone {
            bytes += fs::metadata(&path).map_or(0, |metadata| metadata.len());
            if !is_dry {
                self.disk.remove(&path)?;
            }
        }
        if !is_dry {
            // What it knew may be gone.
            self.disk.remove(&folder.join("index.json"))?;
        }
        Ok((snapshots, bytes))
    }

    /// The names of files that differ between two snapshots.
    pub fn changed(&self, before: &str, after: &str) -> Result<Vec<String>, Error> {
        if before == after {
            return Ok(Vec::new());
        }
        let (before, after) = (self.manifest(before)?, self.manifest(after)?);
        let names = before.files.keys().chain(after.files.keys());
        let mut changed: Vec<String> = names
            .filter(|name| before.files.get(*name) != after.files.get(*name))
            .cloned()
            .collect();
        changed.sort();
        changed.dedup();
        Ok(changed)
    }
}

fn entries(
    folder: &Path,
    is_wanted: impl Fn(&fs::FileType) -> bool,
) -> Result<Vec<PathBuf>, Error> {
    let io = |source| Error::Io { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        if is_wanted(&entry.file_type().map_err(io)?) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    entries(folder, fs::FileType::is_file)
}

fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    entries(folder, fs::FileType::is_dir)
}
