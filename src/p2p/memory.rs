//! Registered buffers of the program, and who uses them.
//!
//! Registering a range twice gives the same registration, which ends when it was removed as often.
//! An operation holds the registrations that it uses: a removal waits until nothing holds it, so
//! that neither the plugin nor a peer touches memory that the program has freed.
#![expect(
    unsafe_code,
    reason = "asks the kernel whether memory is mapped, copies it, and hands it to the engine"
)]

use crate::Error;
use crate::gpu::Movable;
use crate::hash_table::HashTable;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tcpx_engine::gpu::{MemoryKind, Region};

/// Most registrations of an endpoint at once.
pub(crate) const REGISTRATIONS_MAX: usize = 1 << 20;
const PAGE: usize = 4096;
/// Pages per question to the kernel.
const PAGES_ASKED: usize = 1 << 16;

/// One registered range.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) number: u64,
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// The range, or the pages of a GPU that hold it. Offsets are from its start.
    pub(crate) region: Arc<Region>,
    holders: AtomicUsize,
}

/// Keeps a registration's memory in use.
#[derive(Debug)]
pub(crate) struct Held(Arc<Registration>);

impl Held {
    /// Memory of the endpoint itself, which no peer can name: no blob has the number 0.
    pub(crate) fn own(region: Arc<Region>) -> Self {
        Self::new(&Arc::new(Registration::own(0, region)))
    }

    /// Whether both hold the same registration.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn new(registration: &Arc<Registration>) -> Self {
        registration.holders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(registration))
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The one who sees no holder also sees what they wrote.
        self.0.holders.fetch_sub(1, Ordering::Release);
    }
}

impl std::ops::Deref for Held {
    type Target = Registration;

    fn deref(&self) -> &Registration {
        &self.0
    }
}

impl Registration {
    /// Memory of the endpoint itself, which is in no table. The number is no other registration's.
    pub(crate) fn own(number: u64, region: Arc<Region>) -> Self {
        Self {
            number,
            start: region.as_ptr().addr(),
            len: region.len(),
            region,
            holders: AtomicUsize::new(0),
        }
    }

    /// Whether an operation uses the memory.
    pub(crate) fn is_held(&self) -> bool {
        self.holders.load(Ordering::Acquire) > 0
    }

    /// Where `address..address + len` begins in the region, if it is inside the registration.
    pub(crate) fn offset_of(&self, address: usize, len: usize) -> Option<usize> {
        let offset = address.checked_sub(self.start)?;
        let before = self.start - self.region.as_ptr().addr();
        (offset.checked_add(len)? <= self.len).then_some(before + offset)
    }
}

#[derive(Default)]
struct Table {
    by_number: HashTable<u64, (Arc<Registration>, usize)>,
    by_range: HashTable<(usize, usize), u64>,
    last: u64,
}

impl Table {
    /// Registers a range of a region.
    fn add(&mut self, start: usize, len: usize, region: Arc<Region>) -> Result<u64, Error> {
        if self.by_number.len() >= REGISTRATIONS_MAX {
            let (what, max) = ("registrations", REGISTRATIONS_MAX);
            return Err(Error::TooMany { what, max });
        }
        self.last += 1;
        let number = self.last;
        let registration = Registration {
            number,
            start,
            len,
            region,
            holders: AtomicUsize::new(0),
        };
        self.by_number.insert(number, (Arc::new(registration), 1));
        self.by_range.insert((start, len), number);
        Ok(number)
    }
}

/// The registrations of one endpoint.
#[derive(Default)]
pub(crate) struct Memory {
    table: Mutex<Table>,
    pub(crate) movable: Movable,
}

