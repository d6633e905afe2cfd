//! Looks at the machine once, when a run begins: which tools for this project are installed, and
//! whether the coverage of its tests can be measured. One sandboxed shell asks every tool for its
//! version; nothing of the project is run, and a tool that does not answer only costs its time.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use baton_core::machine::{Git, Machine, Tool};

use crate::load::Environment;
use crate::sandbox::{self, Closed, Confine, Interrupt, Program};
use crate::{git, load};

/// The tools for projects of one kind.
struct Ecosystem {
    /// Files that mark such a project.
    marks: &'static [&'static str],
    /// Files that projects of other kinds often have too: they count only where there is no other
    /// mark. `*.py` is any name with this ending.
    weak_marks: &'static [&'static str],
    tools: &'static [&'static str],
    /// Python packages.
    packages: &'static [&'static str],
    coverage: &'static [Coverage],
}

/// A way to measure coverage: its requirement and its command.
struct Coverage {
    name: &'static str,
    needs: Needs,
    how: &'static str,
}

enum Needs {
    Tool,
    Package,
    /// A file below the project's folder.
    File(&'static str),
    /// A word in a file of the project.
    Word(&'static str, &'static str),
}

const ECOSYSTEMS: [Ecosystem; 7] = [
    Ecosystem {
        marks: &["Cargo.toml"],
        weak_marks: &[],
        tools: &["cargo", "rustc"],
        packages: &[],
        coverage: &[
            Coverage { name: "cargo-llvm-cov", needs: Needs::Tool, how: "cargo llvm-cov" },
            Coverage { name: "cargo-tarpaulin", needs: Needs::Tool, how: "cargo tarpaulin" },
        ],
    },
    Ecosystem {
        marks: &[
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "tox.ini",
            "pytest.ini",
            "requirements.txt",
            "Pipfile",
        ],
        weak_marks: &["*.py"],
        tools: &["python", "python3", "uv"],
        packages: &["pytest", "tox", "nox", "ruff", "mypy", "hypothesis"],
        coverage: &[
            Coverage { name: "pytest-cov", needs: Needs::Package, how: "pytest --cov" },
            Coverage { name: "coverage", needs: Needs::Package, how: "python -m coverage run" },
        ],
    },
    Ecosystem {
        marks: &["package.json"],
        weak_marks: &[],
        tools: &["node", "npm", "pnpm", "yarn"],
        packages: &[],
        coverage: &[
            Coverage { name: "c8", needs: Needs::File("node_modules/.bin/c8"), how: "c8" },
            Coverage { name: "nyc", needs: Needs::File("node_modules/.bin/nyc"), how: "nyc" },
            Coverage {
                name: "jest",
                needs: Needs::File("node_modules/.bin/jest"),
                how: "jest --coverage",
            },
            Coverage {
                name: "@vitest/coverage-v8",
                needs: Needs::File("node_modules/@vitest/coverage-v8"),
                how: "vitest run --coverage",
            },
            Coverage {
                name: "@vitest/coverage-istanbul",
                needs: Needs::File("node_modules/@vitest/coverage-istanbul"),
                how: "vitest run --coverage",
            },
        ],
    },
    Ecosystem {
        marks: &["go.mod"],
        weak_marks: &[],
        tools: &["go"],
        packages: &[],
        coverage: &[Coverage { name: "go", needs: Needs::Tool, how: "go test -cover" }],
    },
    Ecosystem {
        marks: &["pom.xml", "build.gradle", "build.gradle.kts"],
        weak_marks: &[],
        tools: &["java", "mvn", "gradle"],
        packages: &[],
        coverage: &[
            Coverage { name: "jacoco", needs: Needs::Word("pom.xml", "jacoco"), how: "JaCoCo" },
            Coverage {
                name: "jacoco",
                needs: Needs::Word("build.gradle", "jacoco"),
                how: "JaCoCo",
            },
            Coverage {
                name: "jacoco",
                needs: Needs::Word("build.gradle.kts", "jacoco"),
                how: "JaCoCo",
            },
        ],
    },
    Ecosystem {
        marks: &["Gemfile"],
        weak_marks: &[],
        tools: &["ruby", "bundle"],
        packages: &[],
        coverage: &[Coverage {
            name: "simplecov",
            needs: Needs::Word("Gemfile.lock", "simplecov"),
            how: "SimpleCov",
        }],
    },
    Ecosystem {
        marks: &["CMakeLists.txt", "meson.build"],
        weak_marks: &["Makefile"],
        tools: &["make", "cc", "cmake", "ninja", "meson"],
        packages: &[],
        coverage: &[
            Coverage { name: "gcovr", needs: Needs::Tool, how: "gcovr" },
            Coverage { name: "lcov", needs: Needs::Tool, how: "lcov" },
        ],
    },
];

/// Tools for every project.
const ALWAYS: [&str; 1] = ["git"];

/// Time limit for all tools together.
const LIMIT: Duration = Duration::from_secs(20);

/// The machine, as far as this project is concerned.
pub fn look(project: &Path, board: &Path, environment: &Environment, confined: bool) -> Machine {
    let Kinds { all, main } = kinds(project);
    let coverage = |is_wanted: fn(&Needs) -> bool| {
        let of_kinds = main.iter().flat_map(|kind| kind.coverage);
        of_kinds.filter(move |own| is_wanted(&own.needs)).map(|own| own.name)
    };
    let mut tools: Vec<&str> = ALWAYS.to_vec();
    tools.extend(all.iter().flat_map(|kind| kind.tools));
    tools.extend(coverage(|needs| matches!(needs, Needs::Tool)));
    let mut packages: Vec<&str> = all.iter().flat_map(|kind| kind.packages).copied().collect();
    packages.extend(coverage(|needs| matches!(needs, Needs::Package)));
    let answers = asked(&tools, &packages, project, board, environment, confined);
    let mut machine = Machine {
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        git: git::top(project).map(|top| Git {
            head: git::head_of(&top),
            uncommitted: git::dirty(project, environment).unwrap_or(0),
        }),
        ..Machine::default()
    };
    for name in tools.iter().chain(&packages) {
        match answers.iter().find(|tool| tool.name == **name) {
            Some(tool) if !machine.tools.contains(tool) => machine.tools.push(tool.clone()),
            Some(_) => {}
            None => machine.missing.push((*name).to_owned()),
        }
    }
    // `python3` only counts without `python`; other builders are not missed.
    let has = |name: &str| machine.tools.iter().any(|tool| tool.name == name);
    let is_needless = |name: &str| match name {
        "python" => has("python3"),
        "python3" => has("python"),
        "uv" | "pnpm" | "yarn" | "gradle" | "mvn" | "cmake" | "ninja" | "meson" | "nox" | "tox"
        | "hypothesis" => true,
        _ => false,
    };
    let missing: Vec<String> =
        machine.missing.iter().filter(|name| !is_needless(name)).cloned().collect();
    machine.missing = missing;
    machine.coverage = coverage_of(&main, project, &answers);
    for name in main.iter().flat_map(|kind| kind.coverage).map(|coverage| coverage.name) {
        if !machine.coverage_tools.iter().any(|own| own == name) {
            machine.coverage_tools.push(name.to_owned());
        }
    }
    machine
}

/// The kinds of a project, and those of them that its own code is of.
struct Kinds {
    all: Vec<&'static Ecosystem>,
    main: Vec<&'static Ecosystem>,
}

fn kinds(project: &Path) -> Kinds {
    let marked = |kind: &&Ecosystem| kind.marks.iter().any(|mark| has(project, mark));
    let weakly = |kind: &&Ecosystem| kind.weak_marks.iter().any(|mark| has(project, mark));
    let all: Vec<&Ecosystem> =
        ECOSYSTEMS.iter().filter(|kind| marked(kind) || weakly(kind)).collect();
    let strong: Vec<&Ecosystem> = all.iter().copied().filter(marked).collect();
    let main = if strong.is_empty() { all.iter().copied().take(1).collect() } else { strong };
    Kinds { all, main }
}

/// Ways to measure the coverage of the whole project; none unless each of its kinds has one.
fn coverage_of(kinds: &[&Ecosystem], project: &Path, answers: &[Tool]) -> Vec<String> {
    let is_there = |coverage: &&Coverage| match coverage.needs {
        Needs::Tool | Needs::Package => answers.iter().any(|tool| tool.name == coverage.name),
        Needs::File(path) => project.join(path).exists(),
        Needs::Word(path, word) => {
            load::text(&project.join(path), load::SMALL).is_ok_and(|text| text.contains(word))
        }
    };
    let mut ways = Vec::new();
    for kind in kinds {
        let found = kind.coverage.iter().filter(is_there).map(|own| own.how.to_owned());
        let before = ways.len();
        ways.extend(found);
        if ways.len() == before {
            return Vec::new();
        }
    }
    ways
}

fn has(project: &Path, mark: &str) -> bool {
    let Some(ending) = mark.strip_prefix('*') else { return project.join(mark).exists() };
    let entries = std::fs::read_dir(project).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(ending))
}

