//! The few calls that need `unsafe`: made by the launcher alone, which has one thread.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Which of the two it is that goes on.
pub(super) enum Forked {
    Child,
    Parent(Pid),
}

#[expect(unsafe_code, reason = "there is no safe fork")]
pub(super) fn fork() -> io::Result<Forked> {
    // SAFETY: the launcher has one thread, so no lock is held by another that the child would miss.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Pid::from_raw(pid).map(Forked::Parent).ok_or_else(|| io::ErrorKind::Other.into()),
    }
}

/// Ends the launcher, without anything that a program does at its end: what it would write then would
/// go into the folder of the program that was confined.
#[expect(unsafe_code, reason = "there is no safe way to end without handlers")]
pub(super) fn leave(code: i32) -> ! {
    // SAFETY: it ends the process; nothing is used behind it.
    unsafe { libc::_exit(code) }
}

/// Leaves namespaces behind; never the table of open files.
#[expect(unsafe_code, reason = "rustix asks for a promise about open files")]
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    let flags = flags.difference(UnshareFlags::FILES);
    // SAFETY: the table of open files stays shared.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Makes a mount read-only; `everything`: those beneath it, too.
#[expect(unsafe_code, reason = "rustix has no mount_setattr")]
pub(super) fn read_only(path: &Path, everything: bool) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = if everything { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: both pointers are valid for the whole call, and the size is that of the struct.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
