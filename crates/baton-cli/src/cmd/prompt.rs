//! `baton prompt`

use baton_core::id::{AgentName, Iteration, MAIN};
use baton_core::prompt::{FinishFacts, Ledger, Prompt};
use baton_core::text;
use baton_runtime::board::Board;
use baton_runtime::gather::{self, For, Gatherer};
use baton_runtime::model::choose::Asked;
use baton_runtime::summaries::Mode;
use serde_json::json;

use super::run::windows;
use super::{Outcome, Place};
use crate::args::PromptArgs;
use crate::reply::{Failure, LIMIT, Reply, USAGE, table};

pub(super) fn run(place: &Place, args: &PromptArgs) -> Outcome {
    let board = place.board()?;
    let wanted = gather::stage_named(&board, &args.stage, args.subloop).map_err(failed)?;
    // This command only looks: it reads the cache and never writes it.
    let mut gatherer = Gatherer::open(&board, Mode::ReadOnly).map_err(failed)?;
    let now = args.iteration.map(Iteration);
    let facts = FinishFacts::default();
    let name = match &wanted {
        For::Main | For::FinishCheck => AgentName::new(MAIN).ok(),
        For::Agent(agent) | For::Subloop(agent) => Some(agent.clone()),
    };
    let window = name.and_then(|name| windows(place, &board, &Asked::default())(&name));
    let prompt = gatherer.prompt(&board, &wanted, now, window, &facts).map_err(failed)?;
    if !args.explain && !place.json {
        return Ok(Reply::new(prompt.text(), json!({})));
    }
    let previous = previous(&mut gatherer, &board, &wanted, &prompt);
    let ledger = prompt.ledger(previous.as_ref());
    let explained = explained(&ledger);
    let json = json!({
        "ok": true,
        "ledger": ledger,
        "window": prompt.window,
        "text": prompt.text(),
    });
    Ok(Reply::new(explained, json).with_warnings(&board.warnings))
}

/// The prompt of the iteration before, made again from what the archive holds.
fn previous(
    gatherer: &mut Gatherer,
    board: &Board,
    wanted: &For,
    prompt: &Prompt,
) -> Option<Prompt> {
    let before = Iteration(prompt.iteration.0.checked_sub(1).filter(|number| *number > 0)?);
    gatherer.prompt(board, wanted, Some(before), None, &FinishFacts::default()).ok()
}

fn explained(ledger: &Ledger) -> String {
    let Ledger { stage, iteration, limit, tokens, bytes, sections, steps, shared_prefix } = ledger;
    let percent = |part: u64, whole: u64| format!("{}%", part * 100 / whole.max(1));
    let mut rows = vec![
        ["section", "source", "level", "tokens", "share", "why", "cut"].map(str::to_owned).to_vec(),
    ];
    for section in sections {
        let level = section.level.map_or("-".to_owned(), |level| u8::from(level).to_string());
        rows.push(vec![
            section.name.clone(),
            section.source.as_deref().map_or("-".to_owned(), |path| text::shown(path, 60)),
            level,
            section.tokens.to_string(),
            percent(section.tokens.0, tokens.0),
            section.why.clone(),
            section.cut.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    let mut out = format!(
        "{stage}, iteration {iteration}: {tokens} tokens ({bytes} bytes), {} of the limit of {limit}\n\n{}",
        percent(tokens.0, limit.0),
        table(&rows)
    );
    out.push('\n');
    for step in steps {
        out.push_str(&format!("stepped down: {step}\n"));
    }
    out.push_str(&match shared_prefix {
        Some(shared) => format!(
            "shared prefix with the prompt of iteration {}: {shared} tokens, {}\n",
            iteration.0.saturating_sub(1),
            percent(shared.0, tokens.0)
        ),
        None => "shared prefix: there is no previous prompt\n".to_owned(),
    });
    out
}

fn failed(error: gather::Error) -> Failure {
    let message = error.to_string();
    match error {
        gather::Error::NoStage { name, known } => {
            let near = baton_core::problem::nearest(&name.to_ascii_uppercase(), &known)
                .map(|near| format!("; did you mean `{near}`?"));
            let known = baton_core::problem::list(&known);
            Failure::new(USAGE, message)
                .hint(format!("stages: {known}{}", near.unwrap_or_default()))
        }
        gather::Error::NoSubloop(_) => Failure::new(USAGE, message)
            .hint("`subloop` in the policy names its tester and its fixer"),
        gather::Error::TooLarge(_) => Failure::new(LIMIT, message)
            .hint("shorten what is largest, or raise `context.prompt_limit` in baton.toml"),
        gather::Error::Load(error) => error.into(),
    }
}
