//! JSON and TOML as trees that remember where every value stands, and typed reading out of them.
//! Goes in: untrusted text. Comes out: a tree, or a type, or one `Problem` with its exact place.
//! serde_json alone reports where it stopped, not where the wrong value begins, lets duplicate
//! keys pass in maps and knows no nearest word; control flow depends on these documents.

mod de;
mod json;
mod shape;
mod strict;
mod toml;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::messages::Language;
use crate::problem::{Place, Problem};

pub(crate) use strict::NoKeyTwice;
pub use strict::Strict;

/// No document of ours comes near it; the tree of a hostile one would take many times its size.
pub const MAX_BYTES: usize = 1 << 20;
/// More keys than this in one object are nobody's configuration; merging compares them pairwise.
pub const MAX_KEYS: usize = 1_000;
/// Deep enough for any of our schemas, shallow enough for any stack.
pub const MAX_DEPTH: usize = 64;

/// Words of a document that are refused in one go.
const MOST_WORDS: usize = 50;

/// How large a text may be, and the tree that is made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub bytes: usize,
    /// In one object.
    pub keys: usize,
    /// All together: a tree takes many times the bytes of a text such as `[0,0,0,…]`.
    pub values: usize,
}

impl Bounds {
    /// What a person or a model writes.
    pub const DOCUMENT: Bounds = Bounds { bytes: MAX_BYTES, keys: MAX_KEYS, values: MAX_BYTES };
}

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub span: Span,
    pub value: Value,
}

/// Bytes `start..end` of one of the document's sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub source: u16,
    pub start: usize,
    pub end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(Key, Node)>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    pub span: Span,
    pub name: String,
}

/// A tree and the texts that it came from.
#[derive(Debug, Clone)]
pub struct Document {
    sources: Vec<Source>,
    pub root: Node,
}

#[derive(Debug, Clone)]
struct Source {
    name: Option<String>,
    text: String,
}

/// A key that a type does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    /// As `report_rules.verdict`.
    pub path: String,
    pub problem: Problem,
}

impl Document {
    pub fn json(text: &str) -> Result<Document, Problem> {
        Self::json_within(text, Bounds::DOCUMENT)
    }

    pub fn json_within(text: &str, bounds: Bounds) -> Result<Document, Problem> {
        Self::parsed(text, bounds.bytes, |text| json::parse(text, bounds))
    }

    pub fn toml(text: &str) -> Result<Document, Problem> {
        Self::parsed(text, MAX_BYTES, toml::parse)
    }

    fn parsed(
        text: &str,
        max_bytes: usize,
        parse: impl FnOnce(&str) -> Result<Node, (usize, Problem)>,
    ) -> Result<Document, Problem> {
        if text.len() > max_bytes {
            return Err(Problem::localized("document-size", |language| {
                language.document_too_large(text.len(), max_bytes)
            }));
        }
        let source = Source { name: None, text: text.to_owned() };
        match parse(text) {
            Ok(root) => Ok(Document { sources: vec![source], root }),
            Err((offset, problem)) => Err(problem.at(Place::of(text, offset))),
        }
    }

