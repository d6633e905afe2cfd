//! Calls of models on behalf of an evaluation: counted, within its budgets, stopped with it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_core::message::{Answer, Request, Stop as ModelStop, Usage};
use baton_core::scenario::judge::Question;

use super::{Ask, Stop, Taken, Target};
use crate::model::{Client, Kind, Tags, catalogue};
use crate::sandbox::Interrupt;

/// No call takes longer; the client's own limits are narrower.
const LONGEST: Duration = Duration::from_secs(3_600);

/// What all threads of an evaluation share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    interrupt: &'a Interrupt,
    end: Option<Instant>,
    most_tokens: Option<u64>,
    /// Nano-dollars.
    most_cost: Option<u64>,
    tokens: AtomicU64,
    /// Answers whose tokens nobody counted.
    uncounted: AtomicU64,
    spent: Mutex<catalogue::Tally>,
    /// Somebody found a reason to stop.
    stop: Mutex<Option<(Stop, String)>>,
    is_stopped: AtomicBool,
}

/// What an iteration has taken so far, as its files say.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) target: Usage,
    pub(super) judge: Usage,
}

/// Where nobody was asked, nothing is said.
pub(super) fn taken(usage: Usage) -> Option<Usage> {
    (usage != Usage::default()).then_some(usage)
}

