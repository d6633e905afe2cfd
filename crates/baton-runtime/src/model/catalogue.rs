//! What is known of models by name: window, longest answer, price. A list with dates, overridable
//! by the user's configuration; of a model that it does not have nothing is assumed.

use baton_core::config::ModelConfig;
use baton_core::fold::Prices;
use baton_core::id::Tokens;
use baton_core::message::{Usage, Wire};

/// What is known of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub context_window: Option<Tokens>,
    pub max_output: Option<Tokens>,
    pub price: Option<Price>,
    /// A longer window that has to be asked for (`LONG_WINDOW`).
    pub long_window: Option<Tokens>,
}

/// Nano-dollars a token: 3,000 is 3 dollars a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// When the provider's list said so.
    pub as_of: &'static str,
}

impl Price {
    /// As parts of the price of plain input; `None` where that costs nothing.
    #[expect(clippy::cast_precision_loss, reason = "prices are small numbers")]
    pub fn parts(self) -> Option<Prices> {
        let input = self.input as f64;
        let part = |price: u64| price as f64 / input;
        (self.input > 0)
            .then(|| Prices { read: part(self.cache_read), write: part(self.cache_write) })
    }
}

/// A sum of money, in nano-dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cost(pub u64);

impl std::fmt::Display for Cost {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A hundredth of a cent is as fine as anybody looks, and a call is never free.
        let units = self.0.div_ceil(100_000);
        write!(out, "${}.{:04}", units / 10_000, units % 10_000)
    }
}

struct Row {
    /// The name begins with it; the longest such row counts.
    prefix: &'static str,
    window: u64,
    output: u64,
    /// Input, output, cache read, cache write.
    price: [u64; 4],
    as_of: &'static str,
    has_long_window: bool,
}

/// The name of the beta by which Claude Sonnet 4 and 4.5 get a window of a million tokens
/// (<https://platform.claude.com/docs/en/build-with-claude/context-windows>). Anthropic itself ended
/// it on 2026-04-30 (<https://platform.claude.com/docs/en/release-notes/overview>): later models have
/// that window without asking. Other hosts of these models still have the beta.
pub const LONG_WINDOW: &str = "context-1m-2025-08-07";
const LONG: u64 = 1_000_000;

/// The model that is called where no other is named, so that a key alone is enough: at each provider
/// the one that its documentation names for a balance of strength and cost.
/// <https://platform.claude.com/docs/en/about-claude/models/overview>,
/// <https://developers.openai.com/api/docs/models>
pub fn default_model(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "claude-sonnet-5-5",
        Wire::Responses | Wire::Chat => "gpt-5.6-terra",
    }
}

/// The providers' list prices as we knew them on that day (a cache write of five minutes; OpenAI
/// charges one as input). They change without notice: the configuration overrides them.
const AS_OF: &str = "2025-11-24";
const NEWER: &str = "2026-11-16";
const ROWS: [Row; 28] = [
    newer("claude-fable-5-1", LONG, 128_000, [10_000, 50_000, 1_000, 12_500]),
    newer("claude-opus-5-5", LONG, 128_000, [4_000, 20_000, 400, 5_000]),
    newer("claude-opus-5", LONG, 128_000, [5_000, 25_000, 500, 6_250]),
    newer("claude-opus-4-8", LONG, 128_000, [5_000, 25_000, 500, 6_250]),
    newer("claude-opus-4-7", LONG, 128_000, [5_000, 25_000, 500, 6_250]),
    newer("claude-opus-4-6", LONG, 128_000, [5_000, 25_000, 500, 6_250]),
    newer("claude-sonnet-5-5", LONG, 128_000, [2_000, 10_000, 200, 2_500]),
    newer("claude-sonnet-5", LONG, 128_000, [2_000, 10_000, 200, 2_500]),
    newer("claude-sonnet-4-6", LONG, 64_000, [3_000, 15_000, 300, 3_750]),
    newer("gpt-6-astra", 1_050_000, 128_000, [10_000, 50_000, 1_000, 12_500]),
    // Prompts of more than 272,000 tokens cost more than this.
    newer("gpt-5.6-terra", 1_050_000, 128_000, [2_000, 12_000, 200, 2_000]),
    newer("gpt-5.6-luna", 1_050_000, 128_000, [200, 1_200, 20, 200]),
    row("claude-opus-4-5", 200_000, 64_000, [5_000, 25_000, 500, 6_250]),
    row("claude-opus-4-1", 200_000, 32_000, [15_000, 75_000, 1_500, 18_750]),
    Row {
        has_long_window: true,
        ..row("claude-sonnet-4-5", 200_000, 64_000, [3_000, 15_000, 300, 3_750])
    },
    row("claude-opus-4", 200_000, 32_000, [15_000, 75_000, 1_500, 18_750]),
    Row {
        has_long_window: true,
        ..row("claude-sonnet-4", 200_000, 64_000, [3_000, 15_000, 300, 3_750])
    },
    row("claude-haiku-4-5", 200_000, 64_000, [1_000, 5_000, 100, 1_250]),
    row("claude-3-5-haiku", 200_000, 8_192, [800, 4_000, 80, 1_000]),
    row("gpt-5", 400_000, 128_000, [1_250, 10_000, 125, 1_250]),
    row("gpt-5-mini", 400_000, 128_000, [250, 2_000, 25, 250]),
    row("gpt-5-nano", 400_000, 128_000, [50, 400, 5, 50]),
    row("gpt-4.1", 1_047_576, 32_768, [2_000, 8_000, 500, 2_000]),
    row("gpt-4.1-mini", 1_047_576, 32_768, [400, 1_600, 100, 400]),
    row("gpt-4o", 128_000, 16_384, [2_500, 10_000, 1_250, 2_500]),
    row("gpt-4o-mini", 128_000, 16_384, [150, 600, 75, 150]),
    row("o3", 200_000, 100_000, [2_000, 8_000, 500, 2_000]),
    row("o4-mini", 200_000, 100_000, [1_100, 4_400, 275, 1_100]),
];

