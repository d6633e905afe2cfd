//! What people see of a run: a line for each event, and the figures with their alarms. Goes in:
//! events and the state they fold to. Comes out: text; nothing is decided here.

use serde::Serialize;

use crate::decision::{Moment, Next, Question};
use crate::event::{
    Asker, Decided, DecidedBy, Event, LedgerSummary, ProjectCheck, Record, ReportFacts, StageEnded,
    StageResult,
};
use crate::gate;
use crate::id::{AgentName, FINISH, FINISH_CHECK, FINISH_REVIEW, MAIN};
use crate::text;
use crate::workflow::{GateProgress, GatesOf, Phase, State, Totals};

/// Tells a run line by line.
#[derive(Debug, Default)]
pub struct Teller {
    agents: Vec<AgentName>,
    iteration: u32,
    /// What the last stage said: a decision does not say it again.
    said: String,
    /// The open question is about the iteration before: code asks between two of them.
    is_between: bool,
    /// The pass that gates may overturn: the agent and its verdict.
    passing: Option<(AgentName, String)>,
}

/// Lines of a failed gate's output that are shown.
const GATE_LINES: usize = 15;

impl Teller {
    /// `agents` are the pack's.
    pub fn new(agents: Vec<AgentName>) -> Teller {
        Teller { agents, iteration: 1, ..Teller::default() }
    }

    /// Continues with a run whose earlier events were not seen here.
    pub fn resume(&mut self, state: &State) {
        self.iteration = state.iteration.0;
        self.is_between = matches!(state.phase, Phase::Waiting { by: Asker::Escalation, .. });
        if let Phase::JudgeDecision { answer, .. } = &state.phase {
            self.said.clone_from(answer);
        }
        if let Phase::Gates { of: GatesOf::Report(job), .. } = &state.phase
            && let Some((_, facts)) = state.reports.newest.get(&job.agent)
        {
            self.passing = passing(facts);
        }
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
            Event::Asked { by, .. } => self.is_between = *by == Asker::Escalation,
            Event::ReportAccepted(facts) => self.passing = passing(facts),
            _ => {}
        }
        let line = line(record, self);
        match &record.event {
            Event::IterationEnded { .. } => self.iteration = self.iteration.saturating_add(1),
            Event::Answered { .. } => self.is_between = false,
            _ => {}
        }
        line
    }
}

