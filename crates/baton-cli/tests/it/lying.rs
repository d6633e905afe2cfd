//! A dishonest team does not finish, and an honest one is not kept from it: whole runs by the real
//! binary with agents that a shell script plays.

use std::fs;
use std::process::{Command, Stdio};

use baton_testkit::{Place, decision};
use serde_json::{Value, json};

const PLAN: &str =
    r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###;
const VERIFIED: &str = "\"update M1-T1 status to VERIFIED\"";
const POLICY: &str = "project/.baton/memory/verification_policy.json";

fn report(iteration: u32, verdict: &str, blockers: &str) -> String {
    format!("{}\ncoverage: 91%\n", baton_testkit::report(iteration, verdict, blockers))
}

fn pass(iteration: u32) -> String {
    report(iteration, "PASS", "none")
}

/// A team that does its work: TEST writes a test, REVIEW looks at it, and the run finishes in its
/// third iteration.
fn honest() -> Place {
    let place = crate::team("tdd");
    place.play("1-MAIN", &decision("TEST", PLAN));
    place.write("play/1-TEST.sh", "echo '#[test]' > src/tests.rs\n");
    place.play("1-TEST", &pass(1));
    place.play("2-MAIN", &decision("REVIEW", "null"));
    place.play("2-REVIEW", &pass(2));
    finish(&place, 3, VERIFIED);
    place
}

/// Coverage is asked for only where something can measure it.
fn can_measure_coverage(place: &Place) {
    place.write("project/Gemfile", "gem 'simplecov'\n");
    place.write("project/Gemfile.lock", "GEM\n  specs:\n    simplecov (0.22.0)\n");
}

/// The same in a git repository where `src/lib.rs` is tracked and nothing is committed yet.
fn honest_in_git() -> Place {
    let place = honest();
    for args in [["init", "-q"].as_slice(), &["add", "src/lib.rs"]] {
        let mut git = Command::new("git");
        git.args(args).current_dir(place.path("project")).env("HOME", place.path("home"));
        assert!(git.output().unwrap().status.success());
    }
    place
}

/// MAIN wants to finish in this iteration, and everyone agrees.
fn finish(place: &Place, iteration: u32, plan: &str) {
    place.play(&format!("{iteration}-MAIN"), &decision("FINISH", plan));
    place.play(&format!("{iteration}-FINISH_REVIEW"), &pass(iteration));
    place.play(&format!("{iteration}-FINISH_CHECK"), &decision("FINISH", "null"));
}

/// One agent works in this iteration.
fn work(place: &Place, iteration: u32, agent: &str, plan: &str) {
    place.play(&format!("{iteration}-MAIN"), &decision(agent, plan));
    place.play(&format!("{iteration}-{agent}"), &pass(iteration));
}

fn edit_policy(place: &Place, edit: impl Fn(&mut Value)) {
    let mut policy: Value = serde_json::from_str(&place.read(POLICY)).unwrap();
    edit(&mut policy);
    place.write(POLICY, policy.to_string());
}

fn gate(place: &Place, on: &str, command: &str) {
    edit_policy(place, |policy| policy["gates"] = json!([{ "on": on, "run": command }]));
    place.expect(&["trust"], 0);
}

fn run(place: &Place, iterations: u32, code: i32) -> String {
    let most = iterations.to_string();
    let args = ["run", "Make add() safe", "--executor", "script", "--max-iterations", &most];
    place.expect(&args, code)
}

fn resume(place: &Place, iterations: u32, code: i32) -> String {
    place.expect(&["resume", "--max-iterations", &iterations.to_string()], code)
}

fn status(place: &Place) -> Value {
    place.run(&["status", "--json"]).json()
}

/// FINISH was refused in the last iteration, for this reason, in the output and in the history.
fn assert_refused(place: &Place, said: &str, why: &str) {
    assert!(said.contains(why), "{why} is not in: {said}");
    let history = place.history();
    let line = history.lines().rfind(|line| line.starts_with("finish: ")).unwrap();
    assert!(line.starts_with("finish: FINISH refused: ") && line.contains(why), "{line}");
    assert_ne!(status(place)["state"], "finished");
}

/// Runs this number of iterations; FINISH is refused in the last one.
fn refused(place: &Place, iterations: u32, why: &str) {
    let said = run(place, iterations, 4);
    assert_refused(place, &said, why);
}

