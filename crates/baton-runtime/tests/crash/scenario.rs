//! An evaluation that is killed wherever it touches the disk: what was finished is not run again,
//! nothing is lost, and the iteration comes out the same, byte for byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use baton_core::id::{Timestamp, Tokens};
use baton_core::message::Wire;
use baton_core::turn::Protocol;
use baton_runtime::evaluate::{Ask, Evaluated, Phase, Progress, Target, evaluate};
use baton_runtime::load::Environment;
use baton_runtime::model::{Client, Endpoint, Limits};
use baton_runtime::sandbox::Interrupt;
use baton_runtime::store::{Disk, Fault};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::power::{STEPS, World, laid_out, seen};
use crate::sweep::{chosen, each, is_part, seeds};
use baton_testkit::{Asked, Model};

const SAMPLES: usize = 6;
const TOOL: &str = r#"while read -r line; do echo '{"result":"made","state":{"made":true}}'; done"#;

/// A small scenario: every second sample fails, since its target never calls the tool.
fn fresh() -> TempDir {
    let folder = TempDir::new().unwrap();
    let own = folder.path().join("scenarios/small");
    fs::create_dir_all(own.join("samples")).unwrap();
    let write = |name: &str, text: String| fs::write(own.join(name), text).unwrap();
    write("unified_scenario_design.yaml", "name: small\n".to_owned());
    write("BusinessRules.md", "Make it.\n".to_owned());
    write("format_specifications.json", "{}\n".to_owned());
    write("tool.sh", TOOL.to_owned());
    let tool = json!({"name": "make", "description": "makes it", "parameters": {}, "command": ["sh", "tool.sh"], "stays": true});
    write("tools.json", json!({ "tools": [tool] }).to_string());
    let checker = json!({"name": "made", "assert": [{"equals": {"path": "/made", "value": true}}]});
    write("checkers.json", json!({ "checkers": [checker] }).to_string());
    for number in 1..=SAMPLES {
        let sample = json!({"sample_id": format!("S{number}"), "user": {"turns": [format!("S{number}")]}, "checkers": ["made"]});
        write(&format!("samples/S{number}.json"), sample.to_string());
    }
    folder
}

type Log = Arc<Mutex<Vec<(String, String)>>>;

/// Who was asked what: the stage and the sample.
fn server() -> (Model, Log) {
    let log = Log::default();
    let own = log.clone();
    let model = Model::answering(move |_, asked| {
        let stage = asked.header("x-baton-stage").unwrap_or_default().to_owned();
        let (sample, answer) = answer(&stage, asked);
        own.lock().unwrap().push((stage, sample));
        answer
    });
    (model, log)
}

fn answer(stage: &str, asked: &Asked) -> (String, Value) {
    let messages = asked.body["messages"].as_array().unwrap();
    let user = messages.iter().find(|own| own["role"] == "user").unwrap();
    let said = user["content"].to_string();
    let sample =
        (1..=SAMPLES).map(|number| format!("S{number}")).find(|id| said.contains(id.as_str()));
    let sample = sample.unwrap_or_default();
    let answer = match stage {
        "attribution" => baton_testkit::text(
            &json!({"layer": 1, "failure_type": "Layer1_BusinessRule", "cause": "unclear", "evidence": "e", "suggestion": "s"}).to_string(),
        ),
        "report" => baton_testkit::text(
            &json!({"problems": [{"problem_id": "L1P_001", "problem_type": "BusinessRule_Unclear", "severity": "critical", "title": "It is not made", "description": "d", "affected_groups": ["G1"], "affected_samples": [], "evidence_summary": "e", "typical_case_id": "S2", "suggested_fix": {"target": "BusinessRules.md", "section": "1", "modification": "m", "rationale": "r"}}]}).to_string(),
        ),
        _ if messages.last().unwrap()["role"] == "tool" => baton_testkit::text("It is made."),
        _ if sample.as_bytes()[1] % 2 == 1 => baton_testkit::call("make", json!({})),
        _ => baton_testkit::text("I do nothing."),
    };
    (sample, answer)
}

/// `budget`: as a run asks, for one iteration whose budget counts what it took before.
fn evaluated(
    root: &Path,
    url: &str,
    disk: &Disk,
    budget: Option<u64>,
    progress: &(dyn Fn(&Progress) + Sync),
) -> Result<Evaluated, baton_runtime::evaluate::Error> {
    let endpoint = Endpoint::new(Wire::Chat, Some(url.parse().expect("an address")), None);
    let target = Target {
        client: Client::new(endpoint, Limits { retries: 0, ..Limits::default() }).unwrap(),
        model: "scripted".to_owned(),
        max_output: Tokens(1_000),
        protocol: Protocol::Native,
        temperature: None,
        price: None,
    };
    evaluate(&Ask {
        root,
        scenario: "scenarios/small",
        number: budget.map(|_| 1),
        target: &target,
        judge: &target,
        jobs: 2,
        only: &[],
        new: false,
        retry_errors: false,
        attribution: true,
        confined: false,
        environment: &Environment::of_this_process(),
        now: Timestamp(1_000_000),
        deadline: None,
        tokens: budget,
        cost: None,
        counted: (0, 0),
        interrupt: &Interrupt::default(),
        disk,
        progress,
    })
}

