//! Variables by which tools find what is shown of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::{Sight, known, traced};
use crate::load::Environment;

impl Sight {
    /// Adds the variables of tools and libraries, but none that is there in any spelling.
    pub(crate) fn add_variables(
        &self,
        environment: &Environment,
        project: &Path,
        all: &mut BTreeMap<OsString, OsString>,
    ) {
        for (name, value) in self.variables(environment, project) {
            if !all.keys().any(|own| own.eq_ignore_ascii_case(&name)) {
                all.insert(name, value);
            }
        }
    }

    /// The variables of tools and libraries with the paths that a program with this sight can read:
    /// other paths, and values that are not paths, are left out. Relative paths are meant from the
    /// project.
    fn variables(&self, environment: &Environment, project: &Path) -> BTreeMap<OsString, OsString> {
        let tools = known::TOOLS.iter().flat_map(|tool| tool.variables);
        let mut found = BTreeMap::new();
        for name in tools.chain(known::PATHS) {
            let Some(value) = environment.raw(name) else { continue };
            let all: Vec<PathBuf> = std::env::split_paths(value).collect();
            let is_open = |path: &PathBuf| {
                let is_below = path.components().all(|own| matches!(own, Component::Normal(_)));
                match path.is_absolute() {
                    true => self.is_readable(path),
                    false => is_below && self.is_readable(&project.join(path)),
                }
            };
            let open: Vec<&PathBuf> = all.iter().filter(|path| is_open(path)).collect();
            if !open.is_empty()
                && let Ok(value) = std::env::join_paths(open)
            {
                found.insert((*name).into(), value);
            }
        }
        found
    }

    fn is_readable(&self, path: &Path) -> bool {
        let Some((links, real)) = traced(path) else { return false };
        let is_put = |at: &Path| self.put.iter().any(|(own, _)| own == at);
        links.iter().all(|(at, _)| self.is_seen(at) || is_put(at))
            && (self.is_seen(&real)
                || is_put(&real)
                || self.shown.iter().any(|own| own.starts_with(&real)))
    }

    /// True if such a program finds at this path what is on disk: of the covered and the shown folders
    /// around it, the innermost counts.
    fn is_seen(&self, real: &Path) -> bool {
        let longest = |all: &[PathBuf]| {
            let around = all.iter().filter(|own| real.starts_with(own));
            around.map(|own| own.components().count()).max()
        };
        let covered = longest(&self.covered);
        covered.is_none() || longest(&self.shown) >= covered
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn variables_name_what_is_shown_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        for name in
            ["home/go/pkg", "home/jdk/lib", "home/perl/lib", "home/.ssh", "project/src", "opt/lib"]
        {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        symlink(at("opt/lib"), at("home/link")).unwrap();
        let python = format!("src:../opt/lib:{}:{}:missing:", at("opt/lib"), at("home/perl/lib"));
        let all = [
            ("HOME", at("home")),
            ("JAVA_HOME", at("home/jdk")),
            ("GOPATH", at("home/go")),
            ("GOMODCACHE", at("home/missing")),
            ("PERL5LIB", at("home/perl/lib")),
            ("RUBYLIB", at("home/.ssh")),
            ("NODE_PATH", at("home/link")),
            ("CLASSPATH", "CANARY".to_owned()),
            ("GEM_HOME", "https://u:CANARY@h/".to_owned()),
            ("PYTHONPATH", python.clone()),
            ("MY_TOKEN", at("opt/lib")),
            ("LD_LIBRARY_PATH", at("opt/lib")),
        ];
        let all: Vec<(&str, &str)> =
            all.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let environment = Environment::of(&all);
        let project = root.join("project");
        let found = Sight::of(&environment, std::slice::from_ref(&project))
            .variables(&environment, &project);
        let found: Vec<(String, String)> = found
            .into_iter()
            .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
            .collect();
        let expected = [
            ("GOPATH", at("home/go")),
            ("JAVA_HOME", at("home/jdk")),
            ("PYTHONPATH", format!("src:{}:", at("opt/lib"))),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
        let name = |text: &str| OsString::from(text);
        let mut all = BTreeMap::from([(name("gopath"), name("own"))]);
        Sight::default().add_variables(&environment, &project, &mut all);
        assert!(all[&name("gopath")] == "own" && !all.contains_key(&name("GOPATH")), "{all:?}");
        // Without a sandbox all of them are read.
        let open = Sight::default().variables(&environment, &project);
        assert!(open.contains_key(std::ffi::OsStr::new("PERL5LIB")) && open.len() == 6, "{open:?}");
    }
}
