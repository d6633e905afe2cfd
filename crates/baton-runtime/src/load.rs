//! The only reader of files and variables for configuration. Sizes are asked before anything is
//! read, and only regular files are opened: a pipe or a device could block or never end.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use baton_core::config::{APPROVAL, Config, Limits, USER_ONLY};
use baton_core::document::Document;
use baton_core::pack::Files;
use baton_core::problem::{Problem, nearest};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{} has {size} bytes, more than the {limit} allowed; it was not read", path.display())]
    TooLarge { path: PathBuf, size: u64, limit: u64 },
    /// Its size is only known when it was read.
    #[error("{} holds more than {limit} bytes; the rest was not read", path.display())]
    TooLong { path: PathBuf, limit: u64 },
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The text is there, but wrong; each problem names its file.
    #[error("{}", .0.first().map_or_else(String::new, ToString::to_string))]
    Invalid(Vec<Problem>),
}

/// Configuration, policies and prompts are small.
pub const SMALL: u64 = 1 << 20;

/// The bytes of a file that is no larger than `limit`. `-` is standard input.
pub fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing(path.to_owned()),
        _ => Error::Io { path: path.to_owned(), source },
    };
    if path == Path::new("-") {
        return limited(io::stdin().lock(), path, limit).map_err(|error| error.unwrap_or_else(io));
    }
    opened(regular(path, 0)?, path, limit)
}

/// As `bytes`, of a file that is not reached by a link.
pub fn bytes_of_file(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    opened(regular(path, libc::O_NOFOLLOW)?, path, limit)
}

/// Opens a regular file to read it.
fn regular(path: &Path, flags: i32) -> Result<File, Error> {
    open_regular(File::options().read(true), flags, path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing(path.to_owned()),
        io::ErrorKind::InvalidInput => Error::NotAFile(path.to_owned()),
        _ => Error::Io { path: path.to_owned(), source },
    })
}

/// Opens a regular file, and nothing else: to open a pipe could wait for ever, to open a device could
/// do anything. It may be exchanged after the first look, so it is looked at again.
pub fn open_regular(options: &mut fs::OpenOptions, flags: i32, path: &Path) -> io::Result<File> {
    let check = |own: fs::Metadata| match own.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    };
    match fs::metadata(path) {
        Ok(own) => check(own)?,
        // Whether it is made then is said by the options.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let file = options.custom_flags(libc::O_NONBLOCK | flags).open(path)?;
    check(file.metadata()?)?;
    Ok(file)
}

/// The inner error of `limited`: ours, or one to be dressed by the caller.
enum Cut {
    Ours(Error),
    Io(io::Error),
}

impl Cut {
    fn unwrap_or_else(self, dress: impl FnOnce(io::Error) -> Error) -> Error {
        match self {
            Cut::Ours(error) => error,
            Cut::Io(error) => dress(error),
        }
    }
}

/// A file may grow between the look at its size and the reading.
fn limited(from: impl Read, path: &Path, limit: u64) -> Result<Vec<u8>, Cut> {
    let mut out = Vec::new();
    from.take(limit + 1).read_to_end(&mut out).map_err(Cut::Io)?;
    if out.len() as u64 > limit {
        return Err(Cut::Ours(Error::TooLarge {
            path: path.to_owned(),
            size: out.len() as u64,
            limit,
        }));
    }
    Ok(out)
}

/// As `bytes`, of a file that somebody opened who knows where it may lie.
pub fn opened(file: File, path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let io = |source: io::Error| Error::Io { path: path.to_owned(), source };
    let size = file.metadata().map_err(io)?.len();
    if size > limit {
        return Err(Error::TooLarge { path: path.to_owned(), size, limit });
    }
    limited(file, path, limit).map_err(|error| error.unwrap_or_else(io))
}

/// True if the last line of a file has no line feed at its end; `false` without a file.
pub fn is_line_open(path: &Path) -> bool {
    let last = || -> io::Result<u8> {
        let mut file = regular(path, 0).map_err(io::Error::other)?;
        file.seek(io::SeekFrom::End(-1))?;
        let mut byte = [0];
        file.read_exact(&mut byte)?;
        Ok(byte[0])
    };
    last().is_ok_and(|byte| byte != b'\n')
}

