//! Python: pytest by the interpreter that has it, else tox, nox or unittest.

use super::{Detected, Project, value};
use crate::document::Document;

/// Usual places of a project's own interpreter.
const OWN: [&str; 3] = [".venv/bin/python", "venv/bin/python", "env/bin/python"];
const INSTALLED: [&str; 2] = ["python3", "python"];
/// Test files that are read to tell what they are written for.
const READ: usize = 20;

/// The configuration of a project's tests.
struct Configured {
    /// The file that says that it is pytest.
    pytest: Option<&'static str>,
    tox: Option<&'static str>,
    nox: bool,
    uv: bool,
    poetry: bool,
    /// The folder with test files, and their names.
    tests: Option<(&'static str, Vec<String>)>,
}

impl Configured {
    fn read(project: &dyn Project) -> Configured {
        let manifest = project.text("pyproject.toml").and_then(|text| Document::toml(&text).ok());
        let tool = |name: &str| {
            manifest.as_ref().is_some_and(|own| value(&own.root, &["tool", name]).is_some())
        };
        let section = |file: &str, name: &str| {
            let text = project.text(file).unwrap_or_default();
            text.lines().any(|line| line.trim() == name)
        };
        let files = ["pytest.ini", ".pytest.ini", "pytest.toml", "conftest.py"];
        let mut pytest = files.into_iter().find(|file| project.is_file(file));
        let named = [
            (tool("pytest"), "pyproject.toml"),
            (section("setup.cfg", "[tool:pytest]"), "setup.cfg"),
            (section("tox.ini", "[pytest]"), "tox.ini"),
            (project.is_file("tests/conftest.py"), "tests/conftest.py"),
        ];
        pytest = pytest.or_else(|| named.into_iter().find(|(is_it, _)| *is_it).map(|own| own.1));
        let tox = [
            (project.is_file("tox.toml"), "tox.toml"),
            (section("tox.ini", "[tox]") || section("tox.ini", "[testenv]"), "tox.ini"),
            (section("setup.cfg", "[tox:tox]"), "setup.cfg"),
            (tool("tox"), "pyproject.toml"),
        ];
        let is_test = |name: &String| {
            let stem = name.strip_suffix(".py").unwrap_or_default();
            stem.starts_with("test_") || stem.ends_with("_test") || stem == "tests"
        };
        let tests = ["tests", "test", ""].into_iter().find_map(|folder| {
            let names: Vec<String> = project.files(folder).into_iter().filter(is_test).collect();
            (!names.is_empty()).then_some((folder, names))
        });
        Configured {
            pytest,
            tox: tox.into_iter().find(|(is_it, _)| *is_it).map(|own| own.1),
            nox: project.is_file("noxfile.py"),
            uv: project.is_file("uv.lock") || tool("uv"),
            poetry: project.is_file("poetry.lock") || tool("poetry"),
            tests,
        }
    }

    fn because(&self) -> String {
        match (self.pytest, &self.tests) {
            (Some(file), _) => file.to_owned(),
            (None, Some(("", names))) => names.first().cloned().unwrap_or_default(),
            (None, Some((folder, _))) => format!("{folder}/"),
            (None, None) => "the files".to_owned(),
        }
    }
}

pub(super) fn detect(project: &dyn Project, found: &mut Detected) {
    let own = Configured::read(project);
    let is_pytest = own.pytest.is_some() || own.tests.is_some();
    let pytest = if is_pytest { pytest(project, &own) } else { None };
    let has_pytest = pytest.is_some();
    if let Some(command) = pytest {
        found.propose(command, own.because());
    }
    let mut others = Vec::new();
    others.extend(own.tox.and_then(|file| Some((program(project, "tox")?, file))));
    others
        .extend(own.nox.then(|| program(project, "nox")).flatten().map(|own| (own, "noxfile.py")));
    let has_other = !others.is_empty();
    for (index, (command, file)) in others.into_iter().enumerate() {
        match has_pytest || index > 0 {
            true => found.alternative(command, file),
            false => found.propose(command, file),
        }
    }
    if has_pytest || has_other {
        return;
    }
    match unittest(project, &own) {
        Some(command) => found.propose(command, own.because()),
        None if is_pytest => found.note(format!(
            "{} is there, but pytest was found neither in .venv or venv nor for python3 on the PATH",
            own.because()
        )),
        None if own.tox.is_some() || own.nox => {
            let file = own.tox.unwrap_or("noxfile.py");
            found.note(format!("{file} is there, but neither tox nor nox is on the PATH"));
        }
        None => {}
    }
}

/// The command that runs pytest here.
fn pytest(project: &dyn Project, own: &Configured) -> Option<String> {
    let locked = ["uv.lock", "pyproject.toml"];
    let has_locked =
        || locked.iter().any(|file| project.text(file).is_some_and(|text| text.contains("pytest")));
    if own.uv && project.has_program("uv") && has_locked() {
        return Some("uv run pytest -q".to_owned());
    }
    let of_project = OWN.into_iter().filter(|path| project.is_file(path));
    let of_path = INSTALLED.into_iter().filter(|name| project.has_program(name));
    let mut with_it = of_project.chain(of_path).filter(|own| project.has_module(own, "pytest"));
    if let Some(interpreter) = with_it.next() {
        return Some(format!("{interpreter} -m pytest -q"));
    }
    if own.poetry && project.has_program("poetry") {
        return Some("poetry run pytest -q".to_owned());
    }
    project.has_program("pytest").then(|| "pytest -q".to_owned())
}

/// A program of the project's own interpreter, or of the PATH.
fn program(project: &dyn Project, name: &str) -> Option<String> {
    let own = OWN.iter().filter_map(|path| path.strip_suffix("python"));
    let mut own = own.map(|folder| format!("{folder}{name}")).filter(|path| project.is_file(path));
    own.next().or_else(|| project.has_program(name).then(|| name.to_owned()))
}

/// Tests that need nothing but the interpreter.
fn unittest(project: &dyn Project, own: &Configured) -> Option<String> {
    let (folder, names) = own.tests.as_ref().filter(|_| own.pytest.is_none())?;
    let text = |name: &String| {
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        project.text(&path).unwrap_or_default()
    };
    let texts: Vec<String> = names.iter().take(READ).map(text).collect();
    let uses = |module: &str| {
        let (plain, from) = (format!("import {module}"), format!("from {module}"));
        texts.iter().any(|text| text.contains(&plain) || text.contains(&from))
    };
    if !uses("unittest") || uses("pytest") {
        return None;
    }
    let of_project = OWN.into_iter().find(|path| project.is_file(path));
    let of_path = || INSTALLED.into_iter().find(|name| project.has_program(name));
    let interpreter = of_project.or_else(of_path)?;
    let place = match *folder {
        "" => String::new(),
        folder if project.is_file(&format!("{folder}/__init__.py")) => {
            format!(" -s {folder} -t .")
        }
        folder => format!(" -s {folder}"),
    };
    Some(format!("{interpreter} -m unittest discover{place}"))
}
