//! `baton lab`: recorded sessions, replayed under several policies. `plot` draws what came out.

mod plot;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

use baton_core::lab::account::{Place as Found, Tally, Truth};
use baton_core::lab::import;
use baton_core::lab::policy::Name;
use baton_core::lab::replay::{Figures, Sums};
use baton_core::problem::Problem;
use baton_core::text;
use baton_runtime::lab::{self, Ask, Damage, Error, Measured};
use baton_runtime::store;
use serde_json::{Value, json};

use super::{Outcome, Place};
use crate::args::LabArgs;
use crate::reply::{Failure, PROTOCOL, Reply, USAGE, counted, table};

/// A policy and what it came to.
struct Row {
    name: Name,
    sums: Sums,
    figures: Figures,
    truth: Truth,
}

/// Something that is counted of a policy's requests.
struct Counted<'a> {
    /// In the table.
    words: &'static str,
    /// In the JSON.
    key: &'static str,
    one: &'static str,
    tally: &'a Tally,
}

impl Row {
    fn counted(&self) -> [Counted<'_>; 4] {
        let Truth { false_references, never_shown, cut, lost_messages } = &self.truth;
        [
            ("false references", "false_references", "false reference", false_references),
            ("never shown", "never_shown", "result never shown", never_shown),
            ("cut, announced", "cut_announced", "result cut and announced", cut),
            ("lost user messages", "lost_user_messages", "lost user message", lost_messages),
        ]
        .map(|(words, key, one, tally)| Counted { words, key, one, tally })
    }
}

pub(super) fn run(place: &Place, args: &LabArgs) -> Outcome {
    let picture = args.plot.as_deref().map(|file| plot::Kind::of(file).map(|kind| (file, kind)));
    let picture = picture.transpose()?;
    let ask = Ask {
        policies: policies(&args.policy)?,
        segments: args.segments,
        compacted: args.compacted,
        min_calls: args.min_calls,
    };
    if args.check && !ask.policies.contains(&Name::Baton) {
        return Err(Failure::new(USAGE, "`--check` is about the policy `baton`")
            .hint("add it to `--policy`"));
    }
    let mut progress = Progress::new(place.json);
    let measured = lab::measure(&args.paths, &ask, |measured| progress.tell(measured));
    progress.clear();
    let measured = measured.map_err(failure)?;
    let sessions = measured.sums.first().map_or(0, |sums| sums.sessions);
    if sessions == 0 {
        return Err(nothing(&measured, args));
    }
    let rows = rows(&ask.policies, &measured);
    let tables = [drawn(&rows), counted_truth(&rows), first_places(&rows)].concat();
    let mut out = format!("{}\n{tables}\n{}", scope(&measured, args), answer(&rows));
    if let Some((file, kind)) = picture {
        draw(file, kind, &rows)?;
        out.push_str(&format!("\nDrawn into {}.\n", file.display()));
    }
    let warnings: Vec<Problem> = measured.damaged.iter().map(warning).collect();
    let reply = Reply::new(out, as_json(&rows, &measured)).with_warnings(&warnings);
    Ok(if args.check { checked(reply, &rows) } else { reply })
}

fn rows(policies: &[Name], measured: &Measured) -> Vec<Row> {
    let base = measured.sums[0];
    let all = policies.iter().zip(measured.sums.iter().zip(&measured.truths));
    let row = |(name, (sums, truth)): (&Name, (&Sums, &Truth))| Row {
        name: *name,
        sums: *sums,
        figures: sums.figures(&base),
        truth: truth.clone(),
    };
    all.map(row).collect()
}

/// Says what is false of Baton's own requests, and fails if anything is.
fn checked(mut reply: Reply, rows: &[Row]) -> Reply {
    let Some(own) = rows.iter().find(|row| row.name == Name::Baton && !row.truth.is_true()) else {
        return reply;
    };
    let [untrue, never, _, lost] = own.counted();
    let found = [untrue, never, lost].into_iter().filter(|own| own.tally.count > 0);
    let found: Vec<String> =
        found.map(|own| format!("{}: {}", own.words, own.tally.count)).collect();
    let message = format!("Baton's own requests are not true ({})", found.join(", "));
    reply.errors.push_str(&format!("error: {message}\n"));
    reply.code = PROTOCOL;
    if let Value::Object(json) = &mut reply.json {
        json.insert("ok".to_owned(), Value::Bool(false));
        json.insert("error".to_owned(), Value::String(message));
    }
    reply
}

/// The policies to compare. What the others are compared with comes first, named or not.
fn policies(names: &[String]) -> Result<Vec<Name>, Failure> {
    let mut policies = vec![Name::Full];
    for name in names {
        let name = Name::read(name.trim())
            .map_err(|problem| Failure::problems(USAGE, "--policy", vec![problem], None))?;
        if !policies.contains(&name) {
            policies.push(name);
        }
    }
    Ok(policies)
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Load(error) => error.into(),
        Error::NotASession { path, problem } => {
            Failure::problems(PROTOCOL, &path.display().to_string(), vec![problem], None).hint(
                "a file that was named must be a recording; in a folder others are passed over",
            )
        }
    }
}

