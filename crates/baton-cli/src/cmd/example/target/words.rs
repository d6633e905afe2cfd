//! What an employee's words say, in English and in Chinese.

use super::day::Day;

/// What one turn says of an application.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Turn {
    pub(super) employee: Option<String>,
    pub(super) kind: Option<&'static str>,
    pub(super) dates: Option<(Day, Day)>,
    pub(super) hours: Option<f64>,
    pub(super) is_half: bool,
    pub(super) confirms: bool,
    pub(super) withdraws: bool,
    pub(super) wants_deduction: bool,
}

impl Turn {
    pub(super) fn of(words: &str) -> Turn {
        let words = words.to_lowercase();
        let has = |all: &[&str]| all.iter().any(|word| words.contains(word));
        let starts = |all: &[&str]| all.iter().any(|word| words.trim_start().starts_with(word));
        let kinds = [
            ("annual", ["annual leave", "年假"]),
            ("sick", ["sick leave", "病假"]),
            ("unpaid", ["unpaid leave", "事假"]),
        ];
        let days = days(&words);
        Turn {
            employee: employee(&words),
            kind: kinds.iter().find(|(_, all)| has(all)).map(|(kind, _)| *kind),
            dates: days.first().map(|first| (*first, days.get(1).copied().unwrap_or(*first))),
            hours: hours(&words),
            is_half: has(&["half a day", "half day", "半天"]),
            confirms: starts(&["yes", "correct", "go ahead", "确认", "是的", "没问题"]),
            withdraws: has(&["withdraw", "never mind", "forget it", "算了", "不请了", "撤回"]),
            wants_deduction: has(&["off my balance", "deduct", "扣掉", "扣减"]),
        }
    }
}

pub(super) fn is_chinese(words: &str) -> bool {
    words.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

/// `e` and three digits, no more.
fn employee(words: &str) -> Option<String> {
    let bytes = words.as_bytes();
    let is_word =
        |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    let found = words.match_indices('e').find(|(at, _)| {
        let number = bytes.get(at + 1..at + 4);
        number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
            && !is_word(at.checked_sub(1))
            && !is_word(Some(at + 4))
    });
    found.map(|(at, _)| words[at..at + 4].to_uppercase())
}

/// 2026-03-09 and 2026年3月9日, in the order they stand there.
fn days(words: &str) -> Vec<Day> {
    let numbers = numbers(words);
    let day = |three: &[(usize, usize)]| {
        let [(a, b), (c, d), (e, f)] = three else { return None };
        let between = [words.get(*b..*c)?, words.get(*d..*e)?];
        let is_date = between == ["-", "-"]
            || (between == ["年", "月"] && words.get(*f..)?.starts_with('日'));
        let number = |from: usize, to: usize| words.get(from..to)?.parse::<u16>().ok();
        let small = |from: usize, to: usize| u8::try_from(number(from, to)?).ok();
        if is_date { Day::new(number(*a, *b)?, small(*c, *d)?, small(*e, *f)?) } else { None }
    };
    numbers.windows(3).filter_map(day).collect()
}

/// The number that stands before the word.
fn hours(words: &str) -> Option<f64> {
    let numbers = numbers(words);
    let mut places = ["hour", "小时"].iter().flat_map(|word| words.match_indices(word));
    places.find_map(|(at, _)| {
        let (from, to) = numbers.iter().rev().find(|(_, to)| *to <= at)?;
        let is_next = words.get(*to..at)?.trim().is_empty();
        is_next.then(|| words.get(*from..*to)?.parse().ok()).flatten()
    })
}

/// Runs of digits, from where to where.
fn numbers(words: &str) -> Vec<(usize, usize)> {
    let mut out: Vec<(usize, usize)> = Vec::new();
    for (at, byte) in words.bytes().enumerate() {
        if byte.is_ascii_digit() {
            match out.last_mut() {
                Some((_, end)) if *end == at => *end += 1,
                _ => out.push((at, at + 1)),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Day, Turn};

    #[test]
    fn both_languages_say_the_same() {
        let dates = Day::of("2026-12-29").zip(Day::of("2027-01-05"));
        for (english, chinese, expected) in [
            (
                "I want annual leave from 2026-12-29 to 2027-01-05. My number is E004.",
                "我想请年假，从2026年12月29日到2027年1月5日。工号E004。",
                Turn {
                    employee: Some("E004".to_owned()),
                    kind: Some("annual"),
                    dates,
                    ..Turn::default()
                },
            ),
            (
                "Sick leave by the hour: 12 hours",
                "按小时请病假：12小时",
                Turn { kind: Some("sick"), hours: Some(12.0), ..Turn::default() },
            ),
            (
                "Yes, and take it off my balance.",
                "确认，请从余额里扣掉。",
                Turn { confirms: true, wants_deduction: true, ..Turn::default() },
            ),
            ("Never mind.", "算了。", Turn { withdraws: true, ..Turn::default() }),
            (
                "Half a day, how many hours is that?",
                "半天，是多少小时？",
                Turn { is_half: true, ..Turn::default() },
            ),
            ("Section E0045, code1234", "部门E0045", Turn::default()),
        ] {
            assert_eq!(Turn::of(english), expected, "{english}");
            assert_eq!(Turn::of(chinese), expected, "{chinese}");
        }
    }
}
