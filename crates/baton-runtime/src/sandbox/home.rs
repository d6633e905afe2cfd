//! The part of the user's files that a closed program sees. Home folders, and wherever else secrets
//! are kept, are found empty but for toolchains, caches of builds and cleaned settings. Goes in: the
//! variables of the user and what is on disk. Comes out: paths, nothing is changed.

mod clean;
mod installed;
mod known;
mod layout;
mod settings;
mod variables;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use crate::load::{self, Environment};
pub(super) use layout::{Entry, Layout, layout};

/// Files that are looked at in a folder of programs.
const MOST_PROGRAMS: usize = 2_000;
/// Links that one path leads through.
const MOST_LINKS: usize = 40;
const MOST_BYTES: u64 = 256 << 10;

/// See the module. All paths are free of links, apart from those that are covered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    /// Folders that are found empty but for what is shown in them, and files that are found empty.
    /// They need not exist.
    pub covered: Vec<PathBuf>,
    /// What is seen although it lies in a covered folder.
    pub shown: Vec<PathBuf>,
    /// Files and links that are put into covered folders, and texts in the place of files in folders that are shown.
    pub put: Vec<(PathBuf, Put)>,
}

/// See [`Sight`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// A file with this text. In a folder that is shown: if a file is there.
    Text(String),
    /// A link that is on disk, too.
    Link(PathBuf),
}

impl Sight {
    /// For the commands of agents. `needed`: the project, and whatever else is seen in any case.
    pub(super) fn of(environment: &Environment, needed: &[PathBuf]) -> Sight {
        let mut maker = Maker::new(environment, needed);
        maker.cover_system();
        maker.cover_homes();
        maker.cover_variables();
        maker.show_tools();
        maker.show_programs();
        maker.show_settings();
        for path in maker.needed.clone() {
            maker.show_repository(&path);
        }
        maker.finished()
    }

    /// The same, seeing all that is in the user's home folder.
    pub(super) fn with_home(environment: &Environment, needed: &[PathBuf]) -> Sight {
        let mut maker = Maker::new(environment, needed);
        maker.cover_system();
        let homes = maker.homes.iter().filter(|home| !is_system(home)).cloned();
        maker.sight.shown.extend(homes);
        maker.finished()
    }

    /// Shows these paths, too, as the user wrote them: whole, or below home (`~/x`).
    pub fn add(&mut self, paths: &[String], environment: &Environment) {
        let own: Vec<PathBuf> = own_folders(environment).collect();
        for path in paths {
            let path = match (path.strip_prefix('~'), environment.path("HOME")) {
                (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
                _ => PathBuf::from(path),
            };
            if let Some((links, real)) = traced(&path)
                && !own.iter().any(|own| real.starts_with(own))
            {
                self.put.extend(links.into_iter().map(|(at, to)| (at, Put::Link(to))));
                self.shown.push(real);
            }
        }
    }

    /// For the user: what is seen of the home folders, and the settings that are cleaned.
    pub fn told(&self, environment: &Environment) -> (Vec<String>, Vec<String>) {
        let homes = homes(environment);
        let short = |path: &PathBuf| {
            let below = homes.iter().find_map(|home| path.strip_prefix(home).ok());
            below.map(|rest| format!("~/{}", rest.display()))
        };
        let shown: BTreeSet<String> = self.shown.iter().filter_map(short).collect();
        let texts = self.put.iter().filter(|(_, put)| matches!(put, Put::Text(_)));
        let cleaned: BTreeSet<String> = texts
            .map(|(path, _)| short(path).unwrap_or_else(|| path.display().to_string()))
            .collect();
        (shown.into_iter().collect(), cleaned.into_iter().collect())
    }
}

/// The settings of a repository for a private copy of it. `Err`: what in them a copy cannot have.
pub fn repository_settings(text: &str, file: &Path, home: &Path) -> Result<String, String> {
    clean::repository(text, file, home)
}

/// What the user of these variables would see of the home folders, whatever the project is.
pub fn sight(environment: &Environment, read: &[String]) -> Sight {
    let mut sight = Sight::of(environment, &[]);
    sight.add(read, environment);
    sight
}

/// Baton's own configuration and state.
fn own_folders(environment: &Environment) -> impl Iterator<Item = PathBuf> {
    let config = environment.config_file().and_then(|file| Some(file.parent()?.to_owned()));
    let own = config.into_iter().chain(environment.state_folder());
    own.flat_map(|path| [fs::canonicalize(&path).ok(), Some(path)]).flatten()
}

/// The user's home folders: the variable's, and the one that the machine has for this user.
fn homes(environment: &Environment) -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let named = environment.path("HOME").filter(|home| home.is_absolute());
    let listed = accounts().into_iter().filter(|(own, _)| *own == user).map(|(_, home)| home);
    let mut found = Vec::new();
    for home in named.into_iter().chain(listed).filter_map(|home| fs::canonicalize(home).ok()) {
        if home.is_dir() && !found.contains(&home) {
            found.push(home);
        }
    }
    found
}

