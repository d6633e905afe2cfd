//! The one HTTP function. It knows nothing of models: bytes out, status and bytes in, bounded in
//! time and size.

use std::time::Duration;

use super::{Failed, Kind};

/// An error's text is for a person.
pub(super) const ERROR_BYTES: usize = 64 << 10;
/// More than the longest answer of any model, streamed with all its wrapping.
pub(super) const ANSWER_BYTES: usize = 256 << 20;

#[derive(Debug, Clone)]
pub(super) struct Client {
    inner: reqwest::Client,
}

/// A reply whose body is still to be read.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) request_id: Option<String>,
    pub(super) retry_after: Option<Duration>,
    inner: reqwest::Response,
}

impl Client {
    pub(super) fn new(connect: Duration) -> Result<Client, String> {
        // Fails only when a provider is there already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let inner = reqwest::Client::builder()
            .connect_timeout(connect)
            // A key must not follow a redirect to another host.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Client { inner: inner.map_err(|error| format!("no HTTP client: {}", chain(&error)))? })
    }

    pub(super) async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: &[u8],
        idle: Duration,
    ) -> Result<Reply, Failed> {
        let mut request = self.inner.post(url).body(body.to_vec());
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
        Ok(Reply { status: inner.status().as_u16(), request_id, retry_after, inner })
    }
}

impl Reply {
    pub(super) async fn chunk(&mut self, idle: Duration) -> Result<Option<Vec<u8>>, Failed> {
        Ok(within(idle, self.inner.chunk()).await?.map(|chunk| chunk.to_vec()))
    }

    pub(super) async fn text(&mut self, idle: Duration, limit: usize) -> Result<String, Failed> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk(idle).await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > limit {
                return Err(Failed {
                    kind: Kind::Malformed,
                    message: format!("the reply is larger than {limit} bytes"),
                });
            }
        }
        String::from_utf8(bytes).map_err(|_| Failed {
            kind: Kind::Malformed,
            message: "the reply is not UTF-8".to_owned(),
        })
    }
}

async fn within<T>(
    idle: Duration,
    future: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, Failed> {
    match tokio::time::timeout(idle, future).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let kind = if error.is_timeout() { Kind::Timeout } else { Kind::Connection };
            Err(Failed { kind, message: chain(&error) })
        }
        Err(_) => {
            let message = format!("nothing was heard for {} s", idle.as_secs_f64());
            Err(Failed { kind: Kind::Timeout, message })
        }
    }
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
