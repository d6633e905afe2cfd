//! One agent's loop, as a pure machine: `Conversation::next` says what to do, a `Step` says what came
//! of it, `Conversation::apply` folds it. A transcript is the list of steps: an agent that was
//! interrupted goes on from there.
//!
//! During a turn the model sees whole observations; when the turn is over their short forms are all
//! that is left of them (`messages`). The three protocols differ in how an action is written
//! (`protocol`), and in nothing else.

mod protocol;
mod todo;

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ObservationId, Tokens};
use crate::message::{
    Answer, Message, Part, Request, Role, Stop, Tool, ToolCall, ToolResult, Usage,
};
use crate::observation::{self, Envelope};

pub use protocol::Protocol;
pub use todo::recap;

/// Malformed actions in a row that a model may make; the next one ends the turn.
pub const MALFORMED: u32 = 3;

/// What happened in a conversation, in its order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// A person, or a stage's prompt, begins a turn.
    Asked {
        text: String,
    },
    Answered {
        answer: Box<Answer>,
    },
    /// The intent: from here on a call that has effects may have had them.
    Started {
        call: String,
    },
    Observed(Box<Observed>),
    /// The turn was ended from outside: by a person, a limit, a model that cannot be reached.
    Stopped {
        why: String,
    },
}

/// A tool's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    pub id: ObservationId,
    pub call: String,
    pub tool: String,
    pub envelope: Envelope,
    /// The call could not be understood: an unknown tool, arguments that do not fit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_malformed: bool,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Do {
    CallModel,
    /// At once, in any order: none of them changes anything.
    Read(Vec<ToolCall>),
    /// It may change something: its intent is written down first.
    Act(ToolCall),
    /// It was begun by a process that is gone: nobody knows whether it happened.
    Settle(ToolCall),
    /// Somebody has to ask something.
    Wait,
    End(Ending),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The model's last words.
    Done(String),
    /// The model broke the protocol, or refused.
    Failed(String),
    Stopped(String),
}

/// What a turn may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Calls of the model.
    pub steps: u32,
    /// Tokens of all its calls together, in and out.
    pub tokens: Option<u64>,
}

/// A tool of the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    pub tool: Tool,
    /// It changes nothing: several may run at once, and again after an interruption.
    pub only_reads: bool,
}

