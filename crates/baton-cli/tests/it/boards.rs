//! Blackboards that another tool made: they open as they are, run to FINISH, and the tool that made
//! them can still read them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use baton_testkit::Place;
use serde_json::{Value, json};

const RUN: [&str; 4] = ["run", "make add safe", "--executor", "script"];
const ROOT: &str = "project/orchestrator";

/// The policy of such a board: with keys that Baton does not know, also inside of its rules.
fn policy(apply_to: &[&str]) -> String {
    let rules = json!({
        "version": 1,
        "test_requirements": { "min_coverage": 80 },
        "report_rules": {
            "apply_to": apply_to,
            "require_verdict": true,
            "verdict_prefix": "结论：",
            "verdict_allowed": ["PASS", "FAIL", "BLOCKED"],
            "blocker_prefix": "阻塞：",
            "blocker_clear_value": "无",
            "own_key": true,
        },
        "parsing_rules": { "critical_fields": ["iteration"] },
    });
    format!("{rules:#}\n")
}

/// A board with these agents, and MAIN.
fn older(agents: &[&str], apply_to: &[&str]) -> Place {
    let place = Place::of_team(crate::BATON);
    let write = |name: &str, text: &str| {
        let path = place.path(&format!("{ROOT}/{name}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("memory/verification_policy.json", &policy(apply_to));
    write(
        "memory/dev_plan.md",
        "# 计划\n\n## 约束\n- 少而硬\n\n## Milestone M1: 安全\n\n### M1-T1: add()\n- status: TODO\n- acceptance:\n- 溢出时报错\n- evidence:\n",
    );
    write(
        "memory/project_history.md",
        "# Project History (Append-only)\n\n> 每轮必须包含 `## Iteration {iteration}:`。\n\n## Task Goal (New Task) - 2026-01-20T10:00:00\n旧任务\n\n## Iteration 7: 完成\nnext_agent: FINISH\nreason: 全部完成\ndev_plan: no change\nfinish_review_override: ignore",
    );
    write("memory/global_context.md", "# Global Context\n\n快速失败。\n");
    for agent in agents.iter().chain(&["main"]) {
        let file = format!("memory/prompts/subagent_prompt_{}.md", agent.to_lowercase());
        write(&file, &format!("你是 {agent} 代理。第一行写：`已阅读行为规范`。"));
        if *agent != "main" {
            let file = format!("reports/report_{}.md", agent.to_lowercase());
            let text = format!(
                "# Report: {agent}\n\niteration: 0\n\n结论：BLOCKED\n阻塞：报告尚未生成\n\n## 证据\n- 报告尚未生成\n"
            );
            write(&file, &text);
        }
    }
    place
}

/// Every file below a folder, with its content.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(path).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => open.push(entry.path()),
                false => {
                    files.insert(
                        entry.path().display().to_string(),
                        fs::read(entry.path()).unwrap(),
                    );
                }
            }
        }
    }
    files
}

fn report(iteration: u32, verdict: &str, blockers: &str) -> String {
    format!(
        "已阅读行为规范\niteration: {iteration}\n工作模式: 测试执行\n\n## 逐项审阅\n- 结论: 合理\n- 结论: 存在问题\n\n结论：{verdict}\n阻塞：{blockers}\ncoverage: 91%\n\n## 工具调用简报\n- 运行了全部测试\n\nM1-T1\n"
    )
}

/// A decision in the flat form; `note` is its `history_append`, after the heading that such prompts
/// ask for.
fn flat(iteration: u32, next: &str, more: Value, note: &str) -> String {
    let mut decision = json!({
        "next_agent": next,
        "reason": "M1-T1 是下一步",
        "history_append": format!("## Iteration {iteration}: {next}\nnext_agent: {next}\n{note}"),
    });
    let map = decision.as_object_mut().unwrap();
    map.extend(more.as_object().unwrap().clone());
    decision.to_string()
}

