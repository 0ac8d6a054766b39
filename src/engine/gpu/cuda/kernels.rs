//! The compiled kernels of one context, and how they are launched.
//!
//! The PTX is checked in; `scripts/kernels` compiles it from `kernels.cu`, whose structs are
//! repeated here. The driver compiles it for its GPU when it is loaded, once per process and
//! GPU.
#![expect(unsafe_code, reason = "loads and launches GPU code")]

use super::context::Context;
use super::driver::Cuda;
use super::objects::{Pinned, Stream};
use cudarc::driver::sys::{CUfunction, CUmodule};
use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

const PTX: &str = include_str!("../kernels/kernels.ptx");

/// Threads of a block. `fill` and `verify` rely on 16 bytes per thread being a page.
const THREADS: u32 = 256;
/// Threads of a warp. Each warp copies whole pieces.
const WARP: u32 = 32;
/// Pages that one block fills or verifies, the kernels' `UNROLL`.
const PAGES_PER_BLOCK: u32 = 8;
/// Bytes of a page.
const PAGE: u32 = 4096;
/// Most pieces that fit into the launch arguments.
const FEW: usize = 128;
/// Most messages of one launch, whose descriptions are launch arguments.
pub(super) const CHUNKS_MAX: usize = 64;

/// A part of a fragment that one warp copies.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Piece {
    pub(super) src_off: u32,
    pub(super) len: u32,
    pub(super) dst: u64,
}

/// A message to fill or to verify.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chunk {
    pub(super) at: u64,
    pub(super) body: u64,
    pub(super) first: u64,
    pub(super) len: u32,
    pub(super) guard: u32,
}

/// The argument of `unpack_few`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pieces([Piece; FEW]);

/// The argument of `fill` and `verify`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Chunks([Chunk; CHUNKS_MAX]);

const _: () = assert!(size_of::<Piece>() == 16 && size_of::<Chunk>() == 32);
// The arguments of a launch are limited to 4 KiB.
const _: () = assert!(size_of::<Chunks>() + 32 <= 4096 && size_of::<Pieces>() + 32 <= 4096);

/// A run's pattern: device address of the table, and the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatternAt {
    pub(super) table: u64,
    pub(super) key: u64,
}

/// The loaded kernels of one context.
pub(super) struct Kernels {
    module: CUmodule,
    unpack: CUfunction,
    unpack_few: CUfunction,
    fill: CUfunction,
    verify: CUfunction,
    pub(super) context: Arc<Context>,
}

// SAFETY: the driver's objects may be used from any thread.
unsafe impl Send for Kernels {}
// SAFETY: as above.
unsafe impl Sync for Kernels {}

impl Kernels {
    pub(super) fn load(context: &Arc<Context>) -> Cuda<Arc<Self>> {
        context.make_current()?;
        let driver = context.driver;
        // The text has no NUL.
        let text = CString::new(PTX).unwrap_or_default();
        let mut module = null_mut();
        // SAFETY: terminated text; ours to write.
        let code = unsafe { (driver.module_load_data)(&mut module, text.as_ptr().cast()) };
        driver.check("cuModuleLoadData", code)?;
        let none = null_mut();
        let context = Arc::clone(context);
        let mut kernels = Self {
            module,
            unpack: none,
            unpack_few: none,
            fill: none,
            verify: none,
            context,
        };
        kernels.unpack = kernels.function(c"unpack")?;
        kernels.unpack_few = kernels.function(c"unpack_few")?;
        kernels.fill = kernels.function(c"fill")?;
        kernels.verify = kernels.function(c"verify")?;
        Ok(Arc::new(kernels))
    }

    fn function(&self, name: &CStr) -> Cuda<CUfunction> {
        let mut function = null_mut();
        // SAFETY: ours to write; the module is loaded.
        let code = unsafe {
            (self.context.driver.module_get_function)(&mut function, self.module, name.as_ptr())
        };
        self.context
            .driver
            .check("cuModuleGetFunction", code)
            .map(|()| function)
    }

    /// Gathers `pieces` pieces of the list, starting at `first`.
    ///
    /// # Safety
    /// Sources and destinations are memory of this GPU, and stay with the list
    /// until the work is done.
    pub(super) unsafe fn unpack(
        &self,
        stream: &Stream,
        bounce: u64,
        list: &Pinned<Piece>,
        first: usize,
        pieces: usize,
    ) -> Cuda<()> {
        let count = pieces as u32;
        // A few pieces are spread over many multiprocessors.
        let few = pieces <= FEW;
        let threads = if few { 2 * WARP } else { THREADS };
        let grid = ((count * WARP).div_ceil(threads), 1, threads);
        let bounce = (&raw const bounce).cast_mut().cast::<c_void>();
        let last = (&raw const count).cast_mut().cast::<c_void>();
        if few {
            let mut held = Pieces([Piece::default(); FEW]);
            held.0
                .iter_mut()
                .zip(first..first + pieces)
                .for_each(|(one, at)| *one = list.get(at).unwrap_or_default());
            let mut arguments = [bounce, (&raw const held).cast_mut().cast(), last];
            // SAFETY: the arguments are those of the kernel, the rest by the contract above.
            return unsafe { self.launch(stream, self.unpack_few, grid, &mut arguments) };
        }
        let list = list.address() + (first * size_of::<Piece>()) as u64;
        let mut arguments = [bounce, (&raw const list).cast_mut().cast(), last];
        // SAFETY: the arguments are those of the kernel, the rest by the contract above.
        unsafe { self.launch(stream, self.unpack, grid, &mut arguments) }
    }

