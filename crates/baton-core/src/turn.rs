//! One agent's loop, as a pure machine: `Conversation::next` says what to do, a `Step` says what came
//! of it, `Conversation::apply` folds it. A transcript is the list of steps: an agent that was
//! interrupted goes on from there.
//!
//! During a turn the model sees whole observations; when the turn is over their short forms are all
//! that is left of them (`messages`). The three protocols differ in how an action is written
//! (`protocol`), and in nothing else.

#![warn(clippy::wildcard_enum_match_arm)]

pub(crate) mod protocol;
mod todo;

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fold;
use crate::id::{ObservationId, Tokens};
use crate::message::{
    Answer, Message, Part, Request, Role, Stop, Tool, ToolCall, ToolResult, Usage,
};
use crate::messages::Language;
use crate::observation::Envelope;
use crate::text;
use crate::thread::compact::{self, Plan, Strategy};
use crate::thread::{self, Item, Results, Seen, Thread};

pub use protocol::{FINISH, Protocol};
pub use todo::recap;

/// Compactions in a row that may gain less than a tenth; then it is given up.
const VAIN: u32 = 2;

/// No provider's word makes the window smaller than this: what has to stand in it takes half of it.
const LEAST: u64 = 8_000;

/// The same call with the same result, so often in a row, ends the turn: it would go on for ever.
pub const REPEATED: u32 = 20;

/// Malformed actions in a row that a model may make; the next one ends the turn.
pub const MALFORMED: u32 = 3;

/// How a conversation keeps within its window.
#[derive(Debug, Clone, PartialEq)]
pub struct Room {
    pub folding: fold::Settings,
    pub compaction: compact::Settings,
    pub results: Results,
    /// The language of what code says to the model.
    pub language: Language,
}

impl Default for Room {
    fn default() -> Room {
        Room::new(compact::Settings::default(), fold::Prices::default(), true)
    }
}

impl Room {
    /// For a compaction like this at these prices.
    pub fn new(compaction: compact::Settings, prices: fold::Prices, folds: bool) -> Room {
        let half = usize::try_from(compaction.compact_at / 2).unwrap_or(usize::MAX);
        let mut folding = fold::Settings { fold_at: half, prices, ..fold::Settings::default() };
        if !folds {
            (folding.fold_at, folding.batch) = (usize::MAX, usize::MAX);
        }
        Room { folding, compaction, results: Results::default(), language: Language::default() }
    }
}

/// What happened in a conversation, in its order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// A person, or a stage's prompt, begins a turn.
    Asked {
        text: String,
        /// When, for whoever sums it up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
    },
    Answered {
        answer: Box<Answer>,
    },
    /// The answer that ended the turn was refused, for the `number`th time: the turn continues with
    /// this message, and nothing that was sent before is rewritten.
    Corrected {
        number: u32,
        text: String,
    },
    /// The intent: from here on a call that has effects may have had them.
    Started {
        call: String,
    },
    Observed(Box<Observed>),
    /// From here on these results are sent as stubs.
    Folded {
        results: Vec<ObservationId>,
    },
    /// The provider said that the request does not fit into the model's window.
    TooLong,
    /// The oldest part left.
    Compacted(Box<Compacted>),
    /// The turn was ended from outside: by a person, a limit, a model that cannot be reached.
    Stopped {
        why: String,
        /// True if it took longer than it may.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_late: bool,
    },
}

/// A compaction, with what was asked for and what came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    pub plan: Plan,
    /// The words that asked the model for its state.
    pub request: String,
    /// What stands for the part that left.
    pub summary: Option<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What the call for it counted.
    #[serde(default)]
    pub usage: Usage,
}

/// The circumstances of a request for a summary.
#[derive(Debug, Clone, Copy, Default)]
pub struct SummaryAsk<'a> {
    /// The user's words about what matters most.
    pub focus: Option<&'a str>,
    /// The share of the conversation, in percent, that the request may have, where the provider
    /// refused all of it.
    pub percent: Option<usize>,
    pub now: Option<&'a str>,
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
    /// These results become stubs before the model is called again.
    Fold(Vec<ObservationId>),
    /// The oldest part leaves before the model is called again.
    Compact(Plan),
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
    /// It took longer than it may.
    TimedOut(String),
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
    /// Facts about the machine, for the model that summarises a conversation.
    pub facts: String,
    /// L2: the project's rules, as they are now.
    pub rules: String,
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
    language: Language,
    thread: Thread,
    compaction: compact::Settings,
    /// What the provider counted at the last call, in and out, with what came and left until the
    /// last change.
    used: Option<u64>,
    /// Characters that came since.
    appended: u64,
    /// The provider said that the request is too long.
    is_too_long: bool,
    /// Compactions in a row that gained next to nothing.
    vain: u32,
    phase: Phase,
    /// Of the turn.
    steps: u32,
    tokens: u64,
    malformed: u32,
    is_answer_malformed: bool,
    /// The last call with its result, and how often it came in a row.
    last: Option<(ToolCall, Envelope)>,
    repeated: u32,
    next_observation: u32,
    calls: u32,
    recap: Option<String>,
    /// Messages of the last request that stand unchanged in the next one.
    sent: usize,
    /// The number of the last correction; 0 before the first.
    corrected: u32,
    /// Tokens used since the conversation began or was last corrected.
    pub usage: Usage,
}

