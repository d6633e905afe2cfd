//! The judge of the built-in example, played by code: it puts a failure down to something by what the
//! question shows it (rules, failed checkers, conversation, final state), and makes problems of groups
//! of failures.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::target::Rules;
use crate::cmd::scripted::Says;

/// What a failure can be put down to, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    NotDeducted,
    Tolerance,
    CrossYear,
    Holiday,
    Other,
}

/// The words for a kind, in one language.
struct Words {
    cause: &'static str,
    evidence: &'static str,
    suggestion: &'static str,
    title: &'static str,
    section: &'static str,
    rationale: &'static str,
}

const KINDS: [Kind; 5] =
    [Kind::NotDeducted, Kind::Tolerance, Kind::CrossYear, Kind::Holiday, Kind::Other];

impl Kind {
    fn failure_type(self) -> &'static str {
        match self {
            Kind::NotDeducted => "Layer1_BusinessRule",
            Kind::Tolerance => "Layer3_Checker",
            Kind::CrossYear => "Layer1_CrossYear",
            Kind::Holiday => "Layer1_Holiday",
            Kind::Other => "Layer1_Unclear",
        }
    }

    fn problem_type(self) -> &'static str {
        match self {
            Kind::NotDeducted => "BusinessRule_Unclear",
            Kind::Tolerance => "Checker_Design",
            Kind::CrossYear | Kind::Holiday | Kind::Other => "BusinessRule_Missing",
        }
    }

    fn severity(self) -> &'static str {
        match self {
            Kind::NotDeducted => "critical",
            Kind::Tolerance | Kind::CrossYear => "high",
            Kind::Holiday | Kind::Other => "medium",
        }
    }

    /// The file to change.
    fn file(self) -> &'static str {
        match self {
            Kind::Tolerance => "unified_scenario_design.yaml",
            _ => "BusinessRules.md",
        }
    }

    fn words(self, is_chinese: bool) -> Words {
        if is_chinese { self.chinese() } else { self.english() }
    }

    fn english(self) -> Words {
        match self {
            Kind::NotDeducted => Words {
                title: "It is not said when the balance is deducted",
                evidence: "an application was made and stays pending; update_employee_leave_balance was never called for it",
                cause: "The application was made, but its days were never taken off: the rules do not say when that is done.",
                suggestion: "After step 2 add: call update_employee_leave_balance immediately after create_leave_application has succeeded.",
                section: "## How an application is made",
                rationale: "A step that no rule names is left out.",
            },
            Kind::Tolerance => Words {
                title: "The balance is compared too strictly",
                evidence: "7.0 days are expected and 6.999999 found",
                cause: "The balance is right but for the last digits: it is booked hour by hour, and the checker compares exactly.",
                suggestion: "Let leave_balance_deducted allow a difference of 0.01 days.",
                section: "checkers.leave_balance_deducted",
                rationale: "Sums of fractions are not exact in floating point.",
            },
            Kind::CrossYear => Words {
                title: "Nothing is said of leave across the turn of the year",
                evidence: "update_employee_leave_balance was called with the days of both years",
                cause: "All days of a leave across the turn of the year were taken off this year's balance: the rules say nothing of such leave.",
                suggestion: "Add: of cross-year leave, only the working days of the current year are deducted with update_employee_leave_balance.",
                section: "## Leave across the turn of the year",
                rationale: "Each year has its own balance.",
            },
            Kind::Holiday => Words {
                title: "Nothing is said of the company's own holidays",
                evidence: "the balance is too low by exactly the company holidays within the leave",
                cause: "A company holiday within the leave was counted as a working day: the rules do not say that it is none.",
                suggestion: "Add: days in company_holidays are no working days and are not counted.",
                section: "## Kinds of leave",
                rationale: "The design says that these days are no working days; the rules must, too.",
            },
            Kind::Other => Words {
                title: "Failures without a common cause",
                evidence: "what the checkers found differs from sample to sample",
                cause: "The target did not do what the checker expects; the rules do not settle it.",
                suggestion: "Read these conversations and say in the rules what is expected.",
                section: "## How an application is made",
                rationale: "What the rules leave open is done in one way or another.",
            },
        }
    }

    fn chinese(self) -> Words {
        match self {
            Kind::NotDeducted => Words {
                title: "余额扣减时机未明确",
                evidence: "都创建了申请但未扣减余额，申请状态停留在 pending",
                cause: "申请已创建，但天数从未扣减：业务规则没有说明何时扣减余额。",
                suggestion: "在步骤2后添加：create_leave_application 成功后必须立即调用 update_employee_leave_balance 扣减余额。",
                section: "## 请假申请流程",
                rationale: "明确业务规则，避免遗漏关键操作。",
            },
            Kind::Tolerance => Words {
                title: "余额checker容忍度过严",
                evidence: "预期7.0天但实际6.999999天",
                cause: "余额只差最后几位小数：按小时累计扣减，而checker要求精确相等。",
                suggestion: "将 leave_balance_deducted 改为容忍 0.01 天误差。",
                section: "checkers.leave_balance_deducted",
                rationale: "处理浮点数精度问题。",
            },
            Kind::CrossYear => Words {
                title: "跨年度请假的余额计算未规定",
                evidence: "调用 update_employee_leave_balance 时传入了两个年度的全部天数",
                cause: "跨年度假期的全部天数都从今年的余额中扣减：业务规则没有规定跨年度请假。",
                suggestion: "添加：跨年度请假只有当年的工作日通过 update_employee_leave_balance 扣减。",
                section: "## 跨年度请假",
                rationale: "每个年度有各自的余额。",
            },
            Kind::Holiday => Words {
                title: "公司假日如何计算未规定",
                evidence: "余额恰好少了假期中的公司假日天数",
                cause: "假期中的公司假日被算作工作日：业务规则没有说明公司假日不是工作日。",
                suggestion: "添加：company_holidays 中的日期不是工作日，不计入天数。",
                section: "## 假期类型",
                rationale: "设计中规定公司假日不是工作日，业务规则也应写明。",
            },
            Kind::Other => Words {
                title: "没有共同原因的失败",
                evidence: "各个样本的checker结果各不相同",
                cause: "目标没有做到checker期望的操作，业务规则也没有明确。",
                suggestion: "阅读这些对话，在业务规则中写明期望。",
                section: "## 请假申请流程",
                rationale: "规则没有明确的事项会有不同的做法。",
            },
        }
    }
}

