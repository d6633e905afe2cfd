//! The lab's account of a session's requests: false places, results never shown, cut ones, lost
//! messages of the user.

use baton_core::lab::account::{self, Place, Tally, Truth};
use baton_core::lab::need::Prepared;
use baton_core::lab::policy::Name;
use baton_core::lab::replay::{Form, FormId, Piece, Policy};
use baton_core::lab::session::{Act, Message, Role, Session};

fn user(text: &str) -> Message {
    Message::new(Role::User, text, Vec::new())
}

fn result(text: impl Into<String>) -> Message {
    Message::new(Role::Observation, text, Vec::new())
}

fn call() -> Message {
    Message::new(Role::Assistant, "", vec![Act::new("Read", "a.rs")])
}

fn said(text: &str) -> Message {
    Message::new(Role::Assistant, text, Vec::new())
}

fn prepared(messages: Vec<Message>) -> Prepared {
    let (id, source) = ("s1".to_owned(), "hand".to_owned());
    Prepared::new(Session { id, source, over: 0, messages })
}

fn file(lines: std::ops::Range<u32>) -> String {
    let line = |n: u32| format!("{n}\tlet value_{n} = compute_{n}(input);");
    lines.map(line).collect::<Vec<_>>().join("\n")
}

fn counts(truth: &Truth) -> (u64, u64, u64, u64) {
    let Truth { false_references, never_shown, cut, lost_messages } = truth;
    (false_references.count, never_shown.count, cut.count, lost_messages.count)
}

fn found(call: usize, quote: &str) -> Option<Place> {
    Some(Place { session: "s1".to_owned(), call, quote: quote.to_owned() })
}

/// Shows some messages in its own words, from some call on.
#[derive(Debug, Default)]
struct Scripted {
    /// From which call on (counted from 0), which message, as what. An empty text leaves it out.
    words: Vec<(usize, usize, String)>,
    /// Before everything else.
    inserted: Option<String>,
    form: Form,
    calls: usize,
}

impl Scripted {
    fn new(words: &[(usize, usize, &str)]) -> Scripted {
        let own = |(from, at, text): &(usize, usize, &str)| (*from, *at, (*text).to_owned());
        Scripted { words: words.iter().map(own).collect(), ..Scripted::default() }
    }
}

impl Policy for Scripted {
    fn view(&mut self, _: &Prepared, call: usize) -> Vec<Piece> {
        let now = self.calls;
        self.calls += 1;
        let inserted = self.inserted.iter().map(|_| Piece::Inserted(FormId(u32::MAX)));
        let pieces = (0..call).filter_map(|at| {
            let mut words = self.words.iter().enumerate().rev();
            match words.find(|(_, (from, own, _))| *own == at && *from <= now) {
                Some((_, (.., text))) if text.is_empty() => None,
                Some((number, _)) => Some(Piece::Formed(at, FormId(number as u32))),
                None => Some(Piece::Whole(at)),
            }
        });
        inserted.chain(pieces).collect()
    }

    fn form(&self, _: FormId) -> &Form {
        &self.form
    }

    fn text(&self, id: FormId) -> Option<&str> {
        match self.words.get(id.0 as usize) {
            Some((.., text)) => Some(text),
            None => self.inserted.as_deref(),
        }
    }
}

/// 0 user, 1 call, 2 result, 3 call, 4 result, 5 call, 6 words, 7 user, 8 words.
fn two_readings() -> Prepared {
    prepared(vec![
        user("Fix it."),
        call(),
        result(file(1..11)),
        call(),
        result(file(1..21)),
        call(),
        said("Done."),
        user("And now the rest."),
        said("Also done."),
    ])
}

#[test]
fn policies_of_others_say_nothing_false() {
    for (name, never, lost) in [
        ("full", 0, 0),
        ("mask:1", 0, 0),
        ("mask:1/1", 0, 0),
        ("mask:0", 2, 0),
        ("edit:1/1", 0, 0),
        ("last:1", 0, 0),
    ] {
        let mut policy = Name::read(name).unwrap().policy();
        let (_, truth) = account::run(&two_readings(), policy.as_mut());
        assert_eq!(counts(&truth), (0, never, 0, lost), "{name}");
        assert_eq!(truth.is_true(), never == 0 && lost == 0);
    }
}

