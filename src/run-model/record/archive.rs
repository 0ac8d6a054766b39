//! Reads a `.tar.gz` bundle of unknown origin into memory.
//!
//! A bundle holds regular files and folders under one top folder. A link, a device, an absolute
//! name, a `..` or a duplicate name refuses the whole bundle. The number of entries, their sizes
//! and the expansion are bounded. Nothing is written to disk.
#![forbid(unsafe_code)]

use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Component, Path};
use tar::EntryType;

/// Most files and folders.
pub const ENTRIES_MAX: usize = 1024;
/// Most bytes of all files together, uncompressed.
const EXPANDED_MAX: u64 = 256 << 20;
/// Most bytes of a name.
const NAME_MAX: usize = 512;

/// Whether an entry of a bundle may have this name.
pub fn is_name(name: &str) -> bool {
    name.len() <= NAME_MAX && !name.chars().any(char::is_control)
}

/// Why a bundle is refused.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is not a `.tar.gz`, or ends early.
    #[error("not a .tar.gz, or damaged: {0}")]
    Damaged(#[from] io::Error),
    /// It has too many files and folders.
    #[error("more than {ENTRIES_MAX} entries")]
    Entries,
    /// Its files are too large, uncompressed.
    #[error("its files expand to more than {} MiB", EXPANDED_MAX >> 20)]
    Expanded {
        /// Whether it has a file of a run before that.
        is_of_run: bool,
    },
    /// An entry has a name or a type that `tcpxctl bundle` does not write.
    #[error("entry `{name}` is {what}; the bundle was not read")]
    Refused {
        /// Name of the entry, without control characters.
        name: String,
        /// What is wrong with the entry.
        what: &'static str,
    },
    /// It has no run in it.
    #[error("it holds neither run.json nor events.jsonl")]
    NoRun,
}

/// The files of a bundle, in memory.
#[derive(Debug, Default)]
pub struct Archive {
    /// Name of the top folder.
    pub top: String,
    /// File contents by path below the top folder.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Archive {
    /// Reads a whole bundle.
    ///
    /// # Errors
    /// See [`ArchiveError`].
    pub fn read(source: impl Read) -> Result<Self, ArchiveError> {
        let mut archive = Self::default();
        let mut left = EXPANDED_MAX;
        // The bound includes headers, padding and anything hidden between entries.
        let bounded = GzDecoder::new(source).take(EXPANDED_MAX + ((ENTRIES_MAX as u64) << 12));
        let mut tar = tar::Archive::new(bounded);
        for (count, entry) in tar.entries()?.enumerate() {
            if count >= ENTRIES_MAX {
                return Err(ArchiveError::Entries);
            }
            let mut entry = entry?;
            let name = archive.name(&entry.path_bytes())?;
            match entry.header().entry_type() {
                EntryType::Directory => continue,
                EntryType::Regular | EntryType::Continuous => {}
                _ => return Err(refused(&name, "neither a file nor a folder")),
            }
            let mut bytes = Vec::new();
            let size = entry.by_ref().take(left + 1).read_to_end(&mut bytes)? as u64;
            left = left.checked_sub(size).ok_or(ArchiveError::Expanded {
                is_of_run: archive.is_of_run(),
            })?;
            if archive.files.contains_key(&name) {
                return Err(refused(&name, "a duplicate"));
            }
            archive.files.insert(name, bytes);
        }
        // The checksum of the compressed stream follows the last entry.
        io::copy(&mut tar.into_inner(), &mut io::sink())?;
        match archive.is_of_run() {
            true => Ok(archive),
            false => Err(ArchiveError::NoRun),
        }
    }

    fn is_of_run(&self) -> bool {
        ["run.json", "events.jsonl"]
            .iter()
            .any(|name| self.files.contains_key(*name))
    }

    /// The path below the top folder, which the first entry sets.
    fn name(&mut self, bytes: &[u8]) -> Result<String, ArchiveError> {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(NAME_MAX)]).into_owned();
        let text = std::str::from_utf8(bytes).map_err(|_| refused(&shown, "not named in UTF-8"))?;
        if !is_name(text) {
            return Err(refused(&shown, "named too long or with control characters"));
        }
        let mut parts = Vec::new();
        for part in Path::new(text).components() {
            match part {
                Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
                Component::CurDir => {}
                _ => return Err(refused(&shown, "named with an absolute path or `..`")),
            }
        }
        if parts.is_empty() {
            return Ok(String::new());
        }
        let top = parts.remove(0);
        if self.top.is_empty() {
            self.top = top;
        } else if self.top != top {
            return Err(refused(&shown, "outside the bundle's folder"));
        }
        Ok(parts.join("/"))
    }
}

