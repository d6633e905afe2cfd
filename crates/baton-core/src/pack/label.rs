//! A line for people in a pack's manifest: one for all languages of the pack, or one for each.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// One line, or a line for each language: `{ en = "…", zh = "…" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Label {
    Same(String),
    Each(IndexMap<String, String>),
}

impl Label {
    /// The line in a language; in another one where there is none.
    pub fn of(&self, language: &str) -> &str {
        match self {
            Label::Same(line) => line,
            Label::Each(lines) => {
                lines.get(language).or_else(|| lines.values().next()).map_or("", String::as_str)
            }
        }
    }

    /// Its fault in a pack of these languages.
    pub(super) fn problem(&self, languages: &[String]) -> Option<String> {
        let is_line = |text: &String| {
            !text::is_blank(text) && !text.chars().any(|c| c.is_control() || text::is_invisible(c))
        };
        match self {
            Label::Same(line) if is_line(line) => None,
            Label::Each(lines) => {
                let missing = languages.iter().find(|language| !lines.contains_key(*language));
                let other = lines.keys().find(|language| !languages.contains(language));
                match (missing, other) {
                    (Some(missing), _) => {
                        Some(format!("a line for the language `{missing}` is missing"))
                    }
                    (None, Some(other)) => {
                        let other = text::shown(other, 20);
                        Some(format!("the pack has no language `{other}`"))
                    }
                    (None, None) if lines.values().all(is_line) => None,
                    (None, None) => Some("one line of plain text is needed".to_owned()),
                }
            }
            Label::Same(_) => Some("one line of plain text is needed".to_owned()),
        }
    }
}

impl From<&str> for Label {
    fn from(line: &str) -> Label {
        Label::Same(line.to_owned())
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Label, D::Error> {
        deserializer.deserialize_any(LabelVisitor)
    }
}

struct LabelVisitor;

impl<'de> serde::de::Visitor<'de> for LabelVisitor {
    type Value = Label;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a string, or a string for each language as in { en = \"…\", zh = \"…\" }")
    }

    fn visit_str<E: serde::de::Error>(self, line: &str) -> Result<Label, E> {
        Ok(Label::from(line))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut lines: A) -> Result<Label, A::Error> {
        let mut each = IndexMap::new();
        while let Some((language, line)) = lines.next_entry()? {
            each.insert(language, line);
        }
        Ok(Label::Each(each))
    }
}
