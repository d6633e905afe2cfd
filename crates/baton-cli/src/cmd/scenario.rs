//! `baton scenario run|status|report|diff|demo`

mod demo;
mod diff;
mod page;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use baton_core::config::Config;
use baton_core::event::Limits;
use baton_core::handoff::make::{FailureSummary, ProblemsReport};
use baton_core::id::Tokens;
use baton_core::scenario::count;
use baton_core::text;
use baton_core::turn::Protocol;
use baton_runtime::beneath::Root;
use baton_runtime::board::Board;
use baton_runtime::drive::Evaluator;
use baton_runtime::evaluate::{
    self, Ask, Case, Error, Evaluated, ForRuns, Iteration, Phase, Progress, Stop, Target,
};
use baton_runtime::executor::Unpriced;
use baton_runtime::model::catalogue::{self, Cost};
use baton_runtime::model::choose;
use baton_runtime::sandbox::Interrupt;
use baton_runtime::store::Disk;
use baton_runtime::{drive, load, store};
use serde_json::{Value, json};

use super::run::{STAGE, asked, mind, nano_dollars, no_price, priced};
use super::{Outcome, Place, setup};
use crate::args::{
    HowArgs, ProtocolArg, ProviderArgs, ScenarioArgs, ScenarioReportArgs, ScenarioRunArgs, TapeArgs,
};
use crate::reply::{
    Failure, HELD, INTERNAL, LIMIT, PROTOCOL, Reply, USAGE, WAITING, counted, table,
};

/// Where scenarios are, from the root.
const FOLDER: &str = "scenarios";
const JOBS: u32 = 8;
/// Of an answer, where nobody knows the model.
const MAX_OUTPUT: Tokens = Tokens(8_192);

/// The root, and the scenario's folder from there.
struct Where {
    root: PathBuf,
    scenario: String,
}

impl Where {
    fn find(place: &Place, args: &ScenarioArgs) -> Result<Where, Failure> {
        let given = args.root.clone().unwrap_or_else(|| place.folder.clone());
        let root = std::fs::canonicalize(&given).map_err(|error| {
            Failure::new(USAGE, format!("the root {}: {error}", given.display()))
        })?;
        let Some(name) = &args.scenario else { return Where::only(root) };
        let by_name = root.join(FOLDER).join(name);
        if !name.contains('/') && by_name.is_dir() {
            return Ok(Where { root, scenario: format!("{FOLDER}/{name}") });
        }
        // A folder is meant as a shell means it: from here.
        let folder = std::fs::canonicalize(place.folder.join(name)).map_err(|_| {
            let message = format!("there is no scenario `{}`", text::shown(name, 100));
            let names = named(&root);
            let hint = match names.is_empty() {
                true => format!("scenarios are folders in {}", root.join(FOLDER).display()),
                false => format!("there are {}", baton_core::problem::list(&names)),
            };
            Failure::new(USAGE, message).hint(hint)
        })?;
        let inside = folder.strip_prefix(&root).ok().and_then(|own| own.to_str());
        match inside.filter(|own| !own.is_empty()) {
            Some(inside) => Ok(Where { scenario: inside.to_owned(), root }),
            None => {
                let message = format!("{} does not lie in {}", folder.display(), root.display());
                Err(Failure::new(USAGE, message).hint("--root DIR names another root"))
            }
        }
    }

    fn only(root: PathBuf) -> Result<Where, Failure> {
        let names = named(&root);
        match names.as_slice() {
            [name] => Ok(Where { scenario: format!("{FOLDER}/{name}"), root }),
            [] => Err(Failure::new(USAGE, "there is no scenario here")
                .hint(format!("scenarios are folders in {}", root.join(FOLDER).display()))),
            _ => Err(Failure::new(USAGE, "which scenario?")
                .hint(format!("there are {}", baton_core::problem::list(&names)))),
        }
    }

