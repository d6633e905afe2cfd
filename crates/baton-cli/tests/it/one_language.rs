//! A stage's agent works in the language of its pack: what it is told first, its tools, and what
//! they answer; by the real binary over real HTTP.

use baton_testkit::{Model, Place, call, calls, text};
use serde_json::{Value, json};

/// Names that are the same in every language: tools, the workflow, and codes of errors.
const NAMES: [&str; 17] = [
    "NO_SUCH_TOOL",
    "Baton",
    "LS",
    "Read",
    "Glob",
    "Grep",
    "Recall",
    "TodoWrite",
    "Edit",
    "MultiEdit",
    "Write",
    "Bash",
    "JSON",
    "NOT_FOUND",
    "INVALID_ARGUMENTS",
    "OUTLINE",
    "src",
];

fn decision(next: &str) -> String {
    let plan = "## Milestone M1: One\n\n### M1-T1: outline\n- status: TODO\n";
    json!({
        "next_agent": next, "reason": "M1-T1", "dev_plan": { "replace": plan },
        "finish_review_override": null, "task": null, "question": null,
    })
    .to_string()
}

/// MAIN begins OUTLINE, which uses its tools, well and badly, and reports.
fn team(working: Vec<Value>, report: &'static str) -> Model {
    let done = std::sync::atomic::AtomicUsize::new(0);
    Model::answering(move |_, asked| {
        if asked.header("x-baton-stage") == Some("MAIN") {
            return text(&decision("OUTLINE"));
        }
        let step = done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        working.get(step).cloned().unwrap_or_else(|| text(report))
    })
}

const REPORT: &str = "iteration: 1\n结论：APPROVED\n阻塞：无\n修改文件：无\n\nM1-T1\n";

fn working() -> Vec<Value> {
    vec![
        calls(&[
            ("LS", json!({})),
            ("Read", json!({ "path": "稿.md" })),
            ("Read", json!({ "path": "无.md" })),
            ("Glob", json!({ "pattern": "*.md" })),
            ("Grep", json!({ "pattern": "第二" })),
            ("Recall", json!({ "id": "o99" })),
        ]),
        call("TodoWrite", json!({ "todos": [{ "content": "写大纲", "status": "pending" }] })),
        call("Edit", json!({ "path": "稿.md", "old_string": "没有的字", "new_string": "字" })),
        call(
            "Edit",
            json!({ "path": "稿.md", "old_string": "第二行", "new_string": "第二行，改过" }),
        ),
        call("Write", json!({ "path": "稿.md", "content": "一\n" })),
        call("Bash", json!({ "command": "printf '一\\n' > 新.md" })),
        call("Nothing", json!({})),
    ]
}

/// A board of this pack, and what the requests of OUTLINE held.
fn place(pack: &str, language: &str, model: Model) -> Place {
    let place = Place::new(crate::BATON).at("project").with_model(model);
    place.write("project/稿.md", "第一行\n第二行\n");
    let made = place.plain(&["init", "--pack", pack, "--lang", language]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    place
}

fn run(place: &Place) -> Vec<Value> {
    place.run(&["run", "写一个故事", "--max-iterations", "1"]);
    let requests = place.model().requests();
    requests.into_iter().filter(|request| request["tools"].is_array()).collect()
}

fn system(request: &Value) -> &str {
    request["messages"][0]["content"].as_str().unwrap()
}

/// The descriptions of the tools and of their arguments.
fn descriptions(request: &Value) -> String {
    fn add(value: &Value, out: &mut String) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| match value {
                Value::String(text) if key == "description" => {
                    out.push_str(text);
                    out.push('\n');
                }
                other => add(other, out),
            }),
            Value::Array(values) => values.iter().for_each(|value| add(value, out)),
            _ => {}
        }
    }
    let mut out = String::new();
    add(&request["tools"], &mut out);
    out
}

