//! A scenario: samples that a target agent is put through, over a state that Baton holds. `parts`
//! (manifests of tools and checkers, samples → checked types), `talk` (the conversation of target,
//! user and tools), `check` (assertions on the final state and the calls → verdicts with a reason),
//! `result` (what a sample leaves), `compare` (two iterations → what changed),
//! `judge` (what a model is asked about it, and its answers),
//! `count` (what code counts: failures, groups, problems, priorities).

pub mod check;
pub mod compare;
pub mod count;
pub mod judge;
pub mod parts;
pub mod result;
pub mod talk;

/// The files of a design, from the scenario's folder.
pub const DESIGN: [&str; 3] =
    ["unified_scenario_design.yaml", "BusinessRules.md", "format_specifications.json"];
pub const TOOLS: &str = "tools.json";
pub const CHECKERS: &str = "checkers.json";
pub const SAMPLES: &str = "samples";
/// Where the programs of tools and checkers are.
pub const TOOL_FILES: &str = "tools";
pub const CHECKER_FILES: &str = "checkers";
/// A scenario's folder, from the project's root.
pub fn folder(name: &str) -> String {
    format!("scenarios/{name}")
}

/// Where iterations are.
pub const OUTPUTS: &str = "execution_outputs";
/// An iteration's head, its first file.
pub const HEAD: &str = "evaluation.json";

pub const MAX_SAMPLE_BYTES: u64 = 1 << 20;
pub const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// Of a tool's line, in and out.
pub const MAX_LINE_BYTES: usize = 4 << 20;