    /// Names the text, for problems of documents laid over one another.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Document {
        if let Some(source) = self.sources.first_mut() {
            source.name = Some(name.into());
        }
        self
    }

    /// Lays `top` over this document: objects merge key by key where `merges` says so for their path
    /// (the root's is empty), anything else is replaced whole.
    #[must_use]
    pub fn overlaid(mut self, top: Document, merges: impl Fn(&str) -> bool) -> Document {
        let shift = u16::try_from(self.sources.len()).unwrap_or(u16::MAX);
        self.sources.extend(top.sources);
        merge(&mut self.root, shifted(top.root, shift), "", &merges);
        self
    }

    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.read_node(&self.root)
    }

    pub fn read_node<T: DeserializeOwned>(&self, node: &Node) -> Result<T, Problem> {
        T::deserialize(node).map_err(|error: de::Error| {
            let span = error.span.unwrap_or(node.span);
            self.locate(error.into_problem(), span)
        })
    }

    /// As `read`, leaving out the keys that the type does not know. These come back with their paths.
    pub fn read_known<T: DeserializeOwned>(&self) -> (Result<T, Problem>, Vec<UnknownKey>) {
        let mut root = self.root.clone();
        let mut unknown = Vec::new();
        loop {
            let error = match T::deserialize(&root) {
                Ok(read) => return (Ok(read), unknown),
                Err(error) => error,
            };
            let key = error.unknown_key();
            let span = error.span.unwrap_or(root.span);
            let problem = self.locate(error.into_problem(), span);
            match key {
                Some((span, path)) if remove_key(&mut root, span) => {
                    unknown.push(UnknownKey { path, problem });
                }
                _ => return (Err(problem), unknown),
            }
        }
    }

    /// As `read`, with every unknown and missing key and every value of the wrong kind, in the order
    /// of the text.
    pub fn read_all<T: DeserializeOwned + JsonSchema>(&self) -> Result<T, Vec<Problem>> {
        let (read, unknown) = self.read_known::<T>();
        let mut problems = match read {
            Ok(read) if unknown.is_empty() => return Ok(read),
            Ok(_) => unknown.into_iter().map(|key| key.problem).collect(),
            Err(first) => {
                let schema = serde_json::json!(schemars::schema_for!(T));
                let mut shape = shape::problems(self, &schema);
                if shape.iter().all(|problem| problem.code == de::UNKNOWN_KEY) {
                    shape.extend(self.wrong_words::<T>(first));
                }
                shape
            }
        };
        problems.sort_by(|a, b| (&a.file, a.place).cmp(&(&b.file, b.place)));
        Err(problems)
    }

    /// Every word that the type refuses, such as the name of an agent: each is replaced by one that
    /// may fit, until the rest can be read or nothing more is found.
    fn wrong_words<T: DeserializeOwned>(&self, first: Problem) -> Vec<Problem> {
        let mut root = self.root.clone();
        let mut places = std::collections::BTreeSet::new();
        let mut problems = Vec::new();
        while let Err(error) = T::deserialize(&root) {
            if let Some((span, _)) = error.unknown_key() {
                // It is reported by itself.
                if !remove_key(&mut root, span) {
                    break;
                }
                continue;
            }
            let span = error.span.unwrap_or(root.span);
            let problem = self.locate(error.into_problem(), span);
            if problems.len() == MOST_WORDS || problems.contains(&problem) {
                break;
            }
            problems.push(problem);
            // A second refusal at the same place would be a problem of our own word.
            if !rename(&mut root, span, &format!("A{}", problems.len()))
                || !places.insert((span.source, span.start))
            {
                break;
            }
        }
        if problems.is_empty() { vec![first] } else { problems }
    }

    /// Adds what `defaults` has and this document does not. What is added is located where it is
    /// missing.
    #[must_use]
    pub fn completed(mut self, defaults: Document, merges: impl Fn(&str) -> bool) -> Document {
        complete(&mut self.root, defaults.root, "", &merges);
        self
    }

    /// The node at a path such as `report_rules.verdict_pass`, or the deepest that exists.
    pub fn nearest_node(&self, path: &str) -> &Node {
        let mut node = &self.root;
        for part in path.split('.') {
            let next = match &node.value {
                Value::Object(entries) => {
                    entries.iter().find(|(key, _)| key.name == part).map(|(_, value)| value)
                }
                Value::Array(items) => part.parse().ok().and_then(|index: usize| items.get(index)),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// Gives a problem the file and place of a span.
    pub fn locate(&self, problem: Problem, span: Span) -> Problem {
        let Some(source) = self.sources.get(usize::from(span.source)) else { return problem };
        let mut problem = problem.at(Place::of(&source.text, span.start));
        if problem.found.is_none() && span.end > span.start {
            problem = problem.found(source.text.get(span.start..span.end).unwrap_or_default());
        }
        match &source.name {
            Some(name) => problem.in_file(name),
            None => problem,
        }
    }

    pub fn locate_at(&self, problem: Problem, path: &str) -> Problem {
        self.locate(problem, self.nearest_node(path).span)
    }
}

impl Node {
    pub fn get(&self, name: &str) -> Option<&Node> {
        match &self.value {
            Value::Object(entries) => {
                entries.iter().find(|(key, _)| key.name == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        let entries: &[(Key, Node)] = match &self.value {
            Value::Object(entries) => entries,
            _ => &[],
        };
        entries.iter().map(|(key, _)| key)
    }
}

impl Value {
    /// The kind of value, as a user calls it.
    pub fn kind(&self, language: Language) -> String {
        match self {
            Value::Null => language.kind_null(),
            Value::Bool(_) => language.kind_boolean(),
            Value::Integer(_) | Value::Float(_) => language.kind_number(),
            Value::String(_) => language.kind_string(),
            Value::Array(_) => language.kind_list(),
            Value::Object(_) => language.kind_object(),
        }
    }
}

/// Gives the word or the key at this place another text; `false` when there is none.
fn rename(node: &mut Node, span: Span, text: &str) -> bool {
    let here = node.span == span;
    match &mut node.value {
        Value::String(word) if here => {
            text.clone_into(word);
            true
        }
        Value::Array(items) => items.iter_mut().any(|item| rename(item, span, text)),
        Value::Object(entries) => entries.iter_mut().any(|(key, value)| {
            if key.span == span {
                text.clone_into(&mut key.name);
            }
            key.span == span || rename(value, span, text)
        }),
        _ => false,
    }
}

/// Removes the key at this place; `false` when there is none.
fn remove_key(node: &mut Node, span: Span) -> bool {
    match &mut node.value {
        Value::Object(entries) => match entries.iter().position(|(key, _)| key.span == span) {
            Some(at) => {
                entries.remove(at);
                true
            }
            None => entries.iter_mut().any(|(_, value)| remove_key(value, span)),
        },
        Value::Array(items) => items.iter_mut().any(|item| remove_key(item, span)),
        _ => false,
    }
}

fn merge(below: &mut Node, top: Node, path: &str, merges: &dyn Fn(&str) -> bool) {
    match (&mut below.value, top.value) {
        (Value::Object(entries), Value::Object(new)) if merges(path) => {
            for (key, node) in new {
                match entries.iter_mut().find(|(old, _)| old.name == key.name) {
                    Some((_, old)) => {
                        let dot = if path.is_empty() { "" } else { "." };
                        merge(old, node, &format!("{path}{dot}{}", key.name), merges);
                    }
                    None => entries.push((key, node)),
                }
            }
        }
        (slot, value) => {
            *slot = value;
            below.span = top.span;
        }
    }
}

fn complete(node: &mut Node, defaults: Node, path: &str, merges: &dyn Fn(&str) -> bool) {
    let span = node.span;
    let (Value::Object(entries), Value::Object(new)) = (&mut node.value, defaults.value) else {
        return;
    };
    if !merges(path) {
        return;
    }
    for (mut key, mut value) in new {
        match entries.iter_mut().find(|(old, _)| old.name == key.name) {
            Some((_, old)) => {
                let dot = if path.is_empty() { "" } else { "." };
                complete(old, value, &format!("{path}{dot}{}", key.name), merges);
            }
            None => {
                key.span = span;
                locate_all(&mut value, span);
                entries.push((key, value));
            }
        }
    }
}

fn locate_all(node: &mut Node, span: Span) {
    node.span = span;
    match &mut node.value {
        Value::Array(items) => items.iter_mut().for_each(|item| locate_all(item, span)),
        Value::Object(entries) => entries.iter_mut().for_each(|(key, value)| {
            key.span = span;
            locate_all(value, span);
        }),
        _ => {}
    }
}

fn shifted(mut node: Node, shift: u16) -> Node {
    node.span.source += shift;
    match &mut node.value {
        Value::Array(items) => {
            for item in items.iter_mut() {
                *item = shifted(std::mem::replace(item, NOTHING), shift);
            }
        }
        Value::Object(entries) => {
            for (key, value) in entries.iter_mut() {
                key.span.source += shift;
                *value = shifted(std::mem::replace(value, NOTHING), shift);
            }
        }
        _ => {}
    }
    node
}

const NOTHING: Node = Node { span: Span { source: 0, start: 0, end: 0 }, value: Value::Null };
