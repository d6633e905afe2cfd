//! Commits of agents, where the user allows them: what works, and what a command that means harm
//! brings into the real `.git`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use baton_testkit::{Model, Place, answer, call, text};
use serde_json::{Value, json};

use super::{among_others, at_once, is_sweep, tree};

const EXEC: [&str; 5] = ["exec", "--prompt", "go", "--approve", "auto"];

fn bash(command: &str) -> Value {
    call("Bash", json!({ "command": command }))
}

/// A repository with a commit, and a model that runs these commands.
fn place(lines: &[&str]) -> Place {
    let mut answers: Vec<Value> = lines.iter().map(|line| bash(line)).collect();
    answers.push(text("done"));
    let place = among_others(Model::start(answers));
    place.write("home/.gitconfig", "[user]\n\tname = A\n\temail = a@example.org\n");
    let _ = std::fs::remove_dir_all(place.path("project/.git"));
    place.write("project/first", "first\n");
    place.git(&["init", "-q", "-b", "main"]);
    place.git(&["add", "."]);
    place.git(&["commit", "-q", "-m", "first"]);
    place
}

fn committing(place: &Place) -> Command {
    let mut command = place.command(&EXEC);
    command.env("BATON_AGENT_COMMITS", "true");
    command
}

/// What the user is told, and what the model was told.
fn obeyed(place: &Place) -> (String, String) {
    let said = answer(committing(place)).expect(&EXEC, 0);
    (said, told(place))
}

/// The results that the model got.
fn told(place: &Place) -> String {
    let request = place.model().requests().pop().unwrap();
    let messages = request["messages"].as_array().unwrap();
    let results = messages.iter().filter(|own| own["role"] == "tool");
    results.map(|own| own["content"].as_str().unwrap().to_owned() + "\n").collect()
}

