//! The launcher: our own program, started once more under another name. It has one thread, enters
//! the namespaces, and becomes the first process in them, which starts the program, takes in what it
//! leaves behind and ends with it; whatever still runs then is ended by the kernel.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus,
    getpriority_process, pidfd_open, set_dumpable_behavior, set_parent_process_death_signal,
    setpriority_process, setrlimit, setsid, wait, waitpid,
};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, UnshareFlags, capabilities,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits,
};

use super::confine::{ClosedOrders, Feature, Line, Orders, Place, Raw};
use super::enter::{Forked, fork, unshare};
use super::watch::{Bounded, EndedForMemory, Watch};
use super::{filter, groups, mounts, space, timespec};

/// How often orphans are taken in.
const ORPHANS: Duration = Duration::from_millis(50);

/// The exit code when there is nobody to tell what went wrong.
const LOST: i32 = 125;

/// Why it did not come to the program.
pub(super) enum Failed {
    Missing(Feature, String),
    Other(String),
}

impl From<mounts::Broken> for Failed {
    fn from(broken: mounts::Broken) -> Failed {
        match broken.is_lack {
            true => Failed::Missing(Feature::MountNamespace, broken.why),
            false => Failed::Other(broken.why),
        }
    }
}

/// Where lines go. Its position is shared by all processes of the launcher.
pub(super) struct Lines(File);

impl Lines {
    pub(super) fn say(&mut self, line: &Line) {
        // Who would read it is gone, if this fails.
        let text = serde_json::to_string(line).unwrap_or_default();
        let _ = self.0.write_all(format!("{text}\n").as_bytes());
    }

    fn failed(&mut self, failed: Failed) {
        self.say(&match failed {
            Failed::Missing(feature, why) => Line::Missing(feature, why),
            Failed::Other(why) => Line::Failed(why),
        });
    }
}

/// The whole life of a launcher; its exit code.
pub(super) fn launch(mut arguments: impl Iterator<Item = OsString>) -> i32 {
    let mut number = || arguments.next()?.to_str()?.parse::<u32>().ok();
    let (Some(parent), Some(sheet)) = (number(), number()) else { return LOST };
    let words = number();
    // A Baton that is killed takes everything with it. It may have been, already.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if parent_id() != parent {
        return LOST;
    }
    let Ok((orders, mut lines)) = orders(parent, sheet) else { return LOST };
    if !orders.layers.is_empty() {
        return space::keep(&orders, &mut lines).unwrap_or_else(|failed| {
            lines.failed(failed);
            LOST
        });
    }
    let bounds = Bounds::taken(&orders);
    let words = words.map(|number| File::open(format!("/proc/{parent}/fd/{number}")));
    let Ok(words) = words.transpose() else { return LOST };
    match enter(&orders).and_then(|()| first(&orders, bounds, words, &mut lines)) {
        Ok(code) => code,
        Err(failed) => {
            lines.failed(failed);
            LOST
        }
    }
}

/// What keeps a closed program from using too much.
struct Bounds {
    kernel: Bounded,
    ended: Option<EndedForMemory>,
    /// The priority that the program gets, where ours is a higher one.
    priority: Option<i32>,
}

impl Bounds {
    /// Enters the control groups, as far as there are any.
    fn taken(orders: &Orders) -> Bounds {
        let mut bounds =
            Bounds { kernel: Bounded { tasks: false, memory: false }, ended: None, priority: None };
        if orders.closed.is_none() {
            return bounds;
        }
        let path = |group: &Option<Raw>| group.as_ref().map(Raw::path);
        bounds.kernel.tasks =
            path(&orders.tasks).is_some_and(|group| groups::enter(&group).is_ok());
        if let Some(group) = path(&orders.memory) {
            bounds.ended = EndedForMemory::of(&group);
            bounds.kernel.memory = groups::enter(&group).is_ok();
        }
        // Should the whole machine run out of memory, the kernel takes it from here first.
        #[expect(clippy::disallowed_methods, reason = "no file of a disk")]
        let _ = std::fs::write("/proc/self/oom_score_adj", "500");
        if !rustix::process::geteuid().is_root() {
            // The kernel counts the processes of any other user.
            bounds.kernel.tasks = true;
        } else if !bounds.kernel.tasks {
            // A thousand processes that are all busy must not keep us from looking.
            bounds.priority = getpriority_process(None).ok();
            let _ = setpriority_process(None, -20);
        }
        bounds
    }
}

