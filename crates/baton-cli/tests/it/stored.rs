//! Blackboards that an earlier version wrote (`stored/`): this version reads them with every command
//! that only reads, and continues their runs without repeating an act.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use baton_testkit::{Model, Place, call, text};
use serde_json::{Value, json};

/// The folders of every version, in order.
fn stored() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stored");
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
        folders.sort();
        folders
    };
    folders(&root).iter().flat_map(|version| folders(version)).collect()
}

/// A copy of a stored project, in a place of its own.
struct Copy {
    place: Place,
}

impl Deref for Copy {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

fn copy_of(from: &Path) -> Copy {
    let copy = Copy { place: Place::new(crate::BATON).at("project") };
    fs::create_dir_all(copy.path("home/.config/baton")).unwrap();
    for (name, content) in files(from) {
        let to = copy.path("project").join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, content).unwrap();
    }
    copy
}

/// The copy of a board of 0.1.
fn of_0_1(name: &str) -> Copy {
    copy_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stored/0.1").join(name))
}

/// Every file beneath a folder, with its content.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                open.push(entry);
            } else {
                let name = entry.strip_prefix(root).unwrap().to_owned();
                found.insert(name, fs::read(&entry).unwrap());
            }
        }
    }
    found
}

impl Copy {
    /// Continues with this model.
    fn continues(&self, model: &Model, args: &[&str], code: i32) -> String {
        let how = ["--provider", "openai-chat", "--base-url", &model.url, "--model", "scripted"];
        self.expect(&[args, &how].concat(), code)
    }

    fn acts(&self) -> String {
        self.read("project/acts.log")
    }

    /// The last event of the last run.
    fn last_event(&self) -> String {
        let log: Value = serde_json::from_str(&self.expect(&["log", "--json"], 0)).unwrap();
        let last = log["records"].as_array().unwrap().last().unwrap();
        last["event"].as_str().unwrap().to_owned()
    }

    /// The last run is finished, and every act has run once.
    fn is_finished_with(&self, acts: &str) {
        assert_eq!(self.last_event(), "finished");
        assert!(self.read("project/.baton/memory/project_history.md").contains("FINISH"));
        assert_eq!(self.acts(), acts);
    }
}

fn decision(next: &str, plan: &Value) -> Value {
    let mut whole = json!({ "next_agent": next, "reason": "M1-T1 is next", "dev_plan": plan, "finish_review_override": null });
    if next != "FINISH" {
        whole["task"] = json!(format!("M1-T1: the part of {next}. Minimum coverage 80%."));
    }
    text(&whole.to_string())
}

fn report(iteration: u32, more: &str) -> Value {
    text(&format!("iteration: {iteration}\nverdict: PASS\nblockers: none\n{more}\nTasks: M1-T1\n"))
}

fn tested(iteration: u32) -> Value {
    report(
        iteration,
        "test command: sh tests/add.sh\nfailed cases: none\ncoverage: 90%\n\nM1-T1 is tested.\n",
    )
}

/// After TEST's pass: review and finish, from this iteration on.
fn to_the_end(iteration: u32) -> Vec<Value> {
    vec![
        decision("REVIEW", &json!("update M1-T1 status to DONE")),
        report(iteration, ""),
        decision("FINISH", &json!("update M1-T1 status to VERIFIED")),
        report(iteration + 1, ""),
        decision("FINISH", &Value::Null),
    ]
}

fn messages(request: &Value) -> String {
    request["messages"].to_string()
}

/// The results of tools that a request shows.
fn results(request: &Value) -> Vec<String> {
    let all = request["messages"].as_array().unwrap().iter();
    let results = all.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].to_string()).collect()
}

/// Resumes a board with these answers, each of which is asked for once.
fn resumed(name: &str, answers: Vec<Value>, args: &[&str]) -> (Copy, Vec<Value>) {
    let copy = of_0_1(name);
    let acts = copy.acts();
    let count = answers.len();
    let model = Model::start(answers);
    copy.continues(&model, args, 0);
    copy.is_finished_with(&acts);
    let requests = model.requests();
    assert_eq!(requests.len(), count, "{name}");
    (copy, requests)
}

