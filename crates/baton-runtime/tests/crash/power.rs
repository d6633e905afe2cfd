//! Power loss: what the store did in the reference run is written down, and a disk is made of it that
//! has all that was synced and, of the rest, whatever a seed chooses. The run must go on from there.
//! What agents write is theirs and counts as being on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use baton_runtime::journal;
use baton_runtime::store::{Disk, Fault, Op};

use crate::reference::{self, FINISHED, Way};
use crate::sweep::{check_same, child, each, fresh, seeds, undisturbed};

const SECTOR: usize = 512;
/// A shorter hole cannot be told from damage: the journal then stops, and says so.
const HOLE: usize = 16;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Create(PathBuf),
    WriteAt(PathBuf, usize, Vec<u8>),
    Append(PathBuf, Vec<u8>),
    Cut(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
    MakeFolder(PathBuf),
    Remove(PathBuf),
    Sync(PathBuf),
    SyncFailed(PathBuf),
    SyncFolder(PathBuf),
    Outside(PathBuf, Vec<u8>),
}

pub(crate) static STEPS: Mutex<Vec<Step>> = Mutex::new(Vec::new());

pub(crate) fn seen(op: Op<'_>) {
    let at = |at: u64| usize::try_from(at).unwrap();
    let own = Path::to_owned;
    STEPS.lock().unwrap().push(match op {
        Op::Create(path) => Step::Create(own(path)),
        Op::WriteAt(path, from, bytes) => Step::WriteAt(own(path), at(from), bytes.to_vec()),
        Op::Append(path, bytes) => Step::Append(own(path), bytes.to_vec()),
        Op::Cut(path, length) => Step::Cut(own(path), at(length)),
        Op::Rename(from, to) => Step::Rename(own(from), own(to)),
        Op::Exchange(one, other) => Step::Exchange(own(one), own(other)),
        Op::MakeFolder(path) => Step::MakeFolder(own(path)),
        Op::Remove(path) => Step::Remove(own(path)),
        Op::Sync(path) => Step::Sync(own(path)),
        Op::SyncFailed(path) => Step::SyncFailed(own(path)),
        Op::SyncFolder(path) => Step::SyncFolder(own(path)),
    });
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Folder,
    File(usize),
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

/// One file's content: what is on the disk, and what was only told to it.
#[derive(Debug, Clone, Default)]
struct Content {
    synced: Vec<u8>,
    pending: Vec<Change>,
    length: usize,
}

/// One name in a folder that came, changed or went.
#[derive(Debug, Clone)]
struct Edit {
    path: PathBuf,
    node: Option<Node>,
    is_synced: bool,
}

/// A disk with all that is on it for certain and all that may be.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    first: BTreeMap<PathBuf, Node>,
    now: BTreeMap<PathBuf, Node>,
    files: Vec<Content>,
    /// Those of one call come together or not at all.
    edits: Vec<Vec<Edit>>,
}

impl World {
    pub(crate) fn of(root: &Path) -> World {
        let mut world = World::default();
        let mut open = vec![root.to_owned()];
        while let Some(path) = open.pop() {
            for entry in fs::read_dir(&path).unwrap() {
                let path = entry.unwrap().path();
                let node = match path.is_dir() {
                    true => Node::Folder,
                    false => world.new_file(fs::read(&path).unwrap()),
                };
                world.first.insert(path.clone(), node);
                open.extend((node == Node::Folder).then_some(path));
            }
        }
        world.now = world.first.clone();
        world
    }

    fn new_file(&mut self, synced: Vec<u8>) -> Node {
        let length = synced.len();
        self.files.push(Content { synced, pending: Vec::new(), length });
        Node::File(self.files.len() - 1)
    }

    fn edit(&mut self, changes: Vec<(&Path, Option<Node>)>, is_synced: bool) {
        let mut edits = Vec::new();
        for (path, node) in changes {
            match node {
                Some(node) => drop(self.now.insert(path.to_owned(), node)),
                None => drop(self.now.remove(path)),
            }
            edits.push(Edit { path: path.to_owned(), node, is_synced });
        }
        self.edits.push(edits);
    }

    fn content(&mut self, path: &Path) -> &mut Content {
        match self.now.get(path) {
            Some(Node::File(number)) => &mut self.files[*number],
            other => panic!("{} is {other:?}", path.display()),
        }
    }

    fn write(&mut self, path: &Path, at: usize, bytes: &[u8]) {
        let content = self.content(path);
        content.length = content.length.max(at + bytes.len());
        content.pending.push(Change::Write(at, bytes.to_vec()));
    }

