//! Which model is called, with which key, and what is noticed before a run starts.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::rules::Provider;
use super::server::{Asked, Said, Server};
use super::{configure, expect, flags, project, project_with};

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-canary-0123456789");

fn models(server: &Server) -> Vec<(String, String)> {
    let model = |own: &Asked| own.body["model"].as_str().unwrap_or_default().to_owned();
    server.asked().iter().map(|own| (own.stage().to_owned(), model(own))).collect()
}

fn hello(_: &Asked) -> Said {
    Said::Text("hello".to_owned())
}

#[test]
fn a_missing_key_is_noticed_before_anything_is_made() {
    let place = project();
    let named = ["--provider", "anthropic", "--model", "m"];
    for args in [
        &["run", "Make add() safe"][..],
        &["exec", "-p", "hello"],
        &["scenario", "run", "--root", "."],
    ] {
        if args[0] == "scenario" {
            std::fs::create_dir_all(place.path("project/scenarios/coffee")).unwrap();
        }
        let said = expect(&place, &[args, &named].concat(), &[], 2);
        assert!(said.contains("no key for anthropic; expected ANTHROPIC_API_KEY"), "{said}");
    }
    assert!(!place.path("project/.baton").exists(), "no blackboard was made");
    assert!(!place.path("home/.local").exists(), "no conversation was begun");
    // A server of one's own may need none.
    let server = Server::start(Provider::Anthropic, hello);
    let args = [&["exec", "-p", "hello"][..], &flags(Provider::Anthropic, &server)].concat();
    expect(&place, &args, &[], 0);
}