/// What stands before the conversation in every request, and never changes within it but for the
/// rules of the project.
#[derive(Debug, Clone, PartialEq)]
pub struct Layers {
    pub model: String,
    pub max_output: Tokens,
    pub cache_key: String,
    /// L1: the words; the tools are the other half of it.
    pub system: String,
    /// L2: the project's rules, as they are now.
    pub rules: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Item {
    User(String),
    Assistant(Message),
    Observation {
        call: String,
        /// `None` once its turn is over.
        whole: Option<String>,
        kept: String,
        is_error: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Idle,
    Model,
    Tools { open: VecDeque<ToolCall>, is_started: bool },
    Ended(Ending),
}

/// A conversation with an agent, as far as it came.
#[derive(Debug, Clone)]
pub struct Conversation {
    protocol: Protocol,
    tools: Vec<Offered>,
    limits: Limits,
    items: Vec<Item>,
    /// The first item of the turn that goes on.
    turn: usize,
    phase: Phase,
    /// Of the turn.
    steps: u32,
    tokens: u64,
    malformed: u32,
    is_answer_malformed: bool,
    next_observation: u32,
    calls: u32,
    recap: Option<String>,
    /// Messages of the last request that stand unchanged in the next one.
    sent: usize,
    pub usage: Usage,
}

impl Conversation {
    pub fn new(protocol: Protocol, tools: Vec<Offered>, limits: Limits) -> Conversation {
        Conversation {
            protocol,
            tools,
            limits,
            items: Vec::new(),
            turn: 0,
            phase: Phase::Idle,
            steps: 0,
            tokens: 0,
            malformed: 0,
            is_answer_malformed: false,
            next_observation: 1,
            calls: 0,
            recap: None,
            sent: 0,
            usage: Usage::default(),
        }
    }

    /// What to do now. The same conversation always gives the same answer.
    pub fn next(&self) -> Do {
        match &self.phase {
            Phase::Idle => Do::Wait,
            Phase::Ended(ending) => Do::End(ending.clone()),
            Phase::Model => match self.over_limit(0) {
                Some(why) => Do::End(Ending::Stopped(why)),
                None => Do::CallModel,
            },
            Phase::Tools { open, is_started } => {
                let is_reading = |call: &&ToolCall| self.only_reads(&call.name);
                let reading: Vec<ToolCall> = open.iter().take_while(is_reading).cloned().collect();
                match open.front() {
                    _ if !reading.is_empty() => Do::Read(reading),
                    Some(call) if *is_started => Do::Settle(call.clone()),
                    Some(call) => Do::Act(call.clone()),
                    // `apply` leaves no empty list.
                    None => Do::CallModel,
                }
            }
        }
    }

    /// Whether a request of this size may not be sent.
    pub fn over_limit(&self, request_tokens: u64) -> Option<String> {
        if self.steps >= self.limits.steps {
            return Some(format!("all {} steps of the turn are used up", self.limits.steps));
        }
        let most = self.limits.tokens?;
        (self.tokens.saturating_add(request_tokens) >= most).then(|| {
            format!("the budget of {most} tokens would be exceeded: {} are used", self.tokens)
        })
    }

    /// Whether tokens are limited: only then does the size of a request matter.
    pub fn has_budget(&self) -> bool {
        self.limits.tokens.is_some()
    }

    /// A tool that nobody knows changes nothing either: it is refused.
    fn only_reads(&self, name: &str) -> bool {
        self.tools.iter().find(|own| own.tool.name == name).is_none_or(|own| own.only_reads)
    }

    /// The id of the next observation.
    pub fn next_observation(&self) -> ObservationId {
        ObservationId(self.next_observation)
    }

    /// The list that the agent works off, as it was last told.
    pub fn recap(&self) -> Option<&str> {
        self.recap.as_deref()
    }

    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Folds one step. A step that does not fit is passed over, and said.
    pub fn apply(&mut self, step: &Step) -> Result<(), Misfit> {
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        let next = match (phase, step) {
            (Phase::Idle | Phase::Ended(_), Step::Asked { text }) => {
                self.begin(text);
                Phase::Model
            }
            (Phase::Model, Step::Answered { answer }) => self.answered(answer),
            (Phase::Tools { open, is_started: false }, Step::Started { call })
                if open.front().is_some_and(|own| own.id == *call) =>
            {
                Phase::Tools { open, is_started: true }
            }
            (Phase::Tools { open, .. }, Step::Observed(observed))
                if open.iter().any(|own| own.id == observed.call) =>
            {
                self.observed(open, observed)
            }
            (Phase::Model | Phase::Tools { .. } | Phase::Idle, Step::Stopped { why })
            | (Phase::Ended(Ending::Stopped(_)), Step::Stopped { why }) => {
                self.close_open_calls(why);
                Phase::Ended(Ending::Stopped(why.clone()))
            }
            (phase, _) => {
                self.phase = phase;
                return Err(Misfit { step: format!("{step:?}").chars().take(60).collect() });
            }
        };
        self.phase = next;
        Ok(())
    }

    fn begin(&mut self, text: &str) {
        // What was sent whole goes out in its short form from now on.
        self.sent = self.sent.min(self.count_up_to(self.turn));
        for item in &mut self.items {
            if let Item::Observation { whole, .. } = item {
                *whole = None;
            }
            if let Item::Assistant(message) = item {
                // Thoughts belong to the turn in which they were thought.
                let is_thought = |part: &Part| matches!(part, Part::Thinking(_));
                if message.parts.iter().any(|part| !is_thought(part)) {
                    message.parts.retain(|part| !is_thought(part));
                }
            }
        }
        self.turn = self.items.len();
        self.items.push(Item::User(text.to_owned()));
        (self.steps, self.tokens, self.malformed) = (0, 0, 0);
    }

    fn answered(&mut self, answer: &Answer) -> Phase {
        self.steps += 1;
        self.sent = self.count_up_to(self.items.len());
        self.count(&answer.usage);
        if let Stop::Refusal(words) = &answer.stop {
            self.items.push(Item::Assistant(answer.message()));
            return Phase::Ended(Ending::Failed(format!("the model refused: {words}")));
        }
        let action = protocol::action(self.protocol, answer, self.calls);
        self.items.push(Item::Assistant(action.message));
        self.calls += u32::try_from(action.calls.len()).unwrap_or(u32::MAX);
        self.is_answer_malformed = action.complaint.is_some();
        if let Some(complaint) = action.complaint {
            self.items.push(Item::User(complaint));
        } else if let Some(text) = action.last_words {
            return Phase::Ended(Ending::Done(text));
        }
        self.tools_or_model(action.calls.into())
    }

    fn tools_or_model(&mut self, open: VecDeque<ToolCall>) -> Phase {
        if !open.is_empty() {
            return Phase::Tools { open, is_started: false };
        }
        self.malformed = if self.is_answer_malformed { self.malformed + 1 } else { 0 };
        match self.malformed >= MALFORMED {
            true => Phase::Ended(Ending::Failed(format!(
                "the model made {MALFORMED} actions in a row that could not be understood"
            ))),
            false => Phase::Model,
        }
    }

    fn observed(&mut self, mut open: VecDeque<ToolCall>, observed: &Observed) -> Phase {
        open.retain(|own| own.id != observed.call);
        self.next_observation = self.next_observation.max(observed.id.0.saturating_add(1));
        self.is_answer_malformed |= observed.is_malformed;
        let stub = observation::compress(&observed.tool, &observed.envelope, observed.id);
        if let Some(recap) = todo::recap_of(&observed.tool, &observed.envelope) {
            self.recap = Some(recap).filter(|recap| !recap.is_empty());
        }
        self.items.push(Item::Observation {
            call: observed.call.clone(),
            whole: Some(observation::whole(&observed.envelope)),
            kept: observation::kept(&stub),
            is_error: observed.envelope.status == observation::Status::Error,
        });
        self.tools_or_model(open)
    }

    /// No provider takes a call without its result.
    fn close_open_calls(&mut self, why: &str) {
        let answered: Vec<&str> = self.items[self.turn.min(self.items.len())..]
            .iter()
            .filter_map(|item| match item {
                Item::Observation { call, .. } => Some(call.as_str()),
                Item::User(_) | Item::Assistant(_) => None,
            })
            .collect();
        let open: Vec<String> = self.items[self.turn.min(self.items.len())..]
            .iter()
            .filter_map(|item| match item {
                Item::Assistant(message) => Some(&message.parts),
                Item::User(_) | Item::Observation { .. } => None,
            })
            .flatten()
            .filter_map(|part| match part {
                Part::ToolCall(call) if !answered.contains(&call.id.as_str()) => {
                    Some(call.id.clone())
                }
                _ => None,
            })
            .collect();
        let text = observation::whole(&Envelope::failed("STOPPED", why));
        for call in open {
            let (whole, kept) = (Some(text.clone()), text.clone());
            self.items.push(Item::Observation { call, whole, kept, is_error: true });
        }
    }

    fn count(&mut self, usage: &Usage) {
        let add = |sum: &mut Option<Tokens>, more: Option<Tokens>| {
            if let Some(more) = more {
                *sum = Some(Tokens(sum.map_or(0, |sum| sum.0).saturating_add(more.0)));
            }
        };
        add(&mut self.usage.input, usage.input);
        add(&mut self.usage.output, usage.output);
        add(&mut self.usage.cache_read, usage.cache_read);
        add(&mut self.usage.cache_write, usage.cache_write);
        add(&mut self.usage.reasoning, usage.reasoning);
        let parts = [usage.input, usage.output, usage.cache_read, usage.cache_write];
        let all: u64 = parts.into_iter().flatten().map(|tokens| tokens.0).sum();
        self.tokens = self.tokens.saturating_add(all);
    }

    /// The whole conversation as the model sees it now.
    pub fn messages(&self) -> Vec<Message> {
        self.messages_up_to(self.items.len())
    }

    /// How many messages `messages_up_to` gives, without making them: a long history is megabytes.
    fn count_up_to(&self, end: usize) -> usize {
        let items = &self.items[..end.min(self.items.len())];
        let is_answer = |item: &Item| matches!(item, Item::Assistant(_));
        let begins =
            |(at, item): (usize, &Item)| is_answer(item) || at == 0 || is_answer(&items[at - 1]);
        items.iter().enumerate().filter(|own| begins(*own)).count()
    }

    fn messages_up_to(&self, end: usize) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::new();
        for item in &self.items[..end.min(self.items.len())] {
            let part = match item {
                Item::Assistant(message) => {
                    messages.push(message.clone());
                    continue;
                }
                Item::User(text) => Part::Text { text: text.clone() },
                Item::Observation { call, whole, kept, is_error } => {
                    let content = whole.as_ref().unwrap_or(kept).clone();
                    match self.protocol {
                        Protocol::Native => Part::ToolResult(ToolResult {
                            call_id: call.clone(),
                            content,
                            is_error: *is_error,
                        }),
                        Protocol::Json | Protocol::React => {
                            Part::Text { text: format!("[tool] {content}") }
                        }
                    }
                }
            };
            match messages.last_mut().filter(|last| last.role == Role::User) {
                Some(last) => last.parts.push(part),
                None => messages.push(Message { role: Role::User, parts: vec![part] }),
            }
        }
        for message in messages.iter_mut().filter(|message| message.role == Role::User) {
            // Results stand first, whatever was said between them.
            message.parts.sort_by_key(|part| !matches!(part, Part::ToolResult(_)));
        }
        debug_assert_eq!(messages.len(), self.count_up_to(end));
        messages
    }

    /// The next call of the model.
    pub fn request(&self, layers: &Layers) -> Request {
        let tools: Vec<Tool> = self.tools.iter().map(|own| own.tool.clone()).collect();
        let system = protocol::system(self.protocol, &layers.system, &tools);
        let mut system = vec![system];
        system.extend(Some(layers.rules.clone()).filter(|rules| !rules.is_empty()));
        Request {
            model: layers.model.clone(),
            max_output: layers.max_output,
            temperature: None,
            cache_key: layers.cache_key.clone(),
            format: protocol::format(self.protocol, &tools),
            tools: if self.protocol == Protocol::Native { tools } else { Vec::new() },
            system,
            messages: self.messages(),
            cached_messages: self.sent,
            tail: self.recap.clone(),
        }
    }
}

/// A step that cannot follow: the transcript or the program changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    pub step: String,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "the step `{}` does not fit here", self.step)
    }
}

impl std::error::Error for Misfit {}
