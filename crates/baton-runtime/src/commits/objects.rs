//! New objects of a copy: packed by git in a sandbox, read and named anew by git in another one, and
//! only then moved to the others.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::changes::{Changes, Kind};
use super::state::{self, State, is_hash};
use super::{ALTERNATES, Commits, WORK};
use crate::sandbox::{self, Closed, Confine, How, Interrupt, Program, Sight};
use crate::store;

/// Bytes of new objects of one command, packed.
const MOST_BYTES: u64 = 2 << 30;
const LIMIT: Duration = Duration::from_secs(300);
const MOST_SAID: usize = 64 << 20;
/// Git removes old folders of this name by itself.
const PREFIX: &str = "tmp_objdir-baton-";

/// Where the objects of a copy are looked at before they are kept.
pub(super) fn incoming(git: &Path, folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    git.join("objects").join(format!("{PREFIX}{name}"))
}

/// The objects of a copy must be in it, and nowhere else.
pub(super) fn check_folder(copy: &Path) -> Result<(), String> {
    let objects = copy.join("objects");
    let alternates = state::bytes(&objects.join("info/alternates"), 4_096)?;
    let is_own = state::is_folder(&objects) && state::is_folder(&objects.join("info"));
    if !is_own || alternates.as_deref() != Some(ALTERNATES.as_bytes()) {
        return Err("objects/info/alternates was changed".to_owned());
    }
    let entries = fs::read_dir(&objects).map_err(|error| format!("objects: {error}"))?;
    match entries.flatten().find(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink())) {
        Some(entry) => Err(format!("objects/{} is a link", entry.file_name().to_string_lossy())),
        None => Ok(()),
    }
}

/// What is needed to look at new objects.
pub(super) struct Incoming<'a> {
    pub(super) commits: &'a Commits,
    /// Of the copy, and what is made of it.
    pub(super) folder: &'a Path,
    pub(super) before: &'a State,
    /// What the command could see: a program that reads the copy sees no more.
    pub(super) closed: &'a Closed,
    pub(super) interrupt: &'a Interrupt,
}

/// New objects that are not yet among the others. They are removed unless they are kept.
pub(super) struct Checked {
    incoming: PathBuf,
    objects: PathBuf,
}

