//! What people see of a run: a line for each event, and the figures with their alarms. Goes in:
//! events and the state they fold to. Comes out: text; nothing is decided here.

use crate::decision::{self, Moment, Next};
use crate::event::{Decided, Event, Record, ReportFacts, StageResult};
use crate::id::AgentName;
use crate::text;
use crate::workflow::{State, Totals};

/// Tells a run line by line.
#[derive(Debug, Default)]
pub struct Teller {
    agents: Vec<AgentName>,
    iteration: u32,
    /// What the last stage said: a decision does not say it again.
    said: String,
}

impl Teller {
    /// `agents` are the pack's.
    pub fn new(agents: Vec<AgentName>) -> Teller {
        Teller { agents, iteration: 1, said: String::new() }
    }

    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// One line for people, where an event is worth one. Events must come in their order.
    pub fn line(&mut self, record: &Record) -> Option<String> {
        match &record.event {
            Event::RunStarted(start) => self.iteration = start.first_iteration.0,
            Event::StageStarted(started) => self.iteration = started.stage.iteration.0,
            Event::StageEnded(ended) => {
                if let StageResult::Answer(answer) = &ended.result {
                    self.said.clone_from(answer);
                }
            }
            _ => {}
        }
        line(record, self)
    }
}

fn line(record: &Record, teller: &Teller) -> Option<String> {
    let iteration = teller.iteration;
    let at = |text: String| Some(format!("[{iteration}] {text}"));
    match &record.event {
        Event::RunStarted(start) => {
            Some(format!("{}: {}", start.run.as_str(), text::shown(start.task.trim(), 160)))
        }
        Event::Resumed { adopted_rules: Some(adopted), .. } => {
            let changed = text::shown(&adopted.changed.join(", "), 300);
            Some(format!("continues with changed rules: {changed}"))
        }
        Event::Resumed { .. } => Some("goes on from its journal".to_owned()),
        Event::StageStarted(_) | Event::GateStarted { .. } => None,
        Event::StageEnded(ended) => match &ended.result {
            StageResult::Answer(_) => None,
            StageResult::Failed(why) | StageResult::TimedOut(why) | StageResult::Unusable(why) => {
                at(format!("{} failed: {}", ended.stage.name, text::shown(why, 300)))
            }
            StageResult::Trespassed(files) => {
                let files = text::shown(&files.join(", "), 200);
                at(format!(
                    "{} changed files that are not its own; restored: {files}",
                    ended.stage.name
                ))
            }
        },
        Event::StageLost { stage, restored, .. } => {
            let how = if *restored {
                "the project is back to what it was before it"
            } else {
                "it begins again"
            };
            at(format!("{} was interrupted; {how}", stage.name))
        }
        Event::DecisionRefused { problem } => {
            at(format!("MAIN's answer is refused: {}", text::shown(problem, 300)))
        }
        Event::Decided(decided) => at(decided_line(&decided.about(&teller.said), &teller.agents)?),
        Event::ReportRefused { problem } => {
            at(format!("the report is refused: {}", text::shown(problem, 300)))
        }
        Event::ReportAccepted(facts) => at(report_line(facts)),
        Event::GateEnded { command, passed, .. } => {
            let how = if *passed { "passed" } else { "FAILED" };
            at(format!("gate {how}: {}", text::shown(command, 160)))
        }
        Event::FilesSeen(_) | Event::EvaluationPaused { .. } => None,
        Event::EvaluationStarted { number } => at(format!("evaluation {number} begins")),
        Event::Evaluated(own) => at(format!("evaluation: {}", text::shown(&own.line(), 300))),
        Event::EvaluationRefused { why, .. } => {
            at(format!("the samples cannot be run: {}", text::shown(why, 300)))
        }
        Event::SubloopEntered { .. } => at("sub-loop begins".to_owned()),
        Event::SubloopEnded(end) => {
            let how = if end.success { "repaired" } else { "not repaired" };
            at(format!("sub-loop ends after {}: {how}", end.iterations))
        }
        Event::Asked { question, .. } => {
            at(format!("asks a person: {}", text::shown(&question.title, 160)))
        }
        Event::Answered { option_id, .. } => {
            at(format!("answered: {}", text::shown(option_id, 60)))
        }
        Event::IterationEnded { .. } => None,
        Event::Adopted { files } => {
            at(format!("changed by a person and adopted: {}", text::shown(&files.join(", "), 200)))
        }
        Event::Abandoned => Some("given up by a person".to_owned()),
        Event::Stopped { why } => Some(format!("stopped: {}", text::shown(why.why(), 300))),
        Event::Finished { .. } => Some("finished".to_owned()),
    }
}

fn decided_line(decided: &Decided, agents: &[AgentName]) -> Option<String> {
    let read = |moment| decision::read(&decided.answer, agents, moment).ok();
    let decision = read(Moment::Ordinary).or_else(|| read(Moment::FinishCheck))?;
    let plan = match decided.plan_summary.as_str() {
        "" => String::new(),
        plan => format!(" ({})", text::shown(plan, 120)),
    };
    let open = match (&decision.next, decided.open.is_empty()) {
        (Next::Finish, false) => {
            format!("; it does not stand: {}", text::shown(&decided.open.join("; "), 200))
        }
        _ => String::new(),
    };
    let reason = text::shown(&decision.reason, 160);
    Some(format!("MAIN → {}: {reason}{plan}{open}", decision.next.word()))
}