const fn row(prefix: &'static str, window: u64, output: u64, price: [u64; 4]) -> Row {
    Row { prefix, window, output, price, as_of: AS_OF, has_long_window: false }
}

const fn newer(prefix: &'static str, window: u64, output: u64, price: [u64; 4]) -> Row {
    Row { as_of: NEWER, ..row(prefix, window, output, price) }
}

/// The row of a model.
fn row_of(model: &str) -> Option<&'static Row> {
    // Gateways put the provider before the name: `anthropic/claude-…`.
    let name = model.rsplit('/').next().unwrap_or(model);
    // `claude-sonnet-4.5` is how some of them write `claude-sonnet-4-5`.
    let name = if name.starts_with("claude") { name.replace('.', "-") } else { name.to_owned() };
    // Behind the name only a date may stand: `gpt-5-pro` is another model than `gpt-5`.
    let is_date = |rest: &str| {
        let digits = rest.bytes().filter(u8::is_ascii_digit).count();
        (4..=8).contains(&digits)
            && rest.starts_with("-20")
            && rest.bytes().all(|b| b.is_ascii_digit() || b == b'-')
    };
    let fits = |row: &&Row| {
        let rest = name.strip_prefix(row.prefix);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest == "-latest" || rest.starts_with(['@', ':']) || is_date(rest)
        })
    };
    ROWS.iter().filter(fits).max_by_key(|row| row.prefix.len())
}

/// The name of the beta that a model needs for a window of this size.
pub fn header_for(model: &str, window: u64) -> Option<&'static str> {
    row_of(model).filter(|row| row.has_long_window && window > row.window).map(|_| LONG_WINDOW)
}

/// What is known of a model, the user's own figures first.
pub fn known(model: &str, own: Option<&ModelConfig>) -> Known {
    let row = row_of(model);
    let listed = row.map(|row| {
        let [input, output, cache_read, cache_write] = row.price;
        Price { input, output, cache_read, cache_write, as_of: row.as_of }
    });
    let own_price = own.and_then(|own| {
        let (input, output) = (nano(own.input?), nano(own.output?));
        let cache_read = own.cache_read.map_or(input, nano);
        let cache_write = own.cache_write.map_or(input, nano);
        Some(Price { input, output, cache_read, cache_write, as_of: "the configuration" })
    });
    Known {
        context_window: own
            .and_then(|own| own.context_window)
            .or(row.map(|row| row.window))
            .map(Tokens),
        max_output: own.and_then(|own| own.max_output).or(row.map(|row| row.output)).map(Tokens),
        price: own_price.or(listed),
        long_window: row.filter(|row| row.has_long_window).map(|_| Tokens(LONG)),
    }
}

/// Dollars a million to nano-dollars a token.
fn nano(dollars: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the configuration holds 0 to 100,000"
    )]
    let nano = (dollars * 1_000.0).round() as u64;
    nano
}

/// What a call cost. Unknown, and never zero, when the price or the count is.
pub fn cost(usage: &Usage, price: Option<&Price>) -> Option<Cost> {
    let price = price?;
    let of = |tokens: Option<Tokens>, price: u64| {
        tokens.map_or(0, |tokens| tokens.0.saturating_mul(price))
    };
    // A provider without a cache says nothing of it; one that counts at all says these two.
    let (input, output) = (usage.input?, usage.output?);
    let cached = of(usage.cache_read, price.cache_read)
        .saturating_add(of(usage.cache_write, price.cache_write));
    Some(Cost(
        of(Some(input), price.input)
            .saturating_add(of(Some(output), price.output))
            .saturating_add(cached),
    ))
}

