//! Files that change without anyone working on the project: the output of this process, logs, and
//! files that builds and tests generate.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// A file by its device and inode.
pub(crate) type FileId = (u64, u64);

/// The files that this process's standard output and error are written to, also through a pipe
/// (`| tee run.log`).
pub(super) fn own() -> BTreeSet<FileId> {
    let mut files = BTreeSet::new();
    let mut pipes = BTreeSet::new();
    for number in ["1", "2"] {
        let Ok(metadata) = fs::metadata(format!("/proc/self/fd/{number}")) else { continue };
        if metadata.is_file() {
            files.insert((metadata.dev(), metadata.ino()));
        } else if metadata.file_type().is_fifo() {
            pipes.insert((metadata.dev(), metadata.ino()));
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

/// The files to which a process adds at their end, if it reads one of these pipes.
fn written_by_reader(process: &str, pipes: &BTreeSet<FileId>) -> Option<Vec<FileId>> {
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
            files.push(id);
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

/// True if a file looks like a log by its name.
pub(crate) fn is_log(name: &str) -> bool {
    const ENDINGS: [&str; 6] = ["log", "out", "err", "json", "jsonl", "ndjson"];
    name.rsplit('/')
        .next()
        .and_then(|own| own.rsplit_once('.'))
        .is_some_and(|(_, ending)| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

/// True if a file looks like the product of a build or a test run. `is_there`: true if the project
/// had a file of this name.
pub(super) fn is_made_by_tools(name: &str, is_there: impl Fn(&str) -> bool) -> bool {
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
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_cache = folders.split('/').any(|folder| FOLDERS.contains(&folder));
    let is_leftover = file == ".coverage" || file.starts_with(".coverage.");
    let is_compiled = [".pyc", ".pyo", ".class", ".swp", "~"].iter().any(|end| file.ends_with(end));
    let ends = folders.match_indices('/').map(|(at, _)| at).chain([folders.len()]);
    let mut outer = ends.filter(|end| *end > 0).map(|end| &folders[..end]);
    let is_built = |folder: &str| {
        is_there(&format!("{folder}/CACHEDIR.TAG")) || is_build_folder(folder, &is_there)
    };
    is_cache || is_leftover || is_compiled || outer.any(is_built)
}

/// True for a `target` folder next to the file of a build. The name alone is a usual word.
fn is_build_folder(folder: &str, is_there: impl Fn(&str) -> bool) -> bool {
    const BUILDS: [&str; 3] = ["Cargo.toml", "pom.xml", "build.sbt"];
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
        let is_there =
            |name: &str| ["out/cache/CACHEDIR.TAG", "Cargo.toml", "app/pom.xml"].contains(&name);
        for name in [
            "__pycache__/a.pyc",
            "a/__pycache__/x",
            "target/debug/a",
            "app/target/a.jar",
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
