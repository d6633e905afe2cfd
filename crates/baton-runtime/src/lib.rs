//! The engine of Baton without a front end: it reads and writes what `baton_core` decides about.
//! It never prints.

pub mod builtin;
pub mod load;
pub mod store;
pub mod sandbox;
pub mod model;
pub mod git;
pub mod board;
pub mod switch;
pub mod summaries;
pub mod gather;
pub mod journal;
pub mod lock;
pub mod guard;
pub mod snapshot;
pub mod executor;
pub mod drive;
pub mod trust;
