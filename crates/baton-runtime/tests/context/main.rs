//! What prompts are made of, on real blackboards in real folders.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests write files")]

mod boards;
mod cache;
mod guard;
mod sizes;
mod snapshots;