    fn opened(&self) -> Result<Root, Failure> {
        Root::open(&self.root, &[]).map_err(|error| {
            Failure::new(USAGE, format!("the root {}: {error}", self.root.display()))
        })
    }
}

fn named(root: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join(FOLDER)).into_iter().flatten().flatten();
    let folders = entries.filter(|own| own.path().is_dir());
    let mut names: Vec<String> =
        folders.filter_map(|own| own.file_name().into_string().ok()).collect();
    names.sort();
    names
}

pub(super) fn run(place: &Place, args: &ScenarioRunArgs) -> Outcome {
    let found = Where::find(place, &args.scenario)?;
    let board = place.board_path()?.map(|own| own.join("baton.toml"));
    let (config, warnings) = load::config(&place.environment, board.as_deref())?;
    let own = &config.scenario;
    let target = args.target_model.as_ref().or(own.target.as_ref());
    let protocol = match args.protocol {
        None => config.agent.protocol,
        Some(ProtocolArg::Native) => Protocol::Native,
        Some(ProtocolArg::Json) => Protocol::Json,
        Some(ProtocolArg::React) => Protocol::React,
    };
    let provider = setup::provider(&args.tape, &args.provider)?;
    let target = model(place, &provider, &args.tape, &config, target)?
        .ok_or_else(|| Failure::new(USAGE, "no model is configured").hint(choose::ways()))?;
    let judge = args.judge_model.as_ref().or(own.judge.as_ref()).or(args.provider.model.as_ref());
    let judge = judging(&target, judge, &config);
    if args.budget_dollars.is_some()
        && let Some(unpriced) = [&target, &judge].into_iter().find(|own| own.price.is_none())
    {
        return Err(no_price(&unpriced.model));
    }
    let target = Target { temperature: args.temperature, protocol, ..target };
    let interrupt = Interrupt::default();
    watch_signals(&interrupt)?;
    let meter = Meter::new(place.json);
    let progress = |own: &Progress| meter.tell(own);
    let jobs = args.jobs.or(own.jobs).unwrap_or(JOBS);
    let ask = Ask {
        root: &found.root,
        scenario: &found.scenario,
        number: None,
        target: &target,
        judge: &judge,
        jobs: usize::try_from(jobs).unwrap_or(1),
        only: &args.only,
        new: args.new,
        retry_errors: args.retry_errors,
        attribution: !args.no_attribution,
        confined: !args.no_sandbox,
        environment: &place.environment,
        now: drive::now(),
        deadline: args.minutes.map(|own| Duration::from_secs(own.saturating_mul(60))),
        tokens: args.budget_tokens,
        cost: args.budget_dollars.and_then(nano_dollars),
        counted: (0, 0),
        interrupt: &interrupt,
        disk: &Disk::default(),
        progress: &progress,
    };
    let done = evaluate::evaluate(&ask);
    meter.clear();
    let done = done.map_err(failure)?;
    Ok(Reply::new(told(&done), as_json(&done)).with_warnings(&warnings))
}

/// The model of this name, or the configured one. `None`: nothing names any.
fn model(
    place: &Place,
    provider: &ProviderArgs,
    tape: &TapeArgs,
    config: &Config,
    name: Option<&String>,
) -> Result<Option<Target>, Failure> {
    let wanted = asked(provider, name.map(String::as_str));
    let choice = choose::choose(&wanted, config, &place.environment)
        .map_err(|problem| Failure::new(USAGE, problem.to_string()))?;
    let Some(choice) = choice else { return Ok(None) };
    let mind = mind(&choice, config, tape, STAGE)?;
    Ok(Some(Target {
        client: mind.client,
        model: mind.model,
        max_output: mind.max_output,
        protocol: config.agent.protocol,
        temperature: None,
        price: mind.price,
    }))
}

