//! From a file to a table: what the file is, then dlopen, then which symbol.
//!
//! `inspect` reads the file and calls nothing, so the coordinator may do it.
//! `Plugin::open` runs the library's constructors: only a worker does that. A
//! plugin is never unloaded, because its detached threads and static
//! destructors outlive any handle of ours.
#![expect(unsafe_code, reason = "opens a shared object and reads its tables")]

use super::error::LoadError;
use super::find::Source;
use super::net::Net;
use super::shim::{REQUIRED, wrap_v7, wrap_v8};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tcpx_abi::{v7, v8};

/// Which file it is, told without loading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// As given.
    pub path: PathBuf,
    /// After following links.
    pub realpath: PathBuf,
    /// Of its bytes, lower-case hex.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
}

/// A loaded table, not yet initialised.
pub struct Plugin {
    /// Its safe face.
    pub net: Arc<dyn Net>,
    /// The symbol the table came from; `builtin` for the one linked in.
    pub symbol: String,
    /// Every ncclNet symbol the library exports, of the versions NCCL ever asked for.
    pub exports: Vec<String>,
}

const SMALLEST_ELF: u64 = 64;

/// Reads a candidate: a 64-bit shared object for this machine, or an error that
/// says what it is instead.
pub fn inspect(path: &Path) -> Result<FileFacts, LoadError> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => LoadError::NotFound { path: path.to_owned() },
        _ => LoadError::Unreadable { path: path.to_owned(), why: error.to_string() },
    };
    let not_a_plugin = |what: &str| LoadError::NotAPlugin { path: path.to_owned(), what: what.to_owned() };
    // Asked before opening: opening a FIFO would wait for its writer.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(not_a_plugin(if metadata.is_dir() { "is a directory" } else { "is not a regular file" }));
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let mut head = [0; SMALLEST_ELF as usize];
    if metadata.len() < SMALLEST_ELF {
        return Err(not_a_plugin(&format!("is {} bytes long, too short for a shared object", metadata.len())));
    }
    file.read_exact(&mut head).map_err(unreadable)?;
    if let Some(what) = wrong_elf(&head) {
        return Err(not_a_plugin(&what));
    }
    if last_byte(&head, &file).map_err(unreadable)? > metadata.len() {
        return Err(not_a_plugin(&format!("is cut short at {} bytes", metadata.len())));
    }
    file.rewind().map_err(unreadable)?;
    let (sha256, size) = crate::units::sha256(&mut file).map_err(unreadable)?;
    Ok(FileFacts { path: path.to_owned(), realpath: path.canonicalize().map_err(unreadable)?, sha256, size })
}

