//! `baton pack list|show|check|use`

use std::collections::BTreeMap;

use baton_core::id::AgentName;
use baton_core::pack::{self, Pack};
use baton_core::problem::Problem;
use baton_core::tokens;
use baton_runtime::{board, builtin, switch};
use serde_json::json;

use super::{Outcome, Place};
use crate::args::PackShowArgs;
use crate::reply::{Failure, Reply, USAGE, counted, rendered, table};

pub(super) fn list() -> Outcome {
    let packs = builtin::packs();
    let rows: Vec<Vec<String>> = packs
        .iter()
        .map(|(manifest, _)| {
            vec![manifest.name.clone(), manifest.languages.join(", "), manifest.title.clone()]
        })
        .collect();
    let manifests: Vec<_> = packs.iter().map(|(manifest, _)| manifest).collect();
    Ok(Reply::new(table(&rows), json!({ "ok": true, "packs": manifests })))
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
    let mut text =
        format!("{} ({}): {}\n\nagents\n", pack.manifest.name, pack.language, pack.manifest.title);
    let agents: Vec<Vec<String>> = pack
        .manifest
        .agents
        .iter()
        .map(|agent| {
            let writes = if agent.writes { "writes" } else { "reads only" };
            vec![format!("  {}", agent.name), writes.to_owned(), agent.role.clone()]
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
    let (files, language) = match &args.pack {
        Some(name) => (board::pack_files(name)?, builtin::DEFAULT_LANGUAGE.to_owned()),
        None => {
            let board = place.board()?;
            if args.lang.as_ref().is_none_or(|language| *language == board.pack.language) {
                return Ok(board.pack);
            }
            (board::own_pack_files(&board)?, board.pack.language)
        }
    };
    let language = args.lang.as_ref().unwrap_or(&language);
    Ok(Pack::read(&files, language).map_err(board::Error::Invalid)?)
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
        Some(name) => (name.to_owned(), pack::check(&board::pack_files(name)?)),
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