/// Who evaluates for a run; nobody where no model is configured.
pub(super) fn evaluator(
    place: &Place,
    board: &Board,
    how: &HowArgs,
    limits: &Limits,
) -> Result<Option<Box<dyn Evaluator>>, Failure> {
    let Some(rules) = &board.pack.policy.evaluation else { return Ok(None) };
    let config = &board.config;
    let own = &config.scenario;
    // Failures are attributed by the model of the agent whose work is evaluated.
    let working = config.agents.get(&rules.of).and_then(|agent| agent.model.as_ref());
    let target = model(place, &how.provider, &how.tape, config, own.target.as_ref())?;
    let Some(target) = target else { return Ok(None) };
    let persons = own.judge.as_ref().or(working).or(how.provider.model.as_ref());
    let judge = judging(&target, persons, config);
    let unpriced = [&target, &judge].into_iter().find(|own| own.price.is_none());
    priced(unpriced.map(|own| Unpriced::Model(&own.model)), limits)?;
    Ok(Some(Box::new(ForRuns {
        root: drive::project_of(&board.root),
        target,
        judge,
        jobs: usize::try_from(own.jobs.unwrap_or(JOBS)).unwrap_or(1),
        confined: !how.no_sandbox,
        environment: place.environment.clone(),
    })))
}

/// At the same provider, and the same model unless another is named.
fn judging(target: &Target, name: Option<&String>, config: &Config) -> Target {
    let Some(name) = name.filter(|name| **name != target.model) else { return target.clone() };
    let known = catalogue::known(name, config.models.get(name));
    Target {
        model: name.clone(),
        max_output: known.max_output.map_or(MAX_OUTPUT, |most| most.min(Tokens(2 * MAX_OUTPUT.0))),
        price: known.price,
        ..target.clone()
    }
}

/// Ctrl-C stops in good order; a second one leaves.
pub(super) fn watch_signals(interrupt: &Interrupt) -> Result<(), Failure> {
    let interrupt = interrupt.clone();
    crate::signals::watch(move |_| {
        if interrupt.is_at_once() {
            // What is finished is on disk: nothing is lost.
            std::process::exit(i32::from(WAITING));
        }
        interrupt.at_once();
    })
}

fn failure(error: Error) -> Failure {
    let message = error.to_string();
    let goes_on = "what is finished is kept; the same command goes on";
    match error {
        Error::Invalid { file, problems, text } => {
            Failure::problems(PROTOCOL, &file, problems, text.as_deref())
        }
        Error::Load(load::Error::Invalid(problems)) => {
            Failure::problems(PROTOCOL, "the scenario", problems, None)
        }
        Error::Load(load::Error::TooLarge { .. }) | Error::Beneath(_) => {
            Failure::new(PROTOCOL, message)
        }
        Error::Load(_) | Error::Folder { .. } | Error::NoSamples(_) | Error::NothingToRetry => {
            Failure::new(USAGE, message)
        }
        Error::TooMany(_) => Failure::new(USAGE, message).hint("remove old ones"),
        Error::NoSample(_) => Failure::new(USAGE, message).hint("--only takes a sample_id"),
        Error::Changed { .. } => Failure::new(USAGE, message)
            .hint("--new begins another iteration; the unfinished one stays as it is"),
        Error::Stopped { stop: Stop::Interrupted, .. } => {
            Failure::new(WAITING, message).hint(goes_on)
        }
        Error::Stopped { .. } => Failure::new(LIMIT, message).hint(goes_on),
        Error::Protocol(_) => Failure::new(PROTOCOL, message)
            .hint("all samples are finished; the same command asks for the report again"),
        Error::Model(_) => Failure::new(INTERNAL, message)
            .hint("all samples are finished; the same command asks for the report again"),
        Error::Lock(baton_runtime::lock::Error::Held { by }) => {
            Failure::new(HELD, format!("this scenario is being evaluated already: {by}"))
        }
        Error::Sandbox(_) => Failure::new(USAGE, message)
            .hint("--no-sandbox runs the scenario's programs unconfined, at your own risk"),
        Error::Store(_) | Error::Lock(_) => Failure::new(INTERNAL, message),
    }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}%", count::share(part, whole) * 100.0)
}

