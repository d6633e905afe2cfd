//! The server that is called: its address, taken apart once, and the form of its requests.

use std::fmt;
use std::str::FromStr;

use baton_core::message::Wire;
use baton_core::problem::Problem;
use reqwest::Url;

use super::Secret;

/// The address of a server: `http` or `https`, without a user name or a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

impl FromStr for BaseUrl {
    type Err = Problem;

    fn from_str(text: &str) -> Result<BaseUrl, Problem> {
        let wrong = || {
            let message = format!("the base URL `{}` is not one", without_secrets(text));
            Problem::new("base-url", message).expected("`http://…` or `https://…`")
        };
        // A browser would also take `http:host` and a backslash for a slash.
        let is_whole = text.starts_with("http://") || text.starts_with("https://");
        if !is_whole || text.contains('\\') {
            return Err(wrong());
        }
        let mut url = Url::parse(text).map_err(|_| wrong())?;
        if !url.username().is_empty() || url.password().is_some() || text_has_user(text) {
            let problem = Problem::new("base-url", "the base URL holds a user name or a password");
            return Err(
                problem.expected("an address alone; keys come from the environment or a command")
            );
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(wrong());
        }
        // The address is shown and written into journals.
        if let Some((name, _)) = url.query_pairs().find(|(name, _)| is_secret(name)) {
            let name = baton_core::text::shown(&name, 40);
            let problem =
                Problem::new("base-url", format!("the base URL holds a key (`{name}=…`)"));
            return Err(
                problem.expected("an address alone; keys come from the environment or a command")
            );
        }
        url.set_fragment(None);
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(BaseUrl(url))
    }
}

/// True for a part of a query that is a key by its name.
fn is_secret(name: &str) -> bool {
    const MARKS: [&str; 7] = ["key", "token", "secret", "pass", "auth", "sig", "code"];
    let name = name.to_ascii_lowercase();
    MARKS.iter().any(|mark| name.contains(mark))
}

/// An empty user name (`http://@host`) leaves no trace in a parsed address.
fn text_has_user(text: &str) -> bool {
    let authority = text.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| authority.contains('@'))
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path of a server alone is parsed as `/`.
        let text = self.0.as_str();
        let Some(query) = self.0.query() else {
            let is_root = self.0.path() == "/";
            return out.write_str(if is_root { text.trim_end_matches('/') } else { text });
        };
        // A value may be a key, whatever its name.
        let shown = query.split('&').map(|part| match part.split_once('=') {
            Some((name, value)) if !is_version(name, value) => format!("{name}=…"),
            _ => part.to_owned(),
        });
        let start = text.split('?').next().unwrap_or_default();
        write!(out, "{start}?{}", shown.collect::<Vec<_>>().join("&"))
    }
}

/// True for a part of a query that is no key: `api-version=2026-01-01`.
fn is_version(name: &str, value: &str) -> bool {
    name.contains("version") && value.len() <= 20
}

/// What was given as an address, up to where a key or a password may be.
fn without_secrets(text: &str) -> String {
    let start = text.split(['?', '#']).next().unwrap_or_default();
    let shown = match start.rsplit_once('@') {
        Some((before, host)) => {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            format!("{scheme}://…@{host}")
        }
        None => start.to_owned(),
    };
    baton_core::text::shown(&shown, 80).to_string()
}

impl BaseUrl {
    /// The provider's own address.
    fn of(wire: Wire) -> BaseUrl {
        let own = match wire {
            Wire::Anthropic => "https://api.anthropic.com",
            Wire::Responses | Wire::Chat => "https://api.openai.com/v1",
        };
        BaseUrl(Url::parse(own).expect("a written address is valid"))
    }

    fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    fn path(&self) -> &str {
        self.0.path().trim_end_matches('/')
    }

    /// The same server with another path; a query of the address stays.
    fn with_path(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(path);
        url
    }
}

/// Where and how to call.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub wire: Wire,
    pub base_url: BaseUrl,
    pub key: Option<Secret>,
}

impl Endpoint {
    /// Without a base URL, the provider's own.
    pub fn new(wire: Wire, base_url: Option<BaseUrl>, key: Option<Secret>) -> Endpoint {
        Endpoint { wire, base_url: base_url.unwrap_or_else(|| BaseUrl::of(wire)), key }
    }

    /// The page that answers.
    pub(super) fn url(&self) -> Url {
        self.page(match self.wire {
            Wire::Anthropic => "messages",
            Wire::Responses => "responses",
            Wire::Chat => "chat/completions",
        })
    }

    /// The page with the list of models.
    pub(super) fn models_url(&self) -> Url {
        let mut url = self.page("models");
        // One provider gives 20 at a time unless asked for all.
        if self.wire == Wire::Anthropic {
            url.query_pairs_mut().append_pair("limit", "1000");
        }
        url
    }

    /// The page of a llama.cpp server about itself; it is not part of its interface.
    pub(super) fn props_url(&self) -> Url {
        let path = self.base_url.path();
        self.base_url.with_path(&format!("{}/props", path.strip_suffix("/v1").unwrap_or(path)))
    }

    /// `…/v1` is part of some people's base URLs and left out of others'.
    fn page(&self, name: &str) -> Url {
        let path = self.base_url.path();
        let is_whole = !path.is_empty() && self.wire != Wire::Anthropic || path.ends_with("/v1");
        let version = if is_whole { "" } else { "/v1" };
        self.base_url.with_path(&format!("{path}{version}/{name}"))
    }

