//! Whole runs by the real binary, with agents played by a shell script: real processes, real files.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_testkit::{Place, decision, report};
use serde_json::json;
use tempfile::TempDir;

const PLAN: &str =
    r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;

/// A run that passes, reviews and finishes.
fn tdd() -> Place {
    let place = crate::team("tdd");
    place.with_short_rules();
    place.play("1-MAIN", &decision("DEV", PLAN));
    place.play("1-DEV", &report(1, "PASS", "none"));
    place.write("play/1-DEV.sh", "echo '// safe' >> src/lib.rs\n");
    place.play("2-MAIN", &decision("REVIEW", "null"));
    place.play("2-REVIEW", &report(2, "PASS", "none"));
    place.play_finish(3);
    place
}

fn begin_with(place: &Place, args: &[&str]) -> Child {
    place.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A time to sleep by which the processes of this very test are found.
fn word(seconds: &str) -> String {
    format!("{seconds}.{:08}", std::process::id())
}

/// Processes whose command line holds this word.
fn alive(word: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(word)
    });
    processes.count()
}

const RUN: [&str; 4] = ["run", "Make add() safe", "--executor", "script"];
/// Where an agent could change the blackboard, if nobody looked.
const UNCONFINED: [&str; 5] = ["run", "Make add() safe", "--executor", "script", "--no-sandbox"];
/// The run remembers its executor.
const RESUME: [&str; 1] = ["resume"];

#[test]
fn a_whole_run_and_what_can_be_seen_of_it() {
    let place = tdd();
    let said = place.expect(&RUN, 0);
    assert!(said.contains("finished\nfiles changed: src/lib.rs\n"), "{said}");
    assert!(
        place.history().contains("## Iteration 3: [MILESTONE] FINISH attempt #1"),
        "{}",
        place.history()
    );
    assert_eq!(place.calls().len(), 7, "{:?}", place.calls());
    let prompt = place.read("prompts/1-DEV-1.txt");
    assert!(
        prompt.ends_with(
            "# Work order (.baton/workspace/dev/current_task.md)\n```\n# Current Task (Iteration 1)\nassigned_agent: DEV\niteration: 1\n\nM1-T1\n```\n\n"
        ),
        "{prompt}"
    );
    assert!(place.expect(&["status"], 0).contains("state        finished"));
    assert!(place.expect(&["log"], 0).contains("[2] MAIN → REVIEW: M1-T1 is next"));
    assert!(place.expect(&["log", "../x"], 2).contains("there is no run `../x`"));
    assert!(place.expect(&["diff"], 0).contains("+// safe"));
    assert!(place.expect(&["diff", "1"], 0).contains("+// safe"));
    assert!(place.expect(&["undo", "1"], 0).contains("1 file is as it was before iteration 1"));
    assert_eq!(place.read("project/src/lib.rs"), "fn add() {}\n");
    assert!(place.expect(&RESUME, 2).contains("run run-0001 is finished"));
    assert!(
        place.expect(&["gc"], 0).starts_with("0 snapshots removed")
            || place.expect(&["gc"], 0).contains("are kept")
    );
    assert!(place.expect(&["diff"], 0).contains("+// safe"), "what is young is kept");
    // A second run on the same blackboard goes on with the numbers.
    for (from, to) in [("1-MAIN", "4-MAIN"), ("3-FINISH_CHECK", "5-FINISH_CHECK")] {
        fs::copy(place.path(&format!("play/{from}")), place.path(&format!("play/{to}"))).unwrap();
    }
    place.play("4-MAIN", &decision("REVIEW", PLAN));
    place.play("4-REVIEW", &report(4, "PASS", "none"));
    place.play_finish(5);
    place.expect(&["run", "Another task", "--executor", "script"], 0);
    assert!(place.history().contains("Another task\n\n## Iteration 4: "), "{}", place.history());
    assert!(place.path("project/.baton/journal/run-0002/000001.log").exists());
}