#[test]
fn the_sums_are_those_of_a_replay_without_a_check() {
    for name in ["full", "mask:1", "last:1", "baton"] {
        let policy = || Name::read(name).unwrap().policy();
        let (sums, _) = account::run(&two_readings(), policy().as_mut());
        let plain = baton_core::lab::replay::run(&two_readings(), policy().as_mut());
        assert_eq!(sums, plain, "{name}");
    }
}

#[test]
fn a_broken_reference_is_counted_once_with_its_first_place() {
    let good = format!("[lines 1-10: same as o1 lines 1-10]\n{}", file(11..21));
    let (_, truth) = account::run(&two_readings(), &mut Scripted::new(&[(0, 4, &good)]));
    assert_eq!(counts(&truth), (0, 0, 0, 0));
    let broken = good.replace("o1 lines 1-10", "o1 lines 2-11");
    let (_, truth) = account::run(&two_readings(), &mut Scripted::new(&[(0, 4, &broken)]));
    // Calls 3 to 5 have it; the result itself was never there as it was returned.
    assert_eq!(counts(&truth), (1, 1, 0, 0));
    let place = found(3, "[lines 1-10: same as o1 lines 2-11]");
    assert_eq!(truth.false_references.first, place);
    let place = found(3, "o2: 1\\tlet value_1 = compute_1(input);");
    assert_eq!(truth.never_shown.first, place);
    // Another falsehood of the same result is another place.
    let worse = "[1-20 as in o1]";
    let words = [(0, 4, broken.as_str()), (3, 4, worse)];
    let (_, truth) = account::run(&two_readings(), &mut Scripted::new(&words));
    assert_eq!(truth.false_references.count, 2);
}

#[test]
fn a_reference_becomes_false_when_its_source_changes() {
    // Nothing of result 2 changes: result 1 is folded at the fourth call.
    let again = format!("[lines 1-10: same as o1 lines 1-10]\n{}", file(11..21));
    let stub = "[folded o1: Read a.rs, success]";
    let words = [(0, 4, again.as_str()), (3, 2, stub)];
    let (_, truth) = account::run(&two_readings(), &mut Scripted::new(&words));
    assert_eq!(counts(&truth), (1, 0, 0, 0));
    assert_eq!(truth.false_references.first, found(4, "[lines 1-10: same as o1 lines 1-10]"));
}

#[test]
fn a_result_that_was_shown_once_may_become_a_stub_or_leave() {
    let stub = "[folded o1: Read a.rs, success]\n3\tlet value_3 = compute_3(input);";
    let (_, truth) = account::run(&two_readings(), &mut Scripted::new(&[(2, 2, stub)]));
    assert_eq!(counts(&truth), (0, 0, 0, 0));
    let (_, truth) = account::run(&two_readings(), &mut Scripted::new(&[(2, 2, "")]));
    assert_eq!(counts(&truth), (0, 0, 0, 0));
    let (_, truth) = account::run(&two_readings(), &mut Scripted::new(&[(1, 2, stub)]));
    assert_eq!(counts(&truth), (0, 1, 0, 0), "it was folded before any request had it");
    let (_, truth) = account::run(&two_readings(), &mut Scripted::new(&[(1, 2, "")]));
    assert_eq!(counts(&truth), (0, 1, 0, 0), "it was never there");
}

#[test]
fn a_result_after_the_last_call_could_not_be_shown() {
    let session = prepared(vec![user("go"), call(), result("x"), call(), result("y")]);
    let (_, truth) = account::run(&session, &mut Scripted::new(&[(1, 2, "")]));
    assert_eq!(counts(&truth), (0, 1, 0, 0));
}

