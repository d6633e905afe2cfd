//! Settings of the user without what is secret in them: goes in the text of a file, comes out a text
//! with the settings that are known to hold no secret, in the same words.

mod lines;
mod maven;

use std::path::{Path, PathBuf};

use baton_core::document::{Document, Node, Value};

pub(super) use lines::{bundle, cabal, conan, conan_remotes, go};
pub(super) use maven::maven;

/// Settings that may be seen, and the folders that they name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cleaned {
    pub(super) text: String,
    pub(super) folders: Vec<Named>,
}

/// A folder that a setting names, in the words of the setting, and the folder of a tool that it is in
/// the place of: the same parts of it are seen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) path: String,
    pub(super) instead_of: &'static str,
}

impl Cleaned {
    fn names(&mut self, path: &str, instead_of: &'static str) {
        self.folders.push(Named { path: path.to_owned(), instead_of });
    }
}

/// Words in the name of a setting or a variable that show that its value is a secret.
const SECRET_WORDS: [&str; 9] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "auth",
    "apikey",
    "private",
];
/// Settings of git that say how it works and looks, by section. No keys: all of them.
const GIT: &[(&str, &[&str])] = &[
    ("user", &["name", "email", "useconfigonly"]),
    ("author", &["name", "email"]),
    ("committer", &["name", "email"]),
    (
        "core",
        &[
            "autocrlf",
            "eol",
            "safecrlf",
            "filemode",
            "ignorecase",
            "precomposeunicode",
            "quotepath",
            "symlinks",
            "abbrev",
            "whitespace",
            "bigfilethreshold",
            "compression",
            "excludesfile",
            "attributesfile",
            "checkstat",
            "trustctime",
            "commentchar",
            "longpaths",
        ],
    ),
    ("init", &["defaultbranch"]),
    ("color", &[]),
    ("column", &[]),
    (
        "diff",
        &[
            "algorithm",
            "renames",
            "renamelimit",
            "mnemonicprefix",
            "colormoved",
            "colormovedws",
            "context",
            "submodule",
            "noprefix",
            "indentheuristic",
            "suppressblankempty",
        ],
    ),
    (
        "merge",
        &["conflictstyle", "ff", "renames", "renamelimit", "stat", "log", "directoryrenames"],
    ),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote", "followtags"]),
    ("fetch", &["prune", "prunetags", "parallel", "writecommitgraph"]),
    ("rebase", &["autosquash", "autostash", "updaterefs", "stat", "abbreviatecommands"]),
    ("branch", &["sort", "autosetupmerge", "autosetuprebase"]),
    ("tag", &["sort"]),
    ("status", &[]),
    ("stash", &[]),
    ("log", &["date", "decorate", "follow", "abbrevcommit", "showsignature"]),
    ("format", &["pretty"]),
    ("advice", &[]),
    ("help", &["autocorrect", "format"]),
    ("i18n", &[]),
    ("index", &[]),
    ("pack", &[]),
    ("gc", &["auto", "autodetach"]),
    ("grep", &[]),
    ("apply", &[]),
    ("blame", &["date", "coloring"]),
    ("commit", &["verbose", "cleanup", "status"]),
    ("rerere", &[]),
    ("safe", &["directory"]),
    ("feature", &[]),
    ("versionsort", &[]),
    ("checkout", &[]),
    ("submodule", &["recurse", "fetchjobs"]),
    ("transfer", &["fsckobjects"]),
    ("alias", &[]),
];

/// One setting of git.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    section: String,
    subsection: Option<String>,
    key: String,
    /// `None`: the name alone, which means true.
    value: Option<String>,
}

/// The settings of git that may be seen, and the files that they name: other settings to be cleaned,
/// and lists of ignored files.
#[derive(Debug, Default)]
pub(super) struct Git {
    pub(super) text: String,
    pub(super) includes: Vec<PathBuf>,
    pub(super) lists: Vec<PathBuf>,
}