#[test]
fn a_question_parks_the_run_until_it_is_answered() {
    let place = tdd();
    place.play("2-MAIN", r#"{"next_agent":"USER","reason":"which?","dev_plan":null,"finish_review_override":null,"question":{"title":"Which way?","text":"A or B","options":[{"option_id":"a","description":"A"},{"option_id":"b","description":"B"}],"recommended_option_id":"a"}}"#);
    place.play("3-MAIN", &decision("REVIEW", "null"));
    place.play("3-REVIEW", &report(3, "PASS", "none"));
    place.play_finish(4);
    let said = place.expect(&RUN, 10);
    assert!(
        said.contains("Which way?")
            && said.contains("`baton answer 1|2` or `baton answer a|b` continues"),
        "{said}"
    );
    assert!(place.read("project/.baton/state/question.json").contains("Which way?"));
    assert!(place.expect(&["status"], 0).contains("waiting for your answer"));
    assert!(
        place
            .expect(&["answer", "c", "--executor", "script"], 2)
            .contains("there is no option `c`")
    );
    place.expect(&RESUME, 10);
    let said = place.expect(&["answer", "b", "--question", "3", "--executor", "script"], 2);
    assert!(said.contains("question 3 is not open; question 1 is"), "{said}");
    place.expect(&["answer", "b", "--comment", "按 B 来", "--executor", "script"], 0);
    assert!(
        place.history().contains("- user_choice: b\n- user_comment: 按 B 来"),
        "{}",
        place.history()
    );
    assert!(place.read("prompts/3-MAIN-1.txt").contains("# The user's answers in this run"));
    assert!(!place.path("project/.baton/state/question.json").exists());
    assert!(place.expect(&["answer", "b", "--executor", "script"], 2).contains("is finished"));
}

/// MAIN asks in this iteration.
fn asks(place: &Place, stage: &str) {
    place.play(stage, r#"{"next_agent":"USER","reason":"which?","dev_plan":null,"finish_review_override":null,"question":{"title":"Which way?","text":"A or B","options":[{"option_id":"a","description":"A"},{"option_id":"b","description":"B"}],"recommended_option_id":"b"}}"#);
}

#[test]
fn progress_lines_have_the_number_of_their_iteration_after_a_resume() {
    // FINISH_CHECK asks in iteration 3; the question is iteration 4's, as in the history.
    let place = tdd();
    asks(&place, "3-FINISH_CHECK");
    let said = place.expect(&RUN, 10);
    assert!(said.contains("[4] MAIN asks you: Which way?"), "{said}");
    place.play("5-MAIN", "nonsense");
    let said = place.expect(&["answer", "b"], 3);
    assert!(said.contains("[4] answered: b"), "{said}");
    assert!(place.history().contains("## User Decision (Iteration 4)"), "{}", place.history());
    place.play("5-MAIN", &decision("FINISH", "null"));
    place.play("5-FINISH_REVIEW", &report(5, "PASS", "none"));
    place.play("5-FINISH_CHECK", &decision("FINISH", "null"));
    let said = place.expect(&RESUME, 0);
    assert!(said.contains("[5] MAIN → FINISH: M1-T1 is next"), "{said}");
    assert!(!said.contains("[1]"), "{said}");
    // As the log has them.
    let log = place.expect(&["log"], 0);
    for line in ["[4] MAIN asks you: Which way?", "[4] answered: b", "[5] MAIN → FINISH"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    // A decision that is judged only after the process that got it is gone.
    let place = tdd();
    place.write("play/2-REVIEW.sh", "touch ../reached; sleep 30\n");
    let mut child = begin_with(&place, &RUN);
    wait_for("the agent", || place.path("reached").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(place.path("play/2-REVIEW.sh")).unwrap();
    let said = place.expect(&RESUME, 0);
    assert!(said.contains("[2] REVIEW was interrupted"), "{said}");
    assert!(said.contains("[2] REVIEW: PASS"), "{said}");
}

fn status(place: &Place) -> serde_json::Value {
    place.run(&["status", "--json"]).json()
}

#[test]
fn an_open_question_is_shown_by_status_and_answered_by_number_or_name() {
    let place = tdd();
    asks(&place, "1-MAIN");
    asks(&place, "2-MAIN");
    place.play("3-MAIN", "nonsense");
    let said = place.expect(&RUN, 10);
    let shown = "Waiting for your answer (question 1)\nWhich way?\nA or B\n  1. a: A\n  2. b: B (recommended)\n";
    assert!(said.contains(shown), "{said}");
    assert!(place.expect(&["status"], 0).contains(shown));
    let json = status(&place);
    assert_eq!(json["state"], "waiting");
    let question = json!({
        "number": 1, "title": "Which way?", "text": "A or B", "recommended_option_id": "b",
        "options": [
            { "number": 1, "option_id": "a", "description": "A", "recommended": false },
            { "number": 2, "option_id": "b", "description": "B", "recommended": true },
        ],
    });
    assert_eq!(json["question"], question);
    for wrong in ["0", "3", "c"] {
        let said = place.expect(&["answer", wrong], 2);
        let expected = format!("there is no option `{wrong}`; answer 1-2 or `a`, `b`");
        assert!(said.contains(&expected), "{said}");
    }
    // The second question of the run is question 2.
    let said = place.expect(&["answer", "2", "--question", "1"], 10);
    assert!(said.contains("[1] answered: b"), "{said}");
    assert!(said.contains("Waiting for your answer (question 2)"), "{said}");
    assert_eq!(status(&place)["question"]["number"], 2);
    let said = place.expect(&["answer", "a", "--question", "1"], 2);
    assert!(said.contains("question 1 is not open; question 2 is"), "{said}");
    let said = place.expect(&["answer", "a", "--question", "2"], 3);
    assert!(said.contains("[2] answered: a"), "{said}");
    assert_eq!(status(&place)["question"], serde_json::Value::Null);
}

#[test]
fn status_tells_a_running_a_parked_an_interrupted_and_an_abandoned_run_apart() {
    let place = tdd();
    place.write("play/1-DEV.sh", "[ $BATON_ATTEMPT = 1 ] && { touch ../reached; sleep 30; }\n");
    let mut child = begin_with(&place, &RUN);
    wait_for("the agent", || place.path("reached").exists());
    let pid = child.id();
    assert!(place.expect(&["status"], 0).contains(&format!("running (pid {pid}, since 2")));
    assert_eq!(status(&place)["state"], "running");
    child.kill().unwrap();
    child.wait().unwrap();
    let said = place.expect(&["status"], 0);
    let expected = format!("interrupted in DEV (process {pid} is gone); `baton resume` continues");
    assert!(said.contains(&expected), "{said}");
    assert_eq!(status(&place)["state"], "interrupted");
    for zero in ["sub-loops", "overturned", "correction"] {
        assert!(!said.contains(zero), "{said}");
    }
    // Parked: asked to stop, and everything is written down.
    fs::remove_file(place.path("reached")).unwrap();
    place.write("play/1-DEV.sh", "touch ../reached; while [ ! -f ../go ]; do sleep 0.05; done\n");
    let child = begin_with(&place, &RESUME);
    wait_for("the agent", || place.path("reached").exists());
    let said = place.expect(&["stop"], 0);
    let expected = format!("Asked process {} to stop after its current stage", child.id());
    assert!(said.contains(&expected), "{said}");
    place.write("go", "");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(10));
    let said = place.expect(&["status"], 0);
    assert!(
        said.contains("paused before MAIN's next decision; `baton resume` continues"),
        "{said}"
    );
    assert_eq!(status(&place)["state"], "parked");
    place.play("2-MAIN", "nonsense");
    place.expect(&RESUME, 3);
    assert_eq!(status(&place)["state"], "stopped");
    let said = place.expect(&["stop", "--abandon"], 0);
    let expected = "Run run-0001 abandoned. Its files are unchanged; you can start a new run.";
    assert!(said.contains(expected), "{said}");
    let said = place.expect(&["status"], 0);
    assert!(said.contains("state        abandoned") && !said.contains("stopped"), "{said}");
    let json = status(&place);
    assert_eq!((&json["state"], &json["stopped"]), (&"abandoned".into(), &json!(null)));
    let log = place.expect(&["log"], 0);
    assert!(log.trim_end().ends_with("abandoned"), "{log}");
}

#[test]
fn a_broken_protocol_stops_with_exit_3_and_resume_goes_on_once_it_is_mended() {
    let place = tdd();
    place.play("1-DEV", "iteration: 1\nverdict: GREAT\nblockers: none\n");
    let said = place.expect(&RUN, 3);
    assert!(said.contains("verdict `GREAT` is not allowed"), "{said}");
    assert!(place.path("project/.baton/reports/archive/1_dev_a1.md").exists());
    assert!(
        place.path("project/.baton/reports/archive/1_dev_a2.md").exists(),
        "it had one try to correct it"
    );
    let again = fs::read_dir(place.path("prompts")).unwrap().flatten().any(|entry| {
        fs::read_to_string(entry.path()).unwrap().contains("verdict `GREAT` is not allowed")
    });
    assert!(again, "it was shown its error");
    assert!(place.expect(&RUN, 2).contains("run-0001 is not finished"));
    place.play("1-DEV", &report(1, "PASS", "none"));
    place.expect(&RESUME, 0);
    // MAIN, too.
    let place = tdd();
    place.play("1-MAIN", "Sure, here it is: {}");
    assert!(place.expect(&RUN, 3).contains("there is text before the JSON"));
    place.play("1-MAIN", &decision("DEV", PLAN));
    place.expect(&RESUME, 0);
}

#[test]
fn an_agent_that_touches_the_blackboard_is_stopped_and_its_change_undone() {
    let place = tdd();
    for (script, name) in [
        ("echo done >> .baton/memory/dev_plan.md", "memory/dev_plan.md"),
        ("rm .baton/baton.toml", "baton.toml"),
        ("echo x > .baton/reports/report_review.md", "reports/report_review.md"),
        (
            "rm -r .baton/memory/prompts; ln -s /etc .baton/memory/prompts",
            "memory/prompts/subagent_prompt_main.md",
        ),
    ] {
        let place = tdd();
        let before = place.read("project/.baton/memory/prompts/subagent_prompt_main.md");
        place.write("play/1-DEV.sh", script);
        let said = place.expect(&UNCONFINED, 3);
        assert!(said.contains(name) && said.contains("DEV"), "{script}: {said}");
        assert!(!place.read("project/.baton/memory/dev_plan.md").contains("done"));
        assert!(place.path("project/.baton/baton.toml").exists());
        assert_eq!(
            place.read("project/.baton/memory/prompts/subagent_prompt_main.md"),
            before,
            "{script}"
        );
        assert!(!place.path("project/.baton/reports/report_review.md").exists());
    }
    // What a person changes between two stages is adopted.
    place.write("play/2-MAIN.sh", "exit 1\n");
    place.expect(&RUN, 1);
    let context = "project/.baton/memory/global_context.md";
    place.write(context, "Goal: 新的目标\n");
    fs::remove_file(place.path("play/2-MAIN.sh")).unwrap();
    let said = place.expect(&RESUME, 0);
    assert!(said.contains("changed by a person and adopted: memory/global_context.md"), "{said}");
    assert!(place.read(context).contains("新的目标"));
    let log = place.expect(&["log"], 0);
    assert!(log.contains("adopted: memory/global_context.md"), "{log}");
}

#[test]
fn an_agent_finds_the_blackboard_read_only_and_leaves_nobody_behind() {
    let place = tdd();
    let word = word("7341");
    let script = "for file in .baton/memory/dev_plan.md .baton/journal/run-0001/000001.log .baton/new .baton/state/run.lock; do
  echo evil >> $file
done 2>> ../denied
rm -rf .baton 2>/dev/null; mv .baton elsewhere 2>> ../denied
env -i $(command -v setsid) sh -c ': > ../begun; exec sleep WORD' >/dev/null 2>&1 &
while ! test -e ../begun; do sleep 0.01; done
echo '// safe' >> src/lib.rs\n";
    place.write("play/1-DEV.sh", script.replace("WORD", &word));
    let said = place.expect(&RUN, 0);
    assert!(said.contains("finished\nfiles changed: src/lib.rs\n"), "{said}");
    let denied = place.read("denied");
    assert_eq!(denied.matches("Read-only file system").count(), 4, "{denied}");
    assert_eq!(denied.lines().count(), 5, "{denied}");
    assert_eq!(alive(&word), 0);
}

#[test]
fn killed_in_the_middle_of_an_agent_the_project_goes_back_and_the_next_attempt_begins() {
    let place = tdd();
    place.write(
        "play/1-DEV.sh",
        "if [ $BATON_ATTEMPT = 1 ]; then echo half > src/half.rs; echo broken > src/lib.rs; touch ../reached; sleep 600; fi\necho '// safe' >> src/lib.rs\n",
    );
    let mut child = begin_with(&place, &RUN);
    wait_for("the agent", || place.path("reached").exists());
    let held = place.expect(&RESUME, 5);
    assert!(held.contains("held by another process: process "), "{held}");
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let said = place.expect(&RESUME, 0);
    assert!(said.contains("was interrupted: 2 files are back"), "{said}");
    assert_eq!(place.read("project/src/lib.rs"), "fn add() {}\n// safe\n");
    assert!(!place.path("project/src/half.rs").exists());
    let calls = place.calls();
    assert_eq!(calls.iter().filter(|call| call.starts_with("1-MAIN")).count(), 1, "{calls:?}");
    assert!(calls.contains(&"1-DEV attempt 2".to_owned()), "{calls:?}");
}

#[test]
fn ctrl_c_once_parks_behind_the_stage_and_twice_leaves_now() {
    let place = tdd();
    let script = "touch ../reached; while ! test -e ../go; do sleep 0.01; done\n";
    place.write("play/1-DEV.sh", script);
    let mut child = begin_with(&place, &RUN);
    let said = collected(child.stderr.take().unwrap());
    wait_for("the agent", || place.path("reached").exists());
    let interrupt = |child: &Child| {
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    };
    interrupt(&child);
    // The stage ends only after the signal was noticed.
    wait_for("a word about the stop", || said.lock().unwrap().contains("stop"));
    place.write("go", "");
    assert_eq!(child.wait().unwrap().code(), Some(10), "{}", said.lock().unwrap());
    assert!(
        place.path("project/.baton/reports/report_dev.md").exists(),
        "the stage came to its end"
    );
    place.expect(&RESUME, 0);

    let place = tdd();
    place.write("play/1-DEV.sh", "[ $BATON_ATTEMPT = 1 ] && { touch ../reached; sleep 600; }\n");
    let mut child = begin_with(&place, &RUN);
    let said = collected(child.stderr.take().unwrap());
    wait_for("the agent", || place.path("reached").exists());
    interrupt(&child);
    // Two signals at the same time would be one.
    wait_for("a word about the stop", || said.lock().unwrap().contains("stop"));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(10), "{}", said.lock().unwrap());
    place.expect(&RESUME, 0);
}

/// All that comes, as it comes.
fn collected(mut from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let said = Arc::<Mutex<String>>::default();
    let text = Arc::clone(&said);
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            text.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    });
    said
}

