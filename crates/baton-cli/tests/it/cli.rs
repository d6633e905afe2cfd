//! The binary as a person uses it: real processes, real folders, exit codes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use baton_testkit::{Answer, Place, answer, answer_to};

fn empty() -> Place {
    Place::new(crate::BATON)
}

/// A folder with a blackboard.
fn with_board(pack: &str, lang: &str) -> Place {
    let place = empty();
    place.expect(&["init", "--pack", pack, "--lang", lang], 0);
    place
}

fn run_with_input(place: &Place, args: &[&str], input: &str) -> Answer {
    answer_to(place.command(args), input.as_bytes())
}

/// Everything that a person sees, with the folder's own name taken out.
fn shown(place: &Place, args: &[&str]) -> String {
    let answer = place.run(args);
    let text = format!("exit {}\n{}{}", answer.code, answer.out, answer.errors);
    text.replace(place.root().to_str().unwrap(), "<here>")
}

/// Every file under a folder with its bytes and modification time.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let modified = fs::metadata(&path).unwrap().modified().unwrap();
                found.push((path.clone(), fs::read(&path).unwrap(), modified));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn init_makes_a_blackboard_that_every_check_accepts() {
    for pack in ["tdd", "novel", "analysis"] {
        for lang in ["en", "zh"] {
            let place = with_board(pack, lang);
            for args in [["pack", "check"], ["plan", "check"], ["history", "check"]] {
                let answer = place.run(&args);
                assert_eq!(answer.code, 0, "{pack} {lang} {args:?}: {}", answer.errors);
            }
            assert_eq!(place.run(&["doctor"]).code, 0);
        }
    }
}

