//! Which facts each action of a session needed: those of its arguments, and the lines that an edit
//! replaces, that the agent can only have had from a tool result. Goes in: a session. Comes out: the
//! session with the needs of each call, and where each needed fact stands.
//!
//! A fact that was given by a person or the instructions is never needed, nor one that no result has
//! told (the agent made it up), nor one that more than three results told (it is everywhere).

use std::hash::{BuildHasherDefault, Hasher};

use indexmap::IndexSet;

use super::session::{Act, Message, Role, Session};
use crate::fact::{self, Fact};

/// A fact that more results than these have told is not counted: any history shows it.
const RARE: u32 = 3;

/// A fact that an action needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    pub fact: Fact,
    /// The agent itself has never written it before.
    pub is_first: bool,
    /// Results since the last one that told it.
    pub age: u32,
    /// The last result that told it stands before a compaction.
    pub crosses: bool,
    /// The message of that result.
    pub told_by: usize,
    /// Its number among the tracked facts.
    number: usize,
}

/// A session that can be replayed.
#[derive(Debug)]
pub struct Prepared {
    pub session: Session,
    /// The messages that are answers of the model.
    pub calls: Vec<usize>,
    /// Of each call.
    pub needs: Vec<Vec<Need>>,
    /// By the number of a fact: the messages that hold it, in their order.
    places: Vec<Vec<usize>>,
    /// By message: the act of an earlier message that it is the result of.
    result_of: Vec<Option<(usize, usize)>>,
}

impl Prepared {
    pub fn new(session: Session) -> Prepared {
        let messages = &session.messages;
        let is_call = |at: &usize| messages[*at].role == Role::Assistant;
        let calls: Vec<usize> = (0..messages.len()).filter(is_call).collect();
        let mut tracked = Tracked::default();
        let wanted: Vec<Vec<usize>> =
            calls.iter().map(|at| tracked.wanted_by(&messages[*at].acts)).collect();
        let mut walk = Walk::new(tracked.facts.len());
        let mut needs = Vec::with_capacity(calls.len());
        for (at, message) in messages.iter().enumerate() {
            let told = tracked.facts_of(message);
            if message.role == Role::Assistant {
                needs.push(walk.needs(&wanted[needs.len()], &tracked));
            }
            walk.pass(at, message, &told);
        }
        let (places, result_of) = (walk.places, results(messages));
        Prepared { session, calls, needs, places, result_of }
    }

    pub fn messages(&self) -> &[Message] {
        &self.session.messages
    }

    /// The messages before `end` that hold a needed fact, in their order.
    pub fn places(&self, need: &Need, end: usize) -> impl Iterator<Item = usize> {
        self.places[need.number].iter().copied().take_while(move |at| *at < end)
    }

    /// The act that a message is the result of, where the recording tells it: results stand in the
    /// order of their calls.
    pub fn act_behind(&self, message: usize) -> Option<&Act> {
        let (asked, act) = (*self.result_of.get(message)?)?;
        self.session.messages.get(asked)?.acts.get(act)
    }
}

/// Facts are hashes already.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Facts that some action names: all others are never asked for, and most of a session's are.
#[derive(Default)]
struct Tracked {
    facts: IndexSet<Fact, BuildHasherDefault<AsIs>>,
}

impl Tracked {
    fn wanted_by(&mut self, acts: &[Act]) -> Vec<usize> {
        let mut wanted = Vec::new();
        let mut add = |fact: Fact| wanted.push(self.facts.insert_full(fact).0);
        for act in acts.iter().filter(|act| !act.is_note()) {
            fact::each_word(&act.arguments, |class, words| add(Fact::new(class, words)));
            act.old.split('\n').filter_map(fact::of_line).for_each(&mut add);
        }
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    fn facts_of(&self, message: &Message) -> Vec<usize> {
        let body = message.body();
        let mut told = Vec::new();
        let mut add = |fact: Fact| told.extend(self.facts.get_index_of(&fact));
        fact::each_word(&body, |class, words| add(Fact::new(class, words)));
        body.split('\n').filter_map(fact::of_line).for_each(&mut add);
        told.sort_unstable();
        told.dedup();
        told
    }
}

/// What is known of each tracked fact, as far as the session was read.
struct Walk {
    is_given: Vec<bool>,
    is_said: Vec<bool>,
    /// The number of the last result that told it, counted from 1, and that result's message.
    last: Vec<Option<(u32, usize)>>,
    told: Vec<u32>,
    places: Vec<Vec<usize>>,
    results: u32,
    /// Results before the last compaction.
    compacted: Option<u32>,
}

impl Walk {
    fn new(facts: usize) -> Walk {
        Walk {
            is_given: vec![false; facts],
            is_said: vec![false; facts],
            last: vec![None; facts],
            told: vec![0; facts],
            places: vec![Vec::new(); facts],
            results: 0,
            compacted: None,
        }
    }

    fn needs(&self, wanted: &[usize], tracked: &Tracked) -> Vec<Need> {
        let need = |number: &usize| {
            let number = *number;
            let (result, told_by) = self.last[number]?;
            if self.is_given[number] || self.told[number] > RARE {
                return None;
            }
            Some(Need {
                fact: *tracked.facts.get_index(number)?,
                is_first: !self.is_said[number],
                age: self.results - result,
                crosses: self.compacted.is_some_and(|results| result <= results),
                told_by,
                number,
            })
        };
        wanted.iter().filter_map(need).collect()
    }

    fn pass(&mut self, at: usize, message: &Message, facts: &[usize]) {
        match message.role {
            // The words of the recorded program: a replay has not written them.
            _ if message.is_summary => {
                self.compacted = Some(self.results);
                return;
            }
            Role::Assistant => facts.iter().for_each(|fact| self.is_said[*fact] = true),
            Role::System | Role::User => facts.iter().for_each(|fact| self.is_given[*fact] = true),
            Role::Observation => {
                self.results += 1;
                for fact in facts {
                    self.last[*fact] = Some((self.results, at));
                    self.told[*fact] += 1;
                }
            }
        }
        for fact in facts {
            self.places[*fact].push(at);
        }
    }
}

/// Results follow their calls in the same order.
fn results(messages: &[Message]) -> Vec<Option<(usize, usize)>> {
    let mut open = 0..0;
    let mut asked = 0;
    let of = |(at, message): (usize, &Message)| match message.role {
        Role::Assistant => {
            (asked, open) = (at, 0..message.acts.len());
            None
        }
        Role::Observation => open.next().map(|act| (asked, act)),
        Role::System | Role::User => None,
    };
    messages.iter().enumerate().map(of).collect()
}
