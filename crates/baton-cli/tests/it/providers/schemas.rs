//! Each provider gets only the schema keywords that it accepts.

use serde_json::{Value, json};

use super::rules::Provider;
use super::server::{Asked, Said, Server};
use super::{expect, flags, project, project_with};
use baton_testkit::Place;

const ALL: [Provider; 4] =
    [Provider::Anthropic, Provider::Responses, Provider::Chat, Provider::LlamaCpp];

fn decision(next: &str, plan: &Value, question: &Value) -> String {
    json!({
        "next_agent": next,
        "reason": "M1-T1 is next",
        "dev_plan": plan,
        "finish_review_override": null,
        "task": null,
        "question": question,
    })
    .to_string()
}

/// A team that asks the user, reviews and finishes.
fn team(asked: &Asked) -> Said {
    let iteration = asked.header("x-baton-iteration").unwrap().to_owned();
    let (plan, question) = (
        json!({ "replace": "## Milestone M1: Safe\n\n### M1-T1: add()\n- status: TODO\n" }),
        json!({
            "title": "Which way?",
            "text": "A or B",
            "options": [
                { "option_id": "a", "description": "A" },
                { "option_id": "b", "description": "B" },
            ],
            "recommended_option_id": null,
        }),
    );
    Said::Text(match (asked.stage(), iteration.as_str()) {
        ("MAIN", "1") => decision("DEV", &plan, &Value::Null),
        ("MAIN", "2") => decision("USER", &Value::Null, &question),
        ("MAIN", "3") => decision("REVIEW", &Value::Null, &Value::Null),
        ("MAIN", _) => decision("FINISH", &json!("update M1-T1 status to VERIFIED"), &Value::Null),
        ("FINISH_CHECK", _) => decision("FINISH", &Value::Null, &Value::Null),
        _ => format!("iteration: {iteration}\nverdict: PASS\nblockers: none\n\nM1-T1\n"),
    })
}

fn place() -> Place {
    let place = project_with("tdd");
    let policy = "project/.baton/memory/verification_policy.json";
    let mut rules: Value = serde_json::from_str(&place.read(policy)).unwrap();
    rules["tdd_rules"]["min_coverage"] = 0.into();
    rules["finish_rules"]["passes"] = json!(["REVIEW"]);
    place.write(policy, format!("{rules:#}\n"));
    place
}

#[test]
fn a_whole_run_with_a_question_passes_where_each_providers_schema_rules_are_enforced() {
    for provider in ALL {
        let server = Server::start(provider, team);
        let place = place();
        for (args, code) in [(["run", "Make add() safe"], 10), (["answer", "a"], 0)] {
            expect(&place, &[&args[..], &flags(provider, &server)].concat(), &[], code);
        }
        let asked = server.asked();
        assert!(asked.iter().all(|own| own.status == 200), "{provider:?}: {asked:?}");
        let main = asked.iter().filter(|own| own.stage() == "MAIN");
        let schemas: Vec<bool> =
            main.map(|own| provider.schema(&own.body).is_some_and(|schema| schema.1)).collect();
        assert_eq!(schemas, [true; 4], "{provider:?}: MAIN is asked under a strict schema");
    }
}

#[test]
fn the_json_protocol_passes_where_each_providers_schema_rules_are_enforced() {
    for provider in ALL {
        // As a model answers that has to follow the schema it was given.
        let shaped = move |tool: &str, arguments: Value| {
            let action = json!({ "thought": "so", "tool": tool, "arguments": arguments });
            match provider {
                Provider::Anthropic | Provider::Responses => json!({ "answer": action }),
                Provider::Chat | Provider::LlamaCpp => action,
            }
        };
        let arguments = match provider {
            Provider::Responses => {
                json!({ "pattern": "fn add", "path": null, "glob": null, "ignore_case": null, "hidden": null })
            }
            _ => json!({ "pattern": "fn add" }),
        };
        let server = Server::start(provider, move |asked| {
            let is_first = !asked.body.to_string().contains("[tool]");
            Said::Text(match is_first {
                true => shaped("Grep", arguments.clone()).to_string(),
                false => shaped("Finish", json!({ "answer": "found" })).to_string(),
            })
        });
        let args = ["exec", "-p", "Where is add()?", "--protocol", "json"];
        let said = expect(&project(), &[&args[..], &flags(provider, &server)].concat(), &[], 0);
        assert!(said.contains("found\n"), "{said}");
        let asked = server.asked();
        let statuses: Vec<u16> = asked.iter().map(|own| own.status).collect();
        assert_eq!(statuses, [200, 200], "{provider:?}");
        assert!(asked.iter().all(|own| provider.schema(&own.body).is_some()), "{provider:?}");
        assert!(asked[1].last_words().contains("src/lib.rs"), "{}", asked[1].last_words());
    }
}

#[test]
fn a_refused_schema_is_left_out_once_for_the_rest_of_the_run_and_reported() {
    let words = [
        (Provider::Anthropic, "output_config.format: this model does not support it"),
        (Provider::Responses, "Unsupported parameter: 'text.format' of type json_schema"),
        (Provider::Chat, "'response_format.type' must be 'text'"),
    ];
    for (provider, refused) in words {
        let server = Server::start(provider, move |asked| match provider.schema(&asked.body) {
            Some(_) => Said::Refused(400, refused.to_owned()),
            None => team(asked),
        });
        let place = place();
        let args = [&["run", "Make add() safe"][..], &flags(provider, &server)].concat();
        let said = expect(&place, &args, &[], 10);
        let notice = "does not accept the schema of the answer and is asked without it";
        assert_eq!(said.matches(notice).count(), 1, "{said}");
        let main: Vec<u16> = server
            .asked()
            .iter()
            .filter(|own| own.stage() == "MAIN")
            .map(|own| own.status)
            .collect();
        assert_eq!(main, [400, 200, 200], "{provider:?}: asked with it once");
    }
}

#[test]
fn another_refusal_is_not_taken_for_one_of_the_schema() {
    let server =
        Server::start(Provider::Anthropic, |_| Said::Refused(400, "no such model".to_owned()));
    let place = place();
    let args = [&["run", "Make add() safe"][..], &flags(Provider::Anthropic, &server)].concat();
    let said = expect(&place, &args, &[], 1);
    assert!(said.contains("no such model, status 400\n"), "no request id, nothing of it: {said}");
    assert!(server.asked().iter().all(|own| Provider::Anthropic.schema(&own.body).is_some()));
}
