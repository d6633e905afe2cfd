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
use crate::messages::Language;
use crate::text;
use crate::workflow::{GateProgress, GatesOf, Phase, State, Totals};

/// Tells a run line by line.
#[derive(Debug, Default)]
pub struct Teller {
    agents: Vec<AgentName>,
    language: Language,
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

    /// Tells it in this language.
    #[must_use]
    pub fn speaking(self, language: Language) -> Teller {
        Teller { language, ..self }
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
    let own = teller.language;
    let cut = |words: &str| text::shown(words, 300);
    match &record.event {
        Event::RunStarted(start) => {
            Some(format!("{}: {}", start.run.as_str(), text::shown(start.task.trim(), 160)))
        }
        Event::Resumed { adopted_rules, project, .. } => {
            let how = match adopted_rules {
                Some(adopted) => own.changed_rules(cut(&adopted.changed.join(", "))),
                None => own.resumed(),
            };
            let changed = changed_line(project.as_deref(), own).and_then(at);
            Some(how + &changed.map(|line| format!("\n{line}")).unwrap_or_default())
        }
        Event::GateStarted { .. } => None,
        Event::StageStarted(started) => at(changed_line(started.project.as_deref(), own)?),
        Event::StageEnded(ended) => at(ended_line(ended, own)?),
        Event::StageLost { stage, restored, changed, .. } => {
            at(own.interrupted_stage(&stage.name, lost_line(*restored, changed, own)))
        }
        Event::DecisionRefused { problem } => at(own.answer_refused(MAIN, cut(problem))),
        Event::FilesRead { files } => {
            let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            at(own.reads(MAIN, cut(&paths.join(", "))))
        }
        Event::Decided(decided) => at(decided_line(decided, teller)?),
        Event::ReportRefused { problem } => at(own.report_refused(cut(problem))),
        Event::ReportAccepted(facts) => at(report_line(facts, own)),
        Event::GateEnded { command, passed, output, log, .. } => {
            let command = text::shown(command, 160);
            at(match passed {
                true => own.gate_passed(command),
                false => failed_gate(&command, output, log.as_deref(), teller),
            })
        }
        Event::FilesSeen(_) | Event::EvaluationPaused { .. } => None,
        Event::EvaluationStarted { number } => at(own.evaluation_begins(number)),
        Event::Evaluated(ended) => at(own.evaluation_ended(cut(&ended.line(own)))),
        Event::EvaluationRefused { why, .. } => at(own.samples_cannot_run(cut(why))),
        Event::SubloopEntered { .. } => at(own.subloop_begins()),
        Event::SubloopEnded(end) => {
            let how = if end.success { own.repaired() } else { own.not_repaired() };
            at(own.subloop_ends(end.iterations, how))
        }
        Event::Asked { question, by } => {
            let who = if *by == Asker::Main { MAIN } else { "Baton" };
            at(own.asks_you(who, text::shown(&question.title, 160)))
        }
        Event::Answered { option_id, .. } => at(own.answered(text::shown(option_id, 60))),
        Event::IterationEnded { .. } => None,
        Event::Adopted { files } => at(own.adopted(text::shown(&files.join(", "), 200))),
        Event::Abandoned => Some(own.abandoned()),
        Event::Stopped { why } => Some(own.stopped(cut(why.why()))),
        Event::Finished { .. } => Some(own.finished()),
    }
}

/// The pass of a report, where gates may overturn it. Those after the last review belong to FINISH.
fn passing(facts: &ReportFacts) -> Option<(AgentName, String)> {
    let own = (facts.agent.clone(), facts.verdict.clone().unwrap_or_default());
    Some(own).filter(|(agent, _)| *agent != FINISH_REVIEW)
}

/// A failed gate: the pass that it overturns, the last lines of its output, and the file with all.
fn failed_gate(command: &str, output: &str, log: Option<&str>, teller: &Teller) -> String {
    let own = teller.language;
    let whose = match &teller.passing {
        Some((agent, verdict)) => own.pass_overturned(agent, verdict),
        None => own.does_not_count(FINISH),
    };
    let reason = text::shown(gate::reason(output), 200);
    let mut out = own.gate_failed(whose, command, reason);
    let lines: Vec<&str> = output.lines().skip(1).collect();
    for line in &lines[lines.len().saturating_sub(GATE_LINES)..] {
        out.push_str(&format!("\n      | {}", text::shown(line, 200)));
    }
    if let Some(log) = log {
        out.push_str(&format!("\n      {}", own.whole_output(log)));
    }
    out
}

fn decided_line(decided: &Decided, teller: &Teller) -> Option<String> {
    let read = |moment| decided.with_decision(&teller.said, &teller.agents, moment);
    let decided = read(Moment::Ordinary).or_else(|| read(Moment::FinishCheck))?;
    let decision = decided.decision.as_deref()?;
    let own = teller.language;
    let plan = match decided.plan_summary.as_str() {
        "" => String::new(),
        plan => own.aside(text::shown(plan, 120)),
    };
    let open = match (&decision.next, decided.open.is_empty()) {
        (Next::Finish, false) => own.finish_refused(text::shown(&decided.open.join("; "), 500)),
        _ => String::new(),
    };
    let reason = text::shown(&decision.reason, 160);
    let overridden = match decision.overrules_review {
        true => own.review_ignored(FINISH_REVIEW),
        false => String::new(),
    };
    let who = match decided.by {
        DecidedBy::Main => MAIN.to_owned(),
        DecidedBy::Rule => own.by_rule(),
    };
    let line = own.decided(who, decision.next.word(), reason);
    Some(format!("{line}{plan}{overridden}{open}"))
}

/// The end of a stage, if it is worth a line: a failure, or changes that no stage is allowed to make.
fn ended_line(ended: &StageEnded, own: Language) -> Option<String> {
    let name = &ended.stage.name;
    let failure = match &ended.result {
        StageResult::Answer(_) => None,
        StageResult::Failed(why) | StageResult::TimedOut(why) | StageResult::Unusable(why) => {
            Some(own.stage_failed(name, text::shown(why, 300)))
        }
        StageResult::Trespassed(files) => {
            Some(own.trespassed(name, text::shown(&files.join(", "), 200)))
        }
    };
    let unexpected = ended.unexpected_line_in(own).map(|line| text::shown(&line, 500));
    let parts = [failure, unexpected, changed_line(ended.project.as_deref(), own)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(&own.joint()))
}

fn lost_line(restored: bool, changed: &[String], own: Language) -> String {
    match (restored, changed.is_empty()) {
        (true, _) => own.project_is_back(),
        (false, true) => own.starts_over(),
        (false, false) => own.starts_over_kept(text::shown(&changed.join(", "), 300)),
    }
}

fn changed_line(check: Option<&ProjectCheck>, own: Language) -> Option<String> {
    check?.line_in(own).map(|line| text::shown(&line, 500))
}

fn report_line(facts: &ReportFacts, own: Language) -> String {
    let verdict = facts.verdict.clone().unwrap_or_else(|| own.without_verdict());
    let blockers = match facts.blockers.as_slice() {
        [] => String::new(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { own.and_more(rest.len()) };
            own.first_blocker(text::shown(first, 160)) + &more
        }
    };
    let overturned = if facts.overturned.is_some() { own.overturned() } else { String::new() };
    format!("{}{overturned}{blockers}", own.reported(&facts.agent, verdict))
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
pub fn alarms(totals: &Totals, main_prompt: u64, cache: CacheFigures, own: Language) -> Vec<Alarm> {
    let percent = |part: u64, whole: u64| (part * 100).checked_div(whole).unwrap_or(0);
    let mut alarms = Vec::new();
    let mut alarm = |is_on: bool, is_warning: bool, text: String| {
        if is_on {
            alarms.push(Alarm { is_warning, text });
        }
    };
    alarm(main_prompt > 200_000, true, own.large_prompt(main_prompt));
    let entered = percent(u64::from(totals.subloops), u64::from(totals.tester_runs));
    alarm(entered > 50, false, own.subloop_often(entered));
    let (loops, passed) = (u64::from(totals.subloops), u64::from(totals.subloops_passed));
    let few = match (loops, passed) {
        (1, _) => own.only_loop_failed(),
        (_, 0) => own.no_loop_worked(loops),
        _ => own.few_loops_worked(passed, loops),
    };
    alarm(loops > 0 && percent(passed, loops) < 70, true, few);
    let looked = cache.hits + cache.extracted;
    let failed = percent(cache.failures, looked);
    alarm(failed > 5, true, own.summaries_failed(failed));
    let hits = percent(cache.hits, looked);
    alarm(looked > 0 && hits < 60, false, own.cache_seldom(hits));
    alarms
}

/// A question as people read it: title, text, and the options with their numbers.
pub fn question(question: &Question, own: Language) -> String {
    let mut out = format!("{}\n{}\n", question.title, question.text);
    for (index, option) in question.options.iter().enumerate() {
        let best = if question.is_recommended(option) { own.recommended() } else { String::new() };
        let line = own.option(index + 1, &option.option_id, &option.description);
        out.push_str(&format!("{line}{best}\n"));
    }
    out
}

/// The possible answers to a question: `1-2 or a, b`.
pub fn answers(question: &Question, own: Language) -> String {
    let ids: Vec<&str> = question.options.iter().map(|option| option.option_id.as_str()).collect();
    own.answers(ids.len(), crate::problem::list(&ids))
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
    pub fn sentence(self, state: &State, worker: &Worker<'_>, own: Language) -> String {
        let unknown = own.unknown();
        let pid = worker.pid.unwrap_or(&unknown);
        match self {
            RunState::Running => {
                let since = worker.since.map_or(String::new(), |since| own.since(since));
                own.running(own.process(pid) + &since)
            }
            RunState::Waiting if worker.is_alive => own.waiting_elsewhere(pid),
            RunState::Waiting => own.waiting(),
            RunState::Parked => own.paused(place(state, own)),
            RunState::Stopped => own.stopped(state.stopped.as_ref().map_or("", |stop| stop.why())),
            RunState::Interrupted => own.interrupted(place(state, own), pid),
            RunState::Finished => own.finished(),
            RunState::Abandoned => own.abandoned_run(),
        }
    }
}

/// A run's place inside its iteration.
fn place(state: &State, own: Language) -> String {
    match &state.phase {
        Phase::Running { stage, .. } => own.in_stage(&stage.name),
        Phase::Gates { progress, .. } => match progress {
            GateProgress::CommandDue => own.before_gate(),
            GateProgress::CommandRuns => own.in_gate(),
            GateProgress::SamplesDue => own.before_evaluation(),
            GateProgress::SamplesRun(number) => own.in_evaluation(number),
        },
        Phase::Decide { check: true, .. } => own.before_stage(FINISH_CHECK),
        Phase::Decide { .. } => own.before_decision(MAIN),
        Phase::Work { job } => own.before_stage(&job.agent),
        Phase::JudgeDecision { .. }
        | Phase::JudgeReport { .. }
        | Phase::Settle { .. }
        | Phase::Record
        | Phase::Ask { .. }
        | Phase::Waiting { .. }
        | Phase::Ended => own.between_steps(),
    }
}
