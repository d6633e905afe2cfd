//! What is too long for the provider, and what cannot be made to fit: never a loop.

use std::sync::atomic::{AtomicUsize, Ordering};

use baton_testkit::{Model, Place, call, refusal, text};
use serde_json::{Value, json};

use super::handover::{PROFILE, TASK, state};
use super::{
    assert_valid, configure, content, counted, is_for_summary, messages, model, parts, reads, size,
    summary_requests,
};

fn too_long() -> Value {
    let mut no = refusal(400, "This model's maximum context length is 8000 tokens.");
    no["error"]["code"] = json!("context_length_exceeded");
    no
}

/// The window is large; it is the provider that says no.
fn wide(place: &Place) {
    configure(place, &PROFILE.replace("16000", "100000"));
    parts(place, 12);
}

#[test]
fn a_request_that_is_too_long_for_the_provider_is_compacted_and_sent_again() {
    let mut work: Vec<Value> = (1..=6).map(reads).collect();
    work.push(too_long());
    work.push(reads(7));
    work.push(text("Done."));
    let place = Place::of_agent(crate::BATON, model(work, vec![text(&state().to_string())]));
    wide(&place);
    let said = place.expect(&["exec", "-p", TASK], 0);
    assert!(said.contains("[the provider says that the request is too long]"), "{said}");
    assert!(said.contains("Done."), "{said}");
    let requests = place.model().requests();
    requests.iter().for_each(assert_valid);
    assert_eq!(requests.len(), 10);
    assert_eq!(summary_requests(&requests), [7]);
    assert!(requests[8].to_string().len() < requests[6].to_string().len());
    assert_eq!(place.steps().iter().filter(|step| step["step"] == "too_long").count(), 1);
}

/// A model with a smaller window than anybody configured; it says so, also when it is to sum up.
fn narrow(window: usize, parts: usize) -> Model {
    let work = AtomicUsize::new(0);
    Model::answering(move |_, asked| {
        if size(&asked.body) > window {
            return too_long();
        }
        if is_for_summary(&asked.body) {
            return counted(text(&state().to_string()), &asked.body);
        }
        let part = work.fetch_add(1, Ordering::SeqCst) + 1;
        counted(if part <= parts { reads(part) } else { text("Done.") }, &asked.body)
    })
}

#[test]
fn a_window_smaller_than_configured_is_learned_so_that_there_is_room_for_a_summary() {
    let place = Place::of_agent(crate::BATON, narrow(16_000, 24));
    configure(&place, &PROFILE.replace("16000", "100000"));
    parts(&place, 24);
    let said = place.expect(&["exec", "-p", TASK], 0);
    assert!(said.contains("Done."), "{said}");
    assert_eq!(said.matches("the provider says that the request is too long").count(), 1, "{said}");
    let states = place.steps().into_iter().filter(|step| step["step"] == "compacted");
    let states: Vec<bool> = states.map(|step| step["summary"].is_string()).collect();
    assert!(states.len() >= 3, "{states:?}");
    assert!(states[1..].iter().all(|is_there| *is_there), "{states:?}: {said}");
    place.model().requests().iter().for_each(assert_valid);
}

#[test]
fn a_provider_to_which_everything_is_too_long_ends_it_with_an_error() {
    let work = AtomicUsize::new(0);
    let never = Model::answering(move |_, asked| {
        let at = work.fetch_add(usize::from(!is_for_summary(&asked.body)), Ordering::SeqCst);
        match at < 6 && !is_for_summary(&asked.body) {
            true => counted(reads(at + 1), &asked.body),
            false => too_long(),
        }
    });
    let place = Place::of_agent(crate::BATON, never);
    wide(&place);
    let said = place.expect(&["exec", "-p", TASK], 4);
    assert!(said.contains("stopped: the conversation does not fit"), "{said}");
    let calls = place.model().requests().len();
    assert!(calls <= 6 + 12, "{calls} calls: {said}");
}

#[test]
fn a_first_request_that_is_too_long_is_not_sent_again_and_again() {
    let place = Place::of_agent(crate::BATON, model(vec![too_long()], vec![too_long()]));
    wide(&place);
    let said = place.expect(&["exec", "-p", TASK, "--minutes", "1"], 4);
    assert!(said.contains("the provider says that the request is too long"), "{said}");
    assert_eq!(place.model().requests().len(), 1);
}

/// Much stands before the conversation that nobody can take away, and the states are as long as they
/// may be: each compaction is possible, none of them gains much.
fn vain() -> Model {
    let step = AtomicUsize::new(0);
    Model::answering(move |_, asked| {
        if is_for_summary(&asked.body) {
            let long = json!({ "done": "x".repeat(24_000), "open": "" });
            return counted(text(&long.to_string()), &asked.body);
        }
        let at = step.fetch_add(1, Ordering::SeqCst);
        let mut answer = if at < 40 { reads(at % 12 + 1) } else { text("Done.") };
        answer["prompt_tokens"] = json!(size(&asked.body) + 21_500);
        answer
    })
}

