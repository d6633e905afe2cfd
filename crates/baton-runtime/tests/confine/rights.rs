//! Files that would give rights to whoever runs them, and ways to stand in the way of others.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use baton_runtime::sandbox::{Confine, How};

use crate::ground::Ground;
use crate::probe::call;

/// Ways to make a file that runs with the rights of its owner or its group.
const WAYS: [&str; 11] = [
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "creat",
    "open",
    "openat",
    "openat2",
    "temporary",
    "mknod",
    "mknodat",
];

/// The attacker: one way, in the current folder.
pub(crate) fn made(way: &str, mode: i64) -> io::Result<()> {
    let name = format!("made-{way}-{mode:o}");
    let path = CString::new(name.as_str()).unwrap();
    let at = path.as_ptr() as i64;
    let flags = i64::from(libc::O_CREAT | libc::O_WRONLY);
    let here = i64::from(libc::AT_FDCWD);
    let existing = || fs::write(&name, "").map(|()| fs::File::open(&name).unwrap());
    let number = |file: &fs::File| i64::from(std::os::fd::AsRawFd::as_raw_fd(file));
    rustix::process::umask(rustix::fs::Mode::empty());
    match way {
        "chmod" => existing().and_then(|_| call(libc::SYS_chmod, [at, mode, 0, 0, 0])),
        "fchmod" => {
            existing().and_then(|own| call(libc::SYS_fchmod, [number(&own), mode, 0, 0, 0]))
        }
        "fchmodat" => existing().and_then(|_| call(libc::SYS_fchmodat, [here, at, mode, 0, 0])),
        "fchmodat2" => existing().and_then(|_| call(libc::SYS_fchmodat2, [here, at, mode, 0, 0])),
        "creat" => call(libc::SYS_creat, [at, mode, 0, 0, 0]),
        "open" => call(libc::SYS_open, [at, flags, mode, 0, 0]),
        "openat" => call(libc::SYS_openat, [here, at, flags, mode, 0]),
        "openat2" => {
            let how = [flags, mode, 0];
            call(libc::SYS_openat2, [here, at, how.as_ptr() as i64, 24, 0])
        }
        "temporary" => {
            let flags = i64::from(libc::O_TMPFILE | libc::O_WRONLY);
            let file = call(libc::SYS_openat, [here, c".".as_ptr() as i64, flags, mode, 0])?;
            let own = CString::new(format!("/proc/self/fd/{file}")).unwrap();
            let follow = i64::from(libc::AT_SYMLINK_FOLLOW);
            call(libc::SYS_linkat, [here, own.as_ptr() as i64, here, at, follow])
        }
        "mknod" => call(libc::SYS_mknod, [at, i64::from(libc::S_IFREG) | mode, 0, 0, 0]),
        "mknodat" => call(libc::SYS_mknodat, [here, at, i64::from(libc::S_IFREG) | mode, 0, 0]),
        _ => panic!("there is no way `{way}`"),
    }?;
    // Not every way fails that does not work.
    match fs::metadata(&name)?.permissions().mode() & 0o6000 {
        0 => Err(io::Error::other("the bit is not set")),
        _ => Ok(()),
    }
}

fn with_rights(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let marked =
        entries.filter(|entry| entry.metadata().unwrap().permissions().mode() & 0o6000 != 0);
    marked.map(|entry| entry.file_name().display().to_string()).collect()
}

pub(crate) fn no_rights_of_an_owner() {
    for mode in ["4755", "2755", "6711"] {
        let (inside, outside) = (Ground::new(), Ground::new());
        for way in WAYS {
            let words = ["rights", way, mode];
            let (how, said) = outside.probe(&words, Confine::Off);
            assert_eq!(how, How::Exit(0), "{way} {mode}, the control: {said}");
            let (how, said) = inside.probe(&words, inside.confine());
            assert_eq!(how, How::Exit(1), "{way} {mode}: {said}");
        }
        assert_eq!(with_rights(&outside.path("project")).len(), WAYS.len());
        assert_eq!(with_rights(&inside.path("project")), [""; 0], "{mode}");
    }
    println!("  {} ways, each with 3 modes", WAYS.len());
    // All that others may do with their files.
    let ground = Ground::new();
    let line = "umask 0; echo x > a; chmod 755 a; chmod 1777 .; mkdir -m 700 b; install -m 644 a c; \
        ln a d; cp -p a e; mkfifo f; mktemp ./g.XXXX; mktemp -d; stat -c %a a c b . | tr '\\n' ' '";
    let said = ground.shell(line, ground.confine());
    assert!(said.ends_with("755 644 700 1777 "), "{said}");
}

/// A lease makes whoever opens the file wait, and tells of it.
pub(crate) fn no_leases() {
    let ground = Ground::new();
    ground.write("elsewhere/file", "text");
    let file = ground.path("elsewhere/file");
    for request in ["lease", "notify"] {
        let words = ["fcntl", request, file.to_str().unwrap()];
        let (how, said) = ground.probe(&words, Confine::Off);
        assert_eq!(how, How::Exit(0), "{request}, the control: {said}");
        let (how, said) = ground.probe(&words, ground.confine());
        assert_eq!(how, How::Exit(1), "{request}: {said}");
    }
    // Locks are for all who can open a file: package caches are read under one.
    let line = format!("flock -n -x {} echo locked", file.display());
    assert_eq!(ground.shell(&line, ground.confine()), "locked\n");
}

/// The attacker.
pub(crate) fn asked(request: &str, path: &Path) -> io::Result<()> {
    let (request, path) = match request {
        "lease" => (libc::F_SETLEASE, path),
        _ => (libc::F_NOTIFY, path.parent().unwrap()),
    };
    let file = fs::File::open(path)?;
    let number = i64::from(std::os::fd::AsRawFd::as_raw_fd(&file));
    let argument = match request {
        libc::F_SETLEASE => i64::from(libc::F_RDLCK),
        // DN_MODIFY
        _ => 2,
    };
    call(libc::SYS_fcntl, [number, i64::from(request), argument, 0, 0]).map(drop)
}
