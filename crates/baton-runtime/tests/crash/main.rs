//! What a run must survive: this program runs itself as a child that is killed at every point where
//! it touches the disk, and looks whether the blackboard comes out the same. The default takes a
//! part of the points; `BATON_SWEEP=all` takes every one, `BATON_SWEEP=k/n` the k-th of n parts.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests write files and start processes")]
#![expect(clippy::print_stdout, reason = "what was swept is worth seeing")]

mod acts;
mod again;
mod agent;
mod clocks;
mod compaction;
mod damage;
mod full_disk;
mod power;
mod question;
mod race;
mod reference;
mod scenario;
mod stored;
mod sweep;
mod syncs;
mod tools;

use std::sync::Mutex;

/// Every test by its name, in the order in which they run.
const TESTS: [(&str, fn()); 41] = [
    ("parts_of_a_sweep_are_all_of_it", sweep::parts_of_a_sweep_are_all_of_it),
    ("finished_samples_survive_a_power_loss", scenario::finished_samples_survive_a_power_loss),
    ("a_budget_counts_what_came_before", scenario::a_budget_counts_what_came_before),
    ("killed_at_every_write_of_an_evaluation", scenario::killed_at_every_write_of_an_evaluation),
    ("a_run_is_the_same_twice", sweep::a_run_is_the_same_twice),
    ("killed_at_every_point_a_run_reaches_the_same_board", sweep::killed_at_every_point),
    ("killed_at_every_point_with_an_agent_in_the_run", agent::killed_at_every_point_with_an_agent),
    (
        "a_full_disk_stops_an_agent_and_repeats_nothing",
        agent::a_full_disk_stops_an_agent_and_repeats_nothing,
    ),
    (
        "a_sync_that_fails_stops_an_agent_and_repeats_nothing",
        agent::a_sync_that_fails_stops_an_agent_and_repeats_nothing,
    ),
    (
        "disturbed_at_every_point_while_a_conversation_is_folded_and_compacted",
        compaction::disturbed_at_every_point_of_a_compaction,
    ),
    ("killed_in_the_middle_of_a_write", sweep::killed_in_the_middle_of_a_write),
    ("killed_again_while_it_resumes", sweep::killed_again_while_it_resumes),
    ("killed_at_every_pair_of_points", again::killed_at_every_pair_of_points),
    (
        "killed_at_every_pair_of_points_with_an_agent",
        again::killed_at_every_pair_of_points_with_an_agent,
    ),
    ("killed_again_and_again_with_an_agent", again::killed_again_and_again_with_an_agent),
    ("a_full_tmpfs_stops_and_loses_nothing", full_disk::a_full_tmpfs_stops_and_loses_nothing),
    (
        "a_full_tmpfs_stops_an_agent_and_repeats_nothing",
        full_disk::a_full_tmpfs_stops_an_agent_and_repeats_nothing,
    ),
    ("a_full_disk_stops_and_loses_nothing", sweep::a_full_disk_stops_and_loses_nothing),
    ("a_sync_that_fails_stops_the_run", sweep::a_sync_that_fails_stops_the_run),
    ("each_sync_that_fails_once_stops_the_run", syncs::each_sync_that_fails_once_stops_the_run),
    ("each_sync_that_fails_once_stops_an_agent", syncs::each_sync_that_fails_once_stops_an_agent),
    (
        "a_clock_that_jumps_changes_nothing_but_the_times",
        clocks::a_clock_that_jumps_changes_nothing_but_the_times,
    ),
    (
        "a_clock_that_jumps_between_a_kill_and_its_resume_changes_nothing",
        clocks::a_clock_that_jumps_between_a_kill_and_its_resume_changes_nothing,
    ),
    ("no_clock_makes_a_timeout_early_or_late", clocks::no_clock_makes_a_timeout_early_or_late),
    ("of_many_processes_one_writes", race::of_many_processes_one_writes),
    ("a_holder_that_sleeps_still_holds", race::a_holder_that_sleeps_still_holds),
    ("a_stale_lock_file_holds_nobody_up", race::a_stale_lock_file_holds_nobody_up),
    ("a_woken_zombie_writes_nothing", race::a_woken_zombie_writes_nothing),
    (
        "an_agent_killed_in_its_act_is_lost_and_said",
        acts::an_agent_killed_in_its_act_is_lost_and_said,
    ),
    (
        "a_gate_killed_in_its_act_runs_again_and_is_said",
        acts::a_gate_killed_in_its_act_runs_again_and_is_said,
    ),
    ("no_act_of_a_tool_runs_twice", tools::no_act_of_a_tool_runs_twice),
    (
        "a_command_that_is_cut_off_in_its_middle_does_not_run_again",
        tools::a_command_that_is_cut_off_in_its_middle_does_not_run_again,
    ),
    ("a_torn_record_is_cut_and_said", damage::a_torn_record_is_cut_and_said),
    ("a_flipped_bit_is_found_with_its_record", damage::a_flipped_bit_is_found),
    ("acknowledged_records_survive_a_power_loss", damage::acknowledged_records_survive),
    ("what_was_synced_survives_a_power_loss", power::what_was_synced_survives_a_power_loss),
    ("changed_rules_are_named", damage::changed_rules_are_named),
    ("stored_journals_are_read", stored::stored_journals_are_read),
    ("a_question_outlives_a_crash", question::a_question_outlives_a_crash),
    ("a_question_takes_one_answer_of_its_own", question::a_question_takes_one_answer_of_its_own),
    (
        "an_answer_to_an_older_question_is_refused",
        question::an_answer_to_an_older_question_is_refused,
    ),
];

/// Why the test that runs now could not be run here.
static NOT_RUN: Mutex<Option<&str>> = Mutex::new(None);

/// Said by a test that the machine has not what it needs for: it then counts as neither passed nor failed.
pub(crate) fn not_run(why: &'static str) {
    *NOT_RUN.lock().unwrap() = Some(why);
}

fn main() {
    baton_runtime::sandbox::launch_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match &words[..] {
        ["child", ..] => std::process::exit(reference::child(&args[1..])),
        ["evaluate", ..] => std::process::exit(scenario::child(&args[1..])),
        ["store", folder] => return stored::store(std::path::Path::new(folder)),
        ["on-a-tmpfs", word] => return full_disk::on_a_tmpfs(word),
        _ => {}
    }
    // As the usual test programs do: a word chooses tests by name.
    let filter = args.iter().find(|word| !word.starts_with('-')).cloned().unwrap_or_default();
    if args.iter().any(|word| word == "--list") {
        return;
    }
    let mut missing = Vec::new();
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&filter)) {
        let start = std::time::Instant::now();
        test();
        match NOT_RUN.lock().unwrap().take() {
            None => println!("test {name} ... ok ({:.1} s)", start.elapsed().as_secs_f64()),
            Some(why) => {
                println!("test {name} ... NOT RUN: {why}");
                missing.push(*name);
            }
        }
    }
    if !missing.is_empty() {
        println!("WARNING: NOT RUN on this machine: {}", missing.join(", "));
    }
}
