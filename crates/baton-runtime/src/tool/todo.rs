//! TodoWrite.

use baton_core::observation::shapes::{Todo, TodoWrite};
use baton_core::observation::{Envelope, Status};
use baton_core::turn;
use serde::Deserialize;

use super::{Result, failed};

/// A longer list is no list.
const MOST: usize = 50;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    todos: Vec<Todo>,
}

pub(super) fn write(args: &Args) -> Result {
    if args.todos.len() > MOST {
        return failed("TOO_MANY", format!("a list has at most {MOST} steps"));
    }
    let recap = turn::recap(&args.todos);
    Envelope::new(Status::Success, &TodoWrite { todos: args.todos.clone(), recap }).into()
}
