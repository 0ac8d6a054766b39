//! Endpoints that move GPU memory, over the driver of `tests/cuda/fake_cuda.c`, whose work is late,
//! or with `TCPXCTL_TEST_GPU=1` over the machine's. The driver is looked for once per process, so each
//! test runs in a process of its own.
#![expect(
    unsafe_code,
    reason = "registers GPU memory that outlives its registration, and sets a variable"
)]

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tcpx_engine::gpu::{CudaMemory, DeviceMemory, Region};
use tcpx_p2p::{Endpoint, Gpu, Local, MemoryOf, Remote, Rights, Settings};

const AMPLE: Duration = Duration::from_secs(30);
const CANARY: usize = 4096;
const CHILD: &str = "TCPXP2P_TEST_CHILD";

/// The folder of the fake driver. It is compiled once per content of its sources, for all tests.
fn driver() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = root.join("tests/cuda/fake_cuda.c");
    let mut content = DefaultHasher::new();
    for read in [&source, &root.join("src/engine/gpu/kernels/kernels.cu")] {
        std::fs::read(read).expect("a source").hash(&mut content);
    }
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = scratch.join(format!("fake-cuda-{:016x}", content.finish()));
    if !folder.exists() {
        let made = tempfile::tempdir_in(scratch).expect("a folder");
        let compiled = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden"])
            .args(["-Wno-unknown-pragmas", "-Wl,-soname,libcuda.so.1"])
            .arg(source)
            .arg("-o")
            .arg(made.path().join("libcuda.so.1"))
            .status();
        assert!(compiled.expect("a C compiler named cc").success());
        // Of two that compile at a time, the second finds the folder there and uses it.
        let moved = std::fs::rename(made.path(), &folder);
        assert!(folder.exists(), "{moved:?}");
    }
    folder
}

/// Runs `body` in a process that has a driver.
fn with_driver(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        // SAFETY: before the first endpoint of this process, which runs this test only.
        unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
        return body();
    }
    let mut child = Command::new(std::env::current_exe().expect("a path"));
    child
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .envs(environment.iter().copied());
    if std::env::var_os("TCPXCTL_TEST_GPU").is_none_or(|value| value != "1") {
        child.env("LD_LIBRARY_PATH", driver());
    }
    let output = child.output().expect("starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{name} did not run:\n{text}");
}

fn settings(name: &str, memory: MemoryOf) -> Settings {
    Settings {
        name: name.into(),
        plugin: plugin(),
        address: Some([127, 0, 0, 1].into()),
        lanes: 2,
        chunk: 64 * 1024,
        memory,
        // Also on few CPUs, a helper unpacks what is large.
        threads: NonZero::new(2),
        ..Settings::default()
    }
}

/// `builtin`, or the plugin that the tests are repeated over.
fn plugin() -> String {
    std::env::var("TCPXP2P_TEST_PLUGIN").unwrap_or_else(|_| "builtin".into())
}

/// The last GPU of the driver, which has two, or of a machine with one.
fn gpu(index: usize) -> Gpu {
    let only_one = CudaMemory::open(&Gpu::Ordinal(1)).is_err();
    Gpu::Ordinal(if only_one { 0 } else { index })
}

fn pattern(seed: u8, at: usize) -> u8 {
    (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ (at >> 16) as u8 ^ seed
}

/// A registered part of GPU memory between two canaries.
struct Buffer<'a> {
    memory: &'a CudaMemory,
    region: Arc<Region>,
    local: Local,
}

impl<'a> Buffer<'a> {
    fn new(memory: &'a CudaMemory, endpoint: &Endpoint, len: usize, seed: u8) -> Self {
        let region = memory.allocate(len + 2 * CANARY).expect("enough memory");
        let whole = region.span(0, region.len()).expect("whole");
        let mut bytes = vec![0xC5; region.len()];
        for (at, byte) in bytes[CANARY..CANARY + len].iter_mut().enumerate() {
            *byte = pattern(seed, at);
        }
        memory.write(&region, whole, &bytes).expect("written");
        // SAFETY: the tests drop their endpoints before their buffers.
        let made = unsafe { endpoint.register(region.as_ptr(), region.len()) };
        let local = Local {
            registration: made.expect("memory of the GPU"),
            address: region.as_ptr().addr() + CANARY,
            len,
        };
        Self {
            memory,
            region,
            local,
        }
    }

