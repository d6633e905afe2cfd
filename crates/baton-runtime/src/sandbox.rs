//! The only place that starts a process: in a group of its own, with an environment that is named
//! variable by variable, bounded in time and output. When it ends, nothing that it started lives on.
//! Files and network are not confined here yet.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The variable by which a process that left its group is found again.
const MARK: &str = "BATON_PROCESS";
/// How often a person's wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A program to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments; nothing is interpreted by a shell.
    pub argv: Vec<OsString>,
    pub folder: PathBuf,
    /// All that it gets to see.
    pub environment: BTreeMap<OsString, OsString>,
    pub input: Vec<u8>,
    pub limit: Duration,
    /// Begins the mark of everything that it starts, so that a later process of ours finds it.
    pub mark: String,
    /// Bytes of output that are kept, of each stream: half of them from the beginning, half from
    /// the end.
    pub most: usize,
}

/// What a program did.
#[derive(Debug, Clone)]
pub struct Ran {
    pub how: How,
    pub stdout: Kept,
    pub stderr: Kept,
    pub time: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Exit(i32),
    Signal(i32),
    /// It took longer than its limit and was ended.
    TimedOut,
    /// Somebody asked to stop at once.
    Interrupted,
}

/// An output, its middle cut out where it is too long.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
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

/// A person's wish to stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    at_once: Arc<AtomicBool>,
}

impl Interrupt {
    pub fn at_once(&self) {
        self.at_once.store(true, Ordering::SeqCst);
    }

    pub fn is_at_once(&self) -> bool {
        self.at_once.load(Ordering::SeqCst)
    }
}

/// Asks a process of ours to stop in good order.
pub fn ask_to_stop(pid: i32) -> Result<(), String> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or("there is no such process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        .map_err(|error| format!("cannot signal it: {error}"))
}

/// Runs a program to its end, its limit or an interrupt. `Err`: it could not be started.
pub fn run(program: &Program, interrupt: &Interrupt) -> Result<Ran, String> {
    let Some((name, arguments)) = program.argv.split_first() else {
        return Err("there is no program to start".to_owned());
    };
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    let mut command = Command::new(name);
    let mark = format!("{}-{}-{}", program.mark, std::process::id(), fastrand::u64(..));
    command
        .args(arguments)
        .current_dir(&program.folder)
        .env_clear()
        .envs(&program.environment)
        .env(MARK, &mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let start = Instant::now();
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot start `{}`: {error}", Path::new(name).display()))?;
    let streams = Streams::of(&mut child, program);
    let how = wait(&mut child, program.limit, start, interrupt);
    end_all(&child, &mark);
    let how = match (how, child.wait()) {
        (Some(how), _) => how,
        (None, Ok(status)) => exit_of(status),
        (None, Err(_)) => How::Signal(0),
    };
    let (stdout, stderr) = streams.finished();
    Ok(Ran { how, stdout, stderr, time: start.elapsed() })
}

fn exit_of(status: std::process::ExitStatus) -> How {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => How::Exit(code),
        (None, signal) => How::Signal(signal.unwrap_or(0)),
    }
}

/// `None`: it ended by itself.
fn wait(child: &mut Child, limit: Duration, start: Instant, interrupt: &Interrupt) -> Option<How> {
    let mut pause = Duration::from_micros(200);
    loop {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => return None,
            Ok(None) if start.elapsed() >= limit => return Some(How::TimedOut),
            Ok(None) if interrupt.is_at_once() => return Some(How::Interrupted),
            Ok(None) => std::thread::sleep(pause),
        }
        // Short programs are noticed at once, long ones cost nothing.
        pause = (pause * 2).min(LOOK);
    }
}

