//! The target of the built-in example: an agent that is played by code. It knows what it is given and
//! nothing else: the rules in its prompt, what the employee says, what its tools answered. It does
//! what the rules tell it to, and what they do not tell it, it does not know.

mod day;
mod words;

use serde_json::{Value, json};

use crate::cmd::scripted::Says;
use day::Day;
use words::Turn;

const LOOK_UP: &str = "get_employee_info";
const CREATE: &str = "create_leave_application";
const DEDUCT: &str = "update_employee_leave_balance";
const HOURS_A_DAY: f64 = 7.5;

/// What the prompt's rules say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// Every annual leave is taken off at once.
    deducts: bool,
    /// Leave by the hour is.
    deducts_hours: bool,
    /// Of leave across the turn of the year, only this year's days are.
    pub(super) splits_years: bool,
    /// The company's own holidays are no working days.
    skips_holidays: bool,
}

impl Rules {
    pub(super) fn of(prompt: &str) -> Rules {
        let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
        let mut rules = Rules {
            deducts: false,
            deducts_hours: false,
            splits_years: false,
            skips_holidays: false,
        };
        for line in prompt.lines().map(str::to_lowercase) {
            rules.skips_holidays |= line.contains("company_holidays") && has(&line, &["not", "不"]);
            if !line.contains(DEDUCT) {
                continue;
            }
            let of_hours = has(&line, &["hour", "小时"]);
            let of_years = has(&line, &["cross-year", "跨年"]);
            rules.deducts_hours |= of_hours;
            rules.splits_years |= of_years && has(&line, &["current year", "当年", "本年度"]);
            rules.deducts |= !of_hours && !of_years && line.contains(CREATE);
        }
        rules
    }
}

/// A tool's answer to a call.
struct Done {
    tool: String,
    arguments: Value,
    /// `Err`: it refused.
    result: Result<Value, String>,
}

/// The conversation as the target sees it.
struct Talk {
    rules: Rules,
    /// Turns of the employee, each with the number of calls that were done before it.
    turns: Vec<(Turn, usize)>,
    done: Vec<Done>,
    is_chinese: bool,
}

/// The next words after a conversation, as a request holds it.
pub(super) fn said(messages: &[Value]) -> Says {
    Talk::of(messages).next()
}

impl Talk {
    fn of(messages: &[Value]) -> Talk {
        let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
        let mut rules = Rules::of("");
        let (mut turns, mut done) = (Vec::new(), Vec::new());
        let mut calls: Vec<(&Value, Value)> = Vec::new();
        let mut is_chinese = false;
        for message in messages {
            match message["role"].as_str() {
                Some("system") => rules = Rules::of(&text(message)),
                Some("user") => {
                    let words = text(message);
                    is_chinese = words::is_chinese(&words);
                    turns.push((Turn::of(&words), done.len()));
                }
                Some("assistant") => {
                    for call in message["tool_calls"].as_array().into_iter().flatten() {
                        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                        let arguments = serde_json::from_str(arguments).unwrap_or_default();
                        calls.push((call, arguments));
                    }
                }
                Some("tool") => {
                    let id = &message["tool_call_id"];
                    let call = calls.iter().rfind(|(call, _)| call["id"] == *id);
                    let Some((call, arguments)) = call else { continue };
                    let result: Value = serde_json::from_str(&text(message)).unwrap_or_default();
                    let result = match result["error"].as_str() {
                        Some(why) => Err(why.to_owned()),
                        None => Ok(result),
                    };
                    let tool = call["function"]["name"].as_str().unwrap_or_default().to_owned();
                    done.push(Done { tool, arguments: arguments.clone(), result });
                }
                _ => {}
            }
        }
        Talk { rules, turns, done, is_chinese }
    }

    fn next(&self) -> Says {
        let last = self.turns.last().map(|(turn, _)| turn);
        if last.is_some_and(|turn| turn.withdraws) {
            return self.say("All right, nothing is applied for.", "好的，不提交任何申请。");
        }
        let Some(employee) = self.turns.iter().rev().find_map(|(turn, _)| turn.employee.clone())
        else {
            return self.say("What is your employee number?", "请问您的工号是多少？");
        };
        let looked_up = self.done.iter().rev().find(|done| {
            done.tool == LOOK_UP && done.arguments["employee_id"] == employee.as_str()
        });
        let info = match looked_up.map(|done| &done.result) {
            None => return call(LOOK_UP, json!({ "employee_id": employee })),
            Some(Err(_)) => {
                return self.say(
                    &format!("There is no employee {employee}. Please check your number."),
                    &format!("查不到工号{employee}，请核对您的工号。"),
                );
            }
            Some(Ok(info)) => info,
        };
        if let Some(application) = self.not_deducted() {
            return self.deduct(&employee, info, application);
        }
        let wish = Wish::of(&self.turns, self.created_at());
        self.go_on(&employee, info, &wish)
    }

