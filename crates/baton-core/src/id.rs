//! Newtypes for what must not be mixed up: names, counters, units, times. No clock in here: a
//! `Timestamp` is made from seconds that the caller knows.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The decider. Not an agent of any pack.
pub const MAIN: &str = "MAIN";
/// `next_agent` for a question to the person.
pub const USER: &str = "USER";
/// `next_agent` for the end of the run.
pub const FINISH: &str = "FINISH";
/// The last look before FINISH; always held to the report rules.
pub const FINISH_REVIEW: &str = "FINISH_REVIEW";
/// MAIN's second decision, after FINISH_REVIEW.
pub const FINISH_CHECK: &str = "FINISH_CHECK";
/// The prompt that archives old history; a file name beside the agents' ones.
pub const SUMMARY: &str = "SUMMARY";

/// What the built-in agent is told first in every stage: who works here, and how. Optional.
pub const SYSTEM: &str = "SYSTEM";

/// Words of the workflow that no pack may use for an agent.
pub const RESERVED: [&str; 7] = [MAIN, USER, FINISH, FINISH_REVIEW, FINISH_CHECK, SUMMARY, SYSTEM];

/// An agent's name: upper case in text, lower case in file names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct AgentName(String);

impl AgentName {
    const FORM: &str = "1 to 32 characters: A-Z, digits and `_`, the first a letter";

    pub fn new(name: &str) -> Result<AgentName, String> {
        let ok = name.len() <= 32
            && name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if ok {
            Ok(AgentName(name.to_owned()))
        } else {
            Err(format!("`{}` is not an agent name ({})", crate::text::shown(name, 40), Self::FORM))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As in `report_<agent>.md`.
    pub fn file_stem(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    pub fn from_file_stem(stem: &str) -> Option<AgentName> {
        AgentName::new(&stem.to_ascii_uppercase()).ok()
    }
}

impl AsRef<str> for AgentName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for AgentName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for AgentName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for AgentName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for AgentName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<AgentName, D::Error> {
        let name = String::deserialize(deserializer)?;
        AgentName::new(&name).map_err(serde::de::Error::custom)
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[derive(Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

counter! {
    /// One decision of MAIN and what it caused. Goes on across the runs of a blackboard.
    Iteration, u32
}
counter! {
    /// One try of a stage, from 1.
    Attempt, u32
}
counter! {
    /// Tokens of o200k_base.
    Tokens, u64
}

counter! {
    /// When a file was last changed, in nanoseconds since 1970: seconds would hide a change made
    /// within one.
    Mtime, u64
}

/// A tool result that was kept: `o17`. Short, since every stub carries one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub struct ObservationId(pub u32);

impl ObservationId {
    pub fn new(id: &str) -> Result<ObservationId, String> {
        let number = id.strip_prefix('o').filter(|digits| {
            // `o07` would be a second name of `o7`.
            digits.bytes().all(|b| b.is_ascii_digit())
                && (*digits == "0" || !digits.starts_with('0'))
        });
        number.and_then(|digits| digits.parse().ok()).map(ObservationId).ok_or_else(|| {
            let shown = crate::text::shown(id, 40);
            format!("`{shown}` is not an observation id (`o` and a number, as in `o17`)")
        })
    }
}

impl fmt::Display for ObservationId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "o{}", self.0)
    }
}

impl Serialize for ObservationId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObservationId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        ObservationId::new(&id).map_err(serde::de::Error::custom)
    }
}

/// One run of a task: letters, digits and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    pub fn new(id: &str) -> Result<RunId, String> {
        let ok = (1..=64).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if ok {
            Ok(RunId(id.to_owned()))
        } else {
            let shown = crate::text::shown(id, 40);
            Err(format!("`{shown}` is not a run id (1 to 64 letters, digits and `-`)"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RunId, D::Error> {
        let id = String::deserialize(deserializer)?;
        RunId::new(&id).map_err(serde::de::Error::custom)
    }
}

/// Seconds since 1970, written `2026-01-31T00:44:55` (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// 9999-12-31T23:59:59: what the written form can hold.
    pub const MAX: Timestamp = Timestamp(253_402_300_799);

    pub fn parse(text: &str) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        let shape = bytes.len() == 19
            && [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')]
                .iter()
                .all(|(at, mark)| bytes[*at] == *mark);
        if !shape {
            return None;
        }
        let number = |from: usize, to: usize| -> Option<u64> {
            let digits = text.get(from..to)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        };
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if year < 1970 || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = days_since_1970(year, month, day)?;
        Some(Timestamp(days * 86_400 + hour * 3_600 + minute * 60 + second))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text).ok_or_else(|| serde::de::Error::custom("not a time"))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.min(Self::MAX.0);
        let (year, month, day) = civil_date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

/// Days of the Gregorian calendar, counted in eras of 400 years that begin in March, so that the
/// leap day comes last.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year_from_march = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year_from_march / 400, year_from_march % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    (civil_date(days) == (year, month, day)).then_some(days)
}
