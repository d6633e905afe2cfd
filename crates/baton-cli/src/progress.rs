//! What is seen while a run goes on: a line an event on standard error, or events as JSON lines on
//! standard output for programs.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use baton_core::event::Event;
use baton_core::id::AgentName;
use baton_core::messages::Language;
use baton_core::{text, view};
use baton_runtime::drive::Notice;
use baton_runtime::executor::Told;

use crate::reply::plain_json;
use crate::terminal;

pub(crate) struct Progress {
    json: bool,
    is_terminal: bool,
    language: Language,
    teller: view::Teller,
    /// Lines to print as soon as the run is in its journal.
    opening: Vec<String>,
    /// The stage that runs, since when, and how much it has said.
    running: Option<(String, Instant, usize)>,
    last_drawn: Instant,
}

impl Progress {
    pub(crate) fn new(json: bool, agents: Vec<AgentName>, language: Language) -> Progress {
        let is_terminal = std::io::stderr().is_terminal() && !json;
        Progress {
            json,
            is_terminal,
            language,
            teller: view::Teller::new(agents).speaking(language),
            opening: Vec::new(),
            running: None,
            last_drawn: Instant::now(),
        }
    }

    /// Prints a line once the run has started: a reader that does not read must not keep it from that.
    pub(crate) fn open_with(&mut self, line: String) {
        self.opening.push(line);
    }

    pub(crate) fn notice(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Event(record, _) if self.json => {
                // Whoever reads may have read enough.
                let line = serde_json::to_string(record).unwrap_or_default();
                let _ = writeln!(std::io::stdout(), "{}", plain_json(&line));
            }
            Notice::Event(record, state) => {
                self.clear();
                if matches!(record.event, Event::Resumed { .. }) {
                    self.teller.resume(state);
                }
                let line = self.teller.line(record);
                // How the run ended is what the command prints.
                let is_end = matches!(record.event, Event::Finished { .. } | Event::Stopped { .. });
                if let Some(line) = line.filter(|_| !is_end) {
                    say(&line);
                }
                self.opening.drain(..).for_each(|line| say(&line));
                if let Event::GateStarted { command, .. } = &record.event {
                    let iteration = self.teller.iteration();
                    let gate = self.language.gate_runs(text::shown(command, 80));
                    let line = format!("[{iteration}] {gate}");
                    self.running = self.is_terminal.then(|| (line, Instant::now(), 0));
                    self.draw();
                }
            }
            Notice::Begins { stage, by, prompt, is_correction } if !self.json => {
                self.clear();
                let own = self.language;
                let sub = stage.subloop.map_or(String::new(), |number| own.subloop_number(number));
                let what = match prompt {
                    Some(_) if *is_correction => own.corrects(),
                    Some(prompt) => own.prompt_size(prompt.tokens()),
                    None => own.continues_stage(),
                };
                let works = own.works(format!("{}{sub}", stage.name), by, what);
                let line = format!("[{}] {works}", stage.iteration);
                match self.is_terminal {
                    true => self.running = Some((line, Instant::now(), 0)),
                    false => say(&line),
                }
                self.draw();
            }
            Notice::Heard(Told::Step(step)) if self.is_terminal => self.step(step),
            Notice::Heard(Told::Notice(words)) if !self.json => self.step(words),
            Notice::Heard(Told::Step(_) | Told::Notice(_)) => {}
            Notice::Heard(Told::Piece(piece)) => {
                if let Some((_, _, said)) = &mut self.running {
                    *said += piece.len();
                }
                if self.last_drawn.elapsed().as_millis() > 200 {
                    self.draw();
                }
            }
            Notice::Said(said) if !self.json => {
                self.clear();
                say(said);
            }
            Notice::Begins { .. } | Notice::Said(_) => {}
        }
    }

    /// A line below the stage that runs.
    fn step(&mut self, words: &str) {
        let running = self.running.clone();
        self.clear();
        say(&format!("      · {words}"));
        self.running = running;
        self.draw();
    }

    fn draw(&mut self) {
        self.last_drawn = Instant::now();
        if let Some((line, since, said)) = self.running.as_ref().filter(|_| self.is_terminal) {
            let own = self.language;
            let heard = if *said > 0 { own.heard(said) } else { String::new() };
            let end = format!(" … {}{heard}", own.seconds(since.elapsed().as_secs()));
            // Only the last row of a line that wraps would be cleared.
            let line = terminal::fitted(&text::shown(line, 110), &end, terminal::columns());
            let _ = write!(std::io::stderr(), "\r\u{1b}[2K{line}");
        }
    }

    fn clear(&mut self) {
        if self.running.take().is_some() && self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\u{1b}[2K");
        }
    }
}

/// A line that cannot play tricks on a terminal.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", text::escaped(line));
}
