//! The command line as typed. Nothing is read from disk here.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use baton_core::policy::Allowed;
use baton_runtime::model::cassette::Tape;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Conducts a team of coding agents over a shared blackboard.
#[derive(Debug, Parser)]
#[command(name = "baton", version, about, max_term_width = 100)]
#[command(after_help = "\
Start here:
  baton demo                      a whole job, without key or network
  baton run \"fix the failing test\"
  baton init --pack tdd           make a blackboard in this folder
  baton doctor                    what was found, what is missing
  baton pack list                 the built-in packs

Exit codes: 0 done, 1 internal, 2 usage or configuration, 3 protocol error, 4 a budget or limit,
5 held by another process, 6 damaged store, 10 waiting for a person.")]
pub(crate) struct Cli {
    /// Print JSON for programs instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// The blackboard's folder [default: `.baton` or `orchestrator` here or in a parent folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) blackboard: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a blackboard in this folder
    #[command(after_help = "\
Examples:
  baton init                         the tdd pack, in English
  baton init --pack novel --lang zh  another built-in pack, in Chinese
  baton init --pack ./my-pack        a pack of your own

  baton init --gates                 also add the gates that are found

Nothing of the project is changed. In a git repository the blackboard is kept out of git through
.git/info/exclude.")]
    Init(InitArgs),
    /// Give a task to the team and conduct it to the end
    #[command(after_help = "\
Examples:
  baton run \"make add() report overflow\"
  baton run \"…\" --max-iterations 20 --budget-dollars 5
  baton run \"…\" --executor codex         every stage by an agent program
  baton run \"…\" --record calls.jsonl      keep every model call, for replaying

Ctrl-C once stops after the current stage, twice stops now; `baton resume` continues either way.")]
    Run(RunArgs),
    /// Continue the last run
    Resume(ResumeArgs),
    /// Answer the open question and continue
    Answer(AnswerArgs),
    /// Ask the run of this blackboard to stop
    Stop(StopArgs),
    /// Show the state of the run, its open question, figures and alarms
    Status,
    /// Talk with the coding agent about this project
    #[command(after_help = "\
Inside: @path names a file, /context shows what the model sees, /cost, /todo, /help, /exit.
Ctrl-C stops the turn; Ctrl-D leaves. `baton chat --continue` goes on with the last conversation.")]
    Chat(TalkArgs),
    /// Give one task to the coding agent and print its answer
    #[command(after_help = "\
Examples:
  baton exec -p \"why does the test in @tests/add.rs fail?\" --read-only
  baton exec -p \"fix it\" --continue
  git diff | baton exec -p - --json

The agent's commands are confined: they may write this project and a temporary folder, and have no
network. Exit codes as everywhere; 3 when the model does not follow the protocol, 4 at a limit.")]
    Exec(ExecArgs),
    /// Show what happened in a run
    Log(LogArgs),
    /// Show what a stage changed in the project
    Diff {
        /// Of this iteration [default: of the whole run]
        iteration: Option<u32>,
    },
    /// Bring the project back to what it was before an iteration, or before a turn of exec or chat
    #[command(after_help = "\
Examples:
  baton undo                the last turn of `baton exec` or `baton chat` in this project
  baton undo --turns 3      the last three of them
  baton undo 1              the whole run; `baton undo 4` all that came with and after iteration 4
  baton undo 1 --dry-run    only list the files

What was there is kept as a snapshot, whose name is printed: `baton undo --snapshot ID` brings it back.
Files that git ignores and does not track are not covered, and commits stay.")]
    Undo(UndoArgs),
    /// Remove snapshots and transcripts that no run needs any more
    Gc {
        /// Keep those of runs that ended within so many days
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u32,
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
    },
    /// List, add, remove or run the commands that confirm a pass
    #[command(subcommand)]
    #[command(after_help = "\
A gate is a command that Baton runs itself when an agent reports a pass and before FINISH. A pass
whose gate fails is overturned. `baton init` and `baton run` propose gates from what they find.

Examples:
  baton gate add \"cargo test\"
  baton gate add \".venv/bin/python -m pytest -q\" --timeout 300
  baton gate add \"npm run lint\" --on FINISH
  baton gate list
  baton gate run")]
    Gate(GateCommand),
    /// Agree to the commands that this blackboard's files name
    Trust(TrustArgs),
    /// Run a whole job on a small bundled project: no key, no network, no model
    Demo(DemoArgs),
    /// Check an agent's report, or show its summary
    #[command(subcommand)]
    Report(ReportCommand),
    /// Check or change a plan
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Show or check a history, or the window of it that a prompt carries
    #[command(subcommand)]
    History(HistoryCommand),
    /// Show the prompt that a stage would get, and what it is made of
    #[command(after_help = "\
Examples:
  baton prompt main                    the text, as the model gets it
  baton prompt main --explain          its sections: source, level, tokens, why, what was cut
  baton prompt dev --subloop           DEV inside the sub-loop
  baton prompt main --iteration 12     as far as the archive still holds what iteration 12 saw

Stages: MAIN, the pack's agents, FINISH_REVIEW, FINISH_CHECK. Nothing is called and nothing is
written.")]
    Prompt(PromptArgs),
    /// Check, show, make or load what two agents hand to each other
    #[command(subcommand)]
    Handoff(HandoffCommand),
    /// Evaluate a scenario: put a model through its samples, and see what fails and why
    #[command(subcommand)]
    Scenario(ScenarioCommand),
    /// List, show, check or switch packs
    #[command(subcommand)]
    Pack(PackCommand),
    /// Show which model would be called, and try it
    #[command(after_help = "\
Examples:
  baton models                                     what is configured, and whether it answers
  baton models --base-url http://127.0.0.1:8080    a server on this machine
  baton models ping --model claude-haiku-4-5       one tiny call: time, tokens, cost

Keys come from ANTHROPIC_API_KEY or OPENAI_API_KEY, never from a project's file.")]
    Models(ModelsArgs),
    /// Print the JSON Schema of a document
    Schema(SchemaArgs),
    /// Say what was found and what is missing
    Doctor,
    /// Replay recorded sessions: what would Baton have saved, and what would it have forgotten?
    #[command(after_help = "\
Examples:
  baton lab ~/.claude/projects                         every session that you had
  baton lab run.traj --policy full,mask:10,last:20     other ways to shorten a history
  baton lab sessions/ --segments --min-calls 10 --plot lab.svg
  baton lab sessions/ --check                          exit 3 if Baton shows something false

No model is called. For each answer of the model, the facts are collected that its tool calls needed
and that only a tool result can have told it: names of files, identifiers, numbers, hashes, and the
lines that an edit replaces. The needed-fact recall (NFR) of a policy is the share of them that the
policy would still have shown. 1.000 forgets nothing.

Each request is also compared with what the tools returned: false references (text that is not what
a tool returned), results that were never shown whole (cut ones that say so apart), and messages of
the user that are missing.

Policies:
  full          everything, always; what the others are compared with
  mask:K        all tool results but the last K are taken out
  mask:K/B      the same, in batches of B, so that the provider's cache holds in between
  last:N        what was given at the beginning, and the last N answers with their results
  edit:T/K      nothing up to T tokens (100k), then all results but the last K are taken out
  baton         what Baton's own agent does

Files are known by what they hold: Baton transcripts, Claude Code and Codex .jsonl, SWE-agent .traj,
TRAE trajectory.json, lists of OpenAI messages, also packed with gzip. Costs count the provider's
cache (read 0.1, written 1.25); `with fetching` adds what it costs to fetch again what was forgotten.")]
    Lab(LabArgs),
    /// Try the agent's single pieces on a text of your own
    #[command(subcommand)]
    Debug(DebugCommand),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:  baton completions bash > ~/.local/share/bash-completion/completions/baton"
    )]
    Completions { shell: clap_complete::Shell },
}

