//! Runs with the scenario pack by the real binary: a team that is played by a script, samples whose
//! target is a scripted model over HTTP, and kill -9 in the middle of them.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_testkit::{Asked, Model, Place, call, decision, report, text};
use serde_json::{Value, json};

const OUTPUTS: &str = "project/scenarios/small/execution_outputs";

/// What the model saw, and whether it keeps silent at the sample s4.
#[derive(Default)]
struct Seen {
    begun: Mutex<BTreeMap<String, u32>>,
    judged: Mutex<Vec<String>>,
    is_silent: AtomicBool,
}

/// Rules that say `mark` make the target call its tool; without, only even samples do.
fn says(seen: &Seen, asked: &Asked) -> Value {
    let body = &asked.body;
    if let Some(name) = body["response_format"]["json_schema"]["name"].as_str() {
        seen.judged.lock().unwrap().push(name.to_owned());
        return match name {
            "attribution" => text(
                r#"{"layer":1,"failure_type":"Layer1_BusinessRule","cause":"no rule","evidence":"not done","suggestion":"say it"}"#,
            ),
            _ => text(
                r#"{"problems":[{"problem_id":"L1P_001","severity":"critical","title":"no rule says mark","affected_groups":["G1"],"evidence_summary":"three","suggested_fix":{"target":"BusinessRules.md","section":"Rules","modification":"say mark","rationale":"it is due"}}]}"#,
            ),
        };
    }
    let messages = body["messages"].as_array().unwrap();
    let user = messages.iter().find(|own| own["role"] == "user").unwrap();
    let sample = user["content"].as_str().unwrap().to_owned();
    if messages.iter().any(|own| own["role"] == "tool") {
        return text("done");
    }
    *seen.begun.lock().unwrap().entry(sample.clone()).or_default() += 1;
    if sample == "s4" && seen.is_silent.load(Ordering::SeqCst) {
        return baton_testkit::silence();
    }
    let knows = messages[0]["content"].to_string().contains("always mark");
    match knows || sample.ends_with(['2', '4', '6']) {
        true => call("mark", json!({})),
        false => text("nothing to do"),
    }
}

/// A design, then parts with six samples, then a repaired design.
fn place(url: &str) -> Place {
    let place = crate::team("scenario");
    let config = "home/.config/baton/baton.toml";
    let own = format!(
        "{}\n[approval]\nby_yes = true\n[provider]\nname = \"openai-chat\"\nbase_url = \"{url}\"\nmodel = \"scripted\"\n[scenario]\njobs = 1\n",
        place.read(config)
    );
    place.write(config, own);
    let plan = r###"{"replace":"## Milestone M1: Small\n\n### M1-T1: Design\n- status: TODO\n"}"###;
    place.play("1-MAIN", &decision("INIT", plan));
    place.play("1-INIT", &report(1, "PASS", "none"));
    place.write(
        "play/1-INIT.sh",
        "mkdir -p scenarios/small; cd scenarios/small; \
         echo 'scenario_name: small' > unified_scenario_design.yaml; \
         echo '# Rules' > BusinessRules.md; echo '{}' > format_specifications.json; cd ../..\n",
    );
    place.play("2-MAIN", &decision("EXECUTE", "null"));
    place.play("2-EXECUTE", &report(2, "PASS", "none"));
    place.write("play/2-EXECUTE.sh", "cp -r ../parts/. scenarios/small/\n");
    place.play("3-MAIN", &decision("INIT", "\"add M1-T2: Repair under M1\""));
    place.play("3-INIT", &report(3, "PASS", "none"));
    place.write("play/3-INIT.sh", "echo 'always mark' >> scenarios/small/BusinessRules.md\n");
    place.play("4-MAIN", &decision("EXECUTE", "null"));
    place.play("4-EXECUTE", &report(4, "PASS", "none"));
    let verified = "\"update M1-T1 status to VERIFIED\\nupdate M1-T2 status to VERIFIED\"";
    place.play("5-MAIN", &decision("FINISH", verified));
    place.play("5-FINISH_REVIEW", &report(5, "PASS", "none"));
    place.play("5-FINISH_CHECK", &decision("FINISH", "null"));
    parts(&place);
    place
}