    fn cut(&mut self, path: &Path, length: usize) {
        let content = self.content(path);
        content.length = length;
        content.pending.push(Change::Cut(length));
    }

    pub(crate) fn step(&mut self, step: &Step) {
        match step {
            Step::Create(path) if self.now.contains_key(path) => self.cut(path, 0),
            Step::Create(path) => {
                let node = self.new_file(Vec::new());
                self.edit(vec![(path, Some(node))], false);
            }
            Step::WriteAt(path, at, bytes) => {
                // The history may be new.
                if !self.now.contains_key(path) {
                    self.step(&Step::Create(path.clone()));
                }
                self.write(path, *at, bytes);
            }
            Step::Append(path, bytes) => {
                let at = self.content(path).length;
                self.write(path, at, bytes);
            }
            Step::Cut(path, length) => self.cut(path, *length),
            Step::Rename(from, to) => {
                let node = self.now.get(from).copied();
                assert!(node.is_some(), "{}", from.display());
                self.edit(vec![(to, node), (from, None)], false);
            }
            Step::Exchange(one, other) => {
                let nodes = (self.now.get(one).copied(), self.now.get(other).copied());
                self.edit(vec![(one, nodes.1), (other, nodes.0)], false);
            }
            Step::MakeFolder(path) => {
                let missing: Vec<&Path> =
                    path.ancestors().take_while(|path| !self.now.contains_key(*path)).collect();
                for path in missing.into_iter().rev().filter(|path| path.parent().is_some()) {
                    self.edit(vec![(path, Some(Node::Folder))], false);
                }
            }
            Step::Remove(path) if !self.now.contains_key(path) => {}
            Step::Remove(path) => self.edit(vec![(path, None)], false),
            Step::Sync(path) => {
                let content = self.content(path);
                let pending = std::mem::take(&mut content.pending);
                pending.iter().for_each(|change| applied(&mut content.synced, change));
            }
            // The kernel takes it for written: no later sync writes it.
            Step::SyncFailed(path) => self.content(path).pending.clear(),
            Step::SyncFolder(folder) => {
                let inside = |edit: &&mut Edit| edit.path.parent() == Some(folder);
                let edits = self.edits.iter_mut().flatten();
                edits.filter(inside).for_each(|edit| edit.is_synced = true);
            }
            Step::Outside(path, bytes) => {
                let node = self.new_file(bytes.clone());
                self.edit(vec![(path, Some(node))], true);
            }
        }
    }

    /// What the disk has when the power comes back; and whether a hole in the journal is too short
    /// to be known for one.
    pub(crate) fn after_a_loss(
        &self,
        random: &mut fastrand::Rng,
    ) -> (BTreeMap<PathBuf, Option<Vec<u8>>>, bool) {
        let mut names = self.first.clone();
        for call in &self.edits {
            let is_kept = random.bool();
            for edit in call.iter().filter(|edit| edit.is_synced || is_kept) {
                match edit.node {
                    Some(node) => drop(names.insert(edit.path.clone(), node)),
                    None => drop(names.remove(&edit.path)),
                }
            }
        }
        let mut is_unclear = false;
        let mut found = BTreeMap::new();
        for (path, node) in &names {
            // A folder that is not there takes all with it. Parents come before what is in them.
            let parent = path.parent().unwrap();
            if self.now.contains_key(parent) && !found.contains_key(parent) {
                continue;
            }
            let bytes = match node {
                Node::Folder => None,
                Node::File(number) => {
                    let (bytes, shortest) = survived(&self.files[*number], random);
                    is_unclear |= path.extension().is_some_and(|own| own == "log")
                        && shortest.is_some_and(|hole| hole < HOLE);
                    Some(bytes)
                }
            };
            found.insert(path.clone(), bytes);
        }
        (found, is_unclear)
    }
}

fn applied(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, new) => {
            let end = at + new.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[*at..end].copy_from_slice(new);
        }
        Change::Cut(length) => bytes.resize(*length, 0),
    }
}

/// A file whose unsynced changes reached the disk or not, sector by sector; and the shortest hole.
fn survived(content: &Content, random: &mut fastrand::Rng) -> (Vec<u8>, Option<usize>) {
    let mut bytes = content.synced.clone();
    let mut shortest: Option<usize> = None;
    for change in &content.pending {
        let Change::Write(at, new) = change else {
            if random.bool() {
                applied(&mut bytes, change);
            }
            continue;
        };
        let mut from = *at;
        while from < at + new.len() {
            let to = ((from / SECTOR + 1) * SECTOR).min(at + new.len());
            match random.u8(..4) {
                0 => break,
                1 => {
                    bytes.resize(bytes.len().max(to), 0);
                    shortest = Some(shortest.unwrap_or(usize::MAX).min(to - from));
                }
                _ => applied(&mut bytes, &Change::Write(from, new[from - at..to - at].to_vec())),
            }
            from = to;
        }
    }
    (bytes, shortest)
}

