//! A machine that cannot confine: said, never silently weaker.

use std::fs;
use std::os::unix::fs::symlink;

use baton_runtime::load::Environment;
use baton_runtime::sandbox::{self, Closed, Confine, Feature, Interrupt};

use crate::ground::Ground;

pub(crate) fn refused() {
    let found = sandbox::available().as_ref().expect("these tests need a machine that can confine");
    println!("  {found:?}, namespaces for the open: {}", sandbox::has_namespaces());
    let features = [
        (Feature::UserNamespace, "user namespaces"),
        (Feature::MountNamespace, "mount namespaces"),
        (Feature::PidNamespace, "PID namespaces"),
        (Feature::NetworkNamespace, "network and IPC namespaces"),
        (Feature::Landlock, "Landlock"),
        (Feature::Seccomp, "seccomp filters"),
    ];
    for (feature, name) in features {
        let missing = sandbox::probe(vec![feature]).unwrap_err();
        assert_eq!(missing.feature, Some(feature));
        let ground = Ground::new();
        let mut closed = ground.closed();
        closed.without = vec![feature];
        let line = ["sh", "-c", "echo ran; touch ran"];
        let program = ground.program(&line, Confine::Closed(Box::new(closed)));
        let why = sandbox::run(&program, &Interrupt::default()).unwrap_err();
        assert!(why.contains(name) && why.contains("--no-sandbox"), "{why}");
        assert!(!ground.path("project/ran").exists(), "{name}: it ran all the same");
        // Asking for none is the way out, and it is said by whoever starts the program.
        ground.run(&line, Confine::Off);
        assert!(ground.path("project/ran").exists());
    }
    println!("  6 features hidden, each refused by name");
}

pub(crate) fn unprotectable() {
    let ground = Ground::new();
    fs::create_dir(ground.path("project/real")).unwrap();
    symlink("real", ground.path("project/.baton")).unwrap();
    let refused = |closed: Closed| {
        let program = ground.program(&["true"], Confine::Closed(Box::new(closed)));
        sandbox::run(&program, &Interrupt::default()).unwrap_err()
    };
    let why = refused(ground.closed());
    assert!(why.contains(".baton is a link"), "{why}");
    fs::remove_file(ground.path("project/.baton")).unwrap();
    let mut closed = ground.closed();
    closed.writable = vec!["/".into()];
    assert!(refused(closed).contains("the whole file system"));
    let home = ground.path("project/src");
    let environment = Environment::of(&[("HOME", home.to_str().unwrap())]);
    let project = ground.path("project");
    let usual =
        Closed::usual(&project, &project.join(".baton"), &ground.path("temporary"), &environment);
    assert!(usual.unwrap_err().contains("holds your home folder"));
    // What does not exist is an error of the start, as it is outside.
    for confine in [ground.confine(), ground.open(), Confine::Off] {
        let program = ground.program(&["no-such-program-7331"], confine);
        let why = sandbox::run(&program, &Interrupt::default()).unwrap_err();
        assert!(why.contains("cannot start `no-such-program-7331`: "), "{why}");
    }
}
