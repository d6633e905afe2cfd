//! Files with secrets: at home, where variables move them, of the machine. Each of them can be read
//! without a sandbox and cannot be read in one. Toolchains and settings without secrets can.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use baton_runtime::load::Environment;
use baton_runtime::sandbox::{self, Closed, Confine, How, Program};
use baton_testkit::credentials;

use crate::ground::{Ground, run};

const CANARY: &str = "CANARY-SECRET";

/// Every file below these folders and these files, by name and by search.
const SEARCH: &str = "cat \"$@\" 2>/dev/null; for i in \"$@\"; do cat \"$(dirname \"$i\")\"/* \"$(dirname \"$i\")\"/.[!.]* 2>/dev/null; done; \
    for pid in /proc/[0-9]*; do for i in \"$@\"; do cat \"$pid/root$i\" \"$pid/cwd/../$i\" 2>/dev/null; done; done; exit 0";

fn search(ground: &Ground, files: &[String], confine: Confine) -> String {
    let mut argv = vec!["sh", "-c", SEARCH, "sh"];
    argv.extend(files.iter().map(String::as_str));
    let ran = run(&Program { most: 16 << 20, ..ground.program(&argv, confine) });
    assert_eq!(ran.how, How::Exit(0), "{}", ran.stderr.text());
    ran.stdout.text()
}

fn closed(closed: Closed) -> Confine {
    Confine::Closed(Box::new(closed))
}

/// Asserts that all of them are read without a sandbox and none in this one.
fn assert_hidden(ground: &Ground, files: &[String], own: impl Fn() -> Closed, what: &str) {
    let canary = |file: &String| format!("{CANARY}-{}-", file.replace('/', "%"));
    for file in files {
        fs::create_dir_all(Path::new(file).parent().unwrap()).unwrap();
        fs::write(file, canary(file)).unwrap();
    }
    let outside = search(ground, files, Confine::Off);
    let missing: Vec<&String> =
        files.iter().filter(|file| !outside.contains(&canary(file))).collect();
    assert!(missing.is_empty(), "{what}: not read without a sandbox: {missing:?}");
    let inside = search(ground, files, closed(own()));
    let read: Vec<&String> = files.iter().filter(|file| inside.contains(&canary(file))).collect();
    assert!(read.is_empty() && !inside.contains(CANARY), "{what}: {read:?}");
}

pub(crate) fn at_home() {
    let ground = Ground::new();
    let home = ground.path("home");
    let files = |home: &Path| -> Vec<String> {
        credentials::AT_HOME
            .iter()
            .map(|name| home.join(name).to_str().unwrap().to_owned())
            .collect()
    };
    assert!(credentials::AT_HOME.len() >= 80);
    assert_hidden(&ground, &files(&home), || ground.closed(), "home");
    // A project that is itself in the home folder is seen, and nothing else.
    let inside = Ground::at(&ground.path("home/work"));
    for name in ["project/src", "temporary", "home"] {
        fs::create_dir_all(ground.path("home/work").join(name)).unwrap();
    }
    let own = |project: &Path| {
        let environment = ground.environment(&[]);
        let board = project.join(".baton");
        Closed::usual(project, &board, &inside.path("temporary"), &environment).unwrap()
    };
    assert_hidden(&inside, &files(&home), || own(&inside.path("project")), "a project below home");
    let said = inside.shell("echo seen > x; cat x; ls -A ..", closed(own(&inside.path("project"))));
    assert!(said.starts_with("seen\n"), "{said}");
    println!(
        "  {} files, in a home folder and around a project in one",
        credentials::AT_HOME.len()
    );
}

