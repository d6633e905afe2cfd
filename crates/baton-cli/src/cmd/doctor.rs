//! `baton doctor`: what was found, what is missing, what to do about it.

use baton_core::config::Config;
use baton_core::history;
use baton_core::plan::{self, Plan};
use baton_core::text;
use baton_runtime::board::Board;
use baton_runtime::model::Endpoint;
use baton_runtime::model::choose::{self, Asked};
use baton_runtime::{earlier, load, sandbox, trust};
use serde_json::json;

use super::{Outcome, Place, gate};
use crate::reply::{Failure, Reply, counted, rendered, table};

/// Agent CLIs that can run a stage.
const AGENT_PROGRAMS: [&str; 4] = ["codex", "claude", "gemini", "opencode"];
struct Finding {
    what: &'static str,
    /// `ok`, `none` (nothing there, nothing wrong), `old` (works, can be updated) or `wrong`.
    state: &'static str,
    detail: String,
}

pub(super) fn run(place: &Place) -> Outcome {
    let mut findings =
        vec![Finding { what: "baton", state: "ok", detail: env!("CARGO_PKG_VERSION").to_owned() }];
    let mut problems = String::new();
    let mut details = Vec::new();
    let mut reason = None;
    // A mistake in the user's own file is not the blackboard's.
    let users = load::config(&place.environment, None).map(|(config, _)| config);
    let mut wrong = None;
    let users = users.map_err(|error| wrong = Some(Failure::from(error))).ok();
    match place.board_path() {
        Err(failure) => {
            findings.push(finding("blackboard", "wrong", failure.message.clone()));
            wrong = Some(failure);
        }
        Ok(None) => findings.push(finding(
            "blackboard",
            "none",
            "not found here or above; `baton init` makes one",
        )),
        Ok(Some(path)) if users.is_none() => {
            let detail = format!("{} (not checked: see user config)", path.display());
            findings.push(finding("blackboard", "none", detail));
        }
        Ok(Some(path)) => match Board::open(&path, &place.environment) {
            Ok(board) => {
                for warning in &board.warnings {
                    problems.push_str(&rendered(warning, None));
                    problems.push('\n');
                }
                details.clone_from(&board.warnings);
                findings.extend(board_findings(&board));
                findings.extend(gate_findings(place, &board));
            }
            Err(error) => {
                findings.push(finding("blackboard", "wrong", path.display().to_string()));
                wrong = Some(Failure::from(error));
            }
        },
    }
    if let Some(failure) = wrong {
        details.clone_from(&failure.problems);
        reason = Some(failure.message.clone());
        problems.push_str(&failure.into_reply().errors);
    }
    findings.extend(surroundings(place, users.as_ref()));
    let is_wrong = findings.iter().any(|finding| finding.state == "wrong");
    let rows: Vec<Vec<String>> = findings
        .iter()
        .map(|finding| {
            vec![finding.what.to_owned(), finding.state.to_owned(), finding.detail.clone()]
        })
        .collect();
    let list: Vec<_> = findings
        .iter()
        .map(|finding| json!({ "what": finding.what, "state": finding.state, "detail": finding.detail }))
        .collect();
    let mut reply = Reply::new(
        table(&rows),
        json!({ "ok": !is_wrong, "findings": list, "error": reason, "problems": details }),
    );
    reply.errors = problems;
    reply.code = if is_wrong { crate::reply::USAGE } else { 0 };
    Ok(reply)
}

fn finding(what: &'static str, state: &'static str, detail: impl Into<String>) -> Finding {
    Finding { what, state, detail: detail.into() }
}

