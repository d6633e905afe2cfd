//! Shared by the tests: a place to run the binary in, a team that is played by a script, a model
//! that is played by a function. For tests and benchmarks alone.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests write files and start processes")]

pub mod credentials;
mod http;
mod model;
mod place;
mod talk;
mod team;

pub use http::{Asked, Script, Server, Step, ok, reply, send};
pub use model::{Model, call, calls, refusal, saying, silence, text};
pub use place::{Answer, KEY, Place, answer, answer_to, scrubbed};
pub use talk::Chat;
pub use team::{decision, report};