pub(crate) fn moved() {
    let count = credentials::MOVED.len();
    let ground = Ground::new();
    let folder = ground.path("elsewhere");
    let folder = folder.to_str().unwrap();
    let all: Vec<(&str, String, String)> = credentials::MOVED
        .iter()
        .map(|(name, value, file)| {
            let (value, file) = credentials::moved(folder, value, file);
            (*name, value, file)
        })
        .collect();
    // One at a time, so that no other one hides it.
    for (name, value, file) in &all {
        fs::create_dir_all(Path::new(file).parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
        let own = || ground.closed_with(&[(name, value)]);
        assert_hidden(&ground, std::slice::from_ref(file), own, name);
        // The next test reads the other files of the folder, too.
        fs::remove_file(file).unwrap();
    }
    // All at once, with a list of which each is hidden.
    let second = format!("{folder}/kube/b");
    fs::write(&second, "").unwrap();
    let list = format!("{folder}/kube/a:{second}");
    let mut variables: Vec<(&str, &str)> =
        all.iter().map(|(name, value, _)| (*name, value.as_str())).collect();
    variables.push(("KUBECONFIG", &list));
    let mut files: Vec<String> = all.iter().map(|(_, _, file)| file.clone()).collect();
    files.push(second);
    assert_hidden(&ground, &files, || ground.closed_with(&variables), "all variables");
    // In the project the file is hidden and the rest is not; the project itself never is.
    let own = ground.path("project/key.json");
    fs::write(&own, "").unwrap();
    let project = ground.path("project");
    for value in
        [own.to_str().unwrap(), project.to_str().unwrap(), ground.folder.path().to_str().unwrap()]
    {
        let own = || {
            ground
                .closed_with(&[("GOOGLE_APPLICATION_CREDENTIALS", value), ("DOCKER_CONFIG", value)])
        };
        let said = ground.shell("echo seen > x; cat x; rm x; test -d src", closed(own()));
        assert_eq!(said, "seen\n", "{value}");
    }
    let file = own.to_str().unwrap().to_owned();
    let hidden = || ground.closed_with(&[("GOOGLE_APPLICATION_CREDENTIALS", &file)]);
    assert_hidden(&ground, std::slice::from_ref(&file), hidden, "in the project");
    println!("  {count} variables, one by one and together");
}

/// No home folder, another's, one that is a folder of the system.
pub(crate) fn odd_homes() {
    let ground = Ground::new();
    let own = |environment: &[(&str, &str)]| {
        let path = std::env::var("PATH").unwrap();
        let mut all = vec![("PATH", path.as_str())];
        all.extend(environment);
        let (project, board) = (ground.path("project"), ground.path("project/.baton"));
        Closed::usual(&project, &board, &ground.path("temporary"), &Environment::of(&all)).unwrap()
    };
    let user = rustix::process::geteuid().as_raw();
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let listed = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let home = listed.filter(|own| own[2] == user.to_string()).map(|own| own[5].to_owned()).next();
    let elsewhere = ground.path("elsewhere");
    for variables in [
        &[][..],
        &[("HOME", "/")],
        &[("HOME", elsewhere.to_str().unwrap())],
        &[("HOME", "/missing")],
        &[("HOME", "relative")],
        &[("HOME", "")],
        &[("HOME", "/tmp")],
        &[("HOME", "/usr")],
    ] {
        let said = ground.shell(
            "echo seen > x && cat x && ls / && ls /usr/bin && git --version",
            closed(own(variables)),
        );
        assert!(
            said.starts_with("seen\n") && said.contains("usr") && said.contains("git version"),
            "{variables:?}: {said}"
        );
        // The machine's list of users says where this one's home is.
        if let Some(home) = home.as_ref().filter(|home| Path::new(home).join(".bashrc").is_file()) {
            let line = format!(
                "cat {home}/.bashrc {home}/.profile {home}/.npmrc; ls -A {home}/.config {home}/.claude; exit 0"
            );
            let said = ground.run(&["sh", "-c", &line], closed(own(variables))).stdout.text();
            assert_eq!(said, "", "{variables:?}");
            assert_ne!(ground.run(&["sh", "-c", &line], Confine::Off).stdout.text(), "");
        }
    }
    // A home folder of the system: what is the user's there is hidden, and the system is not.
    let machine = "for i in /etc/shadow /etc/gshadow /etc/ssl/private/* /etc/ssh/*_key /run/secrets/* /var/run/secrets/* /root/.bashrc; \
        do test -s $i && cat $i > /dev/null 2>&1 && echo $i; done; ls -A /home /var/backups /run/user 2>/dev/null | grep -v '^/\\|^$'; exit 0";
    let outside = ground.shell(machine, Confine::Off);
    assert!(user != 0 || outside.contains("/etc/shadow"), "{outside}");
    let said = ground.shell(machine, ground.confine());
    assert_eq!(said, "", "outside: {outside}");
}

/// Settings that programs need are there without what is secret in them.
pub(crate) fn settings() {
    let ground = Ground::new();
    ground.write("home/.gitconfig", &format!(
        "[user]\n\tname = Ada\n[url \"https://u:{CANARY}@h/\"]\n\tinsteadOf = https://h/\n[http]\n\textraheader = {CANARY}\n\
        [include]\n\tpath = .more\n\tpath = .netrc\n[core]\n\texcludesFile = ~/.gitignore_global\n[alias]\n\tst = status\n\tx = !echo {CANARY}\n"
    ));
    ground.write(
        "home/.more",
        &format!("[user]\n\temail = ada@example.org\n[credential]\n\thelper = {CANARY}\n"),
    );
    ground.write("home/.netrc", &format!("machine h password {CANARY}\n"));
    ground.write("home/.gitignore_global", "*.swp\n");
    ground.write(
        "home/.config/git/config",
        &format!("[init]\n\tdefaultBranch = trunk\n[github]\n\ttoken = {CANARY}\n"),
    );
    ground.write(
        "home/.cargo/config.toml",
        &format!("[registry]\ntoken = \"{CANARY}\"\n[net]\noffline = true\n"),
    );
    ground.write("home/.cargo/credentials.toml", CANARY);
    let look = "git config user.name; git config user.email; git config init.defaultBranch; git config core.excludesFile; \
        cat ~/.gitignore_global ~/.gitconfig ~/.more ~/.netrc ~/.config/git/config ~/.cargo/*; exit 0";
    let outside = ground.run(&["sh", "-c", look], Confine::Off).stdout.text();
    assert_eq!(outside.matches(CANARY).count(), 8, "{outside}");
    let inside = ground.run(&["sh", "-c", look], ground.confine()).stdout.text();
    let (home, _) = inside.split_once("*.swp\n").unwrap();
    assert_eq!(home, "Ada\nada@example.org\ntrunk\n~/.gitignore_global\n");
    assert!(!inside.contains(CANARY) && inside.contains("\"net\".\"offline\" = true"), "{inside}");
    // A commit has its author, and nothing of all this can be written.
    let line = "cd \"$TMPDIR\" && git init -q x && cd x && git commit -q --allow-empty -m one && git log --format='%an %ae %D'; \
        for i in ~/.gitconfig ~/.cargo/config.toml ~/new ~/.cargo/new; do echo x 2>/dev/null >> $i && echo written; done; exit 0";
    assert_eq!(
        ground.run(&["sh", "-c", line], ground.confine()).stdout.text(),
        "Ada ada@example.org HEAD -> trunk\n"
    );
}

/// Settings of tools; `HOME` and `SECRET` are put in.
const SETTINGS: &[(&str, &str)] = &[
    (".config/go/env", "GOPATH=HOME/named/go\nGOMODCACHE=HOME/.gnupg\nGOAUTH=SECRET\n"),
    (
        ".bundle/config",
        "---\nBUNDLE_PATH: \"HOME/named/gems\"\nBUNDLE_CORP__EXAMPLE: \"u:SECRET\"\n",
    ),
    (
        ".config/hatch/config.toml",
        "[publish.index]\nauth = \"SECRET\"\n[dirs]\ndata = \"HOME/named/hatch\"\ncache = \"HOME\"\n",
    ),
    (
        ".config/pypoetry/config.toml",
        "cache-dir = \"HOME/.gradle\"\n[virtualenvs]\npath = \"HOME/named/poetry\"\n[http-basic.a]\npassword = \"SECRET\"\n",
    ),
    (".cabal/config", "password: SECRET\nstore-dir: HOME/.m2\nremote-repo-cache: HOME/.config\n"),
    (
        ".m2/settings.xml",
        "<settings><localRepository>${user.home}/named/maven</localRepository><servers><server><password>SECRET</password></server></servers></settings>",
    ),
    (".m2/settings-security.xml", "SECRET"),
    (".conan2/.conan.db", "SECRET"),
    (".conan2/global.conf", "tools.build:jobs=7\nuser.x:y=SECRET\n"),
    (
        ".conan2/remotes.json",
        "{\"remotes\": [{\"name\": \"own\", \"url\": \"https://u:SECRET@own.example\"}]}",
    ),
    (
        ".sdkman/candidates/maven/3/conf/settings.xml",
        "<settings><offline>true</offline><servers>SECRET</servers></settings>",
    ),
    (".rbenv/versions/3/etc/gemrc", "SECRET"),
];

fn with_settings() -> Ground {
    let ground = Ground::new();
    let home = ground.path("home");
    for (name, text) in SETTINGS {
        let text = text.replace("HOME", home.to_str().unwrap()).replace("SECRET", CANARY);
        ground.write(&format!("home/{name}"), &text);
    }
    ground
}

/// What is shown of the settings of tools, and the folders that they name.
pub(crate) fn settings_of_tools() {
    let ground = with_settings();
    let named =
        ["go/pkg/mod/a", "gems/ruby/a", "hatch/env/virtual/p/h/e/a", "poetry/own/a", "maven/a.jar"];
    for name in named {
        ground.write(&format!("home/named/{name}"), "visible\n");
    }
    // Files near those that are shown, and where a setting leads in vain.
    let hidden = [
        "named/go/a",
        "named/poetry/own/pip.conf",
        "named/other",
        ".gnupg/a",
        ".gradle/a",
        ".config/a",
        ".m2/a",
    ];
    for name in hidden {
        ground.write(&format!("home/{name}"), CANARY);
    }
    let names = |all: &[&str]| all.join(" ");
    let settings: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
    let line = format!(
        "cd ~; cat {}; for i in {}; do grep -q visible named/$i || echo missing $i; done; cat {}; exit 0",
        names(&settings),
        names(&named),
        names(&hidden)
    );
    let run = |confine: Confine| ground.run(&["sh", "-c", &line], confine).stdout.text();
    let outside = run(Confine::Off);
    assert_eq!(outside.matches(CANARY).count(), 19, "{outside}");
    let inside = run(ground.confine());
    assert!(!inside.contains(CANARY) && !inside.contains("missing"), "{inside}");
    for text in [
        "named/go",
        "named/gems",
        "named/hatch",
        "named/poetry",
        "jobs=7",
        "https://own.example",
        "<offline>true",
        "--- {}",
    ] {
        assert!(inside.contains(text), "{text}: {inside}");
    }
    // Nothing of it can be written or moved.
    let line = "cd ~; for i in .config/go/env .m2/settings.xml .sdkman/candidates/maven/3/conf/settings.xml .rbenv/versions/3/etc/gemrc; \
        do (echo x > $i) 2>/dev/null && echo written $i; (mv $i $i.old) 2>/dev/null && echo moved $i; done; exit 0";
    assert_eq!(ground.run(&["sh", "-c", line], ground.confine()).stdout.text(), "");
}

/// Settings that are too large, not text, a link to a secret, or a pipe are not there.
pub(crate) fn hostile_settings() {
    let ground = with_settings();
    ground.write("home/.gnupg/a", CANARY);
    let in_tools = |name: &str| name.contains("sdkman") || name.contains("rbenv");
    for (name, _) in SETTINGS.iter().filter(|(name, _)| !in_tools(name)) {
        let path = ground.path("home").join(name);
        let look = || {
            let line = format!("cat {} 2>/dev/null; exit 0", path.display());
            ground.run(&["sh", "-c", &line], ground.confine()).stdout.text()
        };
        fs::write(&path, format!("{CANARY}\n").repeat(1 << 16)).unwrap();
        assert_eq!(look(), "", "{name}: huge");
        fs::write(&path, [b"jobs: 1\nGOOS=linux\n\xff\xfe".as_slice(), CANARY.as_bytes()].concat())
            .unwrap();
        assert_eq!(look(), "", "{name}: not UTF-8");
        fs::remove_file(&path).unwrap();
        symlink(ground.path("home/.gnupg/a"), &path).unwrap();
        assert!(!look().contains(CANARY), "{name}: a link");
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(look(), "", "{name}: a pipe");
        fs::remove_file(&path).unwrap();
    }
}

/// A token that is kept in the folder of a tool after the agent began is hidden, too.
pub(crate) fn kept_later() {
    let ground = Ground::new();
    ground.write("home/.nvm/versions/node/v20/bin/node", "visible\n");
    ground.write("home/.rbenv/versions/3/bin/ruby", "visible\n");
    let own = ground.closed();
    for name in [".nvm/versions/node/v20/etc/npmrc", ".rbenv/versions/3/etc/gemrc"] {
        ground.write(&format!("home/{name}"), CANARY);
    }
    let line = "cd ~; cat .nvm/versions/node/v20/bin/node .rbenv/versions/3/bin/ruby .nvm/versions/node/v20/etc/npmrc .rbenv/versions/3/etc/gemrc";
    assert_eq!(ground.shell(line, closed(own)), "visible\nvisible\n--- {}\n");
}

/// Toolchains at home, where variables move them, and behind links.
pub(crate) fn tools() {
    let ground = Ground::new();
    for name in [
        ".cargo/bin/tool",
        ".cargo/registry/cache/a.crate",
        ".nvm/versions/node/bin/node",
        ".cache/pip/wheel",
        ".npm/_cacache/index",
        "go/pkg/mod/a",
        ".m2/repository/a.jar",
        ".gradle/caches/a",
        ".local/lib/python/a",
        "opt/own/bin/own",
        "opt/own/lib/own.so",
        "moved/pyenv/versions/a",
    ] {
        ground.write(&format!("home/{name}"), "#!/bin/sh\necho visible\n");
    }
    for name in
        [".local/share/tool/bin/linked", "scripts/mine", ".cargo/bin/tool", "opt/own/bin/own"]
    {
        ground.write(&format!("home/{name}"), "#!/bin/sh\necho visible\n");
        fs::set_permissions(ground.path("home").join(name), fs::Permissions::from_mode(0o755))
            .unwrap();
    }
    ground.write("home/.ssh/id_rsa", CANARY);
    ground.write("home/scripts/notes", CANARY);
    ground.write("home/opt/own/.env", CANARY);
    ground.write("elsewhere/store/a.jar", "visible\n");
    fs::create_dir_all(ground.path("home/.local/bin")).unwrap();
    let link = |to: &str, at: &str| {
        symlink(ground.path("home").join(to), ground.path("home").join(at)).unwrap();
    };
    link(".local/share/tool/bin/linked", ".local/bin/linked");
    link("scripts/mine", ".local/bin/mine");
    // Links to secrets stay links to nothing.
    link(".ssh/id_rsa", ".local/bin/key");
    link(".ssh", ".cargo/registry/keys");
    link("scripts/notes", ".cargo/bin/notes");
    link(".ssh", ".cache/go-build");
    fs::create_dir_all(ground.path("home/.ivy2")).unwrap();
    symlink(ground.path("elsewhere/store"), ground.path("home/.ivy2/cache")).unwrap();
    let own = ground.path("home/opt/own/bin");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    let pyenv = ground.path("home/moved/pyenv");
    let see = || ground.closed_with(&[("PATH", &path), ("PYENV_ROOT", pyenv.to_str().unwrap())]);
    let line = "cd ~; for i in .cargo/bin/tool .cargo/registry/cache/a.crate .nvm/versions/node/bin/node .cache/pip/wheel \
        .npm/_cacache/index go/pkg/mod/a .m2/repository/a.jar .gradle/caches/a .local/lib/python/a opt/own/lib/own.so \
        moved/pyenv/versions/a .ivy2/cache/a.jar .local/bin/linked .local/bin/mine; do grep -q visible $i || echo missing $i; done; \
        opt/own/bin/own; .local/bin/linked; .local/bin/mine";
    assert_eq!(ground.shell(line, closed(see())), "visible\nvisible\nvisible\n");
    let secrets = "cd ~; cat .ssh/* .local/bin/key .cargo/registry/keys/* .cargo/bin/notes .cache/go-build/* scripts/notes opt/own/.env; exit 0";
    assert_eq!(
        ground.run(&["sh", "-c", secrets], Confine::Off).stdout.text().matches(CANARY).count(),
        7
    );
    assert_eq!(ground.run(&["sh", "-c", secrets], closed(see())).stdout.text(), "");
    // What the project plants shows nothing, neither as a link nor as a folder of programs.
    symlink(ground.path("home/.ssh"), ground.path("project/bin")).unwrap();
    symlink(ground.path("home/.ssh/id_rsa"), ground.path("project/run")).unwrap();
    let planted = format!("{}:{path}", ground.path("project/bin").display());
    let own = ground.closed_with(&[("PATH", &planted)]);
    let said =
        ground.run(&["sh", "-c", "cat bin/* run ~/.ssh/*; exit 0"], closed(own)).stdout.text();
    assert_eq!(said, "");
    let mut program = ground.program(&["cat", "id_rsa"], closed(ground.closed()));
    program.folder = ground.path("project/bin");
    let ran = sandbox::run(&program, &baton_runtime::sandbox::Interrupt::default());
    assert!(ran.is_err() || !ran.unwrap().stdout.text().contains(CANARY));
}

/// What the user names is seen; Baton's own configuration is not.
pub(crate) fn named() {
    let ground = Ground::new();
    ground.write("home/other/src/lib.rs", "visible\n");
    ground.write("home/.config/tool/settings", "visible\n");
    ground.write("home/.config/baton/baton.toml", CANARY);
    let environment = ground.environment(&[]);
    let with = |paths: &[&str]| {
        let mut own = ground.closed();
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        own.sight.add(&paths, &environment);
        closed(own)
    };
    let look = "cat ~/other/src/lib.rs ~/.config/tool/settings ~/.config/baton/*; exit 0";
    let said = |paths: &[&str]| ground.run(&["sh", "-c", look], with(paths)).stdout.text();
    assert_eq!(said(&[]), "");
    assert_eq!(said(&["~/other"]), "visible\n");
    for paths in [&["~/other", "~/.config"][..], &["~"]] {
        assert_eq!(said(paths), "visible\nvisible\n", "{paths:?}");
    }
    assert_eq!(said(&["~/.config/baton", "/missing", "~/.config/baton/baton.toml"]), "");
    let whole = ground.closed().with_home(&environment);
    assert_eq!(ground.run(&["sh", "-c", look], closed(whole)).stdout.text(), "visible\nvisible\n");
    let line = "echo x 2>/dev/null > ~/other/new && echo written; exit 0";
    assert_eq!(ground.run(&["sh", "-c", line], with(&["~"])).stdout.text(), "");
}
