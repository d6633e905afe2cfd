//! Paths that want out.

use std::fs;
use std::io::Read;

use baton_runtime::beneath::Root;
use baton_runtime::tool::Workshop;
use serde_json::json;

use super::ground::{CONTENT, Ground, NAME, count, run};

/// Every way of writing a path that leads to something outside, or seems to.
fn named(ground: &Ground) -> Vec<String> {
    let root = ground.path("project").to_str().unwrap().to_owned();
    let mut all = Vec::new();
    for target in [
        "outside/secret.txt",
        "outside",
        "project-x/secret.txt",
        "home/.ssh/id_rsa",
        "outside/fresh",
    ] {
        let whole = ground.path(target).to_str().unwrap().to_owned();
        let forms = [
            format!("../{target}"),
            format!("./../{target}"),
            format!("src/../../{target}"),
            format!("nested/deep/../../../{target}"),
            format!("missing/../../{target}"),
            format!("src/lib.rs/../../../{target}"),
            format!(".././//../x/../{target}"),
            format!("in/../../{target}"),
            format!("nested/round/../../{target}"),
            whole.clone(),
            format!("/{whole}"),
            format!("{whole}/"),
            format!("{whole}/."),
            format!("{root}/../{target}"),
            format!("{root}/src/../../{target}"),
            format!("{root}//..//{target}"),
            format!("/proc/self/root{whole}"),
            format!("/proc/self/cwd/../{target}"),
            format!("/dev/fd/../..{whole}"),
            format!("proc-root{whole}"),
            format!("proc-cwd/../{target}"),
            format!("slash{whole}"),
            format!("up/{target}"),
            format!("up/project/../{target}"),
            format!("in/../up/{target}"),
            format!("fd/3/../{target}"),
            format!("out/../{target}"),
            format!("chain/../{target}"),
            format!("nested/out/../{target}"),
            format!(" ../{target} "),
            format!("\t../{target}\n"),
            format!("../{target}\0"),
            format!("src/lib.rs\0/../../{target}"),
            format!("..\\{target}"),
            format!("%2e%2e/{target}"),
            format!("\u{ff0e}\u{ff0e}/{target}"),
            format!("\u{2024}\u{2024}/{target}"),
            format!("..\u{200b}/{target}"),
            format!("file://{whole}"),
            format!("~/../{target}"),
            format!("{}{target}", "../".repeat(2_000)),
            format!("{}../{target}", "src/../".repeat(600)),
            format!("../{}", target.to_uppercase()),
        ];
        all.extend(forms);
    }
    all.extend(MORE.map(str::to_owned));
    let long = [
        "x".repeat(300),
        "x/".repeat(2_500),
        "x".repeat(100_000),
        format!("out/{}", "y".repeat(255)),
    ];
    all.extend(long);
    all
}

/// Names of links, and paths that need no target.
const MORE: [&str; 54] = [
    "..",
    "../",
    "/",
    "//",
    "/..",
    "...",
    "....//",
    ".",
    "./",
    "",
    " ",
    "\0",
    "-",
    "~",
    "up",
    "up/",
    "out",
    "out/",
    "out/.",
    "out/secret.txt",
    "out-file",
    "out-file/",
    "absolute/secret.txt",
    "chain/secret.txt",
    "nested/out/secret.txt",
    "sibling/secret.txt",
    "new-outside",
    "loop",
    "loop/x",
    "fd",
    "fd/0",
    "proc-root/etc/passwd",
    "slash/etc/passwd",
    "proc-cwd",
    "/etc/passwd",
    "/proc/self/environ",
    "/dev/stdin",
    "/dev/fd/0",
    "/proc/1/root/etc/passwd",
    ".git/config",
    ".GIT/config",
    ".git/hooks/pre-commit",
    ".baton/memory/dev_plan.md",
    ".Baton/memory/x",
    "in/../.git/config",
    "src/../.git/config",
    "hard.txt",
    "HARD.TXT",
    "cafe\u{301}.txt",
    "SRC/lib.rs",
    "src/lib.rs/",
    "src/lib.rs/.",
    "in-file",
    "in/new.rs",
];

/// What a path gives, by one of the ways.
fn tried(shop: &Workshop, path: &str, way: usize) -> String {
    let (root, new) = (&shop.root, "written by the model");
    match way {
        0 => raw(root, path),
        1 => root.inside(path).map(|inside| raw(root, &inside)).unwrap_or_default(),
        2 => format!("{:?}", root.write(path, new.as_bytes()).err()),
        3 => run(shop, "LS", json!({ "path": path })),
        4 => run(shop, "Read", json!({ "path": path })),
        5 => run(shop, "Edit", json!({ "path": path, "old_string": "C", "new_string": new })),
        6 => {
            let edits = json!([{ "old_string": "a", "new_string": new, "replace_all": true }]);
            run(shop, "MultiEdit", json!({ "path": path, "edits": edits }))
        }
        7 => run(shop, "Write", json!({ "path": path, "content": new })),
        8 => run(shop, "Glob", json!({ "pattern": "**/*", "path": path, "hidden": true })),
        _ => run(shop, "Grep", json!({ "pattern": "C[A]NARY.*", "path": path, "hidden": true })),
    }
}

