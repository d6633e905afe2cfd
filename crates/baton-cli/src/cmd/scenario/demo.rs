//! `baton scenario demo`: a whole run on the built-in scenario. What the team says was written in
//! advance, target and judge are played by code; the run, the tools, the samples, the packages and
//! all files are real.

use std::path::{Path, PathBuf};
use std::time::Instant;

use baton_core::event::Limits;
use baton_core::id::Tokens;
use baton_core::message::Wire;
use baton_core::problem::Problem;
use baton_core::turn::Protocol;
use baton_runtime::board::{Board, FOLDER as BOARD, NewBoard};
use baton_runtime::drive::Drive;
use baton_runtime::evaluate::{self, ForRuns, Iteration, Target};
use baton_runtime::model::{Client, Endpoint, Limits as CallLimits};
use baton_runtime::{sandbox, store};
use serde_json::{Value, json};

use super::{FOLDER, Where, diff, failure, of_summary, write_page};
use crate::args::ScenarioDemoArgs;
use crate::cmd::example;
use crate::cmd::run::Session;
use crate::cmd::{Outcome, Place, demo};
use crate::reply::{Failure, INTERNAL, Reply, USAGE};

/// Samples at once.
const JOBS: usize = 4;

pub(in crate::cmd) fn run(place: &Place, args: &ScenarioDemoArgs) -> Outcome {
    for program in ["python3", "bash"] {
        if place.environment.program(program).is_none() {
            let message = format!("the demo's tools need `{program}` on the PATH");
            return Err(Failure::new(USAGE, message));
        }
    }
    let start = Instant::now();
    let project = demo::folder(args.folder.as_deref())?;
    let root = project.join(BOARD);
    NewBoard { root: &root, pack: "scenario", language: &args.lang }.create()?;
    let requirement = example::requirement(&args.lang);
    let goal = format!("# {}\n\n{requirement}\n", example::NAME);
    store::write(&root.join("memory/global_context.md"), goal.as_bytes())?;
    let mut board = Board::open(&root, &place.environment)?;
    // Nobody is asked in a demo; it says so where a person would be.
    board.config.approval.by_yes = true;
    let board = board;
    let mut session = Session::idle(place, &board);
    session.say("This is a demo: what the team says was written in advance, and the agent under test is played by code. No model is called.");
    session.say("The run, the tools, the samples, the checkers and all files are real. Where a person would be asked to approve the design, the demo approves it.\n");
    if let Err(missing) = sandbox::available() {
        session.say(&format!("{missing}\nThe demo's own commands run unconfined.\n"));
        session.confined = false;
    }
    session.yes = true;
    let url = example::serve(&args.lang)
        .map_err(|why| Failure::new(INTERNAL, format!("cannot serve the demo's model: {why}")))?;
    session.executors = demo::executors(place, &url)?;
    session.evaluator = Some(Box::new(ForRuns {
        root: project.clone(),
        target: target(&url)?,
        judge: target(&url)?,
        jobs: JOBS,
        confined: session.confined,
        environment: place.environment.clone(),
    }));
    session.signals()?;
    let limits = Limits::of(10, 120);
    let mut reply =
        session.go(|around| Drive::start_on(around, requirement, Some(example::NAME), limits))?;
    if reply.code == 0 {
        shown(&mut reply, &project, start)?;
    }
    Ok(reply)
}

fn target(url: &str) -> Result<Target, Failure> {
    let url = url.parse().map_err(|why: Problem| Failure::new(INTERNAL, why.to_string()))?;
    let endpoint = Endpoint::new(Wire::Chat, Some(url), None);
    Ok(Target {
        client: Client::new(endpoint, CallLimits::default())
            .map_err(|why| Failure::new(INTERNAL, why))?,
        model: "played by code".to_owned(),
        max_output: Tokens(8_192),
        protocol: Protocol::Native,
        temperature: None,
        price: None,
    })
}

/// What came of it: the evaluations, what changed between them, and a page of each.
fn shown(reply: &mut Reply, project: &Path, start: Instant) -> Result<(), Failure> {
    let scenario = format!("{FOLDER}/{}", example::NAME);
    let found = Where { root: project.to_owned(), scenario: scenario.clone() };
    let root = found.opened()?;
    let all = evaluate::iterations(&root, &scenario).map_err(failure)?;
    let (mut figures, mut pages): (Vec<Value>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    for own in &all {
        let (line, value) = written(project, &root, own, &mut pages)?;
        reply.text.push_str(&format!("\nevaluation {}: {line}", own.number));
        figures.push(value);
    }
    let (first, last) =
        (all.first().map_or(1, |own| own.number), all.last().map_or(1, |own| own.number));
    let changes = diff::compared(&root, &scenario, first, last)?;
    reply.text.push_str(&format!("\n\n{}", changes.text));
    let pages: Vec<String> = pages.iter().map(|page| page.display().to_string()).collect();
    reply.text.push_str(&format!(
        "\n{:.1} s. Look around:\n  cd {}\n  baton log                               what happened\n  baton scenario report --iteration {first}      what failed, and why\n  baton scenario diff {} {first} {last}   what changed\n  baton handoff show {scenario}/execution_outputs/iteration_{first}/execute_to_init.json\n  {}\n",
        start.elapsed().as_secs_f64(),
        project.display(),
        example::NAME,
        pages.join("\n  "),
    ));
    if let Some(map) = reply.json.as_object_mut() {
        map.insert("root".to_owned(), json!(project));
        map.insert("evaluations".to_owned(), Value::Array(figures));
        map.insert("changes".to_owned(), changes.json["changes"].clone());
        map.insert("pages".to_owned(), json!(pages));
    }
    Ok(())
}

/// An evaluation in a line and as data; its page is written.
fn written(
    project: &Path,
    root: &baton_runtime::beneath::Root,
    own: &Iteration,
    pages: &mut Vec<PathBuf>,
) -> Result<(String, Value), Failure> {
    let summary = own.summary(root).map_err(failure)?;
    let report = own.report(root).map_err(failure)?;
    let (Some(summary), Some(report)) = (summary, report) else {
        return Err(Failure::new(INTERNAL, format!("{} is not finished", own.inside)));
    };
    let file = project.join(format!("report-{}.html", own.number));
    write_page(&file, root, own, &summary, &report)?;
    pages.push(file);
    let (line, mut value) = of_summary(&summary);
    let problems = report.ordered().into_iter().map(|own| {
        json!({ "problem_id": own.problem_id, "severity": own.severity, "affected": own.affected_samples.len() })
    });
    value["problems"] = problems.collect();
    Ok((line, value))
}
