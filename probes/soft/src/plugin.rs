//! The state of the plugin in a process: its settings and devices, read once at `init` and never
//! freed, because v7 has no call that ends the plugin.
//!
//! The table's calls use the process's instance. Tests create further instances with other
//! settings.

use crate::cuda::{self, Gpu};
use crate::device::{self, Device, Interface, SPEED_UNKNOWN};
use crate::failed::{Failed, REFUSED};
use crate::fault::{self, Call, Side};
use crate::log::{note, warning};
use crate::pages::PagePool;
use crate::settings::{Cuda, Flavour, PRODUCT, Settings};
use crate::socket;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::net::SocketAddr;
use std::num::NonZero;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use tcpx_abi::subsystem::{ENV, INIT, NET};
use tcpx_abi::v7::Properties;
use tcpx_abi::{NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION, PTR_CUDA, PTR_HOST};

/// `maxComms`, as reported by the real plugin.
const COMMS_MAX: c_int = 65_536;

/// Settings, devices, and the state that all comms share.
pub(crate) struct Plugin {
    /// From the environment.
    pub settings: Settings,
    /// Sorted by name.
    pub devices: Vec<Device>,
    /// The interface of control sockets, if configured.
    pub ctrl: Option<Interface>,
    /// CPUs that the process may use.
    pub cpus: usize,
    pool: OnceLock<Option<PagePool>>,
    /// Page pools in GPU memory, by CUDA's device handle.
    pools: Mutex<BTreeMap<c_int, &'static PagePool>>,
    /// Number of comms begun on each side, for `comm=K` of faults.
    begun: [AtomicU64; 2],
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();
static TRIED: AtomicBool = AtomicBool::new(false);

/// `init`: reads the environment and finds the devices. Only once per process, even if it fails,
/// unless the plugin is disabled.
///
/// The plain flavour can be initialised again, which v11 does for each communicator. The
/// environment is read the first time only.
pub(crate) fn init(flavour: Flavour) -> Result<(), Failed> {
    if flavour == Flavour::Plain && get().is_some() {
        return Ok(());
    }
    flavour.settle();
    note!(NET | INIT, c"softInit", "{PRODUCT} initialization start");
    let lookup = |name: &str| std::env::var(name).ok();
    let (settings, notes) = match flavour {
        Flavour::Tcpx => Settings::read(&lookup),
        Flavour::Plain => Settings::read_plain(&lookup),
    };
    for line in &notes {
        note!(line.flags, c"softInit", "{}", line.text);
    }
    if settings.as_ref().is_ok_and(|settings| !settings.enabled) {
        note!(NET | INIT, c"softInit", "{PRODUCT} disabled");
        return Err(REFUSED);
    }
    if TRIED.swap(true, AcqRel) {
        warning!(c"softInit", "gpu lib init twice");
        return Err(REFUSED);
    }
    let settings = settings.map_err(|error| {
        warning!(c"softInit", "{PRODUCT} : {error}");
        REFUSED
    })?;
    fault::arm(&settings.fault);
    // The fault plan was not known when this call started.
    if let Some(code) = fault::on_call(Call::Init) {
        return Err(Failed(code));
    }
    let plugin = Plugin::start(settings)?;
    let _ = PLUGIN.set(plugin);
    note!(NET | INIT, c"softInit", "{PRODUCT} plugin initialized");
    note!(
        NET | INIT | ENV,
        c"softInit",
        "{PRODUCT} ver. {}.",
        env!("CARGO_PKG_VERSION")
    );
    Ok(())
}

/// The process's instance, after a successful `init`.
pub(crate) fn get() -> Option<&'static Plugin> {
    PLUGIN.get()
}

impl Plugin {
    /// Finds the devices that `settings` select.
    pub(crate) fn start(settings: Settings) -> Result<Self, Failed> {
        let function = c"softInitConnectionSetup";
        let all = device::interfaces(settings.family).map_err(|error| {
            warning!(function, "{PRODUCT} : cannot list interfaces: {error}");
            REFUSED
        })?;
        for interface in &all {
            note!(
                INIT | NET,
                function,
                "Found interface {}:{}",
                interface.name,
                place(interface)
            );
        }
        let wanted = settings.interfaces.as_deref();
        if let Some(wanted) = wanted {
            note!(
                ENV,
                function,
                "NET_GPUDIRECTTCPX_SOCKET_IFNAME set by environment to {wanted}"
            );
        }
        let devices: Vec<Device> = device::choose(&all, wanted)
            .into_iter()
            .map(Device::from_sysfs)
            .collect();
        if devices.is_empty() {
            let given = wanted.unwrap_or("any");
            warning!(
                function,
                "{PRODUCT} : no interface found, wanted {given}, up are {}",
                names(&all)
            );
            return Err(REFUSED);
        }
        if settings.cuda == Cuda::Device && !cuda::is_there() {
            return Err(REFUSED);
        }
        let ctrl = ctrl_interface(&settings, &all)?;
        congestion(&settings)?;
        let plugin = Self {
            settings,
            devices,
            ctrl,
            cpus: thread::available_parallelism().map_or(1, NonZero::get),
            pool: OnceLock::new(),
            pools: Mutex::default(),
            begun: Default::default(),
        };
        plugin.introduce();
        Ok(plugin)
    }

    fn introduce(&self) {
        let function = c"softInitConnectionSetup";
        let mut using = String::new();
        for (index, device) in self.devices.iter().enumerate() {
            let name = &device.interface.name;
            let path = device
                .pci_path
                .as_deref()
                .map_or("(null)".into(), |path| path.to_string_lossy());
            note!(INIT, function, "set up {index}, {name}, pci_path {path}");
            using += &format!(" [{index}]{name}:{}", place(&device.interface));
        }
        note!(INIT | NET, function, "{PRODUCT} : Using{using}");
    }

