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
mod endpoint;
mod http;
mod resolve;
mod responses;
pub(crate) mod schema;
mod sse;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use baton_core::event::Runner;
use baton_core::id::Tokens;
use baton_core::message::{self, Answer, BrokenCall, Message, Part, Request, ToolCall, Wire};
use baton_core::text;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use self::endpoint::{BaseUrl, Endpoint};
use self::schema::{Dialect, Fitted};

/// A key. It is never printed: not by `Debug`, not in an error.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(key: impl Into<String>) -> Secret {
        Secret(key.into())
    }

    /// Takes the key out of an error's text.
    fn scrub(&self, text: &str) -> String {
        if self.0.len() < 4 { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }

    /// Whether it is long enough to be told from a word: what is recorded must stay as it was.
    fn is_telling(&self) -> bool {
        self.0.len() >= 12
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[key]")
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
    Again(Again),
    /// Something that the user should know, once.
    Notice(String),
}

/// Another try after one that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// The number of this retry, from 1.
    pub number: u32,
    /// Retries that there may be.
    pub most: u32,
    pub wait: Duration,
    pub why: String,
}

impl fmt::Display for Again {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Again { number, most, wait, why } = self;
        let why = text::shown(why, 200);
        write!(out, "retry {number}/{most} in {:.1} s: {why}", wait.as_secs_f64())
    }
}

/// Streamed or at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Stream,
    Whole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// The key, the account or the model is refused: only the user can change that.
    Denied,
    /// The request is wrong in another way.
    Rejected,
    /// The provider does not accept the schema of the answer. Asked again without it, so that a
    /// caller never sees this one.
    SchemaRefused,
    /// What came is no answer.
    Malformed,
    /// A recording is played, and this call is not on it.
    NotRecorded,
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
            Kind::ContextTooLong
            | Kind::Denied
            | Kind::Rejected
            | Kind::SchemaRefused
            | Kind::NotRecorded => false,
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
    /// The share of a too long request that the model's window holds, in percent, where the
    /// provider says it: `222630 tokens > 200000 maximum`, `188240 + 21333 > 200000`, `maximum
    /// context length is 128000 tokens … resulted in 135000`.
    pub fn window_share(&self) -> Option<usize> {
        let numbers = |text: &str| -> Vec<usize> {
            let words = text.split(|c: char| !c.is_ascii_digit() && c != ',');
            let plain = words.map(|word| word.replace(',', ""));
            plain.filter_map(|word| word.parse().ok()).filter(|number| *number >= 500).collect()
        };
        let (asked, window) = match self.message.split_once('>') {
            Some((left, right)) => (numbers(left).iter().sum(), *numbers(right).first()?),
            None => {
                let all = numbers(&self.message);
                (*all.iter().max()?, *all.iter().min()?)
            }
        };
        (window < asked).then(|| window.saturating_mul(100) / asked)
    }

    /// Line by line: a difference to a recording has many.
    fn shown_message(&self) -> String {
        let lines = self.message.lines().take(60).map(|line| text::shown(line, 400));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn describe(&self) -> String {
        let mut out = format!(
            "{} ({}): {}",
            self.wire.name(),
            text::shown(&self.model, 80),
            self.shown_message()
        );
        if let Some(status) = self.status {
            out.push_str(&format!(", status {status}"));
        }
        if let Some(id) = &self.request_id {
            out.push_str(&format!(", request {}", text::shown(id, 80)));
        }
        if self.tries > 1 {
            out.push_str(&format!(", after {} tries", self.tries));
        }
        out
    }
}

/// A client of one provider; its clones share one limit of calls at once. Dropping a call's future
/// closes its connection.
#[derive(Debug, Clone)]
pub struct Client {
    http: http::Client,
    endpoint: Endpoint,
    limits: Limits,
    slots: Arc<Semaphore>,
    tape: Option<cassette::Tape>,
    /// Of `call_within`; connections live in it, and serve the next call.
    runtime: Arc<OnceLock<Option<tokio::runtime::Runtime>>>,
    /// Keys that must not be recorded: this endpoint's and whatever else the person has.
    secrets: Vec<Secret>,
    /// Models that are asked without a schema, because the provider refused one.
    without_schema: Arc<Mutex<BTreeSet<String>>>,
    /// A model whose longer window has to be asked for, with the name of that in a header.
    long_window: Option<(String, &'static str)>,
    /// The provider does not know that name.
    without_header: Arc<AtomicBool>,
}

/// On this machine a new connection costs nothing, while a server that writes head and body apart is
/// heard 40 ms late on an old one; and no proxy stands between.
fn http_for(endpoint: &Endpoint, limits: &Limits) -> Result<http::Client, String> {
    http::Client::new(limits.connect, !endpoint.is_local(), endpoint.is_on_this_machine())
}

impl Client {
    pub fn new(endpoint: Endpoint, limits: Limits) -> Result<Client, String> {
        let http = http_for(&endpoint, &limits)?;
        Ok(Client {
            http,
            endpoint,
            limits,
            slots: Arc::new(Semaphore::new(limits.concurrent)),
            tape: None,
            runtime: Arc::default(),
            secrets: Vec::new(),
            without_schema: Arc::default(),
            long_window: None,
            without_header: Arc::default(),
        })
    }

