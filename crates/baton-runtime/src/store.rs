//! The only writer of files. Every file is written to a temporary name, synced and renamed, and its
//! folder synced: a crash leaves the old text or the new one, never half of either.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct Error {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error { action, path, source }
}

/// Replaces a file's content, or makes the file. A link is followed, permissions are kept.
pub fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".baton-")
        .tempfile_in(folder)
        .map_err(failed("write", path))?;
    file.write_all(content).map_err(failed("write", path))?;
    if let Ok(old) = fs::metadata(path) {
        file.as_file().set_permissions(old.permissions()).map_err(failed("write", path))?;
    }
    file.as_file().sync_all().map_err(failed("sync", path))?;
    file.persist(path).map_err(|error| failed("write", path)(error.error))?;
    sync_folder(folder)
}

/// Makes a folder with these files and empty folders, all or nothing: it appears under its name
/// only when everything in it is on disk. Nothing may stand there yet.
pub fn create_folder(
    path: &Path,
    files: &[(PathBuf, Vec<u8>)],
    folders: &[PathBuf],
) -> Result<(), Error> {
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(failed("create", parent))?;
    let draft = tempfile::Builder::new()
        .prefix(".baton-init-")
        .tempdir_in(parent)
        .map_err(failed("create a folder in", parent))?;
    for folder in folders {
        let folder = draft.path().join(folder);
        fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
    }
    for (name, content) in files {
        let file = draft.path().join(name);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        let mut opened = File::create(&file).map_err(failed("create", &file))?;
        opened.write_all(content).map_err(failed("write", &file))?;
        opened.sync_all().map_err(failed("sync", &file))?;
    }
    sync_tree(draft.path())?;
    // Renaming over a folder that holds anything fails: a second init can never mix with a first.
    fs::rename(draft.path(), path).map_err(failed("create", path))?;
    // The draft has become the real folder; there is nothing left to remove.
    let _ = draft.keep();
    sync_folder(parent)
}

/// Adds a line to a small text file unless it is there; makes the file where it is missing.
pub fn ensure_line(path: &Path, line: &str) -> Result<bool, Error> {
    let old = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed("read", path)(error)),
    };
    if old.lines().any(|own| own.trim() == line) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
    }
    let newline = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    write(path, format!("{old}{newline}{line}\n").as_bytes())?;
    Ok(true)
}

/// As `write`, making the folder where it is missing.
pub fn write_new(path: &Path, content: &[u8]) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
    }
    write(path, content)
}

pub fn remove(path: &Path) -> Result<(), Error> {
    fs::remove_file(path).map_err(failed("remove", path))
}

/// Removes a folder of ours with everything in it; nothing there is no error.
pub fn remove_folder(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

fn sync_tree(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(failed("read", folder))? {
        let entry = entry.map_err(failed("read", folder))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sync_tree(&entry.path())?;
        }
    }
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))
}
