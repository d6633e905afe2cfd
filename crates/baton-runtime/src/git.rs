//! What Baton has to do with git: it keeps a blackboard out of it by one line in `info/exclude`, and
//! tells whether a work tree has changes and which files are tracked. The project's own git
//! configuration is never read: it could make git start any program.

pub(crate) mod index;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::board::Error;
use crate::load::Environment;
use crate::sandbox::{self, Confine, How, Interrupt, Program};
use crate::walk::{self, Above, Skip, Skipped};
use crate::{load, store};

const MOST_INDEX: u64 = 256 << 20;
/// What git says is a note to the user: nobody waits long for it.
const GIT_LIMIT: Duration = Duration::from_secs(4);

/// Adds the line. `None`: the blackboard lies in no git repository.
pub fn exclude(board: &Path) -> Result<Option<PathBuf>, Error> {
    let Ok(board) = fs::canonicalize(board) else { return Ok(None) };
    let Some((top, git)) =
        board.ancestors().skip(1).find_map(|folder| Some((folder, git_folder(folder)?)))
    else {
        return Ok(None);
    };
    let Some(inside) = board.strip_prefix(top).ok().and_then(Path::to_str) else { return Ok(None) };
    let file = git.join("info/exclude");
    // A project may have a link there: what it leads to is not ours to write.
    if file.is_symlink() || git.join("info").is_symlink() {
        return Ok(None);
    }
    let line = format!("/{}/", escaped(inside));
    let old = match load::text(&file, load::SMALL) {
        Ok(text) => text,
        Err(load::Error::Missing(_)) => String::new(),
        Err(error) => return Err(error.into()),
    };
    if !old.lines().any(|own| own.trim_end() == line) {
        let newline = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
        store::write_new(&file, format!("{old}{newline}{line}\n").as_bytes())?;
    }
    Ok(Some(file))
}

/// The top of the work tree that a folder lies in.
pub fn top(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|own| git_folder(own).is_some()).map(Path::to_owned)
}

/// The commit that a work tree is at; `None` before the first one.
pub fn head_of(top: &Path) -> Option<String> {
    head(&work_tree_folder(top)?, &git_folder(top)?)
}

/// How many files of the work tree are not as they were committed. `None`: none, or it cannot be
/// told.
pub fn dirty(project: &Path, environment: &Environment) -> Option<usize> {
    let (top, own) = work_tree(project)?;
    if !is_looked_at(top) {
        return None;
    }
    let args = ["status", "--porcelain", "--ignore-submodules"];
    let said = asked(top, &own, top, &args, environment)?;
    let changes = said.lines().filter(|line| !line.is_empty()).count();
    (changes > 0).then_some(changes)
}

/// True if git can look at a work tree without waiting: it opens whatever is in the place of a file of
/// rules, and takes long where they have no measure.
fn is_looked_at(top: &Path) -> bool {
    let interrupt = Interrupt::default();
    let walk = walk::Walk {
        root: top,
        start: "",
        opened: None,
        above: rules_above(top, false).0,
        for_search: false,
        only_visible: false,
        except: Vec::new(),
        earlier: None,
        was_there: &|_| false,
        with_look: false,
        interrupt: &interrupt,
    };
    walk.run(&mut walk::KnownRules::default()).is_ok_and(|walked| walked.skipped.is_empty())
}

/// The files of a project that git tracks, by their paths from its root. `None`: there are none, or
/// they cannot be listed.
pub fn tracked(project: &Path, environment: &Environment) -> Option<BTreeSet<String>> {
    let (top, own) = work_tree(project)?;
    let files: BTreeSet<String> =
        match index::names(&load::bytes(&own.join("index"), MOST_INDEX).ok()?) {
            Some(names) => {
                let mut inside = project.strip_prefix(top).ok()?.as_os_str().as_bytes().to_vec();
                if !inside.is_empty() {
                    inside.push(b'/');
                }
                let names = names.iter().filter_map(|name| name.strip_prefix(inside.as_slice()));
                names.map(walk::name_of).collect()
            }
            None => {
                let said = asked(top, &own, project, &["ls-files", "-z"], environment)?;
                said.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
            }
        };
    (!files.is_empty()).then_some(files)
}

/// The ignore rules that hold in a project and are not in it: of the folders above it in its work
/// tree, and `info/exclude`. With what cannot be used of them.
pub fn rules_above(project: &Path, is_inside: bool) -> (Vec<Above>, Skipped) {
    let (mut found, mut skipped) = (Vec::new(), Skipped::default());
    let top = top(project).filter(|top| is_inside || top == project);
    let Some(top) = top else { return (found, skipped) };
    let mut add = |file: PathBuf, folder: &Path, name: String, is_weak: bool| {
        let Ok(below) = project.strip_prefix(folder) else { return };
        match load::bytes_of_file(&file, walk::MOST_RULE_BYTES) {
            Ok(text) => found.push(Above { below: below.to_owned(), name, is_weak, text }),
            Err(load::Error::Missing(_)) => {}
            Err(load::Error::TooLarge { .. }) => {
                skipped.add(Skip::Rules("more than 256 KiB"), &file.to_string_lossy());
            }
            Err(_) => {
                skipped.add(Skip::Rules("not a regular file"), &file.to_string_lossy());
            }
        }
    };
    if let Some(common) = git_folder(&top) {
        add(common.join("info/exclude"), &top, ".git/info/exclude".to_owned(), true);
    }
    let between = project.ancestors().skip(1).take_while(|own| own.starts_with(&top));
    let between: Vec<&Path> = between.collect();
    for (up, folder) in between.iter().enumerate().rev() {
        let name = format!("{}.gitignore", "../".repeat(up + 1));
        add(folder.join(".gitignore"), folder, name, false);
    }
    (found, skipped)
}

