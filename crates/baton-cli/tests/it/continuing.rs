//! A run continues correctly whatever happens to it: whole runs by the real binary with the built-in
//! agent, against a scripted model over real HTTP that plays the fault.

use std::collections::BTreeMap;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_testkit::{Asked, Model, Place, call, decision, refusal, report, silence, text};
use serde_json::{Value, json};

const PLAN: &str =
    r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;

/// An act that leaves a line each time it is done.
fn act(name: &str) -> Value {
    call("Bash", json!({ "command": format!("echo {name} >> acts") }))
}

/// Requests by stage, in their order: `1-TEST`, in the sub-loop `1-TEST` too.
type Heard = Arc<Mutex<Vec<(String, Value)>>>;

/// A team that is played by a model: each stage has its answers in a row, the last one serves all that follow.
struct Team {
    place: Place,
    model: Model,
    heard: Heard,
}

impl Team {
    /// The usual run, with other answers for the stages that are named.
    fn new(changed: &[(&str, Vec<Value>)]) -> Team {
        let place = crate::team("tdd");
        place.with_short_rules();
        let mut answers: BTreeMap<String, Vec<Value>> = BTreeMap::from([
            ("1-MAIN".to_owned(), vec![text(&decision("TEST", PLAN))]),
            ("1-TEST".to_owned(), vec![act("test"), text(&report(1, "PASS", "none"))]),
            ("2-MAIN".to_owned(), vec![text(&decision("REVIEW", "null"))]),
            ("2-REVIEW".to_owned(), vec![text(&report(2, "PASS", "none"))]),
            (
                "3-MAIN".to_owned(),
                vec![text(&decision("FINISH", "\"update M1-T1 status to VERIFIED\""))],
            ),
            ("3-FINISH_REVIEW".to_owned(), vec![text(&report(3, "PASS", "none"))]),
            ("3-FINISH_CHECK".to_owned(), vec![text(&decision("FINISH", "null"))]),
        ]);
        answers.extend(changed.iter().map(|(name, own)| ((*name).to_owned(), own.clone())));
        let heard = Heard::default();
        let log = heard.clone();
        let model = Model::answering(move |_, asked: &Asked| {
            let header = |name: &str| asked.header(name).unwrap_or_default().to_uppercase();
            let name = format!("{}-{}", header("x-baton-iteration"), header("x-baton-stage"));
            let mut log = log.lock().unwrap();
            let before = log.iter().filter(|(own, _)| *own == name).count();
            log.push((name.clone(), asked.body.clone()));
            let own = answers.get(&name).unwrap_or_else(|| panic!("no answers for {name}"));
            own.get(before).or(own.last()).unwrap().clone()
        });
        Team { place, model, heard }
    }

    fn flags(&self, args: &[&str]) -> Vec<String> {
        let more = ["--provider", "openai-chat", "--base-url", &self.model.url, "--model", "m"];
        args.iter().chain(&more).map(|word| (*word).to_owned()).collect()
    }

    fn command(&self, args: &[&str]) -> Command {
        let args = self.flags(args);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.place.command(&args)
    }

    fn expect(&self, args: &[&str], code: i32) -> String {
        let args = self.flags(args);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.place.expect(&args, code)
    }

    fn run(&self, code: i32) -> String {
        self.expect(&["run", "Make add() safe"], code)
    }

    fn resume(&self, code: i32) -> String {
        self.expect(&["resume"], code)
    }

    fn begin(&self, args: &[&str]) -> Child {
        self.begin_with("--default-signal=HUP", args)
    }

