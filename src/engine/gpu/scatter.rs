//! The scatter list of a finished receive: read once, checked, then used for copying.
//!
//! For each comm the plugin publishes sixteen lists and counts in host-readable memory and one
//! bounce buffer. The k-th finished receive uses slot k mod 16, as in NCCL; no private field
//! is needed to find it. Nothing in a list is trusted: the count must be 1 to 2048, the
//! lengths must add up to the bytes posted, destinations must be inside the buffer without
//! overlap, and sources inside the pool if its size is known. Any other list is refused.
#![expect(unsafe_code, reason = "reads memory that the plugin publishes")]

use std::mem::offset_of;
use std::ptr::NonNull;
use tcpx_abi::unpack::{ENTRIES, LoadMeta, SLOTS, UnpackHandle, UnpackMeta};
use tcpx_abi::v7::DeviceHandle;

/// Why a scatter list is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScatterError {
    /// The device handle does not describe the known unpack queue.
    #[error(
        "the device handle does not describe an unpack queue (type {kind}, version {version}, {size} bytes)"
    )]
    NoQueue {
        /// `netDeviceType`
        kind: i32,
        /// `netDeviceVersion`
        version: i32,
        /// Bytes of the queue.
        size: usize,
    },
    /// The plugin has not imported the page pool.
    #[error("the plugin has no bounce buffer for this comm")]
    NoBounceBuffer,
    /// The driver does not confirm the addresses of the queue or the pool.
    #[error("the plugin's unpack queue cannot be used: {why}")]
    Unusable {
        /// The driver's error, or the problem with an address.
        why: String,
    },
    /// Two fragments overlap, so other bytes are not covered.
    #[error("fragment {entry} of slot {slot} overlaps another one at byte {at}")]
    Overlap {
        /// Entry index.
        entry: usize,
        /// Slot index.
        slot: usize,
        /// First byte of the fragment.
        at: u64,
    },
    /// A fragment's source is outside the pool.
    #[error("fragment {entry} of slot {slot} ends at byte {end}, beyond the pool of {pool} bytes")]
    OutsidePool {
        /// Entry index.
        entry: usize,
        /// Slot index.
        slot: usize,
        /// First byte after the fragment.
        end: u64,
        /// Bytes of the pool.
        pool: u64,
    },
    /// The count is 0 or more than a slot holds.
    #[error("{count} fragments in slot {slot}, expected 1 to {ENTRIES}")]
    Count {
        /// The count word.
        count: u64,
        /// Slot index.
        slot: usize,
    },
    /// The lengths do not add up to the bytes posted.
    #[error("the fragments of slot {slot} hold {sum} bytes, expected {expected}")]
    Sum {
        /// Bytes in all fragments.
        sum: u64,
        /// Bytes posted.
        expected: u64,
        /// Slot index.
        slot: usize,
    },
    /// A fragment's destination is outside the message.
    #[error("fragment {entry} of slot {slot} ends at byte {end}, beyond the {expected} posted")]
    Outside {
        /// Entry index.
        entry: usize,
        /// Slot index.
        slot: usize,
        /// First byte after the fragment.
        end: u64,
        /// Bytes posted.
        expected: u64,
    },
}

/// The published scatter lists of one comm.
#[derive(Debug)]
pub struct ScatterSource {
    meta: NonNull<UnpackMeta>,
    bounce: NonNull<u8>,
    /// Bytes of the pool, if known.
    pool: Option<u64>,
}

// SAFETY: only addresses; read while the comm is driven by its one owner.
unsafe impl Send for ScatterSource {}

impl ScatterSource {
    /// From a device handle whose 24 bytes this process can read, as with a device stand-in.
    /// On a GPU they must be copied out first.
    pub fn from_host_handle(handle: &DeviceHandle) -> Result<Self, ScatterError> {
        let queue = queue_of(handle)?;
        // SAFETY: a plugin that announces type UNPACK, version 7 and 24 bytes
        // promises this struct, valid as long as the comm.
        let queue = unsafe { queue.read() };
        Self::from_queue(handle, queue.meta, queue.bounce_buf.cast(), None)
    }

