//! The project's files, tracked or not, kept by their content before and after a stage that may write
//! them. Nothing of git is touched; which files it tracks is read from its index. Files that git
//! ignores and does not track are not covered, and this is reported.
//!
//! What is covered once stays covered: whoever writes a new ignore rule hides nothing that was there,
//! and its rules count for new files only from the next snapshot on.

mod diff;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::git;
use crate::load::{self, Environment};
use crate::sandbox::Interrupt;
use crate::store::{self, Disk};
use crate::walk::{self, Found, KnownRules, Look, RuleFiles, Skip, Skipped, Walk, Walked};

const FOLDER: &str = "snapshots";
/// A larger file is not kept; it is named.
const MAX_BYTES: u64 = 64 << 20;
const MAX_MANIFEST: u64 = 1 << 30;
/// A file changed so shortly before the look may change again without a new time.
const RACY_SECONDS: i64 = 2;
/// Folders in folders that `restore` makes readable again.
const MOST_UNREADABLE: usize = 50;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot look at {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the snapshot {0} is not there")]
    Missing(String),
    #[error("the snapshot {id} is damaged: {why}")]
    Damaged { id: String, why: String },
    #[error("interrupted while looking at the project")]
    Interrupted,
    #[error("a snapshot would add more than {bytes} bytes")]
    TooMuch { bytes: u64 },
    #[error(transparent)]
    Load(#[from] load::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl From<walk::Error> for Error {
    fn from(error: walk::Error) -> Error {
        match error {
            walk::Error::Io { path, source } => Error::Io { path, source },
            walk::Error::Interrupted => Error::Interrupted,
        }
    }
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// `120000` for a link, else the permissions.
    pub mode: u32,
    /// Empty where the content is not kept.
    pub hash: String,
}

/// All files of a project, by name: see [`walk::path_of`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    pub files: BTreeMap<String, Entry>,
    /// Each file of ignore rules, by the hash of its content. `None`: of an earlier version of Baton.
    pub rules: Option<BTreeMap<String, String>>,
}

/// A manifest as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    files: BTreeMap<String, Entry>,
    rules: BTreeMap<String, String>,
}

/// The same, where it is written.
#[derive(Debug, Serialize)]
struct WrittenRef<'a> {
    version: u32,
    files: &'a BTreeMap<String, Entry>,
    rules: &'a BTreeMap<String, String>,
}

/// A file that the walk did not come to.
#[derive(Debug)]
enum Unseen {
    There(Found),
    AsBefore(Entry),
}

/// What is read of a file.
enum Content {
    Bytes(Vec<u8>),
    Gone,
    Unreadable,
}

const VERSION: u32 = 2;
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
    /// Also what git tracks though a rule ignores it, and what was covered at the earlier look.
    All,
    /// What no rule ignores.
    ByRules,
    /// The files that every version of Baton covered.
    OnlyPlain,
}

/// A snapshot whose files stay covered, and whose rules count.
#[derive(Debug)]
struct Earlier {
    /// `None`: not known.
    rules: Option<RuleFiles>,
    files: BTreeMap<String, Entry>,
    id: String,
    /// What git tracked then, if the walk found all of it.
    tracked: Option<Arc<BTreeSet<String>>>,
}

/// What a look found.
#[derive(Debug, Default)]
struct Seen {
    files: BTreeMap<String, Entry>,
    known: BTreeMap<String, Known>,
    rules: RuleFiles,
    unreadable: Vec<PathBuf>,
    /// Bytes of files that were not known.
    added: u64,
    /// The walk alone found every file that git tracks.
    shows_tracked: bool,
}

/// The snapshots of one project.
#[derive(Debug)]
pub struct Snapshots {
    project: PathBuf,
    /// The blackboard, which is not part of the project.
    board: PathBuf,
    disk: Disk,
    known: BTreeMap<String, Known>,
    /// What the last look did not cover.
    pub skipped: Skipped,
    /// Files that another process is writing for us, by device and inode: never restored.
    pub outputs: BTreeSet<(u64, u64)>,
    /// Files that received the output of this run, by name: never restored.
    pub named_outputs: BTreeSet<String>,
    tracked: Tracked,
    /// The names in the last snapshot.
    names: Vec<String>,
    /// What was there when `restore` began.
    kept: Option<String>,
    earlier: Option<Earlier>,
    known_rules: KnownRules,
    interrupt: Interrupt,
    /// Another folder that is not part of the project.
    except: Option<PathBuf>,
    /// Bytes of new or changed files that one look may keep.
    most_added: u64,
}

