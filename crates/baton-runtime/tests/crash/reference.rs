//! The reference run: 3 agents, 2 sub-loops, a question and a finish, played by a script that writes
//! real files; and the child process that runs it with a fault in its disk.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use baton_core::event::{Limits, Spent, StageId, StageResult};
use baton_core::id::{Timestamp, Tokens};
use baton_core::workflow::Phase;
use baton_runtime::board::{Board, NewBoard};
use baton_runtime::drive::{self, Around, Control, Drive, End};
use baton_runtime::executor::{Call, Executor, Executors, Hear, Outcome, Unusable};
use baton_runtime::load::Environment;
use baton_runtime::sandbox::Interrupt;
use baton_runtime::store::{Disk, Fault};

pub(crate) const FINISHED: i32 = 0;
pub(crate) const FAILED: i32 = 40;
pub(crate) const HELD: i32 = 41;

pub(crate) fn make(folder: &Path) {
    let project = folder.join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("lib.rs"), "fn add() {}\n").unwrap();
    NewBoard { root: &project.join(".baton"), pack: "tdd", language: "en" }.create().unwrap();
    let policy = project.join(".baton/memory/verification_policy.json");
    let text = fs::read_to_string(&policy).unwrap();
    let text = text.replace("\"min_coverage\": 80", "\"min_coverage\": 0");
    fs::write(policy, text).unwrap();
}

pub(crate) fn open(folder: &Path) -> Board {
    Board::open(&folder.join("project/.baton"), &Environment::of(&[])).unwrap()
}

pub(crate) fn limits() -> Limits {
    Limits {
        iterations: 20,
        seconds: None,
        tokens: None,
        cost: None,
        stage_seconds: 60,
        stage_tokens: None,
        stage_cost: None,
    }
}

/// What each stage answers.
fn answer(stage: &StageId) -> String {
    let report = |verdict: &str, blockers: &str| {
        format!(
            "iteration: {}\nverdict: {verdict}\nblockers: {blockers}\n\nM1-T1\n",
            stage.iteration
        )
    };
    let decision = |next: &str, plan: &str| {
        format!(
            r#"{{"next_agent":"{next}","reason":"M1-T1 in iteration {}","dev_plan":{plan},"finish_review_override":null,"task":"M1-T1"}}"#,
            stage.iteration
        )
    };
    match (stage.iteration.0, stage.name.as_str(), stage.subloop) {
        (1, "MAIN", _) => decision("TEST", r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###),
        (1 | 3, "TEST", None) => report("FAIL", "[impl] overflow in add()"),
        (1, "TEST", Some(1)) => report("FAIL", "[impl] still wrong"),
        (_, "TEST" | "DEV", Some(_)) => report("PASS", "none"),
        (2, "MAIN", _) => r#"{"next_agent":"USER","reason":"which way?","dev_plan":null,"finish_review_override":null,"question":{"title":"Which way?","text":"Keep it?","options":[{"option_id":"keep","description":"as it is"},{"option_id":"drop","description":"away"}],"recommended_option_id":"keep"}}"#.to_owned(),
        (3, "MAIN", _) => decision("TEST", r#""update M1-T1 status to IN_PROGRESS""#),
        (4, "MAIN", _) => decision("REVIEW", r#""update M1-T1 status to DONE; set M1-T1 evidence: 第 3 轮""#),
        (_, "MAIN", _) => decision("FINISH", r#""update M1-T1 status to VERIFIED""#),
        (_, "FINISH_CHECK", _) => decision("FINISH", "null"),
        _ => report("PASS", "none"),
    }
}

/// Plays the team; every call is written down where no fault reaches.
struct Script {
    project: PathBuf,
    calls: PathBuf,
}

impl Executor for Script {
    fn name(&self) -> String {
        "a script".to_owned()
    }

    fn call(&mut self, call: &Call<'_>, _: &Interrupt, _: Hear<'_>) -> Result<Outcome, Unusable> {
        let mut calls = fs::File::options().create(true).append(true).open(&self.calls).unwrap();
        let stage = call.stage;
        writeln!(calls, "{stage} attempt {}", call.attempt).unwrap();
        if call.writes {
            let name =
                format!("{}-{}-{}.rs", stage.name, stage.iteration, stage.subloop.unwrap_or(0));
            fs::write(self.project.join(name), format!("// {stage}\n")).unwrap();
            fs::write(self.project.join("lib.rs"), format!("fn add() {{}} // {stage}\n")).unwrap();
        }
        let spent =
            Spent { milliseconds: 1, tokens: Some(Tokens(10)), cached: None, cost: Some(1) };
        Ok(Outcome { result: StageResult::Answer(answer(stage)), spent })
    }
}

/// Runs to the end: begins, or goes on with what is there; answers the question.
fn go(folder: &Path, disk: Disk, clock: fn() -> Timestamp) -> Result<i32, drive::Error> {
    let board = open(folder);
    let environment = Environment::of(&[]);
    let script = Script { project: folder.join("project"), calls: folder.join("calls") };
    let mut executors = Executors::new(Box::new(script));
    let around = Around {
        board: &board,
        project: folder.join("project"),
        environment: &environment,
        executors: &mut executors,
        control: Control::default(),
        confined: false,
        disk,
        clock,
        watch: Box::new(|_| {}),
        context_window: &|_| None,
    };
    let begun = match drive::last_run(&board)? {
        None => false,
        Some(run) => !matches!(drive::look(&board, &run), Err(drive::Error::NothingToResume)),
    };
    let drive = if begun {
        Drive::resume(around, None)
    } else {
        Drive::start(around, "Make add() safe", limits())
    };
    let mut drive = match drive {
        Err(drive::Error::AlreadyFinished(_)) => return Ok(FINISHED),
        other => other?,
    };
    loop {
        match drive.run()? {
            End::Finished => return Ok(FINISHED),
            End::Waiting => drive.answer("keep", "as it is")?,
            End::Parked | End::Stopped(_) => {
                println!("{:?}", drive.state().stopped);
                return Ok(FAILED);
            }
        }
        assert!(!matches!(drive.state().phase, Phase::Waiting { .. }));
    }
}

/// A clock that jumps: back by years, forth by years, and stands still.
fn jumping() -> Timestamp {
    static LOOKS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let look = LOOKS.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    Timestamp([1_800_000_000, 5, 1_900_000_000, 0, 1_800_000_001, 1_700_000_000][look as usize % 6])
}

/// `child <folder> <fault> <number>`
pub(crate) fn child(args: &[String]) -> i32 {
    let folder = PathBuf::from(&args[0]);
    let number: u64 = args.get(2).map_or(0, |text| text.parse().unwrap());
    let disk = match args.get(1).map_or("none", String::as_str) {
        "kill" => Disk::with_fault(Fault::Kill { at: number }),
        "tear" => Disk::with_fault(Fault::Tear { at: number }),
        "full" => Disk::with_fault(Fault::Fail { at: number, errno: 28 }),
        "sync" => Disk::with_fault(Fault::FailSync { at: number }),
        "count" => Disk::with_fault(Fault::None),
        _ => Disk::default(),
    };
    let clock = match args.get(1).map_or("none", String::as_str) {
        "clock" => jumping,
        _ => || Timestamp(1_800_000_000),
    };
    match go(&folder, disk.clone(), clock) {
        Ok(code) => {
            if args.get(1).is_some_and(|word| word == "count") {
                println!("{}", disk.points());
            }
            code
        }
        Err(drive::Error::Lock(_)) => HELD,
        Err(error) => {
            println!("{error}");
            FAILED
        }
    }
}
