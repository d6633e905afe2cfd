//! What a program says: kept at both ends in memory, whole in a file where one is wanted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use super::Program;

/// Outputs that are no longer need no copy on disk.
pub const SHORT: usize = 8 << 10;
/// Bytes of a copy on disk.
pub const COPY: u64 = 256 << 20;

/// An output, its middle cut out where it is too long.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl Kept {
    fn add(&mut self, bytes: &[u8], most: usize) {
        let room = (most / 2).saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend(&bytes[room..]);
        let over = self.tail.len().saturating_sub(most / 2);
        self.tail.drain(..over);
        self.omitted += over as u64;
    }

    pub fn text(&self) -> String {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self.omitted {
            0 => lossy(&self.bytes()),
            omitted => {
                let tail: Vec<u8> = self.tail.iter().copied().collect();
                format!(
                    "{}\n[... {omitted} bytes omitted ...]\n{}",
                    lossy(&self.head),
                    lossy(&tail)
                )
            }
        }
    }

    /// The text, where it is one and nothing of it was left out.
    pub fn whole_text(&self) -> Result<String, &'static str> {
        match self.omitted {
            0 => String::from_utf8(self.bytes()).map_err(|_| "it is not UTF-8"),
            _ => Err("it is too long"),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.head.iter().chain(&self.tail).copied().collect()
    }

    pub fn is_cut(&self) -> bool {
        self.omitted > 0
    }

    /// The last lines.
    pub fn end(&self, lines: usize) -> String {
        let text = self.text();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// Both streams in the order they came. A file is made when they are longer than what is kept in
/// memory anyway: most commands say little, and a file costs more than they do.
#[derive(Debug)]
pub(super) struct Copy {
    path: PathBuf,
    first: Vec<u8>,
    most: usize,
    file: Option<File>,
    written: u64,
    omitted: u64,
}

impl Copy {
    fn at(path: &Path, most: usize) -> Result<Copy, String> {
        let folder = path.parent().is_some_and(Path::is_dir);
        if !folder {
            return Err(format!("cannot keep the output in {}: no such folder", path.display()));
        }
        let (path, first, file) = (path.to_owned(), Vec::new(), None);
        Ok(Copy { path, first, most, file, written: 0, omitted: 0 })
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.file.is_none() && self.first.len() + bytes.len() <= self.most {
            self.first.extend_from_slice(bytes);
            return;
        }
        if self.file.is_none() {
            // What a command says is nobody else's to read.
            let mut new = File::options();
            let new = new.write(true).create(true).truncate(true).mode(0o600);
            self.file = crate::load::open_regular(new, 0, &self.path).ok();
            let first = std::mem::take(&mut self.first);
            self.put(&first);
        }
        self.put(bytes);
    }

    fn put(&mut self, bytes: &[u8]) {
        let room = usize::try_from(COPY - self.written).unwrap_or(usize::MAX).min(bytes.len());
        // A full disk must not stop the program: what is missing is counted.
        let is_written = self.omitted == 0
            && self.file.as_mut().is_some_and(|file| file.write_all(&bytes[..room]).is_ok());
        let done = if is_written { room } else { 0 };
        self.written += done as u64;
        self.omitted += (bytes.len() - done) as u64;
    }

    fn finish(&mut self) {
        if let Some(file) = self.file.as_mut().filter(|_| self.omitted > 0) {
            let _ = write!(file, "\n[... {} more bytes were left out ...]\n", self.omitted);
        }
    }
}

pub(super) type Shared = Option<Arc<Mutex<Copy>>>;

/// The three streams of a program, each served by a thread of its own: none can block another.
pub(super) struct Streams {
    stdout: Collected,
    stderr: Collected,
    copy: Shared,
}

/// One output, as far as it has come.
struct Collected {
    kept: Arc<Mutex<Kept>>,
    /// Disconnected when nothing more can come.
    end: mpsc::Receiver<()>,
}

impl Collected {
    /// A process that could not be ended may still hold the pipe: its output so far counts.
    fn finished(self, patience: Duration) -> Kept {
        let _ = self.end.recv_timeout(patience);
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Both outputs, and how much of them the copy on disk lacks.
pub(super) struct Said {
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
    pub(super) uncopied: u64,
}

impl Streams {
    /// A program whose output cannot be kept is not started.
    pub(super) fn copy_for(program: &Program) -> Result<Shared, String> {
        let copy = program.copy.as_deref();
        let copy = copy.map(|path| Copy::at(path, program.most.min(SHORT))).transpose()?;
        Ok(copy.map(|copy| Arc::new(Mutex::new(copy))))
    }

    pub(super) fn of(
        child: &mut Child,
        program: &Program,
        copy: Shared,
    ) -> std::io::Result<Streams> {
        let stdin = child.stdin.take();
        if let Some(mut stdin) = stdin.filter(|_| !program.input.is_empty()) {
            let input = program.input.clone();
            // A program that does not read its input is no error.
            thread(move || drop(stdin.write_all(&input)))?;
        }
        let stdout = collected(child.stdout.take(), program.most, copy.clone())?;
        let stderr = collected(child.stderr.take(), program.most, copy.clone())?;
        Ok(Streams { stdout, stderr, copy })
    }

    pub(super) fn finished(self) -> Said {
        let patience = Duration::from_secs(2);
        let (stdout, stderr) = (self.stdout.finished(patience), self.stderr.finished(patience));
        let uncopied = self.copy.map_or(0, |copy| {
            let mut copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
            copy.finish();
            copy.omitted
        });
        Said { stdout, stderr, uncopied }
    }
}

fn thread(act: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().spawn(act).map(drop)
}

fn collected(
    from: Option<impl Read + Send + 'static>,
    most: usize,
    copy: Shared,
) -> std::io::Result<Collected> {
    let (alive, end) = mpsc::channel();
    let kept = Arc::new(Mutex::new(Kept::default()));
    let collected = Collected { kept: Arc::clone(&kept), end };
    thread(move || {
        let _alive = alive;
        let mut buffer = [0; 16 << 10];
        let Some(mut from) = from else { return };
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    let bytes = &buffer[..count];
                    kept.lock().unwrap_or_else(PoisonError::into_inner).add(bytes, most);
                    if let Some(copy) = &copy {
                        copy.lock().unwrap_or_else(PoisonError::into_inner).add(bytes);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })?;
    Ok(collected)
}
