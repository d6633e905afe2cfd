//! The settings of Maven: goes in XML, comes out the same with the elements that are known to hold no
//! secret. What is not understood is left out as a whole.

use super::{Cleaned, is_secret_name, without_passwords};

/// Elements that are seen with their text, by their way from `settings`. Those around them are seen, too.
const OPEN: &[&str] = &[
    "localRepository",
    "interactiveMode",
    "offline",
    "pluginGroups/pluginGroup",
    "activeProfiles/activeProfile",
    "mirrors/mirror/id",
    "mirrors/mirror/name",
    "mirrors/mirror/url",
    "mirrors/mirror/mirrorOf",
    "mirrors/mirror/layout",
    "mirrors/mirror/mirrorOfLayouts",
    "mirrors/mirror/blocked",
    "profiles/profile/id",
    "profiles/profile/activation/activeByDefault",
    "profiles/profile/activation/jdk",
    "profiles/profile/activation/os/name",
    "profiles/profile/activation/os/family",
    "profiles/profile/activation/os/arch",
    "profiles/profile/activation/os/version",
    "profiles/profile/activation/property/name",
    "profiles/profile/activation/file/exists",
    "profiles/profile/activation/file/missing",
];
/// The same of each repository of a profile.
const REPOSITORIES: [&str; 2] = [
    "profiles/profile/repositories/repository/",
    "profiles/profile/pluginRepositories/pluginRepository/",
];
const REPOSITORY: &[&str] = &[
    "id",
    "name",
    "url",
    "layout",
    "releases/enabled",
    "releases/updatePolicy",
    "releases/checksumPolicy",
    "snapshots/enabled",
    "snapshots/updatePolicy",
    "snapshots/checksumPolicy",
];
/// The properties of a profile may be anything, so those of the build alone are seen.
const PROPERTIES: &str = "profiles/profile/properties/";
const PROPERTY: [&str; 6] = [
    "maven.compiler.",
    "maven.test.skip",
    "project.build.sourceEncoding",
    "project.reporting.outputEncoding",
    "skipTests",
    "java.version",
];
/// Elements in each other. Those of the format are not deeper than 8.
const MOST_DEPTH: usize = 32;

fn is_open(way: &str) -> bool {
    let in_repository = |own: &str| {
        REPOSITORIES.iter().any(|start| way.strip_prefix(start).is_some_and(|rest| rest == own))
    };
    let property = way.strip_prefix(PROPERTIES);
    OPEN.contains(&way)
        || REPOSITORY.iter().any(|own| in_repository(own))
        || property.is_some_and(|name| {
            !is_secret_name(name) && PROPERTY.iter().any(|own| name.starts_with(own))
        })
}

/// True if an open element may be in this one.
fn is_around(way: &str) -> bool {
    let holds = |own: &str| own.strip_prefix(way).is_some_and(|rest| rest.starts_with('/'));
    let repositories = REPOSITORIES
        .iter()
        .any(|start| REPOSITORY.iter().any(|own| holds(&format!("{start}{own}"))));
    OPEN.iter().any(|own| holds(own)) || repositories || holds(PROPERTIES)
}

/// `None`: it is not XML, not settings, or has a document type, which could define anything.
pub(in super::super) fn maven(text: &str) -> Option<Cleaned> {
    let mut out = Cleaned::default();
    let mut open: Vec<&str> = Vec::new();
    // The text of the innermost element.
    let mut own = String::new();
    let mut is_ended = false;
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some((before, after)) = rest.split_once('<') {
        own.push_str(&unescaped(before)?);
        if let Some(after) = after.strip_prefix("!--") {
            rest = after.split_once("-->")?.1;
        } else if let Some(after) = after.strip_prefix("![CDATA[") {
            let (inside, after) = after.split_once("]]>")?;
            own.push_str(inside);
            rest = after;
        } else if let Some(after) = after.strip_prefix('?') {
            rest = after.split_once("?>")?.1;
        } else if after.starts_with('!') {
            return None;
        } else if let Some(after) = after.strip_prefix('/') {
            let (name, after) = after.split_once('>')?;
            if open.last() != Some(&name.trim()) {
                return None;
            }
            end(&open, &own, &mut out);
            open.pop();
            own.clear();
            is_ended = open.is_empty();
            rest = after;
        } else {
            let (name, is_whole, after) = tag(after)?;
            let is_root = open.is_empty();
            // Text and elements side by side are in none of those that are seen.
            if !is_root && is_open(&open[1..].join("/")) {
                return None;
            }
            if is_ended || open.len() == MOST_DEPTH || is_root && name != "settings" {
                return None;
            }
            open.push(name);
            own.clear();
            begin(&open, &mut out);
            if is_whole {
                end(&open, "", &mut out);
                open.pop();
                is_ended = open.is_empty();
            }
            rest = after;
        }
    }
    (is_ended && rest.trim().is_empty()).then_some(out)
}

/// Reads an element after its `<`: its name, whether it ends at once, the rest of the text.
fn tag(text: &str) -> Option<(&str, bool, &str)> {
    let mut quote = None;
    let end = text.find(|c: char| {
        match quote {
            Some(own) if own == c => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None => return c == '>',
        }
        false
    })?;
    let inside = &text[..end];
    let is_whole = inside.ends_with('/');
    let inside = inside.strip_suffix('/').unwrap_or(inside);
    let name =
        inside.split_whitespace().next().filter(|_| !inside.starts_with(char::is_whitespace))?;
    let is_name = |c: char| c.is_alphanumeric() || "._-:".contains(c);
    name.chars().all(is_name).then_some((name, is_whole, &text[end + 1..]))
}

