//! The writing side: makes the file, hands out slots, and keeps the few
//! counters that belong to no channel.
//!
//! The file is sparse. A page that cannot be had when it is first touched
//! through a mapping kills the process (SIGBUS), and `/dev/shm` is small in many
//! containers; so every part is written once with a system call, which can say
//! no, before anything touches it through the mapping. A comm without a slot is
//! counted and otherwise left alone. Another program of the same user that
//! truncates the file can still do harm; nothing here protects against oneself.
//!
//! Not here: the rings of call events. Their place in the header is reserved.
#![expect(unsafe_code, reason = "maps the file and shares its words with other processes")]

use crate::clock::{Clock, monotonic_ns, wall_ns};
use crate::folder::{Folder, SHARED_MEMORY, c_string};
use crate::format::{
    self, CAPACITY_MAX, Call, FILE_SUFFIX, HEADER_BYTES, MAGIC, NO_CHANNEL, Role, SLOT_BYTES, VERSION, header, life,
};
use crate::process::Identity;
use crate::slot::{Slot, pack_error};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, PoisonError};

/// What a new recorder is called and how much fits in.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// First part of the file's name: 1 to 64 of `A-Z a-z 0-9 . _ -`, not
    /// starting with a dot. Two recorders of one process need two names.
    pub name: &'a str,
    /// Most comms open at once, listen comms included; 1 to [`CAPACITY_MAX`].
    /// Only slots that were used take memory.
    pub capacity: u32,
    /// What the process is, for people: `send worker`. Cut at 64 bytes.
    pub role: &'a str,
    /// What it drives, for people. Cut at 256 bytes; [`Recorder::set_plugin`] sets it later.
    pub plugin: &'a str,
    /// Where to go when `/dev/shm` will not do.
    pub fallback: Option<&'a Path>,
    /// Leave the file behind when the recorder is dropped, and tell sweeps to do so too.
    pub keep: bool,
}

/// A comm that wants a slot.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// What the comm is for.
    pub role: Role,
    /// Plugin device; -1 where unknown.
    pub device: i32,
    /// The plugin's pointer.
    pub comm: usize,
    /// A receive stays in flight until consumed (device type UNPACK).
    pub retires_consumed: bool,
}

/// One life of one slot; reaches nothing once its comm is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The slot's place in the file.
    pub index: u16,
    /// How many comms had the slot, this one included; low 16 bits.
    pub generation: u16,
}

/// One process's flight recorder. Shared by every thread that drives a plugin.
#[derive(Debug)]
pub struct Recorder {
    map: Map,
    file: File,
    folder: Folder,
    name: String,
    path: PathBuf,
    capacity: u32,
    keep: bool,
    owner: u32,
    clock: Clock,
    /// Slots that were handed out and are backed by memory.
    used: AtomicU32,
    /// Held while a slot is given out; where the search for a closed one goes on.
    cursor: Mutex<u32>,
}

impl Recorder {
    /// Makes the file in this user's folder below `/dev/shm`, else below the fallback.
    ///
    /// # Errors
    /// A name or capacity outside its range, or why each place would not do.
    pub fn create(options: &Options<'_>) -> Result<Self, CreateError> {
        options.check()?;
        let mut passed_over = Vec::new();
        for parent in std::iter::once(Path::new(SHARED_MEMORY)).chain(options.fallback) {
            match Self::create_in(parent, options) {
                Err(CreateError::NoPlace(reasons)) => passed_over.extend(reasons),
                settled => return settled,
            }
        }
        Err(CreateError::NoPlace(passed_over))
    }

    /// The same in this user's folder below one given place; `fallback` is not used.
    ///
    /// # Errors
    /// As [`Recorder::create`].
    pub fn create_in(parent: &Path, options: &Options<'_>) -> Result<Self, CreateError> {
        options.check()?;
        Self::try_in(parent, options).map_err(|error| CreateError::NoPlace(vec![(parent.to_owned(), error)]))
    }

