//! `baton models [ping]`

use std::time::{Duration, Instant};

use baton_core::id::Tokens;
use baton_core::message::{Message, Request, Wire};
use baton_runtime::load;
use baton_runtime::model::cassette::Tape;
use baton_runtime::model::catalogue::{self, Known};
use baton_runtime::model::choose::{self, Asked, Choice};
use baton_runtime::model::{Client, Delta, Error, Kind, Limits, Mode, Tags};
use serde_json::{Value, json};

use super::run::with_key;
use super::{Outcome, Place};
use crate::args::{ModelsArgs, ModelsCommand, ProviderArgs};
use crate::reply::{Failure, INTERNAL, Reply, USAGE, counted, table};

/// A person waits for this.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn run(place: &Place, args: &ModelsArgs) -> Outcome {
    let (config, _) = load::config(&place.environment, None)?;
    let choice = chosen(place, &args.provider, &config)?;
    let model = choice.model_or(None);
    let own = model.as_ref().and_then(|model| config.models.get(model));
    let known = model.as_deref().map(|model| catalogue::known(model, own));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(INTERNAL, format!("cannot start: {error}")))?;
    match &args.command {
        None => {
            let others = choose::others(&choice, &place.environment);
            let own = own.and_then(|own| own.context_window).map(Tokens);
            runtime.block_on(list(&choice, known, own, &others))
        }
        Some(ModelsCommand::Ping { record, replay }) => {
            if record.is_some() || replay.is_none() {
                with_key(&choice)?;
            }
            let tape = match (record, replay) {
                (Some(path), _) => Some(Tape::record(path)),
                (None, Some(path)) => Some(Tape::play(path)),
                (None, None) => None,
            };
            let tape = tape.transpose().map_err(|why| Failure::new(USAGE, why))?;
            runtime.block_on(ping(&choice, known, tape))
        }
    }
}

fn chosen(
    place: &Place,
    args: &ProviderArgs,
    config: &baton_core::config::Config,
) -> Result<Choice, Failure> {
    let asked = Asked {
        provider: args.provider.clone(),
        base_url: args.base_url.clone(),
        model: args.model.clone(),
        key_over_http: args.key_over_http,
    };
    match choose::choose(&asked, config, &place.environment) {
        Ok(Some(choice)) => Ok(choice),
        Ok(None) => Err(Failure::new(USAGE, "no model is configured").hint(choose::ways())),
        Err(problem) => Err(Failure::new(USAGE, problem.to_string())),
    }
}

fn client(choice: &Choice, limits: Limits) -> Result<Client, Failure> {
    let client = Client::new(choice.endpoint.clone(), limits);
    let client = client.map_err(|error| Failure::new(INTERNAL, error))?;
    Ok(client.with_secrets(&choice.secrets))
}

/// The window: the person's own figure, what the server tells, what is known of the name.
async fn window(
    client: &Client,
    own: Option<Tokens>,
    listed: Option<Tokens>,
    known: Option<Known>,
) -> Option<Tokens> {
    let known = known.and_then(|known| known.context_window);
    match own.or(listed).or(known) {
        None => client.own_window(PATIENCE).await,
        found => found,
    }
}

async fn list(
    choice: &Choice,
    known: Option<Known>,
    own_window: Option<Tokens>,
    others: &[String],
) -> Outcome {
    let client = client(choice, Limits { connect: PATIENCE, ..Limits::default() })?;
    let listed = client.listed(PATIENCE).await;
    let reachable = match &listed {
        Ok(models) => format!("yes, {} listed", counted(models.len(), "model")),
        Err(error) if error.kind == Kind::Denied => {
            format!("yes, but the key is refused: {}", error.message)
        }
        // A server that answers at all is there; not every one can list.
        Err(error) if error.status.is_some() => {
            format!("yes (no list: status {})", error.status.unwrap_or_default())
        }
        Err(error) => format!("no: {}", error.message),
    };
    let model = choice.model_or(None);
    let model = model.as_deref();
    let named = listed.iter().flatten().find(|listed| Some(listed.id.as_str()) == model);
    // A server with one model answers to any name.
    let only =
        listed.as_ref().ok().filter(|models| models.len() == 1).and_then(|models| models.first());
    let told = named.or(only).and_then(|listed| listed.context_window);
    let window = match listed {
        Ok(_) => window(&client, own_window, told, known).await,
        Err(_) => own_window.or(known.and_then(|known| known.context_window)),
    };
    let key = choice.key_from.as_ref().map_or("none".to_owned(), |from| format!("from {from}"));
    let price = known.and_then(|known| known.price);
    let shown_price = price.map_or("unknown".to_owned(), |price| {
        let dollars = |nano: u64| format!("${}.{:02}", nano / 1_000, nano % 1_000 / 10);
        format!(
            "{} in, {} out a million tokens (as of {})",
            dollars(price.input),
            dollars(price.output),
            price.as_of
        )
    });
    let tokens = |tokens: Option<Tokens>| {
        tokens.map_or("unknown".to_owned(), |tokens| format!("{tokens} tokens"))
    };
    let mut rows = vec![
        vec![
            "provider".to_owned(),
            format!("{} (by {})", choice.endpoint.wire.name(), choice.because),
        ],
        vec!["address".to_owned(), choice.endpoint.base_url.to_string()],
        vec!["key".to_owned(), key],
        vec!["model".to_owned(), shown_model(choice)],
        vec!["window".to_owned(), tokens(window)],
        vec!["price".to_owned(), shown_price],
        vec!["reachable".to_owned(), reachable],
    ];
    if !others.is_empty() {
        rows.push(vec!["also set".to_owned(), others.join(", ")]);
    }
    let shown = defaults().map(|(name, model)| format!("{model} ({name})"));
    rows.push(vec!["defaults".to_owned(), shown.join(", ")]);
    let names: Vec<&str> =
        listed.iter().flatten().take(20).map(|listed| listed.id.as_str()).collect();
    rows.extend(names.iter().map(|name| vec![String::new(), (*name).to_owned()]));
    let json = json!({
        "ok": listed.is_ok(),
        "provider": choice.endpoint.wire,
        "base_url": choice.endpoint.base_url.to_string(),
        "key": choice.endpoint.key.is_some(),
        "key_from": choice.key_from,
        "also_set": others,
        "model": model,
        "defaults": defaults().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "context_window": window,
        "price_as_of": price.map(|price| price.as_of),
        "error": listed.as_ref().err().map(ToString::to_string),
        "models": listed.iter().flatten().map(|listed| json!({ "id": listed.id, "context_window": listed.context_window })).collect::<Vec<_>>(),
    });
    let mut reply = Reply::new(table(&rows), json);
    reply.code = if listed.is_ok() { 0 } else { USAGE };
    Ok(reply)
}

