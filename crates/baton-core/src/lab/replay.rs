//! A session once more, as a policy would have shown it to the model: before each call the policy
//! says what it would have sent. Goes in: a session and a policy. Comes out: sums, from which recall,
//! cost and all other figures follow; sums of sessions add up.
//!
//! What a call reads again from the provider's cache is what it shares from its beginning on with the
//! call before; what it writes is what the next call will read. The actions stay as they were: what
//! an agent would have done instead is not known.

use super::need::{Need, Prepared};
use super::session;
use crate::fact::{self, Fact};

/// Providers keep no shorter beginning than this.
const LEAST_CACHED: u64 = 1024;

/// Prices in twentieths of a token of input: whole numbers, so that sums do not depend on order.
const PLAIN: u64 = 20;
/// 0.1
const READ: u64 = 2;
/// 1.25
const WRITE: u64 = 25;
/// The words of the call that fetches something again: 150 tokens of output at the fivefold price.
const ASKING: u64 = 150 * 5 * PLAIN;

/// A policy's own text, by the number that the policy gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormId(pub u32);

/// A piece of what a call sends. Two that are equal have the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Piece {
    /// A message as it was, by its place in the session.
    Whole(usize),
    /// A message in another form. It tells no fact that the message did not tell: a number that a
    /// form happens to hold is not the one that was needed.
    Formed(usize, FormId),
    /// A text that stands for no single message.
    Inserted(FormId),
}

/// What a policy shows instead of a message, or beside them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Form {
    pub tokens: u32,
    /// In the order of their hashes.
    facts: Vec<Fact>,
}

impl Form {
    /// A text, with what a message takes around it.
    pub fn of(text: &str) -> Form {
        Form { tokens: session::tokens_of(text), facts: fact::of(text) }
    }

    /// A text of another size than the usual estimate.
    pub fn with_tokens(tokens: u32, text: &str) -> Form {
        Form { tokens, facts: fact::of(text) }
    }

    /// A form that tells nothing.
    pub const fn silent(tokens: u32) -> Form {
        Form { tokens, facts: Vec::new() }
    }

    pub fn tells(&self, fact: Fact) -> bool {
        self.facts.binary_search(&fact).is_ok()
    }
}

/// A way to show a history. One value replays one session, call by call, in order.
pub trait Policy: std::fmt::Debug {
    /// What the call sends whose answer is the message `call`: only what stands before it is known.
    fn view(&mut self, session: &Prepared, call: usize) -> Vec<Piece>;

    /// A form that the last view named.
    fn form(&self, id: FormId) -> &Form;

    /// The text of that form. None where the policy takes a result out without a word on it.
    fn text(&self, _: FormId) -> Option<&str> {
        None
    }
}

/// How many were needed, and how many of them were in sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    pub needed: u64,
    pub seen: u64,
}

impl Count {
    fn add(&mut self, is_seen: bool) {
        self.needed += 1;
        self.seen += u64::from(is_seen);
    }

    fn join(&mut self, other: Count) {
        self.needed += other.needed;
        self.seen += other.seen;
    }

    /// Of what was needed; nothing where nothing was.
    pub fn share(self) -> Option<f64> {
        ratio(self.seen, self.needed)
    }
}

/// What a policy did, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    pub sessions: u64,
    pub calls: u64,
    /// Facts that actions needed.
    pub facts: Count,
    /// Of them, those that the agent had never written before.
    pub first: Count,
    /// Told last more than ten results ago.
    pub old: Count,
    /// Told last before a compaction.
    pub cross: Count,
    pub cross_first: Count,
    /// Calls that needed something, and those that saw all of it.
    pub steps: Count,
    pub tokens: u64,
    /// Tokens that came from the cache.
    pub read: u64,
    /// In twentieths of a token of input.
    pub cost: u64,
    /// What fetching again costs that was needed and not in sight, in the same unit.
    pub fetching: u64,
    /// The largest call of each session, summed up.
    pub peaks: u64,
    /// The largest call of all.
    pub peak_most: u64,
}

/// Of a policy, in the words of people.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Figures {
    /// The share of needed facts that were in sight.
    pub nfr: Option<f64>,
    pub nfr_first: Option<f64>,
    pub nfr_old: Option<f64>,
    pub steps_ok: Option<f64>,
    pub tokens_per_call: Option<f64>,
    /// The largest call of a session, on average.
    pub peak: Option<f64>,
    pub hit_rate: Option<f64>,
    pub relative_cost: Option<f64>,
    /// The cost with the calls that fetch again what was not in sight.
    pub adj: Option<f64>,
    pub cross: Option<f64>,
    pub cross_first: Option<f64>,
}

impl Sums {
    pub fn join(&mut self, other: &Sums) {
        self.sessions += other.sessions;
        self.calls += other.calls;
        self.facts.join(other.facts);
        self.first.join(other.first);
        self.old.join(other.old);
        self.cross.join(other.cross);
        self.cross_first.join(other.cross_first);
        self.steps.join(other.steps);
        self.tokens += other.tokens;
        self.read += other.read;
        self.cost += other.cost;
        self.fetching += other.fetching;
        self.peaks += other.peaks;
        self.peak_most = self.peak_most.max(other.peak_most);
    }

