//! How known agent programs are called, and how their last message and their usage are read.

use baton_core::config::ExecutorConfig;
use baton_core::event::Spent;
use baton_core::id::Tokens;
use serde_json::Value;

/// The programs that need no configuration.
pub const NAMES: [&str; 4] = ["codex", "claude", "gemini", "opencode"];

/// How a program is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    pub name: String,
    command: Vec<String>,
    /// What it gets instead, where it may not write.
    reading: Option<Vec<String>>,
    pub(super) env: Vec<String>,
    answer: Answer,
}

/// Where the last message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// In the answer file where there is one, else all of its output.
    FileOrOutput,
    /// Codex: the answer file; usage in a stream of JSON lines.
    Codex,
    /// Claude Code: one JSON object, `result`.
    Claude,
    /// Gemini: one JSON object, `response`.
    Gemini,
    /// OpenCode: a stream of JSON lines, the last text.
    OpenCode,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Preset {
    /// A program of the user's own.
    pub fn own(name: &str, config: &ExecutorConfig) -> Preset {
        Preset {
            name: name.to_owned(),
            command: config.command.clone(),
            reading: None,
            env: config.env.clone(),
            answer: Answer::FileOrOutput,
        }
    }

    pub fn built_in(name: &str) -> Option<Preset> {
        let (command, reading, env, answer) = match name {
            "codex" => {
                let with = |sandbox: &str| {
                    words(&[
                        "codex",
                        "exec",
                        "--json",
                        "--skip-git-repo-check",
                        "--sandbox",
                        sandbox,
                        "--output-last-message",
                        "{answer_file}",
                        "-",
                    ])
                };
                (
                    with("workspace-write"),
                    Some(with("read-only")),
                    words(&["OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_*"]),
                    Answer::Codex,
                )
            }
            "claude" => {
                let with = |mode: &str| {
                    words(&["claude", "-p", "--output-format", "json", "--permission-mode", mode])
                };
                (
                    with("acceptEdits"),
                    Some(with("plan")),
                    words(&["ANTHROPIC_*", "CLAUDE_*", "DISABLE_*"]),
                    Answer::Claude,
                )
            }
            "gemini" => {
                let command =
                    words(&["gemini", "--output-format", "json", "--approval-mode", "auto_edit"]);
                (command, None, words(&["GEMINI_*", "GOOGLE_*"]), Answer::Gemini)
            }
            "opencode" => {
                let command = words(&["opencode", "run", "--format", "json", "{prompt}"]);
                (command, None, words(&["OPENCODE_*", "ANTHROPIC_*", "OPENAI_*"]), Answer::OpenCode)
            }
            _ => return None,
        };
        Some(Preset { name: name.to_owned(), command, reading, env, answer })
    }

    /// The program's file name.
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// True if the program says what a call cost.
    pub(super) fn reports_cost(&self) -> bool {
        self.answer == Answer::Claude
    }

    pub(super) fn argv(&self, writes: bool) -> Vec<String> {
        match &self.reading {
            Some(reading) if !writes => reading.clone(),
            _ => self.command.clone(),
        }
    }

    /// The last message.
    pub(super) fn answer(&self, output: &str, file: Option<&str>) -> Result<String, String> {
        let none = || format!("{} left no last message", self.name);
        let found = match self.answer {
            Answer::FileOrOutput => Some(file.unwrap_or(output).to_owned()),
            Answer::Codex => file.map(str::to_owned),
            Answer::Claude => {
                let value: Value = last_object(output).ok_or_else(none)?;
                if value["is_error"] == true {
                    let said = value["result"].as_str().unwrap_or("an error");
                    return Err(baton_core::text::shown(said, 500));
                }
                value["result"].as_str().map(str::to_owned)
            }
            Answer::Gemini => {
                last_object(output).and_then(|value| value["response"].as_str().map(str::to_owned))
            }
            Answer::OpenCode => {
                let texts = lines(output).filter(|value| value["type"] == "text");
                texts.filter_map(|value| value["part"]["text"].as_str().map(str::to_owned)).last()
            }
        };
        found.filter(|text| !text.trim().is_empty()).ok_or_else(none)
    }

    /// What the program says that it used.
    pub(super) fn usage(&self, output: &str) -> Spent {
        let unknown = Spent::default();
        let number = |value: &Value| value.as_u64();
        match self.answer {
            Answer::FileOrOutput | Answer::OpenCode => unknown,
            Answer::Codex => {
                let turns = lines(output).filter(|value| value["type"] == "turn.completed");
                let mut tokens = None;
                let mut cached = None;
                for turn in turns {
                    let usage = &turn["usage"];
                    let all = number(&usage["input_tokens"]).unwrap_or(0)
                        + number(&usage["output_tokens"]).unwrap_or(0);
                    tokens = Some(tokens.unwrap_or(0) + all);
                    cached = number(&usage["cached_input_tokens"])
                        .map(|own| cached.unwrap_or(0) + own)
                        .or(cached);
                }
                Spent { tokens: tokens.map(Tokens), cached: cached.map(Tokens), ..unknown }
            }
            Answer::Claude => {
                let Some(value) = last_object(output) else { return unknown };
                let usage = &value["usage"];
                let names = [
                    "input_tokens",
                    "output_tokens",
                    "cache_read_input_tokens",
                    "cache_creation_input_tokens",
                ];
                let sum: u64 = names.iter().filter_map(|name| number(&usage[*name])).sum();
                let cost = value["total_cost_usd"]
                    .as_f64()
                    .filter(|cost| cost.is_finite() && *cost >= 0.0);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "checked above; a cost is far below 2^53"
                )]
                let cost = cost.map(|dollars| (dollars * 1e9).ceil() as u64);
                Spent {
                    tokens: usage.is_object().then_some(Tokens(sum)),
                    cached: number(&usage["cache_read_input_tokens"]).map(Tokens),
                    cost,
                    ..unknown
                }
            }
            Answer::Gemini => {
                let Some(value) = last_object(output) else { return unknown };
                let models = value["stats"]["models"].as_object().into_iter().flatten();
                let totals: Vec<u64> =
                    models.filter_map(|(_, model)| number(&model["tokens"]["total"])).collect();
                let tokens = (!totals.is_empty()).then(|| Tokens(totals.iter().sum()));
                Spent { tokens, ..unknown }
            }
        }
    }
}

/// The JSON objects of an output, a line each; other lines are passed over.
fn lines(output: &str) -> impl Iterator<Item = Value> {
    output.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// The whole output as one object, or its last line that is one.
fn last_object(output: &str) -> Option<Value> {
    let whole: Option<Value> = serde_json::from_str(output.trim()).ok().filter(Value::is_object);
    whole.or_else(|| lines(output).filter(Value::is_object).last())
}