#[test]
fn commands_of_a_project_run_only_after_a_person_agreed_to_them() {
    let place = tdd();
    let policy = "project/.baton/memory/verification_policy.json";
    let gate = |command: &str| {
        let text = place.read(policy);
        let from = text.find("\"gates\"").unwrap();
        let end = text[from..].find(']').unwrap() + from + 1;
        let gates = format!("\"gates\": [{{\"on\": \"FINISH\", \"run\": \"{command}\"}}]");
        place.write(policy, format!("{}{gates}{}", &text[..from], &text[end..]));
    };
    gate("echo the gate ran");
    let said = place.expect(&RUN, 2);
    assert!(
        said.contains("gate on FINISH: echo the gate ran") && said.contains("baton trust"),
        "{said}"
    );
    assert!(!place.path("calls").exists(), "nothing was run");
    place.expect(&["trust"], 0);
    gate("echo another");
    place.expect(&RUN, 2);
    gate("echo the gate ran");
    let said = place.expect(&RUN, 0);
    assert!(said.contains("gates passed: echo the gate ran"), "{said}");
    assert!(place.read("project/.baton/gates/3_1.log").contains("the gate ran"));
}

#[test]
fn a_gate_that_fails_overturns_finish_whatever_main_says() {
    let place = tdd();
    let policy = "project/.baton/memory/verification_policy.json";
    let text = place.read(policy).replace("\"gates\": []", "\"gates\": [{\"on\": \"FINISH\", \"run\": \"test -f ../ready || { echo not ready; exit 7; }\"}]");
    place.write(policy, text);
    place.expect(&["trust"], 0);
    place.play("3-FINISH_CHECK", r#"{"next_agent":"FINISH","reason":"I insist","dev_plan":null,"finish_review_override":"ignore"}"#);
    place.play("4-MAIN", &decision("FINISH", "null"));
    place.write("play/4-MAIN.sh", "touch ../ready\n");
    place.play("4-FINISH_REVIEW", &report(4, "PASS", "none"));
    place.play("4-FINISH_CHECK", &decision("FINISH", "null"));
    place.expect(&RUN, 0);
    assert!(place.history().contains("FINISH refused: the gate"), "{}", place.history());
    assert!(place.read("prompts/3-FINISH_CHECK-1.txt").contains("exit 7\nnot ready"));
}

#[test]
fn what_is_missing_is_said_before_anything_begins() {
    let place = tdd();
    assert!(
        place
            .expect(&["run", "x", "--executor", "nobody"], 2)
            .contains("there is no executor `nobody`")
    );
    place.write(
        "home/.config/baton/baton.toml",
        "[executors.script]\ncommand = [\"no-such-program\"]\n",
    );
    assert!(
        place
            .expect(&RUN, 2)
            .contains("`no-such-program` of the executor `script` is not on the PATH")
    );
    let said = place.command(&["run", "x"]).env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        said.contains("no model or agent program is configured") && said.contains("baton demo"),
        "{said}"
    );
    let said = place.expect(&["run", "x", "--budget-dollars", "-1"], 2);
    assert!(said.contains("expected an amount of 0 or more"), "{said}");
    let empty = TempDir::new().unwrap();
    for args in [
        ["run", ""].as_slice(),
        &["run", "x", "--executor", "codx"],
        &["run", "x", "--executor", "script"],
    ] {
        assert_eq!(
            place.command(args).current_dir(&empty).output().unwrap().status.code(),
            Some(2)
        );
        assert_eq!(
            fs::read_dir(&empty).unwrap().count(),
            0,
            "{args:?}: a blackboard was made for nothing"
        );
    }
    assert!(place.expect(&["resume"], 2).contains("there is no run to go on with"));
    assert!(place.expect(&["stop"], 2).contains("no run is running here"));
    assert!(place.expect(&["status"], 0).contains("no run yet"));
    assert!(!place.path("project/.baton/journal/run-0001").exists());
}

