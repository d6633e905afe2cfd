//! `baton pack list|show|new|export|check|use`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_core::id::AgentName;
use baton_core::pack::{self, Manifest, Pack};
use baton_core::problem::Problem;
use baton_core::tokens;
use baton_runtime::{board, builtin, load, packs, switch};
use serde_json::json;

use super::{Outcome, Place};
use crate::args::PackShowArgs;
use crate::reply::{Failure, Reply, USAGE, counted, rendered, table};

pub(super) fn list(place: &Place, language: Option<&str>) -> Outcome {
    let language = language.map_or_else(|| users_language(place), str::to_owned);
    let packs = builtin::packs();
    let manifests: Vec<Manifest> =
        packs.into_iter().map(|(manifest, _)| manifest.spoken(&language)).collect();
    let rows: Vec<Vec<String>> = manifests
        .iter()
        .map(|own| {
            let title = own.title.of(&language).to_owned();
            vec![own.name.clone(), own.languages.join(", "), title]
        })
        .collect();
    Ok(Reply::new(table(&rows), json!({ "ok": true, "packs": manifests })))
}

/// The language of the blackboard here, else that of the user's configuration or locale. A list of packs
/// is shown whatever is wrong with the blackboard.
fn users_language(place: &Place) -> String {
    let board = place.board_path().ok().flatten().map(|path| path.join(board::CONFIG_FILE));
    let config = load::config(&place.environment, board.as_deref()).ok();
    let configured = config.and_then(|(config, _)| config.lang);
    let found = configured.or_else(|| place.environment.language());
    found.unwrap_or_else(|| builtin::DEFAULT_LANGUAGE.to_owned())
}

pub(super) fn new(
    place: &Place,
    name: &str,
    from: Option<&str>,
    language: Option<&str>,
) -> Outcome {
    let copied = match from {
        Some(from) => Some((from, board::pack_files(from)?)),
        None => None,
    };
    let copied = copied.as_ref().map(|(name, files)| (*name, files));
    let files = packs::new_pack(name, copied, language)?;
    written(place, Path::new(name), &files)
}

pub(super) fn export(place: &Place, pack: Option<&str>, folder: Option<PathBuf>) -> Outcome {
    let files = match pack {
        Some(name) => board::pack_files(name)?,
        None => board::own_pack_files(&place.board()?)?,
    };
    let manifest = Manifest::read(&files).map_err(board::Error::Invalid)?;
    let folder = folder.unwrap_or_else(|| PathBuf::from(&manifest.name));
    written(place, &folder, &files)
}

/// Writes a pack's files and prints the next steps.
fn written(place: &Place, folder: &Path, files: &pack::Files) -> Outcome {
    packs::write(&place.folder.join(folder), files).map_err(|error| match error {
        board::Error::NotEmpty(_) => board::Error::NotEmpty(folder.to_owned()),
        other => other,
    })?;
    let shown = folder.display().to_string();
    let mut text = format!("wrote {} to {shown}\n", counted(files.len(), "file"));
    files.keys().for_each(|path| text.push_str(&format!("  {path}\n")));
    let named = if folder.components().count() == 1 { format!("./{shown}") } else { shown.clone() };
    text.push_str(&format!(
        "next: change them; baton pack check {named}; baton init --pack {named}\n"
    ));
    let names: Vec<&String> = files.keys().collect();
    Ok(Reply::new(text, json!({ "ok": true, "folder": shown, "files": names })))
}

pub(super) fn show(place: &Place, args: &PackShowArgs) -> Outcome {
    let pack = shown_pack(place, args)?;
    if let Some(name) = &args.prompt {
        return prompt(&pack, name);
    }
    if args.policy {
        return Ok(Reply::new(pack.policy.render(), json!({ "ok": true, "policy": pack.policy })));
    }
    let rules = &pack.policy.report_rules;
    let mut text = format!(
        "{} ({}): {}\n\nagents\n",
        pack.manifest.name,
        pack.language,
        pack.manifest.title.of(&pack.language)
    );
    let agents: Vec<Vec<String>> = pack
        .manifest
        .agents
        .iter()
        .map(|agent| {
            let writes = if agent.writes { "writes" } else { "reads only" };
            vec![
                format!("  {}", agent.name),
                writes.to_owned(),
                agent.role.of(&pack.language).to_owned(),
            ]
        })
        .collect();
    text.push_str(&table(&agents));
    let clear = &rules.blocker_clear_value;
    text.push_str("\nreports\n");
    text.push_str(&table(&[
        vec![
            "  verdict".into(),
            format!("{} {}", rules.verdict_prefix, rules.verdict_allowed.join(" | ")),
        ],
        vec![
            "  blockers".into(),
            format!("{} what blocks, or {}", rules.blocker_prefix, clear.first()),
        ],
        vec![
            "  classes".into(),
            rules.blocker_classes.keys().cloned().collect::<Vec<_>>().join(", "),
        ],
    ]));
    let plan = &pack.policy.plan;
    let verifiers: Vec<&str> = plan.verified_by.iter().map(AgentName::as_str).collect();
    text.push_str("\nplan\n");
    text.push_str(&table(&[
        vec!["  statuses".into(), plan.statuses.join(" | ")],
        vec![
            "  final".into(),
            format!("{}, after a pass of {}", plan.final_status, verifiers.join(" or ")),
        ],
    ]));
    text.push_str("\nprompts\n");
    let sizes: Vec<(&AgentName, u64)> =
        pack.prompts.iter().map(|(name, prompt)| (name, tokens::count(prompt).0)).collect();
    let rows =
        sizes.iter().map(|(name, tokens)| vec![format!("  {name}"), format!("{tokens} tokens")]);
    text.push_str(&table(&rows.collect::<Vec<_>>()));
    let json = json!({
        "ok": true,
        "pack": pack.manifest,
        "lang": pack.language,
        "policy": pack.policy,
        "prompts": pack.prompts,
        "prompt_tokens": sizes.into_iter().collect::<BTreeMap<_, _>>(),
    });
    Ok(Reply::new(text, json))
}

