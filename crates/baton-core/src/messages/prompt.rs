//! What the sections of a stage's prompt are called, and what code writes into them.

messages! {
    the_plan(): "Plan", "计划";
}