#[test]
fn init_says_what_it_made_and_never_overwrites() {
    let place = empty();
    insta::assert_snapshot!(shown(&place, &["init", "--pack", "tdd", "--lang", "zh"]));
    let before = tree(&place.path(".baton"));
    insta::assert_snapshot!(shown(&place, &["init", "--pack", "novel"]), @"
    exit 2
    error: <here>/.baton is already a blackboard (`baton pack use` switches its pack)
    ");
    assert_eq!(tree(&place.path(".baton")), before);
    insta::assert_snapshot!(shown(&empty(), &["init", "--pack", "tdt"]), @"
    exit 2
    error: there is no pack `tdt`; built in are tdd, analysis, novel, scenario; a folder with a `pack.toml` is a pack too
    ");
    let other = empty();
    insta::assert_snapshot!(shown(&other, &["init", "--lang", "fr"]), @"
    exit 2
    error: the pack `tdd` has no language `fr`
        expected one of `en`, `zh`
    error: 1 problem found; nothing was changed
    ");
    assert!(!other.path(".baton").exists(), "a refused init leaves nothing behind");
    assert_eq!(fs::read_dir(other.root()).unwrap().count(), 0);
}

#[test]
fn init_keeps_the_blackboard_out_of_git_without_touching_the_project() {
    let place = empty();
    let git = |args: &[&str], folder: &Path| {
        let output = Command::new("git").args(args).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"], place.root());
    assert_eq!(place.run(&["init"]).code, 0);
    assert_eq!(git(&["status", "--short"], place.root()), "");
    // A linked work tree has a `.git` file; its exclude file is the main repository's.
    git(
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
        place.root(),
    );
    git(&["worktree", "add", "-q", "linked"], place.root());
    let linked = place.path("linked");
    let mut command = place.command(&["init", "--here"]);
    command.current_dir(&linked);
    assert_eq!(answer(command).code, 0);
    assert_eq!(git(&["status", "--short"], &linked), "");
}

#[test]
fn a_hostile_git_file_is_not_followed() {
    let place = empty();
    place.write(".git", "gitdir: /etc\n");
    assert_eq!(place.run(&["init"]).code, 0);
    assert!(!Path::new("/etc/info").exists());
}

#[test]
fn report_check_shows_the_place_and_the_nearest_word() {
    let place = with_board("tdd", "zh");
    place.write("r.md", "iteration: 7\n结论：PASSED\n阻塞：无。\n");
    insta::assert_snapshot!(shown(&place, &["report", "check", "r.md", "--agent", "TEST"]));
    place.write("report_dev.md", "iteration: 7\n- **结论：**FAIL\n阻塞：\n  - [impl] src/lib.rs:42 溢出\n  - 权限不足\n  - \u{202e}x\n");
    insta::assert_snapshot!(shown(&place, &["report", "check", "report_dev.md"]));
    insta::assert_snapshot!(shown(
        &place,
        &["report", "check", "report_dev.md", "--iteration", "8"]
    ));
    insta::assert_snapshot!(shown(&place, &["report", "check", "r.md"]));
    insta::assert_snapshot!(shown(&place, &["report", "check", "r.md", "--agent", "TSET"]));
    let json = place.run(&["report", "check", "r.md", "--agent", "TEST", "--json"]);
    assert_eq!(json.code, 3);
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(value["problems"][0]["line"], 2);
    assert_eq!(value["problems"][0]["did_you_mean"], "PASS");
}

#[test]
fn report_check_works_without_any_blackboard() {
    let place = empty();
    for (agent, text) in [
        ("TEST", "iteration: 1\nverdict: PASS\nblockers: none\n"),
        ("test", "iteration: 1\n结论：PASS\n阻塞：无\n"),
        ("CRITIQUE", "iteration: 1\n结论：APPROVED\n阻塞：无\n"),
        (
            "VERIFY",
            "iteration: 1\nverdict: INSUFFICIENT_EVIDENCE\nblockers: no source for table 2\n",
        ),
        ("FINISH_REVIEW", "iteration: 1\nverdict: FAIL\nblockers: [test] none for add()\n"),
    ] {
        let answer = run_with_input(&place, &["report", "check", "-", "--agent", agent], text);
        assert_eq!(answer.code, 0, "{agent}: {}", answer.errors);
    }
    assert_eq!(
        run_with_input(&place, &["report", "check", "-", "--agent", "NOBODY"], "iteration: 1\n")
            .code,
        2
    );
}

#[test]
fn a_policy_of_the_older_shape_is_enough() {
    let place = empty();
    place.write("policy.json", r#"{"report_rules":{"apply_to":["TEST","DEV","REVIEW"],"require_verdict":true,
      "verdict_prefix":"结论：","verdict_allowed":["PASS","FAIL","BLOCKED"],"blocker_prefix":"阻塞：","blocker_clear_value":"无"},
      "tdd_rules":{"test_first":true,"test_required_gate":true,"min_coverage":80}}"#);
    place.write("r.md", "iteration: 3\n结论：BLOCKED\n阻塞：权限不足\n");
    let answer =
        place.run(&["report", "check", "r.md", "--agent", "DEV", "--policy", "policy.json"]);
    assert_eq!(answer.code, 0, "{}", answer.errors);
    assert!(answer.out.contains("[env] 权限不足"), "{}", answer.out);
    place.write(
        "policy.json",
        r#"{"report_rules":{"apply_to":["TEST"],"verdict_alowed":["PASS"]}}"#,
    );
    insta::assert_snapshot!(shown(
        &place,
        &["report", "check", "r.md", "--agent", "TEST", "--policy", "policy.json"]
    ));
}

#[test]
fn a_huge_or_strange_file_is_refused_without_reading_it() {
    let place = with_board("tdd", "en");
    for size in [10u64 << 20, 10 << 30] {
        let file = fs::File::create(place.path("report_test.md")).unwrap();
        file.set_len(size).unwrap();
        let answer = place.run(&["report", "check", "report_test.md"]);
        assert_eq!(answer.code, 3);
        assert!(
            answer.errors.contains(&format!("the report has {size} bytes")),
            "{}",
            answer.errors
        );
        for args in [["plan", "check", "report_test.md"], ["history", "check", "report_test.md"]] {
            if size > 1 << 30 {
                assert_eq!(place.run(&args).code, 3);
            }
        }
    }
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for args in [["plan", "check", "pipe"], ["history", "check", "pipe"]] {
        let answer = place.run(&args);
        assert_eq!(
            (answer.code, answer.errors.contains("is not a regular file")),
            (2, true),
            "{}",
            answer.errors
        );
    }
    assert_eq!(place.run(&["report", "check", "pipe", "--agent", "TEST"]).code, 2);
    assert_eq!(place.run(&["report", "check", ".", "--agent", "TEST"]).code, 2);
    assert_eq!(place.run(&["report", "check", "absent.md", "--agent", "TEST"]).code, 2);
}

/// Address space is what a limit can hold a process to; it is more than the memory it touches.
#[test]
fn the_largest_report_is_checked_in_64_megabytes() {
    let place = with_board("tdd", "en");
    let head = "iteration: 7\nverdict: FAIL\nblockers:\n";
    let limit = 4 << 20;
    for part in
        ["A line of a report.\n", "\n", "- x\n", "a", "```\n", "verdict : x\n", "中文，很长的一行"]
    {
        let text = format!("{head}- [impl] x\n{}", part.repeat((limit - 64) / part.len()));
        assert!(text.len() <= limit);
        place.write("report_test.md", text);
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "ulimit -v 65536; exec \"$0\" report check report_test.md",
            crate::BATON,
        ]);
        command.current_dir(place.root());
        let answer = answer(command);
        let refused = answer.errors.contains("more than 1000 blockers");
        assert!(
            answer.code == 0 || (answer.code == 3 && refused),
            "{part:?}: {} {}",
            answer.code,
            answer.errors
        );
    }
}

const PLAN: &str = "# Plan\n\n## Milestone M1: a\n\n### M1-T1: b\n- status: TODO\n- note: 中文\n\n### M1-T2: c\n- status: TODO\n";

#[test]
fn plan_apply_changes_only_what_it_must_and_shows_it() {
    let place = with_board("tdd", "en");
    place.write(".baton/memory/dev_plan.md", PLAN);
    let answer = run_with_input(
        &place,
        &["plan", "apply"],
        "update M1-T1 status to DOING\nset M1-T2 evidence: seen; really\n",
    );
    assert_eq!(answer.code, 0, "{}", answer.errors);
    insta::assert_snapshot!(answer.out);
    insta::assert_snapshot!(place.read(".baton/memory/dev_plan.md"), @"
    # Plan

    ## Milestone M1: a

    ### M1-T1: b
    - status: IN_PROGRESS
    - note: 中文

    ### M1-T2: c
    - status: TODO
    - evidence: seen; really
    ");
}

#[test]
fn a_failed_plan_apply_leaves_the_file_byte_identical() {
    let place = with_board("tdd", "en");
    let odd = format!("\u{feff}{}", PLAN.replace('\n', "\r\n"));
    place.write(".baton/memory/dev_plan.md", &odd);
    let plan = place.path(".baton/memory/dev_plan.md");
    let before = (fs::read(&plan).unwrap(), fs::metadata(&plan).unwrap().modified().unwrap());
    for statements in [
        "update M1-T9 status to DONE",
        "update M1-T1 status to DONE\nnonsense",
        "update M1-T1 status to VERIFIED",
        "add M1-T1: again",
        "set M1-T1 status: DONE",
        "",
        "update M1-T1 status to DONE; update M1-T1 status to DNOE",
        "\0",
        "把任务改完",
    ] {
        let answer = run_with_input(&place, &["plan", "apply"], statements);
        assert_eq!(answer.code, 3, "{statements}: {}", answer.errors);
        let after = (fs::read(&plan).unwrap(), fs::metadata(&plan).unwrap().modified().unwrap());
        assert!(before == after, "{statements}");
    }
    let dry =
        run_with_input(&place, &["plan", "apply", "--dry-run"], "update M1-T1 status to DONE");
    assert_eq!((dry.code, fs::read(&plan).unwrap()), (0, before.0));
}

#[test]
fn the_final_status_is_granted_by_a_passing_report_alone() {
    let place = with_board("tdd", "en");
    let plan = ".baton/memory/dev_plan.md";
    let verify = |place: &Place| {
        run_with_input(place, &["plan", "apply"], "update M1-T1 status to VERIFIED")
    };
    place.write(plan, PLAN);
    insta::assert_snapshot!(verify(&place).errors);
    place.write(
        ".baton/reports/report_test.md",
        "iteration: 4\nverdict: FAIL\nblockers: [impl] x\n",
    );
    assert_eq!(verify(&place).code, 3);
    place.write(".baton/reports/report_test.md", "iteration: 4\nverdict: PASS\nblockers: none\n");
    place.write(".baton/reports/report_dev.md", "iteration: 5\nverdict: PASS\nblockers: none\n");
    let stale = verify(&place);
    assert_eq!(stale.code, 3);
    assert!(stale.errors.contains("`DEV` wrote after it, in iteration 5"), "{}", stale.errors);
    place.write(".baton/reports/report_dev.md", "iteration: 3\nverdict: PASS\nblockers: none\n");
    assert_eq!(verify(&place).code, 0);
    assert!(place.read(plan).contains("- status: VERIFIED"));
    // A plan that lies in no blackboard has no report to grant it.
    let alone = empty();
    alone.write("plan.md", PLAN);
    assert_eq!(
        run_with_input(&alone, &["plan", "apply", "plan.md"], "update M1-T1 status to VERIFIED")
            .code,
        3
    );
    assert_eq!(
        run_with_input(&alone, &["plan", "apply", "plan.md"], "update M1-T1 status to DONE").code,
        0
    );
}

const OLD_HISTORY: &str = "# Project History\n\n## Task Goal (New Task) - 2026-01-20T10:00:00\n实现解析器\n\n\
## Iteration 1:\nnext_agent: TEST\nreason: 需要测试\n自由文字\n\n## Iteration 2: [MILESTONE] 用户决策 - 选择方案A\nnext_agent: USER\nreason: 无法确定\n\n\
## User Decision (Iteration 2): 选择方案 - 2026-01-20T11:00:00\n- question: 用哪个？\n- user_choice: A\n\n\
## Iteration 2: [MILESTONE] 首次测试通过\nnext_agent: DEV\nreason: again\n\n## Task Goal (New Task) - 2026-01-21T10:00:00\n第二个任务\n";

/// A blackboard as another tool left it: no baton.toml, the older policy, both forms of plan.
fn older_board(place: &Place) {
    let root = "orchestrator";
    place.write(&format!("{root}/memory/project_history.md"), OLD_HISTORY);
    place.write(
        &format!("{root}/memory/dev_plan.md"),
        "# 开发计划\n\n## Milestone M1：基础\n\n### M1-T1：解析\n- status: DONE\n- acceptance: 通过\n\n### M1-T2: 输出\n#### TEST 阶段\n- status: DONE\n#### DEV 阶段\n- status: DOING\n",
    );
    place.write(
        &format!("{root}/memory/verification_policy.json"),
        r#"{"report_rules":{"apply_to":["TEST","DEV","REVIEW"],"require_verdict":true,"verdict_prefix":"结论：","verdict_allowed":["PASS","FAIL","BLOCKED"],"blocker_prefix":"阻塞：","blocker_clear_value":"无"},"tdd_rules":{"test_first":true,"test_required_gate":true,"min_coverage":80}}"#,
    );
    for agent in ["main", "test", "dev", "review"] {
        place.write(
            &format!("{root}/memory/prompts/subagent_prompt_{agent}.md"),
            format!("你是 {agent} 代理。输出 XML。"),
        );
    }
    place.write(&format!("{root}/reports/report_test.md"), "iteration: 2\n结论：PASS\n阻塞：无\n");
}

#[test]
fn an_older_blackboard_opens_in_place_and_nothing_in_it_is_rewritten() {
    let place = empty();
    older_board(&place);
    let before = tree(&place.path("orchestrator"));
    let found: Vec<String> =
        shown(&place, &["doctor"]).lines().take(6).map(str::to_owned).collect();
    insta::assert_snapshot!(found.join("\n"));
    insta::assert_snapshot!(shown(&place, &["plan", "check"]));
    insta::assert_snapshot!(shown(&place, &["history", "check"]));
    insta::assert_snapshot!(shown(&place, &["history", "show", "--milestones", "--last", "1"]));
    assert_eq!(place.run(&["pack", "check"]).code, 0);
    assert_eq!(place.run(&["pack", "show"]).code, 0);
    assert_eq!(place.run(&["report", "check", "orchestrator/reports/report_test.md"]).code, 0);
    assert_eq!(place.run(&["history", "show", "--json"]).code, 0);
    for stage in ["main", "test", "finish_check", "dev --subloop"] {
        let words: Vec<&str> = ["prompt"].into_iter().chain(stage.split(' ')).collect();
        assert_eq!(place.run(&words).code, 0, "{stage}");
    }
    assert_eq!(place.run(&["init"]).code, 2, "a second blackboard beside it would be a surprise");
    assert!(tree(&place.path("orchestrator")) == before, "reading rewrote something");
    assert!(!place.path(".baton").exists());
    // What is asked for does change, and nothing else.
    assert_eq!(run_with_input(&place, &["plan", "apply"], "update M1-T2 status to DONE").code, 0);
    assert!(
        place.read("orchestrator/memory/dev_plan.md").ends_with("#### DEV 阶段\n- status: DONE\n")
    );
}

#[test]
fn a_pack_is_switched_and_what_a_person_changed_is_kept() {
    let place = with_board("tdd", "en");
    let prompt = ".baton/memory/prompts/subagent_prompt_dev.md";
    place.write(prompt, "My own words.\n");
    place.write(".baton/memory/dev_plan.md", PLAN);
    place.write(
        ".baton/baton.toml",
        "# mine\npack = \"tdd\"\nlang = \"en\"\n\n[context]\nlevel = 2\n",
    );
    insta::assert_snapshot!(shown(&place, &["pack", "use", "novel", "--lang", "zh"]));
    assert_eq!(
        place.read(".baton/memory/aside/tdd-en/prompts/subagent_prompt_dev.md"),
        "My own words.\n"
    );
    assert!(!place.path(prompt).exists());
    assert_eq!(place.read(".baton/memory/dev_plan.md"), PLAN);
    insta::assert_snapshot!(place.read(".baton/baton.toml"));
    let checked = place.run(&["pack", "check"]);
    assert_eq!(checked.code, 0, "{}", checked.errors);
}

#[test]
fn switching_forth_and_back_never_writes_over_what_was_kept() {
    let place = with_board("tdd", "en");
    let prompt = ".baton/memory/prompts/subagent_prompt_main.md";
    for edit in ["first edit", "second edit", "third edit"] {
        place.write(prompt, edit);
        assert_eq!(place.run(&["pack", "use", "novel"]).code, 0);
        assert_eq!(place.run(&["pack", "use", "tdd"]).code, 0);
    }
    let kept: Vec<u8> = tree(&place.path(".baton/memory/aside"))
        .into_iter()
        .flat_map(|(_, bytes, _)| bytes)
        .collect();
    let kept = String::from_utf8(kept).unwrap();
    for edit in ["first edit", "second edit", "third edit"] {
        assert!(kept.contains(edit), "{edit} is lost");
    }
}

/// A pack of one's own, in a folder: other agents, verdicts and prefixes than any built-in one.
fn own_pack(place: &Place, folder: &str, name: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packs/analysis");
    for (path, bytes, _) in tree(&source) {
        let inside = path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
        let text = String::from_utf8(bytes).unwrap();
        let text = text
            .replace("INVALID", "REFUTED")
            .replace("VALID", "CONFIRMED")
            .replace("COLLECT", "GATHER");
        let text = text.replace("verdict:", "ruling:").replace("结论：", "裁定：");
        let text = text.replace("name = \"analysis\"", &format!("name = \"{name}\""));
        place.write(&format!("{folder}/{}", inside.replace("collect", "gather")), text);
    }
}

#[test]
fn a_pack_of_ones_own_is_kept_when_the_blackboard_leaves_it() {
    let place = empty();
    own_pack(&place, "mine", "mine");
    assert_eq!(place.run(&["init", "--pack", "mine"]).code, 0);
    fs::remove_dir_all(place.path("mine")).unwrap();
    assert_eq!(place.run(&["pack", "use", "tdd"]).code, 0);
    let kept = place.path(".baton/memory/aside/mine-en/pack");
    assert!(kept.join("pack.toml").exists());
    assert_eq!(
        place.run(&["pack", "use", kept.to_str().unwrap()]).code,
        0,
        "and can be used again"
    );
    assert_eq!(place.run(&["pack", "check"]).code, 0);
}

#[test]
fn a_pack_of_ones_own_may_have_the_name_of_a_built_in_one() {
    let place = empty();
    own_pack(&place, "tdd", "tdd");
    assert_eq!(place.run(&["init", "--pack", "./tdd"]).code, 0);
    let shown = place.run(&["pack", "show"]);
    assert!(shown.out.contains("GATHER"), "{}{}", shown.out, shown.errors);
    place.write(".baton/baton.toml", "pack = \"typo\"\n");
    let typo = place.run(&["pack", "check"]);
    assert_eq!(typo.code, 2);
    assert!(typo.errors.contains("there is no pack `typo`"), "{}", typo.errors);
}

#[test]
fn a_blackboard_that_does_not_open_can_still_be_given_a_pack() {
    let place = with_board("novel", "en");
    place.write(".baton/memory/verification_policy.json", "{ broken");
    assert_eq!(place.run(&["pack", "check"]).code, 2);
    assert_eq!(place.run(&["pack", "use", "tdd", "--lang", "zh"]).code, 0);
    assert_eq!(place.run(&["pack", "check"]).code, 0);
    assert_eq!(place.read(".baton/memory/aside/novel-en/verification_policy.json"), "{ broken");
}

#[test]
fn a_switch_changes_two_values_of_the_configuration_and_nothing_else() {
    let place = with_board("tdd", "en");
    place.write(
        ".baton/baton.toml",
        "\u{feff}# mine\r\n\"pack\" = \"tdd\" # why\r\n[context]\r\nlevel = 2\r\n",
    );
    let switched = place.run(&["pack", "use", "novel", "--lang", "zh"]);
    assert_eq!(switched.code, 0, "{}", switched.errors);
    let expected = "\u{feff}lang = \"zh\"\r\n# mine\r\n\"pack\" = \"novel\" # why\r\n[context]\r\nlevel = 2\r\n";
    assert_eq!(place.read(".baton/baton.toml"), expected);
    assert_eq!(place.run(&["pack", "check"]).code, 0);
}

#[test]
fn no_update_is_lost_when_many_apply_at_once() {
    let place = with_board("tdd", "en");
    place.write(".baton/memory/dev_plan.md", PLAN);
    std::thread::scope(|scope| {
        for number in 10..40 {
            let place = &place;
            scope.spawn(move || {
                let answer =
                    run_with_input(place, &["plan", "apply"], &format!("add M1-T{number}: x"));
                assert_eq!(answer.code, 0, "{}", answer.errors);
            });
        }
    });
    let plan = place.read(".baton/memory/dev_plan.md");
    assert_eq!(
        (10..40).filter(|number| plan.contains(&format!("### M1-T{number}: x"))).count(),
        30
    );
}

#[test]
fn a_damaged_blackboard_is_said_and_not_passed_over() {
    let place = with_board("tdd", "en");
    place.write(".baton/memory/dev_plan.md", PLAN);
    place.write("child/.baton/baton.toml", "");
    let mut command = place.command(&["plan", "apply"]);
    command.current_dir(place.path("child"));
    let answer = answer_to(command, b"update M1-T1 status to DONE");
    assert_eq!(answer.code, 2);
    assert!(answer.errors.contains("child/.baton"), "{}", answer.errors);
    assert_eq!(place.read(".baton/memory/dev_plan.md"), PLAN, "another project's plan was changed");
}

#[test]
fn what_cannot_be_read_grants_nothing() {
    let place = with_board("tdd", "en");
    place.write(".baton/memory/dev_plan.md", PLAN);
    let verify = || {
        run_with_input(&place, &["plan", "apply", "--dry-run"], "update M1-T1 status to VERIFIED")
    };
    place.write(".baton/reports/report_test.md", "iteration: 5\nverdict: PASS\nblockers: none\n");
    assert_eq!(verify().code, 0);
    place.write(".baton/reports/report_dev.md", "iteration: 9\nverdict: PASSED\nblockers: none\n");
    assert!(
        verify().errors.contains("the newest report of `DEV` cannot be read"),
        "{}",
        verify().errors
    );
    fs::remove_file(place.path(".baton/reports/report_dev.md")).unwrap();
    place.write(
        ".baton/reports/report_review.md",
        "iteration: 8\nverdict: FAIL\nblockers: [impl] x\n",
    );
    assert!(verify().errors.contains("did not pass: `REVIEW`, iteration 8"), "{}", verify().errors);
    place.write(".baton/reports/report_test.md", "iteration: 9\nverdict: PASS\nblockers: none\n");
    assert_eq!(verify().code, 0, "a newer pass counts again");
}

#[test]
fn the_reports_of_one_project_grant_nothing_to_the_plan_of_another() {
    let place = with_board("tdd", "en");
    place.write(".baton/reports/report_test.md", "iteration: 5\nverdict: PASS\nblockers: none\n");
    place.write("elsewhere.md", PLAN);
    let answer = run_with_input(
        &place,
        &["plan", "apply", "elsewhere.md"],
        "update M1-T1 status to VERIFIED",
    );
    assert_eq!(answer.code, 3);
    assert!(answer.errors.contains("lies in no blackboard"), "{}", answer.errors);
}

#[test]
fn a_variable_that_is_no_text_names_a_folder_all_the_same() {
    use std::os::unix::ffi::OsStrExt;
    let place = with_board("tdd", "en");
    let mut command = place.command(&["plan", "check"]);
    command.env("BATON_BLACKBOARD", std::ffi::OsStr::from_bytes(b"nowhere\xff"));
    assert_eq!(answer(command).code, 2, "the variable was ignored");
}

#[test]
fn an_older_blackboard_with_an_extra_prompt_still_opens() {
    let place = empty();
    older_board(&place);
    place.write("orchestrator/memory/prompts/subagent_prompt_main_novel.md", "另一个场景");
    place.write("orchestrator/memory/prompts/subagent_prompt_docs.md", "写文档");
    let shown = place.run(&["pack", "show"]);
    assert_eq!(shown.code, 0, "{}", shown.errors);
    assert!(shown.out.contains("DOCS") && !shown.out.contains("MAIN_NOVEL"), "{}", shown.out);
    // Only prompts, or only a plan: still a blackboard.
    let bare = empty();
    bare.write("orchestrator/memory/prompts/subagent_prompt_outline.md", "大纲");
    assert!(bare.run(&["pack", "show"]).out.contains("novel (zh)"));
    let plan = empty();
    plan.write("orchestrator/memory/dev_plan.md", PLAN);
    assert_eq!(plan.run(&["plan", "check"]).code, 0);
}

#[test]
fn a_text_that_is_no_text_is_a_protocol_error_under_its_own_name() {
    let place = with_board("tdd", "en");
    place.write("plan.md", b"### M1-T1: a\n- status: \xff\n");
    let answer = place.run(&["plan", "check", "plan.md"]);
    assert_eq!(answer.code, 3);
    assert!(
        answer.errors.contains("plan.md:2:11: error: the file is not UTF-8"),
        "{}",
        answer.errors
    );
}

#[test]
fn init_takes_variables_and_the_users_own_file() {
    let place = empty();
    place.write("settings/baton/baton.toml", "pack = \"novel\"\n");
    let mut command = place.command(&["init"]);
    command.env("BATON_LANG", "zh").env("XDG_CONFIG_HOME", place.path("settings"));
    let made = answer(command);
    assert!(made.out.contains("pack novel (zh)"), "{}{}", made.out, made.errors);
    let mut command = place.command(&["doctor"]);
    command.env("BATON_CONTEXT_LEVEL", "2\npack = \"tdd\"");
    assert_eq!(answer(command).code, 2, "a variable set another key");
}

#[test]
fn nothing_that_a_pack_says_reaches_the_terminal_raw() {
    let place = empty();
    own_pack(&place, "evil", "evil");
    let policy =
        place.read("evil/en/policy.json").replace("\"ruling:\"", "\"ruling\\u001b[31m\\u202e:\"");
    place.write("evil/en/policy.json", policy);
    let shown = place.run(&["pack", "show", "evil"]);
    assert!(shown.out.contains("\\u{1b}"), "the escape is there to be shown: {}", shown.out);
    assert!(!shown.out.contains('\u{1b}') && !shown.out.contains('\u{202e}'), "{}", shown.out);
    let manifest = place.read("evil/pack.toml").replace("title = \"", "title = \"\\u001b[31m");
    place.write("evil/pack.toml", manifest);
    assert_eq!(place.run(&["pack", "check", "evil"]).code, 2);
}

#[test]
fn a_folder_with_odd_characters_is_kept_out_of_git() {
    let place = empty();
    let odd = place.path("a [x] *b");
    fs::create_dir_all(&odd).unwrap();
    assert!(
        Command::new("git")
            .args(["init", "-q"])
            .current_dir(place.root())
            .status()
            .unwrap()
            .success()
    );
    let mut command = place.command(&["init"]);
    command.current_dir(&odd);
    assert_eq!(answer(command).code, 0);
    let status =
        Command::new("git").args(["status", "--short"]).current_dir(place.root()).output().unwrap();
    assert_eq!(String::from_utf8(status.stdout).unwrap(), "");
}

#[test]
fn the_archives_names_tell_the_agent() {
    let place = with_board("tdd", "en");
    let text = "iteration: 7\nverdict: PASS\nblockers: none\n";
    for name in [
        "7_test_a1.md",
        "7_dev_subloop_2_a1.md",
        "report_dev_subloop_2.md",
        "7_finish_review_a3.md",
    ] {
        place.write(name, text);
        let answer = place.run(&["report", "check", name]);
        assert_eq!(answer.code, 0, "{name}: {}", answer.errors);
    }
}

#[test]
fn a_history_of_a_million_headings_is_checked_in_bounded_memory() {
    let place = with_board("tdd", "en");
    place.write("history.md", "## Iteration 1\n".repeat(700_000));
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 262144; exec \"$0\" history check history.md", crate::BATON]);
    command.current_dir(place.root());
    let answer = answer(command);
    assert_eq!(answer.code, 0, "{}", answer.errors);
    assert!(answer.errors.lines().count() < 200);
}

