//! The look of a namespace's first process at how much the others use, where the kernel does not
//! bound it by a control group. A look is cheap as long as the whole machine uses less than the limit
//! allows; it goes into detail only then.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{StatFs, fstatfs, statfs};

use super::confine::Limits;
use super::groups::ended_in;

/// How often is looked.
const LOOK: Duration = Duration::from_millis(50);
/// The same, where nothing but the look limits the number of processes.
const SOON: Duration = Duration::from_millis(10);
/// The same, while that number grows.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Forks between two looks that mean that the number grows.
const GROWING: u64 = 20;
/// The time after which processes are counted again, at least.
const COUNT: Duration = Duration::from_millis(200);
/// The longest time between two looks at memory.
const LONGEST: Duration = Duration::from_secs(1);
/// A look at memory may take this part of the time.
const PART: u32 = 20;
/// The size of a file system's blocks in what the kernel says of a file.
const BLOCK: u64 = 512;

/// The numbers of kinds of file systems.
const PROC: u32 = 0x9fa0;
const TMPFS: u32 = 0x0102_1994;

/// What the kernel bounds already.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounded {
    pub(super) tasks: bool,
    pub(super) memory: bool,
}

/// The most processes and threads where the kernel bounds them: some more than there may be
/// processes, so that the look sees that they are too many, ends them and says why.
pub(super) fn room(processes: u64) -> u64 {
    processes.saturating_add(processes / 4).saturating_add(16)
}

/// The counter of the processes that the kernel ended, because their group used too much memory.
pub(super) struct EndedForMemory {
    file: File,
    before: u64,
}

impl EndedForMemory {
    pub(super) fn of(group: &Path) -> Option<EndedForMemory> {
        let names = ["memory.oom_control", "memory.events"];
        let file = names.iter().find_map(|name| File::open(group.join(name)).ok())?;
        let mut own = EndedForMemory { file, before: 0 };
        own.before = own.count();
        Some(own)
    }

    fn count(&self) -> u64 {
        let mut bytes = [0; 512];
        let length = self.file.read_at(&mut bytes, 0).unwrap_or(0);
        std::str::from_utf8(&bytes[..length]).ok().and_then(ended_in).unwrap_or(0)
    }
}

pub(super) struct Watch {
    limits: Limits,
    bounded: Bounded,
    ended: Option<EndedForMemory>,
    /// Whether /proc shows the processes of this namespace and no others.
    own_proc: bool,
    /// What was counted when the last process had this number.
    processes: u64,
    tasks: u64,
    last: u64,
    pause: Duration,
    /// Shared memory of the whole machine when the program began.
    shared_before: u64,
    /// File systems in memory that the program can write to, and how much was in them before.
    in_memory: Vec<(PathBuf, u64)>,
    next_look_at_memory: Instant,
    /// When the processes are counted whatever their numbers say: in a small range of numbers they come
    /// again, and a bomb that has reached its bound starts no more.
    next_count: Instant,
}

impl Watch {
    /// To be made when the program begins.
    pub(super) fn of(
        limits: Limits,
        bounded: Bounded,
        own_proc: bool,
        ended: Option<EndedForMemory>,
        writable: &[PathBuf],
    ) -> Watch {
        let mut devices = BTreeSet::new();
        let is_new =
            |path: &&PathBuf| fs::metadata(path).is_ok_and(|own| devices.insert(own.dev()));
        let in_memory = writable.iter().filter(is_new);
        Watch {
            limits,
            bounded,
            ended,
            own_proc,
            // The program and this process.
            processes: 2,
            tasks: 2,
            last: last_number().unwrap_or(0),
            pause: LOOK,
            shared_before: Machine::now().map_or(0, |machine| machine.shared),
            in_memory: in_memory
                .filter_map(|path| Some((path.clone(), held_in_memory(path)?)))
                .collect(),
            next_look_at_memory: Instant::now(),
            next_count: Instant::now() + COUNT,
        }
    }

    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// What all processes of the namespace together use too much of.
    pub(super) fn over(&mut self) -> Option<String> {
        if self.are_too_many() {
            return Some(too_many(&self.limits));
        }
        if self.ended.as_ref().is_some_and(|ended| ended.count() > ended.before) {
            return Some(too_much(&self.limits));
        }
        if self.bounded.memory || Instant::now() < self.next_look_at_memory {
            return None;
        }
        let start = Instant::now();
        let used = self.memory();
        let cost = start.elapsed();
        self.next_look_at_memory = Instant::now() + (cost * PART).clamp(LOOK, LONGEST);
        (used > self.limits.memory).then(|| too_much(&self.limits))
    }