/// The one that was named, or the blackboard's; in the language that was named, or in its own.
fn shown_pack(place: &Place, args: &PackShowArgs) -> Result<Pack, Failure> {
    let asked = args.lang.as_deref();
    let (name, files, own) = match &args.pack {
        Some(name) => (name.clone(), board::pack_files(name)?, None),
        None => {
            let board = place.board()?;
            if asked.is_none_or(|language| language == board.pack.language) {
                return Ok(board.pack);
            }
            let own = board.pack.language.clone();
            (board.pack.manifest.name.clone(), board::own_pack_files(&board)?, Some(own))
        }
    };
    let own = own.unwrap_or_else(|| users_language(place));
    let language = packs::language(&files, asked, Some(&own), &place.environment);
    let read = Pack::read(&files, &language);
    Ok(read.map_err(|problems| board::Error::Invalid(packs::located(&name, problems)))?)
}

fn prompt(pack: &Pack, name: &str) -> Outcome {
    let names: Vec<&str> = pack.prompts.keys().map(AgentName::as_str).collect();
    let wanted = name.to_ascii_uppercase();
    match pack.prompts.get(wanted.as_str()) {
        Some(prompt) => {
            Ok(Reply::new(prompt.clone(), json!({ "ok": true, "agent": wanted, "prompt": prompt })))
        }
        None => {
            let problem = Problem::new("pack-no-prompt", format!("there is no prompt `{name}`"));
            Err(Failure::new(USAGE, problem.one_of(name, &names).to_string()))
        }
    }
}

pub(super) fn check(place: &Place, pack: Option<&str>) -> Outcome {
    let (what, problems) = match pack {
        Some(name) => {
            let problems = pack::check(&board::pack_files(name)?);
            (name.to_owned(), packs::located(name, problems))
        }
        None => {
            let board = place.board()?;
            let mut problems = board.warnings.clone();
            problems.extend(board.prompt_problems());
            (board.root.display().to_string(), problems)
        }
    };
    let count = problems.iter().filter(|problem| problem.is_error()).count();
    if count > 0 {
        let mut failure = Failure::new(USAGE, format!("{what} has {}", counted(count, "problem")));
        failure.problems = problems;
        return Err(failure);
    }
    let text = match problems.len() {
        0 => format!("ok: {what}\n"),
        warnings => format!("ok: {what}, with {}\n", counted(warnings, "warning")),
    };
    let mut reply = Reply::new(text, json!({ "ok": true, "pack": what, "warnings": problems }));
    for problem in &problems {
        reply.errors.push_str(&rendered(problem, None));
        reply.errors.push('\n');
    }
    Ok(reply)
}

pub(super) fn switch(place: &Place, name: &str, language: Option<&str>) -> Outcome {
    let Some(root) = place.board_path()? else { return Err(place.no_board()) };
    let switched = switch::use_pack(&root, name, language, &place.environment)?;
    let (name, language) = (&switched.pack.manifest.name, &switched.pack.language);
    let mut text = format!("{} now uses the pack {name} ({language})\n", root.display());
    for (from, to) in &switched.aside {
        text.push_str(&format!(
            "  {} had been changed: kept as {}\n",
            from.display(),
            to.display()
        ));
    }
    for copy in &switched.replaced {
        text.push_str(&format!(
            "  {} was an unmodified copy from baton {}: replaced\n",
            copy.path.display(),
            copy.version
        ));
    }
    let aside: Vec<_> = switched
        .aside
        .iter()
        .map(|(from, to)| json!({ "file": from.display().to_string(), "kept": to.display().to_string() }))
        .collect();
    let copies = switched.replaced.iter();
    let replaced: Vec<_> = copies
        .map(|copy| json!({ "file": copy.path.display().to_string(), "version": copy.version }))
        .collect();
    Ok(Reply::new(
        text,
        json!({ "ok": true, "pack": name, "lang": language, "kept_aside": aside, "replaced": replaced }),
    ))
}
