//! What confined programs can and cannot do: this program is the launcher, the tests, and the
//! attacker (`probe`), too. Every attack is made outside of the sandbox first, where it must work.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests write files and start processes")]
#![expect(clippy::print_stdout, reason = "what was tried is worth seeing")]

mod attack;
mod files;
mod ground;
mod limits;
mod live;
mod missing;
mod network;
mod probe;
mod processes;
mod programs;
mod rights;
mod secrets;
mod spare;
mod usage;
mod views;

use std::sync::atomic::Ordering;

/// All tests by name.
const TESTS: [(&str, fn()); 66] = [
    ("what_is_missing_is_said_and_nothing_runs", missing::refused),
    ("what_cannot_be_protected_is_refused", missing::unprotectable),
    ("no_process_survives", processes::no_process_survives),
    ("every_process_is_gone_before_the_call_returns", processes::gone_before_the_return),
    ("what_a_killed_baton_left_is_gone_before_the_next_starts", processes::left_behind),
    ("a_killed_baton_takes_everything_with_it", processes::killed_with_baton),
    ("an_interrupt_ends_everything", processes::interrupted),
    ("floods_and_hogs_are_bounded", usage::bounded_floods_and_hogs),
    ("no_kind_of_memory_is_used_beyond_the_limit", limits::memory),
    ("memory_that_processes_share_counts_once", limits::shared_once),
    ("a_fork_bomb_ends_in_time_and_the_machine_still_forks", limits::fork_bomb),
    ("a_thousand_processes_that_are_allowed_work", limits::a_thousand),
    ("no_file_gets_the_rights_of_its_owner", rights::no_rights_of_an_owner),
    ("no_lease_on_the_files_of_others", rights::no_leases),
    ("groups_of_a_killed_baton_are_removed", limits::groups_left_behind),
    ("daemons_that_fork_do_not_survive_an_interrupt", limits::interrupted_forks),
    ("the_whole_output_is_kept_on_disk", usage::copied),
    ("protected_files_cannot_be_touched", files::protected),
    ("stand_ins_come_and_go", files::stand_ins),
    ("hidden_files_cannot_be_read", files::hidden),
    ("credential_files_at_home_cannot_be_read", secrets::at_home),
    ("credential_files_that_variables_move_cannot_be_read", secrets::moved),
    ("secrets_are_hidden_whatever_the_home_folder_is", secrets::odd_homes),
    ("settings_are_seen_without_their_secrets", secrets::settings),
    ("settings_of_tools_are_seen_without_their_secrets", secrets::settings_of_tools),
    ("settings_that_are_not_understood_are_not_seen", secrets::hostile_settings),
    ("a_credential_that_is_kept_later_cannot_be_read", secrets::kept_later),
    ("toolchains_are_seen_and_links_to_secrets_are_not", secrets::tools),
    ("what_the_user_names_is_seen", secrets::named),
    ("an_open_program_cannot_touch_what_is_protected", files::open),
    ("nothing_is_reached_without_the_network", network::unreachable),
    ("with_the_network_only_the_internet_is_reached", network::reachable),
    ("ordinary_programs_work", programs::ordinary),
    ("a_program_has_its_own_tmp", programs::private_tmp),
    ("the_cost", programs::cost),
    ("a_spare_is_used_as_long_as_it_fits", spare::used),
    ("a_spare_that_no_longer_fits_is_thrown_away", spare::thrown_away),
    ("a_spare_that_is_not_used_leaves_nothing", spare::unused),
    ("a_program_in_a_spare_finds_nothing_of_it", spare::unseen),
    ("a_live_program_answers_line_after_line", live::answers),
    ("a_live_program_that_faults_is_ended_in_time", live::faults),
    ("of_a_live_program_no_process_survives", live::no_process_survives),
    ("a_live_program_that_says_too_much_is_bounded", live::bounded),
    ("a_live_program_is_confined", live::confined),
    ("the_cost_of_a_question", live::cost),
    ("all_that_works_for_a_stage_sees_the_same_view", views::one_view),
    ("an_edit_of_the_user_stays_and_does_not_reach_the_view", views::edits),
    ("a_view_has_the_files_of_the_project_as_they_are", views::same_files),
    ("a_view_is_found_again_and_goes_when_nothing_needs_it", views::found_again),
    ("two_views_at_a_time_do_not_share_their_files", views::two_views),
    ("without_an_overlay_a_copy_is_used_and_reported", views::copied),
    ("nothing_leads_out_of_a_view", views::attacks),
    ("in_a_spare_no_process_survives", || in_spare(processes::no_process_survives)),
    ("in_a_spare_every_process_is_gone_before_the_call_returns", || {
        in_spare(processes::gone_before_the_return);
    }),
    ("in_a_spare_floods_and_hogs_are_bounded", || in_spare(usage::bounded_floods_and_hogs)),
    ("in_a_spare_no_kind_of_memory_is_used_beyond_the_limit", || in_spare(limits::memory)),
    ("in_a_spare_a_fork_bomb_ends_in_time", || in_spare(limits::fork_bomb)),
    ("in_a_spare_the_whole_output_is_kept_on_disk", || in_spare(usage::copied)),
    ("in_a_spare_protected_files_cannot_be_touched", || in_spare(files::protected)),
    ("in_a_spare_stand_ins_come_and_go", || in_spare(files::stand_ins)),
    ("in_a_spare_hidden_files_cannot_be_read", || in_spare(files::hidden)),
    ("in_a_spare_credential_files_at_home_cannot_be_read", || in_spare(secrets::at_home)),
    ("in_a_spare_nothing_is_reached_without_the_network", || in_spare(network::unreachable)),
    ("in_a_spare_only_the_internet_is_reached", || in_spare(network::reachable)),
    ("in_a_spare_ordinary_programs_work", || in_spare(programs::ordinary)),
    ("in_a_spare_a_program_has_its_own_tmp", || in_spare(programs::private_tmp)),
];

fn main() {
    baton_runtime::sandbox::launch_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("probe") => std::process::exit(probe::probe(&args[1..])),
        Some("says-it-again") => return live::program(),
        Some("without-an-overlay") => return views::without_an_overlay(&args[1]),
        Some("limited") => return limits::limited(&args[1], &args[2]),
        Some("child") => return processes::child(&args[1..]),
        _ => {}
    }
    // As the usual test programs do: a word chooses tests by name.
    let filter = args.iter().find(|word| !word.starts_with('-')).cloned().unwrap_or_default();
    if args.iter().any(|word| word == "--list") {
        return;
    }
    let (mut ran, mut failed) = (0, Vec::new());
    for (name, test) in TESTS {
        if !name.contains(&filter) {
            continue;
        }
        ran += 1;
        let start = std::time::Instant::now();
        match std::panic::catch_unwind(test) {
            Ok(()) => println!("test {name} ... ok ({:.1} s)", start.elapsed().as_secs_f64()),
            Err(_) => failed.push(name),
        }
    }
    println!("{ran} tests, {} failed {failed:?}", failed.len());
    baton_runtime::sandbox::remove_groups();
    std::process::exit(i32::from(!failed.is_empty()));
}

fn in_spare(test: fn()) {
    ground::IN_SPARE.store(true, Ordering::SeqCst);
    let result = std::panic::catch_unwind(test);
    ground::IN_SPARE.store(false, Ordering::SeqCst);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}
