//! Calling a model: pure encode and decode per wire format, one HTTP function, bounded retries.
//! A call gives a whole answer or an error that names provider, model and request; half of an
//! answer never comes out.
//!
//! Not on a client library: the one that was tried hands out a tool call that a stream cut in the
//! middle, with its arguments as far as they got, and takes a stream that ends without its last
//! event for a finished one.

mod anthropic;
pub mod cassette;
pub mod catalogue;
mod chat;
pub mod choose;
mod http;
mod responses;
mod sse;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use baton_core::id::Tokens;
use baton_core::message::{self, Answer, BrokenCall, Part, Request, Wire};
use baton_core::text;
use serde_json::Value;
use tokio::sync::Semaphore;

/// A key. It is never printed: not by `Debug`, not in an error.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(key: impl Into<String>) -> Secret {
        Secret(key.into())
    }

    /// Takes the key out of a text that a provider sent back.
    fn scrub(&self, text: &str) -> String {
        if self.0.len() < 4 { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[key]")
    }
}

/// Where and how to call.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub wire: Wire,
    pub base_url: String,
    pub key: Option<Secret>,
}

impl Endpoint {
    /// Without a base URL, the provider's own.
    pub fn new(wire: Wire, base_url: Option<&str>, key: Option<Secret>) -> Endpoint {
        let own = match wire {
            Wire::Anthropic => "https://api.anthropic.com",
            Wire::Responses | Wire::Chat => "https://api.openai.com/v1",
        };
        Endpoint { wire, base_url: base_url.unwrap_or(own).trim_end_matches('/').to_owned(), key }
    }

    /// `…/v1` is part of some people's base URLs and left out of others'.
    fn url(&self) -> String {
        let path = self.path();
        let rest = self.base_url.split_once("://").map_or(self.base_url.as_str(), |(_, rest)| rest);
        match rest.contains('/') && self.wire != Wire::Anthropic || rest.ends_with("/v1") {
            true => format!("{}/{path}", self.base_url),
            false => format!("{}/v1/{path}", self.base_url),
        }
    }

    fn path(&self) -> &'static str {
        match self.wire {
            Wire::Anthropic => "messages",
            Wire::Responses => "responses",
            Wire::Chat => "chat/completions",
        }
    }

    fn is_openai(&self) -> bool {
        self.base_url.contains("://api.openai.com")
    }
}

/// What a call may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub connect: Duration,
    /// The longest silence, before the first byte and between two.
    pub idle: Duration,
    pub total: Duration,
    /// Tries after the first.
    pub retries: u32,
    /// A provider that asks for a longer pause is not waited for.
    pub longest_wait: Duration,
    /// Calls at once.
    pub concurrent: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: Duration::from_secs(15),
            idle: Duration::from_secs(180),
            total: Duration::from_secs(1_800),
            retries: 4,
            longest_wait: Duration::from_secs(60),
            concurrent: 16,
        }
    }
}

/// Who calls, for the provider's log and a scripted server.
#[derive(Debug, Clone, Default)]
pub struct Tags {
    pub run: String,
    pub stage: String,
    pub iteration: u32,
    pub attempt: u32,
}

/// What is heard while an answer comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    Thinking(String),
    /// The try failed; what came so far is void, and another begins after the pause.
    Again {
        why: String,
        wait: Duration,
    },
}

/// Streamed or at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Stream,
    Whole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No connection, or it was lost.
    Connection,
    /// Silence, or the whole took too long.
    Timeout,
    RateLimited,
    /// The provider's own fault: 5xx, overload.
    Provider,
    /// The request does not fit into the model's window. Never retried: compact it.
    ContextTooLong,
    /// The key is missing or wrong.
    Denied,
    /// The request is wrong in another way.
    Rejected,
    /// What came is no answer.
    Malformed,
}

impl Kind {
    /// Whether another try may help.
    fn may_pass(self) -> bool {
        match self {
            Kind::Connection
            | Kind::Timeout
            | Kind::RateLimited
            | Kind::Provider
            | Kind::Malformed => true,
            Kind::ContextTooLong | Kind::Denied | Kind::Rejected => false,
        }
    }
}

/// A call that failed, for good.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.describe())]
pub struct Error {
    pub kind: Kind,
    pub wire: Wire,
    pub model: String,
    pub status: Option<u16>,
    pub request_id: Option<String>,
    pub message: String,
    pub tries: u32,
    retry_after: Option<Duration>,
}

