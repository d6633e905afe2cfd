//! The one walk through a project: for snapshots, searches and the comparison before and after a
//! command. It opens folders and files of ignore rules, and nothing else: never a pipe, a device, a
//! socket or a link. Everything about it is bounded, and what it did not look at is reported.

mod rules;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::text;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::load;
use crate::sandbox::Interrupt;
use rules::{Place, Rules, Verdict};

/// Folders in folders.
const DEEPEST: usize = 200;
/// Bytes of a path: what is longer could not be opened by its name.
const LONGEST: usize = 3_500;
const MOST_NAMES: usize = 1_000_000;
/// Comparisons with rules: seconds.
const MOST_STEPS: u64 = 1_000_000_000;
/// Files that only rules from after the earlier look ignore.
const MOST_NEWLY_IGNORED: usize = 1_000;
const MOST_NEWLY_IGNORED_BYTES: u64 = 32 << 20;
/// Files of rules that are kept in memory.
const MOST_KNOWN_RULES: usize = 5_000;

/// A larger file of rules counts as one without rules.
pub const MOST_RULE_BYTES: u64 = rules::MOST_BYTES;
const GIT_RULES: &str = ".gitignore";
/// A file for search tools; git does not follow it.
const SEARCH_RULES: &str = ".ignore";

/// Folders of version control, whose content is not the project's.
pub const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// A file's name as a string: its path from the root. A byte that is not UTF-8 is a NUL, which no
/// name has, and two hexadecimal digits.
pub fn name_of(path: &[u8]) -> String {
    let mut name = String::with_capacity(path.len());
    add_name(&mut name, path);
    name
}

fn add_name(name: &mut String, path: &[u8]) {
    for chunk in path.utf8_chunks() {
        name.push_str(chunk.valid());
        for byte in chunk.invalid() {
            name.push_str(&format!("\0{byte:02x}"));
        }
    }
}

/// The path of a name. `None`: it is not the name of any path.
pub fn path_of(name: &str) -> Option<PathBuf> {
    if !name.contains('\0') {
        return Some(PathBuf::from(name));
    }
    let mut parts = name.split('\0');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|own| own.bytes().all(|own| own.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    (name_of(&bytes) == name).then(|| PathBuf::from(OsStr::from_bytes(&bytes)))
}

/// A name for people and models.
pub fn shown(name: &str) -> String {
    baton_core::text::shown(&name.replace('\0', "\\x"), usize::MAX / 8)
}

/// What a walk does not look at, and what is reported about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// Pipes, sockets and devices.
    Special,
    /// Files of rules that cannot be used.
    Rules(&'static str),
    /// Files or folders that may not be read.
    Unreadable,
    Deep,
    Long,
    TooMany,
    TooManyRules,
    /// Files that only rules from after the earlier look ignore, where there are many.
    NewlyIgnored,
    /// Files that are too large to be kept.
    TooLarge,
}

impl Skip {
    fn what(self) -> String {
        match self {
            Skip::Special => "pipes, sockets or devices, not covered".to_owned(),
            Skip::Rules(why) => format!("files of ignore rules, not used ({why})"),
            Skip::Unreadable => "files or folders that cannot be read, not covered".to_owned(),
            Skip::Deep => format!("folders more than {DEEPEST} deep, not looked at"),
            Skip::Long => format!("paths of more than {LONGEST} bytes, not looked at"),
            Skip::TooMany => format!("folders after the first {MOST_NAMES} names, not looked at"),
            Skip::TooManyRules => {
                "folders after too many comparisons with ignore rules, not looked at".to_owned()
            }
            Skip::NewlyIgnored => {
                "files or more that ignore rules from after the last snapshot name, not covered"
                    .to_owned()
            }
            Skip::TooLarge => "too large for snapshots, cannot be brought back".to_owned(),
        }
    }
}

/// What was not looked at, by kind: how many, and the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<Skip, (usize, String)>);

impl Skipped {
    pub fn add(&mut self, skip: Skip, name: &str) {
        let entry = self.0.entry(skip).or_insert_with(|| (0, name.to_owned()));
        entry.0 += 1;
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn join(&mut self, other: Skipped) {
        for (skip, (count, first)) in other.0 {
            self.0.entry(skip).or_insert((0, first)).0 += count;
        }
    }

    /// A line for each kind of which nothing was said yet.
    pub fn news(&self, told: &mut BTreeSet<Skip>) -> Vec<String> {
        let new = self.0.iter().filter(|(skip, _)| told.insert(**skip));
        new.map(|(skip, (count, first))| {
            let first = text::shown(&shown(first), 200);
            format!("{count} {}; the first: {first}", skip.what())
        })
        .collect()
    }

    pub fn lines(&self) -> Vec<String> {
        self.news(&mut BTreeSet::new())
    }
}

/// The content of each file of rules, by its name.
pub type RuleFiles = BTreeMap<String, Vec<u8>>;

/// Rules that were read before, by the content of their file.
#[derive(Debug, Clone, Default)]
pub struct KnownRules(HashMap<Vec<u8>, Arc<Rules>>);

/// Rules of folders above the walk.
#[derive(Debug, Clone)]
pub struct Above {
    /// The path from the folder of the rules to the root of the walk.
    pub below: PathBuf,
    /// The name under which the content is kept.
    pub name: String,
    /// `info/exclude`: any other rule is stronger.
    pub is_weak: bool,
    pub text: Vec<u8>,
}

/// True for the name of a file that an earlier look found.
pub type WasThere<'a> = &'a dyn Fn(&str) -> bool;

/// Which folder is walked through, and by which rules.
pub struct Walk<'a> {
    /// The path by which it is reached.
    pub root: &'a Path,
    /// Where it begins, from the root.
    pub start: &'a str,
    /// The folder of that path, where it was opened already.
    pub opened: Option<OwnedFd>,
    /// From the outside to the inside.
    pub above: Vec<Above>,
    /// Follows the rules for search tools, too.
    pub for_search: bool,
    /// Without files and folders that begin with a dot.
    pub only_visible: bool,
    /// Folders that are passed over, besides those of version control: by their paths from the root.
    pub except: Vec<PathBuf>,
    /// The rules of an earlier look. A file that only newer rules ignore is found all the same, as
    /// long as there are few: nobody hides what is there by a new rule.
    pub earlier: Option<&'a RuleFiles>,
    /// Whether the earlier look found a file of this name: it is found again.
    pub was_there: WasThere<'a>,
    /// Looks at each file that is found.
    pub with_look: bool,
    pub interrupt: &'a Interrupt,
}

/// What is known of a file without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub inode: u64,
    pub size: u64,
    pub mode: u32,
    pub changed: (i64, i64),
    pub written: (i64, i64),
}