#[test]
fn a_run_can_be_given_up_and_another_begun() {
    let place = tdd();
    place.write("play/1-DEV.sh", "exit 1\n");
    place.write("play/2-MAIN.sh", "exit 1\n");
    place.expect(&RUN, 1);
    place.expect(&["stop", "--abandon"], 0);
    play_again(&place, 3);
    place.expect(&RUN, 0);
    assert!(place.history().contains("error: DEV: exit 1"), "{}", place.history());
}

/// Plays another short run, from this iteration on.
fn play_again(place: &Place, first: u32) {
    place.play(&format!("{first}-MAIN"), &decision("REVIEW", PLAN));
    place.play(&format!("{first}-REVIEW"), &report(first, "PASS", "none"));
    place.play_finish(first + 1);
}

#[test]
fn rules_that_change_after_a_run_do_not_stand_in_the_way_of_the_next() {
    let place = tdd();
    place.expect(&RUN, 0);
    let policy = "project/.baton/memory/verification_policy.json";
    let text = place.read(policy);
    place.write(policy, text.replace("\"max_finish_attempts\": 3", "\"max_finish_attempts\": 4"));
    let said = place.expect(&["status"], 0);
    assert!(said.contains("finished") && said.contains("iteration"), "{said}");
    play_again(&place, 4);
    place.expect(&RUN, 0);
    // Under a run that is not over it is named, and the run can be given up.
    place.play("6-MAIN", "nonsense");
    place.expect(&RUN, 3);
    place.write(policy, text);
    let said = place.expect(&RESUME, 2);
    assert!(
        said.contains("changed since the run began: memory/verification_policy.json"),
        "{said}"
    );
    place.expect(&["stop", "--abandon"], 0);
    // Its iteration had begun: the next run does not write over what it left.
    play_again(&place, 7);
    place.expect(&RUN, 0);
    // A journal that somebody removed does not make another one be written over.
    fs::remove_dir_all(place.path("project/.baton/journal/run-0001")).unwrap();
    play_again(&place, 9);
    place.expect(&RUN, 0);
    assert!(place.path("project/.baton/journal/run-0005/000001.log").exists());
}