impl Incoming<'_> {
    /// The new objects by which all that is wanted exists.
    pub(super) fn checked(&self, changes: &Changes) -> Result<Checked, String> {
        let git = &self.commits.git;
        let checked =
            Checked { incoming: incoming(git, self.folder), objects: git.join("objects") };
        let known: BTreeSet<&str> = hashes(self.before).collect();
        let wanted: Vec<&(String, Kind)> = changes.wanted.iter().collect();
        if wanted.is_empty() {
            return Ok(checked);
        }
        fs::create_dir_all(checked.incoming.join("pack")).map_err(|error| error.to_string())?;
        self.make_git_folder(&self.folder.join("git"))?;
        if let Some(pack) = self.packed(&wanted, &known)? {
            self.indexed(&pack, &checked.incoming)?;
        }
        self.check_kinds(&wanted, &checked.incoming)?;
        Ok(checked)
    }

    /// Packs what only the copy has. `None`: there is nothing new.
    fn packed(
        &self,
        wanted: &[&(String, Kind)],
        known: &BTreeSet<&str>,
    ) -> Result<Option<PathBuf>, String> {
        let work = self.folder.join(WORK);
        let (git, packs) = (work.join("git"), work.join("packs"));
        self.make_git_folder(&git)?;
        fs::create_dir(&packs).map_err(|error| error.to_string())?;
        let mut input = String::new();
        for (hash, _) in wanted.iter().filter(|(hash, _)| !known.contains(hash.as_str())) {
            input.push_str(&format!("{hash}\n"));
        }
        input.push_str("--not\n");
        known.iter().for_each(|hash| input.push_str(&format!("{hash}\n")));
        let name = packs.join("pack");
        let argv = ["pack-objects", "--revs", "--local", "--non-empty", "--quiet"];
        let argv = argv.iter().map(OsString::from).chain([name.into_os_string()]);
        let mut closed = self.closed.clone();
        closed.writable = vec![work.clone()];
        let objects = work.join("copy/objects");
        let program = self.git(argv.collect(), &git, &objects, closed);
        // Where it works is seen, wherever it is.
        let folder = self.commits.git.join("objects");
        self.run("pack its new objects", Program { folder, input: input.into_bytes(), ..program })?;
        let packs = fs::read_dir(&packs).map_err(|error| error.to_string())?;
        let mut packs = packs.flatten().map(|entry| entry.path());
        let pack = packs.find(|path| path.extension() == Some(OsStr::new("pack")));
        match pack {
            Some(pack) if !fs::symlink_metadata(&pack).is_ok_and(|own| own.is_file()) => {
                Err("its new objects are not in a file".to_owned())
            }
            pack => Ok(pack),
        }
    }

    /// Reads a pack, and names every object in it by its content.
    fn indexed(&self, pack: &Path, incoming: &Path) -> Result<(), String> {
        let shell = "exec \"$0\" index-pack --strict --stdin --max-input-size=\"$1\" < \"$2\"";
        // Not by PATH: that could lead into the project.
        let argv =
            ["/bin/sh".into(), "-c".into(), shell.into(), self.commits.program.clone().into()];
        let more = [MOST_BYTES.to_string().into(), pack.as_os_str().to_owned()];
        let closed = self.closed_for(vec![incoming.to_owned()]);
        let program = self.git(Vec::new(), &self.folder.join("git"), incoming, closed);
        let argv = argv.into_iter().chain(more).collect();
        self.run("check its new objects", Program { argv, ..program }).map(drop)
    }

    /// Every object that is wanted exists, and is what it must be.
    fn check_kinds(&self, wanted: &[&(String, Kind)], incoming: &Path) -> Result<(), String> {
        let argv = vec!["cat-file".into(), "--batch-check=%(objectname) %(objecttype)".into()];
        let closed = self.closed_for(vec![incoming.to_owned()]);
        let program = self.git(argv, &self.folder.join("git"), incoming, closed);
        let input: String = wanted.iter().map(|(hash, _)| format!("{hash}\n")).collect();
        let said =
            self.run("look at its objects", Program { input: input.into_bytes(), ..program })?;
        let found: BTreeMap<&str, &str> =
            said.lines().filter_map(|line| line.split_once(' ')).collect();
        for (hash, kind) in wanted {
            let found = found.get(hash.as_str()).copied().unwrap_or("missing");
            let is_meant = match kind {
                Kind::Commit => found == "commit",
                Kind::Tree => found == "tree",
                Kind::Blob => found == "blob",
                Kind::Any => ["commit", "tree", "blob", "tag"].contains(&found),
            };
            if !is_meant {
                return Err(format!("object {hash}: {found}, expected {kind:?}").to_lowercase());
            }
        }
        Ok(())
    }

    /// A git folder without settings: its objects are elsewhere.
    fn make_git_folder(&self, folder: &Path) -> Result<(), String> {
        let make = || {
            state::put(folder, "HEAD", b"ref: refs/heads/main\n")?;
            fs::create_dir(folder.join("refs"))?;
            match fs::read(self.commits.git.join("shallow")) {
                Ok(text) => state::put(folder, "shallow", &text),
                Err(_) => Ok(()),
            }
        };
        make().map_err(|error: std::io::Error| format!("cannot make a git folder: {error}"))
    }

    fn closed_for(&self, writable: Vec<PathBuf>) -> Closed {
        Closed { writable, sight: Sight::default(), ..self.closed.clone() }
    }

    /// A call of git that reads nobody's settings.
    fn git(&self, argv: Vec<OsString>, git: &Path, objects: &Path, closed: Closed) -> Program {
        let set = |name: &str, value: &OsStr| (OsString::from(name), value.to_owned());
        let mut environment = self.commits.environment.named(&["PATH".to_owned()]);
        environment.extend([
            set("GIT_DIR", git.as_os_str()),
            set("GIT_OBJECT_DIRECTORY", objects.as_os_str()),
            set("GIT_ALTERNATE_OBJECT_DIRECTORIES", &quoted(&self.commits.git.join("objects"))),
            set("GIT_CONFIG_GLOBAL", OsStr::new("/dev/null")),
            set("GIT_CONFIG_NOSYSTEM", OsStr::new("1")),
            set("GIT_NO_REPLACE_OBJECTS", OsStr::new("1")),
            set("GIT_NO_LAZY_FETCH", OsStr::new("1")),
        ]);
        let mut closed = Closed { protected: Vec::new(), network: false, ..closed };
        closed.limits.file = MOST_BYTES;
        Program {
            argv: [self.commits.program.clone().into_os_string()].into_iter().chain(argv).collect(),
            folder: git.to_owned(),
            environment,
            input: Vec::new(),
            limit: LIMIT,
            mark: "git".to_owned(),
            most: MOST_SAID,
            copy: None,
            confine: Confine::Closed(Box::new(closed)),
            within: None,
        }
    }

    /// What it printed. `what`: for the reason why it did not work.
    fn run(&self, what: &str, program: Program) -> Result<String, String> {
        let ran = sandbox::run(&program, self.interrupt)?;
        if ran.how == How::Exit(0) && !ran.stdout.is_cut() {
            return Ok(ran.stdout.text());
        }
        let why = match ran.how {
            How::TimedOut => "it took too long".to_owned(),
            _ => baton_core::text::shown(ran.stderr.text().trim(), 300),
        };
        Err(format!("git could not {what}: {why}"))
    }
}

impl Checked {
    /// Moves the objects to the others.
    pub(super) fn keep(self) -> Result<(), String> {
        let target = self.objects.join("pack");
        fs::create_dir_all(&target).map_err(|error| error.to_string())?;
        let mut names: Vec<OsString> = fs::read_dir(self.incoming.join("pack"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        // A pack counts from its index on, which is moved last.
        names.sort_by_key(|name| name.as_bytes().ends_with(b".idx"));
        for name in names {
            let from = self.incoming.join("pack").join(&name);
            if is_part_of_pack(&name) && from.symlink_metadata().is_ok_and(|own| own.is_file()) {
                store::move_file(&from, &target.join(&name)).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        crate::view::remove_folder(&self.incoming);
    }
}

fn is_part_of_pack(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let parts = name.strip_prefix("pack-").and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(hash, kind)| is_hash(hash) && ["pack", "rev", "idx"].contains(&kind))
}

/// The commits and tags that the real repository has.
fn hashes(state: &State) -> impl Iterator<Item = &str> {
    let all = state.refs.values().chain([&state.head]);
    all.map(String::as_str).filter(|value| is_hash(value))
}

/// A path in a list of them.
fn quoted(path: &Path) -> OsString {
    let mut out = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b'\n' => out.extend(*b"\\n"),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
    OsString::from_vec(out)
}
