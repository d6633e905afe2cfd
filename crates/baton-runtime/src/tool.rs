//! The agent's tools, one file each. Goes in: a call as the model wrote it. Comes out: an envelope,
//! whatever happened: a tool that fails is data for the model. Nothing here asks the model what it
//! may do: that is set by the person who started it.

mod bash;
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
use baton_core::observation::Envelope;
use baton_core::turn::Offered;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::approve::Approvals;
use crate::beneath::{self, Root};
use crate::sandbox::Interrupt;

pub use bash::Shell;
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
    /// Whether files may be changed by Edit, MultiEdit and Write.
    pub writes: bool,
}

/// What came of a call.
#[derive(Debug)]
pub struct Result {
    pub envelope: Envelope,
    /// The call could not be understood.
    pub is_malformed: bool,
}

impl From<Envelope> for Result {
    fn from(envelope: Envelope) -> Result {
        Result { envelope, is_malformed: false }
    }
}

impl From<beneath::Error> for Result {
    fn from(error: beneath::Error) -> Result {
        Envelope::failed(error.code(), error.to_string()).into()
    }
}

/// A tool's own failure.
fn failed(code: &str, message: impl Into<String>) -> Result {
    Envelope::failed(code, message).into()
}

/// The arguments, or what is wrong with them.
fn arguments<T: DeserializeOwned>(call: &ToolCall) -> std::result::Result<T, Result> {
    serde_json::from_value(Value::Object(call.arguments.clone())).map_err(|error| {
        let message = format!("{}: {error}", call.name);
        let envelope =
            Envelope::failed("INVALID_ARGUMENTS", baton_core::text::shown(&message, 400));
        Result { envelope, is_malformed: true }
    })
}

/// The tools that an agent is offered. Their words are part of every request: short, and the same
/// from the first to the last.
pub fn offered(writes: bool) -> Vec<Offered> {
    let mut all = vec![
        reading(
            "LS",
            "List a folder.",
            json!({
                "path": { "type": "string", "description": "from the project root; default ." },
            }),
            &[],
        ),
        reading(
            "Glob",
            "Find files by a pattern such as src/**/*.rs; .gitignore is respected.",
            json!({
                "pattern": { "type": "string" },
                "path": { "type": "string", "description": "folder to look in" },
                "hidden": { "type": "boolean" },
            }),
            &["pattern"],
        ),
        reading(
            "Grep",
            "Search file contents by a regular expression; .gitignore is respected.",
            json!({
                "pattern": { "type": "string" },
                "path": { "type": "string", "description": "file or folder" },
                "glob": { "type": "string", "description": "only files like *.py" },
                "ignore_case": { "type": "boolean" },
                "hidden": { "type": "boolean" },
            }),
            &["pattern"],
        ),
        reading(
            "Read",
            "Read a text file, its lines numbered. Long files in ranges.",
            json!({
                "path": { "type": "string" },
                "from": { "type": "integer", "description": "first line, from 1" },
                "lines": { "type": "integer", "description": "how many; default 1000" },
            }),
            &["path"],
        ),
        reading(
            "Recall",
            "Bring back a shortened earlier result by its observation id, such as o17.",
            json!({
                "id": { "type": "string" },
                "from": { "type": "integer" },
                "lines": { "type": "integer" },
            }),
            &["id"],
        ),
        reading(
            "TodoWrite",
            "Replace your list of steps. Use it for work of more than three steps and keep it true.",
            json!({
                "todos": { "type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "content": { "type": "string" },
                        "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
                    },
                    "required": ["content", "status"],
                } },
            }),
            &["todos"],
        ),
    ];
    if writes {
        let edit = json!({
            "old_string": { "type": "string", "description": "exact text, without line numbers" },
            "new_string": { "type": "string" },
            "replace_all": { "type": "boolean" },
        });
        let mut with_path = json!({ "path": { "type": "string" } });
        if let (Some(all), Some(own)) = (with_path.as_object_mut(), edit.as_object()) {
            all.extend(own.clone());
        }
        let items = json!({ "type": "object", "properties": edit, "required": ["old_string", "new_string"] });
        all.extend([
            acting(
                "Edit",
                "Replace text in a file. old_string must occur exactly once, or set replace_all.",
                with_path,
                &["path", "old_string", "new_string"],
            ),
            acting(
                "MultiEdit",
                "Several replacements in one file, in order; all of them or none.",
                json!({
                    "path": { "type": "string" },
                    "edits": { "type": "array", "items": items },
                }),
                &["path", "edits"],
            ),
            acting(
                "Write",
                "Create a file or overwrite it whole. Read an existing one first.",
                json!({
                    "path": { "type": "string" },
                    "content": { "type": "string" },
                }),
                &["path", "content"],
            ),
        ]);
    }
    all.push(acting(
        "Bash",
        "Run a shell command in the project root, confined: it may write the project and $TMPDIR only, has no network, and nothing it starts outlives it. Every call is a new shell.",
        json!({
            "command": { "type": "string" },
            "timeout": { "type": "integer", "description": "seconds; default 120" },
            "outside": { "type": "boolean", "description": "ask the person to run it unconfined" },
        }),
        &["command"],
    ));
    all
}

