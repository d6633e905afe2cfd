//! Settings that are written line by line, and those of Conan: goes in the text of a file, comes out a
//! text with the settings that are known to hold no secret.

use super::{Cleaned, is_secret_name, quoted, without_passwords};

/// Settings of Go (`go env -w`).
const GO: &[&str] = &[
    "CC",
    "CGO_CFLAGS",
    "CGO_CPPFLAGS",
    "CGO_CXXFLAGS",
    "CGO_ENABLED",
    "CGO_LDFLAGS",
    "CXX",
    "GO111MODULE",
    "GO386",
    "GOAMD64",
    "GOARCH",
    "GOARM",
    "GOARM64",
    "GOBIN",
    "GODEBUG",
    "GOEXPERIMENT",
    "GOFLAGS",
    "GOINSECURE",
    "GOMODCACHE",
    "GONOPROXY",
    "GONOSUMDB",
    "GOOS",
    "GOPATH",
    "GOPRIVATE",
    "GOPROXY",
    "GOSUMDB",
    "GOTELEMETRY",
    "GOTOOLCHAIN",
    "GOVCS",
    "GOWORK",
];
/// Settings of Bundler. Every other name may be the host of a server, with its password as the value.
const BUNDLE: &[&str] = &[
    "BUNDLE_BIN",
    "BUNDLE_CACHE_ALL",
    "BUNDLE_CLEAN",
    "BUNDLE_DEPLOYMENT",
    "BUNDLE_DISABLE_SHARED_GEMS",
    "BUNDLE_FORCE_RUBY_PLATFORM",
    "BUNDLE_FROZEN",
    "BUNDLE_JOBS",
    "BUNDLE_PATH",
    "BUNDLE_PATH__SYSTEM",
    "BUNDLE_PREFER_LOCAL",
    "BUNDLE_RETRY",
    "BUNDLE_WITH",
    "BUNDLE_WITHOUT",
];
/// Settings of cabal, and parts of the file that are seen with all their settings of this list.
const CABAL: &[&str] = &[
    "active-repositories",
    "alex-location",
    "ar-location",
    "benchmarks",
    "bindir",
    "build-summary",
    "cpphs-location",
    "debug-info",
    "documentation",
    "executable-dynamic",
    "executable-profiling",
    "executable-static",
    "extra-include-dirs",
    "extra-lib-dirs",
    "extra-prog-path",
    "gcc-location",
    "ghc-location",
    "ghc-pkg-location",
    "haddock-location",
    "happy-location",
    "hsc2hs-location",
    "index-state",
    "install-method",
    "installdir",
    "jobs",
    "key-threshold",
    "ld-location",
    "library-profiling",
    "library-vanilla",
    "local-no-index-repo",
    "logs-dir",
    "max-backjumps",
    "minimize-conflict-set",
    "multi-repl",
    "nix",
    "offline",
    "optimization",
    "overwrite-policy",
    "pkg-config-location",
    "prefer-oldest",
    "prefix",
    "profiling",
    "program-prefix",
    "program-suffix",
    "remote-repo-cache",
    "reorder-goals",
    "root-keys",
    "secure",
    "semaphore",
    "shared",
    "split-objs",
    "split-sections",
    "store-dir",
    "strip-location",
    "strong-flags",
    "symlink-bindir",
    "tests",
    "url",
    "user-install",
    "with-compiler",
    "world-file",
    "write-ghc-environment-files",
];
const CABAL_PARTS: &[&str] = &["install-dirs", "program-locations", "repository"];
/// Keys of a remote of Conan.
const CONAN_REMOTE: &[&str] =
    &["allowed_packages", "disabled", "name", "recipes_only", "remote_type", "url", "verify_ssl"];