/// The first bytes of such a file, cut at a character; what is not UTF-8 becomes a mark.
pub fn start_of(file: File, limit: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == limit {
        // A character may have been cut in two.
        let broken = bytes.iter().rev().take(4).position(|byte| (byte & 0xC0) != 0x80);
        bytes.truncate(bytes.len() - broken.map_or(0, |at| at + 1));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The lines of such a file, up to `limit` bytes.
pub fn lines_of(file: File, limit: u64) -> impl Iterator<Item = String> {
    let mut from = BufReader::with_capacity(1 << 16, file.take(limit));
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let count = from.read_until(b'\n', &mut line).ok().filter(|count| *count > 0);
        count.map(|_| String::from_utf8_lossy(&line).into_owned())
    })
}

/// A file that is read bit by bit, unpacked where it is gzip.
pub struct Stream {
    from: Box<dyn BufRead + Send>,
    path: PathBuf,
    /// Bytes that may still come, unpacked.
    left: u64,
    limit: u64,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Stream of {}", self.path.display())
    }
}

/// The bytes that a gzip file begins with, whatever its name.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Opens a file to read at most `limit` bytes of it, counted when unpacked. `-` is standard input.
pub fn stream(path: &Path, limit: u64) -> Result<Stream, Error> {
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing(path.to_owned()),
        _ => Error::Io { path: path.to_owned(), source },
    };
    let mut from: Box<dyn BufRead + Send> = match path == Path::new("-") {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::with_capacity(1 << 16, regular(path, 0)?)),
    };
    if from.fill_buf().map_err(io)?.starts_with(&GZIP) {
        let unpacked = flate2::bufread::MultiGzDecoder::new(from);
        from = Box::new(BufReader::with_capacity(1 << 16, unpacked));
    }
    Ok(Stream { from, path: path.to_owned(), left: limit, limit })
}

impl Stream {
    /// What comes next, without taking it: some bytes, none at the end.
    pub fn head(&mut self) -> Result<&[u8], Error> {
        let path = &self.path;
        self.from.fill_buf().map_err(|source| Error::Io { path: path.clone(), source })
    }

    /// Appends the next line, with its end; `false` at the end of the file.
    pub fn line(&mut self, most: u64, into: &mut Vec<u8>) -> Result<bool, Error> {
        self.take(most, |mut from| from.read_until(b'\n', into))
    }

    /// Appends everything that is left.
    pub fn rest(&mut self, most: u64, into: &mut Vec<u8>) -> Result<bool, Error> {
        self.take(most, |mut from| from.read_to_end(into))
    }

    fn take(
        &mut self,
        most: u64,
        read: impl FnOnce(io::Take<&mut Box<dyn BufRead + Send>>) -> io::Result<usize>,
    ) -> Result<bool, Error> {
        let limit = most.min(self.left);
        let count = read((&mut self.from).take(limit + 1));
        let count = count.map_err(|source| Error::Io { path: self.path.clone(), source })? as u64;
        if count > limit {
            let limit = if limit == self.left { self.limit } else { most };
            return Err(Error::TooLong { path: self.path.clone(), limit });
        }
        self.left -= count;
        Ok(count > 0)
    }
}

/// A text file. Not UTF-8 is a problem with its place.
pub fn text(path: &Path, limit: u64) -> Result<String, Error> {
    utf8(bytes(path, limit)?, path)
}

/// Bytes as text.
pub fn utf8(bytes: Vec<u8>, path: &Path) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|error| {
        let good = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()])
            .into_owned();
        let place = baton_core::problem::Place::of(&good, good.len());
        let problem = Problem::new("encoding", "the file is not UTF-8").expected("UTF-8 text");
        Error::Invalid(vec![problem.at(place).in_file(path.display().to_string())])
    })
}

/// Bounds of a pack's folder: it is somebody's text, not a project.
const PACK_FILES: usize = 300;

/// The files of a pack's folder. Links and hidden names are passed over, the depth is bounded.
pub fn pack_folder(folder: &Path) -> Result<Files, Error> {
    let mut files = Files::new();
    let mut open = vec![(folder.to_owned(), String::new(), 0)];
    while let Some((path, name, depth)) = open.pop() {
        let io = |source| Error::Io { path: path.clone(), source };
        for entry in fs::read_dir(&path).map_err(io)? {
            let entry = entry.map_err(io)?;
            let Some(own) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let kind = entry.file_type().map_err(io)?;
            let name = if name.is_empty() { own.clone() } else { format!("{name}/{own}") };
            if own.starts_with('.') || kind.is_symlink() {
                continue;
            }
            if kind.is_dir() && depth < 3 {
                open.push((entry.path(), name, depth + 1));
            } else if kind.is_file() {
                if files.len() == PACK_FILES {
                    let message =
                        format!("the folder holds more than {PACK_FILES} files: is it a pack?");
                    return Err(Error::Invalid(vec![Problem::new("pack-too-many-files", message)]));
                }
                // A picture or an archive beside the texts is nobody's mistake.
                if [".md", ".json", ".toml"].iter().any(|ending| name.ends_with(ending)) {
                    files.insert(name, text(&entry.path(), SMALL)?);
                }
            }
        }
    }
    Ok(files)
}

