//! `baton report check|summary`

use std::path::Path;

use baton_core::id::{AgentName, FINISH_REVIEW, Iteration, Timestamp};
use baton_core::problem::Problem;
use baton_core::report::{self, Expected, Report};
use baton_core::summary::{Level, Summary};
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

pub(super) fn summary(place: &Place, args: &ReportArgs, level: u8) -> Outcome {
    let agent = agent(args)?;
    let level = Level::try_from(level).map_err(|why| Failure::new(USAGE, why))?;
    let bytes = load::bytes(&args.file, report::MAX_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let file = (args.file != Path::new("-")).then_some(args.file.as_path());
    let rules = rules::resolve(place, args.policy.as_deref(), file, Some(&agent), &text)?;
    known_agent(&agent, &rules)?;
    let modified = file.and_then(|file| std::fs::metadata(file).ok()?.modified().ok());
    let time = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let time = time.map(|time| Timestamp(time.as_secs()));
    let summary = Summary::of(&bytes, &agent, &rules.policy, time);
    let name = args.file.display().to_string();
    let shown = match level {
        Level::Whole => baton_core::text::escaped(&text),
        level => summary.render(level, &rules.policy, rules.words, &name),
    };
    let mut warnings = Vec::new();
    if let Some(wanted) = args.iteration.map(Iteration)
        && summary.iteration != Some(wanted)
    {
        let found =
            summary.iteration.map_or("no iteration".to_owned(), |own| format!("iteration {own}"));
        let message = format!("the report is of {found}, not of iteration {wanted}");
        warnings.push(Problem::warning("iteration-foreign", message).in_file(&name));
    }
    let json = json!({ "ok": true, "summary": summary, "level": level, "text": shown, "rules": rules.origin });
    Ok(Reply::new(shown, json).with_warnings(&warnings))
}

/// As given, or from a name like `report_test.md` or `7_test_a1.md`.
fn agent(args: &ReportArgs) -> Result<AgentName, Failure> {
    let usage = |message: String| Failure::new(USAGE, message);
    if let Some(agent) = &args.agent {
        return AgentName::new(&agent.to_ascii_uppercase()).map_err(usage);
    }
    let name = args.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    report::agent_of_file(name).ok_or_else(|| {
        usage("whose report is it? The file's name does not tell".to_owned())
            .hint("say `--agent NAME`")
    })
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