impl Error {
    fn describe(&self) -> String {
        let mut out = format!(
            "{} ({}): {}",
            self.wire.name(),
            text::shown(&self.model, 80),
            text::shown(&self.message, 400)
        );
        if let Some(status) = self.status {
            out.push_str(&format!(", status {status}"));
        }
        let id = self.request_id.as_deref().unwrap_or("unknown");
        out.push_str(&format!(", request {}", text::shown(id, 80)));
        if self.tries > 1 {
            out.push_str(&format!(", after {} tries", self.tries));
        }
        out
    }
}

/// A client of one endpoint. Dropping a call's future closes its connection.
#[derive(Debug, Clone)]
pub struct Client {
    http: http::Client,
    endpoint: Endpoint,
    limits: Limits,
    slots: Arc<Semaphore>,
    tape: Option<cassette::Tape>,
}

impl Client {
    pub fn new(endpoint: Endpoint, limits: Limits) -> Result<Client, String> {
        let http = http::Client::new(limits.connect)?;
        Ok(Client {
            http,
            endpoint,
            limits,
            slots: Arc::new(Semaphore::new(limits.concurrent)),
            tape: None,
        })
    }

    /// Records every call, or replays recorded ones without any network.
    #[must_use]
    pub fn with_tape(mut self, tape: cassette::Tape) -> Client {
        self.tape = Some(tape);
        self
    }

    /// The bytes that would be sent.
    pub fn body(&self, request: &Request, mode: Mode) -> Vec<u8> {
        let stream = mode == Mode::Stream;
        let body = match self.endpoint.wire {
            Wire::Anthropic => anthropic::encode(request, stream),
            Wire::Responses => responses::encode(request, stream),
            Wire::Chat => chat::encode(request, stream, self.endpoint.is_openai()),
        };
        body.to_string().into_bytes()
    }

