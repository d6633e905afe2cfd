//! The conversation of a sample: (talk, step) → talk; talk → whom to ask now. Target, user and tools
//! speak in turn; the state is what the tools made of it.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::parts::{Said, Sample, Simulated, ToolSpec};
use super::result::{Asked, Call, Speaker, Spoken, StateAt, Trace};
use crate::id::Tokens;
use crate::message::{
    Answer, Message, Part, Request, Role, Stop, Tool, ToolCall, ToolResult, Usage,
};
use crate::messages::Language;
use crate::text;
use crate::turn::Protocol;
use crate::turn::protocol;

/// Answers in a row that nobody understands.
const MALFORMED: u32 = 3;
/// Of a result the target's model gets so many bytes; the trace has all.
const RESULT_BYTES: usize = 60_000;
/// What one conversation may keep of results and states, and how many calls it may make.
const MOST_BYTES: usize = 32 << 20;
const MOST_CALLS: usize = 500;

/// What all samples share.
#[derive(Debug, Clone)]
pub struct Stage {
    pub model: String,
    pub max_output: Tokens,
    pub temperature: Option<f64>,
    pub protocol: Protocol,
    pub max_steps: u32,
    pub cache_key: String,
    /// With the tools in it where the provider does not carry them.
    system: String,
    tools: Vec<ToolSpec>,
    shown: Vec<Tool>,
}

/// How the target is called.
#[derive(Debug, Clone)]
pub struct Voice {
    pub model: String,
    pub max_output: Tokens,
    pub temperature: Option<f64>,
    pub protocol: Protocol,
}

impl Stage {
    pub fn new(
        voice: Voice,
        target: &super::parts::Target,
        rules: &str,
        tools: Vec<ToolSpec>,
        cache_key: String,
    ) -> Stage {
        let shown: Vec<Tool> = tools.iter().map(ToolSpec::shown).collect();
        let words = [target.instructions.trim(), rules.trim()];
        let words: Vec<&str> = words.into_iter().filter(|own| !own.is_empty()).collect();
        let system =
            protocol::system(voice.protocol, &words.join("\n\n"), &shown, Language::English);
        Stage {
            model: voice.model,
            max_output: voice.max_output,
            temperature: voice.temperature,
            protocol: voice.protocol,
            max_steps: target.max_steps,
            cache_key,
            system,
            tools,
            shown,
        }
    }

    pub fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }
}

/// Whom to ask now.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Target(Box<Request>),
    /// The tool, by its place in the manifest, and the line for its program.
    Tool {
        tool: usize,
        line: Vec<u8>,
    },
    /// A user that a model plays.
    User,
    Done,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Answered(Box<Answer>),
    Said(Said),
    /// What the user says; `None`: the user has what it wants, or gives up.
    Spoke(Option<String>),
}

/// A conversation so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Talk {
    sample_id: String,
    messages: Vec<Message>,
    sent: usize,
    history: Vec<Spoken>,
    calls: Vec<Call>,
    states: Vec<StateAt>,
    state: Map<String, Value>,
    /// What a scripted user still says, first to last.
    script: VecDeque<String>,
    simulated: Option<Simulated>,
    turn: u32,
    steps: u32,
    numbered: u32,
    malformed: u32,
    open: VecDeque<ToolCall>,
    phase: Phase,
    ended: Option<String>,
    usage: Usage,
    /// Of results and states so far.
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Target,
    Tools,
    User,
    Done,
}

impl Talk {
    pub fn begin(sample: &Sample) -> Talk {
        let mut script: VecDeque<String> = sample.user.turns.iter().flatten().cloned().collect();
        let simulated = sample.user.simulated.clone();
        script.extend(simulated.as_ref().map(|own| own.opening.clone()));
        let state = sample.initial_state.clone();
        let start = StateAt { turn: 0, after: "start".to_owned(), state: state.clone() };
        let mut talk = Talk {
            sample_id: sample.sample_id.clone(),
            messages: Vec::new(),
            sent: 0,
            history: Vec::new(),
            calls: Vec::new(),
            states: vec![start],
            state,
            script,
            simulated,
            turn: 0,
            steps: 0,
            numbered: 0,
            malformed: 0,
            open: VecDeque::new(),
            phase: Phase::Done,
            ended: None,
            usage: Usage::default(),
            bytes: 0,
        };
        talk.phase = talk.users_turn();
        talk
    }