impl Memory {
    pub(crate) fn new(movable: Movable) -> Self {
        Self {
            table: Mutex::default(),
            movable,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a range, or counts one more user of it.
    ///
    /// # Safety
    /// The range stays mapped and writable, by this process or its GPU, until its last removal has
    /// returned.
    pub(crate) unsafe fn register(&self, start: *mut u8, len: usize) -> Result<u64, Error> {
        let address = start.addr();
        let mut table = self.table();
        if let Some(number) = table.by_range.get(&(address, len)).copied()
            && let Some((_, users)) = table.by_number.get_mut(&number)
        {
            *users += 1;
            return Ok(number);
        }
        let pages = self.pages_of(address, len)?;
        let (first, whole, kind) = match pages {
            Some(pages) => (
                start.with_addr(pages.start),
                pages.len(),
                MemoryKind::Device,
            ),
            None => (start, len, MemoryKind::Host),
        };
        // SAFETY: the caller promises it for the range, whose pages stay with it, as an allocation
        // is freed whole.
        let region = unsafe { Region::foreign(first, whole, kind) };
        table.add(address, len, region)
    }

    /// Registers memory that lives as long as a registration of it.
    pub(crate) fn register_region(&self, region: &Arc<Region>) -> Result<u64, Error> {
        let (start, len) = (region.as_ptr().addr(), region.len());
        let kind = match self.movable.pages(start, len)? {
            Some(_) => MemoryKind::Device,
            None => MemoryKind::Host,
        };
        if region.kind() != kind {
            let why = "host memory that stands in for a GPU's is not moved";
            return Err(Error::Usage(why.into()));
        }
        self.table().add(start, len, Arc::clone(region))
    }

    /// An address of another process, a null pointer or a length past the end of a buffer is found
    /// here rather than by a fault in the middle of a transfer.
    fn pages_of(&self, address: usize, len: usize) -> Result<Option<Range<usize>>, Error> {
        if address == 0 {
            return Err(Error::Usage("the buffer is a null pointer".into()));
        }
        let pages = self.movable.pages(address, len)?;
        if pages.is_none() && !is_mapped(address, len) {
            return Err(Error::Usage(format!(
                "{len} bytes at {address:#x} are not all memory of this process: check the pointer and the length{}",
                self.movable.remark()
            )));
        }
        Ok(pages)
    }

    /// Removes one user. Returns the registration if that was the last one: no operation can begin
    /// to hold it any more, and the caller waits for those that do.
    pub(crate) fn remove(&self, number: u64) -> Result<Option<Arc<Registration>>, Error> {
        let mut table = self.table();
        let Some((_, users)) = table.by_number.get_mut(&number) else {
            return Err(gone(number));
        };
        *users -= 1;
        if *users > 0 {
            return Ok(None);
        }
        let removed = table.by_number.remove(&number);
        if let Some((registration, _)) = &removed {
            table
                .by_range
                .remove(&(registration.start, registration.len));
        }
        Ok(removed.map(|(registration, _)| registration))
    }

    /// Holds a registration.
    pub(crate) fn hold(&self, number: u64) -> Result<Held, Error> {
        let table = self.table();
        let found = table.by_number.get(&number).ok_or_else(|| gone(number))?;
        Ok(Held::new(&found.0))
    }

    /// Registrations there are.
    pub(crate) fn len(&self) -> usize {
        self.table().by_number.len()
    }
}

/// Copies bytes of one registration to another, each given with an offset in its region.
pub(crate) fn copy(
    (from, from_offset): (&Registration, usize),
    (into, into_offset): (&Registration, usize),
    len: usize,
) -> Result<(), String> {
    let is_host = |one: &Registration| one.region.kind() == MemoryKind::Host;
    let from_span = from.region.span(from_offset, len);
    let into_span = into.region.span(into_offset, len);
    let (Some(from_span), Some(into_span)) = (from_span, into_span) else {
        return Err("bytes outside a registration are not copied".to_owned());
    };
    if !is_host(from) || !is_host(into) {
        return Err("memory of a GPU is not copied here".to_owned());
    }
    // SAFETY: both spans are inside their regions, which are mapped while they are registered, and
    // the two may overlap.
    unsafe { std::ptr::copy(from_span.as_ptr(), into_span.as_ptr(), len) };
    Ok(())
}

fn gone(number: u64) -> Error {
    Error::Usage(format!(
        "registration {number} does not exist or was removed"
    ))
}

/// Whether every page of a range is mapped.
fn is_mapped(start: usize, len: usize) -> bool {
    let end = start
        .checked_add(len)
        .and_then(|end| end.checked_next_multiple_of(PAGE));
    let Some(end) = end else {
        return false;
    };
    let mut page = start & !(PAGE - 1);
    let mut states = vec![0u8; ((end - page) / PAGE).min(PAGES_ASKED)];
    while page < end {
        let asked = (end - page).min(PAGES_ASKED * PAGE);
        let first = std::ptr::without_provenance_mut(page);
        // SAFETY: reads no memory of the range, and `states` has a byte for each of its pages.
        let answer = unsafe { libc::mincore(first, asked, states.as_mut_ptr()) };
        if answer != 0 {
            return false;
        }
        page += asked;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(memory: &Memory, buffer: &mut [u8]) -> Result<u64, Error> {
        // SAFETY: the tests keep their buffers until the end.
        unsafe { memory.register(buffer.as_mut_ptr(), buffer.len()) }
    }

    #[test]
    fn a_range_registered_twice_is_removed_twice() {
        let (memory, mut buffer) = (Memory::default(), vec![0; 100]);
        let first = register(&memory, &mut buffer).expect("mapped");
        assert_eq!(register(&memory, &mut buffer), Ok(first));
        assert!(memory.remove(first).is_ok_and(|last| last.is_none()));
        let held = memory.hold(first).expect("there");
        let last = memory.remove(first).expect("there").expect("the last user");
        assert!(last.is_held());
        drop(held);
        assert!(!last.is_held());
        assert!(memory.hold(first).is_err() && memory.remove(first).is_err());
        let again = register(&memory, &mut buffer).expect("mapped");
        assert_ne!(again, first, "a number is never used again");
    }

    #[test]
    fn memory_of_nobody_is_refused() {
        let memory = Memory::default();
        for (start, len) in [(0, 1), (PAGE, 1), (usize::MAX - 1, 9), (PAGE, usize::MAX)] {
            // SAFETY: it is refused.
            let refused = unsafe { memory.register(std::ptr::without_provenance_mut(start), len) };
            assert!(matches!(refused, Err(Error::Usage(_))), "{start:#x} {len}");
        }
        assert_eq!(memory.len(), 0);
    }

    #[test]
    fn an_offset_is_inside_the_registration() {
        let (memory, mut buffer) = (Memory::default(), vec![0; 100]);
        let number = register(&memory, &mut buffer).expect("mapped");
        let held = memory.hold(number).expect("there");
        let start = buffer.as_ptr().addr();
        assert_eq!(held.offset_of(start + 10, 90), Some(10));
        for (address, len) in [(start + 10, 91), (start - 1, 1), (start + 101, 0)] {
            assert_eq!(held.offset_of(address, len), None);
        }
    }
}
