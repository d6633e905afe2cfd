//! Control groups: bounds of the kernel's own for the processes and the memory of a command. They are
//! made below the group that Baton is in, so that its other limits apply, and nothing but commands of
//! Baton is moved or limited. Where none can be made the launcher counts (`watch.rs`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The name of each of these groups begins with this; the number of the process that made it follows.
const NAME: &str = "baton-";

/// The bounds of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Processes and threads.
    pub tasks: u64,
    /// Bytes, shared memory and `tmpfs` included.
    pub memory: u64,
}

/// The versions of control groups: their files have different names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A group that groups can be made in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parent {
    folder: PathBuf,
    version: Version,
    /// Processes may be in this group, too; then version 2 bounds only the number of tasks.
    is_threaded: bool,
}

/// The parents for each of the two bounds; one and the same where version 2 bounds both.
#[derive(Debug, Default)]
struct Parents {
    tasks: Option<Parent>,
    memory: Option<Parent>,
}

/// Where version 2 bounds memory, Baton itself is in this group, next to those of its commands.
const OWN: &str = "self";

static PARENTS: OnceLock<Parents> = OnceLock::new();
/// Groups that no command is in. A group that is removed stays in the kernel's memory as long as a
/// file that was read in it is cached; so they are used again.
static FREE: Mutex<Vec<Made>> = Mutex::new(Vec::new());

/// The folders of one group.
#[derive(Debug)]
struct Made {
    bounds: Bounds,
    tasks: Option<PathBuf>,
    memory: Option<PathBuf>,
    version: Version,
}

/// A group of its own for one command.
#[derive(Debug)]
pub struct Group {
    made: Option<Made>,
    /// Processes that the kernel had ended in it before.
    ended_before: u64,
}

impl Group {
    /// An empty group. `None`: this machine does not let this user make one.
    pub fn of(bounds: Bounds) -> Option<Group> {
        let free = || {
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            let index = free.iter().position(|made| made.bounds == bounds && made.is_usable())?;
            Some(free.swap_remove(index))
        };
        let made = free().or_else(|| Made::within(PARENTS.get_or_init(Parents::find), bounds))?;
        let ended_before = made.ended_for_memory();
        Some(Group { made: Some(made), ended_before })
    }

    pub(super) fn tasks(&self) -> Option<&Path> {
        self.made.as_ref()?.tasks.as_deref()
    }

    pub(super) fn memory(&self) -> Option<&Path> {
        self.made.as_ref()?.memory.as_deref()
    }

    /// Which bounds it sets: of the number of tasks, of memory.
    pub fn sets(&self) -> (bool, bool) {
        (self.tasks().is_some(), self.memory().is_some())
    }

    /// Whether the kernel ended a process in it, because it used too much memory.
    pub fn was_over_memory(&self) -> bool {
        self.made.as_ref().is_some_and(|made| made.ended_for_memory() > self.ended_before)
    }

    /// Ends all that is in it, where the kernel has a way to do so.
    pub(super) fn kill(&self) {
        if let Some(memory) = self.memory() {
            let _ = write(&memory.join("cgroup.kill"), "1");
        }
    }

    /// Moves the calling process into the group; what it starts from then on is in it, too.
    pub fn enter(&self) -> io::Result<()> {
        [self.tasks(), self.memory()].into_iter().flatten().try_for_each(enter)
    }

