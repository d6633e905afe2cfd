//! Packs that users make: from nothing, from a built-in one, from the page about packs; and the language
//! that they get.

use std::collections::BTreeMap;

use baton_testkit::Place;

use crate::BATON;

const PAGE: &str = include_str!("../../../../docs/packs.md");

/// The files of the pack that the page about packs shows: blocks whose title is a path.
fn on_the_page() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut open: Option<(&str, String, String)> = None;
    for line in PAGE.lines() {
        match &mut open {
            Some((fence, path, body)) if line == *fence => {
                files.insert(path.clone(), body.clone());
                open = None;
            }
            Some((_, _, body)) => {
                body.push_str(line);
                body.push('\n');
            }
            None => {
                let fence = if line.starts_with("````") { "````" } else { "```" };
                let title = line.strip_prefix(fence).unwrap_or_default().trim();
                if title.contains('.') {
                    open = Some((fence, title.to_owned(), String::new()));
                }
            }
        }
    }
    files
}

fn place() -> Place {
    Place::of_team(BATON)
}

/// The team of the small pack writes, checks and finishes.
fn play(place: &Place, [accepted, done]: [&str; 2], [verdict, blockers, none]: [&str; 3]) {
    let decision = |next: &str, plan: &str| {
        format!(
            r#"{{"next_agent":"{next}","reason":"M1-T1","dev_plan":{plan},"finish_review_override":null,"task":"M1-T1"}}"#
        )
    };
    let report = |iteration: u32| {
        format!("iteration: {iteration}\n{verdict}{accepted}\n{blockers}{none}\n\nM1-T1\n")
    };
    place.play("1-MAIN", &decision("WRITE", "\"add M1: Guide\\nadd M1-T1: Chapter 1 under M1\""));
    place.play("1-WRITE", &report(1));
    place.play("1-WRITE.sh", "mkdir -p guide; echo text > guide/01.md\n");
    place.play("2-MAIN", &decision("CHECK", "null"));
    place.play("2-CHECK", &report(2));
    place.play("3-MAIN", &decision("FINISH", &format!("\"update M1-T1 status to {done}\"")));
    place.play("3-FINISH_REVIEW", &report(3));
    place.play("3-FINISH_CHECK", &decision("FINISH", "null"));
}

#[test]
fn the_pack_on_the_page_is_right_and_carries_a_whole_run() {
    let files = on_the_page();
    let place = place();
    for (path, text) in &files {
        place.write(&format!("project/minimal/{path}"), text);
    }
    assert_eq!(files.len(), 7, "{:?}", files.keys());
    assert_eq!(place.expect(&["pack", "check", "minimal"], 0), "ok: minimal\n");
    let made = place.expect(&["init", "--pack", "./minimal"], 0);
    assert!(made.starts_with("made .baton: pack my-pack (en)\n"), "{made}");
    play(&place, ["ACCEPTED", "DONE"], ["verdict: ", "blockers: ", "none"]);
    let ended = place.expect(&["run", "write the guide", "--executor", "script"], 0);
    assert!(ended.contains("finished\nfiles changed: guide/01.md\n"), "{ended}");
}

#[test]
fn the_page_shows_what_pack_new_writes() {
    let place = place();
    let wrote = place.expect(&["pack", "new", "my-pack"], 0);
    assert!(wrote.contains("next: change them; baton pack check ./my-pack"), "{wrote}");
    for (path, text) in on_the_page() {
        assert_eq!(place.read(&format!("project/my-pack/{path}")), text, "{path}");
    }
}

#[test]
fn a_new_chinese_pack_carries_a_whole_run_without_naming_its_language() {
    let place = place();
    place.expect(&["pack", "new", "wen-gao", "--lang", "zh"], 0);
    assert_eq!(place.expect(&["pack", "check", "wen-gao"], 0), "ok: wen-gao\n");
    let made = place.expect(&["init", "--pack", "./wen-gao"], 0);
    assert!(made.starts_with("made .baton: pack wen-gao (zh)\n"), "{made}");
    assert!(made.contains("CHECK      核对文稿，不改文件"), "{made}");
    play(&place, ["通过", "完成"], ["结论：", "阻塞：", "无"]);
    place.expect(&["run", "写使用指南", "--executor", "script"], 0);
    let history = place.history();
    assert!(history.contains("首次通过"), "{history}");
}