    fn try_in(parent: &Path, options: &Options<'_>) -> io::Result<Self> {
        let identity = Identity::own();
        let folder = Folder::make(parent)?;
        let name = format!("{}-{}-{}{FILE_SUFFIX}", options.name, identity.pid, identity.start_ticks);
        let file = folder.create(&name)?;
        let map = match fill(&file, options, &identity) {
            Ok(map) => map,
            Err(error) => {
                let _ = folder.remove(&c_string(name.as_bytes())?);
                return Err(error);
            }
        };
        Ok(Self {
            map,
            file,
            path: folder.path().join(&name),
            folder,
            name,
            capacity: options.capacity,
            keep: options.keep,
            owner: identity.pid,
            clock: Clock::new(),
            used: AtomicU32::new(0),
            cursor: Mutex::new(0),
        })
    }

    /// The file, for whoever reads it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Most comms open at once.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Removes the file's name now; writing goes on unseen. Done on drop too,
    /// unless the file is to be kept.
    ///
    /// # Errors
    /// The name could not be removed, for another reason than being gone.
    pub fn remove(&self) -> io::Result<()> {
        match self.folder.remove(&c_string(self.name.as_bytes())?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Now, in nanoseconds of `CLOCK_MONOTONIC`, cheaply.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Says what the process drives, once that is known. Cut at 256 bytes.
    ///
    /// # Errors
    /// Writing to the file failed.
    pub fn set_plugin(&self, plugin: &str) -> io::Result<()> {
        self.file.write_all_at(&label::<{ header::PLUGIN_LABEL_BYTES }>(plugin), header::PLUGIN_LABEL as u64)
    }

    /// Publishes a number that only the writing program and its readers understand.
    pub fn set_phase(&self, phase: u64) {
        self.word(header::PHASE).store(phase, Release);
    }

    /// Gives a comm a slot: a fresh one, or when all are taken the next closed
    /// one, whose counters are gone then. `None` when every slot is open or no
    /// memory is left; that is counted. Takes a lock, as no other call does.
    pub fn open(&self, opening: &Opening) -> Option<Key> {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((index, generation)) = self.fresh().or_else(|| self.closed(&mut cursor)) else {
            self.word(header::CHANNELS_REFUSED).fetch_add(1, Relaxed);
            return None;
        };
        let slot = self.slot_at(index)?;
        slot.comm.store(opening.comm as u64, Relaxed);
        slot.device.store(opening.device, Relaxed);
        slot.role.store(opening.role as u32, Relaxed);
        slot.channel.store(NO_CHANNEL, Relaxed);
        slot.open_at(self.now_ns());
        let retires = if opening.retires_consumed { life::RETIRES_CONSUMED } else { 0 };
        slot.life.store(u64::from(generation) << life::GENERATION_SHIFT | retires | life::OPEN, Release);
        Some(Key { index, generation: generation as u16 })
    }

    /// A slot that was never used, its bytes backed.
    fn fresh(&self) -> Option<(u16, u32)> {
        let used = self.used.load(Relaxed);
        if used == self.capacity {
            return None;
        }
        self.file.write_all_at(&[0; SLOT_BYTES], slot_offset(used.into())).ok()?;
        self.used.store(used + 1, Release);
        self.word(header::CHANNEL_COUNT).store(u64::from(used + 1), Release);
        Some((used as u16, 1))
    }

    /// A slot whose comm is closed, emptied.
    fn closed(&self, cursor: &mut u32) -> Option<(u16, u32)> {
        let used = self.used.load(Relaxed);
        for _ in 0..used {
            let index = (*cursor % used) as u16;
            *cursor = index as u32 + 1;
            let slot = self.slot_at(index)?;
            let before = slot.life.load(Acquire);
            if before & life::STATE == life::CLOSED {
                // Told first: a reader that copies the slot from here on sees that it must copy again.
                self.word(header::CHANNELS_REUSED).fetch_add(1, Relaxed);
                slot.life.store(before & !life::STATE | life::REWRITTEN, Release);
                slot.clear();
                return Some((index, ((before >> life::GENERATION_SHIFT) as u32).wrapping_add(1)));
            }
        }
        None
    }

    /// The comm is gone. Its counters stay readable.
    pub fn close(&self, key: Key) {
        let Some(slot) = self.slot(key) else { return };
        slot.close_at(self.now_ns());
        let life = slot.life.load(Relaxed);
        slot.life.store(life & !life::STATE | life::CLOSED, Release);
    }

    /// The engine's own number for a channel, the same on both sides of a run.
    pub fn set_channel(&self, key: Key, channel: u32) {
        if let Some(slot) = self.slot(key) {
            slot.channel.store(channel, Relaxed);
        }
    }

    /// One finished receive's payload was moved to its place. Called by the
    /// thread that drives the comm.
    #[inline]
    pub fn unpacked(&self, key: Key) {
        if let Some(slot) = self.slot(key) {
            slot.unpack(self.now_ns());
        }
    }

    /// The slot, while its comm is open.
    #[inline]
    pub fn slot(&self, key: Key) -> Option<&Slot> {
        self.slot_at(key.index).filter(|slot| slot.is_open_as(key.generation))
    }

    /// The slot at a place, whatever its state; `None` beyond the slots that
    /// were ever handed out, which must not be touched: no memory may be left.
    #[inline]
    pub fn slot_at(&self, index: u16) -> Option<&Slot> {
        // Not the count in the file: no address may depend on what others can write.
        (u32::from(index) < self.used.load(Acquire)).then(|| self.map.slot(index))
    }

    /// A `test` named a request that no open channel posted.
    #[cold]
    pub fn unknown_request(&self) {
        self.word(header::REQUESTS_UNKNOWN).fetch_add(1, Relaxed);
    }

    /// A post was accepted that cannot be followed.
    #[cold]
    pub fn untracked_request(&self) {
        self.word(header::REQUESTS_UNTRACKED).fetch_add(1, Relaxed);
    }

    /// A call that belongs to no channel begins.
    pub fn enter_setup(&self, call: Call) {
        self.word(header::SETUP_CALL).store(call as u64, Relaxed);
        self.word(header::SETUP_CALLS_ENTERED).fetch_add(1, Release);
    }

    /// It ended with `code`.
    pub fn leave_setup(&self, call: Call, code: i32) {
        self.word(header::SETUP_CALLS_LEFT).fetch_add(1, Release);
        if code != 0 {
            self.word(header::SETUP_ERRORS).fetch_add(1, Relaxed);
            self.word(header::SETUP_LAST_ERROR).store(pack_error(call, code), Relaxed);
        }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.map.header()[offset / 8 % (HEADER_BYTES / 8)]
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A forked child has a copy of this value, but not of the file.
        if !self.keep && self.owner == std::process::id() {
            let _ = self.remove();
        }
    }
}

impl Options<'_> {
    fn check(&self) -> Result<(), CreateError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let named = (1..=64).contains(&self.name.len()) && self.name.bytes().all(plain) && !self.name.starts_with('.');
        if !named {
            return Err(CreateError::BadName(self.name.to_owned()));
        }
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(CreateError::BadCapacity(self.capacity));
        }
        Ok(())
    }
}