/// The child: evaluates with a fault in the disk; prints how many points it passed.
pub(crate) fn child(args: &[String]) -> i32 {
    let [root, url, fault, number] = args else { return 9 };
    let at = number.parse().unwrap();
    let is_runs = fault == "budget";
    let fault = match fault.as_str() {
        "kill" => Fault::Kill { at },
        "tear" => Fault::Tear { at },
        "full" => Fault::Fail { at, errno: 28 },
        _ => Fault::None,
    };
    let disk = Disk::with_fault(fault);
    let done = evaluated(Path::new(root), url, &disk, is_runs.then_some(at), &|_| {});
    println!("{}", disk.points());
    match done {
        Ok(done) => {
            assert_eq!((done.iteration, done.total, done.failed, done.errors), (1, 6, 3, 0));
            println!("{} tokens, {} ran", done.tokens, done.redone);
            0
        }
        Err(error) => {
            println!("{error}");
            3
        }
    }
}

fn run(folder: &Path, url: &str, fault: &str, number: u64) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["evaluate", folder.to_str().unwrap(), url, fault, &number.to_string()]);
    command.output().unwrap()
}

fn iteration(folder: &Path) -> std::path::PathBuf {
    folder.join("scenarios/small/execution_outputs/iteration_1")
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![iteration(folder)];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let name = path.strip_prefix(iteration(folder)).unwrap();
                    let text = fs::read_to_string(&path).unwrap();
                    found.insert(name.to_string_lossy().into_owned(), text);
                }
            }
        }
    }
    found
}

/// The samples that are marked as finished.
fn finished(folder: &Path, kind: &str, end: &str) -> BTreeSet<String> {
    let Ok(all) = fs::read_dir(iteration(folder).join(kind)) else { return BTreeSet::new() };
    let names = all.map(|own| own.unwrap().file_name().into_string().unwrap());
    names.filter_map(|own| own.strip_suffix(end).map(str::to_owned)).collect()
}

fn disturbed(fault: &str, point: u64, expected: &BTreeMap<String, String>) -> bool {
    let what = format!("{fault} at {point}");
    let folder = fresh();
    let (model, log) = server();
    let first = run(folder.path(), &model.url, fault, point);
    let was_hit = first.status.signal() == Some(9) || first.status.code() == Some(3);
    let said = String::from_utf8_lossy(&first.stdout).into_owned();
    assert!(was_hit || first.status.success(), "{what}: {said}");
    let evaluated = finished(folder.path(), "evaluation_results", "_eval.json");
    for id in &evaluated {
        for name in [format!("samples/{id}.json"), format!("execution_traces/{id}_trace.json")] {
            assert!(iteration(folder.path()).join(&name).is_file(), "{what}: no {name}");
        }
    }
    let attributed = finished(folder.path(), "attribution_analysis", "_attribution.json");
    let before = log.lock().unwrap().len();
    // An iteration that is over would be followed by another.
    if !iteration(folder.path()).join("failure_summary.json").is_file() {
        let second = run(folder.path(), &model.url, "none", 0);
        let said = String::from_utf8_lossy(&second.stdout).into_owned();
        assert!(second.status.success(), "{what}: {said}");
    }
    let asked = log.lock().unwrap()[before..].to_vec();
    for (stage, sample) in &asked {
        assert!(stage != "target" || !evaluated.contains(sample), "{what}: {sample} ran again");
        assert!(stage != "attribution" || !attributed.contains(sample), "{what}: {sample} again");
    }
    let ran: BTreeSet<String> =
        asked.iter().filter(|own| own.0 == "target").map(|own| own.1.clone()).collect();
    assert_eq!(ran.len() + evaluated.len(), SAMPLES, "{what}");
    let found = files(folder.path());
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    for (name, text) in expected {
        assert_eq!(&found[name], text, "{what}: {name}");
    }
    was_hit
}