fn board_findings(board: &Board) -> Vec<Finding> {
    let agents: Vec<String> =
        board.pack.manifest.agents.iter().map(|agent| agent.name.to_string()).collect();
    let mut findings = vec![
        finding("blackboard", "ok", board.root.display().to_string()),
        finding(
            "pack",
            "ok",
            format!(
                "{} ({}): {}",
                board.pack.manifest.name,
                board.pack.language,
                agents.join(", ")
            ),
        ),
    ];
    findings.extend(old_copies(board));
    let rules = &board.pack.policy.plan;
    findings.push(match load::text(&board.plan_file(), plan::MAX_BYTES) {
        Err(load::Error::Missing(_)) => finding("plan", "none", "not there yet"),
        Err(error) => finding("plan", "wrong", error.to_string()),
        Ok(text) => match Plan::read(&text, rules) {
            Err(problems) => {
                let first = problems.first().map(ToString::to_string).unwrap_or_default();
                finding("plan", "wrong", format!("{first} (`baton plan check` shows all)"))
            }
            Ok(plan) if plan.tasks.is_empty() => finding("plan", "none", "no tasks yet"),
            Ok(plan) => {
                let counts = plan.status_counts(rules);
                let counts = counts.iter().filter(|(_, count)| *count > 0);
                let counts: Vec<String> =
                    counts.map(|(status, count)| format!("{count} {status}")).collect();
                finding(
                    "plan",
                    "ok",
                    format!("{}: {}", counted(plan.tasks.len(), "task"), counts.join(", ")),
                )
            }
        },
    });
    findings.push(match load::text(&board.history_file(), 256 << 20) {
        Err(load::Error::Missing(_)) => finding("history", "none", "not there yet"),
        Err(error) => finding("history", "wrong", error.to_string()),
        Ok(text) => {
            let blocks = history::read(&text);
            let last = blocks.iter().rev().find_map(|placed| placed.iteration());
            match last {
                Some(last) => finding(
                    "history",
                    "ok",
                    format!("{} entries, last iteration {last}", blocks.len()),
                ),
                None => finding("history", "none", "no iterations yet"),
            }
        }
    });
    findings
}

/// The gates, what could be gates, and whether the user agreed to what the files name.
fn gate_findings(place: &Place, board: &Board) -> Vec<Finding> {
    let gates = &board.pack.policy.gates;
    let mut findings = Vec::new();
    let all: Vec<String> =
        gates.iter().map(|own| format!("`{}` on {}", text::shown(&own.run, 160), own.on)).collect();
    if all.is_empty() {
        let found = gate::found(place, board);
        let main: Vec<String> =
            found.main().map(|own| format!("`{}`", gate::command(&own.command))).collect();
        let detail = match main.is_empty() {
            true => "none is set; `baton gate add \"COMMAND\"` adds one".to_owned(),
            false => format!("none is set; found: {}", main.join(", ")),
        };
        findings.push(finding("gates", "none", detail));
        findings.extend(found.notes.into_iter().map(|note| finding("gates", "none", note)));
    } else {
        findings.push(finding("gates", "ok", all.join("; ")));
    }
    findings.extend(match (trust::is_trusted(board, &place.environment), trust::commands(board)) {
        (Err(error), _) | (_, Err(error)) => Some(finding("trust", "wrong", error.to_string())),
        (_, Ok(commands)) if commands.is_empty() => None,
        (Ok(true), Ok(commands)) => {
            let detail = format!("you agreed to {}", counted(commands.len(), "command"));
            Some(finding("trust", "ok", detail))
        }
        (Ok(false), Ok(commands)) => {
            let count = counted(commands.len(), "command");
            let detail = format!(
                "the files name {count} that you have not agreed to; `baton trust --list` shows, `baton trust` agrees"
            );
            Some(finding("trust", "none", detail))
        }
    });
    findings
}

/// Policies and prompts that are still those of an earlier version.
fn old_copies(board: &Board) -> Option<Finding> {
    let copies = earlier::old_copies(board).ok().filter(|copies| !copies.is_empty())?;
    let mut versions: Vec<&str> = copies.iter().map(|copy| copy.version).collect();
    versions.sort_unstable();
    versions.dedup();
    let are = if copies.len() == 1 { "is an unmodified copy" } else { "are unmodified copies" };
    let detail = format!(
        "{} {are} from baton {}; `baton pack use {}` updates {}",
        counted(copies.len(), "file"),
        versions.join(", "),
        board.pack.manifest.name,
        if copies.len() == 1 { "it" } else { "them" },
    );
    Some(finding("pack files", "old", detail))
}

