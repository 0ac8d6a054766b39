//! Examines one plugin file without loading it.
#![forbid(unsafe_code)]

use super::LoadError;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The identity of a plugin file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// The path, as given.
    pub path: PathBuf,
    /// The path after following links.
    pub realpath: PathBuf,
    /// SHA-256 of the content, lower-case hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
}

const SMALLEST_ELF: u64 = 64;

/// Checks that a file is a 64-bit shared object for this machine, and reads its identity.
///
/// # Errors
/// The file cannot be read, or is something else; the message says what.
pub fn inspect(path: &Path) -> Result<FileFacts, LoadError> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => LoadError::NotFound {
            path: path.to_owned(),
        },
        _ => LoadError::Unreadable {
            path: path.to_owned(),
            why: error.to_string(),
        },
    };
    let not_a_plugin = |what: &str| LoadError::NotAPlugin {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    // Checked before opening, because opening a FIFO waits for a writer.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(not_a_plugin(if metadata.is_dir() {
            "is a directory"
        } else {
            "is not a regular file"
        }));
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let mut head = [0; SMALLEST_ELF as usize];
    if metadata.len() < SMALLEST_ELF {
        return Err(not_a_plugin(&format!(
            "is {} bytes long, too short for a shared object",
            metadata.len()
        )));
    }
    file.read_exact(&mut head).map_err(unreadable)?;
    if let Some(what) = wrong_elf(&head) {
        return Err(not_a_plugin(&what));
    }
    if last_byte(&head, &file).map_err(unreadable)? > metadata.len() {
        return Err(not_a_plugin(&format!(
            "is cut short at {} bytes",
            metadata.len()
        )));
    }
    file.rewind().map_err(unreadable)?;
    let (sha256, size) = tcpx_words::units::sha256(&mut file).map_err(unreadable)?;
    Ok(FileFacts {
        path: path.to_owned(),
        realpath: path.canonicalize().map_err(unreadable)?,
        sha256,
        size,
    })
}

/// The end of the last segment that would be mapped, by the program headers. A process that
/// reads a mapping beyond the end of the file dies with SIGBUS.
fn last_byte(head: &[u8; SMALLEST_ELF as usize], file: &File) -> io::Result<u64> {
    let short = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let long = |bytes: &[u8], at: usize| {
        bytes
            .get(at..)
            .and_then(<[u8]>::first_chunk)
            .map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
    };
    let (table, size, count) = (long(head, 32), short(54), short(56));
    let mut last = table.saturating_add(size * count);
    for index in 0..count {
        let mut entry = [0; 56];
        match file.read_exact_at(&mut entry, table.saturating_add(index * size)) {
            Ok(()) if entry[..4] == [1, 0, 0, 0] => {
                last = last.max(long(&entry, 8).saturating_add(long(&entry, 32)));
            }
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(u64::MAX),
            Err(error) => return Err(error),
        }
    }
    Ok(last)
}

/// What is wrong with the start of the ELF header, if anything.
fn wrong_elf(head: &[u8]) -> Option<String> {
    if head[..4] != *b"\x7fELF" {
        let text = head
            .iter()
            .all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'));
        return Some(
            if text {
                "is a text file, not a shared object"
            } else {
                "is not a shared object (no ELF header)"
            }
            .into(),
        );
    }
    if head[4] != 2 {
        return Some("is a 32-bit shared object".into());
    }
    if head[5] != 1 {
        return Some("is big-endian".into());
    }
    let kind = u16::from_le_bytes([head[16], head[17]]);
    if kind != 3 {
        return Some(format!(
            "is an ELF file of type {kind}, not a shared object"
        ));
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    let (ours, name) = if cfg!(target_arch = "aarch64") {
        (183, "aarch64")
    } else {
        (62, "x86-64")
    };
    (machine != ours).then(|| {
        format!("is for another machine (ELF machine {machine}; this machine is {name}, {ours})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("candidate.so");
        std::fs::write(&path, bytes).expect("written");
        let message = inspect(&path).expect_err("refused").to_string();
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn the_error_says_what_a_file_is_instead() {
        check(b"", "is 0 bytes long");
        check(&[b'a'; 100], "is a text file");
        check(&[0x80; 100], "no ELF header");
        let mut elf = [0u8; 100];
        elf[..6].copy_from_slice(b"\x7fELF\x01\x01");
        check(&elf, "32-bit");
        elf[4] = 2;
        elf[16] = 2;
        check(&elf, "of type 2");
        elf[16] = 3;
        elf[18] = 243;
        check(&elf, "another machine");
        elf[18] = if cfg!(target_arch = "aarch64") {
            183
        } else {
            62
        };
        // One program header of 56 bytes, at 64.
        (elf[32], elf[54], elf[56]) = (64, 56, 1);
        check(&elf, "is cut short at 100 bytes");
    }

    #[test]
    fn a_missing_file_and_a_directory_give_different_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(
            inspect(&folder.path().join("none")),
            Err(LoadError::NotFound { .. })
        ));
        assert!(matches!(
            inspect(folder.path()),
            Err(LoadError::NotAPlugin { .. })
        ));
    }
}
