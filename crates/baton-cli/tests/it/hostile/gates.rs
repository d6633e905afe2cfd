//! Gates run what agents wrote. What an agent's command may not do, its test may not do either.

use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_testkit::{Model, Place, call, text};
use serde_json::json;

const KEY: &str = "CANARY-GATE-51ad";

/// A gate that runs a script of the project; what the script tries, and leaves if it works.
fn place(script: &str) -> Place {
    let place = crate::team("tdd");
    place.write("project/test.sh", script);
    place.write("home/.ssh/id_rsa", KEY);
    place.write("home/.bashrc", "# mine\n");
    place.write("outside/file", "mine\n");
    place.git(&["init", "-q"]);
    place.git(&["add", "."]);
    place.git(&["commit", "-q", "-m", "one"]);
    place
}

/// Counts who connects.
fn listener() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counter.fetch_add(1, Ordering::SeqCst);
            drop(stream.take(1));
        }
    });
    (port, count)
}

const HARM: &str = "echo x >> $HOME/.bashrc; echo x > ../outside/new; rm -f ../outside/file; \
    git config core.fsmonitor x; echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; \
    cat $HOME/.ssh/id_rsa; (echo x > /dev/tcp/127.0.0.1/@) 2>/dev/null; echo 'test result: ok. 1 passed'";

#[test]
fn a_gate_does_no_harm_with_what_an_agent_wrote() {
    // The control: without the sandbox it all happens, but for what a view keeps from the project.
    for flags in [&["--no-sandbox"][..], &[]] {
        let (port, connections) = listener();
        let place = place(&HARM.replace('@', &port.to_string()));
        place.expect(&["gate", "add", "--no-run", "bash test.sh"], 0);
        let config = place.read("project/.git/config");
        let said = place.expect(&[&["gate", "run"], flags].concat(), 0);
        let is_control = !flags.is_empty();
        assert_eq!(place.read("home/.bashrc") != "# mine\n", is_control, "{said}");
        assert_eq!(place.path("outside/new").exists(), is_control, "{said}");
        assert_eq!(!place.path("outside/file").exists(), is_control, "{said}");
        assert_eq!(said.contains(KEY), is_control, "{said}");
        assert_eq!(connections.load(Ordering::SeqCst) > 0, is_control, "{said}");
        assert_eq!(place.read("project/.git/config"), config);
        assert!(!place.path("project/.git/hooks/pre-commit").exists());
    }
}

#[test]
fn gate_add_says_which_exception_a_gate_needs_and_gives_it_only_when_it_is_named() {
    let (port, connections) = listener();
    let network = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'");
    for (command, needed) in [(network.as_str(), "network"), ("cat $HOME/.ssh/id_rsa", "home")] {
        let place = place("");
        let said = place.expect(&["gate", "add", command], 2);
        assert!(said.contains("fails when it is confined"), "{said}");
        assert!(said.contains(&format!("--allow {needed}")), "{said}");
        assert!(place.expect(&["gate", "list"], 0).contains("no gate is set"));
        let said = place.expect(&["gate", "add", "--allow", needed, command], 0);
        assert!(
            said.contains("passed") && said.contains(&format!("(allowed: {needed})")),
            "{said}"
        );
        let said = place.expect(&["gate", "list"], 0);
        assert!(said.contains(&format!("(allowed: {needed})")), "{said}");
        place.expect(&["gate", "run"], 0);
    }
    assert!(connections.load(Ordering::SeqCst) >= 3);
    // One that fails with every exception is added as before: it fails now.
    let said = place("").expect(&["gate", "add", "echo one failed; exit 1"], 0);
    assert!(said.contains("it fails now"), "{said}");
}

#[test]
fn an_exception_that_a_file_of_the_project_gives_counts_only_after_the_user_agreed() {
    let place = place("");
    place.expect(&["gate", "add", "--timeout", "601", "cat src/lib.rs"], 0);
    let name = "project/.baton/memory/verification_policy.json";
    for what in ["network", "home", "everything"] {
        let policy = place.read(name);
        let given = policy.replacen(
            "\"timeout\": 601",
            &format!("\"timeout\": 601, \"allow\": [\"{what}\"]"),
            1,
        );
        assert_ne!(policy, given);
        place.write(name, &given);
        let said = place.expect(&["gate", "run"], 2);
        assert!(
            said.contains(&format!("(allowed: {what})")) && said.contains("baton trust"),
            "{said}"
        );
        place.write(name, &policy);
        place.expect(&["gate", "run"], 0);
    }
    place.write(
        name,
        place.read(name).replacen("\"timeout\": 601", "\"timeout\": 601, \"allow\": [\"all\"]", 1),
    );
    let said = place.expect(&["gate", "run"], 2);
    assert!(said.contains("allow") && said.contains("network"), "{said}");
}

#[test]
fn gates_share_a_cache_that_is_neither_the_users_nor_a_projects() {
    let line = "mkdir -p $XDG_CACHE_HOME $GOCACHE && cat $XDG_CACHE_HOME/x; echo kept-$((1 + 1)) > $XDG_CACHE_HOME/x; \
        ! (echo x > $HOME/.cache/x) 2>/dev/null";
    let own = place("");
    own.write("home/.cache/mine", "mine\n");
    own.expect(&["gate", "add", "--no-run", line], 0);
    assert!(!own.expect(&["gate", "run"], 0).contains("kept-2"));
    assert!(own.expect(&["gate", "run"], 0).contains("kept-2"));
    assert!(!own.path("home/.cache/x").exists() && !own.path("home/.cache/xdg").exists());
    let said = own.expect(&["gc", "--dry-run"], 0);
    assert!(said.contains("the caches of gates and agents would be removed"), "{said}");
    own.expect(&["gc"], 0);
    assert!(!own.expect(&["gate", "run"], 0).contains("kept-2"));
}

/// Commands of agents have caches, too, and what they write there misleads no gate and no reviewer.
#[test]
fn agents_have_a_cache_that_neither_gates_nor_reviewers_read() {
    let line = "mkdir -p $XDG_CACHE_HOME && cat $XDG_CACHE_HOME/x; echo kept-$((1 + 1)) > $XDG_CACHE_HOME/x; \
        ! (echo x > $HOME/.cache/x) 2>/dev/null";
    let said = |flags: &[&str], place: Place| {
        let bash = call("Bash", json!({ "command": line }));
        let place = place.with_model(Model::start(vec![bash, text("done")]));
        let args = ["exec", "-p", "go", "--provider", "openai-chat", "--model", "scripted"];
        let url = place.model().url.clone();
        let flags = [&args[..], &["--base-url", &url], flags].concat();
        baton_testkit::answer(place.plain(&flags)).expect(&flags, 0);
        let told = place.model().requests().pop().unwrap()["messages"].to_string();
        (told.contains("kept-2"), place)
    };
    let own = place("");
    let (is_kept, own) = said(&[], own);
    assert!(!is_kept);
    let (is_kept, own) = said(&[], own);
    assert!(is_kept, "the next command of an agent finds it");
    let (is_kept, own) = said(&["--read-only"], own);
    assert!(!is_kept, "who may not write has another");
    let gate = |args: &[&str]| baton_testkit::answer(own.plain(args)).expect(args, 0);
    gate(&["gate", "add", "--no-run", line]);
    assert!(!gate(&["gate", "run"]).contains("kept-2"));
    assert!(!own.path("home/.cache/x").exists());
}