/// The tools and packages that answered, with the first line of their version.
fn asked(
    tools: &[&str],
    packages: &[&str],
    project: &Path,
    board: &Path,
    environment: &Environment,
    confined: bool,
) -> Vec<Tool> {
    let Ok(temporary) = sandbox::temporary() else { return Vec::new() };
    let confine = match confined {
        true if sandbox::available().is_ok() => {
            match Closed::usual(project, board, temporary.path(), environment) {
                Ok(closed) => Confine::Closed(Box::new(closed)),
                Err(_) => return Vec::new(),
            }
        }
        // No command of an agent could run here either.
        true => return Vec::new(),
        false => Confine::Off,
    };
    let names = ["PATH", "HOME", "LANG", "LC_*", "RUSTUP_HOME", "CARGO_HOME"];
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let program = Program {
        argv: [OsString::from("sh"), "-c".into(), script(tools, packages).into()].to_vec(),
        // Not the project's folder: some tools follow files that they find where they are started.
        folder: temporary.path().to_owned(),
        environment: environment.for_command(&names),
        input: Vec::new(),
        limit: LIMIT,
        mark: "machine".to_owned(),
        most: 64 << 10,
        copy: None,
        confine,
        within: None,
    };
    let Ok(ran) = sandbox::run(&program, &Interrupt::default()) else { return Vec::new() };
    let said = ran.stdout.end(1_000);
    let lines = said.lines().filter_map(|line| line.split_once('\t'));
    lines
        .filter(|(name, _)| tools.contains(name) || packages.contains(name))
        .map(|(name, version)| Tool { name: name.to_owned(), version: short(version) })
        .collect()
}

