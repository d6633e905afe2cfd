//! The promises of the core, one file a subject.
#![expect(clippy::disallowed_methods, reason = "tests read the sources and the packs from disk")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod accounts;
mod approvals;
mod cases;
mod common;
mod comparisons;
mod corpus;
mod decision_cases;
mod documents;
mod facts;
mod fuzz;
mod gates;
mod handoffs;
mod hostile;
mod ids;
mod lab;
mod languages;
mod lying_teams;
mod mentions;
mod messages;
mod notes;
mod observations;
mod one_language;
mod packs;
mod plans;
mod report_cases;
mod promises;
mod prompts;
mod round_trips;
mod scenarios;
mod summaries;
mod threads;
mod tidy;
mod truth;
mod turns;
mod windows;
mod workflows;

const PACKS: [&str; 4] = ["tdd", "novel", "analysis", "scenario"];
const LANGUAGES: [&str; 2] = ["en", "zh"];