fn told(done: &Evaluated) -> String {
    let mut out = format!(
        "iteration {}: {} of {} samples passed ({}), {} failed",
        done.iteration,
        done.passed,
        done.total,
        percent(done.passed, done.total),
        done.failed
    );
    if done.errors > 0 {
        let _ = write!(out, ", {} could not be evaluated", done.errors);
    }
    out.push('\n');
    if done.failed > 0 {
        let share = done.critical_share * 100.0;
        let _ = writeln!(out, "critical problems touch {share:.1}% of the failed samples");
    }
    let rows: Vec<Vec<String>> = done
        .problems
        .iter()
        .map(|own| {
            vec![
                format!("  {}", text::shown(&own.problem_id, 40)),
                word(&json!(own.severity)),
                counted(own.affected, "sample"),
                text::shown(&own.title, 100),
            ]
        })
        .collect();
    out.push_str(&table(&rows));
    let _ = writeln!(out, "{}", text::shown(&done.output_dir, 400));
    let cost = done.cost.map(|own| format!(", {}", Cost(own))).unwrap_or_default();
    let _ = writeln!(out, "{} ran now, {} tokens{cost}", counted_u64(done.redone), done.tokens);
    if done.errors > 0 {
        out.push_str(
            "`baton scenario run --retry-errors` runs again what could not be evaluated\n",
        );
    }
    out
}

fn counted_u64(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "sample")
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn as_json(done: &Evaluated) -> Value {
    let problems = done.problems.iter().map(|own| {
        json!({
            "problem_id": own.problem_id,
            "severity": own.severity,
            "title": own.title,
            "affected": own.affected,
        })
    });
    json!({
        "ok": true,
        "output_dir": done.output_dir,
        "iteration": done.iteration,
        "total": done.total,
        "passed": done.passed,
        "failed": done.failed,
        "errors": done.errors,
        "quality": count::share(done.passed, done.total),
        "critical_share": done.critical_share,
        "problems": problems.collect::<Vec<_>>(),
        "hashes": done.hashes,
        "layer2_iterations": done.iterations.layer2,
        "layer3_iterations": done.iterations.layer3,
        "tokens": done.tokens,
        "cost_nano_dollars": done.cost,
        "redone": done.redone,
    })
}

pub(super) fn status(place: &Place, args: &ScenarioArgs) -> Outcome {
    let found = Where::find(place, args)?;
    let root = found.opened()?;
    let all = evaluate::iterations(&root, &found.scenario).map_err(failure)?;
    let mut rows = Vec::new();
    let mut list = Vec::new();
    for own in &all {
        let summary = own.summary(&root).map_err(failure)?;
        let total = own.head.as_ref().map_or(0, |head| head.total_samples);
        let (line, value) = match &summary {
            Some(summary) => of_summary(summary),
            None => {
                let done = own.finished(&root);
                let line = format!("unfinished: {done} of {total} samples");
                (line, json!({ "is_over": false, "finished": done, "total_samples": total }))
            }
        };
        let model = own.head.as_ref().map(|head| head.target_model.clone()).unwrap_or_default();
        rows.push(vec![own.number.to_string(), line, text::shown(&model, 60)]);
        let mut value = value;
        value["iteration"] = json!(own.number);
        value["output_dir"] = json!(own.inside);
        value["target_model"] = json!(model);
        list.push(value);
    }
    let text = match rows.is_empty() {
        true => format!("{}: no iteration yet\n", found.scenario),
        false => format!("{}\n{}", found.scenario, table(&rows)),
    };
    Ok(Reply::new(text, json!({ "ok": true, "scenario": found.scenario, "iterations": list })))
}

fn passed(summary: &FailureSummary) -> u64 {
    let others = summary.total_samples.saturating_sub(summary.failed_samples);
    summary.passed_samples.unwrap_or(others)
}

