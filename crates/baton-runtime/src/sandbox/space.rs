//! A mount namespace in which a project is a view of itself: an overlay whose changes go to another
//! folder, or a copy in its place. A process of ours keeps the namespace; programs are started in it,
//! and the project is reached from outside through that process, so that all see the same files.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{DumpableBehavior, set_dumpable_behavior, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use super::confine::{Feature, Line, Orders, Raw, Sheet, StandIns};
use super::enter::{read_only, unshare};
use super::launch::{Failed, Lines, identity};
use super::mounts::{cloned, put};
use super::{Confine, Program, Refused, start};

/// The time that the namespace gets to be made.
const LIMIT: Duration = Duration::from_secs(20);

/// A folder of the namespace that is not the one outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    /// The lower folders under one that takes the changes. The first lower folder hides the others.
    Overlay { at: PathBuf, lower: Vec<PathBuf>, upper: PathBuf, work: PathBuf },
    /// Another folder, which may be changed, or the same one, which may not.
    Bound { at: PathBuf, from: PathBuf, is_read_only: bool },
}

/// See [`Layer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LayerOrders {
    Overlay { at: Raw, lower: Vec<Raw>, upper: Raw, work: Raw },
    Bound { at: Raw, from: Raw, is_read_only: bool },
}

impl From<&Layer> for LayerOrders {
    fn from(layer: &Layer) -> LayerOrders {
        match layer {
            Layer::Overlay { at, lower, upper, work } => LayerOrders::Overlay {
                at: Raw::of(at),
                lower: lower.iter().map(Raw::of).collect(),
                upper: Raw::of(upper),
                work: Raw::of(work),
            },
            Layer::Bound { at, from, is_read_only } => LayerOrders::Bound {
                at: Raw::of(at),
                from: Raw::of(from),
                is_read_only: *is_read_only,
            },
        }
    }
}

/// Names the namespace of a view for programs that are to be started in it. It is valid as long as
/// its [`ViewSpace`] lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Within(u32);

/// See the module. The namespace ends with this value, and with Baton.
#[derive(Debug)]
pub struct ViewSpace {
    child: Child,
}

impl ViewSpace {
    /// Makes the layers, in this order. `Err`: the reason, for the user.
    pub fn open(layers: &[Layer]) -> Result<ViewSpace, String> {
        let said = |refused: Refused| refused.said();
        let program = Program {
            argv: vec!["view".into()],
            ..super::idle(Confine::Open { protected: Vec::new() })
        };
        let mut orders = Orders {
            argv: Vec::new(),
            folder: Raw::of("/"),
            places: Vec::new(),
            closed: None,
            tasks: None,
            memory: None,
            within: None,
            layers: layers.iter().map(LayerOrders::from).collect(),
        };
        let mut started =
            start(&program, Some(&mut orders), StandIns::default(), None).map_err(said)?;
        let Some(sheet) = started.sheet.take() else {
            return Err("this program cannot keep a view".to_owned());
        };
        let mut space = ViewSpace { child: started.child };
        space.wait_for(&sheet)?;
        Ok(space)
    }