    /// The same client with connections, an event loop and a limit of its own: for one of many threads
    /// that call without waiting for each other. Whoever starts them bounds how many there are.
    pub fn apart(&self) -> Result<Client, String> {
        let http = http_for(&self.endpoint, &self.limits)?;
        let slots = Arc::new(Semaphore::new(self.limits.concurrent));
        Ok(Client { http, slots, runtime: Arc::default(), ..self.clone() })
    }

    /// Asks for the longer window of this model in each call of it.
    #[must_use]
    pub fn with_long_window(mut self, model: &str, header: &'static str) -> Client {
        self.long_window = Some((model.to_owned(), header));
        self
    }

    /// Keeps these out of recordings, beside the endpoint's own key.
    #[must_use]
    pub fn with_secrets(mut self, secrets: &[Secret]) -> Client {
        self.secrets.extend(secrets.iter().cloned());
        self
    }

    /// Records every call, or replays recorded ones without any network.
    #[must_use]
    pub fn with_tape(mut self, tape: cassette::Tape) -> Client {
        self.tape = Some(tape);
        self
    }

    /// For the journal of a run: where this model is called, without any key.
    pub fn runner(&self, model: &str) -> Runner {
        let url = self.endpoint.base_url.to_string();
        let is_playing = self.tape.as_ref().is_some_and(|tape| tape.player().is_some());
        let executor = if is_playing { Runner::CASSETTE } else { Runner::BUILTIN };
        Runner {
            executor: executor.to_owned(),
            provider: Some(self.endpoint.wire),
            // A cassette may be another person's: its server is not called when the run continues.
            // Nor is one with a part that is not shown.
            base_url: (self.without_keys(&url) == url && !url.contains("=…") && !is_playing)
                .then_some(url),
            model: Some(model.to_owned()),
        }
    }

    /// The result of a command that was run for this model, as a cassette has it; without a cassette,
    /// as it is.
    pub fn settled(&self, what: &str, how: &str, result: Value) -> Result<Value, String> {
        let Some(tape) = &self.tape else { return Ok(result) };
        if tape.is_recording() {
            let text = self.without_keys(&result.to_string());
            let kept = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            tape.settle(&self.without_keys(what), how, kept)?;
            return Ok(result);
        }
        tape.settle(&self.without_keys(what), how, result)
    }

    /// True if calls are recorded or replayed.
    pub fn is_taped(&self) -> bool {
        self.tape.is_some()
    }

    /// The bytes that would be sent.
    pub fn body(&self, request: &Request, mode: Mode) -> Vec<u8> {
        self.encoded(request, self.fitted(request).as_ref(), mode)
    }

    fn encoded(&self, request: &Request, schema: Option<&Fitted>, mode: Mode) -> Vec<u8> {
        let stream = mode == Mode::Stream;
        let body = match self.endpoint.wire {
            Wire::Anthropic => anthropic::encode(request, schema, stream),
            Wire::Responses => responses::encode(request, schema, stream),
            Wire::Chat => chat::encode(request, schema, stream, self.endpoint.is_openai()),
        };
        body.to_string().into_bytes()
    }

    /// The schema of the answer as this provider accepts it. `None`: the model is asked without one.
    fn fitted(&self, request: &Request) -> Option<Fitted> {
        let format = request.format.as_ref()?;
        if self.without_schema.lock().is_ok_and(|models| models.contains(&request.model)) {
            return None;
        }
        let dialect = match self.endpoint.wire {
            Wire::Anthropic => Dialect::Anthropic,
            Wire::Responses => Dialect::OpenAi,
            Wire::Chat if self.endpoint.is_openai() => Dialect::OpenAi,
            Wire::Chat => Dialect::Compatible,
        };
        let fitted = schema::fit(&format.schema, dialect);
        // Without strict mode these servers take any schema, and follow it as well as they can.
        let loose = || (dialect != Dialect::Anthropic).then(|| Fitted::as_it_is(&format.schema));
        fitted.or_else(loose)
    }

