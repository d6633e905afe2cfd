//! The built-in packs, and a pack that nobody built in.

use baton_core::decision::{self, Moment, Next, check_routing};
use baton_core::id::AgentName;
use baton_core::pack::{self, Files, Pack};
use baton_core::plan::{Finality, Plan, parse_statements};
use baton_core::policy::{Outcome, Policy};
use baton_core::report::{self, Expected};
use baton_core::tokens;

use crate::common;
use crate::{LANGUAGES, PACKS};

#[test]
fn every_built_in_pack_is_right_in_both_languages() {
    for name in crate::PACKS {
        let problems = pack::check(&common::pack_files(name));
        assert!(problems.is_empty(), "{name}: {problems:#?}");
    }
}

#[test]
fn both_languages_of_a_pack_have_the_same_rules() {
    for name in crate::PACKS {
        let (en, zh) = (common::pack(name, "en").policy, common::pack(name, "zh").policy);
        assert_eq!(en.plan, zh.plan, "{name}");
        assert_eq!(en.routing, zh.routing, "{name}");
        assert_eq!(en.report_rules.verdict_allowed, zh.report_rules.verdict_allowed, "{name}");
        let classes = |policy: &baton_core::policy::Policy| -> Vec<String> {
            policy.report_rules.blocker_classes.keys().cloned().collect()
        };
        assert_eq!(classes(&en), classes(&zh), "{name}");
        let fields = |policy: &baton_core::policy::Policy| -> Vec<(String, Vec<String>)> {
            let fields = policy.context.summary_fields.iter();
            fields
                .map(|(agent, fields)| (agent.to_string(), fields.keys().cloned().collect()))
                .collect()
        };
        assert_eq!(fields(&en), fields(&zh), "{name}");
    }
}

/// The size of what a model reads at every call. A prompt that grows shows up here.
#[test]
fn prompts_stay_short() {
    let mut rows = Vec::new();
    for name in crate::PACKS {
        for language in crate::LANGUAGES {
            for (agent, prompt) in common::pack(name, language).prompts {
                let tokens = tokens::count(&prompt).0;
                let limit = if agent == "MAIN" { 4_200 } else { 2_200 };
                assert!(tokens <= limit, "{name}/{language}/{agent} has {tokens} tokens");
                rows.push(format!(
                    "{name} {language} {agent:<14} {:>4} lines {tokens:>5} tokens",
                    prompt.lines().count()
                ));
            }
        }
    }
    insta::assert_snapshot!(rows.join("\n"));
}

/// What one agent of each language reads, whole: a change of it must be seen by a reviewer.
#[test]
fn what_a_tester_reads() {
    insta::assert_snapshot!("tester_en", common::pack("tdd", "en").prompts["TEST"]);
    insta::assert_snapshot!("tester_zh", common::pack("tdd", "zh").prompts["TEST"]);
}

#[test]
fn a_pack_says_who_works_in_a_stage_or_a_neutral_text_does() {
    let (agent, file) =
        (AgentName::new("TRANSLATE").unwrap(), "fr/prompts/subagent_prompt_system.md");
    let mut files = translate();
    let neutral = Pack::read(&files, "fr").unwrap().conduct(&agent);
    assert!(neutral.starts_with("You are TRANSLATE, one of several agents"), "{neutral}");
    files.insert(file.to_owned(), "Vous êtes {agent}, traducteur.\n".to_owned());
    assert!(pack::check(&files).is_empty(), "{:#?}", pack::check(&files));
    let own = Pack::read(&files, "fr").unwrap().conduct(&agent);
    assert_eq!(own, "Vous êtes TRANSLATE, traducteur.");
    for (text, code) in [("Obéissez au PATRON.", "prompt-unknown-word"), (" ", "pack-empty-prompt")]
    {
        files.insert(file.to_owned(), text.to_owned());
        let problems = pack::check(&files);
        assert!(problems.iter().any(|problem| problem.code == code), "{text}: {problems:#?}");
    }
    for name in PACKS {
        let chinese = common::pack(name, "zh").conduct(&agent);
        assert!(chinese.starts_with("你是 `TRANSLATE`"), "{name}: {chinese}");
    }
}

