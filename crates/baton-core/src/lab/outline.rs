//! The effect of a compaction on a recorded conversation, message by message, without calling a
//! model: `baton debug compact`. The plan is made by the agent's own code.

use serde::Serialize;

use super::need::Prepared;
use super::own;
use super::session::{Role, Session};
use crate::fold::Prices;
use crate::id::ObservationId;
use crate::message::Part;
use crate::messages::Language;
use crate::thread::compact::{Plan, Settings, Strategy};
use crate::thread::{Form, Item, Results, Thread};
use crate::turn::Room;

/// The fate of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Instructions: not part of what is compacted.
    Apart,
    Leaves,
    Stays,
    /// It stays as a stub.
    Stub,
    /// It stays without some of its lines.
    Cut,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// Or why nothing can leave.
    pub plan: Result<Plan, String>,
    /// One for each message.
    pub fates: Vec<Fate>,
    /// The ids of the results, by message.
    pub ids: Vec<Option<ObservationId>>,
    /// Tokens of the conversation, estimated.
    pub before: usize,
    /// Afterwards, without the summary that a model would write.
    pub after: usize,
    /// The text that code puts in place of the messages that leave.
    pub in_place: String,
}

impl Outline {
    /// The first message that stays.
    pub fn cut(&self) -> usize {
        self.fates.iter().rposition(|fate| *fate == Fate::Leaves).map_or(0, |last| last + 1)
    }
}

/// Tokens of a recorded conversation with what is before it, estimated.
pub fn size(session: &Session) -> u64 {
    let tokens = session.messages.iter().map(|message| u64::from(message.tokens));
    u64::from(session.over) + tokens.sum::<u64>()
}

/// `is_asked`: as if the user had asked for it, whatever the sizes are.
pub fn outline(session: Session, settings: &Settings, is_asked: bool) -> Outline {
    let mut thread = thread(settings);
    let session = Prepared::new(session);
    let messages = session.messages();
    let mut origins: Vec<usize> = Vec::new();
    let mut ids: Vec<Option<ObservationId>> = vec![None; messages.len()];
    let mut fates = vec![Fate::Leaves; messages.len()];
    for (at, message) in messages.iter().enumerate() {
        match message.role {
            Role::System => {
                fates[at] = Fate::Apart;
                continue;
            }
            Role::User if thread.turns().is_empty() || own::begins_turn(messages, at) => {
                let before = keys(&thread);
                thread.begin_turn(&message.text, None);
                retain(&mut origins, &before, &keys(&thread));
            }
            Role::User => thread.push(Item::User(message.text.clone())),
            Role::Assistant => thread.push(own::answer(at, message)),
            Role::Observation => {
                let count = ids.iter().flatten().count();
                let id = ObservationId(u32::try_from(count + 1).unwrap_or(u32::MAX));
                ids[at] = Some(id);
                thread.push(own::result(id, message, session.act_behind(at)));
            }
        }
        origins.push(at);
    }
    let before = thread.size();
    let plan = thread.plan_compaction(settings, u64::from(session.session.over), is_asked);
    let cut = plan.as_ref().map_or(0, |plan| plan.cut);
    let kept = origins.split_off(cut.min(origins.len()));
    if let Ok(plan) = &plan {
        thread.compact(plan, "", Err("A model would write its summary here."));
    }
    for at in kept {
        fates[at] = ids[at].map_or(Fate::Stays, |id| fate(&thread, id));
    }
    let in_place = if cut > 0 { in_place(&thread, settings.strategy) } else { String::new() };
    Outline { after: thread.size(), plan, fates, ids, before, in_place }
}

fn thread(settings: &Settings) -> Thread {
    let Room { folding, .. } = Room::new(settings.clone(), Prices::default(), true);
    let words_only = (settings.strategy == Strategy::Handover).then_some(settings.keep);
    Thread::new(folding, words_only, Results::Plain)
}

fn fate(thread: &Thread, id: ObservationId) -> Fate {
    let form = thread.items().iter().find_map(|item| match item {
        Item::Observation(seen) if seen.id == id => Some(seen.form),
        _ => None,
    });
    match form {
        Some(Form::Whole | Form::Referred) => Fate::Stays,
        Some(Form::Cut) => Fate::Cut,
        Some(Form::Stub) => Fate::Stub,
        None => Fate::Leaves,
    }
}

fn in_place(thread: &Thread, strategy: Strategy) -> String {
    match (strategy, thread.items().first()) {
        (Strategy::Handover, Some(Item::Note(words))) => words.clone(),
        _ => thread.archive(),
    }
}

/// A key for each item. A new turn may drop some of them.
fn keys(thread: &Thread) -> Vec<String> {
    let key = |item: &Item| match item {
        Item::User(text) | Item::Note(text) => text.clone(),
        Item::Assistant(message) => {
            let text = message.parts.iter().find_map(|part| match part {
                Part::Text { text } if !text.trim().is_empty() => Some(text.clone()),
                _ => None,
            });
            text.unwrap_or_else(|| Language::English.no_text())
        }
        Item::Observation(seen) => seen.id.to_string(),
    };
    thread.items().iter().map(key).collect()
}

/// Drops the origins of the items that are gone. `after` is `before` without some of them and with
/// new ones at the end.
fn retain(origins: &mut Vec<usize>, before: &[String], after: &[String]) {
    let mut left = after.iter().peekable();
    let kept = before.iter().zip(origins.iter());
    *origins = kept.filter_map(|(key, at)| left.next_if_eq(&key).map(|_| *at)).collect();
}