fn of_summary(summary: &FailureSummary) -> (String, Value) {
    let (passed, total) = (passed(summary), summary.total_samples);
    let errors = summary.error_samples.unwrap_or(0);
    let mut line = format!(
        "{passed} of {total} passed ({}), {} failed",
        percent(passed, total),
        summary.failed_samples
    );
    if errors > 0 {
        let _ = write!(line, ", {errors} not evaluated");
    }
    let value = json!({
        "is_over": true,
        "total_samples": total,
        "passed_samples": passed,
        "failed_samples": summary.failed_samples,
        "error_samples": errors,
        "final_quality": count::share(passed, total),
    });
    (line, value)
}

pub(super) fn report(place: &Place, args: &ScenarioReportArgs) -> Outcome {
    let found = Where::find(place, &args.scenario)?;
    let root = found.opened()?;
    let all = evaluate::iterations(&root, &found.scenario).map_err(failure)?;
    let own = match args.iteration {
        Some(number) => all.iter().find(|own| own.number == number),
        None => all.iter().rev().find(|own| own.is_over),
    };
    let Some(own) = own else {
        return Err(Failure::new(USAGE, "there is no such iteration")
            .hint("`baton scenario status` lists them"));
    };
    let summary = own.summary(&root).map_err(failure)?;
    let report = own.report(&root).map_err(failure)?;
    let (Some(summary), Some(report)) = (summary, report) else {
        return Err(Failure::new(USAGE, format!("iteration {} is not over", own.number))
            .hint("`baton scenario run` goes on with it"));
    };
    let json = json!({
        "ok": true,
        "iteration": own.number,
        "output_dir": own.inside,
        "summary": summary,
        "report": report,
        "html": args.html,
    });
    if let Some(file) = &args.html {
        write_page(file, &root, own, &summary, &report)?;
        return Ok(Reply::new(format!("wrote {}\n", file.display()), json));
    }
    Ok(Reply::new(shown(own.number, &own.inside, &summary, &report), json))
}

fn write_page(
    file: &Path,
    root: &Root,
    own: &Iteration,
    summary: &FailureSummary,
    report: &ProblemsReport,
) -> Result<(), Failure> {
    let first = summary.failures.iter().take(page::CASES);
    let cases: Vec<Case> = first.map(|failure| own.case(root, &failure.sample_id)).collect();
    let page = page::page(&page::Page {
        scenario: own.head.as_ref().map_or("", |head| head.scenario.as_str()),
        iteration: own.number,
        folder: &own.inside,
        target_model: own.head.as_ref().map_or("", |head| head.target_model.as_str()),
        summary,
        report,
        cases: &cases,
    });
    Ok(store::write(file, page.as_bytes())?)
}

pub(super) use demo::run as demo;
pub(super) use diff::run as diff;

/// Of each list for people, so many; the files have all.
const SHOWN: usize = 20;

fn shown(
    iteration: u32,
    folder: &str,
    summary: &FailureSummary,
    report: &ProblemsReport,
) -> String {
    let mut out = format!("iteration {iteration}: {}\n", of_summary(summary).0);
    for (at, problem) in report.ordered().into_iter().enumerate() {
        let _ = writeln!(
            out,
            "\n{}. {} ({}, {}): {}",
            at + 1,
            text::shown(&problem.problem_id, 40),
            word(&json!(problem.severity)),
            counted(problem.affected_samples.len(), "sample"),
            text::shown(&problem.title, 200)
        );
        let texts = [&problem.description, &problem.evidence_summary];
        for own in texts.into_iter().flatten() {
            let _ = writeln!(out, "   {}", text::shown(own, 600));
        }
        if let Some(fix) = &problem.suggested_fix {
            let (target, change) =
                (text::shown(&fix.target, 100), text::shown(&fix.modification, 600));
            let _ = writeln!(out, "   fix {target}: {change}");
        }
        if let Some(typical) = &problem.typical_case_id {
            let _ = writeln!(
                out,
                "   see {folder}/execution_traces/{}_trace.json",
                text::shown(typical, 100)
            );
        }
    }
    if !summary.failures.is_empty() {
        out.push_str("\nfailed\n");
    }
    let rows: Vec<Vec<String>> = (summary.failures.iter().take(SHOWN))
        .map(|own| {
            vec![
                format!("  {}", text::shown(&own.sample_id, 60)),
                counted(own.conversation_turns as usize, "turn"),
                text::shown(&own.failure_type, 40),
                text::shown(&own.checkers_failed.join(", "), 100),
            ]
        })
        .collect();
    out.push_str(&table(&rows));
    more(&mut out, summary.failures.len());
    if !summary.evaluation_errors.is_empty() {
        out.push_str("\nnot evaluated\n");
    }
    for own in summary.evaluation_errors.iter().take(SHOWN) {
        let (id, code) = (text::shown(&own.sample_id, 60), text::shown(&own.code, 40));
        let _ = writeln!(out, "  {id}  {code}: {}", text::shown(&own.message, 300));
    }
    more(&mut out, summary.evaluation_errors.len());
    out
}