#[test]
fn commands_that_only_read_work_on_every_stored_board_and_change_nothing() {
    for from in stored() {
        let copy = copy_of(&from);
        let before = files(&copy.path("project"));
        let is_finished = from.file_name().unwrap().to_str().unwrap().starts_with("finished");
        for args in [
            &["status"][..],
            &["status", "--json"],
            &["log"],
            &["log", "--lines"],
            &["log", "--json"],
            &["diff"],
            &["history", "check"],
            &["history", "show"],
            &["history", "window"],
            &["plan", "check"],
            &["pack", "check"],
            &["prompt", "main"],
            &["doctor"],
        ] {
            let said = copy.expect(args, 0);
            assert!(!said.contains("changed since"), "{}: {args:?}: {said}", from.display());
        }
        for file in before.keys().filter_map(|path| path.to_str()) {
            let name = file.strip_prefix(".baton/reports/report_");
            if let Some(agent) = name.and_then(|name| name.strip_suffix(".md")) {
                copy.expect(&["report", "check", file, "--agent", &agent.to_uppercase()], 0);
            }
        }
        assert_eq!(copy.last_event() == "finished", is_finished, "{}", from.display());
        assert_eq!(files(&copy.path("project")), before, "{}", from.display());
    }
}

#[test]
fn a_finished_run_of_0_1_stays_finished_and_another_one_begins_after_it() {
    let copy = of_0_1("finished");
    assert!(copy.expect(&["resume"], 2).contains("run-0001 is finished"));
    assert!(copy.expect(&["diff"], 0).contains("+[ $# = 2 ] || exit 1"));
    let acts = copy.acts();
    let plan = json!({ "replace": "## Milestone M1: Again\n\n### M1-T1: once more\n- status: IN_PROGRESS\n- test_required: true\n" });
    let mut answers = vec![decision("TEST", &plan), tested(4)];
    answers.extend(to_the_end(5));
    let model = Model::start(answers);
    copy.continues(&model, &["run", "Once more"], 0);
    copy.is_finished_with(&acts);
    let history = copy.read("project/.baton/memory/project_history.md");
    assert!(history.contains("Once more\n\n## Iteration 4"), "{history}");
}

#[test]
fn a_question_of_0_1_is_answered() {
    let copy = of_0_1("question");
    let acts = copy.acts();
    let model = Model::start(to_the_end(3));
    assert!(copy.continues(&model, &["resume"], 10).contains("Which way?"));
    copy.continues(&model, &["answer", "exit", "--comment", "as always"], 0);
    copy.is_finished_with(&acts);
    let requests = model.requests();
    assert_eq!(requests.len(), 5);
    assert!(messages(&requests[0]).contains("as always"), "MAIN reads the answer");
}

#[test]
fn a_decision_that_0_1_refused_is_asked_for_again_with_its_error() {
    let plan = json!({ "replace": "## Milestone M1: Safe\n\n### M1-T1: add\n- status: IN_PROGRESS\n- test_required: true\n" });
    let mut answers = vec![decision("TEST", &plan), tested(1)];
    answers.extend(to_the_end(2));
    let (_, requests) = resumed("refused_decision", answers, &["resume"]);
    assert!(messages(&requests[0]).contains("before the JSON"), "{}", messages(&requests[0]));
}

#[test]
fn a_sub_loop_of_0_1_continues_after_its_last_step() {
    let mut answers = vec![report(1, ""), tested(1)];
    answers.extend(to_the_end(2));
    let (copy, requests) = resumed("subloop", answers, &["resume"]);
    // DEV continues its conversation: its act and the result of it are there.
    let seen = messages(&requests[0]);
    assert!(seen.contains("DEV repairs add") && seen.contains("call_"), "{seen}");
    let history = copy.read("project/.baton/memory/project_history.md");
    assert!(history.contains("subloop: success=true"), "{history}");
}

#[test]
fn a_stage_of_0_1_continues_after_its_last_step() {
    let mut answers = vec![tested(1)];
    answers.extend(to_the_end(2));
    let (_, requests) = resumed("stage_whole", answers, &["resume"]);
    let results = results(&requests[0]);
    assert!(results.len() == 4 && !results[3].contains("UNKNOWN"), "{results:?}");
}

#[test]
fn an_act_of_0_1_without_a_result_is_unknown_and_is_not_run_again() {
    let mut answers = vec![tested(1)];
    answers.extend(to_the_end(2));
    let (_, requests) = resumed("stage_unknown", answers, &["resume"]);
    let results = results(&requests[0]);
    assert!(results.len() == 4 && results[3].contains("UNKNOWN"), "{results:?}");
}

