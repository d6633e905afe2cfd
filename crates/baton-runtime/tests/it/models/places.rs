//! Every fault of a provider at every place where a run asks a model: it ends in bounded time with an
//! error that names the call, or the run continues; and no act is done twice.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_core::config::AgentSettings;
use baton_core::event::Limits as RunLimits;
use baton_core::id::{Timestamp, Tokens};
use baton_core::message::Wire;
use baton_core::thread::compact::{Settings, Strategy};
use baton_core::turn::{Protocol, Room};
use baton_runtime::agent::Mind;
use baton_runtime::board::{Board, NewBoard};
use baton_runtime::drive::{Around, Control, Drive, End, Notice};
use baton_runtime::executor::{Builtin, Executors, Told};
use baton_runtime::load::Environment;
use baton_runtime::model::{Client, Endpoint, Kind, Limits, Secret};
use baton_runtime::store::Disk;
use baton_testkit::{Asked, Model, Script, call, decision, report, text};
use serde_json::{Value, json};

use super::KEY;
use super::faults::faults;

/// Files that the agent reads where its conversation is to be compacted.
const PARTS: usize = 10;
const PLAN: &str =
    r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;
const QUESTION: &str = r#"{"next_agent":"USER","reason":"which?","dev_plan":null,"finish_review_override":null,"question":{"title":"Which way?","text":"A or B","options":[{"option_id":"a","description":"A"},{"option_id":"b","description":"B"}],"recommended_option_id":"a"}}"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Decision,
    FirstCall,
    LaterCall,
    Compaction,
}

const PLACES: [Place; 4] = [Place::Decision, Place::FirstCall, Place::LaterCall, Place::Compaction];

fn is_for_summary(asked: &Asked) -> bool {
    let last = asked.body["messages"].as_array().unwrap().last().unwrap();
    last["content"].as_str().is_some_and(|words| words.starts_with("Your window is nearly full"))
}

impl Place {
    fn is_at(self, asked: &Asked) -> bool {
        let is_main = asked.header("x-baton-stage") == Some("MAIN");
        let is_later = asked.body["messages"].to_string().contains("act-1");
        match self {
            Place::Decision => is_main,
            Place::FirstCall => !is_main && !is_later,
            Place::LaterCall => !is_main && is_later,
            Place::Compaction => is_for_summary(asked),
        }
    }