#[test]
fn what_was_cut_and_announced_is_counted_apart() {
    let cut = format!(
        "{}\n[lines 4-9 are left out here; Recall o1 from=4 lines=6]\n{}",
        file(1..4),
        file(10..11)
    );
    let (_, truth) = account::run(&two_readings(), &mut Scripted::new(&[(0, 2, &cut)]));
    assert_eq!(counts(&truth), (0, 0, 1, 0));
    assert!(truth.is_true());
    assert_eq!(truth.cut.first.map(|place| place.call), Some(2));
    let (_, truth) = account::run(&two_readings(), &mut Scripted::new(&[(2, 2, &cut)]));
    assert_eq!(counts(&truth), (0, 0, 0, 0), "it was whole before");
}

#[test]
fn a_message_of_the_user_that_a_later_request_lacks_is_lost() {
    let session = || {
        let summary = Message::summary("So far: nothing.");
        let instructions = Message::new(Role::System, "Be brief.", Vec::new());
        let (one, two) = (user("Fix the parser.\nThen stop."), user("  \n"));
        prepared(vec![instructions, one, two, call(), result("x"), summary, call(), said("ok")])
    };
    let lost = |words: &[(usize, usize, &str)], inserted: Option<&str>| {
        let inserted = inserted.map(str::to_owned);
        let mut policy = Scripted { inserted, ..Scripted::new(words) };
        account::run(&session(), &mut policy).1.lost_messages
    };
    // The policies of others leave the recorded summary out, and so may this one.
    let without = [(0, 5, "")];
    assert_eq!(lost(&without, None), Tally::default());
    let gone = [(0, 5, ""), (0, 0, ""), (0, 2, ""), (1, 1, "")];
    let expected = Tally { count: 1, first: found(2, "Fix the parser.\\nThen stop.") };
    assert_eq!(lost(&gone, None), expected);
    assert_eq!(lost(&gone, Some("The user said:\nFix the parser.\nThen stop.\n")).count, 0);
    assert_eq!(lost(&gone, Some("The user said:\nFix the parser. Then stop.\n")).count, 1);
    let shortened = [(0, 5, ""), (1, 1, "Fix the parser.")];
    assert_eq!(lost(&shortened, None).count, 1, "half of it is not all of it");
}

#[test]
fn a_long_message_may_be_kept_by_its_path() {
    let long = format!("Fix {} in it.", "all_of_the_modules ".repeat(20));
    let head: String = long.chars().take(100).collect();
    let session = || prepared(vec![user(&long), call(), result("x"), call()]);
    let lost = |kept: &str| {
        let inserted = Some(kept.to_owned());
        let mut policy = Scripted { inserted, ..Scripted::new(&[(1, 0, "")]) };
        account::run(&session(), &mut policy).1.lost_messages.count
    };
    assert_eq!(lost(&format!("- {head} ... Recall u1")), 0);
    assert_eq!(lost(&format!("- {head}\n  (all of it: Recall u12)")), 0);
    assert_eq!(lost(&format!("- {head}")), 1, "the way to the rest is missing");
    assert_eq!(lost(&format!("Recall u1: {head}")), 1, "that is before it");
    assert_eq!(lost(&format!("{head} Recall us")), 1);
    assert_eq!(lost(&format!("{} Recall u1", &head[..90])), 1, "less than its beginning");
    assert_eq!(lost(&format!("{head}{} Recall u1", "\n".repeat(20))), 1, "too far away");
}

#[test]
fn counts_add_up_and_the_first_place_stays_the_first() {
    let tally = |count, call| Tally { count, first: found(call, "x") };
    let mut all = Truth { lost_messages: tally(2, 7), ..Truth::default() };
    let later = Truth { lost_messages: tally(1, 3), cut: tally(4, 1), ..Truth::default() };
    all.join(later);
    assert_eq!(counts(&all), (0, 0, 4, 3));
    assert_eq!((all.lost_messages.first, all.cut.first), (found(7, "x"), found(1, "x")));
}
