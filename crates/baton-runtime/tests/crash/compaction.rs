//! An agent whose conversation outgrows its window in the middle of a stage: folded, handed over, and
//! killed, refused space or a sync wherever that touches the disk. What is there afterwards is the old history or the new one,
//! and the board comes out the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use baton_core::fold;
use baton_core::id::Tokens;
use baton_core::message::{self, Message, Part, Request, Wire};
use baton_core::thread::Results;
use baton_core::thread::compact::{Settings, Strategy};
use baton_core::turn::{Conversation, Do, Layers, Limits, Protocol, Room, Step};
use baton_runtime::executor::Builtin;
use baton_runtime::model::{Client, Endpoint, Limits as CallLimits, Mode};
use baton_runtime::store::Disk;
use baton_runtime::tool;
use baton_runtime::transcript::Transcript;
use serde_json::{Value, json};

use crate::agent::with;
use crate::reference::{FINISHED, folder, make};
use crate::sweep::{among, child, chosen, each, files, is_whole};
use baton_testkit::{Asked, Model, saying, text};

const STEPS: usize = 20;
const TASK: &str = "The task in force:";

/// A small window: results are folded in it, and then the oldest steps leave.
fn room() -> Room {
    let keys = vec!["done".to_owned()];
    let compaction = Settings { strategy: Strategy::Handover, compact_at: 10_000, keep: 3, keys };
    let folding = fold::Settings { fold_at: 2_500, ..fold::Settings::default() };
    Room { folding, compaction, results: Results::Plain, ..Room::default() }
}

/// Each of them can be done again without harm.
fn step(iteration: u32, number: usize) -> (&'static str, Value) {
    let name = format!("agent-{iteration}.rs");
    match number {
        5 | 17 => {
            let line = format!("// step {number}, 第 {iteration} 轮");
            let command = format!("grep -q '{line}' {name} || echo '{line}' >> {name}");
            ("Bash", json!({ "command": command }))
        }
        number => ("Read", json!({ "path": format!("part-{number}.txt") })),
    }
}

/// The number of the step that the request ends with; a step that may not have happened is not done.
fn last_step(request: &Value) -> usize {
    let messages = request["messages"].as_array().unwrap();
    let number = |words: &str| words.strip_prefix("Step ")?.split('.').next()?.parse().ok();
    let at =
        messages.iter().rposition(|own| own["role"] == "assistant" && own["tool_calls"].is_array());
    let Some(at) = at else { return 0 };
    let number: usize = number(messages[at]["content"].as_str().unwrap()).unwrap();
    let is_unknown = messages[at + 1..].iter().any(|own| own.to_string().contains("UNKNOWN"));
    number - usize::from(is_unknown)
}

fn answer(asked: &Asked) -> Value {
    let iteration = asked.header("x-baton-iteration").unwrap().parse().unwrap();
    let last = asked.body["messages"].as_array().unwrap().last().unwrap();
    let words = last["content"].as_str().unwrap();
    let number = last_step(&asked.body);
    let mut answer = match number + 1 {
        _ if words.starts_with("Your window is nearly full") => {
            text(&json!({ "done": format!("{number} 步") }).to_string())
        }
        next if next > STEPS => {
            text(&format!("iteration: {iteration}\nverdict: PASS\nblockers: none\n\nM1-T1\n"))
        }
        next => {
            let (tool, arguments) = step(iteration, next);
            let thoughts: String =
                (0..60).map(|n| format!("thought {next}-{n}, 第 {n} 个想法; ")).collect();
            saying(&format!("Step {next}. {thoughts}"), tool, arguments)
        }
    };
    answer["prompt_tokens"] = json!(asked.body.to_string().chars().count() / 4);
    answer
}

/// The agent, with a model of its own in this process. What it is asked is written down where no
/// fault reaches.
pub(crate) fn executor(folder: &Path) -> Builtin {
    let log = folder.join("requests");
    let model = Model::answering(move |_, asked| {
        let mut file = fs::File::options().create(true).append(true).open(&log).unwrap();
        writeln!(file, "{}", asked.body["messages"]).unwrap();
        answer(asked)
    });
    with(model, room())
}

