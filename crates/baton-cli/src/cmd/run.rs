//! `baton run|resume|answer|stop`

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_core::config::{AgentConfig, Config};
use baton_core::decision::Question;
use baton_core::event::{Asker, Limits, RunSetup, Stop};
use baton_core::id::{AgentName, FINISH, FINISH_CHECK, MAIN, Tokens};
use baton_core::machine::{Machine, is_measured_asked};
use baton_core::message::Wire;
use baton_core::messages::Language;
use baton_core::pack::Manifest;
use baton_core::policy;
use baton_core::profile::Profile;
use baton_core::turn::Room;
use baton_core::view;
use baton_core::workflow::{APPROVE, Phase, State};
use baton_runtime::agent::Mind;
use baton_runtime::board::{self, Board, NewBoard};
use baton_runtime::drive::{self, Around, Control, Drive, Edits, End, Evaluator, Notice};
use baton_runtime::executor::{
    self, Agent, Builtin, Executor, Executors, PRESETS, Plain, Unpriced,
};
use baton_runtime::lock::{self, Holder, Lock};
use baton_runtime::model::choose::{self, Asked};
use baton_runtime::model::{Client, Limits as CallLimits, catalogue};
use baton_runtime::store::Disk;
use baton_runtime::{git, load, machine, trust};
use serde_json::json;

use super::init::chosen as chosen_pack;
use super::watch::{asked_text, cost, open_question, records};
use super::{Outcome, Place, gate, setup};
use crate::args::{
    AnswerArgs, BudgetArgs, EditsArg, HowArgs, ProviderArgs, RunArgs, StopArgs, TapeArgs,
};
use crate::progress::Progress;
use crate::reply::{
    DAMAGED, Failure, HELD, INTERNAL, LIMIT, PROTOCOL, Reply, USAGE, WAITING, counted,
};
use crate::signals::Request;
use crate::terminal;