/// A pack of another domain: other agents, verdicts, prefixes, statuses, classes, in French words.
pub(crate) fn translate() -> Files {
    let policy = r#"{
      "report_rules": {"apply_to": ["TRANSLATE", "PROOFREAD"], "require_verdict": true,
        "verdict_prefix": "avis :", "verdict_allowed": ["BON", "MAUVAIS", "SUSPENDU"],
        "verdict_pass": "BON", "verdict_fail": "MAUVAIS", "verdict_blocked": "SUSPENDU",
        "blocker_prefix": "obstacles :", "blocker_clear_value": "aucun",
        "blocker_classes": {"sens": ["contresens"], "style": ["lourd", "répétition"]}},
      "plan": {"statuses": ["A_FAIRE", "TRADUIT", "RELU"], "final": "RELU", "verified_by": ["PROOFREAD"]},
      "routing": {"needs_pass": {"PROOFREAD": ["TRANSLATE"]}, "after_fail": {"PROOFREAD": ["TRANSLATE"]}},
      "finish_rules": {"max_finish_attempts": 2},
      "milestones": {"plan_changes_over": 5, "pass_of": "PROOFREAD", "texts": {"user_decision": "choix : {choice}",
        "finish_attempt": "fin no {n}", "plan_update": "plan, {n} changements", "first_pass": "premier avis bon", "pass_again": "de nouveau bon"}},
      "context": {"relevant_reports": {"PROOFREAD": ["TRANSLATE"]}, "finish_ladder": ["TRANSLATE"]},
      "escalation": {"same_blocker": 3, "no_plan_change": 5}
    }"#;
    let manifest = "name = \"translate\"\ntitle = \"Translation\"\nlanguages = [\"fr\"]\n\
        [[agents]]\nname = \"TRANSLATE\"\nrole = \"traduit\"\nwrites = true\n\
        [[agents]]\nname = \"PROOFREAD\"\nrole = \"relit\"\nwrites = false\n";
    let report = "Un rapport :\n```report\niteration: 3\navis : MAUVAIS\nobstacles :\n- [sens] page 4, contresens\n```\n";
    let main = "Décidez.\n```json\n{\"next_agent\":\"TRANSLATE\",\"reason\":\"à faire\",\"dev_plan\":null,\"finish_review_override\":null}\n```\n\
        ```plan\n## Milestone M1: Livre\n### M1-T1: Chapitre\n- status: A_FAIRE\n```\n```statements\nupdate M1-T1 status to TRADUIT\n```\n";
    let mut files = Files::new();
    files.insert("pack.toml".into(), manifest.into());
    files.insert("policy.json".into(), policy.into());
    for (name, text) in [
        ("main", main),
        ("translate", report),
        ("proofread", report),
        ("finish_review", report),
        ("summary", "Résumez."),
    ] {
        files.insert(format!("fr/prompts/subagent_prompt_{name}.md"), text.into());
    }
    files
}

#[test]
fn finish_needs_the_passes_that_a_pack_names_or_those_of_its_verifiers() {
    let passes = |pack: Pack| -> Vec<String> {
        pack.policy.finish_rules.passes.iter().map(|agent| agent.as_str().to_owned()).collect()
    };
    for (name, expected) in [
        ("tdd", &["TEST", "REVIEW"][..]),
        ("novel", &["CRITIQUE"]),
        ("analysis", &["VERIFY"]),
        ("scenario", &["EXECUTE"]),
    ] {
        assert_eq!(passes(common::pack(name, "en")), expected, "{name}");
    }
    let mut files = translate();
    assert_eq!(passes(Pack::read(&files, "fr").unwrap()), ["PROOFREAD"], "its verifier");
    let policy = files["policy.json"].replace(
        "\"max_finish_attempts\": 2",
        "\"max_finish_attempts\": 2, \"passes\": [\"PROOFREAD\", \"PROOFREED\"]",
    );
    files.insert("policy.json".into(), policy);
    let problem = pack::check(&files).remove(0).to_string();
    let said = "finish_rules.passes.1: `PROOFREED` gives no verdict, report_rules.apply_to does not name it";
    assert!(problem.contains(said), "{problem}");
    assert!(problem.contains("did you mean `PROOFREAD`?"), "{problem}");
}

