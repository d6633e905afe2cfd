//! Compaction: the oldest part of a conversation leaves it, and a summary stands in its place. Two
//! strategies with one mechanism: `archive` cuts between turns and leaves a record behind the rules
//! of the project, which is never summarised again; `handover` cuts between steps and lets the agent
//! hand over to itself, each summary taking in the one before. Beside the model's words there is
//! always the ledger that code made; without any words it stands alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Form, Item, Seen, Thread, calls};
use crate::document::Strict;
use crate::fold;
use crate::id::ObservationId;
use crate::message::{Message, Part, Role};
use crate::messages::Language;
use crate::text;

/// How the oldest part leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Whole turns, into a record. For conversations with a person.
    Archive,
    /// Whole steps, into a state that the agent goes on from. For one long task.
    #[default]
    Handover,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub strategy: Strategy,
    /// Tokens of a request.
    pub compact_at: u64,
    /// Turns or steps that stay whole.
    pub keep: usize,
    /// What a handover's summary has to tell.
    pub keys: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        let (strategy, compact_at) = (Strategy::default(), 160_000);
        Settings { strategy, compact_at, keep: 5, keys: Vec::new() }
    }
}

impl Settings {
    /// Tokens of a summary: in a small window it must not be most of what is there.
    pub fn summary_tokens(&self) -> u64 {
        SUMMARY.min(self.compact_at / 8)
    }

    /// The number of words that fit into these tokens in any language, with the form around them.
    fn summary_words(&self) -> u64 {
        (self.summary_tokens() / 2).max(50) / 50 * 50
    }
}

/// What a compaction does. It is written down with its result, so that going on from the disk gives
/// the same conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub strategy: Strategy,
    /// The first item that stays. 0: nothing leaves.
    pub cut: usize,
    /// All results that stay become stubs but the newest. Only in transcripts of 0.1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fold: bool,
    /// Results that stay and become stubs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stubs: Vec<ObservationId>,
    /// Long results and arguments that stay lose lines.
    pub shorten: bool,
    /// Tokens that the results may take together which no request has carried yet, where not all of
    /// them fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<usize>,
    /// So many of the oldest records are not sent any more: they are never summed up again, and
    /// would fill the window in the end.
    #[serde(default)]
    pub drop_records: usize,
    /// What had to be given up, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
}

/// Results with more characters may lose lines,
const LONG: usize = 5_000;
/// all but about this many characters at each end.
const END: usize = 1_000;
/// Steps that stay when a turn is handed over inside a conversation of turns.
const STEPS: usize = 5;
/// A summary is at most this long, in tokens.
const SUMMARY: u64 = 4_000;
/// The size that a compaction aims at, and the one it accepts, in tenths of `compact_at`.
const GOAL: u64 = 6;
const ENOUGH: u64 = 8;
/// The largest size that is accepted at all.
const LAST: u64 = 9;
/// The fewest tokens of new results with which continuing makes sense.
const LEAST_ROOM: usize = 400;

/// What is asked of a model that hands over.
pub fn request_text(settings: &Settings, focus: Option<&str>, language: Language) -> String {
    let mut out = language.handover_request();
    out.push('\n');
    for key in &settings.keys {
        out.push_str(&format!("- {key}\n"));
    }
    out.push_str(&language.handover_rules(settings.summary_words()));
    if let Some(focus) = focus {
        out.push_str(&format!("\n{}", language.focus(focus)));
    }
    out
}

/// Asks a second time, with the answer that cannot be used and the reason.
pub fn ask_again(messages: &mut Vec<Message>, said: &str, why: &str, language: Language) {
    let again = language.summary_again(why);
    if said.trim().is_empty() {
        if let Some(last) = messages.last_mut() {
            last.parts.push(Part::Text { text: again });
        }
        return;
    }
    messages.push(Message::assistant(said));
    messages.push(Message::user(again));
}

