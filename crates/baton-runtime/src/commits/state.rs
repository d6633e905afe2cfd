//! What a git folder says beside its objects: read from files alone, and written into a copy.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use crate::load;

/// Bytes of a file that holds one line.
const MOST_LINE: u64 = 4_096;
const MOST_PACKED: u64 = 64 << 20;
const MOST_LOG: u64 = 32 << 20;
const MOST_LOGS: usize = 128 << 20;
const MOST_INDEX: u64 = 256 << 20;
const MOST_FILES: usize = 100_000;
const DEEPEST: usize = 40;

/// Files beside HEAD that name commits, or the tree of a merge.
pub(super) const MARKS: [&str; 5] =
    ["ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE"];
/// Parts of `logs` that are looked at.
const LOGS: [&str; 2] = ["refs/heads", "refs/stash"];

/// What a git folder says. A value is a hash, or `ref: ` and the name of another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) head: String,
    pub(super) refs: BTreeMap<String, String>,
    /// Reflogs by the names of their refs, and of HEAD.
    pub(super) logs: BTreeMap<String, Vec<u8>>,
    pub(super) marks: BTreeMap<&'static str, String>,
    /// With the time at which it was written.
    pub(super) index: Option<(Vec<u8>, SystemTime)>,
}

impl State {
    /// `Err`: what in it is not as git makes it, or is too large.
    pub(super) fn read(git: &Path) -> Result<State, String> {
        if !is_folder(&git.join("refs")) {
            return Err("refs is not a folder".to_owned());
        }
        let mut state =
            State { head: line(&git.join("HEAD"))?.ok_or("it has no HEAD")?, ..State::default() };
        let mut names = Names::default();
        // Before what is packed: a ref that is packed meanwhile is found there.
        names.read(git, "refs", 0)?;
        for name in names.found {
            if let Some(value) = line(&git.join(&name))? {
                state.refs.insert(name, value);
            }
        }
        for (name, value) in packed(git)? {
            state.refs.entry(name).or_insert(value);
        }
        state.read_logs(git)?;
        for name in MARKS {
            state.marks.extend(lines(&git.join(name))?.map(|value| (name, value)));
        }
        let index = git.join("index");
        if let Some(bytes) = bytes(&index, MOST_INDEX)? {
            let time = fs::symlink_metadata(&index).and_then(|own| own.modified());
            state.index = Some((bytes, time.map_err(|error| said(&index, &error))?));
        }
        Ok(state)
    }

    fn read_logs(&mut self, git: &Path) -> Result<(), String> {
        let logs = git.join("logs");
        match fs::symlink_metadata(&logs) {
            Err(_) => return Ok(()),
            Ok(own) if own.is_dir() => {}
            Ok(_) => return Err("logs is not a folder".to_owned()),
        }
        let mut names = Names { found: vec!["HEAD".to_owned()] };
        if fs::symlink_metadata(logs.join("refs")).is_ok_and(|own| !own.is_dir()) {
            return Err("logs/refs is not a folder".to_owned());
        }
        for name in LOGS {
            names.add(&logs, name, 0)?;
        }
        let mut left = MOST_LOGS;
        for name in names.found {
            let Some(log) = bytes(&logs.join(&name), MOST_LOG)? else { continue };
            left = left.checked_sub(log.len()).ok_or("its reflogs are too large")?;
            self.logs.insert(name, log);
        }
        Ok(())
    }

    /// Writes it into an empty folder.
    pub(super) fn write(&self, git: &Path) -> io::Result<()> {
        put(git, "HEAD", format!("{}\n", self.head).as_bytes())?;
        let mut packed = "# pack-refs with: sorted \n".to_owned();
        for (name, value) in &self.refs {
            match value.starts_with("ref: ") {
                true => put(git, name, format!("{value}\n").as_bytes())?,
                false => packed.push_str(&format!("{value} {name}\n")),
            }
        }
        put(git, "packed-refs", packed.as_bytes())?;
        for (name, log) in &self.logs {
            put(git, &format!("logs/{name}"), log)?;
        }
        for (name, value) in &self.marks {
            put(git, name, format!("{value}\n").as_bytes())?;
        }
        if let Some((bytes, time)) = &self.index {
            put(git, "index", bytes)?;
            // Git trusts entries that are older than the index.
            File::options().append(true).open(git.join("index"))?.set_modified(*time)?;
        }
        Ok(())
    }
}

