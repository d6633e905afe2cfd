//! Which provider to call: flags, then `BATON_…` variables, then the user's configuration, then
//! the providers' own variables. Keys come from the environment and are never looked at otherwise.

use std::time::Duration;

use baton_core::config::Config;
use baton_core::message::Wire;
use baton_core::problem::{Problem, list};

use super::{Endpoint, Secret};
use crate::load::Environment;
use crate::sandbox;

/// What was said on the command line.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub provider: Option<String>,
    pub base_url: Option<String>,
    pub model: Option<String>,
}

/// Where calls will go.
#[derive(Debug, Clone)]
pub struct Choice {
    pub endpoint: Endpoint,
    /// Unknown when nobody said it; a call needs one.
    pub model: Option<String>,
    /// For the person: what decided.
    pub because: String,
    /// For the person: where the key is from.
    pub key_from: Option<String>,
    /// Every key that the environment holds: none may be recorded.
    pub secrets: Vec<Secret>,
}

/// What else could be called: the providers whose own variables are set, beside the chosen one.
pub fn others(choice: &Choice, environment: &Environment) -> Vec<String> {
    let other = [Wire::Anthropic, Wire::Responses]
        .into_iter()
        .filter(|wire| variables(*wire) != variables(choice.endpoint.wire));
    let set = other.filter_map(|wire| {
        let (key, url) = variables(wire);
        let found = [url, key].into_iter().find(|name| environment.is_set(name))?;
        Some(format!("{} (by {found})", wire.name()))
    });
    set.collect()
}

/// The variables of a wire: key, base URL.
fn variables(wire: Wire) -> (&'static str, &'static str) {
    match wire {
        Wire::Anthropic => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        Wire::Responses | Wire::Chat => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    }
}

/// The variable that holds a provider's key.
pub fn key_variable(wire: Wire) -> &'static str {
    variables(wire).0
}

/// `Ok(None)`: nothing says where models are.
pub fn choose(
    asked: &Asked,
    config: &Config,
    environment: &Environment,
) -> Result<Option<Choice>, Problem> {
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    let (wire, because) = if let Some(name) = &asked.provider {
        (wire(name)?, "--provider".to_owned())
    } else if let Some(name) = variable("BATON_PROVIDER") {
        (wire(&name)?, "BATON_PROVIDER".to_owned())
    } else if let Some(wire) = config.provider.name {
        (wire, "the user's configuration".to_owned())
    } else if asked.base_url.is_some()
        || environment.is_set("BATON_BASE_URL")
        || config.provider.base_url.is_some()
    {
        // A server of one's own speaks Chat Completions more often than anything else.
        (Wire::Chat, "a base URL without a provider".to_owned())
    } else {
        let own = [Wire::Anthropic, Wire::Responses].into_iter().find_map(|wire| {
            let (key, url) = variables(wire);
            let found = [url, key].into_iter().find(|name| environment.is_set(name));
            found.map(|name| (wire, name.to_owned()))
        });
        match own {
            Some(own) => own,
            None => return Ok(None),
        }
    };
    let (key, url) = variables(wire);
    // What the configuration says of one provider is not meant for another.
    let own = Some(&config.provider).filter(|own| own.name.is_none_or(|name| name == wire));
    let base_url = asked
        .base_url
        .clone()
        .or_else(|| variable("BATON_BASE_URL"))
        .or_else(|| own.and_then(|own| own.base_url.clone()))
        .or_else(|| variable(url));
    if let Some(url) = base_url
        .as_deref()
        .filter(|url| !url.starts_with("http://") && !url.starts_with("https://"))
    {
        let message = format!("the base URL `{}` is not one", baton_core::text::shown(url, 80));
        return Err(Problem::new("base-url", message).expected("`http://…` or `https://…`"));
    }
    let authority = base_url
        .as_deref()
        .and_then(|url| url.split_once("://"))
        .map(|(_, rest)| rest.split('/').next());
    if authority.flatten().is_some_and(|authority| authority.contains('@')) {
        let problem = Problem::new("base-url", "the base URL holds a user name or a password");
        return Err(
            problem.expected("an address alone; keys come from the environment or a command")
        );
    }
    let model = asked.model.clone().or_else(|| variable("BATON_MODEL"));
    let model = model.or_else(|| own.and_then(|own| own.model.clone()));
    // The configuration's own key goes to the configuration's own address.
    let (secret, key_from) =
        match (own.and_then(|own| own.api_key_command.as_deref()), variable(key)) {
            (Some(command), _) => (Some(key_of(command)?), Some("api_key_command".to_owned())),
            (None, Some(secret)) => (Some(Secret::new(secret.trim())), Some(key.to_owned())),
            (None, None) => (None, None),
        };
    let endpoint = Endpoint::new(wire, base_url.as_deref(), secret);
    let secrets = environment.secrets().map(Secret::new).collect();
    Ok(Some(Choice { endpoint, model, because, key_from, secrets }))
}

/// The model that would be asked, without looking for its key.
pub fn model_name(asked: &Asked, config: &Config, environment: &Environment) -> Option<String> {
    let variable = environment.get("BATON_MODEL").map(str::to_owned);
    asked.model.clone().or(variable).or_else(|| config.provider.model.clone())
}

