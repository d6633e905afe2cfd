//! `baton scenario demo`: the built-in scenario, evaluated with its first design and with the repaired
//! one. Target and judge are played by code; all else is real.

use std::path::{Path, PathBuf};
use std::time::Instant;

use baton_core::id::Tokens;
use baton_core::message::Wire;
use baton_core::turn::Protocol;
use baton_runtime::evaluate::{self, Ask, Evaluated, Progress, Target};
use baton_runtime::model::{Client, Endpoint, Limits};
use baton_runtime::sandbox::{self, Interrupt};
use baton_runtime::store::{self, Disk};
use baton_runtime::{drive, handoff};
use serde_json::json;

use super::{FOLDER, Meter, Where, as_json, diff, failure, told, watch_signals, write_page};
use crate::args::ScenarioDemoArgs;
use crate::cmd::example::{self, Version};
use crate::cmd::{Outcome, Place, demo};
use crate::reply::{Failure, INTERNAL, Reply, USAGE};

/// Samples at once.
const JOBS: usize = 4;

/// What both evaluations share.
struct Ground<'a> {
    place: &'a Place,
    root: PathBuf,
    scenario: String,
    target: Target,
    confined: bool,
    interrupt: Interrupt,
}

pub(in crate::cmd) fn run(place: &Place, args: &ScenarioDemoArgs) -> Outcome {
    if place.environment.program("python3").is_none() {
        return Err(Failure::new(USAGE, "the demo's tools need `python3` on the PATH"));
    }
    let start = Instant::now();
    let ground = Ground {
        place,
        root: demo::folder(args.folder.as_deref())?,
        scenario: format!("{FOLDER}/{}", example::NAME),
        target: target()?,
        confined: sandbox::available().is_ok(),
        interrupt: Interrupt::default(),
    };
    watch_signals(&ground.interrupt)?;
    let mut text = "This is a demo: target and judge are played by code and no model is called.\n\
        The tools, the checkers, the conversations and all files are real.\n"
        .to_owned();
    if let Err(missing) = sandbox::available() {
        text.push_str(&format!("{missing}\nThe demo's own programs run unconfined.\n"));
    }
    ground.unpack(&args.lang, Version::First)?;
    let first = ground.evaluated()?;
    let (package, tokens) = ground.handed_over(&first)?;
    text.push_str(&format!("\nThe first design\n{}", told(&first)));
    text.push_str(&format!("what goes back to its author: {package}, {tokens} tokens\n"));
    ground.unpack(&args.lang, Version::Repaired)?;
    let second = ground.evaluated()?;
    text.push_str(&format!("\nThe repaired design\n{}", told(&second)));
    let found = Where { root: ground.root.clone(), scenario: ground.scenario.clone() };
    let root = found.opened()?;
    let changes = diff::compared(&root, &found.scenario, first.iteration, second.iteration)?;
    text.push_str(&format!("\nWhat changed\n{}", changes.text));
    let pages = [ground.page(&first)?, ground.page(&second)?];
    text.push_str(&format!(
        "\n{:.1} s. Look around:\n  cd {}\n  baton scenario report --iteration 1   what failed, and why\n  baton scenario diff {} 1 2   what changed\n  {}   the same as a page\n  {}\n",
        start.elapsed().as_secs_f64(),
        ground.root.display(),
        example::NAME,
        pages[0].display(),
        pages[1].display(),
    ));
    let json = json!({
        "ok": true,
        "root": ground.root,
        "iterations": [as_json(&first), as_json(&second)],
        "package": { "path": package, "tokens": tokens },
        "changes": changes.json["changes"],
        "pages": pages,
    });
    Ok(Reply::new(text, json))
}

fn target() -> Result<Target, Failure> {
    let failed =
        |why: String| Failure::new(INTERNAL, format!("cannot serve the demo's model: {why}"));
    let url = example::serve().map_err(failed)?;
    let endpoint = Endpoint::new(Wire::Chat, Some(&url), None);
    Ok(Target {
        client: Client::new(endpoint, Limits::default()).map_err(failed)?,
        model: "played by code".to_owned(),
        max_output: Tokens(8_192),
        protocol: Protocol::Native,
        temperature: None,
        price: None,
    })
}

impl Ground<'_> {
    fn unpack(&self, language: &str, version: Version) -> Result<(), Failure> {
        let folder = self.root.join(&self.scenario);
        for (path, bytes) in example::files(language, version) {
            store::write_new(&folder.join(path), bytes)?;
        }
        Ok(())
    }

    fn evaluated(&self) -> Result<Evaluated, Failure> {
        let meter = Meter::new(self.place.json);
        let progress = |own: &Progress| meter.tell(own);
        let done = evaluate::evaluate(&Ask {
            root: &self.root,
            scenario: &self.scenario,
            target: &self.target,
            judge: &self.target,
            jobs: JOBS,
            only: &[],
            new: false,
            retry_errors: false,
            attribution: true,
            confined: self.confined,
            environment: &self.place.environment,
            now: drive::now(),
            deadline: None,
            tokens: None,
            interrupt: &self.interrupt,
            disk: &Disk::default(),
            progress: &progress,
        });
        meter.clear();
        done.map_err(failure)
    }

    /// The package for the one who designs; where it is, from the root, and its size.
    fn handed_over(&self, done: &Evaluated) -> Result<(String, u64), Failure> {
        let failed = |error: handoff::Error| Failure::new(INTERNAL, error.to_string());
        let folder = self.root.join(&done.output_dir);
        let made = handoff::make(&folder, &self.root, None, drive::now()).map_err(failed)?;
        let name = format!("{}/execute_to_init.json", done.output_dir);
        made.write(&self.root.join(&name)).map_err(failed)?;
        Ok((name, made.fitted.tokens.0))
    }

    fn page(&self, done: &Evaluated) -> Result<PathBuf, Failure> {
        let found = Where { root: self.root.clone(), scenario: self.scenario.clone() };
        let root = found.opened()?;
        let all = evaluate::iterations(&root, &self.scenario).map_err(failure)?;
        let own = all.iter().find(|own| own.number == done.iteration);
        let own = own.ok_or_else(|| Failure::new(INTERNAL, "the iteration is gone"))?;
        let summary = own.summary(&root).map_err(failure)?;
        let report = own.report(&root).map_err(failure)?;
        let file = self.root.join(Path::new(&format!("report-{}.html", done.iteration)));
        if let Some((summary, report)) = summary.zip(report) {
            write_page(&file, &root, own, &summary, &report)?;
        }
        Ok(file)
    }
}