fn begin(open: &[&str], out: &mut Cleaned) {
    let way = open[1..].join("/");
    if way.is_empty() || is_around(&way) {
        out.text.push_str(&format!("{:1$}<{2}>\n", "", open.len() - 1, open[open.len() - 1]));
    }
}

fn end(open: &[&str], own: &str, out: &mut Cleaned) {
    let (way, indent) = (open[1..].join("/"), open.len() - 1);
    let Some(name) = open.last() else { return };
    if way.is_empty() || is_around(&way) {
        out.text.push_str(&format!("{:indent$}</{name}>\n", ""));
    } else if is_open(&way) {
        let value = without_passwords(own.trim());
        if way == "localRepository" {
            out.names(&value, ".m2/repository");
        }
        out.text.push_str(&format!("{:indent$}<{name}>{}</{name}>\n", "", escaped(&value)));
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// `None`: an entity that only a document type could define.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let (name, after) = after.split_once(';')?;
        out.push(match name {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = name.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code).filter(|c| !c.is_control() || c.is_whitespace())?
            }
        });
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maven_keeps_how_it_builds_and_loses_servers_and_passwords() {
        let text = "\u{feff}<?xml version='1.0'?><!-- CANARY --><settings xmlns=\"http://maven.apache.org/SETTINGS/1.0.0\" a='>CANARY'>\
            <localRepository>${user.home}/repo</localRepository><offline/>\
            <servers><server><id>corp</id><username>CANARY</username><password>CANARY</password></server></servers>\
            <proxies><proxy><host>CANARY</host><password>CANARY</password></proxy></proxies>\
            <mirrors><mirror><id>corp</id><mirrorOf>*,!x</mirrorOf><url>https://u:CANARY@corp.example/a?x=1&amp;k=CANARY</url><token>CANARY</token></mirror></mirrors>\
            <profiles><profile><id>a</id><activation><activeByDefault>true</activeByDefault><property><name>!x</name><value>CANARY</value></property></activation>\
            <properties><maven.compiler.release>17</maven.compiler.release><db.password>CANARY</db.password><sonar.login>CANARY</sonar.login><maven.compiler.token>CANARY</maven.compiler.token></properties>\
            <repositories><repository><id>r</id><url><![CDATA[https://u:CANARY@r.example/]]></url><snapshots><enabled>false</enabled></snapshots></repository></repositories></profile></profiles>\
            <activeProfiles><activeProfile>a</activeProfile></activeProfiles><pluginGroups><pluginGroup>org.a</pluginGroup></pluginGroups>\
            <settings><localRepository>CANARY</localRepository></settings><x:offline>CANARY</x:offline></settings>\n";
        let own = maven(text).unwrap();
        insta::assert_snapshot!(own.text, @r#"
        <settings>
         <localRepository>${user.home}/repo</localRepository>
         <offline></offline>
         <mirrors>
          <mirror>
           <id>corp</id>
           <mirrorOf>*,!x</mirrorOf>
           <url>https://corp.example/a</url>
          </mirror>
         </mirrors>
         <profiles>
          <profile>
           <id>a</id>
           <activation>
            <activeByDefault>true</activeByDefault>
            <property>
             <name>!x</name>
            </property>
           </activation>
           <properties>
            <maven.compiler.release>17</maven.compiler.release>
           </properties>
           <repositories>
            <repository>
             <id>r</id>
             <url>https://r.example/</url>
             <snapshots>
              <enabled>false</enabled>
             </snapshots>
            </repository>
           </repositories>
          </profile>
         </profiles>
         <activeProfiles>
          <activeProfile>a</activeProfile>
         </activeProfiles>
         <pluginGroups>
          <pluginGroup>org.a</pluginGroup>
         </pluginGroups>
        </settings>
        "#);
        assert_eq!(own.folders.len(), 1);
        assert_eq!(own.folders[0].path, "${user.home}/repo");
        // What is seen is read again as the same, and no piece of a file is.
        assert_eq!(maven(&own.text).as_ref(), Some(&own));
        let whole = text.trim_end().len();
        for end in (0..whole).filter(|end| text.is_char_boundary(*end)) {
            assert_eq!(maven(&text[..end]), None);
        }
    }

    #[test]
    fn xml_that_is_not_understood_is_left_out() {
        let deep = format!("<settings>{}", "<a>".repeat(80_000));
        let closed = format!("<settings>{}{}</settings>", "<a>".repeat(40), "</a>".repeat(40));
        for text in [
            "",
            "CANARY",
            "<project><offline>true</offline></project>",
            "<!DOCTYPE settings [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><settings><offline>&x;</offline></settings>",
            "<settings><offline>&x;</offline></settings>",
            "<settings><offline>&#0;</offline></settings>",
            "<settings><offline>&#xffffffff;</offline></settings>",
            "<settings><offline>true</settings></offline>",
            "<settings></settings><settings></settings>",
            "<settings></settings>CANARY",
            "<settings><mirrors><mirror><url>https://u:<b/>CANARY@h</url></mirror></mirrors></settings>",
            "< settings></settings>",
            "<settings><a&b/></settings>",
            "</settings>",
            &deep,
            &closed,
        ] {
            assert_eq!(maven(text), None, "{text:.100}");
        }
    }
}
