//! The coding agent: asks the pure conversation what to do, does it, writes it down, folds it. The
//! transcript has every step before the next one begins, so that going on after an interruption is
//! this same loop, started from disk.

use std::path::Path;
use std::time::{Duration, Instant};

use baton_core::event::Runner;
use baton_core::id::{ObservationId, Tokens};
use baton_core::message::{Answer, Request, ToolCall, Usage};
use baton_core::messages::Language;
use baton_core::observation::Envelope;
use baton_core::text;
use baton_core::thread::compact::{self, Plan, Strategy};
use baton_core::turn::{
    Compacted, Conversation, Do, Ending, Layers, Limits, Observed, Protocol, Room, Step, SummaryAsk,
};

use crate::model::{self, Client, Delta, Mode, Tags, catalogue};
use crate::project_rules;
use crate::sandbox::Interrupt;
use crate::tool::{self, Workshop};
use crate::transcript::{self, Head, Transcript};
use crate::turns::{Changed, Kept, Turns};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Transcript(#[from] transcript::Error),
    #[error(transparent)]
    Model(#[from] model::Error),
    #[error("the transcript does not fit this program: {0}")]
    Misfit(#[from] baton_core::turn::Misfit),
    #[error("{0}")]
    Project(String),
    #[error("the project cannot be kept as it is, so nothing was changed: {0}")]
    Snapshot(#[from] crate::snapshot::Error),
}

/// The model that an agent thinks with.
#[derive(Debug, Clone)]
pub struct Mind {
    pub client: Client,
    pub model: String,
    pub max_output: Tokens,
    pub price: Option<catalogue::Price>,
    pub protocol: Protocol,
    /// How its conversations keep within its window.
    pub room: Room,
    /// Writes the summaries of archives; `None`: the model itself.
    pub summary_model: Option<String>,
    /// A summary that takes longer is done without.
    pub summary_limit: Duration,
    /// Calls in one turn, where its profile says so.
    pub steps: Option<u32>,
}

impl Mind {
    /// The model, where its price is not known.
    pub fn unpriced(&self) -> Option<&str> {
        self.price.is_none().then_some(self.model.as_str())
    }

    /// For the journal of a run.
    pub fn runner(&self) -> Runner {
        self.client.runner(&self.model)
    }
}

/// What those who watch are told.
#[derive(Debug)]
pub enum Heard<'a> {
    /// A piece of what the model says.
    Piece(&'a str),
    /// News of a call of the model: another try, something that the provider refused.
    Notice(String),
    Calls(&'a ToolCall),
    Result(&'a Observed),
    /// Something that a person should know.
    Said(String),
}

pub type Hear<'a> = &'a mut (dyn FnMut(Heard<'_>) + Send);

/// An agent at work.
#[derive(Debug)]
pub struct Agent {
    mind: Mind,
    tags: Tags,
    layers: Layers,
    /// The folder that is worked in, from the root.
    folder: String,
    workshop: Workshop,
    /// Keeps the project before a turn changes it.
    turns: Option<Turns>,
    transcript: Transcript,
    conversation: Conversation,
    /// Bytes of a torn last step that were cut off its transcript, until it is said.
    torn: usize,
    /// Nano-dollars; `None` once a call's cost was not known.
    cost: Option<u64>,
    cost_limit: Option<u64>,
    /// The share of the last refused request that would have fitted, in percent.
    fits: Option<usize>,
}

/// What an agent is made with.
#[derive(Debug)]
pub struct Setup {
    pub mind: Mind,
    pub tags: Tags,
    pub cache_key: String,
    pub folder: String,
    pub workshop: Workshop,
    pub limits: Limits,
    /// Nano-dollars that all its calls together may cost.
    pub cost_limit: Option<u64>,
    /// Facts about the machine that it knows from the beginning, one per line.
    pub facts: Vec<String>,
    /// The pack's words about who works here and how. `None`: Baton's coding agent.
    pub conduct: Option<String>,
    /// Keeps the project before a turn changes it. `None`: somebody else does, or nothing is changed.
    pub turns: Option<Turns>,
}

/// What a summary may take, usually.
pub const SUMMARY_LIMIT: Duration = Duration::from_secs(120);

/// Requests for one summary after the first: a smaller one, or one without what a model refuses.
const SUMMARY_TRIES: u32 = 4;

/// The part of a refused request that is tried next, in percent, where the provider gives no
/// figures.
const FITS: usize = 60;

/// The share of a request that was too long that would have fitted, in percent: by the figures of
/// the provider where its refusal has them.
fn fitting_percent(error: &model::Error) -> usize {
    let percent = error.window_share().map_or(FITS, |share| share * 9 / 10);
    percent.clamp(5, 90)
}

/// A call in a few words, for people.
pub fn brief(call: &ToolCall) -> String {
    let arguments = call.arguments.values().filter_map(|value| value.as_str());
    let first = arguments.into_iter().next().unwrap_or_default();
    let mut lines = first.lines();
    let line = text::shown(lines.next().unwrap_or_default(), 100);
    let more = if lines.next().is_some() && !line.ends_with('…') { " …" } else { "" };
    format!("{} {line}{more}", text::shown(&call.name, 40)).trim_end().to_owned()
}

/// L1. Every word of it is in every request. What depends on how an action is written must not
/// contradict the protocol's own words.
fn system(
    root: &Path,
    protocol: Protocol,
    facts: &[String],
    conduct: Option<&str>,
    language: Language,
) -> String {
    let words = match conduct {
        Some(conduct) => stage_words(conduct, protocol, language),
        None => coding_words(protocol),
    };
    let root = text::shown(&root.to_string_lossy(), 400);
    let mut out = format!("{words}\n\n{}\n", language.project_root(root));
    facts.iter().for_each(|fact| out.push_str(&format!("- {fact}\n")));
    out
}

/// The words about results, the same for every agent.
fn common_words(language: Language) -> &'static str {
    match language {
        Language::English => include_str!("agent/common.en.md").trim_end(),
        Language::Chinese => include_str!("agent/common.zh.md").trim_end(),
    }
}

/// The words about the number of calls in one answer.
fn calls_words(protocol: Protocol, language: Language) -> String {
    match protocol {
        Protocol::Native => language.several_calls(),
        Protocol::Json | Protocol::React => language.one_call(),
    }
}

/// The words for the agent of `exec` and `chat`, which talks to a user and has no pack.
fn coding_words(protocol: Protocol) -> String {
    let language = Language::English;
    let end = match protocol {
        Protocol::Native => "Then answer in plain text without a tool call:",
        Protocol::Json | Protocol::React => "Then end with Finish, whose answer says",
    };
    let words = include_str!("agent/coding.md").trim_end();
    words
        .replace("{{end}}", end)
        .replace("{{calls}}", &calls_words(protocol, language))
        .replace("{{common}}", common_words(language))
}

/// The words for the agent of a stage. The form of its last message is its prompt's alone to say.
fn stage_words(conduct: &str, protocol: Protocol, language: Language) -> String {
    let end = match protocol {
        Protocol::Native => language.end_without_call(),
        Protocol::Json | Protocol::React => language.end_with_finish(),
    };
    let words = match language {
        Language::English => include_str!("agent/stage.en.md").trim_end(),
        Language::Chinese => include_str!("agent/stage.zh.md").trim_end(),
    };
    // The pack's own words come last: nothing in them is a place to fill.
    words
        .replace("{{end}}", &end)
        .replace("{{calls}}", &calls_words(protocol, language))
        .replace("{{common}}", common_words(language))
        .replace("{{conduct}}", conduct)
}

impl Agent {
    /// A new conversation, its transcript in this folder.
    pub fn begin(setup: Setup, folder: &Path, disk: crate::store::Disk) -> Result<Agent, Error> {
        let (mind, shop) = (&setup.mind, &setup.workshop);
        let head = Head::new(mind.protocol, &mind.model, shop.root.path(), shop.writes)
            .leaving(&mind.room.compaction)
            .knowing(&setup.facts, mind.room.results)
            .speaking(mind.room.language, setup.conduct.as_deref());
        let transcript = Transcript::create(folder, &head, disk)?;
        Ok(Agent::assembled(setup, transcript))
    }

    /// Goes on with the conversation in this folder.
    pub fn resume(
        mut setup: Setup,
        folder: &Path,
        disk: crate::store::Disk,
    ) -> Result<Agent, Error> {
        let opened = Transcript::open(folder, disk)?;
        // An action is read as it was written.
        setup.mind.protocol = opened.head.protocol;
        if let Some((strategy, keep)) = opened.head.leaving {
            let own = &mut setup.mind.room.compaction;
            (own.strategy, own.keep) = (strategy, keep);
        }
        // What was sent keeps its bytes.
        setup.facts.clone_from(&opened.head.facts);
        setup.mind.room.results = opened.head.results;
        setup.mind.room.language = opened.head.language;
        setup.conduct.clone_from(&opened.head.conduct);
        let mut agent = Agent::assembled(setup, opened.transcript);
        agent.torn = opened.torn;
        for step in &opened.steps {
            agent.conversation.apply(step)?;
            match step {
                Step::Answered { answer } => agent.count(&answer.usage),
                Step::Corrected { .. } => agent.cost = Some(0),
                Step::Compacted(compacted) if compacted.usage != Usage::default() => {
                    agent.count(&compacted.usage);
                }
                _ => {}
            }
        }
        Ok(agent)
    }

    fn assembled(setup: Setup, transcript: Transcript) -> Agent {
        let Setup { mind, tags, cache_key, folder, workshop, limits, cost_limit, .. } = setup;
        let Setup { facts, conduct, turns, .. } = setup;
        let language = mind.room.language;
        let workshop = Workshop { language, ..workshop };
        let tools = workshop.offered();
        let conversation = Conversation::new(mind.protocol, tools, limits, mind.room.clone());
        let layers = Layers {
            model: mind.model.clone(),
            max_output: mind.max_output,
            cache_key,
            system: system(
                workshop.root.path(),
                mind.protocol,
                &facts,
                conduct.as_deref(),
                language,
            ),
            facts: facts.join("\n"),
            rules: String::new(),
        };
        let cost = Some(0);
        Agent {
            mind,
            tags,
            layers,
            folder,
            workshop,
            turns,
            transcript,
            conversation,
            torn: 0,
            cost,
            cost_limit,
            fits: None,
        }
    }

    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    pub fn transcript(&self) -> &Path {
        self.transcript.folder()
    }

    /// The pieces of the next request, as text, for people who want to see what fills it.
    pub fn ledger(&self) -> Vec<(&'static str, String)> {
        let request = self.conversation.request(&self.layers);
        let tools = serde_json::to_string(&request.tools).unwrap_or_default();
        let mut system = request.system.into_iter();
        let messages = serde_json::to_string(&request.messages).unwrap_or_default();
        vec![
            ("L1 words", system.next().unwrap_or_default()),
            ("L1 tools", tools),
            ("L2 project rules", self.rules()),
            ("L3 history and this turn", messages),
            ("todo", request.tail.unwrap_or_default()),
        ]
    }

    fn rules(&self) -> String {
        project_rules::block(&self.workshop.root, &self.folder, self.language())
    }

    /// The language of what code says to the model.
    fn language(&self) -> Language {
        self.mind.room.language
    }

    /// What it cost so far, in nano-dollars, where every call's price is known.
    pub fn cost(&self) -> Option<u64> {
        self.cost
    }

    /// The user's words with a reminder for each file that they mention, and notices for the user
    /// about mentions that are not files.
    pub fn with_mentions(&self, text: &str) -> (String, Vec<String>) {
        let root = &self.workshop.root;
        let mentions = baton_core::mention::find(text, |path| root.target(path));
        (mentions.appended(text), mentions.notices)
    }

    /// Continues a turn whose answer was refused. A correction that the conversation holds already
    /// is not repeated: a stage that was interrupted inside of it continues from there.
    pub fn correct(&mut self, number: u32, text: &str) -> Result<(), Error> {
        let is_new = self.conversation.corrected() < number;
        if is_new && self.conversation.takes_correction() {
            self.record(Step::Corrected { number, text: text.to_owned() })?;
            self.cost = Some(0);
        }
        Ok(())
    }

    /// Begins a turn.
    pub fn ask(&mut self, text: &str) -> Result<(), Error> {
        if let Some(turns) = &mut self.turns {
            turns.begin(text);
        }
        let at = Some(crate::drive::now().to_string());
        self.record(Step::Asked { text: text.to_owned(), at })
    }

    fn record(&mut self, step: Step) -> Result<(), Error> {
        self.transcript.append(&step)?;
        self.conversation.apply(&step)?;
        Ok(())
    }

    fn stop(&mut self, why: &str) -> Result<Ending, Error> {
        self.record(Step::Stopped { why: why.to_owned(), is_late: false })?;
        Ok(Ending::Stopped(why.to_owned()))
    }

    /// Ends a turn that cannot or shall not go on.
    pub fn close(&mut self, why: &str, hear: Hear<'_>) -> Result<(), Error> {
        while let Do::Settle(call) = self.conversation.next() {
            self.settle(&call, hear)?;
        }
        match self.conversation.next() {
            Do::End(Ending::Failed(why)) if self.conversation.is_open() => {
                self.stop(&why).map(drop)
            }
            Do::Wait | Do::End(Ending::Done(_) | Ending::Failed(_)) => Ok(()),
            _ => self.stop(why).map(drop),
        }
    }

    /// Goes on until the turn ends. `None`: a person interrupted it, and it may go on from here.
    pub fn run(
        &mut self,
        limit: Duration,
        interrupt: &Interrupt,
        hear: Hear<'_>,
    ) -> Result<Option<Ending>, Error> {
        self.workshop.shell.begin().map_err(Error::Project)?;
        self.workshop.shell.notices().into_iter().for_each(|own| hear(Heard::Notice(own)));
        let ending = self.until_it_ends(limit, interrupt, hear);
        self.workshop.shell.release();
        // What a person or a run is told must not be lost with the power.
        self.transcript.sync()?;
        ending
    }

    fn until_it_ends(
        &mut self,
        limit: Duration,
        interrupt: &Interrupt,
        hear: Hear<'_>,
    ) -> Result<Option<Ending>, Error> {
        let start = Instant::now();
        let torn = std::mem::take(&mut self.torn);
        if torn > 0 {
            hear(Heard::Said(format!("a torn step of {torn} bytes was cut off the transcript")));
        }
        loop {
            if interrupt.is_at_once() {
                return Ok(None);
            }
            let Some(left) = limit.checked_sub(start.elapsed()).filter(|left| !left.is_zero())
            else {
                let why = format!("it took longer than {} s", limit.as_secs());
                self.record(Step::Stopped { why: why.clone(), is_late: true })?;
                return Ok(Some(Ending::TimedOut(why)));
            };
            match self.conversation.next() {
                Do::CallModel => match self.call_model(left, interrupt, hear)? {
                    None => {}
                    Some(why) => return self.stop(&why).map(Some),
                },
                Do::Fold(results) => {
                    hear(Heard::Said(format!("{} earlier results were folded", results.len())));
                    self.record(Step::Folded { results })?;
                }
                Do::Compact(plan) => self.compact(plan, None, left, interrupt, hear)?,
                Do::Read(calls) => self.read(&calls, interrupt, hear)?,
                Do::Act(call) => {
                    if !self.keep_project(interrupt, hear)? {
                        return Ok(None);
                    }
                    self.record(Step::Started { call: call.id.clone() })?;
                    hear(Heard::Calls(&call));
                    let id = self.conversation.next_observation();
                    let shop = &self.workshop;
                    let result = shop.run(&call, id, &self.transcript, interrupt);
                    shop.shell.notices().into_iter().for_each(|own| hear(Heard::Notice(own)));
                    self.observe(&call, id, result, hear)?;
                }
                Do::Settle(call) => self.settle(&call, hear)?,
                Do::Wait => return Ok(Some(Ending::Stopped("nothing was asked".to_owned()))),
                Do::End(Ending::Stopped(why)) => return self.stop(&why).map(Some),
                // Another turn may begin, with less in it or with other limits.
                Do::End(Ending::Failed(why)) if self.conversation.is_open() => {
                    return self.stop(&why).map(Some);
                }
                Do::End(ending) => return Ok(Some(ending)),
            }
        }
    }

    /// False if the user stopped it meanwhile.
    fn keep_project(&mut self, interrupt: &Interrupt, hear: Hear<'_>) -> Result<bool, Error> {
        let Some(turns) = &mut self.turns else { return Ok(true) };
        match turns.before_act(interrupt)? {
            Kept::Yes(news) => {
                news.into_iter().for_each(|own| hear(Heard::Notice(own)));
                Ok(true)
            }
            Kept::Interrupted => Ok(false),
        }
    }

    /// What the current turn changed in the project, where that is kept.
    pub fn changed(&mut self) -> Result<Option<Changed>, Error> {
        Ok(self.turns.as_mut().map(Turns::changed).transpose()?.flatten())
    }

    /// `Some`: why the turn cannot go on.
    fn call_model(
        &mut self,
        left: Duration,
        interrupt: &Interrupt,
        hear: Hear<'_>,
    ) -> Result<Option<String>, Error> {
        self.layers.rules = self.rules();
        #[cfg(debug_assertions)]
        self.assert_true();
        let request = self.conversation.request(&self.layers);
        if let Some(why) = self.conversation.over_limit(0).or_else(|| self.over_cost()) {
            return Ok(Some(why));
        }
        let client = &self.mind.client;
        if self.conversation.has_budget() {
            // Four bytes are about a token; the provider's own count follows with the answer.
            let size = client.body(&request, Mode::Stream).len() as u64 / 4;
            if let Some(why) = self.conversation.over_limit(size) {
                return Ok(Some(why));
            }
        }
        let mut heard = |delta: Delta| match delta {
            Delta::Text(text) | Delta::Thinking(text) => hear(Heard::Piece(&text)),
            Delta::Again(again) => hear(Heard::Notice(again.to_string())),
            Delta::Notice(words) => hear(Heard::Notice(words)),
        };
        let is_stopped = || interrupt.is_at_once();
        self.workshop.make_ready();
        let answer = client.call_within(&request, &self.tags, left, is_stopped, &mut heard);
        match answer {
            // The loop says which of the two it was.
            None => Ok(None),
            // What the provider says of its window is truer than what we counted.
            Some(Err(error)) if error.kind == model::Kind::ContextTooLong => {
                hear(Heard::Said("the provider says that the request is too long".to_owned()));
                self.fits = Some(fitting_percent(&error));
                self.record(Step::TooLong)?;
                Ok(None)
            }
            Some(answer) => {
                let answer = answer?;
                self.count(&answer.usage);
                self.record(Step::Answered { answer: Box::new(answer) })?;
                Ok(None)
            }
        }
    }

    /// Compares the results that the next request has with those on the disk, by the lab's checker.
    #[cfg(debug_assertions)]
    fn assert_true(&self) {
        use baton_core::lab::truth::{self, SentResult, Verdict};
        use baton_core::observation::plain;
        use baton_core::thread::{Item, Results};
        if self.mind.room.results == Results::Json {
            return;
        }
        let items = self.conversation.thread().items();
        let sent = items.iter().filter_map(|item| match item {
            Item::Observation(seen) => Some(SentResult { id: seen.id, text: &seen.text }),
            Item::User(_) | Item::Note(_) | Item::Assistant(_) => None,
        });
        let sent: Vec<SentResult<'_>> = sent.collect();
        let returned = |id: ObservationId| {
            let (tool, envelope) = tool::Archive::observation(&self.transcript, id)?;
            Some(plain::plain(&tool, &envelope, self.language()).text(id).into())
        };
        for (id, verdict) in truth::judge(&sent, returned) {
            assert!(!matches!(verdict, Verdict::False(_)), "{id} is not true: {verdict:?}");
        }
    }

    /// The oldest part of the conversation leaves it. Until that is written down, everything is as
    /// it was.
    fn compact(
        &mut self,
        plan: Plan,
        focus: Option<&str>,
        left: Duration,
        interrupt: &Interrupt,
        hear: Hear<'_>,
    ) -> Result<(), Error> {
        let before = self.conversation.size();
        hear(Heard::Said(format!("compacting the conversation: it has about {before} tokens")));
        self.layers.rules = self.rules();
        // The conversation that was just refused would be refused again.
        let is_refused = self.conversation.is_too_long();
        let fits = is_refused.then(|| self.fits.take().unwrap_or(FITS));
        let ask = SummaryAsk { focus, percent: fits, now: None };
        let (_, words) = self.conversation.summary_request(&plan, &self.layers, &ask);
        let mut usage = Usage::default();
        let summary = match plan.cut {
            // Nothing leaves, so there is nothing to sum up.
            0 => Ok(None),
            _ => self.summary(&plan, ask, left, interrupt, &mut usage).map(Some),
        };
        if interrupt.is_at_once() {
            return Ok(());
        }
        let (summary, why) = match summary {
            Ok(summary) => (summary, None),
            Err(why) => (None, Some(why)),
        };
        for said in plan.said.iter().chain(&why) {
            hear(Heard::Said(said.clone()));
        }
        let compacted = Box::new(Compacted { plan, request: words, summary, why, usage });
        self.record(Step::Compacted(compacted))?;
        let after = self.conversation.size();
        hear(Heard::Said(format!("compacted: about {before} tokens became {after}")));
        Ok(())
    }

    /// The summary of the part that leaves, or why there is none. An answer that cannot be used is
    /// asked for once more, with the reason.
    fn summary(
        &mut self,
        plan: &Plan,
        ask: SummaryAsk<'_>,
        left: Duration,
        interrupt: &Interrupt,
        usage: &mut Usage,
    ) -> Result<String, String> {
        let limit = self.mind.summary_limit.min(left);
        let start = Instant::now();
        let language = self.language();
        let failed = |why: &str| language.summary_failed(text::shown(why, 200));
        let mut refused: Option<(String, String)> = None;
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let answer = match self.answered_summary(plan, ask, refused.as_ref(), left, interrupt) {
                Ok(Some(answer)) => answer,
                Ok(None) => return Err(language.summary_timed_out()),
                Err(why) => return Err(failed(&why)),
            };
            *usage = usage.plus(answer.usage);
            self.count(&answer.usage);
            let said = answer.text();
            match self.conversation.checked_summary(plan, &said) {
                Ok(summary) => return Ok(summary),
                Err(why) if refused.is_some() => return Err(failed(&why)),
                Err(why) => refused = Some((said, why)),
            }
        }
    }

    /// One answer. `refused`: what was answered before, and why it cannot be used. `None`: there was
    /// no time for it.
    fn answered_summary(
        &self,
        plan: &Plan,
        ask: SummaryAsk<'_>,
        refused: Option<&(String, String)>,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<Option<Answer>, String> {
        let now = crate::drive::now().to_string();
        let start = Instant::now();
        let mut ask = SummaryAsk { now: Some(&now), ..ask };
        let mut has_temperature = true;
        for tries in 0.. {
            let (mut request, _) = self.conversation.summary_request(plan, &self.layers, &ask);
            if plan.strategy == Strategy::Archive
                && let Some(model) = &self.mind.summary_model
            {
                request.model.clone_from(model);
            }
            if let Some((said, why)) = refused {
                compact::ask_again(&mut request.messages, said, why, self.language());
            }
            request.temperature = request.temperature.filter(|_| has_temperature);
            let left = limit.saturating_sub(start.elapsed());
            match self.call_for_summary(&request, left, interrupt) {
                None => return Ok(None),
                Some(Ok(answer)) => return Ok(Some(answer)),
                Some(Err(error)) if tries >= SUMMARY_TRIES => return Err(error.to_string()),
                // Some models do not let their temperature be set.
                Some(Err(error)) if error.kind == model::Kind::Rejected && has_temperature => {
                    has_temperature = false;
                }
                // Less of it, until it fits.
                Some(Err(error)) if error.kind == model::Kind::ContextTooLong => {
                    let percent = ask.percent.unwrap_or(100) * fitting_percent(&error) / 100;
                    ask.percent = Some(percent);
                }
                Some(Err(error)) if error.kind == model::Kind::Timeout => return Ok(None),
                Some(Err(error)) => return Err(error.to_string()),
            }
        }
        Ok(None)
    }

    fn call_for_summary(
        &self,
        request: &Request,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Option<Result<Answer, model::Error>> {
        let is_stopped = || interrupt.is_at_once();
        self.mind.client.call_within(request, &self.tags, limit, is_stopped, &mut |_| {})
    }

    /// Compacts now, because a person wants it. `Err`: why it cannot be done.
    pub fn compact_now(
        &mut self,
        focus: Option<&str>,
        interrupt: &Interrupt,
        hear: Hear<'_>,
    ) -> Result<Result<(), String>, Error> {
        // A turn that was interrupted is over: nothing may leave between a call and its result.
        self.close("the conversation was compacted", hear)?;
        match self.conversation.plan_compaction(true) {
            Err(why) => Ok(Err(why)),
            Ok(plan) => {
                let limit = self.mind.summary_limit;
                self.compact(plan, focus, limit, interrupt, hear).map(Ok)
            }
        }
    }

    fn count(&mut self, usage: &Usage) {
        let cost = catalogue::cost(usage, self.mind.price.as_ref()).map(|cost| cost.0);
        self.cost = self.cost.zip(cost).map(|(sum, cost)| sum.saturating_add(cost));
    }

    fn over_cost(&self) -> Option<String> {
        let most = self.cost_limit?;
        match self.cost {
            None => Some(
                "the cost of a call is unknown, so the budget of cost cannot be kept".to_owned(),
            ),
            Some(cost) if cost >= most => {
                Some(format!("the budget of cost is used up: {cost} of {most} nano-dollars"))
            }
            Some(_) => None,
        }
    }

    /// Calls that change nothing, all at once.
    fn read(
        &mut self,
        calls: &[ToolCall],
        interrupt: &Interrupt,
        hear: Hear<'_>,
    ) -> Result<(), Error> {
        let first = self.conversation.next_observation().0;
        let (shop, transcript) = (&self.workshop, &self.transcript);
        let language = self.language();
        let run = |index: usize, call: &ToolCall| {
            let id = ObservationId(first + u32::try_from(index).unwrap_or(0));
            (id, shop.run(call, id, transcript, interrupt))
        };
        for call in calls {
            hear(Heard::Calls(call));
        }
        let results: Vec<(ObservationId, tool::Ran)> = match calls {
            [call] => vec![run(0, call)],
            calls => std::thread::scope(|scope| {
                let run = &run;
                // Where no thread can be started, one call after the other.
                let start = |index: usize, call| {
                    let thread = std::thread::Builder::new();
                    let started = thread.spawn_scoped(scope, move || run(index, call));
                    started.map_err(|_| Box::new(run(index, call)))
                };
                let threads: Vec<_> =
                    calls.iter().enumerate().map(|(index, call)| start(index, call)).collect();
                let broken = || tool::Ran {
                    envelope: Envelope::failed("INTERNAL", language.tool_broke_down()),
                    is_malformed: false,
                };
                threads
                    .into_iter()
                    .enumerate()
                    .map(|(index, thread)| {
                        let id = ObservationId(first + u32::try_from(index).unwrap_or(0));
                        match thread {
                            Ok(thread) => thread.join().unwrap_or_else(|_| (id, broken())),
                            Err(done) => *done,
                        }
                    })
                    .collect()
            }),
        };
        for (call, (id, result)) in calls.iter().zip(results) {
            self.observe(call, id, result, hear)?;
        }
        Ok(())
    }

    fn observe(
        &mut self,
        call: &ToolCall,
        id: ObservationId,
        result: tool::Ran,
        hear: Hear<'_>,
    ) -> Result<(), Error> {
        let tool::Ran { envelope, is_malformed } = result;
        let envelope = self.settled(call, envelope, hear);
        let (call, tool) = (call.id.clone(), call.name.clone());
        let observed = Box::new(Observed { id, call, tool, envelope, is_malformed });
        hear(Heard::Result(&observed));
        self.record(Step::Observed(observed))
    }

    /// The result that counts: in a replay the recorded one of a command, if the command ended as it
    /// did then. Its output differs from run to run.
    fn settled(&self, call: &ToolCall, envelope: Envelope, hear: Hear<'_>) -> Envelope {
        if !self.mind.client.is_taped() || !["Bash", "Recall"].contains(&call.name.as_str()) {
            return envelope;
        }
        let what = format!("{} {}", call.name, serde_json::Value::Object(call.arguments.clone()));
        let code = envelope.error.as_ref().map_or("", |error| error.code.as_str());
        let exit = envelope.data.get("exit").map_or(String::new(), ToString::to_string);
        let how = format!("{:?} {exit} {code}", envelope.status);
        let result = serde_json::to_value(&envelope).unwrap_or_default();
        match self.mind.client.settled(&what, how.trim_end(), result) {
            Ok(result) => serde_json::from_value(result).unwrap_or(envelope),
            Err(why) => {
                hear(Heard::Said(why));
                envelope
            }
        }
    }

    /// A call that was begun and whose result nobody knows is never run again by itself.
    fn settle(&mut self, call: &ToolCall, hear: Hear<'_>) -> Result<(), Error> {
        let said = format!(
            "{} was interrupted: whether it happened is unknown, and the agent is told so",
            text::shown(&call.name, 40)
        );
        hear(Heard::Said(said));
        let envelope = Envelope::failed("UNKNOWN", self.language().call_unknown());
        let id = self.conversation.next_observation();
        self.observe(call, id, tool::Ran { envelope, is_malformed: false }, hear)
    }
}
