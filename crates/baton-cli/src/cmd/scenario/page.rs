//! An iteration as one page: no scripts, nothing from elsewhere, readable in light and dark. All that
//! it shows was written by others, so that all of it is escaped, and cut where it is long.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use baton_core::handoff::make::{DesignProblem, FailureSummary, ProblemsReport};
use baton_core::scenario::count;
use baton_core::scenario::result::{Checked, Evaluation, Speaker, Spoken, Trace};
use baton_core::text;
use baton_runtime::evaluate::Case;
use serde_json::{Value, json};

/// Failed samples that the page shows.
pub(super) const CASES: usize = 200;
/// Lines of other lists.
const LINES: usize = 200;
/// Characters of one text, and of one conversation.
const TEXT: usize = 2_000;
const CONVERSATION: usize = 40_000;

/// What a page is made of.
pub(super) struct Page<'a> {
    pub(super) scenario: &'a str,
    pub(super) iteration: u32,
    /// The iteration's folder, from the root.
    pub(super) folder: &'a str,
    pub(super) target_model: &'a str,
    pub(super) summary: &'a FailureSummary,
    pub(super) report: &'a ProblemsReport,
    /// The first failed samples, in the order of the summary.
    pub(super) cases: &'a [Case],
}

const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2127;--soft:#5b6570;--line:#d8dde3;--card:#f6f8fa;\
--bad:#b42318;--bad-bg:#fdecea;--good:#1a7f37;--warn:#9a6700;--mark:#fff4d6;--link:#0b57d0}\
@media (prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e3e8ee;--soft:#98a3af;--line:#343c46;\
--card:#1c2229;--bad:#ff8a80;--bad-bg:#3a1f1f;--good:#63d188;--warn:#e3b341;--mark:#3a3115;--link:#8ab4f8}}\
*{box-sizing:border-box}\
body{margin:0 auto;padding:1.5rem;max-width:70rem;background:var(--bg);color:var(--fg);\
font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','Noto Sans CJK SC',sans-serif}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.2rem;margin:2.2rem 0 .7rem}h3{font-size:1rem;margin:0}\
p{margin:.4rem 0}a{color:var(--link)}.soft{color:var(--soft)}\
code,pre{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}\
code,.text{overflow-wrap:anywhere}pre{margin:.4rem 0;white-space:pre-wrap;overflow-wrap:anywhere}\
.tiles{display:flex;flex-wrap:wrap;gap:.7rem;margin:1rem 0}\
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem 1rem;min-width:8rem}\
.tile b{display:block;font-size:1.5rem;line-height:1.2}\
.bar{display:flex;height:.6rem;border-radius:4px;overflow:hidden;background:var(--line)}\
.bar i{display:block}.bar .p{background:var(--good)}.bar .f{background:var(--bad)}.bar .e{background:var(--warn)}\
.card,details.case{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;margin:.7rem 0}\
details.case{padding:0}details.case>summary{padding:.6rem 1rem}details.case>div{padding:0 1rem .8rem}\
summary{cursor:pointer}summary .soft{margin-left:.5rem}\
.tag{display:inline-block;border:1px solid currentColor;border-radius:1rem;padding:0 .55rem;font-size:.8rem;margin-right:.4rem}\
.critical,.high{color:var(--bad)}.medium{color:var(--warn)}.low{color:var(--soft)}\
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;vertical-align:top;padding:.35rem .7rem .35rem 0;border-bottom:1px solid var(--line)}\
th{color:var(--soft);font-weight:600;white-space:nowrap}td.id{white-space:nowrap}td.text{min-width:16rem}\
.good{color:var(--good)}.bad{color:var(--bad)}\
.said{border-left:3px solid var(--line);padding:.15rem 0 .15rem .8rem;margin:.35rem 0}\
.said.user{border-color:var(--link)}.said.tool{font-size:.93rem}\
.turn{margin:.8rem 0;padding:.1rem .6rem;border-radius:6px}\
.turn.marked{background:var(--mark)}\
.who{color:var(--soft);font-size:.8rem}\
.text{white-space:pre-wrap}dl{margin:.5rem 0;display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}\
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\
@media (max-width:40rem){body{padding:1rem}dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}\
@media print{details.case{break-inside:avoid}}";

/// The whole page.
pub(super) fn page(own: &Page<'_>) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{} · iteration {}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        line(own.scenario, 100),
        own.iteration,
    );
    figures(&mut out, own);
    problems(&mut out, own.report);
    failed(&mut out, own);
    errors(&mut out, own);
    let _ = writeln!(
        out,
        "<p class=\"soft\">All of it is in <code>{}</code>.</p>\n</body>\n</html>",
        line(own.folder, 400)
    );
    out
}

/// One line of somebody else's, safe in a page.
fn line(raw: &str, most: usize) -> String {
    html(&text::shown(raw, most))
}

/// Several of them; what is cut off is said, and where the whole is.
fn block(raw: &str, most: usize, whole: &str) -> String {
    let count = raw.chars().count();
    let kept: String = raw.chars().take(most).collect();
    let mut out = html(&text::escaped(&kept));
    if count > most {
        let _ = write!(
            out,
            "<span class=\"soft\"> … {} more characters in <code>{}</code></span>",
            count - most,
            line(whole, 400)
        );
    }
    out
}

fn html(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len() + 16);
    for c in raw.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn figures(out: &mut String, own: &Page<'_>) {
    let summary = own.summary;
    let errors = summary.error_samples.unwrap_or(0);
    let (total, failed) = (summary.total_samples, summary.failed_samples);
    let others = total.saturating_sub(failed).saturating_sub(errors);
    let passed = summary.passed_samples.unwrap_or(others);
    let share = |part: u64| count::share(part, total) * 100.0;
    let _ = writeln!(
        out,
        "<h1>{}, iteration {}</h1>\n<p class=\"soft\">{}{}</p>",
        line(own.scenario, 100),
        own.iteration,
        match own.target_model {
            "" => String::new(),
            model => format!("target: {} · ", line(model, 100)),
        },
        own.report.generated_at.as_deref().map(|at| line(at, 40)).unwrap_or_default(),
    );
    out.push_str("<div class=\"tiles\">\n");
    let critical = count::critical_share(own.report) * 100.0;
    for (figure, name) in [
        (format!("{:.1}%", share(passed)), "passed".to_owned()),
        (passed.to_string(), format!("of {total} samples passed")),
        (failed.to_string(), "failed".to_owned()),
        (errors.to_string(), "not evaluated".to_owned()),
        (own.report.layer1_problems.len().to_string(), "problems".to_owned()),
        (format!("{critical:.0}%"), "of the failures are critical".to_owned()),
    ] {
        let _ = writeln!(out, "<div class=\"tile\"><b>{figure}</b>{name}</div>");
    }
    let _ = writeln!(
        out,
        "</div>\n<div class=\"bar\" title=\"{passed} passed, {failed} failed, {errors} not evaluated\">\
         <i class=\"p\" style=\"width:{:.2}%\"></i><i class=\"f\" style=\"width:{:.2}%\"></i>\
         <i class=\"e\" style=\"width:{:.2}%\"></i></div>",
        share(passed),
        share(failed),
        share(errors),
    );
}

fn problems(out: &mut String, report: &ProblemsReport) {
    if report.layer1_problems.is_empty() {
        return;
    }
    out.push_str("<h2>Problems, the most urgent first</h2>\n");
    for (at, own) in report.ordered().into_iter().take(LINES).enumerate() {
        problem(out, at + 1, own, report);
    }
}

fn problem(out: &mut String, rank: usize, own: &DesignProblem, report: &ProblemsReport) {
    let severity = super::word(&json!(own.severity));
    let gain = report.modification_priority.iter().find(|one| one.problem_id == own.problem_id);
    let gain = gain.and_then(|one| one.estimated_improvement.as_deref());
    let _ = writeln!(
        out,
        "<div class=\"card\">\n<h3>{rank}. {}</h3>\n<p><span class=\"tag {severity}\">{severity}</span>\
         <span class=\"tag soft\">{}</span><span class=\"soft\">{} failed samples{}</span></p>",
        line(&own.title, 300),
        line(&own.problem_id, 40),
        own.affected_samples.len(),
        gain.map(|gain| format!(", {} if mended", line(gain, 20))).unwrap_or_default(),
    );
    let whole = baton_core::handoff::PROBLEMS_REPORT;
    let mut rows: Vec<(&str, String)> = Vec::new();
    let said = |own: &Option<String>| own.as_deref().map(|own| block(own, TEXT, whole));
    rows.extend(said(&own.description).map(|own| ("What", own)));
    rows.extend(said(&own.evidence_summary).map(|own| ("Evidence", own)));
    if let Some(fix) = &own.suggested_fix {
        let section = fix.section.as_deref().map(|own| format!(", {}", line(own, 200)));
        let place = format!("{}{}", line(&fix.target, 200), section.unwrap_or_default());
        rows.push((
            "Fix",
            format!("<code>{place}</code><br>{}", block(&fix.modification, TEXT, whole)),
        ));
        rows.extend(said(&fix.rationale).map(|own| ("Why", own)));
    }
    let shown: Vec<String> = own.affected_samples.iter().take(30).map(|id| link(id)).collect();
    let more = own.affected_samples.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    rows.push(("Samples", format!("{}{more}", shown.join(", "))));
    out.push_str("<dl>\n");
    for (name, value) in rows {
        let _ = writeln!(out, "<dt>{name}</dt><dd class=\"text\">{value}</dd>");
    }
    out.push_str("</dl>\n</div>\n");
}

fn link(id: &str) -> String {
    format!("<a href=\"#{}\">{}</a>", anchor(id), line(id, 100))
}

/// An id as a place of the page: nothing in it that a browser would read otherwise.
fn anchor(id: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    format!("s-{}", id.chars().take(100).map(safe).collect::<String>())
}

fn failed(out: &mut String, own: &Page<'_>) {
    let all = &own.summary.failures;
    if all.is_empty() {
        return;
    }
    let _ = writeln!(out, "<h2>Failed samples ({})</h2>", all.len());
    for (failure, case) in all.iter().zip(own.cases).take(CASES) {
        let title = case.sample.as_ref().and_then(|own| own["title"].as_str()).unwrap_or_default();
        let _ = writeln!(
            out,
            "<details class=\"case\" id=\"{}\">\n<summary><b>{}</b> {} <span class=\"soft\">{} turns · {} · {}</span></summary>\n<div>",
            anchor(&failure.sample_id),
            line(&failure.sample_id, 100),
            line(title, 120),
            failure.conversation_turns,
            line(&failure.failure_type, 60),
            line(&failure.checkers_failed.join(", "), 200),
        );
        shown_case(out, own.folder, &failure.sample_id, case);
        out.push_str("</div>\n</details>\n");
    }
    let left = all.len().saturating_sub(own.cases.len().min(CASES));
    if left > 0 {
        let _ = writeln!(
            out,
            "<p>{left} more failed samples are not shown here: <code>{}/{}</code> lists them.</p>",
            line(own.folder, 400),
            baton_core::handoff::FAILURE_SUMMARY
        );
    }
}

fn shown_case(out: &mut String, folder: &str, id: &str, case: &Case) {
    for why in &case.missing {
        let _ = writeln!(out, "<p class=\"bad\">not shown: {}</p>", line(why, 400));
    }
    if let Some(own) = &case.evaluation {
        checkers(out, own, folder);
    }
    if let Some(own) = &case.attribution {
        let whole = format!("{folder}/attribution_analysis/{id}_attribution.json");
        out.push_str("<dl>\n");
        let layer = own.layer.map(|layer| format!("layer {layer}, ")).unwrap_or_default();
        let _ =
            writeln!(out, "<dt>Put down to</dt><dd>{layer}{}</dd>", line(&own.failure_type, 80));
        for (name, said) in
            [("Cause", &own.cause), ("Evidence", &own.evidence), ("Suggestion", &own.suggestion)]
        {
            let said = block(said, TEXT, &whole);
            let _ = writeln!(out, "<dt>{name}</dt><dd class=\"text\">{said}</dd>");
        }
        out.push_str("</dl>\n");
    }
    if let Some(trace) = &case.trace {
        let failed = case.evaluation.iter().flat_map(|own| &own.checkers).filter(|own| !own.passed);
        let marked: BTreeSet<u32> = failed.flat_map(|own| own.turns.iter().copied()).collect();
        let whole = format!("{folder}/execution_traces/{id}_trace.json");
        conversation(out, trace, &marked, &whole);
        if let Some(last) = trace.states.last() {
            let state = serde_json::to_string_pretty(&last.state).unwrap_or_default();
            let _ = writeln!(
                out,
                "<details><summary>Final state <span class=\"soft\">as `{}` left it in turn {}</span></summary><pre>{}</pre></details>",
                line(&last.after, 80),
                last.turn,
                block(&state, TEXT * 2, &whole)
            );
        }
    }
}

fn checkers(out: &mut String, own: &Evaluation, folder: &str) {
    let whole = format!("{folder}/evaluation_results/{}_eval.json", own.sample_id);
    out.push_str("<div class=\"scroll\"><table>\n<tr><th>Checker<th><th>Reason<th>Turns</tr>\n");
    for Checked { name, passed, reason, turns } in own.checkers.iter().take(LINES) {
        let (class, word) = if *passed { ("good", "passed") } else { ("bad", "failed") };
        let turns: Vec<String> = turns.iter().take(20).map(ToString::to_string).collect();
        let _ = writeln!(
            out,
            "<tr><td class=\"id\">{}<td class=\"{class}\">{word}<td class=\"text\">{}<td>{}</tr>",
            line(name, 80),
            block(reason, TEXT, &whole),
            turns.join(", ")
        );
    }
    out.push_str("</table></div>\n");
}

fn conversation(out: &mut String, trace: &Trace, marked: &BTreeSet<u32>, whole: &str) {
    out.push_str("<details open><summary>Conversation</summary>\n");
    let mut room = CONVERSATION;
    let mut turn = None;
    for (at, own) in trace.conversation_history.iter().enumerate() {
        if turn != Some(own.turn) {
            let (class, note) = match marked.contains(&own.turn) {
                true => ("turn marked", " · a checker failed here"),
                false => ("turn", ""),
            };
            let end = if turn.is_some() { "</div>\n" } else { "" };
            let _ = writeln!(
                out,
                "{end}<div class=\"{class}\"><span class=\"who\">turn {}{note}</span>",
                own.turn
            );
            turn = Some(own.turn);
        }
        let before = out.len();
        spoken(out, own, whole);
        room = room.saturating_sub(out.len() - before);
        let left = trace.conversation_history.len() - at - 1;
        if room == 0 && left > 0 {
            let _ = writeln!(
                out,
                "<p class=\"soft\">{left} more messages in <code>{}</code></p>",
                line(whole, 400)
            );
            break;
        }
    }
    if turn.is_some() {
        out.push_str("</div>\n");
    }
    if let Some(why) = &trace.ended {
        let _ = writeln!(out, "<p class=\"bad\">It ended early: {}</p>", line(why, 400));
    }
    out.push_str("</details>\n");
}

fn spoken(out: &mut String, own: &Spoken, whole: &str) {
    let (class, who) = match own.role {
        Speaker::User => ("user", "user".to_owned()),
        Speaker::Assistant => ("assistant", "target".to_owned()),
        Speaker::Tool => {
            ("tool", own.name.as_deref().map_or("tool".to_owned(), |name| line(name, 80)))
        }
        Speaker::Harness => ("tool", "Baton".to_owned()),
    };
    let content = match &own.content {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_text = !text::is_blank(&content);
    if is_text {
        let error =
            if own.is_error == Some(true) { " <span class=\"bad\">refused</span>" } else { "" };
        let said = block(&content, TEXT, whole);
        let said = match own.role {
            Speaker::Tool => format!("<code>{said}</code>"),
            _ => said,
        };
        let _ = writeln!(
            out,
            "<div class=\"said {class}\"><span class=\"who\">{who}</span>{error}<div class=\"text\">{said}</div></div>"
        );
    }
    for call in own.tool_calls.iter().take(50) {
        let arguments = Value::Object(call.arguments.clone()).to_string();
        let _ = writeln!(
            out,
            "<div class=\"said {class}\"><span class=\"who\">target calls</span> <code>{} {}</code></div>",
            line(&call.name, 80),
            block(&arguments, TEXT, whole)
        );
    }
}

fn errors(out: &mut String, own: &Page<'_>) {
    let all = &own.summary.evaluation_errors;
    if all.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<h2>Not evaluated ({})</h2>\n<p>These say nothing about the target: something else failed.</p>\n\
         <div class=\"scroll\"><table>\n<tr><th>Sample<th>Code<th>Why</tr>",
        all.len()
    );
    for own in all.iter().take(LINES) {
        let _ = writeln!(
            out,
            "<tr><td class=\"id\">{}<td class=\"id\">{}<td class=\"text\">{}</tr>",
            line(&own.sample_id, 100),
            line(&own.code, 60),
            line(&own.message, 400)
        );
    }
    out.push_str("</table></div>\n");
    if all.len() > LINES {
        let (left, file) = (all.len() - LINES, baton_core::handoff::FAILURE_SUMMARY);
        let _ = writeln!(
            out,
            "<p>and {left} more in <code>{}/{file}</code></p>",
            line(own.folder, 400)
        );
    }
}
