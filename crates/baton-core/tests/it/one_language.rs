//! A prompt speaks one language: every stage of every pack, with rich material, has no English words
//! round Chinese texts but names and keys, and no Chinese in English ones.

use baton_core::config::Config;
use baton_core::id::{AgentName, FINISH_REVIEW, Iteration, Tokens};
use baton_core::machine::{Git, Machine, StageLimits, Tool};
use baton_core::messages::Language;
use baton_core::notes;
use baton_core::pack::Pack;
use baton_core::policy::Gate;
use baton_core::prompt::{
    Correction, Filed, FinishFacts, GateResult, Injected, Material, OlderReports, Prompt, ReadFile,
    RunFacts, Stage, StageChange, Whole, build, files_read,
};
use baton_core::summary::Summary;
use baton_core::text;
use baton_core::window::Log;

use crate::PACKS;
use crate::common::pack;

mod runs;

/// Words that a Chinese prompt may have in its sentences: names of the workflow, verdicts, statuses
/// and the keys of files.
const NAMES: [&str; 58] = [
    // Agents and stages.
    "MAIN",
    "USER",
    "FINISH",
    "FINISH_REVIEW",
    "FINISH_CHECK",
    "TEST",
    "DEV",
    "REVIEW",
    "OUTLINE",
    "DRAFT",
    "POLISH",
    "CRITIQUE",
    "COLLECT",
    "ANALYZE",
    "VERIFY",
    "CONCLUDE",
    "INIT",
    "EXECUTE",
    // Verdicts and statuses.
    "PASS",
    "FAIL",
    "BLOCKED",
    "APPROVED",
    "NEEDS_REVISION",
    "VALID",
    "INVALID",
    "INSUFFICIENT_EVIDENCE",
    "TODO",
    "IN_PROGRESS",
    "DONE",
    "VERIFIED",
    "DRAFTED",
    "POLISHED",
    // Keys of decisions, plans, reports and histories.
    "iteration",
    "evidence",
    "acceptance",
    "status",
    "Milestone",
    "replace",
    "null",
    "gates",
    "next_agent",
    "reason",
    "dev_plan",
    "verdict",
    "blockers",
    "coverage",
    "user_choice",
    "user_comment",
    "Iteration",
    "MILESTONE",
    "Task",
    "Goal",
    "New",
    "User",
    "Decision",
    // Names of programs and formats.
    "Baton",
    "JSON",
    "git",
];

#[test]
fn chinese_prompts_have_no_english_words_but_names() {
    let mut found = Vec::new();
    for name in PACKS {
        let pack = pack(name, "zh");
        for (stage, part, text) in everything(&pack) {
            // It is code: MAIN reads its keys.
            if part == "policy" {
                continue;
            }
            let is_ours = part != "prompt";
            for (line, words) in foreign_words(&text, is_ours) {
                found.push(format!("{name} {stage}, {part}: {words:?} in: {line}"));
            }
        }
    }
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{} lines:\n{}", found.len(), found.join("\n"));
}