    /// Moves the calling process back to the group above.
    pub fn leave(&self) -> io::Result<()> {
        [self.tasks(), self.memory()].into_iter().flatten().try_for_each(|folder| {
            let Some(above) = folder.parent() else { return Ok(()) };
            // In version 2 no process may be above groups that bound memory.
            enter(above).or_else(|_| enter(&above.join(own_name())))
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(made) = self.made.take() else { return };
        // One with a process that cannot end is not used again.
        if made.is_empty() {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).push(made);
        } else {
            made.remove();
        }
    }
}

/// Removes the groups that this process has made and that are not in use. For its end: those of a
/// process that was killed are removed by the next one.
pub fn remove_groups() {
    let free = std::mem::take(&mut *FREE.lock().unwrap_or_else(PoisonError::into_inner));
    free.iter().for_each(Made::remove);
    if let Some(parents) = PARENTS.get() {
        parents.give_back();
    }
}

impl Made {
    fn within(parents: &Parents, bounds: Bounds) -> Option<Made> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("{NAME}{}-{number}", std::process::id());
        let own = |parent: &Option<Parent>, bound: fn(&Parent, &Path, Bounds) -> io::Result<()>| {
            let parent = parent.as_ref()?;
            let folder = parent.folder.join(&name);
            let is_new = match fs::create_dir(&folder) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                Err(_) => return None,
            };
            if bound(parent, &folder, bounds).is_err() {
                if is_new {
                    let _ = fs::remove_dir(&folder);
                }
                return None;
            }
            Some(folder)
        };
        let memory = own(&parents.memory, bound_memory);
        let tasks = own(&parents.tasks, bound_tasks);
        let version = parents.memory.as_ref().map_or(Version::One, |parent| parent.version);
        (tasks.is_some() || memory.is_some()).then_some(Made { bounds, tasks, memory, version })
    }

    fn folders(&self) -> impl Iterator<Item = &Path> {
        [&self.tasks, &self.memory].into_iter().flatten().map(PathBuf::as_path)
    }

    fn is_usable(&self) -> bool {
        self.folders().all(Path::exists)
    }

    fn is_empty(&self) -> bool {
        self.folders().all(|folder| {
            fs::read(folder.join("cgroup.procs")).is_ok_and(|processes| processes.is_empty())
        })
    }

    fn remove(&self) {
        for folder in self.folders() {
            let _ = fs::remove_dir(folder);
        }
    }

    /// Processes that the kernel has ended in it, because it used too much memory.
    fn ended_for_memory(&self) -> u64 {
        let name = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text =
            self.memory.as_ref().and_then(|folder| fs::read_to_string(folder.join(name)).ok());
        text.and_then(|text| ended_in(&text)).unwrap_or(0)
    }
}

