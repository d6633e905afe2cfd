//! Who runs a stage: a model that is asked once, or any agent program that takes a prompt and leaves
//! a last message. Comes out: the message, or why there is none, and what it took.

mod builtin;
mod preset;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_core::config::Config;
use baton_core::event::{RunSetup, Runner, Spent, StageId, StageResult};
use baton_core::id::{AgentName, Attempt, FINISH_CHECK, MAIN, Tokens};
use baton_core::message::{Format, Message, Request, Stop};
use baton_core::messages::Language;
use baton_core::prompt::Correction;

use crate::agent::Mind;
use crate::load::Environment;
use crate::model::{Client, Delta, Kind, Tags, catalogue};
use crate::repositories::{Ground, Repositories};
use crate::sandbox::{self, Confine, How, Interrupt, Program};
use crate::view::{View, Views};

pub use builtin::{Bench, Builtin, workshop};
pub use preset::{NAMES as PRESETS, Preset};

/// One call of one stage.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    pub run: &'a str,
    pub stage: &'a StageId,
    pub attempt: Attempt,
    pub prompt: &'a str,
    /// The refused answers of this stage so far, each with the message that asks for a better one.
    pub corrections: &'a [Correction],
    /// The language of those messages.
    pub words: Language,
    pub limit: Duration,
    pub project: &'a Path,
    pub board: &'a Path,
    /// Whether what it starts is confined; only a person says no.
    pub confined: bool,
    /// Whether it may change the project's files.
    pub writes: bool,
    /// The language of the pack.
    pub language: Language,
    /// Who works here and how, as the pack says it.
    pub conduct: &'a str,
    /// The agents that a decision may name, where one is wanted.
    pub agents: &'a [AgentName],
    /// By which everything that it starts can be found again.
    pub mark: &'a str,
    /// What it may use of tokens and of nano-dollars.
    pub tokens: Option<u64>,
    pub cost: Option<u64>,
    pub disk: &'a crate::store::Disk,
    /// The project as it sees it, where it may not write; made when it is asked for.
    pub view: Option<ViewOrder<'a>>,
}

/// The view of a stage.
#[derive(Debug, Clone, Copy)]
pub struct ViewOrder<'a> {
    pub views: &'a Views,
    pub name: &'a str,
    /// The project's files.
    pub files: &'a [String],
}

impl Call<'_> {
    /// Everything in one prompt, for whoever does not remember its answers: the files that it asked
    /// for, and what was last refused.
    fn one_prompt(&self) -> String {
        let mut prompt = self.prompt.to_owned();
        let count = self.corrections.len();
        for (index, own) in self.corrections.iter().enumerate() {
            if !own.is_refusal() || index + 1 == count {
                let (answer, message) = (own.refused_answer(self.words), own.message(self.words));
                prompt.push_str(&format!("{answer}{message}\n\n"));
            }
        }
        prompt
    }

    /// The prompt, and each refused answer with the message that followed it.
    fn messages(&self) -> Vec<Message> {
        let mut messages = vec![Message::user(self.prompt)];
        for own in self.corrections {
            // No provider takes an empty answer.
            let nothing = self.words.no_answer();
            let answer = if own.answer.is_empty() { &nothing } else { &own.answer };
            messages.push(Message::assistant(answer.as_str()));
            messages.push(Message::user(own.message(self.words)));
        }
        messages
    }

    /// The view of the project that it works in; its notice is told.
    fn view(&self, hear: Hear<'_>) -> Result<Option<View>, Unusable> {
        let Some(ViewOrder { views, name, files }) = self.view else { return Ok(None) };
        let view = views.open(name, Some(files)).map_err(|error| Unusable(error.to_string()))?;
        if let Some(notice) = view.notice() {
            hear(Told::Notice(notice));
        }
        Ok(Some(view))
    }

    /// For the provider's log and a scripted server.
    fn tags(&self) -> Tags {
        Tags {
            run: self.run.to_owned(),
            stage: self.stage.name.to_string(),
            iteration: self.stage.iteration.0,
            attempt: self.attempt.0,
        }
    }
}

