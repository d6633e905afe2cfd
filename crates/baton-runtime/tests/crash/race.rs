//! One writer: races, a holder that sleeps, a lock that lies, a lock that was taken away.

use std::process::Output;

use crate::reference::{FINISHED, HELD};
use crate::sweep::{check_same, child, fresh, is_whole, undisturbed};

pub(crate) fn of_many_processes_one_writes() {
    let expected = undisturbed();
    let races = if is_whole() { 1_000 } else { 24 };
    for race in 0..races {
        let folder = fresh();
        let many = 2 + race % 7;
        let children: Vec<_> = (0..many)
            .map(|_| {
                let path = folder.path().to_owned();
                std::thread::spawn(move || child(&path, "none", 0))
            })
            .collect();
        let outputs: Vec<Output> =
            children.into_iter().map(|child| child.join().unwrap()).collect();
        let with_code = |code| outputs.iter().filter(move |own| own.status.code() == Some(code));
        assert!(with_code(FINISHED).count() >= 1, "{outputs:?}");
        assert_eq!(with_code(FINISHED).count() + with_code(HELD).count(), many, "{outputs:?}");
        for loser in with_code(HELD) {
            let said = String::from_utf8_lossy(&loser.stdout);
            // The holder may not have written its name yet.
            let is_named = said.contains("process ") || said.contains("unknown");
            assert!(said.contains("held by another process") && is_named, "{said}");
        }
        check_same(folder.path(), expected, &format!("{many} at once"));
    }
    println!("{races} races");
}
