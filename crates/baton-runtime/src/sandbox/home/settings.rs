//! Settings of tools, shown without what is secret in them, and the folders that they name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::clean::{self, Cleaned};
use super::{MOST_BYTES, Maker, Put, known, traced};
use crate::load;

/// Settings of git that include each other.
const MOST_INCLUDES: usize = 30;

type Clean = fn(&str) -> Option<Cleaned>;

/// Files of a folder with settings, variables that move the folder, and what is shown of the files.
struct Settings {
    variables: &'static [&'static str],
    folder: &'static str,
    files: &'static [&'static str],
    clean: Clean,
}

const CLEANED: &[Settings] = &[
    of(&["CARGO_HOME"], ".cargo", &["config.toml", "config"], clean::cargo),
    of(&[], ".config/mise", &["config.toml"], clean::mise),
    of(&[], ".config/go", &["env"], clean::go),
    of(&["MAVEN_USER_HOME"], ".m2", &["settings.xml"], clean::maven),
    of(&["BUNDLE_USER_HOME"], ".bundle", &["config"], clean::bundle),
    of(&[], ".config/hatch", &["config.toml"], clean::hatch),
    of(&[], ".config/pypoetry", &["config.toml"], clean::poetry),
    of(&["CABAL_DIR"], ".cabal", &["config"], clean::cabal),
    of(&[], ".config/cabal", &["config"], clean::cabal),
    of(&["CONAN_HOME"], ".conan2", &["global.conf"], clean::conan),
    of(&["CONAN_HOME"], ".conan2", &["remotes.json"], clean::conan_remotes),
];

const fn of(
    variables: &'static [&'static str],
    folder: &'static str,
    files: &'static [&'static str],
    clean: Clean,
) -> Settings {
    Settings { variables, folder, files, clean }
}

impl Maker<'_> {
    /// Settings without what is secret in them.
    pub(super) fn show_settings(&mut self) {
        for home in self.homes.clone() {
            let mut left = vec![home.join(".gitconfig")];
            left.extend(self.places(&[], ".config/git/config"));
            let mut seen = BTreeSet::new();
            while let Some(file) = left.pop().filter(|_| seen.len() < MOST_INCLUDES) {
                if !seen.insert(file.clone()) {
                    continue;
                }
                if let Some(text) = self.settings(&file) {
                    let own = clean::git(&text, &file, &home);
                    left.extend(own.includes);
                    self.put_text(&file, own.text);
                    own.lists.iter().for_each(|list| self.show_list(list));
                }
            }
        }
        for Settings { variables, folder, files, clean } in CLEANED {
            for folder in self.places(variables, folder) {
                files.iter().for_each(|file| self.show_cleaned(&folder.join(file), *clean));
            }
        }
        self.show_empty();
    }

    /// Conan makes the file with its tokens where there is none, and fails where it cannot.
    fn show_empty(&mut self) {
        for file in self.places(&["CONAN_HOME"], ".conan2").iter().map(|own| own.join(".conan.db"))
        {
            if file.is_file() && self.is_covered(&file) {
                self.put_text(&file, String::new());
            }
        }
    }

    fn show_cleaned(&mut self, file: &Path, clean: Clean) {
        let Some(own) = self.settings(file).and_then(|text| clean(&text)) else { return };
        self.put_text(file, own.text);
        for named in own.folders {
            self.show_named(&named);
        }
    }

    /// A folder in the user's home that the user's settings name, but none with settings in it, nor all
    /// of one of which parts are seen.
    fn show_named(&mut self, named: &clean::Named) {
        let parts = known::TOOLS.iter().find(|tool| tool.folder == named.instead_of);
        let parts = parts.map_or(&[][..], |tool| tool.parts);
        for home in self.homes.clone() {
            let starts = ["~/", "$HOME/", "${HOME}/", "${user.home}/", "${env.HOME}/"];
            let rest = starts.iter().find_map(|start| named.path.strip_prefix(start));
            let path = rest.map_or_else(|| PathBuf::from(&named.path), |rest| home.join(rest));
            let Ok(real) = fs::canonicalize(&path) else { continue };
            let is_in_home = path.is_absolute() && real.starts_with(&home) && real != home;
            let is_mixed = real.starts_with(home.join(".config"))
                || parts.is_empty()
                    && known::TOOLS.iter().any(|tool| {
                        !tool.parts.is_empty() && home.join(tool.folder).starts_with(&real)
                    });
            if is_in_home && !is_mixed && self.may_show(&real) {
                self.show_tool(named.instead_of, parts, &path);
            }
        }
    }

    /// The text of a file that is covered, and is the user's own.
    fn settings(&self, file: &Path) -> Option<String> {
        let real = fs::canonicalize(file).ok()?;
        let is_seen =
            self.is_needed(&real) || !self.is_covered(&fs::canonicalize(file.parent()?).ok()?);
        (!is_seen).then(|| load::text(&real, MOST_BYTES).ok()).flatten()
    }

    /// Where the file itself is, or the link to it.
    fn put_text(&mut self, file: &Path, text: String) {
        let (Some(parent), Some(name)) = (file.parent(), file.file_name()) else { return };
        if let Some((links, real)) = traced(parent) {
            self.sight.put.extend(links.into_iter().map(|(at, to)| (at, Put::Link(to))));
            self.sight.put.push((real.join(name), Put::Text(text)));
        }
    }

    /// A list of files that git ignores; its name says that it is git's.
    fn show_list(&mut self, list: &Path) {
        let name = list.file_name().unwrap_or_default().to_string_lossy();
        if name.contains("ignore") || name.contains("attributes") {
            self.show(list);
        }
    }
}