    /// Counts only where more may have been started than there is room for.
    fn are_too_many(&mut self) -> bool {
        let room = match self.bounded.tasks {
            true => u64::MAX,
            false => room(self.limits.processes) + 1,
        };
        // We are one of them.
        let most = self.limits.processes + 1;
        let now = last_number();
        let started = now.and_then(|now| now.checked_sub(self.last));
        self.pause = match (self.bounded.tasks, started) {
            (true, _) => LOOK,
            (false, Some(started)) if started < GROWING => SOON,
            (false, _) => AT_ONCE,
        };
        // A number that became smaller: the kernel began again with small ones.
        let are_few = started.is_some_and(|started| {
            let of = |known: u64| known.saturating_add(started);
            of(self.processes) <= most && of(self.tasks) <= room
        });
        let start = Instant::now();
        if are_few && start < self.next_count {
            return false;
        }
        let members = self.members();
        self.next_count = Instant::now() + (start.elapsed() * PART).max(COUNT);
        self.processes = members.len() as u64;
        self.tasks = match self.bounded.tasks {
            true => 0,
            false => members.iter().map(|process| threads(process)).sum(),
        };
        self.last = now.unwrap_or(0);
        self.processes > most || self.tasks > room
    }

    /// The folders of all processes of this namespace.
    fn members(&self) -> Vec<PathBuf> {
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse::<u32>().ok()?;
            Some((number, entry.path()))
        });
        if self.own_proc {
            return numbers.map(|(_, path)| path).collect();
        }
        // The /proc of another namespace: all that descends from this process.
        let Some(own) = fs::read_link("/proc/self").ok().and_then(|own| own.to_str()?.parse().ok())
        else {
            return Vec::new();
        };
        let mut children: BTreeMap<u32, Vec<(u32, PathBuf)>> = BTreeMap::new();
        for (number, path) in numbers {
            if let Some(parent) = parent(&path) {
                children.entry(parent).or_default().push((number, path));
            }
        }
        let mut found = vec![PathBuf::from("/proc/self")];
        let mut left: Vec<u32> = vec![own];
        while let Some(number) = left.pop() {
            for (child, path) in children.remove(&number).unwrap_or_default() {
                left.push(child);
                found.push(path);
            }
        }
        found
    }

    /// Bytes that are used; more than are used, where even that is less than allowed.
    fn memory(&self) -> u64 {
        let most = self.limits.memory;
        let machine = Machine::now();
        if let Some(machine) = &machine
            && machine.private + machine.shared + machine.swapped <= most
        {
            return 0;
        }
        let members = self.members();
        if let Some(machine) = &machine {
            let private: u64 = members.iter().filter_map(|process| resident(process)).sum();
            if private + machine.shared + machine.swapped <= most {
                return private;
            }
        }
        let mut private = 0;
        let mut mapped = 0;
        let mut files = BTreeMap::new();
        let mut is_hidden = false;
        for process in &members {
            let own = Use::of(process);
            private += own.private;
            mapped += own.shared;
            match files_without_name(process) {
                Some(own) => files.extend(own),
                None => is_hidden = true,
            }
        }
        let grown = |(path, before): &(PathBuf, u64)| {
            held_in_memory(path).unwrap_or(0).saturating_sub(*before)
        };
        let held = files.values().sum::<u64>()
            + segments()
            + self.in_memory.iter().map(grown).sum::<u64>();
        let shared = self.shared(mapped, held, machine.as_ref());
        // What a process hides can be all that the machine's memory grew by.
        let grown = machine.map_or(0, |own| own.shared.saturating_sub(self.shared_before));
        private + if is_hidden { shared.max(grown) } else { shared }
    }

    /// Memory that is mapped and memory that is held open are partly the same. What the machine's
    /// grew by has each page once, those of others included.
    fn shared(&self, mapped: u64, held: u64, machine: Option<&Machine>) -> u64 {
        let both = mapped + held;
        let grown = machine.map(|machine| machine.shared.saturating_sub(self.shared_before));
        grown.map_or(both, |grown| both.min(grown.max(mapped).max(held)))
    }
}

fn too_many(limits: &Limits) -> String {
    format!("it had more than {} processes", limits.processes)
}

pub(super) fn too_much(limits: &Limits) -> String {
    format!("it used more than {} MiB", limits.memory >> 20)
}