fn offer(name: &str, description: &str, properties: Value, required: &[&str]) -> Tool {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    Tool { name: name.to_owned(), description: description.to_owned(), schema }
}

fn reading(name: &str, description: &str, properties: Value, required: &[&str]) -> Offered {
    Offered { tool: offer(name, description, properties, required), only_reads: true }
}

fn acting(name: &str, description: &str, properties: Value, required: &[&str]) -> Offered {
    Offered { tool: offer(name, description, properties, required), only_reads: false }
}

impl Workshop {
    /// Runs one call to its end. `id` is of the observation that it becomes.
    pub fn run(
        &self,
        call: &ToolCall,
        id: ObservationId,
        archive: &dyn Archive,
        interrupt: &Interrupt,
    ) -> Result {
        let is_act = matches!(call.name.as_str(), "Edit" | "MultiEdit" | "Write" | "Bash");
        let leaves =
            call.name == "Bash" && self.shell.closed.is_some() && bash::leaves(&call.arguments);
        if is_act && let Err(why) = self.approvals.check(call, leaves) {
            return failed("DENIED", why);
        }
        let ran = match call.name.as_str() {
            "LS" => arguments(call).map(|args| look::ls(self, &args)),
            "Read" => arguments(call).map(|args| look::read(self, &args)),
            "Glob" => arguments(call).map(|args| find::glob(self, &args)),
            "Grep" => arguments(call).map(|args| find::grep(self, &args)),
            "Recall" => arguments(call).map(|args| recall::recall(archive, &args)),
            "TodoWrite" => arguments(call).map(|args| todo::write(&args)),
            "Edit" if self.writes => arguments(call).map(|args| edit::edit(self, args)),
            "MultiEdit" if self.writes => arguments(call).map(|args| edit::multi_edit(self, &args)),
            "Write" if self.writes => arguments(call).map(|args| edit::write(self, &args)),
            "Bash" => arguments(call).map(|args| bash::run(self, &args, id, archive, interrupt)),
            other => {
                let names: Vec<String> =
                    offered(self.writes).into_iter().map(|own| own.tool.name).collect();
                let near = baton_core::problem::nearest(other, &names)
                    .map_or(String::new(), |near| format!("; did you mean {near}?"));
                let message = format!(
                    "there is no tool `{}`{near} There are {}",
                    baton_core::text::shown(other, 40),
                    names.join(", ")
                );
                let envelope = Envelope::failed("UNKNOWN_TOOL", message);
                return Result { envelope, is_malformed: true };
            }
        };
        ran.unwrap_or_else(|malformed| malformed)
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
