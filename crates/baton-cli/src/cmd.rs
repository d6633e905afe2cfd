//! One file a verb. Each takes its arguments and gives a reply or a failure; none prints.

mod agent;
mod debug;
mod demo;
mod doctor;
mod example;
mod gate;
mod handoff;
mod history;
mod init;
mod lab;
mod models;
mod pack;
mod plan;
mod prompt;
mod report;
mod rules;
mod run;
mod scenario;
mod schema;
mod setup;
mod scripted;
mod undo;
mod watch;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use baton_core::problem::Problem;
use baton_core::text;
use baton_runtime::board::{self, Board};
use baton_runtime::drive;
use baton_runtime::load::Environment;
use clap::CommandFactory;
use serde_json::json;

use crate::args::{
    Cli, Command, DebugCommand, GateCommand, HandoffCommand, HistoryCommand, PackCommand,
    PlanCommand, ReportCommand, ScenarioCommand,
};
use crate::reply::{Failure, Reply, USAGE, rendered};

pub(crate) type Outcome = Result<Reply, Failure>;

/// Where a command works.
pub(crate) struct Place {
    pub(crate) environment: Environment,
    /// `--blackboard` or `BATON_BLACKBOARD`.
    named_board: Option<PathBuf>,
    pub(crate) folder: PathBuf,
    /// Whether the reply's JSON will be printed.
    pub(crate) json: bool,
    /// Warnings about the blackboards that were opened, each once.
    warnings: RefCell<Vec<Problem>>,
}

impl Place {
    fn new(blackboard: Option<PathBuf>, json: bool) -> Place {
        let environment = Environment::of_this_process();
        // A folder that was deleted under us has no blackboard; much works without one.
        let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        let named_board = blackboard.or_else(|| environment.path("BATON_BLACKBOARD"));
        Place { environment, named_board, folder, json, warnings: RefCell::default() }
    }

    /// The blackboard's folder: as named, or found from here upwards. One that may not be used is an
    /// error.
    pub(crate) fn board_path(&self) -> Result<Option<PathBuf>, Failure> {
        match &self.named_board {
            Some(named) => {
                board::named(named, &self.folder)?;
                Ok(Some(named.clone()))
            }
            None => Ok(board::find(&self.folder, &self.environment)?),
        }
    }

    /// The folder that `init` would make.
    pub(crate) fn new_board_path(&self) -> Result<PathBuf, Failure> {
        let path = self.named_board.clone().unwrap_or_else(|| self.folder.join(board::FOLDER));
        board::named(&path, &self.folder)?;
        Ok(path)
    }

    /// The project of a blackboard, which may not be there yet. A folder that Baton cannot work in is
    /// refused.
    pub(crate) fn project_of(&self, board: &Path) -> Result<PathBuf, Failure> {
        let project = match board.exists() {
            true => drive::project_of(board),
            false => {
                let whole = self.folder.join(board);
                whole.parent().map_or(whole.clone(), Path::to_owned)
            }
        };
        let Some(why) = board::unsuitable(&project, &self.environment) else { return Ok(project) };
        if self.is_here(&project) {
            return Err(
                Failure::new(USAGE, why).hint("`cd` into a project below it; nothing was made")
            );
        }
        let message = format!("the blackboard {} is of no use: {why}", board.display());
        Err(Failure::new(USAGE, message).hint(format!(
            "`baton init --here` makes one for this folder; remove {} if you do not need it",
            board.display()
        )))
    }

    /// True if commands are given in the project's own folder.
    pub(crate) fn is_here(&self, project: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        real(project) == real(&self.folder)
    }

    /// The blackboard of a parent folder, which a new one in this folder would hide.
    pub(crate) fn board_above(&self) -> Result<Option<PathBuf>, Failure> {
        match self.folder.parent().filter(|_| self.named_board.is_none()) {
            Some(above) => Ok(board::find(above, &self.environment)?),
            None => Ok(None),
        }
    }

    pub(crate) fn board(&self) -> Result<Board, Failure> {
        match self.board_path()? {
            Some(path) => self.opened(&path),
            None => Err(self.no_board()),
        }
    }

