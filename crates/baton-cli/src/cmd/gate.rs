//! `baton gate list|add|remove|run`, and what other commands say about gates.

use std::io::Write;
use std::time::Duration;

use baton_core::gate::Detected;
use baton_core::id::{AgentName, FINISH};
use baton_core::policy::{Agents, Allowed, Gate};
use baton_core::text;
use baton_runtime::board::Board;
use baton_runtime::lock::Lock;
use baton_runtime::sandbox::Interrupt;
use baton_runtime::view::Views;
use baton_runtime::{drive, gates, trust};
use serde_json::{Value, json};

use super::{Outcome, Place, scenario};
use crate::args::GateAddArgs;
use crate::reply::{Failure, HELD, INTERNAL, PROTOCOL, Reply, USAGE, WAITING, table};

/// Bytes of a gate's output that `gate run` prints.
const PRINTED: usize = 256 << 10;
/// Last lines that `gate add` shows of a failing gate.
const SHOWN: usize = 20;
/// A gate that fails sooner is tried with exceptions.
const TRIED_AGAIN: Duration = Duration::from_secs(60);
/// A command longer than this belongs into a script.
const LONGEST: usize = 4_000;

pub(super) fn list(place: &Place) -> Outcome {
    let board = place.board()?;
    let gates = &board.pack.policy.gates;
    let is_trusted = trust::is_trusted(&board, &place.environment)?;
    let detected = found(place, &board);
    let mut out = match gates.is_empty() {
        true => "no gate is set\n".to_owned(),
        false => table(&rows(gates)),
    };
    if !gates.is_empty() && !is_trusted {
        out.push_str("a run starts only after `baton trust`: you have not agreed to all commands that the blackboard's files name\n");
    }
    for line in proposals(&detected, gates) {
        out.push_str(&format!("{line}\n"));
    }
    let json = json!({ "ok": true, "gates": as_json(gates), "trusted": is_trusted, "proposals": detected.proposals, "notes": detected.notes });
    Ok(Reply::new(out, json))
}

pub(super) fn add(place: &Place, args: &GateAddArgs) -> Outcome {
    let board = place.board()?;
    let gate = wanted(&board, args)?;
    is_free(&board)?;
    let interrupt = Interrupt::default();
    scenario::watch_signals(&interrupt)?;
    let adding = Adding { place, is_run: !args.no_run, confined: !args.no_sandbox, interrupt };
    let added = adding.add(&board, gate)?;
    Ok(Reply::new(added.text, added.json))
}

/// The gate that was typed, checked against the pack.
fn wanted(board: &Board, args: &GateAddArgs) -> Result<Gate, Failure> {
    let run = args.command.trim().to_owned();
    if run.is_empty() || run.len() > LONGEST || run.contains('\0') {
        let message = format!("a gate is a command of 1 to {LONGEST} characters");
        return Err(Failure::new(USAGE, message).hint("`baton gate add \"cargo test\"`"));
    }
    let policy = &board.pack.policy;
    if args.on.is_empty() {
        return Ok(Gate {
            on: policy.usual_gate(),
            run,
            timeout: args.timeout,
            allow: args.allow.clone(),
        });
    }
    let is_judged = |agent: &AgentName| policy.report_rules.applies_to(agent.as_str());
    let mut known: Vec<AgentName> =
        board.pack.manifest.agent_names().into_iter().filter(is_judged).collect();
    known.extend(AgentName::new(FINISH));
    let mut on: Vec<AgentName> = Vec::new();
    for name in &args.on {
        let upper = name.trim().to_ascii_uppercase();
        match known.iter().find(|own| **own == *upper) {
            Some(own) if on.contains(own) => {}
            Some(own) => on.push(own.clone()),
            None => {
                let shown = text::shown(name, 40);
                let message = format!("`{shown}` is not an agent whose pass a gate could confirm");
                let near = baton_core::problem::nearest(&upper, &known)
                    .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                return Err(Failure::new(USAGE, message)
                    .hint(format!("use {}{near}", baton_core::problem::list(&known))));
            }
        }
    }
    Ok(Gate { on: Agents(on), run, timeout: args.timeout, allow: args.allow.clone() })
}

/// A run would take the change of its policy for the work of an agent.
fn is_free(board: &Board) -> Result<(), Failure> {
    match Lock::holder(&drive::lock_path(board)) {
        None => Ok(()),
        Some(by) => Err(Failure::new(HELD, format!("a run is using the blackboard: {by}"))
            .hint("`baton stop`, change the gates, then `baton resume --adopt`")),
    }
}

