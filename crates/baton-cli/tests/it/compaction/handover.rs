//! Handover: the agent writes down its own state and goes on from it.

use baton_testkit::{Place, call, saying, text};
use serde_json::{Value, json};

use super::{
    ASKS_FOR_STATE, assert_valid, configure, content, messages, model, next_of_work, parts, reads,
    size, summary_requests, system,
};

pub(crate) const PROFILE: &str = "strategy = \"handover\"\ncompact_at = 16000\nkeep_recent = 3\nsummary_keys = [\"done\", \"open\"]\n";
pub(crate) const TASK: &str = "把 part-1 到 part-10 都读一遍, then say which value is the largest.";

pub(crate) fn state() -> Value {
    json!({ "done": "已经读完前几部分; value_3_7 was the largest", "open": ["read the rest"] })
}

/// Ten parts, a look back at what left, the last words.
pub(crate) fn work() -> Vec<Value> {
    let mut work: Vec<Value> = (1..=10).map(reads).collect();
    work.insert(3, call("Bash", json!({ "command": "echo counted; exit 3" })));
    work.push(call("Recall", json!({ "id": "o2", "from": 10, "lines": 3 })));
    work.push(text("value_10_120 is the largest."));
    work
}

pub(crate) fn place(summaries: Vec<Value>) -> Place {
    let place = Place::of_agent(crate::BATON, model(work(), summaries));
    configure(&place, PROFILE);
    parts(&place, 10);
    place.write("project/CODE_LAW.md", "Answer briefly.\n");
    place
}

#[test]
fn the_state_is_asked_for_with_the_ordinary_request_and_one_text_more() {
    let place = place(vec![text(&state().to_string())]);
    let said = place.expect(&["exec", "-p", TASK], 0);
    assert!(said.contains("value_10_120 is the largest."), "{said}");
    assert!(said.contains("[compacting the conversation: it has about "), "{said}");
    assert!(said.contains("[compacted: about "), "progress is seen: {said}");
    let requests = place.model().requests();
    requests.iter().for_each(assert_valid);
    let at = summary_requests(&requests)[0];
    let (before, asks) = (&requests[at - 1], &requests[at]);
    assert_eq!((&asks["tools"], system(asks)), (&before["tools"], system(before)), "L1 and L2");
    let (all, earlier) = (messages(asks), messages(before));
    // What the last call brought, and then one text.
    assert_eq!(&all[..earlier.len()], earlier, "the same beginning, byte by byte");
    let added: Vec<&str> =
        all[earlier.len()..].iter().map(|own| own["role"].as_str().unwrap()).collect();
    assert_eq!(added, ["assistant", "tool", "user"]);
    let words = content(&all[all.len() - 1]);
    assert!(words.starts_with(ASKS_FOR_STATE), "{words}");
    assert!(words.contains("\n- done\n- open\n"), "the keys of the profile: {words}");
    assert_eq!(asks["temperature"], json!(0.0));
    let most = asks.get("max_completion_tokens").or(asks.get("max_tokens"));
    assert!((1..=4000).contains(&most.unwrap().as_u64().unwrap()), "{most:?}");
}

#[test]
fn what_follows_is_request_state_task_with_facts_and_the_last_steps_whole() {
    let place = place(vec![text(&state().to_string())]);
    place.expect(&["exec", "-p", TASK], 0);
    let requests = place.model().requests();
    let at = summary_requests(&requests)[0];
    let (asks, next) = (&requests[at], next_of_work(&requests, at));
    let (before, after) = (messages(asks), messages(next));
    assert_eq!((&next["tools"], &after[0]), (&requests[0]["tools"], &before[0]));
    assert_eq!(content(&after[1]), content(&before[before.len() - 1]), "the words that asked");
    let told: Value = serde_json::from_str(content(&after[2])).unwrap();
    assert_eq!((after[2]["role"].as_str(), told), (Some("assistant"), state()));
    let facts = content(&after[3]);
    assert!(
        facts.contains("with your tools.]\n\nFacts of the part that left, noted by code:\n"),
        "{facts}"
    );
    assert!(facts.ends_with(&format!("The task in force:\n\n{TASK}")), "{facts}");
    for fact in ["part-1.txt 1-120", "part-2.txt 1-120", "`echo counted; exit 3` exit 3"] {
        assert!(facts.contains(fact), "{fact} is not in {facts}");
    }
    assert!(facts.contains("决定保留 u8"), "{facts}");
    assert!(facts.contains("results that Recall brings back: o1 Read part-1.txt"), "{facts}");
    // The last steps as they were, at least three: calls with their results.
    let kept = after.len() - 4;
    assert!(kept >= 6);
    assert_eq!(after[4..], before[before.len() - kept - 1..before.len() - 1]);
    // Nothing else of what left is sent.
    assert!(!next.to_string().contains("value_1_7,") && !next.to_string().contains("value_2_11"));
    // What is on the disk says the same to one who goes on.
    let steps = place.steps();
    let step = steps.iter().find(|step| step["step"] == "compacted").unwrap();
    assert_eq!(step["summary"].as_str(), Some(content(&after[2])));
}