/// The file in which git lists what it tracks.
pub fn index(folder: &Path) -> Option<PathBuf> {
    work_tree(folder).map(|(_, own)| own.join("index"))
}

/// The work tree that a folder is in, and its git folder.
fn work_tree(folder: &Path) -> Option<(&Path, PathBuf)> {
    folder.ancestors().find_map(|own| Some((own, work_tree_folder(own)?)))
}

/// The output of a git command in a folder of a work tree. The project's own configuration is not read.
fn asked(
    top: &Path,
    own: &Path,
    inside: &Path,
    args: &[&str],
    environment: &Environment,
) -> Option<String> {
    environment.program("git")?;
    let common = git_folder(top)?;
    // A git folder of our own, with nothing of the project's configuration in it.
    let folder = tempfile::tempdir().ok()?;
    let copy = |name: &str, bytes: &[u8]| store::write(&folder.path().join(name), bytes).ok();
    // Before the first commit there is only a branch without one.
    let head = head(own, &common).unwrap_or_else(|| "ref: refs/heads/main".to_owned());
    copy("HEAD", format!("{head}\n").as_bytes())?;
    fs::create_dir(folder.path().join("refs")).ok()?;
    fs::create_dir(folder.path().join("info")).ok()?;
    copy("index", &load::bytes(&own.join("index"), MOST_INDEX).ok()?)?;
    let exclude = load::bytes(&common.join("info/exclude"), load::SMALL).unwrap_or_default();
    copy("info/exclude", &exclude)?;
    let set = |name: &str, value: &Path| (OsString::from(name), value.as_os_str().to_owned());
    let mut variables = environment.named(&["PATH".to_owned()]);
    variables.extend([
        set("GIT_DIR", folder.path()),
        set("GIT_WORK_TREE", top),
        set("GIT_INDEX_FILE", &folder.path().join("index")),
        set("GIT_OBJECT_DIRECTORY", &common.join("objects")),
        set("GIT_CONFIG_GLOBAL", Path::new("/dev/null")),
        set("GIT_CONFIG_NOSYSTEM", Path::new("1")),
        set("GIT_OPTIONAL_LOCKS", Path::new("0")),
    ]);
    let program = Program {
        argv: ["git"].iter().chain(args).map(OsString::from).collect(),
        folder: inside.to_owned(),
        environment: variables,
        input: Vec::new(),
        limit: GIT_LIMIT,
        mark: "git".to_owned(),
        most: 64 << 20,
        copy: None,
        confine: Confine::Off,
        within: None,
    };
    let ran = sandbox::run(&program, &Interrupt::default()).ok()?;
    (ran.how == How::Exit(0)).then(|| ran.stdout.text())
}

/// The commit that a work tree stands on.
fn head(own: &Path, common: &Path) -> Option<String> {
    let head = load::text(&own.join("HEAD"), 4096).ok()?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return Some(head.trim().to_owned()) };
    let is_inside =
        Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if let Some(text) = is_inside.then(|| load::text(&common.join(name), 4096).ok()).flatten() {
        return Some(text.trim().to_owned());
    }
    let packed = load::text(&common.join("packed-refs"), 64 << 20).ok()?;
    packed.lines().find_map(|line| Some(line.strip_suffix(name)?.trim().to_owned()))
}

/// The pattern that means exactly this path.
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '\\' | '*' | '?' | '[' | ']' | ' ' | '!' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The git folder of a work tree, also of a linked one.
fn work_tree_folder(top: &Path) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    match fs::metadata(&dot_git).ok()?.is_dir() {
        true => Some(dot_git),
        false => {
            let text = load::text(&dot_git, 4096).ok()?;
            Some(top.join(text.strip_prefix("gitdir:")?.trim()))
        }
    }
}

/// The folder that holds `info/exclude`: of the main work tree, also for a linked one.
fn git_folder(top: &Path) -> Option<PathBuf> {
    let folder = work_tree_folder(top)?;
    let common = match load::text(&folder.join("commondir"), 4096) {
        Ok(text) => folder.join(text.trim()),
        _ => folder,
    };
    // A file that calls itself `.git` may point anywhere; only what git made has these.
    (common.join("HEAD").is_file() && common.join("objects").is_dir()).then_some(common)
}
