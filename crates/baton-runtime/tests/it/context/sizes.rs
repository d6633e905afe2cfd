//! How large MAIN's prompt is on small and long blackboards, beside what a naive one would be.

use baton_core::id::Iteration;
use baton_core::prompt::{FinishFacts, Prompt};
use baton_core::{history, tokens};
use baton_runtime::board::Board;
use baton_runtime::gather::{For, Gatherer};
use baton_runtime::summaries::Mode;

use super::boards::{self, HUNDRED, SMALL, Size, THOUSAND};

fn main_prompt(board: &Board) -> Prompt {
    let mut gatherer = Gatherer::open(board, Mode::Off).unwrap();
    gatherer.prompt(board, &For::Main, None, None, &FinishFacts::default()).unwrap()
}

/// The same sections, with the last 10 iterations whole and the whole reports.
fn naive(board: &Board, prompt: &Prompt) -> String {
    let mut text: String = prompt.sections[..4].iter().map(|section| section.text()).collect();
    let history = std::fs::read_to_string(board.history_file()).unwrap();
    let blocks = history::read(&history);
    for placed in &blocks[blocks.len().saturating_sub(10)..] {
        text.push_str(placed.source);
    }
    for agent in board.pack.manifest.agent_names() {
        text.push_str(&std::fs::read_to_string(board.report_file(&agent)).unwrap());
    }
    text
}

/// Bytes and tokens: level 1, level 3, naive.
fn measured(size: Size) -> [(usize, u64); 3] {
    let folder = tempfile::tempdir().unwrap();
    let mut board = boards::make(&folder.path().join("board"), size);
    let one = main_prompt(&board);
    board.config.context.level = 3;
    board.config.context.prompt_limit.main = 10_000_000;
    board.config.context.max_tokens = Some(10_000);
    let three = main_prompt(&board);
    let naive = naive(&board, &one);
    [one.text(), three.text(), naive].map(|text| (text.len(), tokens::count(&text).0))
}

#[test]
fn mains_prompt_is_half_of_the_whole_one_and_far_below_the_naive_one() {
    println!(
        "| blackboard | level 1 | level 3 | naive | of level 3 | of naive |\n|---|---|---|---|---|---|"
    );
    for (name, size) in
        [("small", SMALL), ("100 iterations", HUNDRED), ("1,000 iterations", THOUSAND)]
    {
        let [one, three, naive] = measured(size);
        let cell = |(bytes, tokens): (usize, u64)| format!("{tokens} tokens, {bytes} bytes");
        let percent = |whole: u64| one.1 * 100 / whole;
        println!(
            "| {name}, reports of {} KB | {} | {} | {} | {}% | {}% |",
            size.report / 1_000,
            cell(one),
            cell(three),
            cell(naive),
            percent(three.1),
            percent(naive.1)
        );
        assert!(one.1 * 2 <= three.1, "{name}: {one:?} {three:?}");
        assert!(one.1 * 10 <= naive.1 * 7, "{name}: {one:?} {naive:?}");
    }
}

/// An earlier prompt is made again from the archive: nothing of a later iteration is in it.
#[test]
fn an_earlier_iteration_sees_only_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let board = boards::make(&folder.path().join("board"), HUNDRED);
    let mut gatherer = Gatherer::open(&board, Mode::Off).unwrap();
    assert_eq!(gatherer.next_iteration(), Iteration(101));
    let mut at = |iteration: u32| {
        let facts = FinishFacts::default();
        gatherer.prompt(&board, &For::Main, Some(Iteration(iteration)), None, &facts).unwrap()
    };
    let prompt = at(50);
    let text = prompt.text();
    assert!(text.contains("## Iteration 49") && !text.contains("## Iteration 50"));
    assert!(text.contains("reports/archive/49_dev_a1.md"), "{text}");
    assert!(!text.contains("iteration: 50"), "{text}");
    let next = at(51);
    let shared = next.ledger(Some(&prompt)).shared_prefix.unwrap();
    assert!(shared.0 * 10 > prompt.tokens().0 * 7, "{shared} of {}", prompt.tokens());
}