/// `file` is where the text is from: names of files in it are meant from there.
pub(super) fn git(text: &str, file: &Path, home: &Path) -> Git {
    let mut out = Git::default();
    let mut section = String::new();
    for own in settings(text).into_iter().filter(is_kept) {
        let named = own.value.as_deref().map(|value| named(value, file, home));
        match (own.section.as_str(), own.key.as_str()) {
            ("include" | "includeif", _) => out.includes.extend(named),
            ("core", "excludesfile" | "attributesfile") => out.lists.extend(named),
            _ => {}
        }
        let header = match &own.subsection {
            Some(name) => format!("[{} {}]\n", own.section, quoted(name)),
            None => format!("[{}]\n", own.section),
        };
        if header != section {
            out.text.push_str(&header);
            section = header;
        }
        match &own.value {
            Some(value) => out.text.push_str(&format!("\t{} = {}\n", own.key, quoted(value))),
            None => out.text.push_str(&format!("\t{}\n", own.key)),
        }
    }
    out
}

/// The settings of a repository for a private copy of it: nothing that names a program or another
/// file. `Err`: what in them a copy cannot have.
pub(in crate::sandbox) fn repository(
    text: &str,
    file: &Path,
    home: &Path,
) -> Result<String, String> {
    for own in settings(text) {
        let value = own.value.as_deref().unwrap_or("true").to_ascii_lowercase();
        let is_off = matches!(value.as_str(), "" | "0" | "false" | "no" | "off");
        let is_known = match (own.section.as_str(), own.key.as_str()) {
            ("extensions", "objectformat") => value == "sha1",
            ("extensions", "refstorage") => value == "files",
            ("extensions", "worktreeconfig") => is_off,
            ("core", "repositoryformatversion") => matches!(value.as_str(), "0" | "1"),
            ("core", "bare" | "sparsecheckout") => is_off,
            ("core", "sharedrepository") => is_off || value == "umask",
            ("extensions" | "include" | "includeif" | "filter", _)
            | ("core", "worktree")
            | ("remote", "promisor" | "partialclonefilter") => false,
            _ => true,
        };
        if !is_known {
            return Err(format!("its setting `{}.{}`", own.section, own.key));
        }
    }
    Ok(format!("{}{COPY}", git(text, file, home).text))
}

/// Settings of every private copy. Nothing in it may be thrown away, and nothing is written to its
/// settings beside a branch.
const COPY: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogallrefupdates = true\n\tuntrackedcache = false\n\tfsmonitor = false\n\tsplitindex = false\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[branch]\n\tautosetupmerge = false\n[index]\n\tskiphash = false\n";

fn named(value: &str, file: &Path, home: &Path) -> PathBuf {
    match value.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => file.parent().unwrap_or(home).join(value),
    }
}

fn is_kept(own: &Setting) -> bool {
    let value = own.value.as_deref().unwrap_or_default();
    let is_plain = !value.contains("://") && !value.contains('\0') && !is_secret_name(value);
    let sub = own.subsection.as_deref();
    match own.section.as_str() {
        "include" => sub.is_none() && own.key == "path",
        "includeif" => own.key == "path" && sub.is_some_and(|own| !own.contains("://")),
        // A program of the user that changes files on their way.
        "filter" => {
            sub == Some("lfs")
                && (value.starts_with("git-lfs ") || own.key == "required")
                && is_plain
        }
        // A shell command may hold anything.
        "alias" => sub.is_none() && is_plain && !value.trim_start().starts_with('!'),
        "color" => is_plain,
        section => {
            let known = GIT.iter().find(|(name, _)| *name == section);
            let is_known =
                known.is_some_and(|(_, keys)| keys.is_empty() || keys.contains(&own.key.as_str()));
            is_known && sub.is_none() && is_plain
        }
    }
}