    /// Whether data connections to `peer` get a small send buffer: where both ends are on this
    /// node and share at most two CPUs. With a CPU of its own the receiver empties the queue as it
    /// fills, and a small one would make both wait for each other more often. Not the default: a
    /// program that drains its sends before it tests a receive counts on the kernel's buffers.
    pub(crate) fn bounds_send_buffer(&self, peer: &SocketAddr) -> bool {
        self.settings.bounds_send_buffer && self.cpus <= 2 && socket::is_of_this_node(peer)
    }

    /// Returns the number of a new comm of `side`.
    pub(crate) fn begin(&self, side: Side) -> u64 {
        self.begun[side as usize].fetch_add(1, Relaxed)
    }

    /// The calling thread's current GPU, if device memory is GPU memory.
    pub(crate) fn gpu(&self) -> Result<Option<&'static Gpu>, Failed> {
        match self.settings.cuda {
            Cuda::Device => Gpu::current().map(Some),
            Cuda::Off | Cuda::StandIn => Ok(None),
        }
    }

    /// The page pool of a GPU, created at first use.
    pub(crate) fn pool_on(&self, gpu: &'static Gpu) -> Result<&'static PagePool, Failed> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&gpu.device) {
            return Ok(*pool);
        }
        let made: &'static PagePool = Box::leak(Box::new(PagePool::on_gpu(
            gpu,
            self.settings.pool_bytes,
            self.settings.seed,
        )?));
        pools.insert(gpu.device, made);
        Ok(made)
    }

    /// The page pool in host memory, created at first use; `None` without the device stand-in.
    pub(crate) fn pool(&'static self) -> Option<&'static PagePool> {
        let make = || {
            if self.settings.cuda != Cuda::StandIn {
                return None;
            }
            let pool = PagePool::new(self.settings.pool_bytes, self.settings.seed);
            pool.inspect_err(|error| warning!(c"softPool", "{PRODUCT} : no page pool: {error}"))
                .ok()
        };
        self.pool.get_or_init(make).as_ref()
    }

    /// The device with this index.
    pub(crate) fn device(&self, index: c_int) -> Option<(usize, &Device)> {
        let index = usize::try_from(index).ok()?;
        Some((index, self.devices.get(index)?))
    }

    /// `getProperties`. Unlike the real plugin, checks the index.
    pub(crate) fn properties(&self, index: c_int) -> Result<Properties, Failed> {
        let function = c"softGetProperties";
        let Some((index, device)) = self.device(index) else {
            warning!(
                function,
                "{PRODUCT} : there is no device {index}, {} in all",
                self.devices.len()
            );
            return Err(REFUSED);
        };
        let speed = device.speed.unwrap_or_else(|| {
            let name = &device.interface.name;
            note!(
                NET,
                function,
                "Could not get speed from /sys/class/net/{name}/speed. Defaulting to 10 Gbps."
            );
            SPEED_UNKNOWN
        });
        note!(
            INIT,
            function,
            "props: netDeviceType {NET_DEVICE_UNPACK}, netDeviceVersion {NET_DEVICE_UNPACK_VERSION}"
        );
        Ok(Properties {
            name: device.name.as_ptr().cast_mut(),
            pci_path: device
                .pci_path
                .as_ref()
                .map_or(ptr::null_mut(), |path| path.as_ptr().cast_mut()),
            guid: index as u64,
            ptr_support: if self.settings.cuda == Cuda::Off {
                PTR_HOST
            } else {
                PTR_HOST | PTR_CUDA
            },
            speed,
            port: 0,
            latency: 0.0,
            max_comms: COMMS_MAX,
            max_recvs: 1,
            net_device_type: NET_DEVICE_UNPACK,
            net_device_version: NET_DEVICE_UNPACK_VERSION,
        })
    }
}

fn ctrl_interface(settings: &Settings, all: &[Interface]) -> Result<Option<Interface>, Failed> {
    let function = c"softInitConnectionSetup";
    let Some(name) = &settings.ctrl_interface else {
        note!(INIT, function, "{PRODUCT} : Using default ctrl sockets");
        return Ok(None);
    };
    match all.iter().find(|interface| interface.name == *name) {
        Some(found) => {
            note!(
                INIT,
                function,
                "{PRODUCT} : Using ctrl socket on {name}, {}",
                place(found)
            );
            Ok(Some(found.clone()))
        }
        None => {
            warning!(
                function,
                "{PRODUCT} : no ctrl interface found: {name}, up are {}",
                names(all)
            );
            Err(REFUSED)
        }
    }
}

fn congestion(settings: &Settings) -> Result<(), Failed> {
    let wanted = settings.congestion.as_deref();
    match socket::congestion(wanted) {
        Ok(name) => {
            note!(ENV, c"softInit", "{PRODUCT} : congestion control: {name}");
            Ok(())
        }
        Err(error) => {
            let wanted = wanted.unwrap_or("the system's");
            warning!(
                c"softInit",
                "{PRODUCT} : congestion control {wanted}: {}",
                socket::words(&error)
            );
            Err(REFUSED)
        }
    }
}

fn place(interface: &Interface) -> String {
    format!("{}<0>", interface.address.ip())
}

fn names(all: &[Interface]) -> String {
    all.iter()
        .map(|interface| interface.name.as_str())
        .collect::<Vec<_>>()
        .join(",")
}