fn results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// The English words of a text outside of code spans, of marks such as `[o3]`, and of paths.
fn english_words(text: &str) -> Vec<String> {
    let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let is_code = |word: &&str| {
        word.starts_with(['/', '.'])
            || word.starts_with('[')
            || word.contains(".md")
            || word.contains('=')
    };
    let words = prose.split_whitespace().filter(|word| !is_code(word));
    let words = words.flat_map(|word| word.split(|c: char| !c.is_ascii_alphabetic() && c != '_'));
    let words = words.filter(|word| word.len() > 1 && !NAMES.contains(word));
    words.map(str::to_owned).collect()
}

fn is_chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{3000}'..='\u{9fff}').contains(&c) || c == '：')
}

#[test]
fn a_stage_of_a_chinese_novel_reads_no_english_from_its_system_prompt_tools_and_results() {
    let place = place("novel", "zh", team(working(), REPORT));
    place.write("project/AGENTS.md", "用第三人称。\n");
    let requests = run(&place);
    assert!(requests.len() >= 8, "{}", requests.len());
    let last = requests.last().unwrap();
    let (words, tools) = (system(last), descriptions(last));
    assert!(words.starts_with("你是 `OUTLINE`，和其他几个代理轮流创作同一部小说"), "{words}");
    assert!(words.contains("格式以你的提示为准") && words.contains("用第三人称。"), "{words}");
    let root = place.path("project");
    let own = words.replace(root.to_str().unwrap(), "").replace("AGENTS.md", "");
    assert_eq!(english_words(&own), [""; 0], "{words}");
    assert_eq!(english_words(&tools), [""; 0], "{tools}");
    let results = results(last);
    for result in &results {
        let own = result.replace("Nothing", "");
        assert_eq!(english_words(&own), [""; 0], "{result}");
    }
    let all = results.join("\n");
    for told in [
        "Read 稿.md: 第 1-2 行，共 2 行",
        "错误 NOT_FOUND: `无.md` 不存在",
        "找不到 `old_string`",
        "没有结果 o99",
        "改动的行：2",
        "没有工具 `Nothing`",
        "新建了 新.md",
    ] {
        assert!(all.contains(told), "{told}: {all}");
    }
    assert!(last.to_string().contains("待办事项，已完成 0/1："), "{last}");
    // The prefix keeps its bytes.
    for request in &requests {
        assert_eq!((system(request), &request["tools"]), (words, &last["tools"]));
    }
}

#[test]
fn a_stage_of_an_english_novel_reads_no_chinese() {
    let report = "iteration: 1\nverdict: APPROVED\nblockers: none\n\nM1-T1\n";
    let answers =
        vec![call("LS", json!({ "path": "empty" })), call("Glob", json!({ "pattern": "x" }))];
    let place = place("novel", "en", team(answers, report));
    let requests = run(&place);
    let last = requests.last().unwrap();
    assert!(system(last).starts_with("You are `OUTLINE`, one of several agents"), "{last}");
    assert!(!system(last).contains("coding agent") && !system(last).contains("{{"));
    assert!(system(last).contains("in the form that your prompt asks for"));
    for text in [system(last), &descriptions(last), &results(last).join("\n")] {
        assert!(!is_chinese(text), "{text}");
    }
}

#[test]
fn the_blackboards_own_system_prompt_counts_and_without_one_the_packs() {
    let own = place("novel", "zh", team(Vec::new(), REPORT));
    let file = "project/.baton/memory/prompts/subagent_prompt_system.md";
    assert!(own.read(file).starts_with("你是 `{agent}`"), "init copies it");
    own.write(file, "你是写诗的 `{agent}`。\n");
    let requests = run(&own);
    assert!(system(&requests[0]).starts_with("你是写诗的 `OUTLINE`。\n\n你的工具"), "{requests:?}");

    let older = place("novel", "zh", team(Vec::new(), REPORT));
    std::fs::remove_file(older.path(file)).unwrap();
    let requests = run(&older);
    assert!(system(&requests[0]).starts_with("你是 `OUTLINE`，和其他几个代理轮流创作"));
}
