//! Samples, side by side: the conversation, then the checkers.

use baton_core::message::Usage;
use baton_core::scenario::check::{self, Scene};
use baton_core::scenario::count::Tally;
use baton_core::scenario::judge;
use baton_core::scenario::parts::{self, By, Checker, Sample};
use baton_core::scenario::result::{Checked, Evaluation, Fault, Trace, written};
use baton_core::scenario::talk::{Next, Step, Talk};
use serde_json::{Value, json};

use super::ask::{Failed, Shared, taken};
use super::outputs::{Kind, Outputs};
use super::programs::{NoLine, Programs};
use super::read::{Entry, Scenario};
use super::writer::{self, Finished};
use super::{Ask, Error, Phase, Progress};
use crate::model::{Client, Tags};

/// A conversation that came to no end fails this, whatever else it does.
const FINISHED: &str = "conversation_finished";

/// Evaluates what is not finished; how many that were.
pub(super) fn all(
    ask: &Ask<'_>,
    scenario: &Scenario,
    outputs: &Outputs,
    shared: &Shared<'_>,
    tally: &mut Tally,
) -> Result<u64, Error> {
    let total = scenario.entries.len() as u64;
    let mut open: Vec<&Entry> = Vec::new();
    for entry in &scenario.entries {
        match outputs.evaluation(&scenario.root, &entry.id) {
            Some(own) => tally.add(&own),
            None => open.push(entry),
        }
    }
    let before = tally.total;
    let tell = |tally: &Tally| {
        (ask.progress)(&Progress {
            phase: Phase::Samples,
            iteration: outputs.head.iteration,
            done: tally.total,
            total,
            failed: tally.failed(),
            errors: tally.errors(),
            before,
        });
    };
    tell(tally);
    writer::side_by_side(
        ask,
        shared,
        &open,
        || Worker::new(ask, scenario, outputs, shared),
        |worker, entry| worker.evaluated(entry),
        |own: Evaluation| {
            tally.add(&own);
            tell(tally);
        },
    )?;
    stopped(shared, tally.total, total)?;
    Ok(tally.total - before)
}

fn stopped(shared: &Shared<'_>, done: u64, total: u64) -> Result<(), Error> {
    match shared.stopped() {
        // What came in the last moment is all there is.
        Some(_) if done == total && total > 0 => Ok(()),
        Some((stop, why)) => {
            let done = format!("{done} of {total} samples are finished");
            Err(Error::Stopped { stop, why, done })
        }
        None => Ok(()),
    }
}

/// Why a sample has no verdict.
enum Trouble {
    Stopped,
    Fault { fault: Fault, is_outage: bool },
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble::Fault { fault, is_outage: false }
    }
}

/// `what`: `target`, `user` or `checker`.
fn of_model(what: &str, name: &str, failed: Failed) -> Trouble {
    let said = |why: &str| match name.is_empty() {
        true => why.to_owned(),
        false => format!("{name}: {why}"),
    };
    match failed {
        Failed::Stopped => Trouble::Stopped,
        Failed::Model { why, kind, is_outage } => {
            Trouble::Fault { fault: Fault::new(format!("{what}-{kind}"), said(&why)), is_outage }
        }
        Failed::Wrong(why) => Fault::new(format!("{what}-answer"), said(&why)).into(),
    }
}

fn of_program(what: &str, name: &str, no_line: NoLine) -> Trouble {
    match no_line {
        NoLine::Interrupted => Trouble::Stopped,
        NoLine::Fault(kind, why) => {
            Fault::new(format!("{what}-{kind}"), format!("`{name}`: {why}")).into()
        }
    }
}

/// A thread with its own connection and its own programs.
struct Worker<'a> {
    ask: &'a Ask<'a>,
    scenario: &'a Scenario,
    outputs: &'a Outputs,
    shared: &'a Shared<'a>,
    target: Client,
    judge: Client,
    programs: Programs,
    /// What the judge took for the sample in hand.
    judged: Usage,
}

