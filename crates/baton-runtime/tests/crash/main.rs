//! What a run must survive: this program runs itself as a child that is killed at every point where
//! it touches the disk, and looks whether the blackboard comes out the same. The default takes a
//! part of the points; `BATON_SWEEP=all` takes every one, `BATON_SWEEP=k/n` the k-th of n parts.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests write files and start processes")]
#![expect(clippy::print_stdout, reason = "what was swept is worth seeing")]

mod acts;
mod agent;
mod compaction;
mod damage;
mod power;
mod question;
mod race;
mod reference;
mod scenario;
mod stored;
mod sweep;

/// Every test by its name, in the order in which they run.
const TESTS: [(&str, fn()); 30] = [
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
        "killed_at_every_point_while_a_conversation_is_folded_and_compacted",
        compaction::killed_at_every_point_of_a_compaction,
    ),
    ("killed_in_the_middle_of_a_write", sweep::killed_in_the_middle_of_a_write),
    ("killed_again_while_it_resumes", sweep::killed_again_while_it_resumes),
    ("a_full_disk_stops_and_loses_nothing", sweep::a_full_disk_stops_and_loses_nothing),
    ("a_sync_that_fails_stops_the_run", sweep::a_sync_that_fails_stops_the_run),
    (
        "a_clock_that_jumps_changes_nothing_but_the_times",
        sweep::a_clock_that_jumps_changes_nothing_but_the_times,
    ),
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

fn main() {
    baton_runtime::sandbox::launch_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|word| word == "child") {
        std::process::exit(reference::child(&args[1..]));
    }
    if args.first().is_some_and(|word| word == "evaluate") {
        std::process::exit(scenario::child(&args[1..]));
    }
    if let [word, folder] = &args[..]
        && word == "store"
    {
        return stored::store(std::path::Path::new(folder));
    }
    // As the usual test programs do: a word chooses tests by name.
    let filter = args.iter().find(|word| !word.starts_with('-')).cloned().unwrap_or_default();
    if args.iter().any(|word| word == "--list") {
        return;
    }
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&filter)) {
        let start = std::time::Instant::now();
        test();
        println!("test {name} ... ok ({:.1} s)", start.elapsed().as_secs_f64());
    }
}
