//! Folding: what the model still sees of earlier results. Three pure pieces, used by `thread`:
//!
//! - `Visible` knows every line that stands in the conversation. A result that repeats lines is sent
//!   without them, with a word on where they stand; nothing is lost and nothing is paid twice.
//! - `plan` decides whether old results become stubs now. A fold rewrites everything behind its
//!   first change, which the provider's cache then has to be paid for again; it is done in batches,
//!   and only from the place on at which it pays (`worth`).
//! - `stub` is what is left of a folded result: where it came from, the names in it that nothing else
//!   in the conversation tells, and of a file that was read the lines around what the agent spoke of.
//!
//! The figures were found by replaying recorded sessions (`baton lab`).

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use crate::fact::{self, Class, Fact};
use crate::id::ObservationId;
use crate::observation::Envelope;
use crate::text;

/// What a provider charges for a token, as parts of what it charges for plain input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Read from the cache.
    pub read: f64,
    /// Written to the cache.
    pub write: f64,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices { read: 0.1, write: 1.25 }
    }
}

/// When and how results are folded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The newest results stay whole.
    pub keep: usize,
    /// So many others have to be there before a fold is thought of.
    pub batch: usize,
    /// When all results together are larger, it is done whatever it costs.
    pub fold_at: usize,
    /// The newest view of so many files, those last spoken of, stays whole.
    pub files: usize,
    /// As far as they fit into this.
    pub file_tokens: usize,
    /// So many more calls are expected: what a fold has to earn its price in.
    pub calls_ahead: f64,
    pub prices: Prices,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            keep: 6,
            batch: 40,
            fold_at: 80_000,
            files: 4,
            file_tokens: 20_000,
            calls_ahead: 30.0,
            prices: Prices::default(),
        }
    }
}

/// A result that is no larger gains nothing as a stub.
const SMALL: usize = 28;
/// What a stub takes, as long as it is not made.
const STUB: usize = 40;
/// Part of a folded result that is gone afterwards, on average.
const GONE: f64 = 0.8;
/// Names that a stub holds.
const NAMES: usize = 96;
/// A file that was read leaves at most so many of its lines,
const LINES: usize = 60;
/// and at most this part of them,
const LINES_PART: f64 = 0.5;
/// each with so many around it.
const AROUND: usize = 7;
/// Repeated text shorter than this is not worth a word on where it stands.
const REPEATED: usize = 60;

/// What one item takes in the request, as far as `plan` has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    /// Tokens as it is shown now.
    pub size: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What somebody said: it stays.
    Said,
    /// A result.
    Result,
    /// A result that belongs to the files in hand.
    InHand,
    /// A result that was folded before.
    Stub,
}

/// Tokens, roughly: all that a decision needs.
pub fn size(text: &str) -> usize {
    text.chars().count() / 4 + 4
}

/// Whether it is time to think of a fold: of so many results, and so many tokens of them whole.
pub fn is_due(results: usize, whole: usize, judged: usize, settings: &Settings) -> bool {
    let older = results.saturating_sub(settings.keep);
    older > judged && (whole > settings.fold_at || older > judged.saturating_add(settings.batch))
}

/// Which items become stubs now: those results from this item on that are neither in hand nor among
/// the newest. `None`: nothing, now. `judged`: how many results were there when this was last
/// decided.
pub fn plan(items: &[Weight], judged: usize, settings: &Settings) -> Option<usize> {
    let is_result = |kind: Kind| kind != Kind::Said;
    let results = items.iter().filter(|own| is_result(own.kind)).count();
    let older = results.saturating_sub(settings.keep);
    let whole = items.iter().filter(|own| matches!(own.kind, Kind::Result | Kind::InHand));
    let whole: usize = whole.map(|own| own.size).sum();
    if !is_due(results, whole, judged, settings) {
        return None;
    }
    let is_full = whole > settings.fold_at;
    let mut seen = results;
    let (mut saved, mut rewritten) = (0.0, 0.0);
    let (mut best, mut from, mut oldest) = (0.0, None, None);
    for (index, own) in items.iter().enumerate().rev() {
        let size = tokens(own.size);
        rewritten += size;
        if !is_result(own.kind) {
            continue;
        }
        seen -= 1;
        if seen >= older || own.kind != Kind::Result || own.size <= SMALL {
            continue;
        }
        let gain = (size - tokens(STUB)).max(0.0) * GONE;
        saved += gain;
        rewritten -= gain;
        oldest = Some(index);
        let worth = worth(settings, saved, rewritten);
        if worth > best {
            (best, from) = (worth, Some(index));
        }
    }
    // Little by little would be the most expensive way.
    let is_much = saved * 4.0 >= tokens(settings.fold_at);
    if is_full && is_much { oldest } else { from }
}

/// What a fold earns in the calls to come, less what it costs now, in tokens of plain input.
pub fn worth(settings: &Settings, saved: f64, rewritten: f64) -> f64 {
    let Prices { read, write } = settings.prices;
    settings.calls_ahead * read * saved - (write - read).max(0.0) * rewritten
}

