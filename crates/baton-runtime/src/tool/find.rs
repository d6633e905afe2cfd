//! Glob and Grep, on ripgrep's libraries: what git ignores is passed over, and so is the blackboard.

use std::io::Read as _;
use std::path::Path;

use baton_core::messages::Language;
use baton_core::observation::shapes::{Glob, Grep, Match};
use baton_core::observation::{Envelope, Status};
use baton_core::text;
use baton_core::turn::Offered;
use globset::{GlobSet, GlobSetBuilder};
use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use serde::Deserialize;
use serde_json::json;

use super::look::here;
use super::{Done, Refusal, Workshop, offer, refused};
use crate::sandbox::Interrupt;
use crate::walk::{self, KnownRules, RuleFiles, Walk, Walked, WasThere};

/// Paths that a search names.
const PATHS: usize = 200;
/// Matches that a search shows.
const MATCHES: usize = 100;
/// Matches that are counted.
const COUNTED: u64 = 10_000;
/// Bytes of matches that are shown.
const BYTES: usize = 32 << 10;
/// Characters of a matching line.
const LINE: usize = 300;
/// Bytes of a pattern, and of the automaton it becomes.
const PATTERN: usize = 2_000;
const AUTOMATON: usize = 4 << 20;
/// A file that is larger is passed over.
const FILE: u64 = 64 << 20;

