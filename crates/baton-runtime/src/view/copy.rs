//! Copies of files with their modes and times, and the removal of folders that their owner cannot
//! read.

use std::ffi::CString;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, utimensat};

/// Folders in folders that are left in one piece.
const DEEP: usize = 100;
const MOST_ROUNDS: usize = 2_000;

/// Copies one file or link, and makes the folders that it lies in.
pub(super) fn one(from: &Path, to: &Path, name: &Path, own: &Metadata) -> io::Result<()> {
    let (source, target) = (from.join(name), to.join(name));
    let mut folder = std::path::PathBuf::new();
    for part in name.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        let made = to.join(&folder);
        match fs::symlink_metadata(&made) {
            Ok(there) if there.is_dir() => continue,
            Ok(_) => fs::remove_file(&made)?,
            Err(_) => {}
        }
        fs::create_dir(&made)?;
        take_mode(&from.join(&folder), &made);
    }
    if fs::symlink_metadata(&target).is_ok_and(|there| there.is_dir()) {
        remove(&target);
    }
    // It appears whole, or not at all: an interrupted copy must not pass for the file.
    let part = to.join(format!(".part-{}", std::process::id()));
    let _ = fs::remove_file(&part);
    content(&source, &part, own)?;
    fs::rename(&part, &target)
}

/// The content, mode and times of a file, or the target of a link.
fn content(source: &Path, target: &Path, own: &Metadata) -> io::Result<()> {
    if own.is_symlink() {
        symlink(fs::read_link(source)?, target)?;
    } else {
        let flags = rustix::fs::OFlags::RDONLY
            | rustix::fs::OFlags::NOFOLLOW
            | rustix::fs::OFlags::NONBLOCK
            | rustix::fs::OFlags::CLOEXEC;
        let mut read = File::from(rustix::fs::open(source, flags, rustix::fs::Mode::empty())?);
        if !read.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file any more"));
        }
        let mut written = File::create_new(target)?;
        if rustix::fs::ioctl_ficlone(&written, &read).is_err() {
            io::copy(&mut read, &mut written)?;
        }
        take_owner(target, own);
        written.set_permissions(Permissions::from_mode(own.mode() & 0o7777))?;
    }
    take_times(target, own);
    Ok(())
}

/// Gives a folder the owner and the mode of another one, with what its owner needs.
pub(super) fn take_mode(from: &Path, to: &Path) {
    if let Ok(own) = fs::metadata(from) {
        take_owner(to, &own);
        let mode = own.mode() & 0o7777 | 0o700;
        let _ = fs::set_permissions(to, Permissions::from_mode(mode));
    }
}

/// Root keeps the owners of files; to any other user they are its own.
fn take_owner(path: &Path, own: &Metadata) {
    if rustix::process::geteuid().is_root() {
        let _ = std::os::unix::fs::lchown(path, Some(own.uid()), Some(own.gid()));
    }
}

fn take_times(path: &Path, own: &Metadata) {
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(own.atime(), own.atime_nsec()),
        last_modification: time(own.mtime(), own.mtime_nsec()),
    };
    let _ = utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW);
}

/// True for what has gone meanwhile, what its owner may not read, and what no path can name.
fn is_passed_over(error: &io::Error) -> bool {
    let kinds =
        [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidFilename];
    kinds.contains(&error.kind())
}

/// Copies a folder with all that it holds but `except`; the bytes of its files. What is neither a
/// file, a link nor a folder is left out, and what cannot be read.
pub(super) fn whole(from: &Path, to: &Path, except: &Path) -> io::Result<u64> {
    fs::create_dir(to)?;
    let mut bytes = 0;
    let mut left = vec![(from.to_owned(), to.to_owned())];
    let mut folders = Vec::new();
    while let Some((from, to)) = left.pop() {
        let entries = match fs::read_dir(&from) {
            Err(error) if is_passed_over(&error) => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let own = match entry.metadata() {
                Ok(own) => own,
                Err(error) if is_passed_over(&error) => continue,
                Err(error) => return Err(error),
            };
            let made = if own.is_dir() && source != except {
                fs::create_dir(&target).map(|()| left.push((source, target)))
            } else if own.is_file() || own.is_symlink() {
                content(&source, &target, &own).map(|()| bytes += own.len())
            } else {
                Ok(())
            };
            match made {
                Err(error) if is_passed_over(&error) => {}
                made => made?,
            }
        }
        folders.push((from, to));
    }
    // From the inside out: a copied file changes the time of its folder.
    for (from, to) in folders.iter().rev() {
        take_mode(from, to);
        if let Ok(own) = fs::metadata(from) {
            take_times(to, &own);
        }
    }
    Ok(bytes)
}

/// Removes a file of a copy, and the folders that it leaves empty.
pub(super) fn remove_one(root: &Path, name: &Path) {
    if fs::remove_file(root.join(name)).is_err() {
        return;
    }
    for folder in name.ancestors().skip(1).take_while(|own| !own.as_os_str().is_empty()) {
        if fs::remove_dir(root.join(folder)).is_err() {
            return;
        }
    }
}

/// Removes a folder with all that it holds. An overlay leaves one that nobody may read, and an agent
/// may have made others.
pub(super) fn remove(path: &Path) {
    let Ok(own) = fs::symlink_metadata(path) else { return };
    if !own.is_dir() {
        let _ = fs::remove_file(path);
        return;
    }
    if fs::remove_dir_all(path).is_ok() {
        return;
    }
    let mut left = vec![path.to_owned()];
    while let Some(folder) = left.pop() {
        let _ = fs::set_permissions(&folder, Permissions::from_mode(0o700));
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            }
        }
    }
    for round in 0..MOST_ROUNDS {
        if fs::remove_dir_all(path).is_ok() || flattened(path, round).is_none() {
            return;
        }
    }
}

/// Moves a folder that is very deep in another one to its top: no path can name what is in it, and
/// each folder on the way costs an open file.
fn flattened(path: &Path, round: usize) -> Option<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let mut folder = top.try_clone().ok()?;
    for _ in 0..DEEP {
        let name = inner_folder(&folder)?;
        let _ = rustix::fs::chmodat(&folder, &name, Mode::RWXU, AtFlags::empty());
        folder = rustix::fs::openat(&folder, &name, flags, Mode::empty()).ok()?;
    }
    let name = inner_folder(&folder)?;
    rustix::fs::renameat(&folder, &name, &top, format!(".deep-{round}")).ok()
}

/// The name of a folder in this one.
fn inner_folder(folder: &OwnedFd) -> Option<CString> {
    let mut entries = rustix::fs::Dir::read_from(folder).ok()?.flatten();
    let is_wanted = |own: &rustix::fs::DirEntry| {
        let name = own.file_name().to_bytes();
        name != b"." && name != b".." && !name.starts_with(b".deep-")
    };
    let found = entries.find(|own| {
        let stat = || rustix::fs::statat(folder, own.file_name(), AtFlags::SYMLINK_NOFOLLOW);
        is_wanted(own)
            && stat().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    });
    found.map(|own| own.file_name().to_owned())
}