fn prepare(folder: &Path) {
    make(folder);
    for part in 1..=STEPS {
        let line = |line| format!("{line:02} of part {part}: 第 {line} 行, value_{part}_{line}\n");
        let text: String = (1..=40).map(line).collect();
        fs::write(folder.join(format!("project/part-{part}.txt")), text).unwrap();
    }
}

fn board(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = files(folder);
    found.retain(|path, _| !path.starts_with(".baton/transcripts"));
    found
}

/// The run without a fault: its files, its points, and those around each fold and compaction.
fn undisturbed() -> (BTreeMap<PathBuf, String>, u64, BTreeSet<u64>) {
    let folder = folder();
    prepare(folder.path());
    let output = child(folder.path(), "compact-tell", 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(FINISHED), "{said}");
    let points: u64 = said.lines().last().unwrap().trim().parse().unwrap();
    let mut near = BTreeSet::new();
    for line in said.lines().filter_map(|line| line.strip_prefix("heard ")) {
        let (at, words) = line.split_once(' ').unwrap();
        let at: u64 = at.parse().unwrap();
        if words.starts_with("compact") || words.ends_with("were folded") {
            near.extend((at.saturating_sub(1)..at + 3).filter(|at| *at < points));
        }
    }
    let steps = histories(folder.path());
    assert_eq!(steps.len(), 3, "three stages by the agent");
    for own in &steps {
        assert!(own.folds > 0 && own.compactions > 1, "{} and {}", own.folds, own.compactions);
    }
    assert_sent(folder.path(), &steps, "undisturbed");
    (board(folder.path()), points, near)
}

/// A transcript as it is read from the disk.
struct History {
    folds: usize,
    compactions: usize,
    /// As the model was last asked, and as it is now.
    asked: Vec<Message>,
    now: Vec<Message>,
}

/// Every conversation that was begun, from copies: opening one cuts off what is torn.
fn histories(folder: &Path) -> Vec<History> {
    let transcripts = folder.join("project/.baton/transcripts");
    let copies = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for run in fs::read_dir(transcripts).into_iter().flatten().flatten() {
        for stage in fs::read_dir(run.path()).unwrap().flatten() {
            if !Transcript::is_begun(&stage.path()) {
                continue;
            }
            let copy = copies.path().join(found.len().to_string());
            fs::create_dir(&copy).unwrap();
            fs::copy(stage.path().join("steps.log"), copy.join("steps.log")).unwrap();
            found.push(history(&copy));
        }
    }
    found
}

fn history(folder: &Path) -> History {
    let opened = Transcript::open(folder, Disk::default()).unwrap();
    let limits = Limits { steps: 200, tokens: None };
    let tools = tool::offered(opened.head.writes, true, None, Default::default());
    let mut own = Conversation::new(Protocol::Native, tools, limits, room());
    let (mut folds, mut compactions, mut asked) = (0, 0, Vec::new());
    let mut task = String::new();
    for step in &opened.steps {
        match step {
            Step::Asked { text, .. } => task.clone_from(text),
            Step::Answered { .. } => asked = own.messages(),
            Step::Folded { .. } => folds += 1,
            Step::Compacted(_) => compactions += 1,
            _ => {}
        }
        own.apply(step).unwrap();
        assert_one_history(&own, &task, compactions);
    }
    History { folds, compactions, asked, now: own.messages() }
}