/// A server that lists one model and answers every call with the same words.
fn model_server() -> String {
    use std::io::Read;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 64 << 10];
            let mut read = String::new();
            // The body comes with the head or right behind it.
            while !read.contains("\r\n\r\n") || (read.starts_with("POST") && !read.ends_with('}')) {
                let count = stream.read(&mut buffer).unwrap_or(0);
                if count == 0 {
                    break;
                }
                read.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
            let body = match read.starts_with("GET") {
                true => r#"{"data":[{"id":"tiny","meta":{"n_ctx":4096}}]}"#.to_owned(),
                false => "data: {\"model\":\"tiny\",\"choices\":[{\"delta\":{\"content\":\"pong\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n".to_owned(),
            };
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}");
        }
    });
    url
}

#[test]
fn models_shows_what_would_be_called_and_ping_calls_it() {
    let place = empty();
    let url = model_server();
    let listed = place.run(&["models", "--base-url", &url, "--model", "tiny"]);
    assert_eq!(listed.code, 0, "{}{}", listed.out, listed.errors);
    assert!(
        listed.out.contains("openai-chat") && listed.out.contains("4096 tokens"),
        "{}",
        listed.out
    );
    assert!(
        listed.out.contains("price      unknown"),
        "an unknown price is not zero: {}",
        listed.out
    );
    let tape = place.path("ping.jsonl");
    let mut command = place.command(&[
        "models",
        "ping",
        "--base-url",
        &url,
        "--model",
        "tiny",
        "--record",
        tape.to_str().unwrap(),
    ]);
    command.env("OPENAI_API_KEY", "sk-canary-987654321");
    let pinged = answer(command);
    assert_eq!(pinged.code, 0, "{}{}", pinged.out, pinged.errors);
    assert!(
        pinged.out.contains("\"pong\" from tiny")
            && pinged.out.contains("5 in, 1 out")
            && pinged.out.contains("4 read"),
        "{}",
        pinged.out
    );
    assert!(pinged.out.contains("cost        unknown"), "{}", pinged.out);
    let recorded = place.read("ping.jsonl");
    assert!(recorded.contains("Say: pong") && !recorded.contains("canary"), "{recorded}");
}