fn orders(parent: u32, sheet: u32) -> io::Result<(Orders, Lines)> {
    let path = format!("/proc/{parent}/fd/{sheet}");
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let orders = serde_json::from_slice(&bytes)?;
    file.set_len(0)?;
    file.rewind()?;
    Ok((orders, Lines(file)))
}

/// Into the namespaces; the processes that are forked from here on live in them.
fn enter(orders: &Orders) -> Result<(), Failed> {
    let without: &[Feature] = orders.closed.as_ref().map_or(&[], |closed| &closed.without);
    let leave = |feature: Feature, flags: UnshareFlags| {
        if without.contains(&feature) {
            return Err(Failed::Missing(feature, "hidden for a test".to_owned()));
        }
        unshare(flags).map_err(|error| Failed::Missing(feature, error.to_string()))
    };
    if let Some(within) = orders.within {
        space::join(within)?;
    }
    let is_root = rustix::process::geteuid().is_root();
    let mounts = |()| leave(Feature::MountNamespace, UnshareFlags::NEWNS);
    // Root that is trusted with everything but the protected paths stays what it is.
    let stays_root = orders.closed.is_none() && is_root && mounts(()).is_ok();
    if !stays_root {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        leave(Feature::UserNamespace, UnshareFlags::NEWUSER)?;
        identity(user.as_raw(), group.as_raw())
            .map_err(|error| Failed::Missing(Feature::UserNamespace, error.to_string()))?;
        mounts(())?;
    }
    leave(Feature::PidNamespace, UnshareFlags::NEWPID)?;
    if let Some(closed) = &orders.closed {
        leave(Feature::NetworkNamespace, UnshareFlags::NEWIPC)?;
        if !closed.network {
            leave(Feature::NetworkNamespace, UnshareFlags::NEWNET)?;
            // Without it tests cannot call their own servers, and nothing else is lost.
            let _ = loopback();
        }
    }
    Ok(())
}

/// Switches on the one interface of a new network namespace, which leads to itself.
fn loopback() -> rustix::io::Result<()> {
    use rustix::net::{AddressFamily, SendFlags, SocketType, send, socket};
    /// A request to change an interface: its length, RTM_NEWLINK, NLM_F_REQUEST, its number, its sender;
    /// then the family, the type, interface 1, IFF_UP as the value and as what is changed.
    const UP: [u32; 8] = [32, 1 << 16 | 16, 0, 0, 0, 1, 1, 1];
    let request: Vec<u8> = UP.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let routes = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&routes, &request, SendFlags::empty()).map(drop)
}

/// Everybody is who they were.
pub(super) fn identity(user: u32, group: u32) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "no file of a disk")]
    let write = |name: &str, text: String| std::fs::write(format!("/proc/self/{name}"), text);
    write("setgroups", "deny".to_owned())?;
    write("gid_map", format!("{group} {group} 1"))?;
    write("uid_map", format!("{user} {user} 1"))
}

/// Forks the first process of the namespace and waits for its end.
fn first(
    orders: &Orders,
    bounds: Bounds,
    words: Option<File>,
    lines: &mut Lines,
) -> Result<i32, Failed> {
    let (mut go, told) = io::pipe().map_err(|error| Failed::Other(error.to_string()))?;
    match fork().map_err(|error| Failed::Other(format!("cannot fork: {error}")))? {
        Forked::Child => {
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            drop(told);
            // Nothing comes where the launcher died before the line above.
            if go.read_exact(&mut [0]).is_err() {
                return Ok(LOST);
            }
            drop(go);
            second(orders, bounds, words, lines)
        }
        Forked::Parent(pid) => {
            lines.say(&Line::First(pid.as_raw_nonzero().get()));
            let mut told = told;
            let _ = told.write_all(b"!");
            drop(told);
            let status = waitpid(Some(pid), WaitOptions::empty());
            if let Ok(Some((_, status))) = status
                && let Some(signal) = status.terminating_signal()
            {
                lines.say(&Line::Signal(signal));
            }
            Ok(0)
        }
    }
}

