//! Two iterations of a scenario, sample by sample.

use std::collections::BTreeMap;

use baton_core::scenario::compare::{Comparison, Outcome, compared};
use baton_core::scenario::result::Status;
use proptest::prelude::*;

fn outcome(word: &str) -> Outcome {
    let (status, names, code) = match word.split_once(' ') {
        None => (Status::Passed, "", None),
        Some(("failed", names)) => (Status::Failed, names, None),
        Some((_, code)) => (Status::Error, "", Some(code.to_owned())),
    };
    let names = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
    Outcome { status, checkers_failed: names.collect(), code }
}

fn samples(all: &[(&str, &str)]) -> BTreeMap<String, Outcome> {
    all.iter().map(|(id, word)| ((*id).to_owned(), outcome(word))).collect()
}

fn ids(list: &[baton_core::scenario::compare::Change]) -> Vec<&str> {
    list.iter().map(|own| own.sample_id.as_str()).collect()
}

#[test]
fn every_change_has_its_list() {
    let before = samples(&[
        ("fixed", "failed a"),
        ("broken", "passed"),
        ("otherwise", "failed a,b"),
        ("same", "failed a,b"),
        ("good", "passed"),
        ("lost", "passed"),
        ("found", "error tool-timeout"),
        ("stuck", "error tool-timeout"),
        ("stuck otherwise", "error tool-timeout"),
        ("gone", "failed a"),
    ]);
    let after = samples(&[
        ("fixed", "passed"),
        ("broken", "failed a"),
        ("otherwise", "failed b"),
        // The order of checkers means nothing.
        ("same", "failed b,a"),
        ("good", "passed"),
        ("lost", "error tool-timeout"),
        ("found", "passed"),
        ("stuck", "error tool-timeout"),
        ("stuck otherwise", "error tool-output"),
        ("new", "failed c"),
    ]);
    let found = compared(&before, &after);
    assert_eq!(ids(&found.fixed), ["fixed"]);
    assert_eq!(ids(&found.broken), ["broken"]);
    assert_eq!(ids(&found.otherwise), ["otherwise"]);
    assert_eq!(ids(&found.errors), ["found", "lost", "stuck otherwise"]);
    assert_eq!(found.new[0].sample_id, "new");
    assert_eq!(found.gone[0].sample_id, "gone");
    let unchanged = (found.unchanged_passed, found.unchanged_failed, found.unchanged_errors);
    assert_eq!(unchanged, (1, 1, 1));
}

fn anything() -> impl Strategy<Value = BTreeMap<String, Outcome>> {
    let words = ["passed", "failed a", "failed b", "failed a,b", "error x", "error y"];
    let word = proptest::sample::select(words.to_vec()).prop_map(outcome);
    proptest::collection::btree_map("[a-f]", word, 0..6)
}

proptest! {
    #[test]
    fn no_sample_is_lost_and_none_is_counted_twice(before in anything(), after in anything()) {
        let found = compared(&before, &after);
        let mut all = before.clone();
        all.extend(after.clone());
        let lists = [&found.fixed, &found.broken, &found.otherwise, &found.errors];
        let changed: usize = lists.iter().map(|list| list.len()).sum();
        let unchanged = found.unchanged_passed + found.unchanged_failed + found.unchanged_errors;
        prop_assert_eq!(changed + unchanged + found.new.len() + found.gone.len(), all.len());
        // The way back is the mirror of the way there.
        let back = compared(&after, &before);
        prop_assert_eq!(ids(&found.fixed), ids(&back.broken));
        prop_assert_eq!(ids(&found.otherwise), ids(&back.otherwise));
        prop_assert_eq!(&found.new, &back.gone);
        prop_assert!(compared(&before, &before).is_empty());
        prop_assert_eq!(found.is_empty(), back.is_empty());
        let nothing = Comparison { new: found.new.clone(), ..Comparison::default() };
        prop_assert_eq!(nothing.is_empty(), found.new.is_empty());
    }
}
