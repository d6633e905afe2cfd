//! A project with links of every kind, and what lies around it and is nobody's business.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use baton_core::freshness::Freshness;
use baton_core::id::ObservationId;
use baton_core::message::ToolCall;
use baton_core::observation::Envelope;
use baton_runtime::approve::Approvals;
use baton_runtime::beneath::Root;
use baton_runtime::sandbox::Interrupt;
use baton_runtime::tool::{Archive, Shell, Workshop};
use serde_json::Value;
use tempfile::TempDir;

/// In every file outside, and never in a result.
pub(crate) const CONTENT: &str = "CANARY-4f1d2c";
/// In names of files outside that no path of ours names.
pub(crate) const NAME: &str = "unlisted-9e07";

pub(crate) struct Ground {
    folder: TempDir,
}

pub(crate) struct Nothing;

impl Archive for Nothing {
    fn message(&self, _: u32) -> Option<String> {
        None
    }

    fn observation(&self, _: ObservationId) -> Option<(String, Envelope)> {
        None
    }

    fn output_file(&self, _: ObservationId) -> PathBuf {
        PathBuf::from("/nonexistent/output")
    }
}

impl Ground {
    pub(crate) fn new() -> Ground {
        let ground = Ground { folder: TempDir::new().unwrap() };
        for name in ["outside/secret.txt", "project-x/secret.txt", "home/.ssh/id_rsa", "secret.txt"]
        {
            ground.write(name, format!("{CONTENT} {name}\n"));
        }
        for name in ["outside", "project-x", "home/.ssh", ""] {
            ground.write(format!("{name}/{NAME}").trim_start_matches('/'), CONTENT);
        }
        ground.write("outside/linked.txt", "two names\n");
        ground.write("project/src/lib.rs", "pub fn add() {}\n");
        ground.write("project/nested/deep/file.txt", "deep\n");
        ground.write("project/.git/config", "[core]\n");
        ground.write("project/.baton/memory/dev_plan.md", "plan\n");
        ground.write("project/café.txt", "composed\n");
        fs::hard_link(ground.path("outside/linked.txt"), ground.path("project/hard.txt")).unwrap();
        let outside = ground.path("outside");
        let links: [(&str, &Path); 16] = [
            ("in", Path::new("src")),
            ("in-file", Path::new("src/lib.rs")),
            ("out", Path::new("../outside")),
            ("out-file", Path::new("../outside/secret.txt")),
            ("absolute", &outside),
            ("up", Path::new("..")),
            ("slash", Path::new("/")),
            ("proc-root", Path::new("/proc/self/root")),
            ("proc-cwd", Path::new("/proc/self/cwd")),
            ("fd", Path::new("/dev/fd")),
            ("loop", Path::new("loop")),
            ("chain", Path::new("out")),
            ("new-outside", Path::new("../outside/new.txt")),
            ("nested/out", Path::new("../../outside")),
            ("sibling", Path::new("../project-x")),
            ("nested/round", Path::new("../../project/src")),
        ];
        for (name, target) in links {
            symlink(target, ground.path("project").join(name)).unwrap();
        }
        ground
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn root(&self) -> Root {
        let protected = [".baton", ".git"].map(|name| self.path("project").join(name));
        Root::open(&self.path("project"), &protected).unwrap()
    }

    pub(crate) fn shop(&self) -> Workshop {
        Workshop {
            root: self.root(),
            board: Some(self.path("project/.baton")),
            shell: Shell {
                environment: BTreeMap::new(),
                closed: None,
                protected: Vec::new(),
                mark: "files".to_owned(),
                within: None,
                ground: None,
                commits: None,
                ready: Default::default(),
            },
            approvals: Approvals::default(),
            freshness: Mutex::new(Freshness::default()),
            digests: Mutex::default(),
            writes: true,
            language: Default::default(),
        }
    }

    /// Everything that must stay as it is: all around the project, and what is protected in it.
    pub(crate) fn others(&self) -> BTreeMap<PathBuf, (u64, u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let project = self.path("project");
        let mut left = vec![self.path(""), project.join(".git"), project.join(".baton")];
        while let Some(path) = left.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let bytes = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() {
                let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
                left.extend(names.filter(|name| *name != project));
            }
            found.insert(path, (metadata.ino(), metadata.mode(), bytes));
        }
        found
    }
}

/// What a tool answers, as text.
pub(crate) fn run(shop: &Workshop, tool: &str, arguments: Value) -> String {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let call = ToolCall { id: "c1".to_owned(), name: tool.to_owned(), arguments };
    let result = shop.run(&call, ObservationId(1), &Nothing, &Interrupt::default());
    serde_json::to_string(&result.envelope).unwrap()
}

/// The large count where it is asked for, else the small one.
pub(crate) fn count(small: usize, large: usize) -> usize {
    match std::env::var("BATON_SWEEP").as_deref() {
        Ok("all") => large,
        _ => small,
    }
}