    /// Whether it has the pattern of `seed`, and its canaries are intact.
    fn has(&self, seed: u8) -> bool {
        let whole = self.region.span(0, self.region.len()).expect("whole");
        let mut bytes = vec![0; self.region.len()];
        self.memory
            .read(&self.region, whole, &mut bytes)
            .expect("read");
        let end = bytes.len() - CANARY;
        let intact = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xC5);
        assert!(
            intact(&bytes[..CANARY]) && intact(&bytes[end..]),
            "a canary changed"
        );
        let mut content = bytes[CANARY..end].iter().enumerate();
        content.all(|(at, byte)| *byte == pattern(seed, at))
    }
}

fn moves_every_byte(of: usize, to: usize) {
    let memories = [of, to].map(|index| CudaMemory::open(&gpu(index)).expect("a GPU"));
    let make = |name, index| Endpoint::new(&settings(name, MemoryOf::Gpu(gpu(index))));
    let one = make("one", of).expect("an endpoint");
    let other = make("other", to).expect("an endpoint");
    assert!(one.metadata().gpu.is_some() && !one.metadata().bdf.is_empty());
    let connection = one.connect(other.metadata()).expect("connects");
    let accepted = other.accept(AMPLE).expect("accepts");
    assert_eq!(accepted.peer.gpu, one.metadata().gpu);
    for len in [1, 4097, 64 * 1024, 3_000_001] {
        let here = Buffer::new(&memories[0], &one, len, 1);
        let there = Buffer::new(&memories[1], &other, len, 2);
        let blob = other.advertise(there.local, Rights::Both).expect("inside");
        let remote = Remote {
            blob: &blob,
            offset: 0,
        };
        let read = one.read(connection, &[(here.local, remote)]);
        assert_eq!(read.expect("starts").wait(AMPLE), Ok(len as u64));
        assert!(here.has(2), "{len} bytes read");
        let fresh = Buffer::new(&memories[0], &one, len, 3);
        let write = one.write(connection, &[(fresh.local, remote)]);
        assert_eq!(write.expect("starts").wait(AMPLE), Ok(len as u64));
        assert!(there.has(3), "{len} bytes written");
        let receive = other.receive(accepted.connection, there.local);
        let send = one.send(connection, here.local).expect("starts");
        assert_eq!(send.wait(AMPLE), Ok(len as u64));
        assert!(there.has(2), "{len} bytes sent");
        receive.expect("starts").wait(AMPLE).expect("done");
        // The blob of a registration that is gone: the read is refused, and nothing moves.
        other.deregister(there.local.registration).expect("there");
        let refused = one.read(connection, &[(fresh.local, remote)]);
        let words = refused.expect("starts").wait(AMPLE).expect_err("refused");
        assert!(words.to_string().contains("was removed"), "{words}");
        assert!(fresh.has(3), "nothing was read");
        one.deregister(here.local.registration).expect("there");
        one.deregister(fresh.local.registration).expect("there");
    }
    drop((one, other));
}

#[test]
fn memory_of_one_gpu_is_read_written_and_sent() {
    with_driver("memory_of_one_gpu_is_read_written_and_sent", &[], || {
        moves_every_byte(0, 0);
    });
}

#[test]
fn memory_of_two_gpus_is_read_written_and_sent() {
    with_driver("memory_of_two_gpus_is_read_written_and_sent", &[], || {
        moves_every_byte(0, 1);
    });
}

