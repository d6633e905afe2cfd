//! Killed between an act and its record: what nobody knows the result of is never silently done again.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use baton_core::event::Event;
use baton_runtime::journal;

use crate::reference::{FINISHED, journal_of};
use crate::sweep::{among, check_same, child, each, fresh, undisturbed};

const POINTS: [&str; 3] = ["before", "middle", "after"];

fn writes(stage: &str) -> bool {
    stage.starts_with("DEV") || stage.starts_with("TEST")
}

/// A stage without a result is lost: its files go back, and the next attempt begins.
pub(crate) fn an_agent_killed_in_its_act_is_lost_and_said() {
    let mut stages: Vec<String> = Vec::new();
    for record in &undisturbed().records {
        if let Event::StageStarted(started) = &record.event
            && !stages.contains(&started.stage.to_string())
        {
            stages.push(started.stage.to_string());
        }
    }
    let mut cases: Vec<(String, &str)> = Vec::new();
    for stage in stages {
        // Who may only look writes nothing, and has no middle.
        let points = POINTS.into_iter().filter(|point| writes(&stage) || *point != "middle");
        cases.extend(points.map(|point| (stage.clone(), point)));
    }
    let cases = among(cases, 2);
    each(&cases, |(stage, point)| {
        let what = format!("killed {point} the act of {stage}");
        let folder = fresh();
        fs::write(folder.path().join("plan"), format!("kill {stage} {point}")).unwrap();
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.signal(), Some(9), "{what}: {output:?}");
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
        check_same(folder.path(), undisturbed(), &what);
        let records = journal::records(&journal_of(folder.path())).unwrap();
        let lost: Vec<_> = records
            .iter()
            .filter_map(|record| match &record.event {
                Event::StageLost { stage, attempt, restored, .. } => {
                    Some((stage.to_string(), attempt.0, *restored))
                }
                _ => None,
            })
            .collect();
        // The project goes back only after a stage that may write.
        assert_eq!(lost, [(stage.clone(), 1, writes(stage))], "{what}");
        // The next attempt finds what the lost one found.
        let found = fs::read_to_string(folder.path().join("found")).unwrap();
        let of = |attempt: u32| {
            let start = format!("{stage} attempt {attempt} ");
            found.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
        };
        assert!(of(1).is_some() && of(1) == of(2), "{what}: {found}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let has_changed = *point == "middle" || *point == "after" && stage.starts_with("DEV");
        assert!(!has_changed || said.contains(&format!("{stage} was interrupted")), "{said}");
    });
    println!("{} stages lost", cases.len());
}

/// A gate is a check and may run again; the journal and the person are told.
pub(crate) fn a_gate_killed_in_its_act_runs_again_and_is_said() {
    let cases: Vec<_> = [("TEST", 0), ("TEST", 1), ("FINISH", 0)]
        .into_iter()
        .flat_map(|(gate, number)| POINTS.map(|point| (gate, number, point)))
        .collect();
    each(&cases, |(gate, number, point)| {
        let what = format!("killed {point} the act of gate {gate} {number}");
        let folder = fresh();
        fs::write(folder.path().join("plan"), format!("gate {gate} {number} {point}\n")).unwrap();
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.signal(), Some(9), "{what}: {output:?}");
        let output = child(folder.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
        check_same(folder.path(), undisturbed(), &what);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = format!(
            "said: the gate `exec sh ../gate.sh {gate}` was interrupted and its result is unknown: it is run again"
        );
        assert_eq!(said.matches(&told).count(), 1, "{what}: {said}");
        let started = |records: &[baton_core::event::Record]| {
            let is_gate = |event: &Event| matches!(event, Event::GateStarted { .. });
            records.iter().filter(|record| is_gate(&record.event)).count()
        };
        let records = journal::records(&journal_of(folder.path())).unwrap();
        assert_eq!(started(&records), started(&undisturbed().records) + 1, "{what}");
        // What it did before it was killed is there, and is not counted as a result.
        let lines = fs::read_to_string(folder.path().join("gates")).unwrap();
        let began = lines.lines().filter(|line| line.ends_with("began")).count();
        assert_eq!(began, 3 + usize::from(*point != "before"), "{what}: {lines}");
    });
    println!("{} gates interrupted", cases.len());
}