#[test]
fn a_model_that_cannot_be_called_is_explained() {
    let place = empty();
    insta::assert_snapshot!(shown(&place, &["models"]));
    insta::assert_snapshot!(shown(&place, &["models", "ping", "--provider", "anthropic"]));
    let nobody = place.run(&["models", "ping", "--base-url", "http://127.0.0.1:1", "--model", "m"]);
    assert_eq!(nobody.code, 1);
    assert!(
        nobody.errors.contains("openai-chat (m)")
            && nobody.errors.contains("is the server running"),
        "{}",
        nobody.errors
    );
    assert_eq!(place.run(&["models", "--base-url", "http://127.0.0.1:1"]).code, 2);
    assert_eq!(place.run(&["models", "--provider", "antropic"]).code, 2);
}

#[test]
fn a_project_cannot_choose_who_gets_the_key() {
    let place = with_board("tdd", "en");
    place.write(
        ".baton/baton.toml",
        "pack = \"tdd\"\n[provider]\nbase_url = \"http://evil.example\"\n",
    );
    let answer = place.run(&["plan", "check"]);
    assert_eq!(answer.code, 2);
    assert!(answer.errors.contains("`provider` may not be set by a project"), "{}", answer.errors);
}

#[test]
fn a_broken_configuration_is_explained_with_its_line() {
    let place = with_board("tdd", "en");
    place.write(".baton/baton.toml", "pack = \"tdd\"\n[context]\nlevle = 2\n");
    insta::assert_snapshot!(shown(&place, &["plan", "check"]));
    place.write(".baton/baton.toml", "pack = \"tdd\"\n");
    let mut command = place.command(&["doctor"]);
    command.env("BATON_CONTEXT_LEVEL", "9");
    let answer = answer(command);
    assert_eq!(answer.code, 2);
    assert!(
        answer
            .errors
            .contains("$BATON_CONTEXT_LEVEL:1:17: error: context.level: 9 is not between 1 and 3"),
        "{}",
        answer.errors
    );
    let mut command = place.command(&["doctor"]);
    command.env("BATON_CONTXT_LEVEL", "2").env("BATON_LANG", "en");
    let unknown = self::answer(command);
    assert_eq!(unknown.code, 0);
    assert!(unknown.errors.contains("did you mean `BATON_CONTEXT_LEVEL`?"), "{}", unknown.errors);
    place.write(
        ".baton/memory/verification_policy.json",
        "{\"report_rules\": {\"verdict_pass\": \"PASSED\"}}",
    );
    insta::assert_snapshot!(shown(&place, &["pack", "check"]));
}

