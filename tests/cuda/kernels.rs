//! Compares the results of kernels and lanes with those of the host, byte for byte.

use crate::support::{with_driver, with_fake};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tcpx_abi::unpack::{ENTRIES, LoadMeta, SLOTS, UnpackHandle, UnpackMeta};
use tcpx_abi::v7::DeviceHandle;
use tcpx_engine::gpu::{
    CudaMemory, DeviceMemory, Lane, LaneSetup, Passed, Region, ScatterSource, Unpack, Wanted, Work,
};
use tcpx_engine::transfer::Pattern;
use tcpx_words::payload::StampId;

const CHUNK: usize = 256 << 10;
const GUARD: usize = 64;
const POOL: usize = 3 << 20;
const ID: StampId = StampId {
    iteration: 3,
    channel: 1,
    chunk: 9,
};
/// Time limit of a wait, far above what a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

fn memory() -> CudaMemory {
    CudaMemory::open(&Wanted::Ordinal(0)).unwrap()
}

/// The outcomes of the queued and launched jobs, in order.
fn outcomes(lane: &mut dyn Lane, count: usize) -> Vec<Passed> {
    let (mut found, started) = (Vec::new(), Instant::now());
    while found.len() < count {
        lane.launch().unwrap();
        found.extend(lane.passed().unwrap());
        assert!(
            started.elapsed() < PATIENCE,
            "{} of {count} jobs passed",
            found.len()
        );
    }
    found
}

fn read(memory: &CudaMemory, region: &Arc<Region>) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    memory
        .read(region, region.span(0, region.len()).unwrap(), &mut bytes)
        .unwrap();
    bytes
}

/// A scatter list as a plugin publishes it, with its pages on the GPU.
struct Published {
    meta: Box<UnpackMeta>,
    pool: Arc<Region>,
    bytes: Vec<u8>,
}

impl Published {
    fn new(memory: &CudaMemory) -> Self {
        let pool = memory.allocate(POOL).unwrap();
        let bytes: Vec<u8> = (0..POOL as u64)
            .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 41) as u8)
            .collect();
        memory
            .write(&pool, pool.span(0, POOL).unwrap(), &bytes)
            .unwrap();
        Self {
            meta: Box::new(UnpackMeta {
                mem: [[LoadMeta::default(); ENTRIES]; SLOTS],
                cnt: [0; SLOTS],
            }),
            pool,
            bytes,
        }
    }

    fn source(&mut self) -> ScatterSource {
        let mut queue = UnpackHandle {
            meta: &mut *self.meta,
            bounce_buf: self.pool.as_ptr().cast(),
            head: !0,
        };
        let handle = DeviceHandle {
            net_device_type: 1,
            net_device_version: 7,
            handle: (&raw mut queue).cast(),
            size: 24,
            needs_proxy_progress: 1,
        };
        ScatterSource::from_host_handle(&handle).unwrap()
    }
}

/// The fragments of one message in order of arrival, and the size of the message.
fn lists() -> impl Strategy<Value = (Vec<LoadMeta>, usize)> {
    let lengths = prop_oneof![
        1 => Just(vec![4096u32; 64]),
        1 => Just(vec![1u32; ENTRIES]),
        1 => Just(vec![CHUNK as u32]),
        2 => prop::collection::vec(1u32..34, 1..40),
        2 => prop::collection::vec(prop_oneof![Just(4096u32), 1u32..9000], 1..24),
    ];
    let shuffled = lengths.prop_flat_map(|lengths| {
        let mut at = 0;
        let places: Vec<(u32, u64)> = lengths
            .iter()
            .map(|len| {
                at += u64::from(*len);
                (*len, at - u64::from(*len))
            })
            .collect();
        (
            Just(places).prop_shuffle(),
            prop::collection::vec(any::<u32>(), lengths.len()),
            any::<bool>(),
        )
    });
    shuffled.prop_map(|(places, sources, aligned)| {
        let total = places.iter().map(|(len, _)| *len as usize).sum();
        let entry = |((len, dst_off), from): (&(u32, u64), &u32)| {
            let src_off = from % (POOL as u32 - len);
            LoadMeta {
                src_off: if aligned { src_off & !4095 } else { src_off },
                len: *len,
                dst_off: *dst_off,
            }
        };
        (places.iter().zip(&sources).map(entry).collect(), total)
    })
}

