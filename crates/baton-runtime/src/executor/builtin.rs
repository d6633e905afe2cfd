//! The built-in agent as an executor. What it did stands in its transcript: an interrupted stage goes
//! on from there, in the same attempt, with the project as it is.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use baton_core::config::AgentSettings;
use baton_core::event::{Runner, Spent, StageResult};
use baton_core::messages::Language;
use baton_core::turn::{Ending, Limits};

use super::{Call, Executor, Hear, Outcome, Told, Unusable, all_tokens, whole_milliseconds};
use crate::agent::{self, Agent, Heard, Mind, Setup};
use crate::approve::{Approvals, Mode};
use crate::beneath::Root;
use crate::caches::{self, Writer};
use crate::commits::Commits;
use crate::load::Environment;
use crate::model::{Client, Kind};
use crate::repositories::Ground;
use crate::sandbox::{self, Closed, Interrupt, Sight};
use crate::tool::{Shell, Workshop};
use crate::transcript::Transcript;
use crate::view::View;

/// Variables that commands of an agent get to see, in addition to those of tools
/// ([`Sight::add_variables`]) and those that the person names.
const VARIABLES: [&str; 7] = ["PATH", "HOME", "LANG", "LC_*", "TERM", "RUSTUP_HOME", "CARGO_HOME"];

/// Runs a stage with a model and tools.
#[derive(Debug)]
pub struct Builtin {
    pub mind: Mind,
    pub environment: Environment,
    pub settings: AgentSettings,
}

/// Where and how an agent works; only a person says it.
#[derive(Debug, Clone)]
pub struct Bench<'a> {
    pub project: &'a Path,
    /// The blackboard, where there is one: nobody but Baton writes it.
    pub board: Option<&'a Path>,
    pub confined: bool,
    /// True if the agent has tools that write files.
    pub writes: bool,
    /// True if its commands may change the project: tests write what they build, so an agent that
    /// has no such tools still may.
    pub commands_write: bool,
    pub mark: &'a str,
    /// The project as the agent sees it, where that is not the project itself.
    pub view: Option<&'a View>,
    /// For what commands leave behind; lives as long as the agent.
    pub temporary: &'a Path,
    pub approvals: Approvals,
}

/// The workshop of an agent, or why it cannot work here.
pub fn workshop(
    bench: &Bench<'_>,
    environment: &Environment,
    settings: &AgentSettings,
) -> Result<Workshop, String> {
    // Without a blackboard, the place where one would be is as protected.
    let board = bench.board.map_or_else(|| bench.project.join(".baton"), Path::to_owned);
    let protected = vec![board.clone(), bench.project.join(".git")];
    let root = match bench.view {
        Some(view) => Root::reached(view.reached(), view.seen().to_owned(), &protected),
        None => Root::open(bench.project, &protected),
    };
    let root = root.map_err(|error| format!("cannot open {}: {error}", bench.project.display()))?;
    let is_writer = bench.writes && bench.view.is_none();
    let writer = if is_writer { Writer::Agents } else { Writer::Reviewers };
    // Where none can be kept, builds begin anew each time.
    let cache = caches::open(writer, bench.project, environment)
        .unwrap_or_else(|_| bench.temporary.to_owned());
    let closed = match bench.confined {
        true => {
            if let Err(missing) = sandbox::available() {
                return Err(missing.to_string());
            }
            let mut closed = Closed::usual(bench.project, &board, bench.temporary, environment)?;
            closed.network = settings.network;
            closed.sight.add(&settings.read, environment);
            if bench.view.is_some() {
                closed = closed.in_view(&board);
            }
            if !bench.commands_write {
                closed.writable.clear();
            }
            closed.writable.push(cache.clone());
            Some(closed)
        }
        false if !bench.commands_write && !sandbox::has_namespaces() => {
            return Err(
                "without namespaces commands cannot be kept from writing the project".to_owned()
            );
        }
        false => None,
    };
    let read_only = (!bench.commands_write).then(|| root.path().to_owned());
    let mut names: Vec<String> = VARIABLES.iter().map(|name| (*name).to_owned()).collect();
    names.extend(settings.env.iter().cloned());
    let mut variables = environment.for_command(&names);
    for (name, value) in caches::variables(&cache, environment, settings.network) {
        // What the user names stays as it is.
        if closed.is_some() {
            variables.entry(name).or_insert(value);
        }
    }
    let sight = closed.as_ref().map_or_else(Sight::default, |closed| closed.sight.clone());
    sight.add_variables(environment, bench.project, &mut variables);
    let shell = Shell {
        environment: variables,
        closed,
        protected: [board.clone()].into_iter().chain(read_only).collect(),
        mark: bench.mark.to_owned(),
        within: bench.view.and_then(View::within),
        ground: (bench.confined && bench.commands_write && bench.view.is_none())
            .then(|| Ground::new(bench.project, &board, environment)),
        commits: (settings.commits && bench.confined && bench.writes && bench.view.is_none())
            .then(|| Commits::new(bench.project, environment)),
        ready: Mutex::default(),
    };
    Ok(Workshop {
        root,
        board: Some(board),
        shell,
        approvals: bench.approvals.clone(),
        freshness: Mutex::default(),
        digests: Mutex::default(),
        writes: bench.writes,
        // The conversation's, once there is one.
        language: Language::default(),
    })
}