impl Look {
    pub(crate) fn of(stat: &Stat) -> Look {
        let nanoseconds = |own: u64| i64::try_from(own).unwrap_or(0);
        Look {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode,
            changed: (stat.st_ctime, nanoseconds(stat.st_ctime_nsec)),
            written: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
        }
    }
}

/// A file or link.
#[derive(Debug, Clone)]
pub struct Found {
    pub name: String,
    pub is_link: bool,
    /// Where the walk was to look.
    pub look: Option<Look>,
}

#[derive(Debug, Default)]
pub struct Walked {
    /// In no order that means anything.
    pub files: Vec<Found>,
    /// Every file of rules that was met, whether its rules count or not.
    pub rules: RuleFiles,
    pub skipped: Skipped,
    /// Folders that may not be read.
    pub unreadable: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot look at {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("interrupted while looking at the project")]
    Interrupted,
}

/// The rules of a folder: as they are, and as they were at the earlier look.
#[derive(Debug, Clone, Default)]
struct Own {
    now: Option<Arc<Rules>>,
    then: Option<Arc<Rules>>,
}

impl Own {
    fn differs(&self) -> bool {
        match (&self.now, &self.then) {
            (Some(now), Some(then)) => !Arc::ptr_eq(now, then),
            (None, None) => false,
            _ => true,
        }
    }

    fn is_none(&self) -> bool {
        self.now.is_none() && self.then.is_none()
    }
}

/// A folder on the way with rules of its own.
#[derive(Debug, Default)]
struct Level {
    above: Vec<Vec<u8>>,
    /// The number of folders of the walk above it.
    depth: usize,
    git: Own,
    weak: Own,
    search: Own,
}

struct Walker<'a, 'k> {
    walk: &'a Walk<'a>,
    known: &'k mut KnownRules,
    levels: Vec<Level>,
    /// Rules of levels before this one do not count: a repository begins there.
    first_level: usize,
    /// The names of the folders from the root to the current one.
    folders: Vec<Vec<u8>>,
    /// The same as a path and as a name, with a slash at the end.
    path: Vec<u8>,
    prefix: String,
    steps: u64,
    names: usize,
    newly: Newly,
    found: Walked,
}

/// Files that only new rules ignore.
#[derive(Default)]
struct Newly {
    files: Vec<Found>,
    bytes: u64,
    count: usize,
    first: Option<String>,
}