const WAYS: usize = 10;

/// By the functions below the tools, where nothing has looked at the path before.
fn raw(root: &Root, path: &str) -> String {
    let mut said = String::new();
    if let Ok(opened) = root.read(path) {
        let _ = opened.file.take(10_000).read_to_string(&mut said);
    }
    said.push_str(&format!("{:?} {:?}", root.look(path).is_ok(), root.entries(path)));
    said.push_str(&root.is_file(path).to_string());
    said
}

fn assert_clean(said: &str, path: &str, way: usize) {
    let shown: String = path.chars().take(200).collect();
    assert!(!said.contains(CONTENT) && !said.contains(NAME), "way {way}, {shown:?}: {said}");
}

#[test]
fn no_named_path_leads_out() {
    let ground = Ground::new();
    let before = ground.others();
    let all = named(&ground);
    assert!(all.len() >= 250, "{}", all.len());
    for path in &all {
        let shop = ground.shop();
        for way in 0..WAYS {
            assert_clean(&tried(&shop, path, way), path, way);
        }
        assert!(ground.others() == before, "{path:?} changed something");
    }
    // It is the paths that are refused, not everything.
    let shop = ground.shop();
    for path in ["src/lib.rs", "in/lib.rs", "in-file", "./src//lib.rs"] {
        assert!(tried(&shop, path, 4).contains("\"status\":\"success\""), "{path}");
    }
    let whole = ground.path("project/src/lib.rs");
    assert!(tried(&shop, whole.to_str().unwrap(), 4).contains("success"));
    println!("{} named paths by {WAYS} ways", all.len());
}

#[test]
fn a_file_with_a_second_name_outside_is_left_alone_there() {
    let ground = Ground::new();
    let shop = ground.shop();
    assert!(run(&shop, "Read", json!({ "path": "hard.txt" })).contains("two names"));
    let edit = json!({ "path": "hard.txt", "old_string": "two", "new_string": "2" });
    assert!(run(&shop, "Edit", edit).contains("success"));
    assert_eq!(fs::read_to_string(ground.path("project/hard.txt")).unwrap(), "2 names\n");
    assert_eq!(fs::read_to_string(ground.path("outside/linked.txt")).unwrap(), "two names\n");
    let write = json!({ "path": "hard.txt", "content": "again\n" });
    assert!(run(&shop, "Write", write).contains("success"));
    assert_eq!(fs::read_to_string(ground.path("outside/linked.txt")).unwrap(), "two names\n");
}

#[test]
fn no_random_path_leads_out() {
    let ground = Ground::new();
    let before = ground.others();
    let shop = ground.shop();
    let root = ground.path("project").to_str().unwrap().to_owned();
    let pieces = [
        "..",
        "..",
        "..",
        ".",
        "",
        "src",
        "lib.rs",
        "in",
        "in-file",
        "out",
        "out-file",
        "absolute",
        "up",
        "slash",
        "proc-root",
        "proc-cwd",
        "fd",
        "loop",
        "chain",
        "nested",
        "deep",
        "round",
        "sibling",
        "new-outside",
        "hard.txt",
        ".git",
        "config",
        "hooks",
        ".baton",
        "memory",
        "outside",
        "secret.txt",
        "project",
        "project-x",
        "home",
        ".ssh",
        "id_rsa",
        "tmp",
        "etc",
        "passwd",
        "proc",
        "self",
        "root",
        "cwd",
        "0",
        "\0",
        "\u{2025}",
        "é",
        "e\u{301}",
        "文件",
        "\u{202e}",
        " ",
        "~",
        "*",
        "missing",
    ];
    let mut random = fastrand::Rng::with_seed(16);
    let tries = count(10_000, 100_000);
    for number in 0..tries {
        let length = random.usize(1..10);
        let parts: Vec<&str> = (0..length).map(|_| pieces[random.usize(..pieces.len())]).collect();
        let start = ["", "", "", "/", &root, "/proc/self/root", "./"][random.usize(..7)];
        let slash = if start.is_empty() || start.ends_with('/') { "" } else { "/" };
        let path = format!("{start}{slash}{}", parts.join("/"));
        // Searches walk the whole project: fewer of them.
        let way = if random.u8(..) < 4 { random.usize(8..WAYS) } else { random.usize(..8) };
        assert_clean(&tried(&shop, &path, way), &path, way);
        if number % 2_000 == 0 {
            assert!(ground.others() == before, "before path {number}, {path:?}");
        }
    }
    assert!(ground.others() == before);
    println!("{tries} random paths");
}
