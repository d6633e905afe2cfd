//! The one HTTP function. It knows nothing of models: bytes out, status and bytes in, bounded in
//! time and size.

use std::io::ErrorKind;
use std::time::Duration;

use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::{Failed, Kind};

/// An error's text is for a person.
pub(super) const ERROR_BYTES: usize = 64 << 10;
/// A gateway lists hundreds of models.
pub(super) const LIST_BYTES: usize = 16 << 20;
/// More than the longest answer of any model, streamed with all its wrapping.
pub(super) const ANSWER_BYTES: usize = 64 << 20;

#[derive(Debug, Clone)]
pub(super) struct Client {
    inner: reqwest::Client,
}

/// What stands before a reply's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) request_id: Option<String>,
    pub(super) retry_after: Option<Duration>,
}

/// A reply whose body is still to be read.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) head: Head,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Network(reqwest::Response),
    /// A recorded one, given out at once, and the fault it ended in.
    Taped {
        bytes: Option<Vec<u8>>,
        fault: Option<Failed>,
    },
}

impl Client {
    /// `direct`: whatever proxy the user has.
    pub(super) fn new(connect: Duration, reuse: bool, direct: bool) -> Result<Client, String> {
        // Fails only when a provider is there already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder();
        let builder = if direct { builder.no_proxy() } else { builder };
        let inner = builder
            .connect_timeout(connect)
            .dns_resolver(super::resolve::Resolver)
            .pool_max_idle_per_host(if reuse { usize::MAX } else { 0 })
            // A key must not follow a redirect to another host.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Client { inner: inner.map_err(|error| format!("no HTTP client: {}", chain(&error)))? })
    }

    pub(super) async fn post(
        &self,
        url: Url,
        headers: &[(&'static str, String)],
        body: &[u8],
        idle: Duration,
    ) -> Result<Reply, Failed> {
        self.send(self.inner.post(url).body(body.to_vec()), headers, idle).await
    }

    pub(super) async fn get(
        &self,
        url: Url,
        headers: &[(&'static str, String)],
        idle: Duration,
    ) -> Result<Reply, Failed> {
        self.send(self.inner.get(url), headers, idle).await
    }

    async fn send(
        &self,
        mut request: reqwest::RequestBuilder,
        headers: &[(&'static str, String)],
        idle: Duration,
    ) -> Result<Reply, Failed> {
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let inner = within(idle, request.send()).await?;
        let header = |name: &str| {
            inner.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let request_id = header("request-id").or_else(|| header("x-request-id"));
        let retry_after = header("retry-after-ms")
            .and_then(|text| text.parse().ok().map(Duration::from_millis))
            .or_else(|| header("retry-after").and_then(|text| seconds(&text)));
        let head = Head { status: inner.status().as_u16(), request_id, retry_after };
        Ok(Reply { head, body: Body::Network(inner) })
    }
}

impl Reply {
    pub(super) fn taped(head: Head, bytes: Vec<u8>, fault: Option<Failed>) -> Reply {
        Reply { head, body: Body::Taped { bytes: Some(bytes), fault } }
    }

    pub(super) async fn chunk(&mut self, idle: Duration) -> Result<Option<Vec<u8>>, Failed> {
        match &mut self.body {
            Body::Network(response) => {
                Ok(within(idle, response.chunk()).await?.map(|chunk| chunk.to_vec()))
            }
            Body::Taped { bytes, fault } => match (bytes.take(), fault.take()) {
                (None, Some(fault)) => Err(fault),
                (bytes, later) => {
                    *fault = later;
                    Ok(bytes)
                }
            },
        }
    }
}

async fn within<T>(
    idle: Duration,
    future: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, Failed> {
    match tokio::time::timeout(idle, future).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let kind = match (error.is_builder(), error.is_timeout()) {
                (true, _) => Kind::Rejected,
                (false, true) => Kind::Timeout,
                (false, false) => Kind::Connection,
            };
            Err(Failed { kind, message: cause(&error) })
        }
        Err(_) => {
            let message = format!("nothing was heard for {} s", idle.as_secs_f64());
            Err(Failed { kind: Kind::Timeout, message })
        }
    }
}

/// A cause that the user can act on: the usual ones in a few words, others with all that is known.
fn cause(error: &reqwest::Error) -> String {
    let mut inner = std::error::Error::source(error);
    while let Some(own) = inner {
        if own.to_string().contains("dns error") {
            let host = error.url().and_then(|url| url.host_str()).unwrap_or("the host");
            return format!("cannot resolve {host} (no network?)");
        }
        let kind = own.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        match kind {
            Some(ErrorKind::ConnectionRefused) => return "connection refused".to_owned(),
            Some(ErrorKind::ConnectionReset) => return "connection reset".to_owned(),
            Some(ErrorKind::NetworkUnreachable) => return "no network".to_owned(),
            _ => inner = own.source(),
        }
    }
    chain(error)
}

/// An error with its causes; the URL may hold what does not belong into a log.
fn chain(error: &reqwest::Error) -> String {
    let mut out = "the connection failed".to_owned();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        out.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    out
}

/// `Retry-After` in seconds. The other form, a date, is not used by any provider.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(86_400.0)))
}
