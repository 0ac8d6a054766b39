//! `--capture`: everything that a full examination of this node reads, as a tree in one
//! archive, so that the node can be examined on another machine.
//!
//! The archive holds only what was read, never the whole environment or a whole log, and
//! it is redacted unless the outlet does not redact. It consists of regular files,
//! folders and relative links under plain names; `--sysroot` takes the unpacked tree.
//!
//! Not here: writing the archive to a file.
#![forbid(unsafe_code)]

use super::facts::{DoctorFacts, Scope};
use crate::recording::RecordedEntry;
use crate::redact::Outlet;
use crate::{Recording, Root};
use flate2::{Compression, GzBuilder};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use tar::{Builder, EntryType, Header};

/// Every file that is read is text; its name does not say so.
const TEXT: &str = "text";
/// Shows in the archive, before what is packed, that this program wrote it.
const WRITER: &str = "tcpxctl";

/// What was read of a node.
#[derive(Debug)]
pub struct Capture {
    /// The facts.
    pub facts: DoctorFacts,
    /// The number of entries of the archive.
    pub entries: usize,
    /// What was packed.
    pub archive: Archive,
}

/// A `.tar.gz` of cleared files only.
#[derive(Debug)]
pub struct Archive(Vec<u8>);

impl Archive {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Reads the facts of this node within `scope`, and packs what was read.
///
/// # Errors
/// What was read cannot be redacted.
pub fn capture(scope: Scope<'_>, outlet: &mut Outlet) -> io::Result<Capture> {
    let recording = Recording::default();
    let facts = DoctorFacts::read(&Root::recorded(recording.clone()), scope);
    let entries = recording.entries();
    let mut archive = Vec::new();
    write(&mut archive, &entries, outlet)?;
    Ok(Capture {
        facts,
        entries: entries.len(),
        archive: Archive(archive),
    })
}

fn write(
    out: impl Write,
    entries: &BTreeMap<PathBuf, RecordedEntry>,
    outlet: &mut Outlet,
) -> io::Result<()> {
    learn(entries, outlet);
    let packed = GzBuilder::new().comment(WRITER);
    let mut archive = Builder::new(packed.write(out, Compression::default()));
    for (path, entry) in entries {
        let Some(name) = path
            .to_str()
            .and_then(|path| path.strip_prefix('/'))
            .filter(|name| !name.is_empty())
        else {
            continue;
        };
        // Folder names can be personal, too.
        let name = outlet.name(name);
        let mut header = Header::new_gnu();
        header.set_mode(if matches!(entry, RecordedEntry::Folder) {
            0o755
        } else {
            0o644
        });
        header.set_size(0);
        match entry {
            RecordedEntry::Folder => {
                header.set_entry_type(EntryType::Directory);
                archive.append_data(&mut header, name, io::empty())?;
            }
            RecordedEntry::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                archive.append_link(&mut header, name, outlet.name(&target.to_string_lossy()))?;
            }
            RecordedEntry::File(text) => {
                let file = outlet.file(TEXT, text.clone().into_bytes());
                let file = file.map_err(io::Error::other)?;
                header.set_size(file.bytes().len() as u64);
                archive.append_data(&mut header, name, file.bytes())?;
            }
        }
    }
    archive.into_inner()?.finish()?.flush()
}

/// Learns the names in all entries first, so that a name found in one is redacted in all.
fn learn(entries: &BTreeMap<PathBuf, RecordedEntry>, outlet: &mut Outlet) {
    let Some(redactor) = outlet.redactor() else {
        return;
    };
    for (path, entry) in entries {
        redactor.learn(&path.to_string_lossy());
        match entry {
            RecordedEntry::Folder => {}
            RecordedEntry::Link(target) => redactor.learn(&target.to_string_lossy()),
            RecordedEntry::File(text) => redactor.learn(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Redactor;

    #[test]
    fn a_name_learned_from_a_later_entry_is_redacted_in_an_earlier_one() {
        let entries = [("/a", "alicia was here"), ("/b", "/home/alicia/x")]
            .map(|(path, text)| (PathBuf::from(path), RecordedEntry::File(text.into())));
        let mut bytes = Vec::new();
        write(
            &mut bytes,
            &entries.into(),
            &mut Outlet::redacting(Redactor::default()),
        )
        .expect("written");
        assert!(
            bytes[..32]
                .windows(WRITER.len())
                .any(|piece| piece == WRITER.as_bytes())
        );
        let mut text = String::new();
        io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut text)
            .expect("read");
        assert!(
            text.contains("was here") && !text.contains("alicia"),
            "{text}"
        );
    }
}
