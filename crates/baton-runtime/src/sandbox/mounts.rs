//! The file system as a confined program sees it. Done by the first process of a new mount
//! namespace: nothing of it is seen outside, and it goes with the namespace.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};

use super::confine::{ClosedOrders, Content, Orders, Place, Raw};
use super::enter::read_only;
use super::watch;

/// The devices that every program may need; none of them leads to hardware.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// What did not work.
pub(super) struct Broken {
    pub(super) why: String,
    /// Whether it is the machine that does not allow it, or does not know it.
    pub(super) is_lack: bool,
}

fn said(what: &str, path: &Path) -> impl Fn(io::Error) -> Broken {
    let text = format!("{what} {}", path.display());
    move |error| Broken {
        why: format!("{text}: {error}"),
        is_lack: matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported
        ),
    }
}

/// A copy of the mounts at a path, which are nowhere yet.
pub(super) fn cloned(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    Ok(open_tree(CWD, path, flags)?)
}

pub(super) fn put(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    Ok(move_mount(tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// What is known of /proc.
pub(super) struct Proc {
    /// Whether it shows the processes of this namespace and no others.
    pub(super) is_own: bool,
    /// Whether the kernel bounds the number of processes and threads of this namespace.
    pub(super) bounds_tasks: bool,
}

/// Everything as the orders say. The number of processes is bounded, too, unless it `is_bounded`.
pub(super) fn arrange(orders: &Orders, is_bounded: bool) -> Result<Proc, Broken> {
    let root = Path::new("/");
    let is_closed = orders.closed.is_some();
    // An open program goes on seeing what is mounted later.
    let propagation = match is_closed {
        true => MountPropagationFlags::PRIVATE,
        false => MountPropagationFlags::DOWNSTREAM,
    };
    mount_change(root, propagation | MountPropagationFlags::REC)
        .map_err(|error| said("cannot take over the mounts of", root)(error.into()))?;
    // Before everything turns read-only: what lies beneath keeps the flags that it has now.
    let writable = opened(orders, |place| matches!(place, Place::Writable(_)))?;
    if let Some(closed) = &orders.closed {
        // One that is not put anywhere would cost milliseconds to let go.
        let temporary = closed.temporary.path();
        let for_tmp = closed.is_tmp.then(|| cloned(&temporary)).transpose();
        let for_tmp = for_tmp.map_err(said("cannot open", &temporary))?;
        let dev = devices().map_err(said("cannot open the devices of", Path::new("/dev")))?;
        read_only(root, true).map_err(said("cannot make read-only", root))?;
        let covers = new_dev(&dev, orders).map_err(said("cannot make", Path::new("/dev")))?;
        // Read-only by now, and not yet covered.
        let shown = opened(orders, |place| matches!(place, Place::Shown(_)))?;
        let trees: Opened = writable.into_iter().chain(covers).chain(shown).collect();
        places(orders, &trees)?;
        if let Some(tree) = for_tmp {
            put(&tree, Path::new("/tmp")).map_err(said("cannot cover", Path::new("/tmp")))?;
        }
    } else {
        places(orders, &writable)?;
    }
    new_proc(orders.closed.as_ref(), is_bounded)
}

/// Whether every place is still what it was made. Who replaces a file from outside, as git does with
/// its settings, takes the mount on it away; the new file would be like any other.
pub(super) fn are_in_place(orders: &Orders) -> bool {
    let tmp = Path::new("/tmp");
    let has_own_tmp = orders.closed.as_ref().is_some_and(|closed| closed.is_tmp);
    let is_mount = |path: &Path| {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        statx(CWD, path, flags, StatxFlags::empty())
            .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    };
    let paths = orders.places.iter().map(Place::path);
    // Nothing that lies in the real one is seen.
    let mut seen = paths.filter(|path| !(has_own_tmp && path.starts_with(tmp)));
    seen.all(|path| is_mount(&path)) && (!has_own_tmp || is_mount(tmp))
}

type Opened = Vec<(PathBuf, OwnedFd)>;

fn opened(orders: &Orders, is_meant: impl Fn(&Place) -> bool) -> Result<Opened, Broken> {
    let paths = orders.places.iter().filter(|place| is_meant(place)).map(Place::path);
    let open = |path: PathBuf| {
        let tree = cloned(&path).map_err(said("cannot open", &path))?;
        Ok((path, tree))
    };
    paths.map(open).collect()
}

/// `trees`: what is put into places that are not copies of what is there.
fn places(orders: &Orders, trees: &[(PathBuf, OwnedFd)]) -> Result<(), Broken> {
    for place in &orders.places {
        let path = place.path();
        let tree = trees.iter().find(|(own, _)| *own == path).map(|(_, tree)| tree);
        match place {
            Place::Writable(_) => {
                if let Some(tree) = tree {
                    put(tree, &path).map_err(said("cannot mount", &path))?;
                }
            }
            Place::Shown(_) | Place::Covered(..) => {
                let done = tree.map_or(Ok(()), |tree| put(tree, &path));
                unless_gone(done, &path).map_err(said("cannot mount", &path))?;
            }
            Place::Pinned(_) => {
                let tree = cloned(&path).map_err(said("cannot open", &path))?;
                put(&tree, &path).map_err(said("cannot pin", &path))?;
            }
            Place::Protected(_) => {
                let tree = cloned(&path).map_err(said("cannot open", &path))?;
                put(&tree, &path).map_err(said("cannot mount", &path))?;
                read_only(&path, true).map_err(said("cannot make read-only", &path))?;
            }
            Place::Hidden(_) => {
                let done = cloned(Path::new("/dev/null")).and_then(|null| put(&null, &path));
                unless_gone(done, &path).map_err(said("cannot hide", &path))?;
            }
        }
    }
    Ok(())
}

/// Where another process has removed a path since it was found, there is nothing to hide or show.
fn unless_gone(done: io::Result<()>, path: &Path) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => Ok(()),
        done => done,
    }
}

/// Makes what is in a folder that covers another, or the file in the place of another.
fn fill(folder: &Path, contents: &[(Raw, Content)]) -> io::Result<()> {
    if let [(name, Content::Text(text))] = contents
        && name.path().as_os_str().is_empty()
    {
        return fs::File::create_new(folder)?.write_all(text.as_bytes());
    }
    fs::create_dir(folder)?;
    for (name, content) in contents {
        let at = folder.join(name.path());
        match content {
            Content::Folder => fs::create_dir(&at)?,
            Content::Link(to) => symlink(to.path(), &at)?,
            Content::Text(text) => fs::File::create_new(&at)?.write_all(text.as_bytes())?,
        }
    }
    Ok(())
}

fn devices() -> io::Result<Vec<(&'static str, OwnedFd)>> {
    let mut found = Vec::new();
    for name in DEVICES {
        match cloned(&Path::new("/dev").join(name)) {
            Ok(tree) => found.push((name, tree)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && name != "null" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// A folder of devices of our own. In the real one are disks, which a read-only mount protects from
/// nobody. Also the folders that cover others: all of them are parts of one file system, since each
/// costs time when it goes.
fn new_dev(devices: &[(&str, OwnedFd)], orders: &Orders) -> io::Result<Opened> {
    let base = Path::new("/dev");
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", base, "tmpfs", flags, Some(c"size=16m,mode=755"))?;
    let dev = base.join("dev");
    fs::create_dir(&dev)?;
    for (name, _) in devices {
        fs::File::create_new(dev.join(name))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, dev.join(name))?;
    }
    fs::DirBuilder::new().mode(0o1777).create(dev.join("shm"))?;
    fs::create_dir(dev.join("pts"))?;
    let mut covered = Vec::new();
    for place in &orders.places {
        if let Place::Covered(path, contents) = place {
            let folder = base.join(covered.len().to_string());
            fill(&folder, contents)?;
            covered.push((path.path(), folder));
        }
    }
    read_only(base, false)?;
    let open = |(path, folder): (PathBuf, PathBuf)| Ok((path, cloned(&folder)?));
    let covers = covered.into_iter().map(open).collect::<io::Result<Opened>>()?;
    // The whole of it is beneath its part then, and has no name any more.
    put(&cloned(&dev)?, base)?;
    fill_dev(devices)?;
    Ok(covers)
}

fn fill_dev(devices: &[(&str, OwnedFd)]) -> io::Result<()> {
    let dev = Path::new("/dev");
    for (name, tree) in devices {
        put(tree, &dev.join(name))?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let size = c"size=256m,mode=1777";
    mount("tmpfs", dev.join("shm"), "tmpfs", flags, Some(size))?;
    // Terminals of its own are a comfort, not a need.
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    let _ = mount("devpts", dev.join("pts"), "devpts", flags, Some(options));
    Ok(())
}

/// The processes of the namespace alone. Where a container covers parts of /proc this is not
/// allowed; the old one shows who else runs, but neither their files nor their variables.
fn new_proc(closed: Option<&ClosedOrders>, is_bounded: bool) -> Result<Proc, Broken> {
    let path = Path::new("/proc");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if mount("proc", path, "proc", flags, None).is_err() {
        return Ok(Proc { is_own: false, bounds_tasks: false });
    }
    let mut bounds_tasks = false;
    if let Some(closed) = closed {
        if !is_bounded {
            bounds_tasks = bound_tasks(watch::room(closed.limits.processes));
        }
        // As root it could set up the machine by writing here.
        read_only(path, false).map_err(said("cannot make read-only", path))?;
    }
    Ok(Proc { is_own: true, bounds_tasks })
}

/// Bounds the numbers that processes and threads of this namespace can get, and so how many there
/// are. Linux has such a bound for each namespace from 6.14 on; before, it was the machine's, and
/// must not be touched.
fn bound_tasks(most: u64) -> bool {
    /// What a new namespace begins with.
    const UNBOUNDED: &str = "4194304";
    /// The kernel does not use the numbers below again.
    const LOWEST: u64 = 300;
    let path = "/proc/sys/kernel/pid_max";
    let release = rustix::system::uname();
    let mut numbers = release.release().to_str().unwrap_or_default().split(['.', '-']);
    let mut number = || numbers.next()?.parse::<u32>().ok();
    let is_for_each = (number(), number()) >= (Some(6), Some(14));
    let is_new = fs::read_to_string(path).is_ok_and(|text| text.trim() == UNBOUNDED);
    #[expect(clippy::disallowed_methods, reason = "no file of a disk")]
    let is_written = || fs::write(path, (most.saturating_add(LOWEST)).to_string()).is_ok();
    is_for_each && is_new && is_written()
}
