//! What a way of shortening an agent's history would have saved and forgotten, measured on sessions
//! that really happened, without calling a model. Goes in: the text of a recorded session. Comes out:
//! for each policy, how many of the facts that the agent's actions needed were still in sight, and
//! what its calls would have cost.
//!
//! `session` (what a recording holds), `import` (its text → sessions, whatever tool wrote it), `need`
//! (which facts each action needed), `truth` (whether what a request shows is what the tools returned),
//! `replay` (a policy's views → sums), `account` (what was false or missing in them), `own` (Baton's own
//! policy, by the agent's own code), `outline` (what one compaction would do), `policy` (the policies
//! by their names).

pub mod session;
pub mod import;
pub mod need;
pub mod truth;
pub mod replay;
pub mod account;
mod own;
pub mod outline;
pub mod policy;