/// What a separate model is told that writes an archive's summary.
pub fn archive_prompt(settings: &Settings, focus: Option<&str>, language: Language) -> String {
    let words = language.archive_request(settings.summary_words());
    let mut out = format!("{words}\n\n{}", language.archive_form());
    if let Some(focus) = focus {
        out.push_str(&format!("\n\n{}", language.focus(focus)));
    }
    out
}

/// The headings of an archive, which have to be in it as they are.
const HEADINGS: [&str; 6] = [
    "## 📌 Archived Session Summary",
    "### 🎯 Objectives & Status",
    "### 🏗️ Technical Context (Static)",
    "### ✅ Completed Milestones (The \"Done\" Pile)",
    "### 🧠 Key Insights & Decisions (Persistent Memory)",
    "### 📂 File System State (Snapshot)",
];

/// A summary that can be used, or why not. `replaces`: tokens of what it stands for.
pub fn checked(
    plan: &Plan,
    settings: &Settings,
    answer: &str,
    replaces: usize,
    language: Language,
) -> Result<String, String> {
    let summary = match plan.strategy {
        Strategy::Archive => archive_of(answer, language)?,
        Strategy::Handover => state_of(answer, &settings.keys, language)?,
    };
    let size = fold::size(&summary);
    if size >= replaces {
        return Err(language.summary_not_smaller(size, replaces));
    }
    // Models are told, and some do not listen.
    let most = settings.summary_tokens();
    if tokens(size) > most * 2 {
        return Err(language.summary_too_long(size, most));
    }
    Ok(summary)
}

/// From the first heading on; every heading has to be there.
fn archive_of(answer: &str, language: Language) -> Result<String, String> {
    let answer = answer.trim();
    if answer.is_empty() {
        return Err(language.summary_empty());
    }
    let start = answer.find(HEADINGS[0]).ok_or_else(|| language.summary_without_form())?;
    let body = answer[start..].trim_end_matches("```").trim_end();
    match HEADINGS.iter().find(|heading| !body.lines().any(|line| line.trim() == **heading)) {
        Some(missing) => Err(language.summary_without_heading(missing)),
        None => Ok(body.to_owned()),
    }
}

/// The JSON object of an answer: bare, in a fence, or between its tags with prose around it.
fn state_of(answer: &str, keys: &[String], language: Language) -> Result<String, String> {
    let answer = answer.trim();
    if answer.is_empty() {
        return Err(language.summary_empty());
    }
    let tagged = answer.split_once("<compact_summary>").and_then(|(_, rest)| {
        rest.rsplit_once("</compact_summary>").map(|(inside, _)| inside.trim())
    });
    let inside = tagged.unwrap_or(answer);
    let bare = match (inside.find('{'), inside.rfind('}')) {
        (Some(start), Some(end))
            if start < end && (tagged.is_some() || is_alone(inside, start, end)) =>
        {
            &inside[start..=end]
        }
        _ => return Err(language.summary_not_object()),
    };
    let Strict(value) = serde_json::from_str(bare)
        .map_err(|error| language.summary_not_json(text::shown(&error.to_string(), 120)))?;
    let Value::Object(state) = &value else {
        return Err(language.summary_not_object());
    };
    match keys.iter().find(|key| !state.contains_key(key.as_str())) {
        Some(missing) => Err(language.summary_without_key(missing)),
        None => Ok(value.to_string()),
    }
}

/// Nothing around the object but a fence.
fn is_alone(text: &str, start: usize, end: usize) -> bool {
    let around = |part: &str| matches!(part.trim(), "" | "```" | "```json" | "json");
    around(&text[..start]) && around(&text[end + 1..])
}