fn line(record: &Record, teller: &Teller) -> Option<String> {
    let iteration = match record.event {
        Event::Asked { .. } | Event::Answered { .. } if teller.is_between => {
            teller.iteration.saturating_sub(1)
        }
        _ => teller.iteration,
    };
    let at = |text: String| Some(format!("[{iteration}] {text}"));
    match &record.event {
        Event::RunStarted(start) => {
            Some(format!("{}: {}", start.run.as_str(), text::shown(start.task.trim(), 160)))
        }
        Event::Resumed { adopted_rules, project, .. } => {
            let how = match adopted_rules {
                Some(adopted) => {
                    let changed = text::shown(&adopted.changed.join(", "), 300);
                    format!("continues with changed rules: {changed}")
                }
                None => "resumed".to_owned(),
            };
            let changed = changed_line(project.as_deref()).and_then(at);
            Some(how + &changed.map(|line| format!("\n{line}")).unwrap_or_default())
        }
        Event::GateStarted { .. } => None,
        Event::StageStarted(started) => at(changed_line(started.project.as_deref())?),
        Event::StageEnded(ended) => at(ended_line(ended)?),
        Event::StageLost { stage, restored, changed, .. } => {
            at(format!("{} was interrupted; {}", stage.name, lost_line(*restored, changed)))
        }
        Event::DecisionRefused { problem } => {
            at(format!("MAIN's answer is refused: {}", text::shown(problem, 300)))
        }
        Event::FilesRead { files } => {
            let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            at(format!("MAIN reads {}", text::shown(&paths.join(", "), 300)))
        }
        Event::Decided(decided) => at(decided_line(decided, teller)?),
        Event::ReportRefused { problem } => {
            at(format!("the report is refused: {}", text::shown(problem, 300)))
        }
        Event::ReportAccepted(facts) => at(report_line(facts)),
        Event::GateEnded { command, passed, output, log, .. } => {
            let command = text::shown(command, 160);
            at(match passed {
                true => format!("gate passed: {command}"),
                false => failed_gate(&command, output, log.as_deref(), teller),
            })
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
        Event::Asked { question, by } => {
            let who = if *by == Asker::Main { MAIN } else { "Baton" };
            at(format!("{who} asks you: {}", text::shown(&question.title, 160)))
        }
        Event::Answered { option_id, .. } => {
            at(format!("answered: {}", text::shown(option_id, 60)))
        }
        Event::IterationEnded { .. } => None,
        Event::Adopted { files } => {
            at(format!("changed by a person and adopted: {}", text::shown(&files.join(", "), 200)))
        }
        Event::Abandoned => Some("abandoned".to_owned()),
        Event::Stopped { why } => Some(format!("stopped: {}", text::shown(why.why(), 300))),
        Event::Finished { .. } => Some("finished".to_owned()),
    }
}

/// The pass of a report, where gates may overturn it. Those after the last review belong to FINISH.
fn passing(facts: &ReportFacts) -> Option<(AgentName, String)> {
    let own = (facts.agent.clone(), facts.verdict.clone().unwrap_or_default());
    Some(own).filter(|(agent, _)| *agent != FINISH_REVIEW)
}

/// A failed gate: the pass that it overturns, the last lines of its output, and the file with all.
fn failed_gate(command: &str, output: &str, log: Option<&str>, teller: &Teller) -> String {
    let who = match &teller.passing {
        Some((agent, verdict)) => format!("{agent}: {verdict} overturned"),
        None => format!("{FINISH} does not count"),
    };
    let reason = text::shown(gate::reason(output), 200);
    let mut out = format!("{who}: gate `{command}` failed ({reason})");
    let lines: Vec<&str> = output.lines().skip(1).collect();
    for line in &lines[lines.len().saturating_sub(GATE_LINES)..] {
        out.push_str(&format!("\n      | {}", text::shown(line, 200)));
    }
    if let Some(log) = log {
        out.push_str(&format!("\n      whole output: {log}"));
    }
    out
}

fn decided_line(decided: &Decided, teller: &Teller) -> Option<String> {
    let read = |moment| decided.with_decision(&teller.said, &teller.agents, moment);
    let decided = read(Moment::Ordinary).or_else(|| read(Moment::FinishCheck))?;
    let decision = decided.decision.as_deref()?;
    let plan = match decided.plan_summary.as_str() {
        "" => String::new(),
        plan => format!(" ({})", text::shown(plan, 120)),
    };
    let open = match (&decision.next, decided.open.is_empty()) {
        (Next::Finish, false) => {
            format!("; refused: {}", text::shown(&decided.open.join("; "), 500))
        }
        _ => String::new(),
    };
    let reason = text::shown(&decision.reason, 160);
    let overridden = match decision.overrules_review {
        true => format!("; override: {FINISH_REVIEW} is ignored"),
        false => String::new(),
    };
    let who = match decided.by {
        DecidedBy::Main => MAIN,
        DecidedBy::Rule => "by rule",
    };
    Some(format!("{who} → {}: {reason}{plan}{overridden}{open}", decision.next.word()))
}

/// The end of a stage, if it is worth a line: a failure, or changes that no stage is allowed to make.
fn ended_line(ended: &StageEnded) -> Option<String> {
    let name = &ended.stage.name;
    let failure = match &ended.result {
        StageResult::Answer(_) => None,
        StageResult::Failed(why) | StageResult::TimedOut(why) | StageResult::Unusable(why) => {
            Some(format!("{name} failed: {}", text::shown(why, 300)))
        }
        StageResult::Trespassed(files) => {
            let files = text::shown(&files.join(", "), 200);
            Some(format!("{name} changed files that are not its own; restored: {files}"))
        }
    };
    let unexpected = ended.unexpected_line().map(|line| text::shown(&line, 500));
    let parts = [failure, unexpected, changed_line(ended.project.as_deref())];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn lost_line(restored: bool, changed: &[String]) -> String {
    match (restored, changed.is_empty()) {
        (true, _) => "the project is back to what it was before it".to_owned(),
        (false, true) => "it starts over".to_owned(),
        (false, false) => {
            let files = text::shown(&changed.join(", "), 300);
            format!("it starts over; changed meanwhile and kept: {files}")
        }
    }
}

fn changed_line(check: Option<&ProjectCheck>) -> Option<String> {
    check?.line().map(|line| text::shown(&line, 500))
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
            let levels = ledger.sections.iter().filter_map(|section| section.level);
            let highest = levels.max().unwrap_or(0);
            let extracted = ledger.summaries.iter().map(|LedgerSummary { agent, is_hit, is_failure }| {
                let name = crate::prompt::report_name(agent);
                let own = ledger.sections.iter().find(|section| section.name == name);
                let level = own.and_then(|section| section.level).unwrap_or(highest);
                let failure = if *is_failure { " failure=true" } else { "" };
                format!(
                    "orchestrator: summary_extract agent={agent} level={level} cache_hit={is_hit}{failure}"
                )
            });
            let size = format!(
                "orchestrator: prompt_size stage={} size={} level={highest}",
                started.stage.name, ledger.bytes
            );
            extracted.chain([size]).collect()
        }
        _ => Vec::new(),
    }
}