/// Where the last byte that will be mapped lies, by the program headers. Mapping
/// a file beyond its end kills whoever reads there.
fn last_byte(head: &[u8; SMALLEST_ELF as usize], file: &File) -> io::Result<u64> {
    let short = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let long = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
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

/// What is wrong with an ELF identification and header start, if anything.
fn wrong_elf(head: &[u8]) -> Option<String> {
    if head[..4] != *b"\x7fELF" {
        let text = head.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'));
        return Some(
            if text { "is a text file, not a shared object" } else { "is not a shared object (no ELF header)" }.into(),
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
        return Some(format!("is an ELF file of type {kind}, not a shared object"));
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    let (ours, name) = if cfg!(target_arch = "aarch64") { (183, "aarch64") } else { (62, "x86-64") };
    (machine != ours).then(|| format!("is for another machine (ELF machine {machine}; this one is {name}, {ours})"))
}

impl Plugin {
    /// Loads what `source` names. Runs the library's constructors, which may do
    /// anything; call it in a process that can be lost.
    pub fn open(source: &Source) -> Result<Self, LoadError> {
        match source {
            Source::Builtin => Ok(Self::builtin()),
            Source::File(path) => Self::open_file(path),
        }
    }

    /// The software plugin that is linked into this program.
    pub fn builtin() -> Self {
        let net = wrap_v7(nccl_net_tcpxsoft::table());
        Self { net, symbol: "builtin".into(), exports: vec![v7::SYMBOL.into()] }
    }

    fn open_file(path: &Path) -> Result<Self, LoadError> {
        inspect(path)?;
        // What was inspected: a name without a slash would be looked for along
        // the linker's own paths instead.
        let file = std::path::absolute(path)
            .map_err(|error| LoadError::Unreadable { path: path.to_owned(), why: error.to_string() })?;
        // SAFETY: running foreign constructors is what the worker process is for.
        let library = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
            use std::error::Error;
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            LoadError::Open { path: path.to_owned(), why: crate::units::printable(&why) }
        })?;
        let exports: Vec<String> = (2..=16)
            .rev()
            .map(|version| format!("ncclNetPlugin_v{version}"))
            .filter(|name| exports(&library, name))
            .collect();
        let plugin = pick(&library, path, exports);
        // Never unloaded, whatever came of it.
        std::mem::forget(library);
        plugin
    }
}

fn exports(library: &Library, symbol: &str) -> bool {
    // SAFETY: only the address is taken, nothing is read through it.
    unsafe { library.get::<*const u8>(symbol.as_bytes()) }.is_ok_and(|symbol| !symbol.as_raw_ptr().is_null())
}

/// The newest version that both sides know, as NCCL picks it.
fn pick(library: &Library, path: &Path, exports: Vec<String>) -> Result<Plugin, LoadError> {
    let found = |symbol: &str| exports.iter().any(|name| name == symbol);
    if found(v8::SYMBOL) {
        // SAFETY: the symbol's address is the table itself; version 8 by its name.
        let table = unsafe { table::<v8::Net>(library, v8::SYMBOL) };
        let table = table.ok_or_else(|| no_table(path, &exports))?;
        null_member(path, v8::SYMBOL, &members_v8(table))?;
        return Ok(Plugin { net: wrap_v8(table), symbol: v8::SYMBOL.into(), exports });
    }
    if found(v7::SYMBOL) {
        // SAFETY: the symbol's address is the table itself; version 7 by its name.
        let table = unsafe { table::<v7::Net>(library, v7::SYMBOL) };
        let table = table.ok_or_else(|| no_table(path, &exports))?;
        null_member(path, v7::SYMBOL, &members_v7(table))?;
        return Ok(Plugin { net: wrap_v7(table), symbol: v7::SYMBOL.into(), exports });
    }
    Err(no_table(path, &exports))
}

/// # Safety
/// `symbol` names a data symbol of type `T`.
unsafe fn table<T>(library: &Library, symbol: &str) -> Option<&'static T> {
    // SAFETY: the caller's promise; the type is only a pointer here.
    let symbol = unsafe { library.get::<*const T>(symbol.as_bytes()) }.ok()?;
    let address = symbol.as_raw_ptr().cast::<T>();
    // SAFETY: the caller's promise, and the library is never unloaded.
    unsafe { address.as_ref() }
}

fn no_table(path: &Path, exports: &[String]) -> LoadError {
    let mut wanted = format!("{}, {}", v8::SYMBOL, v7::SYMBOL);
    if !exports.is_empty() {
        wanted.push_str(&format!(" (it has {})", exports.join(", ")));
    }
    LoadError::NoTable { path: path.to_owned(), wanted }
}

macro_rules! members {
    ($name:ident, $table:ty) => {
        /// Whether each of [`REQUIRED`] is there, in that order.
        fn $name(table: &$table) -> [bool; REQUIRED.len()] {
            [
                table.init.is_some(),
                table.devices.is_some(),
                table.get_properties.is_some(),
                table.listen.is_some(),
                table.connect.is_some(),
                table.accept.is_some(),
                table.reg_mr.is_some(),
                table.dereg_mr.is_some(),
                table.isend.is_some(),
                table.irecv.is_some(),
                table.test.is_some(),
                table.close_send.is_some(),
                table.close_recv.is_some(),
                table.close_listen.is_some(),
            ]
        }
    };
}
members!(members_v7, v7::Net);
members!(members_v8, v8::Net);

fn null_member(path: &Path, symbol: &'static str, present: &[bool]) -> Result<(), LoadError> {
    match REQUIRED.iter().zip(present).find(|(_, present)| !**present) {
        Some((member, _)) => Err(LoadError::NullMember { path: path.to_owned(), symbol, member }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("candidate.so");
        std::fs::write(&path, bytes).expect("written");
        let said = inspect(&path).expect_err("refused").to_string();
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn files_that_are_no_plugin_are_named_for_what_they_are() {
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
        elf[18] = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        // One program header of 56 bytes, at 64.
        (elf[32], elf[54], elf[56]) = (64, 56, 1);
        check(&elf, "is cut short at 100 bytes");
    }

    #[test]
    fn missing_files_and_directories_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(inspect(&folder.path().join("none")), Err(LoadError::NotFound { .. })));
        assert!(matches!(inspect(folder.path()), Err(LoadError::NotAPlugin { .. })));
    }
}
