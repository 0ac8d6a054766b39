//! What can be wrong with a GPU or its driver, in words, and what to do.
#![forbid(unsafe_code)]

use tcpx_words::error::NextStep;

/// CUDA as drivers number it: 12020 is 12.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion(pub i32);

impl std::fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// Why a GPU cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// No file of that name, or one that does not load.
    #[error("no NVIDIA driver library: libcuda.so.1 is not on this node or does not load")]
    NoDriver,
    /// Something that calls itself libcuda.
    #[error("the NVIDIA driver library has no {}", missing.join(", "))]
    Lacks {
        /// Entries that are not exported.
        missing: Vec<&'static str>,
    },
    /// An old one.
    #[error("the NVIDIA driver is for CUDA {has}; at least {needs} is needed")]
    TooOld {
        /// What the driver says.
        has: CudaVersion,
        /// What we need.
        needs: CudaVersion,
    },
    /// The driver works and lists none.
    #[error("the NVIDIA driver lists no GPU{}", hidden(.visible))]
    NoDevice {
        /// `CUDA_VISIBLE_DEVICES`, where set.
        visible: Option<String>,
    },
    /// Not one of those there are.
    #[error("there is no GPU {wanted}; the driver lists {listed}{}", hidden(.visible))]
    NoSuchGpu {
        /// As asked for.
        wanted: String,
        /// Those there are.
        listed: String,
        /// `CUDA_VISIBLE_DEVICES`, where set.
        visible: Option<String>,
    },
    /// A slice of a GPU has no PCI function, by which TCPX finds its page pool.
    #[error(
        "GPU {ordinal} is a MIG instance ({name}), which a network plugin cannot register memory of"
    )]
    Mig {
        /// CUDA's number.
        ordinal: usize,
        /// CUDA's name.
        name: String,
    },
    /// Not enough memory.
    #[error("GPU {ordinal} has {free} of {total} bytes free, {wanted} are needed")]
    OutOfMemory {
        /// CUDA's number.
        ordinal: usize,
        /// Bytes.
        wanted: usize,
        /// Bytes.
        free: usize,
        /// Bytes.
        total: usize,
    },
    /// An address that is not what it must be.
    #[error("{what} at {at:#x} {problem}")]
    Address {
        /// Whose address.
        what: &'static str,
        /// The address.
        at: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// Any other refusal of the driver.
    #[error("{call} failed: {name} (code {code})")]
    Call {
        /// Entry.
        call: &'static str,
        /// As returned; newer drivers know more than we do.
        code: i32,
        /// The driver's own name of it.
        name: String,
    },
    /// The driver took too long.
    #[error("{what} was still going on after {seconds} s")]
    Hangs {
        /// What was waited for.
        what: &'static str,
        /// How long.
        seconds: u64,
    },
    /// The CUDA runtime inside the process.
    #[error("cudaSetDevice({ordinal}) of {library} failed: code {code}")]
    Runtime {
        /// CUDA's number.
        ordinal: usize,
        /// Which copy.
        library: String,
        /// As returned.
        code: i32,
    },
}

fn hidden(variable: &Option<String>) -> String {
    variable.as_ref().map_or_else(String::new, |value| {
        format!(" (CUDA_VISIBLE_DEVICES is `{value}`)")
    })
}

/// The stub of a toolkit in place of the driver, `CUDA_ERROR_STUB_LIBRARY`.
const STUB: i32 = 34;
/// `CUDA_ERROR_NO_DEVICE`
pub(super) const NO_DEVICE: i32 = 100;
/// `CUDA_ERROR_OUT_OF_MEMORY`
pub(super) const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_NOT_READY`
pub(super) const NOT_READY: i32 = 600;
/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`
const DRIVER_MISMATCH: i32 = 803;
/// `CUDA_ERROR_UNKNOWN`
const UNKNOWN: i32 = 999;

impl NextStep for CudaError {
    fn next_step(&self) -> Option<String> {
        let step = match self {
            Self::NoDriver => {
                "install the NVIDIA driver, or put its library folder on LD_LIBRARY_PATH"
            }
            Self::Lacks { .. } | Self::TooOld { .. } => "update the NVIDIA driver of this node",
            Self::NoDevice { visible: Some(_) }
            | Self::NoSuchGpu {
                visible: Some(_), ..
            } => "look at CUDA_VISIBLE_DEVICES, and at `tcpxctl discover`",
            Self::NoDevice { visible: None } => {
                "run `nvidia-smi`, and `tcpxctl discover` for what the kernel sees"
            }
            Self::NoSuchGpu { visible: None, .. } => "choose one that `tcpxctl discover` lists",
            Self::Mig { .. } => "choose a whole GPU, or switch MIG off",
            Self::OutOfMemory { .. } => {
                "see with `nvidia-smi` who holds it, or use smaller chunks or windows"
            }
            Self::Call { code: STUB, .. } => {
                "LD_LIBRARY_PATH leads to the toolkit's stub of libcuda; put the driver's folder first"
            }
            Self::Call {
                code: DRIVER_MISMATCH,
                ..
            } => "kernel module and library differ: reboot after a driver update",
            Self::Call { code: UNKNOWN, .. } => {
                "see `dmesg` for lines of NVRM, and run `nvidia-smi`"
            }
            Self::Hangs { .. } => "see `dmesg` for lines of NVRM",
            Self::Address { .. } | Self::Call { .. } | Self::Runtime { .. } => return None,
        };
        Some(step.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_people_write_them() {
        assert_eq!(
            [11000, 12020, 13000].map(|number| CudaVersion(number).to_string()),
            ["11.0", "12.2", "13.0"]
        );
    }

    #[test]
    fn what_hides_gpus_is_named() {
        let error = CudaError::NoDevice {
            visible: Some("".into()),
        };
        assert_eq!(
            error.to_string(),
            "the NVIDIA driver lists no GPU (CUDA_VISIBLE_DEVICES is ``)"
        );
        assert!(error.next_step().unwrap().contains("CUDA_VISIBLE_DEVICES"));
    }
}