#[test]
fn a_fourth_pack_drives_every_parser_without_code() {
    let files = translate();
    assert_eq!(pack::check(&files), []);
    let pack = Pack::read(&files, "fr").unwrap();
    let agent = |name: &str| AgentName::new(name).unwrap();
    let agents = pack.manifest.agent_names();

    let expected =
        Expected { agent: agent("PROOFREAD"), iteration: Some(baton_core::id::Iteration(3)) };
    let text = "iteration: 3\n**avis :** MAUVAIS\nobstacles :\n- style lourd\n- [sens] page 9\n- autre chose\n";
    let report = report::read(text.as_bytes(), &pack.policy.report_rules, &expected).unwrap();
    assert_eq!(report.verdict.unwrap().outcome, Outcome::Fail);
    let classes: Vec<&str> = report.blockers.iter().map(|blocker| blocker.class.as_str()).collect();
    assert_eq!(classes, ["style", "sens", "unknown"]);
    let foreign = report::read(
        "iteration: 3\navis : PASS\nobstacles : aucun\n".as_bytes(),
        &pack.policy.report_rules,
        &expected,
    );
    insta::assert_snapshot!(foreign.unwrap_err()[0], @"2:8: verdict `PASS` is not allowed; expected one of `BON`, `MAUVAIS`, `SUSPENDU`");

    let decision = decision::read(
        r#"{"next_agent":"PROOFREAD","reason":"relire","dev_plan":"update M1-T1 status to TRADUIT","finish_review_override":null}"#,
        &agents, Moment::Ordinary,
    ).unwrap();
    assert_eq!(decision.next, Next::Agent(agent("PROOFREAD")));
    assert!(
        decision::read(
            r#"{"next_agent":"TEST","reason":"x","dev_plan":null,"finish_review_override":null}"#,
            &agents,
            Moment::Ordinary
        )
        .is_err()
    );

    let plan =
        Plan::read("## Milestone M1: Livre\n### M1-T1: Un\n- status: A_FAIRE\n", &pack.policy.plan)
            .unwrap();
    let updated = plan
        .updated(
            &parse_statements("update M1-T1 status to RELU").unwrap(),
            &pack.policy.plan,
            &Finality::Allowed,
        )
        .unwrap();
    assert!(updated.plan.is_ready(&pack.policy.plan));
    assert!(Plan::read("### M1-T1: Un\n- status: TODO\n", &pack.policy.plan).is_err());
}

#[test]
fn routing_rules_are_data() {
    let pack = Pack::read(&translate(), "fr").unwrap();
    let agent = |name: &str| AgentName::new(name).unwrap();
    let next = |name: &str| Next::Agent(agent(name));
    let outcomes = |translate: Option<Outcome>, proofread: Option<Outcome>| {
        move |name: &AgentName| if *name == "TRANSLATE" { translate } else { proofread }
    };
    let check = |name: &str, last: Option<&str>, translate, proofread| {
        let last = last.map(agent);
        check_routing(
            &next(name),
            &pack.policy.routing,
            last.as_ref(),
            outcomes(translate, proofread),
        )
        .map_err(|problem| problem.to_string())
    };
    use Outcome::{Fail, Pass};
    assert_eq!(check("TRANSLATE", None, None, None), Ok(()));
    assert_eq!(check("PROOFREAD", Some("TRANSLATE"), Some(Pass), None), Ok(()));
    insta::assert_snapshot!(check("PROOFREAD", Some("TRANSLATE"), Some(Fail), None).unwrap_err(), @"`PROOFREAD` may not run before the newest report of `TRANSLATE` passed; expected `TRANSLATE`");
    insta::assert_snapshot!(check("PROOFREAD", Some("PROOFREAD"), Some(Pass), Some(Fail)).unwrap_err(), @"`PROOFREAD` failed: `PROOFREAD` may not be next; expected one of `TRANSLATE`, `USER`");
    assert_eq!(check("TRANSLATE", Some("PROOFREAD"), Some(Pass), Some(Fail)), Ok(()));
    assert_eq!(check_routing(&Next::Finish, &pack.policy.routing, None, |_| None), Ok(()));
    let analysis = common::pack("analysis", "en").policy.routing;
    let last = agent("VERIFY");
    let blocked =
        check_routing(&next("CONCLUDE"), &analysis, Some(&last), |_| Some(Outcome::Blocked));
    assert!(blocked.is_err(), "no conclusion on insufficient evidence");
    let novel = common::pack("novel", "en").policy.routing;
    assert!(
        check_routing(&next("DRAFT"), &novel, None, |_| None).is_err(),
        "no draft before the outline is done"
    );
}