    /// The model says this where nothing is wrong: DEV acts once, reads, and reports; then a
    /// person is asked.
    fn answer(self, asked: &Asked) -> Value {
        let words = asked.body["messages"].to_string();
        let iteration = asked.header("x-baton-iteration").unwrap();
        if is_for_summary(asked) {
            return text(r#"{"done":"读了几部分"}"#);
        }
        if asked.header("x-baton-stage") == Some("MAIN") {
            return text(&if iteration == "1" {
                decision("DEV", PLAN)
            } else {
                QUESTION.to_owned()
            });
        }
        let last = if self == Place::Compaction { PARTS } else { 1 };
        let part = (1..=last).rev().find(|part| words.contains(&format!("part-{part}.txt")));
        let mut answer = match part {
            None if !words.contains("act-1") => {
                call("Bash", json!({ "command": "echo act-1 >> acts" }))
            }
            Some(part) if part == last => text(&report(1, "PASS", "none")),
            part => call("Read", json!({ "path": format!("part-{}.txt", part.unwrap_or(0) + 1) })),
        };
        answer["prompt_tokens"] = json!(words.chars().count() / 4);
        answer
    }
}

/// The built-in agent for each stage, with calls that are tried once more.
fn executor(model: &Model) -> Builtin {
    let endpoint =
        Endpoint::new(Wire::Chat, Some(model.url.parse().unwrap()), Some(Secret::new(KEY)));
    let limits = Limits { idle: Duration::from_millis(400), retries: 1, ..super::limits() };
    let keys = vec!["done".to_owned()];
    let compaction = Settings { strategy: Strategy::Handover, compact_at: 14_000, keep: 3, keys };
    let mind = Mind {
        client: Client::new(endpoint, limits).unwrap(),
        model: "scripted".to_owned(),
        max_output: Tokens(1_000),
        price: None,
        protocol: Protocol::Native,
        room: Room::new(compaction, baton_core::fold::Prices::default(), false),
        summary_model: None,
        summary_limit: baton_runtime::agent::SUMMARY_LIMIT,
        steps: None,
    };
    let path = std::env::var("PATH").unwrap();
    let environment = Environment::of(&[("PATH", path.as_str())]);
    Builtin { mind, environment, settings: AgentSettings::default() }
}

/// Runs to the end; the end, and what was printed meanwhile.
fn run(folder: &Path, model: &Model) -> (String, String) {
    let project = folder.join("project");
    fs::create_dir_all(&project).unwrap();
    for part in 1..=PARTS {
        let line = |line| format!("{line:03} of part {part}: 第 {line} 行, value_{part}_{line}\n");
        let text: String = (1..=120).map(line).collect();
        fs::write(project.join(format!("part-{part}.txt")), text).unwrap();
    }
    let root = project.join(".baton");
    NewBoard { root: &root, pack: "tdd", language: "en" }.create().unwrap();
    let board = Board::open(&root, &Environment::of(&[])).unwrap();
    let environment = Environment::of(&[]);
    let mut executors = Executors::new(Box::new(executor(model)));
    let mut said = String::new();
    let around = Around {
        board: &board,
        project,
        environment: &environment,
        executors: &mut executors,
        control: Control::default(),
        confined: false,
        disk: Disk::default(),
        clock: || Timestamp(1_800_000_000),
        watch: Box::new(|notice| match notice {
            Notice::Said(words) => said.push_str(&format!("{words}\n")),
            Notice::Heard(Told::Step(words)) => said.push_str(&format!("{words}\n")),
            _ => {}
        }),
        evaluator: None,
        machine: None,
        context_window: &|_| None,
    };
    let mut drive = Drive::start(around, "Make add() safe", RunLimits::of(3, 60)).unwrap();
    let end = match drive.run() {
        Ok(End::Waiting) => "waiting".to_owned(),
        Ok(end) => format!("{end:?}"),
        Err(error) => format!("error: {error}"),
    };
    drop(drive);
    (end, said)
}

fn folder() -> tempfile::TempDir {
    let made = tempfile::TempDir::with_prefix_in("baton-places-", "/dev/shm");
    made.unwrap_or_else(|_| tempfile::TempDir::new().unwrap())
}

/// One run with the fault at its place: once, or each time.
fn check(place: Place, (name, fault, kind): &(&'static str, Script, Kind), once: bool) {
    let what = format!("{place:?}, {name}, once: {once}");
    let (folder, script) = (folder(), fault.clone());
    let hits = std::sync::Arc::new(AtomicUsize::new(0));
    let own = hits.clone();
    let model = Model::faulty(move |_, asked| {
        if place.is_at(asked) && (own.fetch_add(1, Ordering::SeqCst) == 0 || !once) {
            return Err(script.clone());
        }
        Ok(place.answer(asked))
    });
    let start = Instant::now();
    let (end, said) = run(folder.path(), &model);
    let took = start.elapsed();
    let hits = hits.load(Ordering::SeqCst);
    assert!(took < Duration::from_secs(60), "{what}: {took:?}");
    let acts = fs::read_to_string(folder.path().join("project/acts")).unwrap_or_default();
    let acts = acts.matches("act-1").count();
    let requests = model.requests();
    let told = requests.last().unwrap().to_string();
    let what = format!("{what}: {end}; {hits} hits, {acts} acts, {said}");
    // A fault that may pass is met twice, or once and then the answer; others are not tried again.
    let may_pass = matches!(
        kind,
        Kind::Connection | Kind::Timeout | Kind::RateLimited | Kind::Provider | Kind::Malformed
    );
    // Without its temperature a summary is asked for once more; of a too long one less is sent.
    let most = if place == Place::Compaction {
        4
    } else if may_pass {
        2
    } else {
        1
    };
    assert!(hits > usize::from(may_pass && !once), "{what}");
    assert!(hits <= most || once && may_pass, "{what}");
    assert!(requests.len() < 30, "{what}: {} requests", requests.len());
    let is_over = once && may_pass;
    let is_named = |text: &str| {
        let tries = if may_pass { "after 2 tries" } else { "" };
        let is_fit = *kind != Kind::ContextTooLong;
        if is_fit {
            text.contains("openai-chat (scripted): ") && text.contains(tries)
        } else {
            text.contains("does not fit")
        }
    };
    match place {
        // What the stage came to is told to MAIN; where the user has to act, the run stops.
        Place::FirstCall | Place::LaterCall if *kind != Kind::Denied => {
            assert_eq!(end, "waiting", "{what}");
            assert_eq!(is_over, !is_named(&told), "{what}: {told}");
        }
        Place::Decision | Place::FirstCall | Place::LaterCall => {
            assert!(if is_over { end == "waiting" } else { is_named(&end) }, "{what}");
        }
        // Without a summary the recent part stays.
        Place::Compaction => {
            assert_eq!(end, "waiting", "{what}");
            assert!(!said.contains("keeping recent history only") || !is_over, "{what}");
            assert!(said.contains("keeping recent history only") || once, "{what}");
        }
    }
    let is_done = match place {
        Place::Decision | Place::FirstCall => is_over,
        Place::LaterCall | Place::Compaction => true,
    };
    assert_eq!(acts, usize::from(is_done), "{what}");
    assert!(!what.contains(KEY) && !told.contains(KEY), "{what}: the key is in it");
}

#[test]
fn every_fault_at_every_place_of_a_run_ends_or_goes_on() {
    let faults = faults(Wire::Chat);
    let cases: Vec<_> = PLACES
        .iter()
        .flat_map(|place| {
            faults.iter().flat_map(move |fault| [(place, fault, true), (place, fault, false)])
        })
        .collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some((place, fault, once)) =
                    cases.get(next.fetch_add(1, Ordering::SeqCst))
                {
                    check(**place, fault, *once);
                }
            });
        }
    });
}
