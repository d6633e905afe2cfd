//! The one thread that writes what samples leave. It takes whatever finished while it wrote the last
//! lot; what marks a sample as finished is written after all else of it is safe.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use super::ask::Shared;
use super::{OUTAGE, Stop};
use crate::store::{self, Disk};

/// At most so many are written at once.
pub(super) const LOT: usize = 64;

/// Something that is finished when its last file is there.
#[derive(Debug)]
pub(super) struct Finished<T> {
    pub(super) first: Vec<(PathBuf, Vec<u8>)>,
    pub(super) last: (PathBuf, Vec<u8>),
    /// It could not be done because a model could not be reached.
    pub(super) is_outage: bool,
    pub(super) what: T,
}

/// Writes until nothing comes any more. What came of an outage waits for something else to come: if
/// nothing does, it is thrown away, and done again another time.
pub(super) fn write_all<T>(
    disk: &Disk,
    shared: &Shared<'_>,
    from: &Receiver<Finished<T>>,
    mut written: impl FnMut(T),
) -> Result<(), store::Error> {
    let mut waiting: Vec<Finished<T>> = Vec::new();
    let mut in_a_row = 0;
    while let Ok(one) = from.recv() {
        let mut lot = vec![one];
        lot.extend(from.try_iter().take(LOT - 1));
        let mut ready = Vec::new();
        for one in lot {
            if one.is_outage {
                in_a_row += 1;
                waiting.push(one);
            } else {
                in_a_row = 0;
                ready.append(&mut waiting);
                ready.push(one);
            }
        }
        if in_a_row >= OUTAGE {
            let why = format!("the model could not be reached {in_a_row} times in a row");
            shared.stop(Stop::Outage, why);
            waiting.clear();
        }
        commit(disk, ready, &mut written)?;
    }
    if shared.stopped().is_none() {
        commit(disk, waiting, &mut written)?;
    }
    Ok(())
}

fn commit<T>(
    disk: &Disk,
    lot: Vec<Finished<T>>,
    written: &mut impl FnMut(T),
) -> Result<(), store::Error> {
    if lot.is_empty() {
        return Ok(());
    }
    let (mut first, mut last, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for one in lot {
        first.extend(one.first);
        last.push(one.last);
        all.push(one.what);
    }
    if !first.is_empty() {
        disk.write_lot(&first)?;
    }
    disk.write_lot(&last)?;
    for what in all {
        written(what);
    }
    Ok(())
}