    /// Opens a blackboard; its warnings are printed with the reply.
    pub(crate) fn opened(&self, path: &Path) -> Result<Board, Failure> {
        let board = Board::open(path, &self.environment)?;
        let mut warnings = self.warnings.borrow_mut();
        for warning in &board.warnings {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        Ok(board)
    }

    /// The warnings that were not printed yet.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let warnings = std::mem::take(&mut *self.warnings.borrow_mut());
        warnings.iter().map(|warning| rendered(warning, None)).collect()
    }

    pub(crate) fn no_board(&self) -> Failure {
        Failure::new(USAGE, "there is no blackboard here or in a parent folder")
            .hint("`baton init` makes one; `--blackboard DIR` names one elsewhere")
    }

    /// A file that the user named. One in a blackboard that is a link is refused.
    pub(crate) fn file(&self, file: PathBuf) -> Result<PathBuf, Failure> {
        board::named_file(&file, &self.folder)?;
        Ok(file)
    }

    /// The blackboard that a file is checked by: the named one, the one it lies in, that of the
    /// file's project, or the one of this place.
    pub(crate) fn board_of(&self, file: Option<&Path>) -> Result<Option<Board>, Failure> {
        let Some(file) = file.filter(|_| self.named_board.is_none()) else {
            return self.board_path()?.map(|path| self.opened(&path)).transpose();
        };
        board::named_file(file, &self.folder)?;
        let of_project = match std::fs::canonicalize(file) {
            Ok(file) => board::find(&file, &self.environment)?,
            Err(_) => None,
        };
        let path = match board::enclosing(file).or(of_project) {
            Some(path) => Some(path),
            None => self.board_path()?,
        };
        path.map(|path| self.opened(&path)).transpose()
    }

    /// Whether a file is the blackboard's own, so that its reports speak for it.
    pub(crate) fn belongs(&self, file: &Path, board: &Board) -> bool {
        let lies_in = board::enclosing(file);
        let same = |root: &Path| std::fs::canonicalize(&board.root).is_ok_and(|own| own == root);
        self.named_board.is_some() || lies_in.is_some_and(|root| same(&root))
    }
}

pub(crate) fn run(cli: Cli) -> Outcome {
    let place = Place::new(cli.blackboard, cli.json);
    let shows_changes = shows_changes(&cli.command);
    let mut outcome = dispatched(&place, cli.command);
    if let (Ok(reply), true) = (&mut outcome, shows_changes) {
        mention_changed_rules(&place, reply);
    }
    if let Ok(reply) = &mut outcome {
        for warning in place.take_warnings() {
            if !reply.errors.contains(&warning) {
                reply.notes.push_str(&format!("{warning}\n"));
            }
        }
    }
    outcome
}

/// Commands that show something of a blackboard: they work whatever its rules have become since the
/// run began, and mention it.
fn shows_changes(command: &Command) -> bool {
    matches!(
        command,
        Command::Status
            | Command::Log(_)
            | Command::Diff { .. }
            | Command::Plan(PlanCommand::Check(_))
            | Command::History(_)
            | Command::Prompt(_)
            | Command::Report(_)
            | Command::Pack(PackCommand::Check { pack: None } | PackCommand::Use { .. })
            | Command::Gate(_)
            | Command::Doctor
    )
}

fn mention_changed_rules(place: &Place, reply: &mut Reply) {
    let Ok(Some(path)) = place.board_path() else { return };
    let Ok(board) = place.opened(&path) else { return };
    let Ok(Some(run)) = drive::last_run(&board) else { return };
    let changes = drive::changed_rules(&board, &run).unwrap_or_default();
    if changes.is_empty() {
        return;
    }
    let own = board.pack.words();
    let note = own.rules_changed(run, text::shown(&changes.join(", "), 1_000));
    reply.errors.push_str(&format!("{note}\n"));
    if let serde_json::Value::Object(map) = &mut reply.json {
        map.insert("rules_changed".to_owned(), json!(changes));
    }
}

