//! JavaScript: the test script of package.json, in a form that ends by itself.

use super::{Detected, Project};
use crate::document::{Document, Node, Value};

/// Other scripts that run the tests once, looked for where the usual one watches.
const ONCE: [&str; 5] = ["test:ci", "test:run", "test:once", "ci:test", "test:unit"];

/// Programs that start something again whenever a file changes.
const RESTARTERS: [&str; 5] = ["nodemon", "onchange", "chokidar", "watchexec", "entr"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

impl Manager {
    fn of(project: &dyn Project, manifest: &Node) -> Manager {
        let all = [Manager::Pnpm, Manager::Yarn, Manager::Bun, Manager::Npm];
        let named = string(manifest, "packageManager").unwrap_or_default();
        let named = named.split('@').next().unwrap_or_default();
        let by_name = all.into_iter().find(|own| own.name() == named);
        let has_lock = |own: &Manager| own.locks().iter().any(|file| project.is_file(file));
        by_name.or_else(|| all.into_iter().find(has_lock)).unwrap_or(Manager::Npm)
    }

    fn name(self) -> &'static str {
        match self {
            Manager::Npm => "npm",
            Manager::Pnpm => "pnpm",
            Manager::Yarn => "yarn",
            Manager::Bun => "bun",
        }
    }

    fn locks(self) -> &'static [&'static str] {
        match self {
            Manager::Npm => &["package-lock.json", "npm-shrinkwrap.json"],
            Manager::Pnpm => &["pnpm-lock.yaml"],
            Manager::Yarn => &["yarn.lock"],
            Manager::Bun => &["bun.lock", "bun.lockb"],
        }
    }

    /// Runs a script, with one more argument where there is one.
    fn run(self, script: &str, argument: Option<&str>) -> String {
        let is_short = match self {
            Manager::Npm | Manager::Pnpm => script == "test",
            Manager::Yarn => true,
            Manager::Bun => false,
        };
        let verb = if is_short { "" } else { "run " };
        let argument = match (self, argument) {
            (_, None) => String::new(),
            (Manager::Npm, Some(own)) => format!(" -- {own}"),
            (_, Some(own)) => format!(" {own}"),
        };
        format!("{} {verb}{script}{argument}", self.name())
    }
}

fn string<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    match &node.get(name)?.value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// The end of a script.
#[derive(Debug, PartialEq, Eq)]
enum Script {
    Ends,
    /// npm's own, which always fails.
    Placeholder,
    /// It watches files; with this argument it does not.
    Watches(Option<&'static str>),
    /// It watches files unless the variable CI is set.
    WatchesUnlessCi,
}

pub(super) fn detect(project: &dyn Project, found: &mut Detected) {
    let Some(text) = project.text("package.json") else { return };
    let Ok(document) = Document::json(&text) else {
        return found.note("package.json cannot be read");
    };
    let Some(scripts) = document.root.get("scripts") else { return };
    let Some(script) = string(scripts, "test").map(str::trim).filter(|own| !own.is_empty()) else {
        return;
    };
    let manager = Manager::of(project, &document.root);
    if !project.has_program(manager.name()) {
        let name = manager.name();
        return found.note(format!("package.json is run by {name}, which is not on the PATH"));
    }
    let once = ONCE
        .into_iter()
        .find(|name| string(scripts, name).is_some_and(|own| read(own) == Script::Ends));
    let command = match (read(script), once) {
        (Script::Ends, _) => manager.run("test", None),
        (Script::Placeholder, _) => {
            return found.note("the test script of package.json is npm's placeholder");
        }
        (_, Some(name)) => manager.run(name, None),
        (Script::WatchesUnlessCi, None) => format!("CI=true {}", manager.run("test", None)),
        (Script::Watches(Some(argument)), None) => manager.run("test", Some(argument)),
        (Script::Watches(None), None) => {
            return found.note(
                "the test script of package.json watches files and would not end; add a gate with a command that runs the tests once",
            );
        }
    };
    let is_installed = project.is_file("node_modules/.package-lock.json")
        || project.is_file("node_modules/.modules.yaml")
        || project.is_file("node_modules/.yarn-integrity")
        || !needs_packages(&document.root);
    if !is_installed {
        let name = manager.name();
        found.note(format!("node_modules may be missing: `{name} install` first"));
    }
    found.propose(command, "package.json");
}

fn needs_packages(manifest: &Node) -> bool {
    ["dependencies", "devDependencies"]
        .iter()
        .any(|name| manifest.get(name).is_some_and(|own| own.keys().next().is_some()))
}

/// Reads a script by its words. An argument reaches only its last command.
fn read(script: &str) -> Script {
    if script.contains("no test specified") {
        return Script::Placeholder;
    }
    let commands: Vec<&str> = script
        .split("&&")
        .flat_map(|part| part.split([';', '|']))
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    let Some((last, before)) = commands.split_last() else { return Script::Ends };
    let is_ending = |own: &&str| command(own) == Script::Ends;
    if !before.iter().all(is_ending) {
        return Script::Watches(None);
    }
    command(last)
}

/// Reads one command.
fn command(line: &str) -> Script {
    let words: Vec<&str> = line.split_whitespace().collect();
    let has = |own: &str| words.contains(&own);
    let program =
        |own: &str| words.iter().any(|word| *word == own || word.rsplit('/').next() == Some(own));
    let is_off = ["--watch=false", "--watchAll=false", "--no-watch", "--single-run", "--run"];
    if words.iter().any(|word| is_off.contains(word)) {
        return Script::Ends;
    }
    if RESTARTERS.iter().any(|own| program(own)) {
        return Script::Watches(None);
    }
    if program("vitest") {
        let once = ["run", "related", "bench", "list", "typecheck"];
        let is_once = once.into_iter().any(has);
        return if is_once { Script::Ends } else { Script::Watches(Some("--run")) };
    }
    if ["react-scripts", "craco", "react-app-rewired"].into_iter().any(program) && has("test") {
        return if has("CI=true") || has("--ci") { Script::Ends } else { Script::WatchesUnlessCi };
    }
    if program("karma") && has("start") {
        return Script::Watches(Some("--single-run"));
    }
    if program("ng") && has("test") {
        return Script::Watches(Some("--watch=false"));
    }
    if has("--watchAll") || has("--watch-all") {
        return Script::Watches(program("jest").then_some("--watchAll=false"));
    }
    let is_short = has("-w") && ["mocha", "ava", "tsc", "jest"].into_iter().any(program);
    if is_short || has("--watch") || has("--watch=true") || has("watch") {
        let knows = ["jest", "mocha"].into_iter().any(program);
        return Script::Watches(knows.then_some("--watch=false"));
    }
    Script::Ends
}
