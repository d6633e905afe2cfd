//! The attacker. Exit 0: it got what it wanted; 1: it did not.
#![expect(unsafe_code, reason = "an attacker does not go through a library")]

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::FromRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

pub(crate) fn probe(words: &[String]) -> i32 {
    let word = |index: usize| words.get(index).map_or("", String::as_str);
    match word(0) {
        "attack" => return crate::attack::attack(Path::new(word(1)), Path::new(word(2))),
        "daemon" => return daemon(),
        "bomb" => return bomb(),
        "threads" => return threads(word(1).parse().unwrap()),
        "hog" => return hog(word(1).parse().unwrap()),
        "hold" => return hold(word(1), word(2).parse().unwrap()),
        "fill" => return fill(word(1), word(2).parse().unwrap(), Path::new(word(3))),
        "share" => return share(word(1).parse().unwrap(), word(2).parse().unwrap()),
        "many" => return many(word(1).parse().unwrap(), word(2) == "stay"),
        "spin" => return spin(word(1).parse().unwrap()),
        "bombs" => return bombs(Path::new(word(1))),
        "hogs" => return hogs(word(1).parse().unwrap(), word(2).parse().unwrap()),
        _ => {}
    }
    let of_files = || match word(0) {
        "rights" => Some(crate::rights::made(word(1), i64::from_str_radix(word(2), 8).unwrap())),
        "fcntl" => Some(crate::rights::asked(word(1), Path::new(word(2)))),
        _ => None,
    };
    let done = sockets(word(0), word(1))
        .or_else(of_files)
        .or_else(|| processes(word(0), word(1)))
        .or_else(|| calls(word(0)));
    match done.unwrap_or_else(|| panic!("there is no probe {words:?}")) {
        Ok(()) => 0,
        Err(error) => {
            println!("{error}");
            1
        }
    }
}

type Done = Option<io::Result<()>>;

fn checked(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(crate) fn call(number: i64, arguments: [i64; 5]) -> io::Result<i64> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: pointers among the arguments point to what lives longer than the call, or nowhere.
    checked(unsafe { libc::syscall(number, a, b, c, d, e) })
}

fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<()> {
    call(libc::SYS_socket, [domain, kind, protocol, 0, 0].map(i64::from)).map(drop)
}

fn said_hello(mut stream: impl Read) -> io::Result<()> {
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes)
}

fn udp_answer(
    socket: io::Result<UdpSocket>,
    to: (impl Into<std::net::IpAddr>, &str),
    bytes: &[u8],
) -> io::Result<()> {
    let socket = socket?;
    socket.set_read_timeout(Some(crate::ground::PATIENCE / 4))?;
    // So that nobody there is an answer, too.
    socket.connect((to.0.into(), to.1.parse::<u16>().unwrap()))?;
    socket.send(bytes)?;
    socket.recv(&mut [0; 64]).map(drop)
}

/// Serves and asks itself, and stays for a while so that others may try.
fn own_loopback(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let asking = std::thread::spawn(move || -> io::Result<()> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut own| own.write_all(b"hello"))
    });
    // Others may come first.
    while said_hello(listener.accept()?.0).is_err() {}
    std::thread::sleep(std::time::Duration::from_millis(300));
    asking.join().map_err(|_| io::ErrorKind::Other)?
}

/// One end of a pair can be sent elsewhere.
fn pair() -> io::Result<UnixDatagram> {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers; what is returned is ours.
    checked(
        unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, ends.as_mut_ptr()) }.into(),
    )?;
    // SAFETY: as above.
    Ok(unsafe { UnixDatagram::from_raw_fd(ends[0]) })
}

