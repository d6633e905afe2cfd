//! The built-in scenario: leave applications, in two languages and two versions of its design; and a
//! model for it that is played by code, target and judge.

mod judge;
mod target;
mod team;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};

use super::scripted;

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../demo/scenario");

/// What the scenario's folder is called.
pub(super) const NAME: &str = "leave_application";

/// Which of its designs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    First,
    Repaired,
}

/// The files of the scenario in a language, by their paths within its folder.
pub(super) fn files(language: &str, version: Version) -> Vec<(PathBuf, &'static [u8])> {
    let number = match version {
        Version::First => "1",
        Version::Repaired => "2",
    };
    let mut files = under(&FILES, Path::new("tools"), Path::new("tools"));
    let own = Path::new(language);
    files.extend(under(&FILES, &own.join(format!("design-{number}")), Path::new("")));
    files.extend(under(&FILES, &own.join("samples"), Path::new("samples")));
    for (from, to) in [
        ("tools.json".to_owned(), "tools.json"),
        (format!("checkers-{number}.json"), "checkers.json"),
    ] {
        let file = FILES.get_file(own.join(from));
        files.extend(file.map(|file| (PathBuf::from(to), file.contents())));
    }
    files
}

fn under(all: &'static Dir<'_>, from: &Path, to: &Path) -> Vec<(PathBuf, &'static [u8])> {
    let files = all.get_dir(from).into_iter().flat_map(Dir::files);
    let named = files.filter_map(|file| Some((to.join(file.path().file_name()?), file.contents())));
    named.collect()
}

/// What is asked for.
pub(super) fn requirement(language: &str) -> &'static str {
    match language {
        "zh" => "生成请假申请场景的评测样本",
        _ => "Make evaluation samples for leave applications",
    }
}

/// Serves team, target and judge; the address to call. A stage of the team says its name, a judge is
/// asked under one, the target under none.
pub(super) fn serve(language: &str) -> Result<String, String> {
    let team = team::Team::of(language)?;
    scripted::serve(move |asked| {
        let judged = asked.body["response_format"]["json_schema"]["name"].as_str();
        match (team.says(asked), judged) {
            (Some(said), _) => said,
            (None, Some(name)) => judge::said(name, asked.last_words()),
            (None, None) => Ok(target::said(asked.messages())),
        }
    })
}
