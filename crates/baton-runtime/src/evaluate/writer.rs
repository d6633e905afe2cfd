//! Threads that work side by side, and the one that writes what they leave. It takes whatever
//! finished while it wrote the last lot; what marks something as finished is written after all else
//! of it is safe.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use super::ask::Shared;
use super::{Ask, Error, OUTAGE, Stop};
use crate::store::{self, Disk};

/// At most so many are written at once.
const LOT: usize = 64;
/// So many that could not be done at the end are no chance.
const SOME: usize = 3;

/// Something that is finished when its last file is there.
#[derive(Debug)]
pub(super) struct Finished<T> {
    pub(super) first: Vec<(PathBuf, Vec<u8>)>,
    pub(super) last: (PathBuf, Vec<u8>),
    /// It could not be done because a model could not be reached.
    pub(super) is_outage: bool,
    pub(super) what: T,
}

/// Works through a list, some at once, and writes what comes of it. A worker is made in its own
/// thread; its work is `None` when there is no sense in going on.
pub(super) fn side_by_side<I: Sync, W, T: Send>(
    ask: &Ask<'_>,
    shared: &Shared<'_>,
    open: &[I],
    worker: impl Fn() -> Result<W, Error> + Sync,
    work: impl Fn(&mut W, &I) -> Option<Finished<T>> + Sync,
    written: impl FnMut(T),
) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let jobs = ask.jobs.clamp(1, 256).min(open.len().max(1));
    let (sender, receiver) = sync_channel::<Finished<T>>(LOT.max(jobs));
    std::thread::scope(|scope| {
        let (next, worker, work) = (&next, &worker, &work);
        let mut threads = Vec::new();
        for _ in 0..jobs {
            let sender = sender.clone();
            let thread = std::thread::Builder::new();
            let started = thread.spawn_scoped(scope, move || -> Result<(), Error> {
                let mut worker = worker()?;
                while let Some(item) = open.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let Some(own) = work(&mut worker, item) else { break };
                    if sender.send(own).is_err() {
                        break;
                    }
                }
                Ok(())
            });
            match started {
                Ok(thread) => threads.push(thread),
                // Fewer work as well; only none at all cannot.
                Err(error) if threads.is_empty() => {
                    return Err(Error::Sandbox(format!("cannot start a thread: {error}")));
                }
                Err(_) => break,
            }
        }
        drop(sender);
        let wrote = write_all(ask.disk, shared, &receiver, written);
        // Whoever still works finds nobody to send to.
        drop(receiver);
        let joined: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        // What the disk refused is the first cause.
        wrote?;
        for done in joined {
            done.unwrap_or_else(|_| Err(Error::Sandbox("a worker ended in a panic".to_owned())))?;
        }
        Ok(())
    })
}

/// Writes until nothing comes any more. What came of an outage waits for something else to come: if
/// nothing does, it is thrown away, and done again another time.
fn write_all<T>(
    disk: &Disk,
    shared: &Shared<'_>,
    from: &Receiver<Finished<T>>,
    mut written: impl FnMut(T),
) -> Result<(), store::Error> {
    let mut waiting: Vec<Finished<T>> = Vec::new();
    let (mut in_a_row, mut has_reached) = (0, false);
    while let Ok(one) = from.recv() {
        let mut lot = vec![one];
        lot.extend(from.try_iter().take(LOT - 1));
        let mut ready = Vec::new();
        for one in lot {
            if one.is_outage {
                in_a_row += 1;
                waiting.push(one);
            } else {
                (in_a_row, has_reached) = (0, true);
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
    // One or two may have a cause of their own; more, or all, are an outage that was not over yet.
    if waiting.len() >= SOME || (!waiting.is_empty() && !has_reached) {
        let why = format!("the model could not be reached {} times at the end", waiting.len());
        shared.stop(Stop::Outage, why);
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
