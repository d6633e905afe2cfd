//! Folding: what the model still sees of earlier results. Two pure pieces, used by `thread`:
//!
//! - `plan` decides whether old results become stubs now. A fold rewrites everything behind its
//!   first change, which the provider's cache then has to be paid for again; it is done in batches,
//!   and only from the place on at which it pays (`worth`).
//! - `stub` is what is left of a folded result: what it was, the names in it that nothing else in the
//!   conversation tells, and of a file that was read the lines around what the agent spoke of.
//!
//! The figures were found by replaying recorded sessions (`baton lab`).

use std::hash::{DefaultHasher, Hash, Hasher};

use indexmap::{IndexMap, IndexSet};

use crate::fact::{self, Class, Fact};
use crate::id::ObservationId;
use crate::messages::Language;
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
            keep: 3,
            batch: 39,
            fold_at: 80_000,
            files: 3,
            file_tokens: 16_000,
            calls_ahead: 30.0,
            prices: Prices::default(),
        }
    }
}

/// A result that is no larger gains nothing as a stub.
const SMALL: usize = 150;
/// Estimated tokens of a stub before it is made.
const STUB: usize = 40;
/// Part of a folded result that is gone afterwards, on average.
const GONE: f64 = 0.8;
/// Names that a stub holds.
const NAMES: usize = 96;
/// and, of a command or a search, of those that differ only in their digits: of `test_1`, `test_2` and
/// so on a few tell as much as all of them.
pub const ALIKE: usize = 4;
/// A file that was read leaves at most so many of its lines,
const LINES: usize = 50;
/// and at most this part of them,
const LINES_PART: f64 = 0.5;
/// each with so many around it.
const AROUND: usize = 6;
/// Characters of the description of a result. An error is shown whole.
const TITLE: usize = 2_000;

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
pub(crate) fn tokens(size: usize) -> f64 {
    size as f64
}

/// What is known at a fold, for the stubs: what need not be said in them, and what they are about.
#[derive(Debug, Default)]
pub struct Known {
    /// Words that are in the conversation elsewhere, also in the stubs so far.
    told: IndexSet<Fact>,
    /// Lines of files that are in the conversation elsewhere.
    lines: IndexSet<u64>,
    /// Words that the agent said, and how late.
    said: IndexMap<Fact, usize>,
    /// Lines of files that the agent named by their numbers, and how late.
    said_lines: IndexMap<(String, u64), usize>,
}

impl Known {
    /// A text that stays in the conversation.
    pub fn stays(&mut self, text: &str) {
        fact::each_word(text, |class, words| {
            self.told.insert(Fact::new(class, words));
        });
        let lines = text.split('\n').filter(|line| !is_blank(line));
        self.lines.extend(lines.map(key));
    }

    /// What the agent said at this place. A whole file that it wrote says nothing of its interest.
    pub fn said(&mut self, text: &str, at: usize) {
        const MOST: usize = 60;
        let mut shaped = 0;
        let (mut files, mut numbers) = (Vec::new(), Vec::new());
        fact::each_word(text, |class, name| match class {
            Class::Identifier => shaped += 1,
            Class::File => files.push(name),
            Class::Number | Class::Hash | Class::Line => {}
        });
        if shaped >= MOST {
            return;
        }
        for word in words(text) {
            match word.parse::<u64>() {
                Ok(number) => numbers.push(number),
                Err(_) => drop(self.said.insert(Fact::new(Class::Identifier, word), at)),
            }
        }
        for file in files.iter().take(FILES_SAID) {
            for number in numbers.iter().take(NUMBERS_SAID) {
                self.said_lines.insert(((*file).to_owned(), *number), at);
            }
        }
    }
}

/// Files, and numbers of lines, that one remark can be about.
const FILES_SAID: usize = 3;
const NUMBERS_SAID: usize = 20;

/// Everything that can be a name or a number.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c: char| !is_part(c)).filter(|word| word.len() >= 2)
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

/// A result that is folded.
#[derive(Debug, Clone, Copy)]
pub struct Folded<'a> {
    pub id: ObservationId,
    /// The description of the result, in one line.
    pub title: &'a str,
    /// As it was, in lines.
    pub text: &'a str,
    pub of: Of<'a>,
}

/// The kind of text that a result shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of<'a> {
    /// A file as it still is, as far as is known. Half of what is needed late is lines of files, for
    /// an edit.
    File(&'a str),
    /// A file that was changed since: lines that may be gone would mislead.
    Past,
    Other,
}

/// What is left of a result.
pub fn stub(own: Folded<'_>, known: &mut Known, language: Language) -> String {
    let title = text::shown(own.title, TITLE);
    let title = match own.of {
        Of::Past => language.past_without_lines(title),
        Of::File(_) | Of::Other => title,
    };
    let mut out = format!("{}\n", language.folded(own.id, title));
    let lines = match own.of {
        Of::File(file) => lines_spoken_of(own.text, file, known),
        Of::Past | Of::Other => String::new(),
    };
    let alike = if own.of == Of::Other { ALIKE } else { NAMES };
    let names = names(own.text, &lines, known, alike);
    if !names.is_empty() {
        out.push_str(&language.names_among_others(names.join(" ")));
        out.push('\n');
    }
    out.push_str(&lines);
    out.truncate(out.trim_end_matches('\n').len());
    known.stays(&out);
    out
}