#[expect(clippy::cast_precision_loss, reason = "a conversation has far fewer tokens than 2^52")]
fn tokens(size: usize) -> f64 {
    size as f64
}

/// The lines that stand in the conversation as it is sent, and in which result they do.
#[derive(Debug, Clone, Default)]
pub struct Visible {
    lines: IndexMap<u64, Option<ObservationId>>,
}

impl Visible {
    /// From here on these lines need not be sent again.
    pub fn add(&mut self, text: &str, of: Option<ObservationId>) {
        for line in text.split('\n').filter(|line| !is_blank(line)) {
            self.lines.entry(key(line)).or_insert(of);
        }
    }

    pub fn add_envelope(&mut self, envelope: &Envelope, of: ObservationId) {
        texts(envelope).for_each(|text| self.add(text, Some(of)));
    }

    fn has(&self, line: &str) -> bool {
        self.lines.contains_key(&key(line))
    }

    /// The result without the lines that stand in the conversation already, if there are such.
    pub fn trimmed(&self, envelope: &Envelope) -> Option<Envelope> {
        let mut short: Option<Envelope> = None;
        for (name, value) in &envelope.data {
            let Value::String(text) = value else { continue };
            if let Some(text) = self.trimmed_text(text) {
                let own = short.get_or_insert_with(|| envelope.clone());
                own.data.insert(name.clone(), Value::String(text));
            }
        }
        short
    }

    fn trimmed_text(&self, text: &str) -> Option<String> {
        if text.len() < REPEATED {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        let mut run: Vec<&str> = Vec::new();
        for line in text.split_inclusive('\n') {
            // An empty line neither begins nor ends what is repeated.
            let is_known = if is_blank(line) { !run.is_empty() } else { self.has(line) };
            if is_known {
                run.push(line);
            } else {
                self.close(&mut run, &mut out);
                out.push_str(line);
            }
        }
        self.close(&mut run, &mut out);
        (out.len() < text.len()).then_some(out)
    }

    fn close(&self, run: &mut Vec<&str>, out: &mut String) {
        let length: usize = run.iter().map(|line| line.len()).sum();
        if length < REPEATED {
            out.extend(run.drain(..));
            return;
        }
        let numbers = || run.iter().filter_map(|line| fact::numbered(line));
        let lines = match (numbers().next(), numbers().next_back()) {
            (Some((first, _)), Some((last, _))) if first != last => format!("{first}-{last}"),
            _ => format!("{} lines", run.len()),
        };
        let mut sources =
            run.iter().filter(|line| !is_blank(line)).map(|line| self.lines.get(&key(line)));
        let source = sources.next().flatten().copied().flatten();
        let is_one = sources.all(|other| other.copied().flatten() == source);
        // Writing to a String cannot fail.
        let _ = match source.filter(|_| is_one) {
            Some(id) => writeln!(out, "[{lines} as in {id}]"),
            None => writeln!(out, "[{lines} as above]"),
        };
        run.clear();
    }
}

fn is_blank(line: &str) -> bool {
    fact::bare(line).len() < 3
}

/// A line of a file keeps its indentation: it is part of what an edit must match.
fn key(line: &str) -> u64 {
    let line = fact::numbered(line).map_or(line, |(_, rest)| rest);
    let mut hasher = DefaultHasher::new();
    line.trim_end().hash(&mut hasher);
    hasher.finish()
}

/// The texts of a result.
fn texts(envelope: &Envelope) -> impl Iterator<Item = &str> {
    envelope.data.values().filter_map(Value::as_str)
}

/// What is known at a fold, for the stubs: what need not be said in them, and what they are about.
#[derive(Debug, Default)]
pub struct Known {
    /// Words that stand elsewhere in the conversation, also in the stubs so far.
    told: IndexSet<Fact>,
    /// Words that the agent said, and how late.
    said: IndexMap<Fact, usize>,
}

impl Known {
    /// A text that stays in the conversation.
    pub fn stays(&mut self, text: &str) {
        fact::each_word(text, |class, words| {
            self.told.insert(Fact::new(class, words));
        });
    }

    /// What the agent said at this place. A whole file that it wrote says nothing of its interest.
    pub fn said(&mut self, text: &str, at: usize) {
        const MOST: usize = 60;
        let mut words = IndexSet::new();
        fact::each_word(text, |class, name| {
            if class == Class::Identifier {
                words.insert(Fact::new(class, name));
            }
        });
        if words.len() < MOST {
            self.said.extend(words.into_iter().map(|word| (word, at)));
        }
    }
}

/// A result that is folded.
#[derive(Debug, Clone, Copy)]
pub struct Folded<'a> {
    pub id: ObservationId,
    pub tool: &'a str,
    pub target: &'a str,
    pub status: &'a str,
    /// As it was, in lines.
    pub text: &'a str,
}

