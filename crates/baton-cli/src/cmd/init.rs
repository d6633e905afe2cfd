//! `baton init`

use baton_core::problem::Problem;
use baton_runtime::board::{self, NewBoard};
use baton_runtime::{builtin, git, load};
use serde_json::json;

use super::{Outcome, Place};
use crate::args::InitArgs;
use crate::reply::{Failure, Reply, USAGE};

pub(super) fn run(place: &Place, args: &InitArgs) -> Outcome {
    let root = place.new_board_path();
    let foreign = place.folder.join(board::FOREIGN_FOLDER);
    if root == place.folder.join(board::FOLDER)
        && board::find(&place.folder).is_some_and(|found| found == foreign)
    {
        let message =
            format!("{} is a blackboard already; Baton opens it in place", foreign.display());
        return Err(Failure::new(USAGE, message).hint(
            "`baton doctor` shows what was found; to make a second one, say `--blackboard .baton`",
        ));
    }
    let (config, _) = load::config(&place.environment, None)?;
    let pack = args.pack.as_deref().or(config.pack.as_deref()).unwrap_or(builtin::DEFAULT_PACK);
    let language =
        args.lang.as_deref().or(config.lang.as_deref()).unwrap_or(builtin::DEFAULT_LANGUAGE);
    let made = NewBoard { root: &root, pack, language }.create()?;
    // The blackboard is made; that git may show it is worth a word, not a failure.
    let (excluded, warnings) = match git::exclude(&root) {
        Ok(excluded) => (excluded, Vec::new()),
        Err(error) => {
            let message = format!("the blackboard is made, but not kept out of git: {error}");
            (None, vec![Problem::warning("git-exclude", message)])
        }
    };
    let shown = root.strip_prefix(&place.folder).unwrap_or(&root).display().to_string();
    let mut text = format!("made {shown}: pack {} ({})\n", made.manifest.name, made.language);
    for agent in &made.manifest.agents {
        text.push_str(&format!("  {:<10} {}\n", agent.name.as_str(), agent.role));
    }
    if let Some(exclude) = &excluded {
        text.push_str(&format!("kept out of git through {}\n", exclude.display()));
    }
    text.push_str(&format!("next: write the goal into {shown}/memory/global_context.md\n"));
    let json = json!({
        "ok": true,
        "blackboard": root.display().to_string(),
        "pack": made.manifest.name,
        "lang": made.language,
        "agents": made.manifest.agents,
        "git_exclude": excluded.map(|path| path.display().to_string()),
    });
    Ok(Reply::new(text, json).with_warnings(&warnings))
}