/// The parts of a question: what stands under each title, without its fences.
struct Parts<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Parts<'a> {
    fn of(prompt: &'a str) -> Parts<'a> {
        let mut parts = Vec::new();
        let mut rest = prompt;
        while let Some(at) = rest.find("## ") {
            let begins_line = at == 0 || rest.as_bytes()[at - 1] == b'\n';
            let from = &rest[at + 3..];
            let part = from.split_once('\n').and_then(|(title, body)| {
                let fence = body.lines().next().filter(|line| line.starts_with("```"))?;
                let body = &body[fence.len() + 1..];
                let end = body.find(&format!("\n{fence}\n"))?;
                Some((title, &body[..end], &body[end + fence.len() + 2..]))
            });
            match part.filter(|_| begins_line) {
                Some((title, body, after)) => {
                    parts.push((title, body));
                    rest = after;
                }
                None => rest = from,
            }
        }
        Parts(parts)
    }

    fn get(&self, title: &str) -> &'a str {
        self.0.iter().find(|(own, _)| *own == title).map_or("", |(_, body)| body)
    }
}

/// The answer to a question that is asked under this name.
pub(super) fn said(name: &str, prompt: &str) -> Result<Says, String> {
    let parts = Parts::of(prompt);
    let is_chinese = parts.get("Business rules").contains('假');
    match name {
        "attribution" => Ok(Says::Text(attribution(&parts, is_chinese).to_string())),
        "problems" => Ok(Says::Text(problems(&parts, is_chinese).to_string())),
        other => Err(format!("nobody wrote an answer for `{other}`")),
    }
}

fn attribution(parts: &Parts<'_>, is_chinese: bool) -> Value {
    let kind = kind_of(parts);
    let words = kind.words(is_chinese);
    let layer: u8 = if kind == Kind::Tolerance { 3 } else { 1 };
    json!({
        "layer": layer,
        "failure_type": kind.failure_type(),
        "cause": words.cause,
        "evidence": parts.get("Checkers"),
        "suggestion": words.suggestion,
    })
}

