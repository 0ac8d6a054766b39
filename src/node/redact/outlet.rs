//! The way out: every byte that leaves the machine is [`Cleared`], and only an [`Outlet`] makes
//! one. Writers of reports, bundles and captures take nothing else, so none can be forgotten.
#![forbid(unsafe_code)]

use super::{FileError, Redactor};
use std::collections::BTreeMap;

/// Clears what leaves the machine: with a redactor, or as it is where the user asked for that.
#[derive(Debug)]
pub struct Outlet {
    redactor: Option<Redactor>,
}

/// Bytes that may leave the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleared(Vec<u8>);

impl Cleared {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Cleared {
    /// The list of the checksums, in the order of the names, and names of cleared files: `SUM  NAME`.
    pub fn sums<'a>(files: &BTreeMap<String, Self>, sums: impl Iterator<Item = &'a str>) -> Self {
        let lines = files
            .keys()
            .zip(sums)
            .map(|(name, sum)| format!("{sum}  {name}\n"));
        Self(lines.collect::<String>().into_bytes())
    }
}

impl Outlet {
    /// An outlet that redacts.
    pub fn redacting(redactor: Redactor) -> Self {
        Self {
            redactor: Some(redactor),
        }
    }

    /// An outlet that changes nothing, for `--no-redact`.
    pub fn unredacted() -> Self {
        Self { redactor: None }
    }

    /// An outlet for a command of the user, who may have asked for `--no-redact`.
    pub fn of_command(no_redact: bool) -> Self {
        match no_redact {
            true => Self::unredacted(),
            false => Self::redacting(Redactor::of_this_machine()),
        }
    }

    /// Every replaced name and address with its placeholder; `None` without redaction.
    pub fn map(&self) -> Option<&BTreeMap<String, String>> {
        self.redactor.as_ref().map(Redactor::map)
    }

    /// The redactor, to teach it names and to redact what is rendered later.
    pub fn redactor(&mut self) -> Option<&mut Redactor> {
        self.redactor.as_mut()
    }

    /// Whether this outlet redacts.
    pub fn is_redacting(&self) -> bool {
        self.redactor.is_some()
    }

    /// A document that was rendered from redacted data. Secrets are searched once more: a
    /// renderer brings names and values together that were apart.
    pub fn rendered(&mut self, text: String) -> Cleared {
        Cleared(match &mut self.redactor {
            Some(redactor) => redactor.redact_secrets(&text).into_bytes(),
            None => text.into_bytes(),
        })
    }

    /// As [`Outlet::rendered`], for JSON.
    pub fn rendered_json(&mut self, text: String) -> Cleared {
        Cleared(match &mut self.redactor {
            Some(redactor) => redactor.redact_json_secrets(&text).into_bytes(),
            None => text.into_bytes(),
        })
    }

    /// A recorded file, or a text that was not redacted before.
    ///
    /// # Errors
    /// The file cannot be searched.
    pub fn file(&mut self, name: &str, bytes: Vec<u8>) -> Result<Cleared, FileError> {
        match &mut self.redactor {
            Some(redactor) => redactor.redact_file(name, bytes).map(Cleared),
            None => Ok(Cleared(bytes)),
        }
    }

    /// As [`Outlet::file`], for the log of another program or a file of the user, which is plain text: only its
    /// known words stay.
    ///
    /// # Errors
    /// The file cannot be searched.
    pub fn log(&mut self, name: &str, bytes: Vec<u8>) -> Result<Cleared, FileError> {
        let cleared = self.file(name, bytes)?;
        Ok(match &mut self.redactor {
            Some(redactor) => Cleared(redactor.known_words(&cleared.text()).into_bytes()),
            None => cleared,
        })
    }

    /// The name of a file of another program, or a text with one: as [`Outlet::log`].
    pub fn foreign_name(&mut self, name: &str) -> String {
        match &mut self.redactor {
            Some(redactor) => redactor.redact_foreign(name),
            None => name.to_owned(),
        }
    }

    /// The name of a file or the target of a link.
    pub fn name(&mut self, name: &str) -> String {
        match &mut self.redactor {
            Some(redactor) => redactor.redact(name),
            None => name.to_owned(),
        }
    }
}
