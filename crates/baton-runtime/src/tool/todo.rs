//! TodoWrite.

use baton_core::messages::Language;
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

pub(super) fn offer(language: Language) -> Offered {
    let todo = json!({
        "type": "object",
        "properties": {
            "content": { "type": "string" },
            "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
        },
        "required": ["content", "status"],
        "additionalProperties": false,
    });
    let properties = json!({ "todos": { "type": "array", "items": todo } });
    super::offer("TodoWrite", language.todo_tool(), properties, &["todos"])
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    todos: Vec<Todo>,
}

pub(super) fn write(args: &Args, language: Language) -> Done {
    if args.todos.len() > MOST {
        return Err(refused("TOO_MANY", language.list_too_long(MOST)));
    }
    let mut todos = args.todos.clone();
    for todo in &mut todos {
        todo.content = text::cut(&todo.content, LENGTH).into_owned();
    }
    let recap = turn::recap(&todos, language);
    Ok(Envelope::new(Status::Success, &TodoWrite { todos, recap }))
}
