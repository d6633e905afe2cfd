//! The agent's file tools against a model that wants out: paths of every kind, folders that are
//! swapped while we look, inputs without measure, questions that hide something. `BATON_SWEEP=all`
//! for the large counts.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests write files and read a variable")]

mod ground;
mod paths;
mod questions;
mod race;
mod sizes;