impl Conversation {
    pub fn new(
        protocol: Protocol,
        tools: Vec<Offered>,
        limits: Limits,
        room: Room,
    ) -> Conversation {
        let Room { folding, compaction, results, language } = room;
        let is_handed_over = compaction.strategy == Strategy::Handover;
        let words_only = is_handed_over.then_some(compaction.keep);
        Conversation {
            protocol,
            tools,
            limits,
            language,
            thread: Thread::new(folding, words_only, results).speaking(language),
            compaction,
            used: None,
            appended: 0,
            is_too_long: false,
            vain: 0,
            phase: Phase::Idle,
            steps: 0,
            tokens: 0,
            malformed: 0,
            is_answer_malformed: false,
            last: None,
            repeated: 0,
            next_observation: 1,
            calls: 0,
            recap: None,
            sent: 0,
            corrected: 0,
            usage: Usage::default(),
        }
    }

    /// The number of the last correction that the conversation holds.
    pub fn corrected(&self) -> u32 {
        self.corrected
    }

    /// True if a correction can follow now: no tool call is open.
    pub fn takes_correction(&self) -> bool {
        matches!(self.phase, Phase::Model | Phase::Ended(Ending::Done(_)))
    }

    /// What to do now. The same conversation always gives the same answer.
    pub fn next(&self) -> Do {
        match &self.phase {
            Phase::Idle => Do::Wait,
            Phase::Ended(ending) => Do::End(ending.clone()),
            Phase::Model => self.before_the_model(),
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

    fn before_the_model(&self) -> Do {
        if let Some(why) = self.over_limit(0) {
            return Do::End(Ending::Stopped(why));
        }
        if let Some(results) = self.thread.fold_due() {
            return Do::Fold(results);
        }
        if !self.is_full() {
            return Do::CallModel;
        }
        if self.vain >= VAIN {
            return Do::End(Ending::Failed(format!(
                "the conversation does not fit into the window: {VAIN} compactions in a row gained less than a tenth"
            )));
        }
        match self.plan_compaction(false) {
            Ok(plan) => Do::Compact(plan),
            Err(_) if self.is_too_long => Do::End(Ending::Failed(
                "the conversation does not fit: the provider says that the request is too long, and nothing more can leave it".to_owned(),
            )),
            Err(why) => Do::End(Ending::Failed(why)),
        }
    }

    /// Whether a turn goes on. It may have come to its end all the same: because of its size or of a
    /// limit, which is so as long as nobody changes them.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Model | Phase::Tools { .. })
    }

    /// Tokens of the next request: what the provider last counted and what came since.
    pub fn size(&self) -> u64 {
        let estimated = || u64::try_from(self.thread.size()).unwrap_or(u64::MAX);
        self.used.map_or_else(estimated, |used| used.saturating_add(self.appended / 3))
    }

    fn is_full(&self) -> bool {
        let is_over = self.size() >= self.compaction.compact_at;
        self.is_too_long || is_over && self.thread.items().len() >= 3
    }

    /// What would leave now. `is_asked`: a person wants it, whatever the sizes are.
    pub fn plan_compaction(&self, is_asked: bool) -> Result<Plan, String> {
        let own = u64::try_from(self.thread.size()).unwrap_or(u64::MAX);
        // What the provider counted, less the conversation as it was then.
        let then = own.saturating_sub(self.appended / 4);
        let fixed = self.used.unwrap_or(0).saturating_sub(then);
        let planned = self.thread.plan_compaction(&self.compaction, fixed, is_asked);
        match planned {
            // How much is too much nobody knows exactly: whatever gains something is tried.
            Err(_) if self.is_too_long => {
                self.thread.plan_compaction(&self.compaction, fixed, true)
            }
            planned => planned,
        }
    }

    /// The call that sums up what leaves, and the words that ask for it.
    pub fn summary_request(
        &self,
        plan: &Plan,
        layers: &Layers,
        ask: &SummaryAsk<'_>,
    ) -> (Request, String) {
        let SummaryAsk { focus, percent, now } = *ask;
        let words = compact::request_text(&self.compaction, focus, self.language);
        let mut request = self.request(layers);
        request.max_output = Tokens(self.compaction.summary_tokens());
        request.temperature = Some(0.0);
        (request.format, request.tail) = (None, None);
        let most = percent.map(|percent| self.estimate(&request) / 100 * percent / 5 * 4);
        match plan.strategy {
            Strategy::Archive => {
                let system = compact::archive_prompt(&self.compaction, focus, self.language);
                (request.system, request.tools) = (vec![system], Vec::new());
                let material = self.thread.material(plan, &layers.facts, now);
                // Four characters are about a token; half of them at each end.
                let end = most.map_or(material.len(), |most| most * 2);
                request.messages = vec![Message::user(text::head_and_tail(&material, end))];
                request.cached_messages = 0;
                request.cache_key.push_str("/summary");
            }
            Strategy::Handover => {
                request.no_calls = true;
                // Without a limit the same beginning as every call: nearly all of it is in the
                // provider's cache.
                if let Some(most) = most {
                    let around = self.estimate(&request) - self.thread.size() + fold::size(&words);
                    let part = self.thread.leaving_within(plan, most.saturating_sub(around));
                    request.messages = self.messages_of(&part);
                    request.cached_messages = 0;
                }
                match request.messages.last_mut() {
                    Some(last) if last.role == Role::User => {
                        last.parts.push(Part::Text { text: words.clone() });
                    }
                    _ => request.messages.push(Message::user(words.clone())),
                }
            }
        }
        (request, words)
    }

    /// Tokens of a request with the whole conversation, by its characters alone.
    fn estimate(&self, request: &Request) -> usize {
        let system: usize = request.system.iter().map(|text| fold::size(text)).sum();
        let tools = serde_json::to_string(&request.tools).unwrap_or_default();
        system + fold::size(&tools) + self.thread.size()
    }

    /// True when the provider refused the conversation as too long.
    pub fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// An answer as a summary, or why it is none.
    pub fn checked_summary(&self, plan: &Plan, answer: &str) -> Result<String, String> {
        let replaces = self.thread.size_leaving(plan);
        compact::checked(plan, &self.compaction, answer, replaces, self.language)
    }

    fn compacted(&mut self, compacted: &Compacted) {
        let before = self.size();
        let Compacted { plan, request, summary, why, usage } = compacted;
        self.count(usage);
        let why = why.clone().unwrap_or_else(|| self.language.no_summary_made());
        let summary = summary.as_deref().ok_or(why.as_str());
        self.changed(0, |thread| {
            thread.compact(plan, request, summary);
            0
        });
        self.is_too_long = false;
        let is_vain = self.size() > before / 10 * 9;
        self.vain = if is_vain { self.vain + 1 } else { 0 };
    }

    /// Changes what was sent; what the provider counted follows, roughly. `added`: tokens of what
    /// comes with the change, which is counted elsewhere.
    fn changed(&mut self, added: usize, change: impl FnOnce(&mut Thread) -> usize) {
        let before = self.thread.size();
        let from = change(&mut self.thread);
        let gone = (before + added).saturating_sub(self.thread.size());
        let gone = u64::try_from(gone).unwrap_or(u64::MAX);
        // What left may have come after the last call as well as before it.
        if let Some(used) = &mut self.used {
            // Counted as the thread counts: otherwise what goes would leave a third of it behind.
            let now = used.saturating_add(self.appended / 4);
            (*used, self.appended) = (now.saturating_sub(gone), 0);
        }
        // A message of a user goes on until the next answer: its last piece may be what changed.
        let is_whole =
            from == 0 || matches!(self.thread.items().get(from - 1), Some(Item::Assistant(_)));
        let before = self.count_up_to(from).saturating_sub(usize::from(!is_whole));
        self.sent = self.sent.min(before);
    }

    fn push(&mut self, item: Item) {
        self.thread.push(item);
        self.appended = self.appended.saturating_add(self.thread.size_of_last() * 4);
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

    /// What was said, as it is sent.
    pub fn thread(&self) -> &Thread {
        &self.thread
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
            (Phase::Idle | Phase::Ended(_), Step::Asked { text, at }) => {
                self.begin(text, at.as_deref());
                Phase::Model
            }
            (Phase::Model, Step::Answered { answer }) => self.answered(answer),
            (Phase::Model | Phase::Ended(Ending::Done(_)), Step::Corrected { number, text }) => {
                self.correct(*number, text);
                Phase::Model
            }
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
            (Phase::Model, Step::Folded { results }) => {
                self.changed(0, |thread| thread.fold(results));
                Phase::Model
            }
            (Phase::Model, Step::TooLong) => {
                self.is_too_long = true;
                // From here on there is time for a summary before the provider says it again.
                let most = (self.size() / 5 * 4).max(LEAST);
                self.compaction.compact_at = self.compaction.compact_at.min(most);
                Phase::Model
            }
            (
                phase @ (Phase::Model | Phase::Idle | Phase::Ended(_)),
                Step::Compacted(compacted),
            ) => {
                self.compacted(compacted);
                phase
            }
            (Phase::Model | Phase::Tools { .. } | Phase::Idle, Step::Stopped { why, is_late })
            | (
                Phase::Ended(Ending::Stopped(_) | Ending::TimedOut(_)),
                Step::Stopped { why, is_late },
            ) => {
                self.close_open_calls(why);
                Phase::Ended(match is_late {
                    true => Ending::TimedOut(why.clone()),
                    false => Ending::Stopped(why.clone()),
                })
            }
            (phase, _) => {
                self.phase = phase;
                return Err(Misfit { step: format!("{step:?}").chars().take(60).collect() });
            }
        };
        self.phase = next;
        Ok(())
    }

    fn begin(&mut self, text: &str, at: Option<&str>) {
        // What was sent whole goes out in its short form from now on.
        self.changed(fold::size(text), |thread| thread.begin_turn(text, at));
        self.appended = self.appended.saturating_add(text.len() as u64);
        (self.steps, self.tokens, self.malformed) = (0, 0, 0);
        (self.is_too_long, self.vain) = (false, 0);
        (self.last, self.repeated) = (None, 0);
    }

    /// The limits begin anew: what came before was counted when its answer was refused.
    fn correct(&mut self, number: u32, text: &str) {
        self.corrected = number;
        self.push(Item::User(text.to_owned()));
        (self.steps, self.tokens, self.malformed) = (0, 0, 0);
        (self.last, self.repeated) = (None, 0);
        self.usage = Usage::default();
    }

    fn answered(&mut self, answer: &Answer) -> Phase {
        self.steps += 1;
        self.sent = self.count_up_to(self.thread.items().len());
        self.count(&answer.usage);
        if let Some(used) = all_of(&answer.usage) {
            (self.used, self.appended) = (Some(used), 0);
        }
        if let Stop::Refusal(words) = &answer.stop {
            self.push(Item::Assistant(answer.message()));
            return Phase::Ended(Ending::Failed(format!("the model refused: {words}")));
        }
        let action = protocol::action(self.protocol, answer, self.calls, self.language);
        self.push(Item::Assistant(action.message));
        self.calls += u32::try_from(action.calls.len()).unwrap_or(u32::MAX);
        self.is_answer_malformed = action.complaint.is_some();
        if let Some(complaint) = action.complaint {
            self.push(Item::Note(complaint));
        } else if let Some(text) = action.last_words {
            return Phase::Ended(Ending::Done(text));
        }
        self.tools_or_model(action.calls.into())
    }

    fn tools_or_model(&mut self, open: VecDeque<ToolCall>) -> Phase {
        if !open.is_empty() {
            return Phase::Tools { open, is_started: false };
        }
        if self.repeated >= REPEATED {
            return Phase::Ended(Ending::Failed(format!(
                "the model made the same call {REPEATED} times in a row, and nothing changed"
            )));
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
        let call = open.iter().find(|own| own.id == observed.call).cloned();
        let arguments = call.as_ref().map(|own| thread::flat(&own.arguments)).unwrap_or_default();
        self.watch(call, &observed.envelope);
        open.retain(|own| own.id != observed.call);
        self.next_observation = self.next_observation.max(observed.id.0.saturating_add(1));
        self.is_answer_malformed |= observed.is_malformed;
        if let Some(recap) = todo::recap_of(&observed.tool, &observed.envelope) {
            self.recap = Some(recap).filter(|recap| !recap.is_empty());
        }
        let Observed { id, call, tool, envelope, .. } = observed.clone();
        let seen = Seen::new(id, call, tool, &arguments, envelope);
        self.push(Item::Observation(Box::new(seen)));
        self.tools_or_model(open)
    }

    /// Whether the agent goes in a circle.
    fn watch(&mut self, call: Option<ToolCall>, envelope: &Envelope) {
        let Some(call) = call else { return };
        let mut result = envelope.clone();
        // What only says when it was is no other result.
        result.stats.clear();
        result.data.remove("mtime");
        let is_same = |(own, last): &(ToolCall, Envelope)| {
            own.name == call.name && own.arguments == call.arguments && *last == result
        };
        self.repeated = if self.last.as_ref().is_some_and(is_same) { self.repeated + 1 } else { 1 };
        self.last = Some((call, result));
    }

    /// No provider takes a call without its result.
    fn close_open_calls(&mut self, why: &str) {
        let answered = |call: &ToolCall| {
            let is_its =
                |item: &Item| matches!(item, Item::Observation(own) if own.call == call.id);
            self.thread.of_turn().iter().any(is_its)
        };
        let said = self.thread.of_turn().iter().filter_map(|item| match item {
            Item::Assistant(message) => Some(thread::calls(message)),
            Item::User(_) | Item::Note(_) | Item::Observation(_) => None,
        });
        let open: Vec<ToolCall> = said.flatten().filter(|call| !answered(call)).cloned().collect();
        for call in open {
            let id = self.next_observation();
            self.next_observation = self.next_observation.saturating_add(1);
            let envelope = Envelope::failed("STOPPED", why);
            let arguments = thread::flat(&call.arguments);
            let seen = Seen::new(id, call.id, call.name, &arguments, envelope);
            self.push(Item::Observation(Box::new(seen)));
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
        self.tokens = self.tokens.saturating_add(all_of(usage).unwrap_or(0));
    }

    /// The whole conversation as the model sees it now.
    pub fn messages(&self) -> Vec<Message> {
        self.messages_up_to(self.thread.items().len())
    }

    /// How many messages `messages_up_to` gives, without making them: a long history is megabytes.
    fn count_up_to(&self, end: usize) -> usize {
        let items = self.thread.items();
        let items = &items[..end.min(items.len())];
        let is_answer = |item: &Item| matches!(item, Item::Assistant(_));
        let begins =
            |(at, item): (usize, &Item)| is_answer(item) || at == 0 || is_answer(&items[at - 1]);
        items.iter().enumerate().filter(|own| begins(*own)).count()
    }

    fn messages_up_to(&self, end: usize) -> Vec<Message> {
        let items = self.thread.items();
        let messages = self.messages_of(&items[..end.min(items.len())]);
        debug_assert_eq!(messages.len(), self.count_up_to(end));
        messages
    }

    fn messages_of(&self, items: &[Item]) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::new();
        for item in items {
            let part = match item {
                Item::Assistant(message) => {
                    messages.push(message.clone());
                    continue;
                }
                Item::User(text) | Item::Note(text) => Part::Text { text: text.clone() },
                Item::Observation(seen) => match self.protocol {
                    Protocol::Native => Part::ToolResult(ToolResult {
                        call_id: seen.call.clone(),
                        content: seen.text.clone(),
                        is_error: seen.is_error(),
                    }),
                    Protocol::Json | Protocol::React => {
                        Part::Text { text: format!("[tool] {}", seen.text) }
                    }
                },
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
        messages
    }

    /// The next call of the model.
    pub fn request(&self, layers: &Layers) -> Request {
        let tools: Vec<Tool> = self.tools.iter().map(|own| own.tool.clone()).collect();
        let system = protocol::system(self.protocol, &layers.system, &tools, self.language);
        let mut system = vec![system];
        system.extend(Some(layers.rules.clone()).filter(|rules| !rules.is_empty()));
        system.extend(Some(self.thread.archive()).filter(|archive| !archive.is_empty()));
        Request {
            model: layers.model.clone(),
            max_output: layers.max_output,
            temperature: None,
            cache_key: layers.cache_key.clone(),
            format: protocol::format(self.protocol, &tools),
            tools: if self.protocol == Protocol::Native { tools } else { Vec::new() },
            no_calls: false,
            system,
            messages: self.messages(),
            cached_messages: self.sent,
            tail: self.recap.clone(),
        }
    }
}

/// What a call counted, in and out.
fn all_of(usage: &Usage) -> Option<u64> {
    let parts = [usage.input, usage.output, usage.cache_read, usage.cache_write];
    let all: u64 = parts.into_iter().flatten().map(|tokens| tokens.0).sum();
    (all > 0).then_some(all)
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
