//! A run in Chinese: what the terminal shows while it runs, when it asks, when it ends, and afterwards.
//! Also text in UTF-8 for commands where the user has no locale.

use baton_testkit::{Model, Place, answer, call, text};
use serde_json::json;

use crate::BATON;

const RUN: [&str; 5] = ["run", "写使用指南", "--executor", "script", "--yes"];

/// A blackboard of the small Chinese pack.
fn board() -> Place {
    let place = Place::of_team(BATON);
    place.expect(&["pack", "new", "wen-gao", "--lang", "zh"], 0);
    place.expect(&["init", "--pack", "./wen-gao", "--no-gates"], 0);
    place
}

fn decision(next: &str, plan: &str, review: &str) -> String {
    format!(
        r#"{{"next_agent":"{next}","reason":"M1-T1 是下一项","dev_plan":{plan},"finish_review_override":{review},"task":"M1-T1"}}"#
    )
}

fn report(iteration: u32, verdict: &str, blockers: &str) -> String {
    format!("iteration: {iteration}\n结论：{verdict}\n阻塞：{blockers}\n\nM1-T1\n")
}

const FIRST: &str = "\"add M1: 指南\\nadd M1-T1: 第 1 章 under M1\"";
const LAST: &str = "\"update M1-T1 status to 完成\"";

/// The team writes and checks in iterations 1 and 2.
fn play_work(place: &Place) {
    place.play("1-MAIN", &decision("WRITE", FIRST, "null"));
    place.play("1-WRITE", &report(1, "通过", "无"));
    place.play("1-WRITE.sh", "mkdir -p guide; echo 正文 > guide/01.md\n");
    place.play("2-MAIN", &decision("CHECK", "null", "null"));
    place.play("2-CHECK", &report(2, "通过", "无"));
}

/// The output has these lines, in this order, whatever the widths of columns.
fn has_lines(said: &str, lines: &[&str]) {
    let mut plain = said.to_owned();
    while plain.contains("   ") {
        plain = plain.replace("   ", "  ");
    }
    let mut rest = plain.as_str();
    for line in lines {
        let Some(at) = rest.find(line) else { panic!("{line}\nin\n{said}") };
        rest = &rest[at + line.len()..];
    }
}

#[test]
fn a_question_of_a_chinese_run_is_asked_and_answered_in_chinese() {
    let place = board();
    place.play(
        "1-MAIN",
        r#"{"next_agent":"USER","reason":"任务没有说明读者","dev_plan":null,"finish_review_override":null,"question":{"title":"读者","text":"写给谁看？","options":[{"option_id":"beginners","description":"初学者"},{"option_id":"admins","description":"管理员"}],"recommended_option_id":"beginners"}}"#,
    );
    let asked = place.run(&RUN[..4]);
    assert_eq!(asked.code, 10, "{}", asked.said());
    has_lines(
        &asked.errors,
        &[
            "没有设置检查命令：结果只由代理自己的报告确认；用 `baton gate add \"COMMAND\"` 添加检查命令\n",
            "[1] MAIN 开始工作：程序 script，提示 ",
            "[1] MAIN → USER：任务没有说明读者\n",
            "[1] MAIN 向你提问：读者\n",
        ],
    );
    let question = "等待你的回答（问题 1）\n读者\n写给谁看？\n  1. beginners：初学者（推荐）\n  2. admins：管理员\n用 `baton answer 1|2` 或 `baton answer beginners|admins` 回答并继续\n";
    assert_eq!(asked.out, question);
    let status = place.expect(&["status"], 0);
    has_lines(
        &status,
        &["运行  ", "状态  等待你的回答；用 `baton answer` 继续\n", "轮次  1（已用 ", question],
    );
    let json = place.run(&["status", "--json"]).json();
    assert_eq!(json["state"], "waiting");
    assert_eq!(json["stands"], "等待你的回答；用 `baton answer` 继续");

    place.play("2-MAIN", &decision("WRITE", FIRST, "null"));
    place.play("2-WRITE", &report(2, "退回", "\n- [内容] 缺少原稿"));
    place.play("3-MAIN", "不是 JSON");
    let answered = place.run(&["answer", "2", "--executor", "script"]);
    has_lines(
        &answered.errors,
        &[
            "已回答：admins\n",
            "WRITE：退回：[内容] 缺少原稿",
            "MAIN 的回答被拒绝：",
            "改正被拒绝的回答",
        ],
    );
    has_lines(
        &answered.out,
        &[
            "已停止：",
            " 轮，",
            " 个阶段，",
            " 秒，",
            "，费用：",
            "进度已保存。排除原因后运行 `baton resume`。\n",
        ],
    );
    assert_eq!(
        place.expect(&["stop", "--abandon"], 0),
        "已放弃运行 run-0001。文件没有改动；可以开始新的运行。\n"
    );
    has_lines(&place.expect(&["status"], 0), &["状态  已放弃；用 `baton run` 开始新的运行\n"]);
}

