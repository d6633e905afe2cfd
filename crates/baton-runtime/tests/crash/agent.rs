//! The same sweep with the built-in agent in the run: its transcript is on the disk step by step, an
//! interrupted stage goes on from there, and a step of which nobody knows whether it happened is never
//! taken for undone: the agent is told, and looks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

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

use crate::reference::{FINISHED, folder, journal_of, make};
use crate::scripted::{Model, call, text};
use crate::sweep::{child, chosen, files, is_part};

/// Each of them can be done again without harm, as a careful agent would choose them.
fn steps(iteration: Iteration) -> Vec<(&'static str, Value)> {
    let name = format!("agent-{iteration}.rs");
    vec![
        ("Read", json!({ "path": "lib.rs" })),
        ("Write", json!({ "path": name, "content": "// by the agent\n" })),
        (
            "Bash",
            json!({ "command": format!("grep -q mended {name} || echo '// mended' >> {name}") }),
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

/// The agent, with a model of its own in this process: it goes on by what it sees was done.
pub(crate) fn executor() -> Builtin {
    let model = Model::answering(|_, asked| {
        let iteration = asked.header("x-baton-iteration").unwrap().parse().unwrap();
        let results = asked.body["messages"].as_array().unwrap().iter();
        let results = results.filter(|message| message["role"] == "tool");
        // What is unknown is done again; every step here can be.
        let is_known = |result: &&Value| !result["content"].to_string().contains("UNKNOWN");
        match steps(Iteration(iteration)).get(results.filter(is_known).count()) {
            Some((tool, arguments)) => call(tool, arguments.clone()),
            None => {
                text(&format!("iteration: {iteration}\nverdict: PASS\nblockers: none\n\nM1-T1\n"))
            }
        }
    });
    with(&model, Room::default())
}

/// The agent that thinks with this model.
pub(crate) fn with(model: &Model, room: Room) -> Builtin {
    let endpoint = Endpoint::new(Wire::Chat, Some(&model.url), None);
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

/// Points from the first step of an agent to the end of its stage, in the undisturbed run.
fn undisturbed() -> (BTreeMap<PathBuf, String>, u64) {
    let folder = folder();
    make(folder.path());
    let output = child(folder.path(), "agent-count", 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(FINISHED), "{said}");
    let points = said.lines().last().unwrap().trim().parse().unwrap();
    let transcripts = folder.path().join("project/.baton/transcripts/run-0001");
    assert_eq!(fs::read_dir(transcripts).unwrap().count(), 3, "three stages by the agent");
    let mut found = files(folder.path());
    found.retain(|path, _| !path.starts_with(".baton/transcripts"));
    assert!(found[Path::new("agent-1.rs")].contains("careful agent\n// mended\n"));
    assert!(found[Path::new("agent-3.rs")].contains("careful agent\n// mended\n"));
    (found, points)
}

pub(crate) fn killed_at_every_point_with_an_agent() {
    let (expected, points) = undisturbed();
    let (mut killed, mut unknown, mut lost) = (0, 0, 0);
    for point in chosen(points, 23) {
        let folder = folder();
        make(folder.path());
        let output = child(folder.path(), "agent-kill", point);
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(9), "not killed at {point}: {output:?}");
        killed += 1;
        let output = child(folder.path(), "agent-none", 0);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(FINISHED), "after {point}: {said}");
        let mut found = files(folder.path());
        found.retain(|path, _| !path.starts_with(".baton/transcripts"));
        for (path, text) in &expected {
            assert_eq!(found.get(path), Some(text), "killed at {point} of {points}: {path:?}");
        }
        assert_eq!(found.len(), expected.len(), "killed at {point} of {points}");
        let (acts, unknowns) = acts(folder.path());
        assert_eq!(acts, 12 + unknowns, "killed at {point}: a step that was known ran again");
        unknown += unknowns;
        let records = journal::records(&journal_of(folder.path())).unwrap();
        let is_lost = |record: &Record| matches!(record.event, Event::StageLost { .. });
        lost += records.into_iter().filter(is_lost).count();
    }
    assert!(unknown > 0 || is_part(), "no kill fell between an act and its record");
    println!(
        "killed at {killed} of {points} points with an agent: the same board; {unknown} acts were unknown, {lost} stages began anew"
    );
}

/// Acts that were begun, and those whose result nobody knew, in all transcripts.
fn acts(folder: &Path) -> (usize, usize) {
    let transcripts = folder.join("project/.baton/transcripts");
    let mut sums = (0, 0);
    for run in fs::read_dir(transcripts).unwrap().flatten() {
        for stage in fs::read_dir(run.path()).unwrap().flatten() {
            // Killed before its first line was there.
            let steps = fs::read_to_string(stage.path().join("steps.log")).unwrap_or_default();
            sums.0 += steps.matches("\"step\":\"started\"").count();
            sums.1 += steps.matches("\"code\":\"UNKNOWN\"").count();
        }
    }
    sums
}
