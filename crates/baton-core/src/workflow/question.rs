//! A user is asked, and answers. The question is of MAIN, of an approval, or of Baton itself when the
//! run does not progress.

use super::{Answer, Effect, Phase, State, Transition, limits};
use crate::event::{Asker, Event, Stop};

pub(super) fn on_asked(phase: Phase, at: &mut Transition<'_>) -> Option<Phase> {
    let Phase::Ask { question, by } = phase else { return None };
    let asked_seq = at.seq;
    at.effects.push(Effect::WriteQuestion { question: question.clone(), by, asked_seq });
    Some(Phase::Waiting { question, by, asked_seq })
}

impl State {
    pub(super) fn on_answered(
        &mut self,
        phase: Phase,
        event: &Event,
        at: &mut Transition<'_>,
    ) -> Option<Phase> {
        let Phase::Waiting { question, by, asked_seq } = phase else { return None };
        let Event::Answered { asked_seq: answered, option_id, comment, .. } = event else {
            return None;
        };
        let is_one = question.options.iter().any(|option| option.option_id == *option_id);
        if asked_seq != *answered || !is_one {
            return None;
        }
        if by == Asker::Approval && !self.has_pending_approval(&at.rules) {
            return None;
        }
        at.effects.push(Effect::RemoveQuestion);
        let answer = Answer { question, option_id: option_id.clone(), comment: comment.clone() };
        self.budget.stuck.reset();
        self.reports.answered = at.seq;
        self.reports.passed_last = None;
        match by {
            Asker::Main => {
                self.current.answer = Some(answer);
                Some(Phase::Record)
            }
            Asker::Approval => self.on_approval_answered(answer, at),
            Asker::Escalation => {
                if answer.option_id == limits::STOP_OPTION {
                    self.stopped = Some(Stop::Person(at.rules.pack.words().stopped_by_user()));
                }
                self.budget.finish_attempts = 0;
                // MAIN decides again, with the answer before it.
                self.current.check = None;
                Some(Phase::decide(false))
            }
        }
    }
}