    fn wait_for(&mut self, sheet: &Sheet) -> Result<(), String> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(200);
        while start.elapsed() < LIMIT {
            let has_ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            let report = sheet.report();
            match (report.missing, report.failed) {
                (Some((feature, why)), _) => return Err(format!("{feature}: {why}")),
                (_, Some(why)) => return Err(why),
                _ if report.has_begun => return Ok(()),
                _ if has_ended => return Err("the process that keeps the view ended".to_owned()),
                _ => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        Err("the view was not made in time".to_owned())
    }

    pub fn within(&self) -> Within {
        Within(self.child.id())
    }

    /// A path of the namespace, as it is reached from outside.
    pub fn path(&self, inside: &Path) -> PathBuf {
        let inside = inside.strip_prefix("/").unwrap_or(inside);
        Path::new("/proc").join(self.child.id().to_string()).join("root").join(inside)
    }
}

impl Drop for ViewSpace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As the process that keeps the namespace: makes it, says so, and waits for the end of Baton or of
/// its view.
pub(super) fn keep(orders: &Orders, lines: &mut Lines) -> Result<i32, Failed> {
    let other = |error: rustix::io::Errno| Failed::Other(error.to_string());
    // It ends with its standard input; the thread that made it may end earlier.
    set_parent_process_death_signal(None).map_err(other)?;
    own_mounts()?;
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", propagation).map_err(|error| Failed::Other(format!("mounts: {error}")))?;
    let sources = orders.layers.iter().map(Source::of).collect::<Result<Vec<Source>, Failed>>()?;
    for (layer, source) in orders.layers.iter().zip(&sources) {
        lay(layer, source)?;
    }
    drop(sources);
    // Baton reaches the files through us.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(other)?;
    lines.say(&Line::Begins);
    let _ = io::stdin().read(&mut [0]);
    Ok(0)
}

/// Root keeps its rights over the files of others; any other user needs a namespace to mount.
fn own_mounts() -> Result<(), Failed> {
    let is_root = rustix::process::geteuid().is_root();
    if is_root && unshare(UnshareFlags::NEWNS).is_ok() {
        return Ok(());
    }
    let missing = |feature| move |error: io::Error| Failed::Missing(feature, error.to_string());
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(UnshareFlags::NEWUSER).map_err(missing(Feature::UserNamespace))?;
    identity(user.as_raw(), group.as_raw()).map_err(missing(Feature::UserNamespace))?;
    unshare(UnshareFlags::NEWNS).map_err(missing(Feature::MountNamespace))
}

/// The folders of a layer, opened before anything is mounted over them.
enum Source {
    Overlay { lower: Vec<File>, upper: File, work: File },
    Bound(std::os::fd::OwnedFd),
}

impl Source {
    fn of(layer: &LayerOrders) -> Result<Source, Failed> {
        let failed = |path: &Path, error: io::Error| {
            Failed::Other(format!("cannot open {}: {error}", path.display()))
        };
        let open = |raw: &Raw| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let path = raw.path();
            let opened = rustix::fs::openat(CWD, &path, flags, Mode::empty());
            opened.map(File::from).map_err(|error| failed(&path, error.into()))
        };
        Ok(match layer {
            LayerOrders::Overlay { lower, upper, work, .. } => Source::Overlay {
                lower: lower.iter().map(open).collect::<Result<_, _>>()?,
                upper: open(upper)?,
                work: open(work)?,
            },
            LayerOrders::Bound { from, .. } => {
                let path = from.path();
                Source::Bound(cloned(&path).map_err(|error| failed(&path, error))?)
            }
        })
    }
}

fn lay(layer: &LayerOrders, source: &Source) -> Result<(), Failed> {
    let failed = |path: &Path, error: io::Error| {
        Failed::Missing(Feature::Overlay, format!("{}: {error}", path.display()))
    };
    match (layer, source) {
        (LayerOrders::Overlay { at, .. }, Source::Overlay { lower, upper, work }) => {
            // By number: a path may have characters that mean something here.
            let own = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd());
            let lower: Vec<String> = lower.iter().map(own).collect();
            let options = format!(
                "lowerdir={},upperdir={},workdir={},userxattr",
                lower.join(":"),
                own(upper),
                own(work)
            );
            let options = std::ffi::CString::new(options).unwrap_or_default();
            let (at, flags) = (at.path(), MountFlags::NOSUID | MountFlags::NODEV);
            mount("overlay", &at, "overlay", flags, Some(options.as_c_str()))
                .map_err(|error| failed(&at, error.into()))
        }
        (LayerOrders::Bound { at, is_read_only, .. }, Source::Bound(tree)) => {
            let at = at.path();
            put(tree, &at).map_err(|error| failed(&at, error))?;
            match is_read_only {
                true => read_only(&at, true).map_err(|error| failed(&at, error)),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Moves the calling process into the namespace of a view.
pub(super) fn join(within: Within) -> Result<(), Failed> {
    let failed = |error: io::Error| Failed::Other(format!("cannot enter the view: {error}"));
    let space = |kind: &str| format!("/proc/{}/ns/{kind}", within.0);
    let is_other_user = || -> io::Result<bool> {
        Ok(std::fs::read_link(space("user"))? != std::fs::read_link("/proc/self/ns/user")?)
    };
    let enter = |kind: &str, space_type| -> io::Result<()> {
        let file = File::open(space(kind))?;
        Ok(move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(space_type))?)
    };
    // Opened first: the rights to see that process are those that we have now.
    let mounts = File::open(space("mnt")).map_err(failed)?;
    if is_other_user().map_err(failed)? {
        enter("user", LinkNameSpaceType::User).map_err(failed)?;
    }
    let moved = move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&mounts),
        Some(LinkNameSpaceType::Mount),
    );
    moved.map_err(|error| failed(error.into()))
}