impl Newly {
    fn is_over(&self) -> bool {
        self.count > MOST_NEWLY_IGNORED || self.bytes > MOST_NEWLY_IGNORED_BYTES
    }
}

#[derive(Clone, Copy)]
enum Side {
    Now,
    Then,
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

impl std::fmt::Debug for Walk<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Walk through {} from {:?}", self.root.display(), self.start)
    }
}

impl Walk<'_> {
    pub fn run(&self, known: &mut KnownRules) -> Result<Walked, Error> {
        let io = |source| Error::Io { path: self.root.to_owned(), source };
        if known.0.len() > MOST_KNOWN_RULES {
            known.0.clear();
        }
        let mut walker = Walker {
            walk: self,
            known,
            levels: Vec::new(),
            first_level: 0,
            folders: Vec::new(),
            path: Vec::new(),
            prefix: String::new(),
            steps: 0,
            names: 0,
            newly: Newly::default(),
            found: Walked::default(),
        };
        for above in &self.above {
            walker.add_above(above);
        }
        // The root may be reached by a link; nothing below it is.
        let flags = FOLDER.difference(OFlags::NOFOLLOW);
        let mut folder =
            rustix::fs::open(self.root, flags, Mode::empty()).map_err(|own| io(own.into()))?;
        let mut next = Ok(());
        for part in self.start.split('/').filter(|part| !matches!(*part, "" | ".")) {
            if next.is_ok() {
                walker.enter(folder.as_fd(), None);
                let own = rustix::fs::openat(&folder, part, FOLDER, Mode::empty());
                next = own.map(|own| folder = own);
            }
            walker.push(part.as_bytes());
        }
        match &self.opened {
            Some(own) => folder = own.try_clone().map_err(io)?,
            // A link on the way.
            None => next.map_err(|own| io(own.into()))?,
        }
        walker.folder(folder, false)?;
        Ok(walker.finished())
    }
}

/// An entry of a folder.
struct Entry {
    /// That of a folder ends with a slash: so the order of entries is that of whole paths.
    path: Vec<u8>,
    kind: FileType,
}

impl Entry {
    fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }

    fn name(&self) -> &[u8] {
        self.path.strip_suffix(b"/").unwrap_or(&self.path)
    }
}

impl Walker<'_, '_> {
    fn finished(self) -> Walked {
        let Walker { newly, mut found, .. } = self;
        if newly.is_over() {
            let first = newly.first.unwrap_or_default();
            found.skipped.0.insert(Skip::NewlyIgnored, (newly.count, first));
        } else {
            found.files.extend(newly.files);
        }
        found
    }

    fn add_above(&mut self, above: &Above) {
        let now = self.rules(&above.name, above.text.clone());
        let own = Own { then: self.then(&above.name, &now), now };
        let parts = above.below.components().map(|part| part.as_os_str().as_bytes().to_vec());
        let mut level = Level { above: parts.collect(), ..Level::default() };
        if above.is_weak {
            level.weak = own;
        } else {
            level.git = own;
        }
        self.levels.push(level);
    }

    /// Reads the content of a file of rules.
    fn rules(&mut self, name: &str, text: Vec<u8>) -> Option<Arc<Rules>> {
        let rules = self.parsed(name, &text);
        self.found.rules.insert(name.to_owned(), text);
        rules
    }

    fn parsed(&mut self, name: &str, text: &[u8]) -> Option<Arc<Rules>> {
        let known = self.known.0.get(text).cloned();
        let rules = known.or_else(|| match Rules::read(text) {
            Ok(rules) => {
                let rules = Arc::new(rules);
                self.known.0.insert(text.to_vec(), rules.clone());
                Some(rules)
            }
            Err(why) => {
                self.found.skipped.add(Skip::Rules(why), name);
                None
            }
        });
        rules.filter(|rules| !rules.is_empty())
    }

    /// The rules of a file at the earlier look.
    fn then(&mut self, name: &str, now: &Option<Arc<Rules>>) -> Option<Arc<Rules>> {
        let Some(earlier) = self.walk.earlier else { return now.clone() };
        let text = earlier.get(name)?;
        if self.found.rules.get(name) == Some(text) {
            return now.clone();
        }
        // What is wrong with it was reported at that time.
        let known = self.known.0.get(text).cloned();
        let rules = known.or_else(|| Rules::read(text).ok().map(Arc::new));
        rules.filter(|rules| !rules.is_empty())
    }

