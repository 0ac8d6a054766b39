//! Writes the file: hands out slots, writes events, and updates the counters that belong to no
//! channel.
//!
//! The file is sparse. Touching a page of the mapping for which there is no memory kills the
//! process (SIGBUS), and `/dev/shm` is small in many containers. So every part is first written
//! with a system call, which can fail, before it is touched through the mapping. A comm that
//! gets no slot is only counted; a comm that gets no ring has counters only. Data that is not
//! on the hot path (log lines, events of set-up calls, devices) is written with system calls
//! only. There is no protection against another program of the same user that truncates the
//! file.
//!
//! A forked child finds an empty recorder (`fork.rs`) until it calls
//! [`Recorder::settle`].
#![forbid(unsafe_code)]

use crate::address::Address;
use crate::clock::Clock;
use crate::connecting::Held;
use crate::file;
use crate::folder::{Folder, SHARED_MEMORY, c_string};
use crate::format::{
    CAPACITY_MAX, Call, DEVICES, EVENT_BYTES, EventKind, HEADER_BYTES, LOG_ENTRY_BYTES, LOG_KEPT,
    OperationKind, Role, SLOT_BYTES, device, header, log_place,
};
use crate::map::{Map, Shape};
use crate::options::{Blueprint, CreateError, Options};
use crate::ring::Note;
use crate::slot::{Opening, Slot, pack_error};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Identifies a comm by slot and generation. Invalid once the comm is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Index of the slot in the file.
    pub index: u16,
    /// Number of comms that have had the slot, including this one; low 16 bits.
    pub generation: u16,
}

/// Properties of a plugin device, from `getProperties`.
#[derive(Debug, Clone, Copy)]
pub struct Device<'a> {
    /// Interface name. Cut at 32 bytes.
    pub name: &'a str,
    /// PCI address, the last part of the plugin's path. Cut at 16 bytes.
    pub pci: &'a str,
    /// Mbit/s.
    pub speed_mbit: i32,
    /// Supported memory types, `NCCL_PTR_*` bits.
    pub ptr_support: i32,
    /// `netDeviceType`: 1 if receives must be unpacked.
    pub device_type: i32,
}

/// A line that the plugin logged.
#[derive(Debug, Clone, Copy)]
pub struct LogLine<'a> {
    /// Log level: 2 WARN, 3 INFO, ...
    pub level: i32,
    /// Subsystem bits.
    pub flags: u64,
    /// The `file` argument of the log call, a function name with TCPX. Cut at 96 bytes.
    pub function: &'a [u8],
    /// Source line.
    pub line: i32,
    /// The message. Cut at the end of the entry, after at least 368 bytes.
    pub text: &'a [u8],
}

/// A set-up call that was entered, for [`Recorder::leave_setup`].
#[derive(Debug)]
#[must_use]
pub struct SetupToken {
    call: Call,
    entered_ns: u64,
}

/// A `connect` that was entered, for [`Recorder::leave_connect`].
#[derive(Debug)]
#[must_use]
pub struct ConnectToken {
    setup: SetupToken,
    /// Present if the header tells of it.
    held: Option<Held>,
}

/// What [`Recorder::settle`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// This process created the file.
    Here,
    /// This is a forked child, and the recorder now has its own file. All earlier keys are
    /// invalid.
    Moved,
    /// This is a forked child whose file could not be created; nothing is recorded.
    Nowhere,
}

/// The flight recorder of one process, shared by all threads that drive a plugin.
#[derive(Debug)]
pub struct Recorder {
    map: Map,
    shape: Shape,
    keep: bool,
    clock: Clock,
    /// Pid of the process that created the file.
    owner: AtomicU32,
    /// Number of slots handed out, which are backed by memory.
    used: AtomicU32,
    /// Locked while a slot is handed out, and for system calls on the file.
    home: Mutex<Home>,
}

/// The file behind the mapping.
#[derive(Debug)]
struct Home {
    file: File,
    folder: Folder,
    name: String,
    blueprint: Blueprint,
    /// Index at which the search for a closed slot continues.
    cursor: u32,
}

impl Recorder {
    /// Creates the file in this user's folder below `/dev/shm`, or else below the fallback.
    ///
    /// # Errors
    /// The name or a size is invalid, or no place is usable.
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

    /// As `create`, in this user's folder below `parent`. `fallback` is not used.
    ///
    /// # Errors
    /// As [`Recorder::create`].
    pub fn create_in(parent: &Path, options: &Options<'_>) -> Result<Self, CreateError> {
        options.check()?;
        Self::try_in(parent, options)
            .map_err(|error| CreateError::NoPlace(vec![(parent.to_owned(), error)]))
    }