    pub fn next(&self, stage: &Stage) -> Next {
        match self.phase {
            Phase::Done => Next::Done,
            Phase::User => Next::User,
            Phase::Target => Next::Target(Box::new(self.request(stage))),
            Phase::Tools => {
                let call = self.open.front();
                let found = call.and_then(|call| {
                    let tool = stage.tools.iter().position(|own| own.name == call.name)?;
                    let line = json!({
                        "tool": call.name,
                        "arguments": call.arguments,
                        "state": self.state,
                    });
                    Some(Next::Tool { tool, line: line.to_string().into_bytes() })
                });
                // `took` leaves only calls open that a tool can answer.
                found.unwrap_or(Next::Done)
            }
        }
    }

    /// A step that does not fit the phase changes nothing.
    pub fn take(&mut self, stage: &Stage, step: Step) {
        self.phase = match (self.phase, step) {
            (Phase::Target, Step::Answered(answer)) => self.answered(stage, &answer),
            (Phase::Tools, Step::Said(said)) => self.said(stage, said),
            (Phase::User, Step::Spoke(words)) => match words {
                Some(words) => self.spoke(words),
                None => Phase::Done,
            },
            (phase, _) => phase,
        };
    }

    fn request(&self, stage: &Stage) -> Request {
        let is_native = stage.protocol == Protocol::Native;
        Request {
            model: stage.model.clone(),
            max_output: stage.max_output,
            temperature: stage.temperature,
            cache_key: stage.cache_key.clone(),
            tools: if is_native { stage.shown.clone() } else { Vec::new() },
            no_calls: false,
            system: Some(stage.system.clone()).filter(|own| !own.is_empty()).into_iter().collect(),
            format: protocol::format(stage.protocol, &stage.shown),
            messages: self.messages.clone(),
            cached_messages: self.sent,
            tail: None,
        }
    }

    fn answered(&mut self, stage: &Stage, answer: &Answer) -> Phase {
        self.steps += 1;
        self.sent = self.messages.len();
        self.usage = self.usage.plus(answer.usage);
        let action = protocol::action(stage.protocol, answer, self.numbered, Language::English);
        self.messages.push(action.message);
        let said = match (&action.last_words, &answer.stop) {
            (Some(words), _) => words.clone(),
            (None, Stop::Refusal(words)) if answer.text().trim().is_empty() => words.clone(),
            (None, _) => answer.text(),
        };
        let mut spoken = Spoken::text(self.turn, Speaker::Assistant, said);
        for own in &action.calls {
            // A provider's ids differ from run to run.
            self.numbered += 1;
            spoken.tool_calls.push(Asked {
                id: format!("c{}", self.numbered),
                name: own.name.clone(),
                arguments: own.arguments.clone(),
            });
        }
        self.history.push(spoken);
        if let Stop::Refusal(_) = &answer.stop {
            return self.ends("the target refused");
        }
        if let Some(complaint) = action.complaint {
            self.malformed += 1;
            if self.malformed >= MALFORMED && action.calls.is_empty() {
                return self.ends("the target gave three answers in a row that nobody understands");
            }
            self.history.push(Spoken::text(self.turn, Speaker::Harness, complaint.as_str()));
            self.push(Part::Text { text: complaint });
        } else {
            self.malformed = 0;
        }
        if action.last_words.is_some() {
            let goes_on = !self.script.is_empty() || self.simulated.is_some();
            return match goes_on && self.steps >= stage.max_steps {
                true => self.out_of_steps(),
                false => self.users_turn(),
            };
        }
        self.open = action.calls.into();
        self.took(stage)
    }