/// What came of a call.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub result: StageResult,
    pub spent: Spent,
}

/// What is heard while a stage runs.
#[derive(Debug, Clone, Copy)]
pub enum Told<'a> {
    /// A piece of what the model says.
    Piece(&'a str),
    /// Something that is done, in a few words.
    Step(&'a str),
    /// News of a call of the model: another try, something that the provider refused.
    Notice(&'a str),
}

pub type Hear<'a> = &'a mut (dyn FnMut(Told<'_>) + Send);

/// Why no stage can be run at all: a person must change something first.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub String);

/// Something whose cost cannot be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpriced<'a> {
    /// A model without a known price.
    Model(&'a str),
    /// An agent program that does not report what it costs.
    Program(&'a str),
}

pub trait Executor: Send {
    /// Whether it could change files, whatever it was asked to do.
    fn can_write(&self) -> bool {
        true
    }

    /// For people: what runs the stage.
    fn name(&self, language: Language) -> String;

    /// The model or program that it calls, if its cost is not known.
    fn unpriced(&self) -> Option<Unpriced<'_>> {
        None
    }

    /// The model that runs the stage, where one does.
    fn client(&self) -> Option<&Client> {
        None
    }

    /// For the journal: what runs the stage. `None`: nothing that could be named again.
    fn runner(&self) -> Option<Runner> {
        None
    }

    /// True if an interrupted call continues after its last recorded step instead of beginning anew.
    fn continues(&self, _call: &Call<'_>) -> bool {
        false
    }

    fn call(
        &mut self,
        call: &Call<'_>,
        interrupt: &Interrupt,
        hear: Hear<'_>,
    ) -> Result<Outcome, Unusable>;
}

/// A model that is asked once, without tools.
#[derive(Debug)]
pub struct Plain {
    pub mind: Mind,
}

impl Plain {
    fn request(&self, call: &Call<'_>) -> Request {
        let is_decision =
            *call.stage.name.as_str() == *MAIN || *call.stage.name.as_str() == *FINISH_CHECK;
        let schema = || baton_core::decision::schema(call.agents);
        Request {
            model: self.mind.model.clone(),
            max_output: self.mind.max_output,
            temperature: None,
            cache_key: format!("{}/{}", call.run, call.stage.name),
            tools: Vec::new(),
            no_calls: false,
            system: Vec::new(),
            format: is_decision.then(|| Format { name: "decision".to_owned(), schema: schema() }),
            messages: call.messages(),
            cached_messages: 0,
            tail: None,
        }
    }
}

impl Executor for Plain {
    fn name(&self, language: Language) -> String {
        language.by_model(&self.mind.model)
    }

    fn unpriced(&self) -> Option<Unpriced<'_>> {
        self.mind.unpriced().map(Unpriced::Model)
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.mind.client)
    }

    fn runner(&self) -> Option<Runner> {
        Some(self.mind.runner())
    }

    fn can_write(&self) -> bool {
        false
    }

    fn call(
        &mut self,
        call: &Call<'_>,
        interrupt: &Interrupt,
        hear: Hear<'_>,
    ) -> Result<Outcome, Unusable> {
        let request = self.request(call);
        let tags = call.tags();
        let start = Instant::now();
        let mut heard = |delta: Delta| match delta {
            Delta::Text(text) | Delta::Thinking(text) => hear(Told::Piece(&text)),
            Delta::Again(again) => hear(Told::Notice(&again.to_string())),
            Delta::Notice(words) => hear(Told::Notice(&words)),
        };
        let is_stopped = || interrupt.is_at_once();
        let client = &self.mind.client;
        let answer = client.call_within(&request, &tags, call.limit, is_stopped, &mut heard);
        let milliseconds = whole_milliseconds(start.elapsed());
        let unknown = Spent { milliseconds, tokens: None, cached: None, cost: None };
        Ok(match answer {
            None if interrupt.is_at_once() => Outcome {
                result: StageResult::Failed("it was interrupted".to_owned()),
                spent: unknown,
            },
            None => {
                let why = format!("it took longer than {} s", call.limit.as_secs());
                Outcome { result: StageResult::TimedOut(why), spent: unknown }
            }
            Some(Err(error)) if matches!(error.kind, Kind::Denied | Kind::NotRecorded) => {
                return Err(Unusable(error.to_string()));
            }
            Some(Err(error)) => {
                Outcome { result: StageResult::Failed(error.to_string()), spent: unknown }
            }
            Some(Ok(answer)) => {
                let usage = answer.usage;
                let cost = catalogue::cost(&usage, self.mind.price.as_ref()).map(|cost| cost.0);
                let spent = Spent {
                    milliseconds,
                    tokens: all_tokens(&usage),
                    cached: usage.cache_read,
                    cost,
                };
                let result = match &answer.stop {
                    Stop::Refusal(words) => {
                        StageResult::Failed(format!("the model refused: {words}"))
                    }
                    Stop::MaxTokens => {
                        StageResult::Failed("the answer was cut by its limit of tokens".to_owned())
                    }
                    Stop::End | Stop::ToolCalls | Stop::Other(_) => {
                        StageResult::Answer(answer.text())
                    }
                };
                Outcome { result, spent }
            }
        })
    }
}

pub(crate) fn whole_milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn all_tokens(usage: &baton_core::message::Usage) -> Option<Tokens> {
    let parts = [usage.input, usage.output, usage.cache_read, usage.cache_write];
    // A provider that counts at all says these two.
    (usage.input.is_some() && usage.output.is_some())
        .then(|| Tokens(parts.into_iter().flatten().map(|tokens| tokens.0).sum()))
}

/// An agent program.
pub struct Agent {
    preset: Preset,
    /// What it gets to see of our own variables.
    environment: BTreeMap<OsString, OsString>,
    /// Keys that must not come into the journal.
    secrets: Vec<String>,
    /// The folder of Baton's own state.
    state: Option<PathBuf>,
}

impl std::fmt::Debug for Agent {
    /// Values of variables may be keys.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Agent({})", self.preset.name)
    }
}

/// Output that is kept of an agent program.
const OUTPUT: usize = 8 << 20;

impl Agent {
    pub fn new(preset: Preset, environment: &Environment) -> Agent {
        let mut names: Vec<String> = USUAL.iter().map(|name| (*name).to_owned()).collect();
        names.extend(preset.env.iter().cloned());
        let secrets = environment.secrets().filter(|own| own.len() >= 12).map(str::to_owned);
        let secrets = secrets.collect();
        let state = environment.state_folder();
        let environment = environment.for_command(&names);
        Agent { preset, environment, secrets, state }
    }
}

/// Variables that every program needs.
pub(crate) const USUAL: [&str; 18] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_*",
    "TERM",
    "TMPDIR",
    "TZ",
    "XDG_*",
    "RUSTUP_HOME",
    "CARGO_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
];