/// As the first process: the view of the files, then the program.
fn second(
    orders: &Orders,
    mut bounds: Bounds,
    words: Option<File>,
    lines: &mut Lines,
) -> Result<i32, Failed> {
    let proc = mounts::arrange(orders, bounds.kernel.tasks)?;
    bounds.kernel.tasks |= proc.bounds_tasks;
    let folder = orders.folder.path();
    std::env::set_current_dir(&folder)
        .map_err(|error| Failed::Other(format!("cannot enter {}: {error}", folder.display())))?;
    // To see what processes hold that hide it.
    let kept = match orders.closed {
        Some(_) => CapabilitySet::SYS_PTRACE,
        None => !CapabilitySet::SYS_ADMIN,
    };
    give_up_capabilities(kept, orders.closed.is_some())?;
    // The program could look at us as at one of its own.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| Failed::Other(error.to_string()))?;
    // Ends when the program begins: what holds the other end is closed then.
    let (begun, begins) = io::pipe().map_err(|error| Failed::Other(error.to_string()))?;
    match fork().map_err(|error| Failed::Other(format!("cannot fork: {error}")))? {
        Forked::Child => {
            if let Some(closed) = &orders.closed {
                close(orders, closed, proc.is_own, bounds.priority, lines)?;
            }
            let argv = match words {
                None => orders.argv.clone(),
                Some(words) => match told(words, orders) {
                    Some(argv) => argv,
                    None => return Ok(LOST),
                },
            };
            lines.say(&Line::Begins);
            let error = exec(orders, &argv);
            lines.say(&Line::NotStarted(error.to_string()));
            Ok(127)
        }
        Forked::Parent(pid) => {
            drop((words, begins));
            let watch = orders.closed.as_ref().map(|closed| {
                let own = orders.places.iter().filter_map(|place| match place {
                    Place::Writable(raw) => Some(raw.path()),
                    _ => None,
                });
                let writable: Vec<_> = own.chain(["/dev/shm".into(), "/tmp".into()]).collect();
                let limits = closed.limits;
                move || Watch::of(limits, bounds.kernel, proc.is_own, bounds.ended, &writable)
            });
            tend(pid, &begun, watch, lines);
            Ok(0)
        }
    }
}

/// Waits for the program's words, all of them. `None`: nobody wants it any more, or the sandbox is no
/// longer what was ordered.
fn told(mut words: File, orders: &Orders) -> Option<Vec<Raw>> {
    let mut bytes = Vec::new();
    words.read_to_end(&mut bytes).ok()?;
    // A part of them, when Baton was killed: that is no JSON.
    let argv = serde_json::from_slice(&bytes).ok()?;
    let in_place = mounts::are_in_place(orders);
    (in_place && std::env::set_current_dir(orders.folder.path()).is_ok()).then_some(argv)
}

fn exec(orders: &Orders, argv: &[Raw]) -> io::Error {
    let mut words = argv.iter().map(Raw::word);
    let Some(name) = words.next() else { return io::ErrorKind::InvalidInput.into() };
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    let mut command = Command::new(name);
    command.args(words);
    if let Some(closed) = &orders.closed {
        let temporary = if closed.is_tmp { "/tmp".into() } else { closed.temporary.word() };
        command.env("TMPDIR", temporary);
    }
    command.exec()
}

/// All capabilities but those to keep; `for_good`: no program that is started gets any of them.
fn give_up_capabilities(keep: CapabilitySet, for_good: bool) -> Result<(), Failed> {
    let failed =
        |error: rustix::io::Errno| Failed::Other(format!("cannot give up capabilities: {error}"));
    let own = capabilities(None).map_err(failed)?;
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        if for_good || !keep.contains(one) {
            match remove_capability_from_bounding_set(one) {
                // Past the last that this kernel knows; or an ordinary user, who has none to give.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => {}
                other => other.map_err(failed)?,
            }
        }
    }
    if for_good {
        let bits = CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
        set_capabilities_secure_bits(bits).map_err(failed)?;
        clear_ambient_capability_set().map_err(failed)?;
    }
    let sets = CapabilitySets {
        effective: own.effective & keep,
        permitted: own.permitted & keep,
        inheritable: if for_good { CapabilitySet::empty() } else { own.inheritable & keep },
    };
    set_capabilities(None, sets).map_err(failed)?;
    if for_good {
        rustix::thread::set_no_new_privs(true).map_err(failed)?;
    }
    Ok(())
}

