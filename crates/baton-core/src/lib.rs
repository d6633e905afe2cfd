//! The rules of Baton, without any I/O: no files, environment, clock, randomness or logging.
//! Text comes in as bytes, `now` is passed in, and what is wrong comes out as `Problem`s.
//!
//! Modules stand in reading order; each imports only earlier ones (a test checks it).

pub mod config;
pub mod decision;
pub mod document;
pub mod history;
pub mod id;
pub mod pack;
pub mod plan;
pub mod policy;
pub mod problem;
pub mod report;
pub mod text;
pub mod tokens;
