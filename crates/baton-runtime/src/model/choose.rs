//! Which provider to call: flags, then `BATON_…` variables, then the user's configuration, then
//! the providers' own variables. Keys come from the environment and are never looked at otherwise.

use std::time::Duration;

use baton_core::config::{Config, ProviderConfig};
use baton_core::message::Wire;
use baton_core::problem::{Problem, list};

use super::{BaseUrl, Endpoint, Secret, catalogue};
use crate::load::Environment;
use crate::sandbox;

/// What was said on the command line.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub provider: Option<String>,
    pub base_url: Option<String>,
    pub model: Option<String>,
    pub key_over_http: bool,
}

/// Where calls will go.
#[derive(Debug, Clone)]
pub struct Choice {
    pub endpoint: Endpoint,
    /// The model that was named, by a flag or a variable.
    pub model: Option<String>,
    /// The provider's default: the configuration's, else the one in the list.
    pub default_model: Option<String>,
    /// For the person: what decided.
    pub because: String,
    /// For the person: where the key is from.
    pub key_from: Option<String>,
    /// Every key that the environment holds: none may be recorded.
    pub secrets: Vec<Secret>,
}

impl Choice {
    /// The model that is called: the one that was named, the profile's own, the provider's default.
    pub fn model_or(&self, profiles: Option<String>) -> Option<String> {
        self.model.clone().or(profiles).or_else(|| self.default_model.clone())
    }

