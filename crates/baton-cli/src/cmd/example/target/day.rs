//! Days of a calendar, as far as leave needs them.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day {
    pub(super) year: u16,
    month: u8,
    day: u8,
}

impl std::fmt::Display for Day {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl Day {
    pub(super) fn new(year: u16, month: u8, day: u8) -> Option<Day> {
        let is_one = (1_900..=2_999).contains(&year) && (1..=12).contains(&month) && day > 0;
        (is_one && day <= length(year, month)).then_some(Day { year, month, day })
    }

    pub(super) fn of(text: &str) -> Option<Day> {
        let mut parts = text.split('-');
        let day = Day::new(
            parts.next()?.parse().ok()?,
            parts.next()?.parse().ok()?,
            parts.next()?.parse().ok()?,
        );
        day.filter(|_| parts.next().is_none())
    }

    pub(super) fn last_of_year(self) -> Day {
        Day { year: self.year, month: 12, day: 31 }
    }

    fn next(self) -> Day {
        let Day { year, month, day } = self;
        if day < length(year, month) {
            Day { day: day + 1, ..self }
        } else if month < 12 {
            Day { year, month: month + 1, day: 1 }
        } else {
            Day { year: year + 1, month: 1, day: 1 }
        }
    }

    /// Mondays to Fridays up to this day that are no holidays, at most a year of them.
    pub(super) fn workdays(self, end: Day, holidays: &[Day]) -> u16 {
        let mut count = 0;
        let mut day = self;
        for _ in 0..=366 {
            if day > end {
                break;
            }
            count += u16::from(day.weekday() < 5 && !holidays.contains(&day));
            day = day.next();
        }
        count
    }

    /// Monday is 0.
    fn weekday(self) -> u32 {
        // Days since a Monday, the first of January 1900.
        let year = u32::from(self.year);
        let leaps = |year: u32| year / 4 - year / 100 + year / 400;
        let before = (year - 1_900) * 365 + leaps(year - 1) - leaps(1_899);
        let months: u32 = (1..self.month).map(|month| u32::from(length(self.year, month))).sum();
        (before + months + u32::from(self.day) - 1) % 7
    }
}

fn length(year: u16, month: u8) -> u8 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::Day;

    #[test]
    fn working_days_are_counted_over_weekends_months_and_years() {
        let count =
            |from: &str, to: &str| Day::of(from).unwrap().workdays(Day::of(to).unwrap(), &[]);
        for (from, to, expected) in [
            ("2026-03-09", "2026-03-11", 3),
            ("2026-08-06", "2026-08-14", 7),
            ("2026-12-29", "2027-01-05", 6),
            ("2024-02-26", "2024-03-01", 5),
            ("2026-03-14", "2026-03-15", 0),
            ("2026-03-11", "2026-03-09", 0),
        ] {
            assert_eq!(count(from, to), expected, "{from} {to}");
        }
        let [start, end] = ["2026-12-28", "2026-12-31"].map(|day| Day::of(day).unwrap());
        assert_eq!(start.workdays(end, &[end]), 3);
        assert_eq!(Day::of("2026-02-29"), None);
    }
}
