//! Typed reading out of a tree: serde's derive does the work, this keeps the place of what is
//! wrong and turns serde's questions into problems with the nearest right word.

use std::fmt;

use serde::de::{self, DeserializeSeed, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::{Node, Span, Value};
use crate::messages::{Language, LocalizedText};
use crate::problem::{Problem, list_in};
use crate::text;

pub(super) const UNKNOWN_KEY: &str = "key-unknown";
pub(super) const MISSING_KEY: &str = "key-missing";

#[derive(Debug)]
pub struct Error {
    pub(super) span: Option<Span>,
    problem: Box<Problem>,
    /// The way to the value, innermost first.
    path: Vec<String>,
}

impl Error {
    fn new(problem: Problem) -> Error {
        Error { span: None, problem: Box::new(problem), path: Vec::new() }
    }

    pub(super) fn into_problem(self) -> Problem {
        let mut problem = *self.problem;
        if !self.path.is_empty() {
            let path: Vec<&str> = self.path.iter().rev().map(String::as_str).collect();
            let path = text::shown(&path.join("."), 120);
            let inside =
                |language: Language, message: &str| language.problem_in_value(&path, message);
            problem.message = problem.message.map(inside);
        }
        problem
    }

    /// The place and the whole path of a key that the type does not know, where that is the error.
    pub(super) fn unknown_key(&self) -> Option<(Span, String)> {
        let span = self.span.filter(|_| self.problem.code == UNKNOWN_KEY)?;
        let mut path: Vec<&str> = self.path.iter().rev().map(String::as_str).collect();
        path.extend(self.problem.found.as_deref());
        Some((span, path.join(".")))
    }

    fn located(mut self, span: Span) -> Error {
        self.span.get_or_insert(span);
        self
    }

    fn inside(mut self, name: impl Into<String>) -> Error {
        self.path.push(name.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(out)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Error {
        Error::new(Problem::new("value-invalid", message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Error {
        let kind = |language: Language| match found {
            Unexpected::Unit => language.kind_null(),
            Unexpected::Bool(_) => language.kind_boolean(),
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => language.kind_whole_number(),
            Unexpected::Float(_) => language.kind_fraction(),
            Unexpected::Str(_) => language.kind_string(),
            Unexpected::Seq => language.kind_list(),
            Unexpected::Map => language.kind_object(),
            _ => language.kind_other(),
        };
        Error::new(misfit(kind).expected(plain(expected)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Error {
        let message = format!("{found} does not fit here");
        Error::new(Problem::new("value-invalid", message).expected(plain(expected)))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Error {
        let shown = text::shown(field, 60);
        let problem = Problem::localized(UNKNOWN_KEY, |language| language.key_unknown(&shown));
        Error::new(problem.found(field).one_of(field, expected))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Error {
        let shown = text::shown(variant, 60);
        let problem =
            Problem::localized("value-unknown", |language| language.value_unknown(&shown));
        Error::new(problem.found(variant).one_of(variant, expected))
    }

    fn missing_field(field: &'static str) -> Error {
        let mut problem = Problem::localized(MISSING_KEY, |language| language.key_missing(field));
        // The object that lacks it may be long; its whole text would say nothing.
        problem.found = Some(String::new());
        Error::new(problem)
    }
}

pub(super) fn unknown_key(key: &str) -> String {
    Language::English.key_unknown(text::shown(key, 60))
}

pub(super) fn missing_key(key: &str) -> String {
    Language::English.key_missing(key)
}

fn misfit(kind: impl Fn(Language) -> String) -> Problem {
    Problem::localized("value-type", |language| language.value_misfit(kind(language)))
}

/// serde words its expectations for programmers. Those of our own types are in the table as far as
/// a model can meet them.
fn plain(expected: &dyn Expected) -> LocalizedText {
    let written = expected.to_string();
    let known = match written.as_str() {
        "a string" => Language::kind_string,
        "a sequence" => Language::kind_list,
        "a map" => Language::kind_object,
        "a boolean" => Language::kind_boolean,
        "u8" | "u16" | "u32" | "u64" | "usize" => Language::kind_natural_number,
        name if name.starts_with("struct ") => Language::kind_object,
        other if other == Language::English.dev_plan_forms() => Language::dev_plan_forms,
        _ => return written.into(),
    };
    LocalizedText::new(known)
}

impl<'de> de::Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let result = match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => visitor.visit_u64(value),
                (_, Ok(value)) => visitor.visit_i64(value),
                _ => Err(de::Error::custom("the number is out of range")),
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::String(value) => visitor.visit_borrowed_str(value),
            Value::Array(items) => visitor.visit_seq(Items { items: items.iter().enumerate() }),
            Value::Object(entries) => {
                visitor.visit_map(Entries { entries: entries.iter(), current: None })
            }
        };
        result.map_err(|error| error.located(self.span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// serde would also take a list for a struct, field by field in order: `["x"]` for
    /// `{"replace": "x"}`.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(_) => {
                let problem = misfit(Language::kind_list).expecting(Language::kind_object);
                Err(Error::new(problem).located(self.span))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.value {
            Value::String(word) => visitor
                .visit_enum(word.as_str().into_deserializer())
                .map_err(|error: Error| error.located(self.span)),
            other => {
                let problem = misfit(|language| other.kind(language))
                    .expecting(|language| language.one_of(list_in(language, variants)));
                Err(Error::new(problem).located(self.span))
            }
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'de> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Node>>,
}

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some((index, item)) = self.items.next() else { return Ok(None) };
        let read = seed.deserialize(item).map(Some);
        read.map_err(|error| error.located(item.span).inside(index.to_string()))
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, (super::Key, Node)>,
    current: Option<&'de (super::Key, Node)>,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        self.current = self.entries.next();
        let Some((key, _)) = self.current else { return Ok(None) };
        let read = seed.deserialize(key.name.as_str().into_deserializer()).map(Some);
        read.map_err(|error: Error| error.located(key.span))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some((key, value)) = self.current.take() else {
            return Err(de::Error::custom("a value was read before its key"));
        };
        let read = seed.deserialize(value);
        read.map_err(|error| error.located(value.span).inside(key.name.as_str()))
    }
}