#[test]
fn an_agent_cannot_make_baton_write_or_remove_what_is_not_the_blackboards() {
    let precious = "../precious";
    for script in [
        "rm -rf .baton/workspace; ln -s ../../precious .baton/workspace",
        "rm -rf .baton/memory; ln -s ../../precious .baton/memory",
        "ln -s ../../../precious/file .baton/reports/.baton-spare; ln -s ../../../precious/file .baton/workspace/.baton-spare",
        "ln ../precious/file .baton/reports/.baton-spare; ln ../precious/file .baton/memory/.baton-spare",
        "ln -s ../../../../precious/file .baton/reports/archive/1_dev_a1.md; ln -s ../../../../precious/file .baton/reports/archive/2_review_a1.md",
        "mkdir .baton/reports/report_review.md",
    ] {
        let place = tdd();
        fs::create_dir(place.path("precious")).unwrap();
        place.write("precious/file", "mine\n");
        place.write("precious/current_task.md", "mine too\n");
        place.write("play/1-DEV.sh", script);
        let first = place.run(&UNCONFINED);
        // Some of it stops the run, some only must not work.
        fs::remove_file(place.path("play/1-DEV.sh")).unwrap();
        if first.code != 0 {
            place.expect(&RESUME, 0);
        }
        let found: Vec<String> = fs::read_dir(place.path("precious"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(found.len(), 2, "{script}: {precious} holds {found:?}");
        assert_eq!(place.read("precious/file"), "mine\n", "{script}");
        assert_eq!(place.read("precious/current_task.md"), "mine too\n", "{script}");
    }
}

#[test]
fn killed_in_a_stage_that_may_not_write_the_project_stays_as_it_is() {
    let place = tdd();
    place.write(
        "play/2-REVIEW.sh",
        "[ $BATON_ATTEMPT = 1 ] && { echo mine >> src/lib.rs; touch ../reached; sleep 600; }\n",
    );
    let mut child = begin_with(&place, &RUN);
    wait_for("the agent", || place.path("reached").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    place.write("project/mine.txt", "mine\n");
    let said = place.expect(&RESUME, 0);
    let line = "[2] REVIEW was interrupted; it starts over; changed meanwhile and kept: mine.txt";
    assert!(said.contains(line), "{said}");
    // What the agent did stays in its own copy.
    assert_eq!(place.read("project/src/lib.rs"), "fn add() {}\n// safe\n");
    assert_eq!(place.read("project/mine.txt"), "mine\n");
}

#[test]
fn a_pass_does_not_outlive_a_later_run_of_the_same_agent() {
    let place = tdd();
    place.play("1-MAIN", &decision("TEST", PLAN));
    place.play("1-TEST", &report(1, "PASS", "none"));
    place.play("2-MAIN", &decision("TEST", "\"set M1-T1 evidence: again\""));
    place.write("play/2-TEST.sh", "echo broken > src/lib.rs; exit 1\n");
    place.play("2-TEST", "");
    place.play("3-MAIN", &decision("FINISH", "\"update M1-T1 status to VERIFIED\""));
    let said = place.expect(&RUN, 3);
    assert!(said.contains("`TEST` passed in iteration 1, but `TEST` wrote after it"), "{said}");
}

#[test]
fn what_a_killed_run_left_alive_is_ended_before_it_goes_on() {
    let word = word("7342");
    let half = |args: &[&str]| {
        let place = tdd();
        let late =
            format!("(sleep {word}; echo late >> src/lib.rs) & touch ../reached; sleep {word}");
        place.write("play/1-DEV.sh", format!("[ $BATON_ATTEMPT = 1 ] && {{ {late}; }}\n"));
        let mut child = begin_with(&place, args);
        wait_for("the agent", || place.path("reached").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        place
    };
    let unconfined = half(&UNCONFINED);
    wait_for("what it leaves", || alive(&word) >= 2);
    let said = unconfined.expect(&RESUME, 0);
    assert_eq!(alive(&word), 0, "{said}");
    assert!(said.contains("processes that the interrupted stage had left were ended"), "{said}");
    // In a sandbox they go with the run itself.
    let confined = half(&RUN);
    wait_for("their end", || alive(&word) == 0);
    let said = confined.expect(&RESUME, 0);
    assert!(!said.contains("had left were ended"), "{said}");
    for place in [unconfined, confined] {
        assert_eq!(
            place.read("project/src/lib.rs"),
            "fn add() {}\n",
            "a dead attempt wrote into a live one"
        );
    }
}

#[test]
fn a_runs_own_budget_goes_before_the_configuration_when_it_is_resumed() {
    let place = tdd();
    place.play("2-MAIN", "nonsense");
    let args =
        ["run", "x", "--executor", "script", "--max-iterations", "7", "--budget-minutes", "5"];
    place.expect(&args, 3);
    let own = place.read("home/.config/baton/baton.toml");
    place.write(
        "home/.config/baton/baton.toml",
        format!("{own}\n[limits]\niterations = 99\nminutes = 500\n"),
    );
    place.expect(&RESUME, 3);
    let status = place.run(&["status", "--json"]).json();
    assert_eq!(
        (&status["limits"]["iterations"], &status["limits"]["seconds"]),
        (&7.into(), &300.into())
    );
}

#[test]
fn a_refused_report_is_never_written_over() {
    let place = tdd();
    place.play("1-DEV", "iteration: 1\nverdict: GREAT\nblockers: none\n");
    place.expect(&RUN, 3);
    place.play("1-DEV", "iteration: 1\nverdict: FINE\nblockers: none\n");
    place.expect(&RESUME, 3);
    place.play("1-DEV", &report(1, "PASS", "none"));
    place.expect(&RESUME, 0);
    let verdict = |number: u32| {
        place
            .read(&format!("project/.baton/reports/archive/1_dev_a{number}.md"))
            .lines()
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        [1, 2, 3, 4, 5].map(verdict),
        ["verdict: GREAT", "verdict: GREAT", "verdict: FINE", "verdict: FINE", "verdict: PASS"]
    );
}

#[test]
fn a_program_that_is_gone_stops_the_run_and_is_not_taken_for_a_failing_agent() {
    let place = tdd();
    place.write("home/.config/baton/baton.toml", "[executors.script]\ncommand = [\"sh\", \"../agent.sh\"]\n[executors.gone]\ncommand = [\"/no/such/program\"]\n[agents.DEV]\nexecutor = \"gone\"\n");
    let said = place.expect(&RUN, 1);
    assert!(said.contains("stopped: DEV, iteration 1: cannot start `/no/such/program`"), "{said}");
    assert!(place.expect(&["log"], 0).contains("stopped: DEV, iteration 1"));
}

#[test]
fn events_come_as_json_lines_for_programs() {
    let place = tdd();
    let answer = place.run(&["run", "Make add() safe", "--executor", "script", "--json"]);
    let events: Vec<serde_json::Value> = answer
        .out
        .lines()
        .take_while(|line| *line != "{")
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["event"], "run_started");
    assert_eq!(events.last().unwrap()["event"], "finished");
    assert!(events.iter().enumerate().all(|(index, event)| event["seq"] == index + 1));
    assert!(answer.errors.is_empty(), "{}", answer.errors);
}

/// The events of a report that a gate confirmed are in the order in which docs/walk.md commits them.
fn assert_walked(board: &std::path::Path) {
    let journal = fs::read_to_string(board.join("journal/run-0001/000001.log")).unwrap();
    let events: Vec<String> = journal
        .lines()
        .filter_map(|line| serde_json::from_str(line.get(line.find('{')?..)?).ok())
        .map(|record: serde_json::Value| {
            record["event"].as_str().unwrap_or_default().replace('_', "")
        })
        .collect();
    let walk =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/walk.md")).unwrap();
    let table = walk.split("## ").next().unwrap_or_default();
    let steps: Vec<String> = table
        .split("`commit(")
        .skip(1)
        .map(|rest| rest.split(')').next().unwrap_or_default().to_lowercase())
        .collect();
    assert_eq!(steps.len(), 5, "{steps:?}");
    let gate = events.iter().position(|event| event == "gateended").expect("a gate ran");
    let first = events[..gate].iter().rposition(|event| *event == steps[0]).expect("a stage ran");
    let last = gate + events[gate..].iter().position(|event| *event == steps[4]).expect("an end");
    let walked: Vec<&String> =
        events[first..=last].iter().filter(|event| steps.contains(event)).collect();
    assert_eq!(walked, steps.iter().collect::<Vec<_>>());
}

#[test]
fn the_demo_runs_a_whole_job_without_key_or_network() {
    let place = tdd();
    let folder = place.path("demo");
    // Cargo must find its home: the demo is for machines that have it.
    let mut command = place.command(&["demo", folder.to_str().unwrap()]);
    if let Some(home) = std::env::var_os("HOME") {
        command.env("HOME", home);
    }
    let output = command.output().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0), "{said}");
    for part in [
        "no model is called",
        "[1] TEST: FAIL: [impl]",
        "sub-loop ends after 2: repaired",
        "[2] REVIEW: PASS",
        "[3] gate passed: cargo test",
        "finished\nfiles changed: Cargo.lock, src/lib.rs, tests/limits.rs",
    ] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    assert!(
        fs::read_to_string(folder.join("project/src/lib.rs")).unwrap().contains("i64::from(a)")
    );
    // What the replies claim is what the commands showed.
    let transcripts = folder.join("project/.baton/transcripts/run-0001");
    let mut looked = 0;
    for entry in fs::read_dir(transcripts).unwrap().flatten() {
        let steps = fs::read_to_string(entry.path().join("steps.log")).unwrap();
        let last = steps.lines().last().unwrap();
        let claims_failure = last.contains("verdict: FAIL");
        let name = entry.file_name().to_string_lossy().into_owned();
        if steps.contains("cargo test") && !name.contains("DEV") {
            assert_eq!(steps.contains("\"exit\":101"), claims_failure, "{name}: {steps}");
            looked += 1;
        }
    }
    assert_eq!(looked, 5);
    let board = folder.join("project/.baton");
    assert_walked(&board);
    let gc = |days: &str| {
        place.expect(&["gc", "--days", days, "--blackboard", board.to_str().unwrap()], 0)
    };
    assert!(gc("30").contains("0 transcripts removed"), "what is young is kept");
    std::thread::sleep(Duration::from_secs(2));
    assert!(gc("0").contains("7 transcripts removed"), "what no run needs goes");
    assert!(place.expect(&["demo", folder.to_str().unwrap()], 2).contains("is not empty"));
}

#[test]
fn edits_since_an_interrupted_stage_are_asked_about_and_never_lost() {
    for (choice, expected) in
        [("keep", "by hand\n// safe\n"), ("discard", "fn add() {}\n// safe\n")]
    {
        let place = tdd();
        place.write(
            "play/1-DEV.sh",
            "[ $BATON_ATTEMPT = 1 ] && { echo half > src/lib.rs; touch ../reached; sleep 600; }\necho '// safe' >> src/lib.rs\n",
        );
        let mut child = begin_with(&place, &RUN);
        wait_for("the agent", || place.path("reached").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        // A person, some time later.
        place.write("project/src/lib.rs", "by hand\n");
        let later = std::time::SystemTime::now() + Duration::from_secs(60);
        let file = fs::File::options().write(true).open(place.path("project/src/lib.rs")).unwrap();
        file.set_modified(later).unwrap();
        let said = place.expect(&RESUME, 10);
        assert!(said.contains("somebody edited files") && said.contains("src/lib.rs"), "{said}");
        assert!(said.contains("--edits keep"), "{said}");
        assert_eq!(place.read("project/src/lib.rs"), "by hand\n", "nothing is done unasked");
        let said = place.expect(&["resume", "--executor", "script", "--edits", choice], 0);
        assert_eq!(place.read("project/src/lib.rs"), expected, "{choice}");
        if choice == "discard" {
            let id = said.split("kept as snapshot ").nth(1).unwrap().split_whitespace().next();
            place.expect(&["undo", "--snapshot", id.unwrap()], 0);
            assert_eq!(place.read("project/src/lib.rs"), "by hand\n");
        }
    }
}

#[test]
fn a_snapshot_is_brought_back_by_its_name_alone() {
    let place = tdd();
    place.expect(&RUN, 0);
    for wrong in ["../../etc", "zz", ""] {
        let said = place.expect(&["undo", "--snapshot", wrong], 2);
        assert!(said.contains("snapshot"), "{said}");
    }
    assert!(place.expect(&["undo", "--snapshot", "00ff"], 1).contains("is not there"));
    assert!(place.expect(&["undo"], 2).contains("ITERATION"));
}

#[test]
fn a_sub_loop_shows_its_state_and_its_lock_while_it_runs_and_leaves_its_lines() {
    let place = tdd();
    place.play("1-MAIN", &decision("TEST", PLAN));
    place.play("1-TEST", &report(1, "FAIL", "[impl] overflow in add()"));
    place.play("1-DEV-1", &report(1, "PASS", "none"));
    place.play("1-TEST-1", &report(1, "PASS", "none"));
    place.write(
        "play/1-DEV-1.sh",
        "cp .baton/state/subloop_state.json .baton/state/subloop.lock ../; flock -n .baton/state/subloop.lock true || touch ../was-held\n",
    );
    place.expect(&RUN, 0);
    let state = place.read("subloop_state.json");
    for key in ["active", "sub_iteration", "test_report", "dev_report", "entry_reason"] {
        assert!(state.contains(&format!("\"{key}\"")), "{state}");
    }
    assert!(place.read("subloop.lock").starts_with("process "));
    assert!(place.path("was-held").exists());
    assert!(!place.path("project/.baton/state/subloop.lock").exists());
    assert!(!place.path("project/.baton/state/subloop_state.json").exists());
    let lines = place.expect(&["log", "--lines"], 0);
    for line in [
        "orchestrator: subloop_enter iter=1 reason=[impl] overflow in add()",
        "orchestrator: subloop_exit iter=1 sub_iter=1 success=true",
        "orchestrator: summary_extract agent=TEST level=2 cache_hit=false",
        "orchestrator: prompt_size stage=MAIN size=",
    ] {
        assert!(lines.contains(line), "{line}: {lines}");
    }
    let status = place.expect(&["status"], 0);
    assert!(status.contains("from the cache"), "{status}");
}

#[test]
fn a_dirty_work_tree_is_said_and_nothing_of_its_git_configuration_runs() {
    let place = tdd();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(args).current_dir(place.path("project")).env("HOME", place.path("home"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "src"]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]);
    let canary = place.path("canary");
    let touch = format!("touch {}", canary.display());
    for key in
        ["core.fsmonitor", "filter.x.clean", "filter.x.smudge", "core.pager", "diff.external"]
    {
        git(&["config", key, &touch]);
    }
    place.write("project/.gitattributes", "* filter=x\n");
    place.write("project/src/lib.rs", "fn add() {} // changed\n");
    let said = place.expect(&RUN, 0);
    assert!(
        said.contains("2 uncommitted changes in the work tree; snapshots include them"),
        "{said}"
    );
    assert!(!canary.exists(), "a helper of the project's git configuration ran");
}

#[test]
fn a_stage_that_would_exceed_its_own_budget_does_not_start() {
    let place = tdd();
    let mut args = RUN.to_vec();
    args.extend(["--stage-tokens", "50"]);
    let said = place.expect(&args, 4);
    assert!(said.contains("would exceed the budget of a stage: 50"), "{said}");
    assert!(!place.path("calls").exists(), "nobody was called");
}
