//! The prompt of a stage: the files of the blackboard, and facts of the run that are in none of them.

use baton_core::event::StageId;
use baton_core::id::{AgentName, MAIN, Tokens};
use baton_core::machine::{StageLimits, is_measured_asked};
use baton_core::plan::Plan;
use baton_core::prompt::{
    FinishFacts, GateResult, OlderReports, Prompt, ReadFile, RunFacts, StageChange,
};
use baton_core::report::ArchiveName;
use baton_core::workflow::open_points;

use super::{Drive, reading};
use crate::gather::{self, For, Wanted};
use crate::summaries::ARCHIVE;

impl Drive<'_> {
    pub(super) fn prompt(
        &mut self,
        stage: &StageId,
        who: &For,
        handoff: Vec<baton_core::prompt::Injected>,
    ) -> Result<Prompt, gather::Error> {
        let facts = self.finish_facts();
        let wanted = Wanted {
            who,
            iteration: Some(stage.iteration),
            is_past: false,
            context_window: (self.around.context_window)(&stage.name),
            facts: &facts,
            handoff,
            run: self.run_facts(stage, who)?,
            seen: Some(&self.guard),
        };
        self.gatherer.prompt_for(self.around.board, &wanted)
    }

    /// Facts of the run that are in no file of the blackboard.
    fn run_facts(&mut self, stage: &StageId, who: &For) -> Result<RunFacts, gather::Error> {
        let board = self.around.board;
        let words = board.pack.words();
        let is_main = matches!(who, For::Main);
        let names = if is_main { self.snapshots.names() } else { &[] };
        let project_files = names.iter().map(|name| crate::walk::shown(name)).collect();
        let limits = StageLimits {
            stage_seconds: self.state.limit_of(stage, &self.rules()),
            command_seconds: Some(crate::tool::COMMAND_SECONDS),
            writes: self.writes(&stage.name),
            network: board.config.agent.network,
            asks_measured: is_measured_asked(&board.pack.policy),
        };
        let machine = self.state.origin.machine.as_deref();
        let gates = &board.pack.policy.gates;
        let facts = machine.map(|machine| match who {
            For::Main | For::FinishCheck => {
                machine.facts_for_main(words, gates, limits.asks_measured)
            }
            For::Agent(_) | For::Subloop(_) => machine.facts(words, gates, &limits),
        });
        let mut facts = facts.unwrap_or_default();
        facts.extend(self.state.reports.gate_results.iter().map(|run| {
            let (command, of, iteration) = (&run.command, &run.of, run.iteration);
            match run.passed {
                true => words.machine_gate_passed(command, of, iteration),
                false => words.machine_gate_failed(command, of, iteration),
            }
        }));
        let changed = self.state.files.stage_changes.iter().cloned();
        let (count, last) = &self.state.reports.replaced;
        let last = last.iter();
        let path = |name: &ArchiveName| format!("{ARCHIVE}/{}", name.file());
        Ok(RunFacts {
            first_iteration: self.state.origin.first_iteration,
            machine: facts,
            project_files,
            changed: changed.map(|(stage, files)| StageChange { stage, files }).collect(),
            compare: machine.and_then(|machine| machine.comparison(words)),
            older_reports: OlderReports { count: *count, last: last.map(path).collect() },
            main_order: self.state.main_order(),
            settled: self.state.settled_reports(&self.rules()),
            verdicts: self.task_lines(),
            since_own: Some(&stage.name)
                .filter(|agent| !self.writes(agent))
                .and_then(|agent| self.changes_since(agent)),
        })
    }

    /// What changed in the project since the agent's own last report of this run.
    fn changes_since(&self, agent: &AgentName) -> Option<String> {
        let passes = &self.state.reports.passes;
        let (before, now) = (passes.judged.get(agent)?.at.as_ref()?, passes.seen.as_ref()?);
        // An old snapshot may be gone; the files themselves are there.
        let (_, diff) = self.snapshots.diff(before, now).ok()?;
        (!diff.is_empty()).then_some(diff)
    }

    /// What this run knows about each task of the plan.
    fn task_lines(&self) -> Vec<String> {
        let pack = &self.around.board.pack;
        let plan = self.plan().unwrap_or_default();
        let tasks = Plan::read(&plan, &pack.policy.plan).map(|plan| plan.tasks);
        self.state.task_lines(&tasks.unwrap_or_default(), pack.words())
    }

    fn finish_facts(&self) -> FinishFacts {
        let changes = self
            .state
            .files
            .stage_changes
            .iter()
            .map(|(stage, files)| StageChange { stage: stage.clone(), files: files.clone() });
        let current = &self.state.current.gates;
        let gates = self.state.reports.gate_results.iter().map(|run| {
            let now = current.iter().rfind(|gate| gate.command == run.command);
            GateResult {
                command: run.command.clone(),
                of: format!("{}, iteration {}", run.of, run.iteration),
                passed: run.passed,
                output: now.map_or(String::new(), |gate| gate.output.clone()),
            }
        });
        let plan = self.plan().unwrap_or_default();
        let open = open_points(&self.state, &self.rules(), &plan, true);
        FinishFacts { stage_changes: Some(changes.collect()), gates: Some(gates.collect()), open }
    }

    /// Files of the blackboard for MAIN: each within its share of the room that is left.
    pub(super) fn read_files(&self, paths: &[String]) -> Vec<ReadFile> {
        let main = AgentName::new(MAIN).expect("a valid name");
        let window = (self.around.context_window)(&main);
        let half = window.map_or(u64::MAX, |window| window.0 / 2);
        let limit = self.around.board.config.context.prompt_limit.main.min(half);
        let mut room = (limit / 2).saturating_sub(self.state.tokens_read());
        let words = self.around.board.pack.words();
        let files = paths.iter().map(|path| {
            let file = match reading::text(words, &self.around.board.root, path) {
                Ok(text) => {
                    ReadFile::of(words, path, &text, Tokens(room.min(reading::MOST_TOKENS)))
                }
                Err(why) => ReadFile::unread(path, &why),
            };
            room = room.saturating_sub(baton_core::tokens::count(&file.text).0);
            file
        });
        files.collect()
    }
}
