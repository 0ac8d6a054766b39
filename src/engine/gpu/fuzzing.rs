//! Properties that hold for any scatter list a plugin may publish. A target under `fuzz/`
//! searches for counterexamples; the tests try its seeds and random lists.
//!
//! Compiled for tests and fuzzing only.
#![forbid(unsafe_code)]

use super::{ScatterError, ScatterSource};
use std::cell::RefCell;
use tcpx_abi::unpack::{ENTRIES, LoadMeta, SLOTS, UnpackHandle, UnpackMeta};
use tcpx_abi::v7::DeviceHandle;
use tcpx_abi::{NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION};

const POSTED_MAX: usize = 64 * 1024;
/// Twice the longest message, so that an entry that starts in the first half ends in the pool.
const POOL_BYTES: usize = 2 * POSTED_MAX;
const BUFFER_BYTES: usize = POSTED_MAX + 64;
const UNTOUCHED: u8 = 0xee;

/// The structs that a plugin publishes for one comm.
struct Published {
    meta: UnpackMeta,
    pool: Vec<u8>,
}

thread_local! {
    static PUBLISHED: RefCell<Box<Published>> = RefCell::new(Box::new(Published {
        meta: UnpackMeta { mem: [[LoadMeta::default(); ENTRIES]; SLOTS], cnt: [0; SLOTS] },
        pool: (0..POOL_BYTES).map(|at| (at % 251) as u8).collect(),
    }));
}

/// Checks one input: receive number, bytes posted, count word, and entries.
pub fn list(data: &[u8]) {
    let mut words = data
        .chunks(4)
        .map(|four| std::array::from_fn(|at| four.get(at).copied().unwrap_or(0)));
    let mut word = || words.next().map_or(0, u32::from_le_bytes);
    let (finished, posted, count) = (word() as usize, word() as usize % (POSTED_MAX + 1), word());
    let mut entries = vec![LoadMeta::default(); ENTRIES.min(count as usize)];
    for entry in entries.iter_mut().take(data.len() / 16) {
        let (src_off, len, low, high) = (word(), word(), word(), word());
        // The plugin guarantees that the source is inside the pool.
        let src_off = src_off % POSTED_MAX as u32;
        *entry = LoadMeta {
            src_off,
            len,
            dst_off: u64::from(low) | u64::from(high) << 32,
        };
    }
    PUBLISHED.with_borrow_mut(|published| check(published, finished, posted, count, &entries));
}

fn check(
    published: &mut Published,
    finished: usize,
    posted: usize,
    count: u32,
    entries: &[LoadMeta],
) {
    let slot = finished % SLOTS;
    published.meta.cnt[slot] = u64::from(count);
    published.meta.mem[slot][..entries.len()].copy_from_slice(entries);
    let mut queue = UnpackHandle {
        meta: &mut published.meta,
        bounce_buf: published.pool.as_mut_ptr().cast(),
        head: 0,
    };
    let handle = DeviceHandle {
        net_device_type: NET_DEVICE_UNPACK,
        net_device_version: NET_DEVICE_UNPACK_VERSION,
        handle: (&raw mut queue).cast(),
        size: size_of::<UnpackHandle>(),
        needs_proxy_progress: 1,
    };
    let source = ScatterSource::from_host_handle(&handle).expect("a queue");
    let mut scratch = [LoadMeta::default(); ENTRIES];
    let mut buffer = vec![UNTOUCHED; BUFFER_BYTES];
    match source.read(finished as u64, posted as u64, &mut scratch) {
        Ok(list) => {
            assert!(
                describes(entries, count, posted)
                    && list.len() == entries.len()
                    && !list.is_empty()
            );
            list.copy_into(&mut buffer);
            assert_eq!(buffer, copied(entries, &published.pool));
        }
        Err(
            ScatterError::NoQueue { .. }
            | ScatterError::NoBounceBuffer
            | ScatterError::Unusable { .. },
        ) => {
            panic!("there are both")
        }
        Err(refused) => {
            assert!(!describes(entries, count, posted) && !refused.to_string().is_empty())
        }
    }
}

fn describes(entries: &[LoadMeta], count: u32, posted: usize) -> bool {
    let fits = |one: &LoadMeta| u128::from(one.dst_off) + u128::from(one.len) <= posted as u128;
    let sum: u128 = entries.iter().map(|one| u128::from(one.len)).sum();
    (1..=ENTRIES as u32).contains(&count)
        && entries.iter().all(fits)
        && sum == posted as u128
        && covers(entries, posted)
}

/// Whether the entries cover every byte. Their lengths sum up to `posted`, so none is
/// covered twice.
fn covers(entries: &[LoadMeta], posted: usize) -> bool {
    let mut covered = vec![false; posted];
    entries
        .iter()
        .for_each(|one| covered[one.dst_off as usize..][..one.len as usize].fill(true));
    covered.into_iter().all(|byte| byte)
}

/// The message, copied byte by byte.
fn copied(entries: &[LoadMeta], pool: &[u8]) -> Vec<u8> {
    let mut buffer = vec![UNTOUCHED; BUFFER_BYTES];
    for one in entries {
        for at in 0..one.len as usize {
            buffer[one.dst_off as usize + at] = pool[one.src_off as usize + at];
        }
    }
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tcpx_words::seeds;

    #[test]
    fn the_seeds_of_the_fuzz_target_hold() {
        seeds::read("scatter", "")
            .iter()
            .for_each(|seed| list(seed));
    }

    #[test]
    #[ignore = "writes into fuzz/corpus-seed"]
    fn write_the_seeds() {
        let write = |name, words: &[u32]| {
            seeds::write(
                "scatter",
                name,
                &words
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .collect::<Vec<_>>(),
            );
        };
        write("valid-one-page", &[0, 4096, 1, 0, 4096, 0, 0]);
        write(
            "valid-shuffled",
            &[
                17, 8200, 3, 4096, 4096, 4096, 0, 0, 4096, 0, 0, 8192, 8, 8192, 0,
            ],
        );
        write("too-many", &[0, 4096, 2049, 0, 4096, 0, 0]);
        write("outside", &[3, 4096, 1, 0, 4096, u32::MAX, u32::MAX]);
        write("too-short", &[15, 4096, 1, 0, 4095, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_list_holds(
            lengths in prop::collection::vec(0u32..5000, 1..12),
            shift in prop_oneof![4 => Just(0u32), 1 => any::<u32>()],
            extra in prop_oneof![4 => Just(0u32), 1 => any::<u32>()],
            finished in any::<u32>(),
        ) {
            let total: u32 = lengths.iter().sum();
            let mut words = vec![finished, total, (lengths.len() as u32).wrapping_add(extra)];
            let mut at = total;
            for len in lengths {
                at -= len;
                words.extend([at / 2, len, at.wrapping_add(shift), 0]);
            }
            list(&words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>());
        }
    }
}