/// A value without users and passwords in addresses. `None`: it may be secret.
fn open_value(value: &str) -> Option<String> {
    let is_word = |c: char| !c.is_whitespace() && c != '=';
    let is_path = value.starts_with(['/', '~']) && value.chars().all(is_word);
    let value = without_passwords(value);
    let is_open = is_path || !is_secret_name(&value);
    let has_user = |word: &str| {
        let user = word.rsplit_once('@').map_or("", |(user, _)| user);
        user.rsplit('/').next().is_some_and(|user| user.contains(':'))
    };
    let has_control = value.chars().any(char::is_control);
    (is_open && !has_control && !value.split_whitespace().any(has_user)).then_some(value)
}

pub(in super::super) fn go(text: &str) -> Option<Cleaned> {
    let mut out = Cleaned::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let Some(value) = open_value(value).filter(|_| GO.contains(&key)) else { continue };
        out.text.push_str(&format!("{key}={value}\n"));
        match key {
            "GOPATH" => value.split(':').for_each(|path| out.names(path, "go")),
            "GOMODCACHE" => out.names(&value, ".cache/go-mod"),
            _ => {}
        }
    }
    Some(out)
}

pub(in super::super) fn bundle(text: &str) -> Option<Cleaned> {
    let mut out = Cleaned { text: "---\n".to_owned(), ..Cleaned::default() };
    for (key, value) in text.lines().filter_map(|line| line.split_once(": ")) {
        let value = value.trim().trim_matches(['"', '\'']);
        let Some(value) = open_value(value).filter(|_| BUNDLE.contains(&key)) else { continue };
        out.text.push_str(&format!("{key}: {}\n", quoted(&value)));
        if key == "BUNDLE_PATH" {
            out.names(&value, ".bundle/path");
        }
    }
    Some(out)
}

pub(in super::super) fn cabal(text: &str) -> Option<Cleaned> {
    let mut out = Cleaned::default();
    // How far the last setting was indented, and whether it is seen.
    let (mut last, mut is_seen, mut is_in_part) = (0, false, true);
    for line in text.lines().filter(|line| !line.trim_start().starts_with("--")) {
        let own = line.trim();
        let indent = line.len() - line.trim_start().len();
        let setting = own.split_once(':').filter(|(key, value)| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
            !key.is_empty() && key.chars().all(is_name) && !value.starts_with("//")
        });
        match setting {
            _ if own.is_empty() => {}
            Some((key, value)) => {
                is_in_part |= indent == 0;
                let value = open_value(value.trim()).filter(|_| CABAL.contains(&key));
                (last, is_seen) = (indent, is_in_part && value.is_some());
                if let Some(value) = value.filter(|_| is_seen) {
                    out.text.push_str(&format!("{:indent$}{key}: {value}\n", ""));
                    match key {
                        "store-dir" => out.names(&value, ".local/state/cabal"),
                        "remote-repo-cache" => out.names(&value, ".cache/cabal"),
                        _ => {}
                    }
                }
            }
            // A part of the file begins.
            None if indent == 0 => {
                let name = own.split_whitespace().next().unwrap_or_default();
                is_in_part = CABAL_PARTS.contains(&name);
                is_seen = false;
                if let Some(own) = open_value(own).filter(|_| is_in_part) {
                    out.text.push_str(&format!("{own}\n"));
                }
            }
            // The setting before continues.
            None if is_seen && indent > last => {
                if let Some(own) = open_value(own) {
                    out.text.push_str(&format!("{:indent$}{own}\n", ""));
                }
            }
            None => {}
        }
    }
    Some(out)
}

/// `global.conf` of Conan: how it works and builds. No templates, which may hold anything.
pub(in super::super) fn conan(text: &str) -> Option<Cleaned> {
    let mut out = Cleaned::default();
    for line in text.lines().map(str::trim) {
        let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || "._:-".contains(c)));
        let (key, value) = line.split_at(end.unwrap_or(line.len()));
        let is_known = (key.starts_with("tools.") || key.starts_with("core."))
            && !["core.net", "extra_variables", "upload", "backup"]
                .iter()
                .any(|own| key.contains(own))
            && !is_secret_name(key);
        let is_plain = !["{{", "{%", "{#"].iter().any(|own| value.contains(own));
        if let Some(value) = open_value(value).filter(|_| is_known && is_plain) {
            out.text.push_str(&format!("{key}{value}\n"));
            if key == "core.cache:storage_path" {
                out.names(value.trim_start_matches(['=', ' ']), ".conan2/p");
            }
        }
    }
    Some(out)
}

