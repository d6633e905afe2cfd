//! `baton report check`

use std::path::Path;

use baton_core::id::{AgentName, FINISH_REVIEW, Iteration};
use baton_core::report::{self, Expected, Report};
use baton_runtime::load;
use serde_json::json;

use super::rules::{self, Rules};
use super::{Outcome, Place};
use crate::args::ReportArgs;
use crate::reply::{Failure, PROTOCOL, Reply, USAGE, counted};

pub(super) fn check(place: &Place, args: &ReportArgs) -> Outcome {
    let agent = agent(args)?;
    let name = args.file.display().to_string();
    let bytes = match load::bytes(&args.file, report::MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(load::Error::TooLarge { size, .. }) => {
            let problems = report::too_large(size).into_iter().collect();
            return Err(Failure::problems(PROTOCOL, &name, problems, None));
        }
        Err(error) => return Err(error.into()),
    };
    let text = String::from_utf8_lossy(&bytes);
    let file = (args.file != Path::new("-")).then_some(args.file.as_path());
    let rules = rules::resolve(place, args.policy.as_deref(), file, Some(&agent), &text)?;
    known_agent(&agent, &rules)?;
    let expected = Expected { agent, iteration: args.iteration.map(Iteration) };
    match report::read(&bytes, &rules.policy.report_rules, &expected) {
        Ok(report) => {
            let json = json!({ "ok": true, "report": report, "rules": rules.origin });
            Ok(Reply::new(described(&report, &rules.origin), json))
        }
        Err(problems) => {
            let failure = Failure::problems(PROTOCOL, &name, problems, Some(&text));
            Err(failure
                .hint(format!("checked as a report of {} by {}", expected.agent, rules.origin)))
        }
    }
}

/// As given, or from a name like `report_test.md` or `7_test_a1.md`.
fn agent(args: &ReportArgs) -> Result<AgentName, Failure> {
    let usage = |message: String| Failure::new(USAGE, message);
    if let Some(agent) = &args.agent {
        return AgentName::new(&agent.to_ascii_uppercase()).map_err(usage);
    }
    let stem = args.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = stem.strip_prefix("report_").or_else(|| archived(stem));
    let name = name.map(|name| name.split_once("_subloop_").map_or(name, |(name, _)| name));
    name.and_then(AgentName::from_file_stem).ok_or_else(|| {
        usage("whose report is it? The file's name does not tell".to_owned())
            .hint("say `--agent NAME`")
    })
}

/// `test` of `7_test_a1`, as the archive names its reports.
fn archived(stem: &str) -> Option<&str> {
    let (iteration, rest) = stem.split_once('_')?;
    let (name, attempt) = rest.rsplit_once("_a")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(iteration) && is_number(attempt)).then_some(name)
}

/// An agent that nobody knows is a typing error, not an agent without rules.
fn known_agent(agent: &AgentName, rules: &Rules) -> Result<(), Failure> {
    let mut known: Vec<AgentName> = match &rules.board {
        Some(board) => board.pack.manifest.agent_names(),
        None => rules.policy.agents_named().into_iter().map(|(_, agent)| agent.clone()).collect(),
    };
    known.extend(rules.policy.report_rules.apply_to.iter().cloned());
    known.extend(AgentName::new(FINISH_REVIEW));
    known.sort();
    known.dedup();
    if known.contains(agent) {
        return Ok(());
    }
    let message = format!("there is no agent `{agent}` in {}", rules.origin);
    let mut failure = Failure::new(USAGE, message);
    let near = baton_core::problem::nearest(agent.as_str(), &known)
        .map(|near| format!("; did you mean `{near}`?"));
    failure.hint =
        Some(format!("agents: {}{}", baton_core::problem::list(&known), near.unwrap_or_default()));
    Err(failure)
}

fn described(report: &Report, origin: &str) -> String {
    let verdict = report.verdict.as_ref().map_or("no verdict", |verdict| verdict.word.as_str());
    let count = match report.blockers.len() {
        0 => "no blockers".to_owned(),
        count => counted(count, "blocker"),
    };
    let mut out =
        format!("ok: {}, iteration {}: {verdict}, {count}\n", report.agent, report.iteration);
    for blocker in report.blockers.iter().take(20) {
        out.push_str(&format!(
            "  [{}] {}\n",
            blocker.class,
            baton_core::text::shown(&blocker.text, 200)
        ));
    }
    if report.blockers.len() > 20 {
        out.push_str(&format!("  … and {} more\n", report.blockers.len() - 20));
    }
    out.push_str(&format!("checked by {origin}\n"));
    out
}