impl Thread {
    /// The plan for a size well below `compact_at` tokens, of which `fixed` are not the conversation's.
    /// `is_asked`: a person wants it, so something has to leave whatever the sizes are.
    pub fn plan_compaction(
        &self,
        settings: &Settings,
        fixed: u64,
        is_asked: bool,
    ) -> Result<Plan, String> {
        let all = tokens(self.size());
        let cuts = self.cuts(settings);
        let first = cuts[0].clone();
        if is_asked {
            let folded = self.folding_all(&first);
            return match first.cut > 0 {
                true => Ok(first),
                false if self.left_by(&folded, settings) < all => Ok(folded),
                false => Err("there is nothing yet that could leave the conversation".to_owned()),
            };
        }
        let within = |tenths: u64| (settings.compact_at / 10 * tenths).saturating_sub(fixed);
        let (goal, enough) = (within(GOAL), within(ENOUGH));
        let fits = |plan: &Plan, most: u64| {
            let left = self.left_by(plan, settings);
            left <= most && left < all
        };
        if fits(&first, goal) {
            return Ok(self.keeping_more(first, settings, |plan| fits(plan, goal)));
        }
        let some = self.folding_oldest(&first, settings, goal);
        if fits(&some, goal) {
            return Ok(some);
        }
        let mut last = first;
        for (index, cut) in cuts.into_iter().enumerate() {
            let some = self.folding_oldest(&cut, settings, goal);
            if index > 0 && fits(&some, goal) {
                return Ok(some);
            }
            let folded = self.folding_all(&cut);
            if index == 0 && fits(&folded, enough) {
                return Ok(folded);
            }
            last = cutting(folded);
            if fits(&last, enough) {
                return Ok(last);
            }
        }
        let unseen = self.unseen();
        let new: usize = self.sizes()[unseen.max(last.cut)..].iter().sum();
        let over = self.left_by(&last, settings).saturating_sub(enough);
        let room = new.saturating_sub(usize::try_from(over).unwrap_or(usize::MAX));
        let plan = Plan { room: Some(room), ..last };
        if room >= LEAST_ROOM && self.left_by(&plan, settings) < all {
            return Ok(saying(plan, "results that do not fit were cut before they were sent"));
        }
        // Little is better than nothing, as long as it gains.
        let plan = Plan { room: None, ..plan };
        if self.left_by(&plan, settings) <= within(LAST).min(all / 10 * 9) {
            return Ok(plan);
        }
        Err(format!(
            "the conversation does not fit: its last step alone and what has to precede it are over {} tokens",
            settings.compact_at
        ))
    }

    /// No more leaves than has to: the earliest place to cut at which it still fits.
    fn keeping_more(&self, plan: Plan, settings: &Settings, fits: impl Fn(&Plan) -> bool) -> Plan {
        let borders = match settings.strategy {
            Strategy::Archive => self.turns.clone(),
            Strategy::Handover => self.step_starts(),
        };
        let borders: Vec<usize> =
            borders.into_iter().skip(1).filter(|border| *border < plan.cut).collect();
        let at = |border: &usize| Plan { cut: *border, ..plan.clone() };
        let first = borders.partition_point(|border| !fits(&at(border)));
        borders.get(first).map(at).unwrap_or(plan)
    }

    /// Tokens that are left when it is done so: it is done to a copy.
    fn left_by(&self, plan: &Plan, settings: &Settings) -> u64 {
        let mut copy = self.clone();
        copy.compact(plan, "", Err(""));
        let summary = if plan.cut > 0 { settings.summary_tokens() } else { 0 };
        tokens(copy.size()) + summary
    }

    /// The oldest results become stubs, as few of them as are enough; the newest views of the files
    /// that are worked on stay longest.
    fn folding_oldest(&self, plan: &Plan, settings: &Settings, goal: u64) -> Plan {
        let all = self.folding_all(plan);
        let mut copy = self.clone();
        copy.compact(&all, "", Err(""));
        let size_as_stub = |id: ObservationId| {
            let own = copy.items.iter().find(|item| item.result_id() == Some(id));
            own.map_or(0, super::size_of)
        };
        let in_hand = self.in_hand();
        let mut order: Vec<(bool, usize)> = Vec::new();
        for (index, item) in self.items.iter().enumerate().skip(plan.cut) {
            if item.result_id().is_some_and(|id| all.stubs.contains(&id)) {
                order.push((in_hand.contains(&index), index));
            }
        }
        order.sort_unstable();
        let mut over = self.left_by(plan, settings).saturating_sub(goal);
        let mut stubs = Vec::new();
        for (_, index) in order {
            if over == 0 {
                break;
            }
            let Some(id) = self.items[index].result_id() else { continue };
            let gone = super::size_of(&self.items[index]).saturating_sub(size_as_stub(id));
            over = over.saturating_sub(tokens(gone));
            stubs.push(id);
        }
        let said = "the oldest results of the kept part were folded";
        saying(Plan { stubs, ..plan.clone() }, said)
    }