#[test]
fn an_endpoint_of_one_gpu_refuses_other_memory() {
    let name = "an_endpoint_of_one_gpu_refuses_other_memory";
    with_driver(name, &[], || {
        let endpoint = Endpoint::new(&settings("one", MemoryOf::Gpu(Gpu::Ordinal(0))));
        let endpoint = endpoint.expect("an endpoint");
        let refused = |start: *mut u8, len: usize| {
            // SAFETY: it is refused.
            let made = unsafe { endpoint.register(start, len) };
            made.expect_err("refused").to_string()
        };
        let mut host = vec![0u8; 4096];
        let words = refused(host.as_mut_ptr(), host.len());
        assert!(
            words.contains("is not memory of GPU 0") && words.contains("moves no other"),
            "{words}"
        );
        assert_eq!(
            refused(std::ptr::null_mut(), 1),
            "the buffer is a null pointer"
        );
        let own = CudaMemory::open(&Gpu::Ordinal(0)).expect("a GPU");
        let region = own.allocate(1 << 16).expect("enough memory");
        let words = refused(region.as_ptr(), 1 << 40);
        assert!(words.contains("its allocation ends after"), "{words}");
        if let Ok(second) = CudaMemory::open(&Gpu::Ordinal(1)) {
            let region = second.allocate(4096).expect("enough memory");
            let words = refused(region.as_ptr(), 4096);
            assert!(words.contains("is on GPU 1"), "{words}");
        }
        let none = Endpoint::new(&settings("none", MemoryOf::Gpu(Gpu::Ordinal(77))));
        let words = none.expect_err("no such GPU").to_string();
        assert!(words.contains("there is no GPU 77"), "{words}");
    });
}

#[test]
fn an_endpoint_of_either_moves_what_each_buffer_is() {
    let name = "an_endpoint_of_either_moves_what_each_buffer_is";
    with_driver(name, &[], || {
        let memory = CudaMemory::open(&Gpu::Ordinal(0)).expect("a GPU");
        let make = |name| Endpoint::new(&settings(name, MemoryOf::Either(Gpu::Ordinal(0))));
        let (one, other) = (make("one").expect("made"), make("other").expect("made"));
        let connection = one.connect(other.metadata()).expect("connects");
        let len = 1_000_003;
        let mut host: Vec<u8> = (0..len).map(|at| pattern(5, at)).collect();
        // SAFETY: dropped after the endpoints.
        let registration = unsafe { other.register(host.as_mut_ptr(), len) }.expect("mapped");
        let served = Local {
            registration,
            address: host.as_ptr().addr(),
            len,
        };
        let blob = other.advertise(served, Rights::Both).expect("inside");
        let into = Buffer::new(&memory, &one, len, 1);
        let remote = Remote {
            blob: &blob,
            offset: 0,
        };
        let mut small = vec![0u8; 4096];
        // SAFETY: as above.
        let registration = unsafe { one.register(small.as_mut_ptr(), 4096) }.expect("mapped");
        let beside = Local {
            registration,
            address: small.as_ptr().addr(),
            len: 4096,
        };
        // Receives into both memories alternate on the same comms.
        let reads: Vec<_> = (0..8)
            .map(|at| if at % 2 == 0 { into.local } else { beside })
            .map(|local| one.read(connection, &[(local, remote)]).expect("starts"))
            .collect();
        for read in reads {
            read.wait(AMPLE).expect("done");
        }
        assert!(into.has(5));
        let small = std::hint::black_box(&small);
        assert!((0..4096).all(|at| small[at] == pattern(5, at)));
        drop((one, other));
        drop(host);
    });
}

