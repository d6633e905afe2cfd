//! The engine of Baton without a front end: it reads and writes what `baton_core` decides about.
//! It never prints.

pub mod builtin;
pub mod load;
pub mod store;
pub mod sandbox;
pub mod model;
pub mod git;
pub mod machine;
pub mod board;
pub mod earlier;
pub mod switch;
pub mod summaries;
pub mod gather;
pub mod frame;
pub mod journal;
pub mod lock;
pub mod guard;
pub mod walk;
pub mod snapshot;
pub mod beneath;
pub mod repositories;
pub mod commits;
pub mod approve;
pub mod tool;
pub mod project_rules;
pub mod transcript;
pub mod agent;
pub mod executor;
pub mod view;
pub mod gates;
pub mod drive;
pub mod trust;
pub mod handoff;
pub mod evaluate;
pub mod lab;