    /// From the addresses in the handle's 24 bytes: the lists, readable by this process, and
    /// the pool, with its size if known.
    pub(super) fn from_queue(
        handle: &DeviceHandle,
        meta: *mut UnpackMeta,
        bounce: *mut u8,
        pool: Option<u64>,
    ) -> Result<Self, ScatterError> {
        let meta = NonNull::new(meta)
            .filter(|meta| meta.is_aligned())
            .ok_or_else(|| no_queue(handle))?;
        let bounce = NonNull::new(bounce).ok_or(ScatterError::NoBounceBuffer)?;
        Ok(Self { meta, bounce, pool })
    }

    /// Copies the list of the `finished`-th receive (counted from 0) into
    /// `scratch` and checks it against the `expected` bytes that were posted.
    pub fn read<'a>(
        &'a self,
        finished: u64,
        expected: u64,
        scratch: &'a mut [LoadMeta; ENTRIES],
    ) -> Result<Scatter<'a>, ScatterError> {
        let slot = (finished % SLOTS as u64) as usize;
        let meta = self.meta.as_ptr().cast::<u8>();
        let count_word = meta
            .wrapping_add(offset_of!(UnpackMeta, cnt))
            .cast::<u64>()
            .wrapping_add(slot);
        // SAFETY: the queue is valid as long as the comm; the plugin published this
        // word before `test` said done and writes it again only after the consume.
        let count = unsafe { count_word.read_volatile() };
        let entries = usize::try_from(count)
            .ok()
            .filter(|count| (1..=ENTRIES).contains(count));
        let entries = entries.ok_or(ScatterError::Count { count, slot })?;
        let list = meta
            .wrapping_add(offset_of!(UnpackMeta, mem))
            .cast::<LoadMeta>()
            .wrapping_add(slot * ENTRIES);
        // SAFETY: slot and entries lie inside the published struct; `scratch` is ours.
        unsafe { std::ptr::copy_nonoverlapping(list, scratch.as_mut_ptr(), entries) };
        let list = &scratch[..entries];
        check(list, slot, expected, self.pool)?;
        Ok(Scatter {
            list,
            bounce: self.bounce,
        })
    }
}

/// The unpack queue that a device handle points to, if its layout is the known one.
pub(super) fn queue_of(handle: &DeviceHandle) -> Result<*const UnpackHandle, ScatterError> {
    let queue = handle.handle.cast::<UnpackHandle>();
    let known = handle.net_device_type == tcpx_abi::NET_DEVICE_UNPACK
        && handle.net_device_version == tcpx_abi::NET_DEVICE_UNPACK_VERSION
        && handle.size == size_of::<UnpackHandle>()
        && queue.is_aligned();
    if known && !queue.is_null() {
        Ok(queue.cast_const())
    } else {
        Err(no_queue(handle))
    }
}

fn no_queue(handle: &DeviceHandle) -> ScatterError {
    ScatterError::NoQueue {
        kind: handle.net_device_type,
        version: handle.net_device_version,
        size: handle.size,
    }
}

fn check(
    list: &[LoadMeta],
    slot: usize,
    expected: u64,
    pool: Option<u64>,
) -> Result<(), ScatterError> {
    let (mut sum, mut in_order) = (0u64, true);
    for (entry, one) in list.iter().enumerate() {
        let end = one.dst_off.saturating_add(u64::from(one.len));
        if end > expected {
            return Err(ScatterError::Outside {
                entry,
                slot,
                end,
                expected,
            });
        }
        let source_end = u64::from(one.src_off) + u64::from(one.len);
        if let Some(pool) = pool.filter(|pool| source_end > *pool) {
            return Err(ScatterError::OutsidePool {
                entry,
                slot,
                end: source_end,
                pool,
            });
        }
        in_order &= one.dst_off == sum;
        sum += u64::from(one.len);
    }
    if sum != expected {
        return Err(ScatterError::Sum {
            sum,
            expected,
            slot,
        });
    }
    if in_order {
        Ok(())
    } else {
        check_beside(list, slot)
    }
}