/// The variables that Baton looks at, taken once at the start.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl std::fmt::Debug for Environment {
    /// Values may be keys.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Environment of {} variables", self.variables.len())
    }
}

impl Environment {
    pub fn of_this_process() -> Environment {
        Environment { variables: std::env::vars_os().collect() }
    }

    /// These variables and no others, for tests and embedders.
    pub fn of(variables: &[(&str, &str)]) -> Environment {
        let pairs =
            variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Environment { variables: pairs.collect() }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(OsStr::new(name))?.to_str().filter(|value| !value.is_empty())
    }

    /// A path, which need not be text.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let value = self.variables.get(OsStr::new(name))?;
        (!value.is_empty()).then(|| PathBuf::from(value))
    }

    /// A value as it is.
    pub fn raw(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .filter(|value| !value.is_empty())
            .map(OsString::as_os_str)
    }

    pub fn all(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    pub fn is_set(&self, name: &str) -> bool {
        self.variables.get(OsStr::new(name)).is_some_and(|value| !value.is_empty())
    }

    /// The variables of these names; `NAME_*` stands for all that begin so.
    pub fn named(&self, names: &[String]) -> BTreeMap<OsString, OsString> {
        let is_named = |own: &str| {
            names.iter().any(|name| match name.strip_suffix('*') {
                Some(start) => own.starts_with(start),
                None => own.eq_ignore_ascii_case(name),
            })
        };
        let own = self.variables.iter().filter(|(name, _)| name.to_str().is_some_and(is_named));
        own.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The same for a command that works with text, in a locale of UTF-8 where the user has none: without
    /// it `wc -m` counts bytes.
    pub fn for_command(&self, names: &[String]) -> BTreeMap<OsString, OsString> {
        let is_utf8 = |name: &str| {
            self.get(name).is_some_and(|locale| {
                let locale = locale.to_ascii_lowercase();
                locale.contains("utf-8") || locale.contains("utf8")
            })
        };
        let mut own = self.named(names);
        if !["LC_ALL", "LC_CTYPE", "LANG"].into_iter().any(is_utf8) {
            for name in ["LC_ALL", "LANG"] {
                own.insert(name.into(), "C.UTF-8".into());
            }
        }
        own
    }

    /// The language of the user's locale, as `zh` of `zh_CN.UTF-8`.
    pub fn language(&self) -> Option<String> {
        let locale =
            ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(|name| self.get(name))?;
        let language = locale.split(['_', '.', '@']).next()?.to_ascii_lowercase();
        (language != "c" && language != "posix").then_some(language)
    }

    /// The values of variables that are named like keys.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        const ENDS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
        let named = self.variables.iter().filter_map(|(name, value)| {
            let name = name.to_str()?.to_ascii_uppercase();
            ENDS.iter().any(|end| name.ends_with(end)).then(|| value.to_str())?
        });
        named.map(str::trim).filter(|value| !value.is_empty())
    }

    /// Where the user's own `baton.toml` is looked for.
    pub fn config_file(&self) -> Option<PathBuf> {
        let folder = match self.get("XDG_CONFIG_HOME") {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(self.get("HOME")?).join(".config"),
        };
        Some(folder.join("baton").join("baton.toml"))
    }

    /// Where conversations are kept.
    pub fn state_folder(&self) -> Option<PathBuf> {
        let state = self.path("XDG_STATE_HOME").filter(|path| path.is_absolute());
        let state = state.or_else(|| Some(self.path("HOME")?.join(".local/state")))?;
        Some(state.join("baton"))
    }

    /// True if a folder is the user's home folder, or has it somewhere below.
    pub fn is_home_in(&self, folder: &Path) -> bool {
        let home = self.path("HOME").and_then(|home| fs::canonicalize(home).ok());
        let folder = fs::canonicalize(folder).ok();
        home.zip(folder).is_some_and(|(home, folder)| home.starts_with(folder))
    }

    /// Whether a program of this name is on the PATH.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.variables.get(OsStr::new("PATH"))?;
        std::env::split_paths(path).map(|folder| folder.join(name)).find(|file| file.is_file())
    }
}

/// `BATON_…` variables that are not keys of the configuration.
const OTHER_VARIABLES: [&str; 4] =
    ["BATON_BLACKBOARD", "BATON_PROVIDER", "BATON_BASE_URL", "BATON_MODEL"];