/// The model that each provider is asked for where no other is named.
fn defaults() -> [(&'static str, &'static str); 2] {
    [Wire::Anthropic, Wire::Responses].map(|wire| (wire.name(), catalogue::default_model(wire)))
}

fn shown_model(choice: &Choice) -> String {
    match (&choice.model, &choice.default_model) {
        (Some(model), _) => model.clone(),
        (None, Some(model)) => format!("{model} (the default)"),
        (None, None) => "not chosen: pass --model or set BATON_MODEL".to_owned(),
    }
}

async fn ping(choice: &Choice, known: Option<Known>, tape: Option<Tape>) -> Outcome {
    let Some(model) = choice.model_or(None) else {
        return Err(Failure::new(USAGE, "no model is chosen").hint(
            "pass `--model NAME` or set BATON_MODEL; `baton models` lists what the server has",
        ));
    };
    let mut client = client(choice, Limits { retries: 1, ..Limits::default() })?;
    if let Some(tape) = tape {
        client = client.with_tape(tape);
    }
    let request = Request {
        model,
        max_output: Tokens(64),
        temperature: None,
        cache_key: "baton-ping".to_owned(),
        tools: Vec::new(),
        no_calls: false,
        system: vec!["You answer with one word.".to_owned()],
        format: None,
        messages: vec![Message::user("Say: pong")],
        cached_messages: 0,
        tail: None,
    };
    let tags = Tags { run: "ping".to_owned(), stage: "PING".to_owned(), iteration: 0, attempt: 1 };
    let start = Instant::now();
    let mut first = None;
    let mut hear = |delta: Delta| {
        if matches!(delta, Delta::Text(_) | Delta::Thinking(_)) {
            first.get_or_insert_with(|| start.elapsed());
        }
    };
    let answer = client.call(&request, Mode::Stream, &tags, &mut hear).await.map_err(failed)?;
    let total = start.elapsed();
    let usage = answer.usage;
    let price = known.and_then(|known| known.price);
    let cost = catalogue::cost(&usage, price.as_ref());
    let count =
        |tokens: Option<Tokens>| tokens.map_or("unknown".to_owned(), |tokens| tokens.to_string());
    let cache = match (usage.cache_read, usage.cache_write) {
        (None, None) => "not reported".to_owned(),
        (read, written) => format!("reported: {} read, {} written", count(read), count(written)),
    };
    let text = table(&[
        vec![
            "answer".to_owned(),
            format!(
                "{:?} from {}",
                baton_core::text::shown(answer.text().trim(), 60),
                answer.model
            ),
        ],
        vec!["first word".to_owned(), first.map_or("none".to_owned(), milliseconds)],
        vec!["whole".to_owned(), milliseconds(total)],
        vec![
            "tokens".to_owned(),
            format!("{} in, {} out", count(usage.input), count(usage.output)),
        ],
        vec!["cache".to_owned(), cache],
        vec!["cost".to_owned(), cost.map_or("unknown".to_owned(), |cost| cost.to_string())],
    ]);
    let json = json!({
        "ok": true,
        "model": answer.model,
        "answer": answer.text(),
        "stop": answer.stop,
        "first_ms": first.map(|time| time.as_secs_f64() * 1e3),
        "total_ms": total.as_secs_f64() * 1e3,
        "usage": usage,
        "cost_nanodollars": cost.map_or(Value::Null, |cost| json!(cost.0)),
    });
    Ok(Reply::new(text, json))
}

fn milliseconds(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

fn failed(error: Error) -> Failure {
    let hint = match error.kind {
        Kind::Denied => "is the key set, and is it this provider's?",
        Kind::Connection => "is the server running at this address?",
        Kind::Rejected => "is the model's name right? `baton models` lists what the server has",
        Kind::NotRecorded => "record it anew with `--record FILE`",
        _ => "it may pass; try again",
    };
    Failure::new(INTERNAL, error.to_string()).hint(hint)
}