/// What is left of a result.
pub fn stub(own: Folded<'_>, known: &mut Known, visible: &Visible) -> String {
    let mut out = format!(
        "[folded {}: {} {}, {}]\n",
        own.id,
        text::shown(own.tool, 40),
        text::shown(own.target, 100),
        own.status
    );
    let lines = match is_reading(own.tool, own.target) {
        true => lines_spoken_of(own.text, known, visible),
        false => String::new(),
    };
    let names = names(own.text, &lines, known);
    if !names.is_empty() {
        out.push_str(&names.join(" "));
        out.push('\n');
    }
    out.push_str(&lines);
    out.truncate(out.trim_end().len());
    known.stays(&out);
    out
}

/// At most what a stub takes of a result of this size.
pub fn most_of_stub(tool: &str, target: &str, size: usize) -> usize {
    // A name is about three tokens.
    let names = STUB + NAMES * 3;
    if is_reading(tool, target) { names + size / 2 } else { names }
}

/// Whether a result is a file's text: half of what is needed late is lines of files, for an edit.
fn is_reading(tool: &str, target: &str) -> bool {
    let shows = ["cat", "sed", "head", "tail", "nl"];
    let command = || target.split_whitespace().find(|word| !word.contains('='));
    match tool.to_ascii_lowercase().as_str() {
        "read" => true,
        "bash" => command().is_some_and(|word| shows.contains(&word)),
        _ => false,
    }
}

/// The names in a text that neither these lines nor anything else tells: files first, then errors,
/// what is defined here, and the rest by how often it stands there.
pub fn names<'a>(text: &'a str, lines: &str, known: &Known) -> Vec<&'a str> {
    let mut told: IndexSet<Fact> = IndexSet::new();
    fact::each_word(lines, |class, name| {
        told.insert(Fact::new(class, name));
    });
    let (mut files, mut errors, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts: IndexMap<&str, usize> = IndexMap::new();
    fact::each_word(text, |class, name| match class {
        Class::File => files.push(name),
        Class::Identifier => {
            *counts.entry(name).or_default() += 1;
            let is_error = ["Error", "Exception", "Warning", "panic"];
            if is_error.iter().any(|word| name.contains(word)) {
                errors.push(name);
            }
        }
        Class::Number | Class::Hash if text.len() <= 240 => others.push(name),
        Class::Number | Class::Hash | Class::Line => {}
    });
    files.sort_unstable();
    errors.sort_unstable();
    let mut rest: Vec<(&str, usize)> = counts.into_iter().collect();
    rest.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let rest = rest.into_iter().map(|(name, _)| name);
    let all = files.into_iter().chain(errors).chain(defined(text)).chain(rest).chain(others);
    let is_new = |name: &&str| {
        let classes = [Class::File, Class::Identifier];
        let mut facts = classes.into_iter().map(|class| Fact::new(class, name));
        !facts.any(|fact| known.told.contains(&fact) || told.contains(&fact))
    };
    let mut seen = IndexSet::new();
    all.filter(is_new).filter(|name| seen.insert(*name)).take(NAMES).collect()
}

/// Identifiers behind a word that defines.
pub fn defined(text: &str) -> Vec<&str> {
    const DEFINES: [&str; 13] = [
        "def",
        "class",
        "fn",
        "func",
        "struct",
        "interface",
        "type",
        "enum",
        "impl",
        "trait",
        "void",
        "public",
        "private",
    ];
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let mut names = Vec::new();
    let mut is_next = false;
    for word in words.by_ref().filter(|word| !word.is_empty()) {
        if is_next && fact::class_of(word) == Some(Class::Identifier) {
            names.push(word);
        }
        is_next = DEFINES.contains(&word);
    }
    names
}

/// The lines around the identifiers that the agent spoke of, the latest first, within a budget; in
/// the order of the file, `..` where something is missing.
fn lines_spoken_of(text: &str, known: &Known, visible: &Visible) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let is_new = |line: &str| is_blank(line) || !visible.has(line);
    let mut hits: Vec<(usize, usize)> = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| is_new(line)) {
        let mut latest = None;
        fact::each_word(line, |class, name| {
            if class == Class::Identifier {
                latest = latest.max(known.said.get(&Fact::new(class, name)).copied());
            }
        });
        hits.extend(latest.map(|at| (at, index)));
    }
    hits.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a number of lines"
    )]
    let most = LINES.min((tokens(lines.len()) * LINES_PART) as usize);
    let mut kept = vec![false; lines.len()];
    let mut count = 0;
    for (_, index) in hits {
        if count >= most {
            break;
        }
        let around = index.saturating_sub(AROUND)..(index + AROUND + 1).min(lines.len());
        for is_kept in &mut kept[around] {
            count += usize::from(!std::mem::replace(is_kept, true));
        }
    }
    let mut out = String::new();
    let mut is_open = false;
    for (line, is_kept) in lines.iter().zip(kept) {
        if is_kept && is_new(line) {
            out.push_str(line);
            out.push('\n');
            is_open = true;
        } else if std::mem::take(&mut is_open) {
            out.push_str("..\n");
        }
    }
    out
}
