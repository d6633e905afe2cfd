//! The same sweep with the built-in agent in the run: its transcript is on the disk step by step, an
//! interrupted stage goes on from there, and a step of which nobody knows whether it happened is never
//! taken for undone: the agent is told, and looks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;

use baton_core::config::AgentSettings;
use baton_core::event::{Event, Record};
use baton_core::id::{Iteration, Tokens};
use baton_core::message::Wire;
use baton_core::turn::Protocol;
use baton_core::turn::Room;
use baton_runtime::agent::Mind;
use baton_runtime::executor::Builtin;
use baton_runtime::journal;
use baton_runtime::load::Environment;
use baton_runtime::model::{Client, Endpoint, Limits};
use serde_json::{Value, json};

use crate::reference::{FAILED, FINISHED, folder, journal_of, make};
use crate::sweep::{child, chosen, each, files, is_part, is_whole};
use baton_testkit::{Model, call, text};

/// Each of them can be done again without harm, as a careful agent would choose them.
fn steps(iteration: Iteration) -> Vec<(&'static str, Value)> {
    let name = format!("agent-{iteration}.rs");
    vec![
        ("Read", json!({ "path": "lib.rs" })),
        ("Write", json!({ "path": name, "content": "// by the agent\n" })),
        (
            "Bash",
            json!({ "command": format!("grep -q fixed {name} || echo '// fixed' >> {name}") }),
        ),
        // A command changed it: it is read again before it is edited.
        ("Read", json!({ "path": name })),
        (
            "Edit",
            json!({ "path": name, "old_string": "by the agent", "new_string": "by the careful agent" }),
        ),
        ("Bash", json!({ "command": format!("cat {name}") })),
    ]
}

/// The words of the system for a disk without room.
const DISK_FULL: &str = "No space left on device";

/// Iterations in which the agent's first report is refused.
const CARELESS: u32 = 1;

/// The agent, with a model of its own in this process: it continues by what it sees was done.
pub(crate) fn executor() -> Builtin {
    let model = Model::answering(|_, asked| {
        let iteration = asked.header("x-baton-iteration").unwrap().parse().unwrap();
        let messages = asked.body["messages"].as_array().unwrap();
        let is_corrected = messages.iter().any(|message| {
            message["role"] == "user" && message.to_string().contains("verdict `GREAT`")
        });
        let verdict = if iteration == CARELESS && !is_corrected { "GREAT" } else { "PASS" };
        let results = messages.iter().filter(|message| message["role"] == "tool");
        // What is unknown is done again, and what found the disk full; every step here can be.
        let is_known = |result: &&Value| {
            let said = result["content"].to_string();
            !said.contains("UNKNOWN") && !said.contains(DISK_FULL)
        };
        match steps(Iteration(iteration)).get(results.filter(is_known).count()) {
            Some((tool, arguments)) => call(tool, arguments.clone()),
            None => text(&format!(
                "iteration: {iteration}\nverdict: {verdict}\nblockers: none\n\nM1-T1\n"
            )),
        }
    });
    with(model, Room::default())
}

/// The agent that thinks with this model, which serves as long as the process lives.
pub(crate) fn with(model: Model, room: Room) -> Builtin {
    let endpoint = Endpoint::new(Wire::Chat, Some(model.url.parse().expect("an address")), None);
    std::mem::forget(model);
    let client = Client::new(endpoint, Limits::default());
    let mind = Mind {
        client: client.unwrap(),
        model: "scripted".to_owned(),
        max_output: Tokens(1_000),
        price: None,
        protocol: Protocol::Native,
        room,
        summary_model: None,
        summary_limit: baton_runtime::agent::SUMMARY_LIMIT,
        steps: None,
    };
    let path = std::env::var("PATH").unwrap();
    let environment = Environment::of(&[("PATH", path.as_str())]);
    Builtin { mind, environment, settings: AgentSettings::default() }
}

/// A run in which the built-in agent plays DEV.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Team {
    /// What a child that plays it is called with.
    pub(crate) prefix: &'static str,
    /// Its stages by the agent; each has four acts.
    pub(crate) stages: usize,
}

pub(crate) const FULL: Team = Team { prefix: "agent-", stages: 3 };
pub(crate) const SMALL: Team = Team { prefix: "small-agent-", stages: 1 };

/// The run without a fault: its files, its points, and those at which an act has just begun.
pub(crate) struct Undisturbed {
    pub(crate) files: BTreeMap<PathBuf, String>,
    pub(crate) points: u64,
    acts: Vec<u64>,
}

pub(crate) struct Outcome {
    unknown: usize,
    lost: usize,
}

impl Team {
    pub(crate) fn child(self, folder: &Path, fault: &str, number: u64) -> Output {
        child(folder, &format!("{}{fault}", self.prefix), number)
    }

