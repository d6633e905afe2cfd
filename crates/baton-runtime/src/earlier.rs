//! The built-in files of earlier versions, by their hashes (`earlier.txt`). A blackboard holds copies
//! of the policy and the prompts of the version that made it; a copy that is still what that version
//! wrote is not a change of the user's.

use std::path::{Path, PathBuf};

use baton_core::pack::Pack;
use baton_core::policy::{self, Policy};
use serde_json::Value;

use crate::board::{self, Board, Error};
use crate::{builtin, load};

/// One file per line: version, pack, language, path in the blackboard, BLAKE3 hash.
const TABLE: &str = include_str!("earlier.txt");

/// A file of a blackboard that an earlier version wrote and that was not changed since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldCopy {
    pub path: PathBuf,
    pub version: &'static str,
}

/// The newest earlier version that wrote this content under this path, in any pack and language.
pub fn version_of(path: &Path, content: &[u8]) -> Option<&'static str> {
    let hash = blake3::hash(content).to_hex();
    let rows = TABLE.lines().rev().map(|line| line.split(' ').collect::<Vec<_>>());
    rows.filter_map(|row| match row[..] {
        [version, _, _, file, known] if known == hash.as_str() => Some((version, file)),
        _ => None,
    })
    .find(|(_, file)| Path::new(file) == path)
    .map(|(version, _)| version)
}

/// The files of a blackboard that are unmodified copies from earlier versions and that this version
/// would write differently.
pub fn old_copies(board: &Board) -> Result<Vec<OldCopy>, Error> {
    let name = &board.pack.manifest.name;
    let Some(files) = builtin::files(name).filter(|_| board.is_own) else { return Ok(Vec::new()) };
    let pack = Pack::read(&files, &board.pack.language).map_err(Error::Invalid)?;
    let current = board::pack_owned(&pack);
    let mut found = Vec::new();
    for path in board::pack_files_on_disk(&board.root)? {
        let content = load::bytes(&board.root.join(&path), load::SMALL)?;
        let is_current = current.iter().any(|(own, text)| *own == path && *text == content);
        if let Some(version) = version_of(&path, &content).filter(|_| !is_current) {
            found.push(OldCopy { path, version });
        }
    }
    Ok(found)
}

/// The fields of a policy of 0.1, object by object: `<path>: <names>`.
const POLICY_0_1: &str = "\
: $schema report_rules plan routing finish_rules milestones context tdd_rules subloop gates approval evaluation escalation
report_rules: apply_to require_verdict verdict_prefix verdict_allowed verdict_pass verdict_fail verdict_blocked blocker_prefix blocker_clear_value blocker_classes
plan: statuses aliases final verified_by
routing: needs_pass after_fail after_blocked
finish_rules: max_finish_attempts
milestones: plan_changes_over pass_of texts
milestones.texts: user_decision finish_attempt plan_update first_pass pass_again
context: relevant_reports finish_ladder key_change_headings evidence_headings orders summary_fields
context.orders: fixer tester finish_review finish_check correction changes
tdd_rules: test_first test_required_gate min_coverage
subloop: tester fixer enter_on max timeout
approval: before changes_to files texts
approval.texts: title text approve change
evaluation: of back_to success_percent critical_percent gain_percent gain_within same_critical layer2_most layer3_most
escalation: same_blocker no_plan_change classes";

/// A policy as 0.1 would have rendered it: without the fields that it did not know.
pub(crate) fn policy_as_0_1(policy: &Policy) -> String {
    let mut value = serde_json::to_value(policy).unwrap_or_default();
    keep_0_1(&mut value, "");
    format!("{value:#}\n")
}

fn keep_0_1(value: &mut Value, path: &str) {
    let Some(fields) = value.as_object_mut().filter(|_| policy::merges(path)) else { return };
    let known = POLICY_0_1.lines().find_map(|line| line.strip_prefix(path)?.strip_prefix(": "));
    let Some(known) = known else { return };
    fields.retain(|name, _| known.split(' ').any(|own| own == name));
    for (name, value) in fields {
        let dot = if path.is_empty() { "" } else { "." };
        keep_0_1(value, &format!("{path}{dot}{name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of this version's built-in files, as the table has them.
    fn rows() -> Vec<String> {
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let mut rows = Vec::new();
        for (manifest, files) in builtin::packs() {
            for language in &manifest.languages {
                let pack = Pack::read(&files, language).expect("a built-in pack is right");
                rows.extend(board::pack_owned(&pack).into_iter().map(|(path, content)| {
                    let (path, hash) = (path.display(), blake3::hash(&content).to_hex());
                    format!("{major}.{minor} {} {language} {path} {hash}", manifest.name)
                }));
            }
        }
        rows.sort();
        rows
    }

    /// To add a version: run this test at its release with `BATON_PRINT_BUILT_INS=1 -- --nocapture`
    /// and append what it prints to the table.
    #[test]
    fn every_version_before_this_one_is_in_the_table() {
        if std::env::var_os("BATON_PRINT_BUILT_INS").is_some() {
            println!("{}", rows().join("\n"));
        }
        let versions = |minor: u32| format!("{}.{minor}", env!("CARGO_PKG_VERSION_MAJOR"));
        let minor: u32 = env!("CARGO_PKG_VERSION_MINOR").parse().expect("a number");
        for version in (1..minor).map(versions) {
            let count = TABLE.lines().filter(|row| row.split(' ').next() == Some(&version)).count();
            assert!(count > 40, "the table has {count} files of {version}");
        }
    }

    #[test]
    fn fields_that_0_1_did_not_know_do_not_count_in_a_policy_of_it() {
        for (manifest, files) in builtin::packs() {
            let pack =
                Pack::read(&files, &manifest.languages[0]).expect("a built-in pack is right");
            let mut newer = serde_json::to_value(&pack.policy).expect("plain data");
            let mut was = newer.clone();
            keep_0_1(&mut was, "");
            for pointer in ["", "/context", "/context/orders", "/milestones/texts"] {
                newer.pointer_mut(pointer).expect("an object")["a_new_field"] = true.into();
            }
            // An entry of a map is not a field.
            newer["report_rules"]["blocker_classes"]["mine"] = serde_json::json!([]);
            was["report_rules"]["blocker_classes"]["mine"] = serde_json::json!([]);
            keep_0_1(&mut newer, "");
            assert_eq!(newer, was, "{}", manifest.name);
        }
    }

    #[test]
    fn each_row_of_the_table_is_whole_and_in_order() {
        let mut last = (0, 0);
        for row in TABLE.lines() {
            let parts: Vec<&str> = row.split(' ').collect();
            let [version, _, _, path, hash] = parts[..] else { panic!("{row}") };
            let (major, minor) = version.split_once('.').expect("two numbers");
            let numbers = (major.parse().expect("a number"), minor.parse().expect("a number"));
            assert!(numbers >= last && path.starts_with("memory/") && hash.len() == 64, "{row}");
            last = numbers;
        }
    }
}