fn sockets(name: &str, at: &str) -> Done {
    let port = || at.parse::<u16>().unwrap();
    let address = |name: &str| SocketAddr::from_abstract_name(name).unwrap();
    Some(match name {
        "tcp" => TcpStream::connect((Ipv4Addr::LOCALHOST, port())).and_then(said_hello),
        "tcp6" => TcpStream::connect((Ipv6Addr::LOCALHOST, port())).and_then(said_hello),
        "own-loopback" => own_loopback(port()),
        "tcp-server" => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map(drop),
        "udp" => {
            udp_answer(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)), (Ipv4Addr::LOCALHOST, at), b"x")
        }
        "udp6" => {
            udp_answer(UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)), (Ipv6Addr::LOCALHOST, at), b"x")
        }
        "dns" => {
            // A question for the address of `a.b`.
            let question =
                b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x01b\x00\x00\x01\x00\x01";
            udp_answer(UdpSocket::bind("0.0.0.0:0"), (Ipv4Addr::LOCALHOST, at), question)
        }
        "unix" => UnixStream::connect(at).and_then(said_hello),
        "unix-datagram" => UnixDatagram::unbound().and_then(|own| own.send_to(b"x", at)).map(drop),
        "unix-pair" => pair().and_then(|own| own.send_to(b"x", at)).map(drop),
        "unix-server" => UnixListener::bind("own-socket").map(drop),
        "abstract" => UnixStream::connect_addr(&address(at)).and_then(said_hello),
        "abstract-pair" => pair().and_then(|own| own.send_to_addr(b"x", &address(at))).map(drop),
        "pair" => UnixStream::pair().and_then(|(mut a, b)| {
            a.write_all(b"hello")?;
            said_hello(b)
        }),
        "netlink" => socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE),
        "netlink-events" => socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT),
        "raw" => socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        "packet" => socket(libc::AF_PACKET, libc::SOCK_RAW, 0x300),
        "vsock" => socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        "alg" => socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        "bluetooth" => socket(libc::AF_BLUETOOTH, libc::SOCK_RAW, 1),
        _ => return None,
    })
}

fn processes(name: &str, pid: &str) -> Done {
    let file = |path: String| fs::read(path).map(drop);
    let number = || pid.parse::<i64>().unwrap();
    Some(match name {
        "signal" => call(libc::SYS_kill, [number(), 0, 0, 0, 0]).map(drop),
        "environment-of" => file(format!("/proc/{pid}/environ")),
        "files-of" => fs::read_dir(format!("/proc/{pid}/root/")).map(drop),
        "ptrace" => call(libc::SYS_ptrace, [0; 5]).map(drop),
        "process-memory" => {
            let (mut to, from) = ([0_u8; 4], *b"from");
            let to = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: 4 };
            let from = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: 4 };
            // SAFETY: both pieces are ours, and so is the process.
            checked(unsafe {
                libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0)
            } as i64)
            .map(drop)
        }
        "nice-to-all" => call(libc::SYS_setpriority, [0, 0, -5, 0, 0]).map(drop),
        "pidfd-getfd" => call(libc::SYS_pidfd_open, [i64::from(std::process::id()), 0, 0, 0, 0])
            .and_then(|own| call(libc::SYS_pidfd_getfd, [own, 1, 0, 0, 0]))
            .map(drop),
        "join-namespace" => fs::File::open("/proc/self/ns/mnt").and_then(|own| {
            use std::os::fd::AsRawFd;
            call(libc::SYS_setns, [i64::from(own.as_raw_fd()), 0, 0, 0, 0]).map(drop)
        }),
        _ => return None,
    })
}

