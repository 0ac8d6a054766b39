//! Free memory of each GPU, from the driver's management library.
//!
//! `libnvidia-ml.so.1` comes with the driver. It is opened only here and creates no CUDA
//! context, so it takes no GPU memory. If it is missing or does not answer in time, the fact
//! is unknown. A call that hangs in the driver stays behind on its own thread.
#![expect(unsafe_code, reason = "opens libnvidia-ml and calls it")]

use crate::{Fact, PciAddress, Root};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use serde::{Deserialize, Serialize};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::mpsc;
use std::time::Duration;

const LIBRARY: &str = "libnvidia-ml.so.1";
/// Longest wait. Initialisation is slow if no process keeps the driver loaded.
const PATIENCE: Duration = Duration::from_millis(700);
const GPUS_MAX: c_uint = 64;

/// Memory of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuMemory {
    /// The GPU.
    pub pci_address: PciAddress,
    /// Bytes that are not allocated.
    pub free_bytes: u64,
    /// All memory of the GPU, in bytes.
    pub total_bytes: u64,
}

impl GpuMemory {
    /// Asks the driver about every GPU.
    pub(crate) fn read(root: &Root) -> Fact<Vec<Self>> {
        root.ask("gpu-memory", || {
            let (answer, answered) = mpsc::channel();
            std::thread::spawn(move || drop(answer.send(ask())));
            match answered.recv_timeout(PATIENCE) {
                Ok(answer) => answer.into(),
                Err(_) => Fact::unknown(format!(
                    "{LIBRARY} did not answer within {} ms",
                    PATIENCE.as_millis()
                )),
            }
        })
    }
}

type Code = c_int;
type Device = *mut c_void;

/// `nvmlMemory_t`, nvml.h of 535.
#[repr(C)]
#[derive(Default)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlPciInfo_t` as `_v3` fills it.
#[repr(C)]
struct PciInfo {
    legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

const _: () = assert!(size_of::<Memory>() == 24);
const _: () = assert!(size_of::<PciInfo>() == 68);

struct Calls {
    count: Symbol<unsafe extern "C" fn(*mut c_uint) -> Code>,
    handle: Symbol<unsafe extern "C" fn(c_uint, *mut Device) -> Code>,
    memory: Symbol<unsafe extern "C" fn(Device, *mut Memory) -> Code>,
    pci: Symbol<unsafe extern "C" fn(Device, *mut PciInfo) -> Code>,
    shutdown: Symbol<unsafe extern "C" fn() -> Code>,
}

fn ask() -> Result<Vec<GpuMemory>, String> {
    // SAFETY: the driver's own library; its constructors are what every
    // monitoring tool on such a node runs.
    let library = unsafe { Library::open(Some(LIBRARY), RTLD_NOW | RTLD_LOCAL) };
    let library =
        library.map_err(|error| format!("cannot load the GPU driver library: {error}"))?;
    let missing = |error: libloading::Error| format!("{LIBRARY}: {error}");
    let init: Symbol<unsafe extern "C" fn() -> Code> =
        symbol(&library, c"nvmlInit_v2").map_err(missing)?;
    let calls = Calls {
        count: symbol(&library, c"nvmlDeviceGetCount_v2").map_err(missing)?,
        handle: symbol(&library, c"nvmlDeviceGetHandleByIndex_v2").map_err(missing)?,
        memory: symbol(&library, c"nvmlDeviceGetMemoryInfo").map_err(missing)?,
        pci: symbol(&library, c"nvmlDeviceGetPciInfo_v3").map_err(missing)?,
        shutdown: symbol(&library, c"nvmlShutdown").map_err(missing)?,
    };
    // SAFETY: takes nothing; the library stays open until the end.
    check("nvmlInit", unsafe { init() })?;
    let all = calls.all();
    // SAFETY: pairs with the init above; no handle is used after it.
    unsafe { (calls.shutdown)() };
    all
}

fn symbol<T>(library: &Library, name: &std::ffi::CStr) -> Result<Symbol<T>, libloading::Error> {
    // SAFETY: each caller gives the type that nvml.h declares for the name, and
    // keeps the library open while it calls.
    unsafe { library.get(name.to_bytes_with_nul()) }
}

impl Calls {
    fn all(&self) -> Result<Vec<GpuMemory>, String> {
        let mut count = 0;
        // SAFETY: writes one number to `count`.
        check("nvmlDeviceGetCount", unsafe {
            (self.count)(&raw mut count)
        })?;
        (0..count.min(GPUS_MAX))
            .map(|index| self.one(index))
            .collect()
    }

    fn one(&self, index: c_uint) -> Result<GpuMemory, String> {
        let (mut device, mut memory) = (std::ptr::null_mut(), Memory::default());
        // SAFETY: writes one handle to `device`.
        check("nvmlDeviceGetHandleByIndex", unsafe {
            (self.handle)(index, &raw mut device)
        })?;
        // SAFETY: `device` is the handle just given; fills `memory`.
        check("nvmlDeviceGetMemoryInfo", unsafe {
            (self.memory)(device, &raw mut memory)
        })?;
        let mut pci = PciInfo {
            legacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            device_id: 0,
            subsystem_id: 0,
            bus_id: [0; 32],
        };
        // SAFETY: as above; fills `pci`, whose size is that of the header.
        check("nvmlDeviceGetPciInfo", unsafe {
            (self.pci)(device, &raw mut pci)
        })?;
        let part = |number: c_uint| {
            u8::try_from(number).map_err(|_| {
                format!("nvmlDeviceGetPciInfo gives {number}, which is no PCI bus or device")
            })
        };
        let pci_address = PciAddress {
            domain: pci.domain,
            bus: part(pci.bus)?,
            device: part(pci.device)?,
            function: 0,
        };
        Ok(GpuMemory {
            pci_address,
            free_bytes: memory.free,
            total_bytes: memory.total,
        })
    }
}

fn check(call: &str, code: Code) -> Result<(), String> {
    if code == 0 {
        Ok(())
    } else {
        Err(format!("{call} returned {code}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_unknown_without_a_driver_and_plausible_with_one() {
        match GpuMemory::read(&Root::live()) {
            Fact::Known(all) => assert!(
                all.iter().all(|one| one.free_bytes <= one.total_bytes),
                "{all:?}"
            ),
            Fact::Unknown { unknown } => {
                assert!(
                    unknown.contains("driver library")
                        || unknown.contains("nvml")
                        || unknown.contains(LIBRARY),
                    "{unknown}"
                )
            }
        }
    }
}
