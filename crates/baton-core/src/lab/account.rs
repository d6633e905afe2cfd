//! The account of a session's requests: what was false or missing in them. Goes in: a session and a policy. Comes out:
//! its sums, and how often a request said something false, a result was never shown, or a message of
//! the user was lost, with the first place of each.
//!
//! A session has hundreds of requests and megabytes in each: what did not change since the last
//! request is not read again. A reference names only what is before it, so that a request which
//! begins like the last one is as true as that one up to there.

use indexmap::{IndexMap, IndexSet};

use super::need::Prepared;
use super::replay::{self, FormId, Piece, Policy, Sums};
use super::session::{Message, Role};
use super::truth::{self, Reader, SentResult, Verdict};
use crate::id::ObservationId;

/// The place where something was first found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    pub session: String,
    /// The number of the call, counted from 1.
    pub call: usize,
    /// At most 120 characters.
    pub quote: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    pub count: u64,
    pub first: Option<Place>,
}

impl Tally {
    fn add(&mut self, place: impl FnOnce() -> Place) {
        self.count += 1;
        self.first.get_or_insert_with(place);
    }

    fn join(&mut self, later: Tally) {
        self.count += later.count;
        self.first = self.first.take().or(later.first);
    }
}

/// The counts of what was false or missing in a policy's requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Truth {
    /// Places of results that are not what the tool returned, each counted once.
    pub false_references: Tally,
    /// Results that no request carried whole, and that were not announced as cut.
    pub never_shown: Tally,
    /// Results that no request carried whole, but one with the lines named that were left out.
    pub cut: Tally,
    /// Messages of the user that some later request did not have.
    pub lost_messages: Tally,
}

impl Truth {
    /// Adds those of sessions that come after these.
    pub fn join(&mut self, later: Truth) {
        self.false_references.join(later.false_references);
        self.never_shown.join(later.never_shown);
        self.cut.join(later.cut);
        self.lost_messages.join(later.lost_messages);
    }

    /// Nothing is false, never shown or lost. A cut that is announced is true.
    pub fn is_true(&self) -> bool {
        let wrong = [&self.false_references, &self.never_shown, &self.lost_messages];
        wrong.iter().all(|tally| tally.count == 0)
    }
}

/// Replays a session and checks every request of it.
pub fn run(session: &Prepared, policy: &mut dyn Policy) -> (Sums, Truth) {
    let mut account = Account::new(session);
    let sums = replay::watched(session, policy, |call, view, policy| {
        account.request(call, view, policy);
    });
    (sums, account.close())
}

/// A result of the session.
struct Outcome {
    at: usize,
    id: ObservationId,
    is_whole: bool,
    is_cut: bool,
}

/// A message of the user.
struct UserMessage {
    at: usize,
    /// The piece that last had it, and the place of that piece.
    found: (Piece, usize),
    is_lost: bool,
}

/// The requests of one session as far as they were looked at.
struct Account<'s> {
    session: &'s Prepared,
    results: Vec<Outcome>,
    /// By message: its place among the results.
    result_of: IndexMap<usize, usize>,
    users: Vec<UserMessage>,
    /// The last request, and the verdict on each piece of it that is a result with a text.
    view: Vec<Piece>,
    verdicts: Vec<Option<Verdict>>,
    /// Verdicts on texts without references: they are the same in every request.
    settled: IndexMap<(usize, FormId), Verdict>,
    /// Places that were counted.
    places: IndexSet<(ObservationId, String)>,
    calls: usize,
    truth: Truth,
}

impl<'s> Account<'s> {
    fn new(session: &'s Prepared) -> Account<'s> {
        let all = || session.messages().iter().enumerate();
        let results = all().filter(|(_, message)| message.role == Role::Observation);
        let results = results.zip(1..).map(|((at, _), number)| Outcome {
            at,
            id: ObservationId(number),
            is_whole: false,
            is_cut: false,
        });
        let results: Vec<Outcome> = results.collect();
        let users = all().filter(|(_, message)| is_of_user(message)).map(|(at, _)| UserMessage {
            at,
            found: (Piece::Whole(at), at),
            is_lost: false,
        });
        Account {
            session,
            result_of: results.iter().enumerate().map(|(place, own)| (own.at, place)).collect(),
            results,
            users: users.collect(),
            view: Vec::new(),
            verdicts: Vec::new(),
            settled: IndexMap::new(),
            places: IndexSet::new(),
            calls: 0,
            truth: Truth::default(),
        }
    }

    fn request(&mut self, call: usize, view: &[Piece], policy: &dyn Policy) {
        self.calls += 1;
        let same = self.view.iter().zip(view).take_while(|(old, new)| old == new).count();
        self.verdicts.truncate(same);
        let mut reader = Reader::default();
        for (index, piece) in view.iter().enumerate() {
            let sent = self.sent(*piece, policy);
            if index >= same {
                let verdict = sent.map(|sent| self.judge(*piece, sent, &mut reader));
                self.verdicts.push(verdict);
            } else if let (Some(sent), Some(verdict)) = (sent, &self.verdicts[index]) {
                reader.pass(sent, verdict);
            }
        }
        self.look_for_users(call, view, policy);
        self.view.clear();
        self.view.extend_from_slice(view);
    }

    /// The result that a piece is, if it has a text.
    fn sent<'a>(&self, piece: Piece, policy: &'a dyn Policy) -> Option<SentResult<'a>>
    where
        's: 'a,
    {
        let (Piece::Whole(at) | Piece::Formed(at, _)) = piece else { return None };
        let id = self.results[*self.result_of.get(&at)?].id;
        Some(SentResult { id, text: text_of(piece, self.session, policy)? })
    }