fn calls(name: &str) -> Done {
    let writes = |path: &str| fs::OpenOptions::new().write(true).open(path).map(drop);
    let mut room = [0_u8; 512];
    let room = room.as_mut_ptr() as i64;
    Some(match name {
        "io-uring" => call(libc::SYS_io_uring_setup, [1, room, 0, 0, 0]).map(drop),
        // A map of one number for another.
        "bpf" => {
            let attributes: [u32; 32] =
                std::array::from_fn(|index| [2, 4, 4, 1].get(index).copied().unwrap_or(0));
            call(libc::SYS_bpf, [0, attributes.as_ptr() as i64, 72, 0, 0]).map(drop)
        }
        "perf" => {
            let mut attributes = [0_u32; 32];
            // The clock of this task, the kernel left out.
            (attributes[0], attributes[1], attributes[10]) = (1, 112, 0b110_0000);
            call(libc::SYS_perf_event_open, [attributes.as_ptr() as i64, 0, -1, -1, 0]).map(drop)
        }
        "userfaultfd" => call(libc::SYS_userfaultfd, [1, 0, 0, 0, 0]).map(drop),
        "key" => call(libc::SYS_keyctl, [0, -3, 1, 0, 0]).map(drop),
        "user-namespace" => {
            call(libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0, 0, 0]).map(drop)
        }
        "clone-user-namespace" => {
            let flags = i64::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
            call(libc::SYS_clone, [flags, 0, 0, 0, 0]).map(|pid| {
                if pid == 0 {
                    std::process::exit(0)
                }
            })
        }
        "clone3" => {
            let arguments: [u64; 11] =
                [libc::CLONE_NEWUSER as u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0, 0, 0, 0];
            call(libc::SYS_clone3, [arguments.as_ptr() as i64, 88, 0, 0, 0]).map(|pid| {
                if pid == 0 {
                    std::process::exit(0)
                }
            })
        }
        // In a mount namespace of our own, where one can be had: outside nothing must change.
        "mount" => {
            let _ = call(libc::SYS_unshare, [libc::CLONE_NEWNS.into(), 0, 0, 0, 0]);
            call(
                libc::SYS_mount,
                [
                    c"/".as_ptr() as i64,
                    c"/".as_ptr() as i64,
                    0,
                    (libc::MS_REC | libc::MS_PRIVATE).cast_signed(),
                    0,
                ],
            )
            .map(drop)
        }
        "open-tree" => call(libc::SYS_open_tree, [-100, c"/".as_ptr() as i64, 1, 0, 0]).map(drop),
        "handle" => {
            let mut handle = [0_u32; 34];
            handle[0] = 128;
            let mut id = 0_i32;
            call(
                libc::SYS_name_to_handle_at,
                [-100, c"/".as_ptr() as i64, handle.as_mut_ptr() as i64, (&raw mut id) as i64, 0],
            )
            .map(drop)
        }
        "personality" => call(libc::SYS_personality, [0x004_0000, 0, 0, 0, 0]).map(drop),
        "chroot" => call(libc::SYS_chroot, [c"/".as_ptr() as i64, 0, 0, 0, 0]).map(drop),
        "terminal-input" => terminal_input(),
        "x32" => call(libc::SYS_getpid + 0x4000_0000, [0; 5]).map(drop),
        "disk" => disk().and_then(|path| writes(&path)),
        "kernel-log" => writes("/dev/kmsg"),
        "core-pattern" => writes("/proc/sys/kernel/core_pattern"),
        _ => return None,
    })
}

/// Types into a terminal of our own.
fn terminal_input() -> io::Result<()> {
    let (mut one, mut other) = (0, 0);
    // SAFETY: two numbers are written to, the rest is left out.
    checked(
        unsafe {
            libc::openpty(
                &raw mut one,
                &raw mut other,
                std::ptr::null_mut(),
                std::ptr::null(),
                std::ptr::null(),
            )
        }
        .into(),
    )?;
    let _ = rustix::process::setsid();
    // SAFETY: the numbers are open files; the letter is read from where it stands.
    unsafe {
        libc::ioctl(other, libc::TIOCSCTTY, 0);
        checked(libc::ioctl(other, libc::TIOCSTI, c"x".as_ptr()).into()).map(drop)
    }
}