/// Sizes the file, writes the header with the magic last, and maps it.
fn fill(file: &File, options: &Options<'_>, identity: &Identity) -> io::Result<Map> {
    let bytes = slot_offset(u64::from(options.capacity));
    // Growing beyond the limit is a signal (SIGXFSZ) before it is an error.
    if bytes > file_size_limit() {
        return Err(io::Error::other(format!("{bytes} bytes are more than the file size limit (ulimit -f)")));
    }
    file.set_len(bytes)?;
    let mut page = [0; HEADER_BYTES];
    let mut put = |at: usize, value: &[u8]| page[at..at + value.len()].copy_from_slice(value);
    put(header::VERSION, &VERSION.to_le_bytes());
    put(header::HEADER_BYTES, &(HEADER_BYTES as u32).to_le_bytes());
    put(header::PID, &identity.pid.to_le_bytes());
    put(header::FLAGS, &(if options.keep { header::KEEP } else { 0 }).to_le_bytes());
    put(header::START_TICKS, &identity.start_ticks.to_le_bytes());
    put(header::BOOT_ID_HASH, &identity.boot_id_hash.to_le_bytes());
    put(header::CREATED_WALL_NS, &wall_ns().to_le_bytes());
    put(header::CREATED_NS, &monotonic_ns().to_le_bytes());
    put(header::FILE_BYTES, &bytes.to_le_bytes());
    put(header::CHANNELS_OFFSET, &(HEADER_BYTES as u64).to_le_bytes());
    put(header::CHANNEL_SLOT_BYTES, &(SLOT_BYTES as u32).to_le_bytes());
    put(header::CHANNEL_CAPACITY, &options.capacity.to_le_bytes());
    put(header::PID_NAMESPACE, &identity.pid_namespace.to_le_bytes());
    put(header::ROLE_LABEL, &label::<{ header::ROLE_LABEL_BYTES }>(options.role));
    put(header::PLUGIN_LABEL, &label::<{ header::PLUGIN_LABEL_BYTES }>(options.plugin));
    file.write_all_at(&page, 0)?;
    let map = Map::new(file, bytes)?;
    file.write_all_at(&MAGIC, header::MAGIC as u64)?;
    Ok(map)
}

