//! A decision: MAIN is asked until it answers in the form that is asked for, or a rule of the policy
//! decides without it.

use serde::{Deserialize, Serialize};

use super::{Attempt, Effect, Phase, PlanEdit, Rules, State, Transition, agent};
use crate::decision::{self, Decision, Moment, Next};
use crate::event::{Asker, Decided, DecidedBy, Stop};
use crate::id::{AgentName, FINISH_REVIEW};
use crate::prompt::{Correction, ReadFile};

/// The number of times that MAIN may ask for files before it decides.
pub const MOST_READS: u32 = 2;

/// Characters of a refused answer that are shown again; the whole is in the archive or the journal.
const REFUSED_CHARACTERS: usize = 40_000;

/// An answer that did not settle its stage: it was refused, or it asked for files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedAnswer {
    /// Empty where the stage was refused for what it did, whatever it answered.
    pub answer: String,
    pub problem: String,
    /// The files that it asked for, as they were shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ReadFile>,
}

impl RefusedAnswer {
    /// `path`: where the whole answer is.
    pub(super) fn new(answer: &str, problem: &str, path: &str) -> RefusedAnswer {
        let kept = crate::text::cut(answer, REFUSED_CHARACTERS);
        let answer = match answer.chars().count() {
            count if count <= REFUSED_CHARACTERS => answer.to_owned(),
            count => format!(
                "{kept}\n[cut: the first {REFUSED_CHARACTERS} of {count} characters; whole: {path}]"
            ),
        };
        RefusedAnswer { answer, problem: problem.to_owned(), files: Vec::new() }
    }

    /// The next message of the conversation. `None`: only its number counts.
    pub fn correction(
        &self,
        number: u32,
        before: &[RefusedAnswer],
        order: &str,
    ) -> Option<Correction> {
        // Of an older read only the number counts.
        if !self.files.is_empty() && !self.answer.is_empty() {
            let left = MOST_READS.saturating_sub(reads_of(before) + 1);
            let files = crate::prompt::files_read(&self.files, left);
            return Some(Correction::files_read(number, &self.answer, &files));
        }
        let is_shown = !self.problem.is_empty();
        is_shown.then(|| Correction::new(number, &self.answer, order, &self.problem))
    }
}

/// The number of times that files were read for a decision.
pub(super) fn reads_of(refused: &[RefusedAnswer]) -> u32 {
    u32::try_from(refused.iter().filter(|own| !own.files.is_empty()).count()).unwrap_or(u32::MAX)
}

/// The refused answers before the stage that this phase begins.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other phase begins a stage")]
pub(super) fn refused_of(phase: &Phase) -> &[RefusedAnswer] {
    match phase {
        Phase::Decide { refused, .. } => refused,
        Phase::Work { job } => &job.refused,
        _ => &[],
    }
}

/// One more refusal. Only the last ones are shown again; of those before only their number counts.
pub(super) fn add_refused(all: &mut Vec<RefusedAnswer>, new: RefusedAnswer) {
    const SHOWN: usize = 4;
    all.push(new);
    let older = all.len().saturating_sub(SHOWN);
    for refused in &mut all[..older] {
        let files = refused.files.iter().map(|file| ReadFile::unread(&file.path, ""));
        *refused = RefusedAnswer { files: files.collect(), ..RefusedAnswer::default() };
    }
}

pub(super) fn on_files_read(phase: Phase, files: &[ReadFile]) -> Option<Phase> {
    let Phase::JudgeDecision { check, tries, mut refused, answer } = phase else { return None };
    let is_asked = matches!(decision::reads(&answer), Some(Ok(_)));
    let files = files.to_vec();
    add_refused(&mut refused, RefusedAnswer { answer, problem: String::new(), files });
    is_asked.then_some(Phase::Decide { check, tries, refused })
}

impl State {
    pub(super) fn on_decision_refused(
        &mut self,
        phase: Phase,
        problem: &str,
        at: &Transition<'_>,
    ) -> Option<Phase> {
        let Phase::JudgeDecision { check, tries, mut refused, answer } = phase else { return None };
        add_refused(&mut refused, RefusedAnswer::new(&answer, problem, "the journal"));
        self.count_refusal(tries, at.rules.config.decision.retries, problem);
        Some(Phase::Decide { check, tries: tries + 1, refused })
    }

    /// One more try, with the exact error; after the last one the run stops and reports it.
    pub(super) fn count_refusal(&mut self, tries: u32, retries: u32, problem: &str) {
        self.budget.totals.corrections += 1;
        if tries > retries {
            self.stopped = Some(Stop::Protocol(problem.to_owned()));
        }
    }