/// Records that the run was told are on the disk.
fn acknowledged(steps: &[Step]) -> usize {
    let appended =
        |path: &Path| steps.iter().any(|step| matches!(step, Step::Append(own, _) if own == path));
    let (mut open, mut count) = (false, 0);
    for step in steps {
        match step {
            Step::Append(..) => open = true,
            Step::Sync(path) if open && appended(path) => (open, count) = (false, count + 1),
            _ => {}
        }
    }
    count
}

/// For each file that is not made anew each time: the moments when something was just written to it.
fn in_place(steps: &[Step]) -> Vec<Vec<usize>> {
    let mut moments: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        if let Step::WriteAt(path, ..) | Step::Append(path, _) | Step::Cut(path, _) = step
            && !path.to_string_lossy().contains("/.baton-")
        {
            moments.entry(path).or_default().push(index + 1);
        }
    }
    moments.into_values().collect()
}

/// Makes the files of a disk in another place.
pub(crate) fn laid_out(disk: &BTreeMap<PathBuf, Option<Vec<u8>>>, from: &Path, to: &Path) {
    for (path, bytes) in disk {
        let path = to.join(path.strip_prefix(from).unwrap());
        match bytes {
            None => fs::create_dir_all(path).unwrap(),
            Some(bytes) => fs::write(path, bytes).unwrap(),
        }
    }
}

pub(crate) fn what_was_synced_survives_a_power_loss() {
    let folder = fresh();
    let project = folder.path().join("project");
    let first = World::of(&project);
    let mut way = Way::of(Disk::seen_by(Fault::None, seen));
    way.wrote = |path, bytes| {
        STEPS.lock().unwrap().push(Step::Outside(path.to_owned(), bytes.to_vec()));
    };
    assert_eq!(reference::go(folder.path(), &way).unwrap(), FINISHED);
    check_same(folder.path(), undisturbed(), "written down");
    let steps = std::mem::take(&mut *STEPS.lock().unwrap());
    let records = journal::records(&reference::journal_of(folder.path())).unwrap();
    assert_eq!(acknowledged(&steps), records.len());
    let in_place = in_place(&steps);
    let (unclear, states) = (AtomicU32::new(0), Mutex::new(BTreeSet::new()));
    each(&seeds(100, 10_000), |seed| {
        let mut random = fastrand::Rng::with_seed(*seed);
        // Anywhere; and as often where a file that was there before is being written.
        let lost_at = match random.bool() {
            true => random.usize(..=steps.len()),
            false => {
                let of_one = &in_place[random.usize(..in_place.len())];
                of_one[random.usize(..of_one.len())]
            }
        };
        let mut world = first.clone();
        steps[..lost_at].iter().for_each(|step| world.step(step));
        let (disk, is_unclear) = world.after_a_loss(&mut random);
        if !states.lock().unwrap().insert(crc32fast::hash(format!("{disk:?}").as_bytes())) {
            return;
        }
        let what = format!("seed {seed}, lost at {lost_at} of {}", steps.len());
        let again = fresh();
        fs::remove_dir_all(again.path().join("project")).unwrap();
        fs::create_dir(again.path().join("project")).unwrap();
        fs::write(again.path().join("calls"), "").unwrap();
        laid_out(&disk, folder.path(), again.path());
        let wanted = acknowledged(&steps[..lost_at]);
        match journal::records(&reference::journal_of(again.path())) {
            Ok(found) => {
                assert!(found.len() >= wanted, "{what}: {} of {wanted}", found.len());
                assert_eq!(found[..], records[..found.len()], "{what}");
            }
            Err(journal::Error::Missing(_)) if wanted == 0 => {}
            Err(_) if is_unclear => {
                unclear.fetch_add(1, Ordering::SeqCst);
                return;
            }
            Err(error) => panic!("{what}: {error}"),
        }
        let output = child(again.path(), "none", 0);
        assert_eq!(output.status.code(), Some(FINISHED), "{what}: {output:?}");
        check_same(again.path(), undisturbed(), &what);
    });
    let (unclear, states) = (unclear.into_inner(), states.into_inner().unwrap().len());
    assert!(unclear as usize * 20 < states, "{unclear} of {states} could not be told from damage");
    println!("{states} states of the disk after {} steps, {unclear} unclear", steps.len());
}