#[test]
fn a_key_alone_is_enough() {
    for (provider, variables, model) in [
        (Provider::Anthropic, ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"], "claude-sonnet-5-5"),
        (Provider::Responses, ["OPENAI_API_KEY", "OPENAI_BASE_URL"], "gpt-5.6-terra"),
    ] {
        let server = Server::start(provider, hello);
        let variables = [(variables[0], "sk-canary-0123456789"), (variables[1], &server.url)];
        let place = project();
        assert!(expect(&place, &["exec", "-p", "hello"], &variables, 0).contains("hello"));
        expect(&place, &["run", "Make add() safe"], &variables, 3);
        assert!(models(&server).iter().all(|own| own.1 == model), "{:?}", models(&server));
        let said = expect(&place, &["models"], &variables, 2);
        let defaults = "claude-sonnet-5-5 (anthropic), gpt-5.6-terra (openai-responses)";
        assert!(said.contains(defaults), "{said}");
    }
}

#[test]
fn a_server_of_ones_own_is_asked_which_models_it_has() {
    let place = project();
    let only = Server::listing(Provider::Chat, &["tiny"], hello);
    expect(&place, &["exec", "-p", "hello", "--base-url", &only.url], &[], 0);
    assert_eq!(models(&only), [("talk".to_owned(), "tiny".to_owned())]);
    let two = Server::listing(Provider::Chat, &["tiny", "large"], hello);
    let said = expect(&place, &["exec", "-p", "hello", "--base-url", &two.url], &[], 2);
    assert!(said.contains("no model is chosen"), "{said}");
    assert!(said.contains("the server has tiny, large"), "{said}");
    // Whatever key is set: this is not the provider.
    let key = [("OPENAI_API_KEY", "sk-canary-0123456789")];
    expect(&place, &["exec", "-p", "hello", "--base-url", &two.url], &key, 2);
    assert!(two.asked().is_empty());
}

#[test]
fn the_models_of_profiles_are_used_by_a_run_and_a_named_one_goes_before_them() {
    let to = |next: &str| {
        Said::Text(
            json!({
                "next_agent": next, "reason": "so", "dev_plan": null,
                "finish_review_override": null, "task": "design it", "question": null,
            })
            .to_string(),
        )
    };
    let answer = move |asked: &Asked| match asked.stage() {
        "MAIN" => to("INIT"),
        _ => hello(asked),
    };
    let of = |args: &[&str], config: &str, stage: &str| {
        let server = Server::start(Provider::Anthropic, answer);
        let place = project_with("scenario");
        configure(&place, config);
        let run = ["run", "x", "--scenario", "coffee", "--max-iterations", "1"];
        let variables = [KEY, ("ANTHROPIC_BASE_URL", server.url.as_str())];
        expect(&place, &[&run[..], args].concat(), &variables, 3);
        let models = models(&server);
        models.into_iter().find(|own| own.0 == stage).unwrap().1
    };
    assert_eq!(of(&[], "", "INIT"), "claude-opus-4-5");
    assert_eq!(of(&[], "", "MAIN"), "claude-sonnet-5-5");
    assert_eq!(of(&["--model", "m"], "", "INIT"), "m");
    let own = "[agents.INIT]\nmodel = \"x\"\n[provider]\nmodel = \"p\"\n";
    assert_eq!(of(&["--model", "m"], own, "INIT"), "x");
    assert_eq!(of(&[], own, "MAIN"), "p");
    let own = "[profiles.init]\nmodel = \"i\"\n[agents.INIT]\nprofile = \"init\"\n";
    assert_eq!(of(&[], own, "INIT"), "i");
    assert_eq!(of(&["--model", "m"], own, "INIT"), "m", "a flag goes before a profile");
}

#[test]
fn a_budget_in_dollars_with_a_model_without_a_price_is_refused_before_the_run() {
    let server = Server::start(Provider::Anthropic, hello);
    let place = project();
    let named = flags(Provider::Anthropic, &server);
    let args = [&["run", "x", "--budget-dollars", "1"][..], &named].concat();
    let said = expect(&place, &args, &[], 2);
    assert!(said.contains("a budget in dollars needs the price of served"), "{said}");
    assert!(server.asked().is_empty() && !place.path("project/.baton").exists());
    configure(&place, "[models.served]\ninput = 1.0\noutput = 2.0\n");
    expect(&place, &args, &[], 3);
    assert!(!server.asked().is_empty());
}

#[test]
fn doctor_knows_the_users_provider_and_blames_the_right_file() {
    let place = project_with("tdd");
    let state = |said: &str, what: &str| -> Value {
        let said: Value = serde_json::from_str(said).unwrap();
        let all = said["findings"].as_array().unwrap().clone();
        all.into_iter().find(|own| own["what"] == what).unwrap()
    };
    configure(&place, "[provider]\nbase_url = \"http://127.0.0.1:1\"\nmodel = \"tiny\"\n");
    let said = expect(&place, &["doctor", "--json"], &[], 0);
    let model = state(&said, "model");
    assert_eq!(model["state"], "ok", "{model}");
    assert!(model["detail"].as_str().unwrap().contains("tiny"), "{model}");
    configure(&place, "[provder]\nmodel = \"tiny\"\n");
    let said = expect(&place, &["doctor", "--json"], &[], 2);
    assert_eq!(state(&said, "user config")["state"], "wrong");
    assert_eq!(state(&said, "blackboard")["state"], "none");
    configure(&place, "");
    place.write("project/.baton/baton.toml", "[contxt]\nlevel = 1\n");
    let said = expect(&place, &["doctor", "--json"], &[], 2);
    assert_eq!(state(&said, "user config")["state"], "ok");
    assert_eq!(state(&said, "blackboard")["state"], "wrong");
    let said = expect(&place, &["doctor"], &[("BATON_PROVIDER", "anthropic")], 2);
    assert!(said.contains("no key"), "{said}");
}

#[test]
fn retries_are_shown_by_run_and_exec_in_one_wording() {
    // The listener is closed at once: the address refuses connections.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}");
    let named = ["--provider", "anthropic", "--base-url", &url, "--model", "m"];
    let place = project();
    for args in [&["run", "x"][..], &["exec", "-p", "hello"]] {
        let said = expect(&place, &[args, &named].concat(), &[], 1);
        assert!(said.contains("retry 1/4 in 0."), "{said}");
        assert!(said.contains(" s: connection refused"), "{said}");
        assert!(said.contains("connection refused, after 5 tries\n"), "{said}");
    }
}