#[test]
fn a_stage_of_0_1_that_the_provider_stopped_is_run_to_its_end() {
    for name in ["denied", "quota"] {
        let mut answers = vec![tested(1)];
        answers.extend(to_the_end(2));
        resumed(name, answers, &["resume"]);
    }
}

#[test]
fn a_run_of_0_1_that_a_limit_stopped_continues_with_a_higher_one() {
    let copy = of_0_1("limit");
    let model = Model::start(vec![text("never asked")]);
    copy.continues(&model, &["resume"], 4);
    assert_eq!(model.requests().len(), 0);
    resumed("limit", to_the_end(2), &["resume", "--max-iterations", "9"]);
}

#[test]
fn an_evaluation_of_0_1_continues_with_the_samples_that_have_no_result() {
    let copy = of_0_1("evaluation");
    let acts = copy.acts();
    let config = copy.path("home/.config/baton/baton.toml");
    fs::write(config, "[approval]\nby_yes = true\n[scenario]\njobs = 1\n").unwrap();
    let samples = |request: &Value| {
        let all = request["messages"].as_array().unwrap().iter();
        let first = all.clone().find(|own| own["role"] == "user").unwrap()["content"].as_str();
        let first = first.filter(|first| first.len() == 2).map(str::to_owned);
        (first, all.clone().any(|own| own["role"] == "tool"))
    };
    let team = [
        decision("FINISH", &json!("update M1-T1 status to VERIFIED")),
        report(3, ""),
        decision("FINISH", &Value::Null),
    ];
    let model = Model::answering(move |number, asked| match samples(&asked.body) {
        (Some(_), true) => text("done"),
        (Some(_), false) => call("mark", json!({})),
        // The two samples that are left take two requests each.
        (None, _) => team[number - 4].clone(),
    });
    copy.continues(&model, &["resume", "--yes"], 0);
    copy.is_finished_with(&acts);
    let asked: Vec<String> =
        model.requests().iter().filter_map(|request| samples(request).0).collect();
    assert_eq!(asked, ["s3", "s3", "s4", "s4"]);
}

#[test]
fn a_report_that_0_1_refused_is_corrected_at_resume() {
    let mut answers = vec![tested(1)];
    answers.extend(to_the_end(2));
    let (copy, requests) = resumed("refused_report", answers, &["resume"]);
    // The model is asked again: it sees its acts, the refused answer and the exact error.
    let seen = messages(&requests[0]);
    for part in [
        "TEST writes the test",
        "- [impl] src/add.sh:2 it is not done",
        "verdict `PASS` with a blocker: `src/add.sh:2 it is not done`",
    ] {
        assert!(seen.contains(part), "{part} is missing: {seen}");
    }
    assert!(copy.read("project/.baton/reports/report_test.md").contains("coverage: 90%"));
}

#[test]
fn a_decision_that_0_1_refused_is_shown_to_who_corrects_it() {
    let plan = json!({ "replace": "## Milestone M1: Safe\n\n### M1-T1: add\n- status: IN_PROGRESS\n- test_required: true\n" });
    let mut answers = vec![decision("TEST", &plan), tested(1)];
    answers.extend(to_the_end(2));
    let (_, requests) = resumed("refused_decision", answers, &["resume"]);
    let mut sent = requests[0]["messages"].as_array().unwrap().iter();
    let is_refused =
        |own: &Value| own["role"] == "assistant" && own["content"] == "Here is my decision: DEV";
    assert!(sent.any(is_refused), "{}", messages(&requests[0]));
}

