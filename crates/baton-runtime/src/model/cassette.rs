//! Recorded calls: a file of JSON lines, one call each. Replaying needs no network and no key; a
//! request that was not recorded fails and shows where it differs, never with another call's answer.
//! Headers are not recorded, and keys are taken out of what is written: no secret enters a cassette.
//!
//! Two runs of the same work differ in times, in the project's folder, in temporary folders: these
//! are masked before requests are compared (`mask`). What commands print differs as well: their
//! results are recorded and take the place of what they print when they are run again.

mod difference;
mod mask;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use baton_core::event::{RunSetup, Runner};
use baton_core::message::Wire;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::http::{Head, Reply};
use super::{Failed, Kind};
use crate::load;

const VERSION: u32 = 3;
/// Version 2 has calls alone.
const OLDEST: u32 = 2;
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

/// The recorded run: its folder, executors and models.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The project's folder.
    pub root: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<RunSetup>,
}

/// The result of a command: a tool call or a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ran {
    what: String,
    /// Its end, in a word or two.
    how: String,
    result: Value,
}

/// A line after the title.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    About(About),
    Ran(Ran),
    #[serde(untagged)]
    Call(Box<Call>),
}

impl Line {
    fn read(line: &str) -> Result<Line, serde_json::Error> {
        // An untagged reader would not say what is wrong.
        let value: Value = serde_json::from_str(line)?;
        match value.as_object().and_then(|map| map.keys().next()).map(String::as_str) {
            Some("about" | "ran") => serde_json::from_value(value),
            _ => serde_json::from_value(value).map(Line::Call),
        }
    }
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
            Some(Ok(Title { cassette: OLDEST..=VERSION })) => {}
            Some(Ok(Title { cassette })) => {
                return Err(wrong(
                    1,
                    format!("this is version {cassette} of the format, {VERSION} is known"),
                ));
            }
            _ => return Err(wrong(1, "this is not a cassette".to_owned())),
        }
        let mut recorded = Recorded::default();
        for (index, line) in lines {
            let line = Line::read(line)
                .map_err(|error| wrong(index + 1, format!("not a recorded call: {error}")))?;
            match line {
                Line::About(about) => recorded.about = Some(about),
                Line::Ran(ran) => recorded.ran.push(Some(ran)),
                Line::Call(call) => {
                    recorded.calls.push(Recording { form: None, call: Some(*call) });
                }
            }
        }
        recorded.roots.extend(recorded.about.iter().map(|about| about.root.clone()));
        Ok(Tape::Playing(Player { recorded: Arc::new(Mutex::new(recorded)) }))
    }

    /// Says where the work is done and by whom: recorded, or known when requests are compared.
    pub fn begin(&self, root: &Path, setup: Option<RunSetup>) -> Result<(), String> {
        let root = root.to_string_lossy().into_owned();
        match self {
            Tape::Recording(recorder) => recorder.line(&Line::About(About { root, setup })),
            Tape::Playing(player) => {
                player.locked()?.roots.push(root);
                Ok(())
            }
        }
    }

    /// The recorded run, as a played cassette has it.
    pub fn about(&self) -> Option<About> {
        self.player()?.locked().ok()?.about.clone()
    }

    /// The model of a played cassette, and where it was called: as recorded, or as its first call
    /// shows it.
    pub fn runner(&self) -> Option<Runner> {
        let recorded = self.player()?.locked().ok()?;
        let setup = recorded.about.as_ref().and_then(|about| about.setup.as_ref());
        if let Some(runner) = setup.and_then(|own| own.runners().find(|own| own.provider.is_some()))
        {
            return Some(runner.clone());
        }
        let call = recorded.calls.first()?.call.as_ref()?;
        let request: Value = serde_json::from_str(&call.request).unwrap_or_default();
        // Only the provider itself is asked in this form.
        let is_local = call.wire == Wire::Chat && request["max_completion_tokens"].is_null();
        Some(Runner {
            executor: Runner::BUILTIN.to_owned(),
            provider: Some(call.wire),
            base_url: is_local.then(|| "http://localhost".to_owned()),
            model: request["model"].as_str().map(str::to_owned),
        })
    }

    /// The result of a command that was run: recorded as it is; in a replay, the recorded one, if
    /// the command ended as it did then.
    pub fn settle(&self, what: &str, how: &str, result: Value) -> Result<Value, String> {
        match self {
            Tape::Recording(recorder) => {
                let (what, how) = (what.to_owned(), how.to_owned());
                recorder.line(&Line::Ran(Ran { what, how, result: result.clone() }))?;
                Ok(result)
            }
            Tape::Playing(player) => {
                let mut recorded = player.locked()?;
                let masked = mask::text(what, &recorded.roots);
                let Recorded { ran, roots, .. } = &mut *recorded;
                let is_it = |own: &&mut Option<Ran>| {
                    own.as_ref().is_some_and(|own| mask::text(&own.what, roots) == masked)
                };
                let found = ran.iter_mut().find(is_it).and_then(Option::take);
                Ok(found.filter(|own| own.how == how).map_or(result, |own| own.result))
            }
        }
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
        self.line(&Line::Call(Box::new(call.clone())))
    }

    fn line(&self, line: &Line) -> Result<(), String> {
        let line = serde_json::to_string(line).map_err(|error| error.to_string())? + "\n";
        let mut file = self.file.lock().map_err(|_| "the recording is broken".to_owned())?;
        file.write_all(line.as_bytes())
            .and_then(|()| file.sync_data())
            .map_err(|error| format!("cannot record: {error}"))
    }
}

