//! Exchanging the pack of a blackboard. What a person changed is copied aside before anything else
//! happens; an unmodified copy from an earlier version is replaced. The exchange can be run again
//! after an interruption: it does not need a blackboard that opens.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_core::document::Document;
use baton_core::pack::Pack;

use crate::board::{self, CONFIG_FILE, Error, PACK_FOLDER};
use crate::earlier::{self, OldCopy};
use crate::load::{self, Environment};
use crate::{builtin, packs, store};

/// What `pack use` did.
#[derive(Debug)]
pub struct Switched {
    pub pack: Pack,
    /// Files that a person had changed, and where they are kept.
    pub aside: Vec<(PathBuf, PathBuf)>,
    /// Unmodified copies from earlier versions that were replaced or removed.
    pub replaced: Vec<OldCopy>,
}

/// Exchanges policy and prompts; the plan, the history and the reports stay as they are. Without a
/// language the blackboard's own is kept, if the pack has it.
pub fn use_pack(
    root: &Path,
    name: &str,
    language: Option<&str>,
    environment: &Environment,
) -> Result<Switched, Error> {
    let config_file = root.join(CONFIG_FILE);
    let (config, _) = load::config(environment, Some(&config_file))?;
    let old_language = config.lang.unwrap_or_else(|| builtin::DEFAULT_LANGUAGE.to_owned());
    let files = board::pack_files(name)?;
    let language = packs::language(&files, language, Some(&old_language), environment);
    let pack = Pack::read(&files, &language)
        .map_err(|problems| Error::Invalid(packs::located(name, problems)))?;
    let old = config.pack.as_deref().and_then(|old| board::board_pack_files(old, root).ok());
    let old = old.and_then(|files| Pack::read(&files, &old_language).ok());
    let unchanged: BTreeMap<PathBuf, Vec<u8>> = old.iter().flat_map(board::pack_owned).collect();

    let label = format!("{}-{old_language}", config.pack.as_deref().unwrap_or("before"));
    let folder = free_folder(root, &label);
    let on_disk = board::pack_files_on_disk(root)?;
    let new = board::pack_owned(&pack);
    let (mut aside, mut replaced) = (Vec::new(), Vec::new());
    for path in &on_disk {
        let content = load::bytes(&root.join(path), load::SMALL)?;
        let is_kept = new.iter().any(|(own, text)| own == path && *text == content);
        if is_kept || unchanged.get(path) == Some(&content) {
            continue;
        }
        if let Some(version) = earlier::version_of(path, &content) {
            replaced.push(OldCopy { path: path.clone(), version });
        } else {
            let kept = folder.join(path.strip_prefix("memory").unwrap_or(path));
            store::write_new(&root.join(&kept), &content)?;
            aside.push((path.clone(), kept));
        }
    }
    let kept_pack = root.join(PACK_FOLDER);
    if kept_pack.is_dir() {
        let kept = folder.join(PACK_FOLDER);
        store::move_folder(&kept_pack, &root.join(&kept))?;
        aside.push((PathBuf::from(PACK_FOLDER), kept));
    }
    record(root, &pack)?;
    for (path, content) in &new {
        store::write_new(&root.join(path), content)?;
    }
    for path in on_disk.iter().filter(|path| !new.iter().any(|(own, _)| own == *path)) {
        store::remove(&root.join(path))?;
    }
    let kept: Vec<(PathBuf, Vec<u8>)> = board::kept_files(name, &files)
        .map(|(name, text)| (name.into(), text.clone().into_bytes()))
        .collect();
    if !kept.is_empty() {
        store::create_folder(&kept_pack, &kept, &[], |_| (), |_| false)?;
    }
    Ok(Switched { pack, aside, replaced })
}

/// A folder under `memory/aside` that is not there yet: an earlier switch is never written over.
fn free_folder(root: &Path, label: &str) -> PathBuf {
    let aside = Path::new("memory/aside");
    let numbered = (2..).map(|number| aside.join(format!("{label}-{number}")));
    let mut names = std::iter::once(aside.join(label)).chain(numbered);
    names
        .find(|name| root.join(name).symlink_metadata().is_err())
        .unwrap_or_else(|| aside.join(label))
}

/// Sets `pack` and `lang` in `baton.toml`: their values where they stand, everything else as it is.
fn record(root: &Path, pack: &Pack) -> Result<(), Error> {
    let path = root.join(CONFIG_FILE);
    let mut text = match load::text(&path, load::SMALL) {
        Ok(text) => text,
        Err(load::Error::Missing(_)) => {
            return Ok(store::write(&path, board::config_text(pack).as_bytes())?);
        }
        Err(error) => return Err(error.into()),
    };
    for (key, value) in [("pack", &pack.manifest.name), ("lang", &pack.language)] {
        let document =
            Document::toml(&text).map_err(|problem| invalid(problem.in_file(CONFIG_FILE)))?;
        match document.root.get(key).map(|node| node.span) {
            Some(span) => text.replace_range(span.start..span.end, &format!("\"{value}\"")),
            None => {
                // Before the first table, or it would belong to that.
                let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
                let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
                text.insert_str(start, &format!("{key} = \"{value}\"{newline}"));
            }
        }
    }
    Document::toml(&text).map_err(|problem| invalid(problem.in_file(CONFIG_FILE)))?;
    Ok(store::write(&path, text.as_bytes())?)
}

fn invalid(problem: baton_core::problem::Problem) -> Error {
    Error::Invalid(vec![problem])
}
