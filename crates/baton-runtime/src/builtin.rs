//! The packs that the binary carries.

use baton_core::pack::{Files, Manifest};
use include_dir::{Dir, include_dir};

/// A small pack to begin with, in each language.
static TEMPLATES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/templates");
static PACKS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../packs");

/// What `init` takes when nobody says otherwise.
pub const DEFAULT_PACK: &str = "tdd";
pub const DEFAULT_LANGUAGE: &str = "en";

/// The names of the built-in packs, the default one first.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = PACKS.dirs().filter_map(|dir| dir.path().to_str()).collect();
    names.sort_by_key(|name| (*name != DEFAULT_PACK, *name));
    names
}

/// The files of a built-in pack.
pub fn files(name: &str) -> Option<Files> {
    let dir = PACKS.get_dir(name)?;
    let mut files = Files::new();
    collect(dir, name, &mut files);
    Some(files)
}

/// The files of the pack that a new one begins with.
pub fn template(language: &str) -> Option<Files> {
    let dir = TEMPLATES.get_dir(language)?;
    let mut files = Files::new();
    collect(dir, language, &mut files);
    Some(files)
}

pub fn template_languages() -> Vec<&'static str> {
    TEMPLATES.dirs().filter_map(|dir| dir.path().to_str()).collect()
}

/// All built-in packs with their manifests.
pub fn packs() -> Vec<(Manifest, Files)> {
    let read = |name| {
        let files = files(name)?;
        Some((Manifest::read(&files).ok()?, files))
    };
    names().into_iter().filter_map(read).collect()
}

fn collect(dir: &Dir<'static>, name: &str, files: &mut Files) {
    for file in dir.files() {
        let path = file.path().strip_prefix(name).ok().and_then(|path| path.to_str());
        if let (Some(path), Some(text)) = (path, file.contents_utf8()) {
            files.insert(path.to_owned(), text.to_owned());
        }
    }
    for inner in dir.dirs() {
        collect(inner, name, files);
    }
}
