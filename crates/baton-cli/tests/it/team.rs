//! A project whose team is played by a shell script: real processes, real files.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

/// Plays the team: `play/<iteration>-<STAGE>[-<subloop>]` is the answer, or a script for it.
const AGENT: &str = r#"
cat > prompt-of-$BATON_STAGE.txt
mv prompt-of-$BATON_STAGE.txt ../prompts/$BATON_ITERATION-$BATON_STAGE-$BATON_ATTEMPT.txt
name=../play/$BATON_ITERATION-$BATON_STAGE${BATON_SUBLOOP:+-$BATON_SUBLOOP}
echo "$name attempt $BATON_ATTEMPT" >> ../calls
[ -f "$name.sh" ] && . "$name.sh"
cat "$name"
"#;

pub(crate) fn decision(next: &str, plan: &str) -> String {
    format!(
        r#"{{"next_agent":"{next}","reason":"M1-T1 is next","dev_plan":{plan},"finish_review_override":null,"task":"M1-T1"}}"#
    )
}

pub(crate) fn report(iteration: u32, verdict: &str, blockers: &str) -> String {
    format!("iteration: {iteration}\nverdict: {verdict}\nblockers: {blockers}\n\nM1-T1\n")
}

impl Place {
    /// A project with the blackboard of a pack, and a team that is played by a script.
    pub(crate) fn with(pack: &str) -> Place {
        let place = Place::without_board();
        assert!(place.run(&["init", "--pack", pack]).status.success());
        place
    }

    /// A project without a blackboard, and the team.
    pub(crate) fn without_board() -> Place {
        let place = Place { folder: TempDir::new().unwrap() };
        for folder in ["project/src", "play", "prompts", "home/.config/baton"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        place.write("project/src/lib.rs", "fn add() {}\n");
        place.write("agent.sh", AGENT);
        place.write(
            "home/.config/baton/baton.toml",
            "[executors.script]\ncommand = [\"sh\", \"../agent.sh\"]\n",
        );
        place
    }

    /// Rules for runs that are about something else: no coverage, and REVIEW's pass is enough.
    pub(crate) fn with_short_rules(&self) {
        let policy = "project/.baton/memory/verification_policy.json";
        let mut rules: serde_json::Value = serde_json::from_str(&self.read(policy)).unwrap();
        rules["tdd_rules"]["min_coverage"] = 0.into();
        rules["finish_rules"]["passes"] = serde_json::json!(["REVIEW"]);
        self.write(policy, format!("{rules:#}\n"));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn play(&self, name: &str, answer: &str) {
        self.write(&format!("play/{name}"), answer);
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(args).current_dir(self.path("project")).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["BATON_", "ANTHROPIC_", "OPENAI_", "XDG_"].iter().any(|own| text.starts_with(own)) {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.path("home"));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs and expects this exit code; what was said.
    pub(crate) fn expect(&self, args: &[&str], code: i32) -> String {
        let output = self.run(args);
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        said
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.read("calls").lines().map(|line| line.replace("../play/", "")).collect()
    }

    pub(crate) fn history(&self) -> String {
        self.read("project/.baton/memory/project_history.md")
    }
}