fn disk() -> io::Result<String> {
    let names = fs::read_dir("/sys/class/block")?.flatten();
    let first = names.map(|entry| format!("/dev/{}", entry.file_name().display()));
    first
        .filter(|path| fs::exists(path).unwrap_or(false))
        .min()
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Leaves its parent, its session and everything that it had open.
fn daemon() -> i32 {
    // SAFETY: this program has one thread here.
    unsafe {
        if libc::fork() == 0 {
            libc::setsid();
            if libc::fork() == 0 {
                let _ = std::env::set_current_dir("/");
                libc::close_range(0, 1_000, 0);
                libc::signal(libc::SIGTERM, libc::SIG_IGN);
                std::thread::sleep(Duration::from_secs(600));
            }
            libc::_exit(0);
        }
    }
    0
}

/// Every process makes others, for as long as it can.
fn bomb() -> i32 {
    let start = std::time::Instant::now();
    let mut refused = false;
    while start.elapsed() < Duration::from_secs(3) {
        // SAFETY: nothing but this very loop goes on in the child.
        refused |= unsafe { libc::fork() } < 0;
        if refused {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    i32::from(refused)
}

/// Holds a lock and so much memory that the kernel takes a while to end it; says when it does.
fn hold(lock: &str, mebibytes: usize) -> i32 {
    let file = fs::File::create(lock).unwrap();
    file.lock().unwrap();
    let all = vec![7_u8; mebibytes << 20];
    fs::write(format!("{lock}.held"), [all[all.len() - 1]]).unwrap();
    std::thread::sleep(crate::ground::PATIENCE);
    0
}

/// Every process makes others, for as long as it can or until somebody says that it is enough.
fn bombs(enough: &Path) -> i32 {
    while !enough.exists() {
        // SAFETY: nothing but this very loop runs in the child.
        if unsafe { libc::fork() } < 0 {
            std::thread::yield_now();
        }
    }
    0
}

/// Processes that do nothing, as fast as they can, once all of them are there.
fn spin(count: usize) -> i32 {
    let (go, end) = io::pipe().unwrap();
    let made = (0..count).filter(|_| {
        // SAFETY: this program has one thread here, and nothing but this runs in the child.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: it closes what only the parent needs.
            unsafe { libc::close(std::os::fd::AsRawFd::as_raw_fd(&end)) };
            let _ = (&go).read(&mut [0]);
            loop {
                std::hint::spin_loop();
            }
        }
        pid > 0
    });
    println!("{} processes", made.count());
    drop(end);
    loop {
        std::hint::spin_loop();
    }
}

/// Processes that are all there at the same time; each ends when the first one says so, after a while
/// if they `stay`.
fn many(count: usize, stay: bool) -> i32 {
    let (ready, mut all_ready) = (io::pipe().unwrap(), 0);
    let (go, mut end) = io::pipe().unwrap();
    for _ in 0..count {
        // SAFETY: this program has one thread here.
        match unsafe { libc::fork() } {
            0 => {
                drop(end);
                (&ready.1).write_all(b"x").unwrap();
                let _ = (&go).read(&mut [0]);
                // SAFETY: it ends this process.
                unsafe { libc::_exit(0) };
            }
            -1 => break,
            _ => all_ready += 1,
        }
    }
    let mut bytes = vec![0; all_ready];
    (&ready.0).read_exact(&mut bytes).unwrap();
    if stay {
        std::thread::sleep(std::time::Duration::from_secs(5));
    }
    end.write_all(b"x").unwrap();
    drop(end);
    println!("{all_ready} processes");
    i32::from(all_ready < count)
}

/// Fills memory of this kind, and keeps it until somebody says that it is enough.
fn fill(kind: &str, mebibytes: usize, enough: &Path) -> i32 {
    let _kept = match filled(kind, mebibytes) {
        Ok(kept) => kept,
        Err(error) => {
            println!("{error}");
            return 1;
        }
    };
    println!("filled");
    let start = std::time::Instant::now();
    while !enough.exists() && start.elapsed() < crate::ground::PATIENCE / 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    0
}

fn filled(kind: &str, mebibytes: usize) -> io::Result<Vec<fs::File>> {
    let piece = vec![7_u8; 1 << 20];
    let memory = |count: usize| -> io::Result<fs::File> {
        let number = call(libc::SYS_memfd_create, [c"x".as_ptr() as i64, 0, 0, 0, 0])?;
        // SAFETY: it was opened right now, for this.
        let mut file = unsafe { fs::File::from_raw_fd(i32::try_from(number).unwrap()) };
        (0..count).try_for_each(|_| file.write_all(&piece))?;
        Ok(file)
    };
    let map = |length: usize, file: i32| -> io::Result<()> {
        let flags = libc::MAP_SHARED | if file < 0 { libc::MAP_ANONYMOUS } else { 0 };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, which is written within its length and stays.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), length, access, flags, file, 0);
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            std::ptr::write_bytes(at.cast::<u8>(), 7, length);
        }
        Ok(())
    };
    match kind {
        "shared" => map(mebibytes << 20, -1).map(|()| Vec::new()),
        // In one process each: none of them has much.
        "shared-by-many" => {
            for _ in 0..8 {
                // SAFETY: this program has one thread here.
                if unsafe { libc::fork() } == 0 {
                    map((mebibytes << 20) / 8, -1)?;
                    std::thread::sleep(crate::ground::PATIENCE / 2);
                }
            }
            // All of them have theirs before this one looks on.
            map(1 << 20, -1)?;
            std::thread::sleep(Duration::from_millis(500));
            Ok(Vec::new())
        }
        "memfd" => Ok(vec![memory(mebibytes)?]),
        "memfds" => (0..8).map(|_| memory(mebibytes / 8)).collect(),
        "mapped-memfd" => {
            use std::os::fd::AsRawFd;
            let file = memory(1)?;
            file.set_len((mebibytes as u64) << 20)?;
            map(mebibytes << 20, file.as_raw_fd())?;
            Ok(Vec::new())
        }
        // Nobody is to look at its open files.
        "hidden-memfd" => {
            call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE.into(), 0, 0, 0, 0])?;
            Ok(vec![memory(mebibytes)?])
        }
        "half-and-half" => {
            map((mebibytes << 20) / 2, -1)?;
            Ok(vec![memory(mebibytes / 2)?])
        }
        "segment" => {
            let size = i64::try_from(mebibytes << 20).unwrap();
            let id = call(libc::SYS_shmget, [0, size, 0o1600, 0, 0])?;
            let at = call(libc::SYS_shmat, [id, 0, 0, 0, 0])?;
            // SAFETY: it was attached right now, and is as long as this.
            unsafe { std::ptr::write_bytes(at as *mut u8, 7, mebibytes << 20) };
            call(libc::SYS_shmdt, [at, 0, 0, 0, 0])?;
            Ok(Vec::new())
        }
        "private" => {
            std::mem::forget(vec![7_u8; mebibytes << 20]);
            Ok(Vec::new())
        }
        _ => panic!("there is no memory `{kind}`"),
    }
}

