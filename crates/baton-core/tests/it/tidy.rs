//! Rules about the code itself, checked on its text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use baton_core::pack::Pack;

use crate::common;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Rust file under a folder, with its text.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

fn core_sources() -> Vec<(PathBuf, String)> {
    sources(&workspace().join("crates/baton-core/src"))
}

#[test]
fn a_core_module_imports_only_earlier_ones() {
    let lib = fs::read_to_string(workspace().join("crates/baton-core/src/lib.rs")).unwrap();
    let order: Vec<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert!(order.len() >= 10, "lib.rs lists the modules one a line: {order:?}");
    let rank = |module: &str| order.iter().position(|own| *own == module);
    let mut wrong = Vec::new();
    for (path, text) in core_sources() {
        let inside = path.strip_prefix(workspace().join("crates/baton-core/src")).unwrap();
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let own = first.trim_end_matches(".rs");
        let Some(own_rank) = rank(own) else { continue };
        for used in text.split("crate::").skip(1) {
            let module: String =
                used.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            match rank(&module) {
                Some(used_rank) if used_rank <= own_rank => {}
                _ => wrong.push(format!("{} uses crate::{module}", inside.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_agent_verdict_or_status_word_stands_in_the_code() {
    let mut words = BTreeSet::new();
    for name in crate::PACKS {
        for language in crate::LANGUAGES {
            let pack = Pack::read(&common::pack_files(name), language).unwrap();
            words.extend(pack.manifest.agent_names().iter().map(ToString::to_string));
            words.extend(pack.policy.report_rules.verdict_allowed.clone());
            words.extend(pack.policy.plan.words().into_iter().map(str::to_owned));
            let rules = &pack.policy.report_rules;
            words.extend(rules.blocker_clear_value.0.clone());
            words.extend(
                [&rules.verdict_prefix, &rules.blocker_prefix]
                    .map(|prefix| prefix.replace(['：', ':'], "")),
            );
        }
    }
    // These are English words of messages, too.
    for word in ["none", "verdict", "blockers"] {
        assert!(words.remove(word), "{word}");
    }
    assert!(words.len() > 25, "{words:?}");
    let mut wrong = words_in_code(&words, &[]);
    // Words of what packs are about: only in the modules of scenarios, where older policies are read,
    // and where the tools of software projects are known.
    let about = [
        "tdd",
        "Tdd",
        "TddRules",
        "test_required",
        "coverage",
        "init",
        "execute",
        "InitToExecute",
        "ExecuteToInit",
        "init_to_execute",
        "execute_to_init",
        "chapter",
        "novel",
        "design",
        "designs",
        "designer",
    ];
    let elsewhere = [
        "baton-core/src/scenario",
        "baton-core/src/handoff",
        "baton-core/src/policy/older.rs",
        "baton-core/src/messages/pack.rs",
        "baton-core/src/messages/terminal.rs",
        "baton-core/src/machine.rs",
        // What the facts of the machine are called.
        "baton-core/src/messages/prompt.rs",
        "baton-core/src/observation/output.rs",
        "baton-runtime/src/evaluate",
        "baton-runtime/src/handoff.rs",
        "baton-runtime/src/builtin.rs",
        "baton-runtime/src/earlier.rs",
        "baton-runtime/src/machine.rs",
        "baton-runtime/src/drive/outputs.rs",
        // A section of git's settings, and a folder of gradle.
        "baton-runtime/src/sandbox/home/clean.rs",
        "baton-runtime/src/sandbox/home/known.rs",
    ];
    wrong.extend(words_in_code(&about.map(str::to_owned).into(), &elsewhere));
    assert!(wrong.is_empty(), "domain words belong into packs: {wrong:#?}");
}

/// Where these words stand in core and runtime. With exceptions, what is at these paths is left out, and
/// so are comments, tests and the names that files give to keys.
fn words_in_code(words: &BTreeSet<String>, except: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut all = core_sources();
    all.extend(sources(&workspace().join("crates/baton-runtime/src")));
    for (path, text) in all {
        let path = path.to_string_lossy().into_owned();
        let inside = path.rsplit("/crates/").next().unwrap_or_default().to_owned();
        if except.iter().any(|own| inside.starts_with(own)) {
            continue;
        }
        // The end of a provider's stream is written so on the wire.
        let text = text.replace("[DONE]", "");
        let is_strict = except.is_empty();
        let code = text.split("#[cfg(test)]").next().filter(|_| !is_strict).unwrap_or(&text);
        for (number, line) in code.lines().enumerate() {
            let line = if is_strict { line } else { without_keys(line) };
            for found in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
                if words.contains(found) {
                    wrong.push(format!("{inside}:{}: {found}", number + 1));
                }
            }
        }
    }
    wrong
}

/// A line without its comment; nothing of one that names the key of a file.
fn without_keys(line: &str) -> &str {
    let is_key = line.contains("serde(rename");
    let code = if line.trim_start().starts_with("//") { "" } else { line };
    if is_key { "" } else { code }
}

#[test]
fn every_module_says_what_it_is() {
    for crate_name in ["baton-core", "baton-runtime", "baton-cli", "baton-testkit"] {
        for (path, text) in sources(&workspace().join("crates").join(crate_name).join("src")) {
            assert!(text.starts_with("//! "), "{} has no opening lines", path.display());
        }
    }
}

#[test]
fn the_testkit_is_for_tests_alone() {
    for crate_name in ["baton-core", "baton-runtime", "baton-cli"] {
        let path = workspace().join("crates").join(crate_name).join("Cargo.toml");
        let manifest = fs::read_to_string(path).unwrap();
        let (product, _) = manifest.split_once("[dev-dependencies]").unwrap();
        assert!(!product.contains("baton-testkit"), "{crate_name} builds the testkit in");
    }
}

#[test]
fn no_test_is_skipped_and_no_lint_silenced() {
    // Split, so that this file does not find itself.
    let forbidden = [concat!("#[", "ignore"), concat!("#[", "allow("), concat!("#![", "allow(")];
    for (path, text) in sources(&workspace().join("crates")) {
        for word in forbidden {
            assert!(!text.contains(word), "{} holds {word}", path.display());
        }
    }
}

#[test]
fn every_crate_is_in_the_code_map() {
    let map = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    for (path, _) in
        core_sources().iter().chain(&sources(&workspace().join("crates/baton-runtime/src")))
    {
        let module = path.file_stem().unwrap().to_str().unwrap();
        if module != "lib" {
            assert!(
                map.contains(&format!("`{module}`")),
                "ARCHITECTURE.md does not name `{module}`"
            );
        }
    }
}

/// `` `file.rs`: `one`, `two(Event)` `` in docs/walk.md: the functions are in that file.
#[test]
fn the_walk_names_functions_that_exist() {
    let walk = std::fs::read_to_string(workspace().join("docs/walk.md")).unwrap();
    let mut all = core_sources();
    all.extend(sources(&workspace().join("crates/baton-runtime/src")));
    let mut checked = 0;
    for place in walk.split("`: `").zip(walk.split("`: `").skip(1)) {
        let file = place.0.rsplit('`').next().unwrap_or_default();
        let file =
            file.trim_start_matches("baton-core/src/").trim_start_matches("baton-runtime/src/");
        let found: Vec<_> = all
            .iter()
            .filter(|(path, _)| path.ends_with(std::path::Path::new("src").join(file)))
            .collect();
        assert!(!found.is_empty(), "docs/walk.md names `{file}`");
        // The list ends where something else than a comma is between two of them.
        let mut names = place.1.split("`, `").collect::<Vec<_>>();
        if let Some(last) = names.pop() {
            names.push(last.split('`').next().unwrap_or_default());
        }
        for name in names {
            let name = name.split('(').next().unwrap_or_default();
            let name = name.rsplit("::").next().unwrap_or_default();
            let is_in = |text: &str| {
                text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<"))
            };
            assert!(
                found.iter().any(|(_, text)| is_in(text)),
                "`{file}` has no `{name}` (docs/walk.md)"
            );
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}