/// What git prints to the user, which runs whatever the repository names.
fn git(place: &Place, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(args).current_dir(place.path("project")).env("HOME", place.path("home"));
    let output = command.output().unwrap();
    let said = format!("{}{}", super::said(&output), output.status);
    assert!(output.status.success(), "git {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Looks at the repository as a user does: nothing runs, nothing is broken.
fn look(place: &Place, case: &str) {
    for args in [&["status"][..], &["log", "-p"], &["stash", "list"], &["branch", "-a"], &["diff"]]
    {
        git(place, args);
    }
    let found = git(place, &["fsck", "--strict", "--no-dangling"]);
    assert_eq!(found, "", "{case}");
    for ran in ["ran", "project/ran"] {
        assert!(!place.path(ran).exists(), "{case}");
    }
    assert_eq!(left(&place.path("project/.git")), Vec::<PathBuf>::new(), "{case}");
    assert_eq!(copies(place), Vec::<PathBuf>::new(), "{case}");
}

/// Files of Baton in a git folder.
fn left(git: &Path) -> Vec<PathBuf> {
    let is_left = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.contains("baton") || name.ends_with(".lock")
    };
    tree(git, &[]).keys().filter(is_left).cloned().collect()
}

/// Copies that are still there.
fn copies(place: &Place) -> Vec<PathBuf> {
    let all = tree(&place.path("home"), &[]);
    let is_copy = |path: &&PathBuf| path.parent().is_some_and(|own| own.ends_with("baton/commits"));
    all.keys().filter(is_copy).cloned().collect()
}

#[test]
fn commits_stashes_branches_tags_and_merges_are_found_in_the_real_repository() {
    let place = place(&[
        "echo one > a && git add a && git commit -qm one",
        "echo dirty > a && git stash -q && cat a && git stash list",
        "git stash pop -q && cat a && git commit -qam two",
        "git checkout -qb feature && echo f > f && git add f && git commit -qm feature",
        "git checkout -q main && echo m > m && git add m && git commit -qm m",
        "git merge -q --no-edit feature && git branch -d feature && git tag v1 && git tag -a v2 -m v2",
        "git branch x && git branch -m x y/z && git branch other",
        "echo s > a && git stash -q && echo t > a && git stash -q",
        "git commit -q --amend --no-edit && git log --oneline | cat && git branch -d packed",
        "git checkout -qb conflict HEAD^^ && echo c > m && git add m && git commit -qm c && git checkout -q main && ! git merge -q conflict",
        "echo both > m && git commit -qam both && git branch -d conflict && echo new > new && git add new",
        "echo loose > loose && git clean -fdq && echo loose > loose && git stash -uq && git stash pop -q && git add new && git clean -fdq && git status --short",
    ]);
    place.git(&["branch", "packed"]);
    place.git(&["gc", "-q"]);
    let (said, told) = obeyed(&place);
    assert!(!told.contains("taken over") && !told.contains("fatal"), "{told}");
    assert!(!said.contains("taken over"), "{said}");
    assert!(said.contains("in git, without hooks and signatures: `main` is now at "), "{said}");
    assert!(said.contains("the last commit is ") && !told.contains("Device or resource"), "{said}");
    let log = git(&place, &["log", "--format=%s"]);
    let words = ["first", "one", "two", "feature", "m", "c", "both"];
    assert!(words.iter().all(|word| log.lines().any(|line| line == *word)), "{log}");
    assert_eq!(git(&place, &["log", "-1", "--format=%p"]).split_whitespace().count(), 2);
    assert_eq!(git(&place, &["stash", "list"]).lines().count(), 2);
    assert_eq!(git(&place, &["branch", "--format=%(refname:short)"]), "main\nother\ny/z\n");
    assert_eq!(git(&place, &["tag"]), "v1\nv2\n");
    assert_eq!(git(&place, &["status", "--porcelain"]), "A  new\n");
    assert!(git(&place, &["reflog"]).contains("commit (amend)"));
    look(&place, "");
    // The user continues from there.
    place.git(&["stash", "pop", "-q"]);
    place.git(&["commit", "-q", "-a", "-m", "by the user"]);
    look(&place, "after the user");
}

#[test]
fn the_first_commit_of_a_repository_can_be_an_agents() {
    let place = place(&["git add . && git commit -qm begin && git checkout -q --detach"]);
    std::fs::remove_dir_all(place.path("project/.git")).unwrap();
    place.git(&["init", "-q", "-b", "main"]);
    let (_, told) = obeyed(&place);
    assert_eq!(git(&place, &["log", "--format=%s", "main"]), "begin\n", "{told}");
    look(&place, "");
}

#[test]
fn without_the_users_word_the_git_folder_stays_as_it_is() {
    let line =
        "echo one > a; git add a; git commit -m one; git stash; git checkout -b x; git tag y";
    let place = place(&[line]);
    let git = place.path("project/.git");
    let before = tree(&git, &[]);
    place.expect(&EXEC, 0);
    assert_eq!(tree(&git, &[]), before);
    let words = place.model().requests().pop().unwrap().to_string();
    assert!(words.contains("but not .git ("), "{words}");
}

/// A repository whose kind is not known is read-only, and both are told why.
#[test]
fn a_repository_that_cannot_be_copied_is_read_only() {
    for (settings, why) in [
        (&["extensions.foo", "true"], "extensions.foo"),
        (&["core.worktree", ".."], "core.worktree"),
        (&["filter.x.clean", "cat"], "filter.clean"),
        (&["core.sparseCheckout", "true"], "core.sparsecheckout"),
    ] {
        let place = place(&["git log --oneline | cat; echo x > x; git add x"]);
        place.git(&["config", settings[0], settings[1]]);
        let before = tree(&place.path("project/.git"), &[]);
        let (_, told) = obeyed(&place);
        assert_eq!(tree(&place.path("project/.git"), &[]), before, "{why}");
        let words = place.model().requests().pop().unwrap().to_string();
        assert!(words.contains("although the user allows commits: "), "{words}");
        assert!(told.contains("commits do not work here") && told.contains(why), "{told}");
    }
}

const COMMIT: &str = "git commit -q --allow-empty -m harmless";

/// What a command does to its copy, and why nothing of it is taken over. No reason: what it does beside
/// a commit means nothing to the real repository.
const ATTACKS: [(&str, &str); 29] = [
    (
        "for h in post-checkout pre-commit fsmonitor; do printf '#!/bin/sh\\ntouch ran\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done",
        "",
    ),
    (
        "git config core.fsmonitor 'touch ran; false'; git config --unset core.fsmonitor; printf '[core]\\nfsmonitor = touch ran\\n[include]\\npath = ../x\\n[alias]\\nst = !touch ran\\n[diff]\\nexternal = touch ran\\n[filter \"x\"]\\nclean = touch ran\\n' > .git/config.new; mv .git/config.new .git/c; cp .git/c .git/config; rm .git/c",
        "",
    ),
    (
        "mkdir .git/x; echo ../.. > .git/x/commondir; echo x > .git/description; echo x > .git/config.worktree",
        "",
    ),
    ("GC; echo ../../../elsewhere > .git/objects/info/alternates", "alternates"),
    ("GC; git rev-parse HEAD > .git/objects/info/alternates", "alternates"),
    ("GC; mv .git/objects .git/o; ln -s o .git/objects", "alternates"),
    ("GC; mv .git/objects/pack .git/p; ln -s ../p .git/objects/pack", "is a link"),
    ("git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub", "new submodule"),
    (
        "echo \"$(git rev-parse HEAD) refs/heads/../../config\" >> .git/packed-refs",
        "not the name of a ref",
    ),
    ("echo \"$(git rev-parse HEAD) refs/heads/-x\" >> .git/packed-refs", "not the name of a ref"),
    (
        "echo \"$(git rev-parse HEAD) ../config\" >> .git/packed-refs",
        "only branches, tags and the stash",
    ),
    ("ln -s ../../config .git/refs/heads/x", "not a regular file"),
    ("mv .git/refs .git/r; ln -s r .git/refs", "refs is not a folder"),
    ("mkfifo .git/refs/heads/x", "not a regular file"),
    ("rm .git/logs/HEAD; mkfifo .git/logs/HEAD", "HEAD"),
    ("mv .git/logs .git/l; ln -s l .git/logs", "logs is not a folder"),
    ("GC; echo 1 >> .git/logs/HEAD", "damaged"),
    ("GC; git reflog expire --expire=now --all", "lost entries"),
    ("echo 'ref: refs/../config' > .git/HEAD", "HEAD does not name a branch"),
    ("echo 'ref: refs/heads/../../config' > .git/HEAD", "not the name of a ref"),
    ("rm .git/HEAD; ln -s config .git/HEAD", "HEAD"),
    (
        "echo 0123456789012345678901234567890123456789 > .git/refs/heads/x",
        "0123456789012345678901234567890123456789",
    ),
    (
        "git hash-object -w --stdin < first > .git/refs/heads/x; echo y > y; git hash-object -w y > .git/refs/heads/y",
        "expected commit",
    ),
    (
        "GC; a=$(git rev-parse HEAD); git commit -q --allow-empty -m other; b=$(git rev-parse HEAD); o=.git/objects; cp -f $o/${b:0:2}/${b:2} $o/${a:0:2}/${a:2}; git update-ref refs/heads/x $a; git reset -q --hard HEAD^",
        "git could not",
    ),
    ("GC; truncate -s 1G .git/logs/HEAD", "too large"),
    ("truncate -s 1G .git/index", "too large"),
    ("echo x > -git; git add ./-git; sed -i 's/-git/.git/' .git/index", "name of a git folder"),
    ("git symbolic-ref refs/heads/x refs/heads/main", "not the hash of an object"),
    (
        "printf '[submodule \"a\"]\\n path = sub\\n url = ./sub\\n update = !touch ran\\n' > .gitmodules; git add .gitmodules; GC",
        "git could not check",
    ),
];

#[test]
fn nothing_of_a_copy_that_means_harm_reaches_the_real_repository() {
    at_once(&ATTACKS, |(line, why)| {
        let line = match why.is_empty() {
            true => format!("{line}; {COMMIT}"),
            false => line.replace("GC", COMMIT),
        };
        // What runs in the sandbox is the command's own.
        let line = format!("{line}; rm -f ran");
        let place = place(&[&line]);
        let git_folder = place.path("project/.git");
        let kept = ["config", "hooks", "info", "description"].map(|name| git_folder.join(name));
        let before = tree(&git_folder, &[]);
        let (said, told) = obeyed(&place);
        let after = tree(&git_folder, &[]);
        if why.is_empty() {
            for (path, own) in
                before.iter().filter(|(path, _)| kept.iter().any(|k| path.starts_with(k)))
            {
                assert_eq!(after.get(path), Some(own), "{line}: {path:?}");
            }
            assert!(git(&place, &["log", "--format=%s"]).contains("harmless"), "{line}: {told}");
            let new = after.keys().filter(|path| !before.contains_key(*path));
            let new: Vec<&PathBuf> =
                new.filter(|path| !path.starts_with(git_folder.join("objects"))).collect();
            assert!(new.iter().all(|path| path.ends_with("COMMIT_EDITMSG")), "{line}: {new:?}");
        } else {
            assert_eq!(after, before, "{line}: {told}");
            assert!(told.contains("nothing that the command changed in .git"), "{line}: {told}");
            assert!(told.contains(why), "{line}: {told}");
            assert!(said.contains("nothing that the command changed in .git"), "{line}: {said}");
        }
        look(&place, &line);
    });
}

/// A flag or false time in the index would hide from the user what the command wrote.
#[test]
fn the_index_hides_no_change_from_the_user() {
    let place = place(&[
        "echo changed > first; git update-index --assume-unchanged first",
        "git reset -q --hard; echo first > first; git add first; touch -r first t; echo FIRST > first; touch -r t first; rm t; git status",
    ]);
    let (_, told) = obeyed(&place);
    assert!(told.contains("hides changes of a file"), "{told}");
    assert_eq!(git(&place, &["status", "--porcelain"]), " M first\n");
    look(&place, "");
}

fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "{} is not made", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_the_user_does_meanwhile_is_not_lost() {
    let line = format!(
        "echo agent > agent; git add agent; {COMMIT}; touch begun; while ! test -e go; do sleep 0.02; done; rm go begun"
    );
    for by_user in [
        &["commit", "-q", "--allow-empty", "-m", "by the user"][..],
        &["branch", "users"],
        &["checkout", "-q", "-b", "users"],
        &["add", "users"],
    ] {
        let place = place(&[&line]);
        place.write("project/users", "x\n");
        let child = committing(&place).stdout(std::process::Stdio::piped()).spawn().unwrap();
        wait_for(&place.path("project/begun"));
        place.git(by_user);
        let git_folder = place.path("project/.git");
        let before = tree(&git_folder, &[]);
        place.write("project/go", "");
        assert!(child.wait_with_output().unwrap().status.success());
        assert_eq!(tree(&git_folder, &[]), before, "{by_user:?}");
        let told = told(&place);
        assert!(told.contains("changed from outside while the command ran"), "{told}");
        look(&place, "");
    }
}

#[test]
fn a_kill_at_any_moment_leaves_a_whole_repository_and_the_next_start_removes_the_rest() {
    let times: Vec<u64> = (0..if is_sweep() { 80 } else { 8 }).collect();
    at_once(&times, |number| {
        let line = format!(
            "echo x > x; git add x; {COMMIT}; echo y > x; git stash -q; git branch b; touch made"
        );
        let place = place(&[&line]);
        let mut child = committing(&place).stdout(std::process::Stdio::null()).spawn().unwrap();
        wait_for(&place.path("project/made"));
        std::thread::sleep(Duration::from_millis(number * 25 % 199));
        child.kill().unwrap();
        child.wait().unwrap();
        git(&place, &["fsck", "--strict", "--no-dangling"]);
        let place = place.with_model(Model::start(vec![text("hello")]));
        answer(committing(&place)).expect(&EXEC, 0);
        look(&place, &format!("{number}"));
    });
}

#[test]
fn locks_that_a_kill_leaves_are_removed_by_the_next_start_and_those_of_others_are_not() {
    let place = place(&[&format!("{COMMIT}; touch made")]);
    // Of another git, which waits: the locks before it are held as long.
    place.write("project/.git/refs/heads/main.lock", "");
    let locks = ["index", "HEAD", "packed-refs"]
        .map(|name| place.path(&format!("project/.git/{name}.lock")));
    let mut child = committing(&place).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_for(&locks[2]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(locks.iter().all(|lock| lock.exists()));
    let place = place.with_model(Model::start(vec![text("hello")]));
    answer(committing(&place)).expect(&EXEC, 0);
    assert_eq!(
        left(&place.path("project/.git")),
        [place.path("project/.git/refs/heads/main.lock")]
    );
    std::fs::remove_file(place.path("project/.git/refs/heads/main.lock")).unwrap();
    assert_eq!(git(&place, &["log", "--format=%s"]), "first\n");
    look(&place, "");
}