/// Why a call gave nothing.
#[derive(Debug)]
pub(super) enum Failed {
    /// The evaluation stops: nothing of this counts.
    Stopped,
    /// The model could not be asked; `is_outage`: nor could it about anything else.
    Model { why: String, kind: &'static str, is_outage: bool },
    /// Its answer was wrong, twice.
    Wrong(String),
}

impl<'a> Shared<'a> {
    pub(super) fn new(ask: &Ask<'a>, end: Option<Instant>) -> Shared<'a> {
        Shared {
            interrupt: ask.interrupt,
            end,
            most_tokens: ask.tokens,
            most_cost: ask.cost,
            tokens: AtomicU64::new(0),
            uncounted: AtomicU64::new(0),
            spent: Mutex::default(),
            stop: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        }
    }

    pub(super) fn interrupt(&self) -> &Interrupt {
        self.interrupt
    }

    pub(super) fn stop(&self, stop: Stop, why: impl Into<String>) {
        let mut own = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        own.get_or_insert_with(|| (stop, why.into()));
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Looks at everything that may stop an evaluation.
    pub(super) fn is_stopped(&self) -> bool {
        if self.is_stopped.load(Ordering::SeqCst) {
            return true;
        }
        if self.interrupt.is_at_once() {
            self.stop(Stop::Interrupted, "interrupted");
        } else if self.end.is_some_and(|end| Instant::now() >= end) {
            self.stop(Stop::Deadline, "its time is over");
        } else if self.most_tokens.is_some_and(|most| self.tokens() >= most) {
            self.stop(Stop::Tokens, format!("{} tokens are spent", self.tokens()));
        } else if self.most_tokens.is_some() && self.uncounted.load(Ordering::SeqCst) > 0 {
            let why = "the server does not count tokens, so a budget of them cannot be kept";
            self.stop(Stop::Tokens, why);
        } else if let Some(why) = self.over_cost() {
            self.stop(Stop::Cost, why);
        } else {
            return false;
        }
        true
    }

    fn over_cost(&self) -> Option<String> {
        let most = self.most_cost?;
        let spent = self.spent();
        match spent.unknown_costs {
            0 => (spent.cost.0 >= most).then(|| format!("{} are spent", spent.cost)),
            _ => Some("a price is unknown, so a budget of cost cannot be kept".to_owned()),
        }
    }

    pub(super) fn stopped(&self) -> Option<(Stop, String)> {
        self.is_stopped();
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::SeqCst)
    }

    pub(super) fn spent(&self) -> catalogue::Tally {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn took(&self, usage: &Usage, target: &Target) {
        self.tokens.fetch_add(usage.total(), Ordering::SeqCst);
        let is_counted = usage.input.is_some() && usage.output.is_some();
        self.uncounted.fetch_add(u64::from(!is_counted), Ordering::SeqCst);
        let cost = catalogue::cost(usage, target.price.as_ref());
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).add(usage, cost);
    }

    /// What the files say that this iteration took before this call, as far as nobody has counted it
    /// yet: a process that was killed could not say it.
    pub(super) fn took_before(&self, ask: &Ask<'_>, before: &Before) {
        let mut cost = 0;
        for (usage, target) in [(&before.target, ask.target), (&before.judge, ask.judge)] {
            let own = catalogue::cost(usage, target.price.as_ref());
            cost += own.map_or(0, |own| own.0);
        }
        let tokens = before.target.total() + before.judge.total();
        self.tokens.fetch_add(tokens.saturating_sub(ask.counted.0), Ordering::SeqCst);
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.cost.0 += cost.saturating_sub(ask.counted.1);
    }

    /// What this call took, as far as it is known.
    pub(super) fn taken(&self) -> Taken {
        let spent = self.spent();
        Taken {
            tokens: (self.uncounted.load(Ordering::SeqCst) == 0).then(|| self.tokens()),
            cost: (spent.unknown_costs == 0).then_some(spent.cost.0),
        }
    }

    pub(super) fn call(
        &self,
        client: &Client,
        target: &Target,
        request: &Request,
        tags: &Tags,
    ) -> Result<Answer, Failed> {
        if self.is_stopped() {
            return Err(Failed::Stopped);
        }
        let stops = || self.is_stopped();
        let answer = client.call_within(request, tags, LONGEST, stops, &mut |_| {});
        if self.is_stopped.load(Ordering::SeqCst) && !matches!(answer, Some(Ok(_))) {
            return Err(Failed::Stopped);
        }
        match answer {
            None => Err(Failed::Model {
                why: format!("it took longer than {} s", LONGEST.as_secs()),
                kind: "timeout",
                is_outage: true,
            }),
            Some(Err(error)) => Err(Failed::Model {
                why: error.to_string(),
                kind: kind_of(error.kind),
                is_outage: is_outage(error.kind),
            }),
            Some(Ok(answer)) => {
                self.took(&answer.usage, target);
                Ok(answer)
            }
        }
    }

    /// Asks under a schema; an answer that cannot be used is corrected once, with what was wrong.
    pub(super) fn judged<T>(
        &self,
        client: &Client,
        judge: &Target,
        question: &Question,
        tags: &Tags,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<(T, Usage), Failed> {
        let voice = judge.voice();
        let mut usage = Usage::default();
        let mut correction: Option<(String, String)> = None;
        loop {
            let before = correction.as_ref().map(|(said, wrong)| (said.as_str(), wrong.as_str()));
            let request = question.request(&voice, before);
            let answer = self.call(client, judge, &request, tags)?;
            usage = usage.plus(answer.usage);
            let said = answer.text();
            let wrong = match (&answer.stop, read(&said)) {
                (_, Ok(out)) => return Ok((out, usage)),
                (ModelStop::MaxTokens, Err(_)) => {
                    "it was cut off at its limit of tokens".to_owned()
                }
                (_, Err(wrong)) => wrong,
            };
            if correction.is_some() {
                return Err(Failed::Wrong(wrong));
            }
            correction = Some((said, wrong));
        }
    }
}

/// Whether nothing else could be asked either; the others are about one conversation.
fn is_outage(kind: Kind) -> bool {
    match kind {
        Kind::Connection | Kind::Timeout | Kind::RateLimited | Kind::Provider | Kind::Denied => {
            true
        }
        Kind::ContextTooLong
        | Kind::Rejected
        | Kind::SchemaRefused
        | Kind::Malformed
        | Kind::NotRecorded => false,
    }
}

fn kind_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Connection => "connection",
        Kind::Timeout => "timeout",
        Kind::RateLimited => "rate-limited",
        Kind::Provider => "provider",
        Kind::ContextTooLong => "context-too-long",
        Kind::Denied => "denied",
        Kind::Rejected | Kind::SchemaRefused => "rejected",
        Kind::Malformed => "malformed",
        Kind::NotRecorded => "not-recorded",
    }
}