/// One change of a pack's files.
enum Edit {
    Remove(&'static str),
    Put(&'static str, &'static str),
    Replace(&'static str, &'static str, &'static str),
}

use Edit::{Put, Remove, Replace};

const MAIN: &str = "fr/prompts/subagent_prompt_main.md";
const TRANSLATE: &str = "fr/prompts/subagent_prompt_translate.md";
const END: &str = "contresens\n```\n";

const MISTAKES: [(&str, Edit); 21] = [
    ("no manifest", Remove("pack.toml")),
    ("broken manifest", Put("pack.toml", "name = ")),
    ("unknown manifest key", Replace("pack.toml", "title =", "titel =")),
    ("reserved agent", Replace("pack.toml", "\"PROOFREAD\"", "\"USER\"")),
    ("agent twice", Replace("pack.toml", "\"PROOFREAD\"", "\"TRANSLATE\"")),
    ("bad name", Replace("pack.toml", "\"translate\"", "\"../x\"")),
    ("no languages", Replace("pack.toml", "[\"fr\"]", "[]")),
    ("no policy", Remove("policy.json")),
    ("broken policy", Replace("policy.json", "\"plan\"", "plan")),
    (
        "policy names an unknown agent",
        Replace("policy.json", "\"pass_of\": \"PROOFREAD\"", "\"pass_of\": \"PROOFRAED\""),
    ),
    ("no prompt", Remove(MAIN)),
    ("empty prompt", Put(MAIN, " \n")),
    (
        "a prompt with a foreign word",
        Replace(TRANSLATE, END, "contresens\n```\nPuis PROOFRAED relit.\n"),
    ),
    (
        "a prompt with a foreign key line",
        Replace(TRANSLATE, END, "contresens\n```\nLa ligne `verdict:` décide.\n"),
    ),
    ("a prompt whose example is refused", Replace(TRANSLATE, "MAUVAIS", "MAUVAISE")),
    ("a prompt without an example", Put(TRANSLATE, "Traduisez.")),
    ("a wrong decision example", Replace(MAIN, "\"reason\"", "\"raison\"")),
    ("a wrong statement example", Replace(MAIN, "update M1-T1", "update M1-T2")),
    ("a wrong plan example", Replace(MAIN, "A_FAIRE", "A_FAIR")),
    ("a wrong plan template", Put("fr/dev_plan.md", "### M1-T1: x\n")),
    ("a misspelt file", Put("fr/prompts/subagent_prompt_trnslate.md", "x")),
];

fn edited(edit: &Edit) -> Files {
    let mut files = translate();
    match *edit {
        Remove(path) => drop(files.remove(path).unwrap()),
        Put(path, text) => drop(files.insert(path.into(), text.into())),
        Replace(path, from, to) => {
            let text = files.get_mut(path).unwrap();
            assert!(text.contains(from), "{path} holds {from}");
            *text = text.replacen(from, to, 1);
        }
    }
    files
}

#[test]
fn everything_that_is_wrong_with_a_pack_is_explained() {
    let mut all = Vec::new();
    for (name, edit) in &MISTAKES {
        let problems = pack::check(&edited(edit));
        assert!(!problems.is_empty(), "{name}");
        let shown: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
        all.push(format!("{name}\n{}", shown.join("\n")));
    }
    insta::assert_snapshot!(all.join("\n"));
    assert!(Pack::read(&translate(), "en").is_err(), "a language that the pack lacks");
}

#[test]
fn the_rules_of_an_older_blackboard_name_only_agents_that_it_has() {
    for (name, language) in PACKS.into_iter().flat_map(|name| LANGUAGES.map(|own| (name, own))) {
        let files = common::pack_files(name);
        let document = pack::policy_document(&files, language, "").unwrap();
        let own = Pack::read(&files, language).unwrap().manifest.agent_names();
        // Every team of the pack's agents and a stranger.
        for team in 0..1 << own.len() {
            let mut agents: Vec<AgentName> = own.clone();
            let mut index = 0;
            agents.retain(|_| {
                index += 1;
                team >> (index - 1) & 1 == 1
            });
            agents.push(AgentName::new("STRANGER").unwrap());
            let (policy, warnings) = Policy::read_older(&document, &agents).unwrap();
            let named = policy.agents_named();
            let missing = named.iter().find(|(_, name)| !agents.contains(name));
            let missing = missing.filter(|(_, name)| **name != "FINISH_REVIEW");
            assert!(missing.is_none(), "{name} {agents:?}: {missing:?}");
            assert!(!policy.plan.verified_by.is_empty());
            assert_eq!(warnings.is_empty(), agents.len() > own.len(), "{name} {agents:?}");
        }
    }
}

#[test]
fn a_variable_of_the_shell_in_a_prompt_is_not_a_word_of_the_pack() {
    let variable = Replace(TRANSLATE, END, "contresens\n```\nCopiez d'abord dans `$TMPDIR/`.\n");
    assert_eq!(pack::check(&edited(&variable)), []);
    let word = Replace(TRANSLATE, END, "contresens\n```\nCopiez d'abord dans `TMPDIR`.\n");
    assert_eq!(pack::check(&edited(&word)).len(), 1);
}