/// The old one or the new one: the task stands in it once, and a list that is sent is valid.
fn assert_one_history(own: &Conversation, task: &str, compactions: usize) {
    let messages = own.messages();
    if !matches!(own.next(), Do::Read(_) | Do::Act(_) | Do::Settle(_) | Do::End(_)) {
        message::check(&messages).unwrap();
    }
    let texts = messages.iter().flat_map(|message| &message.parts);
    let texts: Vec<&str> = texts
        .filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let with_task: Vec<&&str> = texts.iter().filter(|text| text.contains(task)).collect();
    assert_eq!(with_task.len(), 1, "{texts:?}");
    assert_eq!(with_task[0].contains(TASK), compactions > 0, "{texts:?}");
    let is_whole = texts.iter().any(|text| text.starts_with("Step 1. "));
    let is_begun = texts.iter().any(|text| text.starts_with("Step "));
    assert!(is_whole == (compactions == 0) || !is_begun, "{texts:?}");
    let states = texts.iter().filter(|text| text.contains("步\"}")).count();
    assert_eq!(states, usize::from(compactions > 0), "{texts:?}");
}

/// What is on the disk gives the messages that were sent, byte by byte.
fn assert_sent(folder: &Path, histories: &[History], what: &str) {
    let log = fs::read_to_string(folder.join("requests")).unwrap();
    let sent: BTreeSet<String> = log
        .lines()
        .map(|line| {
            let messages: Vec<Value> = serde_json::from_str(line).unwrap();
            json!(messages[1..]).to_string()
        })
        .collect();
    for own in histories {
        assert!(sent.contains(&on_the_wire(&own.asked)), "{what}: {:?}", own.asked);
        assert!(own.now.len() > own.asked.len() - 1);
    }
}

fn on_the_wire(messages: &[Message]) -> String {
    let endpoint =
        Endpoint::new(Wire::Chat, Some("http://127.0.0.1:1/v1".parse().expect("an address")), None);
    let client = Client::new(endpoint, CallLimits::default()).unwrap();
    let layers = Layers {
        facts: String::new(),
        model: "scripted".to_owned(),
        max_output: Tokens(1_000),
        cache_key: String::new(),
        system: "the first message".to_owned(),
        rules: String::new(),
    };
    let limits = Limits { steps: 1, tokens: None };
    let empty = Conversation::new(Protocol::Native, Vec::new(), limits, room());
    let request = Request { messages: messages.to_vec(), ..empty.request(&layers) };
    let body: Value = serde_json::from_slice(&client.body(&request, Mode::Stream)).unwrap();
    json!(body["messages"].as_array().unwrap()[1..]).to_string()
}

pub(crate) fn disturbed_at_every_point_of_a_compaction() {
    let (expected, points, near) = undisturbed();
    // Around a fold or a compaction every point, and the middle of every write; by default in the
    // first of the stages.
    let most = if is_whole() { near.len() } else { 14 };
    let near = among(near.into_iter().take(most), 1);
    let mut all: BTreeSet<(u64, &str)> = BTreeSet::new();
    for (fault, stride) in [("tear", 1), ("kill", 1), ("full", 5), ("sync", 5)] {
        let stride = if is_whole() { 1 } else { stride };
        all.extend(near.iter().step_by(stride).map(|at| (*at, fault)));
    }
    all.extend(chosen(points, 223).into_iter().map(|at| (at, "kill")));
    let all: Vec<(u64, &str)> = all.into_iter().collect();
    each(&all, |(point, fault)| {
        let what = format!("{fault} at {point} of {points}");
        let folder = folder();
        prepare(folder.path());
        let output = child(folder.path(), &format!("compact-{fault}"), *point);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_hit = match *fault {
            "full" => said.contains("No space left on device"),
            "sync" => said.contains("cannot sync"),
            _ => std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9),
        };
        // Only a write has a middle; a sync that fails stops what comes after it.
        assert!(is_hit || *fault == "tear", "{what}: {said}");
        histories(folder.path());
        let output = child(folder.path(), "compact-none", 0);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {said}");
        let found = board(folder.path());
        for (path, text) in &expected {
            assert_eq!(found.get(path), Some(text), "{what}: {path:?}");
        }
        assert_eq!(found.len(), expected.len(), "{what}");
        assert_sent(folder.path(), &histories(folder.path()), &what);
    });
    println!(
        "disturbed {} times in {points} points, {} of them around a fold or a compaction: the old history or the new one, and the same board",
        all.len(),
        near.len()
    );
}
