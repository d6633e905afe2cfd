//! What a user of the command line reads about a run.

messages! {
    finished(): "finished", "已完成";
}
