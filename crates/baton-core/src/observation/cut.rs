//! A result that does not fit is cut by whole lines, and says which lines are missing and how to get
//! them.

use crate::fact;
use crate::id::ObservationId;

/// Lines that are left out: the first and the last, in the result's own numbers.
fn left_out(id: ObservationId, first: u64, last: u64) -> String {
    let count = last - first + 1;
    format!("[lines {first}-{last} are left out here; Recall {id} from={first} lines={count}]")
}

/// The lines that such a line stands for. A line of a file may look like one: it has to be what was
/// written for this result, at this place.
fn is_left_out(line: &str, id: ObservationId, next: u64) -> Option<(u64, u64)> {
    let rest = line.strip_prefix("[lines ")?;
    let (range, _) = rest.split_once(" are left out here; Recall ")?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first == next && last >= first && line == left_out(id, first, last)).then_some((first, last))
}

/// A text in about `most` characters, by whole lines: a part of them from its beginning, the rest
/// from its end. `is_cut`: lines are left out of it already. `None`: it is shorter, or nothing can be
/// left out.
pub fn by_lines(
    id: ObservationId,
    text: &str,
    most: usize,
    at_end: usize,
    is_cut: bool,
) -> Option<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let sizes: Vec<usize> = lines.iter().map(|line| line.chars().count() + 1).collect();
    if sizes.iter().sum::<usize>() <= most {
        return None;
    }
    let kept = |sizes: &mut dyn Iterator<Item = &usize>, room: usize| {
        let mut sum = 0;
        sizes
            .take_while(|size| {
                sum += **size;
                sum <= room
            })
            .count()
    };
    let tail = kept(&mut sizes.iter().rev(), at_end.min(most));
    let head = kept(&mut sizes.iter(), most - at_end.min(most)).min(lines.len() - tail);
    let middle = head..lines.len() - tail;
    if middle.is_empty() {
        return None;
    }
    let numbers = numbers(&lines, is_cut.then_some(id));
    let (first, last) = (numbers[middle.start].0, numbers[middle.end - 1].1);
    let said = left_out(id, first, last);
    let mut out = lines[..head].to_vec();
    out.push(&said);
    out.extend(&lines[middle.end..]);
    Some(out.join("\n"))
}

/// The numbers of each line in the whole result, first and last. They are those that a tool put before
/// the lines, if each line has one and they follow each other; else a line's place. `cut`: the result
/// is this one and lines are left out of it already; the line that says so stands for those.
pub fn numbers(lines: &[&str], cut: Option<ObservationId>) -> Vec<(u64, u64)> {
    let own = |line: &str| fact::numbered(line).and_then(|(digits, _)| digits.parse::<u64>().ok());
    let count = |by_tool: bool| {
        let mut next = 1;
        let mut is_right = true;
        let number = |(at, line): (usize, &&str)| {
            let (first, last) = match cut.and_then(|id| is_left_out(line, id, next)) {
                Some(range) => range,
                None if !by_tool => (next, next),
                None => {
                    let own = own(line);
                    is_right &= own.is_some_and(|own| at == 0 || own == next);
                    (own.unwrap_or(next), own.unwrap_or(next))
                }
            };
            next = last.saturating_add(1);
            (first, last)
        };
        let all: Vec<(u64, u64)> = lines.iter().enumerate().map(number).collect();
        is_right.then_some(all)
    };
    count(true).or_else(|| count(false)).unwrap_or_default()
}