/// The text of a file of /proc. `None` also where something else was mounted over it, as containers
/// do that show a machine of their own.
fn of_the_kernel(path: &str) -> Option<String> {
    let mut file = File::open(path).ok()?;
    if !is_of_kind(&fstatfs(&file).ok()?, PROC) {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

/// The number of the process or thread that was started last in this namespace.
fn last_number() -> Option<u64> {
    of_the_kernel("/proc/loadavg")?.trim_end().rsplit(' ').next()?.parse().ok()
}

/// Bytes that are in use on the whole machine, without those of files on disks.
struct Machine {
    private: u64,
    shared: u64,
    swapped: u64,
}

impl Machine {
    fn now() -> Option<Machine> {
        let text = of_the_kernel("/proc/meminfo")?;
        let of = |name: &str| kib(&text, name);
        Some(Machine {
            private: of("AnonPages:")?,
            shared: of("Shmem:")?,
            swapped: of("SwapTotal:")?.saturating_sub(of("SwapFree:")?),
        })
    }
}

/// The bytes in a line `name: 12 kB`.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The parent of a process, by its number in this /proc.
fn parent(process: &Path) -> Option<u32> {
    let text = fs::read(process.join("stat")).ok()?;
    // The name, in brackets, may hold anything.
    let name_ends = memchr::memrchr(b')', &text)?;
    std::str::from_utf8(&text[name_ends..]).ok()?.split(' ').nth(2)?.parse().ok()
}

/// The number of threads of a process.
fn threads(process: &Path) -> u64 {
    // One link for each, and two for every folder.
    fs::metadata(process.join("task")).map_or(0, |own| own.nlink().saturating_sub(2))
}

/// Bytes in memory that belong to no file, counted in full in each process that shares them since
/// it was forked.
fn resident(process: &Path) -> Option<u64> {
    let text = fs::read_to_string(process.join("statm")).ok()?;
    let mut words = text.split(' ').skip(1).map(str::parse::<u64>);
    let (resident, shared) = (words.next()?.ok()?, words.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// What one process uses.
#[derive(Default)]
struct Use {
    private: u64,
    shared: u64,
}

impl Use {
    fn of(process: &Path) -> Use {
        Use::in_parts(process).or_else(|| Use::in_full(process)).unwrap_or_default()
    }

    /// Of a page that several processes have, each counts its part.
    fn in_parts(process: &Path) -> Option<Use> {
        let text = fs::read_to_string(process.join("smaps_rollup")).ok()?;
        let of = |name: &str| kib(&text, name);
        let swapped = of("SwapPss:").unwrap_or(0);
        Some(Use { private: of("Pss_Anon:")? + swapped, shared: of("Pss_Shmem:")? })
    }

    /// Where the parts are not known: a kernel before 5.4.
    fn in_full(process: &Path) -> Option<Use> {
        let text = fs::read_to_string(process.join("status")).ok()?;
        let of = |name: &str| kib(&text, name);
        let swapped = of("VmSwap:").unwrap_or(0);
        Some(Use { private: of("RssAnon:")? + swapped, shared: of("RssShmem:")? })
    }
}

/// The files in memory that a process has open and that are in no folder (`memfd`), with their sizes.
/// `None`: the process does not let an ordinary user look (`PR_SET_DUMPABLE`, a program that cannot be
/// read).
fn files_without_name(process: &Path) -> Option<Vec<((u64, u64), u64)>> {
    let open = match fs::read_dir(process.join("fd")) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
        open => open.into_iter().flatten().flatten(),
    };
    let sizes = open.filter_map(|entry| {
        let path = entry.path();
        let target = fs::read_link(&path).ok()?;
        if !target.as_os_str().as_encoded_bytes().starts_with(b"/memfd:") {
            return None;
        }
        let file = fs::metadata(&path).ok()?;
        Some(((file.dev(), file.ino()), file.blocks() * BLOCK))
    });
    Some(sizes.collect())
}

/// Bytes of System V shared memory in this namespace.
fn segments() -> u64 {
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let size = |line: &str| {
        let mut words = line.split_whitespace().skip(14).map_while(|word| word.parse::<u64>().ok());
        words.next().unwrap_or(0) + words.next().unwrap_or(0)
    };
    text.lines().skip(1).map(size).sum()
}

/// Bytes in a file system that is in memory.
fn held_in_memory(path: &Path) -> Option<u64> {
    let found = statfs(path).ok()?;
    let block = u64::try_from(found.f_bsize).ok()?;
    is_of_kind(&found, TMPFS).then(|| found.f_blocks.saturating_sub(found.f_bfree) * block)
}

fn is_of_kind(found: &StatFs, kind: u32) -> bool {
    u32::try_from(found.f_type).is_ok_and(|own| own == kind)
}
