//! How many tokens a text has: exactly (o200k_base, loaded at the first count) or by a cheap
//! estimate that learns from what the provider really counted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use tiktoken::CoreBpe;

use crate::id::Tokens;

/// Up to here a count is exact. A longer text is counted in blocks of this size, each cut at a
/// line or word border where there is one: the merge of a single run of ten million letters takes
/// the tokenizer seconds, and a cut costs at most a token or two a block.
const BLOCK: usize = 1 << 20;

/// Texts from this size on are remembered by their hash: most of a prompt is what the last one was.
const REMEMBERED_FROM: usize = 512;
/// What begins an entry of a history.
const HEADING: &[u8] = b"\n## ";
/// So many of them, then all are forgotten.
const REMEMBERED: usize = 512;

thread_local! {
    static KNOWN: RefCell<BTreeMap<[u8; 32], u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// The count of o200k_base. Text that looks like a special token counts as the text it is.
pub fn count(text: &str) -> Tokens {
    // A history window is the last one and an entry more. No token goes on from a line break to a
    // heading mark, so its entries can be counted, and remembered, one by one.
    let (mut start, mut total) = (0, 0);
    if text.len() <= BLOCK {
        for end in memchr::memmem::find_iter(text.as_bytes(), HEADING) {
            if end + 1 - start >= REMEMBERED_FROM {
                total += remembered(&text[start..=end]).0;
                start = end + 1;
            }
        }
    }
    Tokens(total + remembered(&text[start..]).0)
}

fn remembered(text: &str) -> Tokens {
    if text.len() < REMEMBERED_FROM {
        return counted(text);
    }
    let hash = *blake3::hash(text.as_bytes()).as_bytes();
    KNOWN.with_borrow_mut(|known| {
        if let Some(count) = known.get(&hash) {
            return Tokens(*count);
        }
        let count = counted(text);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(hash, count.0);
        count
    })
}

/// The beginning of a text, up to about this many tokens: whole lines, unless one line is longer than
/// half of it.
pub fn beginning(text: &str, most: u64) -> &str {
    let (mut used, mut end) = (0, 0);
    for line in text.split_inclusive('\n') {
        let room = usize::try_from(most - used).unwrap_or(usize::MAX);
        // Longer than this it cannot fit, and need not be counted.
        let looked_at = crate::text::cut(line, room.saturating_mul(8));
        let size = count(&looked_at).0;
        if used + size > most || matches!(looked_at, std::borrow::Cow::Owned(_)) {
            if size > most / 2 {
                end += line.floor_char_boundary(room.saturating_mul(3).min(line.len()));
            }
            break;
        }
        used += size;
        end += line.len();
    }
    &text[..end]
}

fn counted(text: &str) -> Tokens {
    static ENCODING: OnceLock<&'static CoreBpe> = OnceLock::new();
    let encoding = ENCODING.get_or_init(|| {
        tiktoken::get_encoding("o200k_base").expect("the vocabulary is compiled in by its feature")
    });
    let mut rest = text;
    let mut total = 0;
    while !rest.is_empty() {
        let (block, after) = rest.split_at(block_end(rest));
        total += encoding.count(block);
        rest = after;
    }
    Tokens(u64::try_from(total).unwrap_or(u64::MAX))
}

fn block_end(text: &str) -> usize {
    const LOOK_BACK: usize = 4096;
    if text.len() <= BLOCK {
        return text.len();
    }
    let end = text.floor_char_boundary(BLOCK);
    let from = text.floor_char_boundary(end - LOOK_BACK);
    let tail = &text[from..end];
    match tail.rfind('\n').map(|at| at + 1).or_else(|| tail.rfind(' ')) {
        Some(at) if from + at > 0 => from + at,
        _ => end,
    }
}

/// A cheap estimate, corrected by real usage: `observe` what a provider counted, and the next
/// estimates follow it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimator {
    /// Real tokens for one estimated.
    factor: f64,
}

impl Default for Estimator {
    fn default() -> Self {
        Estimator { factor: 1.0 }
    }
}

impl Estimator {
    /// How much one observation moves the factor.
    const WEIGHT: f64 = 0.3;
    /// A provider's count outside of this is a fault of one of us, not a different tokenizer.
    const RANGE: (f64, f64) = (0.25, 4.0);

    pub fn estimate(&self, text: &str) -> Tokens {
        self.corrected(raw_estimate(text))
    }

    /// Corrects a count or an estimate made elsewhere.
    pub fn corrected(&self, tokens: Tokens) -> Tokens {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "token counts are far below 2^52, the factor is positive and bounded"
        )]
        Tokens((tokens.0 as f64 * self.factor).ceil() as u64)
    }

    /// What `estimate` said before correction, and what the provider really counted.
    pub fn observe(&mut self, uncorrected: Tokens, real: Tokens) {
        if uncorrected.0 == 0 || real.0 == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let seen = (real.0 as f64 / uncorrected.0 as f64).clamp(Self::RANGE.0, Self::RANGE.1);
        self.factor += (seen - self.factor) * Self::WEIGHT;
    }

    pub fn factor(&self) -> f64 {
        self.factor
    }
}

/// Without correction: a token for four bytes of ASCII, seven for eight wide characters. Measured
/// on the packs' prompts and this crate (`cargo bench -p baton-core`): English 4.05 bytes a token,
/// Rust 4.2, Chinese 0.87 tokens a wide character, its punctuation included.
pub fn raw_estimate(text: &str) -> Tokens {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let wide = text.chars().count() - ascii;
    Tokens(u64::try_from(ascii.div_ceil(4) + (wide * 7).div_ceil(8)).unwrap_or(u64::MAX))
}