/// One configuration from the user's file, the blackboard's and the variables; later wins. Beside
/// it, warnings.
pub fn config(
    environment: &Environment,
    board_file: Option<&Path>,
) -> Result<(Config, Vec<Problem>), Error> {
    let mut layers = Vec::new();
    let (mut users, mut projects) = (Limits::default(), Limits::default());
    let own = environment.config_file().map(|path| (path, true));
    let files = own.into_iter().chain(board_file.map(|path| (path.to_owned(), false)));
    for (path, is_users) in files.filter(|(path, _)| path.exists()) {
        let name = path.display().to_string();
        let layer = Document::toml(&text(&path, SMALL)?)
            .map_err(|problem| Error::Invalid(vec![problem.in_file(&name)]))?
            .named(&name);
        if !is_users
            && let Some(key) = layer.root.keys().find(|key| USER_ONLY.contains(&key.name.as_str()))
        {
            let message = format!("`{}` may not be set by a project", key.name);
            let wanted = environment
                .config_file()
                .map_or_else(|| "your own file".to_owned(), |path| path.display().to_string());
            let problem =
                Problem::new("config-user-only", message).expected(format!("it in {wanted}"));
            return Err(Error::Invalid(vec![layer.locate(problem, key.span)]));
        }
        // Each file must be right on its own: a mistake below must not hide under a later layer.
        let read = Config::read(&layer).map_err(Error::Invalid)?;
        *(if is_users { &mut users } else { &mut projects }) = read.limits;
        layers.push(layer);
    }
    let mut warnings =
        variables(environment, &mut layers).map_err(|problem| Error::Invalid(vec![problem]))?;
    let whole = layers.into_iter().reduce(|below, top| below.overlaid(top, |_| true));
    let config = whole.map_or_else(|| Ok(Config::default()), |document| Config::read(&document));
    let mut config = config.map_err(Error::Invalid)?;
    for name in config.limits.keep_to(&users, &projects) {
        let message = format!(
            "`limits.{name}` of the project is above your own, which is kept; your own file, a variable or a flag raises it"
        );
        warnings.push(Problem::warning("config-limit", message));
    }
    Ok((config, warnings))
}

/// Each key as a variable: `context.level` is `BATON_CONTEXT_LEVEL`.
fn variables(
    environment: &Environment,
    layers: &mut Vec<Document>,
) -> Result<Vec<Problem>, Problem> {
    let mut keys = BTreeMap::new();
    for path in config_paths().into_iter().filter(|path| !path.starts_with(APPROVAL)) {
        keys.insert(format!("BATON_{}", path.to_uppercase().replace('.', "_")), path);
    }
    let known: Vec<&str> = keys.keys().map(String::as_str).chain(OTHER_VARIABLES).collect();
    let mut warnings = Vec::new();
    for (name, value) in &environment.variables {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        if !name.starts_with("BATON_") || value.is_empty() || OTHER_VARIABLES.contains(&name) {
            continue;
        }
        let Some(path) = keys.get(name) else {
            let mut problem =
                Problem::warning("variable-unknown", format!("the variable `{name}` is not known"));
            problem.did_you_mean = nearest(name, &known).map(str::to_owned);
            warnings.push(problem);
            continue;
        };
        // A value that is not TOML by itself (a word) is a string. A line break could set other keys.
        let quoted = serde_json::Value::from(value).to_string();
        let plain = if value.contains(['\n', '\r']) { &quoted } else { value };
        let document = Document::toml(&format!("{path} = {plain}"))
            .or_else(|_| Document::toml(&format!("{path} = {quoted}")))
            .map_err(|problem| problem.in_file(format!("${name}")))?;
        let document = document.named(format!("${name}"));
        if let Err(mut problems) = Config::read(&document) {
            return Err(problems.remove(0));
        }
        layers.push(document);
    }
    Ok(warnings)
}

/// Every key that takes a plain value, as `context.level`.
fn config_paths() -> Vec<String> {
    fn walk(prefix: &str, value: &serde_json::Value, out: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => {
                for (key, value) in map {
                    walk(
                        &if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") },
                        value,
                        out,
                    );
                }
            }
            _ => out.push(prefix.to_owned()),
        }
    }
    let mut out = vec!["pack".to_owned(), "lang".to_owned(), "context.max_tokens".to_owned()];
    walk("", &serde_json::to_value(Config::default()).unwrap_or_default(), &mut out);
    out
}

/// A short name for any bytes.
pub fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..16].to_owned()
}