/// Fills memory and makes processes that all have it: it is there once.
fn share(mebibytes: usize, processes: usize) -> i32 {
    let private = vec![7_u8; mebibytes << 20];
    let _shared = filled("mapped-memfd", mebibytes).unwrap();
    for _ in 0..processes {
        // SAFETY: this program has one thread here.
        if unsafe { libc::fork() } == 0 {
            let sum: u64 = private.iter().step_by(4_096).map(|byte| u64::from(*byte)).sum();
            std::thread::sleep(Duration::from_millis(600));
            std::process::exit(i32::from(sum == 0));
        }
    }
    // SAFETY: as above; it waits for those that were made here.
    while unsafe { libc::wait(std::ptr::null_mut()) } > 0 {}
    println!("shared");
    0
}

/// Threads are no processes, but fill the same table.
fn threads(count: usize) -> i32 {
    for _ in 0..count {
        let new = std::thread::Builder::new().stack_size(16 << 10);
        if new.spawn(|| std::thread::sleep(crate::ground::PATIENCE)).is_err() {
            return 1;
        }
    }
    // Where nothing but a look bounds them, it needs a moment.
    std::thread::sleep(std::time::Duration::from_secs(2));
    0
}

fn hog(mebibytes: usize) -> i32 {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for _ in 0..mebibytes {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(1 << 20).is_err() {
            return 9;
        }
        piece.resize(1 << 20, 7);
        all.push(piece);
    }
    std::thread::sleep(crate::ground::PATIENCE / 2);
    i32::from(all.len() < mebibytes)
}

fn hogs(mebibytes: usize, count: usize) -> i32 {
    for _ in 0..count {
        // SAFETY: this program has one thread here.
        if unsafe { libc::fork() } == 0 {
            return hog(mebibytes);
        }
    }
    // Nobody was stopped if it comes to this.
    std::thread::sleep(crate::ground::PATIENCE / 2);
    0
}
