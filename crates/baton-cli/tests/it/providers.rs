//! Whole runs and the agent against servers that enforce what the real providers do: schemas,
//! windows, keys; by the real binary over real HTTP.

mod choosing;
mod rules;
mod schemas;
mod server;
mod windows;

use baton_testkit::{Place, answer};

use rules::Provider;
use server::Server;

/// A small project and a home.
fn project() -> Place {
    let place = Place::new(crate::BATON).at("project");
    place.write("project/src/lib.rs", "fn add() {}\n");
    place
}

/// With the blackboard of a pack.
fn project_with(pack: &str) -> Place {
    project().with_board(pack)
}

/// The user's own configuration.
fn configure(place: &Place, text: &str) {
    place.write("home/.config/baton/baton.toml", text);
}

/// Runs with these variables alone and expects this exit code; everything that was printed.
fn expect(place: &Place, args: &[&str], variables: &[(&str, &str)], code: i32) -> String {
    answer(place.plain(args).envs(variables.iter().copied())).expect(args, code)
}

/// The flags that name a server.
fn flags(provider: Provider, server: &Server) -> [&str; 6] {
    let name = match provider {
        Provider::Anthropic => "anthropic",
        Provider::Responses => "openai-responses",
        Provider::Chat | Provider::LlamaCpp => "openai-chat",
    };
    ["--provider", name, "--base-url", &server.url, "--model", "served"]
}
