//! Packs as folders of files: which language of a pack a user gets, a pack to begin with, and packs
//! written into a folder. Nothing that is there is ever overwritten.

use std::path::Path;

use baton_core::pack::{self, Files, Manifest};
use baton_core::problem::Problem;

use crate::board::Error;
use crate::load::Environment;
use crate::{builtin, store};

/// The language of a pack for this user: the one that was asked for, else the only one, else the first
/// of these that the pack has: the configured one, that of the user's locale, English, the pack's first.
pub fn language(
    files: &Files,
    asked: Option<&str>,
    configured: Option<&str>,
    environment: &Environment,
) -> String {
    if let Some(asked) = asked {
        return asked.to_owned();
    }
    let locale = environment.language();
    let wanted: Vec<&str> = configured.into_iter().chain(locale.as_deref()).collect();
    let manifest = Manifest::read(files).ok();
    let found = manifest.as_ref().and_then(|manifest| manifest.language_for(&wanted));
    found.unwrap_or(builtin::DEFAULT_LANGUAGE).to_owned()
}

/// The problems of a pack, its files named so that the user can open them.
pub fn located(pack: &str, problems: Vec<Problem>) -> Vec<Problem> {
    if builtin::files(pack).is_some() {
        return problems;
    }
    let locate = |mut problem: Problem| {
        let file = problem.file.take();
        problem.in_file(match file {
            Some(file) => Path::new(pack).join(file).display().to_string(),
            None => pack.to_owned(),
        })
    };
    problems.into_iter().map(locate).collect()
}

/// The files of a new pack of this name: a small one, or a copy of another one, in its language or in all
/// of them.
pub fn new_pack(
    name: &str,
    copied: Option<(&str, &Files)>,
    language: Option<&str>,
) -> Result<Files, Error> {
    let Some((source, files)) = copied else {
        let language = language.unwrap_or(builtin::DEFAULT_LANGUAGE);
        let files = builtin::template(language).ok_or_else(|| {
            let message = "there is no example in this language; write one from the English one";
            let problem = Problem::new("pack-no-language", message);
            Error::Invalid(vec![problem.one_of(language, &builtin::template_languages())])
        })?;
        return renamed(files, name, None);
    };
    let manifest =
        Manifest::read(files).map_err(|problems| Error::Invalid(located(source, problems)))?;
    if let Some(language) = language.filter(|own| !manifest.languages.iter().any(|is| is == own)) {
        let message = format!("the pack `{}` has no language `{language}`", manifest.name);
        let problem = Problem::new("pack-no-language", message);
        return Err(Error::Invalid(vec![problem.one_of(language, &manifest.languages)]));
    }
    renamed(files.clone(), name, language)
}

/// A pack under another name, with one of its languages or all.
fn renamed(mut files: Files, name: &str, language: Option<&str>) -> Result<Files, Error> {
    let others: Vec<String> = match (language, Manifest::read(&files)) {
        (Some(language), Ok(manifest)) => {
            manifest.languages.into_iter().filter(|own| own != language).collect()
        }
        _ => Vec::new(),
    };
    files.retain(|path, _| !others.iter().any(|own| path.starts_with(&format!("{own}/"))));
    if let Some(text) = files.get_mut(pack::MANIFEST) {
        *text = pack::with_name(text, name, language)
            .map_err(|problem| Error::Invalid(vec![problem.in_file(pack::MANIFEST)]))?;
    }
    // A wrong name is refused before anything is written.
    Manifest::read(&files).map_err(Error::Invalid)?;
    Ok(files)
}

/// Writes a pack into a folder that is not there, or is empty.
pub fn write(folder: &Path, files: &Files) -> Result<(), Error> {
    let is_empty = || std::fs::read_dir(folder).is_ok_and(|mut all| all.next().is_none());
    if folder.symlink_metadata().is_ok() && !is_empty() {
        return Err(Error::NotEmpty(folder.to_owned()));
    }
    for (path, text) in files {
        store::write_new(&folder.join(path), text.as_bytes())?;
    }
    Ok(())
}
