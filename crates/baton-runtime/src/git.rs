//! Keeps a blackboard out of git without touching the project's own files, and without running
//! git: one line in `info/exclude`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::board::Error;
use crate::{load, store};

/// Adds the line. `None`: the blackboard lies in no git repository.
pub fn exclude(board: &Path) -> Result<Option<PathBuf>, Error> {
    let Ok(board) = fs::canonicalize(board) else { return Ok(None) };
    let Some((top, git)) =
        board.ancestors().skip(1).find_map(|folder| Some((folder, git_folder(folder)?)))
    else {
        return Ok(None);
    };
    let Some(inside) = board.strip_prefix(top).ok().and_then(Path::to_str) else { return Ok(None) };
    let file = git.join("info/exclude");
    let line = format!("/{}/", escaped(inside));
    let old = match load::text(&file, load::SMALL) {
        Ok(text) => text,
        Err(load::Error::Missing(_)) => String::new(),
        Err(error) => return Err(error.into()),
    };
    if !old.lines().any(|own| own.trim_end() == line) {
        let newline = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
        store::write_new(&file, format!("{old}{newline}{line}\n").as_bytes())?;
    }
    Ok(Some(file))
}

/// The pattern that means exactly this path.
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '\\' | '*' | '?' | '[' | ']' | ' ' | '!' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The folder that holds `info/exclude`: of the main work tree, also for a linked one.
fn git_folder(top: &Path) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    let folder = match dot_git.is_dir() {
        true => dot_git,
        false => {
            let text = load::text(&dot_git, 4096).ok()?;
            top.join(text.strip_prefix("gitdir:")?.trim())
        }
    };
    let common = match load::text(&folder.join("commondir"), 4096) {
        Ok(text) => folder.join(text.trim()),
        _ => folder,
    };
    // A file that calls itself `.git` may point anywhere; only what git made has these.
    (common.join("HEAD").is_file() && common.join("objects").is_dir()).then_some(common)
}