    pub(super) fn on_decided(
        &mut self,
        phase: Phase,
        decided: &Decided,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let (check, decided) = read_decision(phase, decided, &at.rules)?;
        let decision = decided.decision.clone()?;
        self.attempt = Attempt(1);
        self.files.plan_hash = Some(decided.plan_after.clone());
        if decided.plan_before != decided.plan_after {
            at.effects.push(Effect::EditPlan(Box::new(PlanEdit {
                before: decided.plan_before.clone(),
                change: decision.plan.clone(),
                rules: at.rules.pack.policy.plan.clone(),
            })));
        }
        if check {
            self.reports.overridden = self.override_of(&decision);
            self.current.check = Some(decided);
            self.budget.totals.finishes_overturned += u32::from(!self.is_finished());
            return Some(Phase::Record);
        }
        self.current.decided = Some(decided);
        Some(self.begin(&decision.next))
    }

    /// What a decision begins.
    fn begin(&mut self, next: &Next) -> Phase {
        match next {
            Next::Agent(agent) => Phase::work(agent, None),
            Next::User(question) => Phase::Ask { question: question.clone(), by: Asker::Main },
            Next::Finish => {
                self.current.is_finish = true;
                self.budget.finish_attempts += 1;
                self.budget.totals.finishes += 1;
                Phase::work(&agent(FINISH_REVIEW), None)
            }
        }
    }

    /// Begins an iteration, with the decision that FINISH_CHECK has made for it, or with a new one.
    pub(super) fn begin_iteration(&mut self) -> Phase {
        // Its change of the plan is in the entry of the iteration before.
        let carried = self.current.check.take().map(|decided| Decided {
            plan_summary: String::new(),
            plan_changes: 0,
            ..decided
        });
        let next = carried.as_ref().and_then(Decided::next).cloned();
        match next {
            Some(next @ (Next::Agent(_) | Next::User(_))) => {
                self.current.decided = carried;
                self.begin(&next)
            }
            Some(Next::Finish) | None => Phase::decide(false),
        }
    }

    /// MAIN's decision of this iteration.
    pub(super) fn decision(&self) -> Option<&Decision> {
        self.current.decided.as_ref()?.decision.as_deref()
    }

    /// MAIN's decision in FINISH_CHECK.
    pub(super) fn check_decision(&self) -> Option<&Decision> {
        let check = self.current.check.as_ref().filter(|_| self.current.is_finish)?;
        check.decision.as_deref()
    }

    /// MAIN's order of the current iteration, and the agent that it was given to.
    pub fn main_order(&self) -> Option<(AgentName, String)> {
        let decision = self.decision()?;
        let Next::Agent(agent) = &decision.next else { return None };
        Some((agent.clone(), decision.task.as_ref().unwrap_or(&decision.reason).clone()))
    }

    /// Tokens of the files that were read for the decision that is being made.
    pub fn tokens_read(&self) -> u64 {
        let Phase::JudgeDecision { refused, .. } = &self.phase else { return 0 };
        let files = refused.iter().flat_map(|own| &own.files);
        files.map(|file| crate::tokens::count(&file.text).0).sum()
    }

    /// A state of a checkpoint of version 1 has decisions as MAIN wrote them: they are read here, once.
    pub fn read_decisions(&mut self, rules: &Rules<'_>) {
        let agents = rules.pack.manifest.agent_names();
        let current = &mut self.current;
        for decided in [&mut current.decided, &mut current.check].into_iter().flatten() {
            // A decision of FINISH_CHECK may have begun the iteration.
            let read = |moment| decided.with_decision("", &agents, moment);
            let read = read(Moment::Ordinary).or_else(|| read(Moment::FinishCheck));
            if let Some(read) = read {
                *decided = read;
            }
        }
    }
}

/// The decision, and whether it is that of FINISH_CHECK. A rule decides only where MAIN has not been
/// asked yet, and never that the run is finished.
fn read_decision(phase: Phase, decided: &Decided, rules: &Rules<'_>) -> Option<(bool, Decided)> {
    match (decided.by, phase) {
        (DecidedBy::Main, Phase::JudgeDecision { check, answer, .. }) => {
            let moment = if check { Moment::FinishCheck } else { Moment::Ordinary };
            let agents = rules.pack.manifest.agent_names();
            Some((check, decided.with_decision(&answer, &agents, moment)?))
        }
        (DecidedBy::Rule, Phase::Decide { check: false, refused, .. }) if refused.is_empty() => {
            let is_work = matches!(decided.next(), Some(Next::Agent(_)));
            is_work.then(|| (false, decided.clone()))
        }
        _ => None,
    }
}