/// Settings for adding gates.
pub(super) struct Adding<'a> {
    pub(super) place: &'a Place,
    pub(super) is_run: bool,
    pub(super) confined: bool,
    pub(super) interrupt: Interrupt,
}

/// A gate that was added.
pub(super) struct Added {
    pub(super) text: String,
    pub(super) json: Value,
}

impl Adding<'_> {
    /// Runs a gate once, and adds it unless it cannot work as it is.
    pub(super) fn add(&self, board: &Board, gate: Gate) -> Result<Added, Failure> {
        let old = &board.pack.policy.gates;
        if let Some(number) = old.iter().position(|own| own.run == gate.run) {
            let message = format!("`{}` is a gate already", text::shown(&gate.run, 160));
            let hint = format!("to change it, `baton gate remove {}` first", number + 1);
            return Err(Failure::new(USAGE, message).hint(hint));
        }
        let ran = self.is_run.then(|| self.tried(board, &gate)).transpose()?;
        let environment = &self.place.environment;
        let was_trusted = trust::is_trusted(board, environment)?;
        let all: Vec<Gate> = old.iter().cloned().chain([gate.clone()]).collect();
        gates::set(board, &all)?;
        let now = Board::open(&board.root, environment)?;
        // What was typed is agreed to; other commands of the files are not.
        if was_trusted {
            trust::trust(&now, environment)?;
        }
        let mut out = ran.as_ref().map(result_text).unwrap_or_default();
        let (on, command) = (&gate.on, text::shown(&gate.run, 160));
        let exceptions = gate.exceptions();
        out.push_str(&format!(
            "added: `{command}` on {on} (up to {} s){exceptions}\n",
            gate.timeout
        ));
        if ran.as_ref().is_some_and(|ran| !ran.judged.passed) {
            out.push_str(&format!("it fails now: a pass of {on} does not count until it passes\n"));
        }
        if !was_trusted {
            out.push_str("the blackboard's files name other commands that you have not agreed to; `baton trust --list` shows them\n");
        }
        let json = json!({ "ok": true, "gate": gate, "result": ran.as_ref().map(result_json), "gates": as_json(&all), "trusted": was_trusted });
        Ok(Added { text: out, json })
    }

    /// The first run of a gate; a failure if it could never pass.
    fn tried(&self, board: &Board, gate: &Gate) -> Result<gates::Ran, Failure> {
        if !self.place.json {
            let _ = writeln!(std::io::stderr(), "running `{}` …", text::escaped(&gate.run));
        }
        let ran = run_one(self.place, board, gate, self.confined, &self.interrupt)?;
        if ran.judged.is_unusable {
            let lines = last_lines(&ran.whole);
            let message = format!(
                "`{}` cannot be a gate as it is: {}{lines}",
                text::shown(&gate.run, 160),
                ran.judged.reason,
            );
            return Err(Failure::new(USAGE, message)
                .hint("nothing was changed; fix the command, give it a longer `--timeout`, or add it unseen with `--no-run`"));
        }
        match self.needed(board, gate, &ran)? {
            Some(needed) => Err(needs(gate, needed)),
            None => Ok(ran),
        }
    }

    /// The exception without which a gate that failed cannot pass, found out by running it with each.
    /// Neither lets it send what the other lets it read.
    fn needed(
        &self,
        board: &Board,
        gate: &Gate,
        ran: &gates::Ran,
    ) -> Result<Option<Allowed>, Failure> {
        if ran.judged.passed || !self.confined || !gate.allow.is_empty() || ran.time > TRIED_AGAIN {
            return Ok(None);
        }
        for what in [Allowed::Network, Allowed::Home] {
            let with = Gate { allow: vec![what], ..gate.clone() };
            let ran = run_one(self.place, board, &with, true, &self.interrupt)?;
            if ran.judged.passed {
                return Ok(Some(what));
            }
        }
        Ok(None)
    }
}

fn needs(gate: &Gate, what: Allowed) -> Failure {
    let command = text::shown(&gate.run, 160);
    let why = match what {
        Allowed::Network => "the network",
        Allowed::Home | Allowed::Everything => "files of your home folder that agents do not see",
    };
    let message = format!("`{command}` fails when it is confined, and passes with {why}");
    Failure::new(USAGE, message).hint(format!(
        "nothing was changed; `baton gate add --allow {} \"{}\"` adds it with that exception",
        what.as_str(),
        gate.run,
    ))
}