fn parts(place: &Place) {
    fs::create_dir_all(place.path("parts/samples")).unwrap();
    let command =
        r#"while read -r line; do echo '{"result":"marked","state":{"marked":true}}'; done"#;
    let tools = json!({ "tools": [{ "name": "mark", "description": "marks", "parameters": { "type": "object" }, "command": ["sh", "-c", command], "stays": true }] });
    let checkers = json!({ "checkers": [{ "name": "is_marked", "description": "it is marked", "assert": [{ "equals": { "path": "/marked", "value": true } }] }] });
    place.write("parts/tools.json", tools.to_string());
    place.write("parts/checkers.json", checkers.to_string());
    for number in 1..=6 {
        let id = format!("s{number}");
        let sample = json!({ "sample_id": id, "title": id, "user": { "turns": [id] }, "initial_state": { "marked": false }, "values": {}, "checkers": ["is_marked"] });
        place.write(&format!("parts/samples/{id}.json"), sample.to_string());
    }
}

fn model() -> (Arc<Seen>, Model) {
    let seen = Arc::<Seen>::default();
    let own = seen.clone();
    (seen, Model::answering(move |_, asked| says(&own, asked)))
}

const RUN: [&str; 7] =
    ["run", "Small samples", "--scenario", "small", "--executor", "script", "--yes"];
const RESUME: [&str; 4] = ["resume", "--executor", "script", "--yes"];

fn evaluated(place: &Place, number: u32) -> usize {
    let folder = place.path(&format!("{OUTPUTS}/iteration_{number}/evaluation_results"));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|own| own.file_name().to_string_lossy().ends_with("_eval.json")).count()
}

/// Every file of the outputs, without times.
fn left(place: &Place) -> BTreeMap<String, String> {
    let mut open = vec![place.path(OUTPUTS)];
    let mut found = BTreeMap::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            if entry.path().is_dir() {
                open.push(entry.path());
                continue;
            }
            let text = fs::read_to_string(entry.path()).unwrap();
            let is_time =
                |line: &&str| !line.contains("generated_at") && !line.contains("\"timestamp\"");
            let text: Vec<&str> = text.lines().filter(is_time).collect();
            let name =
                entry.path().strip_prefix(place.path(OUTPUTS)).unwrap().display().to_string();
            found.insert(name, text.join("\n"));
        }
    }
    found.remove(".lock");
    found
}

#[test]
fn a_design_is_repaired_by_what_its_samples_showed() {
    let (seen, model) = model();
    let place = place(&model.url);
    let said = place.expect(&RUN, 0);
    assert!(said.contains("3 of 6 samples passed (50%)"), "{said}");
    assert!(said.contains("6 of 6 samples passed (100%)"), "{said}");
    let history = place.history();
    assert!(history.contains("back to INIT: critical problems touch 3 of 3 failed"), "{history}");
    // Who repairs it gets the package and the reading of its files, by their paths.
    let prompt = place.read("prompts/3-INIT-1.txt");
    assert!(prompt.contains("\"handoff_type\":\"execute_to_init\""), "{prompt}");
    assert!(
        prompt.contains("evaluation_results/s1_eval.json") && prompt.contains("no rule says mark")
    );
    // What was made by code is what a person can check.
    let package = "scenarios/small/execution_outputs/iteration_1/execute_to_init.json";
    place.expect(&["handoff", "check", package], 0);
    let begun = seen.begun.lock().unwrap().clone();
    assert!(begun.len() == 6 && begun.values().all(|count| *count == 2), "{begun:?}");
    // A repaired design is another one: the person is asked twice.
    let asked = said.matches("asks you").count();
    assert_eq!(asked, 2, "{said}");
}