#[test]
fn an_override_of_the_review_is_visible_wherever_a_user_looks() {
    for (language, seen, row, last) in [
        ("zh", "；不采纳 FINISH_REVIEW 的结论", "未采纳", "未采纳的审查结论："),
        ("en", "; override: FINISH_REVIEW is ignored", "override", "override: "),
    ] {
        let place = Place::of_team(BATON);
        place.expect(&["pack", "new", "own", "--lang", language], 0);
        place.expect(&["init", "--pack", "./own", "--no-gates"], 0);
        let (pass, fail, done) = match language {
            "zh" => ("通过", "退回", "完成"),
            _ => ("ACCEPTED", "RETURNED", "DONE"),
        };
        let report = |iteration: u32, verdict: &str| match (language, verdict == pass) {
            ("zh", true) => report(iteration, verdict, "无"),
            ("zh", false) => report(iteration, verdict, "\n- [文字] 太长"),
            (_, true) => {
                format!("iteration: {iteration}\nverdict: {verdict}\nblockers: none\n\nM1-T1\n")
            }
            (_, false) => format!(
                "iteration: {iteration}\nverdict: {verdict}\nblockers:\n- [style] too long\n\nM1-T1\n"
            ),
        };
        place.play("1-MAIN", &decision("WRITE", FIRST, "null"));
        place.play("1-WRITE", &report(1, pass));
        place.play("2-MAIN", &decision("CHECK", "null", "null"));
        place.play("2-CHECK", &report(2, pass));
        let last_plan = format!("\"update M1-T1 status to {done}\"");
        place.play("3-MAIN", &decision("FINISH", &last_plan, "null"));
        place.play("3-FINISH_REVIEW", &report(3, fail));
        place.play("3-FINISH_CHECK", &decision("FINISH", "null", "\"ignore\""));
        let ran = place.run(&RUN);
        assert_eq!(ran.code, 0, "{}", ran.said());
        assert!(ran.errors.contains(seen), "while it runs: {}", ran.errors);
        let line = ran.out.lines().find(|line| line.starts_with(last)).unwrap_or_default();
        assert!(line.contains("FINISH_REVIEW"), "at the end: {}", ran.out);
        assert!(place.expect(&["log"], 0).contains(seen), "log");
        let status = place.expect(&["status"], 0);
        assert!(status.contains(&format!("\n{row}")), "status: {status}");
        let history = place.history();
        let line = history.lines().find(|line| line.starts_with("override: ")).unwrap_or_default();
        assert!(line.contains("FINISH_REVIEW"), "history: {history}");
        let json = place.run(&["status", "--json"]).json();
        assert!(json["override"].is_string(), "{json}");
    }
}

