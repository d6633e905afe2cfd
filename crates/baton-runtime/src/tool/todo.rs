//! TodoWrite.

use baton_core::observation::shapes::{Todo, TodoWrite};
use baton_core::observation::{Envelope, Status};
use baton_core::text;
use baton_core::turn::{self, Offered};
use serde::Deserialize;
use serde_json::json;

use super::{Done, refused};

/// A longer list is no list, and a longer step no step.
const MOST: usize = 50;
const LENGTH: usize = 500;

pub(super) fn offer() -> Offered {
    let todo = json!({
        "type": "object",
        "properties": {
            "content": { "type": "string" },
            "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
        },
        "required": ["content", "status"],
        "additionalProperties": false,
    });
    let words = "Replace your list of steps. Use it for work of more than three steps and keep it up to date.";
    let properties = json!({ "todos": { "type": "array", "items": todo } });
    super::offer("TodoWrite", words, properties, &["todos"])
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    todos: Vec<Todo>,
}

pub(super) fn write(args: &Args) -> Done {
    if args.todos.len() > MOST {
        return Err(refused("TOO_MANY", format!("a list has at most {MOST} steps")));
    }
    let mut todos = args.todos.clone();
    for todo in &mut todos {
        todo.content = text::cut(&todo.content, LENGTH).into_owned();
    }
    let recap = turn::recap(&todos);
    Ok(Envelope::new(Status::Success, &TodoWrite { todos, recap }))
}