    /// The models that the server lists, with their windows where it tells.
    pub async fn listed(&self, within: Duration) -> Result<Vec<Listed>, Error> {
        let nobody = empty_request();
        let failed = |failed: Failed| self.error(&nobody, failed.kind, self.scrub(&failed.message));
        let url = self.endpoint.url();
        let base = url.strip_suffix(self.endpoint.path()).unwrap_or(&url);
        let headers = self.headers(&Tags::default());
        let mut reply =
            self.http.get(&format!("{base}models"), &headers, within).await.map_err(failed)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = reply.chunk(within).await.map_err(failed)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > http::LIST_BYTES {
                return Err(failed(Failed::new("the list of models is too long")));
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if reply.status != 200 {
            let mut error = failed(refusal(reply.status, &text));
            error.status = Some(reply.status);
            error.request_id.clone_from(&reply.request_id);
            return Err(error);
        }
        let value: Value = serde_json::from_str(&text)
            .map_err(|_| failed(Failed::new("the list of models is not JSON")))?;
        Ok(value["data"].as_array().into_iter().flatten().map(Listed::of).collect())
    }

    /// Calls the model, again where that may help, within the limits.
    pub async fn call(
        &self,
        request: &Request,
        mode: Mode,
        tags: &Tags,
        hear: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let _slot = self
            .slots
            .acquire()
            .await
            .map_err(|_| self.error(request, Kind::Connection, "the client is closed"))?;
        if let Err(problem) = message::check(&request.messages) {
            return Err(self.error(request, Kind::Rejected, format!("not sent: {problem}")));
        }
        let body = self.body(request, mode);
        let deadline = tokio::time::Instant::now() + self.limits.total;
        let mut tries = 0;
        loop {
            tries += 1;
            let once = self.once(request, &body, mode, tags, hear);
            let result = tokio::time::timeout_at(deadline, once).await;
            let mut error = match result {
                Ok(Ok(answer)) => return Ok(with_ids_of_their_own(answer)),
                Ok(Err(error)) => error,
                Err(_) => self.error(request, Kind::Timeout, "the call took too long in all"),
            };
            error.tries = tries;
            let pause = pause(tries, error.retry_after, fastrand::f64());
            let fits =
                pause <= self.limits.longest_wait && tokio::time::Instant::now() + pause < deadline;
            if tries > self.limits.retries || !error.kind.may_pass() || !fits {
                return Err(error);
            }
            hear(Delta::Again { why: error.message.clone(), wait: pause });
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(
        &self,
        request: &Request,
        body: &[u8],
        mode: Mode,
        tags: &Tags,
        hear: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let mut reply = match self.tape.as_ref().and_then(cassette::Tape::player) {
            Some(player) => {
                let asked = self.scrub(&String::from_utf8_lossy(body));
                let reply = player.reply(self.endpoint.wire, &asked);
                reply.map_err(|why| self.error(request, Kind::Rejected, why))?
            }
            None => {
                let headers = self.headers(tags);
                // An answer that is not streamed is silent until it is whole.
                let patience =
                    if mode == Mode::Whole { self.limits.total } else { self.limits.idle };
                let sent = self.http.post(&self.endpoint.url(), &headers, body, patience).await;
                sent.map_err(|failed| self.error(request, failed.kind, failed.message))?
            }
        };
        let mut taken = Taken::default();
        let (status, request_id) = (reply.status, reply.request_id.clone());
        let result = match (status, mode) {
            (200, Mode::Stream) => self.stream(&mut reply, &mut taken, hear).await,
            (200, Mode::Whole) => self.whole(&mut reply, &mut taken).await,
            _ => {
                let text =
                    self.text(&mut reply, &mut taken, http::ERROR_BYTES).await.unwrap_or_default();
                Err(refusal(status, &text))
            }
        };
        if let Some(recorder) = self.tape.as_ref().and_then(cassette::Tape::recorder) {
            let scrubbed = |bytes: &[u8]| self.scrub(&String::from_utf8_lossy(bytes));
            let call = cassette::Call {
                wire: self.endpoint.wire,
                request: scrubbed(body),
                status,
                request_id: request_id.clone(),
                reply: scrubbed(&taken.bytes),
                cut: taken.cut,
            };
            recorder.write(&call).map_err(|why| self.error(request, Kind::Rejected, why))?;
        }
        result.map_err(|failed| {
            let mut error = self.error(request, failed.kind, self.scrub(&failed.message));
            error.status = Some(status);
            error.request_id = request_id;
            error.retry_after = reply.retry_after;
            error
        })
    }

    async fn text(
        &self,
        reply: &mut http::Reply,
        taken: &mut Taken,
        limit: usize,
    ) -> Result<String, Failed> {
        while let Some(chunk) = self.chunk(reply, taken).await? {
            if taken.bytes.len() > limit {
                return Err(Failed::new(format!("the reply is larger than {limit} bytes")));
            }
            drop(chunk);
        }
        String::from_utf8(taken.bytes.clone()).map_err(|_| Failed::new("the reply is not UTF-8"))
    }

    /// The next bytes, and a copy of them for the recording.
    async fn chunk(
        &self,
        reply: &mut http::Reply,
        taken: &mut Taken,
    ) -> Result<Option<Vec<u8>>, Failed> {
        let result = reply.chunk(self.limits.idle).await;
        match &result {
            Ok(Some(chunk)) => taken.bytes.extend_from_slice(chunk),
            Ok(None) => {}
            Err(_) => taken.cut = true,
        }
        result
    }

    async fn whole(&self, reply: &mut http::Reply, taken: &mut Taken) -> Result<Answer, Failed> {
        let text = self.text(reply, taken, http::ANSWER_BYTES).await?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| Failed::new(format!("the answer is not JSON: {error}")))?;
        match self.endpoint.wire {
            Wire::Anthropic => anthropic::decode(&value),
            Wire::Responses => responses::decode(&value),
            Wire::Chat => chat::decode(&value),
        }
    }

    async fn stream(
        &self,
        reply: &mut http::Reply,
        taken: &mut Taken,
        hear: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Failed> {
        let mut stream = Stream::new(self.endpoint.wire);
        let mut parser = sse::Parser::default();
        // A server may leave the connection open behind the end of the answer.
        while !stream.is_done() {
            let Some(chunk) = self.chunk(reply, taken).await? else { break };
            if taken.bytes.len() > http::ANSWER_BYTES {
                return Err(Failed::new("the answer is larger than any model's"));
            }
            for event in parser.feed(&chunk).map_err(Failed::new)? {
                for delta in stream.take(&event.data)? {
                    hear(delta);
                }
            }
        }
        if !parser.is_clean() && !stream.has_end() {
            return Err(Failed::cut());
        }
        stream.finish()
    }

    fn headers(&self, tags: &Tags) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("x-baton-run", plain(&tags.run)),
            ("x-baton-stage", plain(&tags.stage)),
            ("x-baton-iteration", tags.iteration.to_string()),
            ("x-baton-attempt", tags.attempt.to_string()),
        ];
        if self.endpoint.wire == Wire::Anthropic {
            headers.push(("anthropic-version", "2023-06-01".to_owned()));
        }
        if let Some(Secret(key)) = &self.endpoint.key {
            match self.endpoint.wire {
                Wire::Anthropic => headers.push(("x-api-key", key.clone())),
                Wire::Responses | Wire::Chat => {
                    headers.push(("authorization", format!("Bearer {key}")));
                }
            }
        }
        headers
    }

    fn scrub(&self, text: &str) -> String {
        self.endpoint.key.as_ref().map_or_else(|| text.to_owned(), |key| key.scrub(text))
    }

    fn error(&self, request: &Request, kind: Kind, message: impl Into<String>) -> Error {
        Error {
            kind,
            wire: self.endpoint.wire,
            model: request.model.clone(),
            status: None,
            request_id: None,
            message: message.into(),
            tries: 1,
            retry_after: None,
        }
    }
}

/// A model as a server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub id: String,
    pub context_window: Option<Tokens>,
}