/// Checks that no two fragments overlap. With several sockets the entries are in the order in
/// which task chunks finished, so they are sorted by destination first.
fn check_beside(list: &[LoadMeta], slot: usize) -> Result<(), ScatterError> {
    let mut order = [0u16; ENTRIES];
    let order = &mut order[..list.len()];
    order
        .iter_mut()
        .zip(0..)
        .for_each(|(place, entry)| *place = entry);
    order.sort_unstable_by_key(|entry| {
        let one = list[usize::from(*entry)];
        (one.dst_off, one.len)
    });
    let mut end = 0;
    for entry in order.iter().map(|entry| usize::from(*entry)) {
        let one = list[entry];
        // A fragment of no bytes overlaps none, wherever it is.
        if one.len > 0 && one.dst_off < end {
            return Err(ScatterError::Overlap {
                entry,
                slot,
                at: one.dst_off,
            });
        }
        end = end.max(one.dst_off + u64::from(one.len));
    }
    Ok(())
}

/// A checked scatter list: every destination is inside the message.
pub struct Scatter<'a> {
    list: &'a [LoadMeta],
    bounce: NonNull<u8>,
}

impl<'a> Scatter<'a> {
    /// A list and pool of the caller, not checked.
    pub(super) fn over_pool(list: &'a [LoadMeta], bounce: NonNull<u8>) -> Self {
        Self { list, bounce }
    }
}

impl Scatter<'_> {
    /// Number of fragments.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no fragments.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The entries.
    pub fn entries(&self) -> &[LoadMeta] {
        self.list
    }

    /// The bounce buffer's address, to which `src_off` is relative.
    pub fn bounce(&self) -> u64 {
        self.bounce.as_ptr().addr() as u64
    }

    /// Copies every fragment into `into`. Bytes beyond its end are dropped.
    pub(crate) fn copy_into(&self, into: &mut [u8]) {
        for one in self.list {
            let (Ok(start), len) = (usize::try_from(one.dst_off), one.len as usize) else {
                continue;
            };
            let Some(place) = start
                .checked_add(len)
                .and_then(|end| into.get_mut(start..end))
            else {
                continue;
            };
            // SAFETY: the pool's size is not published; that `src_off..+len` lies in
            // it is the plugin's promise, and the pages stay until the consume.
            let from = unsafe { self.bounce.as_ptr().add(one.src_off as usize) };
            // SAFETY: as above; `place` is ours and `len` long.
            unsafe { std::ptr::copy_nonoverlapping(from, place.as_mut_ptr(), len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(parts: &[(u32, u64)]) -> Vec<LoadMeta> {
        parts
            .iter()
            .map(|(len, dst_off)| LoadMeta {
                src_off: 0,
                len: *len,
                dst_off: *dst_off,
            })
            .collect()
    }

    #[test]
    fn lists_that_do_not_describe_the_message_are_refused() {
        let check = |parts: &[(u32, u64)]| check(&list(parts), 3, 8192, Some(4096));
        assert_eq!(check(&[(4096, 4096), (4096, 0)]), Ok(()));
        assert_eq!(check(&[(4096, 4096), (0, 4096), (4096, 0)]), Ok(()));
        assert_eq!(
            check(&[(4096, 0)]),
            Err(ScatterError::Sum {
                sum: 4096,
                expected: 8192,
                slot: 3
            })
        );
        assert_eq!(
            check(&[(4096, 8000)]),
            Err(ScatterError::Outside {
                entry: 0,
                slot: 3,
                end: 12_096,
                expected: 8192
            })
        );
        assert!(matches!(
            check(&[(1, u64::MAX)]),
            Err(ScatterError::Outside { .. })
        ));
        assert_eq!(
            check(&[(4096, 4000), (4096, 0)]),
            Err(ScatterError::Overlap {
                entry: 0,
                slot: 3,
                at: 4000
            }),
            "a hole at the end"
        );
        assert_eq!(
            check(&[(8192, 0)]),
            Err(ScatterError::OutsidePool {
                entry: 0,
                slot: 3,
                end: 8192,
                pool: 4096
            })
        );
    }

    #[test]
    fn a_handle_without_a_queue_is_refused() {
        let handle = DeviceHandle {
            net_device_type: 1,
            net_device_version: 7,
            handle: std::ptr::null_mut(),
            size: 24,
            needs_proxy_progress: 1,
        };
        assert!(matches!(
            ScatterSource::from_host_handle(&handle),
            Err(ScatterError::NoQueue { .. })
        ));
    }
}
