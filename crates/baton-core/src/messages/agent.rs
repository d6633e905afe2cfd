//! What the built-in agent is told: its system prompt, its tools, and its compactions.

messages! {
    not_shown(): "not shown here", "此处未列出";
}