fn kind_of(parts: &Parts<'_>) -> Kind {
    let rules = Rules::of(parts.get("Business rules"));
    let checkers = parts.get("Checkers");
    if let Some((expected, found)) = expected_and_found(checkers)
        && (expected - found).abs() < 0.01
    {
        return Kind::Tolerance;
    }
    let state: Value = serde_json::from_str(parts.get("Final state")).unwrap_or_default();
    let all: Vec<&Value> = state["applications"].as_array().into_iter().flatten().collect();
    if all.iter().any(|own| own["status"] == "pending") {
        return Kind::NotDeducted;
    }
    let text = |own: &Value, name: &str| own[name].as_str().unwrap_or_default().to_owned();
    let crosses =
        |own: &&&Value| text(own, "start_date").get(..4) != text(own, "end_date").get(..4);
    let Some(crossing) = all.iter().find(crosses) else { return Kind::Other };
    let (start, end) = (text(crossing, "start_date"), text(crossing, "end_date"));
    let holidays = state["company_holidays"].as_array().into_iter().flatten();
    let mut holidays = holidays.filter_map(Value::as_str);
    let has_holiday = holidays.any(|day| (start.as_str()..=end.as_str()).contains(&day));
    match (rules.splits_years, has_holiday) {
        (false, _) => Kind::CrossYear,
        (true, true) => Kind::Holiday,
        (true, false) => Kind::Other,
    }
}

/// The two numbers of the line about the balance.
fn expected_and_found(checkers: &str) -> Option<(f64, f64)> {
    let line = checkers.lines().find(|line| line.starts_with("leave_balance_deducted:"))?;
    let number = |word: &str| -> Option<f64> {
        let text = line.split_once(word)?.1.trim_start();
        let end = text.find(|c: char| !c.is_ascii_digit() && !".-e".contains(c));
        text[..end.unwrap_or(text.len())].parse().ok()
    };
    number("expected ").zip(number("found "))
}

fn problems(parts: &Parts<'_>, is_chinese: bool) -> Value {
    let groups = groups(parts.get("Groups of failures"));
    let earlier: Vec<(&str, &str)> = (parts.get("Problems of earlier iterations").lines())
        .filter_map(|line| line.split_once(": "))
        .collect();
    let number = |id: &str| id.strip_prefix("L1P_").and_then(|text| text.parse::<u32>().ok());
    let mut next = earlier.iter().filter_map(|(id, _)| number(id)).max().unwrap_or(0);
    let mut problems = Vec::new();
    for kind in KINDS {
        let own: Vec<&Group<'_>> = groups.iter().filter(|group| group.kind == kind).collect();
        let Some(typical) = own.iter().filter_map(|group| group.samples.iter().min()).min() else {
            continue;
        };
        let words = kind.words(is_chinese);
        let known = earlier.iter().find(|(_, title)| *title == words.title);
        let id = known.map_or_else(
            || {
                next += 1;
                format!("L1P_{next:03}")
            },
            |(id, _)| (*id).to_owned(),
        );
        let count: usize = own.iter().map(|group| group.count).sum();
        let evidence = match is_chinese {
            false => format!("in {count} samples {}", words.evidence),
            true => format!("{count}个case：{}", words.evidence),
        };
        problems.push(json!({
            "problem_id": id,
            "problem_type": kind.problem_type(),
            "severity": kind.severity(),
            "title": words.title,
            "description": words.cause,
            "affected_groups": own.iter().map(|group| group.id).collect::<Vec<_>>(),
            "affected_samples": [],
            "evidence_summary": evidence,
            "typical_case_id": typical,
            "suggested_fix": {
                "target": kind.file(),
                "section": words.section,
                "modification": words.suggestion,
                "rationale": words.rationale,
            },
        }));
    }
    json!({ "problems": problems })
}

/// A group as the question lists it.
struct Group<'a> {
    id: &'a str,
    count: usize,
    kind: Kind,
    samples: Vec<&'a str>,
}

fn groups(listed: &str) -> Vec<Group<'_>> {
    let kinds: BTreeMap<&str, Kind> = KINDS.map(|kind| (kind.failure_type(), kind)).into();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for line in listed.lines() {
        if let Some(ids) = line.strip_prefix("  samples: ") {
            if let Some(group) = groups.last_mut() {
                let ids = ids.split(" and ").next().unwrap_or_default();
                group.samples = ids.split(", ").collect();
            }
        } else if let Some((id, rest)) = line.split_once(": ")
            && !line.starts_with(' ')
        {
            let count = rest.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
            let named = rest.split_once("type ").and_then(|(_, rest)| rest.split(", ").next());
            let kind = named.and_then(|name| kinds.get(name)).copied().unwrap_or(Kind::Other);
            groups.push(Group { id, count, kind, samples: Vec::new() });
        }
    }
    groups
}
