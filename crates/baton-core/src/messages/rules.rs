//! Why a decision, a report or a finish is refused, and what the history says about an iteration.

messages! {
    changed_after(files): "files changed after it: {files}", "其后有文件变动：{files}";
}