    /// Reads the rules of the folder that is entered. `entries`: where they are known.
    fn enter(&mut self, folder: BorrowedFd<'_>, entries: Option<&[Entry]>) {
        let files =
            if self.walk.for_search { &[GIT_RULES, SEARCH_RULES][..] } else { &[GIT_RULES] };
        let mut level = Level { depth: self.folders.len(), ..Level::default() };
        for file in files {
            let name = self.name(file.as_bytes());
            let is_there =
                entries.is_none_or(|all| all.iter().any(|own| own.name() == file.as_bytes()));
            let now = match is_there {
                true => self.rules_of(folder, file, &name),
                false => None,
            };
            let own = Own { then: self.then(&name, &now), now };
            match *file {
                GIT_RULES => level.git = own,
                _ => level.search = own,
            }
        }
        if !(level.git.is_none() && level.search.is_none()) {
            self.levels.push(level);
        }
    }

    /// Only a regular file has rules: a pipe would keep us waiting, and git follows no link here.
    fn rules_of(&mut self, folder: BorrowedFd<'_>, file: &str, name: &str) -> Option<Arc<Rules>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(folder, file, flags, Mode::empty()) {
            Ok(opened) => File::from(opened),
            Err(Errno::NOENT) => return None,
            Err(errno) => {
                let why = if errno == Errno::LOOP { "a link" } else { "cannot be read" };
                self.found.skipped.add(Skip::Rules(why), name);
                return None;
            }
        };
        let why = match opened.metadata().map(|own| own.is_file()) {
            Ok(true) => match load::opened(opened, Path::new(file), rules::MOST_BYTES) {
                Ok(text) => return self.rules(name, text),
                Err(load::Error::TooLarge { .. }) => "more than 256 KiB",
                Err(_) => "cannot be read",
            },
            _ => "not a regular file",
        };
        self.found.skipped.add(Skip::Rules(why), name);
        None
    }

    /// The name of an entry of the current folder.
    fn name(&self, entry: &[u8]) -> String {
        let mut name = String::with_capacity(self.prefix.len() + entry.len());
        name.push_str(&self.prefix);
        add_name(&mut name, entry);
        name
    }

    fn path(&self, entry: &[u8]) -> Vec<u8> {
        [self.path.as_slice(), entry].concat()
    }

    /// From here on a folder of the current one is the current one.
    fn push(&mut self, name: &[u8]) {
        self.folders.push(name.to_vec());
        self.path.extend_from_slice(name);
        self.path.push(b'/');
        add_name(&mut self.prefix, name);
        self.prefix.push('/');
    }

    /// What is in a folder, and in all below. `newly`: only new rules ignore it.
    fn folder(&mut self, folder: OwnedFd, newly: bool) -> Result<(), Error> {
        if self.walk.interrupt.is_at_once() {
            return Err(Error::Interrupted);
        }
        let opened = Dir::new(folder).and_then(|mut folder| {
            let entries = entries(&mut folder, MOST_NAMES.saturating_sub(self.names))?;
            Ok((folder, entries))
        });
        let Ok((folder, (entries, is_whole))) = opened else {
            self.unreadable(b"");
            return Ok(());
        };
        let Ok(folder) = folder.fd() else { return Ok(()) };
        if !is_whole {
            let name = self.name(b"");
            self.found.skipped.add(Skip::TooMany, &name);
        }
        self.names += entries.len();
        let (levels, first_level) = (self.levels.len(), self.first_level);
        // Outside of this repository nobody says what it ignores.
        if !self.folders.is_empty() && entries.iter().any(|own| own.name() == b".git") {
            self.first_level = levels;
        }
        self.enter(folder, Some(&entries));
        for entry in entries {
            if entry.is_folder() && self.is_passed_over(entry.name()) {
                continue;
            }
            let Some(is_new) = self.covers(&entry) else { continue };
            let newly = newly || is_new;
            if !entry.is_folder() {
                self.file(folder, &entry, newly);
            } else if !(newly && self.newly.is_over()) {
                self.below(folder, entry.name(), newly)?;
            }
        }
        self.levels.truncate(levels);
        self.first_level = first_level;
        Ok(())
    }

    fn is_passed_over(&self, name: &[u8]) -> bool {
        VERSION_CONTROL.iter().any(|own| own.as_bytes() == name)
            || self.walk.except.iter().any(|own| {
                own.file_name().is_some_and(|last| last.as_bytes() == name)
                    && own.as_os_str().as_bytes() == self.path(name)
            })
    }

    /// `None`: it is ignored. `Some(true)`: by rules that the earlier look did not know.
    fn covers(&mut self, entry: &Entry) -> Option<bool> {
        let (name, is_folder) = (entry.name(), entry.is_folder());
        let now = self.verdict(Side::Now, name, is_folder);
        if self.walk.only_visible && name.starts_with(b".") && now != Verdict::Kept {
            return None;
        }
        let is_split = self.levels[self.first_level..]
            .iter()
            .any(|own| own.git.differs() || own.weak.differs() || own.search.differs());
        let then = if is_split { self.verdict(Side::Then, name, is_folder) } else { now };
        (then != Verdict::Ignored).then_some(now == Verdict::Ignored)
    }

    /// The innermost rule decides; rules for search tools first, those of `info/exclude` last.
    fn verdict(&mut self, side: Side, name: &[u8], is_folder: bool) -> Verdict {
        let kinds: [fn(&Level) -> &Own; 3] = [|own| &own.search, |own| &own.git, |own| &own.weak];
        for kind in kinds {
            for level in self.levels[self.first_level..].iter().rev() {
                let own = kind(level);
                let rules = match side {
                    Side::Now => &own.now,
                    Side::Then => &own.then,
                };
                let Some(rules) = rules else { continue };
                let folders = &self.folders[level.depth..];
                let place = Place { above: &level.above, folders, name };
                let verdict = rules.verdict(&place, is_folder, &mut self.steps);
                if verdict != Verdict::Open {
                    return verdict;
                }
            }
        }
        Verdict::Open
    }

    fn file(&mut self, folder: BorrowedFd<'_>, entry: &Entry, newly: bool) {
        let name = self.name(&entry.path);
        if !matches!(entry.kind, FileType::RegularFile | FileType::Symlink) {
            // A pipe in the place of a file of rules was named already.
            if entry.kind != FileType::Unknown && entry.path != GIT_RULES.as_bytes() {
                self.found.skipped.add(Skip::Special, &name);
            }
            return;
        }
        let look = match self.walk.with_look {
            true => {
                let stat =
                    rustix::fs::statat(folder, entry.path.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
                // It has gone meanwhile.
                let Ok(stat) = stat else { return };
                Some(Look::of(&stat))
            }
            false => None,
        };
        let found = Found { name, is_link: entry.kind == FileType::Symlink, look };
        if !newly || (self.walk.was_there)(&found.name) {
            self.found.files.push(found);
            return;
        }
        let newly = &mut self.newly;
        newly.count += 1;
        newly.bytes += look.map_or(0, |own| own.size);
        newly.first.get_or_insert_with(|| found.name.clone());
        if newly.is_over() {
            newly.files.clear();
        } else {
            newly.files.push(found);
        }
    }

    /// Enters a folder of the current one.
    fn below(&mut self, folder: BorrowedFd<'_>, name: &[u8], newly: bool) -> Result<(), Error> {
        let skip = if self.folders.len() >= DEEPEST {
            Some(Skip::Deep)
        } else if self.path.len() + name.len() > LONGEST {
            Some(Skip::Long)
        } else if self.names > MOST_NAMES {
            Some(Skip::TooMany)
        } else if self.steps > MOST_STEPS {
            Some(Skip::TooManyRules)
        } else {
            None
        };
        if let Some(skip) = skip {
            let name = self.name(name);
            self.found.skipped.add(skip, &name);
            return Ok(());
        }
        match rustix::fs::openat(folder, name, FOLDER, Mode::empty()) {
            Ok(own) => {
                let (path, prefix) = (self.path.len(), self.prefix.len());
                self.push(name);
                self.folder(own, newly)?;
                self.folders.pop();
                self.path.truncate(path);
                self.prefix.truncate(prefix);
            }
            // It has gone meanwhile, or is something else now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => self.unreadable(name),
        }
        Ok(())
    }

    fn unreadable(&mut self, entry: &[u8]) {
        let name = self.name(entry);
        self.found.skipped.add(Skip::Unreadable, &name);
        self.found.unreadable.push(PathBuf::from(OsStr::from_bytes(&self.path(entry))));
    }
}

/// The names in a folder, and what they are; whether these are all of them.
fn entries(folder: &mut Dir, most: usize) -> Result<(Vec<Entry>, bool), Errno> {
    let mut all = Vec::new();
    let mut is_whole = true;
    while let Some(entry) = folder.read() {
        if all.len() > most {
            is_whole = false;
            break;
        }
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => kind_of(folder.fd()?, name),
            kind => kind,
        };
        let mut path = Vec::with_capacity(name.len() + 1);
        path.extend_from_slice(name);
        if kind == FileType::Directory {
            path.push(b'/');
        }
        all.push(Entry { path, kind });
    }
    all.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok((all, is_whole))
}

/// For file systems that do not say it in the list.
fn kind_of(folder: BorrowedFd<'_>, name: &[u8]) -> FileType {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(FileType::Unknown, |own| FileType::from_raw_mode(own.st_mode))
}
