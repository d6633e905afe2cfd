//! A control group that bounds the number of processes and threads. It is for root, to whom
//! `RLIMIT_NPROC` does not apply: below the group that Baton is in, so that its other limits hold.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Begins the name of each of these groups; the number of the process that made it follows.
const NAME: &str = "baton-";

/// A group that is removed with this value, once its processes are gone.
#[derive(Debug)]
pub struct Pids(PathBuf);

impl Pids {
    /// A group of up to `most` processes and threads. `None`: this is not root, or the machine gives
    /// no such group.
    pub fn of(most: u64) -> Option<Pids> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static CLEAN: Once = Once::new();
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let current = current()?;
        CLEAN.call_once(|| remove_abandoned(&current));
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let path = current.join(format!("{NAME}{}-{number}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Pids(path);
        if !group.0.join("pids.max").exists() {
            // Version 2: processes may stay in the group above only if this one is `threaded`.
            write(&group.0.join("cgroup.type"), "threaded").ok()?;
            write(&current.join("cgroup.subtree_control"), "+pids").ok()?;
        }
        write(&group.0.join("pids.max"), &most.to_string()).ok()?;
        Some(group)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Moves the calling process into the group; what it starts from then on is in it, too.
    pub fn enter(&self) -> std::io::Result<()> {
        enter(&self.0)
    }

    /// Moves the calling process back to the group above.
    pub fn leave(&self) -> std::io::Result<()> {
        self.0.parent().map_or(Ok(()), enter)
    }
}

impl Drop for Pids {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// See [`Pids::enter`].
pub(super) fn enter(group: &Path) -> std::io::Result<()> {
    write(&group.join("cgroup.procs"), "0")
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "no file of a disk")]
    fs::write(path, text)
}

/// The group that this process is in, in the hierarchy that counts processes.
fn current() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    group_in(&groups, &mounts)
}

fn group_in(groups: &str, mounts: &str) -> Option<PathBuf> {
    // Each line: number, controllers, path. Version 2 has no names of controllers.
    let lines = || groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let counts = |names: &str| names.split(',').any(|name| name == "pids");
    let of = |is_wanted: &dyn Fn(&str) -> bool| {
        lines().find(|(names, _)| is_wanted(names)).map(|(_, path)| path)
    };
    let (path, kind) = match of(&counts) {
        Some(path) => (path, "cgroup"),
        None => (of(&str::is_empty)?, "cgroup2"),
    };
    mounts.lines().find_map(|line| {
        // Before the dash: ..., the root of the mount, the place of the mount, ...; after it: the
        // kind, the source, the options of the file system.
        let (place, system) = line.split_once(" - ")?;
        let (mut place, mut system) = (place.split(' ').skip(3), system.split(' '));
        let (root, at) = (place.next()?, place.next()?);
        let is_wanted =
            system.next()? == kind && (kind == "cgroup2" || system.nth(1).is_some_and(counts));
        let inside = Path::new(path).strip_prefix(root).ok()?;
        is_wanted.then(|| Path::new(at).join(inside))
    })
}

/// Removes the groups of a Baton that was killed. One that is in use is not empty, and stays.
fn remove_abandoned(current: &Path) {
    for entry in fs::read_dir(current).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split_once('-'));
        let is_gone = maker.is_some_and(|(pid, _)| {
            pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()
        });
        if is_gone {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::group_in;
    use std::path::PathBuf;

    const MOUNTS: &str = "\
        24 23 0:22 / /sys rw - sysfs sysfs rw\n\
        30 24 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n\
        31 24 0:27 /box /sys/fs/cgroup/pids rw,nosuid shared:9 - cgroup cgroup rw,pids\n\
        32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_group_that_counts_processes_is_found() {
        let found = |groups: &str| group_in(groups, MOUNTS);
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(found("4:memory:/x\n3:pids:/box/a\n0::/y\n"), path("/sys/fs/cgroup/pids/a"));
        assert_eq!(found("4:memory:/x\n3:pids:/box\n0::/y\n"), path("/sys/fs/cgroup/pids"));
        assert_eq!(found("0::/user.slice/a\n"), path("/sys/fs/cgroup/unified/user.slice/a"));
        // Another container's, or none at all.
        assert_eq!(found("3:pids:/other\n"), None);
        assert_eq!(found("4:memory:/x\n"), None);
        assert_eq!(found(""), None);
    }
}