    /// True for the provider's own address.
    pub fn is_official(&self) -> bool {
        self.base_url == BaseUrl::of(self.wire)
    }

    /// True for a server on this machine. A name that only begins like one (`localhost.example.com`)
    /// is another machine.
    pub fn is_local(&self) -> bool {
        self.base_url.0.scheme() == "http" && self.is_on_this_machine()
    }

    /// True if the address is one of this machine alone.
    pub(super) fn is_on_this_machine(&self) -> bool {
        let host = self.base_url.host();
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match inner.unwrap_or(host).parse::<std::net::IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => host.strip_suffix('.').unwrap_or(host) == "localhost",
        }
    }

    /// True if what is sent can be read on its way.
    pub(super) fn is_readable(&self) -> bool {
        self.base_url.0.scheme() == "http" && !self.is_on_this_machine()
    }

    /// The provider itself, in any of its regions.
    pub(super) fn is_openai(&self) -> bool {
        let host = self.base_url.host();
        host == "api.openai.com" || host.ends_with(".api.openai.com")
    }

    /// True when calls go to the provider itself, and not to a server of one's own or a gateway.
    pub fn is_providers_own(&self) -> bool {
        match self.wire {
            Wire::Anthropic => self.base_url.host() == "api.anthropic.com",
            Wire::Responses | Wire::Chat => self.is_openai(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wire: Wire, url: &str) -> Endpoint {
        Endpoint::new(wire, Some(url.parse().expect("an address")), None)
    }

    #[test]
    fn the_version_is_added_to_an_address_without_one() {
        let page = |wire, url| at(wire, url).url().to_string();
        for (wire, url, expected) in [
            (Wire::Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            (Wire::Anthropic, "https://a.org/proxy/", "https://a.org/proxy/v1/messages"),
            (Wire::Anthropic, "https://a.org/proxy/v1", "https://a.org/proxy/v1/messages"),
            (Wire::Responses, "https://a.org", "https://a.org/v1/responses"),
            (Wire::Chat, "http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/chat/completions"),
            (
                Wire::Chat,
                "http://127.0.0.1:8080/api/",
                "http://127.0.0.1:8080/api/chat/completions",
            ),
            (
                Wire::Chat,
                "https://a.org/o?api-version=1",
                "https://a.org/o/chat/completions?api-version=1",
            ),
        ] {
            assert_eq!(page(wire, url), expected);
        }
        assert_eq!(
            at(Wire::Chat, "http://[::1]:1/v1").props_url().as_str(),
            "http://[::1]:1/props"
        );
        let models = at(Wire::Anthropic, "https://a.org").models_url();
        assert_eq!(models.as_str(), "https://a.org/v1/models?limit=1000");
    }

    #[test]
    fn the_query_of_an_address_is_not_shown() {
        let shown = |url: &str| {
            url.parse::<BaseUrl>().map_or_else(|e| e.to_string(), |own| own.to_string())
        };
        assert_eq!(
            shown("https://a.org/v1?k=CANARY&api-version=2026-01-01"),
            "https://a.org/v1?k=…&api-version=2026-01-01"
        );
        assert_eq!(
            shown("https://a.org/v1?version=CANARY-0123456789-0123456789"),
            "https://a.org/v1?version=…"
        );
        for wrong in [
            "htps://a.org?x=CANARY",
            "https:/a:CANARY@b",
            "https://a.org/?api_key=CANARY",
            "https://:CANARY@a.org",
            "http:\\\\a?CANARY",
        ] {
            assert!(!shown(wrong).contains("CANARY"), "{}", shown(wrong));
        }
        // It is sent as it was given.
        let url = at(Wire::Chat, "https://a.org/v1?k=CANARY").url();
        assert_eq!(url.as_str(), "https://a.org/v1/chat/completions?k=CANARY");
    }

    #[test]
    fn an_address_that_only_looks_like_the_providers_is_another_server() {
        for url in [
            "https://api.anthropic.com.evil.org",
            "https://evil.org/api.anthropic.com",
            "https://evil.org:443/?api.anthropic.com",
            "https://evil.org#api.anthropic.com",
        ] {
            assert!(!at(Wire::Anthropic, url).is_providers_own(), "{url}");
            assert!(!at(Wire::Anthropic, url).is_official(), "{url}");
        }
        assert!(at(Wire::Anthropic, "https://API.anthropic.com:443/").is_official());
        assert!(at(Wire::Responses, "https://api.openai.com/v1/").is_official());
        assert!(!at(Wire::Chat, "http://localhost.evil.org").is_local());
        assert!(!at(Wire::Chat, "http://127.0.0.1.evil.org").is_local());
        assert!(!at(Wire::Chat, "https://evil.org/?http://localhost").is_local());
        assert!(at(Wire::Chat, "http://127.1:8080/v1").is_local());
    }

    #[test]
    fn an_address_with_a_user_or_without_a_host_is_refused() {
        for text in [
            "",
            "api.openai.com",
            "ftp://a.org",
            "http:/a.org",
            "http:a.org",
            "http://",
            "http://:80",
            "https://key@a.org",
            "https://:key@a.org",
            "https://@a.org",
            "https://evil.org\\@api.anthropic.com",
            "http://a b",
            "https://a.org/v1?key=AIza",
            "https://a.org/v1?api-version=1&access_token=x",
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
    }
}
