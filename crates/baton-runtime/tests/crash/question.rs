//! An open question: it outlives every crash, is answered once and by a person, with an option that it
//! has; nothing is ever taken for a yes.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use baton_core::event::{Event, Record};
use baton_core::id::Timestamp;
use baton_core::workflow::{Phase, Rules, State};
use baton_runtime::drive::{self, Error};
use baton_runtime::journal::{self, Journal};
use baton_runtime::store::Disk;

use crate::reference::{self, FAILED, FINISHED, WAITING, Way, journal_of};
use crate::sweep::{among, check_same, child, each, fresh, is_part, undisturbed};

/// The numbers of the questions and of the questions that were answered.
fn asked_and_answered(folder: &Path) -> (Vec<u64>, Vec<u64>) {
    let records = journal::records(&journal_of(folder)).unwrap();
    let asked = records.iter().filter(|record| matches!(record.event, Event::Asked { .. }));
    let answered = records.iter().filter_map(|record| match record.event {
        Event::Answered { asked_seq, .. } => Some(asked_seq),
        _ => None,
    });
    (asked.map(|record| record.seq).collect(), answered.collect())
}

/// The points around the question: from the stage that asks to the one behind the answer.
fn points_around() -> Vec<u64> {
    let folder = fresh();
    let output = child(folder.path(), "tell", 0);
    let said = String::from_utf8(output.stdout).unwrap();
    let events: Vec<(&str, u64)> = said
        .lines()
        .filter_map(|line| line.strip_prefix("event ")?.split_once(' '))
        .map(|(name, points)| (name, points.parse().unwrap()))
        .collect();
    let asked = events.iter().position(|(name, _)| *name == "asked").unwrap();
    let answered = events.iter().position(|(name, _)| *name == "answered").unwrap();
    assert!(asked < answered, "{said}");
    (events[asked - 3].1..events[answered + 3].1).collect()
}

pub(crate) fn a_question_outlives_a_crash() {
    let points = among(points_around(), 2);
    assert!(points.len() >= 30 || is_part(), "{points:?}");
    each(&points, |point| {
        let what = format!("killed at {point}");
        let folder = fresh();
        let output = child(folder.path(), "kill", *point);
        assert_eq!(output.status.signal(), Some(9), "{what}: {output:?}");
        let (_, answered) = asked_and_answered(folder.path());
        // Twice, with nobody there who would answer.
        for _ in 0..2 {
            let code = child(folder.path(), "wait", 0).status.code();
            let (asked, now) = asked_and_answered(folder.path());
            assert_eq!((asked.len(), &now), (1, &answered), "{what}");
            let is_open = folder.path().join("project/.baton/state/question.json").exists();
            match answered.is_empty() {
                true => assert!(code == Some(WAITING) && is_open, "{what}: {code:?}"),
                false => assert!(code == Some(FINISHED) && !is_open, "{what}: {code:?}"),
            }
        }
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
        check_same(folder.path(), undisturbed(), &what);
        let (asked, answered) = asked_and_answered(folder.path());
        assert_eq!(asked, answered, "{what}");
    });
    println!("killed at {} points around the question", points.len());
}

/// The state of a run that waits.
fn waiting(folder: &Path) -> (State, u64) {
    let state = drive::look(&reference::open(folder), "run-0001").unwrap();
    let Phase::Waiting { asked_seq, .. } = state.phase else { panic!("{:?}", state.phase) };
    (state, asked_seq)
}

pub(crate) fn a_question_takes_one_answer_of_its_own() {
    let folder = fresh();
    assert_eq!(child(folder.path(), "wait", 0).status.code(), Some(WAITING));
    let way = Way::of(Disk::default());
    let (state, asked_seq) = waiting(folder.path());
    // What is no option of it is refused, and nothing is written.
    reference::with(folder.path(), &way, |drive| {
        let before = fs::read_dir(journal_of(folder.path())).unwrap().count();
        for option in ["", "yes", "y", "Keep", "keep ", "1", "recommended", "保留", "\u{0}"] {
            let error = drive.answer(option, "yes").unwrap_err();
            assert!(matches!(error, Error::NoOption { .. }), "{option:?}: {error}");
            assert!(
                error.to_string().contains("keep, drop") || error.to_string().contains("`keep`"),
                "{error}"
            );
        }
        assert_eq!(fs::read_dir(journal_of(folder.path())).unwrap().count(), before);
        Ok(())
    })
    .unwrap();
    assert_eq!(asked_and_answered(folder.path()).1, [] as [u64; 0]);
    // An answer to another question does not fit, and changes nothing.
    let board = reference::open(folder.path());
    let rules = Rules { pack: &board.pack, config: &board.config };
    let answer = |asked_seq, option: &str| Event::Answered {
        asked_seq,
        option_id: option.to_owned(),
        comment: String::new(),
        entry: None,
    };
    let last_seq = state.last_seq;
    let record = |event| Record { seq: last_seq + 1, time: Timestamp(1), event };
    for (seq, option) in
        [(0, "keep"), (asked_seq - 1, "keep"), (asked_seq + 1, "keep"), (asked_seq, "yes")]
    {
        let mut now = state.clone();
        now.apply(&record(answer(seq, option)), &rules).unwrap_err();
        assert_eq!(now, state, "{seq} {option}");
    }
    // Once, and not again.
    reference::with(folder.path(), &way, |drive| {
        drive.answer("keep", "as it is")?;
        assert!(matches!(drive.answer("keep", "again"), Err(Error::NoQuestion)));
        assert!(matches!(drive.answer("drop", "no"), Err(Error::NoQuestion)));
        Ok(())
    })
    .unwrap();
    assert_eq!(asked_and_answered(folder.path()).1, [asked_seq]);
    assert_eq!(child(folder.path(), "none", 0).status.code(), Some(FINISHED));
    check_same(folder.path(), undisturbed(), "answered once");
}

/// A journal in which an answer belongs to another question is refused, and not taken for one.
pub(crate) fn an_answer_to_an_older_question_is_refused() {
    for (back, option) in [(1, "keep"), (2, "keep"), (0, "yes"), (0, "")] {
        let folder = fresh();
        assert_eq!(child(folder.path(), "wait", 0).status.code(), Some(WAITING));
        let (_, asked_seq) = waiting(folder.path());
        let mut opened = Journal::open(&journal_of(folder.path()), Disk::default()).unwrap();
        let event = Event::Answered {
            asked_seq: asked_seq - back,
            option_id: option.to_owned(),
            comment: String::new(),
            entry: None,
        };
        let seq = opened.journal.append(Timestamp(1), event).unwrap().seq;
        drop(opened);
        let output = child(folder.path(), "none", 0);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(FAILED), "{said}");
        assert!(said.contains(&format!("record {seq} does not fit")), "{said}");
    }
}