fn sandbox_finding() -> Finding {
    match sandbox::available() {
        Ok(found) => {
            let mut detail = "namespaces, Landlock, seccomp".to_owned();
            if !found.own_proc {
                detail.push_str("; other processes' names can be seen");
            }
            if !found.whole_landlock {
                detail.push_str("; Landlock is an older one");
            }
            finding("sandbox", "ok", detail)
        }
        Err(missing) => {
            let open = match sandbox::has_namespaces() {
                true => "agent programs and gates have namespaces",
                false => "agent programs and gates run in process groups alone",
            };
            finding("sandbox", "none", format!("{missing}; {open}"))
        }
    }
}

/// What the commands of agents see of the user's home folder.
fn home_findings(place: &Place, config: &Config) -> Vec<Finding> {
    let sight = sandbox::sight(&place.environment, &config.agent.read);
    let (shown, cleaned) = sight.told(&place.environment);
    let listed = |paths: Vec<String>, none: &str| match paths.is_empty() {
        true => none.to_owned(),
        false => paths.join(", "),
    };
    let shown = listed(shown, "nothing; name more paths in `[agent] read` of your own baton.toml");
    let cleaned = listed(cleaned, "no files");
    vec![finding("agents see", "ok", shown), finding("without secrets", "ok", cleaned)]
}

/// The model that runs, exec and chat would call; no command is run for it and no server asked.
fn model_finding(place: &Place, config: &Config) -> Finding {
    let found = choose::target(&Asked::default(), config, &place.environment);
    let target = match found {
        Err(problem) => return finding("model", "wrong", problem.to_string()),
        Ok(None) => return finding("model", "none", choose::ways()),
        Ok(Some(target)) => target,
    };
    let endpoint = Endpoint::new(target.wire, target.base_url.clone(), None);
    let model = target.model.or(target.default_model);
    let model = model.unwrap_or_else(|| "no model named".to_owned());
    let key = match &target.key_from {
        Some(from) => format!("key from {from}"),
        None => "no key".to_owned(),
    };
    let is_missing = target.key_from.is_none() && endpoint.is_providers_own();
    let detail = format!(
        "{} at {}, {model}, {key} (by {})",
        target.wire.name(),
        endpoint.base_url,
        target.because
    );
    finding("model", if is_missing { "wrong" } else { "ok" }, detail)
}

/// `config`: the user's own; none where it is wrong.
fn surroundings(place: &Place, config: Option<&Config>) -> Vec<Finding> {
    let environment = &place.environment;
    let mut findings = Vec::new();
    findings.push(match environment.config_file() {
        Some(path) if config.is_none() => {
            finding("user config", "wrong", path.display().to_string())
        }
        Some(path) if path.exists() => finding("user config", "ok", path.display().to_string()),
        Some(path) => finding("user config", "none", format!("{} (optional)", path.display())),
        None => finding("user config", "none", "no HOME"),
    });
    findings.push(sandbox_finding());
    findings.extend(config.map(|config| home_findings(place, config)).unwrap_or_default());
    findings.push(match environment.program("git") {
        Some(path) => finding("git", "ok", path.display().to_string()),
        None => finding("git", "none", "not on the PATH"),
    });
    findings.extend(config.map(|config| model_finding(place, config)));
    let found: Vec<&str> =
        AGENT_PROGRAMS.into_iter().filter(|name| environment.program(name).is_some()).collect();
    findings.push(match found.is_empty() {
        false => finding("agent programs", "ok", found.join(", ")),
        true => finding(
            "agent programs",
            "none",
            format!("none of {} is on the PATH", AGENT_PROGRAMS.join(", ")),
        ),
    });
    findings
}