/// A password store may ask its owner something; it has half a minute.
fn key_of(command: &str) -> Result<Secret, Problem> {
    let said = sandbox::output_of(command, Duration::from_secs(30), 4_096);
    match said {
        Ok(key) if !key.is_empty() && key.chars().all(|c| c.is_ascii_graphic()) => {
            Ok(Secret::new(key))
        }
        // What it printed may be half of a key and is not repeated.
        Ok(_) => Err(Problem::new("api-key-command", "api_key_command did not print a key")
            .expected("the key alone")),
        Err(why) => {
            Err(Problem::new("api-key-command", format!("api_key_command gave no key: {why}")))
        }
    }
}

fn wire(name: &str) -> Result<Wire, Problem> {
    let names = Wire::ALL.map(Wire::name);
    Wire::ALL.into_iter().find(|wire| wire.name() == name).ok_or_else(|| {
        let message = format!("the provider `{}` is not known", baton_core::text::shown(name, 40));
        Problem::new("provider-unknown", message).one_of(name, &names)
    })
}

/// The ways to say it, for an error.
pub fn ways() -> String {
    let names = Wire::ALL.map(Wire::name);
    format!(
        "say `--provider` (one of {}) with `--base-url` and `--model`, or set BATON_PROVIDER, BATON_BASE_URL, BATON_MODEL, \
         or ANTHROPIC_API_KEY or OPENAI_API_KEY, or write [provider] into your own baton.toml",
        list(&names)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(asked: &Asked, config: &str, variables: &[(&str, &str)]) -> String {
        let document = baton_core::document::Document::toml(config).unwrap();
        let config = Config::read(&document).unwrap();
        let environment = Environment::of(variables);
        match choose(asked, &config, &environment) {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(choice)) => format!(
                "{} {} {} key {} by {}",
                choice.endpoint.wire.name(),
                choice.endpoint.base_url,
                choice.model.as_deref().unwrap_or("-"),
                choice.key_from.as_deref().unwrap_or("none"),
                choice.because,
            ),
            Err(problem) => problem.to_string(),
        }
    }

    #[test]
    fn flags_then_variables_then_configuration_then_the_providers_own() {
        let none = Asked::default();
        let flag = Asked {
            provider: Some("anthropic".to_owned()),
            base_url: None,
            model: Some("m".to_owned()),
        };
        let typo = Asked { provider: Some("antropic".to_owned()), ..Asked::default() };
        let own = "[provider]\nname = \"openai-chat\"\nbase_url = \"http://127.0.0.1:1\"\nmodel = \"q\"\n";
        let all: Vec<String> = [
            chosen(&none, "", &[]),
            chosen(&none, "", &[("OPENAI_API_KEY", "k")]),
            chosen(&none, "", &[("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")]),
            chosen(&none, "", &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")]),
            chosen(&none, own, &[("ANTHROPIC_API_KEY", "k")]),
            chosen(
                &none,
                own,
                &[
                    ("BATON_PROVIDER", "openai-responses"),
                    ("BATON_MODEL", "e"),
                    ("OPENAI_API_KEY", "k"),
                ],
            ),
            chosen(&flag, own, &[("BATON_PROVIDER", "openai-responses"), ("BATON_MODEL", "e")]),
            chosen(&none, "", &[("BATON_BASE_URL", "http://127.0.0.1:8080")]),
            chosen(
                &none,
                "",
                &[("BATON_BASE_URL", "http://127.0.0.1:8080"), ("OPENAI_API_KEY", "k")],
            ),
            chosen(
                &none,
                "[provider]\nname = \"anthropic\"\napi_key_command = \"echo sk-1\"\n",
                &[],
            ),
            chosen(
                &none,
                "[provider]\nname = \"anthropic\"\napi_key_command = \"echo two words\"\n",
                &[],
            ),
            chosen(&none, "[provider]\nname = \"anthropic\"\napi_key_command = \"exit 1\"\n", &[]),
            chosen(&typo, "", &[]),
            chosen(&none, "", &[("BATON_BASE_URL", "127.0.0.1:8080")]),
        ]
        .into();
        insta::assert_snapshot!(all.join("\n"), @"
        nothing
        openai-responses https://api.openai.com/v1 - key OPENAI_API_KEY by OPENAI_API_KEY
        anthropic https://api.anthropic.com - key ANTHROPIC_API_KEY by ANTHROPIC_API_KEY
        anthropic http://127.0.0.1:9 - key none by ANTHROPIC_BASE_URL
        openai-chat http://127.0.0.1:1 q key none by the user's configuration
        openai-responses https://api.openai.com/v1 e key OPENAI_API_KEY by BATON_PROVIDER
        anthropic https://api.anthropic.com m key none by --provider
        openai-chat http://127.0.0.1:8080 - key none by a base URL without a provider
        openai-chat http://127.0.0.1:8080 - key OPENAI_API_KEY by a base URL without a provider
        anthropic https://api.anthropic.com - key api_key_command by the user's configuration
        api_key_command did not print a key; expected the key alone
        api_key_command gave no key: it failed, exit status: 1
        the provider `antropic` is not known; expected one of `anthropic`, `openai-responses`, `openai-chat`; did you mean `anthropic`?
        the base URL `127.0.0.1:8080` is not one; expected `http://…` or `https://…`
        ");
    }
}