#[test]
fn a_pack_is_written_from_a_built_in_one_and_never_over_another() {
    let place = place();
    place.expect(&["pack", "new", "mine", "--from", "novel", "--lang", "zh"], 0);
    assert_eq!(place.expect(&["pack", "check", "mine"], 0), "ok: mine\n");
    let shown = place.expect(&["pack", "show", "mine"], 0);
    assert!(shown.starts_with("mine (zh): 小说写作：大纲、初稿、润色、评审\n"), "{shown}");
    assert!(!place.path("project/mine/en").exists());

    place.expect(&["pack", "export", "tdd"], 0);
    assert_eq!(place.expect(&["pack", "check", "./tdd"], 0), "ok: ./tdd\n");
    let before = place.read("project/tdd/pack.toml");
    place.write("project/tdd/pack.toml", format!("# mine\n{before}"));
    for args in [&["pack", "export", "tdd"][..], &["pack", "new", "tdd"], &["pack", "new", "mine"]]
    {
        let refused = place.expect(args, 2);
        assert!(
            refused.contains("is there already and is not an empty folder: nothing was written")
        );
    }
    assert!(place.read("project/tdd/pack.toml").starts_with("# mine\n"));
    let refused = place.expect(&["pack", "new", "Mine"], 2);
    assert!(refused.contains("lower case letters, digits and `-` only"), "{refused}");
    assert!(!place.path("project/Mine").exists());
    let refused = place.expect(&["pack", "new", "x", "--lang", "fr"], 2);
    assert!(refused.contains("expected one of `en`, `zh`"), "{refused}");
    place.write("project/empty/README.md", "");
    let refused = place.expect(&["pack", "check", "empty"], 2);
    assert!(refused.contains("there is no `pack.toml` in empty"), "{refused}");
}

#[test]
fn a_check_names_every_fault_with_a_path_that_opens() {
    let place = place();
    place.expect(&["pack", "new", "yi", "--lang", "zh"], 0);
    let policy = r#"{
  "report_rules": {"verdict_prefix": 7, "blocker_classes": {"误译": ["漏译"]}},
  "plan": {"statuses": "待办"},
  "subloop": {"tester": "CHECK"},
  "finish_ruls": {}
}
"#;
    place.write("project/yi/policy.json", policy);
    std::fs::remove_file(place.path("project/yi/zh/prompts/subagent_prompt_check.md")).unwrap();
    place.write("project/yi/zh/promts/x.md", "x");
    let found = place.expect(&["pack", "check", "yi"], 2);
    for expected in [
        "yi/policy.json:2:19: error: report_rules: the key `verdict_pass` is missing\n    expected a string or a list of strings (The verdict that says that the work is good, of any script)",
        "yi/policy.json:2:19: error: report_rules: the key `verdict_fail` is missing",
        "yi/policy.json:2:38: error: report_rules.verdict_prefix: a whole number does not fit here\n    expected a string",
        "yi/policy.json:3:11: error: plan: the key `verified_by` is missing\n    expected a list of strings (Agents whose pass allows the final status)",
        "yi/policy.json:3:24: error: plan.statuses: a string does not fit here\n    expected a list of strings",
        "yi/policy.json:4:14: error: subloop: the key `fixer` is missing",
        "yi/policy.json:4:14: error: subloop: the key `enter_on` is missing",
        "yi/policy.json:5:3: error: the key `finish_ruls` is not known",
        "yi/zh/prompts/subagent_prompt_check.md: error: the prompt of `CHECK` is missing",
        "yi/zh/promts/x.md: warning: `zh/promts/x.md` is not a file of a pack and is not read",
    ] {
        assert!(found.contains(expected), "{expected}\nin\n{found}");
    }
    assert!(!found.contains("`finish_rules` is missing"), "keys with a usual value: {found}");
}

#[test]
fn every_wrong_name_is_found_at_once() {
    let place = place();
    place.expect(&["pack", "new", "yi", "--lang", "zh"], 0);
    let manifest = place.read("project/yi/pack.toml");
    place
        .write("project/yi/pack.toml", manifest.replace("WRITE", "翻译").replace("CHECK", "Check"));
    let found = place.expect(&["pack", "check", "yi"], 2);
    assert!(found.contains("yi/pack.toml:7:8: error:"), "{found}");
    assert!(found.contains("`翻译` is not an agent name"), "{found}");
    assert!(found.contains("`Check` is not an agent name"), "{found}");
}

