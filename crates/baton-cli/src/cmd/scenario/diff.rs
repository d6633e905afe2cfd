//! `baton scenario diff`: which samples changed between two iterations.

use std::fmt::Write as _;

use baton_core::scenario::compare::{self, Change, Comparison, Outcome, Single};
use baton_core::scenario::result::Status;
use baton_core::text;
use baton_runtime::beneath::Root;
use baton_runtime::evaluate::{self, Outcomes};
use serde_json::json;

use super::{SHOWN, Where, failure};
use crate::args::{ScenarioArgs, ScenarioDiffArgs};
use crate::cmd::{Outcome as Answer, Place};
use crate::reply::{Failure, Reply, USAGE, counted, table};

pub(in crate::cmd) fn run(place: &Place, args: &ScenarioDiffArgs) -> Answer {
    let own = ScenarioArgs { scenario: Some(args.scenario.clone()), root: args.root.clone() };
    let found = Where::find(place, &own)?;
    let root = found.opened()?;
    compared(&root, &found.scenario, args.before, args.after)
}

/// The same of a scenario that was found.
pub(super) fn compared(root: &Root, scenario: &str, before: u32, after: u32) -> Answer {
    let all = evaluate::iterations(root, scenario).map_err(failure)?;
    let outcomes = |number: u32| -> Result<Outcomes, Failure> {
        let Some(own) = all.iter().find(|own| own.number == number) else {
            return Err(Failure::new(USAGE, format!("there is no iteration {number}"))
                .hint("`baton scenario status` lists them"));
        };
        own.outcomes(root).map_err(failure)
    };
    let (old, new) = (outcomes(before)?, outcomes(after)?);
    let unfinished: Vec<u32> = (all.iter())
        .filter(|own| [before, after].contains(&own.number) && !own.is_over)
        .map(|own| own.number)
        .collect();
    let found = compare::compared(&old.samples, &new.samples);
    let mut text = told(before, after, (old.samples.len(), new.samples.len()), &found);
    for number in &unfinished {
        let _ =
            writeln!(text, "iteration {number} is not over: what it has not finished is missing");
    }
    for (number, own) in [(before, &old), (after, &new)] {
        for name in own.damaged.iter().take(SHOWN) {
            let name = text::shown(name, 200);
            let _ = writeln!(text, "iteration {number}: {name} cannot be read and was left out");
        }
    }
    let json = json!({
        "ok": true,
        "scenario": scenario,
        "before": before,
        "after": after,
        "unfinished": unfinished,
        "damaged": { "before": old.damaged, "after": new.damaged },
        "changes": found,
    });
    Ok(Reply::new(text, json))
}

fn told(before: u32, after: u32, samples: (usize, usize), found: &Comparison) -> String {
    let mut out = format!(
        "iteration {before} ({}) and {after} ({}): {} fixed, {} broken",
        counted(samples.0, "sample"),
        counted(samples.1, "sample"),
        found.fixed.len(),
        found.broken.len()
    );
    for (count, what) in [
        (found.otherwise.len(), "fail otherwise"),
        (found.errors.len(), "with errors"),
        (found.new.len(), "new"),
        (found.gone.len(), "gone"),
    ] {
        if count > 0 {
            let _ = write!(out, ", {count} {what}");
        }
    }
    let _ = writeln!(
        out,
        "; unchanged: {} passed, {} failed, {} not evaluated",
        found.unchanged_passed, found.unchanged_failed, found.unchanged_errors
    );
    for (title, list) in [
        ("broken", &found.broken),
        ("fixed", &found.fixed),
        ("still failing, with other checkers", &found.otherwise),
        ("errors", &found.errors),
    ] {
        changes(&mut out, title, list);
    }
    singles(&mut out, &format!("only in {after}"), &found.new);
    singles(&mut out, &format!("only in {before}"), &found.gone);
    out
}

fn changes(out: &mut String, title: &str, list: &[Change]) {
    let row = |own: &Change| {
        vec![
            format!("  {}", text::shown(&own.sample_id, 60)),
            said(&own.before),
            "→".to_owned(),
            said(&own.after),
        ]
    };
    listed(out, title, list, row);
}

fn singles(out: &mut String, title: &str, list: &[Single]) {
    listed(out, title, list, |own| {
        vec![format!("  {}", text::shown(&own.sample_id, 60)), said(&own.outcome)]
    });
}

fn listed<T>(out: &mut String, title: &str, list: &[T], row: impl Fn(&T) -> Vec<String>) {
    if list.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    let rows: Vec<Vec<String>> = list.iter().take(SHOWN).map(row).collect();
    out.push_str(&table(&rows));
    if list.len() > SHOWN {
        let _ = writeln!(out, "  and {} more (--json has all)", list.len() - SHOWN);
    }
}

fn said(own: &Outcome) -> String {
    match own.status {
        Status::Passed => "passed".to_owned(),
        Status::Failed => text::shown(&own.checkers_failed.join(", "), 100),
        Status::Error => {
            format!("not evaluated ({})", text::shown(own.code.as_deref().unwrap_or("?"), 40))
        }
    }
}
