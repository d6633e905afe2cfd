//! Rules for the cases of every kind, as a whole.

use std::collections::BTreeSet;

use baton_core::messages::Language;
use baton_core::problem::Problem;
use baton_core::text;
use baton_core::workflow::explained;

use crate::cases::Case;
use crate::languages::english_words;

/// A refusal as a case shows it: the code of each problem, and its words.
pub(crate) fn refusals(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| format!("[{}] {problem}", problem.code)).collect()
}

/// Many cases, in both languages, each with a name of its own; and every code, but no other.
pub(crate) fn check_breadth(
    cases: &[Case],
    codes: &[&str],
    problems: impl Fn(&Case) -> Vec<Problem>,
) {
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
    for name in &names {
        let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(kebab), "{name} is not in kebab case");
    }
    assert!(cases.len() >= 80);
    assert!(cases.iter().filter(|case| case.settings[1] == "zh").count() >= 25);
    let refused: Vec<_> = cases.iter().map(problems).filter(|found| !found.is_empty()).collect();
    assert!(refused.len() >= 25);
    let used: BTreeSet<&str> = refused.iter().flatten().map(|problem| problem.code).collect();
    assert_eq!(used, codes.iter().copied().collect());
}

pub(crate) fn check_messages(cases: &[Case], problems: impl Fn(&Case) -> Vec<Problem>) {
    for case in cases {
        for problem in problems(case) {
            for shown in [problem.to_string(), problem.found.unwrap_or_default()] {
                let raw = |c: char| c.is_control() || text::is_invisible(c);
                assert!(!shown.contains(raw), "{}: {shown:?}", case.place());
            }
        }
    }
}

/// A model with a Chinese pack reads Chinese: no English word, except in code marks and in what is
/// quoted of its answer.
pub(crate) fn check_chinese(problems: &[Problem], answer: &str, place: &str) {
    for problem in problems {
        let shown = problem.text(Language::Chinese);
        let mut words = english_words(&shown).into_iter().filter(|word| !answer.contains(word));
        let is_chinese = shown.contains(|c: char| ('\u{4e00}'..='\u{9fff}').contains(&c));
        assert!(is_chinese && words.next().is_none(), "{place}: {shown}");
    }
}

/// The problems of the case with this name as a model with a Chinese pack reads them.
pub(crate) fn in_chinese(
    cases: &[Case],
    name: &str,
    problems: impl Fn(&Case) -> Vec<Problem>,
) -> String {
    let case = cases.iter().find(|case| case.name == name).unwrap();
    explained(&problems(case), Language::Chinese)
}
