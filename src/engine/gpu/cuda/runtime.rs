//! The CUDA runtimes that plugins have loaded into this process.
//!
//! A plugin asks its CUDA *runtime* which GPU is current. If the runtime is a shared library,
//! `cudaSetDevice` is called in that copy: it is found among the mapped files and opened with
//! `RTLD_NOLOAD`, so no new copy is loaded. A runtime that is linked into the plugin cannot be
//! reached; only `CUDA_VISIBLE_DEVICES` decides which GPU is its device 0.
#![expect(
    unsafe_code,
    reason = "opens libraries that are loaded already and calls one entry"
)]

use super::driver::Cuda;
use super::error::CudaError;
use libloading::os::unix::Library;
use std::collections::BTreeSet;
use std::ffi::c_int;

/// Paths of every libcudart that is mapped into this process.
pub fn loaded_runtimes() -> BTreeSet<String> {
    in_maps(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
}

fn in_maps(maps: &str) -> BTreeSet<String> {
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths
        // A file that an upgrade replaced; the loader knows the library by its old path.
        .map(|path| path.strip_suffix(" (deleted)").unwrap_or(path))
        .filter(|path| {
            path.rsplit('/')
                .next()
                .is_some_and(|name| name.starts_with("libcudart.so"))
        })
        .map(str::to_owned)
        .collect()
}

/// Calls `cudaSetDevice` in every loaded runtime.
pub(super) fn set_device(ordinal: usize) -> Cuda<()> {
    for path in loaded_runtimes() {
        // RTLD_NOLOAD: not in the standard library's flags.
        let flags = libc::RTLD_NOLOAD | libc::RTLD_NOW;
        // SAFETY: it is loaded already, so nothing of it runs now.
        let Ok(library) = (unsafe { Library::open(Some(&path), flags) }) else {
            continue;
        };
        // SAFETY: `cudaError_t cudaSetDevice(int)` in every version.
        let entry =
            unsafe { library.get::<unsafe extern "C" fn(c_int) -> c_int>(b"cudaSetDevice") };
        let Ok(entry) = entry else { continue };
        // SAFETY: any number may be passed.
        let code = unsafe { entry(ordinal as c_int) };
        if code != 0 {
            return Err(CudaError::Runtime {
                ordinal,
                library: path,
                code,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_runtimes_are_found_by_name() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libcudart.so.12.2.140\n\
                    7f01-7f02 r--p 00000000 08:01 12 /usr/lib/libcudart.so.12.2.140\n\
                    7f02-7f03 r-xp 00000000 08:01 13 /opt/x y/libcudart.so.11.0 (deleted)\n\
                    7f03-7f04 r-xp 00000000 08:01 14 /usr/lib/libcuda.so.1\n\
                    7f04-7f05 rw-p 00000000 00:00 0 [heap]\n";
        let found: Vec<String> = in_maps(maps).into_iter().collect();
        assert_eq!(
            found,
            [
                "/opt/x y/libcudart.so.11.0",
                "/usr/lib/libcudart.so.12.2.140"
            ]
        );
    }
}
