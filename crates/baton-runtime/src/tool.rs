//! The agent's tools, one file each. Goes in: a call as the model wrote it. Comes out: an envelope,
//! whatever happened: a tool that fails is data for the model. Nothing here asks the model what it
//! may do: that is set by the person who started it.

mod bash;
mod changes;
mod edit;
mod find;
mod look;
mod recall;
mod todo;

use std::path::PathBuf;
use std::sync::Mutex;

use baton_core::freshness::Freshness;
use baton_core::id::ObservationId;
use baton_core::message::{Tool, ToolCall};
use baton_core::messages::Language;
use baton_core::observation::Envelope;
use baton_core::turn::Offered;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::approve::Approvals;
use crate::beneath::{self, Root};
use crate::model::schema;
use crate::sandbox::Interrupt;

pub use bash::{COMMAND_SECONDS, Shell};
pub use changes::Digests;
pub use recall::Archive;

/// What the tools work on.
#[derive(Debug)]
pub struct Workshop {
    pub root: Root,
    /// The blackboard: searches pass it over.
    pub board: Option<PathBuf>,
    pub shell: Shell,
    pub approvals: Approvals,
    pub freshness: Mutex<Freshness>,
    /// The contents of the files when a command ran last.
    pub digests: Mutex<Digests>,
    /// Whether files may be changed by Edit, MultiEdit and Write.
    pub writes: bool,
    /// The language of what the tools say.
    pub language: Language,
}

/// What came of a call.
#[derive(Debug)]
pub struct Ran {
    pub envelope: Envelope,
    /// The call could not be understood.
    pub is_malformed: bool,
}

/// Why a tool did not do what it was asked.
#[derive(Debug)]
struct Refusal {
    code: &'static str,
    message: Why,
    is_malformed: bool,
}

/// Why, as text, or as what is still to be said in the agent's language.
#[derive(Debug)]
enum Why {
    Text(String),
    Path(beneath::Error),
}

impl Why {
    fn text(self, language: Language) -> String {
        match self {
            Why::Text(text) => text,
            Why::Path(error) => error.message(language),
        }
    }
}

type Done = Result<Envelope, Refusal>;

impl From<beneath::Error> for Refusal {
    fn from(error: beneath::Error) -> Refusal {
        Refusal { code: error.code(), message: Why::Path(error), is_malformed: false }
    }
}

fn refused(code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal { code, message: Why::Text(message.into()), is_malformed: false }
}

fn malformed(code: &'static str, message: &str) -> Refusal {
    let message = Why::Text(baton_core::text::shown(message, 600));
    Refusal { code, message, is_malformed: true }
}

/// The arguments, or what is wrong with them.
fn arguments<T: DeserializeOwned>(call: &ToolCall) -> Result<T, Refusal> {
    let mut given = Value::Object(call.arguments.clone());
    drop_nulls(&call.name, &mut given);
    serde_json::from_value(given)
        .map_err(|error| malformed("INVALID_ARGUMENTS", &error.to_string()))
}

/// Strict schemas know no optional arguments: a model writes null for what it leaves out. An argument
/// that the tool does not have stays, and is refused.
fn drop_nulls(name: &str, arguments: &mut Value) {
    if let Some(own) =
        offered(true, true, None, Language::English).into_iter().find(|own| own.tool.name == name)
    {
        schema::restore(arguments, &own.tool.schema);
    }
}

/// The tools that an agent is offered. Their words are part of every request: short, and the same
/// from the first to the last. `writes`: by its file tools; `commands_write`: by commands.
/// `commits`: whether the user allows commits, and why they do not work all the same.
pub fn offered(
    writes: bool,
    commands_write: bool,
    commits: Option<Option<&str>>,
    language: Language,
) -> Vec<Offered> {
    let finding = [look::offers(language), find::offers(language)].concat();
    let keeping = vec![recall::offer(language), todo::offer(language)];
    let editing = if writes { edit::offers(language) } else { Vec::new() };
    let running = vec![bash::offer(writes, commands_write, commits, language)];
    [finding, keeping, editing, running].concat()
}