/// Zero-padded, cut between characters.
fn label<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let cut = text.floor_char_boundary(N);
    bytes[..cut].copy_from_slice(&text.as_bytes()[..cut]);
    bytes
}

fn slot_offset(index: u64) -> u64 {
    HEADER_BYTES as u64 + index * SLOT_BYTES as u64
}

fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is ours to write.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

/// The shared mapping of the whole file.
#[derive(Debug)]
struct Map {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: everything behind the pointer is reached as atomics only.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn new(file: &File, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), bytes })
    }

    fn header(&self) -> &[AtomicU64; HEADER_BYTES / 8] {
        // SAFETY: the mapping begins on a page and is longer than the header;
        // any bytes are valid atomics, whoever else writes them.
        unsafe { &*self.base.cast() }
    }

    /// `index` is below the count of backed slots, and so within the mapping.
    #[inline]
    fn slot(&self, index: u16) -> &Slot {
        let offset = HEADER_BYTES + usize::from(index) * SLOT_BYTES;
        // SAFETY: `offset + SLOT_BYTES` is within the mapping, see above.
        let slot = unsafe { self.base.add(offset) };
        // SAFETY: header and slot sizes are multiples of 64, the alignment of a
        // slot; any bytes are valid atomics, whoever else writes them.
        unsafe { &*slot.cast::<Slot>() }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: made by `mmap` with this size; all references borrow the map.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

/// Why there is no recorder.
#[derive(Debug)]
pub enum CreateError {
    /// The name is empty, too long, or holds other than `A-Z a-z 0-9 . _ -`.
    BadName(String),
    /// The capacity is 0 or more than [`CAPACITY_MAX`].
    BadCapacity(u32),
    /// No place would do; each with its reason.
    NoPlace(Vec<(PathBuf, io::Error)>),
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(name) => {
                write!(f, "a recorder cannot be called {name:?}: 1 to 64 letters, digits, dots, dashes, underscores")
            }
            Self::BadCapacity(capacity) => {
                write!(f, "a recorder cannot hold {capacity} channels: 1 to {}", format::CAPACITY_MAX)
            }
            Self::NoPlace(reasons) => {
                f.write_str("no place for the flight recorder")?;
                for (at, (parent, reason)) in reasons.iter().enumerate() {
                    let before = if at == 0 { ": " } else { "; " };
                    write!(f, "{before}{} below {}: {reason}", crate::folder_name(), parent.display())?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for CreateError {}
