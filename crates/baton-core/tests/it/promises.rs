//! docs/faults.md, compared with the tests that exist: none that it names is missing, and none of the
//! tests of faults and attacks is left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/faults.md";
/// Folders by their names on the page.
const FOLDERS: [(&str, &str); 6] = [
    ("crash/", "crates/baton-runtime/tests/crash/"),
    ("confine/", "crates/baton-runtime/tests/confine/"),
    ("runtime/", "crates/baton-runtime/tests/it/"),
    ("cli/", "crates/baton-cli/tests/it/"),
    ("core/", "crates/baton-core/tests/it/"),
    ("src/", "crates/baton-runtime/src/"),
];
/// Programs that list their tests themselves.
const PROGRAMS: [&str; 2] = ["crash", "confine"];
const HOSTILE: &str = "cli/hostile";
const PROMISES: u32 = 33;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file, by its path as on the page. `None`: there is no such file.
fn text(file: &str) -> Option<String> {
    let (name, folder) = FOLDERS.iter().find(|(name, _)| file.starts_with(name))?;
    fs::read_to_string(workspace().join(folder).join(&file[name.len()..])).ok()
}

type Test = (String, String);

/// Every `` `file.rs`: `one`, `two` `` of a text: the file and the name.
fn named(page: &str) -> Vec<Test> {
    let mut found = Vec::new();
    let mut file = None;
    // Every second part is between two marks.
    let parts: Vec<&str> = page.split('`').collect();
    for (index, part) in parts.iter().enumerate().filter(|(index, _)| index % 2 == 1) {
        let before = parts[index - 1];
        let after = parts.get(index + 1).copied().unwrap_or_default();
        if part.ends_with(".rs") && after == ": " {
            file = Some((*part).to_owned());
        } else if let Some(own) = file.as_ref().filter(|_| before == ": " || before == ", ") {
            found.push((own.clone(), (*part).to_owned()));
        } else {
            file = None;
        }
    }
    found
}

/// The tests that a program lists in its `main.rs`: file and function.
fn listed(program: &str) -> BTreeSet<Test> {
    let main = text(&format!("{program}/main.rs")).unwrap();
    let (_, list) = main.split_once("[(&str, fn()); ").expect("a list of tests");
    let (list, _) = list.split_once("\n    ];").or_else(|| list.split_once("\n];")).unwrap();
    let words = list.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let paths = words.filter_map(|word| word.split_once("::"));
    paths.map(|(module, name)| (format!("{program}/{module}.rs"), name.to_owned())).collect()
}

/// The functions that follow `#[test]`, in a folder of the page.
fn marked(folder: &str) -> BTreeSet<Test> {
    let mut found = BTreeSet::new();
    for file in files(folder) {
        let source = text(&file).unwrap();
        for after in source.split("#[test]\n").skip(1) {
            let name = after.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
            found.insert((file.clone(), name.expect("a function").0.to_owned()));
        }
    }
    found
}

/// The Rust files of a folder, as the page names them.
fn files(folder: &str) -> Vec<String> {
    let (name, at) =
        FOLDERS.iter().find(|(name, _)| format!("{folder}/").starts_with(name)).unwrap();
    let path = workspace().join(at).join(format!("{folder}/").split_off(name.len()));
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let mut all: Vec<String> = names.filter(|name| name.ends_with(".rs")).collect();
    all.sort();
    all.iter().map(|name| format!("{folder}/{name}")).collect()
}

fn page() -> String {
    fs::read_to_string(workspace().join(PAGE)).unwrap()
}

#[test]
fn every_promise_has_one_row_in_its_place() {
    let page = page();
    let rows: Vec<u32> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| T")?.split_once(" | ")?.0.parse().ok())
        .collect();
    assert_eq!(rows, (1..=PROMISES).collect::<Vec<_>>(), "{PAGE}");
    for row in page.lines().filter(|line| line.starts_with("| T")) {
        assert_eq!(row.matches(" | ").count(), 4, "five cells: {row}");
        let is_without = row.split(" | ").nth(2) == Some("none");
        assert!(is_without || !named(row).is_empty(), "neither tests nor `none`: {row}");
    }
}

#[test]
fn every_test_that_the_page_names_exists_and_is_run() {
    let named = named(&page());
    assert!(named.len() > 150, "{} names were found", named.len());
    let mut run: BTreeSet<Test> = PROGRAMS.iter().flat_map(|program| listed(program)).collect();
    run.extend(marked(HOSTILE));
    let mut wrong = Vec::new();
    for (file, name) in named {
        let Some(source) = text(&file) else {
            wrong.push(format!("there is no file {file}"));
            continue;
        };
        if !source.contains(&format!("fn {name}(")) {
            wrong.push(format!("{file} has no function {name}"));
        }
        let is_checked = PROGRAMS.iter().any(|own| file.starts_with(&format!("{own}/")))
            || file.starts_with(HOSTILE);
        if is_checked && !run.contains(&(file.clone(), name.clone())) {
            wrong.push(format!("{name} of {file} is not run"));
        }
    }
    assert!(wrong.is_empty(), "{PAGE}: {wrong:#?}");
}

#[test]
fn every_test_of_faults_and_attacks_is_on_the_page() {
    let named: BTreeSet<Test> = named(&page()).into_iter().collect();
    let mut all = marked(HOSTILE);
    assert!(all.len() > 40, "{} tests of {HOSTILE}", all.len());
    for (program, least) in PROGRAMS.into_iter().zip([40, 45]) {
        let own = listed(program);
        assert!(own.len() >= least, "{} tests of {program}", own.len());
        all.extend(own);
    }
    let missing: Vec<&Test> = all.difference(&named).collect();
    assert!(missing.is_empty(), "not in {PAGE}: {missing:#?}");
    // A file that no one includes has no tests that run.
    for (folder, main) in
        [("crash", "crash/main.rs"), ("confine", "confine/main.rs"), (HOSTILE, "cli/hostile.rs")]
    {
        let main = text(main).unwrap();
        for file in files(folder) {
            let module = file.rsplit('/').next().unwrap().trim_end_matches(".rs");
            let is_part = module == "main" || main.contains(&format!("mod {module};"));
            assert!(is_part, "{file} is not compiled");
        }
    }
}