fn dispatched(place: &Place, command: Command) -> Outcome {
    match command {
        Command::Init(args) => init::run(place, &args),
        Command::Run(args) => run::run(place, &args),
        Command::Resume(args) => run::resume(place, &args),
        Command::Answer(args) => run::answer(place, &args),
        Command::Stop(args) => run::stop(place, &args),
        Command::Status => watch::status(place),
        Command::Chat(args) => agent::chat(place, &args),
        Command::Exec(args) => agent::exec(place, &args),
        Command::Log(args) => watch::log(place, &args),
        Command::Diff { iteration } => watch::diff(place, iteration),
        Command::Undo(args) => undo::undo(place, &args),
        Command::Gc { days, dry_run } => watch::gc(place, days, dry_run),
        Command::Gate(GateCommand::List) => gate::list(place),
        Command::Gate(GateCommand::Add(args)) => gate::add(place, &args),
        Command::Gate(GateCommand::Remove { gate }) => gate::remove(place, &gate),
        Command::Gate(GateCommand::Run { gate, no_sandbox }) => {
            gate::run(place, gate.as_deref(), no_sandbox)
        }
        Command::Trust(args) => watch::trust(place, &args),
        Command::Demo(args) => demo::run(place, &args),
        Command::Report(ReportCommand::Check(args)) => report::check(place, &args),
        Command::Report(ReportCommand::Summary { report, level }) => {
            report::summary(place, &report, level)
        }
        Command::Plan(PlanCommand::Check(args)) => plan::check(place, &args),
        Command::Plan(PlanCommand::Apply(args)) => plan::apply(place, &args),
        Command::History(HistoryCommand::Show(args)) => history::show(place, &args),
        Command::History(HistoryCommand::Window(args)) => history::window(place, &args),
        Command::Prompt(args) => prompt::run(place, &args),
        Command::History(HistoryCommand::Check { file }) => history::check(place, file),
        Command::Handoff(HandoffCommand::Check(args)) => handoff::check(place, &args),
        Command::Handoff(HandoffCommand::Show(args)) => handoff::show(&args),
        Command::Handoff(HandoffCommand::Load(args)) => handoff::load(place, &args),
        Command::Handoff(HandoffCommand::Make(args)) => handoff::make(place, &args),
        Command::Scenario(ScenarioCommand::Run(args)) => scenario::run(place, &args),
        Command::Scenario(ScenarioCommand::Status(args)) => scenario::status(place, &args),
        Command::Scenario(ScenarioCommand::Report(args)) => scenario::report(place, &args),
        Command::Scenario(ScenarioCommand::Diff(args)) => scenario::diff(place, &args),
        Command::Scenario(ScenarioCommand::Demo(args)) => scenario::demo(place, &args),
        Command::Pack(PackCommand::List { lang }) => pack::list(place, lang.as_deref()),
        Command::Pack(PackCommand::New { name, from, lang }) => {
            pack::new(place, &name, from.as_deref(), lang.as_deref())
        }
        Command::Pack(PackCommand::Export { pack, dir }) => {
            pack::export(place, pack.as_deref(), dir)
        }
        Command::Pack(PackCommand::Show(args)) => pack::show(place, &args),
        Command::Pack(PackCommand::Check { pack }) => pack::check(place, pack.as_deref()),
        Command::Pack(PackCommand::Use { pack, lang }) => {
            pack::switch(place, &pack, lang.as_deref())
        }
        Command::Models(args) => models::run(place, &args),
        Command::Schema(args) => schema::run(place, &args),
        Command::Doctor => doctor::run(place),
        Command::Lab(args) => lab::run(place, &args),
        Command::Debug(DebugCommand::Compress { tool, id }) => debug::compress(&tool, id),
        Command::Debug(DebugCommand::Mentions { root }) => debug::mentions(place, root),
        Command::Debug(DebugCommand::Compact(args)) => debug::compact(&args),
        Command::Completions { shell } => Ok(completions(shell)),
    }
}

fn completions(shell: clap_complete::Shell) -> Reply {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "baton", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let json = json!({ "ok": true, "shell": shell.to_string(), "script": script });
    Reply::new(script, json)
}