/// The number and the home folder of each user that the machine lists.
fn accounts() -> Vec<(u32, PathBuf)> {
    let text = load::bytes(Path::new("/etc/passwd"), load::SMALL).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    fields.filter_map(|own| Some((own.get(2)?.parse().ok()?, PathBuf::from(own.get(5)?)))).collect()
}

/// True for a folder that every program needs, and is never covered.
pub(super) fn is_system(path: &Path) -> bool {
    let is = |own: &&str| path == Path::new(own);
    known::SYSTEM_FOLDERS.iter().any(is)
        || known::SYSTEM_TREES.iter().any(|own| path.starts_with(own))
}

/// The links on the way to a path, each where it really is, and where the path leads.
fn traced(path: &Path) -> Option<(Vec<(PathBuf, PathBuf)>, PathBuf)> {
    let mut links = Vec::new();
    let mut real = PathBuf::from("/");
    let mut left: Vec<std::ffi::OsString> = parts(path);
    left.reverse();
    if !path.is_absolute() {
        return None;
    }
    while let Some(name) = left.pop() {
        if name == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        if !fs::symlink_metadata(&next).ok()?.is_symlink() {
            real = next;
            continue;
        }
        let to = fs::read_link(&next).ok()?;
        if links.len() == MOST_LINKS {
            return None;
        }
        if to.is_absolute() {
            real = PathBuf::from("/");
        }
        left.extend(parts(&to).into_iter().rev());
        links.push((next, to));
    }
    Some((links, real))
}

fn parts(path: &Path) -> Vec<std::ffi::OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    named.collect()
}

struct Maker<'a> {
    environment: &'a Environment,
    homes: Vec<PathBuf>,
    /// What is seen in any case, as it was named and as it is on disk.
    named: Vec<PathBuf>,
    needed: Vec<PathBuf>,
    sight: Sight,
    /// Folders of tools that are seen, with what is hidden in them.
    installed: Vec<(PathBuf, &'static [known::Hidden])>,
}

