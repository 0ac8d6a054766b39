//! Thin wrappers for the calls of a v7 table: raw pointers in, result codes out.
//!
//! Comms, registrations and requests are the plugin's pointers. Each comes from the call that
//! creates it and is not used after the call that ends it; memory outlives the last call.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

use crate::Outcome;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tcpx_abi::{HANDLE_MAX, NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION, PTR_HOST, v7};
use tcpx_engine::gpu::Region;
use tcpx_engine::plugin::{Plugin, RawTable};
use tcpx_node::plugin_files::PluginSource;

/// A comm, a registration or a request, or null.
pub(crate) type Raw = *mut c_void;

/// A connect handle, at a fixed address.
#[repr(align(16))]
pub(crate) struct Handle(pub [u8; HANDLE_MAX]);

/// Longest time for all connects and accepts together.
const PATIENCE: Duration = Duration::from_secs(30);
/// Every connection is on the plugin's first device.
const DEVICE: c_int = 0;

/// An initialised plugin.
#[derive(Clone, Copy)]
pub(crate) struct Table(&'static v7::Net);

/// Calls a member. A null member or a code other than 0 is an error.
macro_rules! call {
    ($table:expr, $member:ident ( $($argument:expr),* )) => {{
        let function = $table.0.$member.ok_or(concat!("the plugin has no ", stringify!($member)))?;
        // SAFETY: a loaded plugin is never unloaded. Every argument is a value,
        // the address of a local or of registered memory that this program keeps,
        // or a pointer that the plugin gave and has not taken back.
        let code = unsafe { function($($argument),*) };
        if code == 0 { Ok(()) } else { Err(format!("{} was refused: rc {code}", stringify!($member))) }
    }};
}

impl Table {
    /// Loads and initialises the plugin.
    pub(crate) fn load(path: &Path) -> Outcome<Self> {
        let plugin = Plugin::open(&PluginSource::File(path.to_owned()), None)
            .map_err(|error| error.to_string())?;
        plugin.net.init().map_err(|error| error.to_string())?;
        match plugin.net.table() {
            RawTable::V7(table) => Ok(Self(table)),
            _ => Err(format!(
                "{}: the bare driver speaks v7 only",
                path.display()
            )),
        }
    }

    /// Creates a listener and the handle for its one connector.
    pub(crate) fn listen(self) -> Outcome<(Raw, [u8; HANDLE_MAX])> {
        let (mut listener, mut handle) = (null_mut(), Handle([0; HANDLE_MAX]));
        call!(
            self,
            listen(DEVICE, handle.0.as_mut_ptr().cast(), &raw mut listener)
        )?;
        Ok((listener, handle.0))
    }

    /// Calls connect and accept alternately until all have returned a comm.
    pub(crate) fn connect_all(
        self,
        handles: Vec<[u8; HANDLE_MAX]>,
        listeners: &[Raw],
    ) -> Outcome<(Vec<Raw>, Vec<Raw>)> {
        let started = Instant::now();
        let mut handles: Vec<Box<Handle>> = handles
            .into_iter()
            .map(|handle| Box::new(Handle(handle)))
            .collect();
        let mut sends: Vec<Raw> = vec![null_mut(); handles.len()];
        let mut receives: Vec<Raw> = vec![null_mut(); listeners.len()];
        // Kept for the life of the comms, which is that of the process.
        let devices: &'static mut [v7::DeviceHandle] = vec![UNPACK; listeners.len()].leak();
        loop {
            for (comm, handle) in sends
                .iter_mut()
                .zip(&mut handles)
                .filter(|(comm, _)| comm.is_null())
            {
                let mut device = null_mut();
                call!(
                    self,
                    connect(DEVICE, handle.0.as_mut_ptr().cast(), comm, &raw mut device)
                )?;
            }
            for ((comm, listener), device) in
                receives.iter_mut().zip(listeners).zip(devices.iter_mut())
            {
                if comm.is_null() {
                    let mut device = &raw mut *device;
                    call!(self, accept(*listener, comm, &raw mut device))?;
                }
            }
            if !sends.iter().chain(&receives).any(|comm| comm.is_null()) {
                return Ok((sends, receives));
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("not connected within {} s", PATIENCE.as_secs()));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Registers all of `region`, which must outlive the registration.
    pub(crate) fn register(self, comm: Raw, region: &Arc<Region>) -> Outcome<Raw> {
        let mut mhandle = null_mut();
        let size = c_int::try_from(region.len())
            .map_err(|_| "more than a C int can register".to_owned())?;
        call!(
            self,
            reg_mr(
                comm,
                region.as_ptr().cast(),
                size,
                PTR_HOST,
                &raw mut mhandle
            )
        )?;
        Ok(mhandle)
    }

    /// Posts a send. Null if the plugin says "try again".
    pub(crate) fn isend(self, comm: Raw, data: Raw, size: c_int, mhandle: Raw) -> Outcome<Raw> {
        let mut request = null_mut();
        call!(self, isend(comm, data, size, 0, mhandle, &raw mut request))?;
        Ok(request)
    }

    /// Posts a receive, as `isend`.
    pub(crate) fn irecv(
        self,
        comm: Raw,
        mut data: Raw,
        mut size: c_int,
        mut mhandle: Raw,
    ) -> Outcome<Raw> {
        let (mut tag, mut request) = (0, null_mut());
        let (data, size, mhandle) = (&raw mut data, &raw mut size, &raw mut mhandle);
        call!(
            self,
            irecv(comm, 1, data, size, &raw mut tag, mhandle, &raw mut request)
        )?;
        Ok(request)
    }

    /// Whether a request is done.
    pub(crate) fn test(self, request: Raw) -> Outcome<bool> {
        let (mut done, mut size) = (0, 0);
        call!(self, test(request, &raw mut done, &raw mut size))?;
        Ok(done != 0)
    }

    /// Consumes a finished receive.
    pub(crate) fn consume(self, comm: Raw, request: Raw) -> Outcome<()> {
        if self.0.irecv_consumed.is_none() {
            return Ok(());
        }
        call!(self, irecv_consumed(comm, 1, request))
    }

    /// Ends a registration.
    pub(crate) fn deregister(self, comm: Raw, mhandle: Raw) -> Outcome<()> {
        call!(self, dereg_mr(comm, mhandle))
    }

    /// Closes a sending end.
    pub(crate) fn close_send(self, comm: Raw) -> Outcome<()> {
        call!(self, close_send(comm))
    }

    /// Closes a receiving end.
    pub(crate) fn close_receive(self, comm: Raw) -> Outcome<()> {
        call!(self, close_recv(comm))
    }

    /// Closes a listener.
    pub(crate) fn close_listen(self, listener: Raw) -> Outcome<()> {
        call!(self, close_listen(listener))
    }
}

/// A device handle for `accept`; TCPX crashes in the first receive of a comm accepted without
/// one.
const UNPACK: v7::DeviceHandle = v7::DeviceHandle {
    net_device_type: NET_DEVICE_UNPACK,
    net_device_version: NET_DEVICE_UNPACK_VERSION,
    handle: null_mut(),
    size: 0,
    needs_proxy_progress: 0,
};