    fn judge<'a>(
        &mut self,
        piece: Piece,
        sent: SentResult<'a>,
        reader: &mut Reader<'a>,
    ) -> Verdict {
        let verdict = match piece {
            Piece::Formed(at, form) => {
                let settled = self.settled.get(&(at, form)).cloned();
                if let Some(verdict) = settled {
                    reader.pass(sent, &verdict);
                    return verdict;
                }
                let verdict = reader.judge(sent, &self.session.messages()[at].text);
                if !sent.text.contains("same as o") {
                    self.settled.insert((at, form), verdict.clone());
                }
                verdict
            }
            Piece::Whole(_) | Piece::Inserted(_) => {
                reader.pass(sent, &Verdict::Whole);
                Verdict::Whole
            }
        };
        self.note(sent.id, &verdict);
        verdict
    }

    fn note(&mut self, id: ObservationId, verdict: &Verdict) {
        let Some(own) = self.results.get_mut(id.0 as usize - 1) else { return };
        match verdict {
            Verdict::Whole => own.is_whole = true,
            Verdict::Cut => own.is_cut = true,
            Verdict::Stub | Verdict::Short => {}
            Verdict::False(falsehood) => {
                if self.places.insert((id, falsehood.quote.clone())) {
                    let place = place(self.session, self.calls, falsehood.quote.clone());
                    self.truth.false_references.add(|| place);
                }
            }
        }
    }

    fn look_for_users(&mut self, call: usize, view: &[Piece], policy: &dyn Policy) {
        for user in self.users.iter_mut().filter(|user| user.at < call && !user.is_lost) {
            let (piece, place_of) = user.found;
            if view.get(place_of) == Some(&piece) {
                continue;
            }
            if let Some(index) = view.iter().position(|own| *own == piece) {
                user.found.1 = index;
                continue;
            }
            let words = self.session.messages()[user.at].text.trim();
            let has_it = |piece: &Piece| {
                text_of(*piece, self.session, policy).is_some_and(|text| tells(text, words))
            };
            match view.iter().position(has_it) {
                Some(index) => user.found = (view[index], index),
                None => {
                    user.is_lost = true;
                    let quote = truth::quote(words);
                    self.truth.lost_messages.add(|| place(self.session, self.calls, quote));
                }
            }
        }
    }

    fn close(mut self) -> Truth {
        let calls = &self.session.calls;
        for own in self.results.iter().filter(|own| !own.is_whole) {
            // No request could have had it.
            let next = calls.partition_point(|call| *call < own.at);
            if next == calls.len() {
                continue;
            }
            let tally = if own.is_cut { &mut self.truth.cut } else { &mut self.truth.never_shown };
            let lines = self.session.messages()[own.at].text.lines();
            let first = lines.map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            let quote = truth::quote(&format!("{}: {first}", own.id));
            tally.add(|| place(self.session, next + 1, quote));
        }
        self.truth
    }
}

fn place(session: &Prepared, call: usize, quote: String) -> Place {
    Place { session: session.session.id.clone(), call, quote }
}

fn is_of_user(message: &Message) -> bool {
    message.role == Role::User && !message.is_summary && !message.text.trim().is_empty()
}

fn text_of<'a>(piece: Piece, session: &'a Prepared, policy: &'a dyn Policy) -> Option<&'a str> {
    match piece {
        Piece::Whole(at) => Some(&session.messages()[at].text),
        Piece::Formed(_, form) | Piece::Inserted(form) => policy.text(form),
    }
}

/// A text has these words of the user if it has all of them, or their beginning and how to get the
/// rest.
fn tells(text: &str, words: &str) -> bool {
    text.contains(words) || is_kept_by_path(text, words)
}

fn is_kept_by_path(text: &str, words: &str) -> bool {
    const BEGINNING: usize = 100;
    // Its line, and those that follow.
    const LINES: usize = 9;
    let Some((end, _)) = words.char_indices().nth(BEGINNING) else { return false };
    let beginning = &words[..end];
    text.match_indices(beginning).any(|(at, _)| {
        let rest = &text[at + end..];
        rest.split('\n').take(LINES).any(has_recall)
    })
}

/// `Recall u3`
fn has_recall(line: &str) -> bool {
    let mut parts = line.split("Recall u").skip(1);
    parts.any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
