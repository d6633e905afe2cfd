//! Files of git are not written by the file tools, wherever they are and however they are named.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::ground::{Ground, run};

#[test]
fn anything_beneath_a_git_folder_is_refused_with_the_reason_at_any_depth_and_in_any_case() {
    let ground = Ground::new();
    ground.write("project/nested/.git/config", "[core]\n");
    ground.write("project/linked/.git", "gitdir: ../.git/worktrees/linked\n");
    symlink(".git", ground.path("project/to-git")).unwrap();
    let before = ground.others();
    let shop = ground.shop();
    let whole = ground.path("project/.git/config");
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/new/folder/file",
        ".git",
        ".GIT/config",
        ".Git/HEAD",
        "./.git/config",
        "src/../.git/config",
        "a/../.git/config",
        "nested/.git/config",
        "nested/deep/.git/new",
        "linked/.git",
        "to-git/config",
        whole.to_str().unwrap(),
    ] {
        let edit = json!({ "old_string": "[core]", "new_string": "[evil]" });
        let mut one = edit.clone();
        one["path"] = json!(path);
        for (tool, arguments) in [
            ("Write", json!({ "path": path, "content": "x" })),
            ("Edit", one),
            ("MultiEdit", json!({ "path": path, "edits": [edit] })),
        ] {
            let said = run(&shop, tool, arguments);
            assert!(said.contains("\"code\":\"PROTECTED\""), "{tool} {path}: {said}");
            let words = "is part of a repository, which file tools do not change";
            assert!(said.contains(words), "{tool} {path}: {said}");
        }
    }
    assert!(ground.others() == before);
    for (name, content) in
        [("nested/.git/config", "[core]\n"), ("linked/.git", "gitdir: ../.git/worktrees/linked\n")]
    {
        let now = fs::read_to_string(ground.path("project").join(name)).unwrap();
        assert_eq!(now, content, "{name}");
    }
    assert!(!ground.path("project/nested/deep/.git").exists());
    // It may be read, and what only has a similar name may be written.
    assert!(run(&shop, "Read", json!({ "path": ".git/config" })).contains("success"));
    for path in [".gitignore", ".github/workflows/ci.yml", "src/.git-notes", "git/config"] {
        let said = run(&shop, "Write", json!({ "path": path, "content": "x" }));
        assert!(said.contains("success"), "{path}: {said}");
    }
}

#[test]
fn a_file_of_the_blackboard_is_protected_also_before_it_was_read() {
    let ground = Ground::new();
    let said = run(
        &ground.shop(),
        "Write",
        json!({ "path": ".baton/memory/dev_plan.md", "content": "x" }),
    );
    assert!(said.contains("\"code\":\"PROTECTED\""), "{said}");
}
