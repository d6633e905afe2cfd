//! Files that change without anyone working on the project: the output of this process, logs, and
//! files that builds and tests generate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A file by its device and inode.
pub(crate) type FileId = (u64, u64);

/// The files that this process's standard output and error are written to, also through a pipe
/// (`| tee run.log`), with their paths.
pub(super) fn own() -> BTreeMap<FileId, PathBuf> {
    let mut files = BTreeMap::new();
    let mut pipes = BTreeSet::new();
    for number in ["1", "2"] {
        let path = format!("/proc/self/fd/{number}");
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let id = (metadata.dev(), metadata.ino());
        if metadata.is_file() {
            files.insert(id, fs::read_link(&path).unwrap_or_default());
        } else if metadata.file_type().is_fifo() {
            pipes.insert(id);
        }
    }
    if !pipes.is_empty() {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
        for process in names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
            files.extend(written_by_reader(&process, &pipes).unwrap_or_default());
        }
    }
    files
}

/// The names of those files that are in a project.
pub(super) fn names(files: &BTreeMap<FileId, PathBuf>, project: &Path) -> Vec<String> {
    let project = fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
    let inside = files.values().filter_map(|path| path.strip_prefix(&project).ok());
    inside.filter_map(|path| Some(path.to_str()?.to_owned())).collect()
}

/// The files to which a process adds at their end, if it reads one of these pipes.
fn written_by_reader(process: &str, pipes: &BTreeSet<FileId>) -> Option<Vec<(FileId, PathBuf)>> {
    let mut is_reader = false;
    let mut files = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten() {
        let Ok(metadata) = fs::metadata(entry.path()) else { continue };
        let id = (metadata.dev(), metadata.ino());
        let is_pipe = pipes.contains(&id);
        if !is_pipe && !metadata.is_file() {
            continue;
        }
        let number = entry.file_name().into_string().ok()?;
        let Some((flags, position)) = opened(process, &number) else { continue };
        let (writes, appends) = (flags & 0o3 != 0, flags & 0o2000 != 0);
        is_reader |= is_pipe && !writes;
        // An editor that holds a file open writes anywhere.
        if !is_pipe && writes && (appends || position >= metadata.len()) {
            files.push((id, fs::read_link(entry.path()).unwrap_or_default()));
        }
    }
    is_reader.then_some(files)
}

/// The flags and the position of an open file.
fn opened(process: &str, number: &str) -> Option<(u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")).ok()?;
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Some((u32::from_str_radix(value("flags:")?, 8).ok()?, value("pos:")?.parse().ok()?))
}

const LOGS: [&str; 3] = ["log", "out", "err"];
const DATA: [&str; 3] = ["json", "jsonl", "ndjson"];

/// True if a file looks like a log by its name.
pub(crate) fn is_log(name: &str) -> bool {
    has_ending(name, &LOGS) || is_data(name)
}

/// True for a log that may as well be data of the project.
pub(crate) fn is_data(name: &str) -> bool {
    has_ending(name, &DATA)
}

fn has_ending(name: &str, endings: &[&str]) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let ending = file.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|own| endings.iter().any(|known| own.eq_ignore_ascii_case(known)))
}

/// True if a file looks like the product of a build or a test run. `is_there`: true if the project
/// had a file of this name.
pub(crate) fn is_made_by_tools(name: &str, is_there: impl Fn(&str) -> bool) -> bool {
    const FOLDERS: [&str; 13] = [
        "__pycache__",
        "node_modules",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
        ".tox",
        ".nox",
        ".venv",
        ".gradle",
        ".next",
        ".nyc_output",
        "htmlcov",
    ];
    const FILES: [&str; 5] = [".coverage", "coverage.xml", "lcov.info", "clover.xml", "junit.xml"];
    // Lock files of editors among them.
    const STARTS: [&str; 3] = [".coverage.", ".#", ".~lock."];
    const ENDS: [&str; 6] = [".pyc", ".pyo", ".class", ".swp", ".swo", "~"];
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_cache = folders.split('/').any(|folder| FOLDERS.contains(&folder));
    let is_leftover = FILES.contains(&file) || STARTS.iter().any(|start| file.starts_with(start));
    let is_compiled = ENDS.iter().any(|end| file.ends_with(end));
    let ends = folders.match_indices('/').map(|(at, _)| at).chain([folders.len()]);
    let mut outer = ends.filter(|end| *end > 0).map(|end| &folders[..end]);
    let is_built = |folder: &str| {
        is_there(&format!("{folder}/CACHEDIR.TAG")) || is_build_folder(folder, &is_there)
    };
    is_cache || is_leftover || is_compiled || outer.any(is_built)
}

/// True for a folder of CMake, and for a `target` folder next to the file of a build. The name alone
/// is a usual word.
fn is_build_folder(folder: &str, is_there: impl Fn(&str) -> bool) -> bool {
    const BUILDS: [&str; 4] = ["Cargo.toml", "pom.xml", "build.sbt", "build.properties"];
    if is_there(&format!("{folder}/CMakeCache.txt")) {
        return true;
    }
    match folder.rsplit_once('/').unwrap_or(("", folder)) {
        ("", "target") => BUILDS.iter().any(|build| is_there(build)),
        (outer, "target") => BUILDS.iter().any(|build| is_there(&format!("{outer}/{build}"))),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_and_what_tools_leave_are_recognised_and_sources_are_not() {
        for name in ["run.log", "a/out.json", "x.ERR"] {
            assert!(is_log(name), "{name}");
        }
        for name in ["src/lib.rs", "log", "notes.txt", "chapter.md", "a.log/b"] {
            assert!(!is_log(name), "{name}");
        }
        let is_there = |name: &str| {
            ["out/cache/CACHEDIR.TAG", "Cargo.toml", "app/pom.xml", "build/CMakeCache.txt"]
                .contains(&name)
        };
        for name in [
            "__pycache__/a.pyc",
            "a/__pycache__/x",
            "target/debug/a",
            "app/target/a.jar",
            "build/Testing/Temporary/x.xml",
            "coverage/lcov.info",
            "src/.#lib.rs",
            ".coverage",
            ".coverage.host.1",
            "src/lib.rs~",
            "out/cache/x",
            "out/cache/deep/x",
        ] {
            assert!(is_made_by_tools(name, is_there), "{name}");
        }
        for name in [
            "src/lib.rs",
            "out/x",
            "target",
            "src/target/mod.rs",
            "chapters/target/1.md",
            "tests/test_a.py",
            ".github/x.yml",
            ".env",
        ] {
            assert!(!is_made_by_tools(name, is_there), "{name}");
        }
    }
}
