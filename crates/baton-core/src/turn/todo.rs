//! The list that an agent works off. Goes in: what it wrote down. Comes out: a few lines that stand at
//! the end of every request, so that a long turn does not lose its thread.

use crate::messages::Language;
use crate::observation::Envelope;
use crate::observation::shapes::{Todo, TodoStatus};
use crate::text;

/// The list in a few lines; empty when all is done.
pub fn recap(todos: &[Todo], language: Language) -> String {
    let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    if done == todos.len() {
        return String::new();
    }
    let mut out = language.todo_list(done, todos.len());
    for todo in todos.iter().filter(|todo| todo.status != TodoStatus::Completed) {
        let mark = if todo.status == TodoStatus::InProgress { ">" } else { "-" };
        out.push_str(&format!("\n{mark} {}", text::shown(&todo.content, 160)));
    }
    out
}

/// What a result says of the list, where it is one of that tool.
pub(super) fn recap_of(tool: &str, envelope: &Envelope) -> Option<String> {
    (tool == "TodoWrite").then(|| envelope.data.get("recap")?.as_str().map(str::to_owned)).flatten()
}