#[test]
fn any_list_is_gathered_as_on_the_host_by_every_policy() {
    with_driver(
        "kernels::any_list_is_gathered_as_on_the_host_by_every_policy",
        || {
            let memory = memory();
            let mut published = Published::new(&memory);
            let mut runner = TestRunner::new(Config {
                cases: 48,
                failure_persistence: None,
                ..Config::default()
            });
            let lanes = [Unpack::Kernel, Unpack::D2d, Unpack::Host].map(|unpack| {
                let setup = LaneSetup {
                    jobs: 4,
                    chunk: CHUNK,
                    unpack,
                    pattern: None,
                };
                (
                    unpack,
                    memory.lane(&setup).unwrap().unwrap(),
                    memory.allocate(CHUNK + GUARD).unwrap(),
                )
            });
            let lanes = std::cell::RefCell::new(lanes);
            let source = published.source();
            let published = std::cell::RefCell::new(published);
            // Both aligned and not aligned to a vector.
            let cases = (lists(), prop_oneof![Just(0usize), 0usize..32], 0u64..40);
            let run = runner.run(&cases, |((list, total), shift, number)| {
                let mut published = published.borrow_mut();
                let slot = number as usize % SLOTS;
                published.meta.mem[slot][..list.len()].copy_from_slice(&list);
                published.meta.cnt[slot] = list.len() as u64;
                let total = total.min(CHUNK + GUARD - shift);
                for (unpack, lane, region) in lanes.borrow_mut().iter_mut() {
                    let blank = vec![0xc5; region.len()];
                    memory
                        .write(region, region.span(0, region.len()).unwrap(), &blank)
                        .unwrap();
                    let mut scratch = [LoadMeta::default(); ENTRIES];
                    let Ok(scatter) = source.read(number, total as u64, &mut scratch) else {
                        return Ok(());
                    };
                    let span = region.span(shift, total).unwrap();
                    let work = Work::Take {
                        list: Some(&scatter),
                        span,
                        verify: None,
                        guard: 0,
                    };
                    if lane.queue(&work).is_err() {
                        return Ok(());
                    }
                    assert_eq!(outcomes(&mut **lane, 1), [Passed::Right]);
                    let mut expected = blank;
                    for one in &list {
                        let from = &published.bytes[one.src_off as usize..][..one.len as usize];
                        expected[shift + one.dst_off as usize..][..one.len as usize]
                            .copy_from_slice(from);
                    }
                    let got = read(&memory, region);
                    let wrong = got
                        .iter()
                        .zip(&expected)
                        .position(|(got, expected)| got != expected);
                    prop_assert_eq!(wrong, None, "{:?}, {} fragments", unpack, list.len());
                }
                Ok(())
            });
            run.unwrap();
        },
    );
}

#[test]
fn a_gpu_and_the_host_verify_each_others_pattern() {
    with_driver(
        "kernels::a_gpu_and_the_host_verify_each_others_pattern",
        || {
            let memory = memory();
            let pattern = Pattern::new(11);
            let key = pattern.key();
            let setup = LaneSetup {
                jobs: 4,
                chunk: CHUNK,
                unpack: Unpack::Kernel,
                pattern: Some(&key),
            };
            let mut lane = memory.lane(&setup).unwrap().unwrap();
            let region = memory.allocate(CHUNK + GUARD).unwrap();
            let lengths = [
                1, 7, 8, 15, 16, 17, 2048, 2049, 2056, 4095, 4096, 4100, 32768, 32769, 100_001,
                CHUNK,
            ];
            for len in lengths {
                let span = region.span(0, len).unwrap();
                let blank = vec![0xc5; region.len()];
                memory
                    .write(&region, region.span(0, region.len()).unwrap(), &blank)
                    .unwrap();
                lane.queue(&Work::Fill {
                    span,
                    stamp: pattern.stamp_of(ID),
                })
                .unwrap();
                let check = Work::Take {
                    list: None,
                    span,
                    verify: Some(pattern.stamp_of(ID)),
                    guard: len,
                };
                lane.queue(&check).unwrap();
                assert_eq!(
                    outcomes(&mut *lane, 2),
                    [Passed::Right, Passed::Right],
                    "{len}"
                );
                let got = read(&memory, &region);
                assert_eq!(pattern.verify(ID, &got[..len]), None, "{len}");
                assert_eq!(got[len..], blank[len..], "{len}");
                for at in [0, len / 2, len - 1, len, len + GUARD - 1] {
                    let mut wrong = got.clone();
                    wrong[at] ^= 0x10;
                    memory
                        .write(&region, region.span(0, region.len()).unwrap(), &wrong)
                        .unwrap();
                    lane.queue(&check).unwrap();
                    let expected = if at < len {
                        Passed::Wrong
                    } else {
                        Passed::Overrun
                    };
                    assert_eq!(outcomes(&mut *lane, 1), [expected], "byte {at} of {len}");
                }
            }
        },
    );
}

