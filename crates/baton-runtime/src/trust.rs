//! What a project's own files may make Baton run, and whether a person has agreed to it. The consent
//! is bound to the exact commands: whatever changes in them is asked about again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_core::config::Config;
use baton_core::document::Document;
use baton_core::event::{RunSetup, Runner};
use baton_core::message::Wire;

use crate::board::{Board, CONFIG_FILE};
use crate::load::{self, Environment};
use crate::model::Endpoint;
use crate::store;

/// Commands that a project's files name, for people to read.
pub fn commands(board: &Board) -> Result<Vec<String>, load::Error> {
    let mut all: Vec<String> = board
        .pack
        .policy
        .gates
        .iter()
        .map(|gate| {
            let exceptions = gate.exceptions();
            format!("gate on {}: {} (at most {} s){exceptions}", gate.on, gate.run, gate.timeout)
        })
        .collect();
    let own = match load::text(&board.root.join(CONFIG_FILE), load::SMALL) {
        Ok(text) => text,
        Err(load::Error::Missing(_)) => String::new(),
        Err(error) => return Err(error),
    };
    let config = Document::toml(&own).ok().and_then(|document| Config::read(&document).ok());
    let config = config.unwrap_or_default();
    for (name, executor) in &config.executors {
        let env = if executor.env.is_empty() {
            String::new()
        } else {
            format!(" with {}", executor.env.join(", "))
        };
        all.push(format!(
            "executor {name}: {}{env}",
            serde_json::to_string(&executor.command).unwrap_or_default()
        ));
    }
    for (name, agent) in &config.agents {
        all.extend(agent.executor.iter().map(|executor| format!("{name} is run by {executor}")));
    }
    Ok(all)
}

/// The file of this name in the user's own data folder.
fn file(environment: &Environment, name: &str) -> Option<PathBuf> {
    let folder = match environment.get("XDG_DATA_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(environment.get("HOME")?).join(".local/share"),
    };
    Some(folder.join("baton").join(name))
}

/// The commands that were agreed to, by blackboard.
const COMMANDS: &str = "trust.json";
/// The servers and the confinement that a user chose for the last run, by blackboard.
const SETUPS: &str = "setups.json";

fn digest(own: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(own).expect("lists of texts can be encoded");
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn key(board: &Board) -> String {
    let root = std::fs::canonicalize(&board.root).unwrap_or_else(|_| board.root.clone());
    root.to_string_lossy().into_owned()
}

fn all(path: &Path) -> BTreeMap<String, String> {
    let text = load::text(path, load::SMALL).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn write(path: &Path, known: &BTreeMap<String, String>) -> Result<(), store::Error> {
    let text = store::long_json(path, known)?;
    store::write_new(path, format!("{text}\n").as_bytes())
}

/// Whether everything that the project's files name may be run.
pub fn is_trusted(board: &Board, environment: &Environment) -> Result<bool, load::Error> {
    let commands = commands(board)?;
    if commands.is_empty() {
        return Ok(true);
    }
    let known = file(environment, COMMANDS).map(|path| all(&path)).unwrap_or_default();
    Ok(known.get(&key(board)) == Some(&digest(&commands)))
}

/// Writes a person's consent down.
pub fn trust(board: &Board, environment: &Environment) -> Result<Vec<String>, crate::board::Error> {
    let commands = commands(board)?;
    if let Some(path) = file(environment, COMMANDS) {
        let mut known = all(&path);
        known.insert(key(board), digest(&commands));
        write(&path, &known)?;
    }
    Ok(commands)
}

/// Takes a person's consent back; `false`: there was none.
pub fn revoke(board: &Board, environment: &Environment) -> Result<bool, crate::board::Error> {
    let Some(path) = file(environment, COMMANDS) else { return Ok(false) };
    let mut known = all(&path);
    if known.remove(&key(board)).is_none() {
        return Ok(false);
    }
    write(&path, &known)?;
    Ok(true)
}

/// The parts of a setup that a project's files may not choose: where keys and code go, which
/// programs run, and whether commands are confined. `None`: it has none of them.
fn chosen_by_the_user(setup: &RunSetup) -> Option<(Vec<&str>, Vec<&str>, bool)> {
    let is_foreign = |wire: Wire, url: &str| {
        let Ok(url) = url.parse() else { return true };
        let endpoint = Endpoint::new(wire, Some(url), None);
        !endpoint.is_official() && !endpoint.is_local()
    };
    let urls: Vec<&str> = setup
        .runners()
        .filter_map(|own| own.provider.zip(own.base_url.as_deref()))
        .filter(|(wire, url)| is_foreign(*wire, url))
        .map(|(_, url)| url)
        .collect();
    let is_program = |name: &&str| ![Runner::BUILTIN, Runner::CASSETTE].contains(name);
    let programs = setup.runners().map(|own| own.executor.as_str()).filter(is_program);
    let programs: Vec<&str> = programs.collect();
    let is_plain = urls.is_empty() && programs.is_empty() && !setup.no_sandbox;
    (!is_plain).then_some((urls, programs, setup.no_sandbox))
}

/// True if what a journal says of its run was chosen by this user: a journal may have come with a
/// project.
pub fn is_own_setup(board: &Board, environment: &Environment, setup: &RunSetup) -> bool {
    let Some(chosen) = chosen_by_the_user(setup) else { return true };
    let known = file(environment, SETUPS).map(|path| all(&path)).unwrap_or_default();
    known.get(&key(board)) == Some(&digest(&chosen))
}

/// Remembers the setup of the last run as this user's choice.
pub fn own_setup(
    board: &Board,
    environment: &Environment,
    setup: &RunSetup,
) -> Result<(), store::Error> {
    let (Some(path), Some(chosen)) = (file(environment, SETUPS), chosen_by_the_user(setup)) else {
        return Ok(());
    };
    let mut known = all(&path);
    let own = digest(&chosen);
    if known.get(&key(board)) == Some(&own) {
        return Ok(());
    }
    known.insert(key(board), own);
    write(&path, &known)
}
