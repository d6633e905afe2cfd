//! Recorded calls: a file of JSON lines, one call each. Replaying needs no network and no key; a
//! request that was not recorded fails and shows the difference, never somebody else's answer.
//! Headers are not recorded, and the key is taken out of bodies: no secret enters a cassette.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use baton_core::message::Wire;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use similar::TextDiff;

use super::http::{Head, Reply};
use super::{Failed, Kind};
use crate::load;

const VERSION: u32 = 2;
/// A recording of days stays far below it.
const MAX_BYTES: u64 = 512 << 20;

/// One call, as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) wire: Wire,
    /// The body that was sent.
    pub(super) request: String,
    /// None when not even that came.
    pub(super) head: Option<Head>,
    /// The bytes that came back.
    pub(super) reply: String,
    /// What ended the call before the reply did.
    pub(super) fault: Option<Fault>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) message: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Title {
    cassette: u32,
}

/// A cassette in the machine: being recorded, or played.
#[derive(Debug, Clone)]
pub enum Tape {
    Recording(Recorder),
    Playing(Player),
}

impl Tape {
    /// Begins a recording. A file that is there is not written over.
    pub fn record(path: &Path) -> Result<Tape, String> {
        let failed =
            |error: std::io::Error| format!("cannot record to {}: {error}", path.display());
        // Conversations are nobody else's to read.
        let file = File::options().write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.map_err(failed)?;
        let head = serde_json::to_string(&Title { cassette: VERSION }).unwrap_or_default();
        writeln!(file, "{head}").map_err(failed)?;
        Ok(Tape::Recording(Recorder { file: Arc::new(Mutex::new(file)) }))
    }

    /// Reads a recording, whole; one wrong line refuses it.
    pub fn play(path: &Path) -> Result<Tape, String> {
        let text = load::text(path, MAX_BYTES).map_err(|error| error.to_string())?;
        let wrong = |line: usize, why: String| format!("{}:{line}: {why}", path.display());
        let mut lines = text.lines().enumerate();
        let head = lines.next().map(|(_, line)| serde_json::from_str::<Title>(line));
        match head {
            Some(Ok(Title { cassette: VERSION })) => {}
            Some(Ok(Title { cassette })) => {
                return Err(wrong(
                    1,
                    format!("this is version {cassette} of the format, {VERSION} is known"),
                ));
            }
            _ => return Err(wrong(1, "this is not a cassette".to_owned())),
        }
        let mut calls = Vec::new();
        for (index, line) in lines {
            let call: Call = serde_json::from_str(line)
                .map_err(|error| wrong(index + 1, format!("not a recorded call: {error}")))?;
            calls.push((canonical(&call.request), Some(call)));
        }
        Ok(Tape::Playing(Player { calls: Arc::new(Mutex::new(calls)) }))
    }

    pub(super) fn is_recording(&self) -> bool {
        self.recorder().is_some()
    }

    pub(super) fn recorder(&self) -> Option<&Recorder> {
        match self {
            Tape::Recording(recorder) => Some(recorder),
            Tape::Playing(_) => None,
        }
    }

    pub(super) fn player(&self) -> Option<&Player> {
        match self {
            Tape::Recording(_) => None,
            Tape::Playing(player) => Some(player),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Recorder {
    file: Arc<Mutex<File>>,
}

impl Recorder {
    pub(super) fn write(&self, call: &Call) -> Result<(), String> {
        let line = serde_json::to_string(call).map_err(|error| error.to_string())? + "\n";
        let mut file = self.file.lock().map_err(|_| "the recording is broken".to_owned())?;
        file.write_all(line.as_bytes())
            .and_then(|()| file.sync_data())
            .map_err(|error| format!("cannot record: {error}"))
    }
}

/// A recorded request, in its canonical form, and the call until it was played.
type Recorded = (String, Option<Call>);

#[derive(Debug, Clone)]
pub struct Player {
    calls: Arc<Mutex<Vec<Recorded>>>,
}

impl Player {
    /// The first call not played yet whose request is this one.
    pub(super) fn reply(&self, wire: Wire, body: &str) -> Result<Reply, Failed> {
        let refused = |message: String| Failed { kind: Kind::NotRecorded, message };
        let request = canonical(body);
        let mut calls =
            self.calls.lock().map_err(|_| refused("the cassette is broken".to_owned()))?;
        let found = calls.iter_mut().find(|(recorded, call)| {
            *recorded == request && call.as_ref().is_some_and(|call| call.wire == wire)
        });
        if let Some(call) = found.and_then(|(_, call)| call.take()) {
            let fault = call.fault.map(|Fault { kind, message }| Failed { kind, message });
            return match (call.head, fault) {
                (Some(head), fault) => Ok(Reply::taped(head, call.reply.into_bytes(), fault)),
                (None, Some(fault)) => Err(fault),
                (None, None) => {
                    Err(refused("the recorded call has neither reply nor fault".to_owned()))
                }
            };
        }
        let next = calls.iter().find_map(|(next, call)| Some((next, call.as_ref()?)));
        Err(refused(match next {
            None => "the cassette is played to its end; this call was not recorded".to_owned(),
            Some((_, call)) if call.wire != wire => format!(
                "this call was not recorded; the next recorded one speaks {}, not {}",
                call.wire.name(),
                wire.name()
            ),
            Some((next, _)) => {
                let diff = TextDiff::from_lines(next.as_str(), &request);
                let diff =
                    diff.unified_diff().context_radius(2).header("recorded", "asked").to_string();
                format!("this call was not recorded; the next recorded one differs:\n{diff}")
            }
        }))
    }
}

/// One form for equal requests, a line a value, so that a difference can be read.
fn canonical(request: &str) -> String {
    match serde_json::from_str::<Value>(request) {
        Ok(value) => format!("{value:#}\n"),
        Err(_) => request.to_owned(),
    }
}