#[test]
fn what_left_is_brought_back_whole() {
    let place = place(vec![text(&state().to_string())]);
    place.expect(&["exec", "-p", TASK], 0);
    let requests = place.model().requests();
    let last = messages(requests.last().unwrap());
    let recalled = content(last.last().unwrap());
    assert!(recalled.contains("value_2_1"), "{recalled}");
    assert_eq!(place.envelopes().last().unwrap()["data"]["id"], "o2");
}

#[test]
fn a_state_may_be_bare_or_fenced_or_stand_in_prose_between_its_tags() {
    let bare = state().to_string();
    let pretty = serde_json::to_string_pretty(&state()).unwrap();
    let forms = [
        bare.clone(),
        format!("```json\n{pretty}\n```"),
        format!(
            "我已完成以下工作 {{见下}}。\n<compact_summary>\n{pretty}\n</compact_summary>\n就这样。"
        ),
        format!("As asked.\n<compact_summary>```json\n{bare}\n```</compact_summary>"),
    ];
    let mut seen = Vec::new();
    for form in forms {
        let place = place(vec![text(&form)]);
        let said = place.expect(&["exec", "-p", TASK], 0);
        assert!(!said.contains("Summary generation failed"), "{form}: {said}");
        let requests = place.model().requests();
        let next = next_of_work(&requests, summary_requests(&requests)[0]);
        seen.push(content(&messages(next)[2]).to_owned());
    }
    assert!(seen.iter().all(|own| *own == bare), "{seen:?}");
}

#[test]
fn a_later_state_takes_in_the_earlier_one_and_the_facts_of_both_stay() {
    let first = json!({ "done": "第一次交接", "open": "parts from 8 on" });
    let second = json!({ "done": "第二次交接, with all of the first", "open": "nothing" });
    let mut work: Vec<Value> = (1..=21).map(reads).collect();
    work.push(text("All parts were read."));
    let answers = [&first, &second].map(|state| text(&state.to_string()));
    let place = Place::of_agent(crate::BATON, model(work, answers.to_vec()));
    configure(&place, PROFILE);
    parts(&place, 21);
    place.expect(&["exec", "-p", TASK], 0);
    let requests = place.model().requests();
    requests.iter().for_each(assert_valid);
    let asked = summary_requests(&requests);
    assert_eq!(asked.len(), 2, "the window is filled twice");
    assert!(requests[asked[1]].to_string().contains("第一次交接"), "it sees what it said before");
    let after = messages(next_of_work(&requests, asked[1]));
    assert_eq!(content(&after[2]), second.to_string());
    let facts = content(&after[3]);
    assert!(facts.contains("part-1.txt 1-120") && facts.contains("part-9.txt 1-120"), "{facts}");
    assert_eq!(facts.matches(TASK).count(), 1, "{facts}");
    assert!(after.len() >= 4 + 6, "as many steps as the first time");
    assert!(!after[4..].iter().any(|own| own.to_string().contains("第一次交接")));
}