fn run_one(
    place: &Place,
    board: &Board,
    gate: &Gate,
    confined: bool,
    interrupt: &Interrupt,
) -> Result<gates::Ran, Failure> {
    let project = drive::project_of(&board.root);
    // A mark of its own: the processes of a run are not these.
    let mark = format!("gate-{}", std::process::id());
    let views = Views::new(&project, &board.root, &drive::mark_of(&board.root), &place.environment);
    let view =
        views.open_new(&mark, None).map_err(|error| Failure::new(INTERNAL, error.to_string()))?;
    let around = gates::Place {
        project: &project,
        board: &board.root,
        environment: &place.environment,
        mark: &mark,
        confined,
        view: &view,
    };
    let ran = gates::run(gate, &around, interrupt);
    view.remove();
    match interrupt.is_at_once() {
        true => Err(Failure::new(WAITING, "interrupted; nothing was changed")),
        false => Ok(ran),
    }
}

pub(super) fn remove(place: &Place, which: &str) -> Outcome {
    let board = place.board()?;
    is_free(&board)?;
    let mut left = board.pack.policy.gates.clone();
    let gone = left.remove(number(&board, which)?);
    let was_trusted = trust::is_trusted(&board, &place.environment)?;
    gates::set(&board, &left)?;
    let now = Board::open(&board.root, &place.environment)?;
    if was_trusted {
        trust::trust(&now, &place.environment)?;
    }
    let mut out = format!("removed: `{}` on {}\n", text::shown(&gone.run, 160), gone.on);
    if left.is_empty() {
        out.push_str("no gate is set now: only the agents' own reports confirm a result\n");
    }
    Ok(Reply::new(out, json!({ "ok": true, "removed": gone, "gates": as_json(&left) })))
}

pub(super) fn run(place: &Place, which: Option<&str>, no_sandbox: bool) -> Outcome {
    let board = place.board()?;
    let gates = &board.pack.policy.gates;
    let chosen = match which {
        Some(which) => vec![number(&board, which)?],
        None => (0..gates.len()).collect(),
    };
    if gates.is_empty() {
        return Err(Failure::new(USAGE, "no gate is set").hint(
            match found(place, &board).main().next() {
                Some(proposal) => format!("`{}`", command(&proposal.command)),
                None => "`baton gate add \"COMMAND\"` adds one".to_owned(),
            },
        ));
    }
    trusted(place, &board)?;
    let interrupt = Interrupt::default();
    scenario::watch_signals(&interrupt)?;
    let (mut out, mut results, mut failed) = (String::new(), Vec::new(), 0);
    for index in chosen {
        let gate = &gates[index];
        if !place.json {
            let _ = writeln!(std::io::stderr(), "running `{}` …", text::escaped(&gate.run));
        }
        let ran = run_one(place, &board, gate, !no_sandbox, &interrupt)?;
        failed += usize::from(!ran.judged.passed);
        let from = ran.whole.ceil_char_boundary(ran.whole.len().saturating_sub(PRINTED));
        let whole = ran.whole[from..].trim_end();
        let end = if whole.is_empty() { "" } else { "\n" };
        let how = if ran.judged.passed { "passed" } else { "failed" };
        out.push_str(&format!(
            "{whole}{end}gate {} {how} in {}: `{}` ({})\n",
            index + 1,
            seconds(ran.time),
            text::shown(&gate.run, 160),
            ran.judged.reason,
        ));
        results.push(json!({ "number": index + 1, "run": gate.run, "result": result_json(&ran) }));
    }
    let mut reply = Reply::new(out, json!({ "ok": failed == 0, "gates": results }));
    reply.code = if failed == 0 { 0 } else { PROTOCOL };
    Ok(reply)
}

/// The place of a gate in the list, by its number from 1 or its command.
fn number(board: &Board, which: &str) -> Result<usize, Failure> {
    let gates = &board.pack.policy.gates;
    let by_number = which.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let by_number = by_number.filter(|index| *index < gates.len());
    let by_command = || gates.iter().position(|gate| gate.run == which.trim());
    by_number.or_else(by_command).ok_or_else(|| {
        let message = format!("there is no gate `{}`", text::shown(which, 160));
        Failure::new(USAGE, message).hint("`baton gate list` shows them with their numbers")
    })
}