    /// Writes the pattern of each message.
    ///
    /// # Safety
    /// As for `unpack`, of the messages and the table.
    pub(super) unsafe fn fill(
        &self,
        stream: &Stream,
        pattern: PatternAt,
        chunks: &[Chunk],
    ) -> Cuda<()> {
        for chunks in chunks.chunks(CHUNKS_MAX) {
            let (held, grid) = arguments_of(chunks);
            let mut arguments = [
                (&raw const pattern.table).cast_mut().cast::<c_void>(),
                (&raw const pattern.key).cast_mut().cast(),
                (&raw const held).cast_mut().cast(),
            ];
            // SAFETY: the arguments are those of the kernel, the rest by the contract above.
            unsafe { self.launch(stream, self.fill, grid, &mut arguments) }?;
        }
        Ok(())
    }

    /// Compares each message with its pattern. `flags` has one int per message.
    ///
    /// # Safety
    /// As for `unpack`, of the messages, the table and the flags.
    pub(super) unsafe fn verify(
        &self,
        stream: &Stream,
        pattern: PatternAt,
        chunks: &[Chunk],
        flags: u64,
    ) -> Cuda<()> {
        for (number, chunks) in chunks.chunks(CHUNKS_MAX).enumerate() {
            let (held, grid) = arguments_of(chunks);
            let flags = flags + (number * CHUNKS_MAX * size_of::<u32>()) as u64;
            let mut arguments = [
                (&raw const pattern.table).cast_mut().cast::<c_void>(),
                (&raw const pattern.key).cast_mut().cast(),
                (&raw const held).cast_mut().cast(),
                (&raw const flags).cast_mut().cast(),
            ];
            // SAFETY: the arguments are those of the kernel, the rest by the contract above.
            unsafe { self.launch(stream, self.verify, grid, &mut arguments) }?;
        }
        Ok(())
    }

    /// # Safety
    /// `arguments` point to what the function takes, and what those point to
    /// stays until the work is done.
    unsafe fn launch(
        &self,
        stream: &Stream,
        function: CUfunction,
        (x, y, threads): (u32, u32, u32),
        arguments: &mut [*mut c_void],
    ) -> Cuda<()> {
        let driver = self.context.driver;
        // SAFETY: by the contract above; the driver copies the arguments.
        let code = unsafe {
            (driver.launch_kernel)(
                function,
                x,
                y,
                1,
                threads,
                1,
                1,
                0,
                stream.raw,
                arguments.as_mut_ptr(),
                null_mut(),
            )
        };
        driver.check("cuLaunchKernel", code)
    }
}

/// The launch argument for the messages, and the grid dimensions.
fn arguments_of(chunks: &[Chunk]) -> (Chunks, (u32, u32, u32)) {
    let mut held = Chunks([Chunk::default(); CHUNKS_MAX]);
    held.0[..chunks.len()].copy_from_slice(chunks);
    let longest = chunks.iter().map(|chunk| chunk.len).max().unwrap_or(0);
    let blocks = longest.div_ceil(PAGE * PAGES_PER_BLOCK).max(1);
    (held, (blocks, chunks.len() as u32, THREADS))
}

impl Drop for Kernels {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // SAFETY: loaded in `load`, unloaded once, and no lane is left that launches.
        let _ = unsafe { (self.context.driver.module_unload)(self.module) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_checked_in_ptx_was_compiled_from_the_checked_in_source() {
        let source = Sha256::digest(include_bytes!("../kernels/kernels.cu"));
        let hex: String = source.iter().map(|byte| format!("{byte:02x}")).collect();
        let first = PTX.lines().next().unwrap();
        assert_eq!(
            first,
            format!("// source sha256: {hex}"),
            "run scripts/kernels"
        );
    }

    #[test]
    fn the_ptx_targets_old_drivers_and_gpus() {
        assert!(PTX.contains(".version 6.3\n.target sm_70\n"));
        for kernel in ["unpack", "unpack_few", "fill", "verify"] {
            assert!(
                PTX.contains(&format!(".visible .entry {kernel}(")),
                "{kernel}"
            );
        }
    }
}
