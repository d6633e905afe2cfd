//! Cases as text: `tests/cases/` holds them, and its README says how they are written. This reads
//! them, compares the results with the expected text, and rewrites that text when asked to.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use baton_core::text;
use similar::TextDiff;

/// Set to anything: the expected text in the files is rewritten.
const UPDATE: &str = "BATON_UPDATE_CASES";

#[derive(Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) settings: Vec<String>,
    pub(crate) input: Vec<u8>,
    expected: String,
    file: PathBuf,
    /// Where the expected block stands in the file, its fences included.
    block: Range<usize>,
}

/// Every case of a kind, file by file. `word` opens the block of the input.
pub(crate) fn all(kind: &str, word: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(kind);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| of_file(file, word)).collect()
}

fn of_file(file: &Path, word: &str) -> Vec<Case> {
    let text = fs::read_to_string(file).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    let mut given = false;
    let mut lines = text.split_inclusive('\n').scan(0, |end, line| {
        *end += line.len();
        Some((*end - line.len(), line))
    });
    while let Some((start, line)) = lines.next() {
        let at = format!("{}, line {}", file.display(), text[..start].lines().count() + 1);
        if let Some(heading) = line.strip_prefix("## ") {
            assert!(given || cases.is_empty(), "{at}: the case before has no input");
            let (name, settings) = heading.split_once(" | ").expect(&at);
            let settings = settings.split_whitespace().map(str::to_owned).collect();
            let (name, file) = (name.to_owned(), file.to_owned());
            cases.push(Case { name, settings, file, ..Case::default() });
            given = false;
        } else if line.starts_with("```") {
            let fence = &line[..line.len() - line.trim_start_matches('`').len()];
            let closed = lines.find(|(_, line)| line.trim_end() == fence).expect(&at);
            let body = &text[start + line.len()..closed.0];
            let (case, end) = (cases.last_mut().expect(&at), closed.0 + closed.1.len());
            match line[fence.len()..].trim_end() {
                "expected" if given && case.block.is_empty() => {
                    (case.expected, case.block) = (body.to_owned(), start..end);
                }
                info if info == word && !given => {
                    (case.input, case.block, given) = (case.given(body), end..end, true);
                }
                info => panic!("{at}: no block `{info}` belongs here"),
            }
        }
    }
    assert!(given, "{}: the last case has no input", file.display());
    cases
}

impl Case {
    pub(crate) fn is(&self, setting: &str) -> bool {
        self.settings.iter().any(|own| own == setting)
    }

    /// The input that a block stands for.
    fn given(&self, body: &str) -> Vec<u8> {
        if self.is("escaped") {
            return unescaped(body).unwrap_or_else(|| panic!("{}: a wrong escape", self.name));
        }
        let hidden = |c: char| c.is_control() || c.is_whitespace() || text::is_invisible(c);
        let hides = body.contains(|c| hidden(c) && c != ' ' && c != '\n') || body.contains(" \n");
        assert!(!hides, "{}: what a reader cannot see is to be `escaped`", self.name);
        body.into()
    }

    /// For messages.
    pub(crate) fn place(&self) -> String {
        let file = self.file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
        format!("{}: {}", file.display(), self.name)
    }
}

fn unescaped(body: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        rest = after.get(1..)?;
        match &after[..1] {
            "\n" => {}
            "\\" => out.push(b'\\'),
            "r" => out.push(b'\r'),
            "t" => out.push(b'\t'),
            "x" => {
                out.push(u8::from_str_radix(rest.get(..2)?, 16).ok()?);
                rest = &rest[2..];
            }
            "u" => {
                let (number, behind) = rest.strip_prefix('{')?.split_once('}')?;
                let letter = char::from_u32(u32::from_str_radix(number, 16).ok()?)?;
                out.extend_from_slice(letter.to_string().as_bytes());
                rest = behind;
            }
            _ => return None,
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Some(out)
}

/// Fails with the differences of all cases at once, or rewrites the expected text in the files.
pub(crate) fn check(cases: &[Case], found: impl Fn(&Case) -> Vec<String>) {
    let mut wrong = String::new();
    let mut files: BTreeMap<&Path, String> = BTreeMap::new();
    // From the end, so that the places of the blocks before stay as they are.
    for case in cases.iter().rev() {
        let found: String = found(case).iter().map(|line| format!("{line}\n")).collect();
        if found == case.expected {
            continue;
        }
        let file =
            files.entry(&case.file).or_insert_with(|| fs::read_to_string(&case.file).unwrap());
        let fence = text::fence_for(&found);
        let gap = if case.block.is_empty() { "\n" } else { "" };
        file.replace_range(case.block.clone(), &format!("{gap}{fence}expected\n{found}{fence}\n"));
        let diff = TextDiff::from_lines(&case.expected, &found);
        wrong.insert_str(0, &format!("\n{}\n{}", case.place(), diff.unified_diff()));
    }
    if env::var(UPDATE).is_ok() {
        files.iter().for_each(|(path, text)| fs::write(path, text).unwrap());
    } else {
        assert!(wrong.is_empty(), "- is expected, + was found ({UPDATE}=1 writes it):\n{wrong}");
    }
}