#[test]
fn a_class_of_blockers_may_be_of_any_script() {
    let place = place();
    place.expect(&["pack", "new", "yi", "--lang", "zh"], 0);
    let policy = place.read("project/yi/policy.json").replace("\"文字\"", "\"误译\"");
    place.write("project/yi/policy.json", &policy);
    let found = place.expect(&["pack", "check", "yi"], 2);
    assert!(found.contains("yi/zh/prompts/subagent_prompt_check.md:"), "{found}");
    assert!(found.contains("`[文字]` is not a class of blockers"), "{found}");
    for prompt in ["write", "check"] {
        let path = format!("project/yi/zh/prompts/subagent_prompt_{prompt}.md");
        place.write(&path, place.read(&path).replace("[文字]", "[误译]"));
    }
    assert_eq!(place.expect(&["pack", "check", "yi"], 0), "ok: yi\n");
    place.expect(&["init", "--pack", "./yi"], 0);
    place.write(
        "project/report.md",
        "iteration: 2\n结论：退回\n阻塞：\n- [误译] 第 3 段\n- 【误译】第 4 段\n",
    );
    let report = place.run(&["report", "check", "report.md", "--agent", "CHECK", "--json"]).json();
    assert_eq!(report["report"]["blockers"][0]["class"], "误译", "{report}");
    assert_eq!(report["report"]["blockers"][1]["class"], "误译", "{report}");
    for wrong in ["误 译", "误-译", "Impl", "unknown"] {
        place.write("project/yi/policy.json", policy.replace("误译", wrong));
        let found = place.expect(&["pack", "check", "yi"], 2);
        let said = format!("`{wrong}` is not a class name: letters of any script in lower case");
        assert!(found.contains(&said), "{found}");
    }
}

/// The first line of `init` in this locale.
fn made(pack: &str, locale: &str, args: &[&str]) -> String {
    let place = place();
    place.expect(&["pack", "new", "only", "--lang", "zh"], 0);
    let all = [&["init", "--pack", pack, "--no-gates"], args].concat();
    let mut command = place.command(&all);
    let made = baton_testkit::answer(command.env("LANG", locale)).expect(&all, 0);
    made.lines().next().unwrap().to_owned()
}

#[test]
fn the_language_is_the_only_one_or_the_asked_or_that_of_the_locale() {
    assert_eq!(made("./only", "de_DE.UTF-8", &[]), "made .baton: pack only (zh)");
    assert_eq!(made("novel", "zh_CN.UTF-8", &[]), "made .baton: pack novel (zh)");
    assert_eq!(made("novel", "zh_CN.UTF-8", &["--lang", "en"]), "made .baton: pack novel (en)");
    assert_eq!(made("novel", "de_DE.UTF-8", &[]), "made .baton: pack novel (en)");
    assert_eq!(made("novel", "C.UTF-8", &[]), "made .baton: pack novel (en)");
}

#[test]
fn a_blackboard_changes_to_a_pack_of_one_language_without_naming_it() {
    let place = place().with_board("tdd");
    place.expect(&["pack", "new", "only", "--lang", "zh"], 0);
    let switched = place.expect(&["pack", "use", "./only"], 0);
    assert!(switched.contains("now uses the pack only (zh)"), "{switched}");
    let titles = place.expect(&["pack", "list"], 0);
    assert!(titles.contains("测试驱动开发：先写测试，再写代码，最后评审"), "{titles}");
    let titles = place.expect(&["pack", "list", "--lang", "en"], 0);
    assert!(titles.contains("Test-driven development: tests first"), "{titles}");
}

#[test]
fn a_run_without_a_blackboard_says_which_pack_it_took() {
    let place = place();
    place.expect(&["pack", "new", "only", "--lang", "zh"], 0);
    play(&place, ["通过", "完成"], ["结论：", "阻塞：", "无"]);
    let ran = place.expect(&["run", "写使用指南", "--pack", "./only", "--executor", "script"], 0);
    assert!(ran.contains("已创建 .baton：包 only（zh）"), "{ran}");
}

#[test]
fn a_title_for_each_language_has_every_language() {
    let place = place();
    place.expect(&["pack", "new", "my-pack"], 0);
    let manifest = place.read("project/my-pack/pack.toml");
    let title = "title = \"A text that one agent writes and another checks\"";
    assert!(manifest.contains(title));
    for (line, said) in [
        (
            "title = { zh = \"文稿\" }",
            "my-pack/pack.toml:2:9: error: title: a line for the language `en` is missing",
        ),
        (
            "title = { en = \"Text\", zh = \"文稿\" }",
            "my-pack/pack.toml:2:9: error: title: the pack has no language `zh`",
        ),
        ("title = 7", "my-pack/pack.toml:2:9: error: title: a whole number does not fit here"),
    ] {
        place.write("project/my-pack/pack.toml", manifest.replace(title, line));
        let found = place.expect(&["pack", "check", "my-pack"], 2);
        assert!(found.contains(said), "{found}");
    }
}