    /// Every result that a request has carried becomes a stub.
    fn folding_all(&self, plan: &Plan) -> Plan {
        let seen = plan.cut.min(self.items.len())..self.unseen().max(plan.cut);
        let is_whole =
            |item: &&Item| matches!(item, Item::Observation(seen) if seen.form != Form::Stub);
        let items = self.items.get(seen).unwrap_or_default();
        let stubs = items.iter().filter(is_whole).filter_map(Item::result_id).collect();
        saying(Plan { stubs, ..plan.clone() }, "the results of the kept part were folded")
    }

    /// The number of records that do not fit: those that stay with a new one take up to a quarter of
    /// the window.
    fn records_over(&self, settings: &Settings) -> usize {
        let mut room = settings.compact_at / 4;
        let sizes = self.records.iter().rev().map(|record| tokens(fold::size(record)));
        let fits = |size: &u64| {
            let is_in = *size <= room;
            room = room.saturating_sub(*size);
            is_in
        };
        self.records.len() - sizes.take_while(fits).count()
    }

    /// The places where it can be cut: from what is asked for to what is possible at all.
    fn cuts(&self, settings: &Settings) -> Vec<Plan> {
        let turns: Vec<usize> = self.turns.clone();
        let steps = self.step_starts();
        let strategy = settings.strategy;
        // The current turn stays as well as the finished ones.
        let keep = settings.keep + usize::from(strategy == Strategy::Archive);
        let borders = if strategy == Strategy::Archive { &turns } else { &steps };
        let word = if strategy == Strategy::Archive { "turns" } else { "steps" };
        let drop_records = self.records_over(settings);
        let cut = |borders: &[usize], keep: usize| match borders.len().checked_sub(keep) {
            Some(0) | None => 0,
            Some(index) => borders[index],
        };
        let plan = |strategy, cut, said: Vec<String>| Plan {
            strategy,
            cut,
            fold: false,
            stubs: Vec::new(),
            shorten: false,
            room: None,
            drop_records: if cut > 0 && strategy == Strategy::Archive { drop_records } else { 0 },
            said,
        };
        let mut cuts = vec![plan(strategy, cut(borders, keep), Vec::new())];
        for fewer in (1..keep.min(borders.len().max(1))).rev() {
            let said = format!("of the {word} only the last {fewer} stayed");
            cuts.push(plan(strategy, cut(borders, fewer), vec![said]));
        }
        if strategy == Strategy::Archive {
            let inside: Vec<usize> =
                steps.iter().copied().filter(|step| *step > self.turn()).collect();
            for fewer in (1..=STEPS.min(inside.len())).rev() {
                let said = format!("the turn was handed over but for its last {fewer} steps");
                cuts.push(plan(Strategy::Handover, inside[inside.len() - fewer], vec![said]));
            }
        }
        for plan in &mut cuts {
            if plan.drop_records > 0 {
                plan.said
                    .push(format!("the oldest {} of the records left for good", plan.drop_records));
            }
        }
        cuts
    }

    /// Where steps begin: an answer of the model, with all its results behind it.
    fn step_starts(&self) -> Vec<usize> {
        let items = self.items.iter().enumerate();
        items
            .filter(|(index, item)| *index >= self.head && matches!(item, Item::Assistant(_)))
            .map(|(index, _)| index)
            .collect()
    }

