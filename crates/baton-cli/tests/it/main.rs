//! The binary as people and models meet it: real processes, real files, real HTTP on loopback. One
//! file a subject.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests write files and start processes")]
#![expect(clippy::print_stdout, reason = "counts are worth seeing")]

mod adopt;
mod agent;
mod approvals;
mod boards;
mod cli;
mod compaction;
mod continuing;
mod covered;
mod first_runs;
mod gates;
mod handoff;
mod hostile;
mod knowing;
mod lab;
mod lying;
mod mentions;
mod one_language;
mod outline;
mod own_packs;
mod protocols;
mod providers;
mod read_only;
mod remember;
mod replay;
mod routine;
mod runs;
mod scenario;
mod scenario_demo;
mod scenario_runs;
mod seen;
mod speaking;
mod stored;
mod typing;
mod undo;
mod views;

use baton_testkit::{Model, Place};
use serde_json::Value;

/// The binary under test.
const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// A project with the blackboard of a pack, and a team that is played by a script.
fn team(pack: &str) -> Place {
    Place::of_team(BATON).with_board(pack)
}

/// A small project, and a model that gives these answers.
fn talk(answers: Vec<Value>) -> Place {
    Place::of_agent(BATON, Model::start(answers))
}