#[test]
fn every_command_has_a_json_form() {
    let place = with_board("tdd", "en");
    place.write("r.md", "iteration: 1\nverdict: PASS\nblockers: none\n");
    for args in [
        "doctor",
        "pack list",
        "pack show",
        "pack show novel --lang zh",
        "pack show --prompt MAIN",
        "pack show --policy",
        "pack check",
        "pack check novel",
        "plan check",
        "history show",
        "history check",
        "report check r.md --agent TEST",
        "report summary r.md --agent TEST",
        "report summary r.md --agent TEST --level 2 --iteration 9",
        "history window",
        "prompt main",
        "prompt dev --subloop",
        "prompt nobody",
        "prompt review --subloop",
        "schema summary",
        "schema ledger",
        "schema report",
        "schema decision",
        "schema policy",
        "schema pack",
        "schema plan",
        "schema history",
        "schema config",
        "schema problem",
        "completions bash",
        "completions zsh",
        "completions fish",
        "init",
        "pack use nothing",
        "report check nothing.md --agent TEST",
        "pack show --prompt NOBODY",
    ] {
        let mut words: Vec<&str> = args.split(' ').collect();
        words.push("--json");
        let answer = place.run(&words);
        let value: serde_json::Value = serde_json::from_str(&answer.out)
            .unwrap_or_else(|error| panic!("{args}: {error}: {}", answer.out));
        assert!(value.is_object(), "{args}");
        assert!(
            answer.errors.is_empty(),
            "{args} --json writes to stdout alone: {}",
            answer.errors
        );
        if !args.starts_with("schema") {
            assert_eq!(value["ok"], answer.code == 0, "{args}");
        }
    }
}

