//! What prompts are made of, on real blackboards in real folders.

mod boards;
mod cache;
mod guard;
mod sizes;
mod snapshots;