#[test]
fn kill_9_in_the_middle_of_an_evaluation_repeats_no_finished_sample() {
    let (_, quiet) = model();
    let reference = place(&quiet.url);
    reference.expect(&RUN, 0);
    let (seen, model) = model();
    let place = place(&model.url);
    seen.is_silent.store(true, Ordering::SeqCst);
    let mut child =
        place.command(&RUN).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while evaluated(&place, 1) < 3 || seen.begun.lock().unwrap().len() < 4 {
        assert!(start.elapsed() < Duration::from_secs(120), "three samples did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    seen.is_silent.store(false, Ordering::SeqCst);
    place.expect(&RESUME, 0);
    let begun = seen.begun.lock().unwrap().clone();
    // Two evaluations each; only the sample that was under way began once more.
    for (sample, count) in begun {
        assert_eq!(count, if sample == "s4" { 3 } else { 2 }, "{sample}");
    }
    assert_eq!(left(&place), left(&reference));
    assert_eq!(place.calls().iter().filter(|own| own.contains("2-EXECUTE")).count(), 1);
}

#[test]
fn an_evaluation_that_was_over_before_the_crash_is_only_read() {
    let (seen, model) = model();
    let place = place(&model.url);
    place.expect(&RUN, 0);
    // As if the process had died before it wrote down what came of the second evaluation.
    let journal = place.path("project/.baton/journal/run-0001");
    let mut files: Vec<_> =
        fs::read_dir(&journal).unwrap().map(|own| own.unwrap().path()).collect();
    files.sort();
    let last = files.iter().rfind(|file| {
        let text = fs::read_to_string(file).unwrap();
        text.contains("\"event\":\"evaluated\"")
    });
    let last = last.unwrap().clone();
    for later in files.iter().filter(|file| **file > last) {
        fs::remove_file(later).unwrap();
    }
    let text = fs::read_to_string(&last).unwrap();
    let end = text.rfind("\"event\":\"evaluated\"").unwrap();
    let start = text[..end].rfind('\n').unwrap() + 1;
    fs::write(&last, &text[..start]).unwrap();
    // The history is written from the journal, and so it has to fit.
    let history = place.history();
    let entry = history.find("## Iteration 4").unwrap();
    place.write("project/.baton/memory/project_history.md", &history[..entry]);
    let before = (seen.begun.lock().unwrap().clone(), left(&place));
    let said = place.expect(&RESUME, 0);
    assert!(said.contains("6 of 6 samples passed (100%)"), "{said}");
    assert_eq!((seen.begun.lock().unwrap().clone(), left(&place)), before);
}

#[test]
fn figures_that_an_agent_forged_are_not_taken() {
    let (seen, model) = model();
    let place = place(&model.url);
    let summary = r#"{"total_samples":6,"failed_samples":0,"failures":[]}"#;
    let report = r#"{"total_samples":6,"failed_samples":0,"layer1_problems":[]}"#;
    let mut script = "cp -r ../parts/. scenarios/small/\n".to_owned();
    for number in ["1", "7", "4294967295", "18446744073709551616"] {
        script.push_str(&format!(
            "d=scenarios/small/execution_outputs/iteration_{number}; mkdir -p $d; \
             echo '{summary}' > $d/failure_summary.json; \
             echo '{report}' > $d/layer1_problems_report.json\n"
        ));
    }
    place.write("play/2-EXECUTE.sh", script);
    place.play("3-MAIN", "no more");
    let said = place.expect(&RUN, 3);
    assert!(said.contains("3 of 6 samples passed (50%)"), "{said}");
    assert_eq!(seen.begun.lock().unwrap().len(), 6, "every sample ran");
    assert_eq!(evaluated(&place, 8), 6);
}

#[test]
fn parts_that_cannot_be_run_go_back_to_who_made_them() {
    let (_, model) = model();
    let place = place(&model.url);
    place.write("parts/tools.json", r#"{"tools":[{"name":"mark","comand":["sh"]}]}"#);
    place.play("3-MAIN", &decision("EXECUTE", "\"add M1-T3: Mend under M1\""));
    place.play("3-EXECUTE", &report(3, "BLOCKED", "\n- [env] enough of it"));
    place.play("4-MAIN", "no more");
    let said = place.expect(&RUN, 10);
    assert!(said.contains("the samples cannot be run"), "{said}");
    let published = place.read("prompts/3-EXECUTE-1.txt");
    assert!(published.contains("tools.json") && published.contains("comand"), "{published}");
}

#[test]
fn a_run_without_a_model_for_its_target_says_so_and_can_go_on() {
    let (_, model) = model();
    let place = place(&model.url);
    let config = "home/.config/baton/baton.toml";
    let with = place.read(config);
    let without = with.split("[provider]").next().unwrap().to_owned();
    place.write(config, without);
    let said = place.expect(&RUN, 1);
    assert!(said.contains("nothing says which model plays the target"), "{said}");
    place.write(config, with);
    place.expect(&RESUME, 0);
}

#[test]
fn stopping_a_run_in_an_evaluation_parks_it_between_two_samples() {
    let (seen, model) = model();
    let place = place(&model.url);
    seen.is_silent.store(true, Ordering::SeqCst);
    let mut child =
        place.command(&RUN).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while seen.begun.lock().unwrap().len() < 4 {
        assert!(start.elapsed() < Duration::from_secs(120), "four samples did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    // Two signals at the same time would be one; a third changes nothing.
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => drop(Command::new("kill").args(["-INT", &pid]).status().unwrap()),
        }
        std::thread::sleep(Duration::from_millis(300));
    };
    assert_eq!(status.code(), Some(10));
    seen.is_silent.store(false, Ordering::SeqCst);
    place.expect(&RESUME, 0);
    let begun = seen.begun.lock().unwrap().clone();
    assert!(begun.iter().all(|(sample, count)| *count == 2 || sample == "s4"), "{begun:?}");
}