    /// Costs are relative to those of `base` over the same sessions.
    pub fn figures(&self, base: &Sums) -> Figures {
        Figures {
            nfr: self.facts.share(),
            nfr_first: self.first.share(),
            nfr_old: self.old.share(),
            steps_ok: self.steps.share(),
            tokens_per_call: ratio(self.tokens, self.calls),
            peak: ratio(self.peaks, self.sessions),
            hit_rate: ratio(self.read, self.tokens),
            relative_cost: ratio(self.cost, base.cost),
            adj: ratio(self.cost + self.fetching, base.cost),
            cross: self.cross.share(),
            cross_first: self.cross_first.share(),
        }
    }

    fn count(&mut self, need: &Need, is_seen: bool) {
        self.facts.add(is_seen);
        if need.is_first {
            self.first.add(is_seen);
        }
        if need.age > 10 {
            self.old.add(is_seen);
        }
        if need.crosses {
            self.cross.add(is_seen);
            if need.is_first {
                self.cross_first.add(is_seen);
            }
        }
    }

    fn pay(&mut self, tokens: u64, from_cache: u64, for_next: u64) {
        let read = from_cache.min(tokens);
        let write = for_next.min(tokens).saturating_sub(read);
        self.read += read;
        self.cost += read * READ + write * WRITE + (tokens - read - write) * PLAIN;
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Replays a session.
pub fn run(session: &Prepared, policy: &mut dyn Policy) -> Sums {
    watched(session, policy, |_, _, _| {})
}

/// Replays a session, and shows each call with what it sends.
pub(super) fn watched(
    session: &Prepared,
    policy: &mut dyn Policy,
    mut watch: impl FnMut(usize, &[Piece], &dyn Policy),
) -> Sums {
    let mut sums = Sums { sessions: 1, ..Sums::default() };
    let mut sight = Sight::new(session.messages().len());
    // The call before: its pieces, its tokens, and what it read from the cache.
    let mut last: Option<(Vec<Piece>, u64, u64)> = None;
    let mut peak = 0;
    for (call, needs) in session.calls.iter().zip(&session.needs) {
        let view = policy.view(session, *call);
        watch(*call, &view, policy);
        let size = |piece: &Piece| u64::from(tokens_of(piece, session, policy));
        let over = u64::from(session.session.over);
        let tokens = over + view.iter().map(size).sum::<u64>();
        let mut from_cache = 0;
        if let Some((before, tokens, read)) = &last {
            let shared = before.iter().zip(&view).take_while(|(old, new)| old == new);
            let shared = over + shared.map(|(_, piece)| size(piece)).sum::<u64>();
            from_cache = if shared >= LEAST_CACHED { shared } else { 0 };
            sums.pay(*tokens, *read, from_cache);
        }
        sums.calls += 1;
        sums.tokens += tokens;
        peak = peak.max(tokens);
        if !needs.is_empty() {
            sight.look(&view);
            recall(session, policy, *call, needs, &sight, tokens, &mut sums);
        }
        last = Some((view, tokens, from_cache));
    }
    if let Some((_, tokens, read)) = last {
        sums.pay(tokens, read, 0);
    }
    (sums.peaks, sums.peak_most) = (peak, peak);
    sums
}

fn tokens_of(piece: &Piece, session: &Prepared, policy: &dyn Policy) -> u32 {
    match piece {
        Piece::Whole(at) => session.messages()[*at].tokens,
        Piece::Formed(_, form) | Piece::Inserted(form) => policy.form(*form).tokens,
    }
}

/// Which messages a view shows, and in which form.
struct Sight {
    shown: Vec<Option<Shown>>,
    inserted: Vec<FormId>,
}

#[derive(Clone, Copy)]
enum Shown {
    Whole,
    As(FormId),
}

impl Sight {
    fn new(messages: usize) -> Sight {
        Sight { shown: vec![None; messages], inserted: Vec::new() }
    }

    fn look(&mut self, view: &[Piece]) {
        self.shown.fill(None);
        self.inserted.clear();
        for piece in view {
            match *piece {
                Piece::Whole(at) => self.shown[at] = Some(Shown::Whole),
                Piece::Formed(at, form) => self.shown[at] = Some(Shown::As(form)),
                Piece::Inserted(form) => self.inserted.push(form),
            }
        }
    }
}

/// Counts what a call needed, and what it would cost to fetch the rest again: one more call, which
/// reads the history from the cache, and the results that told it last.
fn recall(
    session: &Prepared,
    policy: &dyn Policy,
    call: usize,
    needs: &[Need],
    sight: &Sight,
    tokens: u64,
    sums: &mut Sums,
) {
    let mut again: Vec<usize> = Vec::new();
    for need in needs {
        let is_told = |at: usize| match sight.shown[at] {
            None => false,
            Some(Shown::Whole) => true,
            Some(Shown::As(form)) => policy.form(form).tells(need.fact),
        };
        let is_seen = session.places(need, call).any(is_told)
            || sight.inserted.iter().any(|form| policy.form(*form).tells(need.fact));
        sums.count(need, is_seen);
        if !is_seen {
            again.push(need.told_by);
        }
    }
    sums.steps.add(again.is_empty());
    if again.is_empty() {
        return;
    }
    again.sort_unstable();
    again.dedup();
    let results: u64 = again.iter().map(|at| u64::from(session.messages()[*at].tokens)).sum();
    sums.fetching += tokens * READ + results * WRITE + ASKING;
}
