//! How long a conversation's decisions take, at ten times more of everything: `cargo bench -p
//! baton-core --bench threads` prints a table. Nothing is asserted.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::time::{Duration, Instant};

use baton_core::fold::Settings;
use baton_core::id::ObservationId;
use baton_core::message::{Message, Part, Role, ToolCall};
use baton_core::observation::{Envelope, Status};
use baton_core::thread::compact::{self, Strategy};
use baton_core::thread::{Item, Seen, Thread};
use serde_json::json;

fn best_of<T>(mut run: impl FnMut() -> T) -> Duration {
    (0..9)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(run());
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn answer(n: u32) -> Item {
    let arguments = json!({ "path": format!("src/file_{n}.rs") });
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let call = ToolCall { id: format!("c{n}"), name: "Read".to_owned(), arguments };
    let text = Part::Text { text: format!("Now I look at function_{n}.") };
    Item::Assistant(Message { role: Role::Assistant, parts: vec![text, Part::ToolCall(call)] })
}

/// A result of about a thousand tokens.
fn result(n: u32) -> Item {
    let line = |k: u32| format!("{k}\tlet value_{n}_{k} = function_{k}(&input, {n});\n");
    let content: String = (1..90).map(line).collect();
    let envelope = Envelope::new(Status::Success, &json!({ "content": content }));
    let target = format!("src/file_{n}.rs");
    let seen = Seen::new(ObservationId(n), format!("c{n}"), "Read".to_owned(), &target, envelope);
    Item::Observation(Box::new(seen))
}

/// So many steps in one turn.
fn thread(steps: u32, folding: Settings) -> Thread {
    let mut thread = Thread::new(folding, None, baton_core::thread::Results::Plain);
    for n in 1..=steps {
        if n == 1 {
            thread.begin_turn("Go on.", None);
        }
        thread.push(answer(n));
        thread.push(result(n));
    }
    thread
}

fn main() {
    let never = Settings { batch: usize::MAX, fold_at: usize::MAX, ..Settings::default() };
    let due = Settings { batch: 1, calls_ahead: 0.0, ..never };
    println!(
        "{:>8} {:>10} {:>14} {:>14} {:>14} {:>14}",
        "steps", "tokens", "fold, not due", "fold, weighed", "a fold", "compaction"
    );
    for steps in [10, 100, 1_000] {
        let plain = thread(steps, never);
        let mut weighed = plain.clone();
        weighed.folding = due;
        let mut folds = plain.clone();
        folds.folding = Settings { batch: 1, ..Settings::default() };
        let ids: Vec<ObservationId> = (1..steps.saturating_sub(6)).map(ObservationId).collect();
        let tokens = plain.size();
        let own = compact::Settings {
            strategy: Strategy::Archive,
            compact_at: tokens as u64,
            keep: 10,
            keys: Vec::new(),
        };
        println!(
            "{steps:>8} {tokens:>10} {:>11.1} µs {:>11.1} µs {:>11.2} ms {:>11.2} ms",
            best_of(|| plain.fold_due()).as_secs_f64() * 1e6,
            best_of(|| weighed.fold_due()).as_secs_f64() * 1e6,
            best_of(|| folds.clone().fold(&ids)).as_secs_f64() * 1e3,
            best_of(|| plain.plan_compaction(&own, 3_000, false)).as_secs_f64() * 1e3,
        );
    }
}
