//! Several processes at once in a project without a blackboard: one makes it, nobody ever sees half of
//! one, and the others are told who holds it. `BATON_SWEEP=all` for 1,000 races.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_testkit::Place;

const RUN: [&str; 4] = ["run", "Make add() safe", "--executor", "script"];
const INIT: [&str; 2] = ["init", "--no-gates"];

/// Looks at the blackboard again and again; it is whole whenever it is there. How often it was looked at.
fn watched(place: &Place, is_over: &Arc<AtomicBool>) -> std::thread::JoinHandle<usize> {
    let (board, is_over) = (place.path("project/.baton"), is_over.clone());
    std::thread::spawn(move || {
        let mut looks = 0;
        while !is_over.load(Ordering::SeqCst) {
            looks += 1;
            // A stand-in of a command that runs is an empty folder; `state` is what a race begins with.
            let entries = std::fs::read_dir(&board).into_iter().flatten().flatten();
            if entries.filter(|entry| entry.file_name() != "state").count() == 0 {
                continue;
            }
            let files = ["baton.toml", "memory/dev_plan.md", "memory/verification_policy.json"];
            for name in files.iter().chain(&["memory/prompts/subagent_prompt_main.md", "journal"]) {
                assert!(board.join(name).exists(), "half a blackboard: no {name}");
            }
        }
        looks
    })
}

fn begin(place: &Place, args: &[&str]) -> Child {
    let mut command = place.plain(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn ended(child: &mut Child) -> Option<i32> {
    child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
}

fn said(child: Child) -> (i32, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap_or(-1), crate::hostile::said(&output))
}

/// One race: the run that wins holds the blackboard until all others have ended.
fn race(number: usize, processes: usize) -> usize {
    let place = Place::of_team(crate::BATON);
    place.write("play/1-MAIN.sh", "while ! [ -e ../go ]; do sleep 0.02; done\n");
    place.play("1-MAIN", "nonsense");
    if number.is_multiple_of(3) {
        std::fs::create_dir_all(place.path("project/.baton/state")).unwrap();
    }
    let is_over = Arc::<AtomicBool>::default();
    let watch = watched(&place, &is_over);
    // Every second race has an `init` in it.
    let inits = if number.is_multiple_of(2) { 0 } else { processes / 4 + 1 };
    let mut runs: Vec<Child> = Vec::new();
    let mut others: Vec<Child> = Vec::new();
    for index in 0..processes {
        match index < inits {
            true => others.push(begin(&place, &INIT)),
            false => runs.push(begin(&place, &RUN)),
        }
    }
    let start = Instant::now();
    while runs.iter_mut().filter_map(ended).count() + 1 < runs.len() {
        assert!(start.elapsed() < Duration::from_secs(120), "they wait for each other");
        std::thread::sleep(Duration::from_millis(5));
    }
    place.write("go", "");
    let results: Vec<(i32, String)> = runs.into_iter().map(said).collect();
    let winners = results.iter().filter(|(code, _)| *code == 3).count();
    assert_eq!(winners, 1, "{results:#?}");
    for (_, said) in results.iter().filter(|(code, _)| *code != 3) {
        assert!(said.contains("held by another process: process "), "{said}");
    }
    assert!(results.iter().all(|(code, _)| matches!(code, 3 | 5)), "{results:#?}");
    let inits: Vec<(i32, String)> = others.into_iter().map(said).collect();
    assert!(inits.iter().filter(|(code, _)| *code == 0).count() <= 1, "{inits:#?}");
    for (code, said) in &inits {
        assert!(*code == 0 || *code == 2 && said.contains("is already a blackboard"), "{said}");
    }
    is_over.store(true, Ordering::SeqCst);
    let runs = std::fs::read_dir(place.path("project/.baton/journal")).unwrap().count();
    assert_eq!(runs, 1, "one run was begun");
    let left = std::fs::read_dir(place.path("project")).unwrap().flatten();
    let left = left.filter(|own| own.file_name().to_string_lossy().starts_with(".baton-new"));
    assert_eq!(left.count(), 0);
    watch.join().unwrap()
}

#[test]
fn of_several_first_runs_one_makes_the_blackboard_and_the_others_are_told_who_holds_it() {
    let count = if crate::hostile::is_sweep() { 1_000 } else { 12 };
    let looks = AtomicUsize::default();
    for number in 0..count {
        looks.fetch_add(race(number, 2 + number % 7), Ordering::SeqCst);
    }
    println!(
        "{count} races, one writer each; {} looks, never half a blackboard",
        looks.into_inner()
    );
}

#[test]
fn agents_that_begin_at_the_same_time_do_not_disturb_the_first_run() {
    use baton_testkit::{call, text};
    for number in 0..4 {
        let bash = call("Bash", serde_json::json!({ "command": "sleep 0.2" }));
        let place = crate::talk(vec![bash.clone(), bash.clone(), bash, text("done")]);
        let is_over = Arc::<AtomicBool>::default();
        let watch = watched(&place, &is_over);
        let mut execs: Vec<Child> = (0..3)
            .map(|_| {
                let mut command = place.command(&["exec", "-p", "Go."]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        if number > 1 {
            // While the commands run.
            std::thread::sleep(Duration::from_millis(100 * number));
        }
        let (code, told) = said(begin(&place, &INIT));
        assert_eq!(code, 0, "{told}");
        for exec in execs.drain(..) {
            let (code, told) = said(exec);
            assert_eq!(code, 0, "{told}");
            assert!(!told.contains("moved aside"), "{told}");
        }
        let (code, told) = said(begin(&place, &["status"]));
        assert_eq!(code, 0, "{told}");
        is_over.store(true, Ordering::SeqCst);
        watch.join().unwrap();
    }
}