/// A version without the tool's own name: `git version 2.43.0` is `2.43.0`.
fn short(version: &str) -> String {
    let words = version.split_whitespace();
    let is_version = |word: &&str| {
        let word = word.trim_start_matches(['v', 'V', '(']);
        word.starts_with(|c: char| c.is_ascii_digit())
    };
    let found = words.clone().find(is_version).map(|word| word.trim_end_matches([',', ')']));
    let all = || words.collect::<Vec<_>>().join(" ");
    baton_core::text::shown(&found.map_or_else(all, str::to_owned), 60)
}

/// Prints a line for each tool and package that is there; all are asked at once. Names are ours, never the project's.
fn script(tools: &[&str], packages: &[&str]) -> String {
    let tools = format!(
        "for tool in {}; do command -v \"$tool\" >/dev/null 2>&1 || continue; \
         case \"$tool\" in go) flag=version ;; *) flag=--version ;; esac; \
         printf '%s\\t%s\\n' \"$tool\" \"$(timeout 5 \"$tool\" $flag 2>&1 </dev/null | head -n 1)\" & \
         done\n",
        tools.join(" ")
    );
    if packages.is_empty() {
        return format!("{tools}wait\ntrue\n");
    }
    // The project's own folder is not searched: a file of it could have any of these names.
    let python = "import sys; sys.path = [p for p in sys.path if p not in (\"\", \".\")]; \
                  from importlib.metadata import version, PackageNotFoundError\n\
                  for name in sys.argv[1:]:\n\
                  \ttry: print(name, version(name), sep=\"\\t\")\n\
                  \texcept PackageNotFoundError: pass";
    let packages = packages.join(" ");
    format!(
        "{tools}python=$(command -v python || command -v python3) && \
         timeout 10 \"$python\" -c '{python}' {packages} 2>/dev/null </dev/null\nwait\ntrue\n"
    )
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files")]
mod tests {
    use super::*;

    fn with(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for name in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            std::fs::write(path, "").expect("it is written");
        }
        folder
    }

    fn found(name: &str) -> Tool {
        Tool { name: name.to_owned(), version: String::new() }
    }

    #[test]
    fn coverage_is_measurable_only_if_it_is_for_every_kind_of_the_projects_code() {
        let cases: [(&[&str], &[&str], &[&str]); 8] = [
            (&["Cargo.toml"], &["cargo-llvm-cov"], &["cargo llvm-cov"]),
            // A Makefile and a script do not make it a project of their kind.
            (&["Cargo.toml", "Makefile", "tool.py"], &["gcovr", "coverage"], &[]),
            (&["Makefile"], &["gcovr"], &["gcovr"]),
            (&["tool.py"], &["coverage"], &["python -m coverage run"]),
            (&["tool.py", "Makefile"], &["coverage"], &["python -m coverage run"]),
            (&["Cargo.toml", "pyproject.toml"], &["pytest-cov"], &[]),
            (
                &["Cargo.toml", "pyproject.toml"],
                &["pytest-cov", "cargo-llvm-cov"],
                &["cargo llvm-cov", "pytest --cov"],
            ),
            (&["README.md"], &["coverage"], &[]),
        ];
        for (files, tools, ways) in cases {
            let folder = with(files);
            let tools: Vec<Tool> = tools.iter().copied().map(found).collect();
            let main = kinds(folder.path()).main;
            assert_eq!(coverage_of(&main, folder.path(), &tools), ways, "{files:?}");
        }
    }
}
