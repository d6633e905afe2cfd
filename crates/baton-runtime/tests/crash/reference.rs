//! The reference run: 3 agents, 2 sub-loops, gates, a trespass, a question and a finish, played by a
//! script that writes real files, with a journal of several segments; and the child process that runs
//! it with a fault in its disk. A file `plan` beside the project says where an agent or a gate is to
//! kill or to stop the process that started it: once.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use baton_core::event::{Event, Limits, Spent, StageId, StageResult, Stop};
use baton_core::id::{AgentName, Timestamp, Tokens};
use baton_core::workflow::Phase;
use baton_runtime::board::{Board, NewBoard};
use baton_runtime::drive::{self, Around, Control, Drive, End, Notice};
use baton_runtime::executor::{Builtin, Call, Executor, Executors, Hear, Outcome, Told, Unusable};
use baton_runtime::journal;
use baton_runtime::load::Environment;
use baton_runtime::lock;
use baton_runtime::sandbox::Interrupt;
use baton_runtime::store::{Disk, Fault, Op};
use rustix::process::{Signal, getpid, kill_process};
use tempfile::TempDir;

pub(crate) const FINISHED: i32 = 0;
pub(crate) const FAILED: i32 = 40;
pub(crate) const HELD: i32 = 41;
pub(crate) const WAITING: i32 = 42;
/// Small enough for several segments.
const SEGMENT: u64 = 9_000;

/// The script of a gate: it leaves a line where no fault reaches, and has Baton killed where the plan
/// wants it. It works in namespaces of its own, and cannot do that itself.
const GATE: &str = r#"plan=
[ -e ../plan ] && read -r plan < ../plan
number=$(grep -c "^$1 ended" ../gates)
at() {
    if [ "$plan" = "gate $1 $number $2" ]; then
        rm ../plan
        : > ../kill
        sleep 60
        exit 1
    fi
}
at "$1" before
echo "$1 began" >> ../gates
at "$1" middle
echo "$1 ended" >> ../gates
at "$1" after
echo "all is well"
"#;

/// An empty folder. In memory where that can be had: what a killed process wrote is there as well,
/// and thousands of syncs cost nothing.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = TempDir::with_prefix_in("baton-crash-", memory);
    made.unwrap_or_else(|_| TempDir::new().unwrap())
}

pub(crate) fn make(folder: &Path) {
    try_make(folder).unwrap();
}

/// `Err`: why there is no blackboard.
pub(crate) fn try_make(folder: &Path) -> Result<(), String> {
    let project = folder.join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("lib.rs"), "fn add() {}\n").unwrap();
    let board = NewBoard { root: &project.join(".baton"), pack: "tdd", language: "en" };
    board.create().map_err(|error| error.to_string())?;
    let policy = project.join(".baton/memory/verification_policy.json");
    let text = fs::read_to_string(&policy).unwrap();
    let text = text.replace("\"min_coverage\": 80", "\"min_coverage\": 0");
    let gates = r#""gates": [{"on": "TEST", "run": "exec sh ../gate.sh TEST"}, {"on": "FINISH", "run": "exec sh ../gate.sh FINISH"}]"#;
    let text = text.replace("\"gates\": []", gates);
    assert!(text.contains("gate.sh"), "{text}");
    fs::write(policy, text).map_err(|error| error.to_string())?;
    fs::write(folder.join("gate.sh"), GATE).unwrap();
    fs::write(folder.join("gates"), "").unwrap();
    Ok(())
}

pub(crate) fn open(folder: &Path) -> Board {
    Board::open(&folder.join("project/.baton"), &Environment::of(&[])).unwrap()
}

pub(crate) fn limits() -> Limits {
    Limits::of(20, 60)
}

