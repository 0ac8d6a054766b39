//! Copies a part of the file field by field, for readers of a file that is only in memory: the
//! atomics of loom have another size, and Miri has no mappings of files.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*};

/// A part of the file.
pub(crate) trait InFile {
    /// Its bytes in the file.
    const BYTES: usize;

    /// All zeroes.
    #[cfg(loom)]
    fn zeroed() -> Self;

    /// Copies into `to`, which begins at byte `from` of the part's own count, as far as this
    /// part, which begins at `at`, lies within it.
    fn copy(&self, at: usize, from: usize, to: &mut [u8]);
}

macro_rules! words {
    ($($name:ident $bytes:literal,)*) => {
        $(impl InFile for $name {
            const BYTES: usize = $bytes;

            #[cfg(loom)]
            fn zeroed() -> Self {
                Self::new(0)
            }

            fn copy(&self, at: usize, from: usize, to: &mut [u8]) {
                let Some(start) = at.checked_sub(from).filter(|start| *start < to.len()) else {
                    return;
                };
                let bytes = self.load(Relaxed).to_le_bytes();
                let length = bytes.len().min(to.len() - start);
                to[start..start + length].copy_from_slice(&bytes[..length]);
            }
        })*
    };
}
words! { AtomicU64 8, AtomicU32 4, AtomicI32 4, }

impl<T: InFile, const N: usize> InFile for [T; N] {
    const BYTES: usize = N * T::BYTES;

    #[cfg(loom)]
    fn zeroed() -> Self {
        std::array::from_fn(|_| T::zeroed())
    }

    fn copy(&self, at: usize, from: usize, to: &mut [u8]) {
        for (word, at) in self.iter().zip((at..).step_by(T::BYTES)) {
            if at + T::BYTES > from && at < from + to.len() {
                word.copy(at, from, to);
            }
        }
    }
}