#[test]
fn a_summary_is_shown_at_each_level() {
    let place = with_board("tdd", "zh");
    place.write(
        "report_test.md",
        "iteration: 7\n结论：FAIL\n阻塞：\n- src/lib.rs:42 溢出 \u{1b}[31m红\u{1b}[0m\n测试命令：cargo test\n\n## 改了哪里\n- tests/add.rs\n",
    );
    let shown = |more: &[&str]| {
        let mut args = vec!["report", "summary", "report_test.md"];
        args.extend(more);
        shown(&place, &args)
    };
    insta::assert_snapshot!(shown(&[]));
    insta::assert_snapshot!(shown(&["--level", "2", "--iteration", "8"]));
    assert!(shown(&["--level", "3"]).contains("\\u{1b}[31m红"), "whole, and escaped");
    assert!(shown(&["--level", "4"]).starts_with("exit 2"));
    place.write("odd.md", [0xff, 0xfe, b'\n']);
    assert_eq!(place.run(&["report", "summary", "odd.md", "--agent", "DEV"]).code, 0);
}

#[test]
fn a_window_of_an_older_history_and_one_that_cannot_fit() {
    let place = empty();
    older_board(&place);
    insta::assert_snapshot!(shown(&place, &["history", "window", "--last", "1"]));
    insta::assert_snapshot!(shown(
        &place,
        &["history", "window", "--last", "3", "--max-tokens", "5"]
    ));
    let json = place.run(&["history", "window", "--json"]).out;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    for key in [
        "recent_iterations",
        "milestone_iterations",
        "total_size",
        "total_tokens",
        "compression_ratio",
    ] {
        assert!(!value[key].is_null(), "{key}");
    }
}

