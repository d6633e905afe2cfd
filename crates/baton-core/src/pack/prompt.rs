//! Checks a prompt against the policy that its readers are held to: the examples in it must be
//! accepted by our own parsers, and every capital word and key line it names must exist.

use std::collections::BTreeSet;

use super::Manifest;
use crate::decision::{self, Moment};
use crate::id::{AgentName, MAIN, RESERVED, SUMMARY, SYSTEM};
use crate::plan::{Finality, Plan, parse_statements};
use crate::policy::{ITERATION_PREFIX, Policy};
use crate::problem::{Place, Problem};
use crate::report;
use crate::text::{self, Block, Fence};

/// Capital words of the workflow itself.
const WORKFLOW_WORDS: [&str; 1] = ["MILESTONE"];
/// Each unknown word is said once, and so many of them at most.
const MOST: usize = 50;
/// Fields of a plan's tasks.
const PLAN_FIELDS: [&str; 3] = ["status:", "acceptance:", "evidence:"];

pub fn check(name: &AgentName, prompt: &str, policy: &Policy, manifest: &Manifest) -> Vec<Problem> {
    let mut problems = Vec::new();
    words(prompt, policy, manifest, &mut problems);
    key_lines(prompt, policy, &mut problems);
    classes(prompt, policy, &mut problems);
    examples(name, prompt, policy, manifest, &mut problems);
    problems
}

/// Every all-capital word outside of examples is an agent, a verdict, a status or a listed word.
/// `$NAME` is a variable of a shell.
fn words(prompt: &str, policy: &Policy, manifest: &Manifest, problems: &mut Vec<Problem>) {
    let agents = manifest.agent_names();
    let mut known: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
    known.extend(RESERVED.into_iter().chain(WORKFLOW_WORDS));
    known.extend(policy.report_rules.verdict_allowed.iter().map(String::as_str));
    known.extend(policy.plan.words());
    known.extend(manifest.words.iter().map(String::as_str));
    let mut seen = BTreeSet::new();
    each_line(prompt, |line, number| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
        for word in line.split(|c| !is_part(c)).filter(|word| !word.starts_with('$')) {
            let letters = word.bytes().filter(u8::is_ascii_uppercase).count();
            let is_capital = letters >= 3 && !word.bytes().any(|b| b.is_ascii_lowercase());
            let unknown = is_capital && !known.contains(&word);
            if unknown && seen.len() < MOST && seen.insert(word.to_owned()) {
                let at = line.find(word).unwrap_or(0);
                let message =
                    format!("`{word}` is neither an agent, a verdict nor a status of this pack");
                let problem =
                    Problem::new("prompt-unknown-word", message).found(word).one_of(word, &known);
                problems.push(problem.at(place(line, number, at)));
            }
        }
    });
}

/// Every code span that ends with a colon names a key line.
fn key_lines(prompt: &str, policy: &Policy, problems: &mut Vec<Problem>) {
    let rules = &policy.report_rules;
    let labels =
        policy.context.summary_fields.values().flat_map(|fields| fields.values()).flatten();
    let mut known: Vec<&str> = vec![ITERATION_PREFIX, &rules.verdict_prefix, &rules.blocker_prefix];
    known.extend(rules.task_prefix.as_deref());
    known.extend(PLAN_FIELDS);
    let mark = format!("{}:", policy.task_field());
    known.push(&mark);
    known.extend(labels.map(String::as_str));
    let plain = |label: &str| label.trim().replace('：', ":");
    let mut seen = BTreeSet::new();
    each_line(prompt, |line, number| {
        for span in line.split('`').skip(1).step_by(2).filter(|span| span.ends_with(text::is_colon))
        {
            let label = span.trim_start_matches(['-', ' ']);
            let unknown = !known.iter().any(|known| plain(known) == plain(label));
            if unknown && seen.len() < MOST && seen.insert(label.to_owned()) {
                let at = line.find(span).unwrap_or(0);
                let message =
                    format!("`{}` is not a key line of this pack", text::shown(label, 40));
                let problem = Problem::new("prompt-unknown-key-line", message)
                    .found(label)
                    .one_of(label, &known);
                problems.push(problem.at(place(line, number, at)));
            }
        }
    });
}

