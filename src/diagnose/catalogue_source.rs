//! Reads and checks `probes/conditions/*.toml`.
//!
//! `build.rs` turns the result into code, so a catalogue that is wrong stops the build;
//! the library compiles this file for its tests only.
#![forbid(unsafe_code)]

use serde::Deserialize;
use std::collections::BTreeMap;

/// One `[[condition]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SourceEntry {
    pub(crate) name: String,
    pub(crate) severity: SourceSeverity,
    #[serde(default = "yes")]
    pub(crate) stalls: bool,
    pub(crate) symptom: String,
    pub(crate) meaning: String,
    pub(crate) detected: String,
    pub(crate) causes: Vec<String>,
    pub(crate) reproduce: String,
    #[serde(default)]
    pub(crate) simulated: bool,
    pub(crate) fix: String,
    #[serde(default)]
    pub(crate) recommends: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) otherwise: Option<String>,
    pub(crate) reference: String,
    #[serde(default)]
    pub(crate) explains: Vec<String>,
    #[serde(default)]
    pub(crate) decided_by: Option<String>,
}

/// The variants of `tcpx_run_model::finding::Severity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SourceSeverity {
    Error,
    Warning,
    Info,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogueFile {
    #[serde(default)]
    condition: Vec<SourceEntry>,
}

/// The conditions of all files, given as name and text.
///
/// # Errors
/// The file and the first thing that is wrong in it: a syntax error, a bad or duplicate
/// name, a missing text, or an `explains` that names no condition.
pub(crate) fn parse(files: &[(String, String)]) -> Result<Vec<SourceEntry>, String> {
    let mut entries = Vec::<SourceEntry>::new();
    for (file, text) in files {
        let parsed: CatalogueFile =
            toml::from_str(text).map_err(|error| format!("{file}: {error}"))?;
        for entry in parsed.condition {
            let name = &entry.name;
            if entries.iter().any(|known| known.name == *name) {
                return Err(format!("{file}: `{name}` is defined twice"));
            }
            if let Some(problem) = entry.problem() {
                return Err(format!("{file}: `{name}` {problem}"));
            }
            entries.push(entry);
        }
    }
    for entry in &entries {
        for explained in &entry.explains {
            let is_known = entries.iter().any(|known| known.name == *explained);
            if !is_known || *explained == entry.name {
                let name = &entry.name;
                return Err(format!(
                    "`{name}` explains `{explained}`, which is not another condition of the catalogue"
                ));
            }
        }
    }
    Ok(entries)
}

impl SourceEntry {
    fn problem(&self) -> Option<&'static str> {
        let is_name_character = |character: char| {
            character.is_ascii_lowercase() || matches!(character, '0'..='9' | '-')
        };
        let begins_with_letter = self
            .name
            .starts_with(|first: char| first.is_ascii_lowercase());
        if !begins_with_letter || !self.name.chars().all(is_name_character) {
            return Some("is not a name of lowercase letters, digits and dashes");
        }
        if self.causes.is_empty() {
            return Some("has no causes");
        }
        if self.recommends.is_empty() != self.otherwise.is_none() {
            return Some("needs both `recommends` and `otherwise`, or neither");
        }
        let texts = [
            &self.symptom,
            &self.meaning,
            &self.detected,
            &self.reproduce,
            &self.fix,
            &self.reference,
        ];
        for text in texts.into_iter().chain(&self.causes).chain(&self.otherwise) {
            if text.is_empty() || text.trim() != text || text.chars().any(char::is_control) {
                return Some("has a text that is empty, padded or longer than one line");
            }
        }
        None
    }
}
