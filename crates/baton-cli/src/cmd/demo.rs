//! `baton demo`: a whole run on a small bundled project by the built-in agent. What the model says
//! was written in advance (`model`); what is run and changed is real.

mod model;

use std::path::{Path, PathBuf};
use std::time::Instant;

use baton_core::config::AgentSettings;
use baton_core::event::Limits;
use baton_core::id::{AgentName, MAIN, Tokens};
use baton_core::message::Wire;
use baton_core::policy::Gate;
use baton_core::problem::Problem;
use baton_core::turn::{Protocol, Room};
use baton_runtime::agent::Mind;
use baton_runtime::board::{Board, NewBoard};
use baton_runtime::drive::Drive;
use baton_runtime::executor::{Builtin, Executors, Plain};
use baton_runtime::model::{Client, Endpoint, Limits as CallLimits};
use baton_runtime::{sandbox, store};
use include_dir::{Dir, include_dir};

use super::run::Session;
use super::{Outcome, Place};
use crate::args::DemoArgs;
use crate::reply::{Failure, INTERNAL, USAGE};

static PROJECT: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../demo/project");
const REPLIES: &str = include_str!("../../../../demo/replies.json");

const TASK: &str = "average() panics for large numbers. Make it right for all of them.";

pub(super) fn run(place: &Place, args: &DemoArgs) -> Outcome {
    for program in ["cargo", "bash"] {
        if place.environment.program(program).is_none() {
            return Err(Failure::new(USAGE, format!("the demo needs `{program}` on the PATH")));
        }
    }
    let folder = folder(args.folder.as_deref())?;
    let project = folder.join("project");
    unpack(&project)?;
    let root = project.join(baton_runtime::board::FOLDER);
    NewBoard { root: &root, pack: "tdd", language: "en" }.create()?;
    let goal = "# Project\n\n## Goal\naverage() gives the right answer for every pair of i32 and never panics.\n\n## Build and test\n`cargo test --offline`\n";
    store::write(&root.join("memory/global_context.md"), goal.as_bytes())?;
    let mut board = Board::open(&root, &place.environment)?;
    let gate = Gate {
        on: board.pack.policy.usual_gate(),
        run: "cargo test --offline --quiet".to_owned(),
        timeout: 120,
        allow: Vec::new(),
    };
    // The bundled project has no tool for coverage; a figure would be made up.
    if let Some(proof) = &mut board.pack.policy.proof {
        proof.least_percent = 0;
    }
    board.pack.policy.gates = vec![gate];
    store::write(
        &root.join("memory/verification_policy.json"),
        board.pack.policy.render().as_bytes(),
    )?;
    let board = board;
    let mut session = Session::idle(place, &board);
    session
        .say("This is a demo: the team's answers were written in advance and no model is called.");
    session.say("The agent and its tools, the tests, the gates and the changes are real.\n");
    if let Err(missing) = sandbox::available() {
        session.say(&format!("{missing}\nThe demo's own commands run unconfined.\n"));
        session.confined = false;
    }
    let url = model::serve(REPLIES)
        .map_err(|why| Failure::new(INTERNAL, format!("cannot serve the demo's replies: {why}")))?;
    session.executors = executors(place, &url)?;
    session.signals()?;
    let limits = Limits::of(10, 120);
    let start = Instant::now();
    let mut reply = session.go(|around| Drive::start(around, TASK, limits))?;
    let shown = |path: PathBuf| path.display().to_string();
    let board_path = shown(root.clone());
    reply.text.push_str(&format!(
        "\n{:.1} s. Look around:\n  cd {}\n  baton log                    what happened\n  baton diff                   what changed in the project\n  baton prompt main --explain  what MAIN sees, and why\n  less {board_path}/memory/project_history.md\n  less {board_path}/memory/dev_plan.md\n  ls {board_path}/reports/archive\n",
        start.elapsed().as_secs_f64(),
        shown(project),
    ));
    if let Some(map) = reply.json.as_object_mut() {
        map.insert("project".to_owned(), folder.join("project").display().to_string().into());
    }
    Ok(reply)
}

/// The built-in agent, with the model at this address.
pub(super) fn executors(place: &Place, url: &str) -> Result<Executors, Failure> {
    let url = url.parse().map_err(|why: Problem| Failure::new(INTERNAL, why.to_string()))?;
    let endpoint = Endpoint::new(Wire::Chat, Some(url), None);
    let client = Client::new(endpoint, CallLimits::default());
    let mind = Mind {
        client: client.map_err(|why| Failure::new(INTERNAL, why))?,
        model: "replies written in advance".to_owned(),
        max_output: Tokens(8_192),
        price: None,
        protocol: Protocol::Native,
        room: Room::default(),
        summary_model: None,
        summary_limit: baton_runtime::agent::SUMMARY_LIMIT,
        steps: None,
    };
    let main = AgentName::new(MAIN).expect("a word of the workflow is a valid name");
    let plain = Plain { mind: mind.clone() };
    let settings = AgentSettings::default();
    let agent = Builtin { mind, environment: place.environment.clone(), settings };
    Ok(Executors::new(Box::new(agent)).with(main, Box::new(plain)))
}

/// A new folder, or the one that was named, if nothing is in it.
pub(super) fn folder(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(INTERNAL, format!("cannot make a folder: {error}"));
    match named {
        None => {
            let folder =
                tempfile::Builder::new().prefix("baton-demo-").tempdir().map_err(failed)?;
            Ok(folder.keep())
        }
        Some(folder) => {
            let is_empty =
                std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
            if !is_empty {
                let message = format!("{} is not empty", folder.display());
                return Err(
                    Failure::new(USAGE, message).hint("name a folder that is not there yet")
                );
            }
            std::fs::create_dir_all(folder).map_err(failed)?;
            std::fs::canonicalize(folder).map_err(failed)
        }
    }
}

/// Writes the project.
fn unpack(folder: &Path) -> Result<(), Failure> {
    let mut open: Vec<&Dir<'_>> = vec![&PROJECT];
    while let Some(dir) = open.pop() {
        for file in dir.files() {
            // A file of this name would rule our own repository.
            let name = file.path().to_string_lossy().replace("gitignore", ".gitignore");
            store::write_new(&folder.join(name), file.contents())?;
        }
        open.extend(dir.dirs());
    }
    Ok(())
}