/// The names in a text that neither these lines nor anything else tells: files first, then errors,
/// what is defined here, and the rest by how often it occurs. `alike`: the most names that
/// differ only in their digits.
pub fn names<'a>(text: &'a str, lines: &str, known: &Known, alike: usize) -> Vec<&'a str> {
    let mut told: IndexSet<Fact> = IndexSet::new();
    fact::each_word(lines, |class, name| {
        told.insert(Fact::new(class, name));
    });
    let (mut files, mut errors) = (Vec::new(), Vec::new());
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
        Class::Number | Class::Hash | Class::Line => {}
    });
    files.sort_unstable();
    errors.sort_unstable();
    let mut rest: Vec<(&str, usize)> = counts.into_iter().collect();
    rest.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let rest = rest.into_iter().map(|(name, _)| name);
    let all = files.into_iter().chain(errors).chain(defined(text)).chain(rest);
    let is_new = |name: &&str| {
        let classes = [Class::File, Class::Identifier];
        let mut facts = classes.into_iter().map(|class| Fact::new(class, name));
        !facts.any(|fact| known.told.contains(&fact) || told.contains(&fact))
    };
    let mut seen = IndexSet::new();
    let mut counts: IndexMap<String, usize> = IndexMap::new();
    let is_rare = |name: &&str| {
        let count = counts.entry(name.replace(|c: char| c.is_ascii_digit(), "")).or_default();
        *count += 1;
        *count <= alike
    };
    all.filter(is_new).filter(|name| seen.insert(*name)).filter(is_rare).take(NAMES).collect()
}

/// The names that a text defines: those after a word such as `def`, whatever their shape.
pub fn defined(text: &str) -> Vec<&str> {
    const DEFINES: [&str; 13] = [
        "def",
        "class",
        "fn",
        "func",
        "function",
        "struct",
        "interface",
        "type",
        "enum",
        "trait",
        "const",
        "macro_rules",
        "module",
    ];
    /// Words that follow them in a sentence.
    const PLAIN: [&str; 12] =
        ["the", "and", "for", "that", "name", "names", "with", "are", "was", "not", "self", "mut"];
    let mut names = Vec::new();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    for line in text.split('\n') {
        let mut rest = line;
        let mut is_next = false;
        // `def name`, but not `['type'] == 'name'`: nothing but spaces is between them.
        while let Some(start) = rest.find(is_part) {
            is_next &= rest[..start].bytes().all(|byte| byte == b' ');
            let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |end| start + end);
            let word = &rest[start..end];
            rest = &rest[end..];
            let is_name = word.len() >= 3 && !word.starts_with(|c: char| c.is_ascii_digit());
            if is_next && is_name && !PLAIN.contains(&word) && !DEFINES.contains(&word) {
                names.push(word);
            }
            // `macro_rules! name`
            is_next = DEFINES.contains(&word);
            rest = rest.strip_prefix('!').filter(|_| is_next).unwrap_or(rest);
        }
    }
    names
}

/// The lines around what the agent spoke of, the latest first, within a budget; in the order of the
/// file, `..` where something is missing.
fn lines_spoken_of(text: &str, file: &str, known: &Known) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let is_new = |line: &str| is_blank(line) || !known.lines.contains(&key(line));
    let kept = spoken_of(&lines, file, known, &is_new);
    let mut out = String::new();
    let mut is_open = true;
    for (line, is_kept) in lines.iter().zip(kept) {
        if is_kept && is_new(line) {
            out.push_str(line);
            out.push('\n');
            is_open = true;
        } else if std::mem::take(&mut is_open) {
            out.push_str("..\n");
        }
    }
    if out == "..\n" { String::new() } else { out }
}

/// Which lines stay.
fn spoken_of(
    lines: &[&str],
    file: &str,
    known: &Known,
    is_new: &dyn Fn(&str) -> bool,
) -> Vec<bool> {
    let defined: IndexSet<&str> = lines.iter().flat_map(|line| defined(line)).collect();
    let file = file.rsplit('/').next().unwrap_or(file);
    let mut hits: Vec<(usize, usize)> = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| is_new(line)) {
        let of_word = |word: &str| {
            let is_name = fact::class_of(word) == Some(Class::Identifier) || defined.contains(word);
            let said = is_name.then(|| Fact::new(Class::Identifier, word));
            said.and_then(|fact| known.said.get(&fact).copied())
        };
        let of_number = || {
            let number = fact::numbered(line)?.0.parse().ok()?;
            known.said_lines.get(&(file.to_owned(), number)).copied()
        };
        let latest = words(line).filter_map(of_word).max().max(of_number());
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
    kept
}