#[derive(Debug, Subcommand)]
pub(crate) enum GateCommand {
    /// Show the gates, and what could be added
    List,
    /// Run a command once as a gate would be run, then add it to the policy
    #[command(after_help = "\
It is added also if it fails now: a run may be there to make it pass. It is not added if it cannot
work as it is (a program is missing, it does not end); `--no-run` adds it unseen.
What you type here needs no `baton trust`.")]
    Add(GateAddArgs),
    /// Remove a gate
    Remove {
        /// Its number in `baton gate list`, or its command
        gate: String,
    },
    /// Run the gates now and print their output; exit 3 if one fails
    Run {
        /// Only this one: its number in `baton gate list`, or its command
        gate: Option<String>,
        /// Disable the sandbox for it
        #[arg(long)]
        no_sandbox: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct GateAddArgs {
    /// The command, for `sh -c`, in the project's folder
    pub(crate) command: String,
    /// The pass that it confirms: an agent or FINISH; may be given several times [default: the
    /// pack's tester, and FINISH]
    #[arg(long, value_name = "AGENT", value_delimiter = ',')]
    pub(crate) on: Vec<String>,
    /// Seconds that it may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) timeout: u32,
    /// What it may do that a confined command may not: network, home (read all of your home folder),
    /// everything [default: nothing]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = allowed)]
    pub(crate) allow: Vec<Allowed>,
    /// Add it without running it first
    #[arg(long)]
    pub(crate) no_run: bool,
    /// Disable the sandbox for this first run
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

fn allowed(name: &str) -> Result<Allowed, String> {
    let all = [Allowed::Network, Allowed::Home, Allowed::Everything];
    let named = all.into_iter().find(|own| own.as_str() == name.trim());
    named.ok_or_else(|| "use network, home or everything".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Show the commands and agree to nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Take the agreement back
    #[arg(long, conflicts_with = "list")]
    pub(crate) revoke: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// A built-in pack or a folder with a `pack.toml`
    #[arg(long, value_name = "PACK")]
    pub(crate) pack: Option<String>,
    /// The language of prompts, key lines and messages [default: the pack's only one, or that of your
    /// locale, or en]
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<String>,
    /// Make a blackboard here although a parent folder has one
    #[arg(long)]
    pub(crate) here: bool,
    /// Add the gates that are proposed, without asking
    #[arg(long)]
    pub(crate) gates: bool,
    /// Do not look for gates
    #[arg(long, conflicts_with = "gates")]
    pub(crate) no_gates: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReportCommand {
    /// Check that a report's key lines are right; exit 3 if not
    #[command(after_help = "\
Examples:
  baton report check .baton/reports/report_test.md
  baton report check answer.md --agent TEST --iteration 7
  baton report check - --agent DEV --policy my_policy.json < answer.md

Without --policy the rules come from the blackboard, or else from the built-in pack that has the
agent.")]
    Check(ReportArgs),
    /// Show what a prompt would carry of a report; never fails on its content
    #[command(after_help = "\
Examples:
  baton report summary .baton/reports/report_test.md
  baton report summary answer.md --agent DEV --level 2

Level 1 is verdict and blockers (under 10 lines), level 2 also key changes, evidence and the agent's
own fields (under 50), level 3 the whole report.")]
    Summary {
        #[command(flatten)]
        report: ReportArgs,
        /// 1, 2 or 3
        #[arg(long, value_name = "LEVEL", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
        level: u8,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// MAIN, an agent of the pack, FINISH_REVIEW or FINISH_CHECK
    pub(crate) stage: String,
    /// Of this iteration [default: the next one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iteration: Option<u32>,
    /// As it is inside the sub-loop
    #[arg(long)]
    pub(crate) subloop: bool,
    /// Show what it is made of instead of its text
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The report; `-` is standard input
    pub(crate) file: PathBuf,
    /// Whose report it is [default: from a name like `report_test.md`]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// The iteration it must be of [default: any]
    #[arg(long, value_name = "N")]
    pub(crate) iteration: Option<u32>,
    /// A `verification_policy.json`
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Check a plan and count its tasks; exit 3 if it cannot be read
    Check(PlanArgs),
    /// Apply update statements from standard input, all or none
    #[command(after_help = "\
Statements, one a line or split by `;`:
  update <ID> status to <STATUS>
  add <ID>: <title> [under <MILESTONE>]
  set <ID> evidence: <text>
  set <ID> acceptance: <text>

Example:
  echo 'update M1-T1 status to DONE' | baton plan apply

Only the lines that must change do. A refused statement leaves the file as it was. The final status
is granted only by a passing report in the blackboard that the plan belongs to.")]
    Apply(PlanApplyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The plan [default: the blackboard's]
    pub(crate) file: Option<PathBuf>,
    /// A `verification_policy.json`
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PlanApplyArgs {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// Show what would change and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// Show the entries of a history
    Show(HistoryShowArgs),
    /// Show the last iterations and every milestone, within a budget
    #[command(after_help = "\
Examples:
  baton history window                           as MAIN's prompt would carry it, without a budget
  baton history window --last 5 --max-tokens 2000
  baton history window old_history.md --no-milestones

Milestones keep their whole entry, the others next_agent, reason, dev_plan and blockers. Too large:
ordinary iterations go first, then milestones shrink, oldest first; the last 3 always stay.")]
    Window(HistoryWindowArgs),
    /// Say what is odd in a history; old files are read as they are
    Check {
        /// The history [default: the blackboard's]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct HistoryShowArgs {
    /// The history [default: the blackboard's]
    pub(crate) file: Option<PathBuf>,
    /// Only the last N entries
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<usize>,
    /// Only milestones
    #[arg(long)]
    pub(crate) milestones: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryWindowArgs {
    /// The history [default: the blackboard's]
    pub(crate) file: Option<PathBuf>,
    /// How many of the last iterations
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) last: usize,
    /// The budget
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<u64>,
    /// Only the last iterations
    #[arg(long)]
    pub(crate) no_milestones: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HandoffCommand {
    /// Check a package and everything that it names; exit 3 if something is wrong
    #[command(after_help = "\
Examples:
  baton handoff check execute_to_init.json
  baton handoff check package.json --root ../project

Every problem is listed, with its field and place. A package has at most 300 tokens
(init_to_execute) or 5,000 (execute_to_init).")]
    Check(HandoffArgs),
    /// Show what a package says, without a look at its files
    Show(HandoffArgs),
    /// Print what an agent would be given of a package's files, within a budget
    #[command(after_help = "\
Examples:
  baton handoff load execute_to_init.json
  baton handoff load execute_to_init.json --budget 10000 2> ledger.txt

The text goes to standard output, the account of it to standard error (with --json, both to standard
output).")]
    Load(HandoffLoadArgs),
    /// Make an execute_to_init package from the folder of an iteration
    #[command(after_help = "\
Examples:
  baton handoff make scenarios/leave/execution_outputs/iteration_12
  baton handoff make iteration_12 --reason \"critical problems over 30%\" --dry-run

It is made of failure_summary.json and layer1_problems_report.json alone. An index that does not fit
goes whole to failure_index.jsonl beside them.")]
    Make(HandoffMakeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct HandoffArgs {
    /// The package; `-` is standard input
    pub(crate) file: PathBuf,
    /// The folder that its paths are counted from [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HandoffLoadArgs {
    #[command(flatten)]
    pub(crate) package: HandoffArgs,
    /// The budget
    #[arg(long, value_name = "TOKENS", default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000))]
    pub(crate) budget: u64,
}

#[derive(Debug, Args)]
pub(crate) struct HandoffMakeArgs {
    /// The iteration's folder
    pub(crate) folder: PathBuf,
    /// The folder that paths are counted from [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Why the work goes back [default: the summary's, or its figures]
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Where the package goes [default: execute_to_init.json in the iteration's folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print the package and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
    /// Evaluate one iteration, or go on with one that was interrupted
    #[command(after_help = "\
Examples:
  baton scenario run leave                         scenarios/leave beneath this folder
  baton scenario run leave --jobs 16 --only BS_MT_001 --only BS_MT_002
  baton scenario run leave --base-url http://127.0.0.1:8080 --model qwen --protocol json
  baton scenario run leave --retry-errors          what could not be evaluated, once more

What is finished is on disk and is never run again: after Ctrl-C or a crash the same command goes on.
How good the target is does not change the exit code: 0 says that the evaluation did its work.")]
    Run(Box<ScenarioRunArgs>),
    /// Show the iterations of a scenario, and how far an unfinished one is
    Status(ScenarioArgs),
    /// Show what failed in an iteration, and the problems behind it
    Report(ScenarioReportArgs),
    /// Show which samples changed between two iterations
    Diff(ScenarioDiffArgs),
    /// Evaluate the built-in scenario, with its first design and with the repaired one
    #[command(after_help = "\
It needs no key and calls no model: target and judge are played by code, which goes by the rules in
its prompt. The tools, the checkers, the conversations and all files are real.")]
    Demo(ScenarioDemoArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The first iteration of the run whose changes go
    pub(crate) iteration: Option<u32>,
    /// Undo the last N turns of exec and chat, also if a run worked after them
    #[arg(long, value_name = "N", conflicts_with = "iteration",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) turns: Option<u32>,
    /// Bring back this snapshot, by the name that was printed when it was kept
    #[arg(long, value_name = "ID", conflicts_with_all = ["iteration", "turns"])]
    pub(crate) snapshot: Option<String>,
    /// List what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// The scenario's folder, or its name in `scenarios/` [default: the only one there]
    pub(crate) scenario: Option<String>,
    /// The folder that paths are counted from [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ScenarioRunArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Samples at once [default: scenario.jobs of the configuration, or 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) jobs: Option<u32>,
    /// Only this sample; may be given several times
    #[arg(long, value_name = "ID")]
    pub(crate) only: Vec<String>,
    /// Begin another iteration, even if the last one is not finished
    #[arg(long, conflicts_with = "retry_errors")]
    pub(crate) new: bool,
    /// In the last iteration, run the samples again that could not be evaluated
    #[arg(long)]
    pub(crate) retry_errors: bool,
    /// Ask no model why samples failed: problems are groups of the same failures
    #[arg(long)]
    pub(crate) no_attribution: bool,
    /// The model that is evaluated [default: scenario.target of the configuration, or --model]
    #[arg(long, value_name = "NAME")]
    pub(crate) target_model: Option<String>,
    /// The model that judges [default: scenario.judge of the configuration, or --model]
    #[arg(long, value_name = "NAME")]
    pub(crate) judge_model: Option<String>,
    /// How the target says which tool it calls [default: native]
    #[arg(long, value_enum)]
    pub(crate) protocol: Option<ProtocolArg>,
    /// The target's temperature [default: the provider's]
    #[arg(long, value_name = "T")]
    pub(crate) temperature: Option<f64>,
    /// Stop in good order after so many minutes
    #[arg(long, value_name = "N")]
    pub(crate) minutes: Option<u64>,
    /// Stop in good order after so many tokens
    #[arg(long, value_name = "N")]
    pub(crate) budget_tokens: Option<u64>,
    /// Stop in good order after so many dollars
    #[arg(long, value_name = "N")]
    pub(crate) budget_dollars: Option<f64>,
    /// Run the scenario's programs unconfined, at your own risk
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,
    #[command(flatten)]
    pub(crate) tape: TapeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ScenarioReportArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,
    /// Which iteration [default: the last one that is over]
    #[arg(long, value_name = "N")]
    pub(crate) iteration: Option<u32>,
    /// Write it as a page that needs nothing else, with the conversations of failed samples
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ScenarioDiffArgs {
    /// The scenario's folder, or its name in `scenarios/`
    pub(crate) scenario: String,
    /// The number of the earlier iteration
    pub(crate) before: u32,
    /// The number of the later one
    pub(crate) after: u32,
    /// The folder that paths are counted from [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ScenarioDemoArgs {
    /// Where to put it; must be empty or absent [default: a new temporary folder]
    pub(crate) folder: Option<PathBuf>,
    /// The language of the scenario
    #[arg(long, value_name = "LANG", default_value = "en", value_parser = ["en", "zh"])]
    pub(crate) lang: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PackCommand {
    /// List the built-in packs
    List {
        /// The language of titles [default: the blackboard's, or that of your locale, or en]
        #[arg(long, value_name = "LANG")]
        lang: Option<String>,
    },
    /// Show a pack: agents, verdicts, statuses, prompts
    Show(PackShowArgs),
    /// Explain what is wrong with a pack; exit 2 if something is
    Check {
        /// A pack's folder or a built-in pack [default: the blackboard's pack, policy and prompts]
        pack: Option<String>,
    },
    /// Write a new pack into a folder of its name: a small one to change, or a copy of another
    #[command(after_help = "\
Examples:
  baton pack new my-pack
  baton pack new my-pack --lang zh
  baton pack new my-novel --from novel --lang zh")]
    New {
        /// Lower case letters, digits and `-`; also the folder, which must not be there yet
        name: String,
        /// A built-in pack or a pack's folder to copy [default: a small example]
        #[arg(long, value_name = "PACK")]
        from: Option<String>,
        /// The language [default: en; with --from, all that it has]
        #[arg(long, value_name = "LANG")]
        lang: Option<String>,
    },
    /// Write the files of a pack into a folder, to read or to change
    Export {
        /// A built-in pack [default: the blackboard's]
        pack: Option<String>,
        /// A folder that is not there yet [default: the pack's name]
        dir: Option<PathBuf>,
    },
    /// Switch the blackboard to another pack; what a person changed is kept aside
    Use {
        /// A built-in pack or a folder with a `pack.toml`
        pack: String,
        /// [default: the blackboard's language, if the pack has it]
        #[arg(long, value_name = "LANG")]
        lang: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PackShowArgs {
    /// A pack's folder or a built-in pack [default: the blackboard's]
    pub(crate) pack: Option<String>,
    /// [default: the blackboard's, or en]
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<String>,
    /// Print the prompt of this agent (MAIN, FINISH_REVIEW, SUMMARY and SYSTEM too)
    #[arg(long, value_name = "AGENT", conflicts_with = "policy")]
    pub(crate) prompt: Option<String>,
    /// Print the policy
    #[arg(long)]
    pub(crate) policy: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ModelsCommand>,
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Make one tiny call
    Ping {
        /// Write the call to this new file, for replaying
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
        /// Take the answer from such a file; nothing is called
        #[arg(long, value_name = "FILE", conflicts_with = "record")]
        replay: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What is to be done
    #[arg(required = true)]
    pub(crate) task: Vec<String>,
    /// The pack of a blackboard that is made now: a built-in one, or a folder [default: tdd]
    #[arg(long, value_name = "PACK")]
    pub(crate) pack: Option<String>,
    /// Its language [default: as for `baton init`]
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<String>,
    /// What the run works on, where the pack knows scenarios: a folder's name in `scenarios/`
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Option<String>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// What becomes of files that you edited after a stage was interrupted: keep them, with what the
    /// stage had done, or discard (what was there is kept as a snapshot)
    #[arg(long, value_name = "WHAT")]
    pub(crate) edits: Option<EditsArg>,
    /// Continue with the policy, prompts and configuration as they are now, where they changed since
    /// the run began
    #[arg(long)]
    pub(crate) adopt: bool,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum EditsArg {
    Keep,
    Discard,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Fail unless question N is the one that is open
    #[arg(long, value_name = "N")]
    pub(crate) question: Option<usize>,
    /// The number of the option that you choose, or its name
    pub(crate) option: String,
    /// A comment, shown to MAIN
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// End the stage that runs; it begins again at `resume`
    #[arg(long)]
    pub(crate) now: bool,
    /// Give up a run that is not going on, so that another can begin
    #[arg(long, conflicts_with = "now")]
    pub(crate) abandon: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Of this run [default: the last]
    pub(crate) run: Option<String>,
    /// Go on showing what happens
    #[arg(long)]
    pub(crate) follow: bool,
    /// Lines for log tools (`orchestrator: subloop_enter …`)
    #[arg(long)]
    pub(crate) lines: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where to put the project [default: a new temporary folder]
    pub(crate) folder: Option<PathBuf>,
}

/// What a run may take.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    /// Iterations of the run [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_iterations: Option<u32>,
    /// Tokens, of all stages together
    #[arg(long, value_name = "N")]
    pub(crate) budget_tokens: Option<u64>,
    /// Dollars; every model must have a known price
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = dollars)]
    pub(crate) budget_dollars: Option<f64>,
    /// Minutes, of all stages together
    #[arg(long, value_name = "N")]
    pub(crate) budget_minutes: Option<u32>,
    /// Tokens of one stage
    #[arg(long, value_name = "N")]
    pub(crate) stage_tokens: Option<u64>,
    /// Dollars of one stage
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = dollars)]
    pub(crate) stage_dollars: Option<f64>,
}

fn dollars(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|own| own.is_finite() && *own >= 0.0);
    number.ok_or_else(|| "expected an amount of 0 or more".to_owned())
}

/// Who runs the stages.
#[derive(Debug, Clone, Args)]
pub(crate) struct HowArgs {
    /// builtin (a model), codex, claude, gemini, opencode, or one of your own
    #[arg(long, value_name = "NAME")]
    pub(crate) executor: Option<String>,
    #[command(flatten)]
    pub(crate) tape: TapeArgs,
    /// Confine nothing that stages and gates start
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// Take the recommended option where an agent asks. It approves no design, unless your own
    /// configuration says `[approval] by_yes = true`
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,
}

/// Recordings of model calls.
#[derive(Debug, Clone, Args)]
pub(crate) struct TapeArgs {
    /// Write every model call to this new file, for --replay
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Replay model calls from a file made with --record
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// The file, once it is open: every model of a command shares it.
    #[arg(skip)]
    pub(crate) opened: Arc<OnceLock<Tape>>,
}

/// A conversation with the agent.
#[derive(Debug, Args)]
pub(crate) struct TalkArgs {
    /// Go on with the last conversation of this project
    #[arg(long = "continue", short = 'c')]
    pub(crate) goes_on: bool,
    /// When you are asked: before every act, only before what leaves the confinement, or never
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) approve: ApproveArg,
    /// Change nothing: no edits, and commands find the project read-only and may write only $TMPDIR
    #[arg(long)]
    pub(crate) read_only: bool,
    /// How the model says what it wants done [default: native, or the configuration's]
    #[arg(long, value_name = "NAME")]
    pub(crate) protocol: Option<ProtocolArg>,
    /// Calls of the model in one turn [default: 200, or the configuration's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) steps: Option<u32>,
    /// Tokens of one turn
    #[arg(long, value_name = "N")]
    pub(crate) budget_tokens: Option<u64>,
    /// Minutes of one turn
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) minutes: u32,
    /// Confine nothing that the agent starts
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    #[command(flatten)]
    pub(crate) tape: TapeArgs,
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ApproveArg {
    Ask,
    Auto,
    Never,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ProtocolArg {
    /// The provider's tool calls
    Native,
    /// One JSON object an answer, under a schema
    Json,
    /// Thought and action in plain text
    React,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The task; `-` reads it from standard input
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) prompt: String,
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Which model to call.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProviderArgs {
    /// anthropic, openai-responses or openai-chat
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// The server's address
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The model's name, as the provider writes it
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Send the key over http:// to another machine, where it can be read on the way
    #[arg(long, global = true)]
    pub(crate) key_over_http: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    /// Show what history keeps of a tool result; exit 3 if it is none
    #[command(after_help = "\
Examples:
  echo '{\"status\":\"success\",\"data\":{\"stdout\":\"hello\",\"exit\":0}}' | baton debug compress --tool Bash
  baton debug compress --tool Grep < envelope.json | jq .omitted

An envelope is {\"status\": \"success|partial|error\", \"data\": {…}, \"text\": \"…\", \"stats\": {…},
\"context\": {…}, \"error\": {\"code\": \"…\", \"message\": \"…\"}}; only status is needed. What is kept of data
depends on the tool:
  LS, Glob          the first 10 entries
  Grep              the first 5 matches
  Read              500 lines
  Edit, MultiEdit   50 lines of the diff, of a larger one its summary
  Write             the first 20 to 50 lines
  Bash              the lines of stdout that tell most, the last 20 of stderr
  TodoWrite         the recap
  any other         head and tail
Status, error and flags stay; text, stats and context go. `omitted` says what was left out.")]
    Compress {
        /// The tool that gave the result
        #[arg(long, value_name = "TOOL")]
        tool: String,
        /// The id that the stub carries
        #[arg(long, value_name = "ID", default_value = "o1", value_parser = baton_core::id::ObservationId::new)]
        id: baton_core::id::ObservationId,
    },
    /// Show a message as the model gets it, with a reminder for each file that it mentions
    #[command(after_help = "\
Examples:
  echo 'Why does @src/lib.rs not build?' | baton debug mentions
  echo 'See @\"my notes.md\".' | baton debug mentions --root ../other --json

A mention is @ and a relative path, or @ and a path in double quotes, not right after an ASCII
letter or digit. A range may follow: @a.rs:10-20, @a.rs:12, @a.rs#L1-L5. A path that is missing or a
folder is left alone and reported; more than 5 files are counted.")]
    Mentions {
        /// The project that the paths are relative to [default: this folder]
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
    /// Show what a compaction would do to a conversation, message by message
    #[command(after_help = "\
Examples:
  baton debug compact --strategy handover --keep 5 < messages.json
  baton debug compact --strategy archive --keep 3 --json < session.jsonl | jq .cut
  baton debug compact --compact-at 24000 < messages.json     only if it is that large

Standard input: a JSON list of messages (OpenAI or Anthropic), or any recording that `baton lab` reads
with one session. No model is called: where it would write a summary, a line says so.")]
    Compact(DebugCompactArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DebugCompactArgs {
    /// `archive` lets whole turns leave, `handover` steps
    #[arg(long, value_name = "NAME", value_parser = ["archive", "handover"], default_value = "handover")]
    pub(crate) strategy: String,
    /// Turns (archive) or steps (handover) that stay whole
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) keep: u32,
    /// Tokens from which on it is done [default: whatever the size is]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub(crate) compact_at: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    /// Recorded sessions, or folders of them; `-` is standard input
    #[arg(required = true, value_name = "FILE|FOLDER")]
    pub(crate) paths: Vec<PathBuf>,
    /// The policies to compare, split by commas
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "full,mask:10,mask:10/20,baton"
    )]
    pub(crate) policy: Vec<String>,
    /// Measure each stretch between two compactions by itself
    #[arg(long)]
    pub(crate) segments: bool,
    /// Only sessions that were compacted by the program that was recorded
    #[arg(long)]
    pub(crate) compacted: bool,
    /// Only sessions with at least so many answers of the model
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) min_calls: usize,
    /// Exit 3 if a request of Baton's own policy has a false reference, a result was never shown, or
    /// a message of the user was lost
    #[arg(long)]
    pub(crate) check: bool,
    /// Draw cost against recall into this file, .svg or .html
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Which document
    #[arg(value_enum)]
    pub(crate) document: SchemaName,
    /// The pack whose agents a decision may name [default: the blackboard's, or tdd]
    #[arg(long, value_name = "PACK")]
    pub(crate) pack: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SchemaName {
    /// What `report check --json` prints of a good report
    Report,
    /// What `report summary --json` prints
    Summary,
    /// The account of a prompt, as `prompt --json` prints it
    Ledger,
    /// MAIN's answer
    Decision,
    /// verification_policy.json
    Policy,
    /// pack.toml
    Pack,
    /// A task of a plan, as `plan check --json` prints it
    Plan,
    /// An entry of a history, as `history show --json` prints it
    History,
    /// baton.toml
    Config,
    /// A design that is handed to its execution
    InitToExecute,
    /// What an execution hands back
    ExecuteToInit,
    /// failure_summary.json of an iteration
    FailureSummary,
    /// layer1_problems_report.json of an iteration
    ProblemsReport,
    /// tools.json of a scenario
    ScenarioTools,
    /// checkers.json of a scenario
    ScenarioCheckers,
    /// A sample of a scenario
    ScenarioSample,
    /// One problem, as every `--json` prints it
    Problem,
}

/// Says how a command line with options is given to a command that takes one, where the usual tip
/// (`-- -q`) would be wrong.
pub(crate) fn explain(error: &mut clap::Error) {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let typed: Vec<_> = std::env::args_os().skip(1).collect();
    if typed.windows(2).any(|pair| pair[0] == "gate" && pair[1] == "add") {
        error.remove(ContextKind::SuggestedArg);
        let tip = "put the whole command in quotes: baton gate add \"pytest -q\"";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}