/// Ends the group, and what left it: those processes still carry our mark.
fn end_all(child: &Child, mark: &str) {
    let group = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let wanted = format!("{MARK}={mark}");
    // What is forked while we look is found at the next look.
    for _ in 0..10 {
        let left = marked(&wanted, child.id());
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Ends what programs with such a mark have left behind; how many there were. Only for one who holds
/// the lock under which they were started.
pub fn end_left_behind(mark: &str) -> usize {
    let wanted = format!("{MARK}={mark}-");
    let mut count = 0;
    for _ in 0..10 {
        let left = with_variable(|own| own.starts_with(wanted.as_bytes()), std::process::id());
        if left.is_empty() {
            break;
        }
        count += left.len();
        for pid in left {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    count
}

fn marked(wanted: &str, own: u32) -> Vec<rustix::process::Pid> {
    with_variable(|own| own == wanted.as_bytes(), own)
}

fn with_variable(is_wanted: impl Fn(&[u8]) -> bool, own: u32) -> Vec<rustix::process::Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let is_own = u32::try_from(pid).ok() == Some(own);
        let environment = std::fs::read(entry.path().join("environ")).ok().filter(|_| !is_own)?;
        let is_marked = environment.split(|byte| *byte == 0).any(&is_wanted);
        is_marked.then(|| rustix::process::Pid::from_raw(pid)).flatten()
    });
    pids.collect()
}

/// The three streams of a program, each served by a thread of its own: none can block another.
struct Streams {
    stdout: mpsc::Receiver<Kept>,
    stderr: mpsc::Receiver<Kept>,
}

impl Streams {
    fn of(child: &mut Child, program: &Program) -> Streams {
        if let Some(mut stdin) = child.stdin.take() {
            let input = program.input.clone();
            // A program that does not read its input is no error.
            std::thread::spawn(move || stdin.write_all(&input));
        }
        let stdout = collected(child.stdout.take(), program.most);
        let stderr = collected(child.stderr.take(), program.most);
        Streams { stdout, stderr }
    }

    fn finished(self) -> (Kept, Kept) {
        // Everybody who could hold the pipes is gone.
        let patience = Duration::from_secs(2);
        let of =
            |receiver: mpsc::Receiver<Kept>| receiver.recv_timeout(patience).unwrap_or_default();
        (of(self.stdout), of(self.stderr))
    }
}

fn collected(from: Option<impl Read + Send + 'static>, most: usize) -> mpsc::Receiver<Kept> {
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
            }
        }
        // Nobody listens any more when the program's end was not waited for.
        let _ = sender.send(kept);
    });
    receiver
}

/// The standard output of a shell command of the user's own, trimmed.
pub fn output_of(command: &str, limit: Duration, most: usize) -> Result<String, String> {
    let program = Program {
        argv: ["sh", "-c", command].map(OsString::from).to_vec(),
        folder: PathBuf::from("."),
        // It is the user's own: a password store needs the user's own variables.
        environment: std::env::vars_os().collect(),
        input: Vec::new(),
        limit,
        mark: "own".to_owned(),
        most: most * 2,
    };
    let ran = run(&program, &Interrupt::default())?;
    match ran.how {
        How::Exit(0) => {}
        How::TimedOut => return Err(format!("it took longer than {} s", limit.as_secs_f64())),
        How::Exit(code) => return Err(format!("it failed, exit status: {code}")),
        How::Signal(_) | How::Interrupted => return Err("it was ended by a signal".to_owned()),
    }
    let text = ran.stdout.text();
    if ran.stdout.is_cut() || text.len() > most {
        return Err(format!("its output is longer than {most} bytes"));
    }
    match text.contains('\u{fffd}') {
        true => Err("its output is not text".to_owned()),
        false => Ok(text.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::output_of;
    use std::time::{Duration, Instant};

    const SHORT: Duration = Duration::from_millis(500);

    #[test]
    fn a_command_says_its_word_or_why_not() {
        assert_eq!(output_of("printf ' sk-1\\n'", SHORT, 100), Ok("sk-1".to_owned()));
        assert!(output_of("exit 3", SHORT, 100).unwrap_err().contains("failed"));
        let long = output_of("head -c 1000 /dev/zero | tr '\\0' x", SHORT, 100);
        assert!(long.unwrap_err().contains("longer than 100"));
        assert!(output_of("printf '\\377'", SHORT, 100).unwrap_err().contains("not text"));
    }

    #[test]
    fn a_command_that_hangs_ends_at_its_limit_with_its_children() {
        let start = Instant::now();
        let error = output_of("sleep 61.7 & sleep 61.8", SHORT, 100).unwrap_err();
        assert!(error.contains("longer than 0.5 s"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(5));
        let survivors = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).replace('\0', " ").contains("sleep 61.")
        });
        assert_eq!(survivors.count(), 0);
    }

    #[test]
    fn what_leaves_its_group_does_not_survive() {
        let start = Instant::now();
        let command = "setsid sh -c 'setsid sleep 62.7 & sleep 62.8' >/dev/null 2>&1 & echo done";
        assert_eq!(output_of(command, SHORT, 100), Ok("done".to_owned()));
        assert!(start.elapsed() < Duration::from_secs(5));
        let survivors = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).replace('\0', " ").contains("sleep 62.")
        });
        assert_eq!(survivors.count(), 0);
    }

    #[test]
    fn a_flood_of_output_is_kept_at_both_ends() {
        let program = super::Program {
            argv: [
                "sh",
                "-c",
                "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last",
            ]
            .map(Into::into)
            .to_vec(),
            folder: ".".into(),
            environment: [("PATH".into(), std::env::var_os("PATH").unwrap())].into(),
            input: Vec::new(),
            limit: Duration::from_secs(20),
            mark: "test".to_owned(),
            most: 10_000,
        };
        let ran = super::run(&program, &super::Interrupt::default()).unwrap();
        let text = ran.stdout.text();
        assert!(text.starts_with("first\n") && text.ends_with("last\n") && text.len() < 11_000);
        assert!(text.contains("bytes omitted"));
    }
}