fn question() -> Value {
    let option = |id: &str, text: &str| json!({ "option_id": id, "description": text });
    json!({
        "decision_title": "上限",
        "question": "哪个上限？",
        "options": [option("a", "255"), option("b", "99")],
        "recommended_option_id": "a",
        "task": null,
        "dev_plan_next": null,
    })
}

fn plan(status: &str) -> String {
    format!("## Milestone M1: 安全\n\n### M1-T1: add()\n- status: {status}\n- evidence: 见报告\n")
}

/// The patterns that readers of such boards look for in a history: the numbers of the headings
/// `^## Iteration (\d+):`, and the values of `- user_choice: (.+)`.
fn patterns(history: &str) -> (Vec<u32>, Vec<&str>) {
    let number = |line: &str| line.strip_prefix("## Iteration ")?.split_once(':')?.0.parse().ok();
    let numbers = history.lines().filter_map(number).collect();
    let choices = history.lines().filter_map(|line| line.strip_prefix("- user_choice: "));
    (numbers, choices.collect())
}

#[test]
fn an_older_blackboard_is_read_as_it_is_and_its_unknown_keys_are_one_warning() {
    let place = older(&["TEST", "DEV", "REVIEW"], &["REVIEW", "TEST", "FINISH_REVIEW"]);
    let before = tree(&place.path("project"));
    let report = "orchestrator/reports/report_review.md";
    for args in [
        "status",
        "log",
        "log --lines",
        "history show",
        "history window",
        "history check",
        "plan check",
        "doctor",
        "pack check",
        "prompt main --explain",
        "prompt test",
        "prompt dev",
        "prompt review",
        "prompt finish_review",
        "prompt finish_check",
        &format!("report check {report}"),
        &format!("report summary {report} --level 2"),
        &format!("report check {report} --policy orchestrator/memory/verification_policy.json"),
    ] {
        let words: Vec<&str> = args.split(' ').collect();
        let answer = place.run(&words);
        let errors = answer.errors;
        assert_eq!(answer.code, 0, "{args}: {errors}");
        for key in ["version", "test_requirements", "report_rules.own_key", "parsing_rules"] {
            assert_eq!(errors.matches(&format!("`{key}`")).count(), 1, "{args}: {errors}");
        }
        assert!(!errors.contains("adapted"), "{args}: {errors}");
    }
    let answer = place.run(&["status", "--json"]);
    assert_eq!(answer.json(), json!({ "ok": true, "run": null }));
    assert!(answer.errors.contains("`parsing_rules`"));
    assert!(tree(&place.path("project")) == before, "reading changed something");
}

#[test]
fn on_a_board_that_names_its_pack_every_unknown_key_is_an_error() {
    let place = crate::team("tdd");
    let file = "project/.baton/memory/verification_policy.json";
    let mut policy: Value = serde_json::from_str(&place.read(file)).unwrap();
    policy["version"] = json!(1);
    policy["plan"]["finall"] = json!("DONE");
    place.write(file, policy.to_string());
    let said = place.expect(&["status"], 2);
    assert!(said.contains("error: the key `version` is not known"), "{said}");
    assert!(said.contains("error: plan: the key `finall` is not known"), "{said}");
}