    fn try_in(parent: &Path, options: &Options<'_>) -> io::Result<Self> {
        let (folder, blueprint) = (Folder::make(parent)?, options.blueprint());
        let (name, file) = file::create(&folder, &blueprint)?;
        let shape = blueprint.shape();
        let map = match Map::new(&file, shape) {
            Ok(map) => map,
            Err(error) => {
                let _ = folder.remove(&c_string(name.as_bytes())?);
                return Err(error);
            }
        };
        Ok(Self {
            map,
            shape,
            keep: blueprint.keep,
            clock: Clock::new(),
            owner: AtomicU32::new(std::process::id()),
            used: AtomicU32::new(0),
            home: Mutex::new(Home {
                file,
                folder,
                name,
                blueprint,
                cursor: 0,
            }),
        })
    }

    fn home(&self) -> MutexGuard<'_, Home> {
        self.home.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Path of the file, for readers.
    pub fn path(&self) -> PathBuf {
        let home = self.home();
        home.folder.path().join(&home.name)
    }

    /// Most comms open at once.
    pub fn capacity(&self) -> u32 {
        self.shape.capacity
    }

    /// Removes the file's name now; writing continues to the unlinked file. Dropping does this
    /// too, unless the file is marked as kept.
    ///
    /// # Errors
    /// The name exists and could not be removed.
    pub fn remove(&self) -> io::Result<()> {
        if !self.is_own() {
            return Ok(());
        }
        let home = self.home();
        match home.folder.remove(&c_string(home.name.as_bytes())?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// The current time in nanoseconds of `CLOCK_MONOTONIC`.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn is_own(&self) -> bool {
        self.owner.load(Acquire) == std::process::id()
    }

    /// In a forked child, creates the child's own file. Call before every other set-up call;
    /// costs a system call.
    pub fn settle(&self) -> Settled {
        if self.is_own() {
            return Settled::Here;
        }
        // A lock that was held when the process forked stays locked in the child forever.
        let Ok(mut home) = self.home.try_lock() else {
            return Settled::Nowhere;
        };
        if self.is_own() {
            return Settled::Here;
        }
        match file::create(&home.folder, &home.blueprint).and_then(|(name, file)| {
            self.map.replace(&file)?;
            Ok((name, file))
        }) {
            Ok((name, file)) => {
                (home.name, home.file, home.cursor) = (name, file, 0);
                self.used.store(0, Release);
                self.owner.store(std::process::id(), Release);
                Settled::Moved
            }
            Err(_) => Settled::Nowhere,
        }
    }

    /// Sets the plugin label. Cut at 256 bytes.
    ///
    /// # Errors
    /// Writing to the file failed.
    pub fn set_plugin(&self, plugin: &str) -> io::Result<()> {
        let mut home = self.home();
        plugin.clone_into(&mut home.blueprint.plugin);
        let bytes = file::label::<{ header::PLUGIN_LABEL_BYTES }>(plugin);
        home.file.write_all_at(&bytes, header::PLUGIN_LABEL as u64)
    }

    /// Sets the role label. Cut at 64 bytes.
    ///
    /// # Errors
    /// Writing to the file failed.
    pub fn set_role(&self, role: &str) -> io::Result<()> {
        let mut home = self.home();
        role.clone_into(&mut home.blueprint.role);
        let bytes = file::label::<{ header::ROLE_LABEL_BYTES }>(role);
        home.file.write_all_at(&bytes, header::ROLE_LABEL as u64)
    }

    /// Sets the properties of a device. Devices beyond the header's limit are ignored.
    ///
    /// # Errors
    /// Writing to the file failed.
    pub fn set_device(&self, index: usize, what: &Device<'_>) -> io::Result<()> {
        if index >= DEVICES || !self.is_own() {
            return Ok(());
        }
        let offset = header::DEVICES + index * device::BYTES;
        self.home()
            .file
            .write_all_at(&file::device_bytes(what), offset as u64)
    }

    /// Hands out a slot: an unused one, or else a closed one, whose counters are then lost.
    /// `None` if every slot is open or no memory is left, which is counted. Takes a lock; not
    /// for the hot path.
    pub fn open(&self, opening: &Opening) -> Option<Key> {
        if !self.is_own() {
            return None;
        }
        let mut home = self.home();
        let Some((index, generation)) = self.fresh(&home).or_else(|| self.closed(&mut home)) else {
            self.word(header::CHANNELS_REFUSED).fetch_add(1, Relaxed);
            return None;
        };
        let slot = self.slot_at(index)?;
        if opening.role != Role::Listen {
            self.back_ring(&home, index);
        }
        let now_ns = self.now_ns();
        slot.begin(opening, generation, now_ns);
        let call = match opening.role {
            Role::Listen => Call::Listen,
            Role::Send => Call::Connect,
            Role::Recv => Call::Accept,
        };
        self.event(
            index,
            slot,
            now_ns,
            &Note::request(EventKind::Opened, call, 0, generation.into()),
        );
        Some(Key {
            index,
            generation: generation as u16,
        })
    }

    /// An unused slot, with its bytes backed by memory.
    fn fresh(&self, home: &Home) -> Option<(u16, u32)> {
        let used = self.used.load(Relaxed);
        if used == self.shape.capacity {
            return None;
        }
        file::back(
            &home.file,
            self.shape.slot_offset(used.into()),
            SLOT_BYTES as u64,
        )
        .ok()?;
        self.used.store(used + 1, Release);
        self.word(header::CHANNEL_COUNT)
            .store(u64::from(used + 1), Release);
        Some((used as u16, 1))
    }

    /// A closed slot, cleared.
    fn closed(&self, home: &mut Home) -> Option<(u16, u32)> {
        let used = self.used.load(Relaxed);
        for _ in 0..used {
            let index = (home.cursor % used) as u16;
            home.cursor = u32::from(index) + 1;
            let slot = self.slot_at(index)?;
            if slot.is_closed() {
                // Counted first, so that a reader that copies the slot from now on notices and
                // copies again.
                self.word(header::CHANNELS_REUSED).fetch_add(1, Relaxed);
                return Some((index, slot.rewrite()));
            }
        }
        None
    }

    /// Gives the slot a ring; without memory for it the slot has counters only.
    fn back_ring(&self, home: &Home, index: u16) {
        if self.shape.ring_events == 0 || self.map.has_ring(index) {
            return;
        }
        if file::back(
            &home.file,
            self.shape.ring_offset(index.into()),
            self.shape.ring_bytes(),
        )
        .is_ok()
        {
            self.map.show_ring(index);
        } else {
            self.word(header::RINGS_REFUSED).fetch_add(1, Relaxed);
        }
    }

    /// Closes the slot of a comm. Its counters and events stay readable.
    pub fn close(&self, key: Key, call: Call) {
        let Some(slot) = self.slot(key) else { return };
        slot.end(self.now_ns(), |at_ns| {
            self.event(
                key.index,
                slot,
                at_ns,
                &Note::request(EventKind::Closed, call, 0, 0),
            );
        });
    }

    /// Sets the engine's channel number, which is the same on both sides of a run.
    pub fn set_channel(&self, key: Key, channel: u32) {
        if let Some(slot) = self.slot(key) {
            slot.set_channel(channel);
        }
    }

    /// Sets the connection of an endpoint that the comm is part of, from 1 on.
    pub fn set_connection(&self, key: Key, connection: u64) {
        if let Some(slot) = self.slot(key) {
            slot.set_connection(connection);
        }
    }

    /// Sets the operation whose message is posted next, by its number within the connection.
    #[inline]
    pub fn set_operation(&self, key: Key, kind: OperationKind, number: u64) {
        if let Some(slot) = self.slot(key) {
            slot.set_operation(kind, number);
        }
    }

    /// Counts a finished receive that needs no unpacking as unpacked, without recording a
    /// time.
    #[inline]
    pub fn in_place(&self, key: Key) {
        if let Some(slot) = self.slot(key) {
            slot.in_place();
        }
    }

    /// Records that a finished receive was unpacked or verified. Call from the thread that
    /// drives the comm, as for `in_place`.
    #[inline]
    pub fn unpacked(&self, key: Key) {
        if let Some(slot) = self.slot(key) {
            let (at_ns, number) = slot.unpack(self.now_ns());
            self.event(
                key.index,
                slot,
                at_ns,
                &Note::request(EventKind::Unpacked, Call::Test, number, 0),
            );
        }
    }

    /// Writes an event into the ring of the slot at `index`, if it has a ring. Call from the
    /// thread that drives the comm.
    #[inline]
    pub fn event(&self, index: u16, slot: &Slot, at_ns: u64, note: &Note) {
        if let Some(place) = self.map.event(index, slot.next_event()) {
            slot.record(place, at_ns, note);
        }
    }

    /// Records that a call on a comm returned `code`, not 0. `request` is the call's request
    /// number, if any.
    #[cold]
    pub fn failed(&self, index: u16, slot: &Slot, call: Call, code: i32, request: u64) {
        let now_ns = self.now_ns();
        slot.error(call, code, now_ns);
        let note = Note::failed(call, code, request);
        let last = self.map.event(index, slot.next_event().wrapping_sub(1));
        if last.is_some_and(|last| !last.holds_failure(&note)) {
            self.event(index, slot, now_ns, &note);
        }
    }

    /// The slot of a comm; `None` once the comm is closed.
    #[inline]
    pub fn slot(&self, key: Key) -> Option<&Slot> {
        self.slot_at(key.index)
            .filter(|slot| slot.is_open_as(key.generation))
    }

    /// The slot at `index` in any state. `None` for slots that were never handed out, which must
    /// not be touched because they may have no memory.
    #[inline]
    pub(crate) fn slot_at(&self, index: u16) -> Option<&Slot> {
        // Not the count in the file, because other processes can change that.
        (u32::from(index) < self.used.load(Acquire)).then(|| self.map.slot(index))
    }

    /// Counts a `test` of a request that no open channel has pending.
    #[cold]
    pub fn unknown_request(&self) {
        self.word(header::REQUESTS_UNKNOWN).fetch_add(1, Relaxed);
    }

    /// Counts a post that cannot be tracked.
    #[cold]
    pub fn untracked_request(&self) {
        self.word(header::REQUESTS_UNTRACKED).fetch_add(1, Relaxed);
    }

    /// Records that a call that belongs to no channel was entered.
    pub fn enter_setup(&self, call: Call) -> SetupToken {
        self.word(header::SETUP_CALL).store(call as u64, Relaxed);
        let entered_ns = self.now_ns();
        self.word(header::SETUP_AT_NS).store(entered_ns, Relaxed);
        self.word(header::SETUP_CALLS_ENTERED).fetch_add(1, Release);
        SetupToken { call, entered_ns }
    }

    /// Records that the call returned `code`. A successful call becomes an event if `worth` is
    /// true, a failed one unless it repeats the last failure.
    pub fn leave_setup(&self, token: SetupToken, code: i32, worth: bool) {
        let SetupToken { call, entered_ns } = token;
        let now_ns = self.now_ns();
        self.word(header::SETUP_AT_NS).store(now_ns, Relaxed);
        self.word(header::SETUP_CALLS_LEFT).fetch_add(1, Release);
        if code == 0 {
            if worth {
                self.setup_event(
                    now_ns,
                    &Note::called(call, now_ns.saturating_sub(entered_ns)),
                );
            }
            return;
        }
        self.word(header::SETUP_ERRORS).fetch_add(1, Relaxed);
        let error = pack_error(call, code);
        if self.word(header::SETUP_LAST_ERROR).swap(error, Relaxed) != error {
            self.setup_event(now_ns, &Note::failed(call, code, 0));
        }
    }

    /// Records that `connect` was entered, with the address of its listener if that is known.
    pub fn enter_connect(&self, listener: Option<Address>) -> ConnectToken {
        let setup = self.enter_setup(Call::Connect);
        ConnectToken {
            held: self.map.connecting().enter(listener, setup.entered_ns),
            setup,
        }
    }

    /// Records that `connect` returned `code`, and whether it gave a comm.
    pub fn leave_connect(&self, token: ConnectToken, code: i32, has_comm: bool) {
        if let Some(held) = token.held {
            let is_over = has_comm || code != 0;
            self.map.connecting().leave(held, is_over, self.now_ns());
        }
        self.leave_setup(token.setup, code, has_comm);
    }

    fn setup_event(&self, at_ns: u64, note: &Note) {
        if self.shape.ring_events == 0 || !self.is_own() {
            return;
        }
        let number = self.word(header::SETUP_EVENTS).fetch_add(1, Relaxed);
        let place = number % u64::from(self.shape.ring_events);
        let offset =
            self.shape.ring_offset(self.shape.capacity.into()) + place * EVENT_BYTES as u64;
        // If the write fails, the event is missing, which its number shows.
        let _ = self
            .home()
            .file
            .write_all_at(&note.to_bytes(number, at_ns), offset);
    }

    /// Stores a log line of the plugin, with a few system calls. May be called on any thread.
    pub fn log(&self, line: &LogLine<'_>) {
        if !self.is_own() {
            return;
        }
        let number = self.word(header::LOG_LINES).fetch_add(1, Relaxed);
        let kept = LOG_KEPT.min(self.shape.log_entries / 2);
        let Some(place) = log_place(number, self.shape.log_entries, kept) else {
            return;
        };
        let bytes = file::line_bytes(number, self.now_ns(), crate::thread::id(), line);
        let offset = self.shape.log_offset() + place * LOG_ENTRY_BYTES as u64;
        // If the write fails, the line is missing, which its number shows.
        let _ = self.home().file.write_all_at(&bytes, offset);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.map.header()[offset / 8 % (HEADER_BYTES / 8)]
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A forked child has a copy of this value but does not own the file.
        if !self.keep {
            let _ = self.remove();
        }
    }
}

const _: () = assert!(CAPACITY_MAX <= u16::MAX as u32);