/// What only the program itself gets, last of all.
fn close(
    orders: &Orders,
    closed: &ClosedOrders,
    own_proc: bool,
    priority: Option<i32>,
    lines: &mut Lines,
) -> Result<(), Failed> {
    let other = |error: rustix::io::Errno| Failed::Other(error.to_string());
    if let Some(priority) = priority {
        setpriority_process(None, priority).map_err(other)?;
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(other)?;
    // Off the terminal that we were started from.
    setsid().map_err(other)?;
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(other)?;
    for (resource, most) in [
        (Resource::Nproc, closed.limits.processes),
        (Resource::Data, closed.limits.memory),
        (Resource::Fsize, closed.limits.file),
        (Resource::Core, 0),
    ] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit)
            .or_else(|_| {
                // Lower already than we may set it.
                let now = rustix::process::getrlimit(resource);
                if now.maximum.is_some_and(|own| own <= most) {
                    Ok(())
                } else {
                    Err(rustix::io::Errno::PERM)
                }
            })
            .map_err(|error| Failed::Other(format!("cannot set limits: {error}")))?;
    }
    let landlock = restrict(orders, closed)?;
    if closed.without.contains(&Feature::Seccomp) {
        return Err(Failed::Missing(Feature::Seccomp, "hidden for a test".to_owned()));
    }
    lines.say(&Line::Found { own_proc, landlock });
    filter::apply().map_err(|why| Failed::Missing(Feature::Seccomp, why))
}

/// A second wall, should a mount ever have a hole: writing only beneath what is writable.
fn restrict(orders: &Orders, closed: &ClosedOrders) -> Result<i32, Failed> {
    use landlock::{
        ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    };
    let missing = |why: String| Failed::Missing(Feature::Landlock, why);
    if closed.without.contains(&Feature::Landlock) {
        return Err(missing("hidden for a test".to_owned()));
    }
    // Of a newer kernel only what an older one has, too, is asked for: the rest the filter does.
    let rights = AccessFs::from_write(ABI::V3);
    let mut roots: Vec<_> = orders
        .places
        .iter()
        .filter_map(|place| match place {
            Place::Writable(raw) => Some(raw.path()),
            _ => None,
        })
        // Beneath a private /tmp the folder that is there now has no other name.
        .filter(|path| path.exists())
        .collect();
    roots.push("/dev".into());
    if closed.is_tmp {
        roots.push("/tmp".into());
    }
    let attempt = || -> Result<RulesetStatus, landlock::RulesetError> {
        let mut rules = Ruleset::default().handle_access(rights)?.create()?;
        for root in &roots {
            if let Ok(folder) = PathFd::new(root) {
                rules = rules.add_rule(PathBeneath::new(folder, rights))?;
            }
        }
        Ok(rules.restrict_self()?.ruleset)
    };
    match attempt() {
        Ok(RulesetStatus::FullyEnforced) => Ok(3),
        Ok(RulesetStatus::PartiallyEnforced) => Ok(1),
        Ok(RulesetStatus::NotEnforced) => Err(missing("this kernel does not have it".to_owned())),
        Err(error) => Err(missing(error.to_string())),
    }
}

/// The first process's own life: takes in orphans, looks how much is used, and ends with the
/// program.
fn tend(
    program: Pid,
    begun: &PipeReader,
    watch: Option<impl FnOnce() -> Watch>,
    lines: &mut Lines,
) {
    let Ok(handle) = pidfd_open(program, PidfdFlags::empty()) else {
        // A kernel without such handles: waiting is all there is.
        loop {
            if ended(program, WaitOptions::empty(), lines) {
                return;
            }
        }
    };
    // Nothing is used before, and one that waits for its words may wait for hours.
    let _ =
        poll(&mut [PollFd::new(&handle, PollFlags::IN), PollFd::new(begun, PollFlags::IN)], None);
    let mut watch = watch.map(|watch| watch());
    loop {
        let pause = watch.as_ref().map_or(ORPHANS, Watch::pause);
        let mut fds = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
        let _ = poll(&mut fds, Some(&timespec(pause)));
        if ended(program, WaitOptions::NOHANG, lines) {
            return;
        }
        if let Some(what) = watch.as_mut().and_then(Watch::over) {
            lines.say(&Line::TooMuch(what));
            return lines.say(&Line::Signal(libc::SIGKILL));
        }
    }
}

/// Takes in everybody who has ended; whether the program was among them.
fn ended(program: Pid, how: WaitOptions, lines: &mut Lines) -> bool {
    while let Ok(Some((pid, status))) = wait(how) {
        if pid == program {
            lines.say(&line_of(status));
            return true;
        }
    }
    false
}

fn line_of(status: WaitStatus) -> Line {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Line::Exit(code),
        (None, signal) => Line::Signal(signal.unwrap_or(0)),
    }
}
