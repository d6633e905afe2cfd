//! A compaction that somebody or something holds up: a summary that never comes, a person who does
//! not want to wait, a process that goes on from the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_core::config::AgentSettings;
use baton_core::id::Tokens;
use baton_core::message::Wire;
use baton_core::thread::compact::{Settings, Strategy};
use baton_core::turn::{Ending, Limits, Protocol, Room};
use baton_runtime::agent::{Agent, Heard, Mind, SUMMARY_LIMIT, Setup};
use baton_runtime::approve::{Approvals, Mode};
use baton_runtime::executor::{Bench, workshop};
use baton_runtime::load::Environment;
use baton_runtime::model::{Client, Endpoint, Limits as CallLimits, Tags};
use baton_runtime::sandbox::Interrupt;
use baton_runtime::store::Disk;
use baton_testkit::{Asked, Model, Place, call, silence, text};
use serde_json::{Value, json};

const LAST: usize = 10;
/// No turn takes so long.
const TURN: Duration = Duration::from_secs(300);
const STATE: &str = r#"{"done":"读了几部分","open":"the rest"}"#;

fn is_for_summary(asked: &Asked) -> bool {
    let last = asked.body["messages"].as_array().unwrap().last().unwrap();
    last["content"].as_str().is_some_and(|words| words.starts_with("Your window is nearly full"))
}

/// Reads one part after the other, by what it said last; sums up in the way that is given.
fn model(summary: impl Fn() -> Value + Send + Sync + 'static) -> Model {
    Model::answering(move |_, asked| {
        if is_for_summary(asked) {
            return summary();
        }
        let words = asked.body["messages"].to_string();
        let part = (1..=LAST).rev().find(|part| words.contains(&format!("part-{part}.txt")));
        let mut answer = match part.unwrap_or(0) + 1 {
            part if part > LAST => text("All parts were read."),
            part => call("Read", json!({ "path": format!("part-{part}.txt") })),
        };
        answer["prompt_tokens"] = json!(asked.body.to_string().chars().count() / 4);
        answer
    })
}

fn place(model: Model) -> Place {
    // No program runs in it.
    let place = Place::new("").with_model(model);
    for part in 1..=LAST {
        let line = |line| format!("{line:03} of part {part}: 第 {line} 行, value_{part}_{line}\n");
        let text: String = (1..=120).map(line).collect();
        place.write(&format!("project/part-{part}.txt"), text);
    }
    place
}

fn setup(place: &Place, summary_limit: Duration) -> Setup {
    let endpoint = Endpoint::new(Wire::Chat, Some(place.model().url.parse().unwrap()), None);
    let keys = ["done", "open"].map(str::to_owned).to_vec();
    let strategy = Strategy::Handover;
    let compaction = Settings { strategy, compact_at: 14_000, keep: 3, keys };
    let mind = Mind {
        client: Client::new(endpoint, CallLimits::default()).unwrap(),
        model: "scripted".to_owned(),
        max_output: Tokens(1_000),
        price: None,
        protocol: Protocol::Native,
        room: Room::new(compaction, baton_core::fold::Prices::default(), false),
        summary_model: None,
        summary_limit,
        steps: None,
    };
    let path = std::env::var("PATH").unwrap();
    let environment = Environment::of(&[("PATH", path.as_str())]);
    let bench = Bench {
        project: &place.path("project"),
        board: None,
        confined: false,
        writes: true,
        commands_write: true,
        mark: "talk",
        view: None,
        temporary: place.root(),
        approvals: Approvals { mode: Mode::Auto, person: None },
    };
    Setup {
        facts: Vec::new(),
        conduct: None,
        turns: None,
        mind,
        tags: Tags::default(),
        cache_key: "talk".to_owned(),
        folder: ".".to_owned(),
        workshop: workshop(&bench, &environment, &AgentSettings::default()).unwrap(),
        limits: Limits { steps: 100, tokens: None },
        cost_limit: None,
    }
}

fn begin(place: &Place, summary_limit: Duration) -> Agent {
    let folder = place.path("transcript");
    let mut agent = Agent::begin(setup(place, summary_limit), &folder, Disk::default()).unwrap();
    agent.ask("Read all parts. 全部读完。").unwrap();
    agent
}

fn resume(place: &Place) -> Agent {
    let folder = place.path("transcript");
    Agent::resume(setup(place, SUMMARY_LIMIT), &folder, Disk::default()).unwrap()
}

fn steps(place: &Place) -> String {
    place.read("transcript/steps.log")
}

/// Runs, and what was said meanwhile.
fn run(agent: &mut Agent, interrupt: &Interrupt) -> (Option<Ending>, Vec<String>) {
    let mut said = Vec::new();
    let ending = agent.run(TURN, interrupt, &mut |heard| {
        if let Heard::Said(words) = heard {
            said.push(words);
        }
    });
    (ending.unwrap(), said)
}

fn done() -> Option<Ending> {
    Some(Ending::Done("All parts were read.".to_owned()))
}

#[test]
fn a_summary_that_does_not_come_in_time_is_done_without() {
    let place = place(model(silence));
    let mut agent = begin(&place, Duration::from_millis(200));
    let (ending, said) = run(&mut agent, &Interrupt::default());
    assert_eq!(ending, done(), "{said:?}");
    let late = "Summary generation timed out, keeping recent history only.".to_owned();
    assert!(said.contains(&late), "{said:?}");
    let sent = serde_json::to_string(&agent.conversation().messages()).unwrap();
    assert!(sent.contains(&format!("left it. {late}]")), "{sent}");
    assert!(sent.contains("part-1.txt 1-120") && sent.contains("全部读完"), "{sent}");
}

#[test]
fn a_person_who_stops_while_it_sums_up_finds_everything_as_it_was() {
    let interrupt = Interrupt::default();
    let (stops, is_first) = (interrupt.clone(), Arc::new(AtomicBool::new(true)));
    let place = place(model(move || {
        if is_first.swap(false, Ordering::SeqCst) {
            stops.at_once();
            return silence();
        }
        text(STATE)
    }));
    let mut agent = begin(&place, SUMMARY_LIMIT);
    let before = {
        let (ending, _) = run(&mut agent, &interrupt);
        assert_eq!(ending, None, "it was stopped");
        agent.conversation().messages()
    };
    assert!(!steps(&place).contains("\"step\":\"compacted\""));
    drop(agent);
    let mut agent = resume(&place);
    assert_eq!(agent.conversation().messages(), before, "the old history, whole");
    let (ending, said) = run(&mut agent, &Interrupt::default());
    assert_eq!(ending, done());
    assert!(!said.iter().any(|words| words.contains("Summary generation")), "{said:?}");
    assert!(steps(&place).contains("\"step\":\"compacted\""));
}

#[test]
fn a_compacted_conversation_is_the_same_when_it_is_read_from_the_disk() {
    for summary in [STATE, "no summary"] {
        let place = place(model(move || text(summary)));
        let mut agent = begin(&place, SUMMARY_LIMIT);
        assert_eq!(run(&mut agent, &Interrupt::default()).0, done());
        assert!(steps(&place).contains("\"step\":\"compacted\""));
        let own = agent.conversation();
        let (messages, size, usage) = (own.messages(), own.size(), own.usage);
        drop(agent);
        let again = resume(&place);
        let own = again.conversation();
        assert_eq!((own.messages(), own.size(), own.usage), (messages, size, usage));
    }
}
