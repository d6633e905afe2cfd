//! What changed between two snapshots, as a unified diff.

use super::{Error, Manifest, Snapshots};
use crate::walk;

impl Snapshots {
    /// The files that differ, and the diff of their text.
    pub fn diff(&self, before: &str, after: &str) -> Result<(Vec<String>, String), Error> {
        let names = self.changed(before, after)?;
        let (old, new) = (self.manifest(before)?, self.manifest(after)?);
        let mut out = String::new();
        for name in &names {
            let (a, b) = (self.text_in(&old, name)?, self.text_in(&new, name)?);
            let label = |text: &Option<String>, side: &str| match text {
                Some(_) => format!("{side}/{}", walk::shown(name)),
                None => "/dev/null".to_owned(),
            };
            let headers = (label(&a, "a"), label(&b, "b"));
            let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
            let diff = similar::TextDiff::from_lines(&a, &b);
            out.push_str(&diff.unified_diff().header(&headers.0, &headers.1).to_string());
        }
        Ok((names.iter().map(|name| walk::shown(name)).collect(), out))
    }

    fn text_in(&self, manifest: &Manifest, name: &str) -> Result<Option<String>, Error> {
        let Some(entry) = manifest.files.get(name) else { return Ok(None) };
        if entry.hash.is_empty() {
            return Ok(Some("(not kept)\n".to_owned()));
        }
        let bytes = self.content(&entry.hash)?;
        Ok(Some(String::from_utf8(bytes).unwrap_or_else(|_| "(not text)\n".to_owned())))
    }
}
