//! A text in every language, for what is written before it is known who reads it.

use std::fmt;
use std::ops::Deref;

use serde::{Serialize, Serializer};

use super::Language;

/// A text in every language, made at once. As a string, in JSON and on a terminal it is English.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalizedText {
    english: String,
    /// `None`: not translated, the English text is for everyone.
    chinese: Option<String>,
}

impl LocalizedText {
    pub fn new(text: impl Fn(Language) -> String) -> LocalizedText {
        LocalizedText { english: text(Language::English), chinese: Some(text(Language::Chinese)) }
    }

    pub fn text(&self, language: Language) -> &str {
        match (language, &self.chinese) {
            (Language::Chinese, Some(chinese)) => chinese,
            _ => &self.english,
        }
    }

    /// The text inside of another one. What is not translated stays so.
    #[must_use]
    pub fn map(&self, outer: impl Fn(Language, &str) -> String) -> LocalizedText {
        LocalizedText {
            english: outer(Language::English, &self.english),
            chinese: self.chinese.as_deref().map(|text| outer(Language::Chinese, text)),
        }
    }
}

impl From<String> for LocalizedText {
    fn from(english: String) -> LocalizedText {
        LocalizedText { english, chinese: None }
    }
}

impl From<&str> for LocalizedText {
    fn from(english: &str) -> LocalizedText {
        english.to_owned().into()
    }
}

impl Deref for LocalizedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.english
    }
}

impl fmt::Display for LocalizedText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.english)
    }
}

impl Serialize for LocalizedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.english)
    }
}