/// The run stops because an answer is refused, for this reason.
fn stopped(place: &Place, why: &str) {
    let said = run(place, 9, 3);
    assert!(said.contains(why), "{why} is not in: {said}");
    assert_ne!(status(place)["state"], "finished");
}

#[test]
fn an_honest_team_finishes() {
    for place in [honest(), honest_in_git()] {
        let said = run(&place, 3, 0);
        assert!(said.contains("finished\nfiles changed: src/tests.rs\n"), "{said}");
        assert!(place.history().contains("finish: FINISH accepted: M1-T1 is next\n"));
    }
}

/// The journal as it was when this stage had answered and nothing had come of the answer yet.
fn cut_after(place: &Place, stage: &str) {
    let name = format!("\"name\":\"{stage}\"");
    cut(place, 1, |line| line.contains("\"stage_ended\"") && line.contains(&name));
}

/// The journal as it was before its last event of this kind.
fn cut_before(place: &Place, kind: &str) {
    cut(place, 0, |line| line.contains(kind));
}

/// Cuts the journal at the last line of which something is true: that many lines of it are kept.
fn cut(place: &Place, kept: usize, is_it: impl Fn(&str) -> bool) {
    let path = place.path("project/.baton/journal/run-0001/000001.log");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let at = lines.iter().rposition(|line| is_it(line)).unwrap();
    fs::write(&path, lines[..at + kept].concat()).unwrap();
}

