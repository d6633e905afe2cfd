//! What several test files share: the packs, from the folder that the binary embeds.

use std::fs;
use std::path::{Path, PathBuf};

use baton_core::pack::{Files, Pack};

pub(crate) fn pack_files(name: &str) -> Files {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packs").join(name);
    let mut files = Files::new();
    let mut open: Vec<PathBuf> = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let inside = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                files.insert(inside, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

pub(crate) fn pack(name: &str, language: &str) -> Pack {
    Pack::read(&pack_files(name), language).unwrap()
}
