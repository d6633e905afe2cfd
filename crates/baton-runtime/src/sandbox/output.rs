//! What a program says: kept at both ends in memory, whole in a file where one is wanted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use super::Program;

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

/// Both streams in the order they came.
#[derive(Debug)]
pub(super) struct Copy {
    file: File,
    written: u64,
    omitted: u64,
}

impl Copy {
    fn at(path: &Path) -> Result<Copy, String> {
        // What a command says is nobody else's to read.
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
        let file =
            file.map_err(|error| format!("cannot keep the output in {}: {error}", path.display()))?;
        Ok(Copy { file, written: 0, omitted: 0 })
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = usize::try_from(COPY - self.written).unwrap_or(usize::MAX).min(bytes.len());
        // A full disk must not stop the program: what is missing is counted.
        let done =
            if self.omitted == 0 && self.file.write_all(&bytes[..room]).is_ok() { room } else { 0 };
        self.written += done as u64;
        self.omitted += (bytes.len() - done) as u64;
    }

    fn finish(&mut self) {
        if self.omitted > 0 {
            let _ = write!(self.file, "\n[... {} more bytes were left out ...]\n", self.omitted);
        }
    }
}

pub(super) type Shared = Option<Arc<Mutex<Copy>>>;

/// The three streams of a program, each served by a thread of its own: none can block another.
pub(super) struct Streams {
    stdout: mpsc::Receiver<Kept>,
    stderr: mpsc::Receiver<Kept>,
    copy: Shared,
}

/// Both outputs, and how much of them the copy on disk lacks.
pub(super) struct Said {
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
    pub(super) uncopied: u64,
}

impl Streams {
    /// The file of the copy is made first: a program whose output cannot be kept is not started.
    pub(super) fn copy_for(program: &Program) -> Result<Shared, String> {
        let copy = program.copy.as_deref().map(Copy::at).transpose()?;
        Ok(copy.map(|copy| Arc::new(Mutex::new(copy))))
    }

    pub(super) fn of(child: &mut Child, program: &Program, copy: Shared) -> Streams {
        if let Some(mut stdin) = child.stdin.take() {
            let input = program.input.clone();
            // A program that does not read its input is no error.
            std::thread::spawn(move || stdin.write_all(&input));
        }
        let stdout = collected(child.stdout.take(), program.most, copy.clone());
        let stderr = collected(child.stderr.take(), program.most, copy.clone());
        Streams { stdout, stderr, copy }
    }

    pub(super) fn finished(self) -> Said {
        // Everybody who could hold the pipes is gone.
        let patience = Duration::from_secs(2);
        let of =
            |receiver: mpsc::Receiver<Kept>| receiver.recv_timeout(patience).unwrap_or_default();
        let (stdout, stderr) = (of(self.stdout), of(self.stderr));
        let uncopied = self.copy.map_or(0, |copy| {
            let mut copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
            copy.finish();
            copy.omitted
        });
        Said { stdout, stderr, uncopied }
    }
}

fn collected(
    from: Option<impl Read + Send + 'static>,
    most: usize,
    copy: Shared,
) -> mpsc::Receiver<Kept> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Kept::default();
        let mut buffer = [0; 16 << 10];
        if let Some(mut from) = from {
            while let Ok(count) = from.read(&mut buffer) {
                if count == 0 {
                    break;
                }
                kept.add(&buffer[..count], most);
                if let Some(copy) = &copy {
                    copy.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..count]);
                }
            }
        }
        // Nobody listens any more when the program's end was not waited for.
        let _ = sender.send(kept);
    });
    receiver
}
