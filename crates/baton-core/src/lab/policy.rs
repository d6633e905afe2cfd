//! The policies by their names: `full`, `mask:10`, `mask:10/20`, `last:20`, `edit:100k/3`, `baton`.
//! Goes in: a name. Comes out: a policy that replays one session, or what is wrong with the name.

use std::fmt;

use super::need::Prepared;
use super::own::Own;
use super::replay::{Form, FormId, Piece, Policy};
use super::session::{Message, Role};
use crate::problem::Problem;
use crate::text;

/// What stands in place of a result that was taken out: `[Old tool result cleared]` and its id.
const STUB: u32 = 14;

/// A policy as it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// Everything, always.
    Full,
    /// All results but the last `keep` are taken out. With a `batch`, only once so many more have
    /// come: in between the history stays as it was, and the cache with it.
    Mask { keep: u32, batch: u32 },
    /// What was given at the beginning, and the last so many answers with their results.
    Last(u32),
    /// Nothing until a call would have more than `threshold` tokens; then all results but the last
    /// `keep` are taken out.
    Edit { threshold: u32, keep: u32 },
    /// What Baton's own agent does.
    Baton,
}

/// As on the command line.
const SHAPES: [&str; 6] = ["full", "mask:10", "mask:10/20", "last:20", "edit:100k/3", "baton"];

impl Name {
    pub fn read(name: &str) -> Result<Name, Problem> {
        let (word, numbers) = match name.split_once(':') {
            Some((word, numbers)) => (word, Some(numbers)),
            None => (name, None),
        };
        let wrong = || {
            let message = format!("`{}` is not a policy", text::shown(name, 40));
            Problem::new("policy-unknown", message).found(name).one_of(name, &SHAPES)
        };
        let numbers = match numbers.map(numbers_of) {
            None => Vec::new(),
            Some(Some(numbers)) => numbers,
            Some(None) => return Err(wrong()),
        };
        Ok(match (word, numbers.as_slice()) {
            ("full", []) => Name::Full,
            ("mask", [keep]) => Name::Mask { keep: *keep, batch: 0 },
            ("mask", [keep, batch]) => Name::Mask { keep: *keep, batch: *batch },
            ("last", [answers]) if *answers > 0 => Name::Last(*answers),
            ("edit", [threshold, keep]) => Name::Edit { threshold: *threshold, keep: *keep },
            ("baton", []) => Name::Baton,
            _ => return Err(wrong()),
        })
    }

    /// A new one for one session.
    pub fn policy(self) -> Box<dyn Policy> {
        match self {
            Name::Full => Box::new(Masking::new(usize::MAX, 0)),
            Name::Mask { keep, batch } => Box::new(Masking::new(keep as usize, batch as usize)),
            Name::Last(answers) => Box::new(Latest { answers: answers as usize }),
            Name::Edit { threshold, keep } => Box::new(Editing::new(threshold, keep as usize)),
            Name::Baton => Box::new(Own::new()),
        }
    }
}

/// `10`, `10/20`, `100k/3`.
fn numbers_of(text: &str) -> Option<Vec<u32>> {
    let number = |text: &str| {
        let (digits, times) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1000),
            None => (text, 1),
        };
        let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|_| is_plain)?.checked_mul(times)
    };
    text.split('/').map(number).collect()
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Full => out.write_str("full"),
            Name::Mask { keep, batch: 0 } => write!(out, "mask:{keep}"),
            Name::Mask { keep, batch } => write!(out, "mask:{keep}/{batch}"),
            Name::Last(answers) => write!(out, "last:{answers}"),
            Name::Edit { threshold, keep } if *threshold > 0 && threshold % 1000 == 0 => {
                write!(out, "edit:{}k/{keep}", threshold / 1000)
            }
            Name::Edit { threshold, keep } => write!(out, "edit:{threshold}/{keep}"),
            Name::Baton => out.write_str("baton"),
        }
    }
}

const STUB_ID: FormId = FormId(0);

/// A stub takes the place of a result only where it is clearly smaller.
fn is_worth_a_stub(message: &Message) -> bool {
    message.role == Role::Observation && message.tokens > STUB * 2
}

/// The messages before `end` in their order, results before `cut` taken out.
fn masked(session: &Prepared, end: usize, cut: usize) -> Vec<Piece> {
    let messages = session.messages()[..end].iter().enumerate();
    let own = messages.filter(|(_, message)| !message.is_summary);
    own.map(|(at, message)| match at < cut && is_worth_a_stub(message) {
        true => Piece::Formed(at, STUB_ID),
        false => Piece::Whole(at),
    })
    .collect()
}

fn results_before(session: &Prepared, end: usize) -> Vec<usize> {
    let is_result = |at: &usize| session.messages()[*at].role == Role::Observation;
    (0..end).filter(is_result).collect()
}

#[derive(Debug)]
struct Masking {
    keep: usize,
    batch: usize,
    /// Results that are taken out.
    out: usize,
    stub: Form,
}

impl Masking {
    fn new(keep: usize, batch: usize) -> Masking {
        Masking { keep, batch, out: 0, stub: Form::silent(STUB) }
    }
}

impl Policy for Masking {
    fn view(&mut self, session: &Prepared, call: usize) -> Vec<Piece> {
        let results = results_before(session, call);
        if results.len() - self.out > self.keep.saturating_add(self.batch) {
            self.out = results.len() - self.keep;
        }
        masked(session, call, results.get(self.out).copied().unwrap_or(call))
    }

    fn form(&self, _: FormId) -> &Form {
        &self.stub
    }
}

#[derive(Debug)]
struct Latest {
    answers: usize,
}

impl Policy for Latest {
    fn view(&mut self, session: &Prepared, call: usize) -> Vec<Piece> {
        let messages = session.messages();
        let calls = session.calls.partition_point(|own| *own < call);
        let start = calls.checked_sub(self.answers).map_or(0, |first| session.calls[first]);
        let own = (0..call).filter(|at| !messages[*at].is_summary);
        let mut is_beginning = true;
        own.filter(|at| {
            is_beginning &= matches!(messages[*at].role, Role::System | Role::User);
            is_beginning || *at >= start
        })
        .map(Piece::Whole)
        .collect()
    }

    /// Every message is shown as it was.
    fn form(&self, _: FormId) -> &Form {
        const NOTHING: &Form = &Form::silent(0);
        NOTHING
    }
}

#[derive(Debug)]
struct Editing {
    threshold: u32,
    keep: usize,
    /// Results before this message are taken out, and stay so.
    cut: usize,
    stub: Form,
}

impl Editing {
    fn new(threshold: u32, keep: usize) -> Editing {
        Editing { threshold, keep, cut: 0, stub: Form::silent(STUB) }
    }
}

impl Policy for Editing {
    fn view(&mut self, session: &Prepared, call: usize) -> Vec<Piece> {
        let view = masked(session, call, self.cut);
        let size = |piece: &Piece| match piece {
            Piece::Whole(at) => u64::from(session.messages()[*at].tokens),
            Piece::Formed(..) | Piece::Inserted(_) => u64::from(STUB),
        };
        let tokens = u64::from(session.session.over) + view.iter().map(size).sum::<u64>();
        let results = results_before(session, call);
        let newest_out = results.len().checked_sub(self.keep + 1).map(|place| results[place]);
        match newest_out {
            Some(newest) if tokens > u64::from(self.threshold) && newest >= self.cut => {
                self.cut = newest + 1;
                masked(session, call, self.cut)
            }
            _ => view,
        }
    }

    fn form(&self, _: FormId) -> &Form {
        &self.stub
    }
}
