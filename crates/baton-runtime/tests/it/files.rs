//! The agent's file tools against a model that wants out: paths of every kind, folders that are
//! swapped while we look, inputs without measure, questions that hide something. `BATON_SWEEP=all`
//! for the large counts.

mod git;
mod ground;
mod paths;
mod questions;
mod race;
mod sizes;