impl Builtin {
    fn agent(
        &self,
        call: &Call<'_>,
        view: Option<&View>,
        temporary: &Path,
    ) -> Result<Agent, Unusable> {
        let bench = Bench {
            project: call.project,
            board: Some(call.board),
            confined: call.confined,
            writes: call.writes,
            commands_write: true,
            mark: call.mark,
            view,
            temporary,
            // Nobody watches a stage.
            approvals: Approvals { mode: Mode::Auto, person: None },
        };
        let mut mind = self.mind.clone();
        mind.room.language = call.language;
        let setup = Setup {
            mind,
            tags: call.tags(),
            cache_key: format!("{}/{}", call.run, call.stage.name),
            folder: ".".to_owned(),
            workshop: workshop(&bench, &self.environment, &self.settings).map_err(Unusable)?,
            limits: Limits {
                steps: self.mind.steps.unwrap_or(self.settings.steps),
                tokens: call.tokens,
            },
            cost_limit: call.cost,
            // They are in the prompt.
            facts: Vec::new(),
            conduct: Some(call.conduct.to_owned()),
            // The run keeps it.
            turns: None,
        };
        let folder = transcript_folder(call);
        let unusable = |error: agent::Error| Unusable(error.to_string());
        let mut agent = match Transcript::is_begun(&folder) {
            true => Agent::resume(setup, &folder, call.disk.clone()).map_err(unusable)?,
            false => {
                let mut agent =
                    Agent::begin(setup, &folder, call.disk.clone()).map_err(unusable)?;
                // A conversation that is not there any more begins with what was refused.
                let refused = call.corrections.last().map(|own| own.refused_answer(call.words));
                let prompt = format!("{}{}", call.prompt, refused.unwrap_or_default());
                agent.ask(&prompt).map_err(unusable)?;
                agent
            }
        };
        if let Some(last) = call.corrections.last() {
            agent.correct(last.number, &last.message(call.words)).map_err(unusable)?;
        }
        Ok(agent)
    }
}

/// The transcript of one attempt of one stage.
fn transcript_folder(call: &Call<'_>) -> PathBuf {
    let stage = call.stage;
    let subloop = stage.subloop.map_or(String::new(), |number| format!("-subloop-{number}"));
    let name = format!("{}-{}{subloop}-a{}", stage.iteration, stage.name, call.attempt);
    crate::transcript::folder_of(call.board, call.run).join(name)
}

impl Executor for Builtin {
    fn name(&self, language: Language) -> String {
        language.by_agent(&self.mind.model)
    }

    fn unpriced(&self) -> Option<super::Unpriced<'_>> {
        self.mind.unpriced().map(super::Unpriced::Model)
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.mind.client)
    }

    fn runner(&self) -> Option<Runner> {
        Some(self.mind.runner())
    }

    fn continues(&self, call: &Call<'_>) -> bool {
        Transcript::is_begun(&transcript_folder(call))
    }

    fn call(
        &mut self,
        call: &Call<'_>,
        interrupt: &Interrupt,
        hear: Hear<'_>,
    ) -> Result<Outcome, Unusable> {
        let start = Instant::now();
        let temporary = sandbox::temporary()
            .map_err(|error| Unusable(format!("cannot make a temporary folder: {error}")))?;
        let view = call.view(hear)?;
        let mut agent = self.agent(call, view.as_ref(), temporary.path())?;
        let ran = agent.run(call.limit, interrupt, &mut |heard| tell(hear, &heard));
        let spent = Spent {
            milliseconds: whole_milliseconds(start.elapsed()),
            tokens: all_tokens(&agent.conversation().usage),
            cached: agent.conversation().usage.cache_read,
            cost: agent.cost(),
        };
        let result = match ran {
            Ok(Some(Ending::Done(text))) => StageResult::Answer(text),
            Ok(Some(Ending::TimedOut(why))) => StageResult::TimedOut(why),
            Ok(Some(Ending::Failed(why) | Ending::Stopped(why))) => StageResult::Failed(why),
            Ok(None) => StageResult::Failed("it was interrupted".to_owned()),
            Err(agent::Error::Model(error))
                if matches!(error.kind, Kind::Denied | Kind::NotRecorded) =>
            {
                return Err(Unusable(error.to_string()));
            }
            Err(agent::Error::Model(error)) => StageResult::Failed(error.to_string()),
            Err(error) => return Err(Unusable(error.to_string())),
        };
        Ok(Outcome { result, spent })
    }
}

fn tell(hear: Hear<'_>, heard: &Heard<'_>) {
    match heard {
        Heard::Piece(text) => hear(Told::Piece(text)),
        Heard::Notice(why) => hear(Told::Notice(why)),
        Heard::Said(why) => hear(Told::Step(why)),
        Heard::Calls(call) => hear(Told::Step(&agent::brief(call))),
        Heard::Result(_) => {}
    }
}