/// Writes a file of a copy, which need not last.
pub(super) fn put(git: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let path = git.join(name);
    fs::create_dir_all(path.parent().unwrap_or(git))?;
    File::create_new(path)?.write_all(content)
}

/// Names of files below a folder, as refs have them.
#[derive(Default)]
struct Names {
    found: Vec<String>,
}

impl Names {
    fn read(&mut self, base: &Path, folder: &str, depth: usize) -> Result<(), String> {
        let entries =
            fs::read_dir(base.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("{folder}: {error}"))?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| format!("a name in {folder} is not UTF-8"))?;
            // Git passes these over, too.
            if name.starts_with('.') || name.ends_with(".lock") {
                continue;
            }
            self.add(base, &format!("{folder}/{name}"), depth)?;
        }
        Ok(())
    }

    /// A file, or all in a folder.
    fn add(&mut self, base: &Path, name: &str, depth: usize) -> Result<(), String> {
        if depth > DEEPEST || self.found.len() > MOST_FILES {
            return Err("it has too many refs".to_owned());
        }
        match fs::symlink_metadata(base.join(name)) {
            Ok(own) if own.is_dir() => self.read(base, name, depth + 1),
            Ok(own) if own.is_file() => {
                self.found.push(name.to_owned());
                Ok(())
            }
            Ok(_) => Err(format!("{name} is not a regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }
}

pub(super) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|own| own.is_dir())
}

/// The refs of `packed-refs`.
fn packed(git: &Path) -> Result<Vec<(String, String)>, String> {
    let Some(text) = text(&git.join("packed-refs"), MOST_PACKED)? else { return Ok(Vec::new()) };
    let lines = text.lines().filter(|line| !line.starts_with(['#', '^']) && !line.is_empty());
    let read = |line: &str| {
        let (hash, name) = line.split_once(' ').filter(|(hash, _)| is_hash(hash))?;
        Some((name.to_owned(), hash.to_owned()))
    };
    lines.map(read).collect::<Option<_>>().ok_or_else(|| "packed-refs is damaged".to_owned())
}

/// 40 hexadecimal digits.
pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The one line of a file. `None`: there is no file.
fn line(path: &Path) -> Result<Option<String>, String> {
    let text = lines(path)?;
    let is_value = |text: &String| {
        is_hash(text) || text.strip_prefix("ref: ").is_some_and(|name| !name.contains('\n'))
    };
    match text {
        Some(text) if !is_value(&text) => Err(format!("{} is damaged", name_of(path))),
        text => Ok(text),
    }
}

fn lines(path: &Path) -> Result<Option<String>, String> {
    Ok(text(path, MOST_LINE)?.map(|text| text.trim_end().to_owned()))
}

fn text(path: &Path, most: u64) -> Result<Option<String>, String> {
    let Some(bytes) = bytes(path, most)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|_| format!("{} is not UTF-8", name_of(path)))
}

pub(super) fn bytes(path: &Path, most: u64) -> Result<Option<Vec<u8>>, String> {
    match load::bytes_of_file(path, most) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(load::Error::Missing(_)) if path.is_symlink() => Err(said(path, &"it is a link")),
        Err(load::Error::Missing(_)) => Ok(None),
        Err(load::Error::TooLarge { .. }) => Err(said(path, &"it is too large")),
        Err(load::Error::NotAFile(_)) => Err(said(path, &"it is not a regular file")),
        Err(error) => Err(said(path, &error)),
    }
}

fn said(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", name_of(path))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