    /// The part that leaves, as material for the model that summarises it, after what is known: facts
    /// of the machine, and the task in progress.
    pub fn material(&self, plan: &Plan, facts: &str, now: Option<&str>) -> String {
        let cut = plan.cut.min(self.items.len());
        let mut out = String::new();
        let at = |turn: usize| {
            let index = self.turns.iter().position(|own| *own >= turn)?;
            self.times.get(index)?.clone()
        };
        let (start, end) = (at(0), at(cut).or_else(|| now.map(str::to_owned)));
        let unknown = || self.language.time_unknown();
        out.push_str(&format!(
            "<known>\nStart Time: {}\nCutoff Time: {}\n{}\n</known>\n",
            start.unwrap_or_else(unknown),
            end.unwrap_or_else(unknown),
            facts.trim_end()
        ));
        if let Some(task) = self.task_now().filter(|_| self.turn() >= cut) {
            out.push_str(&format!("<task_in_progress>\n{task}\n</task_in_progress>\n"));
        }
        for item in &self.items[..cut] {
            let (who, words) = match item {
                Item::User(text) => ("user", text.clone()),
                Item::Note(text) => ("note", text.clone()),
                Item::Assistant(message) => ("agent", told(message, self.language)),
                Item::Observation(seen) => ("result", of_result(seen)),
            };
            out.push_str(&format!("<{who}>\n{}\n</{who}>\n", words.trim_end()));
        }
        out
    }

    /// The part that leaves, in at most `most` tokens: long results and arguments lose their
    /// middle, then the oldest steps are left out. What the user said stays.
    pub fn leaving_within(&self, plan: &Plan, most: usize) -> Vec<Item> {
        let mut items = self.items[..plan.cut.min(self.items.len())].to_vec();
        let size = |items: &[Item]| items.iter().map(super::size_of).sum::<usize>();
        if size(&items) > most {
            for item in &mut items {
                match item {
                    Item::User(_) | Item::Note(_) => {}
                    Item::Assistant(message) => *message = shortened(message),
                    Item::Observation(seen) if seen.text.chars().count() > LONG => {
                        seen.text = text::head_and_tail(&seen.text, END);
                        seen.size = fold::size(&seen.text);
                    }
                    Item::Observation(_) => {}
                }
            }
        }
        let starts: Vec<usize> = (0..items.len())
            .filter(|index| matches!(items[*index], Item::Assistant(_)))
            .chain([items.len()])
            .collect();
        let mut over = size(&items).saturating_sub(most);
        let mut left_out = 0;
        while over > 0 && left_out + 1 < starts.len() {
            let step = &items[starts[left_out]..starts[left_out + 1]];
            let gone = step.iter().filter(|item| !matches!(item, Item::User(_)));
            over = over.saturating_sub(gone.map(super::size_of).sum());
            left_out += 1;
        }
        let (first, end) = (starts[0], starts[left_out]);
        let kept = items.drain(first..end).filter(|item| matches!(item, Item::User(_)));
        let kept: Vec<Item> = kept.collect();
        if left_out > 0 {
            let note = self.language.steps_left_out(left_out);
            items.splice(first..first, [Item::Note(note)].into_iter().chain(kept));
        }
        items
    }

    /// Tokens of what leaves.
    pub fn size_leaving(&self, plan: &Plan) -> usize {
        let cut = plan.cut.min(self.items.len());
        self.sizes()[..cut].iter().sum()
    }

    /// The oldest part leaves. `summary`: what stands for it, or why there is none.
    pub fn compact(&mut self, plan: &Plan, request: &str, summary: Result<&str, &str>) {
        let unseen: Vec<_> =
            self.items[self.unseen()..].iter().filter_map(Item::result_id).collect();
        let cut = plan.cut.min(self.items.len());
        if cut > 0 {
            self.leave(plan, cut, request, summary);
        }
        self.forget_announcements();
        let all: Vec<_> = self.items.iter().filter_map(Item::result_id).collect();
        let mut stubs = plan.stubs.clone();
        if plan.fold {
            stubs.extend(all.iter().copied().filter(|id| !unseen.contains(id)));
        }
        let are_words_cut = plan.shorten && self.shorten(&unseen);
        if let Some(room) = plan.room {
            self.share(room, &unseen);
        }
        self.judged = all.len().saturating_sub(self.folding.keep).min(self.judged);
        self.render(0, &stubs);
        self.announce_shorter(&stubs, are_words_cut);
    }