/// Fails while the blackboard's files name commands that the user has not agreed to.
pub(super) fn trusted(place: &Place, board: &Board) -> Result<(), Failure> {
    if trust::is_trusted(board, &place.environment)? {
        return Ok(());
    }
    let commands = trust::commands(board)?;
    let list: Vec<String> = commands.iter().map(|command| format!("  {command}")).collect();
    let message = format!(
        "the blackboard's files name commands that you have not agreed to:\n{}",
        list.join("\n")
    );
    Err(Failure::new(USAGE, message).hint("`baton trust` agrees to exactly these"))
}

/// Commands that could be gates of a blackboard's project.
pub(super) fn found(place: &Place, board: &Board) -> Detected {
    gates::detect(&drive::project_of(&board.root), &place.environment)
}

/// The command line that adds a gate.
pub(super) fn command(run: &str) -> String {
    format!("baton gate add \"{run}\"")
}

/// Found commands that are not gates yet, one line each.
pub(super) fn proposals(found: &Detected, set: &[Gate]) -> Vec<String> {
    // `cargo test --offline` is a `cargo test`.
    let is_new = |run: &str| {
        let start: Vec<&str> = run.split(' ').take(3).collect();
        !set.iter().any(|gate| gate.run.contains(&start.join(" ")))
    };
    let new = found.proposals.iter().filter(|own| is_new(&own.command));
    // Whoever has gates has chosen already.
    let new = new.filter(|own| set.is_empty() || !own.is_alternative);
    let mut lines: Vec<String> = new
        .map(|own| {
            let also = if own.is_alternative { ", instead" } else { "" };
            format!("  {}    (found {}{also})", command(&own.command), own.because)
        })
        .collect();
    if set.is_empty() {
        lines.extend(found.notes.iter().map(|note| format!("  note: {note}")));
    }
    lines
}

/// Lines about the gates that a run prints when it starts.
pub(super) fn at_start(place: &Place, board: &Board) -> Vec<String> {
    let (policy, own) = (&board.pack.policy, board.pack.words());
    if !policy.gates.is_empty() {
        let shown = |gate: &Gate| own.gate_on(text::shown(&gate.run, 160), &gate.on);
        let all: Vec<String> = policy.gates.iter().map(shown).collect();
        return vec![own.gates_set(all.join(&own.joint()))];
    }
    // Its samples confirm the work.
    if policy.evaluation.is_some() {
        return Vec::new();
    }
    let found = found(place, board);
    let commands: Vec<String> =
        found.main().map(|found| format!("`{}`", command(&found.command))).collect();
    let how = match commands.is_empty() {
        true => own.gate_hint(),
        false => own.gates_found(own.list(&commands)),
    };
    let mut lines = vec![own.no_gate(how)];
    lines.extend(found.notes.iter().map(|note| own.note(note)));
    lines
}

fn rows(gates: &[Gate]) -> Vec<Vec<String>> {
    let row = |(index, gate): (usize, &Gate)| {
        vec![
            (index + 1).to_string(),
            text::shown(&gate.run, 160),
            format!("on {}", gate.on),
            format!("up to {} s{}", gate.timeout, gate.exceptions()),
        ]
    };
    gates.iter().enumerate().map(row).collect()
}

fn as_json(gates: &[Gate]) -> Vec<Value> {
    let one = |(index, gate): (usize, &Gate)| json!({ "number": index + 1, "on": gate.on.0, "run": gate.run, "timeout": gate.timeout, "allow": gate.allow });
    gates.iter().enumerate().map(one).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn last_lines(whole: &str) -> String {
    let lines: Vec<&str> = whole.trim_end().lines().collect();
    let from = lines.len().saturating_sub(SHOWN);
    lines[from..].iter().map(|line| format!("\n  | {}", text::shown(line, 200))).collect()
}

fn result_text(ran: &gates::Ran) -> String {
    let time = seconds(ran.time);
    match ran.judged.passed {
        true => format!("passed in {time}\n"),
        false => format!("failed in {time}: {}{}\n", ran.judged.reason, last_lines(&ran.whole)),
    }
}

fn result_json(ran: &gates::Ran) -> Value {
    json!({ "passed": ran.judged.passed, "reason": ran.judged.reason, "seconds": ran.time.as_secs_f64(), "output": ran.output })
}