/// `remotes.json` of Conan.
pub(in super::super) fn conan_remotes(text: &str) -> Option<Cleaned> {
    let mut all: serde_json::Value = serde_json::from_str(text).ok()?;
    let mut remotes = all.get_mut("remotes")?.take();
    for remote in remotes.as_array_mut()? {
        let remote = remote.as_object_mut()?;
        remote.retain(|key, _| CONAN_REMOTE.contains(&key.as_str()));
        for value in remote.values_mut() {
            if let Some(text) = value.as_str() {
                *value = open_value(text).unwrap_or_default().into();
            }
        }
    }
    let text = format!("{}\n", serde_json::json!({ "remotes": remotes }));
    Some(Cleaned { text, ..Cleaned::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings that are all secret, or that no list knows, as hostile as they come.
    fn assert_nothing_secret(clean: fn(&str) -> Option<Cleaned>, good: &str) {
        for bad in
            ["", "=", ":", ": ", "\u{feff}", "CANARY", "=CANARY", "é: CANARY", "{{ CANARY }}"]
        {
            for text in [format!("{bad}\n{good}"), format!("{good}\n{bad}")] {
                for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
                    let own = clean(&text[..end]).unwrap_or_default();
                    assert!(!own.text.contains("CANARY"), "{}", own.text);
                }
            }
        }
        let huge = format!("{}\n{good}", "x".repeat(200_000));
        assert!(!clean(&huge).unwrap_or_default().text.contains("xx"));
    }

    fn paths(own: &Cleaned) -> Vec<(&str, &str)> {
        own.folders.iter().map(|own| (own.path.as_str(), own.instead_of)).collect()
    }

    #[test]
    fn go_keeps_what_it_builds_with_and_loses_passwords() {
        let text = "GOPATH=/home/a/one:/home/a/two\nGOMODCACHE=/home/author/mod\nGOFLAGS=-mod=mod\n\
            GOPROXY=https://u:CANARY@a.example|https://b.example:80,https://v:CANARY,CANARY@c/?k=CANARY,direct\n\
            GONOSUMDB=corp.example/*\nGOTOOLCHAIN=local\nGOFLAGS=-ldflags=-X=main.token=CANARY\nGOAUTH=netrc CANARY\n\
            GOCACHEPROG=CANARY\n#CANARY\nCC=/usr/bin/cc --password=CANARY\nGOPRIVATE=u:CANARY@corp\n";
        let own = go(text).unwrap();
        insta::assert_snapshot!(own.text, @r#"
        GOPATH=/home/a/one:/home/a/two
        GOMODCACHE=/home/author/mod
        GOFLAGS=-mod=mod
        GOPROXY=https://a.example|https://b.example:80,https://c/
        GONOSUMDB=corp.example/*
        GOTOOLCHAIN=local
        "#);
        let named =
            [("/home/a/one", "go"), ("/home/a/two", "go"), ("/home/author/mod", ".cache/go-mod")];
        assert_eq!(paths(&own), named);
        assert_nothing_secret(go, "GOOS=linux\nGOAUTH=CANARY");
    }

    #[test]
    fn bundler_keeps_its_folders_and_groups_and_loses_what_hosts_get() {
        let text = "---\nBUNDLE_PATH: \"/home/a/gems\"\nBUNDLE_WITHOUT: \"test:docs\"\nBUNDLE_GEMS__CORP__EXAMPLE: \"u:CANARY\"\n\
            BUNDLE_RUBYGEMS__PKG__GITHUB__COM: CANARY\nBUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"https://u:CANARY@corp\"\n\
            BUNDLE_WITH:\n  - CANARY\nBUNDLE_JOBS: '4'\nBUNDLE_PATH__X: CANARY\n";
        let own = bundle(text).unwrap();
        insta::assert_snapshot!(own.text, @r#"
        ---
        BUNDLE_PATH: "/home/a/gems"
        BUNDLE_WITHOUT: "test:docs"
        BUNDLE_JOBS: "4"
        "#);
        assert_eq!(paths(&own), [("/home/a/gems", ".bundle/path")]);
        assert_nothing_secret(bundle, "BUNDLE_PATH: /x\nBUNDLE_CORP: CANARY");
    }

    #[test]
    fn cabal_keeps_how_it_builds_and_loses_users_and_passwords() {
        let text = "-- a comment CANARY\nrepository hackage.haskell.org\n  url: http://u:CANARY@hackage.haskell.org/\n  secure: True\n  root-keys: ab\n             cd\n\
            \x20            token: CANARY\n             CANARY\n\njobs: $ncpus\nusername: CANARY\npassword: CANARY\npassword-command: echo CANARY\n  CANARY\n  jobs: CANARY-1\n\
            store-dir: /home/a/store\nremote-repo-cache: /home/a/packages\ntoken:\n  CANARY\n\
            install-dirs user\n  prefix: /home/a/.local\nupload\n  jobs: CANARY\nhttp-transport: curl\nprogram-locations\n  ghc-location: /opt/ghc\n";
        let own = cabal(&text.replace("  jobs: CANARY-1\n", "")).unwrap();
        insta::assert_snapshot!(own.text, @r#"
        repository hackage.haskell.org
          url: http://hackage.haskell.org/
          secure: True
          root-keys: ab
                     cd
        jobs: $ncpus
        store-dir: /home/a/store
        remote-repo-cache: /home/a/packages
        install-dirs user
          prefix: /home/a/.local
        program-locations
          ghc-location: /opt/ghc
        "#);
        let named = [("/home/a/store", ".local/state/cabal"), ("/home/a/packages", ".cache/cabal")];
        assert_eq!(paths(&own), named);
        assert_nothing_secret(cabal, "jobs: 1\npassword: CANARY");
    }

    #[test]
    fn conan_keeps_how_it_builds_and_loses_passwords() {
        let text = "# CANARY\ncore:non_interactive=True\ntools.build:jobs=4\ntools.build:cxxflags=[\"-O2\"]\ncore.cache:storage_path=/home/a/x\n\
            core.net.http:proxies={'https': 'u:CANARY@p'}\ncore.net.http:clean_system_proxy=True\ncore.sources:upload_url=https://u:CANARY@h\n\
            tools.files.download:retry=2\nuser.corp:password=CANARY\nuser.corp:x=CANARY\n{% set a = 'CANARY' %}\ntools.build:jobs={{ 'CANARY' }}\n\
            tools.cmake.cmaketoolchain:extra_variables={'A': 'CANARY'}\ntools.x:url=https://u:CANARY@h/?CANARY\n";
        insta::assert_snapshot!(conan(text).unwrap().text, @r#"
        tools.build:jobs=4
        tools.build:cxxflags=["-O2"]
        core.cache:storage_path=/home/a/x
        tools.files.download:retry=2
        tools.x:url=https://h/
        "#);
        assert_nothing_secret(conan, "tools.build:jobs=1\nuser.x:y=CANARY");
        let text = r#"{"remotes": [{"name": "own", "url": "https://u:CANARY@own.example/x", "verify_ssl": true,
            "password": "CANARY", "more": {"a": "CANARY"}}], "token": "CANARY"}"#;
        insta::assert_snapshot!(conan_remotes(text).unwrap().text, @r#"{"remotes":[{"name":"own","url":"https://own.example/x","verify_ssl":true}]}"#);
        let deep = format!("{{\"remotes\": {}", "[".repeat(100_000));
        for bad in
            ["", "CANARY", "[]", "{}", "{\"remotes\": 1}", "{\"remotes\": [\"CANARY\"]}", &deep]
        {
            assert_eq!(conan_remotes(bad), None, "{:.80}", bad);
        }
    }
}
