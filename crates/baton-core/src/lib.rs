//! The rules of Baton, without any I/O: no files, environment, clock, randomness or logging.
//! Text comes in as bytes, `now` is passed in, and what is wrong comes out as `Problem`s.
//!
//! Modules stand in reading order; each imports only earlier ones (a test checks it).

pub mod text;
pub mod messages;
pub mod problem;
pub mod document;
pub mod id;
pub mod tokens;
pub mod policy;
pub mod gate;
pub mod report;
pub mod plan;
pub mod decision;
pub mod history;
pub mod pack;
pub mod summary;
pub mod window;
pub mod notes;
pub mod message;
pub mod fact;
pub mod freshness;
pub mod observation;
pub mod mention;
pub mod fold;
pub mod thread;
pub mod turn;
pub mod profile;
pub mod config;
pub mod machine;
pub mod prompt;
pub mod event;
pub mod workflow;
pub mod view;
pub mod handoff;
pub mod scenario;
pub mod lab;