impl<'a> Worker<'a> {
    fn new(
        ask: &'a Ask<'a>,
        scenario: &'a Scenario,
        outputs: &'a Outputs,
        shared: &'a Shared<'a>,
    ) -> Result<Worker<'a>, Error> {
        let target = ask.target.client.apart().map_err(Error::Sandbox)?;
        let judge = ask.judge.client.apart().map_err(Error::Sandbox)?;
        let programs = Programs::new(ask, scenario.path())?;
        let judged = Usage::default();
        Ok(Worker { ask, scenario, outputs, shared, target, judge, programs, judged })
    }

    /// `None`: somebody stopped it.
    fn evaluated(&mut self, entry: &Entry) -> Option<Finished<Evaluation>> {
        if self.shared.is_stopped() {
            return None;
        }
        let id = entry.id.as_str();
        let read = match &entry.fault {
            Some(fault) => Err(fault.clone()),
            None => self.scenario.sample(entry),
        };
        let (text, sample) = match read {
            Ok(read) => read,
            Err(fault) => {
                return Some(self.finished(id, None, Evaluation::of_fault(id, 0, fault), false));
            }
        };
        self.judged = Usage::default();
        let mut talk = Talk::begin(&sample);
        let talked = self.talks(&mut talk).and_then(|()| self.checks(&text, &sample, &talk));
        let (evaluation, is_outage) = match talked {
            Ok(checked) => (Evaluation::of_checkers(id, talk.turns(), checked), false),
            Err(Trouble::Stopped) => return None,
            Err(Trouble::Fault { fault, is_outage }) => {
                (Evaluation::of_fault(id, talk.turns(), fault), is_outage)
            }
        };
        let trace = talk.into_trace();
        let evaluation = Evaluation { judge_usage: taken(self.judged), ..evaluation };
        Some(self.finished(id, Some((text, trace)), evaluation, is_outage))
    }

    fn finished(
        &self,
        id: &str,
        left: Option<(String, Trace)>,
        evaluation: Evaluation,
        is_outage: bool,
    ) -> Finished<Evaluation> {
        let mut first = Vec::new();
        if let Some((text, trace)) = left {
            first.push((self.outputs.file(Kind::Sample, id), text.into_bytes()));
            first.push((self.outputs.file(Kind::Trace, id), written(&trace)));
        }
        let last = (self.outputs.file(Kind::Evaluation, id), written(&evaluation));
        Finished { first, last, is_outage, what: evaluation }
    }

    fn tags(&self, stage: &str) -> Tags {
        Tags {
            run: self.scenario.name().to_owned(),
            stage: stage.to_owned(),
            iteration: self.outputs.head.iteration,
            attempt: 1,
        }
    }

    fn talks(&mut self, talk: &mut Talk) -> Result<(), Trouble> {
        let stage = &self.scenario.stage;
        loop {
            let step = match talk.next(stage) {
                Next::Done => return Ok(()),
                Next::Target(request) => {
                    let tags = self.tags("target");
                    let answer = self
                        .shared
                        .call(&self.target, self.ask.target, &request, &tags)
                        .map_err(|failed| of_model("target", "", failed))?;
                    Step::Answered(Box::new(answer))
                }
                Next::Tool { tool, line } => {
                    let tool = &stage.tools()[tool];
                    let interrupt = self.shared.interrupt();
                    let said = self
                        .programs
                        .ask(&tool.program, &line, interrupt)
                        .map_err(|no_line| of_program("tool", &tool.name, no_line))?;
                    let said = parts::tool_said(&said).map_err(|why| {
                        Fault::new("tool-garbage", format!("`{}`: {why}", tool.name))
                    })?;
                    Step::Said(said)
                }
                Next::User => Step::Spoke(self.user(talk)?),
            };
            talk.take(stage, step);
        }
    }

    fn user(&mut self, talk: &Talk) -> Result<Option<String>, Trouble> {
        let Some(question) = judge::user(talk) else { return Ok(None) };
        let tags = self.tags("user");
        let said =
            self.shared.judged(&self.judge, self.ask.judge, &question, &tags, judge::user_said);
        self.counted(said).map_err(|failed| of_model("user", "", failed))
    }

    fn counted<T>(&mut self, said: Result<(T, Usage), Failed>) -> Result<T, Failed> {
        let (said, usage) = said?;
        self.judged = self.judged.plus(usage);
        Ok(said)
    }

    fn checks(
        &mut self,
        text: &str,
        sample: &Sample,
        talk: &Talk,
    ) -> Result<Vec<Checked>, Trouble> {
        let mut all = Vec::new();
        if let Some(why) = talk.ended() {
            all.push(Checked {
                name: FINISHED.to_owned(),
                passed: false,
                reason: why.to_owned(),
                turns: vec![talk.turns()],
            });
        }
        let state = Value::Object(talk.state().clone());
        let scene = Scene {
            values: &sample.values,
            state: &state,
            calls: talk.calls(),
            turns: talk.turns(),
        };
        let scenario = self.scenario;
        for name in &sample.checkers {
            let Some(checker) = scenario.checkers.iter().find(|own| own.name == *name) else {
                let why = format!("there is no checker `{name}`");
                return Err(Fault::new("checker-unknown", why).into());
            };
            all.push(match &checker.by {
                By::Assertions(own) => check::run(name, own, &scene)?,
                By::Rubric(rubric) => self.rubric(checker, rubric, talk)?,
                By::Program(program) => {
                    let sample: Value = serde_json::from_str(text).unwrap_or_default();
                    self.program(checker, program, &sample, talk, &state)?
                }
            });
        }
        Ok(all)
    }

    fn rubric(&mut self, checker: &Checker, rubric: &str, talk: &Talk) -> Result<Checked, Trouble> {
        let question = judge::rubric(rubric, talk);
        let (tags, name) = (self.tags("checker"), checker.name.as_str());
        let read = |answer: &str| judge::verdict(name, answer);
        let said = self.shared.judged(&self.judge, self.ask.judge, &question, &tags, read);
        self.counted(said).map_err(|failed| of_model("checker", name, failed))
    }

    fn program(
        &mut self,
        checker: &Checker,
        program: &parts::Program,
        sample: &Value,
        talk: &Talk,
        state: &Value,
    ) -> Result<Checked, Trouble> {
        let name = checker.name.as_str();
        let line = json!({
            "checker": name,
            "sample": sample,
            "conversation_history": talk.history(),
            "tool_calls": talk.calls(),
            "state": state,
        });
        let line = line.to_string().into_bytes();
        let said = self
            .programs
            .ask(program, &line, self.shared.interrupt())
            .map_err(|no_line| of_program("checker", name, no_line))?;
        let said = String::from_utf8_lossy(&said);
        Ok(judge::verdict(name, said.trim())
            .map_err(|why| Fault::new("checker-garbage", format!("`{name}`: {why}")))?)
    }
}