impl Executor for Agent {
    fn name(&self, language: Language) -> String {
        language.by_program(&self.preset.name)
    }

    fn unpriced(&self) -> Option<Unpriced<'_>> {
        (!self.preset.reports_cost()).then_some(Unpriced::Program(&self.preset.name))
    }

    fn runner(&self) -> Option<Runner> {
        Some(Runner { executor: self.preset.name.clone(), ..Runner::default() })
    }

    fn call(
        &mut self,
        call: &Call<'_>,
        interrupt: &Interrupt,
        hear: Hear<'_>,
    ) -> Result<Outcome, Unusable> {
        let view = call.view(hear)?;
        let folder = tempfile::tempdir()
            .map_err(|error| Unusable(format!("cannot make a temporary folder: {error}")))?;
        let (prompt_file, answer_file) =
            (folder.path().join("prompt.md"), folder.path().join("answer.md"));
        let unusable = |error: crate::store::Error| Unusable(error.to_string());
        let prompt = call.one_prompt();
        crate::store::write(&prompt_file, prompt.as_bytes()).map_err(unusable)?;
        let program = self.program(call, &prompt, &prompt_file, &answer_file);
        let program = match &view {
            Some(view) => view.around(program),
            None => program,
        };
        let repositories = self.repositories(call, view.is_none())?;
        let ran = sandbox::run(&program, interrupt).map_err(Unusable)?;
        if let Some(mut own) = repositories {
            let moved = own.move_new_aside().map_err(|error| cannot_look(&error))?;
            own.notices(&moved, "").iter().for_each(|notice| hear(Told::Notice(notice)));
        }
        let milliseconds = whole_milliseconds(ran.time);
        let output = ran.stdout.text();
        let usage = self.preset.usage(&output);
        let spent = Spent { milliseconds, ..usage };
        let result = match ran.how {
            How::TimedOut => {
                StageResult::TimedOut(format!("it took longer than {} s", call.limit.as_secs()))
            }
            How::Interrupted => StageResult::Failed("it was interrupted".to_owned()),
            How::Signal(signal) => StageResult::Failed(format!("it was ended by signal {signal}")),
            How::Exit(0) => {
                let file = crate::load::text(&answer_file, baton_core::report::MAX_BYTES).ok();
                // A message that is no text, or not whole, must not pass for one.
                match (&file, ran.stdout.whole_text()) {
                    (None, Err(why)) => StageResult::Failed(format!("of its last message {why}")),
                    _ => match self.preset.answer(&output, file.as_deref()) {
                        Ok(answer) => StageResult::Answer(answer),
                        Err(why) => StageResult::Failed(why),
                    },
                }
            }
            How::Exit(127) => {
                return Err(Unusable(format!("`{}` was not found", self.preset.name)));
            }
            How::Exit(code) => {
                let said = ran.stderr.end(5);
                StageResult::Failed(format!("exit {code}: {}", baton_core::text::shown(&said, 500)))
            }
        };
        Ok(Outcome { result: self.without_keys(result), spent })
    }
}