    /// The problem of a call to the provider itself without a key. A server of one's own may need
    /// none.
    pub fn missing_key(&self) -> Option<Problem> {
        if self.endpoint.key.is_some() || !self.endpoint.is_providers_own() {
            return None;
        }
        let (key, _) = variables(self.endpoint.wire);
        let name = self.endpoint.wire.name();
        let problem = Problem::new("key-missing", format!("no key for {name}"));
        Some(problem.expected(format!("{key}, or `provider.api_key_command` in your baton.toml")))
    }
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

/// The place where calls will go, before anything is known of a key.
#[derive(Debug, Clone)]
pub struct Target {
    pub wire: Wire,
    pub base_url: Option<BaseUrl>,
    /// For the person: what decided.
    pub because: String,
    pub model: Option<String>,
    pub default_model: Option<String>,
    /// For the person: where the key would be from.
    pub key_from: Option<String>,
}

/// `Ok(None)`: no provider is configured.
pub fn choose(
    asked: &Asked,
    config: &Config,
    environment: &Environment,
) -> Result<Option<Choice>, Problem> {
    let Some(target) = target(asked, config, environment)? else { return Ok(None) };
    let Target { wire, base_url, because, model, default_model, key_from } = target;
    let (key, _) = variables(wire);
    let secret = match (own(config, wire).and_then(|own| own.api_key_command.as_deref()), key) {
        (Some(command), _) => Some(key_of(command)?),
        (None, key) => environment.get(key).map(|secret| Secret::new(secret.trim())),
    };
    let endpoint = Endpoint::new(wire, base_url, secret);
    let secrets = environment.secrets().map(Secret::new).collect();
    Ok(Some(Choice { endpoint, model, default_model, because, key_from, secrets }))
}

/// The configuration of a provider, which is not meant for another one.
fn own(config: &Config, wire: Wire) -> Option<&ProviderConfig> {
    Some(&config.provider).filter(|own| own.name.is_none_or(|name| name == wire))
}

/// Finds where calls would go, without running a command.
pub fn target(
    asked: &Asked,
    config: &Config,
    environment: &Environment,
) -> Result<Option<Target>, Problem> {
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
    let own = own(config, wire);
    let base_url = asked
        .base_url
        .clone()
        .or_else(|| variable("BATON_BASE_URL"))
        .or_else(|| own.and_then(|own| own.base_url.clone()))
        .or_else(|| variable(url));
    let base_url: Option<BaseUrl> = base_url.as_deref().map(str::parse).transpose()?;
    // The configuration's own key goes to the configuration's own address.
    let key_from = match own.and_then(|own| own.api_key_command.as_deref()) {
        Some(_) => Some("api_key_command".to_owned()),
        None => environment.is_set(key).then(|| key.to_owned()),
    };
    // The models of another server are not known.
    let endpoint = Endpoint::new(wire, base_url.clone(), None);
    let is_own = endpoint.is_providers_own();
    if let Some(from) = key_from.as_deref()
        && endpoint.is_readable()
        && !(asked.key_over_http || config.provider.key_over_http)
    {
        return Err(key_over_http(&endpoint, from));
    }
    let listed = || is_own.then(|| catalogue::default_model(wire).to_owned());
    Ok(Some(Target {
        wire,
        base_url,
        because,
        model: asked.model.clone().or_else(|| variable("BATON_MODEL")),
        default_model: own.and_then(|own| own.model.clone()).or_else(listed),
        key_from,
    }))
}

/// Everybody on the way could read the key.
fn key_over_http(endpoint: &Endpoint, from: &str) -> Problem {
    let message =
        format!("the key (from {from}) would go to {} without encryption", endpoint.base_url);
    Problem::new("key-over-http", message).expected(
        "an https:// address, no key, or `--key-over-http` (`key_over_http = true` of [provider] in your baton.toml)",
    )
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
        "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a server with `--provider` (one of {}), `--base-url` and `--model` \
         (or BATON_PROVIDER, BATON_BASE_URL, BATON_MODEL), or write [provider] into your own baton.toml",
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
                choice.model_or(None).as_deref().unwrap_or("-"),
                choice.key_from.as_deref().unwrap_or("none"),
                choice.because,
            ),
            Err(problem) => problem.to_string(),
        }
    }

    #[test]
    fn a_missing_key_is_known_before_a_call_and_only_matters_to_the_provider_itself() {
        let missing = |base_url: Option<&str>, variables: &[(&str, &str)]| {
            let asked = Asked {
                provider: Some("anthropic".to_owned()),
                base_url: base_url.map(str::to_owned),
                ..Asked::default()
            };
            let choice = choose(&asked, &Config::default(), &Environment::of(variables));
            choice.unwrap().unwrap().missing_key().is_some()
        };
        assert!(missing(None, &[]));
        assert!(missing(Some("https://api.anthropic.com/"), &[("OPENAI_API_KEY", "k")]));
        assert!(!missing(None, &[("ANTHROPIC_API_KEY", "k")]));
        assert!(!missing(Some("http://127.0.0.1:1"), &[]));
        assert!(!missing(Some("https://gateway.example.org"), &[]));
    }

    #[test]
    fn a_key_goes_over_http_to_this_machine_alone_unless_the_user_allows_more() {
        let key = [("OPENAI_API_KEY", "sk-CANARY-0123456789")];
        let at = |url: &str| Asked {
            provider: Some("openai-chat".to_owned()),
            base_url: Some(url.to_owned()),
            ..Asked::default()
        };
        let own = "[provider]\nname = \"openai-chat\"\napi_key_command = \"echo sk-CANARY\"\n";
        for host in [
            "192.168.1.5:8080",
            "example.org",
            "localhost.example.org",
            "10.0.0.1",
            "[fe80::1]",
            "0.0.0.0",
            "127.0.0.1.nip.io",
            "[::2]",
        ] {
            let url = format!("http://{host}/v1");
            for (config, variables) in [("", &key[..]), (own, &[])] {
                let refused = chosen(&at(&url), config, variables);
                assert!(refused.contains("without encryption"), "{host}: {refused}");
                assert!(
                    refused.contains("--key-over-http") && !refused.contains("CANARY"),
                    "{refused}"
                );
                let allowed = Asked { key_over_http: true, ..at(&url) };
                assert!(chosen(&allowed, config, variables).starts_with("openai-chat http://"));
            }
            // Where there is no key, none is sent.
            assert!(chosen(&at(&url), "", &[]).contains("key none"), "{host}");
            let config = "[provider]\nkey_over_http = true\n";
            assert!(chosen(&at(&url), config, &key).contains("key OPENAI_API_KEY"), "{host}");
        }
        for host in [
            "127.0.0.1:1",
            "localhost:8080",
            "LOCALHOST.",
            "[::1]",
            "127.9.9.9",
            "[::ffff:127.0.0.1]",
        ] {
            let said = chosen(&at(&format!("http://{host}/v1")), "", &key);
            assert!(said.contains("key OPENAI_API_KEY"), "{host}: {said}");
        }
        assert!(chosen(&at("https://example.org/v1"), "", &key).contains("key OPENAI_API_KEY"));
    }

    #[test]
    fn flags_then_variables_then_configuration_then_the_providers_own() {
        let none = Asked::default();
        let flag = Asked {
            provider: Some("anthropic".to_owned()),
            model: Some("m".to_owned()),
            ..Asked::default()
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
        openai-responses https://api.openai.com/v1 gpt-5.6-terra key OPENAI_API_KEY by OPENAI_API_KEY
        anthropic https://api.anthropic.com claude-sonnet-5-5 key ANTHROPIC_API_KEY by ANTHROPIC_API_KEY
        anthropic http://127.0.0.1:9 - key none by ANTHROPIC_BASE_URL
        openai-chat http://127.0.0.1:1 q key none by the user's configuration
        openai-responses https://api.openai.com/v1 e key OPENAI_API_KEY by BATON_PROVIDER
        anthropic https://api.anthropic.com m key none by --provider
        openai-chat http://127.0.0.1:8080 - key none by a base URL without a provider
        openai-chat http://127.0.0.1:8080 - key OPENAI_API_KEY by a base URL without a provider
        anthropic https://api.anthropic.com claude-sonnet-5-5 key api_key_command by the user's configuration
        api_key_command did not print a key; expected the key alone
        api_key_command gave no key: it failed, exit status: 1
        the provider `antropic` is not known; expected one of `anthropic`, `openai-responses`, `openai-chat`; did you mean `anthropic`?
        the base URL `127.0.0.1:8080` is not one; expected `http://…` or `https://…`
        ");
    }
}