    /// Earlier words on what was folded: the results may have left, and stubs tell it themselves.
    fn forget_announcements(&mut self) {
        let starts = [self.language.folded_results(), self.language.not_whole()];
        let is_one = |item: &Item| matches!(item, Item::Note(text) if starts.iter().any(|start| text.starts_with(start)));
        while let Some(at) = self.items.iter().skip(self.head).position(is_one) {
            let at = at + self.head;
            self.items.remove(at);
            self.turns.iter_mut().filter(|turn| **turn > at).for_each(|turn| *turn -= 1);
        }
    }

    /// Announces which of the results that stay are no longer whole.
    fn announce_shorter(&mut self, stubs: &[ObservationId], are_words_cut: bool) {
        let of = |form: Form| {
            let own = self.items.iter().filter_map(|item| match item {
                Item::Observation(seen) if seen.form == form => Some(seen.id),
                _ => None,
            });
            own.collect::<Vec<_>>()
        };
        let (mut folded, cut) = (of(Form::Stub), of(Form::Cut));
        folded.retain(|id| stubs.contains(id));
        let language = self.language;
        let mut said = Vec::new();
        if !folded.is_empty() {
            said.push(language.now_stubs(super::id_list(&folded)));
        }
        if !cut.is_empty() {
            said.push(language.without_some_lines(super::id_list(&cut)));
        }
        if are_words_cut {
            said.push(language.own_calls_cut());
        }
        if !said.is_empty() {
            self.announce(language.not_whole() + &language.not_whole_end(said.join("; ")));
        }
    }

    /// The part before `cut` leaves, and something takes its place.
    fn leave(&mut self, plan: &Plan, cut: usize, request: &str, summary: Result<&str, &str>) {
        let task = self.task_now().filter(|_| self.turn() < cut);
        let mut gone: Vec<Item> = self.items.drain(..cut).collect();
        // What stood for earlier parts is made anew.
        gone.drain(..self.head.min(cut));
        self.head = self.head.saturating_sub(cut);
        self.ledger.add(&gone);
        self.words.extend(gone.into_iter().filter_map(|item| match item {
            Item::User(text) => Some(text),
            Item::Note(_) | Item::Assistant(_) | Item::Observation(_) => None,
        }));
        let turns_gone = self.turns.partition_point(|turn| *turn < cut);
        self.turns.drain(..turns_gone);
        let last_gone = self.times.drain(..turns_gone.min(self.times.len())).next_back();
        self.turns.iter_mut().for_each(|turn| *turn -= cut);
        match plan.strategy {
            Strategy::Archive => {
                let drop = plan.drop_records.min(self.records.len());
                self.records.drain(..drop);
                self.records_gone += drop;
                let state = self.state.take().map(|(_, state)| state);
                self.leave_record(summary, state.as_deref());
            }
            Strategy::Handover => {
                if task.is_some() {
                    self.times.insert(0, last_gone.flatten());
                }
                self.leave_state(request, summary, task.as_deref());
            }
        }
    }

    /// The words of the task that is worked at.
    fn task_now(&self) -> Option<String> {
        match self.items.get(self.turn()) {
            Some(Item::User(text)) => Some(self.task.clone().unwrap_or_else(|| text.clone())),
            _ => self.task.clone(),
        }
    }