/// A second round of related reports, from the archive, the older one first.
#[test]
fn two_rounds_of_related_reports() {
    let folder = tempfile::tempdir().unwrap();
    let mut board = boards::make(&folder.path().join("board"), SMALL);
    let agent = baton_core::id::AgentName::new("DEV").unwrap();
    let mut sources = |rounds: u32| {
        board.config.context.subagent_history = rounds;
        let mut gatherer = Gatherer::open(&board, Mode::Off).unwrap();
        let facts = FinishFacts::default();
        let prompt =
            gatherer.prompt(&board, &For::Agent(agent.clone()), None, None, &facts).unwrap();
        let reports = prompt.sections.into_iter().filter(|section| section.level.is_some());
        reports.filter_map(|section| section.source).collect::<Vec<_>>()
    };
    // Its own last report comes first, and what did not pass comes last, however many rounds.
    let (own, open) =
        ("reports/report_dev.md", ["reports/report_test.md", "reports/report_review.md"]);
    assert_eq!(sources(0), [own, open[0], open[1]]);
    assert_eq!(sources(1), [own, open[0], open[1]]);
    assert_eq!(sources(2), [own, "reports/archive/6_test_a1.md", open[0], open[1]]);
}

fn sources(board: &Board, wanted: &For, iteration: Option<u32>) -> Vec<String> {
    let mut gatherer = Gatherer::open(board, Mode::Off).unwrap();
    let facts = FinishFacts::default();
    let prompt = gatherer.prompt(board, wanted, iteration.map(Iteration), None, &facts).unwrap();
    let reports = prompt.sections.into_iter().filter(|section| section.level.is_some());
    reports.filter_map(|section| section.source).collect()
}

/// Inside the sub-loop the reports have numbers; the newest of them is the one to answer.
#[test]
fn the_subloop_sees_its_own_reports() {
    let folder = tempfile::tempdir().unwrap();
    let board = boards::make(&folder.path().join("board"), SMALL);
    let agent = |name: &str| For::Subloop(baton_core::id::AgentName::new(name).unwrap());
    assert_eq!(
        sources(&board, &agent("DEV"), None),
        ["reports/report_dev.md", "reports/report_test.md"]
    );
    for (file, expected) in [
        ("report_dev_subloop_1.md", ["reports/report_test.md", "reports/report_dev_subloop_1.md"]),
        (
            "report_test_subloop_1.md",
            ["reports/report_test_subloop_1.md", "reports/report_dev_subloop_1.md"],
        ),
        (
            "report_dev_subloop_2.md",
            ["reports/report_test_subloop_1.md", "reports/report_dev_subloop_2.md"],
        ),
    ] {
        std::fs::write(board.root.join("reports").join(file), boards::report("dev", 8, 500))
            .unwrap();
        assert_eq!(sources(&board, &agent("TEST"), None), expected);
    }
}

/// The last look and the last decision come behind reports of their own iteration.
#[test]
fn later_stages_of_an_iteration_see_its_reports() {
    let folder = tempfile::tempdir().unwrap();
    let board = boards::make(&folder.path().join("board"), SMALL);
    let review = For::Agent(baton_core::id::AgentName::new("FINISH_REVIEW").unwrap());
    for wanted in [review, For::FinishCheck] {
        assert!(
            sources(&board, &wanted, Some(8)).contains(&"reports/report_test.md".to_owned()),
            "{wanted:?}"
        );
    }
    assert!(!sources(&board, &For::Main, Some(8)).contains(&"reports/report_test.md".to_owned()));
}

#[test]
fn a_refused_report_of_the_archive_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut board = boards::make(&folder.path().join("board"), SMALL);
    board.config.context.subagent_history = 2;
    for attempt in [1, 2] {
        let path = format!("reports/archive/7_test_a{attempt}.md");
        std::fs::write(board.root.join(path), "iteration: 7\nverdict: GREAT\n").unwrap();
    }
    let dev = For::Agent(baton_core::id::AgentName::new("DEV").unwrap());
    assert_eq!(
        sources(&board, &dev, None),
        [
            "reports/report_dev.md",
            "reports/archive/6_test_a1.md",
            "reports/report_test.md",
            "reports/report_review.md"
        ]
    );
}

#[test]
fn a_report_that_cannot_be_read_is_not_taken_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let board = boards::make(&folder.path().join("board"), SMALL);
    std::fs::remove_file(board.root.join("reports/report_test.md")).unwrap();
    std::fs::create_dir(board.root.join("reports/report_test.md")).unwrap();
    let mut gatherer = Gatherer::open(&board, Mode::Off).unwrap();
    let facts = FinishFacts::default();
    for wanted in [For::Main, For::FinishCheck] {
        let prompt = gatherer.prompt(&board, &wanted, None, None, &facts).unwrap();
        assert!(prompt.text().contains("# Report of TEST (unreadable"), "{wanted:?}");
    }
}
