//! The project's own rules for agents (L2): `CODE_LAW.md` at the root, else every `AGENTS.md` from the
//! root to the folder that is worked in. Read again for each call; the same file gives the same bytes.

use std::io::Read;

use baton_core::messages::Language;
use baton_core::text;

use crate::beneath::Root;

const LAW: &str = "CODE_LAW.md";
const AGENTS: &str = "AGENTS.md";
/// More of a file is not shown, and that is said.
const BYTES: usize = 48 << 10;

/// The block for the model; empty where the project has no rules. `folder`: worked in, from the root.
pub fn block(root: &Root, folder: &str, language: Language) -> String {
    let files = match law(root) {
        Some(name) => vec![name],
        None => agents(folder),
    };
    let mut out = String::new();
    for name in files {
        let Some(rules) = read(root, &name, language) else { continue };
        if out.is_empty() {
            out.push_str(&language.project_rules());
            out.push('\n');
        }
        let fence = text::fence_for(&rules);
        out.push_str(&format!("\n{name}:\n{fence}\n{}\n{fence}\n", rules.trim_end()));
    }
    out
}

/// In any case of letters; of several spellings the usual one wins, then the first by name.
fn law(root: &Root) -> Option<String> {
    let names = root.entries(".").ok()?;
    let mut found =
        names.into_iter().map(|own| own.name).filter(|own| own.eq_ignore_ascii_case(LAW));
    let first = found.next()?;
    let usual = (first != LAW).then(|| found.find(|own| own == LAW)).flatten();
    Some(usual.unwrap_or(first))
}

fn agents(folder: &str) -> Vec<String> {
    let mut names = vec![AGENTS.to_owned()];
    let mut path = String::new();
    for part in folder.split('/').filter(|part| !part.is_empty() && *part != ".") {
        path.push_str(part);
        path.push('/');
        names.push(format!("{path}{AGENTS}"));
    }
    names
}

fn read(root: &Root, name: &str, language: Language) -> Option<String> {
    let opened = root.read(name).ok()?;
    let mut bytes = Vec::new();
    opened.file.take(BYTES as u64 + 4).read_to_end(&mut bytes).ok()?;
    let rules = String::from_utf8_lossy(&bytes);
    let rules = text::stripped(&rules);
    if rules.trim().is_empty() {
        return None;
    }
    let end = rules.floor_char_boundary(BYTES);
    Some(match end < rules.len() {
        true => format!("{}\n{}", &rules[..end], language.rules_cut(BYTES)),
        false => rules.into_owned(),
    })
}