/// What each stage of the small run answers: one iteration, in which DEV works.
fn small_answer(stage: &StageId) -> String {
    match stage.name.as_str() {
        "MAIN" => r###"{"next_agent":"DEV","reason":"it is small","dev_plan":{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"},"finish_review_override":null,"task":"M1-T1"}"###.to_owned(),
        _ => format!("iteration: {}\nverdict: PASS\nblockers: none\n\nM1-T1\n", stage.iteration),
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
        // An order that names no task: MAIN decides in the second iteration.
        (1, "MAIN", _) => decision("TEST", r###"{"replace":"## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n"}"###)
            .replace(r#""task":"M1-T1""#, r#""task":"begin""#),
        (1 | 3, "TEST", None) => report("FAIL", "[impl] overflow in add()"),
        (1, "TEST", Some(1)) => report("FAIL", "[impl] still wrong"),
        (_, "TEST" | "DEV", Some(_)) => report("PASS", "none"),
        (2, "MAIN", _) => r#"{"next_agent":"USER","reason":"which way?","dev_plan":null,"finish_review_override":null,"question":{"title":"Which way?","text":"Keep it?","options":[{"option_id":"keep","description":"as it is"},{"option_id":"drop","description":"away"}],"recommended_option_id":"keep"}}"#.to_owned(),
        (3, "MAIN", _) => decision("TEST", r#""update M1-T1 status to IN_PROGRESS""#),
        // The fourth decision is one by rule.
        (_, "MAIN", _) => decision("FINISH", r#""update M1-T1 status to VERIFIED; set M1-T1 evidence: 第 3 轮""#),
        (_, "FINISH_CHECK", _) => decision("FINISH", "null"),
        _ => report("PASS", "none"),
    }
}

/// Plays the team; every call is written down where no fault reaches.
struct Script {
    folder: PathBuf,
    answer: fn(&StageId) -> String,
    /// Is told that a stage is at work.
    working: fn(&StageId),
    /// Is told what was written, where somebody asks.
    wrote: fn(&Path, &[u8]),
}

impl Script {
    fn write(&self, path: &Path, text: &str) -> Result<(), Unusable> {
        fs::write(path, text).map_err(|error| Unusable(format!("cannot write: {error}")))?;
        (self.wrote)(path, text.as_bytes());
        Ok(())
    }

    fn note(&self, file: &str, line: &str) {
        let path = self.folder.join(file);
        let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    /// Where the plan wants it, the world ends here, or stands still.
    fn at(&self, stage: &StageId, point: &str) {
        let path = self.folder.join("plan");
        let plan = fs::read_to_string(&path).unwrap_or_default();
        let signal = match plan.trim().split_once(' ') {
            Some(("kill", rest)) if rest == format!("{stage} {point}") => Signal::KILL,
            Some(("stop", rest)) if rest == format!("{stage} {point}") => Signal::STOP,
            _ => return,
        };
        fs::remove_file(&path).unwrap();
        kill_process(getpid(), signal).unwrap();
    }

    /// One agent writes into the blackboard, until the journal has it.
    fn trespasses(&self, stage: &StageId) -> bool {
        let is_known = || {
            journal::records(&journal_of(&self.folder)).unwrap().iter().any(|record| {
                matches!(&record.event, Event::StageEnded(ended)
                    if matches!(ended.result, StageResult::Trespassed(_)))
            })
        };
        stage.to_string() == TRESPASSER && !is_known()
    }
}

/// Who writes where it must not.
pub(crate) const TRESPASSER: &str = "DEV, iteration 3, sub-iteration 1";

pub(crate) fn journal_of(folder: &Path) -> PathBuf {
    let board = folder.join("project/.baton");
    // A run whose first record never came to the disk has not begun, and the next has another name.
    let last = journal::runs(&board).unwrap().pop();
    board.join("journal").join(last.unwrap_or_else(|| "run-0001".to_owned()))
}

/// What an agent finds: every file of the project.
fn found(project: &Path) -> String {
    let mut files: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(project)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    let all: Vec<u8> = files
        .iter()
        .flat_map(|(path, bytes)| [path.as_os_str().as_encoded_bytes(), bytes].concat())
        .collect();
    format!("{:08x}", crc32fast::hash(&all))
}

impl Executor for Script {
    fn name(&self, _: baton_core::messages::Language) -> String {
        "a script".to_owned()
    }

    fn call(&mut self, call: &Call<'_>, _: &Interrupt, _: Hear<'_>) -> Result<Outcome, Unusable> {
        let (stage, project) = (call.stage, self.folder.join("project"));
        self.note("calls", &format!("{stage} attempt {}", call.attempt));
        self.note("found", &format!("{stage} attempt {} {}", call.attempt, found(&project)));
        self.at(stage, "before");
        (self.working)(stage);
        if call.writes {
            let name =
                format!("{}-{}-{}.rs", stage.name, stage.iteration, stage.subloop.unwrap_or(0));
            self.write(&project.join(name), &format!("// {stage}\n"))?;
            self.at(stage, "middle");
            self.write(&project.join("lib.rs"), &format!("fn add() {{}} // {stage}\n"))?;
        }
        if self.trespasses(stage) {
            let order = project.join(".baton/workspace/dev/current_task.md");
            self.write(&order, "nothing more to do\n")?;
        }
        self.at(stage, "after");
        let spent =
            Spent { milliseconds: 1, tokens: Some(Tokens(10)), cached: None, cost: Some(1) };
        Ok(Outcome { result: StageResult::Answer((self.answer)(stage)), spent })
    }
}

/// How the reference run is run.
pub(crate) struct Way {
    pub(crate) disk: Disk,
    pub(crate) clock: fn() -> Timestamp,
    /// Whether the question is left open.
    pub(crate) waits: bool,
    /// Says how many points were passed at each event.
    pub(crate) tells: bool,
    pub(crate) wrote: fn(&Path, &[u8]),
    /// One of the agents, where it is the built-in one.
    pub(crate) agent: Option<fn(&Path) -> Builtin>,
    /// The small run: one iteration, in which DEV works.
    pub(crate) small: bool,
    /// Is told that a stage of the script is at work.
    pub(crate) working: fn(&StageId),
}

impl Way {
    pub(crate) fn of(disk: Disk) -> Way {
        let clock = || Timestamp(1_800_000_000);
        Way {
            disk,
            clock,
            waits: false,
            tells: false,
            wrote: |_, _| {},
            agent: None,
            small: false,
            working: |_| {},
        }
    }
}

/// Does something with the run: begun, or gone on with.
pub(crate) fn with<T>(
    folder: &Path,
    way: &Way,
    act: impl FnOnce(&mut Drive<'_>) -> Result<T, drive::Error>,
) -> Result<T, drive::Error> {
    let board = open(folder);
    let environment = Environment::of(&[]);
    let script = Script {
        folder: folder.to_owned(),
        answer: if way.small { small_answer } else { answer },
        working: way.working,
        wrote: way.wrote,
    };
    let mut executors = Executors::new(Box::new(script));
    if let Some(agent) = way.agent {
        let fixer = AgentName::new("DEV").unwrap();
        executors = executors.with(fixer, Box::new(agent(folder)));
    }
    let (tells, disk) = (way.tells, way.disk.clone());
    let around = Around {
        board: &board,
        project: folder.join("project"),
        environment: &environment,
        executors: &mut executors,
        control: Control::default(),
        confined: false,
        disk: way.disk.clone(),
        clock: way.clock,
        watch: Box::new(move |notice| match notice {
            Notice::Said(text) => println!("said: {text}"),
            Notice::Event(record, _) if tells => {
                let name = serde_json::to_value(record).unwrap()["event"].clone();
                println!("event {} {}", name.as_str().unwrap(), disk.points());
            }
            Notice::Heard(Told::Step(words)) if tells => {
                println!("heard {} {words}", disk.points());
            }
            _ => {}
        }),
        evaluator: None,
        machine: None,
        context_window: &|_| None,
    };
    let begun = match drive::last_run(&board)? {
        None => false,
        Some(run) => !matches!(drive::look(&board, &run), Err(drive::Error::NothingToResume)),
    };
    let mut drive = match begun {
        true => Drive::resume(around, None)?,
        false => {
            let limits = if way.small { Limits::of(1, 60) } else { limits() };
            Drive::start(around, "Make add() safe", limits)?
        }
    };
    drive.set_segment_bytes(SEGMENT);
    act(&mut drive)
}

/// Runs to the end; answers the question; goes on after the trespass, as a person would.
pub(crate) fn go(folder: &Path, way: &Way) -> Result<i32, drive::Error> {
    // After the one trespass it is resumed once.
    for _ in 0..3 {
        let end = with(folder, way, |drive| {
            loop {
                match drive.run()? {
                    End::Waiting if !way.waits => drive.answer("keep", "as it is")?,
                    end => return Ok(end),
                }
                assert!(!matches!(drive.state().phase, Phase::Waiting { .. }));
            }
        });
        match end {
            Ok(End::Finished) | Err(drive::Error::AlreadyFinished(_)) => return Ok(FINISHED),
            Ok(End::Waiting) => return Ok(WAITING),
            Ok(End::Stopped(Stop::Limit(why))) if way.small && why.contains("iteration") => {
                return Ok(FINISHED);
            }
            Ok(End::Stopped(Stop::Protocol(why))) if why.starts_with(TRESPASSER) => {}
            Ok(end) => {
                println!("{end:?}");
                return Ok(FAILED);
            }
            Err(error) => return Err(error),
        }
    }
    println!("it stops again and again");
    Ok(FAILED)
}

/// Makes who plays DEV, in this folder.
type Player = fn(&Path) -> Builtin;

/// Who plays DEV, by the word that a child is called with.
const AGENTS: [(&str, Player); 4] = [
    ("agent-", |_| crate::agent::executor()),
    ("compact-", crate::compaction::executor),
    ("tools-", crate::tools::executor),
    ("patient-", |_| crate::clocks::executor()),
];

/// `child <folder> <words> <number>`: whether it is the `small-` run, who plays DEV, the fault.
pub(crate) fn child(args: &[String]) -> i32 {
    let folder = PathBuf::from(&args[0]);
    let plan = fs::read_to_string(folder.join("plan")).unwrap_or_default();
    if plan.starts_with("gate ") {
        let file = folder.join("kill");
        std::thread::spawn(move || {
            while fs::remove_file(&file).is_err() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            kill_process(getpid(), Signal::KILL).unwrap();
        });
    }
    let number: u64 = args.get(2).map_or(0, |text| text.parse().unwrap());
    let word = args.get(1).map_or("none", String::as_str);
    let (word, small) = word.strip_prefix("small-").map_or((word, false), |word| (word, true));
    let named = AGENTS.iter().find_map(|(name, agent)| Some((word.strip_prefix(name)?, *agent)));
    let (word, agent) = named.map_or((word, None), |(word, agent)| (word, Some(agent)));
    let disk = match word {
        "kill" => Disk::with_fault(Fault::Kill { at: number }),
        "tear" => Disk::with_fault(Fault::Tear { at: number }),
        "full" => Disk::with_fault(Fault::Fail { at: number, errno: 28 }),
        "sync" => Disk::with_fault(Fault::FailSync { at: number }),
        "one-sync" => Disk::with_fault(Fault::FailOneSync { number }),
        "syncs" => Disk::seen_by(Fault::None, |op| {
            if let Op::Sync(path) | Op::SyncFolder(path) = op {
                println!("synced {}", path.display());
            }
        }),
        "count" | "tell" => Disk::with_fault(Fault::None),
        _ => Disk::default(),
    };
    let mut way = Way::of(disk.clone());
    (way.agent, way.small) = (agent, small);
    (way.waits, way.tells) = (word == "wait", word == "tell");
    if word == "clock" {
        crate::clocks::set(usize::try_from(number).unwrap());
        (way.clock, way.working) = (crate::clocks::now, crate::clocks::working);
    }
    match go(&folder, &way) {
        Ok(code) => {
            println!("{}", disk.points());
            code
        }
        Err(error) => {
            println!("{error}");
            if matches!(error, drive::Error::Lock(lock::Error::Held { .. })) {
                HELD
            } else {
                FAILED
            }
        }
    }
}
