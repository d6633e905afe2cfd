//! The only place that starts a process. So far one kind: a short command of the user's own, in a
//! group of its own, bounded in time and output.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The standard output of a shell command, trimmed. Nothing of the process's group survives its end
/// or the limit.
pub fn output_of(command: &str, limit: Duration, most: u64) -> Result<String, String> {
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    let mut process = Command::new("sh");
    process.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child =
        process.process_group(0).spawn().map_err(|error| format!("cannot start: {error}"))?;
    let group = rustix::process::Pid::from_child(&child);
    let Some(stdout) = child.stdout.take() else { return Err("no output".to_owned()) };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(most + 1).read_to_end(&mut bytes);
        // Nobody listens any more when the limit came first.
        let _ = sender.send(read.map(|_| bytes));
    });
    let read = receiver.recv_timeout(limit);
    // Whatever the command left behind ends with it; a group that is gone already is no error.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let status = child.wait().map_err(|error| format!("cannot wait: {error}"))?;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(format!("cannot read its output: {error}")),
        Err(_) => return Err(format!("it took longer than {} s", limit.as_secs_f64())),
    };
    if bytes.len() as u64 > most {
        return Err(format!("its output is longer than {most} bytes"));
    }
    // Killed by us after its output ended counts as success: it had said all it had to say.
    if status.code().is_some_and(|code| code != 0) {
        return Err(format!("it failed, {status}"));
    }
    String::from_utf8(bytes)
        .map(|text| text.trim().to_owned())
        .map_err(|_| "its output is not text".to_owned())
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
        assert!(output_of("yes", SHORT, 100).unwrap_err().contains("longer than 100"));
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
}
