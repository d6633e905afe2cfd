//! The executors and models that a run remembers, laid under the flags that are given now.

use baton_core::config::{AgentConfig, Config};
use baton_core::event::{RunSetup, Runner};
use baton_core::message::Wire;
use baton_core::problem::Problem;
use baton_runtime::board::Board;
use baton_runtime::model::cassette::Tape;
use baton_runtime::model::{Endpoint, choose};
use baton_runtime::trust;

use super::Place;
use crate::args::{HowArgs, ProviderArgs, TapeArgs};
use crate::reply::{Failure, USAGE};

/// The flags with which a run continues: those that are given, else what the run remembers. The
/// board's configuration of agents and samples follows. A journal of version 0.1 remembers nothing:
/// flags, configuration and environment count then.
pub(super) fn continued(
    place: &Place,
    board: &mut Board,
    how: &HowArgs,
    setup: Option<&RunSetup>,
) -> Result<HowArgs, Failure> {
    let Some(setup) = setup else { return replayed(&mut board.config, how) };
    let is_named = names_a_model(how) || how.executor.is_some();
    if setup.default.executor == Runner::CASSETTE && how.tape.replay.is_none() && !is_named {
        return Err(Failure::new(USAGE, "this run replays a cassette, and no cassette is given")
            .hint("pass --replay FILE, or --executor builtin to continue with the model itself"));
    }
    let mut now = overlaid(&mut board.config, how, setup);
    match trust::is_own_setup(board, &place.environment, setup) {
        true => now.no_sandbox |= setup.no_sandbox,
        false => chosen_by_flags(how, &now, setup)?,
    }
    if how.tape.replay.is_none() && is_builtin(&now) {
        key_is_there(place, &board.config, &now)?;
    }
    Ok(now)
}

/// A journal may have come with a project: it chooses neither the server that gets a key nor the
/// program that runs.
fn chosen_by_flags(how: &HowArgs, now: &HowArgs, setup: &RunSetup) -> Result<(), Failure> {
    let refused = |what: &str, name: &str, hint: &str| {
        let name = baton_core::text::shown(name, 200);
        let message = format!(
            "the journal of this run names the {what} {name}, but you did not start this run here"
        );
        Err(Failure::new(USAGE, message).hint(hint))
    };
    let is_foreign = |own: &Endpoint| !own.is_official() && !own.is_local();
    if how.provider.base_url.is_none() && endpoint(now)?.is_some_and(|own| is_foreign(&own)) {
        let hint = "pass --base-url to call it all the same, or --provider and --model of another";
        return refused("server", now.provider.base_url.as_deref().unwrap_or_default(), hint);
    }
    let is_program = |own: &&Runner| ![Runner::BUILTIN, Runner::CASSETTE].contains(&&*own.executor);
    match setup.runners().find(is_program) {
        Some(own) if how.executor.is_none() => {
            refused("program", &own.executor, "pass --executor to run it all the same, or another")
        }
        _ => Ok(()),
    }
}

fn names_a_model(how: &HowArgs) -> bool {
    let flags = &how.provider;
    flags.provider.is_some() || flags.base_url.is_some() || flags.model.is_some()
}

fn is_builtin(how: &HowArgs) -> bool {
    how.executor.as_deref().is_none_or(|name| name == Runner::BUILTIN)
}

/// The server that the flags name.
fn endpoint(how: &HowArgs) -> Result<Option<Endpoint>, Failure> {
    let name = how.provider.provider.as_deref();
    let Some(wire) = Wire::ALL.into_iter().find(|wire| Some(wire.name()) == name) else {
        return Ok(None);
    };
    let url = how.provider.base_url.as_deref().map(str::parse).transpose();
    let url = url.map_err(|problem: Problem| Failure::new(USAGE, problem.to_string()))?;
    Ok(Some(Endpoint::new(wire, url, None)))
}

/// The name by which an executor is chosen again.
fn chosen_as(runner: &Runner) -> String {
    let is_cassette = runner.executor == Runner::CASSETTE;
    if is_cassette { Runner::BUILTIN.to_owned() } else { runner.executor.clone() }
}

