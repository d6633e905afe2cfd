//! Commands that confirm a pass: `detect` (a project's files → the commands that would run its
//! tests), `edit` (a policy's text → the same text with other gates), `judge` (the end of a command and
//! its output → passed, or the reason why not).

mod detect;
mod edit;
mod judge;

pub use detect::{Detected, Project, Proposal, detect};
pub use edit::with_gates;
pub use judge::{Ending, Judged, judge, reason};