/// A tool as the model sees it.
fn offer(name: &str, description: String, properties: Value, required: &[&str]) -> Offered {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["additionalProperties"] = json!(false);
    let tool = Tool { name: name.to_owned(), description, schema };
    Offered { tool, only_reads: !ACTING.contains(&name) }
}

/// Tools that change something.
const ACTING: [&str; 4] = ["Edit", "MultiEdit", "Write", "Bash"];

impl Workshop {
    /// The tools of an agent that works here.
    pub fn offered(&self) -> Vec<Offered> {
        let root = self.root.path();
        let commands_write = !self.shell.protected.iter().any(|own| root.starts_with(own));
        let commits = self.shell.commits.as_ref().map(|own| own.as_ref().err().map(String::as_str));
        offered(self.writes, commands_write, commits, self.language)
    }

    /// Runs one call to its end. `id` is of the observation that it becomes.
    pub fn run(
        &self,
        call: &ToolCall,
        id: ObservationId,
        archive: &dyn Archive,
        interrupt: &Interrupt,
    ) -> Ran {
        match self.done(call, id, archive, interrupt) {
            Ok(envelope) => Ran { envelope, is_malformed: false },
            Err(Refusal { code, message, is_malformed }) => {
                let message = message.text(self.language);
                Ran { envelope: Envelope::failed(code, message), is_malformed }
            }
        }
    }

    fn done(
        &self,
        call: &ToolCall,
        id: ObservationId,
        archive: &dyn Archive,
        interrupt: &Interrupt,
    ) -> Done {
        match call.name.as_str() {
            "LS" => look::ls(self, &arguments(call)?),
            "Read" => look::read(self, &arguments(call)?),
            "Glob" => find::glob(self, &arguments(call)?, interrupt),
            "Grep" => find::grep(self, &arguments(call)?, interrupt),
            "Recall" => recall::recall(self, archive, &arguments(call)?),
            "TodoWrite" => todo::write(&arguments(call)?, self.language),
            "Edit" if self.writes => edit::edit(self, self.agreed(call)?),
            "MultiEdit" if self.writes => edit::multi_edit(self, &self.agreed(call)?),
            "Write" if self.writes => edit::write(self, &self.agreed(call)?),
            "Bash" => bash::run(self, &self.agreed(call)?, id, archive, interrupt),
            other => Err(self.unknown(other)),
        }
    }

    fn unknown(&self, name: &str) -> Refusal {
        let names: Vec<String> = self.offered().into_iter().map(|own| own.tool.name).collect();
        let near = baton_core::problem::nearest(name, &names)
            .map_or(String::new(), |near| self.language.did_you_mean(near));
        let name = baton_core::text::shown(name, 40);
        let message = self.language.no_such_tool(name, near, self.language.list(&names));
        malformed("NO_SUCH_TOOL", &message)
    }

    /// The arguments of an act, once it may be done. Nobody is asked about what is not understood:
    /// so a question has only arguments that are known.
    fn agreed<T: DeserializeOwned>(&self, call: &ToolCall) -> Result<T, Refusal> {
        let args = arguments(call)?;
        let leaves =
            call.name == "Bash" && self.shell.closed.is_some() && bash::leaves(&call.arguments);
        self.approvals.check(call, leaves, self.language).map_err(|why| refused("DENIED", why))?;
        Ok(args)
    }

    /// Refuses a path that file tools may not write.
    fn check_writable(&self, inside: &str) -> Result<(), Refusal> {
        self.root.check_writable(inside)?;
        self.shell.check_repository(&self.root.path().join(inside))
    }

    fn freshness(&self) -> std::sync::MutexGuard<'_, Freshness> {
        // A thread that panicked left at worst a file's older time.
        self.freshness.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A text cut at a line's end near this many bytes; whether it was cut.
fn head(text: &str, most: usize) -> (&str, bool) {
    if text.len() <= most {
        return (text, false);
    }
    let end = text.floor_char_boundary(most);
    let end = text[..end].rfind('\n').map_or(end, |at| at + 1);
    (&text[..end], true)
}