    /// The name of the beta that a model is called with, if it is.
    fn header_of(&self, model: &str) -> Option<&'static str> {
        let (own, header) = self.long_window.as_ref()?;
        (own == model && !self.without_header.load(Ordering::SeqCst)).then_some(*header)
    }

    /// From now on the longer window is not asked for.
    fn give_up_header(&self, error: &Error) -> Delta {
        self.without_header.store(true, Ordering::SeqCst);
        Delta::Notice(format!(
            "{} ({}) does not offer its longer window here: {}",
            self.endpoint.wire.name(),
            text::shown(&error.model, 80),
            text::shown(&error.message, 200)
        ))
    }

    /// From now on this model is asked without a schema.
    fn give_up_schema(&self, error: &Error) -> Delta {
        if let Ok(mut models) = self.without_schema.lock() {
            models.insert(error.model.clone());
        }
        Delta::Notice(format!(
            "{} ({}) does not accept the schema of the answer and is asked without it from now on: {}",
            self.endpoint.wire.name(),
            text::shown(&error.model, 80),
            text::shown(&error.message, 200)
        ))
    }

    /// The models that the server lists, with their windows where it tells.
    pub async fn listed(&self, within: Duration) -> Result<Vec<Listed>, Error> {
        let value = self.asked(self.endpoint.models_url(), within).await?;
        Ok(value["data"].as_array().into_iter().flatten().map(Listed::of).collect())
    }

    /// The names of the models that the server lists, for those who do not wait themselves.
    pub fn offered(&self, within: Duration) -> Result<Vec<String>, Error> {
        let Some(runtime) = self.event_loop() else {
            let why = "the machine gives no event loop";
            return Err(self.error(&empty_request(), Kind::Connection, why));
        };
        let listed = runtime.block_on(self.listed(within))?;
        Ok(listed.into_iter().map(|listed| listed.id).collect())
    }

    fn event_loop(&self) -> Option<&tokio::runtime::Runtime> {
        let made = || tokio::runtime::Builder::new_current_thread().enable_all().build().ok();
        self.runtime.get_or_init(made).as_ref()
    }

    /// The window that a llama.cpp server was started with; no other server has this page.
    pub async fn own_window(&self, within: Duration) -> Option<Tokens> {
        let value = self.asked(self.endpoint.props_url(), within).await.ok()?;
        value["default_generation_settings"]["n_ctx"].as_u64().map(Tokens)
    }