/// Every code span of the form `[class]` names a class of blockers.
fn classes(prompt: &str, policy: &Policy, problems: &mut Vec<Problem>) {
    let known: Vec<&str> = policy.report_rules.blocker_classes.keys().map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    each_line(prompt, |line, number| {
        for span in line.split('`').skip(1).step_by(2) {
            let Some(class) = span.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
                continue;
            };
            let is_part = |c: char| c == '_' || (c.is_alphabetic() && !c.is_uppercase());
            let is_word = !class.is_empty() && class.chars().all(is_part);
            if is_word
                && !known.contains(&class)
                && seen.len() < MOST
                && seen.insert(class.to_owned())
            {
                let at = line.find(span).unwrap_or(0);
                let message = format!("`[{class}]` is not a class of blockers");
                let problem = Problem::new("prompt-unknown-class", message)
                    .found(class)
                    .one_of(class, &known);
                problems.push(problem.at(place(line, number, at)));
            }
        }
    });
}

fn examples(
    name: &AgentName,
    prompt: &str,
    policy: &Policy,
    manifest: &Manifest,
    problems: &mut Vec<Problem>,
) {
    let blocks = text::fenced_blocks(prompt);
    let of_kind = |kind: &'static str| blocks.iter().filter(move |block| block.info == kind);
    let mut missing = |kind: &str, what: &str| {
        let message = format!("no example: a fenced block marked `{kind}` should show {what}");
        problems.push(Problem::warning("prompt-no-example", message));
    };
    let needed: &[(&'static str, &str)] = match name.as_str() {
        SUMMARY | SYSTEM => &[],
        MAIN => &[("json", "a decision"), ("plan", "a plan"), ("statements", "update statements")],
        _ => &[("report", "a whole report")],
    };
    for (kind, what) in needed {
        if of_kind(kind).next().is_none() {
            missing(kind, what);
        }
    }
    let mut refused = |block: &Block<'_>, wrong: Vec<Problem>| {
        for mut problem in wrong {
            let inside = problem.place.unwrap_or(Place::START);
            problem.message = format!("this example would be refused: {}", problem.message).into();
            problems.push(
                problem.at(Place { line: block.line + inside.line - 1, column: inside.column }),
            );
        }
    };
    let expected = report::Expected { agent: name.clone(), iteration: None };
    for block in of_kind("report") {
        if let Err(wrong) = report::read(block.body.as_bytes(), &policy.report_rules, &expected) {
            refused(block, wrong);
        }
    }
    let agents = manifest.agent_names();
    for block in of_kind("json").filter(|_| *name == MAIN) {
        if let Err(wrong) = decision::read(block.body, &agents, Moment::FinishCheck) {
            refused(block, wrong);
        }
    }
    let mut plan = None;
    for block in of_kind("plan") {
        match Plan::read(block.body, &policy.plan) {
            Ok(read) => plan = Some(read),
            Err(wrong) => refused(block, wrong),
        }
    }
    for block in of_kind("statements") {
        let applied = parse_statements(block.body).and_then(|statements| match &plan {
            Some(plan) => plan.updated(&statements, &policy.plan, &Finality::Allowed).map(drop),
            None => Ok(()),
        });
        if let Err(wrong) = applied {
            refused(block, wrong);
        }
    }
}

/// The lines outside of fenced blocks.
fn each_line(prompt: &str, mut visit: impl FnMut(&str, u32)) {
    let mut fence = Fence::default();
    for line in text::lines(prompt) {
        if !fence.covers(line) {
            visit(line.text, line.number);
        }
    }
}

fn place(line: &str, number: u32, at: usize) -> Place {
    Place {
        line: number,
        column: u32::try_from(line[..at].chars().count() + 1).unwrap_or(u32::MAX),
    }
}
