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

use super::http::Reply;
use crate::load;

const VERSION: u32 = 1;
/// A recording of days stays far below it.
const MAX_BYTES: u64 = 512 << 20;

/// One call, as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) wire: Wire,
    /// The body that was sent.
    pub(super) request: String,
    pub(super) status: u16,
    pub(super) request_id: Option<String>,
    /// The bytes that came back.
    pub(super) reply: String,
    /// The connection broke before the reply was over.
    pub(super) cut: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
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
        let head = serde_json::to_string(&Head { cassette: VERSION }).unwrap_or_default();
        writeln!(file, "{head}").map_err(failed)?;
        Ok(Tape::Recording(Recorder { file: Arc::new(Mutex::new(file)) }))
    }

    /// Reads a recording, whole; one wrong line refuses it.
    pub fn play(path: &Path) -> Result<Tape, String> {
        let text = load::text(path, MAX_BYTES).map_err(|error| error.to_string())?;
        let wrong = |line: usize, why: String| format!("{}:{line}: {why}", path.display());
        let mut lines = text.lines().enumerate();
        let head = lines.next().map(|(_, line)| serde_json::from_str::<Head>(line));
        match head {
            Some(Ok(Head { cassette: VERSION })) => {}
            Some(Ok(Head { cassette })) => {
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
    pub(super) fn reply(&self, wire: Wire, body: &str) -> Result<Reply, String> {
        let request = canonical(body);
        let mut calls = self.calls.lock().map_err(|_| "the cassette is broken".to_owned())?;
        let found = calls.iter_mut().find(|(recorded, call)| {
            *recorded == request && call.as_ref().is_some_and(|call| call.wire == wire)
        });
        if let Some(call) = found.and_then(|(_, call)| call.take()) {
            return Ok(Reply::taped(
                call.status,
                call.request_id,
                call.reply.into_bytes(),
                call.cut,
            ));
        }
        match calls.iter().find(|(_, call)| call.is_some()) {
            None => Err("the cassette is played to its end; this call was not recorded".to_owned()),
            Some((next, _)) => {
                let diff = TextDiff::from_lines(next.as_str(), &request);
                let diff =
                    diff.unified_diff().context_radius(2).header("recorded", "asked").to_string();
                Err(format!("this call was not recorded; the next recorded one differs:\n{diff}"))
            }
        }
    }
}

/// One form for equal requests, a line a value, so that a difference can be read.
fn canonical(request: &str) -> String {
    match serde_json::from_str::<Value>(request) {
        Ok(value) => format!("{value:#}\n"),
        Err(_) => request.to_owned(),
    }
}