fn cannot_look(error: &std::io::Error) -> Unusable {
    Unusable(format!("cannot look for repositories in the project: {error}"))
}

impl Agent {
    /// The repositories of the project, where the program may write it.
    fn repositories(
        &self,
        call: &Call<'_>,
        is_project: bool,
    ) -> Result<Option<Repositories>, Unusable> {
        if !is_project || !call.confined {
            return Ok(None);
        }
        let ground = Ground::within(call.project, call.board, self.state.as_deref());
        ground.open().map(Some).map_err(|error| cannot_look(&error))
    }

    fn without_keys(&self, result: StageResult) -> StageResult {
        let clean = |text: String| {
            self.secrets.iter().fold(text, |text, key| text.replace(key.as_str(), "[key]"))
        };
        match result {
            StageResult::Answer(text) => StageResult::Answer(clean(text)),
            StageResult::Failed(text) => StageResult::Failed(clean(text)),
            other => other,
        }
    }

    fn program(
        &self,
        call: &Call<'_>,
        prompt: &str,
        prompt_file: &Path,
        answer_file: &Path,
    ) -> Program {
        let mut takes_input = true;
        let argv = self.preset.argv(call.writes).into_iter().map(|word| {
            takes_input &= !(word.contains("{prompt}") || word.contains("{prompt_file}"));
            let word = word.replace("{prompt_file}", &prompt_file.to_string_lossy());
            let word = word.replace("{answer_file}", &answer_file.to_string_lossy());
            OsString::from(word.replace("{prompt}", prompt))
        });
        let argv: Vec<OsString> = argv.collect();
        let mut environment = self.environment.clone();
        let tags = [
            ("BATON_RUN", call.run.to_owned()),
            ("BATON_STAGE", call.stage.name.to_string()),
            ("BATON_ITERATION", call.stage.iteration.to_string()),
            ("BATON_ATTEMPT", call.attempt.to_string()),
            (
                "BATON_SUBLOOP",
                call.stage.subloop.map_or(String::new(), |number| number.to_string()),
            ),
        ];
        environment.extend(tags.map(|(name, value)| (name.into(), value.into())));
        Program {
            argv,
            folder: call.project.to_owned(),
            environment,
            input: if takes_input { prompt.as_bytes().to_vec() } else { Vec::new() },
            limit: call.limit,
            mark: call.mark.to_owned(),
            most: OUTPUT,
            copy: None,
            confine: open(call.confined, call.board),
            within: None,
        }
    }
}