fn is_secret_name(name: &str) -> bool {
    let name: String = name.to_ascii_lowercase().replace(['-', '_'], "");
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// All settings of a text, up to the first line that git would refuse.
fn settings(text: &str) -> Vec<Setting> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix(['#', ';']) {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        if let Some(header) = rest.strip_prefix('[') {
            let Some((own, after)) = header_of(header) else { return found };
            section = Some(own);
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let (key, after) = rest.split_at(end.unwrap_or(rest.len()));
        let Some((name, subsection)) = section.clone().filter(|_| !key.is_empty()) else {
            return found;
        };
        let after = after.trim_start_matches([' ', '\t', '\r']);
        let (value, after) = match after.strip_prefix('=') {
            Some(value) => match value_of(value) {
                Some((value, after)) => (Some(value), after),
                None => return found,
            },
            None => (None, after.split_once('\n').map_or("", |(_, rest)| rest)),
        };
        rest = after;
        let key = key.to_ascii_lowercase();
        found.push(Setting { section: name, subsection, key, value });
    }
}

/// What is behind the `[` of a section.
fn header_of(text: &str) -> Option<((String, Option<String>), &str)> {
    let end = text.find([']', ' ', '\t', '\n'])?;
    let (name, rest) = text.split_at(end);
    let rest = rest.trim_start_matches([' ', '\t']);
    if let Some(after) = rest.strip_prefix(']') {
        let name = name.to_ascii_lowercase();
        let (name, sub) = match name.split_once('.') {
            Some((name, sub)) => (name.to_owned(), Some(sub.to_owned())),
            None => (name, None),
        };
        return Some(((name, sub), after));
    }
    let mut sub = String::new();
    let mut chars = rest.strip_prefix('"')?.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let after = rest[at + 2..].strip_prefix(']')?;
                return Some(((name.to_ascii_lowercase(), Some(sub)), after));
            }
            '\\' => sub.push(chars.next()?.1),
            '\n' => return None,
            c => sub.push(c),
        }
    }
    None
}

/// A value up to the end of its line, as git reads it.
fn value_of(text: &str) -> Option<(String, &str)> {
    let (mut value, mut kept, mut is_quoted) = (String::new(), 0, false);
    let text = text.trim_start_matches([' ', '\t']);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' if is_quoted => return None,
            '\n' => {
                value.truncate(kept);
                return Some((value, &text[at + 1..]));
            }
            '#' | ';' if !is_quoted => {
                let rest = text[at..].split_once('\n').map_or("", |(_, rest)| rest);
                value.truncate(kept);
                return Some((value, rest));
            }
            '"' => is_quoted = !is_quoted,
            '\\' => {
                match chars.next()?.1 {
                    '\n' => continue,
                    '\r' if chars.next_if(|(_, c)| *c == '\n').is_some() => continue,
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'b' => value.push('\u{8}'),
                    c @ ('"' | '\\') => value.push(c),
                    _ => return None,
                }
                kept = value.len();
            }
            '\r' if chars.peek().is_none_or(|(_, c)| *c == '\n') => {}
            c => {
                value.push(c);
                if is_quoted || !c.is_whitespace() {
                    kept = value.len();
                }
            }
        }
    }
    value.truncate(kept);
    (!is_quoted).then_some((value, ""))
}

/// Tables of cargo's own settings that are seen.
const CARGO: &[&str] = &[
    "alias",
    "build",
    "cache",
    "doc",
    "env",
    "future-incompat-report",
    "http",
    "install",
    "net",
    "patch",
    "paths",
    "profile",
    "registries",
    "registry",
    "resolver",
    "source",
    "target",
    "term",
    "unstable",
];
/// Of those of mise.
const MISE: &[&str] = &["tools", "settings", "alias", "tool_alias", "plugins"];

/// Tables of the settings of Hatch: not `publish`, which has the users and passwords of package indexes.
const HATCH: &[&str] = &["dirs", "mode", "project", "projects", "shell", "template", "terminal"];
/// Tables and keys of the settings of Poetry.
const POETRY: &[&str] = &["cache-dir", "virtualenvs"];

/// Settings of cargo. A wrapper that needs a server outside of the sandbox is left out.
pub(super) fn cargo(text: &str) -> Option<Cleaned> {
    let text = toml(text, CARGO)?;
    let needs_server = |line: &&str| {
        let is_wrapper = line.starts_with("\"build\".\"rustc-wrapper\"")
            || line.starts_with("\"build\".\"rustc-workspace-wrapper\"");
        is_wrapper && line.contains("sccache")
    };
    let lines = text.lines().filter(|line| !needs_server(line));
    let text = lines.map(|line| format!("{line}\n")).collect();
    Some(Cleaned { text, ..Cleaned::default() })
}

pub(super) fn mise(text: &str) -> Option<Cleaned> {
    Some(Cleaned { text: toml(text, MISE)?, ..Cleaned::default() })
}