/// All that a cassette holds, as far as it was not played yet.
#[derive(Debug, Default)]
struct Recorded {
    about: Option<About>,
    calls: Vec<Recording>,
    ran: Vec<Option<Ran>>,
    /// Folders of the project, then and now.
    roots: Vec<String>,
}

#[derive(Debug)]
struct Recording {
    /// Its request as it is compared, once it is needed.
    form: Option<Value>,
    /// Until it was played.
    call: Option<Call>,
}

#[derive(Debug, Clone)]
pub struct Player {
    recorded: Arc<Mutex<Recorded>>,
}

impl Player {
    fn locked(&self) -> Result<MutexGuard<'_, Recorded>, String> {
        self.recorded.lock().map_err(|_| "the cassette is broken".to_owned())
    }

    /// The first call not played yet whose request is this one.
    pub(super) fn reply(&self, wire: Wire, body: &str) -> Result<Reply, Failed> {
        let refused = |message: String| Failed { kind: Kind::NotRecorded, message };
        let mut recorded = self.locked().map_err(refused)?;
        let Recorded { calls, roots, .. } = &mut *recorded;
        let request = mask::request(body, roots);
        let mut found = None;
        for own in calls.iter_mut() {
            let Some(call) = own.call.as_ref().filter(|call| call.wire == wire) else { continue };
            let form = own.form.get_or_insert_with(|| mask::request(&call.request, roots));
            if *form == request {
                found = own.call.take();
                break;
            }
        }
        if let Some(call) = found {
            let fault = call.fault.map(|Fault { kind, message }| Failed { kind, message });
            return match (call.head, fault) {
                (Some(head), fault) => Ok(Reply::taped(head, call.reply.into_bytes(), fault)),
                (None, Some(fault)) => Err(fault),
                (None, None) => {
                    Err(refused("the recorded call has neither reply nor fault".to_owned()))
                }
            };
        }
        let of = calls.len();
        let next = calls.iter().enumerate().find_map(|(at, own)| Some((at, own.call.as_ref()?)));
        Err(refused(match next {
            None => "the cassette is played to its end; this call was not recorded".to_owned(),
            Some((_, call)) if call.wire != wire => format!(
                "this call was not recorded; the next recorded one speaks {}, not {}",
                call.wire.name(),
                wire.name()
            ),
            Some((at, call)) => {
                let shown = difference::shown(&mask::request(&call.request, roots), &request);
                format!(
                    "this call (+) was not recorded; the next recorded one (-, call {} of {of}) differs {shown}",
                    at + 1
                )
            }
        }))
    }
}