impl Listed {
    /// Servers name the window differently: vLLM, llama.cpp, gateways.
    fn of(model: &Value) -> Listed {
        let places = [
            &model["max_model_len"],
            &model["meta"]["n_ctx"],
            &model["meta"]["n_ctx_train"],
            &model["context_length"],
            &model["max_input_tokens"],
        ];
        let context_window = places.into_iter().find_map(Value::as_u64).map(Tokens);
        Listed { id: text_of(&model["id"]).to_owned(), context_window }
    }
}

fn empty_request() -> Request {
    Request {
        model: String::new(),
        max_output: Tokens(0),
        temperature: None,
        cache_key: String::new(),
        tools: Vec::new(),
        system: Vec::new(),
        format: None,
        messages: Vec::new(),
        cached_messages: 0,
    }
}

/// The answer in the bytes of a stream, or why they hold none.
pub fn decode_stream(wire: Wire, bytes: &[u8]) -> Result<Answer, String> {
    let decode = || {
        let mut stream = Stream::new(wire);
        let mut parser = sse::Parser::default();
        for event in parser.feed(bytes).map_err(Failed::new)? {
            stream.take(&event.data)?;
        }
        if parser.is_clean() || stream.has_end() { stream.finish() } else { Err(Failed::cut()) }
    };
    decode().map(with_ids_of_their_own).map_err(|failed: Failed| failed.message)
}

/// What was read of a reply.
#[derive(Debug, Default)]
struct Taken {
    bytes: Vec<u8>,
    cut: bool,
}

/// A header's value: visible ASCII only.
fn plain(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(120).collect()
}

/// How long to wait before the next try: what the provider asked for, or twice as long each time,
/// half of it by chance so that many callers do not come back at once.
fn pause(tries: u32, asked: Option<Duration>, chance: f64) -> Duration {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(30);
    let doubled = FIRST.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST);
    asked.unwrap_or_else(|| doubled.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0))
}

/// What a status other than 200 means.
fn refusal(status: u16, body: &str) -> Failed {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let error = if value["error"].is_object() { &value["error"] } else { &value };
    let said = text_of(&error["message"]);
    let message = if said.is_empty() {
        format!("refused: {}", text::shown(body.trim(), 300))
    } else {
        said.to_owned()
    };
    let kind = match status {
        413 => Kind::ContextTooLong,
        _ if is_too_long(error) => Kind::ContextTooLong,
        401 | 403 => Kind::Denied,
        // No pause brings money.
        _ if text_of(&error["code"]) == "insufficient_quota"
            || text_of(&error["type"]) == "insufficient_quota" =>
        {
            Kind::Denied
        }
        429 => Kind::RateLimited,
        408 | 409 | 500..=599 => Kind::Provider,
        _ => Kind::Rejected,
    };
    Failed { kind, message }
}

