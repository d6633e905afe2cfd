//! One file a verb. Each takes its arguments and gives a reply or a failure; none prints.

mod doctor;
mod history;
mod init;
mod pack;
mod plan;
mod report;
mod rules;
mod schema;

use std::path::{Path, PathBuf};

use baton_runtime::board::{self, Board};
use baton_runtime::load::Environment;
use clap::CommandFactory;
use serde_json::json;

use crate::args::{Cli, Command, HistoryCommand, PackCommand, PlanCommand, ReportCommand};
use crate::reply::{Failure, Reply, USAGE};

pub(crate) type Outcome = Result<Reply, Failure>;

/// Where a command works.
pub(crate) struct Place {
    pub(crate) environment: Environment,
    /// `--blackboard` or `BATON_BLACKBOARD`.
    named_board: Option<PathBuf>,
    pub(crate) folder: PathBuf,
}

impl Place {
    fn new(blackboard: Option<PathBuf>) -> Result<Place, Failure> {
        let environment = Environment::of_this_process();
        let folder = std::env::current_dir().map_err(|error| {
            Failure::new(USAGE, format!("cannot tell the current folder: {error}"))
        })?;
        let named_board =
            blackboard.or_else(|| environment.get("BATON_BLACKBOARD").map(PathBuf::from));
        Ok(Place { environment, named_board, folder })
    }

    /// The blackboard's folder: as named, or found from here upwards.
    pub(crate) fn board_path(&self) -> Option<PathBuf> {
        self.named_board.clone().or_else(|| board::find(&self.folder))
    }

    /// The folder that `init` would make.
    pub(crate) fn new_board_path(&self) -> PathBuf {
        self.named_board.clone().unwrap_or_else(|| self.folder.join(board::FOLDER))
    }

    pub(crate) fn board(&self) -> Result<Board, Failure> {
        match self.board_path() {
            Some(path) => Ok(Board::open(&path, &self.environment)?),
            None => Err(Failure::new(USAGE, "there is no blackboard here or in a parent folder")
                .hint("`baton init` makes one; `--blackboard DIR` names one elsewhere")),
        }
    }

    /// The blackboard that a file belongs to: the one it lies in, or the one of this place.
    pub(crate) fn board_of(&self, file: Option<&Path>) -> Result<Option<Board>, Failure> {
        let path = match (&self.named_board, file) {
            (Some(named), _) => Some(named.clone()),
            (None, Some(file)) => board::enclosing(file).or_else(|| self.board_path()),
            (None, None) => self.board_path(),
        };
        Ok(path.map(|path| Board::open(&path, &self.environment)).transpose()?)
    }
}

pub(crate) fn run(cli: Cli) -> Outcome {
    let place = Place::new(cli.blackboard)?;
    match cli.command {
        Command::Init(args) => init::run(&place, &args),
        Command::Report(ReportCommand::Check(args)) => report::check(&place, &args),
        Command::Plan(PlanCommand::Check(args)) => plan::check(&place, &args),
        Command::Plan(PlanCommand::Apply(args)) => plan::apply(&place, &args),
        Command::History(HistoryCommand::Show(args)) => history::show(&place, &args),
        Command::History(HistoryCommand::Check { file }) => history::check(&place, file),
        Command::Pack(PackCommand::List) => pack::list(),
        Command::Pack(PackCommand::Show(args)) => pack::show(&place, &args),
        Command::Pack(PackCommand::Check { pack }) => pack::check(&place, pack.as_deref()),
        Command::Pack(PackCommand::Use { pack, lang }) => {
            pack::switch(&place, &pack, lang.as_deref())
        }
        Command::Schema(args) => schema::run(&place, &args),
        Command::Doctor => doctor::run(&place),
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