    /// What is missing, what it would be, or the application itself.
    fn go_on(&self, employee: &str, info: &Value, wish: &Wish) -> Says {
        let balance = self.balance(info);
        let Some((start, end)) = wish.dates else {
            if let Some(application) = self.created().last() {
                let number = application["application_id"].as_str().unwrap_or_default();
                return self.say(
                    &format!("Your application {number} is made. Your balance is {balance:.2}."),
                    &format!("您的申请{number}已创建，余额为{balance:.2}天。"),
                );
            }
            return self.say(
                &format!("Your balance is {balance:.2} days. For which kind of leave and which dates do you want to apply?"),
                &format!("您的余额为{balance:.2}天。请问要申请哪种假期，哪些日期？"),
            );
        };
        let Some(kind) = wish.kind else {
            return self.say("Is it annual, sick or unpaid leave?", "请问是年假、病假还是事假？");
        };
        let days = self.days(info, wish, start, end);
        if kind == "annual" && self.counted(info, wish, start, end) > balance + 1e-6 {
            return self.say(
                &format!(
                    "That is {days} days, but your balance is {balance:.2}. I cannot apply for it."
                ),
                &format!("这需要{days}天，而您的余额为{balance:.2}天，无法申请。"),
            );
        }
        if !wish.is_confirmed {
            return self.say(
                &format!(
                    "That is {kind} leave from {start} to {end}, {days} days. Shall I apply for it?"
                ),
                &format!("从{start}到{end}，共{days}天（{kind}）。确认提交吗？"),
            );
        }
        let mut arguments = json!({
            "employee_id": employee,
            "leave_type": kind,
            "start_date": start.to_string(),
            "end_date": end.to_string(),
            "days": days,
        });
        if let Some(hours) = wish.hours {
            arguments["hours"] = json!(hours);
        }
        call(CREATE, arguments)
    }

    fn say(&self, english: &str, chinese: &str) -> Says {
        Says::Text(if self.is_chinese { chinese } else { english }.to_owned())
    }

    fn created(&self) -> impl DoubleEndedIterator<Item = &Value> {
        let created = self.done.iter().filter(|done| done.tool == CREATE);
        created.filter_map(|done| done.result.as_ref().ok())
    }

    /// How many calls were done when the last application was there.
    fn created_at(&self) -> Option<usize> {
        self.done.iter().rposition(|done| done.tool == CREATE && done.result.is_ok())
    }

    /// An application that the rules, or the employee, want taken off, and that is not yet.
    fn not_deducted(&self) -> Option<&Value> {
        let is_wanted = self.turns.iter().any(|(turn, _)| turn.wants_deduction);
        self.created().find(|application| {
            let by_hour = application["hours"].is_number() && self.rules.deducts_hours;
            let is_due = self.rules.deducts || by_hour || is_wanted;
            let tried = |done: &Done| {
                done.tool == DEDUCT
                    && done.arguments["application_id"] == application["application_id"]
            };
            application["leave_type"] == "annual" && is_due && !self.done.iter().any(tried)
        })
    }

    fn deduct(&self, employee: &str, info: &Value, application: &Value) -> Says {
        let mut arguments = json!({
            "employee_id": employee,
            "application_id": application["application_id"],
            "days": application["days"],
        });
        let date = |name: &str| application[name].as_str().and_then(Day::of);
        if let Some((start, end)) = date("start_date").zip(date("end_date"))
            && self.rules.splits_years
            && start.year != end.year
        {
            arguments["days"] = json!(self.workdays(info, start, end.min(start.last_of_year())));
        }
        if application["hours"].is_number() {
            arguments["hours"] = application["hours"].clone();
        }
        call(DEDUCT, arguments)
    }

    /// The days that must be in the balance.
    fn counted(&self, info: &Value, wish: &Wish, start: Day, end: Day) -> f64 {
        match self.rules.splits_years && start.year != end.year {
            true => self.workdays(info, start, start.last_of_year()),
            false => self.days(info, wish, start, end),
        }
    }

    fn days(&self, info: &Value, wish: &Wish, start: Day, end: Day) -> f64 {
        match wish.hours {
            Some(hours) => hours / HOURS_A_DAY,
            None if wish.is_half => 0.5,
            None => self.workdays(info, start, end),
        }
    }

    fn workdays(&self, info: &Value, start: Day, end: Day) -> f64 {
        let all = info["company_holidays"].as_array().into_iter().flatten();
        let holidays = all.filter_map(|day| Day::of(day.as_str()?));
        let holidays: Vec<Day> = holidays.filter(|_| self.rules.skips_holidays).collect();
        f64::from(start.workdays(end, &holidays))
    }

    /// As last heard.
    fn balance(&self, info: &Value) -> f64 {
        let deducted = self.done.iter().rev().find(|done| done.tool == DEDUCT);
        let heard = deducted.and_then(|done| done.result.as_ref().ok()?["leave_balance"].as_f64());
        heard.or_else(|| info["leave_balance"].as_f64()).unwrap_or(0.0)
    }
}

fn call(tool: &str, arguments: Value) -> Says {
    Says::Call { tool: tool.to_owned(), arguments }
}

/// What the employee wants to apply for, as far as it is known.
#[derive(Default)]
struct Wish {
    kind: Option<&'static str>,
    dates: Option<(Day, Day)>,
    hours: Option<f64>,
    is_half: bool,
    /// Since it was last changed.
    is_confirmed: bool,
}

impl Wish {
    /// Out of what was said since the last application.
    fn of(turns: &[(Turn, usize)], created: Option<usize>) -> Wish {
        let mut wish = Wish::default();
        for (turn, before) in turns {
            if created.is_some_and(|at| *before <= at) {
                continue;
            }
            if turn.withdraws {
                wish = Wish::default();
                continue;
            }
            let is_new = turn.kind.is_some()
                || turn.dates.is_some()
                || turn.hours.is_some()
                || turn.is_half
                || turn.employee.is_some();
            wish.is_confirmed = (wish.is_confirmed || turn.confirms) && !is_new;
            wish.kind = turn.kind.or(wish.kind);
            if turn.dates.is_some() {
                (wish.dates, wish.hours, wish.is_half) = (turn.dates, None, false);
            }
            wish.hours = turn.hours.or(wish.hours);
            wish.is_half |= turn.is_half;
        }
        wish
    }
}