/// The executors of a run, one for each stage that differs.
pub struct Executors {
    default: Box<dyn Executor>,
    by_name: BTreeMap<AgentName, Box<dyn Executor>>,
}

impl std::fmt::Debug for Executors {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "Executors({}, {} others)",
            self.default.name(Language::English),
            self.by_name.len()
        )
    }
}

impl Executors {
    pub fn new(default: Box<dyn Executor>) -> Executors {
        Executors { default, by_name: BTreeMap::new() }
    }

    pub fn with(mut self, name: AgentName, executor: Box<dyn Executor>) -> Executors {
        self.by_name.insert(name, executor);
        self
    }

    /// FINISH_CHECK is MAIN.
    pub fn of(&mut self, stage: &StageId) -> &mut dyn Executor {
        let name = if stage.name == FINISH_CHECK { MAIN } else { stage.name.as_str() };
        match self.by_name.get_mut(name) {
            Some(executor) => executor.as_mut(),
            None => self.default.as_mut(),
        }
    }

    /// The first one whose cost is not known.
    pub fn unpriced(&self) -> Option<Unpriced<'_>> {
        self.default.unpriced().or_else(|| self.by_name.values().find_map(|own| own.unpriced()))
    }

    /// The output of a gate, as the run's cassette has it.
    pub fn gate_output(
        &self,
        command: &str,
        passed: bool,
        output: String,
    ) -> Result<String, String> {
        let all = std::iter::once(&self.default).chain(self.by_name.values());
        let mut clients = all.filter_map(|own| own.client());
        let Some(client) = clients.find(|client| client.is_taped()) else { return Ok(output) };
        let how = if passed { "passed" } else { "failed" };
        let settled = client.settled(&format!("gate {command}"), how, output.clone().into())?;
        Ok(settled.as_str().map_or(output, str::to_owned))
    }

    /// For the journal: what runs the stages.
    pub fn setup(&self) -> Option<RunSetup> {
        let default = self.default.runner()?;
        let agents = self.by_name.iter().filter_map(|(name, own)| {
            let runner = own.runner().filter(|runner| *runner != default)?;
            Some((name.clone(), runner))
        });
        let agents = agents.collect();
        Some(RunSetup { default, agents, ..RunSetup::default() })
    }

    /// For people: who runs what.
    pub fn described(&self) -> String {
        let others = self
            .by_name
            .iter()
            .map(|(name, executor)| format!(", {name} by {}", executor.name(Language::English)));
        format!("{}{}", self.default.name(Language::English), others.collect::<String>())
    }
}

/// The program that a name in the configuration stands for.
pub fn program_named(name: &str, config: &Config) -> Option<Preset> {
    let own = config.executors.get(name).map(|own| Preset::own(name, own));
    own.or_else(|| Preset::built_in(name))
}

/// For programs that need the network and the home folder: all but the blackboard is theirs.
pub fn open(confined: bool, board: &Path) -> Confine {
    match confined {
        true => Confine::Open { protected: vec![board.to_owned()] },
        false => Confine::Off,
    }
}