    pub(crate) fn undisturbed(self) -> Undisturbed {
        let folder = folder();
        make(folder.path());
        let output = self.child(folder.path(), "tell", 0);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(FINISHED), "{said}");
        let points = said.lines().last().unwrap().trim().parse().unwrap();
        let acts = said.lines().filter_map(|line| {
            let (point, words) = line.strip_prefix("heard ")?.split_once(' ')?;
            let is_act = ["Write", "Bash", "Edit"].iter().any(|tool| words.starts_with(tool));
            is_act.then(|| point.parse().unwrap())
        });
        let acts = acts.collect();
        let transcripts = folder.path().join("project/.baton/transcripts/run-0001");
        assert_eq!(fs::read_dir(transcripts).unwrap().count(), self.stages, "{said}");
        let files = without_transcripts(folder.path());
        assert!(files[Path::new("agent-1.rs")].contains("careful agent\n// fixed\n"));
        if self.stages == FULL.stages {
            assert!(files[Path::new("agent-3.rs")].contains("careful agent\n// fixed\n"));
            let refused = Path::new(".baton/reports/archive/1_dev_subloop_1_a1.md");
            assert!(files[refused].contains("GREAT"), "one report is refused and corrected");
        }
        Undisturbed { files, points, acts }
    }

    /// One disturbed run: the same board, and no act whose result is known is done again.
    pub(crate) fn check(
        self,
        folder: &Path,
        expected: &BTreeMap<PathBuf, String>,
        what: &str,
    ) -> Outcome {
        let output = self.child(folder, "none", 0);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {said}");
        let found = without_transcripts(folder);
        for (path, text) in expected {
            assert_eq!(found.get(path), Some(text), "{what}: {path:?}");
        }
        assert_eq!(found.len(), expected.len(), "{what}");
        let (acts, unknown) = acts(folder);
        assert_eq!(acts, 4 * self.stages + unknown, "{what}: a step that was known ran again");
        let records = journal::records(&journal_of(folder)).unwrap();
        let is_lost = |record: &&Record| matches!(record.event, Event::StageLost { .. });
        Outcome { unknown, lost: records.iter().filter(is_lost).count() }
    }
}

fn without_transcripts(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = files(folder);
    files.retain(|path, _| !path.starts_with(".baton/transcripts"));
    files
}

/// The whole run with the built-in agent, disturbed at each of the chosen points.
fn swept(fault: &str, stride: usize, is_hit: impl Fn(&Output) -> bool + Sync) {
    let Undisturbed { files: expected, points, acts } = FULL.undisturbed();
    let sums = Mutex::new((0, 0, 0));
    // Whatever the stride, some points are those between an act and its record.
    let mut all = chosen(points, stride);
    all.extend(acts.iter().step_by(3).filter(|_| !is_whole()));
    each(&all, |point| {
        let folder = folder();
        make(folder.path());
        let output = FULL.child(folder.path(), fault, *point);
        let hit = is_hit(&output);
        let what = format!("{fault} at {point} of {points}");
        let outcome = FULL.check(folder.path(), &expected, &what);
        let mut sums = sums.lock().unwrap();
        sums.0 += usize::from(hit);
        sums.1 += outcome.unknown;
        sums.2 += outcome.lost;
    });
    let (hit, unknown, lost) = sums.into_inner().unwrap();
    assert!(hit * 2 >= all.len(), "{fault}: only {hit} of {} runs were disturbed", all.len());
    assert!(unknown > 0 || is_part(), "{fault}: none fell between an act and its record");
    println!(
        "{fault} with the built-in agent at {} of {points} points, {hit} disturbed: the same board; {unknown} acts unknown, {lost} stages begun anew",
        all.len()
    );
}

pub(crate) fn killed_at_every_point_with_an_agent() {
    swept("kill", 37, |output| {
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(9), "not killed: {output:?}");
        true
    });
}

pub(crate) fn a_full_disk_stops_an_agent_and_repeats_nothing() {
    swept("full", 37, |output| {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // The cache and the index only save work: without them the run continues.
        let is_stopped = output.status.code() == Some(FAILED);
        assert!(!is_stopped || said.contains("No space left on device"), "{said}");
        is_stopped
    });
}

pub(crate) fn a_sync_that_fails_stops_an_agent_and_repeats_nothing() {
    swept("sync", 61, |output| output.status.code() == Some(FAILED));
}

/// Acts that were begun, and those that are done again, in all transcripts: their result is unknown, or
/// they found the disk full.
fn acts(folder: &Path) -> (usize, usize) {
    let transcripts = folder.join("project/.baton/transcripts");
    let mut sums = (0, 0);
    for run in fs::read_dir(transcripts).unwrap().flatten() {
        for stage in fs::read_dir(run.path()).unwrap().flatten() {
            // Killed before its first line was there.
            let steps = fs::read_to_string(stage.path().join("steps.log")).unwrap_or_default();
            sums.0 += steps.matches("\"step\":\"started\"").count();
            sums.1 += steps.matches("\"code\":\"UNKNOWN\"").count();
            let is_failed =
                |line: &&str| line.contains("\"step\":\"observed\"") && line.contains(DISK_FULL);
            sums.1 += steps.lines().filter(is_failed).count();
        }
    }
    sums
}