#[test]
fn rules_that_name_missing_agents_are_adapted_and_the_warning_says_what_is_not_checked() {
    let place = older(&["IMPLEMENTER", "CHECKER", "SCOUT"], &["TEST", "IMPLEMENTER", "CHECKER"]);
    let said = place.expect(&["status"], 0);
    assert!(said.contains("`plan.verified_by` is `IMPLEMENTER`, `CHECKER`"), "{said}");
    assert!(said.contains("not checked: routing.after_pass.TEST, subloop, tdd_rules"), "{said}");
    assert_eq!(said.matches("adapted").count(), 1, "{said}");
    let file = format!("{ROOT}/memory/verification_policy.json");
    let gates = r#"{"gates": [{"on": "TEST", "run": "true"}, {"on": "FINISH", "run": "true"}],"#;
    place.write(&file, place.read(&file).replacen('{', gates, 1));
    let said = place.expect(&["status"], 0);
    assert!(
        said.contains("not checked: gates of TEST, routing.after_pass.TEST, subloop, tdd_rules"),
        "{said}"
    );
    // No agent of the board must give a verdict: then all must. A verdict of its own is not a pass.
    let place = older(&["IMPLEMENTER", "CHECKER"], &["TEST"]);
    let file = format!("{ROOT}/memory/verification_policy.json");
    place.write(&file, place.read(&file).replace("\"BLOCKED\"", "\"BLOCKED\", \"REWORK\""));
    let said = place.expect(&["status"], 0);
    assert!(said.contains("`plan.verified_by` is `CHECKER`, `IMPLEMENTER`"), "{said}");
    assert!(said.contains("the verdict `REWORK` counts as failed"), "{said}");
    // The tester is there, but gives no verdict.
    let place = older(&["TEST", "DEV", "REVIEW"], &["REVIEW"]);
    let said = place.expect(&["status"], 0);
    assert!(said.contains("`plan.verified_by` is `REVIEW`"), "{said}");
    assert!(said.contains("not checked: routing.after_pass.TEST, subloop, tdd_rules"), "{said}");
}

#[test]
fn a_run_on_an_older_blackboard_finishes_and_leaves_it_readable_by_what_wrote_it() {
    let place = older(&["TEST", "DEV", "REVIEW"], &["REVIEW", "TEST", "FINISH_REVIEW"]);
    let cache = format!("{ROOT}/cache/report_summaries.json");
    fs::create_dir_all(place.path(&format!("{ROOT}/cache"))).unwrap();
    place.write(&cache, "{\n  \"schema_version\": 1,\n  \"summaries\": {}\n}");
    place.play("8-MAIN", &flat(8, "USER", question(), "dev_plan: no change"));
    let order = json!({
        "task": "# Current Task (Iteration 9)\nassigned_agent: TEST\n\n## 验收标准\n溢出时报错 M1-T1",
        "dev_plan_next": plan("DOING"),
    });
    place.play("9-MAIN", &flat(9, "TEST", order, "dev_plan: M1-T1"));
    place.play("9-TEST", &report(9, "PASS", "无"));
    place
        .play("10-MAIN", &flat(10, "REVIEW", json!({"task": "审阅 M1-T1"}), "dev_plan: no change"));
    place.play("10-REVIEW", &report(10, "PASS", "无"));
    let verified = json!({ "task": null, "dev_plan_next": plan("VERIFIED") });
    place.play("11-MAIN", &flat(11, "FINISH", verified, "dev_plan: M1-T1 VERIFIED"));
    place.play("11-FINISH_REVIEW", &report(11, "FAIL", "文档缺少一段说明"));
    let note = "dev_plan: no change\nfinish_review_override: ignore（理由：文档不在范围内）";
    place.play("11-FINISH_CHECK", &flat(11, "FINISH", json!({"dev_plan_next": null}), note));
    let said = place.expect(&RUN, 10);
    assert!(said.contains("`parsing_rules`"), "{said}");
    let said = place.expect(&["answer", "b", "--executor", "script"], 0);
    assert!(said.contains("已完成"), "{said}");

    let history = place.read(&format!("{ROOT}/memory/project_history.md"));
    assert_eq!(patterns(&history), (vec![7, 8, 9, 10, 11], vec!["b"]), "{history}");
    assert!(history.contains("\n## Iteration 10: REVIEW PASS\n"), "{history}");
    assert!(
        history.contains("finish_review_override: ignore（理由：文档不在范围内）"),
        "{history}"
    );
    // The old file did not end its last line.
    assert!(history.contains("\nfinish_review_override: ignore\n\n## Task Goal"), "{history}");
    assert!(!history.lines().any(|line| line.trim_end().ends_with(':') && line.starts_with("## ")));
    let order = place.read(&format!("{ROOT}/workspace/test/current_task.md"));
    let start = "# Current Task (Iteration 9)\nassigned_agent: TEST\niteration: 9\n";
    assert!(order.starts_with(start) && order.matches("# Current Task").count() == 1, "{order}");
    assert_eq!(place.read(&cache), "{\n  \"schema_version\": 1,\n  \"summaries\": {}\n}");
    assert!(place.path(&format!("{ROOT}/cache/baton_summaries.json")).exists());
    assert!(place.read(&format!("{ROOT}/memory/verification_policy.json")).contains("own_key"));
    place.expect(&["history", "check"], 0);
    place.expect(&["history", "window"], 0);
}