    /// Answers what no program needs to, and says who is next.
    fn took(&mut self, stage: &Stage) -> Phase {
        while let Some(call) = self.open.front() {
            let refusal = match stage.tools.iter().find(|own| own.name == call.name) {
                Some(tool) => tool.refuses(&call.arguments),
                None => {
                    let names: Vec<&str> =
                        stage.tools.iter().map(|own| own.name.as_str()).collect();
                    let name = text::shown(&call.name, 60);
                    let known = crate::problem::list(&names);
                    Some(format!("there is no tool `{name}`; there are {known}"))
                }
            };
            match refusal {
                Some(why) => self.result(stage, Said::Refused(why)),
                None => return Phase::Tools,
            }
        }
        match self.steps >= stage.max_steps {
            true => self.out_of_steps(),
            false => Phase::Target,
        }
    }

    fn out_of_steps(&mut self) -> Phase {
        let steps = self.steps;
        self.ends(&format!("the target's model was called {steps} times and came to no end"))
    }

    fn said(&mut self, stage: &Stage, said: Said) -> Phase {
        self.result(stage, said);
        if self.bytes > MOST_BYTES || self.calls.len() >= MOST_CALLS {
            return self.ends("the conversation grew over what is kept of one");
        }
        self.took(stage)
    }

    /// The result of the first open call.
    fn result(&mut self, stage: &Stage, said: Said) {
        let Some(call) = self.open.pop_front() else { return };
        let (result, is_error) = match said {
            Said::Refused(why) => (json!({ "error": why }), true),
            Said::Result { result, state } => {
                self.bytes += 2 * result.to_string().len();
                if let Some(state) = state.filter(|own| *own != self.state) {
                    self.bytes += serde_json::to_vec(&state).map_or(0, |own| own.len());
                    let (turn, after) = (self.turn, call.name.clone());
                    self.states.push(StateAt { turn, after, state: state.clone() });
                    self.state = state;
                }
                (result, false)
            }
        };
        let content = text::head_and_tail(&result.to_string(), RESULT_BYTES / 2);
        self.push(match stage.protocol {
            Protocol::Native => {
                Part::ToolResult(ToolResult { call_id: call.id.clone(), content, is_error })
            }
            Protocol::Json | Protocol::React => Part::Text { text: format!("[tool] {content}") },
        });
        self.history.push(Spoken {
            turn: self.turn,
            role: Speaker::Tool,
            // Of those that were asked for, the first of what is open.
            tool_call_id: Some(format!("c{}", self.calls.len() + 1)),
            name: Some(call.name.clone()),
            content: result.clone(),
            tool_calls: Vec::new(),
            is_error: Some(is_error),
        });
        let (turn, name, arguments) = (self.turn, call.name, call.arguments);
        self.calls.push(Call { turn, name, arguments, result, is_error });
    }

    fn users_turn(&mut self) -> Phase {
        if let Some(words) = self.script.pop_front() {
            return self.spoke(words);
        }
        match &self.simulated {
            Some(own) if self.turn < own.most_turns => Phase::User,
            _ => Phase::Done,
        }
    }

    fn spoke(&mut self, words: String) -> Phase {
        self.turn += 1;
        self.history.push(Spoken::text(self.turn, Speaker::User, words.as_str()));
        self.push(Part::Text { text: words });
        Phase::Target
    }

    /// Into the user's message; results stand before text in it.
    fn push(&mut self, part: Part) {
        match self.messages.last_mut().filter(|last| last.role == Role::User) {
            Some(last) => {
                last.parts.push(part);
                last.parts.sort_by_key(|part| !matches!(part, Part::ToolResult(_)));
            }
            None => self.messages.push(Message { role: Role::User, parts: vec![part] }),
        }
    }

    fn ends(&mut self, why: &str) -> Phase {
        self.ended = Some(why.to_owned());
        Phase::Done
    }

    pub fn turns(&self) -> u32 {
        self.turn
    }

    pub fn state(&self) -> &Map<String, Value> {
        &self.state
    }

    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    pub fn history(&self) -> &[Spoken] {
        &self.history
    }

    /// Who the user is, where a model plays it.
    pub fn simulated(&self) -> Option<&Simulated> {
        self.simulated.as_ref()
    }

    /// Why it ended before it came to its end: that is the target's failure.
    pub fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    pub fn into_trace(self) -> Trace {
        Trace {
            sample_id: self.sample_id,
            conversation_history: self.history,
            tool_calls: self.calls,
            states: self.states,
            ended: self.ended,
            usage: self.usage,
        }
    }
}