/// The files that git tracks; asked for again only when git's index has changed.
#[derive(Debug, Default)]
struct Tracked {
    environment: Option<Environment>,
    index: Option<(u64, u64, i64, i64)>,
    names: Option<Arc<BTreeSet<String>>>,
}

/// Lets the owner of a folder look and write there. The rights that it had, if they were not enough.
fn opened(folder: &Path) -> Option<(PathBuf, fs::Permissions)> {
    let own = fs::symlink_metadata(folder).ok().filter(fs::Metadata::is_dir)?;
    let mode = own.permissions().mode();
    let is_closed = mode & 0o700 != 0o700;
    let is_open =
        is_closed && fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700)).is_ok();
    is_open.then(|| (folder.to_owned(), own.permissions()))
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
            skipped: Skipped::default(),
            outputs: BTreeSet::new(),
            named_outputs: BTreeSet::new(),
            tracked: Tracked::default(),
            names: Vec::new(),
            kept: None,
            earlier: None,
            known_rules: KnownRules::default(),
            interrupt: Interrupt::default(),
            except: None,
            most_added: u64::MAX,
        }
    }

    /// The same; one more folder is not part of the project.
    #[must_use]
    pub fn except(mut self, folder: &Path) -> Snapshots {
        self.except = Some(folder.to_owned());
        self
    }

    /// The same; a look that would add more than so many bytes fails.
    #[must_use]
    pub fn adding_at_most(mut self, bytes: u64) -> Snapshots {
        self.most_added = bytes;
        self
    }

    /// The same; files that git tracks are part of a snapshot though a rule ignores them.
    #[must_use]
    pub fn with_git(mut self, environment: &Environment) -> Snapshots {
        self.tracked.environment = Some(environment.clone());
        self
    }

    /// The same; a look ends with an error as soon as this is set.
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: &Interrupt) -> Snapshots {
        self.interrupt = interrupt.clone();
        self
    }

    /// The next look compares itself with this snapshot: its files stay covered, and new files are
    /// found by its ignore rules. Within one process each look follows the one before by itself.
    pub fn follow(&mut self, id: &str) -> Result<(), Error> {
        let manifest = self.manifest(id)?;
        self.follow_manifest(id, &manifest)
    }

    fn follow_manifest(&mut self, id: &str, manifest: &Manifest) -> Result<(), Error> {
        let rules = manifest.rules.as_ref().map(|rules| {
            let read = |(name, hash): (&String, &String)| Ok((name.clone(), self.content(hash)?));
            rules.iter().map(read).collect::<Result<RuleFiles, Error>>()
        });
        self.earlier = Some(Earlier {
            rules: rules.transpose()?,
            files: manifest.files.clone(),
            id: id.to_owned(),
            tracked: None,
        });
        Ok(())
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
        let tracked = self.tracked();
        let walked = self.walked(Covers::All, tracked.is_some())?;
        if let Some(id) = self.unchanged(&walked, tracked.as_ref()) {
            self.skipped = walked.skipped;
            self.set_names(walked.files.into_iter().map(|own| own.name));
            return Ok(id);
        }
        let seen = self.seen(walked, Covers::All, tracked.as_deref())?;
        let id = self.written(&seen)?;
        if self.known != seen.known {
            self.known = seen.known;
            let path = self.board.join(FOLDER).join("index.json");
            // It only saves work: it need not be synced, and is read with care.
            store::write_new(&path, store::json(&path, &self.known)?.as_bytes())?;
        }
        self.set_names(seen.files.keys().cloned());
        self.earlier = Some(Earlier {
            rules: Some(seen.rules),
            files: seen.files,
            id: id.clone(),
            tracked: tracked.filter(|_| seen.shows_tracked),
        });
        Ok(id)
    }

    fn set_names(&mut self, names: impl Iterator<Item = String>) {
        self.names.clear();
        self.names.extend(names);
    }

    /// The name of the earlier snapshot, if the walk found exactly its files, unchanged.
    fn unchanged(
        &self,
        walked: &Walked,
        tracked: Option<&Arc<BTreeSet<String>>>,
    ) -> Option<String> {
        let earlier = self.earlier.as_ref()?;
        let is_same_index = match (tracked, &earlier.tracked) {
            (None, None) => true,
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            _ => false,
        };
        let counts = [self.known.len(), earlier.files.len()];
        if !is_same_index
            || counts != [walked.files.len(); 2]
            || earlier.rules.as_ref() != Some(&walked.rules)
            || !walked.unreadable.is_empty()
        {
            return None;
        }
        let mut all = walked.files.iter().zip(&self.known).zip(&earlier.files);
        let is_same = all.all(|((found, (name, known)), (earlier, entry))| {
            found.name == *name
                && name == earlier
                && found.look.as_ref().map(known_look) == Some(known.look)
                && known.entry == *entry
        });
        (is_same && self.manifest_path(&earlier.id).exists()).then(|| earlier.id.clone())
    }

    /// Writes the manifest, where it is a new one; its name.
    fn written(&self, seen: &Seen) -> Result<String, Error> {
        if let Some(earlier) = &self.earlier
            && self.manifest_path(&earlier.id).exists()
            && earlier.rules.as_ref() == Some(&seen.rules)
            && earlier.files == seen.files
        {
            return Ok(earlier.id.clone());
        }
        let keep = |(name, text): (&String, &Vec<u8>)| Ok((name.clone(), self.keep(text)?));
        let rules = seen.rules.iter().map(keep).collect::<Result<BTreeMap<_, _>, Error>>()?;
        let manifest = WrittenRef { version: VERSION, files: &seen.files, rules: &rules };
        let text = store::json(&self.board.join(FOLDER), &manifest)?;
        let id = blake3::hash(text.as_bytes()).to_hex()[..32].to_owned();
        let path = self.manifest_path(&id);
        if !path.exists() {
            self.disk.write_new(&path, text.as_bytes())?;
        }
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

    /// Where a file is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.project.join(walk::path_of(name).unwrap_or_default())
    }

    /// Every file that is covered, its content kept.
    fn look(&mut self, covers: Covers) -> Result<Seen, Error> {
        let tracked = self.tracked();
        let walked = self.walked(covers, tracked.is_some())?;
        self.seen(walked, covers, tracked.as_deref())
    }

    /// Keeps the content of what was found.
    fn seen(
        &mut self,
        walked: Walked,
        covers: Covers,
        tracked: Option<&BTreeSet<String>>,
    ) -> Result<Seen, Error> {
        let Walked { files, rules, skipped, unreadable } = walked;
        self.skipped = skipped;
        let mut seen = Seen { rules, unreadable, ..Seen::default() };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        for found in files {
            self.add(found, now, &mut seen)?;
        }
        if covers == Covers::All {
            let is_seen = |name: &String| seen.files.contains_key(name);
            seen.shows_tracked = tracked.is_none_or(|all| all.iter().all(is_seen));
            for (name, entry) in self.not_walked(tracked, &seen) {
                match entry {
                    Unseen::There(found) => self.add(found, now, &mut seen)?,
                    // It could not be looked at: nothing says that it has changed.
                    Unseen::AsBefore(entry) => drop(seen.files.insert(name, entry)),
                }
            }
        }
        Ok(seen)
    }

    fn walked(&mut self, covers: Covers, is_tracked: bool) -> Result<Walked, Error> {
        // A project inside a work tree has the ignore rules above it too, unless that work tree does
        // not know it: a home folder under version control ignores all that is not its own.
        let (above, skipped) = git::rules_above(&self.project, is_tracked);
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let project = real(&self.project);
        let folders = [Some(&self.board), self.except.as_ref()].into_iter().flatten();
        let except = folders
            .filter_map(|own| real(own).strip_prefix(&project).ok().map(Path::to_owned))
            .collect();
        let earlier = self.earlier.as_ref().filter(|_| covers != Covers::OnlyPlain);
        let walk = Walk {
            root: &self.project,
            start: "",
            opened: None,
            above,
            for_search: covers == Covers::OnlyPlain,
            only_visible: false,
            except,
            earlier: earlier.and_then(|own| own.rules.as_ref()),
            was_there: &|name| earlier.is_some_and(|own| own.files.contains_key(name)),
            with_look: true,
            interrupt: &self.interrupt,
        };
        let mut walked = walk.run(&mut self.known_rules)?;
        walked.skipped.join(skipped);
        // In order already, but for names that are not UTF-8.
        walked.files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(walked)
    }

    /// Files that no rule shows: that git tracks, and those of the earlier snapshot.
    fn not_walked(
        &self,
        tracked: Option<&BTreeSet<String>>,
        seen: &Seen,
    ) -> BTreeMap<String, Unseen> {
        let earlier = self.earlier.as_ref().map(|own| &own.files);
        let earlier = earlier.into_iter().flat_map(BTreeMap::keys);
        let names = tracked.into_iter().flatten().chain(earlier);
        let mut folders = HashMap::new();
        let mut unseen = BTreeMap::new();
        for name in names.filter(|name| !seen.files.contains_key(*name)) {
            if let Some(own) = self.unseen(name, &mut folders) {
                unseen.insert(name.clone(), own);
            }
        }
        unseen
    }

    /// `folders`: whether a folder is the project's, and not reached by a link.
    fn unseen(&self, name: &str, folders: &mut HashMap<PathBuf, bool>) -> Option<Unseen> {
        let inside = walk::path_of(name)?;
        let path = self.project.join(&inside);
        let is_excepted = self.except.as_ref().is_some_and(|own| path.starts_with(own));
        if path.starts_with(&self.board) || is_excepted {
            return None;
        }
        let folder = inside.parent().unwrap_or(Path::new("")).to_owned();
        let is_own =
            folders.entry(folder).or_insert_with_key(|folder| !self.is_behind_link(folder));
        if !*is_own {
            return None;
        }
        match rustix::fs::lstat(&path) {
            Ok(stat) => match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
                rustix::fs::FileType::RegularFile => Some(false),
                rustix::fs::FileType::Symlink => Some(true),
                _ => None,
            }
            .map(|is_link| {
                let look = Some(Look::of(&stat));
                Unseen::There(Found { name: name.to_owned(), is_link, look })
            }),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => None,
            Err(_) => {
                let earlier = self.earlier.as_ref().and_then(|own| own.files.get(name));
                earlier.cloned().map(Unseen::AsBefore)
            }
        }
    }

    /// True if this folder, or one above it in the project, is a link now: what is in it is somewhere
    /// else.
    fn is_behind_link(&self, folder: &Path) -> bool {
        let mut folders = folder.ancestors().filter(|own| !own.as_os_str().is_empty());
        folders.any(|own| {
            fs::symlink_metadata(self.project.join(own)).is_ok_and(|own| own.is_symlink())
        })
    }

    /// Adds a file to what was seen, and keeps its content.
    fn add(&mut self, found: Found, now: i64, seen: &mut Seen) -> Result<(), Error> {
        let Found { name, is_link, look } = found;
        let Some(own) = look else { return Ok(()) };
        let (size, mode) = (own.size, own.mode & 0o777);
        let look = known_look(&own);
        let known = self.known.get(&name).filter(|known| known.look == look);
        let entry = match known {
            Some(known) => known.entry.clone(),
            None if self.interrupt.is_at_once() => return Err(Error::Interrupted),
            None if size > MAX_BYTES && !is_link => {
                self.skipped.add(Skip::TooLarge, &name);
                seen.files.insert(name, Entry { mode: 0, hash: String::new() });
                return Ok(());
            }
            None if seen.added.saturating_add(size) > self.most_added => {
                return Err(Error::TooMuch { bytes: self.most_added });
            }
            None => match self.content_of(&self.path(&name), is_link)? {
                Content::Bytes(bytes) => {
                    Entry { mode: if is_link { LINK } else { mode }, hash: self.keep(&bytes)? }
                }
                Content::Gone => return Ok(()),
                Content::Unreadable => {
                    self.skipped.add(Skip::Unreadable, &name);
                    seen.files.insert(name, Entry { mode, hash: String::new() });
                    return Ok(());
                }
            },
        };
        seen.added += if known.is_none() { size } else { 0 };
        if now - own.changed.0 > RACY_SECONDS {
            seen.known.insert(name.clone(), Known { look, entry: entry.clone() });
        }
        seen.files.insert(name, entry);
        Ok(())
    }

    /// The content of a file of the project, or the target of a link.
    fn content_of(&self, path: &Path, is_link: bool) -> Result<Content, Error> {
        let read = match is_link {
            true => fs::read_link(path)
                .map(|target| target.into_os_string().into_encoded_bytes())
                .map_err(|source| load::Error::Io { path: path.to_owned(), source }),
            false => load::bytes_of_file(path, MAX_BYTES),
        };
        Ok(match read {
            Ok(bytes) => Content::Bytes(bytes),
            // It is something else than a moment ago.
            Err(load::Error::Missing(_) | load::Error::NotAFile(_)) => Content::Gone,
            Err(load::Error::TooLarge { .. }) => Content::Unreadable,
            Err(load::Error::Io { source, .. }) => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Content::Gone,
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput => {
                    Content::Unreadable
                }
                _ if source.raw_os_error() == Some(libc::ELOOP) => Content::Gone,
                _ => return Err(Error::Io { path: path.to_owned(), source }),
            },
            Err(error) => return Err(error.into()),
        })
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
        let manifest = match serde_json::from_str::<Written>(&text) {
            Ok(own) if own.version == VERSION => {
                Manifest { files: own.files, rules: Some(own.rules) }
            }
            Ok(own) => return Err(damaged(format!("its version {} is not known", own.version))),
            // As earlier versions wrote it: the files alone.
            Err(_) => {
                let files =
                    serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
                Manifest { files, rules: None }
            }
        };
        let leads_out = |name: &&String| {
            walk::path_of(name).is_none_or(|path| {
                let mut parts = path.components();
                !parts.all(|part| matches!(part, std::path::Component::Normal(_)))
            })
        };
        match manifest.files.keys().find(leads_out) {
            Some(name) => Err(damaged(format!(
                "`{}` is no path in the project",
                baton_core::text::shown(name, 80)
            ))),
            None => Ok(manifest),
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
        self.follow_manifest(id, &wanted)?;
        self.open_folders_of(&wanted);
        let now = self.look_everywhere()?;
        // Whatever is changed or removed now can be had back.
        self.kept = Some(self.written(&now)?);
        let mut changed = Vec::new();
        for (name, entry) in &wanted.files {
            // What was too large to be kept is left as it is.
            if now.files.get(name) != Some(entry) && !entry.hash.is_empty() && !self.is_output(name)
            {
                self.restore_one(name, entry)?;
                changed.push(name.clone());
            }
        }
        // Only now, with the rules of that time: what they ignore is not ours to remove. A file that
        // was there and that the older snapshot did not cover is not new, and one whose content is not
        // kept could not be had back.
        let covers = if wanted.rules.is_some() { Covers::ByRules } else { Covers::OnlyPlain };
        let after = self.look(covers)?;
        let is_new = |(name, entry): &(&String, &Entry)| {
            let is_kept = !entry.hash.is_empty() && !self.is_output(name);
            is_kept && now.files.contains_key(*name) && !wanted.files.contains_key(*name)
        };
        for (name, _) in after.files.iter().filter(is_new) {
            self.open_way(&self.path(name));
            self.disk.remove(&self.path(name))?;
            changed.push(name.clone());
        }
        Ok(changed)
    }

    /// Lets their owner into the folders of a snapshot's files, as far as they are there: whatever an
    /// agent did to their rights must not keep its files from coming back. The folders that were closed,
    /// and their rights.
    pub fn open_folders(&self, id: &str) -> Result<Vec<(PathBuf, fs::Permissions)>, Error> {
        Ok(self.open_folders_of(&self.manifest(id)?))
    }

    fn open_folders_of(&self, wanted: &Manifest) -> Vec<(PathBuf, fs::Permissions)> {
        let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
        for name in wanted.files.keys() {
            let path = self.path(name);
            if path.parent().is_some_and(|folder| !folders.contains(folder)) {
                folders.extend(self.folders_above(&path).map(Path::to_owned));
            }
        }
        // Those above come first: what is in a closed one cannot be looked at.
        folders.iter().filter_map(|folder| opened(folder)).collect()
    }

    fn open_way(&self, path: &Path) {
        let mut folders: Vec<&Path> = self.folders_above(path).collect();
        folders.reverse();
        folders.into_iter().for_each(|folder| drop(opened(folder)));
    }

    /// Folders of the project that hold a path, the nearest first, and the project itself.
    fn folders_above<'p>(&'p self, path: &'p Path) -> impl Iterator<Item = &'p Path> {
        path.ancestors().skip(1).take_while(|own| own.starts_with(&self.project))
    }

    /// What `restore` would do, without doing it: the names of files that it would bring back, and of
    /// those that it would remove.
    pub fn differences(&mut self, id: &str) -> Result<(Vec<String>, Vec<String>), Error> {
        let wanted = self.manifest(id)?;
        self.follow_manifest(id, &wanted)?;
        let now = self.look(Covers::All)?;
        let covers = if wanted.rules.is_some() { Covers::ByRules } else { Covers::OnlyPlain };
        let by_rules = self.look(covers)?;
        let comes_back = |(name, entry): &(&String, &Entry)| {
            now.files.get(*name) != Some(*entry) && !entry.hash.is_empty() && !self.is_output(name)
        };
        let goes = |(name, entry): &(&String, &Entry)| {
            let is_kept = !entry.hash.is_empty() && !self.is_output(name);
            is_kept && now.files.contains_key(*name) && !wanted.files.contains_key(*name)
        };
        let back = wanted.files.iter().filter(comes_back).map(|(name, _)| name.clone()).collect();
        let gone = by_rules.files.iter().filter(goes).map(|(name, _)| name.clone()).collect();
        Ok((back, gone))
    }

    /// The snapshot of what was there when `restore` was last called.
    pub fn kept(&self) -> Option<&str> {
        self.kept.as_deref()
    }

    /// Looks at the project, and makes folders readable that their owner cannot read any more.
    fn look_everywhere(&mut self) -> Result<Seen, Error> {
        let mut seen = self.look(Covers::All)?;
        for _ in 0..MOST_UNREADABLE {
            let mut has_changed = false;
            for folder in &seen.unreadable {
                let path = self.project.join(folder);
                let mode = fs::symlink_metadata(&path).map(|own| own.permissions().mode());
                let mode = mode.map(|mode| fs::Permissions::from_mode(mode | 0o700));
                has_changed |= mode.is_ok_and(|mode| fs::set_permissions(&path, mode).is_ok());
            }
            if !has_changed {
                break;
            }
            seen = self.look(Covers::All)?;
        }
        Ok(seen)
    }

    /// True if a file receives the output of this run.
    pub fn is_output(&self, name: &str) -> bool {
        let metadata = fs::metadata(self.path(name));
        self.named_outputs.contains(name)
            || metadata.is_ok_and(|own| self.outputs.contains(&(own.dev(), own.ino())))
    }

    fn restore_one(&self, name: &str, entry: &Entry) -> Result<(), Error> {
        self.clear_way(&walk::path_of(name).unwrap_or_default())?;
        let path = self.path(name);
        let io = |source| Error::Io { path: path.clone(), source };
        let bytes = self.content(&entry.hash)?;
        match fs::symlink_metadata(&path).map(|now| now.is_file()) {
            Ok(false) => {
                crate::view::remove_folder(&path);
                if fs::symlink_metadata(&path).is_ok() {
                    fs::remove_file(&path).map_err(io)?;
                }
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
                true => {
                    let Manifest { files, rules } = self.manifest(id)?;
                    kept.extend(files.into_values().map(|entry| entry.hash));
                    kept.extend(rules.into_iter().flat_map(BTreeMap::into_values));
                }
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

fn known_look(own: &Look) -> (u64, u64, i64, i64, i64, i64) {
    (own.inode, own.size, own.written.0, own.written.1, own.changed.0, own.changed.1)
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
