//! The only writer of files. Every file is written to a temporary name, synced and renamed, and its
//! folder synced: a crash leaves the old text or the new one, never half of either.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// As any program makes a file; the umask takes away from it.
const NEW_FILE: u32 = 0o666;

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
    let folder = folder_of(path);
    let mut file = tempfile::Builder::new()
        .prefix(".baton-")
        .permissions(fs::Permissions::from_mode(NEW_FILE))
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
    let parent = folder_of(path);
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

/// As `write`, making the folder where it is missing.
pub fn write_new(path: &Path, content: &[u8]) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
    }
    write(path, content)
}

/// Writes over the end of a file, where it is this one; false, and nothing done, where it is
/// another. Not synced: only for what can be made again.
pub fn append_before_end(path: &Path, end: &str, new: &str) -> Result<bool, Error> {
    let mut file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("open", path)(error)),
    };
    file.lock().map_err(failed("lock", path))?;
    let length = file.metadata().map_err(failed("read", path))?.len();
    let Some(at) = length.checked_sub(end.len() as u64) else { return Ok(false) };
    let mut found = vec![0; end.len()];
    file.read_exact_at(&mut found, at).map_err(failed("read", path))?;
    if found != end.as_bytes() {
        return Ok(false);
    }
    file.seek(io::SeekFrom::Start(at)).map_err(failed("write", path))?;
    file.write_all(new.as_bytes()).map_err(failed("write", path))?;
    Ok(true)
}

pub fn remove(path: &Path) -> Result<(), Error> {
    fs::remove_file(path).map_err(failed("remove", path))
}

/// Moves a folder of ours to a name that is free, in the same file system.
pub fn move_folder(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
    }
    fs::rename(from, to).map_err(failed("move", from))?;
    sync_folder(to.parent().unwrap_or(Path::new(".")))
}

/// Keeps other writers of a folder's files out for as long as it lives. The lock is the folder's
/// own: a file that is replaced by a rename cannot hold one.
#[derive(Debug)]
pub struct FolderLock {
    _handle: File,
}

impl FolderLock {
    /// Waits until the folder of this file is free.
    pub fn of_file(file: &Path) -> Result<FolderLock, Error> {
        let folder = folder_of(file);
        let handle = File::open(folder).map_err(failed("lock", folder))?;
        handle.lock().map_err(failed("lock", folder))?;
        Ok(FolderLock { _handle: handle })
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
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
