//! Runs the command of a gate, and keeps its whole output.

use baton_core::event::Event;

use super::{Drive, Error, Notice};
use crate::executor;
use crate::gates;

impl Drive<'_> {
    pub(super) fn gate(
        &mut self,
        index: usize,
        gate: &baton_core::policy::Gate,
        is_again: bool,
    ) -> Result<(), Error> {
        let command = gate.run.clone();
        if is_again {
            let command = baton_core::text::shown(&command, 200);
            let said = self.around.board.pack.words().gate_again(command);
            (self.around.watch)(Notice::Said(said));
        }
        self.commit(Event::GateStarted { index, command: command.clone() })?;
        self.snapshots.take()?;
        let name = format!("{}-gate-{index}", self.state.origin.run.as_str());
        let view = self.views.open_new(&name, Some(self.snapshots.names()))?;
        if let Some(notice) = view.notice() {
            (self.around.watch)(Notice::Said(notice.to_owned()));
        }
        let control = &self.around.control.interrupt;
        let place = gates::Place {
            project: &self.around.project,
            board: &self.around.board.root,
            environment: self.around.environment,
            mark: &self.mark,
            confined: self.around.confined,
            view: &view,
        };
        let ran = gates::run(gate, &place, control);
        view.remove();
        if control.is_at_once() {
            return Ok(());
        }
        let gates::Ran { judged, output, whole, time } = ran;
        let passed = judged.passed;
        let output = match self.around.executors.gate_output(&command, passed, output.clone()) {
            Ok(output) => output,
            Err(why) => {
                (self.around.watch)(Notice::Said(why));
                output
            }
        };
        let log = self.keep_output(&whole)?;
        let milliseconds = executor::whole_milliseconds(time);
        self.commit(Event::GateEnded { index, command, passed, output, milliseconds, log })
    }

    /// Keeps the whole output of a gate, under a name that no other gate of the journal has; the
    /// file, from the project's folder.
    fn keep_output(&mut self, whole: &str) -> Result<Option<String>, Error> {
        let iteration = self.state.iteration;
        let number = match self.kept_outputs {
            (last, count) if last == iteration => count + 1,
            _ => 1,
        };
        let name = format!("{}/{iteration}_{number}.log", gates::LOGS);
        let board = &self.around.board.root;
        self.around.disk.write_here(&board.join(&name), whole.as_bytes())?;
        self.kept_outputs = (iteration, number);
        let root = std::fs::canonicalize(board).unwrap_or_else(|_| board.clone());
        let folder = root.file_name().and_then(|name| name.to_str());
        Ok(folder.map(|folder| format!("{folder}/{name}")))
    }
}
