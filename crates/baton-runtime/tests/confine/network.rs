//! What must not be reached, and what must.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_runtime::sandbox::{Confine, How};

use crate::ground::Ground;

/// Services of this machine, each of which answers whoever comes.
struct Services {
    tcp: u16,
    tcp6: u16,
    udp: u16,
    udp6: u16,
    name: String,
}

fn serve_tcp(listener: TcpListener) -> u16 {
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(b"hello"));
        }
    });
    port
}

fn serve_udp(socket: UdpSocket) -> u16 {
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..count], from);
        }
    });
    port
}

impl Services {
    fn new(ground: &Ground) -> Services {
        let unique = ground.folder.path().file_name().unwrap().display().to_string();
        let name = format!("baton-test-{unique}");
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let path = ground.path("elsewhere/stream");
        for listener in [UnixListener::bind_addr(&abstract_name), UnixListener::bind(path)] {
            let listener = listener.unwrap();
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let _ = stream.and_then(|mut stream| stream.write_all(b"hello"));
                }
            });
        }
        let datagrams = SocketAddr::from_abstract_name(format!("{name}-datagrams")).unwrap();
        for socket in [
            UnixDatagram::bind_addr(&datagrams),
            UnixDatagram::bind(ground.path("elsewhere/datagrams")),
        ] {
            let socket = socket.unwrap();
            std::thread::spawn(move || while socket.recv(&mut [0; 64]).is_ok() {});
        }
        Services {
            tcp: serve_tcp(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()),
            tcp6: TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).map_or(0, serve_tcp),
            udp: serve_udp(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()),
            udp6: UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).map_or(0, serve_udp),
            name,
        }
    }
}

/// Whatever these do must not be possible; each says whether it was.
fn tries(services: &Services, ground: &Ground) -> Vec<Vec<String>> {
    let elsewhere = |name: &str| ground.path("elsewhere").join(name).display().to_string();
    let (tcp, tcp6) = (services.tcp.to_string(), services.tcp6.to_string());
    let (udp, udp6) = (services.udp.to_string(), services.udp6.to_string());
    let name = &services.name;
    let datagrams = format!("{name}-datagrams");
    let own = std::process::id().to_string();
    let with = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut all = vec![
        with(&["tcp", &tcp]),
        with(&["tcp6", &tcp6]),
        with(&["udp", &udp]),
        with(&["udp6", &udp6]),
        with(&["dns", &udp]),
        with(&["unix", &elsewhere("stream")]),
        with(&["unix-datagram", &elsewhere("datagrams")]),
        with(&["unix-pair", &elsewhere("datagrams")]),
        with(&["abstract", name]),
        with(&["abstract-pair", &datagrams]),
        with(&["signal", &own]),
        with(&["environment-of", &own]),
        with(&["files-of", &own]),
    ];
    let bare = [
        "unix-server",
        "netlink-events",
        "raw",
        "packet",
        "vsock",
        "alg",
        "bluetooth",
        "io-uring",
        "ptrace",
        "process-memory",
        "bpf",
        "perf",
        "userfaultfd",
        "key",
        "user-namespace",
        "clone-user-namespace",
        "clone3",
        "mount",
        "open-tree",
        "handle",
        "personality",
        "join-namespace",
        "terminal-input",
        "x32",
        "disk",
        "kernel-log",
        "core-pattern",
        "nice-to-all",
        "chroot",
        "pidfd-getfd",
    ];
    all.extend(bare.iter().map(|name| with(&[name])));
    all
}

pub(crate) fn unreachable() {
    let ground = Ground::new();
    let services = Services::new(&ground);
    let (mut works_outside, mut impossible) = (0, Vec::new());
    let mut wrong = Vec::new();
    for words in tries(&services, &ground) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (outside, _) = ground.probe(&words, Confine::Off);
        match outside {
            How::Exit(0) => works_outside += 1,
            _ => impossible.push(words[0].to_owned()),
        }
        let (inside, said) = ground.probe(&words, ground.confine());
        if inside != How::Exit(1) {
            wrong.push(format!("{words:?}: {inside:?} {said}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!(
        "  {works_outside} tries that work outside, none inside; not even outside: {impossible:?}"
    );
    assert!(works_outside >= 20, "{impossible:?}");
    // Each wall by itself: the filter stands in front of this one.
    let look = "for name in user mnt pid ipc net; do readlink /proc/self/ns/$name; done; grep -c : /proc/net/dev";
    let (outside, inside) =
        (ground.shell(look, Confine::Off), ground.shell(look, ground.confine()));
    let same: Vec<&str> =
        outside.lines().take(5).filter(|line| inside.lines().any(|own| own == *line)).collect();
    assert!(same.is_empty() && inside.ends_with("\n1\n"), "{same:?}: {inside}");
    for words in [["pair", ""], ["tcp-server", ""], ["netlink", ""]] {
        let (how, said) = ground.probe(&words, ground.confine());
        assert_eq!(how, How::Exit(0), "{words:?}: {said}");
    }
    // A program reaches its own servers; nobody else does, and there is no way out.
    assert!(reached_while_it_serves(&ground, Confine::Off) > 0, "the control");
    assert_eq!(reached_while_it_serves(&ground, ground.confine()), 0);
    let look = "wc -l < /proc/net/route; cat /proc/net/ipv6_route";
    let routes = ground.shell(look, ground.confine());
    assert!(routes.starts_with("1\n"), "{routes}");
    assert!(routes.lines().skip(1).all(|line| line.trim_end().ends_with("lo")), "{routes}");
}

/// How often a server is reached from outside while it answers its own program.
fn reached_while_it_serves(ground: &Ground, confine: Confine) -> usize {
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let trying = scope.spawn(|| {
            let mut reached = 0;
            while !is_over.load(Ordering::SeqCst) {
                let stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port));
                reached += usize::from(stream.is_ok());
                std::thread::sleep(Duration::from_millis(1));
            }
            reached
        });
        let (how, said) = ground.probe(&["own-loopback", &port.to_string()], confine);
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(how, How::Exit(0), "{said}");
        trying.join().unwrap()
    })
}

/// TCP and UDP, and still nothing of this machine's own services.
pub(crate) fn reachable() {
    let ground = Ground::new();
    let services = Services::new(&ground);
    let mut closed = ground.closed();
    closed.network = true;
    let confine = || Confine::Closed(Box::new(closed.clone()));
    let (tcp, udp) = (services.tcp.to_string(), services.udp.to_string());
    for words in [["tcp", &tcp], ["udp", &udp], ["netlink", ""], ["tcp-server", ""]] {
        let (how, said) = ground.probe(&words, confine());
        assert_eq!(how, How::Exit(0), "{words:?}: {said}");
    }
    let mut stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, services.tcp)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
    for words in tries(&services, &ground) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if ["tcp", "tcp6", "udp", "udp6", "dns"].contains(&words[0]) {
            continue;
        }
        let (how, said) = ground.probe(&words, confine());
        assert_eq!(how, How::Exit(1), "{words:?}: {said}");
    }
}