/// The counter in what the kernel says of a group.
pub(super) fn ended_in(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

fn bound_tasks(parent: &Parent, folder: &Path, bounds: Bounds) -> io::Result<()> {
    if parent.is_threaded && !folder.join("pids.max").exists() {
        // Processes may stay in the group above only if this one is `threaded`.
        write(&folder.join("cgroup.type"), "threaded")?;
        write(&parent.folder.join("cgroup.subtree_control"), "+pids")?;
    }
    write(&folder.join("pids.max"), &bounds.tasks.to_string())
}

fn bound_memory(parent: &Parent, folder: &Path, bounds: Bounds) -> io::Result<()> {
    let most = bounds.memory.to_string();
    // What is moved to a swap file is used, too; a machine may have no such bound.
    match parent.version {
        Version::One => {
            write(&folder.join("memory.limit_in_bytes"), &most)?;
            let _ = write(&folder.join("memory.memsw.limit_in_bytes"), &most);
        }
        Version::Two => {
            write(&folder.join("memory.max"), &most)?;
            let _ = write(&folder.join("memory.swap.max"), "0");
            let _ = write(&folder.join("memory.oom.group"), "1");
        }
    }
    Ok(())
}

/// Moves the calling process into a group.
pub(super) fn enter(folder: &Path) -> io::Result<()> {
    write(&folder.join("cgroup.procs"), "0")
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    use io::Write;
    // Never makes a file: what is not there is not known to this kernel.
    let mut file = fs::File::options().write(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn own_name() -> String {
    format!("{NAME}{}-{OWN}", std::process::id())
}

impl Parents {
    /// Those of this process.
    fn find() -> Parents {
        let read =
            |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let (groups, mounts) = (read("cgroup"), read("mountinfo"));
        let first = |controller| first_version(&groups, &mounts, controller);
        let is_root = rustix::process::geteuid().is_root();
        let mut parents = Parents { tasks: first("pids"), memory: first("memory") };
        if let Some(folder) = group_in(&groups, &mounts, Version::Two, "") {
            remove_abandoned(&folder);
            parents.add_second(&folder, is_root);
        }
        for parent in [&parents.tasks, &parents.memory].into_iter().flatten() {
            remove_abandoned(&parent.folder);
        }
        // The number of an ordinary user's processes is limited without a group.
        if !is_root && parents.memory.is_none() {
            parents.tasks = None;
        }
        parents
    }

    /// What version 2 gives and version 1 does not.
    fn add_second(&mut self, folder: &Path, is_root: bool) {
        let known = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        let has = |name: &str| known.split_whitespace().any(|own| own == name);
        let second = |is_threaded| {
            Some(Parent { folder: folder.to_owned(), version: Version::Two, is_threaded })
        };
        if self.memory.is_none() && has("memory") && take_over(folder).is_ok() {
            self.memory = second(false);
            let with_tasks =
                has("pids") && write(&folder.join("cgroup.subtree_control"), "+pids").is_ok();
            if self.tasks.is_none() && with_tasks {
                self.tasks = second(false);
            }
        } else if self.tasks.is_none() && has("pids") && is_root {
            self.tasks = second(true);
        }
    }

    /// Undoes what `take_over` did.
    fn give_back(&self) {
        let second = self.memory.as_ref().filter(|parent| parent.version == Version::Two);
        let Some(Parent { folder, .. }) = second else { return };
        let own = folder.join(own_name());
        if own.exists() {
            let _ = write(&folder.join("cgroup.subtree_control"), "-memory -pids");
            if enter(folder).is_ok() {
                let _ = fs::remove_dir(own);
            }
        }
    }
}

/// Makes a group of version 2 one that bounds the memory of those below it. No process may be in it
/// then: Baton moves down, and where another process is in it, this cannot be had.
fn take_over(folder: &Path) -> io::Result<()> {
    let control = folder.join("cgroup.subtree_control");
    let is_top = !folder.join("cgroup.type").exists();
    if is_top {
        return write(&control, "+memory");
    }
    let inside = fs::read_to_string(folder.join("cgroup.procs"))?;
    if inside.trim() != std::process::id().to_string() {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let own = folder.join(own_name());
    fs::create_dir(&own)?;
    let done = enter(&own).and_then(|()| write(&control, "+memory"));
    if done.is_err() {
        let _ = enter(folder);
        let _ = fs::remove_dir(&own);
    }
    done
}

fn first_version(groups: &str, mounts: &str, controller: &str) -> Option<Parent> {
    let folder = group_in(groups, mounts, Version::One, controller)?;
    Some(Parent { folder, version: Version::One, is_threaded: false })
}

/// The folder of the group that this process is in, in the hierarchy of this controller.
fn group_in(groups: &str, mounts: &str, version: Version, controller: &str) -> Option<PathBuf> {
    // Each line: number, controllers, path. Version 2 has no names of controllers.
    let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let has = |names: &str| names.split(',').any(|name| name == controller);
    let (_, path) = lines.find(|(names, _)| has(names))?;
    let kind = match version {
        Version::One => "cgroup",
        Version::Two => "cgroup2",
    };
    mounts.lines().find_map(|line| {
        // Before the dash: ..., the root of the mount, the place of the mount, ...; after it: the
        // kind, the source, the options of the file system.
        let (place, system) = line.split_once(" - ")?;
        let (mut place, mut system) = (place.split(' ').skip(3), system.split(' '));
        let (root, at) = (place.next()?, place.next()?);
        let is_wanted =
            system.next()? == kind && (version == Version::Two || system.nth(1).is_some_and(has));
        let inside = Path::new(path).strip_prefix(root).ok()?;
        is_wanted.then(|| Path::new(at).join(inside))
    })
}

/// Removes the groups of a Baton that was killed. One that is in use is not empty, and stays.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
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
    use super::{Version, ended_in, group_in};
    use std::path::PathBuf;

    const MOUNTS: &str = "\
        24 23 0:22 / /sys rw - sysfs sysfs rw\n\
        30 24 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n\
        31 24 0:27 /box /sys/fs/cgroup/pids rw,nosuid shared:9 - cgroup cgroup rw,pids\n\
        32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_group_of_a_controller_is_found() {
        let first = |groups: &str, name| group_in(groups, MOUNTS, Version::One, name);
        let path = |path: &str| Some(PathBuf::from(path));
        let groups = "4:memory:/x\n3:pids:/box/a\n0::/y\n";
        assert_eq!(first(groups, "pids"), path("/sys/fs/cgroup/pids/a"));
        assert_eq!(first(groups, "memory"), path("/sys/fs/cgroup/memory/x"));
        assert_eq!(first("3:pids:/box\n0::/y\n", "pids"), path("/sys/fs/cgroup/pids"));
        let second = |groups: &str| group_in(groups, MOUNTS, Version::Two, "");
        assert_eq!(
            second("4:memory:/x\n0::/user.slice/a\n"),
            path("/sys/fs/cgroup/unified/user.slice/a")
        );
        // Another container's, or none at all.
        assert_eq!(first("3:pids:/other\n", "pids"), None);
        assert_eq!(first("4:memory:/x\n", "pids"), None);
        assert_eq!(second("4:memory:/x\n"), None);
    }

    #[test]
    fn processes_that_the_kernel_ended_are_counted_in_both_versions() {
        assert_eq!(ended_in("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(
            ended_in("low 0\nhigh 2\nmax 9\noom 4\noom_kill 2\noom_group_kill 1\n"),
            Some(2)
        );
        assert_eq!(ended_in(""), None);
    }
}