pub(super) fn run(place: &Place, args: &RunArgs) -> Outcome {
    let task = args.task.join(" ");
    if task.trim().is_empty() {
        return Err(Failure::new(USAGE, "what is the task?").hint("baton run \"make add() safe\""));
    }
    // Asked before anything is made or called: a folder that no run can work in, and who could run a
    // stage.
    let root = place.board_path()?;
    let project = match &root {
        Some(root) => place.project_of(root)?,
        None => place.project_of(&place.new_board_path()?)?,
    };
    let (config, agents) = match &root {
        Some(_) => {
            let board = place.board()?;
            (board.config, board.pack.manifest.agents)
        }
        None => {
            let config = load::config(&place.environment, None)?.0;
            let (named, _) = chosen_pack(place, args.pack.as_deref(), None, &config)?;
            let manifest = Manifest::read(&board::pack_files(named)?);
            let agents = manifest.map(|own| own.agents).unwrap_or_default();
            (config, agents)
        }
    };
    let mut config = config;
    let how = setup::replayed(&mut config, &args.how)?;
    let executors = executors(place, &config, &agents, &how)?;
    priced(executors.unpriced(), &limits(&config, &args.budget, None))?;
    let mut board = board_for(place, args)?;
    setup::replayed(&mut board.config, &args.how)?;
    let limits = limits(&board.config, &args.budget, None);
    let scenario = scenario(&board, args.scenario.as_deref())?;
    let mut session = Session::with(place, &board, executors, &how, &limits)?;
    let is_above = root.is_some() && !place.is_here(&project);
    if let Some(last) = drive::last_run(&board).map_err(failed)? {
        let is_over = drive::is_over(&board, &last);
        let is_free = matches!(is_over, Ok(true) | Err(drive::Error::NothingToResume));
        // A run of another process cannot be continued either.
        if let Some(by) = Lock::holder(&drive::lock_path(&board)).filter(|_| !is_free) {
            return Err(failed(lock::Error::Held { by }.into()));
        }
        match is_over {
            Ok(false) if is_above => {
                let whose = format!("{last} of {}", project.display());
                return Err(failed(drive::Error::Unfinished(whose)));
            }
            Ok(false) => return Err(failed(drive::Error::Unfinished(last))),
            Ok(true) | Err(drive::Error::NothingToResume) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    // The repository may be younger than the blackboard.
    let _ = git::exclude(&board.root);
    let root_shown = board.root.strip_prefix(&place.folder).unwrap_or(&board.root).display();
    let own = board.pack.words();
    let made = own.made_board(root_shown, &board.pack.manifest.name, &board.pack.language);
    let above = own.using_board(project.display());
    let mut lines: Vec<String> =
        root.is_none().then_some(made).or(is_above.then_some(above)).into_iter().collect();
    lines.extend(uncommitted(place, &project, own));
    lines.extend(gate::at_start(place, &board));
    lines.extend(session.look_at_machine());
    lines.into_iter().for_each(|line| session.progress.open_with(line));
    session.go(|around| Drive::start_on(around, &task, scenario.as_deref(), limits))
}

fn uncommitted(place: &Place, project: &std::path::Path, own: Language) -> Option<String> {
    let dirty = git::dirty(project, &place.environment)?;
    let it = if dirty == 1 { "it" } else { "them" };
    let changes = counted(dirty, "uncommitted change");
    Some(own.uncommitted(changes, dirty, it))
}

/// The scenario that a run works on: the one that is named, or the only one there is.
fn scenario(board: &Board, named: Option<&str>) -> Result<Option<String>, Failure> {
    let policy = &board.pack.policy;
    if policy.approval.is_none() && policy.evaluation.is_none() {
        let pack = &board.pack.manifest.name;
        return match named {
            Some(_) => Err(Failure::new(USAGE, format!("the pack {pack} knows no scenarios"))
                .hint("`baton pack use scenario` switches to one that does")),
            None => Ok(None),
        };
    }
    if let Some(name) = named {
        let is_part = name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        if !is_part || name.is_empty() || name.len() > 100 {
            let shown = baton_core::text::shown(name, 60);
            return Err(Failure::new(USAGE, format!("`{shown}` is no name of a scenario"))
                .hint("letters, digits, `_` and `-`, as in leave_application"));
        }
        return Ok(Some(name.to_owned()));
    }
    let folder = drive::project_of(&board.root).join("scenarios");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    match (names.pop(), names.is_empty()) {
        (Some(only), true) => Ok(Some(only)),
        _ => Err(Failure::new(USAGE, "which scenario is it?")
            .hint("`--scenario NAME`: its files are in scenarios/NAME/, or will be")),
    }
}

pub(super) fn resume(place: &Place, args: &crate::args::ResumeArgs) -> Outcome {
    let mut board = place.board()?;
    let run = drive::last_run(&board).map_err(failed)?;
    let Some(run) = run else { return Err(failed(drive::Error::NothingToResume)) };
    if drive::is_over(&board, &run).map_err(failed)? {
        return Err(failed(drive::Error::AlreadyFinished(run)));
    }
    if !args.adopt {
        has_its_rules(&board, &run)?;
    }
    let before = drive::look(&board, &run).map_err(failed)?;
    let limits = limits(&board.config, &args.budget, Some(before.budget.limits));
    let how = setup::continued(place, &mut board, &args.how, before.origin.setup.as_deref())?;
    let mut session = Session::open(place, &board, &how, &limits)?;
    let mut edits = args.edits.map(|edits| match edits {
        EditsArg::Keep => Edits::Keep,
        EditsArg::Discard => Edits::Discard,
    });
    loop {
        let gone = session.go(|around| {
            let mut drive = Drive::resume_with(around, Some(limits), args.adopt)?;
            drive.set_edits(edits);
            Ok(drive)
        });
        match gone {
            Err(failure) if failure.code == WAITING && edits.is_none() && is_asked(place) => {
                match asked_edits(&failure.message, board.pack.words()) {
                    Some(chosen) => edits = Some(chosen),
                    None => return Err(failure),
                }
            }
            other => return other,
        }
    }
}

/// Asked before a model is looked for: the answer does not depend on it.
fn has_its_rules(board: &Board, run: &str) -> Result<(), Failure> {
    let changes = drive::changed_rules(board, run).map_err(failed)?;
    match changes.is_empty() {
        true => Ok(()),
        false => Err(failed(drive::Error::RulesChanged { changes: changes.join(", ") })),
    }
}

pub(super) fn answer(place: &Place, args: &AnswerArgs) -> Outcome {
    let mut board = place.board()?;
    // Looked at first: a wrong answer must not set a stopped run going.
    let run = drive::last_run(&board).map_err(failed)?;
    let Some(run) = run else { return Err(failed(drive::Error::NothingToResume)) };
    if drive::is_over(&board, &run).map_err(failed)? {
        return Err(failed(drive::Error::AlreadyFinished(run)));
    }
    has_its_rules(&board, &run)?;
    let state = drive::look(&board, &run).map_err(failed)?;
    let records = records(&board, &run)?;
    let Some((number, question)) = open_question(&state, &records) else {
        return Err(failed(drive::Error::NoQuestion));
    };
    if let Some(wanted) = args.question.filter(|wanted| *wanted != number) {
        let message = format!("question {wanted} is not open; question {number} is");
        return Err(Failure::new(USAGE, message).hint("`baton status` shows it"));
    }
    let Some(option) = question.choice(&args.option).map(|own| own.option_id.clone()) else {
        let option = baton_core::text::shown(&args.option, 60);
        let known = view::answers(question, Language::English);
        return Err(failed(drive::Error::NoOption { option, known }));
    };
    let how = setup::continued(place, &mut board, &args.how, state.origin.setup.as_deref())?;
    let mut session = Session::open(place, &board, &how, &state.budget.limits)?;
    let comment = args.comment.clone().unwrap_or_default();
    session.go(|around| {
        let mut drive = Drive::resume(around, None)?;
        drive.answer(&option, &comment)?;
        Ok(drive)
    })
}

pub(super) fn stop(place: &Place, args: &StopArgs) -> Outcome {
    let board = place.board()?;
    let own = board.pack.words();
    let path = drive::lock_path(&board);
    let holder = Lock::holder(&path);
    if args.abandon {
        if let Some(by) = holder {
            return Err(Failure::new(HELD, format!("the run is running in another process: {by}"))
                .hint("`baton stop` first, then `baton stop --abandon`"));
        }
        let run = drive::abandon(&board, Disk::default()).map_err(failed)?;
        let text = own.run_abandoned(&run) + "\n";
        return Ok(Reply::new(text, json!({ "ok": true, "run": run, "abandoned": true })));
    }
    let Some(holder) = holder else {
        return Err(Failure::new(USAGE, "no run is running here")
            .hint("`baton status` shows the state of the last one"));
    };
    let Some(pid) = Holder::read(&holder).pid else {
        return Err(Failure::new(INTERNAL, format!("cannot tell which process it is: {holder}")));
    };
    let ask =
        || baton_runtime::sandbox::ask_to_stop(pid).map_err(|why| Failure::new(INTERNAL, why));
    ask()?;
    if !args.now {
        let text = own.asked_to_stop(pid) + "\n";
        return Ok(Reply::new(text, json!({ "ok": true, "process": pid })));
    }
    // Two signals at once would count as one. It may have ended already.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let _ = ask();
    let killed = !is_left(&path, 2 * PATIENCE);
    if killed {
        baton_runtime::sandbox::end(pid).map_err(|why| Failure::new(INTERNAL, why))?;
        // Only whoever holds the lock may end what its stages have left.
        if is_left(&path, PATIENCE)
            && let Ok(_held) = Lock::take(&path, "stop --now")
        {
            baton_runtime::sandbox::end_left_behind(&drive::mark_of(&board.root));
        }
    }
    let text = if killed { own.process_killed(pid) } else { own.process_stopped(pid) } + "\n";
    Ok(Reply::new(text, json!({ "ok": true, "process": pid, "killed": killed })))
}

/// Waits until the lock is free; `false`: it is still held.
fn is_left(lock: &std::path::Path, limit: std::time::Duration) -> bool {
    let start = std::time::Instant::now();
    while Lock::holder(lock).is_some() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    true
}

/// The blackboard, made where there is none.
fn board_for(place: &Place, args: &RunArgs) -> Result<Board, Failure> {
    if let Some(path) = place.board_path()? {
        let board = place.opened(&path)?;
        if let Some(pack) = args.pack.as_ref().filter(|pack| **pack != board.pack.manifest.name) {
            let own = &board.pack.manifest.name;
            let message = format!("the blackboard has the pack {own}, not {pack}");
            return Err(
                Failure::new(USAGE, message).hint(format!("`baton pack use {pack}` switches it"))
            );
        }
        return Ok(board);
    }
    let path = place.new_board_path()?;
    let (config, _) = load::config(&place.environment, None)?;
    let (pack, language) = chosen_pack(place, args.pack.as_deref(), args.lang.as_deref(), &config)?;
    let new = NewBoard { root: &path, pack, language: &language };
    match new.create_within(place.environment.state_folder().as_deref()) {
        // Another process was faster: the lock of the run decides between them.
        Ok(_) | Err(board::Error::Exists(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let _ = git::exclude(&path);
    place.opened(&path)
}

fn limits(config: &Config, budget: &BudgetArgs, old: Option<Limits>) -> Limits {
    // A flag, else what the run began with, else the configuration.
    let own = &config.limits;
    let configured = |value: Option<u64>| value.filter(|_| old.is_none());
    let dollars = budget.budget_dollars.or(own.dollars.filter(|_| old.is_none()));
    let cost = dollars.and_then(nano_dollars);
    let stage_tokens = budget.stage_tokens.or(configured(own.stage_tokens)).map(Tokens);
    let stage_dollars = budget.stage_dollars.or(own.stage_dollars.filter(|_| old.is_none()));
    let minutes = budget.budget_minutes.or(own.minutes.filter(|_| old.is_none()));
    Limits {
        iterations: budget
            .max_iterations
            .or(old.map(|old| old.iterations))
            .unwrap_or(own.iterations),
        seconds: minutes.map(|minutes| u64::from(minutes) * 60).or(old.and_then(|old| old.seconds)),
        tokens: budget
            .budget_tokens
            .or(configured(own.tokens))
            .map(Tokens)
            .or(old.and_then(|old| old.tokens)),
        cost: cost.or(old.and_then(|old| old.cost)),
        stage_seconds: u64::from(own.stage_minutes) * 60,
        stage_tokens: stage_tokens.or(old.and_then(|old| old.stage_tokens)),
        stage_cost: stage_dollars.and_then(nano_dollars).or(old.and_then(|old| old.stage_cost)),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a budget is positive and far below 2^53 nano-dollars"
)]
pub(super) fn nano_dollars(dollars: f64) -> Option<u64> {
    (dollars.is_finite() && dollars >= 0.0).then_some((dollars * 1e9) as u64)
}

/// The window of the model that gets a stage's prompt.
pub(super) type Windows = Box<dyn Fn(&AgentName) -> Option<Tokens>>;

/// A run and everything around it.
pub(super) struct Session<'a> {
    place: &'a Place,
    board: &'a Board,
    pub(super) executors: Executors,
    control: Control,
    /// A question stands at the terminal, and nothing else goes on.
    asking: Arc<AtomicBool>,
    pub(super) confined: bool,
    /// Questions are answered by what they recommend.
    pub(super) yes: bool,
    pub(super) evaluator: Option<Box<dyn Evaluator>>,
    progress: Progress,
    windows: Windows,
    /// Looked at before a new run.
    machine: Option<Machine>,
}

impl<'a> Session<'a> {
    fn open(
        place: &'a Place,
        board: &'a Board,
        how: &HowArgs,
        limits: &Limits,
    ) -> Result<Session<'a>, Failure> {
        let agents = &board.pack.manifest.agents;
        Session::with(place, board, executors(place, &board.config, agents, how)?, how, limits)
    }

    fn with(
        place: &'a Place,
        board: &'a Board,
        executors: Executors,
        how: &HowArgs,
        limits: &Limits,
    ) -> Result<Session<'a>, Failure> {
        gate::trusted(place, board)?;
        priced(executors.unpriced(), limits)?;
        let mut session = Session::idle(place, board);
        session.executors = executors;
        session.confined = !how.no_sandbox;
        session.yes = how.yes;
        session.evaluator = super::scenario::evaluator(place, board, how, limits)?;
        session.windows = windows(place, board, &asked(&how.provider, None));
        if let Some(tape) = setup::tape(&how.tape)? {
            let evaluation = session.evaluator.as_ref().and_then(|own| own.setup());
            let setup = session.executors.setup();
            let setup = setup.map(|own| RunSetup { evaluation, ..own });
            tape.begin(&drive::project_of(&board.root), setup)
                .map_err(|why| Failure::new(INTERNAL, why))?;
        }
        session.signals()?;
        if !place.json {
            for warning in place.take_warnings() {
                session.say(&warning);
            }
        }
        Ok(session)
    }

    /// Without anybody who could run a stage.
    pub(super) fn idle(place: &'a Place, board: &'a Board) -> Session<'a> {
        let agents = board.pack.manifest.agent_names();
        Session {
            place,
            board,
            executors: Executors::new(Box::new(Nobody)),
            control: Control::default(),
            asking: Arc::default(),
            confined: true,
            yes: false,
            evaluator: None,
            progress: Progress::new(place.json, agents, board.pack.words()),
            windows: Box::new(|_| None),
            machine: None,
        }
    }

    fn around(&mut self) -> Around<'_> {
        let progress = &mut self.progress;
        let watch = Box::new(move |notice: Notice<'_>| progress.notice(&notice));
        Around {
            board: self.board,
            project: drive::project_of(&self.board.root),
            environment: &self.place.environment,
            executors: &mut self.executors,
            control: self.control.clone(),
            confined: self.confined,
            disk: Disk::default(),
            clock: drive::now,
            watch,
            evaluator: self.evaluator.as_mut().map(|own| &mut **own as &mut dyn Evaluator),
            machine: self.machine.clone(),
            context_window: self.windows.as_ref(),
        }
    }

    /// Finds out what the machine offers, and reports what the run will therefore not ask for.
    fn look_at_machine(&mut self) -> Option<String> {
        let project = drive::project_of(&self.board.root);
        let environment = &self.place.environment;
        let machine = machine::look(&project, &self.board.root, environment, self.confined);
        let policy = &self.board.pack.policy;
        let least = policy.proof.as_ref().map_or(0, |proof| proof.least_percent);
        let mut none = None;
        if is_measured_asked(policy) && machine.coverage.is_empty() {
            let own = self.board.pack.words();
            let looked_for = match machine.coverage_tools.is_empty() {
                true => own.no_kind_of_project(),
                false => own.looked_for(own.list(&machine.coverage_tools)),
            };
            none = Some(own.no_coverage(looked_for, least));
        }
        self.machine = Some(machine);
        none
    }

    /// Something that is said before the run begins.
    pub(super) fn say(&mut self, line: &str) {
        self.progress.notice(&Notice::Said(line.to_owned()));
    }

    /// From here on signals park the run.
    pub(super) fn signals(&self) -> Result<(), Failure> {
        let mark = drive::mark_of(&self.board.root);
        signals(&self.control, &self.asking, mark, self.board.pack.words())
    }

    pub(super) fn go(
        &mut self,
        begin: impl FnOnce(Around<'_>) -> Result<Drive<'_>, drive::Error>,
    ) -> Outcome {
        let (is_asked, asking) = (is_asked(self.place), self.asking.clone());
        let (yes, may_approve) = (self.yes, self.board.config.approval.by_yes);
        let (place, board) = (self.place, self.board);
        let mut drive = begin(self.around()).map_err(failed)?;
        if let Some(setup) = &drive.state().origin.setup {
            // Without it, `resume` asks for the flags again.
            let _ = trust::own_setup(board, &place.environment, setup);
        }
        loop {
            let end = drive.run().map_err(failed)?;
            let (question, by) = match (&end, &drive.state().phase) {
                (End::Waiting, Phase::Waiting { question, by, .. }) => (question.clone(), *by),
                _ => return Ok(ended(&end, drive.state(), board)),
            };
            if yes && let Some(option) = by_yes(&question, by, may_approve) {
                drive.answer(&option, "answered by --yes").map_err(failed)?;
                continue;
            }
            asking.store(true, Ordering::SeqCst);
            let answer = is_asked.then(|| ask(&question, board.pack.words())).flatten();
            asking.store(false, Ordering::SeqCst);
            match answer {
                Some((option, comment)) => match drive.answer(&option, &comment) {
                    Err(error @ (drive::Error::NoComment | drive::Error::LongComment)) => {
                        let _ = writeln!(std::io::stderr(), "{error}");
                    }
                    answered => answered.map_err(failed)?,
                },
                None => return Ok(ended(&end, drive.state(), board)),
            }
        }
    }
}

/// What `--yes` answers. A design it approves only by the person's own word.
fn by_yes(question: &Question, by: Asker, may_approve: bool) -> Option<String> {
    match by {
        Asker::Main => question.recommended_option_id.clone(),
        Asker::Escalation => None,
        Asker::Approval => may_approve.then(|| APPROVE.to_owned()),
    }
}

/// Whether there is a person to ask at the terminal.
pub(super) fn is_asked(place: &Place) -> bool {
    !place.json && terminal::is_there()
}

fn asked_edits(message: &str, own: Language) -> Option<Edits> {
    let question = own.edits_question(baton_core::text::escaped(message));
    match terminal::ask(&question)?.trim() {
        "keep" => Some(Edits::Keep),
        "discard" => Some(Edits::Discard),
        _ => None,
    }
}

/// Asks at the terminal, again after a wrong answer. `None`: no answer now.
fn ask(question: &Question, own: Language) -> Option<(String, String)> {
    let mut shown = format!("\n{}", baton_core::text::escaped(&view::question(question, own)));
    loop {
        let last = question.options.len();
        shown.push_str(&own.answer_prompt(last));
        let line = terminal::ask(&shown)?;
        let (word, comment) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if word.is_empty() {
            return None;
        }
        if let Some(option) = question.choice(word) {
            return Some((option.option_id.clone(), comment.trim().to_owned()));
        }
        let word = baton_core::text::shown(word, 60);
        shown = own.not_an_option(word, view::answers(question, own)) + "\n";
    }
}

/// The closing lines of a run.
fn ended(end: &End, state: &State, board: &Board) -> Reply {
    let totals = &state.budget.totals;
    let own = board.pack.words();
    let tokens = match totals.uncounted {
        0 => own.tokens_used(totals.tokens),
        _ => own.tokens_counted(totals.tokens),
    };
    let figures = own.run_figures(
        own.iterations(counted(totals.iterations as usize, "iteration"), totals.iterations),
        own.stages(counted(totals.stages as usize, "stage"), totals.stages),
        own.seconds(format!("{:.1}", totals.milliseconds as f64 / 1e3)),
        tokens,
        cost(totals, own),
    );
    let (code, text) = match end {
        End::Finished => {
            let mut files: Vec<&str> = state
                .files
                .stage_changes
                .iter()
                .flat_map(|(_, files)| files)
                .map(String::as_str)
                .collect();
            files.sort_unstable();
            files.dedup();
            let files = if files.is_empty() { own.no_files() } else { files.join(", ") };
            let gates = passed_gates(state, board);
            let overridden = state.reports.overridden.as_ref();
            let overridden = overridden.map_or(String::new(), |line| own.overridden(line) + "\n");
            let text = format!(
                "{}\n{}\n{gates}\n{overridden}{figures}\n",
                own.finished(),
                own.files_changed(files)
            );
            (0, text)
        }
        End::Waiting => {
            let records = records(board, state.origin.run.as_str()).unwrap_or_default();
            let asked = open_question(state, &records);
            let text = asked.map(|(number, question)| asked_text(number, question, own));
            (WAITING, text.unwrap_or_default())
        }
        End::Parked => (WAITING, format!("{}\n{figures}\n", own.parked())),
        End::Stopped(stop) => {
            let code = match stop {
                Stop::Protocol(_) => PROTOCOL,
                Stop::Limit(_) | Stop::Loop(_) => LIMIT,
                Stop::Executor(_) => INTERNAL,
                Stop::Person(_) => WAITING,
            };
            (code, format!("{}\n{figures}\n{}\n", own.stopped(stop.why()), own.progress_saved()))
        }
    };
    let mut reply = Reply::new(
        text,
        json!({ "ok": code == 0, "run": state.origin.run, "iteration": state.iteration, "totals": totals, "stopped": state.stopped, "override": state.reports.overridden, "waiting": *end == End::Waiting }),
    );
    reply.code = code;
    reply
}

/// The gates that confirmed the result: those of FINISH, and those of each agent's newest pass.
fn passed_gates(state: &State, board: &Board) -> String {
    let (policy, own) = (&board.pack.policy, board.pack.words());
    if policy.gates.is_empty() {
        let has_samples = policy.evaluation.is_some();
        return if has_samples { own.none_are_set() } else { own.nothing_confirms() };
    }
    let has_passed = |gate: &&policy::Gate| {
        gate.on.0.iter().any(|on| match on.as_str() {
            FINISH => state.current.gates.iter().any(|own| own.passed && own.command == gate.run),
            agent => state.reports.newest.get(agent).is_some_and(|(seq, facts)| {
                *seq > 0 && facts.outcome == Some(policy::Outcome::Pass)
            }),
        })
    };
    let passed = policy.gates.iter().filter(has_passed).map(|gate| gate.run.as_str());
    match passed.collect::<Vec<&str>>() {
        passed if passed.is_empty() => own.no_gates_passed(),
        passed => own.gates_passed(passed.join(", ")),
    }
}

pub(super) fn failed(error: drive::Error) -> Failure {
    let message = error.to_string();
    match error {
        drive::Error::Unfinished(_) => {
            Failure::new(USAGE, message).hint("`baton stop --abandon` gives it up")
        }
        drive::Error::NothingToResume => {
            Failure::new(USAGE, message).hint("`baton run \"task\"` begins one")
        }
        drive::Error::EditedSince { .. } => Failure::new(WAITING, message).hint(
            "`baton resume --edits keep` or `--edits discard` (what is there now is kept as a snapshot)",
        ),
        drive::Error::NoComment => {
            Failure::new(USAGE, message).hint("`baton answer change --comment \"…\"` says it")
        }
        drive::Error::AlreadyFinished(_)
        | drive::Error::NoQuestion
        | drive::Error::LongComment
        | drive::Error::NoOption { .. } => Failure::new(USAGE, message),
        drive::Error::RulesChanged { .. } => Failure::new(USAGE, message)
            .hint("`baton resume --adopt` continues with the rules as they are now; without the change, `baton resume` does"),
        drive::Error::RulesUnfit { .. } => Failure::new(USAGE, message)
            .hint("undo the change, or `baton stop --abandon` and begin a new run"),
        drive::Error::Lock(lock::Error::Held { .. }) => {
            Failure::new(HELD, message).hint("`baton stop` asks it to stop")
        }
        drive::Error::Journal(
            baton_runtime::journal::Error::Damaged { .. }
            | baton_runtime::journal::Error::Version { .. },
        )
        | drive::Error::Misfit(_) => Failure::new(DAMAGED, message)
            .hint("the journal is not touched; a copy of it is the first thing to make"),
        drive::Error::Store(ref error) if error.is_full() => Failure::new(INTERNAL, message)
            .hint("free some space, then `baton resume`: nothing is lost"),
        drive::Error::Lock(_)
        | drive::Error::Journal(_)
        | drive::Error::Guard(_)
        | drive::Error::Snapshot(_)
        | drive::Error::Store(_)
        | drive::Error::View(_)
        | drive::Error::Load(_) => Failure::new(INTERNAL, message),
    }
}

/// Nobody: for commands that only write something down.
struct Nobody;

impl Executor for Nobody {
    fn name(&self, _: baton_core::messages::Language) -> String {
        "nobody".to_owned()
    }

    fn call(
        &mut self,
        _call: &executor::Call<'_>,
        _interrupt: &baton_runtime::sandbox::Interrupt,
        _hear: executor::Hear<'_>,
    ) -> Result<executor::Outcome, executor::Unusable> {
        Err(executor::Unusable("nobody runs stages here".to_owned()))
    }
}

fn executors(
    place: &Place,
    config: &Config,
    agents: &[baton_core::pack::Agent],
    how: &HowArgs,
) -> Result<Executors, Failure> {
    let everybody = AgentConfig { executor: how.executor.clone(), ..AgentConfig::default() };
    let default = chosen(place, config, how, &everybody, None)?;
    let main = AgentName::new(MAIN).expect("a word of the workflow is a valid name");
    let decides = default.deciding();
    let mut all = Executors::new(default.working(place, config));
    if let Some(decides) = decides {
        all = all.with(main.clone(), decides);
    }
    let packs = |name: &AgentName| {
        let own = agents.iter().find(|own| own.name == *name);
        own.and_then(|own| own.profile.as_deref())
    };
    // Those of whom only the pack says something run as everybody does.
    let unset =
        agents.iter().filter(|own| own.profile.is_some() && !config.agents.contains_key(&own.name));
    for own in unset {
        let own_executor = chosen(place, config, how, &everybody, packs(&own.name))?;
        all = all.with(own.name.clone(), own_executor.working(place, config));
    }
    for (name, own) in &config.agents {
        if *own != AgentConfig::default() {
            let own = chosen(place, config, how, own, packs(name))?;
            let executor = match own.deciding().filter(|_| *name == main) {
                Some(decides) => decides,
                None => own.working(place, config),
            };
            all = all.with(name.clone(), executor);
        }
    }
    Ok(all)
}

const BUILTIN: &str = "builtin";

/// What runs stages: an agent program, or a model.
enum Chosen {
    Program(Box<Agent>),
    Model(Box<Mind>),
}

impl Chosen {
    /// Who decides: a model is asked once, without tools.
    fn deciding(&self) -> Option<Box<dyn Executor>> {
        match self {
            Chosen::Program(_) => None,
            Chosen::Model(mind) => Some(Box::new(Plain { mind: (**mind).clone() })),
        }
    }

    /// Who works.
    fn working(self, place: &Place, config: &Config) -> Box<dyn Executor> {
        match self {
            Chosen::Program(agent) => agent,
            Chosen::Model(mind) => Box::new(Builtin {
                mind: *mind,
                environment: place.environment.clone(),
                settings: config.agent.clone(),
            }),
        }
    }
}

/// What is named; without a name, a model where one is configured, else an agent program.
fn chosen(
    place: &Place,
    config: &Config,
    how: &HowArgs,
    own: &AgentConfig,
    packs: Option<&str>,
) -> Result<Chosen, Failure> {
    let name = own.executor.as_deref();
    if let Some(name) = name.filter(|name| *name != BUILTIN) {
        let Some(preset) = executor::program_named(name, config) else {
            let mut known: Vec<&str> = vec![BUILTIN];
            known.extend(PRESETS);
            known.extend(config.executors.keys().map(String::as_str));
            let near = baton_core::problem::nearest(name, &known)
                .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let message = format!("there is no executor `{}`", baton_core::text::shown(name, 40));
            return Err(Failure::new(USAGE, message)
                .hint(format!("known are {}{near}", baton_core::problem::list(&known))));
        };
        let program = preset.program().to_owned();
        if !program.contains('/') && place.environment.program(&program).is_none() {
            let message =
                format!("the program `{program}` of the executor `{name}` is not on the PATH");
            return Err(
                Failure::new(USAGE, message).hint("install it, or choose another with --executor")
            );
        }
        return Ok(Chosen::Program(Box::new(Agent::new(preset, &place.environment))));
    }
    let profile = own.profile.as_deref().or(packs).unwrap_or(STAGE);
    let asked = asked(&how.provider, own.model.as_deref());
    match choose::choose(&asked, config, &place.environment) {
        Err(problem) => Err(Failure::new(USAGE, problem.to_string())),
        Ok(Some(choice)) => {
            mind(&choice, config, &how.tape, profile).map(|mind| Chosen::Model(Box::new(mind)))
        }
        Ok(None) if name.is_none() => {
            let found = PRESETS.iter().find(|name| place.environment.program(name).is_some());
            let preset = found.and_then(|name| executor::program_named(name, config));
            match preset {
                Some(preset) => {
                    Ok(Chosen::Program(Box::new(Agent::new(preset, &place.environment))))
                }
                None => Err(nothing_to_call()),
            }
        }
        Ok(None) => Err(nothing_to_call()),
    }
}

fn nothing_to_call() -> Failure {
    let ways = format!(
        "{}; or install an agent program ({}); or try `baton demo`, which needs neither key nor network",
        choose::ways(),
        PRESETS.join(", ")
    );
    Failure::new(USAGE, "no model or agent program is configured").hint(ways)
}

pub(super) fn asked(args: &ProviderArgs, model: Option<&str>) -> Asked {
    Asked {
        provider: args.provider.clone(),
        base_url: args.base_url.clone(),
        model: model.map(str::to_owned).or_else(|| args.model.clone()),
        key_over_http: args.key_over_http,
    }
}

/// The profile of agents for which neither the user nor the pack names one.
pub(super) const STAGE: &str = "stage";

/// The model that is called, with its price and its limits, as a profile of this name has it.
pub(super) fn mind(
    choice: &choose::Choice,
    config: &Config,
    tape: &TapeArgs,
    profile: &str,
) -> Result<Mind, Failure> {
    let is_replayed = tape.record.is_none() && tape.replay.is_some();
    if !is_replayed {
        with_key(choice)?;
    }
    let client = Client::new(choice.endpoint.clone(), CallLimits::default());
    let mut client =
        client.map_err(|why| Failure::new(INTERNAL, why))?.with_secrets(&choice.secrets);
    let profiles = Profile::model_at(profile, &config.profiles, choice.endpoint.wire);
    let model = match choice.model_or(profiles) {
        Some(model) => model,
        None => offered(&client, choice, is_replayed)?,
    };
    if let Some(tape) = setup::tape(tape)? {
        client = client.with_tape(tape);
    }
    let known = catalogue::known(&model, config.models.get(&model));
    let max_output = known.max_output.map_or(Tokens(8_192), |most| most.min(Tokens(16_384)));
    let window = known.context_window.map(|window| window.0);
    // The provider itself has ended what other hosts still offer.
    let long = known.long_window.filter(|_| !choice.endpoint.is_providers_own());
    let reach = long.map(|window| window.0).max(window);
    let profile = Profile::named_within(profile, &config.profiles, reach)
        .map_err(|problem| Failure::new(USAGE, problem.to_string()))?;
    let wanted = profile.context_window.or(window).unwrap_or_default();
    if let Some(header) = catalogue::header_for(&model, wanted) {
        client = client.with_long_window(&model, header);
    }
    let prices = known.price.and_then(catalogue::Price::parts).unwrap_or_default();
    let mut room = Room::new(profile.settings(window), prices, config.features.folding);
    room.results = config.agent.results;
    Ok(Mind {
        client,
        model,
        max_output,
        price: known.price,
        protocol: profile.protocol.unwrap_or(config.agent.protocol),
        room,
        summary_model: profile.summary_model.clone(),
        summary_limit: baton_runtime::agent::SUMMARY_LIMIT,
        steps: profile.steps,
    })
}

/// Refuses a call to a provider that would deny it.
pub(super) fn with_key(choice: &choose::Choice) -> Result<(), Failure> {
    choice.missing_key().map_or(Ok(()), |problem| {
        Err(Failure::new(USAGE, problem.to_string())
            .hint("a server of your own is named with `--base-url`; `baton demo` needs no key"))
    })
}

/// The time that a server has to list its models.
const LISTING: Duration = Duration::from_secs(3);

/// The model of a server of one's own: the only one that it has. A gateway that lists none, or the
/// provider's default among others, is asked for that, if it is called with a key.
fn offered(client: &Client, choice: &choose::Choice, is_replayed: bool) -> Result<String, Failure> {
    let wire = choice.endpoint.wire;
    let default = catalogue::default_model(wire);
    let is_gateway = wire != Wire::Chat && choice.endpoint.key.is_some();
    let listed = if is_replayed { None } else { client.offered(LISTING).ok() };
    let names = listed.unwrap_or_default();
    match names.as_slice() {
        [only] => Ok(only.clone()),
        names if is_gateway && (names.is_empty() || names.iter().any(|name| name == default)) => {
            Ok(default.to_owned())
        }
        names => {
            let ways = "pass `--model NAME`, set BATON_MODEL, or add `model` to [provider] in your baton.toml";
            let shown: Vec<String> =
                names.iter().take(20).map(|name| baton_core::text::shown(name, 80)).collect();
            let hint = match shown.is_empty() {
                true => ways.to_owned(),
                false => format!("{ways}; the server has {}", shown.join(", ")),
            };
            Err(Failure::new(USAGE, "no model is chosen").hint(hint))
        }
    }
}

/// A budget in dollars cannot be kept where the cost of a call is not known.
pub(super) fn priced(unpriced: Option<Unpriced<'_>>, limits: &Limits) -> Result<(), Failure> {
    match unpriced.filter(|_| limits.cost.is_some() || limits.stage_cost.is_some()) {
        None => Ok(()),
        Some(Unpriced::Model(model)) => Err(no_price(model)),
        Some(Unpriced::Program(name)) => {
            let name = baton_core::text::shown(name, 80);
            let message = format!(
                "a budget in dollars needs to know what {name} costs, and it does not report that"
            );
            Err(Failure::new(USAGE, message).hint(
                "use `--budget-tokens`, `--budget-minutes` or `--max-iterations` instead, or another executor",
            ))
        }
    }
}

pub(super) fn no_price(model: &str) -> Failure {
    let model = baton_core::text::shown(model, 80);
    Failure::new(USAGE, format!("a budget in dollars needs the price of {model}, which is unknown"))
        .hint(format!(
            "set `input` and `output` (dollars per million tokens) under [models.\"{model}\"] in your baton.toml, or use `--budget-tokens`"
        ))
}

/// The window of the model that gets a stage's prompt, as far as its name tells.
pub(super) fn windows(place: &Place, board: &Board, asked: &Asked) -> Windows {
    let config = board.config.clone();
    let target = choose::target(asked, &config, &place.environment).ok().flatten();
    let agents = board.pack.manifest.agents.clone();
    Box::new(move |name| {
        let name = if *name == FINISH_CHECK { MAIN } else { name.as_str() };
        let own = config.agents.get(name);
        let packs = agents.iter().find(|agent| agent.name == *name);
        let packs = packs.and_then(|agent| agent.profile.as_deref());
        let profile = own.and_then(|own| own.profile.as_deref()).or(packs).unwrap_or(STAGE);
        let target = target.as_ref();
        let model = own
            .and_then(|own| own.model.clone())
            .or_else(|| target?.model.clone())
            .or_else(|| Profile::model_at(profile, &config.profiles, target?.wire))
            .or_else(|| target?.default_model.clone())?;
        catalogue::known(&model, config.models.get(&model)).context_window
    })
}

/// Time limit for a run to leave after it was told to leave now.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// Once: stop after the stage that runs. Twice, or without a terminal: leave now.
fn signals(
    control: &Control,
    asking: &Arc<AtomicBool>,
    mark: String,
    own: Language,
) -> Result<(), Failure> {
    let (control, asking) = (control.clone(), asking.clone());
    crate::signals::watch(move |request| {
        if asking.load(Ordering::SeqCst) {
            leave(&own.question_stays(), &mark);
        } else if control.interrupt.is_at_once() {
            leave(&own.stopped_now(), &mark);
        } else if !control.is_parked() && request == Request::Stop {
            control.park();
            print(&own.stopping());
        } else {
            control.interrupt.at_once();
            let marked = mark.clone();
            // A walk over a huge tree or a file that blocks must not keep the run from leaving.
            let leaving = std::thread::Builder::new().spawn(move || {
                std::thread::sleep(PATIENCE);
                leave(&own.stopped_now(), &marked);
            });
            if leaving.is_err() {
                leave(&own.stopped_now(), &mark);
            }
        }
    })
}

/// Ends the process. Everything is in the journal before it counts: this is as safe as a crash.
fn leave(said: &str, mark: &str) {
    print(said);
    // A process that cannot be ended must not keep this one.
    let mark = mark.to_owned();
    within(std::time::Duration::from_secs(1), move || {
        baton_runtime::sandbox::end_left_behind(&mark);
    });
    std::process::exit(i32::from(WAITING));
}

/// Prints a line from a thread of its own: whoever should read standard error may not read it.
fn print(line: &str) {
    let line = line.to_owned();
    within(std::time::Duration::from_millis(100), move || {
        let _ = writeln!(std::io::stderr(), "\n{line}");
    });
}

/// Does this in a thread of its own and waits no longer than so long. Where no thread can be started
/// it is left out.
fn within(limit: std::time::Duration, act: impl FnOnce() + Send + 'static) {
    let Ok(acting) = std::thread::Builder::new().spawn(act) else { return };
    let start = std::time::Instant::now();
    while !acting.is_finished() && start.elapsed() < limit {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