/// What several calls took: of a stage, of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub calls: u32,
    pub usage: Usage,
    /// Of the calls whose cost is known.
    pub cost: Cost,
    /// Calls whose cost nobody knows: the sum is then a lower bound.
    pub unknown_costs: u32,
}

impl Tally {
    pub fn add(&mut self, usage: &Usage, cost: Option<Cost>) {
        self.calls += 1;
        self.usage = self.usage.plus(*usage);
        match cost {
            Some(Cost(nano)) => self.cost.0 = self.cost.0.saturating_add(nano),
            None => self.unknown_costs += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_known_by_the_longest_prefix_of_its_name() {
        let input = |name: &str| known(name, None).price.map(|price| price.input);
        assert_eq!(input("claude-opus-4-5-20251101"), Some(5_000));
        assert_eq!(input("claude-opus-4-1-20250805"), Some(15_000));
        assert_eq!(input("anthropic/claude-sonnet-4.5"), Some(3_000));
        assert_eq!(input("gpt-5"), Some(1_250));
        assert_eq!(input("gpt-5-mini-2025-08-07"), Some(250));
        for unknown in [
            "gpt-50",
            "gpt-5-pro",
            "gpt-4.1-nano",
            "o3-mini",
            "claude-opus-4-9",
            "o3x",
            "",
            "qwen2.5-coder",
            "claude",
        ] {
            assert_eq!(
                known(unknown, None),
                Known { context_window: None, max_output: None, price: None, long_window: None },
                "{unknown}"
            );
        }
    }

    #[test]
    fn the_long_window_is_asked_for_where_a_model_has_it_by_a_header_alone() {
        assert_eq!(header_for("claude-sonnet-4-5-20250929", 1_000_000), Some(LONG_WINDOW));
        assert_eq!(header_for("claude-sonnet-4-5", 200_000), None, "its own window needs none");
        for other in ["claude-opus-4-5", "claude-haiku-4-5", "claude-sonnet-5-5", "gpt-5", "x"] {
            assert_eq!(header_for(other, 1_000_000), None, "{other}");
            assert_eq!(known(other, None).long_window, None, "{other}");
        }
        assert_eq!(known("claude-sonnet-4-6", None).context_window, Some(Tokens(1_000_000)));
    }

    #[test]
    fn every_default_model_has_a_price_and_a_window() {
        for wire in Wire::ALL {
            let known = known(default_model(wire), None);
            assert!(known.price.is_some() && known.context_window.is_some(), "{wire:?}");
        }
    }

    #[test]
    fn a_sum_says_how_much_of_it_is_unknown() {
        let mut tally = Tally::default();
        let usage = Usage { input: Some(Tokens(3)), output: Some(Tokens(4)), ..Usage::default() };
        tally.add(&usage, Some(Cost(5)));
        tally.add(&usage, None);
        assert_eq!((tally.calls, tally.cost, tally.unknown_costs), (2, Cost(5), 1));
        assert_eq!((tally.usage.input, tally.usage.cache_read), (Some(Tokens(6)), None));
    }

    #[test]
    fn the_configuration_wins_and_fills() {
        let own = ModelConfig {
            context_window: Some(1_000_000),
            input: Some(0.5),
            output: Some(2.0),
            ..ModelConfig::default()
        };
        let known = known("claude-sonnet-4-5", Some(&own));
        assert_eq!(known.context_window, Some(Tokens(1_000_000)));
        assert_eq!(known.max_output, Some(Tokens(64_000)));
        assert_eq!(
            known.price.map(|price| (price.input, price.cache_read, price.as_of)),
            Some((500, 500, "the configuration"))
        );
    }

    #[test]
    fn a_cost_counts_each_kind_of_token_and_is_unknown_rather_than_zero() {
        let price = known("claude-sonnet-4-5", None).price;
        let usage = Usage {
            input: Some(Tokens(12)),
            output: Some(Tokens(25)),
            cache_read: Some(Tokens(4_000)),
            cache_write: Some(Tokens(300)),
            reasoning: None,
        };
        // 12·3 + 25·15 + 4,000·0.3 + 300·3.75 millionths of a dollar.
        assert_eq!(cost(&usage, price.as_ref()), Some(Cost(2_736_000)));
        assert_eq!(cost(&usage, None), None);
        assert_eq!(cost(&Usage::default(), price.as_ref()), None);
        assert_eq!(Cost(2_736_000).to_string(), "$0.0028");
        assert_eq!(Cost(1).to_string(), "$0.0001");
        assert_eq!(Cost(12_345_678_900).to_string(), "$12.3457");
    }
}