const VAIN: &str = "strategy = \"handover\"\ncompact_at = 32000\nkeep_recent = 1\nsummary_keys = [\"done\", \"open\"]\n";

#[test]
fn a_conversation_that_gains_nothing_ends_soon_with_a_clear_error() {
    let place = Place::of_agent(crate::BATON, vain());
    configure(&place, VAIN);
    parts(&place, 12);
    let said = place.expect(&["exec", "-p", TASK], 4);
    // A compaction that would gain less than a tenth is not even begun.
    assert!(said.contains("stopped: the conversation does not fit: its last step alone"), "{said}");
    let requests = place.model().requests();
    assert!(summary_requests(&requests).len() <= 2, "{said}");
    assert!(requests.len() < 12, "{} calls", requests.len());
    // Another turn begins, tries it anew, and says it again.
    let again = place.expect(&["exec", "--continue", "-p", "Once more."], 4);
    assert!(again.contains("does not fit"), "{again}");
    assert!(place.model().requests().len() < 24);
    // With a larger window the same conversation goes on.
    configure(&place, &VAIN.replace("32000", "1000000"));
    let said = place.expect(&["exec", "--continue", "-p", "And now?"], 0);
    assert!(said.contains("Done."), "{said}");
    place.model().requests().iter().for_each(assert_valid);
}

#[test]
fn what_has_to_stand_before_the_conversation_may_be_too_much_already() {
    let work = Model::answering(|_, _| {
        let mut answer = reads(1);
        answer["prompt_tokens"] = json!(40_000);
        answer
    });
    let place = Place::of_agent(crate::BATON, work);
    configure(&place, VAIN);
    parts(&place, 1);
    let said = place.expect(&["exec", "-p", TASK], 4);
    assert!(said.contains("stopped: the conversation does not fit"), "{said}");
    assert!(place.model().requests().len() <= 2, "{said}");
}

#[test]
fn one_result_that_alone_fills_the_window_is_cut_by_lines_and_says_which() {
    let work = vec![call("Read", json!({ "path": "long.txt" })), text("Long indeed.")];
    let place = Place::of_agent(crate::BATON, model(work, vec![text(&state().to_string())]));
    configure(&place, &PROFILE.replace("16000", "18000"));
    let line = |line| {
        format!("{line:03} of a long file, 很长的文件, its value_{line} and its name_{line}\n")
    };
    place.write("project/long.txt", (0..900).map(line).collect::<String>());
    let said = place.expect(&["exec", "-p", TASK], 0);
    assert!(said.contains("[results that do not fit were cut before they were sent]"), "{said}");
    let requests = place.model().requests();
    assert_eq!(requests.len(), 2, "nothing leaves, so nobody is asked to sum up");
    let last = requests[1].to_string();
    assert!(last.contains("value_3 ") && !last.contains("value_898 "), "{last}");
    assert!(last.contains("-900 are left out here; Recall o1 from="), "{last}");
    assert_valid(&requests[1]);
}

#[test]
fn after_such_an_end_the_next_turn_begins() {
    let place = Place::of_agent(
        crate::BATON,
        model(vec![too_long(), text("A shorter one.")], vec![too_long()]),
    );
    wide(&place);
    place.expect(&["exec", "-p", TASK], 4);
    let said = place.expect(&["exec", "--continue", "-p", "Only part 1."], 0);
    assert!(said.contains("A shorter one."), "{said}");
}

#[test]
fn other_figures_or_another_strategy_do_not_break_a_conversation_that_goes_on() {
    let mut work: Vec<Value> = Vec::new();
    for first in [1, 5] {
        work.extend((first..first + 4).map(reads));
        work.push(text("Four parts were read."));
    }
    work.extend((9..=18).map(reads));
    work.push(text("The rest was read."));
    let place = Place::of_agent(crate::BATON, model(work, vec![text(&state().to_string())]));
    configure(&place, PROFILE);
    parts(&place, 18);
    place.expect(&["exec", "-p", "First."], 0);
    place.expect(&["exec", "--continue", "-p", "Second."], 0);
    let said = place.expect(&["exec", "--continue", "-p", "Third."], 0);
    assert!(said.contains("[compacted: about"), "{said}");
    let last = place.model().requests().len() - 1;
    for profile in [
        PROFILE.to_owned(),
        PROFILE.replace("handover", "archive"),
        PROFILE.replace("keep_recent = 3", "keep_recent = 1"),
        PROFILE.replace("keep_recent = 3", "keep_recent = 30"),
        PROFILE.replace("16000", "90000"),
    ] {
        configure(&place, &profile);
        place.expect(&["exec", "--continue", "-p", "And again."], 0);
    }
    let requests = place.model().requests();
    requests.iter().for_each(assert_valid);
    let facts = |request: &Value| content(&messages(request)[3]).to_owned();
    assert!(facts(&requests[last]).contains("]\n\nFacts of the part that left, noted by code:"));
    for request in &requests[last + 1..] {
        assert_eq!(facts(request), facts(&requests[last]), "the same past");
    }
}
