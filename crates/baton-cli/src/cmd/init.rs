//! `baton init`

use std::path::Path;

use baton_core::config::Config;
use baton_core::policy::Gate;
use baton_core::problem::Problem;
use baton_core::text;
use baton_runtime::board::{self, Board, NewBoard};
use baton_runtime::sandbox::Interrupt;
use baton_runtime::{builtin, git, load, packs};
use serde_json::{Value, json};

use super::run::is_asked;
use super::{Outcome, Place, gate, scenario};
use crate::args::InitArgs;
use crate::reply::{Failure, Reply, USAGE};
use crate::terminal;

pub(super) fn run(place: &Place, args: &InitArgs) -> Outcome {
    let root = place.new_board_path()?;
    let foreign = place.folder.join(board::FOREIGN_FOLDER);
    if root == place.folder.join(board::FOLDER)
        && board::find(&place.folder, &place.environment)?.is_some_and(|found| found == foreign)
    {
        let message =
            format!("{} is a blackboard already; Baton opens it in place", foreign.display());
        return Err(Failure::new(USAGE, message).hint(
            "`baton doctor` shows what was found; to make a second one, say `--blackboard .baton`",
        ));
    }
    place.project_of(&root)?;
    if let Some(above) = place.board_above()?.filter(|_| !args.here && !root.exists()) {
        let message = format!("{} is the blackboard of this folder already", above.display());
        return Err(Failure::new(USAGE, message).hint(
            "`baton run` here works with that one; `baton init --here` makes another one for this folder",
        ));
    }
    let (config, _) = load::config(&place.environment, None)?;
    let (pack, language) = chosen(place, args.pack.as_deref(), args.lang.as_deref(), &config)?;
    let made = NewBoard { root: &root, pack, language: &language };
    let made = made.create_within(place.environment.state_folder().as_deref())?;
    // The blackboard is made; that git may show it is worth a word, not a failure.
    let (excluded, warnings) = match git::exclude(&root) {
        Ok(excluded) => (excluded, Vec::new()),
        Err(error) => {
            let message = format!("the blackboard is made, but not kept out of git: {error}");
            (None, vec![Problem::warning("git-exclude", message)])
        }
    };
    let shown = root.strip_prefix(&place.folder).unwrap_or(&root).display().to_string();
    let mut out = format!("made {shown}: pack {} ({})\n", made.manifest.name, made.language);
    for agent in &made.manifest.agents {
        out.push_str(&format!("  {:<10} {}\n", agent.name.as_str(), agent.role.of(&made.language)));
    }
    if let Some(exclude) = &excluded {
        out.push_str(&format!("kept out of git through {}\n", exclude.display()));
    }
    let gates = if args.no_gates { None } else { Some(gates(place, &root, args.gates)?) };
    out.push_str(gates.as_ref().map_or("", |(said, _)| said));
    out.push_str(
        "next: baton run \"TASK\"    (what holds for every task: memory/global_context.md)\n",
    );
    let json = json!({
        "ok": true,
        "blackboard": root.display().to_string(),
        "pack": made.manifest.name,
        "lang": made.language,
        "agents": made.manifest.agents,
        "git_exclude": excluded.map(|path| path.display().to_string()),
        "gates": gates.map(|(_, gates)| gates),
    });
    Ok(Reply::new(out, json).with_warnings(&warnings))
}

/// The pack and the language of a new blackboard: as named, as the user configured, or the default.
pub(super) fn chosen<'a>(
    place: &Place,
    pack: Option<&'a str>,
    language: Option<&str>,
    config: &'a Config,
) -> Result<(&'a str, String), Failure> {
    let pack = pack.or(config.pack.as_deref()).unwrap_or(builtin::DEFAULT_PACK);
    let files = board::pack_files(pack)?;
    let language = packs::language(&files, language, config.lang.as_deref(), &place.environment);
    Ok((pack, language))
}

/// Proposes gates for a new blackboard, and adds them where the user agrees.
fn gates(place: &Place, root: &Path, is_wanted: bool) -> Result<(String, Value), Failure> {
    let mut board = Board::open(root, &place.environment)?;
    if !board.pack.policy.gates.is_empty() {
        return Ok((String::new(), json!({ "added": [] })));
    }
    let found = gate::found(place, &board);
    let lines = gate::proposals(&found, &[]);
    let mut said = match lines.is_empty() {
        true => {
            "no gate is set: `baton gate add \"COMMAND\"` adds a command that confirms a pass\n"
                .to_owned()
        }
        false => format!("no gate is set; this would confirm a pass:\n{}\n", lines.join("\n")),
    };
    let mut added = Vec::new();
    if found.main().next().is_some() && (is_wanted || asked(place, &said)) {
        said.clear();
        let interrupt = Interrupt::default();
        scenario::watch_signals(&interrupt)?;
        let adding = gate::Adding { place, is_run: true, confined: true, interrupt };
        for proposal in found.main() {
            let on = board.pack.policy.usual_gate();
            let gate = Gate {
                on,
                run: proposal.command.clone(),
                timeout: Gate::TIMEOUT,
                allow: Vec::new(),
            };
            match adding.add(&board, gate) {
                Ok(own) => {
                    said.push_str(&own.text);
                    added.push(own.json);
                    board = Board::open(root, &place.environment)?;
                }
                // The blackboard is made: a gate that cannot be added is worth a line.
                Err(failure) => said.push_str(&format!("not added: {}\n", failure.message)),
            }
        }
    }
    let json = json!({ "proposals": found.proposals, "notes": found.notes, "added": added });
    Ok((said, json))
}

/// Asks at the terminal; without one the answer is no.
fn asked(place: &Place, said: &str) -> bool {
    is_asked(place) && terminal::agrees(&format!("{}Run and add now? [y/N] ", text::escaped(said)))
}
