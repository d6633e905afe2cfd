//! `/compact`, by a person at a terminal.

use baton_testkit::{Chat, Place, text};
use serde_json::Value;

use super::handover::{PROFILE, state};
use super::{
    assert_valid, configure, content, messages, model, next_of_work, parts, reads, summary_requests,
};

#[test]
fn a_person_makes_room_and_says_what_matters() {
    let mut work: Vec<Value> = (1..=5).map(reads).collect();
    work.extend([text("Five parts were read."), text("I know.")]);
    let place = Place::of_agent(crate::BATON, model(work, vec![text(&state().to_string())]));
    configure(&place, PROFILE);
    parts(&place, 5);
    let mut chat = Chat::begin(&place);
    chat.expect("›");
    chat.write("/compact\r");
    chat.expect("[there is nothing yet that could leave the conversation]");
    chat.expect("›");
    chat.write("读五个部分\r");
    chat.expect("Five parts were read.");
    chat.expect("›");
    chat.write("/compact the values, 数值\r");
    chat.expect("[compacting the conversation: it has about ");
    chat.expect("[compacted: about ");
    chat.expect("›");
    chat.write("what is left?\r");
    chat.expect("I know.");
    chat.expect("›");
    chat.write("\u{4}");
    assert!(chat.child.wait().unwrap().success());
    let requests = place.model().requests();
    requests.iter().for_each(assert_valid);
    let asked = summary_requests(&requests);
    assert_eq!(asked.len(), 1, "nothing was asked when there was nothing to leave");
    let words = content(messages(&requests[asked[0]]).last().unwrap());
    assert!(words.ends_with("What matters most: the values, 数值"), "{words}");
    let next = next_of_work(&requests, asked[0]);
    assert!(next.to_string().contains("value_3_7 was the largest"), "{next}");
    assert!(content(messages(next).last().unwrap()).contains("what is left?"));
}

/// What was interrupted in the middle of a call is settled first.
#[test]
fn a_conversation_that_was_interrupted_can_be_compacted_before_it_goes_on() {
    let mut work: Vec<Value> = (1..=5).map(reads).collect();
    work.push(baton_testkit::call(
        "Bash",
        serde_json::json!({ "command": "touch reached; sleep 600" }),
    ));
    work.push(text("It goes on."));
    let place = Place::of_agent(crate::BATON, model(work, vec![text(&state().to_string())]));
    configure(&place, PROFILE);
    parts(&place, 5);
    let mut child = place.command(&["exec", "-p", "Go."]).spawn().unwrap();
    let start = std::time::Instant::now();
    while !place.path("project/reached").exists() {
        assert!(start.elapsed() < std::time::Duration::from_secs(120));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut chat = Chat::begin_with(&place, &["chat", "--continue"]);
    chat.expect("›");
    chat.write("/compact\r");
    chat.expect("[compacted: about ");
    chat.expect("›");
    chat.write("and now?\r");
    chat.expect("It goes on.");
    chat.expect("›");
    chat.write("\u{4}");
    assert!(chat.child.wait().unwrap().success());
    place.model().requests().iter().for_each(assert_valid);
    place.expect(&["exec", "--continue", "-p", "Once more."], 0);
}