#[test]
fn a_prompt_is_explained() {
    let place = with_board("tdd", "en");
    place.write(".baton/reports/report_test.md", "iteration: 1\nverdict: PASS\nblockers: none\n");
    place.write(
        ".baton/memory/project_history.md",
        "## Iteration 1\nnext_agent: TEST\nreason: first\n",
    );
    insta::assert_snapshot!(shown(&place, &["prompt", "main", "--explain"]));
    insta::assert_snapshot!(shown(&place, &["prompt", "mian"]));
    insta::assert_snapshot!(shown(&place, &["prompt", "review", "--subloop"]));
    let text = place.run(&["prompt", "finish_check"]).out;
    assert!(
        text.contains("# Report of TEST (reports/report_test.md)") && text.contains("(no report)")
    );
    place.write(
        ".baton/baton.toml",
        "pack = \"tdd\"\nlang = \"en\"\n[context.prompt_limit]\nmain = 1000\n",
    );
    insta::assert_snapshot!(shown(&place, &["prompt", "main"]));
    assert!(!place.path(".baton/cache/report_summaries.json").exists(), "it only looks");
}

#[test]
fn the_decision_schema_names_the_packs_agents() {
    let place = empty();
    let agents = |pack: &str| {
        let answer = place.run(&["schema", "decision", "--pack", pack]);
        let schema: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
        schema["properties"]["next_agent"]["anyOf"][1]["enum"].to_string()
    };
    assert_eq!(agents("tdd"), r#"["TEST","DEV","REVIEW","USER","FINISH"]"#);
    assert_eq!(agents("analysis"), r#"["COLLECT","ANALYZE","VERIFY","CONCLUDE","USER","FINISH"]"#);
    insta::assert_snapshot!(place.run(&["schema", "decision"]).out);
}

#[test]
fn a_pack_of_ones_own_is_a_folder() {
    let place = empty();
    own_pack(&place, "mine", "mine");
    let checked = place.run(&["pack", "check", "mine"]);
    assert_eq!(checked.code, 0, "{}", checked.errors);
    assert_eq!(place.run(&["init", "--pack", "mine", "--lang", "zh"]).code, 0);
    // The blackboard no longer needs the folder it came from.
    fs::remove_dir_all(place.path("mine")).unwrap();
    let checked = place.run(&["pack", "check"]);
    assert_eq!(checked.code, 0, "{}", checked.errors);
    place.write("old.md", "iteration: 1\n结论：VALID\n阻塞：无\n");
    assert_eq!(
        place.run(&["report", "check", "old.md", "--agent", "GATHER"]).code,
        3,
        "the built-in words are not its own"
    );
    let schema = place.run(&["schema", "decision"]).out;
    assert!(schema.contains("\"GATHER\"") && !schema.contains("\"COLLECT\""), "{schema}");
    place.write("r.md", "iteration: 1\n裁定：CONFIRMED\n阻塞：无\n");
    let answer = place.run(&["report", "check", "r.md", "--agent", "GATHER"]);
    assert_eq!(answer.code, 0, "{}", answer.errors);
    assert_eq!(place.run(&["report", "check", "r.md", "--agent", "COLLECT"]).code, 2);
}

#[test]
fn wrong_usage_is_exit_2_and_help_is_exit_0() {
    let place = empty();
    assert_eq!(place.run(&["--version"]).out, format!("baton {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(place.run(&["--help"]).code, 0);
    for args in
        [&["frobnicate"][..], &[], &["plan"], &["report", "check"], &["plan", "check", "--nope"]]
    {
        let answer = place.run(args);
        assert_eq!(answer.code, 2, "{args:?}");
        assert!(!answer.errors.is_empty());
    }
    insta::assert_snapshot!(shown(&place, &["plan", "check"]), @"
    exit 2
    error: there is no blackboard here or in a parent folder
      `baton init` makes one; `--blackboard DIR` names one elsewhere
    ");
    insta::assert_snapshot!("help", place.run(&["--help"]).out);
}

#[test]
fn output_that_nobody_reads_is_no_crash() {
    let place = empty();
    let mut child = place
        .command(&["schema", "policy"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An envelope with more of everything than history keeps.
fn large_envelope(data: &str) -> String {
    format!(
        r#"{{"status":"success","data":{data},"text":"glance","stats":{{"ms":1}},"context":{{"cwd":"."}}}}"#
    )
}

#[test]
fn debug_compress_prints_what_history_keeps() {
    let place = empty();
    let paths: Vec<String> = (0..40).map(|n| format!("\"src/模块/{n}.rs\"")).collect();
    let data =
        format!(r#"{{"pattern":"**","hits":40,"paths":[{}],"truncated":true}}"#, paths.join(","));
    let input = large_envelope(&data);
    let answer = run_with_input(&place, &["debug", "compress", "--tool", "Glob"], &input);
    assert_eq!(answer.code, 0, "{}", answer.errors);
    assert!(answer.out.len() < input.len() && answer.out.ends_with("}\n"));
    let kept: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(kept["data"]["paths"].as_array().unwrap().len(), 10);
    assert_eq!(kept["data"]["truncated"], true);
    assert_eq!(kept["omitted"], "paths: and 30 more; Recall o1 has it whole");
    assert!(["text", "stats", "context"].iter().all(|gone| kept.get(gone).is_none()));
    // What was kept goes through unchanged, whatever tool is named.
    let again = run_with_input(&place, &["debug", "compress", "--tool", "Grep"], &answer.out);
    assert_eq!(again.out, answer.out);
    let args = ["debug", "compress", "--tool", "glob", "--id", "o17", "--json"];
    let json: serde_json::Value =
        serde_json::from_str(&run_with_input(&place, &args, &input).out).unwrap();
    assert_eq!(json["ok"], true);
    assert_eq!(json["compressed"]["observation"], "o17");
    assert!(json["bytes"]["kept"].as_u64() < json["bytes"]["whole"].as_u64());
    // Terminal escapes and bidi marks stay in the JSON and do not reach the terminal.
    let hostile = large_envelope(r#"{"file":"a\u001b[31m\u202e\u200b\u007f\udb40\udc01"}"#);
    let answer = run_with_input(&place, &["debug", "compress", "--tool", "Edit"], &hostile);
    assert!(answer.out.is_ascii() && !answer.out.contains('\u{1b}'), "{}", answer.out);
    let kept: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(kept["data"]["file"], "a\u{1b}[31m\u{202e}\u{200b}\u{7f}\u{e0001}");
}

#[test]
fn debug_compress_explains_what_is_no_envelope() {
    let place = empty();
    let compress = |input: &str| {
        let answer = run_with_input(&place, &["debug", "compress", "--tool", "LS"], input);
        assert_eq!(answer.out, "");
        format!("exit {}\n{}", answer.code, answer.errors)
    };
    insta::assert_snapshot!(compress("{\"status\": \"sucess\",\n \"data\": {}}"), @r#"
    exit 3
    envelope:1:12: error: status: `sucess` is not known here
        1 | {"status": "sucess",
          |            ^
        expected one of `success`, `partial`, `error`
        did you mean `success`?
    error: envelope has 1 problem
      an envelope is {"status": "success|partial|error", "data": {…}}; `baton debug compress --help` shows it whole
    "#);
    insta::assert_snapshot!(compress("{\"status\": \"success\",\n \"data\": [\"a\"]}"), @r#"
    exit 3
    envelope:2:10: error: data: a list does not fit here
        2 |  "data": ["a"]}
          |          ^^^^^
        expected an object
    error: envelope has 1 problem
      an envelope is {"status": "success|partial|error", "data": {…}}; `baton debug compress --help` shows it whole
    "#);
    assert!(compress("").starts_with("exit 3\n"));
    assert!(compress(&"[".repeat(100_000)).starts_with("exit 3\n"));
    let mut command = place.command(&["debug", "compress", "--tool", "LS"]);
    place.write("latin", b"{\"status\": \"\xff\"}");
    command.stdin(fs::File::open(place.path("latin")).unwrap());
    assert_eq!(answer(command).code, 3);
    for usage in [
        &["debug"][..],
        &["debug", "compress"],
        &["debug", "compress", "--tool", "LS", "--id", "17"],
        &["debug", "mentions", "--root", "nowhere"],
    ] {
        assert_eq!(place.run(usage).code, 2, "{usage:?}");
    }
}

#[test]
fn debug_mentions_reminds_of_files_that_are_there() {
    let place = empty();
    for name in ["src/utils/auth.ts", "my notes.md", "文档.md", "a", "b", "c", "d"] {
        place.write(name, "secret content");
    }
    place.write("outside/secret.md", "x");
    std::os::unix::fs::symlink(place.path("outside/secret.md"), place.path("src/link.md")).unwrap();
    let message = "Look at @src/utils/auth.ts. Not @gone.rs, @src, @/etc/passwd or me@a.\n";
    insta::assert_snapshot!(run_with_input(&place, &["debug", "mentions"], message).out, @"
    Look at @src/utils/auth.ts. Not @gone.rs, @src, @/etc/passwd or me@a.

    <system-reminder>
    The user mentioned @src/utils/auth.ts.
    You MUST read this file with the Read tool before answering.
    </system-reminder>
    ");
    let all = "@\"my notes.md\" @\"文档.md\" @a @b @c @d @src/utils/auth.ts @./a";
    let json = run_with_input(&place, &["debug", "mentions", "--json"], all);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["mentions"], serde_json::json!(["my notes.md", "文档.md", "a", "b", "c"]));
    assert_eq!(json["more"], 2);
    let whole = json["message"].as_str().unwrap();
    assert!(whole.starts_with(all) && whole.ends_with("</system-reminder>\n(and 2 more…)\n"));
    assert!(!whole.contains("secret content"));
    // Under another root other files are there; a link that leads out of it is none of its files.
    let under = |root: &str| {
        let args = ["debug", "mentions", "--root", root];
        run_with_input(&place, &args, "@utils/auth.ts @link.md @../a").out
    };
    assert_eq!(under("src").matches("The user mentioned @").count(), 1);
    assert!(under("src").contains("mentioned @utils/auth.ts."));
    assert_eq!(under("."), "@utils/auth.ts @link.md @../a");
}
