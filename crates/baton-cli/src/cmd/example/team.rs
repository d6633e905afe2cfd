//! The team of the demo: what each stage says, written in advance, and the files of the scenario that
//! it writes on its way.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{NAME, Version, files};
use crate::cmd::scripted::{Asked, Says};

/// By iteration and stage.
pub(super) struct Team {
    language: String,
    said: Value,
}

impl Team {
    pub(super) fn of(language: &str) -> Result<Team, String> {
        let file = super::FILES.get_file(format!("{language}/team.json"));
        let text = file.and_then(include_dir::File::contents_utf8);
        let text = text.ok_or_else(|| format!("there is no demo in `{language}`"))?;
        let said = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(Team { language: language.to_owned(), said })
    }

    /// What the team says; `None` where it is not the team that is asked.
    pub(super) fn says(&self, asked: &Asked) -> Option<Result<Says, String>> {
        let stage = asked.header("x-baton-stage")?.to_uppercase();
        let name = format!("{}-{stage}", asked.header("x-baton-iteration").unwrap_or_default());
        let own = self.said[&name].as_array()?;
        let mut steps = own.iter().flat_map(|step| self.steps(step));
        let reply = steps.nth(asked.step());
        Some(reply.ok_or_else(|| format!("nobody wrote an answer for {name}")))
    }

    /// One entry may stand for many calls.
    fn steps(&self, entry: &Value) -> Vec<Says> {
        let version = |number: &Value| match number.as_u64() {
            Some(2) => Version::Repaired,
            _ => Version::First,
        };
        let is_design = |path: &PathBuf| {
            baton_core::scenario::DESIGN.iter().any(|own| path.as_os_str() == *own)
        };
        let path = |path: &PathBuf| format!("scenarios/{NAME}/{}", path.display());
        let of = |number: &Value, is_wanted: &dyn Fn(&PathBuf) -> bool| {
            let all = files(&self.language, version(number)).into_iter();
            all.filter(|(path, _)| is_wanted(path)).collect::<Vec<_>>()
        };
        let call = |tool: &str, arguments: Value| Says::Call { tool: tool.to_owned(), arguments };
        let write = |all: Vec<(PathBuf, &[u8])>| {
            let writes = all.iter().map(|(own, bytes)| {
                let content = String::from_utf8_lossy(bytes);
                call("Write", json!({ "path": path(own), "content": content }))
            });
            writes.collect()
        };
        match entry.as_object().and_then(|own| own.iter().next()) {
            Some((key, number)) if key == "design" => write(of(number, &is_design)),
            Some((key, number)) if key == "parts" => write(of(number, &|own| !is_design(own))),
            Some((key, number)) if key == "checkers" => {
                write(of(number, &|own| own.as_os_str() == baton_core::scenario::CHECKERS))
            }
            Some((key, number)) if key == "read" => {
                let all = of(number, &is_design);
                all.iter().map(|(own, _)| call("Read", json!({ "path": path(own) }))).collect()
            }
            Some((key, tool)) if key == "tool" => {
                vec![call(tool.as_str().unwrap_or_default(), entry["arguments"].clone())]
            }
            _ => {
                let lines = entry["text"].as_array().into_iter().flatten();
                let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
                vec![Says::Text(lines.join("\n"))]
            }
        }
    }
}
