//! `baton`: arguments in, one reply out. Commands return what they found; only this file prints
//! and only this file decides the exit code.

mod args;
mod cmd;
mod progress;
mod reply;
mod signals;
mod terminal;

use std::io::{self, Write};
use std::process::ExitCode;

use baton_core::text;
use clap::Parser;

use crate::args::Cli;
use crate::reply::Reply;

fn main() -> ExitCode {
    baton_runtime::sandbox::launch_if_asked();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(mut error) => {
            args::explain(&mut error);
            // Help and version are no errors; everything else is usage, exit 2.
            let code = if error.use_stderr() { reply::USAGE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let json = cli.json;
    let reply = cmd::run(cli).unwrap_or_else(|failure| failure.into_reply());
    baton_runtime::sandbox::remove_groups();
    match print(&reply, json) {
        Ok(()) => ExitCode::from(reply.code),
        // Whoever read our output has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(reply.code),
        Err(_) => ExitCode::from(reply::INTERNAL),
    }
}

fn print(reply: &Reply, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", reply::plain_json(&serde_json::to_string_pretty(&reply.json)?))?;
    } else {
        // Titles, paths and texts of a blackboard may hold terminal escapes.
        out.write_all(text::escaped(&reply.text).as_bytes())?;
    }
    out.flush()?;
    let errors = if json { "" } else { &reply.errors };
    for text in [&reply.notes, errors].into_iter().filter(|text| !text.is_empty()) {
        io::stderr().lock().write_all(text::escaped(text).as_bytes())?;
    }
    Ok(())
}