    /// Starts a run whose handling of the hang-up signal does not depend on who runs this test.
    fn begin_with(&self, hang_up: &str, args: &[&str]) -> Child {
        let baton = self.command(args);
        let mut command = Command::new("env");
        command.arg(hang_up).arg(baton.get_program()).args(baton.get_args());
        for (name, value) in baton.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(baton.get_current_dir().unwrap()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The messages of each request of a stage.
    fn conversations(&self, stage: &str) -> Vec<Vec<Value>> {
        let heard = self.heard.lock().unwrap();
        let own = heard.iter().filter(|(name, _)| name == stage);
        own.map(|(_, body)| body["messages"].as_array().unwrap().clone()).collect()
    }

    fn calls(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    fn acts(&self) -> Vec<String> {
        self.place.read("project/acts").lines().map(str::to_owned).collect()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.place.expect(&["status", "--json"], 0)).unwrap()
    }
}

/// Each request begins with the one before it, byte for byte.
fn assert_nothing_is_rewritten(requests: &[Vec<Value>]) {
    for pair in requests.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        assert!(after.len() > before.len(), "{before:?}\n{after:?}");
        for (own, next) in before.iter().zip(after) {
            assert_eq!(own.to_string(), next.to_string());
        }
    }
}

fn wrong() -> Value {
    text("iteration: 1\nverdict: PASS\nblockers: [impl] overflow in add()\n")
}

#[test]
fn a_refused_report_is_corrected_in_the_same_conversation() {
    let right = text(&report(1, "PASS", "none"));
    let team = Team::new(&[("1-TEST", vec![act("test"), wrong(), right])]);
    team.run(0);
    let requests = team.conversations("1-TEST");
    assert_eq!(requests.len(), 3);
    assert_nothing_is_rewritten(&requests);
    let last = requests.last().unwrap();
    let tail: Vec<&str> =
        last[last.len() - 2..].iter().map(|own| own["content"].as_str().unwrap()).collect();
    assert!(tail[0].contains("overflow in add()"), "its refused answer is in view: {tail:?}");
    assert!(tail[1].contains("PASS") && tail[1].contains("blocker"), "the exact error: {tail:?}");
    assert_eq!(team.acts(), ["test"], "nothing is done again");
    for name in ["1_test_a1.md", "1_test_a2.md"] {
        assert!(team.place.path("project/.baton/reports/archive").join(name).exists(), "{name}");
    }
    let totals = team.status()["totals"].clone();
    // Every call of this model counts 1,020 tokens.
    assert_eq!(totals["tokens"], json!(team.calls() * 1_020), "only real calls are counted");
    assert_eq!((&totals["corrections"], &totals["tester_runs"]), (&json!(1), &json!(1)));
    assert_eq!(totals["stages"], json!(7), "a correction is not another stage: {totals}");
}

#[test]
fn resume_after_the_last_refusal_asks_the_model_again() {
    let right = text(&report(1, "PASS", "none"));
    let own = vec![act("test"), wrong(), wrong(), wrong(), right];
    let team = Team::new(&[("1-TEST", own)]);
    let said = team.run(3);
    assert!(said.contains("blocker"), "{said}");
    assert_eq!(team.conversations("1-TEST").len(), 3);
    // A fresh set of tries: the first is refused as well, the second is right.
    team.resume(0);
    let requests = team.conversations("1-TEST");
    assert_eq!(requests.len(), 5);
    assert_nothing_is_rewritten(&requests);
    assert_eq!(team.acts(), ["test"]);
    assert_eq!(team.status()["totals"]["tokens"], json!(team.calls() * 1_020));
}

#[test]
fn main_gets_its_prompt_the_refused_answer_and_the_error_as_messages() {
    let refused = [text("Sure, here it is: {}"), text("{\"next_agent\":\"TEST\"}")];
    let own = vec![refused[0].clone(), refused[1].clone(), text(&decision("TEST", PLAN))];
    let team = Team::new(&[("1-MAIN", own)]);
    team.place.write("home/.config/baton/baton.toml", "[decision]\nretries = 2\n");
    team.run(0);
    let requests = team.conversations("1-MAIN");
    assert_eq!(requests.iter().map(Vec::len).collect::<Vec<_>>(), [1, 3, 5]);
    assert_nothing_is_rewritten(&requests);
    assert_eq!(requests[1][1]["content"], "Sure, here it is: {}");
    assert_eq!(requests[1][1]["role"], "assistant");
    assert!(requests[1][2]["content"].as_str().unwrap().contains("before the JSON"));
    assert!(requests[2][4]["content"].as_str().unwrap().contains("reason"));
}

#[test]
fn an_agent_program_gets_its_refused_answer_and_the_error_in_its_prompt() {
    let place = crate::team("tdd");
    place.play("1-MAIN", &decision("DEV", PLAN));
    place.play("1-DEV", "iteration: 1\nverdict: GREAT\nblockers: none\nthe work of an hour\n");
    place.expect(&["run", "Make add() safe", "--executor", "script"], 3);
    let prompt = place.read("prompts/1-DEV-1.txt");
    let order = prompt.find("# Work order").unwrap();
    let refused = prompt.rfind("the work of an hour").unwrap();
    let error = prompt.rfind("verdict `GREAT` is not allowed").unwrap();
    assert!(order < refused && refused < error, "{prompt}");
}

#[test]
fn one_fence_around_a_whole_answer_is_accepted_and_not_published() {
    let fenced = |inside: &str| text(&format!("```text\n{inside}\n```"));
    let team = Team::new(&[
        ("1-MAIN", vec![fenced(&decision("TEST", PLAN))]),
        ("1-TEST", vec![fenced(&report(1, "PASS", "none"))]),
    ]);
    team.run(0);
    assert_eq!(team.conversations("1-MAIN").len() + team.conversations("1-TEST").len(), 2);
    let published = team.place.read("project/.baton/reports/report_test.md");
    assert!(published.starts_with("iteration: 1\n") && !published.contains("```"), "{published}");
}

#[test]
fn a_stop_inside_a_stage_continues_after_its_last_step() {
    let faults = [
        (401, "invalid x-api-key"),
        (402, "payment required"),
        (403, "not allowed"),
        (404, "no such model"),
        (429, "You exceeded your current quota"),
        (400, "Your credit balance is too low to access the API"),
    ];
    for (status, words) in faults {
        let mut fault = refusal(status, words);
        if status == 429 {
            fault["error"]["code"] = json!("insufficient_quota");
        }
        let right = text(&report(1, "PASS", "none"));
        let team = Team::new(&[("1-TEST", vec![act("one"), act("two"), fault, right])]);
        let said = team.run(1);
        assert!(said.contains("stopped: TEST, iteration 1"), "{status}: {said}");
        assert_eq!(team.acts(), ["one", "two"], "{status}");
        team.resume(0);
        assert_eq!(team.acts(), ["one", "two"], "{status}: no act is repeated");
        let requests = team.conversations("1-TEST");
        assert_eq!(requests.len(), 4, "{status}: only the refused call is made again");
        assert_eq!(requests[2], requests[3], "{status}");
        let journal = team.place.expect(&["log", "--json"], 0);
        assert!(!journal.contains("stage_lost") && !journal.contains("unusable"), "{journal}");
        let totals = team.status()["totals"].clone();
        assert_eq!(totals["tokens"], json!((team.calls() - 1) * 1_020), "{status}: {totals}");
    }
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The process ends by itself. The promise is 5 s; a busy machine gets three times as long.
fn ended(mut child: Child, what: &str) -> Output {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(15) {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let lines = said.lines().count();
            panic!("{what}: it does not end; {lines} lines of output, the last: {said:.500}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

/// Asks a run twice to stop, in one of the ways there are.
fn ask_to_stop(team: &Team, child: &Child, way: &str) {
    match way {
        "stop --now" => drop(team.place.expect(&["stop", "--now"], 0)),
        "hang-up" => signal(child, "-HUP"),
        name => {
            signal(child, name);
            // Two signals at once would count as one.
            std::thread::sleep(Duration::from_millis(300));
            signal(child, name);
        }
    }
}

const WAYS: [&str; 4] = ["-INT", "-TERM", "hang-up", "stop --now"];

#[test]
fn two_requests_to_stop_end_a_stage_while_its_model_thinks() {
    for way in WAYS {
        let right = text(&report(1, "PASS", "none"));
        let team = Team::new(&[("1-TEST", vec![act("test"), silence(), right])]);
        let child = team.begin(&["run", "Make add() safe"]);
        wait_for("the second call", || team.conversations("1-TEST").len() == 2);
        ask_to_stop(&team, &child, way);
        let output = ended(child, way);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(10), "{way}: {said}");
        assert!(said.lines().count() < 20, "{way}: {said}");
        team.resume(0);
        assert_eq!(team.acts(), ["test"], "{way}");
    }
}

#[test]
fn a_run_that_was_started_to_outlive_its_terminal_ignores_the_hang_up() {
    let right = text(&report(1, "PASS", "none"));
    let team = Team::new(&[("1-TEST", vec![act("test"), silence(), right])]);
    let mut child = team.begin_with("--ignore-signal=HUP", &["run", "Make add() safe"]);
    wait_for("the second call", || team.conversations("1-TEST").len() == 2);
    signal(&child, "-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the hang-up ended it");
    ask_to_stop(&team, &child, "-INT");
    assert_eq!(ended(child, "-INT").status.code(), Some(10));
}

#[test]
fn two_requests_to_stop_end_a_stage_while_its_command_runs() {
    for way in WAYS {
        let long = call("Bash", json!({ "command": "echo begun >> acts; sleep 600" }));
        let right = text(&report(1, "PASS", "none"));
        let team = Team::new(&[("1-TEST", vec![long, right])]);
        let child = team.begin(&["run", "Make add() safe"]);
        wait_for("the act", || team.place.path("project/acts").exists());
        ask_to_stop(&team, &child, way);
        assert_eq!(ended(child, way).status.code(), Some(10), "{way}");
        team.resume(0);
        assert_eq!(team.acts(), ["begun"], "{way}: what was begun is not done again");
        let last = team.conversations("1-TEST").pop().unwrap();
        let result = last.iter().rfind(|message| message["role"] == "tool").unwrap();
        let result = result["content"].as_str().unwrap();
        let is_told = ["UNKNOWN", "STOPPED"].iter().any(|word| result.contains(word));
        assert!(is_told, "{way}: the model is told that it did not end: {result}");
    }
}

#[test]
fn two_requests_to_stop_end_a_pause_between_two_tries() {
    for stage in ["1-MAIN", "1-TEST"] {
        let mut answers = vec![refusal(503, "overloaded"); 3];
        answers.push(match stage {
            "1-MAIN" => text(&decision("TEST", PLAN)),
            _ => text(&report(1, "PASS", "none")),
        });
        let team = Team::new(&[(stage, answers)]);
        let child = team.begin(&["run", "Make add() safe"]);
        wait_for("the third try", || team.conversations(stage).len() >= 3);
        ask_to_stop(&team, &child, "-INT");
        assert_eq!(ended(child, stage).status.code(), Some(10), "{stage}");
        team.resume(0);
    }
}

#[test]
fn two_requests_to_stop_end_a_walk_over_the_project_that_blocks() {
    let team = Team::new(&[]);
    // An open for reading waits until there is a writer.
    std::fs::create_dir(team.place.path("project/sub")).unwrap();
    let pipe = team.place.path("project/sub/.gitignore");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let child = team.begin(&["run", "Make add() safe"]);
    wait_for("the run", || team.place.history().contains("Make add() safe"));
    // From here on the walk blocks, or has not come to the pipe yet.
    ask_to_stop(&team, &child, "-TERM");
    let output = ended(child, "a walk that blocks");
    assert_eq!(output.status.code(), Some(10), "{output:?}");
    std::fs::remove_file(pipe).unwrap();
    team.resume(0);
}

#[test]
fn a_sub_loops_time_limit_holds_after_a_resume() {
    let fail = text(&report(1, "FAIL", "[impl] overflow in add()"));
    let team = Team::new(&[
        ("1-TEST", vec![fail]),
        ("1-DEV", vec![act("dev"), silence()]),
        ("2-MAIN", vec![text(&decision("TEST", "null"))]),
        ("2-TEST", vec![text(&report(2, "PASS", "none"))]),
        ("3-MAIN", vec![text(&decision("REVIEW", "null"))]),
        ("3-REVIEW", vec![text(&report(3, "PASS", "none"))]),
        ("4-MAIN", vec![text(&decision("FINISH", "\"update M1-T1 status to VERIFIED\""))]),
        ("4-FINISH_REVIEW", vec![text(&report(4, "PASS", "none"))]),
        ("4-FINISH_CHECK", vec![text(&decision("FINISH", "null"))]),
    ]);
    let policy = "project/.baton/memory/verification_policy.json";
    let words = team.place.read(policy).replace("\"timeout\": 600", "\"timeout\": 6");
    assert!(words.contains("\"timeout\": 6,") || words.contains("\"timeout\": 6\n"), "{words}");
    team.place.write(policy, words);
    let mut child = team.begin(&["run", "Make add() safe"]);
    wait_for("the fixer", || team.conversations("1-DEV").len() == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    team.resume(0);
    let history = team.place.history();
    assert!(history.contains("error: DEV: it took longer than 6 s"), "{history}");
    assert_eq!(team.acts(), ["dev"]);
}

#[test]
fn equal_attempts_to_finish_lead_to_a_question_and_not_to_a_loop() {
    let attempt = |number: u32| {
        // The plan is never ready.
        let passed = text(&report(number, "PASS", "none"));
        [
            (format!("{number}-MAIN"), vec![text(&decision("FINISH", "null"))]),
            (format!("{number}-FINISH_REVIEW"), vec![passed]),
            (format!("{number}-FINISH_CHECK"), vec![text(&decision("FINISH", "null"))]),
        ]
    };
    let all: Vec<(String, Vec<Value>)> = (2..6).flat_map(attempt).collect();
    let all: Vec<(&str, Vec<Value>)> =
        all.iter().map(|(name, own)| (name.as_str(), own.clone())).collect();
    let team = Team::new(&all);
    let said = team.run(10);
    assert!(said.contains("The run cannot be finished"), "{said}");
}

#[test]
fn two_requests_to_stop_end_a_run_whose_output_is_not_read() {
    // As JSON only the signals print there; otherwise the run itself waits for its reader.
    for format in [Some("--json"), None] {
        let mut answers = vec![text(&report(1, "PASS", "none"))];
        if format.is_some() {
            answers.insert(0, silence());
        }
        let team = Team::new(&[("1-TEST", answers)]);
        let mut command = team.command(&["run", "Make add() safe"]);
        let (reader, writer) = std::io::pipe().unwrap();
        fill(&writer);
        command.args(format).stdout(Stdio::piped()).stderr(writer);
        let child = command.spawn().unwrap();
        let journal = team.place.path("project/.baton/journal/run-0001/000001.log");
        match format {
            Some(_) => wait_for("the agent", || !team.conversations("1-TEST").is_empty()),
            None => wait_for("the run", || journal.exists()),
        }
        ask_to_stop(&team, &child, "-INT");
        assert_eq!(ended(child, "a full pipe").status.code(), Some(10), "{format:?}");
        drop(reader);
        team.resume(0);
    }
}

/// Writes to a pipe until it is full.
fn fill(pipe: &std::io::PipeWriter) {
    use std::io::Write;
    rustix::io::ioctl_fionbio(pipe, true).unwrap();
    let mut pipe: &std::io::PipeWriter = pipe;
    while pipe.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(pipe, false).unwrap();
}

#[test]
fn edits_during_an_interrupted_stage_that_only_reads_are_kept() {
    let right = text(&report(2, "PASS", "none"));
    let look = call("Read", json!({ "path": "src/lib.rs" }));
    let again = ("3-MAIN", vec![text(&decision("REVIEW", "null"))]);
    let second = ("3-REVIEW", vec![text(&report(3, "PASS", "none"))]);
    let finish = ("4-MAIN", vec![text(&decision("FINISH", "\"update M1-T1 status to VERIFIED\""))]);
    let last = ("4-FINISH_REVIEW", vec![text(&report(4, "PASS", "none"))]);
    let check = ("4-FINISH_CHECK", vec![text(&decision("FINISH", "null"))]);
    let first = ("2-REVIEW", vec![look, refusal(401, "no"), right]);
    let team = Team::new(&[first, again, second, finish, last, check]);
    team.run(1);
    // Later than the last sign of life of the process that is gone.
    let path = team.place.path("project/src/lib.rs");
    std::fs::write(&path, "// mine\n").unwrap();
    let later = std::time::SystemTime::now() + Duration::from_secs(60);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    let said = team.resume(0);
    assert_eq!(team.place.read("project/src/lib.rs"), "// mine\n", "{said}");
    // Part of the review was about another file: its pass does not count, and a second one does.
    let line = "[2] changed while REVIEW, which may not write, ran, and kept: src/lib.rs";
    assert!(said.contains(line) && said.contains("[2] REVIEW: FAIL (overturned)"), "{said}");
}

#[test]
fn a_correction_without_its_conversation_is_given_once_and_continues() {
    let right = text(&report(1, "PASS", "none"));
    let team =
        Team::new(&[("1-TEST", vec![wrong(), wrong(), act("test"), refusal(401, "no"), right])]);
    team.run(3);
    std::fs::remove_dir_all(team.place.path("project/.baton/transcripts")).unwrap();
    // It begins anew with what was refused, and stops inside of the correction.
    team.resume(1);
    team.resume(0);
    let requests = team.conversations("1-TEST");
    let last = serde_json::to_string(requests.last().unwrap()).unwrap();
    assert_eq!(last.matches("broke the protocol").count(), 1, "{last}");
    assert!(last.contains("overflow in add()"), "the refused answer is in view: {last}");
    assert_eq!(team.acts(), ["test"]);
    // Six calls of this stage were answered or refused; one of them counted nothing.
    assert_eq!(team.status()["totals"]["tokens"], json!((team.calls() - 1) * 1_020));
}
