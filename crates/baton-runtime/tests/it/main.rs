//! The engine without a front end, one file a subject. Programs of their own are `crash`, which runs
//! itself as the child that is killed, and `confine`, which runs itself inside of the sandbox.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests write files and read variables")]
#![expect(clippy::print_stdout, reason = "what was not looked at is worth seeing")]

mod agents;
mod compaction;
mod context;
mod files;
mod models;
mod streams;
mod walk;