#[test]
fn english_prompts_have_no_chinese_characters() {
    let mut found = Vec::new();
    for name in PACKS {
        let pack = pack(name, "en");
        for (stage, part, text) in everything(&pack) {
            for line in text.lines().filter(|line| line.chars().any(is_chinese)) {
                found.push(format!("{name} {stage}, {part}: {line}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Sections that are kept from one prompt to the next are of the language that they were made in.
#[test]
fn the_same_pack_in_another_language_gets_other_titles() {
    let config = Config::default();
    let mut pack = pack("tdd", "en");
    for language in ["en", "zh", "en"] {
        pack.language = language.to_owned();
        let words = pack.words();
        let board = Material {
            global_context: Some(Injected { path: "x.md".to_owned(), text: "x".to_owned() }),
            ..empty(&pack, &config)
        };
        let text = build(Stage::Main, &board, &mut Log::default()).unwrap().text();
        for title in [words.title_policy(), words.title_global_context(), words.no_iteration_yet()]
        {
            assert!(text.contains(&title), "{language}: {title}");
        }
        let other = Language::of(if language == "en" { "zh" } else { "en" });
        assert!(!text.contains(&format!("# {}", other.title_global_context())), "{language}");
    }
}

/// A window counts its entries once, with the marks of the language that is asked for.
#[test]
fn the_same_history_in_another_language_gets_other_marks() {
    let config = Config::default();
    let mut pack = pack("tdd", "en");
    let mut log = Log::new(Text { words: Language::Chinese }.history());
    for language in ["en", "zh", "en"] {
        pack.language = language.to_owned();
        let prompt = build(Stage::Main, &empty(&pack, &config), &mut log).unwrap();
        let window = prompt.window.unwrap();
        assert!(window.text.contains(&pack.words().window_task()), "{language}");
        assert_eq!(window.total_tokens, baton_core::tokens::count(&window.text), "{language}");
    }
}

/// A check that finds nothing whatever it is given would pass above.
#[test]
fn the_check_finds_what_it_is_for() {
    let text = "# Work order（.baton/a/b.md）\n用 `git diff HEAD` 查看 src/lib.rs 的改动，key_changes：DEV\n";
    let found = foreign_words(text, true);
    let words: Vec<&str> = found.iter().flat_map(|(_, words)| words).map(String::as_str).collect();
    assert_eq!(words, ["Work", "order", "key_changes"]);
    assert!(foreign_words("```\nWork order\n```\n", false).is_empty(), "examples are quoted");
    assert_eq!(foreign_words("```\nWork order\n```\n", true).len(), 1, "ours are not");
}

fn is_chinese(c: char) -> bool {
    matches!(c, '\u{3000}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}' | '“' | '”')
}

/// The lines with English words that are not names. Code marks and paths are left out; so are fenced
/// examples, except where the fences are around texts of ours.
pub(crate) fn foreign_words(text: &str, is_ours: bool) -> Vec<(String, Vec<String>)> {
    let mut fence = text::Fence::default();
    let lines = text::lines(text).filter(|line| !fence.covers(*line) || is_ours);
    let lines = lines.map(|line| line.text.to_owned());
    lines.map(|line| (line.clone(), words_of(&line))).filter(|(_, all)| !all.is_empty()).collect()
}

fn words_of(line: &str) -> Vec<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let pieces = prose.split(|c: char| c.is_whitespace() || is_chinese(c));
    let is_path = |piece: &str| piece.contains('/') || piece.contains(".md");
    // The beginning of a name, where a heading is cut.
    let is_cut = |piece: &str| piece.ends_with('…');
    let is_word = |piece: &&str| !is_path(piece) && !is_cut(piece) && !is_tag(piece);
    let words = pieces.filter(is_word).flat_map(|piece| {
        piece.split(|c: char| !c.is_ascii_alphabetic() && c != '_').map(str::to_owned)
    });
    words.filter(|word| word.len() > 1 && !NAMES.contains(&word.as_str())).collect()
}

/// The class of a blocker, `[env]`.
fn is_tag(piece: &str) -> bool {
    piece.starts_with('[')
        && piece.ends_with(']')
        && piece != "[MILESTONE]"
        && piece[1..piece.len() - 1].chars().all(|c| c.is_ascii_lowercase())
}

/// Every text that a stage of the pack can be told: the stage, the section and its text.
fn everything(pack: &Pack) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for is_rich in [true, false] {
        for prompt in prompts(pack, is_rich) {
            for section in &prompt.sections {
                all.push((prompt.stage.clone(), section.name.clone(), section.text().to_owned()));
            }
        }
    }
    let messages = corrections(pack).into_iter();
    all.extend(messages.map(|text| ("a correction".to_owned(), "message".to_owned(), text)));
    all
}

fn prompts(pack: &Pack, is_rich: bool) -> Vec<Prompt> {
    let text = Text { words: pack.words() };
    let facts = if is_rich { finish_facts(text) } else { FinishFacts::default() };
    let agents = pack.manifest.agent_names();
    let last = AgentName::new(FINISH_REVIEW).unwrap();
    let mut stages = vec![Stage::Main, Stage::FinishCheck(&facts), Stage::Agent(&last)];
    stages.extend(agents.iter().map(Stage::Agent));
    if let Some(subloop) = &pack.policy.subloop {
        stages.extend([Stage::Fixer(subloop), Stage::Tester(subloop)]);
    }
    let mut made = Vec::new();
    for (outcome, window) in [(0, 4_000), (1, 700), (2, 250), (3, 90)] {
        let mut config = Config::default();
        config.context.subagent_history = 2;
        config.context.level = 2;
        config.context.max_tokens = Some(window);
        let board = if is_rich { rich(pack, &config, text, outcome) } else { empty(pack, &config) };
        for stage in &stages {
            let mut log = if is_rich { Log::new(text.history()) } else { Log::default() };
            made.push(build(*stage, &board, &mut log).unwrap());
        }
    }
    made
}

fn empty<'a>(pack: &'a Pack, config: &'a Config) -> Material<'a> {
    Material {
        pack,
        config,
        iteration: Iteration(50),
        context_window: None,
        policy_path: "memory/verification_policy.json".to_owned(),
        history_path: "memory/project_history.md".to_owned(),
        task_path: "memory/task.md".to_owned(),
        global_context: None,
        plan: None,
        work_order: None,
        acceptance_scope: None,
        handoff: Vec::new(),
        notes: None,
        board_folder: ".baton".to_owned(),
        run: RunFacts::default(),
        reports: Vec::new(),
    }
}

/// Texts of users and agents, in the language of the pack.
#[derive(Clone, Copy)]
struct Text {
    words: Language,
}

impl Text {
    fn say(self, english: &str, chinese: &str) -> String {
        match self.words {
            Language::English => english.to_owned(),
            Language::Chinese => chinese.to_owned(),
        }
    }

    fn something(self) -> String {
        self.say("something was found here", "这里发现了一些东西")
    }

    /// A run of fifty iterations with many milestones and long answers.
    fn history(self) -> String {
        let (what, title) = (self.something(), self.say("which way", "怎么办"));
        let mut out = format!("## Task Goal (New Task) - 2026-01-31T00:44:55\n{what}\n\n");
        for n in 1..50 {
            let mark = if n % 2 == 0 { "[MILESTONE] " } else { "" };
            let reason = what.repeat(20);
            out.push_str(&format!(
                "## Iteration {n}: {mark}{what}\nnext_agent: USER\nreason: {reason}\ndev_plan: {what}\nverdict: {what}\nblockers: {what}\n\n"
            ));
            if n % 8 == 0 {
                let comment = what.repeat(100);
                out.push_str(&format!(
                    "## User Decision (Iteration {n}): {title} - 2026-01-31T01:00:00\nuser_choice: {title}\nuser_comment: {comment}\n\n"
                ));
            }
        }
        out
    }
}

fn rich<'a>(pack: &'a Pack, config: &'a Config, text: Text, outcome: usize) -> Material<'a> {
    let (words, what) = (text.words, text.something());
    let injected = |path: &str, text: String| Some(Injected { path: path.to_owned(), text });
    let plan = &pack.policy.plan;
    let agent = pack.manifest.agent_names().remove(0);
    let notes =
        notes::merged(words, "", std::slice::from_ref(&what), &agent, Iteration(3)).unwrap();
    let plan = format!(
        "## Milestone M1: {what}\n\n### M1-T1: {what}\n- status: {}\n\n### M1-T2: {what}\n- status: {}\n",
        plan.final_status, plan.statuses[0]
    );
    let scopes = text.say(
        r#"{"criteria":["one","two"],"more":{"a":1}}"#,
        r#"{"标准":["甲","乙"],"其他":{"丙":1}}"#,
    );
    Material {
        global_context: injected("memory/global_context.md", what.clone()),
        plan: injected("memory/dev_plan.md", plan),
        work_order: injected("workspace/x/current_task.md", format!("iteration: 50\n{what}\n")),
        acceptance_scope: injected(
            "memory/acceptance_scope.json",
            if outcome == 0 { what.clone() } else { scopes },
        ),
        handoff: injected(&words.handoff_read("scenarios/x/execution_outputs"), what)
            .into_iter()
            .collect(),
        notes: injected("memory/notes.md", notes),
        run: run_facts(&agent, text, outcome),
        reports: reports(pack, text, outcome),
        ..empty(pack, config)
    }
}

fn run_facts(agent: &AgentName, text: Text, outcome: usize) -> RunFacts {
    let words = text.words;
    let (limits, machine, gates) = machine(agent, outcome);
    let mut facts = machine.facts(words, &gates, &limits);
    facts.extend(machine.facts_for_main(words, &gates, true));
    facts.push(words.machine_gate_passed("make", agent, 3));
    facts.push(words.machine_gate_failed("make", agent, 4));
    let mut changed: Vec<StageChange> = (0..70)
        .map(|n| StageChange {
            stage: format!("{agent}, iteration {n}"),
            files: vec![format!("src/part{n}.rs")],
        })
        .collect();
    changed[0] = StageChange {
        stage: format!("{agent}, iteration 1, sub-iteration 2"),
        files: vec!["src/first.rs".to_owned(), "and 5 more".to_owned()],
    };
    RunFacts {
        verdicts: vec!["M1-T1: TEST PASS".to_owned()],
        since_own: None,
        first_iteration: Some(Iteration(1)),
        machine: facts,
        project_files: (0..900).map(|n| format!("data/part{}/{n}.json", n % 3)).collect(),
        changed,
        compare: machine.comparison(words),
        older_reports: OlderReports { count: 30, last: vec!["reports/archive/5_a_a1.md".into()] },
        main_order: Some((agent.clone(), text.something())),
        settled: Vec::new(),
    }
}

/// A machine with everything, or with nothing.
fn machine(agent: &AgentName, outcome: usize) -> (StageLimits, Machine, Vec<Gate>) {
    let has = outcome.is_multiple_of(2);
    let limits = StageLimits {
        stage_seconds: if has { 3_600 } else { 30 },
        command_seconds: has.then_some((120, 1_800)),
        writes: has,
        network: false,
        asks_measured: true,
    };
    let tool = |version: &str| Tool { name: "cargo".to_owned(), version: version.to_owned() };
    let machine = Machine {
        system: "linux x86_64".to_owned(),
        tools: vec![tool("cargo 1.95.0 (stable)"), tool("")],
        missing: vec!["cargo-tarpaulin".to_owned()],
        coverage: if has { vec!["cargo llvm-cov".to_owned()] } else { Vec::new() },
        git: Some(Git { head: Some("0123456789abcdef".to_owned()), uncommitted: outcome }),
        ..Machine::default()
    };
    let gate = |run: &str| Gate {
        on: agent.clone().into(),
        run: run.to_owned(),
        timeout: 60,
        allow: Vec::new(),
    };
    let gates = if has { vec![gate("make test"), gate("make lint")] } else { Vec::new() };
    (limits, machine, gates)
}

fn finish_facts(text: Text) -> FinishFacts {
    let gate = |passed: bool| GateResult {
        command: "make".to_owned(),
        of: "FINISH, iteration 7".to_owned(),
        passed,
        output: text.something(),
    };
    let change = |files: &[&str]| StageChange {
        stage: "FINISH, iteration 7".to_owned(),
        files: files.iter().map(|file| (*file).to_owned()).collect(),
    };
    FinishFacts {
        stage_changes: Some(vec![change(&["src/a.rs", "and 3 more"]), change(&[])]),
        gates: Some(vec![gate(true), gate(false)]),
        open: vec![text.something(), text.something()],
    }
}

/// Reports of every agent: one that passes, one that fails, one without its key lines, and one that
/// says nothing; each with an older one.
fn reports(pack: &Pack, text: Text, outcome: usize) -> Vec<Filed> {
    let agents = pack.manifest.agent_names().into_iter();
    let last = AgentName::new(FINISH_REVIEW).unwrap();
    let mut all = Vec::new();
    for agent in agents.chain([last]) {
        for (round, outcome) in [(0, outcome), (1, 0)] {
            let report = report(pack, &agent, text, outcome, 40 - round);
            let summary = Summary::of(report.as_bytes(), &agent, &pack.policy, None);
            let whole = match outcome {
                1 => Whole::Unreadable("x".to_owned()),
                _ => Whole::Text(report),
            };
            let path = format!("reports/report_{}_{round}.md", agent.file_stem());
            all.push(Filed { agent: agent.clone(), path, summary, whole });
        }
    }
    all
}

fn report(pack: &Pack, agent: &AgentName, text: Text, outcome: usize, iteration: u32) -> String {
    let (rules, context) = (&pack.policy.report_rules, &pack.policy.context);
    let what = text.something();
    let class = rules.blocker_classes.keys().next().unwrap();
    let verdict = match outcome {
        0 => format!(
            "{}{}\n{}{}\n",
            rules.verdict_prefix,
            rules.verdict_pass.first(),
            rules.blocker_prefix,
            rules.blocker_clear_value.first()
        ),
        1 => format!(
            "{}{}\n{}\n- [{class}] {what}\n",
            rules.verdict_prefix,
            rules.verdict_fail.first(),
            rules.blocker_prefix
        ),
        2 => String::new(),
        _ => return format!("{what}\n").repeat(12),
    };
    let labels = context.summary_fields.get(agent).into_iter().flat_map(|own| own.values());
    let fields: String = labels.flatten().map(|label| format!("{label}{what}\n")).collect();
    let items = format!("- {what}\n").repeat(20);
    let (changes, evidence) = (&context.key_change_headings[0], &context.evidence_headings[0]);
    let notes = text.say("Notes", "备注");
    format!(
        "iteration: {iteration}\n{verdict}{fields}\n## {changes}\n{items}\n## {evidence}\n{items}\n## {notes}\n{items}"
    )
}

/// The messages that follow refused answers and requests for files.
fn corrections(pack: &Pack) -> Vec<String> {
    let text = Text { words: pack.words() };
    let (words, what) = (text.words, text.something());
    let order = &pack.policy.context.orders.correction;
    let files = [
        ReadFile::of(words, "reports/report_x.md", &format!("{what}\n").repeat(90), Tokens(40)),
        ReadFile::unread("memory/x.md", &words.read_missing()),
        ReadFile::unread("memory/x.md", &words.read_not_text()),
    ];
    let all = [
        Correction::new(1, &what, order, &what),
        Correction::files_read(2, &what, &files_read(&files, 1)),
        Correction::files_read(3, &what, &files_read(&files, 0)),
    ];
    let texts = all.iter().flat_map(|own| [own.refused_answer(words), own.message(words)]);
    texts.chain([words.no_answer()]).collect()
}
