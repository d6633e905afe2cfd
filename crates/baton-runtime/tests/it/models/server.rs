//! A scripted model server: real HTTP on loopback, every byte decided by the test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does after it has read a request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Stays silent until the client goes away.
    Hold,
    /// Breaks the connection off with a reset.
    Reset,
}

pub(crate) type Script = Vec<Step>;

#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    /// Connections that the client closed before the script was over.
    left: Arc<Mutex<usize>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Each request takes the next script; the last one serves all that follow.
    pub(crate) async fn start(scripts: Vec<Script>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (received, left) =
            (Arc::<Mutex<Vec<Received>>>::default(), Arc::<Mutex<usize>>::default());
        let (log, gone) = (received.clone(), left.clone());
        let scripts = Arc::new(scripts);
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { break };
                let (scripts, log, gone) = (scripts.clone(), log.clone(), gone.clone());
                tokio::spawn(async move {
                    let _ = serve(stream, &scripts, &log, &gone).await;
                });
            }
        });
        Server { url, received, left, task }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn left(&self) -> usize {
        *self.left.lock().unwrap()
    }
}

async fn serve(
    mut stream: TcpStream,
    scripts: &[Script],
    log: &Mutex<Vec<Received>>,
    gone: &Mutex<usize>,
) -> std::io::Result<()> {
    let request = read_request(&mut stream).await?;
    let number = {
        let mut log = log.lock().unwrap();
        log.push(request);
        log.len() - 1
    };
    let script = scripts.get(number).or(scripts.last()).unwrap().clone();
    for step in script {
        match step {
            Step::Send(bytes) => stream.write_all(&bytes).await?,
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Hold => {
                let mut byte = [0; 1];
                if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                    *gone.lock().unwrap() += 1;
                }
            }
            Step::Reset => {
                stream.set_zero_linger()?;
                return Ok(());
            }
        }
    }
    stream.shutdown().await
}

async fn read_request(stream: &mut TcpStream) -> std::io::Result<Received> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let mut received = Received { path, head, body: Vec::new() };
        let length: usize =
            received.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        while bytes.len() < end + 4 + length {
            let count = stream.read(&mut buffer).await?;
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&buffer[..count]);
        }
        received.body = bytes[end + 4..].to_vec();
        return Ok(received);
    }
}

/// A reply that ends where the connection does: HTTP itself cannot tell a cut from an end.
pub(crate) fn reply(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Status\r\nrequest-id: req_{status}\r\nconnection: close\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(crate) fn ok(body: &str) -> Script {
    vec![Step::Send(reply(200, "", body.as_bytes()))]
}
