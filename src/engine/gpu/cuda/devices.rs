//! The GPUs as CUDA numbers them, and how one is selected.
//!
//! CUDA lists the GPUs that `CUDA_VISIBLE_DEVICES` allows, in its own order unless
//! `CUDA_DEVICE_ORDER=PCI_BUS_ID`. PCI addresses are the same for the kernel, the network
//! plugin and users.
#![expect(unsafe_code, reason = "calls the driver")]

use super::driver::{Cuda, Driver, visible_devices};
use super::error::CudaError;
use cudarc::driver::sys::{CUdevice, CUdevice_attribute_enum as Attribute};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, c_char, c_int};
use std::str::FromStr;
use std::time::Duration;
use tcpx_node::PciAddress;

/// One GPU, as the driver describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaDevice {
    /// CUDA's device number in this process.
    pub ordinal: usize,
    /// PCI address.
    pub pci_address: PciAddress,
    /// Product name.
    pub name: String,
    /// Bytes of memory.
    pub memory: usize,
    /// Compute capability: major, minor.
    pub compute_capability: (u32, u32),
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Whether the device is a MIG instance.
    pub mig: bool,
    /// Whether the driver can export its memory as a dma-buf, with which TCPX registers it.
    pub dma_buf: bool,
}

/// What the NVIDIA driver reports about this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaNode {
    /// The newest CUDA that the driver supports, e.g. `12.2`.
    pub cuda: String,
    /// `CUDA_VISIBLE_DEVICES`, if set.
    pub visible_devices: Option<String>,
    /// The GPUs, in CUDA's order.
    pub devices: Vec<CudaDevice>,
}

/// Selects a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// By CUDA's device number.
    Ordinal(usize),
    /// By PCI address.
    Pci(PciAddress),
}

/// The text is neither a device number nor a PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a CUDA device number nor a PCI address such as 0000:04:00.0")]
pub struct BadGpu(String);

impl FromStr for Wanted {
    type Err = BadGpu;
    fn from_str(text: &str) -> Result<Self, BadGpu> {
        let ordinal = text
            .parse()
            .ok()
            .filter(|ordinal| *ordinal < 1024)
            .map(Self::Ordinal);
        // `nvidia-smi` prints eight domain digits; users often omit the domain.
        let pci = || {
            text.parse()
                .or_else(|_| format!("0000:{text}").parse())
                .ok()
                .map(Self::Pci)
        };
        ordinal
            .or_else(pci)
            .ok_or_else(|| BadGpu(text.chars().take(40).collect()))
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ordinal(ordinal) => ordinal.fmt(f),
            Self::Pci(address) => address.fmt(f),
        }
    }
}

/// Longest time that the driver may take to list its GPUs.
const LISTING: Duration = Duration::from_secs(30);

/// The GPUs of this node, or why there are none. If the driver hangs, returns an error after
/// a deadline and leaves a thread behind.
pub fn cuda_node() -> Result<CudaNode, CudaError> {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(node()));
    let hangs = CudaError::Hangs {
        what: "listing the GPUs",
        seconds: LISTING.as_secs(),
    };
    told.recv_timeout(LISTING).unwrap_or(Err(hangs))
}

fn node() -> Cuda<CudaNode> {
    Ok(CudaNode {
        cuda: Driver::get()?.version()?.to_string(),
        visible_devices: visible_devices(),
        devices: list()?,
    })
}

/// Every GPU that CUDA lists; an error if there is none.
fn list() -> Cuda<Vec<CudaDevice>> {
    let driver = Driver::get()?;
    let mut count = 0;
    // SAFETY: ours to write.
    driver.check("cuDeviceGetCount", unsafe {
        (driver.device_get_count)(&mut count)
    })?;
    if count <= 0 {
        return Err(CudaError::NoDevice {
            visible: visible_devices(),
        });
    }
    (0..count)
        .map(|ordinal| describe(driver, ordinal))
        .collect()
}

/// Finds the selected GPU.
pub(super) fn choose(wanted: &Wanted) -> Cuda<CudaDevice> {
    let devices = list()?;
    let listed = devices
        .iter()
        .map(|gpu| format!("{} ({})", gpu.ordinal, gpu.pci_address))
        .collect::<Vec<_>>();
    let found = devices.into_iter().find(|gpu| match wanted {
        Wanted::Ordinal(ordinal) => gpu.ordinal == *ordinal,
        Wanted::Pci(address) => gpu.pci_address == *address,
    });
    found.ok_or_else(|| CudaError::NoSuchGpu {
        wanted: wanted.to_string(),
        listed: listed.join(", "),
        visible: visible_devices(),
    })
}

fn describe(driver: &Driver, ordinal: c_int) -> Cuda<CudaDevice> {
    let (mut device, mut memory) = (0, 0);
    let mut name = [0 as c_char; 256];
    // SAFETY: ours to write.
    driver.check("cuDeviceGet", unsafe {
        (driver.device_get)(&mut device, ordinal)
    })?;
    // SAFETY: ours to write, one byte less than there is.
    driver.check("cuDeviceGetName", unsafe {
        (driver.device_get_name)(name.as_mut_ptr(), 255, device)
    })?;
    // SAFETY: ours to write.
    driver.check("cuDeviceTotalMem", unsafe {
        (driver.device_total_mem)(&mut memory, device)
    })?;
    // SAFETY: the last byte is still 0.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }
        .to_string_lossy()
        .into_owned();
    let number = |attribute: Attribute| {
        attribute_of(driver, device, attribute).map(|value| value.max(0) as u32)
    };
    Ok(CudaDevice {
        ordinal: ordinal as usize,
        pci_address: PciAddress {
            domain: number(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
            bus: number(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)? as u8,
            device: number(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)? as u8,
            function: 0,
        },
        memory,
        compute_capability: (
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        // The driver API has no attribute for MIG, so the name tells.
        mig: name.split(' ').any(|word| word == "MIG"),
        // Drivers before 11.7 do not know the attribute.
        dma_buf: number(Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)
            .is_ok_and(|value| value != 0),
        name,
    })
}

fn attribute_of(driver: &Driver, device: CUdevice, attribute: Attribute) -> Cuda<c_int> {
    let mut value = 0;
    // SAFETY: ours to write.
    let code = unsafe { (driver.device_get_attribute)(&mut value, attribute as c_int, device) };
    driver.check("cuDeviceGetAttribute", code).map(|()| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_selected_by_number_or_pci_address() {
        let pci = |text: &str| Wanted::Pci(text.parse().unwrap());
        assert_eq!("3".parse(), Ok(Wanted::Ordinal(3)));
        assert_eq!("0000:8a:00.0".parse(), Ok(pci("0000:8a:00.0")));
        assert_eq!("8a:00.0".parse(), Ok(pci("0000:8a:00.0")));
        assert_eq!("00000000:8A:00.0".parse(), Ok(pci("0000:8a:00.0")));
        for text in ["", "-1", "1024", "gpu0", "8a:00"] {
            assert!(text.parse::<Wanted>().is_err(), "{text}");
        }
    }
}
