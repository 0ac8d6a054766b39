//! Errors of GPUs and their driver, and what to do about them.
#![forbid(unsafe_code)]

use tcpx_words::error::NextStep;

/// A CUDA version as drivers number it: 12020 is 12.2.
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
    /// libcuda.so.1 is missing or cannot be loaded.
    #[error("no NVIDIA driver library: libcuda.so.1 is not on this node or does not load")]
    NoDriver,
    /// The library lacks entries, so it is not a usable driver.
    #[error("the NVIDIA driver library has no {}", missing.join(", "))]
    Lacks {
        /// The missing entries.
        missing: Vec<&'static str>,
    },
    /// The driver is too old.
    #[error("the NVIDIA driver supports CUDA {has}; {needs} or later is required")]
    TooOld {
        /// The driver's CUDA version.
        has: CudaVersion,
        /// The oldest supported CUDA version.
        needs: CudaVersion,
    },
    /// The driver works and lists no GPU.
    #[error("the NVIDIA driver lists no GPU{}", hidden(.visible))]
    NoDevice {
        /// `CUDA_VISIBLE_DEVICES`, if set.
        visible: Option<String>,
    },
    /// The driver does not list the selected GPU.
    #[error("there is no GPU {wanted}; the driver lists {listed}{}", hidden(.visible))]
    NoSuchGpu {
        /// The selection, as given.
        wanted: String,
        /// The GPUs that the driver lists.
        listed: String,
        /// `CUDA_VISIBLE_DEVICES`, if set.
        visible: Option<String>,
    },
    /// A MIG instance has no PCI function, by which TCPX finds a GPU's page pool.
    #[error(
        "GPU {ordinal} is a MIG instance ({name}), which a network plugin cannot register memory of"
    )]
    Mig {
        /// CUDA's device number.
        ordinal: usize,
        /// Product name.
        name: String,
    },
    /// Not enough memory.
    #[error("GPU {ordinal} has {free} of {total} bytes free, {wanted} are required")]
    OutOfMemory {
        /// CUDA's device number.
        ordinal: usize,
        /// Requested bytes.
        wanted: usize,
        /// Free bytes.
        free: usize,
        /// Total bytes.
        total: usize,
    },
    /// An address does not have a required property.
    #[error("{what} at {at:#x} {problem}")]
    Address {
        /// What the address is of.
        what: &'static str,
        /// The address.
        at: u64,
        /// The problem, as a verb phrase.
        problem: String,
    },
    /// Any other error of the driver.
    #[error("{call} failed: {name} (code {code})")]
    Call {
        /// Name of the driver call.
        call: &'static str,
        /// The result code.
        code: i32,
        /// The driver's name for the code.
        name: String,
    },
    /// The driver did not finish within its deadline.
    #[error("{what} did not finish within {seconds} s")]
    Hangs {
        /// The operation.
        what: &'static str,
        /// The deadline in seconds.
        seconds: u64,
    },
    /// `cudaSetDevice` of a CUDA runtime in this process failed.
    #[error("cudaSetDevice({ordinal}) of {library} failed: code {code}")]
    Runtime {
        /// CUDA's device number.
        ordinal: usize,
        /// The runtime library.
        library: String,
        /// The result code.
        code: i32,
    },
}

fn hidden(variable: &Option<String>) -> String {
    variable.as_ref().map_or_else(String::new, |value| {
        format!(" (CUDA_VISIBLE_DEVICES is `{value}`)")
    })
}

/// `CUDA_ERROR_STUB_LIBRARY`: a toolkit's stub was loaded instead of the driver.
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
            } => "check CUDA_VISIBLE_DEVICES and the output of `tcpxctl discover`",
            Self::NoDevice { visible: None } => {
                "run `nvidia-smi`, and `tcpxctl discover` for the GPUs that the kernel sees"
            }
            Self::NoSuchGpu { visible: None, .. } => "choose one that `tcpxctl discover` lists",
            Self::Mig { .. } => "choose a whole GPU, or disable MIG",
            Self::OutOfMemory { .. } => {
                "check with `nvidia-smi` which process uses the memory, or use smaller chunks or windows"
            }
            Self::Call { code: STUB, .. } => {
                "LD_LIBRARY_PATH finds the toolkit's stub libcuda first; put the driver's folder before it"
            }
            Self::Call {
                code: DRIVER_MISMATCH,
                ..
            } => {
                "the kernel module and the driver library have different versions: reboot after a driver update"
            }
            Self::Call { code: UNKNOWN, .. } => {
                "check `dmesg` for NVRM lines, and run `nvidia-smi`"
            }
            Self::Hangs { .. } => "check `dmesg` for NVRM lines",
            Self::Address { .. } | Self::Call { .. } | Self::Runtime { .. } => return None,
        };
        Some(step.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_print_as_major_dot_minor() {
        assert_eq!(
            [11000, 12020, 13000].map(|number| CudaVersion(number).to_string()),
            ["11.0", "12.2", "13.0"]
        );
    }

    #[test]
    fn the_variable_that_hides_gpus_is_named() {
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