    /// Long results that were seen, and long words, lose lines. True if words did.
    fn shorten(&mut self, unseen: &[ObservationId]) -> bool {
        let newest = self.unseen();
        let room = self.folding.fold_at / 4;
        let mut is_any = false;
        for (index, item) in self.items.iter_mut().enumerate() {
            // The newest call is what the next answer is about.
            let is_kept = index >= newest && super::size_of(item) <= room;
            match item {
                Item::User(_) | Item::Note(_) => {}
                Item::Assistant(_) if is_kept => {}
                Item::Assistant(message) => {
                    let short = shortened(message);
                    is_any |= short != *message;
                    *message = short;
                }
                Item::Observation(seen) if unseen.contains(&seen.id) => {}
                Item::Observation(seen) if seen.text.chars().count() > LONG => {
                    seen.most = Some(2 * END);
                }
                Item::Observation(_) => {}
            }
        }
        is_any
    }

    /// Gives the new results `room` tokens: the small ones whole, the others an equal part.
    fn share(&mut self, room: usize, unseen: &[ObservationId]) {
        let mut sizes: Vec<(usize, ObservationId)> = Vec::new();
        for item in &self.items {
            if let Item::Observation(seen) = item
                && unseen.contains(&seen.id)
            {
                sizes.push((seen.size, seen.id));
            }
        }
        sizes.sort_unstable();
        let (mut left, mut count) = (room, sizes.len());
        for (size, id) in sizes {
            let part = left / count.max(1);
            count -= 1;
            left -= size.min(part);
            let own = self.items.iter_mut().find_map(|item| match item {
                Item::Observation(seen) if seen.id == id && size > part => Some(seen),
                _ => None,
            });
            if let Some(seen) = own {
                // Four characters are about a token; the header takes some of them.
                seen.most = Some((part * 4).saturating_sub(400).max(400));
            }
        }
    }

    /// `state`: what the agent had handed over to itself, which leaves as well.
    fn leave_record(&mut self, summary: Result<&str, &str>, state: Option<&str>) {
        let words = match summary {
            Ok(summary) => self.language.record(summary),
            Err(why) => {
                let state = state.map(|state| self.language.own_summary(state));
                self.language.record_without_summary(why, state.unwrap_or_default())
            }
        };
        let ledger = std::mem::take(&mut self.ledger);
        self.records.push(format!("{words}\n{}", ledger.text(self.ledger_room(), self.language)));
    }

    /// Characters that the ledger may take: in a small window it must not be most of what is there.
    fn ledger_room(&self) -> usize {
        self.folding.fold_at.min(100_000)
    }

    /// The text after the project's rules: what the user said and the records, the oldest first.
    pub fn archive(&self) -> String {
        if self.records.is_empty() {
            return String::new();
        }
        let mut parts = Vec::new();
        let words = self.user_words();
        parts.extend(Some(words).filter(|words| !words.is_empty()));
        if self.records_gone > 0 {
            parts.push(self.language.records_gone(self.records_gone));
        }
        parts.extend(self.records.iter().cloned());
        parts.join("\n\n")
    }

    /// The user's messages in the parts that left: the newest word for word, of the others the
    /// beginning and the files that they name.
    fn user_words(&self) -> String {
        let language = self.language;
        let in_force = self.task.as_deref();
        let mut room = USER_WORDS.min(self.folding.fold_at / 3 * 2);
        let mut told: Vec<String> = Vec::new();
        for (index, text) in self.words.iter().enumerate().rev() {
            if in_force == Some(text.as_str()) {
                continue;
            }
            let name = format!("[u{}]", index + 1);
            let size = fold::size(text);
            let is_whole = size <= room;
            room = room.saturating_sub(size);
            told.push(match is_whole {
                true => format!("{name} {text}"),
                false => {
                    let files = super::files_named(text);
                    let files = match files.is_empty() {
                        true => String::new(),
                        false => language.word_names(language.list(&files)),
                    };
                    let start: String = text.chars().take(BEGINNING).collect();
                    language.word_cut(name, start, files, index + 1)
                }
            });
        }
        if told.is_empty() {
            return String::new();
        }
        told.reverse();
        language.user_words(told.join("\n"))
    }