pub(super) fn hatch(text: &str) -> Option<Cleaned> {
    let mut out = Cleaned { text: toml(text, HATCH)?, ..Cleaned::default() };
    for (setting, instead_of) in [
        (&["dirs", "data"][..], ".local/share/hatch"),
        (&["dirs", "cache"], ".cache/hatch"),
        (&["dirs", "env", "virtual"], ".local/share/hatch/env/virtual"),
    ] {
        if let Some(path) = string(&out.text, setting) {
            out.names(&path, instead_of);
        }
    }
    Some(out)
}

pub(super) fn poetry(text: &str) -> Option<Cleaned> {
    let mut out = Cleaned { text: toml(text, POETRY)?, ..Cleaned::default() };
    let cache = string(&out.text, &["cache-dir"]);
    if let Some(path) = &cache {
        out.names(path, ".cache/pypoetry");
    }
    // A path that begins in the cache's folder, as the default does, is seen with it.
    if let Some(path) = string(&out.text, &["virtualenvs", "path"]) {
        let cache = cache.as_deref().unwrap_or("~/.cache/pypoetry");
        out.names(&path.replace("{cache-dir}", cache), ".virtualenvs");
    }
    Some(out)
}

/// The text of a setting in TOML.
fn string(text: &str, path: &[&str]) -> Option<String> {
    let mut document = Document::toml(text).ok()?;
    let mut node = &mut document.root;
    for name in path {
        let Value::Object(entries) = &mut node.value else { return None };
        node = entries.iter_mut().find(|(key, _)| key.name == *name).map(|(_, node)| node)?;
    }
    match &node.value {
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// A TOML file with these tables alone, without the settings that are secrets by their names and
/// without user names and passwords in addresses. `None`: it is not TOML.
fn toml(text: &str, tables: &[&str]) -> Option<String> {
    let document = Document::toml(text).ok()?;
    let mut out = String::new();
    let Value::Object(entries) = &document.root.value else { return None };
    for (key, node) in entries.iter().filter(|(key, _)| tables.contains(&key.name.as_str())) {
        leaves(&toml_quoted(&key.name), node, &mut out);
    }
    Some(out)
}

fn leaves(path: &str, node: &Node, out: &mut String) {
    match &node.value {
        Value::Object(entries) => {
            for (key, node) in entries.iter().filter(|(key, _)| is_open(&key.name)) {
                leaves(&format!("{path}.{}", toml_quoted(&key.name)), node, out);
            }
        }
        _ => out.push_str(&format!("{path} = {}\n", inline(node))),
    }
}

fn is_open(name: &str) -> bool {
    !is_secret_name(name) && !matches!(name, "proxy" | "secret-key") && !name.ends_with("_KEY")
}

fn inline(node: &Node) -> String {
    match &node.value {
        // TOML has no null.
        Value::Null => "\"\"".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::String(text) => toml_quoted(&without_passwords(text)),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Object(entries) => {
            let open = entries.iter().filter(|(key, _)| is_open(&key.name));
            let open =
                open.map(|(key, node)| format!("{} = {}", toml_quoted(&key.name), inline(node)));
            format!("{{ {} }}", open.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text in quotes of JSON, which TOML takes, too.
fn toml_quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Every `scheme://user:password@host` of a text as `scheme://host`, and addresses without queries.
fn without_passwords(text: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || "\"<>".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        // A comma or a quote can be a part of a password.
        let end = after.find(|c: char| is_end(c) || "/?#|\\".contains(c)).unwrap_or(after.len());
        // The next address of a list, whose scheme this is.
        let is_followed = after[..end].ends_with(':') && after[end..].starts_with("//");
        let (authority, left) = after.split_at(if is_followed { end - 1 } else { end });
        let host = authority.rsplit('@').next().unwrap_or_default();
        let (word, next) = left.split_at(left.find(is_end).unwrap_or(left.len()));
        if host.split(',').any(has_word_as_port) {
            // A password with a `/` in it: this is not an address.
            rest = next;
            continue;
        }
        out.push_str(host);
        rest = match word.split_once('?') {
            Some((word, _)) => {
                out.push_str(&without_passwords(word));
                next
            }
            None => left,
        };
    }
    out.push_str(rest);
    out
}

fn has_word_as_port(host: &str) -> bool {
    let port = host.rsplit(']').next().unwrap_or_default().rsplit_once(':');
    port.is_some_and(|(_, port)| port.chars().any(|c| !c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_keeps_how_it_works_and_loses_every_place_for_a_secret() {
        let text = "\u{feff}# mine\n[user]\n\tname = \"Ada ; \\\"L\\\"\" # not this\n\temail=ada@example.org\r\n\
            [core] autocrlf = input\n\tsshCommand = ssh -i k1 CANARY\n\texcludesFile = ~/.ignored\n\taskpass = CANARY\n\
            [credential \"https://x\"]\n\thelper = store --file CANARY\n\
            [http \"https://x\"]\n\textraheader = Authorization: CANARY\n[http]\n\tproxy = http://u:CANARY@p\n\
            [url \"https://u:CANARY@host/\"]\n\tinsteadOf = https://host/\n\
            [remote \"o\"]\n\turl = https://CANARY@host\n[github]\n\ttoken = CANARY\n[sendemail]\n\tsmtppass = CANARY\n\
            [alias]\n\tst = status -sb\n\tup = !curl -H CANARY\n\tx = push https://CANARY@host\n\
            [include]\n\tpath = more\n[includeIf \"gitdir:~/work/\"]\n\tpath = ~/work.config\n\
            [init]\n\tdefaultBranch = tru\\\nnk\n[commit]\n\tgpgsign\n\tverbose\n[init \"CANARY\"]\n\tdefaultBranch = x\n\
            [filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\tsmudge = CANARY\n[safe]\n\tdirectory = *\n";
        let own = git(text, Path::new("/home/a/.gitconfig"), Path::new("/home/a"));
        insta::assert_snapshot!(own.text, @r#"
        [user]
        	name = "Ada ; \"L\""
        	email = "ada@example.org"
        [core]
        	autocrlf = "input"
        	excludesfile = "~/.ignored"
        [alias]
        	st = "status -sb"
        [include]
        	path = "more"
        [includeif "gitdir:~/work/"]
        	path = "~/work.config"
        [init]
        	defaultbranch = "trunk"
        [commit]
        	verbose
        [filter "lfs"]
        	clean = "git-lfs clean -- %f"
        [safe]
        	directory = "*"
        "#);
        assert_eq!(own.includes, ["/home/a/more", "/home/a/work.config"].map(PathBuf::from));
        assert_eq!(own.lists, [PathBuf::from("/home/a/.ignored")]);
    }

    #[test]
    fn a_broken_text_ends_the_settings_and_never_panics() {
        for text in [
            "[",
            "[a",
            "[user]\nname = \"open",
            "[user]\nname = \\x",
            "key = 1",
            "[user \"é",
            "[user]\n=",
            "[user]\né = 1",
        ] {
            let text = format!("[user]\nname = Ada\n{text}");
            let own = git(&text, Path::new("/h/.gitconfig"), Path::new("/h"));
            assert!(own.text.starts_with("[user]\n\tname = \"Ada\"\n"), "{text}: {}", own.text);
            for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
                git(&text[..end], Path::new("/h/.gitconfig"), Path::new("/h"));
            }
        }
    }

    #[test]
    fn cargo_keeps_how_it_builds_and_loses_tokens_and_passwords() {
        let text = "[registry]\ntoken = \"CANARY\"\ndefault = \"own\"\ncredential-provider = [\"cat\", \"CANARY\"]\n\
            [registries.own]\nindex = \"sparse+https://u:CANARY@own.example/index/?k=CANARY\"\ntoken = \"CANARY\"\nsecret-key = \"CANARY\"\n\
            [http]\nproxy = \"u:CANARY@proxy:3128\"\ntimeout = 5\n[env]\nMY_TOKEN = \"CANARY\"\nOPENSSL_DIR = { value = \"ssl\", relative = true }\n\
            [target.'cfg(unix)']\nrustflags = [\"-C\", \"link-arg=x\"]\n[net]\noffline = true\n[credential-alias]\nx = \"CANARY\"\n[unknown]\nx = \"CANARY\"\n";
        let own = cargo(text).unwrap().text;
        insta::assert_snapshot!(own, @r#"
        "registry"."default" = "own"
        "registries"."own"."index" = "sparse+https://own.example/index/"
        "http"."timeout" = 5
        "env"."OPENSSL_DIR"."value" = "ssl"
        "env"."OPENSSL_DIR"."relative" = true
        "target"."cfg(unix)"."rustflags" = ["-C", "link-arg=x"]
        "net"."offline" = true
        "#);
        assert!(Document::toml(&own).is_ok());
        assert_eq!(cargo("x = "), None);
    }

    #[test]
    fn a_wrapper_of_cargo_that_needs_a_server_is_left_out() {
        let text = "build = { rustc-wrapper = \"/opt/bin/sccache\", jobs = 2 }\n";
        assert_eq!(cargo(text).unwrap().text, "\"build\".\"jobs\" = 2\n");
        let text = "[build]\nrustc-wrapper = \"own\"\nrustc-workspace-wrapper = \"sccache\"\n";
        assert_eq!(cargo(text).unwrap().text, "\"build\".\"rustc-wrapper\" = \"own\"\n");
    }

    #[test]
    fn hatch_and_poetry_keep_their_folders_and_lose_what_they_publish_with() {
        let paths = |own: &Cleaned| -> Vec<(String, &'static str)> {
            own.folders.iter().map(|own| (own.path.clone(), own.instead_of)).collect()
        };
        let text = "mode = \"local\"\n[dirs]\nproject = []\ndata = \"/home/a/data\"\ncache = \"/home/a/cache\"\n[dirs.env]\nvirtual = \"/home/a/envs\"\n\
            [publish.index]\nuser = \"CANARY\"\nauth = \"CANARY\"\n[template]\nname = \"Ada\"\n[projects]\na = \"https://u:CANARY@h/a\"\n[unknown]\nx = \"CANARY\"\n";
        let own = hatch(text).unwrap();
        insta::assert_snapshot!(own.text, @r#"
        "mode" = "local"
        "dirs"."project" = []
        "dirs"."data" = "/home/a/data"
        "dirs"."cache" = "/home/a/cache"
        "dirs"."env"."virtual" = "/home/a/envs"
        "template"."name" = "Ada"
        "projects"."a" = "https://h/a"
        "#);
        assert_eq!(paths(&own).len(), 3);
        let text = "cache-dir = \"/home/a/cache\"\n[virtualenvs]\nin-project = true\npath = \"{cache-dir}/envs\"\n[repositories.corp]\nurl = \"https://u:CANARY@h\"\n\
            [http-basic.corp]\nusername = \"CANARY\"\npassword = \"CANARY\"\n[pypi-token]\npypi = \"CANARY\"\n[certificates.a]\ncert = \"CANARY\"\n";
        let own = poetry(text).unwrap();
        insta::assert_snapshot!(own.text, @r#"
        "cache-dir" = "/home/a/cache"
        "virtualenvs"."in-project" = true
        "virtualenvs"."path" = "{cache-dir}/envs"
        "#);
        let named = [("/home/a/cache", ".cache/pypoetry"), ("/home/a/cache/envs", ".virtualenvs")];
        assert_eq!(paths(&own), named.map(|(path, own)| (path.to_owned(), own)));
        let deep = format!("a = {}", "[".repeat(100_000));
        for bad in ["x = ", "CANARY", "[virtualenvs", &deep] {
            assert_eq!((hatch(bad), poetry(bad), mise(bad)), (None, None, None), "{bad:.40}");
        }
        assert_eq!(paths(&poetry("virtualenvs = 1\ncache-dir = 2\n").unwrap()), []);
    }

    #[test]
    fn addresses_lose_users_passwords_and_queries() {
        for (text, expected) in [
            ("https://h/a@b", "https://h/a@b"),
            ("https://u:p@h:80/a?k=v x", "https://h:80/a x"),
            ("https://u:p,q'r@h/", "https://h/"),
            ("https://u:p@a,https://v:q@b", "https://a,https://b"),
            ("https://a:80,https://v:q@b:81,direct", "https://a:80,https://b:81,direct"),
            ("https://u:p@a|https://v:q@b", "https://a|https://b"),
            ("https://u:p/q@h/", "https://"),
            ("https://[::1]:80/", "https://[::1]:80/"),
            ("file:///a/b", "file:///a/b"),
            ("https://a?x,https://u:p@b", "https://a"),
            ("://", "://"),
            ("://u:p@://v:q@", "://://"),
        ] {
            assert_eq!(without_passwords(text), expected, "{text}");
        }
    }
}
