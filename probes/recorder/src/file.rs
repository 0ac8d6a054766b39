//! Creates the file, writes its header with the magic last, and encodes what is written to it
//! with system calls, which may fail without harm.
#![expect(unsafe_code, reason = "getrlimit and fallocate")]

use crate::clock::{monotonic_ns, wall_ns};
use crate::folder::{Folder, c_string};
use crate::format::{
    FILE_SUFFIX, HEADER_BYTES, LOG_ENTRY_BYTES, LOG_KEPT, MAGIC, SLOT_BYTES, VERSION, device,
    header, log,
};
use crate::options::Blueprint;
use crate::process::Identity;
use crate::write::{Device, LogLine};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Creates the file. Returns it and its name, which identifies the writing process.
pub(crate) fn create(folder: &Folder, blueprint: &Blueprint) -> io::Result<(String, File)> {
    let identity = Identity::own();
    let name = format!(
        "{}-{}-{}{FILE_SUFFIX}",
        blueprint.name, identity.pid, identity.start_ticks
    );
    let file = folder.create(&name)?;
    match fill(&file, blueprint, &identity) {
        Ok(()) => Ok((name, file)),
        Err(error) => {
            let _ = folder.remove(&c_string(name.as_bytes())?);
            Err(error)
        }
    }
}

fn fill(file: &File, blueprint: &Blueprint, identity: &Identity) -> io::Result<()> {
    let shape = blueprint.shape();
    let bytes = shape.file_bytes();
    // Exceeding the limit raises SIGXFSZ before it returns an error.
    if bytes > file_size_limit() {
        return Err(io::Error::other(format!(
            "{bytes} bytes exceed the file size limit (ulimit -f)"
        )));
    }
    file.set_len(bytes)?;
    let mut page = [0; HEADER_BYTES];
    let mut put = |at: usize, value: &[u8]| page[at..at + value.len()].copy_from_slice(value);
    put(header::VERSION, &VERSION.to_le_bytes());
    put(header::HEADER_BYTES, &(HEADER_BYTES as u32).to_le_bytes());
    put(header::PID, &identity.pid.to_le_bytes());
    put(
        header::FLAGS,
        &(if blueprint.keep { header::KEEP } else { 0 }).to_le_bytes(),
    );
    put(header::START_TICKS, &identity.start_ticks.to_le_bytes());
    put(header::BOOT_ID_HASH, &identity.boot_id_hash.to_le_bytes());
    put(header::CREATED_WALL_NS, &wall_ns().to_le_bytes());
    put(header::CREATED_NS, &monotonic_ns().to_le_bytes());
    put(header::FILE_BYTES, &bytes.to_le_bytes());
    put(header::CHANNELS_OFFSET, &shape.slot_offset(0).to_le_bytes());
    put(
        header::CHANNEL_SLOT_BYTES,
        &(SLOT_BYTES as u32).to_le_bytes(),
    );
    put(header::CHANNEL_CAPACITY, &shape.capacity.to_le_bytes());
    put(header::RINGS_OFFSET, &shape.rings_offset().to_le_bytes());
    put(header::RING_EVENTS, &shape.ring_events.to_le_bytes());
    put(header::RING_COUNT, &(shape.capacity + 1).to_le_bytes());
    put(header::PID_NAMESPACE, &identity.pid_namespace.to_le_bytes());
    put(header::LOG_OFFSET, &shape.log_offset().to_le_bytes());
    put(
        header::LOG_ENTRY_BYTES,
        &(LOG_ENTRY_BYTES as u32).to_le_bytes(),
    );
    put(header::LOG_ENTRIES, &shape.log_entries.to_le_bytes());
    put(
        header::LOG_KEPT,
        &LOG_KEPT.min(shape.log_entries / 2).to_le_bytes(),
    );
    put(
        header::ROLE_LABEL,
        &label::<{ header::ROLE_LABEL_BYTES }>(&blueprint.role),
    );
    put(
        header::PLUGIN_LABEL,
        &label::<{ header::PLUGIN_LABEL_BYTES }>(&blueprint.plugin),
    );
    file.write_all_at(&page, 0)?;
    file.write_all_at(&MAGIC, header::MAGIC as u64)
}

/// `text` as a zero-padded label, cut at a character boundary.
pub(crate) fn label<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let cut = text.floor_char_boundary(N);
    bytes[..cut].copy_from_slice(&text.as_bytes()[..cut]);
    bytes
}

/// Writes zeroes, so that the pages have memory. On failure none of them keeps memory.
pub(crate) fn back(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    const ZEROES: [u8; 16 * 1024] = [0; 16 * 1024];
    let mut offset = from;
    while offset < from + bytes {
        let length = (from + bytes - offset).min(ZEROES.len() as u64);
        if let Err(error) = file.write_all_at(&ZEROES[..length as usize], offset) {
            give_back(file, from, bytes);
            return Err(error);
        }
        offset += length;
    }
    Ok(())
}

/// Frees the pages of a range that could not be backed completely. The pages at both ends may
/// hold other data and are kept.
fn give_back(file: &File, from: u64, bytes: u64) {
    let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (first, end) = (from.next_multiple_of(4096), (from + bytes) / 4096 * 4096);
    if let (Ok(first), Ok(bytes)) = (
        i64::try_from(first),
        i64::try_from(end.saturating_sub(first)),
    ) {
        // SAFETY: a system call on a descriptor of ours; it frees pages that nobody was given.
        unsafe { libc::fallocate(file.as_raw_fd(), flags, first, bytes) };
    }
}

pub(crate) fn device_bytes(what: &Device<'_>) -> [u8; device::BYTES] {
    let mut bytes = [0; device::BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(device::NAME, &label::<{ device::NAME_BYTES }>(what.name));
    put(device::PCI, &label::<{ device::PCI_BYTES }>(what.pci));
    put(device::SPEED, &what.speed_mbit.to_le_bytes());
    put(device::PTR_SUPPORT, &what.ptr_support.to_le_bytes());
    put(device::TYPE, &what.device_type.to_le_bytes());
    put(device::KNOWN, &1u32.to_le_bytes());
    bytes
}

/// Encodes a log line. Function and text share the entry; most of it is for the text.
pub(crate) fn line_bytes(
    number: u64,
    at_ns: u64,
    thread: u32,
    line: &LogLine<'_>,
) -> [u8; LOG_ENTRY_BYTES] {
    const FUNCTION_MAX: usize = 96;
    let function = &line.function[..line.function.len().min(FUNCTION_MAX)];
    let room = LOG_ENTRY_BYTES - log::WORDS - function.len();
    let text = &line.text[..line.text.len().min(room)];
    let mut bytes = [0; LOG_ENTRY_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(log::SEQUENCE, &number.wrapping_add(1).to_le_bytes());
    put(log::AT_NS, &at_ns.to_le_bytes());
    put(log::FLAGS, &line.flags.to_le_bytes());
    put(log::LEVEL, &line.level.to_le_bytes());
    put(log::LINE, &line.line.to_le_bytes());
    put(log::THREAD, &thread.to_le_bytes());
    put(log::FUNCTION_BYTES, &(function.len() as u16).to_le_bytes());
    put(log::TEXT_BYTES, &(text.len() as u16).to_le_bytes());
    put(
        log::TEXT_WAS,
        &u32::try_from(line.text.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    put(log::WORDS, function);
    put(log::WORDS + function.len(), text);
    bytes
}

fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is ours to write.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}
