//! A project whose team is played by a shell script: real processes, real files.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::Place;

/// Plays the team: `play/<iteration>-<STAGE>[-<subloop>]` is the answer, or a script for it.
const AGENT: &str = r#"
cat > prompt-of-$BATON_STAGE.txt
mv prompt-of-$BATON_STAGE.txt ../prompts/$BATON_ITERATION-$BATON_STAGE-$BATON_ATTEMPT.txt
name=../play/$BATON_ITERATION-$BATON_STAGE${BATON_SUBLOOP:+-$BATON_SUBLOOP}
echo "$name attempt $BATON_ATTEMPT" >> ../calls
[ -f "$name.sh" ] && . "$name.sh"
cat "$name"
"#;

pub fn decision(next: &str, plan: &str) -> String {
    format!(
        r#"{{"next_agent":"{next}","reason":"M1-T1 is next","dev_plan":{plan},"finish_review_override":null,"task":"M1-T1"}}"#
    )
}

pub fn report(iteration: u32, verdict: &str, blockers: &str) -> String {
    format!("iteration: {iteration}\nverdict: {verdict}\nblockers: {blockers}\n\nM1-T1\n")
}

impl Place {
    /// A project with the team, and without a blackboard.
    pub fn of_team(program: impl Into<PathBuf>) -> Place {
        let place = Place::new(program).at("project");
        for folder in ["play", "prompts", "home/.cache"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        place.write("project/src/lib.rs", "fn add() {}\n");
        place.write("agent.sh", AGENT);
        // Its plays have a decision of MAIN for each iteration. What the policy decides by itself has
        // tests of its own.
        place.write(
            "home/.config/baton/baton.toml",
            "[executors.script]\ncommand = [\"sh\", \"../agent.sh\"]\n\n[features]\nrouting = false\n",
        );
        place
    }

    /// Makes the blackboard of a pack.
    pub fn with_board(self, pack: &str) -> Place {
        self.expect(&["init", "--pack", pack], 0);
        self
    }

    /// Rules for runs that are about something else: no coverage, and REVIEW's pass is enough.
    pub fn with_short_rules(&self) {
        let policy = "project/.baton/memory/verification_policy.json";
        let mut rules: Value = serde_json::from_str(&self.read(policy)).unwrap();
        rules["tdd_rules"]["min_coverage"] = 0.into();
        rules["finish_rules"]["passes"] = json!(["REVIEW"]);
        self.write(policy, format!("{rules:#}\n"));
    }

    pub fn play(&self, name: &str, answer: &str) {
        self.write(&format!("play/{name}"), answer);
    }

    /// The user runs this command in the project while a stage works.
    pub fn user_runs_during(&self, stage: &str, command: &str) {
        let (asked, done) = (format!("asked-{stage}"), format!("done-{stage}"));
        let line = format!("touch ../{asked}; while ! [ -e ../{done} ]; do sleep 0.02; done\n");
        self.write(&format!("play/{stage}.sh"), line);
        let (asked, done) = (self.path(&asked), self.path(&done));
        let (folder, command) = (self.path("project"), command.to_owned());
        std::thread::spawn(move || {
            let start = Instant::now();
            while !asked.exists() && start.elapsed() < Duration::from_secs(120) {
                std::thread::sleep(Duration::from_millis(10));
            }
            let mut user = Command::new("sh");
            let status = user.args(["-c", &command]).current_dir(folder).status().unwrap();
            assert!(status.success(), "{command}");
            fs::write(done, "").unwrap();
        });
    }

    /// MAIN finishes, with the task of the plan verified, and every check passes.
    pub fn play_finish(&self, iteration: u32) {
        let verified = "\"update M1-T1 status to VERIFIED\"";
        self.play(&format!("{iteration}-MAIN"), &decision("FINISH", verified));
        self.play(&format!("{iteration}-FINISH_REVIEW"), &report(iteration, "PASS", "none"));
        self.play(&format!("{iteration}-FINISH_CHECK"), &decision("FINISH", "null"));
    }

    pub fn calls(&self) -> Vec<String> {
        self.read("calls").lines().map(|line| line.replace("../play/", "")).collect()
    }

    pub fn history(&self) -> String {
        self.read("project/.baton/memory/project_history.md")
    }
}