pub(super) fn offers(language: Language) -> Vec<Offered> {
    let glob = json!({
        "pattern": { "type": "string" },
        "path": { "type": "string", "description": language.glob_path() },
        "hidden": { "type": "boolean" },
    });
    let grep = json!({
        "pattern": { "type": "string" },
        "path": { "type": "string", "description": language.grep_path() },
        "glob": { "type": "string", "description": language.grep_glob() },
        "ignore_case": { "type": "boolean" },
        "hidden": { "type": "boolean" },
    });
    vec![
        offer("Glob", language.glob_tool(), glob, &["pattern"]),
        offer("Grep", language.grep_tool(), grep, &["pattern"]),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GlobArgs {
    pattern: String,
    #[serde(default = "here")]
    path: String,
    #[serde(default)]
    hidden: bool,
}

pub(super) fn glob(shop: &Workshop, args: &GlobArgs, interrupt: &Interrupt) -> Done {
    let matcher = one_glob(&args.pattern, shop.language)?;
    let folder = shop.root.inside(&args.path)?;
    shop.root.look(&folder)?;
    let mut paths: Vec<String> = Vec::new();
    for path in files(shop, &folder, args.hidden, interrupt)? {
        // A pattern counts from the folder that is looked in, or from the root.
        let from_folder = path.strip_prefix(&format!("{folder}/")).unwrap_or(&path);
        if matcher.is_match(&path) || matcher.is_match(from_folder) {
            paths.push(path);
        }
    }
    paths.sort();
    let hits = paths.len() as u64;
    let truncated = paths.len() > PATHS;
    paths.truncate(PATHS);
    // Somebody may swap a folder for a link while we walk.
    paths.retain(|path| shop.root.look(path).is_ok());
    let status = if truncated { Status::Partial } else { Status::Success };
    Ok(Envelope::new(
        status,
        &Glob {
            pattern: args.pattern.clone(),
            path: Some(folder).filter(|folder| folder != "."),
            hits,
            paths,
            truncated,
        },
    ))
}

fn one_glob(pattern: &str, language: Language) -> Result<GlobSet, Refusal> {
    let wrong = |why: String| refused("BAD_PATTERN", why);
    if pattern.len() > PATTERN {
        return Err(wrong(language.pattern_too_long(PATTERN)));
    }
    let glob = globset::GlobBuilder::new(pattern.trim_start_matches("./"))
        .literal_separator(pattern.contains('/'))
        .build();
    // A set of one: a matcher by itself panics where the pattern is nested too deeply.
    let set = glob.and_then(|glob| GlobSetBuilder::new().add(glob).build());
    set.map_err(|error| wrong(text::shown(&error.to_string(), 300)))
}

/// The files of a folder, from the root, in no order that means anything. A name that is not UTF-8 is
/// left out: no tool could be given it.
fn files(
    shop: &Workshop,
    folder: &str,
    hidden: bool,
    interrupt: &Interrupt,
) -> Result<Vec<String>, Refusal> {
    let walked = walk(shop, folder, hidden, None, interrupt);
    let walked = walked.map_err(|error| refused("IO", error.to_string()))?;
    let files = walked.files.into_iter().filter(|own| !own.is_link && !own.name.contains('\0'));
    Ok(files.map(|own| own.name).collect())
}

/// `earlier`: the rules of an earlier look, by which files count as well, and its files.
pub(super) fn walk(
    shop: &Workshop,
    folder: &str,
    hidden: bool,
    earlier: Option<(&RuleFiles, WasThere<'_>)>,
    interrupt: &Interrupt,
) -> Result<Walked, walk::Error> {
    let board = shop.board.as_ref().and_then(|own| own.strip_prefix(shop.root.path()).ok());
    let root = shop.root.access();
    let walk = Walk {
        root: &root,
        start: folder,
        opened: Some(folder).filter(|own| *own != ".").and_then(|own| shop.root.folder_at(own)),
        above: shop.root.exclude(),
        for_search: true,
        only_visible: !hidden,
        except: board.map(Path::to_owned).into_iter().collect(),
        earlier: earlier.map(|own| own.0),
        was_there: earlier.map_or(&|_| false, |own| own.1),
        with_look: earlier.is_some(),
        interrupt,
    };
    walk.run(&mut KnownRules::default())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrepArgs {
    pattern: String,
    #[serde(default = "here")]
    path: String,
    #[serde(default)]
    glob: Option<String>,
    #[serde(default, alias = "-i")]
    ignore_case: bool,
    #[serde(default)]
    hidden: bool,
}

pub(super) fn grep(shop: &Workshop, args: &GrepArgs, interrupt: &Interrupt) -> Done {
    if args.pattern.len() > PATTERN {
        return Err(refused("BAD_PATTERN", shop.language.pattern_too_long(PATTERN)));
    }
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case)
        .size_limit(AUTOMATON)
        .dfa_size_limit(AUTOMATON)
        .line_terminator(Some(b'\n'))
        .build(&args.pattern)
        .map_err(|error| refused("BAD_PATTERN", text::shown(&error.to_string(), 300)))?;
    let only = args.glob.as_deref();
    let only = only.map(|glob| one_glob(glob, shop.language)).transpose()?;
    let inside = shop.root.inside(&args.path)?;
    shop.root.look(&inside)?;
    let mut files = match shop.root.is_file(&inside) {
        true => vec![inside],
        false => files(shop, &inside, args.hidden, interrupt)?,
    };
    files.retain(|file| {
        let name = Path::new(file).file_name().unwrap_or_default();
        only.as_ref().is_none_or(|only| only.is_match(file) || only.is_match(name))
    });
    files.sort();
    let mut found = Found::default();
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(b'\0'))
        .line_number(true)
        .build();
    for file in files {
        found.search(shop, &mut searcher, &matcher, &file);
        if found.hits >= COUNTED || interrupt.is_at_once() {
            break;
        }
    }
    let truncated = found.hits > found.matches.len() as u64;
    let status = if truncated { Status::Partial } else { Status::Success };
    let (hits, files, matches) = (found.hits, found.files, found.matches);
    let pattern = args.pattern.clone();
    let path = Some(args.path.clone()).filter(|path| path != ".");
    let glob = args.glob.clone();
    let data = Grep { pattern, path, glob, hits, files, matches, truncated };
    Ok(Envelope::new(status, &data))
}

#[derive(Debug, Default)]
struct Found {
    hits: u64,
    files: u64,
    matches: Vec<Match>,
    bytes: usize,
}

impl Found {
    fn search(
        &mut self,
        shop: &Workshop,
        searcher: &mut Searcher,
        matcher: &grep_regex::RegexMatcher,
        file: &str,
    ) {
        // Opened beneath the root, whatever the path has become since the walk.
        let Ok(opened) = shop.root.read(file) else { return };
        if opened.size > FILE {
            return;
        }
        let before = self.hits;
        // What cannot be read has no match.
        // It may grow while it is read.
        let reader = opened.file.take(FILE);
        let _ = searcher.search_reader(matcher, reader, In { found: self, file });
        self.files += u64::from(self.hits > before);
    }
}

struct In<'a> {
    found: &'a mut Found,
    file: &'a str,
}

impl Sink for In<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, hit: &SinkMatch<'_>) -> std::io::Result<bool> {
        let found = &mut self.found;
        found.hits += 1;
        if found.matches.len() < MATCHES && found.bytes < BYTES {
            let line = String::from_utf8_lossy(hit.bytes());
            let text = text::cut(line.trim_end(), LINE).into_owned();
            found.bytes += text.len() + self.file.len();
            let line = hit.line_number().unwrap_or(0);
            found.matches.push(Match { file: self.file.to_owned(), line, text });
        }
        Ok(found.hits < COUNTED)
    }
}
