//! How an agent keeps within its window: which strategy, from which size on, what stays whole. The
//! differences between agents are these figures; the mechanism is one (`thread`).

use std::sync::OnceLock;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::message::Wire;
use crate::problem::Problem;
use crate::thread::compact::{self, Strategy};
use crate::turn::Protocol;

/// Of a model of which nothing is known.
const WINDOW: u64 = 200_000;

/// `[profiles.NAME]`: what is set stands over the built-in profile of that name, or over `stage`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens; absent: the model's own, else 200,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Compaction begins at so many tokens; absent: 0.8 of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_at: Option<u64>,
    /// Steps that stay whole or, with `archive`, turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_recent: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// What a handover's summary has to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_keys: Option<Vec<String>>,
    /// Writes the summaries of `archive`; absent: the model itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Calls of the model in one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
}

/// The profiles that need no configuration, as data.
const BUILT_IN: &str = include_str!("profiles.toml");

/// By name.
fn all_built_in() -> &'static IndexMap<String, Profile> {
    static READ: OnceLock<IndexMap<String, Profile>> = OnceLock::new();
    READ.get_or_init(|| {
        let read = Document::toml(BUILT_IN).and_then(|document| document.read());
        read.expect("the built-in profiles are tested")
    })
}

impl Profile {
    /// The profile of this name, what the configuration says over what is built in.
    pub fn named(name: &str, own: &IndexMap<String, Profile>) -> Result<Profile, Problem> {
        let built_in = Profile::built_in(name);
        match (own.get(name), built_in) {
            (Some(own), built_in) => Ok(own.clone().over(built_in.unwrap_or_else(Profile::stage))),
            (None, Some(built_in)) => Ok(built_in),
            (None, None) => {
                let names: Vec<&str> =
                    all_built_in().keys().chain(own.keys()).map(String::as_str).collect();
                let message = format!("there is no profile `{name}`");
                Err(Problem::new("profile-unknown", message).one_of(name, &names))
            }
        }
    }

    fn built_in(name: &str) -> Option<Profile> {
        all_built_in().get(name).map(|own| own.clone().over(Profile::stage()))
    }

    /// The base of every other profile.
    fn stage() -> Profile {
        all_built_in().get("stage").cloned().unwrap_or_default()
    }

    fn over(self, base: Profile) -> Profile {
        Profile {
            model: self.model.or(base.model),
            context_window: self.context_window.or(base.context_window),
            compact_at: self.compact_at.or(base.compact_at),
            keep_recent: self.keep_recent.or(base.keep_recent),
            strategy: self.strategy.or(base.strategy),
            summary_keys: self.summary_keys.or(base.summary_keys),
            summary_model: self.summary_model.or(base.summary_model),
            protocol: self.protocol.or(base.protocol),
            steps: self.steps.or(base.steps),
        }
    }

    /// The same profile for a model with this window: what is built in shrinks with it, what the
    /// configuration sets stays as it is.
    pub fn named_within(
        name: &str,
        own: &IndexMap<String, Profile>,
        window: Option<u64>,
    ) -> Result<Profile, Problem> {
        Profile::named(name, own)?;
        let base = Profile::built_in(name).unwrap_or_else(Profile::stage).within(window);
        Ok(own.get(name).cloned().unwrap_or_default().over(base))
    }

    /// A window that the model does not have is replaced by the model's own, used to the same share.
    fn within(mut self, window: Option<u64>) -> Profile {
        let has = window.unwrap_or(WINDOW);
        if let Some(wished) = self.context_window.filter(|wished| has < *wished) {
            self.compact_at = self.compact_at.map(|at| at * has / wished);
            self.context_window = Some(has);
        }
        self
    }

    /// The model that a profile names, where this provider can have it: those that are built in are
    /// Anthropic's.
    pub fn model_at(name: &str, own: &IndexMap<String, Profile>, wire: Wire) -> Option<String> {
        let built_in = || Profile::built_in(name).filter(|_| wire == Wire::Anthropic)?.model;
        own.get(name).and_then(|own| own.model.clone()).or_else(built_in)
    }

    /// The figures for a model with this window.
    pub fn settings(&self, model_window: Option<u64>) -> compact::Settings {
        let window = self.context_window.or(model_window).unwrap_or(WINDOW);
        // A threshold beyond the window would never be reached.
        let compact_at = self.compact_at.unwrap_or(window / 5 * 4).min(window);
        compact::Settings {
            strategy: self.strategy.unwrap_or_default(),
            compact_at,
            keep: self.keep_recent.unwrap_or(5).max(1),
            keys: self.summary_keys.clone().unwrap_or_default(),
        }
    }
}