fn nothing(measured: &Measured, args: &LabArgs) -> Failure {
    let left = counted(measured.left_out, "session");
    let mut failure = match (measured.left_out, args.compacted) {
        (0, _) => Failure::new(USAGE, "no recorded session was found")
            .hint(format!("a session is {}", import::FORMATS)),
        (_, true) => Failure::new(USAGE, format!("nothing is left of {left}"))
            .hint("without `--compacted` and `--min-calls` every session is measured"),
        (_, false) => {
            let message = format!("{left} found, none with {} answers or more", args.min_calls);
            Failure::new(USAGE, message).hint("`--min-calls` asks for fewer")
        }
    };
    failure.problems = measured.damaged.iter().map(warning).collect();
    failure
}

/// What could not be read of a file, said once.
fn warning(damage: &Damage) -> Problem {
    let message = format!(
        "lines that were passed over: {}; the first: {}",
        damage.lines, damage.first.message
    );
    Problem::warning("session-damaged", message)
        .in_file(damage.file.display().to_string())
        .at(damage.first.place.unwrap_or(baton_core::problem::Place::START))
}

/// What was measured, in a line.
fn scope(measured: &Measured, args: &LabArgs) -> String {
    let base = &measured.sums[0];
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let what = if args.segments { "stretch" } else { "session" };
    let sessions = match (args.segments, base.sessions) {
        (true, 1) | (false, _) => counted(number(base.sessions), what),
        (true, many) => format!("{many} stretches"),
    };
    let mut line = format!(
        "{sessions} from {}: {}, {} needed by the agent's actions.",
        counted(measured.files, "file"),
        counted(number(base.calls), "call"),
        counted(number(base.facts.needed), "fact"),
    );
    if measured.left_out > 0 {
        line.push_str(&format!(" Left out: {}.", measured.left_out));
    }
    if measured.passed_over > 0 {
        line.push_str(&format!(" Files that are no sessions: {}.", measured.passed_over));
    }
    line.push('\n');
    line
}

fn drawn(rows: &[Row]) -> String {
    let head = [
        "policy",
        "recall",
        "first use",
        "old",
        "steps ok",
        "tokens/call",
        "peak",
        "cached",
        "cost",
        "with fetching",
    ];
    let has_cross = rows.iter().any(|row| row.sums.cross.needed > 0);
    let mut lines = vec![head.iter().map(ToString::to_string).collect::<Vec<_>>()];
    if has_cross {
        lines[0].push("across compaction".to_owned());
    }
    for row in rows {
        let own = &row.figures;
        let mut cells = vec![row.name.to_string()];
        cells.extend([own.nfr, own.nfr_first, own.nfr_old, own.steps_ok].map(share));
        cells.extend([own.tokens_per_call, own.peak].map(whole));
        cells.push(own.hit_rate.map_or_else(none, |rate| format!("{:.1} %", rate * 100.0)));
        cells.extend(
            [own.relative_cost, own.adj]
                .map(|cost| cost.map_or_else(none, |cost| format!("{cost:.2}"))),
        );
        if has_cross {
            cells.push(share(own.cross));
        }
        lines.push(cells);
    }
    table(&lines)
}

/// A second table: how true the requests of each policy were.
fn counted_truth(rows: &[Row]) -> String {
    let line = |name: String, cells: [String; 4]| [name].into_iter().chain(cells).collect();
    let head = rows.iter().take(1);
    let head = head.map(|row| line("policy".to_owned(), row.counted().map(|own| own.words.into())));
    let counts = rows.iter().map(|row| {
        line(row.name.to_string(), row.counted().map(|own| own.tally.count.to_string()))
    });
    let lines: Vec<Vec<String>> = head.chain(counts).collect();
    format!("\n{}", table(&lines))
}