/// What the cache of summaries did in a run.
pub fn cache_figures<'a>(records: impl IntoIterator<Item = &'a Record>) -> CacheFigures {
    let mut figures = CacheFigures::default();
    for record in records {
        let Event::StageStarted(started) = &record.event else { continue };
        for summary in started.ledger.iter().flat_map(|ledger| &ledger.summaries) {
            figures.hits += u64::from(summary.is_hit);
            figures.extracted += u64::from(!summary.is_hit);
            figures.failures += u64::from(summary.is_failure);
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
    let (loops, passed) = (u64::from(totals.subloops), u64::from(totals.subloops_passed));
    let few = match (loops, passed) {
        (1, _) => "the only repair loop did not fix the failure".to_owned(),
        (_, 0) => format!("none of the {loops} repair loops fixed the failure"),
        _ => format!("only {passed} of the {loops} repair loops fixed the failure"),
    };
    alarm(loops > 0 && percent(passed, loops) < 70, true, few);
    let looked = cache.hits + cache.extracted;
    let failed = percent(cache.failures, looked);
    alarm(
        failed > 5,
        true,
        format!("{failed}% of the summaries failed: the verdict of a report was not found"),
    );
    let hits = percent(cache.hits, looked);
    alarm(
        looked > 0 && hits < 60,
        false,
        format!("the cache of summaries helped in {hits}% of the looks"),
    );
    alarms
}

/// A question as people read it: title, text, and the options with their numbers.
pub fn question(question: &Question) -> String {
    let mut out = format!("{}\n{}\n", question.title, question.text);
    for (index, option) in question.options.iter().enumerate() {
        let best = if question.is_recommended(option) { " (recommended)" } else { "" };
        let (id, description) = (&option.option_id, &option.description);
        out.push_str(&format!("  {}. {id}: {description}{best}\n", index + 1));
    }
    out
}

/// The possible answers to a question: `1-2 or a, b`.
pub fn answers(question: &Question) -> String {
    let ids: Vec<&str> = question.options.iter().map(|own| own.option_id.as_str()).collect();
    format!("1-{} or {}", ids.len(), crate::problem::list(&ids))
}

/// The state of a run, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// A process works on it.
    Running,
    /// A question is open.
    Waiting,
    /// Its process left in order, between two steps.
    Parked,
    /// A fault or a limit ended it before its end.
    Stopped,
    /// Its process is gone and left something open.
    Interrupted,
    Finished,
    Abandoned,
}

/// The process that works on a run, or the last one that did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker<'a> {
    pub pid: Option<&'a str>,
    pub since: Option<&'a str>,
    pub is_alive: bool,
    /// It ended in order.
    pub has_left: bool,
}

impl RunState {
    /// `last`: the newest event of the run.
    pub fn of(state: &State, last: Option<&Event>, worker: &Worker<'_>) -> RunState {
        match (&state.phase, last) {
            (_, Some(Event::Abandoned)) => RunState::Abandoned,
            (Phase::Ended, _) => RunState::Finished,
            (Phase::Waiting { .. }, _) => RunState::Waiting,
            _ if worker.is_alive => RunState::Running,
            _ if state.stopped.is_some() => RunState::Stopped,
            (Phase::Running { .. }, _) => RunState::Interrupted,
            _ if worker.has_left => RunState::Parked,
            _ => RunState::Interrupted,
        }
    }

    /// The same for people, with what to do next.
    pub fn sentence(self, state: &State, worker: &Worker<'_>) -> String {
        let pid = worker.pid.unwrap_or("unknown");
        match self {
            RunState::Running => {
                let since = worker.since.map_or(String::new(), |since| format!(", since {since}"));
                format!("running (pid {pid}{since})")
            }
            RunState::Waiting if worker.is_alive => {
                format!("waiting for your answer at the terminal of process {pid}")
            }
            RunState::Waiting => "waiting for your answer; `baton answer` continues".to_owned(),
            RunState::Parked => format!("paused {}; `baton resume` continues", place(state)),
            RunState::Stopped => {
                format!("stopped: {}", state.stopped.as_ref().map_or("", |stop| stop.why()))
            }
            RunState::Interrupted => format!(
                "interrupted {} (process {pid} is gone); `baton resume` continues",
                place(state)
            ),
            RunState::Finished => "finished".to_owned(),
            RunState::Abandoned => "abandoned; `baton run` starts a new run".to_owned(),
        }
    }
}

/// A run's place inside its iteration.
fn place(state: &State) -> String {
    match &state.phase {
        Phase::Running { stage, .. } => format!("in {}", stage.name),
        Phase::Gates { progress, .. } => match progress {
            GateProgress::CommandDue => "before a gate".to_owned(),
            GateProgress::CommandRuns => "in a gate".to_owned(),
            GateProgress::SamplesDue => "before an evaluation".to_owned(),
            GateProgress::SamplesRun(number) => format!("in evaluation {number}"),
        },
        Phase::Decide { check: true, .. } => format!("before {FINISH_CHECK}"),
        Phase::Decide { .. } => format!("before {MAIN}'s next decision"),
        Phase::Work { job } => format!("before {}", job.agent),
        Phase::JudgeDecision { .. }
        | Phase::JudgeReport { .. }
        | Phase::Settle { .. }
        | Phase::Record
        | Phase::Ask { .. }
        | Phase::Waiting { .. }
        | Phase::Ended => "between two steps".to_owned(),
    }
}