    fn leave_state(&mut self, request: &str, summary: Result<&str, &str>, task: Option<&str>) {
        if let Some(task) = task {
            self.task = Some(task.to_owned());
        }
        let language = self.language;
        let mut words = language.part_left();
        let is_older = summary.is_err() && self.state.is_some();
        match summary {
            Ok(summary) => {
                self.state = Some((request.to_owned(), summary.to_owned()));
                words.push_str(&language.summary_above());
            }
            Err(why) => words.push_str(&language.no_summary_because(why)),
        }
        if is_older {
            words.push_str(&language.summary_is_earlier());
        }
        words.push_str("]\n\n");
        words.push_str(&self.ledger.text(self.ledger_room(), language));
        let said = self.user_words();
        if !said.is_empty() {
            words.push_str(&format!("\n{said}\n"));
        }
        if let Some(task) = task {
            words.push_str(&language.task_in_force(task));
        }
        let mut head = Vec::new();
        if let Some((request, summary)) = &self.state {
            head.push(Item::Note(request.clone()));
            head.push(Item::Assistant(Message::assistant(summary)));
        }
        head.push(Item::Note(words));
        let added = head.len();
        self.turns.iter_mut().for_each(|turn| *turn += added);
        // The turn continues after it.
        if task.is_some() {
            self.turns.insert(0, added - 1);
        }
        self.head = added;
        self.items.splice(0..0, head);
    }
}

/// The most tokens of the user's messages that are kept word for word,
const USER_WORDS: usize = 8_000;
/// and the characters that are kept of each other message.
const BEGINNING: usize = 300;

fn saying(mut plan: Plan, words: &str) -> Plan {
    plan.said.insert(0, words.to_owned());
    plan
}

fn cutting(plan: Plan) -> Plan {
    saying(Plan { shorten: true, ..plan }, "long results and arguments of the kept part were cut")
}

/// An answer for the archivist: its words, and the tools that it called with their arguments.
fn told(message: &Message, language: Language) -> String {
    let part = |part: &Part| match part {
        Part::Text { text } => Some(text.clone()),
        Part::ToolCall(call) => {
            let argument = |(name, value): (&String, &Value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{name}: {}", text::head_and_tail(&text, END / 2))
            };
            let all: Vec<String> = call.arguments.iter().map(argument).collect();
            Some(format!("{}\n{}", language.calls(&call.name), all.join("\n")))
        }
        Part::ToolResult(_) | Part::Thinking(_) | Part::Image { .. } => None,
    };
    message.parts.iter().filter_map(part).collect::<Vec<_>>().join("\n")
}

fn of_result(seen: &Seen) -> String {
    match seen.form {
        Form::Stub => seen.text.clone(),
        Form::Whole | Form::Referred | Form::Cut => {
            let body = text::head_and_tail(&seen.body(), END);
            format!("{}\n{body}", seen.described())
        }
    }
}

/// Words and arguments without measure: what nobody can send back whole.
fn shortened(message: &Message) -> Message {
    let cut = |text: &mut String| {
        if text.chars().count() > LONG {
            *text = text::head_and_tail(text, END);
        }
    };
    let mut message = message.clone();
    for part in &mut message.parts {
        match part {
            Part::Text { text } => cut(text),
            Part::ToolCall(call) => call.arguments.values_mut().for_each(|value| match value {
                Value::String(text) => cut(text),
                other if other.to_string().len() > LONG => *other = Value::Null,
                _ => {}
            }),
            Part::ToolResult(_) | Part::Thinking(_) | Part::Image { .. } => {}
        }
    }
    message
}

fn tokens(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// A list that every provider takes does not begin with an answer, and its calls have results.
pub(super) fn without_calls(message: &Message, language: Language) -> Message {
    let mut parts = message.parts.clone();
    parts.retain(|part| matches!(part, Part::Text { text } if !text.trim().is_empty()));
    if calls(message).next().is_none() && parts.is_empty() {
        parts = message.parts.clone();
    }
    if parts.is_empty() {
        parts.push(Part::Text { text: language.no_text() });
    }
    Message { role: Role::Assistant, parts }
}
