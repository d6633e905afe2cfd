//! A project, a home and a blackboard to try things on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use baton_runtime::load::Environment;
use baton_runtime::sandbox::{self, Closed, Confine, How, Interrupt, Program, Ran, Spare};
use tempfile::TempDir;

/// Far longer than anything here takes on the busiest machine: only what never ends takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Variables by which programs find their toolchain.
const TOOLCHAINS: [&str; 4] = ["PATH", "RUSTUP_HOME", "CARGO_HOME", "PYENV_ROOT"];

pub(crate) struct Ground {
    pub(crate) folder: Folder,
}

/// A folder that goes with the test, or one of another process.
pub(crate) enum Folder {
    Own(TempDir),
    Other(PathBuf),
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Folder::Own(own) => own.path(),
            Folder::Other(path) => path,
        }
    }
}

impl Ground {
    pub(crate) fn new() -> Ground {
        Ground::inside(&std::env::temp_dir())
    }

    pub(crate) fn inside(folder: &Path) -> Ground {
        let ground = Ground { folder: Folder::Own(TempDir::new_in(folder).unwrap()) };
        for name in ["project/src", "home", "temporary", "elsewhere"] {
            fs::create_dir_all(ground.path(name)).unwrap();
        }
        ground
    }

    pub(crate) fn at(folder: &Path) -> Ground {
        Ground { folder: Folder::Other(folder.to_owned()) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn closed(&self) -> Closed {
        self.closed_with(&[])
    }

    /// Of a user with these variables, too.
    pub(crate) fn closed_with(&self, variables: &[(&str, &str)]) -> Closed {
        let (project, board) = (self.path("project"), self.path("project/.baton"));
        let environment = self.environment(variables);
        Closed::usual(&project, &board, &self.path("temporary"), &environment).unwrap()
    }

    /// The variables of a user whose home folder is here, and of whoever runs the tests those by which
    /// toolchains are found. An empty one is not set.
    pub(crate) fn environment(&self, variables: &[(&str, &str)]) -> Environment {
        let home = self.path("home");
        let mut all = BTreeMap::from([("HOME", home.to_str().unwrap().to_owned())]);
        for name in TOOLCHAINS {
            all.extend(std::env::var(name).map(|value| (name, value)));
        }
        all.extend(variables.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let all: Vec<(&str, &str)> =
            all.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Environment::of(&all)
    }

    pub(crate) fn confine(&self) -> Confine {
        Confine::Closed(Box::new(self.closed()))
    }

    pub(crate) fn open(&self) -> Confine {
        Confine::Open { protected: vec![self.path("project/.baton")] }
    }

    pub(crate) fn program(&self, argv: &[&str], confine: Confine) -> Program {
        let mut environment: BTreeMap<OsString, OsString> = BTreeMap::new();
        for name in TOOLCHAINS {
            environment.extend(std::env::var_os(name).map(|value| (name.into(), value)));
        }
        environment.insert("HOME".into(), self.path("home").into());
        Program {
            argv: argv.iter().map(OsString::from).collect(),
            folder: self.path("project"),
            environment,
            input: Vec::new(),
            limit: PATIENCE,
            mark: "confine".to_owned(),
            most: 1 << 20,
            copy: None,
            confine,
            within: None,
        }
    }

    pub(crate) fn run(&self, argv: &[&str], confine: Confine) -> Ran {
        run(&self.program(argv, confine))
    }

    /// A line for the shell; what it said, and that it went well.
    pub(crate) fn shell(&self, line: &str, confine: Confine) -> String {
        let ran = self.run(&["sh", "-c", line], confine);
        let said = format!("{}{}", ran.stdout.text(), ran.stderr.text());
        assert_eq!(ran.how, How::Exit(0), "{line}: {said}");
        said
    }

    /// This very program as the attacker.
    pub(crate) fn probe(&self, words: &[&str], confine: Confine) -> (How, String) {
        let own = std::env::current_exe().unwrap();
        let mut argv = vec![own.to_str().unwrap(), "probe"];
        argv.extend(words);
        let ran = self.run(&argv, confine);
        (ran.how, format!("{}{}", ran.stdout.text(), ran.stderr.text()))
    }
}

/// Whether every closed program runs in a sandbox that was made before.
pub(crate) static IN_SPARE: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(program: &Program) -> Ran {
    if IN_SPARE.load(Ordering::SeqCst) && matches!(program.confine, Confine::Closed(_)) {
        let spare = spare_for(program);
        return spare.run(program, &Interrupt::default()).expect("it is not used").unwrap();
    }
    sandbox::run(program, &Interrupt::default()).unwrap()
}

/// It knows neither the words nor the time that the program gets.
pub(crate) fn spare_for(program: &Program) -> Spare {
    let argv = program.argv[..1].to_vec();
    Spare::of(&Program { argv, limit: Duration::ZERO, ..program.clone() }).unwrap()
}

/// Every file under a folder: its kind, its mode, what it holds.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let mode = metadata.permissions().mode();
        let holds = if metadata.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            String::new()
        } else if metadata.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned()
        };
        found.insert(path, format!("{mode:o} {holds}"));
    }
    found
}

/// A time to sleep by which the processes of this very test are found, whatever else runs on this
/// machine.
pub(crate) fn word(seconds: &str) -> String {
    format!("{seconds}.{:08}", std::process::id())
}

/// Comes back as soon as this holds.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Processes whose command line holds this word.
pub(crate) fn alive(word: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let bytes = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
        (line.contains(word) && pid != std::process::id()).then(|| format!("{pid} {line}"))
    });
    lines.collect()
}
