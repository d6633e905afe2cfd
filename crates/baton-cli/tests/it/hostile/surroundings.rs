//! The surroundings of Baton on a machine: a proxy that the environment names, a limit of processes that is
//! nearly reached.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_testkit::{Model, Place, Server, call, send, text};
use serde_json::json;

use super::{answering, at_once, said};

/// The names under which the environment may hold a proxy for `http://` addresses.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Listens at `::1` and passes all on to this port of `127.0.0.1`. `None`: this machine has no `::1`.
fn by_ipv6(port: u16) -> Option<u16> {
    let listener = TcpListener::bind("[::1]:0").ok()?;
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
            {
                std::thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    Some(own)
}

/// Asks a model at this address, with the proxy in this variable.
fn asks(place: &Place, url: &str, variable: &str, proxy: &Server) -> (Option<i32>, String) {
    let mut command = place.plain(&["exec", "-p", "Go.", "--provider", "openai-chat"]);
    command.args(["--model", "scripted", "--base-url", url, "--key-over-http"]);
    let output = command.env(variable, &proxy.url).output().unwrap();
    (output.status.code(), said(&output))
}

#[test]
fn a_model_on_this_machine_is_called_without_the_users_proxy() {
    let refusing = || Server::start(vec![vec![send(400, "application/json", "{}")]]);
    let cases: Vec<(&str, &str)> = PROXIES
        .iter()
        .flat_map(|name| ["127.0.0.1", "localhost", "[::1]"].map(|host| (*name, host)))
        .collect();
    at_once(&cases, |(variable, host)| {
        let place = answering(vec![text("Hello.")]);
        let own = &place.model().url;
        let port = own.rsplit_once(':').unwrap().1.trim_end_matches("/v1").parse().unwrap();
        let port = if *host == "[::1]" { by_ipv6(port) } else { Some(port) };
        let Some(port) = port else {
            println!("WARNING: NOT RUN on this machine: [::1] with {variable}: it has no ::1");
            return;
        };
        let proxy = refusing();
        let (code, told) = asks(&place, &format!("http://{host}:{port}/v1"), variable, &proxy);
        assert_eq!(code, Some(0), "{variable} {host}: {told}");
        assert_eq!(place.model().requests().len(), 1, "{variable} {host}: {told}");
        let heard = proxy.asked();
        assert!(heard.is_empty(), "{variable} {host}: the proxy was asked {heard:?}");
    });
    // The control: another machine is called by way of the proxy.
    at_once(&PROXIES, |variable| {
        for host in ["model.example", "localhost.example", "127.0.0.1.example"] {
            let (place, proxy) = (answering(vec![text("never")]), refusing());
            let (code, told) = asks(&place, &format!("http://{host}/v1"), variable, &proxy);
            assert_ne!(code, Some(0), "{variable} {host}: {told}");
            let asked = proxy.asked();
            assert!(asked.iter().any(|own| own.path.contains(host)), "{variable} {host}: {told}");
        }
    });
}

/// The first of the users of this machine who have no other process.
const STRANGERS: u32 = 61_400;
/// Processes and threads that a stranger may have; more are enough for everything.
const LIMITS: u32 = 10;

/// A place that belongs to this user.
fn of_stranger(stranger: u32, model: Model) -> Place {
    let place = super::among_others(model);
    let parent = place.root().parent().unwrap();
    fs::set_permissions(parent, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("chown");
    command.args(["-R", &format!("{stranger}:{stranger}")]).arg(place.root());
    assert!(command.status().unwrap().success());
    place
}

/// Runs as the stranger, who may have this number of processes and threads; the exit code, and all
/// that was printed.
fn limited(program: &Path, args: &[&str], stranger: u32, processes: u32) -> (Option<i32>, String) {
    let decision = json!({ "next_agent": "USER", "reason": "which?", "dev_plan": null, "finish_review_override": null, "question": { "title": "Which way?", "text": "A or B", "options": [{ "option_id": "a", "description": "A" }, { "option_id": "b", "description": "B" }], "recommended_option_id": "a" } });
    let asked = args[0].to_owned();
    let model = Model::answering(move |number, _| match (asked.as_str(), number) {
        ("exec", 0) => call("Bash", json!({ "command": "echo hello" })),
        ("run", _) => text(&decision.to_string()),
        _ => text("Done."),
    });
    let place = of_stranger(stranger, model);
    let is_asking = matches!(args[0], "exec" | "run" | "models");
    let own = if is_asking { place.command(args) } else { place.plain(args) };
    let mut command = Command::new("bash");
    let line = format!("ulimit -u {processes}; exec \"$0\" \"$@\"");
    command.args(["-c", &line]).arg(program).args(own.get_args());
    command.env_clear().envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(own.get_current_dir().unwrap()).stdin(Stdio::null());
    let output = command.uid(stranger).gid(stranger).output().unwrap();
    (output.status.code(), said(&output))
}

#[test]
fn at_the_limit_of_processes_every_command_ends_with_a_clear_error() {
    if !rustix::process::geteuid().is_root() {
        println!("WARNING: NOT RUN on this machine: only root can be another user");
        return;
    }
    let commands: [(&[&str], i32); 9] = [
        (&["exec", "-p", "Go."], 0),
        (&["exec", "-p", "Go.", "--no-sandbox"], 0),
        (&["run", "Go."], 10),
        (&["run", "Go.", "--no-sandbox"], 10),
        (&["models", "ping"], 0),
        (&["models"], 2),
        (&["init", "--no-gates"], 0),
        (&["status"], 2),
        (&["doctor"], 0),
    ];
    // Where every user may go.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("baton");
    fs::copy(crate::BATON, &program).unwrap();
    let cases: Vec<(usize, u32)> = (0..commands.len())
        .flat_map(|command| (1..=LIMITS).chain([1_000]).map(move |limit| (command, limit)))
        .collect();
    let (ended, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    at_once(&cases, |(index, limit)| {
        let (args, code) = commands[*index];
        let stranger = STRANGERS + *index as u32 * 20 + limit.min(&19);
        let (found, told) = limited(&program, args, stranger, *limit);
        let what = format!("{args:?} with {limit}: {found:?} {told}");
        assert!(!told.contains("panicked"), "{what}");
        if found == Some(code) {
            ended.fetch_add(1, Ordering::SeqCst);
            // The control: without any thread there is no call of a model.
            assert!(*limit > 1 || !["exec", "run"].contains(&args[0]), "{what}");
        } else {
            refused.fetch_add(1, Ordering::SeqCst);
            assert!(
                *limit <= LIMITS && found.is_some_and(|code| (1..=9).contains(&code)),
                "{what}"
            );
            assert!(told.contains("error: ") && told.contains("temporarily unavailable"), "{what}");
        }
    });
    println!("{} ended well, {} with an error", ended.into_inner(), refused.into_inner());
}