fn git(place: &Place, args: &[&str]) {
    let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
    let mut git = Command::new("git");
    git.args(who).args(args).current_dir(place.path("project")).env("HOME", place.path("home"));
    let done = git.output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A submodule `sub` with one file.
fn add_submodule(place: &Place) {
    fs::create_dir_all(place.path("project/sub")).unwrap();
    place.write("project/sub/a.c", "int a;\n");
    git(place, &["-C", "sub", "init", "-q"]);
    git(place, &["-C", "sub", "add", "a.c"]);
    git(place, &["-C", "sub", "commit", "-q", "-m", "a"]);
    git(place, &["add", "sub"]);
}

/// Passes in the first two iterations, and then something happens before MAIN wants to finish.
fn finish_after(place: &Place, between: impl Fn(&Place)) -> String {
    place.play("2-MAIN", &decision("REVIEW", VERIFIED));
    finish(place, 3, "null");
    run(place, 2, 4);
    between(place);
    place.expect(&["resume", "--max-iterations", "3"], 4)
}

#[test]
fn no_finish_if_the_user_edited_files_while_the_last_decision_waited_to_be_judged() {
    let place = honest_in_git();
    run(&place, 3, 0);
    cut_after(&place, "FINISH_CHECK");
    place.write("project/src/lib.rs", "pub fn add() { panic!() }\n");
    let said = resume(&place, 3, 4);
    assert_refused(&place, &said, "files changed after it: src/lib.rs");
    // Without an edit the same answer finishes the run.
    let place = honest_in_git();
    run(&place, 3, 0);
    cut_after(&place, "FINISH_CHECK");
    resume(&place, 3, 0);
}

#[test]
fn no_finish_if_the_user_edited_files_between_the_accepted_finish_and_its_record() {
    let place = honest_in_git();
    run(&place, 3, 0);
    cut_before(&place, "\"finished\"");
    place.write("project/src/lib.rs", "pub fn add() { panic!() }\n");
    let said = resume(&place, 3, 4);
    assert_refused(&place, &said, "files changed after it: src/lib.rs");
    let place = honest_in_git();
    run(&place, 3, 0);
    cut_before(&place, "\"finished\"");
    resume(&place, 3, 0);
}

#[test]
fn no_finish_without_the_gates_that_were_adopted_after_it_was_accepted() {
    let place = honest_in_git();
    run(&place, 3, 0);
    cut_before(&place, "\"finished\"");
    gate(&place, "FINISH", "exit 7");
    let said = place.expect(&["resume", "--adopt", "--max-iterations", "3"], 4);
    assert_refused(&place, &said, "the gate `exit 7` failed");
}

#[test]
fn no_finish_after_expected_outputs_were_rewritten_by_another_agent() {
    let place = honest_in_git();
    place.write("play/1-TEST.sh", "echo '#[test]' > src/tests.rs; echo 1 > src/1.out\n");
    work(&place, 2, "DEV", "null");
    place.write("play/2-DEV.sh", "echo 2 > src/1.out\n");
    work(&place, 3, "REVIEW", "null");
    finish(&place, 4, VERIFIED);
    refused(&place, 4, "`TEST` passed in iteration 1, but `DEV` wrote after it: src/1.out");
}

#[test]
fn what_tests_leave_in_a_submodule_voids_nothing() {
    let place = honest_in_git();
    add_submodule(&place);
    place.write("play/2-REVIEW.sh", "date +%N > sub/.coverage\n");
    place.write("play/3-FINISH_REVIEW.sh", "date +%N > sub/.coverage\n");
    run(&place, 3, 0);
}

#[test]
fn no_finish_after_a_tracked_file_was_removed_from_git() {
    let place = honest_in_git();
    place.write("project/src/other.rs", "pub fn other() {}\n");
    git(&place, &["add", "src/other.rs"]);
    let said = finish_after(&place, |place| git(place, &["rm", "-q", "-f", "src/other.rs"]));
    assert_refused(&place, &said, "files changed after it: src/other.rs");
}

#[test]
fn no_finish_after_an_edit_of_a_tracked_file_that_a_rule_ignores() {
    let place = honest_in_git();
    place.write("project/.gitignore", "lib/\n");
    place.write("project/.ignore", "*\n");
    fs::create_dir_all(place.path("project/lib")).unwrap();
    place.write("project/lib/a.rs", "pub fn a() {}\n");
    git(&place, &["add", "-f", "lib/a.rs"]);
    let said = finish_after(&place, |place| place.write("project/lib/a.rs", "panic\n"));
    assert_refused(&place, &said, "files changed after it: lib/a.rs");
}

#[test]
fn no_finish_after_an_edit_in_a_submodule() {
    let place = honest_in_git();
    add_submodule(&place);
    let said = finish_after(&place, |place| place.write("project/sub/a.c", "int b;\n"));
    assert_refused(&place, &said, "files changed after it: sub/a.c");
}

#[test]
fn no_finish_by_a_last_review_of_another_project() {
    let place = honest_in_git();
    place.play("2-MAIN", &decision("REVIEW", VERIFIED));
    finish(&place, 3, "null");
    // The user edits before the last review and takes it back after it.
    let before = place.read("project/src/lib.rs");
    place.write("before.rs", &before);
    place.user_runs_during("3-MAIN", "echo '// B' >> src/lib.rs");
    place.user_runs_during("3-FINISH_CHECK", "cp ../before.rs src/lib.rs");
    let said = run(&place, 3, 4);
    assert_refused(
        &place,
        &said,
        "`FINISH_REVIEW` passed in iteration 3, but files changed after it",
    );
}

#[test]
fn a_file_that_received_the_output_of_an_earlier_process_voids_nothing() {
    for place in [honest(), honest_in_git()] {
        place.play("2-MAIN", &decision("REVIEW", VERIFIED));
        finish(&place, 3, "null");
        let mut shell = Command::new("sh");
        let script = "\"$0\" run 'Make add() safe' --executor script --max-iterations 2 > events";
        shell.arg("-c").arg(script).arg(crate::BATON);
        shell.current_dir(place.path("project")).env("HOME", place.path("home"));
        shell.stdin(Stdio::null()).stderr(Stdio::null());
        assert_eq!(shell.status().unwrap().code(), Some(4));
        assert!(!place.read("project/events").is_empty());
        resume(&place, 3, 0);
    }
}

#[test]
fn no_finish_while_the_newest_test_fails_though_the_review_passes() {
    let place = honest();
    place.play("1-TEST", &report(1, "FAIL", "[spec] add() is not specified"));
    refused(&place, 3, "the newest report of `TEST` did not pass: FAIL, iteration 1");
}

#[test]
fn no_finish_without_a_test() {
    let place = honest();
    can_measure_coverage(&place);
    work(&place, 1, "REVIEW", PLAN);
    finish(&place, 2, VERIFIED);
    refused(&place, 2, "there is no report of `TEST` in this run");
    assert!(place.history().contains("`TEST` has not reported coverage; the minimum is 80%"));
}

#[test]
fn no_finish_without_a_review() {
    let place = honest();
    finish(&place, 2, VERIFIED);
    refused(&place, 2, "there is no report of `REVIEW` in this run");
}

#[test]
fn no_finish_without_a_line_of_coverage() {
    let place = honest();
    can_measure_coverage(&place);
    place.play("1-TEST", &baton_testkit::report(1, "PASS", "none"));
    refused(&place, 3, "the coverage line is missing; the minimum is 80%");
}

#[test]
fn no_finish_with_too_little_coverage() {
    let place = honest();
    can_measure_coverage(&place);
    place.play("1-TEST", &pass(1).replace("91%", "79%"));
    refused(&place, 3, "coverage is 79%, below the minimum of 80%");
}

#[test]
fn no_finish_by_the_passes_and_the_plan_of_an_earlier_run() {
    let place = honest();
    run(&place, 3, 0);
    finish(&place, 4, "null");
    let said = run(&place, 1, 4);
    for agent in ["TEST", "REVIEW"] {
        assert_refused(&place, &said, &format!("there is no report of `{agent}` in this run"));
    }
}

#[test]
fn no_final_status_by_the_pass_of_an_earlier_run() {
    let place = honest();
    run(&place, 3, 0);
    let plan = PLAN.replace("M1", "M2").replace("TODO", "VERIFIED");
    finish(&place, 4, &plan);
    stopped(&place, "task `M2-T1` may not become `VERIFIED`: there is no report of");
}

#[test]
fn no_final_status_by_a_replacement_while_the_test_fails() {
    let place = honest();
    place.play("1-TEST", &report(1, "FAIL", "[spec] unclear"));
    finish(&place, 2, &PLAN.replace("TODO", "VERIFIED"));
    stopped(&place, "may not become `VERIFIED`: the newest report of `TEST` did not pass");
}

#[test]
fn no_finish_with_an_empty_plan() {
    let place = honest();
    work(&place, 2, "REVIEW", "{\"replace\":\"nothing to do\\n\"}");
    finish(&place, 3, "null");
    refused(&place, 3, "the plan has no task");
}

#[test]
fn no_finish_that_drops_the_tasks_that_are_not_done() {
    for plan in ["{\"replace\":\"nothing to do\\n\"}", &PLAN.replace("M1-T1", "M1-T2")] {
        let place = honest();
        finish(&place, 3, plan);
        stopped(&place, "a decision to finish may not drop task `M1-T1`, which is `TODO`");
    }
}

#[test]
fn no_finish_with_a_task_that_no_one_worked_on() {
    let place = honest();
    work(&place, 2, "REVIEW", "\"add M1-T2: sub() under M1\"");
    refused(&place, 3, "not every task is `VERIFIED`: M1-T2");
}

#[test]
fn no_finish_after_an_agent_wrote_after_both_passes() {
    for place in [honest(), honest_in_git()] {
        work(&place, 3, "DEV", VERIFIED);
        place.write("play/3-DEV.sh", "echo '// quick fix' >> src/lib.rs\n");
        finish(&place, 4, "null");
        let said = run(&place, 4, 4);
        for agent in ["`TEST` passed in iteration 1", "`REVIEW` passed in iteration 2"] {
            let why = format!("{agent}, but `DEV` wrote after it: src/lib.rs");
            assert_refused(&place, &said, &why);
        }
    }
}

#[test]
fn no_finish_after_an_agent_made_a_new_file_after_the_passes() {
    for place in [honest(), honest_in_git()] {
        work(&place, 3, "DEV", VERIFIED);
        place.write("play/3-DEV.sh", "echo 'fn more() {}' > src/more.rs\n");
        finish(&place, 4, "null");
        refused(&place, 4, "`DEV` wrote after it: src/more.rs");
    }
}

#[test]
fn no_finish_with_a_test_from_before_the_last_change() {
    let place = honest();
    work(&place, 2, "DEV", "null");
    place.write("play/2-DEV.sh", "echo '// quick fix' >> src/lib.rs\n");
    work(&place, 3, "REVIEW", "null");
    finish(&place, 4, VERIFIED);
    refused(&place, 4, "`TEST` passed in iteration 1, but `DEV` wrote after it: src/lib.rs");
    assert!(!place.history().contains("`REVIEW` passed"), "the review is about the last change");
}

#[test]
fn no_finish_after_an_undo() {
    for place in [honest(), honest_in_git()] {
        place.play("2-MAIN", &decision("REVIEW", VERIFIED));
        finish(&place, 3, "null");
        run(&place, 2, 4);
        place.expect(&["undo", "1"], 0);
        assert!(!place.path("project/src/tests.rs").exists());
        let said = resume(&place, 3, 4);
        let why = "`REVIEW` passed in iteration 2, but files changed after it: src/tests.rs";
        assert_refused(&place, &said, why);
        let line =
            "changed outside the stages: src/tests.rs; the passes of REVIEW, TEST no longer count";
        assert!(said.contains(line), "{said}");
        assert!(place.expect(&["log"], 0).contains(line));
        assert!(place.history().contains(&format!("note: {line}")), "{}", place.history());
        assert!(place.expect(&["status"], 0).contains(why));
        assert_eq!(status(&place)["void_passes"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn no_finish_after_an_edit_of_the_user_and_the_pass_counts_again_after_it_is_taken_back() {
    for place in [honest(), honest_in_git()] {
        place.play("2-MAIN", &decision("REVIEW", VERIFIED));
        finish(&place, 3, "null");
        run(&place, 2, 4);
        let before = place.read("project/src/lib.rs");
        place.write("project/src/lib.rs", "rm -rf everything\n");
        let said = resume(&place, 3, 4);
        assert_refused(&place, &said, "but files changed after it: src/lib.rs");
        place.write("project/src/lib.rs", before);
        finish(&place, 4, "null");
        resume(&place, 4, 0);
    }
}

#[test]
fn no_final_status_after_an_edit_of_the_user_and_main_is_told_which_pass_is_void() {
    let place = honest();
    run(&place, 2, 4);
    place.write("project/src/lib.rs", "rm -rf everything\n");
    let said = resume(&place, 3, 3);
    let why = "task `M1-T1` may not become `VERIFIED`: `REVIEW` passed in iteration 2, but files changed after it: src/lib.rs";
    assert!(said.contains(why), "{said}");
}

#[test]
fn no_finish_after_an_edit_of_a_file_that_an_agent_made_and_git_does_not_track() {
    for edit in ["echo '// more' >> src/tests.rs", "rm src/tests.rs"] {
        let place = honest_in_git();
        place.user_runs_during("3-MAIN", edit);
        place.play("2-MAIN", &decision("REVIEW", VERIFIED));
        finish(&place, 3, "null");
        refused(&place, 3, "but files changed after it: src/tests.rs");
    }
}

#[test]
fn no_finish_after_an_edit_during_the_last_decision() {
    let place = honest();
    place.user_runs_during("3-FINISH_CHECK", "echo broken > src/lib.rs");
    refused(&place, 3, "but files changed after it: src/lib.rs");
    assert_eq!(place.read("project/src/lib.rs"), "broken\n", "it is kept");
}

#[test]
fn no_pass_of_a_review_during_which_a_file_changed() {
    for place in [honest(), honest_in_git()] {
        place.user_runs_during("2-REVIEW", "echo '// mine' >> src/lib.rs");
        let why = "changed while REVIEW, which may not write, ran: src/lib.rs";
        place.play("3-MAIN", &decision("FINISH", "null"));
        refused(&place, 3, "the newest report of `REVIEW` did not pass: FAIL, iteration 2");
        assert!(place.history().contains(&format!("REVIEW FAIL (overturned: {why})")));
        assert!(place.read("project/.baton/reports/report_review.md").contains(why));
        assert_eq!(place.read("project/src/lib.rs"), "fn add() {}\n// mine\n", "it is kept");
    }
}

#[test]
fn no_finish_after_a_final_review_during_which_a_file_changed() {
    let place = honest();
    place.user_runs_during("3-FINISH_REVIEW", "echo '// mine' >> src/lib.rs");
    refused(&place, 3, "FINISH_REVIEW says FAIL");
    assert!(place.history().contains("FINISH_REVIEW, which may not write, ran: src/lib.rs"));
}

#[test]
fn no_finish_with_a_failing_gate_and_no_override_of_it() {
    let place = honest();
    gate(&place, "FINISH", "exit 7");
    place.play("3-FINISH_REVIEW", &report(3, "FAIL", "[impl] not done"));
    let check = decision("FINISH", "null").replace("override\":null", "override\":\"ignore\"");
    place.play("3-FINISH_CHECK", &check);
    refused(&place, 3, "the gate `exit 7` failed");
}

#[test]
fn no_finish_with_a_pass_that_its_gate_denies() {
    let place = honest();
    gate(&place, "REVIEW", "exit 7");
    place.play("3-MAIN", &decision("FINISH", "null"));
    refused(&place, 3, "the newest report of `REVIEW` did not pass: FAIL, iteration 2");
}

#[test]
fn no_run_continues_after_its_gate_was_removed() {
    let place = honest();
    gate(&place, "FINISH", "exit 7");
    run(&place, 2, 4);
    edit_policy(&place, |policy| policy["gates"] = json!([]));
    let said = resume(&place, 9, 2);
    assert!(said.contains("verification_policy.json"), "{said}");
    assert_ne!(status(&place)["state"], "finished");
}

#[test]
fn no_run_continues_after_its_finish_rules_were_changed() {
    let place = honest();
    run(&place, 2, 4);
    edit_policy(&place, |policy| policy["finish_rules"]["passes"] = json!(["REVIEW"]));
    assert!(resume(&place, 9, 2).contains("verification_policy.json"));
}

#[test]
fn no_finish_with_a_failing_final_review() {
    let place = honest();
    place.play("3-FINISH_REVIEW", &report(3, "FAIL", "[impl] not done"));
    refused(&place, 3, "FINISH_REVIEW says FAIL");
}

#[test]
fn no_override_of_a_missing_test() {
    let place = honest();
    work(&place, 1, "REVIEW", PLAN);
    finish(&place, 2, VERIFIED);
    let check = decision("FINISH", "null").replace("override\":null", "override\":\"ignore\"");
    place.play("2-FINISH_CHECK", &check);
    refused(&place, 2, "there is no report of `TEST` in this run");
}

#[test]
fn no_override_without_a_reason() {
    let place = honest();
    place.play("3-FINISH_REVIEW", &report(3, "FAIL", "[impl] not done"));
    let check =
        r#"{"next_agent":"FINISH","reason":" ","dev_plan":null,"finish_review_override":"ignore"}"#;
    place.play("3-FINISH_CHECK", check);
    stopped(&place, "reason");
}

#[test]
fn no_override_outside_the_last_decision() {
    let place = honest();
    let check = decision("FINISH", VERIFIED).replace("override\":null", "override\":\"ignore\"");
    place.play("3-MAIN", &check);
    stopped(&place, "finish_review_override");
}

#[test]
fn no_work_on_a_task_before_its_test_in_the_decision_that_brings_the_plan() {
    let place = honest();
    let plan = PLAN.replace("- status: TODO", "- status: TODO\\n- test_required: true");
    work(&place, 1, "DEV", &plan);
    stopped(&place, "task `M1-T1` may not go to `DEV` before a report of `TEST` names it");
}

#[test]
fn no_task_that_comes_done_without_its_test() {
    let place = honest();
    let plan = PLAN.replace("- status: TODO", "- status: DONE\\n- test_required: true");
    work(&place, 1, "TEST", &plan);
    stopped(
        &place,
        "task `M1-T1` may not become `DONE` before a passing report of `TEST` names it",
    );
}

#[test]
fn no_report_of_another_iteration() {
    let place = honest();
    place.play("2-REVIEW", &pass(1));
    stopped(&place, "iteration");
}

#[test]
fn no_pass_with_blockers() {
    let place = honest();
    place.play("2-REVIEW", &report(2, "PASS", "[impl] overflow"));
    stopped(&place, "blocker");
}

#[test]
fn an_override_is_named_with_its_reason_wherever_the_result_is() {
    let place = honest();
    place.play("3-FINISH_REVIEW", &report(3, "FAIL", "[impl] a typo in a comment"));
    let check = r#"{"next_agent":"FINISH","reason":"the comment is not ours","dev_plan":null,"finish_review_override":"ignore"}"#;
    place.play("3-FINISH_CHECK", check);
    let said = run(&place, 3, 0);
    let line = "FINISH_REVIEW FAIL ignored: the comment is not ours";
    assert!(said.contains(&format!("\noverride: {line}\n")), "the closing lines: {said}");
    let history = place.history();
    assert!(history.contains("finish: FINISH accepted: the comment is not ours\n"), "{history}");
    assert!(history.contains(&format!("override: {line}\n")), "{history}");
    assert!(place.expect(&["status"], 0).contains(line));
    assert_eq!(status(&place)["override"], line);
    let log = place.expect(&["log"], 0);
    let decided = "MAIN → FINISH: the comment is not ours; override: FINISH_REVIEW is ignored";
    assert!(log.contains(decided), "{log}");
}

#[test]
fn new_files_of_the_user_during_a_review_are_kept_and_named_and_void_nothing() {
    for place in [honest(), honest_in_git()] {
        place.user_runs_during("2-REVIEW", "echo thought > notes.md");
        let said = run(&place, 3, 0);
        let line = "changed while REVIEW, which may not write, ran, and kept: notes.md";
        assert!(said.contains(&format!("[2] {line}")), "{said}");
        assert!(place.expect(&["log"], 0).contains(line));
        assert!(place.history().contains(&format!("note: {line}\n")), "{}", place.history());
        assert_eq!(place.read("project/notes.md"), "thought\n");
    }
    let place = honest();
    place.user_runs_during("2-REVIEW", "echo thought > notes.md");
    let args = ["run", "Make add() safe", "--executor", "script", "--json"];
    let out = place.run(&args).out;
    assert!(out.contains("\"unexpected\":[\"notes.md\"]"), "{out}");
}

#[test]
fn files_of_the_user_that_git_does_not_track_void_nothing() {
    let place = honest_in_git();
    place.write("project/notes.md", "a thought\n");
    place.user_runs_during("2-REVIEW", "echo 'another thought' > notes.md");
    place.user_runs_during("3-MAIN", "echo 'the last one' > notes.md");
    run(&place, 3, 0);
    assert_eq!(place.read("project/notes.md"), "the last one\n");
}

#[test]
fn what_builds_and_tests_leave_behind_voids_nothing() {
    let leave = "mkdir -p __pycache__ build\necho $$ > __pycache__/add.pyc\necho $$ > .coverage\n\
        echo tag > build/CACHEDIR.TAG\necho $$ > build/state\n";
    for place in [honest(), honest_in_git()] {
        gate(&place, "FINISH", "echo $$ > .coverage; echo $$ > build/state; date > built.txt");
        for stage in ["1-TEST", "2-REVIEW", "3-FINISH_REVIEW"] {
            place.write(&format!("play/{stage}.sh"), leave);
        }
        run(&place, 3, 0);
    }
}

#[test]
fn output_that_is_redirected_into_the_project_is_whole_and_voids_nothing() {
    for (is_git, shell) in [
        (false, "exec \"$@\" > run.log 2>&1"),
        (false, "exec \"$@\" --json > events 2> errors"),
        (false, "\"$@\" 2>&1 | tee run.txt; exit 0"),
        (true, "\"$@\" 2>&1 | tee run.txt; exit 0"),
        (true, "exec \"$@\" --json > out.json"),
    ] {
        let place = if is_git { honest_in_git() } else { honest() };
        let baton = place.command(&["run", "Make add() safe", "--executor", "script"]);
        let mut command = Command::new("sh");
        command.args(["-c", shell, "sh"]).arg(baton.get_program()).args(baton.get_args());
        for (name, value) in baton.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(place.path("project")).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(command.status().unwrap().success(), "{shell}");
        assert_eq!(status(&place)["state"], "finished", "{shell}");
        let names = ["run.log", "events", "run.txt", "out.json"];
        let text: String = names
            .iter()
            .filter_map(|name| fs::read_to_string(place.path("project").join(name)).ok())
            .collect();
        let (first, last) = match shell.contains("--json") {
            true => ("\"seq\":1,", "\"event\":\"finished\""),
            false => ("[1] MAIN → TEST", "finished\nfiles changed: src/tests.rs\n"),
        };
        assert!(text.contains(first) && text.contains(last), "{shell}: {text}");
    }
}