fn report_line(facts: &ReportFacts) -> String {
    let verdict = facts.verdict.as_deref().unwrap_or("reported");
    let blockers = match facts.blockers.as_slice() {
        [] => String::new(),
        [first, rest @ ..] => {
            let more =
                if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            format!(": {}{more}", text::shown(first, 160))
        }
    };
    let overturned = if facts.overturned.is_some() { " (overturned)" } else { "" };
    format!("{}: {verdict}{overturned}{blockers}", facts.agent)
}

/// Lines for logs, in the words that tools which read such blackboards look for.
pub fn log_lines(record: &Record, iteration: u32) -> Vec<String> {
    match &record.event {
        Event::SubloopEntered { reason } => vec![format!(
            "orchestrator: subloop_enter iter={iteration} reason={}",
            text::shown(reason, 200)
        )],
        Event::SubloopEnded(end) => vec![format!(
            "orchestrator: subloop_exit iter={iteration} sub_iter={} success={}",
            end.iterations, end.success
        )],
        Event::StageStarted(started) => {
            let Some(ledger) = &started.ledger else { return Vec::new() };
            let sections = || ledger["sections"].as_array().into_iter().flatten();
            let highest = sections().filter_map(|section| section[1].as_u64()).max().unwrap_or(0);
            let mut lines: Vec<String> = summaries(ledger)
                .map(|(agent, is_hit)| {
                    let own = sections().find(|section| section[0] == crate::prompt::report_name(agent));
                    let level = own.and_then(|section| section[1].as_u64()).unwrap_or(highest);
                    format!(
                        "orchestrator: summary_extract agent={agent} level={level} cache_hit={is_hit}"
                    )
                })
                .collect();
            lines.push(format!(
                "orchestrator: prompt_size stage={} size={} level={highest}",
                started.stage.name, ledger["bytes"]
            ));
            lines
        }
        _ => Vec::new(),
    }
}

/// Whose reports a prompt asked for, and whether the cache had their summaries.
fn summaries(ledger: &serde_json::Value) -> impl Iterator<Item = (&str, bool)> {
    let rows = ledger["summaries"].as_array().into_iter().flatten();
    rows.filter_map(|row| Some((row[0].as_str()?, row[1].as_bool()?)))
}

/// What the cache of summaries did in a run.
pub fn cache_figures<'a>(records: impl IntoIterator<Item = &'a Record>) -> CacheFigures {
    let mut figures = CacheFigures::default();
    for record in records {
        let Event::StageStarted(started) = &record.event else { continue };
        for (_, is_hit) in started.ledger.iter().flat_map(summaries) {
            figures.hits += u64::from(is_hit);
            figures.extracted += u64::from(!is_hit);
        }
    }
    figures
}

/// A figure that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    pub is_warning: bool,
    pub text: String,
}

/// What the cache of summaries did.
#[derive(Debug, Clone, Copy, Default)]
pub struct CacheFigures {
    pub hits: u64,
    pub extracted: u64,
    pub failures: u64,
}

/// The alarms of a run's figures. `main_prompt`: bytes of the largest prompt of MAIN.
pub fn alarms(totals: &Totals, main_prompt: u64, cache: CacheFigures) -> Vec<Alarm> {
    let percent = |part: u64, whole: u64| (part * 100).checked_div(whole).unwrap_or(0);
    let mut alarms = Vec::new();
    let mut alarm = |is_on: bool, is_warning: bool, text: String| {
        if is_on {
            alarms.push(Alarm { is_warning, text });
        }
    };
    alarm(
        main_prompt > 200_000,
        true,
        format!("a prompt of MAIN has {main_prompt} bytes, over 200 KB"),
    );
    let entered = percent(u64::from(totals.subloops), u64::from(totals.tester_runs));
    alarm(
        entered > 50,
        false,
        format!("the sub-loop was entered in {entered}% of the tester's runs"),
    );
    let passed = percent(u64::from(totals.subloops_passed), u64::from(totals.subloops));
    alarm(
        totals.subloops > 0 && passed < 70,
        true,
        format!("only {passed}% of the sub-loops repaired what failed"),
    );
    let looked = cache.hits + cache.extracted;
    let failed = percent(cache.failures, cache.extracted);
    alarm(failed > 5, true, format!("{failed}% of the summaries could not be made"));
    let hits = percent(cache.hits, looked);
    alarm(
        looked > 0 && hits < 60,
        false,
        format!("the cache of summaries helped in {hits}% of the looks"),
    );
    alarms
}

/// Where a run stands, in a few words.
pub fn standing(state: &State) -> String {
    match &state.stopped {
        Some(stop) => format!("stopped: {}", stop.why()),
        None => match state.phase_name() {
            "ended" => "finished".to_owned(),
            "waiting" => "waits for an answer".to_owned(),
            "running" => "a stage is under way, or its process died".to_owned(),
            other => format!("between two steps ({other})"),
        },
    }
}