#[test]
fn the_end_of_a_chinese_run_is_chinese() {
    let place = board();
    play_work(&place);
    place.play("3-MAIN", &decision("FINISH", LAST, "null"));
    place.play("3-FINISH_REVIEW", &report(3, "通过", "无"));
    place.play("3-FINISH_CHECK", &decision("FINISH", "null", "null"));
    let ran = place.run(&RUN);
    assert_eq!(ran.code, 0, "{}", ran.said());
    has_lines(&ran.errors, &["[1] WRITE：通过\n", "[2] CHECK：通过\n"]);
    has_lines(
        &ran.out,
        &[
            "已完成\n改动的文件：guide/01.md\n没有设置检查命令：除代理自己的报告外，没有任何东西确认这个结果\n3 轮，7 个阶段，",
            "费用：未知\n",
        ],
    );
    let status = place.expect(&["status"], 0);
    has_lines(
        &status,
        &[
            "状态  已完成\n",
            "轮次  3（已用 3 轮，最多 ",
            "阶段  7（MAIN 决策 4 次）\n",
            "费用  未知\n",
        ],
    );
    let none = board();
    assert_eq!(none.expect(&["status"], 0), "还没有运行；用 `baton run \"任务\"` 开始\n");
}

const POLICY: &str = "project/.baton/memory/verification_policy.json";
/// True where characters are counted, and not their bytes.
const COUNT: &str = "test \"$(printf '第一章 雨夜' | wc -m)\" -eq 6";

#[test]
fn a_failed_gate_of_a_chinese_run_is_told_in_chinese_and_gates_count_characters() {
    let place = board();
    play_work(&place);
    let mut rules: serde_json::Value = serde_json::from_str(&place.read(POLICY)).unwrap();
    rules["gates"] = json!([
        { "on": "CHECK", "run": COUNT },
        { "on": "CHECK", "run": "test \"$LC_ALL$LANG\" = C.UTF-8C.UTF-8" },
        { "on": "CHECK", "run": "echo 太长; exit 1" }
    ]);
    place.write(POLICY, format!("{rules:#}\n"));
    place.expect(&["trust"], 0);
    place.play("3-MAIN", "x");
    let ran = place.run(&RUN);
    has_lines(
        &ran.errors,
        &[
            "检查命令：`test",
            "[2] 检查命令通过：test \"$(printf",
            "[2] 检查命令通过：test \"$LC_ALL$LANG\"",
            "[2] CHECK：通过 被推翻：检查命令 `echo 太长; exit 1` 未通过（",
            "  完整输出：",
        ],
    );
}

/// The output of a command of the agent, with these variables of the user.
fn printed(variables: &[(&str, &str)], command: &str) -> String {
    let model = Model::start(vec![call("Bash", json!({ "command": command })), text("done")]);
    let place = Place::of_agent(BATON, model);
    let mut run = place.command(&["exec", "-p", "count"]);
    run.envs(variables.iter().copied());
    let ran = answer(run);
    assert_eq!(ran.code, 0, "{}", ran.said());
    let envelope = place.envelopes().remove(0);
    envelope["data"]["stdout"].as_str().unwrap_or_else(|| panic!("{envelope}")).trim().to_owned()
}

#[test]
fn commands_of_an_agent_count_characters_without_a_locale() {
    let count = "printf '第一章 雨夜' | wc -m";
    assert_eq!(printed(&[], count), "6");
    assert_eq!(printed(&[("LANG", "C")], count), "6");
    let shown = "echo \"$LC_ALL,$LANG,$LC_CTYPE\"";
    assert_eq!(printed(&[("LC_ALL", "POSIX"), ("LANG", "de_DE")], shown), "C.UTF-8,C.UTF-8,");
    assert_eq!(printed(&[("LANG", "zh_CN.UTF-8")], shown), ",zh_CN.UTF-8,");
    assert_eq!(printed(&[("LC_CTYPE", "en_US.utf8")], shown), ",,en_US.utf8");
}
