//! A journal of each format that there ever was: this program must read them all, and come to the state
//! that was stored beside them. The last folder by name is of the present format: when this test says
//! that the format changed, `crash store <folder>` writes a new one, and the old ones stay.

use std::fs;
use std::path::{Path, PathBuf};

use baton_core::decision::{self, Moment};
use baton_core::event::{Event, Record};
use baton_core::id::AgentName;
use baton_core::workflow::{Rules, State};
use baton_runtime::journal;
use serde_json::Value;

use crate::reference::{self, FINISHED, WAITING, journal_of};
use crate::sweep::{child, fresh};

fn journals() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash/journals")
}

/// What folding a journal gives, by the rules of the reference run.
fn folded(journal: &Path, from_first: bool) -> State {
    let folder = fresh();
    let board = reference::open(folder.path());
    let rules = Rules { pack: &board.pack, config: &board.config };
    let (mut state, records): (Option<State>, Vec<Record>) = match from_first {
        true => (None, journal::records(journal).unwrap()),
        false => {
            let looked = journal::look(journal).unwrap();
            (looked.state, looked.records)
        }
    };
    if let Some(state) = &mut state {
        state.read_decisions(&rules);
    }
    for record in &records {
        match (&mut state, &record.event) {
            (Some(state), _) => drop(state.apply(record, &rules).unwrap()),
            (None, Event::RunStarted(start)) => state = Some(State::new(start, record.seq)),
            (None, event) => panic!("the journal begins with {event:?}"),
        }
    }
    state.unwrap()
}

/// A run that waits and one that is finished.
pub(crate) fn store(to: &Path) {
    for (name, fault, code) in [("waiting", "wait", WAITING), ("finished", "none", FINISHED)] {
        let folder = fresh();
        assert_eq!(child(folder.path(), fault, 0).status.code(), Some(code));
        let (journal, to) = (journal_of(folder.path()), to.join(name));
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(&journal).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
        let state = serde_json::to_string_pretty(&folded(&journal, true)).unwrap();
        fs::write(to.join("state.json"), format!("{state}\n")).unwrap();
    }
}

/// Every line, as it stands in the file.
fn lines(journal: &Path) -> Vec<Value> {
    let segments =
        (1..).map_while(|number| fs::read_to_string(journal.join(format!("{number:06}.log"))).ok());
    let texts: Vec<String> = segments.collect();
    let all = texts.iter().flat_map(|text| text.lines());
    all.map(|line| serde_json::from_str(&line[18..]).unwrap()).collect()
}

/// True if a decision is what MAIN's answer says, which version 1 kept instead.
fn is_same_decision(answer: &Value, decision: Option<&Value>) -> bool {
    let agents = ["TEST", "DEV", "REVIEW"].map(|name| AgentName::new(name).unwrap());
    let read = |moment| decision::read(answer.as_str().unwrap(), &agents, moment).ok();
    let read = read(Moment::Ordinary).or_else(|| read(Moment::FinishCheck)).unwrap();
    decision == Some(&serde_json::to_value(read).unwrap())
}

/// Whether everything that was stored is still there. What later programs know more of is not in it.
fn holds(stored: &Value, found: &Value) -> bool {
    match (stored, found) {
        // A key that held nothing may be gone.
        (Value::Object(stored), Value::Object(found)) => stored.iter().all(|(name, value)| {
            let is_there = found.get(name).map_or(value.is_null(), |found| holds(value, found));
            is_there || name == "answer" && is_same_decision(value, found.get("decision"))
        }),
        _ => stored == found,
    }
}

pub(crate) fn stored_journals_are_read() {
    let entries = fs::read_dir(journals()).unwrap();
    let mut formats: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    formats.sort();
    let present = formats.last().unwrap();
    for (format, name) in formats.iter().flat_map(|own| [(own, "waiting"), (own, "finished")]) {
        let journal = format.join(name);
        let stored = fs::read_to_string(journal.join("state.json")).unwrap();
        let stored: Value = serde_json::from_str(&stored).unwrap();
        for from_first in [true, false] {
            let state = serde_json::to_value(folded(&journal, from_first)).unwrap();
            let what = format!("{}, from its first record: {from_first}", journal.display());
            match format == present {
                true => assert_eq!(state, stored, "{what}"),
                false => assert!(holds(&stored, &state), "{what}: {state}, not {stored}"),
            }
        }
        if format == present {
            // Written again, each record is what it was: a field that is dropped or renamed is a
            // new format.
            let records = journal::records(&journal).unwrap();
            let written: Vec<Value> =
                records.iter().map(|record| serde_json::to_value(record).unwrap()).collect();
            let is_record = |line: &Value| line.get("checkpoint").is_none();
            let stood: Vec<Value> = lines(&journal).into_iter().filter(is_record).collect();
            assert_eq!(written, stood, "{}", journal.display());
        }
    }
}