impl Maker<'_> {
    fn new<'a>(environment: &'a Environment, needed: &[PathBuf]) -> Maker<'a> {
        Maker {
            environment,
            homes: homes(environment),
            named: needed.to_vec(),
            needed: needed.iter().filter_map(|path| fs::canonicalize(path).ok()).collect(),
            sight: Sight::default(),
            installed: Vec::new(),
        }
    }

    fn cover_system(&mut self) {
        let can_read = |path: &&&str| {
            let access = |kind| rustix::fs::access(**path, kind).is_ok();
            access(rustix::fs::Access::READ_OK) || access(rustix::fs::Access::EXEC_OK)
        };
        let named = known::SYSTEM.iter().filter(can_read).map(PathBuf::from);
        self.sight.covered.extend(named);
        // Keys of this machine, and the memory that it wrote out.
        for name in names(Path::new("/etc/ssh")) {
            if name.to_string_lossy().ends_with("_key") {
                self.sight.covered.push(Path::new("/etc/ssh").join(name));
            }
        }
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        let files = swaps.lines().filter_map(|line| line.split_whitespace().next());
        self.sight.covered.extend(files.filter(|own| own.starts_with('/')).map(PathBuf::from));
        // What everybody writes into the same folder.
        for name in names(Path::new("/tmp")) {
            if name.to_string_lossy().starts_with("krb5cc") {
                self.sight.covered.push(Path::new("/tmp").join(name));
            }
        }
        let git = load::text(Path::new("/etc/gitconfig"), MOST_BYTES).unwrap_or_default();
        if git.contains("://") || git.contains("extraheader") || git.contains("credential") {
            self.sight.covered.push("/etc/gitconfig".into());
        }
        // People, and not services, whose folders are nobody's home.
        for (user, home) in accounts() {
            if (user == 0 || user >= 1_000) && user != 65_534 && home.exists() {
                self.cover(&home);
            }
        }
    }

    fn cover_homes(&mut self) {
        for home in self.homes.clone() {
            if !is_system(&home) {
                self.sight.covered.push(home);
                continue;
            }
            // The home of a service or in a container: what such a folder holds beside is not the user's.
            let own =
                names(&home).into_iter().filter(|name| name.as_encoded_bytes().starts_with(b"."));
            self.sight.covered.extend(own.map(|name| home.join(name)));
        }
    }

    /// Covers what the user names, unless everything else would go with it.
    fn cover(&mut self, path: &Path) {
        let Ok(real) = fs::canonicalize(path) else {
            // It may be made later.
            if path.is_absolute() && !is_system(path) {
                self.sight.covered.push(path.to_owned());
            }
            return;
        };
        if !is_system(&real) && !self.needed.contains(&real) {
            self.sight.covered.push(real);
        }
    }

    fn cover_variables(&mut self) {
        for (name, value) in self.environment.all() {
            let Some(name) = name.to_str() else { continue };
            if known::MIXED.contains(&name) {
                self.cover_mixed(Path::new(value));
            } else if name == "SSH_AUTH_SOCK" || name == "GPG_AGENT_INFO" {
                let socket = paths_in(value).next();
                if let Some(socket) = socket {
                    self.cover(socket.parent().filter(|own| !is_system(own)).unwrap_or(&socket));
                }
            } else if known::SECRET_PATHS.contains(&name) || name.starts_with("HELM_") {
                paths_in(value).for_each(|path| self.cover(&path));
            } else if known::SECRET_WORDS
                .iter()
                .any(|word| name.to_ascii_uppercase().contains(word))
            {
                // Named by nobody but the user: of folders and of the project nothing is taken away.
                for path in paths_in(value).filter(|path| path.is_file()) {
                    let Ok(real) = fs::canonicalize(&path) else { continue };
                    if !self.needed.iter().any(|own| real.starts_with(own)) {
                        self.cover(&real);
                    }
                }
            }
        }
    }

    fn cover_mixed(&mut self, path: &Path) {
        let Ok(real) = fs::canonicalize(path) else { return };
        if is_system(&real) || self.needed.iter().any(|own| real.starts_with(own)) {
            let secrets = known::MIXED_SECRETS.iter().map(|name| real.join(name));
            self.sight.covered.extend(secrets);
        } else {
            self.sight.covered.push(real);
        }
    }

    /// Where this part of a home folder is: in each home, and where variables move it.
    fn places(&self, variables: &[&str], folder: &str) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = self.homes.iter().map(|home| home.join(folder)).collect();
        for (start, variable) in known::XDG {
            let rest = folder.strip_prefix(start).and_then(|rest| rest.strip_prefix('/'));
            if let (Some(rest), Some(moved)) = (rest, self.environment.path(variable)) {
                found.push(moved.join(rest));
            }
        }
        let named = variables.iter().filter_map(|name| self.environment.raw(name));
        found.extend(named.flat_map(|value| paths_in(value).collect::<Vec<_>>()));
        found.retain(|path| path.is_absolute());
        found
    }

    fn show_tools(&mut self) {
        for tool in known::TOOLS {
            for folder in self.places(tool.variables, tool.folder) {
                self.show_tool(tool.folder, tool.parts, &folder);
            }
        }
        for home in self.homes.clone() {
            self.show(&home.join("bin"));
        }
        if let Some(wheels) = self.environment.raw("PIP_FIND_LINKS") {
            paths_in(wheels).for_each(|path| self.show(&path));
        }
    }

    fn show_tool(&mut self, name: &str, parts: &[&str], folder: &Path) {
        if !folder.exists() {
            return;
        }
        match parts {
            [] => self.show(folder),
            parts => parts.iter().for_each(|part| self.show(&folder.join(part))),
        }
        self.find_installed(name, folder);
    }

    /// Shows what is there, unless it leads to where secrets are.
    fn show(&mut self, path: &Path) {
        let Some((links, real)) = traced(path) else { return };
        let is_in_home =
            |at: &Path| self.homes.iter().any(|home| at.starts_with(home) && at != home);
        let is_foreign =
            links.iter().any(|(at, _)| is_in_home(at)) && is_foreign_target(&real, &self.homes);
        if self.may_show(&real) && !is_foreign {
            self.sight.put.extend(links.into_iter().map(|(at, to)| (at, Put::Link(to))));
            self.sight.shown.push(real);
        }
    }

    fn show_link(&mut self, path: &Path) {
        if let Some((links, _)) = traced(path) {
            self.sight.put.extend(links.into_iter().map(|(at, to)| (at, Put::Link(to))));
        }
    }

    /// A home folder is never shown, nor a folder that holds one, nor what is named as secret.
    fn may_show(&self, real: &Path) -> bool {
        let is_never = |home: &PathBuf| {
            let mut never = known::NEVER.iter().map(|name| home.join(name));
            home.starts_with(real)
                || never.any(|own| real.starts_with(&own) || own.starts_with(real))
        };
        let is_secret = |own: &PathBuf| {
            // A home folder is covered, and what is shown lies in it.
            let is_whole = self.homes.contains(own) || self.is_mixed(own) || is_of_others(own);
            !is_whole && real.starts_with(own)
        };
        let holds_homes = |own: &PathBuf| is_of_others(own) && own.starts_with(real);
        !self.homes.iter().any(is_never)
            && !self.sight.covered.iter().any(|own| is_secret(own) || holds_homes(own))
    }

    fn is_mixed(&self, path: &Path) -> bool {
        let mut moved = known::MIXED.iter().filter_map(|name| self.environment.path(name));
        moved.any(|own| fs::canonicalize(own).is_ok_and(|own| own == path))
    }

    /// Programs on the PATH, and what they are links to.
    fn show_programs(&mut self) {
        let path = self.environment.raw("PATH").map(OsStr::to_owned).unwrap_or_default();
        let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        for home in &self.homes {
            folders.extend([home.join(".local/bin"), home.join("bin")]);
        }
        let mut seen = BTreeSet::new();
        for folder in folders.into_iter().filter(|folder| folder.is_absolute()) {
            let Ok(real) = fs::canonicalize(&folder) else { continue };
            let is_known = !seen.insert(real.clone()) || is_system(&real);
            if is_known || self.is_needed(&real) || !self.is_covered(&real) {
                continue;
            }
            self.show_folder_of_programs(&folder, &real);
            for entry in fs::read_dir(&real).into_iter().flatten().flatten().take(MOST_PROGRAMS) {
                if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                    self.show_program(&entry.path());
                }
            }
        }
    }

    fn is_needed(&self, real: &Path) -> bool {
        self.needed.iter().any(|own| real.starts_with(own))
    }

    fn is_covered(&self, real: &Path) -> bool {
        self.sight.covered.iter().any(|own| real.starts_with(own))
    }

    /// `bin` of an installed tool needs what lies beside it.
    fn show_folder_of_programs(&mut self, folder: &Path, real: &Path) {
        self.show(folder);
        let Some(prefix) = real.parent().filter(|own| self.may_show(own)) else { return };
        let is_named =
            matches!(real.file_name().and_then(OsStr::to_str), Some("bin" | "sbin" | "shims"));
        let is_tool = known::PREFIX_MARKS.iter().any(|mark| prefix.join(mark).exists());
        let is_shared = prefix.file_name().is_some_and(|name| name == ".local");
        if is_named && is_tool && !is_shared && !self.homes.iter().any(|home| home == prefix) {
            known::PREFIX.iter().for_each(|part| self.show(&prefix.join(part)));
            self.installed.push((prefix.to_owned(), known::ANY));
        }
    }

    /// A link in a folder of programs shows the program that it leads to, and nothing else.
    fn show_program(&mut self, link: &Path) {
        let Some((_, real)) = traced(link) else { return };
        let is_seen = self.sight.shown.iter().any(|own| real.starts_with(own));
        if is_seen || !self.is_covered(&real) || self.is_needed(&real) || !is_program(&real) {
            return;
        }
        if let Some(folder) =
            real.parent().filter(|own| own.file_name().is_some_and(|name| name == "bin"))
        {
            let folder = folder.to_owned();
            self.show_folder_of_programs(&folder, &folder);
        }
        self.show(link);
    }

    /// The repository that a project is a part of, or a working tree of, where both say so.
    fn show_repository(&mut self, project: &Path) {
        let is_below_home = |own: &Path| {
            let home =
                self.homes.iter().find(|home| own.starts_with(home) && own != home.as_path());
            home.is_some_and(|home| {
                let first = own.strip_prefix(home).ok().and_then(|rest| rest.iter().next());
                first.is_some_and(|first| !first.as_encoded_bytes().starts_with(b"."))
            })
        };
        let git = project.join(".git");
        if git.is_file() {
            let text = load::text(&git, 4_096).unwrap_or_default();
            let Some(folder) = text.trim().strip_prefix("gitdir: ").map(|own| project.join(own))
            else {
                return;
            };
            let Ok(folder) = fs::canonicalize(folder) else { return };
            // Written by git where the project cannot write: it says that this is its working tree.
            let back = load::text(&folder.join("gitdir"), 4_096).unwrap_or_default();
            let common = folder
                .parent()
                .filter(|own| own.file_name().is_some_and(|name| name == "worktrees"));
            if let Some(common) = common.and_then(Path::parent)
                && fs::canonicalize(back.trim()).is_ok_and(|back| back == git)
                && common
                    .file_name()
                    .is_some_and(|name| name == ".git" || name.to_string_lossy().ends_with(".git"))
            {
                let common = common.to_owned();
                self.show(&common);
            }
        } else if !git.exists() {
            let above = project.ancestors().skip(1).take_while(|own| is_below_home(own));
            let found = above.into_iter().find(|own| own.join(".git").is_dir()).map(Path::to_owned);
            if let Some(found) = found {
                self.show(&found);
            }
        }
    }

    fn finished(mut self) -> Sight {
        self.hide_in_installed();
        // The way to the home folder and to the project may lead through links.
        for path in self.environment.path("HOME").iter().chain(&self.named.clone()) {
            self.show_link(path);
        }
        let own: Vec<PathBuf> = own_folders(self.environment).collect();
        self.sight.covered.extend(own);
        self.sight.shown.extend(self.needed);
        let mut sight = self.sight;
        sight.covered.sort_unstable();
        sight.covered.dedup();
        sight.shown.sort_unstable();
        sight.shown.dedup();
        sight.put.sort_by(|a, b| a.0.cmp(&b.0));
        sight.put.dedup_by(|a, b| a.0 == b.0);
        sight
    }
}

