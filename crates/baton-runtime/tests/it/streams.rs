//! Files that are read bit by bit: packed or not, and never more of them than was allowed.

use std::io::Write;
use std::path::PathBuf;

use baton_runtime::load::{self, Error};
use tempfile::TempDir;

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn written(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn lines_then_the_rest() {
    let folder = TempDir::new().unwrap();
    let text = b"one\n\ntwo\nthree\nfour";
    for (name, bytes) in [("plain", text.to_vec()), ("packed", packed(text))] {
        let path = written(&folder, name, &bytes);
        let mut stream = load::stream(&path, 1_000).unwrap();
        assert!(stream.head().unwrap().starts_with(b"one\n"));
        let mut into = Vec::new();
        for wanted in [&b"one\n"[..], b"\n", b"two\n"] {
            into.clear();
            assert!(stream.line(100, &mut into).unwrap());
            assert_eq!(into, wanted, "{name}");
        }
        assert!(stream.rest(100, &mut into).unwrap());
        assert_eq!(into, b"two\nthree\nfour", "what is there stays");
        assert!(!stream.line(100, &mut into).unwrap());
        assert!(stream.head().unwrap().is_empty());
    }
}

#[test]
fn no_more_than_was_allowed() {
    let folder = TempDir::new().unwrap();
    // 64 MiB of zeros in some tens of kilobytes.
    let bomb = packed(&vec![0; 64 << 20]);
    assert!(bomb.len() < 1 << 20);
    let path = written(&folder, "bomb", &bomb);
    let too_long = |limit: u64, most: u64| {
        let mut into = Vec::new();
        let error = load::stream(&path, limit).unwrap().line(most, &mut into).unwrap_err();
        assert!(into.len() as u64 <= limit.min(most) + 1);
        matches!(error, Error::TooLong { limit: told, .. } if told == limit.min(most))
    };
    assert!(too_long(1_000, 1 << 30));
    assert!(too_long(1 << 30, 1_000));
    // Exactly as much is no more.
    let path = written(&folder, "five", b"12345");
    assert!(load::stream(&path, 5).unwrap().rest(5, &mut Vec::new()).unwrap());
    assert!(load::stream(&path, 4).unwrap().rest(5, &mut Vec::new()).is_err());
    // The limit is that of all pieces together.
    let path = written(&folder, "lines", b"12\n34\n56\n");
    let mut stream = load::stream(&path, 6).unwrap();
    let mut into = Vec::new();
    assert!(stream.line(6, &mut into).unwrap() && stream.line(6, &mut into).unwrap());
    assert!(matches!(stream.line(6, &mut into), Err(Error::TooLong { limit: 6, .. })));
}

#[test]
fn what_cannot_be_read() {
    let folder = TempDir::new().unwrap();
    let nowhere = folder.path().join("nowhere");
    assert!(matches!(load::stream(&nowhere, 9), Err(Error::Missing(_))));
    assert!(matches!(load::stream(folder.path(), 9), Err(Error::NotAFile(_))));
    let whole = packed(&b"some text that is packed ".repeat(100));
    for (name, bytes) in [("cut", &whole[..whole.len() / 2]), ("two bytes", &whole[..2])] {
        let path = written(&folder, name, bytes);
        let mut stream = load::stream(&path, 1 << 20).unwrap();
        let mut into = Vec::new();
        assert!(matches!(stream.rest(1 << 20, &mut into), Err(Error::Io { .. })), "{name}");
    }
}