#[test]
fn an_edit_and_the_list_of_tasks_outlive_the_handover() {
    let mut work = vec![
        call("TodoWrite", json!({ "todos": [{ "content": "数完", "status": "in_progress" }] })),
        call("Read", json!({ "path": "src/lib.rs" })),
        saying(
            "不再用 u8",
            "Edit",
            json!({ "path": "src/lib.rs", "old_string": "a + b", "new_string": "b + a" }),
        ),
    ];
    work.extend((1..=11).map(reads));
    work.push(text("Done."));
    let place = Place::of_agent(crate::BATON, model(work, vec![text(&state().to_string())]));
    configure(&place, PROFILE);
    parts(&place, 11);
    place.expect(&["exec", "-p", "数一数"], 0);
    let requests = place.model().requests();
    let next = next_of_work(&requests, summary_requests(&requests)[0]);
    let facts = content(&messages(next)[3]);
    assert!(facts.contains("- files changed: src/lib.rs 2"), "{facts}");
    assert!(facts.contains("不再用 u8"), "{facts}");
    assert!(content(messages(next).last().unwrap()).contains("数完"), "the recap stands last");
}

/// It is checked before every call, also before the first one of a process.
#[test]
fn a_conversation_that_is_gone_on_with_is_handed_over_before_its_first_call() {
    let mut work: Vec<Value> = (1..=8).map(reads).collect();
    work.extend([text("Eight parts were read."), text("And now that.")]);
    let place = Place::of_agent(crate::BATON, model(work, vec![text(&state().to_string())]));
    configure(&place, PROFILE);
    parts(&place, 8);
    place.write("project/CODE_LAW.md", "Answer briefly.\n");
    place.expect(&["exec", "-p", TASK], 0);
    let requests = place.model().requests();
    assert!(summary_requests(&requests).is_empty());
    let words = format!("看看这些: {}", "一些长的话, some long words. ".repeat(450));
    let said = place.expect(&["exec", "--continue", "-p", &words], 0);
    assert!(said.contains("[compacted: about "), "{said}");
    let again = place.model().requests();
    assert_eq!(summary_requests(&again), [requests.len()], "the first call of the process");
    again.iter().for_each(assert_valid);
    let asks = &again[requests.len()];
    assert_eq!((&asks["tools"], system(asks)), (&again[0]["tools"], system(&again[0])));
    let last = again.last().unwrap();
    let said = content(messages(last).last().unwrap());
    assert!(said.ends_with(&words), "the new words stand last: {said}");
    assert!(
        content(&messages(last)[3]).contains("]\n\nFacts of the part that left, noted by code:")
    );
}

/// Folding and handing over together, as it is by default: every list is valid, nothing is lost.
#[test]
fn a_long_turn_is_folded_and_handed_over_and_goes_on() {
    let mut work: Vec<Value> = Vec::new();
    for part in 1..=70 {
        work.push(saying(
            &format!("Part {part} is next. {}", format!("想法 {part}; ").repeat(80)),
            "Bash",
            json!({ "command": format!("cat part-{part}.txt | head -n 40") }),
        ));
    }
    work.push(call("Recall", json!({ "id": "o3", "from": 5, "lines": 2 })));
    work.push(text("Thirty parts."));
    let place = Place::of_agent(crate::BATON, model(work, vec![text(&state().to_string())]));
    place.write("home/.config/baton/baton.toml", format!("[profiles.chat]\n{PROFILE}"));
    parts(&place, 70);
    let said = place.expect(&["exec", "-p", TASK], 0);
    assert!(said.contains("Thirty parts."), "{said}");
    let steps = place.steps();
    let count = |name: &str| steps.iter().filter(|step| step["step"] == name).count();
    assert!(count("folded") > 0 && count("compacted") > 0, "{said}");
    let requests = place.model().requests();
    requests.iter().for_each(assert_valid);
    for request in &requests {
        assert_eq!(
            (&request["tools"], system(request)),
            (&requests[0]["tools"], system(&requests[0]))
        );
        assert!(size(request) < 18_000, "{}", size(request));
        assert!(request.to_string().contains("都读一遍"), "the task in force");
    }
    let recalled = place.envelopes().pop().unwrap();
    assert!(recalled["data"]["content"].to_string().contains("value_3_"), "{recalled}");
}