/// A setup under the flags: a flag takes the place of what it names and of what depends on it.
pub(super) fn overlaid(config: &mut Config, how: &HowArgs, setup: &RunSetup) -> HowArgs {
    let flags = &how.provider;
    let mut now = how.clone();
    let called = setup.runners().find(|own| own.provider.is_some());
    let wire = called.and_then(|own| own.provider).map(Wire::name);
    let is_same_provider = flags.provider.is_none() || flags.provider.as_deref() == wire;
    let keeps_executors = how.executor.is_none();
    let keeps_models = flags.model.is_none() && is_same_provider;
    if keeps_executors {
        // A model that is named is to be called, whatever program ran the stages before.
        let by_model = names_a_model(how).then(|| Runner::BUILTIN.to_owned());
        now.executor = by_model.or_else(|| Some(chosen_as(&setup.default)));
    }
    if let Some(called) = called.filter(|_| is_same_provider) {
        now.provider.provider = wire.map(str::to_owned);
        now.provider.base_url = flags.base_url.clone().or_else(|| called.base_url.clone());
    }
    if keeps_models {
        now.provider.model.clone_from(&setup.default.model);
    }
    for (name, own) in &mut config.agents {
        if setup.agents.contains_key(name) {
            continue;
        }
        if keeps_models {
            own.model = None;
        }
        if keeps_executors {
            own.executor = None;
            // With settings of its own it is not run by what the flag names.
            let has_settings = *own != AgentConfig::default();
            own.executor = has_settings.then(|| chosen_as(&setup.default));
        }
    }
    for (name, runner) in &setup.agents {
        let own = config.agents.entry(name.clone()).or_default();
        if keeps_executors {
            own.executor = Some(chosen_as(runner));
        }
        if keeps_models {
            own.model.clone_from(&runner.model);
        }
    }
    if let Some(evaluation) = setup.evaluation.as_ref().filter(|_| keeps_models) {
        config.scenario.target.clone_from(&evaluation.target.model);
        config.scenario.judge = Some(evaluation.judge.clone());
    }
    if now.provider.model.is_some() {
        config.provider.model.clone_from(&now.provider.model);
    }
    now
}

/// The flags of a replay: what is not given comes from the cassette. What it says of the sandbox
/// does not count.
pub(super) fn replayed(config: &mut Config, how: &HowArgs) -> Result<HowArgs, Failure> {
    if how.tape.replay.is_none() {
        return Ok(how.clone());
    }
    let about = tape(&how.tape)?.and_then(|tape| tape.about());
    if let Some(setup) = about.and_then(|about| about.setup) {
        return Ok(overlaid(config, how, &setup));
    }
    let provider = provider(&how.tape, &how.provider)?;
    Ok(HowArgs { provider, ..how.clone() })
}

/// The same for a command that calls one model.
pub(super) fn provider(tape: &TapeArgs, flags: &ProviderArgs) -> Result<ProviderArgs, Failure> {
    let mut now = flags.clone();
    let runner = match &tape.replay {
        Some(_) => self::tape(tape)?.and_then(|tape| tape.runner()),
        None => None,
    };
    let Some(runner) = runner.filter(|_| flags.provider.is_none()) else { return Ok(now) };
    now.provider = runner.provider.map(|wire| wire.name().to_owned());
    now.base_url = now.base_url.or(runner.base_url);
    now.model = now.model.or(runner.model);
    Ok(now)
}

/// The cassette that a command records or replays; it is opened once.
pub(super) fn tape(args: &TapeArgs) -> Result<Option<Tape>, Failure> {
    let opened = match (args.opened.get(), &args.record, &args.replay) {
        (Some(tape), _, _) => return Ok(Some(tape.clone())),
        (None, Some(path), _) => Tape::record(path),
        (None, None, Some(path)) => Tape::play(path),
        (None, None, None) => return Ok(None),
    };
    let opened = opened.map_err(|why| Failure::new(USAGE, why))?;
    Ok(Some(args.opened.get_or_init(|| opened).clone()))
}

/// A provider that asks for a key must find one.
fn key_is_there(place: &Place, config: &Config, how: &HowArgs) -> Result<(), Failure> {
    let Some(endpoint) = endpoint(how)? else { return Ok(()) };
    let wire = endpoint.wire;
    let variable = choose::key_variable(wire);
    let own = &config.provider;
    let has_command = own.name.is_none_or(|name| name == wire) && own.api_key_command.is_some();
    if !endpoint.is_official() || place.environment.is_set(variable) || has_command {
        return Ok(());
    }
    let message = format!("this run calls {}, and {variable} is not set", wire.name());
    Err(Failure::new(USAGE, message)
        .hint(format!("set {variable}, or name another model with --provider and --model")))
}