/// Each provider says it in words of its own.
fn is_too_long(error: &Value) -> bool {
    let (code, kind) = (text_of(&error["code"]), text_of(&error["type"]));
    let message = text_of(&error["message"]).to_lowercase();
    ["context_length_exceeded", "exceed_context_size_error"]
        .iter()
        .any(|word| *word == code || *word == kind)
        || [
            "prompt is too long",
            "maximum context length",
            "context window",
            "exceeds the available context size",
            "input length and `max_tokens` exceed",
        ]
        .iter()
        .any(|words| message.contains(words))
}

/// A call whose id another one has cannot be answered.
fn with_ids_of_their_own(mut answer: Answer) -> Answer {
    let mut seen = BTreeSet::new();
    let (mut kept, mut broken) = (Vec::new(), Vec::new());
    for part in answer.parts {
        match part {
            Part::ToolCall(call) if !seen.insert(call.id.clone()) => broken.push(BrokenCall {
                id: call.id,
                name: call.name,
                arguments: Value::Object(call.arguments).to_string(),
                why: "another call has the same id".to_owned(),
            }),
            part => kept.push(part),
        }
    }
    answer.parts = kept;
    answer.broken_calls.extend(broken);
    answer
}

/// What came is no answer, or a provider's error in the middle of one.
#[derive(Debug)]
struct Failed {
    kind: Kind,
    message: String,
}

impl Failed {
    fn new(message: impl Into<String>) -> Failed {
        Failed { kind: Kind::Malformed, message: message.into() }
    }

    fn cut() -> Failed {
        Failed::new("the stream ended before the answer did")
    }

    fn of_provider(error: &Value) -> Failed {
        let word = match text_of(&error["type"]) {
            "" | "error" => text_of(&error["code"]),
            word => word,
        };
        let kind = match word {
            _ if is_too_long(error) => Kind::ContextTooLong,
            "rate_limit_error" | "rate_limit_exceeded" => Kind::RateLimited,
            "invalid_request_error"
            | "invalid_prompt"
            | "not_found_error"
            | "request_too_large" => Kind::Rejected,
            "authentication_error"
            | "permission_error"
            | "billing_error"
            | "insufficient_quota" => Kind::Denied,
            _ => Kind::Provider,
        };
        Failed {
            kind,
            message: format!("the provider broke off: {word}: {}", text_of(&error["message"])),
        }
    }
}

/// Arguments as text; some servers send the object itself.
fn arguments_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Thinking that nothing follows (the answer was cut, the call behind it broken) cannot be sent.
fn sendable(parts: &[Part]) -> &[Part] {
    let end = parts.iter().rposition(|part| !matches!(part, Part::Thinking(_)));
    &parts[..end.map_or(0, |last| last + 1)]
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn field(value: &Value, name: &str) -> Result<String, Failed> {
    let text = value[name].as_str().map(str::to_owned);
    text.ok_or_else(|| Failed::new(format!("`{name}` is missing in the answer")))
}

#[derive(Debug)]
enum Stream {
    Anthropic(anthropic::Stream),
    Responses(responses::Stream),
    Chat(chat::Stream),
}

impl Stream {
    fn new(wire: Wire) -> Stream {
        match wire {
            Wire::Anthropic => Stream::Anthropic(anthropic::Stream::default()),
            Wire::Responses => Stream::Responses(responses::Stream::default()),
            Wire::Chat => Stream::Chat(chat::Stream::default()),
        }
    }

    fn take(&mut self, data: &str) -> Result<Vec<Delta>, Failed> {
        match self {
            Stream::Anthropic(stream) => stream.take(data),
            Stream::Responses(stream) => stream.take(data),
            Stream::Chat(stream) => stream.take(data),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Stream::Anthropic(stream) => stream.is_done(),
            Stream::Responses(stream) => stream.is_done(),
            Stream::Chat(stream) => stream.is_done(),
        }
    }

    fn has_end(&self) -> bool {
        match self {
            Stream::Anthropic(stream) => stream.is_done(),
            Stream::Responses(stream) => stream.is_done(),
            Stream::Chat(stream) => stream.has_end(),
        }
    }

    fn finish(self) -> Result<Answer, Failed> {
        match self {
            Stream::Anthropic(stream) => stream.finish(),
            Stream::Responses(stream) => stream.finish(),
            Stream::Chat(stream) => stream.finish(),
        }
    }
}