#[test]
fn pack_use_replaces_unmodified_files_of_0_1_and_keeps_changed_ones_aside() {
    let copy = of_0_1("finished");
    let prompt = |agent: &str| format!("memory/prompts/subagent_prompt_{agent}.md");
    let board = |name: &str| format!("project/.baton/{name}");
    // One that this version would write differently, whatever it has changed: another language's.
    let other = of_0_1("finished_zh").read(&board(&prompt("dev")));
    fs::write(copy.path(&board(&prompt("dev"))), other).unwrap();
    let changed = copy.read(&board(&prompt("review"))) + "\nLook twice.\n";
    fs::write(copy.path(&board(&prompt("review"))), &changed).unwrap();
    let said = copy.expect(&["doctor"], 0);
    assert!(said.contains("from baton 0.1; `baton pack use tdd` updates"), "{said}");

    let said = copy.expect(&["pack", "use", "tdd"], 0);
    let replaced = format!("{} was an unmodified copy from baton 0.1: replaced", prompt("dev"));
    assert!(said.contains(&replaced), "{said}");
    assert!(said.contains(&format!("{} had been changed: kept as", prompt("review"))), "{said}");
    let aside = files(&copy.path(&board("memory/aside")));
    let aside: Vec<(&Path, &[u8])> =
        aside.iter().map(|(path, content)| (path.as_path(), content.as_slice())).collect();
    let kept = Path::new("tdd-en/prompts/subagent_prompt_review.md");
    assert_eq!(aside, [(kept, changed.as_bytes())]);
    let shown = copy.expect(&["pack", "show", "tdd", "--prompt", "DEV"], 0);
    assert_eq!(copy.read(&board(&prompt("dev"))), shown);
    assert!(!copy.expect(&["doctor"], 0).contains("pack files"));
}

/// The paths of an object's keys, down to what is not an object that merges.
fn fields(value: &Value, path: &str, out: &mut Vec<String>) {
    let Some(object) = value.as_object().filter(|_| baton_core::policy::merges(path)) else {
        return;
    };
    for (key, value) in object {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        out.push(path.clone());
        fields(value, &path, out);
    }
}

#[test]
fn a_key_that_a_policy_of_0_1_leaves_out_comes_from_the_pack() {
    let environment = baton_runtime::load::Environment::of(&[]);
    for name in ["finished", "finished_zh", "evaluation"] {
        let copy = of_0_1(name);
        let root = copy.path("project/.baton");
        let file = root.join("memory/verification_policy.json");
        let stored: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        fs::write(&file, "{}").unwrap();
        let opened = || {
            let board = baton_runtime::board::Board::open(&root, &environment);
            serde_json::to_value(board.unwrap().pack.policy).unwrap()
        };
        let pack = opened();
        let mut paths = Vec::new();
        fields(&stored, "", &mut paths);
        assert!(paths.len() > 40 && paths.contains(&"context.orders.fixer".to_owned()));
        for path in paths {
            let mut without = stored.clone();
            let pointer = format!("/{}", path.replace('.', "/"));
            let (above, key) = pointer.rsplit_once('/').unwrap();
            let above = without.pointer_mut(above).unwrap().as_object_mut().unwrap();
            above.remove(key).unwrap();
            fs::write(&file, without.to_string()).unwrap();
            assert_eq!(opened().pointer(&pointer), pack.pointer(&pointer), "{name}: {path}");
        }
    }
}

#[test]
fn a_run_of_0_1_continues_with_changed_rules_once_they_are_adopted() {
    for name in ["question", "own_policy"] {
        adopts_a_gate(name);
    }
}

fn adopts_a_gate(name: &str) {
    let copy = of_0_1(name);
    let acts = copy.acts();
    let file = copy.path("project/.baton/memory/verification_policy.json");
    let mut policy: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    // TEST has passed without this gate.
    policy["gates"] = json!([{ "on": "TEST", "run": "true" }]);
    fs::write(&file, policy.to_string()).unwrap();
    copy.expect(&["trust"], 0);
    for args in [["status"], ["log"], ["diff"]] {
        let said = copy.expect(&args, 0);
        assert!(said.contains("memory/verification_policy.json"), "{said}");
    }
    let model = Model::start(to_the_end(3));
    assert!(copy.continues(&model, &["resume"], 2).contains("`baton resume --adopt`"));
    assert!(copy.continues(&model, &["answer", "exit"], 2).contains("`baton resume --adopt`"));
    copy.continues(&model, &["resume", "--adopt"], 10);
    copy.continues(&model, &["answer", "exit"], 0);
    copy.is_finished_with(&acts);
}

#[test]
fn a_sub_loop_of_0_1_does_not_continue_under_rules_without_one() {
    let copy = of_0_1("subloop");
    let file = copy.path("project/.baton/memory/verification_policy.json");
    let mut policy: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    policy["subloop"] = Value::Null;
    fs::write(&file, policy.to_string()).unwrap();
    copy.expect(&["status"], 0);
    let model = Model::start(vec![text("never asked")]);
    let said = copy.continues(&model, &["resume", "--adopt"], 2);
    assert!(said.contains("the run cannot continue with the changed rules"), "{said}");
    assert_eq!(model.requests().len(), 0);
}