pub(crate) fn killed_at_every_write_of_an_evaluation() {
    let folder = fresh();
    let (model, log) = server();
    let output = run(folder.path(), &model.url, "none", 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    let points: u64 = said.lines().next().unwrap().parse().unwrap();
    let expected = files(folder.path());
    // 3 files a sample, 3 attributions, head, report, summary.
    assert_eq!(expected.len(), 3 * SAMPLES + 3 + 3, "{:?}", expected.keys());
    assert_eq!(log.lock().unwrap().iter().filter(|own| own.0 == "report").count(), 1);
    let hits = Mutex::new(0);
    let all: Vec<(&str, u64)> = [("kill", 5), ("tear", 19), ("full", 19)]
        .into_iter()
        .flat_map(|(fault, stride)| chosen(points, stride).into_iter().map(move |own| (fault, own)))
        .collect();
    each(&all, |(fault, point)| {
        if disturbed(fault, *point, &expected) {
            *hits.lock().unwrap() += 1;
        }
    });
    let hits = hits.into_inner().unwrap();
    println!("  {points} points, {} disturbed runs, {hits} of them hit", all.len());
    assert!(hits > all.len() / 3 || is_part(), "{hits} of {}", all.len());
}

/// A call of the scripted model counts 1,020 tokens. The samples take 9 calls, their attribution 3,
/// the report one.
pub(crate) fn a_budget_counts_what_came_before() {
    let folder = fresh();
    let (model, log) = server();
    let with = |tokens| {
        let output = run(folder.path(), &model.url, "budget", tokens);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = with(4_000);
    assert!(code == Some(3) && said.contains("tokens are spent"), "{said}");
    let asked = log.lock().unwrap().len();
    assert!((4..=6).contains(&asked), "{asked} calls");
    // The same budget is used up: nobody is called any more, however often it is tried.
    let finished_before = finished(folder.path(), "evaluation_results", "_eval.json").len();
    assert!(finished_before >= 1);
    let counted = 1_020 * finished_before as u64;
    for _ in 0..2 {
        let (code, said) = with(counted);
        assert!(code == Some(3) && said.contains("tokens are spent"), "{said}");
    }
    assert_eq!(log.lock().unwrap().len(), asked);
    // A larger one goes on, and the sum holds what came before, too; once more it is only read.
    let (code, said) = with(1_000_000);
    assert_eq!(code, Some(0), "{said}");
    let calls = log.lock().unwrap().len();
    let sum = |said: &str| -> u64 {
        let line = said.lines().find(|line| line.contains(" tokens, ")).unwrap();
        line.split(' ').next().unwrap().parse().unwrap()
    };
    // Of samples that were under way when it stopped, what they took is lost.
    let lost = calls as u64 - 13;
    assert!(lost <= 2, "{lost}");
    assert_eq!(sum(&said), 13 * 1_020, "{said}");
    let (code, again) = with(1_000_000);
    assert!(code == Some(0) && again.contains(", 0 ran"), "{again}");
    // What the report took stands in no file.
    assert_eq!(sum(&again), 12 * 1_020);
    assert_eq!(log.lock().unwrap().len(), calls);
}

pub(crate) fn finished_samples_survive_a_power_loss() {
    let folder = fresh();
    let (model, _) = server();
    let first = World::of(&folder.path().join("scenarios"));
    // How much was on the disk when so many samples were said to be finished.
    let said = Mutex::new(vec![(0, 0)]);
    let progress = |own: &Progress| {
        if own.phase == Phase::Samples {
            said.lock().unwrap().push((STEPS.lock().unwrap().len(), own.done));
        }
    };
    STEPS.lock().unwrap().clear();
    evaluated(folder.path(), &model.url, &Disk::seen_by(Fault::None, seen), None, &progress)
        .unwrap();
    let steps = std::mem::take(&mut *STEPS.lock().unwrap());
    let (expected, said) = (files(folder.path()), said.into_inner().unwrap());
    assert_eq!(said.last().unwrap().1, SAMPLES as u64);
    let seeds = seeds(60, 2_000);
    each(&seeds, |seed| {
        let mut random = fastrand::Rng::with_seed(*seed);
        let lost_at = random.usize(..=steps.len());
        let what = format!("seed {seed}, lost at {lost_at} of {}", steps.len());
        let mut world = first.clone();
        steps[..lost_at].iter().for_each(|step| world.step(step));
        let again = fresh();
        fs::remove_dir_all(again.path().join("scenarios")).unwrap();
        fs::create_dir(again.path().join("scenarios")).unwrap();
        laid_out(&world.after_a_loss(&mut random).0, folder.path(), again.path());
        let promised = said.iter().rfind(|(at, _)| *at <= lost_at).unwrap().1;
        let found = finished(again.path(), "evaluation_results", "_eval.json");
        assert!(found.len() as u64 >= promised, "{what}: {} of {promised}", found.len());
        for id in &found {
            for name in [
                format!("samples/{id}.json"),
                format!("execution_traces/{id}_trace.json"),
                format!("evaluation_results/{id}_eval.json"),
            ] {
                let text = fs::read_to_string(iteration(again.path()).join(&name)).unwrap();
                assert_eq!(text, expected[&name], "{what}: {name}");
            }
        }
        if !iteration(again.path()).join("failure_summary.json").is_file() {
            let output = run(again.path(), &model.url, "none", 0);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{what}: {said}");
        }
        let left = files(again.path());
        for (name, text) in &expected {
            assert_eq!(left.get(name), Some(text), "{what}: {name}");
        }
    });
    println!("  {} steps, {} losses", steps.len(), seeds.len());
}
