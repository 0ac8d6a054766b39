//! The calls themselves. v7 and v8 differ by one argument's width, so this is
//! written once and expanded against each version's own transcription.
//!
//! Every pointer that goes in is ours and lives as long as the call needs it;
//! every pointer that comes out is null-checked and becomes a token at once.

macro_rules! net_shim {
    ($abi:path, $version:literal, $variant:ident, $reg_size:ty) => {
        use crate::gpu::{MemoryKind, Region, Span};
        use crate::plugin::error::PluginError;
        use crate::plugin::log;
        use crate::plugin::net::{
            About, Comm, ConnectHandle, Connecting, Device, DeviceHandle, ListenComm, MHandle, Net, PluginResult,
            RawTable, RecvComm, Request, SendComm, Tested,
        };
        use std::ffi::{CStr, c_char, c_int, c_void};
        use std::ptr::{NonNull, null_mut};
        use std::sync::Arc;
        use tcpx_abi::{HANDLE_MAX, ResultCode, result};
        use $abi as abi;

        struct Shim {
            about: About,
            table: &'static abi::Net,
        }

        /// The safe face of a table whose required members are present (checked
        /// by `load`; a missing one is an error at its call).
        pub fn wrap(table: &'static abi::Net) -> Arc<dyn Net> {
            // SAFETY: a table's name is a literal of the plugin, which stays loaded.
            let name = unsafe { text(table.name) }.unwrap_or_default();
            let about = About { name, abi: $version, consumes: table.irecv_consumed.is_some() };
            Arc::new(Shim { about, table })
        }

        /// # Safety
        /// `pointer` is null or a NUL-terminated string that lives through the call.
        unsafe fn text(pointer: *const c_char) -> Option<String> {
            if pointer.is_null() {
                return None;
            }
            // SAFETY: the caller's promise.
            let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
            Some(crate::units::printable(&String::from_utf8_lossy(&bytes[..bytes.len().min(1024)])))
        }

        fn check(call: &'static str, code: ResultCode) -> PluginResult<()> {
            if code == result::SUCCESS {
                return Ok(());
            }
            Err(PluginError::Refused { call, code, said: log::take_said() })
        }

        /// As `check`, where nobody forgot older lines before the call.
        #[cold]
        fn refused(call: &'static str, code: ResultCode) -> PluginError {
            PluginError::Refused { call, code, said: log::take_last_said() }
        }

        fn int(call: &'static str, len: usize) -> PluginResult<c_int> {
            c_int::try_from(len).map_err(|_| PluginError::TooLarge { call, len })
        }

        fn member<T>(call: &'static str, entry: Option<T>) -> PluginResult<T> {
            entry.ok_or(PluginError::Missing { call })
        }

        impl Net for Shim {
            fn about(&self) -> &About {
                &self.about
            }

            fn table(&self) -> RawTable {
                RawTable::$variant(self.table)
            }

            fn init(&self) -> PluginResult<()> {
                let init = member("init", self.table.init)?;
                log::forget_said();
                // SAFETY: the logger is a function that lives as long as the process.
                check("init", unsafe { init(log::installed()) })
            }

            fn devices(&self) -> PluginResult<usize> {
                let devices = member("devices", self.table.devices)?;
                let mut count: c_int = 0;
                log::forget_said();
                // SAFETY: `count` is ours to write.
                check("devices", unsafe { devices(&mut count) })?;
                usize::try_from(count).map_err(|_| PluginError::BrokenPromise {
                    call: "devices",
                    what: format!("counted {count} devices"),
                })
            }

            fn properties(&self, device: usize) -> PluginResult<Device> {
                let get_properties = member("getProperties", self.table.get_properties)?;
                let mut properties = abi::Properties::ZERO;
                log::forget_said();
                // SAFETY: the struct is this version's own and ours to write.
                check("getProperties", unsafe { get_properties(int("getProperties", device)?, &mut properties) })?;
                // SAFETY: the plugin owns the string for as long as it is loaded.
                let name = unsafe { text(properties.name) };
                // SAFETY: as above.
                let pci_path = unsafe { text(properties.pci_path) };
                Ok(Device {
                    index: device,
                    name: name.unwrap_or_else(|| format!("device {device}")),
                    pci_path: pci_path.filter(|path| !path.is_empty()),
                    guid: properties.guid,
                    ptr_support: properties.ptr_support,
                    speed_mbps: properties.speed,
                    port: properties.port,
                    latency_us: properties.latency,
                    max_comms: properties.max_comms,
                    max_recvs: properties.max_recvs,
                    net_device_type: properties.net_device_type,
                    net_device_version: properties.net_device_version,
                })
            }

            fn listen(&self, device: usize) -> PluginResult<(ListenComm, ConnectHandle)> {
                let listen = member("listen", self.table.listen)?;
                #[repr(align(16))]
                struct Aligned([u8; HANDLE_MAX]);
                let mut handle = Aligned([0; HANDLE_MAX]);
                let mut raw = null_mut();
                log::forget_said();
                // SAFETY: the handle has the 128 bytes that the ABI promises, both
                // out-parameters are ours.
                let code = unsafe { listen(int("listen", device)?, handle.0.as_mut_ptr().cast::<c_void>(), &mut raw) };
                check("listen", code)?;
                let raw = NonNull::new(raw)
                    .ok_or_else(|| PluginError::BrokenPromise { call: "listen", what: "gave no comm".into() })?;
                Ok((ListenComm { raw, accepted: false, device_handle: None }, ConnectHandle(handle.0)))
            }

            fn connect(&self, device: usize, connecting: &mut Connecting) -> PluginResult<Option<SendComm>> {
                let connect = member("connect", self.table.connect)?;
                if connecting.finished {
                    return Err(PluginError::UsedUp { call: "connect", what: "handle" });
                }
                let mut raw = null_mut();
                let mut device_handle: *mut DeviceHandle = null_mut();
                let (device, buffer) = (int("connect", device)?, connecting.as_ptr());
                log::forget_said();
                // SAFETY: the buffer is private to this connection, stays at its
                // address until the last call, and is not passed again once the
                // plugin has answered; a sender's device handle stays null, as in NCCL.
                let code = unsafe { connect(device, buffer, &mut raw, &mut device_handle) };
                connecting.finished = code != result::SUCCESS || !raw.is_null();
                check("connect", code)?;
                Ok(NonNull::new(raw).map(|raw| SendComm { raw }))
            }

            fn accept(&self, listen: &mut ListenComm) -> PluginResult<Option<RecvComm>> {
                let accept = member("accept", self.table.accept)?;
                if listen.accepted {
                    return Err(PluginError::UsedUp { call: "accept", what: "listener" });
                }
                // TCPX crashes in the first receive without a real struct here.
                let device_handle = listen.device_handle.get_or_insert_with(|| {
                    Box::new(DeviceHandle {
                        net_device_type: tcpx_abi::NET_DEVICE_UNPACK,
                        net_device_version: tcpx_abi::NET_DEVICE_UNPACK_VERSION,
                        handle: null_mut(),
                        size: 0,
                        needs_proxy_progress: 0,
                    })
                });
                let mut pointer: *mut DeviceHandle = &mut **device_handle;
                let mut raw = null_mut();
                log::forget_said();
                // SAFETY: the listener is open and has not accepted yet; the device
                // handle outlives the comm, which owns it from then on.
                let code = unsafe { accept(listen.raw.as_ptr(), &mut raw, &mut pointer) };
                listen.accepted = code != result::SUCCESS || !raw.is_null();
                check("accept", code)?;
                Ok(NonNull::new(raw).map(|raw| RecvComm { raw, device_handle: listen.device_handle.take() }))
            }

            fn reg_mr(&self, comm: Comm<'_>, region: &Arc<Region>, offset: usize, len: usize) -> PluginResult<MHandle> {
                let reg_mr = member("regMr", self.table.reg_mr)?;
                let span = region.span(offset, len).ok_or(PluginError::OutsideRegistration { call: "regMr" })?;
                let size = <$reg_size>::try_from(len).map_err(|_| PluginError::TooLarge { call: "regMr", len })?;
                let kind = match region.kind() {
                    MemoryKind::Host => tcpx_abi::PTR_HOST,
                    MemoryKind::Device => tcpx_abi::PTR_CUDA,
                };
                let mut raw = null_mut();
                log::forget_said();
                // SAFETY: the comm is open; the `MHandle` keeps the region alive as
                // long as the registration; `size` is the span's own length.
                let code = unsafe { reg_mr(comm.raw().as_ptr(), span.as_ptr().cast::<c_void>(), size, kind, &mut raw) };
                check("regMr", code)?;
                let start = span.as_ptr().addr();
                Ok(MHandle { raw, region: Some(Arc::clone(region)), start, end: start + len })
            }

            fn dereg_mr(&self, comm: Comm<'_>, mut mhandle: MHandle) -> PluginResult<()> {
                let dereg_mr = member("deregMr", self.table.dereg_mr)?;
                log::forget_said();
                // SAFETY: the registration was made on this plugin and is given up here.
                check("deregMr", unsafe { dereg_mr(comm.raw().as_ptr(), mhandle.raw) })?;
                drop(mhandle.region.take());
                Ok(())
            }

            fn isend(&self, comm: &SendComm, data: Span, mhandle: &MHandle) -> PluginResult<Option<Request>> {
                let isend = member("isend", self.table.isend)?;
                if !mhandle.covers(data) {
                    return Err(PluginError::OutsideRegistration { call: "isend" });
                }
                let (buffer, len) = (data.as_ptr().cast::<c_void>(), int("isend", data.len())?);
                let mut raw = null_mut();
                // SAFETY: the comm is open, the span lies inside the registration,
                // whose region the `MHandle` keeps alive. Tags are not matched.
                let code = unsafe { isend(comm.raw.as_ptr(), buffer, len, 0, mhandle.raw, &mut raw) };
                if code != result::SUCCESS {
                    return Err(refused("isend", code));
                }
                Ok(NonNull::new(raw).map(Request))
            }

            fn irecv(&self, comm: &RecvComm, data: Span, mhandle: &MHandle) -> PluginResult<Option<Request>> {
                let irecv = member("irecv", self.table.irecv)?;
                if !mhandle.covers(data) {
                    return Err(PluginError::OutsideRegistration { call: "irecv" });
                }
                let mut len = int("irecv", data.len())?;
                let (mut buffer, mut tag, mut registration) = (data.as_ptr().cast::<c_void>(), 0, mhandle.raw);
                let mut raw = null_mut();
                // SAFETY: one receive, so every array is one element of ours; the
                // span lies inside the registration, whose region the `MHandle` keeps.
                let code = unsafe {
                    irecv(comm.raw.as_ptr(), 1, &mut buffer, &mut len, &mut tag, &mut registration, &mut raw)
                };
                if code != result::SUCCESS {
                    return Err(refused("irecv", code));
                }
                Ok(NonNull::new(raw).map(Request))
            }

            fn test(&self, request: Request) -> PluginResult<Tested> {
                let test = member("test", self.table.test)?;
                let (mut done, mut reported) = (0, 0);
                // SAFETY: the request came from this plugin; at most one receive is
                // grouped, so one size is enough.
                let code = unsafe { test(request.as_ptr(), &mut done, &mut reported) };
                if code != result::SUCCESS {
                    return Err(refused("test", code));
                }
                Ok(Tested { done: done != 0, reported })
            }

            fn irecv_consumed(&self, comm: &RecvComm, request: Request) -> PluginResult<()> {
                let Some(irecv_consumed) = self.table.irecv_consumed else { return Ok(()) };
                // SAFETY: the comm is open and the request is one of its receives.
                let code = unsafe { irecv_consumed(comm.raw.as_ptr(), 1, request.as_ptr()) };
                if code != result::SUCCESS {
                    return Err(refused("irecvConsumed", code));
                }
                Ok(())
            }

            fn close_send(&self, comm: SendComm) -> PluginResult<()> {
                let close = member("closeSend", self.table.close_send)?;
                log::forget_said();
                // SAFETY: taken by value, so nobody uses this comm again.
                check("closeSend", unsafe { close(comm.raw.as_ptr()) })
            }

            fn close_recv(&self, comm: RecvComm) -> PluginResult<()> {
                let close = member("closeRecv", self.table.close_recv)?;
                log::forget_said();
                // SAFETY: taken by value, so nobody uses this comm again.
                check("closeRecv", unsafe { close(comm.raw.as_ptr()) })
            }

            fn close_listen(&self, comm: ListenComm) -> PluginResult<()> {
                let close = member("closeListen", self.table.close_listen)?;
                log::forget_said();
                // SAFETY: taken by value; an accepted comm does not depend on it.
                check("closeListen", unsafe { close(comm.raw.as_ptr()) })
            }
        }
    };
}