/// A folder in which other users, or all of them, have theirs.
fn is_of_others(path: &Path) -> bool {
    path == Path::new("/home")
        || path.parent() == Some(Path::new("/home"))
        || path == Path::new("/root")
}

/// True for what a link leads to in a folder of the user that no tool is known to use.
fn is_foreign_target(real: &Path, homes: &[PathBuf]) -> bool {
    homes.iter().any(|home| {
        let Ok(rest) = real.strip_prefix(home) else { return false };
        let first = rest.iter().next().unwrap_or_default().to_string_lossy();
        let is_known = |tool: &known::Tool| tool.folder.split('/').next() == Some(&first);
        first.starts_with('.') && !known::TOOLS.iter().any(is_known)
    })
}

pub(super) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|own| own.is_file() && own.permissions().mode() & 0o111 != 0)
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.take(MOST_PROGRAMS).map(|entry| entry.file_name()).collect()
}

/// The paths in the value of a variable: a list with colons, a kind before the path (`FILE:/x`).
fn paths_in(value: &OsStr) -> impl Iterator<Item = PathBuf> {
    let whole = Path::new(value);
    let mut found: Vec<PathBuf> = Vec::new();
    if whole.is_absolute() && whole.exists() {
        found.push(whole.to_owned());
    } else {
        found.extend(std::env::split_paths(value).filter(|path| path.is_absolute()));
        let text = value.to_string_lossy();
        let words =
            text.split_whitespace().filter(|word| word.starts_with('/') && !word.contains(':'));
        found.extend(words.map(PathBuf::from));
    }
    found.sort_unstable();
    found.dedup();
    found.into_iter()
}

/// True for what can be covered: a folder, a file, a socket.
pub(super) fn is_coverable(found: &fs::Metadata) -> bool {
    let kind = found.file_type();
    kind.is_dir() || kind.is_file() || kind.is_socket() || kind.is_fifo()
}