    /// A small page of the server's, as JSON, within this time in all.
    async fn asked(&self, url: Url, within: Duration) -> Result<Value, Error> {
        let nobody = empty_request();
        let failed = |failed: Failed| self.error(&nobody, failed.kind, self.scrub(&failed.message));
        let page = async {
            let mut reply = self.http.get(url, &self.headers(&Tags::default()), within).await?;
            let mut bytes = Vec::new();
            while let Some(chunk) = reply.chunk(within).await? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > http::LIST_BYTES {
                    return Err(Failed::new("the server's page is too long"));
                }
            }
            Ok((reply, bytes))
        };
        let late = |_| Failed { kind: Kind::Timeout, message: "it takes too long".to_owned() };
        let page = tokio::time::timeout(within, page).await.map_err(late).and_then(|page| page);
        let (reply, bytes) = page.map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes);
        if reply.head.status != 200 {
            let mut error = failed(refusal(reply.head.status, &text));
            error.status = Some(reply.head.status);
            error.request_id = self.clean(reply.head).request_id;
            return Err(error);
        }
        serde_json::from_str(&text)
            .map_err(|_| failed(Failed::new("the server's page is not JSON")))
    }

    /// Calls the model for those who do not wait themselves. `None`: it took longer than it may, or
    /// somebody wants to stop.
    pub fn call_within(
        &self,
        request: &Request,
        tags: &Tags,
        limit: Duration,
        is_stopped: impl Fn() -> bool,
        hear: &mut (dyn FnMut(Delta) + Send),
    ) -> Option<Result<Answer, Error>> {
        let Some(runtime) = self.event_loop() else {
            let why = "the machine gives no event loop";
            return Some(Err(self.error(request, Kind::Connection, why)));
        };
        let stopped = async {
            while !is_stopped() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        runtime.block_on(async {
            tokio::select! {
                answer = self.call(request, Mode::Stream, tags, hear) => Some(answer),
                () = stopped => None,
                () = tokio::time::sleep(limit) => None,
            }
        })
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
        let mut fitted = self.fitted(request);
        let mut body = self.encoded(request, fitted.as_ref(), mode);
        let deadline = Instant::now() + self.limits.total;
        let mut tries = 0;
        loop {
            tries += 1;
            let header = self.header_of(&request.model);
            let sent = Sent { body: &body, header };
            let result = self.once(request, sent, mode, tags, deadline, hear).await;
            let mut error = match result {
                Ok(answer) => {
                    let answer = restored(answer, fitted.as_ref());
                    return Ok(with_ids_of_their_own(answer, &request.messages));
                }
                Err(error) => error,
            };
            if error.kind == Kind::SchemaRefused {
                if fitted.take().is_some() {
                    hear(self.give_up_schema(&error));
                    body = self.encoded(request, None, mode);
                    continue;
                }
                error.kind = Kind::Rejected;
            }
            if error.kind == Kind::Rejected && header.is_some() && names_header(&error.message) {
                hear(self.give_up_header(&error));
                continue;
            }
            error.tries = tries;
            let pause = pause(tries, error.retry_after, fastrand::f64());
            let fits = error.retry_after.unwrap_or_default() <= self.limits.longest_wait
                && Instant::now() + pause < deadline;
            if tries > self.limits.retries || !error.kind.may_pass() || !fits {
                return Err(error);
            }
            let (number, most, why) = (tries, self.limits.retries, error.message.clone());
            hear(Delta::Again(Again { number, most, wait: pause, why }));
            tokio::time::sleep(pause).await;
        }
    }

    /// One try: what came, recorded where that was asked for, and what it means.
    async fn once(
        &self,
        request: &Request,
        sent: Sent<'_>,
        mode: Mode,
        tags: &Tags,
        deadline: Instant,
        hear: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let mut taken = Taken::new(self.tape.as_ref().is_some_and(cassette::Tape::is_recording));
        let reading = self.read(sent, mode, tags, &mut taken, hear);
        let late =
            |_| Failed { kind: Kind::Timeout, message: "the call took too long in all".to_owned() };
        let result = tokio::time::timeout_at(deadline, reading);
        let result = result.await.map_err(late).and_then(|result| result);
        if let Some(recorder) = self.tape.as_ref().and_then(cassette::Tape::recorder) {
            let call = self.recorded(sent.body, &taken, result.as_ref().err());
            recorder.write(&call).map_err(|why| self.error(request, Kind::Rejected, why))?;
        }
        result.map_err(|failed| {
            let mut error = self.error(request, failed.kind, self.scrub(&failed.message));
            error.status = taken.head.as_ref().map(|head| head.status);
            error.retry_after = taken.head.as_ref().and_then(|head| head.retry_after);
            error.request_id = taken.head.and_then(|head| head.request_id);
            error
        })
    }

    fn recorded(&self, body: &[u8], taken: &Taken, failed: Option<&Failed>) -> cassette::Call {
        let text = |bytes: &[u8]| self.without_keys(&String::from_utf8_lossy(bytes));
        // What the bytes themselves tell is told again when they are played.
        let fault = failed.filter(|_| !taken.is_whole).map(|failed| cassette::Fault {
            kind: failed.kind,
            message: self.scrub(&failed.message),
        });
        cassette::Call {
            wire: self.endpoint.wire,
            request: text(body),
            head: taken.head.clone(),
            reply: text(taken.tape.as_deref().unwrap_or_default()),
            fault,
        }
    }

    async fn read(
        &self,
        sent: Sent<'_>,
        mode: Mode,
        tags: &Tags,
        taken: &mut Taken,
        hear: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Failed> {
        let mut reply = match self.tape.as_ref().and_then(cassette::Tape::player) {
            Some(player) => {
                let asked = self.without_keys(&String::from_utf8_lossy(sent.body));
                player.reply(self.endpoint.wire, &asked)?
            }
            None => {
                let mut headers = self.headers(tags);
                headers.extend(sent.header.map(|name| ("anthropic-beta", name.to_owned())));
                // An answer that is not streamed is silent until it is whole.
                let patience =
                    if mode == Mode::Whole { self.limits.total } else { self.limits.idle };
                self.http.post(self.endpoint.url(), &headers, sent.body, patience).await?
            }
        };
        taken.head = Some(self.clean(reply.head.clone()));
        match (reply.head.status, mode) {
            (200, Mode::Stream) => self.stream(&mut reply, taken, hear).await,
            (200, Mode::Whole) => self.whole(&mut reply, taken).await,
            (status, _) => {
                let text = self.text(&mut reply, taken, http::ERROR_BYTES).await;
                Err(refusal(status, &text.unwrap_or_default()))
            }
        }
    }

    async fn text(
        &self,
        reply: &mut http::Reply,
        taken: &mut Taken,
        limit: usize,
    ) -> Result<String, Failed> {
        let mut bytes = Vec::new();
        while let Some(chunk) = taken.chunk(reply, self.limits.idle).await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > limit {
                return Err(Failed::new(format!("the reply is larger than {limit} bytes")));
            }
        }
        String::from_utf8(bytes).map_err(|_| Failed::new("the reply is not UTF-8"))
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
        let mut bytes = 0;
        // A server may leave the connection open behind the end of the answer.
        while !stream.is_done() {
            let Some(chunk) = taken.chunk(reply, self.limits.idle).await? else { break };
            bytes += chunk.len();
            if bytes > http::ANSWER_BYTES {
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
        let text = self.without_keys(text);
        self.endpoint.key.as_ref().map_or_else(|| text.clone(), |key| key.scrub(&text))
    }

    /// What a reply says of itself, before anything is made of it: a server may repeat the key.
    fn clean(&self, head: http::Head) -> http::Head {
        http::Head { request_id: head.request_id.map(|id| self.scrub(&id)), ..head }
    }

    /// A text without any key, for a recording; the same for what is recorded and what is played.
    fn without_keys(&self, text: &str) -> String {
        let all = self.endpoint.key.iter().chain(&self.secrets);
        let telling = all.filter(|secret| secret.is_telling());
        telling.fold(text.to_owned(), |text, secret| secret.scrub(&text))
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

/// The content of one try.
#[derive(Debug, Clone, Copy)]
struct Sent<'a> {
    body: &'a [u8],
    /// The name of a beta that the provider is asked for.
    header: Option<&'static str>,
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
        no_calls: false,
        system: Vec::new(),
        format: None,
        messages: Vec::new(),
        cached_messages: 0,
        tail: None,
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
    decode()
        .map(|answer| with_ids_of_their_own(answer, &[]))
        .map_err(|failed: Failed| failed.message)
}

/// What was read of a reply; its bytes only where they are recorded.
#[derive(Debug)]
struct Taken {
    head: Option<http::Head>,
    tape: Option<Vec<u8>>,
    /// The reply came to its own end, or the answer in it did.
    is_whole: bool,
}

impl Taken {
    fn new(is_recorded: bool) -> Taken {
        Taken { head: None, tape: is_recorded.then(Vec::new), is_whole: false }
    }

    async fn chunk(
        &mut self,
        reply: &mut http::Reply,
        idle: Duration,
    ) -> Result<Option<Vec<u8>>, Failed> {
        let chunk = reply.chunk(idle).await?;
        match (&chunk, &mut self.tape) {
            (Some(chunk), Some(tape)) => tape.extend_from_slice(chunk),
            (Some(_), None) => {}
            (None, _) => self.is_whole = true,
        }
        Ok(chunk)
    }
}

/// A header's value: visible ASCII only.
fn plain(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(120).collect()
}

/// How long to wait before the next try: twice as long each time, half of it by chance so that many
/// callers do not come back at once; what the provider asked for, and a little of that on top.
fn pause(tries: u32, asked: Option<Duration>, chance: f64) -> Duration {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(30);
    let doubled = FIRST.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST);
    let own = doubled.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
    asked.map_or(own, |asked| asked + own / 4)
}

/// What a status other than 200 means.
fn refusal(status: u16, body: &str) -> Failed {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let error = if value["error"].is_null() { &value } else { &value["error"] };
    let said = message_of(error);
    let message = if said.is_empty() {
        format!("refused: {}", text::shown(body.trim(), 300))
    } else {
        said.to_owned()
    };
    let kind = match status {
        413 => Kind::ContextTooLong,
        _ if is_too_long(error) => Kind::ContextTooLong,
        401..=404 => Kind::Denied,
        // No pause brings money.
        _ if is_unpaid(error) => Kind::Denied,
        429 => Kind::RateLimited,
        408 | 409 | 500..=599 => Kind::Provider,
        400 | 422 if names_schema(error) => Kind::SchemaRefused,
        _ => Kind::Rejected,
    };
    Failed { kind, message }
}

/// True if the account is the reason, whatever the status: providers send 400 and 429 for it.
fn is_unpaid(error: &Value) -> bool {
    const CODES: [&str; 4] =
        ["insufficient_quota", "billing_hard_limit_reached", "billing_error", "billing_not_active"];
    [&error["code"], &error["type"]].iter().any(|own| CODES.contains(&text_of(own)))
        || message_of(error).contains("credit balance is too low")
}

/// True for a refusal of the header that asks for a longer window.
fn names_header(message: &str) -> bool {
    let said = message.to_lowercase();
    ["anthropic-beta", "beta header", "context-1m", "long context beta"]
        .iter()
        .any(|words| said.contains(words))
}

/// True for a refusal of the schema of the answer, in any provider's words.
fn names_schema(error: &Value) -> bool {
    let said = format!("{} {}", message_of(error), text_of(&error["param"])).to_lowercase();
    let is_about = |words: &[&str]| words.iter().any(|word| said.contains(word));
    // The schemas of tools are another matter.
    !is_about(&["input_schema", "for function", "tools[", "tools."])
        && is_about(&[
            "schema",
            "response_format",
            "output_config",
            "output_format",
            "text.format",
            "structured output",
            "grammar",
        ])
}

/// Some servers put the text where others have an object.
fn message_of(error: &Value) -> &str {
    error.as_str().unwrap_or_else(|| text_of(&error["message"]))
}

/// Each provider says it in words of its own.
fn is_too_long(error: &Value) -> bool {
    let (code, kind) = (text_of(&error["code"]), text_of(&error["type"]));
    let message = message_of(error).to_lowercase();
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

/// An answer without what was only asked for because of the provider.
fn restored(mut answer: Answer, schema: Option<&Fitted>) -> Answer {
    let Some(text) = schema.and_then(|schema| schema.restored(&answer.text())) else {
        return answer;
    };
    let is_text = |part: &Part| matches!(part, Part::Text { .. });
    let first = answer.parts.iter().position(is_text).unwrap_or_default();
    answer.parts.retain(|part| !is_text(part));
    answer.parts.insert(first.min(answer.parts.len()), Part::Text { text });
    answer
}

/// Two calls of one answer with the same id cannot both be answered. An id that an earlier turn had
/// (some servers begin again at each answer) is made another.
fn with_ids_of_their_own(mut answer: Answer, earlier: &[Message]) -> Answer {
    let calls = earlier.iter().flat_map(|message| &message.parts);
    let used: BTreeSet<&str> = calls
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.id.as_str()),
            _ => None,
        })
        .collect();
    let mut seen = BTreeSet::new();
    let (mut kept, mut broken) = (Vec::new(), Vec::new());
    for part in answer.parts {
        match part {
            Part::ToolCall(call) if !seen.insert(call.id.clone()) => {
                broken.push(not_run(call, "another call has the same id"));
            }
            Part::ToolCall(mut call) if used.contains(call.id.as_str()) => {
                let mut numbered = (2..).map(|number: u64| format!("{}_{number}", call.id));
                let is_free = |id: &String| !used.contains(id.as_str()) && !seen.contains(id);
                if let Some(id) = numbered.find(is_free) {
                    seen.insert(id.clone());
                    call.id = id;
                }
                kept.push(Part::ToolCall(call));
            }
            part => kept.push(part),
        }
    }
    answer.parts = kept;
    answer.broken_calls.extend(broken);
    answer
}

fn cut_off(call: ToolCall) -> BrokenCall {
    not_run(call, "the call was cut off")
}

fn not_run(call: ToolCall, why: &str) -> BrokenCall {
    let arguments = Value::Object(call.arguments).to_string();
    BrokenCall { id: call.id, name: call.name, arguments, why: why.to_owned() }
}

/// OpenAI takes 64 characters; a longer key keeps its meaning as a number of itself.
fn cache_key(request: &Request) -> String {
    let key = &request.cache_key;
    if key.len() <= 64 { key.clone() } else { blake3::hash(key.as_bytes()).to_hex().to_string() }
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
        Failed { kind, message: format!("the provider broke off: {word}: {}", message_of(error)) }
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