fn more(out: &mut String, count: usize) {
    if count > SHOWN {
        let _ = writeln!(out, "  and {} more, in failure_summary.json", count - SHOWN);
    }
}

/// Says how far it is: a line that is drawn again on a terminal, otherwise a line now and then.
struct Meter {
    is_quiet: bool,
    is_terminal: bool,
    drawn: Mutex<Drawn>,
}

struct Drawn {
    start: Instant,
    last: Option<Instant>,
    phase: Option<Phase>,
}

impl Meter {
    fn new(is_quiet: bool) -> Meter {
        let is_terminal = std::io::stderr().is_terminal();
        let drawn = Drawn { start: Instant::now(), last: None, phase: None };
        Meter { is_quiet, is_terminal, drawn: Mutex::new(drawn) }
    }

    fn tell(&self, own: &Progress) {
        if self.is_quiet {
            return;
        }
        let Ok(mut drawn) = self.drawn.lock() else { return };
        let pause = Duration::from_millis(if self.is_terminal { 200 } else { 5_000 });
        let is_new = drawn.phase != Some(own.phase);
        let is_last = own.done == own.total && own.phase == Phase::Samples;
        if !is_new && !is_last && drawn.last.is_some_and(|last| last.elapsed() < pause) {
            return;
        }
        if is_new {
            (drawn.phase, drawn.start) = (Some(own.phase), Instant::now());
        }
        drawn.last = Some(Instant::now());
        let line = line(own, drawn.start.elapsed());
        let mut err = std::io::stderr();
        let _ = match self.is_terminal {
            true => write!(err, "\r\u{1b}[2K{line}"),
            false => writeln!(err, "{line}"),
        };
    }

    fn clear(&self) {
        if self.is_terminal && !self.is_quiet {
            let _ = write!(std::io::stderr(), "\r\u{1b}[2K");
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]
fn line(own: &Progress, time: Duration) -> String {
    let what = match own.phase {
        Phase::Samples => "samples",
        Phase::Attribution => "attributions",
        Phase::Report => return format!("[{}] asking for the problems report", own.iteration),
    };
    let mut out = format!("[{}] {} of {} {what}", own.iteration, own.done, own.total);
    if own.phase == Phase::Samples {
        let _ = write!(out, ", {} failed", own.failed);
        if own.errors > 0 {
            let _ = write!(out, ", {} errors", own.errors);
        }
    }
    let now = own.done.saturating_sub(own.before);
    if now > 0 && time.as_millis() > 500 {
        let rate = now as f64 / time.as_secs_f64();
        let left = (own.total.saturating_sub(own.done)) as f64 / rate;
        let _ = write!(out, ", {rate:.1} a second");
        if left >= 1.0 {
            let _ = write!(out, ", {} left", span(left as u64));
        }
    }
    out
}

/// `3 min 20 s`.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}