fn refused(name: &str, what: &'static str) -> ArchiveError {
    ArchiveError::Refused {
        name: tcpx_words::units::printable(name),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use tar::{Builder, Header};

    fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, kind, bytes) in entries {
            let mut header = Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_entry_type(*kind);
            header.set_mode(0o600);
            // Written directly, because `append_data` refuses such names.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                header.set_link_name("/etc/passwd").expect("a name");
            }
            header.set_cksum();
            builder.append(&header, *bytes).expect("appended");
        }
        builder
            .into_inner()
            .and_then(GzEncoder::finish)
            .expect("finished")
    }

    fn check(entries: &[(&str, EntryType, &[u8])], expected: &str) {
        let said = Archive::read(&archive(entries)[..]).map_or_else(
            |error| error.to_string(),
            |read| {
                format!(
                    "{}: {}",
                    read.top,
                    read.files.keys().cloned().collect::<Vec<_>>().join(" ")
                )
            },
        );
        assert!(said.contains(expected), "{said}");
    }

    const FILE: EntryType = EntryType::Regular;

    #[test]
    fn a_bundle_with_a_wrong_checksum_or_a_cut_end_is_refused() {
        let bundle = archive(&[("r/run.json", FILE, b"{}")]);
        assert!(Archive::read(&bundle[..]).is_ok());
        let mut flipped = bundle.clone();
        let crc = flipped.len() - 8;
        flipped[crc] ^= 1;
        for damaged in [&flipped[..], &bundle[..bundle.len() - 8]] {
            let error = Archive::read(damaged).expect_err("refused");
            assert!(error.to_string().contains("damaged"), "{error}");
        }
    }

    #[test]
    fn only_files_under_one_folder_are_read() {
        let run = ("r/run.json", FILE, &b"{}"[..]);
        check(
            &[
                ("r/", EntryType::Directory, b""),
                run,
                ("r/a/b", FILE, b"x"),
            ],
            "r: a/b run.json",
        );
        check(&[run, ("r/../x", FILE, b"")], "`..`");
        check(&[run, ("/etc/x", FILE, b"")], "absolute");
        check(&[run, ("other/x", FILE, b"")], "outside");
        check(&[run, run], "duplicate");
        check(&[run, ("r/l", EntryType::Symlink, b"")], "neither a file");
        check(&[run, ("r/l", EntryType::Link, b"")], "neither a file");
        check(&[run, ("r/null", EntryType::Char, b"")], "neither a file");
        check(&[run, ("r/\x1b[2J", FILE, b"")], "named too long");
        check(&[("r/x", FILE, b"")], "neither run.json");
        assert!(Archive::read(&b"nonsense"[..]).is_err());
    }

    #[test]
    fn a_bundle_that_expands_too_far_is_refused() {
        let zeroes = vec![0; 1 << 20];
        let names: Vec<String> = (0..300).map(|n| format!("r/{n}")).collect();
        let entries: Vec<(&str, EntryType, &[u8])> = names
            .iter()
            .map(|name| (&**name, FILE, &zeroes[..]))
            .collect();
        check(&entries, "256 MiB");
        for (first, expected) in [("r/events.jsonl", true), ("r/a.log", false)] {
            let entries: Vec<(&str, EntryType, &[u8])> = [(first, FILE, &b"{}"[..])]
                .into_iter()
                .chain(entries.iter().copied())
                .collect();
            let refused = Archive::read(&archive(&entries)[..]);
            assert!(
                matches!(refused, Err(ArchiveError::Expanded { is_of_run }) if is_of_run == expected)
            );
        }
        let many: Vec<String> = (0..1100).map(|n| format!("r/{n}")).collect();
        let entries: Vec<(&str, EntryType, &[u8])> =
            many.iter().map(|name| (&**name, FILE, &b""[..])).collect();
        check(&entries, "1024 entries");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(at in 0usize..600, byte: u8, cut in 0usize..600) {
            let mut bytes = archive(&[("r/run.json", FILE, b"{}"), ("r/x", FILE, b"some text")]);
            let place = at % bytes.len();
            bytes[place] = byte;
            let _ = Archive::read(&bytes[..]);
            let _ = Archive::read(&bytes[..cut.min(bytes.len())]);
        }
    }
}
