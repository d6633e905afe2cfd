//! `baton schema`

use baton_core::config::Config;
use baton_core::decision;
use baton_core::handoff::make::{FailureSummary, ProblemsReport};
use baton_core::handoff::package::{ExecuteToInit, InitToExecute};
use baton_core::history::Block;
use baton_core::pack::{Manifest, Pack};
use baton_core::plan::Task;
use baton_core::policy::Policy;
use baton_core::problem::Problem;
use baton_core::prompt::Ledger;
use baton_core::report::Report;
use baton_core::scenario::parts::{CheckersFile, Sample, ToolsFile};
use baton_core::summary::Summary;
use baton_runtime::{board, builtin};
use schemars::schema_for;
use serde_json::{Value, json};

use super::{Outcome, Place};
use crate::args::{SchemaArgs, SchemaName};
use crate::reply::{Failure, Reply};

pub(super) fn run(place: &Place, args: &SchemaArgs) -> Outcome {
    let schema = match args.document {
        SchemaName::Report => json!(schema_for!(Report)),
        SchemaName::Summary => json!(schema_for!(Summary)),
        SchemaName::Ledger => json!(schema_for!(Ledger)),
        SchemaName::Decision => decision::schema(&agents(place, args.pack.as_deref())?),
        SchemaName::Policy => json!(schema_for!(Policy)),
        SchemaName::Pack => json!(schema_for!(Manifest)),
        SchemaName::Plan => json!(schema_for!(Task)),
        SchemaName::History => json!(schema_for!(Block<'static>)),
        SchemaName::Config => json!(schema_for!(Config)),
        SchemaName::InitToExecute => json!(schema_for!(InitToExecute)),
        SchemaName::ExecuteToInit => json!(schema_for!(ExecuteToInit)),
        SchemaName::FailureSummary => json!(schema_for!(FailureSummary)),
        SchemaName::ProblemsReport => json!(schema_for!(ProblemsReport)),
        SchemaName::ScenarioTools => json!(schema_for!(ToolsFile)),
        SchemaName::ScenarioCheckers => json!(schema_for!(CheckersFile)),
        SchemaName::ScenarioSample => json!(schema_for!(Sample)),
        SchemaName::Problem => json!(schema_for!(Problem)),
    };
    Ok(Reply::new(pretty(&schema), schema))
}

fn pretty(schema: &Value) -> String {
    format!("{schema:#}\n")
}

fn agents(place: &Place, pack: Option<&str>) -> Result<Vec<baton_core::id::AgentName>, Failure> {
    if pack.is_none() && place.board_path()?.is_some() {
        return Ok(place.board()?.pack.manifest.agent_names());
    }
    let files = board::pack_files(pack.unwrap_or(builtin::DEFAULT_PACK))?;
    let manifest = Manifest::read(&files).map_err(board::Error::Invalid)?;
    let language = manifest.languages.first().cloned().unwrap_or_default();
    let pack = Pack::read(&files, &language).map_err(board::Error::Invalid)?;
    Ok(pack.manifest.agent_names())
}