/// The first place of everything that was counted.
fn first_places(rows: &[Row]) -> String {
    let mut out = String::new();
    for row in rows {
        for own in row.counted() {
            if let Some(Found { session, call, quote }) = &own.tally.first {
                let (name, one, session) = (row.name, own.one, text::shown(session, 60));
                let place = format!("session {session}, call {call}: {quote}");
                out.push_str(&format!("{name}: first {one}: {place}\n"));
            }
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

fn none() -> String {
    "-".to_owned()
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(none, |value| format!("{value:.3}"))
}

fn whole(value: Option<f64>) -> String {
    value.map_or_else(none, |value| format!("{value:.0}"))
}

/// What a person wants to know: of Baton, or else of what costs least.
fn answer(rows: &[Row]) -> String {
    let cost = |row: &&Row| row.figures.adj.unwrap_or(f64::INFINITY);
    let others = || rows.iter().skip(1);
    let Some(row) = others()
        .find(|row| row.name == Name::Baton)
        .or_else(|| others().min_by(|one, other| cost(one).total_cmp(&cost(other))))
    else {
        return "Everything was shown, so nothing was forgotten; `--policy` names others to \
                compare with.\n"
            .to_owned();
    };
    let named = match row.name {
        Name::Baton => "Baton".to_owned(),
        name => format!("`{name}`"),
    };
    let compared = |cost: Option<f64>| match cost {
        Some(cost) if cost < 0.995 => {
            format!("{:.0} % less than sending everything", (1.0 - cost) * 100.0)
        }
        Some(cost) if cost < 1.005 => "the same as sending everything".to_owned(),
        Some(cost) => format!("{:.0} % more than sending everything", (cost - 1.0) * 100.0),
        None => "nothing, like everything here".to_owned(),
    };
    let facts = row.sums.facts;
    let forgotten = match (facts.needed, facts.needed - facts.seen) {
        (0, _) => "no action needed a fact from an earlier result, so nothing was forgotten that \
                   was needed"
            .to_owned(),
        (_, 0) => format!("it would have forgotten none of the {} needed facts", facts.needed),
        (needed, lost) => format!(
            "it would have forgotten {lost} of the {needed} needed facts ({:.1} %), in {} of {} \
             calls that needed any",
            lost as f64 * 100.0 / needed as f64,
            row.sums.steps.needed - row.sums.steps.seen,
            row.sums.steps.needed,
        ),
    };
    let cost = match facts.seen == facts.needed {
        true => String::new(),
        false => format!(
            " ({} with the calls that fetch again what was forgotten)",
            compared(row.figures.adj).replace(" than sending everything", "")
        ),
    };
    format!("{named} would have cost {}{cost}; {forgotten}.\n", compared(row.figures.relative_cost))
}

fn as_json(rows: &[Row], measured: &Measured) -> Value {
    let policies: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut own = json!({ "policy": row.name.to_string() });
            let mut more = json!({
                "needed": row.sums.facts.needed,
                "seen": row.sums.facts.seen,
                "peak_most": row.sums.peak_most,
            });
            for Counted { key, tally, .. } in row.counted() {
                more[key] = json!(tally.count);
                more["first_places"][key] = json!(tally.first);
            }
            let figures = serde_json::to_value(row.figures).unwrap_or_default();
            if let (Value::Object(own), Value::Object(figures), Value::Object(more)) =
                (&mut own, figures, more)
            {
                own.extend(figures);
                own.extend(more);
            }
            own
        })
        .collect();
    let damaged: Vec<Value> = measured
        .damaged
        .iter()
        .map(|damage| {
            let line = damage.first.place.map(|place| place.line);
            json!({ "file": damage.file, "lines": damage.lines, "first_line": line })
        })
        .collect();
    json!({
        "ok": true,
        "policies": policies,
        "sessions": measured.sums[0].sessions,
        "calls": measured.sums[0].calls,
        "files": measured.files,
        "passed_over": measured.passed_over,
        "left_out": measured.left_out,
        "damaged": damaged,
    })
}

fn draw(file: &Path, kind: plot::Kind, rows: &[Row]) -> Result<(), Failure> {
    let point = |row: &Row| {
        let (cost, recall) = (row.figures.adj?, row.figures.nfr?);
        Some(plot::Point { name: row.name.to_string(), cost, recall })
    };
    let points: Vec<plot::Point> = rows.iter().filter_map(point).collect();
    Ok(store::write(file, plot::drawn(kind, &points).as_bytes())?)
}

/// How far it is, on a terminal.
struct Progress {
    is_shown: bool,
    drawn: Option<Instant>,
}

impl Progress {
    fn new(json: bool) -> Progress {
        Progress { is_shown: std::io::stderr().is_terminal() && !json, drawn: None }
    }

    fn tell(&mut self, measured: &Measured) {
        let is_due = self.drawn.is_none_or(|drawn| drawn.elapsed().as_millis() > 100);
        if self.is_shown && is_due {
            let calls = measured.sums.first().map_or(0, |sums| sums.calls);
            let files = counted(measured.files, "file");
            let _ = write!(std::io::stderr(), "\r\u{1b}[2Kreplayed: {calls} calls, {files} …");
            self.drawn = Some(Instant::now());
        }
    }

    fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\u{1b}[2K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(name: Name, truth: Truth) -> (u8, String) {
        let sums = Sums::default();
        let row = Row { name, sums, figures: sums.figures(&sums), truth };
        let reply = checked(Reply::new("", json!({ "ok": true })), &[row]);
        assert_eq!(reply.json["ok"], Value::Bool(reply.code == 0));
        (reply.code, reply.errors)
    }

    #[test]
    fn a_check_fails_by_what_is_false_never_shown_or_lost() {
        let two = || Tally { count: 2, first: None };
        assert_eq!(code(Name::Baton, Truth::default()), (0, String::new()));
        assert_eq!(code(Name::Baton, Truth { cut: two(), ..Truth::default() }).0, 0);
        for (truth, words) in [
            (Truth { false_references: two(), ..Truth::default() }, "false references: 2"),
            (Truth { never_shown: two(), ..Truth::default() }, "never shown: 2"),
            (Truth { lost_messages: two(), ..Truth::default() }, "lost user messages: 2"),
        ] {
            assert_eq!(code(Name::Full, truth.clone()).0, 0, "another policy may do so");
            let error = format!("error: Baton's own requests are not true ({words})\n");
            assert_eq!(code(Name::Baton, truth), (3, error));
        }
    }
}