#[test]
fn a_run_on_a_board_of_other_agents_finishes() {
    let place = older(&["IMPLEMENTER", "CHECKER"], &["TEST", "IMPLEMENTER", "CHECKER"]);
    place.play("8-MAIN", &flat(8, "USER", question(), ""));
    let order = json!({ "task_body": "实现 M1-T1：溢出时报错" });
    place.play("9-MAIN", &flat(9, "IMPLEMENTER", order, "dev_plan: no change"));
    place.play("9-IMPLEMENTER", &report(9, "PASS", "无"));
    place.write("play/9-IMPLEMENTER.sh", "echo '// safe' >> src/lib.rs\n");
    place.play("10-MAIN", &flat(10, "CHECKER", json!({"task_body": "检查 M1-T1"}), ""));
    place.play("10-CHECKER", &report(10, "PASS", "无"));
    let done = json!({ "dev_plan_next": plan("VERIFIED") });
    place.play("11-MAIN", &flat(11, "FINISH", done, ""));
    place.play("11-FINISH_REVIEW", &report(11, "PASS", "无"));
    place.play("11-FINISH_CHECK", &flat(11, "FINISH", json!({}), ""));
    place.expect(&RUN, 10);
    let said = place.expect(&["answer", "a"], 0);
    assert!(said.contains("已完成") && !said.contains("规则已改动"), "{said}");
    let order = place.read(&format!("{ROOT}/workspace/implementer/current_task.md"));
    assert!(order.contains("实现 M1-T1：溢出时报错"), "{order}");
    // Each sees the reports of those who give a verdict.
    let prompt = place.read("prompts/10-CHECKER-1.txt");
    assert!(prompt.contains("report_implementer.md"), "{prompt}");
}

#[test]
fn a_sub_loop_that_another_tool_left_open_is_named() {
    let place = older(&["TEST", "DEV", "REVIEW"], &["TEST", "REVIEW"]);
    fs::create_dir(place.path("project/.codex")).unwrap();
    let state = |active: bool| json!({ "active": active, "iteration": 7, "sub_iteration": 2, "entry_reason": "断言失败" });
    place.write("project/.codex/subloop_state.json", state(true).to_string());
    let said = place.expect(&["status"], 0);
    assert!(said.contains("iteration 7, sub-iteration 2 (断言失败)"), "{said}");
    place.write("project/.codex/subloop_state.json", state(false).to_string());
    assert!(!place.expect(&["status"], 0).contains("sub-loop"));
}

#[test]
fn a_summary_that_fails_is_counted_logged_and_raises_the_alarm() {
    let place = older(&["TEST", "DEV", "REVIEW"], &["TEST", "REVIEW"]);
    place.write(&format!("{ROOT}/reports/report_review.md"), "只有一句话，没有任何关键行。\n");
    place.play("8-MAIN", &flat(8, "USER", question(), ""));
    place.expect(&RUN, 10);
    let lines = place.expect(&["log", "--lines"], 0);
    let failed: Vec<&str> = lines.lines().filter(|line| line.contains("failure=true")).collect();
    assert!(
        matches!(&failed[..], [one] if one.contains("summary_extract agent=REVIEW")),
        "{lines}"
    );
    let status = place.expect(&["status"], 0);
    assert!(status.contains("，失败 1 份"), "{status}");
    assert!(status.contains("警告：33% 的摘要失败"), "{status}");
}