#[test]
fn an_endpoint_of_the_host_works_beside_one_of_a_gpu() {
    let name = "an_endpoint_of_the_host_works_beside_one_of_a_gpu";
    with_driver(name, &[], || {
        let memory = CudaMemory::open(&Gpu::Ordinal(0)).expect("a GPU");
        let make = |name, memory| Endpoint::new(&settings(name, memory)).expect("made");
        let of_gpu = make("gpu", MemoryOf::Gpu(Gpu::Ordinal(0)));
        let of_host = make("host", MemoryOf::Host);
        let connection = of_gpu.connect(of_host.metadata()).expect("connects");
        let len = 1_000_003;
        let mut host: Vec<u8> = (0..len).map(|at| pattern(5, at)).collect();
        // SAFETY: dropped after the endpoints.
        let registration = unsafe { of_host.register(host.as_mut_ptr(), len) }.expect("mapped");
        let served = Local {
            registration,
            address: host.as_ptr().addr(),
            len,
        };
        let blob = of_host.advertise(served, Rights::Both).expect("inside");
        let remote = Remote {
            blob: &blob,
            offset: 0,
        };
        let into = Buffer::new(&memory, &of_gpu, len, 1);
        let read = of_gpu.read(connection, &[(into.local, remote)]);
        assert_eq!(read.expect("starts").wait(AMPLE), Ok(len as u64));
        assert!(into.has(5));
        let from = Buffer::new(&memory, &of_gpu, len, 6);
        let write = of_gpu.write(connection, &[(from.local, remote)]);
        assert_eq!(write.expect("starts").wait(AMPLE), Ok(len as u64));
        let host = std::hint::black_box(host);
        assert!((0..len).all(|at| host[at] == pattern(6, at)));
        drop((of_gpu, of_host));
    });
}

#[test]
fn a_gpu_that_fails_fails_the_read_and_no_other_program() {
    let name = "a_gpu_that_fails_fails_the_read_and_no_other_program";
    let fault = ("FAKE_CUDA_FAIL", "cuLaunchKernel:719");
    if std::env::var_os("TCPXCTL_TEST_GPU").is_some() {
        println!("skipped: a real GPU does not fail on request");
        return;
    }
    with_driver(name, &[fault], || {
        let memory = CudaMemory::open(&Gpu::Ordinal(0)).expect("a GPU");
        let make = |name, memory| Endpoint::new(&settings(name, memory)).expect("made");
        let one = make("one", MemoryOf::Gpu(Gpu::Ordinal(0)));
        let other = make("other", MemoryOf::Either(Gpu::Ordinal(0)));
        let connection = one.connect(other.metadata()).expect("connects");
        let mut host = vec![7u8; 100_000];
        // SAFETY: dropped after the endpoints.
        let registration = unsafe { other.register(host.as_mut_ptr(), host.len()) };
        let served = Local {
            registration: registration.expect("mapped"),
            address: host.as_ptr().addr(),
            len: host.len(),
        };
        let blob = other.advertise(served, Rights::Read).expect("inside");
        let into = Buffer::new(&memory, &one, host.len(), 1);
        let remote = Remote {
            blob: &blob,
            offset: 0,
        };
        let read = one.read(connection, &[(into.local, remote)]);
        let words = read.expect("starts").wait(AMPLE).expect_err("fails");
        // The software plugin works on the GPU too, and may be the first to fail.
        assert!(words.to_string().contains("719"), "{words}");
        drop((one, other));
        drop(host);
    });
}

#[test]
fn without_a_driver_a_gpu_is_refused_and_either_is_the_host() {
    // SAFETY: before the first endpoint of this process; the other tests are processes of their own.
    unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    if CudaMemory::open(&Gpu::Ordinal(0)).is_ok() {
        println!("skipped: this machine has a driver");
        return;
    }
    let refused = Endpoint::new(&settings("gpu", MemoryOf::Gpu(Gpu::Ordinal(0))));
    let words = refused.expect_err("no driver").to_string();
    assert!(words.contains("no NVIDIA driver library"), "{words}");
    let either = Endpoint::new(&settings("either", MemoryOf::Either(Gpu::Ordinal(0))));
    let either = either.expect("the host's memory");
    assert_eq!(either.metadata().gpu, None);
    // SAFETY: it is refused.
    let made = unsafe { either.register(std::ptr::without_provenance_mut(4096), 1) };
    let words = made.expect_err("not mapped").to_string();
    assert!(
        words.contains("no NVIDIA driver library") && words.contains("check the pointer"),
        "{words}"
    );
}