#[test]
fn a_job_completes_with_its_event_and_not_before() {
    let name = "kernels::a_job_completes_with_its_event_and_not_before";
    with_fake(name, &[("FAKE_CUDA_LAZY", "5")], || {
        let memory = memory();
        let pattern = Pattern::new(5);
        let key = pattern.key();
        let setup = LaneSetup {
            jobs: 16,
            chunk: 4096,
            unpack: Unpack::Kernel,
            pattern: Some(&key),
        };
        let mut lane = memory.lane(&setup).unwrap().unwrap();
        let region = memory.allocate(16 * 4096).unwrap();
        let fill = |slot: usize| Work::Fill {
            span: region.span(slot * 4096, 4096).unwrap(),
            stamp: pattern.stamp_of(ID),
        };
        lane.queue(&fill(0)).unwrap();
        assert_eq!(lane.passed().unwrap(), None, "nothing was launched");
        lane.launch().unwrap();
        for _ in 0..5 {
            assert_eq!(lane.passed().unwrap(), None);
        }
        assert_eq!(lane.passed().unwrap(), Some(Passed::Right));
        assert_eq!(lane.passed().unwrap(), None, "reported once");
        // Seven batches cannot be in flight at once: the remaining jobs stay queued.
        for slot in 0..7 {
            lane.queue(&fill(slot)).unwrap();
            lane.launch().unwrap();
        }
        assert_eq!(outcomes(&mut *lane, 7).len(), 7);
        for slot in 0..16 {
            lane.queue(&fill(slot)).unwrap();
        }
        assert!(lane.queue(&fill(0)).is_err(), "a seventeenth job");
        assert_eq!(outcomes(&mut *lane, 16).len(), 16);
        assert!(
            lane.queue(&Work::Fill {
                span: region.span(0, 8192).unwrap(),
                stamp: pattern.stamp_of(ID)
            })
            .is_err()
        );
    });
}

#[test]
fn a_handle_that_points_to_no_gpu_memory_is_refused() {
    with_driver(
        "kernels::a_handle_that_points_to_no_gpu_memory_is_refused",
        || {
            let memory = memory();
            let region = memory.allocate(4096).unwrap();
            let host = Box::new([0u64; 3]);
            let handle = |at: *mut u8| DeviceHandle {
                net_device_type: 1,
                net_device_version: 7,
                handle: at.cast(),
                size: 24,
                needs_proxy_progress: 1,
            };
            let refused = |handle: &DeviceHandle, words: &str| {
                let error = memory.scatter_source(handle).unwrap_err().to_string();
                assert!(error.contains(words), "{error}");
            };
            refused(
                &handle(host.as_ptr().cast_mut().cast()),
                "the device handle",
            );
            // All zeros: no lists.
            refused(&handle(region.as_ptr()), "the scatter lists");
            refused(
                &DeviceHandle {
                    net_device_version: 8,
                    ..handle(region.as_ptr())
                },
                "does not describe an unpack queue",
            );
            let lists: [u64; 3] = [region.as_ptr().addr() as u64, 0, !0];
            let bytes: Vec<u8> = lists.iter().flat_map(|word| word.to_le_bytes()).collect();
            memory
                .write(&region, region.span(0, 24).unwrap(), &bytes)
                .unwrap();
            refused(&handle(region.as_ptr()), "is not host memory");
            assert!(
                region
                    .with_bytes(region.span(0, 1).unwrap(), |_| ())
                    .is_none(),
                "GPU memory was lent to the host"
            );
        },
    );
}
