//! Everything that could change what a path holds, from a folder that may be written.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::probe::call;

/// In an order in which no one that works makes a later one impossible.
const WAYS: [&str; 23] = [
    "chmod",
    "touch",
    "hard link out",
    "attribute",
    "exchange",
    "append",
    "truncate",
    "write",
    "make a folder",
    "make its folders",
    "create",
    "inside",
    "link to",
    "hard link over",
    "fifo",
    "rename over",
    "rename a folder over",
    "rename away",
    "swap its folder",
    "swap the folder of its folder",
    "unlink",
    "remove",
    "unmount",
];

struct Attack<'a> {
    path: &'a Path,
    scratch: &'a Path,
}

pub(crate) fn attack(path: &Path, scratch: &Path) -> i32 {
    let attack = Attack { path, scratch };
    for way in WAYS {
        match attack.on_content(way).unwrap_or_else(|| attack.on_name(way)) {
            Ok(()) => println!("succeeded: {way}"),
            Err(error) => println!("denied: {way}: {error}"),
        }
    }
    for name in ["link", "exchange", "hard", "over", "away", "folder", "parent", "top"] {
        let spare = attack.spare(name);
        let _ = fs::remove_file(&spare).or_else(|_| fs::remove_dir_all(&spare));
    }
    0
}

fn c(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

impl Attack<'_> {
    fn spare(&self, name: &str) -> PathBuf {
        self.scratch.join(format!("spare-{name}"))
    }

    fn made(&self, name: &str) -> io::Result<PathBuf> {
        fs::write(self.spare(name), "evil")?;
        Ok(self.spare(name))
    }

    fn on_content(&self, way: &str) -> Option<io::Result<()>> {
        let path = self.path;
        let open = |options: &mut OpenOptions| options.open(path);
        Some(match way {
            "chmod" => fs::set_permissions(path, Permissions::from_mode(0o777)),
            "touch" => File::open(path).and_then(|own| own.set_modified(SystemTime::UNIX_EPOCH)),
            "attribute" => {
                let (path, name) = (c(path), c"user.evil");
                let name = name.as_ptr() as i64;
                call(libc::SYS_setxattr, [path.as_ptr() as i64, name, name, 4, 0]).map(drop)
            }
            "append" => {
                open(OpenOptions::new().append(true)).and_then(|mut own| own.write_all(b"evil"))
            }
            "truncate" => open(OpenOptions::new().write(true).truncate(true)).map(drop),
            "write" => fs::write(path, "evil"),
            "create" => File::create_new(path).map(drop),
            "inside" => fs::write(path.join("evil"), "evil"),
            "hard link out" => fs::hard_link(path, self.spare("link")),
            _ => return None,
        })
    }

    fn on_name(&self, way: &str) -> io::Result<()> {
        let path = self.path;
        let parent = path.parent().unwrap();
        // The folder that may be written is the one that we stand in.
        let is_top = |path: &Path| [".baton", ".git", "home"].iter().any(|own| path.ends_with(own));
        let missing = || Err(io::ErrorKind::NotFound.into());
        match way {
            "exchange" => {
                let (from, to) = (c(&self.made("exchange")?), c(path));
                let (from, to) = (from.as_ptr() as i64, to.as_ptr() as i64);
                call(libc::SYS_renameat2, [-100, from, -100, to, 2]).map(drop)
            }
            "make a folder" => fs::create_dir(path),
            "make its folders" if parent.exists() => Err(io::ErrorKind::AlreadyExists.into()),
            "make its folders" => fs::create_dir_all(parent),
            "link to" => symlink("/evil", path),
            "hard link over" => fs::hard_link(self.made("hard")?, path),
            "fifo" => {
                let (path, kind) = (c(path), i64::from(libc::S_IFIFO));
                call(libc::SYS_mknodat, [-100, path.as_ptr() as i64, kind, 0, 0]).map(drop)
            }
            "rename over" => fs::rename(self.made("over")?, path),
            "rename a folder over" => {
                let _ = fs::create_dir(self.spare("folder"));
                fs::rename(self.spare("folder"), path)
            }
            "rename away" => fs::rename(path, self.spare("away")),
            "swap its folder" if is_top(path) => missing(),
            "swap its folder" => fs::rename(parent, self.spare("parent")),
            "swap the folder of its folder" if is_top(path) || is_top(parent) => missing(),
            "swap the folder of its folder" => {
                fs::rename(parent.parent().unwrap(), self.spare("top"))
            }
            "unlink" => fs::remove_file(path),
            "remove" => fs::remove_dir_all(path),
            "unmount" => {
                let path = c(path);
                call(libc::SYS_umount2, [path.as_ptr() as i64, 2, 0, 0, 0]).map(drop)
            }
            _ => panic!("there is no way `{way}`"),
        }
    }
}
