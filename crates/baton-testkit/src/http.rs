//! Real HTTP on loopback, every byte decided by the test; and all that the server was asked.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// A deed of the server after it has read a request. When all are done, it closes the connection.
#[derive(Debug, Clone)]
pub enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Stays silent until the client goes away.
    Hold,
    /// Breaks the connection off with a reset.
    Reset,
    /// Does not close the connection, but waits for the next request on it.
    Stay,
}

pub type Script = Vec<Step>;

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub head: String,
    pub bytes: Vec<u8>,
    /// The bytes as JSON; null, if they are none.
    pub body: Value,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Listens until it is dropped.
#[derive(Debug)]
pub struct Server {
    pub url: String,
    address: SocketAddr,
    log: Arc<Log>,
}

#[derive(Debug, Default)]
struct Log {
    asked: Mutex<Vec<Asked>>,
    left: AtomicUsize,
    is_over: AtomicBool,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.log.is_over.store(true, Ordering::SeqCst);
        // So that the listener looks.
        let _ = TcpStream::connect(self.address);
    }
}

impl Server {
    /// Each request takes the next script; the last one serves all that follow.
    pub fn start(scripts: Vec<Script>) -> Server {
        Server::answering(move |number, _| scripts.get(number).or(scripts.last()).unwrap().clone())
    }

    /// Answers by the request's number and itself.
    pub fn answering(answer: impl Fn(usize, &Asked) -> Script + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::<Log>::default();
        let (own, answer) = (log.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if own.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let (own, answer) = (own.clone(), answer.clone());
                std::thread::spawn(move || while own.serve(&stream, answer.as_ref()).is_some() {});
            }
        });
        Server { url: format!("http://{address}"), address, log }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.log.asked.lock().unwrap().clone()
    }

    /// Connections that the client closed while the server was silent.
    pub fn left(&self) -> usize {
        self.log.left.load(Ordering::SeqCst)
    }
}

impl Log {
    /// One request; nothing comes back when the connection is over.
    fn serve(
        &self,
        mut stream: &TcpStream,
        answer: &(dyn Fn(usize, &Asked) -> Script + Send + Sync),
    ) -> Option<()> {
        let asked = read(stream)?;
        let number = {
            let mut log = self.asked.lock().unwrap();
            log.push(asked.clone());
            log.len() - 1
        };
        let script = answer(number, &asked);
        let stays = matches!(script.last(), Some(Step::Stay));
        for step in script {
            match step {
                Step::Send(bytes) => stream.write_all(&bytes).ok()?,
                Step::Wait(time) => std::thread::sleep(time),
                Step::Hold => {
                    if stream.read(&mut [0]).unwrap_or(0) == 0 {
                        self.left.fetch_add(1, Ordering::SeqCst);
                    }
                }
                Step::Reset => {
                    let at_once = Some(Duration::ZERO);
                    rustix::net::sockopt::set_socket_linger(stream, at_once).unwrap();
                    return None;
                }
                Step::Stay => {}
            }
        }
        if !stays {
            // The client may have closed it already.
            let _ = stream.shutdown(Shutdown::Write);
        }
        stays.then_some(())
    }
}

fn read(mut stream: &TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|own| own == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let mut asked = Asked { path, head, bytes: Vec::new(), body: Value::Null };
        let length = asked.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = bytes.split_off(end + 4);
        let had = body.len();
        if had < length {
            body.resize(length, 0);
            stream.read_exact(&mut body[had..]).ok()?;
        }
        asked.body = serde_json::from_slice(&body).unwrap_or_default();
        asked.bytes = body;
        return Some(asked);
    }
}

/// A whole reply, after which the connection may be used again.
pub fn send(status: u16, kind: &str, body: &str) -> Step {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {length}");
    Step::Send(format!("{head}\r\n\r\n{body}").into())
}

/// A reply that ends where the connection does: HTTP itself cannot tell a cut from an end.
pub fn reply(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Status\r\nrequest-id: req_{status}\r\nconnection: close\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub fn ok(body: &str) -> Script {
    vec![Step::Send(reply(200, "", body.as_bytes()))]
}
